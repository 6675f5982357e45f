//go:build amd64 && !purego

package asm

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// machine is the processor that this process runs on.
var machine = detect(processor{
	aes:       cpu.X86.HasAES,
	pclmulqdq: cpu.X86.HasPCLMULQDQ,
	ssse3:     cpu.X86.HasSSSE3,
	sse41:     cpu.X86.HasSSE41,
	avx:       cpu.X86.HasAVX,
	avx2:      cpu.X86.HasAVX2,
	bmi2:      cpu.X86.HasBMI2,
	avx512:    cpu.X86.HasAVX512,
	avx512f:   cpu.X86.HasAVX512F,
	avx512bw:  cpu.X86.HasAVX512BW,
	avx512vl:  cpu.X86.HasAVX512VL,
	avx512dq:  cpu.X86.HasAVX512DQ,
	osxsave:   cpu.X86.HasOSXSAVE,
	darwin:    runtime.GOOS == "darwin",
}, cpuid, xgetbv)

// cpuid returns what the CPUID instruction leaves in EAX, EBX, ECX and EDX.
//
//go:noescape
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// xgetbv returns the low and high half of XCR0. The operating system must have
// set OSXSAVE.
//
//go:noescape
func xgetbv() (eax, edx uint32)
