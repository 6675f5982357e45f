package peers

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
)

// nssDatabase returns an NSS database that holds the credentials.
func nssDatabase(t *testing.T) string {
	t.Helper()
	dir := "sql:" + t.TempDir()
	output(t, tool(t, "nss", "certutil"), "-N", "-d", dir, "--empty-password")
	output(t, tool(t, "nss", "pk12util"), "-i", pkcs12(t, "openssl"), "-d", dir, "-W", "password")
	output(t, tool(t, "nss", "certutil"), "-A", "-n", "authority", "-t", "CT,,", "-i", creds(t).ca, "-d", dir)
	return dir
}

// nssVersion asks the library, since the programs do not say it.
func nssVersion(t *testing.T) string {
	t.Helper()
	tool(t, "nss", "tstclnt")
	return strings.TrimSpace(output(t, python(t), "-c", `
import ctypes, ctypes.util
lib = ctypes.CDLL(ctypes.util.find_library("nss3"))
lib.NSS_GetVersion.restype = ctypes.c_char_p
print(lib.NSS_GetVersion().decode())`))
}

// TestNSS talks to tstclnt and selfserv.
func TestNSS(t *testing.T) {
	version := nssVersion(t)
	database := nssDatabase(t)
	for _, suite := range suites() {
		common := []string{"-d", database, "-V", "tls1.3:tls1.3", "-c", fmt.Sprintf(":%04x", suite.ID())}
		t.Run(asServer+"/"+short(suite), func(t *testing.T) {
			t.Parallel()
			r := newRow(t, "NSS", version, asServer, short(suite))
			connect := func(padding func(int) int) (*ourSide, *process) {
				ln := listen(t)
				p := runOnSocket(t, nil, tool(t, "nss", "tstclnt"), append([]string{"-h", "localhost", "-4", "-p", ln.port()}, common...)...)
				side := ln.serve(nil, padding)
				wantSuite(t, side, suite)
				return side, p
			}
			side, p := connect(nil)
			f := far{in: p.stdin, out: p.stdout}
			talk(t, side, f, 1<<20)
			r.did(exchange)
			ourKeyUpdate(t, side, f)
			r.did(ourUpdate)
			// tstclnt closes when both its input and our side have ended.
			p.stdin.Close()
			closeFirst(t, side)
			if err := p.wait(); err != nil {
				t.Errorf("the peer ends with %v", err)
			}
			r.partly(closeNotify, "ours first")

			side, p = connect(randomPadding)
			talk(t, side, far{in: p.stdin, out: p.stdout}, 50_000)
			r.did(ourPadding)
			p.kill()
			truncated(t, side)
			r.did(truncation)
		})
		t.Run(asClient+"/"+short(suite), func(t *testing.T) {
			t.Parallel()
			r := newRow(t, "NSS", version, asClient, short(suite))
			start := func(config *tls.Config, padding func(int) int, args ...string) (func() *ourSide, *process) {
				port := freePort(t)
				p := run(t, nil, tool(t, "nss", "selfserv"), append(append([]string{"-n", "peer", "-p", port}, common...), args...)...)
				return func() *ourSide { return dial(t, p, port, config, padding) }, p
			}
			connect := func(padding func(int) int, args ...string) *ourSide {
				next, _ := start(nil, padding, args...)
				side := next()
				wantSuite(t, side, suite)
				return side
			}
			// selfserv answers a request with the request, and takes no long one.
			request := func(side *ourSide, size int, between func()) {
				head := "GET /none HTTP/1.0\r\nX: "
				req := []byte(head + strings.Repeat("x", max(0, size-len(head)-4)) + "\r\n\r\n")
				half := len(req) / 2
				if err := writeRandomly(side, req[:half]); err != nil {
					t.Fatal(err)
				}
				if between != nil {
					between()
				}
				if err := writeRandomly(side, req[half:]); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(side)
				if err != nil || !bytes.Contains(got, req) {
					t.Fatalf("request of %d bytes: got %.200q, %v", size, got, err)
				}
				side.Close()
			}
			for _, size := range []int{100, 1350, 8000} {
				request(connect(nil), size, nil)
			}
			request(connect(randomPadding), 8000, nil)
			r.did(ourPadding)
			side := connect(nil)
			request(side, 8000, func() {
				if err := side.KeyUpdate(true); err != nil {
					t.Fatal(err)
				}
			})
			if side.opener.Generation() != 1 {
				t.Errorf("the peer's generation is %d", side.opener.Generation())
			}
			r.did(ourUpdate)
			r.partly(closeNotify, "its own first")

			// In this mode it sends 64 blocks of 16 KiB.
			side = connect(nil, "-g", "64")
			io.WriteString(side, "GET / HTTP/1.0\r\n\r\n")
			n, err := io.Copy(io.Discard, side)
			if err != nil || n < 1<<20 {
				t.Errorf("read %d bytes, %v", n, err)
			}
			r.partly(exchange, "8 kB to it, 1 MiB from it")

			next, p := start(nil, nil)
			side = next()
			io.WriteString(side, "GET /none HTTP/1.0\r\n") // and it waits for more
			p.kill()
			truncated(t, side)
			r.did(truncation)

			resume(t, r, suite, func(config *tls.Config) func() *ourSide {
				next, _ := start(config, randomPadding, "-u")
				return next
			}, func(_ int, side *ourSide) { request(side, 1350, nil) })
		})
	}
}
