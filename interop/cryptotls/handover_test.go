package cryptotls

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// handshakeSeen is what a transport saw of a handshake.
type handshakeSeen struct {
	sent, received []byte
	log            keyLog
	suite          *aead.Suite
}

func (h *handshakeSeen) transport() *transport {
	return &transport{sent: slices.Clone(h.sent), received: slices.Clone(h.received), log: h.log}
}

// see runs a handshake of ours, as server or client, and returns what the
// transport saw.
func see(t testing.TB, client bool) *handshakeSeen {
	t.Helper()
	c, s := tcpPair(t)
	mine, theirs := s, c
	if client {
		mine, theirs = c, s
	}
	tr := newTransport(mine)
	o := new(Options)
	var tc *tls.Conn
	var peer side
	if client {
		tc = tls.Client(tr, o.clientConfig(ticketConfig(), tr))
		peer = goServer(serverConfig())
	} else {
		tc = tls.Server(tr, o.serverConfig(serverConfig(), tr, true))
		peer = goClient(ticketConfig())
	}
	done := start(func() (net.Conn, error) { return peer(testContext(t), theirs) })
	if err := tc.HandshakeContext(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil {
		t.Fatal(r.err)
	}
	return &handshakeSeen{tr.sent, tr.received, tr.log, aead.SuiteByID(tc.ConnectionState().CipherSuite)}
}

// wireRecords cuts a stream into records.
func wireRecords(stream []byte) (records [][]byte) {
	for len(stream) > 0 {
		n := recordSize(stream)
		records = append(records, stream[:n])
		stream = stream[n:]
	}
	return records
}

// TestHandOverRefuses changes what went over the wire in every way that could
// put a sequence number in doubt. None may lead to a connection.
func TestHandOverRefuses(t *testing.T) {
	for _, client := range []bool{false, true} {
		seen := see(t, client)
		handOver := func(tr *transport) error {
			s, o, err := tr.handOver(record.SealerConfig{}, seen.suite.ID(), client)
			if err == nil {
				s.Wipe()
				o.Wipe()
			}
			return err
		}
		refuse := func(what string, change func(*transport)) {
			t.Helper()
			tr := seen.transport()
			change(tr)
			err := handOver(tr)
			if !errors.Is(err, ErrHandover) {
				t.Errorf("client %v, %s: error is %v", client, what, err)
			}
			if err != nil {
				for kind := range secretKinds {
					if s := seen.log.get(kind); strings.Contains(err.Error(), string(s)) {
						t.Errorf("%s: the error holds a secret", what)
					}
				}
			}
		}
		if err := handOver(seen.transport()); err != nil {
			t.Fatalf("client %v: %v", client, err)
		}
		for name, stream := range map[string]func(*transport) *[]byte{
			"sent":     func(tr *transport) *[]byte { return &tr.sent },
			"received": func(tr *transport) *[]byte { return &tr.received },
		} {
			records := wireRecords(*stream(seen.transport()))
			for i, r := range records {
				if r[0] != byte(record.ContentTypeApplicationData) {
					continue
				}
				last := i == len(records)-1
				without := slices.Concat(slices.Delete(slices.Clone(records), i, i+1)...)
				if !last || !(name == "sent" && !client) { // but a server's ticket may be missing
					refuse(name+" without a protected record", func(tr *transport) { *stream(tr) = without })
				}
				refuse(name+" with a record twice", func(tr *transport) {
					*stream(tr) = slices.Concat(slices.Insert(slices.Clone(records), i, r)...)
				})
				refuse(name+" with a flipped bit", func(tr *transport) {
					at := len(slices.Concat(records[:i]...)) + len(r)/2
					(*stream(tr))[at] ^= 1
				})
			}
			refuse(name+" cut by a byte", func(tr *transport) { *stream(tr) = (*stream(tr))[:len(*stream(tr))-1] })
			refuse(name+" with a byte more", func(tr *transport) { *stream(tr) = append(*stream(tr), 23) })
			refuse(name+" empty", func(tr *transport) { *stream(tr) = nil })
			refuse(name+" without protection", func(tr *transport) { *stream(tr) = records[0] })
		}
		for kind := range secretKinds {
			refuse("no secret "+secretLabels[kind], func(tr *transport) { tr.log.secrets[kind] = secret{} })
			if kind == clientApplication && !client || kind == serverApplication && client {
				continue // the peer's application secret has protected nothing yet
			}
			if kind == clientApplication {
				continue // nor has a client's
			}
			refuse("wrong secret "+secretLabels[kind], func(tr *transport) { tr.log.secrets[kind].b[0] ^= 1 })
		}
		refuse("other suite of the same hash", func(tr *transport) {
			s, o, err := tr.handOver(record.SealerConfig{}, aead.ChaCha20Poly1305().ID(), client)
			if err == nil || s != nil || o != nil {
				t.Error("handed over under another suite")
			}
			tr.sent = nil
		})
		tr := seen.transport()
		_, _, err := tr.handOver(record.SealerConfig{}, 0x1399, client)
		wantError(t, err, ErrHandover)
	}
}

// TestSealedRecords seals what may and what may not stand behind Finished.
func TestSealedRecords(t *testing.T) {
	suite := aead.AES128GCM()
	hs, app := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	finished := append([]byte{typeFinished, 0, 0, 32}, make([]byte, 32)...)
	ticket := newSessionTicket(1, 0, []byte("ticket"))
	stream := func(handshake, application func(s *record.Sealer, b []byte) []byte) []byte {
		s := record.NewSealer(record.SealerConfig{})
		b, err := s.Seal(nil, record.ContentTypeHandshake, []byte{2, 0, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		if handshake == nil {
			return b
		}
		if err := s.SetTrafficSecret(record.EpochHandshake, suite, hs); err != nil {
			t.Fatal(err)
		}
		b = handshake(s, b)
		if application != nil {
			if err := s.SetTrafficSecret(record.EpochApplication, suite, app); err != nil {
				t.Fatal(err)
			}
			b = application(s, b)
		}
		return b
	}
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seal := func(typ record.ContentType, contents ...[]byte) func(*record.Sealer, []byte) []byte {
		return func(s *record.Sealer, b []byte) []byte {
			for _, c := range contents {
				b = must(s.Seal(b, typ, c))
			}
			return b
		}
	}
	handshake := func(contents ...[]byte) func(*record.Sealer, []byte) []byte {
		return seal(record.ContentTypeHandshake, contents...)
	}
	alert := func(a ...record.Alert) func(*record.Sealer, []byte) []byte {
		return func(s *record.Sealer, b []byte) []byte {
			for _, a := range a {
				b = must(s.SealAlert(b, a))
			}
			return b
		}
	}
	both := func(f ...func(*record.Sealer, []byte) []byte) func(*record.Sealer, []byte) []byte {
		return func(s *record.Sealer, b []byte) []byte {
			for _, f := range f {
				b = f(s, b)
			}
			return b
		}
	}
	for _, tt := range []struct {
		name   string
		stream []byte
		sealed int
		err    error
	}{
		{"Finished", stream(handshake(finished), nil), 0, nil},
		{"Finished in two records", stream(handshake(finished[:7], finished[7:]), nil), 0, nil},
		{"messages before Finished share its record", stream(handshake(slices.Concat([]byte{8, 0, 0, 0}, finished)), nil), 0, nil},
		{"ticket", stream(handshake(finished), handshake(ticket)), 1, nil},
		{"two tickets in three records", stream(handshake(finished), handshake(ticket[:3], slices.Concat(ticket[3:], ticket[:9]), ticket[9:])), 3, nil},
		{"user_canceled", stream(both(alert(record.AlertUserCanceled), handshake(finished)), nil), 0, nil},

		{"nothing", nil, 0, errNoFinished},
		{"no protected record", stream(nil, nil), 0, errNoFinished},
		{"no Finished", stream(handshake([]byte{8, 0, 0, 0}), nil), 0, errNoFinished},
		{"part of Finished", stream(handshake(finished[:9]), nil), 0, errNoFinished},
		{"part of a ticket", stream(handshake(finished), handshake(ticket[:9])), 0, errRest},
		{"message behind Finished in its record", stream(handshake(slices.Concat(finished, []byte{8, 0, 0, 0})), nil), 0, errRest},
		{"ticket behind Finished in its record", stream(handshake(slices.Concat(finished, ticket)), nil), 0, errRest},
		{"Finished twice", stream(handshake(finished), handshake(finished)), 0, errNoTicket},
		{"KeyUpdate", stream(handshake(finished), func(s *record.Sealer, b []byte) []byte { return must(s.SealKeyUpdate(b, false)) }), 0, errNoTicket},
		{"application data", stream(handshake(finished), seal(record.ContentTypeApplicationData, []byte("data"))), 0, errEarlyData},
		{"empty application data", stream(handshake(finished), seal(record.ContentTypeApplicationData, nil)), 0, errEarlyData},
		{"close_notify", stream(handshake(finished), alert(record.AlertCloseNotify)), 0, errEarlyAlert},
		{"alert before Finished", stream(alert(record.AlertInternalError), nil), 0, errEarlyAlert},
	} {
		sealed, err := sealedRecords(slices.Clone(tt.stream), suite, hs, app)
		if !errors.Is(err, tt.err) || len(sealed) != tt.sealed {
			t.Errorf("%s: %d records, error %v; want %d, %v", tt.name, len(sealed), err, tt.sealed, tt.err)
			continue
		}
		// What is under application keys is reproduced bit by bit, also under a
		// padding policy, which then holds for what follows.
		if tt.err != nil {
			continue
		}
		s, err := newSealer(record.SealerConfig{Padding: func(int) int { return 100 }}, suite, app, sealed)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if s.Seq() != uint64(tt.sealed) {
			t.Errorf("%s: sequence number %d", tt.name, s.Seq())
		}
		if b, err := s.Seal(nil, record.ContentTypeApplicationData, []byte("x")); err != nil || len(b) != s.SealedSize(1)+100 {
			t.Errorf("%s: record of %d bytes, %v", tt.name, len(b), err)
		}
	}

	// A version of crypto/tls that pads its tickets, or sets another legacy
	// version, could not be followed.
	s := record.NewSealer(record.SealerConfig{Padding: func(int) int { return 1 }})
	if err := s.SetTrafficSecret(record.EpochApplication, suite, app); err != nil {
		t.Fatal(err)
	}
	wire := must(s.Seal(nil, record.ContentTypeHandshake, ticket))
	_, err := newSealer(record.SealerConfig{}, suite, app, []sealedRecord{{wire: wire, content: ticket}})
	wantError(t, err, errNotIdentical)
}

// TestTransportReads checks that a read never crosses the end of a record and
// never delivers a byte twice or not at all, whatever the sizes.
func TestTransportReads(t *testing.T) {
	var stream []byte
	var ends []int
	for i, size := range []int{1, 100, 0, 4096, 4091, 5, 16640, 65535, 1} {
		stream = append(stream, byte(20+i%4), 3, 3, byte(size>>8), byte(size))
		stream = append(stream, bytes.Repeat([]byte{byte(i)}, size)...)
		ends = append(ends, len(stream))
	}
	for _, chunk := range []int{1, 3, 5, 7, 512, 4096, 5000, 1 << 20} {
		for _, ask := range []int{1, 5, 517, 1 << 17} {
			tr := newTransport(&chunks{data: stream, size: chunk})
			var got []byte
			p := make([]byte, ask)
			for len(got) < len(stream) {
				n, err := tr.Read(p)
				if err != nil || n == 0 {
					t.Fatalf("chunk %d, ask %d, at %d: %d, %v", chunk, ask, len(got), n, err)
				}
				for _, end := range ends {
					if len(got) < end && len(got)+n > end {
						t.Fatalf("chunk %d, ask %d: a read crosses %d", chunk, ask, end)
					}
				}
				got = append(got, p[:n]...)
			}
			if !bytes.Equal(got, stream) || !bytes.Equal(tr.received, stream) {
				t.Fatalf("chunk %d, ask %d: stream changed", chunk, ask)
			}
			if _, err := tr.Read(p); err != io.EOF {
				t.Fatalf("chunk %d, ask %d: error %v at the end", chunk, ask, err)
			}
		}
	}
	t.Run("incomplete header", func(t *testing.T) {
		tr := newTransport(&chunks{data: []byte{22, 3, 1}, size: 2})
		p := make([]byte, 10)
		if n, err := tr.Read(p); n != 3 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := tr.Read(p); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("size limit", func(t *testing.T) {
		long := bytes.Repeat(append([]byte{20, 3, 3, 0xff, 0xff}, make([]byte, 0xffff)...), 20)
		tr := newTransport(&chunks{data: long, size: 1 << 20})
		_, err := io.Copy(io.Discard, tr)
		wantError(t, err, errTooLong)
		if len(tr.received) > maxHandshakeSize {
			t.Errorf("kept %d bytes", len(tr.received))
		}
		if _, err := tr.Write(make([]byte, maxHandshakeSize+1)); !errors.Is(err, errTooLong) {
			t.Errorf("Write: %v", err)
		}
	})
}

// chunks is a connection that delivers data in chunks.
type chunks struct {
	net.Conn
	data []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size)], c.data)
	c.data = c.data[n:]
	return n, nil
}

// TestManyAtOnce hands over many connections of one config at the same time: the
// secrets of one must never reach another.
func TestManyAtOnce(t *testing.T) {
	ln := NewListener(listen(t), serverConfig(), nil)
	var servers sync.WaitGroup
	servers.Add(1)
	go func() {
		defer servers.Done()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			servers.Go(func() {
				defer c.Close()
				io.Copy(c, c)
			})
		}
	}()
	d := &Dialer{Config: ticketConfig()}
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			c, err := d.DialContext(testContext(t), "tcp", ln.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			want := bytes.Repeat([]byte{byte(i)}, 50_000)
			go c.Write(want)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("connection %d: %v", i, err)
			}
		})
	}
	clients.Wait()
	ln.Close()
	servers.Wait()
}
