package record

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"example.com/splitseal/aead"
)

// The benchmarks of this file run beside crypto/tls doing the same, under names that
// differ in the last part only: lines that share the rest are one comparison. Run
// them alternately, with -count, and compare with benchstat.
//
//	go test -run '^$' -bench 'Write|Read|PingPong' -count 10 ./record

// discard is a transport that takes everything and has nothing.
type discard struct{ stub }

func (*discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkWrite writes a record: by the Sealer alone, through a Writer and a Conn,
// and as crypto/tls writes it, all to a transport that discards it.
func BenchmarkWrite(b *testing.B) {
	for _, size := range benchSizes {
		content := make([]byte, size)
		run := func(who string, f func() error) {
			b.Run(fmt.Sprintf("AES-128-GCM/%d/%s", size, who), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		sealer := appSealer(b, aead.AES128GCM(), "client", SealerConfig{})
		record := make([]byte, 0, MaxRecordSize)
		run("Sealer", func() (err error) {
			if sealer.NeedsKeyUpdate() {
				if _, err := sealer.SealKeyUpdate(record, false); err != nil {
					return err
				}
			}
			_, err = sealer.Seal(record, ContentTypeApplicationData, content)
			return err
		})
		w := NewWriter(&discard{}, appSealer(b, aead.AES128GCM(), "client", SealerConfig{}), WriterConfig{KeepBuffer: true})
		run("Writer", func() error { _, err := w.Write(content); return err })
		c := newConn(b, &discard{}, ConnConfig{})
		run("Conn", func() error { _, err := c.Write(content); return err })
		peer := newTLS(b)
		peer.clientEnd.discard()
		run("crypto-tls", func() error { _, err := peer.client.Write(content); return err })
	}
}

// BenchmarkRead reads a stream of 64 MiB in records of one size, from memory.
func BenchmarkRead(b *testing.B) {
	const stream = 64 << 20
	for _, size := range benchSizes {
		records := stream / size
		content := make([]byte, size)
		name := fmt.Sprintf("AES-128-GCM/%d/", size)
		p := make([]byte, 64<<10)
		readAll := func(b *testing.B, r io.Reader) {
			for left := records * size; left > 0; {
				n, err := r.Read(p)
				if err != nil {
					b.Fatal(err)
				}
				left -= n
			}
		}
		b.Run(name+"Conn", func(b *testing.B) {
			sealer := appSealer(b, aead.AES128GCM(), "server", SealerConfig{})
			wire := make([]byte, 0, records*sealer.SealedSize(size))
			for range records {
				wire, _ = sealer.Seal(wire, ContentTypeApplicationData, content)
			}
			b.SetBytes(int64(records * size))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				c := newConn(b, &memory{data: wire}, ConnConfig{})
				b.StartTimer()
				readAll(b, c)
			}
		})
		b.Run(name+"crypto-tls", func(b *testing.B) {
			b.SetBytes(int64(records * size))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				peer := newTLS(b)
				wire := peer.serverEnd.record(func() {
					for range records {
						peer.server.Write(content)
					}
				})
				peer.clientEnd.play(wire)
				b.StartTimer()
				readAll(b, peer.client)
			}
		})
	}
}

// BenchmarkPingPong sends 100 bytes over loopback TCP and back.
func BenchmarkPingPong(b *testing.B) {
	run := func(who string, client, server net.Conn) {
		b.Run("100/"+who, func(b *testing.B) {
			b.ReportAllocs()
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				p := make([]byte, 100)
				for range b.N {
					if _, err := io.ReadFull(server, p); err != nil {
						b.Error(err)
						return
					}
					if _, err := server.Write(p); err != nil {
						b.Error(err)
						return
					}
				}
			}()
			p := make([]byte, 100)
			b.ResetTimer()
			for range b.N {
				if _, err := client.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, p); err != nil {
					b.Fatal(err)
				}
			}
			<-stop
		})
	}
	x, y := tcpPair(b)
	run("Conn", newConn(b, x, ConnConfig{Role: RoleClient}), newConn(b, y, ConnConfig{Role: RoleServer}))
	x, y = tcpPair(b)
	client, server := tls.Client(x, clientConfig()), tls.Server(y, serverConfig(b))
	go server.Handshake()
	if err := client.Handshake(); err != nil {
		b.Fatal(err)
	}
	run("crypto-tls", client, server)
}

// memory is a transport that returns what it holds.
type memory struct {
	stub
	data []byte
}

func (m *memory) Read(p []byte) (int, error) {
	if len(m.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.data)
	m.data = m.data[n:]
	return n, nil
}

// tlsPair is a connection of crypto/tls after its handshake.
type tlsPair struct {
	client, server       *tls.Conn
	clientEnd, serverEnd *switchable
}

// newTLS returns a connection with AES-128-GCM.
func newTLS(t testing.TB) *tlsPair {
	t.Helper()
	a, b := net.Pipe()
	p := &tlsPair{clientEnd: &switchable{Conn: a}, serverEnd: &switchable{Conn: b}}
	p.client, p.server = tls.Client(p.clientEnd, clientConfig()), tls.Server(p.serverEnd, serverConfig(t))
	done := make(chan error, 1)
	go func() { done <- p.server.Handshake() }()
	if err := p.client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if p.client.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Fatal("crypto/tls has not chosen AES-128-GCM")
	}
	return p
}

func clientConfig() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true}
}

var benchCertificate *tls.Certificate

func serverConfig(t testing.TB) *tls.Config {
	if benchCertificate == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		benchCertificate = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return &tls.Config{Certificates: []tls.Certificate{*benchCertificate}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}

// switchable is a transport whose ends can be exchanged for memory.
type switchable struct {
	net.Conn
	discarding bool
	recording  *[]byte
	playing    []byte
}

func (s *switchable) discard() { s.discarding = true }

func (s *switchable) record(f func()) []byte {
	var wire []byte
	s.recording = &wire
	f()
	s.recording = nil
	return wire
}

func (s *switchable) play(wire []byte) { s.playing = wire }

func (s *switchable) Write(p []byte) (int, error) {
	if s.discarding {
		return len(p), nil
	}
	if s.recording != nil {
		*s.recording = append(*s.recording, p...)
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *switchable) Read(p []byte) (int, error) {
	if s.playing != nil {
		if len(s.playing) == 0 {
			return 0, io.EOF
		}
		n := copy(p, s.playing)
		s.playing = s.playing[n:]
		return n, nil
	}
	return s.Conn.Read(p)
}
