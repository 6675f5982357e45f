// Quickstart seals a message as a TLS 1.3 record from two separate slices, opens it
// straight into a buffer, and then does the same with a stream for a second, compared
// with crypto/cipher used the way crypto/tls uses it. It needs no network and no
// set-up:
//
//	go run ./examples/quickstart
package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log"
	"slices"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/gcm"
	"example.com/splitseal/record"
)

func main() {
	log.SetFlags(0)

	// A handshake would have agreed on these; both sides derive the write key
	// and write IV from the traffic secret.
	suite := aead.AES128GCM()
	secret := bytes.Repeat([]byte{7}, suite.Hash().Size())

	message(suite, secret)
	stream(suite, secret)
}

// message seals and opens one record.
func message(suite *aead.Suite, secret []byte) {
	sealer, opener := newPair(suite, secret)

	// Neither slice is copied next to the other, or next to the content type.
	pieces := [][]byte{[]byte("Hello, "), []byte("record layer!")}
	sealed, err := sealer.SealGather(nil, record.ContentTypeApplicationData, pieces)
	check(err)
	fmt.Printf("%q sealed as one record:\n%s\n", pieces, hex.Dump(sealed))

	buf := make([]byte, record.MaxContentSize)
	opened, _, err := opener.OpenTo(buf, sealed)
	check(err)
	fmt.Printf("opened: %q, content type %v\n\n", opened.Content, opened.Type)
}

// stream seals and opens full-size records for a second, in both ways by turns.
func stream(suite *aead.Suite, secret []byte) {
	sealer, opener := newPair(suite, secret)
	copying := newCopying(suite, secret)

	content := bytes.Repeat([]byte("All work and no play makes Jack a dull boy. "), 1<<14)[:1<<19]
	sealed := make([]byte, 0, record.MaxRecordSize)
	buf := make([]byte, record.MaxContentSize)

	// The two take turns, half a mebibyte each, so that noise hits both. The clock is
	// that of benchmarks: time.Now is too coarse for this on some systems.
	var ours, theirs struct{ seal, open []time.Duration }
	turns := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			var sealing, opening time.Duration
			for chunk := range slices.Chunk(content, record.MaxContentSize) {
				start := b.Elapsed()
				rec, err := sealer.Seal(sealed, record.ContentTypeApplicationData, chunk)
				check(err)
				sealing += b.Elapsed() - start

				start = b.Elapsed()
				opened, _, err := opener.OpenTo(buf, rec)
				check(err)
				opening += b.Elapsed() - start
				if !bytes.Equal(opened.Content, chunk) {
					log.Fatal("quickstart: the record opened to something else")
				}
			}
			ours.seal, ours.open = append(ours.seal, sealing), append(ours.open, opening)

			sealing, opening = 0, 0
			for chunk := range slices.Chunk(content, record.MaxContentSize) {
				start := b.Elapsed()
				rec := copying.seal(sealed, chunk)
				sealing += b.Elapsed() - start

				start = b.Elapsed()
				n := copying.open(buf, rec)
				opening += b.Elapsed() - start
				if !bytes.Equal(buf[:n], chunk) {
					log.Fatal("quickstart: crypto/cipher opened the record to something else")
				}
			}
			theirs.seal, theirs.open = append(theirs.seal, sealing), append(theirs.open, opening)
		}
	})

	fmt.Printf("%d MiB in records of %d bytes, %v, backend %s:\n\n",
		turns.N*len(content)>>20, record.MaxContentSize, suite, gcm.Backend())
	fmt.Printf("%34s%12s\n", "seal", "open")
	row := func(name string, seal, open []time.Duration) {
		fmt.Printf("%-22s%7.2f GB/s%7.2f GB/s\n", name, rate(len(content), seal), rate(len(content), open))
	}
	row("splitseal", ours.seal, ours.open)
	row("copy, append, cipher", theirs.seal, theirs.open)
	fmt.Printf("%-22s%11.2fx%11.2fx\n", "ratio",
		rate(1, ours.seal)/rate(1, theirs.seal), rate(1, ours.open)/rate(1, theirs.open))
}

// newPair returns both ends of one direction.
func newPair(suite *aead.Suite, secret []byte) (*record.Sealer, *record.Opener) {
	sealer := record.NewSealer(record.SealerConfig{})
	check(sealer.SetTrafficSecret(record.EpochApplication, suite, secret))
	opener := record.NewOpener(record.OpenerConfig{})
	check(opener.SetTrafficSecret(record.EpochApplication, suite, secret))
	return sealer, opener
}

// copying is a record layer as in crypto/tls: content is copied next to its content
// type and sealed there; a record is opened in place and its content copied to the
// reader.
type copying struct {
	aead              cipher.AEAD
	iv, nonce         [aead.IVSize]byte
	writeSeq, readSeq uint64
}

func newCopying(suite *aead.Suite, secret []byte) *copying {
	keys, err := aead.DeriveTrafficKeys(suite, secret)
	check(err)
	block, err := aes.NewCipher(keys.Key)
	check(err)
	a, err := cipher.NewGCM(block)
	check(err)
	return &copying{aead: a, iv: [aead.IVSize]byte(keys.IV)}
}

func (c *copying) seal(dst, content []byte) []byte {
	n := len(content) + 1 + c.aead.Overhead()
	dst = append(dst, byte(record.ContentTypeApplicationData), 3, 3, byte(n>>8), byte(n))
	dst = append(dst, content...)
	dst = append(dst, byte(record.ContentTypeApplicationData))
	text := dst[len(dst)-len(content)-1:]
	dst = c.aead.Seal(dst[:len(dst)-len(text)], c.nonceFor(c.writeSeq), text, dst[:record.HeaderSize])
	c.writeSeq++
	return dst
}

func (c *copying) open(dst, rec []byte) int {
	header, body := rec[:record.HeaderSize], rec[record.HeaderSize:]
	text, err := c.aead.Open(body[:0], c.nonceFor(c.readSeq), body, header)
	check(err)
	c.readSeq++
	text = bytes.TrimRight(text, "\x00")
	return copy(dst, text[:len(text)-1])
}

func (c *copying) nonceFor(seq uint64) []byte {
	c.nonce = c.iv
	tail := c.nonce[aead.IVSize-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^seq)
	return c.nonce[:]
}

// rate returns GB/s for the median of the times that size bytes took.
func rate(size int, times []time.Duration) float64 {
	times = slices.Sorted(slices.Values(times))
	return float64(size) / float64(times[len(times)/2].Nanoseconds())
}

func check(err error) {
	if err != nil {
		log.Fatal("quickstart: ", err)
	}
}
