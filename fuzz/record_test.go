package fuzz

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// peer seals any inner plaintext with crypto/cipher, as a peer that breaks the
// rules would. Its suite is TLS_AES_128_GCM_SHA256.
type peer struct {
	aead cipher.AEAD
	iv   []byte
	seq  uint64
}

func newPeer(tb testing.TB, secret []byte) *peer {
	keys, err := aead.DeriveTrafficKeys(aead.AES128GCM(), secret)
	if err != nil {
		tb.Fatal(err)
	}
	block, err := aes.NewCipher(keys.Key)
	if err != nil {
		tb.Fatal(err)
	}
	a, err := cipher.NewGCM(block)
	if err != nil {
		tb.Fatal(err)
	}
	return &peer{aead: a, iv: keys.IV}
}

func (p *peer) seal(dst, inner []byte) []byte {
	nonce := bytes.Clone(p.iv)
	tail := nonce[len(nonce)-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^p.seq)
	p.seq++
	header := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(inner)+16))
	return p.aead.Seal(append(dst, header...), nonce, inner, header)
}

var fuzzSecret = sha256.Sum256([]byte("a traffic secret"))

// rfc8448Records returns the records of RFC 8448's traces, as seeds.
func rfc8448Records(f *testing.F) [][]byte {
	data, err := os.ReadFile("../record/testdata/rfc8448.vec")
	if err != nil {
		f.Fatal(err)
	}
	var records [][]byte
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && strings.HasPrefix(key, "Record_") {
			records = append(records, unhex(f, value))
		}
	}
	if len(records) < 40 {
		f.Fatalf("%d records", len(records))
	}
	return records
}

// FuzzOpener feeds the Opener any bytes, in any chunking, opened in place and into
// buffers of any size. The outcome must be the same as for all bytes at once: the
// same records, the same error. Nothing panics, nothing is consumed before it is
// whole, errors stay and have an alert.
//
// mode picks the epoch and what the caller has allowed. With its high bit set, the
// bytes are inner plaintexts, each behind its length, which a peer seals first:
// otherwise no record would ever open.
func FuzzOpener(f *testing.F) {
	for _, rec := range rfc8448Records(f) {
		f.Add(uint8(0), rec, []byte{1}, uint8(0))
		f.Add(uint8(3), rec, []byte{5, 100, 3}, uint8(50))
		f.Add(uint8(0x10|2), rec, []byte{7}, uint8(20))
	}
	inners := func(list ...string) (b []byte) {
		for _, s := range list {
			b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
			b = append(b, s...)
		}
		return b
	}
	keyUpdate := "\x18\x00\x00\x01\x00"
	f.Add(uint8(0x83), inners("data\x17", "data\x17\x00\x00\x00", "\x17", "\x01\x00\x15"), []byte{1}, uint8(3))
	f.Add(uint8(0x83), inners(keyUpdate+"\x16", "x\x17"), []byte{9, 1}, uint8(0))
	f.Add(uint8(0x83), inners(keyUpdate+keyUpdate+"\x16"), []byte{3}, uint8(0))
	f.Add(uint8(0x83), inners("\x18\x00\x16", "x\x17"), []byte{3}, uint8(0))
	f.Add(uint8(0x83), inners("\x04\x00\x00\x02\x16", "ab\x16", "\x02\x0a\x15"), []byte{2, 2, 9}, uint8(200))
	f.Add(uint8(0x83), inners("", "\x00\x00"), []byte{60}, uint8(1))
	f.Add(uint8(0x82), inners("\x14\x00\x00\x00\x16", "x\x17"), []byte{60}, uint8(1))
	f.Add(uint8(0x92), inners("\x01Z\x15", "\x01Z\x15"), []byte{60}, uint8(1))
	f.Add(uint8(0), []byte("\x14\x03\x03\x00\x01\x01\x14\x03\x03\x00\x01\x01"), []byte{1}, uint8(0))
	f.Add(uint8(0x20), []byte("\x14\x03\x03\x00\x01\x01\x16\x03\x01\x00\x01\x01"), []byte{1}, uint8(0))

	f.Fuzz(func(t *testing.T, mode uint8, input, chunks []byte, dstSize uint8) {
		if len(input) > 1<<17 {
			t.Skip("larger than any interplay of records: only slower")
		}
		wire := input
		if mode&0x80 != 0 {
			p := newPeer(t, fuzzSecret[:])
			wire = nil
			for len(input) >= 2 {
				n := min(int(binary.BigEndian.Uint16(input)), len(input)-2, record.MaxBodySize-16)
				wire = p.seal(wire, input[2:2+n])
				input = input[2+n:]
			}
			wire = append(wire, input...)
		}
		whole := openStream(t, mode, wire, nil, 0)
		for _, size := range []int{0, int(dstSize), int(dstSize) << 7} {
			if got := openStream(t, mode, wire, chunks, size); got != whole {
				t.Fatalf("in chunks %v into %d bytes: %s\nat once: %s", chunks, size, got, whole)
			}
		}
	})
}

// openStream returns a description of all that an Opener makes of wire.
func openStream(t *testing.T, mode uint8, wire, chunks []byte, dstSize int) string {
	o := record.NewOpener(record.OpenerConfig{})
	o.AllowChangeCipherSpec(mode&0x20 != 0)
	if mode&0x10 != 0 {
		o.SkipEarlyData(1000)
	}
	if epoch := record.Epoch(mode & 3); epoch != record.EpochPlaintext {
		if err := o.SetTrafficSecret(epoch, aead.AES128GCM(), fuzzSecret[:]); err != nil {
			t.Fatal(err)
		}
	}
	if mode&0x40 != 0 {
		if err := o.SetRecordSizeLimit(64 + int(mode)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	var in []byte
	rest := bytes.Clone(wire)
	next := 0
	for {
		const canary = 0xa5
		dst := bytes.Repeat([]byte{canary}, dstSize)
		before := bytes.Clone(in)
		rec, need, err := o.OpenTo(dst, in)
		switch {
		case err == record.ErrKeyUpdatePending:
			// Not final: the caller has to act.
			if !bytes.Equal(in, before) || need != 0 {
				t.Fatal("a refused call changed something")
			}
			if err := o.KeyUpdate(); err != nil {
				t.Fatalf("KeyUpdate when one is pending: %v", err)
			}
			out.WriteString("update\n")
			continue
		case err != nil:
			if rec.Type != 0 || rec.Content != nil || rec.Rest != nil || rec.Size != 0 || rec.Dropped || need != 0 {
				t.Fatalf("%+v, need %d, beside %v", rec, need, err)
			}
			if _, _, again := o.OpenTo(dst, in); again != err || o.Err() != err {
				t.Fatalf("%v, and then %v", err, again)
			}
			if _, ok := record.AlertOf(err); !ok && err != record.ErrClosed {
				t.Fatalf("%v has no alert", err)
			}
			for _, b := range dst {
				if b != 0 && b != canary {
					t.Fatalf("dst holds %x after %v", dst, err)
				}
			}
			fmt.Fprintf(&out, "error %v\n", err)
			return out.String()
		case need > 0:
			if !bytes.Equal(in, before) || rec.Size != 0 || !bytes.Equal(dst, bytes.Repeat([]byte{canary}, dstSize)) {
				t.Fatal("changed something before the record was whole")
			}
			if len(rest) == 0 {
				fmt.Fprintf(&out, "%d bytes left, %d needed, partial %v\n", len(in), need, o.HandshakePartial())
				return out.String()
			}
			n := len(rest)
			if len(chunks) > 0 {
				n = min(n, 1+int(chunks[next%len(chunks)]))
				next++
			}
			in = append(in, rest[:n]...)
			rest = rest[n:]
			continue
		}
		if rec.Size < record.HeaderSize || rec.Size > len(in) || rec.Size > record.MaxRecordSize {
			t.Fatalf("%d of %d bytes consumed", rec.Size, len(in))
		}
		content := append(bytes.Clone(rec.Content), rec.Rest...)
		if len(content) > record.MaxContentSize || rec.Dropped && len(content) > 0 {
			t.Fatalf("%d bytes of content", len(content))
		}
		if rec.Type == record.ContentTypeApplicationData && dstSize > 0 && len(rec.Rest) > 0 && len(rec.Content) != dstSize {
			t.Fatalf("%d bytes in dst, %d of room, %d bytes of rest", len(rec.Content), dstSize, len(rec.Rest))
		}
		fmt.Fprintf(&out, "%v %x %d %v\n", rec.Type, content, rec.Size, rec.Dropped)
		in = in[rec.Size:]
	}
}

// FuzzRoundTrip makes a Sealer and an Opener carry any sequence of calls: contents
// in any pieces, any padding, key updates, alerts, small usage limits and record size
// limits, exports. What is sealed is opened as it was, every record stays within its
// limits, no nonce comes twice, and a refused call changes nothing.
//
// Each operation is two bytes, what to do and how large.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint8(0), uint16(0), []byte{0, 5, 1, 200, 2, 0, 0, 5})
	f.Add(uint8(3), uint16(64), []byte{0, 5, 1, 200, 3, 0, 4, 0, 0, 9, 2, 1, 5, 7, 6, 1, 0, 9})
	f.Add(uint8(16), uint16(1000), []byte{0, 255, 8, 255, 9, 255, 1, 90, 7, 0, 0, 0})
	f.Add(uint8(255), uint16(16385), []byte{2, 1, 2, 1, 7, 0, 2, 1, 0, 1, 3, 0, 0, 1, 4, 0, 0, 1})
	for _, rec := range rfc8448Records(f) {
		f.Add(rec[len(rec)-1], uint16(rec[3])<<8|uint16(rec[4]), rec[:min(len(rec), 60)])
	}
	f.Fuzz(func(t *testing.T, seed uint8, limit uint16, ops []byte) {
		if len(ops) > 400 {
			t.Skip("longer than any interplay of calls: only slower")
		}
		nonces := make(map[string]bool)
		suite := noteNonces(t, nonces)
		size := max(record.MinRecordSizeLimit, int(limit))
		padding := int(seed) * 3
		cfg := record.SealerConfig{
			Padding:         func(n int) int { return (n*7+int(seed))%(padding+1) - 5 },
			RecordSizeLimit: size,
			SoftLimit:       1 + uint64(seed%7),
			HardLimit:       40,
		}
		s, o := record.NewSealer(cfg), record.NewOpener(record.OpenerConfig{RecordSizeLimit: size})
		if err := errors.Join(
			s.SetTrafficSecret(record.EpochApplication, suite, fuzzSecret[:]),
			o.SetTrafficSecret(record.EpochApplication, suite, fuzzSecret[:]),
		); err != nil {
			t.Fatal(err)
		}
		text := bytes.Repeat([]byte("content"), record.MaxContentSize/7+10)
		dst := make([]byte, record.MaxContentSize)
		for i := 0; i+1 < len(ops); i += 2 {
			n := int(ops[i+1]) * (1 + int(ops[i]>>4)*4)
			content := text[:n]
			typ := record.ContentTypeApplicationData
			seq, generation, needed := s.Seq(), s.Generation(), s.NeedsKeyUpdate()
			var wire []byte
			var err error
			op := ops[i] % 10
			switch op {
			case 0:
				wire, err = s.Seal(nil, typ, content)
			case 1, 8:
				wire, err = s.SealGather(nil, typ, [][]byte{content[:n/4], nil, content[n/4 : n/2], content[n/2:]})
			case 2:
				typ, content = record.ContentTypeHandshake, append([]byte{24, 0, 0, 1}, ops[i+1]&1)
				wire, err = s.SealKeyUpdate(nil, ops[i+1]&1 == 1)
			case 3:
				s.PeerKeyUpdate(ops[i+1]&1 == 1)
				continue
			case 4:
				var st *record.State
				if st, err = s.Export(); err == nil {
					s, err = record.ImportSealer(st, cfg)
				}
				if err != nil {
					t.Fatalf("moving the Sealer: %v", err)
				}
				continue
			case 5:
				st, err := o.Export(nil)
				if err == nil {
					o, _, err = record.ImportOpener(st, record.OpenerConfig{})
				}
				if err != nil {
					t.Fatalf("moving the Opener: %v", err)
				}
				continue
			case 6:
				typ, content = record.ContentTypeAlert, []byte{1, 90}
				wire, err = s.SealAlert(nil, record.AlertUserCanceled)
			case 7:
				typ, content = record.ContentTypeHandshake, append([]byte{4, 0, 0, ops[i+1]}, text[:ops[i+1]]...)
				wire, err = s.Seal(nil, typ, content)
			case 9: // in place
				buf := make([]byte, record.MaxRecordSize+len(content))
				at := buf[record.HeaderSize : record.HeaderSize+n]
				copy(at, content)
				wire, err = s.Seal(buf[:0], typ, at)
			}
			if err != nil {
				if s.Seq() != seq || s.Generation() != generation || len(wire) > 0 {
					t.Fatalf("operation %d: refused with %v, and something changed", op, err)
				}
				switch {
				case err == record.ErrRecordTooLarge && len(content) > s.MaxContentSize():
				case err == record.ErrKeyUpdateRequired && needed && (op != 2 && op != 6):
				case err == record.ErrKeyUpdateOutstanding && op == 2 && s.KeyUpdateRequested():
				case err == record.ErrKeyExhausted && seq == 40:
				default:
					t.Fatalf("operation %d of %d bytes at seq %d: %v", op, n, seq, err)
				}
				continue
			}
			if len(wire) > s.MaxSealedSize() || len(wire)-record.HeaderSize-16 > size {
				t.Fatalf("record of %d bytes, limit %d", len(wire), size)
			}
			if op == 6 || op == 7 || op == 2 || n == 0 {
				// Not to run into the bound on records without application data,
				// move the Opener, which starts its count again.
				st, err := o.Export(nil)
				if err == nil {
					o, _, err = record.ImportOpener(st, record.OpenerConfig{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			rec, need, err := o.OpenTo(dst[:n/2*int(seed&1)], wire)
			if err != nil || need != 0 || rec.Type != typ || rec.Size != len(wire) ||
				!bytes.Equal(append(bytes.Clone(rec.Content), rec.Rest...), content) {
				t.Fatalf("operation %d: opened %v, %d bytes, %v", op, rec.Type, len(rec.Content), err)
			}
			if op == 2 {
				if request, err := record.ParseKeyUpdate(rec.Content); err != nil || request != (ops[i+1]&1 == 1) {
					t.Fatal(err)
				}
				if err := o.KeyUpdate(); err != nil {
					t.Fatal(err)
				}
			}
			if s.Seq() != o.Seq() || s.Generation() != o.Generation() {
				t.Fatalf("at %d/%d and %d/%d", s.Generation(), s.Seq(), o.Generation(), o.Seq())
			}
		}
		if wire, err := s.SealAlert(nil, record.AlertCloseNotify); err == nil {
			if rec, _, err := o.Open(wire); err != nil || rec.Type != record.ContentTypeAlert {
				t.Fatal(err)
			}
		} else if err != record.ErrKeyExhausted {
			t.Fatal(err)
		}
	})
}

// noteNonces returns a suite over crypto/cipher whose AEADs fail the test when a
// key seals twice under one nonce.
func noteNonces(t *testing.T, nonces map[string]bool) *aead.Suite {
	return aead.NewSuite(aead.SuiteParams{
		ID: 0xfe02, Name: "FUZZ", KeySize: 16, TagSize: 16, Hash: aead.AES128GCM().Hash(), RecordLimit: 1 << 24,
		New: func(key []byte) (cipher.AEAD, error) {
			block, err := aes.NewCipher(key)
			if err != nil {
				return nil, err
			}
			a, err := cipher.NewGCM(block)
			return &notingAEAD{a, t, string(key), nonces}, err
		},
	})
}

type notingAEAD struct {
	cipher.AEAD
	t      *testing.T
	key    string
	nonces map[string]bool
}

func (a *notingAEAD) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	if use := a.key + string(nonce); a.nonces[use] {
		a.t.Fatalf("nonce %x twice under one key", nonce)
	} else {
		a.nonces[use] = true
	}
	return a.AEAD.Seal(dst, nonce, plaintext, additionalData)
}
