// Command cshared is built as a C library and loaded by driver.c.
package main

import "C"

import (
	"fmt"
	"os"

	"example.com/splitseal/gcm/testdata/embed/check"
)

//export splitseal_check
func splitseal_check() C.int {
	if err := check.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

//export splitseal_backend
func splitseal_backend() *C.char {
	name, err := check.Backend()
	if err != nil {
		name = err.Error()
	}
	return C.CString(name)
}

func main() {}
