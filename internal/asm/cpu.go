package asm

import "slices"

// processor is what the choice of a backend depends on. It is plain data, so
// that tests can make up processors that they do not run on.
type processor struct {
	// What golang.org/x/sys/cpu says. GODEBUG=cpu.aes=off and the like clear
	// fields here, and so disable whatever needs them.
	aes, pclmulqdq, ssse3, sse41, avx, avx2, bmi2 bool
	avx512, avx512f, avx512bw, avx512vl, avx512dq bool

	// osxsave says that the operating system saves vector registers as xcr0
	// says, and that xcr0 is valid.
	osxsave bool
	xcr0    uint32

	// leaf7 is ECX of CPUID leaf 7, subleaf 0, or 0 if there is none.
	// golang.org/x/sys/cpu reports VAES and VPCLMULQDQ only together with
	// AVX-512.
	leaf7 uint32

	// The vendor, family and model that CPUID reports.
	intel         bool
	family, model int

	// darwin says that the operating system is Darwin.
	darwin bool
}

// detect returns p with what golang.org/x/sys/cpu does not say, as reported by
// the instructions CPUID and XGETBV. A leaf above the highest has the bits of
// another one, and XGETBV faults if the operating system has not set OSXSAVE.
func detect(p processor, cpuid func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32), xgetbv func() (eax, edx uint32)) processor {
	maxLeaf, b, c, d := cpuid(0, 0)
	p.intel = b == 0x756e6547 && d == 0x49656e69 && c == 0x6c65746e // "GenuineIntel"
	if maxLeaf >= 1 {
		signature, _, _, _ := cpuid(1, 0)
		p.family, p.model = familyAndModel(signature)
	}
	if maxLeaf >= 7 {
		_, _, p.leaf7, _ = cpuid(7, 0)
	}
	if p.osxsave {
		p.xcr0, _ = xgetbv()
	}
	return p
}

const (
	leaf7VAES       = 1 << 9
	leaf7VPCLMULQDQ = 1 << 10

	// xcr0YMM are the bits of XCR0 for XMM and for the upper halves of YMM.
	xcr0YMM = 1<<1 | 1<<2

	// xcr0ZMM are those and the ones for mask registers, for the upper halves
	// of ZMM 0 to 15, and for ZMM 16 to 31.
	xcr0ZMM = xcr0YMM | 1<<5 | 1<<6 | 1<<7
)

// savesYMM reports whether the operating system saves YMM registers, and with
// them what VEX instructions do to XMM registers.
func (p processor) savesYMM() bool { return p.osxsave && p.xcr0&xcr0YMM == xcr0YMM }

// canAESNI is the list of what the kernels of AESNI require.
func (p processor) canAESNI() bool {
	return p.aes && p.pclmulqdq && p.ssse3 && p.sse41 && p.avx && p.savesYMM()
}

// canVAES is the list of what the kernels of VAES require.
func (p processor) canVAES() bool {
	return p.canAESNI() && p.avx2 &&
		p.leaf7&leaf7VAES != 0 && p.leaf7&leaf7VPCLMULQDQ != 0
}

// savesZMM is savesYMM for all registers of AVX-512.
func (p processor) savesZMM() bool { return p.osxsave && p.xcr0&xcr0ZMM == xcr0ZMM }

// canAVX512 is the list of what kernels with ZMM registers require.
func (p processor) canAVX512() bool {
	return p.canVAES() && p.bmi2 && p.savesZMM() &&
		p.avx512 && p.avx512f && p.avx512bw && p.avx512vl && p.avx512dq
}

// avoidsZMM reports whether ZMM registers are better left alone even if they
// work.
//
// Intel's processors from Skylake-X to Tiger Lake lower their clock for a while
// after using them, for everything that runs then. The list is that of the
// Linux kernel's crypto code (zmm_exclusion_list), which avoids ZMM for this
// reason.
//
// Darwin has lost mask registers in signals (Go issue 49233).
func (p processor) avoidsZMM() bool {
	return p.darwin || p.intel && p.family == 6 && slices.Contains([]int{
		0x55,                   // Skylake-X, Cascade Lake, Cooper Lake
		0x6a, 0x6c, 0x7d, 0x7e, // Ice Lake
		0x9d,       // Ice Lake NNPI
		0x8c, 0x8d, // Tiger Lake
	}, p.model)
}

// can returns the backends that work on p.
func (p processor) can() (s set) {
	if p.canAESNI() {
		s |= of(AESNI)
	}
	if p.canVAES() {
		s |= of(VAES)
	}
	if p.canAVX512() {
		s |= of(AVX512)
	}
	return s
}

// choose returns the backends that are worth using on p: all that work, except
// for 64-byte vectors where they are better avoided. 32-byte vectors do not
// lower the clock of any processor that has VAES.
func (p processor) choose() set {
	if p.avoidsZMM() {
		return p.can().without(of(AVX512))
	}
	return p.can()
}

// familyAndModel decodes EAX of CPUID leaf 1 (Intel SDM, Volume 2, CPUID).
func familyAndModel(signature uint32) (family, model int) {
	family = int(signature >> 8 & 0xf)
	model = int(signature >> 4 & 0xf)
	if family == 6 || family == 15 {
		model |= int(signature>>16&0xf) << 4
	}
	if family == 15 {
		family += int(signature >> 20 & 0xff)
	}
	return family, model
}
