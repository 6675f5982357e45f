package main

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
	"golang.org/x/crypto/cryptobyte"
)

// script is a transport whose peer has sent all that it will ever send.
type script struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *script) SetDeadline(time.Time) error { return nil }
func newScript(in ...[]byte) *script          { return &script{in: bytes.NewReader(slices.Concat(in...))} }
func plaintext(typ uint8, content []byte) []byte {
	return append([]byte{typ, 3, 3, byte(len(content) >> 8), byte(len(content))}, content...)
}

// lastAlert returns the alert that ends what was sent without protection, and
// whether there is one.
func (s *script) lastAlert() (record.Alert, bool) {
	var last []byte
	for b := s.out.Bytes(); len(b) > 0; {
		n := 5 + int(b[3])<<8 + int(b[4])
		last, b = b[:n], b[n:]
	}
	if len(last) != 7 || last[0] != 21 {
		return 0, false
	}
	return record.Alert(last[6]), true
}

// wantAlert checks that err is a fault for which want is sent.
func wantAlert(t testing.TB, err error, want record.Alert) {
	t.Helper()
	if alert, ok := alertFor(err); !ok || alert != want {
		t.Errorf("error %v, alert %v, %v; want %v", err, alert, ok, want)
	}
}

// rawHello is a ClientHello that can be anything.
type rawHello struct {
	version    uint16
	random     []byte
	sessionID  []byte
	suites     []uint16
	compressed []byte
	extensions extensions
	after      []byte
}

func (h *rawHello) marshal() []byte {
	msg, err := marshalMessage(typeClientHello, func(b *cryptobyte.Builder) {
		b.AddUint16(h.version)
		b.AddBytes(h.random)
		addBytes8(b, h.sessionID)
		addUint16s(b, h.suites)
		addBytes8(b, h.compressed)
		h.extensions.marshal(b)
		b.AddBytes(h.after)
	})
	if err != nil {
		panic(err)
	}
	return msg
}

func (h *rawHello) remove(typ uint16) {
	h.extensions.list = slices.DeleteFunc(h.extensions.list, func(x extension) bool { return x.typ == typ })
}

func (h *rawHello) set(typ uint16, data string) {
	h.remove(typ)
	h.extensions.list = append(h.extensions.list, extension{typ, []byte(data)})
}

// shares replaces the key shares by new ones.
func (h *rawHello) shares(groups ...*group) {
	var b cryptobyte.Builder
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		for _, g := range groups {
			addKeyShare(b, keyShare{g.id, newKey(g)})
		}
	})
	h.set(extKeyShare, string(b.BytesOrPanic()))
}

// newClient returns a client that has made its ClientHello, for tests that send it
// themselves.
func newClient(t testing.TB, transport net.Conn, cfg clientConfig) *clientHandshake {
	t.Helper()
	if cfg.suites == nil {
		cfg.suites = testSuites
	}
	if cfg.groups == nil {
		cfg.groups = allGroups
	}
	if cfg.shares == nil {
		cfg.shares = cfg.groups[:1]
	}
	c := &clientHandshake{link: newLink(transport), cfg: cfg, keys: make(map[uint16]*ecdh.PrivateKey)}
	if err := c.makeHello(); err != nil {
		t.Fatal(err)
	}
	return c
}

var testSuites = aead.Suites()

// hello returns the ClientHello of a client that offers ALPN, after edit.
func hello(t testing.TB, edit func(h *rawHello)) []byte {
	t.Helper()
	cfg := testClient()
	cfg.protocols = []string{"proto"}
	return editHello(t, newClient(t, nil, cfg), edit)
}

func editHello(t testing.TB, c *clientHandshake, edit func(h *rawHello)) []byte {
	t.Helper()
	msg, err := c.hello.marshal()
	if err != nil {
		t.Fatal(err)
	}
	raw := &rawHello{versionTLS12, c.hello.random, c.hello.sessionID, c.hello.suites, []byte{0}, *c.hello.extensions, nil}
	if got := raw.marshal(); !bytes.Equal(got, msg) {
		t.Fatalf("the ClientHello is\n%x\nwant\n%x", msg, got)
	}
	if edit != nil {
		edit(raw)
	}
	return raw.marshal()
}

// TestServerRefuses gives a server first flights that it must refuse, and expects
// the alert on the wire.
func TestServerRefuses(t *testing.T) {
	edits := map[string]struct {
		want record.Alert
		edit func(h *rawHello)
	}{
		"legacy version 0x0302":      {record.AlertProtocolVersion, func(h *rawHello) { h.version = 0x0302 }},
		"legacy version 0x0304":      {record.AlertProtocolVersion, func(h *rawHello) { h.version = 0x0304 }},
		"no supported_versions":      {record.AlertProtocolVersion, func(h *rawHello) { h.remove(extSupportedVersions) }},
		"only TLS 1.2":               {record.AlertProtocolVersion, func(h *rawHello) { h.set(extSupportedVersions, "\x02\x03\x03") }},
		"no versions":                {record.AlertDecodeError, func(h *rawHello) { h.set(extSupportedVersions, "\x00") }},
		"half a version":             {record.AlertDecodeError, func(h *rawHello) { h.set(extSupportedVersions, "\x03\x03\x04\x03") }},
		"more after the versions":    {record.AlertDecodeError, func(h *rawHello) { h.set(extSupportedVersions, "\x02\x03\x04\x00") }},
		"compression":                {record.AlertIllegalParameter, func(h *rawHello) { h.compressed = []byte{1} }},
		"compression too":            {record.AlertIllegalParameter, func(h *rawHello) { h.compressed = []byte{0, 1} }},
		"no compression method":      {record.AlertDecodeError, func(h *rawHello) { h.compressed = nil }},
		"no suites":                  {record.AlertDecodeError, func(h *rawHello) { h.suites = nil }},
		"other suites":               {record.AlertHandshakeFailure, func(h *rawHello) { h.suites = []uint16{0x1304, 0xc02f} }},
		"long session ID":            {record.AlertDecodeError, func(h *rawHello) { h.sessionID = make([]byte, 33) }},
		"more after the extensions":  {record.AlertDecodeError, func(h *rawHello) { h.after = []byte{0} }},
		"no supported_groups":        {record.AlertMissingExtension, func(h *rawHello) { h.remove(extSupportedGroups) }},
		"no signature_algorithms":    {record.AlertMissingExtension, func(h *rawHello) { h.remove(extSignatureAlgorithms) }},
		"no key_share":               {record.AlertMissingExtension, func(h *rawHello) { h.remove(extKeyShare) }},
		"other groups":               {record.AlertHandshakeFailure, func(h *rawHello) { h.set(extSupportedGroups, "\x00\x02\x00\x19"); h.set(extKeyShare, "\x00\x00") }},
		"other signature algorithms": {record.AlertHandshakeFailure, func(h *rawHello) { h.set(extSignatureAlgorithms, "\x00\x04\x04\x01\x08\x08") }},
		"other protocols":            {record.AlertNoApplicationProtocol, func(h *rawHello) { h.set(extALPN, "\x00\x03\x02no") }},
		"empty protocol":             {record.AlertDecodeError, func(h *rawHello) { h.set(extALPN, "\x00\x01\x00") }},
		"empty list of names":        {record.AlertDecodeError, func(h *rawHello) { h.set(extServerName, "\x00\x00") }},
		"empty name":                 {record.AlertDecodeError, func(h *rawHello) { h.set(extServerName, "\x00\x03\x00\x00\x00") }},
		"empty cookie":               {record.AlertDecodeError, func(h *rawHello) { h.set(extCookie, "\x00\x00") }},
		"share of another group":     {record.AlertIllegalParameter, func(h *rawHello) { h.set(extKeyShare, "\x00\x05\x00\x18\x00\x01x") }},
		"two shares of a group":      {record.AlertIllegalParameter, func(h *rawHello) { h.shares(secp256r1, secp256r1) }},
		"empty share":                {record.AlertDecodeError, func(h *rawHello) { h.set(extKeyShare, "\x00\x04\x00\x1d\x00\x00") }},
		"short X25519 share":         {record.AlertIllegalParameter, func(h *rawHello) { h.set(extKeyShare, "\x00\x05\x00\x1d\x00\x01x") }},
		"X25519 share of order 1":    {record.AlertIllegalParameter, func(h *rawHello) { h.set(extKeyShare, "\x00\x24\x00\x1d\x00\x20"+strings.Repeat("\x00", 32)) }},
		"P-256 share not on curve":   {record.AlertIllegalParameter, func(h *rawHello) { h.set(extKeyShare, "\x00\x45\x00\x17\x00\x41\x04"+strings.Repeat("\x01", 64)) }},
		"pre_shared_key not last":    {record.AlertIllegalParameter, func(h *rawHello) { h.set(extPreSharedKey, "?"); h.set(1234, "") }},
		// "If clients offer "pre_shared_key" without a "psk_key_exchange_modes" extension,
		// servers MUST abort the handshake." (RFC 9846, Section 4.3.9)
		"no psk_key_exchange_modes": {record.AlertMissingExtension, func(h *rawHello) { h.set(extPreSharedKey, "?") }},
		"an extension twice":        {record.AlertIllegalParameter, func(h *rawHello) { h.extensions.list = append(h.extensions.list, h.extensions.list[0]) }},
	}
	flights := map[string]struct {
		want record.Alert
		in   []byte
	}{
		"no hello":                    {record.AlertUnexpectedMessage, plaintext(22, []byte{typeFinished, 0, 0, 0})},
		"hello request":               {record.AlertUnexpectedMessage, plaintext(22, []byte{0, 0, 0, 0})},
		"huge hello":                  {record.AlertIllegalParameter, plaintext(22, []byte{typeClientHello, 1, 0, 1})},
		"two hellos in a record":      {record.AlertUnexpectedMessage, plaintext(22, append(hello(t, nil), hello(t, nil)...))},
		"a hello and a half":          {record.AlertUnexpectedMessage, plaintext(22, append(hello(t, nil), 1, 2, 3))},
		"change_cipher_spec first":    {record.AlertUnexpectedMessage, plaintext(20, []byte{1})},
		"application data":            {record.AlertUnexpectedMessage, plaintext(23, make([]byte, 30))},
		"a record of HTTP":            {record.AlertUnexpectedMessage, []byte("GET / HTTP/1.1\r\n\r\n")},
		"empty handshake record":      {record.AlertUnexpectedMessage, plaintext(22, nil)},
		"TLS 1.2 without extensions":  {record.AlertProtocolVersion, plaintext(22, append([]byte{typeClientHello, 0, 0, 41, 3, 3}, append(make([]byte, 32), 0, 0, 2, 0xc0, 0x2f, 1, 0)...))},
		"alert instead of a hello":    {0, plaintext(21, []byte{2, 42})},
		"unprotected Finished":        {record.AlertUnexpectedMessage, slices.Concat(plaintext(22, hello(t, nil)), plaintext(22, []byte{typeFinished, 0, 0, 0}))},
		"rubbish instead of Finished": {record.AlertBadRecordMAC, slices.Concat(plaintext(22, hello(t, nil)), plaintext(20, []byte{1}), plaintext(23, make([]byte, 53)))},
	}
	for name, e := range edits {
		flights[name] = struct {
			want record.Alert
			in   []byte
		}{e.want, plaintext(22, hello(t, e.edit))}
	}
	for name, f := range flights {
		t.Run(name, func(t *testing.T) {
			s := newScript(f.in)
			cfg := testServer()
			cfg.protocols = []string{"proto"}
			_, _, err := server(s, cfg)
			if f.want == 0 {
				var theirs *record.AlertError
				if !errors.As(err, &theirs) || theirs.Alert != record.AlertBadCertificate {
					t.Errorf("error %v, want the peer's alert", err)
				}
				return
			}
			wantAlert(t, err, f.want)
			// After its flight the server's alert is protected.
			if alert, ok := s.lastAlert(); ok != (s.out.Len() == 7) || ok && alert != f.want {
				t.Errorf("sent %v, %v; want %v", alert, ok, f.want)
			}
		})
	}
}

// TestServerRefusesRetry gives a server that has asked for a share for secp256r1
// second ClientHellos that it must refuse. Most of them do have that share.
func TestServerRefusesRetry(t *testing.T) {
	for name, edit := range map[string]func(h *rawHello){
		"another random":       func(h *rawHello) { h.random = make([]byte, 32) },
		"another session ID":   func(h *rawHello) { h.sessionID = nil },
		"fewer suites":         func(h *rawHello) { h.suites = h.suites[:1] },
		"another server name":  func(h *rawHello) { h.set(extServerName, "\x00\x04\x00\x00\x01x") },
		"no more server name":  func(h *rawHello) { h.remove(extServerName) },
		"ALPN":                 func(h *rawHello) { h.set(extALPN, "\x00\x02\x01x") },
		"other signature list": func(h *rawHello) { h.set(extSignatureAlgorithms, "\x00\x02\x04\x03") },
		"no share":             func(h *rawHello) { h.shares() },
		"share of X25519":      func(h *rawHello) { h.shares(x25519) },
		"two shares":           func(h *rawHello) { h.shares(x25519, secp256r1) },
		"share not on curve": func(h *rawHello) {
			h.set(extKeyShare, "\x00\x45\x00\x17\x00\x41\x04"+strings.Repeat("\x01", 64))
		},
		"": nil, // nothing wrong
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, nil, testClient())
			second := editHello(t, c, func(h *rawHello) {
				h.shares(secp256r1)
				if edit != nil {
					edit(h)
				}
			})
			s := newScript(plaintext(22, editHello(t, c, func(h *rawHello) { h.shares() })), plaintext(22, second))
			cfg := testServer()
			cfg.groups = []*group{secp256r1, x25519}
			_, _, err := server(s, cfg)
			if edit == nil {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%v, want the end of the transport", err)
				}
				return
			}
			wantAlert(t, err, record.AlertIllegalParameter)
			if alert, ok := s.lastAlert(); !ok || alert != record.AlertIllegalParameter {
				t.Errorf("sent %v, %v", alert, ok)
			}
		})
	}
}

// TestTruncatedMessages cuts each message at each length. None panics, and all but
// the hellos that then look like TLS 1.2 are malformed.
func TestTruncatedMessages(t *testing.T) {
	offered := new(extensions)
	for _, typ := range []uint16{extServerName, extALPN, extSupportedVersions, extKeyShare} {
		offered.add(typ, func(*cryptobyte.Builder) {})
	}
	must := func(msg []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	sh := &serverHello{random: make([]byte, 32), suite: 0x1301, share: keyShare{0x1d, make([]byte, 32)}}
	hrr := &serverHello{random: []byte(helloRetryRandom), suite: 0x1301, share: keyShare{0x1d, nil}, cookie: []byte("cookie")}
	for _, test := range []struct {
		name  string
		msg   []byte
		parse func(body []byte) error
		tls12 int // the length that looks like TLS 1.2
	}{
		{"ClientHello", hello(t, nil), func(b []byte) error { _, err := parseClientHello(b); return err }, 2 + 32 + 33 + 8 + 2},
		{"ServerHello", must(sh.marshal()), func(b []byte) error { _, err := parseServerHello(b); return err }, 2 + 32 + 1 + 3},
		{"HelloRetryRequest", must(hrr.marshal()), func(b []byte) error { _, err := parseServerHello(b); return err }, 2 + 32 + 1 + 3},
		{"EncryptedExtensions", must(marshalEncryptedExtensions(true, "proto")), func(b []byte) error { _, err := parseEncryptedExtensions(b, offered); return err }, -1},
		{"CertificateRequest", []byte{typeCertificateRequest, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3}, parseCertificateRequest, -1},
		{"Certificate", must(marshalCertificate([][]byte{[]byte("one"), []byte("two")})), func(b []byte) error { _, err := parseCertificate(b, offered); return err }, -1},
		{"CertificateVerify", must(marshalCertificateVerify(0x0403, []byte("signature"))), func(b []byte) error { _, _, err := parseCertificateVerify(b); return err }, -1},
	} {
		body := message(test.msg).body()
		if err := test.parse(body); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		for n := range body {
			want := record.AlertDecodeError
			if n == test.tls12 {
				want = record.AlertProtocolVersion
			}
			if alert, _ := alertFor(test.parse(body[:n])); alert != want {
				t.Errorf("%s cut to %d of %d bytes: %v, want %v", test.name, n, len(body), alert, want)
			}
		}
		if alert, _ := alertFor(test.parse(append(slices.Clone(body), 0))); alert != record.AlertDecodeError {
			t.Errorf("%s with a byte more: %v", test.name, alert)
		}
	}
}

// TestTruncatedStream ends the transport at each byte of a ClientHello: there is
// nobody to send an alert to.
func TestTruncatedStream(t *testing.T) {
	flight := plaintext(22, hello(t, nil))
	for n := range len(flight) {
		s := newScript(flight[:n])
		if _, _, err := server(s, testServer()); !errors.Is(err, io.ErrUnexpectedEOF) || s.out.Len() != 0 {
			t.Fatalf("cut to %d bytes: %v, sent %x", n, err, s.out.Bytes())
		}
	}
}

// rogueServer is a server that a test drives step by step.
func rogueServer(t testing.TB, transport net.Conn, cfg serverConfig) *serverHandshake {
	t.Helper()
	transport.SetDeadline(time.Now().Add(handshakeTimeout))
	cfg.suites, cfg.groups = testSuites, allGroups
	s := &serverHandshake{link: newLink(transport), cfg: cfg}
	if err := errors.Join(s.receiveHello(), s.negotiate()); err != nil {
		t.Fatal(err)
	}
	return s
}

// alertFrom returns the alert that the peer of l sends.
func alertFrom(t testing.TB, l *link) record.Alert {
	t.Helper()
	_, err := l.receive()
	var alert *record.AlertError
	if !errors.As(err, &alert) {
		t.Fatalf("%v, want an alert", err)
	}
	return alert.Alert
}

// startClient runs a client, whose error arrives.
func startClient(transport net.Conn, cfg clientConfig) chan error {
	done := make(chan error, 1)
	go func() {
		_, _, err := client(transport, cfg)
		done <- err
	}()
	return done
}

// TestClientRefusesHello answers a client with ServerHellos and HelloRetryRequests
// that it must refuse. It offers X25519 with a share and secp256r1 without.
func TestClientRefusesHello(t *testing.T) {
	share := keyShare{x25519.id, newKey(x25519)}
	random := bytes.Repeat([]byte{7}, randomSize)
	retry := []byte(helloRetryRandom)
	for name, test := range map[string]struct {
		want  record.Alert
		hello serverHello
		edit  func(msg []byte) []byte // afterwards
	}{
		"TLS 1.2":                       {record.AlertProtocolVersion, serverHello{random: random, share: share}, without(extSupportedVersions)},
		"downgraded to TLS 1.2":         {record.AlertIllegalParameter, serverHello{random: append(random[:24:24], "DOWNGRD\x01"...), share: share}, without(extSupportedVersions)},
		"downgraded to TLS 1.1":         {record.AlertIllegalParameter, serverHello{random: append(random[:24:24], "DOWNGRD\x00"...), share: share}, without(extSupportedVersions)},
		"another version":               {record.AlertIllegalParameter, serverHello{random: random, share: share}, replace("\x00\x2b\x00\x02\x03\x04", "\x00\x2b\x00\x02\x03\x03")},
		"another legacy version":        {record.AlertProtocolVersion, serverHello{random: random, share: share}, replace("\x03\x03\x07\x07", "\x03\x04\x07\x07")},
		"compression":                   {record.AlertIllegalParameter, serverHello{random: random, share: share}, replace("\x13\x01\x00", "\x13\x01\x01")},
		"another session ID":            {record.AlertIllegalParameter, serverHello{random: random, sessionID: []byte{1}, share: share}, nil},
		"a suite not offered":           {record.AlertIllegalParameter, serverHello{random: random, suite: 0x1304, share: share}, nil},
		"no share":                      {record.AlertMissingExtension, serverHello{random: random, share: share}, without(extKeyShare)},
		"share of a group without ours": {record.AlertIllegalParameter, serverHello{random: random, share: keyShare{secp256r1.id, newKey(secp256r1)}}, nil},
		"share of another group":        {record.AlertIllegalParameter, serverHello{random: random, share: keyShare{0x18, share.key}}, nil},
		"short share":                   {record.AlertIllegalParameter, serverHello{random: random, share: keyShare{x25519.id, share.key[:31]}}, nil},
		"empty share":                   {record.AlertDecodeError, serverHello{random: random, share: keyShare{x25519.id, nil}}, nil},
		"share of order 1":              {record.AlertIllegalParameter, serverHello{random: random, share: keyShare{x25519.id, make([]byte, 32)}}, nil},
		"cookie outside of a retry":     {record.AlertUnsupportedExtension, serverHello{random: random, share: share, cookie: []byte("cookie")}, nil},
		"pre_shared_key":                {record.AlertUnsupportedExtension, serverHello{random: random, share: share}, with(extPreSharedKey, "\x00\x00")},
		"server_name":                   {record.AlertIllegalParameter, serverHello{random: random, share: share}, with(extServerName, "")},
		"an extension twice":            {record.AlertIllegalParameter, serverHello{random: random, share: share}, with(extSupportedVersions, "\x03\x04")},
		"retry that changes nothing":    {record.AlertIllegalParameter, serverHello{random: retry}, nil},
		"retry for the same group":      {record.AlertIllegalParameter, serverHello{random: retry, share: keyShare{group: x25519.id}}, nil},
		"retry for another group":       {record.AlertIllegalParameter, serverHello{random: retry, share: keyShare{group: 0x18}}, nil},
		"retry with an empty cookie":    {record.AlertDecodeError, serverHello{random: retry}, with(extCookie, "\x00\x00")},
		"retry with a huge cookie":      {record.AlertInternalError, serverHello{random: retry, cookie: make([]byte, 65440)}, nil},
		"truncated":                     {record.AlertDecodeError, serverHello{random: random, share: share}, func(msg []byte) []byte { return []byte{2, 0, 0, 3, 3, 3, 7} }},
		"huge":                          {record.AlertIllegalParameter, serverHello{random: random, share: share}, func(msg []byte) []byte { return []byte{2, 1, 0, 1} }},
		"another message":               {record.AlertUnexpectedMessage, serverHello{random: random, share: share}, func(msg []byte) []byte { return []byte{8, 0, 0, 2, 0, 0} }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := loopback(t)
			done := startClient(a, testClient())
			s := rogueServer(t, b, testServer())
			if test.hello.sessionID == nil {
				test.hello.sessionID = s.hello.sessionID
			}
			if test.hello.suite == 0 {
				test.hello.suite = 0x1301
			}
			msg, err := test.hello.marshal()
			if err != nil {
				t.Fatal(err)
			}
			if test.edit != nil {
				if msg = test.edit(msg); msg == nil {
					t.Fatal("the edit does not fit")
				}
			}
			if err := errors.Join(s.send(msg, nil), s.flush()); err != nil {
				t.Fatal(err)
			}
			if alert := alertFrom(t, s.link); alert != test.want {
				t.Errorf("received %v, want %v", alert, test.want)
			}
			wantAlert(t, <-done, test.want)
		})
	}
}

// newKey returns the public key of a new key pair.
func newKey(g *group) []byte {
	key, err := g.curve.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return key.PublicKey().Bytes()
}

// replace returns an edit that replaces what must occur once.
func replace(before, after string) func(msg []byte) []byte {
	return func(msg []byte) []byte {
		if bytes.Count(msg, []byte(before)) != 1 || len(before) != len(after) {
			return nil
		}
		return bytes.Replace(msg, []byte(before), []byte(after), 1)
	}
}

// without returns an edit that takes an extension out of a ServerHello, and with
// one that adds another.
func without(typ uint16) func(msg []byte) []byte {
	return editServerHello(func(e *extensions) {
		e.list = slices.DeleteFunc(e.list, func(x extension) bool { return x.typ == typ })
	})
}

func with(typ uint16, data string) func(msg []byte) []byte {
	return editServerHello(func(e *extensions) { e.list = append(e.list, extension{typ, []byte(data)}) })
}

func editServerHello(edit func(e *extensions)) func(msg []byte) []byte {
	return func(msg []byte) []byte {
		fixed := 2 + randomSize + 1 + 32 + 3
		body := message(msg).body()
		block := cryptobyte.String(body[fixed:])
		e, err := readExtensions(&block)
		if err != nil {
			return nil
		}
		edit(e)
		msg, err = marshalMessage(typeServerHello, func(b *cryptobyte.Builder) {
			b.AddBytes(body[:fixed])
			e.marshal(b)
		})
		if err != nil {
			return nil
		}
		return msg
	}
}

// TestRetries has a server send HelloRetryRequests with cookies, one or two, with
// and without another group.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		name   string
		group  *group // nil keeps that of the first share
		twice  bool
		suites [2]uint16 // of HelloRetryRequest and ServerHello
		want   record.Alert
	}{
		{"cookie", nil, false, [2]uint16{0x1301, 0x1301}, 0},
		{"cookie and group", secp256r1, false, [2]uint16{0x1302, 0x1302}, 0},
		{"two", nil, true, [2]uint16{0x1301, 0x1301}, record.AlertUnexpectedMessage},
		{"another suite", nil, false, [2]uint16{0x1301, 0x1302}, record.AlertIllegalParameter},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := loopback(t)
			done := startClient(a, testClient())
			s := rogueServer(t, b, testServer())
			cookie := []byte("the cookie")
			retry := &serverHello{random: []byte(helloRetryRandom), sessionID: s.hello.sessionID, suite: test.suites[0], cookie: cookie}
			if test.group != nil {
				retry.share.group = test.group.id
			}
			s.params.suite = aead.SuiteByID(test.suites[0])
			s.transcript = messageHash(s.params.suite.Hash(), s.transcript)
			if err := errors.Join(s.send(retry.marshal()), s.flush(), s.receiveSecondHello()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.hello.cookie, cookie) {
				t.Errorf("cookie %q", s.hello.cookie)
			}
			if test.twice {
				if err := errors.Join(s.send(retry.marshal()), s.flush()); err != nil {
					t.Fatal(err)
				}
			} else {
				s.params.suite = aead.SuiteByID(test.suites[1])
				share, ok := s.findShare()
				if !ok || test.group != nil && s.params.group != test.group {
					t.Fatalf("share %v", share)
				}
				if test.want != 0 {
					// The client does not get as far as handshake keys.
					sh := &serverHello{random: make([]byte, 32), sessionID: s.hello.sessionID, suite: test.suites[1], share: share}
					if err := errors.Join(s.send(sh.marshal()), s.flush()); err != nil {
						t.Fatal(err)
					}
				} else if schedule, handshake, err := s.enterHandshake(share); err != nil {
					t.Fatal(err)
				} else if err := s.finish(schedule, handshake); err != nil {
					t.Fatal(err)
				}
			}
			if test.want == 0 {
				if err := <-done; err != nil {
					t.Error(err)
				}
				return
			}
			if alert := alertFrom(t, s.link); alert != test.want {
				t.Errorf("received %v, want %v", alert, test.want)
			}
			wantAlert(t, <-done, test.want)
		})
	}
}

// badSigner signs something else.
type badSigner struct{ crypto.Signer }

func (s badSigner) Sign(r io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	digest = bytes.Clone(digest)
	digest[0] ^= 1
	return s.Signer.Sign(r, digest, opts)
}

// TestClientRefusesFlight sends a client flights under handshake keys that it must
// refuse. Each message passes through change, which may also take the place of the
// messages that follow.
func TestClientRefusesFlight(t *testing.T) {
	only := func(typ uint8, change func(body []byte) []byte) func(msg message) []byte {
		return func(msg message) []byte {
			if msg.typ() != typ {
				return msg
			}
			body := change(bytes.Clone(msg.body()))
			return append([]byte{typ, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
		}
	}
	instead := func(typ uint8, with ...byte) func(msg message) []byte {
		return func(msg message) []byte {
			if msg.typ() == typ {
				return with
			}
			return msg
		}
	}
	before := func(typ uint8, with ...byte) func(msg message) []byte {
		return func(msg message) []byte {
			if msg.typ() == typ {
				return append(with, msg...)
			}
			return msg
		}
	}
	after := func(typ uint8, with ...byte) func(msg message) []byte {
		return func(msg message) []byte {
			if msg.typ() == typ {
				return append(bytes.Clone(msg), with...)
			}
			return msg
		}
	}
	twice := func(msg message) []byte {
		if msg.typ() == typeFinished {
			return slices.Repeat(msg, 2)
		}
		return msg
	}
	otherServer, err := selfSigned(certFor(ecdsaP256).key, "example.org")
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(c *certificate) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(c.leaf)
		return pool
	}
	stranger, err := selfSigned(certFor(ecdsaP384).key, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	expired := issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	forExchange := issue(t, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement })
	tests := map[string]struct {
		want   record.Alert
		change func(msg message) []byte
		cert   *certificate
		roots  *x509.CertPool
	}{
		"nothing changed":              {0, func(msg message) []byte { return msg }, nil, nil},
		"unknown ticket before all":    {record.AlertUnexpectedMessage, before(typeEncryptedExtensions, 4, 0, 0, 0), nil, nil},
		"no EncryptedExtensions":       {record.AlertUnexpectedMessage, instead(typeEncryptedExtensions), nil, nil},
		"no Certificate":               {record.AlertUnexpectedMessage, instead(typeCertificate), nil, nil},
		"no CertificateVerify":         {record.AlertUnexpectedMessage, instead(typeCertificateVerify), nil, nil},
		"protocol not offered":         {record.AlertIllegalParameter, instead(typeEncryptedExtensions, 8, 0, 0, 11, 0, 9, 0, 16, 0, 5, 0, 3, 2, 'n', 'o'), nil, nil},
		"two protocols":                {record.AlertDecodeError, instead(typeEncryptedExtensions, 8, 0, 0, 12, 0, 10, 0, 16, 0, 6, 0, 4, 1, 'a', 1, 'b'), nil, nil},
		"server_name with data":        {record.AlertDecodeError, instead(typeEncryptedExtensions, 8, 0, 0, 7, 0, 5, 0, 0, 0, 1, 0), nil, nil},
		"extension not offered":        {record.AlertUnsupportedExtension, instead(typeEncryptedExtensions, 8, 0, 0, 6, 0, 4, 0, 42, 0, 0), nil, nil},
		"key_share in the wrong place": {record.AlertIllegalParameter, instead(typeEncryptedExtensions, 8, 0, 0, 6, 0, 4, 0, 51, 0, 0), nil, nil},
		"CertificateRequest twice":     {record.AlertUnexpectedMessage, before(typeCertificate, bytes.Repeat([]byte{13, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3}, 2)...), nil, nil},
		"CertificateRequest, context":  {record.AlertIllegalParameter, before(typeCertificate, 13, 0, 0, 12, 1, 9, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3), nil, nil},
		"CertificateRequest, empty":    {record.AlertMissingExtension, before(typeCertificate, 13, 0, 0, 3, 0, 0, 0), nil, nil},
		"empty Certificate":            {record.AlertDecodeError, instead(typeCertificate, 11, 0, 0, 4, 0, 0, 0, 0), nil, nil},
		"certificate with a context":   {record.AlertIllegalParameter, instead(typeCertificate, 11, 0, 0, 5, 1, 1, 0, 0, 0), nil, nil},
		"certificate of no bytes":      {record.AlertDecodeError, instead(typeCertificate, 11, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 0, 0), nil, nil},
		"certificate of rubbish":       {record.AlertBadCertificate, instead(typeCertificate, 11, 0, 0, 11, 0, 0, 0, 7, 0, 0, 2, 'n', 'o', 0, 0), nil, nil},
		"certificate with extension":   {record.AlertUnsupportedExtension, instead(typeCertificate, 11, 0, 0, 15, 0, 0, 0, 11, 0, 0, 2, 'n', 'o', 0, 4, 0, 5, 0, 0), nil, nil},
		"unknown authority":            {record.AlertUnknownCA, nil, stranger, nil},
		"another name":                 {record.AlertBadCertificate, nil, otherServer, trusted(otherServer)},
		"expired":                      {record.AlertCertificateExpired, nil, expired, trusted(expired)},
		"key not for signatures":       {record.AlertUnsupportedCertificate, nil, forExchange, trusted(forExchange)},
		"wrong signature":              {record.AlertDecryptError, nil, &certificate{certFor(ecdsaP256).chain, certFor(ecdsaP256).leaf, badSigner{certFor(ecdsaP256).key}}, nil},
		"wrong RSA signature":          {record.AlertDecryptError, nil, &certificate{certFor(rsaPSS).chain, certFor(rsaPSS).leaf, badSigner{certFor(rsaPSS).key}}, nil},
		"wrong Ed25519 signature":      {record.AlertDecryptError, nil, &certificate{certFor(eddsa).chain, certFor(eddsa).leaf, badSigner{certFor(eddsa).key}}, nil},
		"another key's signature":      {record.AlertDecryptError, nil, &certificate{stranger.chain, stranger.leaf, otherP384(t)}, trusted(stranger)},
		"unknown signature algorithm":  {record.AlertIllegalParameter, only(typeCertificateVerify, func(b []byte) []byte { b[0], b[1] = 4, 1; return b }), nil, nil},
		"algorithm of another key":     {record.AlertIllegalParameter, only(typeCertificateVerify, func(b []byte) []byte { b[0], b[1] = 8, 7; return b }), nil, nil},
		"cut CertificateVerify":        {record.AlertDecodeError, only(typeCertificateVerify, func(b []byte) []byte { return b[:len(b)-1] }), nil, nil},
		"wrong Finished":               {record.AlertDecryptError, only(typeFinished, func(b []byte) []byte { b[31] ^= 1; return b }), nil, nil},
		"short Finished":               {record.AlertDecodeError, only(typeFinished, func(b []byte) []byte { return b[:31] }), nil, nil},
		"long Finished":                {record.AlertDecodeError, only(typeFinished, func(b []byte) []byte { return append(b, 0) }), nil, nil},
		"ticket in Finished's record":  {record.AlertUnexpectedMessage, after(typeFinished, 4, 0, 0, 0), nil, nil},
		"half a message behind":        {record.AlertUnexpectedMessage, after(typeFinished, 4, 0), nil, nil},
		"Finished twice":               {record.AlertUnexpectedMessage, twice, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := loopback(t)
			cc := testClient()
			cc.protocols = []string{"proto"}
			if test.roots != nil {
				cc.roots = test.roots
			}
			done := startClient(a, cc)
			sc := testServer()
			sc.protocols = []string{"proto"}
			if test.cert != nil {
				sc.certificates = []*certificate{test.cert}
			}
			s := rogueServer(t, b, sc)
			share, err := s.selectShare()
			if err != nil {
				t.Fatal(err)
			}
			schedule, handshake, err := s.enterHandshake(share)
			if err != nil {
				t.Fatal(err)
			}
			if test.change == nil {
				// Only the certificate or the signature is wrong.
				if err := s.finish(schedule, handshake); err == nil {
					t.Fatal("the client is content")
				} else if alert := new(record.AlertError); !errors.As(err, &alert) || alert.Alert != test.want {
					t.Errorf("%v, want %v", err, test.want)
				}
				wantAlert(t, <-done, test.want)
				return
			}
			suite := s.params.suite
			send := func(msg []byte, err error) {
				t.Helper()
				if err := errors.Join(err, s.send(test.change(msg), nil)); err != nil {
					t.Fatal(err)
				}
			}
			send(marshalEncryptedExtensions(true, "proto"))
			send(marshalCertificate(s.cert.chain))
			signature, err := s.params.scheme.sign(s.cert.key, signedContent(suite.Hash(), s.transcript))
			if err != nil {
				t.Fatal(err)
			}
			send(marshalCertificateVerify(s.params.scheme.id, signature))
			data, err := verifyData(suite.Hash(), handshake.server, s.transcript)
			if err != nil {
				t.Fatal(err)
			}
			send(append([]byte{typeFinished, 0, 0, byte(len(data))}, data...), nil)
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
			if test.want == 0 {
				msg, err := s.receive(typeFinished)
				if err == nil {
					err = s.checkFinished(suite, handshake.client, msg)
				}
				if err := errors.Join(err, <-done); err != nil {
					t.Error(err)
				}
				return
			}
			if alert := alertFrom(t, s.link); alert != test.want {
				t.Errorf("received %v, want %v", alert, test.want)
			}
			wantAlert(t, <-done, test.want)
		})
	}
}

// noSigner has lost its key.
type noSigner struct{ crypto.Signer }

func (noSigner) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("no key")
}

// TestServerFails has a server fail by itself, in the middle of its flight. Its
// alert can be read: it comes after the ServerHello that its keys belong to.
func TestServerFails(t *testing.T) {
	cc, sc := testClient(), testServer()
	sc.certificates = []*certificate{{sc.certificates[0].chain, sc.certificates[0].leaf, noSigner{sc.certificates[0].key}}}
	c, s := connect(t, cc, sc)
	var alert *record.AlertError
	if !errors.As(c.err, &alert) || alert.Alert != record.AlertInternalError {
		t.Errorf("client: %v", c.err)
	}
	wantAlert(t, s.err, record.AlertInternalError)
}

// issue returns a self-signed certificate of the P-256 key after edit.
func issue(t testing.TB, edit func(c *x509.Certificate)) *certificate {
	t.Helper()
	key := certFor(ecdsaP256).key
	template := *certFor(ecdsaP256).leaf
	template.SignatureAlgorithm = 0
	edit(&template)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &certificate{[][]byte{der}, leaf, key}
}

func otherP384(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestServerRefusesFlight sends a server second flights that it must refuse. Its
// alerts are under application keys by then.
func TestServerRefusesFlight(t *testing.T) {
	for name, test := range map[string]struct {
		want   record.Alert
		change func(finished []byte) []byte
	}{
		"nothing changed":           {0, func(m []byte) []byte { return m }},
		"wrong Finished":            {record.AlertDecryptError, func(m []byte) []byte { m[4] ^= 0x80; return m }},
		"short Finished":            {record.AlertDecodeError, func(m []byte) []byte { m[3]--; return m[:len(m)-1] }},
		"Certificate first":         {record.AlertUnexpectedMessage, func(m []byte) []byte { return append([]byte{11, 0, 0, 4, 0, 0, 0, 0}, m...) }},
		"EndOfEarlyData first":      {record.AlertUnexpectedMessage, func(m []byte) []byte { return append([]byte{5, 0, 0, 0}, m...) }},
		"CertificateRequest behind": {record.AlertUnexpectedMessage, func(m []byte) []byte { return append(m, 13, 0, 0, 0) }},
		"Finished twice":            {record.AlertUnexpectedMessage, func(m []byte) []byte { return slices.Repeat(m, 2) }},
		"half a message behind":     {record.AlertUnexpectedMessage, func(m []byte) []byte { return append(m, 13) }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := loopback(t)
			done := make(chan error, 1)
			go func() {
				_, _, err := server(b, testServer())
				done <- err
			}()
			a.SetDeadline(time.Now().Add(handshakeTimeout))
			c := newClient(t, a, testClient())
			if err := c.sendHello(); err != nil {
				t.Fatal(err)
			}
			application, finished := toFinished(t, c)
			if err := errors.Join(c.setReadKeys(record.EpochApplication, c.params.suite, application.server),
				c.send(test.change(finished), nil), c.flush()); err != nil {
				t.Fatal(err)
			}
			err := <-done
			if test.want == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantAlert(t, err, test.want)
			if alert := alertFrom(t, c.link); alert != test.want {
				t.Errorf("received %v, want %v", alert, test.want)
			}
		})
	}
}

// toFinished does a client's handshake from the ServerHello up to its Finished,
// which it returns and does not send.
func toFinished(t testing.TB, c *clientHandshake) (application secrets, finished []byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hello, err := c.receiveHello()
	must(err)
	schedule, handshake, err := c.enterHandshake(hello)
	must(err)
	cert, err := c.receiveParameters()
	must(err)
	must(c.authenticate(cert))
	msg, err := c.receive(typeFinished)
	must(err)
	must(c.checkFinished(c.params.suite, handshake.server, msg))
	application, err = schedule.applicationSecrets(c.transcript)
	must(err)
	data, err := verifyData(c.params.suite.Hash(), handshake.client, c.transcript)
	must(err)
	return application, append([]byte{typeFinished, 0, 0, byte(len(data))}, data...)
}

// TestServerIgnores offers a server what it does not do: a pre-shared key, early
// data, whose records it drops, and extensions that nobody knows.
func TestServerIgnores(t *testing.T) {
	a, b := loopback(t)
	done := make(chan error, 1)
	go func() {
		_, _, err := server(b, testServer())
		done <- err
	}()
	a.SetDeadline(time.Now().Add(handshakeTimeout))
	c := newClient(t, a, testClient())
	msg := editHello(t, c, func(h *rawHello) {
		h.set(0x0a0a, "grease")
		h.set(extEarlyData, "")
		h.set(extPSKKeyExchangeModes, "\x01\x01")
		h.set(extPreSharedKey, "not parsed")
	})
	early := plaintext(23, make([]byte, 100))
	if err := errors.Join(c.send(msg, nil), c.flush()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write(slices.Concat(plaintext(20, []byte{1}), early, early)); err != nil {
		t.Fatal(err)
	}
	c.opener.AllowChangeCipherSpec(true)
	_, finished := toFinished(t, c)
	if err := errors.Join(c.send(finished, nil), c.flush()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLargeCertificate sends a chain that does not fit into one record.
func TestLargeCertificate(t *testing.T) {
	cc, sc := testClient(), testServer()
	cert := *certFor(ecdsaP256)
	for range 60 {
		cert.chain = append(cert.chain, certFor(rsaPSS).chain[0])
	}
	sc.certificates = []*certificate{&cert}
	c, s := connect(t, cc, sc)
	if c.err != nil || s.err != nil {
		t.Fatal(c.err, s.err)
	}
	if n := len(cert.chain) * len(cert.chain[1]); n < 2*record.MaxContentSize {
		t.Fatalf("the chain has %d bytes", n)
	}
	talk(t, c.conn, s.conn)
}

// FuzzServer gives a server anything. It never panics, and unless the transport
// ends first, an alert says what is wrong.
func FuzzServer(f *testing.F) {
	f.Add(plaintext(22, hello(f, nil)))
	f.Add(slices.Concat(plaintext(22, hello(f, nil)), plaintext(20, []byte{1}), plaintext(23, make([]byte, 53))))
	f.Add(slices.Concat(plaintext(22, hello(f, func(h *rawHello) { h.set(extKeyShare, "\x00\x00") })), plaintext(22, hello(f, nil))))
	f.Add(plaintext(22, hello(f, func(h *rawHello) { h.set(extEarlyData, ""); h.set(extPreSharedKey, "?") })))
	f.Add(plaintext(21, []byte{1, 0}))
	cfg := testServer()
	cfg.protocols = []string{"proto"}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newScript(data)
		_, _, err := server(s, cfg)
		if err == nil {
			t.Fatal("a handshake without a client")
		}
		want, send := alertFor(err)
		alert, sent := s.lastAlert()
		if protected := bytes.Contains(s.out.Bytes(), []byte{23, 3, 3}); send && !protected && (!sent || alert != want) {
			t.Errorf("%v: sent %v, %v", err, alert, sent)
		}
	})
}

// FuzzMessages parses anything as each message.
func FuzzMessages(f *testing.F) {
	f.Add(message(hello(f, nil)).body())
	sh, err := (&serverHello{random: make([]byte, 32), suite: 0x1301, share: keyShare{0x1d, make([]byte, 32)}}).marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message(sh).body())
	f.Add([]byte{0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3})
	offered := new(extensions)
	f.Fuzz(func(t *testing.T, body []byte) {
		parseClientHello(body)
		parseServerHello(body)
		parseEncryptedExtensions(body, offered)
		parseCertificateRequest(body)
		parseCertificate(body, offered)
		parseCertificateVerify(body)
	})
}
