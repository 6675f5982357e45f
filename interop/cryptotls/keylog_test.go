package cryptotls

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestKeyLogLines(t *testing.T) {
	random, other := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	sha256, sha384, sha512 := strings.Repeat("0c", 32), strings.Repeat("0d", 48), strings.Repeat("0e", 64)
	for _, tt := range []struct {
		name  string
		input string
		err   error
		kind  secretKind
		want  string
	}{
		{name: "client handshake", input: "CLIENT_HANDSHAKE_TRAFFIC_SECRET " + random + " " + sha256 + "\n", kind: clientHandshake, want: sha256},
		{name: "server handshake", input: "SERVER_HANDSHAKE_TRAFFIC_SECRET " + random + " " + sha384 + "\n", kind: serverHandshake, want: sha384},
		{name: "client application", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " " + sha256 + "\n", kind: clientApplication, want: sha256},
		{name: "server application", input: "SERVER_TRAFFIC_SECRET_0 " + random + " " + sha384 + "\n", kind: serverApplication, want: sha384},
		{name: "two lines", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " " + sha256 + "\nSERVER_TRAFFIC_SECRET_0 " + random + " " + sha384 + "\n", kind: serverApplication, want: sha384},
		{name: "longest secret", input: "SERVER_TRAFFIC_SECRET_0 " + random + " " + sha512 + "\n", kind: serverApplication, want: sha512},
		{name: "nothing"},
		{name: "other label", input: "CLIENT_RANDOM " + random + " " + sha384 + "\n"},
		{name: "future label", input: "EXPORTER_SECRET " + random + " " + sha384 + "\n"},
		{name: "future form of another label", input: "X y\n"},
		{name: "longer label", input: "CLIENT_TRAFFIC_SECRET_00 " + random + " " + sha256 + "\n"},
		{name: "no newline", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " " + sha256, err: errKeyLogLine},
		{name: "cut behind a line", input: "CLIENT_RANDOM " + random + " " + sha384 + "\nCLIENT", err: errKeyLogLine},
		{name: "empty line", input: "\n", err: errKeyLogLine},
		{name: "label only", input: "CLIENT_TRAFFIC_SECRET_0\n", err: errKeyLogLine},
		{name: "no secret", input: "CLIENT_TRAFFIC_SECRET_0 " + random + "\n", err: errKeyLogLine},
		{name: "empty secret", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " \n", err: errKeyLogLine},
		{name: "odd secret", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " 0c0\n", err: errKeyLogLine},
		{name: "secret of other digits", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " 0g\n", err: errKeyLogLine},
		{name: "long secret", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " " + strings.Repeat("00", 65) + "\n", err: errKeyLogLine},
		{name: "fourth word", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " " + sha256 + " 00\n", err: errKeyLogLine},
		{name: "short random", input: "CLIENT_TRAFFIC_SECRET_0 " + random[2:] + " " + sha256 + "\n", err: errKeyLogLine},
		{name: "random of other digits", input: "CLIENT_TRAFFIC_SECRET_0 " + strings.Repeat("zz", 32) + " " + sha256 + "\n", err: errKeyLogLine},
		{name: "two connections", input: "CLIENT_TRAFFIC_SECRET_0 " + random + " " + sha256 + "\nSERVER_TRAFFIC_SECRET_0 " + other + " " + sha256 + "\n", err: errKeyLogRandom},
		{name: "twice", input: strings.Repeat("CLIENT_TRAFFIC_SECRET_0 "+random+" "+sha256+"\n", 2), err: errKeyLogTwice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log keyLog
			var user bytes.Buffer
			w := &keyLogWriter{log: &log, next: &user}
			n, err := w.Write([]byte(tt.input))
			if !errors.Is(err, tt.err) || err == nil && n != len(tt.input) {
				t.Fatalf("Write returns %d, %v; want error %v", n, err, tt.err)
			}
			if user.String() != tt.input {
				t.Errorf("the user's writer got %q", user.String())
			}
			if got := hex.EncodeToString(log.get(tt.kind)); tt.err == nil && got != tt.want {
				t.Errorf("secret is %s, want %s", got, tt.want)
			}
			log.wipe()
			if log != (keyLog{}) {
				t.Error("wipe leaves something")
			}
		})
	}
}

func TestKeyLogWriterError(t *testing.T) {
	broken := errors.New("disk full")
	w := &keyLogWriter{log: new(keyLog), next: writerFunc(func([]byte) (int, error) { return 0, broken })}
	_, err := w.Write([]byte("CLIENT_RANDOM a b\n"))
	wantError(t, err, broken)

	// crypto/tls ends the handshake with it.
	config := serverConfig()
	config.KeyLogWriter = w.next
	c, s := tcpPair(t)
	done := start(func() (net.Conn, error) { return goClient(clientConfig())(testContext(t), c) })
	_, err = Server(testContext(t), s, config, nil)
	wantError(t, err, broken)
	<-done
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// FuzzKeyLog compares the parser with one that is written differently, and looks
// for panics.
func FuzzKeyLog(f *testing.F) {
	random := strings.Repeat("a1", 32)
	f.Add("CLIENT_TRAFFIC_SECRET_0 " + random + " 00\n")
	f.Add("SERVER_HANDSHAKE_TRAFFIC_SECRET " + random + " " + random + "\nSERVER_TRAFFIC_SECRET_0 " + random + " 00\n")
	f.Add("CLIENT_RANDOM " + random + " 00\n")
	f.Fuzz(func(t *testing.T, input string) {
		var log keyLog
		w := &keyLogWriter{log: &log}
		_, err := w.Write([]byte(input))
		want, ok := parseKeyLog(input)
		if (err == nil) != ok {
			t.Fatalf("%q: error %v, accepted by the other parser: %v", input, err, ok)
		}
		if err != nil {
			return
		}
		for kind := range secretKinds {
			if got := string(log.get(kind)); got != want[secretLabels[kind]] {
				t.Fatalf("%q: %s is %x, want %x", input, secretLabels[kind], got, want[secretLabels[kind]])
			}
		}
	})
}

// parseKeyLog is the oracle of FuzzKeyLog.
func parseKeyLog(input string) (map[string]string, bool) {
	secrets := make(map[string]string)
	random := ""
	lines := strings.Split(input, "\n")
	if lines[len(lines)-1] != "" {
		// What precedes an incomplete line has an effect, the error counts.
		return nil, false
	}
	for _, line := range lines[:len(lines)-1] {
		words := strings.SplitN(line, " ", 3)
		if len(words) < 2 {
			return nil, false
		}
		known := false
		for _, l := range secretLabels {
			known = known || l == words[0]
		}
		if !known {
			continue
		}
		if len(words) != 3 {
			return nil, false
		}
		r, err := hex.DecodeString(words[1])
		if err != nil || len(r) != 32 || random != "" && random != string(r) {
			return nil, false
		}
		s, err := hex.DecodeString(words[2])
		if err != nil || len(s) == 0 || len(s) > 64 || secrets[words[0]] != "" {
			return nil, false
		}
		random, secrets[words[0]] = string(r), string(s)
	}
	return secrets, true
}

// TestUserKeyLog compares the lines that the user's writers get with those of
// the peer, in both roles and through GetConfigForClient.
func TestUserKeyLog(t *testing.T) {
	var clientLog, serverLog, chosenLog lockedBuffer
	cc, sc, chosen := clientConfig(), serverConfig(), serverConfig()
	cc.KeyLogWriter, sc.KeyLogWriter, chosen.KeyLogWriter = &clientLog, &serverLog, &chosenLog
	connect(t, ourClient(cc, nil), ourServer(sc, nil))
	if got, want := serverLog.String(), clientLog.String(); got != want || strings.Count(got, "\n") != 4 {
		t.Errorf("server's log is\n%sclient's log is\n%s", got, want)
	}
	clientLog.Reset()
	serverLog.Reset()
	sc.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }
	connect(t, ourClient(cc, nil), ourServer(sc, nil))
	if got, want := chosenLog.String(), clientLog.String(); got != want || got == "" || serverLog.String() != "" {
		t.Errorf("chosen config's log is\n%sserver's is\n%sclient's is\n%s", got, serverLog.String(), want)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", sc.KeyLogWriter, chosen.KeyLogWriter), "keyLogWriter") {
		t.Error("a config of the user was changed")
	}
}
