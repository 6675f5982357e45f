package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"example.com/splitseal/interop/cryptotls"
	"golang.org/x/net/http2"
)

//lint:file-ignore SA1019 net/http's own Server and Transport, which are to be used instead, speak HTTP/2 over a *tls.Conn only, before Go 1.27.

// TestHTTP2 serves HTTP/2 by x/net/http2's ServeConn, which net/http's server
// does not do over a connection that is not crypto/tls's own, and asks it with
// x/net/http2 over a Dialer, with net/http over crypto/tls, and with curl.
func TestHTTP2(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	fatalf(t, err, "go.mod")
	version := strings.Fields(firstLine(string(mod), "golang.org/x/net "))[1]
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.TLS == nil || r.TLS.NegotiatedProtocol != "h2" {
			t.Errorf("%s, TLS %+v", r.Proto, r.TLS)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Write(body)
	})
	base := listen(t)
	base.Listener.(*net.TCPListener).SetDeadline(noDeadline)
	config := &tls.Config{Certificates: []tls.Certificate{creds(t).pair}, NextProtos: []string{"h2"}}
	ln := cryptotls.NewListener(base, config, &cryptotls.Options{KeepHTTP2: true})
	served := make(chan struct{})
	go func() {
		defer close(served)
		h2 := new(http2.Server)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				h2.ServeConn(conn, &http2.ServeConnOpts{Handler: handler})
			}()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-served })
	url := "https://localhost:" + base.port() + "/"

	ask := func(t *testing.T, transport http.RoundTripper) {
		client := &http.Client{Transport: transport, Timeout: waitLimit}
		defer client.CloseIdleConnections()
		for _, size := range bodies {
			want := message(size, false)
			resp, err := client.Post(url, "application/octet-stream", bytes.NewReader(want))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.ProtoMajor != 2 || !bytes.Equal(got, want) {
				t.Fatalf("%s, %d bytes of %d, %v", resp.Proto, len(got), size, err)
			}
		}
	}
	clientConfig := &tls.Config{RootCAs: creds(t).pool, NextProtos: []string{"h2"}}
	t.Run("Dialer", func(t *testing.T) {
		r := newRow(t, "x/net/http2", version, asClient, "AES_128_GCM")
		ask(t, &http2.Transport{
			TLSClientConfig: clientConfig,
			DialTLSContext: func(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
				return (&cryptotls.Dialer{Config: config}).DialContext(ctx, network, addr)
			},
		})
		r.did(exchange)
	})
	t.Run("crypto-tls", func(t *testing.T) {
		r := newRow(t, "x/net/http2", version, asServer, "AES_128_GCM")
		ask(t, &http.Transport{TLSClientConfig: clientConfig, ForceAttemptHTTP2: true})
		r.did(exchange)
	})
	t.Run("curl", func(t *testing.T) {
		curl := tool(t, "curl", "curl")
		if !strings.Contains(output(t, curl, "--version"), "HTTP2") {
			t.Skip("curl has no HTTP/2")
		}
		got := output(t, curl, "--silent", "--show-error", "--fail", "--http2", "--tlsv1.3", "--cacert", creds(t).ca,
			"--data-binary", "hello", "--write-out", "/%{http_version}", url)
		if got != "hello/2" {
			t.Errorf("curl says %q", got)
		}
	})
}
