//go:build amd64 && !purego

package asm

// The declarations below are the contract that the kernels rely on. Every
// backend has the same five kernels, which may be called only for a key of
// that backend.
//
//	Init    sets up round keys and the powers of H for short texts
//	Powers  sets up a table for long texts
//	Hash    GHASH of additional data
//	Seal    seals a text, or a part of one
//	Open    opens a text, or a part of one
//
// No byte outside the text is read or written, except that a seal may write the
// bytes after it, where the tag then goes. Nothing needs alignment.
//
// Powers fills in the given number of powers, 10 to longPower, and may fill in
// up to morePowers more where the table has room. A text of n blocks has n + 3
// slots and takes that many powers or, if fewer, those of a group and a batch
// and one more. The caller sets the table's group.
//
// # Seal
//
// Seal reads size bytes of text at src. If trailer is not 0, the text ends with
// one more byte, trailer&0xff, and trailer is that byte + 0x100. Seal writes
// the ciphertext and a 16-byte tag to dst, which may equal src and must not
// otherwise overlap the text.
//
// long is a table that Powers has filled in, with as many powers as this text
// takes. It may be nil for a short text.
//
// nonceLo and nonceHi are the nonce's bytes 0 to 7 and 8 to 11, little endian,
// without the key's IV. adLo and adHi are the low and high half of the last
// block of additional data as a big-endian number, with zeros after the data
// and the hash of the blocks before it added. Without additional data both are
// 0. adBits and textBits are the lengths in bits.
//
// s is nil if this is all of the text. Otherwise it describes where in a longer
// text this call is, and the pieces that hold the text after the first size
// bytes; see stream. The pieces, which are slices, and the list of them are
// only read. A trailer comes after them.
//
// # Open
//
// Open reads size + trailer bytes of ciphertext at src, or as many as s says, and a tag
// after them; trailer is 0 or 1. It writes size bytes of plaintext to dst, which may
// equal src, and the rest to the pieces. With a trailer, last is the byte of plaintext
// that follows. ok is 1 if the tag is right; otherwise it is 0, and nothing that was
// written may be used. If the text continues in another call, ok and last are 0.

//go:noescape
func aesniInit(k *Key, key *byte, size uint64)

//go:noescape
func aesniPowers(k *Key, table *longTable, powers uint64)

//go:noescape
func aesniHash(k *Key, hash, data *byte, blocks uint64)

//go:noescape
func aesniSeal(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream)

//go:noescape
func aesniOpen(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream) (ok, last uint64)

//go:noescape
func vaesInit(k *Key, key *byte, size uint64)

//go:noescape
func vaesPowers(k *Key, table *longTable, powers uint64)

//go:noescape
func vaesHash(k *Key, hash, data *byte, blocks uint64)

//go:noescape
func vaesSeal(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream)

//go:noescape
func vaesOpen(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream) (ok, last uint64)

//go:noescape
func avx512Init(k *Key, key *byte, size uint64)

//go:noescape
func avx512Powers(k *Key, table *longTable, powers uint64)

//go:noescape
func avx512Hash(k *Key, hash, data *byte, blocks uint64)

//go:noescape
func avx512Seal(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream)

//go:noescape
func avx512Open(k *Key, long *longTable, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *stream) (ok, last uint64)

// The methods below call the kernel of the key's backend.

func (k *Key) init(key *byte, size uint64) {
	switch k.backend {
	case AESNI:
		aesniInit(k, key, size)
	case VAES:
		vaesInit(k, key, size)
	case AVX512:
		avx512Init(k, key, size)
	default:
		panic(noKernel)
	}
}

func (k *Key) fillPowers(t *longTable, n int) {
	switch k.backend {
	case AESNI:
		aesniPowers(k, t, uint64(n))
	case VAES:
		vaesPowers(k, t, uint64(n))
	case AVX512:
		avx512Powers(k, t, uint64(n))
	default:
		panic(noKernel)
	}
}

func (k *Key) hash(hash, data *byte, blocks uint64) {
	switch k.backend {
	case AESNI:
		aesniHash(k, hash, data, blocks)
	case VAES:
		vaesHash(k, hash, data, blocks)
	case AVX512:
		avx512Hash(k, hash, data, blocks)
	default:
		panic(noKernel)
	}
}

// sealText is Seal and SealTrailer. It is all that stands between a short
// record and its kernel: it calls the kernel without another function in
// between, and what only long texts need is elsewhere.
func (k *Key) sealText(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) {
	total := size + int(trailer/trailerFlag)
	if k.needsTable(total) && k.onceOnly(total) {
		k.sealOnce(dst, src, total, size, trailer, n, ad, nil)
		return
	}
	if total > maxCall {
		k.sealLong(dst, src, size, trailer, n, ad)
		return
	}
	long, bits := k.long.Load(), uint64(total)*8
	switch k.backend {
	case AESNI:
		aesniSeal(k, long, dst, src, uint64(size), trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, nil)
	case VAES:
		vaesSeal(k, long, dst, src, uint64(size), trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, nil)
	case AVX512:
		avx512Seal(k, long, dst, src, uint64(size), trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, nil)
	default:
		panic(noKernel)
	}
}

// openText is Open and OpenTrailer, as sealText is Seal and SealTrailer.
func (k *Key) openText(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) (ok bool, last byte) {
	total := size + int(trailer)
	if k.needsTable(total) && k.onceOnly(total) {
		return k.openOnce(dst, src, total, size, trailer, n, ad, nil)
	}
	if total > maxCall {
		return k.openLong(dst, src, size, trailer, n, ad)
	}
	long, bits := k.long.Load(), uint64(total)*8
	var o, l uint64
	switch k.backend {
	case AESNI:
		o, l = aesniOpen(k, long, dst, src, uint64(size), trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, nil)
	case VAES:
		o, l = vaesOpen(k, long, dst, src, uint64(size), trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, nil)
	case AVX512:
		o, l = avx512Open(k, long, dst, src, uint64(size), trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, nil)
	default:
		panic(noKernel)
	}
	return o == 1, byte(l)
}

// sealStream is one call of a seal that takes several, or has text in pieces.
func (k *Key) sealStream(long *longTable, dst, src *byte, size, trailer uint64, n Nonce, ad AD, bits uint64, s *stream) {
	switch k.backend {
	case AESNI:
		aesniSeal(k, long, dst, src, size, trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, s)
	case VAES:
		vaesSeal(k, long, dst, src, size, trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, s)
	case AVX512:
		avx512Seal(k, long, dst, src, size, trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, s)
	default:
		panic(noKernel)
	}
}

// openStream is one call of an open that takes several, or has text in pieces.
func (k *Key) openStream(long *longTable, dst, src *byte, size, trailer uint64, n Nonce, ad AD, bits uint64, s *stream) (ok bool, last byte) {
	var o, l uint64
	switch k.backend {
	case AESNI:
		o, l = aesniOpen(k, long, dst, src, size, trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, s)
	case VAES:
		o, l = vaesOpen(k, long, dst, src, size, trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, s)
	case AVX512:
		o, l = avx512Open(k, long, dst, src, size, trailer, n.Lo, n.Hi, ad.Lo, ad.Hi, ad.Bits, bits, s)
	default:
		panic(noKernel)
	}
	return o == 1, byte(l)
}

// sealLong is sealText for a text that takes more than one call.
//
//go:noinline
func (k *Key) sealLong(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) {
	bits := (uint64(size) + trailer/trailerFlag) * 8
	c := calls{shape: &shapes[k.backend], total: size}
	for c.next() {
		t := uint64(0)
		if c.final == 1 {
			t = trailer
			c.size += t / trailerFlag
		}
		k.sealStream(k.long.Load(), offset(dst, c.begin), offset(src, c.begin), uint64(c.end-c.begin), t, n, ad, bits, &c.stream)
	}
}

// openLong is openText for a text that takes more than one call.
//
//go:noinline
func (k *Key) openLong(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) (ok bool, last byte) {
	bits := (uint64(size) + trailer) * 8
	c := calls{shape: &shapes[k.backend], total: size}
	for c.next() {
		t := uint64(0)
		if c.final == 1 {
			t = trailer
			c.size += t
		}
		ok, last = k.openStream(k.long.Load(), offset(dst, c.begin), offset(src, c.begin), uint64(c.end-c.begin), t, n, ad, bits, &c.stream)
	}
	return ok, last
}
