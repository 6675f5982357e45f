//go:build unix

package record

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"example.com/splitseal/aead"
)

// TestSocketTypes reads sockets of the very types of package net when they are
// readable, and nothing else.
func TestSocketTypes(t *testing.T) {
	tcp, _ := tcpPair(t)
	unix, _ := unixPair(t)
	datagram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: t.TempDir() + "/d", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	pipe, _ := net.Pipe()
	for _, test := range []struct {
		name      string
		transport io.Reader
		want      bool
	}{
		{"TCP", tcp, true},
		{"unix stream", unix, true},
		{"unix datagrams", datagram, false},
		{"a type that embeds TCP", &tap{TCPConn: tcp}, false},
		{"an interface around TCP", opaque{tcp}, false},
		{"a pipe", pipe, false},
	} {
		if got := newSocket(test.transport) != nil; got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestSocketError checks that the error of a connection that was reset is that of
// net.TCPConn's own Read, addresses included.
func TestSocketError(t *testing.T) {
	said := func(read func(c *net.TCPConn) error) string {
		t.Helper()
		ours, theirs := tcpPair(t)
		theirs.SetLinger(0) // Close sends a reset
		theirs.Close()
		err := read(ours)
		var op *net.OpError
		if !errors.As(err, &op) || !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("%T: %v", err, err)
		}
		if op.Source != ours.LocalAddr() || op.Addr != ours.RemoteAddr() {
			t.Errorf("from %v to %v, want %v to %v", op.Addr, op.Source, ours.RemoteAddr(), ours.LocalAddr())
		}
		return strings.NewReplacer(ours.LocalAddr().String(), "local", ours.RemoteAddr().String(), "remote").Replace(op.Error())
	}
	want := said(func(c *net.TCPConn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	})
	got := said(func(c *net.TCPConn) error {
		_, err := NewReader(c, appOpener(t, aead.AES128GCM(), "peer"), ReaderConfig{}).Read(make([]byte, 1))
		return err
	})
	if got != want {
		t.Errorf("%q, net says %q", got, want)
	}
}
