package record

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSemaphore(t *testing.T) {
	var s semaphore
	s.init()
	inside, count := 0, 0
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				switch {
				case i == 0:
					if !s.tryLock() {
						continue
					}
				case i == 1:
					if !s.lockWithin(time.Minute, func() { t.Error("late") }) {
						t.Error("not within a minute")
						return
					}
				default:
					s.lock()
				}
				if inside++; inside != 1 {
					t.Error("two have the lock")
				}
				count++
				inside--
				s.unlock()
			}
		})
	}
	all.Wait()
	if count < 7000 || s.users.Load() != 0 || len(s.next) != 0 {
		t.Errorf("%d turns, %d users", count, s.users.Load())
	}
	synctest.Test(t, func(t *testing.T) {
		var s semaphore
		s.init()
		s.lock()
		late := make(chan bool, 1)
		if s.lockWithin(time.Second, func() { late <- true; s.unlock() }) {
			t.Error("the lock was taken")
		}
		if s.tryLock() {
			t.Error("the lock was free")
		}
		waiter := make(chan bool)
		go func() { s.lock(); s.unlock(); close(waiter) }()
		synctest.Wait()
		if len(late) > 0 {
			t.Error("late without the lock")
		}
		s.unlock()
		<-late
		<-waiter
		if !s.tryLock() {
			t.Error("the lock is still taken")
		}
	})
}
