package gcm_test

import (
	"strings"
	"testing"

	"example.com/splitseal/gcm"
)

// TestZeroValues uses values that no constructor made, with arguments that fit the
// sizes such values have: a panic that says so, on every backend.
func TestZeroValues(t *testing.T) {
	var a gcm.AEAD
	var k gcm.RecordKey
	pieces := [][]byte{{1}, {2}}
	for name, call := range map[string]func(){
		"Seal":                 func() { a.Seal(nil, nil, []byte{1}, nil) },
		"Seal of nothing":      func() { a.Seal(nil, nil, nil, nil) },
		"SealGather":           func() { a.SealGather(nil, nil, pieces, nil) },
		"SealSplit":            func() { a.SealSplit(make([]byte, 2), nil, nil, nil) },
		"Open":                 func() { a.Open(nil, nil, []byte{1}, nil) },
		"OpenSplit":            func() { a.OpenSplit(nil, nil, []byte{1}, nil) },
		"OpenScatter":          func() { a.OpenScatter(pieces, nil, []byte{1, 2}, nil) },
		"RecordKey.Seal":       func() { k.Seal(make([]byte, 17), 0, nil, 1, gcm.AD{}) },
		"RecordKey.SealSplit":  func() { k.SealSplit(make([]byte, 17), 0, nil, gcm.AD{}) },
		"RecordKey.SealGather": func() { k.SealGather(make([]byte, 18), 0, pieces, gcm.AD{}) },
		"RecordKey.OpenSplit":  func() { k.OpenSplit(nil, 0, make([]byte, 17), gcm.AD{}) },
		"RecordKey.Reset":      func() { k.Reset(make([]byte, 16), make([]byte, 12)) },
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "gcm: ") {
					t.Errorf("%s: panic %q", name, text)
				}
			}()
			call()
		}()
	}
	k.Wipe()
	if a.Backend() != "portable" || k.Backend() != "portable" {
		t.Errorf("backends %s, %s", a.Backend(), k.Backend())
	}
}
