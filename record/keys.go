package record

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"

	"example.com/splitseal/aead"
)

// trafficKeys is one generation of one direction's keys.
type trafficKeys struct {
	suite     *aead.Suite
	hidden    *[]byte // the traffic secret
	protector *aead.Protector
}

// hide returns a pointer to secret. Package fmt follows a pointer from a struct that
// it prints, but at most one, even when it reports a wrong verb; a secret behind two
// of them is not printed with what holds it.
func hide(secret []byte) *[]byte { return &secret }

func (k *trafficKeys) secret() []byte { return *k.hidden }

// newTrafficKeys takes ownership of secret, and wipes it on failure. The
// protector starts at sequence number seq.
func newTrafficKeys(suite *aead.Suite, secret []byte, seq uint64) (*trafficKeys, error) {
	k := &trafficKeys{suite: suite, hidden: hide(secret)}
	keys, err := aead.DeriveTrafficKeys(suite, secret)
	if err == nil {
		if seq == 0 {
			// "Each sequence number is set to zero at the beginning of a
			// connection and whenever the key is changed; the first record
			// transmitted under a particular traffic key MUST use sequence
			// number 0." (RFC 9846, Section 5.3)
			k.protector, err = aead.NewProtector(suite, keys)
		} else {
			k.protector, err = aead.ResumeProtector(suite, keys, seq)
		}
		clear(keys.Key)
		clear(keys.IV)
	}
	if err != nil {
		clear(secret)
		return nil, fmt.Errorf("%w: %w", ErrKeySetup, err)
	}
	return k, nil
}

// next returns the next generation and leaves k as it is.
//
// "The next generation of traffic keys is computed by generating
// client_/server_application_traffic_secret_N+1 from
// client_/server_application_traffic_secret_N as described in this section and
// then re-deriving the traffic keys" (RFC 9846, Section 7.2)
func (k *trafficKeys) next() (*trafficKeys, error) {
	secret, err := aead.NextTrafficSecret(k.suite, k.secret())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySetup, err)
	}
	return newTrafficKeys(k.suite, secret, 0)
}

// hasSecret reports whether secret is the one that k was made from, in constant time
// for secrets of one length.
func (k *trafficKeys) hasSecret(secret []byte) bool {
	return k != nil && subtle.ConstantTimeCompare(k.secret(), secret) == 1
}

// usedSecrets holds hashes of the traffic secrets that one direction has been given.
// None may come again: its sequence numbers would start again at zero. Nothing follows
// application keys, so a direction that has reached them forgets all.
type usedSecrets [][sha256.Size]byte

func (u usedSecrets) has(secret []byte) bool {
	return slices.Contains(u, sha256.Sum256(secret))
}

// add adds the secret of the given epoch.
func (u *usedSecrets) add(epoch Epoch, secret []byte) {
	if epoch == EpochApplication {
		*u = nil
	} else {
		*u = append(*u, sha256.Sum256(secret))
	}
}

// wipe overwrites the secret and the keys.
//
// "Once client_/server_application_traffic_secret_N+1 and its associated
// traffic keys have been computed, implementations SHOULD delete
// client_/server_application_traffic_secret_N and its associated traffic
// keys." (RFC 9846, Section 7.2)
//
// It leaves an empty secret, from which no keys can be made, rather than one of
// zeros: a copy of k's holder still refers to k.
func (k *trafficKeys) wipe() {
	clear(k.secret())
	*k.hidden = nil
	k.protector.Wipe()
}
