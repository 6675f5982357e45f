package gcm_test

import (
	"bytes"
	"errors"
	"testing"

	"example.com/splitseal/gcm"
)

// refuse makes every open call with sealed, which is m's ciphertext after some
// change, under m's nonce and additional data after some change, and requires
// that each refuses it, leaves zeros where plaintext was to go, and touches
// nothing else.
func (x *exam) refuse(m *message, what string, nonceBytes, aadBytes, sealedBytes []byte) {
	n := len(sealedBytes) - len(m.sealed) + len(m.text)
	// After a change of the ciphertext the text has no right answer, so these
	// compare with the changed message.
	changed := &message{nonce: nonceBytes, aad: aadBytes, text: m.text, sealed: sealedBytes, split: m.split, cuts: m.cuts, seq: m.seq}
	x.msg = changed
	asRecord := m.isRecord && bytes.Equal(aadBytes, m.aad) && bytes.Equal(nonceBytes, m.nonce)
	for _, x.tgt = range x.set.targets {
		open := func(name string, f func(nonce, aad []byte) error) {
			nonce, aad := x.begin(name + " of a message with " + what)
			if err := f(nonce, aad); !errors.Is(err, gcm.ErrOpen) {
				x.fail("error %v, want gcm.ErrOpen", err)
			}
			x.end(nonce, aad)
		}
		open("Open apart", func(nonce, aad []byte) error {
			sealed := x.input(slotText, sealedBytes)
			out := x.output(slotOut, n)
			got, err := x.tgt.aead.Open(out[:0], nonce, sealed, aad)
			if got != nil {
				x.fail("a result of %d bytes", len(got))
			}
			x.zero("the output", out)
			x.same("the ciphertext", sealed, sealedBytes)
			return err
		})
		open("Open appended", func(nonce, aad []byte) error {
			sealed := x.input(slotText, sealedBytes)
			out := x.output(slotOut, 5+n)
			_, err := x.tgt.aead.Open(out[:5], nonce, sealed, aad)
			x.same("what stood before", out[:5], junk[:5])
			x.zero("the output", out[5:])
			return err
		})
		open("Open in place", func(nonce, aad []byte) error {
			buf := x.input(slotOut, sealedBytes)
			_, err := x.tgt.aead.Open(buf[:0], nonce, buf, aad)
			x.zero("the output", buf[:n])
			x.same("the tag", buf[n:], sealedBytes[n:])
			return err
		})
		split := func(open func(prefix, buf, nonce, aad []byte) error) func(nonce, aad []byte) error {
			return func(nonce, aad []byte) error {
				buf := x.input(slotOut, sealedBytes)
				k := min(m.split, n)
				prefix := x.output(slotPrefix, k)
				err := open(prefix, buf, nonce, aad)
				x.zero("the prefix", prefix)
				x.zero("the rest", buf[k:n])
				x.workingSpace(buf[:k], sealedBytes)
				x.same("the tag", buf[n:], sealedBytes[n:])
				return err
			}
		}
		open("OpenSplit", split(func(prefix, buf, nonce, aad []byte) error {
			return x.tgt.aead.OpenSplit(prefix, nonce, buf, aad)
		}))
		if n == len(m.text) {
			open("OpenScatter", func(nonce, aad []byte) error {
				sealed := x.input(slotText, sealedBytes)
				pieces := x.cut(true)
				err := x.tgt.aead.OpenScatter(pieces, nonce, sealed, aad)
				for _, p := range pieces {
					x.zero("a piece", p)
				}
				x.scattered(sealed, nil)
				return err
			})
		}
		if asRecord && x.tgt.record != nil {
			open("RecordKey.OpenSplit", split(func(prefix, buf, _, _ []byte) error {
				return x.tgt.record.OpenSplit(prefix, m.seq, buf, m.ad)
			}))
		}
	}
}

// flipped returns a copy of b in dst with one bit changed.
func flipped(dst, b []byte, bit int) []byte {
	dst = append(dst[:0], b...)
	dst[bit/8] ^= 1 << (bit % 8)
	return dst
}

// TestBackendTagBits flips each bit of the tag, one at a time.
func TestBackendTagBits(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		var forged []byte
		for _, n := range []int{0, 1, 15, 16, 17, 63, 96, 112, 128, 223, 225, 600, 1350, 4100} {
			s.record(&m, uint64(n), n, 5)
			vary(h, &m, n)
			for bit := 0; bit < 8*gcm.TagSize; bit += stepFor(5) {
				forged = flipped(forged, m.sealed, 8*n+bit)
				x.refuse(&m, "a tag bit flipped", m.nonce, m.aad, forged)
			}
		}
		// Behind more than one call.
		for _, n := range []int{65536, 65537, 131072 + 33} {
			s.record(&m, uint64(n), n, 5)
			vary(h, &m, n)
			for bit := n % 7; bit < 8*gcm.TagSize; bit += 43 {
				forged = flipped(forged, m.sealed, 8*n+bit)
				x.refuse(&m, "a tag bit flipped", m.nonce, m.aad, forged)
			}
		}
	})
}

// TestBackendTampering flips bits of the ciphertext, nonce and additional data,
// and cuts the ciphertext at every length.
func TestBackendTampering(t *testing.T) {
	forEachKey(t, func(t *testing.T, s *keySet) {
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		var forged []byte
		for _, n := range []int{1, 16, 37, 95, 128, 240, 300} {
			s.record(&m, uint64(n), n, 5)
			vary(h, &m, n)
			for bit := 0; bit < 8*n; bit += stepFor(11) {
				forged = flipped(forged, m.sealed, bit)
				x.refuse(&m, "a ciphertext bit flipped", m.nonce, m.aad, forged)
			}
			for bit := range 8 * len(m.nonce) {
				forged = flipped(forged, m.nonce, bit)
				x.refuse(&m, "a nonce bit flipped", forged, m.aad, m.sealed)
			}
			for bit := range 8 * len(m.aad) {
				forged = flipped(forged, m.aad, bit)
				x.refuse(&m, "a bit of additional data flipped", m.nonce, forged, m.sealed)
			}
			x.refuse(&m, "additional data cut", m.nonce, m.aad[1:], m.sealed)
			for cut := gcm.TagSize; cut < len(m.sealed); cut++ {
				x.refuse(&m, "its end cut off", m.nonce, m.aad, m.sealed[:cut])
			}
			x.refuse(&m, "a byte more", m.nonce, m.aad, append(append(forged[:0], m.sealed...), 0))
		}
		// A bit in each block of longer texts, so that none is left out of the hash.
		for _, n := range []int{1350, 4097, 16385, 65536 + 4097} {
			s.record(&m, uint64(n), n, 5)
			vary(h, &m, n)
			for i := n % 16; i < n; i += 16 * (1 + n/700) * stepFor(5) {
				forged = flipped(forged, m.sealed, 8*i+i/16%8)
				x.refuse(&m, "a ciphertext bit flipped", m.nonce, m.aad, forged)
			}
		}
	})
}

// TestBackendShortCiphertext opens what is shorter than a tag: an error, and
// not a byte written.
func TestBackendShortCiphertext(t *testing.T) {
	for _, s := range standardKeys() {
		for _, tgt := range s.targets {
			for n := range gcm.TagSize {
				buf := filler("short", n)
				out := append([]byte(nil), junk[:64]...)
				check := func(name string, err error) {
					if !errors.Is(err, gcm.ErrOpen) {
						t.Errorf("%s %s of %d bytes: %v", tgt.backend, name, n, err)
					}
					if string(buf) != string(filler("short", n)) || string(out) != string(junk[:64]) {
						t.Fatalf("%s %s of %d bytes wrote something", tgt.backend, name, n)
					}
				}
				_, err := tgt.aead.Open(out[:0], pool[:12], buf, nil)
				check("Open", err)
				check("OpenSplit", tgt.aead.OpenSplit(out[:0], pool[:12], buf, nil))
				check("OpenScatter", tgt.aead.OpenScatter(nil, pool[:12], buf, nil))
				check("RecordKey.OpenSplit", tgt.record.OpenSplit(out[:0], 1, buf, gcm.ADOf(2, 5)))
			}
		}
	}
}

// TestBackendShortTagBits flips each bit of tags of 12 to 15 bytes.
func TestBackendShortTagBits(t *testing.T) {
	for tag := 12; tag < gcm.TagSize; tag++ {
		s := newKeySet(t, 16, gcm.NonceSize, tag)
		h := new(heapMemory)
		x := newExam(t, s, h)
		var m message
		var forged []byte
		for _, n := range []int{0, 1, 2, 3, 15, 17, 33, 600} {
			s.general(&m, pool[n:n+12], n, 5)
			vary(h, &m, n)
			for bit := range 8 * tag {
				forged = flipped(forged, m.sealed, 8*n+bit)
				x.refuse(&m, "a tag bit flipped", m.nonce, m.aad, forged)
			}
		}
	}
}
