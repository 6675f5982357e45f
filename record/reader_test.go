package record

import (
	"bytes"
	"context"
	"crypto"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/standin"
)

// newTestReader returns a Reader of what a client's Sealer makes.
func newTestReader(t testing.TB, r io.Reader, cfg ReaderConfig) *Reader {
	return NewReader(r, appOpener(t, aead.AES128GCM(), "client"), cfg)
}

// testStream returns records of many kinds, all that they carry, and a mark for each
// record. Some have large bytes of content.
func testStream(t testing.TB, large int) (wire, data []byte, marks []mark) {
	t.Helper()
	padding := 0
	s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{Padding: func(int) int { return padding }})
	add := func(rec []byte, err error) {
		t.Helper()
		wire = mustSeal(t)(rec, err)
		marks = append(marks, mark{end: len(wire)})
	}
	body := pattern(60_000)
	for i, size := range []int{5, 1, 0, 100, large, 3, large, 17, 1350, 1} {
		padding = i * 7 % 30
		add(s.Seal(wire, ContentTypeApplicationData, body[:size]))
		marks[len(marks)-1].content = size
		data = append(data, body[:size]...)
		switch i {
		case 3:
			add(s.SealKeyUpdate(wire, false))
		case 5:
			add(s.SealAlert(wire, AlertUserCanceled))
		case 6:
			add(s.SealKeyUpdate(wire, true))
		case 7:
			msg := message(typeNewSessionTicket, 40)
			add(s.Seal(wire, ContentTypeHandshake, msg[:3]))
			add(s.Seal(wire, ContentTypeHandshake, msg[3:20]))
			add(s.Seal(wire, ContentTypeHandshake, msg[20:]))
		}
	}
	add(s.SealAlert(wire, AlertCloseNotify))
	return wire, data, marks
}

// TestReaderSplits reads one stream in every way of cutting it and of asking for
// it, and gets the same.
func TestReaderSplits(t *testing.T) {
	wire, data, _ := testStream(t, MaxContentSize)
	sources := map[string]func() io.Reader{
		"whole":         func() io.Reader { return bytes.NewReader(wire) },
		"halves":        func() io.Reader { return iotest.HalfReader(bytes.NewReader(wire)) },
		"bytes":         func() io.Reader { return iotest.OneByteReader(bytes.NewReader(wire)) },
		"with its end":  func() io.Reader { return iotest.DataErrReader(bytes.NewReader(wire)) },
		"deadlines":     func() io.Reader { return &oneByteReader{data: bytes.Clone(wire), end: io.EOF} },
		"after the end": func() io.Reader { return bytes.NewReader(append(bytes.Clone(wire), "ignored"...)) },
		"random":        func() io.Reader { return &randomReader{rand: testRand(t), r: bytes.NewReader(wire)} },
	}
	for name, source := range sources {
		for _, size := range []int{1, 2, 16, 100, 1349, 1350, 16383, 16384, 16385, 20000, 40000, 1 << 17} {
			for _, cfg := range []ReaderConfig{{}, {KeepBuffer: true}, {Unread: wire[:33_000]}, {Unread: wire[:3]}, {Unread: wire}} {
				src := source()
				if n := len(cfg.Unread); n > 0 {
					// What was read already does not come again.
					io.CopyN(io.Discard, &retry{src}, int64(n))
				}
				var events []string
				cfg.HandleMessage = func(m []byte) error {
					events = append(events, fmt.Sprint("message ", m[0], " ", len(m)))
					return nil
				}
				cfg.OnKeyUpdate = func(request bool) { events = append(events, fmt.Sprint("KeyUpdate ", request)) }
				cfg.OnAlert = func(a Alert) { events = append(events, a.String()) }
				r := newTestReader(t, src, cfg)
				var got []byte
				p := make([]byte, size)
				for {
					n, err := r.Read(p)
					got = append(got, p[:n]...)
					if err == io.EOF {
						break
					}
					if err != nil && (name != "deadlines" || !errors.Is(err, os.ErrDeadlineExceeded)) {
						t.Fatalf("%s, %d: after %d bytes: %v", name, size, len(got), err)
					}
					if n == 0 && err == nil {
						t.Fatalf("%s, %d: nothing and no error", name, size)
					}
				}
				if !bytes.Equal(got, data) {
					t.Fatalf("%s, %d: %d bytes, want %d", name, size, len(got), len(data))
				}
				if got, want := strings.Join(events, ", "), "KeyUpdate false, user_canceled, KeyUpdate true, message 4 44, close_notify"; got != want {
					t.Errorf("%s, %d: %s, want %s", name, size, got, want)
				}
				if n, err := r.Read(p); n != 0 || err != io.EOF {
					t.Errorf("%s, %d: after the end: %d, %v", name, size, n, err)
				}
				if r.b != nil || r.config.Unread != nil || r.opener.keys != nil {
					t.Error("memory or keys are still there")
				}
			}
			if name == "deadlines" && size > 2 {
				break // bytes arrive one by one, so it makes no difference
			}
		}
	}
}

// retry reads through deadlines.
type retry struct{ r io.Reader }

func (r *retry) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}

// randomReader returns as many bytes as it likes, and deadlines nowhere.
type randomReader struct {
	rand *rand.Rand
	r    io.Reader
}

func (r *randomReader) Read(p []byte) (int, error) {
	if r.rand.IntN(10) == 0 {
		return 0, nil
	}
	n := len(p)
	if r.rand.IntN(2) == 0 {
		n = min(n, 1+r.rand.IntN(50))
	}
	return r.r.Read(p[:min(n, 1+r.rand.IntN(len(p)))])
}

// TestReaderManyRecords opens many records out of one read of the transport, and
// fills one read of the caller's with them.
func TestReaderManyRecords(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
	var wire []byte
	data := pattern(3000)
	for i := range 30 {
		wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, data[i*100:(i+1)*100]))
	}
	src := stub{}
	src.in.Write(wire)
	r := newTestReader(t, &src, ReaderConfig{})
	p := make([]byte, 5000)
	if n, err := r.Read(p); n != 3000 || err != nil || !bytes.Equal(p[:n], data) {
		t.Errorf("%d, %v", n, err)
	}
	if src.reads != 2 { // a header, and all the rest
		t.Errorf("%d reads", src.reads)
	}
}

// TestReaderWritesNoMore leaves the caller's memory behind the content as it is, where
// no inner plaintext is longer. TestReadOpensInPlace shows that the content is opened
// there and not copied.
func TestReaderWritesNoMore(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
	wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, pattern(1000)))
	r := newTestReader(t, bytes.NewReader(wire), ReaderConfig{})
	p := bytes.Repeat([]byte{0xa5}, 2000)
	if n, err := r.Read(p); n != 1000 || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(p[:1000], pattern(1000)) || !bytes.Equal(p[1000:], bytes.Repeat([]byte{0xa5}, 1000)) {
		t.Error("content or what is behind it differs")
	}
}

// TestReaderTruncation ends the transport after every byte.
//
// "If a transport-level close is received prior to a "close_notify", the receiver
// cannot know that all the data that was sent has been received." "If the
// application protocol using TLS provides that any data may be carried over the
// underlying transport after the TLS connection is closed, the TLS implementation
// MUST receive a "close_notify" alert before indicating end-of-data to the
// application layer." (RFC 9846, Section 6.1)
func TestReaderTruncation(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
	var wire []byte
	ends := map[int]int{0: 0} // of records: what has been sent by then
	sent := 0
	for _, size := range []int{1, 50, 7} {
		wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, pattern(size)))
		sent += size
		ends[len(wire)] = sent
	}
	whole := 0
	for end := range len(wire) + 1 {
		if n, ok := ends[end]; ok {
			whole = n
		}
		for _, accept := range []bool{false, true} {
			for _, withData := range []bool{false, true} {
				var src io.Reader = bytes.NewReader(wire[:end])
				if withData {
					src = iotest.DataErrReader(src)
				}
				r := newTestReader(t, src, ReaderConfig{AcceptTruncation: accept})
				got, err := readUntilError(r)
				want := io.ErrUnexpectedEOF
				if _, boundary := ends[end]; boundary && accept {
					want = io.EOF
				}
				if len(got) != whole || err != want {
					t.Errorf("cut at %d, accepted %v: %d bytes and %v, want %d and %v", end, accept, len(got), err, whole, want)
				}
				if _, err := r.Read(make([]byte, 1)); err != want {
					t.Errorf("again: %v", err)
				}
			}
		}
	}
	// Between the fragments of a handshake message a record ends, but no message.
	s = appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
	wire = mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(4, 10)[:5]))
	r := newTestReader(t, bytes.NewReader(wire), ReaderConfig{AcceptTruncation: true})
	if _, err := r.Read(make([]byte, 1)); err != io.ErrUnexpectedEOF {
		t.Errorf("inside a message: %v", err)
	}
}

func readUntilError(r io.Reader) (got []byte, err error) {
	p := make([]byte, 1000)
	for {
		n, err := r.Read(p)
		got = append(got, p[:n]...)
		if err != nil {
			return got, err
		}
	}
}

// TestReaderTransportErrors has the transport fail after every byte, with that byte
// or behind it: all data in whole records comes first, and the error stays.
func TestReaderTransportErrors(t *testing.T) {
	wire, data, marks := testStream(t, 200)
	broken := errors.New("broken")
	whole := 0
	for end := range wire { // at its end the peer has closed
		if end == marks[0].end {
			whole += marks[0].content
			marks = marks[1:]
		}
		for _, withData := range []bool{false, true} {
			src, failed := bytes.NewReader(wire[:end]), false
			transport := readerFunc(func(p []byte) (int, error) {
				if failed {
					t.Errorf("after %d: read again after an error", end)
				}
				n, _ := src.Read(p)
				if failed = n == 0 || withData && src.Len() == 0; failed {
					return n, broken
				}
				return n, nil
			})
			r := newTestReader(t, transport, ReaderConfig{HandleMessage: func([]byte) error { return nil }})
			got, err := readUntilError(r)
			var said *TransportError
			if !errors.Is(err, broken) || !errors.As(err, &said) || said.Op != "read" || isTemporary(err) || said.Timeout() {
				t.Fatalf("after %d: %v", end, err)
			}
			if !bytes.Equal(got, data[:whole]) {
				t.Fatalf("after %d: wrong data, %d bytes of %d", end, len(got), whole)
			}
			if _, again := r.Read(make([]byte, 10)); again != err {
				t.Fatalf("after %d: again: %v", end, again)
			}
			if _, again := r.WriteTo(io.Discard); again != err {
				t.Fatalf("after %d: WriteTo: %v", end, again)
			}
		}
	}
	for _, end := range []error{&net.OpError{Op: "read", Err: io.EOF}, fmt.Errorf("wrapped: %w", io.EOF)} {
		for _, accept := range []bool{false, true} {
			_, err := newTestReader(t, &stub{readErr: end}, ReaderConfig{AcceptTruncation: accept}).Read(make([]byte, 1))
			if errors.Is(err, io.EOF) || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), end.Error()) {
				t.Errorf("%v passes for the end of the data: %v", end, err)
			}
		}
	}
	for name, lie := range map[string]readerFunc{
		"more than was asked for": func(p []byte) (int, error) { return len(p) + 1, nil },
		"less than nothing":       func(p []byte) (int, error) { return -1, nil },
	} {
		if _, err := newTestReader(t, lie, ReaderConfig{}).Read(make([]byte, 1)); !errors.Is(err, errInvalidRead) {
			t.Errorf("%s: %v", name, err)
		}
	}
	idle := readerFunc(func(p []byte) (int, error) { return 0, nil })
	if _, err := newTestReader(t, idle, ReaderConfig{}).Read(make([]byte, 1)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("nothing for ever: %v", err)
	}
}

// TestReaderDataBeforeError delivers what came before a fault, and then the
// fault, for ever.
func TestReaderDataBeforeError(t *testing.T) {
	f := newForger(t, aead.AES128GCM())
	f.setSecret(secretOf(f.suite, "client"))
	wire := f.record(ContentTypeApplicationData, []byte("hello"), 0)
	wire = append(wire, f.record(ContentTypeApplicationData, []byte("world"), 3)...)
	bad := f.record(ContentTypeApplicationData, []byte("bad"), 0)
	bad[7] ^= 1
	wire = append(wire, bad...)
	wire = append(wire, f.record(ContentTypeApplicationData, []byte("never"), 0)...)
	for _, size := range []int{1, 3, 5, 7, 10, 11, 100} {
		got, err := readUntilError(&limited{newTestReader(t, bytes.NewReader(wire), ReaderConfig{}), size})
		if string(got) != "helloworld" || err != ErrBadRecordMAC {
			t.Errorf("%d: %q, %v", size, got, err)
		}
	}
	r := newTestReader(t, bytes.NewReader(wire), ReaderConfig{})
	p := bytes.Repeat([]byte{7}, 100)
	if n, err := r.Read(p); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if i := bytes.IndexFunc(p[10:], func(c rune) bool { return c != 7 && c != 0 }); i >= 0 {
		t.Errorf("unverified bytes behind the data: %x", p[10:])
	}
	var out bytes.Buffer
	r = newTestReader(t, bytes.NewReader(wire), ReaderConfig{})
	if n, err := r.WriteTo(&out); n != 10 || err != ErrBadRecordMAC || out.String() != "helloworld" {
		t.Errorf("WriteTo: %d, %v, %q", n, err, out.String())
	}
}

type limited struct {
	r io.Reader
	n int
}

func (l *limited) Read(p []byte) (int, error) { return l.r.Read(p[:min(len(p), l.n)]) }

// TestReaderWriteTo loses nothing that the destination does not take.
func TestReaderWriteTo(t *testing.T) {
	wire, data, _ := testStream(t, MaxContentSize)
	ignore := ReaderConfig{HandleMessage: func([]byte) error { return nil }}
	r := newTestReader(t, bytes.NewReader(wire), ignore)
	var out bytes.Buffer
	if n, err := r.WriteTo(&out); n != int64(len(data)) || err != nil || !bytes.Equal(out.Bytes(), data) {
		t.Fatalf("%d, %v", n, err)
	}
	full := errors.New("full")
	for _, test := range []struct {
		name string
		err  error
		want error
	}{{"short", nil, io.ErrShortWrite}, {"error", full, full}, {"its own end", io.EOF, io.ErrClosedPipe}, {"its own end, wrapped", fmt.Errorf("full: %w", io.EOF), io.ErrClosedPipe}} {
		r := newTestReader(t, bytes.NewReader(wire), ignore)
		out.Reset()
		for range 10 {
			left, cut := 2, false
			n, err := r.WriteTo(writerFunc(func(p []byte) (int, error) {
				if cut {
					t.Fatalf("%s: written to again", test.name)
				}
				if left--; left > 0 || len(p) < 4 {
					out.Write(p)
					return len(p), nil
				}
				cut = true
				out.Write(p[:len(p)/2])
				return len(p) / 2, test.err
			}))
			if int(n) > out.Len() {
				t.Fatalf("%s: count %d", test.name, n)
			}
			if (err != nil) != cut || cut && !errors.Is(err, test.want) || errors.Is(err, io.EOF) {
				t.Fatalf("%s: %v", test.name, err)
			}
		}
		rest, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(append(out.Bytes(), rest...), data) {
			t.Errorf("%s: %v, %d bytes of %d", test.name, err, out.Len()+len(rest), len(data))
		}
	}
	r = newTestReader(t, bytes.NewReader(wire), ignore)
	if n, err := r.WriteTo(writerFunc(func(p []byte) (int, error) { return len(p) + 1, nil })); n != 0 || err != errInvalidWrite {
		t.Errorf("lie: %d, %v", n, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestReaderFaults sends what no peer may, and looks at the alert that the error
// asks for. TestCorners has the faults of single records.
func TestReaderFaults(t *testing.T) {
	key := func(b ...byte) []byte { return append([]byte{typeKeyUpdate, 0, 0, byte(len(b))}, b...) }
	type recs = [][]byte
	for _, test := range []struct {
		name  string
		wire  func(f *forger) recs
		want  error
		alert Alert
	}{
		// "If an implementation receives any other value, it MUST terminate the
		// connection with an "illegal_parameter" alert." (RFC 9846, Section 4.7.3)
		{"KeyUpdate of 2", func(f *forger) recs { return recs{f.record(22, key(2), 0)} }, ErrKeyUpdateRequest, AlertIllegalParameter},
		{"KeyUpdate of 255", func(f *forger) recs { return recs{f.record(22, key(255), 0)} }, ErrKeyUpdateRequest, AlertIllegalParameter},
		// "Peers which receive a message which cannot be parsed according to the
		// syntax (e.g., have a length extending beyond the message boundary or
		// contain an out-of-range length) MUST terminate the connection with a
		// "decode_error" alert. Peers which receive a message which is
		// syntactically correct but semantically invalid (e.g., a DHE share of p -
		// 1, or an invalid enum) MUST terminate the connection with an
		// "illegal_parameter" alert." (RFC 9846, Section 6)
		{"KeyUpdate of nothing", func(f *forger) recs { return recs{f.record(22, key(), 0)} }, ErrMalformedMessage, AlertDecodeError},
		{"KeyUpdate of two bytes", func(f *forger) recs { return recs{f.record(22, key(0, 0), 0)} }, ErrMalformedMessage, AlertDecodeError},
		// "Handshake messages MUST NOT span key changes." (RFC 9846, Section 5.1)
		{"two KeyUpdates", func(f *forger) recs { return recs{f.record(22, append(key(0), key(0)...), 0)} }, ErrKeyChangeBoundary, AlertUnexpectedMessage},
		{"KeyUpdate and a byte", func(f *forger) recs { return recs{f.record(22, append(key(0), 4), 0)} }, ErrKeyChangeBoundary, AlertUnexpectedMessage},
		{"KeyUpdate behind a fragment and before one", func(f *forger) recs {
			k := key(0)
			return recs{f.record(22, k[:2], 0), f.record(22, append(k[2:], 4, 0), 0)}
		}, ErrKeyChangeBoundary, AlertUnexpectedMessage},
		// "both sides MUST enforce that a KeyUpdate with the old key is received
		// before accepting any messages encrypted with the new key." (RFC 9846,
		// Section 4.7.3)
		{"new keys without a KeyUpdate", func(f *forger) recs { f.keyUpdate(); return recs{f.record(23, []byte("x"), 0)} }, ErrBadRecordMAC, AlertBadRecordMAC},
		{"old keys after a KeyUpdate", func(f *forger) recs {
			return recs{f.record(22, key(0), 0), f.record(23, []byte("x"), 0)}
		}, ErrBadRecordMAC, AlertBadRecordMAC},
		// "if a handshake message is split over two or more records, there MUST
		// NOT be any other records between them." (RFC 9846, Section 5.1)
		{"data between fragments", func(f *forger) recs {
			return recs{f.record(22, key(0)[:4], 0), f.record(23, []byte("x"), 0)}
		}, ErrInterleaved, AlertUnexpectedMessage},
		{"message too long", func(f *forger) recs { return recs{f.record(22, []byte{4, 1, 0, 1}, 0)} }, ErrHandshakeSize, AlertIllegalParameter},
		{"message nobody handles", func(f *forger) recs { return recs{f.record(22, message(4, 4), 0)} }, ErrUnexpectedMessage, AlertUnexpectedMessage},
		{"error alert", func(f *forger) recs { return recs{f.record(21, []byte{1, 40}, 0)} }, nil, noAlert},
	} {
		f := newForger(t, aead.AES128GCM())
		f.setSecret(secretOf(f.suite, "client"))
		wire := f.record(23, []byte("data"), 0)
		for _, r := range test.wire(f) {
			wire = append(wire, r...)
		}
		got, err := readUntilError(newTestReader(t, bytes.NewReader(wire), ReaderConfig{}))
		if string(got) != "data" {
			t.Errorf("%s: %q came before", test.name, got)
		}
		if test.want == nil {
			var alert *AlertError
			if !errors.As(err, &alert) || alert.Alert != AlertHandshakeFailure || !strings.Contains(err.Error(), "handshake_failure") {
				t.Errorf("%s: %v", test.name, err)
			}
			if _, ok := AlertOf(err); ok {
				t.Errorf("%s: an alert in reply to an alert", test.name)
			}
			continue
		}
		wantErr(t, test.name, err, test.want, test.alert)
	}
}

// TestReaderKeyChangeBoundary holds the Reader to an empty buffer of messages where
// keys change, without the Opener's own check in front of it.
//
// "Implementations MUST verify that all messages immediately preceding a key change
// align with a record boundary" (RFC 9846, Section 5.1)
func TestReaderKeyChangeBoundary(t *testing.T) {
	r := newTestReader(t, &stub{}, ReaderConfig{})
	if err := r.handleHandshake([]byte{typeKeyUpdate, 0, 0, 1, 0, 4}); err != ErrKeyChangeBoundary {
		t.Errorf("%v", err)
	}
	if g := r.opener.Generation(); g != 0 {
		t.Errorf("%d key updates", g)
	}
}

// TestReaderHandler lets the caller's code fail in its own words: the message
// handler, and the constructor of the suite at a KeyUpdate. Nothing that it says
// makes it the end of the data, a timeout, or another connection's error.
func TestReaderHandler(t *testing.T) {
	own := errors.New("own")
	for _, test := range []struct {
		err   error
		is    error
		alert Alert
	}{
		{own, ErrMessageHandler, AlertInternalError},
		{io.EOF, ErrMessageHandler, AlertInternalError},
		{io.ErrUnexpectedEOF, ErrMessageHandler, AlertInternalError},
		{os.ErrDeadlineExceeded, ErrMessageHandler, AlertInternalError},
		{context.DeadlineExceeded, ErrMessageHandler, AlertInternalError},
		{&net.DNSError{IsTimeout: true, IsTemporary: true}, ErrMessageHandler, AlertInternalError},
		{fmt.Errorf("store: %w", &net.OpError{Op: "write", Err: io.EOF}), ErrMessageHandler, AlertInternalError},
		{net.ErrClosed, ErrMessageHandler, AlertInternalError},
		{&AlertError{Alert: AlertBadRecordMAC}, ErrMessageHandler, AlertInternalError},
		{ErrClosed, ErrMessageHandler, AlertInternalError}, // of a Write in the handler
		{ErrMalformedMessage, ErrMalformedMessage, AlertDecodeError},
		{fmt.Errorf("ticket: %w", ErrKeyUpdateRequest), ErrKeyUpdateRequest, AlertIllegalParameter},
		{fmt.Errorf("%w: %w", ErrMalformedMessage, io.EOF), ErrMalformedMessage, AlertDecodeError},
		{errors.Join(os.ErrDeadlineExceeded, ErrUnexpectedMessage), ErrUnexpectedMessage, AlertUnexpectedMessage},
		{errors.Join(ErrIllegalMessage, ErrMalformedMessage), ErrIllegalMessage, AlertIllegalParameter}, // the first
	} {
		check := func(what string, err, is error, alert Alert) {
			t.Helper()
			if a, ok := AlertOf(err); !errors.Is(err, is) || a != alert || !ok {
				t.Errorf("%s, %v: %v with alert %v", what, test.err, err, a)
			}
			for _, other := range []error{io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, context.DeadlineExceeded, net.ErrClosed, ErrClosed, ErrMessageHandler} {
				if other != is && errors.Is(err, other) {
					t.Errorf("%s, %v: passes for %v", what, test.err, other)
				}
			}
			var received *AlertError
			if isTimeout(err) || isTemporary(err) || errors.As(err, &received) {
				t.Errorf("%s, %v: passes for a timeout, temporary or the peer's alert", what, test.err)
			}
			var hook *HookError
			switch {
			case !strings.Contains(err.Error(), test.err.Error()) || strings.Count(err.Error(), is.Error()) != 1:
				t.Errorf("%s, %v: says %q", what, test.err, err)
			case test.err == is:
				if err != is {
					t.Errorf("%s, %v: became %v", what, is, err)
				}
			case !errors.As(err, &hook) || !errors.Is(hook.Err, test.err):
				t.Errorf("%s, %v: the cause is lost", what, test.err)
			}
		}
		s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
		wire := mustSeal(t)(s.Seal(nil, ContentTypeHandshake, message(4, 4)))
		for _, p := range [][]byte{make([]byte, 1), nil} {
			r := newTestReader(t, bytes.NewReader(wire), ReaderConfig{HandleMessage: func([]byte) error { return test.err }})
			var err error
			if p != nil {
				_, err = r.Read(p)
			} else if _, err = r.WriteTo(io.Discard); err == nil {
				t.Fatalf("%v: passes for the end of the data", test.err)
			}
			check("handler", err, test.is, test.alert)
		}

		if _, ok := AlertOf(test.err); ok {
			continue
		}
		wire = mustSeal(t)(s.SealKeyUpdate(wire, false))
		fail := false
		suite := aead.NewSuite(aead.SuiteParams{
			ID: 0x1301, Name: "test", KeySize: 16, TagSize: 16, Hash: crypto.SHA256, RecordLimit: 1 << 20,
			New: func(key []byte) (cipher.AEAD, error) {
				if fail {
					return nil, test.err
				}
				return aead.AES128GCM().New(key)
			},
		})
		r := NewReader(bytes.NewReader(wire), appOpener(t, suite, "client"), ReaderConfig{HandleMessage: func([]byte) error { return nil }})
		fail = true
		_, err := r.Read(make([]byte, 1))
		check("suite", err, ErrKeySetup, AlertInternalError)
	}
}

// TestReaderHandshake reads early data and goes on under the next keys, changed
// by the handler of the message that precedes them.
func TestReaderHandshake(t *testing.T) {
	suite := aead.AES128GCM()
	s := newTestSealer(t, suite, EpochEarly, SealerConfig{})
	o := newTestOpener(t, suite, EpochEarly, OpenerConfig{})
	next := testSecret(suite, 2)
	wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, []byte("early ")))
	wire = mustSeal(t)(s.Seal(wire, ContentTypeHandshake, message(typeEndOfEarlyData, 0)))
	if err := s.SetTrafficSecret(EpochHandshake, suite, next); err != nil {
		t.Fatal(err)
	}
	wire = mustSeal(t)(s.Seal(wire, ContentTypeHandshake, message(typeFinished, 32)))
	if err := s.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 3)); err != nil {
		t.Fatal(err)
	}
	wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, []byte("late")))
	wire = mustSeal(t)(s.SealAlert(wire, AlertCloseNotify))
	r := NewReader(bytes.NewReader(wire), o, ReaderConfig{HandleMessage: func(m []byte) error {
		if m[0] == typeEndOfEarlyData {
			return o.SetTrafficSecret(EpochHandshake, suite, next)
		}
		return o.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 3))
	}})
	if got, err := io.ReadAll(r); string(got) != "early late" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestReaderOverwritesMessages finds zeros where the messages stood that a handler
// was given, however the call ends.
func TestReaderOverwritesMessages(t *testing.T) {
	for _, end := range []string{"", "error", "panic", "close"} {
		s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
		var wire []byte
		for range 3 {
			wire = mustSeal(t)(s.Seal(wire, ContentTypeHandshake, message(typeNewSessionTicket, 100)[:50]))
			wire = mustSeal(t)(s.Seal(wire, ContentTypeHandshake, message(typeNewSessionTicket, 100)[50:]))
		}
		if end == "close" {
			wire = mustSeal(t)(s.Seal(wire, ContentTypeHandshake, message(typeNewSessionTicket, 100)[:50]))
		}
		var seen [][]byte
		src := stub{}
		src.in.Write(wire)
		r := newTestReader(t, &src, ReaderConfig{HandleMessage: func(m []byte) error {
			seen = append(seen, m)
			switch end {
			case "error":
				return errors.New("own")
			case "panic":
				panic("own")
			}
			return nil
		}})
		recovered(func() { r.Read(make([]byte, 1)) })
		want := 1
		if end == "" || end == "close" {
			want = 3
		}
		if len(seen) != want {
			t.Fatalf("%q: %d messages", end, len(seen))
		}
		if end == "close" {
			if seen = append(seen, r.messages.buf); len(seen[3]) != 50 {
				t.Fatalf("holds %d bytes of a message", len(seen[3]))
			}
			r.close(io.EOF)
		}
		for i, m := range seen {
			if len(bytes.Trim(m, "\x00")) > 0 {
				t.Errorf("%q: message %d is still there", end, i)
			}
		}
	}
}

// TestReaderBuffer holds a Reader to its promise: none while it waits, a small
// one inside a record.
func TestReaderBuffer(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
		wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, pattern(16384)))
		src := stub{}
		r := newTestReader(t, &src, ReaderConfig{KeepBuffer: keep})
		p := make([]byte, 20000)
		for i := range 3 {
			if n, err := r.Read(p); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(n, err)
			}
			if (r.b == nil) == keep {
				t.Errorf("wait %d with KeepBuffer %v: buffer %v", i, keep, r.b != nil)
			}
			src.in.Write(wire[:3+i*5])
			if _, err := r.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			if r.b != nil && i == 0 && !keep {
				t.Error("a buffer for part of a header")
			}
			if r.b != nil && len(r.b.b) > smallSize {
				t.Error("a large buffer for part of a record")
			}
			src.in.Write(wire[3+i*5:])
			if n, err := r.Read(p); n != 16384 || err != nil {
				t.Fatal(n, err)
			}
			wire = mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, pattern(16384)))
		}
	}
	// On a socket too.
	a, b := tcpPair(t)
	r := newTestReader(t, b, ReaderConfig{})
	if r.socket == nil {
		t.Skip("no socket reads on this system")
	}
	s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
	wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, pattern(16384)))
	for _, part := range []int{0, 3, 9000} {
		a.Write(wire[:part])
		wire = wire[part:]
		b.SetReadDeadline(soon())
		if n, err := r.Read(make([]byte, 20000)); n != 0 || !isTimeout(err) {
			t.Fatal(n, err)
		}
		var op *net.OpError
		_, err := r.Read(make([]byte, 1))
		if !errors.As(err, &op) || op.Op != "read" {
			t.Errorf("error %v", err)
		}
		if part < HeaderSize && r.b != nil || part > HeaderSize && len(r.b.b) > smallSize {
			t.Errorf("after %d bytes a Reader waits with a buffer", part)
		}
	}
	a.Write(wire)
	b.SetReadDeadline(later())
	if n, err := r.Read(make([]byte, 20000)); n != 16384 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	// Behind data that did not fit the first Read.
	a.Write(append(mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, pattern(100))), 23, 3))
	for _, size := range []int{60, 40} {
		if n, err := r.Read(make([]byte, size)); n != size || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	b.SetReadDeadline(soon())
	if _, err := r.Read(make([]byte, 1)); !isTimeout(err) || r.b != nil || r.plain != nil {
		t.Errorf("%v, buffer %v, part of it %v", err, r.b != nil, r.plain != nil)
	}
	b.SetReadDeadline(later())
	a.Close()
	if _, err := r.Read(make([]byte, 1)); err != io.ErrUnexpectedEOF {
		t.Errorf("after the end: %v", err)
	}
}

// TestReaderAllocates nothing in steady state.
func TestReaderAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop buffers")
	}
	for _, suite := range suitesWithoutAllocations(t) {
		for _, size := range []int{64, 1350, 16384} {
			s := NewSealer(SealerConfig{})
			o := NewOpener(OpenerConfig{})
			s.SetTrafficSecret(EpochApplication, suite, secretOf(suite, "x"))
			o.SetTrafficSecret(EpochApplication, suite, secretOf(suite, "x"))
			var src stub
			r := NewReader(&src, o, ReaderConfig{})
			content := make([]byte, size)
			wire := make([]byte, 0, 20000)
			for _, room := range []int{size / 2, size, 2 * size} {
				p := make([]byte, room)
				if n := testing.AllocsPerRun(50, func() {
					src.in.Reset()
					wire, _ = s.Seal(wire[:0], ContentTypeApplicationData, content)
					src.in.Write(wire)
					for got := 0; got < size; {
						n, err := r.Read(p)
						if err != nil {
							t.Fatal(err)
						}
						got += n
					}
				}); n > 0 {
					t.Errorf("%v: reading %d bytes into %d allocates %v times", suite, size, room, n)
				}
			}
		}
	}
}

// standIn must be read until ready is set.
type standIn struct {
	net.Conn
	ready bool
	reads int
	asks  int // since it is ready
}

func (s *standIn) Read(p []byte) (int, error) {
	s.reads++
	return s.Conn.Read(p)
}

func (s *standIn) Original(standin.Private) net.Conn {
	if s.ready {
		s.asks++
		return s.Conn
	}
	return nil
}

// TestReaderStandIn: once a transport no longer has to stand in for another one, that
// one is read from then on, as a socket if it is one, even if a record is partly through.
func TestReaderStandIn(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, part := range []int{0, 3, 5, 4000} {
			a, b := tcpPair(t)
			s := &standIn{Conn: b}
			r := newTestReader(t, s, ReaderConfig{KeepBuffer: keep})
			sealer := appSealer(t, aead.AES128GCM(), "client", SealerConfig{})
			first := mustSeal(t)(sealer.Seal(nil, ContentTypeApplicationData, pattern(100)))
			second := mustSeal(t)(sealer.Seal(nil, ContentTypeApplicationData, pattern(9000)))
			a.Write(append(first, second[:part]...))
			p := make([]byte, 10_000)
			if n, err := r.Read(p); n != 100 || err != nil {
				t.Fatal(n, err)
			}
			b.SetReadDeadline(soon())
			if n, err := r.Read(p); n != 0 || !isTimeout(err) {
				t.Fatal(n, err)
			}
			if s.reads == 0 || r.socket != nil {
				t.Errorf("%d reads while the transport is needed, socket %v", s.reads, r.socket != nil)
			}
			s.ready, s.reads = true, 0
			b.SetReadDeadline(later())
			for _, wire := range [][]byte{second[part:], mustSeal(t)(sealer.Seal(nil, ContentTypeApplicationData, pattern(9000)))} {
				a.Write(wire)
				if n, err := io.ReadFull(r, p[:9000]); err != nil || !bytes.Equal(p[:n], pattern(9000)) {
					t.Errorf("%d bytes, %v", n, err)
				}
			}
			if s.asks != 1 {
				t.Errorf("asked %d times, once ready", s.asks)
			}
			if s.reads != 0 || (r.socket != nil) != (!keep && newSocket(b) != nil) {
				t.Errorf("keep %v, %d bytes: %d reads of the transport that is no longer needed, socket %v", keep, part, s.reads, r.socket != nil)
			}
		}
	}
}
