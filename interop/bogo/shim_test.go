package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// credential makes a certificate for the shim's server name. The file holds it.
func credential(t *testing.T) (pair tls.Certificate, file string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o666); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// play runs the shim as the runner does, and peer on the other side of the
// connection, if there is to be one. It returns the shim's status.
func play(t *testing.T, peer func(net.Conn), args ...string) int {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	status := make(chan int, 1)
	go func() { status <- run(append([]string{"-port", port, "-shim-id", strconv.Itoa(0x1234)}, args...)) }()
	if peer != nil {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		var id [8]byte
		if _, err := io.ReadFull(conn, id[:]); err != nil || binary.LittleEndian.Uint64(id[:]) != 0x1234 {
			t.Errorf("shim ID %x, %v", id, err)
		}
		peer(conn)
		conn.Close()
	}
	return <-status
}

// TestShim plays without the runner what the runner relies on.
func TestShim(t *testing.T) {
	pair, file := credential(t)
	server := func(version uint16, talk func(*tls.Conn)) func(net.Conn) {
		return func(conn net.Conn) {
			c := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, MaxVersion: version})
			talk(c)
			c.Close()
		}
	}
	echo := func(first string) func(*tls.Conn) {
		return func(c *tls.Conn) {
			if _, err := c.Write([]byte{0, 1, 254, 255}); err != nil {
				t.Error(err)
			}
			want := first + "\xff\xfe\x01\x00"
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("%q, want %q (%v)", got, want, err)
			}
		}
	}
	for _, test := range []struct {
		name   string
		peer   func(net.Conn)
		args   []string
		status int
	}{
		{"echo", server(tls.VersionTLS13, echo("")), nil, 0},
		{"all options", server(tls.VersionTLS13, echo("")), []string{"-write-to", "-padding", "-keep-buffer", "-dynamic", "-async", "-key-update"}, 0},
		{"writes first", server(tls.VersionTLS13, echo("hellohello")), []string{"-shim-writes-first", "-repeat-shim-initial-write", "2"}, 0},
		{"unfinished write", server(tls.VersionTLS13, echo("hello")), []string{"-async", "-read-with-unfinished-write"}, 0},
		{"other expectation", server(tls.VersionTLS13, func(c *tls.Conn) { c.Handshake() }), []string{"-expect-alpn", "x"}, statusFailed},
		{"fault", server(tls.VersionTLS13, func(c *tls.Conn) {
			c.Handshake()
			c.NetConn().Write([]byte{99, 3, 3, 0, 1, 0})
			if _, err := c.Read(make([]byte, 1)); err == nil || err.Error() != "remote error: tls: unexpected message" {
				t.Errorf("after a fault: %v", err)
			}
		}), nil, statusFailed},
		{"no close_notify", func(conn net.Conn) {
			tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake()
		}, nil, statusFailed},
		{"older version", server(tls.VersionTLS12, func(c *tls.Conn) { c.Handshake() }), nil, statusUnimplemented},
		{"unknown flag", nil, []string{"-no-such-flag"}, statusUnimplemented},
		{"malformed flag", nil, []string{"-resume-count", "x"}, statusFailed},
	} {
		if got := play(t, test.peer, append([]string{"-trust-cert", file}, test.args...)...); got != test.status {
			t.Errorf("%s: status %d, want %d", test.name, got, test.status)
		}
	}
}

func TestFlags(t *testing.T) {
	initial, resume, err := parseFlags([]string{"-server", "-on-resume-expect-alpn", "a", "-on-initial-async", "-curves", "29", "-curves", "23"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*options{initial, resume} {
		if !o.server || len(o.curves) != 2 || o.initialWrite != "hello" {
			t.Errorf("%+v", o)
		}
	}
	if !initial.async || resume.async || initial.expectALPN != "" || resume.expectALPN != "a" {
		t.Errorf("%+v, %+v", initial, resume)
	}
}
