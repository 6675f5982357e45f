package asm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"testing"
)

// TestKnownTags computes the known answers with crypto/cipher.
func TestKnownTags(t *testing.T) {
	key := knownKey()
	for i, want := range knownTags {
		block, err := aes.NewCipher(key[:16+8*i])
		if err != nil {
			t.Fatal(err)
		}
		oracle, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		sealed := make([]byte, knownMax+TagSize)
		for seq, size := range knownSizes {
			nonce := bytes.Clone(key[:NonceSize])
			nonce[NonceSize-1] ^= byte(seq)
			body := size + TagSize
			oracle.Seal(sealed[:0], nonce, sealed[:size], []byte{23, 3, 3, byte(body >> 8), byte(body)})
		}
		if tag := sealed[knownMax:]; !bytes.Equal(tag, want[:]) {
			t.Errorf("AES-%d: %x, known is %x", 128+64*i, tag, want)
		}
	}
}

// TestKnownAnswers has every backend take the test, with the right and with wrong
// answers.
func TestKnownAnswers(t *testing.T) {
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		if !passes(b) {
			t.Errorf("%v fails", b)
		}
		for i := range knownTags {
			knownTags[i][15] ^= 1
			if passes(b) {
				t.Errorf("%v passes with another tag for AES-%d", b, 128+64*i)
			}
			knownTags[i][15] ^= 1
		}
	}
}

// TestBrokenBackends has backends fail on a processor that can run all.
func TestBrokenBackends(t *testing.T) {
	p := full
	for _, test := range []struct {
		removed, broken set
		want            Backend
		left            set
	}{
		{0, 0, AVX512, of(AESNI, VAES, AVX512)},
		{0, of(AVX512), VAES, of(AESNI, VAES)},
		{of(VAES), of(AVX512), AESNI, of(AESNI)},
		{0, of(AVX512, VAES), AESNI, of(AESNI)},
		{0, of(AVX512, VAES, AESNI), Portable, 0},
		// Only what would be selected is tested.
		{0, of(VAES, AESNI), AVX512, of(AESNI, VAES, AVX512)},
	} {
		s := newSelection(p, test.removed, func(b Backend) bool { return test.broken&of(b) == 0 })
		if got := Backend(s.selected.Load()); got != test.want || s.runnable != test.left {
			t.Errorf("without %b, %b broken: %v of %b", test.removed, test.broken, got, s.runnable)
		}
	}
}

func BenchmarkKnownAnswers(b *testing.B) {
	for _, backend := range Backends() {
		if backend == Portable {
			continue
		}
		b.Run(backend.String(), func(b *testing.B) {
			for b.Loop() {
				passes(backend)
			}
		})
	}
}
