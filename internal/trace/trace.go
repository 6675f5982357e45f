package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// A Case is a call whose runs must be alike.
type Case struct {
	Name string
	Runs int

	// Run makes run number run. It prepares what the call needs, then calls
	// [Breakpoint], makes the call, and calls Breakpoint again: what happens in between
	// is traced. Nothing there may check the stack's size, which is where the runtime
	// preempts, so every function called must be assembly or marked go:nosplit. When
	// the first Breakpoint returns, registers and the stack below are set to zeros. Run
	// returns an error if the call did not do what it should have done.
	Run func(run int) error
}

// A Difference is where a run of a case first differs from its run 0.
type Difference struct {
	Case string
	Run  int
	What What
	PC   uintptr // of the instruction
}

// What says what differs.
type What int

const (
	Branch  What = iota // the way that a branch went
	Address             // an address
	Left                // what a function leaves behind where it returns
)

func (w What) String() string { return [...]string{"branch", "address", "what is left"}[w] }

func (d Difference) String() string {
	return fmt.Sprintf("%s: run %d differs from run 0: %v at %s", d.Case, d.Run, d.What, Place(d.PC))
}

// Place returns the function and line of an instruction of this program.
func Place(pc uintptr) string {
	f := runtime.FuncForPC(pc)
	if f == nil {
		return fmt.Sprintf("%#x", pc)
	}
	file, line := f.FileLine(pc)
	return fmt.Sprintf("%s (%s:%d)", f.Name(), filepath.Base(file), line)
}

// A Result is what [Run] saw.
type Result struct {
	Differences []Difference
	Steps       int              // instructions of all runs
	Executed    map[uintptr]bool // instructions that some run executed
}

// ErrUnavailable is what [Run] returns, wrapped in an error that says why,
// where it cannot trace at all.
var ErrUnavailable = errors.New("trace: processes cannot be traced here")

// env is set for the process that is traced.
const env = "SPLITSEAL_TRACEE"

// Traced reports whether this process is the one that [Run] has started. Then
// it must call [Main] with the same cases, from the goroutine that initialises
// packages, which is the one that calls TestMain.
func Traced() bool { return os.Getenv(env) != "" }

func init() {
	// Only the thread that a process begins with is traced. The goroutine that
	// initialises packages runs on it, and is the one that calls TestMain.
	if Traced() {
		runtime.LockOSThread()
	}
}

// Main makes the runs of all cases and ends the process.
func Main(cases []Case) {
	growStack()
	for _, c := range cases {
		for run := range c.Runs {
			if err := c.Run(run); err != nil {
				fmt.Fprintf(os.Stderr, "%s: run %d: %v\n", c.Name, run, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(0)
}

// growStack keeps the stack from moving later.
//
//go:noinline
func growStack() {
	var room [64 << 10]byte
	touch(room[:])
}

//go:noinline
func touch(b []byte) { b[0] = 1 }
