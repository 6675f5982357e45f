//lint:file-ignore SA4006 without kernels no call of one returns, and what follows it is dead

package asm

import (
	"unsafe"

	"example.com/splitseal/internal/mem"
)

// maxCall is the number of bytes of text, give or take a batch, in one call of
// a kernel. Nothing preempts a kernel, so a call must not be so long that it
// delays the garbage collector: this takes the slowest one some 20 µs.
const maxCall = 64 << 10

// A stream is a text that takes more than one call of a kernel, or that is in
// pieces: those that a seal reads from, or that an open writes to.
//
// Every call but the last ends where a batch ends: batch 0 has firstBatch bytes
// of text, every other one has batch bytes. No call has less than its first
// batch.
type stream struct {
	hash    [blockSize]byte // between calls: the hash so far
	mask    [blockSize]byte // between calls: E(J₀)
	size    uint64          // bytes of text in this call, with the trailer
	counter uint64          // of the block that this call begins with, 0 in the first call
	final   uint64          // 1 in the last call, else 0

	// The first run of text is an argument of the kernel, and so is a trailer.
	// The rest of this call's text, rest bytes, is in pieces; no more of them are
	// looked at than hold it.
	pieces *[]byte
	rest   uint64
}

// shape holds the sizes of a backend's longest short text and of its batches,
// in bytes. batch is a power of two, and firstBatch is batch minus slots 0 and
// 1. group is in blocks.
type shape struct {
	short, firstBatch, batch, group int
}

var shapes = [backends]shape{
	AESNI:  {aesniShortSize, aesniFirstBatchSize, aesniBatchSize, aesniGroup},
	VAES:   {vaesShortSize, vaesFirstBatchSize, vaesBatchSize, vaesGroup},
	AVX512: {avx512ShortSize, avx512FirstBatchSize, avx512BatchSize, avx512Group},
}

// notText is the size of what batch 0 has in place of text.
const notText = 2 * blockSize

// down rounds an offset in a text down to where a batch ends, or to 0.
func (s *shape) down(offset int) int {
	return max((offset+notText)&^(s.batch-1)-notText, 0)
}

// Seal writes the ciphertext of size bytes of text at src, and the tag, to dst.
// dst may equal src and must not otherwise overlap the text.
func (k *Key) Seal(dst, src *byte, size int, n Nonce, ad AD) {
	k.sealText(dst, src, size, 0, n, ad)
}

// SealTrailer is Seal for the text at src followed by the byte trailer.
func (k *Key) SealTrailer(dst, src *byte, size int, trailer byte, n Nonce, ad AD) {
	k.sealText(dst, src, size, trailerFlag|uint64(trailer), n, ad)
}

// trailerSize is the argument trailer of an open that has a trailer, and its size. A
// seal takes trailerFlag plus the byte. Both take 0 if there is no trailer.
const trailerSize = 1

// SealSplit is Seal for a text of size bytes that begins with prefix bytes at
// src and continues at dst+prefix, where it is sealed in place.
func (k *Key) SealSplit(dst, src *byte, prefix, size int, n Nonce, ad AD) {
	text, apart := unsafe.Slice(dst, size), unsafe.Slice(src, prefix)
	if prefix < splitFrom[k.backend] {
		copy(text, apart)
		k.Seal(dst, dst, size, n, ad)
		return
	}
	pieces := [2][]byte{apart, text[prefix:]}
	k.sealPieces(dst, size, pieces[:], n, ad)
}

// SealPieces writes the ciphertext of pieces, size bytes together, and the tag
// to dst. A piece may be in its place there; otherwise it must not overlap dst.
func (k *Key) SealPieces(dst *byte, size int, pieces [][]byte, n Nonce, ad AD) {
	switch {
	case len(pieces) == 1:
		k.sealText(dst, unsafe.SliceData(pieces[0]), size, 0, n, ad)
	case len(pieces) == 2 && len(pieces[1]) == 1:
		// A record's content type: passed by value, it costs no seam.
		k.sealText(dst, unsafe.SliceData(pieces[0]), size-1, trailerFlag|uint64(pieces[1][0]), n, ad)
	case k.moves(size, len(pieces)):
		mem.Gather(unsafe.Slice(dst, size), pieces)
		k.sealText(dst, dst, size, 0, n, ad)
	default:
		k.sealPieces(dst, size, pieces, n, ad)
	}
}

// moves reports whether all text, size bytes in the given number of pieces, is
// moved before it is sealed, or after it was opened.
func (k *Key) moves(size, pieces int) bool {
	return size < copyBelow[k.backend] || pieces > size/smallPiece
}

// sealPieces is SealPieces without moving more than it must. There must be
// more than one piece, and more than one batch of text. A last piece of one byte, such
// as a record's content type, is passed by value, so that it has no seam.
func (k *Key) sealPieces(dst *byte, size int, pieces [][]byte, n Nonce, ad AD) {
	once := k.needsTable(size) && k.onceOnly(size)
	if size > maxCall {
		k.sealMany(dst, size, pieces, n, ad)
		return
	}
	first, others := pieces[0], pieces[1:]
	s := stream{size: uint64(size), final: 1, pieces: unsafe.SliceData(others), rest: uint64(size - len(first))}
	trailer := uint64(0)
	if last := others[len(others)-1]; len(last) == 1 {
		trailer = trailerFlag | uint64(last[0])
		s.rest--
	}
	if once {
		k.sealOnce(dst, unsafe.SliceData(first), size, len(first), trailer, n, ad, &s)
		return
	}
	k.sealStream(k.long.Load(), dst, unsafe.SliceData(first), uint64(len(first)), trailer, n, ad, uint64(size)*8, &s)
}

// sealOnce seals a text of total bytes, in one call, with a table of its own.
// The other arguments are those of a kernel.
//
//go:noinline
func (k *Key) sealOnce(dst, src *byte, total, size int, trailer uint64, n Nonce, ad AD, s *stream) {
	long, count := k.onceTable(total)
	k.sealStream(long, dst, src, uint64(size), trailer, n, ad, uint64(total)*8, s)
	putOnce(long, count)
}

// openOnce is to opens what sealOnce is to seals.
//
//go:noinline
func (k *Key) openOnce(dst, src *byte, total, size int, trailer uint64, n Nonce, ad AD, s *stream) (ok bool, last byte) {
	long, count := k.onceTable(total)
	ok, last = k.openStream(long, dst, src, uint64(size), trailer, n, ad, uint64(total)*8, s)
	putOnce(long, count)
	return ok, last
}

// sealMany is SealPieces for a text that takes more than one call. A last piece
// of one byte has a seam here.
//
//go:noinline
func (k *Key) sealMany(dst *byte, size int, pieces [][]byte, nonce Nonce, ad AD) {
	c := calls{shape: &shapes[k.backend], total: size}
	skip := 0 // bytes of the first piece that were in earlier calls
	for c.next() {
		to, n := offset(dst, c.begin), c.end-c.begin
		count, end := window(pieces, skip, n)
		first, others := pieces[0][skip:], pieces[1:count]
		first = first[:min(n, len(first))]
		if count > maxPieces {
			text := unsafe.Slice(to, n)
			mem.Gather(text[copy(text, first):], others)
			first = text
		} else {
			c.pieces, c.rest = unsafe.SliceData(others), uint64(n-len(first))
		}
		k.sealStream(k.long.Load(), to, unsafe.SliceData(first), uint64(len(first)), 0, nonce, ad, uint64(size)*8, &c.stream)
		pieces, skip = pieces[count-1:], end
	}
}

// Open writes the plaintext of size bytes of ciphertext at src, which the tag
// follows, to dst and reports whether the tag is right. If not, what it wrote
// must be erased. dst may equal src and must not otherwise overlap the
// ciphertext.
func (k *Key) Open(dst, src *byte, size int, n Nonce, ad AD) bool {
	ok, _ := k.openText(dst, src, size, 0, n, ad)
	return ok
}

// OpenTrailer is Open for size+1 bytes of ciphertext, whose last byte of
// plaintext is a result.
func (k *Key) OpenTrailer(dst, src *byte, size int, n Nonce, ad AD) (ok bool, trailer byte) {
	return k.openText(dst, src, size, trailerSize, n, ad)
}

// OpenSplit is Open for a plaintext of size bytes: the first prefix bytes go to dst,
// and the others replace their ciphertext. Ciphertext whose plaintext went elsewhere is
// left unchanged or as zeros. If the tag is not right, what was written must be erased.
func (k *Key) OpenSplit(dst, src *byte, prefix, size int, n Nonce, ad AD) (ok bool) {
	text, apart := unsafe.Slice(src, size), unsafe.Slice(dst, prefix)
	if prefix < splitFrom[k.backend] {
		if !k.Open(src, src, size, n, ad) {
			clear(text[:prefix])
			return false
		}
		mem.MoveOut(apart, text[:prefix])
		return true
	}
	pieces := [2][]byte{apart, text[prefix:]}
	return k.openPieces(pieces[:], src, size, n, ad)
}

// OpenPieces is Open for a plaintext that goes to pieces, size bytes together.
// A piece may be where its ciphertext is; otherwise it must not overlap it.
//
// Ciphertext whose plaintext went elsewhere is left unchanged or as zeros. If
// the tag is not right, the pieces must be erased.
func (k *Key) OpenPieces(pieces [][]byte, src *byte, size int, n Nonce, ad AD) (ok bool) {
	switch {
	case len(pieces) == 1:
		ok, _ = k.openText(unsafe.SliceData(pieces[0]), src, size, 0, n, ad)
	case len(pieces) == 2 && len(pieces[1]) == 1:
		ok, pieces[1][0] = k.openText(unsafe.SliceData(pieces[0]), src, size-1, trailerSize, n, ad)
	case k.moves(size, len(pieces)):
		text := unsafe.Slice(src, size)
		if ok, _ = k.openText(src, src, size, 0, n, ad); ok {
			mem.Scatter(pieces, text)
		} else {
			clear(text)
		}
	default:
		ok = k.openPieces(pieces, src, size, n, ad)
	}
	return ok
}

// openPieces is OpenPieces without moving more than it must, like sealPieces.
func (k *Key) openPieces(pieces [][]byte, src *byte, size int, n Nonce, ad AD) (ok bool) {
	once := k.needsTable(size) && k.onceOnly(size)
	if size > maxCall {
		return k.openMany(pieces, src, size, n, ad)
	}
	first, others := pieces[0], pieces[1:]
	s := stream{size: uint64(size), final: 1, pieces: unsafe.SliceData(others), rest: uint64(size - len(first))}
	trailer, last := uint64(0), others[len(others)-1]
	if len(last) == 1 {
		trailer = trailerSize
		s.rest--
	}
	var b byte
	if once {
		ok, b = k.openOnce(unsafe.SliceData(first), src, size, len(first), trailer, n, ad, &s)
	} else {
		ok, b = k.openStream(k.long.Load(), unsafe.SliceData(first), src, uint64(len(first)), trailer, n, ad, uint64(size)*8, &s)
	}
	if trailer == trailerSize {
		last[0] = b
	}
	return ok
}

// openMany is OpenPieces for a text that takes more than one call, like
// sealMany.
//
//go:noinline
func (k *Key) openMany(pieces [][]byte, src *byte, size int, nonce Nonce, ad AD) (ok bool) {
	c := calls{shape: &shapes[k.backend], total: size}
	skip := 0 // bytes of the first piece that were in earlier calls
	for c.next() {
		from, n := offset(src, c.begin), c.end-c.begin
		count, end := window(pieces, skip, n)
		first, others := pieces[0][skip:], pieces[1:count]
		first = first[:min(n, len(first))]
		if count > maxPieces {
			ok, _ = k.openStream(k.long.Load(), from, from, uint64(n), 0, nonce, ad, uint64(size)*8, &c.stream)
			text := unsafe.Slice(from, n)
			mem.MoveOut(first, text[:len(first)])
			mem.Scatter(others, text[len(first):])
		} else {
			c.pieces, c.rest = unsafe.SliceData(others), uint64(n-len(first))
			ok, _ = k.openStream(k.long.Load(), unsafe.SliceData(first), from, uint64(len(first)), 0, nonce, ad, uint64(size)*8, &c.stream)
		}
		pieces, skip = pieces[count-1:], end
	}
	return ok
}

// calls divides a text into calls of a kernel.
type calls struct {
	stream
	shape      *shape
	total      int
	begin, end int // of the next call, in the text
}

// next sets up the next call, if there is one, for a text in one place. If
// there is none, it erases what the calls have shared.
func (c *calls) next() bool {
	c.begin = c.end
	if c.begin > 0 {
		if c.begin == c.total {
			// They are on the stack.
			c.hash, c.mask = [blockSize]byte{}, [blockSize]byte{}
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

// window returns how many of pieces hold the n bytes that begin skip bytes into
// the first one, and where in the last of them they end.
func window(pieces [][]byte, skip, n int) (count, end int) {
	end = skip + n
	for end > len(pieces[count]) {
		end -= len(pieces[count])
		count++
	}
	return count + 1, end
}

// offset returns the address n bytes past p, which must not be the end of the
// memory there: the garbage collector does not tolerate that.
func offset(p *byte, n int) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(p), n)) }

// Below these thresholds all bytes that are not in place are moved: to the
// output before they are sealed, or away from the ciphertext's place after they
// were opened. The tables that the thresholds come from are in docs/kernels.md,
// under "Pieces".
var (
	// copyBelow is the size of the shortest text whose parts are read or
	// written where they are. It must be more than a first batch: shorter texts
	// have no whole batch.
	copyBelow = [backends]int{
		AESNI:  aesniFirstBatchSize + 1,
		VAES:   vaesFirstBatchSize + 1,
		AVX512: avx512FirstBatchSize + 1, // not measured
	}

	// splitFrom is the size of the shortest prefix that is read or written where
	// it is, if the rest of the text is in place. It must be more than a first
	// batch too.
	splitFrom = [backends]int{
		AESNI:  1024,
		VAES:   1024,
		AVX512: 1024, // not measured
	}
)

const (
	// smallPiece is the average size from which kernels walk the pieces themselves.
	// With shorter pieces they gain at most a tenth over mem.Gather, which can be
	// preempted.
	smallPiece = 24

	// maxPieces is the most pieces that a kernel walks in one call. They may be
	// empty, so maxCall does not bound their number.
	maxPieces = 4096
)
