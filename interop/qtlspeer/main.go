// Command qtlspeer echoes over qtls-go1-20, the TLS stack of QUIC
// implementations at the time of Go 1.20, which panics at its start when a newer toolchain has built it. The
// tests in interop/peers build it with that one and run it.
//
// It logs its secrets to standard error, in the key log format.
//
//	qtlspeer client|server PORT CA CERT KEY echo|close|abort
package main

import (
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/quic-go/qtls-go1-20"
)

func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: qtlspeer client|server PORT CA CERT KEY echo|close|abort")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]); err != nil {
		fmt.Fprintln(os.Stderr, "qtlspeer:", err)
		os.Exit(1)
	}
}

func run(role, port, ca, cert, key, mode string) error {
	config := &qtls.Config{MinVersion: qtls.VersionTLS13, KeyLogWriter: os.Stderr}
	var conn *qtls.Conn
	if role == "server" {
		pair, err := qtls.LoadX509KeyPair(cert, key)
		if err != nil {
			return err
		}
		config.Certificates = []qtls.Certificate{pair}
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		raw, err := ln.Accept()
		if err != nil {
			return err
		}
		conn = qtls.Server(raw, config)
	} else {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(pem)
		config.ServerName = "localhost"
		raw, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		conn = qtls.Client(raw, config)
	}
	if err := conn.Handshake(); err != nil {
		return err
	}
	switch mode {
	case "close":
		if _, err := io.WriteString(conn, "bye"); err != nil {
			return err
		}
	case "abort":
		if _, err := io.WriteString(conn, "bye"); err != nil {
			return err
		}
		return conn.NetConn().Close()
	default:
		if _, err := io.Copy(conn, conn); err != nil {
			return err
		}
	}
	return conn.Close()
}
