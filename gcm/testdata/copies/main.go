// Command copies copies a RecordKey, for TestVetFindsCopies. Folders named
// testdata are not part of ./..., so only that test vets it.
package main

import "example.com/splitseal/gcm"

func main() {
	k, err := gcm.NewRecordKey(make([]byte, 16), make([]byte, 12))
	if err != nil {
		panic(err)
	}
	copied := *k
	take(copied)
}

func take(gcm.RecordKey) {}
