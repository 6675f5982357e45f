package aead_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/gcm"
)

// untidy is an AEAD that keeps the least that cipher.AEAD asks for: on failure
// it leaves the plaintext in the output, and says why it failed.
type untidy struct{ cipher.AEAD }

func (a untidy) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	opened, err := a.AEAD.Open(nil, nonce, ciphertext, ad)
	if err == nil {
		return append(dst, opened...), nil
	}
	// Sealing the ciphertext gives the plaintext: GCM's cipher is an XOR.
	n := len(ciphertext) - a.Overhead()
	copy(dst[len(dst):len(dst)+n], a.AEAD.Seal(nil, nonce, ciphertext[:n], nil))
	return nil, errors.New("tag does not match")
}

func plainGCM(t *testing.T) cipher.AEAD {
	t.Helper()
	return oracleFor(t, aead.AES128GCM(), filler("key", 16))
}

func TestGatherReturnsGatherers(t *testing.T) {
	a, err := gcm.New(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	if aead.Gather(a) != aead.Gatherer(a) {
		t.Error("a *gcm.AEAD is wrapped")
	}
	g := aead.Gather(plainGCM(t))
	if aead.Gather(g) != g {
		t.Error("an adapter is wrapped")
	}
}

// TestGatherRefusesOwnNonces passes an AEAD whose ciphertexts do not begin with
// the text's.
func TestGatherRefusesOwnNonces(t *testing.T) {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	mustPanic(t, "aead: ", "random nonce", func() { aead.Gather(a) })
}

// elsewhere puts its output in memory of its own.
type elsewhere struct{ cipher.AEAD }

func (a elsewhere) Seal(_, nonce, plaintext, ad []byte) []byte {
	return a.AEAD.Seal(nil, nonce, plaintext, ad)
}

func (a elsewhere) Open(_, nonce, ciphertext, ad []byte) ([]byte, error) {
	return a.AEAD.Open(nil, nonce, ciphertext, ad)
}

// longer seals to one byte more than it said.
type longer struct{ cipher.AEAD }

func (a longer) Seal(dst, nonce, plaintext, ad []byte) []byte {
	return append(a.AEAD.Seal(dst, nonce, plaintext, ad), 0)
}

// TestAdapterNoticesOutputElsewhere: otherwise the gathered text would be sent
// as if it were a ciphertext.
func TestAdapterNoticesOutputElsewhere(t *testing.T) {
	nonce, text := make([]byte, 12), []byte("some text")
	for _, a := range []cipher.AEAD{elsewhere{plainGCM(t)}, longer{plainGCM(t)}} {
		g := aead.Gather(a)
		out := make([]byte, len(text)+16)
		mustPanic(t, "aead: ", "SealSplit", func() { g.SealSplit(out, nonce, text[:4], nil) })
		mustPanic(t, "aead: ", "SealGather", func() { g.SealGather(out[:0], nonce, [][]byte{text[:4], text[4:]}, nil) })
		mustPanic(t, "aead: ", "Seal", func() { g.Seal(out[:0], nonce, text, nil) })
		if bytes.Contains(out, text[:4]) {
			t.Errorf("text is left in the output: %q", out)
		}
	}
	g := aead.Gather(elsewhere{plainGCM(t)})
	sealed := plainGCM(t).Seal(nil, nonce, text, nil)
	mustPanic(t, "aead: ", "Open", func() { g.Open(nil, nonce, bytes.Clone(sealed), nil) })
	mustPanic(t, "aead: ", "OpenSplit", func() { g.OpenSplit(make([]byte, 4), nonce, bytes.Clone(sealed), nil) })
	mustPanic(t, "aead: ", "OpenScatter", func() { g.OpenScatter([][]byte{make([]byte, 9)}, nonce, bytes.Clone(sealed), nil) })
}

// breaking decrypts and then panics, before it has verified anything.
type breaking struct{ cipher.AEAD }

func (a breaking) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	a.AEAD.Open(dst, nonce, ciphertext, ad)
	panic("broken")
}

func (a breaking) Seal(dst, nonce, plaintext, ad []byte) []byte { panic("broken") }

// TestAdapterClearsAfterPanic: what an AEAD decrypted before it panicked is not
// verified, and what was gathered to be sealed is not sealed.
func TestAdapterClearsAfterPanic(t *testing.T) {
	nonce, text := make([]byte, 12), []byte("some text")
	g := aead.Gather(breaking{plainGCM(t)})
	for name, seal := range map[string]func(out []byte){
		"Seal":       func(out []byte) { g.Seal(out[:0], nonce, text, nil) },
		"SealSplit":  func(out []byte) { copy(out[4:], text[4:]); g.SealSplit(out, nonce, text[:4], nil) },
		"SealGather": func(out []byte) { g.SealGather(out[:0], nonce, [][]byte{text[:4], text[4:]}, nil) },
	} {
		out := make([]byte, len(text)+16)
		mustPanic(t, "broken", name, func() { seal(out) })
		if !bytes.Equal(out, make([]byte, len(out))) {
			t.Errorf("%s: text is left in the output: %q", name, out)
		}
	}
	for _, cut := range []int{0, 4, 9} {
		for _, open := range []func(prefix, buf []byte){
			func(prefix, buf []byte) { g.OpenSplit(prefix, nonce, buf, nil) },
			func(prefix, buf []byte) { g.OpenScatter([][]byte{prefix, make([]byte, 9-cut)}, nonce, buf, nil) },
			func(_, buf []byte) { g.Open(buf[:0], nonce, buf, nil) },
		} {
			prefix, buf := make([]byte, cut), plainGCM(t).Seal(nil, nonce, text, nil)
			mustPanic(t, "broken", "open", func() { open(prefix, buf) })
			for i, b := range prefix {
				if b != 0 {
					t.Errorf("prefix of %d: byte %d is %q", cut, i, b)
				}
			}
			for i := range text {
				if buf[i] == text[i] {
					t.Errorf("prefix of %d: plaintext byte %d is in the buffer", cut, i)
				}
			}
		}
	}
}

// greedy uses all the capacity of what it appends to, before it does.
type greedy struct{ cipher.AEAD }

func (a greedy) Seal(dst, nonce, plaintext, ad []byte) []byte {
	sealed := a.AEAD.Seal(nil, nonce, plaintext, ad)
	fill(dst)
	return append(dst, sealed...)
}

func (a greedy) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	opened, err := a.AEAD.Open(nil, nonce, ciphertext, ad)
	if err != nil {
		return nil, err
	}
	fill(dst)
	return append(dst, opened...), nil
}

func fill(dst []byte) {
	for i := range dst[len(dst):cap(dst)] {
		dst[len(dst):cap(dst)][i] = 0xee
	}
}

// TestAdapterLimitsCapacity: an AEAD gets no more room than its output, so what is
// behind it in the caller's memory, or in front of the tag, stays.
func TestAdapterLimitsCapacity(t *testing.T) {
	g, nonce, text := aead.Gather(greedy{plainGCM(t)}), make([]byte, 12), []byte("some text")
	sealed := plainGCM(t).Seal(nil, nonce, text, nil)
	n := len(sealed)
	canary := []byte("canary behind it")
	for name, call := range map[string]struct {
		size int
		do   func(out []byte) bool
	}{
		"Seal": {n, func(out []byte) bool { return bytes.Equal(g.Seal(out[:0], nonce, text, nil), sealed) }},
		"SealGather": {n, func(out []byte) bool {
			return bytes.Equal(g.SealGather(out[:0], nonce, [][]byte{text[:4], text[4:]}, nil), sealed)
		}},
		"SealSplit": {n, func(out []byte) bool {
			copy(out[4:], text[4:])
			g.SealSplit(out, nonce, text[:4], nil)
			return bytes.Equal(out, sealed)
		}},
		"SealSplit of all": {n, func(out []byte) bool { g.SealSplit(out, nonce, text, nil); return bytes.Equal(out, sealed) }},
		"Open": {len(text), func(out []byte) bool {
			opened, err := g.Open(out[:0], nonce, sealed, nil)
			return err == nil && bytes.Equal(opened, text)
		}},
		"OpenSplit of all": {len(text), func(out []byte) bool {
			return g.OpenSplit(out, nonce, bytes.Clone(sealed), nil) == nil && bytes.Equal(out, text)
		}},
		"OpenSplit": {n, func(out []byte) bool {
			copy(out, sealed)
			return g.OpenSplit(nil, nonce, out, nil) == nil && bytes.Equal(out[:len(text)], text) && bytes.Equal(out[len(text):], sealed[len(text):])
		}},
		"OpenScatter": {n, func(out []byte) bool {
			copy(out, sealed)
			return g.OpenScatter([][]byte{out[:4], out[4:len(text)]}, nonce, out, nil) == nil && bytes.Equal(out[:len(text)], text) && bytes.Equal(out[len(text):], sealed[len(text):])
		}},
	} {
		memory := append(make([]byte, call.size), canary...)
		if !call.do(memory[:call.size]) {
			t.Errorf("%s: wrong result", name)
		}
		if got := memory[call.size:]; !bytes.Equal(got, canary) {
			t.Errorf("%s wrote behind its output: %q", name, got)
		}
	}
}
