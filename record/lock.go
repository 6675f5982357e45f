package record

import (
	"sync/atomic"
	"time"
)

// semaphore is a lock that one can stop waiting for. It costs two atomic
// operations when nobody waits; a channel alone costs three times as much. Those
// who wait get it in their order.
type semaphore struct {
	users atomic.Int32  // who has it, and who waits
	next  chan struct{} // handed to the next of them
}

func (s *semaphore) init() { s.next = make(chan struct{}, 1) }

func (s *semaphore) lock() {
	if s.users.Add(1) > 1 {
		<-s.next
	}
}

func (s *semaphore) tryLock() bool { return s.users.CompareAndSwap(0, 1) }

func (s *semaphore) unlock() {
	if s.users.Add(-1) > 0 {
		s.next <- struct{}{}
	}
}

// lockWithin takes the lock if its turn comes in time. Otherwise it calls late when
// it comes, in a goroutine of its own that has the lock meanwhile.
func (s *semaphore) lockWithin(wait time.Duration, late func()) bool {
	if s.users.Add(1) == 1 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.next:
		return true
	case <-timer.C:
		select {
		case <-s.next:
			return true
		default:
		}
		go func() {
			<-s.next
			late()
		}()
		return false
	}
}
