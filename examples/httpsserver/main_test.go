package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/require"
)

// runMain makes the test program this program, for tests that start it.
const runMain = "HTTPSSERVER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// waitLimit bounds every wait.
const waitLimit = 90 * time.Second

// site is a server that a test has started.
type site struct {
	cert   *x509.Certificate
	port   string
	url    string // without a slash at its end
	client *http.Client
	stop   func() error // as often as one likes
}

// start serves on a free port until the test ends, or stop is called. It fails the
// test if goroutines are left then.
func start(t *testing.T) *site {
	before := runtime.NumGoroutine()
	pair, err := selfSigned()
	fatal(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	fatal(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	_, port, err := net.SplitHostPort(ln.Addr().String())
	fatal(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, pair) }()

	s := &site{cert: cert, port: port, url: "https://localhost:" + port, client: newClient(cert)}
	s.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(waitLimit):
			return errors.New("the server does not end")
		}
	})
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		fatal(t, s.stop())
		for end := time.Now().Add(waitLimit); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
	return s
}

// newClient returns a client that trusts cert and nothing else. Its TLS is
// crypto/tls's.
func newClient(cert *x509.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	config := &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: waitLimit}
}

// exchange makes a request and returns the answer and its body.
func exchange(t testing.TB, client *http.Client, method, url string, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	resp, got, err := tryExchange(client, method, url, body)
	fatal(t, err)
	return resp, got
}

func tryExchange(client *http.Client, method, url string, body io.Reader) (*http.Response, []byte, error) {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return nil, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, got, err
}

// downloaded is what a download of size bytes must be.
func downloaded(size int) []byte {
	return slices.Repeat(content, size/len(content)+1)[:size]
}

// received is what the server must say to an upload of p.
func received(p []byte) string {
	return fmt.Sprintf("%d bytes, CRC-32 %08x\n", len(p), crc32.ChecksumIEEE(p))
}

func random(size int) []byte {
	p := make([]byte, size)
	rand.Read(p)
	return p
}

var cell = regexp.MustCompile(`<td id="([a-z]+)">([^\n<]*)`)

// checkPage checks what the page says. An empty string in want stands for
// anything but nothing.
func checkPage(t testing.TB, text []byte, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, m := range cell.FindAllSubmatch(text, -1) {
		got[string(m[1])] = html.UnescapeString(string(m[2]))
	}
	for id, w := range want {
		if got[id] == "" || w != "" && got[id] != w {
			t.Errorf("the page says %s %q, want %q", id, got[id], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the page says %q, want %q", got, want)
	}
}

// TestPage compares what the page says with what the client knows of the
// connection, the second time of one that was resumed.
func TestPage(t *testing.T) {
	s := start(t)
	for _, resumed := range []bool{false, true} {
		resp, text := exchange(t, s.client, "GET", s.url+"/", nil)
		s.client.CloseIdleConnections()
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			t.Fatalf("%s, %v\n%s", resp.Status, resp.Header, text)
		}
		if resp.TLS.DidResume != resumed {
			t.Errorf("resumed: %v, want %v", resp.TLS.DidResume, resumed)
		}
		checkPage(t, text, map[string]string{
			"version": "TLS 1.3",
			"suite":   tls.CipherSuiteName(resp.TLS.CipherSuite),
			"curve":   resp.TLS.CurveID.String(),
			"alpn":    "http/1.1",
			"http":    "HTTP/1.1",
			"resumed": strconv.FormatBool(resumed),
			"backend": backend(resp.TLS.CipherSuite),
		})
	}
}

func TestBackend(t *testing.T) {
	key, err := gcm.New(make([]byte, 16))
	fatal(t, err)
	for suite, want := range map[uint16]string{
		tls.TLS_AES_128_GCM_SHA256:       key.Backend(),
		tls.TLS_AES_256_GCM_SHA384:       key.Backend(),
		tls.TLS_CHACHA20_POLY1305_SHA256: "none: golang.org/x/crypto",
		tls.TLS_RSA_WITH_RC4_128_SHA:     "unknown",
	} {
		if got := backend(suite); got != want {
			t.Errorf("%s: %q, want %q", tls.CipherSuiteName(suite), got, want)
		}
	}
}

func TestSelfSigned(t *testing.T) {
	pair, err := selfSigned()
	fatal(t, err)
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	fatal(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: name, Roots: pool}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "example.com", Roots: pool}); err == nil {
		t.Error("the certificate is one for example.com")
	}
	if valid := cert.NotAfter.Sub(cert.NotBefore); valid != 24*time.Hour {
		t.Errorf("valid for %v", valid)
	}
}

// TestTransfer downloads and uploads up to 64 MiB, a short test 8.
func TestTransfer(t *testing.T) {
	s := start(t)
	most := 64 << 20
	if testing.Short() {
		most = 8 << 20
	}
	for _, size := range []int{0, 1, 16384, 16385, len(content), len(content) + 1, most} {
		resp, got := exchange(t, s.client, "GET", s.url+"/download?bytes="+strconv.Itoa(size), nil)
		if resp.StatusCode != 200 || resp.ContentLength != int64(size) || sha256.Sum256(got) != sha256.Sum256(downloaded(size)) {
			t.Errorf("download of %d bytes: %s, %d bytes announced, %d bytes, SHA-256 %x, want %x", size, resp.Status,
				resp.ContentLength, len(got), sha256.Sum256(got), sha256.Sum256(downloaded(size)))
		}
		// A body of unknown length too.
		for _, known := range []bool{true, false} {
			sent := random(size)
			body := io.Reader(bytes.NewReader(sent))
			if !known {
				body = io.MultiReader(body)
			}
			if resp, got = exchange(t, s.client, "POST", s.url+"/upload", body); resp.StatusCode != 200 || string(got) != received(sent) {
				t.Errorf("upload of %d bytes: %s %q, want %q", size, resp.Status, got, received(sent))
			}
		}
	}
}

// TestRequests are those that are refused, and HEAD.
func TestRequests(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		method, path string
		status       int
		size         int64
	}{
		{"HEAD", "/download?bytes=9223372036854775807", 200, 1<<63 - 1},
		{"GET", "/download", 400, -1},
		{"GET", "/download?bytes=", 400, -1},
		{"GET", "/download?bytes=-1", 400, -1},
		{"GET", "/download?bytes=1e6", 400, -1},
		{"GET", "/download?bytes=9223372036854775808", 400, -1},
		{"POST", "/download?bytes=1", 405, -1},
		{"GET", "/upload", 405, -1},
		{"POST", "/", 405, -1},
		{"GET", "/nothing", 404, -1},
	} {
		resp, _ := exchange(t, s.client, test.method, s.url+test.path, nil)
		if resp.StatusCode != test.status || test.size >= 0 && resp.ContentLength != test.size {
			t.Errorf("%s %s: %s, %d bytes announced; want %d, %d", test.method, test.path, resp.Status, resp.ContentLength, test.status, test.size)
		}
	}
}

// TestPlainHTTP forgets the s of https.
func TestPlainHTTP(t *testing.T) {
	var said bytes.Buffer
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	s := start(t)
	resp, text := exchange(t, s.client, "GET", "http://localhost:"+s.port+"/", nil)
	if resp.StatusCode != 400 || !strings.Contains(string(text), "https://") {
		t.Errorf("%s: %s", resp.Status, text)
	}
	fatal(t, s.stop())
	log.SetOutput(os.Stderr) // nobody writes to said from here on
	if !strings.Contains(said.String(), "127.0.0.1:") {
		t.Errorf("said %q", &said)
	}
}

// swapped is a client's transport that sends header, and nothing of a record behind
// it, instead of the first protected record.
type swapped struct {
	net.Conn
	header []byte
	done   bool
}

func (s *swapped) Write(p []byte) (int, error) {
	at := 0 // change_cipher_spec may stand first
	for at < len(p) && p[at] != 23 {
		at += 5 + int(p[at+3])<<8 + int(p[at+4])
	}
	if s.done || at >= len(p) {
		return s.Conn.Write(p)
	}
	s.done = true
	_, err := s.Conn.Write(append(p[:at:at], s.header...))
	return len(p), err
}

// TestNotPlainHTTP sends records that crypto/tls refuses, from clients that do speak
// TLS. In a handshake there is an alert, and no plain text behind it: "Whenever
// an implementation encounters a fatal error condition, it SHOULD send an appropriate
// fatal alert and MUST close the connection without sending or receiving any
// additional data." (RFC 9846, Section 6.2)
func TestNotPlainHTTP(t *testing.T) {
	var said bytes.Buffer
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	s := start(t)
	for _, test := range []struct {
		name      string
		handshake bool // first, up to the client's Finished
		header    []byte
	}{
		{"application data first", false, []byte{23, 3, 3, 0, 20}},
		{"record too large", true, []byte{23, 3, 3, 0x41, 0x01}},
		{"another version", true, []byte{23, 3, 1, 0, 20}},
		{"a request in a handshake", true, []byte("GET /")},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
			fatal(t, err)
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(waitLimit))
			if test.handshake {
				c := &swapped{Conn: conn, header: test.header}
				pool := x509.NewCertPool()
				pool.AddCert(s.cert)
				fatal(t, tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "localhost"}).Handshake())
				if !c.done {
					t.Fatal("the client has sent no protected record")
				}
			} else {
				_, err = conn.Write(test.header)
				fatal(t, err)
			}
			// There may be tickets; then the alert, whose record has 2 bytes, the content
			// type and 16 of the tag.
			got, err := io.ReadAll(conn)
			fatal(t, err)
			last := 0
			for rest := got; len(rest) > 0; {
				if len(rest) < 5 || !bytes.Equal(rest[:3], []byte{23, 3, 3}) || len(rest) < 5+int(rest[3])<<8+int(rest[4]) {
					t.Fatalf("received %q, of which %q is no record", got, rest)
				}
				last = int(rest[3])<<8 + int(rest[4])
				rest = rest[5+last:]
			}
			if want := 19; test.handshake && last != want {
				t.Errorf("the last record has %d bytes, want an alert's %d", last, want)
			}
		})
	}
	fatal(t, s.stop())
	log.SetOutput(os.Stderr) // nobody writes to said from here on
	if n := strings.Count(said.String(), "127.0.0.1:"); n != 4 {
		t.Errorf("said %q", &said)
	}
}

// TestConcurrentClients has clients with a connection of their own ask at the
// same time.
func TestConcurrentClients(t *testing.T) {
	s := start(t)
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			client := newClient(s.cert)
			defer client.CloseIdleConnections()
			for range rounds {
				resp, text, err := tryExchange(client, "GET", s.url+"/", nil)
				if err != nil || resp.StatusCode != 200 || !bytes.Contains(text, []byte("TLS 1.3")) {
					t.Errorf("page: %v\n%s", err, text)
				}
				const size = 1<<20 + 5
				if _, got, err := tryExchange(client, "GET", s.url+"/download?bytes="+strconv.Itoa(size), nil); err != nil || !bytes.Equal(got, downloaded(size)) {
					t.Errorf("download: %d bytes, %v", len(got), err)
				}
				sent := random(size)
				if _, got, err := tryExchange(client, "POST", s.url+"/upload", bytes.NewReader(sent)); err != nil || string(got) != received(sent) {
					t.Errorf("upload: %q, %v; want %q", got, err, received(sent))
				}
			}
		})
	}
	clients.Wait()
}

// TestShutdown ends the server during a download, which must arrive whole, while
// another connection is idle.
func TestShutdown(t *testing.T) {
	s := start(t)
	idle := newClient(s.cert)
	defer idle.CloseIdleConnections()
	exchange(t, idle, "GET", s.url+"/", nil)

	const size = 64 << 20
	resp, err := s.client.Get(s.url + "/download?bytes=" + strconv.Itoa(size))
	fatal(t, err)
	defer resp.Body.Close()
	got := make([]byte, size)
	_, err = io.ReadFull(resp.Body, got[:1000])
	fatal(t, err)

	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	for end := time.Now().Add(waitLimit); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			break
		}
		c.Close()
		if time.Now().After(end) {
			t.Fatal("the server still listens")
		}
	}
	select {
	case err := <-stopped:
		t.Fatalf("ended before the download did: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err = io.ReadFull(resp.Body, got[1000:]); err != nil || !bytes.Equal(got, downloaded(size)) {
		t.Errorf("the rest of the download: %v", err)
	}
	fatal(t, <-stopped)
}

// TestServeFails has a listener that does not work.
func TestServeFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	ln.Close()
	if err := serve(context.Background(), ln, tls.Certificate{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// TestProgram starts the program, with a certificate from files and without, asks
// for its page and interrupts it.
func TestProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot send an interrupt to one process")
	}
	dir := t.TempDir()
	pair, err := selfSigned()
	fatal(t, err)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, certFile, "CERTIFICATE", pair.Certificate[0])
	keyDER, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	fatal(t, err)
	writePEM(t, keyFile, "PRIVATE KEY", keyDER)

	for _, args := range [][]string{nil, {"-cert", certFile, "-key", keyFile}} {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], append(args, "-addr", "127.0.0.1:0")...)
		cmd.Env = append(os.Environ(), runMain+"=1")
		out, err := cmd.StdoutPipe()
		fatal(t, err)
		fatal(t, cmd.Start())
		lines := bufio.NewScanner(out)
		lines.Scan()
		url := lines.Text()
		lines.Scan()
		_, fingerprint, _ := strings.Cut(lines.Text(), ": ")

		// The fingerprint stands in for trust, as for a user.
		var saw string
		client := &http.Client{Timeout: waitLimit, Transport: &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			VerifyConnection: func(cs tls.ConnectionState) error {
				saw = fmt.Sprintf("% X", sha256.Sum256(cs.PeerCertificates[0].Raw))
				return nil
			},
		}}}
		if resp, text, err := tryExchange(client, "GET", url, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%q %q: %v\n%s", args, url, err, text)
		} else if saw != fingerprint {
			t.Errorf("%q: fingerprint %q, want %q", args, fingerprint, saw)
		}
		if want := fmt.Sprintf("% X", sha256.Sum256(pair.Certificate[0])); (saw == want) != (args != nil) {
			t.Errorf("%q: the certificate is not the one to use", args)
		}

		fatal(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		client.CloseIdleConnections()
	}
}

func TestProgramRefuses(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-cert", "cert.pem"}, 2, "-cert"},
		{[]string{"-key", "key.pem"}, 2, "-key"},
		{[]string{"localhost:8443"}, 2, "-addr"},
		{[]string{"-cert", "none.pem", "-key", "none.pem"}, 1, "none.pem"},
		{[]string{"-addr", "nonsense"}, 1, "nonsense"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], test.args...)
		cmd.Env = append(os.Environ(), runMain+"=1")
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.code || !strings.Contains(string(out), test.says) {
			t.Errorf("%q: exit code %d, want %d\n%s", test.args, got, test.code, out)
		}
	}
}

// TestCurl has curl get the page, download and upload.
func TestCurl(t *testing.T) {
	curl := require.Tool(t, "curl")
	s := start(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, ca, "CERTIFICATE", s.cert.Raw)
	ask := func(input []byte, path string, args ...string) []byte {
		t.Helper()
		args = append(args, "--silent", "--show-error", "--fail", "--noproxy", "*", "--cacert", ca, s.url+path)
		return command(t, input, nil, curl, args...)
	}

	checkPage(t, ask(nil, "/"), map[string]string{
		"version": "TLS 1.3", "suite": "", "curve": "", "alpn": "http/1.1", "http": "HTTP/1.1", "resumed": "false", "backend": "",
	})
	const size = 8<<20 + 3
	if got := ask(nil, "/download?bytes="+strconv.Itoa(size)); !bytes.Equal(got, downloaded(size)) {
		t.Errorf("the download of %d bytes arrived as %d, or changed", size, len(got))
	}
	sent := random(size)
	if got := ask(sent, "/upload", "--data-binary", "@-"); string(got) != received(sent) {
		t.Errorf("upload: %q, want %q", got, received(sent))
	}
}

// TestChromium has a browser load the page and run its script, which downloads and
// uploads.
func TestChromium(t *testing.T) {
	chromium := require.Tool(t, "chromium")
	s := start(t)
	// Not TempDir: the browser's processes may write for a moment after it has ended.
	home, err := os.MkdirTemp("", "httpsserver")
	fatal(t, err)
	defer os.RemoveAll(home)

	const size = 16 << 20
	key := sha256.Sum256(s.cert.RawSubjectPublicKeyInfo)
	dom := command(t, nil, []string{"HOME=" + home}, chromium,
		"--headless", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run", "--no-proxy-server",
		// Root cannot have a sandbox, and the page is ours.
		"--no-sandbox", "--user-data-dir="+filepath.Join(home, "data"),
		// This certificate and no other.
		"--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:]),
		// The script gets a minute of a clock that stands still during requests and
		// leaps when nothing is left to do.
		"--virtual-time-budget=60000",
		"--dump-dom", s.url+"/#bytes="+strconv.Itoa(size))

	checkPage(t, dom, map[string]string{
		"version": "TLS 1.3", "suite": "", "curve": "", "alpn": "http/1.1", "http": "HTTP/1.1", "resumed": "", "backend": "",
	})
	// The suite is the browser's choice, and the backend follows from it.
	for _, suite := range aead.Suites() {
		if bytes.Contains(dom, []byte(suite.Name())) && !bytes.Contains(dom, []byte(backend(suite.ID()))) {
			t.Errorf("%v without backend %s", suite, backend(suite.ID()))
		}
	}
	if want := "received " + received(downloaded(size)); !strings.Contains(string(dom), want) {
		t.Errorf("the page does not say %q:\n%s", want, dom)
	}
}

// command runs a program and returns its standard output.
func command(t *testing.T, input []byte, env []string, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(input)
	cmd.WaitDelay = 10 * time.Second // what is in the pipes can take a while on a busy machine
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, &stderr)
	}
	return out
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	fatal(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
