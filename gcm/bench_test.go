package gcm_test

import (
	"fmt"
	"testing"

	"example.com/splitseal/gcm"
)

var benchSizes = []int{64, 1350, 8192, 16384}

// bench runs f once for every text size, for AES-128 and AES-256, under the
// backend that New selects.
func bench(b *testing.B, f func(b *testing.B, key []byte, n int)) {
	for _, keySize := range []int{16, 32} {
		for _, n := range benchSizes {
			b.Run(fmt.Sprintf("AES-%d-GCM/%d", 8*keySize, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				f(b, filler("bench", keySize), n)
			})
		}
	}
}

func benchKey(b *testing.B, key []byte) *gcm.AEAD {
	a, err := gcm.New(key)
	if err != nil {
		b.Fatal(err)
	}
	return a
}

func benchRecordKey(b *testing.B, key []byte) *gcm.RecordKey {
	k, err := gcm.NewRecordKey(key, make([]byte, gcm.NonceSize))
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// The additional data is a record header everywhere.
const benchHeader = 0x1703030000

var benchAD = []byte{0x17, 3, 3, 0, 0}

// BenchmarkSeal seals in place, as crypto/cipher's benchmarks do.
func BenchmarkSeal(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce, buf := benchKey(b, key), make([]byte, gcm.NonceSize), make([]byte, n, n+gcm.TagSize)
		for b.Loop() {
			a.Seal(buf[:0], nonce, buf, benchAD)
		}
	})
}

// BenchmarkSealSplit seals a record's content from where it lies, and the type
// byte in place.
func BenchmarkSealSplit(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce := benchKey(b, key), make([]byte, gcm.NonceSize)
		content, out := make([]byte, n), make([]byte, n+1+gcm.TagSize)
		for b.Loop() {
			out[n] = 23
			a.SealSplit(out, nonce, content, benchAD)
		}
	})
}

// BenchmarkCopySeal does what SealSplit spares: it copies the content next to
// the type byte and seals in place.
func BenchmarkCopySeal(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce := benchKey(b, key), make([]byte, gcm.NonceSize)
		content, out := make([]byte, n), make([]byte, n+1+gcm.TagSize)
		for b.Loop() {
			copy(out, content)
			out[n] = 23
			a.Seal(out[:0], nonce, out[:n+1], benchAD)
		}
	})
}

// BenchmarkRecordSeal seals the same record by integers.
func BenchmarkRecordSeal(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		k, content, out := benchRecordKey(b, key), make([]byte, n), make([]byte, n+1+gcm.TagSize)
		var seq uint64
		for b.Loop() {
			k.Seal(out, seq, content, 23, gcm.ADOf(benchHeader, 5))
			seq++
		}
	})
}

// BenchmarkOpen opens to another buffer.
func BenchmarkOpen(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce := benchKey(b, key), make([]byte, gcm.NonceSize)
		sealed, out := a.Seal(nil, nonce, make([]byte, n), benchAD), make([]byte, n)
		for b.Loop() {
			if _, err := a.Open(out[:0], nonce, sealed, benchAD); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRecordOpen opens a record's content to another buffer. The record,
// which an open spends, is copied to its place first; BenchmarkCopy says what
// that costs.
func BenchmarkRecordOpen(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		k, content, sealed := benchRecordKey(b, key), make([]byte, n), make([]byte, n+1+gcm.TagSize)
		k.Seal(sealed, 0, content, 23, gcm.ADOf(benchHeader, 5))
		buf := make([]byte, len(sealed))
		for b.Loop() {
			copy(buf, sealed)
			if err := k.OpenSplit(content, 0, buf, gcm.ADOf(benchHeader, 5)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCopy is the copy in BenchmarkCopySeal and BenchmarkRecordOpen.
func BenchmarkCopy(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			src, dst := make([]byte, n), make([]byte, n)
			for b.Loop() {
				copy(dst, src)
			}
		})
	}
}

// BenchmarkCryptoCipherSeal and BenchmarkCryptoCipherOpen are the baseline.
func BenchmarkCryptoCipherSeal(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce, buf := oracleFor(b, key, 12, 16), make([]byte, 12), make([]byte, n, n+16)
		for b.Loop() {
			a.Seal(buf[:0], nonce, buf, benchAD)
		}
	})
}

func BenchmarkCryptoCipherOpen(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		a, nonce := oracleFor(b, key, 12, 16), make([]byte, 12)
		sealed, out := a.Seal(nil, nonce, make([]byte, n), benchAD), make([]byte, n)
		for b.Loop() {
			if _, err := a.Open(out[:0], nonce, sealed, benchAD); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkNewSeal sets up a key and seals once.
func BenchmarkNewSeal(b *testing.B) {
	bench(b, func(b *testing.B, key []byte, n int) {
		nonce, buf := make([]byte, gcm.NonceSize), make([]byte, n, n+gcm.TagSize)
		for b.Loop() {
			benchKey(b, key).Seal(buf[:0], nonce, buf, benchAD)
		}
	})
}
