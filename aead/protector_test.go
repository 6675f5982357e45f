package aead_test

import (
	"bytes"
	"crypto"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// adapted returns a suite like s whose AEAD is not gcm's, so that it takes the
// way of suites from other modules, through wrap.
func adapted(tb testing.TB, s *aead.Suite, wrap func(cipher.AEAD) cipher.AEAD) *aead.Suite {
	return aead.NewSuite(aead.SuiteParams{
		ID: s.ID(), Name: s.Name() + " adapted", KeySize: s.KeySize(), TagSize: s.TagSize(), Hash: s.Hash(),
		RecordLimit: s.RecordLimit(),
		New:         func(key []byte) (cipher.AEAD, error) { return wrap(oracleFor(tb, s, key)), nil },
	})
}

func unwrapped(a cipher.AEAD) cipher.AEAD { return a }

// allSuites returns the suites under test.
func allSuites(tb testing.TB) []*aead.Suite {
	return append(aead.Suites(), adapted(tb, aead.AES128GCM(), unwrapped), adapted(tb, aead.AES256GCM(), unwrapped))
}

func keysFor(tb testing.TB, s *aead.Suite) aead.TrafficKeys {
	tb.Helper()
	keys, err := aead.DeriveTrafficKeys(s, filler("traffic secret", s.Hash().Size()))
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func newProtector(tb testing.TB, s *aead.Suite, seq uint64) *aead.Protector {
	tb.Helper()
	p, err := aead.ResumeProtector(s, keysFor(tb, s), seq)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// header returns a record header for a body of n bytes, as an integer and as sent.
func header(n int) (uint64, []byte) {
	h := 0x17_0303<<16 | uint64(n)
	return h, binary.BigEndian.AppendUint64(nil, h)[3:]
}

// sealByHand returns what RFC 9846, Sections 5.2 and 5.3, say.
func sealByHand(tb testing.TB, s *aead.Suite, seq uint64, inner []byte) []byte {
	tb.Helper()
	keys := keysFor(tb, s)
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[4:], seq)
	for i := range nonce {
		nonce[i] ^= keys.IV[i]
	}
	base := s
	if s.Hash() == crypto.SHA256 && s.KeySize() == 16 {
		base = aead.AES128GCM()
	}
	_, ad := header(len(inner) + s.TagSize())
	return oracleFor(tb, base, keys.Key).Seal(nil, nonce, inner, ad)
}

// TestRFC8448 seals and opens records of RFC 8448, Section 3, both ways.
func TestRFC8448(t *testing.T) {
	text := make([]byte, 50)
	for i := range text {
		text[i] = byte(i)
	}
	for _, v := range []struct {
		name, secret string
		seq          uint64
		content      []byte
		contentType  byte
		record       string
	}{
		{"client application data", clientApplicationSecret, 0, text, 23, "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4"},
		{"client close_notify", clientApplicationSecret, 1, []byte{1, 0}, 21, "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3"},
		{"server application data", serverApplicationSecret, 1, text, 23, "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d"},
		{"server close_notify", serverApplicationSecret, 2, []byte{1, 0}, 21, "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9"},
	} {
		t.Run(v.name, func(t *testing.T) {
			keys, err := aead.DeriveTrafficKeys(aead.AES128GCM(), unhex(t, v.secret))
			if err != nil {
				t.Fatal(err)
			}
			record := unhex(t, v.record)
			head := uint64(record[0])<<32 | uint64(binary.BigEndian.Uint32(record[1:]))
			for _, s := range []*aead.Suite{aead.AES128GCM(), adapted(t, aead.AES128GCM(), unwrapped)} {
				p, err := aead.ResumeProtector(s, keys, v.seq)
				if err != nil {
					t.Fatal(err)
				}
				body := make([]byte, len(v.content)+1+16)
				if err := p.Seal(body, v.content, v.contentType, head); err != nil || !bytes.Equal(body, record[5:]) {
					t.Errorf("%v: sealed to %x, %v", s, body, err)
				}
				if p, err = aead.ResumeProtector(s, keys, v.seq); err != nil {
					t.Fatal(err)
				}
				content := make([]byte, len(v.content))
				if err := p.OpenSplit(content, body, head); err != nil || !bytes.Equal(content, v.content) || body[len(content)] != v.contentType {
					t.Errorf("%v: opened to %x and type %d, %v", s, content, body[len(content)], err)
				}
			}
		})
	}
}

// TestProtector seals and opens a run of records in all ways.
func TestProtector(t *testing.T) {
	for _, s := range allSuites(t) {
		t.Run(s.Name(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			for _, start := range []uint64{0, 1<<32 - 20, 1<<64 - 100} {
				w, o := newProtector(t, s, start), newProtector(t, s, start)
				if w.Suite() != s || w.Overhead() != s.TagSize() {
					t.Errorf("suite %v, overhead %d", w.Suite(), w.Overhead())
				}
				for i := range uint64(60) {
					if w.Seq() != start+i || o.Seq() != start+i {
						t.Fatalf("at %d and %d, want %d", w.Seq(), o.Seq(), start+i)
					}
					n := r.IntN(200)
					if i%20 == 0 {
						n = 16384
					}
					content := filler("content", n)
					inner := append(bytes.Clone(content), 23)
					if i%4 > 1 {
						inner = append(inner, make([]byte, r.IntN(50))...) // padding
					}
					want := sealByHand(t, s, start+i, inner)
					head, _ := header(len(want))
					body := make([]byte, len(want))
					var err error
					switch i % 4 {
					case 0:
						err = w.Seal(body, content, 23, head)
					case 1:
						copy(body, content)
						err = w.Seal(body, body[:n], 23, head)
					case 2:
						body[n] = 23
						err = w.SealSplit(body, content, head)
					case 3:
						cut := r.IntN(n + 1)
						err = w.SealGather(body, [][]byte{content[:cut], nil, content[cut:], inner[n:]}, head)
					}
					if err != nil || !bytes.Equal(body, want) {
						t.Fatalf("record %d: error %v, or other bytes than by hand", start+i, err)
					}
					switch i % 3 {
					case 0: // in place
						err = o.OpenSplit(nil, body, head)
						content = body[:n]
					case 1: // content in place
						err = o.OpenSplit(body[:n], body, head)
						content = body[:n]
					case 2:
						got := make([]byte, n)
						err = o.OpenSplit(got, body, head)
						content = got
					}
					if err != nil || !bytes.Equal(content, inner[:n]) || !bytes.Equal(body[n:len(inner)], inner[n:]) {
						t.Fatalf("record %d: error %v, or opened to something else", start+i, err)
					}
				}
			}
		})
	}
}

// TestRefusals makes calls that must change neither memory nor the number.
func TestRefusals(t *testing.T) {
	for _, s := range allSuites(t) {
		t.Run(s.Name(), func(t *testing.T) {
			const n = 40
			tag := s.TagSize()
			for shift := -64; shift <= 64; shift++ {
				mem := filler("memory", 300)
				before := bytes.Clone(mem)
				body := mem[100 : 100+n+1+tag]
				content := mem[100+shift : 100+shift+n]
				overlaps := shift > -n && shift < n+1+tag
				for name, seal := range map[string]func(p *aead.Protector) error{
					"Seal":       func(p *aead.Protector) error { return p.Seal(body, content, 23, 0) },
					"SealSplit":  func(p *aead.Protector) error { return p.SealSplit(body, content, 0) },
					"SealGather": func(p *aead.Protector) error { return p.SealGather(body, [][]byte{content, {23}}, 0) },
					"Open":       func(p *aead.Protector) error { return p.OpenSplit(content, body, 0) },
				} {
					p := newProtector(t, s, 7)
					copy(mem, before)
					if !overlaps || shift == 0 {
						if err := seal(p); (err != nil) != (name == "Open") {
							t.Fatalf("%s at %d: %v", name, shift, err)
						}
						continue
					}
					mustPanic(t, "aead: ", name, func() { seal(p) })
					if p.Seq() != 7 || !bytes.Equal(mem, before) {
						t.Fatalf("%s at %d: number %d, or memory changed", name, shift, p.Seq())
					}
				}
			}

			p := newProtector(t, s, 7)
			body := filler("body", 100)
			before := bytes.Clone(body)
			long := make([]byte, 1<<16)
			refuse := func(name string, f func()) {
				t.Helper()
				mustPanic(t, "aead: ", name, f)
				if p.Seq() != 7 || !bytes.Equal(body, before) {
					t.Fatalf("%s: number %d, or memory changed", name, p.Seq())
				}
			}
			for n := range 100 {
				if n != 100-1-tag {
					refuse("content of the wrong size", func() { p.Seal(body, long[:n], 23, 0) })
				}
				if n > 100-tag {
					refuse("prefix too long", func() { p.SealSplit(body, long[:n], 0) })
					refuse("prefix too long", func() { p.OpenSplit(long[:n], body, 0) })
				}
				if n != 100-tag {
					refuse("pieces of the wrong size", func() { p.SealGather(body, [][]byte{long[:n/2], long[:n-n/2]}, 0) })
				}
			}
			for n := range tag + 1 {
				refuse("no room", func() { p.Seal(body[:n], nil, 23, 0) })
				if n < tag {
					refuse("no room", func() { p.SealSplit(body[:n], nil, 0) })
					refuse("no room", func() { p.SealGather(body[:n], nil, 0) })
				}
			}
			for _, head := range []uint64{1 << 40, 1 << 63, math.MaxUint64} {
				refuse("header", func() { p.Seal(body, long[:100-1-tag], 23, head) })
				refuse("header", func() { p.SealSplit(body, nil, head) })
				refuse("header", func() { p.SealGather(body, [][]byte{long[:100-tag]}, head) })
				refuse("header", func() { p.OpenSplit(nil, body, head) })
			}
			refuse("large body", func() { p.Seal(long, long[:1<<16-1-tag], 23, 0) })
			refuse("large body", func() { p.SealSplit(long, nil, 0) })
			refuse("large body", func() { p.SealGather(long, [][]byte{long[:1<<16-tag]}, 0) })
			refuse("large body", func() { p.OpenSplit(nil, long, 0) })
			largest := make([]byte, 1<<16-1)
			if err := p.Seal(largest, long[:len(largest)-1-tag], 23, 0); err != nil {
				t.Error(err)
			}
			if err := newProtector(t, s, p.Seq()-1).OpenSplit(nil, largest, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// RFC 9846, Section 5.3: "If a TLS implementation would need to wrap a sequence
// number, it MUST either rekey or terminate the connection."
func TestSequenceExhausted(t *testing.T) {
	for _, s := range allSuites(t) {
		t.Run(s.Name(), func(t *testing.T) {
			w, o := newProtector(t, s, math.MaxUint64-2), newProtector(t, s, math.MaxUint64-2)
			content := []byte("content")
			for range 2 {
				body := make([]byte, len(content)+1+s.TagSize())
				if err := w.Seal(body, content, 23, 0); err != nil {
					t.Fatal(err)
				}
				if err := o.OpenSplit(nil, body, 0); err != nil {
					t.Fatal(err)
				}
			}
			body := filler("body", len(content)+1+s.TagSize())
			before := bytes.Clone(body)
			for range 3 { // for good
				for name, err := range map[string]error{
					"Seal":       w.Seal(body, content, 23, 0),
					"SealSplit":  w.SealSplit(body, content, 0),
					"SealGather": w.SealGather(body, [][]byte{content, {23}}, 0),
					"Open":       o.OpenSplit(nil, body, 0),
				} {
					if !errors.Is(err, aead.ErrSequenceExhausted) {
						t.Errorf("%s: %v", name, err)
					}
				}
				if w.Seq() != math.MaxUint64 || o.Seq() != math.MaxUint64 || !bytes.Equal(body, before) {
					t.Error("number or memory changed")
				}
			}
		})
	}
}

// TestOpenFailures replays, reorders, cuts and flips, and opens under another
// key: the error is always the same, the output is zeros and the number stays.
func TestOpenFailures(t *testing.T) {
	for _, s := range allSuites(t) {
		t.Run(s.Name(), func(t *testing.T) {
			const n = 20
			w, o := newProtector(t, s, 0), newProtector(t, s, 0)
			var records [][]byte
			head, _ := header(n + 1 + s.TagSize())
			for i := range 3 {
				body := make([]byte, n+1+s.TagSize())
				if err := w.Seal(body, bytes.Repeat([]byte{byte(i + 1)}, n), 23, head); err != nil {
					t.Fatal(err)
				}
				records = append(records, body)
			}
			open := func(p *aead.Protector, head uint64, body []byte, want error) {
				t.Helper()
				body = bytes.Clone(body)
				before := bytes.Clone(body)
				prefix := filler("prefix", max(0, min(n, len(body)-s.TagSize())))
				seq := p.Seq()
				if err := p.OpenSplit(prefix, body, head); err != want {
					t.Fatalf("got error %v, want %v", err, want)
				}
				if want == nil {
					return
				}
				if p.Seq() != seq {
					t.Fatal("a failed open advanced the number")
				}
				if !bytes.Equal(prefix, make([]byte, len(prefix))) {
					t.Fatalf("prefix holds %x", prefix)
				}
				if text := len(body) - s.TagSize(); text > 0 {
					if !bytes.Equal(body[len(prefix):text], make([]byte, text-len(prefix))) {
						t.Fatalf("rest holds %x", body[len(prefix):text])
					}
					if !bytes.Equal(body[text:], before[text:]) {
						t.Fatal("the tag was changed")
					}
				} else if !bytes.Equal(body, before) {
					t.Fatal("a short body was changed")
				}
			}
			open(o, head, records[1], aead.ErrOpen) // reordered
			open(o, head, records[0], nil)
			open(o, head, records[0], aead.ErrOpen) // replayed
			open(o, head, records[2], aead.ErrOpen) // one is missing
			for bit := range 8 * len(records[1]) {
				forged := bytes.Clone(records[1])
				forged[bit/8] ^= 1 << (bit % 8)
				open(o, head, forged, aead.ErrOpen)
			}
			for bit := range 40 {
				open(o, head^1<<bit, records[1], aead.ErrOpen)
			}
			for cut := range records[1] {
				open(o, head, records[1][:cut], aead.ErrOpen)
			}
			open(o, head, append(bytes.Clone(records[1]), 0), aead.ErrOpen)
			keys := keysFor(t, s)
			keys.Key[0] ^= 1
			other, err := aead.ResumeProtector(s, keys, 1)
			if err != nil {
				t.Fatal(err)
			}
			open(other, head, records[1], aead.ErrOpen)
			keys.Key[0] ^= 1
			keys.IV[0] ^= 1
			if other, err = aead.ResumeProtector(s, keys, 1); err != nil {
				t.Fatal(err)
			}
			open(other, head, records[1], aead.ErrOpen)
			open(o, head, records[1], nil) // after all this, the genuine one
			open(o, head, records[2], nil)
		})
	}
}

// A watcher is an AEAD that records the nonces that it sealed under, and panics
// when told, before or after it has written its output.
type watcher struct {
	cipher.AEAD
	nonces *[]string
	panics *int // 0: no, 1: at once, 2: when done
}

func (a watcher) Seal(dst, nonce, plaintext, ad []byte) []byte {
	*a.nonces = append(*a.nonces, string(nonce))
	if *a.panics == 1 {
		panic("watcher")
	}
	out := a.AEAD.Seal(dst, nonce, plaintext, ad)
	if *a.panics == 2 {
		panic("watcher")
	}
	return out
}

func (a watcher) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	if *a.panics == 1 {
		panic("watcher")
	}
	out, err := a.AEAD.Open(dst, nonce, ciphertext, ad)
	if *a.panics == 2 {
		panic("watcher")
	}
	return out, err
}

// TestNonceUniqueness seals in all ways, with calls that are refused and an AEAD
// that panics in between. The caller recovers and goes on, and still no nonce
// repeats.
func TestNonceUniqueness(t *testing.T) {
	var nonces []string
	var panics int
	s := adapted(t, aead.AES128GCM(), func(a cipher.AEAD) cipher.AEAD { return watcher{a, &nonces, &panics} })
	p := newProtector(t, s, 0)
	r := rand.New(rand.NewPCG(5, 6))
	body, content := make([]byte, 40+1+16), make([]byte, 40)
	sealed := 0
	for range 5000 {
		panics = max(0, r.IntN(6)-3)
		seq, count := p.Seq(), len(nonces)
		refused := r.IntN(4) == 0
		out := body
		if refused {
			out = body[:r.IntN(len(body)-len(content)-1)+1] // not even a prefix fits
			if len(out) > 16 {
				out = out[:16]
			}
		}
		func() {
			defer func() { recover() }()
			switch r.IntN(3) {
			case 0:
				p.Seal(out, content, 23, 0)
			case 1:
				p.SealSplit(out, content, 0)
			case 2:
				p.SealGather(out, [][]byte{content, {23}}, 0)
			}
		}()
		switch {
		case refused && (p.Seq() != seq || len(nonces) != count):
			t.Fatalf("a refused call went from %d to %d", seq, p.Seq())
		case !refused && (p.Seq() != seq+1 || len(nonces) != count+1):
			t.Fatalf("a seal went from %d to %d (panic %d)", seq, p.Seq(), panics)
		case !refused:
			sealed++
		}
	}
	seen := map[string]bool{}
	for _, n := range nonces {
		if seen[n] {
			t.Fatalf("nonce %x repeats", n)
		}
		seen[n] = true
	}
	if len(seen) != sealed || sealed < 1000 {
		t.Errorf("%d nonces for %d seals", len(seen), sealed)
	}
}

// TestOpenPanics: an open that panics leaves the number and no plaintext.
func TestOpenPanics(t *testing.T) {
	var nonces []string
	var panics int
	s := adapted(t, aead.AES128GCM(), func(a cipher.AEAD) cipher.AEAD { return watcher{a, &nonces, &panics} })
	w, o := newProtector(t, s, 0), newProtector(t, s, 0)
	content := bytes.Repeat([]byte("content "), 5)
	sealed := make([]byte, len(content)+1+16)
	if err := w.Seal(sealed, content, 23, 0); err != nil {
		t.Fatal(err)
	}
	for panics = 1; panics <= 2; panics++ {
		body := bytes.Clone(sealed)
		mustPanic(t, "watcher", "Open", func() { o.OpenSplit(make([]byte, 8), body, 0) })
		if o.Seq() != 0 || bytes.Contains(body, content[:8]) {
			t.Errorf("number %d, body %q", o.Seq(), body)
		}
	}
	panics = 0
	if err := o.OpenSplit(nil, sealed, 0); err != nil || o.Seq() != 1 {
		t.Errorf("%v, number %d", err, o.Seq())
	}
}

// A spiller is a Gatherer that puts text into its output and then panics, without
// cleaning up.
type spiller struct{ aead.Gatherer }

func (s spiller) SealSplit(out, nonce, prefix, additionalData []byte) {
	copy(out, prefix)
	panic("spiller")
}

func (s spiller) SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte {
	for _, p := range pieces {
		dst = append(dst, p...)
	}
	panic("spiller")
}

func (s spiller) OpenSplit(prefix, nonce, buf, additionalData []byte) error {
	if err := s.Gatherer.OpenSplit(prefix, nonce, buf, additionalData); err != nil {
		return err
	}
	panic("spiller")
}

// TestPanicsInGatherer: not even an AEAD that is careless leaves text that is not
// sealed or not verified.
func TestPanicsInGatherer(t *testing.T) {
	s := adapted(t, aead.AES128GCM(), func(a cipher.AEAD) cipher.AEAD { return spiller{aead.Gather(a)} })
	content := bytes.Repeat([]byte("content "), 5)
	n := len(content) + 1 + 16
	p := newProtector(t, s, 0)
	for name, seal := range map[string]func(out []byte){
		"Seal":          func(out []byte) { p.Seal(out, content, 23, 0) },
		"Seal in place": func(out []byte) { copy(out, content); p.Seal(out, out[:len(content)], 23, 0) },
		"SealSplit":     func(out []byte) { copy(out[8:], content[8:]); p.SealSplit(out, content[:8], 0) },
		"SealGather":    func(out []byte) { p.SealGather(out, [][]byte{content[:8], content[8:], {23}}, 0) },
	} {
		out, seq := make([]byte, n), p.Seq()
		mustPanic(t, "spiller", name, func() { seal(out) })
		if p.Seq() != seq+1 || !bytes.Equal(out, make([]byte, n)) {
			t.Errorf("%s: number %d after %d, output %q", name, p.Seq(), seq, out)
		}
	}

	body := make([]byte, n)
	if err := newProtector(t, adapted(t, aead.AES128GCM(), unwrapped), 0).Seal(body, content, 23, 0); err != nil {
		t.Fatal(err)
	}
	o, prefix := newProtector(t, s, 0), make([]byte, 8)
	mustPanic(t, "spiller", "Open", func() { o.OpenSplit(prefix, body, 0) })
	if o.Seq() != 0 || !bytes.Equal(prefix, make([]byte, len(prefix))) || !bytes.Equal(body, make([]byte, n)) {
		t.Errorf("number %d, prefix %q, body %q", o.Seq(), prefix, body)
	}
}

// An astray is a Gatherer whose SealGather returns something else than it should.
type astray struct {
	aead.Gatherer
	returns func(dst, sealed []byte) []byte
}

func (a astray) SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte {
	return a.returns(dst, a.Gatherer.SealGather(nil, nonce, pieces, additionalData))
}

// TestSealGatherElsewhere: what stands in the output is not sealed if the AEAD put its
// ciphertext elsewhere, so no caller may take it for a record.
func TestSealGatherElsewhere(t *testing.T) {
	content := []byte("some content")
	for name, returns := range map[string]func(dst, sealed []byte) []byte{
		"new memory": func(dst, sealed []byte) []byte { return append(bytes.Clone(dst), sealed...) },
		"too short":  func(dst, sealed []byte) []byte { return append(dst, sealed[:len(sealed)-1]...) },
		"too long":   func(dst, sealed []byte) []byte { return append(append(dst, sealed...), 0) },
		"nothing":    func([]byte, []byte) []byte { return nil },
	} {
		s := adapted(t, aead.AES128GCM(), func(a cipher.AEAD) cipher.AEAD { return astray{aead.Gather(a), returns} })
		p, out := newProtector(t, s, 0), make([]byte, len(content)+1+16, 100)
		for seq := range uint64(2) {
			pieces := [][]byte{out[:len(content)], {23}} // content in place
			copy(out, content)
			mustPanic(t, "aead: AEAD did not put its output where it was told", name, func() { p.SealGather(out, pieces, 0) })
			if p.Seq() != seq+1 || !bytes.Equal(out, make([]byte, len(out))) {
				t.Errorf("%s: number %d after %d, output %q", name, p.Seq(), seq, out)
			}
		}
	}
}

// TestSealGatherLimitsCapacity: nor does an AEAD of another module get more room than
// the record.
func TestSealGatherLimitsCapacity(t *testing.T) {
	s := adapted(t, aead.AES128GCM(), func(a cipher.AEAD) cipher.AEAD {
		return astray{aead.Gather(a), func(dst, sealed []byte) []byte { fill(dst); return append(dst, sealed...) }}
	})
	content, canary := []byte("some content"), []byte("canary behind it")
	want := sealByHand(t, aead.AES128GCM(), 0, append(bytes.Clone(content), 23))
	head, _ := header(len(want))
	memory := append(make([]byte, len(want)), canary...)
	out := memory[:len(want)]
	if err := newProtector(t, s, 0).SealGather(out, [][]byte{content, {23}}, head); err != nil || !bytes.Equal(out, want) {
		t.Errorf("sealed to %x, %v", out, err)
	}
	if got := memory[len(want):]; !bytes.Equal(got, canary) {
		t.Errorf("written behind the record: %q", got)
	}
}

// A caller is a Gatherer that does something of its own first.
type caller struct {
	aead.Gatherer
	first *func()
}

func (c caller) SealSplit(out, nonce, prefix, additionalData []byte) {
	(*c.first)()
	c.Gatherer.SealSplit(out, nonce, prefix, additionalData)
}

func (c caller) SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte {
	(*c.first)()
	return c.Gatherer.SealGather(dst, nonce, pieces, additionalData)
}

func (c caller) OpenSplit(prefix, nonce, buf, additionalData []byte) error {
	(*c.first)()
	return c.Gatherer.OpenSplit(prefix, nonce, buf, additionalData)
}

// TestCalledByItsAEAD: an AEAD that calls the Protector that it works for gets a
// panic. If it recovers, what it was called for goes on under its own nonce and
// header, and else the Protector can be used afterwards.
func TestCalledByItsAEAD(t *testing.T) {
	var first func()
	base := aead.AES128GCM()
	s := adapted(t, base, func(a cipher.AEAD) cipher.AEAD { return caller{aead.Gather(a), &first} })
	p, seq := newProtector(t, s, 0), uint64(0)
	content := []byte("content")
	n := len(content) + 1 + s.TagSize()
	head, _ := header(n)
	calls := map[string]func(p *aead.Protector, head uint64, body []byte) error{
		"Seal": func(p *aead.Protector, head uint64, body []byte) error { return p.Seal(body, content, 23, head) },
		"SealSplit": func(p *aead.Protector, head uint64, body []byte) error {
			body[len(content)] = 23
			return p.SealSplit(body, content, head)
		},
		"SealGather": func(p *aead.Protector, head uint64, body []byte) error {
			return p.SealGather(body, [][]byte{content, {23}}, head)
		},
		"Open": func(p *aead.Protector, head uint64, body []byte) error { return p.OpenSplit(nil, body, head) },
		"Wipe": func(p *aead.Protector, head uint64, body []byte) error { p.Wipe(); return nil },
	}
	check := func(name string, call func(body []byte) error) {
		t.Helper()
		sealed, opened := sealByHand(t, base, seq, append(bytes.Clone(content), 23)), append(bytes.Clone(content), 23)
		body := make([]byte, n)
		if strings.HasPrefix(name, "Open") {
			copy(body, sealed)
			sealed = append(opened, sealed[len(opened):]...)
		}
		if err := call(body); err != nil || !bytes.Equal(body, sealed) {
			t.Errorf("%s, record %d: error %v, or other bytes than by hand", name, seq, err)
		}
		if seq++; p.Seq() != seq {
			t.Fatalf("%s: at %d, want %d", name, p.Seq(), seq)
		}
	}
	for outerName, outer := range calls {
		if outerName == "Wipe" {
			continue
		}
		for innerName, inner := range calls {
			name := outerName + " that calls " + innerName
			refused := func() {
				before := first
				defer func() { first = before }()
				first = func() {} // should it not be refused
				inner(copyOf(p), 1, make([]byte, n))
			}
			first = func() {
				mustPanic(t, "aead: Protector called by its own AEAD", name, refused)
				if want := seq; outerName == "Open" && p.Seq() != want || outerName != "Open" && p.Seq() != want+1 {
					t.Errorf("%s: at %d", name, p.Seq())
				}
			}
			check(name, func(body []byte) error { return outer(p, head, body) })

			first = refused
			body := make([]byte, n)
			mustPanic(t, "aead: Protector called by its own AEAD", name, func() { outer(p, head, body) })
			if !bytes.Equal(body, make([]byte, n)) {
				t.Errorf("%s: output %q", name, body)
			}
			if outerName != "Open" {
				seq++
			}
			first = func() {}
			check(outerName+" after that", func(body []byte) error { return outer(p, head, body) })
		}
	}
}

func TestNewProtectorErrors(t *testing.T) {
	for _, s := range allSuites(t) {
		for n := range 65 {
			if _, err := aead.NewProtector(s, aead.TrafficKeys{Key: make([]byte, n), IV: make([]byte, 12)}); (err == nil) != (n == s.KeySize()) {
				t.Errorf("%v: key of %d bytes: %v", s, n, err)
			}
			if _, err := aead.NewProtector(s, aead.TrafficKeys{Key: make([]byte, s.KeySize()), IV: make([]byte, n)}); (err == nil) != (n == 12) {
				t.Errorf("%v: IV of %d bytes: %v", s, n, err)
			}
		}
	}
	refuses := params()
	refuses.New = func([]byte) (cipher.AEAD, error) { return nil, errors.New("refused") }
	if _, err := aead.NewProtector(aead.NewSuite(refuses), aead.TrafficKeys{Key: make([]byte, 16), IV: make([]byte, 12)}); err == nil || err.Error() != "refused" {
		t.Errorf("got %v", err)
	}
}

// TestKeysAreCopied wipes the keys after the Protector was made.
func TestKeysAreCopied(t *testing.T) {
	for _, s := range allSuites(t) {
		keys := keysFor(t, s)
		p, err := aead.NewProtector(s, keys)
		if err != nil {
			t.Fatal(err)
		}
		keys.Wipe()
		want := sealByHand(t, s, 0, []byte("content\x17"))
		head, _ := header(len(want))
		body := make([]byte, len(want))
		if err := p.Seal(body, []byte("content"), 23, head); err != nil || !bytes.Equal(body, want) {
			t.Errorf("%v: got %x, %v", s, body, err)
		}
	}
}

func TestWipe(t *testing.T) {
	for _, s := range allSuites(t) {
		p := newProtector(t, s, 5)
		p.Wipe()
		p.Wipe() // twice is fine
		if p.Seq() != 5 || p.Suite() != s || p.Overhead() != s.TagSize() {
			t.Error("a wiped Protector lost more than its keys")
		}
		for _, p := range []*aead.Protector{p, new(aead.Protector)} {
			body := make([]byte, 1+s.TagSize())
			mustPanic(t, "aead: Protector was wiped", "Seal", func() { p.Seal(body, nil, 23, 0) })
			mustPanic(t, "aead: Protector was wiped", "SealSplit", func() { p.SealSplit(body, nil, 0) })
			mustPanic(t, "aead: Protector was wiped", "SealGather", func() { p.SealGather(body, [][]byte{{23}}, 0) })
			mustPanic(t, "aead: Protector was wiped", "Open", func() { p.OpenSplit(nil, body, 0) })
		}
	}
}

// TestProtectorPrintsNoKey prints pointers, which have a method for it, and with verbs
// that fit and verbs that do not what holds them, and copies.
func TestProtectorPrintsNoKey(t *testing.T) {
	for _, s := range allSuites(t) {
		key := make([]byte, s.KeySize())
		for i := range key {
			key[i] = byte(129 + i)
		}
		// With an IV of zeros the first round key is the key's beginning.
		p, err := aead.NewProtector(s, aead.TrafficKeys{Key: key, IV: make([]byte, aead.IVSize)})
		if err != nil {
			t.Fatal(err)
		}
		type holder struct {
			P *aead.Protector
			p *aead.Protector
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q", "%t"} {
			if got, want := fmt.Sprintf(verb, p), "aead.Protector("+s.Name()+")"; got != want {
				t.Errorf("%s: got %s, want %s", verb, got, want)
			}
			for _, v := range []any{holder{p, p}, &holder{p, p}, reflect.ValueOf(p).Elem().Interface()} {
				text := fmt.Sprintf(verb, v)
				for _, secret := range []string{"129 130 131", "0x81, 0x82, 0x83", "818283", "\x81\x82\x83", `\x81\x82\x83`} {
					if strings.Contains(text, secret) {
						t.Errorf("%s of a %T: %s", verb, v, text)
					}
				}
			}
		}
	}
}

// protecting is what a record layer needs; calls through it must not allocate.
type protecting interface {
	Seal(out, content []byte, contentType byte, header uint64) error
	SealSplit(out, prefix []byte, header uint64) error
	SealGather(out []byte, pieces [][]byte, header uint64) error
	OpenSplit(prefix, body []byte, header uint64) error
}

// TestProtectorAllocations: a Protector allocates nothing of its own. Where
// x/crypto has no assembly, its ChaCha20-Poly1305 allocates once per record.
func TestProtectorAllocations(t *testing.T) {
	for _, s := range allSuites(t) {
		allowed := 0.0
		if s == aead.ChaCha20Poly1305() {
			bare := oracleFor(t, s, make([]byte, s.KeySize()))
			nonce, buf := make([]byte, 12), make([]byte, 100, 116)
			allowed = testing.AllocsPerRun(20, func() {
				if _, err := bare.Open(buf[:0], nonce, bare.Seal(buf[:0], nonce, buf, nil), nil); err != nil {
					t.Fatal(err)
				}
			})
		}
		for _, n := range []int{0, 64, 1350, 16384} {
			var w, o protecting = newProtector(t, s, 0), newProtector(t, s, 0)
			content, prefix := make([]byte, n), make([]byte, n)
			pieces := [][]byte{content[:n/2], content[n/2:], {23}}
			body := make([]byte, n+1+s.TagSize())
			open := func() {
				if err := o.OpenSplit(prefix, body, 7); err != nil {
					t.Fatal(err)
				}
			}
			for name, f := range map[string]func(){
				"Seal and Open":       func() { w.Seal(body, content, 23, 7); open() },
				"SealSplit and Open":  func() { body[n] = 23; w.SealSplit(body, content, 7); open() },
				"SealGather and Open": func() { w.SealGather(body, pieces, 7); open() },
				"failed Open":         func() { body[0] ^= 1; o.OpenSplit(prefix, body, 7) },
			} {
				if allocs := testing.AllocsPerRun(20, f); allocs > allowed {
					t.Errorf("%v: %s of %d bytes: %v allocations, %v of them the AEAD's", s, name, n, allocs, allowed)
				}
			}
		}
	}
}

// copyOf copies a Protector out of vet's sight, and put copies it back.
func copyOf(p *aead.Protector) *aead.Protector {
	c := reflect.New(reflect.TypeFor[aead.Protector]())
	c.Elem().Set(reflect.ValueOf(p).Elem())
	return c.Interface().(*aead.Protector)
}

func put(p, saved *aead.Protector) { reflect.ValueOf(p).Elem().Set(reflect.ValueOf(saved).Elem()) }

// TestCopies: a copy takes its numbers where the original does, putting it back
// brings none back, and there is one key to wipe.
func TestCopies(t *testing.T) {
	for _, s := range allSuites(t) {
		p := newProtector(t, s, 0)
		c := copyOf(p)
		n := 1 + s.TagSize()
		head, _ := header(n)
		for seq := range uint64(12) {
			from := p
			if seq%2 == 1 {
				from = c
			}
			body, want := make([]byte, n), sealByHand(t, s, seq, []byte{23})
			var err error
			switch seq / 2 % 3 {
			case 0:
				err = from.Seal(body, nil, 23, head)
			case 1:
				body[0] = 23
				err = from.SealSplit(body, nil, head)
			case 2:
				err = from.SealGather(body, [][]byte{{23}}, head)
			}
			if err != nil || !bytes.Equal(body, want) {
				t.Fatalf("%v, record %d: error %v, or other bytes than by hand", s, seq, err)
			}
			if p.Seq() != seq+1 || c.Seq() != seq+1 {
				t.Fatalf("%v: at %d, its copy at %d, want %d", s, p.Seq(), c.Seq(), seq+1)
			}
			put(p, c)
		}
		for _, wipeCopy := range []bool{false, true} {
			p := newProtector(t, s, 0)
			c := copyOf(p)
			if wipeCopy {
				c.Wipe()
			} else {
				p.Wipe()
			}
			for _, p := range []*aead.Protector{p, c, copyOf(c)} {
				body := make([]byte, n)
				const message = "aead: Protector was wiped"
				mustPanic(t, message, "Seal", func() { p.Seal(body, nil, 23, 0) })
				mustPanic(t, message, "SealSplit", func() { p.SealSplit(body, nil, 0) })
				mustPanic(t, message, "SealGather", func() { p.SealGather(body, [][]byte{{23}}, 0) })
				mustPanic(t, message, "Open", func() { p.OpenSplit(nil, body, 0) })
			}
		}
	}
}

// TestVetFindsCopies lets go vet look at a program that copies a Protector.
func TestVetFindsCopies(t *testing.T) {
	out, err := exec.Command("go", "vet", "-copylocks", "./testdata/copies").CombinedOutput()
	if err == nil {
		t.Fatalf("go vet found nothing\n%s", out)
	}
	for _, want := range []string{
		"assignment copies lock value to copied: example.com/splitseal/aead.Protector",
		"passes lock by value: example.com/splitseal/aead.Protector",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("go vet did not say %q\n%s", want, out)
		}
	}
}
