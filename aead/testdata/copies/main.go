// Command copies copies a Protector, for TestVetFindsCopies. Folders named
// testdata are not part of ./..., so only that test vets it.
package main

import "example.com/splitseal/aead"

func main() {
	p, err := aead.NewProtector(aead.AES128GCM(), aead.TrafficKeys{})
	if err != nil {
		panic(err)
	}
	copied := *p
	take(copied)
}

func take(aead.Protector) {}
