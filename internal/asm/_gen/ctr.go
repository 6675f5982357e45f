package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// counters sets state[from:n] to the batch's counter blocks with the first
// round key added, and moves p.counter on to the next batch.
//
// p.counter is a multiple of the number of slots in a batch, a power of two.
// So slot i's counter, counter + i, is counter XOR i, and a batch's blocks are
// one block XOR a table of small constants: no addition, no byte order to
// change, and no carry. That one block is made anew for each batch, by inserting the
// counter's four bytes into the nonce, so there is no chain from batch to batch either.
// The nonce is loaded from the two adjacent arguments that hold it. They were stored a
// batch ago (or just now, where a call continues a text: once in 64 KiB), so this load
// need not wait, although it is wider than the stores. The nonce with the first round
// key added is in registers only.
func (p plan) counters(from, n int) {
	base := p.roundKey // free before the first round
	MOVL(p.counter.As32(), p.t0.As32())
	BSWAPL(p.t0.As32())
	move(arg("nonceLo"), low(base))
	VPINSRD(operand.U8(3), p.t0.As32(), low(base), low(base))
	add(low(base), at(p.key, keyStart), low(base))
	p.spread(base)
	ADDL(operand.U32(p.batchBlocks()), p.counter.As32())
	p.addIndex(base, from, n)
}

// firstCounters is counters for batch 0 of a text, where p.counter is 0. It
// takes the block from where loadNonce left it.
func (p plan) firstCounters(from, n int) {
	p.spread(p.roundKey)
	MOVL(operand.U32(p.batchBlocks()), p.counter.As32())
	p.addIndex(p.roundKey, from, n)
}

// spread copies the low block of r to every lane.
func (p plan) spread(r vec) {
	if p.lanes() > 1 {
		VINSERTI128(operand.U8(1), low(r), r, r)
	}
}

func (p plan) addIndex(base vec, from, n int) {
	for i := from; i < n; i++ {
		add(base, index.Offset(i*p.width), p.state[i])
	}
}

// loadNonce leaves the counter block of counter 0, with the first round key
// added, in p.roundKey. lo and hi are the nonce's 12 bytes, little endian.
func (p plan) loadNonce(lo, hi operand.Mem) {
	x := low(p.roundKey)
	loadHalves(lo, hi, x)
	add(x, at(p.key, keyStart), x)
}
