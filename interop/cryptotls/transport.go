package cryptotls

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// transport is what crypto/tls holds in place of the connection.
//
// While the handshake runs it hands crypto/tls at most the rest of the record that is
// being read, however much crypto/tls asks for: crypto/tls reads ahead as far as its
// buffer has room, and any of the application's records that it had read would be out
// of reach. What goes both ways is opened as it passes, which is how the sequence
// numbers are known; see [stream].
//
// Afterwards it either passes everything on, for a TLS 1.2 peer, or nothing: no
// byte, no deadline and no Close gets through to the connection any more.
type transport struct {
	conn  net.Conn
	close func() error // closes conn, once, whoever calls it
	phase atomic.Int32
	log   keyLog

	// Of the goroutine that runs the handshake, and then of the one that reads.
	buf            []byte // read from conn; buf[r:w] is not handed on yet
	r, w           int
	left           int         // bytes of the current record not handed on yet
	failed         error       // of conn, after what is in buf
	sent, received *stream     // while the handshake runs
	suite          *aead.Suite // once the ServerHello has passed
	feed           []byte      // phaseTickets: what is there to read
	stored         int         // sessions that crypto/tls has stored and store has not accounted for
}

// The phases of a transport.
const (
	phaseHandshake int32 = iota
	phasePassing         // crypto/tls keeps the connection
	phaseTickets         // reads see only what was fed, everything else fails
	phaseOver            // everything fails
)

var (
	errHandedOver   = errors.New("cryptotls: connection was handed over to package record")
	errInvalidRead  = errors.New("cryptotls: impossible count from Read")
	errInvalidWrite = errors.New("cryptotls: impossible count from Write")
)

// drained is the error that crypto/tls reads when all that was fed to it is used up.
// Because it is temporary and a timeout, it leaves crypto/tls's read side as it is,
// to be fed again.
type drained struct{}

func (drained) Error() string   { return "cryptotls: no ticket to read" }
func (drained) Timeout() bool   { return true }
func (drained) Temporary() bool { return true }

// newTransport returns the transport of a client or a server.
func newTransport(conn net.Conn, client bool) *transport {
	t := &transport{
		conn:  conn,
		close: sync.OnceValue(func() error { return conn.Close() }),
		buf:   make([]byte, readSize),
	}
	ours, theirs := fromServer, fromClient
	if client {
		ours, theirs = theirs, ours
	}
	t.sent, t.received = newStream(t, ours), newStream(t, theirs)
	return t
}

// Read implements net.Conn.
func (t *transport) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	switch t.phase.Load() {
	case phasePassing:
		if t.r == t.w {
			t.buf = nil
			return t.read(p)
		}
		n := copy(p, t.buf[t.r:t.w])
		t.r += n
		return n, nil
	case phaseTickets:
		if len(t.feed) == 0 {
			return 0, drained{}
		}
		n := copy(p, t.feed)
		t.feed = t.feed[n:]
		return n, nil
	case phaseOver:
		return 0, errHandedOver
	}
	if t.left == 0 {
		switch err := t.fill(record.HeaderSize); {
		case err == nil:
			t.left = recordSize(t.buf[t.r:])
		case t.r == t.w:
			return 0, err
		default:
			// An incomplete header, and then the error, which a socket has only once.
			t.left, t.failed = t.w-t.r, err
		}
	} else if err := t.fill(1); err != nil {
		return 0, err
	}
	n := copy(p[:min(len(p), t.left)], t.buf[t.r:t.w])
	t.received.add(t.buf[t.r : t.r+n])
	if t.received.err == errSessionID {
		// Nothing that was sent has keys.
		t.sendAlert(record.NewSealer(record.SealerConfig{}), errSessionID)
		return 0, errSessionID
	}
	t.r += n
	t.left -= n
	return n, nil
}

// fill reads from the connection until size bytes are there.
func (t *transport) fill(size int) error {
	if t.w-t.r >= size {
		return nil
	}
	t.w = copy(t.buf, t.buf[t.r:t.w])
	t.r = 0
	for t.w < size {
		n, err := t.read(t.buf[t.w:])
		t.w += n
		if err != nil && t.w < size {
			return err // io.EOF too: crypto/tls knows what is missing
		}
	}
	return nil
}

// read reads from the connection until it returns bytes or an error. crypto/tls
// panics if a count is impossible, and puts no limit on reads that return nothing.
func (t *transport) read(p []byte) (int, error) {
	if t.failed != nil {
		return 0, t.failed
	}
	for range maxEmptyReads {
		n, err := t.conn.Read(p)
		if n < 0 || n > len(p) {
			return 0, errInvalidRead
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// Write implements net.Conn.
func (t *transport) Write(p []byte) (int, error) {
	switch t.phase.Load() {
	case phaseHandshake:
		t.sent.add(p)
	case phaseTickets, phaseOver:
		return 0, errHandedOver
	}
	n, err := t.conn.Write(p)
	switch {
	case n < 0 || n > len(p):
		return 0, errInvalidWrite
	case n < len(p) && err == nil:
		return n, io.ErrShortWrite // crypto/tls does not look at the count
	}
	return n, err
}

// Close implements net.Conn. crypto/tls calls it from another goroutine when the
// context of the handshake ends, and the goroutine that runs the handshake then
// closes it too: "The behavior of Close after the first call is undefined."
// ([io.Closer])
func (t *transport) Close() error {
	if t.over() {
		return errHandedOver
	}
	return t.close()
}

// closeUnless closes the connection unless it belongs to one in *c. Deferred, it does
// so after a panic too.
func (t *transport) closeUnless(c *net.Conn) {
	if *c == nil {
		t.close()
	}
}

// NetConn returns the connection, for those who get t from the NetConn of a
// [tls.Conn]; see [Options.AllowTLS12].
func (t *transport) NetConn() net.Conn { return t.conn }

// SyscallConn implements [syscall.Conn] if the connection does.
func (t *transport) SyscallConn() (syscall.RawConn, error) {
	if c, ok := t.conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func (t *transport) over() bool { return t.phase.Load() > phasePassing }

// LocalAddr implements net.Conn.
func (t *transport) LocalAddr() net.Addr { return t.conn.LocalAddr() }

// RemoteAddr implements net.Conn.
func (t *transport) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// SetDeadline implements net.Conn.
func (t *transport) SetDeadline(d time.Time) error {
	return t.deadline(t.conn.SetDeadline, d)
}

// SetReadDeadline implements net.Conn.
func (t *transport) SetReadDeadline(d time.Time) error {
	return t.deadline(t.conn.SetReadDeadline, d)
}

// SetWriteDeadline implements net.Conn. The Close of an abandoned [tls.Conn]
// sets one in the past, which must not reach the connection.
func (t *transport) SetWriteDeadline(d time.Time) error {
	return t.deadline(t.conn.SetWriteDeadline, d)
}

func (t *transport) deadline(set func(time.Time) error, d time.Time) error {
	if t.over() {
		return errHandedOver
	}
	return set(d)
}

// end ends the handshake. It returns what was read from the connection and not
// handed to crypto/tls, which the caller now owns unless phase is phasePassing.
func (t *transport) end(phase int32) (unread []byte) {
	t.phase.Store(phase)
	t.wipe()
	t.sent, t.received = nil, nil
	if phase == phasePassing {
		return nil
	}
	unread = t.buf[t.r:t.w]
	t.buf, t.r, t.w = nil, 0, 0
	return unread
}

// wipe erases the secrets of the handshake and what was kept of it.
func (t *transport) wipe() {
	t.log.wipe()
	for _, s := range []*stream{t.sent, t.received} {
		if s != nil {
			s.wipe()
		}
	}
}

const (
	// readSize is how much one read from the connection asks for: most handshakes'
	// flights in one or two reads.
	readSize = 4096

	// maxEmptyReads is the number of reads in a row that may return nothing, as in
	// package record.
	maxEmptyReads = 100
)
