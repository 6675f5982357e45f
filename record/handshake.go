package record

import "example.com/splitseal/internal/mem"

// messageTracker follows handshake messages through the content of records
// without keeping any of it: where they begin and end, and their types.
type messageTracker struct {
	have      uint8  // header bytes seen of the message that is partly through
	length    uint32 // of its body: what the header said, then what is missing
	current   uint8  // its type
	last      uint8  // type of the last message that ended
	ended     bool   // a message has ended since the keys changed
	any       bool   // a message has ended, under any keys
	first     uint8  // type of the first message, under any keys
	keyUpdate bool   // a KeyUpdate message has begun
	trailing  bool   // a message began after a KeyUpdate
}

// partial reports whether a message has begun and not ended.
func (t *messageTracker) partial() bool { return t.have > 0 }

// feed takes the handshake content that follows what it has seen. It reports
// whether a message ends in it.
func (t *messageTracker) feed(p []byte) (ends bool) {
	for len(p) > 0 {
		switch {
		case t.have == 0:
			t.trailing = t.trailing || t.ended && t.last == typeKeyUpdate
			t.current = p[0]
			if !t.any {
				t.first = t.current
			}
			t.keyUpdate = t.keyUpdate || t.current == typeKeyUpdate
			t.have = 1
			p = p[1:]
		case t.have < messageHeaderSize:
			t.length = t.length<<8 | uint32(p[0])
			t.have++
			p = p[1:]
		default:
			n := min(len(p), int(t.length))
			t.length -= uint32(n)
			p = p[n:]
		}
		if t.have == messageHeaderSize && t.length == 0 {
			t.have = 0
			t.last = t.current
			t.ended, t.any = true, true
			ends = true
		}
	}
	return ends
}

// keysChanged forgets the messages under the old keys.
func (t *messageTracker) keysChanged() {
	t.last, t.ended, t.keyUpdate, t.trailing = 0, false, false, false
}

// mayEnter reports whether the message that ended last is one that precedes the keys
// of epoch e. Anything between that message and the key change has been read under
// the wrong keys.
//
// "Any records following a Finished message MUST be encrypted under the appropriate
// application traffic key" (RFC 9846, Section 4.5.3)
//
// "Because the ClientHello, EndOfEarlyData, ServerHello, Finished, and
// KeyUpdate messages can immediately precede a key change, implementations
// MUST send these messages in alignment with a record boundary."
// (RFC 9846, Section 5.1)
func (t *messageTracker) mayEnter(e Epoch) bool {
	if t.partial() {
		return false
	}
	if !t.ended {
		return true
	}
	switch e {
	case EpochEarly:
		return t.last == typeClientHello
	case EpochHandshake:
		return t.last == typeClientHello || t.last == typeServerHello || t.last == typeEndOfEarlyData
	case EpochApplication:
		return t.last == typeFinished
	}
	return false
}

// HandshakeReader joins handshake messages that are fragmented across records
// and separates those that share one. It does no I/O, and looks at no message beyond
// its header.
//
// Messages hold secrets, such as tickets. A HandshakeReader overwrites memory before
// giving it up. What it still holds when it is no longer used is overwritten only if
// [HandshakeReader.Wipe] is called.
//
// A HandshakeReader is not safe for concurrent use.
//
// See RFC 9846, Sections 4 and 5.1.
type HandshakeReader struct {
	_    mem.NoCopy
	buf  []byte // messages that were returned; unread content from read on
	read int
	max  int
	err  error
}

// NewHandshakeReader returns a reader of messages whose bodies, not counting the
// header of four bytes, are at most maxMessageSize bytes long. It panics if
// maxMessageSize is negative.
func NewHandshakeReader(maxMessageSize int) *HandshakeReader {
	if maxMessageSize < 0 {
		panic("record: negative message size limit")
	}
	return &HandshakeReader{max: maxMessageSize}
}

// Append adds the content of one handshake record, which it copies. Before the next
// Append, call [HandshakeReader.Next] until it has no message left: then the reader
// never holds more than one message and one record.
//
// It returns [ErrHandshakeSize], for ever, as soon as the header of the first unread
// message announces a body that is too long, and [ErrMalformedMessage] if no message
// of its type has that length: any but 1 for KeyUpdate, any but 0 for EndOfEarlyData,
// more than 64 for Finished.
func (r *HandshakeReader) Append(content []byte) error {
	if r.err != nil {
		return r.err
	}
	if r.read > 0 {
		n := copy(r.buf, r.buf[r.read:])
		clear(r.buf[n:])
		r.buf, r.read = r.buf[:n], 0
	}
	if size := len(r.buf) + len(content); size > cap(r.buf) {
		old := r.buf
		r.buf = append(make([]byte, 0, max(size, 2*cap(old))), old...)
		clear(old)
	}
	r.buf = append(r.buf, content...)
	_, _, err := r.peek()
	return err
}

// Next returns the next whole message, its header of four bytes included, or
// nil if it is not there yet. The message is valid until the next Append or Wipe.
//
// It returns [ErrHandshakeSize] or [ErrMalformedMessage], for ever, if the next
// message announces a body for which Append would return it; the messages before it
// have been returned.
func (r *HandshakeReader) Next() ([]byte, error) {
	size, ok, err := r.peek()
	if err != nil || !ok {
		return nil, err
	}
	msg := r.buf[r.read : r.read+size : r.read+size]
	r.read += size
	return msg, nil
}

// Empty reports whether no byte is unread. It must be true where keys change:
// "Handshake messages MUST NOT span key changes." (RFC 9846, Section 5.1)
func (r *HandshakeReader) Empty() bool { return len(r.buf) == r.read }

// Wipe overwrites what the reader holds, including messages that it has returned, and
// gives up the memory. An Empty reader can still be used, so that a connection holds
// nothing between messages; any other has lost bytes of the stream, and every later
// Append and Next returns [ErrClosed].
func (r *HandshakeReader) Wipe() {
	if r.err == nil && !r.Empty() {
		r.err = ErrClosed
	}
	clear(r.buf)
	r.buf, r.read = nil, 0
}

// peek returns the size of the first unread message and whether it is whole.
func (r *HandshakeReader) peek() (size int, ok bool, err error) {
	if r.err != nil {
		return 0, false, r.err
	}
	p := r.buf[r.read:]
	if len(p) < messageHeaderSize {
		return 0, false, nil
	}
	size = int(p[1])<<16 | int(p[2])<<8 | int(p[3])
	switch {
	case !lengthFits(p[0], size):
		r.err = ErrMalformedMessage
	case size > r.max:
		r.err = ErrHandshakeSize
	}
	if r.err != nil {
		clear(p)
		r.buf = r.buf[:r.read] // those returned stay valid until Append or Wipe
		return 0, false, r.err
	}
	size += messageHeaderSize
	return size, len(p) >= size, nil
}

// lengthFits reports whether a message of type typ can have a body of size bytes, as
// far as its type decides. Waiting for the body of such a message would let the
// reader's own limit choose the alert.
//
// "Peers which receive a message which cannot be parsed according to the syntax
// (e.g., have a length extending beyond the message boundary or contain an
// out-of-range length) MUST terminate the connection with a "decode_error" alert."
// (RFC 9846, Section 6)
func lengthFits(typ uint8, size int) bool {
	switch typ {
	case typeKeyUpdate:
		return size == 1
	case typeEndOfEarlyData:
		return size == 0
	case typeFinished: // "opaque verify_data[Hash.length];" (Section 4.5.3)
		return size <= maxHashSize
	}
	return true
}

// ParseKeyUpdate reads a KeyUpdate message, its header of four bytes included,
// and reports whether it requests a KeyUpdate in return.
//
// It returns [ErrMalformedMessage] if msg is of another type or length, and
// [ErrKeyUpdateRequest] if its one byte is neither zero nor one.
//
// See RFC 9846, Section 4.7.3.
func ParseKeyUpdate(msg []byte) (request bool, err error) {
	// "Peers which receive a message which cannot be parsed according to the
	// syntax (e.g., have a length extending beyond the message boundary or
	// contain an out-of-range length) MUST terminate the connection with a
	// "decode_error" alert." (RFC 9846, Section 6)
	if len(msg) != messageHeaderSize+1 || msg[0] != typeKeyUpdate || msg[1] != 0 || msg[2] != 0 || msg[3] != 1 {
		return false, ErrMalformedMessage
	}
	// "If an implementation receives any other value, it MUST terminate the
	// connection with an "illegal_parameter" alert." (RFC 9846, Section 4.7.3);
	// as "Peers which receive a message which is syntactically correct but
	// semantically invalid (e.g., a DHE share of p - 1, or an invalid enum) MUST
	// terminate the connection with an "illegal_parameter" alert." (Section 6)
	if msg[4] > 1 {
		return false, ErrKeyUpdateRequest
	}
	return msg[4] == 1, nil
}

// messageHeaderSize is the size of msg_type and length, in bytes.
const messageHeaderSize = 4

// maxHashSize is the size of SHA-512, the largest of the hashes that suites can have.
const maxHashSize = 64

// Handshake message types (RFC 9846, Section 4).
const (
	typeClientHello    = 1
	typeServerHello    = 2
	typeEndOfEarlyData = 5
	typeFinished       = 20
	typeKeyUpdate      = 24
)
