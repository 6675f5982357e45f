// Bogo is a shim for BoGo, the test runner of BoringSSL (ssl/test/runner): it
// plays the side of a connection that is tested. The runner starts it for each
// test, with flags that say what to do, and judges what it sends, its exit status
// and the error that it prints.
//
// The handshake is crypto/tls's and every record after it package record's, by
// package cryptotls (stack.go). Built among the files of examples/tlsstack, with
// own.go instead, the handshake is that example's. Only TLS 1.3 is played; flags
// that are unknown and whatever else cannot be done end the shim with the status
// that makes the runner skip the test.
//
// The tests of this module run the runner, if SPLITSEAL_BOGO names the directory of
// BoringSSL's source, and write docs/bogo.md.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"example.com/splitseal/record"
)

func main() { os.Exit(run(os.Args[1:])) }

// Exit statuses that the runner knows.
const (
	statusFailed        = 1
	statusUnimplemented = 89
)

func run(args []string) int {
	if slices.Contains(args, "-is-handshaker-supported") {
		fmt.Println("No") // which is about handshakes in two processes
		return 0
	}
	initial, resume, err := parseFlags(args)
	if err == nil {
		var s *stack
		if s, err = newStack(initial); err == nil {
			o := initial
			for i := 0; i <= initial.resumeCount && err == nil; i++ {
				err = connect(s, o, i > 0)
				o = resume
			}
		}
	}
	switch {
	case errors.Is(err, errUnimplemented):
		fmt.Fprintln(os.Stderr, err)
		return statusUnimplemented
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return statusFailed
	}
	return 0
}

// connect makes one connection to the runner and does what the options say.
func connect(s *stack, o *options, resumed bool) error {
	host := "127.0.0.1"
	if o.ipv6 {
		host = "::1"
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(o.port)))
	if err != nil {
		return err
	}
	tcp := conn.(*net.TCPConn)
	defer tcp.Close()
	end, err := keepOpen(tcp)
	if err != nil {
		return err
	}
	defer end()
	if _, err := tcp.Write(binary.LittleEndian.AppendUint64(nil, o.shimID)); err != nil {
		return err
	}
	transport := &transport{Conn: tcp}
	var under net.Conn = tcp
	if o.async || o.unfinishedWrite {
		under = transport
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	p, err := s.handshake(ctx, under, o, resumed)
	if err != nil {
		return err
	}
	transport.slow = o.async
	if err := exchange(p, transport, o); err != nil {
		return err
	}
	if err := p.conn.Close(); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return p.end()
}

// keepOpen makes a second descriptor of the connection, so that the connection
// outlives its Close. The runner goes on writing before it reads an alert, and if
// that met a closed socket the alert would be lost. end closes the connection
// behind what was sent, when the runner has closed it too.
func keepOpen(tcp *net.TCPConn) (end func(), err error) {
	f, err := tcp.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	kept := conn.(*net.TCPConn)
	return func() {
		tcp.Close()
		kept.CloseWrite()
		kept.SetReadDeadline(time.Now().Add(waitLimit))
		io.Copy(io.Discard, kept)
		kept.Close()
	}, nil
}

// transport is the connection under tests of asynchronous I/O. Once slow is set, a
// Read returns one byte, and every other one nothing but that it has timed out. A
// Write stops behind its first byte, until release, when stall was called.
type transport struct {
	net.Conn
	slow  bool
	turn  bool
	stuck chan struct{} // closed when a Write has stopped, if one is to
	free  chan struct{}
}

func (t *transport) Read(p []byte) (int, error) {
	if !t.slow {
		return t.Conn.Read(p)
	}
	if t.turn = !t.turn; t.turn {
		return 0, os.ErrDeadlineExceeded
	}
	return t.Conn.Read(p[:1])
}

// stall lets only one byte of the next Write through. stuck is closed when that
// has happened.
func (t *transport) stall() (stuck <-chan struct{}) {
	t.stuck, t.free = make(chan struct{}), make(chan struct{})
	return t.stuck
}

// release lets the rest through.
func (t *transport) release() { close(t.free) }

func (t *transport) Write(p []byte) (int, error) {
	if t.stuck == nil || len(p) == 0 {
		return t.Conn.Write(p)
	}
	n, err := t.Conn.Write(p[:1])
	if err != nil {
		return n, err
	}
	close(t.stuck)
	<-t.free
	t.stuck = nil
	m, err := t.Conn.Write(p[1:])
	return n + m, err
}

// peer is a connection whose handshake is done.
type peer struct {
	conn *record.Conn
	end  func() error // checks what is known only at the end

	// What may be exported: a secret of the reading and one of the writing side,
	// and the keying material of RFC 9846, Section 7.5.
	secrets func() (read, write []byte, err error)
	keying  func(label string, context []byte, size int) ([]byte, error)
}

// waitLimit is how long the shim waits for anything. The runner gives up before.
const waitLimit = 20 * time.Second
