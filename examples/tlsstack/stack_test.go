package main

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// certificates are self-signed, one for each signature algorithm, in the order of
// allSchemes, and the roots that trust them.
var certificates = sync.OnceValues(func() (list []*certificate, roots *x509.CertPool) {
	roots = x509.NewCertPool()
	p256, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, err3 := ed25519.GenerateKey(rand.Reader)
	rsaKey, err4 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		panic(err)
	}
	for _, key := range []crypto.Signer{p256, p384, ed, rsaKey} {
		cert, err := selfSigned(key, "localhost", "127.0.0.1")
		if err != nil {
			panic(err)
		}
		roots.AddCert(cert.leaf)
		list = append(list, cert)
	}
	return list, roots
})

// certFor returns the certificate whose key signs with the given scheme.
func certFor(s *scheme) *certificate {
	list, _ := certificates()
	return list[slices.Index(allSchemes, s)]
}

func testRoots() *x509.CertPool {
	_, roots := certificates()
	return roots
}

// result is how one side's handshake ended.
type result struct {
	conn   *record.Conn
	params *parameters
	err    error
}

func result3(conn *record.Conn, params *parameters, err error) result {
	return result{conn, params, err}
}

// pipe returns the two ends of a transport, which are closed when the test ends.
func pipe(t testing.TB) (net.Conn, net.Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

// loopback is pipe with buffers in between, for peers that write when we do.
func loopback(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	ln, port := listen(t)
	a := dial(t, port)
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

// connect runs both sides against each other.
func connect(t testing.TB, cc clientConfig, sc serverConfig) (c, s result) {
	t.Helper()
	a, b := pipe(t)
	done := make(chan result)
	go func() { done <- result3(server(b, sc)) }()
	c = result3(client(a, cc))
	return c, <-done
}

// testClient and testServer return the parts of configurations that tests share.
func testClient() clientConfig {
	return clientConfig{serverName: "localhost", roots: testRoots()}
}

func testServer() serverConfig {
	return serverConfig{certificates: []*certificate{certFor(ecdsaP256)}}
}

// talk sends data both ways, more than a record, and closes both sides.
func talk(t testing.TB, a, b net.Conn) {
	t.Helper()
	for _, c := range []net.Conn{a, b} {
		c.SetDeadline(time.Now().Add(time.Minute))
	}
	data := bytes.Repeat([]byte("0123456789"), 2000)
	transfer := func(from, to net.Conn) {
		t.Helper()
		sent := make(chan error, 1)
		go func() {
			_, err := from.Write(data)
			sent <- err
		}()
		got := make([]byte, len(data))
		if _, err := io.ReadFull(to, got); err != nil {
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, data) {
			t.Fatal("data arrived changed")
		}
	}
	transfer(a, b)
	transfer(b, a)
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("Read at the end: %d, %v", n, err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// TestBothSides runs client and server against each other with every group, suite
// and signature algorithm, with and without a HelloRetryRequest.
func TestBothSides(t *testing.T) {
	for _, g := range allGroups {
		for _, suite := range aead.Suites() {
			for _, sch := range allSchemes {
				for _, retry := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%v/%s/retry=%v", g.name, suite, sch.name, retry), func(t *testing.T) {
						cc, sc := testClient(), testServer()
						cc.suites = []*aead.Suite{suite}
						sc.groups = []*group{g}
						sc.certificates = []*certificate{certFor(sch)}
						cc.shares = []*group{g}
						if retry {
							cc.shares = slices.DeleteFunc(slices.Clone(allGroups), func(x *group) bool { return x == g })
						}
						c, s := connect(t, cc, sc)
						if c.err != nil || s.err != nil {
							t.Fatal(c.err, s.err)
						}
						for _, p := range []*parameters{c.params, s.params} {
							if p.suite != suite || p.group != g || p.scheme != sch || p.retried != retry || p.serverName != "localhost" || p.protocol != "" {
								t.Errorf("negotiated %v", p)
							}
						}
						if !bytes.Equal(c.params.certificates[0].Raw, certFor(sch).chain[0]) {
							t.Error("another certificate")
						}
						talk(t, c.conn, s.conn)
					})
				}
			}
		}
	}
}

// TestPreferences checks what a server chooses when there is a choice.
func TestPreferences(t *testing.T) {
	cc, sc := testClient(), testServer()
	other, err := selfSigned(certFor(ecdsaP384).key, "example.org")
	if err != nil {
		t.Fatal(err)
	}
	cc.protocols = []string{"a", "b", "c"}
	sc.protocols = []string{"x", "c", "b"}
	cc.suites = []*aead.Suite{aead.AES128GCM(), aead.ChaCha20Poly1305()}
	sc.suites = []*aead.Suite{aead.AES256GCM(), aead.ChaCha20Poly1305(), aead.AES128GCM()}
	cc.groups = []*group{x25519, secp256r1}
	cc.shares = []*group{x25519, secp256r1}
	sc.groups = []*group{secp256r1, x25519}
	sc.certificates = []*certificate{other, certFor(eddsa), certFor(rsaPSS)}
	c, s := connect(t, cc, sc)
	if c.err != nil || s.err != nil {
		t.Fatal(c.err, s.err)
	}
	for _, p := range []*parameters{c.params, s.params} {
		if p.protocol != "c" || p.suite != aead.ChaCha20Poly1305() || p.group != secp256r1 || p.scheme != eddsa || p.retried {
			t.Errorf("negotiated %v", p)
		}
	}
	talk(t, c.conn, s.conn)
}

// TestIntermediate has a server send a chain of three, and trusts the last.
func TestIntermediate(t *testing.T) {
	var chain [][]byte
	var parent *x509.Certificate
	var parentKey, key *ecdsa.PrivateKey
	for i, name := range []string{"root", "intermediate", "localhost"} {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		template := *certFor(ecdsaP256).leaf
		template.SerialNumber = big.NewInt(int64(i + 1))
		template.PublicKey, template.SignatureAlgorithm = &key.PublicKey, 0
		template.RawSubject, template.Subject = nil, pkix.Name{CommonName: name}
		if i < 2 {
			template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		}
		if parent == nil {
			parent, parentKey = &template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		if parent, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		parentKey = key
		chain = slices.Insert(chain, 0, der)
	}
	root, err := x509.ParseCertificate(chain[2])
	if err != nil {
		t.Fatal(err)
	}
	cc, sc := testClient(), testServer()
	cc.roots = x509.NewCertPool()
	cc.roots.AddCert(root)
	sc.certificates = []*certificate{{chain, parent, key}}
	c, s := connect(t, cc, sc)
	if c.err != nil || s.err != nil {
		t.Fatal(c.err, s.err)
	}
	if n := len(c.params.certificates); n != 3 {
		t.Errorf("%d certificates", n)
	}
	talk(t, c.conn, s.conn)
}

// tap keeps what is written.
type tap struct {
	net.Conn
	out bytes.Buffer
}

func (p *tap) Write(b []byte) (int, error) {
	p.out.Write(b)
	return p.Conn.Write(b)
}

// contentTypes returns the outer content types of the records that were written.
func (p *tap) contentTypes() (types []byte) {
	for b := p.out.Bytes(); len(b) > 0; b = b[5+int(b[3])<<8+int(b[4]):] {
		types = append(types, b[0])
	}
	return types
}

// TestCompatibilityMode looks at the records of both sides: "The client sends a
// dummy change_cipher_spec record [...] immediately before its second flight."
// "The server sends a dummy change_cipher_spec record immediately after its first
// handshake message." (RFC 9846, Appendix E.4) Either is sent once, and a flight
// under one key is one record. A client without session ID is sent none.
func TestCompatibilityMode(t *testing.T) {
	for _, test := range []struct {
		name           string
		shares         []*group
		client, server []byte
	}{
		{"at once", nil, []byte{22, 20, 23}, []byte{22, 20, 23}},
		{"retry", []*group{secp256r1}, []byte{22, 20, 22, 23}, []byte{22, 20, 22, 23}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := loopback(t)
			c, s := &tap{Conn: a}, &tap{Conn: b}
			cc, sc := testClient(), testServer()
			cc.shares = test.shares
			sc.groups = []*group{x25519}
			done := startClient(c, cc)
			if _, _, err := server(s, sc); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got := c.contentTypes(); !bytes.Equal(got, test.client) {
				t.Errorf("client's records: %d, want %d", got, test.client)
			}
			if got := s.contentTypes(); !bytes.Equal(got, test.server) {
				t.Errorf("server's records: %d, want %d", got, test.server)
			}
		})
	}
	s := newScript(plaintext(22, hello(t, func(h *rawHello) { h.sessionID = nil })))
	server(s, testServer())
	if got := (&tap{out: s.out}).contentTypes(); !bytes.Equal(got, []byte{22, 23}) {
		t.Errorf("records for a client without session ID: %d", got)
	}
}

// TestNoServerName: without a name to check, nobody is authenticated.
func TestNoServerName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	client(newScript(), clientConfig{})
}

// TestCommands runs what the two commands do, against each other.
func TestCommands(t *testing.T) {
	log.SetOutput(t.Output())
	defer log.SetOutput(os.Stderr)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	answered := make(chan error, 1)
	go func() {
		transport, err := ln.Accept()
		if err == nil {
			err = answer(transport, serverConfig{certificates: []*certificate{certFor(rsaPSS)}, protocols: []string{"http/1.1"}}, time.Minute)
		}
		answered <- err
	}()
	cert, key := writeFiles(t, certFor(rsaPSS))
	if loaded, err := loadCertificate(cert, key); err != nil || !loaded.leaf.Equal(certFor(rsaPSS).leaf) {
		t.Errorf("the certificate's files: %v", err)
	}
	var page bytes.Buffer
	if err := get(&page, ln.Addr().String(), cert); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	for _, want := range []string{"GET /", "TLS_AES_128_GCM_SHA256", "X25519", "rsa_pss_rsae_sha256", `protocol: "http/1.1"`} {
		if !bytes.Contains(page.Bytes(), []byte(want)) {
			t.Errorf("the page does not say %s:\n%s", want, page.String())
		}
	}
}

// wantEnd checks that the peer of conn sends close_notify and nothing else.
func wantEnd(t testing.TB, conn *record.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(handshakeTimeout))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read: %d, %v; want the end", n, err)
	}
}

// TestAnswerCloses gives the server of a page clients that do not ask for one:
// "Each party MUST send a "close_notify" alert before closing its write side of the
// connection, unless it has already sent some error alert. This does not have any
// effect on its read side of the connection." (RFC 9846, Section 6.1)
func TestAnswerCloses(t *testing.T) {
	for _, test := range []struct {
		name, request string
		close         bool // the client's direction, first
		patience      time.Duration
	}{
		{"close_notify", "", true, time.Minute},
		{"close_notify in a request", "GET / HT", true, time.Minute},
		{"malformed request", "nonsense\r\n\r\n", false, time.Minute},
		{"no request in time", "", false, 50 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := loopback(t)
			answered := make(chan error, 1)
			go func() { answered <- answer(b, testServer(), test.patience) }()
			conn, _, err := client(a, testClient())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, test.request); err != nil {
				t.Fatal(err)
			}
			if test.close {
				if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			wantEnd(t, conn)
			conn.Close()
			if err := <-answered; err == nil {
				t.Error("answered")
			}
		})
	}
}

// TestAlertArrives sends a ClientHello that is too large, all of it before the server
// refuses the beginning: "It is assumed that closing the write side of a connection
// reliably delivers pending data before destroying the transport." (RFC 9846, Section
// 6.1)
func TestAlertArrives(t *testing.T) {
	a, b := loopback(t)
	var flight []byte
	msg := append([]byte{typeClientHello, 2, 0, 0}, make([]byte, 2<<16)...)
	for fragment := range slices.Chunk(msg, record.MaxContentSize) {
		flight = append(flight, plaintext(22, fragment)...)
	}
	written := make(chan error, 1)
	go func() {
		_, err := a.Write(flight)
		written <- err
	}()
	time.Sleep(50 * time.Millisecond) // most of it is in the server's socket now
	answered := make(chan error, 1)
	go func() { answered <- answer(b, testServer(), time.Minute) }()
	if err := <-written; err != nil {
		t.Error(err)
	}
	a.SetReadDeadline(time.Now().Add(handshakeTimeout))
	got, err := io.ReadAll(a)
	if want := plaintext(21, []byte{2, byte(record.AlertIllegalParameter)}); !bytes.Equal(got, want) || err != nil {
		t.Errorf("received %x, %v; want %x", got, err, want)
	}
	a.Close()
	wantAlert(t, <-answered, record.AlertIllegalParameter)
}

// TestHangUp has a client that sees the end and stays.
func TestHangUp(t *testing.T) {
	a, b := loopback(t)
	answered := make(chan error, 1)
	go func() { answered <- answer(b, testServer(), time.Minute) }()
	if _, err := a.Write(plaintext(22, []byte{typeFinished, 0, 0, 0})); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(a); err != nil {
		t.Error(err)
	}
	wantAlert(t, <-answered, record.AlertUnexpectedMessage)
	// What is sent now finds nobody.
	for range 100 {
		if _, err := a.Write([]byte{0}); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the server has not closed the connection")
}

// TestDrain has a peer that sends a byte every 10 ms, or stops after 20.
func TestDrain(t *testing.T) {
	for _, test := range []struct {
		name              string
		sends             int
		idle, total, want time.Duration
	}{
		{"silent", 0, 100 * time.Millisecond, time.Minute, 100 * time.Millisecond},
		{"stops", 20, time.Second, time.Minute, 1190 * time.Millisecond},
		{"never stops", 1500, 10 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				var sender sync.WaitGroup
				defer sender.Wait()
				defer b.Close()
				sender.Go(func() {
					for range test.sends {
						if _, err := a.Write([]byte{0}); err != nil {
							return
						}
						time.Sleep(10 * time.Millisecond)
					}
				})
				begin := time.Now()
				drain(b, test.idle, test.total)
				if took := time.Since(begin); took != test.want {
					t.Errorf("took %v, want %v", took, test.want)
				}
			})
		})
	}
}

// TestGetCloses is TestAnswerCloses for a client that gets no page.
func TestGetCloses(t *testing.T) {
	log.SetOutput(t.Output())
	defer log.SetOutput(os.Stderr)
	ca, _ := writeFiles(t, certFor(ecdsaP256))
	for name, response := range map[string]string{
		"close_notify":            "",
		"close_notify in headers": "HTTP/1.1 200 OK\r\nContent-",
		"malformed headers":       "nonsense\r\n\r\n",
		"close_notify in a page":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npage",
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			got := make(chan error, 1)
			go func() { got <- get(io.Discard, ln.Addr().String(), ca) }()
			transport, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer transport.Close()
			conn, _, err := server(transport, testServer())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, response); err != nil {
				t.Fatal(err)
			}
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			wantEnd(t, conn)
			conn.Close()
			if err := <-got; err == nil {
				t.Error("got a page")
			}
		})
	}
}

// cryptoTLSCertificate returns c for crypto/tls.
func cryptoTLSCertificate(c *certificate) tls.Certificate {
	return tls.Certificate{Certificate: c.chain, PrivateKey: c.key}
}

var cryptoTLSCurves = map[*group]tls.CurveID{x25519: tls.X25519, secp256r1: tls.CurveP256}

// TestCryptoTLSServer is our client and crypto/tls's server, with every key type
// and group. A client whose only share is for the other group is asked to retry.
func TestCryptoTLSServer(t *testing.T) {
	for _, g := range allGroups {
		for _, first := range allGroups {
			for _, sch := range allSchemes {
				t.Run(fmt.Sprintf("%s/%s/%s", g.name, first.name, sch.name), func(t *testing.T) {
					a, b := loopback(t)
					peer := tls.Server(b, &tls.Config{
						Certificates:     []tls.Certificate{cryptoTLSCertificate(certFor(sch))},
						CurvePreferences: []tls.CurveID{cryptoTLSCurves[g]},
						NextProtos:       []string{"proto"},
						MinVersion:       tls.VersionTLS13,
						ClientAuth:       tls.RequestClientCert, // answered with none
					})
					done := make(chan error, 1)
					go func() { done <- peer.Handshake() }()
					cc := testClient()
					cc.protocols = []string{"other", "proto"}
					cc.shares = []*group{first}
					conn, p, err := client(a, cc)
					if err != nil {
						t.Fatal(err)
					}
					// crypto/tls sends a ticket before its Handshake returns.
					read := make(chan error, 1)
					data := make([]byte, 4)
					go func() {
						_, err := io.ReadFull(conn, data)
						read <- err
					}()
					if err := <-done; err != nil {
						t.Fatal(err)
					}
					if _, err := peer.Write([]byte("data")); err != nil {
						t.Fatal(err)
					}
					if err := <-read; err != nil || string(data) != "data" {
						t.Fatalf("%q, %v", data, err)
					}
					state := peer.ConnectionState()
					if p.protocol != "proto" || p.group != g || p.scheme != sch || p.retried != (g != first) ||
						p.suite.ID() != state.CipherSuite || state.ServerName != "localhost" || state.NegotiatedProtocol != "proto" {
						t.Errorf("negotiated %v and %+v", p, state)
					}
					talk(t, conn, peer)
				})
			}
		}
	}
}

// TestCryptoTLSClient is crypto/tls's client and our server, with every key type.
// crypto/tls sends shares for X25519 and its hybrid, or for its only group.
func TestCryptoTLSClient(t *testing.T) {
	for _, test := range []struct {
		name   string
		curves []tls.CurveID
		group  *group
		retry  bool
	}{
		{"X25519", nil, x25519, false},
		{"secp256r1", []tls.CurveID{tls.CurveP256}, secp256r1, false},
		{"retry", nil, secp256r1, true},
	} {
		for _, sch := range allSchemes {
			t.Run(test.name+"/"+sch.name, func(t *testing.T) {
				a, b := loopback(t)
				peer := tls.Client(a, &tls.Config{
					RootCAs:          testRoots(),
					ServerName:       "localhost",
					CurvePreferences: test.curves,
					NextProtos:       []string{"other", "proto"},
					MinVersion:       tls.VersionTLS13,
				})
				done := make(chan error, 1)
				go func() { done <- peer.Handshake() }()
				sc := testServer()
				sc.groups = []*group{test.group}
				sc.certificates = []*certificate{certFor(sch)}
				sc.protocols = []string{"proto"}
				conn, p, err := server(b, sc)
				if err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				state := peer.ConnectionState()
				if p.protocol != "proto" || p.group != test.group || p.scheme != sch || p.suite.ID() != state.CipherSuite ||
					p.serverName != "localhost" || state.NegotiatedProtocol != "proto" ||
					p.retried != test.retry || state.HelloRetryRequest != test.retry {
					t.Errorf("negotiated %v and %+v", p, state)
				}
				talk(t, conn, peer)
			})
		}
	}
}
