package asm

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Key is what kernels need to know of an AES key: its round keys and powers
// of its hash key H, 480 bytes, and 2184 bytes more once there have been two long
// texts, or one of more than 64 KiB. It is set up by [Key.Init] and must not be
// copied after that.
//
// Seals and opens may run concurrently, but not with [Key.Wipe].
type Key struct {
	start      [blockSize]byte     // first round key, with the IV added
	rounds     [14][blockSize]byte // the others, right-aligned
	roundCount uint8
	backend    Backend
	used       atomic.Bool               // there has been a long text
	long       atomic.Pointer[longTable] // nil until it is needed
	short      shortTable
}

// A shortTable holds powers of H, highest first, followed by zeros.
type shortTable [shortPower + shortPad][blockSize]byte

// A longTable holds the powers for long texts, and sums of their halves.
// group is the number of blocks that are hashed with one reduction.
type longTable struct {
	powers, halves [longPower + longPad][blockSize]byte
	group          uint64
}

// Init sets up k for the backend b, which must be one of [Backends] and not
// [Portable]. key is 16, 24 or 32 bytes long. iv is added to every nonce; nil
// stands for zeros. The table for long texts is made when the first of them comes.
func (k *Key) Init(b Backend, key []byte, iv *[NonceSize]byte) {
	k.backend = b
	k.init(unsafe.SliceData(key), uint64(len(key)))
	if iv != nil {
		s := &k.start
		binary.LittleEndian.PutUint64(s[0:], binary.LittleEndian.Uint64(s[0:])^binary.LittleEndian.Uint64(iv[0:]))
		binary.LittleEndian.PutUint32(s[8:], binary.LittleEndian.Uint32(s[8:])^binary.LittleEndian.Uint32(iv[8:]))
	}
}

// Backend returns the backend that k was set up for.
func (k *Key) Backend() Backend { return k.backend }

// needsTable reports whether k has no powers for size bytes of text yet.
func (k *Key) needsTable(size int) bool {
	return k.long.Load() == nil && size > shapes[k.backend].short
}

// onceOnly reports whether a text of size bytes, for which k has no powers, is to use a
// table of its own; if not, k has the powers now. For more than maxCall bytes it is
// false: callers then divide the text.
//
// The first long text of a key uses a table of its own, which is not allocated and has
// only the powers that this text takes. Many keys are for one such text, a handshake's
// or a datagram's, and computing and allocating the whole table takes longer than
// sealing 4 KiB.
//
//go:noinline
func (k *Key) onceOnly(size int) bool {
	if size <= maxCall && k.used.CompareAndSwap(false, true) {
		return true
	}
	k.makeLong()
	return false
}

// makeLong makes the table for long texts. Calls that run at the same time make
// one each, and one of these identical tables stays: no call waits for another.
// The others are erased, because nobody could do it later.
func (k *Key) makeLong() {
	long := &longTable{group: uint64(shapes[k.backend].group)}
	k.fillPowers(long, longPower)
	k.keepLong(long)
}

// keepLong makes long the table of k, or erases it if k has one.
func (k *Key) keepLong(long *longTable) {
	if !k.long.CompareAndSwap(nil, long) {
		*long = longTable{}
	}
}

// onceTables are tables of zeros for one text each. On the stack a table would
// cost more: it would be cleared twice, and whole.
var onceTables = sync.Pool{New: func() any { return new(longTable) }}

// onceTable returns a table for size bytes of text, in groups of one batch. The
// caller must give it back with putOnce.
func (k *Key) onceTable(size int) (long *longTable, count int) {
	batch := shapes[k.backend].batch / blockSize
	count = min((size+blockSize-1)/blockSize+3, 2*batch+1)
	long = onceTables.Get().(*longTable)
	long.group = uint64(batch)
	k.fillPowers(long, count)
	return long, count
}

// putOnce erases a table with count powers and gives it back.
func putOnce(long *longTable, count int) {
	lowest := max(longPower-count-morePowers, 0)
	clear(long.powers[lowest:])
	clear(long.halves[lowest:])
	onceTables.Put(long)
}

// morePowers is how many powers a kernel may fill in beyond those asked for.
const morePowers = 15

// Wipe erases k, except for its backend. k must not be used after that, and no
// other call may be running.
func (k *Key) Wipe() {
	if long := k.long.Load(); long != nil {
		*long = longTable{}
	}
	*k = Key{backend: k.backend}
}

// NonceSize and TagSize are the sizes in bytes that kernels support.
const (
	NonceSize = 12
	TagSize   = 16

	blockSize = 16
)

// A Nonce is a 12-byte nonce as integers, so that no kernel has to wait for
// one that was written to memory in parts. It is XORed into the key's IV.
type Nonce struct {
	Lo, Hi uint64 // bytes 0 to 7 and 8 to 11, little endian
}

// NonceOf returns the nonce with the bytes of b.
func NonceOf(b *[NonceSize]byte) Nonce {
	return Nonce{
		Lo: binary.LittleEndian.Uint64(b[0:]),
		Hi: uint64(binary.LittleEndian.Uint32(b[8:])),
	}
}

// NonceAt returns the nonce for sequence number seq of a key that has an IV:
// seq is XORed into the IV's last 8 bytes, most significant byte first.
func NonceAt(seq uint64) Nonce {
	b := bits.ReverseBytes64(seq)
	return Nonce{Lo: b << 32, Hi: b >> 32}
}

// AD is additional data in the form that kernels take: its last block, with
// the hash of what comes before it added. The zero value is no data at all.
type AD struct {
	Hi, Lo uint64 // the block as a big-endian number
	Bits   uint64 // size of the data in bits
}

// ADOf returns additional data of at most 8 bytes: the size low-order bytes of
// ad, most significant first.
func ADOf(ad uint64, size int) AD {
	n := uint64(size) * 8
	return AD{Hi: ad << (64 - n), Bits: n}
}

// AD returns additional data of any size, under this key.
func (k *Key) AD(data []byte) AD {
	n := len(data)
	switch {
	case n > blockSize:
		return k.longAD(data)
	case n >= 8:
		return AD{
			Hi: binary.BigEndian.Uint64(data),
			// A shift by 64 gives 0.
			Lo:   binary.BigEndian.Uint64(data[n-8:]) << (8 * (16 - n)),
			Bits: uint64(n) * 8,
		}
	case n >= 4:
		// The bytes that both loads have are the same.
		return AD{
			Hi: uint64(binary.BigEndian.Uint32(data))<<32 |
				uint64(binary.BigEndian.Uint32(data[n-4:]))<<(8*(8-n)),
			Bits: uint64(n) * 8,
		}
	}
	ad := AD{Bits: uint64(n) * 8}
	for i, b := range data {
		ad.Hi |= uint64(b) << (56 - 8*i)
	}
	return ad
}

//go:noinline
func (k *Key) longAD(data []byte) AD {
	before := (len(data) - 1) &^ (blockSize - 1)
	ad := k.AD(data[before:])
	ad.Bits = uint64(len(data)) * 8
	var hash [blockSize]byte
	for data = data[:before]; len(data) > 0; {
		n := min(len(data), maxCall)
		k.hash(&hash[0], unsafe.SliceData(data), uint64(n/blockSize))
		data = data[n:]
	}
	ad.Lo ^= binary.LittleEndian.Uint64(hash[0:])
	ad.Hi ^= binary.LittleEndian.Uint64(hash[8:])
	clear(hash[:])
	return ad
}

const noKernel = "asm: key is not set up, or its backend has no kernels"
