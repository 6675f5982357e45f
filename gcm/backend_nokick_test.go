//go:build !linux

package gcm_test

import (
	"sync/atomic"
	"testing"
)

// threadID is only of use to kickThreads.
func threadID() int { return 0 }

// canKick says that kickThreads does nothing here: no portable call aims a signal
// at a thread. The profiler's and the scheduler's own signals remain.
const canKick = false

func kickThreads(t *testing.T, threads []int, kicks *atomic.Int64) (stop func()) { return func() {} }
