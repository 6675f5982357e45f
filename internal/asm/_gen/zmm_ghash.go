package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// Products differ from those of the other backends. A power of H is used in two
// forms: as H, and folded, which is the number
//
//	K = hH + hL·2⁶⁴ + hL·c        for H = hH·2⁶⁴ + hL
//
// where c is 0xc2…00, the upper half of polynomial: H with its halves swapped,
// and one multiplication. By doc.go's section on reduction, 1 can be replaced by
// 2¹²⁸ + c·2⁶⁴. So H, which is hH·2⁶⁴ + hL, can be replaced by K·2⁶⁴, and
//
//	a·H = aH·H·2⁶⁴ + aL·K·2⁶⁴     for a = aH·2⁶⁴ + aL
//	    = hi·2¹²⁸ + mid·2⁶⁴       with hi  = aH·hH + aL·kH
//	                              and  mid = aH·hL + aL·kL
//
// That is four multiplications, as in the schoolbook method, but a sum of two parts
// instead of three, and reducing it takes one multiplication instead of two.
// Karatsuba's three multiplications lose here, because the additions around them are
// not free. What each method takes is in docs/kernels.md, Multiplication.
//
// The table for long texts has K beside H, where other backends have sums of
// halves. Short texts fold their powers during the AES rounds instead.

// folded is a sum of such products. Every lane has sums of its own.
type folded struct {
	mid, hi vec
}

// clear makes the sum 0.
func (s folded) clear() {
	addWide(s.mid, s.mid, s.mid)
	addWide(s.hi, s.hi, s.hi)
}

// fold sets k to the number h folded, in every lane. h and k are of any width.
func (p zmm) fold(h, k vec) []step {
	t := as(h, p.term[0])
	return []step{
		func() { clmul(lowHigh, h, as(h, p.polynomial), t) },
		func() { VPSHUFD(swapHalves, h, k) },
		func() { addWide(k, t, k) },
	}
}

// multiply adds x·H to the sum, where k is h folded.
func (p zmm) multiply(x, h, k vec) []step {
	t := p.term
	return []step{
		func() { clmul(lowLow, x, k, t[0]) },
		func() { clmul(highLow, x, h, t[1]) },
		func() { addTwo(t[0], t[1], p.sum.mid) },
		func() { clmul(lowHigh, x, k, t[2]) },
		func() { clmul(highHigh, x, h, t[3]) },
		func() { addTwo(t[2], t[3], p.sum.hi) },
	}
}

// mul adds x·H(power) to the sum, where power is in the table for long texts.
func (p zmm) mul(x vec, power operand.Mem) []step {
	load := []step{
		func() { moveWide(power, p.h) },
		func() { moveWide(power.Offset(halvesAt), p.k) },
	}
	return append(load, p.multiply(x, p.h, p.k)...)
}

// hash adds vectors, whose bytes are reversed, to the sum. The first one's
// power is offset bytes past p.power, in the table for long texts.
func (p zmm) hash(x []vec, offset int) (steps []step) {
	for i, x := range x {
		steps = append(steps, p.mul(x, at(p.power, offset+i*zmmSize))...)
	}
	return steps
}

// loadFolding sets h to the powers of H at m, and k to the same folded.
func (p zmm) loadFolding(m operand.Mem, h, k vec) []step {
	load := func() { moveWide(m, h) }
	return append([]step{load}, p.fold(h, k)...)
}

// mulFolding adds x·H(power) to the sum, where power is in the key.
func (p zmm) mulFolding(x vec, power operand.Mem) []step {
	return append(p.loadFolding(power, p.h, p.k), p.multiply(x, p.h, p.k)...)
}

// reduce returns the register with the sum of all lanes as an element of the
// field. It destroys the sum.
func (p zmm) reduce() vec {
	x, t := p.sum.hi, p.term[0]
	p.reduceLanes(p.sum, p.x, p.h)
	VEXTRACTI64X4(upper, x, half(t))
	addWide(half(x), half(t), half(x))
	VEXTRACTI32X4(upper, half(x), block(t))
	addWide(block(x), block(t), block(x))
	return block(x)
}

// reduceLanes makes each lane of s, of any width, an element of the field, in
// s.hi: hi + mid folded. t and u are scratch of the same width.
func (p zmm) reduceLanes(s folded, t, u vec) {
	clmul(lowHigh, s.mid, as(s.mid, p.polynomial), t)
	VPSHUFD(swapHalves, s.mid, u)
	addTwo(t, u, s.hi)
}

// startGroup starts the sum of a group. If no more than a group, a batch and the
// block of lengths are left of the p.slots slots, it covers all of them; otherwise it
// is one whole group. p.slots keeps those after it.
func (p zmm) startGroup() {
	MOVQ(at(p.end, longGroup-longEnd), p.t0)
	LEAQ(at(p.t0, zmmBatchBlocks+1), p.t1)
	CMPQ(p.slots, p.t1)
	CMOVQLS(p.slots, p.t0)
	SUBQ(p.t0, p.slots)
	SHLQ(operand.U8(4), p.t0)
	MOVQ(p.end, p.power)
	SUBQ(p.t0, p.power)
	p.sum.clear()
}

// startLengths starts the sum with the block of lengths times H. powers loads
// H¹ folded into its argument, 16 bytes, and returns where H¹ is.
//
// The two halves of the block are each in the low half of a lane, one to meet K
// and the other H. So the four products take two multiplications.
func (p zmm) startLengths(powers func(k vec) operand.Mem) {
	x, t, h := p.state[0], p.state[1], p.state[2] // VINSERTI128 knows 16 registers
	VMOVQ(arg("textBits"), block(x))
	VMOVQ(arg("adBits"), block(t))
	VINSERTI128(upper, block(t), half(x), half(x))
	h1 := powers(block(h))
	VINSERTI128(upper, h1, half(h), half(h))
	clmul(lowLow, half(x), half(h), half(p.sum.mid))
	clmul(lowHigh, half(x), half(h), half(p.sum.hi))
}

// shortH1 is what startLengths asks for, from the key.
func (p zmm) shortH1(k vec) operand.Mem {
	h1 := at(p.key, keyShortEnd-blockSize)
	moveWide(h1, block(p.h))
	run(p.fold(block(p.h), k))
	return h1
}

// longH1 is what startLengths asks for, from the table for long texts.
func (p zmm) longH1(k vec) operand.Mem {
	h1 := at(p.end, -blockSize)
	moveWide(h1.Offset(halvesAt), k)
	return h1
}

// addLengths adds the block of lengths to the sum of a long text.
func (p zmm) addLengths() {
	sum := p.sum
	p.sum = folded{mid: p.x, hi: p.last}
	p.startLengths(p.longH1)
	addWide(sum.mid, p.sum.mid, sum.mid)
	addWide(sum.hi, p.sum.hi, sum.hi)
}

// addCarry adds the hash so far to x, the next block to be hashed, in lane 0.
func (p zmm) addCarry(x vec) {
	addWide(x, p.carry, x)
	addWide(p.carry, p.carry, p.carry)
}

// loadTables loads what every kernel that hashes keeps.
func (p zmm) loadTables() {
	moveWide(reversal, p.reversal)
	moveWide(polynomial, p.polynomial)
}

// hashKernel emits GHASH of whole blocks, for additional data of more than one
// block. It needs no powers but those of short texts, and reduces once for as
// many blocks. It is not tuned.
func (p zmm) hashKernel() {
	TEXT("avx512Hash", NOSPLIT, "func(k, hash, data *byte, blocks uint64)")
	hash, blocks, turn := p.dst, p.slots, p.left

	MOVQ(arg("k"), p.key)
	MOVQ(arg("hash"), hash)
	MOVQ(arg("data"), p.src)
	MOVQ(arg("blocks"), blocks)
	p.loadTables()
	moveWide(at(hash, 0), block(p.carry))

	Label("turn")
	// turn = min(blocks, zmmShortPowers), power = H^turn
	MOVL(operand.U32(zmmShortPowers), turn.As32())
	CMPQ(blocks, turn)
	CMOVQCS(blocks, turn)
	SUBQ(turn, blocks)
	MOVQ(turn, p.t0)
	SHLQ(operand.U8(4), p.t0)
	LEAQ(at(p.key, keyShortEnd), p.power)
	SUBQ(p.t0, p.power)
	p.sum.clear()

	Label("vector")
	// Blocks after the last one are not read; they are zeros.
	MOVL(operand.U32(0xff), p.t0.As32())
	LEAL(operand.Mem{Base: turn, Index: turn, Scale: 1}, p.t1.As32())
	BZHIQ(p.t1, p.t0, p.t0)
	KMOVB(p.t0.As32(), p.inMemory)
	VMOVDQU64_Z(at(p.src, 0), p.inMemory, p.x)
	VPSHUFB(p.reversal, p.x, p.x)
	p.addCarry(p.x)
	run(p.mulFolding(p.x, at(p.power, 0)))
	ADDQ(operand.U8(zmmSize), p.src)
	ADDQ(operand.U8(zmmSize), p.power)
	SUBQ(operand.U8(zmmLanes), turn)
	JHI(target("vector"))
	moveWide(p.reduce(), block(p.carry))
	TESTQ(blocks, blocks)
	JNZ(target("turn"))

	moveWide(block(p.carry), at(hash, 0))
	p.leave()
}
