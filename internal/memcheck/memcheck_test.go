package memcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"example.com/splitseal/internal/require"
)

// A finding is one of memcheck's reports: what depends on undefined data, and
// the function that it is in.
type finding struct {
	what, function string
}

var (
	whatLine     = regexp.MustCompile(`^==\d+== (Conditional jump or move depends on|Use of) uninitialised value`)
	functionLine = regexp.MustCompile(`^==\d+==    at 0x[0-9A-F]+: (.+?)(?: \([^()]*\))?$`)
)

// parse returns the findings in valgrind's log.
func parse(log string) (findings []finding) {
	what := ""
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\n")
		if m := whatLine.FindStringSubmatch(line); m != nil {
			what = m[1]
		} else if m := functionLine.FindStringSubmatch(line); m != nil && what != "" {
			findings = append(findings, finding{what, m[1]})
			what = ""
		}
	}
	return findings
}

const (
	branch  = "Conditional jump or move depends on"
	address = "Use of"
)

// controls are what the program does wrong on purpose.
var controls = []finding{{branch, "main.controlBranch"}, {address, "main.controlAddress"}}

// verdicts are the functions that branch on whether the tag was right, which
// the caller learns anyway. No kernel is among them.
var verdicts = []string{
	"example.com/splitseal/gcm.(*AEAD).Open",
	"example.com/splitseal/gcm.(*AEAD).OpenSplit",
	"example.com/splitseal/gcm.(*AEAD).OpenScatter",
	"example.com/splitseal/gcm.(*RecordKey).OpenSplit",
	"example.com/splitseal/gcm.openSplit",
	"example.com/splitseal/internal/asm.(*Key).OpenSplit",
	"example.com/splitseal/internal/asm.(*Key).OpenPieces",
}

// judge returns what is wrong with a run's findings.
func judge(findings []finding) (problems []string) {
	for _, c := range controls {
		if !slices.Contains(findings, c) {
			problems = append(problems, "memcheck did not see what "+c.function+" does on purpose")
		}
	}
	for _, f := range findings {
		switch {
		case slices.Contains(controls, f):
		case f.what == branch && slices.Contains(verdicts, f.function):
		case f.what == branch && f.function == "runtime.adjustframe":
			// Looks at every word of a stack that it moves.
		default:
			problems = append(problems, f.what+" a secret, in "+f.function)
		}
	}
	return problems
}

func TestConstantTime(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the kernels that valgrind knows are for amd64, and the program for Linux")
	}
	if testing.Short() {
		t.Skip("runs a program under valgrind, some 10 s: not with -short")
	}
	valgrind := require.Tool(t, "valgrind")
	require.Tool(t, "gcc")
	dir := t.TempDir()
	program, log := filepath.Join(dir, "program"), filepath.Join(dir, "log")
	build := exec.Command("go", "build", "-tags", "memcheck", "-o", program, "./program")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "valgrind/memcheck.h") {
			require.Missing(t, "valgrind", "its headers are not installed")
		}
		t.Fatalf("go build: %v\n%s", err, out)
	}
	run := exec.Command(valgrind, "-q", "--log-file="+log, program)
	// The runtime's own preemption writes where memcheck does not expect it.
	run.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1", "SPLITSEAL_CPU=")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("valgrind: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(string(out)); got != "aesni" {
		require.Missing(t, "aesni", "under valgrind this machine runs the backend "+got)
	}
	report, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	problems := judge(parse(string(report)))
	for _, p := range problems {
		t.Error(p)
	}
	if len(problems) > 0 {
		t.Logf("valgrind's log:\n%s", report)
	}
}

func TestJudge(t *testing.T) {
	const clean = `==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x4C86B5: main.controlBranch (main.go:82)
==7== 
==7== Use of uninitialised value of size 8
==7==    at 0x4C874E: main.controlAddress (main.go:90)
==7== 
==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x4C4728: example.com/splitseal/gcm.(*AEAD).OpenScatter (gcm.go:351)
==7==    by 0x4C4729: main.opens (main.go:351)
==7== 
==7== Invalid write of size 8
==7==    at 0x4844A9: runtime.something (preempt_amd64.s:18)
`
	if problems := judge(parse(clean)); len(problems) != 0 {
		t.Errorf("a clean log: %q", problems)
	}
	for _, test := range []struct{ name, log string }{
		{"nothing seen", ""},
		{"no branch seen", strings.Replace(clean, "main.controlBranch", "main.other", 1)},
		{"a branch in a kernel", clean + "==7== Conditional jump or move depends on uninitialised value(s)\n" +
			"==7==    at 0x4C4728: example.com/splitseal/internal/asm.aesniOpen (aesni_amd64.s:3)\n"},
		{"an address in a kernel", clean + "==7== Use of uninitialised value of size 8\n" +
			"==7==    at 0x4C4728: example.com/splitseal/internal/asm.aesniSeal.abi0 (aesni_amd64.s:3)\n"},
		{"an address where a verdict is", clean + "==7== Use of uninitialised value of size 8\n" +
			"==7==    at 0x4C4728: example.com/splitseal/gcm.(*AEAD).Open (gcm.go:3)\n"},
		{"a branch in Go code", clean + "==7== Conditional jump or move depends on uninitialised value(s)\n" +
			"==7==    at 0x4C4728: example.com/splitseal/gcm.(*AEAD).Seal (gcm.go:3)\n"},
		{"a branch in a function without a name", clean + "==7== Conditional jump or move depends on uninitialised value(s)\n" +
			"==7==    at 0x4C4728: ???\n"},
	} {
		if problems := judge(parse(test.log)); len(problems) == 0 {
			t.Errorf("%s: no complaint", test.name)
		}
	}
}
