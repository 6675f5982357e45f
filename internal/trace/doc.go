// Package trace checks that assembly treats secrets in constant time, on the
// processor that runs it: that no branch and no address depends on them. And it
// checks that assembly leaves nothing of them behind, in registers or on the stack.
//
// It runs a call several times, one instruction at a time, each time with different
// secrets, but with all else equal and at the same addresses. Then it compares the
// runs: they must execute the same instructions in the same order, and each of these
// must use the same addresses. Because text may pass through general-purpose registers,
// not all of their values need be equal, only those of registers that an instruction
// takes an address from, or a mask of what it touches. This takes a decoder of
// addresses, but no list of exceptions. Instructions that keep their addresses
// elsewhere, or whose time depends on their operands, are refused.
//
// Where a function in assembly returns, all registers and the stack below it must be
// equal too; before the call they are set to zeros. So nothing need be known of what
// becomes of secrets on the way: whatever differs depends on one. Results are in memory
// above, where Go's assembly puts them.
//
// The instructions are the processor's own, so this covers what valgrind does
// not know: VAES and AVX-512. It cannot show what never happened: it finds a
// dependence that shows for a fair share of all secrets, but not one that only
// a single key in 2³² has. (Package memcheck, which tracks each bit, would, in
// the code that valgrind knows.) Nor does it see how long an instruction takes.
//
// The program under trace is the test program itself, started once more: see
// [Main] and [Run]. It must be for Linux on amd64, where single steps are a
// system call, ptrace. A step takes 5 to 30 µs.
//
// Only tests import this package.
package trace
