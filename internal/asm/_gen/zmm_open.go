package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// openKernel emits the open. It has the shape of the seal, but ciphertext is
// there from the start, so each batch is hashed while it is decrypted. Each byte
// of it is read once.
func (p zmm) openKernel() {
	TEXT("avx512Open", NOSPLIT, "func("+textArguments+") (ok, last uint64)")
	frame := AllocLocal(zmmSize)
	runs := openRuns{walk: p.walk().withScratch(zmmBatchSize), dst: p.dst, left: p.left}
	p.enter()

	p.noResults()
	p.ifStream("stream")
	p.textSize(openTrailerSize)
	CMPQ(p.size, operand.U32(zmmFirstBatchSize))
	JBE(target("one_batch"))
	p.textSlots(p.size)

	Label("first_batch")
	p.loadLong()
	p.startGroup()
	p.loadAD()
	LEAQ(deltas, p.deltas)
	XORL(p.batch.As32(), p.batch.As32())
	addWide(p.carry, p.carry, p.carry)
	p.loadText(zmmVectors, true)
	p.rounds(zmmVectors, append(p.nextCounters(), p.hashText(zmmVectors, true, p.mul)...))
	p.openVectors(zmmVectors, true)
	p.moveOn(zmmFirstBatchSize)
	JMP(target("hashed"))

	align()
	Label("batch")
	p.loadText(zmmVectors, false)
	p.rounds(zmmVectors, append(p.nextCounters(), p.hashText(zmmVectors, false, p.mul)...))
	p.openVectors(zmmVectors, false)
	p.moveOn(zmmBatchSize)
	Label("hashed")
	ADDQ(operand.U32(zmmBatchSize), p.power)
	CMPQ(p.power, p.end)
	JE(target("group_end"))
	Label("next")
	CMPQ(p.left, operand.U32(zmmBatchSize))
	JAE(target("batch"))
	runs.next(zmmBatchSize, "next")

	// Here less than a batch is left, and everything before it is hashed.
	p.textSize(openTrailerSize)
	TESTQ(p.size, p.size)
	JZ(target("finish_long"))
	rest := func(n int) string { return fmt.Sprintf("rest_%d", n) }
	p.byVectors(1, zmmVectors, false, rest)
	for n := zmmVectors; n > 0; n-- {
		Label(rest(n))
		p.loadRest(n, false)
		p.rounds(n, p.hashText(n, false, p.mul))
		p.openRest(n, false, frame)
		JMP(target("finish_long"))
	}

	// A call that does not end the text ends with a group.
	Label("group_end")
	moveWide(p.reduce(), block(p.carry))
	TESTQ(p.slots, p.slots)
	JZ(target("suspend"))
	p.startGroup()
	JMP(target("next"))
	Label("suspend")
	runs.end()
	p.suspendStream(block(p.carry))

	Label("stream")
	runs.begin(p.t0)
	p.streamSlots()
	CMPL(at(p.t0, streamCounter), operand.U8(0))
	JNE(target("continue"))
	ADDQ(operand.U8(2), p.slots)
	CMPQ(p.left, operand.U32(zmmFirstBatchSize))
	JAE(target("first_batch"))
	runs.start(zmmFirstBatchSize)
	JMP(target("first_batch"))
	Label("continue")
	p.continueStream()
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
		p.loadRest(n, true)
		multiply := p.mul
		if n <= zmmShortVectors {
			multiply = p.mulFolding
		}
		p.rounds(n, p.hashText(n, true, multiply))
		p.openRest(n, true, frame)
		JMP(target("finish"))
	}

	Label("finish_long")
	runs.n = p.deltas // free by now; size is not
	runs.end()
	p.addLengths()
	// Whole tags are compared, in a time that does not depend on them.
	Label("finish")
	x := p.tag()
	addWide(x, operand.Mem{Base: p.src, Index: p.size, Scale: 1}, x)
	XORL(p.t0.As32(), p.t0.As32())
	VPTEST(x, x)
	SETEQ(p.t0.As8())
	MOVQ(p.t0, result("ok"))
	p.leave()
}

// loadText sets p.text to the first n vectors of the batch, which are whole.
func (p zmm) loadText(n int, first bool) {
	for i, x := range p.text[:n] {
		src := at(p.src, textOffset(i, first))
		if first && i == 0 {
			loadHigh(src, x)
			continue
		}
		moveWide(src, x)
	}
}

// hashText adds n vectors of text to the sum. multiply is mul or mulFolding.
func (p zmm) hashText(n int, first bool, multiply func(x vec, power operand.Mem) []step) (steps []step) {
	for i, x := range p.text[:n] {
		switch {
		case i > 0:
			steps = append(steps, func() { VPSHUFB(p.reversal, x, p.x) })
		case first:
			steps = append(steps, func() { p.reverseFirst(x, p.x) })
		default:
			steps = append(steps,
				func() { VPSHUFB(p.reversal, x, p.x) },
				func() { p.addCarry(p.x) })
		}
		steps = append(steps, multiply(p.x, at(p.power, i*zmmSize))...)
	}
	return steps
}

// openVectors finishes the first n vectors of the batch, which are whole.
func (p zmm) openVectors(n int, first bool) {
	for i, x := range p.state[:n] {
		dst := at(p.dst, textOffset(i, first))
		p.lastRound(i, p.text[i])
		if first && i == 0 {
			p.keepMask()
			storeHigh(x, dst)
			continue
		}
		moveWide(x, dst)
	}
}

// loadRest sets the masks, and p.text to the last n vectors of text, with the
// trailer, followed by zeros. Nothing else is read.
func (p zmm) loadRest(n int, first bool) {
	p.loadText(n-1, first)
	offset := textOffset(n-1, first)
	p.lastMasks(offset)
	src, x := at(p.src, offset), p.text[n-1]
	if first && n == 1 {
		VMOVDQU8_Z(src, p.all, half(p.last))
		loadHigh(half(p.last), x)
		return
	}
	VMOVDQU8_Z(src, p.all, x)
}

// openRest finishes the last n vectors of text. The trailer goes to the result
// and not to dst.
func (p zmm) openRest(n int, first bool, frame operand.Mem) {
	p.openVectors(n-1, first)
	i := n - 1
	x, offset := p.state[i], textOffset(i, first)
	p.lastRound(i, p.text[i])
	if first && i == 0 {
		p.keepMask()
		storeHigh(x, half(p.x))
		x = half(p.x)
	}
	VMOVDQU8(x, p.inMemory, at(p.dst, offset))

	noTrailer := newLabel("no_trailer_")
	CMPQ(arg("trailer"), operand.U8(0))
	JE(target(noTrailer))
	moveWide(x, frame)
	MOVBLZX(frame.Offset(-offset).Idx(p.left, 1), reg.EAX)
	MOVQ(reg.RAX, result("last"))
	addWide(p.x, p.x, p.x)
	moveWide(p.x, frame)
	Label(noTrailer)
}
