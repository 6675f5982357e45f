// Package peers holds no code, only tests: package record, after a hand-over by
// package cryptotls, against the TLS stacks that a system has. It is a module of
// its own so that the root module needs nothing that these tests need. What
// golang.org/x/net/nettest asks of a net.Conn is here for the same reason.
//
// A peer that is not installed is skipped, with the reason. Under
// SPLITSEAL_REQUIRE=peers it fails instead. All traffic is on loopback and every
// wait is bounded.
//
// The test run makes the matrix in docs/interop.md, and fails if that file says
// anything else. After a change that adds or removes something,
//
//	go test ./interop/peers -update
//
// writes it.
package peers
