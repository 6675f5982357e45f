package cryptotls_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"example.com/splitseal/interop/cryptotls"
	"example.com/splitseal/record"
)

// certificate returns a certificate for localhost and the pool that verifies it.
func certificate() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// A net/http server and client. Each differs in one line from one that uses
// crypto/tls throughout.
func Example() {
	cert, pool := certificate()

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	// In place of tls.NewListener.
	ln = cryptotls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}}, nil)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s, %s", tls.VersionName(r.TLS.Version), r.TLS.ServerName)
	})}
	go server.Serve(ln)
	defer server.Close()

	// In place of a TLSClientConfig.
	dialer := &cryptotls.Dialer{Config: &tls.Config{
		RootCAs:            pool,
		ServerName:         "localhost",
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}}
	client := &http.Client{Transport: &http.Transport{DialTLSContext: dialer.DialContext}}
	defer client.CloseIdleConnections()

	resp, err := client.Get("https://" + ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Proto, resp.Status)
	fmt.Printf("%s\n", body)
	// Output:
	// HTTP/1.1 200 OK
	// TLS 1.3, localhost
}

// Both sides of one connection, with padding, a KeyUpdate and close_notify in
// each direction.
func ExampleServer() {
	cert, pool := certificate()
	clientSide, serverSide := net.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	served := make(chan error, 1)
	go func() {
		config := &tls.Config{Certificates: []tls.Certificate{cert}}
		conn, err := cryptotls.Server(ctx, serverSide, config, nil)
		if err != nil {
			served <- err
			return
		}
		defer conn.Close()
		_, err = io.Copy(conn, conn) // until the client's close_notify
		served <- err
	}()

	// Records of this client are padded to a multiple of 512 bytes.
	o := &cryptotls.Options{Sealer: record.SealerConfig{Padding: record.PadToMultiple(512)}}
	c, err := cryptotls.Client(ctx, clientSide, &tls.Config{RootCAs: pool, ServerName: "localhost"}, o)
	if err != nil {
		log.Fatal(err)
	}
	conn := c.(*cryptotls.Conn)
	defer conn.Close()
	go func() {
		fmt.Fprint(conn, "before the KeyUpdate, ")
		conn.KeyUpdate(true) // and asks for one in return
		fmt.Fprint(conn, "after the KeyUpdate")
		conn.CloseWrite()
	}()
	echo, err := io.ReadAll(conn)
	fmt.Printf("%s %v\n", echo, err)
	fmt.Println(<-served)
	// Output:
	// before the KeyUpdate, after the KeyUpdate <nil>
	// <nil>
}

// Failed handshakes go to the log of the http.Server, and HTTP without TLS is
// answered, both as net/http does for crypto/tls.
func ExampleOptions_handshakeError() {
	cert, _ := certificate()
	logger := log.New(os.Stdout, "", 0)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	o := &cryptotls.Options{HandshakeError: func(conn net.Conn, err error) {
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil {
			err = errors.New("client did not speak TLS")
			defer io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\nThe address begins with https://\n")
		}
		// The port of the address differs each time.
		logger.Printf("TLS handshake with %v: %v", conn.RemoteAddr().(*net.TCPAddr).IP, err)
	}}
	ln = cryptotls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}}, o)
	server := &http.Server{ErrorLog: logger}
	go server.Serve(ln)
	defer server.Close()

	resp, err := http.Get("http://" + ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// TLS handshake with 127.0.0.1: client did not speak TLS
	// 400 Bad Request
}

// A peer that speaks TLS 1.2 stays with crypto/tls.
func ExampleOptions_allowTLS12() {
	cert, pool := certificate()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ln = cryptotls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}}, &cryptotls.Options{AllowTLS12: true})
	defer ln.Close()

	for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
		go func() {
			config := &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: version}
			if c, err := tls.Dial("tcp", ln.Addr().String(), config); err == nil {
				c.Close()
			}
		}()
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %T\n", tls.VersionName(version), conn)
		conn.Close()
	}
	// Output:
	// TLS 1.3: *cryptotls.Conn
	// TLS 1.2: *tls.Conn
}
