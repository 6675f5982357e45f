package record

import (
	"bytes"
	"crypto/cipher"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/mem"
)

// watched is a Gatherer that notes where the text lies that it is given, and where it
// is told to put text.
type watched struct {
	aead.Gatherer
	notes *notes
}

type notes struct {
	sealed [][][]byte // the pieces of each record's inner plaintext
	opened []split    // where each record's inner plaintext was put
}

type split struct{ prefix, body []byte }

func (w watched) SealSplit(out, nonce, prefix, additionalData []byte) {
	w.notes.sealed = append(w.notes.sealed, [][]byte{prefix, out[len(prefix) : len(out)-w.Overhead()]})
	w.Gatherer.SealSplit(out, nonce, prefix, additionalData)
}

func (w watched) SealGather(dst, nonce []byte, pieces [][]byte, additionalData []byte) []byte {
	w.notes.sealed = append(w.notes.sealed, append([][]byte(nil), pieces...))
	return w.Gatherer.SealGather(dst, nonce, pieces, additionalData)
}

func (w watched) OpenSplit(prefix, nonce, buf, additionalData []byte) error {
	w.notes.opened = append(w.notes.opened, split{prefix, buf})
	return w.Gatherer.OpenSplit(prefix, nonce, buf, additionalData)
}

// watchedSuite returns a suite whose AEADs put what they see into n.
func watchedSuite(n *notes) *aead.Suite {
	suite := aead.AES128GCM()
	return aead.NewSuite(aead.SuiteParams{
		ID: suite.ID(), Name: "watched", KeySize: suite.KeySize(), TagSize: 16, Hash: suite.Hash(), RecordLimit: 1 << 20,
		New: func(key []byte) (cipher.AEAD, error) {
			g, err := suite.New(key)
			return watched{g, n}, err
		},
	})
}

// sameMemory reports whether a and b are the same memory.
func sameMemory(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// TestWriteSealsInPlace looks at the memory that the AEAD seals from: the caller's, as
// it is, but for pieces of less than copySize bytes, which are in the record, where
// neighbours are one piece.
func TestWriteSealsInPlace(t *testing.T) {
	data := pattern(60_000)
	cut := func(sizes ...int) (pieces net.Buffers) {
		rest := data
		for _, n := range sizes {
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		return pieces
	}
	for _, test := range []struct {
		pieces net.Buffers // in one call of Write if there is only one
		sealed [][]int     // the sizes of what each record is sealed from; of copies they are negative
	}{
		{cut(1), [][]int{{1}}},
		{cut(255), [][]int{{255}}},
		{cut(40_000), [][]int{{16384}, {16384}, {7232}}},
		{cut(16384+10, 100), [][]int{{16384}, {-110}}},
		{cut(255, 256, 257), [][]int{{-255, 256, 257}}},
		{cut(256, 255, 256), [][]int{{256, -255, 256}}},
		{cut(256, 100, 0, 100, 300, 1), [][]int{{256, -200, 300, -1}}},
		{cut(20_000, 20_000, 300), [][]int{{16384}, {3616, 12768}, {7232, 300}}},
		{cut(16384-100, 256, 16384, 10), [][]int{{16284, -100}, {-156, 16228}, {-166}}},
		{cut(slices.Repeat([]int{1, 256}, 70)...), [][]int{
			append(slices.Repeat([]int{-1, 256}, 63), -1-192),
			append([]int{-64 - 1, 256}, slices.Repeat([]int{-1, 256}, 5)...),
		}},
	} {
		for _, of := range []string{"Writer", "Conn"} {
			t.Run(fmt.Sprint(of, " ", len(test.pieces), " ", len(test.pieces[0])), func(t *testing.T) {
				var n notes
				sealer := appSealer(t, watchedSuite(&n), "client", SealerConfig{})
				var s stub
				var w interface {
					io.Writer
					WriteBuffers([][]byte) (int64, error)
				} = NewWriter(&s, sealer, WriterConfig{})
				if of == "Conn" {
					w = newConn(t, &s, ConnConfig{Sealer: sealer})
				}
				var err error
				if len(test.pieces) == 1 {
					_, err = w.Write(test.pieces[0])
				} else {
					_, err = w.WriteBuffers(test.pieces)
				}
				if err != nil {
					t.Fatal(err)
				}
				rest := data
				for i, record := range n.sealed {
					var sizes []int
					for _, p := range record[:len(record)-1] { // the last is the content type
						size := len(p)
						if !sameMemory(p, rest[:size]) {
							if mem.Overlap(p, data) {
								t.Fatalf("record %d: a piece of %d bytes is elsewhere in the content", i, size)
							}
							size = -size
						}
						sizes = append(sizes, size)
						rest = rest[len(p):]
					}
					if i >= len(test.sealed) || fmt.Sprint(sizes) != fmt.Sprint(test.sealed[i]) {
						t.Errorf("record %d: sealed from %d, want %d", i, sizes, test.sealed)
					}
				}
				if len(n.sealed) != len(test.sealed) {
					t.Errorf("%d records, want %d", len(n.sealed), len(test.sealed))
				}
				var got []byte
				for _, r := range newFollower(t).take(t, s.out.Bytes()) {
					got = append(got, r.content...)
				}
				if want := bytes.Join(test.pieces, nil); !bytes.Equal(got, want) {
					t.Error("content differs")
				}
			})
		}
	}
}

// TestReadOpensInPlace looks at the memory that the AEAD opens into: in Read the
// caller's, as far as it has room for the content, and in WriteTo what is then written.
func TestReadOpensInPlace(t *testing.T) {
	sizes := []int{1000, 1, 16384, 300, 16384, 200}
	total := 0
	for _, size := range sizes {
		total += size
	}
	data := pattern(total)
	for _, room := range []int{1, 999, 1000, 1001, 2000, 17_384, 17_385, 20_000, total, 2 * total} {
		for _, of := range []string{"Reader", "Conn"} {
			t.Run(fmt.Sprint(of, " ", room), func(t *testing.T) {
				var n notes
				r := watchedReader(t, &n, of, data, sizes)
				record, start := 0, 0 // of the next record to be opened
				for got := 0; got < total; {
					p := make([]byte, room)
					m, err := r.Read(p)
					if err != nil || !bytes.Equal(p[:m], data[got:got+m]) {
						t.Fatalf("%d bytes at %d: %v", m, got, err)
					}
					for _, opened := range n.opened[record:] {
						at := start - got
						want := p[at:min(len(p), at+sizes[record])]
						if len(want) == 0 || !sameMemory(opened.prefix, want) {
							t.Errorf("record %d: %d bytes opened elsewhere, %d have room at %d", record, len(opened.prefix), len(want), at)
						}
						start += sizes[record]
						record++
					}
					got += m
				}
				if record != len(sizes) {
					t.Errorf("%d records were opened", record)
				}
			})
		}
	}
	for _, of := range []string{"Reader", "Conn"} {
		var n notes
		r := watchedReader(t, &n, of, data, sizes)
		record := 0
		r.WriteTo(writerFunc(func(p []byte) (int, error) {
			if opened := n.opened[record]; len(opened.prefix) > 0 || !sameMemory(p, opened.body[:len(p)]) || len(p) != sizes[record] {
				t.Errorf("%s, record %d: %d bytes were not written from where they were opened", of, record, len(p))
			}
			record++
			return len(p), nil
		}))
		if record != len(sizes) {
			t.Errorf("%s: %d records were written", of, record)
		}
	}
}

// watchedReader returns a Reader, or a client's Conn, of data in records of these
// sizes.
func watchedReader(t *testing.T, n *notes, of string, data []byte, sizes []int) interface {
	io.Reader
	io.WriterTo
} {
	var src stub
	s := appSealer(t, aead.AES128GCM(), "server", SealerConfig{})
	for _, size := range sizes {
		src.in.Write(mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, data[:size])))
		data = data[size:]
	}
	opener := appOpener(t, watchedSuite(n), "server")
	if of == "Conn" {
		return newConn(t, &src, ConnConfig{Opener: opener})
	}
	return NewReader(&src, opener, ReaderConfig{})
}
