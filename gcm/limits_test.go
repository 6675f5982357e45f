package gcm

import (
	"math"
	"testing"
)

// TestLimits checks the arithmetic of the text limit where no test has memory
// for the text. NIST SP 800-38D, Section 5.2.1.1: len(P) ≤ 2³⁹−256 bits.
func TestLimits(t *testing.T) {
	if MaxTextSize != (1<<39-256)/8 {
		t.Errorf("MaxTextSize is %d", MaxTextSize)
	}
	for _, v := range []struct {
		n     uint64
		valid bool
	}{
		{0, true},
		{1, true},
		{1 << 32, true},
		{MaxTextSize - 1, true},
		{MaxTextSize, true},
		{MaxTextSize + 1, false},
		{1 << 36, false},
		{math.MaxInt64, false},
		{math.MaxUint64, false},
	} {
		func() {
			defer func() {
				if e := recover(); (e == nil) != v.valid || e != nil && e != textTooLarge {
					t.Errorf("text of %d bytes: panic %v", v.n, e)
				}
			}()
			checkTextSize(v.n)
		}()
		for _, tagSize := range []int{12, 16} {
			n := int(v.n) + tagSize
			if n < 0 || uint64(n) != v.n+uint64(tagSize) {
				continue // not an int on this machine
			}
			if got := validCiphertextSize(n, tagSize); got != v.valid {
				t.Errorf("ciphertext of %d bytes with a tag of %d: valid: %v", n, tagSize, got)
			}
		}
	}
	for n := range 16 {
		if validCiphertextSize(n, 16) {
			t.Errorf("ciphertext of %d bytes is valid", n)
		}
	}
	for _, n := range []int{0, 1, 15, 16, 17, 40} {
		for _, prefix := range []int{0, 1, 23, 24, 25, math.MaxInt - 15, math.MaxInt} {
			func() {
				defer func() {
					if e := recover(); (e == nil) != (n >= 16 && prefix <= n-16) {
						t.Errorf("prefix of %d in %d bytes: panic %v", prefix, n, e)
					}
				}()
				checkSplitSize(n, prefix, 16)
			}()
		}
	}
	defer func() {
		if e := recover(); e != "gcm: output too large" {
			t.Errorf("output above the largest int: panic %v", e)
		}
	}()
	extend(nil, math.MaxInt, TagSize)
}

// TestNumberIsXORed checks that the number reaches the last eight bytes only.
func TestNumberIsXORed(t *testing.T) {
	k := genericRecordKey{iv: [NonceSize]byte{0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb}}
	want := [NonceSize]byte{0xf0, 0xf1, 0xf2, 0xf3, 0xf5, 0xf7, 0xf5, 0xf3, 0xfd, 0xff, 0xfd, 0xf3}
	for range 2 { // the IV must still be there
		if nonce := k.nonceFor(0x0102030405060708); [NonceSize]byte(nonce) != want {
			t.Errorf("got %x, want %x", nonce, want)
		}
	}
}
