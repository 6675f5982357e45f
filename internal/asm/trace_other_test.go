//go:build !(linux && amd64) || purego

package asm

import "testing"

func TestTraces(t *testing.T) {
	t.Skip("single steps are for Linux, and this build must have kernels, which are for amd64")
}
