// Httpsserver is net/http on package cryptotls, to look at with a browser:
//
//	go run ./examples/httpsserver [-addr localhost:8443] [-cert file -key file]
//
// Its page says which TLS version, cipher suite and backend it was sent with, and has
// a button that measures. If no certificate is given it makes one at start, which no
// client trusts by itself: compare the fingerprint. By hand:
//
//	curl -k 'https://localhost:8443/download?bytes=1073741824' -o /dev/null
//	curl -k --data-binary @file https://localhost:8443/upload
//
// An interrupt ends it once the requests under way have been answered; a second one
// ends it at once.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"html/template"
	"io"
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"example.com/splitseal/gcm"
	"example.com/splitseal/interop/cryptotls"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("httpsserver: ")
	addr := flag.String("addr", "localhost:8443", "listen on this `address`")
	cert := flag.String("cert", "", "PEM `file` of the certificate chain; without one, a certificate is made")
	key := flag.String("key", "", "PEM `file` of the certificate's key")
	flag.Parse()
	if flag.NArg() > 0 || (*cert == "") != (*key == "") {
		fmt.Fprintln(os.Stderr, "-cert and -key go together, and nothing goes behind the flags")
		flag.Usage()
		os.Exit(2)
	}

	var pair tls.Certificate
	var err error
	if *cert == "" {
		pair, err = selfSigned()
	} else {
		pair, err = tls.LoadX509KeyPair(*cert, *key)
	}
	check(err)
	ln, err := net.Listen("tcp", *addr)
	check(err)
	fmt.Printf("https://%v/\nSHA-256 fingerprint of the certificate: % X\n", ln.Addr(), sha256.Sum256(pair.Certificate[0]))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // the second interrupt has its usual effect
	check(serve(ctx, ln, pair))
}

// serve answers requests on ln until ctx ends, and returns when those under way have
// been answered. It closes ln.
func serve(ctx context.Context, ln net.Listener, cert tls.Certificate) error {
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	ln = cryptotls.NewListener(ln, config, &cryptotls.Options{HandshakeError: handshakeError}) // was tls.NewListener(ln, config)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("GET /download", download)
	mux.HandleFunc("POST /upload", upload)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	down := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { down <- server.Shutdown(context.Background()) })
	err := server.Serve(ln)
	if stop() { // nobody asked for an end
		server.Close()
		return err
	}
	return <-down
}

var (
	//go:embed page.html
	pageHTML string
	page     = template.Must(template.New("page").Parse(pageHTML))
)

// index describes the connection that the request came over: net/http puts
// cryptotls's ConnectionState into Request.TLS.
func index(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{
		"Version": tls.VersionName(r.TLS.Version),
		"Suite":   tls.CipherSuiteName(r.TLS.CipherSuite),
		"Curve":   r.TLS.CurveID,
		"ALPN":    r.TLS.NegotiatedProtocol,
		"HTTP":    r.Proto,
		"Resumed": r.TLS.DidResume,
		"Backend": backend(r.TLS.CipherSuite),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	b.WriteTo(w)
}

// backend names what seals and opens under the suite. A connection does not show
// its keys, but all AES-GCM keys of a process get the same backend.
func backend(suite uint16) string {
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384:
		return gcm.Backend()
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		return "none: golang.org/x/crypto"
	}
	return "unknown"
}

// content is what download sends, over and over. Its length is not a multiple of a
// record's, so that a record that is lost, repeated or moved changes the whole.
var content = func() []byte {
	p := make([]byte, 1<<20-1)
	mathrand.NewChaCha8([32]byte{}).Read(p)
	return p
}()

// download sends as many bytes as the request asks for. net/http passes such long
// writes on unchanged, so records are sealed straight from content.
func download(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseInt(r.FormValue("bytes"), 10, 64)
	if err != nil || size < 0 {
		http.Error(w, "bytes must be a number, as in /download?bytes=1048576", http.StatusBadRequest)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if r.Method == http.MethodHead {
		return
	}
	for size > 0 {
		n, err := w.Write(content[:min(size, int64(len(content)))])
		if err != nil {
			return // the client has gone
		}
		size -= int64(n)
	}
}

// upload counts the bytes of the body. The checksum is that of zip and gzip, and
// costs little compared with opening the records.
func upload(w http.ResponseWriter, r *http.Request) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, r.Body)
	if err != nil {
		return // the client has gone
	}
	fmt.Fprintf(w, "%d bytes, CRC-32 %08x\n", n, sum.Sum32())
}

// handshakeError reports a failed handshake, also to clients that forgot the s of
// https. Clients that do not trust the certificate send an alert; that of OpenSSL,
// and so of curl, is not protected, and crypto/tls reports a bad record MAC.
//
// A wrong record later on is a RecordHeaderError too, but without a Conn. Its alert
// has been sent, and nothing may follow: "Whenever an implementation encounters a
// fatal error condition, it SHOULD send an appropriate fatal alert and MUST close the
// connection without sending or receiving any additional data." (RFC 9846, Section
// 6.2)
func handshakeError(conn net.Conn, err error) {
	log.Printf("%v: %v", conn.RemoteAddr(), err)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && startsRequest(plain.RecordHeader) {
		io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\nThis server speaks HTTPS only: the address begins with https://\n")
	}
}

// startsRequest reports whether b is the beginning of a plain HTTP request. net/http
// looks for these methods too; the others have no distinctive beginning.
func startsRequest(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// selfSigned returns a new certificate for the names of this machine. It is valid for
// a day.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "localhost"}, // curl trusts no certificate whose issuer has no name
		NotBefore:    now,
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
