//go:build memcheck

// Command program is what the test of package memcheck runs under valgrind.
package main

/*
#include <stddef.h>
#include <valgrind/memcheck.h>

static void make_undefined(void *p, size_t n) { VALGRIND_MAKE_MEM_UNDEFINED(p, n); }
static void make_defined(void *p, size_t n) { VALGRIND_MAKE_MEM_DEFINED(p, n); }
static int running(void) { return RUNNING_ON_VALGRIND; }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"example.com/splitseal/gcm"
)

func main() {
	if C.running() == 0 {
		fmt.Fprintln(os.Stderr, "not under valgrind")
		os.Exit(1)
	}
	// Everything on one thread, and nothing that scans secrets.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)

	controlBranch(fresh(16))
	controlAddress(fresh(16))
	var backend string
	for _, keySize := range []int{16, 24, 32} {
		backend = seals(keySize)
		opens(keySize)
	}
	fmt.Println(backend)
}

// fresh returns n secret bytes.
func fresh(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 37)
	}
	if n > 0 {
		C.make_undefined(unsafe.Pointer(&b[0]), C.size_t(n))
	}
	return b
}

// public makes b known to everyone.
func public(b []byte) {
	C.make_defined(unsafe.Pointer(&b[0]), C.size_t(len(b)))
}

var sink byte

// controlBranch and controlAddress do what no kernel may. The check that does
// not see them sees nothing.
//
//go:noinline
func controlBranch(b []byte) {
	if b[3]&1 != 0 {
		sink = 1
	}
}

//go:noinline
func controlAddress(b []byte) {
	table := public256
	sink = table[b[3]]
}

var public256 [256]byte

// sizes meet every path of every kernel: short texts, each tail, several
// batches and groups, and more than one call.
func sizes(f func(n int)) {
	for n := 0; n < 300; n++ {
		f(n)
	}
	for n := 300; n < 2200; n += 61 {
		f(n)
	}
	f(4096)
	f(16385)
	f(65536 + 777)
}

var nonce = make([]byte, 12)

// keys returns secret keys. Their set-up is under test too.
func keys(keySize int) (*gcm.AEAD, *gcm.RecordKey) {
	key, iv := fresh(keySize), fresh(12)
	a, err := gcm.New(key)
	if err != nil {
		panic(err)
	}
	k, err := gcm.NewRecordKey(key, iv)
	if err != nil {
		panic(err)
	}
	return a, k
}

// seals makes every seal call and returns the backend that served it.
func seals(keySize int) string {
	a, k := keys(keySize)
	sizes(func(n int) {
		text := fresh(n)
		aad := fresh(n % 40)
		out := make([]byte, n+gcm.TagSize)
		a.Seal(out[:0], nonce, text, aad)
		a.SealGather(out[:0], nonce, [][]byte{text[:n/3], text[n/3:]}, aad)
		copy(out, text)
		a.Seal(out[:0], nonce, out[:n], aad)
		a.SealSplit(out, nonce, text[:n-n/4], aad)
		if n > 0 {
			k.Seal(out, uint64(n), text[:n-1], text[n-1], recordAD(n))
			k.SealSplit(out, uint64(n), text[:n-1], recordAD(n))
			k.SealGather(out, uint64(n), [][]byte{text[:n/2], text[n/2:]}, recordAD(n))
		}
	})
	return a.Backend()
}

// recordAD returns additional data of 0 to 8 bytes.
func recordAD(n int) gcm.AD { return gcm.ADOf(23&(1<<(n%9*8)-1), n%9) }

// opens makes every open call.
func opens(keySize int) {
	a, k := keys(keySize)
	sizes(func(n int) {
		text := fresh(n)
		aad := fresh(n % 40)
		sealed := a.Seal(nil, nonce, text, aad)
		// What the peer sent is public. The plaintext is not.
		public(sealed)
		out := make([]byte, n)
		must(a.Open(out[:0], nonce, sealed, aad))
		must(nil, a.OpenSplit(out[:n-n/4], nonce, append([]byte(nil), sealed...), aad))
		must(nil, a.OpenScatter([][]byte{out[:n/3], out[n/3:]}, nonce, append([]byte(nil), sealed...), aad))
		must(a.Open(sealed[:0], nonce, sealed, aad))
		if n > 0 {
			record := make([]byte, n+gcm.TagSize)
			k.Seal(record, uint64(n), text[:n-1], text[n-1], recordAD(n))
			public(record)
			must(nil, k.OpenSplit(out[:n-1], uint64(n), record, recordAD(n)))
		}
	})
}

// must ends the program on an error. Whether a tag is right is no secret.
func must(_ []byte, err error) {
	if err != nil {
		panic(err)
	}
}
