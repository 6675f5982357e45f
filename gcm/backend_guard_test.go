//go:build linux || darwin || freebsd || netbsd || openbsd

package gcm_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"testing"
	"unsafe"

	"example.com/splitseal/gcm"
	"golang.org/x/sys/unix"
)

// guardMemory places each slot against an inaccessible page: behind it if
// atEnd, else in front of it. The other side has a margin.
type guardMemory struct {
	atEnd   bool
	regions [slotCount][]byte // between two inaccessible pages
	used    []guardUse
}

type guardUse struct {
	slot slot
	n    int
}

// guardedBytes is the size of each region: any text under test, its tag and a
// margin.
const guardedBytes = 4096

func newGuardMemory(t *testing.T) *guardMemory {
	g := new(guardMemory)
	for s := range g.regions {
		g.regions[s] = guardedRegion(t, guardedBytes)
	}
	return g
}

// guardedRegion returns n bytes between two inaccessible pages. It rounds n up
// to whole pages.
func guardedRegion(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, n+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(all) })
	for _, guard := range [][]byte{all[:page], all[page+n:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : page+n : page+n]
}

func (g *guardMemory) reset() { g.used = g.used[:0] }

func (g *guardMemory) place(s slot, n int) []byte {
	r := g.regions[s]
	g.used = append(g.used, guardUse{s, n})
	if g.atEnd {
		start := len(r) - n
		copy(r[start-marginSize:start], canary)
		return r[start:len(r):len(r)]
	}
	copy(r[n:n+marginSize], canary)
	return r[:n:n]
}

func (g *guardMemory) damage() string {
	for _, u := range g.used {
		r := g.regions[u.slot]
		margin := r[u.n : u.n+marginSize]
		if g.atEnd {
			margin = r[len(r)-u.n-marginSize : len(r)-u.n]
		}
		if !bytes.Equal(margin, canary) {
			return fmt.Sprintf("bytes beside %s were written", u.slot)
		}
	}
	return ""
}

// guarded runs f, and says which call it was when an access faults.
func (x *exam) guarded(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			x.t.Fatalf("%s, at an inaccessible page: %v\n%s", x.where(), r, debug.Stack())
		}
	}()
	f()
}

// TestBackendGuardPages makes every call with texts of every length to 2200,
// each buffer ending at an inaccessible page, and again with each buffer
// starting behind one.
func TestBackendGuardPages(t *testing.T) {
	for _, atEnd := range []bool{true, false} {
		name := "start"
		if atEnd {
			name = "end"
		}
		t.Run(name, func(t *testing.T) {
			forEachKey(t, func(t *testing.T, s *keySet) {
				g := newGuardMemory(t)
				g.atEnd = atEnd
				x := newExam(t, s, g)
				h := new(heapMemory) // for vary, whose offsets do not apply here
				var m message
				x.guarded(func() {
					for n := 0; n <= 2200; n += stepFor(19) {
						s.record(&m, seqs[n%len(seqs)], n, n*5%65)
						turn := n
						if turn%5 == 4 {
							turn += 5 * 7 // other pieces, and not more than have regions
						}
						vary(h, &m, turn)
						if len(m.cuts) > maxOwnPieces {
							m.cuts = append(m.cuts[:0], n/5, n/7, 0, 1*min(n-n/5-n/7, 1), max(n-n/5-n/7-1, 0))
						}
						x.all(&m)
						// Again as a record, which the first pass often was not.
						if len(m.aad) > 8 {
							s.record(&m, seqs[n%len(seqs)], n, n%9)
							vary(h, &m, n-n%5) // one piece
							x.all(&m)
						}
					}
				})
			})
		})
	}
}

// TestBackendGuardPagesShortPieces has a batch end where a piece does, and a piece of
// 1 to 17 bytes behind it at an inaccessible page: kernels load the last block of a
// text together with bytes before it, and before a short piece there may be none.
func TestBackendGuardPagesShortPieces(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		g := newGuardMemory(t)
		x := newExam(t, s, g)
		var m message
		x.guarded(func() {
			// Batches of 128 and 256 bytes end here, the first one 32 bytes shorter.
			for _, end := range []int{96, 224, 352, 480, 736, 992} {
				for short := 1; short <= 17; short++ {
					for _, more := range []int{0, 1, 2, 15, 300} {
						s.record(&m, uint64(end), end+short+more, 5)
						for _, g.atEnd = range []bool{true, false} {
							m.split = end
							m.cuts = append(m.cuts[:0], end, short, more)
							x.some(&m, (*exam).sealGather, (*exam).openScatter, onRecord((*exam).sealGather))
							// The run that ends with the batch is not the first one.
							m.cuts = append(m.cuts[:0], end/2, end-end/2, short, more)
							x.some(&m, (*exam).sealGather, (*exam).openScatter, onRecord((*exam).sealGather))
						}
					}
				}
			}
		})
	})
}

// TestBackendGuardPagesAdditionalData puts additional data of every length to
// 300 against the pages.
func TestBackendGuardPagesAdditionalData(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		g := newGuardMemory(t)
		x := newExam(t, s, g)
		var m message
		x.guarded(func() {
			for aad := 0; aad <= 300; aad += stepFor(3) {
				for _, g.atEnd = range []bool{true, false} {
					for _, n := range []int{0, 1, 16, 33, 95, 100, 257} {
						s.record(&m, uint64(aad), n, aad)
						m.split = n / 2
						x.all(&m)
					}
				}
			}
		})
	})
}

// TestBackendGuardPagesOtherSizes does it for short tags, whose outputs are
// shorter than what a kernel stores at once, and for nonces of other sizes.
func TestBackendGuardPagesOtherSizes(t *testing.T) {
	for _, size := range []struct{ nonce, tag int }{
		{12, 12}, {12, 13}, {12, 14}, {12, 15}, {1, 16}, {8, 16}, {13, 16}, {16, 16}, {17, 16}, {60, 16},
	} {
		t.Run(fmt.Sprintf("nonce%d tag%d", size.nonce, size.tag), func(t *testing.T) {
			s := newKeySet(t, 16, size.nonce, size.tag)
			g := newGuardMemory(t)
			x := newExam(t, s, g)
			var m message
			x.guarded(func() {
				for n := 0; n <= 600; n += stepFor(7) {
					for _, g.atEnd = range []bool{true, false} {
						s.general(&m, pool[n:n+size.nonce], n, n%20)
						m.split = n * 2 / 3
						m.cuts = append(m.cuts[:0], m.split, n-m.split)
						x.all(&m)
					}
				}
			})
		})
	}
}

// TestBackendGuardPagesRefusal puts forgeries against the pages: what clears
// the outputs must not reach past them.
func TestBackendGuardPagesRefusal(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		g := newGuardMemory(t)
		x := newExam(t, s, g)
		var m message
		var forged []byte
		x.guarded(func() {
			for n := 0; n <= 2200; n += stepFor(19) {
				for _, g.atEnd = range []bool{true, false} {
					s.record(&m, uint64(n), n, n%9)
					m.split = n - min(n, n%37)
					m.cuts = append(m.cuts[:0], m.split, n-m.split)
					forged = flipped(forged, m.sealed, n*61%(8*len(m.sealed)))
					x.refuse(&m, "a bit flipped", m.nonce, m.aad, forged)
				}
			}
		})
	})
}

// TestGuardPagesTextLimit reserves addresses for a text of one byte more than the limit
// and for its tag. No call may touch any of it.
func TestGuardPagesTextLimit(t *testing.T) {
	size := gcm.MaxTextSize + 1 + gcm.TagSize
	if size > math.MaxInt {
		t.Skip("a text of the limit's size does not fit an int")
	}
	out, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Skip("no address space: ", err)
	}
	defer unix.Munmap(out)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	nonce, text := make([]byte, 12), out[:len(out)-gcm.TagSize]
	for _, tgt := range standardKeys()[0].targets {
		a, k := tgt.aead, tgt.record
		for _, seal := range []func(){
			func() { a.Seal(out[:0], nonce, text, nil) },
			func() { a.SealSplit(out, nonce, nil, nil) },
			func() { k.Seal(out, 0, text[:len(text)-1], 23, gcm.AD{}) },
			func() { k.SealSplit(out, 0, nil, gcm.AD{}) },
		} {
			mustPanic(t, "gcm: text too large", seal)
		}
		_, err = a.Open(out[:0], nonce, out, nil)
		for i, err := range []error{
			err,
			a.OpenSplit(nil, nonce, out, nil),
			a.OpenScatter([][]byte{text}, nonce, out, nil),
			k.OpenSplit(nil, 0, out, gcm.AD{}),
		} {
			if err != gcm.ErrOpen {
				t.Errorf("%s: open %d: %v", tgt.backend, i, err)
			}
		}
	}
}

// TestGuardPages shows that the tests above would notice: an access one byte
// outside a region faults on either side, and a write into a margin is seen.
func TestGuardPages(t *testing.T) {
	g := newGuardMemory(t)
	faults := func(f func()) (yes bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { yes = recover() != nil }()
		f()
		return
	}
	for _, g.atEnd = range []bool{true, false} {
		g.reset()
		p := g.place(slotText, 100)
		at := 100
		if !g.atEnd {
			at = -1
		}
		if !faults(func() { touch(p, at) }) {
			t.Errorf("atEnd %v: a read outside the region did not fault", g.atEnd)
		}
		if faults(func() { touch(p, 0); touch(p, 99) }) {
			t.Errorf("atEnd %v: a read inside the region faulted", g.atEnd)
		}
		if d := g.damage(); d != "" {
			t.Errorf("atEnd %v: damage without any: %s", g.atEnd, d)
		}
		at = -1
		if !g.atEnd {
			at = 100
		}
		*at1(p, at) = 1
		if g.damage() == "" {
			t.Errorf("atEnd %v: a write into the margin went unnoticed", g.atEnd)
		}
	}
}

// at1 returns the address of the byte i bytes behind the start of p, which may
// be outside it.
//
//go:nocheckptr
func at1(p []byte, i int) *byte {
	return (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(p)), i))
}

// touch reads that byte.
//
//go:noinline
func touch(p []byte, i int) byte { return *at1(p, i) }
