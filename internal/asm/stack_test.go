//lint:file-ignore SA4006 without kernels no call of one returns, and what follows it is dead

package asm

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// Buffers on a stack move when it grows, or when the collector shrinks it. Each form
// below seals and opens with its buffers, and lists of pieces, in its own frame, and
// reports how often the stack has moved during its calls: so the test knows that
// they are there, and that it has met what it is about.

// A stackForm makes calls with buffers in its frame.
type stackForm struct {
	name string
	size int // of the text that call needs
	call func(k *Key, text, sealed []byte) (moves int, ok bool)
}

var stackForms = []stackForm{
	{"short", stackShort, callShortFromStack},
	{"split and pieces", stackSplit, callSplitFromStack},
	{"several calls", stackMany, callManyFromStack},
	{"several calls, pieces", stackMany, callManyPiecesFromStack},
}

// stackSplit is more than twice the prefix from which on a split is not copied.
// stackMany takes two calls, and a frame with that is little shorter than a stack.
const (
	stackShort = 100
	stackSplit = 2100
	stackMany  = maxCall + 55_000
)

// place returns where p is, as a number that does not change with it.
func place(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// moved adds 1 to moves if p is not at before any more.
func moved(moves *int, before uintptr, p *byte) {
	if place(p) != before {
		*moves++
	}
}

//go:noinline
func callShortFromStack(k *Key, text, sealed []byte) (moves int, ok bool) {
	const n = stackShort
	var in [n]byte
	var out [n + TagSize]byte
	copy(in[:], text)
	at := place(&out[0])
	k.Seal(&out[0], &in[0], n, Nonce{}, AD{})
	moved(&moves, at, &out[0])
	ok = bytes.Equal(out[:], sealed)
	at = place(&out[0])
	ok = k.Open(&in[0], &out[0], n, Nonce{}, AD{}) && ok
	moved(&moves, at, &out[0])
	at = place(&out[0])
	k.SealTrailer(&out[0], &in[0], n-1, in[n-1], Nonce{}, AD{})
	moved(&moves, at, &out[0])
	ok = ok && bytes.Equal(out[:], sealed)
	at = place(&out[0])
	opened, last := k.OpenTrailer(&out[0], &out[0], n-1, Nonce{}, AD{})
	moved(&moves, at, &out[0])
	out[n-1] = last
	return moves, ok && opened && bytes.Equal(in[:], text) && bytes.Equal(out[:n], text)
}

//go:noinline
func callSplitFromStack(k *Key, text, sealed []byte) (moves int, ok bool) {
	const n, prefix = stackSplit, 1050
	var in, back [prefix]byte
	var out [n + TagSize]byte
	copy(in[:], text)
	copy(out[prefix:], text[prefix:])
	at := place(&out[0])
	k.SealSplit(&out[0], &in[0], prefix, n, Nonce{}, AD{})
	moved(&moves, at, &out[0])
	ok = bytes.Equal(out[:], sealed)
	at = place(&out[0])
	ok = k.OpenSplit(&back[0], &out[0], prefix, n, Nonce{}, AD{}) && ok
	moved(&moves, at, &out[0])
	ok = ok && bytes.Equal(back[:], text[:prefix]) && bytes.Equal(out[prefix:n], text[prefix:])
	pieces := [...][]byte{in[:300], in[300:301], in[301:prefix], out[prefix : n-1], out[n-1 : n]}
	at = place(&out[0])
	k.SealPieces(&out[0], n, pieces[:], Nonce{}, AD{})
	moved(&moves, at, &out[0])
	ok = ok && bytes.Equal(out[:], sealed)
	clear(back[:])
	pieces = [...][]byte{back[:300], back[300:301], back[301:prefix], out[prefix : n-1], out[n-1 : n]}
	at = place(&out[0])
	ok = k.OpenPieces(pieces[:], &out[0], n, Nonce{}, AD{}) && ok
	moved(&moves, at, &out[0])
	return moves, ok && bytes.Equal(back[:], text[:prefix]) && bytes.Equal(out[prefix:n], text[prefix:])
}

//go:noinline
func callManyFromStack(k *Key, text, sealed []byte) (moves int, ok bool) {
	const n = stackMany
	var out [n + TagSize]byte
	copy(out[:], text)
	at := place(&out[0])
	k.Seal(&out[0], &out[0], n, Nonce{}, AD{})
	moved(&moves, at, &out[0])
	ok = bytes.Equal(out[:], sealed)
	at = place(&out[0])
	ok = k.Open(&out[0], &out[0], n, Nonce{}, AD{}) && ok
	moved(&moves, at, &out[0])
	return moves, ok && bytes.Equal(out[:n], text)
}

//go:noinline
func callManyPiecesFromStack(k *Key, text, sealed []byte) (moves int, ok bool) {
	const n, first = stackMany, 50
	var in [first]byte
	var out [n + TagSize]byte
	copy(in[:], text)
	copy(out[first:], text[first:])
	pieces := [...][]byte{in[:], out[first:20_000], out[20_000:n]}
	at := place(&out[0])
	k.SealPieces(&out[0], n, pieces[:], Nonce{}, AD{})
	moved(&moves, at, &out[0])
	ok = bytes.Equal(out[:], sealed)
	clear(in[:])
	at = place(&out[0])
	ok = k.OpenPieces(pieces[:], &out[0], n, Nonce{}, AD{}) && ok
	moved(&moves, at, &out[0])
	return moves, ok && bytes.Equal(in[:], text[:first]) && bytes.Equal(out[first:n], text[first:])
}

// TestStacks calls kernels from stacks of every depth, so that they grow at that
// very moment, at the entry of every Go function on the way. Kernels themselves are
// marked NOSPLIT: a stack never moves at theirs.
func TestStacks(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 3
	}
	forEachStack(t, func(t *testing.T, b Backend, form *stackForm, text, sealed []byte) {
		moves := 0
		for depth := 0; depth < 300; depth += step {
			for _, descend := range []func(int, func()) byte{descend1, descend5} {
				// A table of its own for the first text, the one that stays later.
				k := new(Key)
				k.Init(b, filled(16, 16), nil)
				for range 3 {
					done := make(chan bool)
					go func() {
						ok := false
						descend(depth, func() {
							var n int
							n, ok = form.call(k, text, sealed)
							moves += n
						})
						done <- ok
					}()
					if !<-done {
						t.Fatalf("%v, %s: a call from a growing stack, %d frames deep, gave something else", b, form.name, depth)
					}
				}
			}
		}
		t.Logf("%v, %s: the stack grew in %d calls", b, form.name, moves)
		if moves == 0 {
			t.Errorf("%v, %s: no stack grew in a call: the buffers are not on it", b, form.name)
		}
	})
}

// TestStacksShrink does it on stacks that were much longer a moment ago, while the
// collector, which shrinks them, runs all the time.
func TestStacksShrink(t *testing.T) {
	var done atomic.Bool
	var collector sync.WaitGroup
	collector.Go(func() {
		for !done.Load() {
			runtime.GC()
		}
	})
	defer collector.Wait()
	defer done.Store(true)
	const enough, soon, most = 3, 2 * time.Second, 30 * time.Second
	forEachStack(t, func(t *testing.T, b Backend, form *stackForm, text, sealed []byte) {
		k := new(Key)
		k.Init(b, filled(16, 16), nil)
		moves, calls := 0, 0
		var group sync.WaitGroup
		group.Go(func() {
			for begin := time.Now(); moves < enough; calls++ {
				if took := time.Since(begin); took > most || took > soon && moves > 0 {
					break
				}
				if calls%20 == 0 {
					descend5(20_000, func() {})
				}
				n, ok := form.call(k, text, sealed)
				moves += n
				if !ok {
					t.Errorf("%v, %s: a call from a shrinking stack gave something else", b, form.name)
					return
				}
			}
		})
		group.Wait()
		t.Logf("%v, %s: the stack shrank in %d of %d times", b, form.name, moves, calls)
		if moves == 0 && !t.Failed() {
			t.Errorf("%v, %s: no stack shrank in a call in %v", b, form.name, most)
		}
	})
}

// forEachStack runs f for each backend with kernels and each form, one at a time.
func forEachStack(t *testing.T, f func(t *testing.T, b Backend, form *stackForm, text, sealed []byte)) {
	ran := false
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		ran = true
		for i := range stackForms {
			form := &stackForms[i]
			fixture := newFixture(t, b, 16, false)
			text := filled(form.size, byte(i))
			f(t, b, form, text, fixture.oracle.Seal(nil, make([]byte, NonceSize), text, nil))
		}
	}
	if !ran {
		t.Skip("this build, or this machine, has no backend with kernels")
	}
}

// descend1 and descend5 call f under depth frames, of different sizes, so that
// the stack's end falls everywhere.
//
//go:noinline
func descend1(depth int, f func()) byte {
	var frame [8]byte
	frame[depth%len(frame)] = byte(depth)
	if depth == 0 {
		f()
		return frame[0]
	}
	return descend1(depth-1, f) + frame[depth%3]
}

//go:noinline
func descend5(depth int, f func()) byte {
	var frame [40]byte
	frame[depth%len(frame)] = byte(depth)
	if depth == 0 {
		f()
		return frame[0]
	}
	return descend5(depth-1, f) + frame[depth%3]
}
