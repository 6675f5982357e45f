package record

import (
	"sync/atomic"
	"time"
)

// semaphore is a lock that one can stop waiting for. It costs two atomic operations
// when nobody waits; a channel alone costs three times as much. Those who wait get it
// in order.
type semaphore struct {
	users atomic.Int32  // the one who has it, and those who wait
	next  chan struct{} // passes it to the next of them
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
// the turn comes, in a goroutine of its own that has the lock meanwhile.
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
