//go:build !(linux && amd64) || purego

package trace

import "fmt"

// Run needs Linux on amd64, and assembly.
func Run([]Case) (Result, error) {
	return Result{}, fmt.Errorf("%w: this is not Linux on amd64, or built without assembly", ErrUnavailable)
}

// Breakpoint does nothing.
func Breakpoint() {}
