package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// commonRound is the first of the round keys that every key size has.
const commonRound = maxRoundKeys - 9

// rounds takes state through all AES rounds except the first key addition,
// which counter blocks already have, and the last round. steps are woven in
// evenly.
//
// AES-192 and AES-256 do their two and four additional rounds first. The branch
// to them goes the same way in every call with a key.
func (p plan) rounds(state []vec, steps []step) {
	twelve, ten := newLabel("twelve_rounds_"), newLabel("ten_rounds_")
	CMPB(at(p.key, keyRoundCount), operand.U8(12))
	JB(target(ten))
	JE(target(twelve))
	p.round(state, 1, nil)
	p.round(state, 2, nil)
	Label(twelve)
	p.round(state, 3, nil)
	p.round(state, 4, nil)
	Label(ten)

	const rounds = maxRoundKeys - commonRound
	total := rounds * len(state)
	woven := 0
	for r := range rounds {
		p.round(state, commonRound+r, func(i int) {
			due := (r*len(state) + i + 1) * len(steps) / total
			run(steps[woven:due])
			woven = due
		})
	}
	run(steps[woven:])
}

// round is one AES round of all of state. after is called after each vector.
func (p plan) round(state []vec, key int, after func(i int)) {
	p.everyLane(roundKey(p.key, key), p.roundKey)
	for i, x := range state {
		VAESENC(p.roundKey, x, x)
		if after != nil {
			after(i)
		}
	}
}

// loadLastKey prepares for lastRound.
func (p plan) loadLastKey() {
	p.everyLane(roundKey(p.key, maxRoundKeys), p.roundKey)
}

// lastRound turns x into text + E(counter block): the text is added to the
// last round key, which saves an instruction after it. text is as wide as x.
func (p plan) lastRound(x vec, text operand.Op) {
	k, t := p.roundKey, p.term
	if x == low(x) {
		k, t = low(k), low(t)
	}
	add(k, text, t)
	VAESENCLAST(t, x, x)
}

// lastRoundOfMask turns the block of slot 1, in x, into E(J₀) and returns the
// register with it.
func (p plan) lastRoundOfMask(x vec) vec {
	VAESENCLAST(p.roundKey, x, x)
	if p.lanes() > 1 {
		highBlock(x, low(x))
	}
	return low(x)
}

// maskVector is the vector of batch 0 that has slot 1.
func (d design) maskVector() int { return d.firstText() - 1 }
