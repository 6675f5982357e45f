package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"sync"

	"example.com/splitseal/internal/mem"
)

// A backend is two types, key and recordKey, which gcm_asm.go or gcm_noasm.go
// declares. This file has the generic ones, which work everywhere and serve the sizes
// that kernels do not support. gcm.go and recordkey.go call the method kernel first: if
// it returns a key, the functions of gcm_kernels.go serve the call, otherwise the
// methods below do.
//
// All arguments have been checked by then: sizes fit, output overlaps text only
// in place, nothing else overlaps. The callers also clear the outputs when an open
// returns false. So the functions and the methods have these duties:
//
//	seal        out holds prefix ‖ text already in place ‖ room for the tag
//	sealPieces  out is exactly the pieces and a tag long
//	open        plaintext goes to prefix, the rest is opened in place in buf;
//	            if prefix is elsewhere, each byte of buf[:len(prefix)] ends up
//	            unchanged or zero, even when the result is false
//	openPieces  the same for a list
//	init        the only one that allocates, except for a table that kernels
//	            make at the second long text
//
// recordKey's methods differ in that nonce and additional data are integers,
// and in seal, which seals text ‖ trailer.

// genericKey is a key served by crypto/cipher.
type genericKey struct {
	aead cipher.AEAD
}

func (k *genericKey) init(key []byte, nonceSize, tagSize int) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	switch {
	case nonceSize != NonceSize:
		k.aead, err = cipher.NewGCMWithNonceSize(block, nonceSize)
	case tagSize != TagSize:
		k.aead, err = cipher.NewGCMWithTagSize(block, tagSize)
	default:
		k.aead, err = cipher.NewGCM(block)
	}
	return err
}

func (k *genericKey) backend() string { return portable }

func (k *genericKey) seal(out, nonce, prefix, additionalData []byte) {
	n := len(out) - k.aead.Overhead()
	if len(prefix) == n {
		// All text is in one place, so there is nothing to gather.
		k.sealText(out, nonce, prefix, additionalData)
		return
	}
	copy(out, prefix)
	k.sealText(out, nonce, out[:n], additionalData)
}

// sealText fills out with the ciphertext of text and its tag.
func (k *genericKey) sealText(out, nonce, text, additionalData []byte) {
	if !k.reachesPastTag(len(text)) {
		k.aead.Seal(out[:0], nonce, text, additionalData)
		return
	}
	scratch := getScratch(len(text) + TagSize)
	copy(out, k.aead.Seal(*scratch, nonce, text, additionalData))
	putScratch(scratch)
}

// openText fills out with the plaintext of ciphertext, which ends with its tag.
func (k *genericKey) openText(out, nonce, ciphertext, additionalData []byte) bool {
	var err error
	if !k.reachesPastTag(len(out)) {
		_, err = k.aead.Open(out[:0], nonce, ciphertext, additionalData)
		return err == nil
	}
	scratch := getScratch(len(ciphertext) + TagSize)
	_, err = k.aead.Open(out[:0], nonce, append(*scratch, ciphertext...), additionalData)
	putScratch(scratch)
	return err == nil
}

// reachesPastTag reports whether crypto/cipher reads and writes memory that is
// not ours, past the tag of a text of n bytes.
//
// The assembly there loads and stores a last partial block as a whole block
// and counts on a 16-byte tag after it (Go issue 80288). With a shorter tag it
// can reach up to three bytes too far. Such texts go through a buffer with
// enough room, at the price of a copy.
func (k *genericKey) reachesPastTag(n int) bool {
	tail := n % aes.BlockSize
	return tail != 0 && tail+k.aead.Overhead() < aes.BlockSize
}

// scratches holds empty buffers, *[]byte, of up to maxPooledScratch bytes. Only
// ciphertext is written to them.
var scratches sync.Pool

// maxPooledScratch has room for the longest body of a TLS record, 65535 bytes, and for
// what is added to a text here, 32 bytes at most. It is nine pages of the runtime's
// allocator. For a longer text the time of an allocation does not matter, and its
// buffer would be kept for the next short one.
const maxPooledScratch = 72 << 10

// getScratch returns an empty buffer with room for n bytes. If that is too large to be
// given back, it is not taken from the pool, which would then lack it.
func getScratch(n int) *[]byte {
	var b *[]byte
	if n <= maxPooledScratch {
		b, _ = scratches.Get().(*[]byte)
	}
	if b == nil {
		b = new([]byte)
	}
	if cap(*b) < n {
		*b = make([]byte, 0, n) // exactly: growing could pass the limit
	}
	return b
}

func putScratch(b *[]byte) {
	if cap(*b) <= maxPooledScratch {
		scratches.Put(b)
	}
}

func (k *genericKey) sealPieces(out, nonce []byte, pieces [][]byte, additionalData []byte) {
	if len(pieces) == 1 {
		k.seal(out, nonce, pieces[0], additionalData)
		return
	}
	n := mem.Gather(out, pieces)
	k.sealText(out, nonce, out[:n], additionalData)
}

func (k *genericKey) open(prefix, nonce, buf, additionalData []byte) bool {
	if len(prefix) == len(buf)-k.aead.Overhead() {
		// No plaintext stays in buf, so it can go straight to prefix.
		return k.openText(prefix, nonce, buf, additionalData)
	}
	if !k.openText(buf[:len(buf)-k.aead.Overhead()], nonce, buf, additionalData) {
		return false
	}
	mem.MoveOut(prefix, buf[:len(prefix)])
	return true
}

func (k *genericKey) openPieces(pieces [][]byte, nonce, buf, additionalData []byte) bool {
	if len(pieces) == 1 {
		return k.open(pieces[0], nonce, buf, additionalData)
	}
	if !k.openText(buf[:len(buf)-k.aead.Overhead()], nonce, buf, additionalData) {
		return false
	}
	mem.Scatter(pieces, buf)
	return true
}

// genericRecordKey is a RecordKey served by crypto/cipher. nonce and ad are
// here because arguments of interface methods escape.
type genericRecordKey struct {
	key   genericKey
	iv    [NonceSize]byte
	nonce [NonceSize]byte
	ad    [maxADSize]byte
}

func (k *genericRecordKey) init(key []byte, iv *[NonceSize]byte) error {
	k.iv = *iv
	return k.key.init(key, NonceSize, TagSize)
}

func (k *genericRecordKey) backend() string { return portable }

func (k *genericRecordKey) seal(out []byte, seq uint64, text []byte, trailer byte, ad AD) {
	out[len(text)] = trailer
	k.sealSplit(out, seq, text, ad)
}

func (k *genericRecordKey) sealSplit(out []byte, seq uint64, prefix []byte, ad AD) {
	k.key.seal(out, k.nonceFor(seq), prefix, k.bytes(ad))
}

func (k *genericRecordKey) sealPieces(out []byte, seq uint64, pieces [][]byte, ad AD) {
	k.key.sealPieces(out, k.nonceFor(seq), pieces, k.bytes(ad))
}

func (k *genericRecordKey) open(prefix []byte, seq uint64, buf []byte, ad AD) bool {
	return k.key.open(prefix, k.nonceFor(seq), buf, k.bytes(ad))
}

func (k *genericRecordKey) wipe() { *k = genericRecordKey{} }

// nonceFor returns the nonce that belongs to seq.
func (k *genericRecordKey) nonceFor(seq uint64) []byte {
	k.nonce = k.iv
	tail := k.nonce[NonceSize-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^seq)
	return k.nonce[:]
}

func (k *genericRecordKey) bytes(ad AD) []byte {
	binary.BigEndian.PutUint64(k.ad[:], ad.first)
	return k.ad[:ad.bits/8]
}

const portable = "portable"
