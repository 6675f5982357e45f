package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What is waiting to be read is in none of the texts, and under the race detector a
// Conn may be printed while it is used.
func TestFormat(t *testing.T) {
	peer := newPeer(t)
	content := []byte("undelivered content")
	c := newConn(t, &stub{in: *bytes.NewBuffer(peer.record(ContentTypeApplicationData, content, 0))}, ConnConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			fmt.Fprintf(new(strings.Builder), "%+v", c)
			time.Sleep(time.Microsecond)
		}
	}()
	if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	<-done
	if string(c.in.plain) != string(content[1:]) {
		t.Fatalf("%q is waiting to be read", c.in.plain)
	}
	messages := NewHandshakeReader(100)
	if err := messages.Append(message(typeNewSessionTicket, 20)[:10]); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		v    any
		want string
	}{
		{c, "record.Conn(client, TLS_AES_128_GCM_SHA256)"},
		{new(Conn), "record.Conn(not made by NewConn)"},
		{&c.in, "record.Reader"},
		{messages, "record.HandshakeReader"},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
			if got := fmt.Sprintf(verb, test.v); got != test.want {
				t.Errorf("%s prints %q, want %q", verb, got, test.want)
			}
		}
	}
}
