package cryptotls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"example.com/splitseal/record"
)

// ErrVersion says that the handshake failed because the two sides have no version of
// TLS in common that [Options] allow. The error of crypto/tls is wrapped beside it.
var ErrVersion = errors.New("cryptotls: no common TLS version that is allowed")

// Options says how connections are taken over. The zero value and nil are ready
// for use. Options must not be changed while they are in use.
type Options struct {
	// AllowTLS12 leaves connections with peers that do not speak TLS 1.3 to
	// crypto/tls, as far as the config allows older versions: Client, Server, Accept
	// and Dial then return a [*tls.Conn]. Its NetConn does not return the connection
	// that was passed, but one whose NetConn returns that, and whose SyscallConn is
	// that connection's, or fails with [errors.ErrUnsupported]. Without AllowTLS12
	// such peers are refused during the handshake.
	AllowTLS12 bool

	// KeepHTTP2 keeps "h2" in the NextProtos of a [Listener]'s config. From Go 1.27 on
	// it always stays there. Before, it is removed, because net/http's Server looks at
	// NegotiatedProtocol only if a connection is a [*tls.Conn]; KeepHTTP2 is for
	// servers that look at it themselves. If nothing else is changed, net/http then
	// answers HTTP/2 with HTTP/1.1: requests fail, in Go's client because a frame
	// "looked like an HTTP/1.1 header". ExampleOptions_keepHTTP2 makes it speak
	// HTTP/2, and gives clients ten seconds to begin.
	KeepHTTP2 bool

	// HandshakeTimeout is how long a [Listener] lets a handshake take. Zero means
	// [DefaultHandshakeTimeout]; every function that takes Options panics if it is
	// negative.
	HandshakeTimeout time.Duration

	// MaxHandshakes is how many connections of a [Listener] may be in their
	// handshake, or waiting for Accept after it, at the same time. Zero means
	// [DefaultMaxHandshakes], which says what each of them can cost; every function that
	// takes Options panics if it is negative.
	MaxHandshakes int

	// HandshakeError is called for each connection of a [Listener] whose handshake
	// failed, before the listener closes the connection; if the time limit has ended
	// the handshake, the connection is closed already. It runs in the goroutine of
	// that handshake, so several calls may run at once. A [tls.RecordHeaderError]
	// whose Conn is not nil is about a peer that does not speak TLS at all, which may
	// be answered over conn; one whose Conn is nil is about a later record, after
	// whose alert nothing may be sent. An err that wraps a [*PanicError] reports a
	// panic in a function of the config or of these Options; without HandshakeError
	// such a panic is not recovered, and ends the program.
	//
	// Failures are reported nowhere else. net/http's Server logs and answers failed
	// handshakes of crypto/tls, because it does them itself; it does not see these.
	// ExampleOptions_handshakeError logs and answers as it would.
	HandshakeError func(conn net.Conn, err error)

	// NewSessionTicket is given each NewSessionTicket message of the server, its
	// header of four bytes included, that crypto/tls was not given or did not take:
	// those after the first application data or KeyUpdate, and all of them if the
	// config has no ClientSessionCache. crypto/tls cannot resume with them. It runs
	// inside a Read; the message is valid only during the call.
	NewSessionTicket func(message []byte)

	// Sealer is the configuration of the write state: padding and limits. All
	// connections call its Padding, possibly concurrently. Every function that takes
	// Options panics where [record.NewSealer] would, before it does anything else.
	Sealer record.SealerConfig

	// Record, if not nil, is given the configuration of each connection before
	// [record.NewConn] is, to set what this package leaves alone. Role, Sealer,
	// Opener and Unread must stay as they are, and if HandleMessage is set, a
	// function that replaces it must call it.
	Record func(config *record.ConnConfig)
}

// Conn is a connection whose handshake crypto/tls has done. All its methods except
// ConnectionState and NetConn are those of [record.Conn].
type Conn struct {
	*record.Conn
	transport net.Conn
	state     tls.ConnectionState
}

// ConnectionState returns what crypto/tls negotiated. net/http uses it for
// Request.TLS. It may be called concurrently with all other methods.
func (c *Conn) ConnectionState() tls.ConnectionState { return c.state }

// NetConn returns the connection that was given to [Client] or [Server]. Reading,
// writing or closing it breaks the TLS connection.
func (c *Conn) NetConn() net.Conn { return c.transport }

// Client does a client's handshake over conn and takes the connection over. The
// result is a [*Conn], or a [*tls.Conn] as [Options] say. o may be nil.
//
// If ctx ends before the handshake is done, the handshake ends with ctx's error;
// afterwards ctx has no influence. conn belongs to the result; if there is none, conn
// has been closed, even if a function of the config or of Options has panicked.
//
// Errors are those of [tls.Conn.HandshakeContext], [ErrVersion] and [ErrHandover]. It
// panics as [record.NewSealer] does for [Options.Sealer].
//
// A session is stored in the config's ClientSessionCache when its ticket is read,
// which happens in a Read of the connection before there is application data; a
// connection that is never read stores none. Until there is application data the
// connection keeps crypto/tls's state in memory.
func Client(ctx context.Context, conn net.Conn, config *tls.Config, o *Options) (c net.Conn, err error) {
	o = o.checked()
	t := newTransport(conn, true)
	defer t.closeUnless(&c)
	cfg := o.clientConfig(config, t)
	return o.handshake(ctx, t, tls.Client(t, cfg), cfg, true)
}

// Server does a server's handshake over conn and takes the connection over. The
// result is a [*Conn], or a [*tls.Conn] as [Options] say. o may be nil.
//
// config stays in use while the handshake runs and holds the session ticket
// keys, so all connections of a server are given the same one. The functions in
// it see conn as the connection, as they do under crypto/tls.
//
// ctx, conn, errors and panics are as for [Client]. Server also panics if config is
// nil.
func Server(ctx context.Context, conn net.Conn, config *tls.Config, o *Options) (c net.Conn, err error) {
	o = o.checked()
	if config == nil {
		panic(nilConfigText)
	}
	t := newTransport(conn, false)
	defer t.closeUnless(&c)
	return o.server(ctx, t, config, true)
}

// checked returns o, or zero Options for nil. It panics if no connection could be
// made with them; after the handshake it would be too late, and happen for each peer
// anew.
func (o *Options) checked() *Options {
	if o == nil {
		return new(Options)
	}
	if o.HandshakeTimeout < 0 || o.MaxHandshakes < 0 {
		panic("cryptotls: negative Options.HandshakeTimeout or MaxHandshakes")
	}
	record.NewSealer(o.Sealer)
	return o
}

// server is Server over t, which it does not close.
func (o *Options) server(ctx context.Context, t *transport, config *tls.Config, keepHTTP2 bool) (net.Conn, error) {
	c := o.serverConfig(config, t, keepHTTP2)
	return o.handshake(ctx, t, tls.Server(t, c), c, false)
}

// handshake does the handshake of tc over t and takes the connection over. It
// does not close the connection on an error.
func (o *Options) handshake(ctx context.Context, t *transport, tc *tls.Conn, config *tls.Config, client bool) (net.Conn, error) {
	defer t.wipe()
	// On a server crypto/tls tells the client so, unless GetConfigForClient has
	// another config for it.
	if client && !o.AllowTLS12 && config.MaxVersion != 0 && config.MaxVersion < tls.VersionTLS13 {
		return nil, fmt.Errorf("%w: MaxVersion excludes TLS 1.3", ErrVersion)
	}
	if err := tc.HandshakeContext(ctx); err != nil {
		if re, ok := err.(tls.RecordHeaderError); ok && re.Conn != nil {
			re.Conn = t.conn
			return nil, re
		}
		if t.refusedVersion() {
			err = fmt.Errorf("%w: %w", ErrVersion, err)
		}
		return nil, err
	}
	state := tc.ConnectionState()
	if state.Version < tls.VersionTLS13 {
		t.end(phasePassing)
		return tc, nil
	}
	return o.takeOver(t, tc, config, state, client)
}

// takeOver makes the connection that follows tc. If there is none, or the user's
// Record panics, it tells the peer and leaves no keys.
func (o *Options) takeOver(t *transport, tc *tls.Conn, config *tls.Config, state tls.ConnectionState, client bool) (_ net.Conn, err error) {
	phase, storesTickets := phaseOver, client && config.ClientSessionCache != nil && !config.SessionTicketsDisabled
	if storesTickets {
		phase = phaseTickets
	}
	conn := &Conn{transport: t.conn, state: state}
	sealer, opener, err := t.handOver(o.Sealer, state.CipherSuite)
	defer func() {
		if conn.Conn != nil {
			return
		}
		t.end(phaseOver) // before anything is sealed under the keys that tc has too
		if opener != nil {
			opener.Wipe()
		}
		if sealer != nil {
			t.sendAlert(sealer, err) // may run the caller's padding function
		}
	}()
	if err != nil {
		return nil, err
	}
	cfg := record.ConnConfig{Role: record.RoleServer, Sealer: sealer, Opener: opener, Unread: t.end(phase)}
	transport := t.conn
	if client {
		h := &ticketHandler{callback: o.NewSessionTicket}
		if storesTickets {
			h.cache = newTicketCache(t, tc, opener, cfg.Unread)
			transport = h.cache
		}
		cfg.Role, cfg.HandleMessage = record.RoleClient, h.handle
	}
	if o.Record != nil {
		o.Record(&cfg)
	}
	conn.Conn, err = record.NewConn(transport, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHandover, err)
	}
	return conn, nil
}

// clientConfig returns the config of one connection.
func (o *Options) clientConfig(config *tls.Config, t *transport) *tls.Config {
	if config == nil {
		config = new(tls.Config)
	}
	c := o.connConfig(config, t)
	if cache := config.ClientSessionCache; cache != nil {
		c.ClientSessionCache = countingCache{cache, &t.stored}
	}
	return c
}

// serverConfig returns the config of one connection.
func (o *Options) serverConfig(config *tls.Config, t *transport, keepHTTP2 bool) *tls.Config {
	// Whatever its arguments, DecryptTicket needs the config's ticket keys, so
	// this is where crypto/tls makes them, or makes new ones if they are too
	// old. They stay in config and the clone shares them.
	if !config.SessionTicketsDisabled {
		config.DecryptTicket(nil, tls.ConnectionState{})
	}
	c := o.serverConnConfig(config, t, keepHTTP2)
	if get := config.GetConfigForClient; get != nil {
		// "If SessionTicketKey was explicitly set on the returned Config, or if
		// SetSessionTicketKeys was called on the returned Config, those keys
		// will be used. Otherwise, the original Config keys will be used" (the
		// documentation of tls.Config): those of c.
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			config, err := get(t.hello(hello))
			if err != nil || config == nil {
				return config, err
			}
			return o.serverConnConfig(config, t, keepHTTP2), nil
		}
	}
	return c
}

// serverConnConfig returns a clone of config whose functions see the connection
// that the user passed.
func (o *Options) serverConnConfig(config *tls.Config, t *transport, keepHTTP2 bool) *tls.Config {
	c := o.connConfig(config, t)
	if get := config.GetCertificate; get != nil {
		c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return get(t.hello(hello))
		}
	}
	if get := config.GetEncryptedClientHelloKeys; get != nil {
		c.GetEncryptedClientHelloKeys = func(hello *tls.ClientHelloInfo) ([]tls.EncryptedClientHelloKey, error) {
			return get(t.hello(hello))
		}
	}
	if !keepHTTP2 {
		c.NextProtos = slices.DeleteFunc(slices.Clone(config.NextProtos), func(p string) bool { return p == "h2" })
	}
	return c
}

// connConfig returns a clone of config with the key log hook.
func (o *Options) connConfig(config *tls.Config, t *transport) *tls.Config {
	c := config.Clone()
	c.KeyLogWriter = &keyLogWriter{log: &t.log, next: config.KeyLogWriter}
	if !o.AllowTLS12 {
		// The peer is told so by an alert of the handshake.
		c.MinVersion = tls.VersionTLS13
	}
	return c
}

// hello returns a copy of hello that shows the connection that the user passed.
func (t *transport) hello(hello *tls.ClientHelloInfo) *tls.ClientHelloInfo {
	h := *hello
	h.Conn = t.conn
	return &h
}

const nilConfigText = "cryptotls: nil config"
