package vectors

import (
	"bytes"
	"compress/bzip2"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/asm"
)

// acvpFiles are the files of testdata/acvp and their SHA-256 checksums.
var acvpFiles = map[string]string{
	"vectors.json.bz2":  "0c16e8f09167ff5130205e6540dfbfbee6084735167adddb652182f23d5fec84",
	"expected.json.bz2": "0b315f9d6cb0e922d8e62eaecaea72c2f35bf4c8eaa8ff662d569604f2f51307",
}

// readACVP returns the JSON in a file of testdata/acvp, which is an array of a
// header and a body; it decodes the body.
func readACVP(t *testing.T, name string, body any) {
	t.Helper()
	packed, err := os.ReadFile("testdata/acvp/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(packed)); got != acvpFiles[name] {
		t.Fatalf("%s: SHA-256 %s, want %s", name, got, acvpFiles[name])
	}
	data, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil || len(parts) != 2 {
		t.Fatalf("%s: %d parts, %v", name, len(parts), err)
	}
	if err := json.Unmarshal(parts[1], body); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// An acvpCase is a prompt of the set together with its expected answer.
type acvpCase struct {
	id      int
	encrypt bool
	valid   bool
	vector
}

// acvpCases returns the whole set. It draws on SP 800-38D: additional data and
// texts of up to 8 KiB, tags of 12 to 16 bytes.
func acvpCases(t *testing.T) []acvpCase {
	t.Helper()
	var prompts struct {
		Algorithm  string
		TestGroups []struct {
			Direction, IVGen, TestType string
			IVLen, TagLen              int // in bits
			Tests                      []struct {
				TcID                      int
				Key, IV, AAD, PT, CT, Tag hexBytes
			}
		}
	}
	var answers struct {
		TestGroups []struct {
			Tests []struct {
				TcID        int
				PT, CT, Tag hexBytes
				TestPassed  *bool
			}
		}
	}
	readACVP(t, "vectors.json.bz2", &prompts)
	readACVP(t, "expected.json.bz2", &answers)
	if prompts.Algorithm != "ACVP-AES-GCM" {
		t.Fatalf("the set is for %s", prompts.Algorithm)
	}
	var cases []acvpCase
	for i, g := range prompts.TestGroups {
		if g.IVGen != "external" || g.TestType != "AFT" || g.IVLen != 8*gcm.NonceSize {
			t.Fatalf("group %d: nonces of %d bits, %s, test type %s", i, g.IVLen, g.IVGen, g.TestType)
		}
		for j, prompt := range g.Tests {
			answer := answers.TestGroups[i].Tests[j]
			if answer.TcID != prompt.TcID {
				t.Fatalf("tcId %d has the answer of %d", prompt.TcID, answer.TcID)
			}
			c := acvpCase{id: prompt.TcID, vector: vector{
				key: prompt.Key, nonce: prompt.IV, aad: prompt.AAD, tagSize: g.TagLen / 8,
			}}
			switch g.Direction {
			case "encrypt":
				c.encrypt, c.valid = true, true
				c.text = prompt.PT
				c.sealed = append(answer.CT, answer.Tag...)
			case "decrypt":
				c.valid = answer.TestPassed == nil || *answer.TestPassed
				c.text = answer.PT
				c.sealed = append(prompt.CT, prompt.Tag...)
			default:
				t.Fatalf("tcId %d: direction %q", c.id, g.Direction)
			}
			cases = append(cases, c)
		}
	}
	const count = 36
	if len(cases) != count {
		t.Fatalf("%d tests, want %d", len(cases), count)
	}
	return cases
}

func TestACVPAESGCM(t *testing.T) {
	cases := acvpCases(t)
	for _, backend := range asm.Backends() {
		t.Run(backend.String(), func(t *testing.T) {
			defer asm.Force(backend)()
			refused := 0
			for _, c := range cases {
				t.Run(fmt.Sprintf("tcId %d", c.id), func(t *testing.T) {
					a := newGCM(t, backend, c.key, len(c.nonce), c.tagSize)
					if !c.valid {
						refused++
						c.refuses(t, a)
						return
					}
					c.accepts(t, a)
					if len(c.aad) <= 8 && c.tagSize == gcm.TagSize {
						c.record(t, backend, true)
					}
					if c.tagSize == gcm.TagSize {
						return
					}
					// Most of the set has short tags, which no kernel makes. The
					// whole tag begins with the short one, so it tests kernels too.
					whole := newGCM(t, backend, c.key, len(c.nonce), gcm.TagSize)
					got := whole.Seal(nil, c.nonce, c.text, c.aad)
					if !bytes.Equal(got[:len(c.sealed)], c.sealed) {
						t.Fatalf("with a whole tag: got %s, want %s and more", brief(got), brief(c.sealed))
					}
					long := c.vector
					long.sealed, long.tagSize = got, gcm.TagSize
					long.accepts(t, whole)
					if len(c.aad) <= 8 {
						long.record(t, backend, true)
					}
				})
			}
			if refused != 4 {
				t.Errorf("%d tests were to be refused, want 4", refused)
			}
		})
	}
}
