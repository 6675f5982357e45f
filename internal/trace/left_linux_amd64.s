//go:build !purego

#include "textflag.h"

// func LeaveOnStack(secret uint64)
TEXT ·LeaveOnStack(SB), NOSPLIT, $512-8
	MOVQ secret+0(FP), AX
	MOVQ AX, x-512(SP)
	XORL AX, AX
	RET

// func LeaveInGeneral(secret uint64)
TEXT ·LeaveInGeneral(SB), NOSPLIT, $0-8
	MOVQ secret+0(FP), R10
	RET

// func LeaveInVector(secret uint64)
TEXT ·LeaveInVector(SB), NOSPLIT, $0-8
	MOVQ secret+0(FP), X13
	RET

// func LeaveInUpper(secret uint64)
TEXT ·LeaveInUpper(SB), NOSPLIT, $0-8
	VMOVQ secret+0(FP), X7
	VINSERTI128 $1, X7, Y7, Y7
	VPXOR X1, X1, X1
	VPBLENDD $15, Y1, Y7, Y7 // its lower half is empty
	RET

// func LeaveInMore(secret uint64)
TEXT ·LeaveInMore(SB), NOSPLIT, $0-8
	VPBROADCASTQ secret+0(FP), Z31
	RET
