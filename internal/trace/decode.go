package trace

import (
	"errors"
	"fmt"
)

// An Instruction is what the comparison must know of an instruction.
type Instruction struct {
	Size int // in bytes

	// Shown are the registers whose values decide which memory is touched: base
	// and index of an operand in memory, or the source of an opmask. The stack
	// pointer, which some instructions use without naming it, is compared
	// everywhere.
	Shown [2]Register

	jumps      bool // the next instruction need not be the one after it
	direct     bool // a direct jump without a condition
	returns    bool
	nop        bool
	breakpoint bool
}

// A Register is a general-purpose register, in the order in which instructions
// number them. The zero value is none of them.
type Register uint8

const (
	ax Register = iota + 1
	cx
	dx
	bx
	sp
	bp
	si
	di
)

// Registers is how many there are.
const Registers = 16

// String returns the register's name in Go's assembler.
func (r Register) String() string {
	return [...]string{"none", "AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}[r]
}

// extended returns the register whose number has these three low bits and this
// fourth bit.
func extended(low byte, high bool) Register {
	if high {
		low += 8
	}
	return ax + Register(low)
}

var errShort = errors.New("the code ends inside an instruction")

// Decode reads the first instruction of code, following the Intel SDM, volume
// 2, chapter 2 and appendix A. It returns an error for instructions that it
// does not know, and for those that a trace would say too little about:
//
//   - those whose time depends on their operands,
//   - those that take addresses, or what opmasks are made of, from anything but
//     general-purpose registers: gathers, masked moves of AVX, comparisons into
//     opmasks,
//   - those that access memory through registers that they do not name.
//
// A wrong size does not get past [Run]: the processor's next step is elsewhere.
func Decode(code []byte) (Instruction, error) {
	d := decoder{code: code}
	err := d.decode()
	if err == nil && d.at > len(code) {
		err = errShort
	}
	d.in.Size = d.at
	return d.in, err
}

type decoder struct {
	code []byte
	at   int
	in   Instruction

	prefix66, prefixF2, prefixF3 bool
	w, x, b                      bool // of REX, VEX or EVEX: wide, index + 8, base + 8

	mod, reg, rm byte // of ModRM
}

// next returns the next byte, or 0 past the end, which d.at shows.
func (d *decoder) next() byte {
	d.at++
	if d.at > len(d.code) {
		return 0
	}
	return d.code[d.at-1]
}

func unknown(what string, opcode byte) error {
	return fmt.Errorf("%s %#02x: an instruction that a trace cannot show, or that the decoder does not know", what, opcode)
}

// modRM reads ModRM, SIB and displacement. memory says whether an operand in
// memory is accessed: LEA does not access it.
func (d *decoder) modRM(memory bool) {
	m := d.next()
	d.mod, d.reg, d.rm = m>>6, m>>3&7, m&7
	if d.mod == 3 {
		return
	}
	var base, index Register
	switch {
	case d.rm == 4:
		s := d.next()
		if i := extended(s>>3&7, d.x); i != sp {
			index = i
		}
		if s&7 == 5 && d.mod == 0 {
			d.at += 4
		} else {
			base = extended(s&7, d.b)
		}
	case d.rm == 5 && d.mod == 0: // relative to the next instruction
		d.at += 4
	default:
		base = extended(d.rm, d.b)
	}
	switch d.mod {
	case 1:
		d.at++
	case 2:
		d.at += 4
	}
	if memory {
		d.in.Shown = [2]Register{base, index}
	}
}

// immediate steps over an immediate operand of the operand size, but never
// more than 4 bytes.
func (d *decoder) immediate() {
	if d.prefix66 {
		d.at += 2
	} else {
		d.at += 4
	}
}

func (d *decoder) decode() error {
	for {
		switch op := d.next(); {
		case op == 0x66:
			d.prefix66 = true
		case op == 0xf2:
			d.prefixF2 = true
		case op == 0xf3:
			d.prefixF3 = true
		case op == 0x64:
			// FS, where the runtime has its g.
		case op&0xf0 == 0x40:
			d.w, d.x, d.b = op&8 != 0, op&2 != 0, op&1 != 0
			return d.legacy(d.next())
		case op == 0xc5:
			v := d.next()
			return d.vex(1, v&3)
		case op == 0xc4:
			m, v := d.next(), d.next()
			d.x, d.b, d.w = m&0x40 == 0, m&0x20 == 0, v&0x80 != 0
			return d.vex(m&31, v&3)
		case op == 0x62:
			m, v := d.next(), d.next()
			d.next()
			d.x, d.b, d.w = m&0x40 == 0, m&0x20 == 0, v&0x80 != 0
			return d.evex(m&7, v&3)
		default:
			return d.legacy(op)
		}
	}
}

// legacy continues after a one-byte opcode.
func (d *decoder) legacy(op byte) error {
	switch {
	case op == 0x0f:
		return d.twoByte(d.next())
	case op < 0x40 && op&7 < 4, op == 0x63, 0x84 <= op && op <= 0x8b, 0xd0 <= op && op <= 0xd3:
		d.modRM(true)
	case op < 0x40 && op&7 == 4, op == 0x6a, op == 0xa8, 0xb0 <= op && op <= 0xb7:
		d.at++
	case op < 0x40 && op&7 == 5, op == 0x68, op == 0xa9:
		d.immediate()
	case 0x50 <= op && op <= 0x5f, op == 0x98, op == 0x99: // PUSH, POP, CDQ and its kin
	case op == 0x6b, op == 0x80, op == 0x83, op == 0xc0, op == 0xc1, op == 0xc6:
		d.modRM(true)
		d.at++
	case op == 0x69, op == 0x81, op == 0xc7:
		d.modRM(true)
		d.immediate()
	case 0x70 <= op && op <= 0x7f, op == 0xeb:
		d.at++
		d.in.jumps, d.in.direct = true, op == 0xeb
	case op == 0xe8, op == 0xe9:
		d.at += 4
		d.in.jumps, d.in.direct = true, op == 0xe9
	case op == 0xc3:
		d.in.jumps, d.in.returns = true, true
	case op == 0x8d: // LEA
		d.modRM(false)
	case op == 0x90:
		d.in.nop = true
	case 0xb8 <= op && op <= 0xbf:
		if d.immediate(); d.w {
			d.at += 4
		}
	case op == 0xcc:
		d.in.breakpoint = true
	case op == 0xf6, op == 0xf7:
		d.modRM(true)
		switch {
		case d.reg >= 6:
			return errors.New("a division: its time depends on its operands")
		case d.reg <= 1 && op == 0xf6:
			d.at++
		case d.reg <= 1:
			d.immediate()
		}
	case op == 0xfe, op == 0xff:
		d.modRM(true)
		d.in.jumps = op == 0xff && (d.reg == 2 || d.reg == 4)
	default:
		return unknown("opcode", op)
	}
	return nil
}

// twoByte continues after 0F and an opcode.
func (d *decoder) twoByte(op byte) error {
	switch {
	case op == 0x1f:
		d.modRM(false)
		d.in.nop = true
	case op == 0x10, op == 0x11, op == 0x28, op == 0x29, op == 0x57, op == 0x6e, op == 0x6f, op == 0x7e, op == 0x7f, op == 0xef, // SSE that Go code has
		op == 0x18,               // PREFETCH
		0x40 <= op && op <= 0x4f, // CMOVcc, which loads in any case
		0x90 <= op && op <= 0x9f, // SETcc
		op == 0xa5, op == 0xad,   // SHLD, SHRD by CL
		op == 0xaf,                                     // IMUL
		op == 0xb6, op == 0xb7, op == 0xbe, op == 0xbf, // MOVZX, MOVSX
		op == 0xbc, op == 0xbd: // BSF, BSR and, with a prefix, TZCNT, LZCNT
		d.modRM(true)
	case op == 0xa3, op == 0xab, op == 0xb3, op == 0xbb: // BT and its kin
		if d.modRM(true); d.mod != 3 {
			return errors.New("a bit in memory: its address is in a register without that role")
		}
	case op == 0xa4, op == 0xac, op == 0xba:
		d.modRM(true)
		d.at++
	case 0x80 <= op && op <= 0x8f:
		d.at += 4
		d.in.jumps = true
	case 0xc8 <= op && op <= 0xcf: // BSWAP
	default:
		return unknown("opcode 0f", op)
	}
	return nil
}

// hasImmediate reports whether a VEX or EVEX instruction ends with an immediate
// byte.
func hasImmediate(opcodeMap, op byte) bool {
	return opcodeMap == 3 ||
		opcodeMap == 1 && (0x70 <= op && op <= 0x73 || op == 0xc2 || 0xc4 <= op && op <= 0xc6)
}

func (d *decoder) vex(opcodeMap, prefix byte) error {
	op := d.next()
	switch {
	case opcodeMap < 1 || opcodeMap > 3:
		return unknown(fmt.Sprintf("VEX map %d opcode", opcodeMap), op)
	case opcodeMap == 1 && op == 0x77: // VZEROUPPER
		return nil
	case opcodeMap == 1 && op == 0xf7, // VMASKMOVDQU
		opcodeMap == 2 && (0x2c <= op && op <= 0x2f || op == 0x8c || op == 0x8e): // VMASKMOV, VPMASKMOV
		return errors.New("a masked move of AVX: what it touches depends on a vector")
	case opcodeMap == 2 && 0x90 <= op && op <= 0x93:
		return errors.New("a gather: its addresses are in a vector")
	case opcodeMap == 2 && op == 0xf5 && prefix >= 2:
		return errors.New("PDEP or PEXT: on some processors their time depends on their operands")
	}
	d.modRM(true)
	if hasImmediate(opcodeMap, op) {
		d.at++
	}
	if opcodeMap == 1 && op == 0x90 && d.mod != 3 {
		return errors.New("an opmask from memory")
	}
	if opcodeMap == 1 && op == 0x92 { // KMOV from a general-purpose register
		d.in.Shown[0] = extended(d.rm, d.b)
	}
	return nil
}

func (d *decoder) evex(opcodeMap, prefix byte) error {
	op := d.next()
	switch {
	case opcodeMap < 1 || opcodeMap > 3:
		return unknown(fmt.Sprintf("EVEX map %d opcode", opcodeMap), op)
	case opcodeMap == 1 && (0x64 <= op && op <= 0x66 || 0x74 <= op && op <= 0x76 || op == 0xc2),
		opcodeMap == 2 && (op == 0x26 || op == 0x27 || op == 0x29 || op == 0x37 || op == 0x39 && prefix == 2),
		opcodeMap == 3 && (op == 0x1e || op == 0x1f || op == 0x3e || op == 0x3f || op == 0x66 || op == 0x67):
		return errors.New("an opmask from a vector")
	case opcodeMap == 2 && (0x90 <= op && op <= 0x93 || 0xa0 <= op && op <= 0xa3 || op == 0xc6 || op == 0xc7):
		return errors.New("a gather or scatter: its addresses are in a vector")
	}
	d.modRM(true)
	if hasImmediate(opcodeMap, op) {
		d.at++
	}
	return nil
}
