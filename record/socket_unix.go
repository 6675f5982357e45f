//go:build unix

package record

import (
	"io"
	"net"
	"os"
	"syscall"
)

// socket reads from a socket when it is readable, so that nobody needs a buffer
// while it is not.
type socket struct {
	conn  syscall.RawConn
	ready func(fd uintptr) bool // bound once, so that no read allocates it

	r   *Reader // whose buffer is read into
	n   int
	err error
}

// newSocket returns nil if transport is not a stream socket of package net. A type
// that embeds one has its methods too, but its own Read would be bypassed, so only
// the exact types count.
func newSocket(transport io.Reader) *socket {
	var raw syscall.Conn
	switch c := transport.(type) {
	case *net.TCPConn:
		raw = c
	case *net.UnixConn:
		if a := c.LocalAddr(); a == nil || a.Network() != "unix" {
			return nil // an empty datagram is not the end
		}
		raw = c
	default:
		return nil
	}
	conn, err := raw.SyscallConn()
	if err != nil {
		return nil // the transport's own Read will say why
	}
	s := &socket{conn: conn}
	s.ready = s.readReady
	return s
}

// read waits until the socket is readable, and reads into r's buffer.
func (s *socket) read(r *Reader) (n int, err error) {
	s.r, s.n, s.err = r, 0, nil
	err = s.conn.Read(s.ready)
	s.r = nil
	if err != nil {
		if op, ok := err.(*net.OpError); ok {
			op.Op = "read" // not "raw-read", which means nothing to the caller
		}
		return 0, err
	}
	if s.err != nil {
		// What the socket's own Read would say. The addresses tell whose reset it is.
		of := r.transport.(net.Conn)
		network := "tcp"
		if _, ok := of.(*net.UnixConn); ok {
			network = "unix"
		}
		return 0, &net.OpError{Op: "read", Net: network, Source: of.LocalAddr(), Addr: of.RemoteAddr(),
			Err: os.NewSyscallError("read", s.err)}
	}
	if s.n == 0 {
		return 0, io.EOF
	}
	return s.n, nil
}

// readReady is what the runtime's poller calls: at first, and then when the
// socket has become readable. It returns false to wait.
func (s *socket) readReady(fd uintptr) bool {
	r := s.r
	r.makeRoom()
	for {
		n, err := syscall.Read(int(fd), r.b.b[r.end:])
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			r.shrinkBuffer()
			return false
		}
		s.n, s.err = max(n, 0), err
		return true
	}
}
