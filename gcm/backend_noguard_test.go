//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package gcm_test

import "testing"

func TestBackendGuardPages(t *testing.T) {
	t.Skip("package syscall has no Mmap and Mprotect on this system")
}
