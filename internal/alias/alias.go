// Package alias answers one question for the packages that seal and open:
// does memory that is about to be written belong to something that is still
// to be read?
//
// crypto/cipher and golang.org/x/crypto have the first two functions too, in
// internal packages that this module cannot import.
package alias

import "unsafe"

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

func address(x []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(x)))
}
