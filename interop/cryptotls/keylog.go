package cryptotls

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
)

// keyLog collects the traffic secrets of one connection from the lines that
// crypto/tls writes to its config's KeyLogWriter. The zero value is empty.
//
// It belongs to one connection and is used by the goroutine that runs the
// handshake, so it needs no lock.
type keyLog struct {
	random    [randomSize]byte
	hasRandom bool
	secrets   [secretKinds]secret
}

// secret is one traffic secret, held in place so that it can be wiped.
type secret struct {
	b    [maxSecretSize]byte
	size int
}

// secretKind names a line of the key log.
type secretKind int

const (
	clientHandshake secretKind = iota
	serverHandshake
	clientApplication
	serverApplication
	secretKinds
)

// secretLabels are the labels of the NSS key log format, which the
// documentation of [tls.Config] names.
var secretLabels = [secretKinds]string{
	clientHandshake:   "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
	serverHandshake:   "SERVER_HANDSHAKE_TRAFFIC_SECRET",
	clientApplication: "CLIENT_TRAFFIC_SECRET_0",
	serverApplication: "SERVER_TRAFFIC_SECRET_0",
}

var (
	errKeyLogLine   = errors.New("cryptotls: key log line of unknown form")
	errKeyLogRandom = errors.New("cryptotls: key log lines of more than one connection")
	errKeyLogTwice  = errors.New("cryptotls: traffic secret logged twice")
	errNoSecret     = errors.New("crypto/tls logged no traffic secret")
)

// get returns the secret of the given kind, or nil. It is part of k.
func (k *keyLog) get(kind secretKind) []byte {
	s := &k.secrets[kind]
	if s.size == 0 {
		return nil
	}
	return s.b[:s.size]
}

// wipe erases the secrets. What crypto/tls and the user's own KeyLogWriter keep
// is not reached.
func (k *keyLog) wipe() { *k = keyLog{} }

// line takes one line without its newline. Lines with other labels are ignored: TLS
// 1.2's CLIENT_RANDOM, and what later versions may add.
func (k *keyLog) line(line []byte) error {
	label, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return errKeyLogLine
	}
	kind := secretKind(0)
	for kind < secretKinds && secretLabels[kind] != string(label) {
		kind++
	}
	if kind == secretKinds {
		return nil
	}
	randomHex, secretHex, ok := bytes.Cut(rest, []byte(" "))
	var random [randomSize]byte
	if !ok || len(randomHex) != hex.EncodedLen(randomSize) || len(secretHex) > hex.EncodedLen(maxSecretSize) {
		return errKeyLogLine
	}
	if _, err := hex.Decode(random[:], randomHex); err != nil {
		return errKeyLogLine
	}
	if k.hasRandom && k.random != random {
		return errKeyLogRandom
	}
	s := &k.secrets[kind]
	if s.size != 0 {
		return errKeyLogTwice
	}
	n, err := hex.Decode(s.b[:], secretHex)
	if err != nil || n == 0 {
		clear(s.b[:])
		return errKeyLogLine
	}
	s.size = n
	k.random, k.hasRandom = random, true
	return nil
}

// keyLogWriter is the KeyLogWriter of one connection's config. Each line goes
// to the connection's keyLog and, unchanged, to the writer that the user set.
//
// Lines need no sorting by client random, as they would if connections shared a
// writer: that would mean reading the ClientHello off the wire, and with Encrypted
// Client Hello the random there is not the one in the log. All lines of a connection
// must still carry one random, and line checks it.
type keyLogWriter struct {
	log  *keyLog
	next io.Writer // or nil
}

// Write takes whole lines; crypto/tls writes one at a time. An error makes
// crypto/tls end the handshake.
func (w *keyLogWriter) Write(p []byte) (int, error) {
	if w.next != nil {
		if n, err := w.next.Write(p); err != nil {
			return n, err
		}
	}
	for rest := p; len(rest) > 0; {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			return 0, errKeyLogLine
		}
		if err := w.log.line(line); err != nil {
			return 0, err
		}
		rest = after
	}
	return len(p), nil
}

const (
	randomSize    = 32
	maxSecretSize = 64 // SHA-512's; the suites of TLS 1.3 need 48
)
