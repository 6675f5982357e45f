package record

import (
	"bytes"
	"errors"
	"io"

	"example.com/splitseal/internal/mem"
	"example.com/splitseal/internal/standin"
)

// ReaderConfig holds what a [Reader] keeps for its whole life. The zero value is
// ready for use where no handshake message but KeyUpdate is expected.
type ReaderConfig struct {
	// Unread is what has been read from the transport already. It comes before
	// what the transport returns. It is copied.
	Unread []byte

	// HandleMessage is given each handshake message except KeyUpdate, its header of
	// four bytes included. The message is valid only during the call. If
	// HandleMessage returns an error, the Reader ends with a [HookError], or with the
	// error itself if it is one of this package's variables for which [AlertOf] names
	// an alert. A nil HandleMessage refuses every message with
	// [ErrUnexpectedMessage].
	//
	// It runs inside a Read and must not call methods of the Reader. If it panics,
	// the Reader ends with [ErrInterrupted].
	HandleMessage func(message []byte) error

	// OnKeyUpdate is called for each KeyUpdate of the peer, and told whether the peer
	// requests one in return. The Reader has updated its own keys by then.
	OnKeyUpdate func(request bool)

	// OnAlert is called for each alert of the peer.
	OnAlert func(a Alert)

	// MaxHandshakeMessageSize is the most bytes that a handshake message may have
	// after its header. Zero means 65536.
	MaxHandshakeMessageSize int

	// AcceptTruncation turns the end of the transport without close_notify into
	// io.EOF if it comes where a record ends. Anyone who can cut the transport can
	// then cut the data at the end of any record, so this is for protocols that mark
	// their own end. It is not for those that go on over the transport: "If the
	// application protocol using TLS provides that any data may be carried over the
	// underlying transport after the TLS connection is closed, the TLS implementation
	// MUST receive a "close_notify" alert before indicating end-of-data to the
	// application layer." (RFC 9846, Section 6.1)
	AcceptTruncation bool

	// KeepBuffer keeps the buffer while the Reader waits for data. That costs up to
	// 72 KiB, and saves one Read of the transport after each pause.
	KeepBuffer bool
}

// Reader reads application data from a transport, in records that an [Opener] opens.
// Content is opened straight into the caller's memory as far as that has room; the
// rest stays where it was received.
//
// While a Reader waits for the first byte of a record it holds no buffer: it waits
// with a Read of the five header bytes, or, if the transport is a [net.TCPConn] or a
// stream [net.UnixConn] on a Unix system, until the socket is readable. Once there is
// data it reads up to 72 KiB at a time. While it waits inside a record it holds 18
// KiB, or 72 KiB if the transport is not such a socket and has filled its buffer
// before.
//
// A timeout of the transport loses nothing: the next Read goes on where the last one
// stopped, at any byte. All other errors are final, and are returned after all data
// that came before them. The peer's close_notify is [io.EOF], and the end of the
// transport without one is [io.ErrUnexpectedEOF]; an error alert of the peer is an
// [AlertError]; any other error of the transport is a [TransportError]. For all
// others, including a [HookError] of the caller's own code, [AlertOf] says what to
// send to the peer. No final error but io.EOF itself is io.EOF to [errors.Is], and
// none is a timeout.
//
// A Reader must not be copied and is not safe for concurrent use.
type Reader struct {
	_ mem.NoCopy

	transport io.Reader
	socket    *socket           // to wait until the transport is readable, or nil
	standin   standin.Transport // the transport, as long as it is one
	opener    *Opener
	conn      *Conn // whose Reader this is, or nil
	config    ReaderConfig
	messages  *HandshakeReader // nil before the first handshake record

	// What was received and not yet opened is b.b[start:end], or head[:end] if b is
	// nil. What was opened in place is before start.
	b          *inBuffer
	head       [HeaderSize]byte
	start, end int
	plain      []byte // application data that was not yet read
	held       []byte // content of a record of another type that was not yet handled
	heldType   ContentType
	filled     bool // the last read filled its buffer

	pending error // of the transport, after what was received
	err     error // final
}

// NewReader returns a Reader of records that opener opens. From here on the Opener
// belongs to the Reader. The exception is key changes, between two calls of the
// Reader and in [ReaderConfig.HandleMessage].
//
// It panics if transport or opener is nil, or if cfg.MaxHandshakeMessageSize is
// negative.
func NewReader(transport io.Reader, opener *Opener, cfg ReaderConfig) *Reader {
	r := new(Reader)
	r.init(transport, opener, cfg)
	return r
}

func (r *Reader) init(transport io.Reader, opener *Opener, cfg ReaderConfig) {
	if transport == nil || opener == nil {
		panic("record: nil transport or Opener")
	}
	if cfg.MaxHandshakeMessageSize < 0 {
		panic("record: negative message size limit")
	}
	if cfg.MaxHandshakeMessageSize == 0 {
		cfg.MaxHandshakeMessageSize = defaultMaxMessageSize
	}
	cfg.Unread = bytes.Clone(cfg.Unread)
	r.opener, r.config = opener, cfg
	r.standin, _ = transport.(standin.Transport)
	r.setTransport(transport)
}

func (r *Reader) setTransport(transport io.Reader) {
	r.transport = transport
	if !r.config.KeepBuffer {
		r.socket = newSocket(transport)
	}
}

// Read reads application data into p. It returns as soon as there is some, with any
// more that has been received in whole records, and never waits for more. Bytes of p
// beyond n that were used as working space are zeroed.
//
// Whatever else follows that data, a KeyUpdate, an alert or a fault, is left to the
// next Read, as if it had not arrived yet.
//
// An empty p reads nothing and returns no error.
func (r *Reader) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		r.checkConn()
		if len(r.plain) > 0 {
			n += r.takePlain(p[n:])
		}
		// Handling anything else may wait or panic, in the caller's code or in the
		// transport, so data that came before it is returned first.
		if n == len(p) || n > 0 && (r.err != nil || r.held != nil) {
			return n, nil
		}
		if r.err != nil {
			return 0, r.err
		}
		if r.held != nil {
			r.handleHeld()
			continue
		}
		content, need, err := r.open(p[n:])
		n += content
		if need == 0 && err == nil {
			continue
		}
		if n > 0 {
			return n, nil // the Opener repeats its error
		}
		if err != nil {
			r.fail(err)
			continue
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// WriteTo writes all application data to w until [io.EOF], which it returns as nil.
// It writes the content of one record at a time, from where that was opened. What w
// does not take can still be read. Errors of w are returned as they are, except that
// io.EOF becomes [io.ErrClosedPipe].
func (r *Reader) WriteTo(w io.Writer) (n int64, err error) {
	for {
		m, err := r.writeRecord(w)
		n += int64(m)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// writeRecord reads until there is content, and writes that to w. It returns
// [io.EOF] only when that is the end of r, not when w returns it.
func (r *Reader) writeRecord(w io.Writer) (n int, err error) {
	for {
		r.checkConn()
		if r.err != nil {
			return 0, r.err
		}
		if len(r.plain) > 0 {
			break
		}
		if r.held != nil {
			r.handleHeld()
			continue
		}
		_, need, err := r.open(nil)
		if err != nil {
			r.fail(err)
		}
		if need > 0 {
			if err := r.fill(); err != nil {
				return 0, err
			}
		}
	}
	size := len(r.plain)
	n, err = w.Write(r.plain)
	switch {
	case n < 0 || n > size:
		return 0, errInvalidWrite
	case err == nil && n < size:
		err = io.ErrShortWrite
	default:
		err = replaceEOF(err, io.ErrClosedPipe)
	}
	r.dropPlain(n)
	return n, err
}

// checkConn ends r if its Conn is already dead or closed. It is called before each
// record and each message.
func (r *Reader) checkConn() {
	if r.err == nil {
		if err := r.conn.ended(); err != nil {
			r.close(err)
		}
	}
}

// takePlain moves content that was opened in place to p.
func (r *Reader) takePlain(p []byte) int {
	n := copy(p, r.plain)
	r.dropPlain(n)
	return n
}

// dropPlain forgets n bytes of content that was opened in place.
func (r *Reader) dropPlain(n int) {
	if n == 0 {
		return
	}
	clear(r.plain[:n])
	r.plain = r.plain[n:]
	r.release()
}

// release gives the buffer back if nothing is in it.
func (r *Reader) release() {
	if len(r.plain) == 0 && r.start == r.end && r.held == nil {
		r.giveBack()
	}
}

func (r *Reader) giveBack() {
	r.plain, r.start, r.end = nil, 0, 0
	if r.b != nil && !r.config.KeepBuffer {
		r.b.put()
		r.b = nil
	}
}

// buffered returns what was received and not yet opened.
func (r *Reader) buffered() []byte {
	if r.b == nil {
		return r.head[:r.end]
	}
	return r.b.b[r.start:r.end]
}

// open opens the next record. Application data goes to p as far as there is room, and
// n is how much; the rest stays in place. Other content stays in place too, for
// handleHeld. If need > 0, at least that many bytes are missing from the record, and
// nothing has happened.
func (r *Reader) open(p []byte) (n, need int, err error) {
	if r.opener == nil {
		panic("record: Reader not made by NewReader, or Conn not by NewConn")
	}
	in := r.buffered()
	var rec Record
	need, err = r.opener.openTo(&rec, p, in)
	if err != nil || need > 0 {
		return 0, need, err
	}
	r.start += rec.Size
	switch {
	case rec.Dropped:
	case rec.Type != ContentTypeApplicationData:
		r.held, r.heldType = rec.Content, rec.Type
	case len(p) > 0:
		n, r.plain = len(rec.Content), rec.Rest
	default:
		r.plain = rec.Content
	}
	r.release()
	return n, 0, nil
}

// handleHeld handles the record that is held.
func (r *Reader) handleHeld() {
	content, handle := r.held, r.handleAlert
	if r.heldType == ContentTypeHandshake {
		handle = r.handleHandshake
	}
	r.held = nil
	if err := handle(content); err != nil {
		r.fail(err)
		return
	}
	r.release()
}

// handleAlert handles an alert of the peer.
func (r *Reader) handleAlert(content []byte) error {
	a, err := ParseAlert(content)
	clear(content) // before the caller's code, which may panic
	if err != nil {
		return err
	}
	switch {
	case a == AlertCloseNotify:
		// "Upon receiving such an alert, the TLS implementation SHOULD indicate
		// end-of-data to the application." (RFC 9846, Section 6); "Any data
		// received after a closure alert has been received MUST be ignored."
		// (Section 6.1)
		err = io.EOF
	case a.IsError():
		// "Upon receiving an error alert, the TLS implementation SHOULD indicate
		// an error to the application and MUST NOT allow any further data to be
		// sent or received on the connection." (RFC 9846, Section 6)
		err = &AlertError{Alert: a}
	default:
		// "Receiving implementations SHOULD continue to read data from the peer
		// until a "close_notify" is received, though they MAY log or otherwise
		// record them." (RFC 9846, Section 6.1, about user_canceled)
	}
	if err != nil {
		r.fail(err) // before the caller's code here, too
	}
	if r.config.OnAlert != nil {
		r.config.OnAlert(a)
	}
	return err
}

// handleHandshake handles the content of a handshake record.
func (r *Reader) handleHandshake(content []byte) (err error) {
	if r.messages == nil {
		r.messages = NewHandshakeReader(r.config.MaxHandshakeMessageSize)
	}
	err = r.messages.Append(content)
	clear(content) // before the caller's code, which may panic
	if err != nil {
		return err
	}
	returns := false
	defer func() {
		if !returns {
			// What follows in the record would be read after what follows the
			// record.
			r.fail(ErrInterrupted)
		}
	}()
	err = r.handleMessages()
	returns = true
	return err
}

// handleMessages handles the messages that are whole.
func (r *Reader) handleMessages() error {
	for {
		// The one before may have ended the connection.
		if r.checkConn(); r.err != nil {
			return r.err
		}
		message, err := r.messages.Next()
		if err != nil {
			return err
		}
		if message == nil {
			if r.messages.Empty() {
				r.messages.Wipe()
			}
			return nil
		}
		if message[0] != typeKeyUpdate {
			if r.config.HandleMessage == nil {
				return ErrUnexpectedMessage
			}
			if err := r.config.HandleMessage(message); err != nil {
				return hookError(err, ErrMessageHandler)
			}
			continue
		}
		request, err := ParseKeyUpdate(message)
		if err != nil {
			return err
		}
		// "Handshake messages MUST NOT span key changes. Implementations MUST
		// verify that all messages immediately preceding a key change align with
		// a record boundary" (RFC 9846, Section 5.1)
		if !r.messages.Empty() {
			return ErrKeyChangeBoundary
		}
		// "Upon receiving a KeyUpdate, the receiver MUST update its receiving
		// keys." (RFC 9846, Section 4.7.3)
		if err := r.opener.KeyUpdate(); err != nil {
			if errors.Is(err, ErrKeySetup) {
				err = hookError(err, ErrKeySetup)
			}
			return err
		}
		if r.config.OnKeyUpdate != nil {
			r.config.OnKeyUpdate(request)
		}
	}
}

// fill waits for the transport and receives at least one byte, or returns an error,
// which is also in r.err if it is final. The buffer holds no content.
func (r *Reader) fill() error {
	if len(r.config.Unread) > 0 {
		r.makeRoom()
		n := copy(r.b.b[r.end:], r.config.Unread)
		r.end += n
		r.config.Unread = r.config.Unread[n:]
		if len(r.config.Unread) == 0 {
			r.config.Unread = nil
		}
		return nil
	}
	if err := r.pending; err != nil {
		r.pending = nil
		return r.transportError(err)
	}
	if r.standin != nil {
		if original := r.standin.Original(standin.Private{}); original != nil {
			r.standin = nil
			r.setTransport(original)
		}
	}
	var n int
	var err error
	if r.socket != nil {
		n, err = r.socket.read(r)
	} else {
		n, err = r.readTransport()
	}
	r.end += n
	if n > 0 {
		// The next read meets a timeout again, unless the deadline has moved.
		if err != nil && !isTimeout(err) {
			r.pending = err
		}
		return nil
	}
	return r.transportError(err)
}

// readTransport reads from the transport until it returns bytes or an error.
func (r *Reader) readTransport() (n int, err error) {
	for range maxEmptyReads {
		var room []byte
		if r.b == nil && !r.config.KeepBuffer && r.end < HeaderSize {
			room = r.head[r.end:]
		} else {
			r.makeRoom()
			room = r.b.b[r.end:]
		}
		n, err = r.transport.Read(room)
		if n < 0 || n > len(room) {
			return 0, errInvalidRead
		}
		if n > 0 || err != nil {
			r.filled = n == len(room) && len(room) > HeaderSize
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// makeRoom makes sure that there is a buffer with room after what it holds, and for
// all of the record that begins there. The buffer holds no content.
func (r *Reader) makeRoom() {
	large := r.filled || r.socket != nil || len(r.config.Unread) > smallSize
	if r.b == nil || large && len(r.b.b) < largeSize {
		r.move(takeInBuffer(large))
		return
	}
	if r.start > 0 {
		r.end = copy(r.b.b, r.b.b[r.start:r.end])
		r.start = 0
	}
}

// move moves what was received and not yet opened to the start of b, or to head
// if b is nil.
func (r *Reader) move(b *inBuffer) {
	in, old := r.buffered(), r.b
	if b != nil {
		r.end = copy(b.b, in)
	} else {
		r.end = copy(r.head[:], in)
	}
	r.plain, r.start = nil, 0 // not an empty slice, which would keep old alive
	r.b = b
	if old != nil {
		old.put()
	}
}

// shrinkBuffer moves to the smallest buffer that will do, before a wait.
func (r *Reader) shrinkBuffer() {
	switch n := r.end - r.start; {
	case r.b == nil:
	case n <= HeaderSize:
		r.move(nil)
	case len(r.b.b) > smallSize && n < smallSize:
		r.move(takeInBuffer(false))
	}
}

// transportError returns what an error of the transport is to the caller of r.
func (r *Reader) transportError(err error) error {
	if !isTimeout(err) {
		// It may be the result of this side having ended the connection.
		if r.checkConn(); r.err != nil {
			return r.err
		}
	}
	switch {
	case isTimeout(err):
		return err // nothing has changed
	case err == io.EOF:
		// "If a transport-level close is received prior to a "close_notify", the
		// receiver cannot know that all the data that was sent has been
		// received." (RFC 9846, Section 6.1)
		err = io.ErrUnexpectedEOF
		if r.config.AcceptTruncation && r.start == r.end && !r.opener.HandshakePartial() {
			err = io.EOF
		}
	default:
		err = &TransportError{Op: "read", Err: replaceEOF(err, io.ErrUnexpectedEOF)}
	}
	r.close(err)
	return r.err
}

// fail ends r with err, and its Conn too unless err is io.EOF.
func (r *Reader) fail(err error) {
	if r.err != nil {
		return
	}
	r.close(err)
	if err != io.EOF && r.conn != nil {
		r.conn.readFailed(err)
	}
}

// close makes err final and gives up the keys and the buffer.
func (r *Reader) close(err error) {
	if r.err == nil {
		r.err = err
	}
	r.opener.Wipe()
	if r.messages != nil {
		r.messages.Wipe()
	}
	r.config.Unread, r.pending, r.messages = nil, nil, nil
	if r.b != nil {
		clear(r.plain)
		clear(r.held)
		r.b.put()
		r.b = nil
	}
	r.plain, r.held = nil, nil
	r.start, r.end = 0, 0
}

// Tuned here.
const (
	// defaultMaxMessageSize is crypto/tls's limit for a handshake message.
	defaultMaxMessageSize = 65536
)
