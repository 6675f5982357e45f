package cryptotls

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"

	"example.com/splitseal/internal/standin"
	"example.com/splitseal/record"
)

// dial connects a crypto/tls client to ln and reads what the server says, so
// that it has read the ticket.
func dialGo(t testing.TB, ln net.Listener, config *tls.Config) tls.ConnectionState {
	t.Helper()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, config)
	defer c.Close()
	if err := c.HandshakeContext(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Fatalf("read %q, %v", got, err)
	}
	return c.ConnectionState()
}

// greet serves connections that say hello and end.
func greet(t testing.TB, ln net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// TestServerResumption resumes with a server whose every connection has its own
// clone of the config: the ticket keys have to be those of one place.
func TestServerResumption(t *testing.T) {
	t.Run("automatic keys", func(t *testing.T) {
		ln := NewListener(listen(t), serverConfig(), nil)
		greet(t, ln)
		config := ticketConfig()
		for i := range 3 {
			if got := dialGo(t, ln, config).DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
	})
	t.Run("automatic keys and GetConfigForClient", func(t *testing.T) {
		config := serverConfig()
		config.Certificates = nil
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return serverConfig(), nil }
		ln := NewListener(listen(t), config, nil)
		greet(t, ln)
		client := ticketConfig()
		for i := range 3 {
			if got := dialGo(t, ln, client).DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
	})
	t.Run("GetConfigForClient that declines", func(t *testing.T) {
		config := serverConfig()
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		ln := NewListener(listen(t), config, nil)
		greet(t, ln)
		client := ticketConfig()
		for i := range 2 {
			if got := dialGo(t, ln, client).DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
	})
	t.Run("keys of the chosen config", func(t *testing.T) {
		chosen := serverConfig()
		chosen.SetSessionTicketKeys([][32]byte{{1}})
		config := serverConfig()
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }
		ln := NewListener(listen(t), config, nil)
		greet(t, ln)
		client := ticketConfig()
		for i, want := range []bool{false, true, false, true} {
			if i == 2 {
				chosen.SetSessionTicketKeys([][32]byte{{2}})
			}
			if got := dialGo(t, ln, client).DidResume; got != want {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
	})
	t.Run("keys that change while the server runs", func(t *testing.T) {
		config := serverConfig()
		config.SetSessionTicketKeys([][32]byte{{1}})
		ln := NewListener(listen(t), config, nil)
		greet(t, ln)
		client := ticketConfig()
		for i, want := range []bool{false, true, true, false} {
			switch i {
			case 2:
				config.SetSessionTicketKeys([][32]byte{{2}, {1}})
			case 3:
				config.SetSessionTicketKeys([][32]byte{{3}})
			}
			if got := dialGo(t, ln, client).DidResume; got != want {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
	})
	t.Run("Server", func(t *testing.T) {
		server, client := serverConfig(), ticketConfig()
		for i := range 2 {
			c, s := connect(t, goClient(client), ourServer(server, nil))
			sendReceive(t, s, c, 1) // with the ticket before it
			if got := s.(*Conn).ConnectionState().DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
			exchange(t, c, s)
		}
	})
	t.Run("beside crypto/tls", func(t *testing.T) {
		config := serverConfig()
		ours := NewListener(listen(t), config, nil)
		theirs := tls.NewListener(listen(t), config)
		greet(t, ours)
		greet(t, theirs)
		client := ticketConfig()
		for i, ln := range []net.Listener{theirs, ours, theirs, ours} {
			if got := dialGo(t, ln, client).DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
	})
	t.Run("disabled", func(t *testing.T) {
		config := serverConfig()
		config.SessionTicketsDisabled = true
		ln := NewListener(listen(t), config, nil)
		greet(t, ln)
		client := ticketConfig()
		for range 2 {
			if dialGo(t, ln, client).DidResume {
				t.Error("resumed")
			}
		}
	})
	t.Run("WrapSession", func(t *testing.T) {
		config := serverConfig()
		wrapped, unwrapped := 0, 0
		config.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
			wrapped++
			return config.EncryptTicket(cs, ss)
		}
		config.UnwrapSession = func(id []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
			unwrapped++
			return config.DecryptTicket(id, cs)
		}
		ln := NewListener(listen(t), config, nil)
		greet(t, ln)
		client := ticketConfig()
		for i := range 2 {
			if got := dialGo(t, ln, client).DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
		}
		if wrapped != 2 || unwrapped != 1 {
			t.Errorf("wrapped %d and unwrapped %d times", wrapped, unwrapped)
		}
	})
}

// TestClientResumption resumes as a client, for which crypto/tls has to be
// given the tickets that arrive after the handshake.
func TestClientResumption(t *testing.T) {
	for name, prepare := range map[string]func(*tls.Config){
		"ticket in the server's flight":     func(*tls.Config) {},
		"ticket behind the client's flight": func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert },
		"ticket of three records": func(c *tls.Config) {
			keep := serverConfig()
			c.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
				ticket, err := keep.EncryptTicket(cs, ss)
				return append(binary.BigEndian.AppendUint16(make([]byte, 40_000), uint16(len(ticket))), ticket...), err
			}
			c.UnwrapSession = func(id []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
				return keep.DecryptTicket(id[40_002:], cs)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := serverConfig(), ticketConfig()
			prepare(server)
			for i := range 3 {
				c, s := connect(t, ourClient(client, nil), goServer(server))
				sendReceive(t, s, c, 1) // the Read that finds the ticket
				if got := c.(*Conn).ConnectionState().DidResume; got != (i > 0) {
					t.Errorf("connection %d resumed: %v", i, got)
				}
				exchange(t, c, s)
				closeBoth(t, c, s)
			}
		})
	}
	t.Run("with this package's server", func(t *testing.T) {
		server, client := serverConfig(), ticketConfig()
		for i := range 2 {
			c, s := connect(t, ourClient(client, nil), ourServer(server, nil))
			sendReceive(t, s, c, 1)
			if got := s.(*Conn).ConnectionState().DidResume; got != (i > 0) {
				t.Errorf("connection %d resumed: %v", i, got)
			}
			exchange(t, c, s)
		}
	})
}

// newSessionTicket returns a NewSessionTicket message.
func newSessionTicket(lifetime uint32, nonce byte, ticket []byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, lifetime)
	body = append(body, 0, 0, 0, 0, 1, nonce)
	body = binary.BigEndian.AppendUint16(body, uint16(len(ticket)))
	body = append(body, ticket...)
	body = append(body, 0, 4, 0xfa, 0xfa, 0, 0)
	return ticketMessage(body)
}

// withExtensions returns ticket with other extensions.
func withExtensions(ticket []byte, extensions ...byte) []byte {
	body := slices.Clone(ticket[4 : len(ticket)-6])
	body = binary.BigEndian.AppendUint16(body, uint16(len(extensions)))
	return ticketMessage(append(body, extensions...))
}

func ticketMessage(body []byte) []byte {
	return append([]byte{typeNewSessionTicket, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

// puts is a ClientSessionCache that counts.
type puts struct {
	tls.ClientSessionCache
	tickets [][]byte
}

func (p *puts) Put(key string, cs *tls.ClientSessionState) {
	ticket, _, _ := cs.ResumptionState()
	p.tickets = append(p.tickets, ticket)
	p.ClientSessionCache.Put(key, cs)
}

// TestTicketsThatFollow sends tickets at many places: those before anything else
// are crypto/tls's, all others the callback's.
func TestTicketsThatFollow(t *testing.T) {
	ticket := func(n byte) []byte { return newSessionTicket(1000, n, bytes.Repeat([]byte{n}, 20+int(n)*100)) }
	type conns struct {
		t      *testing.T
		c      net.Conn
		s      *Conn
		cache  *puts
		called [][]byte
	}
	tickets := func(n ...byte) (all [][]byte) {
		for _, n := range n {
			all = append(all, bytes.Repeat([]byte{n}, 20+int(n)*100))
		}
		return all
	}
	for _, tt := range []struct {
		name          string
		send          func(*conns)
		stored, given [][]byte
	}{
		{
			name:   "each in a record",
			send:   func(c *conns) { c.s.WriteHandshake(ticket(1)); c.s.WriteHandshake(ticket(2)) },
			stored: tickets(1, 2),
		},
		{
			name:   "two in a record",
			send:   func(c *conns) { c.s.WriteHandshake(slices.Concat(ticket(1), ticket(2))) },
			stored: tickets(1, 2),
		},
		{
			name:   "across records",
			send:   func(c *conns) { c.s.WriteHandshake(slices.Concat(ticket(1), ticket(200), ticket(3))) },
			stored: tickets(1, 200, 3),
		},
		{
			name: "behind application data",
			send: func(c *conns) {
				c.s.WriteHandshake(ticket(1))
				sendReceive(c.t, c.s, c.c, 10)
				c.s.WriteHandshake(ticket(2))
			},
			stored: tickets(1),
			given:  tickets(2),
		},
		{
			name: "behind a KeyUpdate",
			send: func(c *conns) {
				c.s.WriteHandshake(ticket(1))
				c.s.KeyUpdate(false)
				c.s.WriteHandshake(ticket(2))
			},
			stored: tickets(1),
			given:  tickets(2),
		},
		{
			// One read of the transport brings all of it, and the sequence number falls.
			name: "two, and one behind a KeyUpdate",
			send: func(c *conns) {
				c.s.WriteHandshake(ticket(1))
				c.s.WriteHandshake(ticket(2))
				c.s.KeyUpdate(false)
				c.s.WriteHandshake(ticket(3))
			},
			stored: tickets(1, 2),
			given:  tickets(3),
		},
		{
			name: "more than crypto/tls accepts in a row",
			send: func(c *conns) {
				for i := range 20 {
					c.s.WriteHandshake(ticket(byte(i)))
				}
			},
			stored: tickets(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
			given:  tickets(16, 17, 18, 19),
		},
		{
			name: "more than crypto/tls accepts, in one record",
			send: func(c *conns) {
				var all []byte
				for i := range 20 {
					all = append(all, newSessionTicket(1000, byte(i), []byte{byte(i)})...)
				}
				c.s.WriteHandshake(all)
			},
			stored: [][]byte{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}},
			given:  [][]byte{{16}, {17}, {18}, {19}},
		},
		{
			// "Servers MUST NOT use any value greater than 604800 seconds (7 days)."
			name: "a lifetime that crypto/tls refuses, behind others in their record",
			send: func(c *conns) {
				refused := newSessionTicket(604801, 3, []byte{3})
				c.s.WriteHandshake(slices.Concat(ticket(1), newSessionTicket(0, 9, []byte{9}), ticket(2), refused, ticket(4)))
			},
			stored: tickets(1, 2),
			given:  slices.Concat([][]byte{{9}}, [][]byte{{3}}, tickets(4)),
		},
		{
			name: "a lifetime of zero",
			send: func(c *conns) {
				c.s.WriteHandshake(slices.Concat(ticket(1), newSessionTicket(0, 9, []byte{9}), ticket(2)))
			},
			stored: tickets(1, 2),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cc := &conns{t: t, cache: &puts{ClientSessionCache: tls.NewLRUClientSessionCache(1)}}
			config := clientConfig()
			config.ClientSessionCache = cc.cache
			o := &Options{NewSessionTicket: func(msg []byte) { cc.called = append(cc.called, bytes.Clone(msg)) }}
			server := serverConfig()
			server.SessionTicketsDisabled = true
			c, s := connect(t, ourClient(config, o), ourServer(server, nil))
			cc.c, cc.s = c, s.(*Conn)
			tt.send(cc)
			exchange(t, s, c)
			if !slices.EqualFunc(cc.cache.tickets, tt.stored, bytes.Equal) {
				t.Errorf("stored %d tickets, want %d: %x", len(cc.cache.tickets), len(tt.stored), cc.cache.tickets)
			}
			var given [][]byte
			for _, msg := range cc.called {
				given = append(given, msg[4+4+4+2+2:len(msg)-6])
			}
			if !slices.EqualFunc(given, tt.given, bytes.Equal) {
				t.Errorf("given %d tickets, want %d: %x", len(given), len(tt.given), given)
			}
			closeBoth(t, c, s)
		})
	}
	t.Run("no cache", func(t *testing.T) {
		called := 0
		c, s := connect(t, ourClient(clientConfig(), &Options{NewSessionTicket: func([]byte) { called++ }}), ourServer(serverConfig(), nil))
		s.(*Conn).WriteHandshake(ticket(1))
		exchange(t, s, c)
		if called != 1 {
			t.Errorf("called %d times", called)
		}
	})
	t.Run("nobody cares", func(t *testing.T) {
		c, s := connect(t, ourClient(clientConfig(), nil), ourServer(serverConfig(), nil))
		s.(*Conn).WriteHandshake(ticket(1))
		exchange(t, s, c)
	})
	// From then on it is read as a socket, like those that look for no tickets.
	t.Run("only until there is data", func(t *testing.T) {
		c, s := connect(t, ourClient(ticketConfig(), nil), ourServer(serverConfig(), nil))
		cache := c.(*Conn).Conn.NetConn().(*ticketCache)
		if err := s.(*Conn).WriteHandshake(ticket(1)); err != nil || cache.Original(standin.Private{}) != nil {
			t.Errorf("%v, the copy ends before there is data", err)
		}
		sendReceive(t, s, c, 1)
		sendReceive(t, s, c, 1) // asks, after data that is too short to end the copy by its size
		if cache.tls != nil {   // looked at first, because Original ends it too
			t.Error("package record has not asked")
		}
		exchange(t, s, c)
		if cache.Original(standin.Private{}) != c.(*Conn).NetConn() {
			t.Error("the copy does not end")
		}
	})
	t.Run("waiting for tickets only", func(t *testing.T) {
		config := clientConfig()
		cache := &puts{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		config.ClientSessionCache = cache
		server := serverConfig()
		c, s := connect(t, ourClient(config, nil), goServer(server))
		s.(*tls.Conn).CloseWrite()
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read returns %d, %v", n, err)
		}
		if len(cache.tickets) != 1 {
			t.Errorf("stored %d tickets", len(cache.tickets))
		}
	})
}

// TestBadTickets: "Peers which receive a message which cannot be parsed
// according to the syntax [...] MUST terminate the connection with a
// "decode_error" alert." (RFC 9846, Section 6)
func TestBadTickets(t *testing.T) {
	good := newSessionTicket(1000, 1, []byte("ticket"))
	bad := map[string]struct {
		msg   []byte
		alert record.Alert
	}{
		"empty ticket":        {newSessionTicket(1000, 1, nil), record.AlertDecodeError},
		"extension cut":       {edit(good, len(good)-1, 1), record.AlertDecodeError},
		"extensions cut":      {edit(good, len(good)-5, 5), record.AlertDecodeError},
		"nonce cut":           {edit(good, 12, 255), record.AlertDecodeError},
		"no body":             {[]byte{typeNewSessionTicket, 0, 0, 0}, record.AlertDecodeError},
		"rest":                {edit(append(slices.Clone(good), 0), 3, good[3]+1), record.AlertDecodeError},
		"early_data cut":      {withExtensions(good, 0, 42, 0, 3, 0, 0, 0), record.AlertDecodeError},
		"early_data too long": {withExtensions(good, 0, 42, 0, 5, 0, 0, 0, 0, 0), record.AlertDecodeError},
		"extension twice":     {withExtensions(good, 0, 42, 0, 4, 0, 0, 0, 1, 0xfa, 0xfa, 0, 0, 0, 42, 0, 4, 0, 0, 0, 1), record.AlertIllegalParameter},
		"unknown one twice":   {withExtensions(good, 0xfa, 0xfa, 0, 0, 0xfa, 0xfa, 0, 1, 0), record.AlertIllegalParameter},
		"twice, then another": {withExtensions(good, 0xfa, 0xfa, 0, 0, 0xfa, 0xfa, 0, 0, 0xfb, 0xfb, 0, 0), record.AlertIllegalParameter},
		"twice, and cut":      {withExtensions(good, 0xfa, 0xfa, 0, 0, 0xfa, 0xfa, 0, 1), record.AlertDecodeError},
		"another message":     {[]byte{13, 0, 0, 3, 0, 0, 0}, record.AlertUnexpectedMessage},
		"an unknown message":  {[]byte{99, 0, 0, 0}, record.AlertUnexpectedMessage},
		"a server's Finished": {append([]byte{typeFinished, 0, 0, 32}, make([]byte, 32)...), record.AlertUnexpectedMessage},
	}
	for name, tt := range bad {
		for _, cache := range []bool{false, true} {
			config := clientConfig()
			if cache {
				config = ticketConfig()
			}
			alerts := make(chan record.Alert, 1)
			o := &Options{Record: func(cfg *record.ConnConfig) {
				cfg.OnAlert = func(a record.Alert, sent bool) {
					if !sent {
						alerts <- a
					}
				}
			}}
			c, s := connect(t, ourClient(config, nil), ourServer(serverConfig(), o))
			if err := s.(*Conn).WriteHandshake(tt.msg); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: no error but %v", name, err)
			}
			if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: the server sees no error but %v", name, err)
			}
			if got := <-alerts; got != tt.alert {
				t.Errorf("%s: alert %v, want %v", name, got, tt.alert)
			}
			c.Close()
			s.Close()
		}
	}
	for _, msg := range [][]byte{good, withExtensions(good), withExtensions(good, 0, 42, 0, 4, 0, 0, 0, 1, 0xfa, 0xfa, 0, 0)} {
		if err := checkTicket(msg); err != nil {
			t.Errorf("%x: %v", msg, err)
		}
	}
}

func edit(msg []byte, at int, b byte) []byte {
	msg = slices.Clone(msg)
	msg[at] = b
	return msg
}

// TestMaxTicketsSize: of a peer that sends more than tickets, no copy is kept.
func TestMaxTicketsSize(t *testing.T) {
	wire := &scripted{read: func(p []byte) (int, error) { return len(p), nil }}
	c := newTicketCache(newTransport(wire, true), new(tls.Conn), record.NewOpener(record.OpenerConfig{}), nil)
	p := make([]byte, maxTicketsSize/2)
	for i, want := range []int{len(p), 2 * len(p), 0} {
		if n, err := c.Read(p); n != len(p) || err != nil {
			t.Fatalf("read %d: %d, %v", i, n, err)
		}
		if len(c.raw) != want || (c.tls != nil) != (want > 0) {
			t.Errorf("after read %d: %d bytes kept, want %d; crypto/tls kept: %v", i, len(c.raw), want, c.tls != nil)
		}
	}
}

// TestServerRefusesMessages: a client sends no handshake message but KeyUpdate.
func TestServerRefusesMessages(t *testing.T) {
	c, s := connect(t, ourClient(clientConfig(), nil), ourServer(serverConfig(), nil))
	if err := c.(*Conn).WriteHandshake(newSessionTicket(1, 1, []byte{1})); err != nil {
		t.Fatal(err)
	}
	_, err := s.Read(make([]byte, 1))
	wantError(t, err, record.ErrUnexpectedMessage)
}

// TestImpossibleCounts: a transport that returns a count that cannot be ends the
// connection, also while its records are kept for crypto/tls.
func TestImpossibleCounts(t *testing.T) {
	for name, count := range counts {
		c, s := tcpPair(t)
		wire := &scripted{Conn: c}
		cc, _ := connectOver(t, wire, ourClient(ticketConfig(), nil), s, ourServer(serverConfig(), nil))
		wire.read = func(p []byte) (int, error) { return count(len(p)), nil }
		for range 2 {
			n, err := cc.Read(make([]byte, 10))
			var te *record.TransportError
			if n != 0 || !errors.As(err, &te) || te.Op != "read" {
				t.Errorf("%s: Read returns %d, %v", name, n, err)
			}
		}
	}
}
