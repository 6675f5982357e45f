package aead_test

import (
	"fmt"
	"testing"

	"example.com/splitseal/aead"
)

// benchSuites names suites by their AEAD, as benchmarks do.
var benchSuites = []struct {
	name  string
	suite *aead.Suite
}{
	{"AES-128-GCM", aead.AES128GCM()},
	{"AES-256-GCM", aead.AES256GCM()},
	{"ChaCha20-Poly1305", aead.ChaCha20Poly1305()},
}

func bench(b *testing.B, f func(b *testing.B, s *aead.Suite, n int)) {
	for _, s := range benchSuites {
		for _, n := range []int{64, 1350, 8192, 16384} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				f(b, s.suite, n)
			})
		}
	}
}

// BenchmarkSeal seals an unpadded record's content, from where it lies.
func BenchmarkSeal(b *testing.B) {
	bench(b, func(b *testing.B, s *aead.Suite, n int) {
		p, content, body := newProtector(b, s, 0), make([]byte, n), make([]byte, n+1+s.TagSize())
		for b.Loop() {
			if err := p.Seal(body, content, 23, 0x1703030000); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSealSplit seals a record with padding.
func BenchmarkSealSplit(b *testing.B) {
	bench(b, func(b *testing.B, s *aead.Suite, n int) {
		p, content, body := newProtector(b, s, 0), make([]byte, n), make([]byte, n+1+32+s.TagSize())
		for b.Loop() {
			clear(body[n:])
			body[n] = 23
			if err := p.SealSplit(body, content, 0x1703030000); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSealOpen seals a record and opens it to another buffer; an open
// needs a new record each time.
func BenchmarkSealOpen(b *testing.B) {
	bench(b, func(b *testing.B, s *aead.Suite, n int) {
		w, o := newProtector(b, s, 0), newProtector(b, s, 0)
		content, body := make([]byte, n), make([]byte, n+1+s.TagSize())
		for b.Loop() {
			if err := w.Seal(body, content, 23, 0x1703030000); err != nil {
				b.Fatal(err)
			}
			if err := o.OpenSplit(content, body, 0x1703030000); err != nil {
				b.Fatal(err)
			}
		}
	})
}
