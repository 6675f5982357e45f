package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// options are what the runner's flags say about one connection.
type options struct {
	port        int
	ipv6        bool
	shimID      uint64
	server      bool
	resumeCount int

	// The handshake.
	certFile, keyFile      string
	trustCert              string
	minVersion, maxVersion int
	noTLS13                bool
	hostName               string
	curves                 []int
	signingPrefs           []int
	advertiseALPN          string
	selectALPN             string
	rejectALPN             bool
	declineALPN            bool
	requireClientCert      bool
	verifyPeer             bool
	noTicket               bool
	ocspResponse           []byte
	echConfigList          []byte
	echServerConfig        [][]byte
	echServerKey           [][]byte
	echIsRetry             []int

	expectVersion      int
	expectCurve        int
	expectCipher       int
	expectALPN         string
	expectServerName   string
	expectHRR          bool
	expectNoHRR        bool
	expectSessionMiss  bool
	expectNoSession    bool
	expectECHAccept    bool
	expectRetryConfigs []byte
	expectNoRetry      bool
	expectVerified     bool
	expectOCSP         []byte

	// The records behind it.
	async              bool
	writesFirst        bool
	initialWrite       string
	repeatInitialWrite int
	unfinishedWrite    bool
	shutsDown          bool
	sendAlert          bool
	checkCloseNotify   bool
	keyUpdate          bool
	keyUpdateRead      bool
	recordSizes        bool
	maxFragment        int
	readSize           int
	peek               bool
	exportSecrets      bool
	exportSize         int
	exportLabel        string
	exportContext      string
	useExportContext   bool

	// Ours, by the runner's -shim-extra-flags.
	writeTo    bool
	keepBuffer bool
	dynamic    bool
	padding    bool
}

// errUnimplemented says that a test is of something that this program cannot do.
// The runner counts the test as skipped.
var errUnimplemented = errors.New("unimplemented")

// protocols returns what ALPN offers or accepts.
func (o *options) protocols() ([]string, error) {
	if o.selectALPN != "" {
		return []string{o.selectALPN}, nil
	}
	var list []string
	for p := o.advertiseALPN; p != ""; {
		n := int(p[0])
		if n >= len(p) {
			return nil, errors.New("-advertise-alpn is malformed")
		}
		list, p = append(list, p[1:1+n]), p[1+n:]
	}
	return list, nil
}

// setter takes the value of a flag.
type setter func(o *options, value string) error

// toggle is a flag without a value.
type toggle func(o *options)

// flags are those that are known: a setter or a toggle. Those of nil say nothing
// that makes a difference here: the handshake is never explicit, versions before
// TLS 1.3 never allowed, nor then renegotiation and false starts, a certificate
// verified by crypto/tls alone, OCSP responses always wanted, tickets always renewed
// and sessions never numbered, and a write to a transport is a whole one.
var flags = map[string]any{
	"port":         number(func(o *options) *int { return &o.port }),
	"ipv6":         toggle(func(o *options) { o.ipv6 = true }),
	"server":       toggle(func(o *options) { o.server = true }),
	"resume-count": number(func(o *options) *int { return &o.resumeCount }),
	"shim-id": setter(func(o *options, v string) (err error) {
		o.shimID, err = strconv.ParseUint(v, 10, 64)
		return err
	}),

	"cert-file":                      text(func(o *options) *string { return &o.certFile }),
	"key-file":                       text(func(o *options) *string { return &o.keyFile }),
	"trust-cert":                     text(func(o *options) *string { return &o.trustCert }),
	"min-version":                    number(func(o *options) *int { return &o.minVersion }),
	"max-version":                    number(func(o *options) *int { return &o.maxVersion }),
	"no-tls13":                       toggle(func(o *options) { o.noTLS13 = true }),
	"host-name":                      text(func(o *options) *string { return &o.hostName }),
	"curves":                         numbers(func(o *options) *[]int { return &o.curves }),
	"signing-prefs":                  numbers(func(o *options) *[]int { return &o.signingPrefs }),
	"advertise-alpn":                 text(func(o *options) *string { return &o.advertiseALPN }),
	"select-alpn":                    text(func(o *options) *string { return &o.selectALPN }),
	"reject-alpn":                    toggle(func(o *options) { o.rejectALPN = true }),
	"decline-alpn":                   toggle(func(o *options) { o.declineALPN = true }),
	"require-any-client-certificate": toggle(func(o *options) { o.requireClientCert = true }),
	"verify-peer":                    toggle(func(o *options) { o.verifyPeer = true }),
	"no-ticket":                      toggle(func(o *options) { o.noTicket = true }),
	"ocsp-response":                  data(func(o *options) *[]byte { return &o.ocspResponse }),
	"ech-config-list":                data(func(o *options) *[]byte { return &o.echConfigList }),
	"ech-server-config":              datas(func(o *options) *[][]byte { return &o.echServerConfig }),
	"ech-server-key":                 datas(func(o *options) *[][]byte { return &o.echServerKey }),
	"ech-is-retry-config":            numbers(func(o *options) *[]int { return &o.echIsRetry }),

	"expect-version":           number(func(o *options) *int { return &o.expectVersion }),
	"expect-curve-id":          number(func(o *options) *int { return &o.expectCurve }),
	"expect-cipher":            number(func(o *options) *int { return &o.expectCipher }),
	"expect-alpn":              text(func(o *options) *string { return &o.expectALPN }),
	"expect-server-name":       text(func(o *options) *string { return &o.expectServerName }),
	"expect-hrr":               toggle(func(o *options) { o.expectHRR = true }),
	"expect-no-hrr":            toggle(func(o *options) { o.expectNoHRR = true }),
	"expect-session-miss":      toggle(func(o *options) { o.expectSessionMiss = true }),
	"expect-no-session":        toggle(func(o *options) { o.expectNoSession = true }),
	"expect-ech-accept":        toggle(func(o *options) { o.expectECHAccept = true }),
	"expect-ech-retry-configs": data(func(o *options) *[]byte { return &o.expectRetryConfigs }),
	"expect-verify-result":     toggle(func(o *options) { o.expectVerified = true }),
	"expect-ocsp-response":     data(func(o *options) *[]byte { return &o.expectOCSP }),
	"expect-early-data-reason": setter(func(_ *options, v string) error {
		if v != "disabled" { // which it always is
			return errUnimplemented
		}
		return nil
	}),
	"expect-no-ech-retry-configs": toggle(func(o *options) { o.expectNoRetry = true }),

	"async":                      toggle(func(o *options) { o.async = true }),
	"shim-writes-first":          toggle(func(o *options) { o.writesFirst = true }),
	"shim-initial-write":         text(func(o *options) *string { return &o.initialWrite }),
	"repeat-shim-initial-write":  number(func(o *options) *int { return &o.repeatInitialWrite }),
	"read-with-unfinished-write": toggle(func(o *options) { o.unfinishedWrite = true }),
	"shim-shuts-down":            toggle(func(o *options) { o.shutsDown = true }),
	"send-alert":                 toggle(func(o *options) { o.sendAlert = true }),
	"check-close-notify":         toggle(func(o *options) { o.checkCloseNotify = true }),
	"key-update":                 toggle(func(o *options) { o.keyUpdate = true }),
	"key-update-before-read":     toggle(func(o *options) { o.keyUpdateRead = true }),
	"write-different-record-sizes": toggle(func(o *options) {
		o.recordSizes = true
	}),
	"max-send-fragment":      number(func(o *options) *int { return &o.maxFragment }),
	"read-size":              number(func(o *options) *int { return &o.readSize }),
	"peek-then-read":         toggle(func(o *options) { o.peek = true }),
	"export-traffic-secrets": toggle(func(o *options) { o.exportSecrets = true }),
	"export-keying-material": number(func(o *options) *int { return &o.exportSize }),
	"export-label":           text(func(o *options) *string { return &o.exportLabel }),
	"export-context":         text(func(o *options) *string { return &o.exportContext }),
	"use-export-context":     toggle(func(o *options) { o.useExportContext = true }),

	"implicit-handshake":         nil,
	"no-tls1":                    nil,
	"no-tls11":                   nil,
	"no-tls12":                   nil,
	"use-custom-verify-callback": nil,
	"partial-write":              nil,
	"handshake-twice":            nil,
	"no-op-extra-handshake":      nil,
	"expect-ticket-renewal":      nil,
	"expect-no-session-id":       nil,
	"enable-ocsp-stapling":       nil,
	"false-start":                nil,
	"renegotiate-explicit":       nil,
	"renegotiate-freely":         nil,
	"renegotiate-ignore":         nil,
	"renegotiate-once":           nil,

	"write-to":    toggle(func(o *options) { o.writeTo = true }),
	"keep-buffer": toggle(func(o *options) { o.keepBuffer = true }),
	"dynamic":     toggle(func(o *options) { o.dynamic = true }),
	"padding":     toggle(func(o *options) { o.padding = true }),
}

// parseFlags returns the options of the first connection and of later ones.
// Flags apply to both unless their prefix says otherwise. It returns
// errUnimplemented at a flag that it does not know.
func parseFlags(args []string) (initial, resume *options, err error) {
	initial = &options{initialWrite: "hello", repeatInitialWrite: 1}
	resume = &options{initialWrite: "hello", repeatInitialWrite: 1}
	for len(args) > 0 {
		name := strings.TrimPrefix(args[0], "-")
		args = args[1:]
		targets := []*options{initial, resume}
		if rest, ok := strings.CutPrefix(name, "on-initial-"); ok {
			name, targets = rest, targets[:1]
		} else if rest, ok := strings.CutPrefix(name, "on-resume-"); ok {
			name, targets = rest, targets[1:]
		}
		f, ok := flags[name]
		if !ok {
			return nil, nil, fmt.Errorf("%w: flag -%s", errUnimplemented, name)
		}
		switch f := f.(type) {
		case toggle:
			for _, o := range targets {
				f(o)
			}
		case setter:
			if len(args) == 0 {
				return nil, nil, fmt.Errorf("flag -%s has no value", name)
			}
			for _, o := range targets {
				if err := f(o, args[0]); err != nil {
					return nil, nil, fmt.Errorf("flag -%s: %w", name, err)
				}
			}
			args = args[1:]
		}
	}
	return initial, resume, nil
}

func text(field func(*options) *string) setter {
	return func(o *options, v string) error {
		*field(o) = v
		return nil
	}
}

func number(field func(*options) *int) setter {
	return func(o *options, v string) (err error) {
		*field(o), err = strconv.Atoi(v)
		return err
	}
}

func numbers(field func(*options) *[]int) setter {
	return func(o *options, v string) error {
		n, err := strconv.Atoi(v)
		*field(o) = append(*field(o), n)
		return err
	}
}

func data(field func(*options) *[]byte) setter {
	return func(o *options, v string) (err error) {
		*field(o), err = base64.StdEncoding.DecodeString(v)
		return err
	}
}

func datas(field func(*options) *[][]byte) setter {
	return func(o *options, v string) error {
		b, err := base64.StdEncoding.DecodeString(v)
		*field(o) = append(*field(o), b)
		return err
	}
}
