package main

import (
	"slices"

	"example.com/splitseal/record"
	"golang.org/x/crypto/cryptobyte"
)

// Handshake types (RFC 9846, Section 4).
const (
	typeClientHello         = 1
	typeServerHello         = 2
	typeEncryptedExtensions = 8
	typeCertificate         = 11
	typeCertificateRequest  = 13
	typeCertificateVerify   = 15
	typeFinished            = 20
	typeMessageHash         = 254
)

// Extension types (RFC 9846, Section 4.3).
const (
	extServerName              = 0
	extSupportedGroups         = 10
	extSignatureAlgorithms     = 13
	extALPN                    = 16
	extPreSharedKey            = 41
	extEarlyData               = 42
	extSupportedVersions       = 43
	extCookie                  = 44
	extPSKKeyExchangeModes     = 45
	extSignatureAlgorithmsCert = 50
	extKeyShare                = 51
)

const (
	versionTLS12 = 0x0303 // legacy_version
	versionTLS13 = 0x0304
	randomSize   = 32
)

// helloRetryRandom is the random of a HelloRetryRequest, the SHA-256 of
// "HelloRetryRequest" (RFC 9846, Section 4.2.3).
const helloRetryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// malformed is a message that does not have its syntax.
func malformed(what string) error {
	return alertf(record.AlertDecodeError, "malformed %s", what)
}

// clientHello is a ClientHello message (RFC 9846, Section 4.2.2).
type clientHello struct {
	random     []byte
	sessionID  []byte
	suites     []uint16
	extensions *extensions
	offer
}

// offer is what the extensions of a ClientHello say.
type offer struct {
	serverName  string     // empty if absent
	groups      []uint16   // supported_groups
	schemes     []uint16   // signature_algorithms
	certSchemes []uint16   // signature_algorithms_cert
	protocols   []string   // application_layer_protocol_negotiation
	shares      []keyShare // key_share
	cookie      []byte     // empty if absent
}

// keyShare is a KeyShareEntry (RFC 9846, Section 4.3.8).
type keyShare struct {
	group uint16
	key   []byte
}

func addKeyShare(b *cryptobyte.Builder, k keyShare) {
	b.AddUint16(k.group)
	addBytes16(b, k.key)
}

func readKeyShare(s *cryptobyte.String, k *keyShare) bool {
	return s.ReadUint16(&k.group) && readBytes16(s, &k.key) && len(k.key) > 0
}

// marshal also sets h.extensions.
func (h *clientHello) marshal() ([]byte, error) {
	e := new(extensions)
	h.extensions = e
	if h.serverName != "" {
		e.add(extServerName, func(b *cryptobyte.Builder) {
			b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
				b.AddUint8(0) // host_name
				addBytes16(b, []byte(h.serverName))
			})
		})
	}
	e.add(extSupportedVersions, func(b *cryptobyte.Builder) {
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddUint16(versionTLS13) })
	})
	e.add(extSupportedGroups, func(b *cryptobyte.Builder) { addUint16s(b, h.groups) })
	e.add(extSignatureAlgorithms, func(b *cryptobyte.Builder) { addUint16s(b, h.schemes) })
	e.add(extSignatureAlgorithmsCert, func(b *cryptobyte.Builder) { addUint16s(b, h.certSchemes) })
	if len(h.protocols) > 0 {
		e.add(extALPN, func(b *cryptobyte.Builder) { addProtocols(b, h.protocols) })
	}
	if len(h.cookie) > 0 {
		e.add(extCookie, func(b *cryptobyte.Builder) { addBytes16(b, h.cookie) })
	}
	e.add(extKeyShare, func(b *cryptobyte.Builder) {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, share := range h.shares {
				addKeyShare(b, share)
			}
		})
	})
	return marshalMessage(typeClientHello, func(b *cryptobyte.Builder) {
		b.AddUint16(versionTLS12)
		b.AddBytes(h.random)
		addBytes8(b, h.sessionID)
		addUint16s(b, h.suites)
		b.AddBytes([]byte{1, 0}) // legacy_compression_methods: null
		e.marshal(b)
	})
}

// parseClientHello reads what every ClientHello has, and then, if it offers TLS
// 1.3, its extensions.
func parseClientHello(body []byte) (*clientHello, error) {
	h := new(clientHello)
	s := cryptobyte.String(body)
	var version uint16
	var compression []byte
	if !s.ReadUint16(&version) || !s.ReadBytes(&h.random, randomSize) ||
		!readBytes8(&s, &h.sessionID) || len(h.sessionID) > 32 ||
		!readUint16s(&s, &h.suites) ||
		!readBytes8(&s, &compression) || len(compression) == 0 {
		return nil, malformed("ClientHello")
	}
	if s.Empty() {
		return nil, alertf(record.AlertProtocolVersion, "ClientHello of TLS 1.2 or before")
	}
	var err error
	if h.extensions, err = readExtensions(&s); err != nil {
		return nil, err
	}
	if !s.Empty() {
		return nil, malformed("ClientHello")
	}

	// "TLS 1.3 ClientHellos are identified as having a legacy_version of 0x0303 and
	// a supported_versions extension present with 0x0304" (RFC 9846, Section 4.2.2)
	var versions []uint16
	h.extensions.read(extSupportedVersions, func(s *cryptobyte.String) bool {
		var list cryptobyte.String
		return s.ReadUint8LengthPrefixed(&list) && readAllUint16s(list, &versions)
	})
	if h.extensions.err == nil && (version != versionTLS12 || !slices.Contains(versions, versionTLS13)) {
		return nil, alertf(record.AlertProtocolVersion, "client does not offer TLS 1.3")
	}
	// "If a TLS 1.3 ClientHello is received with any other value in this field, the
	// server MUST abort the handshake with an "illegal_parameter" alert."
	if len(compression) != 1 || compression[0] != 0 {
		return nil, alertf(record.AlertIllegalParameter, "client offers compression")
	}
	return h, h.parseExtensions()
}

func (h *clientHello) parseExtensions() error {
	e := h.extensions
	e.read(extServerName, func(s *cryptobyte.String) bool {
		var list cryptobyte.String
		ok := s.ReadUint16LengthPrefixed(&list) && !list.Empty()
		for ok && !list.Empty() {
			var nameType uint8
			var name []byte
			ok = list.ReadUint8(&nameType) && readBytes16(&list, &name) && len(name) > 0
			if nameType == 0 {
				h.serverName = string(name)
			}
		}
		return ok
	})
	e.read(extSupportedGroups, func(s *cryptobyte.String) bool { return readUint16s(s, &h.groups) })
	e.read(extSignatureAlgorithms, func(s *cryptobyte.String) bool { return readUint16s(s, &h.schemes) })
	e.read(extALPN, func(s *cryptobyte.String) bool { return readProtocols(s, &h.protocols) })
	e.read(extCookie, func(s *cryptobyte.String) bool { return readBytes16(s, &h.cookie) && len(h.cookie) > 0 })
	e.read(extKeyShare, func(s *cryptobyte.String) bool {
		var list cryptobyte.String
		ok := s.ReadUint16LengthPrefixed(&list)
		for ok && !list.Empty() {
			var share keyShare
			ok = readKeyShare(&list, &share)
			h.shares = append(h.shares, share)
		}
		return ok
	})
	if e.err != nil {
		return e.err
	}
	// "with the exception of "pre_shared_key" [...] which MUST be the last extension in
	// the ClientHello" (RFC 9846, Section 4.3). It is not used otherwise.
	if i := slices.Index(e.types(), extPreSharedKey); i >= 0 && i != len(e.list)-1 {
		return alertf(record.AlertIllegalParameter, "pre_shared_key is not the last extension")
	}
	// "If clients offer "pre_shared_key" without a "psk_key_exchange_modes"
	// extension, servers MUST abort the handshake." (RFC 9846, Section 4.3.9) That
	// includes servers that select no PSK.
	if e.has(extPreSharedKey) && !e.has(extPSKKeyExchangeModes) {
		return alertf(record.AlertMissingExtension, "pre_shared_key without psk_key_exchange_modes")
	}
	// "If not containing a "pre_shared_key" extension, it MUST contain both a
	// "signature_algorithms" extension and a "supported_groups" extension. If
	// containing a "supported_groups" extension, it MUST also contain a "key_share"
	// extension, and vice versa." (RFC 9846, Section 9.2) As no PSK is ever
	// selected, all three are needed.
	for _, needed := range []uint16{extSignatureAlgorithms, extSupportedGroups, extKeyShare} {
		if !e.has(needed) {
			return alertf(record.AlertMissingExtension, "no extension %d", needed)
		}
	}
	// "Clients MUST NOT offer multiple KeyShareEntry values for the same group.
	// Clients MUST NOT offer any KeyShareEntry values for groups not listed in the
	// client's "supported_groups" extension." (RFC 9846, Section 4.3.8)
	seen := make(map[uint16]bool)
	for _, share := range h.shares {
		if seen[share.group] || !slices.Contains(h.groups, share.group) {
			return alertf(record.AlertIllegalParameter, "unexpected key share")
		}
		seen[share.group] = true
	}
	return nil
}

// serverHello is a ServerHello or, with helloRetryRandom, a HelloRetryRequest
// message (RFC 9846, Sections 4.2.3 and 4.2.4).
type serverHello struct {
	random     []byte
	sessionID  []byte
	suite      uint16
	extensions *extensions

	share  keyShare // a HelloRetryRequest's has no key, and group 0 if absent
	cookie []byte   // only in a HelloRetryRequest
}

func (h *serverHello) isRetry() bool { return string(h.random) == helloRetryRandom }

func (h *serverHello) marshal() ([]byte, error) {
	e := new(extensions)
	e.add(extSupportedVersions, func(b *cryptobyte.Builder) { b.AddUint16(versionTLS13) })
	switch {
	case !h.isRetry():
		e.add(extKeyShare, func(b *cryptobyte.Builder) { addKeyShare(b, h.share) })
	case h.share.group != 0:
		e.add(extKeyShare, func(b *cryptobyte.Builder) { b.AddUint16(h.share.group) })
	}
	if len(h.cookie) > 0 {
		e.add(extCookie, func(b *cryptobyte.Builder) { addBytes16(b, h.cookie) })
	}
	return marshalMessage(typeServerHello, func(b *cryptobyte.Builder) {
		b.AddUint16(versionTLS12)
		b.AddBytes(h.random)
		addBytes8(b, h.sessionID)
		b.AddUint16(h.suite)
		b.AddUint8(0) // legacy_compression_method
		e.marshal(b)
	})
}

func parseServerHello(body []byte) (*serverHello, error) {
	h := new(serverHello)
	s := cryptobyte.String(body)
	var legacyVersion uint16
	var compression uint8
	if !s.ReadUint16(&legacyVersion) || !s.ReadBytes(&h.random, randomSize) ||
		!readBytes8(&s, &h.sessionID) || len(h.sessionID) > 32 ||
		!s.ReadUint16(&h.suite) || !s.ReadUint8(&compression) {
		return nil, malformed("ServerHello")
	}
	h.extensions = new(extensions)
	if !s.Empty() { // TLS 1.2 need not have any
		var err error
		if h.extensions, err = readExtensions(&s); err != nil {
			return nil, err
		}
		if !s.Empty() {
			return nil, malformed("ServerHello")
		}
	}

	// "clients MUST check for this extension prior to processing the rest of the
	// ServerHello." (RFC 9846, Section 4.3.1)
	if !h.extensions.has(extSupportedVersions) {
		// "TLS 1.3 clients receiving a ServerHello indicating TLS 1.2 or below MUST
		// check that the last 8 bytes are not equal to either of these values."
		if last := string(h.random[randomSize-8:]); last == "DOWNGRD\x00" || last == "DOWNGRD\x01" {
			return nil, alertf(record.AlertIllegalParameter, "downgraded to TLS 1.2 or before")
		}
		return nil, alertf(record.AlertProtocolVersion, "server has chosen TLS 1.2 or before")
	}
	var version uint16
	e := h.extensions
	e.read(extSupportedVersions, func(s *cryptobyte.String) bool { return s.ReadUint16(&version) })
	e.read(extKeyShare, func(s *cryptobyte.String) bool {
		if h.isRetry() {
			return s.ReadUint16(&h.share.group)
		}
		return readKeyShare(s, &h.share)
	})
	e.read(extCookie, func(s *cryptobyte.String) bool { return readBytes16(s, &h.cookie) && len(h.cookie) > 0 })
	switch {
	case e.err != nil:
		return nil, e.err
	case version != versionTLS13:
		return nil, alertf(record.AlertIllegalParameter, "server has chosen version %#04x", version)
	case legacyVersion != versionTLS12:
		return nil, alertf(record.AlertProtocolVersion, "legacy_version is %#04x", legacyVersion)
	case compression != 0:
		return nil, alertf(record.AlertIllegalParameter, "server has chosen compression")
	}
	return h, nil
}

// marshalEncryptedExtensions makes an EncryptedExtensions message (RFC 9846, Section
// 4.4.1). An empty protocol means none.
func marshalEncryptedExtensions(usedName bool, protocol string) ([]byte, error) {
	e := new(extensions)
	if usedName {
		e.add(extServerName, func(*cryptobyte.Builder) {})
	}
	if protocol != "" {
		e.add(extALPN, func(b *cryptobyte.Builder) { addProtocols(b, []string{protocol}) })
	}
	return marshalMessage(typeEncryptedExtensions, e.marshal)
}

// parseEncryptedExtensions returns the protocol, empty if there is none.
func parseEncryptedExtensions(body []byte, offered *extensions) (protocol string, err error) {
	s := cryptobyte.String(body)
	e, err := readExtensions(&s)
	if err != nil {
		return "", err
	}
	if !s.Empty() {
		return "", malformed("EncryptedExtensions")
	}
	if err := e.only(offered, extServerName, extSupportedGroups, extALPN); err != nil {
		return "", err
	}
	e.read(extServerName, func(*cryptobyte.String) bool { return true }) // no data
	e.read(extALPN, func(s *cryptobyte.String) bool {
		var list []string
		if !readProtocols(s, &list) || len(list) != 1 {
			return false
		}
		protocol = list[0]
		return true
	})
	return protocol, e.err
}

// parseCertificateRequest checks a CertificateRequest message (RFC 9846, Section
// 4.4.2). Whatever it asks for, there is no certificate to answer with.
func parseCertificateRequest(body []byte) error {
	s := cryptobyte.String(body)
	var context []byte
	if !readBytes8(&s, &context) {
		return malformed("CertificateRequest")
	}
	e, err := readExtensions(&s)
	switch {
	case err != nil:
		return err
	case !s.Empty():
		return malformed("CertificateRequest")
	case len(context) > 0:
		// "This field SHALL be zero length unless used for the post-handshake
		// authentication exchanges"
		return alertf(record.AlertIllegalParameter, "CertificateRequest with a context")
	case !e.has(extSignatureAlgorithms):
		// "The "signature_algorithms" extension MUST be specified"
		return alertf(record.AlertMissingExtension, "CertificateRequest without signature_algorithms")
	}
	return nil
}

// marshalCertificate makes a Certificate message of DER-encoded certificates,
// the end-entity's first (RFC 9846, Section 4.5.1).
func marshalCertificate(chain [][]byte) ([]byte, error) {
	return marshalMessage(typeCertificate, func(b *cryptobyte.Builder) {
		b.AddUint8(0) // certificate_request_context
		b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, cert := range chain {
				b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(cert) })
				b.AddUint16(0) // extensions
			}
		})
	})
}

// parseCertificate returns the DER-encoded certificates, at least one.
func parseCertificate(body []byte, offered *extensions) (chain [][]byte, err error) {
	s := cryptobyte.String(body)
	var context []byte
	var list cryptobyte.String
	if !readBytes8(&s, &context) || !s.ReadUint24LengthPrefixed(&list) || !s.Empty() {
		return nil, malformed("Certificate")
	}
	if len(context) > 0 {
		return nil, alertf(record.AlertIllegalParameter, "Certificate with a context")
	}
	// "If the server supplies an empty Certificate message, the client MUST abort
	// the handshake with a "decode_error" alert." (RFC 9846, Section 4.5.1.3)
	if list.Empty() {
		return nil, alertf(record.AlertDecodeError, "no certificate")
	}
	for !list.Empty() {
		var cert cryptobyte.String
		if !list.ReadUint24LengthPrefixed(&cert) || cert.Empty() {
			return nil, malformed("Certificate")
		}
		e, err := readExtensions(&list)
		if err == nil {
			err = e.only(offered) // none that we offer belongs here
		}
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// marshalCertificateVerify makes a CertificateVerify message (RFC 9846, Section
// 4.5.2).
func marshalCertificateVerify(scheme uint16, signature []byte) ([]byte, error) {
	return marshalMessage(typeCertificateVerify, func(b *cryptobyte.Builder) {
		b.AddUint16(scheme)
		addBytes16(b, signature)
	})
}

func parseCertificateVerify(body []byte) (scheme uint16, signature []byte, err error) {
	s := cryptobyte.String(body)
	if !s.ReadUint16(&scheme) || !readBytes16(&s, &signature) || !s.Empty() {
		return 0, nil, malformed("CertificateVerify")
	}
	return scheme, signature, nil
}

// extensions is a block of extensions (RFC 9846, Section 4.3).
type extensions struct {
	list []extension
	err  error // the first of read's, or of add's
}

type extension struct {
	typ  uint16
	data []byte
}

func (e *extensions) add(typ uint16, data func(b *cryptobyte.Builder)) {
	var b cryptobyte.Builder
	data(&b)
	bytes, err := b.Bytes()
	if e.err == nil {
		e.err = err
	}
	e.list = append(e.list, extension{typ, bytes})
}

func (e *extensions) marshal(b *cryptobyte.Builder) {
	if e.err != nil {
		b.SetError(e.err)
	}
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		for _, x := range e.list {
			b.AddUint16(x.typ)
			addBytes16(b, x.data)
		}
	})
}

func readExtensions(s *cryptobyte.String) (*extensions, error) {
	e := new(extensions)
	var block cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&block) {
		return nil, malformed("extensions")
	}
	seen := make(map[uint16]bool)
	for !block.Empty() {
		var x extension
		if !block.ReadUint16(&x.typ) || !readBytes16(&block, &x.data) {
			return nil, malformed("extensions")
		}
		// "There MUST NOT be more than one extension of the same type in a given
		// extension block."
		if seen[x.typ] {
			return nil, alertf(record.AlertIllegalParameter, "two extensions %d", x.typ)
		}
		seen[x.typ] = true
		e.list = append(e.list, x)
	}
	return e, nil
}

// read passes the data of the extension of this type to parse, if there is one.
//
// "When processing an extension, receivers MUST abort the handshake with a
// "decode_error" alert if there is data left over after parsing the structure."
func (e *extensions) read(typ uint16, parse func(s *cryptobyte.String) bool) {
	data, ok := e.get(typ)
	if !ok || e.err != nil {
		return
	}
	s := cryptobyte.String(data)
	if !parse(&s) || !s.Empty() {
		e.err = alertf(record.AlertDecodeError, "malformed extension %d", typ)
	}
}

func (e *extensions) get(typ uint16) (data []byte, ok bool) {
	for _, x := range e.list {
		if x.typ == typ {
			return x.data, true
		}
	}
	return nil, false
}

func (e *extensions) has(typ uint16) bool { _, ok := e.get(typ); return ok }

func (e *extensions) types() []uint16 {
	var types []uint16
	for _, x := range e.list {
		types = append(types, x.typ)
	}
	return types
}

// only checks the extensions of a server's message against those that it may
// hold. Those that the client did not offer come first:
//
// "Implementations MUST NOT send extension responses [...] if the remote endpoint
// did not send the corresponding extension requests, with the exception of the
// "cookie" extension in the HelloRetryRequest. Upon receiving such an extension,
// an endpoint MUST abort the handshake with an "unsupported_extension" alert."
//
// "If an implementation receives an extension which it recognizes and which is not
// specified for the message in which it appears, it MUST abort the handshake with
// an "illegal_parameter" alert."
func (e *extensions) only(offered *extensions, allowed ...uint16) error {
	for _, typ := range e.types() {
		cookie := typ == extCookie && slices.Contains(allowed, extCookie)
		if !offered.has(typ) && !cookie {
			return alertf(record.AlertUnsupportedExtension, "extension %d was not offered", typ)
		}
		if !slices.Contains(allowed, typ) {
			return alertf(record.AlertIllegalParameter, "extension %d in the wrong message", typ)
		}
	}
	return nil
}

// marshalMessage puts the header of a handshake message in front of its body.
func marshalMessage(typ uint8, body func(b *cryptobyte.Builder)) ([]byte, error) {
	var b cryptobyte.Builder
	b.AddUint8(typ)
	b.AddUint24LengthPrefixed(body)
	return b.Bytes()
}

func addBytes8(b *cryptobyte.Builder, p []byte) {
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(p) })
}

func addBytes16(b *cryptobyte.Builder, p []byte) {
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(p) })
}

func addUint16s(b *cryptobyte.Builder, list []uint16) {
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		for _, n := range list {
			b.AddUint16(n)
		}
	})
}

func addProtocols(b *cryptobyte.Builder, list []string) {
	b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
		for _, name := range list {
			addBytes8(b, []byte(name))
		}
	})
}

func readBytes8(s *cryptobyte.String, p *[]byte) bool {
	return s.ReadUint8LengthPrefixed((*cryptobyte.String)(p))
}

func readBytes16(s *cryptobyte.String, p *[]byte) bool {
	return s.ReadUint16LengthPrefixed((*cryptobyte.String)(p))
}

// readUint16s reads a list, which must not be empty.
func readUint16s(s *cryptobyte.String, list *[]uint16) bool {
	var content cryptobyte.String
	return s.ReadUint16LengthPrefixed(&content) && readAllUint16s(content, list)
}

func readAllUint16s(s cryptobyte.String, list *[]uint16) bool {
	for !s.Empty() {
		var n uint16
		if !s.ReadUint16(&n) {
			return false
		}
		*list = append(*list, n)
	}
	return len(*list) > 0
}

// readProtocols reads a list of names. Neither the list nor a name may be empty.
func readProtocols(s *cryptobyte.String, list *[]string) bool {
	var content cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&content) {
		return false
	}
	for !content.Empty() {
		var name []byte
		if !readBytes8(&content, &name) || len(name) == 0 {
			return false
		}
		*list = append(*list, string(name))
	}
	return len(*list) > 0
}
