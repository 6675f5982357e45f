package gcm

import (
	"fmt"
	"unsafe"

	"example.com/splitseal/internal/asm"
	"example.com/splitseal/internal/mem"
)

// RecordKey is AES-GCM with one key and one IV, for protocols whose nonce is
// that IV with a 64-bit number XORed into its last eight bytes, as in TLS 1.3.
// Nonces have [NonceSize] bytes and tags [TagSize].
//
// All methods take the number, and additional data of 0 to 8 bytes, as integers, which
// a kernel loads at the width at which they were stored. Loading a whole nonce that was
// just written to memory in parts would have to wait for half the time that a short
// record takes.
//
// RecordKey does not watch the numbers: sealing twice with one number reveals
// the XOR of the two texts, and the hash key, with which anyone can forge.
// Protector in package aead owns its number and is what records should use.
//
// A RecordKey has one owner: its methods must not be called concurrently, which the
// race detector reports with every backend. A copy, which go vet reports, is the same
// RecordKey and is wiped with it.
type RecordKey struct {
	_     mem.NoCopy
	state *recordState
}

// A recordState is what a RecordKey and its copies have in common.
type recordState struct {
	ready bool // it has been made and not wiped
	key   recordKey
}

// A recordObject is a RecordKey and its state, which are allocated together: 504 bytes
// where there are kernels, in the allocator's size class of 512.
type recordObject struct {
	RecordKey
	recordState
}

// NewRecordKey returns AES-GCM with the given key and IV.
//
// The key must be 16, 24 or 32 bytes long, for AES-128, AES-192 or AES-256, and
// the IV 12 bytes; any other length is an error. Neither is kept as a slice.
func NewRecordKey(key, iv []byte) (*RecordKey, error) {
	k := new(recordObject)
	if err := k.init(key, iv); err != nil {
		return nil, err
	}
	k.state = &k.recordState
	return &k.RecordKey, nil
}

// Reset is [RecordKey.Wipe], and then gives k another key and IV, as [NewRecordKey] does,
// in the same memory: where there are kernels it allocates nothing and takes half as
// long as NewRecordKey.
//
// If it returns an error, k stays wiped, so that nothing is sealed with the key before
// under numbers that begin again. It panics if NewRecordKey did not make k.
func (k *RecordKey) Reset(key, iv []byte) error {
	if k.state == nil {
		panic("gcm: RecordKey not made by NewRecordKey")
	}
	k.Wipe()
	return k.state.init(key, iv)
}

// init sets up s, which is new or wiped.
func (s *recordState) init(key, iv []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(iv) != NonceSize {
		return errIVSize
	}
	if err := s.key.init(key, (*[NonceSize]byte)(iv)); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// Seal fills out with the ciphertext of text followed by the byte trailer,
// and the tag. out must be exactly len(text) + 1 + [TagSize] bytes long.
//
// text may be exactly out[:len(text)]; otherwise it must not overlap out.
//
// Seal uses the number seq, which must never be used for another seal with this
// key. It panics, before it writes anything, on a wrong length of out, more
// than [MaxTextSize] bytes of text and trailer, an invalid overlap, and after
// [RecordKey.Wipe].
func (k *RecordKey) Seal(out []byte, seq uint64, text []byte, trailer byte, ad AD) {
	key := k.check()
	if len(out)-1-TagSize != len(text) {
		panic("gcm: output is not the text, a byte and a tag long")
	}
	checkTextSize(uint64(len(out) - TagSize))
	if mem.Inexact(out, text) {
		panic(overlapText)
	}
	if mem.Race {
		mem.Reads(text)
		mem.Writes(out)
	}
	if kernel := key.kernel(); kernel != nil {
		sealTrailer(kernel, out, text, trailer, asm.NonceAt(seq), ad.block())
		return
	}
	key.seal(out, seq, text, trailer, ad)
}

// SealSplit fills out with the ciphertext of a text and its tag. The text is
// prefix followed by what out holds at out[len(prefix) : len(out)-TagSize],
// which is sealed in place.
//
// prefix may be exactly out[:len(prefix)]; otherwise it must not overlap out.
//
// SealSplit uses the number seq as [RecordKey.Seal] does. It panics, before it
// writes anything, when out is shorter than len(prefix) + [TagSize], and
// otherwise as Seal does.
func (k *RecordKey) SealSplit(out []byte, seq uint64, prefix []byte, ad AD) {
	key := k.check()
	checkSplitSize(len(out), len(prefix), TagSize)
	checkTextSize(uint64(len(out) - TagSize))
	if mem.Inexact(out, prefix) {
		panic(overlapText)
	}
	if mem.Race {
		mem.Reads(prefix)
		mem.Writes(out)
	}
	if kernel := key.kernel(); kernel != nil {
		sealSplit(kernel, out, prefix, asm.NonceAt(seq), ad.block())
		return
	}
	key.sealSplit(out, seq, prefix, ad)
}

// SealGather fills out with the ciphertext of the concatenation of pieces and
// its tag. out must be exactly as long as all pieces together + [TagSize].
//
// Pieces are only read and may overlap each other. A piece may be exactly where
// its ciphertext will be written; otherwise it must not overlap out.
//
// Warning: nobody may change the list while SealGather runs: see [AEAD.SealGather].
//
// SealGather uses the number seq and panics as [RecordKey.Seal] does.
func (k *RecordKey) SealGather(out []byte, seq uint64, pieces [][]byte, ad AD) {
	key := k.check()
	n, ok, inexact := mem.Measure(out, pieces, MaxTextSize)
	switch {
	case !ok:
		panic(textTooLarge)
	case n != len(out)-TagSize:
		panic("gcm: output is not the pieces and a tag long")
	case inexact:
		panic(overlapText)
	}
	if mem.Race {
		mem.Reads(pieces...)
		mem.Writes(out)
	}
	if kernel := key.kernel(); kernel != nil {
		sealPieces(kernel, out, pieces, asm.NonceAt(seq), ad.block())
		return
	}
	key.sealPieces(out, seq, pieces, ad)
}

// OpenSplit verifies buf, which is a ciphertext that ends with its tag. The
// first len(prefix) bytes of plaintext go to prefix; the rest replaces its
// ciphertext at buf[len(prefix) : len(buf)-TagSize].
//
// prefix may be exactly buf[:len(prefix)], or empty, and then all of buf is
// opened in place; otherwise it must not overlap buf. When prefix is
// elsewhere, buf[:len(prefix)] is working space: on return each of its bytes is
// unchanged or zero. The tag is not written.
//
// If buf does not verify, OpenSplit returns [ErrOpen], and prefix and
// buf[len(prefix) : len(buf)-TagSize] hold zeros. A buf shorter than the tag or
// longer than any ciphertext yields [ErrOpen] too, and then nothing has been
// written.
//
// OpenSplit panics, before it writes anything, when prefix is longer than the
// plaintext, on an invalid overlap, and after [RecordKey.Wipe].
func (k *RecordKey) OpenSplit(prefix []byte, seq uint64, buf []byte, ad AD) error {
	key := k.check()
	if !validCiphertextSize(len(buf), TagSize) {
		return ErrOpen
	}
	checkSplitSize(len(buf), len(prefix), TagSize)
	if mem.Inexact(buf, prefix) {
		panic(overlapText)
	}
	if mem.Race {
		mem.Reads(buf)
		mem.Writes(prefix, buf[:len(buf)-TagSize])
	}
	var ok bool
	if kernel := key.kernel(); kernel != nil {
		n, ad := asm.NonceAt(seq), ad.block()
		if len(prefix)+1 == len(buf)-TagSize {
			// A record without padding. openSplit has this case too, but is not
			// inlined: from here the kernel is one call nearer, which saves 40 of 430
			// instructions for 64 bytes (callgrind, aesni).
			ok, buf[len(prefix)] = kernel.OpenTrailer(unsafe.SliceData(prefix), unsafe.SliceData(buf), len(prefix), n, ad)
		} else {
			ok = openSplit(kernel, prefix, buf, n, ad)
		}
	} else {
		ok = key.open(prefix, seq, buf, ad)
	}
	if !ok {
		clear(prefix)
		clear(buf[len(prefix) : len(buf)-TagSize])
		return ErrOpen
	}
	return nil
}

// Wipe erases the key and the IV. Every later seal and open panics, unless
// [RecordKey.Reset] comes first.
//
// The portable backend can only leave its key to the garbage collector: crypto/cipher
// has no way to erase one, nor any copy on stacks. With the others, no call leaves a
// copy on the stack or in registers. Copies of registers that the system made when a
// signal arrived during a call are not reached.
func (k *RecordKey) Wipe() {
	if s := k.state; s != nil {
		s.ready = false
		s.key.wipe()
	}
}

// Backend returns the name of the backend that this key uses: "avx512",
// "vaes", "aesni" or "portable". It is fixed when the key is set up.
func (k *RecordKey) Backend() string {
	if k.state == nil {
		return portable
	}
	return k.state.key.backend()
}

// Format prints the name of the backend, whatever the verb, and no key.
//
// fmt calls it for a *RecordKey. For a copy, which go vet reports, fmt prints an
// address, but the key itself if the verb does not fit a pointer, as %s does not.
func (k *RecordKey) Format(s fmt.State, verb rune) {
	fmt.Fprintf(s, "gcm.RecordKey(%s)", k.Backend())
}

// check returns the key for a call, or panics if there is none.
func (k *RecordKey) check() *recordKey {
	s := k.state
	if s == nil || !s.ready {
		panic("gcm: RecordKey was wiped or not made by NewRecordKey")
	}
	if mem.Race {
		// So that the detector sees two calls at once. With kernels they do no harm,
		// and tests pass: on another machine the portable backend has one nonce for
		// both.
		s.ready = true
	}
	return &s.key
}

// AD is additional data of 0 to 8 bytes, as [ADOf] makes it from an integer. The zero
// value is no additional data.
//
// It is a type of its own so that it cannot be passed as the number: with number and
// additional data swapped, all records with the same header would be sealed under the
// same nonce.
type AD struct {
	first uint64 // the data, from the highest byte on
	bits  uint64 // its size
}

// ADOf returns the size low-order bytes of value, most significant first, as additional
// data; the header of a TLS 1.3 record of n bytes is ADOf(0x1703030000+n, 5). It panics
// unless size is 0 to 8 and value fits in size bytes: otherwise its highest bytes,
// beginning with a header's content type, would not be authenticated.
func ADOf(value uint64, size int) AD {
	if uint(size) > maxADSize {
		panic("gcm: additional data must have 0 to 8 bytes")
	}
	if value>>(8*uint(size)) != 0 {
		panic("gcm: additional data is longer than its size")
	}
	ad := asm.ADOf(value, size)
	return AD{ad.Hi, ad.Bits}
}

// block returns ad in the form that kernels take.
func (ad AD) block() asm.AD { return asm.AD{Hi: ad.first, Bits: ad.bits} }

// maxADSize is the size of the integer that carries additional data.
const maxADSize = 8
