package cryptotls

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/record"
)

// TestHTTP serves net/http over a Listener and asks it with net/http, by
// crypto/tls and by a Dialer.
func TestHTTP(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.TLS.Version != tls.VersionTLS13 || r.TLS.ServerName != "server.test" {
			t.Errorf("Request.TLS is %+v", r.TLS)
		}
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("request body: %d bytes, %v", len(got), err)
		}
		// ReadFrom of the connection, where net/http uses it.
		w.Header().Set("Content-Length", "1048576")
		io.Copy(w, bytes.NewReader(body))
	})
	config := serverConfig()
	config.NextProtos = []string{"h2", "http/1.1"}
	ln := NewListener(listen(t), config, nil)
	server := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()

	major, dialer := 1, Dialer{Config: ticketConfig()}
	if netHTTPKnowsConn {
		major, dialer.Config.NextProtos = 2, []string{"h2"}
	}
	for name, transport := range map[string]*http.Transport{
		"crypto/tls": {TLSClientConfig: ticketConfig(), ForceAttemptHTTP2: true},
		"Dialer":     {DialTLSContext: dialer.DialContext, ForceAttemptHTTP2: netHTTPKnowsConn},
	} {
		client := &http.Client{Transport: transport, Timeout: waitLimit}
		for range 4 {
			resp, err := client.Post("https://"+ln.Addr().String()+"/", "text/plain", bytes.NewReader(body))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, body) || resp.ProtoMajor != major {
				t.Errorf("%s: %s, %d bytes, %v", name, resp.Proto, len(got), err)
			}
		}
		client.CloseIdleConnections()
	}
	if err := server.Shutdown(testContext(t)); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// TestKeepHTTP2Alone shows what the documentation of KeepHTTP2 says of net/http: "h2" is
// negotiated, and before Go 1.27 net/http answers with HTTP/1.1.
func TestKeepHTTP2Alone(t *testing.T) {
	config, asks := serverConfig(), clientConfig()
	config.NextProtos, asks.NextProtos = []string{"h2"}, []string{"h2"}
	ln := NewListener(listen(t), config, &Options{KeepHTTP2: true})
	server := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() { server.Close(); <-served }()

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: asks, ForceAttemptHTTP2: true}, Timeout: waitLimit}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + ln.Addr().String())
	if err == nil {
		resp.Body.Close()
	}
	if works := err == nil && resp.ProtoMajor == 2; works != netHTTPKnowsConn {
		t.Errorf("HTTP/2 works: %v, not as documented; %v", works, err)
	}
	if netHTTPKnowsConn {
		return
	}
	conn, err := tls.Dial("tcp", ln.Addr().String(), asks)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(waitLimit))
	io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") // what HTTP/2 begins with
	got := make([]byte, len("HTTP/1.1"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "HTTP/1.1" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHTTP2Unspoken shows what the documentation of NewListener says of "h2" in the
// config of a server that does not speak HTTP/2.
func TestHTTP2Unspoken(t *testing.T) {
	config, asks := serverConfig(), clientConfig()
	config.NextProtos = []string{"h2", "http/1.1"}
	server := &http.Server{Handler: http.NotFoundHandler(), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	ln, served := NewListener(listen(t), config, nil), make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() { server.Close(); <-served }()

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: asks, ForceAttemptHTTP2: true}, Timeout: waitLimit}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + ln.Addr().String())
	if err == nil {
		resp.Body.Close()
	}
	if (err != nil) != netHTTPKnowsConn {
		t.Errorf("not as documented: %v", err)
	}
}

// TestHTTPTest runs httptest's server over a Listener.
func TestHTTPTest(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.ToUpper(r.URL.Path))
	}))
	server.Listener = NewListener(server.Listener, serverConfig(), nil)
	server.Start()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: clientConfig()}, Timeout: waitLimit}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + server.Listener.Addr().String() + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "/HELLO" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHTTPTruncation has clients go away without close_notify before they ask for
// anything, over crypto/tls's listener and over a Listener.
func TestHTTPTruncation(t *testing.T) {
	accept := &Options{Record: func(c *record.ConnConfig) { c.AcceptTruncation = true }}
	for _, tt := range []struct {
		name   string
		listen func(net.Listener) net.Listener
		status string
	}{
		{"crypto/tls", func(ln net.Listener) net.Listener { return tls.NewListener(ln, serverConfig()) }, ""},
		{"Listener", func(ln net.Listener) net.Listener { return NewListener(ln, serverConfig(), nil) }, "HTTP/1.1 400 Bad Request"},
		{"AcceptTruncation", func(ln net.Listener) net.Listener { return NewListener(ln, serverConfig(), accept) }, ""},
	} {
		ln := listen(t)
		server := &http.Server{Handler: http.NotFoundHandler()}
		served := make(chan error, 1)
		go func() { served <- server.Serve(tt.listen(ln)) }()
		tcp, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		tcp.SetDeadline(time.Now().Add(waitLimit))
		client := tls.Client(tcp, clientConfig())
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := tcp.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(client)
		status, _, _ := strings.Cut(string(got), "\r\n")
		if err != nil || status != tt.status {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.status)
		}
		client.Close()
		server.Close()
		<-served
	}
}

// TestHTTPClientTruncation has a server end its response, of unknown length, and its
// connection without close_notify.
func TestHTTPClientTruncation(t *testing.T) {
	accept := &Options{Record: func(c *record.ConnConfig) { c.AcceptTruncation = true }}
	for _, tt := range []struct {
		name      string
		transport *http.Transport
		want      error
	}{
		{"crypto/tls", &http.Transport{TLSClientConfig: clientConfig()}, nil},
		{"Dialer", &http.Transport{DialTLSContext: (&Dialer{Config: clientConfig()}).DialContext}, io.ErrUnexpectedEOF},
		{"AcceptTruncation", &http.Transport{DialTLSContext: (&Dialer{Config: clientConfig(), Options: accept}).DialContext}, nil},
	} {
		ln := listen(t)
		served := make(chan error, 1)
		go func() {
			served <- func() error {
				tcp, err := ln.Accept()
				if err != nil {
					return err
				}
				defer tcp.Close() // and nothing before it
				tcp.SetDeadline(time.Now().Add(waitLimit))
				conn := tls.Server(tcp, serverConfig())
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return err
				}
				_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
				return err
			}()
		}()
		client := &http.Client{Transport: tt.transport, Timeout: waitLimit}
		resp, err := client.Get("https://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != "hello" || err != tt.want {
			t.Errorf("%s: %q, %v; want %v", tt.name, got, err, tt.want)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}
