package gcm

import (
	"testing"
	"unsafe"
)

// TestKeySizes: 512 bytes is a size class of the allocator.
func TestKeySizes(t *testing.T) {
	if n := unsafe.Sizeof(aeadObject{}); n > 512 {
		t.Errorf("an AEAD takes %d bytes, more than 512", n)
	}
	if n := unsafe.Sizeof(recordObject{}); n > 512 {
		t.Errorf("a RecordKey takes %d bytes, more than 512", n)
	}
}

// TestScratchPool looks in the pool for the buffer of a text that was too long for it.
func TestScratchPool(t *testing.T) {
	a, err := NewWithTagSize(make([]byte, 16), 12)
	if err != nil {
		t.Fatal(err)
	}
	nonce, text := make([]byte, NonceSize), make([]byte, 1<<20+1)
	for range 20 { // under the race detector a pool drops what it is given, at times
		sealed := a.Seal(nil, nonce, text, nil)
		if _, err := a.Open(nil, nonce, sealed, nil); err != nil {
			t.Fatal(err)
		}
		for b := scratches.Get(); b != nil; b = scratches.Get() {
			if n := cap(*b.(*[]byte)); n > maxPooledScratch {
				t.Fatalf("a buffer of %d bytes is in the pool, more than %d", n, maxPooledScratch)
			}
		}
	}
}
