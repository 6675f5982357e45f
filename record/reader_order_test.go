package record

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"example.com/splitseal/aead"
)

// TestDataBeforeHooks has a record arrive together with the data before it: the data
// is returned before anything is done about the record that can wait or panic, in the
// caller's code or in the transport.
func TestDataBeforeHooks(t *testing.T) {
	ticket := message(4, 10)
	for _, test := range []struct {
		name string
		wire func(f *forger) []byte
		want error // of the Read that panics in the caller's code, the second time
	}{
		{"user_canceled", func(f *forger) []byte { return f.record(21, []byte{1, 90}, 0) }, nil},
		{"close_notify", func(f *forger) []byte { return f.record(21, []byte{1, 0}, 0) }, io.EOF},
		{"error alert", func(f *forger) []byte { return f.record(21, []byte{2, 80}, 0) }, &AlertError{AlertInternalError}},
		{"ticket", func(f *forger) []byte { return f.record(22, ticket, 0) }, ErrInterrupted},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newPeer(t)
			s := &stub{}
			s.in.Write(f.record(23, []byte("before"), 0))
			s.in.Write(test.wire(f))
			s.in.Write(f.record(23, []byte("after"), 0))
			calls := 0
			c := newConn(t, s, ConnConfig{
				OnAlert: func(_ Alert, sent bool) {
					if !sent {
						calls++
						panic("OnAlert")
					}
				},
				HandleMessage: func(*Conn, []byte) error { calls++; panic("HandleMessage") },
			})
			p := make([]byte, 100)
			if n, err := c.Read(p); string(p[:n]) != "before" || err != nil || calls != 0 {
				t.Fatalf("%q, %v, %d calls", p[:n], err, calls)
			}
			if !panics(func() { c.Read(p) }) || calls != 1 {
				t.Errorf("%d calls", calls)
			}
			n, err := c.Read(p)
			var alert *AlertError
			switch {
			case test.want == nil:
				if string(p[:n]) != "after" || err != nil {
					t.Errorf("afterwards: %q, %v", p[:n], err)
				}
			case errors.As(test.want, &alert):
				if !errors.As(err, &alert) {
					t.Errorf("afterwards: %v, want %v", err, test.want)
				}
			case n != 0 || !errors.Is(err, test.want):
				t.Errorf("afterwards: %d, %v, want %v", n, err, test.want)
			}
		})
	}

	// The alert for a fault may have to wait for the transport.
	f := newPeer(t)
	s := &stub{}
	s.in.Write(f.record(23, []byte("before"), 0))
	s.in.Write([]byte{23, 3, 3, 0xff, 0xff})
	s.write = func([]byte) (int, error) { t.Error("the alert before the data"); return 0, net.ErrClosed }
	c := newConn(t, s, ConnConfig{})
	p := make([]byte, 100)
	if n, err := c.Read(p); string(p[:n]) != "before" || err != nil {
		t.Errorf("%q, %v", p[:n], err)
	}
	s.write = nil
	if _, err := c.Read(p); err != ErrRecordOverflow {
		t.Error(err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "record_overflow" {
		t.Errorf("sent %q", got)
	}
}

// TestHeldRecordKeepsExport refuses an export while an opened record is held that
// only a Read can handle.
func TestHeldRecordKeepsExport(t *testing.T) {
	f := newPeer(t)
	c, s, _ := faultyConn(t, append(f.record(23, []byte("before"), 0), f.record(22, message(4, 10), 0)...), ConnConfig{})
	p := make([]byte, 100)
	if n, err := c.Read(p); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	if _, _, err := c.Export(); err != ErrHandshakePartial {
		t.Errorf("%v, want %v", err, ErrHandshakePartial)
	}
	c.Read(p) // to the end of what has arrived
	if _, _, err := c.Export(); err != nil || s.closed.Load() {
		t.Error(err)
	}
}

// TestEndInHandler ends a connection in a message handler: neither the messages behind
// that one nor any record reach the caller's code after that.
func TestEndInHandler(t *testing.T) {
	for name, end := range map[string]func(c *Conn) error{
		"Close":     (*Conn).Close,
		"SendAlert": func(c *Conn) error { return c.SendAlert(AlertBadCertificate) },
	} {
		for _, read := range []struct {
			name string
			call func(c *Conn) (int, error)
		}{
			{"Read", func(c *Conn) (int, error) { return c.Read(make([]byte, 100)) }},
			{"WriteTo", func(c *Conn) (int, error) { n, err := c.WriteTo(io.Discard); return int(n), err }},
		} {
			f := newPeer(t)
			wire := f.record(22, append(message(4, 10), message(4, 20)...), 0)
			wire = append(wire, f.record(22, message(4, 30), 0)...)
			calls := 0
			c, _, _ := faultyConn(t, append(wire, f.record(23, []byte("after"), 0)...), ConnConfig{
				HandleMessage: func(c *Conn, _ []byte) error { calls++; return end(c) },
			})
			n, err := read.call(c)
			if n != 0 || !errors.Is(err, net.ErrClosed) && !errors.Is(err, ErrClosed) || calls != 1 {
				t.Errorf("%s in a handler: %s returns %d, %v, after %d calls of it", name, read.name, n, err, calls)
			}
		}
	}

	// What WriteTo writes to may close the connection, too.
	f := newPeer(t)
	var wire []byte
	for range 5 {
		wire = append(wire, f.record(23, []byte("x"), 0)...)
	}
	c, _, _ := faultyConn(t, wire, ConnConfig{})
	n, err := c.WriteTo(writerFunc(func(p []byte) (int, error) { c.Close(); return len(p), nil }))
	if n != 1 || err != net.ErrClosed {
		t.Errorf("WriteTo a writer that closes the connection: %d, %v", n, err)
	}
}

// panics reports whether f does.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestAnsweredKeyUpdates has a side that only sends ask for KeyUpdates, and its peer
// answer: that is not a flood, however often it happens. Unrequested KeyUpdates are
// one.
func TestAnsweredKeyUpdates(t *testing.T) {
	f := newPeer(t)
	c, s, _ := faultyConn(t, nil, ConnConfig{})
	p := make([]byte, 100)
	update := func() error {
		s.in.Write(f.record(22, []byte{typeKeyUpdate, 0, 0, 1, 0}, 0))
		f.keyUpdate()
		_, err := c.Read(p)
		return err
	}
	for i := range 3 * maxIdleRecords {
		if err := c.KeyUpdate(true); err != nil {
			t.Fatal(err)
		}
		if err := update(); !isTimeout(err) {
			t.Fatalf("answer %d: %v", i+1, err)
		}
	}
	c.KeyUpdate(true) // one answer for both
	c.KeyUpdate(true)
	for i := range maxIdleRecords + 1 {
		if err := update(); !isTimeout(err) {
			t.Fatalf("KeyUpdate %d: %v", i+1, err)
		}
	}
	if err := update(); err != ErrTooManyIdleRecords {
		t.Errorf("%v, want %v", err, ErrTooManyIdleRecords)
	}
}

// TestTimeoutBesideData has the transport return data and a timeout together. That
// timeout is over when the data has been read.
func TestTimeoutBesideData(t *testing.T) {
	f := newPeer(t)
	wire := [][]byte{f.record(23, []byte("first"), 0), f.record(23, []byte("second"), 0)}
	transport := readerFunc(func(p []byte) (int, error) {
		n := copy(p, wire[0])
		if wire[0] = wire[0][n:]; len(wire[0]) == 0 {
			wire = wire[1:]
		}
		return n, os.ErrDeadlineExceeded
	})
	r := NewReader(transport, appOpener(t, aead.AES128GCM(), "server"), ReaderConfig{})
	p := make([]byte, 100)
	for _, want := range []string{"first", "second"} {
		if n, err := r.Read(p); string(p[:n]) != want || err != nil {
			t.Errorf("%q, %v, want %q", p[:n], err, want)
		}
	}
}
