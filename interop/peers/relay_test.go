package peers

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/aead/ccm"
	"example.com/splitseal/record"
)

// relay is one direction between two peers: it opens each record and seals its
// content again, and passes on what it has sealed.
type relay struct {
	suite    *aead.Suite
	secrets  func(label string) ([]byte, error)
	label    [2]string // of the handshake and the first application secret
	from, to net.Conn

	pad      int // of the present record
	opener   *record.Opener
	sealer   *record.Sealer
	messages *record.HandshakeReader
	finished bool

	records, padded int
	updates         atomic.Int32
}

// run passes everything on until from ends. Any record that does not come out as
// it went in is an error.
func (r *relay) run() error {
	r.opener = record.NewOpener(record.OpenerConfig{})
	r.opener.AllowChangeCipherSpec(true)
	r.sealer = record.NewSealer(record.SealerConfig{Padding: func(int) int { return r.pad }})
	r.messages = record.NewHandshakeReader(1 << 18)
	var in []byte
	buf := make([]byte, 1<<16)
	for {
		n, err := r.from.Read(buf)
		in = append(in, buf[:n]...)
		for {
			size, err := r.record(in)
			if err != nil {
				return fmt.Errorf("record %d of %s: %w", r.records, r.label[1], err)
			}
			if size == 0 {
				break
			}
			in = in[size:]
		}
		if err != nil {
			if len(in) > 0 {
				return fmt.Errorf("the stream ends %d bytes into a record", len(in))
			}
			if err == io.EOF {
				return r.to.(*net.TCPConn).CloseWrite()
			}
			return err
		}
	}
}

// record passes the first record of in on and returns its size, or zero if it is
// not whole.
func (r *relay) record(in []byte) (int, error) {
	if len(in) < record.HeaderSize {
		return 0, nil
	}
	size := record.HeaderSize + int(in[3])<<8 + int(in[4])
	if len(in) < size {
		return 0, nil
	}
	if err := r.keys(in[0] == byte(record.ContentTypeApplicationData)); err != nil {
		return 0, err
	}
	protected := r.opener.Epoch() != record.EpochPlaintext
	rec, _, err := r.opener.Open(bytes.Clone(in[:size]))
	if err != nil {
		return 0, err
	}
	r.pad = 0
	if protected && !rec.Dropped {
		r.pad = size - record.HeaderSize - r.suite.TagSize() - 1 - len(rec.Content)
	}
	if r.pad > 0 {
		r.padded++
	}
	var out []byte
	switch {
	case rec.Dropped:
		out, err = r.sealer.SealChangeCipherSpec(nil)
	case rec.Type == record.ContentTypeAlert:
		var a record.Alert
		if a, err = record.ParseAlert(rec.Content); err == nil {
			out, err = r.sealer.SealAlert(nil, a)
		}
	case rec.Type == record.ContentTypeHandshake:
		out, err = r.handshake(rec.Content)
	default:
		out, err = r.sealer.Seal(nil, rec.Type, rec.Content)
	}
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(out, in[:size]) {
		return 0, fmt.Errorf("sealed again it differs:\n%.60x\n%.60x", out, in[:size])
	}
	r.records++
	_, err = r.to.Write(out)
	return size, err
}

// keys installs the secrets that the next record needs.
func (r *relay) keys(protected bool) error {
	epoch := r.opener.Epoch()
	switch {
	case epoch == record.EpochPlaintext && protected:
		epoch = record.EpochHandshake
	case epoch == record.EpochHandshake && r.finished:
		epoch = record.EpochApplication
	default:
		return nil
	}
	secret, err := r.secrets(r.label[epoch-record.EpochHandshake])
	if err != nil {
		return err
	}
	if err := r.opener.SetTrafficSecret(epoch, r.suite, secret); err != nil {
		return err
	}
	return r.sealer.SetTrafficSecret(epoch, r.suite, secret)
}

func (r *relay) handshake(content []byte) ([]byte, error) {
	if err := r.messages.Append(content); err != nil {
		return nil, err
	}
	for {
		msg, err := r.messages.Next()
		if err != nil {
			return nil, err
		}
		if msg == nil {
			return r.sealer.Seal(nil, record.ContentTypeHandshake, content)
		}
		const finished, keyUpdate = 20, 24
		r.finished = r.finished || msg[0] == finished
		if msg[0] == keyUpdate {
			request, err := record.ParseKeyUpdate(msg)
			if err != nil {
				return nil, err
			}
			if err := r.opener.KeyUpdate(); err != nil {
				return nil, err
			}
			r.updates.Add(1)
			// The relay seals what one side said, whatever the other has asked.
			r.sealer.PeerKeyUpdate(false)
			return r.sealer.SealKeyUpdate(nil, request)
		}
	}
}

// keyLogFile finds secrets in a key log that a peer writes meanwhile.
func keyLogFile(path string) func(label string) ([]byte, error) {
	return func(label string) ([]byte, error) {
		for end := time.Now().Add(waitLimit); ; time.Sleep(2 * time.Millisecond) {
			log, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return nil, err
			}
			for line := range strings.Lines(string(log)) {
				if words := strings.Fields(line); len(words) == 3 && words[0] == label && strings.HasSuffix(line, "\n") {
					return hex.DecodeString(words[2])
				}
			}
			if time.Now().After(end) {
				return nil, fmt.Errorf("no %s in the key log", label)
			}
		}
	}
}

// TestRelay stands between s_client and s_server with each suite, the two of CCM
// too, which crypto/tls does not have, and is given their key log. Each record
// comes out of it as it went in: they pad, send small fragments, tickets,
// KeyUpdates and close_notify.
func TestRelay(t *testing.T) {
	program, version := opensslVersion(t)
	f := creds(t)
	for _, suite := range append(suites(), ccm.AES128CCM(), ccm.AES128CCM8()) {
		t.Run(short(suite), func(t *testing.T) {
			t.Parallel()
			r := newRow(t, "OpenSSL", version, asRelay, short(suite))
			connect := func(clientArgs, serverArgs []string) (client, server *process, up, down *relay, wait func()) {
				keys := filepath.Join(t.TempDir(), "keys")
				port := freePort(t)
				// CCM_8 is below the default security level.
				common := []string{"-tls1_3", "-ciphersuites", suite.Name(), "-cipher", "DEFAULT:@SECLEVEL=0"}
				server = run(t, nil, program, append(append([]string{"s_server", "-accept", "127.0.0.1:" + port, "-naccept", "1",
					"-cert", f.cert, "-key", f.key, "-keylogfile", keys}, common...), serverArgs...)...)
				ln := listen(t)
				client = run(t, nil, program, append(append([]string{"s_client", "-connect", ln.Addr().String(),
					"-CAfile", f.ca, "-verify_return_error"}, common...), clientArgs...)...)
				c, err := ln.Accept()
				fatalf(t, err, "accept")
				var s net.Conn
				waitFor(t, "s_server", func() bool {
					s, err = net.Dial("tcp", "127.0.0.1:"+port)
					return err == nil
				})
				for _, conn := range []net.Conn{c, s} {
					conn.SetDeadline(time.Now().Add(waitLimit))
					t.Cleanup(func() { conn.Close() })
				}
				up = &relay{suite: suite, secrets: keyLogFile(keys), from: c, to: s,
					label: [2]string{"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0"}}
				down = &relay{suite: suite, secrets: keyLogFile(keys), from: s, to: c,
					label: [2]string{"SERVER_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"}}
				done := make(chan error, 2)
				for _, d := range []*relay{up, down} {
					go func() {
						err := d.run()
						if err != nil {
							d.from.Close()
							d.to.Close()
						}
						done <- err
					}()
				}
				return client, server, up, down, func() {
					t.Helper()
					for range 2 {
						fatalf(t, <-done, "relay")
					}
				}
			}

			client, server, up, down, wait := connect(
				[]string{"-quiet", "-no_ign_eof", "-record_padding", "256"},
				[]string{"-quiet", "-max_send_frag", "900"})
			for _, size := range sizes {
				transfer(t, "to the server", message(size, true), client.stdin, server.stdout, size)
				transfer(t, "to the client", message(size, false), server.stdin, client.stdout, size)
			}
			client.stdin.Close() // the client's close_notify, and then the server's
			client.wait()
			wait()
			if up.padded == 0 || down.records < 1<<20/900 {
				t.Errorf("%d padded records to the server, %d records to the client", up.padded, down.records)
			}
			r.did(exchange, theirPadding, fragments, closeNotify)

			client, server, up, down, wait = connect(nil, []string{"-quiet"})
			go io.Copy(io.Discard, client.stdout)
			for i, command := range []string{"k", "K", "K"} {
				fmt.Fprintln(client.stdin, command)
				waitFor(t, "the KeyUpdate", func() bool { return int(up.updates.Load()) > i })
				line := fmt.Sprintf("line %d\n", i)
				transfer(t, "to the server", []byte(line), client.stdin, server.stdout, len(line))
				io.WriteString(server.stdin, "answer\n") // takes the server's KeyUpdate along
			}
			fmt.Fprintln(client.stdin, "Q")
			client.wait()
			wait()
			if up.updates.Load() != 3 || down.updates.Load() == 0 {
				t.Errorf("%d KeyUpdates to the server, %d to the client", up.updates.Load(), down.updates.Load())
			}
			r.did(theirUpdate)
		})
	}
}
