package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/splitseal/internal/require"
	"example.com/splitseal/record"
)

// peerLimit bounds what one peer may take.
const peerLimit = 30 * time.Second

// writeFiles writes c for programs that read PEM.
func writeFiles(t testing.TB, c *certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.chain[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// program returns the path of a program that belongs to a word of package require.
func program(t testing.TB, word, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		require.Missing(t, word, err.Error())
	}
	return path
}

// peer is a program that talks to us.
type peer struct {
	stdin  io.WriteCloser
	output *bytes.Buffer // complete once wait has returned
	wait   func() error
}

// start starts a program, which ends with the test at the latest.
func start(t testing.TB, path string, args ...string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), peerLimit)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = 10 * time.Second // what is in the pipes can take a while on a busy machine
	p := &peer{output: new(bytes.Buffer)}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		err = cmd.Wait()
		close(done)
	}()
	p.wait = func() error {
		<-done
		return err
	}
	t.Cleanup(func() {
		cancel()
		p.wait()
		if t.Failed() {
			t.Logf("%s %s\n%.4000s", path, strings.Join(args, " "), p.output)
		}
	})
	return p
}

// serveOne accepts one connection of a peer and serves a request.
func serveOne(t testing.TB, ln net.Listener, cfg serverConfig) (*parameters, error) {
	t.Helper()
	ln.(*net.TCPListener).SetDeadline(time.Now().Add(peerLimit))
	transport, err := ln.Accept()
	if err != nil {
		return nil, err
	}
	defer transport.Close()
	conn, p, err := server(transport, cfg)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(peerLimit))
	if err := readRequest(conn); err != nil {
		return p, err
	}
	const page = "a page of ours"
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
	return p, conn.Close()
}

// readRequest reads a line that begins with GET, and what comes with it.
func readRequest(conn *record.Conn) error {
	line := make([]byte, 4096)
	n, err := conn.Read(line)
	if err == nil && !bytes.HasPrefix(line[:n], []byte("GET")) {
		err = fmt.Errorf("request %q", line[:n])
	}
	return err
}

func listen(t testing.TB) (ln net.Listener, port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return ln, port
}

// dial connects to a program that may not listen yet.
func dial(t testing.TB, port string) net.Conn {
	t.Helper()
	for end := time.Now().Add(peerLimit); ; time.Sleep(5 * time.Millisecond) {
		transport, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			t.Cleanup(func() { transport.Close() })
			return transport
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// freePort returns a port that nobody listened on a moment ago, and that it has
// not returned before. It is below those that systems give to clients.
func freePort(t testing.TB) string {
	t.Helper()
	for {
		port := strconv.Itoa(20000 + rand.IntN(12000))
		if _, used := ports.LoadOrStore(port, true); used {
			continue
		}
		if ln, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			ln.Close()
			// A process that was just forked has it, too, until it runs its program:
			// who connected to that would be reset.
			for {
				conn, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					return port
				}
				conn.Close()
			}
		}
	}
}

var ports sync.Map

// echo sends a line and reads until it, or the line reversed, has come back.
func echo(t testing.TB, conn *record.Conn, line, want string) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(peerLimit))
	if _, err := io.WriteString(conn, line); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for !bytes.Contains(got, []byte(want)) {
		p := make([]byte, 4096)
		n, err := conn.Read(p)
		if err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		got = append(got, p[:n]...)
	}
}

// opensslGroups are the names that openssl has for groups.
var opensslGroups = map[*group]string{x25519: "X25519", secp256r1: "P-256"}

// TestOpenSSLServer is our client and openssl's server, for every group, asked for
// at once or by a HelloRetryRequest, and every key type. With -verify it asks for a
// certificate that we do not have. With -stateless it would send a cookie, but then
// it fails at the change_cipher_spec before the second ClientHello, its own
// client's too.
func TestOpenSSLServer(t *testing.T) {
	openssl := program(t, "openssl", "openssl")
	type test struct {
		name  string
		sch   *scheme
		group *group // the server's
		first *group // of our share
		retry bool
		args  []string
	}
	tests := []test{
		{"certificate wanted", ecdsaP256, x25519, x25519, false, []string{"-verify", "1"}},
		{"without compatibility mode", ecdsaP256, secp256r1, x25519, true, []string{"-no_middlebox"}},
		{"messages in fragments", rsaPSS, x25519, x25519, false, []string{"-max_send_frag", "512"}},
	}
	for _, sch := range allSchemes {
		tests = append(tests, test{sch.name, sch, x25519, x25519, false, nil})
	}
	for _, g := range allGroups {
		for _, first := range allGroups {
			tests = append(tests, test{g.name + " after " + first.name, ecdsaP256, g, first, g != first, nil})
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cert, key := writeFiles(t, certFor(test.sch))
			port := freePort(t)
			args := append([]string{"s_server", "-accept", "127.0.0.1:" + port, "-cert", cert, "-key", key, "-tls1_3", "-rev",
				"-groups", opensslGroups[test.group], "-alpn", "proto"}, test.args...)
			start(t, openssl, args...)
			cc := testClient()
			cc.protocols = []string{"other", "proto"}
			cc.shares = []*group{test.first}
			conn, p, err := client(dial(t, port), cc)
			if err != nil {
				t.Fatal(err)
			}
			if p.group != test.group || p.scheme != test.sch || p.retried != test.retry || p.protocol != "proto" {
				t.Errorf("negotiated %v", p)
			}
			echo(t, conn, "hello\n", "olleh\n")
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOpenSSLClient is openssl's client and our server.
func TestOpenSSLClient(t *testing.T) {
	openssl := program(t, "openssl", "openssl")
	type test struct {
		name   string
		sch    *scheme
		groups string // the client's
		group  *group // the server's
		retry  bool
		args   []string
	}
	tests := []test{
		{"retry for secp256r1", ecdsaP256, "X25519:P-256", secp256r1, true, nil},
		{"retry for X25519", ecdsaP256, "P-384:X25519", x25519, true, nil},
		{"secp256r1", ecdsaP256, "P-256", secp256r1, false, nil},
		{"without compatibility mode", ecdsaP256, "X25519:P-256", secp256r1, true, []string{"-no_middlebox"}},
	}
	for _, sch := range allSchemes {
		tests = append(tests, test{sch.name, sch, "X25519", x25519, false, nil})
	}
	for _, suite := range []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"} {
		tests = append(tests, test{suite, ecdsaP256, "X25519", x25519, false, []string{"-ciphersuites", suite}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cert, _ := writeFiles(t, certFor(test.sch))
			ln, port := listen(t)
			args := append([]string{"s_client", "-connect", "127.0.0.1:" + port, "-CAfile", cert, "-verify_return_error", "-verify_hostname", "localhost",
				"-servername", "localhost", "-tls1_3", "-groups", test.groups, "-alpn", "other,proto", "-ign_eof"}, test.args...)
			c := start(t, openssl, args...)
			io.WriteString(c.stdin, "GET /\n")
			sc := testServer()
			sc.certificates = []*certificate{certFor(test.sch)}
			sc.groups = []*group{test.group}
			sc.protocols = []string{"proto"}
			p, err := serveOne(t, ln, sc)
			if err != nil {
				t.Fatal(err)
			}
			if p.group != test.group || p.scheme != test.sch || p.retried != test.retry || p.protocol != "proto" || p.serverName != "localhost" {
				t.Errorf("negotiated %v", p)
			}
			if err := c.wait(); err != nil {
				t.Error(err)
			}
			for _, want := range []string{"a page of ours", "Verify return code: 0 (ok)", "ALPN protocol: proto"} {
				if !strings.Contains(c.output.String(), want) {
					t.Errorf("openssl does not print %q", want)
				}
			}
		})
	}
}

var gnutlsGroups = map[*group]string{x25519: "GROUP-X25519", secp256r1: "GROUP-SECP256R1"}

// TestGnuTLSServer is our client and gnutls-serv, which sends tickets.
func TestGnuTLSServer(t *testing.T) {
	serv := program(t, "gnutls", "gnutls-serv")
	for _, g := range allGroups {
		for _, sch := range allSchemes {
			t.Run(g.name+"/"+sch.name, func(t *testing.T) {
				t.Parallel()
				cert, key := writeFiles(t, certFor(sch))
				port := freePort(t)
				start(t, serv, "--x509certfile", cert, "--x509keyfile", key, "--port", port, "--echo", "--quiet", "--disable-client-cert",
					"--priority", "NONE:+VERS-TLS1.3:+AEAD:+SIGN-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+"+gnutlsGroups[g])
				conn, p, err := client(dial(t, port), testClient())
				if err != nil {
					t.Fatal(err)
				}
				if p.group != g || p.scheme != sch || p.retried != (g != allGroups[0]) {
					t.Errorf("negotiated %v", p)
				}
				echo(t, conn, "hello\n", "hello\n")
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestGnuTLSClient is gnutls-cli and our server.
func TestGnuTLSClient(t *testing.T) {
	cli := program(t, "gnutls", "gnutls-cli")
	for _, g := range allGroups {
		for _, sch := range allSchemes {
			t.Run(g.name+"/"+sch.name, func(t *testing.T) {
				t.Parallel()
				cert, _ := writeFiles(t, certFor(sch))
				ln, port := listen(t)
				c := start(t, cli, "--x509cafile", cert, "--port", port, "--logfile", "/dev/stderr", "--single-key-share",
					"--priority", "NONE:+VERS-TLS1.3:+AEAD:+SIGN-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:+GROUP-X25519:+GROUP-SECP256R1", "localhost")
				io.WriteString(c.stdin, "GET /\n")
				sc := testServer()
				sc.certificates = []*certificate{certFor(sch)}
				sc.groups = []*group{g}
				p, err := serveOne(t, ln, sc)
				if err != nil {
					t.Fatal(err)
				}
				if p.group != g || p.scheme != sch || p.retried != (g != x25519) || p.serverName != "localhost" {
					t.Errorf("negotiated %v", p)
				}
				if err := c.wait(); err != nil {
					t.Error(err)
				}
				if !strings.Contains(c.output.String(), "a page of ours") {
					t.Error("gnutls-cli has not received the page")
				}
			})
		}
	}
}

// TestCurl has curl fetch a page by the name and by the address.
func TestCurl(t *testing.T) {
	curl := program(t, "curl", "curl")
	for _, host := range []string{"localhost", "127.0.0.1"} {
		for _, g := range allGroups {
			t.Run(host+"/"+g.name, func(t *testing.T) {
				t.Parallel()
				cert, _ := writeFiles(t, certFor(ecdsaP256))
				ln, port := listen(t)
				c := start(t, curl, "--silent", "--show-error", "--ipv4", "--noproxy", "*", "--cacert", cert, "https://"+host+":"+port+"/")
				sc := testServer()
				sc.groups = []*group{g}
				sc.protocols = []string{"http/1.1"}
				p, err := serveOne(t, ln, sc)
				if err != nil {
					t.Fatal(err)
				}
				if p.group != g || p.protocol != "http/1.1" || (p.serverName == "localhost") != (host == "localhost") {
					t.Errorf("negotiated %v", p)
				}
				if err := c.wait(); err != nil {
					t.Error(err)
				}
				if got := c.output.String(); got != "a page of ours" {
					t.Errorf("curl has received %q", got)
				}
			})
		}
	}
}

// TestChromium has a browser show a page, from a server that takes its key share
// and from one that asks for another.
func TestChromium(t *testing.T) {
	chromium := require.Tool(t, "chromium")
	for _, g := range allGroups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			// Not TempDir: the browser's processes may write for a moment after it has ended.
			home, err := os.MkdirTemp("", "tlsstack")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(home) })
			ln, port := listen(t)
			sc := testServer()
			sc.groups = []*group{g}
			sc.protocols = []string{"http/1.1"}
			go func() {
				for {
					transport, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer transport.Close()
						answer(transport, sc, time.Minute) // connections that a browser does not use among them
					}()
				}
			}()
			key := sha256.Sum256(sc.certificates[0].leaf.RawSubjectPublicKeyInfo)
			c := start(t, "env", "HOME="+home, chromium,
				"--headless", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run", "--no-proxy-server",
				// Root cannot have a sandbox, and the page is ours.
				"--no-sandbox", "--user-data-dir="+filepath.Join(home, "data"),
				// This certificate and no other.
				"--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:]),
				"--dump-dom", "https://localhost:"+port+"/")
			if err := c.wait(); err != nil {
				t.Error(err)
			}
			for _, want := range []string{"group: " + g.name, `protocol: "http/1.1"`, fmt.Sprintf("HelloRetryRequest: %v", g != x25519)} {
				if !strings.Contains(c.output.String(), want) {
					t.Errorf("the browser does not show %q", want)
				}
			}
		})
	}
}
