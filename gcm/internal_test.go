package gcm

import (
	"bytes"
	"testing"
	"unsafe"

	"example.com/splitseal/internal/asm"
)

// TestWipeErases looks at the memory of a RecordKey that was wiped, on every backend.
func TestWipeErases(t *testing.T) {
	for _, b := range asm.Backends() {
		restore := asm.Force(b)
		k, err := NewRecordKey([]byte("0123456789abcdef"), []byte("0123456789ab"))
		restore()
		if err != nil {
			t.Fatal(err)
		}
		k.Seal(make([]byte, 117), 1, make([]byte, 100), 23, ADOf(2, 5))
		key := &k.state.key
		if kernel := key.kernel(); kernel != nil {
			memory := unsafe.Slice((*byte)(unsafe.Pointer(kernel)), unsafe.Sizeof(*kernel))
			if used(memory) < 200 {
				t.Errorf("%v: %d bytes of a key are used, is it elsewhere?", b, used(memory))
			}
			if k.Wipe(); used(memory) > 1 { // the backend
				t.Errorf("%v: %d bytes are left of the key", b, used(memory))
			}
			continue
		}
		generic := []*[NonceSize]byte{&key.iv, &key.nonce}
		for _, p := range generic {
			if *p == [NonceSize]byte{} {
				t.Errorf("%v: IV or nonce is elsewhere", b)
			}
		}
		k.Wipe()
		for _, p := range generic {
			if *p != [NonceSize]byte{} {
				t.Errorf("%v: IV or nonce is left: %x", b, *p)
			}
		}
		if key.key.aead != nil || key.ad != [maxADSize]byte{} {
			t.Errorf("%v: key or additional data are left", b)
		}
	}
}

// TestResetLeavesNothing compares the memory of a key that was reset, from a longer one
// that had made all its powers, with that of a new key.
func TestResetLeavesNothing(t *testing.T) {
	for _, b := range asm.Backends() {
		if b == asm.Portable {
			continue // crypto/cipher's keys are new ones
		}
		restore := asm.Force(b)
		memory := func(k *RecordKey, err error) []byte {
			if err != nil {
				t.Fatal(err)
			}
			kernel := k.state.key.kernel()
			return unsafe.Slice((*byte)(unsafe.Pointer(kernel)), unsafe.Sizeof(*kernel))
		}
		key, iv := []byte("0123456789abcdef"), []byte("0123456789ab")
		fresh := memory(NewRecordKey(key, iv))
		k, err := NewRecordKey([]byte("another key, which has 32 bytes!"), []byte("ba9876543210"))
		reset := memory(k, err)
		for seq := range uint64(2) { // the second long text makes the table
			k.Seal(make([]byte, 1017), seq, make([]byte, 1000), 23, ADOf(2, 5))
		}
		if err := k.Reset(key, iv); err != nil || !bytes.Equal(reset, fresh) {
			t.Errorf("%v: Reset: %v, memory\n%x, of a new key\n%x", b, err, reset, fresh)
		}
		restore()
	}
}

// used returns how many bytes are not zero.
func used(memory []byte) (n int) {
	for _, b := range memory {
		if b != 0 {
			n++
		}
	}
	return n
}

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

// TestScratchSteady seals texts of several sizes in turn, below what the pool keeps and
// above: the short ones allocate nothing, in the long run.
func TestScratchSteady(t *testing.T) {
	var k genericKey
	if err := k.init(make([]byte, 16), NonceSize, 12); err != nil {
		t.Fatal(err)
	}
	nonce, buf := make([]byte, NonceSize), make([]byte, 200_000)
	for _, test := range []struct {
		sizes []int
		most  float64 // allocations, of the text that the pool has no room for
	}{
		{[]int{60_001, 70_001}, 0},
		{[]int{70_001, 97, 60_001}, 0},
		{[]int{100_001, 97}, 2},
	} {
		seal := func() {
			for _, n := range test.sizes {
				k.seal(buf[:n+12], nonce, buf[:n], nil)
			}
		}
		least := testing.AllocsPerRun(1, seal)
		for range 20 { // under the race detector a pool drops what it is given, at times
			least = min(least, testing.AllocsPerRun(1, seal))
		}
		if least > test.most {
			t.Errorf("%v: %v allocations, want %v", test.sizes, least, test.most)
		}
	}
}
