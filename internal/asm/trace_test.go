//go:build linux && amd64 && !purego

package asm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"example.com/splitseal/internal/require"
	"example.com/splitseal/internal/trace"
)

// The trace check: every kernel that this machine can run goes one instruction
// at a time, several times with secrets that differ, and must take the same way,
// use the same addresses, and leave the same in its frame and in registers, which
// is nothing that depends on a secret. Package trace says how that is seen.

func TestMain(m *testing.M) {
	if trace.Traced() {
		trace.Main(traceCases())
	}
	os.Exit(m.Run())
}

func TestTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("goes through millions of instructions one at a time: not with -short")
	}
	cases := traceCases()
	result, err := trace.Run(cases)
	if errors.Is(err, trace.ErrUnavailable) {
		require.Missing(t, "ptrace", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range judgeTraces(result.Differences) {
		t.Error(problem)
	}
	for _, b := range Backends() {
		if b != Portable {
			checkExecuted(t, b, result.Executed)
		}
	}
	t.Logf("%d instructions in %d cases", result.Steps, len(cases))
}

func TestJudgeTraces(t *testing.T) {
	var all []trace.Difference
	for _, c := range traceControls {
		if c.runs {
			all = append(all, trace.Difference{Case: c.name, What: c.shows})
		}
	}
	if problems := judgeTraces(slices.Concat(all, all[1:2])); len(problems) != 0 {
		t.Errorf("the controls alone: %q", problems)
	}
	if problems := judgeTraces(nil); len(problems) != len(all) {
		t.Errorf("nothing: %q", problems)
	}
	if problems := judgeTraces(append(all, trace.Difference{Case: "vaes: a seal"})); len(problems) != 1 {
		t.Errorf("a kernel: %q", problems)
	}
	for i := range all {
		if problems := judgeTraces(slices.Delete(slices.Clone(all), i, i+1)); len(problems) != 1 {
			t.Errorf("no %s: %q", all[i].Case, problems)
		}
		other := slices.Clone(all)
		other[i].What = (other[i].What + 1) % 3
		if problems := judgeTraces(other); len(problems) != 1 {
			t.Errorf("%s of another kind: %q", all[i].Case, problems)
		}
	}
}

// judgeTraces returns what is wrong with the differences that were found.
func judgeTraces(found []trace.Difference) (problems []string) {
	controls := make(map[string]bool)
	for _, c := range traceControls {
		controls[c.name] = true
		shows := func(d trace.Difference) bool { return d.Case == c.name && d.What == c.shows }
		if c.runs && !slices.ContainsFunc(found, shows) {
			problems = append(problems, c.name+": the check does not see what it does on purpose")
		}
	}
	for _, d := range found {
		if !controls[d.Case] {
			problems = append(problems, d.String())
		}
	}
	return problems
}

// checkExecuted fails if b has a kernel with an instruction that no case went
// through: nothing is known about those.
func checkExecuted(t *testing.T, b Backend, executed map[uintptr]bool) {
	t.Helper()
	entries := make(map[uintptr]bool)
	for pc := range executed {
		f := runtime.FuncForPC(pc)
		if file, _ := f.FileLine(pc); filepath.Base(file) == b.String()+"_amd64.s" {
			entries[f.Entry()] = true
		}
	}
	if len(entries) != 5 {
		t.Errorf("%v: %d kernels were traced, want 5", b, len(entries))
	}
	for entry := range entries {
		body, err := trace.Instructions(entry)
		if err != nil {
			t.Error(err)
		}
		missed := 0
		for _, pc := range body {
			if !executed[pc] {
				missed++
				t.Logf("not traced: %s", trace.Place(pc))
			}
		}
		name := strings.TrimPrefix(filepath.Ext(runtime.FuncForPC(entry).Name()), ".")
		if missed > 0 {
			t.Errorf("%s: %d instructions of %d were not traced: tracedTexts lacks a text", name, missed, len(body))
		}
	}
}

// kernels are those of a backend.
type kernels struct {
	init   func(k *Key, key *byte, size uint64)
	powers func(k *Key, table *longTable, powers uint64)
	hash   func(k *Key, hash, data *byte, blocks uint64)
	seal   func(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream)
	open   func(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream) (ok, last uint64)
}

var kernelsOf = [backends]kernels{
	AESNI:  {aesniInit, aesniPowers, aesniHash, aesniSeal, aesniOpen},
	VAES:   {vaesInit, vaesPowers, vaesHash, vaesSeal, vaesOpen},
	AVX512: {avx512Init, avx512Powers, avx512Hash, avx512Seal, avx512Open},
}

// traced is what the calls under trace work on: in every run the same addresses.
var traced struct {
	secret struct {
		key  [32]byte
		iv   [NonceSize]byte
		text [tracedSize]byte
		hash [blockSize]byte
	}
	key    Key
	long   longTable
	hash   [blockSize]byte
	sealed [tracedSize + TagSize]byte
	out    [tracedSize + TagSize]byte
	apart  [3 * tracedSize]byte // pieces, not beside each other
	pieces [80][]byte
	stream stream
	call   textCall
}

// tracedSize is the size of the longest text.
const tracedSize = 5000

// A textCall is the arguments and results of a seal or an open.
type textCall struct {
	dst, src             *byte
	size, trailer, total uint64
	nonce                Nonce
	ad                   AD
	stream               *stream
	ok, last             uint64
}

// Between two breakpoints there is nothing but the call, and what the compiler
// needs for its arguments. The race detector would add to that.

//go:noinline
//go:norace
func (b *kernels) traceInit(size uint64) {
	trace.Breakpoint()
	b.init(&traced.key, &traced.secret.key[0], size)
	trace.Breakpoint()
}

//go:noinline
//go:norace
func (b *kernels) tracePowers(powers uint64) {
	trace.Breakpoint()
	b.powers(&traced.key, &traced.long, powers)
	trace.Breakpoint()
}

//go:noinline
//go:norace
func (b *kernels) traceHash(blocks uint64) {
	trace.Breakpoint()
	b.hash(&traced.key, &traced.hash[0], &traced.secret.text[0], blocks)
	trace.Breakpoint()
}

//go:noinline
//go:norace
func (b *kernels) traceSeal(c *textCall) {
	trace.Breakpoint()
	b.seal(&traced.key, &traced.long, c.dst, c.src, c.size, c.trailer, c.nonce.Lo, c.nonce.Hi, c.ad.Lo, c.ad.Hi, c.ad.Bits, c.total*8, c.stream)
	trace.Breakpoint()
}

//go:noinline
//go:norace
func (b *kernels) traceOpen(c *textCall) {
	trace.Breakpoint()
	c.ok, c.last = b.open(&traced.key, &traced.long, c.dst, c.src, c.size, c.trailer, c.nonce.Lo, c.nonce.Hi, c.ad.Lo, c.ad.Hi, c.ad.Bits, c.total*8, c.stream)
	trace.Breakpoint()
}

// The controls do what no kernel may. A check that does not see it sees nothing.
var traceControls = []struct {
	name  string
	shows trace.What
	runs  bool // on this machine
	call  func(b *byte)
}{
	{"control: branch", trace.Branch, true, traceBranch},
	{"control: address", trace.Address, true, traceAddress},
	{"control: stack", trace.Left, true, leaves(trace.LeaveOnStack)},
	{"control: general-purpose register", trace.Left, true, leaves(trace.LeaveInGeneral)},
	{"control: vector", trace.Left, true, leaves(trace.LeaveInVector)},
	{"control: upper half of a vector", trace.Left, machine.avx2, leaves(trace.LeaveInUpper)},
	{"control: vector of AVX-512", trace.Left, machine.avx512f, leaves(trace.LeaveInMore)},
}

//go:noinline
//go:norace
func traceBranch(b *byte) {
	trace.Breakpoint()
	if *b&1 != 0 {
		traced.out[0] = 1
	}
	trace.Breakpoint()
}

//go:noinline
//go:norace
func traceAddress(b *byte) {
	trace.Breakpoint()
	traced.out[0] = traced.sealed[*b]
	trace.Breakpoint()
}

// leaves returns the control that calls f.
func leaves(f func(secret uint64)) func(b *byte) {
	return func(b *byte) { traceLeave(f, uint64(*b)) }
}

//go:noinline
//go:norace
func traceLeave(f func(secret uint64), secret uint64) {
	trace.Breakpoint()
	f(secret)
	trace.Breakpoint()
}

// setSecrets sets key, IV, text and a hash. Those of an odd number are those of
// the number before with every bit changed, so that what depends on one of these
// bits differs between them. What depends on one bit of something else, a round
// key, a power of H or the keystream, differs in every other pair of runs.
func setSecrets(name string, number int) {
	r := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, name, number/2)))
	for _, b := range [][]byte{traced.secret.key[:], traced.secret.iv[:], traced.secret.text[:], traced.secret.hash[:]} {
		r.Read(b)
		for i := range b {
			b[i] ^= byte(-(number & 1))
		}
	}
}

// setKey sets up the key with the first size bytes of its secret, and the table
// for long texts, in groups of so many blocks.
func setKey(b Backend, size, group int) {
	traced.key, traced.long = Key{}, longTable{group: uint64(group)}
	traced.key.Init(b, traced.secret.key[:size], &traced.secret.iv)
	traced.key.fillPowers(&traced.long, longPower)
	traced.key.long.Store(&traced.long)
}

// traceCases returns all cases: the same ones in the process that traces and in
// the one that is traced.
func traceCases() (list []trace.Case) {
	add := func(name string, runs int, run func(run int) error) {
		list = append(list, trace.Case{Name: name, Runs: runs, Run: run})
	}
	// addMany adds a case in which f makes the call. Few cases are of its kind, so
	// they have more runs.
	addMany := func(name string, f func()) {
		add(name, 8, func(run int) error {
			setSecrets(name, run)
			f()
			return nil
		})
	}
	for _, c := range traceControls {
		if c.runs {
			addMany(c.name, func() { c.call(&traced.secret.key[3]) })
		}
	}
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		k := &kernelsOf[b]
		for _, size := range []int{16, 24, 32} {
			addMany(fmt.Sprintf("%v: set-up of a key of %d bytes", b, size), func() { k.traceInit(uint64(size)) })
		}
		for _, powers := range []int{13, 32, longPower} {
			addMany(fmt.Sprintf("%v: %d powers of H", b, powers), func() {
				setKey(b, 16, 0)
				k.tracePowers(uint64(powers))
			})
		}
		for _, blocks := range []int{1, 2, 12, 25} {
			addMany(fmt.Sprintf("%v: hash of %d blocks", b, blocks), func() {
				setKey(b, 16, 0)
				traced.hash = traced.secret.hash
				k.traceHash(uint64(blocks))
			})
		}
		for _, x := range tracedTexts(b) {
			name := fmt.Sprintf("%v: %v", b, x)
			add(name+": seal", 2, func(run int) error { return x.seal(b, name, run) })
			runs := openWrong + 1
			if x.tags {
				runs = openRuns
			}
			add(name+": open", runs, func(run int) error { return x.open(b, name, run) })
		}
	}
	return list
}

// A tracedText is a text, and the part of it that the call under trace serves.
type tracedText struct {
	keySize int
	size    int   // of the text, trailer included
	trailer bool  // its last byte is a trailer, of a call with nothing behind it
	ad      int   // size of additional data
	begin   int   // of the call
	more    int   // bytes of text behind the call
	pieces  []int // sizes of the call's pieces; nil for a text in one place
	inPlace bool  // pieces but the first are where their ciphertext is
	once    bool  // with a table for one text
	tags    bool  // an open has all of its runs
}

func (x tracedText) setKey(b Backend) {
	if x.once {
		setKey(b, x.keySize, shapes[b].batch/blockSize)
	} else {
		setKey(b, x.keySize, shapes[b].group)
	}
}

func (x tracedText) String() string {
	s := fmt.Sprintf("AES-%d, %d bytes, %d of additional data", 8*x.keySize, x.size, x.ad)
	if x.trailer {
		s += ", trailer"
	}
	if x.begin > 0 || x.more > 0 {
		s += fmt.Sprintf(", call from %d to %d", x.begin, x.size-x.more)
	}
	if x.pieces != nil {
		s += fmt.Sprintf(", pieces %v", x.pieces)
	}
	if x.inPlace {
		s += " in place"
	}
	if x.once {
		s += ", once"
	}
	return s
}

// arrange sets up traced.call, which takes its text from src, for the bytes of
// the text from begin to end.
func (x tracedText) arrange(src []byte, begin, end int) {
	t := &traced
	size := uint64(end - begin)
	t.call = textCall{
		dst: &t.out[begin], src: &src[begin], size: size, total: uint64(x.size),
		nonce: Nonce{Lo: 0x0123456789abcdef, Hi: 0x89abcdef}, ad: t.key.AD(make([]byte, x.ad)),
	}
	if begin == 0 && end == x.size && x.pieces == nil {
		return
	}
	t.call.stream = &t.stream
	t.stream.size = size
	if begin > 0 {
		t.stream.counter = uint64(begin+notText) / blockSize
	}
	if end == x.size {
		t.stream.final = 1
	}
}

// seal is run number run of a seal.
func (x tracedText) seal(b Backend, name string, run int) error {
	t := &traced
	setSecrets(name, run)
	x.setKey(b)
	clear(t.out[:])
	t.stream = stream{}
	text := t.secret.text[:]
	if x.begin > 0 {
		x.arrange(text, 0, x.begin)
		c := &t.call
		t.key.sealStream(&t.long, c.dst, c.src, c.size, 0, c.nonce, c.ad, c.total*8, c.stream)
	}
	x.arrange(text, x.begin, x.size-x.more)
	at := x.begin
	for _, p := range x.lay(t.out[:]) {
		at += copy(p, text[at:])
	}
	if x.pieces != nil {
		t.call.src = address(t.pieces[0])
	}
	if x.trailer {
		t.call.trailer = trailerFlag | uint64(text[x.size-1])
	}
	kernelsOf[b].traceSeal(&t.call)

	end := x.size - x.more
	if x.more == 0 {
		end += TagSize
	}
	t.key.Seal(&t.sealed[0], &text[0], x.size, t.call.nonce, t.call.ad)
	if !bytes.Equal(t.out[x.begin:end], t.sealed[x.begin:end]) {
		return errors.New("the call sealed to something else")
	}
	return nil
}

// lay takes the trailer from the call's text, lays out its pieces, and returns
// them. place is where those in place are.
func (x tracedText) lay(place []byte) [][]byte {
	t := &traced
	at, gap := x.begin, 0
	if x.trailer {
		t.call.size--
	}
	for i, n := range x.pieces {
		t.pieces[i] = t.apart[at+gap:][:n]
		if x.inPlace && i > 0 {
			t.pieces[i] = place[at:][:n]
		}
		at += n
		gap += 40
	}
	if x.pieces != nil {
		t.call.size = uint64(x.pieces[0])
		t.stream.pieces, t.stream.rest = &t.pieces[1], uint64(at-x.begin-x.pieces[0])
	}
	return t.pieces[:len(x.pieces)]
}

// The runs of an open: the secrets, and what is wrong with the tag.
const (
	openRight = iota // number 0
	openWrong        // number 1, the first bit
	openOther        // number 1
	openFirst        // number 0, the first bit
	openLast         // number 0, the last bit
	openRuns
)

// open is run number run of an open.
func (x tracedText) open(b Backend, name string, run int) error {
	t := &traced
	number := 0
	if run == openWrong || run == openOther {
		number = 1
	}
	setSecrets(name, number)
	x.setKey(b)
	clear(t.out[:])
	clear(t.apart[:])
	t.stream = stream{}
	text, sealed := t.secret.text[:x.size], t.sealed[:x.size+TagSize]
	x.arrange(sealed, 0, x.begin)
	t.key.Seal(&sealed[0], address(text), x.size, t.call.nonce, t.call.ad)
	switch run {
	case openWrong, openFirst:
		sealed[x.size] ^= 0x80
	case openLast:
		sealed[x.size+TagSize-1] ^= 1
	}
	t.stream = stream{}
	if x.begin > 0 {
		x.arrange(sealed, 0, x.begin)
		c := &t.call
		t.key.openStream(&t.long, c.dst, c.src, c.size, 0, c.nonce, c.ad, c.total*8, c.stream)
	}
	x.arrange(sealed, x.begin, x.size-x.more)
	pieces := x.lay(sealed)
	if x.pieces != nil {
		t.call.dst = address(pieces[0])
	}
	if x.trailer {
		t.call.trailer = 1
	}
	kernelsOf[b].traceOpen(&t.call)

	got := bytes.Join(pieces, nil)
	if x.pieces == nil {
		got = bytes.Clone(t.out[x.begin:][:t.call.size])
	}
	if x.trailer {
		got = append(got, byte(t.call.last))
	}
	if !bytes.Equal(got, text[x.begin:x.size-x.more]) {
		return errors.New("the call opened to something else")
	}
	if right := x.more == 0 && (run == openRight || run == openOther); right != (t.call.ok == 1) {
		return fmt.Errorf("ok is %d", t.call.ok)
	}
	return nil
}

// tracedTexts returns the texts for b: enough for every instruction, which
// checkExecuted looks after, and few, since single steps are slow.
func tracedTexts(b Backend) (list []tracedText) {
	first, batch, vector := shapes[b].firstBatch, shapes[b].batch, widths[b]/8
	add := func(x tracedText) { list = append(list, x) }

	// Less than a block, with and without a trailer.
	add(tracedText{keySize: 24})
	add(tracedText{keySize: 32})
	for n := range 18 {
		add(tracedText{keySize: 16, size: n, ad: n, tags: n%8 == 0})
		add(tracedText{keySize: 16, size: n + 1, trailer: true, ad: 5, tags: n%8 == 0})
	}
	// Every number of vectors, the last one whole, or less, or less than half.
	for n := vector; n < first+batch+vector; n += vector {
		add(tracedText{keySize: 16, size: n, ad: 5})
		add(tracedText{keySize: 24, size: n - 7, trailer: true, ad: 13, once: true})
		add(tracedText{keySize: 32, size: n - vector/2 - 3, ad: 29})
	}
	// A trailer alone in the last block, which is alone in the last vector or
	// not, or that block with all of its bytes.
	for _, n := range []int{first + 1, first + 16, first + 17, first + batch, first + batch + 1, first + batch + 5, first + batch + 16, first + batch + 17} {
		add(tracedText{keySize: 16, size: n, trailer: true, ad: 5})
	}
	// Several groups, and where they end.
	group := shapes[b].group*blockSize - notText
	for _, n := range []int{group, group + 1, group + batch} {
		add(tracedText{keySize: 16, size: n, ad: 5})
	}
	add(tracedText{keySize: 16, size: 1350, trailer: true, ad: 5, tags: true})
	add(tracedText{keySize: 32, size: 4000, trailer: true, ad: 5})
	add(tracedText{keySize: 24, size: first + 3*batch, ad: 5, once: true})

	// Two calls, which end where batches do.
	for _, keySize := range []int{16, 24, 32} {
		for _, end := range []int{first, first + 3*batch} {
			more := batch + 40
			add(tracedText{keySize: keySize, size: end + more, more: more, ad: 5})
			add(tracedText{keySize: keySize, size: end + more, begin: end, trailer: end > first, ad: 5})
		}
	}

	// Pieces: seams in batch 0, in batch 1 and where a call goes on, of which
	// each way to move some bytes moves the first ones, and the others.
	for i, n := range movedSizes(batch) {
		behind := divided(batch-n, batch, i%2 == 0)
		add(tracedText{keySize: 16, size: batch + 20, pieces: slices.Concat([]int{n}, behind, []int{20}), inPlace: i%4 == 1, ad: 5})
		add(tracedText{keySize: 16, size: first + batch + 20, pieces: slices.Concat([]int{first + n}, behind, []int{20}), inPlace: i%4 == 2, ad: 5})
		add(tracedText{keySize: 16, size: first + batch + 20, begin: first, pieces: slices.Concat([]int{n}, behind, []int{20}), inPlace: i%4 == 3, ad: 5})
	}
	// A header, whose seam is in the first vector.
	for _, n := range []int{1, 2, 5, 10, 16, 20, 32} {
		if n <= vector {
			add(tracedText{keySize: 16, size: n + first + 21, trailer: true, pieces: []int{n, first + 20}, ad: 5})
		}
	}
	// A seam in every other batch behind them.
	size, pieces := first+batch, []int{first + batch}
	for i, n := range movedSizes(batch) {
		pieces[len(pieces)-1] += n
		pieces = slices.Concat(pieces, divided(batch-n, batch, i%2 == 0), []int{batch})
		size += 2 * batch
	}
	add(tracedText{keySize: 16, size: size, pieces: pieces, ad: 5})
	// The last batch of a call has a seam.
	for _, descending := range []bool{false, true} {
		inFirst, behind := divided(first, batch, descending), divided(batch, batch, descending)
		add(tracedText{keySize: 16, size: first + 40, more: 40, pieces: inFirst, ad: 5})
		add(tracedText{keySize: 16, size: first + batch + 40, more: 40, pieces: append([]int{first}, behind...), ad: 5})
		add(tracedText{keySize: 16, size: first + 2*batch - 9, pieces: append([]int{first + batch}, divided(batch-9, batch, descending)...), ad: 5, tags: true})
	}
	return list
}

// movedSizes are numbers of bytes, less than a batch, one for each way of the
// kernels to move some: by a power of two at a time.
func movedSizes(batch int) (sizes []int) {
	for n := 1; n < batch; n *= 2 {
		sizes = append(sizes, n+n/4)
	}
	return sizes
}

// divided divides size bytes into pieces of such sizes, as many as there can be
// of each once, of a piece with what is left, and of one that is empty.
func divided(size, batch int, descending bool) (pieces []int) {
	sizes := movedSizes(batch)
	if descending {
		slices.Reverse(sizes)
	}
	for _, n := range sizes {
		if n < size {
			pieces = append(pieces, n)
			size -= n
		}
	}
	return append(pieces, 0, size)
}
