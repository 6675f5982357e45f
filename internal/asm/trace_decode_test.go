package asm

import (
	"regexp"
	"testing"

	"example.com/splitseal/internal/trace"
)

// TestTraceCheckDecoder compares the trace check's decoder with the assembler, over
// every instruction of every kernel, on any machine.
func TestTraceCheckDecoder(t *testing.T) {
	for b := Portable + 1; b < backends; b++ {
		for _, f := range assemble(t, b.String()+"_amd64.s") {
			for i, in := range f.body {
				if in.op == "PCALIGN" {
					continue // several instructions that do nothing
				}
				d, err := trace.Decode(in.code)
				if err != nil {
					t.Errorf("%s: %v: % x: %v", f.name, in, in.code, err)
					continue
				}
				if d.Size != len(in.code) {
					t.Errorf("%s: %v: % x: decoded as %d bytes", f.name, in, in.code, d.Size)
				}
				if want := shownBy(in); d.Shown != want && !f.frameCode(i) {
					t.Errorf("%s: %v: % x: shows %v, want %v", f.name, in, in.code, d.Shown, want)
				}
			}
		}
	}
}

var (
	// memoryOperand is how the listing writes one: 8(AX), (AX)(BX*1), k+8(FP),
	// table<>+16(SB). Base and index are what it captures.
	memoryOperand = regexp.MustCompile(`\((\w+)\)(?:\((\w+)\*\d\))?`)
	toOpmask      = regexp.MustCompile(`^([A-D]X|SI|DI|R\d+), K\d$`)
)

// shownBy returns the registers that must be equal wherever in is executed.
func shownBy(in instruction) (shown [2]trace.Register) {
	var names [2]string
	if m := memoryOperand.FindStringSubmatch(in.operands); m != nil && in.op != "LEAQ" && in.op != "LEAL" {
		names = [2]string{m[1], m[2]}
	} else if m := toOpmask.FindStringSubmatch(in.operands); m != nil {
		names[0] = m[1]
	}
	for i, name := range names {
		if name == "FP" {
			name = "SP"
		}
		for r := trace.Register(1); r <= trace.Registers; r++ {
			if r.String() == name {
				shown[i] = r
			}
		}
	}
	return shown
}
