package gcm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"example.com/splitseal/gcm"
)

// TestBackendPartitions gathers and scatters every division of every text of up
// to 40 bytes into up to five pieces, and every such division of 40 bytes in
// the middle of a longer text, around where kernels' batches end.
func TestBackendPartitions(t *testing.T) {
	for _, head := range []int{0, 76, 204, 330} {
		t.Run(fmt.Sprintf("behind %d bytes", head), func(t *testing.T) {
			partitions(t, head)
		})
	}
}

func partitions(t *testing.T, head int) {
	const window, most = 40, 5
	s := standardKeys()[0]
	first, tail, step := window, 300, stepFor(191)
	if head == 0 {
		first, tail = 0, 0
	}
	for n := first; n <= window; n++ {
		size := head + n + tail
		var m message
		s.record(&m, uint64(n), size, 5)
		// Every piece has a copy of the text to itself, so that no two pieces are
		// next to each other.
		var sources, outputs [most][]byte
		for i := range sources {
			sources[i] = slices.Clone(m.text)
			outputs[i] = make([]byte, size)
		}
		out := make([]byte, size+gcm.TagSize)
		var from, to [most][]byte
		turn := 0
		try := func(cuts [most + 1]int) {
			if turn++; turn%step != 0 {
				return
			}
			for i := range most {
				from[i] = sources[i][cuts[i]:cuts[i+1]]
				to[i] = outputs[i][cuts[i]:cuts[i+1]]
			}
			for _, tgt := range s.targets {
				if tgt.backend == "portable" && turn/step%8 != 0 {
					continue // it moves pieces and has no other code for them
				}
				clear(out)
				if turn%2 == 0 {
					tgt.aead.SealGather(out[:0], m.nonce, from[:], m.aad)
				} else {
					tgt.record.SealGather(out, m.seq, from[:], m.ad)
				}
				if !bytes.Equal(out, m.sealed) {
					t.Fatalf("%s: pieces that end at %v: wrong ciphertext", tgt.backend, cuts[1:])
				}
				for i := range to {
					clear(to[i])
				}
				if err := tgt.aead.OpenScatter(to[:], m.nonce, out, m.aad); err != nil {
					t.Fatalf("%s: pieces that end at %v: %v", tgt.backend, cuts[1:], err)
				}
				for i := range to {
					if !bytes.Equal(to[i], from[i]) {
						t.Fatalf("%s: pieces that end at %v: wrong plaintext", tgt.backend, cuts[1:])
					}
				}
			}
		}
		for a := range n + 1 {
			for b := a; b <= n; b++ {
				for c := b; c <= n; c++ {
					for d := c; d <= n; d++ {
						try([...]int{0, head + a, head + b, head + c, head + d, size})
					}
				}
			}
		}
		for i := range sources {
			if !bytes.Equal(sources[i], m.text) {
				t.Fatal("a piece to seal was changed")
			}
		}
	}
}

// TestBackendPieceLengths draws the lengths of pieces from those at which
// something changes, puts some of them in place and lets others share memory,
// and forges what it scatters. Around every buffer are bytes that must stay.
func TestBackendPieceLengths(t *testing.T) {
	const margin, longest = 24, 12_000
	forEachKey(t, func(t *testing.T, s *keySet) {
		rng := rand.New(rand.NewPCG(5, uint64(len(s.key))))
		lengths := []int{0, 1, 15, 16, 17, 255, 256, 257, -1}
		edge := slices.Repeat([]byte{0xa5}, margin)
		var m message
		for turn := range 1200 / stepFor(10) {
			var sizes []int
			n := 0
			for range 1 + rng.IntN(40) {
				k := lengths[rng.IntN(len(lengths))]
				if k < 0 {
					k = rng.IntN(1200)
				}
				if n+k > longest {
					break
				}
				sizes, n = append(sizes, k), n+k
			}
			s.record(&m, uint64(turn), n, rng.IntN(9))

			for _, tgt := range s.targets {
				fail := func(what string) {
					t.Helper()
					t.Fatalf("%s, turn %d, pieces of %v: %s", tgt.backend, turn, sizes, what)
				}
				var buffers [][]byte // with their margins
				buffer := func(b []byte) []byte {
					all := append(append(slices.Clone(edge), b...), edge...)
					buffers = append(buffers, all)
					return all[margin : margin+len(b) : margin+len(b)]
				}
				intact := func() {
					t.Helper()
					for _, all := range buffers {
						if !bytes.HasPrefix(all, edge) || !bytes.HasSuffix(all, edge) {
							fail("bytes beside a buffer were changed")
						}
					}
				}

				// Pieces of equal content are one slice, twice.
				out := buffer(make([]byte, n+gcm.TagSize))
				pieces := make([][]byte, len(sizes))
				rest, at := m.text, 0
				seen := make(map[string][]byte)
				for i, k := range sizes {
					switch p, ok := seen[string(rest[:k])]; {
					case ok && k > 0:
						pieces[i] = p
					case rng.IntN(4) == 0:
						pieces[i] = out[at : at+k]
						copy(pieces[i], rest)
					case k == 0 && rng.IntN(2) == 0:
						pieces[i] = nil
					default:
						pieces[i] = buffer(rest[:k])
						seen[string(rest[:k])] = pieces[i]
					}
					rest, at = rest[k:], at+k
				}
				if turn%2 == 0 {
					tgt.aead.SealGather(out[:0], m.nonce, pieces, m.aad)
				} else {
					tgt.record.SealGather(out, m.seq, pieces, m.ad)
				}
				if !bytes.Equal(out, m.sealed) {
					fail("wrong ciphertext")
				}
				intact()

				for _, forged := range []bool{false, true} {
					sealed := buffer(m.sealed)
					if forged {
						sealed[rng.IntN(len(sealed))] ^= 1 << rng.IntN(8)
					}
					before := slices.Clone(sealed)
					to := make([][]byte, len(sizes))
					apart := make([]bool, n) // from where plaintext goes elsewhere
					at := 0
					for i, k := range sizes {
						if rng.IntN(4) == 0 {
							to[i] = sealed[at : at+k]
						} else {
							to[i] = buffer(make([]byte, k))
							for j := range k {
								to[i][j] = 0x5a
								apart[at+j] = true
							}
						}
						at += k
					}
					err := tgt.aead.OpenScatter(to, m.nonce, sealed, m.aad)
					got := bytes.Join(to, nil)
					switch {
					case !forged && (err != nil || !bytes.Equal(got, m.text)):
						fail(fmt.Sprintf("wrong plaintext, error %v", err))
					case forged && (err != gcm.ErrOpen || !bytes.Equal(got, make([]byte, n))):
						fail(fmt.Sprintf("a forgery: error %v, or not all outputs are zeros", err))
					}
					for i, elsewhere := range apart {
						if elsewhere && sealed[i] != 0 && sealed[i] != before[i] {
							fail("plaintext is left where ciphertext was")
						}
					}
					if !bytes.Equal(sealed[n:], before[n:]) {
						fail("the tag was changed")
					}
					intact()
				}
			}
		}
	})
}
