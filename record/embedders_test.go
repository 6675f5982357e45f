package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"example.com/splitseal/aead"
)

// The tests of this file are what embedders asked for.

// same reports whether a and b are the same bytes in the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && cap(a) == cap(b) && (len(a) == 0 || &a[0] == &b[0])
}

// TestSealErrorsKeepRecords seals in a loop whose variable is also the result: an
// error in between loses none of the records before.
func TestSealErrorsKeepRecords(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "a", SealerConfig{SoftLimit: 2, HardLimit: 4})
	var wire []byte
	var err error
	seals := []func() ([]byte, error){
		func() ([]byte, error) { return s.Seal(wire, ContentTypeApplicationData, []byte("one")) },
		func() ([]byte, error) {
			return s.SealGather(wire, ContentTypeApplicationData, [][]byte{[]byte("t"), []byte("wo")})
		},
		func() ([]byte, error) { return s.Seal(wire, ContentTypeApplicationData, []byte("refused")) },
		func() ([]byte, error) {
			return s.SealGather(wire, ContentTypeApplicationData, [][]byte{[]byte("re"), []byte("fused")})
		},
		func() ([]byte, error) { return s.SealChangeCipherSpec(wire) },
		func() ([]byte, error) { return s.SealAlert(wire, AlertUserCanceled) },
		func() ([]byte, error) { return s.SealAlert(wire, AlertUserCanceled) },
		func() ([]byte, error) { return s.SealAlert(wire, AlertUserCanceled) }, // at the hard limit
		func() ([]byte, error) { return s.SealKeyUpdate(wire, false) },
		func() ([]byte, error) {
			s.Wipe()
			return s.Seal(wire, ContentTypeApplicationData, []byte("closed"))
		},
	}
	refused := 0
	for i, seal := range seals {
		before := wire
		if wire, err = seal(); err != nil {
			refused++
			if !same(wire, before) {
				t.Errorf("call %d, which returned %v, changed wire", i, err)
			}
		}
	}
	if refused != 6 {
		t.Errorf("%d calls were refused, want 6", refused)
	}
	o := appOpener(t, aead.AES128GCM(), "a")
	for _, want := range []string{"one", "two", string([]byte{1, 90}), string([]byte{1, 90})} {
		rec, need, err := o.Open(wire)
		if err != nil || need > 0 || string(rec.Content) != want {
			t.Fatalf("%q, need %d, %v, want %q", rec.Content, need, err, want)
		}
		wire = wire[rec.Size:]
	}
}

// TestHardLimitOfOne: nothing would fit behind the first record.
func TestHardLimitOfOne(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	NewSealer(SealerConfig{HardLimit: 1})
}

// TestOpenToOverLaterRecords: the content of a record must not be put over one that
// is still to be opened.
func TestOpenToOverLaterRecords(t *testing.T) {
	s, o := appSealer(t, aead.AES128GCM(), "a", SealerConfig{}), appOpener(t, aead.AES128GCM(), "a")
	wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, []byte("first")))
	n := len(wire)
	wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, []byte("second")))
	before := bytes.Clone(wire)
	func() {
		defer func() {
			if recover() != overlapText {
				t.Error("no panic")
			}
		}()
		o.OpenTo(wire[n:], wire)
	}()
	if !bytes.Equal(wire, before) || o.Seq() != 0 {
		t.Error("something has changed")
	}
	if rec, _, err := o.OpenTo(make([]byte, 5), wire); err != nil || string(rec.Content) != "first" {
		t.Errorf("%q, %v", rec.Content, err)
	}
}

// TestDeadConnectionIsNoDeadline: Linux reports that a connection has timed out once,
// and then the end of the stream. The first must stay.
func TestDeadConnectionIsNoDeadline(t *testing.T) {
	dead := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}
	if !dead.Timeout() {
		t.Skip("ETIMEDOUT is no timeout here")
	}
	record := newPeer(t).record(23, []byte("x"), 0)
	for _, together := range []bool{false, true} {
		r := NewReader(&dying{data: bytes.Clone(record), err: dead, together: together},
			appOpener(t, aead.AES128GCM(), "server"), ReaderConfig{AcceptTruncation: true})
		got, err := io.ReadAll(r)
		var transport *TransportError
		if string(got) != "x" || !errors.As(err, &transport) || !errors.Is(err, syscall.ETIMEDOUT) || transport.Timeout() {
			t.Errorf("together %v: %q, %v", together, got, err)
		}
		if _, again := r.Read(make([]byte, 1)); again != err {
			t.Errorf("together %v: then %v", together, again)
		}
	}
}

// dying returns data, and err once, with it or after it, and then the end.
type dying struct {
	data     []byte
	err      error
	together bool
}

func (d *dying) Read(p []byte) (n int, err error) {
	n = copy(p, d.data)
	d.data = d.data[n:]
	if n > 0 && (len(d.data) > 0 || !d.together) {
		return n, nil
	}
	if d.err == nil {
		return n, io.EOF
	}
	err, d.err = d.err, nil
	return n, err
}

// TestWriterCloseForgetsKeys: also when no alert fits below the hard limit.
func TestWriterCloseForgetsKeys(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "a", SealerConfig{HardLimit: 2})
	w := NewWriter(io.Discard, s, WriterConfig{})
	for range 2 {
		if err := w.SendAlert(AlertUserCanceled); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != ErrKeyExhausted {
		t.Errorf("Close: %v", err)
	}
	if s.keys != nil {
		t.Error("the Sealer has its keys still")
	}
	if _, err := w.Write([]byte("x")); err != ErrKeyExhausted {
		t.Errorf("Write: %v", err)
	}
}

// TestKeyUpdatesBesideWrites passes a Reader's KeyUpdates on to a Writer that is in
// use, which the race detector watches.
func TestKeyUpdatesBesideWrites(t *testing.T) {
	const updates = 300
	suite := aead.AES128GCM()
	peer := appSealer(t, suite, "in", SealerConfig{})
	var in []byte
	for range updates {
		in = mustSeal(t)(peer.SealKeyUpdate(in, true))
		peer.PeerKeyUpdate(false)
		in = mustSeal(t)(peer.Seal(in, ContentTypeApplicationData, []byte("x")))
	}
	var out bytes.Buffer
	w := NewWriter(&out, appSealer(t, suite, "out", SealerConfig{}), WriterConfig{})
	r := NewReader(bytes.NewReader(in), appOpener(t, suite, "in"), ReaderConfig{OnKeyUpdate: w.PeerKeyUpdate})
	var wait sync.WaitGroup
	wait.Go(func() {
		for range updates {
			if _, err := w.Write([]byte("y")); err != nil {
				t.Error(err)
			}
		}
	})
	if got, err := io.ReadAll(r); len(got) != updates || err != io.ErrUnexpectedEOF {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	wait.Wait()
	if _, err := w.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if generation := w.sealer.Generation(); generation == 0 || generation > updates {
		t.Errorf("%d KeyUpdates answered %d", generation, updates)
	}
	follower := &follower{appOpener(t, suite, "out")}
	if records := follower.take(t, out.Bytes()); records[len(records)-1].typ != ContentTypeApplicationData || follower.o.Generation() != w.sealer.Generation() {
		t.Error(describe(records))
	}
}

// TestConnSendAlert sends alerts of the caller's choice.
func TestConnSendAlert(t *testing.T) {
	c, s, log := faultyConn(t, newPeer(t).record(23, []byte("x"), 0), ConnConfig{})
	if c.Suite() != aead.AES128GCM() {
		t.Errorf("suite %v", c.Suite())
	}
	if err := c.SendAlert(AlertUserCanceled); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Write([]byte("y")); n != 1 || err != nil {
		t.Errorf("after user_canceled: %d, %v", n, err)
	}
	if err := c.SendAlert(AlertBadCertificate); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Write":      counted(c.Write([]byte("z"))),
		"Read":       counted(c.Read(make([]byte, 1))),
		"WriteTo":    func() error { _, err := c.WriteTo(io.Discard); return err }(),
		"KeyUpdate":  c.KeyUpdate(false),
		"SendAlert":  c.SendAlert(AlertInternalError),
		"Export":     func() error { _, _, err := c.Export(); return err }(),
		"CloseWrite": c.CloseWrite(),
		"another":    c.SendAlert(AlertCertificateRequired),
		"close":      c.SendAlert(AlertCloseNotify),
		"canceled":   c.SendAlert(AlertUserCanceled),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after an error alert: %v", name, err)
		}
	}
	if c.in.opener.keys != nil || c.out.sealer.keys != nil {
		t.Error("the keys are there still")
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "user_canceled data:1 bad_certificate" {
		t.Errorf("sent %s", got)
	}
	if got := fmt.Sprint(*log); got != "[sent user_canceled sent bad_certificate]" {
		t.Errorf("log %s", got)
	}

	c, s, _ = faultyConn(t, nil, ConnConfig{})
	if err := c.SendAlert(AlertCloseNotify); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Errorf("CloseWrite after close_notify: %v", err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "close_notify" {
		t.Errorf("sent %s", got)
	}
}

// TestConnSendAlertEndsReads: nothing that was received before, or comes after, is
// read, by whatever call and whether or not the alert can be sent.
//
// "Whenever an implementation encounters a fatal error condition, it SHOULD send an
// appropriate fatal alert and MUST close the connection without sending or receiving
// any additional data." (RFC 9846, Section 6.2)
func TestConnSendAlertEndsReads(t *testing.T) {
	f := newPeer(t)
	wire := f.record(22, message(typeNewSessionTicket, 8), 0)
	for range 100 {
		wire = append(wire, f.record(23, []byte("x"), 0)...)
	}
	inHandler := ConnConfig{HandleMessage: func(c *Conn, _ []byte) error { return c.SendAlert(AlertBadCertificate) }}

	c, s, _ := faultyConn(t, wire, inHandler)
	if n, err := c.Read(make([]byte, 1000)); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("Read with the handler: %d, %v", n, err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "bad_certificate" {
		t.Errorf("sent %s", got)
	}

	c, _, _ = faultyConn(t, wire, ConnConfig{})
	after := 0
	n, err := c.WriteTo(writerFunc(func(p []byte) (int, error) {
		if after++; after == 3 {
			if err := c.SendAlert(AlertInternalError); err != nil {
				t.Error(err)
			}
		}
		return len(p), nil
	}))
	if n != 3 || !errors.Is(err, ErrClosed) {
		t.Errorf("WriteTo: %d, %v", n, err)
	}

	// In the middle of a record that was opened for a short buffer: the rest of it
	// is not read either.
	f = newPeer(t)
	c, _, _ = faultyConn(t, f.record(23, []byte("long"), 0), ConnConfig{})
	if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	c.SendAlert(AlertInternalError)
	if n, err := c.Read(make([]byte, 1000)); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("Read of the rest: %d, %v", n, err)
	}

	c, s, _ = faultyConn(t, wire, ConnConfig{})
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := c.SendAlert(AlertBadCertificate); err != nil {
		t.Error(err)
	}
	if n, err := c.Read(make([]byte, 1000)); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("Read after an alert that could not be sent: %d, %v", n, err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "close_notify" {
		t.Errorf("sent %s", got)
	}

	// A direction that has ended before keeps its error.
	c, _, _ = faultyConn(t, newPeer(t).record(21, []byte{1, 0}, 0), ConnConfig{})
	buf := make([]byte, 1)
	if _, err := c.Read(buf); err != io.EOF {
		t.Fatal(err)
	}
	if err := c.SendAlert(AlertInternalError); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(buf); err != io.EOF {
		t.Errorf("Read after close_notify and our alert: %v", err)
	}
	if _, err := c.Write(buf); !errors.Is(err, ErrClosed) {
		t.Errorf("Write after it: %v", err)
	}
}

// TestConnSendAlertBesideWrite: it does not wait for a Write that does not end. That
// Write sends the alert if it can.
func TestConnSendAlertBesideWrite(t *testing.T) {
	c, s, _ := faultyConn(t, nil, ConnConfig{})
	entered, leave := make(chan struct{}), make(chan struct{})
	s.write = func(p []byte) (int, error) {
		s.write = nil
		close(entered)
		<-leave
		return s.out.Write(p)
	}
	done := make(chan error)
	go func() {
		_, err := c.Write([]byte("y"))
		done <- err
	}()
	<-entered
	if err := c.SendAlert(AlertAccessDenied); err != nil {
		t.Error(err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Errorf("Write: %v", err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "data:1 access_denied" {
		t.Errorf("sent %s", got)
	}
}

// TestNewConnSuites: both directions have one suite.
func TestNewConnSuites(t *testing.T) {
	_, err := NewConn(&stub{}, ConnConfig{
		Role:   RoleClient,
		Sealer: appSealer(t, aead.AES128GCM(), "a", SealerConfig{}),
		Opener: appOpener(t, aead.ChaCha20Poly1305(), "b"),
	})
	if err != ErrSuiteMismatch {
		t.Error(err)
	}
}

// TestConnSendAlertInHandler ends a connection from a message handler, with an alert
// that no error of this package has: it is the only one that is sent.
func TestConnSendAlertInHandler(t *testing.T) {
	refusal := errors.New("not a certificate that we take")
	c, s, _ := faultyConn(t, newPeer(t).record(22, message(typeNewSessionTicket, 8), 0), ConnConfig{
		HandleMessage: func(c *Conn, _ []byte) error {
			return errors.Join(refusal, c.SendAlert(AlertUnsupportedCertificate))
		},
	})
	var hook *HookError
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &hook) || !errors.Is(hook.Err, refusal) {
		t.Errorf("Read: %v", err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "unsupported_certificate" {
		t.Errorf("sent %s", got)
	}
}

// TestWipeStates erases states that nobody will use.
func TestWipeStates(t *testing.T) {
	st, err := appSealer(t, aead.AES128GCM(), "a", SealerConfig{}).Export()
	if err != nil {
		t.Fatal(err)
	}
	secret := st.fields.secret()
	st.Wipe()
	if !bytes.Equal(secret, make([]byte, len(secret))) {
		t.Error("the secret is there still")
	}
	if _, err := ImportSealer(st, SealerConfig{}); err != ErrStateSpent {
		t.Errorf("a State that was wiped: %v", err)
	}
	st.Wipe()
	new(State).Wipe()

	st, err = appSealer(t, aead.AES128GCM(), "a", SealerConfig{}).Export()
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := st.Reveal()
	if err != nil {
		t.Fatal(err)
	}
	st.Wipe() // has no effect on what was taken out
	if bytes.Equal(secrets.TrafficSecret, make([]byte, len(secrets.TrafficSecret))) {
		t.Error("no secret")
	}
	secrets.Wipe()
	for _, b := range [][]byte{secrets.TrafficSecret, secrets.Keys.Key, secrets.Keys.IV} {
		if len(b) == 0 || !bytes.Equal(b, make([]byte, len(b))) {
			t.Errorf("%x is there still", b)
		}
	}
}
