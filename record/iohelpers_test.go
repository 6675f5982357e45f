package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/splitseal/aead"
)

// secretOf returns a traffic secret for suite that no other name gives.
func secretOf(suite *aead.Suite, name string) []byte {
	s := make([]byte, suite.Hash().Size())
	copy(s, name)
	return s
}

// appSealer returns a Sealer under application keys.
func appSealer(t testing.TB, suite *aead.Suite, name string, cfg SealerConfig) *Sealer {
	t.Helper()
	s := NewSealer(cfg)
	if err := s.SetTrafficSecret(EpochApplication, suite, secretOf(suite, name)); err != nil {
		t.Fatal(err)
	}
	return s
}

// appOpener returns the Opener that fits appSealer's Sealer of that name.
func appOpener(t testing.TB, suite *aead.Suite, name string) *Opener {
	t.Helper()
	o := NewOpener(OpenerConfig{})
	if err := o.SetTrafficSecret(EpochApplication, suite, secretOf(suite, name)); err != nil {
		t.Fatal(err)
	}
	return o
}

// newConn returns one side of a connection, a client's unless cfg says
// otherwise.
func newConn(t testing.TB, transport net.Conn, cfg ConnConfig) *Conn {
	t.Helper()
	if cfg.Role == 0 {
		cfg.Role = RoleClient
	}
	own, peer := "client", "server"
	if cfg.Role == RoleServer {
		own, peer = peer, own
	}
	if cfg.Sealer == nil {
		cfg.Sealer = appSealer(t, aead.AES128GCM(), own, SealerConfig{})
	}
	if cfg.Opener == nil {
		cfg.Opener = appOpener(t, aead.AES128GCM(), peer)
	}
	c, err := NewConn(transport, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newPeer returns a forger of what the other side of a client's Conn sends.
func newPeer(t testing.TB) *forger {
	f := newForger(t, aead.AES128GCM())
	f.setSecret(secretOf(f.suite, "server"))
	return f
}

// tcpPair returns the two ends of a connection over loopback.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// opaque hides what a transport is, so that a Conn knows only its net.Conn.
type opaque struct{ net.Conn }

// stub is a transport without a clock or a peer: reads return what is in in,
// and then readErr, or os.ErrDeadlineExceeded if that is nil; writes go to out.
// write, if it is set, replaces Write.
type stub struct {
	in      bytes.Buffer
	readErr error
	out     bytes.Buffer
	writes  int // calls of Write
	reads   int
	write   func(p []byte) (int, error)
	closed  atomic.Bool // Close need not wait for a Write
}

func (s *stub) Read(p []byte) (int, error) {
	s.reads++
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	if s.in.Len() > 0 {
		return s.in.Read(p)
	}
	if s.readErr != nil {
		return 0, s.readErr
	}
	return 0, os.ErrDeadlineExceeded
}

func (s *stub) Write(p []byte) (int, error) {
	s.writes++
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	if s.write != nil {
		return s.write(p)
	}
	return s.out.Write(p)
}

func (s *stub) Close() error                     { s.closed.Store(true); return nil }
func (s *stub) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "local"} }
func (s *stub) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "remote"} }
func (s *stub) SetDeadline(time.Time) error      { return nil }
func (s *stub) SetReadDeadline(time.Time) error  { return nil }
func (s *stub) SetWriteDeadline(time.Time) error { return nil }

// follower opens what a client's Conn has written, and follows its KeyUpdates.
type follower struct {
	o *Opener
}

func newFollower(t testing.TB) *follower { return &follower{appOpener(t, aead.AES128GCM(), "client")} }

// take opens the records of wire, whole ones only.
func (f *follower) take(t testing.TB, wire []byte) (out []opened) {
	t.Helper()
	in := bytes.Clone(wire)
	for len(in) > 0 {
		rec, need, err := f.o.Open(in)
		if err != nil || need > 0 {
			t.Fatalf("%d bytes from the end: need %d, error %v", len(in), need, err)
		}
		out = append(out, opened{rec.Type, bytes.Clone(rec.Content), rec.Dropped})
		in = in[rec.Size:]
		if rec.Type == ContentTypeHandshake && rec.Content[0] == typeKeyUpdate {
			if err := f.o.KeyUpdate(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// describe writes records in short: data sizes, KeyUpdates, alerts.
func describe(records []opened) string {
	var b strings.Builder
	for _, r := range records {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		switch {
		case r.typ == ContentTypeApplicationData:
			b.WriteString("data:" + strconv.Itoa(len(r.content)))
		case r.typ == ContentTypeAlert:
			b.WriteString(Alert(r.content[1]).String())
		case r.content[0] == typeKeyUpdate:
			b.WriteString("KeyUpdate:" + strconv.Itoa(int(r.content[4])))
		default:
			b.WriteString("message:" + strconv.Itoa(int(r.content[0])))
		}
	}
	return b.String()
}

// checkGoroutines fails the test if goroutines that it started outlive it.
func checkGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 6000 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
	})
}

// oneByteReader returns one byte at a time, and a timeout before each.
type oneByteReader struct {
	data  []byte
	ready bool
	end   error
}

func (r *oneByteReader) Read(p []byte) (int, error) {
	if r.ready = !r.ready; r.ready {
		return 0, os.ErrDeadlineExceeded
	}
	if len(r.data) == 0 {
		return 0, r.end
	}
	p[0] = r.data[0]
	r.data = r.data[1:]
	return 1, nil
}

func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func pattern(n int) []byte {
	return randBytes(rand.New(rand.NewPCG(1, uint64(n))), n)
}

var _ io.ReadWriteCloser = (*stub)(nil)

func soon() time.Time  { return time.Now().Add(5 * time.Millisecond) }
func later() time.Time { return time.Now().Add(time.Minute) }
