package record

import (
	"encoding/binary"
	"math"
	"slices"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/mem"
)

// SealerConfig holds what a [Sealer] keeps for its whole life. The zero value
// is ready for use: no padding, no record size limit, the suite's own limits.
type SealerConfig struct {
	// Padding returns how many bytes of padding to add to a protected record, of any
	// content type, with contentSize bytes of content. The result is clamped to what
	// the record has room for, and to at least zero. A nil Padding pads nothing.
	// Padding must not use the Sealer. If it panics, nothing has changed.
	Padding func(contentSize int) int

	// RecordSizeLimit is the most inner plaintext (content, content type and padding
	// together) that the peer accepts in a protected record (RFC 8449). Zero means no
	// limit but the protocol's, to which larger values are clamped. The limit is
	// often learnt during the handshake, so it can also be set later with
	// [Sealer.SetRecordSizeLimit].
	RecordSizeLimit int

	// SoftLimit is the number of records under one key after which content is refused
	// until a KeyUpdate, unless it belongs to a handshake message that has begun.
	// Zero, or more than the default, means the default: 16 below the hard limit, or
	// half of it if that is more, which leaves room for a KeyUpdate, alerts and the
	// rest of most messages.
	SoftLimit uint64

	// HardLimit is the most records sealed under one key, at least 2: a record and a
	// KeyUpdate. Zero, or more than the suite's limit, means the suite's limit.
	HardLimit uint64
}

// Sealer is one direction's write state: it turns content into records.
//
// It starts in [EpochPlaintext] and is given each traffic secret in turn. A stack
// that also speaks older versions may make the records before the first secret, which
// all versions share, without a Sealer.
//
// Each method that seals appends one whole record to the caller's buffer, dst, and
// keeps neither that buffer nor the content. It writes nothing but the record, into
// the spare capacity of dst or, if that is too small, into new memory.
//
// Unless the method says otherwise, a call that returns an error has changed neither
// the sequence number nor the buffers nor the state, and returns dst as it was given,
// so that "wire, err = s.Seal(wire, ...)" loses no record that was sealed before. The
// errors [ErrClosed], [ErrExported] and [ErrInterrupted] are final. [ErrInterrupted]
// follows a panic in the AEAD that the caller has recovered from: the sequence number
// is spent, so it is never used again, and the Sealer is unusable because the peer
// would miss a record.
//
// A Sealer must not be copied and is not safe for concurrent use: guard everything
// that seals in one direction, alerts included, with a single lock.
//
// See RFC 9846, Sections 5.1 to 5.5 and 7.2.
type Sealer struct {
	_ mem.NoCopy

	keys  *trafficKeys // nil in EpochPlaintext and when closed
	err   error        // final
	stage stage
	epoch Epoch

	padding    func(int) int
	limit      int // most inner plaintext in a protected record
	soft, hard uint64
	config     SealerConfig

	seq        uint64 // last known, when keys is nil
	generation uint64
	requested  bool // our update_requested has not been answered
	owed       bool // the peer's update_requested has not been answered
	earlyOver  bool // early keys were given up
	messages   messageTracker
	used       usedSecrets

	pieces [][]byte                    // scratch of SealGather
	small  [messageHeaderSize + 1]byte // an alert or a KeyUpdate message
}

// stage says what is running inside a call.
type stage uint8

const (
	stageIdle    stage = iota
	stagePadding       // the caller's padding function runs
	stageCrypto        // an AEAD runs; if still so afterwards, it panicked
)

// NewSealer returns a Sealer in [EpochPlaintext].
//
// It panics if cfg.HardLimit is 1, and if cfg.RecordSizeLimit is negative or from 1
// to 63: pass a value that the peer sent to [Sealer.SetRecordSizeLimit] instead.
func NewSealer(cfg SealerConfig) *Sealer {
	if cfg.HardLimit == 1 {
		panic("record: SealerConfig.HardLimit leaves no record for a KeyUpdate")
	}
	s := &Sealer{padding: cfg.Padding, limit: MaxInnerSize, config: cfg}
	if cfg.RecordSizeLimit != 0 {
		if err := s.SetRecordSizeLimit(cfg.RecordSizeLimit); err != nil {
			panic("record: SealerConfig.RecordSizeLimit below 64")
		}
	}
	return s
}

// SetRecordSizeLimit sets the most inner plaintext (content, content type and padding
// together) that later protected records carry. Values above [MaxInnerSize] are
// clamped to it. Unprotected records are not limited.
//
// It returns [ErrRecordSizeLimit] if limit is below [MinRecordSizeLimit].
//
// See RFC 8449, Section 4.
func (s *Sealer) SetRecordSizeLimit(limit int) error {
	n, err := recordSizeLimit(limit)
	if err == nil {
		s.limit = n
	}
	return err
}

func recordSizeLimit(limit int) (int, error) {
	// "Endpoints MUST NOT send a "record_size_limit" extension with a value
	// smaller than 64. An endpoint MUST treat receipt of a smaller value as a
	// fatal error and generate an "illegal_parameter" alert." (RFC 8449,
	// Section 4)
	if limit < MinRecordSizeLimit {
		return 0, ErrRecordSizeLimit
	}
	return min(limit, MaxInnerSize), nil
}

// SetTrafficSecret protects later records with keys derived from secret, starting at
// sequence number zero. It copies secret, whose length is the hash size of suite. The
// epoch must come after the present one; a client whose server answered early data
// with a HelloRetryRequest first calls [Sealer.AbandonEarlyData].
//
// It returns [ErrEpoch] if epoch does not come later than the present one,
// [ErrHandshakePartial] if a handshake message is partly sealed or the last one is
// not of a type that precedes these keys, [ErrSecretReused] if secret was given to s
// before, [ErrKeySetup] if no keys can be made from it, or a final error. It panics
// if suite is nil.
//
// Two Sealers, or a Sealer and other code, must never be given the same secret:
// each per-record nonce would be used twice. So a secret is for one direction of
// one connection.
//
// See RFC 9846, Section 7.3.
func (s *Sealer) SetTrafficSecret(epoch Epoch, suite *aead.Suite, secret []byte) error {
	if suite == nil {
		panic("record: nil suite")
	}
	if s.limit == 0 {
		panic("record: Sealer not made by NewSealer")
	}
	if err := s.usable(); err != nil {
		return err
	}
	if epoch <= s.epoch || epoch > EpochApplication || epoch == EpochEarly && s.earlyOver {
		return ErrEpoch
	}
	// "Handshake messages MUST NOT span key changes." (RFC 9846, Section 5.1)
	if !s.messages.mayEnter(epoch) {
		return ErrHandshakePartial
	}
	if s.used.has(secret) {
		return ErrSecretReused
	}
	k, err := newTrafficKeys(suite, append([]byte(nil), secret...), 0)
	if err != nil {
		return err
	}
	s.install(k)
	s.epoch = epoch
	s.used.add(epoch, secret)
	return nil
}

// install replaces the keys and sets the limits that belong to them.
func (s *Sealer) install(k *trafficKeys) {
	if s.keys != nil {
		s.keys.wipe()
	}
	s.keys = k
	s.messages.keysChanged()

	s.hard = k.suite.RecordLimit()
	if s.config.HardLimit != 0 {
		s.hard = min(s.hard, s.config.HardLimit)
	}
	s.soft = s.hard - min(limitReserve, s.hard/2)
	if s.config.SoftLimit != 0 {
		s.soft = min(s.soft, s.config.SoftLimit)
	}
}

// AbandonEarlyData returns from [EpochEarly] to [EpochPlaintext], for a client
// that must send a second ClientHello after early data. The early keys are
// wiped, and neither their epoch nor their secret can be installed again.
//
// It returns [ErrEpoch] in any other epoch, [ErrHandshakePartial] if a
// handshake message is partly sealed, or a final error.
//
// See RFC 9846, Section 4.3.10.
func (s *Sealer) AbandonEarlyData() error {
	if err := s.usable(); err != nil {
		return err
	}
	if s.epoch != EpochEarly {
		return ErrEpoch
	}
	if s.messages.partial() {
		return ErrHandshakePartial
	}
	s.keys.wipe()
	s.keys = nil
	s.epoch = EpochPlaintext
	s.earlyOver = true
	s.messages.keysChanged()
	return nil
}

// Epoch returns the present epoch.
func (s *Sealer) Epoch() Epoch { return s.epoch }

// Suite returns the suite in use, or nil in [EpochPlaintext] and when closed.
func (s *Sealer) Suite() *aead.Suite {
	if s.keys == nil {
		return nil
	}
	return s.keys.suite
}

// Seq returns the sequence number of the next protected record, which is the
// number of records sealed under this key.
func (s *Sealer) Seq() uint64 {
	if s.keys == nil {
		return s.seq
	}
	return s.keys.protector.Seq()
}

// Generation returns the number of key updates made.
func (s *Sealer) Generation() uint64 { return s.generation }

// Overhead returns how many bytes longer a record without padding is than its
// content, header included.
func (s *Sealer) Overhead() int {
	if s.keys == nil {
		return HeaderSize
	}
	return HeaderSize + 1 + s.keys.protector.Overhead()
}

// MaxContentSize returns the most content bytes that one record may carry now.
func (s *Sealer) MaxContentSize() int {
	if s.keys == nil {
		return MaxContentSize
	}
	return s.limit - 1
}

// SealedSize returns the size of a record with contentSize bytes of content and
// no padding, header included.
func (s *Sealer) SealedSize(contentSize int) int { return s.Overhead() + contentSize }

// MaxSealedSize returns the size of the largest record that may be sealed now,
// header and padding included.
func (s *Sealer) MaxSealedSize() int { return s.Overhead() + s.MaxContentSize() }

// NeedsKeyUpdate reports whether application data is refused until
// [Sealer.SealKeyUpdate] is called: the soft limit is reached, or the peer has
// requested a KeyUpdate.
func (s *Sealer) NeedsKeyUpdate() bool {
	return s.epoch == EpochApplication && s.keys != nil && (s.owed || s.keys.protector.Seq() >= s.soft)
}

// canSeal reports whether the key's limits allow n more records of content.
func (s *Sealer) canSeal(n uint64) bool {
	if s.epoch != EpochApplication || s.keys == nil {
		return true // no KeyUpdate could help
	}
	seq := s.keys.protector.Seq()
	return seq <= s.soft && n <= s.soft-seq
}

// KeyUpdateRequested reports whether a KeyUpdate that requested one in return
// has been sealed, and [Sealer.PeerKeyUpdate] has not been called since.
func (s *Sealer) KeyUpdateRequested() bool { return s.requested }

// PeerKeyUpdate tells s that the peer's KeyUpdate was received, and whether it
// requested one in return. A request is remembered once, however many arrive,
// until a KeyUpdate is sealed.
//
// The caller must hold the lock that guards sealing. A read that must not wait for a
// write under way leaves a note for the next write instead, as [Writer.PeerKeyUpdate]
// does.
//
// See RFC 9846, Section 4.7.3.
func (s *Sealer) PeerKeyUpdate(request bool) {
	s.requested = false
	// "If a sending implementation receives a KeyUpdate with request_update set
	// to "update_requested", it MUST NOT send its own KeyUpdate if that would
	// cause it to exceed these limits and SHOULD instead ignore the
	// "update_requested" flag." (RFC 9846, Section 4.7.3)
	if request && s.generation < maxKeyUpdates {
		s.owed = true
	}
}

// Seal appends one record holding content to dst and returns the extended slice. The
// record is [Sealer.SealedSize](len(content)) bytes long, plus the padding that the
// policy asks for. The content type is handshake or application data; content may be
// empty only for application data, and is at most [Sealer.MaxContentSize] bytes long.
//
// To seal in place, content must start exactly [HeaderSize] bytes after the end of
// dst; otherwise content must not overlap the part of dst's spare capacity that the
// record takes.
//
// Under keys, Seal uses the current sequence number and then adds one. It
// returns [ErrContentType], [ErrEmptyContent], [ErrRecordTooLarge],
// [ErrEpoch], [ErrHandshakePartial] if a record of another type would come
// between the fragments of a handshake message, [ErrKeyUpdateRequired] or
// [ErrKeyExhausted], and then nothing has changed; or a final error. It panics
// on an invalid overlap, before anything is written.
//
// See RFC 9846, Sections 5.1 and 5.2.
func (s *Sealer) Seal(dst []byte, typ ContentType, content []byte) ([]byte, error) {
	if err := s.check(typ, len(content)); err != nil {
		return dst, err
	}
	if typ != ContentTypeHandshake {
		return s.seal(dst, typ, versionTLS12, content)
	}
	messages := s.messages
	messages.feed(content)
	if messages.keyUpdate {
		return dst, ErrContentType
	}
	ret, err := s.seal(dst, typ, s.version(&messages), content)
	if err == nil {
		s.messages = messages
	}
	return ret, err
}

// SealGather is [Sealer.Seal] for content in pieces: the record holds their
// concatenation. There may be any number of pieces of any length, including zero. The
// list and the pieces are only read.
//
// Warning: the list must not change while SealGather runs. An element that another
// goroutine is writing can be read torn, and memory that is in none of the pieces is
// then sealed and sent.
//
// Pieces may overlap each other. A piece may lie exactly where its part of the
// content goes in the record, whose content starts [HeaderSize] bytes after the end
// of dst; otherwise it must not overlap the part of dst's spare capacity that the
// record takes.
//
// State, errors and panics are those of Seal.
func (s *Sealer) SealGather(dst []byte, typ ContentType, pieces [][]byte) ([]byte, error) {
	size, ok := mem.TotalSize(pieces, MaxContentSize)
	if !ok {
		size = math.MaxInt
	}
	if err := s.check(typ, size); err != nil {
		return dst, err
	}
	messages, version := s.messages, uint64(versionTLS12)
	if typ == ContentTypeHandshake {
		for _, p := range pieces {
			messages.feed(p)
		}
		if messages.keyUpdate {
			return dst, ErrContentType
		}
		version = s.version(&messages)
	}
	var ret []byte
	var err error
	if single, ok := singlePiece(pieces); ok {
		ret, err = s.seal(dst, typ, version, single)
	} else {
		ret, err = s.sealPieces(dst, typ, version, pieces, size)
	}
	if err == nil {
		s.messages = messages
	}
	return ret, err
}

// singlePiece returns the only piece that is not empty, or nil if all are.
func singlePiece(pieces [][]byte) (single []byte, ok bool) {
	for _, p := range pieces {
		if len(p) > 0 {
			if single != nil {
				return nil, false
			}
			single = p
		}
	}
	return single, true
}

// SealKeyUpdate appends one record holding a KeyUpdate message to dst, sealed under
// the present keys, and moves to the next generation of keys, at sequence number
// zero. Either both happen or neither does. request asks the peer for a KeyUpdate in
// return. Whether request is true or false, the message answers a request of the
// peer.
//
// It returns [ErrEpoch] under any but application keys, [ErrHandshakePartial]
// between the fragments of a handshake message, [ErrKeyUpdateOutstanding] if
// request is true and an earlier request has not been answered,
// [ErrKeyUpdateLimit] after 2^48-1 key updates, [ErrKeyExhausted] at the hard
// limit, [ErrKeySetup] if the next keys cannot be made, and then nothing has
// changed; or a final error.
//
// See RFC 9846, Sections 4.7.3 and 7.2.
func (s *Sealer) SealKeyUpdate(dst []byte, request bool) ([]byte, error) {
	if err := s.usable(); err != nil {
		return dst, err
	}
	// "Note that it is not possible to perform a KeyUpdate for early data"
	// (RFC 9846, Section 5.5); and "This message can be sent by either peer
	// after it has sent a Finished message." (Section 4.7.3)
	if s.epoch != EpochApplication {
		return dst, ErrEpoch
	}
	// "Handshake messages MUST NOT span key changes." (RFC 9846, Section 5.1)
	if s.messages.partial() {
		return dst, ErrHandshakePartial
	}
	// "Until receiving a subsequent KeyUpdate from the peer, the sender MUST NOT
	// send another KeyUpdate with request_update set to "update_requested"."
	// (RFC 9846, Section 4.7.3)
	if request && s.requested {
		return dst, ErrKeyUpdateOutstanding
	}
	// "sending implementations MUST NOT allow the epoch -- and hence the number
	// of key updates -- to exceed 2^48-1." (RFC 9846, Section 4.7.3)
	if s.generation >= maxKeyUpdates {
		return dst, ErrKeyUpdateLimit
	}
	if s.keys.protector.Seq() >= s.hard {
		return dst, ErrKeyExhausted
	}
	next, err := s.keys.next()
	if err != nil {
		return dst, err
	}
	// "Both sender and receiver MUST encrypt their KeyUpdate messages with the
	// old keys." (RFC 9846, Section 4.7.3)
	s.small = [...]byte{typeKeyUpdate, 0, 0, 1, 0}
	if request {
		s.small[4] = 1
	}
	ret, err := s.seal(dst, ContentTypeHandshake, versionTLS12, s.small[:])
	if err != nil {
		next.wipe()
		return dst, err
	}
	// "After sending a KeyUpdate message, the sender SHALL send all its traffic
	// using the next generation of keys" (RFC 9846, Section 4.7.3). Nothing
	// from here on can fail.
	s.install(next)
	s.generation++
	s.owed = false
	s.requested = s.requested || request
	return ret, nil
}

// SealAlert appends one record holding the alert a to dst. close_notify and
// user_canceled get the level warning, all others fatal. After close_notify and
// after every error alert the Sealer wipes its keys and every later call
// returns [ErrClosed]. After user_canceled the caller must seal close_notify.
//
// Alerts may be sealed above the soft limit, and error alerts and close_notify also
// between the fragments of a handshake message, which they cut short.
//
// It returns [ErrHandshakePartial] if user_canceled would come between the
// fragments of a handshake message, [ErrKeyExhausted] at the hard limit, and
// then nothing has changed; or a final error.
//
// See RFC 9846, Section 6.
func (s *Sealer) SealAlert(dst []byte, a Alert) ([]byte, error) {
	if err := s.usable(); err != nil {
		return dst, err
	}
	if a == AlertUserCanceled && s.messages.partial() {
		return dst, ErrHandshakePartial
	}
	if s.keys != nil && s.keys.protector.Seq() >= s.hard {
		return dst, ErrKeyExhausted
	}
	// "a record with an Alert type MUST contain exactly one message." (RFC
	// 9846, Section 5.1)
	//
	// "user_canceled: [...] This alert MUST be followed by a "close_notify"."
	// (Section 6.1): so the Sealer goes on after that one.
	s.small[0], s.small[1] = a.level(), byte(a)
	ret, err := s.seal(dst, ContentTypeAlert, versionTLS12, s.small[:alertSize])
	if err != nil {
		return dst, err
	}
	// "Whenever an implementation encounters a fatal error condition, it SHOULD
	// send an appropriate fatal alert and MUST close the connection without
	// sending or receiving any additional data." (RFC 9846, Section 6.2)
	// "close_notify: This alert notifies the recipient that the sender will not
	// send any more messages on this connection." (Section 6.1)
	if a != AlertUserCanceled {
		s.end(ErrClosed)
	}
	return ret, nil
}

// SealChangeCipherSpec appends the change_cipher_spec record of the middlebox
// compatibility mode to dst. It is never protected and has no sequence number.
//
// It returns [ErrEpoch] under application keys and, without keys, before the first
// handshake message; [ErrHandshakePartial] between the fragments of a handshake
// message, and then nothing has changed; or a final error.
//
// See RFC 9846, Section 5 and Appendix E.4.
func (s *Sealer) SealChangeCipherSpec(dst []byte) ([]byte, error) {
	if err := s.usable(); err != nil {
		return dst, err
	}
	if s.epoch == EpochApplication || s.epoch == EpochPlaintext && !s.messages.any {
		return dst, ErrEpoch
	}
	if s.messages.partial() {
		return dst, ErrHandshakePartial
	}
	return append(dst, byte(ContentTypeChangeCipherSpec), versionTLS12>>8, versionTLS12&0xff, 0, 1, 1), nil
}

// Wipe overwrites the traffic secret and the keys and ends the Sealer: every later
// call returns [ErrClosed]. Wiping twice does nothing. Copies that the runtime, the
// stack and registers may still hold are not reached.
func (s *Sealer) Wipe() {
	if s.err == nil {
		s.end(ErrClosed)
	}
}

// end makes err final and wipes the keys.
//
// "Servers and clients MUST forget the secret values and keys established in
// failed connections, with the exception of the PSKs associated with session
// tickets, which SHOULD be discarded if possible." (RFC 9846, Section 6)
func (s *Sealer) end(err error) {
	s.err = err
	s.pieces = nil // after a panic it would keep the caller's memory alive
	if s.keys != nil {
		s.seq = s.keys.protector.Seq()
		s.keys.wipe()
		s.keys = nil
	}
}

// usable returns the final error, if there is one.
func (s *Sealer) usable() error {
	if s.err == nil && s.stage != stageIdle {
		s.leaveStage()
	}
	return s.err
}

// leaveStage handles a call that finds s inside another one: the caller's padding
// function has made it, or the AEAD panicked in the earlier call.
//
//go:noinline
func (s *Sealer) leaveStage() {
	if s.stage == stagePadding {
		panic("record: Sealer used by its own padding function")
	}
	s.end(ErrInterrupted)
}

// check decides whether size bytes of handshake or application data content may
// be sealed now.
func (s *Sealer) check(typ ContentType, size int) error {
	if err := s.usable(); err != nil {
		return err
	}
	switch typ {
	case ContentTypeApplicationData:
		// "Application Data records MUST NOT be written to the wire
		// unprotected" (RFC 9846, Section 5.1). Section 7.3 gives handshake
		// keys to the initial handshake alone.
		if s.epoch == EpochPlaintext || s.epoch == EpochHandshake {
			return ErrEpoch
		}
		// "if a handshake message is split over two or more records, there MUST
		// NOT be any other records between them." (RFC 9846, Section 5.1)
		if s.messages.partial() {
			return ErrHandshakePartial
		}
		// "If the request_update field is set to "update_requested", then the
		// receiver MUST send a KeyUpdate of its own with request_update set to
		// "update_not_requested" prior to sending its next Application Data
		// record." (RFC 9846, Section 4.7.3)
		if s.owed {
			return ErrKeyUpdateRequired
		}
	case ContentTypeHandshake:
		// "Implementations MUST NOT send zero-length fragments of Handshake
		// types, even if those fragments contain padding." (RFC 9846, 5.1)
		if size == 0 {
			return ErrEmptyContent
		}
	default:
		// "Implementations MUST NOT send record types not defined in this
		// document unless negotiated by some extension." (RFC 9846, Section 5)
		return ErrContentType
	}
	if size > s.MaxContentSize() {
		return ErrRecordTooLarge
	}
	if s.keys == nil {
		return nil
	}
	// "Implementations MUST either close the connection or do a key update as
	// described in [Section 4.7.3] prior to reaching these limits. Note that it
	// is not possible to perform a KeyUpdate for early data; therefore,
	// implementations MUST NOT exceed the limits when sending early data." (RFC
	// 9846, Section 5.5). No limit is above the last sequence number: "If a TLS
	// implementation would need to wrap a sequence number, it MUST either rekey
	// ([Section 4.7.3]) or terminate the connection." (Section 5.3)
	seq := s.keys.protector.Seq()
	switch {
	case seq < s.soft:
		return nil
	case s.epoch == EpochApplication:
		if !s.messages.partial() {
			return ErrKeyUpdateRequired
		}
		// The rest of a message, which no KeyUpdate may interrupt, leaving room for a
		// KeyUpdate and an alert.
		if seq+2 < s.hard {
			return nil
		}
	case typ == ContentTypeHandshake && seq+1 < s.hard:
		// EndOfEarlyData and the rest of a handshake, leaving room for one alert.
		return nil
	}
	return ErrKeyExhausted
}

// version returns the legacy_record_version of a handshake record without
// protection, given the messages up to its end.
//
// "MUST be set to 0x0303 for all records generated by a TLS 1.3 implementation
// other than an initial ClientHello (i.e., one not generated after a
// HelloRetryRequest), where it MAY also be 0x0301 for compatibility purposes."
// "a record containing an initial ClientHello SHOULD have version 0x0301
// (reflecting TLS 1.0) and a record containing a second ClientHello or a
// ServerHello MUST have version 0x0303 (reflecting TLS 1.2)." (RFC 9846, Section
// 5.1) "Implementations MUST NOT send any records with a version less than 0x0300."
// (Appendix E.5)
func (s *Sealer) version(messages *messageTracker) uint64 {
	if !s.messages.any && messages.first == typeClientHello {
		return versionTLS10
	}
	return versionTLS12
}

// pad returns the padding of a protected record with size bytes of content.
func (s *Sealer) pad(size int) int {
	if s.padding == nil {
		return 0
	}
	// "The presence of padding does not change the overall record size
	// limitations: the full encoded TLSInnerPlaintext MUST NOT exceed 2^14 + 1
	// octets. If the maximum fragment length is reduced [...] then the reduced
	// limit applies to the full plaintext, including the content type and
	// padding." (RFC 9846, Section 5.4)
	return max(0, min(s.askPadding(size), s.limit-1-size))
}

func (s *Sealer) askPadding(size int) int {
	s.stage = stagePadding
	defer func() { s.stage = stageIdle }()
	return s.padding(size)
}

// seal appends one record. All checks but the one for overlap have been made.
func (s *Sealer) seal(dst []byte, typ ContentType, version uint64, content []byte) ([]byte, error) {
	if s.keys == nil {
		whole, out := extend(dst, HeaderSize+len(content))
		checkOverlap(out, content)
		copy(out[HeaderSize:], content)
		putHeader(out, header(typ, version, len(content)))
		return whole, nil
	}
	pad := s.pad(len(content))
	p := s.keys.protector
	size := len(content) + 1 + pad + p.Overhead()
	whole, out := extend(dst, HeaderSize+size)
	checkOverlap(out, content)
	h := header(ContentTypeApplicationData, versionTLS12, size)
	body := out[HeaderSize:]

	s.stage = stageCrypto
	var err error
	if pad == 0 {
		err = p.Seal(body, content, byte(typ), h)
	} else {
		putTrailer(body[len(content):], typ, pad)
		err = p.SealSplit(body, content, h)
	}
	s.stage = stageIdle
	if err != nil {
		return dst, err
	}
	putHeader(out, h)
	return whole, nil
}

// sealPieces is seal for pieces with size bytes in all.
func (s *Sealer) sealPieces(dst []byte, typ ContentType, version uint64, pieces [][]byte, size int) ([]byte, error) {
	var pad, overhead, trailer int
	if s.keys != nil {
		pad = s.pad(size)
		trailer = 1 + pad
		overhead = s.keys.protector.Overhead()
	}
	bodySize := size + trailer + overhead
	whole, out := extend(dst, HeaderSize+bodySize)
	body := out[HeaderSize:]
	if mem.AnyOverlap(out[:HeaderSize], pieces) || mem.InexactPieces(body, pieces) {
		panic(overlapText)
	}
	if s.keys == nil {
		at := body
		for _, p := range pieces {
			at = at[copy(at, p):]
		}
		putHeader(out, header(typ, version, size))
		return whole, nil
	}
	putTrailer(body[size:], typ, pad)
	s.pieces = append(append(s.pieces[:0], pieces...), body[size:size+trailer])
	h := header(ContentTypeApplicationData, versionTLS12, bodySize)

	s.stage = stageCrypto
	err := s.keys.protector.SealGather(body, s.pieces, h)
	s.stage = stageIdle
	clear(s.pieces) // keep no memory of the caller's alive
	if cap(s.pieces) > maxKeptPieces {
		s.pieces = nil
	}
	if err != nil {
		return dst, err
	}
	putHeader(out, h)
	return whole, nil
}

// extend returns dst extended by n bytes, and those bytes. New memory grows as
// append's does, so that appending many records costs linear time.
func extend(dst []byte, n int) (whole, out []byte) {
	whole = slices.Grow(dst, n)[:len(dst)+n]
	return whole, whole[len(dst):]
}

// checkOverlap panics if content overlaps the record out, unless it lies exactly
// where the record holds it.
func checkOverlap(out, content []byte) {
	if mem.Overlap(out, content) && &content[0] != &out[HeaderSize] {
		panic(overlapText)
	}
}

const overlapText = "record: invalid buffer overlap"

// putTrailer writes the content type and pad bytes of padding.
//
// "Implementations MUST set the padding octets to all zeros before encrypting."
// (RFC 9846, Section 5.4)
func putTrailer(p []byte, typ ContentType, pad int) {
	p[0] = byte(typ)
	clear(p[1 : 1+pad])
}

// header returns a record header as 40 bits, the first byte highest.
func header(typ ContentType, version uint64, bodySize int) uint64 {
	return uint64(typ)<<32 | version<<16 | uint64(bodySize)
}

func putHeader(p []byte, h uint64) {
	p[0] = byte(h >> 32)
	binary.BigEndian.PutUint32(p[1:HeaderSize], uint32(h))
}

// From RFC 9846.
const (
	versionTLS10 = 0x0301
	versionTLS12 = 0x0303

	maxKeyUpdates = 1<<48 - 1
)

// Tuned here.
const (
	// limitReserve is how many records the default soft limit leaves below the
	// hard one. A KeyUpdate and an alert need two; the rest is for the fragments
	// of a message that has begun, for alerts of level warning, and for callers
	// that react late.
	limitReserve = 16

	// maxKeptPieces is the length of the longest list of pieces whose copy
	// SealGather keeps, 1536 bytes of memory.
	maxKeptPieces = 64
)
