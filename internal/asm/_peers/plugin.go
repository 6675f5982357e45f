package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "adapters/peer.h"

static void *new_key(const struct peer *p, const uint8_t *key, size_t size)
{
	return p->new_key(key, size);
}

static void seal(const struct peer *p, void *key, uint8_t *buf, size_t n, uint64_t number, uint64_t count)
{
	p->seal(key, buf, n, number, count);
}

static uint64_t open(const struct peer *p, void *key, uint8_t *dst, const uint8_t *src, size_t n, uint64_t number,
		     uint64_t count)
{
	return p->open(key, dst, src, n, number, count);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// load returns what an adapter offers. ia32cap is the environment variable by
// which libraries that descend from OpenSSL can be told what the processor has.
func load(path, label, ia32cap string) ([]contender, error) {
	// A copy, so that one adapter can be loaded again with another ia32cap.
	own, err := copyFile(path)
	if err != nil {
		return nil, err
	}
	defer os.Remove(own)
	if ia32cap != "" {
		os.Setenv("OPENSSL_ia32cap", ia32cap) // the C library's environment too
		defer os.Unsetenv("OPENSSL_ia32cap")
	}
	name := C.CString(own)
	defer C.free(unsafe.Pointer(name))
	library := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if library == nil {
		return nil, fmt.Errorf("%s: %s", path, C.GoString(C.dlerror()))
	}
	symbol := C.CString("peers")
	defer C.free(unsafe.Pointer(symbol))
	p := (*C.struct_peer)(C.dlsym(library, symbol))
	if p == nil {
		return nil, fmt.Errorf("%s: no list of peers", path)
	}
	var list []contender
	for ; p.name != nil; p = (*C.struct_peer)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		c := contender{name: C.GoString(p.name) + label, newKey: newPeerKey(p)}
		c.newKey(make([]byte, 16)) // looks at the environment
		list = append(list, c)
	}
	return list, nil
}

func copyFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "peer-*.so")
	if err != nil {
		return "", err
	}
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

func newPeerKey(p *C.struct_peer) func(key []byte) calls {
	return func(key []byte) calls {
		k := C.new_key(p, pointer(key), C.size_t(len(key)))
		if k == nil {
			panic("peer " + C.GoString(p.name) + " has no such key")
		}
		return calls{
			seal: func(buf []byte, n int, number uint64, count int) {
				C.seal(p, k, pointer(buf), C.size_t(n), C.uint64_t(number), C.uint64_t(count))
			},
			open: func(dst, src []byte, n int, number uint64, count int) bool {
				return int(C.open(p, k, pointer(dst), pointer(src), C.size_t(n), C.uint64_t(number), C.uint64_t(count))) == count
			},
		}
	}
}

func pointer(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }
