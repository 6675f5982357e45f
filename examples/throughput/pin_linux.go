package main

import "golang.org/x/sys/unix"

// pinThread binds the calling thread to the last processor that it may use:
// the first ones serve most interrupts. Where that is refused it stays unbound.
func pinThread() (restore func()) {
	var before, one unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil {
		return func() {}
	}
	for cpu := range len(before) * 64 {
		if before.IsSet(cpu) {
			one.Zero()
			one.Set(cpu)
		}
	}
	if unix.SchedSetaffinity(0, &one) != nil {
		return func() {}
	}
	return func() { unix.SchedSetaffinity(0, &before) }
}
