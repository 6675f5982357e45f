package record

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/mem"
)

// OpenerConfig holds what an [Opener] keeps for its whole life. The zero value
// is ready for use.
type OpenerConfig struct {
	// RecordSizeLimit is the most inner plaintext (content, content type and padding
	// together) that the peer may send in a record under handshake or application
	// keys: the value that this side advertised, if the peer agreed to it (RFC 8449).
	// Zero means no limit but the protocol's, to which larger values are clamped. It
	// can be set later with [Opener.SetRecordSizeLimit].
	RecordSizeLimit int
}

// Record is one record as [Opener.Open] and [Opener.OpenTo] return it.
type Record struct {
	// Type is the content type.
	Type ContentType

	// Content is the content without content type and padding. It is part of
	// in, or of dst if OpenTo put application data there. It is empty if Dropped
	// is set.
	Content []byte

	// Rest is the content beyond Content: application data that dst had no room
	// for. It is part of in.
	Rest []byte

	// Size is how many bytes of in the record takes, header included.
	Size int

	// Dropped says that the record carries nothing and is to be ignored: a permitted
	// change_cipher_spec, or rejected early data.
	Dropped bool
}

// Opener is one direction's read state: it turns records into content.
//
// It starts in [EpochPlaintext] and is given each traffic secret in turn. As with a
// [Sealer], the records before the first secret may be handled without it;
// [Opener.AllowChangeCipherSpec] still has to be called for what comes later.
//
// It does no I/O and keeps no bytes: [Opener.Open] and [Opener.OpenTo] look at the
// first record of what they are given, and either open it and say how many
// bytes it took, or say how many more bytes they need, or return an error. The
// outcome does not depend on how the bytes arrive.
//
// Errors that the peer causes are final: the keys are wiped and every later call
// returns the same error. After an error alert or a close_notify has been delivered
// every later call returns [ErrClosed]: "Any data received after a closure alert has
// been received MUST be ignored." (RFC 9846, Section 6.1) The other direction is left
// to the caller: close_notify leaves it open; after an error alert the caller ends it
// too, with [Sealer.Wipe].
//
// At most 32 records in a row may bring no application data: empty application data,
// handshake records under application keys, dropped change_cipher_spec records, and
// at most 4 user_canceled alerts. One more is [ErrTooManyIdleRecords]. Only
// application data that is not empty restarts the count.
//
// A handshake record is not counted if no message ends in it and it holds no more
// padding than content, so a message counts once, however many such records its
// sender has split it into. Without application data a peer can thus send the content
// of 32 records and the fragments of 33 messages, whose size is bounded by the code
// that joins them: with the 65536 bytes of a [Reader] that is 2.6 MiB in all. In
// records of one byte each that is some two million records, as many as the same
// amount of application data could take. A KeyUpdate that the peer was asked for is
// not counted either; see [Opener.ExpectKeyUpdate].
//
// Key-usage limits are not enforced: "Receiving implementations SHOULD NOT
// enforce these limits, as future analyses may result in updated values." (RFC
// 9846, Section 5.5)
//
// How long a record takes to open depends on its size, the size of its padding and
// its content type, not on other content. Anyone who can measure that time on this
// machine may learn how much padding a record has, which its sender meant to hide
// from the network.
//
// An Opener must not be copied and is not safe for concurrent use.
//
// See RFC 9846, Sections 5.1 to 5.5 and 7.2.
type Opener struct {
	_ mem.NoCopy

	keys  *trafficKeys // nil in EpochPlaintext and when closed
	err   error        // final
	stage stage
	epoch Epoch
	limit int // most inner plaintext under handshake and application keys

	seq        uint64 // last known, when keys is nil
	generation uint64
	update     bool // the last record ended with a KeyUpdate
	allowCCS   bool
	skipping   bool
	skip       int         // what may still be skipped
	idle       int         // counted records in a row without application data
	expected   atomic.Bool // the next KeyUpdate is an answer and not counted
	canceled   int         // user_canceled alerts among those in idle
	messages   messageTracker
	used       usedSecrets
}

// NewOpener returns an Opener in [EpochPlaintext].
//
// It panics if cfg.RecordSizeLimit is negative or from 1 to 63.
func NewOpener(cfg OpenerConfig) *Opener {
	o := &Opener{limit: MaxInnerSize}
	if cfg.RecordSizeLimit != 0 {
		if err := o.SetRecordSizeLimit(cfg.RecordSizeLimit); err != nil {
			panic("record: OpenerConfig.RecordSizeLimit below 64")
		}
	}
	return o
}

// SetRecordSizeLimit sets the most inner plaintext (content, content type and padding
// together) that later records under handshake and application keys may hold. Values
// above [MaxInnerSize] are clamped to it.
//
// It returns [ErrRecordSizeLimit] if limit is below [MinRecordSizeLimit].
//
// See RFC 8449, Section 4.
func (o *Opener) SetRecordSizeLimit(limit int) error {
	n, err := recordSizeLimit(limit)
	if err == nil {
		o.limit = n
	}
	return err
}

// SetTrafficSecret opens later records with keys derived from secret, starting at
// sequence number zero. It copies secret, whose length is the hash size of suite. The
// epoch must come later than the present one.
//
// It returns [ErrKeyChangeBoundary], which is final, if a handshake message is partly
// through, or if the last one is not of a type that precedes these keys, which means
// that it came after the one that does. A caller that reads messages with a
// [HandshakeReader] must also check that it is Empty. It returns [ErrEpoch],
// [ErrSecretReused] or [ErrKeySetup] if the arguments are not valid, and then nothing
// has changed; or a final error. It panics if suite is nil.
//
// See RFC 9846, Section 7.3.
func (o *Opener) SetTrafficSecret(epoch Epoch, suite *aead.Suite, secret []byte) error {
	if suite == nil {
		panic("record: nil suite")
	}
	if o.limit == 0 {
		panic("record: Opener not made by NewOpener")
	}
	if err := o.usable(); err != nil {
		return err
	}
	if epoch <= o.epoch || epoch > EpochApplication {
		return ErrEpoch
	}
	if o.used.has(secret) {
		return ErrSecretReused
	}
	// "Implementations MUST verify that all messages immediately preceding a key
	// change align with a record boundary; if not, then they MUST terminate the
	// connection with an "unexpected_message" alert." (RFC 9846, Section 5.1)
	if !o.messages.mayEnter(epoch) {
		return o.fail(ErrKeyChangeBoundary)
	}
	k, err := newTrafficKeys(suite, append([]byte(nil), secret...), 0)
	if err != nil {
		return err
	}
	o.install(k)
	o.epoch = epoch
	o.used.add(epoch, secret)
	if epoch == EpochApplication {
		// The peer's Finished has been received.
		o.allowCCS = false
		o.skipping = false
	}
	return nil
}

func (o *Opener) install(k *trafficKeys) {
	if o.keys != nil {
		o.keys.wipe()
	}
	o.keys = k
	o.update = false
	o.messages.keysChanged()
}

// KeyUpdate moves to the next generation of keys, at sequence number zero. Call it
// after each record that ended with a KeyUpdate message, before opening the next
// record. The number of key updates is not limited: "receiving implementations MUST
// NOT enforce this rule." (RFC 9846, Section 4.7.3)
//
// It returns [ErrKeyChangeBoundary], which is final, if a handshake message is
// partly through; [ErrNoKeyUpdate] if the last record did not end with a
// KeyUpdate message, or [ErrKeySetup], and then nothing has changed; or a final
// error.
//
// See RFC 9846, Sections 4.7.3 and 7.2.
func (o *Opener) KeyUpdate() error {
	if err := o.usable(); err != nil {
		return err
	}
	if o.messages.partial() {
		return o.fail(ErrKeyChangeBoundary)
	}
	// "both sides MUST enforce that a KeyUpdate with the old key is received
	// before accepting any messages encrypted with the new key." (RFC 9846,
	// Section 4.7.3)
	if !o.update {
		return ErrNoKeyUpdate
	}
	// "Upon receiving a KeyUpdate, the receiver MUST update its receiving keys."
	next, err := o.keys.next()
	if err != nil {
		return err
	}
	o.install(next)
	o.generation++
	return nil
}

// ExpectKeyUpdate says that the peer is being asked for a KeyUpdate: the next one
// that it sends is an answer, and does not count as a record without application
// data. Call it when [Sealer.SealKeyUpdate] has sealed the request, before the
// request is sent. A side that only sends, and asks for a KeyUpdate now and then, may
// receive nothing but the answers. A [Conn] calls it by itself.
//
// It may be called concurrently with all other methods.
func (o *Opener) ExpectKeyUpdate() { o.expected.Store(true) }

// AllowChangeCipherSpec says whether a change_cipher_spec record may arrive. At first
// none may, and under application keys none ever may. Allow it once the first
// ClientHello has been sent or received, and forbid it once the peer's Finished has
// been received. While it is allowed, such a record is dropped, except between the
// fragments of a handshake message, where it is [ErrInterleaved].
//
// See RFC 9846, Section 5 and Appendix E.4.
func (o *Opener) AllowChangeCipherSpec(allow bool) {
	o.allowCCS = allow && o.epoch != EpochApplication
}

// SkipEarlyData makes a server that has rejected early data skip it. Under handshake
// keys, records that cannot be opened are dropped, leaving the sequence number as it
// is, until one can be opened. Without keys, after a HelloRetryRequest, records of
// outer content type application_data are dropped until a handshake record arrives.
//
// bound is the most that is dropped, counted in bytes of the content that the records
// could hold at most: the body without tag and content type, and at least one byte
// for each record. It is the max_early_data_size of the ticket, or more if clients
// may pad. Anything beyond it is [ErrTooMuchEarlyData]. Under other keys the call has
// no effect. It panics if bound is negative.
//
// Dropped records may have been overwritten in place.
//
// See RFC 9846, Section 4.3.10.
func (o *Opener) SkipEarlyData(bound int) {
	if bound < 0 {
		panic("record: negative early data bound")
	}
	o.skipping = o.epoch == EpochPlaintext || o.epoch == EpochHandshake
	o.skip = bound
}

// Epoch returns the present epoch.
func (o *Opener) Epoch() Epoch { return o.epoch }

// Suite returns the suite in use, or nil in [EpochPlaintext] and when closed.
func (o *Opener) Suite() *aead.Suite {
	if o.keys == nil {
		return nil
	}
	return o.keys.suite
}

// Seq returns the sequence number of the next protected record.
func (o *Opener) Seq() uint64 {
	if o.keys == nil {
		return o.seq
	}
	return o.keys.protector.Seq()
}

// Generation returns the number of key updates made.
func (o *Opener) Generation() uint64 { return o.generation }

// HandshakePartial reports whether a handshake message is partly through.
func (o *Opener) HandshakePartial() bool { return o.messages.partial() }

// Err returns the error that every later call will return, or nil. It is
// [ErrClosed] after an alert that ends the direction.
func (o *Opener) Err() error { return o.err }

// Open opens the first record of in, in place: the content of the returned record is
// part of in, and the rest of the record is overwritten. It is OpenTo without a dst.
func (o *Opener) Open(in []byte) (rec Record, need int, err error) {
	return o.OpenTo(nil, in)
}

// OpenTo opens the first record of in and puts application data straight into dst,
// from its start; what dst has no room for stays in place, as the record's Rest.
// Content of other types never stays in dst: it is part of in. A dst of
// [MaxContentSize] bytes is always long enough. So is one exactly as long as the
// content: padding needs no room in dst. With an empty dst there is no Rest: all
// content is the record's Content, in place.
//
// in holds any number of bytes of the stream, beginning with a record. If that record
// is incomplete, OpenTo returns need > 0: at least that many more bytes are needed,
// nothing was consumed, and nothing was written. need is exact for the header, and
// then for the record. An error is returned as soon as the bytes at hand prove it, a
// header error from the header alone.
//
// dst must not overlap in. While OpenTo runs, dst and the record in in may hold
// unverified bytes, which nobody may read or change. On return dst holds the content,
// and zeros wherever else it was written. If the record cannot be opened, or the
// error is about what it holds, all that was written of dst and of the body is zeros.
// Bytes of dst beyond the size of the inner plaintext are not touched.
//
// A protected record that opens uses the current sequence number, to which one is
// then added. A record that is incomplete, dropped or unprotected leaves it as it is.
//
// It returns [ErrKeyUpdatePending] if the last record ended with a KeyUpdate and
// [Opener.KeyUpdate] has not been called, and then nothing has changed. All other
// errors are final; [AlertOf] says what their alert is. A panic in the AEAD leaves
// zeros in dst and the body, and later calls return [ErrInterrupted]. OpenTo panics,
// before anything is written, if the part of dst that it would write overlaps in. A
// fault in memory that is unmapped or truncated meanwhile, turned into a panic by
// [runtime/debug.SetPanicOnFault], can leave unverified bytes behind.
//
// See RFC 9846, Sections 5.1, 5.2 and 5.4.
func (o *Opener) OpenTo(dst, in []byte) (rec Record, need int, err error) {
	need, err = o.openTo(&rec, dst, in)
	return
}

// openTo is OpenTo for a rec that is empty and that the caller reads in place:
// returning a copy of what was just written in parts took a third of the time of a
// short record. On an error, and when need > 0, rec is still empty.
func (o *Opener) openTo(rec *Record, dst, in []byte) (need int, err error) {
	if err := o.usable(); err != nil {
		return 0, err
	}
	if o.update {
		return 0, ErrKeyUpdatePending
	}
	bodySize, need, err := o.checkHeader(in)
	if err != nil {
		return 0, o.fail(err)
	}
	if need > 0 {
		return need, nil
	}
	record := in[:HeaderSize+bodySize]
	typ := ContentType(record[0])
	body := record[HeaderSize:]

	switch {
	case typ == ContentTypeChangeCipherSpec:
		// "An implementation may receive an unencrypted record of type
		// change_cipher_spec consisting of the single byte value 0x01 at any time
		// after the first ClientHello message has been sent or received and
		// before the peer's Finished message has been received and MUST simply
		// drop it without further processing." (RFC 9846, Section 5)
		// "An implementation which receives any other change_cipher_spec value
		// or which receives a protected change_cipher_spec record MUST abort
		// the handshake with an "unexpected_message" alert." (Section 5)
		if body[0] != 1 {
			return 0, o.fail(ErrChangeCipherSpec)
		}
		if err := o.count(); err != nil {
			return 0, o.fail(err)
		}
		*rec = Record{Type: typ, Size: len(record), Dropped: true}
		return 0, nil
	case o.keys != nil:
		rec.Type, rec.Size = typ, len(record)
		return 0, o.openBody(rec, dst, in, bodySize)
	case typ == ContentTypeApplicationData:
		// Only rejected early data comes here. "The server then ignores early
		// data by skipping all records with an external content type of
		// "application_data" (indicating that they are encrypted), up to the
		// configured max_early_data_size." (RFC 9846, Section 4.3.10)
		rec.Type, rec.Size = typ, len(record)
		return 0, o.drop(rec, bodySize-1-usualTagSize)
	}
	o.skipping = o.skipping && typ != ContentTypeHandshake
	if err := o.accept(typ, body, 0); err != nil {
		return 0, o.fail(err)
	}
	*rec = Record{Type: typ, Size: len(record), Content: body[:len(body):len(body)]}
	return 0, nil
}

// checkHeader checks what in holds of the first record's header. It returns the size
// of the body, or how many bytes are missing: from the header or, once that is
// complete, from the record.
func (o *Opener) checkHeader(in []byte) (bodySize, need int, err error) {
	if len(in) == 0 {
		return 0, HeaderSize, nil
	}
	typ, limit := ContentType(in[0]), MaxBodySize
	if o.keys == nil || typ != ContentTypeApplicationData {
		if limit, err = o.checkUnprotected(typ); err != nil {
			return 0, 0, err
		}
	}
	// "This field is deprecated and MUST be ignored for all purposes." (RFC
	// 9846, Section 5.1, about legacy_record_version) "The value of
	// TLSPlaintext.legacy_record_version MUST be ignored by all implementations."
	// (Appendix E) Under keys it is part of the additional data, as received.

	// Four bytes can be enough to know that the length is too large.
	if len(in) == HeaderSize-1 && int(in[3])<<8 > limit {
		return 0, 0, ErrRecordOverflow
	}
	if len(in) < HeaderSize {
		return 0, HeaderSize - len(in), nil
	}
	bodySize = int(in[3])<<8 | int(in[4])
	switch {
	case bodySize > limit:
		// "The length MUST NOT exceed 2^14 bytes. An endpoint that receives a
		// record that exceeds this length MUST terminate the connection with a
		// "record_overflow" alert." (RFC 9846, Section 5.1)
		// "The length MUST NOT exceed 2^14 + 256 bytes. An endpoint that
		// receives a record that exceeds this length MUST terminate the
		// connection with a "record_overflow" alert." "An endpoint that receives
		// a record from its peer with TLSCiphertext.length larger than 2^14 + 256
		// octets MUST terminate the connection with a "record_overflow" alert."
		// (Section 5.2)
		return 0, 0, ErrRecordOverflow
	case typ == ContentTypeChangeCipherSpec:
		// "consisting of the single byte value 0x01" (RFC 9846, Section 5)
		if bodySize != 1 {
			return 0, 0, ErrChangeCipherSpec
		}
	case typ != ContentTypeApplicationData:
		if err := checkContentSize(typ, bodySize); err != nil {
			return 0, 0, err
		}
	case o.keys != nil && !o.skipping && bodySize < o.keys.protector.Overhead():
		// No tag, so deprotection fails whatever the body holds.
		return 0, 0, ErrBadRecordMAC
	}
	return bodySize, max(0, HeaderSize+bodySize-len(in)), nil
}

// checkUnprotected checks the outer content type of an unprotected record, and
// returns the most that its body may hold.
func (o *Opener) checkUnprotected(typ ContentType) (limit int, err error) {
	switch typ {
	case ContentTypeChangeCipherSpec:
		// "it is necessary to detect this condition prior to attempting to
		// deprotect the record. [...] If an implementation detects a
		// change_cipher_spec record received before the first ClientHello
		// message or after the peer's Finished message, it MUST be treated as
		// an unexpected record type" (RFC 9846, Section 5)
		if !o.allowCCS {
			return 0, ErrChangeCipherSpec
		}
		// Deviation: Section 5 says to drop it, Section 5.1 that there MUST NOT
		// be any other records between the fragments of a handshake message. We
		// take the stricter one, as crypto/tls does.
		if o.messages.partial() {
			return 0, ErrInterleaved
		}
	case ContentTypeApplicationData:
		// Without keys only rejected early data has this type: "Application
		// Data messages are always protected." (RFC 9846, Section 5.1)
		if !o.skipping {
			return 0, ErrUnexpectedRecordType
		}
		return MaxBodySize, nil
	case ContentTypeHandshake, ContentTypeAlert:
		// "The outer opaque_type field of a TLSCiphertext record is always set
		// to the value 23 (application_data)" (RFC 9846, Section 5.2)
		if o.keys != nil {
			return 0, ErrUnexpectedRecordType
		}
	default:
		// "If a TLS implementation receives an unexpected record type, it MUST
		// terminate the connection with an "unexpected_message" alert." (RFC
		// 9846, Section 5)
		return 0, ErrUnexpectedRecordType
	}
	return MaxContentSize, nil
}

// checkContentSize checks the size of a handshake or alert record's content.
func checkContentSize(typ ContentType, size int) error {
	switch {
	case size == 0:
		// "Implementations MUST NOT send Handshake and Alert records that have
		// a zero-length TLSInnerPlaintext.content; if such a message is
		// received, the receiving implementation MUST terminate the connection
		// with an "unexpected_message" alert." (RFC 9846, Section 5.4)
		return ErrEmptyFragment
	case typ == ContentTypeAlert && size != alertSize:
		// "Alert messages MUST NOT be fragmented across records, and multiple
		// alert messages MUST NOT be coalesced into a single TLSPlaintext
		// record. In other words, a record with an Alert type MUST contain
		// exactly one message." (RFC 9846, Section 5.1)
		return ErrAlertSize
	}
	return nil
}

// openBody opens a protected record and completes rec. On an error rec is empty.
// Until the plaintext is verified, nothing is decided by it and none of it is copied.
func (o *Opener) openBody(rec *Record, dst, in []byte, bodySize int) error {
	record := in[:HeaderSize+bodySize]
	body := record[HeaderSize:]
	innerSize := len(body) - o.keys.protector.Overhead()
	// The last byte of the inner plaintext is never content. A body shorter than a tag,
	// let through for skipping, does not open.
	prefix := dst[:min(len(dst), max(0, innerSize-1))]
	if mem.Overlap(prefix, in) {
		panic(overlapText)
	}
	// "additional_data = TLSCiphertext.opaque_type ||
	// TLSCiphertext.legacy_record_version || TLSCiphertext.length" (RFC 9846,
	// Section 5.2): the header as received.
	//
	// If the AEAD panics, o.stage says so, and the Protector leaves no unverified
	// byte behind.
	o.stage = stageCrypto
	err := o.keys.protector.OpenSplit(prefix, body, readRecordHeader(record))
	o.stage = stageIdle
	if err != nil {
		// "the server skips past early data by attempting to deprotect received
		// records using the handshake traffic key, discarding records which fail
		// deprotection (up to the configured max_early_data_size)." (RFC 9846,
		// Section 4.3.10)
		if o.skipping {
			return o.drop(rec, innerSize-1)
		}
		// "If the decryption fails, the receiver MUST terminate the connection
		// with a "bad_record_mac" alert." (RFC 9846, Section 5.2). Whatever the
		// reason: "this alert is used for all deprotection failures." (Section 6.2)
		// Early data is no exception: "If the server chooses to accept the
		// "early_data" extension, then it MUST comply with the same error-handling
		// requirements specified for all records when processing early data
		// records. Specifically, if the server fails to decrypt a 0-RTT record
		// following an accepted "early_data" extension, it MUST terminate the
		// connection with a "bad_record_mac" alert" (Section 4.3.10)
		*rec = Record{}
		return o.fail(ErrBadRecordMAC)
	}
	// "Once a record is deprotected successfully, it is treated as the start of
	// the client's second flight" (RFC 9846, Section 4.3.10)
	o.skipping = false

	inner := body[:innerSize]
	n, err := o.innerContent(prefix, inner, rec)
	if err != nil {
		// Verified, but not to be delivered.
		clear(prefix)
		clear(inner)
		*rec = Record{}
		return o.fail(err)
	}
	if rec.Type != ContentTypeApplicationData {
		// It stays where its ciphertext was, out of the application's reach.
		clear(prefix)
		prefix = inner[:0]
	}
	clear(prefix[min(n, len(prefix)):])
	switch {
	case len(prefix) == 0:
		rec.Content = inner[:n:n]
	case n <= len(prefix):
		rec.Content = prefix[:n:n]
	default:
		rec.Content = prefix[:len(prefix):len(prefix)]
		rec.Rest = inner[len(prefix):n:n]
	}
	return nil
}

// innerContent finds the content type of a verified inner plaintext, whose first
// bytes are in prefix and the others in inner, and accepts the content. It sets
// rec.Type and returns the size of the content.
func (o *Opener) innerContent(prefix, inner []byte, rec *Record) (int, error) {
	// "the full encoded TLSInnerPlaintext MUST NOT exceed 2^14 + 1 octets. If the
	// maximum fragment length is reduced -- as for example by the record_size_limit
	// extension from [RFC 8449] -- then the reduced limit applies to the full
	// plaintext, including the content type and padding." (RFC 9846, Section 5.4).
	// The limit belongs to the present handshake, so early data is not bound by it.
	limit := o.limit
	if o.epoch == EpochEarly {
		limit = MaxInnerSize
	}
	if len(inner) > limit {
		return 0, ErrRecordOverflow
	}
	// "Implementations MUST limit their scanning to the cleartext returned from
	// the AEAD decryption. If a receiving implementation does not find a
	// non-zero octet in the cleartext, it MUST terminate the connection with an
	// "unexpected_message" alert." (RFC 9846, Section 5.4)
	n := len(inner) - 1
	if n >= len(prefix) && inner[n] == 0 {
		n = len(prefix) + lastNonZero(inner[len(prefix):])
	}
	if n >= len(prefix) {
		rec.Type = ContentType(inner[n])
	} else {
		if n = lastNonZero(prefix); n < 0 {
			return 0, ErrNoContentType
		}
		rec.Type = ContentType(prefix[n])
	}
	if rec.Type == ContentTypeApplicationData {
		return n, o.acceptData(n)
	}
	if rec.Type != ContentTypeHandshake && rec.Type != ContentTypeAlert {
		// "An implementation which receives any other change_cipher_spec value or
		// which receives a protected change_cipher_spec record MUST abort the
		// handshake with an "unexpected_message" alert." (RFC 9846, Section 5)
		return 0, ErrUnexpectedContentType
	}
	if err := checkContentSize(rec.Type, n); err != nil {
		return 0, err
	}
	// The two parts are joined in inner, whose first bytes are free.
	copy(inner, prefix[:min(n, len(prefix))])
	return n, o.accept(rec.Type, inner[:n], len(inner)-1-n)
}

// lastNonZero returns the index of the last byte of p that is not zero, or -1. It steps
// over whole blocks of zeros: byte by byte, a record full of padding took five times as
// long as one of data.
func lastNonZero(p []byte) int {
	n := len(p)
	for n >= len(zeroBlock) && bytes.Equal(p[n-len(zeroBlock):n], zeroBlock[:]) {
		n -= len(zeroBlock)
	}
	for n > 0 && p[n-1] == 0 {
		n--
	}
	return n - 1
}

var zeroBlock [64]byte

// acceptData checks and counts application data with size bytes of content.
func (o *Opener) acceptData(size int) error {
	// Section 7.3 gives handshake keys to the initial handshake alone.
	if o.epoch == EpochHandshake {
		return ErrUnexpectedContentType
	}
	// "Handshake messages MUST NOT be interleaved with other record types. That
	// is, if a handshake message is split over two or more records, there MUST
	// NOT be any other records between them." (RFC 9846, Section 5.1)
	if o.messages.partial() {
		return ErrInterleaved
	}
	if size == 0 {
		return o.count()
	}
	o.idle, o.canceled = 0, 0
	return nil
}

// accept checks the content of a handshake or alert record that has padding bytes of
// padding.
func (o *Opener) accept(typ ContentType, content []byte, padding int) error {
	if typ == ContentTypeAlert {
		return o.acceptAlert(Alert(content[1]))
	}
	ends := o.messages.feed(content)
	// "Implementations that receive a KeyUpdate message prior to receiving a
	// Finished message MUST terminate the connection with an
	// "unexpected_message" alert." (RFC 9846, Section 4.7.3)
	if o.messages.keyUpdate && o.epoch != EpochApplication {
		return ErrUnexpectedKeyUpdate
	}
	// "Handshake messages MUST NOT span key changes. Implementations MUST verify
	// that all messages immediately preceding a key change align with a record
	// boundary" (RFC 9846, Section 5.1)
	if o.messages.trailing {
		return ErrKeyChangeBoundary
	}
	// No message has begun after it, so it ended the record.
	o.update = o.messages.ended && o.messages.last == typeKeyUpdate
	switch {
	case o.epoch != EpochApplication:
		return nil // the handshake has an end
	case !ends && len(content) >= padding:
		return nil // its message counts where it ends
	case o.update && o.expected.Swap(false):
		return nil
	}
	return o.count()
}

func (o *Opener) acceptAlert(a Alert) error {
	if a != AlertUserCanceled {
		// Nothing follows this alert, so it interrupts no handshake message.
		// Upon receiving an error alert an implementation "MUST NOT allow any
		// further data to be sent or received on the connection." (RFC 9846,
		// Section 6)
		o.end(ErrClosed)
		return nil
	}
	if o.messages.partial() {
		return ErrInterleaved
	}
	if o.canceled++; o.canceled > maxUserCanceled {
		return ErrTooManyIdleRecords
	}
	return o.count()
}

// count counts a record without application data.
func (o *Opener) count() error {
	if o.idle++; o.idle > maxIdleRecords {
		return ErrTooManyIdleRecords
	}
	return nil
}

// drop skips a record of rejected early data that could hold size bytes of content.
func (o *Opener) drop(rec *Record, size int) error {
	size = max(1, size)
	if size > o.skip {
		*rec = Record{}
		return o.fail(ErrTooMuchEarlyData)
	}
	o.skip -= size
	rec.Dropped = true
	return nil
}

// Wipe overwrites the traffic secret and the keys and ends the Opener: every later
// call returns [ErrClosed]. Wiping twice does nothing. Copies that the runtime, the
// stack and registers may still hold are not reached.
func (o *Opener) Wipe() {
	if o.err == nil {
		o.end(ErrClosed)
	}
}

// fail makes err final.
func (o *Opener) fail(err error) error {
	o.end(err)
	return err
}

// end makes err final and wipes the keys.
//
// "Servers and clients MUST forget the secret values and keys established in
// failed connections, with the exception of the PSKs associated with session
// tickets, which SHOULD be discarded if possible." (RFC 9846, Section 6)
func (o *Opener) end(err error) {
	o.err = err
	if o.keys != nil {
		o.seq = o.keys.protector.Seq()
		o.keys.wipe()
		o.keys = nil
	}
}

// usable returns the final error, if there is one.
func (o *Opener) usable() error {
	if o.err == nil && o.stage == stageCrypto {
		o.end(ErrInterrupted)
	}
	return o.err
}

// readRecordHeader returns the five bytes of a header as an integer.
func readRecordHeader(p []byte) uint64 {
	return uint64(p[0])<<32 | uint64(binary.BigEndian.Uint32(p[1:HeaderSize]))
}

// usualTagSize stands for the tag size of early data that was rejected before
// any suite was chosen.
const usualTagSize = 16

// Tuned numbers, from what peers settled on.
const (
	// maxIdleRecords is OpenSSL's and BoringSSL's bound on empty records, and their
	// bound on KeyUpdates; here one bound covers both, and tickets. crypto/tls has
	// 16.
	maxIdleRecords = 32

	// maxUserCanceled is BoringSSL's bound on alerts of level warning.
	maxUserCanceled = 4
)
