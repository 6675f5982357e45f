package peers

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

var gnutlsCiphers = map[string]string{
	"AES_128_GCM":       "AES-128-GCM",
	"AES_256_GCM":       "AES-256-GCM",
	"CHACHA20_POLY1305": "CHACHA20-POLY1305",
}

// gnutlsConnect starts gnutls-cli or gnutls-serv and connects with it.
func gnutlsConnect(t *testing.T, role string, suite *aead.Suite, padding func(int) int, args ...string) (*ourSide, *process) {
	t.Helper()
	next, p := gnutlsStart(t, role, suite, nil, padding, args...)
	side := next()
	wantSuite(t, side, suite)
	return side, p
}

// gnutlsStart starts gnutls-cli or gnutls-serv, and returns what makes the next
// connection with it.
func gnutlsStart(t *testing.T, role string, suite *aead.Suite, config *tls.Config, padding func(int) int, args ...string) (func() *ourSide, *process) {
	t.Helper()
	f := creds(t)
	args = append(args, "--priority", "NONE:+VERS-TLS1.3:+AEAD:+GROUP-ALL:+SIGN-ALL:+"+gnutlsCiphers[short(suite)])
	if role == asServer {
		ln := listen(t)
		args = append(args, "--x509cafile", f.ca, "--port", ln.port(), "--logfile", "/dev/stderr", "localhost")
		p := run(t, nil, tool(t, "gnutls", "gnutls-cli"), args...)
		return func() *ourSide { return ln.serve(config, padding) }, p
	}
	port := freePort(t)
	args = append(args, "--x509certfile", f.cert, "--x509keyfile", f.key, "--port", port, "--disable-client-cert", "--quiet")
	if !slices.Contains(args, "--http") {
		args = append(args, "--echo", "--crlf")
	}
	p := run(t, nil, tool(t, "gnutls", "gnutls-serv"), args...)
	return func() *ourSide { return dial(t, p, port, config, padding) }, p
}

// TestGnuTLS talks to gnutls-cli and gnutls-serv.
func TestGnuTLS(t *testing.T) {
	version := strings.Fields(firstLine(output(t, tool(t, "gnutls", "gnutls-cli"), "--version"), "gnutls-cli"))[1]
	for _, role := range []string{asClient, asServer} {
		for _, suite := range suites() {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				t.Parallel()
				r := newRow(t, "GnuTLS", version, role, short(suite))
				reach := func(p *process) far {
					if role == asServer {
						return far{in: p.stdin, out: p.stdout, text: true}
					}
					return far{text: true}
				}

				side, p := gnutlsConnect(t, role, suite, nil)
				talk(t, side, reach(p), 1<<20)
				r.did(exchange)
				ourKeyUpdate(t, side, reach(p))
				r.did(ourUpdate)
				if role == asClient {
					closeFirst(t, side)
				} else {
					// gnutls-cli sends no close_notify after ours.
					if err := side.CloseWrite(); err != nil {
						t.Fatal(err)
					}
					p.wait()
					if got := p.stderr.String(); !strings.Contains(got, "Peer has closed the GnuTLS connection") {
						t.Errorf("the peer did not notice our end: %s", got)
					}
				}

				side, p = gnutlsConnect(t, role, suite, randomPadding)
				talk(t, side, reach(p), 50_000)
				r.did(ourPadding)
				p.kill()
				truncated(t, side)

				// crypto/tls does not answer the record_size_limit that this makes
				// GnuTLS send. gnutls-serv then sends records of any size, and
				// gnutls-cli loses what does not fit one record.
				side, p = gnutlsConnect(t, role, suite, nil, "--recordsize", "600")
				if f := reach(p); role == asServer {
					transfer(t, "to the peer", message(50_000, true), side, f.out, 50_000)
					transfer(t, "from the peer", message(500, true), f.in, side, 500)
				} else {
					talk(t, side, f, 50_000)
				}
				side.raw.Close()
				if role == asServer {
					p.wait()
					if got := p.stderr.String(); !strings.Contains(got, "non-properly terminated") {
						t.Errorf("the peer took truncation for an end: %s", got)
					}
				}
				r.did(truncation)

				if role == asServer {
					gnutlsCommands(t, r, suite)
				} else {
					side, _ := gnutlsConnect(t, role, suite, nil, "--http")
					io.WriteString(side, "GET / HTTP/1.0\r\n\r\n")
					got, err := io.ReadAll(side)
					if err != nil || !bytes.Contains(got, []byte("HTTP/1.0 200")) {
						t.Fatalf("%.100q, %v", got, err)
					}
					side.Close()
					r.did(closeNotify)
				}

				var resumed *process
				resume(t, r, suite, func(config *tls.Config) (next func() *ourSide) {
					var args []string
					if role == asServer {
						args = []string{"--resume", "--waitresumption"}
					}
					next, resumed = gnutlsStart(t, role, suite, config, randomPadding, args...)
					return next
				}, func(i int, side *ourSide) {
					switch {
					case role == asClient:
						talk(t, side, reach(resumed), 1350)
						closeFirst(t, side)
					case i == 0:
						peerClosed(t, side) // as soon as it has a ticket
					default:
						talk(t, side, reach(resumed), 1350)
						resumed.stdin.Close()
						peerClosed(t, side)
					}
				})
			})
		}
	}
}

// TestLibgnutls has GnuTLS do what its programs have no options for: pad its
// records, keep them small, and update its keys as a server.
func TestLibgnutls(t *testing.T) {
	tool(t, "gnutls", "gnutls-cli")
	python := python(t)
	version := strings.Fields(firstLine(output(t, tool(t, "gnutls", "gnutls-cli"), "--version"), "gnutls-cli"))[1]
	f := creds(t)
	for _, role := range []string{asClient, asServer} {
		for _, suite := range suites() {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				t.Parallel()
				r := newRow(t, "libgnutls", version, role, short(suite))
				args := func(peer, port, maxSize, mode string) []string {
					return []string{script(t, "gnutls_peer.py"), peer, port, f.ca, f.cert, f.key,
						"NONE:+VERS-TLS1.3:+AEAD:+GROUP-ALL:+SIGN-ALL:+" + gnutlsCiphers[short(suite)], "300", maxSize, mode}
				}
				connect := func(maxSize, mode string) (*ourSide, *process) {
					var side *ourSide
					var p *process
					if role == asServer {
						ln := listen(t)
						p = run(t, nil, python, args("client", ln.port(), maxSize, mode)...)
						side = ln.serve(nil, randomPadding)
					} else {
						port := freePort(t)
						p = run(t, nil, python, args("server", port, maxSize, mode)...)
						side = dial(t, p, port, nil, randomPadding)
					}
					wantSuite(t, side, suite)
					return side, p
				}
				side, _ := connect("16384", "echo")
				talk(t, side, far{}, 1<<20)
				for _, n := range side.raw.recordSizes()[8:] {
					if n < 300+1+16 {
						t.Errorf("a record of the peer has %d bytes", n)
					}
				}
				ourKeyUpdate(t, side, far{})
				closeFirst(t, side)
				r.did(exchange, ourPadding, theirPadding, ourUpdate)

				side, p := connect("16384", "close")
				io.WriteString(side, "go")
				bye(t, side)
				if err := p.wait(); err != nil {
					t.Errorf("the peer ends with %v", err)
				}
				r.did(closeNotify)

				side, p = connect("512", "echo")
				talk(t, side, far{}, 50_000)
				if most := largest(side.raw.recordSizes()[8:]); most > 512+300+1+16 {
					t.Errorf("the peer's largest record has %d bytes", most)
				}
				r.did(fragments)
				side.raw.Close()
				if p.wait(); !strings.Contains(p.stderr.String(), "non-properly terminated") {
					t.Errorf("the peer took truncation for an end: %s", p.stderr.String())
				}
				side, p = connect("16384", "echo")
				talk(t, side, far{}, 17)
				p.kill()
				truncated(t, side)
				r.did(truncation)

				side, _ = connect("16384", "update")
				for i := range 6 {
					theirs, ours := side.opener.Generation(), side.sealer.Generation()
					// One write is one record, and that one echo.
					want, got := message(10, false), make([]byte, 10)
					if _, err := side.Write(want); err != nil {
						t.Fatal(err)
					}
					if _, err := io.ReadFull(side, got); err != nil || !bytes.Equal(got, want) {
						t.Fatalf("echo %d: %q, %v", i, got, err)
					}
					if got := side.opener.Generation(); got != theirs+1 {
						t.Fatalf("echo %d: the peer's generation is %d, want %d", i, got, theirs+1)
					}
					// Our answer goes out before our next data, so behind each
					// request, which comes with every other echo, we are one further.
					if got, want := ours, uint64(i/2); got != want {
						t.Fatalf("echo %d: our generation was %d before it, want %d", i, got, want)
					}
				}
				r.did(theirUpdate)
				closeFirst(t, side)

				resume(t, r, suite, func(config *tls.Config) func() *ourSide {
					if role == asServer {
						ln := listen(t)
						run(t, nil, python, args("client", ln.port(), "16384", "resume")...)
						return func() *ourSide { return ln.serve(config, randomPadding) }
					}
					port := freePort(t)
					p := run(t, nil, python, args("server", port, "16384", "resume")...)
					return func() *ourSide { return dial(t, p, port, config, randomPadding) }
				}, useEcho(t))
			})
		}
	}
}

// script returns the path of a program in testdata.
func script(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// gnutlsCommands has gnutls-cli send KeyUpdates, and close first.
func gnutlsCommands(t *testing.T, r *row, suite *aead.Suite) {
	side, p := gnutlsConnect(t, asServer, suite, nil, "--inline-commands")
	lines := bufio.NewReader(side)
	for i := range 3 {
		before := side.sealer.Generation()
		fmt.Fprintln(p.stdin, "^rekey^")
		want := fmt.Sprintf("line %d\n", i)
		io.WriteString(p.stdin, want)
		got, err := lines.ReadString('\n')
		if err != nil || got != want {
			t.Fatalf("%q, %v", got, err)
		}
		if side.opener.Generation() != uint64(i+1) {
			t.Fatalf("the peer's generation is %d, want %d", side.opener.Generation(), i+1)
		}
		io.WriteString(side, want)
		b := make([]byte, len(want))
		if _, err := io.ReadFull(p.stdout, b); err != nil || !bytes.Equal(b, []byte(want)) {
			t.Fatalf("%q, %v", b, err)
		}
		if side.sealer.Generation() <= before {
			t.Fatal("the KeyUpdate was not answered")
		}
	}
	r.did(theirUpdate)
	p.stdin.Close()
	peerClosed(t, side)
	r.did(closeNotify)
}
