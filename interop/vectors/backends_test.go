package vectors

import "testing"

func backendNames() []string { return []string{"portable"} }

func forceBackend(tb testing.TB, name string) (restore func()) { return func() {} }
