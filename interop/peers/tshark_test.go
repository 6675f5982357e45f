package peers

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// capture writes what a connection has carried as a file for tshark: our bytes
// and the peer's, in order, as IPv4 and TCP without checksums.
func capture(t testing.TB, path string, chunks []chunk) {
	t.Helper()
	le := binary.LittleEndian
	// pcap: magic, version 2.4, no time zone, snap length, raw IP.
	out := le.AppendUint32(nil, 0xa1b2c3d4)
	out = le.AppendUint16(out, 2)
	out = le.AppendUint16(out, 4)
	for _, v := range []uint32{0, 0, 1 << 18, 101} {
		out = le.AppendUint32(out, v)
	}
	seq := [2]uint32{1000, 5000} // of the client, of the server
	packets := uint32(0)
	packet := func(from int, flags byte, data []byte) {
		be := binary.BigEndian
		addresses := [2][]byte{{10, 0, 0, 1}, {10, 0, 0, 2}}
		ports := [2]uint16{50000, 50001}
		ip := []byte{0x45, 0}
		ip = be.AppendUint16(ip, uint16(40+len(data)))
		ip = append(ip, 0, 0, 0x40, 0, 64, 6, 0, 0)
		ip = append(append(ip, addresses[from]...), addresses[1-from]...)
		ip = be.AppendUint16(ip, ports[from])
		ip = be.AppendUint16(ip, ports[1-from])
		ip = be.AppendUint32(ip, seq[from])
		ip = be.AppendUint32(ip, seq[1-from])
		ip = append(ip, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0)
		ip = append(ip, data...)
		packets++
		for _, v := range []uint32{1_700_000_000, packets, uint32(len(ip)), uint32(len(ip))} {
			out = le.AppendUint32(out, v)
		}
		out = append(out, ip...)
		seq[from] += uint32(len(data))
		if flags&2 != 0 {
			seq[from]++
		}
	}
	const syn, ack, push = 2, 16, 8
	packet(0, syn, nil)
	packet(1, syn|ack, nil)
	packet(0, ack, nil)
	for _, c := range chunks {
		from := 0
		if c.sent { // we are the server
			from = 1
		}
		for data := c.data; len(data) > 0; {
			n := min(len(data), 1400)
			packet(from, ack|push, data[:n])
			data = data[n:]
		}
	}
	fatalf(t, os.WriteFile(path, out, 0o600), "capture")
}

// heading matches what frames the pieces of a followed stream.
var heading = regexp.MustCompile(`^(=+|Follow: .*|Filter: .*|Node [01]: .*)?\n$`)

// TestTshark has tshark decrypt a connection of ours, given the key log. The
// connection is padded, and its keys are updated by both sides.
func TestTshark(t *testing.T) {
	tshark := tool(t, "tshark", "tshark")
	version := strings.Fields(firstLine(output(t, tshark, "--version"), "TShark"))[2]
	version = strings.TrimSuffix(version, ".")
	for _, suite := range suites() {
		t.Run(short(suite), func(t *testing.T) {
			t.Parallel()
			r := newRow(t, "tshark", version, asServer, short(suite))
			side, p := opensslConnect(t, asServer, suite, randomPadding, "-quiet", "-record_padding", "64")
			var ours, theirs []byte
			for i, size := range []int{1, 50, 1350, 20_000, 3, 5000} {
				m := message(size, false)
				ours = append(ours, m...)
				transfer(t, "to the peer", m, side, p.stdout, size)
				if i%2 == 0 {
					fatalf(t, side.KeyUpdate(true), "KeyUpdate")
				}
				m = message(size, false)
				theirs = append(theirs, m...)
				transfer(t, "from the peer", m, p.stdin, side, size)
			}
			if side.sealer.Generation() != 3 {
				t.Fatalf("our generation is %d", side.sealer.Generation())
			}
			// The peer answers a request with its next record, if it has read it.
			if side.opener.Generation() == 0 {
				t.Fatal("the peer has not updated its keys")
			}
			closeFirst(t, side)

			dir := t.TempDir()
			keys, file := filepath.Join(dir, "keys"), filepath.Join(dir, "capture.pcap")
			fatalf(t, os.WriteFile(keys, []byte(side.keys.String()), 0o600), "key log")
			capture(t, file, side.raw.chunks)
			common := []string{"-r", file, "-o", "tls.keylog_file:" + keys, "-o", "tcp.check_checksum:FALSE",
				// Not a port behind which it would look for HTTP, and not a text in
				// which it would look for a protocol: random bytes can pass for one,
				// and what does not parse as it is not shown.
				"-d", "tcp.port==50001,tls", "-d", "tls.port==50001,data"}

			// One run, since tshark starts slowly. It prints a line for each packet,
			// and then what each side said in hexadecimal, a line a piece, the
			// second speaker's behind a tab.
			fields, follow, ok := strings.Cut(printed(t, tshark, append(common,
				"-T", "fields", "-e", "tls.alert_message.desc", "-e", "tls.handshake.type", "-z", "follow,tls,raw,0")...), "=====")
			if !ok {
				t.Fatalf("tshark follows nothing: %s", fields)
			}
			seen := map[bool][]byte{}
			for line := range strings.Lines(follow) {
				if heading.MatchString(line) {
					continue
				}
				second := strings.HasPrefix(line, "\t")
				b, err := hex.DecodeString(strings.TrimSpace(line))
				fatalf(t, err, "tshark's line %.60q", line)
				seen[second] = append(seen[second], b...)
			}
			client, server := seen[false], seen[true]
			if !bytes.Equal(client, theirs) && bytes.Equal(client, ours) {
				client, server = server, client // the server spoke first
			}
			if !bytes.Equal(client, theirs) || !bytes.Equal(server, ours) {
				t.Errorf("tshark sees %d and %d bytes, sent were %d and %d", len(client), len(server), len(theirs), len(ours))
			}
			// One close_notify each way, no other alert, and every KeyUpdate.
			var alerts, updates int
			for line := range strings.Lines(fields) {
				desc, types, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
				for d := range strings.SplitSeq(desc, ",") {
					if d == "0" {
						alerts++
					} else if d != "" {
						t.Errorf("tshark sees the alert %s", d)
					}
				}
				for typ := range strings.SplitSeq(types, ",") {
					if typ == "24" {
						updates++
					}
				}
			}
			if want := int(side.sealer.Generation() + side.opener.Generation()); alerts != 2 || updates != want {
				t.Errorf("tshark sees %d close_notify and %d KeyUpdates, want 2 and %d\n%s", alerts, updates, want, fields)
			}
			r.did(exchange, ourPadding, theirPadding, ourUpdate, closeNotify)
			io.Copy(io.Discard, p.stdout)
		})
	}
}
