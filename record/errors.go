package record

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// Errors that the peer causes. What an [Opener] has returned, it returns for ever; some
// come from a [HandshakeReader], a [Reader], a setter or a message handler instead. Each
// maps to the alert that [AlertOf] names.
var (
	// ErrUnexpectedRecordType is a record whose outer content type is not
	// allowed in this state, whatever follows its first byte.
	ErrUnexpectedRecordType = errors.New("record: unexpected outer content type")

	// ErrUnexpectedContentType is a protected record whose content type is
	// unknown, is change_cipher_spec, or is not allowed under these keys.
	ErrUnexpectedContentType = errors.New("record: unexpected content type")

	// ErrRecordOverflow is a record above a size limit.
	ErrRecordOverflow = errors.New("record: record above the size limit")

	// ErrBadRecordMAC is a record that cannot be deprotected, for any reason.
	ErrBadRecordMAC = errors.New("record: record cannot be opened")

	// ErrNoContentType is an inner plaintext without a non-zero byte.
	ErrNoContentType = errors.New("record: inner plaintext without a content type")

	// ErrEmptyFragment is a handshake or alert record without content.
	ErrEmptyFragment = errors.New("record: handshake or alert record without content")

	// ErrAlertSize is an alert record that does not hold exactly one alert.
	ErrAlertSize = errors.New("record: alert record does not hold exactly one alert")

	// ErrInterleaved is a record between the fragments of a handshake message.
	ErrInterleaved = errors.New("record: record between the fragments of a handshake message")

	// ErrKeyChangeBoundary is a handshake message that does not end at the
	// record boundary where the keys change.
	ErrKeyChangeBoundary = errors.New("record: handshake message does not end where the keys change")

	// ErrUnexpectedKeyUpdate is a KeyUpdate before the application keys.
	ErrUnexpectedKeyUpdate = errors.New("record: KeyUpdate before the application keys")

	// ErrChangeCipherSpec is a change_cipher_spec record that is not the single
	// byte 0x01, or that arrives when none may.
	ErrChangeCipherSpec = errors.New("record: invalid or untimely change_cipher_spec")

	// ErrTooManyIdleRecords is a run of records that bring no application data.
	ErrTooManyIdleRecords = errors.New("record: too many records without application data")

	// ErrTooMuchEarlyData is rejected early data above the caller's bound.
	ErrTooMuchEarlyData = errors.New("record: too much rejected early data")

	// ErrMalformedMessage is a handshake message of the wrong length or type.
	ErrMalformedMessage = errors.New("record: malformed handshake message")

	// ErrIllegalMessage is a handshake message that can be parsed but holds an
	// illegal value. It is for message handlers: this package itself does not return
	// it.
	ErrIllegalMessage = errors.New("record: illegal value in handshake message")

	// ErrKeyUpdateRequest is a KeyUpdate whose request is neither 0 nor 1.
	ErrKeyUpdateRequest = errors.New("record: invalid KeyUpdate request")

	// ErrHandshakeSize is a handshake message above the caller's limit.
	ErrHandshakeSize = errors.New("record: handshake message above the size limit")

	// ErrUnexpectedMessage is a handshake message that is not expected. A [Reader]
	// and a [Conn] return it.
	ErrUnexpectedMessage = errors.New("record: unexpected handshake message")

	// ErrRecordSizeLimit is a record size limit below [MinRecordSizeLimit].
	ErrRecordSizeLimit = errors.New("record: record size limit below 64")
)

// Errors of the local side. Those that are final say so; after all others
// nothing has changed and the call may be made again when its reason is gone.
var (
	// ErrKeyUpdateRequired refuses content until [Sealer.SealKeyUpdate] has
	// been called: the soft usage limit is reached, or the peer's request for
	// a KeyUpdate has not been answered.
	ErrKeyUpdateRequired = errors.New("record: key update required first")

	// ErrKeyExhausted refuses a record because the key's usage limit is reached. A
	// KeyUpdate and alerts may still be sealed above the limit for content.
	ErrKeyExhausted = errors.New("record: key usage limit reached")

	// ErrKeyUpdateLimit refuses a KeyUpdate because 2^48-1 have been sent.
	ErrKeyUpdateLimit = errors.New("record: no key update left")

	// ErrKeyUpdateOutstanding refuses to request a KeyUpdate while an earlier
	// request has not been answered.
	ErrKeyUpdateOutstanding = errors.New("record: earlier KeyUpdate request not answered")

	// ErrKeyUpdatePending refuses to open a record because the last one ended
	// with a KeyUpdate message and [Opener.KeyUpdate] was not called.
	ErrKeyUpdatePending = errors.New("record: KeyUpdate received and keys not updated")

	// ErrNoKeyUpdate refuses to update read keys because the last record did
	// not end with a KeyUpdate message.
	ErrNoKeyUpdate = errors.New("record: no KeyUpdate received")

	// ErrContentType refuses content of this type. Alerts, KeyUpdate messages
	// and change_cipher_spec have methods of their own.
	ErrContentType = errors.New("record: content type not sealed by this method")

	// ErrEmptyContent refuses a handshake record without content.
	ErrEmptyContent = errors.New("record: handshake record without content")

	// ErrRecordTooLarge refuses content above [Sealer.MaxContentSize].
	ErrRecordTooLarge = errors.New("record: content too large for one record")

	// ErrHandshakePartial refuses an operation between the fragments of a
	// handshake message or, for an export, of a record.
	ErrHandshakePartial = errors.New("record: handshake message or record partly through")

	// ErrEpoch refuses what the present keys do not allow: application data
	// without keys or under handshake keys, a KeyUpdate or an export under any
	// but application keys, keys of an earlier epoch.
	ErrEpoch = errors.New("record: not allowed in this epoch")

	// ErrSecretReused refuses a traffic secret that is or was in use: its keys would
	// start again at sequence number zero. [NewConn] returns it if both directions
	// have the same one.
	ErrSecretReused = errors.New("record: traffic secret used before")

	// ErrSuiteMismatch refuses a connection whose two directions have different
	// suites.
	ErrSuiteMismatch = errors.New("record: different suites in the two directions")

	// ErrKeySetup says that keys could not be made from a traffic secret. The cause
	// is wrapped beside it; when it ends a [Reader] it comes in a [HookError].
	ErrKeySetup = errors.New("record: keys cannot be set up")

	// ErrClosed is final: an alert ended this direction, or it was wiped.
	ErrClosed = errors.New("record: closed")

	// ErrInterrupted is final: a call panicked while a record was being sealed
	// or opened, or a handshake message handled. The sequence number of the
	// record is spent and the peer cannot follow, or the message is lost.
	ErrInterrupted = errors.New("record: an earlier call panicked")

	// ErrExported is final: the state was exported.
	ErrExported = errors.New("record: state exported")

	// ErrStateSpent says that a [State] was imported, encoded or revealed
	// before. It is final.
	ErrStateSpent = errors.New("record: state used before")

	// ErrState says that a [State] is malformed, of the other direction, or
	// of an unknown suite.
	ErrState = errors.New("record: invalid state")

	// ErrInUse refuses an export while another method of the [Conn] runs.
	ErrInUse = errors.New("record: connection in use")

	// ErrMessageHandler is final: the caller's message handler returned an error that
	// has no alert of its own. It comes in a [HookError].
	ErrMessageHandler = errors.New("record: handshake message not handled")
)

// AlertOf returns the alert that the specification requires to be sent for err, or else
// for the first error that it wraps, in the order of [errors.Is], and whether there is
// one. Errors that concern only the local side have none: what to tell the peer about
// them, if anything, is the caller's choice.
//
// "The phrases "terminate the connection with an X alert" and "abort the
// handshake with an X alert" mean that the implementation MUST send alert X if it
// sends any alert." (RFC 9846, Section 6.2)
func AlertOf(err error) (Alert, bool) {
	if row := alertRowOf(err); row != nil {
		return row.alert, true
	}
	return 0, false
}

// alertRowOf returns the row of err, or of the first error in it that has an alert. The
// order must not be the table's: of two errors joined, the peer is told of the first.
func alertRowOf(err error) *alertRow {
	for i := range alertTable {
		if row := &alertTable[i]; row.err == err && row.send {
			return row
		}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return alertRowOf(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			if row := alertRowOf(e); row != nil {
				return row
			}
		}
	}
	return nil
}

// HookError is an error of the caller's own code, its message handler or the
// constructor of a suite, that has ended a [Reader] or a [Conn].
//
// It counts as one error of this package, which [errors.Is] and [AlertOf] find: the
// first in Err that has an alert, or else [ErrMessageHandler]. They find nothing else
// in Err: a handler's io.EOF is not the end of the data, and its timeout not one
// after which reading can go on.
type HookError struct {
	// Err is what the message handler returned, or the constructor's error, wrapped
	// beside [ErrKeySetup].
	Err error

	is error
}

func (e *HookError) Error() string {
	if errors.Is(e.Err, e.is) {
		return e.Err.Error()
	}
	return e.is.Error() + ": " + e.Err.Error()
}

// Unwrap returns the error of this package that e counts as.
func (e *HookError) Unwrap() error { return e.is }

// hookError returns the final error for err, which counts as other if it has no
// alert. An error variable of this package that has one is returned as it is.
func hookError(err, other error) error {
	if row := alertRowOf(err); row != nil {
		if err == row.err {
			return err
		}
		other = row.err
	}
	return &HookError{Err: err, is: other}
}

// AlertError is an error alert that the peer has sent. It ended the connection.
//
// Find it with [errors.As] and a variable of type *AlertError; the AlertError of
// crypto/tls is a value.
type AlertError struct {
	Alert Alert
}

func (e *AlertError) Error() string {
	// String says "alert" if it has no name.
	return "record: peer sent alert " + strings.TrimPrefix(e.Alert.String(), "alert ")
}

// TransportError is an error of the transport that has ended one direction of a
// connection. Every later call in that direction returns the same one. It is a
// [net.Error].
type TransportError struct {
	Op string // "read" or "write"

	// Err is what the transport returned, or [io.ErrShortWrite]. If the transport
	// returned io.EOF or an error that wraps it, Err keeps only the text, and wraps
	// [io.ErrUnexpectedEOF] after a read and [io.ErrClosedPipe] after a write.
	Err error
}

var _ net.Error = (*TransportError)(nil)

func (e *TransportError) Error() string { return "record: transport " + e.Op + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *TransportError) Unwrap() error { return e.Err }

// Timeout reports whether the cause was a deadline. The connection is broken all
// the same.
func (e *TransportError) Timeout() bool { return isTimeout(e.Err) }

// Temporary returns false: the same call will not succeed later.
func (e *TransportError) Temporary() bool { return false }

// isTimeout reports whether err comes from a deadline. The timeout of a dead
// connection does not, though it claims to: the kernel reports it once, and then the
// end of the stream.
func isTimeout(err error) bool {
	// What package net returns is tried first: errors.As takes a microsecond, and
	// net/http's server lets a read time out in every request.
	t, ok := err.(timeouter)
	if !ok {
		t, ok = asTimeouter(err)
	}
	return (ok && t.Timeout() || errors.Is(err, os.ErrDeadlineExceeded)) && !errors.Is(err, syscall.ETIMEDOUT)
}

type timeouter interface{ Timeout() bool }

func asTimeouter(err error) (t timeouter, ok bool) {
	ok = errors.As(err, &t)
	return t, ok
}

// replaceEOF returns err, unless [errors.Is] would take it for the io.EOF of a
// close_notify: then it returns instead, wrapped with err's text.
func replaceEOF(err, instead error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %v", instead, err)
	}
	return err
}

// alertRow says which alert tells the peer of an error, if any.
type alertRow struct {
	err   error
	alert Alert
	send  bool
}

// alertTable has one row for every exported error; a test checks that it is complete.
// No row is a default.
var alertTable = [...]alertRow{
	{ErrUnexpectedRecordType, AlertUnexpectedMessage, true},
	{ErrUnexpectedContentType, AlertUnexpectedMessage, true},
	{ErrRecordOverflow, AlertRecordOverflow, true},
	{ErrBadRecordMAC, AlertBadRecordMAC, true},
	{ErrNoContentType, AlertUnexpectedMessage, true},
	{ErrEmptyFragment, AlertUnexpectedMessage, true},
	{ErrAlertSize, AlertUnexpectedMessage, true},
	{ErrInterleaved, AlertUnexpectedMessage, true},
	{ErrKeyChangeBoundary, AlertUnexpectedMessage, true},
	{ErrUnexpectedKeyUpdate, AlertUnexpectedMessage, true},
	{ErrChangeCipherSpec, AlertUnexpectedMessage, true},
	{ErrTooManyIdleRecords, AlertUnexpectedMessage, true},
	// "A server receiving more than max_early_data_size bytes of 0-RTT data
	// SHOULD terminate the connection with an "unexpected_message" alert."
	// (RFC 9846, Section 4.7.1)
	{ErrTooMuchEarlyData, AlertUnexpectedMessage, true},
	{ErrMalformedMessage, AlertDecodeError, true},
	{ErrIllegalMessage, AlertIllegalParameter, true},
	{ErrKeyUpdateRequest, AlertIllegalParameter, true},
	// The message obeys the syntax; OpenSSL and BoringSSL send the same.
	{ErrHandshakeSize, AlertIllegalParameter, true},
	{ErrRecordSizeLimit, AlertIllegalParameter, true},
	{ErrUnexpectedMessage, AlertUnexpectedMessage, true},
	{ErrMessageHandler, AlertInternalError, true},

	// Errors of the local side.
	{ErrKeySetup, AlertInternalError, true},
	{ErrKeyUpdateRequired, 0, false},
	{ErrKeyExhausted, 0, false},
	{ErrKeyUpdateLimit, 0, false},
	{ErrKeyUpdateOutstanding, 0, false},
	{ErrKeyUpdatePending, 0, false},
	{ErrNoKeyUpdate, 0, false},
	{ErrContentType, 0, false},
	{ErrEmptyContent, 0, false},
	{ErrRecordTooLarge, 0, false},
	{ErrHandshakePartial, 0, false},
	{ErrEpoch, 0, false},
	{ErrSecretReused, 0, false},
	{ErrSuiteMismatch, 0, false},
	{ErrClosed, 0, false},
	{ErrInterrupted, 0, false},
	{ErrExported, 0, false},
	{ErrStateSpent, 0, false},
	{ErrState, 0, false},
	{ErrInUse, 0, false},
}
