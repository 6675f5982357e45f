//go:build !tlsstack

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"example.com/splitseal/interop/cryptotls"
	"example.com/splitseal/record"
)

// stack does handshakes by package cryptotls.
type stack struct {
	config *tls.Config
	cache  *cache
	log    bytes.Buffer
}

// cache counts the sessions that are stored.
type cache struct {
	tls.ClientSessionCache
	stored int
}

func (c *cache) Put(key string, s *tls.ClientSessionState) {
	if s != nil {
		c.stored++
	}
	c.ClientSessionCache.Put(key, s)
}

// newStack returns a stack for all connections of a test.
func newStack(o *options) (*stack, error) {
	s := &stack{cache: &cache{ClientSessionCache: tls.NewLRUClientSessionCache(0)}}
	s.config = &tls.Config{
		ServerName:             "test",
		MinVersion:             tls.VersionTLS13,
		ClientSessionCache:     s.cache,
		SessionTicketsDisabled: o.noTicket,
		KeyLogWriter:           &s.log,
	}
	c := s.config
	if o.noTLS13 || o.maxVersion != 0 && o.maxVersion < tls.VersionTLS13 {
		return nil, fmt.Errorf("%w: a version before TLS 1.3", errUnimplemented)
	}
	if o.hostName != "" {
		c.ServerName = o.hostName
	}
	for _, id := range o.curves {
		c.CurvePreferences = append(c.CurvePreferences, tls.CurveID(id))
	}
	var err error
	if c.NextProtos, err = nextProtos(o); err != nil {
		return nil, err
	}
	if o.trustCert != "" {
		text, err := os.ReadFile(o.trustCert)
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, errors.New("-trust-cert is not PEM")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(cert)
		c.ClientCAs = c.RootCAs
	}
	switch {
	case o.requireClientCert && o.expectVerified:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case o.requireClientCert:
		c.ClientAuth = tls.RequireAnyClientCert
	case o.verifyPeer && o.server:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if err := s.useCertificate(o); err != nil {
		return nil, err
	}
	if len(o.echServerKey) != len(o.echServerConfig) || len(o.echIsRetry) != len(o.echServerConfig) {
		return nil, errors.New("-ech-server flags do not match")
	}
	for i := range o.echServerConfig {
		c.EncryptedClientHelloKeys = append(c.EncryptedClientHelloKeys, tls.EncryptedClientHelloKey{
			Config:      o.echServerConfig[i],
			PrivateKey:  o.echServerKey[i],
			SendAsRetry: o.echIsRetry[i] == 1,
		})
	}
	return s, nil
}

// useCertificate makes the certificate the only one, whatever the peer prefers.
func (s *stack) useCertificate(o *options) error {
	if o.certFile == "" && o.keyFile == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnimplemented, err)
	}
	for _, id := range o.signingPrefs {
		pair.SupportedSignatureAlgorithms = append(pair.SupportedSignatureAlgorithms, tls.SignatureScheme(id))
	}
	pair.OCSPStaple = o.ocspResponse
	s.config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	s.config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return nil
}

// nextProtos returns what NextProtos has to be.
func nextProtos(o *options) ([]string, error) {
	switch {
	case o.rejectALPN:
		return []string{"none of theirs"}, nil
	case o.declineALPN:
		return nil, nil
	}
	return o.protocols()
}

// handshake does the handshake and takes the connection over.
func (s *stack) handshake(ctx context.Context, conn net.Conn, o *options, resumed bool) (*peer, error) {
	c := s.config
	c.EncryptedClientHelloConfigList = o.echConfigList
	s.log.Reset()
	s.cache.stored = 0
	handshake := cryptotls.Client
	if o.server {
		handshake = cryptotls.Server
	}
	settings := &cryptotls.Options{Record: func(cfg *record.ConnConfig) {
		cfg.KeepBuffer = o.keepBuffer
		cfg.DynamicRecordSizing = o.dynamic
	}}
	if o.maxFragment > 0 {
		settings.Sealer.RecordSizeLimit = o.maxFragment + 1
	}
	if o.padding {
		settings.Sealer.Padding = func(size int) int { return 300 - size%300 }
	}
	plain, err := handshake(ctx, conn, c, settings)
	var rejected *tls.ECHRejectionError
	switch {
	case errors.Is(err, cryptotls.ErrVersion) && o.minVersion < tls.VersionTLS13:
		// An older version was meant to be negotiated, or to be refused as too old.
		return nil, fmt.Errorf("%w: %w", errUnimplemented, err)
	case errors.As(err, &rejected):
		if o.expectNoRetry && len(rejected.RetryConfigList) > 0 ||
			o.expectRetryConfigs != nil && !bytes.Equal(o.expectRetryConfigs, rejected.RetryConfigList) {
			return nil, fmt.Errorf("other retry configs for ECH: %x", rejected.RetryConfigList)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	our := plain.(*cryptotls.Conn)
	state := our.ConnectionState()
	if err := check(&state, o, resumed); err != nil {
		return nil, err
	}
	return &peer{
		conn: our.Conn,
		end: func() error {
			if o.server || o.shutsDown || o.sendAlert {
				return nil
			}
			if stored := s.cache.stored > 0; stored == o.expectNoSession {
				return fmt.Errorf("a session was stored: %v", stored)
			}
			return nil
		},
		secrets: func() (read, write []byte, err error) {
			read, write = s.secret("SERVER_TRAFFIC_SECRET_0"), s.secret("CLIENT_TRAFFIC_SECRET_0")
			if o.server {
				read, write = write, read
			}
			return read, write, nil
		},
		keying: state.ExportKeyingMaterial,
	}, nil
}

// check compares what was negotiated with what the runner expects.
func check(state *tls.ConnectionState, o *options, resumed bool) error {
	alpn := o.expectALPN
	if o.server {
		alpn = o.selectALPN
	}
	switch {
	case state.Version != tls.VersionTLS13, o.expectVersion != 0 && o.expectVersion != int(state.Version):
		return fmt.Errorf("version %#x", state.Version)
	case state.DidResume != (resumed && !o.expectSessionMiss):
		return fmt.Errorf("resumed: %v", state.DidResume)
	case o.expectCurve != 0 && o.expectCurve != int(state.CurveID):
		return fmt.Errorf("curve %d", state.CurveID)
	case o.expectCipher != 0 && o.expectCipher != int(state.CipherSuite):
		return fmt.Errorf("cipher suite %#x", state.CipherSuite)
	case alpn != state.NegotiatedProtocol:
		return fmt.Errorf("protocol %q", state.NegotiatedProtocol)
	case o.expectServerName != "" && o.expectServerName != state.ServerName:
		return fmt.Errorf("server name %q", state.ServerName)
	case o.expectHRR && !state.HelloRetryRequest, o.expectNoHRR && state.HelloRetryRequest:
		return fmt.Errorf("HelloRetryRequest: %v", state.HelloRetryRequest)
	case o.expectVerified && len(state.PeerCertificates) > 0 && len(state.VerifiedChains) == 0:
		return errors.New("peer not verified")
	case o.expectOCSP != nil && !bytes.Equal(o.expectOCSP, state.OCSPResponse):
		return fmt.Errorf("OCSP response %x", state.OCSPResponse)
	case o.expectECHAccept != state.ECHAccepted:
		return fmt.Errorf("ECH accepted: %v", state.ECHAccepted)
	}
	return nil
}

// secret returns the last secret of that name in the key log.
func (s *stack) secret(name string) (secret []byte) {
	for line := range strings.Lines(s.log.String()) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			secret, _ = hex.DecodeString(f[2])
		}
	}
	return secret
}
