package record

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"example.com/splitseal/internal/mem"
)

// WriterConfig holds what a [Writer] keeps for its whole life. The zero value
// is ready for use.
type WriterConfig struct {
	// DynamicRecordSizing makes the first records after a pause of a second so short
	// that each fits a TCP segment, so that the peer can open the first one when the
	// first segment has arrived. After 128 KiB records are as large as they may be.
	// It costs up to 2 % more bytes and several times the processor time for what it
	// applies to. It has no effect if the Sealer has a padding policy, which then
	// decides how long records are.
	DynamicRecordSizing bool

	// KeepBuffer keeps a buffer of 18 KiB between calls. It saves 20 ns in each
	// call that sends no more than one record.
	KeepBuffer bool
}

// Writer writes application data to a transport, in records that a [Sealer] makes.
// Content is sealed from where it is, except for pieces of a gathered write that are
// shorter than 256 bytes, which are first copied into the record.
//
// There is nothing to flush: every method hands all records that it has sealed to the
// transport before it returns, several of them in one write. Between calls a Writer
// holds no buffer, unless it is told to keep one. A call that waits for the
// transport, because the peer does not read for example, holds 18 KiB if it sends one
// record and 72 KiB if it sends more, which is four times what crypto/tls holds.
//
// A write to the transport that fails, or that takes less than it was given, is
// final: the records that it was given are neither sealed nor sent again, the Sealer
// is wiped, and every later call returns the same [TransportError]. The returned
// count covers the content whose records the transport has taken whole. A transport
// that takes less and returns no error counts as having failed with
// [io.ErrShortWrite].
//
// The KeyUpdates that the protocol demands are sent automatically: before the soft
// limit of a key, and before application data when the peer has requested one. See
// [Sealer.NeedsKeyUpdate].
//
// A call that panics, in the transport or in the padding function, is final
// too: later ones return [ErrInterrupted].
//
// A Writer must not be copied and is not safe for concurrent use.
type Writer struct {
	_ mem.NoCopy

	transport io.Writer
	sealer    *Sealer
	conn      *Conn // whose Writer this is, or nil
	err       error // final
	busy      bool  // a call runs, or has panicked

	// peerUpdate is what the Sealer has not been told yet: peerUpdated and
	// peerRequested.
	peerUpdate atomic.Uint32

	keep bool
	kept *outBuffer

	dynamic bool
	burst   int       // content since the last pause, up to burstSize
	last    time.Time // when the transport last took content
}

const (
	peerUpdated uint32 = 1 << iota
	peerRequested
)

// NewWriter returns a Writer of records that sealer makes. From here on the Sealer
// belongs to the Writer: another user of it would seal records that are not sent in
// order. The exception is key changes, between two calls of the Writer.
//
// It panics if transport or sealer is nil.
func NewWriter(transport io.Writer, sealer *Sealer, cfg WriterConfig) *Writer {
	w := new(Writer)
	w.init(transport, sealer, cfg)
	return w
}

func (w *Writer) init(transport io.Writer, sealer *Sealer, cfg WriterConfig) {
	if transport == nil || sealer == nil {
		panic("record: nil transport or Sealer")
	}
	w.transport, w.sealer = transport, sealer
	w.dynamic, w.keep = cfg.DynamicRecordSizing && sealer.padding == nil, cfg.KeepBuffer
}

// Write sends p in as few records as possible. An empty p sends nothing.
//
// It returns how many bytes of p are in records that the transport has taken whole.
// Its error is one of those of [Sealer.Seal] that are not final, after which the call
// can be repeated with the rest of p; a [TransportError] or another final error; or
// [ErrClosed] after [Writer.Close] or [Writer.SendAlert].
//
// See RFC 9846, Section 5.1.
func (w *Writer) Write(p []byte) (n int, err error) {
	if err := w.enter(); err != nil {
		return 0, err
	}
	if len(p) > 0 && len(p) <= w.sealer.MaxContentSize() && !w.dynamic {
		n, err = w.writeOne(p)
	} else {
		n, err = w.write(p, nil)
	}
	w.leave()
	return n, err
}

// writeOne is write for what fits one record, where the bookkeeping would cost a
// third of the time of a short one.
func (w *Writer) writeOne(p []byte) (n int, err error) {
	if err := w.conn.ended(); err != nil {
		return 0, err
	}
	if w.sealer.NeedsKeyUpdate() {
		return w.write(p, nil)
	}
	b := w.take(false)
	// In a local: in b the slice would be stored in parts and then loaded whole, which
	// waits for the stores.
	records, err := w.sealer.Seal(b.records, ContentTypeApplicationData, p)
	if err == nil {
		err = w.checkPeerAlert(b)
	}
	if err == nil {
		if n, err = w.transport.Write(records); n == len(records) && err == nil {
			n = len(p)
		} else {
			b.records = records
			w.addMark(b, len(p))
			n, err = w.finishWrite(b, n, err)
		}
	}
	b.put()
	return n, err
}

// write is Write between enter and leave. If sealed is not nil, it is called when p is
// no longer needed, which is before the transport is given the last of the records,
// and may wait.
func (w *Writer) write(p []byte, sealed func()) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	w.startBurst()
	b := w.take(len(p) > w.sealer.MaxContentSize())
	for len(p) > 0 && err == nil {
		size := min(len(p), w.contentSize())
		var m int
		if m, err = w.prepare(b, size); err == nil {
			if b.records, err = w.sealer.Seal(b.records, ContentTypeApplicationData, p[:size]); err == nil {
				w.addMark(b, size)
				p = p[size:]
			}
		}
		n += m
	}
	if sealed != nil {
		sealed()
	}
	m, err := w.flush(b, err)
	b.put()
	return n + m, err
}

// WriteBuffers sends the concatenation of pieces in as few records as possible:
// pieces share records, and long ones are sealed from where they are. A
// [net.Buffers] can be passed as it is; unlike its own methods WriteBuffers only
// reads the list and the pieces. Pieces may overlap each other. Empty ones are
// skipped, and if all are empty nothing is sent.
//
// Warning: the list must not change while WriteBuffers runs. An element that another
// goroutine is writing can be read torn, and memory that is in none of the pieces is
// then sealed and sent.
//
// The count and the errors are those of [Writer.Write].
func (w *Writer) WriteBuffers(pieces [][]byte) (n int64, err error) {
	if err := w.enter(); err != nil {
		return 0, err
	}
	n, err = w.writeBuffers(pieces)
	w.leave()
	return n, err
}

// writeBuffers is WriteBuffers between enter and leave.
func (w *Writer) writeBuffers(pieces [][]byte) (n int64, err error) {
	var left int64 // pieces may overlap, so an int could be too small
	for _, p := range pieces {
		left += int64(len(p))
	}
	if left == 0 {
		return 0, nil
	}
	w.startBurst()
	b := w.take(left > int64(w.sealer.MaxContentSize()))
	from := gather{pieces: pieces}
	for left > 0 && err == nil {
		size := int(min(left, int64(w.contentSize())))
		var m int
		if m, err = w.prepare(b, size); err == nil {
			at := len(b.records) + HeaderSize
			content := b.records[at : at+size]
			b.pieces = from.next(b.pieces[:0], content)
			if b.records, err = w.sealer.SealGather(b.records, ContentTypeApplicationData, b.pieces); err == nil {
				w.addMark(b, size)
				left -= int64(size)
			} else {
				clear(content) // what was copied there
			}
			clear(b.pieces) // keep no memory of the caller's alive
		}
		n += int64(m)
	}
	m, err := w.flush(b, err)
	b.put()
	return n + int64(m), err
}

// gather is a position in a list of pieces.
type gather struct {
	pieces [][]byte
	offset int // in the first of them
}

// next appends to list the pieces that make up the next len(content) bytes. The short
// ones are first copied to where they belong in content, and neighbours there become
// one piece, so that the list stays short however short the pieces are.
func (g *gather) next(list [][]byte, content []byte) [][]byte {
	copied := 0 // where in content the run of copied pieces begins
	at := 0
	for at < len(content) {
		p := g.pieces[0][g.offset:]
		if n := len(content) - at; len(p) > n {
			p = p[:n]
			g.offset += n
		} else {
			g.pieces, g.offset = g.pieces[1:], 0
		}
		if len(p) < copySize {
			at += copy(content[at:], p)
			continue
		}
		if copied < at {
			list = append(list, content[copied:at])
		}
		list = append(list, p)
		at += len(p)
		copied = at
	}
	if copied < at {
		list = append(list, content[copied:at])
	}
	return list
}

// ReadFrom sends all that it reads from r, until r returns an error. What one Read of
// r returns is sent before the next one is made. It reads up to 64 KiB at a time
// while r returns 16 KiB or more; otherwise it holds 18 KiB while it waits for r, and
// 36 KiB while it waits for the transport.
//
// It returns the number of bytes sent, and the error of r unless that is [io.EOF], or
// an error of [Writer.Write]. What was read and not sent is lost; the count says how
// much was sent. It returns [io.ErrNoProgress] if r returns neither bytes nor an
// error a hundred times in a row.
func (w *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	size := MaxContentSize
	b := takeInBuffer(false)
	release := func() {
		clear(b.b[:size]) // r may have written anywhere in it
		b.put()
		b = nil
	}
	defer func() {
		if b != nil {
			release()
		}
	}()
	for idle := 0; idle < maxEmptyReads; {
		if b == nil {
			b = takeInBuffer(size > MaxContentSize)
		}
		m, readErr := r.Read(b.b[:size])
		if m < 0 || m > size {
			return n, errInvalidRead
		}
		idle++
		if m > 0 {
			idle = 0
			k, err := w.writeRead(b.b[:m], release)
			n += int64(k)
			if err != nil {
				return n, err
			}
		}
		if readErr == io.EOF {
			return n, nil
		}
		if readErr != nil {
			return n, readErr
		}
		if large := m >= MaxContentSize; large != (size > MaxContentSize) {
			if b != nil {
				release()
			}
			if size = MaxContentSize; large {
				size *= 4
			}
		}
	}
	return n, io.ErrNoProgress
}

// writeRead is Write, through the Conn that w belongs to if there is one. If p takes
// several records it calls sealed, as write does, so that one large buffer is held
// while the transport waits, not two.
func (w *Writer) writeRead(p []byte, sealed func()) (n int, err error) {
	c := w.conn
	if c != nil {
		if err := c.beginWrite(); err != nil {
			return 0, err
		}
		defer c.endWrite()
	}
	if len(p) <= MaxContentSize {
		n, err = w.Write(p)
	} else if err = w.enter(); err == nil {
		n, err = w.write(p, sealed)
		w.leave()
	}
	if c != nil {
		err = c.writeError(err)
	}
	return n, err
}

// WriteHandshake sends handshake messages: one or more whole ones, in as few records
// as possible. It is for messages after the handshake, such as NewSessionTicket, and
// for handshakes that are done with a Writer. KeyUpdate messages are refused with
// [ErrContentType]; [Writer.KeyUpdate] sends them.
//
// If the soft limit of an application key leaves too few records for them, a
// KeyUpdate is sent first.
//
// It returns [ErrHandshakePartial] if messages does not end where a message ends, or
// [ErrContentType], and then nothing was sent; otherwise the errors of
// [Writer.Write]. An error that leaves a message partly sent is final.
//
// See RFC 9846, Section 5.1.
func (w *Writer) WriteHandshake(messages []byte) error {
	if err := w.enter(); err != nil {
		return err
	}
	err := w.writeHandshake(messages)
	w.leave()
	return err
}

func (w *Writer) writeHandshake(messages []byte) error {
	// "if a handshake message is split over two or more records, there MUST NOT
	// be any other records between them." (RFC 9846, Section 5.1)
	whole := w.sealer.messages
	whole.feed(messages)
	if whole.partial() {
		return ErrHandshakePartial
	}
	if whole.keyUpdate {
		return ErrContentType
	}
	if len(messages) == 0 {
		return nil
	}
	b := w.take(len(messages) > w.sealer.MaxContentSize())
	var err error
	limit := w.sealer.MaxContentSize()
	// Between the fragments of a message it would be too late for a KeyUpdate.
	update := !w.sealer.canSeal(uint64((len(messages) + limit - 1) / limit))
	for len(messages) > 0 && err == nil {
		if update {
			err = w.addKeyUpdate(b)
		}
		size := min(len(messages), limit)
		if err == nil && !w.room(b, size) {
			_, err = w.flush(b, nil)
		}
		if err == nil {
			if b.records, err = w.sealer.Seal(b.records, ContentTypeHandshake, messages[:size]); err == nil {
				w.addMark(b, 0)
				messages = messages[size:]
			}
		}
		update = !w.sealer.messages.partial() && w.sealer.NeedsKeyUpdate()
	}
	_, err = w.flush(b, err)
	b.put()
	if err != nil && w.sealer.messages.partial() {
		// Part of a message is out, and nothing else may follow it.
		w.fail(err)
	}
	return err
}

// KeyUpdate sends a KeyUpdate message and moves to the next generation of keys. If
// request is true it asks the peer for a KeyUpdate in return, unless an earlier
// request has not been answered yet. If there is an Opener for the other direction,
// call its [Opener.ExpectKeyUpdate] first.
//
// Its errors are those of [Sealer.SealKeyUpdate] and a [TransportError].
//
// See RFC 9846, Section 4.7.3.
func (w *Writer) KeyUpdate(request bool) error {
	if err := w.enter(); err != nil {
		return err
	}
	// "Until receiving a subsequent KeyUpdate from the peer, the sender MUST NOT
	// send another KeyUpdate with request_update set to "update_requested"."
	// (RFC 9846, Section 4.7.3)
	request = request && !w.sealer.KeyUpdateRequested()
	err := w.sendOne(func(dst []byte) ([]byte, error) {
		dst, err := w.sealer.SealKeyUpdate(dst, request)
		if err == nil && request {
			w.applyPeerUpdate() // what came before the request does not answer it
			w.sealer.requested = true
			if w.conn != nil {
				w.conn.in.opener.ExpectKeyUpdate() // before the peer can answer
			}
		}
		return dst, err
	})
	w.leave()
	return err
}

// sendOne sends the one record that seal makes, which carries no content of the
// caller's.
func (w *Writer) sendOne(seal func(dst []byte) ([]byte, error)) (err error) {
	b := w.take(false)
	if b.records, err = seal(b.records); err == nil {
		w.addMark(b, 0)
	}
	_, err = w.flush(b, err)
	b.put()
	return err
}

// PeerKeyUpdate tells w that the peer's KeyUpdate was received, and whether it
// requested one in return, which is then sent before the next application data.
// Requests that come before that are answered together.
//
// It may be called concurrently with all other methods, for example in
// [ReaderConfig.OnKeyUpdate] during a Write. The Sealer learns of it in the Writer's
// next call: to export the Sealer, make an empty Write first.
func (w *Writer) PeerKeyUpdate(request bool) {
	seen := peerUpdated
	if request {
		seen |= peerRequested
	}
	w.peerUpdate.Or(seen)
}

// applyPeerUpdate passes on to the Sealer what PeerKeyUpdate has been told since.
func (w *Writer) applyPeerUpdate() {
	if w.peerUpdate.Load() != 0 {
		w.sealer.PeerKeyUpdate(w.peerUpdate.Swap(0)&peerRequested != 0)
	}
}

// SendAlert sends the alert a. After close_notify and after an error alert every
// later call returns [ErrClosed]. After user_canceled the caller calls Close: "This
// alert MUST be followed by a "close_notify"." (RFC 9846, Section 6.1)
//
// Its errors are those of [Sealer.SealAlert] and a [TransportError].
//
// See RFC 9846, Section 6.
func (w *Writer) SendAlert(a Alert) error {
	if err := w.enter(); err != nil {
		return err
	}
	err := w.sendOne(func(dst []byte) ([]byte, error) { return w.sealer.SealAlert(dst, a) })
	if err == nil && a != AlertUserCanceled {
		w.err, w.kept = ErrClosed, nil
	}
	w.leave()
	return err
}

// Close sends close_notify and wipes the Sealer, whether or not close_notify could be
// sent. It does not close the transport. Closing again does nothing and returns nil,
// and so does closing after an error alert was sent; after another final error Close
// returns that error.
//
// "Each party MUST send a "close_notify" alert before closing its write side of
// the connection, unless it has already sent some error alert." (RFC 9846,
// Section 6.1)
func (w *Writer) Close() error {
	if w.err == ErrClosed {
		return nil
	}
	err := w.SendAlert(AlertCloseNotify)
	if err != nil && w.err == nil {
		w.fail(err)
	}
	return err
}

// enter begins a call. Until leave no other may begin.
func (w *Writer) enter() error {
	if w.busy {
		w.fail(ErrInterrupted)
	}
	if w.err != nil {
		return w.err
	}
	if w.sealer == nil {
		panic("record: Writer not made by NewWriter, or Conn not by NewConn")
	}
	w.busy = true
	w.applyPeerUpdate()
	return nil
}

func (w *Writer) leave() { w.busy = false }

// fail makes err final.
func (w *Writer) fail(err error) {
	w.busy = false
	w.kept = nil // after a panic it may hold content
	if w.err == nil {
		w.err = err
		w.sealer.Wipe()
	}
}

// take returns a buffer for records: a large one holds several.
func (w *Writer) take(large bool) *outBuffer {
	if large || !w.keep {
		return takeOutBuffer(large)
	}
	if w.kept == nil {
		w.kept = newOutBuffer(smallSize, smallMarks)
	}
	return w.kept
}

// prepare makes the Sealer and b ready for a record with size bytes of application
// data. It returns how much content the transport took meanwhile.
func (w *Writer) prepare(b *outBuffer, size int) (n int, err error) {
	for {
		// Again after each flush, which may have taken long.
		if err := w.conn.ended(); err != nil {
			return n, err
		}
		next, update := size, w.sealer.NeedsKeyUpdate()
		if update {
			next = keyUpdateSize
		}
		if !w.room(b, next) {
			m, err := w.flush(b, nil)
			n += m
			if err != nil {
				return n, err
			}
			// Not after each KeyUpdate: a peer that asks faster than we answer
			// would get nothing else.
			w.applyPeerUpdate()
			continue
		}
		if !update {
			return n, nil
		}
		// "If the request_update field is set to "update_requested", then the
		// receiver MUST send a KeyUpdate of its own with request_update set to
		// "update_not_requested" prior to sending its next Application Data
		// record." (RFC 9846, Section 4.7.3); and "Implementations MUST either
		// close the connection or do a key update as described in [Section 4.7.3]
		// prior to reaching these limits." (Section 5.5)
		if err := w.addKeyUpdate(b); err != nil {
			return n, err
		}
	}
}

// addKeyUpdate puts a KeyUpdate into b, which is flushed first if it has no room.
func (w *Writer) addKeyUpdate(b *outBuffer) (err error) {
	if !w.room(b, keyUpdateSize) {
		if _, err = w.flush(b, nil); err != nil {
			return err
		}
	}
	if b.records, err = w.sealer.SealKeyUpdate(b.records, false); err == nil {
		w.addMark(b, 0)
	}
	return err
}

// room reports whether b has room for one more record with size bytes of
// content. An empty buffer always has.
func (w *Writer) room(b *outBuffer, size int) bool {
	need := w.sealer.SealedSize(size)
	if w.sealer.padding != nil {
		need = w.sealer.MaxSealedSize()
	}
	return need <= cap(b.records)-len(b.records) && len(b.marks) < cap(b.marks)
}

// addMark notes that b holds one more record, with the given amount of the caller's
// content.
func (w *Writer) addMark(b *outBuffer, content int) {
	b.marks = append(b.marks, mark{end: len(b.records), content: content})
	w.burst = min(w.burst+content, burstSize)
}

// flush hands what b holds to the transport and returns how much content the
// transport took in whole records. It also returns err, unless the transport fails.
func (w *Writer) flush(b *outBuffer, err error) (n int, _ error) {
	if len(b.records) == 0 {
		return 0, err
	}
	if err := w.checkPeerAlert(b); err != nil {
		return 0, err
	}
	taken, writeErr := w.transport.Write(b.records)
	n, writeErr = w.finishWrite(b, taken, writeErr)
	if writeErr != nil {
		err = writeErr
	}
	return n, err
}

// checkPeerAlert drops what b holds, and ends w, if the peer has sent an error alert.
func (w *Writer) checkPeerAlert(b *outBuffer) error {
	err := w.conn.peerAlert()
	if err != nil {
		b.reset()
		w.fail(err)
	}
	return err
}

// finishWrite acts on what the transport returned for a write of all of b, and
// empties b. It returns how much content was taken in whole records.
func (w *Writer) finishWrite(b *outBuffer, taken int, writeErr error) (n int, err error) {
	if taken < 0 || taken > len(b.records) {
		taken = 0
		writeErr = errInvalidWrite
	}
	if writeErr == nil && taken < len(b.records) {
		writeErr = io.ErrShortWrite
	}
	for _, m := range b.marks {
		if m.end > taken {
			break
		}
		n += m.content
	}
	b.reset()
	if w.dynamic && n > 0 {
		w.last = time.Now()
	}
	if writeErr != nil {
		err = &TransportError{Op: "write", Err: replaceEOF(writeErr, io.ErrClosedPipe)}
		w.fail(err)
	}
	return n, err
}

// startBurst begins a new burst if the pause before this call was long enough.
func (w *Writer) startBurst() {
	if w.dynamic && time.Since(w.last) >= burstPause {
		w.burst = 0
	}
}

// contentSize returns how much content the next record may carry.
func (w *Writer) contentSize() int {
	size := w.sealer.MaxContentSize()
	if w.dynamic && w.burst < burstSize {
		return min(size, segmentSize-w.sealer.Overhead())
	}
	return size
}

var (
	errInvalidRead  = errors.New("record: impossible count from Read")
	errInvalidWrite = errors.New("record: impossible count from Write")
)

// From RFC 9846, Section 4.7.3.
const keyUpdateSize = messageHeaderSize + 1

// Tuned here.
const (
	// copySize is the least size of a piece of a gathered write that is sealed from
	// where it is. It bounds the list of pieces of a record to 129.
	copySize = 256

	// maxEmptyReads is the number of reads in a row that may return nothing, as
	// in package bufio.
	maxEmptyReads = 100

	// segmentSize is the size of the records with which a burst begins when records
	// are sized dynamically. It fits a TCP segment over IPv6 with timestamps at an
	// MTU of 1400 bytes, below those that are usual for tunnels.
	segmentSize = 1400 - 40 - 20 - 12

	// burstSize is the content after which records are as large as they may be;
	// crypto/tls has the same. burstPause is the pause that ends a burst, after
	// which TCP's congestion window may have shrunk.
	burstSize  = 128 << 10
	burstPause = time.Second
)
