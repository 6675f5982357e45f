package aead

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/mem"
)

// ErrSequenceExhausted says that the sequence number has reached 2⁶⁴−1, which
// is never used, so that it cannot wrap. The Protector refuses every later seal
// and open; a new key is needed.
var ErrSequenceExhausted = errors.New("aead: sequence number exhausted")

// Protector protects the records of one direction under one key: it holds the
// suite, the write key, the write IV and the sequence number. The per-record
// nonce is the write IV XOR the sequence number, so no two seals of one
// Protector share a nonce. Two Protectors with the same keys do not know of
// each other.
//
// A Protector does not enforce the suite's [Suite.RecordLimit] and seals until
// its numbers run out. Whoever makes the records enforces it, as record.Sealer
// does.
//
// All methods take the record header, which is the additional data, as an integer: its
// five bytes are the low 40 bits, with the content type highest.
//
// A Protector has one owner and serves one direction, for sealing or for
// opening: its methods must not be called concurrently. Two seals at once can use the
// same number, and an open during a seal can change the nonce that the seal is about to
// use. A copy is the same Protector: it shares number and keys with the original, and
// restoring a copy restores no number. go vet reports copies nevertheless, because a
// copy suggests an owner of its own.
//
// See RFC 9846, Sections 5.2 and 5.3.
type Protector struct {
	_     mem.NoCopy
	state *protectorState
}

// A protectorState is what a Protector and its copies have in common.
type protectorState struct {
	suite   *Suite
	seq     uint64
	tagSize int // of suite
	stage   stage

	// One of the two is set; after Wipe, neither is.
	record *gcm.RecordKey
	other  *otherKey
}

// A stage says whether there is a key, and whether it can be used.
type stage uint8

const (
	keyless stage = iota // not made, or wiped
	ready
	busy // a call of an otherKey is under way
)

// An otherKey is an AEAD that takes nonce and additional data as slices. The arrays are
// here because arguments of interface methods escape. One call uses them at a time:
// while another module's AEAD runs, the Protector is busy.
type otherKey struct {
	aead   Gatherer
	iv     [IVSize]byte
	nonce  [IVSize]byte
	header [8]byte
}

// NewProtector returns a Protector at sequence number 0. keys must have the
// suite's sizes; they are not kept. NewProtector returns an error if the sizes
// differ, or if the suite's AEAD is not allowed. It panics as [Suite.New] does.
//
// RFC 9846, Section 5.3: "Each sequence number is set to zero at the beginning of a
// connection and whenever the key is changed; the first record transmitted under a
// particular traffic key MUST use sequence number 0."
func NewProtector(s *Suite, keys TrafficKeys) (*Protector, error) {
	return ResumeProtector(s, keys, 0)
}

// ResumeProtector returns a Protector that continues at sequence number seq,
// where another one with the same keys has stopped for good. It is the only way
// to start above zero, and using it twice, or while the other one is still in
// use, repeats nonces. In all else, errors and panics included, it is
// [NewProtector].
func ResumeProtector(s *Suite, keys TrafficKeys, seq uint64) (*Protector, error) {
	s.check()
	if len(keys.Key) != s.p.KeySize {
		return nil, errKeySize
	}
	if len(keys.IV) != IVSize {
		return nil, errIVSize
	}
	p := &struct { // one object, 64 bytes of memory
		Protector
		protectorState
	}{protectorState: protectorState{suite: s, tagSize: s.p.TagSize, seq: seq}}
	var err error
	if s.recordKey {
		p.record, err = gcm.NewRecordKey(keys.Key, keys.IV)
	} else {
		p.other = &otherKey{iv: [IVSize]byte(keys.IV)}
		p.other.aead, err = s.New(keys.Key)
	}
	if err != nil {
		return nil, err
	}
	p.stage = ready
	p.state = &p.protectorState
	return &p.Protector, nil
}

// Suite returns the suite.
func (p *Protector) Suite() *Suite {
	if p.state == nil {
		return nil
	}
	return p.state.suite
}

// Seq returns the sequence number of the next record.
func (p *Protector) Seq() uint64 {
	if p.state == nil {
		return 0
	}
	return p.state.seq
}

// Overhead returns the size of the tag in bytes, which is what sealing adds to
// the inner plaintext.
func (p *Protector) Overhead() int {
	if p.state == nil {
		return 0
	}
	return p.state.tagSize
}

// Format prints the suite's name, whatever the verb, and no key.
func (p *Protector) Format(s fmt.State, verb rune) {
	name := "not made by NewProtector"
	if p.state != nil {
		name = p.state.suite.p.Name
	}
	fmt.Fprintf(s, "aead.Protector(%s)", name)
}

// Seal fills out, the body of a record without padding, with the ciphertext of
// content followed by contentType, and the tag. out must be exactly
// len(content) + 1 + [Protector.Overhead] bytes long, and at most 65535.
//
// content may be exactly out[:len(content)]; otherwise it must not overlap out.
//
// Seal uses the current sequence number and then adds one; the number is spent
// before out is written, so a panic in the AEAD does not bring it back. Such a panic
// leaves zeros in out, where content may have been; a fault in this module's kernels,
// on memory that is unmapped during the call, need not. Seal returns
// [ErrSequenceExhausted] when there is no number left, and panics on a wrong length of
// out, on a header of more than 40 bits, on an invalid overlap, after [Protector.Wipe],
// and when the Protector's own AEAD calls it; in all these cases nothing has changed.
//
// RFC 9846, Section 5.3: "If a TLS implementation would need to wrap a sequence
// number, it MUST either rekey ([Section 4.7.3]) or terminate the connection."
func (p *Protector) Seal(out, content []byte, contentType byte, header uint64) error {
	s := p.check(out, header)
	if len(out)-1-s.tagSize != len(content) {
		panic("aead: output is not the content, a byte and a tag long")
	}
	if mem.Inexact(out, content) {
		panic(overlapText)
	}
	seq, err := s.spend()
	if err != nil {
		return err
	}
	if s.record != nil {
		s.record.Seal(out, seq, content, contentType, gcm.ADOf(header, headerSize))
		return nil
	}
	out[len(content)] = contentType
	s.sealSplit(out, content, seq, header)
	return nil
}

// SealSplit fills out, the body of a record, with the ciphertext of an inner
// plaintext and its tag. The inner plaintext is prefix followed by what out
// holds at out[len(prefix) : len(out)-Overhead]: content type, padding, and
// any content already there. out must be at most 65535 bytes long.
//
// prefix may be exactly out[:len(prefix)]; otherwise it must not overlap out.
//
// SealSplit treats the sequence number, reports errors and panics as
// [Protector.Seal] does; it also panics when out is shorter than len(prefix) +
// [Protector.Overhead].
func (p *Protector) SealSplit(out, prefix []byte, header uint64) error {
	s := p.check(out, header)
	if len(prefix) > len(out)-s.tagSize {
		panic(prefixTooLong)
	}
	if mem.Inexact(out, prefix) {
		panic(overlapText)
	}
	seq, err := s.spend()
	if err != nil {
		return err
	}
	if s.record != nil {
		s.record.SealSplit(out, seq, prefix, gcm.ADOf(header, headerSize))
		return nil
	}
	s.sealSplit(out, prefix, seq, header)
	return nil
}

// SealGather fills out, the body of a record, with the ciphertext of the
// concatenation of pieces, which is the inner plaintext, and its tag. out must
// be exactly as long as all pieces together + [Protector.Overhead], and at most
// 65535 bytes.
//
// Pieces are only read and may overlap each other. A piece may be exactly where
// its ciphertext will be written; otherwise it must not overlap out.
//
// Warning: nobody may change the list while SealGather runs: see
// [gcm.AEAD.SealGather].
//
// SealGather treats the sequence number, reports errors and panics as [Protector.Seal]
// does; it also panics when the AEAD puts its output elsewhere, and then out holds
// zeros and the number is spent.
func (p *Protector) SealGather(out []byte, pieces [][]byte, header uint64) error {
	s := p.check(out, header)
	n := len(out) - s.tagSize
	switch total, ok, inexact := mem.Measure(out, pieces, maxBodySize); {
	case !ok || total != n:
		panic("aead: output is not the pieces and a tag long")
	case inexact:
		panic(overlapText)
	}
	seq, err := s.spend()
	if err != nil {
		return err
	}
	if s.record != nil {
		s.record.SealGather(out, seq, pieces, gcm.ADOf(header, headerSize))
		return nil
	}
	s.sealGather(out, pieces, seq, header)
	return nil
}

// OpenSplit verifies body, the body of a record, which ends with its tag. The first
// len(prefix) bytes of the inner plaintext go to prefix; the rest replaces its
// ciphertext at body[len(prefix) : len(body)-Overhead].
//
// prefix may be exactly body[:len(prefix)], or empty, and then all of body is
// opened in place; otherwise it must not overlap body. When prefix is
// elsewhere, body[:len(prefix)] is working space: on return each of its bytes
// is unchanged or zero. The tag is not written.
//
// OpenSplit uses the current sequence number, and adds one only if body verifies. If it
// does not, OpenSplit returns [ErrOpen], and prefix and body[len(prefix) :
// len(body)-Overhead] hold zeros. A body shorter than a tag yields ErrOpen too; then,
// and when OpenSplit returns [ErrSequenceExhausted], nothing has been written. A panic
// in the AEAD leaves the number as it was, and zeros in prefix and body; a fault in this
// module's kernels, on memory that is unmapped during the call, need not. OpenSplit
// panics, before it writes anything, when prefix is longer than the inner plaintext,
// when body is longer than 65535 bytes, on a header of more than 40 bits, on an invalid
// overlap, after [Protector.Wipe], and when the Protector's own AEAD calls it.
func (p *Protector) OpenSplit(prefix, body []byte, header uint64) error {
	s := p.check(body, header)
	n := len(body) - s.tagSize
	if n < 0 {
		return ErrOpen
	}
	if len(prefix) > n {
		panic(prefixTooLong)
	}
	if mem.Inexact(body, prefix) {
		panic(overlapText)
	}
	seq := s.seq
	if seq == math.MaxUint64 {
		return ErrSequenceExhausted
	}
	var err error
	if s.record != nil {
		err = s.record.OpenSplit(prefix, seq, body, gcm.ADOf(header, headerSize))
	} else {
		err = s.open(prefix, body, seq, header)
	}
	if err != nil {
		return ErrOpen
	}
	s.seq = seq + 1
	return nil
}

// Wipe erases the key, as far as its AEAD can, and the IV. Every later seal and open
// panics, on copies too. See [gcm.RecordKey.Wipe] for what it does not reach; AEADs
// outside this module can only be left to the garbage collector.
//
// Wipe panics, and erases nothing, when the Protector's own AEAD calls it.
func (p *Protector) Wipe() {
	s := p.state
	if s == nil {
		return
	}
	if s.stage == busy {
		panic(s.refusal())
	}
	if s.record != nil {
		s.record.Wipe()
	}
	if s.other != nil {
		*s.other = otherKey{}
	}
	s.stage = keyless
	s.record = nil
	s.other = nil
}

// spend returns the sequence number of the seal that is about to write. Whatever
// becomes of that seal, no other gets the number. An open, which may be tried again
// with another body, does not call spend: it adds one once its body has verified.
func (s *protectorState) spend() (seq uint64, err error) {
	seq = s.seq
	if seq == math.MaxUint64 {
		return 0, ErrSequenceExhausted
	}
	s.seq = seq + 1
	return seq, nil
}

// check returns the state for a call, or panics if the call is not allowed.
func (p *Protector) check(body []byte, header uint64) *protectorState {
	s := p.state
	if s == nil || s.stage != ready {
		panic(s.refusal())
	}
	if len(body) > maxBodySize {
		panic("aead: record body too large")
	}
	if header>>(8*headerSize) != 0 {
		panic("aead: header has more than 40 bits")
	}
	return s
}

// refusal says why no call is possible now.
func (s *protectorState) refusal() string {
	if s != nil && s.stage == busy {
		return "aead: Protector called by its own AEAD, or concurrently"
	}
	return "aead: Protector was wiped or not made by NewProtector"
}

// sealSplit, sealGather and open are SealSplit, SealGather and OpenSplit of an AEAD
// that need not be this module's. If the AEAD panics, no unsealed or unverified text
// stays in the output. If it calls the Protector that it works for, that call is
// refused: it would change the nonce and the header that the AEAD is about to use.
//
// A RecordKey does neither. Once it has begun, it does not panic unless
// debug.SetPanicOnFault makes it, and a deferred call would take a tenth of a short
// record's time.
func (s *protectorState) sealSplit(out, prefix []byte, seq, header uint64) {
	done := false
	s.stage = busy
	defer s.finish(&done, out, nil)
	k := s.other
	k.aead.SealSplit(out, k.nonceFor(seq), prefix, k.additionalData(header))
	done = true
}

func (s *protectorState) sealGather(out []byte, pieces [][]byte, seq, header uint64) {
	done := false
	s.stage = busy
	defer s.finish(&done, out, nil)
	k := s.other
	sealed := k.aead.SealGather(out[:0:len(out)], k.nonceFor(seq), pieces, k.additionalData(header))
	if !same(sealed, out) {
		panic(notInPlace)
	}
	done = true
}

func (s *protectorState) open(prefix, body []byte, seq, header uint64) (err error) {
	done := false
	s.stage = busy
	defer s.finish(&done, prefix, body)
	k := s.other
	err = k.aead.OpenSplit(prefix, k.nonceFor(seq), body, k.additionalData(header))
	done = true
	return err
}

// finish ends a call of one of the three above. If the call is not done, a and
// b are cleared.
func (s *protectorState) finish(done *bool, a, b []byte) {
	s.stage = ready
	if !*done {
		clear(a)
		clear(b)
	}
}

func (k *otherKey) nonceFor(seq uint64) []byte {
	k.nonce = k.iv
	tail := k.nonce[IVSize-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^seq)
	return k.nonce[:]
}

func (k *otherKey) additionalData(header uint64) []byte {
	binary.BigEndian.PutUint64(k.header[:], header)
	return k.header[len(k.header)-headerSize:]
}

// From RFC 9846, Section 5.2.
const (
	// headerSize is the size of a record header, which is the additional data.
	headerSize = 5

	// maxBodySize is the longest body that the header's length field can name.
	maxBodySize = 1<<16 - 1
)
