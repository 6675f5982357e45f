package aeadtest

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// testArena draws all arguments, often where others are, from one small memory. A
// call that the rules on overlap forbid must panic before it writes anything; any
// other one must do what the oracle does to copies, and touch nothing else.
func (s *suite) testArena(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(s.nonceSize), uint64(s.tagSize)))
	allowed, forbidden, opened := 0, 0, 0
	for range arenaCases {
		c := drawArena(rng, s)
		if c == nil {
			continue
		}
		before := bytes.Clone(c.memory)
		nonce, ad, sealed := bytes.Clone(c.nonce), bytes.Clone(c.ad), bytes.Clone(c.of(c.out))
		text := bytes.Join(c.pieces, nil)
		var err error
		message := recovered(func() { err = c.call(s.aead) })
		if c.allowed() != (message == "") || message != "" && !strings.HasPrefix(message, s.panics) {
			t.Fatalf("panic %q, allowed %v: %+v", message, c.allowed(), *c)
		}
		if message != "" {
			forbidden++
			if !bytes.Equal(c.memory, before) {
				t.Fatalf("written before the panic: %+v", *c)
			}
			continue
		}
		allowed++
		if c.opens {
			want, wantErr := s.oracle.Open(nil, nonce, sealed, ad)
			if wantErr != nil {
				want = make([]byte, len(sealed)-s.tagSize) // zeros
			} else {
				opened++
			}
			if (err != nil) != (wantErr != nil) || !bytes.Equal(bytes.Join(c.pieces, nil), want) {
				t.Fatalf("wrong plaintext, error %v, want %v: %+v", err, wantErr, *c)
			}
		} else if !bytes.Equal(c.of(c.out), s.oracle.Seal(nil, nonce, text, ad)) {
			t.Fatalf("wrong ciphertext: %+v", *c)
		}
		for i := range before {
			outside := !overlap(span{i, 1}, c.out)
			for _, p := range c.parts {
				outside = outside && !(c.opens && overlap(span{i, 1}, p))
			}
			if outside && c.memory[i] != before[i] {
				t.Fatalf("byte %d was written: %+v", i, *c)
			}
		}
	}
	if min(allowed, forbidden, opened) < arenaCases/20 {
		t.Errorf("%d calls allowed, %d forbidden, %d opened", allowed, forbidden, opened)
	}
}

// arena is one call's arguments.
type arena struct {
	memory        []byte
	out           span   // output of a seal, input of an open
	parts         []span // the text
	pieces        [][]byte
	nonceAt, adAt span // in memory, or empty
	nonce, ad     []byte
	opens         bool
	method        int
}

// span is a part of an arena's memory.
type span struct{ at, size int }

func overlap(x, y span) bool {
	return x.size > 0 && y.size > 0 && x.at < y.at+y.size && y.at < x.at+x.size
}

func (c *arena) of(s span) []byte { return c.memory[s.at : s.at+s.size] }

// drawArena returns nil if what it has drawn does not fit.
func drawArena(rng *rand.Rand, s *suite) *arena {
	size := 96 << rng.IntN(5)
	c := &arena{memory: make([]byte, size), opens: rng.IntN(2) == 0, method: rng.IntN(3)}
	for i := range c.memory {
		c.memory[i] = byte(rng.Uint32())
	}
	draw := func(n int) span { return span{rng.IntN(size - n + 1), n} }
	if s.nonceSize > size {
		return nil
	}
	c.nonceAt, c.adAt = draw(s.nonceSize), draw(rng.IntN(40))
	c.nonce, c.ad = c.of(c.nonceAt), c.of(c.adAt)
	if rng.IntN(2) == 0 {
		c.nonceAt, c.adAt = span{}, span{}
		c.nonce, c.ad = bytes.Clone(c.nonce), bytes.Clone(c.ad)
	}
	c.out.at = rng.IntN(size)
	parts := 1
	if rng.IntN(2) == 0 {
		parts = rng.IntN(5)
	}
	for range parts {
		part := draw(rng.IntN(1 + size/6))
		if at := c.out.at + c.out.size; rng.IntN(2) == 0 && at+part.size <= size {
			part.at = at // in place
		}
		c.parts = append(c.parts, part)
		c.pieces = append(c.pieces, c.of(part))
		c.out.size += part.size
	}
	text := c.out.size
	if c.out.size += s.tagSize; c.out.at+c.out.size > size {
		return nil
	}
	if c.opens && rng.IntN(4) > 0 {
		copy(c.of(c.out), s.oracle.Seal(nil, bytes.Clone(c.nonce), bytes.Clone(c.memory[:text]), bytes.Clone(c.ad)))
	}
	return c
}

// allowed says what the documentation of the calls says.
func (c *arena) allowed() bool {
	// Open only reads its input.
	if !c.isOpen() && (overlap(c.out, c.nonceAt) || overlap(c.out, c.adAt)) {
		return false
	}
	place := c.out.at
	for i, p := range c.parts {
		if p.at != place && overlap(p, c.out) {
			return false
		}
		place += p.size
		if !c.opens {
			continue
		}
		if overlap(p, c.nonceAt) || overlap(p, c.adAt) {
			return false
		}
		for _, other := range c.parts[:i] {
			if overlap(p, other) {
				return false
			}
		}
	}
	return true
}

func (c *arena) isOpen() bool { return c.opens && len(c.pieces) == 1 && c.method == 1 }

// call makes one of the calls that fit.
func (c *arena) call(a Gatherer) error {
	out := c.of(c.out)
	switch {
	case c.opens && len(c.pieces) == 1 && c.method == 0:
		return a.OpenSplit(c.pieces[0], c.nonce, out, c.ad)
	case c.isOpen():
		opened, err := a.Open(c.pieces[0][:0], c.nonce, out, c.ad)
		if err == nil {
			appended("Open", c.pieces[0], opened)
		}
		return err
	case c.opens:
		return a.OpenScatter(c.pieces, c.nonce, out, c.ad)
	case len(c.pieces) == 1 && c.method == 0:
		a.SealSplit(out, c.nonce, c.pieces[0], c.ad)
	case len(c.pieces) == 1 && c.method == 1:
		appended("Seal", out, a.Seal(out[:0], c.nonce, c.pieces[0], c.ad))
	default:
		appended("SealGather", out, a.SealGather(out[:0], c.nonce, c.pieces, c.ad))
	}
	return nil
}

// arenaCases take some 60 ms, and find out when any check of overlap is missing.
const arenaCases = 8000
