package fuzz

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// faultTransport is a net.Conn without a clock: it returns what is in in, at most
// step bytes at a time, and takes what it is given until take bytes are used up.
type faultTransport struct {
	in      []byte
	step    int
	readErr error // at the end of in; a deadline if nil
	out     []byte
	take    int
	takeErr error // when take is used up; nil is a short write
	closed  bool
}

func (c *faultTransport) Read(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	if len(c.in) == 0 {
		if c.readErr != nil {
			return 0, c.readErr
		}
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p[:min(len(p), c.step)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *faultTransport) Write(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	n := min(len(p), c.take)
	c.out = append(c.out, p[:n]...)
	c.take -= n
	if n < len(p) {
		return n, c.takeErr
	}
	return n, nil
}

func (c *faultTransport) Close() error                     { c.closed = true; return nil }
func (c *faultTransport) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c *faultTransport) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c *faultTransport) SetDeadline(time.Time) error      { return nil }
func (c *faultTransport) SetReadDeadline(time.Time) error  { return nil }
func (c *faultTransport) SetWriteDeadline(time.Time) error { return nil }

// What the bytes of a script mean to FuzzConn, modulo opCount. Each takes one byte
// more, n, and those that send take n bytes after that.
const (
	opSendInner  = iota // the peer seals an inner plaintext
	opSendBytes         // the peer sends bytes as they are
	opSendUpdate        // the peer sends a KeyUpdate, requesting if n is odd
	opRead
	opWrite
	opWriteBuffers
	opKeyUpdate
	opCloseWrite
	opStep  // the transport returns n+1 bytes at a time
	opTake  // the transport takes n bytes more
	opError // the transport's reads and short writes end in an error
	opEnd   // the transport has an end
	opClose
	opWriteMessage // of n bytes, header not counted
	opSendAlert    // n
	opExport       // another Conn goes on
	opCount
)

// FuzzConn runs a connection by a script of what the peer, the caller and the
// transport do. Whatever that is, all that leaves the connection can be opened in
// order, holds what the caller's counts say, and ends with an alert at most;
// errors stay and have their alert.
func FuzzConn(f *testing.F) {
	hello := []byte{opSendInner, 6, 'h', 'e', 'l', 'l', 'o', 23, opRead, 100}
	f.Add(hello)
	f.Add([]byte{opWrite, 100, opSendUpdate, 1, opRead, 9, opWrite, 50, opKeyUpdate, 1, opCloseWrite, 0, opWrite, 1})
	f.Add(append([]byte{opStep, 0, opSendUpdate, 0}, append(hello, opSendInner, 3, 1, 0, 21, opRead, 5, opWrite, 7, opClose, 0)...))
	f.Add([]byte{opSendInner, 3, 2, 40, 21, opRead, 1, opWrite, 9, opClose, 0})
	f.Add([]byte{opSendInner, 6, 24, 0, 0, 1, 2, 22, opRead, 1, opWrite, 9, opClose, 0})
	f.Add([]byte{opTake, 30, opWrite, 100, opWrite, 5, opClose, 0})
	f.Add([]byte{opError, 0, opTake, 45, opWriteBuffers, 60, opWrite, 5, opRead, 5})
	f.Add([]byte{opSendBytes, 6, 20, 3, 3, 0, 1, 1, opRead, 1, opClose, 0})
	f.Add([]byte{opSendBytes, 4, 23, 3, 3, 0, opEnd, 0, opRead, 1, opRead, 1})
	f.Add([]byte{opSendInner, 4, 4, 0, 0, 22, opRead, 3, opSendInner, 7, 5, 1, 2, 3, 4, 5, 22, opRead, 1})
	f.Add([]byte{opWriteMessage, 90, opWrite, 9, opSendAlert, 90, opWriteMessage, 200, opSendAlert, 49, opRead, 1, opWrite, 1})
	f.Add(append(append([]byte{opWrite, 30, opSendUpdate, 1, opRead, 0, opExport, 0}, hello...), opKeyUpdate, 1, opExport, 0, opWriteMessage, 3, opSendAlert, 0))
	f.Add(append(slices.Clone(hello[:len(hello)-1]), 0, opSendBytes, 3, 23, 3, 3, opRead, 1, opExport, 0, opClose, 0, opExport, 0))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 1000 {
			return // shorter ones do as well, and faster
		}
		watchdog := time.AfterFunc(time.Minute, func() { panic("a script does not end") })
		defer watchdog.Stop()
		suite := aead.AES128GCM()
		own := fuzzSecret[:]
		remote := bytes.Repeat([]byte{7}, 32)
		sealer, opener := record.NewSealer(record.SealerConfig{SoftLimit: 5}), record.NewOpener(record.OpenerConfig{})
		if err := errors.Join(
			sealer.SetTrafficSecret(record.EpochApplication, suite, own),
			opener.SetTrafficSecret(record.EpochApplication, suite, remote),
		); err != nil {
			t.Fatal(err)
		}
		transport := &faultTransport{step: 1 << 20, take: 1 << 30}
		var sent []record.Alert
		cfg := record.ConnConfig{
			Role: record.RoleClient, Sealer: sealer, Opener: opener,
			OnAlert: func(a record.Alert, wasSent bool) {
				if wasSent {
					sent = append(sent, a)
				}
			},
		}
		c, err := record.NewConn(transport, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := newPeer(t, remote)
		counted, idle, canceled := 0, 0, 0
		var messages []byte
		var readErr, writeErr error
		closed, alerted := false, false
		data := make([]byte, 40_000)
		wrote := func(n int, err error) {
			counted += n
			if writeErr != nil && err != writeErr && err != readErr && !closed {
				t.Errorf("write error %v after %v", err, writeErr)
			}
			if err != nil && writeErr == nil {
				writeErr = err
			}
			if writeErr != nil && n != 0 && err == nil {
				t.Errorf("%d bytes after %v", n, writeErr)
			}
		}
		for len(script) >= 2 {
			op, n := script[0]%opCount, int(script[1])
			script = script[2:]
			switch op {
			case opSendInner:
				n = min(n, len(script))
				transport.in = p.seal(transport.in, script[:n])
				script = script[n:]
			case opSendBytes:
				n = min(n, len(script))
				transport.in = append(transport.in, script[:n]...)
				script = script[n:]
			case opSendUpdate:
				request := byte(n & 1)
				if idle++; idle >= 20 {
					request = 0 // no answer
				}
				transport.in = p.seal(transport.in, []byte{24, 0, 0, 1, request, 22})
				next, err := aead.NextTrafficSecret(suite, remote)
				if err != nil {
					t.Fatal(err)
				}
				remote = next
				p = newPeer(t, remote)
			case opRead:
				n, err := c.Read(data[:n*100])
				var timeout interface{ Timeout() bool }
				switch {
				case readErr != nil && (n != 0 || err != readErr && !closed && len(data[:n*100]) > 0 && err != nil):
					t.Errorf("read %d, %v after %v", n, err, readErr)
				case err != nil && !closed && !(errors.As(err, &timeout) && timeout.Timeout()):
					readErr = err
				}
				if n > 0 && err != nil {
					t.Errorf("read %d and %v", n, err)
				}
			case opWrite:
				size := n * 20
				if n == 255 {
					size = 40_000
				}
				n, err := c.Write(data[:size])
				if n > size || n < size && err == nil {
					t.Errorf("wrote %d of %d, %v", n, size, err)
				}
				wrote(n, err)
			case opWriteBuffers:
				m, err := c.WriteBuffers([][]byte{data[:n], nil, data[:n*9], data[:1]})
				wrote(int(m), err)
			case opKeyUpdate:
				if idle++; idle < 20 { // more in a row end a connection
					wrote(0, c.KeyUpdate(n&1 == 1))
				}
			case opCloseWrite:
				if err := c.CloseWrite(); err == nil && writeErr == nil {
					writeErr = record.ErrClosed
				}
			case opStep:
				transport.step = n + 1
			case opTake:
				transport.take = n
			case opError:
				transport.takeErr = io.ErrClosedPipe
				transport.readErr = io.ErrClosedPipe
			case opEnd:
				transport.readErr = io.EOF
			case opClose:
				c.Close()
				closed = true
			case opWriteMessage:
				if idle++; idle >= 20 {
					break
				}
				message := append([]byte{11, 0, 0, byte(n)}, data[:n]...) // Certificate
				err := c.WriteHandshake(message)
				if err == nil {
					messages = append(messages, message...)
				}
				wrote(0, err)
			case opSendAlert:
				a := record.Alert(n)
				if a == record.AlertUserCanceled {
					if canceled++; canceled > 4 {
						break // more end a connection
					}
				}
				switch err := c.SendAlert(a); {
				case a.IsError():
					alerted, closed = true, true // by us, as far as errors go
				case a == record.AlertUserCanceled:
					wrote(0, err)
				case err == nil && writeErr == nil:
					writeErr = record.ErrClosed
				}
			case opExport:
				sealState, openState, err := c.Export()
				if err != nil {
					var transport *record.TransportError
					switch {
					case err == record.ErrHandshakePartial, err == readErr, err == writeErr, closed:
					case writeErr == nil && errors.As(err, &transport):
						writeErr = err // of an answer, which no call has returned yet
					case readErr == nil:
						readErr = err // behind data that a Read returned
					default:
						t.Errorf("Export: %v out of nothing", err)
					}
					break
				}
				if closed || readErr != nil || writeErr != nil {
					t.Errorf("exported after %v, %v, closed %v", readErr, writeErr, closed)
				}
				if cfg.Sealer, err = record.ImportSealer(sealState, record.SealerConfig{SoftLimit: 5}); err == nil {
					cfg.Opener, cfg.Unread, err = record.ImportOpener(openState, record.OpenerConfig{})
				}
				if err == nil {
					c, err = record.NewConn(transport, cfg)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		c.Close()

		// All that was taken, up to a record that was cut off, is ours and in order.
		follow := record.NewOpener(record.OpenerConfig{})
		if err := follow.SetTrafficSecret(record.EpochApplication, suite, own); err != nil {
			t.Fatal(err)
		}
		got := 0
		var alerts []record.Alert
		var gotMessages []byte
		for in := transport.out; len(in) > 0; {
			rec, need, err := follow.Open(in)
			if err != nil {
				t.Fatalf("what was sent cannot be opened: %v", err)
			}
			if need > 0 {
				break
			}
			in = in[rec.Size:]
			if len(alerts) > 0 && alerts[len(alerts)-1] != record.AlertUserCanceled {
				t.Fatalf("a record after %v", alerts)
			}
			switch rec.Type {
			case record.ContentTypeApplicationData:
				got += len(rec.Content)
			case record.ContentTypeAlert:
				alerts = append(alerts, record.Alert(rec.Content[1]))
			case record.ContentTypeHandshake:
				if rec.Content[0] != 24 {
					gotMessages = append(gotMessages, rec.Content...)
				} else if err := follow.KeyUpdate(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got != counted {
			t.Errorf("the calls counted %d bytes, the peer has %d", counted, got)
		}
		if !bytes.Equal(gotMessages, messages) {
			t.Errorf("the peer has messages %x, the calls sent %x", gotMessages, messages)
		}
		if !slices.Equal(alerts, sent) {
			t.Errorf("sent %v, reported %v", alerts, sent)
		}
		if len(alerts) == 1 && alerts[0].IsError() && readErr != nil && !alerted {
			if want, ok := record.AlertOf(readErr); !ok || want != alerts[0] {
				t.Errorf("sent %v for %v", alerts[0], readErr)
			}
		}
	})
}

// FuzzMessages compares the parsers of alerts, handshake messages and KeyUpdates
// with plain readings of the specification, for any bytes in any pieces.
func FuzzMessages(f *testing.F) {
	// Alerts: both levels, an unknown one, and the wrong sizes.
	for _, alert := range []string{"\x01\x00", "\x02\x28", "\x01Z", "\xff\xff", "", "\x02", "\x02\x28\x00", "\x01\x00\x01\x00"} {
		f.Add([]byte(alert), uint8(0), uint16(0))
	}
	// KeyUpdates: both values, others, and the wrong sizes.
	for _, update := range []string{
		"\x18\x00\x00\x01\x00", "\x18\x00\x00\x01\x01", "\x18\x00\x00\x01\x02", "\x18\x00\x00\x01\xff",
		"\x18\x00\x00\x00", "\x18\x00\x00\x02\x00\x00", "\x18\x00\x01\x01\x00", "\x18\x01\x00\x01\x00", "\x18\x00\x00\x01",
		"\x18\x00\x00\x01\x00\x18\x00\x00\x01\x01", "\x17\x00\x00\x01\x00",
	} {
		f.Add([]byte(update), uint8(1), uint16(10))
	}
	// Messages: one, several and part of one, of each length that is checked, at the
	// limit and above it, in pieces that end before, in and behind a header.
	ticket := "\x04\x00\x00\x05ticke"
	for _, messages := range []string{
		ticket, ticket + ticket + ticket[:6], ticket + "\x18\x00\x00\x01\x02" + ticket, "\x0b\x00\x00\x00" + ticket[:3],
		"\x05\x00\x00\x00" + ticket, "\x05\x00\x00\x01\x00",
		"\x14\x00\x00\x20" + strings.Repeat("f", 32), "\x14\x00\x00\x40" + strings.Repeat("f", 64), "\x14\x00\x00\x41",
		"\x04\x00\x00\xc8", "\x04\x00\x00\xc9", "\x04\x00\xff\xff", "\x04\x01\x00\x00", "\x04\xff\xff\xff",
		ticket + "\x04\x00\x00\xc8" + strings.Repeat("t", 200) + ticket, ticket + "\x04\x00\x00\xc9" + strings.Repeat("t", 201),
	} {
		for _, piece := range []uint8{0, 2, 3, 4, 8, 255} {
			f.Add([]byte(messages), piece, uint16(200))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, limit uint16) {
		a, err := record.ParseAlert(data)
		if (err == nil) != (len(data) == 2) || err == nil && byte(a) != data[1] {
			t.Errorf("alert %x: %v, %v", data, a, err)
		}
		request, err := record.ParseKeyUpdate(data)
		wellFormed := len(data) == 5 && bytes.Equal(data[:4], []byte{24, 0, 0, 1})
		var want error
		switch {
		case !wellFormed:
			want = record.ErrMalformedMessage
		case data[4] > 1:
			want = record.ErrKeyUpdateRequest
		}
		if err != want || err == nil && request != (data[4] == 1) {
			t.Errorf("KeyUpdate %x: %v, %v", data, request, err)
		}

		// The messages, as the specification has them.
		var messages [][]byte
		rest := data
		var refused error
		for len(rest) >= 4 {
			size := int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
			switch typ := rest[0]; {
			case typ == 24 && size != 1, typ == 5 && size != 0, typ == 20 && size > 64:
				refused = record.ErrMalformedMessage
			case size > int(limit):
				refused = record.ErrHandshakeSize
			}
			if refused != nil || len(rest) < 4+size {
				break
			}
			messages = append(messages, rest[:4+size])
			rest = rest[4+size:]
		}
		r := record.NewHandshakeReader(int(limit))
		var got [][]byte
		err = nil
		for in := data; len(in) > 0 && err == nil; {
			n := min(int(piece)+1, len(in))
			if err = r.Append(in[:n]); err != nil {
				break
			}
			in = in[n:]
			for {
				var m []byte
				if m, err = r.Next(); m == nil || err != nil {
					break
				}
				got = append(got, bytes.Clone(m))
			}
		}
		if err != refused || err == nil && r.Empty() != (len(rest) == 0) {
			t.Fatalf("%x in pieces of %d: %v, %d bytes left", data, int(piece)+1, err, len(rest))
		}
		if len(got) != len(messages) {
			t.Fatalf("%d messages, want %d", len(got), len(messages))
		}
		for i := range got {
			if !bytes.Equal(got[i], messages[i]) {
				t.Errorf("message %d differs", i)
			}
		}
	})
}
