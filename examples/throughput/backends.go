package main

import "example.com/splitseal/internal/asm"

// A backend is one that this build can run on this machine.
type backend struct {
	name string
	// force makes keys use the backend until restore is called. Keys that are
	// there already keep theirs.
	force func() (restore func())
}

// runnableBackends returns the backends, best first. SPLITSEAL_CPU can remove
// some.
func runnableBackends() ([]backend, error) {
	if err := asm.Err(); err != nil {
		return nil, err
	}
	var all []backend
	for _, b := range asm.Backends() {
		all = append(all, backend{b.String(), func() func() { return asm.Force(b) }})
	}
	return all, nil
}
