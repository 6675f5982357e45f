package asm

import "unsafe"

// The layout of Key, longTable and stream that the kernels assume; a difference
// does not compile.
var (
	_ = [1]struct{}{}[unsafe.Offsetof(Key{}.start)-layoutStart]
	_ = [1]struct{}{}[unsafe.Offsetof(Key{}.rounds)-layoutRounds]
	_ = [1]struct{}{}[unsafe.Offsetof(Key{}.roundCount)-layoutRoundCount]
	_ = [1]struct{}{}[unsafe.Offsetof(Key{}.short)-layoutShort]
	_ = [1]struct{}{}[unsafe.Sizeof(Key{})-layoutKeySize]
	_ = [1]struct{}{}[unsafe.Offsetof(longTable{}.powers)]
	_ = [1]struct{}{}[unsafe.Offsetof(longTable{}.halves)-layoutHalves]
	_ = [1]struct{}{}[unsafe.Offsetof(longTable{}.group)-layoutGroup]
	_ = [1]struct{}{}[unsafe.Sizeof(longTable{})-layoutLongSize]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.hash)-layoutHash]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.mask)-layoutMask]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.pieces)-layoutPieces]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.rest)-layoutRest]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.size)-layoutSize]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.counter)-layoutCounter]
	_ = [1]struct{}{}[unsafe.Offsetof(stream{}.final)-layoutFinal]
)
