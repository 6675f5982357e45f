package peers

import (
	"crypto/tls"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

func opensslVersion(t *testing.T) (program, version string) {
	program = tool(t, "openssl", "openssl")
	return program, strings.Fields(output(t, program, "version"))[1]
}

// opensslConnect starts s_client or s_server and connects with it.
func opensslConnect(t *testing.T, role string, suite *aead.Suite, padding func(int) int, args ...string) (*ourSide, *process) {
	t.Helper()
	program, _ := opensslVersion(t)
	f := creds(t)
	args = append(args, "-tls1_3", "-ciphersuites", suite.Name())
	var side *ourSide
	var p *process
	if role == asServer {
		ln := listen(t)
		args = append([]string{"s_client", "-connect", ln.Addr().String(), "-CAfile", f.ca, "-verify_return_error", "-servername", "localhost"}, args...)
		p = run(t, nil, program, args...)
		side = ln.serve(nil, padding)
	} else {
		port := freePort(t)
		args = append([]string{"s_server", "-accept", "127.0.0.1:" + port, "-cert", f.cert, "-key", f.key, "-naccept", "1"}, args...)
		p = run(t, nil, program, args...)
		side = dial(t, p, port, nil, padding)
	}
	wantSuite(t, side, suite)
	return side, p
}

// TestOpenSSL talks to s_client and s_server.
func TestOpenSSL(t *testing.T) {
	_, version := opensslVersion(t)
	for _, role := range []string{asClient, asServer} {
		for _, suite := range suites() {
			t.Run(role+"/"+short(suite), func(t *testing.T) {
				t.Parallel()
				r := newRow(t, "OpenSSL", version, role, short(suite))

				side, p := opensslConnect(t, role, suite, nil, "-quiet")
				f := far{in: p.stdin, out: p.stdout}
				talk(t, side, f, 1<<20)
				r.did(exchange)
				ourKeyUpdate(t, side, f)
				r.did(ourUpdate)
				closeFirst(t, side)
				if rest, err := io.ReadAll(p.stdout); err != nil || len(rest) > 0 {
					t.Fatalf("the peer received %q more, %v", rest, err)
				}

				// Both sides pad, the peer to a multiple of 512 bytes.
				side, p = opensslConnect(t, role, suite, randomPadding, "-quiet", "-record_padding", "512")
				f = far{in: p.stdin, out: p.stdout}
				talk(t, side, f, 50_000)
				// Whoever sends nothing has sent no padding: the last record of
				// each write is padded, as its body shows.
				padded := 0
				for _, n := range side.raw.recordSizes() {
					if (n-16)%512 == 0 {
						padded++
					}
				}
				if padded < 5 {
					t.Errorf("%d padded records from the peer: %v", padded, side.raw.recordSizes())
				}
				r.did(ourPadding, theirPadding)
				// The peer ends without a word.
				p.kill()
				truncated(t, side)

				side, p = opensslConnect(t, role, suite, nil, "-quiet", "-max_send_frag", "512")
				talk(t, side, far{in: p.stdin, out: p.stdout}, 50_000)
				if most := largest(side.raw.recordSizes()[3:]); most > 512+1+16 {
					t.Errorf("the peer's largest record has %d bytes", most)
				}
				r.did(fragments)
				// We end without a word, and the peer says so.
				side.raw.Close()
				p.wait()
				if got := p.stderr.String(); !strings.Contains(got, "unexpected eof") {
					t.Errorf("the peer took truncation for an end: %s", got)
				}
				r.did(truncation)

				opensslCommands(t, r, role, suite)
				opensslResume(t, r, role, suite)
			})
		}
	}
}

// opensslCommands has the peer send KeyUpdates and then close first, which its
// programs do at a command only.
func opensslCommands(t *testing.T, r *row, role string, suite *aead.Suite) {
	side, p := opensslConnect(t, role, suite, nil)
	var printed lockedBuffer
	go io.Copy(&printed, p.stdout)
	type read struct {
		line string
		err  error
	}
	readLine := func(size int) <-chan read {
		c := make(chan read, 1)
		go func() {
			b := make([]byte, size)
			_, err := io.ReadFull(side, b)
			c <- read{string(b), err}
		}()
		return c
	}
	lines := 0
	line := func() string { lines++; return fmt.Sprintf("line %d\n", lines) }
	expect := func(what string, want string, c <-chan read) {
		t.Helper()
		if got := <-c; got.err != nil || got.line != want {
			t.Fatalf("%s: %q, %v", what, got.line, got.err)
		}
	}
	// After the first line all tickets have been read.
	first := line()
	c := readLine(len(first))
	io.WriteString(p.stdin, first)
	expect("first line", first, c)
	for i, command := range []string{"k", "K", "K", "k", "K"} {
		before, records := side.sealer.Generation(), len(side.raw.recordSizes())
		want := line()
		c := readLine(len(want))
		io.WriteString(p.stdin, command+"\n")
		// The peer takes the first byte of each read of its input for a command,
		// so the line must not come before it has read this one.
		waitFor(t, "the KeyUpdate", func() bool { return len(side.raw.recordSizes()) > records })
		io.WriteString(p.stdin, want)
		expect("after "+command, want, c)
		if got := side.opener.Generation(); got != uint64(i+1) {
			t.Fatalf("after command %s the peer's generation is %d, want %d", command, got, i+1)
		}
		answer := fmt.Sprintf("answer %d\n", i)
		if _, err := io.WriteString(side, answer); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the answer", func() bool { return strings.Contains(printed.String(), answer) })
		if answered := side.sealer.Generation() > before; answered != (command == "K") {
			t.Fatalf("command %s was answered: %v", command, answered)
		}
	}
	r.did(theirUpdate)
	if role == asServer {
		fmt.Fprintln(p.stdin, "Q")
	} else {
		// At Q s_server ends without close_notify. It sends one when it reverses
		// lines and this one comes.
		fmt.Fprintln(p.stdin, "Q")
		truncated(t, side)
		side, _ = opensslConnect(t, role, suite, nil, "-rev")
		io.WriteString(side, "hello\n")
		got := make([]byte, 6)
		if _, err := io.ReadFull(side, got); err != nil || string(got) != "olleh\n" {
			t.Fatalf("%q, %v", got, err)
		}
		io.WriteString(side, "CLOSE\n")
	}
	peerClosed(t, side)
	r.did(closeNotify)
}

// opensslResume connects twice, the second time with the ticket of the first.
func opensslResume(t *testing.T, r *row, role string, suite *aead.Suite) {
	program, _ := opensslVersion(t)
	f := creds(t)
	session := filepath.Join(t.TempDir(), "session")
	config := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	ln, port := listen(t), freePort(t)
	var p *process
	if role == asClient {
		p = run(t, nil, program, "s_server", "-accept", "127.0.0.1:"+port, "-cert", f.cert, "-key", f.key, "-naccept", "2",
			"-tls1_3", "-ciphersuites", suite.Name(), "-rev")
	}
	for i := range 2 {
		var side *ourSide
		if role == asClient {
			side = dial(t, p, port, config, randomPadding)
			io.WriteString(side, "hello\n")
			if _, err := io.ReadFull(side, make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
		} else {
			args := []string{"s_client", "-connect", ln.Addr().String(), "-CAfile", f.ca, "-quiet", "-tls1_3", "-ciphersuites", suite.Name()}
			if i == 0 {
				args = append(args, "-sess_out", session)
			} else {
				args = append(args, "-sess_in", session)
			}
			p = run(t, nil, program, args...)
			side = ln.serve(config, randomPadding)
			talk(t, side, far{in: p.stdin, out: p.stdout}, 1350)
		}
		wantSuite(t, side, suite)
		if got := side.ConnectionState().DidResume; got != (i == 1) {
			t.Fatalf("connection %d resumed: %v", i, got)
		}
		closeFirst(t, side)
		if role == asServer {
			p.wait()
		}
	}
	r.did(resumption)
}

func largest(sizes []int) int {
	most := 0
	for _, n := range sizes {
		most = max(most, n)
	}
	return most
}
