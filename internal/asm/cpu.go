package asm

// processor is what the choice of a backend depends on. It is plain data, so
// that tests can make processors that they do not have.
type processor struct {
	// What golang.org/x/sys/cpu says. GODEBUG=cpu.aes=off and the like take
	// fields away here, and with them all that needs them.
	aes, pclmulqdq, ssse3, sse41, avx, avx2 bool

	// osxsave says that the operating system saves vector registers as xcr0
	// has it, and that xcr0 is valid.
	osxsave bool
	xcr0    uint32

	// leaf7 is ECX of CPUID leaf 7, subleaf 0, or 0 if there is none.
	// golang.org/x/sys/cpu has its bits for VAES and VPCLMULQDQ only together
	// with AVX-512.
	leaf7 uint32
}

const (
	leaf7VAES       = 1 << 9
	leaf7VPCLMULQDQ = 1 << 10

	// xcr0YMM are the bits of XCR0 for XMM and for the upper halves of YMM.
	xcr0YMM = 1<<1 | 1<<2
)

// savesYMM reports whether the operating system keeps YMM registers, and with
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

// can returns the backends that work on p.
func (p processor) can() (s set) {
	if p.canAESNI() {
		s |= of(AESNI)
	}
	if p.canVAES() {
		s |= of(VAES)
	}
	return s
}

// choose returns the backends that are worth using on p, all that work: 32-byte
// vectors cost no processor that has VAES its clock speed.
func (p processor) choose() set { return p.can() }
