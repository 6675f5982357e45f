//go:build tlsstack

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"example.com/splitseal/record"
)

// stack does the handshakes of examples/tlsstack. This file is only built among
// those of that program; see buildOwn.
type stack struct {
	client clientConfig
	server serverConfig
}

func newStack(o *options) (*stack, error) {
	switch {
	case o.noTLS13, o.maxVersion != 0 && o.maxVersion < 0x0304,
		o.resumeCount > 0, o.exportSecrets, o.exportSize > 0,
		o.requireClientCert, o.verifyPeer && o.server, !o.server && o.certFile != "",
		len(o.signingPrefs) > 0, o.ocspResponse != nil, o.expectOCSP != nil, o.expectVerified,
		o.echConfigList != nil, o.echServerConfig != nil,
		o.rejectALPN, o.declineALPN:
		return nil, fmt.Errorf("%w: not in this stack", errUnimplemented)
	}
	s := &stack{client: clientConfig{serverName: "test"}}
	if o.hostName != "" {
		s.client.serverName = o.hostName
	}
	list, err := o.protocols()
	if err != nil {
		return nil, err
	}
	s.client.protocols, s.server.protocols = list, list
	for _, id := range o.curves {
		g, ok := find(allGroups, uint16(id))
		if !ok {
			return nil, fmt.Errorf("%w: group %d", errUnimplemented, id)
		}
		s.client.groups = append(s.client.groups, g)
	}
	s.server.groups = s.client.groups
	if o.trustCert != "" {
		text, err := os.ReadFile(o.trustCert)
		if err != nil {
			return nil, err
		}
		s.client.roots = x509.NewCertPool()
		s.client.roots.AppendCertsFromPEM(text)
	}
	if o.server {
		cert, err := loadCertificate(o.certFile, o.keyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnimplemented, err)
		}
		if !slices.ContainsFunc(allSchemes, func(sch *scheme) bool { return sch.fits(cert.key.Public()) }) {
			return nil, fmt.Errorf("%w: signing with %T", errUnimplemented, cert.key)
		}
		s.server.certificates = []*certificate{cert}
	}
	return s, nil
}

func (s *stack) handshake(_ context.Context, conn net.Conn, o *options, _ bool) (*peer, error) {
	if o.keepBuffer || o.dynamic || o.padding || o.maxFragment > 0 {
		return nil, fmt.Errorf("%w: not in this stack", errUnimplemented)
	}
	var c *record.Conn
	var p *parameters
	var err error
	if o.server {
		c, p, err = server(conn, s.server)
	} else {
		c, p, err = client(conn, s.client)
	}
	if err != nil {
		var ours *alertError
		var theirs *record.AlertError
		if errors.As(err, &ours) && ours.alert == record.AlertProtocolVersion ||
			errors.As(err, &theirs) && theirs.Alert == record.AlertProtocolVersion {
			err = fmt.Errorf("%w: %w", errUnimplemented, err)
		}
		return nil, err
	}
	alpn := o.expectALPN
	if o.server {
		alpn = o.selectALPN
	}
	switch {
	case o.expectVersion != 0 && o.expectVersion != 0x0304,
		o.expectECHAccept,
		o.expectCurve != 0 && o.expectCurve != int(p.group.id),
		o.expectCipher != 0 && o.expectCipher != int(p.suite.ID()),
		alpn != p.protocol,
		o.expectServerName != "" && o.expectServerName != p.serverName,
		o.expectHRR && !p.retried, o.expectNoHRR && p.retried:
		return nil, fmt.Errorf("negotiated otherwise: %v", p)
	}
	return &peer{conn: c, end: func() error { return nil }}, nil
}
