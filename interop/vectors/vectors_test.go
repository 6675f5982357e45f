package vectors

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/asm"
	"example.com/splitseal/internal/require"
)

func TestRequiredBackends(t *testing.T) {
	var names []string
	for _, b := range asm.Backends() {
		names = append(names, b.String())
	}
	t.Logf("backends under test: %v", names)
	require.Backends(t, names)
}

// A vector is one message and what it seals to.
type vector struct {
	key, nonce, aad, text []byte
	sealed                []byte // ciphertext ‖ tag
	tagSize               int
}

// splits are where the split calls cut a text of n bytes.
func splits(n int) []int {
	all := []int{0, 1, n / 3, n - 17, n - 16, n - 1, n}
	var some []int
	for _, p := range all {
		if p >= 0 && p <= n && (len(some) == 0 || some[len(some)-1] != p) {
			some = append(some, p)
		}
	}
	return some
}

// pieces cuts b at a and at a second point behind it.
func pieces(b []byte, a int) [][]byte {
	c := a + (len(b)-a)/2
	return [][]byte{b[:a], nil, b[a:c], b[c:]}
}

// accepts checks that every call of a turns v's text into what it should, and
// back.
func (v *vector) accepts(t *testing.T, a aead.Gatherer) {
	t.Helper()
	same := func(call string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: got %s, want %s", call, brief(got), brief(want))
		}
	}
	ok := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
	}
	n := len(v.text)
	same("Seal", a.Seal(nil, v.nonce, v.text, v.aad), v.sealed)
	text, err := a.Open(nil, v.nonce, v.sealed, v.aad)
	ok("Open", err)
	same("Open", text, v.text)
	buf := make([]byte, n, n+v.tagSize)
	copy(buf, v.text)
	same("Seal in place", a.Seal(buf[:0], v.nonce, buf, v.aad), v.sealed)
	buf = buf[:n+v.tagSize]
	text, err = a.Open(buf[:0], v.nonce, buf, v.aad)
	ok("Open in place", err)
	same("Open in place", text, v.text)
	for _, p := range splits(n) {
		copy(buf[p:], v.text[p:])
		a.SealSplit(buf, v.nonce, v.text[:p], v.aad)
		same("SealSplit", buf, v.sealed)
		prefix := make([]byte, p)
		ok("OpenSplit", a.OpenSplit(prefix, v.nonce, buf, v.aad))
		same("OpenSplit, prefix", prefix, v.text[:p])
		same("OpenSplit, rest", buf[p:n], v.text[p:])
		same("SealGather", a.SealGather(nil, v.nonce, pieces(v.text, p), v.aad), v.sealed)
		out := make([]byte, n)
		ok("OpenScatter", a.OpenScatter(pieces(out, p), v.nonce, bytes.Clone(v.sealed), v.aad))
		same("OpenScatter", out, v.text)
	}
}

// refuses checks that every open call of a refuses v, and gives out zeros.
func (v *vector) refuses(t *testing.T, a aead.Gatherer) {
	t.Helper()
	refused := func(call string, err error, out ...[]byte) {
		t.Helper()
		if !errors.Is(err, aead.ErrOpen) {
			t.Fatalf("%s: error %v, want aead.ErrOpen", call, err)
		}
		for _, b := range out {
			if len(bytes.Trim(b, "\x00")) != 0 {
				t.Fatalf("%s: output %s, want zeros", call, brief(b))
			}
		}
	}
	n := len(v.sealed) - v.tagSize
	out := bytes.Repeat([]byte{1}, n)
	_, err := a.Open(out[:0], v.nonce, v.sealed, v.aad)
	refused("Open", err, out)
	buf := bytes.Clone(v.sealed)
	_, err = a.Open(buf[:0], v.nonce, buf, v.aad)
	refused("Open in place", err, buf[:n])
	for _, p := range splits(n) {
		buf := bytes.Clone(v.sealed)
		prefix := bytes.Repeat([]byte{1}, p)
		refused("OpenSplit", a.OpenSplit(prefix, v.nonce, buf, v.aad), prefix, buf[p:n])
		out := bytes.Repeat([]byte{1}, n)
		refused("OpenScatter", a.OpenScatter(pieces(out, p), v.nonce, bytes.Clone(v.sealed), v.aad), out)
	}
}

// record checks the same with a RecordKey, for several ways to write the nonce
// as IV and number. v's additional data must fit an integer.
func (v *vector) record(t *testing.T, backend asm.Backend, valid bool) {
	t.Helper()
	var ad uint64
	for _, b := range v.aad {
		ad = ad<<8 | uint64(b)
	}
	n := len(v.sealed) - gcm.TagSize
	for _, seq := range []uint64{0, 1, 0x0123456789abcdef, 1<<64 - 1} {
		iv := bytes.Clone(v.nonce)
		binary.BigEndian.PutUint64(iv[4:], binary.BigEndian.Uint64(iv[4:])^seq)
		k, err := gcm.NewRecordKey(v.key, iv)
		if err != nil {
			t.Fatal(err)
		}
		if k.Backend() != backend.String() {
			t.Fatalf("a RecordKey of the backend %s, want %s", k.Backend(), backend)
		}
		for _, p := range splits(n) {
			buf := bytes.Clone(v.sealed)
			prefix := make([]byte, p)
			err := k.OpenSplit(prefix, seq, buf, gcm.ADOf(ad, len(v.aad)))
			if !valid {
				if !errors.Is(err, gcm.ErrOpen) {
					t.Fatalf("RecordKey.OpenSplit: error %v, want gcm.ErrOpen", err)
				}
				continue
			}
			if err != nil || !bytes.Equal(prefix, v.text[:p]) || !bytes.Equal(buf[p:n], v.text[p:]) {
				t.Fatalf("RecordKey.OpenSplit: %v, %s %s", err, brief(prefix), brief(buf[p:n]))
			}
			k.SealSplit(buf, seq, prefix, gcm.ADOf(ad, len(v.aad)))
			if !bytes.Equal(buf, v.sealed) {
				t.Fatalf("RecordKey.SealSplit: got %s, want %s", brief(buf), brief(v.sealed))
			}
			k.SealGather(buf, seq, pieces(v.text, p), gcm.ADOf(ad, len(v.aad)))
			if !bytes.Equal(buf, v.sealed) {
				t.Fatalf("RecordKey.SealGather: got %s, want %s", brief(buf), brief(v.sealed))
			}
		}
		if valid && n > 0 {
			buf := make([]byte, len(v.sealed))
			k.Seal(buf, seq, v.text[:n-1], v.text[n-1], gcm.ADOf(ad, len(v.aad)))
			if !bytes.Equal(buf, v.sealed) {
				t.Fatalf("RecordKey.Seal: got %s, want %s", brief(buf), brief(v.sealed))
			}
		}
	}
}

func brief(b []byte) string {
	if len(b) <= 40 {
		return hex.EncodeToString(b)
	}
	return hex.EncodeToString(b[:20]) + "..." + hex.EncodeToString(b[len(b)-20:])
}

// newGCM returns AES-GCM under the given backend. Sizes that kernels do not
// know must come from the portable one.
func newGCM(t *testing.T, backend asm.Backend, key []byte, nonceSize, tagSize int) *gcm.AEAD {
	t.Helper()
	defer asm.Force(backend)()
	var a *gcm.AEAD
	var err error
	switch {
	case nonceSize != gcm.NonceSize:
		a, err = gcm.NewWithNonceSize(key, nonceSize)
	case tagSize != gcm.TagSize:
		a, err = gcm.NewWithTagSize(key, tagSize)
	default:
		a, err = gcm.New(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := backend
	if nonceSize != gcm.NonceSize || tagSize != gcm.TagSize {
		want = asm.Portable
	}
	if a.Backend() != want.String() {
		t.Fatalf("an AEAD of the backend %s, want %s", a.Backend(), want)
	}
	return a
}
