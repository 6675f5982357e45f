package cryptotls

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/splitseal/record"
)

// waitLimit bounds every wait of the tests.
const waitLimit = 90 * time.Second

// TestMain checks that no test leaves a goroutine of this package behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(waitLimit); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines that still run code of this package
// after at most d.
func leaked(d time.Duration) string {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var left []string
		for i, g := range strings.Split(string(buf), "\n\n") {
			if i > 0 && strings.Contains(g, "interop/cryptotls.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}

// identity is a certificate and the pool that verifies it.
type identity struct {
	cert tls.Certificate
	pool *x509.CertPool
}

func newIdentity(name string) identity {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{name, "public." + name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool: pool}
}

var (
	serverID = sync.OnceValue(func() identity { return newIdentity("server.test") })
	clientID = sync.OnceValue(func() identity { return newIdentity("client.test") })
)

func serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{serverID().cert}}
}

func clientConfig() *tls.Config {
	return &tls.Config{RootCAs: serverID().pool, ServerName: "server.test"}
}

// ticketConfig is clientConfig for a client that servers send tickets to:
// crypto/tls asks for none if it could not store them.
func ticketConfig() *tls.Config {
	c := clientConfig()
	c.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return c
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// tcpPair returns the two ends of a loopback connection. Both are closed, and
// nothing on them takes longer than waitLimit.
func tcpPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{client, server} {
		c.SetDeadline(time.Now().Add(waitLimit))
		t.Cleanup(func() { c.Close() })
	}
	return client, server
}

type outcome struct {
	conn net.Conn
	err  error
}

// start runs f in a goroutine.
func start(f func() (net.Conn, error)) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		conn, err := f()
		c <- outcome{conn, err}
	}()
	return c
}

// side does one side's handshake.
type side func(ctx context.Context, conn net.Conn) (net.Conn, error)

func ourClient(config *tls.Config, o *Options) side {
	return func(ctx context.Context, conn net.Conn) (net.Conn, error) { return Client(ctx, conn, config, o) }
}

func ourServer(config *tls.Config, o *Options) side {
	return func(ctx context.Context, conn net.Conn) (net.Conn, error) { return Server(ctx, conn, config, o) }
}

func goClient(config *tls.Config) side {
	return func(ctx context.Context, conn net.Conn) (net.Conn, error) {
		c := tls.Client(conn, config)
		return c, c.HandshakeContext(ctx)
	}
}

func goServer(config *tls.Config) side {
	return func(ctx context.Context, conn net.Conn) (net.Conn, error) {
		c := tls.Server(conn, config)
		return c, c.HandshakeContext(ctx)
	}
}

// connect does both sides' handshakes.
func connect(t testing.TB, client, server side) (net.Conn, net.Conn) {
	t.Helper()
	c, s := tcpPair(t)
	return connectOver(t, c, client, s, server)
}

func connectOver(t testing.TB, c net.Conn, client side, s net.Conn, server side) (net.Conn, net.Conn) {
	t.Helper()
	ctx := testContext(t)
	done := start(func() (net.Conn, error) { return server(ctx, s) })
	cc, err := client(ctx, c)
	if err != nil {
		c.Close()
		t.Fatalf("client: %v (server: %v)", err, (<-done).err)
	}
	r := <-done
	if r.err != nil {
		t.Fatalf("server: %v", r.err)
	}
	t.Cleanup(func() { cc.Close(); r.conn.Close() })
	return cc, r.conn
}

// exchange sends messages of many sizes from a to b and back.
func exchange(t testing.TB, a, b net.Conn) {
	t.Helper()
	sizes := []int{1, 2, 15, 16, 17, 1350, 16383, 16384, 16385, 100_000, 1 << 20}
	if testing.Short() {
		sizes = sizes[:len(sizes)-1]
	}
	for _, size := range sizes {
		sendReceive(t, a, b, size)
		sendReceive(t, b, a, size)
	}
}

func sendReceive(t testing.TB, from, to net.Conn, size int) {
	t.Helper()
	want := make([]byte, size)
	rand.Read(want)
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(want)
		sent <- err
	}()
	got := make([]byte, size)
	if _, err := io.ReadFull(to, got); err != nil {
		t.Fatalf("reading %d bytes: %v", size, err)
	}
	if err := <-sent; err != nil {
		t.Fatalf("writing %d bytes: %v", size, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes arrived changed", size)
	}
}

// closeBoth closes a and expects close_notify at b, and then the other way round.
func closeBoth(t testing.TB, a, b net.Conn) {
	t.Helper()
	type closeWriter interface{ CloseWrite() error }
	for range 2 {
		if err := a.(closeWriter).CloseWrite(); err != nil {
			t.Fatalf("CloseWrite: %v", err)
		}
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Fatalf("Read after close_notify: %d, %v", n, err)
		}
		a, b = b, a
	}
	for _, c := range []net.Conn{a, b} {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

// seqs returns Options that keep the Sealer of the last connection.
func seqs(o Options) (*Options, func() *record.Sealer) {
	var s *record.Sealer
	o.Record = func(c *record.ConnConfig) { s = c.Sealer }
	return &o, func() *record.Sealer { return s }
}

// lockedBuffer is a writer for key logs.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

// spy counts what gets through to a connection.
type spy struct {
	net.Conn
	sync.Mutex
	written   []byte
	reads     int
	closes    int
	deadlines int
}

func (s *spy) count(n *int) {
	s.Lock()
	*n++
	s.Unlock()
}

func (s *spy) Write(p []byte) (int, error) {
	s.Lock()
	s.written = append(s.written, p...)
	s.Unlock()
	return s.Conn.Write(p)
}

func (s *spy) Read(p []byte) (int, error) {
	s.count(&s.reads)
	return s.Conn.Read(p)
}

func (s *spy) Close() error {
	s.count(&s.closes)
	return s.Conn.Close()
}

func (s *spy) SetDeadline(d time.Time) error {
	s.count(&s.deadlines)
	return s.Conn.SetDeadline(d)
}

func (s *spy) SetReadDeadline(d time.Time) error {
	s.count(&s.deadlines)
	return s.Conn.SetReadDeadline(d)
}

func (s *spy) SetWriteDeadline(d time.Time) error {
	s.count(&s.deadlines)
	return s.Conn.SetWriteDeadline(d)
}

// drip is a connection that delivers one byte a read.
type drip struct{ net.Conn }

func (d drip) Read(p []byte) (int, error) { return d.Conn.Read(p[:min(1, len(p))]) }

// hold is a connection that keeps back what is written from the write that
// until says true for on, until release.
type hold struct {
	net.Conn
	until func(written int) bool
	n     int
	held  []byte
	free  bool
}

func (h *hold) Write(p []byte) (int, error) {
	h.n++
	if !h.free && (h.held != nil || h.until(h.n)) {
		h.held = append(h.held, p...)
		return len(p), nil
	}
	return h.Conn.Write(p)
}

func (h *hold) release() error {
	h.free = true
	_, err := h.Conn.Write(h.held)
	return err
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// scripted is a connection whose reads and writes return what is set, once it is.
type scripted struct {
	net.Conn
	read, write func(p []byte) (int, error)
}

func (s *scripted) Read(p []byte) (int, error) {
	if s.read != nil {
		return s.read(p)
	}
	return s.Conn.Read(p)
}

func (s *scripted) Write(p []byte) (int, error) {
	if s.write != nil {
		return s.write(p)
	}
	return s.Conn.Write(p)
}

// counts are what a Read or Write of n bytes must not return.
var counts = map[string]func(n int) int{
	"negative":     func(int) int { return -1 },
	"one too many": func(n int) int { return n + 1 },
	"far too many": func(n int) int { return n + 1<<20 },
}
