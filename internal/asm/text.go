package asm

import "unsafe"

// maxCall is the number of bytes of text, give or take a batch, in one call of
// a kernel. Nothing preempts a kernel, so a call must not be so long that it
// delays the garbage collector: this is some 20 µs of the slowest one.
const maxCall = 64 << 10

// A stream is a text that takes more than one call of a kernel, or one that is
// not in one place.
//
// Calls and runs end where a batch ends: batch 0 has firstBatch bytes of text,
// every other one has batch bytes. Only the last run of the last call need not,
// and it must not be less than a batch and the first of its call. The last
// run of a seal may have less than 16 bytes only if there is text before it.
type stream struct {
	hash    [blockSize]byte // between calls: the hash so far
	mask    [blockSize]byte // between calls: E(J₀)
	size    uint64          // bytes of text in this call
	counter uint64          // of the block that this call begins with, 0 in the first call
	final   uint64          // 1 in the last call, else 0

	// next and end are where in this struct the next run is, and where the
	// last one ends, as offsets: a pointer into itself would send it to the
	// heap. The first run is an argument of the kernel.
	next, end uint64
	list      [maxRuns]run
}

// A run is a part of a text that is in one place: for a seal, where text is
// read from, for an open, where it goes.
type run struct {
	text *byte
	size uint64
}

// maxRuns is the number of runs in one call: a seam takes two. More would cost
// more to clear in each call than they save; not tuned.
const maxRuns = 9

// shape is the sizes of a backend's longest short text, and of its batches, in
// bytes.
type shape struct {
	short, firstBatch, batch int
}

var shapes = [backends]shape{
	AESNI: {aesniShortSize, aesniFirstBatchSize, aesniBatchSize},
	VAES:  {vaesShortSize, vaesFirstBatchSize, vaesBatchSize},
}

// up and down round an offset in a text to where a batch ends, or to 0.

func (s shape) up(offset int) int {
	if offset == 0 {
		return 0
	}
	if offset <= s.firstBatch {
		return s.firstBatch
	}
	gap := s.batch - s.firstBatch
	return (offset+gap+s.batch-1)&^(s.batch-1) - gap
}

func (s shape) down(offset int) int {
	if offset < s.firstBatch {
		return 0
	}
	gap := s.batch - s.firstBatch
	return (offset+gap)&^(s.batch-1) - gap
}

// prepare makes sure that k has the powers for size bytes of text.
func (k *Key) prepare(size int) {
	if k.long == nil && size > shapes[k.backend].short {
		k.makeLong()
	}
}

// Seal writes the ciphertext of size bytes of text at src, and the tag, to dst.
// dst may equal src and must not overlap the text in another way.
func (k *Key) Seal(dst, src *byte, size int, n Nonce, ad AD) {
	k.sealText(dst, src, size, 0, n, ad)
}

// SealTrailer is Seal for the text at src followed by the byte trailer.
func (k *Key) SealTrailer(dst, src *byte, size int, trailer byte, n Nonce, ad AD) {
	k.sealText(dst, src, size, sealTrailer|uint64(trailer), n, ad)
}

// sealTrailer says to a seal that there is a trailer.
const sealTrailer = 1 << 8

// sealLong is sealText for a text of more than one call.
//
//go:noinline
func (k *Key) sealLong(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) {
	s := sealing(k, dst, size+int(trailer>>8), n, ad)
	s.trailer = trailer
	s.add(src, size)
	s.call(true)
}

// SealPieces writes the ciphertext of pieces, size bytes together, and the tag
// to dst. A piece may be in its place there; otherwise it must not overlap dst.
//
// Where a piece has whole batches they are read from it. The rest is moved to
// its place in dst and sealed there: less than a batch on each side of a seam.
func (k *Key) SealPieces(dst *byte, size int, pieces [][]byte, n Nonce, ad AD) {
	k.prepare(size)
	s := sealing(k, dst, size, n, ad)
	w := walk{shape: s.shape, text: dst, size: size}
	for _, p := range pieces {
		c := w.next(p)
		if c.inPlace {
			continue
		}
		copy(w.slice(c.begin, c.direct), p)
		if c.direct < c.rest {
			s.add(w.at(c.place), c.direct-c.place)
			s.add(&p[c.direct-c.begin], c.rest-c.direct)
		}
		copy(w.slice(c.rest, c.end), p[c.rest-c.begin:])
	}
	s.add(w.at(w.place), size-w.place)
	s.call(true)
}

// Open writes the plaintext of size bytes of ciphertext at src, behind which
// the tag stands, to dst and reports whether the tag is right. If not, what it
// wrote must be erased. dst may equal src and must not overlap the ciphertext
// in another way.
func (k *Key) Open(dst, src *byte, size int, n Nonce, ad AD) bool {
	ok, _ := k.openText(dst, src, size, 0, n, ad)
	return ok
}

// OpenTrailer is Open for size+1 bytes of ciphertext, of which the last byte of
// plaintext is a result.
func (k *Key) OpenTrailer(dst, src *byte, size int, n Nonce, ad AD) (ok bool, trailer byte) {
	return k.openText(dst, src, size, 1, n, ad)
}

// openLong is openText for a text of more than one call.
//
//go:noinline
func (k *Key) openLong(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) (ok bool, last byte) {
	s := opening(k, src, size+int(trailer), n, ad)
	s.trailer = trailer
	s.add(dst, size)
	s.call(true)
	return s.ok, s.last
}

// OpenPieces is Open for a plaintext that goes to pieces, size bytes together.
// A piece may be where its ciphertext is; otherwise it must not overlap it.
//
// Where a piece has whole batches they are written to it. The rest is opened
// where it stands, and moved when the tag is known to be right. What stood
// where it was moved from, or would have been, is zeros in the end. If the tag
// is not right the pieces must be erased.
func (k *Key) OpenPieces(pieces [][]byte, src *byte, size int, n Nonce, ad AD) bool {
	k.prepare(size)
	s := opening(k, src, size, n, ad)
	start := walk{shape: s.shape, text: src, size: size}
	w := start
	for _, p := range pieces {
		if c := w.next(p); !c.inPlace && c.direct < c.rest {
			s.add(w.at(c.place), c.direct-c.place)
			s.add(&p[c.direct-c.begin], c.rest-c.direct)
		}
	}
	s.add(w.at(w.place), size-w.place)
	s.call(true)

	w = start
	for _, p := range pieces {
		c := w.next(p)
		if c.inPlace {
			continue
		}
		before, behind := w.slice(c.begin, c.direct), w.slice(c.rest, c.end)
		if s.ok {
			copy(p, before)
			copy(p[c.rest-c.begin:], behind)
		}
		clear(before)
		clear(behind)
	}
	return s.ok
}

// A walk goes over the pieces of a text and decides which parts of them a
// kernel reads or writes where they are. The text has a place of its own, the
// output of a seal or the input of an open, where the other parts are.
type walk struct {
	shape
	text *byte
	size int

	offset int // of the next piece in the text
	place  int // where the last direct part ends: what follows is in its place
}

// A cut is where a piece stands in the text, by offset, and what of it is
// direct: that from direct to rest.
type cut struct {
	begin, direct, rest, end int

	place   int  // where the direct part before ends
	inPlace bool // all of the piece is where the text is
}

func (w *walk) next(p []byte) cut {
	c := cut{begin: w.offset, end: w.offset + len(p), place: w.place}
	w.offset = c.end
	c.direct, c.rest = c.end, c.end
	if len(p) == 0 || unsafe.SliceData(p) == w.at(c.begin) {
		c.inPlace = true
		return c
	}
	from, to := w.up(c.begin), w.down(c.end)
	if c.end == w.size {
		to = c.end
	}
	if to-from >= w.batch {
		c.direct, c.rest = from, to
		w.place = to
	}
	return c
}

// at is the address of an offset in the text, which may be its end.
func (w *walk) at(offset int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(w.text), offset)) }

func (w *walk) slice(begin, end int) []byte { return unsafe.Slice(w.at(begin), end-begin) }

// calls turns runs into as many calls of a kernel as it takes.
type calls struct {
	stream

	key     *Key
	shape   shape
	text    *byte // all of the output of a seal or the input of an open
	total   int   // its size without the tag
	opens   bool
	trailer uint64
	nonce   Nonce
	ad      AD

	runs   int // in list
	offset int // in the text of the first of them
	listed int // bytes in them

	// The results of the last call of an open.
	ok   bool
	last byte
}

func sealing(k *Key, dst *byte, size int, n Nonce, ad AD) calls {
	return calls{key: k, shape: shapes[k.backend], text: dst, total: size, nonce: n, ad: ad}
}

func opening(k *Key, src *byte, size int, n Nonce, ad AD) calls {
	return calls{key: k, shape: shapes[k.backend], text: src, total: size, nonce: n, ad: ad, opens: true}
}

// add appends a run, and makes calls when there is enough for one.
func (c *calls) add(text *byte, size int) {
	for size > 0 {
		n := size
		// A run of less than a batch is the last one, or the first. It joins
		// those before it, whatever their number and size.
		if size >= c.shape.batch {
			at := c.offset + c.listed
			if c.listed+size > maxCall {
				n = c.shape.down(c.offset+maxCall) - at
			}
			if c.runs == maxRuns-1 || n < c.shape.batch {
				c.call(false)
				continue
			}
			if size-n < c.shape.batch {
				n = size
			}
		}
		c.list[c.runs] = run{text, uint64(n)}
		c.runs++
		c.listed += n
		if size -= n; size > 0 {
			// Not behind the last byte: that address may be another object's,
			// or none, and the collector does not suffer the latter.
			text = (*byte)(unsafe.Add(unsafe.Pointer(text), n))
		}
	}
}

// call makes a call for the runs in the list and empties it. Only the last
// call may have none.
func (c *calls) call(final bool) {
	s := &c.stream
	first := c.list[0]
	s.size = uint64(c.listed)
	s.next = uint64(unsafe.Offsetof(s.list) + unsafe.Sizeof(first))
	s.end = uint64(unsafe.Offsetof(s.list) + unsafe.Sizeof(first)*uintptr(c.runs))
	trailer := uint64(0)
	if final {
		s.final = 1
		if trailer = c.trailer; trailer != 0 {
			s.size++
		}
	}
	if c.offset > 0 {
		// Text begins with counter 2.
		s.counter = uint64(c.offset)/blockSize + 2
	}
	if final && c.offset == 0 && c.runs <= 1 {
		s = nil // all there is
	}
	text := (*byte)(unsafe.Add(unsafe.Pointer(c.text), c.offset))
	if c.opens {
		c.ok, c.last = c.key.openStream(first.text, text, first.size, trailer, c.nonce, c.ad, uint64(c.total)*8, s)
	} else {
		c.key.sealStream(text, first.text, first.size, trailer, c.nonce, c.ad, uint64(c.total)*8, s)
	}
	c.offset += c.listed
	c.runs, c.listed = 0, 0
}
