package cryptotls

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/splitseal/record"
)

func dialRaw(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(waitLimit))
	t.Cleanup(func() { c.Close() })
	return c
}

func acceptOne(t testing.TB, ln net.Listener) outcome {
	t.Helper()
	select {
	case r := <-start(ln.Accept):
		return r
	case <-time.After(waitLimit):
		t.Fatal("Accept waits")
		return outcome{}
	}
}

// pipes is a listener of what is sent to it.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipes"} }

// dial returns the other end of a connection that p accepts.
func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p <- far
	return near
}

// TestSlowPeers: peers that are silent, or stop in the middle, do not make
// others wait, and are given up after the time limit.
func TestSlowPeers(t *testing.T) {
	config, cc, now := serverConfig(), clientConfig(), time.Now()
	cc.Time = func() time.Time { return now } // the bubble's is before the certificate's
	synctest.Test(t, func(t *testing.T) {
		const limit = 3 * time.Second
		inner, failed := make(pipes), make(chan error, 10)
		ln := NewListener(inner, config, &Options{
			HandshakeTimeout: limit,
			HandshakeError:   func(_ net.Conn, err error) { failed <- err },
		})
		defer ln.Close()
		accepted := start(ln.Accept)
		begin := time.Now()
		var slow []net.Conn
		for i := range 7 {
			c := inner.dial()
			if i > 0 { // an empty write is read, too
				c.Write([]byte{22, 3, 1, 2, 0, 1}[:i])
			}
			slow = append(slow, c)
		}
		raw := inner.dial()
		client, err := goClient(cc)(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		r := <-accepted
		if r.err != nil {
			t.Fatal(r.err)
		}
		exchange(t, client, r.conn)
		if d := time.Since(begin); d != 0 {
			t.Errorf("slow peers make another one wait %v", d)
		}
		raw.Close()
		r.conn.Close()
		for _, c := range slow {
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("slow peer: %v", err)
			}
			wantError(t, <-failed, context.DeadlineExceeded)
		}
		if d := time.Since(begin); d != limit {
			t.Errorf("slow peers are given up after %v", d)
		}
	})
}

// TestMaxHandshakes counts how many connections are in their handshake.
func TestMaxHandshakes(t *testing.T) {
	config := serverConfig()
	var running, most atomic.Int32
	gate := make(chan struct{})
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		n := running.Add(1)
		for {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		<-gate
		running.Add(-1)
		return nil, nil
	}
	ln := NewListener(listen(t), config, &Options{MaxHandshakes: 3})
	defer ln.Close()
	var clients []<-chan outcome
	for range 8 {
		clients = append(clients, start(func() (net.Conn, error) {
			return goClient(clientConfig())(testContext(t), dialRaw(t, ln))
		}))
	}
	accepted := start(ln.Accept)
	for end := time.Now().Add(waitLimit); running.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("handshakes do not begin")
		}
	}
	time.Sleep(50 * time.Millisecond) // more would begin now
	close(gate)
	for i := range clients {
		var r outcome
		if i == 0 {
			r = <-accepted
		} else {
			r = acceptOne(t, ln)
		}
		if r.err != nil {
			t.Fatal(r.err)
		}
		defer r.conn.Close()
	}
	for _, c := range clients {
		if r := <-c; r.err != nil {
			t.Error(r.err)
		}
	}
	if most.Load() != 3 {
		t.Errorf("%d handshakes at the same time", most.Load())
	}
}

// TestListenerClose unblocks Accept, ends handshakes and closes what nobody
// accepts.
func TestListenerClose(t *testing.T) {
	inner := listen(t)
	ln := NewListener(inner, serverConfig(), &Options{HandshakeError: func(_ net.Conn, err error) {
		t.Errorf("HandshakeError is told %v", err)
	}})
	if ln.Addr() != inner.Addr() {
		t.Error("another address")
	}
	silent := dialRaw(t, ln)
	done := dialRaw(t, ln)
	accept := start(ln.Accept)
	// Two peers finish, one of them is accepted.
	var peers []outcome
	for _, c := range []net.Conn{dialRaw(t, ln), done} {
		c, err := goClient(clientConfig())(testContext(t), c)
		peers = append(peers, outcome{c, err})
	}
	r := <-accept
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.conn.Close()
	blocked := start(func() (net.Conn, error) {
		for {
			if c, err := ln.Accept(); err != nil {
				return c, err
			}
		}
	})
	time.Sleep(20 * time.Millisecond)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, (<-blocked).err, net.ErrClosed)
	_, err := ln.Accept()
	wantError(t, err, net.ErrClosed)
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "accept" {
		t.Errorf("error is %#v", err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a handshake goes on")
	}
	ln.Close()
	for _, p := range peers {
		if p.err == nil {
			p.conn.Close()
		}
	}
}

// TestFullListenerClose closes a Listener that has no room for another handshake.
func TestFullListenerClose(t *testing.T) {
	ln := NewListener(listen(t), serverConfig(), &Options{MaxHandshakes: 1, HandshakeTimeout: time.Hour})
	blocked := start(ln.Accept)
	silent := dialRaw(t, ln)
	time.Sleep(20 * time.Millisecond)
	ln.Close()
	wantError(t, acceptOne(t, ln).err, net.ErrClosed)
	wantError(t, (<-blocked).err, net.ErrClosed)
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a handshake goes on")
	}
}

// TestUnacceptedIsClosed closes a Listener that has a finished connection.
func TestUnacceptedIsClosed(t *testing.T) {
	ln := NewListener(listen(t), serverConfig(), nil)
	accept := start(ln.Accept)
	first, err := goClient(clientConfig())(testContext(t), dialRaw(t, ln))
	if err != nil {
		t.Fatal(err)
	}
	r := <-accept
	defer r.conn.Close()
	second, err := goClient(clientConfig())(testContext(t), dialRaw(t, ln))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	ln.Close()
	if n, err := second.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read returns %d, %v", n, err)
	}
	first.Close()
}

// TestUnusedListener starts nothing.
func TestUnusedListener(t *testing.T) {
	inner := &acceptor{Listener: listen(t)}
	ln := NewListener(inner, serverConfig(), nil)
	time.Sleep(10 * time.Millisecond)
	if inner.calls.Load() != 0 {
		t.Error("a Listener accepts before Accept")
	}
	ln.Close()
}

// acceptor is a Listener that returns errors first.
type acceptor struct {
	net.Listener
	calls  atomic.Int32
	errors []error
}

func (a *acceptor) Accept() (net.Conn, error) {
	if n := int(a.calls.Add(1)); n <= len(a.errors) {
		return nil, a.errors[n-1]
	}
	return a.Listener.Accept()
}

// TestAcceptErrors passes the inner listener's errors on, each once, so that
// net/http's waiting for temporary ones works.
func TestAcceptErrors(t *testing.T) {
	one, two := errors.New("too many open files"), errors.New("again")
	inner := &acceptor{Listener: listen(t), errors: []error{one, two}}
	ln := NewListener(inner, serverConfig(), &Options{MaxHandshakes: 1}) // an error must not keep its place
	defer ln.Close()
	for _, want := range []error{one, two} {
		wantError(t, acceptOne(t, ln).err, want)
	}
	peer := start(func() (net.Conn, error) { return goClient(clientConfig())(testContext(t), dialRaw(t, ln)) })
	r := acceptOne(t, ln)
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.conn.Close()
	if p := <-peer; p.err == nil {
		p.conn.Close()
	}

	// The inner listener's end is the end.
	inner.Listener.Close()
	for range 2 {
		wantError(t, acceptOne(t, ln).err, net.ErrClosed)
	}
}

// TestPanicInConfig: a panic in a function of the config is reported to
// HandshakeError and costs only its connection.
func TestPanicInConfig(t *testing.T) {
	config := serverConfig()
	first := true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if first {
			first = false
			panic("no config today")
		}
		return nil, nil
	}
	failed := make(chan error, 1)
	ln := NewListener(listen(t), config, &Options{HandshakeError: func(_ net.Conn, err error) { failed <- err }})
	defer ln.Close()
	accept := start(ln.Accept)
	if _, err := goClient(clientConfig())(testContext(t), dialRaw(t, ln)); err == nil {
		t.Error("client has a connection")
	}
	var p *PanicError
	if err := <-failed; !errors.As(err, &p) || p.Value != "no config today" || len(p.Stack) == 0 {
		t.Errorf("error is %v", err)
	}
	c, err := goClient(clientConfig())(testContext(t), dialRaw(t, ln))
	if err != nil {
		t.Fatal(err)
	}
	r := <-accept
	sendReceive(t, c, r.conn, 10)
	c.Close()
	r.conn.Close()
}

// TestListenerProtocols: before Go 1.27, h2 goes, unless it is kept, also from the config
// that GetConfigForClient returns. The user's configs stay as they are.
func TestListenerProtocols(t *testing.T) {
	protocols := []string{"h2", "http/1.1"}
	for _, keep := range []bool{false, true} {
		for _, choose := range []bool{false, true} {
			config, chosen := serverConfig(), serverConfig()
			config.NextProtos, chosen.NextProtos = slices.Clone(protocols), slices.Clone(protocols)
			if choose {
				config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }
			}
			ln := NewListener(listen(t), config, &Options{KeepHTTP2: keep})
			client := clientConfig()
			client.NextProtos = protocols
			accept := start(ln.Accept)
			c, err := goClient(client)(testContext(t), dialRaw(t, ln))
			if err != nil {
				t.Fatal(err)
			}
			r := <-accept
			want := "http/1.1"
			if keep || netHTTPKnowsConn {
				want = "h2"
			}
			if got := r.conn.(*Conn).ConnectionState().NegotiatedProtocol; got != want {
				t.Errorf("keep %v, choose %v: protocol %q", keep, choose, got)
			}
			if !slices.Equal(config.NextProtos, protocols) || !slices.Equal(chosen.NextProtos, protocols) || config.KeyLogWriter != nil {
				t.Error("a config of the user was changed")
			}
			c.Close()
			r.conn.Close()
			ln.Close()
		}
	}
	// Server and Client leave it alone.
	config, client := serverConfig(), clientConfig()
	config.NextProtos, client.NextProtos = protocols, protocols
	c, _ := connect(t, ourClient(client, nil), ourServer(config, nil))
	if got := c.(*Conn).ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("protocol %q", got)
	}
}

// TestDialer looks at server names, time limits and errors.
func TestDialer(t *testing.T) {
	config := serverConfig()
	names := make(chan string, 10)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil
	}
	ln := NewListener(listen(t), config, nil)
	greet(t, ln)
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, tt := range []struct{ name, want string }{{"", "localhost"}, {"server.test", "server.test"}} {
		client := &tls.Config{RootCAs: serverID().pool, ServerName: tt.name, InsecureSkipVerify: tt.name == ""}
		c, err := (&Dialer{Config: client}).Dial("tcp", "localhost:"+port)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-names; got != tt.want {
			t.Errorf("server name %q, want %q", got, tt.want)
		}
		if client.ServerName != tt.name {
			t.Error("the config of the user was changed")
		}
		c.Close()
	}

	silent := listen(t)
	for name, d := range map[string]*Dialer{
		"Timeout":  {NetDialer: &net.Dialer{Timeout: 50 * time.Millisecond}},
		"Deadline": {NetDialer: &net.Dialer{Deadline: time.Now().Add(50 * time.Millisecond)}},
	} {
		if _, err := d.Dial("tcp", silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	silent.Close()
	if _, err := new(Dialer).Dial("tcp", silent.Addr().String()); err == nil {
		t.Error("connected to a closed listener")
	}
}

// onlyWrites is a connection from which nothing can be read.
type onlyWrites struct{ net.Conn }

func (onlyWrites) Read([]byte) (int, error) { return 0, errors.New("no reads") }

// "Whenever an implementation encounters a fatal error condition, it SHOULD send an
// appropriate fatal alert and MUST close the connection without sending or receiving
// any additional data." (RFC 9846, Section 6.2)
//
// TestWrongRecordIsNoPlaintext tells a wrong record behind the ClientHello from a peer
// that does not speak TLS.
func TestWrongRecordIsNoPlaintext(t *testing.T) {
	failed := make(chan error, 1)
	var conn net.Conn
	ln := NewListener(listen(t), serverConfig(), &Options{HandshakeError: func(c net.Conn, err error) { conn = c; failed <- err }})
	accept := start(ln.Accept)
	for _, test := range []struct {
		name      string
		hello     bool
		wire      []byte
		plaintext bool
	}{
		{"a request", false, []byte("GET / HTTP/1.0\r\n\r\n"), true},
		{"a record too long", true, []byte{23, 3, 3, 0xff, 0xff}, false},
		{"a record of another version", true, []byte{23, 2, 0, 0, 100}, false},
	} {
		c := dialRaw(t, ln)
		if test.hello {
			tls.Client(onlyWrites{c}, clientConfig()).Handshake() // sends the ClientHello, and fails
			if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Write(test.wire); err != nil {
			t.Fatal(err)
		}
		err := <-failed
		var re tls.RecordHeaderError
		if !errors.As(err, &re) || (re.Conn != nil) != test.plaintext {
			t.Errorf("%s: %v, Conn %v", test.name, err, re.Conn != nil)
		}
		if test.plaintext && re.Conn != conn {
			t.Errorf("%s: Conn is a %T, not the connection", test.name, re.Conn)
		}
	}
	ln.Close()
	<-accept
}

// TestAnswerPlaintext answers a peer that does not speak TLS, as net/http does.
func TestAnswerPlaintext(t *testing.T) {
	const answer = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
	ln := NewListener(listen(t), serverConfig(), &Options{HandshakeError: func(conn net.Conn, err error) {
		var re tls.RecordHeaderError
		if errors.As(err, &re) && re.Conn != nil && string(re.RecordHeader[:]) == "GET /" {
			io.WriteString(conn, answer)
		}
	}})
	accept := start(ln.Accept)
	c := dialRaw(t, ln)
	io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || string(got) != answer {
		t.Errorf("%q, %v", got, err)
	}
	ln.Close()
	<-accept
}

// TestOptionsRefused: Options with a Sealer that no connection can have are refused at
// once, with the words of record.NewSealer, before anything is read, sent or connected;
// and so are negative limits.
func TestOptionsRefused(t *testing.T) {
	for _, o := range []*Options{
		{Sealer: record.SealerConfig{RecordSizeLimit: 10}},
		{Sealer: record.SealerConfig{RecordSizeLimit: -1}},
		{Sealer: record.SealerConfig{HardLimit: 1}},
		{HandshakeTimeout: -1},
		{MaxHandshakes: -1},
	} {
		want := panicOf(func() { record.NewSealer(o.Sealer) })
		if o.HandshakeTimeout < 0 || o.MaxHandshakes < 0 {
			want = "cryptotls: negative Options.HandshakeTimeout or MaxHandshakes"
		}
		if want == nil {
			t.Fatalf("record.NewSealer takes %+v", o.Sealer)
		}
		c, s := tcpPair(t)
		client, server := &spy{Conn: c}, &spy{Conn: s}
		dialed := false
		dialer := &Dialer{Options: o, NetDialer: &net.Dialer{Control: func(string, string, syscall.RawConn) error {
			dialed = true
			return errors.New("no connection")
		}}}
		for name, f := range map[string]func(){
			"NewListener": func() { NewListener(listen(t), serverConfig(), o) },
			"Server":      func() { Server(testContext(t), server, serverConfig(), o) },
			"Client":      func() { Client(testContext(t), client, clientConfig(), o) },
			"Dial":        func() { dialer.Dial("tcp", "127.0.0.1:1") },
		} {
			// Nobody answers, so whoever begins a handshake waits.
			c.SetDeadline(time.Now().Add(100 * time.Millisecond))
			s.SetDeadline(time.Now().Add(100 * time.Millisecond))
			if got := panicOf(f); got != want {
				t.Errorf("%s, %+v: panic %v, want %v", name, o, got, want)
			}
		}
		if len(client.written)+len(server.written)+client.reads+server.reads != 0 || dialed {
			t.Errorf("%+v: a handshake was begun", o)
		}
	}
}

// "The behavior of Close after the first call is undefined." (the documentation of
// io.Closer)
//
// TestClosedOnce: whatever ends a handshake, the connection is closed, and once.
func TestClosedOnce(t *testing.T) {
	const panics = "not today"
	for _, tt := range []struct {
		name    string
		config  func(*tls.Config)
		options Options
		silent  bool // the peer
	}{
		{name: "time limit", silent: true, options: Options{HandshakeTimeout: 50 * time.Millisecond}},
		{name: "error", config: func(c *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { return errors.New(panics) }
		}},
		{name: "panic", config: func(c *tls.Config) { c.VerifyConnection = func(tls.ConnectionState) error { panic(panics) } }},
		{name: "end of the goroutine", config: func(c *tls.Config) {
			c.VerifyConnection = func(tls.ConnectionState) error { runtime.Goexit(); return nil }
		}},
		{name: "hand-over", options: Options{Record: func(c *record.ConnConfig) { c.Opener.Wipe() }}},
		{name: "panic in Record", options: Options{Record: func(*record.ConnConfig) { panic(panics) }}},
	} {
		config := func(c *tls.Config) *tls.Config {
			if tt.config != nil {
				tt.config(c)
			}
			return c
		}
		peers := func(goPeer side, conn net.Conn) <-chan outcome {
			return start(func() (net.Conn, error) {
				if tt.silent {
					return nil, nil
				}
				c, err := goPeer(testContext(t), conn)
				if err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				return nil, err
			})
		}
		o := tt.options
		for name, side := range map[string]side{
			"Client": ourClient(config(clientConfig()), &o),
			"Server": ourServer(config(serverConfig()), &o),
		} {
			c, s := tcpPair(t)
			mine, theirs, goPeer := c, s, goServer(serverConfig())
			if name == "Server" {
				mine, theirs, goPeer = s, c, goClient(clientConfig())
			}
			wire := &spy{Conn: mine}
			peer := peers(goPeer, theirs)
			ctx, cancel := testContext(t), func() {}
			if tt.silent {
				ctx, cancel = context.WithTimeout(ctx, o.HandshakeTimeout)
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				defer func() { recover() }()
				side(ctx, wire)
			}()
			<-over
			cancel()
			mine.Close()
			<-peer
			if wire.closes != 1 {
				t.Errorf("%s: %s closes the connection %d times", tt.name, name, wire.closes)
			}
		}

		o.HandshakeError = func(net.Conn, error) {}
		inner := &spies{Listener: listen(t)}
		ln := NewListener(inner, config(serverConfig()), &o)
		accept := start(ln.Accept)
		<-peers(goClient(clientConfig()), dialRaw(t, ln))
		for end := time.Now().Add(waitLimit); len(ln.slots) != 1 || inner.closes() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: a connection stays open, or a slot taken", tt.name)
				break
			}
		}
		ln.Close()
		if r := <-accept; !errors.Is(r.err, net.ErrClosed) {
			t.Errorf("%s: Accept returns %v", tt.name, r.err)
		}
		if n := inner.closes(); n != 1 {
			t.Errorf("%s: a Listener closes the connection %d times", tt.name, n)
		}
	}
}

// spies is a Listener whose last connection is a spy.
type spies struct {
	net.Listener
	last atomic.Pointer[spy]
}

func (s *spies) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	last := &spy{Conn: c}
	s.last.Store(last)
	return last, nil
}

func (s *spies) closes() int {
	c := s.last.Load()
	if c == nil {
		return 0
	}
	c.Lock()
	defer c.Unlock()
	return c.closes
}
