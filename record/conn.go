package record

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/mem"
)

// Role is the side of a connection.
type Role uint8

// The two roles.
const (
	RoleClient Role = 1 + iota
	RoleServer
)

// String returns "client" or "server".
func (r Role) String() string {
	switch r {
	case RoleClient:
		return "client"
	case RoleServer:
		return "server"
	}
	return "role " + strconv.Itoa(int(r))
}

// ConnConfig says what [NewConn] needs. Role, Sealer and Opener must be set.
type ConnConfig struct {
	Role Role

	// Sealer and Opener are under application keys. From NewConn on they belong to
	// the Conn.
	Sealer *Sealer
	Opener *Opener

	// Unread is what has been read from the transport and not yet given to the
	// Opener. It is copied.
	Unread []byte

	// HandleMessage is given each handshake message, except KeyUpdate, that may
	// arrive after the handshake, its header of four bytes included: on a client
	// NewSessionTicket and CertificateRequest, on a server Certificate,
	// CertificateVerify and Finished, and on both messages unknown to RFC 9846. The
	// message is valid only during the call. If HandleMessage returns an error, the
	// connection ends with a [HookError], or with the error itself if it is one of
	// this package's variables for which [AlertOf] names an alert. The peer is sent
	// the alert that AlertOf names, or else internal_error; to send another, call
	// [Conn.SendAlert] first.
	//
	// A nil HandleMessage ignores NewSessionTicket and refuses all others with
	// [ErrUnexpectedMessage].
	//
	// It runs inside a Read, and must not call methods that read, nor Export. It may
	// write, but Read then waits for the write. If it panics, the connection ends
	// with [ErrInterrupted].
	HandleMessage func(c *Conn, message []byte) error

	// OnAlert is called for each alert that was sent, once the transport has taken
	// it, and for each that was received. It may run inside any method of the Conn,
	// and must not call any. Neither it nor the Sealer's Padding runs anywhere else:
	// once Close and all other methods have returned, neither is called.
	OnAlert func(a Alert, sent bool)

	// MaxHandshakeMessageSize is the most bytes that a handshake message may have
	// after its header. Zero means 65536.
	MaxHandshakeMessageSize int

	// AcceptTruncation is [ReaderConfig.AcceptTruncation].
	AcceptTruncation bool

	// KeepBuffer is [ReaderConfig.KeepBuffer] and [WriterConfig.KeepBuffer].
	KeepBuffer bool

	// DynamicRecordSizing is [WriterConfig.DynamicRecordSizing].
	DynamicRecordSizing bool
}

// Conn is a TLS 1.3 connection after its handshake: a [net.Conn] that carries
// application data in records over another one, its transport.
//
// Reads and writes run in parallel. One lock is held during a read, another during
// everything that seals, alerts and KeyUpdates included; only reads wait for a read.
// Deadlines are the transport's. Zero-length reads and writes do nothing.
//
// # Reading
//
// Read and WriteTo work as those of a [Reader]: whatever follows the data that a Read
// returns is left to the next one. The peer's close_notify is io.EOF; the other
// direction stays open. A Read that finds a fault in what the peer sent also sends
// the alert for it, unless a write is under way: then that write sends it once the
// transport has taken its records, and Read does not wait. The connection is then
// dead in both directions, with the same error.
//
// A KeyUpdate that the peer requests is sent before the next application data, only
// one however many are requested, and never by a Read: two sides that only read, or
// whose writes are blocked, cannot deadlock.
//
// # Writing
//
// Write, WriteBuffers and ReadFrom work as those of a [Writer]: a write that the
// transport breaks off, at a deadline for example, ends this direction for good.
// Reading goes on.
//
// # Ending
//
// [Conn.CloseWrite] sends close_notify and leaves the other direction open.
// [Conn.Close] sends it too, unless a write is under way, and closes the transport.
// After an error alert, sent or received, nothing more is sent.
//
// A Conn holds no buffer while it waits for data, unless it is told to keep one; see
// [Reader]. A Conn that is never closed holds on to its keys and its transport.
//
// All methods may be called concurrently, except that Export refuses to run
// beside others. A Conn must not be copied.
type Conn struct {
	_ mem.NoCopy

	transport net.Conn
	hooks     connHooks
	role      Role
	suite     *aead.Suite

	// Locks are taken in this order: readLock, writeLock, endLock, deadlineLock.

	// writeLock covers out, its Sealer, and writes to the transport. Close can
	// stop waiting for it.
	writeLock semaphore
	out       Writer

	readLock sync.Mutex
	in       Reader

	// failure is set once, by the Read that finds it or by SendAlert. The holder of
	// writeLock then ends the write direction, before or after releasing the lock.
	failure atomic.Pointer[failure]

	// over is set once, to net.ErrClosed by Close or to ErrExported by Export.
	// endLock is held there and where SendAlert sets failure, so that its alert is
	// not lost: a Close or an Export that comes later sees it.
	endLock sync.Mutex
	over    atomic.Pointer[error]

	// deadlineLock is held while a deadline of the transport is set, and where Export
	// sets over: the transport that it gives away gets no deadline from here later.
	deadlineLock sync.Mutex
	ending       bool // the deadline is no longer the caller's

	closeTransport func() error // closes it once; later calls return the same error
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
	_ io.WriterTo   = (*Conn)(nil)
)

type connHooks struct {
	message func(*Conn, []byte) error
	alert   func(Alert, bool)
}

// NewConn returns a connection over transport; its handshake was done elsewhere. It
// sends and receives nothing.
//
// It returns [ErrEpoch] if the Sealer or the Opener is not under application keys,
// [ErrHandshakePartial] if one of them is between the fragments of a handshake
// message, [ErrKeyUpdatePending] as [Opener.Open] does, [ErrSecretReused] if both now
// have the same traffic secret, when each direction must have its own,
// [ErrSuiteMismatch] if their suites differ, or the final error of one of them. It
// panics if transport, cfg.Sealer or cfg.Opener is nil, if cfg.Role is not set, and
// if cfg.MaxHandshakeMessageSize is negative.
func NewConn(transport net.Conn, cfg ConnConfig) (*Conn, error) {
	if cfg.Role != RoleClient && cfg.Role != RoleServer {
		panic("record: ConnConfig.Role is not set")
	}
	if transport == nil || cfg.Sealer == nil || cfg.Opener == nil {
		panic("record: nil transport, Sealer or Opener")
	}
	if err := cfg.Sealer.usable(); err != nil {
		return nil, err
	}
	if err := cfg.Opener.usable(); err != nil {
		return nil, err
	}
	switch {
	case cfg.Sealer.Epoch() != EpochApplication || cfg.Opener.Epoch() != EpochApplication:
		return nil, ErrEpoch
	case cfg.Opener.update:
		return nil, ErrKeyUpdatePending
	case cfg.Sealer.messages.partial() || cfg.Opener.HandshakePartial():
		return nil, ErrHandshakePartial
	case cfg.Sealer.keys.hasSecret(cfg.Opener.keys.secret()):
		// Both ends would seal under the same key and nonces, and each would
		// accept its own records, sent back.
		return nil, ErrSecretReused
	case cfg.Sealer.Suite().ID() != cfg.Opener.Suite().ID():
		return nil, ErrSuiteMismatch
	}
	c := &Conn{
		transport: transport,
		role:      cfg.Role,
		suite:     cfg.Sealer.Suite(),
		hooks:     connHooks{cfg.HandleMessage, cfg.OnAlert},
	}
	c.closeTransport = sync.OnceValue(transport.Close)
	c.writeLock.init()
	c.in.init(transport, cfg.Opener, ReaderConfig{
		Unread:        cfg.Unread,
		HandleMessage: c.handleMessage,
		// The reply is left to the next write: a Read that waited for room to send
		// it could wait for a peer that does the same.
		OnKeyUpdate:             c.out.PeerKeyUpdate,
		OnAlert:                 func(a Alert) { c.callOnAlert(a, false) },
		MaxHandshakeMessageSize: cfg.MaxHandshakeMessageSize,
		AcceptTruncation:        cfg.AcceptTruncation,
		KeepBuffer:              cfg.KeepBuffer,
	})
	c.out.init(transport, cfg.Sealer, WriterConfig{
		DynamicRecordSizing: cfg.DynamicRecordSizing,
		KeepBuffer:          cfg.KeepBuffer,
	})
	c.in.conn, c.out.conn = c, c
	if cfg.Sealer.KeyUpdateRequested() {
		cfg.Opener.ExpectKeyUpdate()
	}
	return c, nil
}

// Read reads application data into p, as [Reader.Read] does. After Close it returns
// [net.ErrClosed]; [Conn.SendAlert] says what it returns after an error alert of this
// side.
func (c *Conn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.readLock.Lock()
	defer c.unlockRead()
	n, err = c.in.Read(p)
	if err != nil {
		err = c.readError(err)
	}
	return n, err
}

// WriteTo writes all application data to w until the peer's close_notify, as
// [Reader.WriteTo] does.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	c.readLock.Lock()
	defer c.unlockRead()
	// After a close_notify in.WriteTo returns nil again; after Close it must not.
	if err := c.overError(); err != nil {
		return 0, err
	}
	n, err = c.in.WriteTo(w)
	if err != nil {
		err = c.readError(err)
	}
	return n, err
}

// Write sends p, as [Writer.Write] does. It returns [net.ErrClosed] after Close and
// [ErrClosed] after CloseWrite. Once a Read has failed, Write returns that error, and
// its count says how much was sent before. After a [TransportError] of a Write, Read
// says whether the peer sent an alert before it went away.
func (c *Conn) Write(p []byte) (n int, err error) {
	if err := c.beginWrite(); err != nil {
		return 0, err
	}
	defer c.endWrite()
	n, err = c.out.Write(p)
	return n, c.writeError(err)
}

// WriteBuffers sends the concatenation of pieces, as [Writer.WriteBuffers] does. The
// list must not change while it runs: see there. Its errors are those of Write.
func (c *Conn) WriteBuffers(pieces [][]byte) (n int64, err error) {
	if err := c.beginWrite(); err != nil {
		return 0, err
	}
	defer c.endWrite()
	n, err = c.out.WriteBuffers(pieces)
	return n, c.writeError(err)
}

// ReadFrom sends all that it reads from r, as [Writer.ReadFrom] does. It holds no
// lock while it waits for r. Its errors are those of r and of Write.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	return c.out.ReadFrom(r)
}

// WriteHandshake sends whole handshake messages, as [Writer.WriteHandshake] does:
// NewSessionTicket or CertificateRequest from a server, the answer to the latter
// from a client. Its errors are those of Write, [ErrHandshakePartial] and
// [ErrContentType].
func (c *Conn) WriteHandshake(messages []byte) error {
	return c.write(func() error { return c.out.WriteHandshake(messages) })
}

// KeyUpdate sends a KeyUpdate message and moves to the next generation of keys. If
// request is true it asks the peer for a KeyUpdate in return, unless an earlier
// request has not been answered yet. There is no need to call it: keys are updated
// automatically when they must be. Peers end a connection after 16 or 32 KeyUpdates
// without data between them.
//
// Its errors are those of Write and [ErrKeyUpdateLimit].
//
// See RFC 9846, Section 4.7.3.
func (c *Conn) KeyUpdate(request bool) error {
	return c.write(func() error { return c.out.KeyUpdate(request) })
}

// Export ends c and returns the states of its two directions, for [NewConn] in
// another process or for a kernel. The state of the Opener holds what was
// received and not read. The transport stays open and is the caller's; every
// later call, Close too, returns [ErrExported].
//
// It returns [ErrInUse] while another method runs, [ErrHandshakePartial] if a record
// or a handshake message is partly through, which further Reads can resolve, and then
// nothing has changed. To interrupt a Read that is waiting, set a read deadline in
// the past, and clear it afterwards: nothing is lost.
//
// A connection cannot be exported once one of its directions has ended: after
// CloseWrite Export returns [ErrClosed], after the peer's close_notify [io.EOF],
// and after a failure the error that ended the direction.
func (c *Conn) Export() (sealer, opener *State, err error) {
	if !c.readLock.TryLock() {
		return nil, nil, ErrInUse
	}
	defer c.unlockRead()
	if !c.writeLock.tryLock() {
		return nil, nil, ErrInUse
	}
	defer c.endWrite()
	c.endLock.Lock()
	defer c.endLock.Unlock()
	if err := c.ended(); err != nil {
		return nil, nil, err
	}
	c.out.applyPeerUpdate()
	switch {
	case c.in.err != nil:
		return nil, nil, c.in.err
	case c.out.err != nil:
		return nil, nil, c.out.err
	case c.out.sealer.err != nil:
		return nil, nil, c.out.sealer.err
	case len(c.in.plain) > 0 || c.in.held != nil:
		return nil, nil, ErrHandshakePartial
	}
	unread := append(append([]byte(nil), c.in.buffered()...), c.in.config.Unread...)
	if opener, err = c.in.opener.Export(unread); err != nil {
		return nil, nil, err
	}
	// The Sealer cannot refuse: it is usable, under application keys, and has sealed
	// whole messages only.
	if sealer, err = c.out.sealer.Export(); err != nil {
		panic("record: Sealer exported or changed by someone else")
	}
	c.deadlineLock.Lock()
	c.over.Store(&ErrExported)
	c.deadlineLock.Unlock()
	c.in.close(ErrExported)
	c.out.fail(ErrExported)
	return sealer, opener, nil
}

// Suite returns the suite that both directions use.
func (c *Conn) Suite() *aead.Suite { return c.suite }

// SetDeadline sets both deadlines. A zero time means none.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the transport's read deadline. A read that it ends loses
// nothing and can be repeated.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.deadlineLock.Lock()
	defer c.deadlineLock.Unlock()
	if c.overError() == ErrExported {
		return ErrExported
	}
	return c.transport.SetReadDeadline(t)
}

// SetWriteDeadline sets the transport's write deadline. A write that it ends also
// ends this direction for good. The deadline covers the whole of a call, ReadFrom's
// too; to limit instead how long a call may make no progress, give NewConn a
// transport that sets its deadline in each Write. (A wrapped socket is read as other
// transports are; see [Reader].) When the connection is dead, SetWriteDeadline does
// nothing.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.deadlineLock.Lock()
	defer c.deadlineLock.Unlock()
	if err := c.overError(); err != nil {
		return err
	}
	if c.ending {
		return nil
	}
	return c.transport.SetWriteDeadline(t)
}

// NetConn returns the transport. Reading from it, writing to it or closing it
// breaks the connection.
func (c *Conn) NetConn() net.Conn { return c.transport }

// LocalAddr returns the local address of the transport.
func (c *Conn) LocalAddr() net.Addr { return c.transport.LocalAddr() }

// RemoteAddr returns the remote address of the transport.
func (c *Conn) RemoteAddr() net.Addr { return c.transport.RemoteAddr() }

// overError returns [net.ErrClosed] after Close and [ErrExported] after Export.
func (c *Conn) overError() error {
	if over := c.over.Load(); over != nil {
		return *over
	}
	return nil
}

// readError returns the error of overError instead of err if that is why a read failed.
func (c *Conn) readError(err error) error {
	if over := c.overError(); over != nil && err == c.in.err {
		return over
	}
	return err
}

// unlockRead ends a read. A Close that did not get the lock leaves the keys and the
// buffer to the read that had it.
func (c *Conn) unlockRead() {
	c.readLock.Unlock()
	if c.overError() != nil {
		c.closeRead()
	}
}

// closeRead gives up what belongs to reading, unless a read is under way.
func (c *Conn) closeRead() {
	if c.readLock.TryLock() {
		c.in.close(net.ErrClosed)
		c.readLock.Unlock()
	}
}

// beginWrite takes the write lock.
func (c *Conn) beginWrite() error {
	c.writeLock.lock()
	err := c.overError()
	if err != nil {
		c.endWrite()
	}
	return err
}

// endWrite ends this direction if the connection has failed, and releases the write
// lock.
func (c *Conn) endWrite() {
	c.unlockWrite()
	if c.failure.Load() != nil {
		c.applyFailure() // it may have failed after unlockWrite looked
	}
}

// write runs send, which sends something other than application data, under the write
// lock.
func (c *Conn) write(send func() error) error {
	if err := c.beginWrite(); err != nil {
		return err
	}
	defer c.endWrite()
	if err := c.writable(); err != nil {
		return err
	}
	return c.writeError(send())
}

// writable returns an error if nothing may be sent: in every call the one that came
// first.
func (c *Conn) writable() error {
	if c.out.err != nil {
		return c.writeError(c.out.err)
	}
	return c.ended()
}

// ended returns an error if no more records may be opened or sealed. c is nil for a
// Reader or Writer without a Conn.
func (c *Conn) ended() error {
	if c == nil {
		return nil
	}
	if f := c.failure.Load(); f != nil {
		return f.err
	}
	return c.overError()
}

// peerAlert returns the error alert of the peer, if there was one: then not even
// sealed records may be sent. c is nil for a Writer without a Conn.
func (c *Conn) peerAlert() error {
	if c == nil {
		return nil
	}
	// "Upon receiving an error alert, the TLS implementation [...] MUST NOT allow
	// any further data to be sent or received on the connection." (RFC 9846,
	// Section 6)
	if f := c.failure.Load(); f != nil && !f.send {
		return f.err
	}
	return nil
}

// writeError returns the error of overError instead of err if that is why a write
// failed.
func (c *Conn) writeError(err error) error {
	if over := c.overError(); over != nil && err != nil {
		return over
	}
	return err
}

// callOnAlert calls OnAlert, if there is one.
func (c *Conn) callOnAlert(a Alert, sent bool) {
	if c.hooks.alert != nil {
		c.hooks.alert(a, sent)
	}
}

// handleMessage handles a handshake message that is not a KeyUpdate, under the read
// lock.
func (c *Conn) handleMessage(message []byte) error {
	switch message[0] {
	case typeNewSessionTicket:
		if c.role != RoleClient {
			return ErrUnexpectedMessage
		}
		if c.hooks.message == nil {
			return nil
		}
	case typeCertificateRequest:
		// Only servers send it.
		if c.role != RoleClient {
			return ErrUnexpectedMessage
		}
	case typeCertificate, typeCertificateVerify, typeFinished:
		// After the handshake only clients send them, when they are asked to.
		if c.role != RoleServer {
			return ErrUnexpectedMessage
		}
	case typeClientHello, typeServerHello, typeEndOfEarlyData, typeEncryptedExtensions:
		// "Because TLS 1.3 forbids renegotiation, if a server has negotiated TLS
		// 1.3 and receives a ClientHello at any other time, it MUST terminate the
		// connection with an "unexpected_message" alert." (RFC 9846, Section
		// 4.2.2). "Servers MUST NOT send this message, and clients receiving it
		// MUST terminate the connection with an "unexpected_message" alert."
		// (Section 4.6, about EndOfEarlyData). The others belong to the handshake
		// as well.
		return ErrUnexpectedMessage
	}
	// "A client that receives a post-handshake CertificateRequest message without
	// having sent the "post_handshake_auth" extension MUST send an
	// "unexpected_message" fatal alert." (RFC 9846, Section 4.7.2). A client that has
	// sent the extension has a handler.
	if c.hooks.message == nil {
		return ErrUnexpectedMessage
	}
	return c.hooks.message(c, message)
}

const notMade = "record: Conn not made by NewConn"

// Handshake message types (RFC 9846, Section 4) that matter to a Conn.
const (
	typeNewSessionTicket    = 4
	typeEncryptedExtensions = 8
	typeCertificate         = 11
	typeCertificateRequest  = 13
	typeCertificateVerify   = 15
)
