package gcm_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadID returns the calling thread's number.
func threadID() int { return unix.Gettid() }

// kickThreads sends SIGPROF, which the profiler samples on, and SIGURG, which
// the scheduler preempts with, to each thread in turn, several thousand times
// a second: the system's own timers stop at a few hundred.
func kickThreads(t *testing.T, threads []int) (stop func()) {
	pid := os.Getpid()
	return repeat(func() {
		for _, id := range threads {
			for _, signal := range []syscall.Signal{unix.SIGPROF, unix.SIGURG} {
				if err := unix.Tgkill(pid, id, signal); err != nil {
					t.Errorf("cannot signal a thread: %v", err)
				}
			}
		}
		time.Sleep(20 * time.Microsecond)
	})
}
