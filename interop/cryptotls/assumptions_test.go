package cryptotls

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
	"golang.org/x/crypto/cryptobyte"
)

// The tests in this file pin what this package takes for granted of crypto/tls.
// Each fails when a release changes it, and its message says what to look at.

// writes is a key log writer that keeps the calls apart.
type writes [][]byte

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, bytes.Clone(p))
	return len(p), nil
}

// TestGoKeyLog: the four secrets of TLS 1.3 are logged by both sides, one line a
// call, before HandshakeContext returns, under these labels.
func TestGoKeyLog(t *testing.T) {
	var client, server writes
	cc, sc := clientConfig(), serverConfig()
	cc.KeyLogWriter, sc.KeyLogWriter = &client, &server
	connect(t, goClient(cc), goServer(sc))
	for name, log := range map[string]writes{"client": client, "server": server} {
		var labels []string
		for _, line := range log {
			label, _, _ := strings.Cut(string(line), " ")
			labels = append(labels, label)
			if bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
				t.Errorf("the %s's log gets %q in one write: see keyLogWriter", name, line)
			}
		}
		for _, label := range secretLabels {
			if !slices.Contains(labels, label) {
				t.Errorf("the %s logs no %s: there is no other way to the secrets", name, label)
			}
		}
	}
	if !slices.EqualFunc(client, server, bytes.Equal) {
		t.Error("both sides log different lines")
	}
}

// TestGoSuites: every TLS 1.3 suite that crypto/tls has is one that package aead
// has.
func TestGoSuites(t *testing.T) {
	n := 0
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !slices.Contains(s.SupportedVersions, tls.VersionTLS13) {
			continue
		}
		n++
		if suite := aead.SuiteByID(s.ID); suite == nil || suite.Name() != s.Name {
			t.Errorf("crypto/tls has %s, which cannot be taken over", s.Name)
		}
	}
	if n == 0 {
		t.Error("crypto/tls lists no TLS 1.3 suite")
	}
}

// TestGoVersions: there is no version above TLS 1.3, whose records could be
// others.
func TestGoVersions(t *testing.T) {
	c, s := connect(t, goClient(clientConfig()), goServer(serverConfig()))
	for _, conn := range []net.Conn{c, s} {
		if v := conn.(*tls.Conn).ConnectionState().Version; v != tls.VersionTLS13 {
			t.Errorf("crypto/tls negotiates version %#x by default", v)
		}
	}
}

// eager counts how much more is asked for than is there.
type eager struct {
	net.Conn
	most int
}

func (e *eager) Read(p []byte) (int, error) {
	e.most = max(e.most, len(p))
	return e.Conn.Read(p)
}

// TestGoReadsAhead: without a transport that holds it back, crypto/tls reads
// beyond the handshake. If it no longer does, transport may be simpler.
func TestGoReadsAhead(t *testing.T) {
	c, s := tcpPair(t)
	h := &hold{Conn: c, until: func(n int) bool { return n == 2 }}
	e := &eager{Conn: s}
	done := start(func() (net.Conn, error) { return goServer(serverConfig())(testContext(t), e) })
	client := tls.Client(h, clientConfig())
	if err := client.HandshakeContext(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := h.release(); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil {
		t.Fatal(r.err)
	}
	s.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := s.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Errorf("crypto/tls has left %d bytes on the wire (%v): it does not read ahead", n, err)
	}
	if e.most <= record.HeaderSize {
		t.Errorf("crypto/tls asks for %d bytes at most", e.most)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// TestGoReadsNoMore: crypto/tls asks for no byte once the record with the peer's
// Finished is there, and puts no byte on the wire behind its own flight, so the
// handshake ends where this package takes over.
func TestGoReadsNoMore(t *testing.T) {
	for _, client := range []bool{false, true} {
		seen := see(t, client)
		s, o, err := seen.handOver()
		if err != nil {
			t.Errorf("client %v: %v", client, err)
			continue
		}
		if want := map[bool]uint64{false: 1, true: 0}[client]; s.Seq() != want || o.Seq() != 0 {
			t.Errorf("client %v: crypto/tls has sealed %d and opened %d records under application keys; the tests expect %d and 0",
				client, s.Seq(), o.Seq(), want)
		}
	}
}

// TestGoTicketKeys: DecryptTicket makes a config's automatic ticket keys, a
// Clone shares them, and the next Clone too.
func TestGoTicketKeys(t *testing.T) {
	config := serverConfig()
	config.DecryptTicket(nil, tls.ConnectionState{})
	client := ticketConfig()
	for i := range 2 {
		c, s := connect(t, goClient(client), goServer(config.Clone()))
		sendReceive(t, s, c, 1)
		if got := c.(*tls.Conn).ConnectionState().DidResume; got != (i > 0) {
			t.Errorf("connection %d resumed: %v; see Options.serverConfig", i, got)
		}
	}
	// Without DecryptTicket each Clone has its own, which is why it is called.
	// If this fails, the call may go.
	fresh := serverConfig()
	for range 2 {
		c, s := connect(t, goClient(client), goServer(fresh.Clone()))
		sendReceive(t, s, c, 1)
		if c.(*tls.Conn).ConnectionState().DidResume {
			t.Error("resumed with another clone of an unused config")
		}
	}
}

// TestGoTemporaryError: a read that fails with a temporary error leaves the read
// side of a [tls.Conn] as it is, so that it can be fed again, also in the middle
// of a record. ticketCache relies on it.
func TestGoTemporaryError(t *testing.T) {
	c, s := tcpPair(t)
	f := &faulty{Conn: c}
	cc, sc := connectOver(t, f, goClient(clientConfig()), s, goServer(serverConfig()))
	if _, err := sc.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	f.on = true
	var got []byte
	failures := 0
	for len(got) < 5 {
		p := make([]byte, 1)
		n, err := cc.Read(p)
		got = append(got, p[:n]...)
		if err != nil {
			if !errors.Is(err, drained{}) {
				t.Fatalf("Read after %d failures: %v", failures, err)
			}
			failures++
		}
	}
	if string(got) != "hello" || failures < 2 {
		t.Errorf("read %q after %d failures", got, failures)
	}
}

// faulty is a connection that delivers a byte and fails temporarily, in turn.
type faulty struct {
	net.Conn
	on, fail bool
}

func (f *faulty) Read(p []byte) (int, error) {
	if !f.on {
		return f.Conn.Read(p)
	}
	if f.fail = !f.fail; f.fail {
		return 0, drained{}
	}
	return f.Conn.Read(p[:min(1, len(p))])
}

// TestGoCloseSealsAlert: the Close of a [tls.Conn] seals an alert under the key
// that was taken over. That it does is why the transport refuses everything.
func TestGoCloseSealsAlert(t *testing.T) {
	c, s := tcpPair(t)
	wire := &spy{Conn: c}
	cc, _ := connectOver(t, wire, goClient(clientConfig()), s, goServer(serverConfig()))
	wire.written = nil
	cc.Close()
	if len(wire.written) == 0 || wire.deadlines == 0 || wire.closes == 0 {
		t.Error("crypto/tls's Close is silent: the transport may refuse less")
	}
}

// TestGoHelloConn: a ClientHelloInfo names the connection that crypto/tls was
// given, which transport.hello replaces.
func TestGoHelloConn(t *testing.T) {
	c, s := tcpPair(t)
	config := serverConfig()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.Conn != s {
			t.Errorf("Conn is a %T", hello.Conn)
		}
		return nil, nil
	}
	connectOver(t, c, goClient(clientConfig()), s, goServer(config))
}

// TestGoRejectsMessagesBehindFinished: crypto/tls ends the handshake if the
// record that holds the peer's Finished holds more, so nothing can be left in its
// handshake buffer.
func TestGoRejectsMessagesBehindFinished(t *testing.T) {
	c, s := tcpPair(t)
	seal := &resealer{Conn: c}
	config := clientConfig()
	config.KeyLogWriter = &keyLogWriter{log: &seal.log}
	done := start(func() (net.Conn, error) { return goServer(serverConfig())(testContext(t), s) })
	client := tls.Client(seal, config)
	if err := client.HandshakeContext(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if !seal.done {
		t.Fatal("no Finished was changed")
	}
	if r := <-done; r.err == nil || !strings.Contains(r.err.Error(), "handshake buffer not empty") {
		t.Errorf("the server's error is %v", r.err)
	}
}

// resealer appends a byte to the content of a client's Finished record.
type resealer struct {
	net.Conn
	log  keyLog
	done bool
}

func (r *resealer) Write(p []byte) (int, error) {
	secret := r.log.get(clientHandshake)
	if secret == nil || r.done {
		return r.Conn.Write(p)
	}
	r.done = true
	out := []byte{}
	for _, w := range wireRecords(bytes.Clone(p)) {
		if w[0] != byte(record.ContentTypeApplicationData) {
			out = append(out, w...)
			continue
		}
		suite := aead.AES128GCM()
		o := record.NewOpener(record.OpenerConfig{})
		s := record.NewSealer(record.SealerConfig{})
		if err := errors.Join(o.SetTrafficSecret(record.EpochHandshake, suite, secret), s.SetTrafficSecret(record.EpochHandshake, suite, secret)); err != nil {
			return 0, err
		}
		rec, _, err := o.Open(w)
		if err != nil {
			return 0, err
		}
		if out, err = s.Seal(out, rec.Type, append(rec.Content, typeNewSessionTicket)); err != nil {
			return 0, err
		}
	}
	if _, err := r.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TestEncryptedClientHello: under ECH the client random of the key log is not the
// one on the wire.
func TestEncryptedClientHello(t *testing.T) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// draft-ietf-tls-esni, Section 4: an ECHConfig of version 0xfe0d.
	var b cryptobyte.Builder
	b.AddUint16(0xfe0d)
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint8(1)       // config_id
		b.AddUint16(0x0020) // DHKEM(X25519, HKDF-SHA256)
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(key.PublicKey().Bytes()) })
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			b.AddUint16(1) // HKDF-SHA256
			b.AddUint16(1) // AES-128-GCM
		})
		b.AddUint8(32) // maximum_name_length
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte("public.server.test")) })
		b.AddUint16(0) // extensions
	})
	echConfig := b.BytesOrPanic()
	var list cryptobyte.Builder
	list.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(echConfig) })

	for _, pair := range []struct {
		name           string
		client, server func(*tls.Config) side
	}{
		{"client", func(c *tls.Config) side { return ourClient(c, nil) }, goServer},
		{"server", goClient, func(c *tls.Config) side { return ourServer(c, nil) }},
	} {
		t.Run(pair.name, func(t *testing.T) {
			cc, sc := ticketConfig(), serverConfig()
			cc.EncryptedClientHelloConfigList = list.BytesOrPanic()
			sc.GetEncryptedClientHelloKeys = func(hello *tls.ClientHelloInfo) ([]tls.EncryptedClientHelloKey, error) {
				if _, ok := hello.Conn.(*transport); ok {
					t.Error("GetEncryptedClientHelloKeys sees the transport")
				}
				return []tls.EncryptedClientHelloKey{{Config: echConfig, PrivateKey: key.Bytes()}}, nil
			}
			var log lockedBuffer
			cc.KeyLogWriter = &log
			c, s := tcpPair(t)
			wire := &spy{Conn: c}
			cn, sn := connectOver(t, wire, pair.client(cc), s, pair.server(sc))
			if !cn.(stater).ConnectionState().ECHAccepted || !sn.(stater).ConnectionState().ECHAccepted {
				t.Fatal("ECH was not accepted")
			}
			wireRandom := wire.written[record.HeaderSize+4+2:][:randomSize]
			var logged keyLog
			if _, err := (&keyLogWriter{log: &logged}).Write([]byte(log.String())); err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(wireRandom, logged.random[:]) {
				t.Error("the wire shows the random of the key log")
			}
			exchange(t, cn, sn)
		})
	}
}

// TestResumedConnection pins that data and tickets pass over a resumed
// connection whose client reads one byte at a time.
func TestResumedConnection(t *testing.T) {
	server, client := serverConfig(), ticketConfig()
	for range 2 {
		c, s := tcpPair(t)
		cc, sc := connectOver(t, drip{c}, ourClient(client, nil), s, goServer(server))
		go io.WriteString(sc, "hello")
		got := make([]byte, 5)
		if _, err := io.ReadFull(cc, got); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}
