//go:build !linux

package record

import "time"

var begin = time.Now()

// cpuTime would be a clock of the processor time of this thread.
func cpuTime() time.Duration { return time.Since(begin) }
