package cryptotls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// DefaultHandshakeTimeout is how long a [Listener] lets a handshake take.
	DefaultHandshakeTimeout = 10 * time.Second

	// DefaultMaxHandshakes is how many connections of a [Listener] may be in their
	// handshake at the same time. A connection that waits for its peer costs about 20
	// kB. A peer that never ends a message can make that 150 kB, or 420 kB with a
	// Certificate message, asked for or not: crypto/tls joins messages of up to 64
	// KiB, Certificate messages of up to 256 KiB, in a buffer that grows. This
	// package adds some 10 kB.
	DefaultMaxHandshakes = 4096
)

// Listener is a [net.Listener] of connections whose handshake is done. Each handshake
// has its own goroutine and a time limit, so that no peer makes another wait.
//
// The first call of Accept starts it: no connection is accepted before that.
// Handshakes go on between calls, as far as [Options.MaxHandshakes] allows.
//
// All methods may be called concurrently.
type Listener struct {
	inner   net.Listener
	config  *tls.Config
	o       Options
	timeout time.Duration

	start   sync.Once
	slots   chan struct{} // holds one element for each handshake
	results chan result
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

type result struct {
	conn net.Conn
	err  error
}

// PanicError tells [Options.HandshakeError] of a panic in a function of the config,
// such as GetCertificate, or in Options.Record. In the first case the peer sees the
// connection end without an alert, as under crypto/tls.
type PanicError struct {
	Value any    // what was given to panic
	Stack []byte // of the goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("cryptotls: panic in handshake: %v", e.Value) }

// NewListener returns a Listener that does the server's handshake on each
// connection that inner accepts, as [Server] does. Accept returns a [*Conn], or a
// [*tls.Conn] as [Options] say. o may be nil.
//
// net/http serves HTTP/1.1 over it with no other change, and from Go 1.27 on HTTP/2. It
// differs from a listener of [tls.NewListener] in this:
//
//   - Before Go 1.27, "h2" is removed from the NextProtos of config, and of what its
//     GetConfigForClient returns, because net/http by itself speaks HTTP/2 only
//     over a [*tls.Conn]. ExampleOptions_keepHTTP2 serves both with [Options.KeepHTTP2].
//     From Go 1.27 on "h2" stays, so that config must not have it if the http.Server
//     does not speak HTTP/2, because of its Protocols for instance: clients that ask
//     for it fail then, as with tls.NewListener.
//   - Clients without TLS 1.3 are refused, unless [Options.AllowTLS12] is set.
//   - Handshakes are over before Accept, so the http.Server neither writes their
//     failures to its ErrorLog nor recovers a panic in a function of config. Both
//     go to [Options.HandshakeError]; without it, failures are dropped and a panic
//     ends the program.
//   - HTTP without TLS is not answered with status 400; the connection is closed.
//     HandshakeError may answer.
//   - A handshake is limited by [Options.HandshakeTimeout], whatever the timeouts of
//     the http.Server, whose ConnContext and ConnState see a connection only once its
//     handshake is over. At most [Options.MaxHandshakes] run at a time: that many
//     silent peers keep others waiting.
//   - A connection that ends without close_notify is [io.ErrUnexpectedEOF], after a
//     whole record too. net/http answers that with status 400 if it is waiting for the
//     first request. It is io.EOF, as with crypto/tls, if [Options.Record] sets
//     AcceptTruncation.
//   - A handler that copies to its ResponseWriter uses ReadFrom, as over plain TCP:
//     net/http then does not notice if that exceeds the Content-Length it has set.
//   - Writing a response of more than 16 KiB holds 72 KiB while the client does not
//     take it, four times what crypto/tls holds. WriteTimeout limits how long.
//
// It panics if config is nil, and as [record.NewSealer] does for [Options.Sealer].
func NewListener(inner net.Listener, config *tls.Config, o *Options) *Listener {
	if config == nil {
		panic(nilConfigText)
	}
	l := &Listener{
		inner: inner, config: config, o: *o.checked(),
		timeout: DefaultHandshakeTimeout, results: make(chan result),
	}
	if l.o.HandshakeTimeout > 0 {
		l.timeout = l.o.HandshakeTimeout
	}
	slots := DefaultMaxHandshakes
	if l.o.MaxHandshakes > 0 {
		slots = l.o.MaxHandshakes
	}
	l.slots = make(chan struct{}, slots)
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// Accept waits for a connection whose handshake is done. An error of the inner
// listener's Accept is returned once for each time that it occurs; one that
// wraps [net.ErrClosed] ends the Listener.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.serve() })
	if l.ctx.Err() != nil {
		return nil, context.Cause(l.ctx)
	}
	select {
	case r := <-l.results:
		return r.conn, r.err
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Close closes the inner listener. Connections in their handshake, and those that no
// Accept has returned, are closed.
func (l *Listener) Close() error {
	err := l.inner.Close()
	l.cancel(&net.OpError{Op: "accept", Net: l.Addr().Network(), Addr: l.Addr(), Err: net.ErrClosed})
	return err
}

// Addr returns the address of the inner listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// serve accepts connections until the Listener or the inner one is closed.
func (l *Listener) serve() {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		conn, err := l.inner.Accept()
		if err == nil {
			go l.handshake(conn)
			continue
		}
		<-l.slots
		if errors.Is(err, net.ErrClosed) {
			l.cancel(err)
			return
		}
		l.deliver(result{err: err})
	}
}

// handshake runs in its own goroutine and gives up its slot when conn has been
// delivered or closed.
func (l *Listener) handshake(conn net.Conn) {
	defer func() { <-l.slots }()
	t := newTransport(conn, false)
	var c net.Conn
	defer t.closeUnless(&c)
	c, err := l.recoverHandshake(t)
	if err != nil {
		if l.o.HandshakeError != nil && l.ctx.Err() == nil {
			l.o.HandshakeError(conn, err)
		}
		return
	}
	if !l.deliver(result{conn: c}) {
		c.Close()
	}
}

func (l *Listener) recoverHandshake(t *transport) (c net.Conn, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	if l.o.HandshakeError != nil {
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
	}
	return l.o.server(ctx, t, l.config, l.o.KeepHTTP2 || netHTTPKnowsConn)
}

// deliver waits until an Accept takes r. It reports false if none will.
func (l *Listener) deliver(r result) bool {
	select {
	case l.results <- r:
		return true
	case <-l.ctx.Done():
		return false
	}
}
