package record

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// TestConnEndings plays what can end a direction of a Conn, and compares what is seen
// then with the table of docs/design.md, which it prints if they differ.
func TestConnEndings(t *testing.T) {
	var table strings.Builder
	table.WriteString("| | Read | Write | sends | Close sends |\n|---|---|---|---|---|\n")
	for _, e := range connEndings {
		f := newPeer(t)
		c, s, _ := faultyConn(t, nil, ConnConfig{})
		e.play(t, c, s, f)
		if e.arrives != nil {
			s.in.Write(e.arrives(f))
		}
		p := make([]byte, 100)
		_, readErr := c.Read(p)
		before := s.out.Len()
		sent := describe(newFollower(t).take(t, s.out.Bytes()))
		_, writeErr := c.Write([]byte("more"))
		written := s.out.Len()
		c.Close()
		all := describe(newFollower(t).take(t, s.out.Bytes()))
		if (writeErr == nil) != (written > before) {
			t.Errorf("%s: Write returns %v and sends %d bytes", e.name, writeErr, written-before)
		}
		atClose := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(all, sent), " data:4"))
		if sent == "" {
			atClose = strings.TrimSpace(strings.TrimPrefix(all, "data:4"))
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", e.name, outcome(readErr), outcome(writeErr), sent, atClose)
	}
	design, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(table.String(), "  |", " |"); !strings.Contains(string(design), want) {
		t.Errorf("docs/design.md does not have this table:\n%s", want)
	}
}

// connEndings are the rows of the table: what is done to a Conn, and what arrives
// after that.
var connEndings = []struct {
	name    string
	play    func(t *testing.T, c *Conn, s *stub, f *forger)
	arrives func(f *forger) []byte
}{
	{"a read deadline passes", nothingPlayed, nil},
	{"close_notify arrives", nothingPlayed, func(f *forger) []byte { return f.record(21, []byte{1, 0}, 0) }},
	{"the transport ends without it", func(_ *testing.T, _ *Conn, s *stub, _ *forger) { s.readErr = io.EOF }, nil},
	{"the transport fails to read", func(_ *testing.T, _ *Conn, s *stub, _ *forger) { s.readErr = errors.New("broken") }, nil},
	{"the transport breaks a write off", func(t *testing.T, c *Conn, s *stub, _ *forger) {
		s.write = func([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("it did not")
		}
		s.write = nil
	}, nil},
	{"an error alert arrives", nothingPlayed, func(f *forger) []byte { return f.record(21, []byte{2, 80}, 0) }},
	{"the peer breaks a rule", nothingPlayed, func(f *forger) []byte {
		rec := f.record(23, []byte("x"), 0)
		rec[len(rec)-1] ^= 1
		return rec
	}},
	{"CloseWrite", func(t *testing.T, c *Conn, _ *stub, _ *forger) { noError(t, c.CloseWrite()) }, nil},
	{"SendAlert of an error alert", func(t *testing.T, c *Conn, _ *stub, _ *forger) { noError(t, c.SendAlert(AlertAccessDenied)) }, nil},
	{"Close", func(t *testing.T, c *Conn, _ *stub, _ *forger) { noError(t, c.Close()) }, nil},
	{"Export", func(t *testing.T, c *Conn, _ *stub, _ *forger) {
		_, _, err := c.Export()
		noError(t, err)
	}, nil},
}

func nothingPlayed(*testing.T, *Conn, *stub, *forger) {}

func noError(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// outcome describes an error in the words of the table.
func outcome(err error) string {
	var transport *TransportError
	var alert *AlertError
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded) && !errors.As(err, &transport):
		return "goes on"
	case err == io.EOF:
		return "io.EOF"
	case err == io.ErrUnexpectedEOF:
		return "io.ErrUnexpectedEOF"
	case err == net.ErrClosed:
		return "net.ErrClosed"
	case errors.As(err, &transport):
		return "TransportError"
	case errors.As(err, &alert):
		return "AlertError"
	case errors.Is(err, ErrClosed):
		return "ErrClosed"
	case err == ErrExported:
		return "ErrExported"
	}
	return "its error"
}
