package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// loadCounters sets p.counter to the counter blocks of batch 0, with the first
// round key added: in every lane the nonce, the start of the key, and the slot's
// index.
//
// The nonce is broadcast from two arguments, each at the size at which it was
// stored, so that no load waits for a narrower store, and only one addition
// stands between the nonce and the first round.
func (p zmm) loadCounters() {
	nonce, start := p.term[0], p.term[1]
	MOVL(operand.U32(0b10101010), p.t0.As32())
	KMOVB(p.t0.As32(), p.odd)
	VPBROADCASTQ(arg("nonceLo"), nonce)
	VPBROADCASTQ(arg("nonceHi"), p.odd, nonce)
	VBROADCASTI32X4(at(p.key, keyStart), start)
	for i, c := range p.counter {
		moveWide(index.Offset(i*zmmSize), c)
		addTwo(start, nonce, c)
	}
}

// loadAD sets p.ad.
func (p zmm) loadAD() {
	VPBROADCASTQ(arg("adLo"), p.ad)
	VPBROADCASTQ(arg("adHi"), p.odd, p.ad)
}

// nextCounters moves p.counter on to the next batch.
//
// Batch b begins with counter 16b, so slot i's counter is 16b XOR i, and every
// block changes by the same delta: 16b XOR 16(b-1), in the byte order of counter
// blocks. In binary, where b ends in a one and t zeros, b-1 ends in a zero and t
// ones, and all bits above are the same. So the delta is 16(2ᵗ⁺¹ - 1): 29 entries
// serve every b, from 1 to 2²⁸, where counters of 32 bits end. What adding would take
// instead is in docs/kernels.md, Counters.
func (p zmm) nextCounters() []step {
	steps := []step{
		func() { INCL(p.batch.As32()) },
		func() { BSFL(p.batch.As32(), p.t0.As32()) },
		func() { ADDL(p.t0.As32(), p.t0.As32()) },
		func() { VBROADCASTI32X4(operand.Mem{Base: p.deltas, Index: p.t0, Scale: 8}, p.delta) },
	}
	for _, c := range p.counter {
		steps = append(steps, func() { addWide(c, p.delta, c) })
	}
	return steps
}

// rounds takes n vectors from p.counter to p.state, through all AES rounds
// except the first key addition, which counter blocks already have, and the
// last round. steps are woven in evenly, after the first round.
//
// AES-192 and AES-256 do their two and four additional rounds first. The branch
// to them goes the same way in every call with a key. So counter blocks enter
// the first round in three places, and no instruction has to copy them.
func (p zmm) rounds(n int, steps []step) {
	twelve, ten := newLabel("twelve_rounds_"), newLabel("ten_rounds_")
	ten4, eight4 := newLabel("ten_rounds_left_"), newLabel("eight_rounds_left_")
	first := func(key int) { p.round(p.counter[:n], key, nil) }
	next := func(key int) { p.round(p.state[:n], key, nil) }

	CMPB(at(p.key, keyRoundCount), operand.U8(12))
	JB(target(ten))
	JE(target(twelve))
	first(1)
	next(2)
	next(3)
	JMP(target(ten4))
	Label(twelve)
	first(3)
	Label(ten4)
	next(4)
	next(5)
	JMP(target(eight4))
	Label(ten)
	first(5)
	Label(eight4)

	const from = commonRound + 1
	total := (maxRoundKeys - from) * n
	done, woven := 0, 0
	for key := from; key < maxRoundKeys; key++ {
		p.round(p.state[:n], key, func() {
			done++
			due := done * len(steps) / total
			run(steps[woven:due])
			woven = due
		})
	}
}

// round is one AES round, from the given vectors to p.state. after is called
// after each of them.
func (p zmm) round(from []vec, key int, after func()) {
	VBROADCASTI32X4(roundKey(p.key, key), p.roundKey)
	for i, x := range from {
		VAESENC(p.roundKey, x, p.state[i])
		if after != nil {
			after()
		}
	}
}

// lastRound turns p.state[i] into text + E(counter blocks): the text is added to
// the last round key, which saves an instruction after it.
func (p zmm) lastRound(i int, text operand.Op) {
	x, t := p.state[i], p.term[i]
	addWide(p.lastKey, text, t)
	VAESENCLAST(t, x, x)
}

// keepMask takes E(J₀) from its place in vector 0 of batch 0.
func (p zmm) keepMask() { VEXTRACTI32X4(upper, p.state[0], block(p.mask)) }

// loadHigh sets x to half a vector of text in its high half and zeros below: that
// is vector 0 of batch 0. text may be memory or another register.
func loadHigh(text operand.Op, x vec) {
	addWide(x, x, x)
	VINSERTI64X4(upper, text, x, x)
}

// storeHigh stores the high half of x.
func storeHigh(x vec, to operand.Op) { VEXTRACTI64X4(upper, x, to) }

// reverseFirst prepares vector 0 of batch 0 for hashing: its text reversed, and
// the block of additional data in slot 1.
func (p zmm) reverseFirst(x, to vec) {
	VPSHUFB(textReversal, x, to)
	VPTERNLOGQ(xorAnd, slot1, p.ad, to)
}

// textOffset is the offset of vector i's text from that of the batch. In batch
// 0 there is half a vector of text in vector 0.
func textOffset(i int, first bool) int {
	if first && i > 0 {
		return i*zmmSize - zmmBefore
	}
	return i * zmmSize
}

// textSize sets p.size to the size of the text that is left plus its trailer,
// which is 0 or 1 bytes.
func (p zmm) textSize(trailerSize func(to operand.Op)) {
	trailerSize(p.size)
	ADDQ(p.left, p.size)
}

// lastMasks sets the masks for the last vector, whose text is offset bytes past p.src.
// p.size reaches into it; p.left may end just before it.
func (p zmm) lastMasks(offset int) {
	MOVQ(operand.I32(-1), p.t0)
	for _, m := range []struct {
		size reg.GPPhysical
		mask reg.OpmaskPhysical
	}{{p.left, p.inMemory}, {p.size, p.all}} {
		LEAQ(at(m.size, -offset), p.t1)
		BZHIQ(p.t1, p.t0, p.t1)
		KMOVQ(p.t1, m.mask)
	}
}

// byVectors jumps to the label of the number of vectors, from least to most,
// that p.size bytes take, or falls through for most. first says whether they
// are of batch 0.
func (p zmm) byVectors(least, most int, first bool, label func(n int) string) {
	for n := least; n < most; n++ {
		CMPQ(p.size, operand.U32(textOffset(n, first)))
		JBE(target(label(n)))
	}
}
