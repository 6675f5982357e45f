package aead_test

import (
	"fmt"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// TestZeroValues uses values that no constructor made: a panic that says so.
func TestZeroValues(t *testing.T) {
	var p aead.Protector
	var s aead.Suite
	keys := aead.TrafficKeys{IV: make([]byte, aead.IVSize)}
	for name, call := range map[string]func(){
		"Protector.Seal":       func() { p.Seal(make([]byte, 1), nil, 0, 0) },
		"Protector.SealSplit":  func() { p.SealSplit(nil, nil, 0) },
		"Protector.SealGather": func() { p.SealGather(nil, nil, 0) },
		"Protector.OpenSplit":  func() { p.OpenSplit(nil, nil, 0) },
		"Suite.New":            func() { s.New(nil) },
		"NewProtector":         func() { aead.NewProtector(&s, keys) },
		"ResumeProtector":      func() { aead.ResumeProtector(nil, keys, 1) },
		"DeriveTrafficKeys":    func() { aead.DeriveTrafficKeys(nil, nil) },
		"NextTrafficSecret":    func() { aead.NextTrafficSecret(&s, nil) },
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "aead: ") {
					t.Errorf("%s: panic %q", name, text)
				}
			}()
			call()
		}()
	}
	if text := fmt.Sprint(&p); strings.Contains(text, "PANIC") {
		t.Errorf("prints as %s", text)
	}
	if p.Suite() != nil || p.Seq() != 0 || p.Overhead() != 0 {
		t.Errorf("suite %v, sequence number %d, overhead %d", p.Suite(), p.Seq(), p.Overhead())
	}
	p.Wipe()
}
