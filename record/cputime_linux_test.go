package record

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is a clock of the processor time of this thread: it stands still while others
// run, or the process is stopped.
func cpuTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
