//go:build !purego

package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"
)

// What a call leaves behind is all registers and the stack below the stack pointer,
// where a function in assembly returns. Both are set to zeros before the call, so that
// they hold what it has left there, and nothing else.

const (
	// leftSize is how much of the stack is compared. The linker allows functions that
	// do not check the stack's size 800 bytes of it together.
	leftSize = 1 << 10

	// clearedSize is how much of it is set to zeros. The stack pointer is lower
	// in the function than before the call, but not by that much.
	clearedSize = 4 << 10
)

// clearState sets all registers and the stack below the stack pointer to zeros, except
// for those that Go code relies on after a function in assembly has returned.
func (t *tracer) clearState(regs *syscall.PtraceRegs) error {
	if _, err := t.memory.WriteAt(make([]byte, clearedSize), int64(regs.Rsp-clearedSize)); err != nil {
		return err
	}
	state, err := t.vectors()
	if err != nil {
		return err
	}
	// A part without its bit is in its initial state, all zeros. The first vectors keep
	// theirs, because it also covers what lies beside them and is not zero.
	clear(state[xmmBegin:xmmEnd])
	inUse := binary.LittleEndian.Uint64(state[xstateHeader:])
	binary.LittleEndian.PutUint64(state[xstateHeader:], inUse&^vectorParts)
	if err := t.regset(ptraceSetRegset, state, nil); err != nil {
		return err
	}
	for _, r := range []*uint64{
		&regs.Rax, &regs.Rbx, &regs.Rcx, &regs.Rdx, &regs.Rsi, &regs.Rdi,
		&regs.R8, &regs.R9, &regs.R10, &regs.R11, &regs.R12, &regs.R13, &regs.R15,
	} {
		*r = 0
	}
	return syscall.PtraceSetRegs(t.pid, regs)
}

var seed = maphash.MakeSeed()

// left returns a hash of what the call has left behind. It is not 0.
func (t *tracer) left(regs *syscall.PtraceRegs) (uint64, error) {
	var h maphash.Hash
	h.SetSeed(seed)
	var stack [leftSize]byte
	if _, err := t.memory.ReadAt(stack[:], int64(regs.Rsp-leftSize)); err != nil {
		return 0, err
	}
	h.Write(stack[:])
	state, err := t.vectors()
	if err != nil {
		return 0, err
	}
	h.Write(state[xmmBegin:xmmEnd])
	h.Write(state[xstateHeader+xstateHeaderSize:])
	for r := Register(1); r <= Registers; r++ {
		maphash.WriteComparable(&h, valueOf(regs, r))
	}
	return h.Sum64() | 1, nil
}

// inAssembly reports whether the instruction at pc is written in assembly.
func inAssembly(pc uintptr) bool {
	f := runtime.FuncForPC(pc)
	if f == nil {
		return false
	}
	file, _ := f.FileLine(pc)
	return filepath.Ext(file) == ".s"
}

// The state that XSAVE stores, according to the Intel SDM, volume 1, chapter 13. After
// the header come the upper halves of vectors, the vectors that AVX-512 adds, and its
// masks.
const (
	xmmBegin, xmmEnd = 160, 416 // 16 vectors of 16 bytes
	xstateHeader     = 512      // begins with a bit for each part that is in use
	xstateHeaderSize = 64
	vectorParts      = 1<<2 | 1<<5 | 1<<6 | 1<<7 // AVX, and the three of AVX-512
	maxXstate        = 16 << 10                  // with AMX it is 11008 bytes
)

// vectors returns the state of all registers that are not general-purpose ones.
func (t *tracer) vectors() ([]byte, error) {
	state := make([]byte, maxXstate)
	var size int
	if err := t.regset(ptraceGetRegset, state, &size); err != nil {
		return nil, err
	}
	if size < xstateHeader+xstateHeaderSize || size == len(state) {
		return nil, fmt.Errorf("the state of vectors has %d bytes", size)
	}
	return state[:size], nil
}

// The requests of ptrace that package syscall lacks, and the set of registers they
// are for.
const (
	ptraceGetRegset = 0x4204
	ptraceSetRegset = 0x4205
	ntX86Xstate     = 0x202
)

// regset makes a request with a set of registers. size, if it is not nil, is set to
// its size.
func (t *tracer) regset(request uintptr, state []byte, size *int) error {
	v := syscall.Iovec{Base: unsafe.SliceData(state), Len: uint64(len(state))}
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, request, uintptr(t.pid), ntX86Xstate, uintptr(unsafe.Pointer(&v)), 0, 0)
	if errno != 0 {
		return errors.Join(errors.New("vectors of the process"), errno)
	}
	if size != nil {
		*size = int(v.Len)
	}
	return nil
}

// The functions LeaveOnStack to LeaveInMore return with a secret in a place where
// none should stay: controls of the check. LeaveInUpper needs AVX, LeaveInMore AVX-512.

func LeaveOnStack(secret uint64)
func LeaveInGeneral(secret uint64)
func LeaveInVector(secret uint64)
func LeaveInUpper(secret uint64)
func LeaveInMore(secret uint64)
