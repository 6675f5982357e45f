package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Only VEX forms are used, so that no call mixes them with legacy SSE, and only
// registers 0 to 15, whose YMM halves need no AVX-512.

type vec = reg.VecPhysical

// sized returns the register of the design's width.
func (d design) sized(r vec) vec {
	if d.width == 16 {
		return r.AsX().(vec)
	}
	return r.AsY().(vec)
}

// low returns the lowest block of r.
func low(r vec) vec { return r.AsX().(vec) }

// move copies a whole vector from or to memory, or between registers of one width.
func move(from, to operand.Op) { VMOVDQU(from, to) }

// everyLane loads the block at m into every lane of r.
func (d design) everyLane(m operand.Mem, r vec) {
	if d.width == 16 {
		VMOVDQU(m, r)
		return
	}
	VBROADCASTI128(m, r)
}

// highBlock sets to, 16 bytes, to the high block of a 32-byte vector.
func highBlock(r, to vec) { VEXTRACTI128(operand.U8(1), r, to) }

// loadHalves loads a block from two arguments of 8 bytes each. They were just
// written, and a load wider than their stores would wait for the cache.
func loadHalves(lo, hi operand.Mem, x vec) {
	VMOVQ(lo, x)
	VPINSRQ(operand.U8(1), hi, x, x)
}

// clearVector sets r, and what is above it in its register, to zeros.
func clearVector(r vec) { VPXOR(r, r, r) }

// add sets sum to a + b in the field, which is their XOR.
func add(a, b, sum operand.Op) { VPXOR(b, a, sum) }

// leave ends a kernel. It leaves no secret in a register, nor in the given places
// in memory, each as wide as a vector, which it fills with zeros: what calls the kernel
// does not know that they were used. Dirty upper halves would slow down code that uses
// legacy SSE, which is what the Go compiler emits.
func (d design) leave(erase ...operand.Mem) {
	for _, r := range vectors {
		clearVector(low(r))
	}
	for _, m := range erase {
		move(d.sized(vectors[0]), m)
	}
	if d.width > 16 {
		VZEROUPPER()
	}
	RET()
}

// align makes the next instruction, a loop's first, start a fetch block.
func align() {
	Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []operand.Op{operand.U8(32)}})
}

// at returns the memory n bytes past base.
func at(base reg.Register, n int) operand.Mem { return operand.Mem{Base: base, Disp: n} }

// labels gives every label its own number; the names say what is there.
var labels int

func newLabel(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}

func target(label string) operand.LabelRef { return operand.LabelRef(label) }
