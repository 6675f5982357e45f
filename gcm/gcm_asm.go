//go:build amd64 && !purego

package gcm

import "example.com/splitseal/internal/asm"

// key is a key served by the backend that was selected when it was set up, or
// by crypto/cipher.
type key struct {
	*genericKey // nil if kernels serve this key
	kernels     asm.Key
}

func (k *key) init(key []byte, nonceSize, tagSize int) error {
	b := asm.Selected()
	if b == asm.Portable || nonceSize != asm.NonceSize || tagSize != asm.TagSize {
		k.genericKey = new(genericKey)
		return k.genericKey.init(key, nonceSize, tagSize)
	}
	k.kernels.Init(b, key, nil)
	return nil
}

func (k *key) backend() string {
	if k.genericKey != nil {
		return k.genericKey.backend()
	}
	return k.kernels.Backend().String()
}

func (k *key) kernel() *asm.Key {
	if k.genericKey != nil {
		return nil
	}
	return &k.kernels
}

// recordKey is key for a RecordKey.
type recordKey struct {
	*genericRecordKey // nil if kernels serve this key
	kernels           asm.Key
}

func (k *recordKey) init(key []byte, iv *[NonceSize]byte) error {
	b := asm.Selected()
	if b == asm.Portable {
		k.genericRecordKey = new(genericRecordKey)
		return k.genericRecordKey.init(key, iv)
	}
	k.genericRecordKey = nil
	k.kernels.Init(b, key, iv)
	return nil
}

func (k *recordKey) backend() string {
	if k.genericRecordKey != nil {
		return k.genericRecordKey.backend()
	}
	return k.kernels.Backend().String()
}

func (k *recordKey) kernel() *asm.Key {
	if k.genericRecordKey != nil {
		return nil
	}
	return &k.kernels
}

func (k *recordKey) wipe() {
	k.kernels.Wipe()
	if k.genericRecordKey != nil {
		k.genericRecordKey.wipe()
	}
}
