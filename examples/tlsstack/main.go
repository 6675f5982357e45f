// Tlsstack is a small TLS 1.3 stack, client and server, with a handshake of its own
// over package record. It shows how a handshake drives the record layer: which
// messages share records, when keys change, when a change_cipher_spec may arrive, how
// alerts are sent, and how a record.Conn goes on when the handshake is done.
//
//	go run ./examples/tlsstack serve localhost:8443 >ca.pem
//	go run ./examples/tlsstack get -ca ca.pem localhost:8443
//
// The first serves a page about the connection; unless it is given a certificate, it
// makes one and prints it. The second fetches a page. openssl s_client, gnutls-cli,
// curl and browsers are other clients for the first; any server with TLS 1.3 will do
// for the second.
//
// Read link.go first: it is all there is between a handshake and the record layer.
// client.go and server.go are the two sides, in the order in which things happen;
// schedule.go is the key schedule, messages.go the messages, algorithms.go the groups
// and signature algorithms. What is quoted is RFC 9846.
//
// It is an example, not a hardened stack. It has certificates, ALPN, the server name,
// HelloRetryRequest and the middlebox compatibility mode. It has no pre-shared keys
// and so no resumption: the server ignores such offers and issues no tickets, the
// client ignores tickets. It has no early data: the server drops what is sent. It has
// no client certificates: the server asks for none, the client answers that it has
// none. There are no exporters, OCSP responses or record size limits, and nothing
// before TLS 1.3. Keys are wiped only where that is easy.
package main

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"example.com/splitseal/record"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("tlsstack: ")
	if len(os.Args) < 2 {
		usage(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usageText) }
	var err error
	switch os.Args[1] {
	case "serve":
		certFile := flags.String("cert", "", "")
		keyFile := flags.String("key", "", "")
		flags.Parse(os.Args[2:])
		if flags.NArg() != 1 {
			usage(2)
		}
		err = serve(flags.Arg(0), *certFile, *keyFile)
	case "get":
		caFile := flags.String("ca", "", "")
		flags.Parse(os.Args[2:])
		if flags.NArg() != 1 {
			usage(2)
		}
		err = get(os.Stdout, flags.Arg(0), *caFile)
	case "-h", "-help", "--help":
		usage(0)
	default:
		usage(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func usage(code int) {
	fmt.Fprint(os.Stderr, usageText)
	os.Exit(code)
}

const usageText = `usage:
  tlsstack serve [-cert file -key file] host:port
  tlsstack get [-ca file] host:port

  -cert file  PEM certificate chain; without it, serve makes a certificate and prints it
  -key file   PEM key of that certificate, PKCS #8
  -ca file    PEM certificates that get trusts; without it, the system's
`

// serve answers requests until the listener fails.
func serve(addr, certFile, keyFile string) error {
	var cert *certificate
	var err error
	if certFile != "" {
		cert, err = loadCertificate(certFile, keyFile)
	} else if key, keyErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); keyErr != nil {
		return keyErr
	} else if cert, err = selfSigned(key, "localhost", "127.0.0.1", "::1"); err == nil {
		err = pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: cert.chain[0]})
	}
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("serving https://%v", ln.Addr())
	cfg := serverConfig{certificates: []*certificate{cert}, protocols: []string{"http/1.1"}}
	for {
		transport, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := answer(transport, cfg, time.Minute); err != nil {
				log.Printf("%v: %v", transport.RemoteAddr(), err)
			}
		}()
	}
}

// answer does the handshake, answers one request and closes transport. The client may
// take as long as patience to send the request, and as long again to take the answer.
func answer(transport net.Conn, cfg serverConfig, patience time.Duration) error {
	conn, p, err := server(transport, cfg)
	defer hangUp(transport, conn)
	if err != nil {
		return err
	}
	// The write deadline is set later: past it, close_notify could not be sent.
	conn.SetReadDeadline(time.Now().Add(patience))
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return err
	}
	conn.SetWriteDeadline(time.Now().Add(patience))
	page := fmt.Sprintf("%s %s\n%s", request.Method, request.URL, p)
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
	return conn.CloseWrite()
}

// hangUp ends a connection. If conn is nil the handshake has failed, and its alert
// has been sent.
//
// "Each party MUST send a "close_notify" alert before closing its write side of the
// connection, unless it has already sent some error alert." CloseWrite knows whether
// one has been sent, so every way out goes through here. "It is assumed that closing
// the write side of a connection reliably delivers pending data before destroying the
// transport." (RFC 9846, Section 6.1) TCP does so if only the write side is closed:
// closing a socket on which there is more to read resets the connection, and the
// peer's next write fails before it has read the alert. So what still arrives is
// dropped for a while, unopened.
func hangUp(transport net.Conn, conn *record.Conn) {
	if conn != nil {
		conn.CloseWrite()
		defer conn.Close() // wipes the keys
	}
	defer transport.Close()
	if tcp, ok := transport.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		drain(tcp, 2*time.Second, handshakeTimeout)
	}
}

// drain drops what arrives, until the stream ends, nothing has come for idle, or
// total is over.
func drain(transport net.Conn, idle, total time.Duration) {
	buf := make([]byte, readSize)
	end := time.Now().Add(total)
	for err := error(nil); err == nil && time.Now().Before(end); {
		transport.SetReadDeadline(time.Now().Add(idle))
		_, err = transport.Read(buf)
	}
}

// get fetches / of a server and writes the page to w.
func get(w io.Writer, addr, caFile string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	cfg := clientConfig{serverName: host, protocols: []string{"http/1.1"}}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			return err
		}
		cfg.roots = x509.NewCertPool()
		if !cfg.roots.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: no certificate", caFile)
		}
	}
	transport, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	conn, p, err := client(transport, cfg)
	defer hangUp(transport, conn)
	if err != nil {
		return err
	}
	log.Print(strings.ReplaceAll(strings.TrimSpace(p.String()), "\n", ", "))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", addr)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return err
	}
	return conn.CloseWrite()
}

// String returns the parameters, one in a line.
func (p *parameters) String() string {
	return fmt.Sprintf("suite: %v\ngroup: %s\nsignature: %s\nserver name: %q\nprotocol: %q\nHelloRetryRequest: %v\n",
		p.suite, p.group.name, p.scheme.name, p.serverName, p.protocol, p.retried)
}

// loadCertificate reads a chain and a PKCS #8 key.
func loadCertificate(certFile, keyFile string) (*certificate, error) {
	text, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	c := new(certificate)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c.chain = append(c.chain, block.Bytes)
		}
	}
	if len(c.chain) == 0 {
		return nil, fmt.Errorf("%s: no certificate", certFile)
	}
	if c.leaf, err = x509.ParseCertificate(c.chain[0]); err != nil {
		return nil, err
	}
	if text, err = os.ReadFile(keyFile); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no key", keyFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: not a key for signatures", keyFile)
	}
	type equal interface{ Equal(crypto.PublicKey) bool }
	if public, ok := signer.Public().(equal); !ok || !public.Equal(c.leaf.PublicKey) {
		return nil, errors.New("the key is not the certificate's")
	}
	c.key = signer
	return c, nil
}

// selfSigned makes a certificate for names and addresses, valid for a day.
func selfSigned(key crypto.Signer, names ...string) (*certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: names[0]},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &certificate{[][]byte{der}, leaf, key}, err
}
