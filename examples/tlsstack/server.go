package main

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"net"
	"slices"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// serverConfig says what a server accepts. A field that is not set means everything
// there is.
type serverConfig struct {
	certificates []*certificate // the first one for clients that name no server
	protocols    []string       // ALPN, best first; nil ignores what clients offer
	suites       []*aead.Suite  // best first
	groups       []*group       // best first
}

// certificate is a chain and the key of its first certificate.
type certificate struct {
	chain [][]byte // DER
	leaf  *x509.Certificate
	key   crypto.Signer
}

// server does a server's handshake over transport.
func server(transport net.Conn, cfg serverConfig) (*record.Conn, *parameters, error) {
	if cfg.suites == nil {
		cfg.suites = aead.Suites()
	}
	if cfg.groups == nil {
		cfg.groups = allGroups
	}
	s := &serverHandshake{link: newLink(transport), cfg: cfg}
	return s.run(record.RoleServer, s.handshake)
}

// serverHandshake is a server's side of one handshake, whose flights are drawn above
// clientHandshake. Its methods are in the order in which they run.
type serverHandshake struct {
	*link
	cfg    serverConfig
	hello  *clientHello
	cert   *certificate
	named  bool // cert was chosen by the name that the client sent
	params parameters
}

func (s *serverHandshake) handshake() (*parameters, error) {
	if err := s.receiveHello(); err != nil {
		return nil, err
	}
	if err := s.negotiate(); err != nil {
		return nil, err
	}
	share, err := s.selectShare()
	if err != nil {
		return nil, err
	}
	schedule, handshake, err := s.enterHandshake(share)
	if err != nil {
		return nil, err
	}
	defer schedule.wipe()
	if err := s.finish(schedule, handshake); err != nil {
		return nil, err
	}
	return &s.params, nil
}

// receiveHello receives the first ClientHello (RFC 9846, Section 4.2.2).
func (s *serverHandshake) receiveHello() (err error) {
	msg, err := s.receive(typeClientHello)
	if err != nil {
		return err
	}
	// A client's change_cipher_spec may arrive from here on, and until the Opener is
	// given application keys.
	s.opener.AllowChangeCipherSpec(true)
	if s.hello, err = parseClientHello(msg.body()); err != nil {
		return err
	}
	s.transcript = append(s.transcript, msg...)
	if s.hello.extensions.has(extEarlyData) {
		// It is not accepted. The records that carry it are dropped (RFC 9846, Section
		// 4.3.10).
		s.opener.SkipEarlyData(maxEarlyData)
	}
	return nil
}

// maxEarlyData is how many bytes of early data are dropped before the client is
// taken to be broken. This server has never promised to take any.
const maxEarlyData = 1 << 14

// negotiate chooses all but the key share: suite, certificate, signature algorithm
// and protocol (RFC 9846, Section 4.2.1).
func (s *serverHandshake) negotiate() error {
	// "If the server is unable to negotiate a supported set of parameters [...], it
	// MUST abort the handshake with either a "handshake_failure" or
	// "insufficient_security" fatal alert"
	var ok bool
	if s.params.suite, ok = find(s.cfg.suites, s.hello.suites...); !ok {
		return alertf(record.AlertHandshakeFailure, "no suite in common")
	}
	if !s.chooseCertificate() {
		return alertf(record.AlertHandshakeFailure, "no signature algorithm in common")
	}
	s.params.serverName = s.hello.serverName

	// "In the event that the server supports no protocols that the client advertises,
	// then the server SHALL respond with a fatal "no_application_protocol" alert."
	// (RFC 7301, Section 3.2)
	if len(s.hello.protocols) > 0 && len(s.cfg.protocols) > 0 {
		i := slices.IndexFunc(s.cfg.protocols, func(p string) bool { return slices.Contains(s.hello.protocols, p) })
		if i < 0 {
			return alertf(record.AlertNoApplicationProtocol, "no protocol in common")
		}
		s.params.protocol = s.cfg.protocols[i]
	}
	return nil
}

// chooseCertificate chooses the first certificate that is valid for the name that
// the client has sent, or else the first one, among those whose key can sign with
// an algorithm that the client verifies.
func (s *serverHandshake) chooseCertificate() bool {
	for _, cert := range s.cfg.certificates {
		i := slices.IndexFunc(allSchemes, func(sch *scheme) bool {
			return sch.fits(cert.key.Public()) && slices.Contains(s.hello.schemes, sch.id)
		})
		if i < 0 {
			continue
		}
		named := s.hello.serverName != "" && cert.leaf.VerifyHostname(s.hello.serverName) == nil
		if s.cert == nil || named {
			s.cert, s.named, s.params.scheme = cert, named, allSchemes[i]
		}
		if named {
			break
		}
	}
	return s.cert != nil
}

// selectShare returns the client's key share for the best of the groups that it sent
// one for. If there is none, it asks for one with a HelloRetryRequest.
func (s *serverHandshake) selectShare() (keyShare, error) {
	if share, ok := s.findShare(); ok {
		return share, nil
	}
	// "If there is no overlap between the received "supported_groups" and the groups
	// supported by the server, then the server MUST abort the handshake with a
	// "handshake_failure" or an "insufficient_security" alert." (RFC 9846, Section
	// 4.2.1)
	g, ok := find(s.cfg.groups, s.hello.groups...)
	if !ok {
		return keyShare{}, alertf(record.AlertHandshakeFailure, "no group in common")
	}
	if err := s.sendRetry(g); err != nil {
		return keyShare{}, err
	}
	if err := s.receiveSecondHello(); err != nil {
		return keyShare{}, err
	}
	// "the client MUST replace the original "key_share" extension with one containing
	// only a new KeyShareEntry for the group indicated" (RFC 9846, Section 4.3.8)
	if share, ok := s.findShare(); ok && share.group == g.id && len(s.hello.shares) == 1 {
		return share, nil
	}
	return keyShare{}, alertf(record.AlertIllegalParameter, "second ClientHello without the key share")
}

func (s *serverHandshake) findShare() (keyShare, bool) {
	for _, g := range s.cfg.groups {
		for _, share := range s.hello.shares {
			if share.group == g.id {
				s.params.group = g
				return share, true
			}
		}
	}
	return keyShare{}, false
}

// sendRetry sends a HelloRetryRequest (RFC 9846, Section 4.2.4).
func (s *serverHandshake) sendRetry(g *group) error {
	s.params.retried = true
	s.transcript = messageHash(s.params.suite.Hash(), s.transcript)
	retry := &serverHello{
		random:    []byte(helloRetryRandom),
		sessionID: s.hello.sessionID,
		suite:     s.params.suite.ID(),
		share:     keyShare{group: g.id},
	}
	if err := s.send(retry.marshal()); err != nil {
		return err
	}
	if err := s.answerCompatibilityMode(); err != nil {
		return err
	}
	return s.flush()
}

// answerCompatibilityMode: "if the client sends a non-empty session ID, the server
// MUST send the change_cipher_spec" (RFC 9846, Appendix E.4), "immediately after
// its first handshake message".
func (s *serverHandshake) answerCompatibilityMode() error {
	if len(s.hello.sessionID) == 0 {
		return nil
	}
	return s.sendChangeCipherSpec()
}

// receiveSecondHello receives the answer to a HelloRetryRequest: "the client MUST
// send the same ClientHello without modification", with some exceptions, none of them
// in what was used to negotiate.
func (s *serverHandshake) receiveSecondHello() error {
	msg, err := s.receive(typeClientHello)
	if err != nil {
		return err
	}
	second, err := parseClientHello(msg.body())
	if err != nil {
		return err
	}
	same := bytes.Equal(s.hello.random, second.random) &&
		bytes.Equal(s.hello.sessionID, second.sessionID) &&
		slices.Equal(s.hello.suites, second.suites)
	for _, typ := range []uint16{extServerName, extSupportedGroups, extSignatureAlgorithms, extALPN, extSupportedVersions} {
		before, had := s.hello.extensions.get(typ)
		after, has := second.extensions.get(typ)
		same = same && had == has && bytes.Equal(before, after)
	}
	if !same {
		return alertf(record.AlertIllegalParameter, "the second ClientHello differs")
	}
	s.hello = second
	s.transcript = append(s.transcript, msg...)
	return nil
}

// enterHandshake sends the ServerHello (RFC 9846, Section 4.2.3), computes the
// handshake secrets, and puts both directions under handshake keys.
func (s *serverHandshake) enterHandshake(client keyShare) (*schedule, secrets, error) {
	g := s.params.group
	key, err := g.curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, secrets{}, err
	}
	shared, err := g.sharedSecret(key, client.key)
	if err != nil {
		return nil, secrets{}, err
	}
	hello := &serverHello{
		random:    make([]byte, randomSize),
		sessionID: s.hello.sessionID,
		suite:     s.params.suite.ID(),
		share:     keyShare{g.id, key.PublicKey().Bytes()},
	}
	rand.Read(hello.random)
	if err := s.send(hello.marshal()); err != nil {
		return nil, secrets{}, err
	}
	if err := s.answerCompatibilityMode(); err != nil {
		return nil, secrets{}, err
	}
	schedule, err := newSchedule(s.params.suite)
	if err != nil {
		return nil, secrets{}, err
	}
	handshake, err := schedule.handshakeSecrets(shared, s.transcript)
	if err != nil {
		return nil, secrets{}, err
	}
	if err := s.setWriteKeys(record.EpochHandshake, s.params.suite, handshake.server); err != nil {
		return nil, secrets{}, err
	}
	return schedule, handshake, s.setReadKeys(record.EpochHandshake, s.params.suite, handshake.client)
}

// finish sends the rest of the flight, EncryptedExtensions to Finished, and
// receives the client's Finished (RFC 9846, Sections 4.4 and 4.5).
func (s *serverHandshake) finish(schedule *schedule, handshake secrets) error {
	suite := s.params.suite
	if err := s.send(marshalEncryptedExtensions(s.named, s.params.protocol)); err != nil {
		return err
	}
	if err := s.send(marshalCertificate(s.cert.chain)); err != nil {
		return err
	}
	signature, err := s.params.scheme.sign(s.cert.key, signedContent(suite.Hash(), s.transcript))
	if err != nil {
		return err
	}
	if err := s.send(marshalCertificateVerify(s.params.scheme.id, signature)); err != nil {
		return err
	}
	if err := s.sendFinished(suite, handshake.server); err != nil {
		return err
	}

	// "Any records following a Finished message MUST be encrypted under the
	// appropriate application traffic key" (RFC 9846, Section 4.5.3), including
	// alerts about what the client sends next. Reading stays under handshake keys.
	application, err := schedule.applicationSecrets(s.transcript)
	if err != nil {
		return err
	}
	if err := s.setWriteKeys(record.EpochApplication, suite, application.server); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}

	msg, err := s.receive(typeFinished)
	if err != nil {
		return err
	}
	if err := s.checkFinished(suite, handshake.client, msg); err != nil {
		return err
	}
	return s.setReadKeys(record.EpochApplication, suite, application.client)
}
