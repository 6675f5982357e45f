package gcm_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"example.com/splitseal/gcm"
)

// TestBackendKeys goes through many keys, so that powers of H and round keys
// take many values, and makes few calls with each.
func TestBackendKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	keys := [][]byte{make([]byte, 16), make([]byte, 24), make([]byte, 32),
		bytes.Repeat([]byte{0xff}, 16), bytes.Repeat([]byte{0xff}, 24), bytes.Repeat([]byte{0xff}, 32)}
	for i := range 1500 / stepFor(20) {
		key := make([]byte, 16+8*(i%3))
		for j := range key {
			key[j] = byte(rng.Uint32())
		}
		keys = append(keys, key)
	}
	h := new(heapMemory)
	var m message
	for i, key := range keys {
		s := newKeySetOf(t, key, gcm.NonceSize, gcm.TagSize)
		x := newExam(t, s, h)
		for j, n := range []int{rng.IntN(96), rng.IntN(400), rng.IntN(2500)} {
			s.record(&m, rng.Uint64(), n, rng.IntN(9))
			vary(h, &m, i*3+j)
			x.all(&m)
		}
	}
}

// TestBackendFirstCall makes each call the first one of its key, with a text of
// each class, and then another: what a key sets up late must not depend on
// which call comes first.
func TestBackendFirstCall(t *testing.T) {
	sizes := []int{0, 1, 16, 95, 97, 128, 223, 225, 256, 300, 1350, 16385, 65536 + 33}
	h := new(heapMemory)
	var first, second message
	for _, keySize := range []int{16, 24, 32} {
		for i, call := range recordCalls {
			for j, n := range sizes {
				s := newKeySet(t, keySize, gcm.NonceSize, gcm.TagSize)
				x := newExam(t, s, h)
				s.record(&first, uint64(j), n, 5)
				vary(h, &first, i+j)
				x.some(&first, call)
				s.record(&second, uint64(j)+1, sizes[(i+j*5+3)%len(sizes)], 5)
				vary(h, &second, i+j+1)
				x.some(&second, recordCalls[(i+j)%len(recordCalls)])
			}
		}
		for i, call := range aeadCalls {
			s := newKeySet(t, keySize, gcm.NonceSize, gcm.TagSize)
			x := newExam(t, s, h)
			s.record(&first, 3, sizes[(i*3+7)%len(sizes)], 300)
			vary(h, &first, i)
			x.some(&first, call)
		}
	}
}

// TestBackendFirstRefusal makes a forgery the first thing that a key sees.
func TestBackendFirstRefusal(t *testing.T) {
	h := new(heapMemory)
	var m message
	for _, keySize := range []int{16, 24, 32} {
		for _, n := range []int{0, 5, 96, 130, 1350, 16385} {
			s := newKeySet(t, keySize, gcm.NonceSize, gcm.TagSize)
			x := newExam(t, s, h)
			s.record(&m, uint64(n), n, 5)
			vary(h, &m, n)
			x.refuse(&m, "a tag bit flipped", m.nonce, m.aad, flipped(nil, m.sealed, 8*n+77))
			x.all(&m)
		}
	}
}

// TestBackendWipe requires that a wiped RecordKey makes no call, on any
// backend, and that its neighbours of the same key go on.
func TestBackendWipe(t *testing.T) {
	s := newKeySet(t, 32, gcm.NonceSize, gcm.TagSize)
	var m message
	s.record(&m, 4, 300, 5)
	for _, tgt := range s.targets {
		k := tgt.record
		k.OpenSplit(nil, m.seq, bytes.Clone(m.sealed), m.ad) // whatever it sets up late is there
		k.Wipe()
		k.Wipe()
		buf := bytes.Clone(m.sealed)
		for name, call := range map[string]func(){
			"Seal":       func() { k.Seal(buf, m.seq, m.text[:299], 0, m.ad) },
			"SealSplit":  func() { k.SealSplit(buf, m.seq, m.text, m.ad) },
			"SealGather": func() { k.SealGather(buf, m.seq, [][]byte{m.text}, m.ad) },
			"OpenSplit":  func() { k.OpenSplit(nil, m.seq, buf, m.ad) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: %s after Wipe did not panic", tgt.backend, name)
					}
				}()
				call()
			}()
			if !bytes.Equal(buf, m.sealed) {
				t.Fatalf("%s: %s after Wipe wrote something", tgt.backend, name)
			}
		}
		if k.Backend() != tgt.backend {
			t.Errorf("%s: Backend after Wipe is %s", tgt.backend, k.Backend())
		}
		if got := tgt.aead.Seal(nil, m.nonce, m.text, m.aad); !bytes.Equal(got, m.sealed) {
			t.Errorf("%s: an AEAD of the same key changed", tgt.backend)
		}
	}
}

// TestBackendReset gives used RecordKeys another key and IV: from every key size to every
// other, on the same backend and from one backend to the next.
func TestBackendReset(t *testing.T) {
	h := new(heapMemory)
	var m message
	sizes := []int{16, 24, 32}
	for i := range 2 * len(sizes) * len(sizes) {
		from, to, shift := sizes[i%3], sizes[i/3%3], i/9
		used := newKeySet(t, from, gcm.NonceSize, gcm.TagSize)
		x := newExam(t, used, h)
		for j, n := range []int{300, 1350} { // the second long text makes the table
			used.record(&m, uint64(j), n, 5)
			vary(h, &m, i+j)
			x.all(&m)
		}
		s := newKeySetOf(t, filler("another key", to), gcm.NonceSize, gcm.TagSize)
		for j, tgt := range s.targets {
			tgt.record = used.targets[(j+shift)%len(used.targets)].record
			restore := forceBackend(t, tgt.backend)
			err := tgt.record.Reset(s.key, s.iv)
			restore()
			if err != nil || tgt.record.Backend() != tgt.backend {
				t.Fatalf("Reset: %v, backend %s, want %s", err, tgt.record.Backend(), tgt.backend)
			}
		}
		x = newExam(t, s, h)
		for j, n := range []int{0, 60, 97, 300, 1350, 66_000} {
			s.record(&m, uint64(j), n, 5)
			vary(h, &m, i+j)
			x.all(&m)
		}
	}
}

// TestBackendKeysAreApart uses the keys of all sizes and backends in turn, in
// one goroutine: no kernel may keep anything from one call to the next.
func TestBackendKeysAreApart(t *testing.T) {
	h := new(heapMemory)
	var exams []*exam
	for _, s := range standardKeys() {
		exams = append(exams, newExam(t, s, h))
	}
	messages := make([]message, len(exams))
	for turn := range 300 / stepFor(5) {
		for i, x := range exams {
			x.set.record(&messages[i], uint64(turn), turn*41%2000, 5)
			vary(h, &messages[i], turn)
		}
		for call := range recordCalls {
			for i, x := range exams {
				x.some(&messages[i], recordCalls[call], aeadCalls[call])
			}
		}
	}
}
