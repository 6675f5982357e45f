package asm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// full is a processor on which everything works.
var full = processor{
	aes: true, pclmulqdq: true, ssse3: true, sse41: true, avx: true, avx2: true, bmi2: true,
	avx512: true, avx512f: true, avx512bw: true, avx512vl: true, avx512dq: true,
	osxsave: true,
	xcr0:    0xe7,
	leaf7:   leaf7VAES | leaf7VPCLMULQDQ,
	intel:   true, family: 6, model: 0xcf, // Emerald Rapids
}

// TestCan takes one thing at a time from a processor that has all.
func TestCan(t *testing.T) {
	all, vaes, aesni, none := of(AESNI, VAES, AVX512), of(AESNI, VAES), of(AESNI), of()
	for _, test := range []struct {
		name   string
		change func(p *processor)
		want   set
	}{
		{"nothing", func(p *processor) {}, all},

		// What golang.org/x/sys/cpu says: GODEBUG=cpu.aes=off and the like.
		{"AES", func(p *processor) { p.aes = false }, none},
		{"PCLMULQDQ", func(p *processor) { p.pclmulqdq = false }, none},
		{"SSSE3", func(p *processor) { p.ssse3 = false }, none},
		{"SSE4.1", func(p *processor) { p.sse41 = false }, none},
		{"AVX", func(p *processor) { p.avx = false }, none},
		{"AVX2", func(p *processor) { p.avx2 = false }, aesni},
		{"BMI2", func(p *processor) { p.bmi2 = false }, vaes},
		{"AVX512F", func(p *processor) { p.avx512f = false }, vaes},
		{"AVX512BW", func(p *processor) { p.avx512bw = false }, vaes},
		{"AVX512DQ", func(p *processor) { p.avx512dq = false }, vaes},
		{"AVX512VL", func(p *processor) { p.avx512vl = false }, vaes},

		// Bits of CPUID leaf 7, and neighbours of theirs that do not count.
		{"VAES", func(p *processor) { p.leaf7 &^= 1 << 9 }, aesni},
		{"VPCLMULQDQ", func(p *processor) { p.leaf7 &^= 1 << 10 }, aesni},
		{"leaf 7", func(p *processor) { p.leaf7 = 0 }, aesni},
		{"all but bits 9 and 10", func(p *processor) { p.leaf7 = ^uint32(1<<9 | 1<<10) }, aesni},
		{"all but bit 9", func(p *processor) { p.leaf7 = ^uint32(1 << 9) }, aesni},
		{"all but bit 10", func(p *processor) { p.leaf7 = ^uint32(1 << 10) }, aesni},

		// What the operating system saves: the processor has it all, but it
		// must not be used. XCR0 bits: 0 x87, 1 XMM, 2 YMM, 5 to 7 AVX-512.
		{"OSXSAVE", func(p *processor) { p.osxsave = false }, none},
		{"XCR0 of nothing", func(p *processor) { p.xcr0 = 0 }, none},
		{"XCR0 of x87", func(p *processor) { p.xcr0 = 1 }, none},
		{"XCR0 without YMM", func(p *processor) { p.xcr0 = 3 }, none},
		{"XCR0 without XMM", func(p *processor) { p.xcr0 = 5 }, none},
		{"XCR0 of AVX-512 without YMM", func(p *processor) { p.xcr0 = 0xe3 }, none},
		{"XCR0 of XMM and YMM", func(p *processor) { p.xcr0 = 6 }, vaes},
		{"XCR0 with x87", func(p *processor) { p.xcr0 = 7 }, vaes},
		{"XCR0 without opmasks", func(p *processor) { p.xcr0 = 0xc7 }, vaes},
		{"XCR0 without upper halves of ZMM", func(p *processor) { p.xcr0 = 0xa7 }, vaes},
		{"XCR0 without ZMM 16 to 31", func(p *processor) { p.xcr0 = 0x67 }, vaes},
		{"XCR0 without x87", func(p *processor) { p.xcr0 = 0xe6 }, all},
	} {
		p := full
		test.change(&p)
		if got := p.can(); got != test.want {
			t.Errorf("without %s: can run %b, want %b", test.name, got, test.want)
		}
		if got := p.choose(); got&^p.can() != 0 {
			t.Errorf("without %s: chooses %b, which cannot all run", test.name, got)
		}
	}
	if got := (processor{}).can(); got != none {
		t.Errorf("no processor at all can run %b", got)
	}
}

// TestDetect asks processors that are made up what they are. Registers that do not
// count hold ones.
func TestDetect(t *testing.T) {
	const ones = ^uint32(0)
	all, vaes, aesni, none := of(AESNI, VAES, AVX512), of(AESNI, VAES), of(AESNI), of()
	type made struct {
		maxLeaf, signature, leaf7 uint32
		vendor                    string
		osxsave                   bool
		xcr0                      uint32
	}
	rapids := made{7, 0x000c06f2, leaf7VAES | leaf7VPCLMULQDQ, "GenuineIntel", true, 0xe7}
	for _, test := range []struct {
		name   string
		change func(m *made)
		want   set
		avoids bool
	}{
		{"all", func(m *made) {}, all, false},
		{"more leaves", func(m *made) { m.maxLeaf = 0x20 }, all, false},
		{"leaf 7 of ones", func(m *made) { m.leaf7 = ones }, all, false},
		{"leaf 7 of zeros", func(m *made) { m.leaf7 = 0 }, aesni, false},
		{"leaf 7 without VAES", func(m *made) { m.leaf7 = ones &^ leaf7VAES }, aesni, false},
		{"leaf 7 without VPCLMULQDQ", func(m *made) { m.leaf7 = ones &^ leaf7VPCLMULQDQ }, aesni, false},
		{"no leaf 7", func(m *made) { m.maxLeaf = 6 }, aesni, false},
		{"no leaf 2", func(m *made) { m.maxLeaf = 1 }, aesni, false},
		{"no leaf 1", func(m *made) { m.maxLeaf = 0 }, aesni, false},
		{"no OSXSAVE", func(m *made) { m.osxsave = false }, none, false},
		{"XCR0 of zeros", func(m *made) { m.xcr0 = 0 }, none, false},
		{"XCR0 without YMM", func(m *made) { m.xcr0 = 3 }, none, false},
		{"XCR0 without masks and ZMM", func(m *made) { m.xcr0 = 7 }, vaes, false},
		{"XCR0 without ZMM 16 to 31", func(m *made) { m.xcr0 = 0x67 }, vaes, false},
		{"XCR0 of ones", func(m *made) { m.xcr0 = ones }, all, false},
		{"Ice Lake", func(m *made) { m.signature = 0x000606a6 }, all, true},
		{"Ice Lake without leaf 1", func(m *made) { m.signature, m.maxLeaf = 0x000606a6, 0 }, aesni, false},
		{"Ice Lake's number elsewhere", func(m *made) { m.signature, m.vendor = 0x000606a6, "AuthenticAMD" }, all, false},
		{"Ice Lake's number, a vendor whose name begins alike", func(m *made) { m.signature, m.vendor = 0x000606a6, "GenuineAMDxx" }, all, false},
		{"Ice Lake's number, a vendor whose name ends alike", func(m *made) { m.signature, m.vendor = 0x000606a6, "GenuxxxIntel" }, all, false},
	} {
		m := rapids
		test.change(&m)
		// What golang.org/x/sys/cpu says is taken as it is.
		known := full
		known.osxsave = m.osxsave
		known.xcr0, known.leaf7, known.intel, known.family, known.model = 0, 0, false, 0, 0
		p := detect(known, func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32) {
			if leaf > m.maxLeaf {
				t.Errorf("%s: asks for leaf %d, which there is not", test.name, leaf)
				return ones, ones, ones, ones // as another leaf may be
			}
			if leaf == 7 && subleaf != 0 {
				t.Errorf("%s: asks for subleaf %d", test.name, subleaf)
			}
			switch leaf {
			case 0:
				word := func(at int) uint32 { return binary.LittleEndian.Uint32([]byte(m.vendor)[at:]) }
				return m.maxLeaf, word(0), word(8), word(4) // in this order: EBX, EDX, ECX
			case 1:
				return m.signature, ones, ones, ones
			case 7:
				return ones, ones, m.leaf7, ones
			}
			return ones, ones, ones, ones
		}, func() (eax, edx uint32) {
			if !m.osxsave {
				t.Errorf("%s: XGETBV without OSXSAVE", test.name)
			}
			return m.xcr0, ones
		})
		if got := p.can(); got != test.want {
			t.Errorf("%s: can run %b, want %b", test.name, got, test.want)
		}
		if got := p.avoidsZMM(); got != test.avoids {
			t.Errorf("%s: avoids ZMM: %v, want %v", test.name, got, test.avoids)
		}
		if p.xcr0 != 0 && p.xcr0 != m.xcr0 || p.leaf7 != 0 && p.leaf7 != m.leaf7 {
			t.Errorf("%s: XCR0 %#x, leaf 7 %#x, want %#x and %#x", test.name, p.xcr0, p.leaf7, m.xcr0, m.leaf7)
		}
	}
}

// TestEveryFieldCounts fails when somebody adds a field to processor that
// TestCan's starting point lacks.
func TestEveryFieldCounts(t *testing.T) {
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "darwin" {
			t.Errorf("the processor that has everything lacks %s", name)
		}
	}
}

// TestZMM takes one thing at a time from a processor that can use ZMM.
func TestZMM(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(p *processor)
		can    bool
		avoids bool
	}{
		{"nothing", func(p *processor) {}, true, false},
		{"what vaes needs", func(p *processor) { p.leaf7 = 0 }, false, false},
		{"BMI2", func(p *processor) { p.bmi2 = false }, false, false},
		{"AVX-512, switched off", func(p *processor) { p.avx512 = false }, false, false},
		{"AVX512F", func(p *processor) { p.avx512f = false }, false, false},
		{"AVX512BW", func(p *processor) { p.avx512bw = false }, false, false},
		{"AVX512VL", func(p *processor) { p.avx512vl = false }, false, false},
		{"AVX512DQ", func(p *processor) { p.avx512dq = false }, false, false},
		{"OSXSAVE", func(p *processor) { p.osxsave = false }, false, false},

		// XCR0 bits: 1 XMM, 2 YMM, 5 mask registers, 6 upper halves of ZMM 0 to
		// 15, 7 ZMM 16 to 31.
		{"XCR0 without any of AVX-512", func(p *processor) { p.xcr0 = 0x07 }, false, false},
		{"XCR0 without XMM", func(p *processor) { p.xcr0 = 0xe5 }, false, false},
		{"XCR0 without YMM", func(p *processor) { p.xcr0 = 0xe3 }, false, false},
		{"XCR0 without masks", func(p *processor) { p.xcr0 = 0xc7 }, false, false},
		{"XCR0 without upper halves", func(p *processor) { p.xcr0 = 0xa7 }, false, false},
		{"XCR0 without ZMM 16 to 31", func(p *processor) { p.xcr0 = 0x67 }, false, false},
		{"x87", func(p *processor) { p.xcr0 = 0xe6 }, true, false},
		{"bits above", func(p *processor) { p.xcr0 = 0x602e7 }, true, false},

		// That it can and that it should are two things.
		{"Skylake-X to Cooper Lake", func(p *processor) { p.model = 0x55 }, true, true},
		{"Ice Lake-SP", func(p *processor) { p.model = 0x6a }, true, true},
		{"Ice Lake", func(p *processor) { p.model = 0x7e }, true, true},
		{"Tiger Lake", func(p *processor) { p.model = 0x8c }, true, true},
		{"Tiger Lake-H", func(p *processor) { p.model = 0x8d }, true, true},
		{"Rocket Lake", func(p *processor) { p.model = 0xa7 }, true, false},
		{"Sapphire Rapids", func(p *processor) { p.model = 0x8f }, true, false},
		{"Zen 4", func(p *processor) { p.intel, p.family, p.model = false, 25, 0x11 }, true, false},
		{"another vendor's model 0x6a", func(p *processor) { p.intel, p.model = false, 0x6a }, true, false},
		{"another family's model 0x6a", func(p *processor) { p.family, p.model = 19, 0x6a }, true, false},
		{"Darwin", func(p *processor) { p.darwin = true }, true, true},
	} {
		p := full
		test.change(&p)
		if got := p.canAVX512(); got != test.can {
			t.Errorf("%s: can use ZMM: %v, want %v", test.name, got, test.can)
		}
		if got := p.avoidsZMM(); got != test.avoids {
			t.Errorf("%s: avoids ZMM: %v, want %v", test.name, got, test.avoids)
		}
		if got := p.can().has(AVX512); got != test.can {
			t.Errorf("%s: can run avx512: %v, want %v", test.name, got, test.can)
		}
		if got, want := p.choose().has(AVX512), test.can && !test.avoids; got != want {
			t.Errorf("%s: chooses avx512: %v, want %v", test.name, got, want)
		}
		if got, want := p.choose().without(of(AVX512)), p.can().without(of(AVX512)); got != want {
			t.Errorf("%s: beside avx512 chooses %b, want %b", test.name, got, want)
		}
	}
}

func TestFamilyAndModel(t *testing.T) {
	for _, test := range []struct {
		signature     uint32
		family, model int
	}{
		{0x00050654, 6, 0x55},  // Skylake-SP
		{0x000606a6, 6, 0x6a},  // Ice Lake-SP
		{0x000c06f2, 6, 0xcf},  // Emerald Rapids
		{0x000806c1, 6, 0x8c},  // Tiger Lake
		{0x00a00f11, 25, 0x01}, // Zen 3
		{0x00a10f11, 25, 0x11}, // Zen 4
		{0x00000f4a, 15, 4},    // Pentium 4
		{0x00000543, 5, 4},     // Pentium MMX
	} {
		if family, model := familyAndModel(test.signature); family != test.family || model != test.model {
			t.Errorf("%#x is family %d, model %#x, want %d and %#x", test.signature, family, model, test.family, test.model)
		}
	}
}

func TestBest(t *testing.T) {
	for _, test := range []struct {
		set  set
		want Backend
	}{
		{of(), Portable},
		{of(AESNI), AESNI},
		{of(VAES), VAES},
		{of(AESNI, VAES), VAES},
		{of(AESNI, VAES, AVX512), AVX512},
		{of(AVX512), AVX512},
	} {
		if got := test.set.best(); got != test.want {
			t.Errorf("best of %b is %v, want %v", test.set, got, test.want)
		}
	}
}

func TestParseRemoved(t *testing.T) {
	for _, test := range []struct {
		env  string
		want set
		ok   bool
	}{
		{"", of(), true},
		{"-vaes", of(VAES), true},
		{"-aesni", of(AESNI), true},
		{"-avx512", of(AVX512), true},
		{"-avx512,-vaes,-aesni", of(AVX512, VAES, AESNI), true},
		{" -vaes , -aesni ", of(VAES, AESNI), true},
		{"-vaes,-vaes", of(VAES), true},

		// Nothing adds a backend, and nothing is guessed.
		{"vaes", of(), false},
		{"+vaes", of(), false},
		{"-VAES", of(), false},
		{"-portable", of(), false},
		{"-vaes,", of(), false},
		{",", of(), false},
		{"-vaes -aesni", of(), false},
		{"-vaes;-aesni", of(), false},
		{"off", of(), false},
	} {
		got, err := parseRemoved(test.env)
		if got != test.want {
			t.Errorf("%q removes %b, want %b", test.env, got, test.want)
		}
		if (err == nil) != test.ok {
			t.Errorf("%q: error %v", test.env, err)
		}
		if err != nil && !errors.Is(err, errWord) {
			t.Errorf("%q: error %v is not about a word", test.env, err)
		}
	}
}

// TestRemove shows that removing backends leaves the others as they were.
func TestRemove(t *testing.T) {
	can := full.can()
	if got := can.without(of(AVX512)); got != of(AESNI, VAES) {
		t.Errorf("without avx512: %b", got)
	}
	if got := can.without(of(VAES)); got != of(AESNI, AVX512) {
		t.Errorf("without vaes: %b", got)
	}
	if got := can.without(of(AESNI)); got != of(VAES, AVX512) {
		t.Errorf("without aesni: %b", got)
	}
	if got := can.without(of(AESNI, VAES, AVX512)); got.best() != Portable || !got.has(Portable) {
		t.Errorf("without all: %b", got)
	}
}

func TestSelection(t *testing.T) {
	list := Backends()
	if last := list[len(list)-1]; last != Portable {
		t.Errorf("the last of %v is not portable", list)
	}
	if !slices.IsSortedFunc(list, func(a, b Backend) int { return int(b) - int(a) }) {
		t.Errorf("%v is not best first", list)
	}
	if !slices.Contains(list, Selected()) {
		t.Errorf("%v is selected but not in %v", Selected(), list)
	}

	before := Selected()
	for _, b := range list {
		restore := Force(b)
		if Selected() != b {
			t.Errorf("forced %v, selected %v", b, Selected())
		}
		restore()
		if Selected() != before {
			t.Errorf("after forcing %v: selected %v, want %v", b, Selected(), before)
		}
	}

	for b := range Backend(backends) {
		if slices.Contains(list, b) {
			continue
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("forced %v, which cannot run here", b)
				}
			}()
			Force(b)
		}()
	}
}

func TestNames(t *testing.T) {
	for b, want := range map[Backend]string{
		Portable: "portable", AESNI: "aesni", VAES: "vaes", AVX512: "avx512", 200: "Backend(200)",
	} {
		if got := b.String(); got != want {
			t.Errorf("Backend %d is called %q, want %q", uint8(b), got, want)
		}
	}
}

// TestEnvironment runs this test again as another process, under the
// environment variables that decide when the program starts.
func TestEnvironment(t *testing.T) {
	const child = "SPLITSEAL_TEST_PRINT_BACKENDS"
	if os.Getenv(child) != "" {
		fmt.Printf("%v %v %v\n", Backends(), Selected(), Err())
		os.Exit(0)
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		removed, godebug string
		want             set // the most that may be left, if the machine has it
		err              bool
	}{
		{"", "", of(AESNI, VAES, AVX512), false},
		{"-avx512", "", of(AESNI, VAES), false},
		{"-vaes", "", of(AESNI, AVX512), false},
		{"-avx512,-vaes", "", of(AESNI), false},
		{"-aesni", "", of(VAES, AVX512), false},
		{"-avx512,-vaes,-aesni", "", of(), false},
		{"-vaes,-sse2", "", of(AESNI, VAES, AVX512), true},
		{"vaes", "", of(AESNI, VAES, AVX512), true},
		{"", "cpu.aes=off", of(), false},
		{"", "cpu.pclmulqdq=off", of(), false},
		{"", "cpu.ssse3=off", of(), false},
		{"", "cpu.sse41=off", of(), false},
		{"", "cpu.avx=off", of(), false},
		{"", "cpu.avx2=off", of(AESNI), false},
		{"", "cpu.osxsave=off", of(), false},
		{"", "cpu.bmi2=off", of(AESNI, VAES), false},
		{"", "cpu.avx512=off", of(AESNI, VAES), false},
		{"", "cpu.avx512f=off", of(AESNI, VAES), false},
		{"", "cpu.avx512bw=off", of(AESNI, VAES), false},
		{"", "cpu.avx512dq=off", of(AESNI, VAES), false},
		{"", "cpu.avx512vl=off", of(AESNI, VAES), false},
		{"-vaes", "cpu.avx2=off", of(AESNI), false},
	} {
		command := exec.Command(executable, "-test.run=^TestEnvironment$")
		command.Env = append(os.Environ(), child+"=1", EnvCPU+"="+test.removed, "GODEBUG="+test.godebug)
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		left := machine.can() & test.want
		var list []Backend
		for b := Backend(backends - 1); b > Portable; b-- {
			if left.has(b) {
				list = append(list, b)
			}
		}
		list = append(list, Portable)
		want := fmt.Sprintf("%v %v ", list, (machine.choose() & test.want).best())
		got := string(out)
		if !strings.HasPrefix(got, want) || test.err == strings.HasSuffix(got, " <nil>\n") {
			t.Errorf("%s=%q GODEBUG=%q: %q, want %q and an error: %v", EnvCPU, test.removed, test.godebug, got, want, test.err)
		}
	}
}

// TestEnvironmentIsSeen shows that the go command, which keeps test results, is
// told that they depend on the environment variable.
func TestEnvironmentIsSeen(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	out, err := exec.Command(executable, "-test.run=^TestSelection$", "-test.testlogfile="+log).CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "exec format error") {
		t.Skip("no other process can be started here, as in an emulator: ", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(seen), "\n"), "getenv "+EnvCPU) {
		t.Errorf("reads of %s are not seen: %q", EnvCPU, seen)
	}
}
