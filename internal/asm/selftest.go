//lint:file-ignore SA4006 without kernels no call of one returns, and what follows it is dead

package asm

import (
	"bytes"
	"unsafe"
)

// knownSizes are the sizes of the known-answer test's texts, each of which is made of
// what was sealed before it. They take the short path, both ways to get a longer table,
// whole groups of batches, and tails.
var knownSizes = [...]int{0, 1, 47, 300, 999, knownMax}

const knownMax = 2500

// knownTags are the tags of the last text with keys of 16, 24 and 32 bytes, from
// crypto/cipher.
var knownTags = [3][TagSize]byte{
	{0xd0, 0xf7, 0x48, 0x82, 0x49, 0x28, 0x11, 0xff, 0xc7, 0x6e, 0xf0, 0x54, 0x09, 0x0d, 0x38, 0x8a},
	{0x49, 0x4b, 0x21, 0xcc, 0xc6, 0x62, 0xa3, 0x2f, 0xbf, 0x43, 0xdc, 0xc9, 0x0a, 0xd4, 0x20, 0xc0},
	{0x1c, 0x4d, 0x29, 0xc3, 0x65, 0xe5, 0xa7, 0x50, 0x78, 0x86, 0x69, 0xae, 0x0b, 0x74, 0x5b, 0xdf},
}

// passes reports whether the kernels of b pass the known-answer test.
//
// The tests compare kernels with crypto/cipher far more closely, but nobody has run
// them on every processor and in every emulator.
func passes(b Backend) bool {
	var text, back [knownMax]byte
	var sealed, again [knownMax + TagSize]byte
	key := knownKey()
	for i := range knownTags {
		var k Key
		k.Init(b, key[:16+8*i], (*[NonceSize]byte)(key[:]))
		clear(sealed[:])
		for seq, size := range knownSizes {
			copy(text[:size], sealed[:])
			if !k.roundTrips(text[:size], back[:size], sealed[:size+TagSize], again[:size+TagSize], NonceAt(uint64(seq))) {
				return false
			}
		}
		if tag := sealed[knownMax:]; !bytes.Equal(tag, knownTags[i][:]) {
			return false
		}
	}
	return true
}

// roundTrips seals text to sealed, in every shape, and reports whether all shapes give
// the same result, which opens to text, but not when it is changed. back and again are
// working space.
func (k *Key) roundTrips(text, back, sealed, again []byte, n Nonce) bool {
	size, last := len(text), max(len(text)-1, 0)
	ad := ADOf(0x1703030000|uint64(len(sealed)), 5)
	parts := func(b []byte) [][]byte { return [][]byte{b[:size/2], b[size/2 : last], b[last:size]} }
	dst, src := unsafe.SliceData(back), unsafe.SliceData(text)

	k.Seal(&sealed[0], src, size, n, ad)
	if size > 0 {
		k.SealTrailer(&again[0], src, last, text[last], n, ad)
		if !bytes.Equal(again, sealed) {
			return false
		}
		clear(again)
	}
	k.SealPieces(&again[0], size, parts(text), n, ad)
	if !bytes.Equal(again, sealed) {
		return false
	}

	if !k.Open(dst, &sealed[0], size, n, ad) || !bytes.Equal(back, text) {
		return false
	}
	clear(back)
	if !k.OpenPieces(parts(back), &again[0], size, n, ad) || !bytes.Equal(back, text) {
		return false
	}
	sealed[size] ^= 1
	ok := k.Open(dst, &sealed[0], size, n, ad)
	sealed[size] ^= 1
	return !ok
}

// knownKey returns the test's key, whose first bytes are its IV too.
func knownKey() (key [32]byte) {
	for i := range key {
		key[i] = byte(i + 1)
	}
	return key
}
