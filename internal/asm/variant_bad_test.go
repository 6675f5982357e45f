package asm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tests of the variant check: crafted kernels, each with one fault, and
// what the check must say about it.

var (
	narrow = variant{"narrow", 128, []string{"AES", "AVX", "PCLMULQDQ"}}
	middle = variant{"middle", 256, []string{"AES", "AVX", "AVX2", "PCLMULQDQ", "VAES", "VPCLMULQDQ"}}
	wide   = variant{"wide", 512, []string{"AES", "AVX", "AVX2", "AVX512F", "AVX512VL", "BMI2", "VAES", "VPCLMULQDQ"}}
)

// crafted assembles one function with the given body and checks it.
func crafted(t *testing.T, v variant, frame, body string) []string {
	t.Helper()
	return checkAll(v, craft(t, v, frame, body))
}

// checkAll checks functions as kernels of v.
func checkAll(v variant, functions []function) (problems []string) {
	for _, f := range functions {
		problems = append(problems, checkFunction(v, f)...)
	}
	return problems
}

// craft assembles one function with the given body.
func craft(t *testing.T, v variant, frame, body string) []function {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crafted_amd64.s")
	source := "#include \"textflag.h\"\n" +
		"DATA " + v.name + "Table<>+0(SB)/8, $1\nDATA " + v.name + "Table<>+8(SB)/8, $2\nGLOBL " + v.name + "Table<>(SB), RODATA|NOPTR, $16\n" +
		"DATA otherTable<>+0(SB)/8, $1\nDATA otherTable<>+8(SB)/8, $2\nGLOBL otherTable<>(SB), RODATA|NOPTR, $16\n" +
		"TEXT ·" + v.name + "Seal(SB), NOSPLIT, $" + frame + "\n" + body + "\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return assemble(t, file)
}

func TestVariantCheckAccepts(t *testing.T) {
	for _, test := range []struct {
		v           variant
		frame, body string
	}{
		{narrow, "0-16", "MOVQ k+0(FP), AX\nVMOVDQU (AX), X1\nVAESENC X1, X1, X2\nVPCLMULQDQ $0x11, X1, X2, X3\n" +
			"loop:\nVPSHUFB narrowTable<>(SB), X3, X3\nDECQ CX\nJNZ loop\nMOVQ CX, ret+8(FP)\nRET"},
		{narrow, "32-8", "MOVQ k+0(FP), AX\nVMOVDQU (AX), X1\nVMOVDQU X1, x-16(SP)\nVMOVDQU 16(SP), X2\nRET"},
		{middle, "0-8", "MOVQ k+0(FP), AX\nVMOVDQU (AX), Y1\nVAESENC Y1, Y1, Y2\nVPCLMULQDQ $0x11, Y1, Y2, Y3\n" +
			"TESTQ AX, AX\nJZ out\nVPXOR Y1, Y2, Y3\nVZEROUPPER\nRET\nout:\nVZEROUPPER\nMOVQ AX, CX\nRET"},
		{wide, "0-8", "MOVQ k+0(FP), AX\nKMOVQ AX, K1\nVMOVDQU64 (AX), K1, Z31\nVAESENC Z31, Z31, Z2\nBZHIQ AX, AX, AX\nVZEROUPPER\nRET"},
		{narrow, "0-0", "BSWAPQ AX\nCMOVQNE AX, CX\nIMULQ AX, CX\nMOVBLZX AX, CX\nSHLQ $3, AX, CX\nBTQ $3, AX\nSETNE AX\nRET"},
	} {
		if problems := crafted(t, test.v, test.frame, test.body); len(problems) != 0 {
			t.Errorf("%s kernel\n%s\nis refused: %v", test.v.name, test.body, problems)
		}
	}
}

func TestVariantCheckRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		v     variant
		frame string
		body  string
		says  string
	}{
		{"a masked EVEX instruction", middle, "0-0", "VPXORQ X1, X2, X3\nRET", "needs AVX512F"},
		{"a high register that makes EVEX of VEX", middle, "0-0", "VAESENC Y16, Y1, Y1\nVZEROUPPER\nRET", "Y16 exists with AVX-512 only"},
		{"a high XMM register", narrow, "0-0", "VMOVDQU64 X20, X1\nRET", "X20 exists with AVX-512 only"},
		{"ZMM", middle, "0-0", "VMOVDQU64 Z1, Z2\nVZEROUPPER\nRET", "Z1 exists with AVX-512 only"},
		{"an opmask", middle, "0-0", "KMOVQ AX, K1\nRET", "K1 exists with AVX-512 only"},
		{"bytes", middle, "0-0", "BYTE $0x62; BYTE $0xf1; BYTE $0xed; BYTE $0x08; BYTE $0xef; BYTE $0xd9\nRET", "no assembler has understood"},
		{"a long", middle, "0-0", "LONG $0x90909090\nRET", "no assembler has understood"},
		{"YMM in a narrow backend", narrow, "0-0", "VMOVDQU Y1, Y2\nVZEROUPPER\nRET", "wider than 128 bits"},
		{"AVX2 on XMM", narrow, "0-0", "VPBROADCASTQ X1, X2\nRET", "needs AVX2"},
		{"a float broadcast from a register", narrow, "0-0", "VBROADCASTSS X1, X2\nRET", "needs AVX2"},
		{"VAES in a backend without", variant{"plain", 256, []string{"AES", "AVX", "AVX2"}}, "0-0", "VAESENC Y1, Y2, Y3\nVZEROUPPER\nRET", "needs VAES"},
		{"wide VPCLMULQDQ in a backend without", variant{"plain", 256, []string{"AVX", "AVX2", "PCLMULQDQ"}}, "0-0", "VPCLMULQDQ $0, Y1, Y2, Y3\nVZEROUPPER\nRET", "needs VPCLMULQDQ"},
		{"BMI2", middle, "0-0", "MULXQ AX, BX, CX\nRET", "needs BMI2"},
		{"MOVBE", middle, "0-0", "MOVBEQQ (AX), BX\nRET", "needs MOVBE"},
		{"POPCNT", middle, "0-0", "POPCNTQ AX, BX\nRET", "needs POPCNT"},
		{"legacy SSE", narrow, "0-0", "PXOR X1, X2\nRET", "legacy SSE"},
		{"a legacy SSE move", narrow, "0-0", "MOVOU X1, X2\nRET", "legacy SSE"},
		{"legacy AES", narrow, "0-0", "AESENC X1, X2\nRET", "legacy SSE"},
		{"legacy PCLMULQDQ", narrow, "0-0", "PCLMULQDQ $0, X1, X2\nRET", "legacy SSE"},
		{"a legacy move between files", narrow, "0-0", "MOVQ AX, X2\nRET", "legacy SSE"},
		{"the frame pointer", narrow, "0-0", "XORQ BP, BP\nRET", "BP belongs to the runtime"},
		{"the frame pointer, saved", narrow, "16-0", "LEAQ (AX)(BP*1), AX\nRET", "BP belongs to the runtime"},
		{"the goroutine's register", narrow, "0-0", "MOVQ (R14), AX\nRET", "R14 belongs to the runtime"},
		{"the stack pointer", narrow, "64-0", "ANDQ $~31, SP\nRET", "SP belongs to the runtime"},
		{"a push", narrow, "0-0", "PUSHQ AX\nPOPQ AX\nRET", "PUSHQ"},
		{"a call of another backend", narrow, "0-0", "CALL ·wideSeal(SB)\nRET", "refers to asm.wideSeal"},
		{"a jump to another backend", narrow, "0-0", "JMP ·wideSeal(SB)", "refers to asm.wideSeal"},
		{"a call of its own", narrow, "0-0", "CALL ·narrowSeal(SB)\nRET", "CALL"},
		{"another backend's table", narrow, "0-0", "VPXOR otherTable<>(SB), X1, X2\nRET", "refers to otherTable"},
		{"no VZEROUPPER", middle, "0-0", "VPXOR Y1, Y2, Y3\nRET", "without VZEROUPPER"},
		{"VZEROUPPER too early", middle, "0-0", "VZEROUPPER\nVPXOR Y1, Y2, Y3\nRET", "without VZEROUPPER"},
		{"one path without VZEROUPPER", middle, "0-0", "VPXOR Y1, Y2, Y3\nTESTQ AX, AX\nJZ out\nVZEROUPPER\nout:\nRET", "without VZEROUPPER"},
		{"a loop that gets dirty again", middle, "0-0", "loop:\nVZEROUPPER\nDECQ AX\nJZ out\nVPXOR Y1, Y2, Y3\nJMP loop\nout:\nVPADDD Y1, Y1, Y1\nRET", "without VZEROUPPER"},
		{"ZMM and no VZEROUPPER", wide, "0-0", "VPXORQ Z1, Z2, Z3\nRET", "without VZEROUPPER"},
		{"an instruction the table lacks", middle, "0-0", "VFMADD132PS X1, X2, X3\nRET", "does not know"},
	} {
		problems := crafted(t, test.v, test.frame, test.body)
		if len(problems) == 0 {
			t.Errorf("%s is accepted:\n%s", test.name, test.body)
			continue
		}
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, test.says) }) {
			t.Errorf("%s: complaints %q, none of which says %q", test.name, problems, test.says)
		}
	}
}

// TestVariantCheckRefusesZeroingWithoutMask takes the opmask from the bytes,
// since the assembler does not encode such an instruction.
func TestVariantCheckRefusesZeroingWithoutMask(t *testing.T) {
	for _, test := range []struct {
		body    string
		refused bool // without its opmask
	}{
		{"VMOVDQU8.Z (AX), K1, Z1", true},
		{"VMOVDQU64.Z (AX), K7, X1", true},
		{"VPXORQ.Z Y17, Y2, K4, Y3", true},
		{"VPSHUFB.Z Z1, Z2, K2, Z3", true},
		{"VMOVDQU8 (AX), K1, Z1", false}, // merges; without an opmask, moves all
		{"VPXORQ Y17, Y2, K4, Y3", false},
	} {
		functions := craft(t, wide, "0-0", test.body+"\nVZEROUPPER\nRET")
		if problems := checkAll(wide, functions); len(problems) != 0 {
			t.Errorf("%s is refused: %q", test.body, problems)
		}
		code := functions[0].body[0].code
		if code[0] != 0x62 || code[3]&7 == 0 {
			t.Fatalf("%s: % x is no EVEX instruction with an opmask", test.body, code)
		}
		code[3] &^= 7
		problems := checkAll(wide, functions)
		refused := len(problems) == 1 && strings.Contains(problems[0], "zeroes without an opmask")
		if refused != test.refused || !refused && len(problems) != 0 {
			t.Errorf("%s, its opmask taken: % x: complaints %q, want refusal %v", test.body, code, problems, test.refused)
		}
	}
}

func TestVariantCheckNames(t *testing.T) {
	if problems := crafted(t, narrow, "0-0", "RET\nTEXT ·wideOpen(SB), NOSPLIT, $0-0\nRET"); len(problems) != 1 || !strings.Contains(problems[0], "wideOpen") {
		t.Errorf("a kernel of another backend in the file: %q", problems)
	}
}

func TestCheckRequires(t *testing.T) {
	const source = "// func narrowSeal()\n// Requires: AES, AVX\nTEXT ...\n// Requires: AVX, PCLMULQDQ\n"
	if problems := checkRequires(narrow, source); len(problems) != 0 {
		t.Errorf("lists that agree: %q", problems)
	}
	for _, test := range []struct{ source, says string }{
		{source + "// Requires: AVX2\n", "requires AVX2"},
		{source + "// Requires: AVX512F, AVX512VL\n", "requires AVX512VL"},
		{strings.ReplaceAll(source, ", PCLMULQDQ", ""), "declares PCLMULQDQ"},
		{"", "declares AES"},
	} {
		if problems := checkRequires(narrow, test.source); !strings.Contains(strings.Join(problems, "; "), test.says) {
			t.Errorf("%q: %q, want something that says %q", test.source, problems, test.says)
		}
	}
}

func TestCheckKernels(t *testing.T) {
	both := map[string][]string{"narrow": {"narrowSeal", "narrowOpen"}, "wide": {"wideOpen", "wideSeal"}}
	declared := []string{"narrowSeal", "narrowOpen", "wideSeal", "wideOpen"}
	if problems := checkKernels(both, declared); len(problems) != 0 {
		t.Errorf("complete backends: %q", problems)
	}
	for _, test := range []struct {
		name      string
		functions map[string][]string
		declared  []string
		says      string
	}{
		{"a kernel less", map[string][]string{"narrow": {"narrowSeal", "narrowOpen"}, "wide": {"wideSeal"}}, declared, "wide has no Open"},
		{"a kernel more", map[string][]string{"narrow": {"narrowSeal", "narrowOpen", "narrowHash"}, "wide": {"wideSeal", "wideOpen"}}, declared, "wide has no Hash"},
		{"no declaration", both, declared[1:], "narrowSeal has no declaration"},
		{"no definition", both, append(declared, "wideHash"), "wideHash is declared"},
	} {
		if problems := checkKernels(test.functions, test.declared); !strings.Contains(strings.Join(problems, "; "), test.says) {
			t.Errorf("%s: %q, want something that says %q", test.name, problems, test.says)
		}
	}
}

func TestCheckDispatch(t *testing.T) {
	const source = `package asm
func (k *Key) hash() {
	switch k.backend {
	case AESNI:
		aesniHash(k)
	case VAES:
		vaesHash(k)
	case AVX512:
		avx512Hash(k)
	default:
		panic(noKernel)
	}
}
func (k *Key) open() (ok bool) {
	var o int
	switch k.backend {
	case AESNI:
		o = aesniOpen(k)
	case VAES:
		o = vaesOpen(k)
	case AVX512:
		o = avx512Open(k)
	default:
		panic(noKernel)
	}
	return o == 1
}
`
	declared := []string{"aesniHash", "vaesHash", "avx512Hash", "aesniOpen", "vaesOpen", "avx512Open"}
	if problems := checkDispatch(source, declared); len(problems) != 0 {
		t.Errorf("methods as they should be: %q", problems)
	}
	for _, test := range []struct{ name, old, new, says string }{
		{"another backend's kernel", "vaesHash(k)", "aesniHash(k)", "hash: case VAES calls aesniHash"},
		{"the same as a value", "vaesOpen(k)", "aesniOpen(k)", "open: case VAES calls aesniOpen"},
		{"a wider backend's kernel", "aesniHash(k)", "avx512Hash(k)", "hash: case AESNI calls avx512Hash"},
		{"two kernels", "vaesHash(k)", "vaesHash(k); vaesHash(k)", "hash: case VAES calls [vaesHash vaesHash]"},
		{"no kernel", "vaesHash(k)", "", "hash: case VAES calls []"},
		{"something else too", "vaesHash(k)", "vaesHash(k); k.other()", "has 2 statements"},
		{"the backend's other kernel", "vaesHash(k)", "vaesOpen(k)", "hash: case VAES calls vaesOpen, another one calls Hash"},
		{"a kernel that nobody calls", "vaesHash(k)", "aesniHash(k)", "vaesHash is called in no case"},
		{"a backend less", "	case VAES:\n		vaesHash(k)\n", "", "hash: no case for vaes"},
		{"two backends", "case VAES:", "case VAES, AVX512:", "hash: a case that is not one backend"},
		{"a case for what is no backend", "case VAES:", "case SSE:", "hash: a case that is not one backend"},
		{"no panic", "panic(noKernel)", "", "hash: its default does not panic"},
		{"a kernel in the default", "panic(noKernel)", "aesniHash(k)", "hash: its default does not panic"},
		{"no default", "	default:\n		panic(noKernel)\n", "", "hash: its default does not panic"},
		{"a call before", "	switch k.backend", "	aesniHash(k)\n	switch k.backend", "hash: 1 calls of kernels are not in a case"},
		{"another choice", "switch k.backend", "switch Selected()", "hash: a switch that is not on the key's backend"},
	} {
		bad := strings.Replace(source, test.old, test.new, 1)
		if problems := checkDispatch(bad, declared); !strings.Contains(strings.Join(problems, "; "), test.says) {
			t.Errorf("%s: %q, want something that says %q", test.name, problems, test.says)
		}
	}
}
