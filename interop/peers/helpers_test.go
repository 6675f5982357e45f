package peers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/require"
	"example.com/splitseal/interop/cryptotls"
	"example.com/splitseal/record"
)

// waitLimit bounds every wait.
const waitLimit = 90 * time.Second

// noDeadline takes a deadline away.
var noDeadline time.Time

// files are the credentials: a certificate authority, which every client trusts,
// and the certificate and key that every server uses.
type files struct {
	dir, ca, cert, key string
	pool               *x509.CertPool
	pair               tls.Certificate
}

var credentials = sync.OnceValues(func() (*files, error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return nil, err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	f := &files{dir: dir, pool: x509.NewCertPool()}
	f.ca, f.cert, f.key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	f.pool.AppendCertsFromPEM(caPEM)
	if f.pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, err
	}
	return f, errors.Join(os.WriteFile(f.ca, caPEM, 0o600), os.WriteFile(f.cert, certPEM, 0o600), os.WriteFile(f.key, keyPEM, 0o600))
})

func creds(t testing.TB) *files {
	t.Helper()
	f, err := credentials()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// process is a peer in a process of its own.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr lockedBuffer
	done   chan struct{}
	err    error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run starts a program. It is killed when the test ends, or after waitLimit.
func run(t testing.TB, env []string, name string, args ...string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return runInput(t, env, r, w, name, args...)
}

// runOnSocket is run with a socket for standard input. NSS's tstclnt polls a pipe
// that was closed for ever.
func runOnSocket(t testing.TB, env []string, name string, args ...string) *process {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	return runInput(t, env, r, w, name, args...)
}

// runInput is run with r, which it closes, as standard input. What is written to
// stdin arrives there.
func runInput(t testing.TB, env []string, r *os.File, stdin io.WriteCloser, name string, args ...string) *process {
	t.Helper()
	defer r.Close()
	p := &process{t: t, cmd: exec.CommandContext(testContext(t), name, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = 10 * time.Second // what is in the pipes can take a while on a busy machine
	// Not StdoutPipe, which Wait closes under the reader.
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.stdout = stdin, out
	p.cmd.Stdin, p.cmd.Stdout = r, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	out.SetDeadline(time.Now().Add(waitLimit))
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		out.Close()
		stdin.Close()
		if t.Failed() {
			t.Logf("%s %s\nstderr: %.4000s", name, strings.Join(args, " "), p.stderr.String())
		}
	})
	return p
}

// kill ends the process without a chance to say goodbye.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// wait waits for the process to end by itself and returns its exit error.
func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(waitLimit):
		p.t.Fatal("the peer does not end")
		return nil
	}
}

// output runs a program to its end and returns what it printed.
func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// printed is output without what the program says on standard error.
func printed(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(testContext(t), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

// firstLine returns the first line of s that holds part.
func firstLine(s, part string) string {
	for line := range strings.SplitSeq(s, "\n") {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// tool returns the path of a program of the peer called word, or ends the test
// as package require says.
func tool(t testing.TB, word, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		missing(t, word, err.Error())
	}
	return path
}

// python returns the interpreter itself, not a wrapper that chooses one.
func python(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(output(t, tool(t, "python", "python3"), "-c", "import sys; print(sys.executable)"))
}

// missing skips the test, and notes that the peer's rows of the matrix cannot be
// checked.
func missing(t testing.TB, word, reason string) {
	t.Helper()
	matrix.lacks(word)
	require.Missing(t, word, reason)
}

// ourSide is our end of one connection, and what it can tell.
type ourSide struct {
	*cryptotls.Conn
	raw    *tap
	sealer *record.Sealer
	opener *record.Opener
	keys   *lockedBuffer // key log
}

// tap keeps what went over the wire.
type tap struct {
	net.Conn
	mu       sync.Mutex
	received []byte
	chunks   []chunk // both ways
}

// chunk is what one call carried.
type chunk struct {
	sent bool
	data []byte
}

func (p *tap) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.mu.Lock()
	p.received = append(p.received, b[:n]...)
	p.chunks = append(p.chunks, chunk{false, bytes.Clone(b[:n])})
	p.mu.Unlock()
	return n, err
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.chunks = append(p.chunks, chunk{true, bytes.Clone(b)})
	p.mu.Unlock()
	return p.Conn.Write(b)
}

// recordSizes returns the body sizes of the protected records that came in.
func (p *tap) recordSizes() (sizes []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := p.received; len(b) >= record.HeaderSize; {
		n := int(b[3])<<8 | int(b[4])
		if len(b) < record.HeaderSize+n {
			break
		}
		if b[0] == 23 {
			sizes = append(sizes, n)
		}
		b = b[record.HeaderSize+n:]
	}
	return sizes
}

// options returns Options whose connection ends up in side.
func (side *ourSide) options(padding func(int) int) *cryptotls.Options {
	return &cryptotls.Options{
		Sealer: record.SealerConfig{Padding: padding},
		Record: func(c *record.ConnConfig) { side.sealer, side.opener = c.Sealer, c.Opener },
	}
}

// listener accepts one connection of a peer on loopback.
type listener struct {
	t testing.TB
	net.Listener
}

func listen(t testing.TB) *listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.TCPListener).SetDeadline(time.Now().Add(waitLimit))
	t.Cleanup(func() { ln.Close() })
	return &listener{t, ln}
}

func (l *listener) port() string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// serve does the server's handshake with the next peer. It sets fields of config,
// which holds the session ticket keys and so is not cloned.
func (l *listener) serve(config *tls.Config, padding func(int) int) *ourSide {
	l.t.Helper()
	raw, err := l.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	side := newSide(l.t, raw)
	if config == nil {
		config = &tls.Config{}
	}
	config.Certificates = []tls.Certificate{creds(l.t).pair}
	config.KeyLogWriter = side.keys
	c, err := cryptotls.Server(testContext(l.t), side.raw, config, side.options(padding))
	if err != nil {
		l.t.Fatalf("handshake: %v", err)
	}
	side.Conn = c.(*cryptotls.Conn)
	return side
}

func newSide(t testing.TB, raw net.Conn) *ourSide {
	raw.SetDeadline(time.Now().Add(waitLimit))
	t.Cleanup(func() { raw.Close() })
	return &ourSide{raw: &tap{Conn: raw}, keys: new(lockedBuffer)}
}

// freePort returns a port that nobody listened on a moment ago, and that it has
// not returned before. It is below those that systems give to clients.
func freePort(t testing.TB) string {
	t.Helper()
	for {
		port := 20000 + mathrand.IntN(12000)
		if _, used := ports.LoadOrStore(port, true); used {
			continue
		}
		address := "127.0.0.1:" + strconv.Itoa(port)
		if ln, err := net.Listen("tcp", address); err == nil {
			ln.Close()
			// A process that was just forked has it, too, until it runs its program:
			// who connected to that would be reset.
			for {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					return strconv.Itoa(port)
				}
				conn.Close()
			}
		}
	}
}

var ports sync.Map

// dial connects to a peer that may not listen yet, and does the client's
// handshake.
func dial(t testing.TB, p *process, port string, config *tls.Config, padding func(int) int) *ourSide {
	t.Helper()
	var raw net.Conn
	for end := time.Now().Add(waitLimit); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if raw, err = net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		if p != nil {
			select {
			case <-p.done:
				t.Fatalf("the peer ended: %v", p.err)
			default:
			}
		}
	}
	side := newSide(t, raw)
	if config == nil {
		config = &tls.Config{}
	} else {
		config = config.Clone()
	}
	config.RootCAs = creds(t).pool
	config.ServerName = "localhost"
	config.KeyLogWriter = side.keys
	c, err := cryptotls.Client(testContext(t), side.raw, config, side.options(padding))
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	side.Conn = c.(*cryptotls.Conn)
	return side
}

// far is the other end of a connection, as the test reaches it.
type far struct {
	in   io.Writer // the peer sends what is written here; nil if it echoes
	out  io.Reader // what the peer receives; nil if it echoes
	text bool      // lines of text only
}

// sizes are the sizes of messages in bytes, bodies those of HTTP bodies.
var (
	sizes  = []int{1, 2, 17, 1350, 16383, 16384, 16385, 50_000, 1 << 20}
	bodies = append([]int{0}, sizes...)
)

// textLetters are letters that no peer's program takes for a command.
const textLetters = "abcdefghijlmnopstuvwxyz012345678"

// message returns size bytes, which end in a newline if they are text.
func message(size int, text bool) []byte {
	p := make([]byte, size)
	rand.Read(p)
	if text {
		for i := range p {
			p[i] = textLetters[p[i]&31]
			if i%64 == 63 {
				p[i] = '\n'
			}
		}
		if size > 0 {
			p[size-1] = '\n'
		}
	}
	return p
}

// talk sends messages of all sizes up to most both ways, in writes of random
// sizes.
func talk(t testing.TB, side *ourSide, f far, most int) {
	t.Helper()
	for _, size := range sizes {
		if size > most {
			break
		}
		if f.in == nil {
			want := message(size, f.text)
			transfer(t, "to the peer and back", want, side, side, size)
			continue
		}
		transfer(t, "to the peer", message(size, f.text), side, f.out, size)
		transfer(t, "from the peer", message(size, f.text), f.in, side, size)
	}
}

func transfer(t testing.TB, what string, want []byte, to io.Writer, from io.Reader, size int) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- writeRandomly(to, want) }()
	got := make([]byte, size)
	n, err := io.ReadFull(from, got)
	if err != nil {
		t.Fatalf("%d bytes %s: read %d, %v", size, what, n, err)
	}
	if err := <-sent; err != nil {
		t.Fatalf("%d bytes %s: %v", size, what, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes %s: arrived changed", size, what)
	}
}

// writeRandomly writes p in pieces of random sizes, from one byte to twice a
// record.
func writeRandomly(w io.Writer, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), 1+mathrand.IntN(1<<mathrand.IntN(16)))
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// randomPadding is a padding policy without a pattern.
func randomPadding(int) int { return mathrand.IntN(600) }

// ourKeyUpdate updates our keys and requests an update in return, and checks
// that the peer obeyed by the time it sends again.
func ourKeyUpdate(t testing.TB, side *ourSide, f far) {
	t.Helper()
	for i := range 3 {
		before := side.opener.Generation()
		if err := side.KeyUpdate(true); err != nil {
			t.Fatal(err)
		}
		talk(t, side, f, 1350)
		if got := side.opener.Generation(); got <= before {
			t.Fatalf("KeyUpdate %d: the peer has not updated its keys", i)
		}
	}
}

// closeFirst sends our close_notify and waits for the peer's. Whatever comes
// before that is dropped.
func closeFirst(t testing.TB, side *ourSide) {
	t.Helper()
	if err := side.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, side); err != nil {
		t.Fatalf("the peer's end: %v", err)
	}
	if err := side.Close(); err != nil {
		t.Fatal(err)
	}
}

// peerClosed waits for the peer's close_notify and closes our side.
func peerClosed(t testing.TB, side *ourSide) {
	t.Helper()
	if _, err := io.Copy(io.Discard, side); err != nil {
		t.Fatalf("the peer's end: %v", err)
	}
	if err := side.Close(); err != nil {
		t.Fatal(err)
	}
}

// truncated checks that a connection that the peer left without close_notify does
// not end like one with.
func truncated(t testing.TB, side *ourSide) {
	t.Helper()
	if _, err := io.Copy(io.Discard, side); err == nil {
		t.Fatal("a truncated connection ends like a whole one")
	}
}

// resume has a peer connect twice, and the second connection be resumed. start
// starts it and returns what makes the next connection, for which the config has to
// be kept; use does something with each connection, and closes it.
func resume(t testing.TB, r *row, suite *aead.Suite, start func(*tls.Config) func() *ourSide, use func(i int, side *ourSide)) {
	t.Helper()
	next := start(&tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1)})
	for i := range 2 {
		side := next()
		wantSuite(t, side, suite)
		if got := side.ConnectionState().DidResume; got != (i == 1) {
			t.Fatalf("connection %d resumed: %v", i, got)
		}
		use(i, side)
	}
	r.did(resumption)
}

// useEcho is a use of connections with a peer that echoes, for resume.
func useEcho(t testing.TB) func(i int, side *ourSide) {
	return func(_ int, side *ourSide) {
		talk(t, side, far{}, 1350)
		closeFirst(t, side)
	}
}

// suites are those that crypto/tls negotiates.
func suites() []*aead.Suite { return aead.Suites() }

func wantSuite(t testing.TB, side *ourSide, suite *aead.Suite) {
	t.Helper()
	if got := side.ConnectionState().CipherSuite; got != suite.ID() {
		t.Fatalf("negotiated %s, want %s", tls.CipherSuiteName(got), suite)
	}
}

// short returns the suite's name as a row shows it.
func short(s *aead.Suite) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(s.Name(), "TLS_"), "_SHA256"), "_SHA384")
}

// waitFor polls until f is true.
func waitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

func fatalf(t testing.TB, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}
