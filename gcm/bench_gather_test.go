package gcm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.com/splitseal/gcm"
)

// BenchmarkGather measures SealGather on every backend, in turn in one
// process, and reports how many times the median time of other ways it takes:
//
//	of-whole   the same text sealed in place, as one slice
//	of-copied  copying all pieces to the output first, and sealing there
//	of-cipher  the same with crypto/cipher, which has no other way
//
// Less is better. One iteration is a burst of calls of each.
//
//	go test ./gcm -run '^$' -bench Gather -benchtime 300x
func BenchmarkGather(b *testing.B) {
	forEachShape(b, func(b *testing.B, backend, kind string, sizes []int) {
		r := newPiecesRatio(b, backend, sizes)
		n := r.size
		r.reportTimes(b, map[string]func(){
			"": func() {
				if kind == "AEAD" {
					r.aead.SealGather(r.buf[:0], r.next(), r.pieces, r.data)
				} else {
					r.seq++
					r.record.SealGather(r.buf, r.seq, r.pieces, gcm.ADOf(benchHeader, 5))
				}
			},
			"whole": func() {
				if kind == "AEAD" {
					r.aead.Seal(r.buf[:0], r.next(), r.buf[:n], r.data)
				} else {
					r.seq++
					r.record.SealSplit(r.buf, r.seq, nil, gcm.ADOf(benchHeader, 5))
				}
			},
			"copied": func() {
				r.gather()
				if kind == "AEAD" {
					r.aead.Seal(r.buf[:0], r.next(), r.buf[:n], r.data)
				} else {
					r.seq++
					r.record.SealSplit(r.buf, r.seq, nil, gcm.ADOf(benchHeader, 5))
				}
			},
			"cipher": func() {
				r.gather()
				r.oracle.Seal(r.buf[:0], r.next(), r.buf[:n], r.data)
			},
		})
	})
}

// BenchmarkScatter is the mirror: OpenScatter, and OpenSplit of a RecordKey
// with all but the last piece in one place. An open may spend its ciphertext,
// so every call of every side gets a new copy first, whose time is measured
// too and taken off.
func BenchmarkScatter(b *testing.B) {
	forEachShape(b, func(b *testing.B, backend, kind string, sizes []int) {
		r := newPiecesRatio(b, backend, sizes)
		n := r.size
		prefix := make([]byte, n-sizes[len(sizes)-1])
		sealed := r.aead.Seal(nil, r.nonce, r.buf[:n], r.data)
		if kind == "RecordKey" {
			r.record.SealSplit(r.buf, 7, nil, gcm.ADOf(benchHeader, 5))
			sealed = bytes.Clone(r.buf)
		}
		theirs := r.oracle.Seal(nil, r.nonce, r.buf[:n], r.data)
		whole := func() {
			if kind == "AEAD" {
				r.must(r.aead.Open(r.buf[:0], r.nonce, r.buf, r.data))
			} else {
				r.must(nil, r.record.OpenSplit(nil, 7, r.buf, gcm.ADOf(benchHeader, 5)))
			}
		}
		scatter := func() {
			if kind == "AEAD" {
				r.scatter()
			} else {
				copy(prefix, r.buf)
			}
		}
		r.reportTimes(b, map[string]func(){
			"base": func() { copy(r.buf, sealed) },
			"": func() {
				copy(r.buf, sealed)
				if kind == "AEAD" {
					r.must(nil, r.aead.OpenScatter(r.pieces, r.nonce, r.buf, r.data))
				} else {
					r.must(nil, r.record.OpenSplit(prefix, 7, r.buf, gcm.ADOf(benchHeader, 5)))
				}
			},
			"whole": func() {
				copy(r.buf, sealed)
				whole()
			},
			"copied": func() {
				copy(r.buf, sealed)
				whole()
				scatter()
			},
			"cipher": func() {
				copy(r.buf, theirs)
				r.must(r.oracle.Open(r.buf[:0], r.nonce, r.buf, r.data))
				scatter()
			},
		})
	})
}

// BenchmarkScatterOrder is Scatter, by an AEAD, for outputs that stand in
// ascending order in one buffer, in no order in one buffer, or in no order where
// the allocator put each. Only the first can be seen to be apart in one pass.
//
//	go test ./gcm -run '^$' -bench ScatterOrder -benchtime 300x
func BenchmarkScatterOrder(b *testing.B) {
	for _, backend := range backendNames() {
		for _, shape := range []struct {
			count int
			size  func(i int) int
		}{
			{16, func(int) int { return 400 }},
			{20, func(int) int { return 320 }},
			{64, func(int) int { return 100 }},
			{200, func(int) int { return 40 }},
			{1000, func(i int) int { return 1 + i*7%15 }},
		} {
			for _, order := range []string{"ascending", "shuffled", "allocated"} {
				b.Run(fmt.Sprintf("%s/%d/%s", backend, shape.count, order), func(b *testing.B) {
					sizes := make([]int, shape.count)
					for i := range sizes {
						sizes[i] = shape.size(i)
					}
					r := newPiecesRatio(b, backend, sizes)
					if order != "allocated" {
						whole := make([]byte, r.size)
						for i, n := range sizes {
							r.pieces[i], whole = whole[:n:n], whole[n:]
						}
					}
					if order != "ascending" {
						random := rand.New(rand.NewPCG(1, 2))
						random.Shuffle(len(sizes), func(i, j int) { r.pieces[i], r.pieces[j] = r.pieces[j], r.pieces[i] })
					}
					sealed := r.oracle.Seal(nil, r.nonce, r.buf[:r.size], r.data)
					r.reportTimes(b, map[string]func(){
						"base": func() { copy(r.buf, sealed) },
						"": func() {
							copy(r.buf, sealed)
							r.must(nil, r.aead.OpenScatter(r.pieces, r.nonce, r.buf, r.data))
						},
						"cipher": func() {
							copy(r.buf, sealed)
							r.must(r.oracle.Open(r.buf[:0], r.nonce, r.buf, r.data))
							r.scatter()
						},
					})
				})
			}
		}
	}
}

// shapes are the ways to divide a text that the benchmarks measure.
var shapes = []struct {
	name  string
	sizes []int // of texts
	cut   func(n int) []int
}{
	{"halves", []int{64, 192, 600, 1350, 4000, 16384}, func(n int) []int { return equal(2, n) }},
	{"byte", []int{64, 600, 1350, 4000, 16384}, func(n int) []int { return []int{n, 1} }},
	{"trailer", []int{64, 600, 1350, 4000, 16384}, func(n int) []int { return []int{n, 20} }},
	{"header-byte", []int{600, 1350, 4000, 16384}, func(n int) []int { return []int{9, n, 1} }},
	{"header-trailer", []int{64, 600, 1350, 4000, 16384}, func(n int) []int { return []int{5, n, 20} }},
	{"16-pieces", []int{64, 1350, 4000, 16384}, func(n int) []int { return equal(16, n) }},
	{"64-pieces", []int{6400}, func(n int) []int { return equal(64, n) }},
	{"1000-pieces", []int{8000}, func(int) []int {
		sizes := make([]int, 1000)
		for i := range sizes {
			sizes[i] = 1 + i*7%15
		}
		return sizes
	}},
}

func equal(count, n int) []int {
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = n*(i+1)/count - n*i/count
	}
	return sizes
}

func forEachShape(b *testing.B, f func(b *testing.B, backend, kind string, sizes []int)) {
	for _, backend := range backendNames() {
		for _, kind := range []string{"AEAD", "RecordKey"} {
			for _, s := range shapes {
				for _, n := range s.sizes {
					b.Run(fmt.Sprintf("%s/%s/%s/%d", backend, kind, s.name, n), func(b *testing.B) {
						f(b, backend, kind, s.cut(n))
					})
				}
			}
		}
	}
}

// piecesRatio is ratio with pieces that are not next to each other.
type piecesRatio struct {
	*ratio
	size   int
	pieces [][]byte
}

func newPiecesRatio(b *testing.B, backend string, sizes []int) *piecesRatio {
	r := new(piecesRatio)
	for _, n := range sizes {
		r.pieces = append(r.pieces, make([]byte, n))
		r.size += n
	}
	r.ratio = newRatio(b, backend, 16, r.size)
	return r
}

// gather and scatter are what callers of crypto/cipher write.

func (r *piecesRatio) gather() {
	offset := 0
	for _, p := range r.pieces {
		offset += copy(r.buf[offset:], p)
	}
}

func (r *piecesRatio) scatter() {
	offset := 0
	for _, p := range r.pieces {
		offset += copy(p, r.buf[offset:])
	}
}

// reportTimes measures functions in turn and reports the time of the one
// without a name, by itself and in terms of the others. If there is a base, its
// time is taken off all others.
func (r *piecesRatio) reportTimes(b *testing.B, calls map[string]func()) {
	count := 50_000/(r.size/4+50+4*len(r.pieces)) + 1
	times := make(map[string][]float64)
	var names []string
	for name, f := range calls {
		names = append(names, name)
		f()
	}
	slices.Sort(names)
	for range b.N {
		for _, name := range names {
			f := calls[name]
			start := time.Now()
			for range count {
				f()
			}
			times[name] = append(times[name], float64(time.Since(start).Nanoseconds())/float64(count))
		}
	}
	median := func(name string) float64 {
		t := times[name]
		if t == nil {
			return 0
		}
		slices.Sort(t)
		return t[len(t)/2]
	}
	base := median("base")
	ours := median("") - base
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours, "ns")
	for _, name := range []string{"whole", "copied", "cipher"} {
		b.ReportMetric(ours/(median(name)-base), "of-"+name)
	}
}

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
