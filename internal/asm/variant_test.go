package asm

// The variant check: it reads what the generator wrote, not what it meant.
//
//   - Every backend has every kernel, and each kernel has a Go declaration.
//   - Kernels call, and read tables of, their own backend only, and a method that
//     chooses among kernels calls that of the key's backend.
//   - Every encoded instruction belongs to a feature that the backend declares,
//     and so does every feature that the generator's "Requires:" lines name.
//   - No EVEX instruction zeroes without an opmask.
//   - No kernel uses the frame pointer, the goroutine's register or the stack
//     pointer, mixes legacy SSE with VEX, or returns with dirty upper halves.
//
// It needs no disassembler: go tool asm -S prints each instruction beside its
// offset, and then the bytes. It runs on every platform.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A variant is what the check must know about a backend.
type variant struct {
	name     string   // its kernels and tables begin with it
	bits     int      // width of the widest register it may touch
	features []string // in the generator's spelling
}

// An instruction is one line of the assembler's listing, with its bytes.
type instruction struct {
	offset, line int
	op           string
	operands     string
	code         []byte
}

func (i instruction) String() string {
	return strings.TrimSpace(fmt.Sprintf("line %d: %s %s", i.line, i.op, i.operands))
}

// A function is one TEXT symbol.
type function struct {
	name string // without the package
	line int    // of TEXT
	body []instruction
	refs []string // symbols that its code refers to
}

// widths is the widest register that each backend may touch, in bits.
var widths = map[Backend]int{AESNI: 128, VAES: 256, AVX512: 512}

// without maps each feature that a predicate can ask for, in the generator's
// spelling, to what takes it from a processor.
var without = map[string]func(p *processor){
	"AES":        func(p *processor) { p.aes = false },
	"PCLMULQDQ":  func(p *processor) { p.pclmulqdq = false },
	"SSSE3":      func(p *processor) { p.ssse3 = false },
	"SSE4.1":     func(p *processor) { p.sse41 = false },
	"AVX":        func(p *processor) { p.avx = false },
	"AVX2":       func(p *processor) { p.avx2 = false },
	"BMI2":       func(p *processor) { p.bmi2 = false },
	"AVX512F":    func(p *processor) { p.avx512f = false },
	"AVX512BW":   func(p *processor) { p.avx512bw = false },
	"AVX512DQ":   func(p *processor) { p.avx512dq = false },
	"AVX512VL":   func(p *processor) { p.avx512vl = false },
	"VAES":       func(p *processor) { p.leaf7 &^= leaf7VAES },
	"VPCLMULQDQ": func(p *processor) { p.leaf7 &^= leaf7VPCLMULQDQ },
}

// allFeatures is a processor that has them all.
var allFeatures = processor{
	aes: true, pclmulqdq: true, ssse3: true, sse41: true, avx: true, avx2: true, bmi2: true,
	avx512: true, avx512f: true, avx512bw: true, avx512dq: true, avx512vl: true,
	osxsave: true, xcr0: ^uint32(0), leaf7: ^uint32(0),
}

// declaredFeatures asks b's predicate itself for its list: it declares what it
// cannot do without.
func declaredFeatures(b Backend) (features []string) {
	for name, remove := range without {
		p := allFeatures
		remove(&p)
		if !p.can().has(b) {
			features = append(features, name)
		}
	}
	slices.Sort(features)
	return features
}

// TestVariants runs the check on all backends of the tree, on any machine.
func TestVariants(t *testing.T) {
	functions := make(map[string][]string)
	files := []string{"cpu_amd64.s"} // asks the processor, has no kernel
	for b := Portable + 1; b < backends; b++ {
		v := variant{b.String(), widths[b], declaredFeatures(b)}
		t.Logf("%s declares %v", v.name, v.features)
		if v.bits == 0 || len(v.features) == 0 {
			t.Errorf("%s: %d bits, features %v: the check's tables lack this backend", v.name, v.bits, v.features)
			continue
		}
		if !allFeatures.can().has(b) {
			t.Errorf("%s: its predicate asks for a feature that the check does not know", v.name)
		}
		file := v.name + "_amd64.s"
		files = append(files, file)
		source, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, problem := range checkRequires(v, string(source)) {
			t.Error(problem)
		}
		for _, f := range assemble(t, file) {
			functions[v.name] = append(functions[v.name], f.name)
			for _, problem := range checkFunction(v, f) {
				t.Error(problem)
			}
		}
	}
	all, err := filepath.Glob("*.s")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if !slices.Contains(files, file) {
			t.Errorf("%s belongs to no backend, so nothing has checked it", file)
		}
	}
	declared := declaredKernels(t, "kernels_amd64.go")
	for _, problem := range checkKernels(functions, declared) {
		t.Error(problem)
	}
	source, err := os.ReadFile("kernels_amd64.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkDispatch(string(source), declared) {
		t.Error(problem)
	}
}

// checkDispatch returns what is wrong with the functions of a Go source that call
// kernels, whose names are declared. Each has a switch on the key's backend, with a
// case for every backend that calls nothing but that backend's kernel, the same one
// in all cases, and a default that panics; and every kernel is called somewhere.
func checkDispatch(source string, declared []string) (problems []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	constants := map[string]Backend{"AESNI": AESNI, "VAES": VAES, "AVX512": AVX512}
	called := make(map[string]bool)
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		complain := func(format string, args ...any) {
			problems = append(problems, fn.Name.Name+": "+fmt.Sprintf(format, args...))
		}
		// Calls of kernels outside of such a switch are left over.
		left := len(callsOf(fn.Body, declared))
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			s, ok := n.(*ast.SwitchStmt)
			if !ok || len(callsOf(s, declared)) == 0 {
				return true
			}
			if tag, ok := s.Tag.(*ast.SelectorExpr); !ok || tag.Sel.Name != "backend" {
				complain("a switch that is not on the key's backend calls kernels")
				return false
			}
			kernel := "" // without the backend's name
			has := make(map[Backend]bool)
			panics := false
			for _, clause := range s.Body.List {
				c := clause.(*ast.CaseClause)
				calls := callsOf(c, declared)
				left -= len(calls)
				if c.List == nil {
					panics = len(c.Body) == 1 && isCallOf(c.Body[0], "panic")
					continue
				}
				name, ok := c.List[0].(*ast.Ident)
				if !ok || len(c.List) != 1 || constants[name.Name] == Portable {
					complain("a case that is not one backend")
					continue
				}
				b := constants[name.Name]
				has[b] = true
				if len(calls) != 1 || len(c.Body) != 1 {
					complain("case %s calls %v and has %d statements, want one kernel", name, calls, len(c.Body))
					continue
				}
				rest, own := strings.CutPrefix(calls[0], b.String())
				if !own {
					complain("case %s calls %s", name, calls[0])
				}
				if kernel == "" {
					kernel = rest
				}
				if rest != kernel {
					complain("case %s calls %s, another one calls %s", name, calls[0], kernel)
				}
				called[calls[0]] = true
			}
			for _, b := range constants {
				if !has[b] {
					complain("no case for %v", b)
				}
			}
			if !panics {
				complain("its default does not panic")
			}
			return false
		})
		if left != 0 {
			complain("%d calls of kernels are not in a case", left)
		}
	}
	for _, name := range declared {
		if !called[name] {
			problems = append(problems, name+" is called in no case")
		}
	}
	slices.Sort(problems)
	return problems
}

// callsOf returns the names of the functions in names that n mentions, as calls or
// otherwise.
func callsOf(n ast.Node, names []string) (calls []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && slices.Contains(names, id.Name) {
			calls = append(calls, id.Name)
		}
		return true
	})
	return calls
}

// isCallOf reports whether s is a call of the named function.
func isCallOf(s ast.Stmt, name string) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == name
}

// declaredKernels returns the functions without a body in a Go file. Each must
// be marked noescape, or every call would send its buffers to the heap.
func declaredKernels(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body != nil {
			continue
		}
		names = append(names, fn.Name.Name)
		marked := fn.Doc != nil && slices.ContainsFunc(fn.Doc.List, func(c *ast.Comment) bool { return c.Text == "//go:noescape" })
		if !marked {
			t.Errorf("%s: %s is not marked go:noescape", file, fn.Name.Name)
		}
	}
	return names
}

// assemble returns the functions of an assembly file.
func assemble(t testing.TB, file string) []function {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	cmd := exec.Command("go", "tool", "asm", "-p", "asm", "-S", "-I", filepath.Join(strings.TrimSpace(string(root)), "pkg", "include"),
		"-o", filepath.Join(t.TempDir(), "out.o"), file)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	listing, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go tool asm %s: %v\n%s", file, err, listing)
	}
	functions, err := parseListing(string(listing))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return functions
}

var (
	functionLine    = regexp.MustCompile(`^asm\.(\S+) STEXT `)
	dataLine        = regexp.MustCompile(`^\S+ S?[A-Z]+ .*size=`)
	instructionLine = regexp.MustCompile(`^\t0x([0-9a-f]+) \d+ \([^)]*:(\d+)\)\t(\S+)\t?(.*)$`)
	bytesLine       = regexp.MustCompile(`^\t0x([0-9a-f]+)((?: [0-9a-f]{2})+)\b`)
	relocationLine  = regexp.MustCompile(`^\trel \S+ t=(\S+) (\S+)`)
)

// parseListing reads the output of go tool asm -S.
func parseListing(listing string) ([]function, error) {
	var functions []function
	var code []byte
	inText := false
	finish := func() error {
		if !inText {
			return nil
		}
		f := &functions[len(functions)-1]
		if len(f.body) == 0 || f.body[0].op != "TEXT" {
			return fmt.Errorf("%s: the listing does not begin with TEXT", f.name)
		}
		f.line = f.body[0].line
		// Pseudo-instructions share the offset of what follows them.
		var body []instruction
		for i, in := range f.body {
			end := len(code)
			if i+1 < len(f.body) {
				end = f.body[i+1].offset
			}
			if in.offset > end || end > len(code) {
				return fmt.Errorf("%s: the listing has no bytes for %v", f.name, in)
			}
			in.code = code[in.offset:end]
			if len(in.code) > 0 {
				body = append(body, in)
			}
		}
		f.body = body
		return nil
	}
	for text := range strings.Lines(listing) {
		text = strings.TrimRight(text, "\n")
		switch {
		case functionLine.MatchString(text):
			if err := finish(); err != nil {
				return nil, err
			}
			functions = append(functions, function{name: functionLine.FindStringSubmatch(text)[1]})
			code, inText = nil, true
		case dataLine.MatchString(text):
			if err := finish(); err != nil {
				return nil, err
			}
			inText = false
		case !inText:
		case instructionLine.MatchString(text):
			m := instructionLine.FindStringSubmatch(text)
			offset, err := strconv.ParseInt(m[1], 16, 32)
			if err != nil {
				return nil, err
			}
			line, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, err
			}
			f := &functions[len(functions)-1]
			f.body = append(f.body, instruction{offset: int(offset), line: line, op: m[3], operands: m[4]})
		case bytesLine.MatchString(text):
			m := bytesLine.FindStringSubmatch(text)
			for _, h := range strings.Fields(m[2]) {
				b, err := strconv.ParseUint(h, 16, 8)
				if err != nil {
					return nil, err
				}
				code = append(code, byte(b))
			}
		case relocationLine.MatchString(text):
			m := relocationLine.FindStringSubmatch(text)
			f := &functions[len(functions)-1]
			symbol, _, _ := strings.Cut(m[2], "+")
			f.refs = append(f.refs, symbol)
		default:
			return nil, fmt.Errorf("the listing has a line that the check does not know: %q", text)
		}
	}
	if err := finish(); err != nil {
		return nil, err
	}
	if len(functions) == 0 {
		return nil, fmt.Errorf("no function in the listing")
	}
	for _, f := range functions {
		if len(f.body) == 0 {
			return nil, fmt.Errorf("%s: no instruction in the listing", f.name)
		}
	}
	return functions, nil
}

// checkFunction returns what is wrong with a kernel of v.
func checkFunction(v variant, f function) (problems []string) {
	complain := func(format string, args ...any) {
		problems = append(problems, f.name+": "+fmt.Sprintf(format, args...))
	}
	if !strings.HasPrefix(f.name, v.name) {
		complain("the name does not begin with %q", v.name)
	}
	for _, symbol := range f.refs {
		if !strings.HasPrefix(strings.TrimPrefix(symbol, "asm."), v.name) {
			complain("refers to %s, which is not the backend's own", symbol)
		}
	}
	for i, in := range f.body {
		if f.frameCode(i) {
			continue
		}
		if in.op == "BYTE" || in.op == "WORD" || in.op == "LONG" || in.op == "QUAD" {
			complain("%v: bytes that no assembler has understood", in)
			continue
		}
		if in.op == "CALL" || in.op == "SYSCALL" || strings.HasPrefix(in.op, "PUSH") || strings.HasPrefix(in.op, "POP") {
			complain("%v: no such instruction in a kernel", in)
		}
		for _, register := range registersOf(in.operands) {
			switch n := registerNumber(register); {
			case register == "BP", register == "R14":
				complain("%v: %s belongs to the runtime", in, register)
			case register == "SP" && !stackSlot.MatchString(in.operands):
				complain("%v: SP belongs to the runtime", in)
			case register[0] == 'K' || register[0] == 'Z' || register[0] == 'X' && n > 15 || register[0] == 'Y' && n > 15:
				if v.bits < 512 {
					complain("%v: %s exists with AVX-512 only", in, register)
				}
			case register[0] == 'Y' && v.bits < 256:
				complain("%v: %s is wider than %d bits", in, register, v.bits)
			}
		}
		features, err := featuresOf(in.code)
		if err != nil {
			complain("%v: % x: %v", in, in.code, err)
		}
		for _, feature := range features {
			if !slices.Contains(v.features, feature) {
				complain("%v: % x needs %s, which the backend does not declare", in, in.code, feature)
			}
		}
	}
	return append(problems, checkUpperHalves(f)...)
}

// frameCode reports whether instruction i is the assembler's own: it sets up
// and leaves the frame, saving BP, on the lines of TEXT and of each RET.
func (f function) frameCode(i int) bool {
	in := f.body[i]
	if in.op != "PUSHQ" && in.op != "POPQ" && in.op != "ADDQ" && in.op != "SUBQ" && in.op != "MOVQ" && in.op != "LEAQ" {
		return false
	}
	if in.line == f.line {
		return true
	}
	for _, next := range f.body[i+1:] {
		if next.line != in.line {
			return false
		}
		if next.op == "RET" {
			return true
		}
	}
	return false
}

var (
	registerName = regexp.MustCompile(`\b(AX|BX|CX|DX|SI|DI|BP|SP|R\d+|[XYZ]\d+|K[0-7])\b`)
	// stackSlot is how the listing writes a variable of the frame.
	stackSlot = regexp.MustCompile(`^[^()]*\(SP\)|[ ,][^ (),]*\(SP\)`)
)

func registersOf(operands string) []string { return registerName.FindAllString(operands, -1) }

// registerNumber returns the number of a vector register, else -1.
func registerNumber(register string) int {
	n, err := strconv.Atoi(register[1:])
	if err != nil {
		return -1
	}
	return n
}

// checkUpperHalves follows every path through f and complains about returns
// that can be reached after a YMM or ZMM register was written and no
// VZEROUPPER followed, and about branches that leave the function.
func checkUpperHalves(f function) (problems []string) {
	index := make(map[int]int)
	for i, in := range f.body {
		index[in.offset] = i
	}
	// A state is an instruction and whether upper halves may be dirty before it.
	type state struct {
		i     int
		dirty bool
	}
	seen := make(map[state]bool)
	work := []state{{0, false}}
	complained := make(map[int]bool)
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		in := f.body[s.i]
		dirty := s.dirty
		switch {
		case in.op == "VZEROUPPER" || in.op == "VZEROALL":
			dirty = false
		case slices.ContainsFunc(registersOf(in.operands), func(r string) bool { return r[0] == 'Y' || r[0] == 'Z' }):
			dirty = true
		}
		if in.op == "RET" {
			if dirty && !complained[s.i] {
				complained[s.i] = true
				problems = append(problems, fmt.Sprintf("%s: %v: can be reached without VZEROUPPER", f.name, in))
			}
			continue
		}
		if in.op[0] == 'J' {
			offset, err := strconv.Atoi(in.operands)
			to, ok := index[offset]
			if err != nil || !ok {
				problems = append(problems, fmt.Sprintf("%s: %v: leaves the function", f.name, in))
				continue
			}
			work = append(work, state{to, dirty})
			if in.op == "JMP" {
				continue
			}
		}
		if s.i+1 == len(f.body) {
			problems = append(problems, fmt.Sprintf("%s: runs past its end", f.name))
			continue
		}
		work = append(work, state{s.i + 1, dirty})
	}
	return problems
}

// featuresOf returns the CPU features that an encoded instruction needs beyond
// those of every amd64, from the opcode maps of the Intel SDM, volume 2,
// appendix A. Opcodes that no kernel has needed yet are errors: the table is
// to be extended with thought, not guessed around.
func featuresOf(code []byte) ([]string, error) {
	prefix66, prefixF3, prefixF2 := false, false, false
	for len(code) > 0 {
		switch b := code[0]; {
		case b == 0x66:
			prefix66 = true
		case b == 0xf3:
			prefixF3 = true
		case b == 0xf2:
			prefixF2 = true
		case b&0xf0 == 0x40: // REX
		default:
			goto opcode
		}
		code = code[1:]
	}
opcode:
	if len(code) == 0 {
		return nil, fmt.Errorf("nothing but prefixes")
	}
	at := func(i int) byte {
		if i < len(code) {
			return code[i]
		}
		return 0
	}
	switch code[0] {
	case 0xc5: // two-byte VEX
		return vexFeatures(1, at(2), at(1)>>2&1, at(1)&3, at(3))
	case 0xc4: // three-byte VEX
		return vexFeatures(int(at(1)&31), at(3), at(2)>>2&1, at(2)&3, at(4))
	case 0x62: // EVEX
		return evexFeatures(int(at(1)&7), at(4), at(3))
	case 0x0f:
	default:
		return nil, nil // one-byte opcodes are all baseline
	}
	switch op := at(1); {
	case op == 0x38 || op == 0x3a:
		switch third := at(2); {
		case op == 0x38 && (third == 0xf0 || third == 0xf1) && !prefixF2:
			return []string{"MOVBE"}, nil
		}
		return nil, fmt.Errorf("a legacy SSE instruction")
	case op == 0xb8 && prefixF3:
		return []string{"POPCNT"}, nil
	case op == 0xbc && prefixF3:
		return []string{"BMI"}, nil
	case op == 0xbd && prefixF3:
		return []string{"LZCNT"}, nil
	case op >= 0x40 && op <= 0x4f, // CMOVcc
		op >= 0x80 && op <= 0x9f,                                   // Jcc, SETcc
		op == 0xa3, op == 0xab, op == 0xb3, op == 0xbb, op == 0xba, // BT and its kin
		op == 0xa4, op == 0xa5, op == 0xac, op == 0xad, // SHLD, SHRD
		op == 0xaf,                                                             // IMUL
		op == 0xb6, op == 0xb7, op == 0xbe, op == 0xbf, op == 0xbc, op == 0xbd, // MOVZX, MOVSX, BSF, BSR
		op >= 0xc8 && op <= 0xcf,                                                  // BSWAP
		op == 0x0b, op == 0x1f, op == 0x18 && !prefix66 && !prefixF2 && !prefixF3: // UD2, NOP, PREFETCH
		return nil, nil
	}
	return nil, fmt.Errorf("a legacy SSE instruction, or one that the check does not know")
}

// vexFeatures classifies a VEX instruction: opcode map, opcode, vector length
// (0 for 128 bits, 1 for 256), implied prefix, and ModRM.
func vexFeatures(opcodeMap int, op, length, prefix, modRM byte) ([]string, error) {
	avx := []string{"AVX"}
	avx2 := []string{"AVX2"}
	integer := avx // integer instructions came to 256 bits with AVX2
	if length == 1 {
		integer = avx2
	}
	in := func(low, high byte) bool { return low <= op && op <= high }
	switch opcodeMap {
	case 1:
		switch {
		case in(0x10, 0x17), in(0x28, 0x2f), in(0x50, 0x5f), op == 0x6f, op == 0x7f, op == 0x77, op == 0xc6, op == 0xe7, op == 0xf0,
			op == 0x6e, op == 0x7e, op == 0xd6, op == 0xc4, op == 0xc5:
			return avx, nil
		case in(0x60, 0x6d), in(0x70, 0x76), in(0xd1, 0xd5), in(0xd7, 0xdf), in(0xe0, 0xe5), in(0xe8, 0xef), in(0xf1, 0xf6), in(0xf8, 0xfe):
			return integer, nil
		case in(0x41, 0x4b), in(0x90, 0x93), op == 0x98, op == 0x99:
			return []string{"AVX512F"}, nil // opmask registers
		}
	case 2:
		switch {
		case in(0xdb, 0xdf) && length == 0:
			return []string{"AES", "AVX"}, nil
		case in(0xdc, 0xdf):
			return []string{"VAES"}, nil
		case op == 0x18 || op == 0x19: // broadcasts of floats: from a register only with AVX2
			if modRM>>6 == 3 {
				return avx2, nil
			}
			return avx, nil
		case in(0x0c, 0x0f), op == 0x17, op == 0x1a, in(0x2c, 0x2f):
			return avx, nil
		case in(0x00, 0x0b), in(0x1c, 0x1e), in(0x20, 0x25), in(0x28, 0x2b), in(0x30, 0x35), in(0x37, 0x41):
			return integer, nil
		case op == 0x16, op == 0x36, in(0x45, 0x47), in(0x58, 0x5a), op == 0x78, op == 0x79, op == 0x8c, op == 0x8e, in(0x90, 0x93):
			return avx2, nil
		case op == 0xf2, op == 0xf3, op == 0xf7 && prefix == 0:
			return []string{"BMI"}, nil
		case op == 0xf5, op == 0xf6, op == 0xf7:
			return []string{"BMI2"}, nil
		}
	case 3:
		switch {
		case op == 0x44 && length == 0:
			return []string{"PCLMULQDQ", "AVX"}, nil
		case op == 0x44:
			return []string{"VPCLMULQDQ"}, nil
		case op == 0xdf:
			return []string{"AES", "AVX"}, nil
		case op == 0xf0:
			return []string{"BMI2"}, nil
		case in(0x30, 0x33):
			return []string{"AVX512F"}, nil // shifts of opmask registers
		case in(0x00, 0x02), op == 0x38, op == 0x39, op == 0x46:
			return avx2, nil
		case in(0x04, 0x06), in(0x08, 0x0d), in(0x14, 0x19), in(0x20, 0x22), op == 0x4a, op == 0x4b:
			return avx, nil
		case op == 0x0e, op == 0x0f, op == 0x4c:
			return integer, nil
		}
	}
	return nil, fmt.Errorf("a VEX instruction that the check does not know: map %d, opcode %#x", opcodeMap, op)
}

// evexFeatures names what all EVEX instructions need, from the opcode map, the
// opcode and the last byte of the prefix (zeroing, length, opmask). Which of BW
// and DQ one needs is left to the generator's own lists: every processor that
// has one of them and VAES has both.
//
// Zeroing without an opmask is an error: processors raise #UD (Intel SDM,
// volume 2, on EVEX encoding), emulators may not.
func evexFeatures(opcodeMap int, op, last byte) ([]string, error) {
	if last&0x80 != 0 && last&7 == 0 {
		return nil, fmt.Errorf("an EVEX instruction that zeroes without an opmask")
	}
	features := []string{"AVX512F"}
	if last>>5&3 < 2 {
		features = append(features, "AVX512VL")
	}
	switch {
	case opcodeMap == 2 && 0xdc <= op && op <= 0xdf:
		features = append(features, "VAES")
	case opcodeMap == 3 && op == 0x44:
		features = append(features, "VPCLMULQDQ")
	}
	return features, nil
}

var requiresLine = regexp.MustCompile(`(?m)^// Requires: (.*)$`)

// impliedFeatures are what a list may have or lack. Every amd64 processor that
// Go supports has CMOV, and every one with AVX has the other two; a predicate
// may still ask for them, so that GODEBUG=cpu.ssse3=off is heeded.
var impliedFeatures = []string{"CMOV", "SSSE3", "SSE4.1"}

// checkRequires compares the generator's lists in source with v's features:
// what is required must be declared, and what is declared must be required.
func checkRequires(v variant, source string) (problems []string) {
	required := make(map[string]bool)
	for _, m := range requiresLine.FindAllStringSubmatch(source, -1) {
		for feature := range strings.SplitSeq(m[1], ",") {
			required[strings.TrimSpace(feature)] = true
		}
	}
	for feature := range required {
		if !slices.Contains(v.features, feature) && !slices.Contains(impliedFeatures, feature) {
			problems = append(problems, fmt.Sprintf("%s: the generator requires %s, which the backend does not declare", v.name, feature))
		}
	}
	for _, feature := range v.features {
		if !required[feature] && !slices.Contains(impliedFeatures, feature) {
			problems = append(problems, fmt.Sprintf("%s: the backend declares %s, which no kernel requires", v.name, feature))
		}
	}
	slices.Sort(problems)
	return problems
}

// checkKernels compares the kernels of all backends, by their names without
// the backend's, and each backend's with its declarations in Go.
func checkKernels(functions map[string][]string, declared []string) (problems []string) {
	all := make(map[string]bool)
	has := make(map[string]bool)
	for backend, names := range functions {
		for _, name := range names {
			has[name] = true
			all[strings.TrimPrefix(name, backend)] = true
		}
	}
	for kernel := range all {
		for backend := range functions {
			if !has[backend+kernel] {
				problems = append(problems, fmt.Sprintf("%s has no %s", backend, kernel))
			}
		}
	}
	for name := range has {
		if !slices.Contains(declared, name) {
			problems = append(problems, fmt.Sprintf("%s has no declaration in Go", name))
		}
	}
	for _, name := range declared {
		if !has[name] {
			problems = append(problems, fmt.Sprintf("%s is declared in Go and nowhere defined", name))
		}
	}
	slices.Sort(problems)
	return problems
}
