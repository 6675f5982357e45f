package gcm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"example.com/splitseal/internal/require"
)

// embedded returns the output of a Go build or another command.
func embedded(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// skipEmbedding ends tests that build the standard library once more.
func skipEmbedding(t *testing.T) (gcc string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the programs under test are written for Linux")
	}
	if testing.Short() || !require.Declared(t, "gcc") {
		t.Skip("builds the standard library once more, 30 s of processor time with a cold cache: " +
			"SPLITSEAL_REQUIRE=gcc and no -short run it")
	}
	return require.Tool(t, "gcc")
}

// eachBackend runs a program that checks itself and prints its backend, once
// for each backend, by taking the better ones away.
func eachBackend(t *testing.T, program string, args ...string) {
	t.Helper()
	removed := ""
	for _, backend := range backendNames() {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "SPLITSEAL_CPU="+removed)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", backend, err, stderr.String())
		} else if got := strings.TrimSpace(string(out)); got != backend {
			t.Errorf("with SPLITSEAL_CPU=%s the program used %q, want %s", removed, got, backend)
		}
		removed = strings.TrimPrefix(removed+",-"+backend, ",")
	}
}

// TestEmbedCShared loads package gcm into a C program, as a library, and calls
// it from threads that Go did not start. Kernels must work when their tables
// are reached as position-independent code does it.
func TestEmbedCShared(t *testing.T) {
	gcc := skipEmbedding(t)
	dir := t.TempDir()
	library, driver := filepath.Join(dir, "lib.so"), filepath.Join(dir, "driver")
	embedded(t, "go", "build", "-buildmode=c-shared", "-o", library, "./testdata/embed/cshared")
	embedded(t, gcc, "-x", "c", "-O1", "-Wall", "-Werror", "-o", driver, "testdata/embed/cshared/driver.c.txt", "-ldl", "-lpthread")
	eachBackend(t, driver, library)
}

// TestEmbedPlugin loads package gcm as a Go plugin. The assembler takes R15
// for the global offset table there, and refuses kernels that use it beside a
// table.
func TestEmbedPlugin(t *testing.T) {
	skipEmbedding(t)
	dir := t.TempDir()
	plugin, host := filepath.Join(dir, "plugin.so"), filepath.Join(dir, "host")
	embedded(t, "go", "build", "-buildmode=plugin", "-o", plugin, "./testdata/embed/plugin")
	embedded(t, "go", "build", "-o", host, "./testdata/embed/host")
	eachBackend(t, host, plugin)
}
