package record

import (
	"fmt"
	"net"
	"os"
	"time"
)

// CloseWrite sends close_notify: nothing more will be sent. Reading goes on. It does
// not shut the transport down, so no FIN is sent. Calling it again does nothing and
// returns nil. It waits for a write that is under way, and then has five seconds,
// whatever the write deadline, if the transport has deadlines; afterwards the
// transport has no write deadline. Its errors are those of Write, including that of a
// dead connection.
//
// See RFC 9846, Section 6.1.
func (c *Conn) CloseWrite() error {
	if err := c.beginWrite(); err != nil {
		return err
	}
	defer c.endWrite()
	if c.out.err == ErrClosed {
		return nil
	}
	if err := c.writable(); err != nil {
		return err
	}
	c.lastDeadline(closeWriteTimeout)
	err := c.closeNotify()
	if err == nil {
		c.deadlineLock.Lock()
		defer c.deadlineLock.Unlock()
		c.ending = false
		c.transport.SetWriteDeadline(time.Time{}) // for those who go on over the transport
	}
	return c.writeError(err)
}

// SendAlert sends the alert a, for a caller whose own code has found a fault of the
// peer's: in post-handshake authentication, say. An error alert ends the connection,
// whether or not it can be sent: no more records are opened, and every later read,
// write or Export returns an error that wraps [ErrClosed], except in a direction that
// had ended before, which keeps its error: after the peer's close_notify Read still
// returns io.EOF. A Read that is waiting goes on waiting until something arrives, or
// until Close. If no Write is under way the alert is sent at once, within a second,
// whatever the write deadline; otherwise that Write sends it, unless Close breaks the
// Write off. It is not sent at all after CloseWrite, after a failed Write, or at the
// key's hard limit.
//
// It may be called in [ConnConfig.HandleMessage] too. If that then returns an error,
// the Read under way and later ones return it, as a [HookError].
//
// For [AlertCloseNotify] it is [Conn.CloseWrite]. [AlertUserCanceled] is sent as a
// Write is, with the errors of Write and [ErrKeyExhausted]; the caller then calls
// Close. For an error alert SendAlert returns an error only if the connection was
// dead before.
//
// See RFC 9846, Section 6.
func (c *Conn) SendAlert(a Alert) error {
	switch a {
	case AlertCloseNotify:
		return c.CloseWrite()
	case AlertUserCanceled:
		return c.write(func() error {
			err := c.out.SendAlert(a)
			if err == nil {
				c.callOnAlert(a, true)
			}
			return err
		})
	}
	if c.transport == nil {
		panic(notMade)
	}
	// "Upon transmission or receipt of a fatal alert message, both parties MUST
	// immediately close the connection." (RFC 9846, Section 6.2)
	c.endLock.Lock()
	err := c.overError()
	if err == nil && !c.failure.CompareAndSwap(nil, &failure{err: errAlertSent, alert: a, send: true}) {
		err = c.failure.Load().err
	}
	c.endLock.Unlock()
	if err == nil {
		c.applyFailure()
	}
	return err
}

// Close sends close_notify, if this direction has not ended yet, and closes the
// transport. Reads and writes that are under way, and later ones, return
// [net.ErrClosed].
//
// If a write is under way that does not end within a millisecond, Close breaks it
// off, and no close_notify is sent. Otherwise Close has a second to send it, whatever
// the write deadline, and another tenth of a second if the transport's deadlines do
// nothing. Methods that are under way may return, and run hooks, after Close has
// returned.
//
// It returns the error of the transport's Close, or else the [TransportError] of an
// earlier write or the error of close_notify itself, which is [ErrKeyExhausted] at
// the key's hard limit. It does not return the error of a write that it breaks off.
// If Close has been called before, it returns [net.ErrClosed].
func (c *Conn) Close() (err error) {
	if c.transport == nil {
		panic(notMade)
	}
	if err := c.markClosed(); err != nil {
		return err
	}
	defer func() { // also when something below panics
		if closeErr := c.closeTransport(); closeErr != nil {
			err = closeErr
		}
		c.closeRead()
	}()
	if !c.writeLock.lockWithin(writeGrace, c.closeWritingLate) {
		return nil
	}
	defer c.closeWriting()
	if c.failure.Load() == nil && c.out.err == nil {
		return c.lastWrite(closeTimeout, c.closeNotify)
	}
	if _, ok := c.out.err.(*TransportError); ok {
		return c.out.err
	}
	return nil
}

// errAlertSent is the error of a connection that SendAlert has ended.
var errAlertSent = fmt.Errorf("%w by an error alert of this side", ErrClosed)

var errTooLate = &TransportError{Op: "write", Err: fmt.Errorf("the transport did not take close_notify: %w", os.ErrDeadlineExceeded)}

// How a connection ends: failure (a fault found here, or an alert, received or sent by
// SendAlert) and over (Close, Export) are each set once, without the write lock. Whoever
// has that lock acts on a failure: unlockWrite does before the lock is released, and
// endWrite looks once more afterwards, for a failure that was set in between.
// applyFailure is for those who have just set one: if the lock is taken, they leave it
// to its holder. Three questions can be asked:
//
//   - overError: was Close or Export called?
//   - ended: or has the connection failed, so that no more records may be opened or
//     sealed?
//   - writable: or has this direction alone ended?

// failure is why a connection is dead in both directions.
type failure struct {
	err   error
	alert Alert // to be sent, if send is set
	send  bool
}

// markClosed marks c as closed, or returns why it cannot be.
func (c *Conn) markClosed() error {
	c.endLock.Lock()
	defer c.endLock.Unlock()
	err := c.overError()
	if err == nil {
		c.over.Store(&net.ErrClosed)
	}
	return err
}

// closeNotify sends close_notify, under the write lock.
func (c *Conn) closeNotify() error {
	err := c.out.Close()
	if err == nil {
		c.callOnAlert(AlertCloseNotify, true)
	}
	return err
}

// lastWrite runs send, which makes the last write. If that takes longer than wait,
// the transport is closed, which ends the write even if the transport has no
// deadlines, or its deadlines do nothing.
func (c *Conn) lastWrite(wait time.Duration, send func() error) (err error) {
	timer := time.AfterFunc(wait+deadlineGrace, func() { c.closeTransport() })
	defer func() { // also when the transport panics
		if !timer.Stop() && err != nil {
			err = errTooLate // not what closing the transport made of it
		}
	}()
	if c.lastDeadline(wait) != nil && timer.Stop() {
		timer.Reset(wait)
	}
	return send()
}

// lastDeadline takes the write deadline out of the caller's hands for the last write,
// and moves it to the end of wait. No write is under way.
func (c *Conn) lastDeadline(wait time.Duration) error {
	if c.transport == nil {
		panic(notMade)
	}
	c.deadlineLock.Lock()
	defer c.deadlineLock.Unlock()
	c.ending = true
	return c.transport.SetWriteDeadline(time.Now().Add(wait))
}

// closeWriting ends the direction that Close has closed, and releases the write lock.
func (c *Conn) closeWriting() {
	if c.failure.Load() == nil {
		c.out.fail(net.ErrClosed)
	}
	c.endWrite() // with the alert of failure
}

// closeWritingLate is closeWriting for when the lock comes too late. Close may have
// returned, after which no hook may run, so no alert is sent.
func (c *Conn) closeWritingLate() {
	err := net.ErrClosed
	if f := c.failure.Load(); f != nil {
		err = f.err
	}
	c.out.fail(err)
	c.endWrite()
}

// readFailed ends the other direction too, under the read lock.
//
// "Upon transmission or receipt of a fatal alert message, both parties MUST
// immediately close the connection." "Whenever an implementation encounters a fatal
// error condition, it SHOULD send an appropriate fatal alert and MUST close the
// connection without sending or receiving any additional data." (RFC 9846, Section
// 6.2). Deviation: the transport stays open until the caller's Close, though nothing
// more is sent or read. Closing it here, with data of the peer unread, could lose the
// alert.
func (c *Conn) readFailed(err error) {
	f := &failure{err: err, send: true}
	// Not errors.As: an error of the handler may wrap another connection's alert.
	if _, received := err.(*AlertError); received {
		f.send = false
	} else if a, ok := AlertOf(err); ok {
		f.alert = a
	} else {
		// "internal_error: An internal error unrelated to the peer or the
		// correctness of the protocol" (RFC 9846, Section 6.2)
		f.alert = AlertInternalError
	}
	if c.failure.CompareAndSwap(nil, f) {
		c.applyFailure()
	}
}

// unlockWrite ends this direction if the connection has failed, or if the call that
// holds the write lock has panicked, and releases the lock.
func (c *Conn) unlockWrite() {
	defer c.writeLock.unlock()
	if c.out.busy {
		c.out.fail(ErrInterrupted) // the call has panicked
	}
	f := c.failure.Load()
	switch {
	case f == nil || c.out.err != nil:
	case f.send:
		c.sendFailure(f)
	default:
		c.out.fail(f.err)
	}
}

// applyFailure ends this direction after a failure, unless the write lock is taken:
// its holder looks again after releasing it.
func (c *Conn) applyFailure() {
	if c.writeLock.tryLock() {
		c.unlockWrite()
	}
}

// sendFailure sends the alert of f, if the transport takes it in time, and ends this
// direction.
func (c *Conn) sendFailure(f *failure) {
	defer func() { // also when the transport panics
		c.out.fail(f.err)
		c.out.err = f.err // instead of what SendAlert has left
	}()
	if c.lastWrite(alertTimeout, func() error { return c.out.SendAlert(f.alert) }) == nil {
		c.callOnAlert(f.alert, true)
	}
}

// Tuned here.
const (
	// writeGrace is how long Close waits for a write that is under way. Most take
	// microseconds. One that is stalled must not hold up a server that closes
	// thousands of connections one after the other.
	writeGrace = time.Millisecond

	// closeTimeout is how long Close waits to send close_notify, and alertTimeout how
	// long a Read waits to send an error alert: a few round trips, in which a peer
	// that reads makes room for it.
	closeTimeout = time.Second
	alertTimeout = time.Second

	// closeWriteTimeout is crypto/tls's.
	closeWriteTimeout = 5 * time.Second

	// deadlineGrace is how late a write that a deadline has ended may return.
	deadlineGrace = 100 * time.Millisecond
)
