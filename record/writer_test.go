package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"example.com/splitseal/aead"
)

// newTestWriter returns a Writer to s and what opens its records.
func newTestWriter(t testing.TB, s io.Writer, sealer SealerConfig, cfg WriterConfig) (*Writer, *follower) {
	return NewWriter(s, appSealer(t, aead.AES128GCM(), "client", sealer), cfg), newFollower(t)
}

// TestWriterRecords shows what records each call makes, and in how many writes
// to the transport.
func TestWriterRecords(t *testing.T) {
	data := pattern(300_000)
	many := func(n, size int) (b net.Buffers) {
		for i := range n {
			b = append(b, data[i*size:(i+1)*size])
		}
		return b
	}
	for _, test := range []struct {
		name   string
		sealer SealerConfig
		cfg    WriterConfig
		call   func(w *Writer) (int64, error)
		want   string
		writes int
	}{
		{"nothing", SealerConfig{}, WriterConfig{}, func(w *Writer) (int64, error) { n, err := w.Write(nil); return int64(n), err }, "", 0},
		{"empty", SealerConfig{}, WriterConfig{}, func(w *Writer) (int64, error) { n, err := w.Write([]byte{}); return int64(n), err }, "", 0},
		{"one byte", SealerConfig{}, WriterConfig{}, write(data[:1]), "data:1", 1},
		{"one record", SealerConfig{}, WriterConfig{}, write(data[:16384]), "data:16384", 1},
		{"one byte more", SealerConfig{}, WriterConfig{}, write(data[:16385]), "data:16384 data:1", 1},
		{"several records in one write", SealerConfig{}, WriterConfig{}, write(data[:65536]), "data:16384 data:16384 data:16384 data:16384", 1},
		{"a 16-bit length and one", SealerConfig{}, WriterConfig{}, write(data[:65537]), "data:16384 data:16384 data:16384 data:16384 data:1", 1},
		{"two writes", SealerConfig{}, WriterConfig{}, write(data[:5*16384]), "data:16384 data:16384 data:16384 data:16384 data:16384", 2},
		{"record size limit", SealerConfig{RecordSizeLimit: 64}, WriterConfig{}, write(data[:130]), "data:63 data:63 data:4", 1},
		{"more records than one write takes", SealerConfig{RecordSizeLimit: 64}, WriterConfig{}, write(data[:63*129]), strings.Repeat(" data:63", 129)[1:], 2},
		{"kept buffer", SealerConfig{}, WriterConfig{KeepBuffer: true}, write(data[:20000]), "data:16384 data:3616", 1},
		{"padded", SealerConfig{Padding: PadToMultiple(4096)}, WriterConfig{}, write(data[:16384*2]), "data:16384 data:16384", 1},

		{"no pieces", SealerConfig{}, WriterConfig{}, buffers(), "", 0},
		{"empty pieces", SealerConfig{}, WriterConfig{}, buffers(nil, []byte{}, nil), "", 0},
		{"eight small pieces", SealerConfig{}, WriterConfig{}, buffers(many(8, 100)...), "data:800", 1},
		{"empty pieces between", SealerConfig{}, WriterConfig{}, buffers(nil, data[:7], nil, nil, data[7:9], nil), "data:9", 1},
		{"pieces across records", SealerConfig{}, WriterConfig{}, buffers(many(11, 1500)...), "data:16384 data:116", 1},
		{"large pieces", SealerConfig{}, WriterConfig{}, buffers(data[:20000], data[20000:40000]), "data:16384 data:16384 data:7232", 1},
		{"many tiny pieces", SealerConfig{}, WriterConfig{}, buffers(many(20000, 1)...), "data:16384 data:3616", 1},
		{"mixed pieces", SealerConfig{}, WriterConfig{}, buffers(data[:255], data[255:511], data[511:512], data[512:1000], data[1000:1001]), "data:1001", 1},

		{"reading", SealerConfig{}, WriterConfig{}, readAll(bytes.NewReader(data[:100_000])),
			"data:16384 data:16384 data:16384 data:16384 data:16384 data:16384 data:1696", 3},
		{"reading byte by byte", SealerConfig{}, WriterConfig{}, readAll(iotest.OneByteReader(bytes.NewReader(data[:3]))), "data:1 data:1 data:1", 3},
		{"reading data with its end", SealerConfig{}, WriterConfig{}, readAll(iotest.DataErrReader(bytes.NewReader(data[:30]))), "data:30", 1},

		{"dynamic sizes", SealerConfig{}, WriterConfig{DynamicRecordSizing: true}, write(data[:5000]), "data:1306 data:1306 data:1306 data:1082", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s stub
			w, f := newTestWriter(t, &s, test.sealer, test.cfg)
			n, err := test.call(w)
			if err != nil {
				t.Fatal(err)
			}
			records := f.take(t, s.out.Bytes())
			if got := describe(records); got != test.want {
				t.Errorf("records %q, want %q", got, test.want)
			}
			if s.writes != test.writes {
				t.Errorf("%d writes, want %d", s.writes, test.writes)
			}
			var got []byte
			for _, r := range records {
				got = append(got, r.content...)
			}
			if !bytes.Equal(got, data[:len(got)]) || int64(len(got)) != n {
				t.Errorf("content differs, or its size %d from the count %d", len(got), n)
			}
		})
	}
}

func write(p []byte) func(*Writer) (int64, error) {
	return func(w *Writer) (int64, error) { n, err := w.Write(p); return int64(n), err }
}

func buffers(pieces ...[]byte) func(*Writer) (int64, error) {
	return func(w *Writer) (int64, error) { return w.WriteBuffers(pieces) }
}

func readAll(r io.Reader) func(*Writer) (int64, error) {
	return func(w *Writer) (int64, error) { return w.ReadFrom(r) }
}

// TestWriterReusesItsBuffer varies lengths over one buffer: every record ends
// with its own content type.
func TestWriterReusesItsBuffer(t *testing.T) {
	data := pattern(40000)
	for _, keep := range []bool{false, true} {
		var s stub
		w, f := newTestWriter(t, &s, SealerConfig{}, WriterConfig{KeepBuffer: keep})
		want := ""
		for _, n := range []int{100, 10, 1, 16384, 3, 20000, 2, 40000, 1} {
			if _, err := w.Write(data[:n]); err != nil {
				t.Fatal(err)
			}
			for n > 0 {
				want += fmt.Sprintf(" data:%d", min(n, 16384))
				n -= min(n, 16384)
			}
		}
		if got := describe(f.take(t, s.out.Bytes())); got != want[1:] {
			t.Errorf("records %q, want %q", got, want[1:])
		}
		if (w.kept != nil) != keep {
			t.Errorf("a buffer is kept: %v", w.kept != nil)
		}
		w.Close()
		if w.kept != nil {
			t.Error("a buffer is kept for ever")
		}
	}
}

// TestWriteBuffersOnlyReads holds WriteBuffers to leaving its arguments alone.
func TestWriteBuffersOnlyReads(t *testing.T) {
	var s stub
	w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	data := pattern(50_000)
	pieces := net.Buffers{data[:10], nil, data[5:20000], data[:0], data[3:40000]}
	want := bytes.Clone(data)
	list := append(net.Buffers(nil), pieces...)
	if n, err := w.WriteBuffers(pieces); err != nil || n != 10+19995+39997 {
		t.Fatal(n, err)
	}
	if !bytes.Equal(data, want) {
		t.Error("a piece has changed")
	}
	for i := range list {
		if len(list[i]) != len(pieces[i]) || len(list[i]) > 0 && &list[i][0] != &pieces[i][0] {
			t.Error("the list has changed")
		}
	}
}

// TestWriteFails breaks off a write of several records after every number of
// bytes, in each of the ways a transport can: the count says what the peer can
// read, and nothing is ever sent again.
func TestWriteFails(t *testing.T) {
	const content = 3*40 + 7
	data := pattern(content)
	errBroken := errors.New("broken")
	newWriter := func(s *stub) (*Writer, *follower) {
		return newTestWriter(t, s, SealerConfig{RecordSizeLimit: 64}, WriterConfig{})
	}
	var whole stub
	w, _ := newWriter(&whole)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name string
		err  error // what the transport returns
		want error // what the Writer's error wraps
	}{
		{"short without an error", nil, io.ErrShortWrite},
		{"error", errBroken, errBroken},
		{"deadline", os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
		{"reset", &net.OpError{Op: "write", Err: errBroken}, errBroken},
		{"end", &net.OpError{Op: "write", Err: io.EOF}, io.ErrClosedPipe},
	} {
		for taken := range whole.out.Len() + 1 {
			if taken == whole.out.Len() && kind.err == nil {
				continue
			}
			var s stub
			w, f := newWriter(&s)
			s.write = func(p []byte) (int, error) {
				s.out.Write(p[:taken])
				return taken, kind.err
			}
			n, err := w.Write(data)
			if !errors.Is(err, kind.want) || errors.Is(err, io.EOF) {
				t.Fatalf("%s after %d: %v", kind.name, taken, err)
			}
			var transport *TransportError
			if !errors.As(err, &transport) || transport.Op != "write" || isTemporary(transport) {
				t.Fatalf("%s after %d: %#v", kind.name, taken, err)
			}
			if transport.Timeout() != (kind.want == os.ErrDeadlineExceeded) {
				t.Fatalf("%s: Timeout is %v", kind.name, transport.Timeout())
			}
			got := 0
			in := s.out.Bytes()
			for {
				rec, need, err := f.o.Open(in)
				if err != nil {
					t.Fatal(err)
				}
				if need > 0 {
					break
				}
				got += len(rec.Content)
				in = in[rec.Size:]
			}
			if n != got {
				t.Fatalf("%s after %d: count %d, the peer has %d", kind.name, taken, n, got)
			}
			// For good: every method returns the same error and sends nothing.
			s.write = nil
			for i, call := range []func() error{
				func() error { n, err := w.Write(data[n:]); return counted(n, err) },
				func() error { n, err := w.Write(data[:1]); return counted(n, err) },
				func() error { n, err := w.Write(nil); return counted(n, err) },
				func() error { n, err := w.WriteBuffers(net.Buffers{data}); return counted(int(n), err) },
				func() error { n, err := w.ReadFrom(bytes.NewReader(data)); return counted(int(n), err) },
				func() error { return w.WriteHandshake(message(4, 5)) },
				func() error { return w.KeyUpdate(false) },
				func() error { return w.SendAlert(AlertInternalError) },
				w.Close,
			} {
				if again := call(); again != err {
					t.Fatalf("%s after %d, call %d: %v, want %v", kind.name, taken, i, again, err)
				}
			}
			if s.writes != 1 {
				t.Fatalf("%s after %d: %d writes", kind.name, taken, s.writes)
			}
			if w.sealer.keys != nil {
				t.Fatal("the keys are still there")
			}
		}
	}
}

func counted(n int, err error) error {
	if n != 0 {
		return fmt.Errorf("count %d", n)
	}
	return err
}

// TestWriteCounts fails the n-th write of a call that needs several.
func TestWriteCounts(t *testing.T) {
	data := pattern(10 * 16384)
	for fail := range 3 {
		var s stub
		w, f := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
		s.write = func(p []byte) (int, error) {
			if s.writes == fail+1 {
				s.out.Write(p[:20000]) // one record and a part
				return 20000, io.ErrClosedPipe
			}
			return s.out.Write(p)
		}
		n, err := w.Write(data)
		want := min((fail*4+1)*16384, len(data))
		if n != want || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write %d fails: %d, %v, want %d", fail, n, err, want)
		}
		f.take(t, s.out.Bytes()[:(fail*4+1)*16406])
	}
}

// TestWriteImpossibleCounts has a transport lie about what it took.
func TestWriteImpossibleCounts(t *testing.T) {
	for _, lie := range []int{-1, 1 << 20} {
		var s stub
		w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
		s.write = func(p []byte) (int, error) { return lie, nil }
		if n, err := w.Write([]byte("hello")); n != 0 || !errors.Is(err, errInvalidWrite) {
			t.Errorf("%d: %d, %v", lie, n, err)
		}
	}
}

// TestWriterPanics recovers from panics in the caller's code: no nonce comes
// back.
func TestWriterPanics(t *testing.T) {
	recovered := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	var s stub
	w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	s.write = func(p []byte) (int, error) { panic("transport") }
	if recovered(func() { w.Write([]byte("hello")) }) == nil {
		t.Fatal("no panic")
	}
	s.write = nil
	if n, err := w.Write([]byte("world")); n != 0 || err != ErrInterrupted {
		t.Errorf("after a panic of the transport: %d, %v", n, err)
	}

	s = stub{}
	calls := 0
	w, _ = newTestWriter(t, &s, SealerConfig{Padding: func(int) int {
		if calls++; calls == 2 {
			panic("padding")
		}
		return 0
	}}, WriterConfig{})
	if recovered(func() { w.Write(make([]byte, 20000)) }) == nil {
		t.Fatal("no panic")
	}
	if n, err := w.Write([]byte("world")); n != 0 || err != ErrInterrupted || s.writes != 0 {
		t.Errorf("after a panic of the padding: %d, %v, %d writes", n, err, s.writes)
	}
	if err := w.Close(); err != ErrInterrupted {
		t.Errorf("Close: %v", err)
	}
}

// TestWriterErrorsOfTheSealer lets calls go on after an error that has changed
// nothing.
func TestWriterErrorsOfTheSealer(t *testing.T) {
	var s stub
	sealer := NewSealer(SealerConfig{})
	w := NewWriter(&s, sealer, WriterConfig{})
	// "Application Data records MUST NOT be written to the wire unprotected" (RFC
	// 9846, Section 5.1)
	if n, err := w.Write([]byte("x")); n != 0 || err != ErrEpoch || s.writes != 0 {
		t.Fatalf("without keys: %d, %v", n, err)
	}
	if err := w.WriteHandshake(message(typeServerHello, 80)); err != nil {
		t.Fatal(err)
	}
	if err := sealer.SetTrafficSecret(EpochHandshake, aead.AES128GCM(), secretOf(aead.AES128GCM(), "h")); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHandshake(message(typeFinished, 32)); err != nil {
		t.Fatal(err)
	}
	if n, err := w.WriteBuffers(net.Buffers{[]byte("x"), []byte("y")}); n != 0 || err != ErrEpoch {
		t.Fatalf("under handshake keys: %d, %v", n, err)
	}
	if err := sealer.SetTrafficSecret(EpochApplication, aead.AES128GCM(), secretOf(aead.AES128GCM(), "client")); err != nil {
		t.Fatal(err)
	}
	if n, err := w.Write([]byte("x")); n != 1 || err != nil {
		t.Fatalf("under application keys: %d, %v", n, err)
	}
}

// TestWriterUsageLimit has keys updated before they are used up, in the middle
// of one call.
//
// "Implementations MUST either close the connection or do a key update as
// described in [Section 4.7.3] prior to reaching these limits." (RFC 9846,
// Section 5.5)
func TestWriterUsageLimit(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{SoftLimit: 3, RecordSizeLimit: 64}, WriterConfig{})
	if n, err := w.Write(make([]byte, 63*7)); n != 63*7 || err != nil {
		t.Fatal(n, err)
	}
	want := "data:63 data:63 data:63 KeyUpdate:0 data:63 data:63 data:63 KeyUpdate:0 data:63"
	if got := describe(f.take(t, s.out.Bytes())); got != want {
		t.Errorf("records %q, want %q", got, want)
	}

	// "Note that it is not possible to perform a KeyUpdate for early data;
	// therefore, implementations MUST NOT exceed the limits when sending early
	// data." (RFC 9846, Section 5.5)
	s = stub{}
	early := newTestSealer(t, aead.AES128GCM(), EpochEarly, SealerConfig{SoftLimit: 2, RecordSizeLimit: 64})
	w = NewWriter(&s, early, WriterConfig{})
	if n, err := w.Write(make([]byte, 63*5)); n != 63*2 || err != ErrKeyExhausted {
		t.Errorf("early data: %d, %v", n, err)
	}
	if got := len(s.out.Bytes()); got != 2*(5+64+16) {
		t.Errorf("early data: %d bytes were sent", got)
	}
}

// TestWriterKeyUpdate answers the peer's requests once, before the next
// application data, and does not repeat our own.
//
// "If the request_update field is set to "update_requested", then the receiver
// MUST send a KeyUpdate of its own with request_update set to
// "update_not_requested" prior to sending its next Application Data record."
// "Until receiving a subsequent KeyUpdate from the peer, the sender MUST NOT send
// another KeyUpdate with request_update set to "update_requested"." (RFC 9846,
// Section 4.7.3)
func TestWriterKeyUpdate(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(p string) { _, err := w.Write([]byte(p)); must(err) }
	put("a")
	for range 10 {
		w.PeerKeyUpdate(true)
	}
	put("bc")
	put("def")
	must(w.KeyUpdate(false)) // no request
	must(w.KeyUpdate(true))
	must(w.KeyUpdate(true)) // not repeated
	w.PeerKeyUpdate(false)
	must(w.KeyUpdate(true))
	w.PeerKeyUpdate(true) // ours crosses the peer's
	must(w.KeyUpdate(true))
	put("g")
	must(w.Close())
	must(w.Close())
	want := "data:1 KeyUpdate:0 data:2 data:3 KeyUpdate:0 KeyUpdate:1 KeyUpdate:0 KeyUpdate:1 KeyUpdate:1 data:1 close_notify"
	if got := describe(f.take(t, s.out.Bytes())); got != want {
		t.Errorf("records %q, want %q", got, want)
	}

	// The peer's arrives while the request is made: it is answered, and no answer.
	s = stub{}
	arrives := true
	w, f = newTestWriter(t, &s, SealerConfig{Padding: func(int) int {
		if arrives {
			arrives = false
			w.PeerKeyUpdate(true)
		}
		return 0
	}}, WriterConfig{})
	must(w.KeyUpdate(true))
	must(w.KeyUpdate(true))
	w.PeerKeyUpdate(false)
	must(w.KeyUpdate(true))
	if got, want := describe(f.take(t, s.out.Bytes())), "KeyUpdate:1 KeyUpdate:0 KeyUpdate:1"; got != want {
		t.Errorf("records %q, want %q", got, want)
	}
}

// TestWriterKeyUpdateCap runs out of key updates: the peer's requests are ignored.
//
// "it MUST NOT send its own KeyUpdate if that would cause it to exceed these
// limits and SHOULD instead ignore the "update_requested" flag." (RFC 9846,
// Section 4.7.3)
func TestWriterKeyUpdateCap(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{SoftLimit: 2}, WriterConfig{})
	w.sealer.generation = maxKeyUpdates
	w.PeerKeyUpdate(true)
	for range 2 {
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.KeyUpdate(false); err != ErrKeyUpdateLimit {
		t.Errorf("KeyUpdate: %v", err)
	}
	if n, err := w.Write([]byte("x")); n != 0 || err != ErrKeyUpdateLimit {
		t.Errorf("Write at the limit of the key: %d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got, want := describe(f.take(t, s.out.Bytes())), "data:1 data:1 close_notify"; got != want {
		t.Errorf("records %q, want %q", got, want)
	}
}

// TestWriterAlerts ends a direction, once.
//
// "Whenever an implementation encounters a fatal error condition, it SHOULD send
// an appropriate fatal alert and MUST close the connection without sending or
// receiving any additional data." (RFC 9846, Section 6.2); "user_canceled: [...]
// This alert MUST be followed by a "close_notify"." (Section 6.1)
func TestWriterAlerts(t *testing.T) {
	for _, a := range []Alert{AlertCloseNotify, AlertInternalError} {
		var s stub
		w, f := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
		if err := w.SendAlert(AlertUserCanceled); err != nil {
			t.Fatal(err)
		}
		if err := w.SendAlert(a); err != nil {
			t.Fatal(err)
		}
		if n, err := w.Write([]byte("x")); n != 0 || err != ErrClosed {
			t.Errorf("Write: %d, %v", n, err)
		}
		if err := w.SendAlert(AlertDecodeError); err != ErrClosed {
			t.Errorf("SendAlert: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if got, want := describe(f.take(t, s.out.Bytes())), "user_canceled "+a.String(); got != want {
			t.Errorf("records %q, want %q", got, want)
		}
	}
}

// TestWriteHandshake sends whole messages only, with nothing between them.
func TestWriteHandshake(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	two := append(message(typeNewSessionTicket, 100), message(typeNewSessionTicket, 20000)...)
	for _, part := range [][]byte{two[:3], two[:50], two[:200], two[:len(two)-1]} {
		if err := w.WriteHandshake(part); err != ErrHandshakePartial {
			t.Errorf("%d bytes: %v", len(part), err)
		}
	}
	update := []byte{typeKeyUpdate, 0, 0, 1, 0}
	for _, messages := range [][]byte{update, append(message(typeNewSessionTicket, 2*largeSize), update...)} {
		if err := w.WriteHandshake(messages); err != ErrContentType {
			t.Errorf("KeyUpdate: %v", err)
		}
	}
	if err := w.WriteHandshake(nil); err != nil {
		t.Error(err)
	}
	if s.writes != 0 {
		t.Fatalf("%d writes", s.writes)
	}
	if err := w.WriteHandshake(two); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for _, r := range f.take(t, s.out.Bytes()) {
		if r.typ != ContentTypeHandshake {
			t.Errorf("content type %v", r.typ)
		}
		got = append(got, r.content...)
	}
	if !bytes.Equal(got, two) || s.writes != 1 {
		t.Errorf("%d bytes in %d writes", len(got), s.writes)
	}

	// Keys are updated first if they would not last to the end of a message.
	s = stub{}
	w, f = newTestWriter(t, &s, SealerConfig{SoftLimit: 4, RecordSizeLimit: 64}, WriterConfig{})
	for range 2 {
		if err := w.WriteHandshake(message(typeNewSessionTicket, 63*3-4)); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.take(t, s.out.Bytes()); len(got) != 7 || got[3].content[0] != typeKeyUpdate {
		t.Errorf("records %q", describe(got))
	}

	for _, test := range []struct {
		soft   uint64
		size   int // of the message, in records of 63 bytes
		update bool
	}{{3, 3 * 63, false}, {3, 3*63 + 1, true}, {2, 3 * 63, true}} {
		s = stub{}
		w, f = newTestWriter(t, &s, SealerConfig{SoftLimit: test.soft, RecordSizeLimit: 64}, WriterConfig{})
		if err := w.WriteHandshake(message(typeNewSessionTicket, test.size-4)); err != nil {
			t.Fatal(err)
		}
		if got := f.take(t, s.out.Bytes()); (got[0].content[0] == typeKeyUpdate) != test.update {
			t.Errorf("soft limit %d, %d bytes: records %q", test.soft, test.size, describe(got))
		}
	}

	// A long message goes out one buffer at a time.
	s = stub{}
	s.write = func(p []byte) (int, error) {
		if len(p) > largeSize {
			t.Errorf("a write of %d bytes", len(p))
		}
		return s.out.Write(p)
	}
	w, f = newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	long := message(typeNewSessionTicket, 1<<20)
	if err := w.WriteHandshake(long); err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, r := range f.take(t, s.out.Bytes()) {
		got = append(got, r.content...)
	}
	if !bytes.Equal(got, long) {
		t.Errorf("%d bytes of a message of %d", len(got), len(long))
	}

	// A message that stays partly through ends the direction.
	s = stub{}
	w, _ = newTestWriter(t, &s, SealerConfig{HardLimit: 4, SoftLimit: 2, RecordSizeLimit: 64}, WriterConfig{})
	if err := w.WriteHandshake(message(typeNewSessionTicket, 63*5)); err != ErrKeyExhausted {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); err != ErrKeyExhausted {
		t.Errorf("after it: %v", err)
	}
	if err := w.Close(); err != ErrKeyExhausted {
		t.Errorf("Close after it: %v", err)
	}
}

// TestReadFromErrors shows what happens to the errors of a source.
func TestReadFromErrors(t *testing.T) {
	errSource := errors.New("source")
	reads := 0
	rare := func(p []byte) (int, error) { // a byte, nothing 99 times, a byte, nothing
		if reads++; reads == 1 || reads == 101 {
			return 1, nil
		}
		return 0, nil
	}
	for _, test := range []struct {
		name string
		r    io.Reader
		n    int64
		err  error
	}{
		{"fails with data", iotest.DataErrReader(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errSource))), 3, errSource},
		{"never returns anything", readerFunc(func([]byte) (int, error) { return 0, nil }), 0, io.ErrNoProgress},
		{"returns something rarely", readerFunc(rare), 2, io.ErrNoProgress},
		{"lies", readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), 0, errInvalidRead},
		{"lies below zero", readerFunc(func(p []byte) (int, error) { return -1, nil }), 0, errInvalidRead},
	} {
		var s stub
		w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
		if n, err := w.ReadFrom(test.r); n != test.n || err != test.err {
			t.Errorf("%s: %d, %v", test.name, n, err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Errorf("%s: the Writer has ended: %v", test.name, err)
		}
	}
	var s stub
	w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	s.write = func(p []byte) (int, error) { return 0, errSource }
	if n, err := w.ReadFrom(strings.NewReader("abc")); n != 0 || !errors.Is(err, errSource) {
		t.Errorf("transport fails: %d, %v", n, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestBuffersHoldNoContent looks at what comes back to the pools.
func TestBuffersHoldNoContent(t *testing.T) {
	marker := bytes.Repeat([]byte("plaintext!"), 7000)
	look := func(when string) {
		t.Helper()
		// What a pool hands out next is what was put into it last, on one
		// processor; more are looked at to be sure.
		var ins []*inBuffer
		var outs []*outBuffer
		for range 4 {
			for _, large := range []bool{false, true} {
				in, out := takeInBuffer(large), takeOutBuffer(large)
				ins, outs = append(ins, in), append(outs, out)
				if bytes.Contains(in.b, marker[:20]) || bytes.Contains(out.records[:cap(out.records)], marker[:20]) {
					t.Errorf("%s: content in a buffer of the pool", when)
				}
				for _, p := range out.pieces[:cap(out.pieces)] {
					if p != nil {
						t.Errorf("%s: the caller's memory in a buffer of the pool", when)
					}
				}
			}
		}
		for i := range ins {
			ins[i].put()
			outs[i].put()
		}
	}
	var s stub
	w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	w.Write(marker)
	look("Write")
	w.WriteBuffers(net.Buffers{marker[:100], marker[100:1000], marker[1000:]})
	look("WriteBuffers")
	w.ReadFrom(struct{ io.Reader }{bytes.NewReader(marker)})
	look("ReadFrom")
	w.ReadFrom(readerFunc(func(p []byte) (int, error) { copy(p, marker); return 1, io.EOF }))
	look("ReadFrom of a source that uses all it was given")

	wire := bytes.Clone(s.out.Bytes())
	for _, size := range []int{7, 100_000} {
		r := NewReader(bytes.NewReader(wire), appOpener(t, aead.AES128GCM(), "client"), ReaderConfig{})
		p := make([]byte, size)
		for {
			if _, err := r.Read(p); err != nil {
				break
			}
		}
		look("Read")
	}
	r := NewReader(bytes.NewReader(wire), appOpener(t, aead.AES128GCM(), "client"), ReaderConfig{})
	r.WriteTo(io.Discard)
	look("WriteTo")

	// A gathered write is refused when its short pieces are in the record already.
	refused, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	refused.sealer.Wipe()
	if _, err := refused.WriteBuffers(slices.Repeat([][]byte{marker[:100]}, 5)); err != ErrClosed {
		t.Fatal(err)
	}
	look("WriteBuffers that is refused")

	// Tickets are secret as well.
	f := newPeer(t)
	s.in.Write(f.record(22, append([]byte{typeNewSessionTicket, 0, 0x0b, 0xb8}, marker[:3000]...), 0))
	s.in.Write(f.record(23, []byte("x"), 0))
	if _, err := newConn(t, &s, ConnConfig{}).Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	look("a ticket")

	// A Conn is closed with content in its buffer, and with a ticket.
	c := newConn(t, &stub{}, ConnConfig{Role: RoleServer})
	c.transport.(*stub).in.Write(wire)
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	look("Close")

	f = newPeer(t)
	held := newConn(t, &stub{}, ConnConfig{})
	held.transport.(*stub).in.Write(f.record(23, []byte("x"), 0))
	held.transport.(*stub).in.Write(f.record(22, append([]byte{typeNewSessionTicket, 0, 0x0b, 0xb8}, marker[:3000]...), 0))
	if _, err := held.Read(make([]byte, 10)); err != nil || held.in.held == nil {
		t.Fatal(err)
	}
	held.Close()
	look("Close before a ticket is handled")
}

// TestDynamicSizes shows a burst: short records, then the largest, and short ones
// again after a pause.
func TestDynamicSizes(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{}, WriterConfig{DynamicRecordSizing: true})
	data := make([]byte, 200<<10)
	sizes := func() (short, long int) {
		t.Helper()
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		for _, r := range f.take(t, s.out.Bytes()) {
			if len(r.content)+w.sealer.Overhead() <= segmentSize {
				short++
			} else {
				long++
			}
		}
		s.out.Reset()
		return short, long
	}
	// 101 records of 1306 bytes make 128 KiB; four full ones and a rest follow.
	if short, long := sizes(); short != 101 || long != 5 {
		t.Errorf("first: %d short, %d long", short, long)
	}
	if short, long := sizes(); short != 0 || long != 13 {
		t.Errorf("in the burst: %d short, %d long", short, long)
	}
	w.last = w.last.Add(-burstPause)
	if short, long := sizes(); short != 101 || long != 5 {
		t.Errorf("after a pause: %d short, %d long", short, long)
	}
	w.last = time.Now()
	if short, _ := sizes(); short != 0 {
		t.Errorf("without a pause: %d short", short)
	}
	// A call that takes long is no pause, and no amount of content is too much.
	s.write = func(p []byte) (int, error) {
		w.last = w.last.Add(-2 * burstPause)
		return s.out.Write(p)
	}
	sizes()
	w.burst = max(w.burst, math.MaxInt-len(data))
	sizes()
	if short, _ := sizes(); short != 0 {
		t.Errorf("after a long call: %d short", short)
	}
}

// TestWriterAllocates nothing in steady state.
func TestWriterAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop buffers")
	}
	for _, suite := range suitesWithoutAllocations(t) {
		w := NewWriter(io.Discard, appSealer(t, suite, "x", SealerConfig{}), WriterConfig{DynamicRecordSizing: true})
		data := make([]byte, 100_000)
		pieces := net.Buffers{data[:10], data[:300], data[:70_000], data[:3]}
		src := bytes.NewReader(data)
		for name, f := range map[string]func(){
			"Write/64":      func() { w.Write(data[:64]) },
			"Write/100000":  func() { w.Write(data) },
			"WriteBuffers":  func() { w.WriteBuffers(pieces) },
			"ReadFrom":      func() { src.Seek(0, io.SeekStart); w.ReadFrom(src) },
			"WriteBuffers0": func() { w.WriteBuffers(nil) },
		} {
			f()
			if n := testing.AllocsPerRun(50, f); n > 0 {
				t.Errorf("%v: %s allocates %v times", suite, name, n)
			}
		}
	}
}

// TestHandshakeMessagesPassSoftLimit sends more messages than the soft limit leaves
// records for, each of them as long as a record: all are sent, with KeyUpdates between
// them.
func TestHandshakeMessagesPassSoftLimit(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{SoftLimit: 2}, WriterConfig{})
	var messages []byte
	for range 7 {
		messages = append(messages, message(typeNewSessionTicket, MaxContentSize-messageHeaderSize)...)
	}
	if err := w.WriteHandshake(messages); err != nil {
		t.Fatal(err)
	}
	got := describe(f.take(t, s.out.Bytes()))
	if n := strings.Count(got, "KeyUpdate"); n < 3 || strings.Count(got, "message:4") != 7 {
		t.Errorf("sent %q", got)
	}
}

// TestReadFromShrinks has a source return much, once, and then little at a time: while
// it is waited for, the buffer is a small one.
func TestReadFromShrinks(t *testing.T) {
	var s stub
	w, _ := newTestWriter(t, &s, SealerConfig{}, WriterConfig{})
	var sizes []int
	returns := []int{1, MaxContentSize, 4 * MaxContentSize, MaxContentSize, 5, 5}
	n, err := w.ReadFrom(readerFunc(func(p []byte) (int, error) {
		sizes = append(sizes, len(p))
		if len(sizes) > len(returns) {
			return 0, io.EOF
		}
		return returns[len(sizes)-1], nil
	}))
	want := []int{MaxContentSize, MaxContentSize, 4 * MaxContentSize, 4 * MaxContentSize, 4 * MaxContentSize, MaxContentSize, MaxContentSize}
	if n != 6*MaxContentSize+11 || err != nil || !slices.Equal(sizes, want) {
		t.Errorf("%d, %v; room for %d, want %d", n, err, sizes, want)
	}
}

// TestPiecesPastInt sends the same piece so often that an int of 32 bits cannot count
// the bytes.
func TestPiecesPastInt(t *testing.T) {
	errEnough := errors.New("enough")
	w := NewWriter(writerFunc(func([]byte) (int, error) { return 0, errEnough }),
		appSealer(t, aead.AES128GCM(), "x", SealerConfig{}), WriterConfig{})
	piece := make([]byte, 1<<20)
	if _, err := w.WriteBuffers(slices.Repeat([][]byte{piece}, 2048)); !errors.Is(err, errEnough) {
		t.Error(err)
	}
}

// TestDynamicSizesAndPadding pads: then the policy says how long records are.
func TestDynamicSizesAndPadding(t *testing.T) {
	var s stub
	w, f := newTestWriter(t, &s, SealerConfig{Padding: PadToMultiple(4096)}, WriterConfig{DynamicRecordSizing: true})
	if _, err := w.Write(make([]byte, 2*MaxContentSize)); err != nil {
		t.Fatal(err)
	}
	if got := describe(f.take(t, s.out.Bytes())); got != "data:16384 data:16384" {
		t.Errorf("sent %q", got)
	}
}
