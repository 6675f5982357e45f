//go:build !purego

package trace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Run starts this program once more, follows the runs of all cases and compares
// them. An error that wraps [ErrUnavailable] says that the system does not
// allow this.
func Run(cases []Case) (result Result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// All requests must come from the thread that starts the process.
		runtime.LockOSThread()
		result, err = run(cases)
	}()
	<-done
	return result, err
}

func run(cases []Case) (Result, error) {
	log, err := os.CreateTemp("", "trace")
	if err != nil {
		return Result{}, err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	t, err := start(log)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer t.memory.Close()
	defer t.kill()
	for _, c := range cases {
		var first []step
		for run := range c.Runs {
			steps, err := t.follow()
			if err != nil {
				output, _ := os.ReadFile(log.Name())
				return Result{}, fmt.Errorf("%s: run %d: %w\n%s", c.Name, run, err, output)
			}
			t.Steps += len(steps)
			if run == 0 {
				first = append(first[:0], steps...)
			} else if d, differs := compare(first, steps); differs {
				d.Case, d.Run = c.Name, run
				t.Differences = append(t.Differences, d)
			}
		}
	}
	if err := t.resume(); !errors.Is(err, errEnded) {
		return Result{}, fmt.Errorf("the process goes on after its last case: %v", err)
	}
	return t.Result, nil
}

// A step is an instruction that was executed, with the values of registers
// before it that decide about addresses. Where a function in assembly returns,
// left stands for what it leaves behind; elsewhere it is 0.
type step struct {
	pc, sp uint64
	shown  [2]uint64
	left   uint64
}

// compare returns where two runs first differ. Where an instruction differs, it
// is the one before that went another way. Both runs end with a breakpoint, so
// neither can be just the beginning of the other.
func compare(a, b []step) (d Difference, differs bool) {
	for i := range min(len(a), len(b)) {
		if a[i].pc != b[i].pc {
			return Difference{PC: uintptr(a[max(i-1, 0)].pc)}, true
		}
		if a[i].sp != b[i].sp || a[i].shown != b[i].shown {
			return Difference{PC: uintptr(a[i].pc), What: Address}, true
		}
		if a[i].left != b[i].left {
			return Difference{PC: uintptr(a[i].pc), What: Left}, true
		}
	}
	return Difference{}, false
}

// A tracer follows one process.
type tracer struct {
	pid     int
	ended   bool
	memory  *os.File // the process's
	away    uint64   // from an instruction here to the same one in the process
	decoded map[uint64]Instruction
	steps   []step
	Result
}

// start starts the process, which stops before its first instruction.
func start(log *os.File) (*tracer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), env+"=1",
		// Nothing may preempt the goroutine, and no collection may run.
		"GODEBUG="+os.Getenv("GODEBUG")+",asyncpreemptoff=1", "GOGC=off", "GOMEMLIMIT=off", "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &tracer{pid: cmd.Process.Pid, decoded: make(map[uint64]Instruction), Result: Result{Executed: make(map[uintptr]bool)}}
	cmd.Process.Release()
	const exitKill = 0x100000 // PTRACE_O_EXITKILL: it ends when this process does
	var regs syscall.PtraceRegs
	if signal, err := t.wait(); err != nil {
		return nil, err
	} else if signal != syscall.SIGTRAP {
		t.kill()
		return nil, fmt.Errorf("the process stops with %v", signal)
	} else if err := errors.Join(syscall.PtraceSetOptions(t.pid, exitKill), syscall.PtraceGetRegs(t.pid, &regs)); err != nil {
		t.kill()
		return nil, err
	}
	// Position-independent code need not be where it is in this process.
	here, err := loadedAt("self", exe)
	if err == nil {
		t.away, err = loadedAt(strconv.Itoa(t.pid), exe)
	}
	if err != nil {
		t.kill()
		return nil, err
	}
	t.away -= here
	if t.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", t.pid), os.O_RDWR, 0); err != nil {
		t.kill()
		return nil, err
	}
	return t, nil
}

// loadedAt returns where a process has the program exe in memory.
func loadedAt(process, exe string) (address uint64, err error) {
	maps, err := os.ReadFile("/proc/" + process + "/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, exe+"\n") {
			_, err := fmt.Sscanf(line, "%x-", &address)
			return address, err
		}
	}
	return 0, fmt.Errorf("%s is not in the memory of process %s", exe, process)
}

var errEnded = errors.New("the process has ended")

// wait returns the signal that the process stops with.
func (t *tracer) wait() (syscall.Signal, error) {
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(t.pid, &status, 0, nil); {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case status.Stopped():
			return status.StopSignal(), nil
		case status.Exited() && status.ExitStatus() == 0:
			t.ended = true
			return 0, errEnded
		default:
			t.ended = true
			return 0, fmt.Errorf("the process has failed: exit status %d, signal %d", status.ExitStatus(), status.Signal())
		}
	}
}

// resume lets the process run to its next breakpoint. Signals reach it.
func (t *tracer) resume() error {
	signal := syscall.Signal(0)
	for {
		if err := syscall.PtraceCont(t.pid, int(signal)); err != nil {
			return err
		}
		var err error
		if signal, err = t.wait(); err != nil || signal == syscall.SIGTRAP {
			return err
		}
	}
}

// maxSteps is more than any case takes: a run that goes on for so long has lost
// its way.
const maxSteps = 1 << 22

// follow returns the steps from just after the next breakpoint to the one after
// that. They are valid until follow is called again.
func (t *tracer) follow() ([]step, error) {
	if err := t.resume(); err != nil {
		return nil, err
	}
	t.steps = t.steps[:0]
	var last Instruction
	for {
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(t.pid, &regs); err != nil {
			return nil, err
		}
		if len(t.steps) == 0 {
			if err := t.clearState(&regs); err != nil {
				return nil, err
			}
		}
		pc := regs.Rip - t.away
		if n := len(t.steps); n > 0 && !last.jumps && pc != t.steps[n-1].pc+uint64(last.Size) {
			return nil, fmt.Errorf("%s has %d bytes, the decoder says %d",
				Place(uintptr(t.steps[n-1].pc)), pc-t.steps[n-1].pc, last.Size)
		}
		in, err := t.decode(pc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Place(uintptr(pc)), err)
		}
		if len(t.steps) == maxSteps {
			return nil, fmt.Errorf("no end after %d instructions", maxSteps)
		}
		s := step{pc: pc, sp: regs.Rsp}
		for i, register := range in.Shown {
			if register != 0 {
				s.shown[i] = valueOf(&regs, register)
			}
		}
		// The first step is Breakpoint's return.
		if in.returns && len(t.steps) > 0 && inAssembly(uintptr(pc)) {
			if s.left, err = t.left(&regs); err != nil {
				return nil, err
			}
		}
		t.steps = append(t.steps, s)
		if last = in; in.breakpoint {
			return t.steps, t.resume()
		}
		if err := t.step(); err != nil {
			return nil, err
		}
	}
}

// step executes one instruction. Signals that arrive meanwhile are sent again
// later.
func (t *tracer) step() error {
	for {
		if err := syscall.PtraceSingleStep(t.pid); err != nil {
			return err
		}
		switch signal, err := t.wait(); {
		case err != nil || signal == syscall.SIGTRAP:
			return err
		case signal == syscall.SIGSEGV, signal == syscall.SIGBUS, signal == syscall.SIGILL, signal == syscall.SIGFPE:
			return fmt.Errorf("the instruction causes %v", signal)
		default:
			defer syscall.Kill(t.pid, signal)
		}
	}
}

// maxInstruction is the size of the longest instruction.
const maxInstruction = 15

// decode returns the instruction that is at pc here.
func (t *tracer) decode(pc uint64) (Instruction, error) {
	if in, ok := t.decoded[pc]; ok {
		return in, nil
	}
	// The last instruction before memory ends may be shorter.
	var code [maxInstruction]byte
	n, err := syscall.PtracePeekText(t.pid, uintptr(pc+t.away), code[:])
	if n == 0 {
		return Instruction{}, err
	}
	in, err := Decode(code[:n])
	if err != nil {
		return in, fmt.Errorf("% x: %w", code[:n], err)
	}
	t.decoded[pc] = in
	t.Executed[uintptr(pc)] = true
	return in, nil
}

// kill ends the process if it has not ended.
func (t *tracer) kill() {
	if !t.ended {
		syscall.Kill(t.pid, syscall.SIGKILL)
		for !t.ended {
			if _, err := t.wait(); err != nil {
				return
			}
		}
	}
}

// valueOf returns the value of a register.
func valueOf(r *syscall.PtraceRegs, register Register) uint64 {
	return [...]uint64{
		r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi,
		r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15,
	}[register-ax]
}

// Breakpoint stops the process where it is traced, and ends it elsewhere. It is
// assembly because [runtime.Breakpoint] checks the stack's size, unless the
// compiler inlines it.
func Breakpoint()

// Instructions returns the addresses of the instructions of a function in assembly,
// without those that fill space in front of loops, and without direct jumps: these have
// neither condition nor address, and the assembler leaves some that nothing reaches,
// because it makes jumps to them go to where they lead.
func Instructions(entry uintptr) (list []uintptr, err error) {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	f := runtime.FuncForPC(entry)
	for pc := entry; runtime.FuncForPC(pc) == f; {
		var code [maxInstruction]byte
		n, err := memory.ReadAt(code[:], int64(pc))
		if n == 0 {
			return nil, err
		}
		in, err := Decode(code[:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Place(pc), err)
		}
		if in.breakpoint {
			break // the space between functions
		}
		if !in.nop && !in.direct {
			list = append(list, pc)
		}
		pc += uintptr(in.Size)
	}
	return list, nil
}
