package record

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/splitseal/aead"
)

// transports are the kinds of transport that a Conn treats differently, and one
// that copies nothing.
var transports = []struct {
	name string
	pair func(testing.TB) (net.Conn, net.Conn)
}{
	{"tcp", func(t testing.TB) (net.Conn, net.Conn) { a, b := tcpPair(t); return a, b }},
	{"unix", unixPair},
	{"wrapped", func(t testing.TB) (net.Conn, net.Conn) { a, b := tcpPair(t); return opaque{a}, opaque{b} }},
	{"pipe", func(t testing.TB) (net.Conn, net.Conn) {
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}},
}

func unixPair(t testing.TB) (net.Conn, net.Conn) {
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Skip("no unix sockets here: ", err)
	}
	defer l.Close()
	a, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestConnEcho(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			checkGoroutines(t)
			a, b := transport.pair(t)
			client := newConn(t, a, ConnConfig{Role: RoleClient})
			server := newConn(t, b, ConnConfig{Role: RoleServer})
			if (client.in.socket != nil) != (transport.name == "tcp" || transport.name == "unix") {
				t.Logf("socket reads: %v", client.in.socket != nil)
			}
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(server, server)
				done <- errors.Join(err, server.CloseWrite())
			}()
			want := make([]byte, 300_000)
			rand.Read(want)
			go func() {
				client.Write(want[:100_000])
				client.KeyUpdate(true)
				client.WriteBuffers(net.Buffers{want[100_000:100_001], nil, want[100_001:200_000], want[200_000:200_100]})
				client.ReadFrom(bytes.NewReader(want[200_100:]))
				client.CloseWrite()
			}()
			got, err := io.ReadAll(client)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("got %d bytes, want %d", len(got), len(want))
			}
			if err := errors.Join(<-done, client.Close(), server.Close()); err != nil {
				t.Fatal(err)
			}
			if client.NetConn() != a || client.LocalAddr().String() != a.LocalAddr().String() || client.RemoteAddr().String() != a.RemoteAddr().String() {
				t.Error("not the transport's addresses")
			}
		})
	}
}

// TestNewConn refuses what is not a connection after its handshake.
func TestNewConn(t *testing.T) {
	suite := aead.AES128GCM()
	good := func() ConnConfig {
		return ConnConfig{Role: RoleClient, Sealer: appSealer(t, suite, "a", SealerConfig{}), Opener: appOpener(t, suite, "b")}
	}
	for name, misuse := range map[string]func(*ConnConfig) net.Conn{
		"role":      func(c *ConnConfig) net.Conn { c.Role = 0; return &stub{} },
		"bad role":  func(c *ConnConfig) net.Conn { c.Role = 3; return &stub{} },
		"transport": func(c *ConnConfig) net.Conn { return nil },
		"sealer":    func(c *ConnConfig) net.Conn { c.Sealer = nil; return &stub{} },
		"opener":    func(c *ConnConfig) net.Conn { c.Opener = nil; return &stub{} },
		"size":      func(c *ConnConfig) net.Conn { c.MaxHandshakeMessageSize = -1; return &stub{} },
	} {
		func() {
			defer func() {
				if v, ok := recover().(string); !ok || !strings.HasPrefix(v, "record: ") {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			cfg := good()
			transport := misuse(&cfg)
			NewConn(transport, cfg)
		}()
	}
	for name, test := range map[string]struct {
		spoil func(*ConnConfig)
		want  error
	}{
		"sealer without keys": {func(c *ConnConfig) { c.Sealer = NewSealer(SealerConfig{}) }, ErrEpoch},
		"opener of handshake": {func(c *ConnConfig) { c.Opener = newTestOpener(t, suite, EpochHandshake, OpenerConfig{}) }, ErrEpoch},
		"wiped sealer":        {func(c *ConnConfig) { c.Sealer.Wipe() }, ErrClosed},
		"wiped opener":        {func(c *ConnConfig) { c.Opener.Wipe() }, ErrClosed},
		"message half sealed": {func(c *ConnConfig) { c.Sealer.Seal(nil, ContentTypeHandshake, []byte{4, 0}) }, ErrHandshakePartial},
		"message half opened": {func(c *ConnConfig) {
			c.Opener.Open(mustSeal(t)(appSealer(t, suite, "b", SealerConfig{}).Seal(nil, ContentTypeHandshake, []byte{4, 0})))
		}, ErrHandshakePartial},
		"KeyUpdate not followed": {func(c *ConnConfig) {
			c.Opener.Open(mustSeal(t)(appSealer(t, suite, "b", SealerConfig{}).SealKeyUpdate(nil, false)))
		}, ErrKeyUpdatePending},
		"one secret for both directions": {func(c *ConnConfig) { c.Opener = appOpener(t, suite, "a") }, ErrSecretReused},
	} {
		cfg := good()
		test.spoil(&cfg)
		if c, err := NewConn(&stub{}, cfg); c != nil || err != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	// The answer to a request made before is no idle record.
	for _, request := range []bool{false, true} {
		cfg := good()
		mustSeal(t)(cfg.Sealer.SealKeyUpdate(nil, request))
		if c := newConn(t, &stub{}, cfg); c.in.opener.expected.Load() != request {
			t.Errorf("KeyUpdate requested: %v, and expected: %v", request, !request)
		}
	}
}

// faultyConn returns a client's Conn whose peer has sent wire, what it sends, and
// a log of alerts.
func faultyConn(t testing.TB, wire []byte, cfg ConnConfig) (*Conn, *stub, *[]string) {
	s := &stub{}
	s.in.Write(wire)
	log := new([]string)
	cfg.OnAlert = func(a Alert, sent bool) {
		direction := "received "
		if sent {
			direction = "sent "
		}
		*log = append(*log, direction+a.String())
	}
	return newConn(t, s, cfg), s, log
}

// TestConnAlerts has the peer break a rule: its alert is sent at once and alone,
// nothing follows it, and both directions return the error from then on.
//
// "Upon transmission or receipt of a fatal alert message, both parties MUST
// immediately close the connection." "Whenever an implementation encounters a
// fatal error condition, it SHOULD send an appropriate fatal alert and MUST close
// the connection without sending or receiving any additional data." "The
// implementation SHOULD provide a way to facilitate logging the sending and
// receiving of alerts." (RFC 9846, Section 6.2)
func TestConnAlerts(t *testing.T) {
	own := errors.New("own")
	key := func(b ...byte) []byte { return append([]byte{typeKeyUpdate, 0, 0, byte(len(b))}, b...) }
	for _, test := range []struct {
		name  string
		wire  func(f *forger) []byte
		cfg   ConnConfig
		want  error
		alert Alert
	}{
		// "If the decryption fails, the receiver MUST terminate the connection
		// with a "bad_record_mac" alert." (RFC 9846, Section 5.2)
		{"forged", func(f *forger) []byte { r := f.record(23, []byte("x"), 0); r[6] ^= 1; return r }, ConnConfig{}, ErrBadRecordMAC, AlertBadRecordMAC},
		{"too short", func(f *forger) []byte { return []byte{23, 3, 3, 0, 15} }, ConnConfig{}, ErrBadRecordMAC, AlertBadRecordMAC},
		{"too long", func(f *forger) []byte { return []byte{23, 3, 3, 0x41, 1} }, ConnConfig{}, ErrRecordOverflow, AlertRecordOverflow},
		{"tag only", func(f *forger) []byte { return f.inner(nil) }, ConnConfig{}, ErrNoContentType, AlertUnexpectedMessage},
		// "If an implementation detects a change_cipher_spec record received before
		// the first ClientHello message or after the peer's Finished message, it
		// MUST be treated as an unexpected record type" (RFC 9846, Section 5)
		{"change_cipher_spec", func(f *forger) []byte { return plain(20, []byte{1}) }, ConnConfig{}, ErrChangeCipherSpec, AlertUnexpectedMessage},
		{"plaintext alert", func(f *forger) []byte { return plain(21, []byte{2, 40}) }, ConnConfig{}, ErrUnexpectedRecordType, AlertUnexpectedMessage},
		{"two alerts", func(f *forger) []byte { return f.record(21, []byte{1, 90, 1, 0}, 0) }, ConnConfig{}, ErrAlertSize, AlertUnexpectedMessage},
		{"bad request", func(f *forger) []byte { return f.record(22, key(2), 0) }, ConnConfig{}, ErrKeyUpdateRequest, AlertIllegalParameter},
		{"malformed KeyUpdate", func(f *forger) []byte { return f.record(22, key(0, 0), 0) }, ConnConfig{}, ErrMalformedMessage, AlertDecodeError},
		{"KeyUpdate and more", func(f *forger) []byte { return f.record(22, append(key(0), 24), 0) }, ConnConfig{}, ErrKeyChangeBoundary, AlertUnexpectedMessage},
		{"message too long", func(f *forger) []byte { return f.record(22, []byte{4, 0, 0, 101}, 0) }, ConnConfig{MaxHandshakeMessageSize: 100}, ErrHandshakeSize, AlertIllegalParameter},
		// "A client that receives a post-handshake CertificateRequest message
		// without having sent the "post_handshake_auth" extension MUST send an
		// "unexpected_message" fatal alert." (RFC 9846, Section 4.7.2)
		{"CertificateRequest", func(f *forger) []byte { return f.record(22, message(13, 3), 0) }, ConnConfig{}, ErrUnexpectedMessage, AlertUnexpectedMessage},
		{"handler", func(f *forger) []byte { return f.record(22, message(13, 3), 0) }, ConnConfig{HandleMessage: func(*Conn, []byte) error { return own }}, ErrMessageHandler, AlertInternalError},
		{"handler with an alert", func(f *forger) []byte { return f.record(22, message(13, 3), 0) }, ConnConfig{HandleMessage: func(*Conn, []byte) error { return ErrMalformedMessage }}, ErrMalformedMessage, AlertDecodeError},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newPeer(t)
			wire := f.record(23, []byte("before"), 0)
			wire = append(wire, test.wire(f)...)
			c, s, log := faultyConn(t, append(wire, f.record(23, []byte("after"), 0)...), test.cfg)
			p := make([]byte, 100)
			if n, err := c.Read(p); string(p[:n]) != "before" || err != nil {
				t.Fatalf("%q, %v", p[:n], err)
			}
			_, err := c.Read(p)
			if !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			for range 2 {
				if n, again := c.Read(p); n != 0 || again != err {
					t.Errorf("Read again: %d, %v", n, again)
				}
				if n, again := c.Write(p); n != 0 || again != err {
					t.Errorf("Write: %d, %v", n, again)
				}
				for i, again := range []error{c.CloseWrite(), c.KeyUpdate(true), c.WriteHandshake(message(4, 1))} {
					if again != err {
						t.Errorf("call %d: %v", i, again)
					}
				}
			}
			if s.closed.Load() {
				t.Error("the transport is closed")
			}
			if err := c.Close(); err != nil || !s.closed.Load() {
				t.Errorf("Close: %v", err)
			}
			if got := describe(newFollower(t).take(t, s.out.Bytes())); got != test.alert.String() {
				t.Errorf("sent %q, want %q", got, test.alert)
			}
			if got := strings.Join(*log, ", "); got != "sent "+test.alert.String() {
				t.Errorf("log: %s", got)
			}
			if isTemporary(err) || c.in.opener.keys != nil || c.out.sealer.keys != nil {
				t.Error("the error is temporary, or keys are still there")
			}
		})
	}
}

// TestConnAlertAtHardLimit has the peer break a rule when no alert can be sealed any
// more. The keys are gone all the same.
func TestConnAlertAtHardLimit(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "client", SealerConfig{HardLimit: 2})
	for range 2 {
		mustSeal(t)(s.SealAlert(nil, AlertUserCanceled))
	}
	c, transport, log := faultyConn(t, []byte{20, 3, 3, 0, 1}, ConnConfig{Sealer: s})
	if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != ErrChangeCipherSpec {
		t.Error(err)
	}
	if c.out.sealer.keys != nil || c.in.opener.keys != nil {
		t.Error("keys are still there")
	}
	if transport.writes != 0 || len(*log) != 0 {
		t.Errorf("%d writes, log %q", transport.writes, *log)
	}
}

// TestConnReceivedAlerts receives error alerts of any level, known or not: after one,
// nothing at all is sent.
//
// "All the alerts listed in [Section 6.2] MUST be sent with AlertLevel=fatal and
// MUST be treated as error alerts when received regardless of the AlertLevel in
// the message. Unknown Alert types MUST be treated as error alerts." "Upon
// receiving an error alert, the TLS implementation SHOULD indicate an error to
// the application and MUST NOT allow any further data to be sent or received on
// the connection." (RFC 9846, Section 6)
func TestConnReceivedAlerts(t *testing.T) {
	for _, a := range []Alert{AlertUnexpectedMessage, AlertHandshakeFailure, AlertInternalError, 1, 199, 255} {
		for level := range byte(4) {
			f := newPeer(t)
			c, s, log := faultyConn(t, append(f.record(21, []byte{level, byte(a)}, 0), f.record(23, []byte("x"), 0)...), ConnConfig{})
			p := make([]byte, 10)
			_, err := c.Read(p)
			var alert *AlertError
			if !errors.As(err, &alert) || alert.Alert != a {
				t.Fatalf("%v: %v", a, err)
			}
			if _, again := c.Read(p); again != err {
				t.Errorf("Read: %v", again)
			}
			if n, again := c.Write(p); n != 0 || again != err {
				t.Errorf("Write: %d, %v", n, again)
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if s.writes != 0 || strings.Join(*log, ", ") != "received "+a.String() {
				t.Errorf("%d writes, log %v", s.writes, *log)
			}
			// "Servers and clients MUST forget the secret values and keys
			// established in failed connections, with the exception of the PSKs
			// associated with session tickets, which SHOULD be discarded if
			// possible." (RFC 9846, Section 6)
			if c.in.opener.keys != nil || c.out.sealer.keys != nil {
				t.Error("keys are still there")
			}
		}
	}
}

// TestConnRoles has each side send what only the other may.
func TestConnRoles(t *testing.T) {
	accept := func(*Conn, []byte) error { return nil }
	for _, test := range []struct {
		role    Role
		typ     byte
		handler func(*Conn, []byte) error
		want    error
	}{
		{RoleClient, typeNewSessionTicket, nil, nil},
		{RoleClient, typeNewSessionTicket, accept, nil},
		{RoleClient, typeCertificateRequest, nil, ErrUnexpectedMessage},
		{RoleClient, typeCertificateRequest, accept, nil},
		{RoleClient, typeCertificate, accept, ErrUnexpectedMessage},
		{RoleClient, typeCertificateVerify, accept, ErrUnexpectedMessage},
		{RoleClient, typeFinished, accept, ErrUnexpectedMessage},
		{RoleClient, typeServerHello, accept, ErrUnexpectedMessage},
		// "Servers MUST NOT send this message, and clients receiving it MUST
		// terminate the connection with an "unexpected_message" alert." (RFC 9846,
		// Section 4.6)
		{RoleClient, typeEndOfEarlyData, accept, ErrUnexpectedMessage},
		{RoleClient, 0, nil, ErrUnexpectedMessage}, // HelloRequest of TLS 1.2
		{RoleClient, 77, accept, nil},
		{RoleServer, typeNewSessionTicket, nil, ErrUnexpectedMessage},
		{RoleServer, typeNewSessionTicket, accept, ErrUnexpectedMessage},
		{RoleServer, typeCertificateRequest, accept, ErrUnexpectedMessage},
		{RoleServer, typeCertificate, nil, ErrUnexpectedMessage},
		{RoleServer, typeCertificate, accept, nil},
		{RoleServer, typeCertificateVerify, accept, nil},
		{RoleServer, typeFinished, accept, nil},
		// "Because TLS 1.3 forbids renegotiation, if a server has negotiated TLS
		// 1.3 and receives a ClientHello at any other time, it MUST terminate the
		// connection with an "unexpected_message" alert." (RFC 9846, Section 4.2.2)
		{RoleServer, typeClientHello, accept, ErrUnexpectedMessage},
		{RoleServer, typeEndOfEarlyData, accept, ErrUnexpectedMessage},
		{RoleServer, typeEncryptedExtensions, accept, ErrUnexpectedMessage},
	} {
		f := newForger(t, aead.AES128GCM())
		if f.setSecret(secretOf(f.suite, "server")); test.role == RoleServer {
			f.setSecret(secretOf(f.suite, "client"))
		}
		size := 9
		if test.typ == typeEndOfEarlyData {
			size = 0 // another length is a fault of its own
		}
		c, s, _ := faultyConn(t, append(f.record(22, message(test.typ, size), 0), f.record(23, []byte("x"), 0)...), ConnConfig{Role: test.role, HandleMessage: test.handler})
		n, err := c.Read(make([]byte, 10))
		if !errors.Is(err, test.want) || test.want == nil && (err != nil || n != 1) {
			t.Errorf("role %d, message %d, handler %v: %d, %v", test.role, test.typ, test.handler != nil, n, err)
		}
		if (s.writes != 0) != (test.want != nil) {
			t.Errorf("role %d, message %d: %d writes", test.role, test.typ, s.writes)
		}
	}
}

// TestConnMessages hands messages to the handler whole, however they are cut into
// records, and lets it use the connection.
func TestConnMessages(t *testing.T) {
	var want [][]byte
	var stream []byte
	for i, size := range []int{0, 1, 300, 20000, 5} {
		want = append(want, message(byte(60+i), size))
		stream = append(stream, want[i]...)
	}
	for _, cut := range []int{1, 2, 3, 4, 5, 63, 1000, 16384} {
		f := newPeer(t)
		var wire []byte
		for rest, i := stream, 0; len(rest) > 0; i++ {
			n := min(cut, len(rest))
			if cut < 63 && i > 20 { // no more than 32 so short ones in a row
				n = min(16384, len(rest))
			}
			wire = append(wire, f.record(22, rest[:n], i%3)...)
			rest = rest[n:]
		}
		wire = append(wire, f.record(23, []byte("data"), 0)...)
		var got [][]byte
		c, s, _ := faultyConn(t, wire, ConnConfig{HandleMessage: func(c *Conn, m []byte) error {
			got = append(got, bytes.Clone(m))
			_, err := c.Write(m[:1])
			return err
		}})
		p := make([]byte, 10)
		if n, err := c.Read(p); string(p[:n]) != "data" || err != nil {
			t.Fatalf("cut at %d: %q, %v", cut, p[:n], err)
		}
		if len(got) != len(want) || s.writes != len(want) {
			t.Fatalf("cut at %d: %d messages", cut, len(got))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("cut at %d: message %d differs", cut, i)
			}
		}
		if c.in.messages.buf != nil {
			t.Error("memory of messages is still there")
		}
	}
}

// TestConnCloseOnce sends one close_notify, whatever is called how often.
//
// "Each party MUST send a "close_notify" alert before closing its write side of
// the connection, unless it has already sent some error alert." (RFC 9846,
// Section 6.1)
func TestConnCloseOnce(t *testing.T) {
	for _, calls := range []string{"c", "w c", "w w c", "w w c c w", "c w c"} {
		c, s, log := faultyConn(t, nil, ConnConfig{})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		closed := false
		for call := range strings.FieldsSeq(calls) {
			var err error
			if call == "w" {
				err = c.CloseWrite()
			} else {
				err = c.Close()
			}
			if want := map[bool]error{true: net.ErrClosed}[closed]; err != want {
				t.Errorf("%s in %q: %v, want %v", call, calls, err, want)
			}
			closed = closed || call == "c"
			if n, err := c.Write([]byte("y")); n != 0 || err != ErrClosed && !closed || closed && err != net.ErrClosed {
				t.Errorf("Write in %q: %d, %v", calls, n, err)
			}
		}
		if _, err := c.Read(make([]byte, 1)); err != net.ErrClosed {
			t.Errorf("Read after %q: %v", calls, err)
		}
		if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "data:1 close_notify" {
			t.Errorf("%q: sent %q", calls, got)
		}
		if got := strings.Join(*log, ", "); got != "sent close_notify" {
			t.Errorf("log: %s", got)
		}
	}
	if err := newConn(t, closeFails{&stub{}}, ConnConfig{}).Close(); err != errCloseFails {
		t.Errorf("Close: %v, want the transport's error", err)
	}
}

// closeFails is a transport whose Close returns an error.
type closeFails struct{ *stub }

var errCloseFails = errors.New("close fails")

func (closeFails) Close() error { return errCloseFails }

// TestConnHalfClose keeps each direction open when the other one has ended.
//
// "Either party MAY initiate a close of its write side of the connection by
// sending a "close_notify" alert." "This does not have any effect on its read
// side of the connection." "Any data received after a closure alert has been
// received MUST be ignored." (RFC 9846, Section 6.1)
func TestConnHalfClose(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			checkGoroutines(t)
			a, b := transport.pair(t)
			client := newConn(t, a, ConnConfig{Role: RoleClient})
			server := newConn(t, b, ConnConfig{Role: RoleServer})
			want := pattern(1 << 20)
			// The peer's close_notify, then 1 MiB of ours, then our own.
			go client.CloseWrite()
			if n, err := server.Read(make([]byte, 10)); n != 0 || err != io.EOF {
				t.Fatal(n, err)
			}
			go func() {
				for i := range 100 { // as many records at least
					server.Write(want[i*len(want)/100 : (i+1)*len(want)/100])
				}
				server.CloseWrite()
			}()
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if err := errors.Join(client.Close(), server.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	f := newPeer(t)
	wire := append(f.record(23, []byte("x"), 0), f.record(21, []byte{1, 0}, 0)...)
	c, s, log := faultyConn(t, append(wire, "garbage that is ignored"...), ConnConfig{})
	if got, err := io.ReadAll(c); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	reads := s.reads
	if _, err := c.Read(make([]byte, 1)); err != io.EOF || s.reads != reads {
		t.Errorf("after close_notify: %v, %d reads", err, s.reads-reads)
	}
	if n, err := c.Write([]byte("y")); n != 1 || err != nil {
		t.Errorf("Write after it: %d, %v", n, err)
	}
	if strings.Join(*log, ", ") != "received close_notify" {
		t.Errorf("log: %v", *log)
	}
	// After Close, which a WriteTo tells by an error too.
	c.Close()
	_, readErr := c.Read(make([]byte, 1))
	if n, err := c.WriteTo(io.Discard); n != 0 || err != net.ErrClosed || readErr != net.ErrClosed {
		t.Errorf("after Close: Read: %v, WriteTo: %d, %v", readErr, n, err)
	}
}

// TestConnTruncation tells an end that the peer did not announce from one that it
// did, and keeps writing.
func TestConnTruncation(t *testing.T) {
	f := newPeer(t)
	for _, cut := range []int{0, 1, 4, 5, 10} {
		wire := f.record(23, []byte("x"), 0)
		f.seq = 0
		c, s, _ := faultyConn(t, append(wire, wire[:cut]...), ConnConfig{})
		s.readErr = io.EOF
		if got, err := io.ReadAll(c); string(got) != "x" || err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %q, %v", cut, got, err)
		}
		if n, err := c.Write([]byte("y")); n != 1 || err != nil {
			t.Errorf("Write after it: %d, %v", n, err)
		}
	}
}

// TestConnBrokenWrite breaks a write off at a deadline, in the middle of a record:
// the error stays, is not temporary, and no alert follows, whatever else happens.
func TestConnBrokenWrite(t *testing.T) {
	f := newPeer(t)
	forged := f.record(23, []byte("x"), 0)
	good := bytes.Clone(forged)
	forged[7] ^= 1
	c, s, log := faultyConn(t, good, ConnConfig{})
	s.write = func(p []byte) (int, error) {
		s.out.Write(p[:10])
		return 10, os.ErrDeadlineExceeded
	}
	n, err := c.Write(make([]byte, 1000))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || isTemporary(err) {
		t.Fatal(n, err)
	}
	s.write = nil
	for _, p := range [][]byte{make([]byte, 1000), make([]byte, 500), nil} {
		if n, again := c.Write(p); n != 0 || again != err {
			t.Errorf("again: %d, %v", n, again)
		}
	}
	if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil {
		t.Errorf("reading has ended too: %d, %v", n, err)
	}
	s.in.Write(forged)
	if _, err := c.Read(make([]byte, 10)); err != ErrBadRecordMAC {
		t.Error(err)
	}
	for i, again := range []error{c.CloseWrite(), c.KeyUpdate(true), c.WriteHandshake(message(4, 1)), counted(c.Write(nil))} {
		if again != err {
			t.Errorf("call %d: %v, want what came first", i, again)
		}
	}
	if again := c.Close(); again != nil && again != err {
		t.Errorf("Close: %v", again)
	}
	if s.writes != 1 || len(*log) != 0 {
		t.Errorf("%d writes, log %v", s.writes, *log)
	}

	c, s, _ = faultyConn(t, nil, ConnConfig{})
	s.write = func(p []byte) (int, error) { return 0, nil }
	if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a transport that takes nothing: %d, %v", n, err)
	}
	if err := c.Close(); !errors.Is(err, io.ErrShortWrite) || !s.closed.Load() {
		t.Errorf("Close says %v of a close_notify that was not sent", err)
	}
}

// blocked is a transport whose writes wait until they are let go.
type blocked struct {
	stub
	mu      sync.Mutex
	entered chan struct{} // one for each write
	release chan error    // what each write returns; all is taken if nil
}

func newBlocked() *blocked {
	return &blocked{entered: make(chan struct{}, 100), release: make(chan error, 100)}
}

func (b *blocked) Write(p []byte) (int, error) {
	b.entered <- struct{}{}
	if err := <-b.release; err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

// TestConnAlertLeftToWriter has a Read fail while a Write is blocked: the Read
// returns at once, and its alert goes out when the Write is through, or never if
// the Write fails.
func TestConnAlertLeftToWriter(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBlocked()
			f := newPeer(t)
			forged := f.record(23, []byte("x"), 0)
			forged[7] ^= 1
			b.in.Write(forged)
			var sent atomic.Int32
			c := newConn(t, b, ConnConfig{OnAlert: func(Alert, bool) { sent.Add(1) }})
			type result struct {
				n   int
				err error
			}
			done := make(chan result)
			go func() {
				n, err := c.Write(make([]byte, 300_000))
				done <- result{n, err}
			}()
			<-b.entered
			start := time.Now()
			if _, err := c.Read(make([]byte, 10)); err != ErrBadRecordMAC {
				t.Fatal(err)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("Read has waited %v", d)
			}
			if fails {
				b.release <- io.ErrClosedPipe
			} else {
				b.release <- nil
				b.release <- nil // the alert
			}
			r := <-done
			if fails {
				if r.n != 0 || !errors.Is(r.err, io.ErrClosedPipe) || b.out.Len() != 0 || sent.Load() != 0 {
					t.Errorf("%d, %v, %d bytes, %d alerts", r.n, r.err, b.out.Len(), sent.Load())
				}
				return
			}
			if r.n != 4*16384 || r.err != ErrBadRecordMAC {
				t.Errorf("%d, %v", r.n, r.err)
			}
			want := "data:16384 data:16384 data:16384 data:16384 bad_record_mac"
			if got := describe(newFollower(t).take(t, b.out.Bytes())); got != want || sent.Load() != 1 {
				t.Errorf("sent %q, %d alerts", got, sent.Load())
			}
		})
	}
}

// TestConnAlertStopsWriter has the peer's error alert arrive while a Write is
// blocked: no record follows the ones that are on their way.
func TestConnAlertStopsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		b.in.Write(newPeer(t).record(21, []byte{2, 80}, 0))
		c := newConn(t, b, ConnConfig{})
		done := make(chan error)
		go func() { _, err := c.Write(make([]byte, 300_000)); done <- err }()
		<-b.entered
		_, readErr := c.Read(make([]byte, 10))
		b.release <- nil
		if err := <-done; err != readErr {
			t.Errorf("%v, want %v", err, readErr)
		}
		if got := describe(newFollower(t).take(t, b.out.Bytes())); got != "data:16384 data:16384 data:16384 data:16384" {
			t.Errorf("sent %q", got)
		}
	})
}

// TestConnAlertDropsSealed has the peer's error alert arrive when records are
// sealed and not yet sent: they are not sent. It has one arrive before any is sealed,
// too.
func TestConnAlertDropsSealed(t *testing.T) {
	for _, test := range []struct{ size, at int }{{10, 1}, {16384, 1}, {16385, 1}, {16385, 2}, {100_000, 2}, {100_000, 4}} {
		s := &stub{}
		s.in.Write(newPeer(t).record(21, []byte{2, 80}, 0))
		var c *Conn
		var readErr error
		records := 0
		padding := func(int) int {
			if records++; records == test.at {
				_, readErr = c.Read(make([]byte, 1)) // while this record is made
			}
			return 0
		}
		c = newConn(t, s, ConnConfig{Sealer: appSealer(t, aead.AES128GCM(), "client", SealerConfig{Padding: padding})})
		if n, err := c.Write(make([]byte, test.size)); n != 0 || err != readErr || readErr == nil {
			t.Errorf("%v: %d, %v", test, n, err)
		}
		if s.writes != 0 {
			t.Errorf("%v: %d writes", test, s.writes)
		}
		sealed := records
		if n, err := c.Write([]byte("x")); n != 0 || err != readErr || records != sealed {
			t.Errorf("%v: again: %d, %v", test, n, err)
		}
	}

	// It comes when a short Write has looked for the last time before it seals.
	s := &stub{}
	c := newConn(t, s, ConnConfig{})
	c.failure.Store(&failure{err: ErrBadRecordMAC, send: true})
	if n, err := c.out.writeOne([]byte("x")); n != 0 || err != ErrBadRecordMAC || s.writes != 0 {
		t.Errorf("%d, %v, %d writes", n, err, s.writes)
	}
}

// TestConnLeave lets a Read leave its alert to a Write that has looked for the last time
// before it gives the lock back: it looks again.
func TestConnLeave(t *testing.T) {
	c, _, log := faultyConn(t, nil, ConnConfig{})
	lock := &c.writeLock
	lock.lock()
	lock.users.Add(1) // a second one, whose turn it is already
	lock.next <- struct{}{}
	done := make(chan struct{})
	go func() { c.endWrite(); close(done) }()
	for lock.users.Load() > 1 { // until it waits in unlock
		runtime.Gosched()
	}
	c.readFailed(ErrBadRecordMAC)
	if len(*log) > 0 {
		t.Errorf("sent while the lock was taken: %v", *log)
	}
	lock.users.Add(-1)
	<-lock.next
	<-lock.next
	<-done
	if c.out.err != ErrBadRecordMAC || strings.Join(*log, ", ") != "sent bad_record_mac" || !lock.tryLock() {
		t.Errorf("left for ever: %v, log %v", c.out.err, *log)
	}
}

// TestConnCloseStalled closes a connection whose Write makes no progress.
func TestConnCloseStalled(t *testing.T) {
	// A transport whose Close ends the Write: that is broken off.
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := newConn(t, a, ConnConfig{})
		done := make(chan error, 3)
		for range 3 { // one is stalled, two wait for it
			go func() { _, err := c.Write(make([]byte, 100_000)); done <- err }()
		}
		go func() { _, err := c.Read(make([]byte, 1)); done <- err }()
		synctest.Wait()
		start := time.Now()
		c.Close()
		if d := time.Since(start); d > writeGrace {
			t.Errorf("Close took %v", d)
		}
		for range 4 {
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("a call under way returned %v", err)
			}
		}
		if c.out.sealer.keys != nil || c.in.opener.keys != nil {
			t.Error("keys are still there")
		}
	})
	// A peer that takes no close_notify. Close has its time, not the caller's.
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := newConn(t, a, ConnConfig{})
		c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		start := time.Now()
		if err := c.Close(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(start); d != closeTimeout {
			t.Errorf("Close took %v", d)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != net.ErrClosed {
			t.Errorf("SetWriteDeadline: %v", err)
		}
	})
	// A transport whose Close ends nothing: Close does not wait for the Write.
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		c := newConn(t, b, ConnConfig{})
		done := make(chan error)
		go func() { _, err := c.Write([]byte("x")); done <- err }()
		<-b.entered
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if d := time.Since(start); d != writeGrace {
			t.Errorf("Close took %v", d)
		}
		b.release <- nil
		if err := <-done; err != nil && err != net.ErrClosed {
			t.Errorf("Write: %v", err)
		}
		if got := describe(newFollower(t).take(t, b.out.Bytes())); got != "data:1" {
			t.Errorf("sent %q", got)
		}
		synctest.Wait() // for what Close has left behind
		if c.out.sealer.keys != nil {
			t.Error("keys are still there")
		}
	})
	// A Write that ends in time lets close_notify through.
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		c := newConn(t, b, ConnConfig{})
		done := make(chan error)
		go func() { _, err := c.Write(make([]byte, 300_000)); done <- err }()
		<-b.entered
		go func() {
			time.Sleep(writeGrace / 2)
			b.release <- nil
			b.release <- nil
		}()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-done; err != net.ErrClosed {
			t.Errorf("Write: %v", err)
		}
		want := "data:16384 data:16384 data:16384 data:16384 close_notify"
		if got := describe(newFollower(t).take(t, b.out.Bytes())); got != want {
			t.Errorf("sent %q", got)
		}
	})
	// A real one, with a full send buffer.
	a, _ := tcpPair(t)
	c := newConn(t, a, ConnConfig{})
	done := make(chan error)
	go func() { _, err := c.Write(make([]byte, 64<<20)); done <- err }()
	time.Sleep(20 * time.Millisecond)
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close does not end")
	}
	if err := <-done; err != net.ErrClosed {
		t.Errorf("Write: %v", err)
	}
}

// TestConnAlertTimeout bounds the time that a Read spends on its alert.
func TestConnAlertTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := newConn(t, a, ConnConfig{})
		go b.Write([]byte{20, 3, 3, 0, 1})
		start := time.Now()
		if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec {
			t.Error(err)
		}
		if d := time.Since(start); d != alertTimeout {
			t.Errorf("Read took %v", d)
		}
		if err := c.SetWriteDeadline(time.Time{}); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		if _, err := c.Write([]byte("x")); err != ErrChangeCipherSpec {
			t.Errorf("Write: %v", err)
		}
		c.Close()
	})
}

// undated is a transport without deadlines whose peer does not read, as an SSH
// channel can be.
type undated struct {
	stub
	once sync.Once
	end  chan struct{}
}

func (u *undated) Write(p []byte) (int, error)      { <-u.end; return 0, net.ErrClosed }
func (u *undated) Close() error                     { u.once.Do(func() { close(u.end) }); return nil }
func (u *undated) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// misdated is one that says it has deadlines.
type misdated struct{ *undated }

func (misdated) SetWriteDeadline(time.Time) error { return nil }

// readingUndated is one whose peer reads.
type readingUndated struct{ *stub }

func (readingUndated) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// TestConnWithoutDeadlines bounds Close, and the alert of a Read, where no deadline
// does.
func TestConnWithoutDeadlines(t *testing.T) {
	for _, lies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var grace time.Duration
			transport := func(u *undated) net.Conn { return u }
			if lies {
				grace = deadlineGrace
				transport = func(u *undated) net.Conn { return misdated{u} }
			}
			start := time.Now()
			c := newConn(t, transport(&undated{end: make(chan struct{})}), ConnConfig{})
			if c.Close(); time.Since(start) != closeTimeout+grace {
				t.Errorf("Close took %v", time.Since(start))
			}

			start = time.Now()
			u := &undated{end: make(chan struct{})}
			u.in.Write([]byte{20, 3, 3, 0, 1})
			c = newConn(t, transport(u), ConnConfig{})
			if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec || time.Since(start) != alertTimeout+grace {
				t.Errorf("Read: %v after %v", err, time.Since(start))
			}
			c.Close()
		})
	}
	// Nothing is closed without need.
	synctest.Test(t, func(t *testing.T) {
		s := new(stub)
		s.in.Write([]byte{20, 3, 3, 0, 1})
		c := newConn(t, readingUndated{s}, ConnConfig{})
		if _, err := c.Read(make([]byte, 1)); err != ErrChangeCipherSpec || s.out.Len() == 0 {
			t.Errorf("Read: %v", err)
		}
		time.Sleep(2 * alertTimeout)
		if s.closed.Load() {
			t.Error("the transport was closed behind an alert that was sent")
		}
		c.Close()
	})
}

// closer calls back when it is closed.
type closer struct {
	net.Conn
	onClose func()
}

func (c *closer) Close() error {
	if c.onClose != nil {
		c.onClose()
	}
	return c.Conn.Close()
}

// TestConnNoDeadlock calls everything from everywhere.
func TestConnNoDeadlock(t *testing.T) {
	// Close inside the transport's Close, and inside a message handler.
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		transport := &closer{Conn: a}
		client := newConn(t, transport, ConnConfig{HandleMessage: func(c *Conn, _ []byte) error { return c.Close() }})
		transport.onClose = func() {
			if err := client.Close(); err != net.ErrClosed {
				t.Errorf("Close inside Close: %v", err)
			}
		}
		server := newConn(t, b, ConnConfig{Role: RoleServer})
		go io.Copy(io.Discard, server)
		go server.WriteHandshake(message(typeNewSessionTicket, 10))
		if _, err := client.Read(make([]byte, 1)); err != net.ErrClosed {
			t.Errorf("Read: %v", err)
		}
		server.Close()
	})
	// Everything on both sides, at once, in any order.
	checkGoroutines(t)
	var rounds sync.WaitGroup
	for range 30 {
		rounds.Go(func() {
			a, b := net.Pipe()
			var calls, closes sync.WaitGroup
			for i, transport := range []net.Conn{a, b} {
				c := newConn(t, transport, ConnConfig{Role: Role(i + 1)})
				for _, call := range []func(){
					func() { c.Read(make([]byte, 1)) },
					func() { c.WriteTo(io.Discard) },
					func() { c.Write(make([]byte, 50_000)) },
					func() { c.KeyUpdate(true) },
					func() { c.CloseWrite() },
					func() { c.Export() },
					func() { c.SetDeadline(time.Now().Add(time.Hour)) },
				} {
					calls.Go(call)
				}
				closes.Go(func() { c.Close() })
				closes.Go(func() { c.Close() })
			}
			closes.Wait()
			// An exported connection has left its transport open.
			a.Close()
			b.Close()
			calls.Wait()
		})
	}
	rounds.Wait()
}

// TestConnCloseInHandler closes a connection inside its Read, which then leaves
// neither keys nor a buffer.
func TestConnCloseInHandler(t *testing.T) {
	f := newPeer(t)
	wire := append(f.record(22, message(4, 1), 0), f.record(23, []byte("xyz"), 0)...)
	c, s, _ := faultyConn(t, wire, ConnConfig{HandleMessage: func(c *Conn, _ []byte) error { return c.Close() }})
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != net.ErrClosed {
		t.Errorf("%d, %v", n, err)
	}
	if c.in.opener.keys != nil || c.in.b != nil || c.out.sealer.keys != nil {
		t.Error("keys or a buffer are still there")
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != net.ErrClosed {
		t.Errorf("again: %d, %v", n, err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "close_notify" {
		t.Errorf("sent %q", got)
	}
}

// TestConnKeyUpdateStorm has the peer request a KeyUpdate with every record, while we
// only read, while our write is blocked, and while both sides do nothing but request:
// one answer is enough, and nothing deadlocks.
//
// "causes an implementation which receives multiple KeyUpdates while it is silent
// to respond with a single update" (RFC 9846, Section 4.7.3)
func TestConnKeyUpdateStorm(t *testing.T) {
	const storm = 10_000
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		c := newConn(t, b, ConnConfig{})
		done := make(chan error)
		go func() { _, err := c.Write(make([]byte, 5*16384)); done <- err }()
		<-b.entered
		peer := appSealer(t, aead.AES128GCM(), "server", SealerConfig{})
		var wire []byte
		for range storm {
			wire = mustSeal(t)(peer.SealKeyUpdate(wire[:0], true))
			peer.PeerKeyUpdate(false) // as if ours had arrived
			wire = mustSeal(t)(peer.Seal(wire, ContentTypeApplicationData, []byte("x")))
			b.in.Write(wire)
			if n, err := c.Read(make([]byte, 10)); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		// The record that was under way when the requests came is finished under
		// the old key; the answer is under it too, and the next record is not.
		for range 3 {
			b.release <- nil
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("y")); err != nil {
			t.Error(err)
		}
		want := "data:16384 data:16384 data:16384 data:16384 KeyUpdate:0 data:16384 data:1"
		if got := describe(newFollower(t).take(t, b.out.Bytes())); got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
	// Two sides that request, write and read over a pipe that holds nothing.
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		sides := []*Conn{newConn(t, a, ConnConfig{Role: RoleClient}), newConn(t, b, ConnConfig{Role: RoleServer})}
		var all sync.WaitGroup
		for _, c := range sides {
			all.Go(func() {
				for range 300 {
					if err := c.KeyUpdate(true); err != nil {
						t.Error(err)
					}
					if _, err := c.Write([]byte("x")); err != nil {
						t.Error(err)
					}
				}
				if err := c.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if got, err := io.ReadAll(c); len(got) != 300 || err != nil {
					t.Error(len(got), err)
				}
			})
		}
		all.Wait()
		for _, c := range sides {
			c.Close()
		}
	})
}

// TestConnFloods bounds what a peer can make a Read do: records that bring no
// data end it after a few, however many there are; a peer that sends data
// between them goes on.
func TestConnFloods(t *testing.T) {
	for _, test := range []struct {
		name string
		next func(f *forger) []byte
		most int
	}{
		{"empty records", func(f *forger) []byte { return f.record(23, nil, 0) }, 32},
		{"padding only", func(f *forger) []byte { return f.record(23, nil, 16384) }, 32},
		{"KeyUpdates", func(f *forger) []byte {
			r := f.record(22, []byte{typeKeyUpdate, 0, 0, 1, 1}, 0)
			f.keyUpdate()
			return r
		}, 32},
		{"tickets", func(f *forger) []byte { return f.record(22, message(typeNewSessionTicket, 100), 0) }, 32},
		{"fragments, mostly padding", func(f *forger) []byte {
			// A message that never ends: its header says 60,000 bytes.
			if f.seq == 0 {
				return f.record(22, []byte{60, 0, 0xea, 0x60}, 0)
			}
			return f.record(22, []byte{1}, 2)
		}, 32},
		{"single bytes of messages", func(f *forger) []byte {
			m := message(60, 1000)
			return f.record(22, m[f.seq%1004:][:1], 0)
		}, 32 * 1004},
		{"fragments of messages", func(f *forger) []byte {
			// 127 messages of 16,004 bytes fill 127*127 records that are not counted
			// but where a message ends.
			const size, cut = 16000 + messageHeaderSize, 126
			m := message(60, 16000)
			return f.record(22, append(m, m...)[int(f.seq)*cut%size:][:cut], 0)
		}, 32 * 16004 / 126},
		{"user_canceled", func(f *forger) []byte { return f.record(21, []byte{1, 90}, 0) }, 4},
	} {
		f := newPeer(t)
		src := &endless{next: func() []byte { return test.next(f) }}
		c := newConn(t, src, ConnConfig{HandleMessage: func(*Conn, []byte) error { return nil }})
		_, err := c.Read(make([]byte, 10))
		if a, _ := AlertOf(err); a != AlertUnexpectedMessage {
			t.Errorf("%s: %v", test.name, err)
		}
		if src.made > 2*test.most {
			t.Errorf("%s: %d records were read", test.name, src.made)
		}
		if got := c.out.sealer.Generation(); got != 0 {
			t.Errorf("%s: %d KeyUpdates in return", test.name, got)
		}
	}
	// Data between them resets the count.
	f := newPeer(t)
	var wire []byte
	for range 40 {
		wire = append(wire, f.record(22, []byte{typeKeyUpdate, 0, 0, 1, 1}, 0)...)
		f.keyUpdate()
		wire = append(wire, f.record(23, []byte("x"), 0)...)
	}
	wire = append(wire, f.record(21, []byte{1, 0}, 0)...)
	c, s, _ := faultyConn(t, wire, ConnConfig{})
	if got, err := io.ReadAll(c); len(got) != 40 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := c.Write([]byte("y")); err != nil {
		t.Error(err)
	}
	if got := describe(newFollower(t).take(t, s.out.Bytes())); got != "KeyUpdate:0 data:1" {
		t.Errorf("sent %q", got)
	}
}

// TestConnSmallRecords sends messages to a side with the smallest record size
// limit, as often as it takes messages in a row.
func TestConnSmallRecords(t *testing.T) {
	a, b := tcpPair(t)
	server := newConn(t, a, ConnConfig{Role: RoleServer, Sealer: appSealer(t, aead.AES128GCM(), "server", SealerConfig{RecordSizeLimit: MinRecordSizeLimit})})
	opener := appOpener(t, aead.AES128GCM(), "server")
	opener.SetRecordSizeLimit(MinRecordSizeLimit)
	tickets := 0
	client := newConn(t, b, ConnConfig{Opener: opener, HandleMessage: func(_ *Conn, m []byte) error {
		tickets++
		if !bytes.Equal(m, message(typeNewSessionTicket, 3000)) {
			t.Errorf("ticket %d differs", tickets)
		}
		return nil
	}})
	sent := make(chan error, 1)
	go func() {
		for range 32 {
			if err := server.WriteHandshake(message(typeNewSessionTicket, 3000)); err != nil {
				sent <- err
				return
			}
		}
		_, err := server.Write([]byte("data"))
		sent <- err
	}()
	p := make([]byte, 10)
	if n, err := client.Read(p); string(p[:n]) != "data" || err != nil || tickets != 32 {
		t.Errorf("%q, %v, %d tickets", p[:n], err, tickets)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// endless is a transport whose peer never stops.
type endless struct {
	stub
	next func() []byte
	made int
	rest []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		e.rest = e.next()
		e.made++
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestConnReadDeadline stops a Read at every byte, over sockets and without, and
// loses nothing.
func TestConnReadDeadline(t *testing.T) {
	for _, transport := range transports[:3] { // a pipe's Write waits for its reader
		t.Run(transport.name, func(t *testing.T) {
			a, b := transport.pair(t)
			c := newConn(t, b, ConnConfig{})
			s := appSealer(t, aead.AES128GCM(), "server", SealerConfig{})
			var wire []byte
			want := pattern(80)
			for i := range 8 {
				wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, want[i*10:(i+1)*10]))
			}
			step := 1
			if transport.name == "wrapped" {
				step = 7
			}
			var got []byte
			p := make([]byte, 15)
			for i := 0; i < len(wire); i += step {
				if _, err := a.Write(wire[i:min(i+step, len(wire))]); err != nil {
					t.Fatal(err)
				}
				for {
					c.SetReadDeadline(time.Now().Add(200 * time.Microsecond))
					n, err := c.Read(p)
					got = append(got, p[:n]...)
					if err != nil {
						if !isTimeout(err) {
							t.Fatal(err)
						}
						break
					}
				}
			}
			c.SetReadDeadline(later())
			for len(got) < len(want) {
				n, err := c.Read(p)
				if err != nil {
					t.Fatalf("%d bytes: %v", len(got), err)
				}
				got = append(got, p[:n]...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes, or others", len(got))
			}
		})
	}
}

// tap embeds a socket, with a Read of its own.
type tap struct {
	*net.TCPConn
	seen atomic.Int64
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.seen.Add(int64(n))
	return n, err
}

// TestConnEmbeddedSocket must not pass over the Read of a type that embeds a
// socket and so has its SyscallConn.
func TestConnEmbeddedSocket(t *testing.T) {
	a, b := tcpPair(t)
	outer := &tap{TCPConn: a}
	c := newConn(t, outer, ConnConfig{})
	if c.in.socket != nil {
		t.Error("reads pass over the outer type")
	}
	server := newConn(t, b, ConnConfig{Role: RoleServer})
	server.Write(make([]byte, 1000))
	if n, err := c.Read(make([]byte, 2000)); n != 1000 || err != nil || outer.seen.Load() != 1022 {
		t.Errorf("%d, %v, the outer type saw %d", n, err, outer.seen.Load())
	}
}

// TestConnUnread starts with bytes that someone has read before, cut anywhere.
func TestConnUnread(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "server", SealerConfig{})
	var wire []byte
	want := pattern(400_000)
	for i := range 40 {
		wire = mustSeal(t)(s.Seal(wire, ContentTypeApplicationData, want[i*10_000:(i+1)*10_000]))
	}
	wire = mustSeal(t)(s.SealAlert(wire, AlertCloseNotify))
	for _, cut := range []int{0, 1, 4, 5, 6, 100, 10_022, 10_023, 50_000, 300_000, len(wire)} {
		unread := bytes.Clone(wire[:cut])
		c, src, _ := faultyConn(t, wire[cut:], ConnConfig{Unread: unread})
		clear(unread) // it was copied
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("cut at %d: %d bytes, %v", cut, len(got), err)
		}
		_ = src
	}
}

// TestConnExport moves a connection to another Conn with data on its way in both
// directions, twice.
func TestConnExport(t *testing.T) {
	a, b := tcpPair(t)
	server := newConn(t, b, ConnConfig{Role: RoleServer})
	old := newConn(t, a, ConnConfig{})
	p := make([]byte, 100)
	for round := range 3 {
		server.Write([]byte("first"))
		server.KeyUpdate(true)
		server.Write([]byte("second"))
		if n, err := old.Read(p[:5]); string(p[:n]) != "first" || err != nil {
			t.Fatal(n, err)
		}
		sealer, opener, err := old.Export()
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range []error{
			counted(old.Read(p)), counted(old.Write(p)), old.CloseWrite(), old.KeyUpdate(false), old.Close(), old.Close(),
			old.SetReadDeadline(time.Now()), old.SetWriteDeadline(time.Now()), // not on what is another's now
		} {
			if err != ErrExported {
				t.Errorf("round %d, call %d: %v", round, i, err)
			}
		}
		if _, _, err := old.Export(); err != ErrExported {
			t.Errorf("again: %v", err)
		}
		s, err := ImportSealer(sealer, SealerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		o, unread, err := ImportOpener(opener, OpenerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		moved, err := NewConn(a, ConnConfig{Role: RoleClient, Sealer: s, Opener: o, Unread: unread})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := moved.Read(p); string(p[:n]) != "second" || err != nil {
			t.Fatalf("round %d: %q, %v", round, p[:n], err)
		}
		moved.Write([]byte("reply"))
		if n, err := server.Read(p); string(p[:n]) != "reply" || err != nil {
			t.Fatalf("round %d: %q, %v", round, p[:n], err)
		}
		old = moved
	}
	if g := old.out.sealer.Generation(); g != 3 {
		t.Errorf("%d answers to KeyUpdates, want 3", g)
	}
}

// TestConnExportRefusals changes nothing when a connection cannot be exported.
func TestConnExportRefusals(t *testing.T) {
	f := newPeer(t)
	hello := f.record(23, []byte("hello"), 0)
	fragment := f.record(22, message(4, 10)[:6], 0)
	c, s, _ := faultyConn(t, hello, ConnConfig{})
	check := func(when string, want error) {
		t.Helper()
		if st, _, err := c.Export(); err != want || st != nil {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	p := make([]byte, 2)
	c.Read(p)
	check("content not read", ErrHandshakePartial)
	c.Read(make([]byte, 10))
	s.in.Write(fragment[:10])
	c.Read(p)
	check("part of a record", ErrHandshakePartial)
	s.in.Write(fragment[10:])
	c.Read(p)
	check("part of a message", ErrHandshakePartial)
	c.readLock.Lock()
	check("a Read", ErrInUse)
	c.readLock.Unlock()
	c.writeLock.lock()
	check("a Write", ErrInUse)
	c.writeLock.unlock()
	if n, err := c.Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	c.CloseWrite()
	check("half closed", ErrClosed)
	c.Close()
	check("closed", net.ErrClosed)

	c, _, _ = faultyConn(t, newPeer(t).record(21, []byte{1, 0}, 0), ConnConfig{})
	c.Read(p)
	check("the peer's close_notify", io.EOF)
	c, s, _ = faultyConn(t, nil, ConnConfig{})
	s.write = func([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
	_, err := c.Write([]byte("x"))
	check("a write broken off", err)
}

// TestConnPanics recovers from panics of the transport and of the handler. What was
// being sealed is spent, and nothing deadlocks.
func TestConnPanics(t *testing.T) {
	recovered := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	c, s, _ := faultyConn(t, nil, ConnConfig{})
	s.write = func([]byte) (int, error) { panic("transport") }
	if recovered(func() { c.Write([]byte("x")) }) == nil {
		t.Fatal("no panic")
	}
	s.write = nil
	if c.out.sealer.keys != nil {
		t.Error("keys are still there")
	}
	if n, err := c.Write([]byte("y")); n != 0 || err != ErrInterrupted {
		t.Errorf("Write: %d, %v", n, err)
	}
	if err := c.Close(); err != nil || s.writes != 1 || !s.closed.Load() {
		t.Errorf("Close: %v, %d writes", err, s.writes)
	}

	f := newPeer(t)
	wire := append(f.record(22, message(4, 1), 0), f.record(23, []byte("x"), 0)...)
	c, _, _ = faultyConn(t, wire, ConnConfig{HandleMessage: func(*Conn, []byte) error { panic("handler") }})
	if recovered(func() { c.Read(make([]byte, 1)) }) == nil {
		t.Fatal("no panic")
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != ErrInterrupted {
		t.Errorf("Read after a panic of the handler: %d, %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}

	c, s, _ = faultyConn(t, nil, ConnConfig{})
	c.hooks.alert = func(Alert, bool) { panic("hook") }
	s.in.Write([]byte{20, 3, 3, 0, 1})
	if recovered(func() { c.Read(make([]byte, 1)) }) == nil {
		t.Fatal("no panic")
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("Write after a fatal alert")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestConnZeroLength does nothing for nothing, on a dead connection too.
func TestConnZeroLength(t *testing.T) {
	c, s, _ := faultyConn(t, nil, ConnConfig{})
	for i, f := range []func() (int, error){
		func() (int, error) { return c.Read(nil) },
		func() (int, error) { return c.Write(nil) },
		func() (int, error) { n, err := c.WriteBuffers(nil); return int(n), err },
		func() (int, error) { n, err := c.WriteBuffers([][]byte{nil, {}}); return int(n), err },
		func() (int, error) { n, err := c.ReadFrom(strings.NewReader("")); return int(n), err },
	} {
		if n, err := f(); n != 0 || err != nil {
			t.Errorf("call %d: %d, %v", i, n, err)
		}
	}
	if s.reads != 0 || s.writes != 0 {
		t.Errorf("%d reads, %d writes", s.reads, s.writes)
	}
}

// TestConnAllocates nothing in steady state, over a socket and without.
func TestConnAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop buffers")
	}
	for _, transport := range transports {
		a, b := transport.pair(t)
		client, server := newConn(t, a, ConnConfig{}), newConn(t, b, ConnConfig{Role: RoleServer})
		for _, size := range []int{64, 1350, 16384} {
			out, in := make([]byte, size), make([]byte, size)
			writes := make(chan struct{})
			go func() {
				for range writes {
					client.Write(out)
				}
			}()
			if n := testing.AllocsPerRun(100, func() {
				writes <- struct{}{}
				if _, err := io.ReadFull(server, in); err != nil {
					t.Fatal(err)
				}
			}); n > 0 {
				t.Errorf("%s: a record of %d bytes allocates %v times", transport.name, size, n)
			}
			close(writes)
		}
	}
}

// TestTimeoutAllocates no more than the transport does: net/http's server ends a Read
// by a deadline in every request.
func TestTimeoutAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop buffers")
	}
	for _, transport := range transports {
		a, b := transport.pair(t)
		c := newConn(t, a, ConnConfig{})
		if err := errors.Join(a.SetReadDeadline(time.Unix(1, 0)), b.SetReadDeadline(time.Unix(1, 0))); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 100)
		read := func(c net.Conn) func() {
			return func() {
				if _, err := c.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
		}
		if n, want := testing.AllocsPerRun(100, read(c)), testing.AllocsPerRun(100, read(b)); n > want {
			t.Errorf("%s: a Read that times out allocates %v times, the transport's %v", transport.name, n, want)
		}
	}
}

// TestConnCloseDuring: a Close ends a WriteTo that waits for the peer and a ReadFrom
// that waits for its source.
func TestConnCloseDuring(t *testing.T) {
	for _, transport := range transports {
		a, b := transport.pair(t)
		newConn(t, b, ConnConfig{Role: RoleServer})
		c := newConn(t, a, ConnConfig{})
		source, feed := io.Pipe()
		errs := make(chan error, 2)
		go func() {
			_, err := c.WriteTo(io.Discard)
			errs <- err
		}()
		go func() {
			_, err := c.ReadFrom(source)
			errs <- err
		}()
		time.Sleep(time.Millisecond)
		c.Close()
		go feed.Write(pattern(100)) // which a ReadFrom that begins late does not take
		for range 2 {
			if err := <-errs; err != net.ErrClosed {
				t.Errorf("%s: %v", transport.name, err)
			}
		}
		source.Close()
	}
}
