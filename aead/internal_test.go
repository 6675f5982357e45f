package aead

import (
	"crypto"
	"strings"
	"testing"

	"example.com/splitseal/gcm"
)

// TestWipeErases looks at what a Protector that was wiped has held. Package gcm looks
// at the memory of a RecordKey.
func TestWipeErases(t *testing.T) {
	key, iv := []byte("0123456789abcdef0123456789abcdef"), []byte("0123456789ab")
	foreign := NewSuite(SuiteParams{
		ID: 1, Name: "foreign", KeySize: 16, TagSize: 16, Hash: crypto.SHA256, RecordLimit: 1,
		New: aes128GCM.p.New,
	})
	for _, s := range []*Suite{aes128GCM, aes256GCM, foreign} {
		p, err := NewProtector(s, TrafficKeys{Key: key[:s.p.KeySize], IV: iv})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Seal(make([]byte, 17), nil, 23, 5); err != nil {
			t.Fatal(err)
		}
		record, other := p.state.record, p.state.other
		if (record == nil) != (s == foreign) || (other == nil) == (s == foreign) {
			t.Fatalf("%v: keys %v and %v", s, record, other)
		}
		p.Wipe()
		if p.state.record != nil || p.state.other != nil {
			t.Errorf("%v: the key is kept", s)
		}
		if other != nil && *other != (otherKey{}) {
			t.Errorf("%v: left: %x", s, *other)
		}
		if record != nil {
			message := func() (message any) {
				defer func() { message = recover() }()
				record.Seal(make([]byte, 17), 6, nil, 23, gcm.AD{})
				return nil
			}()
			if text, _ := message.(string); !strings.HasPrefix(text, "gcm: RecordKey was wiped") {
				t.Errorf("%v: the key still seals: %v", s, message)
			}
		}
	}
}
