package gcm_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/aeadtest"
)

// oracleFor returns crypto/cipher's AES-GCM.
func oracleFor(tb testing.TB, key []byte, nonceSize, tagSize int) cipher.AEAD {
	tb.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		tb.Fatal(err)
	}
	var a cipher.AEAD
	if nonceSize != gcm.NonceSize {
		a, err = cipher.NewGCMWithNonceSize(block, nonceSize)
	} else {
		a, err = cipher.NewGCMWithTagSize(block, tagSize)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// TestContract runs the shared contract suite on every backend, key size, and
// some of the sizes that only crypto/cipher knows.
func TestContract(t *testing.T) {
	for _, backend := range backendNames() {
		for _, keySize := range []int{16, 24, 32} {
			key := filler("contract key", keySize)
			t.Run(fmt.Sprintf("%s/AES-%d", backend, 8*keySize), func(t *testing.T) {
				restore := forceBackend(t, backend)
				defer restore()
				a, err := gcm.New(key)
				if err != nil {
					t.Fatal(err)
				}
				if a.Backend() != backend || gcm.Backend() != backend {
					t.Fatalf("backends %q, %q, want %q", a.Backend(), gcm.Backend(), backend)
				}
				aeadtest.Run(t, aeadtest.Config{
					AEAD: a, Oracle: oracleFor(t, key, gcm.NonceSize, gcm.TagSize),
					ErrOpen: gcm.ErrOpen, Panics: "gcm: ",
				})
			})
			t.Run(fmt.Sprintf("%s/AES-%d/RecordKey", backend, 8*keySize), func(t *testing.T) {
				restore := forceBackend(t, backend)
				defer restore()
				iv := filler("contract iv", gcm.NonceSize)
				k, err := gcm.NewRecordKey(key, iv)
				if err != nil {
					t.Fatal(err)
				}
				if k.Backend() != backend {
					t.Fatalf("backend %q, want %q", k.Backend(), backend)
				}
				aeadtest.RunRecord(t, aeadtest.RecordConfig[gcm.AD]{
					Key: k, ADOf: gcm.ADOf, IV: iv, Oracle: oracleFor(t, key, gcm.NonceSize, gcm.TagSize),
					ErrOpen: gcm.ErrOpen, Panics: "gcm: ",
				})
			})
		}
	}
	key := filler("contract key", 16)
	for _, nonceSize := range []int{1, 16, 64} {
		t.Run(fmt.Sprintf("nonce of %d", nonceSize), func(t *testing.T) {
			a, err := gcm.NewWithNonceSize(key, nonceSize)
			if err != nil {
				t.Fatal(err)
			}
			aeadtest.Run(t, aeadtest.Config{
				AEAD: a, Oracle: oracleFor(t, key, nonceSize, gcm.TagSize),
				ErrOpen: gcm.ErrOpen, Panics: "gcm: ",
			})
		})
	}
	for _, tagSize := range []int{12, 15} {
		t.Run(fmt.Sprintf("tag of %d", tagSize), func(t *testing.T) {
			a, err := gcm.NewWithTagSize(key, tagSize)
			if err != nil {
				t.Fatal(err)
			}
			aeadtest.Run(t, aeadtest.Config{
				AEAD: a, Oracle: oracleFor(t, key, gcm.NonceSize, tagSize),
				ErrOpen: gcm.ErrOpen, Panics: "gcm: ",
			})
		})
	}
}

func TestConstructors(t *testing.T) {
	for n := range 65 {
		_, err := gcm.New(make([]byte, n))
		_, recordErr := gcm.NewRecordKey(make([]byte, n), make([]byte, 12))
		valid := n == 16 || n == 24 || n == 32
		if (err == nil) != valid || (recordErr == nil) != valid {
			t.Errorf("key of %d bytes: errors %v, %v", n, err, recordErr)
		}
		_, err = gcm.NewRecordKey(make([]byte, 16), make([]byte, n))
		if (err == nil) != (n == 12) {
			t.Errorf("IV of %d bytes: error %v", n, err)
		}
		a, err := gcm.NewWithNonceSize(make([]byte, 16), n)
		if (err == nil) != (n >= 1) || err == nil && (a.NonceSize() != n || a.Overhead() != 16) {
			t.Errorf("nonce size %d: error %v", n, err)
		}
		a, err = gcm.NewWithTagSize(make([]byte, 16), n)
		if (err == nil) != (n >= 12 && n <= 16) || err == nil && (a.NonceSize() != 12 || a.Overhead() != n) {
			t.Errorf("tag size %d: error %v", n, err)
		}
	}
	for _, n := range []int{-1, math.MinInt} {
		if _, err := gcm.NewWithNonceSize(make([]byte, 16), n); err == nil {
			t.Errorf("nonce size %d: no error", n)
		}
		if _, err := gcm.NewWithTagSize(make([]byte, 16), n); err == nil {
			t.Errorf("tag size %d: no error", n)
		}
	}
}

// TestKeysAreCopied changes the slices after the constructors have returned.
func TestKeysAreCopied(t *testing.T) {
	key, iv := filler("key", 16), filler("iv", 12)
	a, err := gcm.New(key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := gcm.NewRecordKey(key, iv)
	if err != nil {
		t.Fatal(err)
	}
	want := oracleFor(t, key, 12, 16).Seal(nil, iv, []byte("text"), nil)
	nonce := string(iv)
	clear(key)
	clear(iv)
	if got := a.Seal(nil, []byte(nonce), []byte("text"), nil); string(got) != string(want) {
		t.Error("AEAD changed with the caller's key")
	}
	got := make([]byte, len(want))
	k.SealSplit(got, 0, []byte("text"), gcm.AD{})
	if string(got) != string(want) {
		t.Error("RecordKey changed with the caller's key or IV")
	}
}

// TestTextLimit adds up pieces that share memory to lengths around the limit.
func TestTextLimit(t *testing.T) {
	if math.MaxInt < 1<<37 {
		t.Skip("a text of the limit's size does not fit an int")
	}
	a, err := gcm.New(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	k, err := gcm.NewRecordKey(make([]byte, 16), make([]byte, 12))
	if err != nil {
		t.Fatal(err)
	}
	nonce, out := make([]byte, 12), make([]byte, 64)
	mebi := make([]byte, 1<<20)
	pieces := make([][]byte, 1<<16)
	for i := range pieces {
		pieces[i] = mebi
	}
	last := len(pieces) - 1
	for _, over := range []int{1, 2, 15, 16, 31, 32} { // one byte over the limit to 2³⁶
		pieces[last] = mebi[:len(mebi)-32+over]
		mustPanic(t, "gcm: text too large", func() { a.SealGather(out[:0], nonce, pieces, nil) })
		mustPanic(t, "gcm: text too large", func() { k.SealGather(out, 0, pieces, gcm.AD{}) })
	}
	// At the limit the sum is valid; here it is just not the output's size.
	pieces[last] = mebi[:len(mebi)-32]
	mustPanic(t, "gcm: output is not the pieces and a tag long", func() { k.SealGather(out, 0, pieces, gcm.AD{}) })
	mustPanic(t, "gcm: pieces do not add up to the plaintext", func() { a.OpenScatter(pieces, nonce, out, nil) })
	if string(out) != string(make([]byte, 64)) {
		t.Error("output was written")
	}
}

// TestIntLimit adds up pieces that share memory to lengths around the largest int.
func TestIntLimit(t *testing.T) {
	if math.MaxInt > math.MaxInt32 {
		t.Skip("MaxTextSize comes before the largest int")
	}
	a, err := gcm.New(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	mebi := make([]byte, 1<<20)
	pieces := make([][]byte, 1<<11)
	for i := range pieces {
		pieces[i] = mebi
	}
	nonce, last := make([]byte, 12), len(pieces)-1
	mustPanic(t, "gcm: text too large", func() { a.SealGather(nil, nonce, pieces, nil) })
	for _, short := range []int{1, 2, 16} {
		pieces[last] = mebi[:len(mebi)-short]
		mustPanic(t, "gcm: output too large", func() { a.SealGather(nil, nonce, pieces, nil) })
	}
}

func TestWipe(t *testing.T) {
	k, err := gcm.NewRecordKey(filler("key", 16), filler("iv", 12))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 17)
	k.Seal(out, 0, nil, 1, gcm.AD{})
	k.Wipe()
	k.Wipe() // twice is fine
	const message = "gcm: RecordKey was wiped or not made by NewRecordKey"
	for _, k := range []*gcm.RecordKey{k, new(gcm.RecordKey)} {
		mustPanic(t, message, func() { k.Seal(out, 1, nil, 1, gcm.AD{}) })
		mustPanic(t, message, func() { k.SealSplit(out, 1, nil, gcm.AD{}) })
		mustPanic(t, message, func() { k.SealGather(out, 1, [][]byte{{1}}, gcm.AD{}) })
		mustPanic(t, message, func() { k.OpenSplit(nil, 1, out, gcm.AD{}) })
	}
}

// TestResetFails leaves no key behind: with the key before, numbers that begin again
// would make the same nonces.
func TestResetFails(t *testing.T) {
	for _, backend := range backendNames() {
		restore := forceBackend(t, backend)
		for _, sizes := range [][2]int{{0, 12}, {15, 12}, {33, 12}, {16, 0}, {16, 11}, {16, 13}} {
			k, err := gcm.NewRecordKey(filler("key", 16), filler("iv", 12))
			if err != nil {
				t.Fatal(err)
			}
			key, iv := filler("another key", sizes[0]), filler("another iv", sizes[1])
			_, want := gcm.NewRecordKey(key, iv)
			if err := k.Reset(key, iv); err == nil || err != want {
				t.Errorf("%s: Reset with a key and an IV of %v bytes: %v, want %v", backend, sizes, err, want)
			}
			mustPanic(t, "gcm: RecordKey was wiped or not made by NewRecordKey", func() { k.Seal(make([]byte, 17), 0, nil, 1, gcm.AD{}) })
			if err := k.Reset(filler("key", 16), filler("iv", 12)); err != nil {
				t.Fatal(err)
			}
			k.Seal(make([]byte, 17), 0, nil, 1, gcm.AD{})
		}
		restore()
	}
}

// TestCopiesAreWiped copies RecordKeys out of vet's sight, and puts the copies back.
// With a key of its own a copy would outlive Wipe without its powers of H for long
// texts: with zeros for them, anybody can forge.
func TestCopiesAreWiped(t *testing.T) {
	for _, backend := range backendNames() {
		restore := forceBackend(t, backend)
		for _, wipeCopy := range []bool{false, true} {
			k, err := gcm.NewRecordKey(filler("key", 16), filler("iv", 12))
			if err != nil {
				t.Fatal(err)
			}
			out, text := make([]byte, 1017), filler("text", 1000)
			k.Seal(out, 0, text, 23, gcm.AD{})
			k.Seal(out, 1, text, 23, gcm.AD{}) // the second long text makes the table
			want := bytes.Clone(out)
			copied := reflect.New(reflect.TypeFor[gcm.RecordKey]())
			copied.Elem().Set(reflect.ValueOf(k).Elem())
			c := copied.Interface().(*gcm.RecordKey)
			if c.Seal(out, 1, text, 23, gcm.AD{}); !bytes.Equal(out, want) || c.Backend() != backend {
				t.Errorf("%s: a copy seals to something else", backend)
			}
			if wipeCopy {
				c.Wipe()
			} else {
				k.Wipe()
			}
			for range 2 {
				for _, k := range []*gcm.RecordKey{k, c} {
					const message = "gcm: RecordKey was wiped or not made by NewRecordKey"
					mustPanic(t, message, func() { k.Seal(out, 2, text, 23, gcm.AD{}) })
					mustPanic(t, message, func() { k.OpenSplit(nil, 1, out, gcm.AD{}) })
				}
				reflect.ValueOf(k).Elem().Set(copied.Elem())
			}
		}
		restore()
	}
}

// TestPrintsNoKey prints keys with verbs that fit and verbs that do not: by themselves,
// where Format is called, and in what holds pointers to them, where it may not be and fmt
// shows unexported fields. It does not cover what Format's comments exclude.
func TestPrintsNoKey(t *testing.T) {
	// The first round key, which is the key for AES-128 and an IV of zeros.
	key := []byte("\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90")
	verbs := []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q", "%t", "%f", "%p", "%w"}
	var secrets []string
	for _, verb := range verbs {
		begin := strings.TrimRight(fmt.Sprintf(verb, [4]byte(key)), "]}\")")
		secrets = append(secrets, begin[strings.LastIndexAny(begin, "[{(\"")+1:])
	}
	holdsKey := func(text string) bool {
		return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
	}
	for _, backend := range backendNames() {
		restore := forceBackend(t, backend)
		a, err := gcm.New(key)
		if err != nil {
			t.Fatal(err)
		}
		k, err := gcm.NewRecordKey(key, make([]byte, 12))
		if err != nil {
			t.Fatal(err)
		}
		restore()
		for _, verb := range verbs {
			if text := fmt.Sprintf(verb, struct{ b, c any }{[16]byte(key), &key}); !holdsKey(text) {
				t.Fatalf("%s: the key is not found in %s", verb, text)
			}
			for _, v := range []any{a, *a, k} {
				name := "gcm.AEAD("
				if v == any(k) {
					name = "gcm.RecordKey("
				}
				// What prints for a verb that is none is up to fmt.
				if got, want := fmt.Sprintf(verb, v), name+backend+")"; got != want && verb != "%p" && verb != "%w" {
					t.Errorf("%s of a %T: %s", verb, v, got)
				}
			}
			type inner struct {
				A *gcm.AEAD
				K *gcm.RecordKey
				a *gcm.AEAD
				k *gcm.RecordKey
			}
			in := inner{a, k, a, k}
			for _, v := range []any{a, *a, k, in, &in, []inner{in}, map[string]*gcm.AEAD{"": a}, struct{ in inner }{in},
				struct{ *gcm.AEAD }{a}, struct{ a cipher.AEAD }{a}} {
				if text := fmt.Sprintf(verb, v); holdsKey(text) {
					t.Errorf("%s of a %T shows the key: %s", verb, v, text)
				}
			}
			if text := fmt.Sprintf(verb, reflect.ValueOf(k).Elem().Interface()); holdsKey(text) && strings.Contains("%v%+v%#v%x%d", verb) {
				t.Errorf("%s of a copied RecordKey shows the key: %s", verb, text)
			}
		}
	}
}

// TestFIPS140Only runs the constructors, and crypto/cipher's, in a process with
// GODEBUG=fips140=only.
func TestFIPS140Only(t *testing.T) {
	if os.Getenv("GCM_TEST_FIPS140_ONLY") == "1" {
		key, iv := make([]byte, 16), make([]byte, 12)
		report := func(name string, err error) { fmt.Printf("%s: refused: %v\n", name, err != nil) }
		for _, backend := range backendNames() {
			restore := forceBackend(t, backend)
			_, err := gcm.New(key)
			report("New", err)
			_, err = gcm.NewWithNonceSize(key, 16)
			report("NewWithNonceSize", err)
			_, err = gcm.NewWithTagSize(key, 13)
			report("NewWithTagSize", err)
			_, err = gcm.NewRecordKey(key, iv)
			report("NewRecordKey", err)
			restore()
		}
		if b := gcm.Backend(); b != "none" {
			t.Errorf("backend %q", b)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = cipher.NewGCM(block)
		report("crypto/cipher.NewGCM", err)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFIPS140Only$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only", "GCM_TEST_FIPS140_ONLY=1")
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
	if n, want := strings.Count(string(out), "refused: true"), 4*len(backendNames())+1; n != want || strings.Contains(string(out), "refused: false") {
		t.Errorf("%d constructors refused, want %d\n%s", n, want, out)
	}
}

// TestVetFindsCopies lets go vet look at a program that copies a RecordKey.
func TestVetFindsCopies(t *testing.T) {
	out, err := exec.Command("go", "vet", "-copylocks", "./testdata/copies").CombinedOutput()
	if err == nil {
		t.Fatalf("go vet found nothing\n%s", out)
	}
	for _, want := range []string{
		"assignment copies lock value to copied: example.com/splitseal/gcm.RecordKey",
		"passes lock by value: example.com/splitseal/gcm.RecordKey",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("go vet did not say %q\n%s", want, out)
		}
	}
}

// TestNISTVectors checks test cases of the GCM submission to NIST (McGrew and
// Viega, "The Galois/Counter Mode of Operation", Appendix B), so that not all
// depends on crypto/cipher.
func TestNISTVectors(t *testing.T) {
	const (
		key   = "feffe9928665731c6d6a8f9467308308"
		text  = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
		ad    = "feedfacedeadbeeffeedfacedeadbeefabaddad2"
		nonce = "cafebabefacedbaddecaf888"
	)
	for _, v := range []struct{ name, key, nonce, text, ad, sealed string }{
		{"1", strings.Repeat("00", 16), strings.Repeat("00", 12), "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
		{"2", strings.Repeat("00", 16), strings.Repeat("00", 12), strings.Repeat("00", 16), "", "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"},
		{"4", key, nonce, text, ad, "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"},
		{"16", key + key, nonce, text, ad, "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"},
	} {
		for _, backend := range backendNames() {
			restore := forceBackend(t, backend)
			a, err := gcm.New(unhex(t, v.key))
			restore()
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Seal(nil, unhex(t, v.nonce), unhex(t, v.text), unhex(t, v.ad)); hex.EncodeToString(got) != v.sealed {
				t.Errorf("%s: test case %s: got %x", backend, v.name, got)
			}
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustPanic(t *testing.T, message string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if e := recover(); e != message {
			t.Errorf("panic %v, want %q", e, message)
		}
	}()
	f()
}
