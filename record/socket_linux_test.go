package record

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSocketInterrupted has signals interrupt the system call that reads a socket,
// which is then made again. The sockets of package net do not block, so there the call
// is over too soon; Linux interrupts one that blocks if the socket has a timeout.
func TestSocketInterrupted(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	if err := syscall.SetsockoptTimeval(fds[0], syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 10}); err != nil {
		t.Fatal(err)
	}
	// interrupt sends so many signals to the thread that runs read, and then a byte. It
	// ends when read does.
	interrupt := func(signals int, read func()) {
		thread, done := make(chan int), make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			thread <- syscall.Gettid()
			read()
			close(done)
		}()
		id := <-thread
		for range signals {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			// The runtime uses this signal itself, and expects it at any time.
			if err := unix.Tgkill(os.Getpid(), id, syscall.SIGURG); err != nil {
				t.Error(err)
			}
		}
		if _, err := syscall.Write(fds[1], []byte("x")); err != nil {
			t.Error(err)
		}
		<-done
	}
	interrupt(2000, func() { _, err = syscall.Read(fds[0], make([]byte, 1)) })
	if err != syscall.EINTR {
		t.Skipf("signals do not interrupt a read here: %v", err)
	}

	conn, _ := unixPair(t)
	r := newTestReader(t, conn, ReaderConfig{})
	s := r.socket
	s.r = r
	done := false
	interrupt(20, func() { done = s.readReady(uintptr(fds[0])) })
	if !done || s.n != 1 || s.err != nil || r.b.b[0] != 'x' {
		t.Errorf("%v, %d bytes, %v", done, s.n, s.err)
	}
}
