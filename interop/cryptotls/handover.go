package cryptotls

import (
	"bytes"
	"errors"
	"fmt"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// ErrHandover says that the connection was set up but could not be taken over:
// what crypto/tls did is not what this package knows of it. The connection is
// closed. A cause is wrapped beside it.
var ErrHandover = errors.New("cryptotls: connection cannot be taken over from crypto/tls")

var (
	errNoFinished   = errors.New("no Finished message")
	errRest         = errors.New("handshake ends inside a record or a message")
	errEarlyData    = errors.New("application data in the handshake")
	errEarlyAlert   = errors.New("alert in the handshake")
	errNoTicket     = errors.New("message behind Finished is not a NewSessionTicket")
	errNotIdentical = errors.New("record sealed by crypto/tls cannot be reproduced")
)

// sealedRecord is one record under application keys.
type sealedRecord struct {
	wire    []byte // as it went over the wire
	content []byte
}

// sealedRecords opens all records of stream, one direction of a handshake from
// its first byte on, first those without keys, then those under the handshake
// traffic secret, and behind the Finished message those under the application
// traffic secret, which it returns. Each record must open, at the sequence
// number that its place gives it, so the length of the result is the sequence
// number of the next record, whatever this version of crypto/tls does.
//
// It overwrites stream. It returns an error if a record does not open, if the
// stream does not reach a Finished message that ends its record, or if anything
// but NewSessionTicket messages follows.
func sealedRecords(stream []byte, suite *aead.Suite, handshake, application []byte) ([]sealedRecord, error) {
	o := record.NewOpener(record.OpenerConfig{})
	defer o.Wipe()
	o.AllowChangeCipherSpec(true)
	messages := record.NewHandshakeReader(maxMessageSize)
	finished := false
	var sealed []sealedRecord
	for len(stream) > 0 {
		if o.Epoch() == record.EpochPlaintext && record.ContentType(stream[0]) == record.ContentTypeApplicationData {
			if err := o.SetTrafficSecret(record.EpochHandshake, suite, handshake); err != nil {
				return nil, err
			}
		}
		if finished && o.Epoch() == record.EpochHandshake {
			if err := o.SetTrafficSecret(record.EpochApplication, suite, application); err != nil {
				return nil, err
			}
		}
		var wire []byte
		if o.Epoch() == record.EpochApplication {
			wire = bytes.Clone(stream)
		}
		rec, need, err := o.Open(stream)
		switch {
		case err != nil:
			return nil, err
		case need > 0:
			return nil, errRest
		case rec.Dropped:
		case rec.Type == record.ContentTypeHandshake:
			if err := messages.Append(rec.Content); err != nil {
				return nil, err
			}
			for {
				msg, err := messages.Next()
				if err != nil {
					return nil, err
				}
				if msg == nil {
					break
				}
				if finished && msg[0] != typeNewSessionTicket {
					return nil, errNoTicket
				}
				finished = finished || msg[0] == typeFinished
				// "Handshake messages MUST NOT span key changes."
				// (RFC 9846, Section 5.1)
				if finished && o.Epoch() != record.EpochApplication && !messages.Empty() {
					return nil, errRest
				}
			}
		case rec.Type == record.ContentTypeApplicationData:
			return nil, errEarlyData
		case o.Err() != nil:
			return nil, errEarlyAlert // user_canceled, which some clients send, ends nothing
		}
		if wire != nil {
			sealed = append(sealed, sealedRecord{wire: wire[:rec.Size], content: rec.Content})
		}
		stream = stream[rec.Size:]
	}
	if !finished {
		return nil, errNoFinished
	}
	if !messages.Empty() {
		return nil, errRest
	}
	return sealed, nil
}

// newSealer returns the write state of a side that has sent the given records
// under secret. It seals them again and compares: whoever has reproduced every
// record bit by bit has the key, the IV and the sequence number of crypto/tls.
// Each per-record nonce is used for the same inner plaintext and the same
// additional data as before, which tells nobody anything; a copy that differs
// is not sent and the secret is given up.
//
// cfg says nothing about records that crypto/tls has sealed, so they are sealed
// without it: their size may be above its limit, and they have no padding.
func newSealer(cfg record.SealerConfig, suite *aead.Suite, secret []byte, sent []sealedRecord) (*record.Sealer, error) {
	s := record.NewSealer(record.SealerConfig{})
	defer s.Wipe()
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
	state, err := s.Export()
	if err != nil {
		return nil, err
	}
	return record.ImportSealer(state, cfg)
}

// handOver makes the write and the read state of a connection whose handshake
// is done, from what t saw of it. All it keeps of the secrets is in them.
func (t *transport) handOver(cfg record.SealerConfig, cipherSuite uint16, client bool) (*record.Sealer, *record.Opener, error) {
	suite := aead.SuiteByID(cipherSuite)
	if suite == nil {
		return nil, nil, fmt.Errorf("%w: unknown cipher suite %#04x", ErrHandover, cipherSuite)
	}
	ours, theirs := direction{clientHandshake, clientApplication}, direction{serverHandshake, serverApplication}
	if !client {
		ours, theirs = theirs, ours
	}
	sealer, err := t.sealer(cfg, suite, ours)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: sent records: %w", ErrHandover, err)
	}
	opener, err := t.opener(suite, theirs)
	if err != nil {
		sealer.Wipe()
		return nil, nil, fmt.Errorf("%w: received records: %w", ErrHandover, err)
	}
	return sealer, opener, nil
}

// direction names the secrets of one direction.
type direction struct{ handshake, application secretKind }

func (t *transport) sealer(cfg record.SealerConfig, suite *aead.Suite, d direction) (*record.Sealer, error) {
	sent, err := t.records(t.sent, suite, d)
	if err != nil {
		return nil, err
	}
	return newSealer(cfg, suite, t.log.get(d.application), sent)
}

func (t *transport) opener(suite *aead.Suite, d direction) (*record.Opener, error) {
	received, err := t.records(t.received, suite, d)
	if err != nil {
		return nil, err
	}
	// crypto/tls stops reading where the handshake ends. Had it taken a record
	// more, its content would be lost.
	if len(received) > 0 {
		return nil, errors.New("crypto/tls read records behind the handshake")
	}
	o := record.NewOpener(record.OpenerConfig{})
	if err := o.SetTrafficSecret(record.EpochApplication, suite, t.log.get(d.application)); err != nil {
		return nil, err
	}
	return o, nil
}

func (t *transport) records(stream []byte, suite *aead.Suite, d direction) ([]sealedRecord, error) {
	handshake, application := t.log.get(d.handshake), t.log.get(d.application)
	if handshake == nil || application == nil {
		return nil, errNoSecret
	}
	return sealedRecords(stream, suite, handshake, application)
}

// refusedVersion reports whether the handshake ended with a protocol_version
// alert, from either side.
func (t *transport) refusedVersion() bool {
	for _, stream := range [][]byte{t.sent, t.received} {
		const size = record.HeaderSize + 2
		if n := len(stream) - size; n >= 0 &&
			record.ContentType(stream[n]) == record.ContentTypeAlert &&
			record.Alert(stream[len(stream)-1]) == record.AlertProtocolVersion {
			return true
		}
	}
	return false
}

// From RFC 9846, Section 4.
const (
	typeNewSessionTicket = 4
	typeFinished         = 20
)

// maxMessageSize is the largest handshake message that crypto/tls takes, a
// certificate message of 256 KiB; it sends no longer tickets than 64 KiB.
const maxMessageSize = 1 << 18
