package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A text's last batch is encrypted by code for its number of vectors. The last
// of these need not be whole, and no byte outside the text may be touched. So
// its text is put together in the frame, followed by zeros, before the rounds:
// a block is loaded so that it ends where the text ends, and shuffled into
// place. That takes 16 bytes of text; only texts that are shorter as a whole
// are loaded in parts.

// textSize sets p.size to p.left plus the size of the trailer: the text that is
// left, or all of it.
func (p plan) textSize(trailerSize func(to operand.Op)) {
	trailerSize(p.size)
	ADDQ(p.left, p.size)
}

// lastBlock sets p.t0 to the offset of the last block in p.size > 0 bytes, and
// p.last to how many of p.left bytes that block has.
func (p plan) lastBlock() {
	LEAQ(at(p.size, -1), p.t0)
	ANDQ(operand.I8(-blockSize), p.t0)
	MOVQ(p.left, p.last)
	SUBQ(p.t0, p.last)
}

// loadLast sets the low block of p.x0 to the last p.last bytes of size bytes
// of text at p.src, followed by zeros, and changes p.slots. At least 16 bytes
// of text must end there.
func (p plan) loadLast(size reg.GPPhysical) { p.loadBlock(p.endingAt(size)) }

func (p plan) loadBlock(m operand.Mem) {
	x := low(p.x0)
	table := p.slots // no slots are counted any more
	LEAQ(window, table)
	SUBQ(p.last, table)
	VMOVDQU(m, x)
	VPSHUFB(at(table, 32), x, x)
}

// endingAt is the block that ends with size bytes at p.src.
func (p plan) endingAt(size reg.GPPhysical) operand.Mem {
	return operand.Mem{Base: p.src, Index: size, Scale: 1, Disp: -blockSize}
}

// keepEnding keeps the block that ends with size bytes at p.src, for loadEnding.
func (p plan) keepEnding(size reg.GPPhysical) {
	move(p.endingAt(size), low(p.x0))
	move(low(p.x0), p.frame.ending)
}

// loadEnding is loadLast after batches. Where text is in place, with up to 15 bytes
// after a batch, the block begins in what that batch has just written, and loading it
// would wait for that (docs/kernels.md, Every length). So of text in one place the
// block was kept. loadEnding changes p.count too.
func (p plan) loadEnding(size reg.GPPhysical) {
	block, kept := p.count, p.slots // no slots are counted any more
	LEAQ(p.endingAt(size), block)
	LEAQ(p.frame.ending, kept)
	CMPQ(arg("s"), operand.U8(0))
	CMOVQEQ(kept, block)
	p.loadBlock(at(block, 0))
}

// loadShort is loadLast for a text of size < 16 bytes, where size is not 0
// unless empty is set. It changes p.t0, p.count and p.counter.
func (p plan) loadShort(size reg.GPPhysical, empty bool) {
	x := low(p.x0)
	lo, hi, shift := p.t0, p.counter, p.count
	ending := func(bytes int) operand.Mem {
		return operand.Mem{Base: p.src, Index: size, Scale: 1, Disp: -bytes}
	}
	four, one, none, done := newLabel("four_bytes_"), newLabel("one_byte_"), newLabel("no_bytes_"), newLabel("loaded_")

	CMPQ(size, operand.U8(8))
	JB(target(four))
	MOVQ(at(p.src, 0), lo)
	MOVQ(ending(8), hi)
	// hi = hi >> 8·(16-n), in two parts because it can be 64
	MOVL(operand.U32(15), shift.As32())
	SUBL(size.As32(), shift.As32())
	SHLL(operand.U8(3), shift.As32())
	SHRQ(reg.CL, hi)
	SHRQ(operand.U8(8), hi)
	VMOVQ(lo, x)
	VPINSRQ(operand.U8(1), hi, x, x)
	JMP(target(done))

	Label(four)
	CMPQ(size, operand.U8(4))
	JB(target(one))
	MOVL(at(p.src, 0), lo.As32())
	MOVL(ending(4), hi.As32())
	// lo = lo | hi << 8·(n-4)
	LEAL(at(size, -4), shift.As32())
	SHLL(operand.U8(3), shift.As32())
	SHLQ(reg.CL, hi)
	ORQ(hi, lo)
	VMOVQ(lo, x)
	JMP(target(done))

	Label(one)
	if empty {
		TESTQ(size, size)
		JZ(target(none))
	}
	// The first byte, the one in the middle and the last are all there are.
	MOVBLZX(at(p.src, 0), lo.As32())
	MOVL(size.As32(), shift.As32())
	SHRL(operand.U8(1), shift.As32())
	MOVBLZX(operand.Mem{Base: p.src, Index: shift, Scale: 1}, hi.As32())
	SHLL(operand.U8(3), shift.As32())
	SHLL(reg.CL, hi.As32())
	ORL(hi.As32(), lo.As32())
	MOVBLZX(ending(1), hi.As32())
	LEAL(at(size, -1), shift.As32())
	SHLL(operand.U8(3), shift.As32())
	SHLL(reg.CL, hi.As32())
	ORL(hi.As32(), lo.As32())
	VMOVQ(lo, x)
	if empty {
		JMP(target(done))
		Label(none)
		VPXOR(x, x, x)
	}
	Label(done)
}

// addTrailer puts the byte at trailer after the p.last bytes in the low block
// of p.x0. With 16 bytes there it has no effect.
func (p plan) addTrailer(trailer operand.Mem) {
	x := low(p.x1)
	MOVBLZX(trailer, p.count.As32())
	VMOVD(p.count.As32(), x)
	table := p.slots // no slots are counted any more
	LEAQ(place, table)
	SUBQ(p.last, table)
	VPSHUFB(at(table, 16), x, x)
	add(low(p.x0), x, low(p.x0))
}

// storePartial leaves the last vector in the frame: the block in p.x0, after
// the whole block before it if they share a vector. p.t0 is the last block's
// offset.
func (p plan) storePartial() {
	if p.lanes() > 1 {
		alone := newLabel("alone_")
		TESTB(operand.U8(blockSize), p.t0.As8())
		JZ(target(alone))
		before := operand.Mem{Base: p.src, Index: p.t0, Scale: 1, Disp: -blockSize}
		VMOVDQU(before, low(p.x1))
		VINSERTI128(operand.U8(1), low(p.x0), p.x1, p.x0)
		Label(alone)
	}
	move(p.x0, p.frame.partial)
}

// byVectors jumps to the label of the number of vectors, from least to most,
// that p.size bytes take.
func (p plan) byVectors(least, most int, label func(vectors int) string) {
	if least == most {
		JMP(target(label(least)))
		return
	}
	middle := (least + most) / 2
	upper := newLabel("upper_half_")
	CMPQ(p.size, operand.U32(middle*p.width))
	JHI(target(upper))
	p.byVectors(least, middle, label)
	Label(upper)
	p.byVectors(middle+1, most, label)
}
