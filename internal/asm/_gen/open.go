package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// openKernel emits the open. It has the shape of the seal, but ciphertext is
// there from the start, so each batch is hashed while it is decrypted.
func (d design) openKernel() {
	TEXT(d.name+"Open", NOSPLIT, "func("+textArguments+") (ok, last uint64)")
	p := d.plan()
	p.enter()

	runs := openRuns{walk: p.walk().withScratch(p.batchSize()), dst: p.dst, left: p.left}
	suspend := func(hash vec) {
		runs.end()
		p.suspendStream(hash)
	}

	maskAt, textAt := p.maskVector(), p.firstText()

	p.noResults()
	p.ifStream("stream")

	p.textSize(openTrailerSize)
	CMPQ(p.size, operand.U32(p.firstBatchSize()))
	JBE(target("short"))
	p.textSlots(p.size)
	p.keepEnding(p.size)

	Label("first_batch")
	p.useLongTable()
	p.startGroup()
	p.startSum(p.loadAD(), p.slot1())
	p.firstCounters(maskAt, batchVectors)
	p.rounds(p.state[maskAt:], p.hashMemory(at(p.src, -textAt*p.width), textAt, batchVectors))
	p.loadLastKey()
	move(p.lastRoundOfMask(p.state[maskAt]), p.frame.mask)
	p.cryptVectors(p.state[textAt:], 0)
	p.moveOn(p.firstBatchSize())
	p.nextBatch(suspend)

	Label("next")
	CMPQ(p.left, operand.U32(p.batchSize()))
	JB(target("run_end"))
	align()
	Label("batch")
	p.counters(0, batchVectors)
	p.rounds(p.state[:], p.hashMemory(at(p.src, 0), 0, batchVectors))
	p.loadLastKey()
	p.cryptVectors(p.state[:], 0)
	p.moveOn(p.batchSize())
	p.nextBatch(suspend)
	CMPQ(p.left, operand.U32(p.batchSize()))
	JAE(target("batch"))

	Label("run_end")
	runs.next(p.batchSize(), "next")

	// Here less than a batch is left.
	p.textSize(openTrailerSize)
	TESTQ(p.size, p.size)
	JZ(target("finish"))
	p.lastBlock()
	p.loadLastOfAll(p.loadEnding)
	p.storePartial()
	restLabel := func(n int) string { return fmt.Sprintf("rest_%d", n) }
	p.byVectors(1, batchVectors, restLabel)
	for n := 1; n <= batchVectors; n++ {
		Label(restLabel(n))
		p.counters(0, n)
		p.rounds(p.state[:n], p.hashRest(n))
		p.openRest(p.state[:n])
		JMP(target("finish"))
	}

	Label("stream")
	runs.begin(p.t0)
	p.streamSlots()
	CMPL(at(p.t0, streamCounter), operand.U8(0))
	JNE(target("continue"))
	ADDQ(operand.U8(2), p.slots)
	CMPQ(p.left, operand.U32(p.firstBatchSize()))
	JAE(target("first_batch"))
	runs.start(p.firstBatchSize())
	JMP(target("first_batch"))
	Label("continue")
	p.continueStream()
	JMP(target("next"))

	Label("short")
	p.shortPower()
	p.startPlain(p.loadAD(), p.slot1())
	TESTQ(p.size, p.size)
	JZ(target("short_0"))
	p.lastBlock()
	CMPQ(p.size, operand.U8(blockSize))
	JB(target("short_block"))
	p.loadLastOfAll(p.loadLast)
	JMP(target("short_loaded"))
	Label("short_block")
	p.loadShort(p.size, false)
	XORL(p.t0.As32(), p.t0.As32()) // the last block is the first
	Label("short_loaded")
	p.storePartial()
	shortLabel := func(n int) string { return fmt.Sprintf("short_%d", n) }
	p.byVectors(1, batchVectors-textAt, shortLabel)
	for n := 0; n <= batchVectors-textAt; n++ {
		Label(shortLabel(n))
		p.firstCounters(maskAt, textAt+n)
		p.rounds(p.state[maskAt:textAt+n], p.hashShort(n))
		p.loadLastKey()
		p.lastRoundOfMask(p.state[maskAt])
		if n > 0 {
			p.openRest(p.state[textAt : textAt+n])
		}
		if n < batchVectors-textAt {
			JMP(target("finish_short"))
		}
	}

	// finish compares whole tags, in a time that does not depend on them.
	finish := func(tagMask operand.Op, erase ...operand.Mem) {
		x := p.tag(tagMask)
		add(x, operand.Mem{Base: p.src, Index: p.size, Scale: 1}, x)
		XORL(p.t0.As32(), p.t0.As32())
		VPTEST(x, x)
		SETEQ(p.t0.As8())
		MOVQ(p.t0, result("ok"))
		p.leave(erase...)
	}
	Label("finish_short")
	finish(low(p.state[maskAt]), p.frame.partial)
	Label("finish")
	runs.end()
	p.sum.plainMiddle(p.term)
	finish(p.frame.mask, p.frame.all...)
}

// loadLastOfAll calls load, which is loadLast or loadEnding, for the last of
// p.size bytes at p.src, the trailer included.
func (p plan) loadLastOfAll(load func(size reg.GPPhysical)) {
	MOVQ(p.size, p.last)
	SUBQ(p.t0, p.last)
	load(p.size)
	// How many of p.left bytes the last block has.
	MOVQ(p.left, p.last)
	SUBQ(p.t0, p.last)
}

// restVector is the memory of vector i of the last n, of which the last one is
// in the frame.
func (p plan) restVector(i, n int) operand.Mem {
	if i == n-1 {
		return p.frame.partial
	}
	return at(p.src, i*p.width)
}

// hashRest adds the last n vectors of text to the sum.
func (p plan) hashRest(n int) []step {
	var steps []step
	power := func(i int) operand.Mem { return at(p.power, i*p.width) }
	for i := 0; i < n; i += 2 {
		steps = append(steps, p.load(p.restVector(i, n), p.x0)...)
		if i+1 == n {
			steps = append(steps, p.mul(p.x0, power(i))...)
			break
		}
		steps = append(steps, p.load(p.restVector(i+1, n), p.x1)...)
		steps = append(steps, p.mulPair(p.x0, p.x1, power(i))...)
	}
	return steps
}

// hashShort adds the n vectors of a short text to the sum.
func (p plan) hashShort(n int) []step {
	var steps []step
	for i := range n {
		steps = append(steps, p.load(p.restVector(i, n), p.x0)...)
		steps = append(steps, p.mulPlain(p.x0, at(p.power, (p.firstText()+i)*p.width))...)
	}
	return steps
}

// openRest finishes the last p.size bytes of text. The first p.left of them go
// to dst, and one more is a result if there is a trailer.
//
// Nothing past these bytes is written. The last block is stored so that it ends where
// they end: it is shuffled into place and joined to the bytes before it, which are
// there already. Those come from the register of the block before, because loading them
// would wait for that block's store, 8 ns on Zen 3. This takes 16 bytes of text in dst;
// only texts that are shorter as a whole are stored in parts.
func (p plan) openRest(state []vec) {
	p.loadLastKey()
	n := len(state) - 1
	p.cryptVectors(state[:n], 0)

	x := state[n]
	p.lastRound(x, p.frame.partial)
	block, before := low(x), low(p.x1)
	if n > 0 {
		before = low(state[n-1])
	}
	if p.lanes() > 1 {
		if n > 0 {
			highBlock(state[n-1], before)
		}
		alone := newLabel("alone_")
		LEAQ(at(p.size, -1), p.t0)
		TESTB(operand.U8(blockSize), p.t0.As8())
		JZ(target(alone))
		move(block, at(p.dst, n*p.width))
		move(block, before)
		highBlock(x, block)
		Label(alone)
	}
	move(block, p.frame.partial)

	stored := newLabel("stored_")
	end := func(bytes int) operand.Mem {
		return operand.Mem{Base: p.dst, Index: p.left, Scale: 1, Disp: -bytes}
	}
	if n == 0 {
		whole := newLabel("whole_")
		CMPQ(p.left, operand.U8(blockSize))
		JAE(target(whole))
		p.storeShort(stored)
		Label(whole)
	}
	LEAQ(window, p.t0)
	ADDQ(p.last, p.t0)
	VPSHUFB(at(p.t0, 0), block, block)
	VPSHUFB(at(p.t0, blockSize), before, before)
	add(block, before, block)
	VMOVDQU(block, end(blockSize))
	Label(stored)

	noTrailer := newLabel("no_trailer_")
	CMPQ(arg("trailer"), operand.U8(0))
	JE(target(noTrailer))
	MOVBLZX(p.frame.partial.Idx(p.last, 1), p.t0.As32())
	MOVQ(p.t0, result("last"))
	Label(noTrailer)
}

// storeShort stores the first p.left < 16 bytes of the block in the frame to
// dst, where more than that may not exist, and jumps to done.
func (p plan) storeShort(done string) {
	block := p.frame.partial
	copyAt := func(m, to operand.Mem, r operand.Op, mov func(a, b operand.Op)) {
		mov(m, r)
		mov(r, to)
	}
	end := func(bytes int) operand.Mem {
		return operand.Mem{Base: p.dst, Index: p.left, Scale: 1, Disp: -bytes}
	}
	blockEnd := func(bytes int) operand.Mem {
		return block.Offset(-bytes).Idx(p.left, 1)
	}
	four, one := newLabel("four_bytes_"), newLabel("one_byte_")

	CMPQ(p.left, operand.U8(8))
	JB(target(four))
	copyAt(block, at(p.dst, 0), p.t0, MOVQ)
	copyAt(blockEnd(8), end(8), p.t0, MOVQ)
	JMP(target(done))

	Label(four)
	CMPQ(p.left, operand.U8(4))
	JB(target(one))
	copyAt(block, at(p.dst, 0), p.t0.As32(), MOVL)
	copyAt(blockEnd(4), end(4), p.t0.As32(), MOVL)
	JMP(target(done))

	Label(one)
	TESTQ(p.left, p.left)
	JZ(target(done))
	// The first byte, the one in the middle and the last are all there are.
	copyAt(block, at(p.dst, 0), p.t0.As8(), MOVB)
	MOVQ(p.left, p.count)
	SHRQ(operand.U8(1), p.count)
	MOVB(block.Idx(p.count, 1), p.t0.As8())
	MOVB(p.t0.As8(), operand.Mem{Base: p.dst, Index: p.count, Scale: 1})
	copyAt(blockEnd(1), end(1), p.t0.As8(), MOVB)
	JMP(target(done))
}
