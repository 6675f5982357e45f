package asm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/splitseal/internal/mem"
)

// BenchmarkKernels measures kernels called from Go, without the checks of
// package gcm, for the table of times against lengths in docs/kernels.md. Use
// -benchtime 300x: an iteration is one burst of each form.
func BenchmarkKernels(b *testing.B) {
	forEachBackend(b, func(b *testing.B, k *Key) {
		text, out := make([]byte, 2000), make([]byte, 2000)
		for _, n := range []int{16, 64, 128, 192, 256, 384, 512, 768, 1024} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				nonce, ad := Nonce{}, ADOf(0x1703030000, 5)
				compare(b, map[string]func(){
					"seal-ns":       func() { nonce.Lo++; k.Seal(&out[0], &out[0], n, nonce, ad) },
					"seal-apart-ns": func() { nonce.Lo++; k.SealTrailer(&out[0], &text[0], n-1, 23, nonce, ad) },
					"open-ns":       func() { nonce.Lo++; k.Open(&out[0], &text[0], n, nonce, ad) },
					"open-apart-ns": func() { nonce.Lo++; k.OpenTrailer(&out[0], &text[0], n-1, nonce, ad) },
				})
			})
		}
	})
}

// BenchmarkThresholds compares moving all text first with going over its
// pieces, which is what copyBelow, smallPiece and splitFrom decide. Use
// -benchtime 300x.
func BenchmarkThresholds(b *testing.B) {
	forEachBackend(b, func(b *testing.B, k *Key) {
		text, out := make([]byte, 10000), make([]byte, 10000)
		run := func(name string, pieces [][]byte) {
			n := 0
			for _, p := range pieces {
				n += len(p)
			}
			b.Run(name, func(b *testing.B) {
				nonce, ad := Nonce{}, ADOf(0x1703030000, 5)
				compare(b, map[string]func(){
					"moved-ns": func() {
						nonce.Lo++
						mem.Gather(out[:n], pieces)
						k.Seal(&out[0], &out[0], n, nonce, ad)
					},
					"pieces-ns": func() { nonce.Lo++; k.sealPieces(&out[0], n, pieces, nonce, ad) },
				})
			})
		}
		for _, n := range []int{copyBelow[k.backend], 256, 300, 400, 600, 1000} {
			if n < copyBelow[k.backend] {
				continue
			}
			run(fmt.Sprintf("halves/%d", n), [][]byte{text[:n/2], text[n/2 : n]})
			run(fmt.Sprintf("header-trailer/%d", n), [][]byte{text[:5], text[5 : n-20], text[n-20 : n]})
			run(fmt.Sprintf("trailer/%d", n), [][]byte{text[:n-20], text[n-20 : n]})
			run(fmt.Sprintf("four/%d", n), [][]byte{text[:n/4], text[n/4 : n/2], text[n/2 : n*3/4], text[n*3/4 : n]})
		}
		for _, size := range []int{8, 16, 32, 48, 64, 100, 256} {
			run(fmt.Sprintf("small/%d", size), slices.Collect(slices.Chunk(text[:8000], size)))
		}
		for _, prefix := range []int{256, 512, 768, 1024, 1500} {
			for _, rest := range []int{20, 300} {
				n := prefix + rest
				apart, whole := text[:prefix], out[:n]
				b.Run(fmt.Sprintf("split/%d+%d", prefix, rest), func(b *testing.B) {
					nonce, ad := Nonce{}, ADOf(0x1703030000, 5)
					compare(b, map[string]func(){
						"moved-ns": func() {
							nonce.Lo++
							copy(whole, apart)
							k.Seal(&out[0], &out[0], n, nonce, ad)
						},
						"pieces-ns": func() {
							nonce.Lo++
							pieces := [2][]byte{apart, whole[prefix:]}
							k.sealPieces(&out[0], n, pieces[:], nonce, ad)
						},
						"open-moved-ns": func() {
							nonce.Lo++
							k.Open(&out[0], &out[0], n, nonce, ad)
							mem.MoveOut(apart, whole[:prefix]) // as after the right tag
						},
						"open-pieces-ns": func() {
							nonce.Lo++
							pieces := [2][]byte{apart, whole[prefix:]}
							k.openPieces(pieces[:], &out[0], n, nonce, ad)
						},
					})
				})
			}
		}
	})
}

func forEachBackend(b *testing.B, f func(b *testing.B, k *Key)) {
	for _, backend := range Backends() {
		if backend == Portable {
			continue
		}
		b.Run(backend.String(), func(b *testing.B) {
			k := new(Key)
			k.Init(backend, make([]byte, 16), nil)
			k.makeLong()
			f(b, k)
		})
	}
}

// compare has the functions take turns, a burst of calls each, and reports the
// time of a call of each: that of the lowest tenth of the bursts, since what
// else runs on the machine only adds to it.
func compare(b *testing.B, functions map[string]func()) {
	const burst = 100
	times := map[string][]time.Duration{}
	for b.Loop() {
		for name, f := range functions {
			start := time.Now()
			for range burst {
				f()
			}
			times[name] = append(times[name], time.Since(start))
		}
	}
	for name, t := range times {
		slices.Sort(t)
		b.ReportMetric(float64(t[len(t)/10].Nanoseconds())/burst, name)
	}
	b.ReportMetric(0, "ns/op") // of all bursts together, which says nothing
}
