package gcm_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"example.com/splitseal/gcm"
)

// reduced reports whether a test should sample instead of being exhaustive:
// the race detector makes these loops many times slower and sees no more after
// the first thousand turns, since kernels are invisible to it.
func reduced() bool { return raceEnabled || testing.Short() }

// stepFor returns 1, or n for a reduced run.
func stepFor(n int) int {
	if reduced() {
		return n
	}
	return 1
}

// vary chooses offsets, a split and pieces for m from turn, so that a loop over
// lengths meets them all many times and every run meets the same ones.
func vary(h *heapMemory, m *message, turn int) {
	r := uint64(turn)*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
	for s := range h.offsets {
		r ^= r << 13
		r ^= r >> 7
		r ^= r << 17
		h.offsets[s] = int(r>>40) % 64
	}
	n := len(m.text)
	// Both counts of cases are odd and not divisible by 3, so that each case meets
	// each residue of a stride.
	switch turn % 5 {
	case 0:
		m.split = max(n-1, 0) // a record: content, then its content type
	case 1:
		m.split = n
	case 2:
		m.split = int(r >> 20 % uint64(n+1))
	case 3:
		m.split = max(n-int(r>>20%40), 0) // a record with padding
	case 4:
		m.split = min(n, int(r>>20%40)) // a header
	}
	m.cuts = m.cuts[:0]
	switch turn % 5 {
	case 0:
		m.cuts = append(m.cuts, n)
	case 1:
		m.cuts = append(m.cuts, m.split, n-m.split)
	case 2:
		a := int(r >> 8 % uint64(n+1))
		b := int(r >> 28 % uint64(n-a+1))
		m.cuts = append(m.cuts, a, b, n-a-b)
	case 3:
		a := int(r >> 18 % uint64(n+1))
		m.cuts = append(m.cuts, 0, a, 0, n-a, 0)
	case 4:
		for n > 0 {
			r = r*6364136223846793005 + 1442695040888963407
			k := min(n, int(r>>33)%(1+n/4))
			if r>>61 == 0 {
				k = min(n, int(r>>33)%17)
			}
			m.cuts = append(m.cuts, k)
			n -= k
			if len(m.cuts) == 40 {
				m.cuts = append(m.cuts, n)
				break
			}
		}
	}
}

// seqs are sequence numbers whose bytes are easy to confuse.
var seqs = []uint64{0, 1, 0xff, 0x100, 1<<32 - 1, 1 << 32, 0x0102030405060708, 1 << 63, 1<<64 - 2, 1<<64 - 1}

// TestBackendLengths makes every call with texts of every length up to 17,000
// and beyond: every residue of every stride that a kernel could have, on both
// sides of the stride's multiples. Turns among the calls would save some seconds,
// and leave each call lengths that it never meets.
func TestBackendLengths(t *testing.T) {
	const most = 17_000 + 17
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		for n, step := 0, 1; n <= most; n += step {
			if n > 300 {
				step = stepFor(97)
			}
			s.record(&m, seqs[n%len(seqs)], n, n%9)
			vary(h, &m, n)
			x.all(&m)
		}
	})
}

// TestBackendAdditionalData crosses additional data of every length to 64 and
// some long ones with texts of every length to 2200.
func TestBackendAdditionalData(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		for aad := range 65 {
			for n := aad % stepFor(7); n <= 2200; n += stepFor(97) {
				s.record(&m, seqs[(n+aad)%len(seqs)], n, aad)
				vary(h, &m, n+aad*3)
				switch n % 4 {
				case 0:
					x.some(&m, (*exam).sealInPlace)
				case 1:
					x.some(&m, (*exam).openInPlace)
				case 2:
					x.some(&m, (*exam).sealSplit)
				case 3:
					x.some(&m, (*exam).openSplit)
				}
			}
			for n := 0; n < 49; n += stepFor(5) {
				s.record(&m, seqs[n%len(seqs)], n, aad)
				vary(h, &m, n+aad)
				x.all(&m)
			}
		}
		for _, aad := range []int{79, 80, 81, 95, 96, 97, 127, 128, 129, 255, 256, 257, 511, 512, 767, 768, 769, 1023,
			1024, 1025, 2047, 4095, 4096, 4097, 16383, 65519, 65520, 65521, 65535, 65536, 65537, 131072 + 33, 1<<20 + 3} {
			for _, n := range []int{0, 1, 15, 16, 17, 95, 96, 97, 223, 224, 300, 4111} {
				s.record(&m, seqs[n%len(seqs)], n, aad)
				vary(h, &m, n+aad)
				x.all(&m)
			}
		}
	})
}

// TestBackendHugeAdditionalData seals and opens with 512 MiB and more of additional
// data, whose length in bits needs more than 32 bits (intel-ipsec-mb issue 47).
func TestBackendHugeAdditionalData(t *testing.T) {
	if reduced() || math.MaxInt == math.MaxInt32 {
		t.Skip("512 MiB of address space: not on 32-bit machines, with the race detector or with -short")
	}
	// Nearly all of it is never written, so the system has no memory to find.
	aad := make([]byte, 1<<29)
	aad[0], aad[1<<28], aad[len(aad)-1] = 1, 2, 3
	s := standardKeys()[0]
	nonce, text := pool[:12], pool[100:400]
	want := s.oracle.Seal(nil, nonce, text, aad)
	// A tag for the length cut to 32 bits, which is none, must not pass.
	short := s.oracle.Seal(nil, nonce, text, nil)
	for _, tgt := range s.targets {
		if got := tgt.aead.Seal(nil, nonce, text, aad); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of additional data seal to another tag", tgt.backend, len(aad))
		}
		if got, err := tgt.aead.Open(nil, nonce, want, aad); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes of additional data do not open: %v", tgt.backend, len(aad), err)
		}
		if _, err := tgt.aead.Open(nil, nonce, short, aad); err != gcm.ErrOpen {
			t.Errorf("%s: %d bytes of additional data open what was sealed without any: %v", tgt.backend, len(aad), err)
		}
	}
}

// TestBackendAlignments places text, output, nonce and additional data at
// every distance from a 64-byte boundary.
func TestBackendAlignments(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		for _, n := range []int{1, 15, 17, 64, 95, 113, 225, 257, 600, 1350} {
			s.record(&m, seqs[n%len(seqs)], n, 13)
			m.split = n - 1
			m.cuts = append(m.cuts[:0], n/3, n-n/3)
			for in := 0; in < 64; in += stepFor(13) {
				for out := range 64 {
					h.offsets = [slotCount]int{
						slotNonce: (in*3 + out) % 64, slotAAD: (in + out*5) % 64,
						slotText: in, slotPrefix: in, slotOut: out,
						slotPiece: in, slotPiece + 1: (in + out) % 64,
					}
					x.some(&m, (*exam).sealApart, (*exam).openApart, (*exam).sealSplit, (*exam).openSplit)
				}
				x.all(&m)
			}
		}
	})
}

// TestBackendSplits splits texts to 300 bytes at every point, and longer ones
// at random points and near every multiple of 16.
func TestBackendSplits(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		splits := func(seq uint64, n int, points func(yield func(int) bool)) {
			s.record(&m, seq, n, 5)
			points(func(p int) bool {
				vary(h, &m, n*7+p)
				m.split = p
				m.cuts = append(m.cuts[:0], p, n-p)
				x.some(&m, (*exam).sealSplit, (*exam).openSplit, onRecord((*exam).sealSplit), onRecord((*exam).openSplit),
					(*exam).sealGather, (*exam).openScatter, onRecord((*exam).sealGather), onRecord((*exam).sealGatherInPlace))
				return true
			})
		}
		for n := 0; n <= 300; n += stepFor(23) {
			splits(uint64(n), n, func(yield func(int) bool) {
				for p := range n + 1 {
					yield(p)
				}
			})
		}
		rng := rand.New(rand.NewPCG(3, uint64(len(s.key))))
		for range 1500 / stepFor(20) {
			n := 301 + rng.IntN(3000)
			if rng.IntN(10) == 0 {
				n = 301 + rng.IntN(17_000)
			}
			splits(rng.Uint64(), n, func(yield func(int) bool) {
				near := 16*rng.IntN(n/16) + rng.IntN(3) - 1
				for _, p := range []int{rng.IntN(n + 1), rng.IntN(n + 1), max(near, 0), n - rng.IntN(40)} {
					yield(p)
				}
			})
		}
		// Three pieces, every way, of texts short enough for it.
		for n := 0; n <= 50; n += stepFor(9) {
			s.record(&m, uint64(n), n, 5)
			for a := range n + 1 {
				for b := range n - a + 1 {
					m.cuts = append(m.cuts[:0], a, b, n-a-b)
					x.some(&m, (*exam).sealGather, (*exam).openScatter, onRecord((*exam).sealGather))
				}
			}
		}
	})
}

// TestBackendPieces gathers and scatters many pieces.
func TestBackendPieces(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		rng := rand.New(rand.NewPCG(4, uint64(len(s.key))))
		// Each pattern yields the length of piece i.
		constant := func(k int) func(int) int { return func(int) int { return k } }
		patterns := []func(i int) int{
			constant(1), constant(2), constant(3), constant(15), constant(16), constant(17), constant(31), constant(33),
			constant(63), constant(65), constant(95), constant(97), constant(127), constant(129), constant(255), constant(257),
			func(i int) int { return i % 2 },                           // every other one empty
			func(i int) int { return []int{0, 0, 1, 0, 0, 16}[i%6] },   // mostly empty
			func(i int) int { return i },                               // 0, 1, 2, ...
			func(i int) int { return []int{1, 15, 16, 17, 240}[i%5] },  // back to a block boundary
			func(i int) int { return []int{200, 1, 300, 0, 7}[i%5] },   // long and short
			func(i int) int { return rng.IntN(16) },                    // shorter than a block
			func(i int) int { return rng.IntN(1 + 1<<rng.IntN(10)) },   // all magnitudes
			func(i int) int { return 768 * (rng.IntN(3)) },             // whole strides and nothing
			func(i int) int { return []int{1000, 1, 1, 1, 1}[i%5] },    // bytes behind a long piece
			func(i int) int { return 96*(1+i%3) + []int{0, 1, 15}[i] }, // three pieces near a stride
		}
		var m message
		for i, pattern := range patterns {
			for _, n := range []int{0, 1, 15, 16, 17, 100, 257, 700, 1500, 4100} {
				if n > 700 && reduced() {
					break
				}
				s.record(&m, uint64(n), n, 5)
				vary(h, &m, n)
				m.cuts = m.cuts[:0]
				rest := n
				for j := 0; rest > 0 && j < 5000; j++ {
					k := rest
					if i < len(patterns)-1 || j < 3 {
						k = min(rest, pattern(j))
					}
					m.cuts = append(m.cuts, k)
					rest -= k
				}
				m.cuts = append(m.cuts, rest, 0)
				x.some(&m, (*exam).sealGather, (*exam).sealGatherInPlace, (*exam).openScatter, (*exam).openScatterInPlace,
					onRecord((*exam).sealGather), onRecord((*exam).sealGatherInPlace))
			}
		}
		// No pieces at all, and a thousand with nothing in them.
		for _, cuts := range [][]int{{}, make([]int, 1000)} {
			s.record(&m, 9, 0, 5)
			m.cuts = append(m.cuts[:0], cuts...)
			x.some(&m, (*exam).sealGather, (*exam).openScatter, onRecord((*exam).sealGather))
		}
	})
}

// TestBackendPiecesOverlap gathers pieces that share memory with each other,
// which is allowed since they are only read.
func TestBackendPiecesOverlap(t *testing.T) {
	for _, s := range standardKeys() {
		base := pool[100:900]
		pieces := [][]byte{base, base, base[:1], base[5:300], base[4:299], nil, base[:0], base[799:]}
		text := bytes.Join(pieces, nil)
		nonce, aad := pool[:12], pool[20:25]
		want := s.oracle.Seal(nil, nonce, text, aad)
		for _, tgt := range s.targets {
			if got := tgt.aead.SealGather(nil, nonce, pieces, aad); !bytes.Equal(got, want) {
				t.Errorf("%s %s: pieces that overlap seal to something else", tgt.backend, s.name)
			}
		}
	}
}

// TestBackendLongTexts crosses the bound of one kernel call, 64 KiB, with
// whole texts, splits and pieces on both sides of it, and goes on to 4 MiB.
func TestBackendLongTexts(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		rng := rand.New(rand.NewPCG(5, uint64(len(s.key))))
		var m message
		try := func(n int, calls ...func(*exam)) {
			s.record(&m, rng.Uint64(), n, n%9)
			vary(h, &m, n)
			if n > 65536 && n%2 == 0 {
				m.split = 65536 + n%5 - 2
			}
			x.some(&m, calls...)
		}
		every := slices.Concat(aeadCalls, recordCalls)
		for n := 65535; n <= 65553; n += stepFor(6) {
			try(n, every...)
		}
		for i, n := range []int{65536 - 16, 65536 - 1, 67585, 102401, 131071, 131072, 131073, 131072 + 15, 131072 + 16,
			131072 + 17, 196608 - 1, 196608 + 1, 65536*3 + 257, 65536*5 - 1, 65536*5 + 33} {
			for k := range 5 {
				try(n, every[(i+k*4)%len(every)])
			}
		}
		// Cuts that fall on, before and after the bound.
		for _, first := range []int{0, 1, 15, 16, 17, 65519, 65520, 65521, 65535, 65536, 65537, 65551, 65552, 65553, 81920, 131071, 131073} {
			n := 131072 + 40
			s.record(&m, uint64(first), n, 5)
			m.split = first
			m.cuts = append(m.cuts[:0], first, 1, n-first-1)
			if first == n {
				m.cuts[1], m.cuts[2] = 0, 0
			}
			vary := []func(*exam){(*exam).sealGather, (*exam).openScatter, (*exam).sealSplit, (*exam).openSplit,
				onRecord((*exam).sealGather), onRecord((*exam).sealSplit), onRecord((*exam).openSplit)}
			x.some(&m, vary...)
		}
		if !reduced() {
			try(1<<20+7, every...)
			try(4<<20, (*exam).sealInPlace, (*exam).openInPlace, (*exam).sealGather, (*exam).openScatter,
				onRecord((*exam).sealSplit), onRecord((*exam).openSplit))
			try(4<<20+1, (*exam).sealApart, (*exam).openApart, (*exam).sealSplit, (*exam).recordSealApart)
		}
	})
}

// TestBackendRandom draws everything at once.
func TestBackendRandom(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		rng := rand.New(rand.NewPCG(6, uint64(len(s.key))))
		var m message
		for range 3000 / stepFor(10) {
			n := rng.IntN(1 << rng.IntN(14))
			s.record(&m, rng.Uint64(), n, rng.IntN(1<<rng.IntN(8)))
			vary(h, &m, rng.Int())
			x.all(&m)
		}
	})
}

// TestBackendOtherSizes puts nonces of other sizes, and short tags, through
// the same calls.
func TestBackendOtherSizes(t *testing.T) {
	type sizes struct{ nonce, tag int }
	var all []sizes
	for _, nonce := range []int{1, 2, 4, 7, 8, 11, 13, 15, 16, 17, 20, 32, 64, 100, 256, 300} {
		all = append(all, sizes{nonce, 16})
	}
	for _, tag := range []int{12, 13, 14, 15} {
		all = append(all, sizes{12, tag})
	}
	for _, size := range all {
		t.Run(fmt.Sprintf("nonce%d tag%d", size.nonce, size.tag), func(t *testing.T) {
			for _, keySize := range []int{16, 24, 32} {
				s := newKeySet(t, keySize, size.nonce, size.tag)
				h := new(heapMemory)
				x := newExam(t, s, h)
				var m message
				for n := 0; n <= 700; n += stepFor(3) * (1 + n/100) {
					s.general(&m, pool[n:n+size.nonce], n, n*7%65)
					vary(h, &m, n)
					x.all(&m)
				}
				for _, n := range []int{1350, 2200, 4111, 16385, 65537} {
					s.general(&m, pool[n:n+size.nonce], n, 13)
					vary(h, &m, n)
					x.all(&m)
				}
			}
		})
	}
}

// TestBackendConcurrentUse seals and opens with one AEAD from several
// goroutines.
func TestBackendConcurrentUse(t *testing.T) {
	for _, s := range standardKeys() {
		var group sync.WaitGroup
		for g := range 2 * runtime.GOMAXPROCS(0) {
			group.Go(func() {
				h := new(heapMemory)
				x := newExam(t, s, h)
				var m message
				for turn := range 400 / stepFor(4) {
					n := (turn*37 + g*11) % 3000
					s.record(&m, uint64(turn), n, 9) // no record, so the shared AEAD only
					vary(h, &m, turn)
					if !t.Failed() {
						x.all(&m)
					}
				}
			})
		}
		group.Wait()
	}
}

// TestBackendAllocations requires that no call allocates when its output has
// room, nor a key that takes the place of another one.
func TestBackendAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, s := range standardKeys() {
		for _, tgt := range s.targets {
			a, k := tgt.aead, tgt.record
			for _, n := range []int{0, 64, 1350, 16384} {
				nonce, aad := pool[:12], pool[50:55]
				text := slices.Clone(pool[100 : 100+n])
				sealed := a.Seal(nil, nonce, text, aad)
				out := make([]byte, n+gcm.TagSize)
				pieces := [][]byte{text[:n/3], text[n/3:]}
				rec := make([]byte, n+1+gcm.TagSize)
				allocs := func(name string, f func()) {
					if got := testing.AllocsPerRun(20, f); got != 0 {
						t.Errorf("%s %s %s of %d bytes: %v allocations", tgt.backend, s.name, name, n, got)
					}
				}
				allocs("Seal", func() { a.Seal(out[:0], nonce, text, aad) })
				allocs("SealGather", func() { a.SealGather(out[:0], nonce, pieces, aad) })
				allocs("SealSplit", func() { a.SealSplit(out, nonce, text, aad) })
				allocs("SealSplit of half", func() { a.SealSplit(out, nonce, text[:n/2], aad) })
				allocs("OpenSplit of half", func() { copy(out, sealed); a.OpenSplit(text[:n/2], nonce, out, aad) })
				allocs("RecordKey.SealSplit of half", func() { k.SealSplit(rec, 1, text[:n/2], gcm.ADOf(2, 5)) })
				allocs("RecordKey.OpenSplit of half", func() { k.OpenSplit(text[:n/2], 1, rec, gcm.ADOf(2, 5)) })
				allocs("Open", func() { a.Open(text[:0], nonce, sealed, aad) })
				allocs("OpenSplit", func() { copy(out, sealed); a.OpenSplit(text, nonce, out, aad) })
				allocs("OpenScatter", func() { copy(out, sealed); a.OpenScatter(pieces, nonce, out, aad) })
				allocs("RecordKey.Seal", func() { k.Seal(rec, 1, text, 23, gcm.ADOf(2, 5)) })
				allocs("RecordKey.SealSplit", func() { k.SealSplit(rec, 1, text, gcm.ADOf(2, 5)) })
				allocs("RecordKey.SealGather", func() { k.SealGather(out, 1, pieces, gcm.ADOf(2, 5)) })
				allocs("RecordKey.OpenSplit", func() { k.OpenSplit(text, 1, rec, gcm.ADOf(2, 5)) })
				if tgt.backend != "portable" {
					allocs("RecordKey.Reset and Seal", func() { k.Reset(s.key, s.iv); k.Seal(rec, 1, text, 23, gcm.ADOf(2, 5)) })
				}
			}
		}
	}
}
