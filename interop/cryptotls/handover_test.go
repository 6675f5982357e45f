package cryptotls

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// handshakeSeen is what a transport saw of a handshake.
type handshakeSeen struct {
	client         bool
	sent, received []byte
	log            keyLog
	suite          *aead.Suite
}

// clone returns a copy of h to be changed.
func (h *handshakeSeen) clone() *handshakeSeen {
	c := *h
	c.sent, c.received = slices.Clone(h.sent), slices.Clone(h.received)
	return &c
}

// transport returns a transport that has seen h, in pieces of a few bytes.
func (h *handshakeSeen) transport() *transport {
	tr := newTransport(nil, h.client)
	tr.log = h.log
	add := func(s *stream, b []byte) {
		for i := 0; len(b) > 0; i++ {
			n := min(1+i%7, len(b))
			s.add(b[:n])
			b = b[n:]
		}
	}
	if h.client { // the ServerHello first
		add(tr.received, h.received)
		add(tr.sent, h.sent)
	} else {
		add(tr.sent, h.sent)
		add(tr.received, h.received)
	}
	return tr
}

func (h *handshakeSeen) handOver() (*record.Sealer, *record.Opener, error) {
	return h.transport().handOver(record.SealerConfig{}, h.suite.ID())
}

// tap keeps what crypto/tls reads and writes.
type tap struct {
	*transport
	seen *handshakeSeen
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.transport.Read(p)
	t.seen.received = append(t.seen.received, p[:n]...)
	return n, err
}

func (t *tap) Write(p []byte) (int, error) {
	t.seen.sent = append(t.seen.sent, p...)
	return t.transport.Write(p)
}

// see runs a handshake of ours, as server or client, and returns what the
// transport saw.
func see(t testing.TB, client bool) *handshakeSeen {
	t.Helper()
	c, s := tcpPair(t)
	mine, theirs := s, c
	if client {
		mine, theirs = c, s
	}
	seen := &handshakeSeen{client: client}
	tr := &tap{newTransport(mine, client), seen}
	o := new(Options)
	var tc *tls.Conn
	var peer side
	if client {
		tc = tls.Client(tr, o.clientConfig(ticketConfig(), tr.transport))
		peer = goServer(serverConfig())
	} else {
		tc = tls.Server(tr, o.serverConfig(serverConfig(), tr.transport, true))
		peer = goClient(ticketConfig())
	}
	done := start(func() (net.Conn, error) { return peer(testContext(t), theirs) })
	if err := tc.HandshakeContext(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil {
		t.Fatal(r.err)
	}
	seen.log, seen.suite = tr.log, aead.SuiteByID(tc.ConnectionState().CipherSuite)
	return seen
}

// wireRecords cuts a stream into records.
func wireRecords(stream []byte) (records [][]byte) {
	for len(stream) > 0 {
		n := recordSize(stream)
		records = append(records, stream[:n])
		stream = stream[n:]
	}
	return records
}

// TestHandOverRefuses changes what went over the wire in every way that could
// put a sequence number in doubt. None may lead to a connection.
func TestHandOverRefuses(t *testing.T) {
	for _, client := range []bool{false, true} {
		seen := see(t, client)
		refuse := func(what string, change func(*handshakeSeen)) {
			t.Helper()
			changed := seen.clone()
			change(changed)
			_, _, err := changed.handOver()
			if !errors.Is(err, ErrHandover) {
				t.Errorf("client %v, %s: error is %v", client, what, err)
			}
			if err != nil {
				for kind := range secretKinds {
					if s := seen.log.get(kind); strings.Contains(err.Error(), string(s)) {
						t.Errorf("%s: the error holds a secret", what)
					}
				}
			}
		}
		if _, _, err := seen.handOver(); err != nil {
			t.Fatalf("client %v: %v", client, err)
		}
		for name, stream := range map[string]func(*handshakeSeen) *[]byte{
			"sent":     func(h *handshakeSeen) *[]byte { return &h.sent },
			"received": func(h *handshakeSeen) *[]byte { return &h.received },
		} {
			records := wireRecords(*stream(seen))
			for i, r := range records {
				if r[0] != byte(record.ContentTypeApplicationData) {
					continue
				}
				last := i == len(records)-1
				without := slices.Concat(slices.Delete(slices.Clone(records), i, i+1)...)
				if !last || !(name == "sent" && !client) { // but a server's ticket may be missing
					refuse(name+" without a protected record", func(h *handshakeSeen) { *stream(h) = without })
				}
				refuse(name+" with a record twice", func(h *handshakeSeen) {
					*stream(h) = slices.Concat(slices.Insert(slices.Clone(records), i, r)...)
				})
				refuse(name+" with a flipped bit", func(h *handshakeSeen) {
					at := len(slices.Concat(records[:i]...)) + len(r)/2
					(*stream(h))[at] ^= 1
				})
			}
			refuse(name+" cut by a byte", func(h *handshakeSeen) { *stream(h) = (*stream(h))[:len(*stream(h))-1] })
			refuse(name+" with a byte more", func(h *handshakeSeen) { *stream(h) = append(*stream(h), 23) })
			refuse(name+" empty", func(h *handshakeSeen) { *stream(h) = nil })
			refuse(name+" without protection", func(h *handshakeSeen) { *stream(h) = records[0] })
		}
		for kind := range secretKinds {
			refuse("no secret "+secretLabels[kind], func(h *handshakeSeen) { h.log.secrets[kind] = secret{} })
			refuse("short secret "+secretLabels[kind], func(h *handshakeSeen) { h.log.secrets[kind].size-- })
			if kind == clientApplication && !client || kind == serverApplication && client {
				continue // the peer's application secret has protected nothing yet
			}
			if kind == clientApplication {
				continue // nor has a client's
			}
			refuse("wrong secret "+secretLabels[kind], func(h *handshakeSeen) { h.log.secrets[kind].b[0] ^= 1 })
		}
		refuse("another suite of the same hash", func(h *handshakeSeen) { h.suite = aead.ChaCha20Poly1305() })
		refuse("a ServerHello that names another suite", func(h *handshakeSeen) {
			hello := h.sent
			if client {
				hello = h.received
			}
			at := record.HeaderSize + messageHeaderSize + 2 + randomSize
			at += 1 + int(hello[at])
			hello[at+1] ^= 3 ^ 1 // TLS_CHACHA20_POLY1305_SHA256 is 0x1303
			h.suite = aead.ChaCha20Poly1305()
		})
	}
}

// TestSealedRecords seals what may and what may not follow Finished.
func TestSealedRecords(t *testing.T) {
	suite := aead.AES128GCM()
	hs, app := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	finished := append([]byte{typeFinished, 0, 0, 32}, make([]byte, 32)...)
	ticket := newSessionTicket(1, 0, []byte("ticket"))
	stream := func(handshake, application func(s *record.Sealer, b []byte) []byte) []byte {
		s := record.NewSealer(record.SealerConfig{})
		b, err := s.Seal(nil, record.ContentTypeHandshake, serverHello(suite.ID()))
		if err != nil {
			t.Fatal(err)
		}
		if handshake == nil {
			return b
		}
		if err := s.SetTrafficSecret(record.EpochHandshake, suite, hs); err != nil {
			t.Fatal(err)
		}
		b = handshake(s, b)
		if application != nil {
			if err := s.SetTrafficSecret(record.EpochApplication, suite, app); err != nil {
				t.Fatal(err)
			}
			b = application(s, b)
		}
		return b
	}
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seal := func(typ record.ContentType, contents ...[]byte) func(*record.Sealer, []byte) []byte {
		return func(s *record.Sealer, b []byte) []byte {
			for _, c := range contents {
				b = must(s.Seal(b, typ, c))
			}
			return b
		}
	}
	handshake := func(contents ...[]byte) func(*record.Sealer, []byte) []byte {
		return seal(record.ContentTypeHandshake, contents...)
	}
	alert := func(a ...record.Alert) func(*record.Sealer, []byte) []byte {
		return func(s *record.Sealer, b []byte) []byte {
			for _, a := range a {
				b = must(s.SealAlert(b, a))
			}
			return b
		}
	}
	both := func(f ...func(*record.Sealer, []byte) []byte) func(*record.Sealer, []byte) []byte {
		return func(s *record.Sealer, b []byte) []byte {
			for _, f := range f {
				b = f(s, b)
			}
			return b
		}
	}
	for _, tt := range []struct {
		name   string
		stream []byte
		sealed int
		err    error
	}{
		{"Finished", stream(handshake(finished), nil), 0, nil},
		{"Finished in two records", stream(handshake(finished[:7], finished[7:]), nil), 0, nil},
		{"messages before Finished share its record", stream(handshake(slices.Concat([]byte{8, 0, 0, 0}, finished)), nil), 0, nil},
		{"ticket", stream(handshake(finished), handshake(ticket)), 1, nil},
		{"two tickets in three records", stream(handshake(finished), handshake(ticket[:3], slices.Concat(ticket[3:], ticket[:9]), ticket[9:])), 3, nil},
		{"user_canceled", stream(both(alert(record.AlertUserCanceled), handshake(finished)), nil), 0, nil},

		{"nothing", nil, 0, errNoFinished},
		{"Finished without protection", must(record.NewSealer(record.SealerConfig{}).Seal(nil, record.ContentTypeHandshake, finished)), 0, errNoFinished},
		{"no protected record", stream(nil, nil), 0, errNoFinished},
		{"no Finished", stream(handshake([]byte{8, 0, 0, 0}), nil), 0, errNoFinished},
		{"part of Finished", stream(handshake(finished[:9]), nil), 0, errNoFinished},
		{"part of a ticket", stream(handshake(finished), handshake(ticket[:9])), 0, errRest},
		{"message behind Finished in its record", stream(handshake(slices.Concat(finished, []byte{8, 0, 0, 0})), nil), 0, errRest},
		{"ticket behind Finished in its record", stream(handshake(slices.Concat(finished, ticket)), nil), 0, errRest},
		{"Finished twice", stream(handshake(finished), handshake(finished)), 0, errNoTicket},
		{"KeyUpdate", stream(handshake(finished), func(s *record.Sealer, b []byte) []byte { return must(s.SealKeyUpdate(b, false)) }), 0, errNoTicket},
		{"application data", stream(handshake(finished), seal(record.ContentTypeApplicationData, []byte("data"))), 0, errEarlyData},
		{"empty application data", stream(handshake(finished), seal(record.ContentTypeApplicationData, nil)), 0, errEarlyData},
		{"close_notify", stream(handshake(finished), alert(record.AlertCloseNotify)), 0, errEarlyAlert},
		{"alert before Finished", stream(alert(record.AlertInternalError), nil), 0, errEarlyAlert},
	} {
		tr := newTransport(nil, false)
		tr.log.secrets[serverHandshake].size = copy(tr.log.secrets[serverHandshake].b[:], hs)
		tr.log.secrets[serverApplication].size = copy(tr.log.secrets[serverApplication].b[:], app)
		tr.sent.add(tt.stream)
		sealed, err := tr.sent.records()
		if !errors.Is(err, tt.err) || len(sealed) != tt.sealed {
			t.Errorf("%s: %d records, error %v; want %d, %v", tt.name, len(sealed), err, tt.sealed, tt.err)
			continue
		}
		// What is under application keys is reproduced bit by bit, also under a
		// padding policy, which then holds for what follows.
		if tt.err != nil {
			continue
		}
		s, err := newSealer(record.SealerConfig{Padding: func(int) int { return 100 }}, suite, app, sealed)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if s.Seq() != uint64(tt.sealed) {
			t.Errorf("%s: sequence number %d", tt.name, s.Seq())
		}
		if b, err := s.Seal(nil, record.ContentTypeApplicationData, []byte("x")); err != nil || len(b) != s.SealedSize(1)+100 {
			t.Errorf("%s: record of %d bytes, %v", tt.name, len(b), err)
		}
	}

	// A version of crypto/tls that pads its tickets, or sets another legacy
	// version, could not be followed.
	s := record.NewSealer(record.SealerConfig{Padding: func(int) int { return 1 }})
	if err := s.SetTrafficSecret(record.EpochApplication, suite, app); err != nil {
		t.Fatal(err)
	}
	wire := must(s.Seal(nil, record.ContentTypeHandshake, ticket))
	_, err := newSealer(record.SealerConfig{}, suite, app, []sealedRecord{{wire: wire, content: ticket}})
	wantError(t, err, errNotIdentical)
}

// TestTransportReads checks that a read never crosses the end of a record and
// never delivers a byte twice or not at all, whatever the sizes.
func TestTransportReads(t *testing.T) {
	var stream []byte
	var ends []int
	for i, size := range []int{1, 100, 0, 4096, 4091, 5, 16640, 65535, 1} {
		stream = append(stream, byte(20+i%4), 3, 3, byte(size>>8), byte(size))
		stream = append(stream, bytes.Repeat([]byte{byte(i)}, size)...)
		ends = append(ends, len(stream))
	}
	for _, chunk := range []int{1, 3, 5, 7, 512, 4096, 5000, 1 << 20} {
		for _, ask := range []int{1, 5, 517, 1 << 17} {
			tr := newTransport(&chunks{data: stream, size: chunk}, false)
			var got []byte
			p := make([]byte, ask)
			for len(got) < len(stream) {
				n, err := tr.Read(p)
				if err != nil || n == 0 {
					t.Fatalf("chunk %d, ask %d, at %d: %d, %v", chunk, ask, len(got), n, err)
				}
				for _, end := range ends {
					if len(got) < end && len(got)+n > end {
						t.Fatalf("chunk %d, ask %d: a read crosses %d", chunk, ask, end)
					}
				}
				got = append(got, p[:n]...)
			}
			if !bytes.Equal(got, stream) {
				t.Fatalf("chunk %d, ask %d: stream changed", chunk, ask)
			}
			if _, err := tr.Read(p); err != io.EOF {
				t.Fatalf("chunk %d, ask %d: error %v at the end", chunk, ask, err)
			}
		}
	}
	t.Run("incomplete header", func(t *testing.T) {
		// A socket says once that the peer has reset it, and then that it has ended.
		for _, want := range []error{io.EOF, errors.New("connection reset")} {
			wire := &chunks{data: []byte{22, 3, 1}, size: 2, last: want}
			tr := newTransport(wire, false)
			p := make([]byte, 10)
			if n, err := tr.Read(p); n != 3 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			for range 2 {
				if n, err := tr.Read(p); n != 0 || err != want {
					t.Errorf("%d, %v; want %v", n, err, want)
				}
			}
		}
	})
}

// serverHello returns a ServerHello message with a session id of 32 bytes.
func serverHello(suite uint16) []byte {
	body := make([]byte, 2+randomSize, 100)
	body = append(body, 32)
	body = append(body, make([]byte, 32)...)
	body = append(body, byte(suite>>8), byte(suite), 0, 0, 0)
	return append([]byte{typeServerHello, 0, 0, byte(len(body))}, body...)
}

// slowHandshakes starts n handshakes of server with clients that send what send
// does, and nothing more, and returns the heap bytes that each holds when the
// server has read it.
func slowHandshakes(t *testing.T, n int, server side, send func(t *testing.T, c net.Conn)) int {
	t.Helper()
	heap := func() int {
		runtime.GC()
		runtime.GC() // empties pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	var clients []net.Conn
	var servers sync.WaitGroup
	var waiting sync.WaitGroup
	before := heap()
	for range n {
		c, s := net.Pipe() // a Write returns when all has been read
		clients = append(clients, c)
		servers.Go(func() {
			if _, err := server(testContext(t), s); err == nil {
				t.Error("the handshake is done")
			}
		})
		waiting.Go(func() { send(t, c) })
	}
	waiting.Wait()
	size := heap() - before
	for _, c := range clients {
		c.Close()
	}
	servers.Wait()
	return size / n
}

// TestHandshakeMemory has clients cut their messages into the most records there
// can be, and compares what a handshake holds with what crypto/tls alone does.
func TestHandshakeMemory(t *testing.T) {
	const n, most = 4, 32 << 10 // bytes more than crypto/tls
	size := 0xffff
	if testing.Short() {
		size = 0x3fff // what a fault holds is six times as much
	}
	endless := func(typ byte, size int) []byte {
		return append([]byte{typ, byte(size >> 16), byte(size >> 8), byte(size)}, make([]byte, size-1)...)
	}
	cut := func(b []byte, message []byte, seal func(b, content []byte) []byte) []byte {
		for i := range message {
			b = seal(b, message[i:i+1])
		}
		return b
	}
	instead := func(message []byte) func(t *testing.T, c net.Conn) {
		// crypto/tls does the handshake, up to its Finished.
		return func(t *testing.T, c net.Conn) {
			f := &flood{Conn: c, write: func(s *record.Sealer) (b []byte) {
				return cut(nil, message, func(b, content []byte) []byte {
					b, err := s.Seal(b, record.ContentTypeHandshake, content)
					if err != nil {
						t.Error(err)
					}
					return b
				})
			}}
			config := clientConfig()
			config.KeyLogWriter = &keyLogWriter{log: &f.log}
			if err := tls.Client(f, config).HandshakeContext(testContext(t)); !errors.Is(err, errFlooded) {
				t.Errorf("client: %v", err)
			}
		}
	}
	for _, test := range []struct {
		name string
		send func(t *testing.T, c net.Conn)
	}{
		{"nothing", func(*testing.T, net.Conn) {}},
		{"large records", func(t *testing.T, c net.Conn) {
			hello := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 0x4000-4)...)
			for range 3 {
				hello = append(append(hello, 22, 3, 1, 0x40, 0), make([]byte, 0x4000)...)
			}
			c.Write(hello[:len(hello)-100])
		}},
		{"ClientHello", func(t *testing.T, c net.Conn) {
			c.Write(cut(nil, endless(1, size), func(b, content []byte) []byte {
				return append(b, 22, 3, 1, 0, 1, content[0])
			}))
		}},
		{"Finished", instead(endless(typeFinished, size))},
		// Nobody has asked for it, and still crypto/tls takes it as one.
		{"Certificate", instead(endless(typeCertificate, 4*size))},
	} {
		ours := slowHandshakes(t, n, ourServer(serverConfig(), nil), test.send)
		theirs := slowHandshakes(t, n, goServer(serverConfig()), test.send)
		t.Logf("%-13s %6d bytes, crypto/tls %6d", test.name, ours, theirs)
		if ours-theirs > most {
			t.Errorf("%s: %d bytes more than crypto/tls", test.name, ours-theirs)
		}
	}
}

const typeCertificate = 11

var errFlooded = errors.New("flooded")

// flood writes something else in place of a client's Finished.
type flood struct {
	net.Conn
	log   keyLog
	write func(s *record.Sealer) []byte
}

func (f *flood) Write(p []byte) (int, error) {
	secret := f.log.get(clientHandshake)
	if secret == nil {
		return f.Conn.Write(p)
	}
	s := record.NewSealer(record.SealerConfig{})
	if err := s.SetTrafficSecret(record.EpochHandshake, aead.AES128GCM(), secret); err != nil {
		return 0, err
	}
	f.Conn.Write(f.write(s))
	return 0, errFlooded
}

func (f *flood) Close() error { return nil }

// chunks is a connection that delivers data in chunks, then last if that is set, and
// then io.EOF.
type chunks struct {
	net.Conn
	data []byte
	size int
	last error
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		err := c.last
		c.last = nil
		if err == nil {
			err = io.EOF
		}
		return 0, err
	}
	n := copy(p[:min(len(p), c.size)], c.data)
	c.data = c.data[n:]
	return n, nil
}

// TestManyAtOnce hands over many connections of one config at the same time: the
// secrets of one must never reach another.
func TestManyAtOnce(t *testing.T) {
	ln := NewListener(listen(t), serverConfig(), nil)
	var servers sync.WaitGroup
	servers.Add(1)
	go func() {
		defer servers.Done()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			servers.Go(func() {
				defer c.Close()
				io.Copy(c, c)
			})
		}
	}()
	d := &Dialer{Config: ticketConfig()}
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			c, err := d.DialContext(testContext(t), "tcp", ln.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			want := bytes.Repeat([]byte{byte(i)}, 50_000)
			go c.Write(want)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("connection %d: %v", i, err)
			}
		})
	}
	clients.Wait()
	ln.Close()
	servers.Wait()
}

// TestOddTransports: a transport that breaks the rules of io.Reader and io.Writer
// ends the handshake, or the TLS 1.2 connection, with an error: no panic, no
// endless loop, and no wait for what was not written.
func TestOddTransports(t *testing.T) {
	type odd struct {
		read, write func(conn net.Conn, p []byte) (int, error)
		want        error
	}
	odds := map[string]odd{
		"reads nothing for ever": {read: func(net.Conn, []byte) (int, error) { return 0, nil }, want: io.ErrNoProgress},
		"writes less": {write: func(conn net.Conn, p []byte) (int, error) {
			return conn.Write(p[:len(p)-1])
		}, want: io.ErrShortWrite},
		"writes less and says why": {write: func(conn net.Conn, p []byte) (int, error) {
			n, _ := conn.Write(p[:len(p)-1])
			return n, syscall.EPIPE
		}, want: syscall.EPIPE},
	}
	for name, count := range counts {
		odds["read count "+name] = odd{read: func(_ net.Conn, p []byte) (int, error) { return count(len(p)), nil }, want: errInvalidRead}
		odds["write count "+name] = odd{write: func(conn net.Conn, p []byte) (int, error) {
			n, err := conn.Write(p)
			return count(n), err
		}, want: errInvalidWrite}
	}
	// use makes the nth call an odd one.
	use := func(wire *scripted, o odd, nth int) {
		wrap := func(odd, normal func(net.Conn, []byte) (int, error)) func([]byte) (int, error) {
			if odd == nil {
				return nil
			}
			calls := 0
			return func(p []byte) (int, error) {
				if calls++; calls < nth {
					return normal(wire.Conn, p)
				}
				return odd(wire.Conn, p)
			}
		}
		wire.read = wrap(o.read, net.Conn.Read)
		wire.write = wrap(o.write, net.Conn.Write)
	}
	for name, o := range odds {
		for _, client := range []bool{true, false} {
			for nth := 1; nth <= 2; nth++ {
				if !client && nth == 2 && o.write != nil {
					continue // a server's only write
				}
				c, s := tcpPair(t)
				mine, theirs, ours, peer := c, s, ourClient(clientConfig(), nil), goServer(serverConfig())
				if !client {
					mine, theirs, ours, peer = s, c, ourServer(serverConfig(), nil), goClient(clientConfig())
				}
				wire := &scripted{Conn: drip{mine}}
				use(wire, o, nth)
				done := start(func() (net.Conn, error) { return peer(testContext(t), theirs) })
				conn, err := ours(testContext(t), wire)
				if conn != nil || !errors.Is(err, o.want) {
					t.Errorf("%s, client %v, call %d: error is %v", name, client, nth, err)
				}
				<-done
			}
		}
		// crypto/tls has the connection.
		old := clientConfig()
		old.MaxVersion = tls.VersionTLS12
		c, s := tcpPair(t)
		wire := &scripted{Conn: s}
		cc, sc := connectOver(t, c, goClient(old), wire, ourServer(serverConfig(), &Options{AllowTLS12: true}))
		use(wire, o, 1)
		var err error
		if o.read != nil {
			_, err = sc.Read(make([]byte, 1))
		} else {
			_, err = sc.Write([]byte("hello"))
		}
		if !errors.Is(err, o.want) {
			t.Errorf("%s, TLS 1.2: error is %v", name, err)
		}
		cc.Close()
	}
}

// TestDataWithError: what a read returns beside an error counts, and the error is
// asked for again.
func TestDataWithError(t *testing.T) {
	c, s := tcpPair(t)
	wire := &scripted{Conn: s}
	wire.read = func(p []byte) (int, error) {
		n, err := s.Read(p)
		if n > 0 {
			err = io.EOF
		}
		return n, err
	}
	cc, sc := connectOver(t, c, ourClient(clientConfig(), nil), wire, ourServer(serverConfig(), nil))
	wire.read = nil
	exchange(t, cc, sc)
}

// endOf returns what c's peer has ended the connection with.
func endOf(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	var a *record.AlertError
	if errors.As(err, &a) {
		return alertError(a.Alert)
	}
	return err
}

type alertError record.Alert

func (a alertError) Error() string { return "alert " + record.Alert(a).String() }

// "Whenever an implementation encounters a fatal error condition, it SHOULD send an
// appropriate fatal alert and MUST close the connection without sending or receiving
// any additional data." (RFC 9846, Section 6.2)
//
// TestHandOverAlert lets hand-overs fail: the peer, whose handshake is over, gets an
// alert where one can be sealed and may be sent, no key stays, and crypto/tls, which
// has them too, gets nothing on the wire behind it.
func TestHandOverAlert(t *testing.T) {
	const hookPanic = "no Record today"
	for _, tt := range []struct {
		name  string
		hook  func(*record.ConnConfig)
		spoil func(*transport) // when the handshake is nearly done
		want  error            // at the peer
	}{
		{name: "Record wipes the Opener", hook: func(c *record.ConnConfig) { c.Opener.Wipe() }, want: alertError(record.AlertInternalError)},
		{name: "Record wipes the Sealer", hook: func(c *record.ConnConfig) { c.Sealer.Wipe() }, want: io.ErrUnexpectedEOF},
		{name: "Record panics", hook: func(*record.ConnConfig) { panic(hookPanic) }, want: alertError(record.AlertInternalError)},
		{name: "a record received is not understood", spoil: func(tr *transport) { tr.received.err = errRest }, want: alertError(record.AlertInternalError)},
		{name: "there is an alert for it", spoil: func(tr *transport) { tr.received.err = record.ErrTooManyIdleRecords }, want: alertError(record.AlertUnexpectedMessage)},
		{name: "an alert received", spoil: func(tr *transport) { tr.received.err = errEarlyAlert }, want: io.ErrUnexpectedEOF},
		{name: "a record sent is not understood", spoil: func(tr *transport) { tr.sent.err = errRest }, want: io.ErrUnexpectedEOF},
		{name: "no suite", spoil: func(tr *transport) { tr.suite = nil }, want: io.ErrUnexpectedEOF},
	} {
		for _, client := range []bool{true, false} {
			for _, tickets := range []bool{true, false} {
				c, s := tcpPair(t)
				cc, sc := clientConfig(), serverConfig()
				if tickets {
					cc = ticketConfig()
				}
				mine, theirs, peer := c, s, ourServer(sc, nil)
				if !client {
					mine, theirs, peer = s, c, ourClient(cc, nil)
				}
				wire := &spy{Conn: mine}
				tr := newTransport(wire, client)
				var sealer *record.Sealer
				var opener *record.Opener
				o := &Options{Record: func(cfg *record.ConnConfig) {
					sealer, opener = cfg.Sealer, cfg.Opener
					if tt.hook != nil {
						tt.hook(cfg)
					}
				}}
				var config *tls.Config
				var abandoned *tls.Conn
				if client {
					config = o.clientConfig(cc, tr)
					abandoned = tls.Client(tr, config)
				} else {
					config = o.serverConfig(sc, tr, true)
					abandoned = tls.Server(tr, config)
				}
				if tt.spoil != nil {
					// The last that crypto/tls does before the client's Finished goes
					// out, and before the server waits for it.
					config.VerifyConnection = func(tls.ConnectionState) error { tt.spoil(tr); return nil }
				}
				done := start(func() (net.Conn, error) { return peer(testContext(t), theirs) })
				err := func() (err error) {
					defer func() {
						if v := recover(); v != nil {
							err = errors.New(v.(string))
						}
					}()
					conn, err := o.handshake(testContext(t), tr, abandoned, config, client)
					if conn != nil {
						t.Errorf("%s, client %v: there is a connection", tt.name, client)
					}
					return err
				}()
				if !errors.Is(err, ErrHandover) && (err == nil || err.Error() != hookPanic) {
					t.Errorf("%s, client %v: error is %v", tt.name, client, err)
				}
				sent := len(wire.written)
				abandoned.Write([]byte("stray"))
				abandoned.CloseWrite()
				abandoned.Close()
				if len(wire.written) != sent {
					t.Errorf("%s, client %v: crypto/tls sends %d bytes more", tt.name, client, len(wire.written)-sent)
				}
				mine.Close()
				r := <-done
				if r.err != nil {
					t.Fatalf("%s, client %v: peer: %v", tt.name, client, r.err)
				}
				if err := endOf(r.conn); err != tt.want {
					t.Errorf("%s, client %v, tickets %v: the peer sees %v, want %v", tt.name, client, tickets, err, tt.want)
				}
				r.conn.Close()
				if sealer != nil && (sealer.Suite() != nil || opener.Suite() != nil) {
					t.Errorf("%s, client %v: keys are left", tt.name, client)
				}
				if tr.sent != nil || tr.received != nil || tr.log != (keyLog{}) {
					t.Errorf("%s, client %v: secrets or records of the handshake are left", tt.name, client)
				}
			}
		}
	}
	// A Sealer that may not send the alert is wiped, too.
	suite, s := aead.AES128GCM(), record.NewSealer(record.SealerConfig{})
	if err := s.SetTrafficSecret(record.EpochApplication, suite, make([]byte, suite.Hash().Size())); err != nil {
		t.Fatal(err)
	}
	if newTransport(nil, true).sendAlert(s, errEarlyAlert); s.Suite() != nil {
		t.Error("keys are left when the peer has sent an alert")
	}
}

// TestFailedHandshake: the secrets of a handshake that fails are erased, too.
func TestFailedHandshake(t *testing.T) {
	for _, client := range []bool{true, false} {
		c, s := tcpPair(t)
		mine, theirs, peer := c, s, goServer(serverConfig())
		if !client {
			mine, theirs, peer = s, c, goClient(clientConfig())
		}
		tr, o, refusal := newTransport(mine, client), new(Options), errors.New("refused")
		var config *tls.Config
		var tc *tls.Conn
		if client {
			config = o.clientConfig(clientConfig(), tr)
			tc = tls.Client(tr, config)
		} else {
			config = o.serverConfig(serverConfig(), tr, true)
			tc = tls.Server(tr, config)
		}
		config.VerifyConnection = func(tls.ConnectionState) error {
			if tr.log == (keyLog{}) {
				t.Error("there are no secrets yet")
			}
			return refusal
		}
		done := start(func() (net.Conn, error) { return peer(testContext(t), theirs) })
		_, err := o.handshake(testContext(t), tr, tc, config, client)
		wantError(t, err, refusal)
		mine.Close()
		<-done
		if tr.log != (keyLog{}) {
			t.Errorf("client %v: secrets of the handshake are left", client)
		}
		for _, s := range []*stream{tr.sent, tr.received} {
			if s.opener.Suite() != nil || s.buf != nil || s.sealed != nil {
				t.Errorf("client %v: keys or records of the handshake are left", client)
			}
		}
	}
}

// TestHandOverAlertStalls: an alert that the peer does not take costs a second.
func TestHandOverAlertStalls(t *testing.T) {
	config, o := serverConfig(), &Options{Record: func(c *record.ConnConfig) { c.Opener.Wipe() }}
	cc, now := clientConfig(), time.Now()
	cc.Time = func() time.Time { return now } // the bubble's is before the certificate's
	synctest.Test(t, func(t *testing.T) {
		c, s := net.Pipe()
		done := start(func() (net.Conn, error) { return Server(t.Context(), s, config, o) })
		client, err := goClient(cc)(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		wantError(t, (<-done).err, ErrHandover)
		if d := time.Since(begin); d != alertTimeout {
			t.Errorf("the alert took %v", d)
		}
		client.Close()
	})
}

// "Peers which receive a message which cannot be parsed according to the syntax
// (e.g., have a length extending beyond the message boundary or contain an
// out-of-range length) MUST terminate the connection with a "decode_error" alert."
// (RFC 9846, Section 6)
//
// TestSessionID sends session ids of all lengths, which "opaque
// legacy_session_id<0..32>" (Section 4.2.2) bounds and crypto/tls does not, in the
// first ClientHello and in the one behind a HelloRetryRequest.
func TestSessionID(t *testing.T) {
	for _, size := range []int{0, 1, 31, 32, 33, 255} {
		for _, allow12 := range []bool{false, true} {
			for nth := 1; nth <= 2; nth++ {
				c, s := tcpPair(t)
				sc := serverConfig()
				sc.CurvePreferences = []tls.CurveID{tls.CurveP384}
				cc := clientConfig()
				cc.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384}
				hellos := 0
				wire := &scripted{Conn: c, write: func(p []byte) (int, error) {
					if p[0] != byte(record.ContentTypeHandshake) && p[0] != byte(record.ContentTypeChangeCipherSpec) || hellos == nth {
						return c.Write(p)
					}
					var out []byte
					for _, r := range wireRecords(p) {
						if r[0] == byte(record.ContentTypeHandshake) && r[record.HeaderSize] == typeClientHello {
							if hellos++; hellos == nth {
								r = withSessionID(r, size)
							}
						}
						out = append(out, r...)
					}
					_, err := c.Write(out)
					return len(p), err
				}}
				go func() {
					tls.Client(wire, cc).HandshakeContext(testContext(t)) // fails: the transcripts differ
					c.(*net.TCPConn).CloseWrite()
				}()
				recorded := &spy{Conn: s}
				_, err := Server(testContext(t), recorded, sc, &Options{AllowTLS12: allow12})
				alert := []byte{21, 3, 3, 0, 2, 2, byte(record.AlertDecodeError)}
				if got := errors.Is(err, record.ErrMalformedMessage); got != (size > 32) || bytes.HasSuffix(recorded.written, alert) != got {
					t.Errorf("%d bytes, ClientHello %d: error is %v, sent %x", size, nth, err, recorded.written[max(0, len(recorded.written)-len(alert)):])
				}
			}
		}
	}
}

// TestLateSessionID: once there are keys, such a ClientHello is left to crypto/tls,
// whose alert has them.
func TestLateSessionID(t *testing.T) {
	c, s := tcpPair(t)
	var hello []byte
	tls.Client(&scripted{Conn: c, write: func(p []byte) (int, error) {
		hello = bytes.Clone(p)
		return 0, errors.New("no writes")
	}}, clientConfig()).Handshake()
	wire := &spy{Conn: s}
	done := start(func() (net.Conn, error) { return Server(testContext(t), wire, serverConfig(), nil) })
	if _, err := c.Write(hello); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil { // of the ServerHello
		t.Fatal(err)
	}
	if _, err := c.Write(withSessionID(hello, 33)); err != nil {
		t.Fatal(err)
	}
	if err := (<-done).err; err == nil || errors.Is(err, record.ErrMalformedMessage) {
		t.Errorf("error is %v", err)
	}
	records := wireRecords(wire.written)
	if last := records[len(records)-1]; last[0] != byte(record.ContentTypeApplicationData) {
		t.Errorf("sent %x", last)
	}
}

// withSessionID returns a record that holds a ClientHello with another session id.
func withSessionID(r []byte, size int) []byte {
	at := record.HeaderSize + sessionIDAt
	hello := slices.Concat(r[record.HeaderSize+messageHeaderSize:at], []byte{byte(size)}, make([]byte, size), r[at+1+int(r[at]):])
	hello = append([]byte{typeClientHello, 0, byte(len(hello) >> 8), byte(len(hello))}, hello...)
	return append([]byte{r[0], r[1], r[2], byte(len(hello) >> 8), byte(len(hello))}, hello...)
}
