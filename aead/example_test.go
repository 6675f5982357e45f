package aead_test

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"example.com/splitseal/aead"
)

// exampleKeys returns keys for the examples. Real secrets come from a handshake.
func exampleKeys(s *aead.Suite) aead.TrafficKeys {
	keys, err := aead.DeriveTrafficKeys(s, make([]byte, s.Hash().Size()))
	if err != nil {
		panic(err)
	}
	return keys
}

// One side seals a record, the other opens it into a buffer of its own.
func ExampleProtector() {
	suite := aead.AES128GCM()
	keys := exampleKeys(suite)
	writer, err := aead.NewProtector(suite, keys)
	if err != nil {
		panic(err)
	}
	reader, err := aead.NewProtector(suite, keys)
	if err != nil {
		panic(err)
	}
	keys.Wipe()

	content := []byte("hello")
	body := make([]byte, len(content)+1+writer.Overhead())
	header := 0x1703030000 | uint64(len(body)) // opaque type 23, version 0x0303, length
	if err := writer.Seal(body, content, 23, header); err != nil {
		panic(err)
	}

	got := make([]byte, len(content))
	if err := reader.OpenSplit(got, body, header); err != nil {
		panic(err)
	}
	fmt.Printf("%s, type %d, next number %d\n", got, body[len(got)], reader.Seq())

	err = reader.OpenSplit(got, body, header) // a replay
	fmt.Println(errors.Is(err, aead.ErrOpen), reader.Seq())
	// Output:
	// hello, type 23, next number 1
	// true 1
}

// A padded record: content type and padding are already in the output.
func ExampleProtector_SealSplit() {
	suite := aead.AES128GCM()
	p, err := aead.NewProtector(suite, exampleKeys(suite))
	if err != nil {
		panic(err)
	}
	content := []byte("hello")
	body := make([]byte, 64+p.Overhead()) // pads to 64 bytes
	body[len(content)] = 23
	if err := p.SealSplit(body, content, 0x1703030050); err != nil {
		panic(err)
	}
	fmt.Println(len(body), p.Seq())
	// Output: 80 1
}

// The inner plaintext lies in several buffers.
func ExampleProtector_SealGather() {
	suite := aead.ChaCha20Poly1305()
	p, err := aead.NewProtector(suite, exampleKeys(suite))
	if err != nil {
		panic(err)
	}
	pieces := [][]byte{[]byte("hello "), []byte("world"), {23}}
	body := make([]byte, 12+p.Overhead())
	if err := p.SealGather(body, pieces, 0x170303001c); err != nil {
		panic(err)
	}
	fmt.Println(len(body), p.Seq())
	// Output: 28 1
}

// A Protector continues where another one stopped.
func ExampleResumeProtector() {
	suite := aead.AES128GCM()
	keys := exampleKeys(suite)
	old, err := aead.NewProtector(suite, keys)
	if err != nil {
		panic(err)
	}
	if err := old.Seal(make([]byte, 17), nil, 23, 0x1703030011); err != nil {
		panic(err)
	}
	seq := old.Seq()
	old.Wipe() // it must never seal again

	p, err := aead.ResumeProtector(suite, keys, seq)
	fmt.Println(p.Seq(), err)
	// Output: 1 <nil>
}

// After a KeyUpdate the next traffic secret follows from the current one.
func ExampleNextTrafficSecret() {
	suite := aead.AES256GCM()
	secret := make([]byte, suite.Hash().Size())
	next, err := aead.NextTrafficSecret(suite, secret)
	if err != nil {
		panic(err)
	}
	keys, err := aead.DeriveTrafficKeys(suite, next)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(next), len(keys.Key), len(keys.IV))
	fmt.Println(keys)
	// Output:
	// 48 32 12
	// aead.TrafficKeys(redacted)
}

// The key of a Finished message.
func ExampleExpandLabel() {
	secret := make([]byte, 32)
	key, err := aead.ExpandLabel(crypto.SHA256, secret, "finished", nil, crypto.SHA256.Size())
	fmt.Println(len(key), err)
	// Output: 32 <nil>
}

// Two sides share a key and nothing else, as those of a tunnel may. Each sends the
// other 32 random bytes, fresh for each connection; without them every connection would
// have the same secrets and repeat the nonces of the one before.
func ExampleExpandLabel_sharedKey() {
	shared := make([]byte, 32) // from a file on both sides
	client, server := make([]byte, 32), make([]byte, 32)
	rand.Read(client)
	rand.Read(server)

	// Both sides do this.
	secret, err := hkdf.Extract(sha256.New, shared, slices.Concat(client, server))
	if err != nil {
		panic(err)
	}
	// One for what the client writes, and one for what the server writes.
	var secrets [2][]byte
	for i, label := range []string{"tunnel client", "tunnel server"} {
		if secrets[i], err = aead.ExpandLabel(crypto.SHA256, secret, label, nil, sha256.Size); err != nil {
			panic(err)
		}
	}
	fmt.Println(len(secrets[0]), len(secrets[1]), bytes.Equal(secrets[0], secrets[1]))
	// Output: 32 32 false
}

// Any AEAD gathers.
func ExampleGather() {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		panic(err)
	}
	plain, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	a := aead.Gather(plain)
	nonce := make([]byte, a.NonceSize())
	sealed := a.SealGather(nil, nonce, [][]byte{[]byte("hello "), []byte("world")}, nil)
	opened, err := plain.Open(nil, nonce, sealed, nil)
	fmt.Printf("%s, %v\n", opened, err)
	// Output: hello world, <nil>
}

// A suite whose AEAD comes from elsewhere. The module aead/ccm does this.
func ExampleNewSuite() {
	suite := aead.NewSuite(aead.SuiteParams{
		ID: 0xff01, Name: "PRIVATE_AES_192_GCM_SHA384",
		KeySize: 24, TagSize: 16, Hash: crypto.SHA384, RecordLimit: 1 << 20,
		New: func(key []byte) (cipher.AEAD, error) {
			block, err := aes.NewCipher(key)
			if err != nil {
				return nil, err
			}
			return cipher.NewGCM(block)
		},
	})
	p, err := aead.NewProtector(suite, exampleKeys(suite))
	fmt.Println(p.Suite(), err)
	// Output: PRIVATE_AES_192_GCM_SHA384 <nil>
}

func ExampleSuiteByID() {
	fmt.Println(aead.SuiteByID(0x1302), aead.SuiteByID(0x1305) == nil)
	// Output: TLS_AES_256_GCM_SHA384 true
}
