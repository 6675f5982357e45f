package record

import (
	"io"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// TestZeroValues uses values that no constructor made: each use panics with a message
// that says so, or returns an error, and none waits.
func TestZeroValues(t *testing.T) {
	p := []byte{1}
	for name, call := range map[string]func(){
		"Sealer":              func() { new(Sealer).SetTrafficSecret(EpochApplication, aead.AES128GCM(), make([]byte, 32)) },
		"Opener":              func() { new(Opener).SetTrafficSecret(EpochApplication, aead.AES128GCM(), make([]byte, 32)) },
		"Writer.Write":        func() { new(Writer).Write(p) },
		"Writer.WriteBuffers": func() { new(Writer).WriteBuffers([][]byte{p}) },
		"Writer.Close":        func() { new(Writer).Close() },
		"Reader.Read":         func() { new(Reader).Read(p) },
		"Reader.WriteTo":      func() { new(Reader).WriteTo(io.Discard) },
		"Conn.Read":           func() { new(Conn).Read(p) },
		"Conn.Write":          func() { new(Conn).Write(p) },
		"Conn.KeyUpdate":      func() { new(Conn).KeyUpdate(false) },
		"Conn.CloseWrite":     func() { new(Conn).CloseWrite() },
		"Conn.SendAlert":      func() { new(Conn).SendAlert(AlertInternalError) },
		"Conn.Close":          func() { new(Conn).Close() },
	} {
		if text, ok := recovered(call).(string); !ok || !strings.HasPrefix(text, "record: ") {
			t.Errorf("%s: panic %q", name, text)
		}
	}
	if _, err := ImportSealer(new(State), SealerConfig{}); err != ErrStateSpent {
		t.Errorf("State: %v", err)
	}
	if err := new(HandshakeReader).Append(message(4, 1)); err != ErrHandshakeSize {
		t.Errorf("HandshakeReader: %v", err)
	}
}
