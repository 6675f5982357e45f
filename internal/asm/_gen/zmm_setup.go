package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// kernels emits the backend.
func (p zmm) kernels() {
	avx512.constants()
	zmmConstants()
	p.initKernel()
	p.powersKernel()
	p.hashKernel()
	p.sealKernel()
	p.openKernel()
}

// setFactor makes the lowest block of x the factor of times: p.h, in every lane,
// and p.k, the same folded.
func (p zmm) setFactor(x vec) {
	VSHUFI64X2(everyBlock, x, x, p.h)
	run(p.fold(p.h, p.k))
}

// times sets to = x·factor, in every lane. x and to are of the same width.
func (p zmm) times(x, to vec) {
	h, k, t := as(x, p.h), as(x, p.k), p.term
	t0, t1, t2, t3 := as(x, t[0]), as(x, t[1]), as(x, t[2]), as(x, t[3])
	clmul(lowLow, x, k, t0)
	clmul(highLow, x, h, t1)
	clmul(lowHigh, x, k, t2)
	clmul(highHigh, x, h, t3)
	addWide(t0, t1, t0)
	addWide(t2, t3, to)
	p.reduceLanes(folded{mid: t0, hi: to}, t1, t3)
}

// initKernel emits the set-up of a key: its round keys, and the powers of H for
// short texts.
func (p zmm) initKernel() {
	TEXT("avx512Init", NOSPLIT, "func(k, key *byte, size uint64)")
	schedule := design{name: avx512.name, width: blockSize}.setupPlan()
	schedule.expandKey()
	schedule.hashKey()

	p.key = schedule.key
	moveWide(polynomial, p.polynomial)
	one := schedule.h[0].AsZ().(vec)
	two, four, eight := p.text[0], p.text[1], p.text[2]

	// Highest first: 1; 2, 1; 4, 3, 2, 1; and 8, 7, 6, 5.
	p.setFactor(one)
	p.times(block(one), block(two))
	p.setFactor(two)
	VINSERTI128(upper, block(one), half(two), half(two))
	p.times(half(two), half(four))
	VINSERTI64X4(upper, half(two), four, four)
	p.setFactor(four)
	p.times(four, eight)
	moveWide(four, at(p.key, keyShortEnd-zmmSize))
	moveWide(eight, at(p.key, keyShortEnd-2*zmmSize))
	p.leave()
}

// powersKernel emits the set-up of a table for long texts: of the given number of
// powers, and up to 15 more. Each batch of powers is the one before it times H¹⁶.
func (p zmm) powersKernel() {
	TEXT("avx512Powers", NOSPLIT, "func(k, table *byte, powers uint64)")
	table, turns := p.src, p.t0
	MOVQ(arg("k"), p.key)
	MOVQ(arg("table"), table)
	// One power comes after the last batch.
	MOVQ(arg("powers"), turns)
	ADDQ(operand.U8(zmmBatchBlocks-2), turns)
	SHRQ(operand.U8(4), turns)
	moveWide(polynomial, p.polynomial)

	x := p.state
	moveWide(at(p.key, keyShortEnd-zmmSize), x[0])
	moveWide(at(p.key, keyShortEnd-2*zmmSize), x[1])
	p.setFactor(x[1])
	p.times(x[0], x[2])
	p.times(x[1], x[3])
	p.setFactor(x[3])

	store := func(x vec, to operand.Mem) {
		k := as(x, p.x)
		moveWide(x, to)
		run(p.fold(x, k))
		moveWide(k, to.Offset(halvesAt))
	}
	batch := func(move func(x vec)) {
		SUBQ(operand.U32(zmmBatchSize), p.power)
		for i, x := range x {
			move(x)
			store(x, at(p.power, zmmBatchSize-(i+1)*zmmSize))
		}
	}
	LEAQ(at(table, longEnd), p.power)
	batch(func(x vec) {})
	Label("next")
	DECQ(turns)
	JZ(target("last"))
	batch(func(x vec) { p.times(x, x) })
	JMP(target("next"))

	// One power is left: 16 above the lowest of the batch before it.
	Label("last")
	last := block(p.last)
	VEXTRACTI32X4(operand.U8(zmmLanes-1), x[0], last)
	p.times(last, last)
	store(last, at(p.power, -blockSize))
	p.leave()
}
