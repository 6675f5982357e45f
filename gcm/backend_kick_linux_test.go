package gcm_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// threadID returns the calling thread's number.
func threadID() int { return unix.Gettid() }

// canKick says that kickThreads kicks.
const canKick = true

// kickThreads sends SIGPROF, which the profiler samples on, and SIGURG, which
// the scheduler preempts with, to each thread in turn, several thousand times
// a second: the system's own timers stop at a few hundred. It counts in kicks
// the signals that were taken: as long as one is pending, no other one of its kind
// is sent to its thread. It never sleeps: the system would wake it too late.
func kickThreads(t *testing.T, threads []int, kicks *atomic.Int64) (stop func()) {
	pid := os.Getpid()
	signals := []syscall.Signal{unix.SIGPROF, unix.SIGURG}
	var files []*os.File
	sent := make([]uint64, len(threads)) // as bits of a set of signals
	for _, id := range threads {
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/status", id))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	buf := make([]byte, 4096)
	stopKicks := repeat(func() {
		for i, id := range threads {
			pending, err := pendingSignals(files[i], buf)
			if err != nil {
				t.Errorf("cannot see a thread's signals: %v", err)
				return
			}
			for _, signal := range signals {
				bit := uint64(1) << (signal - 1)
				if pending&bit != 0 {
					continue
				}
				if sent[i]&bit != 0 {
					kicks.Add(1)
				}
				if err := unix.Tgkill(pid, id, signal); err != nil {
					t.Errorf("cannot signal a thread: %v", err)
				}
				sent[i] |= bit
			}
		}
	})
	return func() {
		stopKicks()
		for _, f := range files {
			f.Close()
		}
	}
}

// pendingSignals returns the signals that wait for one thread, whose status f is.
func pendingSignals(f *os.File, buf []byte) (uint64, error) {
	n, err := f.ReadAt(buf, 0)
	if n == 0 {
		return 0, err
	}
	_, after, ok := bytes.Cut(buf[:n], []byte("\nSigPnd:\t"))
	if !ok || len(after) < 16 {
		return 0, fmt.Errorf("no pending signals in %q", buf[:n])
	}
	return strconv.ParseUint(string(after[:16]), 16, 64)
}
