package record

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/splitseal/aead"
)

// TestReceivedAlertHookPanics recovers from a panic in OnAlert when an alert is
// received. The alert has had its effect all the same.
//
// "Upon receiving an error alert, the TLS implementation SHOULD indicate an error
// to the application and MUST NOT allow any further data to be sent or received on
// the connection." (RFC 9846, Section 6)
func TestReceivedAlertHookPanics(t *testing.T) {
	for _, a := range []Alert{AlertHandshakeFailure, AlertCloseNotify} {
		transport := new(stub)
		transport.in.Write(newPeer(t).record(21, []byte{2, byte(a)}, 0))
		c := newConn(t, transport, ConnConfig{OnAlert: func(Alert, bool) { panic("hook") }})
		p := make([]byte, 10)
		if v := recovered(func() { c.Read(p) }); v != "hook" {
			t.Fatalf("%v: recovered %v", a, v)
		}
		_, readErr := c.Read(p)
		_, writeErr := c.Write([]byte("more"))
		if a == AlertCloseNotify {
			if readErr != io.EOF || writeErr != nil {
				t.Errorf("%v: %v, %v", a, readErr, writeErr)
			}
			continue
		}
		var received *AlertError
		if !errors.As(readErr, &received) || received.Alert != a || writeErr != readErr {
			t.Errorf("%v: %v, %v", a, readErr, writeErr)
		}
		if transport.out.Len() > 0 {
			t.Errorf("%v: sent %x after it", a, transport.out.Bytes())
		}
	}
}

// TestMessageHandlerPanics recovers from a panic in HandleMessage when more
// messages follow in the record, which must not come after what follows the record.
func TestMessageHandlerPanics(t *testing.T) {
	f := newPeer(t)
	transport := new(stub)
	transport.in.Write(f.record(22, append(message(4, 1), message(4, 2)...), 0))
	transport.in.Write(f.record(23, []byte("data"), 0))
	transport.in.Write(f.record(22, message(4, 3), 0))
	handled := 0
	c := newConn(t, transport, ConnConfig{HandleMessage: func(*Conn, []byte) error {
		handled++
		panic("handler")
	}})
	p := make([]byte, 10)
	if v := recovered(func() { c.Read(p) }); v != "handler" {
		t.Fatal(v)
	}
	for range 2 {
		if n, err := c.Read(p); n != 0 || err != ErrInterrupted {
			t.Errorf("Read: %q, %v", p[:n], err)
		}
	}
	if _, _, err := c.Export(); err != ErrInterrupted {
		t.Errorf("Export: %v", err)
	}
	if _, err := c.Write([]byte("more")); err != ErrInterrupted {
		t.Errorf("Write: %v", err)
	}
	if handled != 1 {
		t.Errorf("%d messages handled", handled)
	}
	wantAlert(t, transport.out.Bytes(), AlertInternalError)
}

// TestMessageHandlerAlertError lets a handler return what another connection's peer
// has sent. This peer has sent no alert and gets one.
func TestMessageHandlerAlertError(t *testing.T) {
	transport := new(stub)
	transport.in.Write(newPeer(t).record(22, message(4, 1), 0))
	c := newConn(t, transport, ConnConfig{HandleMessage: func(*Conn, []byte) error {
		return fmt.Errorf("upstream: %w", &AlertError{Alert: AlertBadRecordMAC})
	}})
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrMessageHandler) {
		t.Error(err)
	}
	wantAlert(t, transport.out.Bytes(), AlertInternalError)
}

// TestClosePanics recovers from panics inside Close. The transport is closed all the
// same, and nothing waits for the lock that Close had.
func TestClosePanics(t *testing.T) {
	for _, where := range []string{"padding", "transport", "hook"} {
		closing := false
		at := func(place string) {
			if closing && place == where {
				panic(place)
			}
		}
		transport := new(stub)
		transport.write = func(p []byte) (int, error) { at("transport"); return len(p), nil }
		c := newConn(t, transport, ConnConfig{
			Sealer:  appSealer(t, aead.AES128GCM(), "client", SealerConfig{Padding: func(int) int { at("padding"); return 0 }}),
			OnAlert: func(Alert, bool) { at("hook") },
		})
		closing = true
		if v := recovered(func() { c.Close() }); v != where {
			t.Fatalf("%s: recovered %v", where, v)
		}
		if !transport.closed.Load() {
			t.Errorf("%s: the transport is open", where)
		}
		if c.writeLock.users.Load() != 0 {
			t.Fatalf("%s: the write lock is held", where)
		}
		if _, err := c.Write([]byte("x")); err != net.ErrClosed {
			t.Errorf("%s: Write: %v", where, err)
		}
		if _, err := c.Read(make([]byte, 1)); err != net.ErrClosed {
			t.Errorf("%s: Read: %v", where, err)
		}
		if c.out.sealer.keys != nil || c.in.opener.keys != nil {
			t.Errorf("%s: keys are still there", where)
		}
	}
}

// TestCloseLeavesNoHook has a Read fail while Close waits for a write that outlasts
// it. Nobody is left who may run hooks when that write ends.
func TestCloseLeavesNoHook(t *testing.T) {
	checkGoroutines(t)
	for _, failed := range []bool{false, true} {
		var hooks atomic.Int32
		transport := new(stub)
		transport.write = func(p []byte) (int, error) { hooks.Add(1); return len(p), nil }
		c := newConn(t, unclosed{transport}, ConnConfig{
			Sealer:  appSealer(t, aead.AES128GCM(), "client", SealerConfig{Padding: func(int) int { hooks.Add(1); return 0 }}),
			OnAlert: func(Alert, bool) { hooks.Add(1) },
		})
		c.writeLock.lock() // a write that does not end
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		want := net.ErrClosed
		if failed {
			want = ErrBadRecordMAC
			c.readFailed(want)
		}
		c.writeLock.unlock()
		for c.writeLock.users.Load() > 0 {
			runtime.Gosched()
		}
		if n := hooks.Load(); n > 0 {
			t.Errorf("%d hooks ran after Close", n)
		}
		if c.out.err != want || c.out.sealer.keys != nil {
			t.Errorf("%v, keys %v", c.out.err, c.out.sealer.keys != nil)
		}
	}
}

// unclosed is a transport that goes on after Close.
type unclosed struct{ net.Conn }

func (unclosed) Close() error { return nil }

// TestCloseBesideExport has one of Close and Export come first, and the other one do
// nothing: the transport belongs to whoever has the states.
func TestCloseBesideExport(t *testing.T) {
	for range 2000 {
		transport := new(stub)
		c := newConn(t, transport, ConnConfig{})
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		_, _, err := c.Export()
		if closeErr := <-closed; (err == nil) != (closeErr == ErrExported) || (err == nil) == transport.closed.Load() {
			t.Fatalf("Export: %v, Close: %v, transport closed: %v", err, closeErr, transport.closed.Load())
		}
	}
	// While Export is at work, which it is for microseconds.
	transport := new(stub)
	c := newConn(t, transport, ConnConfig{})
	c.endLock.Lock()
	done := make(chan error)
	go func() { done <- c.Close() }()
	time.Sleep(2 * writeGrace)
	c.over.Store(&ErrExported)
	c.in.close(ErrExported)
	c.out.fail(ErrExported)
	c.endLock.Unlock()
	if err := <-done; err != ErrExported || transport.closed.Load() {
		t.Errorf("Close: %v, transport closed: %v", err, transport.closed.Load())
	}
	_, readErr := c.Read(make([]byte, 1))
	_, writeErr := c.Write([]byte("x"))
	_, buffersErr := c.WriteBuffers([][]byte{{1}})
	_, fromErr := c.ReadFrom(strings.NewReader("x"))
	for i, err := range []error{readErr, writeErr, buffersErr, fromErr, c.CloseWrite(), c.KeyUpdate(false), c.SetDeadline(time.Time{}), c.Close()} {
		if !errors.Is(err, ErrExported) || errors.Is(err, net.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if n := c.writeLock.users.Load(); n != 0 {
		t.Errorf("%d have the write lock", n)
	}
}

// TestNilPanics makes a Reader and a Writer without what they need.
func TestNilPanics(t *testing.T) {
	s, o := NewSealer(SealerConfig{}), NewOpener(OpenerConfig{})
	for _, test := range []struct {
		call func()
		want string
	}{
		{func() { NewReader(nil, o, ReaderConfig{}) }, "record: nil transport or Opener"},
		{func() { NewReader(new(stub), nil, ReaderConfig{}) }, "record: nil transport or Opener"},
		{func() { NewWriter(nil, s, WriterConfig{}) }, "record: nil transport or Sealer"},
		{func() { NewWriter(new(stub), nil, WriterConfig{}) }, "record: nil transport or Sealer"},
	} {
		if v := recovered(test.call); v != test.want {
			t.Errorf("panic %v, want %v", v, test.want)
		}
	}
}

// wantAlert checks that a client's Conn has sent the alert a and nothing else.
func wantAlert(t *testing.T, sent []byte, a Alert) {
	t.Helper()
	rec, need, err := appOpener(t, aead.AES128GCM(), "client").Open(sent)
	if err != nil || need > 0 || rec.Size != len(sent) || rec.Type != ContentTypeAlert || Alert(rec.Content[1]) != a {
		t.Errorf("sent %v, %v, want %v alone", rec, err, a)
	}
}
