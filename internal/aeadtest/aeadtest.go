// Package aeadtest is the contract that every AEAD of this module keeps, as a
// test suite: [Run] for those that gather, [RunRecord] for keys bound to an IV,
// [Compare] and [CompareRecord] for one input, as fuzz targets have it.
//
// What sealing must produce comes from an oracle, an independent
// implementation under the same key. What calls may touch is checked on the
// whole of a small memory in which all arguments lie.
package aeadtest

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Gatherer is what [Run] tests. It is declared here so that this package
// imports none of those that it tests.
type Gatherer interface {
	cipher.AEAD
	SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte
	SealSplit(out, nonce, prefix, additionalData []byte)
	OpenSplit(prefix, nonce, buf, additionalData []byte) error
	OpenScatter(pieces [][]byte, nonce, ciphertext, additionalData []byte) error
}

// RecordKey is what [RunRecord] tests. AD is the type that additional data has.
type RecordKey[AD any] interface {
	Seal(out []byte, seq uint64, text []byte, trailer byte, ad AD)
	SealSplit(out []byte, seq uint64, prefix []byte, ad AD)
	SealGather(out []byte, seq uint64, pieces [][]byte, ad AD)
	OpenSplit(prefix []byte, seq uint64, buf []byte, ad AD) error
}

// Config says what to test.
type Config struct {
	AEAD    Gatherer
	Oracle  cipher.AEAD // another implementation under the same key
	ErrOpen error       // the one error of every failed open
	Panics  string      // how every panic message begins

	// Allocates says that the AEAD allocates more than the oracle.
	Allocates bool
}

// RecordConfig says what to test. The oracle has 12-byte nonces. ADOf makes
// additional data of an integer and its size, and panics if the size is not 0 to 8 or
// the integer has bits beyond it.
type RecordConfig[AD any] struct {
	Key     RecordKey[AD]
	ADOf    func(value uint64, size int) AD
	IV      []byte
	Oracle  cipher.AEAD
	ErrOpen error
	Panics  string
}

// Run runs the suite on c.AEAD.
func Run(t *testing.T, c Config) {
	s := newSuite(c)
	t.Run("Sizes", s.testSizes)
	t.Run("EverySplit", s.testEverySplit)
	t.Run("RandomPieces", s.testRandomPieces)
	t.Run("SharedPieces", s.testSharedPieces)
	t.Run("Empty", s.testEmpty)
	t.Run("Append", s.testAppend)
	t.Run("Overlap", s.testOverlap)
	t.Run("OutputsOverlap", s.testOutputsOverlap)
	t.Run("Arena", s.testArena)
	t.Run("Arguments", s.testArguments)
	t.Run("Tampering", s.testTampering)
	t.Run("Concurrent", s.testConcurrent)
	if !c.Allocates {
		t.Run("Allocations", s.testAllocations)
	}
}

// RunRecord runs the suite on c.Key.
func RunRecord[AD any](t *testing.T, c RecordConfig[AD]) {
	s := newRecordSuite(c)
	t.Run("Sizes", s.testSizes)
	t.Run("EverySplit", s.testEverySplit)
	t.Run("RandomPieces", s.testRandomPieces)
	t.Run("SharedPieces", s.testSharedPieces)
	t.Run("Overlap", s.testOverlap)
	t.Run("Tampering", s.testTampering)
	t.Run("Allocations", s.testAllocations)
	t.Run("Numbers", func(t *testing.T) { testNumbers(t, c) })
	t.Run("RecordArguments", func(t *testing.T) { testRecordArguments(t, c) })
}

// Compare fails the test unless every entry point of c.AEAD does to one text
// what c.Oracle does. cuts are the lengths of pieces; what they leave of text
// is the last piece, and what is too long is shortened.
func Compare(t testing.TB, c Config, nonce, text, ad []byte, cuts []int) {
	s := newSuite(c)
	s.compare(t, nonce, text, ad, cuts)
}

// CompareRecord is [Compare] for a RecordKey. adSize is 0 to 8.
func CompareRecord[AD any](t testing.TB, c RecordConfig[AD], seq, ad uint64, adSize int, text []byte, cuts []int) {
	s := newRecordSuite(c)
	s.compare(t, c.nonce(seq), text, binary.BigEndian.AppendUint64(nil, ad)[8-adSize:], cuts)
}

// Forge fails the test unless every entry point of c.AEAD refuses the
// ciphertext of text with one bit flipped, and leaves no plaintext behind. The
// bit counts through ciphertext and tag, and wraps around.
func Forge(t testing.TB, c Config, nonce, text, ad []byte, cuts []int, bit uint) {
	newSuite(c).forge(t, nonce, text, ad, cuts, bit)
}

// ForgeRecord is [Forge] for a RecordKey. adSize is 0 to 8.
func ForgeRecord[AD any](t testing.TB, c RecordConfig[AD], seq, ad uint64, adSize int, text []byte, cuts []int, bit uint) {
	newRecordSuite(c).forge(t, c.nonce(seq), text, binary.BigEndian.AppendUint64(nil, ad)[8-adSize:], cuts, bit)
}

// nonce returns the nonce that belongs to seq.
func (c *RecordConfig[AD]) nonce(seq uint64) []byte {
	nonce := bytes.Clone(c.IV)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^seq)
	return nonce
}

// A sealCall is one way to seal, in a form common to all: the text is a number
// of pieces, and out is exactly as long as the result.
type sealCall struct {
	name string

	// sizes divides a text of n bytes. cuts are the lengths wanted; they add
	// up to n.
	sizes func(n int, cuts []int) []int

	// standing says for each piece (the last entry holds for all further
	// ones) whether it must stand in place.
	standing []bool

	// byValue says that nonce and additional data do not lie in memory.
	byValue bool

	do func(out, nonce []byte, pieces [][]byte, ad []byte)
}

// An openCall is the mirror of a sealCall: pieces are outputs. Unless it keeps
// the ciphertext, what is not a piece of it is working space.
type openCall struct {
	name     string
	sizes    func(n int, cuts []int) []int
	standing []bool
	byValue  bool
	keeps    bool
	do       func(pieces [][]byte, nonce, buf, ad []byte) error
}

func inOne(n int, _ []int) []int { return []int{n} }

func inTwo(n int, cuts []int) []int {
	if len(cuts) == 0 {
		return []int{0, n}
	}
	return []int{cuts[0], n - cuts[0]}
}

func asCut(_ int, cuts []int) []int { return cuts }

type suite struct {
	seals   []sealCall
	opens   []openCall
	oracle  cipher.AEAD
	errOpen error
	panics  string

	nonceSize, tagSize int
	maxAD              int
	fixedNonce         []byte // the part of a nonce that cannot be chosen
	aead               Gatherer

	reused *memory
}

func newSuite(c Config) *suite {
	a := c.AEAD
	return &suite{
		oracle:    c.Oracle,
		errOpen:   c.ErrOpen,
		panics:    c.Panics,
		nonceSize: a.NonceSize(),
		tagSize:   a.Overhead(),
		maxAD:     70,
		aead:      a,
		seals: []sealCall{
			{
				name: "Seal", sizes: inOne, standing: []bool{false},
				do: func(out, nonce []byte, pieces [][]byte, ad []byte) {
					appended("Seal", out, a.Seal(out[:0], nonce, pieces[0], ad))
				},
			},
			{
				name: "SealGather", sizes: asCut, standing: []bool{false},
				do: func(out, nonce []byte, pieces [][]byte, ad []byte) {
					appended("SealGather", out, a.SealGather(out[:0], nonce, pieces, ad))
				},
			},
			{
				name: "SealSplit", sizes: inTwo, standing: []bool{false, true},
				do: func(out, nonce []byte, pieces [][]byte, ad []byte) {
					a.SealSplit(out, nonce, pieces[0], ad)
				},
			},
		},
		opens: []openCall{
			{
				name: "Open", sizes: inOne, standing: []bool{false}, keeps: true,
				do: func(pieces [][]byte, nonce, buf, ad []byte) error {
					opened, err := a.Open(pieces[0][:0], nonce, buf, ad)
					if err != nil {
						if opened != nil {
							panic("Open returned a slice and an error")
						}
						return err
					}
					appended("Open", pieces[0], opened)
					return nil
				},
			},
			{
				name: "OpenSplit", sizes: inTwo, standing: []bool{false, true},
				do: func(pieces [][]byte, nonce, buf, ad []byte) error {
					return a.OpenSplit(pieces[0], nonce, buf, ad)
				},
			},
			{
				name: "OpenScatter", sizes: asCut, standing: []bool{false},
				do: func(pieces [][]byte, nonce, buf, ad []byte) error {
					return a.OpenScatter(pieces, nonce, buf, ad)
				},
			},
		},
	}
}

// appended panics with a message that fits no contract unless got is out.
func appended(name string, out, got []byte) {
	if len(got) != len(out) || len(out) > 0 && &got[0] != &out[0] {
		panic(name + " did not append to dst")
	}
}

func newRecordSuite[AD any](c RecordConfig[AD]) *suite {
	k := c.Key
	ivTail := binary.BigEndian.Uint64(c.IV[4:])
	seq := func(nonce []byte) uint64 { return binary.BigEndian.Uint64(nonce[4:]) ^ ivTail }
	adOf := func(ad []byte) AD {
		var n uint64
		for _, b := range ad {
			n = n<<8 | uint64(b)
		}
		return c.ADOf(n, len(ad))
	}
	return &suite{
		oracle:     c.Oracle,
		errOpen:    c.ErrOpen,
		panics:     c.Panics,
		nonceSize:  c.Oracle.NonceSize(),
		tagSize:    c.Oracle.Overhead(),
		maxAD:      8,
		fixedNonce: c.IV[:4],
		seals: []sealCall{
			{
				name: "Seal", byValue: true, standing: []bool{false, true},
				sizes: func(n int, _ []int) []int {
					if n == 0 {
						return nil // there is always a trailer
					}
					return []int{n - 1, 1}
				},
				do: func(out, nonce []byte, pieces [][]byte, ad []byte) {
					trailer := pieces[1][0]
					pieces[1][0] = ^trailer // Seal has to put it there
					defer func() {
						if e := recover(); e != nil {
							pieces[1][0] = trailer
							panic(e)
						}
					}()
					k.Seal(out, seq(nonce), pieces[0], trailer, adOf(ad))
				},
			},
			{
				name: "SealGather", byValue: true, sizes: asCut, standing: []bool{false},
				do: func(out, nonce []byte, pieces [][]byte, ad []byte) {
					k.SealGather(out, seq(nonce), pieces, adOf(ad))
				},
			},
			{
				name: "SealSplit", byValue: true, sizes: inTwo, standing: []bool{false, true},
				do: func(out, nonce []byte, pieces [][]byte, ad []byte) {
					k.SealSplit(out, seq(nonce), pieces[0], adOf(ad))
				},
			},
		},
		opens: []openCall{
			{
				name: "OpenSplit", byValue: true, sizes: inTwo, standing: []bool{false, true},
				do: func(pieces [][]byte, nonce, buf, ad []byte) error {
					return k.OpenSplit(pieces[0], seq(nonce), buf, adOf(ad))
				},
			},
		},
	}
}

// An input is the arguments of a call, as values.
type input struct {
	nonce, text, ad, sealed []byte
}

func (s *suite) input(seed uint64, textSize, adSize int) *input {
	in := &input{
		nonce: randomBytes(seed, s.nonceSize),
		text:  randomBytes(seed+1, textSize),
		ad:    randomBytes(seed+2, min(adSize, s.maxAD)),
	}
	copy(in.nonce, s.fixedNonce)
	in.sealed = s.sealed(in.nonce, in.text, in.ad)
	return in
}

// sealed returns what the oracle seals, in memory with room behind it:
// crypto/cipher's assembly stores whole blocks and counts on a 16-byte tag to
// overwrite the excess (Go issue 80288), so behind a shorter tag it would
// change whatever object is next on the heap.
func (s *suite) sealed(nonce, text, ad []byte) []byte {
	return s.oracle.Seal(make([]byte, 0, len(text)+s.tagSize+oracleSlack), nonce, text, ad)
}

// oracleSlack is a block.
const oracleSlack = 16

func randomBytes(seed uint64, n int) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// A where is a place in a memory: where pieces, nonce and so on begin.
type where struct {
	text   int   // out of a seal, ciphertext of an open
	pieces []int // where each piece begins
	nonce  int
	ad     int
}

// A memory holds all arguments of a call; want is what it must be afterwards.
type memory struct {
	now, before, want []byte
}

func newMemory(n int) *memory {
	return &memory{now: make([]byte, n), before: randomBytes(uint64(n), n), want: make([]byte, n)}
}

// memory returns a memory of n bytes, which is valid until the next call.
func (s *suite) memory(n int) *memory {
	if s.reused == nil || len(s.reused.now) < n {
		s.reused = newMemory(max(n, 4096))
	}
	return &memory{now: s.reused.now[:n], before: s.reused.before[:n], want: s.reused.want[:n]}
}

// apart lays out all arguments without overlap, except for standing pieces.
func apart(standing []bool, sizes []int, textSize int, in *input) (where, int) {
	const gap = 3 // odd, to vary alignment, and to see writes beyond the ends
	w := where{text: gap}
	at, position := gap+textSize+gap, w.text
	for i, n := range sizes {
		if isStanding(standing, i) {
			w.pieces = append(w.pieces, position)
		} else {
			w.pieces = append(w.pieces, at)
			at += n + gap
		}
		position += n
	}
	w.nonce = at
	at += len(in.nonce) + gap
	w.ad = at
	return w, at + len(in.ad) + gap
}

func isStanding(standing []bool, i int) bool {
	return len(standing) > 0 && standing[min(i, len(standing)-1)]
}

// piecesOf returns the pieces of b that begin at starts, with no room to spare.
func piecesOf(b []byte, starts, sizes []int) [][]byte {
	pieces := make([][]byte, len(sizes))
	for i, n := range sizes {
		pieces[i] = b[starts[i] : starts[i]+n : starts[i]+n]
	}
	return pieces
}

// meet reports whether [a, a+n) and [b, b+m) have a byte in common.
func meet(a, n, b, m int) bool {
	return n > 0 && m > 0 && a < b+m && b < a+n
}

// seal makes one call with its arguments at w in m, and checks the outcome: a
// panic that changed nothing if the layout is invalid, else the oracle's
// ciphertext and nothing else changed.
func (s *suite) seal(t testing.TB, c *sealCall, m *memory, w where, sizes []int, in *input) {
	total := len(in.sealed)
	valid := true
	for i, position := 0, w.text; i < len(sizes); position, i = position+sizes[i], i+1 {
		if w.pieces[i] != position && meet(w.pieces[i], sizes[i], w.text, total) {
			valid = false
		}
	}
	if !c.byValue && (meet(w.nonce, len(in.nonce), w.text, total) || meet(w.ad, len(in.ad), w.text, total)) {
		valid = false
	}

	copy(m.now, m.before)
	rest := in.text
	for i, n := range sizes {
		copy(m.now[w.pieces[i]:], rest[:n])
		rest = rest[n:]
	}
	nonce, ad := m.place(c.byValue, w, in)
	copy(m.want, m.now)
	pieces := piecesOf(m.now, w.pieces, sizes)
	message := recovered(func() {
		c.do(m.now[w.text:w.text+total:w.text+total], nonce, pieces, ad)
	})
	if valid {
		copy(m.want[w.text:], in.sealed)
	}
	s.check(t, c.name, m, w, sizes, in, valid, message)
}

// open makes one call with its arguments at w in m, and checks the outcome. The
// ciphertext must open if genuine is true.
func (s *suite) open(t testing.TB, c *openCall, m *memory, w where, sizes []int, in *input, genuine bool) {
	total := len(in.sealed)
	valid := true
	for i, position := 0, w.text; i < len(sizes); position, i = position+sizes[i], i+1 {
		if w.pieces[i] != position && meet(w.pieces[i], sizes[i], w.text, total) {
			valid = false
		}
	}
	if !c.byValue {
		outputs := [][2]int{}
		for i := range sizes {
			outputs = append(outputs, [2]int{w.pieces[i], sizes[i]})
		}
		if !c.keeps {
			outputs = append(outputs, [2]int{w.text, total})
		}
		for _, o := range outputs {
			if meet(w.nonce, len(in.nonce), o[0], o[1]) || meet(w.ad, len(in.ad), o[0], o[1]) {
				valid = false
			}
		}
	}

	copy(m.now, m.before)
	copy(m.now[w.text:], in.sealed)
	nonce, ad := m.place(c.byValue, w, in)
	copy(m.want, m.now)
	pieces := piecesOf(m.now, w.pieces, sizes)
	var err error
	message := recovered(func() {
		err = c.do(pieces, nonce, m.now[w.text:w.text+total:w.text+total], ad)
	})
	if valid && message == "" {
		switch {
		case genuine && err != nil:
			t.Fatalf("%s: genuine ciphertext refused: %v\n%s", c.name, err, describe(w, sizes, in))
		case !genuine && err != s.errOpen:
			t.Fatalf("%s: forgery: got error %v, want %v\n%s", c.name, err, s.errOpen, describe(w, sizes, in))
		}
	}
	if valid {
		if !c.keeps {
			m.allowWorkingSpace(w.text, total-s.tagSize)
		}
		rest := in.text
		for i, n := range sizes {
			out := m.want[w.pieces[i] : w.pieces[i]+n]
			if !genuine {
				clear(out)
				continue
			}
			copy(out, rest)
			rest = rest[n:]
		}
	}
	s.check(t, c.name, m, w, sizes, in, valid, message)
}

// place puts nonce and additional data into m, unless they are values.
func (m *memory) place(byValue bool, w where, in *input) (nonce, ad []byte) {
	if byValue {
		return in.nonce, in.ad
	}
	nonce = m.now[w.nonce : w.nonce+len(in.nonce) : w.nonce+len(in.nonce)]
	ad = m.now[w.ad : w.ad+len(in.ad) : w.ad+len(in.ad)]
	copy(nonce, in.nonce)
	copy(ad, in.ad)
	return nonce, ad
}

// allowWorkingSpace accepts zeros where the ciphertext was. Pieces that lie
// there are judged afterwards.
func (m *memory) allowWorkingSpace(at, n int) {
	for i := at; i < at+n; i++ {
		if m.now[i] == 0 {
			m.want[i] = 0
		}
	}
}

func (s *suite) check(t testing.TB, name string, m *memory, w where, sizes []int, in *input, valid bool, message string) {
	switch {
	case valid && message != "":
		t.Fatalf("%s: panic on valid arguments: %s\n%s", name, message, describe(w, sizes, in))
	case !valid && message == "":
		t.Fatalf("%s: no panic on an invalid overlap\n%s", name, describe(w, sizes, in))
	case !valid && !strings.HasPrefix(message, s.panics):
		t.Fatalf("%s: panic message %q does not begin with %q", name, message, s.panics)
	}
	if !bytes.Equal(m.now, m.want) {
		i := 0
		for m.now[i] == m.want[i] {
			i++
		}
		t.Fatalf("%s: memory differs first at %d: got %#02x, want %#02x, before the call %#02x\n%s",
			name, i, m.now[i], m.want[i], m.before[i], describe(w, sizes, in))
	}
}

func describe(w where, sizes []int, in *input) string {
	return fmt.Sprintf("text of %d at %d; pieces of %v at %v; nonce of %d at %d; additional data of %d at %d",
		len(in.text), w.text, sizes, w.pieces, len(in.nonce), w.nonce, len(in.ad), w.ad)
}

// recovered returns the message of the panic in f, or "".
func recovered(f func()) (message string) {
	defer func() {
		if e := recover(); e != nil {
			message = fmt.Sprint(e)
		}
	}()
	f()
	return ""
}

// compare seals and opens one input in every way, apart and in place.
func (s *suite) compare(t testing.TB, nonce, text, ad []byte, cuts []int) {
	t.Helper()
	in := &input{nonce: nonce, text: text, ad: ad}
	in.sealed = s.sealed(nonce, text, ad)
	s.compareInput(t, in, fit(cuts, len(text)))
}

// forge opens one input with a bit flipped, in every way, apart and in place.
func (s *suite) forge(t testing.TB, nonce, text, ad []byte, cuts []int, bit uint) {
	t.Helper()
	in := &input{nonce: nonce, text: text, ad: ad}
	in.sealed = s.sealed(nonce, text, ad)
	bit %= 8 * uint(len(in.sealed))
	in.sealed[bit/8] ^= 1 << (bit % 8)
	cuts = fit(cuts, len(text))
	for i := range s.opens {
		c := &s.opens[i]
		sizes := c.sizes(len(text), cuts)
		w, n := apart(c.standing, sizes, len(in.sealed), in)
		m := s.memory(n)
		s.open(t, c, m, w, sizes, in, false)
		w.pieces = inPlace(w.text, sizes)
		s.open(t, c, m, w, sizes, in, false)
	}
}

// fit makes cuts add up to n.
func fit(cuts []int, n int) []int {
	sizes := make([]int, 0, len(cuts)+1)
	for _, c := range cuts {
		c = min(max(c, 0), n)
		sizes = append(sizes, c)
		n -= c
	}
	return append(sizes, n)
}

func (s *suite) compareInput(t testing.TB, in *input, cuts []int) {
	t.Helper()
	for i := range s.seals {
		c := &s.seals[i]
		sizes := c.sizes(len(in.text), cuts)
		if sizes == nil {
			continue
		}
		w, n := apart(c.standing, sizes, len(in.sealed), in)
		m := s.memory(n)
		s.seal(t, c, m, w, sizes, in)
		w.pieces = inPlace(w.text, sizes)
		s.seal(t, c, m, w, sizes, in)
	}
	for i := range s.opens {
		c := &s.opens[i]
		sizes := c.sizes(len(in.text), cuts)
		w, n := apart(c.standing, sizes, len(in.sealed), in)
		m := s.memory(n)
		s.open(t, c, m, w, sizes, in, true)
		w.pieces = inPlace(w.text, sizes)
		s.open(t, c, m, w, sizes, in, true)
	}
}

func inPlace(at int, sizes []int) []int {
	starts := make([]int, len(sizes))
	for i, n := range sizes {
		starts[i] = at
		at += n
	}
	return starts
}

// testSizes compares all calls with the oracle at every small size of text and
// additional data, and some larger ones.
func (s *suite) testSizes(t *testing.T) {
	for n := range 300 {
		s.compareInput(t, s.input(uint64(n), n, n%(s.maxAD+1)), []int{n / 3, n / 2, n - n/3 - n/2})
	}
	for adSize := range s.maxAD + 1 {
		for _, n := range []int{0, 1, 16, 65} {
			s.compareInput(t, s.input(uint64(n+adSize), n, adSize), []int{n / 2, 0, n - n/2})
		}
	}
	for _, n := range []int{
		511, 512, 513, 767, 1023, 1024, 1025, 1350, 1536, 2048, 4095, 4097,
		8191, 8192, 16383, 16384, 16385, 65535, 65536, 65537, 67585, 102401,
	} {
		s.compareInput(t, s.input(uint64(n), n, 5), []int{n - 1, 1})
	}
}

// testEverySplit divides texts of up to 80 bytes in three pieces in all ways.
func (s *suite) testEverySplit(t *testing.T) {
	for n := range 81 {
		in := s.input(uint64(n), n, 5)
		for i := range s.seals {
			c := &s.seals[i]
			s.everySplit(t, n, c.sizes, func(sizes []int) {
				w, size := apart(c.standing, sizes, len(in.sealed), in)
				s.seal(t, c, s.memory(size), w, sizes, in)
			})
		}
		for i := range s.opens {
			c := &s.opens[i]
			s.everySplit(t, n, c.sizes, func(sizes []int) {
				w, size := apart(c.standing, sizes, len(in.sealed), in)
				s.open(t, c, s.memory(size), w, sizes, in, true)
			})
		}
	}
}

// everySplit calls f with every way in which sizes divides n bytes.
func (s *suite) everySplit(t *testing.T, n int, sizes func(int, []int) []int, f func([]int)) {
	for a := range n + 1 {
		for b := range n - a + 1 {
			division := sizes(n, []int{a, b, n - a - b})
			switch len(division) {
			case 0:
				return
			case 3:
				f(division)
			case 2:
				if b == 0 { // it depends on a only
					f(division)
				}
			default:
				if a == 0 && b == 0 {
					f(division)
				}
			}
		}
	}
}

// testRandomPieces divides longer texts in many pieces, with empty and short
// ones among them, and puts any number of pieces in place.
func (s *suite) testRandomPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for turn := range 300 {
		n := r.IntN(3000)
		if turn%20 == 0 {
			n = r.IntN(40000)
		}
		var cuts []int
		for left := n; left > 0 && len(cuts) < 60; {
			c := 0
			switch r.IntN(4) {
			case 0:
			case 1:
				c = min(left, r.IntN(16))
			case 2:
				c = min(left, r.IntN(300))
			case 3:
				c = r.IntN(left + 1)
			}
			cuts = append(cuts, c)
			left -= c
		}
		cuts = fit(cuts, n)
		in := s.input(uint64(turn), n, r.IntN(s.maxAD+1))
		place := func(w *where, standing []bool, sizes []int) {
			for i, at := range inPlace(w.text, sizes) {
				if isStanding(standing, i) || r.IntN(3) == 0 {
					w.pieces[i] = at
				}
			}
		}
		for i := range s.seals {
			c := &s.seals[i]
			if sizes := c.sizes(n, cuts); sizes != nil {
				w, size := apart(c.standing, sizes, len(in.sealed), in)
				place(&w, c.standing, sizes)
				s.seal(t, c, s.memory(size), w, sizes, in)
			}
		}
		for i := range s.opens {
			c := &s.opens[i]
			sizes := c.sizes(n, cuts)
			w, size := apart(c.standing, sizes, len(in.sealed), in)
			place(&w, c.standing, sizes)
			m := s.memory(size)
			s.open(t, c, m, w, sizes, in, true)
			forged := *in
			forged.sealed = bytes.Clone(in.sealed)
			forged.sealed[r.IntN(len(forged.sealed))] ^= 1 << r.IntN(8)
			s.open(t, c, m, w, sizes, &forged, false)
		}
	}
}

// testSharedPieces seals pieces that overlap each other.
func (s *suite) testSharedPieces(t *testing.T) {
	source := randomBytes(3, 100)
	pieces := [][]byte{source, source[10:], source[:90], source[50:50], source[99:], source}
	text := bytes.Join(pieces, nil)
	in := s.input(4, 0, 5)
	want := s.sealed(in.nonce, text, in.ad)
	for _, c := range s.seals {
		if c.name == "SealGather" {
			out := make([]byte, len(want))
			c.do(out, in.nonce, pieces, in.ad)
			if !bytes.Equal(out, want) {
				t.Error("wrong ciphertext for pieces that share memory")
			}
			if !bytes.Equal(source, randomBytes(3, 100)) {
				t.Error("a piece was changed")
			}
		}
	}
}

// testEmpty seals and opens nothing, with nil for everything that may be nil.
func (s *suite) testEmpty(t *testing.T) {
	a, in := s.aead, s.input(5, 0, 0)
	check := func(name string, sealed []byte) {
		if !bytes.Equal(sealed, in.sealed) {
			t.Errorf("%s: got %x, want %x", name, sealed, in.sealed)
		}
	}
	check("Seal", a.Seal(nil, in.nonce, nil, nil))
	check("SealGather of nil", a.SealGather(nil, in.nonce, nil, nil))
	check("SealGather of no pieces", a.SealGather(nil, in.nonce, [][]byte{}, nil))
	check("SealGather of empty pieces", a.SealGather(nil, in.nonce, [][]byte{nil, {}, nil}, nil))
	out := make([]byte, s.tagSize)
	a.SealSplit(out, in.nonce, nil, nil)
	check("SealSplit", out)

	if opened, err := a.Open(nil, in.nonce, in.sealed, nil); err != nil || len(opened) != 0 {
		t.Errorf("Open: %x, %v", opened, err)
	}
	if err := a.OpenSplit(nil, in.nonce, in.sealed, nil); err != nil {
		t.Errorf("OpenSplit: %v", err)
	}
	for _, pieces := range [][][]byte{nil, {}, {nil}, {nil, {}, nil}} {
		if err := a.OpenScatter(pieces, in.nonce, in.sealed, nil); err != nil {
			t.Errorf("OpenScatter to %d empty pieces: %v", len(pieces), err)
		}
	}
	check("the ciphertext after all opens", in.sealed)
}

// testAppend appends to dst of every kind.
func (s *suite) testAppend(t *testing.T) {
	in := s.input(6, 50, 5)
	for _, used := range []int{0, 1, 13, 64} {
		for _, spare := range []int{-1, 0, 1, 100} {
			try := func(name string, add []byte, f func(dst []byte) []byte) {
				mem := randomBytes(7, used+len(add)+100)
				before := bytes.Clone(mem)
				dst := mem[: used : used+len(add)+spare]
				got := f(dst)
				if want := append(bytes.Clone(before[:used]), add...); !bytes.Equal(got, want) {
					t.Fatalf("%s to %d bytes with %d to spare: wrong result", name, used, spare)
				}
				if moved := used > 0 && &got[0] != &mem[0]; used > 0 && moved != (spare < 0) {
					t.Fatalf("%s to %d bytes with %d to spare: allocated: %v", name, used, spare, moved)
				}
				changed := used
				if spare >= 0 {
					changed += len(add)
				}
				if !bytes.Equal(mem[:used], before[:used]) || !bytes.Equal(mem[changed:], before[changed:]) {
					t.Fatalf("%s to %d bytes with %d to spare: wrote elsewhere", name, used, spare)
				}
			}
			try("Seal", in.sealed, func(dst []byte) []byte {
				return s.aead.Seal(dst, in.nonce, in.text, in.ad)
			})
			try("SealGather", in.sealed, func(dst []byte) []byte {
				return s.aead.SealGather(dst, in.nonce, [][]byte{in.text[:7], in.text[7:]}, in.ad)
			})
			try("Open", in.text, func(dst []byte) []byte {
				opened, err := s.aead.Open(dst, in.nonce, in.sealed, in.ad)
				if err != nil {
					t.Fatal(err)
				}
				return opened
			})
			if spare >= 0 {
				try("failed Open", make([]byte, len(in.text)), func(dst []byte) []byte {
					forged := bytes.Clone(in.sealed)
					forged[0] ^= 1
					if _, err := s.aead.Open(dst, in.nonce, forged, in.ad); err != s.errOpen {
						t.Fatalf("got error %v, want %v", err, s.errOpen)
					}
					return dst[:used+len(in.text)]
				})
			}
		}
	}
}

// testOverlap puts each argument at every distance from -64 to 64 from where
// it may be, and from the output's end.
func (s *suite) testOverlap(t *testing.T) {
	const far = 400 // the text's place in a memory where nothing else is near
	m := s.memory(1600)
	for _, n := range []int{0, 1, 2, 15, 16, 17, 33, 64, 100} {
		in := s.input(uint64(n), n, 5)
		total := len(in.sealed)
		cuts := []int{n / 3, n - n/3 - n/4, n / 4}
		// each calls f with every layout of interest.
		each := func(standing []bool, sizes []int, byValue bool, f func(w where)) {
			base, _ := apart(standing, sizes, total, in)
			base.text, base.nonce, base.ad = far, 100, 200
			position := far
			for i := range sizes {
				if base.pieces[i] = 800 + 200*i; isStanding(standing, i) {
					base.pieces[i] = position
				}
				position += sizes[i]
			}
			for shift := -64; shift <= 64; shift++ {
				for i, at := range inPlace(far, sizes) {
					if isStanding(standing, i) {
						continue
					}
					for _, at := range []int{at, far + total} {
						w := base
						w.pieces = slices.Clone(base.pieces)
						w.pieces[i] = at + shift
						f(w)
					}
				}
				if byValue {
					continue
				}
				for _, at := range append([]int{far, far + total}, base.pieces...) {
					w := base
					w.nonce = at + shift
					f(w)
					w = base
					w.ad = at + shift
					f(w)
				}
			}
		}
		for i := range s.seals {
			c := &s.seals[i]
			if sizes := c.sizes(n, cuts); sizes != nil {
				each(c.standing, sizes, c.byValue, func(w where) {
					if readable(w, sizes, in, c.byValue) {
						s.seal(t, c, m, w, sizes, in)
					}
				})
			}
		}
		for i := range s.opens {
			c := &s.opens[i]
			sizes := c.sizes(n, cuts)
			each(c.standing, sizes, c.byValue, func(w where) {
				// A nonce inside a kept ciphertext is valid but would change it here.
				if meet(w.nonce, len(in.nonce), w.text, total) && c.keeps ||
					meet(w.ad, len(in.ad), w.text, total) && c.keeps {
					return
				}
				s.open(t, c, m, w, sizes, in, true)
			})
		}
	}
}

// readable reports whether the inputs of a seal leave each other intact, so
// that the oracle's result is to be expected where the layout is valid.
func readable(w where, sizes []int, in *input, byValue bool) bool {
	if byValue {
		return true
	}
	for i := range sizes {
		if meet(w.nonce, len(in.nonce), w.pieces[i], sizes[i]) || meet(w.ad, len(in.ad), w.pieces[i], sizes[i]) {
			// Invalid layouts are fine: nothing is sealed.
			return meet(w.nonce, len(in.nonce), w.text, len(in.sealed)) || meet(w.ad, len(in.ad), w.text, len(in.sealed))
		}
	}
	return true
}

// testOutputsOverlap scatters to pieces that share memory, in all orders.
func (s *suite) testOutputsOverlap(t *testing.T) {
	in := s.input(8, 48, 5)
	for shift := -20; shift <= 20; shift++ {
		for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			mem := randomBytes(9, 200)
			before := bytes.Clone(mem)
			at := []int{20, 60, 100}
			at[order[2]] = at[order[0]] + shift
			pieces := piecesOf(mem, at, []int{16, 16, 16})
			buf := bytes.Clone(in.sealed)
			valid := true
			for i := range at {
				for j := range i {
					valid = valid && !meet(at[i], 16, at[j], 16)
				}
			}
			message := recovered(func() {
				if err := s.aead.OpenScatter(pieces, in.nonce, buf, in.ad); err != nil {
					t.Fatal(err)
				}
			})
			if valid {
				if message != "" || !bytes.Equal(bytes.Join(pieces, nil), in.text) {
					t.Fatalf("pieces at %v: valid, but %q", at, message)
				}
			} else if !strings.HasPrefix(message, s.panics) || !bytes.Equal(mem, before) || !bytes.Equal(buf, in.sealed) {
				t.Fatalf("pieces at %v: want a panic that changes nothing, got %q", at, message)
			}
		}
	}
}

// testArguments passes lengths that cannot be right.
func (s *suite) testArguments(t *testing.T) {
	a, in := s.aead, s.input(10, 40, 5)
	buf := bytes.Clone(in.sealed)
	refuse := func(name string, f func()) {
		t.Helper()
		if message := recovered(f); !strings.HasPrefix(message, s.panics) {
			t.Errorf("%s: panic message %q does not begin with %q", name, message, s.panics)
		}
		if !bytes.Equal(buf, in.sealed) {
			t.Fatalf("%s: the buffer was changed", name)
		}
	}
	for n := range 2*s.nonceSize + 2 {
		if n == s.nonceSize {
			continue
		}
		nonce := make([]byte, n)
		name := fmt.Sprintf("nonce of %d bytes", n)
		refuse(name, func() { a.Seal(buf[:0], nonce, in.text, in.ad) })
		refuse(name, func() { a.SealGather(buf[:0], nonce, [][]byte{in.text}, in.ad) })
		refuse(name, func() { a.SealSplit(buf, nonce, in.text, in.ad) })
		refuse(name, func() { a.Open(buf[:0], nonce, buf, in.ad) })
		refuse(name, func() { a.OpenSplit(nil, nonce, buf, in.ad) })
		refuse(name, func() { a.OpenScatter([][]byte{make([]byte, 40)}, nonce, buf, in.ad) })
		// The nonce is the caller's, so its size is judged even if the
		// ciphertext is too short.
		refuse(name, func() { a.Open(nil, nonce, nil, in.ad) })
		refuse(name, func() { a.OpenSplit(nil, nonce, nil, in.ad) })
		refuse(name, func() { a.OpenScatter(nil, nonce, nil, in.ad) })
	}
	long := make([]byte, 200)
	for n := 41; n < 200; n += 7 {
		refuse("prefix too long", func() { a.SealSplit(buf, in.nonce, long[:n], in.ad) })
		refuse("prefix too long", func() { a.OpenSplit(long[:n], in.nonce, buf, in.ad) })
	}
	for n := range s.tagSize {
		refuse("no room for the tag", func() { a.SealSplit(buf[:n], in.nonce, nil, in.ad) })
	}
	for _, sizes := range [][]int{{}, {0}, {39}, {41}, {20, 19}, {20, 21}, {40, 1}, {0, 41}, {200}} {
		var pieces [][]byte
		for _, n := range sizes {
			pieces = append(pieces, make([]byte, n))
		}
		refuse("pieces do not add up", func() { a.OpenScatter(pieces, in.nonce, buf, in.ad) })
	}
}

// testTampering flips each bit of everything and cuts at each length.
func (s *suite) testTampering(t *testing.T) {
	for _, n := range []int{0, 1, 13, 16, 37} {
		in := s.input(uint64(n), n, 5)
		forge := func(in *input) {
			t.Helper()
			size := max(0, len(in.sealed)-s.tagSize)
			cuts := []int{size / 2, size - size/2}
			for i := range s.opens {
				c := &s.opens[i]
				sizes := c.sizes(size, cuts)
				w, room := apart(c.standing, sizes, len(in.sealed), in)
				m := s.memory(room)
				if len(in.sealed) < s.tagSize {
					s.openShort(t, c, m, w, sizes, in)
					continue
				}
				s.open(t, c, m, w, sizes, in, false)
				w.pieces = inPlace(w.text, sizes)
				s.open(t, c, m, w, sizes, in, false)
			}
		}
		changed := *in
		for bit := range 8 * len(in.sealed) {
			changed.sealed = bytes.Clone(in.sealed)
			changed.sealed[bit/8] ^= 1 << (bit % 8)
			forge(&changed)
		}
		changed = *in
		for bit := range 8 * len(in.ad) {
			changed.ad = bytes.Clone(in.ad)
			changed.ad[bit/8] ^= 1 << (bit % 8)
			forge(&changed)
		}
		changed = *in
		for n := range len(in.ad) {
			changed.ad = in.ad[:n]
			forge(&changed)
		}
		changed = *in
		for bit := 8 * len(s.fixedNonce); bit < 8*len(in.nonce); bit++ {
			changed.nonce = bytes.Clone(in.nonce)
			changed.nonce[bit/8] ^= 1 << (bit % 8)
			forge(&changed)
		}
		changed = *in
		for cut := range len(in.sealed) {
			changed.sealed = in.sealed[:cut]
			forge(&changed)
			if cut > 0 {
				changed.sealed = in.sealed[cut:]
				forge(&changed)
			}
		}
		changed.sealed = append(bytes.Clone(in.sealed), 0)
		forge(&changed)
	}
}

// openShort opens a ciphertext that is shorter than a tag, which writes nothing.
func (s *suite) openShort(t *testing.T, c *openCall, m *memory, w where, sizes []int, in *input) {
	t.Helper()
	copy(m.now, m.before)
	copy(m.now[w.text:], in.sealed)
	nonce, ad := m.place(c.byValue, w, in)
	copy(m.want, m.now)
	total := len(in.sealed)
	if err := c.do(piecesOf(m.now, w.pieces, sizes), nonce, m.now[w.text:w.text+total:w.text+total], ad); err != s.errOpen {
		t.Fatalf("%s: ciphertext of %d bytes: got error %v, want %v", c.name, total, err, s.errOpen)
	}
	if !bytes.Equal(m.now, m.want) {
		t.Fatalf("%s: ciphertext of %d bytes: something was written", c.name, total)
	}
}

// testConcurrent seals and opens from several goroutines; the race detector
// looks on.
func (s *suite) testConcurrent(t *testing.T) {
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			for turn := range 50 {
				in := s.input(uint64(100*i+turn), 10*turn, 5)
				if sealed := s.aead.SealGather(nil, in.nonce, [][]byte{in.text[:turn], in.text[turn:]}, in.ad); !bytes.Equal(sealed, in.sealed) {
					t.Error("wrong ciphertext")
				}
				if err := s.aead.OpenSplit(make([]byte, turn), in.nonce, in.sealed, in.ad); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
}

// testAllocations counts allocations of every call, apart and in place. There
// must be none but those of the oracle itself: x/crypto's ChaCha20-Poly1305
// makes one where it has no assembly. All calls go through an interface.
func (s *suite) testAllocations(t *testing.T) {
	const runs = 50
	for _, n := range []int{0, 64, 1350} {
		in := s.input(uint64(n), n, 5)
		cuts := []int{n / 3, n - n/3}
		scratch := make([]byte, len(in.sealed)+oracleSlack)
		oracleSeals := testing.AllocsPerRun(runs, func() { s.oracle.Seal(scratch[:0], in.nonce, in.text, in.ad) })
		oracleOpens := testing.AllocsPerRun(runs, func() { s.oracle.Open(scratch[:0], in.nonce, in.sealed, in.ad) })
		count := func(name string, allowed float64, f func()) {
			if allocs := testing.AllocsPerRun(runs, f); allocs > allowed {
				t.Errorf("%s of %d bytes: %v allocations, where the oracle makes %v", name, n, allocs, allowed)
			}
		}
		for i := range s.seals {
			c := &s.seals[i]
			sizes := c.sizes(n, cuts)
			if sizes == nil {
				continue
			}
			w, room := apart(c.standing, sizes, len(in.sealed), in)
			m := s.memory(room)
			pieces := piecesOf(m.now, w.pieces, sizes)
			out := m.now[w.text : w.text+len(in.sealed)]
			count(c.name, oracleSeals, func() { c.do(out, in.nonce, pieces, in.ad) })
			pieces = piecesOf(m.now, inPlace(w.text, sizes), sizes)
			count(c.name+" in place", oracleSeals, func() { c.do(out, in.nonce, pieces, in.ad) })
		}
		for i := range s.opens {
			c := &s.opens[i]
			sizes := c.sizes(n, cuts)
			w, room := apart(c.standing, sizes, len(in.sealed), in)
			m := s.memory(room)
			pieces := piecesOf(m.now, w.pieces, sizes)
			buf := m.now[w.text : w.text+len(in.sealed)]
			count(c.name, oracleOpens, func() {
				copy(buf, in.sealed)
				if err := c.do(pieces, in.nonce, buf, in.ad); err != nil {
					t.Fatal(err)
				}
			})
			count("failed "+c.name, oracleOpens, func() {
				copy(buf, in.sealed)
				buf[0] ^= 1
				if err := c.do(pieces, in.nonce, buf, in.ad); !errors.Is(err, s.errOpen) {
					t.Fatal(err)
				}
			})
		}
	}
}

// testNumbers seals at numbers of every magnitude: the nonce is the IV XOR the
// number, whatever the number.
func testNumbers[AD any](t *testing.T, c RecordConfig[AD]) {
	text := randomBytes(11, 30)
	numbers := []uint64{0, 1, 2, 255, 256, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 2, 1<<64 - 1}
	for shift := range 64 {
		numbers = append(numbers, 1<<shift, 0x5bd1e9955bd1e995>>shift)
	}
	for _, seq := range numbers {
		for adSize := range 9 {
			CompareRecord(t, c, seq, 0x0102030405060708*(seq|1), adSize, text, []int{7})
		}
	}
}

// testRecordArguments passes lengths that cannot be right.
func testRecordArguments[AD any](t *testing.T, c RecordConfig[AD]) {
	k, tag := c.Key, c.Oracle.Overhead()
	text := randomBytes(12, 40)
	buf := c.Oracle.Seal(nil, c.IV, text, nil)
	before := bytes.Clone(buf)
	none := c.ADOf(0, 0)
	refuse := func(name string, f func()) {
		t.Helper()
		if message := recovered(f); !strings.HasPrefix(message, c.Panics) {
			t.Errorf("%s: panic message %q does not begin with %q", name, message, c.Panics)
		}
		if !bytes.Equal(buf, before) {
			t.Fatalf("%s: the buffer was changed", name)
		}
	}
	for _, adSize := range []int{-1 << 31, -1, 9, 16, 1<<31 - 1} {
		refuse("additional data", func() { c.ADOf(0, adSize) })
	}
	for adSize := range 8 {
		for bit := 8 * adSize; bit < 64; bit++ {
			refuse("additional data", func() { c.ADOf(1<<bit, adSize) })
		}
		c.ADOf(1<<(8*adSize)-1, adSize)
	}
	c.ADOf(1<<64-1, 8)
	for n := range len(buf) {
		if n != len(text)-1 {
			refuse("text of the wrong size", func() { k.Seal(buf, 0, make([]byte, n), 0, none) })
		}
		if n != len(text) {
			refuse("pieces of the wrong size", func() { k.SealGather(buf, 0, [][]byte{make([]byte, n/2), make([]byte, n-n/2)}, none) })
		}
		if n > len(text) {
			refuse("prefix too long", func() { k.SealSplit(buf, 0, make([]byte, n), none) })
			refuse("prefix too long", func() { k.OpenSplit(make([]byte, n), 0, buf, none) })
		}
	}
	for n := range tag + 1 {
		refuse("no room for trailer and tag", func() { k.Seal(buf[:n], 0, nil, 0, none) })
		if n < tag {
			refuse("no room for the tag", func() { k.SealSplit(buf[:n], 0, nil, none) })
			refuse("no room for the tag", func() { k.SealGather(buf[:n], 0, nil, none) })
		}
	}
}
