package gcm_test

// This file and its neighbours named backend*_test.go hold what every backend,
// present and future, must pass. The tests are written against the public API
// and run over the backends that this machine can run; crypto/cipher is their
// oracle.
//
//	backends_test.go         the list, the keys, the calls under test
//	backend_test.go          every length, alignment, split and gather
//	backend_pieces_test.go   every division into pieces, pieces of every length
//	backend_keys_test.go     many keys, first calls, wiping
//	backend_counter_test.go  the counter construction, block by block
//	backend_tamper_test.go   forgeries, and what a refusal leaves behind
//	backend_wrap_test.go     block counters that pass 2^32
//	backend_guard_test.go    memory that ends and starts at inaccessible pages
//	backend_reach_test.go    which kernel ran, and that none did
//	backend_stack_test.go    what is left on the stack
//	backend_runtime_test.go  signals, tracer, profiler, collector, stacks
//	backend_embed_test.go    C libraries and plugins

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/require"
)

// TestRequiredBackends fails when the test run declares a backend that is not
// there, and when the list lacks the backend that is always there.
func TestRequiredBackends(t *testing.T) {
	names := backendNames()
	t.Logf("backends under test: %v", names)
	require.Backends(t, names)
	if !slices.Contains(names, "portable") {
		t.Errorf("the portable backend is not in %v", names)
	}
}

// A target is one key in the hands of one backend.
type target struct {
	backend string
	aead    *gcm.AEAD
	record  *gcm.RecordKey // nil when the nonce or the tag has another size
}

// A keySet is one key in the hands of every backend, and of the oracle.
type keySet struct {
	name    string
	key, iv []byte
	block   cipher.Block
	oracle  cipher.AEAD
	targets []*target
}

// pool is where texts and additional data come from: incompressible bytes,
// the same in every run. It holds the longest text under test.
var pool = func() []byte {
	b := make([]byte, longestText+1<<16)
	rand.NewChaCha8([32]byte([]byte("texts and additional data, pool.")[:32])).Read(b)
	return b
}()

// longestText is the longest text that the suites seal in one piece, save for
// the one test that says so.
const longestText = 4<<20 + 64

func filler(seed string, n int) []byte {
	b := make([]byte, n)
	var s [32]byte
	copy(s[:], seed)
	rand.NewChaCha8(s).Read(b)
	return b
}

// newKeySet returns one key of keySize bytes under every backend.
func newKeySet(tb testing.TB, keySize, nonceSize, tagSize int) *keySet {
	tb.Helper()
	return newKeySetOf(tb, filler(fmt.Sprintf("key %d", keySize), keySize), nonceSize, tagSize)
}

// newKeySetOf returns the given key under every backend. A nonceSize of 12 and
// a tagSize of 16 give RecordKeys as well.
func newKeySetOf(tb testing.TB, key []byte, nonceSize, tagSize int) *keySet {
	tb.Helper()
	s := &keySet{
		name: fmt.Sprintf("AES-%d", len(key)*8),
		key:  key,
		iv:   filler(fmt.Sprintf("iv %d", len(key)), 12),
	}
	var err error
	if s.block, err = aes.NewCipher(s.key); err != nil {
		tb.Fatal(err)
	}
	switch {
	case nonceSize != gcm.NonceSize:
		s.oracle, err = cipher.NewGCMWithNonceSize(s.block, nonceSize)
	default:
		s.oracle, err = cipher.NewGCMWithTagSize(s.block, tagSize)
	}
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range backendNames() {
		restore := forceBackend(tb, name)
		defer restore()
		t := &target{backend: name}
		switch {
		case nonceSize != gcm.NonceSize:
			t.aead, err = gcm.NewWithNonceSize(s.key, nonceSize)
		case tagSize != gcm.TagSize:
			t.aead, err = gcm.NewWithTagSize(s.key, tagSize)
		default:
			if t.aead, err = gcm.New(s.key); err == nil {
				t.record, err = gcm.NewRecordKey(s.key, s.iv)
			}
		}
		restore()
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		s.targets = append(s.targets, t)
	}
	return s
}

// standardKeys holds a key of each size with 12-byte nonces and 16-byte tags.
// Keys keep their backend, so the tests share them.
var standardKeys = sync.OnceValue(func() []*keySet {
	var sets []*keySet
	for _, size := range []int{16, 24, 32} {
		sets = append(sets, newKeySet(panicTB{}, size, gcm.NonceSize, gcm.TagSize))
	}
	return sets
})

// panicTB lets newKeySet run outside a test.
type panicTB struct{ testing.TB }

func (panicTB) Helper()                           {}
func (panicTB) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (panicTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// forEachKey runs f once for each key size, two or more at a time.
func forEachKey(t *testing.T, f func(t *testing.T, s *keySet)) {
	for _, s := range standardKeys() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f(t, s)
		})
	}
}

// A message is one text with all that seals it, and what the oracle made of it.
type message struct {
	nonce, aad, text []byte
	sealed           []byte

	// What a RecordKey needs to seal the same: nonce = iv XOR seq.
	seq      uint64
	ad       gcm.AD
	isRecord bool

	split int   // bytes of text in the prefix
	cuts  []int // lengths of the pieces; they add up to the text
}

// record prepares m: text and additional data of the given sizes under
// sequence number seq, and the oracle's answer. It reuses m's memory.
func (s *keySet) record(m *message, seq uint64, textSize, aadSize int) {
	start := (textSize*131 + aadSize*17) % (1 << 15)
	m.text = pool[start : start+textSize]
	m.aad = pool[1<<15+start/2:][:aadSize]
	m.seq = seq
	m.nonce = append(m.nonce[:0], s.iv...)
	low := m.nonce[4:]
	binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)^seq)
	m.isRecord = aadSize <= 8
	if m.isRecord {
		var ad uint64
		for _, b := range m.aad {
			ad = ad<<8 | uint64(b)
		}
		m.ad = gcm.ADOf(ad, aadSize)
	}
	m.split = 0
	m.cuts = append(m.cuts[:0], textSize)
	m.sealed = s.oracle.Seal(slices.Grow(m.sealed[:0], textSize+2*gcm.TagSize), m.nonce, m.text, m.aad)
}

// general prepares m as record does, for a nonce of any size. Both leave room
// behind the tag: crypto/cipher writes past short ones (Go issue 80288), and
// that would change whatever object is next on the heap.
func (s *keySet) general(m *message, nonce []byte, textSize, aadSize int) {
	start := (textSize*131 + aadSize*17) % (1 << 15)
	m.text = pool[start : start+textSize]
	m.aad = pool[1<<15+start/2:][:aadSize]
	m.nonce = append(m.nonce[:0], nonce...)
	m.isRecord = false
	m.split = 0
	m.cuts = append(m.cuts[:0], textSize)
	m.sealed = s.oracle.Seal(slices.Grow(m.sealed[:0], textSize+2*gcm.TagSize), m.nonce, m.text, m.aad)
}

// A slot names a buffer by its part in a call.
type slot int

const (
	slotNonce slot = iota
	slotAAD
	slotText
	slotOut
	slotPrefix
	slotPiece // and the following
	slotCount = slotPiece + maxOwnPieces
)

// maxOwnPieces is how many pieces get memory of their own. More than that
// share slotText, with gaps between them.
const maxOwnPieces = 5

// A memory hands out the buffers of one call, each with margins around it that
// nothing may touch.
type memory interface {
	// reset forgets the buffers of the last call.
	reset()
	// place returns n bytes for s, with no capacity beyond them.
	place(s slot, n int) []byte
	// damage names a buffer whose margin has changed, or returns "".
	damage() string
}

// marginSize is wider than any store that a kernel makes.
const marginSize = 64

// alignedBytes returns n bytes that start at a multiple of 64.
func alignedBytes(n int) []byte {
	b := make([]byte, n+63)
	return b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64:][:n]
}

var canary = bytes.Repeat([]byte{0xc5}, marginSize)

// heapMemory places each slot at a chosen distance from a 64-byte boundary.
type heapMemory struct {
	bases   [slotCount][]byte // aligned to 64 bytes
	offsets [slotCount]int    // 0..63
	used    []heapUse
}

type heapUse struct {
	slot       slot
	start, end int
}

func (h *heapMemory) reset() { h.used = h.used[:0] }

func (h *heapMemory) place(s slot, n int) []byte {
	if need := n + 3*marginSize; len(h.bases[s]) < need {
		h.bases[s] = alignedBytes(need + need/4)
	}
	start := marginSize + h.offsets[s]
	end := start + n
	b := h.bases[s]
	copy(b[start-marginSize:start], canary)
	copy(b[end:end+marginSize], canary)
	h.used = append(h.used, heapUse{s, start, end})
	return b[start:end:end]
}

func (h *heapMemory) damage() string {
	for _, u := range h.used {
		b := h.bases[u.slot]
		if !bytes.Equal(b[u.start-marginSize:u.start], canary) {
			return fmt.Sprintf("bytes before %s were written", u.slot)
		}
		if !bytes.Equal(b[u.end:u.end+marginSize], canary) {
			return fmt.Sprintf("bytes after %s were written", u.slot)
		}
	}
	return ""
}

func (s slot) String() string {
	switch s {
	case slotNonce:
		return "the nonce"
	case slotAAD:
		return "the additional data"
	case slotText:
		return "the input"
	case slotOut:
		return "the output"
	case slotPrefix:
		return "the prefix"
	}
	return fmt.Sprintf("piece %d", s-slotPiece)
}

// An exam makes calls and compares their results with the oracle's.
type exam struct {
	t    *testing.T
	mem  memory
	set  *keySet
	tgt  *target
	msg  *message
	call string

	ofRecord bool // calls that AEAD and RecordKey both have are the RecordKey's

	pieces [][]byte
}

func newExam(t *testing.T, s *keySet, mem memory) *exam {
	return &exam{t: t, set: s, mem: mem}
}

// where says everything that is needed to repeat the current call. The line
// that failed would say less, and marking every helper on the way with
// testing.T.Helper would take half the time of these tests.
func (x *exam) where() string {
	m := x.msg
	s := fmt.Sprintf("%s %s %s: %d bytes of text, %d of additional data, seq %#x, split %d",
		x.tgt.backend, x.set.name, x.call, len(m.text), len(m.aad), m.seq, m.split)
	if len(m.cuts) <= 12 {
		s += fmt.Sprintf(", pieces %v", m.cuts)
	} else {
		s += fmt.Sprintf(", %d pieces %v...", len(m.cuts), m.cuts[:12])
	}
	if h, ok := x.mem.(*heapMemory); ok {
		s += fmt.Sprintf(", offsets %v", h.offsets)
	}
	return s
}

func (x *exam) fail(format string, args ...any) {
	x.t.Fatalf("%s: %s", x.where(), fmt.Sprintf(format, args...))
}

// same fails unless got and want are equal, and says where they part.
func (x *exam) same(what string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		x.fail("%s has %d bytes, want %d", what, len(got), len(want))
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	x.fail("%s differs from byte %d on: %x, want %x", what, i, got[i:min(i+16, len(got))], want[i:min(i+16, len(want))])
}

// zero fails unless b holds only zeros.
func (x *exam) zero(what string, b []byte) {
	for i, c := range b {
		if c != 0 {
			x.fail("%s holds %#x at %d, want zeros", what, c, i)
		}
	}
}

// begin starts a call and places what all calls have.
func (x *exam) begin(name string) (nonce, aad []byte) {
	x.call = name
	if x.ofRecord {
		x.call = "RecordKey." + name
	}
	x.mem.reset()
	return x.input(slotNonce, x.msg.nonce), x.input(slotAAD, x.msg.aad)
}

// input places a copy of b.
func (x *exam) input(s slot, b []byte) []byte {
	p := x.mem.place(s, len(b))
	copy(p, b)
	return p
}

// output places n bytes that hold neither zeros nor anything of the message.
func (x *exam) output(s slot, n int) []byte {
	p := x.mem.place(s, n)
	for rest := p; len(rest) > 0; {
		rest = rest[copy(rest, junk):]
	}
	return p
}

var junk = bytes.Repeat([]byte{0x3b}, 4096)

// end checks what no call may change.
func (x *exam) end(nonce, aad []byte) {
	x.same("the nonce", nonce, x.msg.nonce)
	x.same("the additional data", aad, x.msg.aad)
	if d := x.mem.damage(); d != "" {
		x.fail("%s", d)
	}
}

// cut places m's pieces with their contents, or, if blank, with junk.
func (x *exam) cut(blank bool) [][]byte {
	m := x.msg
	x.pieces = x.pieces[:0]
	if len(m.cuts) <= maxOwnPieces {
		rest := m.text
		for i, n := range m.cuts {
			if blank {
				x.pieces = append(x.pieces, x.output(slotPiece+slot(i), n))
			} else {
				x.pieces = append(x.pieces, x.input(slotPiece+slot(i), rest[:n]))
			}
			rest = rest[n:]
		}
		return x.pieces
	}
	// Gaps of 0, 1 or 2 bytes keep the pieces from being one text by luck.
	all := x.output(slotPiece, len(m.text)+2*len(m.cuts))
	rest, at := m.text, 0
	for i, n := range m.cuts {
		p := all[at : at+n : at+n]
		if !blank {
			copy(p, rest)
		}
		x.pieces = append(x.pieces, p)
		rest, at = rest[n:], at+n+i%3
	}
	return x.pieces
}

// uncut compares pieces with m's text.
func (x *exam) uncut(what string, pieces [][]byte) {
	rest := x.msg.text
	for _, p := range pieces {
		x.same(what, p, rest[:len(p)])
		rest = rest[len(p):]
	}
}

// The three calls that AEAD and RecordKey both have, of the one under test.

func (x *exam) doSealGather(out, nonce []byte, pieces [][]byte, aad []byte) []byte {
	if x.ofRecord {
		x.tgt.record.SealGather(out, x.msg.seq, pieces, x.msg.ad)
		return out
	}
	return x.tgt.aead.SealGather(out[:0], nonce, pieces, aad)
}

func (x *exam) doSealSplit(out, nonce, prefix, aad []byte) {
	if x.ofRecord {
		x.tgt.record.SealSplit(out, x.msg.seq, prefix, x.msg.ad)
		return
	}
	x.tgt.aead.SealSplit(out, nonce, prefix, aad)
}

func (x *exam) doOpenSplit(prefix, nonce, buf, aad []byte) error {
	if x.ofRecord {
		return x.tgt.record.OpenSplit(prefix, x.msg.seq, buf, x.msg.ad)
	}
	return x.tgt.aead.OpenSplit(prefix, nonce, buf, aad)
}

// onRecord turns a call that AEAD and RecordKey both have into the RecordKey's.
func onRecord(call func(*exam)) func(*exam) {
	return func(x *exam) {
		x.ofRecord = true
		call(x)
		x.ofRecord = false
	}
}

// The calls under test. Each makes one call on tgt and checks its result, its
// inputs, and the margins.

func (x *exam) sealApart() {
	nonce, aad := x.begin("Seal apart")
	text := x.input(slotText, x.msg.text)
	out := x.output(slotOut, len(x.msg.sealed))
	got := x.tgt.aead.Seal(out[:0], nonce, text, aad)
	x.same("the result", got, x.msg.sealed)
	x.same("the buffer", out, x.msg.sealed)
	x.same("the text", text, x.msg.text)
	x.end(nonce, aad)
}

func (x *exam) sealInPlace() {
	nonce, aad := x.begin("Seal in place")
	out := x.output(slotOut, len(x.msg.sealed))
	text := out[:copy(out, x.msg.text)]
	got := x.tgt.aead.Seal(out[:0], nonce, text, aad)
	x.same("the result", got, x.msg.sealed)
	x.same("the buffer", out, x.msg.sealed)
	x.end(nonce, aad)
}

func (x *exam) sealAppended() {
	const before = 5
	nonce, aad := x.begin("Seal appended")
	text := x.input(slotText, x.msg.text)
	out := x.output(slotOut, before+len(x.msg.sealed))
	got := x.tgt.aead.Seal(out[:before], nonce, text, aad)
	x.same("what stood before", got[:before], junk[:before])
	x.same("the result", got[before:], x.msg.sealed)
	x.same("the buffer", out, got)
	x.end(nonce, aad)
}

func (x *exam) openApart() {
	nonce, aad := x.begin("Open apart")
	sealed := x.input(slotText, x.msg.sealed)
	out := x.output(slotOut, len(x.msg.text))
	got, err := x.tgt.aead.Open(out[:0], nonce, sealed, aad)
	if err != nil {
		x.fail("%v", err)
	}
	x.same("the result", got, x.msg.text)
	x.same("the buffer", out, x.msg.text)
	x.same("the ciphertext", sealed, x.msg.sealed)
	x.end(nonce, aad)
}

func (x *exam) openInPlace() {
	nonce, aad := x.begin("Open in place")
	buf := x.input(slotOut, x.msg.sealed)
	got, err := x.tgt.aead.Open(buf[:0], nonce, buf, aad)
	if err != nil {
		x.fail("%v", err)
	}
	n := len(x.msg.text)
	x.same("the result", got, x.msg.text)
	x.same("the buffer", buf[:n], x.msg.text)
	x.same("the tag", buf[n:], x.msg.sealed[n:])
	x.end(nonce, aad)
}

func (x *exam) sealGather() {
	nonce, aad := x.begin("SealGather")
	pieces := x.cut(false)
	out := x.output(slotOut, len(x.msg.sealed))
	got := x.doSealGather(out, nonce, pieces, aad)
	x.same("the result", got, x.msg.sealed)
	x.same("the buffer", out, x.msg.sealed)
	x.uncut("a piece", pieces)
	x.end(nonce, aad)
}

// inPlace moves every third piece, the first one of them at index k, to where
// its ciphertext will stand in out.
func (x *exam) inPlace(pieces [][]byte, out []byte, k int) {
	at := 0
	for i, p := range pieces {
		if i%3 == k {
			copy(out[at:], p)
			pieces[i] = out[at : at+len(p)]
		}
		at += len(p)
	}
}

func (x *exam) sealGatherInPlace() {
	for k := range min(3, len(x.msg.cuts)) {
		nonce, aad := x.begin("SealGather, pieces in place")
		pieces := x.cut(false)
		out := x.output(slotOut, len(x.msg.sealed))
		x.inPlace(pieces, out, k)
		got := x.doSealGather(out, nonce, pieces, aad)
		x.same("the result", got, x.msg.sealed)
		x.same("the buffer", out, x.msg.sealed)
		x.end(nonce, aad)
	}
}

func (x *exam) sealSplit() {
	m := x.msg
	nonce, aad := x.begin("SealSplit")
	prefix := x.input(slotPrefix, m.text[:m.split])
	out := x.output(slotOut, len(m.sealed))
	copy(out[m.split:], m.text[m.split:])
	x.doSealSplit(out, nonce, prefix, aad)
	x.same("the output", out, m.sealed)
	x.same("the prefix", prefix, m.text[:m.split])
	x.end(nonce, aad)
}

func (x *exam) sealSplitInPlace() {
	m := x.msg
	nonce, aad := x.begin("SealSplit, prefix in place")
	out := x.output(slotOut, len(m.sealed))
	copy(out, m.text)
	x.doSealSplit(out, nonce, out[:m.split], aad)
	x.same("the output", out, m.sealed)
	x.end(nonce, aad)
}

func (x *exam) openSplitInPlace() {
	m := x.msg
	nonce, aad := x.begin("OpenSplit, prefix in place")
	buf := x.input(slotOut, m.sealed)
	if err := x.doOpenSplit(buf[:m.split], nonce, buf, aad); err != nil {
		x.fail("%v", err)
	}
	n := len(m.text)
	x.same("the buffer", buf[:n], m.text)
	x.same("the tag", buf[n:], m.sealed[n:])
	x.end(nonce, aad)
}

func (x *exam) openSplit() {
	m := x.msg
	nonce, aad := x.begin("OpenSplit")
	buf := x.input(slotOut, m.sealed)
	prefix := x.output(slotPrefix, m.split)
	if err := x.doOpenSplit(prefix, nonce, buf, aad); err != nil {
		x.fail("%v", err)
	}
	x.openedSplit(prefix, buf)
	x.end(nonce, aad)
}

// openedSplit checks what a split open that succeeded left in its buffers.
func (x *exam) openedSplit(prefix, buf []byte) {
	m := x.msg
	n := len(m.text)
	x.same("the prefix", prefix, m.text[:m.split])
	x.same("the rest", buf[m.split:n], m.text[m.split:])
	x.workingSpace(buf[:m.split], m.sealed)
	x.same("the tag", buf[n:], m.sealed[n:])
}

// workingSpace fails unless every byte of b, which an open may use but owes
// nobody, is that of the ciphertext that it held before, or zero.
func (x *exam) workingSpace(b, ciphertext []byte) {
	if bytes.Equal(b, ciphertext[:len(b)]) {
		return
	}
	for i, c := range b {
		if c != 0 && c != ciphertext[i] {
			x.fail("working space holds %#x at %d, want %#x or zero", c, i, ciphertext[i])
		}
	}
}

func (x *exam) openScatter() {
	nonce, aad := x.begin("OpenScatter")
	sealed := x.input(slotText, x.msg.sealed)
	pieces := x.cut(true)
	if err := x.tgt.aead.OpenScatter(pieces, nonce, sealed, aad); err != nil {
		x.fail("%v", err)
	}
	x.uncut("a piece", pieces)
	x.scattered(sealed, nil)
	x.end(nonce, aad)
}

func (x *exam) openScatterInPlace() {
	for k := range min(3, len(x.msg.cuts)) {
		nonce, aad := x.begin("OpenScatter, pieces in place")
		sealed := x.input(slotOut, x.msg.sealed)
		pieces := x.cut(true)
		at := 0
		for i, p := range pieces {
			if i%3 == k {
				pieces[i] = sealed[at : at+len(p)]
			}
			at += len(p)
		}
		if err := x.tgt.aead.OpenScatter(pieces, nonce, sealed, aad); err != nil {
			x.fail("%v", err)
		}
		x.uncut("a piece", pieces)
		x.scattered(sealed, func(i int) bool { return i%3 == k })
		x.end(nonce, aad)
	}
}

// scattered checks what an open to pieces left of its ciphertext. inPlace
// tells which pieces were opened where they stood.
func (x *exam) scattered(sealed []byte, inPlace func(i int) bool) {
	at := 0
	for i, n := range x.msg.cuts {
		if inPlace == nil || !inPlace(i) {
			x.workingSpace(sealed[at:at+n], x.msg.sealed[at:])
		}
		at += n
	}
	x.same("the tag", sealed[at:], x.msg.sealed[at:])
}

func (x *exam) recordSealApart() {
	m := x.msg
	if len(m.text) == 0 {
		return // a record holds at least its content type
	}
	nonce, aad := x.begin("RecordKey.Seal apart")
	last := len(m.text) - 1
	content := x.input(slotText, m.text[:last])
	out := x.output(slotOut, len(m.sealed))
	x.tgt.record.Seal(out, m.seq, content, m.text[last], m.ad)
	x.same("the output", out, m.sealed)
	x.same("the content", content, m.text[:last])
	x.end(nonce, aad)
}

func (x *exam) recordSealInPlace() {
	m := x.msg
	if len(m.text) == 0 {
		return
	}
	nonce, aad := x.begin("RecordKey.Seal in place")
	last := len(m.text) - 1
	out := x.output(slotOut, len(m.sealed))
	copy(out, m.text[:last])
	x.tgt.record.Seal(out, m.seq, out[:last], m.text[last], m.ad)
	x.same("the output", out, m.sealed)
	x.end(nonce, aad)
}

// aeadCalls and recordCalls are all entry points, each in all its forms.
var aeadCalls = []func(*exam){
	(*exam).sealApart, (*exam).sealInPlace, (*exam).sealAppended,
	(*exam).openApart, (*exam).openInPlace,
	(*exam).sealGather, (*exam).sealGatherInPlace,
	(*exam).sealSplit, (*exam).sealSplitInPlace,
	(*exam).openSplit, (*exam).openSplitInPlace,
	(*exam).openScatter, (*exam).openScatterInPlace,
}

var recordCalls = []func(*exam){
	(*exam).recordSealApart, (*exam).recordSealInPlace,
	onRecord((*exam).sealSplit), onRecord((*exam).sealSplitInPlace),
	onRecord((*exam).sealGather), onRecord((*exam).sealGatherInPlace),
	onRecord((*exam).openSplit), onRecord((*exam).openSplitInPlace),
}

// all makes every call with m on every backend.
func (x *exam) all(m *message) {
	x.msg = m
	for _, x.tgt = range x.set.targets {
		for _, call := range aeadCalls {
			call(x)
		}
		if !m.isRecord || x.tgt.record == nil {
			continue
		}
		for _, call := range recordCalls {
			call(x)
		}
	}
}

// some makes the given calls with m on every backend. Calls that need a record
// are left out where m is none.
func (x *exam) some(m *message, calls ...func(*exam)) {
	x.msg = m
	for _, x.tgt = range x.set.targets {
		for _, call := range calls {
			call(x)
		}
	}
}
