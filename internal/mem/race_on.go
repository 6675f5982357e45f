//go:build race

package mem

import (
	"runtime"
	"unsafe"
)

const race = true

func raceRead(b []byte)  { runtime.RaceReadRange(unsafe.Pointer(&b[0]), len(b)) }
func raceWrite(b []byte) { runtime.RaceWriteRange(unsafe.Pointer(&b[0]), len(b)) }
