package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Text in pieces.
//
// A stream may lie in many pieces, of any sizes: those that a seal reads from,
// or an open writes to. The part of a piece that is in use is a run. A batch
// that lies in one run is read from there, or written to there, like any other.
// Where a run ends before a batch does, the batch has a seam:
//
//   - A seal moves the batch's part of each piece to the batch's place in the
//     output, and seals it there.
//   - An open writes the batch to the frame, and moves it from there to the
//     pieces.
//
// So a seam moves at most a batch, whatever the sizes of the pieces, and
// batches are encrypted and hashed by the same code everywhere. A seal whose
// first piece is no longer than a vector, such as a header before content,
// moves that vector alone if the next piece is at least as long as batch 0's
// text; see sealRuns.start.

// walk goes over the pieces of a stream. What it needs to remember is in the
// frame: the pieces belong to the caller and do not change.
type walk struct {
	next operand.Mem // address of the next piece, a slice
	rest operand.Mem // bytes of this call's text in pieces from next on
	text operand.Mem // address of what is left of the piece before next
	size operand.Mem // its size

	// Opens only: the batch with a seam; its size while it is there, otherwise
	// 0; what was left of the run that it begins in; and a size once there has
	// been such a batch.
	scratch, seam, runText, runSize, used operand.Mem

	most int // the most bytes that are moved at once, a power of two: a batch
	x    vec // scratch: one vector
	t    reg.GPPhysical
	n    reg.GPPhysical
	from reg.GPPhysical
}

// pieceSize is the size of a slice; its address and length come first.
const pieceSize = 24

func newWalk() walk {
	state := AllocLocal(32)
	return walk{next: state, rest: state.Offset(8), text: state.Offset(16), size: state.Offset(24)}
}

// withScratch adds what an open needs for a batch of size bytes.
func (w walk) withScratch(size int) walk {
	w.scratch = AllocLocal(size + line - 8)
	state := AllocLocal(32)
	w.seam, w.runText, w.runSize, w.used = state, state.Offset(8), state.Offset(16), state.Offset(24)
	return w
}

// line is the size of a cache line.
const line = 64

// scratchAddress sets r to where the scratch begins: at the beginning of a cache line,
// for the reason that frame gives.
func (w walk) scratchAddress(r reg.GPPhysical) {
	LEAQ(w.scratch.Offset(line-8), r)
	ANDQ(operand.I8(-line), r)
}

// begin starts the walk over the pieces of the stream at s, after its first run.
func (w walk) begin(s reg.GPPhysical) {
	MOVQ(at(s, streamPieces), w.t)
	MOVQ(w.t, w.next)
	MOVQ(at(s, streamRest), w.t)
	MOVQ(w.t, w.rest)
	XORL(w.t.As32(), w.t.As32())
	MOVQ(w.t, w.size)
	if w.seam.Base != nil {
		MOVQ(w.t, w.seam)
		MOVQ(w.t, w.used)
	}
}

// take sets w.n to the size of the text at w.text, and moves on to the next
// piece if need be. It jumps to end if this call's text has ended.
func (w walk) take(end string) {
	empty, taken := newLabel("empty_"), newLabel("taken_")
	MOVQ(w.size, w.n)
	TESTQ(w.n, w.n)
	JNZ(target(taken))
	Label(empty)
	MOVQ(w.rest, w.n)
	TESTQ(w.n, w.n)
	JZ(target(end))
	MOVQ(w.next, w.t)
	ADDQ(operand.U8(pieceSize), w.next)
	// n = min(len(piece), rest)
	CMPQ(w.n, at(w.t, 8))
	CMOVQHI(at(w.t, 8), w.n)
	SUBQ(w.n, w.rest)
	MOVQ(at(w.t, 0), w.t)
	MOVQ(w.t, w.text)
	MOVQ(w.n, w.size)
	TESTQ(w.n, w.n)
	JZ(target(empty))
	Label(taken)
}

// use limits w.n to most, sets to to w.text, and steps over the w.n bytes
// there.
func (w walk) use(most operand.Op, to reg.GPPhysical) {
	CMPQ(w.n, most)
	CMOVQHI(most, w.n)
	MOVQ(w.text, to)
	ADDQ(w.n, w.text)
	SUBQ(w.n, w.size)
}

// run makes all w.n bytes at w.text the next run.
func (w walk) run(text, left reg.GPPhysical) {
	MOVQ(w.text, text)
	MOVQ(w.n, left)
	MOVQ(operand.U32(0), w.size)
}

// move copies w.n bytes, at most w.most. Nothing else is read or written.
func (w walk) move(from, to reg.GPPhysical) {
	index := func(base, index reg.GPPhysical, n int) operand.Mem {
		return operand.Mem{Base: base, Index: index, Scale: 1, Disp: n}
	}
	done := newLabel("moved_")

	// What is in place stays.
	CMPQ(from, to)
	JE(target(done))

	// A power of two of bytes from the start, and as many from the end.
	ends := func(size, step int, mov func(a, b operand.Op), r operand.Op) {
		less := newLabel("less_")
		CMPQ(w.n, operand.U32(size))
		JB(target(less))
		for i := 0; i < size; i += step {
			mov(at(from, i), r)
			mov(r, at(to, i))
		}
		for i := -size; i < 0; i += step {
			mov(index(from, w.n, i), r)
			mov(r, index(to, w.n, i))
		}
		JMP(target(done))
		Label(less)
	}
	vector := int(w.x.Size())
	for size := w.most / 2; size >= vector; size /= 2 {
		ends(size, vector, VMOVDQU, w.x)
	}
	if vector > 16 {
		ends(16, 16, VMOVDQU, low(w.x))
	}
	ends(8, 8, MOVQ, w.t)
	ends(4, 4, MOVL, w.t.As32())
	ends(2, 2, MOVW, w.t.As16())
	TESTQ(w.n, w.n)
	JZ(target(done))
	MOVB(at(from, 0), w.t.As8())
	MOVB(w.t.As8(), at(to, 0))
	Label(done)
}

// sealRuns is a walk of a seal.
type sealRuns struct {
	walk
	src, dst, left reg.GPPhysical // as in the kernel's plan

	// head is where batch 0 reads its first vector of text: src, or dst if start
	// has put that vector together there. It may be in n's register: start writes it
	// last, and batch 0 reads it before the next take.
	head reg.GPPhysical
}

// start prepares the first batch's text, of size bytes, for the label first,
// where it is sealed: the run if that is long enough, otherwise a batch with a
// seam. If the seam is in the first vector, as after a header, only this
// vector is put together, in its place in the output.
func (w sealRuns) start(size int, first string) {
	whole, seam := newLabel("whole_"), newLabel("seam_")
	head := w.walk
	head.most = int(w.x.Size())
	CMPQ(w.left, operand.U32(size))
	JAE(target(whole))
	CMPQ(w.left, operand.U8(head.most))
	JA(target(seam))
	w.take(seam)
	CMPQ(w.n, operand.U32(size))
	JB(target(seam))
	MOVQ(w.left, w.n)
	head.move(w.src, w.dst)
	MOVQ(w.text, w.src)
	VMOVDQU(at(w.src, 0), w.x)
	VMOVDQU(w.x, operand.Mem{Base: w.dst, Index: w.left, Scale: 1})
	// The run is set back to where its text would begin.
	SUBQ(w.left, w.src)
	ADDQ(w.size, w.left)
	MOVQ(operand.U32(0), w.size)
	MOVQ(w.dst, w.head)
	JMP(target(first))
	Label(seam)
	w.fill(size)
	Label(whole)
	MOVQ(w.src, w.head)
	JMP(target(first))
}

// next goes on to the next run, or a batch of size bytes with a seam, if there
// is more text, and jumps to more. It falls through otherwise.
func (w sealRuns) next(size int, more string) {
	none, seam := newLabel("no_run_"), newLabel("seam_")
	CMPQ(arg("s"), operand.U8(0))
	JE(target(none))
	w.take(none)
	TESTQ(w.left, w.left)
	JNZ(target(seam))
	// The last block of text is loaded together with bytes before it.
	CMPQ(w.n, operand.U8(blockSize))
	JB(target(seam))
	w.run(w.src, w.left)
	JMP(target(more))
	Label(seam)
	w.fill(size)
	JMP(target(more))
	Label(none)
}

// fill moves the w.left bytes at w.src, and as much of the text after them as
// a batch of size bytes takes, to w.dst, and makes that the run.
func (w sealRuns) fill(size int) {
	again, filled := newLabel("fill_"), newLabel("filled_")
	MOVQ(w.left, w.n)
	w.move(w.src, w.dst)
	Label(again)
	w.take(filled)
	MOVL(operand.U32(size), w.t.As32())
	SUBQ(w.left, w.t)
	w.use(w.t, w.src)
	to := w.from
	LEAQ(operand.Mem{Base: w.dst, Index: w.left, Scale: 1}, to)
	ADDQ(w.n, w.left)
	w.move(w.src, to)
	CMPQ(w.left, operand.U32(size))
	JB(target(again))
	Label(filled)
	MOVQ(w.dst, w.src)
}

// openRuns is a walk of an open.
type openRuns struct {
	walk
	dst, left reg.GPPhysical // as in the kernel's plan
}

// next goes on to the next run, or a batch of size bytes with a seam, if there
// is more text, and jumps to more. It falls through otherwise.
func (w openRuns) next(size int, more string) {
	none, whole, seam := newLabel("no_run_"), newLabel("whole_"), newLabel("seam_")
	CMPQ(arg("s"), operand.U8(0))
	JE(target(none))
	CMPQ(w.seam, operand.U8(0))
	JE(target(whole))
	TESTQ(w.left, w.left)
	JNZ(target(none)) // it is still to be opened, and less than a batch
	w.moveOut()
	JMP(target(more))
	Label(whole)
	w.take(none)
	TESTQ(w.left, w.left)
	JNZ(target(seam))
	w.run(w.dst, w.left)
	JMP(target(more))
	Label(seam)
	w.start(size)
	JMP(target(more))
	Label(none)
}

// start makes the frame the run for a batch of size bytes, or less at the end,
// of which w.left go to w.dst.
func (w openRuns) start(size int) {
	MOVQ(w.dst, w.runText)
	MOVQ(w.left, w.runSize)
	ADDQ(w.size, w.left)
	ADDQ(w.rest, w.left)
	MOVL(operand.U32(size), w.t.As32())
	CMPQ(w.left, w.t)
	CMOVQHI(w.t, w.left)
	MOVQ(w.left, w.seam)
	MOVQ(w.left, w.used)
	w.scratchAddress(w.dst)
}

// moveOut moves the batch in the frame to its pieces.
func (w openRuns) moveOut() {
	again, done := newLabel("move_out_"), newLabel("moved_out_")
	w.scratchAddress(w.from)
	MOVQ(w.seam, w.left)
	MOVQ(operand.U32(0), w.seam)
	MOVQ(w.runText, w.dst)
	MOVQ(w.runSize, w.n)
	Label(again)
	SUBQ(w.n, w.left)
	w.move(w.from, w.dst)
	ADDQ(w.n, w.from)
	TESTQ(w.left, w.left)
	JZ(target(done))
	w.take(done)
	w.use(w.left, w.dst)
	JMP(target(again))
	Label(done)
}

// end is moveOut at the end of a call, if there is a batch in the frame. What opened
// batches leave there is erased, because their tag may prove wrong.
func (w openRuns) end() {
	none, erase := newLabel("no_seam_"), newLabel("erase_")
	CMPQ(arg("s"), operand.U8(0))
	JE(target(none))
	CMPQ(w.used, operand.U8(0))
	JE(target(none))
	CMPQ(w.seam, operand.U8(0))
	JE(target(erase))
	w.moveOut()
	Label(erase)
	w.scratchAddress(w.from)
	clearVector(w.x)
	for i := 0; i < w.most; i += int(w.x.Size()) {
		VMOVDQU(w.x, at(w.from, i))
	}
	Label(none)
}
