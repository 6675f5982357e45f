package asm

import (
	"encoding/binary"
	"unsafe"
)

// maxCall is the number of bytes of text, give or take a batch, in one call of
// a kernel. Nothing preempts a kernel, so a call must not be so long that it
// delays the garbage collector: this is some 20 µs of the slowest one.
const maxCall = 64 << 10

// A stream is a text that takes more than one call of a kernel, or one in
// pieces: those that a seal reads from, or an open writes to.
//
// Calls end where a batch ends: batch 0 has firstBatch bytes of text, every
// other one has batch bytes. Only the last call need not, and no call has less
// than its first batch.
type stream struct {
	hash    [blockSize]byte // between calls: the hash so far
	mask    [blockSize]byte // between calls: E(J₀)
	size    uint64          // bytes of text in this call
	counter uint64          // of the block that this call begins with, 0 in the first call
	final   uint64          // 1 in the last call, else 0

	// The first run of text is an argument of the kernel. The rest of this
	// call's text, in bytes, is in pieces, of which only as many are looked at
	// as it takes.
	pieces *[]byte
	rest   uint64
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
	if k.long.Load() == nil && size > shapes[k.backend].short {
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
	bits := (uint64(size) + trailer>>8) * 8
	c := calls{shape: &shapes[k.backend], total: size}
	for c.next() {
		t := uint64(0)
		if c.final == 1 {
			t = trailer
			c.size += t >> 8
		}
		k.sealStream(offset(dst, c.begin), offset(src, c.begin), uint64(c.end-c.begin), t, n, ad, bits, &c.stream)
	}
}

// SealSplit is Seal for a text of size bytes that begins with prefix bytes at
// src and goes on at dst+prefix, where it is sealed in place.
func (k *Key) SealSplit(dst, src *byte, prefix, size int, n Nonce, ad AD) {
	text, apart := unsafe.Slice(dst, size), unsafe.Slice(src, prefix)
	if size > maxCall {
		k.SealPieces(dst, size, [][]byte{apart, text[prefix:]}, n, ad)
		return
	}
	if prefix < splitFrom[k.backend] {
		copy(text, apart)
		k.Seal(dst, dst, size, n, ad)
		return
	}
	k.prepare(size)
	rest := [1][]byte{text[prefix:]}
	s := stream{size: uint64(size), final: 1, pieces: &rest[0], rest: uint64(size - prefix)}
	k.sealStream(dst, src, uint64(prefix), 0, n, ad, uint64(size)*8, &s)
}

// SealPieces writes the ciphertext of pieces, size bytes together, and the tag
// to dst. A piece may be in its place there; otherwise it must not overlap dst.
func (k *Key) SealPieces(dst *byte, size int, pieces [][]byte, n Nonce, ad AD) {
	if size < copyBelow[k.backend] || len(pieces) > size/smallPiece {
		gather(unsafe.Slice(dst, size), pieces, 0)
		k.Seal(dst, dst, size, n, ad)
		return
	}
	k.prepare(size)
	if size > maxCall {
		k.sealMany(dst, size, pieces, n, ad)
		return
	}
	first := pieces[0]
	s := stream{size: uint64(size), final: 1, pieces: unsafe.SliceData(pieces[1:]), rest: uint64(size - len(first))}
	k.sealStream(dst, unsafe.SliceData(first), uint64(len(first)), 0, n, ad, uint64(size)*8, &s)
}

// sealMany is SealPieces for a text of more than one call.
//
//go:noinline
func (k *Key) sealMany(dst *byte, size int, pieces [][]byte, nonce Nonce, ad AD) {
	c := calls{shape: &shapes[k.backend], total: size, list: pieces}
	for c.next() {
		to, n := offset(dst, c.begin), c.end-c.begin
		list, skip := c.take()
		var src []byte
		if len(list) > maxPieces {
			src = unsafe.Slice(to, n)
			gather(src, list, skip)
		} else {
			src = c.first(list, skip)
		}
		k.sealStream(to, &src[0], uint64(len(src)), 0, nonce, ad, uint64(size)*8, &c.stream)
	}
}

// gather copies pieces to text, one after the other, until it is full. It
// begins skip bytes into the first one. A piece may be in place.
//
// Short pieces do not take a call each: two loads, which may overlap, and two
// stores.
func gather(text []byte, pieces [][]byte, skip int) {
	for _, p := range pieces {
		p = p[skip:]
		skip = 0
		if len(p) > len(text) {
			p = p[:len(text)]
		}
		switch n := len(p); {
		case n > 16:
			if &p[0] != &text[0] {
				copy(text, p)
			}
		case n >= 8:
			a, b := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[n-8:])
			binary.LittleEndian.PutUint64(text, a)
			binary.LittleEndian.PutUint64(text[n-8:], b)
		case n >= 4:
			a, b := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[n-4:])
			binary.LittleEndian.PutUint32(text, a)
			binary.LittleEndian.PutUint32(text[n-4:], b)
		case n > 0:
			text[0], text[n/2], text[n-1] = p[0], p[n/2], p[n-1]
		}
		text = text[len(p):]
	}
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
	bits := (uint64(size) + trailer) * 8
	c := calls{shape: &shapes[k.backend], total: size}
	for c.next() {
		t := uint64(0)
		if c.final == 1 {
			t = trailer
			c.size += t
		}
		ok, last = k.openStream(offset(dst, c.begin), offset(src, c.begin), uint64(c.end-c.begin), t, n, ad, bits, &c.stream)
	}
	return ok, last
}

// OpenSplit is Open for a plaintext of size bytes of which the first prefix
// bytes go to dst, and the others replace their ciphertext. What stood where
// plaintext went elsewhere is as it was, or zeros.
func (k *Key) OpenSplit(dst, src *byte, prefix, size int, n Nonce, ad AD) (ok bool) {
	text, apart := unsafe.Slice(src, size), unsafe.Slice(dst, prefix)
	if size > maxCall {
		return k.OpenPieces([][]byte{apart, text[prefix:]}, src, size, n, ad)
	}
	if prefix < splitFrom[k.backend] {
		ok = k.Open(src, src, size, n, ad)
		moveOut(apart, text[:prefix], ok)
		return ok
	}
	k.prepare(size)
	rest := [1][]byte{text[prefix:]}
	s := stream{size: uint64(size), final: 1, pieces: &rest[0], rest: uint64(size - prefix)}
	ok, _ = k.openStream(dst, src, uint64(prefix), 0, n, ad, uint64(size)*8, &s)
	return ok
}

// OpenPieces is Open for a plaintext that goes to pieces, size bytes together.
// A piece may be where its ciphertext is; otherwise it must not overlap it.
//
// What stood where plaintext went elsewhere is as it was, or zeros. If the tag
// is not right the pieces must be erased.
func (k *Key) OpenPieces(pieces [][]byte, src *byte, size int, n Nonce, ad AD) (ok bool) {
	if size < copyBelow[k.backend] || len(pieces) > size/smallPiece {
		ok = k.Open(src, src, size, n, ad)
		scatter(pieces, 0, unsafe.Slice(src, size), ok)
		return ok
	}
	k.prepare(size)
	if size > maxCall {
		return k.openMany(pieces, src, size, n, ad)
	}
	first := pieces[0]
	s := stream{size: uint64(size), final: 1, pieces: unsafe.SliceData(pieces[1:]), rest: uint64(size - len(first))}
	ok, _ = k.openStream(unsafe.SliceData(first), src, uint64(len(first)), 0, n, ad, uint64(size)*8, &s)
	return ok
}

// openMany is OpenPieces for a text of more than one call.
//
//go:noinline
func (k *Key) openMany(pieces [][]byte, src *byte, size int, nonce Nonce, ad AD) (ok bool) {
	c := calls{shape: &shapes[k.backend], total: size, list: pieces}
	for c.next() {
		from, n := offset(src, c.begin), c.end-c.begin
		list, skip := c.take()
		if len(list) <= maxPieces {
			dst := c.first(list, skip)
			ok, _ = k.openStream(&dst[0], from, uint64(len(dst)), 0, nonce, ad, uint64(size)*8, &c.stream)
			continue
		}
		ok, _ = k.openStream(from, from, uint64(n), 0, nonce, ad, uint64(size)*8, &c.stream)
		scatter(list, skip, unsafe.Slice(from, n), true)
	}
	return ok
}

// scatter moves plaintext to pieces, to the first one behind skip, one after
// the other, if it is verified. Where it is not in place it leaves zeros.
func scatter(pieces [][]byte, skip int, text []byte, verified bool) {
	for _, p := range pieces {
		p = p[skip:]
		skip = 0
		n := min(len(p), len(text))
		moveOut(p[:n], text[:n], verified)
		text = text[n:]
	}
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

// calls divides a text into calls of a kernel.
type calls struct {
	stream
	shape      *shape
	total      int
	begin, end int // of the next call, in the text

	list [][]byte // pieces from begin on
	skip int      // bytes of the first of them that are before begin
}

// next sets up the next call, if there is one, for a text in one place.
func (c *calls) next() bool {
	c.begin = c.end
	if c.begin > 0 {
		if c.begin == c.total {
			return false
		}
		c.counter = uint64(c.begin+notText) / blockSize // text begins with counter 2
	}
	c.end = c.total
	if c.total-c.begin > maxCall+c.shape.batch {
		c.end = c.shape.down(c.begin + maxCall)
	} else {
		c.final = 1
	}
	c.size = uint64(c.end - c.begin)
	c.rest = 0
	return true
}

// take steps over the pieces of the next call and returns them. The call's
// text begins skip bytes into the first one, and may end within the last one.
func (c *calls) take() (list [][]byte, skip int) {
	// There is more text, so there is a piece that is not empty.
	for c.skip == len(c.list[0]) {
		c.list, c.skip = c.list[1:], 0
	}
	list, skip = c.list, c.skip
	n := 0 // pieces that the call uses up, before one that it need not
	for left := c.end - c.begin; ; n++ {
		have := len(list[n]) - c.skip
		if left <= have {
			c.skip += left
			break
		}
		left -= have
		c.skip = 0
	}
	c.list = list[n:]
	return list[:n+1], skip
}

// first returns the first run of the next call, whose pieces are list, and
// leaves the others to the kernel.
func (c *calls) first(list [][]byte, skip int) []byte {
	n := c.end - c.begin
	p := list[0][skip:]
	p = p[:min(len(p), n)]
	c.rest = uint64(n - len(p))
	c.pieces = unsafe.SliceData(list[1:])
	return p
}

// offset returns the address n bytes behind p, which must not be the end of
// what is there: the collector does not suffer that.
func offset(p *byte, n int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(p), n)) }

const (
	// smallPiece is the size of pieces, on average, below which all text is
	// moved before it is sealed, or after it was opened.
	smallPiece = 64

	// maxPieces is the number of pieces that a kernel goes over in one call.
	// They may be empty, so maxCall is no bound.
	maxPieces = 2 * maxCall / smallPiece
)

// Thresholds of each backend; see docs/kernels.md.
var (
	// copyBelow is the size of text below which all pieces are moved.
	copyBelow = [backends]int{AESNI: 256, VAES: 256, AVX512: 256}

	// splitFrom is the size of a prefix from which on it is not moved.
	splitFrom = [backends]int{AESNI: 256, VAES: 256, AVX512: 256}
)
