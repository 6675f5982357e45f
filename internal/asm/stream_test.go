package asm

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// TestRounding compares down with its definition.
func TestRounding(t *testing.T) {
	for b := range shapes {
		s := &shapes[b]
		if s.batch == 0 {
			continue
		}
		ends := map[int]bool{0: true}
		for end := s.firstBatch; end < 3000; end += s.batch {
			ends[end] = true
		}
		for offset := range 2000 {
			down := offset
			for !ends[down] {
				down--
			}
			if got := s.down(offset); got != down {
				t.Errorf("%v: down(%d) = %d, want %d", Backend(b), offset, got, down)
			}
		}
	}
}

// TestCalls goes over texts as long as a nonce can seal and looks at what each call
// is told: where it stands, how long it is, and its first counter. There is no
// memory for such a text, but the division into calls needs none.
func TestCalls(t *testing.T) {
	totals := []int{maxCall + 1, 3*maxCall + 5, 1<<20 + 12345, 1<<29 + 4111}
	if math.MaxInt > math.MaxInt32 {
		most := uint64(1)<<36 - 32 // NIST SP 800-38D, Section 5.2.1.1; gcm.MaxTextSize
		for _, less := range []uint64{0, 1, 15, 16, maxCall, maxCall + 1} {
			totals = append(totals, int(most-less))
		}
	}
	for b := range shapes {
		shape := &shapes[b]
		if shape.batch == 0 {
			continue // Portable has no calls
		}
		for _, total := range totals {
			c := calls{shape: shape, total: total}
			at, steps := 0, 0
			for ; c.next(); steps++ {
				counter := uint64(0)
				if at > 0 {
					counter = 2 + uint64(at)/blockSize
				}
				size := c.end - c.begin
				final := c.end == total
				switch {
				case c.begin != at:
					t.Fatalf("%v, %d bytes: a call begins at %d, the one before ended at %d", Backend(b), total, c.begin, at)
				case c.counter != counter || c.counter>>32 != 0:
					t.Fatalf("%v, %d bytes: the call at %d has counter %#x, want %#x", Backend(b), total, at, c.counter, counter)
				case c.size != uint64(size) || c.rest != 0 || final != (c.final == 1) || c.final > 1:
					t.Fatalf("%v, %d bytes: the call at %d: size %d, rest %d, final %d", Backend(b), total, at, c.size, c.rest, c.final)
				case !final && (size < maxCall-shape.batch || (c.end-shape.firstBatch)%shape.batch != 0),
					size > 64<<10+shape.batch, size < shape.firstBatch: // longer calls would delay a collection
					t.Fatalf("%v, %d bytes: a call from %d to %d", Backend(b), total, c.begin, c.end)
				}
				at = c.end
			}
			if least := total / (maxCall + shape.batch); at != total || steps < least {
				t.Errorf("%v, %d bytes: %d calls end at %d", Backend(b), total, steps, at)
			}
		}
	}
}

// TestLong seals and opens texts that take several calls, of sizes around
// where calls and batches end.
func TestLong(t *testing.T) {
	var sizes []int
	for _, n := range []int{maxCall, 2 * maxCall, 3*maxCall + 1000} {
		for _, d := range []int{-257, -256, -255, -129, -128, -33, -32, -17, -16, -1, 0, 1, 15, 16, 17, 96, 97, 128, 224, 225, 256} {
			sizes = append(sizes, n+d)
		}
	}
	text := filled(3*maxCall+2000, 3)
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, false)
		data := filled(13, 4)
		out := make([]byte, len(text)+TagSize)
		for i, n := range sizes {
			nonce := Nonce{Lo: uint64(n) << 20, Hi: uint64(i)}
			text, out := text[:n], out[:n+TagSize]
			want := f.oracle.Seal(nil, f.nonce(nonce), text, data)
			ad := f.AD(data)
			f.Seal(address(out), address(text), n, nonce, ad)
			if !bytes.Equal(out, want) {
				t.Fatalf("seal of %d bytes differs", n)
			}
			if !f.Open(address(out), address(out), n, nonce, ad) || !bytes.Equal(out[:n], text) {
				t.Fatalf("open of %d bytes differs", n)
			}
			f.SealTrailer(address(out), address(out), n-1, text[n-1], nonce, ad)
			if !bytes.Equal(out, want) {
				t.Fatalf("seal with trailer of %d bytes differs", n)
			}
			ok, last := f.OpenTrailer(address(out), address(out), n-1, nonce, ad)
			if !ok || last != text[n-1] || !bytes.Equal(out[:n-1], text[:n-1]) {
				t.Fatalf("open with trailer of %d bytes differs", n)
			}
		}
	})
}

// TestPieces seals from and opens to random lists of pieces, some of them in
// place, and one list with more runs than a call takes.
func TestPieces(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, false)
		r := rand.New(rand.NewPCG(uint64(keySize), uint64(b)))
		text := filled(5*maxCall, 5)
		sizeOf := []func() int{
			func() int { return r.IntN(3) },
			func() int { return r.IntN(40) },
			func() int { return r.IntN(700) },
			func() int { return r.IntN(5000) },
			func() int { return shapes[b].batch*r.IntN(4) + r.IntN(3) - 1 },
			func() int { return r.IntN(maxCall) },
		}
		for round := range 300 {
			var sizes []int
			n := 0
			few := r.IntN(12)
			if round == 0 {
				few = 50
			}
			for range few {
				size := max(0, sizeOf[r.IntN(len(sizeOf))]())
				if round == 0 {
					size = 3*shapes[b].batch + 1
				}
				if n+size > len(text) {
					break
				}
				sizes = append(sizes, size)
				n += size
			}
			text := text[:n]
			data := filled(r.IntN(30), byte(round))
			nonce := Nonce{Lo: r.Uint64(), Hi: uint64(r.Uint32())}
			want := f.oracle.Seal(nil, f.nonce(nonce), text, data)
			ad := f.AD(data)
			where := fmt.Sprintf("round %d, pieces %v", round, sizes)

			// Pieces read from elsewhere, or where they go.
			out := make([]byte, n+TagSize)
			var pieces [][]byte
			offset := 0
			for _, size := range sizes {
				p := out[offset : offset+size]
				if r.IntN(4) > 0 {
					p = bytes.Clone(text[offset : offset+size])
				} else {
					copy(p, text[offset:])
				}
				pieces = append(pieces, p)
				offset += size
			}
			f.SealPieces(address(out), n, pieces, nonce, ad)
			if !bytes.Equal(out, want) {
				t.Fatalf("%s: seal differs", where)
			}

			// Pieces go elsewhere, or stay where they are.
			before := bytes.Clone(out)
			open := func() (ok bool, pieces [][]byte, apart []bool) {
				offset := 0
				for _, size := range sizes {
					p := out[offset : offset+size]
					away := r.IntN(4) > 0
					if away {
						p = make([]byte, size)
					}
					pieces, apart = append(pieces, p), append(apart, away && size > 0)
					offset += size
				}
				return f.OpenPieces(pieces, address(out), n, nonce, ad), pieces, apart
			}
			ok, pieces, apart := open()
			if !ok || !bytes.Equal(bytes.Join(pieces, nil), text) {
				t.Fatalf("%s: open differs", where)
			}
			// What is not a piece is as it was, or zero.
			checkRest := func(what string) {
				t.Helper()
				offset := 0
				for i, size := range sizes {
					for j := offset; apart[i] && j < offset+size; j++ {
						if out[j] != 0 && out[j] != before[j] {
							t.Fatalf("%s: %s left plaintext at %d", where, what, j)
						}
					}
					offset += size
				}
				if !bytes.Equal(out[n:], before[n:]) {
					t.Fatalf("%s: %s changed the tag", where, what)
				}
			}
			checkRest("open")
			copy(out, before)
			out[n+r.IntN(TagSize)] ^= 1 << r.IntN(8)
			copy(before[n:], out[n:])
			if ok, _, apart = open(); ok {
				t.Fatalf("%s: forged tag opened", where)
			}
			checkRest("refused open")
		}
	})
}

// TestPiecesHeader has a short first piece, which batch 0 may put together with one
// vector of the second: around the sizes that decide it, with what follows and
// each piece in its place or not.
func TestPiecesHeader(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, true)
		first := shapes[b].firstBatch
		for header := range 36 {
			for _, payload := range []int{first - 1, first, first + 1, first + 33, 700} {
				for _, rest := range []int{0, 1, 2, 20, 300} {
					n := header + payload + rest
					if n < copyBelow[b] {
						continue
					}
					text := filled(n, byte(n))
					nonce := Nonce{Lo: uint64(n)}
					want := f.oracle.Seal(nil, f.nonce(nonce), text, nil)
					for places := range 8 {
						out := make([]byte, n+TagSize)
						var pieces [][]byte
						at := 0
						for i, size := range []int{header, payload, rest} {
							p := bytes.Clone(text[at : at+size])
							if places>>i&1 == 1 {
								copy(out[at:], p)
								p = out[at : at+size]
							}
							pieces = append(pieces, p)
							at += size
						}
						f.SealPieces(&out[0], n, pieces, nonce, AD{})
						if !bytes.Equal(out, want) {
							t.Fatalf("%d + %d + %d bytes, places %03b:\ngot  %x\nwant %x", header, payload, rest, places, out, want)
						}
					}
				}
			}
		}
	})
}

// TestPiecesTrailer has three pieces of which the last is one byte, at every
// length from where kernels walk pieces to three batches, cut everywhere around
// where batches end and at random.
func TestPiecesTrailer(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, true)
		r := rand.New(rand.NewPCG(uint64(keySize), uint64(b)+100))
		batch := shapes[b].batch
		for n := copyBelow[b]; n <= 3*batch+40; n++ {
			text := filled(n, byte(n))
			nonce := Nonce{Lo: uint64(n)}
			want := f.oracle.Seal(nil, f.nonce(nonce), text, nil)
			cuts := []int{0, 1, 15, 16, 17, n - 1, n - 2, n - 16, n - 17, n - 18, r.IntN(n), r.IntN(n)}
			for end := batch - notText; end < n; end += batch {
				cuts = append(cuts, end-1, end, min(end+1, n-1), max(end-16, 0))
			}
			for _, cut := range cuts {
				for _, inPlace := range []bool{false, true} {
					out, back := make([]byte, n+TagSize), make([]byte, n)
					pieces := [][]byte{text[:cut], text[cut : n-1], text[n-1:]}
					if inPlace {
						copy(out[cut:], text[cut:])
						pieces[1], pieces[2] = out[cut:n-1], out[n-1:n]
					}
					f.SealPieces(&out[0], n, pieces, nonce, AD{})
					if !bytes.Equal(out, want) {
						t.Fatalf("seal of %d bytes, cut at %d:\ngot  %x\nwant %x", n, cut, out, want)
					}
					pieces = [][]byte{back[:cut], back[cut : n-1], back[n-1:]}
					if inPlace {
						pieces[1], pieces[2] = out[cut:n-1], out[n-1:n]
					}
					ok := f.OpenPieces(pieces, &out[0], n, nonce, AD{})
					got := bytes.Join(pieces, nil)
					if !ok || !bytes.Equal(got, text) {
						t.Fatalf("open of %d bytes, cut at %d: %v\ngot  %x\nwant %x", n, cut, ok, got, text)
					}
				}
			}
		}
	})
}

// TestCounters pins the construction of counter blocks by XOR against one
// block at a time: at every batch of the longest call, across calls, and with
// nonces whose last bytes, which the counter stands behind, are all ones.
func TestCounters(t *testing.T) {
	const size = 3*maxCall + 777
	zeros := make([]byte, size)
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, true)
		out := make([]byte, size+TagSize)
		for _, n := range []Nonce{{}, {Lo: 1, Hi: 1}, {Lo: ^uint64(0), Hi: 0xffffffff}, {Hi: 0xff000000}, {Lo: 0x0123456789abcdef, Hi: 0x80000001}} {
			f.Seal(address(out), address(zeros), size, n, AD{})
			f.checkKeystream(t, out[:size], n, 2)
		}
	})
}

// checkKeystream fails unless stream is the encryption of the counter blocks
// from counter on.
func (f *fixture) checkKeystream(t *testing.T, stream []byte, n Nonce, counter uint64) {
	t.Helper()
	var want [blockSize]byte
	block := f.nonce(n)
	for i := 0; i < len(stream); i += blockSize {
		c := uint32(counter) + uint32(i/blockSize)
		in := append(block[:NonceSize:NonceSize], byte(c>>24), byte(c>>16), byte(c>>8), byte(c))
		f.block.Encrypt(want[:], in)
		if got := stream[i:min(i+blockSize, len(stream))]; !bytes.Equal(got, want[:len(got)]) {
			t.Fatalf("keystream of counter %#x: %x, want %x", c, got, want)
		}
	}
}

// TestHighCounters is TestCounters for calls in the middle of texts that are
// too long to seal in a test: every bit of the counter, every carry, and the
// last blocks that a text can have.
func TestHighCounters(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, true)
		batch := shapes[b].batch
		size := 5*batch + 3*blockSize + 5
		text := make([]byte, size)
		out := make([]byte, size+TagSize)
		n := Nonce{Lo: 0xfedcba9876543210, Hi: 0x89abcdef}
		slots := uint64(batch / blockSize)
		var counters []uint64
		for bit := 4; bit < 32; bit++ {
			at := uint64(1) << bit
			counters = append(counters, at, at-slots, at-2*slots, at-5*slots)
		}
		// The text ends with counter 2³²−1.
		counters = append(counters, 1<<32-6*slots)
		for _, counter := range counters {
			if counter == 0 || counter > 1<<32-6*slots || counter%slots != 0 {
				continue
			}
			clear(text)
			var mask [blockSize]byte
			s := stream{size: uint64(size), counter: counter, final: 1, mask: mask}
			f.sealStream(f.long.Load(), address(out), address(text), uint64(size), 0, n, AD{}, 0, &s)
			f.checkKeystream(t, out[:size], n, counter)

			s = stream{size: uint64(size), counter: counter, final: 1, mask: mask}
			if ok, _ := f.openStream(f.long.Load(), address(text), address(out), uint64(size), 0, n, AD{}, 0, &s); !ok {
				t.Fatalf("counter %#x: the tag of a seal is refused", counter)
			}
			if !bytes.Equal(text, make([]byte, size)) {
				t.Fatalf("counter %#x: open differs", counter)
			}
		}
	})
}

// TestAD compares additional data of all sizes and shapes with crypto/cipher.
func TestAD(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, false)
		sizes := []int{maxCall - 1, maxCall, maxCall + 1, maxCall + 16, maxCall + 17, 3*maxCall + 5}
		for n := range 700 {
			sizes = append(sizes, n)
		}
		data := filled(4*maxCall, 9)
		text := filled(40, 10)
		out := make([]byte, len(text)+TagSize)
		check := func(what string, n int, ad AD) {
			t.Helper()
			f.Seal(address(out), address(text), len(text), Nonce{}, ad)
			if want := f.oracle.Seal(nil, f.nonce(Nonce{}), text, data[:n]); !bytes.Equal(out, want) {
				t.Fatalf("%s of %d bytes: %x, want %x", what, n, out, want)
			}
		}
		for _, n := range sizes {
			check("additional data", n, f.AD(data[:n]))
		}
		for n := range 9 {
			var ad uint64 = 0xa5a5a5a5a5a5a5a5 // higher bytes do not count
			for _, c := range data[:n] {
				ad = ad<<8 | uint64(c)
			}
			check("additional data as an integer", n, ADOf(ad, n))
		}
	})
}

// TestNonceAt compares with the construction of TLS 1.3.
func TestNonceAt(t *testing.T) {
	for _, seq := range []uint64{0, 1, 0x0123456789abcdef, 1 << 63, ^uint64(0)} {
		b := [NonceSize]byte{4: byte(seq >> 56), 5: byte(seq >> 48), 6: byte(seq >> 40), 7: byte(seq >> 32),
			8: byte(seq >> 24), 9: byte(seq >> 16), 10: byte(seq >> 8), 11: byte(seq)}
		if got, want := NonceAt(seq), NonceOf(&b); got != want {
			t.Errorf("NonceAt(%#x) = %x, want %x", seq, got, want)
		}
	}
}

// TestWipe looks for what is left of a key.
func TestWipe(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, true)
		long := f.long.Load()
		if *long == (longTable{}) {
			t.Fatal("the table for long texts is empty")
		}
		f.Wipe()
		if *long != (longTable{}) {
			t.Error("the table for long texts is left")
		}
		if want := (Key{backend: b}); *f.Key != want {
			t.Errorf("left: %+v", f.Key)
		}
	})
}

// TestLateTable: of two tables that were made at the same time the key keeps one, and
// the other, which Wipe would not find, is erased.
func TestLateTable(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		k := newFixture(t, b, keySize, true).Key
		kept := k.long.Load()
		late := new(longTable)
		*late = *kept
		k.keepLong(late)
		if k.long.Load() != kept || *kept == (longTable{}) {
			t.Error("the table in use was replaced or erased")
		}
		if *late != (longTable{}) {
			t.Error("the late table holds powers of H")
		}
	})
}

// TestFirstLongText has every form of seal and open be the one that comes first
// with a long text, at every length, and then a second time. A text of more than one
// call needs the table that stays at once.
func TestFirstLongText(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		fresh := newFixture(t, b, keySize, false)
		key := filled(keySize, byte(keySize))
		text, data := filled(maxCall+1, 8), filled(13, 9)
		for n := 1; n <= len(text); n++ {
			if n == 2200 {
				n = maxCall
			}
			text := text[:n]
			nonce := Nonce{Lo: uint64(n)}
			ad := fresh.AD(data)
			want := fresh.oracle.Seal(nil, fresh.nonce(nonce), text, data)
			out, back := make([]byte, n+TagSize), make([]byte, n)
			cut := n * 3 / 7
			for what, call := range map[string]func(k *Key) bool{
				"Seal":        func(k *Key) bool { k.Seal(&out[0], &text[0], n, nonce, ad); return true },
				"SealTrailer": func(k *Key) bool { k.SealTrailer(&out[0], &text[0], n-1, text[n-1], nonce, ad); return true },
				"SealPieces": func(k *Key) bool {
					k.SealPieces(&out[0], n, [][]byte{text[:cut], text[cut:]}, nonce, ad)
					return true
				},
				"Open": func(k *Key) bool { return k.Open(&back[0], &out[0], n, nonce, ad) },
				"OpenTrailer": func(k *Key) bool {
					ok, trailer := k.OpenTrailer(&back[0], &out[0], n-1, nonce, ad)
					back[n-1] = trailer
					return ok
				},
				"OpenPieces": func(k *Key) bool {
					return k.OpenPieces([][]byte{back[:cut], back[cut:]}, &out[0], n, nonce, ad)
				},
			} {
				k := new(Key)
				k.Init(b, key, &fresh.iv)
				for i := range 2 {
					copy(out, want)
					copy(back, text)
					if strings.HasPrefix(what, "Seal") {
						clear(out)
					} else {
						clear(back)
					}
					if !call(k) {
						t.Fatalf("%s of %d bytes, text %d: refused", what, n, i)
					}
					if strings.HasPrefix(what, "Seal") && !bytes.Equal(out, want) || !bytes.Equal(back, text) {
						t.Fatalf("%s of %d bytes, text %d:\nout  %x\nwant %x\nback %x", what, n, i, out, want, back)
					}
					long, calls := n > shapes[b].short, n > maxCall
					if used := k.used.Load(); used != (long && !calls) {
						t.Fatalf("%s of %d bytes, text %d: used is %v", what, n, i, used)
					}
					if made := k.long.Load() != nil; made != (long && (calls || i > 0)) {
						t.Fatalf("%s of %d bytes, text %d: made the table that stays: %v", what, n, i, made)
					}
				}
			}
		}
	})
}

// TestOnceTable looks for what is left of a table that is given back, and for
// powers beyond those that the contract of Powers permits.
func TestOnceTable(t *testing.T) {
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		k := newFixture(t, b, 16, true).Key
		whole := k.long.Load()
		for size := shapes[b].short + 1; size < 1200; size++ {
			long, powers := k.onceTable(size)
			lowest := longPower - powers
			if !slices.Equal(long.powers[lowest:], whole.powers[lowest:]) {
				t.Fatalf("%v: %d bytes of text: powers differ from those of the whole table", b, size)
			}
			putOnce(long, powers)
			if left := (longTable{group: long.group}); *long != left {
				t.Fatalf("%v: %d bytes of text: powers are left in the table", b, size)
			}
		}
	}
}

// TestFirstLongTexts has many goroutines seal the first long texts of a key at
// the same moment: one takes a table of its own, the others may each make one.
func TestFirstLongTexts(t *testing.T) {
	text := filled(4000, 5)
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		for range 20 {
			f := newFixture(t, b, keySize, false)
			want := f.oracle.Seal(nil, f.nonce(Nonce{}), text, nil)
			start := make(chan struct{})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					out := make([]byte, len(want))
					<-start
					f.Seal(&out[0], &text[0], len(text), Nonce{}, AD{})
					if !bytes.Equal(out, want) {
						t.Error("sealed to something else")
					}
				})
			}
			close(start)
			wg.Wait()
		}
	})
}

// TestLongTableIsWhole looks at the table for long texts the moment that it is there:
// it must be filled before others can use it. One goroutine seals the texts that make
// it, of key after key; another one waits for nothing but the table. On a machine that
// is busy with other things they may rarely run at the same time, so time is a limit.
func TestLongTableIsWhole(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("with one processor nobody looks while the table is made")
	}
	const rounds, most = 3000, time.Second
	var text, out [200 + TagSize]byte
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		f := newFixture(t, b, 16, true)
		whole, key := f.long.Load(), filled(16, 16)
		var current atomic.Pointer[Key]
		var watches, done atomic.Bool
		early, keys := 0, 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				k := current.Load()
				for ; k == nil; k = current.Load() {
					runtime.Gosched()
				}
				if k == f.Key {
					return
				}
				watches.Store(true)
				long := k.long.Load()
				for i := 1; long == nil; i++ {
					if i%(1<<20) == 0 {
						runtime.Gosched()
					}
					long = k.long.Load()
				}
				if *long != *whole {
					early++
				}
				current.Store(nil)
				done.Store(true)
			}
		})
		for begin := time.Now(); keys < rounds && time.Since(begin) < most; keys++ {
			k := new(Key)
			k.Init(b, key, nil)
			k.Seal(&out[0], &text[0], 200, Nonce{}, AD{}) // takes a table of its own
			watches.Store(false)
			done.Store(false)
			current.Store(k)
			for !watches.Load() {
				runtime.Gosched()
			}
			k.Seal(&out[0], &text[0], 200, Nonce{}, AD{})
			for !done.Load() {
				runtime.Gosched()
			}
		}
		current.Store(f.Key)
		wg.Wait()
		t.Logf("%v: %d keys", b, keys)
		if early > 0 {
			t.Errorf("%v: %d tables of %d could be used before they were filled", b, early, keys)
		}
	}
}

// TestKeySize pins what a key costs: 512 bytes is a size class of the
// allocator, and a RecordKey adds 24 to Key, with two pointers and a bool.
func TestKeySize(t *testing.T) {
	key, long := unsafe.Sizeof(Key{}), unsafe.Sizeof(longTable{})
	if key > 512-24 {
		t.Errorf("a key takes %d bytes, want at most %d", key, 512-24)
	}
	if key+long > 2816 {
		t.Errorf("a key and its table take %d bytes, want at most 2.75 KiB", key+long)
	}
}

// TestAllocations shows that nothing is allocated for a text, whatever its
// form and size, once its key has the powers it needs, nor for its first one.
func TestAllocations(t *testing.T) {
	for _, b := range Backends() {
		if b == Portable {
			continue
		}
		f := newFixture(t, b, 16, true)
		const n = 2*maxCall + 1000
		buf, other := make([]byte, n+TagSize), make([]byte, n)
		pieces := [][]byte{other[:3000], other[3000:3001], other[3001:n]}
		data := make([]byte, 40)
		var nonce Nonce
		for what, call := range map[string]func(){
			"Seal":        func() { f.Seal(&buf[0], &other[0], n, nonce, f.AD(data)) },
			"SealTrailer": func() { f.SealTrailer(&buf[0], &other[0], 100, 1, nonce, ADOf(1, 5)) },
			"SealPieces":  func() { f.SealPieces(&buf[0], n, pieces, nonce, f.AD(data)) },
			"Open":        func() { f.Open(&other[0], &buf[0], n, nonce, f.AD(data)) },
			"OpenTrailer": func() { f.OpenTrailer(&other[0], &buf[0], 100, nonce, ADOf(1, 5)) },
			"OpenPieces":  func() { f.OpenPieces(pieces, &buf[0], n, nonce, f.AD(data)) },
			"SealSplit":   func() { f.SealSplit(&buf[0], &other[0], 4000, 5000, nonce, f.AD(data)) },
			"OpenSplit":   func() { f.OpenSplit(&other[0], &buf[0], 4000, 5000, nonce, f.AD(data)) },
			"SealLong":    func() { f.SealSplit(&buf[0], &other[0], n-9, n, nonce, f.AD(data)) },
			"OpenLong":    func() { f.OpenSplit(&other[0], &buf[0], n-9, n, nonce, f.AD(data)) },
			"SealFew":     func() { f.SealPieces(&buf[0], 5, [][]byte{other[:2], other[2:5]}, nonce, f.AD(data)) },
			"OpenFew":     func() { f.OpenPieces([][]byte{other[:2], other[2:5]}, &buf[0], 5, nonce, f.AD(data)) },
		} {
			if allocs := testing.AllocsPerRun(5, func() { nonce.Lo++; call() }); allocs != 0 {
				t.Errorf("%v: %s allocates %v times", b, what, allocs)
			}
		}

		key := filled(16, 16)
		for what, call := range map[string]func(){
			"Seal":       func() { f.Seal(&buf[0], &other[0], maxCall, nonce, AD{}) },
			"Open":       func() { f.Open(&other[0], &buf[0], maxCall, nonce, AD{}) },
			"SealPieces": func() { f.SealPieces(&buf[0], 5000, [][]byte{other[:2500], other[2500:5000]}, nonce, AD{}) },
			"OpenPieces": func() { f.OpenPieces([][]byte{other[:2500], other[2500:5000]}, &buf[0], 5000, nonce, AD{}) },
		} {
			// With the race detector a pool drops one item in four, at random: a few
			// runs that all allocate would happen.
			if allocs := testing.AllocsPerRun(50, func() {
				*f.Key = Key{}
				f.Init(b, key, nil)
				call()
			}); allocs != 0 {
				t.Errorf("%v: %s allocates %v times for a key's first long text", b, what, allocs)
			}
		}
	}
}

// TestSplit seals and opens texts whose first part is elsewhere, with seams
// around where batches end and where the way to do it changes.
func TestSplit(t *testing.T) {
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, false)
		text := filled(maxCall+4000, 6)
		data := filled(5, 7)
		out, buf := make([]byte, len(text)+TagSize), make([]byte, len(text)+TagSize)
		try := func(prefix, size int) {
			text, out, buf := text[:size], out[:size+TagSize], buf[:size+TagSize]
			nonce := Nonce{Lo: uint64(prefix), Hi: uint64(size)}
			ad := f.AD(data)
			want := f.oracle.Seal(nil, f.nonce(nonce), text, data)
			where := fmt.Sprintf("%d bytes of %d apart", prefix, size)

			clear(out)
			copy(out[prefix:], text[prefix:])
			f.SealSplit(address(out), address(text), prefix, size, nonce, ad)
			if !bytes.Equal(out, want) {
				t.Fatalf("%s: seal differs", where)
			}

			copy(buf, want)
			clear(out)
			ok := f.OpenSplit(address(out), address(buf), prefix, size, nonce, ad)
			if !ok || !bytes.Equal(out[:prefix], text[:prefix]) || !bytes.Equal(buf[prefix:size], text[prefix:]) {
				t.Fatalf("%s: open differs", where)
			}
			if !bytes.Equal(out[prefix:], make([]byte, size+TagSize-prefix)) || !bytes.Equal(buf[size:], want[size:]) {
				t.Fatalf("%s: open wrote beside its outputs", where)
			}
			for i, c := range buf[:prefix] {
				if c != 0 && c != want[i] {
					t.Fatalf("%s: open left plaintext at %d", where, i)
				}
			}

			copy(buf, want)
			buf[size] ^= 1
			if f.OpenSplit(address(out), address(buf), prefix, size, nonce, ad) {
				t.Fatalf("%s: a forged tag opened", where)
			}
			for i, c := range buf[:prefix] {
				if c != 0 && c != want[i] {
					t.Fatalf("%s: refused open left plaintext at %d", where, i)
				}
			}
		}
		for _, prefix := range []int{0, 1, 95, 96, 97, 223, 224, 225, 1000, 1024 - 33, 1024 - 32, 1024 - 31,
			1024, 1024 + 96, 1024 + 224, 1504, 2000, 2015, 2016, 2017, maxCall - 32, maxCall} {
			for _, rest := range []int{0, 1, 2, 15, 16, 17, 40, 127, 128, 129, 255, 256, 257, 2000} {
				try(prefix, prefix+rest)
			}
		}
	})
}

// TestManyPieces seals and opens texts of several calls in lists of which a call
// has more pieces than a kernel should go over, all but a few of them empty.
func TestManyPieces(t *testing.T) {
	const n = 4*maxCall + 1000
	text := filled(n, 8)
	forEachKernel(t, func(t *testing.T, b Backend, keySize int) {
		f := newFixture(t, b, keySize, false)
		ad := f.AD(filled(5, 9))
		nonce := Nonce{Lo: 1}
		want := f.oracle.Seal(nil, f.nonce(nonce), text, filled(5, 9))
		for _, at := range []int{0, 1, 1000, maxCall - 33, maxCall, 2*maxCall + 77, n - 300, n} {
			// One byte more in every hundredth of them.
			const many = maxPieces + 500
			sizes := []int{at}
			left := n - at
			for i := range many {
				size := min(left, max(0, i%100-98))
				sizes, left = append(sizes, size), left-size
			}
			sizes = append(sizes, left)
			if len(sizes) > n/smallPiece {
				t.Fatalf("%d pieces are moved without going over them", len(sizes))
			}
			out, to := make([]byte, n+TagSize), make([]byte, n)
			var pieces, places [][]byte
			offset := 0
			for _, size := range sizes {
				pieces = append(pieces, text[offset:offset+size])
				places = append(places, to[offset:offset+size])
				offset += size
			}
			f.SealPieces(address(out), n, pieces, nonce, ad)
			if !bytes.Equal(out, want) {
				t.Fatalf("%d pieces behind %d bytes: seal differs", many, at)
			}
			if !f.OpenPieces(places, address(out), n, nonce, ad) || !bytes.Equal(to, text) {
				t.Fatalf("%d pieces behind %d bytes: open differs", many, at)
			}
			for i, c := range out[:n] {
				if c != 0 && c != want[i] {
					t.Fatalf("%d pieces behind %d bytes: open left plaintext at %d", many, at, i)
				}
			}
		}
	})
}
