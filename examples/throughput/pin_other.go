//go:build !linux

package main

// pinThread does nothing: the thread stays where the scheduler puts it.
func pinThread() (restore func()) { return func() {} }
