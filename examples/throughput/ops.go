package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/asm"
	"golang.org/x/crypto/chacha20poly1305"
)

// A task is one op at one size in the hands of one implementation.
type task struct {
	impl string

	// call makes n calls of the op.
	call func(n int)

	// refill, if not nil, runs before call and is not timed. If batch is not 0,
	// exactly that many calls use up what it has made.
	refill func()
	batch  int

	// check compares a call's result with what it must be. It runs before the first
	// refill.
	check func() error
}

// newTasks returns the tasks of s, in the order of implementations.
func newTasks(m *memory, s spec, backends []asm.Backend) ([]*task, error) {
	if isRecordOp(s.op) {
		return newRecordFixture(m, s).tasks(backends)
	}
	f, err := newFixture(m, s)
	if err != nil {
		return nil, err
	}
	var tasks []*task
	for _, b := range backends {
		if s.suite.isChaCha() && b != asm.Portable {
			continue
		}
		t, err := f.ours(b)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	theirs, err := f.theirs()
	if err != nil {
		return nil, err
	}
	return append(tasks, theirs), nil
}

// A fixture is what all implementations of one op below records share.
type fixture struct {
	spec
	key, nonce, ad []byte

	content []byte   // size bytes
	pieces  [][]byte // that make up content
	text    []byte   // what is sealed: content, and the content type where there is one
	sealed  []byte   // crypto/cipher's ciphertext and tag of text
	out     []byte   // as long as sealed
	dst     []byte   // size bytes
	slots   [][]byte // as long as sealed, one for each call between two refills
}

func newFixture(m *memory, s spec) (*fixture, error) {
	f := &fixture{
		spec: s,
		key:  make([]byte, s.suite.suite.KeySize()), nonce: make([]byte, aead.IVSize),
		ad:      make([]byte, 5),
		content: m.content[:s.size], dst: m.dst[:s.size:s.size],
	}
	rand.Read(f.key)
	rand.Read(f.nonce)
	rand.Read(f.ad)
	f.text = bytes.Clone(f.content)
	switch s.op {
	case "split-seal", "copy-seal", "split-open":
		f.text = append(f.text, contentType)
	case "gather-halves":
		f.pieces = cut(m.in, f.content, 2)
	case "gather-16":
		f.pieces = cut(m.in, f.content, 16)
	}
	oracle, err := newCryptoCipher(s.suite, f.key)
	if err != nil {
		return nil, err
	}
	f.sealed = oracle.Seal(nil, f.nonce, f.text, f.ad)
	n := len(f.sealed)
	f.out = m.out[:n:n]

	stride := (n + 63) / 64 * 64
	for i := range ringCount(stride) {
		f.slots = append(f.slots, m.ring[i*stride:][:n:n])
	}
	return f, nil
}

// cut copies b to room, in n pieces that differ in length by one byte at most
// and are not next to each other.
func cut(room, b []byte, n int) [][]byte {
	var pieces [][]byte
	for i := range n {
		size := copy(room, b[len(b)*i/n:len(b)*(i+1)/n])
		pieces = append(pieces, room[:size:size])
		room = room[size+64:]
	}
	return pieces
}

// newCryptoCipher returns an AEAD made as users of crypto/cipher make it.
func newCryptoCipher(s cipherSuite, key []byte) (cipher.AEAD, error) {
	if s.isChaCha() {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// ours returns the task of backend b.
func (f *fixture) ours(b asm.Backend) (*task, error) {
	restore := asm.Force(b)
	g, err := f.suite.suite.New(f.key)
	restore()
	if err != nil {
		return nil, err
	}
	if k, ok := g.(interface{ Backend() string }); ok && k.Backend() != b.String() {
		return nil, fmt.Errorf("the key got backend %s, not %s", k.Backend(), b.String())
	}
	t := f.newTask(ourPrefix + b.String())
	n, size := len(f.text), f.size
	switch f.op {
	case "split-seal":
		t.call = func(calls int) {
			for range calls {
				f.out[size] = contentType
				g.SealSplit(f.out, f.nonce, f.content, f.ad)
			}
		}
	case "split-open":
		t.call = func(calls int) {
			for i := range calls {
				must(g.OpenSplit(f.dst, f.nonce, f.slots[i], f.ad))
			}
		}
	case "gather-halves", "gather-16":
		t.call = func(calls int) {
			for range calls {
				g.SealGather(f.out[:0], f.nonce, f.pieces, f.ad)
			}
		}
	case "newkey-seal":
		t.call = func(calls int) {
			defer asm.Force(b)()
			for range calls {
				g, err := f.suite.suite.New(f.key)
				must(err)
				g.Seal(f.out[:0], f.nonce, f.out[:n], f.ad)
			}
		}
	default:
		t.call = f.whole(g)
	}
	return t, nil
}

// theirs returns the task of crypto/cipher.
func (f *fixture) theirs() (*task, error) {
	a, err := newCryptoCipher(f.suite, f.key)
	if err != nil {
		return nil, err
	}
	t := f.newTask(cryptoCipher)
	n, size := len(f.text), f.size
	switch f.op {
	case "split-seal":
		t.call = f.copySeal(a)
	case "split-open":
		t.call = func(calls int) {
			for i := range calls {
				slot := f.slots[i]
				text, err := a.Open(slot[:0], f.nonce, slot, f.ad)
				must(err)
				copy(f.dst, text[:size])
			}
		}
	case "gather-halves", "gather-16":
		t.call = func(calls int) {
			for range calls {
				rest := f.out
				for _, p := range f.pieces {
					rest = rest[copy(rest, p):]
				}
				a.Seal(f.out[:0], f.nonce, f.out[:n], f.ad)
			}
		}
	case "newkey-seal":
		t.call = func(calls int) {
			for range calls {
				a, err := newCryptoCipher(f.suite, f.key)
				must(err)
				a.Seal(f.out[:0], f.nonce, f.out[:n], f.ad)
			}
		}
	default:
		t.call = f.whole(a)
	}
	return t, nil
}

// whole returns the calls of the ops that any cipher.AEAD has.
func (f *fixture) whole(a cipher.AEAD) func(calls int) {
	switch f.op {
	case "seal":
		n := len(f.text)
		return func(calls int) {
			for range calls {
				a.Seal(f.out[:0], f.nonce, f.out[:n], f.ad)
			}
		}
	case "copy-seal":
		return f.copySeal(a)
	case "open":
		return func(calls int) {
			// The ciphertext is read only, so one is enough for all calls.
			for range calls {
				_, err := a.Open(f.dst[:0], f.nonce, f.out, f.ad)
				must(err)
			}
		}
	}
	panic("throughput: no op " + f.op)
}

func (f *fixture) copySeal(a cipher.AEAD) func(calls int) {
	n, size := len(f.text), f.size
	return func(calls int) {
		for range calls {
			copy(f.out, f.content)
			f.out[size] = contentType
			a.Seal(f.out[:0], f.nonce, f.out[:n], f.ad)
		}
	}
}

// newTask returns a task without its call.
func (f *fixture) newTask(impl string) *task {
	t := &task{impl: impl}
	switch f.op {
	case "open":
		t.check = func() error {
			copy(f.out, f.sealed)
			return f.checkOpen(t)
		}
	case "split-open":
		t.batch = len(f.slots)
		t.refill = func() {
			for _, s := range f.slots {
				copy(s, f.sealed)
			}
		}
		t.check = func() error {
			t.refill()
			return f.checkOpen(t)
		}
	default:
		t.check = func() error {
			clear(f.out)
			if f.op == "seal" || f.op == "newkey-seal" {
				copy(f.out, f.text)
			}
			t.call(1)
			if !bytes.Equal(f.out, f.sealed) {
				return errors.New("sealed to something else than crypto/cipher")
			}
			return nil
		}
	}
	return t
}

func (f *fixture) checkOpen(t *task) error {
	clear(f.dst)
	t.call(1)
	if !bytes.Equal(f.dst, f.content) {
		return errors.New("opened to something else than was sealed")
	}
	if f.op == "split-open" && f.slots[0][f.size] != contentType {
		return errors.New("the content type did not stay in place")
	}
	return nil
}

// must panics if a call that cannot fail has failed. Measuring failures would be
// worse than ending.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("throughput: %v", err))
	}
}
