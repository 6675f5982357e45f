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
	k.kernels.Init(b, key, nil)
	return nil
}

func (k *key) backend() string {
	if k.generic != nil {
		return k.generic.backend()
	}
	return k.kernels.Backend().String()
}

// kernel returns the key of the kernels, or nil if crypto/cipher serves this one.
func (k *key) kernel() *asm.Key {
	if k.generic != nil {
		return nil
	}
	return &k.kernels
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

// recordKey is key for a RecordKey.
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
	k.kernels.Init(b, key, iv)
	return nil
}

func (k *recordKey) backend() string {
	if k.generic != nil {
		return k.generic.backend()
	}
	return k.kernels.Backend().String()
}

func (k *recordKey) kernel() *asm.Key {
	if k.generic != nil {
		return nil
	}
	return &k.kernels
}

func (k *recordKey) seal(out []byte, seq, ad uint64, adSize int, payload []byte, trailer byte) {
	if k.generic != nil {
		k.generic.seal(out, seq, ad, adSize, payload, trailer)
		return
	}
	sealTrailer(&k.kernels, out, payload, trailer, asm.NonceAt(seq), asm.ADOf(ad, adSize))
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
		k.SealSplit(dst, src, len(prefix), size, n, ad)
	}
}
