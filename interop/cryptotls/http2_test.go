package cryptotls_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/splitseal/interop/cryptotls"
)

const waitLimit = 90 * time.Second

// TestHTTP2 asks the example's server for more than its output shows: bodies
// both ways, several requests on a connection, clients with our records, and an
// end in good order.
func TestHTTP2(t *testing.T) {
	cert, pool := certificate()
	config := func(protocols ...string) *tls.Config {
		return &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: protocols}
	}
	dialer := func(protocols ...string) func(context.Context, string, string) (net.Conn, error) {
		return (&cryptotls.Dialer{Config: config(protocols...)}).DialContext
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.TLS.Version != tls.VersionTLS13 || (r.TLS.NegotiatedProtocol == "h2") != (r.ProtoMajor == 2) {
			t.Errorf("%s, Request.TLS is %+v", r.Proto, r.TLS)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("request body: %d bytes, %v", len(got), err)
		}
		w.Write(body)
	})}
	served := make(chan error, 1)
	go func() { served <- serveHTTP2(server, ln, &tls.Config{Certificates: []tls.Certificate{cert}}) }()

	// A Transport that may only speak HTTP/2 without TLS takes the connections of a
	// Dialer for that.
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	for _, tt := range []struct {
		name      string
		transport *http.Transport
		major     int
	}{
		{"crypto/tls, HTTP/2", &http.Transport{TLSClientConfig: config(), ForceAttemptHTTP2: true}, 2},
		{"crypto/tls, HTTP/1.1", &http.Transport{TLSClientConfig: config()}, 1},
		{"Dialer, HTTP/2", &http.Transport{DialTLSContext: dialer("h2"), Protocols: only}, 2},
		{"Dialer, HTTP/1.1", &http.Transport{DialTLSContext: dialer()}, 1},
	} {
		client := &http.Client{Transport: tt.transport, Timeout: waitLimit}
		for range 2 {
			resp, err := client.Post("https://"+ln.Addr().String(), "text/plain", bytes.NewReader(body))
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				break
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, body) || resp.ProtoMajor != tt.major {
				t.Errorf("%s: %s, %d bytes, %v", tt.name, resp.Proto, len(got), err)
			}
		}
		defer client.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// TestHTTP2Silent has clients that negotiate HTTP/2 and then send nothing, or half of
// what it begins with: the example's server does not wait for ever.
func TestHTTP2Silent(t *testing.T) {
	for _, sent := range []string{"", "PRI * HTTP/2.0\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			cert, pool := certificate() // valid now, by the clock in here
			ln := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			server := &http.Server{Handler: http.NotFoundHandler()}
			served := make(chan error, 1)
			go func() { served <- serveHTTP2(server, ln, &tls.Config{Certificates: []tls.Certificate{cert}}) }()
			defer func() { server.Close(); <-served }()

			near, far := net.Pipe()
			ln.conns <- far
			conn := tls.Client(near, &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"h2"}})
			defer conn.Close()
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			conn.SetReadDeadline(begin.Add(time.Hour))
			_, err := io.Copy(io.Discard, conn)
			if took := time.Since(begin); err != nil || took != prefaceTimeout {
				t.Errorf("after %q: closed after %v, %v", sent, took, err)
			}
		})
	}
}

// pipeListener is a listener of what is put into conns.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "pipe"} }
