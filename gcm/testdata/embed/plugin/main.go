// Command plugin is built as a Go plugin and loaded by command host.
package main

import "example.com/splitseal/gcm/testdata/embed/check"

// Run is check.Run.
func Run() error { return check.Run() }

// Backend is check.Backend.
func Backend() (string, error) { return check.Backend() }

func main() {}
