package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
)

// arg is the memory of an argument.
func arg(name string) operand.Mem { return address(Param(name)) }

// result is the memory of a result.
func result(name string) operand.Mem { return address(Return(name)) }

func address(c gotypes.Component) operand.Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// textArguments are the arguments that seal and open share.
const textArguments = "k, long *byte, dst, src *byte, size, trailer, nonceLo, nonceHi, adLo, adHi, adBits, textBits uint64, s *byte"

// sealTrailerSize sets to to the size of a seal's trailer, 0 or 1.
func sealTrailerSize(to operand.Op) {
	MOVQ(arg("trailer"), to)
	SHRQ(operand.U8(trailerFlagBit), to)
}

// openTrailerSize is sealTrailerSize for an open, whose argument is that size.
func openTrailerSize(to operand.Op) { MOVQ(arg("trailer"), to) }

// enter loads what every call needs.
func (p *plan) enter() {
	locals := AllocLocal(line + line - 8)
	LEAQ(locals.Offset(line-8), p.aligned)
	ANDQ(operand.I8(-line), p.aligned)
	p.frame = frame{
		partial: at(p.aligned, 0),
		mask:    at(p.aligned, p.width),
		ending:  at(p.aligned, p.width+blockSize),
		end:     AllocLocal(8),
	}
	for i := 0; i < p.width+2*blockSize; i += p.width {
		p.frame.all = append(p.frame.all, at(p.aligned, i))
	}
	p.loadArguments()
	p.loadNonce(arg("nonceLo"), arg("nonceHi"))
}

// leave ends a kernel as design.leave does. General-purpose registers hold text where
// it is moved in parts: t0, count and, in loadShort, counter. firstCounters overwrites
// counter; the other two are cleared here.
func (p plan) leave(erase ...operand.Mem) {
	XORL(p.t0.As32(), p.t0.As32())
	XORL(p.count.As32(), p.count.As32())
	p.design.leave(erase...)
}

// loadAD returns the block of additional data, which is slot 1.
func (p plan) loadAD() vec {
	x := low(p.x0)
	loadHalves(arg("adLo"), arg("adHi"), x)
	return x
}

// slot1 is the power of slot 1, when p.power is that of slot 0.
func (p plan) slot1() operand.Mem { return at(p.power, blockSize) }

// longTable sets to to the address just after H¹ in the table for long texts.
func (p plan) longTable(to operand.Op) {
	MOVQ(arg("long"), to)
	ADDQ(operand.U32(longEnd), to)
}

// useLongTable prepares for startGroup.
func (p plan) useLongTable() {
	p.longTable(p.power)
	MOVQ(p.power, p.frame.end)
}

// shortPower sets p.power for a text of p.size bytes that is sealed or opened in
// one batch: slot 0 has the power ⌈p.size/16⌉ + 3. The longest such texts need
// the table for long texts.
func (p plan) shortPower() {
	LEAQ(at(p.key, keyShortEnd), p.power)
	if p.shortSize() < p.firstBatchSize() {
		p.longTable(p.t0)
		CMPQ(p.size, operand.U32(p.shortSize()))
		CMOVQHI(p.t0, p.power)
	}
	LEAQ(at(p.size, blockSize-1+3*blockSize), p.t0)
	ANDQ(operand.I8(-blockSize), p.t0)
	SUBQ(p.t0, p.power)
}

// continueStream takes up the counter, mask and hash of stream p.t0.
func (p plan) continueStream() {
	MOVL(at(p.t0, streamCounter), p.counter.As32())
	move(at(p.t0, streamMask), low(p.x0))
	move(low(p.x0), p.frame.mask)
	move(at(p.t0, streamHash), low(p.x1))
	p.useLongTable()
	p.startGroup()
	p.startSum(low(p.x1), at(p.power, 0))
}

// suspendStream saves mask and hash in the stream and leaves.
func (p plan) suspendStream(hash vec) {
	MOVQ(arg("s"), p.t0)
	move(hash, at(p.t0, streamHash))
	move(p.frame.mask, low(p.x0))
	move(low(p.x0), at(p.t0, streamMask))
	p.leave(p.frame.all...)
}

// walk is what a walk over pieces uses of p.
func (p plan) walk() walk {
	w := newWalk()
	w.most = p.batchSize()
	w.x, w.t, w.n, w.from = p.state[0], p.count, p.taken, p.t0
	return w
}

// cryptVectors finishes vectors that are all text, from the given one on:
// state[i] is added to the text at src, and the sum goes to dst, at offset 0
// for vector 0.
func (p plan) cryptVectors(state []vec, from int) {
	for i := from; i < len(state); i++ {
		x := state[i]
		p.lastRound(x, at(p.src, i*p.width))
		move(x, at(p.dst, i*p.width))
	}
}

// tag returns the register with the tag: the hash, with the block of lengths,
// plus the mask E(J₀).
func (p plan) tag(mask operand.Op) vec {
	p.addLanes()
	p.addLengths(arg("textBits"), arg("adBits"))
	x := p.reduce()
	VPSHUFB(reversal, x, x)
	add(x, mask, x)
	return x
}

// sealKernel emits the seal. Hashing is one batch behind: while a batch is
// encrypted, the one before it is read back from the output and hashed. So
// neither waits for the other.
func (d design) sealKernel() {
	TEXT(d.name+"Seal", NOSPLIT, "func("+textArguments+")")
	p := d.plan()
	p.enter()

	runs := sealRuns{walk: p.walk(), src: p.src, dst: p.dst, left: p.left, head: p.head}

	maskAt, textAt := p.maskVector(), p.firstText()

	p.ifStream("stream")

	p.textSize(sealTrailerSize)
	CMPQ(p.size, operand.U32(p.firstBatchSize()))
	JBE(target("short"))
	p.textSlots(p.size)
	p.keepEnding(p.left)
	MOVQ(p.src, runs.head)

	// encrypt emits a batch, with steps woven in.
	encrypt := func(steps []step) {
		p.counters(0, batchVectors)
		p.rounds(p.state[:], steps)
		p.loadLastKey()
		p.cryptVectors(p.state[:], 0)
		p.moveOn(p.batchSize())
	}
	// finish writes the tag after the last p.size bytes of text, and leaves.
	finish := func(tagMask operand.Op, erase ...operand.Mem) {
		ADDQ(p.size, p.dst)
		move(p.tag(tagMask), at(p.dst, 0))
		p.leave(erase...)
	}
	// batchBehind is where the batch before dst is.
	batchBehind := at(p.dst, -p.batchSize())

	Label("first_batch")
	p.useLongTable()
	p.startGroup()
	p.startSum(p.loadAD(), p.slot1())
	p.firstCounters(maskAt, batchVectors)
	p.rounds(p.state[maskAt:], nil)
	p.loadLastKey()
	move(p.lastRoundOfMask(p.state[maskAt]), p.frame.mask)
	p.lastRound(p.state[textAt], at(runs.head, 0))
	move(p.state[textAt], at(p.dst, 0))
	p.cryptVectors(p.state[textAt:], 1)
	p.moveOn(p.firstBatchSize())

	Label("second_batch")
	CMPQ(p.left, operand.U32(p.batchSize()))
	JAE(target("second_batch_whole"))
	runs.next(p.batchSize(), "second_batch")
	JMP(target("rest"))
	Label("second_batch_whole")
	encrypt(p.hashMemory(batchBehind, textAt, batchVectors))
	p.nextBatch(nil)

	Label("next")
	CMPQ(p.left, operand.U32(p.batchSize()))
	JB(target("run_end"))
	align()
	Label("batch")
	encrypt(p.hashMemory(batchBehind, 0, batchVectors))
	p.nextBatch(nil)
	CMPQ(p.left, operand.U32(p.batchSize()))
	JAE(target("batch"))

	Label("run_end")
	runs.next(p.batchSize(), "next")
	// The slots that batch 0 has no text in; see rest.
	run(p.hashMemory(batchBehind, 0, textAt))

	// Here less than a batch is left, and the last batch is not hashed yet,
	// except for the slots that are not text in batch 0.
	Label("rest")
	behind := p.hashMemory(batchBehind, textAt, batchVectors)
	p.textSize(sealTrailerSize)
	TESTQ(p.size, p.size)
	JZ(target("rest_0"))
	p.lastBlock()
	p.loadEnding(p.left)
	p.addTrailer(arg("trailer"))
	p.storePartial()
	restLabel := func(n int) string { return fmt.Sprintf("rest_%d", n) }
	p.byVectors(1, batchVectors, restLabel)
	for n := 1; n <= batchVectors; n++ {
		Label(restLabel(n))
		p.counters(0, n)
		p.rounds(p.state[:n], behind)
		ADDQ(operand.U32(p.batchSize()), p.power)
		p.sealRest(p.state[:n])
		run(p.hashVectors(p.state[:n]))
		JMP(target("finish"))
	}

	Label("rest_0")
	run(behind)
	MOVQ(arg("s"), p.t0)
	TESTQ(p.t0, p.t0)
	JZ(target("finish"))
	CMPQ(at(p.t0, streamFinal), operand.U8(0))
	JNE(target("finish"))
	p.suspendStream(p.reduceGroup())

	Label("stream")
	runs.begin(p.t0)
	p.streamSlots()
	CMPL(at(p.t0, streamCounter), operand.U8(0))
	JNE(target("continue"))
	ADDQ(operand.U8(2), p.slots)
	runs.start(p.firstBatchSize(), "first_batch")
	Label("continue")
	p.continueStream()
	CMPQ(p.left, operand.U32(p.batchSize()))
	JAE(target("continue_whole"))
	runs.fill(p.batchSize())
	Label("continue_whole")
	encrypt(nil)
	JMP(target("next"))

	Label("short")
	p.shortPower()
	p.startPlain(p.loadAD(), p.slot1())
	TESTQ(p.size, p.size)
	JZ(target("short_0"))
	p.lastBlock()
	CMPQ(p.left, operand.U8(blockSize))
	JB(target("short_block"))
	p.loadLast(p.left)
	JMP(target("short_loaded"))
	Label("short_block")
	p.loadShort(p.left, true)      // with a trailer alone there is no text
	XORL(p.t0.As32(), p.t0.As32()) // the last block is the first
	Label("short_loaded")
	p.addTrailer(arg("trailer"))
	p.storePartial()
	shortLabel := func(n int) string { return fmt.Sprintf("short_%d", n) }
	p.byVectors(1, batchVectors-textAt, shortLabel)
	for n := 0; n <= batchVectors-textAt; n++ {
		Label(shortLabel(n))
		p.firstCounters(maskAt, textAt+n)
		p.rounds(p.state[maskAt:textAt+n], nil)
		p.loadLastKey()
		p.lastRoundOfMask(p.state[maskAt])
		p.sealRest(p.state[textAt : textAt+n])
		for i := range n {
			run(p.mulPlain(p.state[textAt+i], at(p.power, (textAt+i)*p.width)))
		}
		if n < batchVectors-textAt {
			JMP(target("finish_short"))
		}
	}

	Label("finish_short")
	finish(low(p.state[maskAt]), p.frame.partial) // nothing else is in the frame
	Label("finish")
	p.sum.plainMiddle(p.term)
	finish(p.frame.mask, p.frame.all...)
}

// sealRest finishes the last p.size bytes of text and leaves them in state for
// hashing, reversed, followed by zeros.
//
// The last vector is stored as whole blocks: the tag will be written over the
// excess.
func (p plan) sealRest(state []vec) {
	if len(state) == 0 {
		return
	}
	p.loadLastKey()
	n := len(state) - 1
	p.cryptVectors(state[:n], 0)

	x := state[n]
	p.lastRound(x, p.frame.partial)
	move(low(x), at(p.dst, n*p.width))
	if p.lanes() > 1 {
		alone := newLabel("alone_")
		LEAQ(at(p.size, -1), p.t0)
		TESTB(operand.U8(blockSize), p.t0.As8())
		JZ(target(alone))
		VEXTRACTI128(operand.U8(1), x, at(p.dst, n*p.width+blockSize))
		Label(alone)
	}
	LEAQ(keep, p.t0)
	SUBQ(p.size, p.t0)
	VPAND(at(p.t0, 32+n*p.width), x, x)

	for _, x := range state {
		VPSHUFB(reversal, x, x)
	}
}
