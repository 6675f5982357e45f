package cryptotls

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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

	for name, transport := range map[string]*http.Transport{
		"crypto/tls": {TLSClientConfig: ticketConfig(), ForceAttemptHTTP2: true},
		"Dialer":     {DialTLSContext: (&Dialer{Config: ticketConfig()}).DialContext},
	} {
		client := &http.Client{Transport: transport, Timeout: waitLimit}
		for range 4 {
			resp, err := client.Post("https://"+ln.Addr().String()+"/", "text/plain", bytes.NewReader(body))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Equal(got, body) || resp.ProtoMajor != 1 {
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
