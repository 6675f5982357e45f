package cryptotls

import (
	"net"
	"testing"
)

// BenchmarkHandshake measures a handshake of both sides over loopback, by
// crypto/tls alone and with the connections taken over.
func BenchmarkHandshake(b *testing.B) {
	sc := serverConfig()
	for _, bb := range []struct {
		name           string
		client, server side
	}{
		{"crypto-tls", goClient(clientConfig()), goServer(sc)},
		{"handover", ourClient(clientConfig(), nil), ourServer(sc, nil)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := b.Context()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer ln.Close()
			for b.Loop() {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				s, err := ln.Accept()
				if err != nil {
					b.Fatal(err)
				}
				done := start(func() (net.Conn, error) { return bb.server(ctx, s) })
				if _, err := bb.client(ctx, c); err != nil {
					b.Fatal(err)
				}
				if r := <-done; r.err != nil {
					b.Fatal(r.err)
				}
				c.Close()
				s.Close()
			}
		})
	}
}
