package gcm_test

import (
	"testing"

	"example.com/splitseal/gcm"
)

// BenchmarkOpenSplit opens a record's content to another buffer and its type
// byte in place. The ciphertext, which an open spends, is copied to its place
// first; BenchmarkCopy says what that costs.
func BenchmarkOpenSplit(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce := benchKey(b, key), make([]byte, gcm.NonceSize)
		content, sealed := make([]byte, n), a.Seal(nil, nonce, make([]byte, n+1), benchAD)
		buf := make([]byte, len(sealed))
		for b.Loop() {
			copy(buf, sealed)
			if err := a.OpenSplit(content, nonce, buf, benchAD); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGatherHalves and BenchmarkGather16 seal a text of two or sixteen
// pieces that are not next to each other.
func BenchmarkGatherHalves(b *testing.B) { benchGather(b, 2) }
func BenchmarkGather16(b *testing.B)     { benchGather(b, 16) }

func benchGather(b *testing.B, count int) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce, out := benchKey(b, key), make([]byte, gcm.NonceSize), make([]byte, 0, n+gcm.TagSize)
		pieces := make([][]byte, count)
		for i := range pieces {
			pieces[i] = make([]byte, n*(i+1)/count-n*i/count)
		}
		for b.Loop() {
			a.SealGather(out, nonce, pieces, benchAD)
		}
	})
}
