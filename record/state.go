package record

import (
	"fmt"
	"slices"
	"sync/atomic"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/mem"
	"golang.org/x/crypto/cryptobyte"
)

// State is what [Sealer.Export] and [Opener.Export] return: everything that
// another Sealer, Opener, process or kernel needs to go on where the exported
// object stopped. It belongs to [EpochApplication].
//
// A State can be used once. [ImportSealer], [ImportOpener], [State.Encode],
// [State.Reveal] and [State.Wipe] empty it, and the first four fail on an emptied
// State. What was taken out of it must be used only once as well, which this package
// cannot ensure: restoring an encoded State from a stored copy a second time, or
// resuming a snapshot of a virtual machine or a process that holds one, seals
// different records under the same per-record nonces, which gives away the plaintexts
// and, with AES-GCM, the authentication key. Never keep an encoded State; hand it
// over and forget it.
//
// A State prints as its suite and direction only, with every verb of fmt, and
// in JSON.
//
// A State must not be copied; if it is, it and its copies can still be used only once
// between them. These calls may run concurrently: one succeeds.
type State struct {
	_      mem.NoCopy
	fields *stateFields // nil if there never were any; copies share them
}

type stateFields struct {
	used            atomic.Bool // whoever sets it owns hidden and unread
	opener          bool
	suite           *aead.Suite
	hidden          *[]byte // the traffic secret; see hide
	seq             uint64
	generation      uint64
	softLimit       uint64 // Sealer
	hardLimit       uint64 // Sealer
	recordSizeLimit int
	requested       bool // Sealer
	owed            bool // Sealer
	unread          []byte
}

func (f *stateFields) secret() []byte { return *f.hidden }

// Secrets is what [State.Reveal] takes out of a [State], for a kernel or
// another implementation. It prints redacted with every verb of fmt, and in
// JSON, unless an unexported field holds it.
type Secrets struct {
	Suite         *aead.Suite
	TrafficSecret []byte           // [sender]_application_traffic_secret_N
	Keys          aead.TrafficKeys // write key and write IV
	Seq           uint64           // of the next record; also the number of records under this key so far
	Generation    uint64           // N

	// SoftLimit and HardLimit are the numbers of records under one key after which a
	// Sealer refuses content and everything, respectively. Whoever goes on sealing
	// must observe them.
	SoftLimit, HardLimit uint64

	// RecordSizeLimit is the most inner plaintext of one record.
	RecordSizeLimit int

	// KeyUpdateRequested says that a Sealer has requested a KeyUpdate that has
	// not arrived; KeyUpdateOwed that the peer has requested one that has not
	// been sealed.
	KeyUpdateRequested, KeyUpdateOwed bool

	// Unread holds the whole records that were received and not yet opened.
	Unread []byte
}

// Wipe overwrites the traffic secret and the keys with zeros.
func (s Secrets) Wipe() {
	clear(s.TrafficSecret)
	s.Keys.Wipe()
}

// Export returns the state of s and ends s: every later call returns
// [ErrExported]. The State holds the suite, the traffic secret, the sequence
// number, the generation, the limits and what is known of KeyUpdate messages.
//
// It returns [ErrEpoch] under any but application keys, [ErrHandshakePartial]
// between the fragments of a handshake message, and then nothing has changed;
// or a final error.
func (s *Sealer) Export() (*State, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if s.epoch != EpochApplication {
		return nil, ErrEpoch
	}
	if s.messages.partial() {
		return nil, ErrHandshakePartial
	}
	st := &State{fields: &stateFields{
		suite:           s.keys.suite,
		hidden:          hide(slices.Clone(s.keys.secret())),
		seq:             s.keys.protector.Seq(),
		generation:      s.generation,
		softLimit:       s.soft,
		hardLimit:       s.hard,
		recordSizeLimit: s.limit,
		requested:       s.requested,
		owed:            s.owed,
	}}
	s.end(ErrExported)
	return st, nil
}

// Export returns the state of o and ends o: every later call returns
// [ErrExported]. unread is what was received and not yet given to o, whole
// records only; it is copied.
//
// It returns [ErrEpoch] under any but application keys, [ErrHandshakePartial]
// between the fragments of a handshake message or if unread ends inside a
// record, [ErrKeyUpdatePending] if the last record ended with a KeyUpdate and
// [Opener.KeyUpdate] has not been called, and then nothing has changed; or a
// final error.
func (o *Opener) Export(unread []byte) (*State, error) {
	if err := o.usable(); err != nil {
		return nil, err
	}
	switch {
	case o.epoch != EpochApplication:
		return nil, ErrEpoch
	case o.update:
		return nil, ErrKeyUpdatePending
	case o.messages.partial() || !wholeRecords(unread):
		return nil, ErrHandshakePartial
	}
	st := &State{fields: &stateFields{
		opener:          true,
		suite:           o.keys.suite,
		hidden:          hide(slices.Clone(o.keys.secret())),
		seq:             o.keys.protector.Seq(),
		generation:      o.generation,
		recordSizeLimit: o.limit,
		unread:          slices.Clone(unread),
	}}
	o.end(ErrExported)
	return st, nil
}

func wholeRecords(p []byte) bool {
	for len(p) >= HeaderSize {
		n := HeaderSize + int(p[3])<<8 + int(p[4])
		if len(p) < n {
			return false
		}
		p = p[n:]
	}
	return len(p) == 0
}

// ImportSealer returns a Sealer that goes on where the exported one stopped, and
// empties st. The limits are those of st, or those of cfg where they are lower.
//
// It returns [ErrStateSpent] if st was used, [ErrState] if it is not a Sealer's,
// and [ErrKeySetup]; st is emptied only if there is no error. It panics as
// [NewSealer] does.
func ImportSealer(st *State, cfg SealerConfig) (*Sealer, error) {
	s := NewSealer(cfg)
	f, k, err := st.open(false)
	if err != nil {
		return nil, err
	}
	s.config.HardLimit = lower(f.hardLimit, cfg.HardLimit)
	s.config.SoftLimit = lower(f.softLimit, cfg.SoftLimit)
	s.limit = min(s.limit, f.recordSizeLimit)
	s.epoch = EpochApplication
	s.generation = f.generation
	s.requested, s.owed = f.requested, f.owed
	s.install(k)
	f.forget()
	return s, nil
}

// ImportOpener returns an Opener that goes on where the exported one stopped,
// and the unread bytes, and empties st. The record size limit is that of st, or
// that of cfg if it is lower. The count of records without application data
// starts again.
//
// It returns [ErrStateSpent] if st was used, [ErrState] if it is not an Opener's,
// and [ErrKeySetup]; st is emptied only if there is no error. It panics if
// cfg.RecordSizeLimit is negative or from 1 to 63.
func ImportOpener(st *State, cfg OpenerConfig) (o *Opener, unread []byte, err error) {
	o = NewOpener(cfg)
	f, k, err := st.open(true)
	if err != nil {
		return nil, nil, err
	}
	o.limit = min(o.limit, f.recordSizeLimit)
	o.epoch = EpochApplication
	o.generation = f.generation
	o.install(k)
	unread = f.unread
	f.forget()
	return o, unread, nil
}

// take returns the fields of st, which nobody else gets, not even from a copy.
func (st *State) take() (*stateFields, error) {
	f := st.fields
	if f == nil || f.used.Swap(true) {
		return nil, ErrStateSpent
	}
	return f, nil
}

// giveBack undoes take.
func (f *stateFields) giveBack() { f.used.Store(false) }

// forget erases fields that were taken, except for what is printed of them.
func (f *stateFields) forget() {
	clear(f.secret())
	f.hidden, f.unread = nil, nil
}

// open takes the fields of st and makes the keys they give. On an error st is as
// it was.
func (st *State) open(opener bool) (*stateFields, *trafficKeys, error) {
	f, err := st.take()
	if err != nil {
		return nil, nil, err
	}
	if f.opener != opener {
		f.giveBack()
		return nil, nil, ErrState
	}
	k, err := newTrafficKeys(f.suite, slices.Clone(f.secret()), f.seq)
	if err != nil {
		f.giveBack()
		return nil, nil, err
	}
	return f, k, nil
}

// lower returns the lower of two limits; a b of zero is none.
func lower(a, b uint64) uint64 {
	if b == 0 {
		return a
	}
	return min(a, b)
}

// Reveal takes the secrets out of st and empties it. It returns
// [ErrStateSpent] if st was used, and [ErrKeySetup].
//
// Whoever has them must do from then on what this package did. With kernel TLS on
// Linux (TLS_TX and TLS_RX), which knows records but not messages, that is to
//
//   - set Keys and Seq of each direction, and of the receiving one only if Unread
//     is empty, because a kernel does not take records that were received before;
//   - read with recvmsg and look at TLS_GET_RECORD_TYPE, because alerts and
//     handshake messages come between data, and send those with TLS_SET_RECORD_TYPE;
//   - derive, on a KeyUpdate of the peer, the next secret from TrafficSecret, set its
//     keys with number 0 before reading on, and answer a request;
//   - send a KeyUpdate before SoftLimit, and close_notify at the end.
func (st *State) Reveal() (*Secrets, error) {
	f, err := st.take()
	if err != nil {
		return nil, err
	}
	keys, err := aead.DeriveTrafficKeys(f.suite, f.secret())
	if err != nil {
		f.giveBack()
		return nil, fmt.Errorf("%w: %w", ErrKeySetup, err)
	}
	secrets := &Secrets{
		Suite:              f.suite,
		TrafficSecret:      slices.Clone(f.secret()),
		Keys:               keys,
		Seq:                f.seq,
		Generation:         f.generation,
		SoftLimit:          f.softLimit,
		HardLimit:          f.hardLimit,
		RecordSizeLimit:    f.recordSizeLimit,
		KeyUpdateRequested: f.requested,
		KeyUpdateOwed:      f.owed,
		Unread:             f.unread,
	}
	f.forget()
	return secrets, nil
}

// Wipe empties st and overwrites its secret, for a State that nobody will use, as
// after a hand-over that failed. A State that was used already is left alone.
func (st *State) Wipe() {
	if f, err := st.take(); err == nil {
		f.forget()
	}
}

// Encode returns st as bytes for [DecodeState] in another process, and empties it.
// The bytes hold the traffic secret in the clear, and begin with the version of their
// format: a DecodeState that knows only others returns [ErrState], so that a program
// of another version can tell. Encode returns [ErrStateSpent] if st was used.
func (st *State) Encode() ([]byte, error) {
	f, err := st.take()
	if err != nil {
		return nil, err
	}
	var b cryptobyte.Builder
	b.AddUint8(stateVersion)
	b.AddUint8(flag(f.opener, stateOpener) | flag(f.requested, stateRequested) | flag(f.owed, stateOwed))
	b.AddUint16(f.suite.ID())
	b.AddUint64(f.seq)
	b.AddUint64(f.generation)
	b.AddUint64(f.softLimit)
	b.AddUint64(f.hardLimit)
	b.AddUint16(uint16(f.recordSizeLimit))
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(f.secret()) })
	b.AddUint32LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(f.unread) })
	data, err := b.Bytes()
	if err != nil {
		f.giveBack()
		return nil, ErrState // unread bytes of 4 GiB and more
	}
	f.forget()
	return data, nil
}

// DecodeState returns the State that [State.Encode] encoded as data. It copies what
// it needs; the caller erases data. suite finds the suite with the given id and
// returns nil if it does not know it; a nil suite stands for [aead.SuiteByID].
//
// It returns [ErrState] if data is malformed or the suite is not known.
func DecodeState(data []byte, suite func(id uint16) *aead.Suite) (*State, error) {
	if suite == nil {
		suite = aead.SuiteByID
	}
	var version, flags uint8
	var id, recordSizeLimit uint16
	var secret, unread cryptobyte.String
	var unreadSize uint32
	f := new(stateFields)
	r := cryptobyte.String(data)
	if !r.ReadUint8(&version) || version != stateVersion ||
		!r.ReadUint8(&flags) || flags >= stateFlagsEnd ||
		!r.ReadUint16(&id) ||
		!r.ReadUint64(&f.seq) ||
		!r.ReadUint64(&f.generation) ||
		!r.ReadUint64(&f.softLimit) ||
		!r.ReadUint64(&f.hardLimit) ||
		!r.ReadUint16(&recordSizeLimit) ||
		!r.ReadUint8LengthPrefixed(&secret) ||
		!r.ReadUint32(&unreadSize) || uint64(unreadSize) != uint64(len(r)) ||
		!r.ReadBytes((*[]byte)(&unread), int(unreadSize)) {
		return nil, ErrState
	}
	f.opener = flags&stateOpener != 0
	f.requested = flags&stateRequested != 0
	f.owed = flags&stateOwed != 0
	f.recordSizeLimit = int(recordSizeLimit)
	f.suite = suite(id)
	switch {
	case f.suite == nil || f.suite.ID() != id,
		len(secret) != f.suite.Hash().Size(),
		f.recordSizeLimit < MinRecordSizeLimit || f.recordSizeLimit > MaxInnerSize,
		f.opener && (f.requested || f.owed || f.softLimit != 0 || f.hardLimit != 0),
		!f.opener && (len(unread) > 0 || f.softLimit < 1 || f.hardLimit < 2 || f.generation > maxKeyUpdates),
		!wholeRecords(unread):
		return nil, ErrState
	}
	f.hidden = hide(slices.Clone(secret))
	f.unread = slices.Clone(unread)
	return &State{fields: f}, nil
}

// Format writes the suite and the direction, whatever the verb.
func (st *State) Format(w fmt.State, verb rune) {
	fmt.Fprint(w, st.String())
}

// MarshalText returns what Format writes, so that encoders such as JSON's write
// that.
func (st *State) MarshalText() ([]byte, error) { return []byte(st.String()), nil }

// String returns what Format writes.
func (st *State) String() string {
	switch {
	case st == nil || st.fields == nil || st.fields.used.Load():
		return "record.State(empty)"
	case st.fields.opener:
		return "record.State(opener, " + st.fields.suite.Name() + ", redacted)"
	}
	return "record.State(sealer, " + st.fields.suite.Name() + ", redacted)"
}

// Format writes the suite, whatever the verb.
func (s Secrets) Format(w fmt.State, verb rune) {
	fmt.Fprint(w, s.String())
}

// String returns what Format writes.
func (s Secrets) String() string {
	if s.Suite == nil {
		return "record.Secrets(redacted)"
	}
	return "record.Secrets(" + s.Suite.Name() + ", redacted)"
}

// MarshalText returns what Format writes.
func (s Secrets) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func flag(set bool, bit uint8) uint8 {
	if set {
		return bit
	}
	return 0
}

// The encoding of a State.
const (
	stateVersion = 1

	stateOpener    = 1
	stateRequested = 2
	stateOwed      = 4
	stateFlagsEnd  = 8
)
