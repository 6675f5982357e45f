package gcm_test

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"math"
	"testing"

	"example.com/splitseal/gcm"
)

// keystream appends n bytes of GCM's keystream under a 12-byte nonce: block i
// is the encryption of nonce ‖ BE32(i + 2), each made on its own from nothing
// but the specification (NIST SP 800-38D, Sections 6.5 and 7.1).
func keystream(dst []byte, block cipher.Block, nonce []byte, n int) []byte {
	var in, out [16]byte
	copy(in[:], nonce)
	for i := uint32(2); n > 0; i++ {
		binary.BigEndian.PutUint32(in[12:], i)
		block.Encrypt(out[:], in[:])
		k := min(n, len(out))
		dst = append(dst, out[:k]...)
		n -= k
	}
	return dst
}

// counterNonces have every low byte that a counter might disturb.
var counterNonces = [][]byte{
	make([]byte, 12),
	bytes.Repeat([]byte{0xff}, 12),
	{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
	{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	{0x80, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0x80},
	{0x0f, 0x1e, 0x2d, 0x3c, 0x4b, 0x5a, 0x69, 0x78, 0x87, 0x96, 0xa5, 0xb4},
}

// TestBackendCounters compares the counters of every construction with the
// per-block one. Zeros are sealed, so the ciphertext is the keystream itself,
// and opening the keystream must give zeros.
//
// A text of 65,536 + 65,536 + 4,111 bytes meets each batch index of a call of
// 64 KiB, the step to the next call twice, and in each call each value of the
// low counter byte many times over. The shorter lengths make every block the
// last one, whole and partial, for two strides of the widest kernel and more.
func TestBackendCounters(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		const most = 2*65536 + 4111
		zeros := make([]byte, most)
		out := make([]byte, 0, most+gcm.TagSize)
		back := make([]byte, 0, most)
		var want []byte
		for _, nonce := range counterNonces {
			want = keystream(want[:0], s.block, nonce, most)
			for _, tgt := range s.targets {
				check := func(n int) {
					sealed := tgt.aead.Seal(out, nonce, zeros[:n], nil)
					if i := firstDifference(sealed[:n], want[:n]); i >= 0 {
						t.Fatalf("%s, nonce %x, %d bytes: block %d (byte %d) is not the encryption of its counter",
							tgt.backend, nonce, n, i/16, i)
					}
					text, err := tgt.aead.Open(back, nonce, sealed, nil)
					if err != nil || !bytes.Equal(text, zeros[:n]) {
						t.Fatalf("%s, nonce %x, %d bytes: open: %v, zeros %v", tgt.backend, nonce, n, err, bytes.Equal(text, zeros[:n]))
					}
				}
				for n := 0; n <= 260*16; n += 16 {
					check(n)
					check(n + 1)
					check(n + 15)
				}
				for _, n := range []int{8192, 16384, 16385, 65536 - 16, 65536, 65536 + 1, 65536 + 16, 65536 + 257, most} {
					check(n)
				}
			}
		}
	})
}

// TestBackendRecordCounters does the same for the nonces of a RecordKey, which
// are never in memory: iv XOR seq.
func TestBackendRecordCounters(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		const most = 65536 + 4111
		out := make([]byte, most+gcm.TagSize)
		zeros := make([]byte, most)
		var want, nonce []byte
		for _, seq := range seqs {
			nonce = append(nonce[:0], s.iv...)
			for i := range 8 {
				nonce[4+i] ^= byte(seq >> (56 - 8*i))
			}
			want = keystream(want[:0], s.block, nonce, most)
			for _, tgt := range s.targets {
				for n := 1; n <= most; n += 1 + n/3 {
					tgt.record.Seal(out[:n+gcm.TagSize], seq, zeros[:n-1], 0, gcm.AD{})
					if i := firstDifference(out[:n], want[:n]); i >= 0 {
						t.Fatalf("%s, seq %#x, %d bytes: block %d (byte %d) is not the encryption of its counter",
							tgt.backend, seq, n, i/16, i)
					}
				}
			}
		}
	})
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestBackendHighCounters seals 512 MiB and more, so that block numbers reach
// the counter's highest byte, and the length in bits takes more than 32: the steps
// between calls of 64 KiB must carry into each of the counter's bytes. TestCalls
// in internal/asm goes on from there.
func TestBackendHighCounters(t *testing.T) {
	if reduced() || math.MaxInt == math.MaxInt32 {
		t.Skip("512 MiB: not on 32-bit machines, with the race detector or with -short")
	}
	const n = 1<<29 + 4111 // 2^25 blocks and some more
	s := standardKeys()[0]
	nonce, aad := counterNonces[5], pool[:5]
	// One buffer: the oracle seals it, each backend opens and seals it.
	buf := make([]byte, n+gcm.TagSize)
	tag := bytes.Clone(s.oracle.Seal(buf[:0], nonce, buf[:n], aad)[n:])
	// The second cut is on neither side of a call.
	pieces := [][]byte{buf[:1000], buf[1000 : 1<<28+77], buf[1<<28+77 : n]}
	for _, tgt := range s.targets {
		for _, form := range []struct {
			name string
			open func() error
			seal func()
		}{
			{"whole", func() error {
				_, err := tgt.aead.Open(buf[:0], nonce, buf, aad)
				return err
			}, func() { tgt.aead.Seal(buf[:0], nonce, buf[:n], aad) }},
			{"in pieces", func() error { return tgt.aead.OpenScatter(pieces, nonce, buf, aad) },
				func() { tgt.aead.SealGather(buf[:0], nonce, pieces, aad) }},
		} {
			if form.name != "whole" && tgt.backend == "portable" {
				continue // it moves pieces and has no other code for them
			}
			if err := form.open(); err != nil {
				t.Fatalf("%s, %s: %v", tgt.backend, form.name, err)
			}
			for i := 0; i < n; i += len(zeroPage) {
				part := buf[i:min(i+len(zeroPage), n)]
				if !bytes.Equal(part, zeroPage[:len(part)]) {
					t.Fatalf("%s, %s: the text is wrong between bytes %d and %d", tgt.backend, form.name, i, i+len(part))
				}
			}
			form.seal()
			if !bytes.Equal(buf[n:], tag) {
				t.Fatalf("%s, %s: tag %x, want %x", tgt.backend, form.name, buf[n:], tag)
			}
		}
	}
}

var zeroPage [1 << 16]byte
