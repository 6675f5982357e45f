package record

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// TestExportKeepsRequest exports a connection whose peer has requested a KeyUpdate
// that was not answered yet: whoever goes on must answer it.
//
// "the receiver MUST send a KeyUpdate of its own with request_update set to
// "update_not_requested" prior to sending its next Application Data record." (RFC 9846,
// Section 4.7.3)
func TestExportKeepsRequest(t *testing.T) {
	f := newPeer(t)
	c, _, _ := faultyConn(t, f.record(22, []byte{typeKeyUpdate, 0, 0, 1, 1}, 0), ConnConfig{})
	if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
		t.Fatal(err)
	}
	sealer, _, err := c.Export()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ImportSealer(sealer, SealerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var out stub
	if _, err := NewWriter(&out, s, WriterConfig{}).Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if got := describe(newFollower(t).take(t, out.out.Bytes())); got != "KeyUpdate:0 data:1" {
		t.Errorf("sent %q", got)
	}
}

// TestExportKeepsOrder exports a connection that has received bytes in three places:
// opened to its buffer, and in Unread beyond that, and in the transport.
func TestExportKeepsOrder(t *testing.T) {
	f := newPeer(t)
	want := pattern(300_000)
	var wire []byte
	for i := 0; i < len(want); i += 10_000 {
		wire = append(wire, f.record(23, want[i:i+10_000], 0)...)
	}
	size := len(wire) / 30
	for _, records := range []int{1, 2, largeSize / size, largeSize/size + 1, 20, 30} {
		given := records * size
		c, s, _ := faultyConn(t, wire[given:], ConnConfig{Unread: wire[:given]})
		got := make([]byte, 10_000)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		_, opener, err := c.Export()
		if err != nil {
			t.Fatalf("%d bytes of Unread: %v", given, err)
		}
		o, unread, err := ImportOpener(opener, OpenerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s.readErr = io.EOF
		rest, err := io.ReadAll(newConn(t, s, ConnConfig{Opener: o, Unread: unread, AcceptTruncation: true}))
		if err != nil || !bytes.Equal(append(got, rest...), want) {
			t.Errorf("%d bytes of Unread: %d bytes arrive, %v", given, len(got)+len(rest), err)
		}
	}
}

// deadlineTransport calls setting in each method that sets one deadline.
type deadlineTransport struct {
	stub
	setting func()
}

func (d *deadlineTransport) SetReadDeadline(time.Time) error  { d.setting(); return nil }
func (d *deadlineTransport) SetWriteDeadline(time.Time) error { d.setting(); return nil }

// TestExportBesideDeadlines exports a connection while a deadline of its transport is
// being set: the transport is given away only then.
func TestExportBesideDeadlines(t *testing.T) {
	for name, set := range map[string]func(*Conn, time.Time) error{
		"read": (*Conn).SetReadDeadline, "write": (*Conn).SetWriteDeadline,
	} {
		exported := make(chan error, 1)
		var c *Conn
		c = newConn(t, &deadlineTransport{setting: func() {
			go func() {
				_, _, err := c.Export()
				exported <- err
			}()
			select {
			case err := <-exported:
				t.Errorf("%s: Export returns %v before the deadline is set", name, err)
				exported <- err
			case <-time.After(20 * time.Millisecond):
			}
		}}, ConnConfig{})
		if err := set(c, time.Time{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-exported; err != nil {
			t.Errorf("%s: Export: %v", name, err)
		}
		if err := set(c, time.Time{}); err != ErrExported {
			t.Errorf("%s: after Export: %v", name, err)
		}
	}
}
