//go:build !amd64 || purego

package asm

// machine has no kernels.
var machine processor
