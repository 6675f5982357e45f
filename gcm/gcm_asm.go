//go:build amd64 && !purego

package gcm

import (
	"unsafe"

	"example.com/splitseal/internal/asm"
)

// key is a key in the hands of the backend that was selected when it was set
// up, or of crypto/cipher.
type key struct {
	generic *genericKey // nil if kernels serve this key
	kernels asm.Key
}

func (k *key) init(key []byte, nonceSize, tagSize int) error {
	b := asm.Selected()
	if b == asm.Portable || nonceSize != asm.NonceSize || tagSize != asm.TagSize {
		k.generic = new(genericKey)
		return k.generic.init(key, nonceSize, tagSize)
	}
	k.kernels.Init(b, key, nil, true)
	return nil
}

func (k *key) backend() string {
	if k.generic != nil {
		return k.generic.backend()
	}
	return k.kernels.Backend().String()
}

func (k *key) seal(out, nonce, prefix, additionalData []byte) {
	if k.generic != nil {
		k.generic.seal(out, nonce, prefix, additionalData)
		return
	}
	sealSplit(&k.kernels, out, prefix, nonceOf(nonce), k.kernels.AD(additionalData))
}

func (k *key) sealPieces(out, nonce []byte, pieces [][]byte, additionalData []byte) {
	if k.generic != nil {
		k.generic.sealPieces(out, nonce, pieces, additionalData)
		return
	}
	sealPieces(&k.kernels, out, pieces, nonceOf(nonce), k.kernels.AD(additionalData))
}

func (k *key) open(prefix, nonce, buf, additionalData []byte) bool {
	if k.generic != nil {
		return k.generic.open(prefix, nonce, buf, additionalData)
	}
	return openSplit(&k.kernels, prefix, buf, nonceOf(nonce), k.kernels.AD(additionalData))
}

func (k *key) openPieces(pieces [][]byte, nonce, buf, additionalData []byte) bool {
	if k.generic != nil {
		return k.generic.openPieces(pieces, nonce, buf, additionalData)
	}
	return openPieces(&k.kernels, pieces, buf, nonceOf(nonce), k.kernels.AD(additionalData))
}

// recordKey is key for a RecordKey. It has one owner, so powers that only long
// records need can wait for the first one.
type recordKey struct {
	generic *genericRecordKey // nil if kernels serve this key
	kernels asm.Key
}

func (k *recordKey) init(key []byte, iv *[NonceSize]byte) error {
	b := asm.Selected()
	if b == asm.Portable {
		k.generic = new(genericRecordKey)
		return k.generic.init(key, iv)
	}
	k.kernels.Init(b, key, iv, false)
	return nil
}

func (k *recordKey) backend() string {
	if k.generic != nil {
		return k.generic.backend()
	}
	return k.kernels.Backend().String()
}

func (k *recordKey) seal(out []byte, seq, ad uint64, adSize int, payload []byte, trailer byte) {
	if k.generic != nil {
		k.generic.seal(out, seq, ad, adSize, payload, trailer)
		return
	}
	k.kernels.SealTrailer(unsafe.SliceData(out), unsafe.SliceData(payload), len(payload), trailer,
		asm.NonceAt(seq), asm.ADOf(ad, adSize))
}

func (k *recordKey) sealSplit(out []byte, seq, ad uint64, adSize int, prefix []byte) {
	if k.generic != nil {
		k.generic.sealSplit(out, seq, ad, adSize, prefix)
		return
	}
	sealSplit(&k.kernels, out, prefix, asm.NonceAt(seq), asm.ADOf(ad, adSize))
}

func (k *recordKey) sealPieces(out []byte, seq, ad uint64, adSize int, pieces [][]byte) {
	if k.generic != nil {
		k.generic.sealPieces(out, seq, ad, adSize, pieces)
		return
	}
	sealPieces(&k.kernels, out, pieces, asm.NonceAt(seq), asm.ADOf(ad, adSize))
}

func (k *recordKey) open(prefix []byte, seq, ad uint64, adSize int, buf []byte) bool {
	if k.generic != nil {
		return k.generic.open(prefix, seq, ad, adSize, buf)
	}
	return openSplit(&k.kernels, prefix, buf, asm.NonceAt(seq), asm.ADOf(ad, adSize))
}

func (k *recordKey) wipe() {
	k.kernels.Wipe()
	if k.generic != nil {
		k.generic.wipe()
	}
}

func nonceOf(nonce []byte) asm.Nonce { return asm.NonceOf((*[NonceSize]byte)(nonce)) }

// sealSplit seals prefix and the text that is in place behind it.
func sealSplit(k *asm.Key, out, prefix []byte, n asm.Nonce, ad asm.AD) {
	size := len(out) - TagSize
	dst, src := unsafe.SliceData(out), unsafe.SliceData(prefix)
	switch rest := size - len(prefix); {
	case rest == 0:
		k.Seal(dst, src, size, n, ad)
	case len(prefix) == 0 || src == dst:
		k.Seal(dst, dst, size, n, ad)
	case rest == 1:
		// A record's content type: as a value it costs no seam.
		k.SealTrailer(dst, src, len(prefix), out[len(prefix)], n, ad)
	default:
		pieces := [2][]byte{prefix, out[len(prefix):size]}
		k.SealPieces(dst, size, pieces[:], n, ad)
	}
}

func sealPieces(k *asm.Key, out []byte, pieces [][]byte, n asm.Nonce, ad asm.AD) {
	if len(pieces) == 1 {
		sealSplit(k, out, pieces[0], n, ad)
		return
	}
	k.SealPieces(unsafe.SliceData(out), len(out)-TagSize, pieces, n, ad)
}

// openSplit opens buf to prefix and, behind that, in place.
func openSplit(k *asm.Key, prefix, buf []byte, n asm.Nonce, ad asm.AD) bool {
	size := len(buf) - TagSize
	dst, src := unsafe.SliceData(prefix), unsafe.SliceData(buf)
	switch rest := size - len(prefix); {
	case rest == 0:
		return k.Open(dst, src, size, n, ad)
	case len(prefix) == 0 || src == dst:
		return k.Open(src, src, size, n, ad)
	case rest == 1:
		ok, trailer := k.OpenTrailer(dst, src, len(prefix), n, ad)
		if ok {
			buf[len(prefix)] = trailer
		}
		return ok
	default:
		pieces := [2][]byte{prefix, buf[len(prefix):size]}
		return k.OpenPieces(pieces[:], src, size, n, ad)
	}
}

func openPieces(k *asm.Key, pieces [][]byte, buf []byte, n asm.Nonce, ad asm.AD) bool {
	if len(pieces) == 1 {
		return openSplit(k, pieces[0], buf, n, ad)
	}
	return k.OpenPieces(pieces, unsafe.SliceData(buf), len(buf)-TagSize, n, ad)
}
