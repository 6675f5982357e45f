package peers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/interop/cryptotls"
	"example.com/splitseal/record"
	"golang.org/x/net/nettest"
)

// netConnEnv names the kind of connection that a process of its own gives to
// x/net/nettest.
const netConnEnv = "PEERS_NETCONN"

// netConnKinds make the two ends of a connection over a and b. nettest does to the
// first one whatever it does, and has the second one echo, send, or read.
var netConnKinds = []struct {
	name string
	make func(t testing.TB, a, b net.Conn) (net.Conn, net.Conn, error)
}{
	{"crypto-tls", cryptoTLSPair},
	{"record", recordPair},
	{"cryptotls-client", takenOverPair},
	{"cryptotls-server", func(t testing.TB, a, b net.Conn) (net.Conn, net.Conn, error) {
		client, server, err := takenOverPair(t, b, a)
		return server, client, err
	}},
}

// netConnConflicts are what nettest wants of a net.Conn and a TLS connection cannot
// do, by transport and subtest: all that it may say then. No kind may fail
// anywhere else, and each, crypto/tls's own connection too, must fail here, or the
// entry is out of date.
//
//   - A write that a deadline has broken off may have sent part of a record, so
//     nothing can follow it: record.Conn's documentation says so, and crypto/tls's
//     ("After a Write has timed out, the TLS state is corrupt and all future writes
//     will return the same error"). nettest writes again and waits for the echo.
//   - Close sends close_notify. What is written to a net.Pipe whose other end is
//     closed is an error at once, and Close returns it. A socket takes it.
var netConnConflicts = map[string]map[string]*regexp.Regexp{
	"pipe": {
		"BasicIO":           regexp.MustCompile(`^unexpected c2\.Close error: .*: io: read/write on closed pipe$`),
		"PingPong":          regexp.MustCompile(`^unexpected Close error: .*: io: read/write on closed pipe$`),
		"PastTimeout":       brokenWrite,
		"FutureTimeout":     brokenWrite,
		"ConcurrentMethods": brokenWrite,
	},
	"tcp": {
		"PastTimeout":       brokenWrite,
		"FutureTimeout":     brokenWrite,
		"ConcurrentMethods": brokenWrite,
	},
}

// brokenWrite is the same error again, and what impatient makes of the read.
var brokenWrite = regexp.MustCompile(`^(roundtrip|unexpected) (Write|Read) error: .*i/o timeout$`)

// TestNetConn runs the suite of x/net/nettest for implementations of net.Conn over
// those of this project, and over crypto/tls's for comparison. Each run has its own
// process, since no subtest of nettest can be expected to fail otherwise.
func TestNetConn(t *testing.T) {
	if which := os.Getenv(netConnEnv); which != "" {
		nettest.TestConn(t, netConnPipe(t, which))
		return
	}
	for transport, conflicts := range netConnConflicts {
		for _, kind := range netConnKinds {
			t.Run(transport+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				failed := runNetConn(t, transport+"/"+kind.name)
				for name, said := range failed {
					may := conflicts[name]
					for _, message := range said {
						if may == nil || !may.MatchString(message) {
							t.Errorf("%s: %s", name, message)
						}
					}
				}
				for name := range conflicts {
					if len(failed[name]) == 0 {
						t.Errorf("%s has not failed", name)
					}
				}
			})
		}
	}
}

// runNetConn runs nettest's suite in a process of its own and returns what each
// subtest that failed has said, once.
func runNetConn(t *testing.T, which string) map[string][]string {
	cmd := exec.CommandContext(testContext(t), os.Args[0], "-test.run=^TestNetConn$", "-test.v", "-test.timeout=80s")
	cmd.Env = append(os.Environ(), netConnEnv+"="+which)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
	said, failed := make(map[string][]string), make(map[string][]string)
	ran, name := 0, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "=== "); ok {
			name = path.Base(rest[strings.LastIndex(rest, " ")+1:])
		} else if message, ok := strings.CutPrefix(line, "conntest.go:"); ok {
			_, message, _ = strings.Cut(message, ": ")
			if !slices.Contains(said[name], message) {
				said[name] = append(said[name], message)
			}
		} else if strings.HasPrefix(line, "--- PASS: TestNetConn/") {
			ran++
		} else if name, ok := strings.CutPrefix(line, "--- FAIL: TestNetConn/"); ok {
			ran++
			name, _, _ = strings.Cut(name, " ")
			failed[name] = said[name]
			if said[name] == nil {
				t.Errorf("%s fails without a word", name)
			}
		} else if line == "WARNING: DATA RACE" || strings.HasPrefix(line, "panic: ") {
			t.Error(line)
		}
	}
	if ran < netConnSubtests {
		t.Errorf("%d of %d subtests have run", ran, netConnSubtests)
	}
	return failed
}

// netConnSubtests is how many x/net v0.62.0 has.
const netConnSubtests = 11

// netConnPipe returns what nettest makes its connections with.
func netConnPipe(t testing.TB, which string) nettest.MakePipe {
	transport, name, _ := strings.Cut(which, "/")
	for _, kind := range netConnKinds {
		if kind.name != name {
			continue
		}
		return func() (net.Conn, net.Conn, func(), error) {
			a, b := net.Pipe()
			if transport == "tcp" {
				a, b = socketPair(t)
			}
			c1, c2, err := kind.make(t, a, b)
			if err != nil {
				return nil, nil, nil, err
			}
			stop := func() {
				// Where nobody reads, crypto/tls waits five seconds to send
				// close_notify.
				defer time.AfterFunc(time.Second, func() { a.Close(); b.Close() }).Stop()
				c1.Close()
				c2.Close()
			}
			return &impatient{Conn: c1}, c2, stop, nil
		}
	}
	t.Fatalf("no kind of connection is called %q", name)
	return nil
}

// impatient ends reads when a write without a deadline fails: nettest would wait a
// minute for the echo of what was never sent.
type impatient struct {
	net.Conn
	endless atomic.Bool
}

func (c *impatient) SetDeadline(t time.Time) error {
	c.endless.Store(t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *impatient) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && c.endless.Load() {
		c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	return n, err
}

// socketPair returns the two ends of a connection over loopback.
func socketPair(t testing.TB) (a, b net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatalf(t, err, "listen")
	defer ln.Close()
	a, err = net.Dial("tcp", ln.Addr().String())
	fatalf(t, err, "dial")
	b, err = ln.Accept()
	fatalf(t, err, "accept")
	return a, b
}

// recordPair makes connections of package record, without a handshake.
func recordPair(_ testing.TB, a, b net.Conn) (net.Conn, net.Conn, error) {
	suite := aead.AES128GCM()
	one, other := make([]byte, suite.Hash().Size()), make([]byte, suite.Hash().Size())
	rand.Read(one)
	rand.Read(other)
	conn := func(raw net.Conn, role record.Role, out, in []byte) (net.Conn, error) {
		s, o := record.NewSealer(record.SealerConfig{}), record.NewOpener(record.OpenerConfig{})
		if err := errors.Join(
			s.SetTrafficSecret(record.EpochApplication, suite, out),
			o.SetTrafficSecret(record.EpochApplication, suite, in),
		); err != nil {
			return nil, err
		}
		return record.NewConn(raw, record.ConnConfig{Role: role, Sealer: s, Opener: o})
	}
	c1, err1 := conn(a, record.RoleClient, one, other)
	c2, err2 := conn(b, record.RoleServer, other, one)
	return c1, c2, errors.Join(err1, err2)
}

// takenOverPair makes a client's and a server's connection of package cryptotls.
func takenOverPair(t testing.TB, a, b net.Conn) (client, server net.Conn, err error) {
	return handshakes(
		func(ctx context.Context) (net.Conn, error) { return cryptotls.Client(ctx, a, clientConfig(t), nil) },
		func(ctx context.Context) (net.Conn, error) { return cryptotls.Server(ctx, b, serverConfig(t), nil) },
	)
}

// cryptoTLSPair makes crypto/tls's own.
func cryptoTLSPair(t testing.TB, a, b net.Conn) (client, server net.Conn, err error) {
	done := func(ctx context.Context, c *tls.Conn) (net.Conn, error) { return c, c.HandshakeContext(ctx) }
	return handshakes(
		func(ctx context.Context) (net.Conn, error) { return done(ctx, tls.Client(a, clientConfig(t))) },
		func(ctx context.Context) (net.Conn, error) { return done(ctx, tls.Server(b, serverConfig(t))) },
	)
}

// handshakes runs both sides of one.
func handshakes(client, server func(context.Context) (net.Conn, error)) (c, s net.Conn, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		var err error
		s, err = server(ctx)
		served <- err
	}()
	if c, err = client(ctx); err != nil {
		return nil, nil, fmt.Errorf("client: %w", err)
	}
	if err = <-served; err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	return c, s, nil
}

func clientConfig(t testing.TB) *tls.Config {
	return &tls.Config{RootCAs: creds(t).pool, ServerName: "localhost"}
}

func serverConfig(t testing.TB) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{creds(t).pair}}
}
