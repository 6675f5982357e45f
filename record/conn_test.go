package record

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"testing"
)

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
