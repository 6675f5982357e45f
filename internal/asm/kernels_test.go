package asm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// The tests here are those of the kernels by themselves. What every backend
// must pass behind its public face is in package gcm.

// forEachKernel runs f for every backend with kernels and every key size.
func forEachKernel(t *testing.T, f func(t *testing.T, b Backend, keySize int)) {
	ran := false
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		ran = true
		for _, keySize := range []int{16, 24, 32} {
			t.Run(fmt.Sprintf("%v/AES-%d", b, keySize*8), func(t *testing.T) {
				t.Parallel()
				f(t, b, keySize)
			})
		}
	}
	if !ran {
		t.Skip("this build, or this machine, has no backend with kernels")
	}
}

// fixture is one key for the kernels and for the oracle.
type fixture struct {
	*Key
	oracle cipher.AEAD
	block  cipher.Block
	iv     [NonceSize]byte
}

// newFixture returns a key, with the table for long texts if long is set.
func newFixture(t *testing.T, b Backend, keySize int, long bool) *fixture {
	t.Helper()
	key := filled(keySize, byte(keySize))
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Key: new(Key), oracle: oracle, block: block}
	copy(f.iv[:], filled(NonceSize, 77))
	f.Init(b, key, &f.iv)
	if long {
		f.makeLong()
	}
	return f
}

// nonce returns the oracle's nonce for n under the fixture's IV.
func (f *fixture) nonce(n Nonce) []byte {
	b := binary.LittleEndian.AppendUint64(nil, n.Lo)
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Hi))
	for i := range b {
		b[i] ^= f.iv[i]
	}
	return b
}

// filled returns n bytes that depend on seed only.
func filled(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func address(b []byte) *byte { return unsafe.SliceData(b) }

// TestSealOpen compares every length up to more than two groups of every
// backend with crypto/cipher: in place, apart, with the last byte as trailer. With
// -short, which an emulator needs, the lengths above three batches have steps.
func TestSealOpen(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, true)
		lazy := newFixture(t, b, keySize, false)
		text := filled(2200, 1)
		data := filled(64, 2)
		out := make([]byte, len(text)+TagSize)
		back := make([]byte, len(text))
		for n, step := 0, 1; n <= len(text); n += step {
			if testing.Short() && n >= 3*shapes[b].batch {
				step = 53
			}
			text, data := text[:n], data[:n%65]
			nonce := Nonce{Lo: uint64(n) * 0x9e3779b97f4a7c15, Hi: uint64(n) & 0xffffffff}
			want := f.oracle.Seal(nil, f.nonce(nonce), text, data)
			out, back := out[:n+TagSize], back[:n]
			check := func(what string) {
				t.Helper()
				if !bytes.Equal(out, want) {
					t.Fatalf("%s of %d bytes:\ngot  %x\nwant %x", what, n, out, want)
				}
			}
			ad := f.AD(data)

			f.Seal(address(out), address(text), n, nonce, ad)
			check("seal")
			copy(out, text)
			f.Seal(address(out), address(out), n, nonce, ad)
			check("seal in place")
			if n > 0 {
				clear(out)
				f.SealTrailer(address(out), address(text), n-1, text[n-1], nonce, ad)
				check("seal with trailer")
				copy(out, text[:n-1])
				lazy.SealTrailer(address(out), address(out), n-1, text[n-1], nonce, lazy.AD(data))
				check("seal with trailer in place")
			}

			checkOpen := func(what string, ok bool, got []byte) {
				t.Helper()
				if !ok || !bytes.Equal(got, text) {
					t.Fatalf("%s of %d bytes: %v\ngot  %x\nwant %x", what, n, ok, got, text)
				}
			}
			ok := f.Open(address(back), address(out), n, nonce, ad)
			checkOpen("open", ok, back)
			check("after open, ciphertext")
			ok = f.Open(address(out), address(out), n, nonce, ad)
			checkOpen("open in place", ok, out[:n])
			if n > 0 {
				clear(back)
				copy(out, want)
				ok, trailer := f.OpenTrailer(address(back), address(out), n-1, nonce, ad)
				if back[n-1] != 0 {
					t.Fatalf("open with trailer of %d bytes wrote one more", n)
				}
				back[n-1] = trailer
				checkOpen("open with trailer", ok, back)
				ok, trailer = lazy.OpenTrailer(address(out), address(out), n-1, nonce, ad)
				checkOpen("open with trailer in place", ok && trailer == text[n-1], append(out[:n-1:n-1], trailer))
				copy(out, want)
			}
			out[n+n%TagSize] ^= 1 << (n % 8)
			if f.Open(address(back), address(out), n, nonce, ad) {
				t.Fatalf("%d bytes opened with a forged tag", n)
			}
		}
	})
}
