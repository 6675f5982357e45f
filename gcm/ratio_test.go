package gcm_test

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/splitseal/gcm"
)

// BenchmarkRatio measures every backend against crypto/cipher, in turn in one
// process, and reports the ratio of their median times: how many times as fast
// a backend is. One iteration is a burst of calls on each side.
//
//	go test ./gcm -run '^$' -bench Ratio -benchtime 300x
//
// Times are of whole calls through this package, nanoseconds. Content of a
// record is one byte less than the text that its row names, so that both sides
// seal and open as many bytes; crypto/cipher is given them in one place.
func BenchmarkRatio(b *testing.B) {
	for _, name := range backendNames() {
		for _, keySize := range []int{16, 24, 32} {
			for _, c := range ratioCases {
				for _, n := range []int{64, 128, 192, 384, 600, 1024, 1350, 4000, 8192, 16384} {
					if c.only != 0 && n != c.only {
						continue
					}
					b.Run(fmt.Sprintf("%s/AES-%d/%s/%d", name, keySize*8, c.name, n), func(b *testing.B) {
						ours, theirs := c.calls(b, name, keySize, n)
						reportRatio(b, n, ours, theirs)
					})
				}
			}
		}
	}
}

// reportRatio measures two functions in turn.
func reportRatio(b *testing.B, n int, ours, theirs func()) {
	// A burst takes some 50 µs: long enough that its first calls, which find
	// the other side's code in the caches, do not count, and short enough that
	// most bursts run without an interruption.
	count := 50_000/(n/4+50) + 1
	burst := func(f func()) float64 {
		start := time.Now()
		for range count {
			f()
		}
		return float64(time.Since(start).Nanoseconds()) / float64(count)
	}
	times := [2][]float64{}
	burst(ours)
	burst(theirs)
	for range b.N {
		times[0] = append(times[0], burst(ours))
		times[1] = append(times[1], burst(theirs))
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	a, z := median(times[0]), median(times[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(a, "ns")
	b.ReportMetric(z, "ns-cipher")
	b.ReportMetric(z/a, "ratio")
}

// ratioCases are what BenchmarkRatio measures: our call and the one of
// crypto/cipher that does the same, for n bytes of text.
var ratioCases = []struct {
	name  string
	only  int // the only size, or 0
	calls func(b *testing.B, backend string, keySize, n int) (ours, theirs func())
}{
	{"Seal", 0, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() { r.aead.Seal(r.buf[:0], r.next(), r.buf[:n], r.data) },
			func() { r.oracle.Seal(r.buf[:0], r.next(), r.buf[:n], r.data) }
	}},
	{"SealApart", 0, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() { r.aead.Seal(r.buf[:0], r.next(), r.other[:n], r.data) },
			func() { r.oracle.Seal(r.buf[:0], r.next(), r.other[:n], r.data) }
	}},
	// The content of a record from elsewhere, and one byte more.
	{"SealRecord", 0, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() { r.seq++; r.record.Seal(r.buf, r.seq, r.other[:n-1], 23, gcm.ADOf(0x1703030000, 5)) },
			func() { r.oracle.Seal(r.buf[:0], r.next(), r.buf[:n], r.data) }
	}},
	{"SealRecordInPlace", 0, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() { r.seq++; r.record.Seal(r.buf, r.seq, r.buf[:n-1], 23, gcm.ADOf(0x1703030000, 5)) },
			func() { r.oracle.Seal(r.buf[:0], r.next(), r.buf[:n], r.data) }
	}},
	{"Open", 0, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		r.sealOther()
		return func() { r.must(r.aead.Open(r.buf[:0], r.nonce, r.other, r.data)) },
			func() { r.must(r.oracle.Open(r.buf[:0], r.nonce, r.other, r.data)) }
	}},
	{"OpenRecord", 0, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		r.theirs = r.oracle.Seal(nil, r.nonce, r.buf[:n], r.data)
		r.record.Seal(r.other, 7, r.other[:n-1], 23, gcm.ADOf(0x1703030000, 5))
		// The last byte is opened in place, so it is put back. Records take
		// turns, or the next open would wait for that store.
		var records [8][]byte
		for i := range records {
			records[i] = slices.Clone(r.other)
		}
		last, i := r.other[n-1], 0
		return func() {
				i++
				sealed := records[i%len(records)]
				r.must(nil, r.record.OpenSplit(r.buf[:n-1], 7, sealed, gcm.ADOf(0x1703030000, 5)))
				sealed[n-1] = last
			},
			func() { r.must(r.oracle.Open(r.buf[:0], r.nonce, r.theirs, r.data)) }
	}},
	// A new key for every record.
	{"NewKeySealRecord", 64, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() {
			k, err := gcm.NewRecordKey(r.key, r.iv)
			r.must(nil, err)
			k.Seal(r.buf, 0, r.buf[:n-1], 23, gcm.ADOf(0x1703030000, 5))
		}, r.sealNewOther
	}},
	{"ResetSealRecord", 64, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() {
			r.must(nil, r.record.Reset(r.key, r.iv))
			r.record.Seal(r.buf, 0, r.buf[:n-1], 23, gcm.ADOf(0x1703030000, 5))
		}, r.sealNewOther
	}},
	{"NewKeySeal", 64, func(b *testing.B, backend string, keySize, n int) (ours, theirs func()) {
		r := newRatio(b, backend, keySize, n)
		return func() {
			a, err := gcm.New(r.key)
			r.must(nil, err)
			a.Seal(r.buf[:0], r.next(), r.buf[:n], r.data)
		}, r.sealNewOther
	}},
}

// ratio is what the calls of one case share.
type ratio struct {
	b                  *testing.B
	key, iv            []byte
	aead               *gcm.AEAD
	record             *gcm.RecordKey
	oracle             cipher.AEAD
	nonce, data        []byte
	buf, other, theirs []byte // text of n bytes and a tag
	seq                uint64
}

func newRatio(b *testing.B, backend string, keySize, n int) *ratio {
	b.Cleanup(forceBackend(b, backend))
	r := &ratio{
		b:   b,
		key: filler("ratio", keySize), iv: filler("iv", 12),
		nonce: make([]byte, 12), data: make([]byte, 5),
		buf: make([]byte, n+gcm.TagSize), other: make([]byte, n+gcm.TagSize),
	}
	var err error
	r.aead, err = gcm.New(r.key)
	r.must(nil, err)
	r.record, err = gcm.NewRecordKey(r.key, r.iv)
	r.must(nil, err)
	block, err := aes.NewCipher(r.key)
	r.must(nil, err)
	r.oracle, err = cipher.NewGCM(block)
	r.must(nil, err)
	return r
}

// next returns another nonce, written as most programs write them.
func (r *ratio) next() []byte {
	r.nonce[11]++
	return r.nonce
}

func (r *ratio) sealOther() {
	n := len(r.other) - gcm.TagSize
	r.oracle.Seal(r.other[:0], r.nonce, r.other[:n], r.data)
}

// sealNewOther is what a new key and one seal take with crypto/cipher.
func (r *ratio) sealNewOther() {
	block, err := aes.NewCipher(r.key)
	r.must(nil, err)
	aead, err := cipher.NewGCM(block)
	r.must(nil, err)
	aead.Seal(r.buf[:0], r.next(), r.buf[:len(r.buf)-gcm.TagSize], r.data)
}

func (r *ratio) must(_ []byte, err error) {
	if err != nil {
		r.b.Fatal(err)
	}
}
