// Package memcheck checks that kernels treat secrets in constant time: that no
// branch and no address depends on a key or a text.
//
// Valgrind's memcheck tracks, bit by bit, which memory holds undefined data,
// and reports every branch and every address that depends on it. The program
// behind the build tag memcheck marks keys and texts as undefined and seals
// and opens with them; the test runs it under valgrind and reads the reports.
// (The method is Adam Langley's ctgrind, of 2010.)
//
// Valgrind knows AES-NI, PCLMULQDQ and AVX, so this covers the backend aesni.
// It knows neither VAES nor AVX-512. Package trace checks all backends in another
// way, which sees less of each: not every bit, and kernels only.
package memcheck
