package cryptotls_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"example.com/splitseal/interop/cryptotls"
)

// An http2Listener hides from net/http that its HTTP/2 connections are TLS.
type http2Listener struct{ net.Listener }

func (l http2Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if c, ok := c.(*cryptotls.Conn); ok && c.ConnectionState().NegotiatedProtocol == "h2" {
		// Without a deadline, or a ReadHeaderTimeout, net/http waits for ever for
		// what HTTP/2 begins with. Once that has come, net/http sets deadlines of its
		// own.
		c.SetReadDeadline(time.Now().Add(prefaceTimeout))
		return http2Conn{c, c.ConnectionState()}, nil
	}
	return c, err
}

// prefaceTimeout is what net/http allows for a *tls.Conn.
const prefaceTimeout = 10 * time.Second

// An http2Conn has no method ConnectionState. If it had one, net/http would speak
// HTTP/1.1 over it before Go 1.27, because it is not a *tls.Conn.
type http2Conn struct {
	net.Conn
	state tls.ConnectionState
}

type stateKey struct{}

// serveHTTP2 serves HTTP/2 and HTTP/1.1 on ln, as the client chooses.
func serveHTTP2(server *http.Server, ln net.Listener, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	ln = cryptotls.NewListener(ln, config, &cryptotls.Options{KeepHTTP2: true})

	// To net/http an http2Conn is not encrypted.
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)

	// So it leaves Request.TLS nil; the state comes with the context instead.
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if c, ok := c.(http2Conn); ok {
			ctx = context.WithValue(ctx, stateKey{}, &c.state)
		}
		return ctx
	}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if state, ok := r.Context().Value(stateKey{}).(*tls.ConnectionState); ok {
			r.TLS = state
		}
		handler.ServeHTTP(w, r)
	})
	return server.Serve(http2Listener{ln})
}

// A net/http server that speaks HTTP/2 over a Listener, in every version of Go. From Go
// 1.27 on it is enough to have "h2" in NextProtos. Before, net/http does it over TLS only
// for a *tls.Conn, but it also does it for connections that it takes to be unencrypted,
// if Server.Protocols allows that.
func ExampleOptions_keepHTTP2() {
	cert, pool := certificate()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s, %s", tls.VersionName(r.TLS.Version), r.TLS.ServerName)
	})}
	go serveHTTP2(server, ln, &tls.Config{Certificates: []tls.Certificate{cert}})
	defer server.Close()

	for _, http2 := range []bool{true, false} {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: "localhost"},
			ForceAttemptHTTP2: http2,
		}}
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
		fmt.Printf("%s: %s\n", resp.Proto, body)
	}
	// Output:
	// HTTP/2.0: TLS 1.3, localhost
	// HTTP/1.1: TLS 1.3, localhost
}
