package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// cpuFunctions emits the instructions that say what the processor and the
// operating system can do.
func cpuFunctions() {
	TEXT("cpuid", NOSPLIT, "func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)")
	MOVL(arg("leaf"), reg.EAX)
	MOVL(arg("subleaf"), reg.ECX)
	CPUID()
	MOVL(reg.EAX, result("eax"))
	MOVL(reg.EBX, result("ebx"))
	MOVL(reg.ECX, result("ecx"))
	MOVL(reg.EDX, result("edx"))
	RET()

	TEXT("xgetbv", NOSPLIT, "func() (eax, edx uint32)")
	XORL(reg.ECX, reg.ECX)
	XGETBV()
	MOVL(reg.EAX, result("eax"))
	MOVL(reg.EDX, result("edx"))
	RET()
}
