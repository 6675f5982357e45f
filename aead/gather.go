package aead

import (
	"crypto/cipher"
	"math"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/mem"
)

// ErrOpen says that a ciphertext was not sealed with this key, nonce and
// additional data. It carries no detail, and is the same value as
// [gcm.ErrOpen].
var ErrOpen = gcm.ErrOpen

// Gatherer is an AEAD whose text need not be contiguous. [gcm.AEAD] is one,
// and [Gather] makes one of any [cipher.AEAD]. The methods of gcm.AEAD document
// what every Gatherer does; in short:
//
// SealGather appends the ciphertext of the concatenation of pieces and its tag
// to dst. SealSplit fills out with the ciphertext of prefix followed by the
// text that is already at out[len(prefix) : len(out)-Overhead()], and its tag.
// OpenSplit puts the first len(prefix) bytes of plaintext into prefix and opens
// the rest in place in buf. OpenScatter fills pieces, whose lengths must add up
// to the plaintext's.
//
// Text and output must be exactly the same memory or share none; nonce and
// additional data must share none with the output. Where an open puts plaintext
// elsewhere, the ciphertext is working space, each byte of which ends up
// unchanged or zero. After a failed open all outputs hold zeros and the error
// is [ErrOpen].
//
// Warning: nobody may change a list of pieces while a method runs: see
// [gcm.AEAD.SealGather].
//
// All methods panic on a wrong nonce size, on lengths that do not fit and on an
// invalid overlap, before they write anything; if an AEAD itself panics, text that was
// in place may be lost. They may be called concurrently if those of the underlying AEAD
// may.
type Gatherer interface {
	cipher.AEAD

	SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte
	SealSplit(out, nonce, prefix, additionalData []byte)
	OpenSplit(prefix, nonce, buf, additionalData []byte) error
	OpenScatter(pieces [][]byte, nonce, ciphertext, additionalData []byte) error
}

var _ Gatherer = (*gcm.AEAD)(nil)

// Gather returns a as a [Gatherer]: a itself if it is one, otherwise an adapter
// that gathers text in the output and lets a seal it there.
//
// The adapter checks all arguments, those of Seal and Open too, because AEADs differ in
// what they ensure: overlap, nonce size, cleared output, one opaque error. It allocates
// nothing of its own. Any limit on the text's size is left to a, which may then panic
// after the text has been gathered. A panic in a leaves zeros in the output, so that no
// plaintext of a seal or an open stays there.
//
// Warning: a type that embeds a Gatherer, as in struct{ *gcm.AEAD }, is a Gatherer
// itself, with the embedded methods. If it has a Seal and an Open of its own, to count
// or to forbid calls, it needs all the other methods too, or the two will be bypassed.
//
// A ciphertext of a must be as long as its text, begin in the same place, and
// be followed by a tag of a.Overhead() bytes. Gather panics if a.NonceSize() is
// 0, because an AEAD that makes its own nonces puts them in front. The adapter
// panics if a puts its output anywhere but where it was told.
func Gather(a cipher.AEAD) Gatherer {
	if g, ok := a.(Gatherer); ok {
		return g
	}
	if a.NonceSize() == 0 {
		panic("aead: an AEAD that makes its own nonces cannot gather")
	}
	return &adapter{aead: a, nonceSize: a.NonceSize(), tagSize: a.Overhead()}
}

type adapter struct {
	aead      cipher.AEAD
	nonceSize int
	tagSize   int
}

func (g *adapter) NonceSize() int { return g.nonceSize }
func (g *adapter) Overhead() int  { return g.tagSize }

func (g *adapter) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	g.checkNonce(nonce)
	whole, out := extend(dst, len(plaintext), g.tagSize)
	g.SealSplit(out, nonce, plaintext, additionalData)
	return whole
}

func (g *adapter) SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte {
	g.checkNonce(nonce)
	n, ok := mem.TotalSize(pieces, math.MaxInt)
	if !ok {
		panic("aead: text too large")
	}
	whole, out := extend(dst, n, g.tagSize)
	if mem.InexactPieces(out, pieces) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	mem.Gather(out, pieces)
	g.seal(out, nonce, out[:n], additionalData)
	return whole
}

func (g *adapter) SealSplit(out, nonce, prefix, additionalData []byte) {
	g.checkNonce(nonce)
	n := len(out) - g.tagSize
	if len(prefix) > n {
		panic(prefixTooLong)
	}
	if mem.Inexact(out, prefix) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	if len(prefix) == n {
		// All text is in one place, so there is nothing to gather.
		g.seal(out, nonce, prefix, additionalData)
		return
	}
	copy(out, prefix)
	g.seal(out, nonce, out[:n], additionalData)
}

// seal seals text into out, which may hold the text already. If the AEAD panics, out
// holds zeros.
func (g *adapter) seal(out, nonce, text, additionalData []byte) {
	done := false
	defer func() {
		if !done {
			clear(out)
		}
	}()
	sealed := g.aead.Seal(out[:0:len(out)], nonce, text, additionalData)
	if !same(sealed, out) {
		panic(notInPlace)
	}
	done = true
}

func (g *adapter) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	g.checkNonce(nonce)
	n := len(ciphertext) - g.tagSize
	if n < 0 {
		return nil, ErrOpen
	}
	whole, out := extend(dst, n, 0)
	if mem.Inexact(ciphertext, out) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	if !g.open(out, nonce, ciphertext, additionalData) {
		return nil, ErrOpen
	}
	return whole, nil
}

func (g *adapter) OpenSplit(prefix, nonce, buf, additionalData []byte) error {
	g.checkNonce(nonce)
	n := len(buf) - g.tagSize
	if n < 0 {
		return ErrOpen
	}
	if len(prefix) > n {
		panic(prefixTooLong)
	}
	if mem.Inexact(buf, prefix) {
		panic(overlapText)
	}
	checkApart(buf, nonce, overlapNonce)
	checkApart(buf, additionalData, overlapAdditionalData)
	checkApart(prefix, nonce, overlapNonce)
	checkApart(prefix, additionalData, overlapAdditionalData)
	if len(prefix) == n {
		// No plaintext stays in buf, so it can go straight to prefix.
		if !g.open(prefix, nonce, buf, additionalData) {
			return ErrOpen
		}
		return nil
	}
	if !g.open(buf[:n], nonce, buf, additionalData) {
		clear(prefix)
		return ErrOpen
	}
	mem.MoveOut(prefix, buf[:len(prefix)])
	return nil
}

func (g *adapter) OpenScatter(pieces [][]byte, nonce, ciphertext, additionalData []byte) error {
	g.checkNonce(nonce)
	n := len(ciphertext) - g.tagSize
	if n < 0 {
		return ErrOpen
	}
	switch total, ok, inexact := mem.Measure(ciphertext, pieces, uint64(n)); {
	case !ok || total != n:
		panic("aead: pieces do not add up to the plaintext")
	case inexact:
		panic(overlapText)
	}
	if _, apart := mem.Apart(pieces); !apart {
		panic("aead: output pieces overlap each other")
	}
	checkApart(ciphertext, nonce, overlapNonce)
	checkApart(ciphertext, additionalData, overlapAdditionalData)
	if mem.AnyOverlap(nonce, pieces) {
		panic(overlapNonce)
	}
	if mem.AnyOverlap(additionalData, pieces) {
		panic(overlapAdditionalData)
	}
	if !g.open(ciphertext[:n], nonce, ciphertext, additionalData) {
		for _, p := range pieces {
			clear(p)
		}
		return ErrOpen
	}
	mem.Scatter(pieces, ciphertext[:n])
	return nil
}

// open opens ciphertext into out. Unless it returns true, out holds zeros, even
// if the AEAD panics.
func (g *adapter) open(out, nonce, ciphertext, additionalData []byte) (ok bool) {
	defer func() {
		if !ok {
			clear(out)
		}
	}()
	opened, err := g.aead.Open(out[:0:len(out)], nonce, ciphertext, additionalData)
	if err != nil {
		return false
	}
	if !same(opened, out) {
		panic(notInPlace)
	}
	return true
}

func (g *adapter) checkNonce(nonce []byte) {
	if len(nonce) != g.nonceSize {
		panic("aead: incorrect nonce size")
	}
}

const (
	overlapText           = "aead: invalid overlap of output and text"
	overlapNonce          = "aead: invalid overlap of output and nonce"
	overlapAdditionalData = "aead: invalid overlap of output and additional data"
	prefixTooLong         = "aead: prefix does not fit in front of the tag"
	notInPlace            = "aead: AEAD did not put its output where it was told"
)

// checkApart panics if a call that writes out would change what it reads at in.
func checkApart(out, in []byte, message string) {
	if mem.Overlap(out, in) {
		panic(message)
	}
}

// extend returns dst extended by n + overhead bytes, and those bytes.
func extend(dst []byte, n, overhead int) (whole, added []byte) {
	whole, added, ok := mem.Extend(dst, n, overhead)
	if !ok {
		panic("aead: output too large")
	}
	return whole, added
}

// same reports whether a and b are the same bytes of memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
