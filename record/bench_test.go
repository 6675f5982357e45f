package record

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"testing"

	"example.com/splitseal/aead"
)

var benchSizes = []int{64, 1350, 8192, 16384}

func bench(b *testing.B, f func(b *testing.B, suite *aead.Suite, size int)) {
	for _, s := range []struct {
		name  string
		suite *aead.Suite
	}{
		{"AES-128-GCM", aead.AES128GCM()},
		{"AES-256-GCM", aead.AES256GCM()},
		{"ChaCha20-Poly1305", aead.ChaCha20Poly1305()},
	} {
		for _, size := range benchSizes {
			b.Run(fmt.Sprintf("%s/%d", s.name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				f(b, s.suite, size)
			})
		}
	}
}

// BenchmarkSeal seals one record's content from where it lies.
func BenchmarkSeal(b *testing.B) {
	bench(b, func(b *testing.B, suite *aead.Suite, size int) {
		s := newTestSealer(b, suite, EpochApplication, SealerConfig{})
		content, dst := make([]byte, size), make([]byte, 0, MaxRecordSize)
		for b.Loop() {
			if s.NeedsKeyUpdate() {
				if _, err := s.SealKeyUpdate(dst, false); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := s.Seal(dst, ContentTypeApplicationData, content); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOpen opens one record's content to another buffer. The records, which an
// open uses up, are sealed while the timer is stopped.
func BenchmarkOpen(b *testing.B) {
	bench(b, func(b *testing.B, suite *aead.Suite, size int) {
		s := newTestSealer(b, suite, EpochApplication, SealerConfig{})
		o := newTestOpener(b, suite, EpochApplication, OpenerConfig{})
		content, dst := make([]byte, size), make([]byte, size)
		count := min(max(64<<10/size, 4), 256) // stays in the caches
		wire := make([]byte, 0, count*s.SealedSize(size))
		var in []byte
		for b.Loop() {
			if len(in) == 0 {
				b.StopTimer()
				if s.Seq() > 1<<23 {
					// Below the key's limit, and simpler than a KeyUpdate.
					s = newTestSealer(b, suite, EpochApplication, SealerConfig{})
					o = newTestOpener(b, suite, EpochApplication, OpenerConfig{})
				}
				in = wire
				for range count {
					var err error
					if in, err = s.Seal(in, ContentTypeApplicationData, content); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
			rec, _, err := o.OpenTo(dst, in)
			if err != nil {
				b.Fatal(err)
			}
			in = in[rec.Size:]
		}
	})
}

// BenchmarkControl is crypto/cipher, in place. Nothing in this module can make
// it faster or slower, so where it moves, the machine has moved.
func BenchmarkControl(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("AES-128-GCM/%d", size), func(b *testing.B) {
			block, err := aes.NewCipher(make([]byte, 16))
			if err != nil {
				b.Fatal(err)
			}
			a, err := cipher.NewGCM(block)
			if err != nil {
				b.Fatal(err)
			}
			nonce, ad, buf := make([]byte, a.NonceSize()), make([]byte, HeaderSize), make([]byte, size, size+a.Overhead())
			b.SetBytes(int64(size))
			for b.Loop() {
				a.Seal(buf[:0], nonce, buf, ad)
			}
		})
	}
}
