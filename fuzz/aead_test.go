package fuzz

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"testing"

	"example.com/splitseal/aead"
	"golang.org/x/crypto/chacha20poly1305"
)

// FuzzProtector drives two Protectors through a run of operations, and compares
// each record with the AEAD called by hand under the nonce of RFC 9846, Section
// 5.3. Forged records come in between and must leave the reader where it was.
//
// Each operation takes three bytes of program: what to do, a length, and where
// to cut or to forge.
func FuzzProtector(f *testing.F) {
	secret := unhex(f, "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
	f.Add(uint8(0), secret, uint64(0), []byte{0, 50, 0, 0, 2, 0})
	f.Add(uint8(1), secret, uint64(1<<32-2), []byte{1, 10, 5, 2, 20, 9, 4, 0, 0, 0, 255, 1})
	f.Add(uint8(2), secret, uint64(1<<64-3), []byte{2, 1, 1, 8, 30, 2, 16, 3, 3, 0, 1, 1})
	f.Add(uint8(3), secret, uint64(1<<64-1), []byte{0, 0, 0, 1, 0, 0})
	f.Add(uint8(7), secret, uint64(9), []byte{31, 200, 17, 15, 100, 3, 7, 7, 7})

	f.Fuzz(func(t *testing.T, mode uint8, secret []byte, seq uint64, program []byte) {
		if len(program) > 300 {
			t.Skip("more of the same")
		}
		base := aead.Suites()[int(mode)%3]
		suite := base
		if mode&4 != 0 { // the way of suites from other modules
			suite = aead.NewSuite(aead.SuiteParams{
				ID: base.ID(), Name: base.Name(), KeySize: base.KeySize(), TagSize: base.TagSize(), Hash: base.Hash(),
				RecordLimit: base.RecordLimit(), New: func(key []byte) (cipher.AEAD, error) { return byHand(base, key) },
			})
		}
		keys, err := aead.DeriveTrafficKeys(suite, sized(secret, suite.Hash().Size()))
		if err != nil {
			t.Fatal(err)
		}
		oracle, err := byHand(base, keys.Key)
		if err != nil {
			t.Fatal(err)
		}
		w, err := aead.ResumeProtector(suite, keys, seq)
		if err != nil {
			t.Fatal(err)
		}
		r, err := aead.ResumeProtector(suite, keys, seq)
		if err != nil {
			t.Fatal(err)
		}
		tag := suite.TagSize()
		for ; len(program) >= 3; program = program[3:] {
			op, n, at := program[0], int(program[1])*int(1+program[0]>>5), int(program[2])
			inner := bytes.Repeat([]byte{op, program[1], 1}, n/3+1)[:n+1]
			content := bytes.Clone(inner[:n])
			inner[n] = 23
			if op&3 == 1 || op&3 == 2 {
				inner = append(inner, make([]byte, at%64)...)
			}
			body := make([]byte, len(inner)+tag)
			header := 0x1703030000 | uint64(len(body))
			switch op & 3 {
			case 0:
				err = w.Seal(body, content, 23, header)
			case 1:
				copy(body[n:], inner[n:])
				err = w.SealSplit(body, content, header)
			case 2:
				copy(body, inner)
				err = w.SealSplit(body, body[:at%(n+1)], header)
			case 3:
				cut := at % (n + 1)
				err = w.SealGather(body, [][]byte{content[:cut], nil, content[cut:], inner[n:]}, header)
			}
			if seq == 1<<64-1 {
				if err != aead.ErrSequenceExhausted || w.Seq() != seq {
					t.Fatalf("at the last number: %v, then at %d", err, w.Seq())
				}
				if err := r.OpenSplit(nil, body, header); err != aead.ErrSequenceExhausted {
					t.Fatalf("at the last number: %v", err)
				}
				continue
			}
			if err != nil || w.Seq() != seq+1 {
				t.Fatalf("seal at %d: %v, then at %d", seq, err, w.Seq())
			}
			nonce := bytes.Clone(keys.IV)
			binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^seq)
			if want := oracle.Seal(nil, nonce, inner, binary.BigEndian.AppendUint64(nil, header)[3:]); !bytes.Equal(body, want) {
				t.Fatalf("operation %d at %d: other bytes than by hand", op&3, seq)
			}

			if op&4 != 0 {
				forged, head := bytes.Clone(body), header
				switch at % 4 {
				case 0:
					forged[at%len(forged)] ^= 1 << (at % 8)
				case 1:
					forged = forged[:at%len(forged)]
				case 2:
					forged = append(forged, 0)
				case 3:
					head ^= 1 << (at % 40)
				}
				prefix := make([]byte, max(0, min(n, len(forged)-tag)))
				if err := r.OpenSplit(prefix, forged, head); err != aead.ErrOpen || r.Seq() != seq {
					t.Fatalf("forged record at %d: %v, then at %d", seq, err, r.Seq())
				}
				if text := len(forged) - tag; text > 0 && !allZero(prefix, forged[len(prefix):text]) {
					t.Fatal("a forged record left something behind")
				}
			}
			got := body[:n]
			if op&8 != 0 {
				got = make([]byte, n)
			}
			if err := r.OpenSplit(got, body, header); err != nil || r.Seq() != seq+1 {
				t.Fatalf("open at %d: %v, then at %d", seq, err, r.Seq())
			}
			if !bytes.Equal(got, inner[:n]) || !bytes.Equal(body[n:len(inner)], inner[n:]) {
				t.Fatalf("open at %d: other plaintext", seq)
			}
			seq++
			if op&16 != 0 { // a Protector stops and another goes on
				w.Wipe()
				if w, err = aead.ResumeProtector(suite, keys, seq); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func byHand(s *aead.Suite, key []byte) (cipher.AEAD, error) {
	if s == aead.ChaCha20Poly1305() {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func allZero(bs ...[]byte) bool {
	for _, b := range bs {
		for _, c := range b {
			if c != 0 {
				return false
			}
		}
	}
	return true
}
