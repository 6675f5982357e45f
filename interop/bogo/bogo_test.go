package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/internal/require"
)

const (
	// dirEnv names the directory of BoringSSL's source.
	dirEnv = "SPLITSEAL_BOGO"

	// The version whose results are in the document, and the checksum of its runner.
	boringSSL = "a0689af29e8e460f1e5380e0fb74cef1b342e810"
	runnerSum = "74d4d2e43df39298"

	document = "../../docs/bogo.md"
)

var update = flag.Bool("update", false, "write docs/bogo.md")

// handshake is a shim, by whose handshake it is.
type handshake struct {
	name   string
	config string // file for the runner
	build  func(t *testing.T, program string)
	runs   []string // extra flags of the shim, for one run each
}

var handshakes = []handshake{
	{"crypto/tls, by cryptotls", "cryptotls.json", buildShim, []string{"", "-write-to;-padding;-keep-buffer;-dynamic"}},
	{"examples/tlsstack", "tlsstack.json", buildOwn, []string{""}},
}

// config is what a file for the runner says.
type config struct {
	// DisabledTests are patterns of tests whose result counts for nothing, and why.
	// They run all the same: one of each pattern must fail.
	DisabledTests map[string]string

	// ErrorMap are our errors for those of BoringSSL's that the runner expects. What
	// is only "tls: " is found by crypto/tls.
	ErrorMap map[string][]string
}

// result is the outcome of one run.
type result struct {
	handshake, flags          string
	passed, leftOut, unplayed int
}

// TestBoGo runs all of BoGo's tests of TLS. Those that fail must be listed in the
// shim's config, with the reason.
func TestBoGo(t *testing.T) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		require.Missing(t, "bogo", dirEnv+" does not name a directory with BoringSSL's source")
	}
	if testing.Short() {
		t.Skip("three runs of a minute or two each are too long for -short")
	}
	dir, err := filepath.Abs(filepath.Join(dir, "ssl", "test", "runner"))
	if err != nil {
		t.Fatal(err)
	}
	known := checksum(t, dir) == runnerSum
	if !known {
		t.Logf("the runner is another version than that of %s", boringSSL)
	}
	runner := filepath.Join(t.TempDir(), "runner.exe") // names that Windows can start
	goCommand(t, dir, "test", "-c", "-o", runner, ".")
	var results []result
	var configs []config
	for _, h := range handshakes {
		shim := filepath.Join(t.TempDir(), "shim.exe")
		h.build(t, shim)
		c := readConfig(t, h.config)
		configs = append(configs, c)
		for _, flags := range h.runs {
			t.Run(h.name+" "+flags, func(t *testing.T) {
				tests := runAll(t, runner, shim, h.config, flags)
				r := c.judge(t, tests, known)
				r.handshake, r.flags = h.name, flags
				t.Logf("%d passed, %d left out, %d not played", r.passed, r.leftOut, r.unplayed)
				results = append(results, r)
			})
		}
	}
	if !known || t.Failed() {
		return
	}
	text := describe(results, configs)
	if *update {
		if err := os.WriteFile(document, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(document); err != nil || string(have) != text {
		t.Errorf("%s (%v) does not say what was seen; -update writes it:\n%s", document, err, text)
	}
}

// outcome is what the runner says about one test.
type outcome struct {
	Actual string `json:"actual"`
	Error  string `json:"error"`
}

// runAll runs the runner and returns what it says about each test.
func runAll(t *testing.T, runner, shim, configFile, flags string) map[string]outcome {
	config, err := filepath.Abs(configFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "results.json")
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, runner, "-shim-path", shim, "-shim-config", config, "-shim-extra-flags", flags,
		"-skip", "*DTLS*;*QUIC*", "-include-disabled", "-allow-unimplemented", "-pipe", "-json-output", file,
		"-num-workers", fmt.Sprint(2*runtime.NumCPU()))
	cmd.Dir = t.TempDir()
	out, runErr := cmd.CombinedOutput() // an error if a test fails, which some do
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: %v\n%.4000s", runErr, err, out)
	}
	var results struct{ Tests map[string]outcome }
	if err := json.Unmarshal(data, &results); err != nil {
		t.Fatal(err)
	}
	if len(results.Tests) < 1000 {
		t.Fatalf("%d tests", len(results.Tests))
	}
	return results.Tests
}

// judge counts the outcomes, and reports failures that are not listed. If the
// runner is known it also reports what is listed and does not fail.
func (c config) judge(t testing.TB, tests map[string]outcome, known bool) result {
	var r result
	failing := map[string]bool{} // patterns
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		o := tests[name]
		listed := false
		for pattern := range c.DisabledTests {
			if ok, _ := path.Match(pattern, name); ok {
				listed = true
				failing[pattern] = failing[pattern] || o.Actual == "FAIL"
			}
		}
		switch {
		case o.Actual == "SKIP":
			r.unplayed++
		case listed:
			r.leftOut++
		case o.Actual == "PASS":
			r.passed++
		default:
			t.Errorf("%s: %s\n%s", name, o.Actual, o.Error)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(c.DisabledTests)) {
		if known && !failing[pattern] {
			t.Errorf("%q is listed, and no test of that name fails", pattern)
		}
	}
	return r
}

func TestJudge(t *testing.T) {
	c := config{DisabledTests: map[string]string{"Bad-*": "why"}}
	good := map[string]outcome{"A": {Actual: "PASS"}, "B": {Actual: "SKIP"}, "Bad-1": {Actual: "FAIL"}, "Bad-2": {Actual: "PASS"}, "Bad-3": {Actual: "SKIP"}}
	if got, want := c.judge(t, good, true), (result{passed: 1, leftOut: 2, unplayed: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, test := range map[string]struct {
		tests map[string]outcome
		known bool
		fails bool
	}{
		"not listed": {map[string]outcome{"A": {Actual: "FAIL"}, "Bad-1": {Actual: "FAIL"}}, false, true},
		"stale":      {map[string]outcome{"Bad-1": {Actual: "PASS"}}, true, true},
		"unknown":    {map[string]outcome{"Bad-1": {Actual: "PASS"}}, false, false},
	} {
		f := &failures{TB: t}
		c.judge(f, test.tests, test.known)
		if (f.n > 0) != test.fails {
			t.Errorf("%s: %d failures", name, f.n)
		}
	}
}

// failures counts them instead.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Errorf(string, ...any) { f.n++ }

func readConfig(t *testing.T, name string) (c config) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for pattern, why := range c.DisabledTests {
		if _, err := path.Match(pattern, ""); err != nil || why == "" {
			t.Errorf("%s: %q: %q, %v", name, pattern, why, err)
		}
	}
	return c
}

func TestConfigs(t *testing.T) {
	for _, h := range handshakes {
		if c := readConfig(t, h.config); len(c.DisabledTests) == 0 || len(c.ErrorMap) == 0 {
			t.Errorf("%s is empty", h.config)
		}
	}
}

// buildShim builds this program.
func buildShim(t *testing.T, program string) { goCommand(t, ".", "build", "-o", program, ".") }

// buildOwn builds the program whose handshakes are those of examples/tlsstack: its
// files, main renamed, and this program's, own.go instead of stack.go.
func buildOwn(t *testing.T, program string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "examples", "tlsstack")
	main, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	renamed := bytes.Replace(main, []byte("\nfunc main() {"), []byte("\nfunc exampleMain() {"), 1)
	if bytes.Equal(main, renamed) {
		t.Fatal("examples/tlsstack has no main")
	}
	temp := t.TempDir()
	replace := map[string]string{filepath.Join(dir, "main.go"): filepath.Join(temp, "main.go")}
	for _, name := range []string{"main.go", "flags.go", "exchange.go", "own.go"} {
		if replace[filepath.Join(dir, "bogo_"+name)], err = filepath.Abs(name); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(temp, "overlay.json")
	for name, data := range map[string][]byte{filepath.Join(temp, "main.go"): renamed, file: overlay} {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	goCommand(t, root, "build", "-tags", "tlsstack", "-overlay", file, "-o", program, "./examples/tlsstack")
}

// TestBuildOwn keeps changes of examples/tlsstack from breaking its shim.
func TestBuildOwn(t *testing.T) {
	program := filepath.Join(t.TempDir(), "shim.exe")
	buildOwn(t, program)
	out, err := exec.Command(program, "-is-handshaker-supported").CombinedOutput()
	if err != nil || string(out) != "No\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func goCommand(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// checksum returns the checksum of the runner's source.
func checksum(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no Go files (%v)", dir, err)
	}
	h := sha256.New()
	for _, name := range files { // in order
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(name), len(data), data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// runLimit bounds one run of the runner. The test command has ten minutes for all.
const runLimit = 5 * time.Minute
