package fuzz

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"testing"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/aeadtest"
	"example.com/splitseal/internal/asm"
)

// FuzzGCM compares every entry point of package gcm, on every backend that this
// machine can run, with crypto/cipher: Seal, SealGather, SealSplit, Open,
// OpenSplit and OpenScatter of AEADs, and those of RecordKeys, apart and in
// place, with the text divided as cuts say. Then it forges the ciphertext by
// one bit, and nothing may open it.
//
// mode picks the sizes of key, nonce, tag and additional data; bit is the
// forged bit.
func FuzzGCM(f *testing.F) {
	// The key and the records of RFC 8448, Section 3, and their neighbours.
	key := unhex(f, "17422dda596ed5d9acd890e3c63f5051")
	iv := unhex(f, "5b78923dee08579033e523d9")
	text := make([]byte, 51)
	for i := range 50 {
		text[i] = byte(i)
	}
	text[50] = 23
	f.Add(uint8(0), key, iv, uint64(0), uint64(0x1703030043), []byte{}, text, []byte{50}, uint(0))
	f.Add(uint8(0), key, iv, uint64(1), uint64(0x1703030013), []byte{}, []byte{1, 0, 21}, []byte{2}, uint(24))
	f.Add(uint8(1), key, iv, uint64(1<<32), uint64(0), []byte("additional data of some length"), make([]byte, 1350), []byte{0, 1, 15, 16, 200, 7}, uint(1<<14))
	f.Add(uint8(2), key, iv, uint64(1<<64-1), uint64(1<<63), []byte{1}, make([]byte, 16385), []byte{255, 255}, uint(1<<17))
	f.Add(uint8(3), key, iv, uint64(7), uint64(7), []byte{}, []byte{}, []byte{}, uint(127))
	f.Add(uint8(36), key, iv, uint64(7), uint64(7), make([]byte, 64), make([]byte, 300), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, uint(3))
	f.Add(uint8(77), key, iv, uint64(7), uint64(7), make([]byte, 65), make([]byte, 77), []byte{33, 0, 0, 33}, uint(900))

	f.Fuzz(func(t *testing.T, mode uint8, key, nonce []byte, seq, number uint64, ad, text, cutBytes []byte, bit uint) {
		if len(text) > 1<<17 || len(ad) > 1<<12 || len(cutBytes) > 100 {
			t.Skip("larger than the kernels' classes of length: only slower")
		}
		key = sized(key, 16+8*int(mode%3))
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		cuts := cutsFrom(cutBytes)
		odd := mode / 3
		if odd%8 == 7 { // sizes that crypto/cipher serves
			nonceSize, tagSize := 12, 12+int(odd/8)%5
			oracle, err := cipher.NewGCMWithTagSize(block, tagSize)
			if err != nil {
				t.Fatal(err)
			}
			a, err := gcm.NewWithTagSize(key, tagSize)
			if err != nil {
				t.Fatal(err)
			}
			check(t, a, oracle, sized(nonce, nonceSize), text, ad, cuts, bit)

			nonceSize = max(1, len(nonce))
			if oracle, err = cipher.NewGCMWithNonceSize(block, nonceSize); err != nil {
				t.Fatal(err)
			}
			if a, err = gcm.NewWithNonceSize(key, nonceSize); err != nil {
				t.Fatal(err)
			}
			check(t, a, oracle, sized(nonce, nonceSize), text, ad, cuts, bit)
			return
		}

		nonce = sized(nonce, gcm.NonceSize)
		oracle, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range asm.Backends() {
			restore := asm.Force(b)
			a, err := gcm.New(key)
			if err != nil {
				t.Fatal(err)
			}
			k, err := gcm.NewRecordKey(key, nonce)
			if err != nil {
				t.Fatal(err)
			}
			restore()
			if a.Backend() != b.String() || k.Backend() != b.String() {
				t.Fatalf("backends %s and %s, want %v", a.Backend(), k.Backend(), b)
			}
			check(t, a, oracle, nonce, text, ad, cuts, bit)
			c := aeadtest.RecordConfig[gcm.AD]{Key: k, ADOf: gcm.ADOf, IV: nonce, Oracle: oracle, ErrOpen: gcm.ErrOpen, Panics: "gcm: "}
			aeadtest.CompareRecord(t, c, seq, number, int(odd)%9, text, cuts)
			aeadtest.ForgeRecord(t, c, seq, number, int(odd)%9, text, cuts, bit)
		}
	})
}

func check(t *testing.T, a *gcm.AEAD, oracle cipher.AEAD, nonce, text, ad []byte, cuts []int, bit uint) {
	t.Helper()
	c := aeadtest.Config{AEAD: a, Oracle: oracle, ErrOpen: gcm.ErrOpen, Panics: "gcm: "}
	aeadtest.Compare(t, c, nonce, text, ad, cuts)
	aeadtest.Forge(t, c, nonce, text, ad, cuts, bit)
}

// sized returns the first n bytes of b, with zeros behind b if it is shorter.
func sized(b []byte, n int) []byte {
	out := make([]byte, n)
	copy(out, b)
	return out
}

// cutsFrom returns a length for each byte: small ones as they are, others in
// steps of 61, which is neither a multiple of a block nor of its half.
func cutsFrom(b []byte) []int {
	cuts := make([]int, len(b))
	for i, c := range b {
		cuts[i] = int(c)
		if c >= 128 {
			cuts[i] = 128 + 61*int(c-128)
		}
	}
	return cuts
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
