package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The files zmm_*.go make the backend avx512, whose vectors have 64 bytes. Its
// mathematics is that of doc.go. What differs: a batch is four vectors, of 16 slots
// together as for vaes; counters go from batch to batch (zmm_crypt.go); products are
// made with folded powers (zmm_ghash.go); a batch of ciphertext waits to be hashed in
// registers; and masks make tails short.
//
// There are 32 vector registers, so nothing has to live in memory: neither the
// counter blocks nor the batch of ciphertext that waits to be hashed.

// avx512 is the design of this backend, for what it shares with other backends:
// tables of constants.
var avx512 = design{name: "avx512", width: 64}

const (
	zmmSize    = 64
	zmmLanes   = zmmSize / blockSize
	zmmVectors = 4 // in a batch: VAESENC has a latency of 3 cycles and a throughput of 1

	zmmBatchBlocks    = zmmVectors * zmmLanes
	zmmBatchSize      = zmmVectors * zmmSize
	zmmFirstBatchSize = zmmBatchSize - zmmBefore

	// zmmBefore is the size of slots 0 and 1, which come before the text: lanes
	// 0 and 1 of vector 0 of batch 0. So that vector has half a vector of text.
	zmmBefore = 2 * blockSize

	// A whole group covers 3 batches. The last one may cover a batch and the block of
	// lengths more, so that only whole batches of text end a group. What fewer and more
	// would cost is in docs/kernels.md, Batches and reductions.
	zmmGroupBlocks = 3 * zmmBatchBlocks

	// zmmShortVectors is the number of vectors, slots 0 and 1 included, of texts
	// that use the powers in the key, which they have to fold. Every further
	// one would need code that folds beside the code that does not.
	zmmShortVectors = 2
	zmmShortSize    = zmmShortVectors*zmmSize - zmmBefore
	zmmShortPowers  = zmmShortVectors * zmmLanes // slot 1 has the highest
)

// zmm is the register plan of the seal and open kernels.
type zmm struct {
	// state[i] is vector i of the batch: the state of its AES rounds, then its
	// output. Scratch between batches.
	state [zmmVectors]vec

	// counter[i] is vector i of the next batch's counter blocks, with the first
	// round key added; kept.
	counter [zmmVectors]vec

	// text[i], in a seal: ciphertext of the batch before, bytes reversed, that
	// is not hashed yet; kept. In an open: ciphertext of this batch.
	text [zmmVectors]vec

	sum  folded // of products that are not reduced; kept
	mask vec    // E(J₀), 16 bytes; kept
	ad   vec    // block of additional data, in every lane, until it is hashed

	lastKey    vec // last round key, in every lane; kept
	reversal   vec // shuffle that reverses the bytes of each block; kept
	polynomial vec // the field's polynomial, in every lane; kept

	// carry is the hash of the groups before, 16 bytes, until the next block is
	// hashed, and zeros after that; kept in an open.
	carry vec

	roundKey vec    // the round key in use, in every lane; scratch
	delta    vec    // from one batch's counter blocks to the next one's; scratch
	last     vec    // the last vector of text, then zeros; scratch
	x        vec    // a vector that is being hashed; scratch
	h, k     vec    // its powers of H, and those folded; scratch
	term     [4]vec // terms of its product; scratch

	position
	size   reg.GPPhysical // at the end: left and the trailer; see walk and sealRuns
	end    reg.GPPhysical // kept: just after H¹ in the table for long texts
	batch  reg.GPPhysical // kept: number of the next batch in the text
	deltas reg.GPPhysical // kept: the table of that name

	t1 reg.GPPhysical // scratch

	// odd is the mask of the high half of every lane, by 64 bits; kept.
	odd reg.OpmaskPhysical

	// Masks of the last vector, by bytes: of the text in memory, of the text
	// with its trailer, of the trailer alone; and the second of these for
	// vector 0 of batch 0, whose text is in its high half.
	inMemory, all, trailer, high reg.OpmaskPhysical
}

func zmmPlan() zmm {
	z := func(i int) (v [4]vec) {
		all := [...]vec{
			reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
			reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
			reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
			reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
		}
		copy(v[:], all[i:i+4])
		return v
	}
	return zmm{
		state:   z(0),
		counter: z(4),
		text:    z(8),

		sum:  folded{mid: reg.Z12, hi: reg.Z13},
		mask: reg.Z16,
		ad:   reg.Z17,

		lastKey:    reg.Z14,
		reversal:   reg.Z15,
		polynomial: reg.Z18,
		carry:      reg.Z19,

		roundKey: reg.Z20,
		delta:    reg.Z21,
		last:     reg.Z22,
		x:        reg.Z23,
		h:        reg.Z24,
		k:        reg.Z25,
		term:     z(28),

		position: textPosition,
		size:     reg.R13,
		end:      reg.R9,
		batch:    reg.R11,
		deltas:   reg.R12,
		t1:       reg.RCX,

		odd:      reg.K1,
		inMemory: reg.K2,
		all:      reg.K3,
		trailer:  reg.K4,
		high:     reg.K5,
	}
}

// half is the lowest half of v.
func half(v vec) vec { return v.AsY().(vec) }

// block is the lowest block of v.
func block(v vec) vec { return v.AsX().(vec) }

// as is v as wide as model.
func as(model, v vec) vec {
	switch model {
	case block(model):
		return block(v)
	case half(model):
		return half(v)
	}
	return v
}

// Constants of immediate operands.
const (
	upper      = operand.U8(1)    // the half, or block, number 1
	xorAll     = operand.U8(0x96) // a + b + c
	xorAnd     = operand.U8(0x78) // a + (b and c)
	everyBlock = operand.U8(0)    // block 0 in every lane
)

// moveWide copies a vector of any width from or to memory, or between
// registers.
func moveWide(from, to operand.Op) { VMOVDQU64(from, to) }

// addWide sets sum to a + b in the field, which is their XOR.
func addWide(a, b, sum operand.Op) { VPXORQ(b, a, sum) }

// addTwo adds a and b to sum.
func addTwo(a operand.Op, b, sum vec) { VPTERNLOGQ(xorAll, a, b, sum) }

// leave ends a kernel. It leaves no secret in a register. Those that hold constants
// and public values stay as they are.
func (p zmm) leave() {
	XORL(p.t0.As32(), p.t0.As32())
	XORL(p.t1.As32(), p.t1.As32())
	for _, r := range slices.Concat(p.state[:], p.counter[:], p.text[:], []vec{p.sum.mid, p.sum.hi, p.lastKey}) {
		clearVector(block(r))
	}
	for _, r := range slices.Concat([]vec{p.mask, p.ad, p.carry, p.roundKey, p.last, p.x, p.h, p.k}, p.term[:]) {
		addWide(block(r), block(r), block(r))
	}
	VZEROUPPER()
	RET()
}

// zmmConstants emits the tables that only this backend has.
func zmmConstants() {
	textReversal = avx512.constant("TextReversal", zmmSize, func(i int) byte {
		if i < zmmBefore {
			return zeroByte
		}
		return byte(15 - i%16)
	})
	slot1 = avx512.constant("Slot1", zmmSize, func(i int) byte {
		if i/blockSize == 1 {
			return 0xff
		}
		return 0
	})
	deltas = avx512.constant("Deltas", 29*blockSize, func(i int) byte {
		delta := uint32(zmmBatchBlocks) * (2<<(i/blockSize) - 1)
		if i %= blockSize; i < 12 {
			return 0
		}
		return byte(delta >> (8 * (15 - i)))
	})
}

var (
	// textReversal reverses the bytes of lanes 2 and 3, and makes lanes 0 and 1
	// zeros: slots 0 and 1 have no text.
	textReversal operand.Mem

	// slot1 is a mask of lane 1.
	slot1 operand.Mem

	// deltas is a table: entry t is what changes in a counter block from batch
	// b-1 to batch b, where b is an odd multiple of 2ᵗ. See nextCounters.
	deltas operand.Mem
)
