package gcm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"unsafe"

	"example.com/splitseal/gcm"
)

// TestBackendDeadStack looks at the stack below calls that have returned, which no one
// erases before some other call happens to use it. It must hold neither the key,
// nor the first round key with a public nonce added, nor H, nor keystream, nor
// plaintext, 12 bytes of it or more: that of a seal, of an open, or of a refused one,
// which nobody may see. (In package asm, TestTraces looks at each kernel's own frame and at registers,
// for anything that depends on a secret.)
func TestBackendDeadStack(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector uses the stack below the calls as well")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection can move the stack
	looked := false
	for _, keySize := range []int{16, 24, 32} {
		s := newKeySet(t, keySize, gcm.NonceSize, gcm.TagSize)
		for _, tgt := range s.targets {
			if tgt.backend == "portable" {
				continue // what crypto/cipher leaves is not ours to erase
			}
			looked = true
			// The first text that is not short takes another way than the second,
			// and the last one takes two calls of a kernel.
			for _, n := range []int{16, 40, 150, 230, 400, 400, 1350, 5000, 70001} {
				for _, c := range stackCalls(t, s, tgt, n) {
					left := leftBy(c.call)
					name := fmt.Sprintf("%s %s %s of %d bytes", tgt.backend, s.name, c.name, n)
					if !c.done() {
						t.Fatalf("%s: the call did not do what it should", name)
					}
					if what, at := c.secrets.in(left); what != "" {
						t.Errorf("%s: %s is %d bytes below the call's frame", name, what, at)
					}
				}
			}
		}
	}
	if !looked {
		t.Skip("no kernels here")
	}
}

// TestLeftBy puts a secret on the stack.
func TestLeftBy(t *testing.T) {
	secret := secrets{}
	secret.add("what was left", pool[:16])
	if what, _ := secret.in(leftBy(func() { leave(pool[:16]) })); what == "" {
		t.Error("not found")
	}
	if what, _ := secret.in(leftBy(func() {})); what != "" {
		t.Error("found where it was not left")
	}
}

//go:noinline
func leave(b []byte) {
	var x [512]byte
	copy(x[100:], b)
	keep(&x)
}

// secretSize is how much of a secret must be there to be found: a nonce, since
// the rest of a counter block may have a counter.
const secretSize = 12

// secrets maps bytes to what they are.
type secrets map[[secretSize]byte]string

func (s secrets) add(what string, b []byte) {
	for i := 0; i+secretSize <= len(b); i++ {
		s[[secretSize]byte(b[i:])] = what
	}
}

// in returns which secret is in b, and how far before its end.
func (s secrets) in(b []byte) (what string, at int) {
	for i := 0; i+secretSize <= len(b); i++ {
		if what = s[[secretSize]byte(b[i:])]; what != "" {
			return what, len(b) - i
		}
	}
	return "", 0
}

// secretsOf returns the secrets of a text of n bytes under the nonce.
func secretsOf(s *keySet, nonce, text []byte) secrets {
	all := secrets{}
	for i := 0; i < len(s.key); i += 16 {
		all.add("a part of the key", s.key[i:min(i+16, len(s.key))])
	}
	start := slices.Clone(s.key[:gcm.NonceSize])
	for i := range start {
		start[i] ^= nonce[i]
	}
	all.add("the key XOR a nonce", start)
	var block, out [16]byte
	s.block.Encrypt(out[:], block[:])
	all.add("H", out[:])
	slices.Reverse(out[:])
	all.add("H", out[:])
	copy(block[:], nonce)
	for i := range len(text)/16 + 2 {
		binary.BigEndian.PutUint32(block[12:], uint32(i+1))
		s.block.Encrypt(out[:], block[:])
		all.add("keystream or E(J₀)", out[:])
	}
	all.add("plaintext", text)
	return all
}

// A stackCall is a call with all that it needs, so that nothing happens before and
// behind it.
type stackCall struct {
	name    string
	secrets secrets
	call    func()
	done    func() bool // reports whether it did what it should
}

func stackCalls(t *testing.T, s *keySet, tgt *target, n int) (list []stackCall) {
	text := pool[1000 : 1000+n]
	seq, ad, aad := uint64(n), gcm.ADOf(0x1703030000, 5), []byte{0x17, 3, 3, 0, 0}
	nonce := slices.Clone(s.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(seq >> (8 * (7 - i)))
	}
	sealed := s.oracle.Seal(nil, nonce, text, aad)
	forged := slices.Clone(sealed)
	forged[n/2] ^= 4
	all := secretsOf(s, nonce, text)
	// A refused open decrypts the forged text.
	refused := secretsOf(s, nonce, xored(sealed[:n], forged[:n], text))

	out, buf := make([]byte, n+gcm.TagSize), make([]byte, n+gcm.TagSize)
	cuts := func(b []byte) [][]byte { return slices.Collect(slices.Chunk(b, n/3+1)) }
	small := func(b []byte) [][]byte { return slices.Collect(slices.Chunk(b, 25)) }
	add := func(name string, call func(), done func() bool) {
		list = append(list, stackCall{name, all, call, done})
	}
	seals := func(name string, call func()) {
		add(name, call, func() bool { return bytes.Equal(out, sealed) })
	}
	seals("Seal", func() { tgt.aead.Seal(out[:0], nonce, text, aad) })
	for name, cut := range map[string]func(b []byte) [][]byte{"": cuts, " of small pieces": small} {
		pieces := cut(text)
		seals("SealGather"+name, func() { tgt.aead.SealGather(out[:0], nonce, pieces, aad) })
		seals("RecordKey.SealGather"+name, func() { tgt.record.SealGather(out, seq, pieces, ad) })
	}
	seals("RecordKey.Seal", func() { tgt.record.Seal(out, seq, text[:n-1], text[n-1], ad) })
	// The rest is in place.
	split := len(text) * 9 / 10
	seals("SealSplit", func() { copy(out, text); tgt.aead.SealSplit(out, nonce, text[:split], aad) })
	seals("RecordKey.SealSplit", func() { copy(out, text); tgt.record.SealSplit(out, seq, text[:split], ad) })

	for _, from := range [][]byte{sealed, forged} {
		refuses := bytes.Equal(from, forged)
		opens := func(name string, into [][]byte, call func() error) {
			var err error
			add(name, func() { copy(buf, from); err = call() }, func() bool {
				if refuses {
					return err == gcm.ErrOpen
				}
				return err == nil && bytes.Equal(bytes.Join(into, nil), text)
			})
			if refuses {
				c := &list[len(list)-1]
				c.name, c.secrets = c.name+", refused,", refused
			}
		}
		opens("Open", [][]byte{out[:n]}, func() error { _, err := tgt.aead.Open(out[:0], nonce, buf, aad); return err })
		opens("OpenSplit", [][]byte{out[:split], buf[split:n]}, func() error { return tgt.aead.OpenSplit(out[:split], nonce, buf, aad) })
		opens("RecordKey.OpenSplit", [][]byte{out[:split], buf[split:n]}, func() error { return tgt.record.OpenSplit(out[:split], seq, buf, ad) })
		for name, cut := range map[string]func(b []byte) [][]byte{"": cuts, " to small pieces": small} {
			pieces := cut(out[:n])
			opens("OpenScatter"+name, pieces, func() error { return tgt.aead.OpenScatter(pieces, nonce, buf, aad) })
		}
	}
	return list
}

// xored returns a ⊕ b ⊕ c.
func xored(a, b, c []byte) []byte {
	out := slices.Clone(a)
	for i := range out {
		out[i] ^= b[i] ^ c[i]
	}
	return out
}

// stackSize is how much of the stack leftBy returns: more than any call uses.
const stackSize = 8 << 10

var leftOnStack [stackSize]byte

// leftBy returns what call leaves on the stack, which it fills with zeros before.
// The result is valid until it is called again.
//
//go:noinline
func leftBy(call func()) []byte {
	clearStack()
	call()
	copyStack()
	return leftOnStack[:]
}

//go:noinline
func clearStack() {
	var x [2 * stackSize]byte
	keep(&x)
}

//go:noinline
func keep[T any](x *T) {}

// copyStack copies what is below its own frame.
//
//go:noinline
//go:nocheckptr
func copyStack() {
	var x uint64
	for i := range leftOnStack {
		leftOnStack[i] = *(*byte)(unsafe.Add(unsafe.Pointer(&x), i-stackSize))
	}
}
