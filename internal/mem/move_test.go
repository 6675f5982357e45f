package mem

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGatherScatter moves pieces of every short size, apart and in place, to a
// text and back, with bytes around them that must stay.
func TestGatherScatter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(1 + r.IntN(255)) // zeros stand for what was moved
		}
		return b
	}
	for turn := range 500 {
		memory := random(2000)
		text := memory[100:1900:1900]
		var pieces, wholes [][]byte
		var apart []bool
		size := 0
		for range r.IntN(60) {
			n := (turn + len(pieces)) % 40
			if size+n > len(text) {
				break
			}
			whole := random(n + 20)
			p := whole[10 : 10+n]
			elsewhere := r.IntN(4) > 0
			if !elsewhere {
				p = text[size : size+n]
			}
			pieces, wholes, apart = append(pieces, p), append(wholes, whole), append(apart, elsewhere)
			size += n
		}
		want := bytes.Join(pieces, nil)
		before, sources := slices.Clone(memory), slices.Clone(wholes)
		for i := range sources {
			sources[i] = slices.Clone(sources[i])
		}
		if n := Gather(text, pieces); n != size || !bytes.Equal(text[:size], want) {
			t.Fatalf("turn %d: gathered %d bytes %x, want %d bytes %x", turn, n, text[:size], size, want)
		}
		unchanged := func(what string) {
			t.Helper()
			for i := range before {
				if (i < 100 || i >= 100+size) && memory[i] != before[i] {
					t.Fatalf("turn %d: %s changed byte %d beside the text", turn, what, i-100)
				}
			}
		}
		unchanged("Gather")
		for i := range wholes {
			if !bytes.Equal(wholes[i], sources[i]) {
				t.Fatalf("turn %d: Gather changed what it reads", turn)
			}
		}

		for i, p := range pieces {
			if apart[i] {
				clear(p)
			}
		}
		Scatter(pieces, text)
		unchanged("Scatter")
		if got := bytes.Join(pieces, nil); !bytes.Equal(got, want) {
			t.Fatalf("turn %d: scattered %x, want %x", turn, got, want)
		}
		at := 0
		for i, p := range pieces {
			if apart[i] && !bytes.Equal(text[at:at+len(p)], make([]byte, len(p))) {
				t.Fatalf("turn %d: Scatter left plaintext", turn)
			}
			if apart[i] && !bytes.Equal(wholes[i][:10], sources[i][:10]) || !bytes.Equal(wholes[i][10+len(p):], sources[i][10+len(p):]) {
				t.Fatalf("turn %d: Scatter wrote beside a piece", turn)
			}
			at += len(p)
		}
	}
}

// TestGatherStops fills a text that is shorter than the pieces.
func TestGatherStops(t *testing.T) {
	pieces := [][]byte{{1, 2, 3}, bytes.Repeat([]byte{4}, 30), {5}}
	all := bytes.Join(pieces, nil)
	for n := range len(all) {
		text := make([]byte, n+1)
		if got := Gather(text[:n], pieces); got != n || !bytes.Equal(text[:n], all[:n]) || text[n] != 0 {
			t.Errorf("%d bytes: %d, %x", n, got, text)
		}
	}
}
