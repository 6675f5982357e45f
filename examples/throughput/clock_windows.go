package main

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32  = windows.NewLazySystemDLL("kernel32.dll")
	counter   = kernel32.NewProc("QueryPerformanceCounter")
	frequency = query(kernel32.NewProc("QueryPerformanceFrequency"))
)

// now returns the time since some moment. It does not use the clock of time.Now,
// which moves in steps of up to 16 ms here.
func now() time.Duration {
	ticks := query(counter)
	return time.Duration(ticks/frequency)*time.Second + time.Duration(ticks%frequency)*time.Second/time.Duration(frequency)
}

// query returns what one of the two functions above writes. They cannot fail.
func query(p *windows.LazyProc) int64 {
	var v int64
	p.Call(uintptr(unsafe.Pointer(&v)))
	return v
}
