package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
	"golang.org/x/crypto/cryptobyte"
)

// A wire is the transport of everything that reads or writes records. After the
// handshake it does no more than a kernel must do as well: Read copies from in, Write
// drops.
type wire struct {
	net.Conn // the pipe that the handshake goes through, and nil afterwards

	in   []byte // what Read has not delivered yet
	keep bool   // Write appends to out
	out  []byte
}

func (w *wire) Read(p []byte) (int, error) {
	if w.Conn != nil {
		return w.Conn.Read(p)
	}
	if len(w.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	if w.Conn != nil {
		return w.Conn.Write(p)
	}
	if w.keep {
		w.out = append(w.out, p...)
	}
	return len(p), nil
}

// A peer is a tls.Conn after its handshake, and the other end of it.
type peer struct {
	conn   *tls.Conn
	wire   *wire
	sealer *record.Sealer // seals what conn reads
	opener *record.Opener // opens what conn writes
}

// newPeer runs a handshake that ends with the given suite. crypto/tls does not let
// its user choose between the suites of TLS 1.3, but a server takes the only one that
// it is offered. So crypto/tls is the server, and the client is below.
func newPeer(suite *aead.Suite) (*peer, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	defer near.Close()
	secrets := make(keyLog)
	p := &peer{wire: &wire{Conn: far}}
	p.conn = tls.Server(p.wire, &tls.Config{
		Certificates:                []tls.Certificate{certificate},
		MinVersion:                  tls.VersionTLS13,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // one record for each Write, whatever its size
		KeyLogWriter:                secrets,
	})
	done := make(chan error, 1)
	go func() {
		err := p.conn.Handshake()
		if err != nil {
			far.Close() // the client may be waiting
		}
		done <- err
	}()
	p.sealer, p.opener, err = clientHandshake(near, suite, secrets)
	if err != nil {
		near.Close() // and so may the server
	}
	if err := errors.Join(err, <-done); err != nil {
		return nil, fmt.Errorf("handshake with crypto/tls: %w", err)
	}
	p.wire.Conn = nil
	return p, nil
}

// selfSigned returns a certificate that nobody verifies: both ends of the
// handshake are in this process.
var selfSigned = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

// keyLog takes lines "LABEL client_random secret" and keeps the secrets.
type keyLog map[string][]byte

func (l keyLog) Write(line []byte) (int, error) {
	fields := strings.Fields(string(line))
	if len(fields) != 3 {
		return 0, errors.New("malformed line in the key log")
	}
	secret, err := hex.DecodeString(fields[2])
	l[fields[0]] = secret
	return len(line), err
}

// clientHandshake is the client's half of a handshake in which it offers one suite.
// It takes the traffic secrets from the server's key log, which has them all by the
// time the server's flight is sent, so it needs neither the private key of the share
// that it offers nor a key schedule. It returns both directions under application
// keys.
func clientHandshake(conn net.Conn, suite *aead.Suite, secrets keyLog) (*record.Sealer, *record.Opener, error) {
	sealer := record.NewSealer(record.SealerConfig{})
	opener := record.NewOpener(record.OpenerConfig{})
	opener.AllowChangeCipherSpec(true)
	transcript := suite.Hash().New()

	hello, err := clientHello(suite)
	if err != nil {
		return nil, nil, err
	}
	transcript.Write(hello)
	rec, err := sealer.Seal(nil, record.ContentTypeHandshake, hello)
	if err != nil {
		return nil, nil, err
	}
	if _, err := conn.Write(rec); err != nil {
		return nil, nil, err
	}

	// The server's flight, up to its Finished.
	const serverHelloType, finishedType = 2, 20
	messages := record.NewHandshakeReader(1 << 14)
	buf, filled := make([]byte, 1<<16), 0
	for last := byte(0); last != finishedType; {
		rec, need, err := opener.Open(buf[:filled])
		if err != nil {
			return nil, nil, err
		}
		if need > 0 {
			n, err := conn.Read(buf[filled:])
			if err != nil {
				return nil, nil, err
			}
			filled += n
			continue
		}
		if rec.Type == record.ContentTypeAlert {
			return nil, nil, fmt.Errorf("alert: %v", record.Alert(rec.Content[1]))
		}
		if err := messages.Append(rec.Content); err != nil {
			return nil, nil, err
		}
		for {
			msg, err := messages.Next()
			if err != nil {
				return nil, nil, err
			}
			if msg == nil {
				break
			}
			transcript.Write(msg)
			if last = msg[0]; last == serverHelloType {
				if err := opener.SetTrafficSecret(record.EpochHandshake, suite, secrets["SERVER_HANDSHAKE_TRAFFIC_SECRET"]); err != nil {
					return nil, nil, err
				}
			}
		}
		filled = copy(buf, buf[rec.Size:filled])
	}
	if err := opener.SetTrafficSecret(record.EpochApplication, suite, secrets["SERVER_TRAFFIC_SECRET_0"]); err != nil {
		return nil, nil, err
	}

	// RFC 9846, Section 4.5.3: the Finished key is expanded from the sender's
	// handshake traffic secret, and verifies the transcript so far.
	secret := secrets["CLIENT_HANDSHAKE_TRAFFIC_SECRET"]
	if err := sealer.SetTrafficSecret(record.EpochHandshake, suite, secret); err != nil {
		return nil, nil, err
	}
	key, err := aead.ExpandLabel(suite.Hash(), secret, "finished", nil, suite.Hash().Size())
	if err != nil {
		return nil, nil, err
	}
	mac := hmac.New(suite.Hash().New, key)
	mac.Write(transcript.Sum(nil))
	finished := mac.Sum([]byte{finishedType, 0, 0, byte(mac.Size())})
	if rec, err = sealer.Seal(rec[:0], record.ContentTypeHandshake, finished); err != nil {
		return nil, nil, err
	}
	if _, err := conn.Write(rec); err != nil {
		return nil, nil, err
	}
	return sealer, opener, sealer.SetTrafficSecret(record.EpochApplication, suite, secrets["CLIENT_TRAFFIC_SECRET_0"])
}

// clientHello returns a ClientHello that offers one suite, X25519 and ECDSA.
// See RFC 9846, Section 4.2.2.
func clientHello(suite *aead.Suite) ([]byte, error) {
	random := make([]byte, 32+32)
	rand.Read(random)
	var b cryptobyte.Builder
	extension := func(b *cryptobyte.Builder, id uint16, body func(b *cryptobyte.Builder)) {
		b.AddUint16(id)
		b.AddUint16LengthPrefixed(body)
	}
	const x25519, ecdsaP256SHA256 = 29, 0x0403
	b.AddUint8(1) // client_hello
	b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint16(0x0303) // legacy_version
		b.AddBytes(random[:32])
		b.AddUint8(0) // no legacy_session_id
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(suite.ID()) })
		b.AddBytes([]byte{1, 0}) // no compression
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			extension(b, 10, func(b *cryptobyte.Builder) { // supported_groups
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(x25519) })
			})
			extension(b, 13, func(b *cryptobyte.Builder) { // signature_algorithms
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(ecdsaP256SHA256) })
			})
			extension(b, 43, func(b *cryptobyte.Builder) { // supported_versions
				b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(tls.VersionTLS13) })
			})
			extension(b, 51, func(b *cryptobyte.Builder) { // key_share
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
					b.AddUint16(x25519)
					b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(random[32:]) })
				})
			})
		})
	})
	return b.Bytes()
}
