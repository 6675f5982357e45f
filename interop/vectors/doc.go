// Package vectors holds tests only: published vectors, run on every backend
// that the machine has.
//
//   - Wycheproof's AES-GCM, ChaCha20-Poly1305 and AES-CCM sets, from the module
//     github.com/c2sp/wycheproof, whose version and hash go.mod and go.sum pin. Its
//     licence is Apache-2.0; no file of it is here.
//   - The AES-GCM set of NIST's Automated Cryptographic Validation Protocol,
//     in testdata/acvp. The files are vectors/ACVP-AES-GCM.bz2 and
//     expected/ACVP-AES-GCM.bz2 of github.com/geomys/acvp-testdata at
//     v0.0.0-20251201200548-d893de8b8b1c, the data that Go's own FIPS 140-3
//     tests use, under the licence beside them. A test holds their checksums.
//
// It is a module of its own so that the core depends on none of them.
package vectors
