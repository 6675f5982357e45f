package peers

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// bye waits for a peer that says bye and closes first.
func bye(t testing.TB, side *ourSide) {
	t.Helper()
	got, err := io.ReadAll(side)
	if err != nil || string(got) != "bye" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := side.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPython talks to Python's ssl. The suite and padding come from OpenSSL's
// configuration file, since the module has no functions for them.
func TestPython(t *testing.T) {
	python := python(t)
	version := strings.TrimSpace(output(t, python, "-c",
		"import ssl, sys; print(sys.version.split()[0], '/', ssl.OPENSSL_VERSION.split()[0], ssl.OPENSSL_VERSION.split()[1])"))
	if !strings.Contains(version, "/ OpenSSL 3") {
		missing(t, "python", "its ssl is "+version+", not OpenSSL 3")
	}
	f := creds(t)
	for _, role := range []string{asClient, asServer} {
		for _, suite := range suites() {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				t.Parallel()
				r := newRow(t, "Python ssl", version, role, short(suite))
				config := filepath.Join(t.TempDir(), "openssl.cnf")
				fatalf(t, os.WriteFile(config, []byte("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nRecordPadding = 256\nCiphersuites = "+suite.Name()+"\n"), 0o600), "config")
				start := func(mode string, ours *tls.Config) (func() *ourSide, *process) {
					env := []string{"OPENSSL_CONF=" + config}
					if role == asServer {
						ln := listen(t)
						p := run(t, env, python, script(t, "peer.py"), "client", ln.port(), f.ca, f.cert, f.key, mode)
						return func() *ourSide { return ln.serve(ours, randomPadding) }, p
					}
					port := freePort(t)
					p := run(t, env, python, script(t, "peer.py"), "server", port, f.ca, f.cert, f.key, mode)
					return func() *ourSide { return dial(t, p, port, ours, randomPadding) }, p
				}
				connect := func(mode string) (*ourSide, *process) {
					next, p := start(mode, nil)
					side := next()
					wantSuite(t, side, suite)
					return side, p
				}
				side, _ := connect("echo")
				talk(t, side, far{}, 1<<20)
				padded := 0
				for _, n := range side.raw.recordSizes() {
					if (n-16)%256 == 0 {
						padded++
					}
				}
				if padded < 5 {
					t.Errorf("%d padded records from the peer: %v", padded, side.raw.recordSizes())
				}
				ourKeyUpdate(t, side, far{})
				closeFirst(t, side)
				side, _ = connect("close")
				bye(t, side)
				r.did(exchange, ourPadding, theirPadding, ourUpdate, closeNotify)

				side, p := connect("echo")
				talk(t, side, far{}, 17)
				side.raw.Close()
				p.wait()
				if !strings.Contains(p.stderr.String(), "truncated") {
					t.Errorf("the peer took truncation for an end: %s", p.stderr.String())
				}
				side, p = connect("echo")
				talk(t, side, far{}, 17)
				p.kill()
				truncated(t, side)
				r.did(truncation)

				resume(t, r, suite, func(config *tls.Config) func() *ourSide {
					next, _ := start("resume", config)
					return next
				}, useEcho(t))
			})
		}
	}
}

// TestNode talks to Node's tls.
func TestNode(t *testing.T) {
	node := tool(t, "node", "node")
	version := strings.TrimPrefix(strings.TrimSpace(output(t, node, "--version")), "v")
	f := creds(t)
	for _, role := range []string{asClient, asServer} {
		for _, suite := range suites() {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				t.Parallel()
				r := newRow(t, "Node.js", version, role, short(suite))
				start := func(mode, fragment string, config *tls.Config) (func() *ourSide, *process) {
					if role == asServer {
						ln := listen(t)
						p := run(t, nil, node, script(t, "peer.js"), "client", ln.port(), f.ca, f.cert, f.key, suite.Name(), fragment, mode)
						return func() *ourSide { return ln.serve(config, randomPadding) }, p
					}
					port := freePort(t)
					p := run(t, nil, node, script(t, "peer.js"), "server", port, f.ca, f.cert, f.key, suite.Name(), fragment, mode)
					return func() *ourSide { return dial(t, p, port, config, randomPadding) }, p
				}
				connect := func(mode, fragment string) (*ourSide, *process) {
					next, p := start(mode, fragment, nil)
					side := next()
					wantSuite(t, side, suite)
					return side, p
				}
				side, _ := connect("echo", "0")
				talk(t, side, far{}, 1<<20)
				ourKeyUpdate(t, side, far{})
				closeFirst(t, side)
				side, _ = connect("close", "0")
				io.WriteString(side, "go")
				bye(t, side)
				r.did(exchange, ourPadding, ourUpdate, closeNotify)

				side, p := connect("echo", "600")
				talk(t, side, far{}, 50_000)
				if most := largest(side.raw.recordSizes()[8:]); most > 600+1+16 {
					t.Errorf("the peer's largest record has %d bytes", most)
				}
				r.did(fragments)
				p.kill()
				truncated(t, side)
				r.did(truncation)

				resume(t, r, suite, func(config *tls.Config) func() *ourSide {
					next, _ := start("resume", "0", config)
					return next
				}, useEcho(t))
			})
		}
	}
}

// pkcs12 returns the credentials as a PKCS #12 file, which OpenSSL makes.
func pkcs12(t testing.TB, word string) string {
	t.Helper()
	f := creds(t)
	store := filepath.Join(t.TempDir(), "store.p12")
	program := tool(t, word, "openssl")
	output(t, program, "pkcs12", "-export", "-in", f.cert, "-inkey", f.key, "-certfile", f.ca, "-out", store, "-passout", "pass:password", "-name", "peer")
	return store
}

// TestJava talks to JSSE, all suites in one process, since it starts slowly.
func TestJava(t *testing.T) {
	java := tool(t, "java", "java")
	version := strings.Trim(strings.Fields(firstLine(output(t, java, "-version"), "version"))[2], `"`)
	p := run(t, nil, java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dcom.sun.net.ssl.requireCloseNotify=true", script(t, "Peer.java"), pkcs12(t, "openssl"))
	var lock sync.Mutex
	for _, role := range []string{asClient, asServer} {
		for _, suite := range suites() {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				r := newRow(t, "Java JSSE", version, role, short(suite))
				start := func(packet, mode string, config *tls.Config, padding func(int) int) (next func() *ourSide, port string) {
					command := func(peer string) {
						lock.Lock()
						defer lock.Unlock()
						fmt.Fprintln(p.stdin, peer, port, suite.Name(), packet, mode)
					}
					if role == asServer {
						ln := listen(t)
						port = ln.port()
						command("client")
						return func() *ourSide { return ln.serve(config, padding) }, port
					}
					port = freePort(t)
					command("server")
					return func() *ourSide { return dial(t, p, port, config, padding) }, port
				}
				connect := func(packet, mode string, padding func(int) int) (*ourSide, string) {
					next, port := start(packet, mode, nil, padding)
					side := next()
					wantSuite(t, side, suite)
					return side, port
				}
				side, _ := connect("0", "echo", randomPadding)
				talk(t, side, far{}, 1<<20)
				ourKeyUpdate(t, side, far{})
				closeFirst(t, side)
				side, _ = connect("0", "close", record.PadToMultiple(100))
				bye(t, side)
				r.did(exchange, ourPadding, ourUpdate, closeNotify)

				side, port := connect("600", "echo", nil)
				talk(t, side, far{}, 50_000)
				if most := largest(side.raw.recordSizes()[8:]); most > 600 {
					t.Errorf("the peer's largest record has %d bytes", most)
				}
				r.did(fragments)
				side.raw.Close()
				waitFor(t, "the peer to notice truncation", func() bool {
					return strings.Contains(p.stderr.String(), "truncated "+port)
				})
				r.did(truncation)

				side, _ = connect("0", "update", nil)
				javaUpdates(t, side, suite)
				r.did(theirUpdate)
				closeFirst(t, side)

				resume(t, r, suite, func(config *tls.Config) func() *ourSide {
					next, _ := start("0", "resume", config, randomPadding)
					return next
				}, useEcho(t))
			})
		}
	}
	if got := p.stderr.String(); strings.Contains(got, "failed") {
		t.Errorf("the peer failed: %s", got)
	}
}

// javaUpdates has the peer update its keys before each echo.
func javaUpdates(t *testing.T, side *ourSide, suite *aead.Suite) {
	for i := range 5 {
		theirs, ours := side.opener.Generation(), side.sealer.Generation()
		transfer(t, "to the peer and back", message(10, false), side, side, 10)
		if side.opener.Generation() <= theirs {
			t.Fatalf("exchange %d: the peer has not updated its keys", i)
		}
		transfer(t, "to the peer and back", message(10, false), side, side, 10)
		if side.sealer.Generation() <= ours {
			t.Fatalf("exchange %d: the peer's KeyUpdate was not answered", i)
		}
	}
}
