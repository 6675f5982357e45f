package gcm_test

import (
	"bytes"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/splitseal/gcm"
)

// A disturbance is something that the runtime or the system does to a thread
// while it is inside a kernel.
type disturbance struct {
	name string
	// start begins it and returns what ends it. threads are those that run the
	// calls; only some systems can aim at them, and count their kicks.
	start func(t *testing.T, threads []int, kicks *atomic.Int64) (stop func())
	kicks bool // start counts kicks
}

var disturbances = []disturbance{
	{"profiler", func(t *testing.T, _ []int, _ *atomic.Int64) func() {
		// Fails only if the whole test run is being profiled: just as good.
		if pprof.StartCPUProfile(io.Discard) != nil {
			return func() {}
		}
		return pprof.StopCPUProfile
	}, false},
	{"signals", kickThreads, canKick},
	{"tracer", func(t *testing.T, _ []int, _ *atomic.Int64) func() {
		// The tracer and these two walk stacks by frame pointers.
		runtime.SetBlockProfileRate(1)
		fraction := runtime.SetMutexProfileFraction(1)
		traced := trace.Start(io.Discard) == nil
		stop := locking()
		return func() {
			stop()
			if traced {
				trace.Stop()
			}
			runtime.SetMutexProfileFraction(fraction)
			runtime.SetBlockProfileRate(0)
		}
	}, false},
	{"collector", func(t *testing.T, _ []int, _ *atomic.Int64) func() {
		percent := debug.SetGCPercent(1)
		stop := repeat(func() {
			garbage = make([]byte, 1<<16)
			runtime.GC()
		})
		return func() { stop(); debug.SetGCPercent(percent) }
	}, false},
	{"preemption", func(t *testing.T, _ []int, _ *atomic.Int64) func() {
		// Stopping the world asks every running goroutine to yield, with a
		// signal if it does not.
		return repeat(func() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			time.Sleep(50 * time.Microsecond)
		})
	}, false},
}

var garbage []byte

// repeat calls f in another goroutine until stop is called.
func repeat(f func()) (stop func()) {
	var done atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for !done.Load() {
			f()
		}
	})
	return func() { done.Store(true); group.Wait() }
}

// locking makes events for the block and mutex profiles.
func locking() (stop func()) {
	var mu sync.Mutex
	hold := func() {
		mu.Lock()
		time.Sleep(20 * time.Microsecond)
		mu.Unlock()
	}
	first, second := repeat(hold), repeat(hold)
	return func() { first(); second() }
}

// TestBackendDisturbed makes every call while the runtime samples, traces,
// stops and collects: vector registers, frame pointer and stack must come
// through. First one disturbance at a time, then all of them.
//
// Signals are counted, and the test goes on until there were enough of them: some
// thousand a second come if the machine has nothing else to do.
func TestBackendDisturbed(t *testing.T) {
	const each, together = 250 * time.Millisecond, 1500 * time.Millisecond
	for _, d := range disturbances {
		t.Run(d.name, func(t *testing.T) { disturbed(t, each, 1000, d) })
	}
	t.Run("all", func(t *testing.T) { disturbed(t, together, 2000, disturbances...) })
}

func disturbed(t *testing.T, length time.Duration, enough int64, what ...disturbance) {
	const (
		workers = 3
		// Machines that are very busy with other things take a signal every 2 ms.
		slowest = 10 * time.Millisecond
	)
	var (
		group   sync.WaitGroup
		done    atomic.Bool
		calls   atomic.Int64
		kicks   atomic.Int64
		threads = make(chan int, workers)
		release = make(chan struct{})
	)
	// Workers do not yield. With a processor of the scheduler's for each of them, and
	// some for what disturbs them, the system shares the real ones out, and not the
	// scheduler, which would give one to a goroutine that kicks 50 times a second.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + workers + 2))
	for w := range workers {
		group.Go(func() {
			// The thread must outlive the signals that are aimed at it.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer func() { <-release }()
			threads <- threadID()
			s := standardKeys()[w%3]
			h := new(heapMemory)
			x := newExam(t, s, h)
			var m message
			for turn := w; !done.Load(); turn += workers {
				// Short texts for the paths around the kernels, long ones to be
				// inside them when the signal comes.
				n := turn * 37 % 1500
				if turn%4 == 0 {
					n = 16384 + turn%50000
				}
				s.record(&m, uint64(turn), n, turn%9)
				vary(h, &m, turn)
				x.all(&m)
				calls.Add(1)
			}
		})
	}
	defer func() { // also when something cannot be started
		done.Store(true)
		close(release)
		group.Wait()
	}()
	var ids []int
	for range workers {
		ids = append(ids, <-threads)
	}
	var stops []func()
	counted := false
	for _, d := range what {
		stops = append(stops, d.start(t, ids, &kicks))
		counted = counted || d.kicks
	}
	begin := time.Now()
	time.Sleep(length)
	if counted {
		for kicks.Load() < enough && time.Since(begin) < time.Duration(enough)*slowest && !t.Failed() {
			time.Sleep(length / 10)
		}
		n, took := kicks.Load(), time.Since(begin)
		t.Logf("%d signals, %.0f a second", n, float64(n)/took.Seconds())
		if n < enough {
			t.Errorf("%d signals were taken in %v, want %d", n, took, enough)
		}
	}
	for _, stop := range stops {
		stop()
	}
	if calls.Load() == 0 {
		t.Error("no call was made in the time given")
	}
}

// TestBackendStacks makes calls from stacks of every depth, in new goroutines
// whose stacks have to grow at that very moment. The buffers are on the heap,
// where the compiler puts what these methods are given; TestStacks in internal/asm
// has them on the stack that moves.
func TestBackendStacks(t *testing.T) {
	for _, s := range standardKeys() {
		var m message
		s.record(&m, 7, 100, 5)
		long := pool[1000 : 1000+5000]
		longSealed := s.oracle.Seal(nil, m.nonce, long, m.aad)
		for _, tgt := range s.targets {
			ok := true
			call := func() {
				ok = ok && callFromStack(tgt, &m)
				ok = ok && callFromStackLong(tgt, &m, long, longSealed)
			}
			for depth := 0; depth < 500; depth += stepFor(7) {
				// One at a time: a RecordKey has one owner.
				var group sync.WaitGroup
				group.Go(func() { descend1(depth, call) })
				group.Wait()
				group.Go(func() { descend5(depth, call) })
				group.Wait()
			}
			if !ok {
				t.Errorf("%s %s: a call from a growing stack gave something else", tgt.backend, s.name)
			}
		}
	}
}

// descend1 and descend5 call f under depth frames, of different sizes, so that
// the stack's end falls everywhere.
//
//go:noinline
func descend1(depth int, f func()) byte {
	var frame [8]byte
	frame[depth%len(frame)] = byte(depth)
	if depth == 0 {
		f()
		return frame[0]
	}
	return descend1(depth-1, f) + frame[depth%3]
}

//go:noinline
func descend5(depth int, f func()) byte {
	var frame [40]byte
	frame[depth%len(frame)] = byte(depth)
	if depth == 0 {
		f()
		return frame[0]
	}
	return descend5(depth-1, f) + frame[depth%3]
}

// callFromStack seals and opens m.
//
//go:noinline
func callFromStack(tgt *target, m *message) bool {
	var buf [116]byte
	var prefix [99]byte
	n := copy(buf[:], m.text)
	tgt.aead.Seal(buf[:0], m.nonce, buf[:n], m.aad)
	if !bytes.Equal(buf[:], m.sealed) {
		return false
	}
	err := tgt.record.OpenSplit(prefix[:], m.seq, buf[:], m.ad)
	if err != nil || !bytes.Equal(prefix[:], m.text[:99]) || buf[99] != m.text[99] {
		return false
	}
	tgt.record.Seal(buf[:], m.seq, prefix[:], m.text[99], m.ad)
	if !bytes.Equal(buf[:], m.sealed) {
		return false
	}
	_, err = tgt.aead.Open(buf[:0], m.nonce, buf[:], m.aad)
	return err == nil && bytes.Equal(buf[:n], m.text)
}

// callFromStackLong does the same with a longer text.
//
//go:noinline
func callFromStackLong(tgt *target, m *message, text, sealed []byte) bool {
	var buf [5000 + gcm.TagSize]byte
	n := copy(buf[:], text)
	tgt.aead.SealSplit(buf[:], m.nonce, text[:n/2], m.aad)
	if !bytes.Equal(buf[:], sealed) {
		return false
	}
	_, err := tgt.aead.Open(buf[:0], m.nonce, buf[:], m.aad)
	return err == nil && bytes.Equal(buf[:n], text)
}
