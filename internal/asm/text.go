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

	// The first run is an argument of the kernel. The others stand behind this
	// struct, from next to end, offsets from its beginning: a pointer would
	// send it to the heap.
	next, end uint64
}

// A run is a part of a text that is in one place: for a seal, where text is
// read from, for an open, where it goes.
type run struct {
	text *byte
	size uint64
}

// shape is the sizes of a backend's longest short text, and of its batches, in
// bytes. batch is a power of two, and firstBatch is slots 0 and 1 less.
type shape struct {
	short, firstBatch, batch int
}

var shapes = [backends]shape{
	AESNI:  {aesniShortSize, aesniFirstBatchSize, aesniBatchSize},
	VAES:   {vaesShortSize, vaesFirstBatchSize, vaesBatchSize},
	AVX512: {avx512ShortSize, avx512FirstBatchSize, avx512BatchSize},
}

// notText is the size of what batch 0 has in the place of text.
const notText = 2 * blockSize

// up and down round an offset in a text to where a batch ends, or to 0.

func (s *shape) up(offset int) int {
	if offset == 0 {
		return 0
	}
	return (offset+notText+s.batch-1)&^(s.batch-1) - notText
}

func (s *shape) down(offset int) int {
	return max((offset+notText)&^(s.batch-1)-notText, 0)
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
	var c calls
	c.begin(k, dst, size+int(trailer>>8), n, ad)
	c.trailer = trailer
	c.add(src, size)
	c.call(true)
}

// SealSplit is Seal for a text of size bytes that begins with prefix bytes at
// src and goes on at dst+prefix, where it is sealed in place.
//
// Whole batches are read from src. The rest, less than a batch, is moved to
// its place.
func (k *Key) SealSplit(dst, src *byte, prefix, size int, n Nonce, ad AD) {
	k.prepare(size)
	text, apart := unsafe.Slice(dst, size), unsafe.Slice(src, prefix)
	seam := shapes[k.backend].down(prefix)
	if seam < splitSize || size > maxCall {
		seam = 0
	}
	copy(text[seam:], apart[seam:])
	if seam == 0 {
		k.Seal(dst, dst, size, n, ad)
		return
	}
	s := splitStream(size, seam, dst)
	k.sealStream(dst, src, uint64(seam), 0, n, ad, uint64(size)*8, &s.stream)
}

// split is a stream of two runs and one call.
type split struct {
	stream
	rest [1]run
}

// splitStream returns the stream for size bytes of text whose place is at text,
// of which seam bytes are elsewhere.
func splitStream(size, seam int, text *byte) (s split) {
	s.size = uint64(size)
	s.final = 1
	s.next = uint64(unsafe.Offsetof(s.rest))
	s.end = uint64(unsafe.Sizeof(s))
	s.rest[0] = run{(*byte)(unsafe.Add(unsafe.Pointer(text), seam)), uint64(size - seam)}
	return s
}

// SealPieces writes the ciphertext of pieces, size bytes together, and the tag
// to dst. A piece may be in its place there; otherwise it must not overlap dst.
//
// Where a piece has whole batches they are read from it. The rest is moved to
// its place in dst and sealed there: less than a batch on each side of a seam.
func (k *Key) SealPieces(dst *byte, size int, pieces [][]byte, n Nonce, ad AD) {
	text := unsafe.Slice(dst, size)
	if size < gatherSize {
		for _, p := range pieces {
			if len(p) > 0 && &p[0] != &text[0] {
				copy(text, p)
			}
			text = text[len(p):]
		}
		k.Seal(dst, dst, size, n, ad)
		return
	}
	k.prepare(size)
	var c calls
	c.begin(k, dst, size, n, ad)
	offset := 0
	for _, p := range pieces {
		place := text[offset : offset+len(p)]
		if len(p) > 0 && &p[0] != &place[0] {
			from, to := c.direct(offset, len(p))
			copy(place[:from], p)
			if from < to {
				c.addPlace(offset+from, offset+to)
				c.add(&p[from], to-from)
			}
			copy(place[to:], p[to:])
		}
		offset += len(p)
	}
	c.addPlace(size, size)
	c.call(true)
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
	var c calls
	c.begin(k, src, size+int(trailer), n, ad)
	c.opens = true
	c.trailer = trailer
	c.add(dst, size)
	c.call(true)
	return c.ok, c.last
}

// OpenSplit is Open for a plaintext of size bytes of which the first prefix
// bytes go to dst, and the others replace their ciphertext.
//
// Whole batches go to dst at once. The rest, less than a batch, is opened where
// it stands, moved if the tag is right, and erased there. If the tag is not
// right all of dst and what is opened in place must be erased.
func (k *Key) OpenSplit(dst, src *byte, prefix, size int, n Nonce, ad AD) (ok bool) {
	k.prepare(size)
	text, apart := unsafe.Slice(src, size), unsafe.Slice(dst, prefix)
	seam := shapes[k.backend].down(prefix)
	if seam < splitSize || size > maxCall {
		seam = 0
		ok = k.Open(src, src, size, n, ad)
	} else {
		s := splitStream(size, seam, src)
		ok, _ = k.openStream(dst, src, uint64(seam), 0, n, ad, uint64(size)*8, &s.stream)
	}
	if ok {
		copy(apart[seam:], text[seam:])
	}
	clear(text[seam:prefix])
	return ok
}

// OpenPieces is Open for a plaintext that goes to pieces, size bytes together.
// A piece may be where its ciphertext is; otherwise it must not overlap it.
//
// Where a piece has whole batches they are written to it. The rest is opened
// where it stands, and moved when the tag is known to be right. What stood
// where it was moved from, or would have been, is zeros in the end. If the tag
// is not right the pieces must be erased.
func (k *Key) OpenPieces(pieces [][]byte, src *byte, size int, n Nonce, ad AD) (ok bool) {
	text := unsafe.Slice(src, size)
	if size < gatherSize {
		ok = k.Open(src, src, size, n, ad)
		for _, p := range pieces {
			moveOut(p, text[:len(p)], ok)
			text = text[len(p):]
		}
		return ok
	}
	k.prepare(size)
	var c calls
	c.begin(k, src, size, n, ad)
	c.opens = true
	offset := 0
	for _, p := range pieces {
		if len(p) > 0 && &p[0] != &text[offset] {
			if from, to := c.direct(offset, len(p)); from < to {
				c.addPlace(offset+from, offset+to)
				c.add(&p[from], to-from)
			}
		}
		offset += len(p)
	}
	c.addPlace(size, size)
	c.call(true)

	offset = 0
	for _, p := range pieces {
		place := text[offset : offset+len(p)]
		if len(p) > 0 && &p[0] != &place[0] {
			from, to := c.direct(offset, len(p))
			moveOut(p[:from], place[:from], c.ok)
			moveOut(p[to:], place[to:], c.ok)
		}
		offset += len(p)
	}
	return c.ok
}

// moveOut moves plaintext, which may stand where it goes, from place to p if
// it is verified. Elsewhere it leaves zeros in place.
func moveOut(p, place []byte, verified bool) {
	if len(p) == 0 || &p[0] == &place[0] {
		return
	}
	if verified {
		copy(p, place)
	}
	clear(place)
}

const (
	// splitSize is the shortest prefix, in whole batches, that is sealed or
	// opened where it is, if the rest is elsewhere, and gatherSize the shortest
	// text that is if it is in pieces. Below them it is cheaper to move bytes
	// than to have the kernel change from one place to another.
	splitSize  = 1024
	gatherSize = 4096
)

// calls turns a text, which may be in many places, into as many calls of a
// kernel as it takes. The text has a place of its own, the output of a seal or
// the input of an open, where what is not elsewhere is.
type calls struct {
	stream
	list [maxRuns]run // behind stream, where kernels look

	key     *Key
	shape   *shape
	text    *byte // the text's place
	total   int   // its size
	opens   bool
	trailer uint64
	nonce   Nonce
	ad      AD

	place  int // offset in the text behind the last part that is elsewhere
	runs   int // in list
	offset int // in the text, of the first of them
	listed int // bytes in them

	// The results of the last call of an open.
	ok   bool
	last byte
}

// maxRuns is the number of runs in one call: a seam takes two.
const maxRuns = 5

func (c *calls) begin(k *Key, text *byte, size int, n Nonce, ad AD) {
	c.key, c.shape = k, &shapes[k.backend]
	c.text, c.total = text, size
	c.nonce, c.ad = n, ad
}

// direct returns the part of a piece of n bytes, which stands at offset in the
// text, that a kernel can read or write elsewhere: whole batches, and the rest
// of the last piece. from is to if there is none.
func (c *calls) direct(offset, n int) (from, to int) {
	from = c.shape.up(offset)
	to = offset + n
	if to != c.total {
		to = c.shape.down(to)
	}
	if to-from < c.shape.batch {
		return 0, 0
	}
	return from - offset, to - offset
}

// addPlace adds a run for what is in its place before from. What follows from
// there up to to is elsewhere.
func (c *calls) addPlace(from, to int) {
	c.add((*byte)(unsafe.Add(unsafe.Pointer(c.text), c.place)), from-c.place)
	c.place = to
}

// add appends a run.
func (c *calls) add(text *byte, size int) {
	if size == 0 {
		return
	}
	if c.runs == maxRuns-1 || c.listed+size > maxCall {
		text, size = c.addMany(text, size)
	}
	c.list[c.runs] = run{text, uint64(size)}
	c.runs++
	c.listed += size
}

// addMany makes calls until what it returns, the end of the run, can be
// appended.
func (c *calls) addMany(text *byte, size int) (*byte, int) {
	// A run of less than a batch is the last one. It joins those before it,
	// whatever their number and size.
	for size >= c.shape.batch && (c.runs == maxRuns-1 || c.listed+size > maxCall) {
		at := c.offset + c.listed
		n := min(c.shape.down(c.offset+maxCall), at+size) - at
		if c.runs < maxRuns-1 && n >= c.shape.batch {
			if size-n < c.shape.batch {
				return text, size
			}
			c.list[c.runs] = run{text, uint64(n)}
			c.runs++
			c.listed += n
			text = (*byte)(unsafe.Add(unsafe.Pointer(text), n))
			size -= n
		}
		c.call(false)
	}
	return text, size
}

// call makes a call for the runs in the list and empties it. Only the last
// call may have none.
func (c *calls) call(final bool) {
	s := &c.stream
	first := c.list[0]
	s.size = uint64(c.listed)
	s.next = uint64(unsafe.Offsetof(c.list) + unsafe.Sizeof(first))
	s.end = uint64(unsafe.Offsetof(c.list) + unsafe.Sizeof(first)*uintptr(c.runs))
	trailer := uint64(0)
	if final {
		s.final = 1
		if trailer = c.trailer; trailer != 0 {
			s.size++
		}
	}
	if c.offset > 0 {
		// Text begins with counter 2.
		s.counter = uint64(c.offset+notText) / blockSize
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
