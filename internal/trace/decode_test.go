package trace

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Every form of operand and every exception. TestTraceCheckDecoder in internal/asm
// has all that kernels use.
func TestDecode(t *testing.T) {
	for _, test := range []struct {
		code        string
		base, index string // "" for none
	}{
		{"c3", "", ""},                           // RET
		{"7405", "", ""},                         // JE
		{"0f8405000000", "", ""},                 // JE
		{"4889c8", "", ""},                       // MOVQ CX, AX
		{"488b01", "CX", ""},                     // MOVQ (CX), AX
		{"498b01", "R9", ""},                     // MOVQ (R9), AX
		{"488b4108", "CX", ""},                   // MOVQ 8(CX), AX
		{"488b8100010000", "CX", ""},             // MOVQ 256(CX), AX
		{"488b0500010000", "", ""},               // MOVQ 256(IP), AX
		{"488b0424", "SP", ""},                   // MOVQ (SP), AX
		{"488b442408", "SP", ""},                 // MOVQ 8(SP), AX
		{"498b0424", "R12", ""},                  // MOVQ (R12), AX
		{"488b0459", "CX", "BX"},                 // MOVQ (CX)(BX*2), AX
		{"4a8b0461", "CX", "R12"},                // MOVQ (CX)(R12*2), AX
		{"4b8b44cd00", "R13", "R9"},              // MOVQ (R13)(R9*8), AX
		{"488b04dd00010000", "", "BX"},           // MOVQ 256(BX*8), AX
		{"64488b0425f8ffffff", "", ""},           // MOVQ (TLS), AX
		{"488d0459", "", ""},                     // LEAQ (CX)(BX*2), AX: no access
		{"0f1f440000", "", ""},                   // NOP
		{"48c7010a000000", "CX", ""},             // MOVQ $10, (CX)
		{"66c7010a00", "CX", ""},                 // MOVW $10, (CX)
		{"48b80102030405060708", "", ""},         // MOVQ $0x807060504030201, AX
		{"b801020304", "", ""},                   // MOVL $0x4030201, AX
		{"66b80102", "", ""},                     // MOVW $0x201, AX
		{"f6c101", "", ""},                       // TESTB $1, CL
		{"48f7c101000000", "", ""},               // TESTQ $1, CX
		{"48f7d9", "", ""},                       // NEGQ CX
		{"48f7e1", "", ""},                       // MULQ CX
		{"0fba6108 03", "CX", ""},                // BT $3, 8(CX)
		{"480fa3c8", "", ""},                     // BTQ CX, AX
		{"480f4401", "CX", ""},                   // CMOVQEQ (CX), AX
		{"c5f877", "", ""},                       // VZEROUPPER
		{"c5fe6f01", "CX", ""},                   // VMOVDQU (CX), Y0
		{"c4a17e6f0461", "CX", "R12"},            // VMOVDQU (CX)(R12*2), Y0
		{"c4c17a6f4110", "R9", ""},               // VMOVDQU 16(R9), X0
		{"c4e2711e01", "CX", ""},                 // a VEX instruction without immediate
		{"c4e3710f0107", "CX", ""},               // VPALIGNR $7, (CX), X1, X0
		{"c5f9704110 4e", "CX", ""},              // VPSHUFD $0x4e, 16(CX), X0
		{"62f1fe486f4102", "CX", ""},             // VMOVDQU64 128(CX), Z0
		{"62b17f496f8461 00010000", "CX", "R12"}, // VMOVDQU8 256(CX)(R12*2), K1, Z0
		{"62f3fd483a410101", "CX", ""},           // VINSERTI64X4 $1, 32(CX), Z0, Z0
		{"c4e1fb92d9", "CX", ""},                 // KMOVQ CX, K3
		{"c4c1fb92d9", "R9", ""},                 // KMOVQ R9, K3
		{"c4e1fb93cb", "", ""},                   // KMOVQ K3, CX
		{"c4e1f890d9", "", ""},                   // KMOVQ K1, K3
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(test.code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(append(code, 0xcc, 0xcc, 0xcc, 0xcc))
		if err != nil {
			t.Errorf("%s: %v", test.code, err)
			continue
		}
		var want [2]Register
		for i, name := range []string{test.base, test.index} {
			for r := Register(1); r <= Registers; r++ {
				if r.String() == name {
					want[i] = r
				}
			}
		}
		if got.Size != len(code) || got.Shown != want {
			t.Errorf("%s: %d bytes, shows %v; want %d, %v", test.code, got.Size, got.Shown, len(code), want)
		}
		for n := range code {
			if _, err := Decode(code[:n]); err == nil {
				t.Errorf("%s: the first %d bytes pass for an instruction", test.code, n)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for code, what := range map[string]string{
		"48f7f1":          "DIVQ CX",
		"48f739":          "IDIVQ (CX)",
		"f3a4":            "REP; MOVSB",
		"d7":              "XLAT",
		"0f05":            "SYSCALL",
		"480fa301":        "BTQ AX, (CX)",
		"660f3800c1":      "PSHUFB X1, X0",
		"c5f9f7c1":        "VMASKMOVDQU X1, X0",
		"c4e2718c01":      "VPMASKMOVD (CX), X1, X0",
		"c4e2712c01":      "VMASKMOVPS (CX), X1, X0",
		"c4e26990040a":    "VPGATHERDD X2, (DX)(X1*1), X0",
		"c4e2f3f5c1":      "PDEPQ CX, CX, AX",
		"c4e2f2f5c1":      "PEXTQ CX, CX, AX",
		"c4e1f89001":      "KMOVQ (CX), K0",
		"62f1754874c2":    "VPCMPEQB Z2, Z1, K0",
		"62f2f54829c2":    "VPCMPEQQ Z2, Z1, K0",
		"62f2fe4839c2":    "VPMOVQ2M Z2, K0",
		"62f3754 83ec201": "VPCMPUB $1, Z2, Z1, K0",
		"62f27d499004 0a": "VPGATHERDD (DX)(Z1*1), K1, Z0",
		"62f27d49a0040a":  "VPSCATTERDD Z0, K1, (DX)(Z1*1)",
		"62f57c4858c2":    "an instruction of a map that is not known",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if in, err := Decode(b); err == nil {
			t.Errorf("%s: %s passes, as %d bytes", code, what, in.Size)
		}
	}
}
