package peers

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// httpEcho reads one request and answers with its body. between runs in the
// middle of the answer.
func httpEcho(t testing.TB, side *ourSide, r *bufio.Reader, last bool, between func()) {
	t.Helper()
	req, err := http.ReadRequest(r)
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	if req.Header.Get("Expect") != "" {
		io.WriteString(side, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("request's body: %v", err)
	}
	head := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	if last {
		head += "Connection: close\r\n"
	}
	half := len(body) / 2
	if err := writeRandomly(side, append([]byte(head+"\r\n"), body[:half]...)); err != nil {
		t.Fatal(err)
	}
	if between != nil {
		between()
	}
	if err := writeRandomly(side, body[half:]); err != nil {
		t.Fatal(err)
	}
}

// TestCurl has curl post messages of all sizes over one connection.
func TestCurl(t *testing.T) {
	curl := tool(t, "curl", "curl")
	words := strings.Fields(output(t, curl, "--version"))
	version := words[1]
	for _, w := range words {
		if strings.HasPrefix(w, "OpenSSL/") {
			version += " / " + w
		}
	}
	if !strings.Contains(version, "OpenSSL/") {
		missing(t, "curl", "it is not built with OpenSSL, so its suites cannot be chosen")
	}
	for _, suite := range suites() {
		t.Run(short(suite), func(t *testing.T) {
			t.Parallel()
			r := newRow(t, "curl", version, asServer, short(suite))
			dir := t.TempDir()
			start := func(ln *listener, sizes []int) (*process, func()) {
				t.Helper()
				args := []string{"--silent", "--show-error", "--fail"}
				var sent [][]byte
				for i, size := range sizes {
					body := message(size, false)
					sent = append(sent, body)
					fatalf(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("in", i)), body, 0o600), "input")
					if i > 0 {
						args = append(args, "--next", "--silent", "--show-error", "--fail")
					}
					args = append(args, "--http1.1", "--tlsv1.3", "--tls13-ciphers", suite.Name(), "--cacert", creds(t).ca,
						"--header", "Expect:", "--data-binary", "@"+filepath.Join(dir, fmt.Sprint("in", i)),
						"--output", filepath.Join(dir, fmt.Sprint("out", i)), "https://localhost:"+ln.port()+"/")
				}
				p := run(t, nil, curl, args...)
				return p, func() {
					t.Helper()
					if err := p.wait(); err != nil {
						t.Fatalf("curl: %v", err)
					}
					for i, want := range sent {
						got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("out", i)))
						if err != nil && len(want) > 0 || !bytes.Equal(got, want) {
							t.Errorf("body %d of %d bytes came back changed (%v)", i, len(want), err)
						}
					}
				}
			}
			connect := func(padding func(int) int, sizes []int) (*ourSide, *process, func()) {
				ln := listen(t)
				p, check := start(ln, sizes)
				side := ln.serve(&tls.Config{NextProtos: []string{"http/1.1"}}, padding)
				wantSuite(t, side, suite)
				return side, p, check
			}
			side, _, check := connect(nil, bodies)
			in := bufio.NewReader(side)
			for range bodies {
				httpEcho(t, side, in, false, nil)
			}
			peerClosed(t, side) // curl first
			check()
			r.did(exchange)

			side, _, check = connect(randomPadding, []int{1350, 50_000, 17})
			in = bufio.NewReader(side)
			for i := range 3 {
				httpEcho(t, side, in, i == 2, func() {
					if err := side.KeyUpdate(true); err != nil {
						t.Fatal(err)
					}
				})
			}
			closeFirst(t, side)
			check()
			if side.opener.Generation() == 0 {
				t.Error("the peer has not updated its keys")
			}
			r.did(ourPadding, ourUpdate, closeNotify)

			// curl itself does not tell truncation from an end.
			side, p, _ := connect(nil, []int{17})
			p.kill()
			truncated(t, side)
			r.did(truncation)

			// Every answer ends its connection, so the next request needs another one.
			resume(t, r, suite, func(config *tls.Config) func() *ourSide {
				ln := listen(t)
				_, check = start(ln, []int{1350, 17})
				return func() *ourSide { return ln.serve(config, randomPadding) }
			}, func(_ int, side *ourSide) {
				httpEcho(t, side, bufio.NewReader(side), true, nil)
				closeFirst(t, side)
			})
			check()
		})
	}
}

// nginxConfig has, for each suite, a server that passes requests on to a plain
// HTTP server, and a plain server that passes them on to a TLS server.
const nginxConfig = `
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr warn;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	client_max_body_size 4m;
	client_body_buffer_size 2m;
	keepalive_timeout 20s;
	lingering_close off;
	proxy_http_version 1.1;
	proxy_buffering off;
	%[2]s
}
`

const nginxServers = `
	server {
		listen 127.0.0.1:%[1]s ssl;
		ssl_certificate %[5]s;
		ssl_certificate_key %[6]s;
		ssl_protocols TLSv1.3;
		ssl_conf_command Ciphersuites %[4]s;
		ssl_conf_command RecordPadding 128;
		ssl_buffer_size 600;
		location / { proxy_pass http://127.0.0.1:%[2]s; }
		location /close { keepalive_timeout 0; return 200 "bye"; }
	}
	server {
		listen 127.0.0.1:%[3]s;
		location / {
			proxy_pass https://127.0.0.1:%[7]s;
			proxy_ssl_protocols TLSv1.3;
			proxy_ssl_conf_command Ciphersuites %[4]s;
			proxy_ssl_conf_command RecordPadding 128;
			proxy_ssl_trusted_certificate %[8]s;
			proxy_ssl_verify on;
			proxy_ssl_name localhost;
			proxy_ssl_server_name on;
		}
	}
`

// TestNginx talks to nginx as a server and as a client, both of which only pass
// on what they get.
func TestNginx(t *testing.T) {
	nginx := tool(t, "nginx", "nginx")
	version := output(t, nginx, "-v")
	version = strings.TrimSpace(version[strings.LastIndex(version, "/")+1:])
	f := creds(t)

	// The plain HTTP server behind nginx.
	backend := listen(t)
	backend.Listener.(*net.TCPListener).SetDeadline(noDeadline)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
	})}
	go server.Serve(backend)
	t.Cleanup(func() { server.Close() })

	dir := t.TempDir()
	type ports struct{ tls, plain string }
	suitePorts := make(map[string]ports)
	upstream := make(map[string]*listener)
	var servers strings.Builder
	for _, suite := range suites() {
		p := ports{freePort(t), freePort(t)}
		suitePorts[suite.Name()] = p
		upstream[suite.Name()] = listen(t)
		fmt.Fprintf(&servers, nginxServers, p.tls, backend.port(), p.plain, suite.Name(), f.cert, f.key, upstream[suite.Name()].port(), f.ca)
	}
	config := filepath.Join(dir, "nginx.conf")
	fatalf(t, os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, servers.String()), 0o600), "config")
	p := run(t, nil, nginx, "-e", "stderr", "-p", dir, "-c", config)

	post := func(w io.Writer, path string, body []byte, between func()) error {
		head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		half := len(body) / 2
		if err := writeRandomly(w, append([]byte(head), body[:half]...)); err != nil {
			return err
		}
		if between != nil {
			between()
		}
		return writeRandomly(w, body[half:])
	}
	answer := func(t *testing.T, r *bufio.Reader, want []byte) {
		t.Helper()
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || !bytes.Equal(got, want) {
			t.Fatalf("%s, %d bytes of %d, %v", resp.Status, len(got), len(want), err)
		}
	}

	for _, suite := range suites() {
		t.Run(asClient+"/"+short(suite), func(t *testing.T) {
			r := newRow(t, "nginx", version, asClient, short(suite))
			cache := tls.NewLRUClientSessionCache(1)
			connect := func(padding func(int) int) (*ourSide, *bufio.Reader) {
				side := dial(t, p, suitePorts[suite.Name()].tls, &tls.Config{ClientSessionCache: cache}, padding)
				wantSuite(t, side, suite)
				return side, bufio.NewReader(side)
			}
			side, in := connect(randomPadding)
			for _, size := range bodies {
				body := message(size, false)
				sent := make(chan error, 1)
				go func() { sent <- post(side, "/", body, nil) }()
				answer(t, in, body)
				fatalf(t, <-sent, "request")
			}
			records := side.raw.recordSizes()[8:]
			if most := largest(records); most > 600+128+16 {
				t.Errorf("the peer's largest record has %d bytes", most)
			}
			if slices.ContainsFunc(records, func(n int) bool { return (n-16)%128 != 0 && n > 64 }) {
				t.Errorf("a record of the peer is not padded: %v", records)
			}
			r.did(exchange, ourPadding, theirPadding, fragments)
			for range 3 {
				before := side.opener.Generation()
				body := message(50_000, false)
				fatalf(t, post(side, "/", body, func() { fatalf(t, side.KeyUpdate(true), "KeyUpdate") }), "request")
				answer(t, in, body)
				if side.opener.Generation() <= before {
					t.Fatal("the peer has not updated its keys")
				}
			}
			r.did(ourUpdate)
			// An idle nginx answers no close_notify.
			fatalf(t, side.CloseWrite(), "CloseWrite")
			truncated(t, side)
			r.did(truncation)

			side, in = connect(nil)
			if !side.ConnectionState().DidResume {
				t.Error("the connection was not resumed")
			}
			r.did(resumption)
			io.WriteString(side, "GET /close HTTP/1.1\r\nHost: localhost\r\n\r\n")
			answer(t, in, []byte("bye"))
			peerClosed(t, side)
			r.partly(closeNotify, "its own first")
		})
		t.Run(asServer+"/"+short(suite), func(t *testing.T) {
			r := newRow(t, "nginx", version, asServer, short(suite))
			ln := upstream[suite.Name()]
			config := new(tls.Config) // for all connections, so that they can be resumed
			for i, size := range append(slices.Clone(bodies), 50_000) {
				client, err := net.Dial("tcp", "127.0.0.1:"+suitePorts[suite.Name()].plain)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				body := message(size, false)
				sent := make(chan error, 1)
				go func() { sent <- post(client, "/", body, nil) }()
				side := ln.serve(config, randomPadding)
				wantSuite(t, side, suite)
				if got := side.ConnectionState().DidResume; got != (i > 0) {
					t.Errorf("connection %d resumed: %v", i, got)
				}
				in := bufio.NewReader(side)
				var between func()
				if i == len(bodies) {
					between = func() { fatalf(t, side.KeyUpdate(true), "KeyUpdate") }
				}
				httpEcho(t, side, in, true, between)
				answer(t, bufio.NewReader(client), body)
				fatalf(t, <-sent, "request")
				if i%2 == 0 {
					closeFirst(t, side)
				} else {
					client.Close()
					peerClosed(t, side)
				}
			}
			r.did(exchange, ourPadding, theirPadding, closeNotify, resumption)
			// It sends nothing more but close_notify, in front of which OpenSSL
			// leaves the answer out.
			r.partly(ourUpdate, "obeyed")
		})
	}
	t.Run("killed", func(t *testing.T) {
		var rows []*row
		var sides []*ourSide
		for _, suite := range suites() {
			rows = append(rows, newRow(t, "nginx", version, asServer, short(suite)))
			client, err := net.Dial("tcp", "127.0.0.1:"+suitePorts[suite.Name()].plain)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			fatalf(t, post(client, "/", message(17, false), nil), "request")
			side := upstream[suite.Name()].serve(nil, nil)
			if _, err := http.ReadRequest(bufio.NewReader(side)); err != nil {
				t.Fatal(err)
			}
			sides = append(sides, side)
		}
		p.kill()
		for i, side := range sides {
			truncated(t, side)
			rows[i].did(truncation)
		}
	})
}

// TestCryptoTLS talks to crypto/tls in this process. It has no say in the suite.
func TestCryptoTLS(t *testing.T) {
	version := strings.TrimPrefix(runtime.Version(), "go")
	f := creds(t)
	for _, role := range []string{asClient, asServer} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			peerConfig := &tls.Config{Certificates: []tls.Certificate{f.pair}, RootCAs: f.pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			ourConfig := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
			var r *row
			connect := func(padding func(int) int) (*ourSide, *tls.Conn) {
				ln := listen(t)
				var side *ourSide
				var peer *tls.Conn
				done := make(chan error, 1)
				if role == asServer {
					go func() {
						raw, err := net.Dial("tcp", ln.Addr().String())
						if err == nil {
							peer = tls.Client(raw, peerConfig)
							err = peer.Handshake()
						}
						done <- err
					}()
					side = ln.serve(ourConfig, padding)
				} else {
					go func() {
						raw, err := ln.Accept()
						if err == nil {
							peer = tls.Server(raw, peerConfig)
							err = peer.Handshake()
						}
						done <- err
					}()
					side = dial(t, nil, ln.port(), ourConfig, padding)
				}
				fatalf(t, <-done, "the peer's handshake")
				t.Cleanup(func() { peer.NetConn().Close() })
				if r == nil {
					name := tls.CipherSuiteName(side.ConnectionState().CipherSuite)
					for _, s := range suites() {
						if s.Name() == name {
							r = newRow(t, "crypto/tls", version, role, short(s))
						}
					}
				}
				return side, peer
			}
			side, peer := connect(nil)
			talk(t, side, far{in: peer, out: peer}, 1<<20)
			r.did(exchange)
			ourKeyUpdate(t, side, far{in: peer, out: peer})
			r.did(ourUpdate)
			fatalf(t, side.CloseWrite(), "CloseWrite")
			if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Fatalf("the peer reads %d, %v", n, err)
			}
			fatalf(t, peer.CloseWrite(), "the peer's CloseWrite")
			peerClosed(t, side)

			side, peer = connect(randomPadding)
			talk(t, side, far{in: peer, out: peer}, 50_000)
			r.did(ourPadding)
			if role == asClient && !side.ConnectionState().DidResume {
				t.Error("the connection was not resumed")
			}
			fatalf(t, peer.CloseWrite(), "the peer's CloseWrite")
			closeFirst(t, side)
			r.did(closeNotify)

			side, peer = connect(nil)
			if !side.ConnectionState().DidResume {
				t.Error("the connection was not resumed")
			}
			r.did(resumption)
			// The ticket, and then nothing.
			go peer.Write([]byte("x"))
			if _, err := io.ReadFull(side, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			peer.NetConn().Close()
			truncated(t, side)
			r.did(truncation)
		})
	}
}

// hiddenAES in its environment makes a Go program take the processor for one without
// AES, so that its crypto/tls prefers ChaCha20-Poly1305.
const hiddenAES = "GODEBUG=cpu.aes=off,cpu.pclmulqdq=off"

// needsHiddenAES skips the test where hiddenAES is not known to work. The runtime of
// Windows does not read it before it looks at the processor.
func needsHiddenAES(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" || runtime.GOOS == "windows" {
		matrix.lacks(hiddenAES)
		t.Skipf("%s is not known to work on %s/%s", hiddenAES, runtime.GOOS, runtime.GOARCH)
	}
}

// TestCryptoTLSChaCha20 runs TestCryptoTLS again in a process whose crypto/tls
// takes the processor for one without AES and prefers ChaCha20-Poly1305. That
// process passes its rows on.
func TestCryptoTLSChaCha20(t *testing.T) {
	needsHiddenAES(t)
	exe, err := os.Executable()
	fatalf(t, err, "this program")
	rows := filepath.Join(t.TempDir(), "rows")
	cmd := exec.CommandContext(testContext(t), exe, "-test.run=^TestCryptoTLS$")
	cmd.Env = append(os.Environ(), rowsEnv+"="+rows, hiddenAES)
	out, err := cmd.CombinedOutput()
	fatalf(t, err, "%s", out)
	table, err := os.ReadFile(rows)
	fatalf(t, err, "rows")
	seen := make(map[string]bool)
	for line := range strings.Lines(string(table)) {
		r, err := parseRow(strings.TrimSpace(line))
		fatalf(t, err, "the other process's rows")
		if r.suite != short(aead.ChaCha20Poly1305()) {
			t.Errorf("crypto/tls chose %s", r.suite)
		}
		seen[r.role] = true
		newRow(t, r.peer, r.version, r.role, r.suite).passed = r.passed
	}
	if !seen[asClient] || !seen[asServer] {
		t.Errorf("the other process's rows are\n%s", table)
	}
}
