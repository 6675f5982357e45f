package mem

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOverlap compares with a byte-by-byte search, at every distance, for every
// small size, in all functions that look for common memory.
func TestOverlap(t *testing.T) {
	m := make([]byte, 64)
	for n := range 9 {
		for k := range 9 {
			for shift := -20; shift <= 20; shift++ {
				x, y := m[30:30+n], m[30+shift:30+shift+k]
				common := false
				for i := range x {
					for j := range y {
						common = common || &x[i] == &y[j]
					}
				}
				name := fmt.Sprintf("%d and %d bytes, %d apart", n, k, shift)
				if Overlap(x, y) != common || Overlap(y, x) != common {
					t.Errorf("Overlap: %s: not %v", name, common)
				}
				if want := common && shift != 0; Inexact(x, y) != want || Inexact(y, x) != want {
					t.Errorf("Inexact: %s: not %v", name, want)
				}
				if AnyOverlap(x, [][]byte{nil, y, {1}}) != common {
					t.Errorf("AnyOverlap: %s: not %v", name, common)
				}
				if _, apart := Apart([][]byte{nil, x, {1}, y, m[:0]}); apart == common {
					t.Errorf("Apart: %s: %v", name, apart)
				}
				// y is in place if it begins behind the three bytes before it.
				text := m[27 : 30+n]
				meets := shift > -3-k && shift < n && k > 0
				if _, _, got := Measure(text, [][]byte{text[:3], y}, 1000); got != InexactPieces(text, [][]byte{text[:3], y}) {
					t.Errorf("Measure: %s: %v", name, got)
				}
				if got, want := InexactPieces(text, [][]byte{text[:3], y}), meets && shift != 0; got != want {
					t.Errorf("InexactPieces: %s: %v", name, got)
				}
			}
		}
	}
	if Overlap(nil, nil) || Inexact(nil, m) || InexactPieces(nil, nil) || InexactPieces(m, nil) || AnyOverlap(nil, nil) {
		t.Error("nothing overlaps something")
	}
	if _, apart := Apart(nil); !apart {
		t.Error("Apart: nothing overlaps something")
	}
}

func TestApartOrder(t *testing.T) {
	m := make([]byte, 64)
	a, b, c := m[0:10], m[20:30], m[40:50]
	for _, pieces := range [][][]byte{{a, b, c}, {c, b, a}, {b, c, a}, {b, a, c}} {
		if _, apart := Apart(pieces); !apart {
			t.Error("pieces apart overlap")
		}
		for i := range pieces {
			for _, extra := range [][]byte{m[9:20], m[19:21], m[29:41], m[45:46]} {
				list := append(append(append([][]byte{}, pieces[:i]...), extra), pieces[i:]...)
				if _, apart := Apart(list); apart {
					t.Errorf("piece at %d of %d is not seen", i, len(list))
				}
			}
		}
	}
}

func TestTotalSize(t *testing.T) {
	kibi := make([]byte, 1024)
	for _, v := range []struct {
		pieces [][]byte
		limit  uint64
		n      int
		ok     bool
	}{
		{nil, 0, 0, true},
		{[][]byte{nil, {}}, 0, 0, true},
		{[][]byte{kibi, kibi}, 2048, 2048, true},
		{[][]byte{kibi, kibi}, 2047, 0, false},
		{[][]byte{kibi}, 0, 0, false},
		{[][]byte{kibi, nil, kibi[:5]}, math.MaxUint64, 1029, true},
	} {
		if n, ok := TotalSize(v.pieces, v.limit); n != v.n || ok != v.ok {
			t.Errorf("%d pieces, limit %d: %d, %v", len(v.pieces), v.limit, n, ok)
		}
		if n, ok, inexact := Measure(make([]byte, 9), v.pieces, v.limit); n != v.n || ok != v.ok || inexact {
			t.Errorf("Measure: %d pieces, limit %d: %d, %v, %v", len(v.pieces), v.limit, n, ok, inexact)
		}
	}
	// The sum is more than an int where that has 32 bits.
	many := make([][]byte, 1<<21)
	for i := range many {
		many[i] = kibi
	}
	if n, ok := TotalSize(many, math.MaxUint64); ok != (math.MaxInt > 1<<31) || ok && uint64(n) != 1<<31 {
		t.Errorf("2³¹ bytes: %d, %v", n, ok)
	}
}

func TestExtend(t *testing.T) {
	m := []byte("0123456789")
	whole, added, ok := Extend(m[:2:6], 3, 1)
	if !ok || string(whole) != "012345" || string(added) != "2345" || &added[0] != &m[2] {
		t.Errorf("within capacity: %q, %q", whole, added)
	}
	whole, added, ok = Extend(m[:2:6], 4, 1)
	if !ok || string(whole[:2]) != "01" || len(whole) != 7 || len(added) != 5 || &whole[0] == &m[0] || &added[0] != &whole[2] {
		t.Errorf("beyond capacity: %q, %q", whole, added)
	}
	if whole, added, ok = Extend(nil, 0, 0); !ok || len(whole) != 0 || len(added) != 0 {
		t.Errorf("of nothing: %q, %q", whole, added)
	}
	for _, n := range []int{math.MaxInt - 25, math.MaxInt - 1, math.MaxInt} {
		if whole, added, ok = Extend(m, n, 16); ok || whole != nil || added != nil {
			t.Errorf("by %d bytes: accepted", n)
		}
	}
}

// TestApart compares Apart with comparing every two pieces, for short and long
// lists in every kind of order.
func TestApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	memory := make([]byte, 1<<20)
	outside := make([]byte, 16)
	overlaps := 0
	for turn := range 400 {
		n := r.IntN(40)
		if turn%8 == 0 {
			n = r.IntN(700)
		}
		// Consecutive pieces, some of them empty, that overlap nothing but, in
		// two of three turns, one other.
		reach := 1 + r.IntN(1<<uint(r.IntN(11)))
		var pieces [][]byte
		for at := 0; len(pieces) < n; {
			size := r.IntN(reach)
			pieces = append(pieces, memory[at:at+size])
			at += size + r.IntN(3)
			if at+reach > len(memory)/2 {
				break
			}
		}
		if n = len(pieces); n > 1 && turn%3 > 0 {
			i := r.IntN(n)
			at := r.IntN(n * reach)
			pieces[i] = memory[at : at+len(pieces[i])]
		}
		switch turn % 4 {
		case 1:
			slices.Reverse(pieces)
		case 2:
			r.Shuffle(n, func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		case 3:
			for range min(n, 3) {
				i, j := r.IntN(n), r.IntN(n)
				pieces[i], pieces[j] = pieces[j], pieces[i]
			}
		}
		want := true
		for i, p := range pieces {
			want = want && !AnyOverlap(p, pieces[:i])
		}
		around, apart := Apart(pieces)
		if apart != want {
			t.Fatalf("turn %d, %d pieces: Apart says %v, want %v", turn, n, apart, want)
		}
		if !want {
			overlaps++
			continue
		}
		for _, p := range pieces {
			if len(p) > 0 && (!around.Overlaps(p[:1]) || !around.Overlaps(p[len(p)-1:])) {
				t.Fatalf("turn %d: a piece is not in the span around all", turn)
			}
		}
		if around.Overlaps(outside) {
			t.Fatalf("turn %d: the span around pieces reaches too far", turn)
		}
	}
	if overlaps < 50 {
		t.Fatalf("only %d lists with an overlap", overlaps)
	}
	// Of these lists each takes another way.
	for _, n := range []int{2, 20, 400} {
		pieces := make([][]byte, n)
		for i := range pieces {
			pieces[n-1-i] = memory[9*i : 9*i+9]
		}
		Apart(pieces) // fills the pool
		if allocs := testing.AllocsPerRun(100, func() { Apart(pieces) }); allocs != 0 {
			t.Errorf("a list of %d pieces allocates %v times", n, allocs)
		}
	}
}

// TestSpansPool looks in the pool for the spans of a list that was too long for it.
func TestSpansPool(t *testing.T) {
	memory := make([]byte, 8*maxPooledSpans)
	pieces := make([][]byte, 0, len(memory))
	for i := range memory {
		pieces = append(pieces, memory[i:i+1])
	}
	slices.Reverse(pieces)
	for range 20 { // under the race detector a pool drops what it is given, at times
		if _, apart := Apart(pieces); !apart {
			t.Fatal("pieces overlap")
		}
		for s := spansPool.Get(); s != nil; s = spansPool.Get() {
			if n := cap(*s.(*[]Span)); n > maxPooledSpans {
				t.Fatalf("%d spans are in the pool, more than %d", n, maxPooledSpans)
			}
		}
	}
}
