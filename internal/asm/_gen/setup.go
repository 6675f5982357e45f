package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// setupPlan is the register plan of the kernels that set up a key.
type setupPlan struct {
	design

	key    reg.GPPhysical // input: the Key
	source reg.GPPhysical // input: the key's bytes
	table  reg.GPPhysical // input: the table for long texts
	words  [6]reg.GPPhysical

	// The key schedule.
	even, odd vec // the last two round keys; kept
	zeroBlock vec // E(0) in the making; kept
	t, u      vec // scratch

	// Powers of H.
	h            [8]vec // the lowest powers, times x⁻¹
	factor       vec    // a power, in every lane, that others are multiplied by
	factorHalves vec    // the sum of its halves, in the low half of every lane
	sum          product
	halves, term vec // scratch
}

func (d design) setupPlan() setupPlan {
	v := func(i int) vec { return d.sized(vectors[i]) }
	p := setupPlan{
		design: d,
		key:    reg.R8,
		source: reg.RSI,
		table:  reg.RDI,
		words:  [6]reg.GPPhysical{reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.R9, reg.R10},

		even: reg.X0, odd: reg.X1, zeroBlock: reg.X2, t: reg.X3, u: reg.X4,

		factor: v(8), factorHalves: v(9),
		sum:    product{lo: v(10), mid: v(11), hi: v(12)},
		halves: v(13), term: v(14),
	}
	for i := range p.h {
		p.h[i] = v(i)
	}
	return p
}

// initKernel emits the set-up of a key: its round keys, and the powers of H for
// short texts.
func (d design) initKernel() {
	TEXT(d.name+"Init", NOSPLIT, "func(k, key *byte, size uint64)")
	p := d.setupPlan()
	p.expandKey()
	p.hashKey()
	p.shortTable()
	d.leave()
}

// expandKey stores the round keys, and encrypts a block of zeros on the way.
func (p setupPlan) expandKey() {
	MOVQ(arg("k"), p.key)
	MOVQ(arg("key"), p.source)
	MOVQ(arg("size"), reg.RAX)
	MOVQ(reg.RAX, reg.RBX)
	SHRQ(operand.U8(2), reg.RBX)
	ADDQ(operand.U8(6), reg.RBX) // 4, 6 or 8 words of key take 10, 12 or 14 rounds
	MOVB(reg.BL, at(p.key, keyRoundCount))
	CMPQ(reg.RAX, operand.U8(24))
	JE(target("aes192"))
	JA(target("aes256"))

	p.expand128()
	JMP(target("powers"))
	Label("aes256")
	p.expand256()
	JMP(target("powers"))
	Label("aes192")
	p.expand192()

	Label("powers")
}

// nextWord sets every word of p.t to the part of the next round key that does not
// depend on its other words: SubWord(word) + constant. On entry, every word of p.t is
// that word, rotated if the schedule says so. With all words alike, AES's last round
// does this, without the latency of VAESKEYGENASSIST.
func (p setupPlan) nextWord(constant operand.Op) { VAESENCLAST(constant, p.t, p.t) }

// addBefore adds to each word of k the words before it, and p.t.
func (p setupPlan) addBefore(k vec) {
	VPSLLDQ(operand.U8(4), k, p.u)
	add(k, p.u, k)
	VPSLLDQ(operand.U8(8), k, p.u)
	add(k, p.u, k)
	add(k, p.t, k)
}

// useKey stores round key i, counted as for AES-256, and takes E(0) one round
// further.
func (p setupPlan) useKey(i int, k vec) {
	move(k, roundKey(p.key, i))
	if i < maxRoundKeys {
		VAESENC(k, p.zeroBlock, p.zeroBlock)
	} else {
		VAESENCLAST(k, p.zeroBlock, p.zeroBlock)
	}
}

// startKey stores the first round key and starts E(0).
func (p setupPlan) startKey(k vec) {
	move(k, at(p.key, keyStart))
	move(k, p.zeroBlock)
}

func (p setupPlan) expand128() {
	k := p.even
	move(at(p.source, 0), k)
	p.startKey(k)
	for i := range 10 {
		VPSHUFB(rotate, k, p.t)
		p.nextWord(roundConstants.Offset(16 * i))
		p.addBefore(k)
		p.useKey(5+i, k)
	}
}

func (p setupPlan) expand256() {
	move(at(p.source, 0), p.even)
	move(at(p.source, 16), p.odd)
	p.startKey(p.even)
	p.useKey(1, p.odd)
	zero := low(p.term)
	VPXOR(zero, zero, zero)
	for i := range 7 {
		VPSHUFB(rotate, p.odd, p.t)
		p.nextWord(roundConstants.Offset(16 * i))
		p.addBefore(p.even)
		p.useKey(2+2*i, p.even)
		if i == 6 {
			break
		}
		VPSHUFD(operand.U8(0xff), p.even, p.t)
		p.nextWord(zero)
		p.addBefore(p.odd)
		p.useKey(3+2*i, p.odd)
	}
}

// expand192 goes word by word: six words at a time do not fit round keys of
// four, and hardly anyone uses AES-192.
func (p setupPlan) expand192() {
	const first = 3 // round key 1, counted as for AES-256
	place := func(word int) operand.Mem {
		if word < 4 {
			return at(p.key, keyStart+4*word)
		}
		return at(p.key, keyRounds+(first-1)*blockSize+4*(word-4))
	}
	for i, w := range p.words {
		MOVL(at(p.source, 4*i), w.As32())
		MOVL(w.As32(), place(i))
	}
	for i := 6; i < 52; i++ {
		w := p.words[i%6].As32()
		if i%6 == 0 {
			VMOVD(p.words[5].As32(), p.t)
			VPSHUFD(operand.U8(0), p.t, p.t)
			VPSHUFB(rotate, p.t, p.t)
			p.nextWord(roundConstants.Offset(16 * (i/6 - 1)))
			VMOVD(p.t, reg.R11.As32())
			XORL(reg.R11.As32(), w)
		} else {
			XORL(p.words[i%6-1].As32(), w)
		}
		MOVL(w, place(i))
	}
	move(at(p.key, keyStart), p.even)
	p.startKey(p.even)
	for i := first; i <= maxRoundKeys; i++ {
		move(roundKey(p.key, i), p.even)
		p.useKey(i, p.even)
	}
	for _, w := range p.words {
		XORL(w.As32(), w.As32())
	}
	XORL(reg.R11.As32(), reg.R11.As32())
}

// hashKey sets p.h[0] to H·x⁻¹, the lowest entry of the tables.
func (p setupPlan) hashKey() {
	h, t, u := low(p.h[0]), p.t, p.u
	VPSHUFB(reversal, p.zeroBlock, h)
	// t = carries, by 32-bit words: 0 and 3 for the highest bit of H, 2 for the
	// highest bit of its low half, 1 has none
	VPSHUFD(operand.U8(0xd3), h, t)
	VPSRAD(operand.U8(31), t, t)
	VPAND(carries, t, t)
	// h = both halves of H << 1, + carries
	VPADDQ(h, h, u)
	add(u, t, h)
}

// setFactor makes x, one block, the factor of times.
func (p setupPlan) setFactor(x vec) {
	f, s := low(p.factor), low(p.factorHalves)
	VPSHUFD(swapHalves, x, s)
	add(s, x, s)
	if x != f {
		move(x, f)
	}
	if p.lanes() > 1 {
		VINSERTI128(operand.U8(1), f, p.factor, p.factor)
		VINSERTI128(operand.U8(1), s, p.factorHalves, p.factorHalves)
	}
}

// times sets to = x·factor, in every lane. Both are of the same width.
func (p setupPlan) times(x, to vec) {
	f, fs, sum, s, t := p.factor, p.factorHalves, p.sum, p.halves, p.term
	if x == low(x) {
		f, fs, sum, s, t = low(f), low(fs), sum.low(), low(s), low(t)
	}
	VPSHUFD(swapHalves, x, s)
	add(s, x, s)
	clmul(lowLow, x, f, sum.lo)
	clmul(highHigh, x, f, sum.hi)
	clmul(lowLow, s, fs, sum.mid)
	sum.plainMiddle(t)
	move(sum.reduce(s, t), to)
}

// square sets to = x·x, both one block. The two middle products of a square are
// equal and cancel out.
func (p setupPlan) square(x, to vec) {
	sum := p.sum.low()
	VPXOR(sum.mid, sum.mid, sum.mid)
	clmul(lowLow, x, x, sum.lo)
	clmul(highHigh, x, x, sum.hi)
	move(sum.reduce(low(p.halves), low(p.term)), to)
}

// short is the memory of H to the power i in the key.
func (p setupPlan) short(i int) operand.Mem { return at(p.key, keyShortEnd-i*blockSize) }

// long is the memory of H to the power i in the table for long texts.
func (p setupPlan) long(i int) operand.Mem { return at(p.table, longEnd-i*blockSize) }

// shortPowers is the number of powers that short texts can use: those in the
// key, or those that texts of one batch need.
func (d design) shortPowers() int { return min(shortPower, d.firstBatchSize()/blockSize+2) }

// shortSize is the size of the longest text for which those are enough: slot 1
// has the highest power, which is the number of the text's blocks + 2.
func (d design) shortSize() int { return (d.shortPowers() - 2) * blockSize }

// shortTable fills in the powers for short texts.
func (p setupPlan) shortTable() {
	h := func(i int) vec { return low(p.h[i-1]) }
	p.square(h(1), h(2))
	p.square(h(2), h(4))
	p.square(h(4), h(8))
	p.setFactor(h(1))
	p.times(h(2), h(3))
	p.setFactor(h(4))
	for i := 1; i <= 3; i++ {
		p.times(h(i), h(4+i))
	}
	for i := 1; i <= 8; i++ {
		move(h(i), p.short(i))
	}
	p.setFactor(h(8))
	for i := 9; i <= p.shortPowers(); i++ {
		p.times(h(i-8), h(i-8))
		move(h(i-8), p.short(i))
	}
}

// powersKernel emits the set-up of a table for long texts: of the given number of
// powers, and at most one more. Each vector of powers is the one eight powers below it
// times H⁸.
func (d design) powersKernel() {
	const step = 8
	count := reg.RCX
	TEXT(d.name+"Powers", NOSPLIT, "func(k, table *byte, powers uint64)")
	p := d.setupPlan()
	MOVQ(arg("k"), p.key)
	MOVQ(arg("table"), p.table)
	MOVQ(arg("powers"), count)
	SUBQ(operand.U8(step), count)
	if p.lanes() > 1 {
		SHRQ(operand.U8(1), count)
	}

	for i := p.lanes(); i <= step; i += p.lanes() {
		move(p.short(i), p.h[0])
		move(p.h[0], p.long(i))
		p.storeHalves(p.h[0], p.long(i))
	}

	move(p.short(step), low(p.factor))
	p.setFactor(low(p.factor))
	from := reg.RSI
	to := at(from, -step*blockSize)
	next := func(x vec) {
		move(at(from, 0), x)
		p.times(x, x)
		move(x, to)
		p.storeHalves(x, to)
	}
	LEAQ(p.long(p.lanes()), from)
	align()
	Label("vector")
	next(p.h[0])
	SUBQ(operand.U8(p.width), from)
	DECQ(count)
	JNZ(target("vector"))
	// The highest power is an odd one, so half a vector is left.
	if p.lanes() > 1 {
		ADDQ(operand.U8(blockSize), from)
		next(low(p.h[0]))
	}
	d.leave()
}

// storeHalves fills in the sums of halves beside the powers x at m: those of
// each power and of the one that is lanes lower, which must be there. It
// destroys x.
func (p setupPlan) storeHalves(x vec, m operand.Mem) {
	y, t := p.halves, p.term
	if x == low(x) {
		y, t = low(y), low(t)
	}
	move(m.Offset(p.width), y)
	VPUNPCKLQDQ(y, x, t)
	VPUNPCKHQDQ(y, x, x)
	add(x, t, x)
	move(x, m.Offset(halvesAt))
}
