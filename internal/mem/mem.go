// Package mem has what the packages that seal and open need to know about
// slices as memory: whether what is about to be written is still to be read,
// and room for output.
//
// crypto/cipher and golang.org/x/crypto have [Overlap], [Inexact] and [Extend]
// too, in internal packages that this module cannot import.
package mem

import (
	"math"
	"unsafe"
)

// Overlap reports whether x and y share memory at any index. Memory beyond
// the lengths of the slices does not count, so an empty slice overlaps nothing.
func Overlap(x, y []byte) bool {
	// Two intervals meet when each begins before the other one ends.
	a, b := address(x), address(y)
	return len(x) > 0 && len(y) > 0 &&
		a < b+uintptr(len(y)) && b < a+uintptr(len(x))
}

// Inexact reports whether x and y share memory and begin at different
// addresses. Slices that begin together may be sealed or opened in place.
func Inexact(x, y []byte) bool {
	return address(x) != address(y) && Overlap(x, y)
}

// InexactPieces reports whether one of pieces shares memory with text without
// being in place. The pieces stand for consecutive parts of text, and one is
// in place when it begins where its part of text begins. The lengths of pieces
// must not add up to more than len(text).
func InexactPieces(text []byte, pieces [][]byte) bool {
	offset := 0
	for _, p := range pieces {
		if address(p) != address(text)+uintptr(offset) && Overlap(text, p) {
			return true
		}
		offset += len(p)
	}
	return false
}

// AnyOverlap reports whether one of pieces shares memory with x.
func AnyOverlap(x []byte, pieces [][]byte) bool {
	for _, p := range pieces {
		if Overlap(x, p) {
			return true
		}
	}
	return false
}

// SelfOverlap reports whether two of pieces share memory.
//
// Pieces that stand in ascending order of address, as the parts of one buffer
// do, are checked in one pass. Others are compared pairwise: sorting them
// would need memory, and lists of outputs are short.
func SelfOverlap(pieces [][]byte) bool {
	var end uintptr
	for i, p := range pieces {
		if len(p) == 0 {
			continue
		}
		if address(p) < end {
			// Not ascending: compare this and every later piece with all before it.
			for ; i < len(pieces); i++ {
				if AnyOverlap(pieces[i], pieces[:i]) {
					return true
				}
			}
			return false
		}
		end = address(p) + uintptr(len(p))
	}
	return false
}

// TotalSize returns the sum of the lengths of pieces, or false if the sum
// exceeds limit or an int. Pieces can share memory, so the sum can exceed the
// memory of the machine.
func TotalSize(pieces [][]byte, limit uint64) (int, bool) {
	limit = min(limit, math.MaxInt)
	var n uint64
	for _, p := range pieces {
		n += uint64(len(p)) // below 2⁶⁴: n was at most MaxInt, and so is a length
		if n > limit {
			return 0, false
		}
	}
	return int(n), true
}

// Extend returns dst extended by n + overhead bytes, and those bytes, which
// hold whatever is there. It allocates if dst lacks capacity. It returns false
// if the result exceeds an int.
func Extend(dst []byte, n, overhead int) (whole, added []byte, ok bool) {
	total := uint64(len(dst)) + uint64(n) + uint64(overhead)
	if total <= uint64(cap(dst)) {
		whole = dst[:total]
		return whole, whole[len(dst):], true
	}
	if total > math.MaxInt {
		return nil, nil, false
	}
	whole = make([]byte, total)
	copy(whole, dst)
	return whole, whole[len(dst):], true
}

func address(x []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(x)))
}
