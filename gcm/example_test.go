package gcm_test

import (
	"fmt"

	"example.com/splitseal/gcm"
)

// exampleKey returns a key for the examples. Real keys come from a key exchange.
func exampleKey() *gcm.AEAD {
	a, err := gcm.New([]byte("an example key!!"))
	if err != nil {
		panic(err)
	}
	return a
}

// An AEAD is a crypto/cipher.AEAD.
func ExampleNew() {
	a, err := gcm.New([]byte("an example key!!")) // 16 bytes: AES-128
	if err != nil {
		panic(err)
	}
	nonce := make([]byte, a.NonceSize()) // never twice with one key
	sealed := a.Seal(nil, nonce, []byte("hello"), []byte("header"))
	opened, err := a.Open(nil, nonce, sealed, []byte("header"))
	fmt.Printf("%d bytes, %s, %v\n", len(sealed), opened, err)
	_, err = a.Open(nil, nonce, sealed, []byte("another header"))
	fmt.Println(err)
	// Output:
	// 21 bytes, hello, <nil>
	// splitseal: message authentication failed
}

// Seal and open in place.
func ExampleAEAD_Seal() {
	a := exampleKey()
	nonce := make([]byte, gcm.NonceSize)
	buf := make([]byte, 0, 100)
	text := append(buf, "hello"...)
	sealed := a.Seal(text[:0], nonce, text, nil)
	opened, err := a.Open(sealed[:0], nonce, sealed, nil)
	fmt.Printf("%s, %v, same memory: %v\n", opened, err, &opened[0] == &text[0])
	// Output: hello, <nil>, same memory: true
}

// Text that lies in several buffers is sealed as if it were in one.
func ExampleAEAD_SealGather() {
	a := exampleKey()
	nonce := make([]byte, gcm.NonceSize)
	pieces := [][]byte{[]byte("HTTP/1.1 200 OK\r\n"), nil, []byte("\r\n"), []byte("body")}
	sealed := a.SealGather(nil, nonce, pieces, nil)
	opened, err := a.Open(nil, nonce, sealed, nil)
	fmt.Printf("%q, %v\n", opened, err)
	// Output: "HTTP/1.1 200 OK\r\n\r\nbody", <nil>
}

// A TLS 1.3 record is content and a type byte. Split seal reads the content
// where it lies and takes the type byte from the output.
func ExampleAEAD_SealSplit() {
	a := exampleKey()
	nonce := make([]byte, gcm.NonceSize)
	content := []byte("hello")
	record := make([]byte, len(content)+1+a.Overhead())
	record[len(content)] = 23
	a.SealSplit(record, nonce, content, nil)
	opened, err := a.Open(nil, nonce, record, nil)
	fmt.Printf("%q, %v\n", opened, err)
	// Output: "hello\x17", <nil>
}

// Split open is the mirror image: the content goes straight to the reader's
// buffer.
func ExampleAEAD_OpenSplit() {
	a := exampleKey()
	nonce := make([]byte, gcm.NonceSize)
	record := a.Seal(nil, nonce, []byte("hello\x17"), nil)
	content := make([]byte, 5)
	if err := a.OpenSplit(content, nonce, record, nil); err != nil {
		panic(err)
	}
	fmt.Printf("%s, type %d\n", content, record[len(content)])
	// Output: hello, type 23
}

// Plaintext is delivered to several buffers.
func ExampleAEAD_OpenScatter() {
	a := exampleKey()
	nonce := make([]byte, gcm.NonceSize)
	sealed := a.Seal(nil, nonce, []byte("head body"), nil)
	head, body := make([]byte, 5), make([]byte, 4)
	if err := a.OpenScatter([][]byte{head, body}, nonce, sealed, nil); err != nil {
		panic(err)
	}
	fmt.Printf("%q %q\n", head, body)
	// Output: "head " "body"
}

func ExampleNewWithNonceSize() {
	a, err := gcm.NewWithNonceSize([]byte("an example key!!"), 16)
	if err != nil {
		panic(err)
	}
	fmt.Println(a.NonceSize(), a.Overhead())
	// Output: 16 16
}

func ExampleNewWithTagSize() {
	a, err := gcm.NewWithTagSize([]byte("an example key!!"), 12)
	if err != nil {
		panic(err)
	}
	fmt.Println(a.NonceSize(), a.Overhead())
	// Output: 12 12
}

// A RecordKey holds the IV and takes the number, the additional data and the
// byte after the content as integers.
func ExampleRecordKey() {
	k, err := gcm.NewRecordKey([]byte("an example key!!"), []byte("an IV, 12 B."))
	if err != nil {
		panic(err)
	}
	defer k.Wipe()
	content := []byte("hello")
	record := make([]byte, len(content)+1+gcm.TagSize)
	const seq, header, headerSize = 0, 0x1703030016, 5
	k.Seal(record, seq, content, 23, gcm.ADOf(header, headerSize))

	opened := make([]byte, len(content))
	err = k.OpenSplit(opened, seq, record, gcm.ADOf(header, headerSize))
	fmt.Printf("%s, type %d, %v\n", opened, record[len(content)], err)
	// Output: hello, type 23, <nil>
}

// Every message has a key of its own. Reset reuses the memory of the key before.
func ExampleRecordKey_Reset() {
	keys := []string{"an example key!!", "another example!"}
	k, err := gcm.NewRecordKey([]byte(keys[0]), []byte("an IV, 12 B."))
	if err != nil {
		panic(err)
	}
	defer k.Wipe()
	for _, key := range keys {
		if err := k.Reset([]byte(key), []byte("an IV, 12 B.")); err != nil {
			panic(err)
		}
		message := make([]byte, 5+1+gcm.TagSize)
		k.Seal(message, 0, []byte("hello"), 23, gcm.AD{})
		fmt.Printf("%x\n", message)
	}
	// Output:
	// 9f3cf5d0101df2686377f533fe8e661b264a1191b43e
	// e99386d23168ba2c8486b5f24e40cea93d9877223355
}

// The padding is already in the output, after the type byte.
func ExampleRecordKey_SealSplit() {
	k, err := gcm.NewRecordKey([]byte("an example key!!"), []byte("an IV, 12 B."))
	if err != nil {
		panic(err)
	}
	content := []byte("hello")
	record := make([]byte, len(content)+1+10+gcm.TagSize) // ten zeros of padding
	record[len(content)] = 23
	k.SealSplit(record, 0, content, gcm.ADOf(0x1703030020, 5))
	err = k.OpenSplit(nil, 0, record, gcm.ADOf(0x1703030020, 5)) // all of it in place
	fmt.Printf("%q, %v\n", record[:16], err)
	// Output: "hello\x17\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", <nil>
}

func ExampleRecordKey_SealGather() {
	k, err := gcm.NewRecordKey([]byte("an example key!!"), []byte("an IV, 12 B."))
	if err != nil {
		panic(err)
	}
	record := make([]byte, 11+1+gcm.TagSize)
	k.SealGather(record, 0, [][]byte{[]byte("hello "), []byte("world"), {23}}, gcm.ADOf(0x170303001c, 5))
	err = k.OpenSplit(nil, 0, record, gcm.ADOf(0x170303001c, 5))
	fmt.Printf("%q, %v\n", record[:12], err)
	// Output: "hello world\x17", <nil>
}
