package record

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"testing"

	"example.com/splitseal/aead"
)

// secretOf returns a traffic secret for suite that no other name gives.
func secretOf(suite *aead.Suite, name string) []byte {
	s := make([]byte, suite.Hash().Size())
	copy(s, name)
	return s
}

// appSealer returns a Sealer under application keys.
func appSealer(t testing.TB, suite *aead.Suite, name string, cfg SealerConfig) *Sealer {
	t.Helper()
	s := NewSealer(cfg)
	if err := s.SetTrafficSecret(EpochApplication, suite, secretOf(suite, name)); err != nil {
		t.Fatal(err)
	}
	return s
}

// appOpener returns the Opener that fits appSealer's Sealer of that name.
func appOpener(t testing.TB, suite *aead.Suite, name string) *Opener {
	t.Helper()
	o := NewOpener(OpenerConfig{})
	if err := o.SetTrafficSecret(EpochApplication, suite, secretOf(suite, name)); err != nil {
		t.Fatal(err)
	}
	return o
}

// newConn returns one side of a connection.
func newConn(t testing.TB, transport net.Conn, cfg ConnConfig) *Conn {
	t.Helper()
	own, peer := "client", "server"
	if cfg.Role == 0 {
		cfg.Role = RoleClient
	}
	if cfg.Role == RoleServer {
		own, peer = peer, own
	}
	if cfg.Sealer == nil {
		cfg.Sealer = appSealer(t, aead.AES128GCM(), own, SealerConfig{})
	}
	if cfg.Opener == nil {
		cfg.Opener = appOpener(t, aead.AES128GCM(), peer)
	}
	c, err := NewConn(transport, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tcpPair returns the two ends of a connection over loopback.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func TestConnEcho(t *testing.T) {
	pipe := func(t testing.TB) (net.Conn, net.Conn) { return net.Pipe() }
	tcp := func(t testing.TB) (net.Conn, net.Conn) { a, b := tcpPair(t); return a, b }
	for name, pair := range map[string]func(testing.TB) (net.Conn, net.Conn){"pipe": pipe, "tcp": tcp} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			client := newConn(t, a, ConnConfig{Role: RoleClient})
			server := newConn(t, b, ConnConfig{Role: RoleServer})
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(server, server)
				if err == nil {
					err = server.CloseWrite()
				}
				done <- err
			}()
			want := make([]byte, 300_000)
			rand.Read(want)
			go func() {
				client.Write(want[:100_000])
				client.KeyUpdate(true)
				client.WriteBuffers(net.Buffers{want[100_000:100_001], nil, want[100_001:200_000], want[200_000:200_100]})
				client.ReadFrom(bytes.NewReader(want[200_100:]))
				client.CloseWrite()
			}()
			got, err := io.ReadAll(client)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("got %d bytes, want %d", len(got), len(want))
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			if err := server.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
