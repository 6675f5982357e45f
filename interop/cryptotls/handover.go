package cryptotls

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
	"golang.org/x/crypto/cryptobyte"
)

// ErrHandover says that the connection was set up but could not be taken over:
// crypto/tls did not do what this package expects of it. The connection is closed. A
// cause is wrapped beside it.
//
// The peer, whose handshake is over, is told by an alert: internal_error, unless
// [record.AlertOf] names another for the cause. It is told nothing if it has sent an
// alert itself, if the records that crypto/tls sent, and so the sequence number of
// the next one, are not known, or if it takes nothing for a second.
var ErrHandover = errors.New("cryptotls: connection cannot be taken over from crypto/tls")

var (
	errSuite        = errors.New("not the cipher suite of the ServerHello, or unknown")
	errNoFinished   = errors.New("no Finished message")
	errRest         = errors.New("handshake ends inside a record or a message")
	errEarlyData    = errors.New("application data in the handshake")
	errEarlyAlert   = errors.New("alert in the handshake")
	errNoTicket     = errors.New("message after Finished is not a NewSessionTicket")
	errNotIdentical = errors.New("record sealed by crypto/tls cannot be reproduced")
	errSessionID    = fmt.Errorf("cryptotls: legacy_session_id above 32 bytes: %w", record.ErrMalformedMessage)
)

// sealedRecord is one record under application keys.
type sealedRecord struct {
	wire    []byte // as it went over the wire
	content []byte
}

// stream opens the records of one direction of a handshake, from its first byte on,
// as they pass: first those without keys, then those under the handshake traffic
// secret, and after the Finished message those under the application traffic secret,
// which it keeps. Each record must open, at the sequence number that its place gives
// it, so the length of sealed is the sequence number of the next record, whatever
// this version of crypto/tls does.
//
// Of other records it keeps only the one that is partly through.
type stream struct {
	t       *transport
	secrets direction

	opener   *record.Opener
	buf      []byte // the record that is partly through
	need     int    // bytes missing from it, or from its header
	messages messages
	finished bool
	sealed   []sealedRecord
	alert    record.Alert // the one that came without keys, and ended the stream
	err      error        // why the stream cannot be followed
}

func newStream(t *transport, secrets direction) *stream {
	s := &stream{t: t, secrets: secrets, opener: record.NewOpener(record.OpenerConfig{}), need: record.HeaderSize}
	s.opener.AllowChangeCipherSpec(true)
	return s
}

// add takes what follows in the stream.
func (s *stream) add(p []byte) {
	for len(p) > 0 && s.err == nil {
		n := min(s.need, len(p))
		s.buf = append(s.buf, p[:n]...)
		p = p[n:]
		if s.need -= n; s.need == 0 {
			s.need, s.err = s.open()
		}
	}
	if s.err != nil {
		s.wipe()
	}
}

// open opens the record in buf, or says how much of it is missing.
func (s *stream) open() (need int, err error) {
	o := s.opener
	if o.Epoch() == record.EpochPlaintext && record.ContentType(s.buf[0]) == record.ContentTypeApplicationData {
		if err := s.setSecret(record.EpochHandshake, s.secrets.handshake); err != nil {
			return 0, err
		}
	}
	if s.finished && o.Epoch() == record.EpochHandshake {
		if err := s.setSecret(record.EpochApplication, s.secrets.application); err != nil {
			return 0, err
		}
	}
	var wire []byte
	if o.Epoch() == record.EpochApplication && len(s.buf) == recordSize(s.buf) {
		wire = bytes.Clone(s.buf)
	}
	rec, need, err := o.Open(s.buf)
	if err != nil || need > 0 {
		return need, err
	}
	switch {
	case rec.Dropped:
	case rec.Type == record.ContentTypeHandshake:
		err = s.handshake(rec.Content)
	case rec.Type == record.ContentTypeApplicationData:
		err = errEarlyData
	case o.Err() != nil: // not after user_canceled, which some clients send
		if o.Epoch() == record.EpochPlaintext {
			s.alert = record.Alert(rec.Content[1])
		}
		err = errEarlyAlert
	}
	if wire != nil {
		s.sealed = append(s.sealed, sealedRecord{wire: wire, content: bytes.Clone(rec.Content)})
	}
	clear(s.buf)
	s.buf = s.buf[:0]
	return record.HeaderSize, err
}

// handshake takes the content of a handshake record.
func (s *stream) handshake(content []byte) error {
	for len(content) > 0 {
		var ends bool
		if content, ends = s.messages.take(content); !ends {
			return nil
		}
		typ := s.messages.start[0]
		if s.finished && typ != typeNewSessionTicket {
			return errNoTicket
		}
		s.finished = s.finished || typ == typeFinished && s.opener.Epoch() == record.EpochHandshake
		// "Handshake messages MUST NOT span key changes." (RFC 9846, Section 5.1)
		if s.finished && s.opener.Epoch() == record.EpochHandshake && len(content) > 0 {
			return errRest
		}
		if typ == typeClientHello && s.secrets == fromClient && s.messages.longSessionID() && s.t.sent.opener.Epoch() == record.EpochPlaintext {
			return errSessionID
		}
		if typ == typeServerHello && s.secrets == fromServer {
			// The second one, after a HelloRetryRequest, names the same.
			s.t.suite = aead.SuiteByID(s.messages.cipherSuite())
		}
	}
	return nil
}

// setSecret installs the next keys. crypto/tls has logged their secret before it
// reads or writes under them.
func (s *stream) setSecret(epoch record.Epoch, kind secretKind) error {
	secret := s.t.log.get(kind)
	if secret == nil {
		return errNoSecret
	}
	if s.t.suite == nil {
		return errSuite
	}
	return s.opener.SetTrafficSecret(epoch, s.t.suite, secret)
}

// records returns the records under application keys. It returns an error if a
// record did not open, if the stream does not reach a Finished message that ends
// its record, if anything but NewSessionTicket messages follows, or if it ends
// inside a record or a message.
func (s *stream) records() ([]sealedRecord, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.finished:
		return nil, errNoFinished
	case len(s.buf) > 0 || s.messages.have > 0:
		return nil, errRest
	case s.t.log.get(s.secrets.application) == nil:
		return nil, errNoSecret
	}
	return s.sealed, nil
}

// wipe erases the keys and what was kept.
func (s *stream) wipe() {
	s.opener.Wipe()
	clear(s.buf[:cap(s.buf)])
	for _, r := range s.sealed {
		clear(r.content)
	}
	s.buf, s.sealed = nil, nil
}

// messages finds where handshake messages end, without keeping more of one than
// its start.
type messages struct {
	start [startSize]byte // of the message that is partly through or has just ended
	have  int             // bytes seen of the one that is partly through
	size  int             // of the one that has just ended, its header included
}

// take takes what belongs to one message from content, and reports whether that
// message ends in it.
func (m *messages) take(content []byte) (rest []byte, ends bool) {
	size := messageHeaderSize
	for {
		if m.have >= messageHeaderSize {
			size = messageHeaderSize + int(m.start[1])<<16 + int(m.start[2])<<8 + int(m.start[3])
		}
		n := min(size-m.have, len(content))
		if m.have < startSize {
			copy(m.start[m.have:], content[:n])
		}
		m.have += n
		content = content[n:]
		switch {
		case m.have < size:
			return nil, false
		case n > 0 && m.have == messageHeaderSize:
			// Now the size is known.
		default:
			m.have, m.size = 0, size
			return content, true
		}
	}
}

// cipherSuite returns the cipher suite of the ServerHello that has just ended, or
// zero.
func (m *messages) cipherSuite() (id uint16) {
	s := cryptobyte.String(m.start[:min(m.size, startSize)])
	var session cryptobyte.String
	if !s.Skip(sessionIDAt) || !s.ReadUint8LengthPrefixed(&session) || !s.ReadUint16(&id) {
		return 0
	}
	return id
}

// longSessionID reports whether the session id of the ClientHello that has just
// ended is too long. crypto/tls takes it and sends it back.
//
// "opaque legacy_session_id<0..32>;" (RFC 9846, Section 4.2.2)
func (m *messages) longSessionID() bool {
	return m.size > sessionIDAt && m.start[sessionIDAt] > maxSessionIDSize
}

// newSealer returns the write state of a side that has sent the given records under
// secret. It seals them again and compares: if every record is reproduced bit by bit,
// the key, the IV and the sequence number are those of crypto/tls. Each per-record
// nonce is used for the same inner plaintext and the same additional data as before,
// which reveals nothing; a copy that differs is not sent, and the secret is given up.
//
// cfg says nothing about records that crypto/tls has sealed, so they are sealed
// without it: their size may be above its limit, and they have no padding.
func newSealer(cfg record.SealerConfig, suite *aead.Suite, secret []byte, sent []sealedRecord) (sealer *record.Sealer, err error) {
	s := record.NewSealer(record.SealerConfig{})
	defer func() {
		if sealer != s {
			s.Wipe()
		}
	}()
	if err := s.SetTrafficSecret(record.EpochApplication, suite, secret); err != nil {
		return nil, err
	}
	for _, r := range sent {
		wire, err := s.Seal(nil, record.ContentTypeHandshake, r.content)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(wire, r.wire) {
			return nil, errNotIdentical
		}
	}
	if reflect.ValueOf(cfg).IsZero() {
		return s, nil // exporting and importing it would derive the keys again
	}
	state, err := s.Export()
	if err != nil {
		return nil, err
	}
	defer state.Wipe()
	return record.ImportSealer(state, cfg)
}

// handOver makes the write and the read state of a connection whose handshake
// is done, from what t saw of it. All it keeps of the secrets is in them. If only
// the read state cannot be made, it returns the write state beside the error.
func (t *transport) handOver(cfg record.SealerConfig, cipherSuite uint16) (*record.Sealer, *record.Opener, error) {
	if t.suite == nil || t.suite.ID() != cipherSuite {
		return nil, nil, fmt.Errorf("%w: %w: %#04x", ErrHandover, errSuite, cipherSuite)
	}
	sealer, err := t.sealer(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: sent records: %w", ErrHandover, err)
	}
	opener, err := t.opener()
	if err != nil {
		return sealer, nil, fmt.Errorf("%w: received records: %w", ErrHandover, err)
	}
	return sealer, opener, nil
}

// sendAlert tells the peer that err has ended the connection, unless the peer is not
// to be told, and wipes s. If the connection has not taken the alert after a second
// it is closed, as it will be anyway.
//
// "Whenever an implementation encounters a fatal error condition, it SHOULD send an
// appropriate fatal alert and MUST close the connection without sending or receiving
// any additional data." (RFC 9846, Section 6.2)
func (t *transport) sendAlert(s *record.Sealer, err error) {
	defer s.Wipe()
	// "Upon transmission or receipt of a fatal alert message, both parties MUST
	// immediately close the connection." (RFC 9846, Section 6.2)
	if errors.Is(err, errEarlyAlert) {
		return
	}
	alert, ok := record.AlertOf(err)
	if !ok {
		alert = record.AlertInternalError
	}
	wire, err := s.SealAlert(nil, alert)
	if err != nil {
		return // the user's Record has wiped s
	}
	defer time.AfterFunc(alertTimeout, func() { t.close() }).Stop()
	t.conn.Write(wire)
}

// direction names the secrets of one direction.
type direction struct{ handshake, application secretKind }

var (
	fromClient = direction{clientHandshake, clientApplication}
	fromServer = direction{serverHandshake, serverApplication}
)

func (t *transport) sealer(cfg record.SealerConfig) (*record.Sealer, error) {
	sent, err := t.sent.records()
	if err != nil {
		return nil, err
	}
	return newSealer(cfg, t.suite, t.log.get(t.sent.secrets.application), sent)
}

func (t *transport) opener() (*record.Opener, error) {
	received, err := t.received.records()
	if err != nil {
		return nil, err
	}
	// crypto/tls stops reading where the handshake ends. Had it taken one more
	// record, the content of that would be lost.
	if len(received) > 0 {
		return nil, errors.New("crypto/tls read records after the handshake")
	}
	o := record.NewOpener(record.OpenerConfig{})
	if err := o.SetTrafficSecret(record.EpochApplication, t.suite, t.log.get(t.received.secrets.application)); err != nil {
		return nil, err
	}
	return o, nil
}

// refusedVersion reports whether the handshake ended with a protocol_version
// alert, from either side.
func (t *transport) refusedVersion() bool {
	return t.sent.alert == record.AlertProtocolVersion || t.received.alert == record.AlertProtocolVersion
}

// From RFC 9846, Section 4.
const (
	typeClientHello      = 1
	typeServerHello      = 2
	typeNewSessionTicket = 4
	typeFinished         = 20

	messageHeaderSize = 4
	maxSessionIDSize  = 32

	// sessionIDAt is where the length of the session id is in a ClientHello and a
	// ServerHello, after legacy_version and random.
	sessionIDAt = messageHeaderSize + 2 + randomSize

	// startSize is how far into a ServerHello its cipher suite reaches.
	startSize = sessionIDAt + 1 + maxSessionIDSize + 2
)

// alertTimeout is how long an alert may take, as in package record.
const alertTimeout = time.Second
