//go:build !purego

package trace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"example.com/splitseal/internal/require"
)

// listEnv says which of the lists the traced process takes.
const listEnv = "SPLITSEAL_TRACE_LIST"

func TestMain(m *testing.M) {
	if Traced() {
		Main(lists[os.Getenv(listEnv)])
	}
	os.Exit(m.Run())
}

var (
	secret, sink int
	table        [8]int
)

//go:noinline
//go:norace
func same(run int) error {
	secret = run
	Breakpoint()
	sink = secret ^ 1
	Breakpoint()
	return nil
}

//go:noinline
//go:norace
func branch(run int) error {
	secret = run
	Breakpoint()
	if secret == 2 {
		sink = 1
	}
	Breakpoint()
	return nil
}

//go:noinline
//go:norace
func address(run int) error {
	secret = run
	Breakpoint()
	sink = table[secret&7]
	Breakpoint()
	return nil
}

//go:noinline
//go:norace
func loop(run int) error {
	secret = run
	Breakpoint()
	for i := range secret + 1 {
		sink += i
	}
	Breakpoint()
	return nil
}

//go:noinline
//go:norace
func division(run int) error {
	secret = run + 1
	Breakpoint()
	sink = 100 / secret
	Breakpoint()
	return nil
}

//go:noinline
//go:norace
func behind(run int) error {
	secret = run / 2
	Breakpoint()
	LeaveInGeneral(uint64(secret))
	Breakpoint()
	return nil
}

// before has run's number in a register and on the stack before the call.
//
//go:noinline
//go:norace
func before(run int) error {
	LeaveOnStack(uint64(run))
	LeaveInVector(uint64(run))
	return behind(0)
}

func fails(run int) error {
	if run == 1 {
		return errors.New("this is what went wrong")
	}
	return same(run)
}

func silent(run int) error { return nil }

func twice(run int) error {
	same(run)
	return same(run)
}

//go:noinline
//go:norace
func crashes(run int) error {
	Breakpoint()
	sink = *(*int)(nil)
	Breakpoint()
	return nil
}

var lists = map[string][]Case{
	"all": {
		{"same", 3, same}, {"branch", 3, branch}, {"address", 3, address}, {"loop", 2, loop}, {"same again", 2, same},
		{"behind", 3, behind}, {"before", 3, before},
	},
	"division": {{"division", 2, division}},
	"fails":    {{"fails", 2, fails}},
	"silent":   {{"silent", 1, silent}},
	"twice":    {{"twice", 1, twice}},
	"crashes":  {{"crashes", 1, crashes}},
}

func runList(t *testing.T, name string) (Result, error) {
	t.Helper()
	t.Setenv(listEnv, name)
	result, err := Run(lists[name])
	if errors.Is(err, ErrUnavailable) {
		require.Missing(t, "ptrace", err.Error())
	}
	return result, err
}

func TestRun(t *testing.T) {
	result, err := runList(t, "all")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range result.Differences {
		got = append(got, d.String())
	}
	const prefix = " differs from run 0: "
	want := []string{
		"branch: run 2" + prefix + "branch at example.com/splitseal/internal/trace.branch (",
		"address: run 1" + prefix + "address at example.com/splitseal/internal/trace.address (",
		"address: run 2" + prefix + "address at example.com/splitseal/internal/trace.address (",
		"loop: run 1" + prefix + "branch at example.com/splitseal/internal/trace.loop (",
		"behind: run 2" + prefix + "what is left at example.com/splitseal/internal/trace.LeaveInGeneral (",
	}
	if len(got) != len(want) {
		t.Fatalf("found %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("found %q, want %q", got[i], want[i])
		}
	}
	if result.Steps < 100 || len(result.Executed) < 20 {
		t.Errorf("%d steps of %d instructions", result.Steps, len(result.Executed))
	}
}

// TestRunRefuses has runs that say nothing, and must not pass for ones that are
// alike.
func TestRunRefuses(t *testing.T) {
	for name, says := range map[string]string{
		"division": "a division",
		"fails":    "this is what went wrong",
		"silent":   "ended",
		"twice":    "goes on",
		"crashes":  "segmentation fault",
	} {
		if _, err := runList(t, name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, says)
		}
	}
}
