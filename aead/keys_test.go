package aead_test

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Secrets of RFC 8448, Section 3, "Simple 1-RTT Handshake".
const (
	serverHandshakeSecret   = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38"
	clientHandshakeSecret   = "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21"
	serverApplicationSecret = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643"
	clientApplicationSecret = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"
)

// TestDeriveTrafficKeys checks the keys of RFC 8448, Section 3.
func TestDeriveTrafficKeys(t *testing.T) {
	for _, v := range []struct{ name, secret, key, iv string }{
		{"server handshake", serverHandshakeSecret, "3fce516009c21727d0f2e4e86ee403bc", "5d313eb2671276ee13000b30"},
		{"client handshake", clientHandshakeSecret, "dbfaa693d1762c5b666af5d950258d01", "5bd3c71b836e0b76bb73265f"},
		{"server application", serverApplicationSecret, "9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984"},
		{"client application", clientApplicationSecret, "17422dda596ed5d9acd890e3c63f5051", "5b78923dee08579033e523d9"},
	} {
		secret := unhex(t, v.secret)
		keys, err := aead.DeriveTrafficKeys(aead.AES128GCM(), secret)
		if err != nil {
			t.Fatal(err)
		}
		if hex.EncodeToString(keys.Key) != v.key || hex.EncodeToString(keys.IV) != v.iv {
			t.Errorf("%s: got %x, %x", v.name, keys.Key, keys.IV)
		}
		if hex.EncodeToString(secret) != v.secret {
			t.Errorf("%s: the secret was changed", v.name)
		}
	}
}

// TestExpandLabel checks values of RFC 8448, Section 3, with contexts of
// several lengths.
func TestExpandLabel(t *testing.T) {
	const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, v := range []struct{ secret, label, context, want string }{
		{
			"33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a", "derived", emptyHash,
			"6f2615a108c702c5678f54fc9dbab69716c076189c48250cebeac3576c3611ba",
		},
		{serverHandshakeSecret, "finished", "", "008d3b66f816ea559f96b537e885c31fc068bf492c652f01f288a1d8cdc19fc8"},
		{
			"7df235f2031d2a051287d02b0241b0bfdaf86cc856231f2d5aba46c434ec196c", "resumption", "0000",
			"4ecd0eb6ec3b4d87f5d6028f922ca4c5851a277fd41311c9e62d2c9492e1c4f3",
		},
	} {
		got, err := aead.ExpandLabel(crypto.SHA256, unhex(t, v.secret), v.label, unhex(t, v.context), 32)
		if err != nil {
			t.Fatal(err)
		}
		if hex.EncodeToString(got) != v.want {
			t.Errorf("%s: got %x, want %s", v.label, got, v.want)
		}
	}
}

// expand is HKDF-Expand-Label by hand.
func expand(h crypto.Hash, secret []byte, label, context string, length int) []byte {
	info := string([]byte{byte(length >> 8), byte(length), byte(len(label) + 6)}) + "tls13 " + label +
		string([]byte{byte(len(context))}) + context
	var out, block []byte
	for i := byte(1); len(out) < length; i++ {
		mac := hmac.New(h.New, secret)
		mac.Write(block)
		mac.Write([]byte(info))
		mac.Write([]byte{i})
		block = mac.Sum(nil)
		out = append(out, block...)
	}
	return out[:length]
}

// TestExpandLabelByHand compares with HMAC, for both hashes and at the limits
// of all lengths.
func TestExpandLabelByHand(t *testing.T) {
	for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384} {
		secret := filler("secret", h.Size())
		for _, v := range []struct {
			label, context string
			length         int
		}{
			{"key", "", 16},
			{"traffic upd", "", h.Size()},
			{"x", "context", 1},
			{"x", "", 0},
			{strings.Repeat("l", 249), strings.Repeat("c", 255), 300},
			{"long", "", 255 * h.Size()},
		} {
			got, err := aead.ExpandLabel(h, secret, v.label, []byte(v.context), v.length)
			if err != nil {
				t.Fatal(err)
			}
			if want := expand(h, secret, v.label, v.context, v.length); !bytes.Equal(got, want) {
				t.Errorf("%v, %q, %d bytes: got %x, want %x", h, v.label, v.length, got, want)
			}
		}
		for _, v := range []struct {
			label, context string
			length         int
		}{
			{"", "", 16},
			{strings.Repeat("l", 250), "", 16},
			{strings.Repeat("l", 1000), "", 16},
			{"key", strings.Repeat("c", 256), 16},
			{"key", "", -1},
			{"key", "", 255*h.Size() + 1},
			{"key", "", 1 << 16},
		} {
			if got, err := aead.ExpandLabel(h, secret, v.label, []byte(v.context), v.length); err == nil {
				t.Errorf("label of %d, context of %d, length %d: no error, %d bytes", len(v.label), len(v.context), v.length, len(got))
			}
		}
	}
}

func TestNextTrafficSecret(t *testing.T) {
	for _, s := range aead.Suites() {
		secret := filler("secret", s.Hash().Size())
		got, err := aead.NextTrafficSecret(s, secret)
		if err != nil {
			t.Fatal(err)
		}
		if want := expand(s.Hash(), secret, "traffic upd", "", s.Hash().Size()); !bytes.Equal(got, want) {
			t.Errorf("%v: got %x, want %x", s, got, want)
		}
		if !bytes.Equal(secret, filler("secret", s.Hash().Size())) {
			t.Errorf("%v: the secret was changed", s)
		}
	}
}

func TestSecretSize(t *testing.T) {
	for _, s := range aead.Suites() {
		for n := range 100 {
			_, err := aead.DeriveTrafficKeys(s, make([]byte, n))
			_, nextErr := aead.NextTrafficSecret(s, make([]byte, n))
			if valid := n == s.Hash().Size(); (err == nil) != valid || (nextErr == nil) != valid {
				t.Errorf("%v: secret of %d bytes: %v, %v", s, n, err, nextErr)
			}
		}
	}
}

// TestTrafficKeysPrintNothing prints keys in every way that could show them.
func TestTrafficKeysPrintNothing(t *testing.T) {
	keys := aead.TrafficKeys{Key: []byte("kkkkkkkkkkkkkkkk"), IV: []byte("iiiiiiiiiiii")}
	holder := struct{ Keys aead.TrafficKeys }{keys}
	var logged bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // its digits could be those of a secret
		}
		return a
	}}
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, options), slog.NewJSONHandler(&logged, options)} {
		slog.New(h).Info("keys", "keys", keys, "pointer", &keys, "holder", holder)
	}
	printed := logged.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q", "%c", "%U"} {
		for _, v := range []any{keys, &keys, holder, []aead.TrafficKeys{keys}} {
			printed += fmt.Sprintf(verb, v) + "\n"
		}
	}
	printed += keys.String()
	for _, secret := range []string{"kkk", "iii", "6b6b", "6B6B", "6969", "107", "105", "a2tr", "aWlp", "U+006B"} {
		if strings.Contains(printed, secret) {
			t.Errorf("%q is printed:\n%s", secret, printed)
		}
	}
	for _, v := range []any{keys, &keys, holder} {
		if out, err := json.Marshal(v); err != nil || !strings.Contains(string(out), `"aead.TrafficKeys(redacted)"`) || strings.Contains(string(out), "a2tr") {
			t.Errorf("marshals to %s: %v", out, err)
		}
		var out bytes.Buffer
		if err := gob.NewEncoder(&out).Encode(v); err == nil || bytes.Contains(out.Bytes(), keys.Key) {
			t.Errorf("goes into gob as %q: %v", out.Bytes(), err)
		}
	}
}

func TestTrafficKeysWipe(t *testing.T) {
	keys := aead.TrafficKeys{Key: filler("key", 16), IV: filler("iv", 12)}
	keys.Wipe()
	if !bytes.Equal(keys.Key, make([]byte, 16)) || !bytes.Equal(keys.IV, make([]byte, 12)) {
		t.Error("not wiped")
	}
}
