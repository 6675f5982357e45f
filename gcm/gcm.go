// Package gcm provides AES-GCM over text that need not be contiguous.
//
// [New] returns an [AEAD], which is a [crypto/cipher.AEAD] and can be used like the one
// from crypto/cipher. It seals and opens in four more ways:
//
//   - gather seal: the text is a list of pieces;
//   - split seal: the first part of the text is read from elsewhere, the rest
//     is already in the output;
//   - split open: the first part of the plaintext goes elsewhere, the rest is
//     opened in place;
//   - scatter open: the plaintext goes to a list of buffers.
//
// All of them produce and accept exactly what [AEAD.Seal] produces for the same
// text in one piece.
//
// [RecordKey] is for protocols like TLS 1.3, whose nonces are an IV XOR the number of
// the record. It has one owner, takes that number and the additional data as integers,
// and is faster for short texts. Package aead keeps track of the number, and package
// record makes TLS records: most programs need one of those.
//
// # Overlap
//
// Output may go exactly where its text is read from, which seals or opens the
// text in place; otherwise output must share no memory with text. It must never
// share memory with the nonce or the additional data. Calls that break these
// rules panic before they write anything.
//
// While a call runs, nobody may change its inputs, least of all a list of pieces,
// because kernels walk the list themselves and would use memory that was never checked.
// An open may read ciphertext twice, to verify it and to decrypt it; what changes in
// between is decrypted without having been verified. So ciphertext in memory that a
// peer can write to must be copied first. Nor may anybody read or change the outputs of
// a running call: an open may put plaintext there before it has verified it. When an
// open returns, its outputs hold verified plaintext or zeros. The race detector knows
// what calls read and write, kernels included, and reports violations of these rules
// within the process.
//
// # Backends
//
// On amd64 a key uses the best kernels that suit the processor; everywhere else, and
// under the purego build tag, it uses crypto/cipher. A key keeps the backend that was
// selected when it was set up; Backend names it. The first key of a process puts the
// selected kernels through a known-answer test, which takes some 30 µs; if they fail
// it, the next best are used. The environment variable SPLITSEAL_CPU removes backends,
// as in SPLITSEAL_CPU=-vaes. If it contains an unknown word, every constructor returns
// an error.
//
// # Memory
//
// Once its pools are warm, a call allocates only to grow a dst that is too short, to
// open to more than 4096 buffers that are not in order of address, and for texts of
// more than 71 KiB whose tag is shorter than [TagSize]. Where there are kernels, a key
// allocates once more, a table of 2184 bytes: at its second text longer than 144 bytes
// (96 with some kernels), or at its first longer than 64 KiB.
//
// # FIPS 140-3
//
// With GODEBUG=fips140=only every constructor returns an error, as do those of
// crypto/cipher that take the caller's nonces. With fips140=on they work, but
// the kernels are not part of the Go Cryptographic Module.
//
// AES-GCM is specified in NIST SP 800-38D.
package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"errors"
	"fmt"
	"unsafe"

	"example.com/splitseal/internal/asm"
	"example.com/splitseal/internal/mem"
)

// Sizes in bytes, from NIST SP 800-38D, Section 5.2.1.
const (
	// NonceSize is the size of a nonce, except for keys made by [NewWithNonceSize].
	NonceSize = 12

	// TagSize is the size of a tag, except for keys made by [NewWithTagSize].
	TagSize = 16

	// MaxTextSize is the size of the longest text that one nonce can seal,
	// 2³²−2 blocks of 16 bytes.
	MaxTextSize uint64 = 1<<36 - 32

	minTagSize = 12
)

// ErrOpen says that a ciphertext was not sealed with this key, nonce and
// additional data. It is the only error of the open calls and carries no detail.
//
// Its text names the module, not this package, because package aead uses the same
// value, and its suites need not be AES-GCM.
var ErrOpen = errors.New("splitseal: message authentication failed")

var (
	errNonceSize = errors.New("gcm: nonce size must be at least 1")
	errTagSize   = errors.New("gcm: tag size must be 12 to 16")
	errIVSize    = errors.New("gcm: IV size must be 12")
	errFIPS      = errors.New("gcm: AES-GCM with the caller's nonces is not allowed in FIPS 140-only mode")
)

var _ cipher.AEAD = (*AEAD)(nil)

// AEAD is AES-GCM with one key. Only the constructors of this package make
// usable values. All methods may be called concurrently.
//
// It has no method that erases the key: a concurrent call could then seal under
// a key of zeros. [RecordKey], which has one owner, does.
type AEAD struct {
	nonceSize int
	tagSize   int
	key       *key // a pointer: fmt would print a struct, within whatever holds an AEAD
}

// An aeadObject is an AEAD and its key, which are allocated together: 512 bytes where
// there are kernels, a size class of the allocator.
type aeadObject struct {
	AEAD
	memory key
}

// New returns AES-GCM with nonces of [NonceSize] and tags of [TagSize].
//
// The key must be 16, 24 or 32 bytes long, for AES-128, AES-192 or AES-256; any
// other length is an error. New does not keep it.
func New(key []byte) (*AEAD, error) {
	return newAEAD(key, NonceSize, TagSize)
}

// NewWithNonceSize is [New] for nonces of nonceSize bytes, at least 1. Sizes
// other than [NonceSize] are served by crypto/cipher.
//
// Use it only where another system dictates the size: other sizes are slower,
// and nonces that are hashed can collide.
func NewWithNonceSize(key []byte, nonceSize int) (*AEAD, error) {
	return newAEAD(key, nonceSize, TagSize)
}

// NewWithTagSize is [New] for tags of tagSize bytes, 12 to 16. Sizes other
// than [TagSize] are served by crypto/cipher.
//
// Use it only where another system dictates the size: shorter tags are easier
// to forge.
func NewWithTagSize(key []byte, tagSize int) (*AEAD, error) {
	return newAEAD(key, NonceSize, tagSize)
}

func newAEAD(key []byte, nonceSize, tagSize int) (*AEAD, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if nonceSize < 1 {
		return nil, errNonceSize
	}
	if tagSize < minTagSize || tagSize > TagSize {
		return nil, errTagSize
	}
	a := &aeadObject{AEAD: AEAD{nonceSize: nonceSize, tagSize: tagSize}}
	a.key = &a.memory
	if err := a.key.init(key, nonceSize, tagSize); err != nil {
		return nil, err
	}
	return &a.AEAD, nil
}

// Backend returns the name of the backend that new keys use, "avx512", "vaes", "aesni"
// or "portable", for logs and metrics. It is "none" if no key can be made, because
// SPLITSEAL_CPU contains an unknown word or because of GODEBUG=fips140=only. What a key
// uses is fixed when it is set up: see [AEAD.Backend]. Backend may be called
// concurrently.
func Backend() string {
	if checkProcess() != nil {
		return "none"
	}
	return asm.Selected().String()
}

// checkProcess returns why this process can have no keys.
func checkProcess() error {
	if fips140.Enforced() {
		return errFIPS
	}
	return asm.Err()
}

// checkKey makes every backend accept the same keys in the same modes.
func checkKey(key []byte) error {
	if err := checkProcess(); err != nil {
		return err
	}
	switch len(key) {
	case 16, 24, 32:
		return nil
	}
	return aes.KeySizeError(len(key))
}

// NonceSize returns the size in bytes of the nonces of this key.
func (a *AEAD) NonceSize() int { return a.nonceSize }

// Overhead returns the size in bytes of the tag, which is what sealing adds.
func (a *AEAD) Overhead() int { return a.tagSize }

// Backend returns the name of the backend that this key uses: "avx512",
// "vaes", "aesni" or "portable". It is fixed when the key is set up.
func (a *AEAD) Backend() string {
	if a.key == nil {
		return portable
	}
	return a.key.backend()
}

// Format prints the name of the backend, whatever the verb, and no key.
//
// fmt does not call it for unexported fields of what it prints. There fmt prints the
// address of the key, but the key itself if the field is an AEAD, not an *AEAD, and the
// verb does not fit a pointer, as %s does not.
func (a AEAD) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, "gcm.AEAD(%s)", a.Backend())
}

// Seal appends the ciphertext of plaintext and its tag to dst and returns the
// extended slice. It adds len(plaintext) + [AEAD.Overhead] bytes.
//
// To seal in place, pass plaintext[:0] as dst. Otherwise the bytes that are
// added must not overlap plaintext, and they must never overlap nonce or
// additionalData. If dst lacks capacity a larger slice is allocated.
//
// Seal panics, before it writes anything, on a nonce that is not
// [AEAD.NonceSize] bytes long, on a plaintext longer than [MaxTextSize] and on
// an invalid overlap. It may be called concurrently. No nonce may be used twice
// with one key.
func (a *AEAD) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	a.checkNonce(nonce)
	checkTextSize(uint64(len(plaintext)))
	ret, out := extend(dst, len(plaintext), a.tagSize)
	if mem.Inexact(out, plaintext) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	if mem.Race {
		mem.Reads(plaintext, additionalData)
		mem.Writes(out)
	}
	if k := a.key.kernel(); k != nil {
		sealWhole(k, out, plaintext, nonceOf(nonce), k.AD(additionalData))
		return ret
	}
	a.key.seal(out, nonce, plaintext, additionalData)
	return ret
}

// SealGather appends the ciphertext of the concatenation of pieces and its tag
// to dst and returns the extended slice. It adds the sum of the lengths of
// pieces + [AEAD.Overhead] bytes. Pieces, or the list, may be empty.
//
// Pieces are only read and may overlap each other. A piece may be exactly where
// its ciphertext will be written; otherwise the bytes that are added must not
// overlap it. They must never overlap nonce or additionalData. If dst lacks
// capacity a larger slice is allocated.
//
// Warning: nobody may change the list while SealGather runs, least of all another
// goroutine. Kernels walk the list in place, with lengths that were checked before: if
// it changes, they read and write memory that is not theirs, and no panic reports it.
//
// SealGather panics as [AEAD.Seal] does. It may be called concurrently. No
// nonce may be used twice with one key.
func (a *AEAD) SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte {
	a.checkNonce(nonce)
	n, ok, inexact := mem.Measure(dst[len(dst):cap(dst)], pieces, MaxTextSize)
	if !ok {
		panic(textTooLarge)
	}
	ret, out := extend(dst, n, a.tagSize)
	// The inexact piece may lie past the output, or dst was too short.
	if inexact && mem.InexactPieces(out, pieces) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	if mem.Race {
		mem.Reads(pieces...)
		mem.Reads(additionalData)
		mem.Writes(out)
	}
	if k := a.key.kernel(); k != nil {
		sealPieces(k, out, pieces, nonceOf(nonce), k.AD(additionalData))
		return ret
	}
	a.key.sealPieces(out, nonce, pieces, additionalData)
	return ret
}

// SealSplit fills out with the ciphertext of a text and its tag. The text is
// prefix followed by what out holds at out[len(prefix) : len(out)-Overhead],
// which is sealed in place.
//
// prefix may be exactly out[:len(prefix)]; otherwise it must not overlap out.
// nonce and additionalData must never overlap out. prefix may be empty.
//
// SealSplit panics as [AEAD.Seal] does, and also when out is shorter than
// len(prefix) + [AEAD.Overhead]. It may be called concurrently. No nonce may be
// used twice with one key.
func (a *AEAD) SealSplit(out, nonce, prefix, additionalData []byte) {
	a.checkNonce(nonce)
	checkSplitSize(len(out), len(prefix), a.tagSize)
	checkTextSize(uint64(len(out) - a.tagSize))
	if mem.Inexact(out, prefix) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	if mem.Race {
		mem.Reads(prefix, additionalData)
		mem.Writes(out)
	}
	if k := a.key.kernel(); k != nil {
		n, ad := nonceOf(nonce), k.AD(additionalData)
		if len(prefix)+1 == len(out)-TagSize {
			// A record without padding. sealSplit has this case too, but is not inlined.
			k.SealTrailer(unsafe.SliceData(out), unsafe.SliceData(prefix), len(prefix), out[len(prefix)], n, ad)
		} else {
			sealSplit(k, out, prefix, n, ad)
		}
		return
	}
	a.key.seal(out, nonce, prefix, additionalData)
}

// Open verifies ciphertext, which ends with its tag, appends its plaintext to
// dst and returns the extended slice. It adds len(ciphertext) - [AEAD.Overhead]
// bytes.
//
// To open in place, pass ciphertext[:0] as dst. Otherwise the bytes that are
// added must not overlap ciphertext, and they must never overlap nonce or
// additionalData. If dst lacks capacity a larger slice is allocated.
//
// If ciphertext does not verify, Open returns nil and [ErrOpen], and the bytes
// that it would have added hold zeros if dst had room for them. A ciphertext
// shorter than the tag or longer than any that Seal makes yields [ErrOpen] too,
// and then nothing has been written.
//
// Open panics, before it writes anything, on a nonce that is not
// [AEAD.NonceSize] bytes long and on an invalid overlap. It may be called
// concurrently.
func (a *AEAD) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	a.checkNonce(nonce)
	if !validCiphertextSize(len(ciphertext), a.tagSize) {
		return nil, ErrOpen
	}
	ret, out := extend(dst, len(ciphertext)-a.tagSize, 0)
	if mem.Inexact(ciphertext, out) {
		panic(overlapText)
	}
	checkApart(out, nonce, overlapNonce)
	checkApart(out, additionalData, overlapAdditionalData)
	if mem.Race {
		mem.Reads(ciphertext, additionalData)
		mem.Writes(out)
	}
	var ok bool
	if k := a.key.kernel(); k != nil {
		ok = k.Open(unsafe.SliceData(out), unsafe.SliceData(ciphertext), len(out), nonceOf(nonce), k.AD(additionalData))
	} else {
		ok = a.key.open(out, nonce, ciphertext, additionalData)
	}
	if !ok {
		clear(out)
		return nil, ErrOpen
	}
	return ret, nil
}

// OpenSplit verifies buf, which is a ciphertext that ends with its tag. The
// first len(prefix) bytes of plaintext go to prefix; the rest replaces its
// ciphertext at buf[len(prefix) : len(buf)-Overhead].
//
// prefix may be exactly buf[:len(prefix)], or empty, and then all of buf is
// opened in place; otherwise it must not overlap buf. Neither prefix nor buf
// may overlap nonce or additionalData. When prefix is elsewhere,
// buf[:len(prefix)] is working space: on return each of its bytes is unchanged
// or zero. The tag is not written.
//
// If buf does not verify, OpenSplit returns [ErrOpen], and prefix and
// buf[len(prefix) : len(buf)-Overhead] hold zeros. So a buffer cannot be tried
// again with another key. A buf shorter than the tag or longer than any
// ciphertext yields [ErrOpen] too, and then nothing has been written.
//
// OpenSplit panics, before it writes anything, on a nonce that is not
// [AEAD.NonceSize] bytes long, when prefix is longer than the plaintext, and on
// an invalid overlap. It may be called concurrently.
func (a *AEAD) OpenSplit(prefix, nonce, buf, additionalData []byte) error {
	a.checkNonce(nonce)
	if !validCiphertextSize(len(buf), a.tagSize) {
		return ErrOpen
	}
	checkSplitSize(len(buf), len(prefix), a.tagSize)
	if mem.Inexact(buf, prefix) {
		panic(overlapText)
	}
	checkApart(buf, nonce, overlapNonce)
	checkApart(buf, additionalData, overlapAdditionalData)
	checkApart(prefix, nonce, overlapNonce)
	checkApart(prefix, additionalData, overlapAdditionalData)
	if mem.Race {
		mem.Reads(buf, additionalData)
		mem.Writes(prefix, buf[:len(buf)-a.tagSize])
	}
	var ok bool
	if k := a.key.kernel(); k != nil {
		ok = openSplit(k, prefix, buf, nonceOf(nonce), k.AD(additionalData))
	} else {
		ok = a.key.open(prefix, nonce, buf, additionalData)
	}
	if !ok {
		clear(prefix)
		clear(buf[len(prefix) : len(buf)-a.tagSize])
		return ErrOpen
	}
	return nil
}

// OpenScatter verifies ciphertext, which ends with its tag, and fills pieces,
// one after the other, with its plaintext. The lengths of pieces must add up
// to len(ciphertext) - [AEAD.Overhead]. Pieces, or the list, may be empty.
//
// A piece may be exactly where its ciphertext is; otherwise it must not overlap
// ciphertext. Pieces must not overlap each other, and neither they nor
// ciphertext may overlap nonce or additionalData. Those parts of ciphertext
// that are not pieces are working space: on return each of their bytes is
// unchanged or zero. The tag is not written.
//
// Warning: nobody may change the list while OpenScatter runs: see [AEAD.SealGather].
//
// If ciphertext does not verify, OpenScatter returns [ErrOpen] and all pieces
// hold zeros. A ciphertext shorter than the tag or longer than any that Seal
// makes yields [ErrOpen] too, and then nothing has been written.
//
// OpenScatter panics, before it writes anything, on a nonce that is not
// [AEAD.NonceSize] bytes long, when the lengths do not add up, and on an
// invalid overlap. It may be called concurrently.
func (a *AEAD) OpenScatter(pieces [][]byte, nonce, ciphertext, additionalData []byte) error {
	a.checkNonce(nonce)
	if !validCiphertextSize(len(ciphertext), a.tagSize) {
		return ErrOpen
	}
	n, ok, inexact := mem.Measure(ciphertext, pieces, MaxTextSize)
	switch {
	case !ok || n != len(ciphertext)-a.tagSize:
		panic("gcm: pieces do not add up to the plaintext")
	case inexact:
		panic(overlapText)
	}
	around, apart := mem.Apart(pieces)
	if !apart {
		panic("gcm: output pieces overlap each other")
	}
	checkApart(ciphertext, nonce, overlapNonce)
	checkApart(ciphertext, additionalData, overlapAdditionalData)
	if around.Overlaps(nonce) && mem.AnyOverlap(nonce, pieces) {
		panic(overlapNonce)
	}
	if around.Overlaps(additionalData) && mem.AnyOverlap(additionalData, pieces) {
		panic(overlapAdditionalData)
	}
	if mem.Race {
		mem.Reads(ciphertext, additionalData)
		mem.Writes(ciphertext[:n])
		mem.Writes(pieces...)
	}
	if k := a.key.kernel(); k != nil {
		ok = openPieces(k, pieces, ciphertext, nonceOf(nonce), k.AD(additionalData))
	} else {
		ok = a.key.openPieces(pieces, nonce, ciphertext, additionalData)
	}
	if !ok {
		for _, p := range pieces {
			clear(p)
		}
		return ErrOpen
	}
	return nil
}

func (a *AEAD) checkNonce(nonce []byte) {
	if len(nonce) != a.nonceSize || a.nonceSize == 0 { // 0 if no constructor made a
		panic("gcm: incorrect nonce size")
	}
}

const (
	textTooLarge          = "gcm: text too large"
	overlapText           = "gcm: invalid overlap of output and text"
	overlapNonce          = "gcm: invalid overlap of output and nonce"
	overlapAdditionalData = "gcm: invalid overlap of output and additional data"
)

// checkApart panics if a call that writes out would change what it reads at
// in. It is small enough to be inlined: a single function for nonce and
// additional data was not, and cost a seal 3 to 6 ns.
func checkApart(out, in []byte, message string) {
	if mem.Overlap(out, in) {
		panic(message)
	}
}

func checkTextSize(n uint64) {
	if n > MaxTextSize {
		panic(textTooLarge)
	}
}

func validCiphertextSize(n, tagSize int) bool {
	return n >= tagSize && uint64(n-tagSize) <= MaxTextSize
}

// checkSplitSize panics unless n bytes hold a prefix of the given size and a tag.
func checkSplitSize(n, prefixSize, tagSize int) {
	// n - tagSize cannot overflow; prefixSize + tagSize could.
	if prefixSize > n-tagSize {
		panic("gcm: prefix does not fit in front of the tag")
	}
}

// extend returns dst extended by textSize + tagSize bytes, and those bytes.
func extend(dst []byte, textSize, tagSize int) (whole, added []byte) {
	whole, added, ok := mem.Extend(dst, textSize, tagSize)
	if !ok {
		panic("gcm: output too large")
	}
	return whole, added
}
