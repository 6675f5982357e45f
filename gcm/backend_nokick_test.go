//go:build !linux

package gcm_test

import "testing"

// threadID is only of use to kickThreads.
func threadID() int { return 0 }

// kickThreads does nothing: no portable call aims a signal at a thread. The
// profiler's and the scheduler's own signals remain.
func kickThreads(t *testing.T, threads []int) (stop func()) { return func() {} }
