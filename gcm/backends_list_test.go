package gcm_test

import "testing"

// backendNames returns the backends that this build can run on this machine.
func backendNames() []string { return []string{"portable"} }

// forceBackend makes keys use the named backend until restore is called.
func forceBackend(tb testing.TB, name string) (restore func()) { return func() {} }
