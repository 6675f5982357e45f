package record

import (
	"bytes"
	"fmt"
	"testing"
)

// "request_update: Indicates whether the recipient of the KeyUpdate should respond
// with its own KeyUpdate. If an implementation receives any other value, it MUST
// terminate the connection with an "illegal_parameter" alert." (RFC 9846, Section
// 4.7.3) "Peers which receive a message which cannot be parsed according to the
// syntax [...] MUST terminate the connection with a "decode_error" alert." (Section 6)
func TestParseKeyUpdate(t *testing.T) {
	for v := range 256 {
		request, err := ParseKeyUpdate([]byte{24, 0, 0, 1, byte(v)})
		if v <= 1 {
			if err != nil || request != (v == 1) {
				t.Errorf("value %d: %v, %v", v, request, err)
			}
			continue
		}
		wantErr(t, fmt.Sprintf("value %d", v), err, ErrKeyUpdateRequest, AlertIllegalParameter)
	}
	for _, msg := range [][]byte{
		nil, {24}, {24, 0, 0, 1}, {24, 0, 0, 0}, {24, 0, 0, 2, 0, 0}, {24, 0, 0, 1, 0, 0},
		{24, 0, 0, 2, 0}, {24, 1, 0, 1, 0}, {24, 0, 1, 1, 0}, {4, 0, 0, 1, 0}, {24, 0, 0, 0, 0},
	} {
		_, err := ParseKeyUpdate(msg)
		wantErr(t, fmt.Sprintf("%x", msg), err, ErrMalformedMessage, AlertDecodeError)
	}
}

// "Alert messages MUST NOT be fragmented across records, and multiple alert messages
// MUST NOT be coalesced into a single TLSPlaintext record. In other words, a record
// with an Alert type MUST contain exactly one message." (RFC 9846, Section 5.1) "the "level" field can safely be ignored." (Section 6)
func TestParseAlert(t *testing.T) {
	for v := range 256 {
		if a, err := ParseAlert([]byte{byte(v), byte(255 - v)}); err != nil || a != Alert(255-v) {
			t.Errorf("%d: %v, %v", v, a, err)
		}
	}
	for _, n := range []int{0, 1, 3, 4, 100} {
		_, err := ParseAlert(make([]byte, n))
		wantErr(t, fmt.Sprintf("%d bytes", n), err, ErrAlertSize, AlertUnexpectedMessage)
	}
}

// TestHandshakeReader cuts a stream of messages into records in many ways and
// reads the same messages from each.
func TestHandshakeReader(t *testing.T) {
	var stream []byte
	var want [][]byte
	for i, size := range []int{0, 1, 5, 100, 0, 0, 3, 300, 1000} {
		m := message(byte(i+1), size)
		want = append(want, m)
		stream = append(stream, m...)
	}
	r := testRand(t)
	for round := range 300 {
		reader := NewHandshakeReader(1000)
		var tracker messageTracker
		var got [][]byte
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(1+round*4))
			content := bytes.Clone(rest[:n])
			if err := reader.Append(content); err != nil {
				t.Fatal(err)
			}
			clear(content) // it was copied
			tracker.feed(rest[:n])
			rest = rest[n:]
			var last []byte
			for {
				m, err := reader.Next()
				if err != nil {
					t.Fatal(err)
				}
				if m == nil {
					break
				}
				if cap(m) != len(m) {
					t.Fatal("a message can be appended to")
				}
				last = m
				got = append(got, bytes.Clone(m))
			}
			if last != nil && !bytes.Equal(last, got[len(got)-1]) {
				t.Fatal("a message changed before the next Append")
			}
			if reader.Empty() == tracker.partial() {
				t.Fatalf("Empty %v, but a message is partly through: %v", reader.Empty(), tracker.partial())
			}
			if reader.Empty() && round%2 == 0 {
				if reader.Wipe(); reader.buf != nil {
					t.Fatal("a wiped reader holds memory")
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("message %d is %x", i, got[i])
			}
		}
	}
}

// TestHandshakeReaderOverwrites looks at memory that was given up: when it was
// outgrown, when messages in it have been read, after an error, when it is wiped.
func TestHandshakeReaderOverwrites(t *testing.T) {
	var seen [][]byte // all memory that the reader ever had
	look := func(r *HandshakeReader) {
		seen = append(seen, r.buf[:cap(r.buf)])
	}
	// check wants zeros everywhere but in what the reader holds.
	check := func(when string, r *HandshakeReader) {
		t.Helper()
		holds := bytes.Clone(r.buf)
		clear(r.buf)
		for i, b := range seen {
			if n := len(bytes.TrimRight(b, "\x00")); n > 0 {
				t.Errorf("%s: %d bytes left in memory %d", when, n, i)
			}
		}
		copy(r.buf, holds)
	}
	r := NewHandshakeReader(1000)
	ticket := message(typeNewSessionTicket, 900)
	for i := 0; i < len(ticket); i += 100 {
		if err := r.Append(ticket[i:min(i+100, len(ticket))]); err != nil {
			t.Fatal(err)
		}
		look(r)
		check("growing", r)
	}
	if m, err := r.Next(); err != nil || !bytes.Equal(m, ticket) {
		t.Fatal(err)
	}
	if err := r.Append(ticket[:10]); err != nil { // the message is not valid any more
		t.Fatal(err)
	}
	look(r)
	check("next message", r)
	if len(r.buf) != 10 {
		t.Errorf("holds %d bytes", len(r.buf))
	}
	if err := r.Append(append(bytes.Clone(ticket[10:]), message(typeNewSessionTicket, 1001)...)); err != nil {
		t.Fatal(err)
	}
	look(r)
	m, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != ErrHandshakeSize {
		t.Fatal(err)
	}
	if !bytes.Equal(m, ticket) {
		t.Error("an error ended a message that was returned before")
	}
	check("too long", r)
	r.Wipe()
	check("Wipe", r)
	if _, err := r.Next(); err != ErrHandshakeSize || r.buf != nil {
		t.Errorf("after Wipe: %v", err)
	}
	// Only an empty reader can be used on.
	r = NewHandshakeReader(1000)
	for range 2 {
		r.Append(ticket)
		look(r)
		if m, err := r.Next(); err != nil || !bytes.Equal(m, ticket) {
			t.Fatal(err)
		}
		r.Wipe()
		check("Wipe of an empty reader", r)
	}
	r.Append(ticket[:10])
	look(r)
	r.Wipe()
	check("Wipe inside a message", r)
	if _, err := r.Next(); err != ErrClosed || r.Append(ticket) != ErrClosed || !r.Empty() {
		t.Errorf("wiped inside a message: %v", err)
	}
}

// "Peers which receive a message which cannot be parsed according to the syntax (e.g.,
// have a length extending beyond the message boundary or contain an out-of-range
// length) MUST terminate the connection with a "decode_error" alert." (RFC 9846,
// Section 6)
//
// TestHandshakeReaderLengths has the header alone decide, whatever the limit.
func TestHandshakeReaderLengths(t *testing.T) {
	for _, test := range []struct {
		typ, most uint8
		sizes     []int
	}{
		{typeKeyUpdate, 1, []int{0, 2, 100, 101, 65536, 1<<24 - 1}},
		{typeEndOfEarlyData, 0, []int{1, 100, 101, 1<<24 - 1}},
		{typeFinished, 64, []int{65, 100, 101, 1<<24 - 1}},
	} {
		for _, size := range test.sizes {
			for _, max := range []int{0, 100, 65536} {
				reader := NewHandshakeReader(max)
				header := []byte{test.typ, byte(size >> 16), byte(size >> 8), byte(size)}
				wantErr(t, "first", reader.Append(header), ErrMalformedMessage, AlertDecodeError)
				reader = NewHandshakeReader(max)
				before := message(8, 0)
				if err := reader.Append(append(bytes.Clone(before), header...)); err != nil {
					t.Fatal(err)
				}
				if m, err := reader.Next(); err != nil || !bytes.Equal(m, before) {
					t.Fatalf("%x, %v", m, err)
				}
				for range 2 {
					_, err := reader.Next()
					wantErr(t, "behind another message", err, ErrMalformedMessage, AlertDecodeError)
				}
			}
		}
		reader := NewHandshakeReader(100)
		good := message(test.typ, int(test.most))
		if err := reader.Append(good); err != nil {
			t.Fatal(err)
		}
		if m, err := reader.Next(); err != nil || !bytes.Equal(m, good) {
			t.Errorf("type %d: %x, %v", test.typ, m, err)
		}
	}
}

func TestHandshakeReaderLimit(t *testing.T) {
	for _, max := range []int{0, 1, 100, 1 << 16} {
		// The header alone decides; messages before it are read.
		reader := NewHandshakeReader(max)
		ok := message(8, max)
		tooLong := message(11, max+1)[:4]
		if err := reader.Append(append(bytes.Clone(ok), tooLong...)); err != nil {
			t.Fatal(err)
		}
		if m, err := reader.Next(); err != nil || !bytes.Equal(m, ok) {
			t.Fatalf("%v", err)
		}
		for range 2 {
			m, err := reader.Next()
			wantErr(t, "too long", err, ErrHandshakeSize, AlertIllegalParameter)
			if m != nil {
				t.Error("a message beside the error")
			}
			wantErr(t, "Append", reader.Append(ok), ErrHandshakeSize, AlertIllegalParameter)
		}
		reader = NewHandshakeReader(max)
		if err := reader.Append(tooLong[:3]); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "at its header", reader.Append(tooLong[3:]), ErrHandshakeSize, AlertIllegalParameter)
	}
	if recovered(func() { NewHandshakeReader(-1) }) == nil {
		t.Error("negative limit: no panic")
	}
}
