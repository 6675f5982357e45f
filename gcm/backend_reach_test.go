//go:build linux || darwin || freebsd || netbsd || openbsd

package gcm_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/splitseal/gcm"
)

// A backend's name is a claim, and so is that text is not moved. These tests look:
// they put the text on an inaccessible page, and the fault's stack names the function
// that went for it. No kernel has to count its calls for that.

// kernelPackage is where all kernels are.
const kernelPackage = "example.com/splitseal/internal/asm."

// faultStack runs f, which must fault, and returns the names of the functions
// that were running, innermost first.
func faultStack(t *testing.T, f func()) (names []string) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		t.Helper()
		r := recover()
		if r == nil {
			t.Fatal("nothing touched the inaccessible page")
		}
		if _, ok := r.(runtime.Error); !ok {
			panic(r)
		}
		pcs := make([]uintptr, 64)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
		// What is above runtime.sigpanic came after the fault.
		after := false
		for {
			frame, more := frames.Next()
			if after {
				names = append(names, frame.Function)
			}
			after = after || frame.Function == "runtime.sigpanic"
			if !more {
				return
			}
		}
	}()
	f()
	return nil
}

// kernels returns those of names that are functions of the kernel package.
func kernels(names []string) (found []string) {
	for _, name := range names {
		if strings.HasPrefix(name, kernelPackage) {
			found = append(found, strings.TrimPrefix(name, kernelPackage))
		}
	}
	return found
}

// reachSize is the size of the text that faults: long enough that no backend
// copies it or takes a short path.
const reachSize = 1 << 14

// reachMargin is readable memory on each side of a text that faults, more than
// a backend moves at the seam of two pieces.
const reachMargin = 1024

// faultingText returns reachSize bytes that fault, between memory that does
// not: reachMargin bytes in front, and as many behind.
func faultingText(t *testing.T) []byte {
	t.Helper()
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, reachSize+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	if err := unix.Mprotect(mem[page:page+reachSize], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return mem[page-reachMargin : page+reachSize+reachMargin]
}

// entryPoints returns every call of tgt, made with the text that it reads, or with
// the memory that its plaintext goes to, inaccessible.
func entryPoints(t *testing.T, tgt *target) map[string]func() {
	const n = reachSize
	guarded := faultingText(t)
	mem := guarded[reachMargin:]
	text := mem[:n:n]
	tag := tgt.aead.Overhead()
	sealed := mem[: n+tag : n+tag]
	nonce, aad := pool[:tgt.aead.NonceSize()], pool[300:305]
	out := make([]byte, n+1+gcm.TagSize)
	// Pieces meet where memory can be read, so that what moves there does not
	// fault before a kernel does.
	pieces := [][]byte{pool[:100], guarded, nil, pool[200:231]}
	gathered := make([]byte, 100+len(guarded)+31+gcm.TagSize)
	split := gathered[:len(guarded)+31+tag]
	scattered := gathered[:100+len(guarded)+31+tag]
	outputs := [][]byte{make([]byte, 100), guarded, nil, make([]byte, 31)}
	calls := map[string]func(){
		"Seal":                         func() { tgt.aead.Seal(out[:0], nonce, text, aad) },
		"Seal in place":                func() { tgt.aead.Seal(sealed[:0], nonce, text, aad) },
		"SealGather":                   func() { tgt.aead.SealGather(gathered[:0], nonce, pieces, aad) },
		"SealSplit":                    func() { tgt.aead.SealSplit(out[:n+1+tag], nonce, text, aad) },
		"SealSplit, 31 bytes in place": func() { tgt.aead.SealSplit(split, nonce, guarded, aad) },
		"Open":                         func() { tgt.aead.Open(out[:0], nonce, sealed, aad) },
		"Open in place":                func() { tgt.aead.Open(sealed[:0], nonce, sealed, aad) },
		"OpenSplit":                    func() { tgt.aead.OpenSplit(out[:n-1], nonce, sealed, aad) },
		"OpenScatter":                  func() { tgt.aead.OpenScatter([][]byte{out[:n/2], out[n/2 : n]}, nonce, sealed, aad) },
		"OpenSplit, plaintext":         func() { tgt.aead.OpenSplit(guarded, nonce, split, aad) },
		"OpenScatter, plaintext":       func() { tgt.aead.OpenScatter(outputs, nonce, scattered, aad) },
	}
	if k := tgt.record; k != nil {
		calls["RecordKey.Seal"] = func() { k.Seal(out, 1, text, 23, gcm.ADOf(2, 5)) }
		calls["RecordKey.Seal in place"] = func() { k.Seal(mem[:n+1+gcm.TagSize], 1, text, 23, gcm.ADOf(2, 5)) }
		calls["RecordKey.SealSplit"] = func() { k.SealSplit(out, 1, text, gcm.ADOf(2, 5)) }
		calls["RecordKey.SealSplit, 31 bytes in place"] = func() { k.SealSplit(split, 1, guarded, gcm.ADOf(2, 5)) }
		calls["RecordKey.SealGather"] = func() { k.SealGather(gathered, 1, pieces, gcm.ADOf(2, 5)) }
		calls["RecordKey.OpenSplit"] = func() { k.OpenSplit(out[:n-1], 1, sealed, gcm.ADOf(2, 5)) }
		calls["RecordKey.OpenSplit, plaintext"] = func() { k.OpenSplit(guarded, 1, split, gcm.ADOf(2, 5)) }
		calls["RecordKey.OpenSplit in place"] = func() { k.OpenSplit(nil, 1, sealed, gcm.ADOf(2, 5)) }
	}
	return calls
}

// TestBackendRan proves which backend serves each entry point, and that long pieces
// are sealed and opened where they are: the function that reads the text, or writes
// the plaintext, is a kernel of the backend that was forced, and of no other; for the
// portable backend it is no kernel at all.
func TestBackendRan(t *testing.T) {
	for _, s := range standardKeys() {
		for _, tgt := range s.targets {
			if got := tgt.aead.Backend(); got != tgt.backend {
				t.Errorf("%s: an AEAD made under the backend %s says %s", s.name, tgt.backend, got)
			}
			if got := tgt.record.Backend(); got != tgt.backend {
				t.Errorf("%s: a RecordKey made under the backend %s says %s", s.name, tgt.backend, got)
			}
			for name, call := range entryPoints(t, tgt) {
				stack := faultStack(t, call)
				found := kernels(stack)
				if tgt.backend == "portable" {
					if len(found) != 0 {
						t.Errorf("portable %s %s: reached %v", s.name, name, found)
					}
					continue
				}
				if len(found) == 0 || stack[0] != kernelPackage+found[0] {
					t.Errorf("%s %s %s: the text was read or written by %s, not by a kernel", tgt.backend, s.name, name, stack[0])
					continue
				}
				if owner := backendOfKernel(found[0]); owner != tgt.backend {
					t.Errorf("%s %s %s: reached %s, a kernel of %q", tgt.backend, s.name, name, found[0], owner)
				}
			}
		}
	}
}

// backendOfKernel returns the backend whose name a kernel bears.
func backendOfKernel(kernel string) string {
	for _, name := range []string{"avx512", "vaes", "aesni"} {
		if strings.Contains(strings.ToLower(kernel), name) {
			return name
		}
	}
	return ""
}

// TestBackendNotReached proves that no kernel, which knows 12-byte nonces and
// 16-byte tags only, ever sees another size, whichever backend is forced.
func TestBackendNotReached(t *testing.T) {
	type sizes struct{ nonce, tag int }
	var all []sizes
	for _, nonce := range []int{1, 8, 11, 13, 16, 32, 256} {
		all = append(all, sizes{nonce, gcm.TagSize})
	}
	for tag := 12; tag < gcm.TagSize; tag++ {
		all = append(all, sizes{gcm.NonceSize, tag})
	}
	for _, size := range all {
		for _, keySize := range []int{16, 24, 32} {
			s := newKeySet(t, keySize, size.nonce, size.tag)
			for _, tgt := range s.targets {
				what := fmt.Sprintf("%s forced, %s, nonce %d, tag %d", tgt.backend, s.name, size.nonce, size.tag)
				if got := tgt.aead.Backend(); got != "portable" {
					t.Errorf("%s: Backend() = %s", what, got)
				}
				calls := entryPoints(t, tgt)
				mem := faultingText(t)[reachMargin:]
				text, aad := pool[:100], pool[200:213]
				nonce := pool[300 : 300+size.nonce]
				calls["Seal, nonce"] = func() { tgt.aead.Seal(nil, mem[:size.nonce], text, aad) }
				calls["Seal, additional data"] = func() { tgt.aead.Seal(nil, nonce, text, mem[:reachSize]) }
				calls["Open, nonce"] = func() { tgt.aead.Open(nil, mem[:size.nonce], text, aad) }
				calls["Open, additional data"] = func() { tgt.aead.Open(nil, nonce, text, mem[:reachSize]) }
				for name, call := range calls {
					if found := kernels(faultStack(t, call)); len(found) != 0 {
						t.Errorf("%s: %s reached %v", what, name, found)
					}
				}
			}
		}
	}
}
