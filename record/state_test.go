package record

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/require"
)

// TestSealerState moves a Sealer, directly and encoded, and compares every record
// with one of a Sealer that stayed.
func TestSealerState(t *testing.T) {
	for _, suite := range aead.Suites() {
		for _, encoded := range []bool{false, true} {
			cfg := SealerConfig{RecordSizeLimit: 1000, SoftLimit: 50, HardLimit: 100}
			s := newTestSealer(t, suite, EpochApplication, cfg)
			f := newForger(t, suite)
			check := func() {
				t.Helper()
				want := f.record(ContentTypeApplicationData, []byte("content"), 0)
				if got, err := s.Seal(nil, ContentTypeApplicationData, []byte("content")); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%v, encoded %v: record %x, %v, want %x", suite, encoded, got, err, want)
				}
			}
			for i := range 20 {
				check()
				if i%5 == 4 {
					s.PeerKeyUpdate(false)
					mustSeal(t)(s.SealKeyUpdate(nil, i%2 == 0))
					f.keyUpdate()
				}
				owed := i%5 == 2
				if owed {
					s.PeerKeyUpdate(true)
				}
				requested, generation, seq := s.KeyUpdateRequested(), s.Generation(), s.Seq()
				st, err := s.Export()
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // dead
					if _, err := s.Seal(nil, ContentTypeApplicationData, nil); err != ErrExported {
						t.Fatalf("Seal after Export: %v", err)
					}
					if _, err := s.SealAlert(nil, AlertCloseNotify); err != ErrExported {
						t.Fatalf("SealAlert after Export: %v", err)
					}
					if _, err := s.SealKeyUpdate(nil, false); err != ErrExported {
						t.Fatalf("SealKeyUpdate after Export: %v", err)
					}
					if _, err := s.Export(); err != ErrExported {
						t.Fatalf("Export after Export: %v", err)
					}
				}
				if s.keys != nil || s.Seq() != seq {
					t.Fatal("the exported Sealer has keys")
				}
				if encoded {
					st = recode(t, st)
				}
				if _, _, err := ImportOpener(st, OpenerConfig{}); err != ErrState {
					t.Fatalf("a Sealer's state in an Opener: %v", err)
				}
				if s, err = ImportSealer(st, SealerConfig{}); err != nil {
					t.Fatal(err)
				}
				if _, err := ImportSealer(st, SealerConfig{}); err != ErrStateSpent {
					t.Fatalf("second import: %v", err)
				}
				if s.MaxContentSize() != 999 || s.soft != 50 || s.hard != 100 || s.KeyUpdateRequested() != requested ||
					s.Generation() != generation || s.Seq() != seq || s.Suite() != suite || s.Epoch() != EpochApplication || s.NeedsKeyUpdate() != owed {
					t.Fatalf("imported %+v", s)
				}
				if owed {
					mustSeal(t)(s.SealKeyUpdate(nil, false))
					f.keyUpdate()
				}
			}
		}
	}
	// Lower limits of the new owner win, higher ones do not.
	for _, cfg := range []SealerConfig{
		{RecordSizeLimit: 64, SoftLimit: 1, HardLimit: 70},
		{RecordSizeLimit: 5000, SoftLimit: 1000, HardLimit: 1000},
	} {
		s := newTestSealer(t, aead.AES128GCM(), EpochApplication, SealerConfig{RecordSizeLimit: 1000, SoftLimit: 50, HardLimit: 100})
		st, err := s.Export()
		if err != nil {
			t.Fatal(err)
		}
		if s, err = ImportSealer(st, cfg); err != nil {
			t.Fatal(err)
		}
		if s.limit != min(cfg.RecordSizeLimit, 1000) || s.soft != min(cfg.SoftLimit, 50) || s.hard != min(cfg.HardLimit, 100) {
			t.Errorf("%+v: limits %d, %d, %d", cfg, s.limit, s.soft, s.hard)
		}
		s.install(s.keys) // the limits belong to every key
		if s.soft != min(cfg.SoftLimit, 50) {
			t.Error("the soft limit is lost")
		}
	}
}

// TestStateOnce uses a State, a copy of it, and both at once, in every way. One
// use succeeds; a second Sealer would repeat nonces, or seal under what is left of
// a secret that was erased.
func TestStateOnce(t *testing.T) {
	newStates := func() (sealer, opener *State) {
		sealer, err := newTestSealer(t, aead.AES128GCM(), EpochApplication, SealerConfig{}).Export()
		if err != nil {
			t.Fatal(err)
		}
		opener, err = newTestOpener(t, aead.AES128GCM(), EpochApplication, OpenerConfig{}).Export(nil)
		if err != nil {
			t.Fatal(err)
		}
		return sealer, opener
	}
	uses := []struct {
		name   string
		opener bool
		use    func(*State) error
	}{
		{"ImportSealer", false, func(st *State) error { _, err := ImportSealer(st, SealerConfig{}); return err }},
		{"ImportOpener", true, func(st *State) error { _, _, err := ImportOpener(st, OpenerConfig{}); return err }},
		{"Encode", false, func(st *State) error { _, err := st.Encode(); return err }},
		{"Encode", true, func(st *State) error { _, err := st.Encode(); return err }},
		{"Reveal", false, func(st *State) error { _, err := st.Reveal(); return err }},
		{"Reveal", true, func(st *State) error { _, err := st.Reveal(); return err }},
	}
	for _, first := range uses {
		for _, second := range uses {
			if first.opener != second.opener {
				continue
			}
			st, opener := newStates()
			if first.opener {
				st = opener
			}
			copied := &State{fields: st.fields}
			secret := st.fields.secret()
			if err := first.use(st); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(secret, zeros(len(secret))) {
				t.Errorf("%s leaves the secret in the State", first.name)
			}
			if err := second.use(copied); err != ErrStateSpent {
				t.Errorf("%s, then %s of a copy: %v", first.name, second.name, err)
			}
			if text := copied.String(); text != "record.State(empty)" {
				t.Errorf("a copy of what was used prints %s", text)
			}
		}
	}
	for range 100 {
		st, _ := newStates()
		results := make(chan error)
		for range 4 {
			go func() { _, err := ImportSealer(st, SealerConfig{}); results <- err }()
		}
		imported := 0
		for range 4 {
			if err := <-results; err == nil {
				imported++
			} else if err != ErrStateSpent {
				t.Fatal(err)
			}
		}
		if imported != 1 {
			t.Fatalf("%d concurrent imports succeeded", imported)
		}
	}

	// A copy of a Sealer that has ended makes nothing of a secret of zeros.
	s := newTestSealer(t, aead.AES128GCM(), EpochApplication, SealerConfig{})
	copied := &Sealer{keys: s.keys, epoch: s.epoch, limit: s.limit, soft: s.soft, hard: s.hard}
	s.Wipe()
	if _, err := copied.SealKeyUpdate(nil, false); !errors.Is(err, ErrKeySetup) {
		t.Errorf("KeyUpdate of a copy: %v", err)
	}
	st, err := copied.Export()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ImportSealer(st, SealerConfig{}); !errors.Is(err, ErrKeySetup) {
		t.Errorf("a copy was moved: %v", err)
	}
}

func recode(t testing.TB, st *State) *State {
	t.Helper()
	data, err := st.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Encode(); err != ErrStateSpent {
		t.Fatalf("encoded twice: %v", err)
	}
	if st, err = DecodeState(data, nil); err != nil {
		t.Fatal(err)
	}
	clear(data)
	return st
}

func TestOpenerState(t *testing.T) {
	suite := aead.AES256GCM()
	for _, encoded := range []bool{false, true} {
		f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{RecordSizeLimit: 1000})
		for i := range 10 {
			if _, err := openAll(o, f.record(ContentTypeApplicationData, []byte("x"), 0)); err != nil {
				t.Fatal(err)
			}
			if i == 5 {
				if _, err := openAll(o, f.record(ContentTypeHandshake, []byte{24, 0, 0, 1, 0}, 0)); err != nil || o.KeyUpdate() != nil {
					t.Fatal(err)
				}
				f.keyUpdate()
			}
			unread := f.record(ContentTypeApplicationData, []byte("unread one"), 0)
			unread = append(unread, f.record(ContentTypeApplicationData, []byte("unread two"), 0)...)
			for n := 1; n < len(unread); n++ { // inside a record
				if n == len(unread)/2 {
					continue
				}
				if _, err := o.Export(unread[:n]); err != ErrHandshakePartial {
					t.Fatalf("%d unread bytes: %v", n, err)
				}
			}
			seq, generation := o.Seq(), o.Generation()
			st, err := o.Export(unread)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := o.Open(bytes.Clone(unread)); err != ErrExported {
				t.Fatalf("Open after Export: %v", err)
			}
			if err := o.KeyUpdate(); err != ErrExported {
				t.Fatalf("KeyUpdate after Export: %v", err)
			}
			if _, err := o.Export(nil); err != ErrExported {
				t.Fatalf("Export after Export: %v", err)
			}
			wire := bytes.Clone(unread)
			clear(unread) // it was copied
			if encoded {
				st = recode(t, st)
			}
			if _, err := ImportSealer(st, SealerConfig{}); err != ErrState {
				t.Fatalf("an Opener's state in a Sealer: %v", err)
			}
			var rest []byte
			if o, rest, err = ImportOpener(st, OpenerConfig{}); err != nil || !bytes.Equal(rest, wire) {
				t.Fatalf("unread %x, %v, want %x", rest, err, wire)
			}
			if _, _, err := ImportOpener(st, OpenerConfig{}); err != ErrStateSpent {
				t.Fatalf("second import: %v", err)
			}
			if o.Seq() != seq || o.Generation() != generation || o.limit != 1000 || o.Suite() != suite || o.Epoch() != EpochApplication {
				t.Fatalf("imported %+v", o)
			}
			out, err := openAll(o, rest)
			if err != nil || len(out) != 2 || string(out[1].content) != "unread two" {
				t.Fatalf("%v, %v", out, err)
			}
		}
	}
}

func TestExportRefusals(t *testing.T) {
	suite := aead.AES128GCM()
	for _, epoch := range []Epoch{EpochPlaintext, EpochEarly, EpochHandshake} {
		s, o := NewSealer(SealerConfig{}), NewOpener(OpenerConfig{})
		if epoch != EpochPlaintext {
			s, o = newTestSealer(t, suite, epoch, SealerConfig{}), newTestOpener(t, suite, epoch, OpenerConfig{})
		}
		if _, err := s.Export(); err != ErrEpoch {
			t.Errorf("Sealer, %v: %v", epoch, err)
		}
		if _, err := o.Export(nil); err != ErrEpoch {
			t.Errorf("Opener, %v: %v", epoch, err)
		}
		if s.Epoch() != epoch || o.Epoch() != epoch || s.err != nil || o.err != nil {
			t.Error("a refused Export changed something")
		}
	}
	m := message(4, 9)
	for cut := 1; cut < len(m); cut++ {
		f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		if _, err := openAll(o, f.record(ContentTypeHandshake, m[:cut], 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Export(nil); err != ErrHandshakePartial {
			t.Errorf("cut %d: %v", cut, err)
		}
		if _, err := openAll(o, f.record(ContentTypeHandshake, m[cut:], 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Export(nil); err != nil {
			t.Errorf("cut %d, whole: %v", cut, err)
		}
	}
}

func TestReveal(t *testing.T) {
	suite := aead.AES128GCM()
	s := newTestSealer(t, suite, EpochApplication, SealerConfig{})
	mustSeal(t)(s.SealKeyUpdate(nil, true))
	mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, nil))
	st, err := s.Export()
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := st.Reveal()
	if err != nil {
		t.Fatal(err)
	}
	f := newForger(t, suite)
	f.keyUpdate()
	keys, err := aead.DeriveTrafficKeys(suite, f.secret)
	if err != nil {
		t.Fatal(err)
	}
	if secrets.Suite != suite || !bytes.Equal(secrets.TrafficSecret, f.secret) || !bytes.Equal(secrets.Keys.Key, keys.Key) ||
		!bytes.Equal(secrets.Keys.IV, keys.IV) || secrets.Seq != 1 || secrets.Generation != 1 || !secrets.KeyUpdateRequested ||
		secrets.KeyUpdateOwed || secrets.HardLimit != suite.RecordLimit() || secrets.RecordSizeLimit != MaxInnerSize {
		t.Errorf("%#v", *secrets)
	}
	for name, f := range map[string]func() error{
		"Reveal":       func() error { _, err := st.Reveal(); return err },
		"Encode":       func() error { _, err := st.Encode(); return err },
		"ImportSealer": func() error { _, err := ImportSealer(st, SealerConfig{}); return err },
		"ImportOpener": func() error { _, _, err := ImportOpener(st, OpenerConfig{}); return err },
	} {
		if err := f(); err != ErrStateSpent {
			t.Errorf("%s of an empty State: %v", name, err)
		}
	}
	if _, err := new(State).Reveal(); err != ErrStateSpent {
		t.Errorf("the zero State: %v", err)
	}
}

// TestKeySetupFails makes the AEAD's constructor fail, as GODEBUG=fips140=only does
// for some: whatever needed new keys is refused and has changed nothing.
func TestKeySetupFails(t *testing.T) {
	cause := errors.New("no AEAD today")
	fail := false
	var given []byte // to the constructor, and wiped afterwards
	suite := aead.NewSuite(aead.SuiteParams{
		ID: 0xfe04, Name: "TEST", KeySize: 16, TagSize: 16, Hash: aead.AES128GCM().Hash(), RecordLimit: 1 << 20,
		New: func(key []byte) (cipher.AEAD, error) {
			given = key
			if fail {
				return nil, cause
			}
			return aead.AES128GCM().New(key)
		},
	})
	s, o := newTestSealer(t, suite, EpochApplication, SealerConfig{}), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	if !bytes.Equal(given, zeros(16)) {
		t.Error("the key is still there")
	}
	f := newForger(t, aead.AES128GCM()) // the same keys and AEAD
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, cause) {
			t.Errorf("%s: the cause is not wrapped: %v", what, err)
		}
		wantErr(t, what, err, ErrKeySetup, AlertInternalError)
		if !bytes.Equal(given, zeros(16)) {
			t.Errorf("%s: the key is still there", what)
		}
	}
	fail = true
	got, err := s.SealKeyUpdate(nil, true)
	check("SealKeyUpdate", err)
	if got != nil || s.Seq() != 0 || s.Generation() != 0 || s.KeyUpdateRequested() {
		t.Error("a refused key update changed something")
	}
	update := []byte{24, 0, 0, 1, 0}
	wire := f.record(ContentTypeHandshake, update, 0)
	if _, err := openAll(o, wire); err != nil {
		t.Fatal(err)
	}
	check("KeyUpdate", o.KeyUpdate())
	check("Sealer.SetTrafficSecret", NewSealer(SealerConfig{}).SetTrafficSecret(EpochEarly, suite, testSecret(suite, 1)))
	check("Opener.SetTrafficSecret", NewOpener(OpenerConfig{}).SetTrafficSecret(EpochEarly, suite, testSecret(suite, 1)))

	fail = false
	if got, err := s.SealKeyUpdate(nil, false); err != nil || !bytes.Equal(got, wire) {
		t.Errorf("then SealKeyUpdate: %x, %v", got, err)
	}
	if err := o.KeyUpdate(); err != nil {
		t.Errorf("then KeyUpdate: %v", err)
	}
	sealerState, err := s.Export()
	if err != nil {
		t.Fatal(err)
	}
	openerState, err := o.Export(nil)
	if err != nil {
		t.Fatal(err)
	}
	fail = true
	_, err = ImportSealer(sealerState, SealerConfig{})
	check("ImportSealer", err)
	_, _, err = ImportOpener(openerState, OpenerConfig{})
	check("ImportOpener", err)
	fail = false
	s, err = ImportSealer(sealerState, SealerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	o, _, err = ImportOpener(openerState, OpenerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	wire = mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, []byte("x")))
	if out, err := openAll(o, wire); err != nil || string(out[0].content) != "x" {
		t.Errorf("then %v, %v", out, err)
	}
}

// TestRedaction prints everything that holds a secret in every way that comes to
// mind and looks for it.
func TestRedaction(t *testing.T) {
	suite := aead.AES128GCM()
	secret := []byte("0123456789abcdefghijklmnopqrstuv")
	newState := func() *State {
		s := NewSealer(SealerConfig{})
		if err := s.SetTrafficSecret(EpochApplication, suite, secret); err != nil {
			t.Fatal(err)
		}
		st, err := s.Export()
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	secrets, err := newState().Reveal()
	if err != nil {
		t.Fatal(err)
	}
	s, o := NewSealer(SealerConfig{}), NewOpener(OpenerConfig{})
	if s.SetTrafficSecret(EpochApplication, suite, secret) != nil || o.SetTrafficSecret(EpochApplication, suite, secret) != nil {
		t.Fatal("no keys")
	}
	st := newState()
	decimals := strings.Trim(fmt.Sprint(secret[:8]), "[]")
	hexBytes := fmt.Sprintf("%#v", secret[:4]) // []byte{0x30, 0x31, ...
	hexBytes = strings.TrimSuffix(strings.TrimPrefix(hexBytes, "[]byte{"), "}")
	key := strings.Trim(fmt.Sprint(secrets.Keys.Key[:8]), "[]")
	check := func(what, text string) {
		t.Helper()
		for _, leak := range []string{string(secret[:8]), decimals, hexBytes, hex.EncodeToString(secret[:8]), strings.ToUpper(hex.EncodeToString(secret[:8])), "MDEyMzQ1", key} {
			if strings.Contains(text, leak) {
				t.Errorf("%s shows a secret: %s", what, text)
			}
		}
	}
	type holder struct {
		Name    string
		State   *State
		Secrets *Secrets
		Values  Secrets
		Sealer  *Sealer
		Opener  *Opener
	}
	h := holder{"holder", st, secrets, *secrets, s, o}
	hidden := struct {
		st      *State
		s       *Sealer
		o       *Opener
		inState struct{ State }
	}{st: st, s: s, o: o}
	hidden.inState.fields = st.fields
	for _, v := range []any{st, secrets, *secrets, s, o, h, &h, &hidden, []any{&hidden}, []any{st, secrets, s, o}, map[string]any{"a": st, "b": *secrets}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d", "%t"} {
			check(fmt.Sprintf("%s of %T", verb, v), fmt.Sprintf(verb, v))
		}
		if data, err := json.Marshal(v); err == nil {
			check(fmt.Sprintf("JSON of %T", v), string(data))
		}
		var buf bytes.Buffer
		slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&buf, nil)).Info("x", "v", v)
		check(fmt.Sprintf("slog of %T", v), buf.String())
		buf.Reset()
		if gob.NewEncoder(&buf).Encode(v) == nil {
			check(fmt.Sprintf("gob of %T", v), buf.String())
		}
	}
	for _, test := range []struct{ got, want string }{
		{fmt.Sprint(st), "record.State(sealer, TLS_AES_128_GCM_SHA256, redacted)"},
		{fmt.Sprintf("%#v", st), "record.State(sealer, TLS_AES_128_GCM_SHA256, redacted)"},
		{fmt.Sprint(new(State)), "record.State(empty)"},
		{fmt.Sprint(secrets), "record.Secrets(TLS_AES_128_GCM_SHA256, redacted)"},
		{Secrets{}.String(), "record.Secrets(redacted)"},
	} {
		if test.got != test.want {
			t.Errorf("printed %q, want %q", test.got, test.want)
		}
	}
	if data, err := json.Marshal(st); err != nil || string(data) != `"record.State(sealer, TLS_AES_128_GCM_SHA256, redacted)"` {
		t.Errorf("JSON %s, %v", data, err)
	}
}

// TestDecodeState changes and cuts every byte of encoded states: an error, or a
// state that means something.
func TestDecodeState(t *testing.T) {
	suite := aead.AES128GCM()
	o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	opener, err := o.Export(newForger(t, suite).record(ContentTypeApplicationData, []byte("x"), 0))
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := newTestSealer(t, suite, EpochApplication, SealerConfig{}).Export()
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []*State{opener, sealer} {
		data, err := st.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for n := range data {
			if _, err := DecodeState(data[:n], nil); err != ErrState {
				t.Errorf("%d of %d bytes: %v", n, len(data), err)
			}
		}
		if _, err := DecodeState(append(bytes.Clone(data), 0), nil); err != ErrState {
			t.Errorf("one byte more: %v", err)
		}
		for i := range data {
			for bit := range 8 {
				b := bytes.Clone(data)
				b[i] ^= 1 << bit
				st, err := DecodeState(b, nil)
				if err != nil {
					continue
				}
				if again, err := st.Encode(); err != nil || !bytes.Equal(again, b) {
					t.Errorf("byte %d: decoded to something else", i)
				}
			}
		}
		for _, suites := range []func(uint16) *aead.Suite{
			func(uint16) *aead.Suite { return nil },
			func(uint16) *aead.Suite { return aead.AES256GCM() },
		} {
			if _, err := DecodeState(data, suites); err != ErrState {
				t.Errorf("wrong suite: %v", err)
			}
		}
		if _, err := DecodeState(data, aead.SuiteByID); err != nil {
			t.Error(err)
		}
	}
}

// TestDecodeStateBounds sets each number of a Sealer's state to the least and the most
// that a Sealer can have, and to one beyond.
func TestDecodeStateBounds(t *testing.T) {
	st, err := newTestSealer(t, aead.AES128GCM(), EpochApplication, SealerConfig{}).Export()
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := st.Encode()
	if err != nil {
		t.Fatal(err)
	}
	st, err = newTestOpener(t, aead.AES128GCM(), EpochApplication, OpenerConfig{}).Export(plain(23, nil))
	if err != nil {
		t.Fatal(err)
	}
	opener, err := st.Encode()
	if err != nil {
		t.Fatal(err)
	}
	long := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	short := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	for _, field := range []struct {
		name   string
		data   []byte
		at     int
		value  []byte
		decode bool
	}{
		{"generation", sealer, 12, long(maxKeyUpdates), true},
		{"generation", sealer, 12, long(maxKeyUpdates + 1), false},
		{"soft limit", sealer, 20, long(1), true},
		{"soft limit", sealer, 20, long(0), false},
		{"hard limit", sealer, 28, long(2), true},
		{"hard limit", sealer, 28, long(1), false},
		{"record size limit", sealer, 36, short(MinRecordSizeLimit), true},
		{"record size limit", sealer, 36, short(MinRecordSizeLimit - 1), false},
		{"record size limit", sealer, 36, short(MaxInnerSize), true},
		{"record size limit", sealer, 36, short(MaxInnerSize + 1), false},
		{"secret", slices.Delete(bytes.Clone(sealer), 39, 40), 38, []byte{31}, false},
		{"generation of an Opener", opener, 12, long(maxKeyUpdates + 1), true},
		{"request by an Opener", opener, 1, []byte{stateOpener | stateRequested}, false},
		{"answer owed by an Opener", opener, 1, []byte{stateOpener | stateOwed}, false},
		{"soft limit of an Opener", opener, 20, long(1), false},
		{"hard limit of an Opener", opener, 28, long(1), false},
		{"unread bytes of no record", opener, len(opener) - 1, []byte{1}, false},
	} {
		b := bytes.Clone(field.data)
		copy(b[field.at:], field.value)
		if _, err := DecodeState(b, nil); (err == nil) != field.decode {
			t.Errorf("%s %x: %v", field.name, field.value, err)
		}
	}
}

// TestCopiesAreFound copies each object that must not be copied, and go vet has to
// say so.
func TestCopiesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go vet")
	}
	goTool := require.Tool(t, "go")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	types := []string{"Sealer", "Opener", "State", "HandshakeReader", "Writer", "Reader", "Conn"}
	var source strings.Builder
	source.WriteString("package copies\n\nimport \"example.com/splitseal/record\"\n")
	for _, name := range types {
		fmt.Fprintf(&source, "\nfunc f%s(a *record.%s) { b := *a; _ = &b }\n", name, name)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	mod = bytes.Replace(mod, []byte("module example.com/splitseal"), []byte("module example.org/copies"), 1)
	mod = fmt.Appendf(mod, "\nrequire example.com/splitseal v0.0.0\nreplace example.com/splitseal => %q\n", root)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"copies.go": []byte(source.String()), "go.mod": mod, "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(goTool, "vet", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("go vet found nothing")
	}
	for _, name := range types {
		if want := "assignment copies lock value to b: example.com/splitseal/record." + name; !strings.Contains(string(out), want) {
			t.Errorf("go vet does not say %q:\n%s", want, out)
		}
	}
}
