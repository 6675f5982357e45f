// Package aead provides what a TLS 1.3 record layer needs of an AEAD: cipher
// suites, traffic keys, sealing without copying, and the [Protector], which
// binds a key to its IV and sequence number so that no nonce is used twice.
//
// Of a record, it knows the body, which it seals and opens, and the header's
// five bytes, which are additional data, but not what they mean. It does no
// I/O.
package aead

import (
	"crypto"
	"crypto/cipher"
	_ "crypto/sha256" // the hashes of the suites below
	_ "crypto/sha512"
	"errors"
	"math"

	"example.com/splitseal/gcm"
	"golang.org/x/crypto/chacha20poly1305"
)

// IVSize is the size in bytes of every suite's write IV and per-record nonce:
// the larger of 8 and the AEAD's least nonce size, which is 12 for all AEADs of
// TLS 1.3. See RFC 9846, Section 5.3.
const IVSize = 12

// Key-usage limits, in records sealed under one key.
const (
	// RFC 9846, Section 5.5: "For AES-GCM, up to 2^24.5 full-size records
	// (about 24 million) may be encrypted under a given set of keys".
	limitGCM = 23_726_566

	// RFC 9846, Section 5.5: "For ChaCha20/Poly1305, the record sequence
	// number would wrap before the safety limit is reached."
	limitChaCha20Poly1305 = math.MaxUint64
)

// Suite is a TLS 1.3 cipher suite. It never changes. All methods may be called
// concurrently.
type Suite struct {
	p SuiteParams

	// recordKey says that the AEAD is that of package gcm, so that a Protector
	// can bind it to an IV.
	recordKey bool
}

// SuiteParams describes a suite to [NewSuite].
type SuiteParams struct {
	ID      uint16 // the IANA cipher suite value
	Name    string // the IANA name
	KeySize int    // in bytes
	TagSize int    // in bytes; what sealing adds
	Hash    crypto.Hash

	// RecordLimit is the number of records that may be sealed under one key.
	RecordLimit uint64

	// New returns the AEAD for a key of KeySize bytes, which it must not keep.
	// Its nonces must have IVSize bytes. It must meet the terms of [Gather], whose
	// warning about embedding applies here too.
	New func(key []byte) (cipher.AEAD, error)
}

// NewSuite returns a suite whose AEAD is not in this package. The suite is not
// registered anywhere.
//
// Whether the AEAD fits p is checked only when a key is set up.
//
// NewSuite panics if a field of p is missing, if a size does not fit TLS 1.3,
// or if the hash is not linked into the program.
func NewSuite(p SuiteParams) *Suite {
	switch {
	case p.ID == 0 || p.Name == "" || p.New == nil || p.RecordLimit == 0:
		panic("aead: incomplete SuiteParams")
	case p.KeySize < 16 || p.KeySize > 255:
		panic("aead: key size must be 16 to 255")
	case p.TagSize < 1 || p.TagSize > maxTagSize:
		panic("aead: tag size must be 1 to 255")
	case !p.Hash.Available():
		panic("aead: hash is not linked into the program")
	}
	return &Suite{p: p}
}

// maxTagSize is the most that an AEAD may add. RFC 9846, Section 5.2: "An AEAD
// algorithm used in TLS 1.3 MUST NOT produce an expansion greater than 255
// octets."
const maxTagSize = 255

var (
	aes128GCM = newGCMSuite(0x1301, "TLS_AES_128_GCM_SHA256", 16, crypto.SHA256)
	aes256GCM = newGCMSuite(0x1302, "TLS_AES_256_GCM_SHA384", 32, crypto.SHA384)

	chaCha20Poly1305 = NewSuite(SuiteParams{
		ID:          0x1303,
		Name:        "TLS_CHACHA20_POLY1305_SHA256",
		KeySize:     chacha20poly1305.KeySize,
		TagSize:     chacha20poly1305.Overhead,
		Hash:        crypto.SHA256,
		RecordLimit: limitChaCha20Poly1305,
		New:         chacha20poly1305.New,
	})
)

func newGCMSuite(id uint16, name string, keySize int, hash crypto.Hash) *Suite {
	s := NewSuite(SuiteParams{
		ID:          id,
		Name:        name,
		KeySize:     keySize,
		TagSize:     gcm.TagSize,
		Hash:        hash,
		RecordLimit: limitGCM,
		New: func(key []byte) (cipher.AEAD, error) {
			a, err := gcm.New(key)
			if err != nil {
				return nil, err // not a nil *gcm.AEAD in an interface
			}
			return a, nil
		},
	})
	s.recordKey = true
	return s
}

// AES128GCM returns TLS_AES_128_GCM_SHA256.
func AES128GCM() *Suite { return aes128GCM }

// AES256GCM returns TLS_AES_256_GCM_SHA384.
func AES256GCM() *Suite { return aes256GCM }

// ChaCha20Poly1305 returns TLS_CHACHA20_POLY1305_SHA256, with the AEAD of
// golang.org/x/crypto. Where x/crypto has no assembly (it has some for amd64
// only), the AEAD allocates once per record.
func ChaCha20Poly1305() *Suite { return chaCha20Poly1305 }

// Suites returns the suites of this package in a new slice, in the order of
// their IDs. The two CCM suites are in the module aead/ccm.
func Suites() []*Suite {
	return []*Suite{aes128GCM, aes256GCM, chaCha20Poly1305}
}

// SuiteByID returns the suite of this package with the given IANA value, or
// nil if there is none.
func SuiteByID(id uint16) *Suite {
	for _, s := range Suites() {
		if s.p.ID == id {
			return s
		}
	}
	return nil
}

func (s *Suite) check() {
	if s == nil || s.p.New == nil {
		panic("aead: Suite is nil or not made by NewSuite")
	}
}

// ID returns the IANA cipher suite value.
func (s *Suite) ID() uint16 { return s.p.ID }

// Name returns the IANA name.
func (s *Suite) Name() string { return s.p.Name }

// String returns the IANA name.
func (s *Suite) String() string { return s.p.Name }

// KeySize returns the size of a write key in bytes.
func (s *Suite) KeySize() int { return s.p.KeySize }

// TagSize returns the size of a tag in bytes, which is what sealing adds.
func (s *Suite) TagSize() int { return s.p.TagSize }

// Hash returns the hash of the key schedule.
func (s *Suite) Hash() crypto.Hash { return s.p.Hash }

// RecordLimit returns how many records may be sealed under one key. For
// ChaCha20-Poly1305 this is the largest sequence number. Whoever makes the
// records enforces the limit; RFC 9846, Section 5.5, says not to enforce it on
// a peer.
func (s *Suite) RecordLimit() uint64 { return s.p.RecordLimit }

var (
	errKeySize = errors.New("aead: write key does not have the suite's size")
	errIVSize  = errors.New("aead: write IV must have 12 bytes")
)

// New returns the suite's AEAD for a key of [Suite.KeySize] bytes, which is
// not kept. A key of another size is an error, and so is an AEAD that
// GODEBUG=fips140=only does not allow.
//
// New panics if s is nil or not made by [NewSuite], if the AEAD does not have the
// nonce and tag size of the suite, and as [Gather] does.
func (s *Suite) New(key []byte) (Gatherer, error) {
	s.check()
	if len(key) != s.p.KeySize {
		return nil, errKeySize
	}
	a, err := s.p.New(key)
	if err != nil {
		return nil, err
	}
	// "An AEAD algorithm where N_MAX is less than 8 bytes MUST NOT be used with
	// TLS." (RFC 9846, Section 5.3). The AEADs of TLS 1.3 have 12.
	if a.NonceSize() != IVSize || a.Overhead() != s.p.TagSize {
		panic("aead: AEAD does not have the sizes of its suite " + s.p.Name)
	}
	return Gather(a), nil
}
