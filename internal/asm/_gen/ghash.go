package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// A step is one instruction, or a few that belong together. Sequences of steps
// can be woven into AES rounds.
type step = func()

func run(steps []step) {
	for _, s := range steps {
		s()
	}
}

// product is a sum of 255-bit products that are not reduced: the number
// hi·2¹²⁸ + mid·2⁶⁴ + lo. For factors a = aH·2⁶⁴ + aL and b likewise, that is
//
//	lo = aL·bL
//	mid = aL·bH + aH·bL
//	hi = aH·bH
//
// While long texts are hashed, mid holds (aL + aH)·(bL + bH) instead, which
// takes one multiplication and is the above mid + lo + hi: Karatsuba's method.
// It needs the sums of the halves of the powers, which short texts do without.
// Every lane has sums of its own.
type product struct {
	lo, mid, hi vec
}

// Which halves of its two factors VPCLMULQDQ multiplies.
const (
	lowLow   = operand.U8(0x00)
	highHigh = operand.U8(0x11)
	lowHigh  = operand.U8(0x10)
	highLow  = operand.U8(0x01)
)

// clmul sets to = a·b for the chosen halves.
func clmul(halves operand.U8, a vec, b operand.Op, to vec) { VPCLMULQDQ(halves, b, a, to) }

// load sets x to the text at m with the bytes of each block reversed.
func (p plan) load(m operand.Mem, x vec) []step {
	return []step{
		func() { move(m, x) },
		func() { VPSHUFB(reversal, x, x) },
	}
}

// mulPair adds a·H(power) + b·H(power+width) to the sum, where a and b are
// neighbouring vectors. power is the memory of the powers for a.
//
// The two middle products share their preparation: with the halves of a and b
// interleaved, (aL + aH, bL + bH) takes two shuffles and one addition, and the
// table has the sums of the halves of the powers in the same arrangement.
func (p plan) mulPair(a, b vec, power operand.Mem) []step {
	s, t := p.halves, p.term
	hA, hB, h := power, power.Offset(p.width), power.Offset(halvesAt)
	steps := []step{
		// s = (aL + aH, bL + bH)
		func() { VPUNPCKLQDQ(b, a, s) },
		func() { VPUNPCKHQDQ(b, a, t) },
		func() { add(s, t, s) },
	}
	term := func(halves operand.U8, x vec, h operand.Mem, sum vec) {
		steps = append(steps,
			func() { clmul(halves, x, h, t) },
			func() { add(sum, t, sum) })
	}
	term(lowLow, a, hA, p.sum.lo)
	term(highHigh, a, hA, p.sum.hi)
	term(lowLow, s, h, p.sum.mid)
	term(highHigh, s, h, p.sum.mid)
	term(lowLow, b, hB, p.sum.lo)
	term(highHigh, b, hB, p.sum.hi)
	return steps
}

// mulPlain adds a·H(power) to the sum, whose middle is the plain one.
func (p plan) mulPlain(a vec, power operand.Mem) []step {
	t := p.term
	var steps []step
	for _, term := range []struct {
		halves operand.U8
		sum    vec
	}{{lowLow, p.sum.lo}, {lowHigh, p.sum.mid}, {highLow, p.sum.mid}, {highHigh, p.sum.hi}} {
		steps = append(steps,
			func() { clmul(term.halves, a, power, t) },
			func() { add(term.sum, t, term.sum) })
	}
	return steps
}

// mul adds a·H(power) to the sum.
func (p plan) mul(a vec, power operand.Mem) []step {
	s, t := p.halves, p.term
	return []step{
		// The low half of s = aL + aH.
		func() { VPSHUFD(swapHalves, a, s) },
		func() { add(s, a, s) },
		func() { clmul(lowLow, a, power, t) },
		func() { add(p.sum.lo, t, p.sum.lo) },
		func() { clmul(highHigh, a, power, t) },
		func() { add(p.sum.hi, t, p.sum.hi) },
		func() { clmul(lowLow, s, power.Offset(halvesAt), t) },
		func() { add(p.sum.mid, t, p.sum.mid) },
	}
}

// swapHalves is the order of 32-bit words that swaps a block's 64-bit halves.
const swapHalves = operand.U8(0x4e)

// startSum sets the sum to a·H(power), where a is one block. It is how a hash
// continues: adding the hash so far to the next slot's block, as GHASH does, is
// the same as multiplying it by that slot's power.
func (p plan) startSum(a vec, power operand.Mem) {
	s := low(p.halves)
	VPSHUFD(swapHalves, a, s)
	add(s, a, s)
	clmul(lowLow, a, power, low(p.sum.lo))
	clmul(highHigh, a, power, low(p.sum.hi))
	clmul(lowLow, s, power.Offset(halvesAt), low(p.sum.mid))
}

// startPlain is startSum for a sum whose middle is the plain one.
func (p plan) startPlain(a vec, power operand.Mem) {
	t := low(p.term)
	clmul(lowLow, a, power, low(p.sum.lo))
	clmul(highHigh, a, power, low(p.sum.hi))
	clmul(lowHigh, a, power, low(p.sum.mid))
	clmul(highLow, a, power, t)
	add(low(p.sum.mid), t, low(p.sum.mid))
}

// plainMiddle turns Karatsuba's middle into the plain one: mid + lo + hi.
func (sum product) plainMiddle(t vec) {
	add(sum.lo, sum.hi, t)
	add(sum.mid, t, sum.mid)
}

// hashMemory adds the vectors [from, to) of the batch of text at base to the
// sum. p.power is the power of the batch's slot 0.
func (p plan) hashMemory(base operand.Mem, from, to int) []step {
	var steps []step
	text := func(i int) operand.Mem { return base.Offset(i * p.width) }
	power := func(i int) operand.Mem { return at(p.power, i*p.width) }
	if (to-from)%2 == 1 {
		steps = append(steps, p.load(text(from), p.x0)...)
		steps = append(steps, p.mul(p.x0, power(from))...)
		from++
	}
	for i := from; i < to; i += 2 {
		steps = append(steps, p.load(text(i), p.x0)...)
		steps = append(steps, p.load(text(i+1), p.x1)...)
		steps = append(steps, p.mulPair(p.x0, p.x1, power(i))...)
	}
	return steps
}

// hashVectors adds a batch's first vectors, whose bytes are reversed, to the sum.
func (p plan) hashVectors(x []vec) []step {
	var steps []step
	for i := 0; i < len(x); i += 2 {
		power := at(p.power, i*p.width)
		if i+1 < len(x) {
			steps = append(steps, p.mulPair(x[i], x[i+1], power)...)
		} else {
			steps = append(steps, p.mul(x[i], power)...)
		}
	}
	return steps
}

// addLanes leaves the sum over all lanes in the lowest one.
func (p plan) addLanes() {
	if p.lanes() == 1 {
		return
	}
	for _, r := range []vec{p.sum.lo, p.sum.mid, p.sum.hi} {
		highBlock(r, low(p.term))
		add(low(r), low(p.term), low(r))
	}
}

// reduce returns the register with the lowest lane's sum as an element of the
// field. The middle must be the plain one. It destroys the sum.
func (p plan) reduce() vec {
	return p.sum.low().reduce(low(p.halves), low(p.term))
}

// low is the lowest lane of the sum.
func (sum product) low() product { return product{low(sum.lo), low(sum.mid), low(sum.hi)} }

// reduce makes every lane of sum an element of the field and returns the
// register with them. The middle must be the plain one. It destroys sum, s and
// t.
//
// It clears 64 bits at the low end twice; see doc.go.
func (sum product) reduce(s, t vec) vec {
	for _, r := range []struct{ from, to vec }{{sum.lo, sum.mid}, {sum.mid, sum.hi}} {
		// to = to + (from, halves swapped) + (low half of from)·0xc2…00
		clmul(lowHigh, r.from, polynomial, t)
		VPSHUFD(swapHalves, r.from, s)
		add(r.to, s, r.to)
		add(r.to, t, r.to)
	}
	return sum.hi
}

// nextBatch moves on to the next batch's powers. If that completes a group and
// slots are left, it reduces the sum and starts another group.
//
// Where the text of a call ends with a group, onEnd gets the hash, a block, and
// must leave the kernel. If onEnd is nil, this cannot happen.
func (p plan) nextBatch(onEnd func(hash vec)) {
	within := newLabel("within_group_")
	ADDQ(operand.U32(p.batchSize()), p.power)
	SUBQ(operand.U32(p.batchBlocks()), p.slots)
	CMPQ(p.power, p.frame.end)
	JNE(target(within))
	hash := p.reduceGroup()
	if onEnd != nil {
		more := newLabel("more_slots_")
		TESTQ(p.slots, p.slots)
		JNZ(target(more))
		onEnd(hash)
		Label(more)
	}
	p.startGroup()
	// startSum writes hi, where the hash is, before it has read all of it.
	move(hash, low(p.x0))
	p.startSum(low(p.x0), at(p.power, 0))
	Label(within)
}

// reduceGroup returns the register with the hash, when all slots of a group
// are in the sum.
func (p plan) reduceGroup() vec {
	p.sum.plainMiddle(p.term)
	p.addLanes()
	return p.reduce()
}

// startGroup sets p.power for p.slots slots: to the power whose exponent is the number
// of slots that this group covers. If no more are left than a group, a batch and the
// block of lengths, it covers all of them; otherwise it is one whole group. So the
// block of lengths is never alone in a group, and only whole batches end one.
func (p plan) startGroup() {
	MOVQ(p.frame.end, p.power)
	MOVQ(at(p.power, longGroup-longEnd), p.count)
	MOVQ(p.slots, p.t0)
	SUBQ(operand.U8(p.batchBlocks()+1), p.t0)
	CMPQ(p.t0, p.count)
	MOVQ(p.slots, p.t0)
	CMOVQGT(p.count, p.t0)
	SHLQ(operand.U8(4), p.t0)
	SUBQ(p.t0, p.power)
}

// addLengths adds the block of lengths times H to the sum, whose lanes are already
// added up and whose middle is the plain one. textBits and adBits are the two lengths,
// in bits.
func (p plan) addLengths(textBits, adBits operand.Mem) {
	x := low(p.x0)
	loadHalves(textBits, adBits, x)
	run(p.lowLane().mulPlain(x, at(p.key, keyShortEnd-blockSize)))
}

// lowLane is p for code that works on the lowest lane only.
func (p plan) lowLane() plan {
	p.width = blockSize
	p.sum = p.sum.low()
	p.halves, p.term = low(p.halves), low(p.term)
	return p
}
