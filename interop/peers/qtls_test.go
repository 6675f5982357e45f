package peers

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/aead"
)

// buildQTLS builds the peer with the toolchain that it needs.
func buildQTLS(t *testing.T) (program, version string) {
	t.Helper()
	dir := "../qtlspeer"
	env := append(os.Environ(), "GOTOOLCHAIN=go1.20.14", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	program = filepath.Join(t.TempDir(), "qtlspeer.exe") // a name that Windows can start
	// The first time this compiles much of that toolchain's standard library.
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, "qtls", strings.TrimSpace(string(out))+": "+err.Error())
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	fatalf(t, err, "go.mod")
	return program, strings.Fields(firstLine(string(mod), "qtls-go1-20"))[2]
}

// TestQTLS talks to qtls-go1-20 in a second process. It has no choice of suites,
// but prefers ChaCha20-Poly1305 where the processor has no AES.
func TestQTLS(t *testing.T) {
	program, version := buildQTLS(t)
	f := creds(t)
	for _, role := range []string{asClient, asServer} {
		for _, suite := range []*aead.Suite{aead.AES128GCM(), aead.ChaCha20Poly1305()} {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				t.Parallel()
				var env []string
				if suite == aead.ChaCha20Poly1305() {
					needsHiddenAES(t)
					env = []string{hiddenAES}
				}
				r := newRow(t, "qtls-go1-20", version, role, short(suite))
				connect := func(mode string, padding func(int) int) (*ourSide, *process) {
					var side *ourSide
					var p *process
					if role == asServer {
						ln := listen(t)
						p = run(t, env, program, "client", ln.port(), f.ca, f.cert, f.key, mode)
						side = ln.serve(nil, padding)
					} else {
						port := freePort(t)
						p = run(t, env, program, "server", port, f.ca, f.cert, f.key, mode)
						side = dial(t, p, port, nil, padding)
					}
					wantSuite(t, side, suite)
					return side, p
				}
				side, p := connect("echo", nil)
				talk(t, side, far{}, 1<<20)
				r.did(exchange)
				ourKeyUpdate(t, side, far{})
				r.did(ourUpdate)
				closeFirst(t, side)
				if err := p.wait(); err != nil {
					t.Errorf("the peer ends with %v", err)
				}
				// Both ends have logged the same secrets.
				lines := func(s string) []string {
					l := strings.Split(strings.TrimSpace(s), "\n")
					slices.Sort(l)
					return l
				}
				if got, want := lines(p.stderr.String()), lines(side.keys.String()); !slices.Equal(got, want) {
					t.Errorf("the peer's key log is %q, ours is %q", got, want)
				}

				side, _ = connect("close", randomPadding)
				bye(t, side)
				r.did(closeNotify)
				side, _ = connect("echo", randomPadding)
				talk(t, side, far{}, 50_000)
				r.did(ourPadding)
				closeFirst(t, side)

				side, _ = connect("abort", nil)
				if _, err := io.ReadFull(side, make([]byte, 3)); err != nil {
					t.Fatal(err)
				}
				truncated(t, side)
				r.did(truncation)
			})
		}
	}
}
