package main

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/asm"
)

// The additional data, a record's header, as bytes and as an integer.
var header = []byte{23, 3, 3, 0, 0}

const headerInteger = 0x1703030000

// ours is this module, in every backend that can run: kernels without the
// checks of their arguments, and the two kinds of keys that package gcm has.
func ours() []contender {
	var list []contender
	for _, b := range asm.Backends() {
		if b == asm.Portable {
			continue
		}
		add := func(name string, newKey func(key []byte) calls) {
			list = append(list, contender{"splitseal, " + b.String() + ", " + name, func(key []byte) calls {
				defer asm.Force(b)()
				return newKey(key)
			}})
		}
		add("kernel", func(key []byte) calls { return kernelCalls(b, key) })
		add("RecordKey", recordCalls)
		add("AEAD", func(key []byte) calls { return aeadCalls(must(gcm.New(key))) })
	}
	return list
}

func kernelCalls(b asm.Backend, key []byte) calls {
	k, ad := new(asm.Key), asm.ADOf(headerInteger, len(header))
	k.Init(b, key, new([gcm.NonceSize]byte))
	return calls{
		seal: func(buf []byte, n int, number uint64, count int) {
			for range count {
				k.Seal(&buf[0], &buf[0], n, asm.NonceAt(number), ad)
				number++
			}
		},
		open: func(dst, src []byte, n int, number uint64, count int) bool {
			right := true
			for range count {
				right = k.Open(&dst[0], &src[0], n, asm.NonceAt(number), ad) && right
			}
			return right
		},
	}
}

// recordCalls are of a RecordKey. What it seals is a record's content and one
// byte more, by value, which together are the n bytes at buf.
func recordCalls(key []byte) calls {
	k := must(gcm.NewRecordKey(key, make([]byte, gcm.NonceSize)))
	return calls{
		seal: func(buf []byte, n int, number uint64, count int) {
			out, content, last := buf[:n+gcm.TagSize], buf[:n-1], buf[n-1]
			for range count {
				k.Seal(out, number, content, last, gcm.ADOf(headerInteger, len(header)))
				number++
			}
		},
		open: func(dst, src []byte, n int, number uint64, count int) bool {
			right := true
			dst, src = dst[:n], src[:n+gcm.TagSize]
			for range count {
				right = k.OpenSplit(dst, number, src, gcm.ADOf(headerInteger, len(header))) == nil && right
			}
			return right
		},
	}
}

func aeadCalls(a cipher.AEAD) calls {
	nonce := make([]byte, gcm.NonceSize)
	return calls{
		seal: func(buf []byte, n int, number uint64, count int) {
			for range count {
				binary.BigEndian.PutUint64(nonce[4:], number)
				a.Seal(buf[:0], nonce, buf[:n], header)
				number++
			}
		},
		open: func(dst, src []byte, n int, number uint64, count int) bool {
			right := true
			for range count {
				binary.BigEndian.PutUint64(nonce[4:], number)
				_, err := a.Open(dst[:0], nonce, src[:n+gcm.TagSize], header)
				right = err == nil && right
			}
			return right
		},
	}
}

// goCipher is what all others are compared with.
var goCipher = contender{"crypto/cipher", func(key []byte) calls {
	return aeadCalls(must(cipher.NewGCM(must(aes.NewCipher(key)))))
}}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
