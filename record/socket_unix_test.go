//go:build unix

package record

import (
	"io"
	"net"
	"testing"
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
