package aead_test

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/aeadtest"
	"golang.org/x/crypto/chacha20poly1305"
)

func filler(seed string, n int) []byte {
	var s [32]byte
	copy(s[:], seed)
	b := make([]byte, n)
	rand.NewChaCha8(s).Read(b)
	return b
}

// oracleFor returns an AEAD for the suite that is not this module's.
func oracleFor(tb testing.TB, s *aead.Suite, key []byte) cipher.AEAD {
	tb.Helper()
	var a cipher.AEAD
	var err error
	if s == aead.ChaCha20Poly1305() {
		a, err = chacha20poly1305.New(key)
	} else {
		var block cipher.Block
		if block, err = aes.NewCipher(key); err == nil {
			a, err = cipher.NewGCM(block)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func TestSuites(t *testing.T) {
	for i, want := range []struct {
		suite        *aead.Suite
		id           uint16
		name         string
		keySize, tag int
		hash         crypto.Hash
		limit        uint64
	}{
		{aead.AES128GCM(), 0x1301, "TLS_AES_128_GCM_SHA256", 16, 16, crypto.SHA256, 23_726_566},
		{aead.AES256GCM(), 0x1302, "TLS_AES_256_GCM_SHA384", 32, 16, crypto.SHA384, 23_726_566},
		{aead.ChaCha20Poly1305(), 0x1303, "TLS_CHACHA20_POLY1305_SHA256", 32, 16, crypto.SHA256, math.MaxUint64},
	} {
		s := want.suite
		if s.ID() != want.id || s.Name() != want.name || s.String() != want.name || s.KeySize() != want.keySize ||
			s.TagSize() != want.tag || s.Hash() != want.hash || s.RecordLimit() != want.limit {
			t.Errorf("%v is not %+v", s, want)
		}
		if aead.Suites()[i] != s || aead.SuiteByID(want.id) != s {
			t.Errorf("%v is not found", s)
		}
		for n := range 65 {
			a, err := s.New(make([]byte, n))
			if (err == nil) != (n == want.keySize) {
				t.Errorf("%v with a key of %d bytes: %v", s, n, err)
			}
			if err == nil && (a.NonceSize() != aead.IVSize || a.Overhead() != want.tag) {
				t.Errorf("%v: AEAD of other sizes", s)
			}
			if err != nil && a != nil {
				t.Errorf("%v: error and an AEAD", s)
			}
		}
	}
	for _, id := range []uint16{0, 0x1300, 0x1304, 0x1305, 0x0113, 0xffff} {
		if s := aead.SuiteByID(id); s != nil {
			t.Errorf("%#04x is %v", id, s)
		}
	}
	// The limit is 2^24.5 records, rounded to the nearest.
	if want := math.Round(math.Exp2(24.5)); float64(aead.AES128GCM().RecordLimit()) != want {
		t.Errorf("limit is not %v", want)
	}
	// Nobody can change the list of others.
	aead.Suites()[0] = nil
	if aead.Suites()[0] != aead.AES128GCM() {
		t.Error("the list can be changed")
	}
}

// params describes a valid suite, for tests to change.
func params() aead.SuiteParams {
	return aead.SuiteParams{
		ID: 0xff01, Name: "TEST", KeySize: 16, TagSize: 16, Hash: crypto.SHA256, RecordLimit: 1,
		New: func(key []byte) (cipher.AEAD, error) { return gcm.New(key) },
	}
}

// TestNewSuite refuses what no suite of TLS 1.3 is.
//
// "An AEAD algorithm used in TLS 1.3 MUST NOT produce an expansion greater than 255
// octets." (RFC 9846, Section 5.2)
func TestNewSuite(t *testing.T) {
	if s := aead.NewSuite(params()); s.ID() != 0xff01 || s.Name() != "TEST" || s.RecordLimit() != 1 {
		t.Errorf("got %v", s)
	}
	for name, change := range map[string]func(*aead.SuiteParams){
		"no ID":            func(p *aead.SuiteParams) { p.ID = 0 },
		"no name":          func(p *aead.SuiteParams) { p.Name = "" },
		"no constructor":   func(p *aead.SuiteParams) { p.New = nil },
		"no limit":         func(p *aead.SuiteParams) { p.RecordLimit = 0 },
		"no key":           func(p *aead.SuiteParams) { p.KeySize = 0 },
		"short key":        func(p *aead.SuiteParams) { p.KeySize = 15 },
		"negative key":     func(p *aead.SuiteParams) { p.KeySize = -16 },
		"long key":         func(p *aead.SuiteParams) { p.KeySize = 256 },
		"no tag":           func(p *aead.SuiteParams) { p.TagSize = 0 },
		"negative tag":     func(p *aead.SuiteParams) { p.TagSize = -1 },
		"long tag":         func(p *aead.SuiteParams) { p.TagSize = 256 },
		"no hash":          func(p *aead.SuiteParams) { p.Hash = 0 },
		"hash not linked":  func(p *aead.SuiteParams) { p.Hash = crypto.RIPEMD160 },
		"hash not defined": func(p *aead.SuiteParams) { p.Hash = 999 },
	} {
		p := params()
		change(&p)
		mustPanic(t, "aead: ", name, func() { aead.NewSuite(p) })
	}
}

// TestSuiteWithOtherSizes constructs AEADs that are not what their suite says.
//
// "An AEAD algorithm where N_MAX is less than 8 bytes MUST NOT be used with TLS."
// (RFC 9846, Section 5.3)
func TestSuiteWithOtherSizes(t *testing.T) {
	p := params()
	p.TagSize = 15
	mustPanic(t, "aead: ", "other tag size", func() { aead.NewSuite(p).New(make([]byte, 16)) })
	p = params()
	p.New = func(key []byte) (cipher.AEAD, error) { return gcm.NewWithNonceSize(key, 13) }
	mustPanic(t, "aead: ", "other nonce size", func() { aead.NewSuite(p).New(make([]byte, 16)) })
	p.New = func(key []byte) (cipher.AEAD, error) { return gcm.NewWithNonceSize(key, 7) }
	mustPanic(t, "aead: ", "short nonce", func() { aead.NewSuite(p).New(make([]byte, 16)) })
	mustPanic(t, "aead: ", "other nonce size", func() {
		aead.NewProtector(aead.NewSuite(p), aead.TrafficKeys{Key: make([]byte, 16), IV: make([]byte, 12)})
	})
}

// TestContract runs the shared contract suite on every suite's AEAD, and on the
// adapter over AES-GCM.
func TestContract(t *testing.T) {
	for _, s := range aead.Suites() {
		t.Run(s.Name(), func(t *testing.T) {
			key := filler("contract", s.KeySize())
			a, err := s.New(key)
			if err != nil {
				t.Fatal(err)
			}
			panics := "aead: "
			if _, ok := a.(*gcm.AEAD); ok {
				panics = "gcm: "
			}
			aeadtest.Run(t, aeadtest.Config{
				AEAD: a, Oracle: oracleFor(t, s, key), ErrOpen: aead.ErrOpen, Panics: panics,
			})
		})
	}
	t.Run("adapter over crypto/cipher", func(t *testing.T) {
		a := oracleFor(t, aead.AES128GCM(), filler("contract", 16))
		aeadtest.Run(t, aeadtest.Config{
			AEAD: aead.Gather(a), Oracle: a, ErrOpen: aead.ErrOpen, Panics: "aead: ",
		})
	})
	t.Run("adapter over an AEAD that leaves plaintext", func(t *testing.T) {
		a := oracleFor(t, aead.AES128GCM(), filler("contract", 16))
		aeadtest.Run(t, aeadtest.Config{
			AEAD: aead.Gather(untidy{a}), Oracle: a, ErrOpen: aead.ErrOpen, Panics: "aead: ", Allocates: true,
		})
	})
}

// TestFIPS140Only makes protectors in a process with GODEBUG=fips140=only.
func TestFIPS140Only(t *testing.T) {
	if os.Getenv("AEAD_TEST_FIPS140_ONLY") == "1" {
		for _, s := range aead.Suites() {
			keys, err := aead.DeriveTrafficKeys(s, make([]byte, s.Hash().Size()))
			fmt.Printf("keys of %v: %v\n", s, err)
			_, err = s.New(keys.Key)
			fmt.Printf("AEAD of %v refused: %v\n", s, err != nil)
			_, err = aead.NewProtector(s, keys)
			fmt.Printf("protector of %v refused: %v\n", s, err != nil)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFIPS140Only$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", "AEAD_TEST_FIPS140_ONLY=1")
	out, err := cmd.CombinedOutput()
	if bytes.HasPrefix(out, []byte("panic: fips140: ")) {
		t.Skipf("this build has no FIPS 140-3 mode: %s", bytes.SplitN(out, []byte("\n"), 2)[0])
	}
	if err != nil && strings.Contains(err.Error(), "exec format error") {
		t.Skip("no other process can be started here, as in an emulator: ", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Count(string(out), "refused: true") != 6 || strings.Count(string(out), "SHA256: <nil>") != 2 || strings.Count(string(out), "SHA384: <nil>") != 1 {
		t.Errorf("want keys, and no AEADs\n%s", out)
	}
}

// mustPanic fails the test unless f panics with a message that begins so.
func mustPanic(t *testing.T, begins, name string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if message := fmt.Sprint(recover()); !strings.HasPrefix(message, begins) {
			t.Errorf("%s: panic %q, want one that begins with %q", name, message, begins)
		}
	}()
	f()
}
