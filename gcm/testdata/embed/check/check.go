// Package check seals and opens what a library that embeds package gcm would,
// and compares with crypto/cipher. It is part of the tests.
package check

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"example.com/splitseal/gcm"
)

// Backend returns the name of the backend that new keys use.
func Backend() (string, error) {
	a, err := gcm.New(make([]byte, 16))
	if err != nil {
		return "", err
	}
	return a.Backend(), nil
}

// Run returns the first difference between package gcm and crypto/cipher.
func Run() error {
	text := make([]byte, 70_000)
	for i := range text {
		text[i] = byte(i*i>>5 + i)
	}
	for _, keySize := range []int{16, 24, 32} {
		if err := run(text, text[7:7+keySize]); err != nil {
			return fmt.Errorf("AES-%d: %w", 8*keySize, err)
		}
	}
	return nil
}

func run(text, key []byte) error {
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	oracle, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	a, err := gcm.New(key)
	if err != nil {
		return err
	}
	iv, aad := text[100:112], text[200:205]
	k, err := gcm.NewRecordKey(key, iv)
	if err != nil {
		return err
	}
	var ad uint64
	for _, b := range aad {
		ad = ad<<8 | uint64(b)
	}
	buf := make([]byte, len(text)+gcm.TagSize)
	prefix := make([]byte, len(text))
	var want []byte
	for n := 1; n < len(text); n += 1 + n/40 {
		want = oracle.Seal(want[:0], iv, text[:n], aad)
		out := buf[:n+gcm.TagSize]
		check := func(call string, ok bool) {
			if err == nil && !ok {
				err = fmt.Errorf("%s of %d bytes differs", call, n)
			}
		}
		a.Seal(out[:0], iv, text[:n], aad)
		check("Seal", bytes.Equal(out, want))
		a.SealGather(out[:0], iv, [][]byte{text[:n/3], text[n/3 : n]}, aad)
		check("SealGather", bytes.Equal(out, want))
		got, openErr := a.Open(out[:0], iv, out, aad)
		check("Open", openErr == nil && bytes.Equal(got, text[:n]))
		k.Seal(out, 0, text[:n-1], text[n-1], gcm.ADOf(ad, len(aad)))
		check("RecordKey.Seal", bytes.Equal(out, want))
		openErr = k.OpenSplit(prefix[:n-1], 0, out, gcm.ADOf(ad, len(aad)))
		check("RecordKey.OpenSplit", openErr == nil && bytes.Equal(prefix[:n-1], text[:n-1]) && out[n-1] == text[n-1])
		copy(out, want)
		out[n/2] ^= 4
		check("Open of a forgery", k.OpenSplit(prefix[:n-1], 0, out, gcm.ADOf(ad, len(aad))) != nil)
		if err != nil {
			return err
		}
	}
	return nil
}
