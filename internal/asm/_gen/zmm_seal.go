package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// enter loads what every call needs.
func (p zmm) enter() {
	p.loadArguments()
	p.loadCounters()
	p.loadTables()
	VBROADCASTI32X4(roundKey(p.key, maxRoundKeys), p.lastKey)
}

// loadLong loads the end of the table for long texts.
func (p zmm) loadLong() {
	MOVQ(arg("long"), p.end)
	ADDQ(operand.U32(longEnd), p.end)
}

// slot0 sets p.power for a text of p.size bytes that is sealed or opened in one
// batch, with the table that ends at end: slot 0 has the power ⌈p.size/16⌉ + 3.
func (p zmm) slot0(end operand.Mem) {
	LEAQ(at(p.size, blockSize-1+3*blockSize), p.t0)
	ANDQ(operand.I8(-blockSize), p.t0)
	LEAQ(end, p.power)
	SUBQ(p.t0, p.power)
}

// continueStream takes up the counter, mask and hash of stream p.t0.
func (p zmm) continueStream() {
	MOVL(at(p.t0, streamCounter), p.batch.As32())
	MOVL(p.batch.As32(), p.t1.As32())
	SHRL(operand.U8(4), p.batch.As32())

	// From batch 0 to this one every block changes by this counter.
	BSWAPL(p.t1.As32())
	delta := p.state[0]
	VMOVD(p.t1.As32(), block(delta))
	VPSLLDQ(operand.U8(12), block(delta), block(delta))
	VSHUFI64X2(everyBlock, delta, delta, delta)
	for _, c := range p.counter {
		addWide(c, delta, c)
	}

	moveWide(at(p.t0, streamMask), block(p.mask))
	moveWide(at(p.t0, streamHash), block(p.carry))
	p.loadLong()
	p.startGroup()
	LEAQ(deltas, p.deltas)
}

// suspendStream saves mask and hash in the stream and leaves.
func (p zmm) suspendStream(hash vec) {
	MOVQ(arg("s"), p.t0)
	moveWide(hash, at(p.t0, streamHash))
	moveWide(block(p.mask), at(p.t0, streamMask))
	p.leave()
}

// walk is what a walk over pieces uses of p.
func (p zmm) walk() walk {
	w := newWalk()
	w.most = zmmBatchSize
	w.x, w.t, w.n, w.from = half(p.state[0]), p.t1, p.size, p.t0
	return w
}

// tag returns the register with the tag: the hash plus E(J₀).
func (p zmm) tag() vec {
	x := p.reduce()
	VPSHUFB(block(p.reversal), x, x)
	addWide(x, block(p.mask), x)
	return x
}

// sealKernel emits the seal. Hashing is one batch behind: while a batch is
// encrypted, the one before it is hashed. So neither waits for the other.
func (p zmm) sealKernel() {
	TEXT("avx512Seal", NOSPLIT, "func("+textArguments+")")
	runs := sealRuns{walk: p.walk(), src: p.src, dst: p.dst, left: p.left, head: p.size}
	p.enter()
	p.ifStream("stream")
	p.textSize(sealTrailerSize)
	CMPQ(p.size, operand.U32(zmmFirstBatchSize))
	JBE(target("one_batch"))
	p.textSlots(p.size)
	MOVQ(p.src, runs.head)

	Label("first_batch")
	p.loadLong()
	p.startGroup()
	p.loadAD()
	LEAQ(deltas, p.deltas)
	XORL(p.batch.As32(), p.batch.As32())
	p.rounds(zmmVectors, p.nextCounters())
	p.sealVectors(zmmVectors, runs.head, p.text)
	p.moveOn(zmmFirstBatchSize)
	JMP(target("next"))

	align()
	Label("batch")
	p.rounds(zmmVectors, append(p.nextCounters(), p.hash(p.text[:], 0)...))
	p.sealVectors(zmmVectors, nil, p.text)
	p.moveOn(zmmBatchSize)
	ADDQ(operand.U32(zmmBatchSize), p.power)
	CMPQ(p.power, p.end)
	JE(target("group_end"))
	Label("next")
	CMPQ(p.left, operand.U32(zmmBatchSize))
	JAE(target("batch"))
	runs.next(zmmBatchSize, "next")

	// Here less than a batch is left, and the last batch is not hashed yet.
	p.textSize(sealTrailerSize)
	TESTQ(p.size, p.size)
	JZ(target("rest_0"))
	rest := func(n int) string { return fmt.Sprintf("rest_%d", n) }
	p.byVectors(1, zmmVectors, false, rest)
	for n := zmmVectors; n > 0; n-- {
		Label(rest(n))
		p.loadLast(n, false)
		p.rounds(n, p.hash(p.text[:], 0))
		p.sealRest(n, false)
		run(p.hash(p.state[:n], zmmBatchSize))
		JMP(target("finish_long"))
	}

	Label("rest_0")
	run(p.hash(p.text[:], 0))
	MOVQ(arg("s"), p.t0)
	TESTQ(p.t0, p.t0)
	JZ(target("finish_long"))
	CMPQ(at(p.t0, streamFinal), operand.U8(0))
	JNE(target("finish_long"))
	p.suspendStream(p.reduce())

	// The last batch of a group is hashed. The one that was just encrypted is
	// the first of the next group.
	Label("group_end")
	p.reduce()
	addWide(p.text[0], p.sum.hi, p.text[0])
	p.startGroup()
	JMP(target("next"))

	Label("stream")
	runs.begin(p.t0)
	p.streamSlots()
	CMPL(at(p.t0, streamCounter), operand.U8(0))
	JNE(target("continue"))
	ADDQ(operand.U8(2), p.slots)
	runs.start(zmmFirstBatchSize, "first_batch")
	Label("continue")
	p.continueStream()
	CMPQ(p.left, operand.U32(zmmBatchSize))
	JAE(target("continue_whole"))
	runs.fill(zmmBatchSize)
	Label("continue_whole")
	p.rounds(zmmVectors, p.nextCounters())
	p.sealVectors(zmmVectors, nil, p.text)
	p.addCarry(p.text[0])
	p.moveOn(zmmBatchSize)
	JMP(target("next"))

	// Here all of the text fits a batch.
	Label("one_batch")
	p.loadAD()
	whole := func(n int) string { return fmt.Sprintf("whole_%d", n) }
	CMPQ(p.size, operand.U32(zmmShortSize))
	JBE(target("short"))
	p.loadLong()
	p.slot0(at(p.end, 0))
	p.startLengths(p.longH1)
	p.byVectors(zmmShortVectors+1, zmmVectors, true, whole)
	for n := zmmVectors; n > 0; n-- {
		if n == zmmShortVectors {
			Label("short")
			p.slot0(at(p.key, keyShortEnd))
			p.startLengths(p.shortH1)
			p.byVectors(1, n, true, whole)
		}
		Label(whole(n))
		p.loadLast(n, true)
		if n > zmmShortVectors {
			p.rounds(n, nil)
			p.sealRest(n, true)
			run(p.hash(p.state[:n], 0))
		} else {
			// No text waits to be hashed, so its registers are free.
			h, k := p.text[:n], p.text[zmmShortVectors:]
			var folding []step
			for i := range n {
				folding = append(folding, p.loadFolding(at(p.power, i*zmmSize), h[i], k[i])...)
			}
			p.rounds(n, folding)
			p.sealRest(n, true)
			for i := range n {
				run(p.multiply(p.state[i], h[i], k[i]))
			}
		}
		JMP(target("finish"))
	}

	Label("finish_long")
	p.addLengths()
	Label("finish")
	moveWide(p.tag(), operand.Mem{Base: p.dst, Index: p.size, Scale: 1})
	p.leave()
}

// sealVectors finishes the first n vectors of the batch, which are whole:
// output goes to dst and, with its bytes reversed, to text. In batch 0 of the
// text, head is where the text of vector 0 is; elsewhere it is nil.
func (p zmm) sealVectors(n int, head reg.GPPhysical, text [zmmVectors]vec) {
	first := head != nil
	for i, x := range p.state[:n] {
		src, dst := at(p.src, textOffset(i, first)), at(p.dst, textOffset(i, first))
		if first && i == 0 {
			loadHigh(at(head, 0), p.x)
			p.lastRound(0, p.x)
			p.keepMask()
			storeHigh(x, dst)
			p.reverseFirst(x, text[0])
			continue
		}
		p.lastRound(i, src)
		moveWide(x, dst)
		VPSHUFB(p.reversal, x, text[i])
	}
}

// loadLast sets the masks, and p.last to the text of vector n-1, the last one,
// with the trailer if there is one, followed by zeros. Nothing else is read.
func (p zmm) loadLast(n int, first bool) {
	offset := textOffset(n-1, first)
	text := p.last
	if first && n == 1 {
		text = half(p.x)
	}
	p.lastMasks(offset)
	VMOVDQU8_Z(at(p.src, offset), p.inMemory, text)
	KXORQ(p.inMemory, p.all, p.trailer)
	MOVBLZX(arg("trailer"), p.t0.As32())
	VPBROADCASTB(p.t0.As32(), p.trailer, text)
	if first && n == 1 {
		loadHigh(text, p.last)
	}
}

// sealRest finishes the last n vectors of text and leaves them in p.state,
// reversed, followed by zeros.
func (p zmm) sealRest(n int, first bool) {
	var head reg.GPPhysical
	if first {
		head = p.src
	}
	p.sealVectors(n-1, head, p.state)

	i := n - 1
	x, dst := p.state[i], at(p.dst, textOffset(i, first))
	p.lastRound(i, p.last)
	if first && i == 0 {
		p.keepMask()
		storeHigh(x, half(p.x))
		VMOVDQU8(half(p.x), p.all, dst)
		KSHIFTLQ(operand.U8(zmmBefore), p.all, p.high)
		VMOVDQU8_Z(x, p.high, x)
		p.reverseFirst(x, x)
		return
	}
	VMOVDQU8(x, p.all, dst)
	VMOVDQU8_Z(x, p.all, x)
	VPSHUFB(p.reversal, x, x)
}
