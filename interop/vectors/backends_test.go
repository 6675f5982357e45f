package vectors

import (
	"testing"

	"example.com/splitseal/internal/asm"
)

// backendNames returns the backends that this build can run on this machine.
func backendNames() (names []string) {
	for _, b := range asm.Backends() {
		names = append(names, b.String())
	}
	return names
}

// forceBackend makes keys use the named backend until restore is called.
func forceBackend(tb testing.TB, name string) (restore func()) {
	tb.Helper()
	for _, b := range asm.Backends() {
		if b.String() == name {
			return asm.Force(b)
		}
	}
	tb.Fatalf("this machine cannot run the backend %s", name)
	return nil
}
