package record

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// TestSealEqualsOracle compares records of all suites, contents and paddings
// with crypto/cipher and x/crypto, over one reused buffer whose records get
// shorter and longer.
//
// "Each sequence number is set to zero at the beginning of a connection and whenever
// the key is changed; the first record transmitted under a particular traffic key MUST
// use sequence number 0." (RFC 9846, Section 5.3)
//
// "TLSInnerPlaintext [...] opaque content[TLSPlaintext.length]; ContentType
// type; uint8 zeros[length_of_padding];" "Implementations MUST set the padding
// octets to all zeros before encrypting." (RFC 9846, Sections 5.2 and 5.4)
func TestSealEqualsOracle(t *testing.T) {
	for _, suite := range aead.Suites() {
		t.Run(suite.Name(), func(t *testing.T) {
			r := testRand(t)
			var pad int
			s := newTestSealer(t, suite, EpochApplication, SealerConfig{Padding: func(int) int { return pad }})
			f := newForger(t, suite)
			buf := bytes.Repeat([]byte{0xee}, MaxRecordSize)
			sizes := []int{100, 10, 0, 1, 15, 16, 17, 1350, 8192, 16383, 16384, 0, 5}
			for i := range 200 {
				size := r.IntN(300)
				if i < len(sizes) {
					size = sizes[i]
				}
				pad = r.IntN(3) * r.IntN(200)
				content := randBytes(r, size)
				want := f.record(ContentTypeApplicationData, content, min(pad, MaxContentSize-size))
				seq := s.Seq()
				var got []byte
				var err error
				switch i % 3 {
				case 0:
					got, err = s.Seal(buf[:0], ContentTypeApplicationData, content)
				case 1: // in place
					copy(buf[HeaderSize:], content)
					got, err = s.Seal(buf[:0], ContentTypeApplicationData, buf[HeaderSize:HeaderSize+size])
				case 2:
					a, b := r.IntN(size+1), r.IntN(size+1)
					got, err = s.SealGather(buf[:0], ContentTypeApplicationData,
						[][]byte{nil, content[:min(a, b)], content[min(a, b):max(a, b)], {}, content[max(a, b):]})
				}
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("record %d: %d bytes of content, %d of padding: got %x, want %x", i, size, pad, got, want)
				}
				if s.Seq() != seq+1 {
					t.Fatalf("sequence number %d, want %d", s.Seq(), seq+1)
				}
				if n := s.SealedSize(size) + min(pad, MaxContentSize-size); len(got) != n || n > s.MaxSealedSize() {
					t.Fatalf("record of %d bytes, want %d, at most %d", len(got), n, s.MaxSealedSize())
				}
			}
		})
	}
}

// TestSealGatherSplits seals every split of short contents into three pieces,
// in place and apart.
func TestSealGatherSplits(t *testing.T) {
	suite := aead.AES128GCM()
	s := newTestSealer(t, suite, EpochApplication, SealerConfig{})
	f := newForger(t, suite)
	content := randBytes(testRand(t), 40)
	for n := range len(content) + 1 {
		for a := 0; a <= n; a++ {
			for b := a; b <= n; b += 3 {
				c := content[:n]
				want := f.record(ContentTypeApplicationData, c, 0)
				dst := make([]byte, 2, 200)
				pieces := [][]byte{c[:a], c[a:b], c[b:]}
				if a%2 == 1 { // the middle piece stands in its place
					place := dst[2+HeaderSize+a : 2+HeaderSize+b]
					copy(place, pieces[1])
					pieces[1] = place
				}
				got, err := s.SealGather(dst, ContentTypeApplicationData, pieces)
				if err != nil || !bytes.Equal(got[2:], want) {
					t.Fatalf("%d bytes cut at %d and %d: %v", n, a, b, err)
				}
			}
		}
	}
	// No memory of the caller's is kept, and no long list.
	for _, n := range []int{3, maxKeptPieces * 3} {
		pieces := make([][]byte, n)
		for i := range pieces {
			pieces[i] = content[i%20 : i%20+1]
		}
		want := f.record(ContentTypeApplicationData, bytes.Join(pieces, nil), 0)
		if got, err := s.SealGather(nil, ContentTypeApplicationData, pieces); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d pieces: %v", n, err)
		}
		if cap(s.pieces) > 2*maxKeptPieces {
			t.Errorf("room for %d pieces kept", cap(s.pieces))
		}
		for _, p := range s.pieces[:cap(s.pieces)] {
			if p != nil {
				t.Fatal("a piece is kept")
			}
		}
	}
	// No pieces at all, and records without protection.
	for _, pieces := range [][][]byte{nil, {nil}, {{}, {}}} {
		got, err := s.SealGather(nil, ContentTypeApplicationData, pieces)
		if want := f.record(ContentTypeApplicationData, nil, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("no content: %x, %v", got, err)
		}
	}
	m := message(8, 30)
	p := NewSealer(SealerConfig{})
	got, err := p.SealGather(nil, ContentTypeHandshake, [][]byte{m[:1], m[1:3], m[3:]})
	if want := plain(22, m); err != nil || !bytes.Equal(got, want) {
		t.Errorf("without keys: %x, %v", got, err)
	}
}

// TestSealBuffers checks what Seal does with dst, and that it refuses overlap
// before it writes anything or takes a number.
func TestSealBuffers(t *testing.T) {
	suite := aead.AES128GCM()
	const size = 50
	for _, keys := range []bool{true, false} {
		for _, spare := range []int{0, 1, HeaderSize, HeaderSize + size, HeaderSize + size + 17, 300} {
			s, typ := NewSealer(SealerConfig{}), ContentTypeHandshake
			f := newForger(t, suite)
			content := message(11, size-4)
			want := plain(22, content)
			if keys {
				s, typ = newTestSealer(t, suite, EpochApplication, SealerConfig{}), ContentTypeApplicationData
				want = f.record(typ, content, 0)
			}
			buf := bytes.Repeat([]byte{0xaa}, 400)
			dst := buf[:7:min(7+spare, len(buf))]
			got, err := s.Seal(dst, typ, content)
			if err != nil || !bytes.Equal(got[:7], buf[:7]) || !bytes.Equal(got[7:], want) {
				t.Fatalf("keys %v, spare %d: %x, %v", keys, spare, got, err)
			}
			if inPlace := &got[0] == &buf[0]; inPlace != (spare >= len(want)) {
				t.Errorf("keys %v, spare %d: in place %v", keys, spare, inPlace)
			}
			for i, b := range buf[7+min(spare, len(want)):] {
				if b != 0xaa {
					t.Fatalf("keys %v, spare %d: byte %d behind the record was written", keys, spare, i)
				}
			}
		}
		for shift := -64; shift <= 64+size; shift++ {
			s, typ := NewSealer(SealerConfig{}), ContentTypeHandshake
			if keys {
				s, typ = newTestSealer(t, suite, EpochApplication, SealerConfig{}), ContentTypeApplicationData
			}
			buf := bytes.Repeat(message(11, size-4), 5)
			const at = 80
			start := at + HeaderSize + shift
			content := buf[start : start+size]
			recordSize := s.SealedSize(size)
			valid := shift == 0 || start+size <= at || start >= at+recordSize
			for _, gather := range []bool{false, true} {
				if gather && shift == 0 {
					continue // half of the content is not in its place
				}
				before := bytes.Clone(buf)
				seq := s.Seq()
				p := recovered(func() {
					if gather {
						s.SealGather(buf[:at], typ, [][]byte{content[size/2:], content[size/2:]})
					} else {
						s.Seal(buf[:at], typ, content)
					}
				})
				if gather {
					half := start + size/2
					valid = half+size-size/2 <= at || half >= at+recordSize
				}
				if valid != (p == nil) {
					t.Fatalf("keys %v, shift %d, gather %v: panic %v", keys, shift, gather, p)
				}
				if p == nil {
					copy(buf, before)
					s = nil
					break
				}
				if !strings.HasPrefix(fmt.Sprint(p), "record: ") {
					t.Fatalf("panic %v", p)
				}
				if !bytes.Equal(buf, before) || s.Seq() != seq {
					t.Fatalf("keys %v, shift %d: something changed before the panic", keys, shift)
				}
			}
			if s == nil {
				continue
			}
			// Refused by a check: usable as before.
			if _, err := s.Seal(nil, typ, message(11, size-4)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func recovered(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// "Implementations MUST NOT send Handshake and Alert records that have a
// zero-length TLSInnerPlaintext.content" (RFC 9846, Section 5.4); "Implementations
// MUST NOT send record types not defined in this document unless negotiated by some
// extension." (Section 5); "Application Data records MUST NOT be written to the wire
// unprotected" and "The length MUST NOT exceed 2^14 bytes." (Section 5.1); "The length
// MUST NOT exceed 2^14 + 256 bytes." (Section 5.2)
func TestSealRefusals(t *testing.T) {
	suite := aead.AES128GCM()
	big := make([]byte, MaxContentSize+1)
	for _, epoch := range []Epoch{EpochPlaintext, EpochEarly, EpochHandshake, EpochApplication} {
		data := error(nil)
		if epoch == EpochPlaintext || epoch == EpochHandshake {
			data = ErrEpoch
		}
		for _, test := range []struct {
			name    string
			typ     ContentType
			content []byte
			want    error
		}{
			{"empty data", ContentTypeApplicationData, nil, data},
			{"data", ContentTypeApplicationData, []byte("data"), data},
			{"most data", ContentTypeApplicationData, big[:MaxContentSize], data},
			{"handshake", ContentTypeHandshake, message(11, 5), nil},
			{"empty handshake", ContentTypeHandshake, nil, ErrEmptyContent},
			{"handshake too large", ContentTypeHandshake, big, ErrRecordTooLarge},
			{"KeyUpdate", ContentTypeHandshake, []byte{24, 0, 0, 1, 0}, ErrContentType},
			{"a byte of KeyUpdate", ContentTypeHandshake, []byte{24}, ErrContentType},
			{"KeyUpdate behind another", ContentTypeHandshake, append(message(4, 9), 24), ErrContentType},
			{"alert", ContentTypeAlert, []byte{2, 10}, ErrContentType},
			{"change_cipher_spec", ContentTypeChangeCipherSpec, []byte{1}, ErrContentType},
			{"type 0", 0, []byte{1}, ErrContentType},
			{"type 24", 24, []byte{1}, ErrContentType},
		} {
			for _, gather := range []bool{false, true} {
				s := NewSealer(SealerConfig{})
				if epoch != EpochPlaintext {
					s = newTestSealer(t, suite, epoch, SealerConfig{})
				}
				f := newForger(t, suite)
				dst := []byte("dst")
				var got []byte
				var err error
				if gather {
					h := len(test.content) / 2
					got, err = s.SealGather(dst, test.typ, [][]byte{test.content[:h], test.content[h:]})
				} else {
					got, err = s.Seal(dst, test.typ, test.content)
				}
				wantErr(t, fmt.Sprintf("%v: %s", epoch, test.name), err, test.want, noAlert)
				if err == nil {
					continue
				}
				if !same(got, dst) || s.Seq() != 0 {
					t.Errorf("%v: %s: refused, but something changed", epoch, test.name)
				}
				// Nothing has changed: the next record is the one it would have been.
				m := message(11, 5)
				want := f.record(ContentTypeHandshake, m, 0)
				if epoch == EpochPlaintext {
					want = plain(22, m)
				}
				if got, err := s.Seal(nil, ContentTypeHandshake, m); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v: %s: the next record is not as without the refused one: %v", epoch, test.name, err)
				}
			}
		}
	}
	if _, err := newTestSealer(t, suite, EpochApplication, SealerConfig{}).Seal(nil, ContentTypeApplicationData, big); err != ErrRecordTooLarge {
		t.Errorf("2^14+1 bytes of data: %v", err)
	}
	huge := [][]byte{big, big, big, big}
	if _, err := newTestSealer(t, suite, EpochApplication, SealerConfig{}).SealGather(nil, ContentTypeApplicationData, huge); err != ErrRecordTooLarge {
		t.Errorf("many pieces: %v", err)
	}
}

// "Handshake messages MUST NOT be interleaved with other record types." and
// "Handshake messages MUST NOT span key changes." "Because the ClientHello,
// EndOfEarlyData, ServerHello, Finished, and KeyUpdate messages can immediately
// precede a key change, implementations MUST send these messages in alignment with
// a record boundary." (RFC 9846, Section 5.1)
func TestSealFragments(t *testing.T) {
	suite := aead.AES128GCM()
	m := message(4, 10)
	for cut := 1; cut < len(m); cut++ {
		s := newTestSealer(t, suite, EpochApplication, SealerConfig{})
		wire := mustSeal(t)(s.Seal(nil, ContentTypeHandshake, m[:cut]))
		if _, err := s.Seal(nil, ContentTypeApplicationData, []byte("x")); err != ErrHandshakePartial {
			t.Errorf("cut %d: application data: %v", cut, err)
		}
		if _, err := s.SealKeyUpdate(nil, false); err != ErrHandshakePartial {
			t.Errorf("cut %d: KeyUpdate: %v", cut, err)
		}
		if _, err := s.SealAlert(nil, AlertUserCanceled); err != ErrHandshakePartial {
			t.Errorf("cut %d: user_canceled: %v", cut, err)
		}
		if _, err := s.Export(); err != ErrHandshakePartial {
			t.Errorf("cut %d: Export: %v", cut, err)
		}
		wire = mustSeal(t)(s.Seal(wire, ContentTypeHandshake, m[cut:]))
		wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, []byte("x")))
		out, err := openAll(newTestOpener(t, suite, EpochApplication, OpenerConfig{}), wire)
		if err != nil || len(out) != 3 || !bytes.Equal(append(out[0].content, out[1].content...), m) {
			t.Errorf("cut %d: opened %v, %v", cut, out, err)
		}

		s = NewSealer(SealerConfig{})
		mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(1, 10)[:cut]))
		if err := s.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 1)); err != ErrHandshakePartial {
			t.Errorf("cut %d: SetTrafficSecret: %v", cut, err)
		}
		if _, err := s.SealChangeCipherSpec(nil); err == nil {
			t.Errorf("cut %d: change_cipher_spec was sealed", cut)
		}
		early := newTestSealer(t, suite, EpochEarly, SealerConfig{})
		mustSeal(t)(early.Seal(nil, ContentTypeHandshake, message(5, 10)[:cut]))
		if err := early.AbandonEarlyData(); err != ErrHandshakePartial || early.Epoch() != EpochEarly {
			t.Errorf("cut %d: AbandonEarlyData: %v", cut, err)
		}
		if _, err := early.SealChangeCipherSpec(nil); err != ErrHandshakePartial {
			t.Errorf("cut %d: change_cipher_spec: %v", cut, err)
		}
		// A fatal alert ends the message.
		if got, err := s.SealAlert(nil, AlertInternalError); err != nil || !bytes.Equal(got, plain(21, []byte{2, 80})) {
			t.Errorf("cut %d: alert %x, %v", cut, got, err)
		}
	}
	// Keys change only behind the messages that precede a key change.
	for typ, want := range map[byte]error{1: nil, 2: nil, 5: nil, 8: ErrHandshakePartial, 20: ErrHandshakePartial} {
		s := NewSealer(SealerConfig{})
		mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(typ, 3)))
		if err := s.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 1)); err != want {
			t.Errorf("handshake keys behind message %d: %v", typ, err)
		}
	}
}

// "the full encoded TLSInnerPlaintext MUST NOT exceed 2^14 + 1 octets. If the
// maximum fragment length is reduced [...] then the reduced limit applies to the
// full plaintext, including the content type and padding." (RFC 9846, Section 5.4)
func TestPaddingClamp(t *testing.T) {
	suite := aead.AES128GCM()
	policies := map[string]func(int) int{
		"none": nil, "negative": func(int) int { return -5 }, "huge": func(int) int { return 1 << 30 },
		"16": PadToMultiple(16), "64": PadToMultiple(64), "4096": PadToMultiple(4096), "all": PadToMultiple(MaxInnerSize),
		"one": func(int) int { return 1 },
	}
	for name, policy := range policies {
		for _, limit := range []int{0, 64, 65, 1000, 16384, MaxInnerSize, 1 << 16} {
			s := newTestSealer(t, suite, EpochApplication, SealerConfig{Padding: policy, RecordSizeLimit: limit})
			most := min(MaxInnerSize, limit)
			if limit == 0 {
				most = MaxInnerSize
			}
			if s.MaxContentSize() != most-1 {
				t.Fatalf("limit %d: most content %d", limit, s.MaxContentSize())
			}
			o := newTestOpener(t, suite, EpochApplication, OpenerConfig{RecordSizeLimit: limit})
			for _, size := range []int{0, 1, 14, 15, 16, 62, 63, most - 17, most - 2, most - 1} {
				if size > most-1 {
					continue
				}
				rec, err := s.Seal(nil, ContentTypeApplicationData, bytes.Repeat([]byte{7}, size))
				if err != nil {
					t.Fatalf("%s, limit %d, size %d: %v", name, limit, size, err)
				}
				inner := len(rec) - HeaderSize - 16
				if inner > most || inner <= size || len(rec) > s.MaxSealedSize() {
					t.Errorf("%s, limit %d, size %d: inner plaintext of %d bytes", name, limit, size, inner)
				}
				want := size + 1
				if policy != nil {
					want = min(most, size+1+max(0, policy(size)))
				}
				if inner != want {
					t.Errorf("%s, limit %d, size %d: inner plaintext of %d bytes, want %d", name, limit, size, inner, want)
				}
				out, err := openAll(o, rec)
				if err != nil || len(out[0].content) != size {
					t.Fatalf("%s, limit %d, size %d: opened %v, %v", name, limit, size, out, err)
				}
			}
			if _, err := s.Seal(nil, ContentTypeApplicationData, make([]byte, most)); err != ErrRecordTooLarge {
				t.Errorf("limit %d: one byte more: %v", limit, err)
			}
		}
	}
	for _, limit := range []int{-1, 1, 63} {
		wantErr(t, "limit", NewSealer(SealerConfig{}).SetRecordSizeLimit(limit), ErrRecordSizeLimit, AlertIllegalParameter)
		if recovered(func() { NewSealer(SealerConfig{RecordSizeLimit: limit}) }) == nil ||
			recovered(func() { NewOpener(OpenerConfig{RecordSizeLimit: limit}) }) == nil {
			t.Errorf("limit %d: no panic", limit)
		}
	}
	if n := PadToMultiple(1)(100); n != 0 {
		t.Errorf("PadToMultiple(1): %d bytes", n)
	}
	if recovered(func() { PadToMultiple(0) }) == nil {
		t.Error("PadToMultiple(0): no panic")
	}
	// The limit is for protected records alone.
	s := NewSealer(SealerConfig{RecordSizeLimit: 64})
	if _, err := s.Seal(nil, ContentTypeHandshake, message(1, 1000)); err != nil {
		t.Errorf("without keys: %v", err)
	}
}

// "Implementations MUST either close the connection or do a key update as
// described in [Section 4.7.3] prior to reaching these limits. Note that it is not
// possible to perform a KeyUpdate for early data; therefore, implementations MUST
// NOT exceed the limits when sending early data." (RFC 9846, Section 5.5)
func TestUsageLimits(t *testing.T) {
	suite := aead.AES128GCM()
	data := []byte("data")
	t.Run("application", func(t *testing.T) {
		s := newTestSealer(t, suite, EpochApplication, SealerConfig{SoftLimit: 3, HardLimit: 40})
		o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		var wire []byte
		for range 3 {
			if s.NeedsKeyUpdate() {
				t.Fatal("needs a key update early")
			}
			wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, data))
		}
		for range 2 { // stays refused
			if _, err := s.Seal(nil, ContentTypeApplicationData, data); err != ErrKeyUpdateRequired || !s.NeedsKeyUpdate() {
				t.Fatalf("at the soft limit: %v", err)
			}
			if _, err := s.Seal(nil, ContentTypeHandshake, message(4, 9)); err != ErrKeyUpdateRequired {
				t.Fatalf("handshake at the soft limit: %v", err)
			}
		}
		wire = mustSeal(t)(s.SealAlert(wire, AlertUserCanceled))
		wire = mustSeal(t)(s.SealKeyUpdate(wire, false))
		if s.Seq() != 0 || s.Generation() != 1 || s.NeedsKeyUpdate() {
			t.Fatalf("after the key update: seq %d, generation %d", s.Seq(), s.Generation())
		}
		n := len(wire)
		wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, data))
		if out, err := openAll(o, wire[:n]); err != nil || len(out) != 5 {
			t.Fatalf("%v, %v", out, err)
		}
		if err := o.KeyUpdate(); err != nil {
			t.Fatal(err)
		}
		if out, err := openAll(o, wire[n:]); err != nil || !bytes.Equal(out[0].content, data) {
			t.Fatalf("%v, %v", out, err)
		}
		// Alerts up to the hard limit, nothing beyond.
		for s.Seq() < 40 {
			if _, err := s.SealAlert(nil, AlertUserCanceled); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []func() error{
			func() error { _, err := s.SealAlert(nil, AlertCloseNotify); return err },
			func() error { _, err := s.SealKeyUpdate(nil, false); return err },
		} {
			if err := f(); err != ErrKeyExhausted || s.Seq() != 40 {
				t.Fatalf("at the hard limit: %v", err)
			}
		}
	})
	t.Run("inside a message", func(t *testing.T) {
		// It can be ended, whatever the soft limit, and then keys can be updated.
		for _, fragments := range []int{1, 2, 15, 16, 17} {
			s := newTestSealer(t, suite, EpochApplication, SealerConfig{SoftLimit: 3, HardLimit: 20})
			for range 2 {
				mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, data))
			}
			rest := message(typeNewSessionTicket, fragments*10-messageHeaderSize)
			for ; len(rest) > 0; rest = rest[10:] {
				if s.Seq() == 18 { // one KeyUpdate and one alert
					if _, err := s.Seal(nil, ContentTypeHandshake, rest[:10]); err != ErrKeyExhausted || s.Seq() != 18 {
						t.Fatalf("%d fragments, at the hard limit: %v", fragments, err)
					}
					if _, err := s.Seal(nil, ContentTypeApplicationData, data); err != ErrHandshakePartial {
						t.Fatalf("%d fragments: data inside the message: %v", fragments, err)
					}
					mustSeal(t)(s.SealAlert(nil, AlertInternalError))
					break
				}
				mustSeal(t)(s.Seal(nil, ContentTypeHandshake, rest[:10]))
			}
			if ended := len(rest) == 0; ended != (fragments <= 16) {
				t.Errorf("%d fragments: %d bytes left", fragments, len(rest))
			} else if ended && fragments > 1 {
				if _, err := s.Seal(nil, ContentTypeHandshake, message(typeNewSessionTicket, 1)); err != ErrKeyUpdateRequired {
					t.Errorf("%d fragments: the next message: %v", fragments, err)
				}
				mustSeal(t)(s.SealKeyUpdate(nil, false))
			}
		}
	})
	for _, epoch := range []Epoch{EpochEarly, EpochHandshake} {
		t.Run(epoch.String(), func(t *testing.T) {
			s := newTestSealer(t, suite, epoch, SealerConfig{SoftLimit: 2, HardLimit: 40})
			for range 2 {
				if epoch == EpochEarly {
					mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, data))
				} else {
					mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(11, 9)))
				}
			}
			want := ErrKeyExhausted
			if epoch == EpochHandshake {
				want = ErrEpoch
			}
			if _, err := s.Seal(nil, ContentTypeApplicationData, data); err != want {
				t.Errorf("data at the soft limit: %v", err)
			}
			if _, err := s.SealKeyUpdate(nil, false); err != ErrEpoch || s.Seq() != 2 {
				t.Errorf("KeyUpdate: %v", err)
			}
			if s.NeedsKeyUpdate() {
				t.Error("NeedsKeyUpdate without application keys")
			}
			for s.Seq() < 39 {
				mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(5, 0)))
			}
			if _, err := s.Seal(nil, ContentTypeHandshake, message(5, 0)); err != ErrKeyExhausted {
				t.Errorf("handshake one below the hard limit: %v", err)
			}
			if _, err := s.SealAlert(nil, AlertInternalError); err != nil {
				t.Errorf("alert: %v", err)
			}
		})
	}
	t.Run("defaults", func(t *testing.T) {
		for _, test := range []struct {
			suite      *aead.Suite
			cfg        SealerConfig
			soft, hard uint64
		}{
			{aead.AES128GCM(), SealerConfig{}, 23_726_566 - 16, 23_726_566},
			{aead.AES256GCM(), SealerConfig{SoftLimit: 1 << 30, HardLimit: 1 << 40}, 23_726_566 - 16, 23_726_566},
			{aead.ChaCha20Poly1305(), SealerConfig{}, 1<<64 - 17, 1<<64 - 1},
			{aead.AES128GCM(), SealerConfig{HardLimit: 10}, 5, 10},
			{aead.AES128GCM(), SealerConfig{SoftLimit: 7, HardLimit: 100}, 7, 100},
		} {
			s := newTestSealer(t, test.suite, EpochApplication, test.cfg)
			if s.soft != test.soft || s.hard != test.hard {
				t.Errorf("%v %+v: limits %d, %d, want %d, %d", test.suite, test.cfg, s.soft, s.hard, test.soft, test.hard)
			}
		}
	})
}

// sealerAt returns a Sealer under application keys with this sequence number and
// generation, as an import makes them.
func sealerAt(t testing.TB, suite *aead.Suite, seq, generation uint64) *Sealer {
	t.Helper()
	s, err := ImportSealer(&State{fields: &stateFields{
		suite: suite, hidden: hide(testSecret(suite, 1)), seq: seq, generation: generation,
		hardLimit: suite.RecordLimit(), recordSizeLimit: MaxInnerSize,
	}}, SealerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// "Because the size of sequence numbers is 64-bit, they should not wrap. If a TLS
// implementation would need to wrap a sequence number, it MUST either rekey
// ([Section 4.7.3]) or terminate the connection." (RFC 9846, Section 5.3)
func TestLastSequenceNumbers(t *testing.T) {
	suite := aead.ChaCha20Poly1305()
	const last = 1<<64 - 2 // 2^64-1 is never used
	s := sealerAt(t, suite, last-2, 0)
	if _, err := s.Seal(nil, ContentTypeApplicationData, nil); err != ErrKeyUpdateRequired {
		t.Errorf("at 2^64-4: %v", err)
	}
	f := newForger(t, suite)
	f.seq = last - 2
	for range 3 {
		want := f.record(ContentTypeAlert, []byte{1, 90}, 0)
		if got, err := s.SealAlert(nil, AlertUserCanceled); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x, %v", got, err)
		}
	}
	for range 3 {
		if _, err := s.SealAlert(nil, AlertUserCanceled); err != ErrKeyExhausted || s.Seq() != last+1 {
			t.Fatalf("beyond the last number: %v, seq %d", err, s.Seq())
		}
		if _, err := s.SealKeyUpdate(nil, false); err != ErrKeyExhausted {
			t.Fatalf("KeyUpdate beyond the last number: %v", err)
		}
	}
	// One before the end there is room for the KeyUpdate.
	s = sealerAt(t, suite, last, 0)
	if _, err := s.SealKeyUpdate(nil, false); err != nil || s.Seq() != 0 {
		t.Errorf("KeyUpdate at 2^64-2: %v", err)
	}
}

// "sending implementations MUST NOT allow the epoch -- and hence the number of
// key updates -- to exceed 2^48-1. [...] If a sending implementation receives a
// KeyUpdate with request_update set to "update_requested", it MUST NOT send its
// own KeyUpdate if that would cause it to exceed these limits and SHOULD instead
// ignore the "update_requested" flag." (RFC 9846, Section 4.7.3)
func TestKeyUpdateCap(t *testing.T) {
	suite := aead.AES128GCM()
	s := sealerAt(t, suite, 0, 1<<48-2)
	s.PeerKeyUpdate(true)
	if !s.NeedsKeyUpdate() {
		t.Error("a request below the cap is ignored")
	}
	if _, err := s.SealKeyUpdate(nil, false); err != nil || s.Generation() != 1<<48-1 {
		t.Fatalf("the last key update: %v", err)
	}
	seq := s.Seq()
	if _, err := s.SealKeyUpdate(nil, false); err != ErrKeyUpdateLimit || s.Seq() != seq {
		t.Errorf("one more: %v", err)
	}
	s.PeerKeyUpdate(true)
	if s.NeedsKeyUpdate() {
		t.Error("a request at the cap is not ignored")
	}
	if _, err := s.Seal(nil, ContentTypeApplicationData, nil); err != nil {
		t.Error(err)
	}
}

// "If the request_update field is set to "update_requested", then the receiver
// MUST send a KeyUpdate of its own with request_update set to
// "update_not_requested" prior to sending its next Application Data record."
// "Until receiving a subsequent KeyUpdate from the peer, the sender MUST NOT send
// another KeyUpdate with request_update set to "update_requested"." (RFC 9846,
// Section 4.7.3)
func TestKeyUpdateRequests(t *testing.T) {
	suite := aead.AES256GCM()
	s := newTestSealer(t, suite, EpochApplication, SealerConfig{})
	f := newForger(t, suite)
	for range 10_000 { // a storm is answered once
		s.PeerKeyUpdate(true)
	}
	if _, err := s.Seal(nil, ContentTypeApplicationData, nil); err != ErrKeyUpdateRequired || !s.NeedsKeyUpdate() {
		t.Errorf("data before the answer: %v", err)
	}
	// "Both sender and receiver MUST encrypt their KeyUpdate messages with the
	// old keys."
	want := f.record(ContentTypeHandshake, []byte{24, 0, 0, 1, 0}, 0)
	if got, err := s.SealKeyUpdate(nil, false); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the answer: %x, %v", got, err)
	}
	f.keyUpdate()
	// "After sending a KeyUpdate message, the sender SHALL send all its traffic
	// using the next generation of keys" (RFC 9846, Section 4.7.3)
	want = f.record(ContentTypeApplicationData, []byte("x"), 0)
	if got, err := s.Seal(nil, ContentTypeApplicationData, []byte("x")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("data under the next keys: %x, %v", got, err)
	}

	want = f.record(ContentTypeHandshake, []byte{24, 0, 0, 1, 1}, 0)
	if got, err := s.SealKeyUpdate(nil, true); err != nil || !bytes.Equal(got, want) || !s.KeyUpdateRequested() {
		t.Errorf("our request: %x, %v", got, err)
	}
	seq, generation := s.Seq(), s.Generation()
	if got, err := s.SealKeyUpdate(nil, true); err != ErrKeyUpdateOutstanding || got != nil || s.Seq() != seq || s.Generation() != generation {
		t.Errorf("a second request: %v", err)
	}
	if _, err := s.SealKeyUpdate(nil, false); err != nil || !s.KeyUpdateRequested() {
		t.Errorf("without a request: %v", err)
	}
	s.PeerKeyUpdate(false)
	if s.KeyUpdateRequested() || s.NeedsKeyUpdate() {
		t.Error("the peer's KeyUpdate does not answer the request")
	}
	if _, err := s.SealKeyUpdate(nil, true); err != nil {
		t.Errorf("a request after the answer: %v", err)
	}
}

// "close_notify: This alert notifies the recipient that the sender will not send
// any more messages on this connection. [...] This alert MUST be sent with
// AlertLevel=warning." (RFC 9846, Section 6.1) "All the alerts listed in [Section
// 6.2] MUST be sent with AlertLevel=fatal" (Section 6) and "MUST close the
// connection without sending or receiving any additional data." (Section 6.2)
func TestSealAlert(t *testing.T) {
	suite := aead.AES128GCM()
	for a := range 256 {
		alert := Alert(a)
		for _, keys := range []bool{false, true} {
			s := NewSealer(SealerConfig{})
			level := byte(2)
			if alert == AlertCloseNotify || alert == AlertUserCanceled {
				level = 1
			}
			want := plain(21, []byte{level, byte(a)})
			if keys {
				s = newTestSealer(t, suite, EpochApplication, SealerConfig{})
				want = newForger(t, suite).record(ContentTypeAlert, []byte{level, byte(a)}, 0)
			}
			if got, err := s.SealAlert(nil, alert); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v: %x, %v, want %x", alert, got, err, want)
			}
			seq := s.Seq()
			for name, f := range map[string]func() ([]byte, error){
				"Seal":                 func() ([]byte, error) { return s.Seal(nil, ContentTypeHandshake, message(11, 1)) },
				"SealGather":           func() ([]byte, error) { return s.SealGather(nil, ContentTypeHandshake, [][]byte{message(11, 1)}) },
				"SealKeyUpdate":        func() ([]byte, error) { return s.SealKeyUpdate(nil, false) },
				"SealChangeCipherSpec": func() ([]byte, error) { return s.SealChangeCipherSpec(nil) },
				"SetTrafficSecret": func() ([]byte, error) {
					return nil, s.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 3))
				},
				"Export":    func() ([]byte, error) { _, err := s.Export(); return nil, err },
				"SealAlert": func() ([]byte, error) { return s.SealAlert(nil, AlertCloseNotify) },
			} {
				got, err := f()
				if alert != AlertUserCanceled && (err != ErrClosed || got != nil || s.Seq() != seq || s.keys != nil) {
					t.Errorf("%s after %v: %v", name, alert, err)
				}
				if alert == AlertUserCanceled && err == ErrClosed {
					t.Errorf("%s after user_canceled: %v", name, err)
				}
				if alert == AlertUserCanceled {
					s = newTestSealer(t, suite, EpochApplication, SealerConfig{})
				}
			}
		}
	}
}

func TestSealChangeCipherSpec(t *testing.T) {
	suite := aead.AES128GCM()
	want := []byte{20, 3, 3, 0, 1, 1}
	s := NewSealer(SealerConfig{})
	if _, err := s.SealChangeCipherSpec(nil); err != ErrEpoch {
		t.Errorf("before the first message: %v", err)
	}
	mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(1, 10)))
	for _, epoch := range []Epoch{EpochPlaintext, EpochEarly, EpochHandshake} {
		if epoch != EpochPlaintext {
			if err := s.SetTrafficSecret(epoch, suite, testSecret(suite, byte(epoch))); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.SealChangeCipherSpec(nil); err != nil || !bytes.Equal(got, want) || s.Seq() != 0 {
			t.Errorf("%v: %x, %v", epoch, got, err)
		}
	}
	if err := s.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 9)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SealChangeCipherSpec(nil); err != ErrEpoch {
		t.Errorf("under application keys: %v", err)
	}
	// A Sealer that begins with the handshake keys has not seen the first message.
	if got, err := newTestSealer(t, suite, EpochHandshake, SealerConfig{}).SealChangeCipherSpec(nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("from handshake keys on: %x, %v", got, err)
	}
}

// "a record containing an initial ClientHello SHOULD have version 0x0301
// (reflecting TLS 1.0) and a record containing a second ClientHello or a
// ServerHello MUST have version 0x0303" "MUST be set to 0x0303 for all records
// generated by a TLS 1.3 implementation other than an initial ClientHello [...] where
// it MAY also be 0x0301 for compatibility purposes." (RFC 9846, Section 5.1)
// "Implementations MUST NOT send any records with a version less than 0x0300."
// (Appendix E.5)
func TestSealVersions(t *testing.T) {
	suite := aead.AES128GCM()
	hello := message(1, 100)
	s := NewSealer(SealerConfig{})
	check := func(what string, rec []byte, err error, want byte) {
		t.Helper()
		if err != nil || rec[1] != 3 || rec[2] != want {
			t.Errorf("%s: version %x, %v", what, rec[1:3], err)
		}
	}
	rec, err := s.Seal(nil, ContentTypeHandshake, hello[:1])
	check("first byte of ClientHello", rec, err, 1)
	rec, err = s.SealGather(nil, ContentTypeHandshake, [][]byte{nil, hello[1:50], hello[50:]})
	check("rest of ClientHello", rec, err, 1)
	if err := s.SetTrafficSecret(EpochEarly, suite, testSecret(suite, 1)); err != nil {
		t.Fatal(err)
	}
	rec, err = s.Seal(nil, ContentTypeApplicationData, []byte("early"))
	check("early data", rec, err, 3)
	if err := s.AbandonEarlyData(); err != nil || s.Epoch() != EpochPlaintext || s.Suite() != nil || s.Seq() != 0 {
		t.Fatal(err)
	}
	if err := s.AbandonEarlyData(); err != ErrEpoch {
		t.Errorf("abandoned twice: %v", err)
	}
	rec, err = s.Seal(nil, ContentTypeHandshake, hello)
	check("second ClientHello", rec, err, 3)
	if err := s.SetTrafficSecret(EpochEarly, suite, testSecret(suite, 1)); err != ErrEpoch {
		t.Errorf("early keys again: %v", err)
	}
	rec, err = NewSealer(SealerConfig{}).Seal(nil, ContentTypeHandshake, message(2, 60))
	check("ServerHello", rec, err, 3)
	rec, err = NewSealer(SealerConfig{}).SealAlert(nil, AlertInternalError)
	check("alert", rec, err, 3)
}

func TestSealerEpochs(t *testing.T) {
	suite := aead.AES128GCM()
	epochs := []Epoch{EpochPlaintext, EpochEarly, EpochHandshake, EpochApplication}
	for _, from := range epochs {
		for _, to := range append(epochs, 4) {
			s, o := NewSealer(SealerConfig{}), NewOpener(OpenerConfig{})
			if from != EpochPlaintext {
				s = newTestSealer(t, suite, from, SealerConfig{})
				o = newTestOpener(t, suite, from, OpenerConfig{})
			}
			want := error(nil)
			if to <= from || to > EpochApplication {
				want = ErrEpoch
			}
			if err := s.SetTrafficSecret(to, suite, testSecret(suite, 2)); err != want {
				t.Errorf("Sealer from %v to %v: %v", from, to, err)
			}
			if err := o.SetTrafficSecret(to, suite, testSecret(suite, 2)); err != want {
				t.Errorf("Opener from %v to %v: %v", from, to, err)
			}
			if want == nil && (s.Epoch() != to || s.Suite() != suite || o.Epoch() != to || o.Suite() != suite) {
				t.Errorf("from %v to %v: epochs %v, %v", from, to, s.Epoch(), o.Epoch())
			}
		}
	}
	// One secret under two epochs would repeat nonces.
	s, o := newTestSealer(t, suite, EpochEarly, SealerConfig{}), newTestOpener(t, suite, EpochEarly, OpenerConfig{})
	if err := s.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 1)); err != ErrSecretReused || s.Epoch() != EpochEarly {
		t.Errorf("Sealer: same secret: %v", err)
	}
	if err := o.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 1)); err != ErrSecretReused || o.Epoch() != EpochEarly {
		t.Errorf("Opener: same secret: %v", err)
	}
	// Nor may one come back that was in use before.
	abandoned := newTestSealer(t, suite, EpochEarly, SealerConfig{})
	mustSeal(t)(abandoned.Seal(nil, ContentTypeApplicationData, nil))
	early := abandoned.keys.secret()
	if err := abandoned.AbandonEarlyData(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(early, zeros(len(early))) || abandoned.Seq() != 0 {
		t.Errorf("AbandonEarlyData left the secret or the number %d", abandoned.Seq())
	}
	returned := newTestSealer(t, suite, EpochEarly, SealerConfig{})
	if err := returned.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 2)); err != nil {
		t.Fatal(err)
	}
	opener := newTestOpener(t, suite, EpochEarly, OpenerConfig{})
	if err := opener.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 2)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []interface {
		Epoch() Epoch
		SetTrafficSecret(Epoch, *aead.Suite, []byte) error
	}{abandoned, returned, opener} {
		for epoch := d.Epoch() + 1; epoch <= EpochApplication; epoch++ {
			want := ErrSecretReused
			if epoch == EpochEarly {
				want = ErrEpoch
			}
			if err := d.SetTrafficSecret(epoch, suite, testSecret(suite, 1)); err != want {
				t.Errorf("%T: early secret for %v: %v", d, epoch, err)
			}
		}
		if err := d.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 3)); err != nil {
			t.Errorf("%T: new secret: %v", d, err)
		}
	}
	if kept := len(abandoned.used) + len(returned.used) + len(opener.used); kept != 0 {
		t.Errorf("%d hashes kept under application keys", kept)
	}
	for _, secret := range [][]byte{nil, make([]byte, 31), make([]byte, 33)} {
		wantErr(t, "short secret", s.SetTrafficSecret(EpochHandshake, suite, secret), ErrKeySetup, AlertInternalError)
		wantErr(t, "short secret", o.SetTrafficSecret(EpochHandshake, suite, secret), ErrKeySetup, AlertInternalError)
	}
	for _, set := range []func(Epoch, *aead.Suite, []byte) error{s.SetTrafficSecret, o.SetTrafficSecret} {
		if p := recovered(func() { set(EpochHandshake, nil, nil) }); p != "record: nil suite" {
			t.Errorf("nil suite: panic %v", p)
		}
	}
	// The caller may wipe its copy.
	secret := testSecret(suite, 7)
	if err := s.SetTrafficSecret(EpochHandshake, suite, secret); err != nil {
		t.Fatal(err)
	}
	clear(secret)
	if !s.keys.hasSecret(testSecret(suite, 7)) {
		t.Error("the Sealer keeps the caller's secret")
	}
}

// panicAEAD panics on demand, and notes the nonces that it seals under.
type panicAEAD struct {
	cipher.AEAD
	nonces   map[string]int
	panicNow *bool
	late     bool // after the output was written
}

func (a *panicAEAD) Seal(dst, nonce, plaintext, ad []byte) []byte {
	a.nonces[string(nonce)]++
	if *a.panicNow && !a.late {
		panic("AEAD")
	}
	out := a.AEAD.Seal(dst, nonce, plaintext, ad)
	if *a.panicNow {
		panic("AEAD")
	}
	return out
}

func (a *panicAEAD) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	out, err := a.AEAD.Open(dst, nonce, ciphertext, ad)
	if *a.panicNow {
		panic("AEAD")
	}
	return out, err
}

func panicSuite(nonces map[string]int, panicNow *bool, late bool) *aead.Suite {
	return aead.NewSuite(aead.SuiteParams{
		ID: 0xfe01, Name: "TEST", KeySize: 16, TagSize: 16, Hash: aead.AES128GCM().Hash(), RecordLimit: 1 << 20,
		New: func(key []byte) (cipher.AEAD, error) {
			block, err := aes.NewCipher(key)
			if err != nil {
				return nil, err
			}
			a, err := cipher.NewGCM(block)
			return &panicAEAD{a, nonces, panicNow, late}, err
		},
	})
}

// TestPanics injects panics into the AEAD and the padding function, and recovers
// from them as a server would: no nonce comes twice, whatever is called then.
func TestPanics(t *testing.T) {
	for _, late := range []bool{false, true} {
		for name, call := range map[string]func(s *Sealer) ([]byte, error){
			"Seal": func(s *Sealer) ([]byte, error) { return s.Seal(nil, ContentTypeApplicationData, []byte("one")) },
			"SealGather": func(s *Sealer) ([]byte, error) {
				return s.SealGather(nil, ContentTypeApplicationData, [][]byte{{1}, {2}})
			},
			"KeyUpdate": func(s *Sealer) ([]byte, error) { return s.SealKeyUpdate(nil, false) },
			"Alert":     func(s *Sealer) ([]byte, error) { return s.SealAlert(nil, AlertCloseNotify) },
		} {
			nonces := make(map[string]int)
			var panicNow, padPanics bool
			suite := panicSuite(nonces, &panicNow, late)
			pad := 0
			s := newTestSealer(t, suite, EpochApplication, SealerConfig{Padding: func(int) int {
				if padPanics {
					panic("padding")
				}
				return pad
			}})
			for pad = range 2 {
				mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, []byte("before")))
				// The padding function: nothing has changed.
				seq, generation := s.Seq(), s.Generation()
				padPanics = true
				if p := recovered(func() { call(s) }); p != "padding" {
					t.Fatalf("%s: panic %v", name, p)
				}
				padPanics = false
				if s.Seq() != seq || s.Generation() != generation {
					t.Errorf("%s: a panic of the padding function changed the Sealer", name)
				}
			}
			// The AEAD: the number is spent and the Sealer is unusable.
			seq := s.Seq()
			panicNow = true
			if p := recovered(func() { call(s) }); p != "AEAD" {
				t.Fatalf("%s: panic %v", name, p)
			}
			panicNow = false
			if s.Seq() != seq+1 || s.Generation() != 0 {
				t.Errorf("%s: after the panic: seq %d, want %d", name, s.Seq(), seq+1)
			}
			for range 2 {
				for again, f := range map[string]func() error{
					"call":   func() error { _, err := call(s); return err },
					"Seal":   func() error { _, err := s.Seal(nil, ContentTypeApplicationData, nil); return err },
					"Export": func() error { _, err := s.Export(); return err },
				} {
					if err := f(); err != ErrInterrupted {
						t.Errorf("%s, then %s: %v", name, again, err)
					}
				}
			}
			for nonce, n := range nonces {
				if n != 1 {
					t.Errorf("%s: nonce %x used %d times", name, nonce, n)
				}
			}
		}
	}
	// A padding function that uses its Sealer is a mistake that is found.
	var s *Sealer
	s = newTestSealer(t, aead.AES128GCM(), EpochApplication, SealerConfig{Padding: func(int) int {
		s.Seal(nil, ContentTypeApplicationData, nil)
		return 0
	}})
	if p := recovered(func() { s.Seal(nil, ContentTypeApplicationData, nil) }); p != "record: Sealer used by its own padding function" || s.Seq() != 0 {
		t.Errorf("panic %v, seq %d", p, s.Seq())
	}
}

func TestSealerWipe(t *testing.T) {
	suite := aead.AES128GCM()
	s := newTestSealer(t, suite, EpochApplication, SealerConfig{})
	mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, nil))
	secret := s.keys.secret()
	for range 2 {
		s.Wipe()
		if _, err := s.Seal(nil, ContentTypeApplicationData, nil); err != ErrClosed {
			t.Errorf("after Wipe: %v", err)
		}
		if err := s.AbandonEarlyData(); err != ErrClosed {
			t.Errorf("AbandonEarlyData after Wipe: %v", err)
		}
	}
	if !bytes.Equal(secret, make([]byte, len(secret))) || s.keys != nil || s.Seq() != 1 || s.Suite() != nil {
		t.Error("Wipe left something")
	}
	s.NeedsKeyUpdate()
	s.MaxSealedSize()
	// An update wipes what it replaces.
	s = newTestSealer(t, suite, EpochApplication, SealerConfig{})
	secret = s.keys.secret()
	mustSeal(t)(s.SealKeyUpdate(nil, false))
	if !bytes.Equal(secret, make([]byte, len(secret))) {
		t.Error("the old traffic secret is still there")
	}
	if slices.Equal(s.keys.secret(), secret) || errors.Is(s.err, ErrClosed) {
		t.Error("no new keys")
	}
}
