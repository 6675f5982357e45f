package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// Tables in memory. Each backend has its own copies, private to its file.
var (
	// reversal is the shuffle that reverses the bytes of each block, which
	// turns GCM's bit order into that of the multiplier; see doc.go.
	reversal operand.Mem

	// index is a table of the numbers 0 to 15, each as the counter of an
	// otherwise empty counter block: big endian, in the last four bytes.
	index operand.Mem

	// polynomial is x⁻¹, 1 + x + x⁶ + x¹²⁷. Its high half is what a reduction
	// multiplies by. It is in every lane.
	polynomial operand.Mem

	// carries is what shifting an element to the left by one bit can bring in:
	// polynomial, and, in 32-bit word 2, the bit that goes from the low half to
	// the high half.
	carries operand.Mem

	// window is a shuffle. Read at 16+n it moves a block's bytes n places down
	// and fills up with zeros; read at 16-n it moves them up.
	window operand.Mem

	// place is a shuffle that puts byte 0 of its input at byte n, and zeros
	// elsewhere, when read at 16-n. For n = 16 it puts it nowhere.
	place operand.Mem

	// keep is 32 bytes of ones and 32 of zeros. Read at 32-n it keeps the first
	// n bytes of a vector.
	keep operand.Mem

	// rotate is the shuffle that puts RotWord of a key's last word into every
	// word; roundConstants are those of the key schedule, in every word.
	rotate, roundConstants operand.Mem
)

// zeroByte is a shuffle's index that yields 0.
const zeroByte = 0x80

// constant emits a table of n bytes.
func (d design) constant(name string, n int, value func(i int) byte) operand.Mem {
	m := GLOBL(d.name+name, NOPTR|RODATA)
	for i := 0; i < n; i += 8 {
		var w uint64
		for j := 7; j >= 0; j-- {
			w = w<<8 | uint64(value(i+j))
		}
		DATA(i, operand.U64(w))
	}
	return m
}

// constants emits the tables of a backend.
func (d design) constants() {
	vector := max(32, d.width) // what is the same in every lane

	reversal = d.constant("Reversal", vector, func(i int) byte { return byte(15 - i%16) })
	index = d.constant("Index", 16*16, func(i int) byte {
		if i%16 == 15 {
			return byte(i / 16)
		}
		return 0
	})
	polynomial = d.constant("Polynomial", vector, func(i int) byte {
		return map[int]byte{0: 1, 15: 0xc2}[i%16]
	})
	carries = d.constant("Carries", 16, func(i int) byte {
		return map[int]byte{0: 1, 8: 1, 15: 0xc2}[i]
	})
	if d.width <= 32 {
		d.tailConstants()
	}
	rotate = d.constant("Rotate", 16, func(i int) byte { return [4]byte{13, 14, 15, 12}[i%4] })
	roundConstants = d.constant("RoundConstants", 10*16, func(i int) byte {
		if i%4 != 0 {
			return 0
		}
		return [10]byte{1, 2, 4, 8, 16, 32, 64, 128, 0x1b, 0x36}[i/16]
	})
}

// tailConstants emits the tables that stand in for masks.
func (d design) tailConstants() {
	window = d.constant("Window", 48, func(i int) byte {
		if i/16 == 1 {
			return byte(i % 16)
		}
		return zeroByte
	})
	place = d.constant("Place", 32, func(i int) byte {
		if i == 16 {
			return 0
		}
		return zeroByte
	})
	keep = d.constant("Keep", 64, func(i int) byte {
		if i < 32 {
			return 0xff
		}
		return 0
	})
}
