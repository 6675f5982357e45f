package record_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
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
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/require"
	"example.com/splitseal/record"
)

// The tests of this file run a handshake between crypto/tls on our side and a
// peer, crypto/tls or OpenSSL, over loopback TCP. Then our crypto/tls is left
// alone and a Sealer and an Opener speak in its place: 1,000 records of random
// sizes go each way, ours with random padding, with a key update in the middle
// that the peer answers.

const peerRecords = 1000

// tap is the transport of our side's handshake. It returns no byte beyond the
// record that is being read, so that crypto/tls buffers nothing of what follows
// the handshake, and keeps what was written.
type tap struct {
	net.Conn
	header  [record.HeaderSize]byte
	unread  []byte // of header
	left    int    // of the record's body
	written []byte
}

func (c *tap) Read(p []byte) (int, error) {
	if len(c.unread) == 0 && c.left == 0 {
		if _, err := io.ReadFull(c.Conn, c.header[:]); err != nil {
			return 0, err
		}
		c.unread = c.header[:]
		c.left = int(c.header[3])<<8 | int(c.header[4])
	}
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *tap) Write(p []byte) (int, error) {
	c.written = append(c.written, p...)
	return c.Conn.Write(p)
}

// ourSide is a connection after the handshake.
type ourSide struct {
	conn   net.Conn
	sealer *record.Sealer
	opener *record.Opener
	suite  *aead.Suite
	secret []byte // ours, for comparison with another log
	padded int    // records with padding that were opened
}

// handshake runs our side's handshake with crypto/tls and takes over from it.
func handshake(ctx context.Context, conn net.Conn, client bool, cfg *tls.Config, sealerConfig record.SealerConfig) (*ourSide, error) {
	var keyLog bytes.Buffer
	cfg = cfg.Clone()
	cfg.KeyLogWriter = &keyLog
	t := &tap{Conn: conn}
	var tlsConn *tls.Conn
	own, peer := "SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0"
	if client {
		tlsConn = tls.Client(t, cfg)
		own, peer = peer, own
	} else {
		tlsConn = tls.Server(t, cfg)
	}
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if len(t.unread) > 0 || t.left > 0 {
		return nil, errors.New("the handshake ended inside a record")
	}
	suite := aead.SuiteByID(tlsConn.ConnectionState().CipherSuite)
	if suite == nil || tlsConn.ConnectionState().Version != tls.VersionTLS13 {
		return nil, errors.New("not a TLS 1.3 suite")
	}
	secret := func(label string) []byte {
		for line := range strings.Lines(keyLog.String()) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == label {
				b, err := hex.DecodeString(f[2])
				if err == nil {
					return b
				}
			}
		}
		return nil
	}
	s := &ourSide{conn: conn, suite: suite, sealer: record.NewSealer(sealerConfig), opener: record.NewOpener(record.OpenerConfig{})}
	if err := s.opener.SetTrafficSecret(record.EpochApplication, suite, secret(peer)); err != nil {
		return nil, err
	}
	if err := s.sealer.SetTrafficSecret(record.EpochApplication, suite, secret(own)); err != nil {
		return nil, err
	}
	s.secret = secret(own)
	return s, s.catchUp(t.written, s.secret)
}

// catchUp brings the Sealer to the sequence number where crypto/tls stopped: a
// server has sent session tickets under its application keys. They are the last
// records it wrote, those that open under the application keys; sealing what
// they hold again must give the same bytes, and so uses no nonce for anything
// new.
func (s *ourSide) catchUp(written, secret []byte) error {
	var tickets *record.Opener
	for len(written) > 0 {
		n := record.HeaderSize + int(written[3])<<8 + int(written[4])
		rec := written[:n]
		written = written[n:]
		if rec[0] != byte(record.ContentTypeApplicationData) {
			continue
		}
		o := tickets
		if o == nil {
			o = record.NewOpener(record.OpenerConfig{})
			if err := o.SetTrafficSecret(record.EpochApplication, s.suite, secret); err != nil {
				return err
			}
		}
		opened, _, err := o.Open(bytes.Clone(rec))
		if err != nil && tickets == nil {
			continue // under handshake keys
		}
		if err != nil {
			return fmt.Errorf("record %d under application keys: %w", o.Seq(), err)
		}
		tickets = o
		again, err := s.sealer.Seal(nil, opened.Type, opened.Content)
		if err != nil || !bytes.Equal(again, rec) {
			return fmt.Errorf("crypto/tls's record %x, ours %x, %v", rec, again, err)
		}
	}
	return nil
}

// chunks returns the sizes of one direction's records, and their bytes.
func chunks(seed byte) (sizes []int, data []byte) {
	r := mathrand.New(mathrand.NewChaCha8([32]byte{seed}))
	total := 0
	for i := range peerRecords {
		n := r.IntN(record.MaxContentSize + 1)
		switch i {
		case 3:
			n = record.MaxContentSize
		case 5:
			n = 0
		case 7:
			n = 1
		}
		sizes = append(sizes, n)
		total += n
	}
	data = make([]byte, total)
	src := mathrand.NewChaCha8([32]byte{seed, 1})
	src.Read(data)
	return sizes, data
}

// write seals and sends data in records of these sizes, and asks for a key
// update in the middle.
func (s *ourSide) write(sizes []int, data []byte) error {
	buf := make([]byte, 0, 2*record.MaxRecordSize)
	seal := func(rec []byte, err error) error {
		if err == nil {
			_, err = s.conn.Write(rec)
		}
		return err
	}
	for i, n := range sizes {
		if i == len(sizes)/2 {
			if err := seal(s.sealer.SealKeyUpdate(buf, true)); err != nil {
				return fmt.Errorf("KeyUpdate: %w", err)
			}
		}
		content := data[:n]
		data = data[n:]
		var err error
		if i%2 == 0 {
			err = seal(s.sealer.Seal(buf, record.ContentTypeApplicationData, content))
		} else {
			err = seal(s.sealer.SealGather(buf, record.ContentTypeApplicationData, [][]byte{content[:n/3], content[n/3:]}))
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

// read opens what arrives until size bytes of application data are there, or, if
// size is negative, until close_notify. It returns the data and the number of
// records that held it.
func (s *ourSide) read(size int) (data []byte, records int, err error) {
	in := make([]byte, 0, 4*record.MaxRecordSize)
	dst := make([]byte, record.MaxContentSize)
	messages := record.NewHandshakeReader(1 << 16)
	for size < 0 || len(data) < size {
		rec, need, err := s.opener.OpenTo(dst[:records%(len(dst)+1)], in)
		if err != nil {
			return data, records, err
		}
		if need > 0 {
			if cap(in)-len(in) < need {
				in = append(make([]byte, 0, 4*record.MaxRecordSize), in...)
			}
			n, err := io.ReadAtLeast(s.conn, in[len(in):cap(in)], need)
			if err != nil {
				return data, records, err
			}
			in = in[:len(in)+n]
			continue
		}
		in = in[rec.Size:]
		switch rec.Type {
		case record.ContentTypeApplicationData:
			data = append(append(data, rec.Content...), rec.Rest...)
			records++
			if rec.Size > record.HeaderSize+len(rec.Content)+len(rec.Rest)+1+s.suite.TagSize() {
				s.padded++
			}
		case record.ContentTypeAlert:
			if a, err := record.ParseAlert(rec.Content); err != nil || a != record.AlertCloseNotify || size >= 0 {
				return data, records, fmt.Errorf("alert %v, %v", a, err)
			}
			return data, records, nil
		case record.ContentTypeHandshake:
			if err := messages.Append(rec.Content); err != nil {
				return data, records, err
			}
			for {
				msg, err := messages.Next()
				if err != nil {
					return data, records, err
				}
				if msg == nil {
					break
				}
				switch msg[0] {
				case 4: // NewSessionTicket
				case 24:
					request, err := record.ParseKeyUpdate(msg)
					if err == nil && (request || !messages.Empty()) {
						err = errors.New("unexpected KeyUpdate")
					}
					if err == nil {
						err = s.opener.KeyUpdate()
					}
					if err != nil {
						return data, records, err
					}
				default:
					return data, records, fmt.Errorf("message %d", msg[0])
				}
			}
		}
	}
	return data, records, nil
}

// exchange sends and receives at the same time, and checks what came.
func (s *ourSide) exchange(want []byte, untilClose bool) error {
	sizes, data := chunks(1)
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() { writeErr = s.write(sizes, data) })
	size := len(want)
	if untilClose {
		size = -1
	}
	got, records, err := s.read(size)
	if err != nil {
		s.conn.Close()
	}
	wg.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("after %d records, %d bytes: %w", records, len(got), err)
	case writeErr != nil:
		return writeErr
	case !bytes.Equal(got, want):
		return errors.New("the peer's data arrived changed")
	case s.opener.Generation() != 1 || s.sealer.Generation() != 1:
		return fmt.Errorf("%d and %d key updates, want one each way", s.opener.Generation(), s.sealer.Generation())
	}
	alert, err := s.sealer.SealAlert(nil, record.AlertCloseNotify)
	if err == nil {
		_, err = s.conn.Write(alert)
	}
	return err
}

func padding(r *mathrand.Rand) func(int) int {
	return func(int) int { return r.IntN(2) * r.IntN(2000) }
}

func ourConfig() record.SealerConfig {
	return record.SealerConfig{Padding: padding(mathrand.New(mathrand.NewChaCha8([32]byte{9})))}
}

var testCert = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

func tlsConfig(t *testing.T) *tls.Config {
	t.Helper()
	cert, err := testCert()
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ServerName: "localhost", InsecureSkipVerify: true,
		MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true,
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pipe returns the two ends of a loopback TCP connection, which are closed at the
// end of the test and when ctx is done.
func pipe(t *testing.T, ctx context.Context) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	deadline, _ := ctx.Deadline()
	for _, c := range []net.Conn{a, b} {
		c.SetDeadline(deadline)
		t.Cleanup(func() { c.Close() })
	}
	return a, b
}

// TestCryptoTLS speaks with crypto/tls in the other role, with session tickets and
// without.
func TestCryptoTLS(t *testing.T) {
	for _, client := range []bool{true, false} {
		for _, tickets := range []bool{true, false} {
			role := map[bool]string{true: "client", false: "server"}[client]
			t.Run(fmt.Sprintf("%s/tickets=%v", role, tickets), func(t *testing.T) {
				suite := cryptoTLS(t, client, tickets)
				t.Log(suite)
			})
		}
	}
}

func cryptoTLS(t *testing.T, client, tickets bool) *aead.Suite {
	ctx := testContext(t)
	cfg := tlsConfig(t)
	cfg.SessionTicketsDisabled = !tickets
	if tickets { // crypto/tls sends tickets to clients that can use them
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	ourConn, peerConn := pipe(t, ctx)
	peer := tls.Server(peerConn, cfg)
	if !client {
		peer = tls.Client(peerConn, cfg)
	}
	peerSizes, peerData := chunks(2)
	_, ourData := chunks(1)
	peerErr := make(chan error, 1)
	go func() { peerErr <- runPeer(ctx, peer, peerSizes, peerData, ourData) }()

	s, err := handshake(ctx, ourConn, client, cfg, ourConfig())
	if err == nil {
		if want := tickets && !client; s.sealer.Seq() > 0 != want {
			t.Errorf("sequence number %d after the handshake", s.sealer.Seq())
		}
		err = s.exchange(peerData, true)
	}
	if err != nil {
		ourConn.Close()
		t.Errorf("our side: %v", err)
	}
	if err := <-peerErr; err != nil {
		t.Errorf("peer: %v", err)
	}
	if t.Failed() {
		t.FailNow()
	}
	return s.suite
}

// runPeer is crypto/tls on the other side. It closes its half when it has sent
// everything, half of which it keeps back until the key update has been read.
func runPeer(ctx context.Context, peer *tls.Conn, sizes []int, data, want []byte) error {
	if err := peer.HandshakeContext(ctx); err != nil {
		return err
	}
	updated := make(chan struct{})
	writeErr := make(chan error, 1)
	go func() {
		for i, n := range sizes {
			if i == len(sizes)/2 {
				<-updated
			}
			if _, err := peer.Write(data[:n]); err != nil {
				writeErr <- err
				return
			}
			data = data[n:]
		}
		writeErr <- peer.CloseWrite()
	}()
	// A quarter of our data lies behind the key update when half of it is read.
	got := make([]byte, len(want))
	_, err := io.ReadFull(peer, got[:len(got)*3/4])
	close(updated)
	if err == nil {
		_, err = io.ReadFull(peer, got[len(got)*3/4:])
	}
	if err != nil {
		return errors.Join(err, <-writeErr)
	}
	if !bytes.Equal(got, want) {
		return errors.New("our data arrived changed")
	}
	if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("after our close_notify: %d bytes, %v", n, err)
	}
	return <-writeErr
}

// TestCryptoTLSChaCha20 runs TestCryptoTLS again in a process whose crypto/tls
// takes the processor for one without AES and prefers ChaCha20-Poly1305.
func TestCryptoTLSChaCha20(t *testing.T) {
	const env = "SPLITSEAL_TEST_CHACHA20"
	if os.Getenv(env) != "" {
		for _, client := range []bool{true, false} {
			if suite := cryptoTLS(t, client, true); suite != aead.ChaCha20Poly1305() {
				t.Errorf("crypto/tls chose %v", suite)
			}
		}
		return
	}
	// The runtime of Windows reads no GODEBUG before it looks at the processor.
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" || runtime.GOOS == "windows" {
		t.Skipf("GODEBUG=cpu.aes=off is not known to work on %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testContext(t), exe, "-test.run=^TestCryptoTLSChaCha20$")
	cmd.Env = append(os.Environ(), env+"=1", "GODEBUG=cpu.aes=off")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "exec format error") {
		t.Skip("no other process can be started here, as in an emulator: ", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOpenSSL speaks with openssl s_server and s_client, limited to one suite at a
// time. OpenSSL pads its records here, which full ones have no room for, and logs
// the secrets, which must be those of our side's log.
func TestOpenSSL(t *testing.T) {
	openssl := require.Tool(t, "openssl")
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, err := testCert()
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, suite := range []*aead.Suite{aead.AES256GCM(), aead.ChaCha20Poly1305()} {
		for _, client := range []bool{true, false} {
			role := map[bool]string{true: "client", false: "server"}[client]
			t.Run(suite.Name()+"/"+role, func(t *testing.T) {
				openSSL(t, openssl, suite, client, certFile, keyFile)
			})
		}
	}
}

func openSSL(t *testing.T, openssl string, suite *aead.Suite, client bool, certFile, keyFile string) {
	if fips140.Enabled() && suite == aead.ChaCha20Poly1305() {
		t.Skip("crypto/tls does not use ChaCha20-Poly1305 in FIPS 140-3 mode")
	}
	ctx := testContext(t)
	cfg := tlsConfig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	args := []string{"s_client", "-connect", addr, "-servername", "localhost"}
	if client {
		l.Close() // s_server listens there
		args = []string{"s_server", "-accept", addr, "-naccept", "1", "-cert", certFile, "-key", keyFile}
	}
	keyLog := filepath.Join(t.TempDir(), "keys")
	args = append(args, "-quiet", "-tls1_3", "-ciphersuites", suite.Name(), "-keylogfile", keyLog, "-record_padding", "700", "-max_send_frag", "5000")
	cmd := exec.CommandContext(ctx, openssl, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%v\n%s", cmd, stderr.Bytes())
		}
	}()

	var conn net.Conn
	if client {
		for { // until s_server listens
			conn, err = net.Dial("tcp", addr)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	} else {
		if conn, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)

	s, err := handshake(ctx, conn, client, cfg, ourConfig())
	if err != nil {
		t.Fatal(err)
	}
	if s.suite != suite {
		t.Fatalf("the handshake chose %v", s.suite)
	}
	_, ourData := chunks(1)
	_, peerData := chunks(2)
	peerErr := make(chan error, 1)
	go func() {
		// s_client and s_server make records of what they read from stdin. Half of
		// it waits until our key update has been answered.
		updated, writeErr := make(chan struct{}), make(chan error, 1)
		go func() {
			w := bufio.NewWriterSize(stdin, 16384)
			_, err := w.Write(peerData[:len(peerData)/2])
			<-updated
			if err == nil {
				_, err = w.Write(peerData[len(peerData)/2:])
			}
			if err == nil {
				err = w.Flush()
			}
			writeErr <- err
		}()
		got := make([]byte, len(ourData))
		_, err := io.ReadFull(stdout, got[:len(got)*3/4])
		close(updated)
		if err == nil {
			_, err = io.ReadFull(stdout, got[len(got)*3/4:])
		}
		if err == nil && !bytes.Equal(got, ourData) {
			err = errors.New("our data arrived changed")
		}
		peerErr <- errors.Join(err, <-writeErr)
	}()
	if err := s.exchange(peerData, false); err != nil {
		conn.Close()
		cmd.Process.Kill()
		t.Errorf("our side: %v", err)
	}
	if err := <-peerErr; err != nil {
		t.Errorf("peer: %v", err)
	}
	if log, err := os.ReadFile(keyLog); err != nil || !bytes.Contains(bytes.ToLower(log), fmt.Appendf(nil, "%x", s.secret)) {
		t.Errorf("OpenSSL's key log has not our traffic secret: %v", err)
	}
	if s.padded < peerRecords/10 {
		t.Errorf("OpenSSL padded %d records", s.padded)
	}
}
