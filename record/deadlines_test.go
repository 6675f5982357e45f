package record

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLastWordsHaveTime lets the write deadline pass without breaking a write off, and
// then ends a connection in each way: what it sends last is not the caller's write.
func TestLastWordsHaveTime(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(c *Conn) error
		wire []byte
		want string
	}{
		"Close":      {(*Conn).Close, nil, "data:1 close_notify"},
		"CloseWrite": {(*Conn).CloseWrite, nil, "data:1 close_notify"},
		"SendAlert":  {func(c *Conn) error { return c.SendAlert(AlertAccessDenied) }, nil, "data:1 access_denied"},
		"a fault": {func(c *Conn) error {
			if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec {
				return err
			}
			return nil
		}, []byte{20, 3, 3, 0, 1}, "data:1 unexpected_message"},
	} {
		d := &dated{}
		d.in.Write(test.wire)
		c := newConn(t, d, ConnConfig{})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-time.Hour)
		if err := c.SetDeadline(past); err != nil {
			t.Fatal(err)
		}
		d.write = func(p []byte) (int, error) {
			c.SetWriteDeadline(past)
			if d.deadline.Equal(past) {
				t.Errorf("%s: the caller has moved the deadline", name)
			}
			return d.out.Write(p)
		}
		if err := test.end(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := describe(newFollower(t).take(t, d.out.Bytes())); got != test.want {
			t.Errorf("%s: sent %q, want %q", name, got, test.want)
		}
		c.Close()
	}
}

// dated is a stub that obeys its write deadline.
type dated struct {
	stub
	deadline time.Time
}

func (d *dated) SetWriteDeadline(t time.Time) error { d.deadline = t; return nil }

func (d *dated) Write(p []byte) (int, error) {
	if !d.deadline.IsZero() && !time.Now().Before(d.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return d.stub.Write(p)
}

// TestCloseWriteIsBounded has a peer that does not take close_notify.
func TestCloseWriteIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := newConn(t, a, ConnConfig{})
		start := time.Now()
		if err := c.CloseWrite(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != closeWriteTimeout {
			t.Errorf("CloseWrite: %v after %v", err, time.Since(start))
		}
		c.Close()
	})
}

// TestCloseSaysWhy has Close end, by closing it, a transport that takes no
// close_notify and has no deadlines. net.ErrClosed would be an earlier Close. An error
// of the transport's Close comes first.
func TestCloseSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &fussy{undated: undated{end: make(chan struct{})}}
		c := newConn(t, u, ConnConfig{})
		if err := c.Close(); !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			t.Errorf("Close: %v", err)
		}

		c = newConn(t, undatedCloseFails{&undated{end: make(chan struct{})}}, ConnConfig{})
		if err := c.Close(); err != errCloseFails {
			t.Errorf("Close: %v, want the transport's error", err)
		}
	})
}

// undatedCloseFails is one whose Close returns an error as well.
type undatedCloseFails struct{ *undated }

func (u undatedCloseFails) Close() error { u.undated.Close(); return errCloseFails }

// fussy is closed once only.
type fussy struct{ undated }

func (f *fussy) Close() error {
	err := net.ErrClosed
	f.once.Do(func() { close(f.end); err = nil })
	return err
}

// TestRefusedDeadline sets a deadline that the transport refuses.
func TestRefusedDeadline(t *testing.T) {
	s := new(stub)
	c := newConn(t, readingUndated{s}, ConnConfig{})
	past := time.Now().Add(-time.Hour)
	for i, err := range []error{c.SetWriteDeadline(past), c.Close()} {
		if want := []error{os.ErrNoDeadline, nil}[i]; err != want {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "close_notify" {
		t.Errorf("sent %q", got)
	}
}

// waiting is a transport whose SetWriteDeadline waits for its Write, or panics.
type waiting struct {
	*undated
	writing chan struct{} // closed when a Write has begun
	panic   bool
}

func (w *waiting) Write(p []byte) (int, error) { close(w.writing); return w.undated.Write(p) }

func (w *waiting) SetWriteDeadline(time.Time) error {
	if w.panic {
		panic("SetWriteDeadline")
	}
	<-w.end
	return nil
}

// TestCloseDespiteDeadlines closes transports whose SetWriteDeadline does not return.
func TestCloseDespiteDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{undated: &undated{end: make(chan struct{})}, writing: make(chan struct{})}
		c := newConn(t, w, ConnConfig{})
		done := make(chan error)
		go func() { _, err := c.Write([]byte("x")); done <- err }()
		<-w.writing
		go c.SetWriteDeadline(time.Time{})
		synctest.Wait()
		start := time.Now()
		if c.Close(); time.Since(start) != writeGrace {
			t.Errorf("Close took %v", time.Since(start))
		}
		if err := <-done; err != net.ErrClosed {
			t.Errorf("Write: %v", err)
		}
	})
	c := newConn(t, &waiting{undated: &undated{end: make(chan struct{})}, panic: true}, ConnConfig{})
	if !panics(func() { c.Close() }) {
		t.Error("no panic")
	}
	if c.out.sealer.keys != nil || c.in.opener.keys != nil || c.writeLock.users.Load() != 0 {
		t.Error("keys are still there, or the lock is held")
	}
}

// TestPanicInAlert has the transport panic while a Read sends its alert: nothing is
// left behind, and every method returns the Read's error.
func TestPanicInAlert(t *testing.T) {
	t.Run("Write", func(t *testing.T) {
		s := new(stub)
		s.write = func([]byte) (int, error) { panic("transport") }
		testPanicInAlert(t, s, s)
	})
	t.Run("SetWriteDeadline", func(t *testing.T) {
		w := &waiting{undated: &undated{end: make(chan struct{})}, panic: true}
		testPanicInAlert(t, w, &w.undated.stub)
	})
}

func testPanicInAlert(t *testing.T, transport net.Conn, s *stub) {
	synctest.Test(t, func(t *testing.T) {
		s.in.Write([]byte{20, 3, 3, 0, 1})
		closes := 0
		c := newConn(t, &closer{transport, func() { closes++ }}, ConnConfig{})
		if !panics(func() { c.Read(make([]byte, 1)) }) {
			t.Error("no panic")
		}
		for i, err := range []error{c.CloseWrite(), c.KeyUpdate(false)} {
			if err != ErrChangeCipherSpec {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec {
			t.Errorf("Read: %v", err)
		}
		time.Sleep(2 * alertTimeout)
		if closes != 0 {
			t.Error("the transport was closed, which only the caller's Close may do")
		}
	})
}

// TestTransportClosedOnce has the timer of an alert close a transport that does not
// take it. The caller's Close, its first, does not report that.
func TestTransportClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &fussy{undated: undated{end: make(chan struct{})}}
		u.in.Write([]byte{20, 3, 3, 0, 1})
		c := newConn(t, u, ConnConfig{})
		if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestCloseWriteLeavesNoDeadline goes on over the transport when both sides have sent
// close_notify.
func TestCloseWriteLeavesNoDeadline(t *testing.T) {
	d := &dated{}
	c := newConn(t, d, ConnConfig{})
	if err := c.SetDeadline(time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil || !d.deadline.IsZero() {
		t.Errorf("CloseWrite: %v, deadline %v", err, d.deadline)
	}
	later := time.Now().Add(time.Hour)
	if err := c.SetWriteDeadline(later); err != nil || !d.deadline.Equal(later) {
		t.Errorf("SetWriteDeadline: %v, deadline %v", err, d.deadline)
	}
}

// TestSendAlertIsTheReason has the peer answer an alert by closing its side, while a
// Read waits: that is no end of the data.
func TestSendAlertIsTheReason(t *testing.T) {
	for _, accept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			go func() {
				b.Read(make([]byte, 100))
				b.Close()
			}()
			c := newConn(t, a, ConnConfig{AcceptTruncation: accept})
			done := make(chan error)
			go func() { _, err := c.Read(make([]byte, 1)); done <- err }()
			synctest.Wait()
			if err := c.SendAlert(AlertAccessDenied); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Errorf("Read: %v", err)
			}
			c.Close()
		})
	}
}

// TestSendAlertBesideOthers has SendAlert and Export, or Close, at the same time: an
// alert that SendAlert has taken on is sent, and what is exported lives. Time stands
// still: Close would break off an alert that takes a millisecond.
func TestSendAlertBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for round := range 4000 {
			export := round%2 == 0
			s := new(stub)
			c := newConn(t, s, ConnConfig{})
			var ended, alertErr error
			calls := []func(){
				func() { alertErr = c.SendAlert(AlertAccessDenied) },
				func() {
					if export {
						_, _, ended = c.Export()
					} else {
						ended = c.Close()
					}
				},
			}
			// The one that waits is usually the second one, but not always.
			if round/2%2 == 0 {
				slices.Reverse(calls)
			}
			var begin atomic.Bool
			var done sync.WaitGroup
			done.Go(func() {
				for !begin.Load() {
					runtime.Gosched()
				}
				calls[0]()
			})
			begin.Store(true)
			calls[1]()
			done.Wait()
			sent := describe(newFollower(t).take(t, s.out.Bytes()))
			want := map[bool]string{true: "access_denied", false: ""}[alertErr == nil]
			if !export && alertErr != nil {
				want = "close_notify"
			}
			if export && (ended == nil) != (alertErr == ErrExported) && ended != ErrInUse {
				t.Fatalf("round %d: SendAlert %v, Export %v", round, alertErr, ended)
			}
			if sent != want {
				t.Fatalf("round %d: SendAlert %v, sent %q, want %q", round, alertErr, sent, want)
			}
		}
	})
}

// noReadDeadline refuses read deadlines.
type noReadDeadline struct{ stub }

func (*noReadDeadline) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// TestSetDeadlineFails: a deadline that the transport refuses is no deadline.
func TestSetDeadlineFails(t *testing.T) {
	c := newConn(t, new(noReadDeadline), ConnConfig{})
	if err := c.SetDeadline(later()); err != errors.ErrUnsupported {
		t.Error(err)
	}
}
