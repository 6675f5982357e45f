//go:build !unix

package record

import "io"

// socket is nothing here: every transport waits in its own Read.
type socket struct{}

func newSocket(io.Reader) *socket { return nil }

func (*socket) read(*Reader) (int, error) { panic("record: no socket") }
