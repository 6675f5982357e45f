package main

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"net"
	"slices"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// clientConfig says what a client offers. A field that is not set means everything
// there is.
type clientConfig struct {
	serverName string         // whose certificate is expected; a name or an address
	roots      *x509.CertPool // nil for the system's
	protocols  []string       // ALPN, best first
	suites     []*aead.Suite  // best first
	groups     []*group       // best first
	shares     []*group       // groups with a key share at once; nil is the best one
}

// client does a client's handshake over transport. It panics without a serverName,
// since crypto/x509 would then accept anybody's certificate.
func client(transport net.Conn, cfg clientConfig) (*record.Conn, *parameters, error) {
	if cfg.serverName == "" {
		panic("tlsstack: no server name")
	}
	if cfg.suites == nil {
		cfg.suites = aead.Suites()
	}
	if cfg.groups == nil {
		cfg.groups = allGroups
	}
	if cfg.shares == nil {
		cfg.shares = cfg.groups[:1]
	}
	c := &clientHandshake{link: newLink(transport), cfg: cfg, keys: make(map[uint16]*ecdh.PrivateKey)}
	return c.run(record.RoleClient, c.handshake)
}

// clientHandshake is a client's side of one handshake. Its methods are in the order
// in which they run.
//
//	Client                                  Server
//
//	ClientHello             -------->
//	                        <--------       HelloRetryRequest
//	ClientHello             -------->                           } if need be
//	                                              ServerHello
//	                                    {EncryptedExtensions}
//	                                    {CertificateRequest*}
//	                                            {Certificate}
//	                                      {CertificateVerify}
//	                        <--------              {Finished}
//	{Certificate*}
//	{Finished}              -------->
//	[Application Data]      <------->      [Application Data]
//
//	{} under handshake keys, [] under application keys
type clientHandshake struct {
	*link
	cfg    clientConfig
	hello  *clientHello
	keys   map[uint16]*ecdh.PrivateKey // by group
	params parameters

	certificateWanted bool // a CertificateRequest has arrived
}

func (c *clientHandshake) handshake() (*parameters, error) {
	if err := c.makeHello(); err != nil {
		return nil, err
	}
	if err := c.sendHello(); err != nil {
		return nil, err
	}
	server, err := c.receiveHello()
	if err != nil {
		return nil, err
	}
	if server.isRetry() {
		if err := c.retry(server); err != nil {
			return nil, err
		}
		suite := server.suite
		if server, err = c.receiveHello(); err != nil {
			return nil, err
		}
		if server.isRetry() {
			// "If a client receives a second HelloRetryRequest in the same connection
			// [...], it MUST abort the handshake with an "unexpected_message" alert."
			return nil, alertf(record.AlertUnexpectedMessage, "second HelloRetryRequest")
		}
		if server.suite != suite {
			// "clients MUST check that the cipher suite supplied in the ServerHello is
			// the same as that in the HelloRetryRequest"
			return nil, alertf(record.AlertIllegalParameter, "the suite has changed")
		}
	}
	schedule, handshake, err := c.enterHandshake(server)
	if err != nil {
		return nil, err
	}
	defer schedule.wipe()
	certificate, err := c.receiveParameters()
	if err != nil {
		return nil, err
	}
	if err := c.authenticate(certificate); err != nil {
		return nil, err
	}
	if err := c.finish(schedule, handshake); err != nil {
		return nil, err
	}
	return &c.params, nil
}

// makeHello makes the ClientHello (RFC 9846, Section 4.2.2).
func (c *clientHandshake) makeHello() error {
	c.hello = &clientHello{
		random: make([]byte, randomSize),
		// "In compatibility mode (see Appendix E.4), this field MUST be non-empty"
		sessionID: make([]byte, 32),
		suites:    ids(c.cfg.suites),
		offer: offer{
			groups:      ids(c.cfg.groups),
			schemes:     ids(allSchemes),
			certSchemes: certificateSchemes,
			protocols:   c.cfg.protocols,
		},
	}
	rand.Read(c.hello.random)
	rand.Read(c.hello.sessionID)
	if net.ParseIP(c.cfg.serverName) == nil {
		// "Literal IPv4 and IPv6 addresses are not permitted in "HostName"." (RFC
		// 6066, Section 3)
		c.hello.serverName = c.cfg.serverName
	}
	c.params.serverName = c.hello.serverName
	for _, g := range c.cfg.shares {
		if err := c.addShare(g); err != nil {
			return err
		}
	}
	return nil
}

// addShare makes a key for g. "Clients and Servers MUST NOT reuse a key share for
// multiple connections." (RFC 9846, Section 4.3.8)
func (c *clientHandshake) addShare(g *group) error {
	key, err := g.curve.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	c.keys[g.id] = key
	c.hello.shares = append(c.hello.shares, keyShare{g.id, key.PublicKey().Bytes()})
	return nil
}

// sendHello sends the ClientHello, which is a flight of its own.
func (c *clientHandshake) sendHello() error {
	if err := c.send(c.hello.marshal()); err != nil {
		return err
	}
	// A server's change_cipher_spec may arrive from here on, and until the Opener
	// is given application keys.
	c.opener.AllowChangeCipherSpec(true)
	return c.flush()
}

// receiveHello receives a ServerHello or a HelloRetryRequest, and checks what both
// have in common (RFC 9846, Section 4.2.3).
func (c *clientHandshake) receiveHello() (*serverHello, error) {
	msg, err := c.receive(typeServerHello)
	if err != nil {
		return nil, err
	}
	h, err := parseServerHello(msg.body())
	if err != nil {
		return nil, err
	}
	allowed := []uint16{extSupportedVersions, extKeyShare}
	if h.isRetry() {
		allowed = append(allowed, extCookie)
	}
	if err := h.extensions.only(c.hello.extensions, allowed...); err != nil {
		return nil, err
	}
	// "A client which receives a legacy_session_id_echo field that does not match
	// what it sent in the ClientHello MUST abort the handshake with an
	// "illegal_parameter" alert."
	if !bytes.Equal(h.sessionID, c.hello.sessionID) {
		return nil, alertf(record.AlertIllegalParameter, "legacy_session_id is not echoed")
	}
	// "A client which receives a cipher suite that was not offered MUST abort the
	// handshake with an "illegal_parameter" alert."
	suite, ok := find(c.cfg.suites, h.suite)
	if !ok {
		return nil, alertf(record.AlertIllegalParameter, "suite %#04x was not offered", h.suite)
	}
	if h.isRetry() && !c.params.retried {
		// The hash is known now.
		c.transcript = messageHash(suite.Hash(), c.transcript)
	}
	c.params.suite = suite
	c.transcript = append(c.transcript, msg...)
	return h, nil
}

// retry answers a HelloRetryRequest (RFC 9846, Section 4.2.4): "the client MUST
// send the same ClientHello without modification", but for the key share and the
// cookie.
func (c *clientHandshake) retry(server *serverHello) error {
	c.params.retried = true
	// "Clients MUST abort the handshake with an "illegal_parameter" alert if the
	// HelloRetryRequest would not result in any change in the ClientHello."
	if !server.extensions.has(extKeyShare) && !server.extensions.has(extCookie) {
		return alertf(record.AlertIllegalParameter, "HelloRetryRequest that changes nothing")
	}
	if server.extensions.has(extKeyShare) {
		// "the client MUST verify that (1) the selected_group field corresponds to a
		// group which was provided in the "supported_groups" extension in the original
		// ClientHello and (2) the selected_group field does not correspond to a group
		// which was provided in the "key_share" extension in the original ClientHello."
		g, ok := find(c.cfg.groups, server.share.group)
		if !ok || c.keys[g.id] != nil {
			return alertf(record.AlertIllegalParameter, "HelloRetryRequest for group %#04x", server.share.group)
		}
		clear(c.keys)
		c.hello.shares = nil
		if err := c.addShare(g); err != nil {
			return err
		}
	}
	c.hello.cookie = server.cookie
	if err := c.sendChangeCipherSpec(); err != nil { // before the second flight
		return err
	}
	return c.sendHello()
}

// enterHandshake computes the handshake secrets from a ServerHello and puts both
// directions under handshake keys. From here on alerts are protected too.
func (c *clientHandshake) enterHandshake(server *serverHello) (*schedule, secrets, error) {
	// "This value MUST be in the same group as the KeyShareEntry value offered by the
	// client that the server has selected for the negotiated key exchange." (RFC
	// 9846, Section 4.3.8) After a HelloRetryRequest there is only one.
	if !server.extensions.has(extKeyShare) {
		return nil, secrets{}, alertf(record.AlertMissingExtension, "ServerHello without a key share")
	}
	g, ok := find(c.cfg.groups, server.share.group)
	if !ok || c.keys[g.id] == nil {
		return nil, secrets{}, alertf(record.AlertIllegalParameter, "key share for group %#04x", server.share.group)
	}
	c.params.group = g
	shared, err := g.sharedSecret(c.keys[g.id], server.share.key)
	if err != nil {
		return nil, secrets{}, err
	}
	schedule, err := newSchedule(c.params.suite)
	if err != nil {
		return nil, secrets{}, err
	}
	handshake, err := schedule.handshakeSecrets(shared, c.transcript)
	if err != nil {
		return nil, secrets{}, err
	}
	// The record that looks like TLS 1.2 comes before the second flight, unless it
	// has been sent before the second ClientHello.
	if err := c.sendChangeCipherSpec(); err != nil {
		return nil, secrets{}, err
	}
	if err := c.setWriteKeys(record.EpochHandshake, c.params.suite, handshake.client); err != nil {
		return nil, secrets{}, err
	}
	return schedule, handshake, c.setReadKeys(record.EpochHandshake, c.params.suite, handshake.server)
}

// receiveParameters receives EncryptedExtensions and, if it comes, CertificateRequest
// (RFC 9846, Section 4.4). It returns the Certificate message that follows them.
func (c *clientHandshake) receiveParameters() (message, error) {
	msg, err := c.receive(typeEncryptedExtensions)
	if err != nil {
		return nil, err
	}
	protocol, err := parseEncryptedExtensions(msg.body(), c.hello.extensions)
	if err != nil {
		return nil, err
	}
	if protocol != "" && !slices.Contains(c.cfg.protocols, protocol) {
		return nil, alertf(record.AlertIllegalParameter, "protocol %q was not offered", protocol)
	}
	c.params.protocol = protocol
	c.transcript = append(c.transcript, msg...)

	if msg, err = c.receive(typeCertificateRequest, typeCertificate); err != nil || msg.typ() == typeCertificate {
		return msg, err
	}
	if err := parseCertificateRequest(msg.body()); err != nil {
		return nil, err
	}
	c.certificateWanted = true
	c.transcript = append(c.transcript, msg...)
	return c.receive(typeCertificate)
}

// authenticate checks who the server is, by its Certificate, and receives the proof
// that it has the key, CertificateVerify (RFC 9846, Sections 4.5.1 and 4.5.2).
func (c *clientHandshake) authenticate(msg message) error {
	chain, err := parseCertificate(msg.body(), c.hello.extensions)
	if err != nil {
		return err
	}
	if c.params.certificates, err = verifyChain(chain, c.cfg.roots, c.cfg.serverName); err != nil {
		return err
	}
	c.transcript = append(c.transcript, msg...)

	if msg, err = c.receive(typeCertificateVerify); err != nil {
		return err
	}
	id, signature, err := parseCertificateVerify(msg.body())
	if err != nil {
		return err
	}
	// "the signature algorithm MUST be one offered in the client's
	// "signature_algorithms" extension [...]. In addition, the signature algorithm
	// MUST be compatible with the key in the sender's end-entity certificate."
	key := c.params.certificates[0].PublicKey
	scheme, ok := find(allSchemes, id)
	if !ok || !scheme.fits(key) {
		return alertf(record.AlertIllegalParameter, "signature algorithm %#04x", id)
	}
	// "If the verification fails, the receiver MUST terminate the handshake with a
	// "decrypt_error" alert."
	if !scheme.verify(key, signedContent(c.params.suite.Hash(), c.transcript), signature) {
		return alertf(record.AlertDecryptError, "wrong signature")
	}
	c.params.scheme = scheme
	c.transcript = append(c.transcript, msg...)
	return nil
}

// finish receives the server's Finished, answers it, and puts both directions
// under application keys (RFC 9846, Section 4.5.3).
func (c *clientHandshake) finish(schedule *schedule, handshake secrets) error {
	msg, err := c.receive(typeFinished)
	if err != nil {
		return err
	}
	suite := c.params.suite
	if err := c.checkFinished(suite, handshake.server, msg); err != nil {
		return err
	}
	// These secrets do not depend on what the client sends from here on, so the
	// server can send application data before it has this side's flight. Its first
	// records may have arrived already.
	application, err := schedule.applicationSecrets(c.transcript)
	if err != nil {
		return err
	}
	if err := c.setReadKeys(record.EpochApplication, suite, application.server); err != nil {
		return err
	}
	if c.certificateWanted {
		// "If the server requests certificate-based client authentication but no
		// suitable certificate is available, the client MUST send a Certificate message
		// containing no certificates" (RFC 9846, Section 4.5.1)
		if err := c.send(marshalCertificate(nil)); err != nil {
			return err
		}
	}
	if err := c.sendFinished(suite, handshake.client); err != nil {
		return err
	}
	if err := c.setWriteKeys(record.EpochApplication, suite, application.client); err != nil {
		return err
	}
	return c.flush()
}

// verifyChain verifies a server's certificates with crypto/x509.
func verifyChain(chain [][]byte, roots *x509.CertPool, name string) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	intermediates := x509.NewCertPool()
	for i, der := range chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, alertf(record.AlertBadCertificate, "%v", err)
		}
		certs = append(certs, cert)
		if i > 0 {
			intermediates.AddCert(cert)
		}
	}
	_, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: name})
	if err == nil {
		// "the digitalSignature bit MUST be set if the Key Usage extension is present"
		// (RFC 9846, Section 4.5.1.2)
		if usage := certs[0].KeyUsage; usage != 0 && usage&x509.KeyUsageDigitalSignature == 0 {
			return nil, alertf(record.AlertUnsupportedCertificate, "the certificate's key is not for signatures")
		}
		return certs, nil
	}
	alert := record.AlertBadCertificate
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		alert = record.AlertUnknownCA
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		alert = record.AlertCertificateExpired
	}
	return nil, alertf(alert, "%v", err)
}
