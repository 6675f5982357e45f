package vectors

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"

	"example.com/splitseal/aead"
	"example.com/splitseal/aead/ccm"
	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/asm"
)

// hexBytes is a byte string that JSON holds in hexadecimal.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.AppendDecode(nil, text)
	return err
}

// wycheproofFile is the part of Wycheproof's aead_test_schema_v1.json that the
// tests read.
type wycheproofFile struct {
	Algorithm     string
	NumberOfTests int
	TestGroups    []struct {
		IVSize, KeySize, TagSize int // in bits
		Tests                    []struct {
			TcID                       int
			Flags                      []string
			Key, IV, AAD, Msg, CT, Tag hexBytes
			Result                     string
		}
	}
}

// A wycheproofCase is one test of a file.
type wycheproofCase struct {
	id    int
	valid bool
	vector
}

// wycheproofCases returns all tests of a file, which must be as many as count.
func wycheproofCases(t *testing.T, name, algorithm string, count int) []wycheproofCase {
	t.Helper()
	data, err := fs.ReadFile(wycheproof.TestVectors, name)
	if err != nil {
		t.Fatal(err)
	}
	var f wycheproofFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	var cases []wycheproofCase
	for _, g := range f.TestGroups {
		for _, test := range g.Tests {
			c := wycheproofCase{id: test.TcID, vector: vector{
				key: test.Key, nonce: test.IV, aad: test.AAD, text: test.Msg,
				sealed: append(test.CT[:len(test.CT):len(test.CT)], test.Tag...), tagSize: g.TagSize / 8,
			}}
			switch test.Result {
			case "valid":
				c.valid = true
			case "invalid":
			default:
				t.Fatalf("tcId %d: result %q is neither valid nor invalid", test.TcID, test.Result)
			}
			// A nonce that cannot be used has no ciphertext and no tag.
			noTag := !c.valid && len(c.sealed) == 0
			if len(c.key)*8 != g.KeySize || len(c.nonce)*8 != g.IVSize || len(test.Tag)*8 != g.TagSize && !noTag {
				t.Fatalf("tcId %d: sizes do not match its group", test.TcID)
			}
			cases = append(cases, c)
		}
	}
	if f.Algorithm != algorithm || len(cases) != count || f.NumberOfTests != count {
		t.Fatalf("%s: %s with %d tests (it says %d), want %s with %d", name, f.Algorithm, len(cases), f.NumberOfTests, algorithm, count)
	}
	return cases
}

func TestWycheproofAESGCM(t *testing.T) {
	cases := wycheproofCases(t, "aes_gcm_test.json", "AES-GCM", 316)
	for _, backend := range asm.Backends() {
		t.Run(backend.String(), func(t *testing.T) {
			defer asm.Force(backend)()
			records := 0
			for _, c := range cases {
				t.Run(fmt.Sprintf("tcId %d", c.id), func(t *testing.T) {
					if len(c.nonce) == 0 {
						// ZeroLengthIv: no key can be made for it.
						if _, err := gcm.NewWithNonceSize(c.key, 0); err == nil || c.valid {
							t.Fatal("a nonce of no bytes is accepted")
						}
						return
					}
					a := newGCM(t, backend, c.key, len(c.nonce), c.tagSize)
					if !c.valid {
						c.refuses(t, a)
					} else {
						c.accepts(t, a)
					}
					if len(c.nonce) == gcm.NonceSize && len(c.aad) <= 8 {
						c.record(t, backend, c.valid)
						records++
					}
				})
			}
			if records < 100 {
				t.Errorf("only %d vectors reached RecordKey", records)
			}
		})
	}
}

// TestWycheproofAESGCMShortTags cuts the tags: a tag of fewer bytes is the
// beginning of the whole one (NIST SP 800-38D, Section 7.1, step 6). The set
// itself has 16-byte tags only.
func TestWycheproofAESGCMShortTags(t *testing.T) {
	for _, backend := range asm.Backends() {
		t.Run(backend.String(), func(t *testing.T) {
			count := 0
			for _, c := range wycheproofCases(t, "aes_gcm_test.json", "AES-GCM", 316) {
				if len(c.nonce) != gcm.NonceSize || !c.valid {
					continue
				}
				for tagSize := 12; tagSize < gcm.TagSize; tagSize++ {
					v := c.vector
					v.tagSize = tagSize
					v.sealed = v.sealed[:len(v.text)+tagSize]
					a := newGCM(t, backend, v.key, gcm.NonceSize, tagSize)
					v.accepts(t, a)
					v.sealed = append([]byte(nil), v.sealed...)
					v.sealed[len(v.sealed)-1] ^= 0x80
					v.refuses(t, a)
					count++
				}
			}
			if count < 400 {
				t.Errorf("only %d vectors", count)
			}
		})
	}
}

// TestWycheproofChaCha20Poly1305 runs on the adapter that makes any
// cipher.AEAD gather.
func TestWycheproofChaCha20Poly1305(t *testing.T) {
	for _, c := range wycheproofCases(t, "chacha20_poly1305_test.json", "CHACHA20-POLY1305", 325) {
		t.Run(fmt.Sprintf("tcId %d", c.id), func(t *testing.T) {
			a, err := aead.ChaCha20Poly1305().New(c.key)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.nonce) != a.NonceSize() {
				// A nonce of the wrong size is the caller's mistake.
				if c.valid {
					t.Fatalf("a valid vector has a nonce of %d bytes", len(c.nonce))
				}
				panics(t, func() { a.Seal(nil, c.nonce, c.text, c.aad) })
				panics(t, func() { a.Open(nil, c.nonce, c.sealed, c.aad) })
				return
			}
			if c.valid {
				c.accepts(t, a)
			} else {
				c.refuses(t, a)
			}
		})
	}
}

// TestWycheproofAESCCM runs the part of the set that the two CCM suites of TLS
// can express: AES-128, 12-byte nonces, tags of 16 and 8 bytes.
func TestWycheproofAESCCM(t *testing.T) {
	bySize := map[int]*aead.Suite{16: ccm.AES128CCM(), 8: ccm.AES128CCM8()}
	count := 0
	for _, c := range wycheproofCases(t, "aes_ccm_test.json", "AES-CCM", 552) {
		suite := bySize[c.tagSize]
		if suite == nil || len(c.key) != suite.KeySize() || len(c.nonce) != aead.IVSize {
			continue
		}
		count++
		t.Run(fmt.Sprintf("tcId %d", c.id), func(t *testing.T) {
			a, err := suite.New(c.key)
			if err != nil {
				t.Fatal(err)
			}
			if c.valid {
				c.accepts(t, a)
			} else {
				c.refuses(t, a)
			}
		})
	}
	if count != 86 {
		t.Errorf("%d tests fit the suites, want 86", count)
	}
}

func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("a nonce of the wrong size was accepted")
		}
	}()
	f()
}
