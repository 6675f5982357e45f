package record

import (
	"bytes"
	"slices"
	"testing"

	"example.com/splitseal/aead"
)

// sealing and opening are what I/O layers see of a Sealer and an Opener.
type sealing interface {
	Seal(dst []byte, typ ContentType, content []byte) ([]byte, error)
	SealGather(dst []byte, typ ContentType, pieces [][]byte) ([]byte, error)
}

type opening interface {
	OpenTo(dst, in []byte) (Record, int, error)
}

// TestAllocs holds the number of allocations per record at zero in steady state,
// called directly and through an interface, for every suite, size, and shape.
func TestAllocs(t *testing.T) {
	for _, suite := range suitesWithoutAllocations(t) {
		for _, padding := range []int{0, 40} {
			for _, size := range []int{0, 64, 1350, 16000} {
				s := newTestSealer(t, suite, EpochApplication, SealerConfig{Padding: func(int) int { return padding }})
				o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
				content := bytes.Repeat([]byte{7}, size)
				var si sealing = s
				var oi opening = o
				dst := make([]byte, 0, MaxRecordSize)
				out := make([]byte, MaxContentSize)
				pieces := [][]byte{content[:size/3], content[size/3 : size/2], nil, content[size/2:]}
				open := func(rec []byte, err error) {
					if err != nil {
						t.Fatal(err)
					}
					got, need, err := oi.OpenTo(out[:min(len(out), 1000)], rec)
					if err != nil || need != 0 || len(got.Content)+len(got.Rest) != size {
						t.Fatalf("%+v, %d, %v", got, need, err)
					}
					o.idle = 0
				}
				for name, f := range map[string]func(){
					"Seal":              func() { open(s.Seal(dst, ContentTypeApplicationData, content)) },
					"Seal, interface":   func() { open(si.Seal(dst, ContentTypeApplicationData, content)) },
					"gather":            func() { open(s.SealGather(dst, ContentTypeApplicationData, pieces)) },
					"gather, interface": func() { open(si.SealGather(dst, ContentTypeApplicationData, pieces)) },
					"in place": func() {
						copy(dst[HeaderSize:cap(dst)], content)
						open(s.Seal(dst, ContentTypeApplicationData, dst[HeaderSize:HeaderSize+size]))
					},
					"user_canceled": func() {
						rec, err := s.SealAlert(dst, AlertUserCanceled)
						if err != nil {
							t.Fatal(err)
						}
						if _, _, err := oi.OpenTo(out, rec); err != nil {
							t.Fatal(err)
						}
						o.idle, o.canceled = 0, 0
					},
				} {
					if n := testing.AllocsPerRun(20, f); n != 0 {
						t.Errorf("%v, %d bytes, padding %d: %s: %v allocations", suite, size, padding, name, n)
					}
				}
			}
		}
	}
	// Without keys.
	s, o := NewSealer(SealerConfig{}), NewOpener(OpenerConfig{})
	dst, m := make([]byte, 0, 1000), message(11, 500)
	if n := testing.AllocsPerRun(20, func() {
		rec, err := s.Seal(dst, ContentTypeHandshake, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := o.Open(rec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("without keys: %v allocations", n)
	}
}

// suitesWithoutAllocations are those whose AEAD itself allocates nothing: x/crypto's
// ChaCha20-Poly1305 allocates where it has no assembly.
func suitesWithoutAllocations(t *testing.T) []*aead.Suite {
	return slices.DeleteFunc(aead.Suites(), func(suite *aead.Suite) bool {
		a, err := suite.New(make([]byte, suite.KeySize()))
		if err != nil {
			t.Fatal(err)
		}
		buf, nonce := make([]byte, 64, 128), make([]byte, a.NonceSize())
		n := testing.AllocsPerRun(20, func() { a.Seal(buf[:0], nonce, buf, nil) })
		if n > 0 {
			if suite == aead.AES128GCM() || suite == aead.AES256GCM() {
				t.Errorf("%v: its AEAD allocates %v times", suite, n)
			}
			t.Logf("%v is left out: its AEAD allocates %v times", suite, n)
		}
		return n > 0
	})
}
