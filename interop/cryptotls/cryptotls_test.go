package cryptotls

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// variants are configs that lead to different handshakes.
var variants = []struct {
	name    string
	prepare func(client, server *tls.Config)
	check   func(t *testing.T, client, server tls.ConnectionState)
}{
	{name: "plain"},
	{
		name:    "tickets",
		prepare: func(client, _ *tls.Config) { client.ClientSessionCache = tls.NewLRUClientSessionCache(1) },
	},
	{
		name: "no tickets",
		prepare: func(client, server *tls.Config) {
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			server.SessionTicketsDisabled = true
		},
	},
	{
		name: "ALPN and SNI",
		prepare: func(client, server *tls.Config) {
			client.NextProtos = []string{"two", "one"}
			server.NextProtos = []string{"one", "three"}
		},
		check: func(t *testing.T, client, server tls.ConnectionState) {
			for _, s := range []tls.ConnectionState{client, server} {
				if s.NegotiatedProtocol != "one" || s.ServerName != "server.test" {
					t.Errorf("protocol %q, server name %q", s.NegotiatedProtocol, s.ServerName)
				}
			}
		},
	},
	{
		name: "HelloRetryRequest",
		prepare: func(client, server *tls.Config) {
			client.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384}
			server.CurvePreferences = []tls.CurveID{tls.CurveP384}
		},
		check: func(t *testing.T, client, server tls.ConnectionState) {
			if !client.HelloRetryRequest || !server.HelloRetryRequest {
				t.Error("there was no HelloRetryRequest")
			}
		},
	},
	{
		name: "client certificate",
		prepare: func(client, server *tls.Config) {
			client.Certificates = []tls.Certificate{clientID().cert}
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			server.ClientAuth = tls.RequireAndVerifyClientCert
			server.ClientCAs = clientID().pool
		},
		check: func(t *testing.T, _, server tls.ConnectionState) {
			if len(server.VerifiedChains) != 1 || server.PeerCertificates[0].Subject.CommonName != "client.test" {
				t.Error("the server has no verified client certificate")
			}
		},
	},
	{
		name:    "client certificate refused to give",
		prepare: func(_, server *tls.Config) { server.ClientAuth = tls.RequestClientCert },
	},
	{
		name: "HelloRetryRequest and client certificate, no tickets",
		prepare: func(client, server *tls.Config) {
			client.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
			server.CurvePreferences = []tls.CurveID{tls.CurveP256}
			client.Certificates = []tls.Certificate{clientID().cert}
			server.ClientAuth = tls.RequireAnyClientCert
			server.SessionTicketsDisabled = true
		},
	},
}

// TestHandOver connects this package with crypto/tls and with itself, in many
// handshakes, and exchanges data and close_notify.
func TestHandOver(t *testing.T) {
	for _, v := range variants {
		for _, pair := range []struct {
			name   string
			client func(*tls.Config) side
			server func(*tls.Config) side
		}{
			{"client", func(c *tls.Config) side { return ourClient(c, nil) }, goServer},
			{"server", goClient, func(c *tls.Config) side { return ourServer(c, nil) }},
			{
				"both",
				func(c *tls.Config) side { return ourClient(c, nil) },
				func(c *tls.Config) side { return ourServer(c, nil) },
			},
		} {
			t.Run(v.name+"/"+pair.name, func(t *testing.T) {
				t.Parallel()
				cc, sc := clientConfig(), serverConfig()
				if v.prepare != nil {
					v.prepare(cc, sc)
				}
				c, s := connect(t, pair.client(cc), pair.server(sc))
				cs, ss := c.(stater).ConnectionState(), s.(stater).ConnectionState()
				if cs.Version != tls.VersionTLS13 || cs.CipherSuite != ss.CipherSuite || !ss.HandshakeComplete {
					t.Errorf("client state %+v, server state %+v", cs, ss)
				}
				if v.check != nil {
					v.check(t, cs, ss)
				}
				ck, err := cs.ExportKeyingMaterial("label", nil, 20)
				if err != nil {
					t.Fatal(err)
				}
				if sk, err := ss.ExportKeyingMaterial("label", nil, 20); err != nil || !bytes.Equal(ck, sk) {
					t.Errorf("exported keying material differs (%v)", err)
				}
				exchange(t, c, s)
				closeBoth(t, c, s)
			})
		}
	}
}

type stater interface{ ConnectionState() tls.ConnectionState }

// TestHandOverByByte delivers every byte by itself.
func TestHandOverByByte(t *testing.T) {
	c, s := tcpPair(t)
	cc, sc := connectOver(t, drip{c}, ourClient(clientConfig(), nil), drip{s}, ourServer(serverConfig(), nil))
	sendReceive(t, cc, sc, 100)
	sendReceive(t, sc, cc, 20_000)
	closeBoth(t, cc, sc)
}

// TestSequenceNumbers checks the sequence numbers that were found, which
// differ with what crypto/tls sends under the application keys: no ticket, one,
// or one so large that it takes several records.
func TestSequenceNumbers(t *testing.T) {
	large := bytes.Repeat([]byte{1}, 40_000)
	for _, tt := range []struct {
		name    string
		prepare func(*tls.Config)
		seq     uint64
	}{
		{"no ticket", func(c *tls.Config) { c.SessionTicketsDisabled = true }, 0},
		{"ticket", func(*tls.Config) {}, 1},
		{"ticket behind client certificate", func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }, 1},
		{"ticket of three records", func(c *tls.Config) {
			c.WrapSession = func(tls.ConnectionState, *tls.SessionState) ([]byte, error) { return large, nil }
		}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := serverConfig()
			tt.prepare(config)
			o, sealer := seqs(Options{Sealer: record.SealerConfig{Padding: record.PadToMultiple(64)}})
			c, s := connect(t, goClient(ticketConfig()), ourServer(config, o))
			if got := sealer().Seq(); got != tt.seq {
				t.Errorf("server's sequence number is %d, want %d", got, tt.seq)
			}
			exchange(t, c, s)

			// Limits are for what follows, not for what crypto/tls has sealed.
			c, s = connect(t, goClient(ticketConfig()), ourServer(config, &Options{
				Sealer: record.SealerConfig{RecordSizeLimit: 64, SoftLimit: 2},
			}))
			sendReceive(t, s, c, 1000)
			sendReceive(t, c, s, 1000)

			o, sealer = seqs(Options{})
			c, s = connect(t, ourClient(ticketConfig(), o), goServer(config))
			if got := sealer().Seq(); got != 0 {
				t.Errorf("client's sequence number is %d, want 0", got)
			}
			exchange(t, c, s)
		})
	}
}

// TestDataBehindFinished sends application data, a KeyUpdate, more data and
// close_notify in the segment that holds the peer's Finished. crypto/tls must
// have taken none of it.
func TestDataBehindFinished(t *testing.T) {
	send := func(t *testing.T, c net.Conn) (want []byte) {
		for i := range 5 {
			p := bytes.Repeat([]byte{byte(i)}, 1+i*1000)
			if _, err := c.Write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
			if i%2 == 1 {
				if err := c.(*Conn).KeyUpdate(i == 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.(*Conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		return want
	}
	t.Run("client sends", func(t *testing.T) {
		c, s := tcpPair(t)
		// The client's second write is its Finished.
		h := &hold{Conn: c, until: func(n int) bool { return n == 2 }}
		done := start(func() (net.Conn, error) { return Server(testContext(t), s, serverConfig(), nil) })
		cc, err := Client(testContext(t), h, clientConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := send(t, cc)
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		r := <-done
		if r.err != nil {
			t.Fatal(r.err)
		}
		got, err := io.ReadAll(r.conn)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(want))
		}
		sendReceive(t, r.conn, cc, 1000)
		cc.Close()
		r.conn.Close()
	})
	t.Run("server sends", func(t *testing.T) {
		// A server's ticket is in the flight that its Finished ends, and the client
		// reads the flight at once.
		c, s := tcpPair(t)
		o := &Options{Record: func(cfg *record.ConnConfig) {
			if len(cfg.Unread) == 0 {
				t.Error("nothing was read behind the server's Finished")
			}
		}}
		cc, sc := connectOver(t, &slow{c}, ourClient(ticketConfig(), o), s, ourServer(serverConfig(), nil))
		want := send(t, sc)
		got, err := io.ReadAll(cc)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(want))
		}
	})
}

// slow is a connection whose reads wait until more has come.
type slow struct{ net.Conn }

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	return s.Conn.Read(p)
}

// TestAbandonedConn calls everything on the tls.Conn that was left behind. Its
// Close would seal an alert at a sequence number that the Sealer uses, under the
// same key: none of it may reach the wire, or the connection at all.
func TestAbandonedConn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client bool
		cache  tls.ClientSessionCache
	}{
		{"server", false, nil},
		{"client", true, nil},
		{"client that waits for tickets", true, tls.NewLRUClientSessionCache(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := tcpPair(t)
			mine, theirs := c, s
			if !tt.client {
				mine, theirs = s, c
			}
			peer := start(func() (net.Conn, error) {
				if tt.client {
					return goServer(serverConfig())(testContext(t), theirs)
				}
				return goClient(clientConfig())(testContext(t), theirs)
			})
			wire := &spy{Conn: mine}
			tr := newTransport(wire, tt.client)
			o := new(Options)
			var config *tls.Config
			var abandoned *tls.Conn
			if tt.client {
				user := clientConfig()
				user.ClientSessionCache = tt.cache
				config = o.clientConfig(user, tr)
				abandoned = tls.Client(tr, config)
			} else {
				config = o.serverConfig(serverConfig(), tr, true)
				abandoned = tls.Server(tr, config)
			}
			streams := []*stream{tr.sent, tr.received}
			conn, err := o.handshake(testContext(t), tr, abandoned, config, tt.client)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if r := <-peer; r.err != nil {
				t.Fatal(r.err)
			}

			*wire = spy{Conn: mine}
			if n, err := abandoned.Write([]byte("stray")); n != 0 || err == nil {
				t.Errorf("Write on the abandoned connection: %d, %v", n, err)
			}
			if err := abandoned.CloseWrite(); err == nil {
				t.Error("CloseWrite on the abandoned connection succeeds")
			}
			if n, err := abandoned.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read on the abandoned connection: %d, %v", n, err)
			}
			abandoned.SetDeadline(time.Unix(1, 0))
			abandoned.SetReadDeadline(time.Unix(1, 0))
			abandoned.SetWriteDeadline(time.Unix(1, 0))
			if err := abandoned.Close(); err == nil {
				t.Error("Close on the abandoned connection claims to have closed it")
			}
			if len(wire.written) != 0 || wire.reads != 0 || wire.closes != 0 || wire.deadlines != 0 {
				t.Errorf("the abandoned connection reached the wire: %d bytes, %d reads, %d closes, %d deadlines",
					len(wire.written), wire.reads, wire.closes, wire.deadlines)
			}
			// For good: the transport refuses by itself, too.
			if _, err := tr.Write([]byte{1}); err == nil {
				t.Error("the transport takes writes")
			}
			if tr.sent != nil || tr.received != nil || tr.log != (keyLog{}) {
				t.Error("secrets or records of the handshake were kept")
			}
			for i, s := range streams {
				if s.opener.Suite() != nil || s.opener.Err() != record.ErrClosed || s.buf != nil || s.sealed != nil {
					t.Errorf("keys or records of stream %d were kept", i)
				}
			}
		})
	}
}

// TestAbandonedConnRace writes and closes the abandoned connection while the
// connection that replaced it is in use, for the race detector.
func TestAbandonedConnRace(t *testing.T) {
	c, s := tcpPair(t)
	tr := newTransport(s, false)
	o := new(Options)
	config := o.serverConfig(serverConfig(), tr, true)
	abandoned := tls.Server(tr, config)
	peer := start(func() (net.Conn, error) { return goClient(clientConfig())(testContext(t), c) })
	conn, err := o.handshake(testContext(t), tr, abandoned, config, false)
	if err != nil {
		t.Fatal(err)
	}
	r := <-peer
	if r.err != nil {
		t.Fatal(r.err)
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for range 100 {
			abandoned.Write([]byte("stray"))
			abandoned.CloseWrite()
			abandoned.Close()
		}
	}()
	exchange(t, conn, r.conn)
	<-stop
	closeBoth(t, conn, r.conn)
}

// TestVersion refuses a TLS 1.2 peer during the handshake, with the alert for it,
// or leaves it to crypto/tls.
func TestVersion(t *testing.T) {
	old := func(c *tls.Config) *tls.Config { c.MaxVersion = tls.VersionTLS12; return c }
	t.Run("server refuses", func(t *testing.T) {
		c, s := tcpPair(t)
		peer := start(func() (net.Conn, error) { return goClient(old(clientConfig()))(testContext(t), c) })
		_, err := Server(testContext(t), s, serverConfig(), nil)
		wantError(t, err, ErrVersion)
		if r := <-peer; r.err == nil || !strings.Contains(r.err.Error(), "protocol version not supported") {
			t.Errorf("client's error is %v", r.err)
		}
	})
	t.Run("client refuses", func(t *testing.T) {
		c, s := tcpPair(t)
		peer := start(func() (net.Conn, error) { return goServer(old(serverConfig()))(testContext(t), s) })
		_, err := Client(testContext(t), c, clientConfig(), nil)
		wantError(t, err, ErrVersion)
		if r := <-peer; r.err == nil {
			t.Error("the server has a connection")
		}
	})
	t.Run("GetConfigForClient cannot lower it", func(t *testing.T) {
		config := serverConfig()
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return serverConfig(), nil }
		c, s := tcpPair(t)
		peer := start(func() (net.Conn, error) { return goClient(old(clientConfig()))(testContext(t), c) })
		_, err := Server(testContext(t), s, config, nil)
		wantError(t, err, ErrVersion)
		<-peer
	})
	t.Run("config excludes", func(t *testing.T) {
		c, _ := tcpPair(t)
		_, err := Client(testContext(t), c, old(clientConfig()), nil)
		wantError(t, err, ErrVersion)

		c, s := tcpPair(t)
		peer := start(func() (net.Conn, error) { return goClient(clientConfig())(testContext(t), c) })
		_, err = Server(testContext(t), s, old(serverConfig()), nil)
		wantError(t, err, ErrVersion)
		if r := <-peer; r.err == nil || !strings.Contains(r.err.Error(), "protocol version not supported") {
			t.Errorf("client's error is %v", r.err)
		}
	})
	t.Run("config names TLS 1.3", func(t *testing.T) {
		cc, sc := clientConfig(), serverConfig()
		cc.MaxVersion, sc.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
		c, s := connect(t, ourClient(cc, nil), ourServer(sc, nil))
		exchange(t, c, s)
	})
	t.Run("GetConfigForClient can raise it", func(t *testing.T) {
		config := old(serverConfig())
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return serverConfig(), nil }
		c, s := connect(t, goClient(clientConfig()), ourServer(config, nil))
		exchange(t, c, s)
	})
	allow := &Options{AllowTLS12: true}
	t.Run("server allows", func(t *testing.T) {
		c, s := connect(t, goClient(old(clientConfig())), ourServer(serverConfig(), allow))
		check12(t, s)
		exchange(t, c, s)
		closeBoth(t, c, s)
	})
	t.Run("client allows", func(t *testing.T) {
		c, s := connect(t, ourClient(clientConfig(), allow), goServer(old(serverConfig())))
		check12(t, c)
		exchange(t, c, s)
		closeBoth(t, c, s)
	})
	t.Run("config excludes and allows", func(t *testing.T) {
		c, s := connect(t, ourClient(old(clientConfig()), allow), goServer(serverConfig()))
		check12(t, c)
		exchange(t, c, s)
	})
	t.Run("allowed and not needed", func(t *testing.T) {
		c, s := connect(t, ourClient(clientConfig(), allow), ourServer(serverConfig(), allow))
		if _, ok := c.(*Conn); !ok {
			t.Errorf("client has a %T", c)
		}
		if _, ok := s.(*Conn); !ok {
			t.Errorf("server has a %T", s)
		}
	})
	t.Run("data behind Finished", func(t *testing.T) {
		// With a ticket the client's Finished is the last of the handshake when
		// it resumes, and data may come in the same segment.
		sc := serverConfig()
		cc := old(clientConfig())
		cc.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		connect(t, goClient(cc), ourServer(sc, allow))
		c, s := tcpPair(t)
		h := &hold{Conn: c, until: func(n int) bool { return n == 2 }}
		done := start(func() (net.Conn, error) { return Server(testContext(t), s, sc, allow) })
		client := tls.Client(h, cc)
		if err := client.HandshakeContext(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if !client.ConnectionState().DidResume {
			t.Fatal("not resumed")
		}
		if _, err := client.Write([]byte("early")); err != nil {
			t.Fatal(err)
		}
		if err := h.release(); err != nil {
			t.Fatal(err)
		}
		r := <-done
		if r.err != nil {
			t.Fatal(r.err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(r.conn, got); err != nil || string(got) != "early" {
			t.Fatalf("got %q, %v", got, err)
		}
		exchange(t, client, r.conn)
	})
}

// TestNetConn12: the connection can be had from a [tls.Conn] too, in the way of a
// Conn, and its socket.
func TestNetConn12(t *testing.T) {
	old := clientConfig()
	old.MaxVersion = tls.VersionTLS12
	for _, socket := range []bool{true, false} {
		c, s := tcpPair(t)
		var mine net.Conn = s
		if !socket {
			mine = &spy{Conn: s}
		}
		_, sc := connectOver(t, c, goClient(old), mine, ourServer(serverConfig(), &Options{AllowTLS12: true}))
		check12(t, sc)
		type netConner interface{ NetConn() net.Conn }
		inner := sc.(netConner).NetConn()
		if n, ok := inner.(netConner); !ok || n.NetConn() != mine {
			t.Errorf("socket %v: NetConn is a %T, which does not lead to the connection", socket, inner)
		}
		sys, ok := inner.(syscall.Conn)
		if !ok {
			t.Fatalf("%T has no SyscallConn", inner)
		}
		raw, err := sys.SyscallConn()
		if !socket {
			wantError(t, err, errors.ErrUnsupported)
			continue
		}
		called := false
		if err == nil {
			err = raw.Control(func(uintptr) { called = true })
		}
		if err != nil || !called {
			t.Errorf("SyscallConn: %v, called %v", err, called)
		}
	}
}

func check12(t *testing.T, c net.Conn) {
	t.Helper()
	tc, ok := c.(*tls.Conn)
	if !ok {
		t.Fatalf("have a %T", c)
	}
	if v := tc.ConnectionState().Version; v != tls.VersionTLS12 {
		t.Fatalf("version is %#x", v)
	}
}

// TestContext ends handshakes whose peer is silent.
func TestContext(t *testing.T) {
	for name, side := range map[string]side{
		"client": ourClient(clientConfig(), nil),
		"server": ourServer(serverConfig(), nil),
	} {
		t.Run(name, func(t *testing.T) {
			c, s := tcpPair(t)
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := side(ctx, c)
			wantError(t, err, context.DeadlineExceeded)
			if _, err := io.Copy(io.Discard, s); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("peer sees %v", err)
			}
			if _, err := c.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the connection was left open: %v", err)
			}

			ctx, cancel = context.WithCancel(context.Background())
			cancel()
			c, _ = tcpPair(t)
			_, err = side(ctx, c)
			wantError(t, err, context.Canceled)
		})
	}
	t.Run("no influence afterwards", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		c, s := tcpPair(t)
		done := start(func() (net.Conn, error) { return Server(ctx, s, serverConfig(), nil) })
		cc, err := Client(ctx, c, clientConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := <-done
		cancel()
		exchange(t, cc, r.conn)
	})
}

// TestNotTLS gives a server something else.
func TestNotTLS(t *testing.T) {
	for _, sent := range []string{"", "G", "GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "\x16\x03\x01\x00\x10\x01", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 70_000)} {
		c, s := tcpPair(t)
		go func() {
			io.WriteString(c, sent)
			c.(*net.TCPConn).CloseWrite()
		}()
		if conn, err := Server(testContext(t), s, serverConfig(), nil); err == nil || conn != nil {
			t.Errorf("%.20q: %v, %v", sent, conn, err)
		}
	}
}

// TestErrorOfGetConfigForClient: it is an error beside a config, too.
func TestErrorOfGetConfigForClient(t *testing.T) {
	c, s := tcpPair(t)
	refusal := errors.New("refused")
	config := serverConfig()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return serverConfig(), refusal }
	done := start(func() (net.Conn, error) { return Server(testContext(t), s, config, nil) })
	if _, err := Client(testContext(t), c, clientConfig(), nil); err == nil {
		t.Error("the client's handshake succeeds")
	}
	wantError(t, (<-done).err, refusal)
}

// TestErrorsOfCryptoTLS reach the caller.
func TestErrorsOfCryptoTLS(t *testing.T) {
	c, s := tcpPair(t)
	config := clientConfig()
	config.ServerName = "other.test"
	done := start(func() (net.Conn, error) { return Server(testContext(t), s, serverConfig(), nil) })
	_, err := Client(testContext(t), c, config, nil)
	var verify *tls.CertificateVerificationError
	if !errors.As(err, &verify) {
		t.Errorf("client's error is %v", err)
	}
	var op *net.OpError
	if r := <-done; !errors.As(r.err, &op) || op.Op != "remote error" {
		t.Errorf("server's error is %v", r.err)
	}
	if errors.Is(err, ErrVersion) || errors.Is(err, ErrHandover) {
		t.Errorf("%v claims to be another error", err)
	}
}

// TestNilConfig names no server.
func TestNilConfig(t *testing.T) {
	c, s := tcpPair(t)
	if _, err := Client(testContext(t), c, nil, nil); err == nil {
		t.Error("a client needs no server name")
	}
	for name, f := range map[string]func(){
		"Server":      func() { Server(testContext(t), s, nil, nil) },
		"NewListener": func() { NewListener(listen(t), nil, nil) },
	} {
		if got := panicOf(f); got != "cryptotls: nil config" {
			t.Errorf("%s: panic %v", name, got)
		}
	}
}

// TestConnIsHandedOnWhole looks at what a functions in the config and Options
// see.
func TestConnIsHandedOnWhole(t *testing.T) {
	c, s := tcpPair(t)
	config := serverConfig()
	var seen []string
	saw := func(name string, hello *tls.ClientHelloInfo) {
		if hello.Conn != s {
			t.Errorf("%s sees a %T", name, hello.Conn)
		}
		if err := hello.SupportsCertificate(&config.Certificates[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		seen = append(seen, name)
	}
	get := func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		saw("GetCertificate", hello)
		return &config.Certificates[0], nil
	}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		saw("GetConfigForClient", hello)
		return &tls.Config{GetCertificate: get}, nil
	}
	o := &Options{Record: func(cfg *record.ConnConfig) {
		seen = append(seen, "Record")
		if cfg.Role != record.RoleServer || cfg.Sealer.Suite() != aead.SuiteByID(cfg.Opener.Suite().ID()) {
			t.Errorf("config is %+v", cfg)
		}
	}}
	cc, sc := connectOver(t, c, ourClient(clientConfig(), nil), s, ourServer(config, o))
	if want := []string{"GetConfigForClient", "GetCertificate", "Record"}; !slices.Equal(seen, want) {
		t.Errorf("called %v, want %v", seen, want)
	}
	if cc.(*Conn).NetConn() != c || sc.(*Conn).NetConn() != s {
		t.Error("NetConn is not the connection that was passed")
	}
	if cc.LocalAddr() != c.LocalAddr() || sc.RemoteAddr().String() != s.RemoteAddr().String() {
		t.Error("addresses differ")
	}
}

// TestDeadline: deadlines are the transport's, and one that passes during the
// handshake ends it.
func TestDeadline(t *testing.T) {
	c, s := tcpPair(t)
	s.SetDeadline(time.Now().Add(30 * time.Millisecond))
	_, err := Server(testContext(t), s, serverConfig(), nil)
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("error is %v", err)
	}
	c.Close()
}
