//go:build !(linux && amd64)

package trace

import "fmt"

// Run is for Linux on amd64 only.
func Run([]Case) (Result, error) {
	return Result{}, fmt.Errorf("%w: this is not Linux on amd64", ErrUnavailable)
}
