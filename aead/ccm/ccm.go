// Package ccm provides the two AES-CCM cipher suites of TLS 1.3. It is a module
// of its own so that users of the other suites need no CCM.
//
// The AEAD is that of [github.com/pion/dtls/v3/pkg/crypto/ccm], behind
// [aead.Gather], which adds the checks that it lacks. It allocates for every record,
// and its two passes run far below the speed of the GCM suites. To verify a record it
// decrypts it into new memory, which it does not erase: the plaintext, verified or not,
// is left to the garbage collector. CCM is for peers that have nothing else.
package ccm

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"errors"

	"example.com/splitseal/aead"
	pion "github.com/pion/dtls/v3/pkg/crypto/ccm"
)

const (
	keySize = 16

	// The confidentiality limit of RFC 9147, Section 4.5.3, which is DTLS 1.3.
	// RFC 9846 names no number for CCM.
	recordLimit = 1 << 23
)

var (
	aes128CCM  = newSuite(0x1304, "TLS_AES_128_CCM_SHA256", 16)
	aes128CCM8 = newSuite(0x1305, "TLS_AES_128_CCM_8_SHA256", 8)
)

// AES128CCM returns TLS_AES_128_CCM_SHA256.
func AES128CCM() *aead.Suite { return aes128CCM }

// AES128CCM8 returns TLS_AES_128_CCM_8_SHA256, whose tags have 8 bytes. The
// IANA registry does not recommend it: a forgery succeeds once in 2⁶⁴ tries.
func AES128CCM8() *aead.Suite { return aes128CCM8 }

// Suites returns both suites in a new slice, in the order of their IDs.
func Suites() []*aead.Suite {
	return []*aead.Suite{aes128CCM, aes128CCM8}
}

func newSuite(id uint16, name string, tagSize int) *aead.Suite {
	return aead.NewSuite(aead.SuiteParams{
		ID:          id,
		Name:        name,
		KeySize:     keySize,
		TagSize:     tagSize,
		Hash:        crypto.SHA256,
		RecordLimit: recordLimit,
		New: func(key []byte) (cipher.AEAD, error) {
			if fips140.Enforced() {
				return nil, errors.New("ccm: AES-CCM is not in the Go Cryptographic Module, so not allowed in FIPS 140-only mode")
			}
			block, err := aes.NewCipher(key)
			if err != nil {
				return nil, err
			}
			return pion.NewCCM(block, tagSize, aead.IVSize)
		},
	})
}
