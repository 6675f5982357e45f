// Package fuzz holds no code, only fuzz targets that compare with an oracle: seals
// with crypto/cipher, records with a plain reading of RFC 9846, a connection with
// what was written to it. Targets that need what a package does not export are
// beside the code.
//
//	go test ./fuzz -list Fuzz
//	go test ./fuzz -run '^$' -fuzz '^FuzzOpener$' -fuzztime 30s
//
// The inputs in testdata/fuzz run as tests. A crash leaves its input there, and it is
// committed with the fix.
package fuzz
