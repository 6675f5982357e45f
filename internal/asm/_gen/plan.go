package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A design is what distinguishes the kernels that this generator makes: the
// width of their vectors and the numbers that follow from it or were measured.
type design struct {
	// name is the backend's name and the prefix of its kernels.
	name string

	// width is the size of a vector in bytes, 16 or 32. In avx512 it is 64, for the
	// tables of constants; all else there has a plan of its own, zmm.
	width int

	// groupBatches is the number of batches between two reductions of the
	// hash, once a key has its table. Fewer cost reductions, more cost powers in
	// the cache.
	groupBatches int
}

var (
	// aesni uses 16-byte vectors only, and reduces once per 6 batches of 8
	// blocks.
	aesni = design{name: "aesni", width: 16, groupBatches: 6}

	// vaes uses 32-byte vectors, and reduces once per 3 batches of 16 blocks.
	vaes = design{name: "vaes", width: 32, groupBatches: 3}
)

// batchVectors is the number of vectors that are encrypted together. AES has a
// latency of 3 or 4 cycles and a throughput of 2 a cycle, so 8 keep it busy.
// All 16 registers are in use then; see plan.
const batchVectors = 8

const blockSize = 16

// lanes is the number of blocks in a vector.
func (d design) lanes() int { return d.width / blockSize }

// batchBlocks is the number of blocks, or slots, in a batch.
func (d design) batchBlocks() int { return batchVectors * d.lanes() }

// batchSize is the number of bytes in a batch.
func (d design) batchSize() int { return batchVectors * d.width }

// firstText is the first vector of batch 0 that holds text. Slots 0 and 1 come
// before it: two vectors of one block each, or one vector of two.
func (d design) firstText() int { return 2 / d.lanes() }

// firstBatchSize is the number of bytes of text in batch 0.
func (d design) firstBatchSize() int { return d.batchSize() - 2*blockSize }

// groupBlocks is the number of slots that a whole group covers.
func (d design) groupBlocks() int { return d.groupBatches * d.batchBlocks() }

// plan is the register plan of the seal and open kernels.
//
// All 16 vector registers are in use while a batch is encrypted, so what lives
// longer than that and is used rarely stays in the frame. R14 is the runtime's
// g, R15 is lost where the code is linked dynamically, BP and SP are the stack.
type plan struct {
	design

	// state[i] is vector i of the batch: in turn its counter blocks, the state
	// of its AES rounds, and its output. Scratch between batches.
	state [batchVectors]reg.VecPhysical

	// roundKey is the round key in use, in every lane. Scratch between rounds.
	roundKey reg.VecPhysical

	// sum is the sum of products that are not reduced yet; kept.
	sum product

	// x0 and x1 are two vectors that are being hashed; scratch.
	x0, x1 reg.VecPhysical

	// halves and term are scratch of one multiplication.
	halves, term reg.VecPhysical

	position
	aligned reg.GPPhysical // kept: the aligned part of the frame
	counter reg.GPPhysical // kept: counter of the next batch's slot 0

	// One register with three uses. taken is of use only while text is moved, head
	// from then until batch 0 has read it, and last after all batches.
	taken reg.GPPhysical // bytes of a piece that are moved
	head  reg.GPPhysical // where batch 0 of a seal reads its first vector of text
	last  reg.GPPhysical // bytes of p.left in the last block, 0 to 16

	count reg.GPPhysical // scratch, and shift count
	size  reg.GPPhysical // from textSize on: bytes of text left, with the trailer

	frame frame
}

// position is the part of a plan that the kernels of all backends share: where
// a call is in its text. Its code does not depend on how wide vectors are.
type position struct {
	key   reg.GPPhysical // input; kept: the Key
	dst   reg.GPPhysical // input; kept: where the next output goes
	src   reg.GPPhysical // input; kept: where the next text comes from
	left  reg.GPPhysical // input; kept: bytes of text from src that are left
	power reg.GPPhysical // kept: the power of H of the next slot to hash
	slots reg.GPPhysical // kept: slots from the next one to hash to the last; in avx512 those after this group
	t0    reg.GPPhysical // scratch
}

// textPosition is the position of every kernel. The other registers of a plan must be
// different ones.
var textPosition = position{
	key:   reg.R8,
	dst:   reg.RDI,
	src:   reg.RSI,
	left:  reg.RDX,
	power: reg.RBX,
	slots: reg.R10,
	t0:    reg.RAX,
}

// loadArguments loads the arguments that stay in registers.
func (p position) loadArguments() {
	MOVQ(arg("k"), p.key)
	MOVQ(arg("dst"), p.dst)
	MOVQ(arg("src"), p.src)
	MOVQ(arg("size"), p.left)
}

// ifStream jumps to label if the text is a stream, whose address is then in p.t0.
func (p position) ifStream(label string) {
	MOVQ(arg("s"), p.t0)
	TESTQ(p.t0, p.t0)
	JNZ(target(label))
}

// noResults sets the results of an open that does not end its text.
func (p position) noResults() {
	XORL(p.t0.As32(), p.t0.As32())
	MOVQ(p.t0, result("ok"))
	MOVQ(p.t0, result("last"))
}

// textSlots sets p.slots for a text of size bytes in one call: slots 0 and 1, the
// text, the lengths.
func (p position) textSlots(size reg.GPPhysical) {
	LEAQ(at(size, blockSize-1+3*blockSize), p.slots)
	SHRQ(operand.U8(4), p.slots)
}

// streamSlots sets p.slots for the text of this call of stream p.t0, with the block of
// lengths if the text ends here, but without slots 0 and 1.
func (p position) streamSlots() {
	// slots = ⌈size/16⌉ + final: only a last call's size is no multiple of 16
	MOVQ(at(p.t0, streamSize), p.slots)
	ADDQ(operand.U8(blockSize-1), p.slots)
	SHRQ(operand.U8(4), p.slots)
	ADDQ(at(p.t0, streamFinal), p.slots)
}

// moveOn steps over n bytes of text.
func (p position) moveOn(n int) {
	ADDQ(operand.U32(n), p.src)
	ADDQ(operand.U32(n), p.dst)
	SUBQ(operand.U32(n), p.left)
}

// frame is what the kernels keep in memory.
//
// The vectors are in a cache line of their own: where one crosses from a line
// to the next, a load soon after its store waits for the cache (docs/kernels.md,
// Arguments and calls). The stack is aligned to 8 bytes only, so a register
// holds the line's address.
type frame struct {
	partial operand.Mem // a vector: the last text, then zeros
	mask    operand.Mem // E(J₀), which the hash is added to
	ending  operand.Mem // the last block of a long text in one place, kept before any output

	// all is these as whole vectors, which are secret and erased at the end.
	all []operand.Mem

	end operand.Mem // address just after H¹ in the table in use
}

var vectors = [16]reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
	reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
}

func (d design) plan() plan {
	v := func(i int) reg.VecPhysical { return d.sized(vectors[i]) }
	p := plan{
		design:   d,
		roundKey: v(8),
		sum:      product{lo: v(9), mid: v(10), hi: v(11)},
		x0:       v(12),
		x1:       v(13),
		halves:   v(14),
		term:     v(15),

		position: textPosition,
		aligned:  reg.R9,
		counter:  reg.R11,
		taken:    reg.R13,
		head:     reg.R13,
		last:     reg.R13,
		count:    reg.RCX,
		size:     reg.R12,
	}
	for i := range p.state {
		p.state[i] = v(i)
	}
	return p
}
