package aead

import (
	"crypto"
	"crypto/hkdf"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/crypto/cryptobyte"
)

// TrafficKeys are the write key and write IV of one direction. They print as
// "aead.TrafficKeys(redacted)" through fmt and log/slog, and in JSON and XML, and do not
// go into gob. encoding/asn1 has no hook to prevent it, and writes them.
type TrafficKeys struct {
	Key []byte // Suite.KeySize bytes
	IV  []byte // IVSize bytes
}

const redacted = "aead.TrafficKeys(redacted)"

// String returns a fixed text.
func (TrafficKeys) String() string { return redacted }

// Format prints a fixed text, whatever the verb.
func (TrafficKeys) Format(s fmt.State, verb rune) { fmt.Fprint(s, redacted) }

// LogValue returns a fixed text.
func (TrafficKeys) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a fixed text, so that a log in JSON that holds keys loses only
// them.
func (TrafficKeys) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalBinary returns an error: what goes into gob is meant to be read back.
func (TrafficKeys) MarshalBinary() ([]byte, error) { return nil, errMarshal }

var errMarshal = errors.New("aead: traffic keys do not marshal")

// Wipe overwrites the key and the IV with zeros.
func (k TrafficKeys) Wipe() {
	clear(k.Key)
	clear(k.IV)
}

var errSecretSize = errors.New("aead: traffic secret does not have the hash's size")

// DeriveTrafficKeys returns the write key and write IV that belong to a traffic
// secret, in new slices. The secret must be s.Hash().Size() bytes long; any
// other length is an error. It is neither changed nor kept. DeriveTrafficKeys
// panics if s is nil or not made by [NewSuite].
//
// See RFC 9846, Section 7.3.
func DeriveTrafficKeys(s *Suite, secret []byte) (TrafficKeys, error) {
	s.check()
	if len(secret) != s.p.Hash.Size() {
		return TrafficKeys{}, errSecretSize
	}
	key, err := ExpandLabel(s.p.Hash, secret, "key", nil, s.p.KeySize)
	if err != nil {
		return TrafficKeys{}, err
	}
	iv, err := ExpandLabel(s.p.Hash, secret, "iv", nil, IVSize)
	if err != nil {
		return TrafficKeys{}, err
	}
	return TrafficKeys{Key: key, IV: iv}, nil
}

// NextTrafficSecret returns the traffic secret that follows secret after a
// KeyUpdate, in a new slice. The secret must be s.Hash().Size() bytes long; any
// other length is an error. It is neither changed nor kept. NextTrafficSecret
// panics if s is nil or not made by [NewSuite].
//
// See RFC 9846, Section 7.2.
func NextTrafficSecret(s *Suite, secret []byte) ([]byte, error) {
	s.check()
	if len(secret) != s.p.Hash.Size() {
		return nil, errSecretSize
	}
	return ExpandLabel(s.p.Hash, secret, "traffic upd", nil, s.p.Hash.Size())
}

var errExpandLength = errors.New("aead: length does not fit HKDF-Expand-Label")

// ExpandLabel returns HKDF-Expand-Label(secret, label, context, length), in a
// new slice of length bytes. The label is passed without its "tls13 ".
//
// It returns an error if length is negative, more than 255 hashes or more than
// 65535, if the label is empty or longer than 249 bytes, or if the context is
// longer than 255. It panics if the hash is not linked into the program.
//
// See RFC 9846, Section 7.1.
func ExpandLabel(h crypto.Hash, secret []byte, label string, context []byte, length int) ([]byte, error) {
	if length < 0 || length > 0xffff {
		return nil, errExpandLength
	}
	// struct {
	//     uint16 length = Length;
	//     opaque label<7..255> = "tls13 " + Label;
	//     opaque context<0..255> = Context;
	// } HkdfLabel;
	if label == "" {
		return nil, errors.New("aead: empty label")
	}
	var b cryptobyte.Builder
	b.AddUint16(uint16(length))
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddBytes([]byte("tls13 " + label))
	})
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddBytes(context)
	})
	info, err := b.Bytes()
	if err != nil {
		return nil, fmt.Errorf("aead: HkdfLabel: %w", err)
	}
	return hkdf.Expand(h.New, secret, string(info), length)
}
