package main

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // links the hashes in
	_ "crypto/sha512"
	"slices"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// group is a key exchange group (RFC 9846, Section 4.3.7).
type group struct {
	id    uint16
	name  string
	curve ecdh.Curve
}

// The groups, best first.
var (
	x25519    = &group{0x001d, "X25519", ecdh.X25519()}
	secp256r1 = &group{0x0017, "secp256r1", ecdh.P256()}

	allGroups = []*group{x25519, secp256r1}
)

func (g *group) ID() uint16 { return g.id }

// sharedSecret returns the ECDHE shared secret of our key and the peer's
// key_exchange field.
//
// "For the curves secp256r1, secp384r1, and secp521r1, peers MUST validate each
// other's public value Q by ensuring that the point is a valid point on the
// elliptic curve." (RFC 9846, Section 4.3.8.2) NewPublicKey does.
//
// "Implementations MUST check whether the computed Diffie-Hellman shared secret
// is the all-zero value and abort if so" (RFC 9846, Section 7.4.2). ECDH does.
func (g *group) sharedSecret(key *ecdh.PrivateKey, peer []byte) ([]byte, error) {
	public, err := g.curve.NewPublicKey(peer)
	if err != nil {
		return nil, alertf(record.AlertIllegalParameter, "key share: %v", err)
	}
	shared, err := key.ECDH(public)
	if err != nil {
		return nil, alertf(record.AlertIllegalParameter, "key share: %v", err)
	}
	return shared, nil
}

// scheme is a signature algorithm (RFC 9846, Section 4.3.3).
type scheme struct {
	id   uint16
	name string
	hash crypto.Hash                 // zero if the algorithm hashes by itself
	fits func(crypto.PublicKey) bool // whether a key is of its type
}

// The signature algorithms, best first.
var (
	ecdsaP256 = &scheme{0x0403, "ecdsa_secp256r1_sha256", crypto.SHA256, onCurve(elliptic.P256())}
	ecdsaP384 = &scheme{0x0503, "ecdsa_secp384r1_sha384", crypto.SHA384, onCurve(elliptic.P384())}
	eddsa     = &scheme{0x0807, "ed25519", 0, isEd25519}
	rsaPSS    = &scheme{0x0804, "rsa_pss_rsae_sha256", crypto.SHA256, isRSA}

	allSchemes = []*scheme{ecdsaP256, ecdsaP384, eddsa, rsaPSS}
)

// certificateSchemes are the algorithms with which the certificates of a chain may
// be signed; crypto/x509 verifies those. To the schemes above it adds
// rsa_pkcs1_sha256, rsa_pkcs1_sha384 and rsa_pkcs1_sha512, which "refer solely to
// signatures which appear in certificates".
var certificateSchemes = append(ids(allSchemes), 0x0401, 0x0501, 0x0601)

func (s *scheme) ID() uint16 { return s.id }

func onCurve(c elliptic.Curve) func(crypto.PublicKey) bool {
	return func(key crypto.PublicKey) bool {
		k, ok := key.(*ecdsa.PublicKey)
		return ok && k.Curve == c
	}
}

func isEd25519(key crypto.PublicKey) bool { _, ok := key.(ed25519.PublicKey); return ok }
func isRSA(key crypto.PublicKey) bool     { _, ok := key.(*rsa.PublicKey); return ok }

// pssOptions: "The length of the Salt MUST be equal to the length of the output
// of the digest algorithm." (RFC 9846, Section 4.3.3)
func (s *scheme) pssOptions() *rsa.PSSOptions {
	return &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: s.hash}
}

func (s *scheme) digest(content []byte) []byte {
	if s.hash == 0 {
		return content
	}
	return transcriptHash(s.hash, content)
}

func (s *scheme) sign(key crypto.Signer, content []byte) ([]byte, error) {
	var opts crypto.SignerOpts = s.hash
	if s == rsaPSS {
		opts = s.pssOptions()
	}
	return key.Sign(rand.Reader, s.digest(content), opts)
}

func (s *scheme) verify(key crypto.PublicKey, content, signature []byte) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, s.digest(content), signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(key, s.hash, s.digest(content), signature, s.pssOptions()) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(key, content, signature)
	}
	return false
}

// signedContent is what a server's CertificateVerify message signs: 64 spaces, the
// context string, a zero byte and the transcript hash (RFC 9846, Section 4.5.2).
func signedContent(h crypto.Hash, transcript []byte) []byte {
	content := slices.Repeat([]byte{0x20}, 64)
	content = append(content, "TLS 1.3, server CertificateVerify\x00"...)
	return append(content, transcriptHash(h, transcript)...)
}

// algorithm is anything with a two-byte number from IANA.
type algorithm interface{ ID() uint16 }

var (
	_ algorithm = (*group)(nil)
	_ algorithm = (*scheme)(nil)
	_ algorithm = (*aead.Suite)(nil)
)

// ids returns the numbers of the algorithms in list.
func ids[A algorithm](list []A) []uint16 {
	numbers := make([]uint16, len(list))
	for i, a := range list {
		numbers[i] = a.ID()
	}
	return numbers
}

// find returns the first algorithm of list whose number is offered. Servers choose
// with it, by their own preference; clients look up what a server chose.
func find[A algorithm](list []A, offered ...uint16) (a A, ok bool) {
	for _, a := range list {
		if slices.Contains(offered, a.ID()) {
			return a, true
		}
	}
	return a, false
}
