package gcm

import (
	"unsafe"

	"example.com/splitseal/internal/asm"
)

// The functions below pass checked arguments to the kernels of a key that has some.
// They build everywhere, and run where the method kernel returns a key. Two opens,
// AEAD.Open and RecordKey.OpenSplit of a record without padding, call the kernels
// themselves, because a function for that would not be inlined.

func nonceOf(nonce []byte) asm.Nonce { return asm.NonceOf((*[NonceSize]byte)(nonce)) }

// sealTrailer seals text followed by the byte trailer.
func sealTrailer(k *asm.Key, out, text []byte, trailer byte, n asm.Nonce, ad asm.AD) {
	k.SealTrailer(unsafe.SliceData(out), unsafe.SliceData(text), len(text), trailer, n, ad)
}

// sealWhole seals text that is in one place.
func sealWhole(k *asm.Key, out, text []byte, n asm.Nonce, ad asm.AD) {
	k.Seal(unsafe.SliceData(out), unsafe.SliceData(text), len(text), n, ad)
}

// sealSplit seals prefix and the text that follows it in place.
func sealSplit(k *asm.Key, out, prefix []byte, n asm.Nonce, ad asm.AD) {
	size := len(out) - TagSize
	dst, src := unsafe.SliceData(out), unsafe.SliceData(prefix)
	switch rest := size - len(prefix); {
	case rest == 0:
		k.Seal(dst, src, size, n, ad)
	case len(prefix) == 0 || src == dst:
		k.Seal(dst, dst, size, n, ad)
	case rest == 1:
		// A record's content type: passed by value, it costs no seam.
		k.SealTrailer(dst, src, len(prefix), out[len(prefix)], n, ad)
	default:
		k.SealSplit(dst, src, len(prefix), size, n, ad)
	}
}

// sealPieces seals a list of pieces.
func sealPieces(k *asm.Key, out []byte, pieces [][]byte, n asm.Nonce, ad asm.AD) {
	k.SealPieces(unsafe.SliceData(out), len(out)-TagSize, pieces, n, ad)
}

// openSplit opens buf to prefix and the rest of it in place.
func openSplit(k *asm.Key, prefix, buf []byte, n asm.Nonce, ad asm.AD) bool {
	size := len(buf) - TagSize
	dst, src := unsafe.SliceData(prefix), unsafe.SliceData(buf)
	switch rest := size - len(prefix); {
	case rest == 0:
		return k.Open(dst, src, size, n, ad)
	case len(prefix) == 0 || src == dst:
		return k.Open(src, src, size, n, ad)
	case rest == 1:
		var ok bool
		ok, buf[len(prefix)] = k.OpenTrailer(dst, src, len(prefix), n, ad)
		return ok
	default:
		return k.OpenSplit(dst, src, len(prefix), size, n, ad)
	}
}

// openPieces opens buf to a list of pieces.
func openPieces(k *asm.Key, pieces [][]byte, buf []byte, n asm.Nonce, ad asm.AD) bool {
	return k.OpenPieces(pieces, unsafe.SliceData(buf), len(buf)-TagSize, n, ad)
}
