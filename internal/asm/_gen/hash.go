package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// hashKernel emits GHASH of whole blocks, for additional data of more than one
// block. It uses the powers for short texts, and is not tuned: one block at a
// time, one reduction for as many blocks as there are powers.
func (d design) hashKernel() {
	TEXT(d.name+"Hash", NOSPLIT, "func(k, hash, data *byte, blocks uint64)")
	p := d.plan().lowLane()
	hash, blocks, turn, end := p.left, p.slots, p.count, p.dst
	x := low(p.x0)

	MOVQ(arg("k"), p.key)
	MOVQ(arg("hash"), hash)
	MOVQ(arg("data"), p.src)
	MOVQ(arg("blocks"), blocks)
	LEAQ(at(p.key, keyShortEnd), end)
	move(at(hash, 0), low(p.x1))

	Label("turn")
	// turn = min(blocks, shortPowers), power = H^turn
	MOVL(operand.U32(d.shortPowers()), turn.As32())
	CMPQ(blocks, turn)
	CMOVQCS(blocks, turn)
	SUBQ(turn, blocks)
	MOVQ(turn, p.t0)
	SHLQ(operand.U8(4), p.t0)
	MOVQ(end, p.power)
	SUBQ(p.t0, p.power)
	p.startPlain(low(p.x1), at(p.power, 0))

	Label("block")
	run(p.load(at(p.src, 0), x))
	run(p.mulPlain(x, at(p.power, 0)))
	ADDQ(operand.U8(blockSize), p.src)
	ADDQ(operand.U8(blockSize), p.power)
	DECQ(turn)
	JNZ(target("block"))
	move(p.reduce(), low(p.x1))
	TESTQ(blocks, blocks)
	JNZ(target("turn"))

	move(low(p.x1), at(hash, 0))
	p.leave()
}
