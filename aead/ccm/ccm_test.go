package ccm_test

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/aead/ccm"
	"example.com/splitseal/internal/aeadtest"
	pion "github.com/pion/dtls/v3/pkg/crypto/ccm"
)

func TestSuites(t *testing.T) {
	for i, want := range []struct {
		suite *aead.Suite
		id    uint16
		name  string
		tag   int
	}{
		{ccm.AES128CCM(), 0x1304, "TLS_AES_128_CCM_SHA256", 16},
		{ccm.AES128CCM8(), 0x1305, "TLS_AES_128_CCM_8_SHA256", 8},
	} {
		s := want.suite
		if s.ID() != want.id || s.Name() != want.name || s.KeySize() != 16 || s.TagSize() != want.tag ||
			s.Hash() != crypto.SHA256 || s.RecordLimit() != 8388608 || ccm.Suites()[i] != s {
			t.Errorf("%v is not %+v", s, want)
		}
		for n := range 65 {
			if _, err := s.New(make([]byte, n)); (err == nil) != (n == 16) {
				t.Errorf("%v with a key of %d bytes: %v", s, n, err)
			}
		}
	}
}

func oracleFor(tb testing.TB, s *aead.Suite, key []byte) cipher.AEAD {
	tb.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		tb.Fatal(err)
	}
	a, err := pion.NewCCM(block, s.TagSize(), 12)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// TestContract runs the shared contract suite. The oracle is the bare CCM, whose
// ciphertexts TestVectors checks.
func TestContract(t *testing.T) {
	for _, s := range ccm.Suites() {
		t.Run(s.Name(), func(t *testing.T) {
			key := []byte("0123456789abcdef")
			a, err := s.New(key)
			if err != nil {
				t.Fatal(err)
			}
			aeadtest.Run(t, aeadtest.Config{
				AEAD: a, Oracle: oracleFor(t, s, key), ErrOpen: aead.ErrOpen, Panics: "aead: ",
			})
		})
	}
}

// TestVectors checks ciphertexts that OpenSSL 3.0.19 made: key 00..0f, nonce
// 10..1b, additional data "17 03 03 00 xx", text 20.. of each size.
func TestVectors(t *testing.T) {
	key, nonce, text := make([]byte, 16), make([]byte, 12), make([]byte, 33)
	for i := range key {
		key[i] = byte(i)
	}
	for i := range nonce {
		nonce[i] = byte(0x10 + i)
	}
	for i := range text {
		text[i] = byte(0x20 + i)
	}
	for _, v := range vectors {
		for i, s := range ccm.Suites() {
			a, err := s.New(key)
			if err != nil {
				t.Fatal(err)
			}
			ad := []byte{0x17, 3, 3, 0, byte(v.n + s.TagSize())}
			if got := hex.EncodeToString(a.Seal(nil, nonce, text[:v.n], ad)); got != v.sealed[i] {
				t.Errorf("%v, %d bytes: got %s, want %s", s, v.n, got, v.sealed[i])
			}
		}
	}
}

// TestProtector seals and opens a run of records, and compares with the nonce
// made by hand.
func TestProtector(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range ccm.Suites() {
		keys, err := aead.DeriveTrafficKeys(s, bytes.Repeat([]byte{7}, 32))
		if err != nil {
			t.Fatal(err)
		}
		w, err := aead.NewProtector(s, keys)
		if err != nil {
			t.Fatal(err)
		}
		o, err := aead.NewProtector(s, keys)
		if err != nil {
			t.Fatal(err)
		}
		for seq := range 100 {
			content := make([]byte, r.IntN(300))
			if seq%50 == 0 {
				content = make([]byte, 16384)
			}
			body := make([]byte, len(content)+1+s.TagSize())
			header := 0x1703030000 | uint64(len(body))
			if err := w.Seal(body, content, 23, header); err != nil {
				t.Fatal(err)
			}
			nonce := bytes.Clone(keys.IV)
			nonce[11] ^= byte(seq)
			ad := []byte{0x17, 3, 3, byte(len(body) >> 8), byte(len(body))}
			if want := oracleFor(t, s, keys.Key).Seal(nil, nonce, append(content, 23), ad); !bytes.Equal(body, want) {
				t.Fatalf("%v: record %d differs", s, seq)
			}
			forged := bytes.Clone(body)
			forged[r.IntN(len(forged))] ^= 1
			if err := o.OpenSplit(nil, forged, header); err != aead.ErrOpen || o.Seq() != uint64(seq) {
				t.Fatalf("%v: forged record %d: %v", s, seq, err)
			}
			if err := o.OpenSplit(nil, body, header); err != nil || body[len(content)] != 23 {
				t.Fatalf("%v: record %d: %v", s, seq, err)
			}
		}
	}
}

// TestFIPS140Only makes AEADs in a process with GODEBUG=fips140=only.
func TestFIPS140Only(t *testing.T) {
	if os.Getenv("CCM_TEST_FIPS140_ONLY") == "1" {
		for _, s := range ccm.Suites() {
			_, err := s.New(make([]byte, 16))
			fmt.Printf("%v refused: %v\n", s, err != nil)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFIPS140Only$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", "CCM_TEST_FIPS140_ONLY=1")
	out, err := cmd.CombinedOutput()
	if bytes.HasPrefix(out, []byte("panic: fips140: ")) {
		t.Skipf("this build has no FIPS 140-3 mode: %s", bytes.SplitN(out, []byte("\n"), 2)[0])
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Count(string(out), "refused: true") != 2 {
		t.Errorf("not all suites are refused\n%s", out)
	}
}

func Example() {
	suite := ccm.AES128CCM8()
	secret := make([]byte, suite.Hash().Size()) // from the handshake
	keys, err := aead.DeriveTrafficKeys(suite, secret)
	if err != nil {
		panic(err)
	}
	p, err := aead.NewProtector(suite, keys)
	if err != nil {
		panic(err)
	}
	content := []byte("hello")
	body := make([]byte, len(content)+1+p.Overhead())
	if err := p.Seal(body, content, 23, 0x1703030000|uint64(len(body))); err != nil {
		panic(err)
	}
	fmt.Println(suite, len(body))
	// Output: TLS_AES_128_CCM_8_SHA256 14
}

// vectors hold a text's size and its ciphertexts under the two suites.
var vectors = []struct {
	n      int
	sealed [2]string
}{
	{0, [2]string{
		"7a471d664a31d6d6d9693551eecf4f83",
		"9da9edf0abdf4d69",
	}},
	{1, [2]string{
		"037899d090948e0e7b00013ea1b77fdcdc",
		"0333f89ac43bb32b98",
	}},
	{15, [2]string{
		"03949b8366d10b95228555eb5849f582b481c9415f259b2fd7d73d7a5b7eee",
		"03949b8366d10b95228555eb5849f50eeebcc8978ff5e0",
	}},
	{16, [2]string{
		"03949b8366d10b95228555eb5849f5a9847c4678d51e27f06a2dd8e5c6418a55",
		"03949b8366d10b95228555eb5849f5a97d4cdae314f222e3",
	}},
	{17, [2]string{
		"03949b8366d10b95228555eb5849f5a94bf923226ee26715be89fb75ffc740f0bc",
		"03949b8366d10b95228555eb5849f5a94b07f9e5b00f4e8d65",
	}},
	{33, [2]string{
		"03949b8366d10b95228555eb5849f5a94b86e08401723c1cced19d6bef1853bb1dfb0fda3e346587488a054bb000495ab7",
		"03949b8366d10b95228555eb5849f5a94b86e08401723c1cced19d6bef1853bb1da1f398f2314ec9d8",
	}},
}
