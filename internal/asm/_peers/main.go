// Command _peers measures the kernels beside AES-GCM of other libraries, all in
// turn in one process, for docs/kernels.md.
//
//	env GOWORK=off go -C internal/asm/_peers run . ADAPTER...
//
// An adapter is a shared object made from one of the files in adapters, which
// say how. Each holds its library, so that libraries with the same names in
// them can be compared. Behind a comma may stand a label and, behind another
// one, a value for OPENSSL_ia32cap, as in
//
//	ipsec_mb.so 'boringssl.so, VAES' 'boringssl.so, AES-NI,~0:~0x60000000000'
//
// where the last one may use neither VAES nor VPCLMULQDQ. It needs Linux, cgo
// and a C compiler, so it is a module of its own that no other one needs.
//
// A contender seals text in place, with a nonce that is new in each call, or
// opens one text elsewhere. First all of them must give the same ciphertext,
// tag and plaintext as crypto/cipher. Then come rounds in which each has a turn,
// in an order that is drawn anew. Additional data are 5 bytes.
//
// Times are nanoseconds a call: the least of all turns, which is that of a quiet
// moment, and the median.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/splitseal/gcm"
	"golang.org/x/sys/unix"
)

// A contender is one way to seal and open.
type contender struct {
	name   string
	newKey func(key []byte) calls
}

// calls is a contender with a key. seal seals n bytes at buf in place, and the
// tag behind them, count times, with nonces from number on. open opens n bytes
// at src, and the tag behind them, count times with one nonce, and reports
// whether the tag was right every time.
type calls struct {
	seal func(buf []byte, n int, number uint64, count int)
	open func(dst, src []byte, n int, number uint64, count int) bool
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 1000, "turns of each contender")
	turn := flag.Duration("turn", 100*time.Microsecond, "length of a turn, about")
	sizes := flag.String("sizes", "16,64,128,192,384,600,1024,1350,4000,16384", "bytes of text")
	cpu := flag.Int("cpu", 1, "the processor to run on")
	flag.Parse()

	list := append([]contender{goCipher}, ours()...)
	for _, arg := range flag.Args() {
		words := append(strings.SplitN(arg, ",", 3), "", "")
		label := words[1]
		if label != "" {
			label = "," + label
		}
		more, err := load(words[0], label, words[2])
		if err != nil {
			log.Fatal(err)
		}
		list = append(list, more...)
	}

	// The garbage collector would use the other processor, or this one.
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(*cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		log.Fatal(err)
	}

	for _, keySize := range []int{16, 32} {
		for _, op := range []string{"seal", "open"} {
			fmt.Printf("AES-%d, %s\n\n", keySize*8, op)
			t := newTable(list)
			for field := range strings.SplitSeq(*sizes, ",") {
				n, err := strconv.Atoi(field)
				if err != nil {
					log.Fatal(err)
				}
				t.add(n, measure(list, keySize, op, n, *rounds, *turn))
			}
			t.print(os.Stdout)
		}
	}
}

// measure returns the times of all turns of each contender, sorted.
func measure(list []contender, keySize int, op string, n, rounds int, turn time.Duration) [][]float64 {
	key := bytes.Repeat([]byte{0x42}, keySize)
	text := bytes.Repeat([]byte("text"), n/4+1)[:n]
	const number = 1
	oracle := goCipher.newKey(key)
	sealed := append(slices.Clone(text), make([]byte, gcm.TagSize)...)
	oracle.seal(sealed, n, number, 1)

	buf := make([]byte, 1<<15) // whole pages
	next := uint64(number)
	bursts := make([]func(count int) time.Duration, len(list))
	counts := make([]int, len(list))
	for i, c := range list {
		k := c.newKey(key)
		out := buf[:n+gcm.TagSize]
		copy(out, text)
		if k.seal(out, n, number, 1); !bytes.Equal(out, sealed) {
			log.Fatalf("%s: other ciphertext for %d bytes", c.name, n)
		}
		clear(out)
		if !k.open(out, sealed, n, number, 1) || !bytes.Equal(out[:n], text) {
			log.Fatalf("%s: other plaintext for %d bytes", c.name, n)
		}
		sealed[n] ^= 1
		if k.open(out, sealed, n, number, 1) {
			log.Fatalf("%s: opened what was changed", c.name)
		}
		sealed[n] ^= 1
		bursts[i] = func(count int) time.Duration {
			start := time.Now()
			if op == "seal" {
				k.seal(buf, n, next, count)
				next += uint64(count)
			} else if !k.open(buf, sealed, n, number, count) {
				log.Fatalf("%s: did not open", c.name)
			}
			return time.Since(start)
		}
		const some = 50
		best := time.Hour
		for range 20 {
			best = min(best, bursts[i](some))
		}
		counts[i] = int(some*turn/max(best, 1)) + 1
	}

	times := make([][]float64, len(list))
	for range rounds {
		for _, i := range rand.Perm(len(list)) {
			took := bursts[i](counts[i])
			times[i] = append(times[i], float64(took.Nanoseconds())/float64(counts[i]))
		}
	}
	for _, t := range times {
		slices.Sort(t)
	}
	return times
}
