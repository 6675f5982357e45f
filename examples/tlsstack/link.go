package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// link is what a handshake needs on either side: the two directions of the record
// layer, the messages on their way, and the transcript.
//
// The record layer does no I/O. What a link does for it is small: it reads from
// the transport as many bytes as the Opener asks for, and writes what the Sealer
// has made.
type link struct {
	transport net.Conn

	opener   *record.Opener
	in       []byte                  // received, not yet opened
	messages *record.HandshakeReader // opened, not yet read

	sealer  *record.Sealer
	queue   []byte // messages, not yet sealed
	out     []byte // sealed, not yet sent
	sentCCS bool

	// transcript holds the messages of the handshake so far, both sides'. A message
	// that is sent is added at once, one that is received once it has been checked,
	// because CertificateVerify and Finished are about all that comes before them. It
	// is kept whole because the hash is not known at first.
	transcript []byte
}

// parameters are what a handshake has agreed on.
type parameters struct {
	suite        *aead.Suite
	group        *group
	scheme       *scheme
	protocol     string              // ALPN's, empty if there is none
	serverName   string              // empty if there is none
	certificates []*x509.Certificate // the server's chain, on the client
	retried      bool                // by a HelloRetryRequest
}

const (
	// maxMessageSize is the most that a message may have after its header. The
	// certificate chains in use need a few KiB.
	maxMessageSize = 1 << 16

	// handshakeTimeout is how long the peer may take for all its flights.
	handshakeTimeout = 10 * time.Second

	// readSize is how much is read at once, if the Opener does not need more. The
	// flights of most handshakes fit.
	readSize = 4096
)

func newLink(transport net.Conn) *link {
	return &link{
		transport: transport,
		opener:    record.NewOpener(record.OpenerConfig{}),
		messages:  record.NewHandshakeReader(maxMessageSize),
		sealer:    record.NewSealer(record.SealerConfig{}),
	}
}

// message is a handshake message, its header of four bytes included.
type message []byte

func (m message) typ() uint8   { return m[0] }
func (m message) body() []byte { return m[4:] }

// receive returns the next message, whose type must be one of types. It is not
// yet part of the transcript.
func (l *link) receive(types ...uint8) (message, error) {
	for {
		msg, err := l.messages.Next()
		if err != nil {
			return nil, err
		}
		if msg == nil {
			if err := l.readRecord(); err != nil {
				return nil, err
			}
			continue
		}
		if !slices.Contains(types, msg[0]) {
			return nil, alertf(record.AlertUnexpectedMessage, "handshake message %d, want one of %d", msg[0], types)
		}
		return bytes.Clone(msg), nil // the reader's is only valid until the next record
	}
}

// readRecord opens the next record and handles what it holds. The Opener knows which
// records may arrive under which keys.
func (l *link) readRecord() error {
	rec, need, err := l.opener.Open(l.in)
	if err != nil {
		return err
	}
	if need > 0 {
		l.in = slices.Grow(l.in, max(need, readSize))
		n, err := io.ReadAtLeast(l.transport, l.in[len(l.in):cap(l.in)], need)
		l.in = l.in[:len(l.in)+n]
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return &record.TransportError{Op: "read", Err: err}
		}
		return nil
	}
	l.in = l.in[rec.Size:]
	switch {
	case rec.Dropped: // change_cipher_spec, or early data
		return nil
	case rec.Type == record.ContentTypeHandshake:
		return l.messages.Append(rec.Content)
	case rec.Type == record.ContentTypeAlert:
		alert, err := record.ParseAlert(rec.Content)
		if err != nil {
			return err
		}
		if alert == record.AlertUserCanceled {
			return nil // close_notify follows
		}
		return &record.AlertError{Alert: alert}
	}
	return alertf(record.AlertUnexpectedMessage, "%v in the handshake", rec.Type)
}

// setReadKeys protects what is read from here on.
//
// "Implementations MUST verify that all messages immediately preceding a key
// change align with a record boundary; if not, then they MUST terminate the
// connection with an "unexpected_message" alert." (RFC 9846, Section 5.1) The
// Opener sees a message that is partly through; messages that have been opened and
// not read are here.
func (l *link) setReadKeys(epoch record.Epoch, suite *aead.Suite, secret []byte) error {
	if !l.messages.Empty() {
		return record.ErrKeyChangeBoundary
	}
	return l.opener.SetTrafficSecret(epoch, suite, secret)
}

// send adds a message to the transcript and to those that are sealed together. It
// takes what the functions that make messages return.
func (l *link) send(msg []byte, err error) error {
	l.transcript = append(l.transcript, msg...)
	l.queue = append(l.queue, msg...)
	return err
}

// seal turns the waiting messages into as few records as they fit in.
func (l *link) seal() (err error) {
	for content := range slices.Chunk(l.queue, l.sealer.MaxContentSize()) {
		if l.out, err = l.sealer.Seal(l.out, record.ContentTypeHandshake, content); err != nil {
			return err
		}
	}
	l.queue = nil
	return nil
}

// setWriteKeys protects what is sent from here on. What was sent before is sealed
// first, under the keys that it belongs to.
func (l *link) setWriteKeys(epoch record.Epoch, suite *aead.Suite, secret []byte) error {
	if err := l.seal(); err != nil {
		return err
	}
	return l.sealer.SetTrafficSecret(epoch, suite, secret)
}

// sendChangeCipherSpec sends, once, the record that makes a connection look like one
// of TLS 1.2. It changes nothing.
//
// See RFC 9846, Appendix E.4.
func (l *link) sendChangeCipherSpec() error {
	if l.sentCCS {
		return nil
	}
	l.sentCCS = true
	if err := l.seal(); err != nil {
		return err
	}
	var err error
	l.out, err = l.sealer.SealChangeCipherSpec(l.out)
	return err
}

// flush ends a flight: everything is sealed and handed to the transport.
func (l *link) flush() error {
	if err := l.seal(); err != nil {
		return err
	}
	_, err := l.transport.Write(l.out)
	l.out = nil
	if err != nil {
		return &record.TransportError{Op: "write", Err: err}
	}
	return nil
}

// checkFinished checks a Finished message and adds it to the transcript.
//
// "Recipients of Finished messages MUST verify that the contents are correct and
// if incorrect MUST terminate the connection with a "decrypt_error" alert." (RFC
// 9846, Section 4.5.3)
func (l *link) checkFinished(suite *aead.Suite, secret []byte, msg message) error {
	want, err := verifyData(suite.Hash(), secret, l.transcript)
	if err != nil {
		return err
	}
	if len(msg.body()) != len(want) {
		return malformed("Finished")
	}
	if !hmac.Equal(msg.body(), want) { // in constant time
		return alertf(record.AlertDecryptError, "wrong Finished")
	}
	l.transcript = append(l.transcript, msg...)
	return nil
}

// sendFinished sends the Finished message for the transcript so far.
func (l *link) sendFinished(suite *aead.Suite, secret []byte) error {
	data, err := verifyData(suite.Hash(), secret, l.transcript)
	if err != nil {
		return err
	}
	return l.send(append([]byte{typeFinished, 0, 0, byte(len(data))}, data...), nil)
}

// run runs the handshake of one side within handshakeTimeout. After that the record
// layer goes on by itself: both directions are under application keys, and whatever
// has been received and not opened is passed on.
func (l *link) run(role record.Role, handshake func() (*parameters, error)) (*record.Conn, *parameters, error) {
	l.transport.SetDeadline(time.Now().Add(handshakeTimeout))
	p, err := handshake()
	var conn *record.Conn
	if err == nil {
		l.transport.SetDeadline(time.Time{})
		conn, err = record.NewConn(l.transport, record.ConnConfig{
			Role:   role,
			Sealer: l.sealer,
			Opener: l.opener,
			Unread: l.in,
		})
	}
	l.messages.Wipe()
	if err != nil {
		l.abort(err)
		return nil, nil, err
	}
	return conn, p, nil
}

// abort tells the peer why the handshake has failed, and ends both directions. The
// alert is sealed under whatever keys the Sealer has by now: messages that still wait
// are dropped, but sealed records are sent, so that no sequence number is missing.
func (l *link) abort(err error) {
	if alert, ok := alertFor(err); ok {
		if out, err := l.sealer.SealAlert(l.out, alert); err == nil {
			l.transport.Write(out) // the handshake has failed already
		}
	}
	l.sealer.Wipe()
	l.opener.Wipe()
}

// alertError is a fault in what the peer sent that the handshake, not the record
// layer, has found.
type alertError struct {
	alert record.Alert
	text  string
}

func alertf(alert record.Alert, format string, args ...any) error {
	return &alertError{alert, fmt.Sprintf(format, args...)}
}

func (e *alertError) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.alert) }

// alertFor returns the alert to send for an error, and whether there is one.
// Nothing is sent to a peer that has sent an alert itself, or that the transport
// does not reach.
func alertFor(err error) (record.Alert, bool) {
	var own *alertError
	var theirs *record.AlertError
	var transport *record.TransportError
	switch {
	case errors.As(err, &own):
		return own.alert, true
	case errors.As(err, &theirs), errors.As(err, &transport):
		return 0, false
	}
	if alert, ok := record.AlertOf(err); ok {
		return alert, true
	}
	return record.AlertInternalError, true
}
