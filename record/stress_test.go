package record

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/splitseal/aead"
)

// stressSize is how much TestConnDuplex moves in each direction.
// SPLITSEAL_STRESS_MIB sets it; the long run is 1024, with -race.
func stressSize(t testing.TB) int {
	if s := os.Getenv("SPLITSEAL_STRESS_MIB"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n << 20
	}
	if testing.Short() {
		return 4 << 20
	}
	return 32 << 20
}

// TestConnDuplex moves data in both directions at once, each side with a reader, which
// pauses, a writer, and a goroutine that sends messages, updates keys and requests
// updates, while both sides' keys wear out every few hundred records.
func TestConnDuplex(t *testing.T) {
	checkGoroutines(t)
	size := stressSize(t)
	stream := pattern(1<<16 + 7)
	for _, transport := range transports[:3] {
		t.Run(transport.name, func(t *testing.T) {
			a, b := transport.pair(t)
			var writers, all sync.WaitGroup
			var updates atomic.Int64
			var sent, handled [2]int // messages, by side
			sides := make([]*Conn, 2)
			for i, end := range []net.Conn{a, b} {
				own := []string{"client", "server"}[i]
				sides[i] = newConn(t, end, ConnConfig{
					Role:   Role(i + 1),
					Sealer: appSealer(t, aead.AES128GCM(), own, SealerConfig{SoftLimit: 300}),
					HandleMessage: func(_ *Conn, m []byte) error {
						if !bytes.Equal(m, message(77, handled[i]*131%40_000)) {
							t.Errorf("side %d: message %d differs", i, handled[i])
						}
						handled[i]++
						return nil
					},
				})
			}
			for i, c := range sides {
				done := make(chan struct{})
				writers.Go(func() {
					defer close(done)
					for sent, k := 0, 0; sent < size; k++ {
						at := sent % len(stream)
						part := stream[at:min(len(stream), at+1+k*7919%40_000, at+size-sent)]
						var n int
						var err error
						if k%3 == 0 {
							half := len(part) / 2
							var m int64
							m, err = c.WriteBuffers([][]byte{part[:half], part[half:]})
							n = int(m)
						} else {
							n, err = c.Write(part)
						}
						if err != nil || n != len(part) {
							t.Errorf("side %d: Write: %d, %v", i, n, err)
							return
						}
						sent += n
					}
				})
				writers.Go(func() {
					for {
						if err := c.WriteHandshake(message(77, sent[i]*131%40_000)); err != nil {
							t.Errorf("side %d: WriteHandshake: %v", i, err)
							return
						}
						sent[i]++
						if err := c.KeyUpdate(true); err != nil {
							t.Errorf("side %d: KeyUpdate: %v", i, err)
							return
						}
						updates.Add(1)
						select {
						case <-done:
							return
						case <-time.After(2 * time.Millisecond):
						}
					}
				})
				all.Go(func() {
					p := make([]byte, 50_000)
					got := 0
					for {
						n, err := c.Read(p[:1+(got*31+7)%len(p)])
						for rest := p[:n]; len(rest) > 0; {
							at := got % len(stream)
							m := min(len(rest), len(stream)-at)
							if !bytes.Equal(rest[:m], stream[at:at+m]) {
								t.Errorf("side %d: wrong data after %d bytes", i, got)
								c.Close()
								return
							}
							got += m
							rest = rest[m:]
						}
						if got>>20 > (got-n)>>20 {
							time.Sleep(time.Millisecond)
						}
						if err != nil {
							if err != io.EOF || got != size {
								t.Errorf("side %d: Read: %d bytes, %v", i, got, err)
								c.Close()
							}
							return
						}
					}
				})
			}
			writers.Wait()
			for _, c := range sides {
				if err := c.CloseWrite(); err != nil {
					t.Error(err)
				}
			}
			all.Wait()
			for i, c := range sides {
				if handled[1-i] != sent[i] || sent[i] == 0 {
					t.Errorf("side %d: %d messages sent, %d handled", i, sent[i], handled[1-i])
				}
				if g := c.out.sealer.Generation(); g < uint64(size/40_000/300) || g < 1 {
					t.Errorf("side %d: %d key updates", i, g)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			t.Logf("%d requests, %v messages; %d and %d key updates", updates.Load(), sent, sides[0].out.sealer.Generation(), sides[1].out.sealer.Generation())
		})
	}
}

// TestConnAlertRace has the peer break a rule while a goroutine writes: the alert
// and the data are sealed under one lock, so every record of ours can be opened,
// one alert is the last of them, and no number was used twice. The rule is one
// that is broken by a message's header: no record is at fault.
func TestConnAlertRace(t *testing.T) {
	checkGoroutines(t)
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		a, b := net.Pipe()
		c := newConn(t, a, ConnConfig{})
		var both, copied sync.WaitGroup
		both.Go(func() {
			for {
				if _, err := c.Write(make([]byte, 100)); err != nil {
					if err != ErrHandshakeSize {
						t.Errorf("Write: %v", err)
					}
					return
				}
			}
		})
		both.Go(func() {
			if _, err := c.Read(make([]byte, 100)); err != ErrHandshakeSize {
				t.Errorf("Read: %v", err)
			}
		})
		var wire bytes.Buffer
		copied.Go(func() { io.Copy(&wire, b) })
		b.Write(newPeer(t).record(22, []byte{4, 0xff, 0xff, 0xff}, 0))
		both.Wait()
		c.Close()
		copied.Wait()
		records := newFollower(t).take(t, wire.Bytes())
		for i, r := range records {
			if (r.typ == ContentTypeAlert) != (i == len(records)-1) {
				t.Fatalf("record %d of %d: %v", i, len(records), r.typ)
			}
		}
		if n := len(records); n == 0 || records[n-1].content[1] != byte(AlertIllegalParameter) {
			t.Fatalf("the last of %d records is no alert", n)
		}
		b.Close()
	}
}

// TestFloodWithoutReader has a peer send records, up to a million, until buffers of
// the kernel are full, to a connection that is not read: that costs no memory here,
// and no more than a few records cost once it is read.
func TestFloodWithoutReader(t *testing.T) {
	for name, seal := range map[string]func(s *Sealer, dst []byte) ([]byte, error){
		"empty":      func(s *Sealer, dst []byte) ([]byte, error) { return s.Seal(dst, ContentTypeApplicationData, nil) },
		"KeyUpdates": func(s *Sealer, dst []byte) ([]byte, error) { s.PeerKeyUpdate(false); return s.SealKeyUpdate(dst, true) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := tcpPair(t)
			c := newConn(t, a, ConnConfig{})
			peer := appSealer(t, aead.AES128GCM(), "server", SealerConfig{})
			records := 1_000_000
			if name == "KeyUpdates" {
				records = 5000 // each derives keys, on the peer's side
			}
			var before, after runtime.MemStats
			buf := make([]byte, 0, 1<<16)
			runtime.GC()
			runtime.ReadMemStats(&before)
			sent := 0
			for sent < records {
				buf = buf[:0]
				for range 1000 {
					buf, _ = seal(peer, buf)
				}
				sent += 1000
				if sent > 1000 { // the first have room, however late this write begins
					b.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				}
				if _, err := b.Write(buf); err != nil {
					break // the kernel's buffers are full, and ours stay empty
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
				t.Errorf("%d bytes more after %d records", grown, sent)
			}
			c.SetReadDeadline(later())
			if n, err := c.Read(make([]byte, 100)); n != 0 || !errors.Is(err, ErrTooManyIdleRecords) {
				t.Errorf("%d, %v", n, err)
			}
			opened := c.in.opener.Seq() + c.in.opener.Generation()
			if opened > maxIdleRecords+1 {
				t.Errorf("%d records were opened", opened)
			}
			if c.out.sealer.Generation() != 0 {
				t.Error("a KeyUpdate was sent from a Read")
			}
			t.Logf("%d records sent, %d opened", sent, opened)
		})
	}
}

// TestSlowPeers has peers that stop in the middle of records: each costs the size
// of one record, and none of them more.
func TestSlowPeers(t *testing.T) {
	s := appSealer(t, aead.AES128GCM(), "server", SealerConfig{})
	wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, make([]byte, 16384)))
	for _, sent := range []int{1, 5, 6, 1000, len(wire) - 1} {
		a, b := tcpPair(t)
		c := newConn(t, a, ConnConfig{})
		quick := max(0, sent-50)
		b.Write(wire[:quick])
		go func() {
			for i := quick; i < sent; i++ {
				b.Write(wire[i : i+1])
			}
		}()
		// All that arrives is held in what shrinkBuffer leaves.
		c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if _, err := c.Read(make([]byte, 10)); !isTimeout(err) {
			t.Errorf("after %d bytes: %v", sent, err)
		}
		if c.in.socket != nil && c.in.b != nil && len(c.in.b.b) > smallSize {
			t.Errorf("after %d bytes a wait holds %d", sent, len(c.in.b.b))
		}
	}
}

// TestStalledWriteMemory has transports that take nothing, as of peers that do not
// read: each costs what the documentation says.
func TestStalledWriteMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop buffers")
	}
	const conns = 16
	for _, tt := range []struct {
		name string
		most float64 // KiB
		send func(c *Conn)
	}{
		{"Write of a record", 18, func(c *Conn) { c.Write(make([]byte, 1000)) }},
		{"Write", 72, func(c *Conn) { c.Write(stalledContent) }},
		{"ReadFrom", 72, func(c *Conn) { c.ReadFrom(struct{ io.Reader }{bytes.NewReader(stalledContent)}) }},
	} {
		stalled, over := make(chan struct{}), make(chan struct{})
		var list [conns]*Conn
		for i := range list {
			list[i] = newConn(t, &stub{write: func(p []byte) (int, error) {
				if tt.most > 18 && len(p) <= MaxRecordSize {
					return len(p), nil // ReadFrom begins with one record
				}
				stalled <- struct{}{}
				<-over
				return 0, io.ErrClosedPipe
			}}, ConnConfig{})
		}
		before := liveHeap()
		var senders sync.WaitGroup
		for _, c := range list {
			senders.Go(func() { tt.send(c) })
			<-stalled
		}
		// Besides the buffer there are its list of marks, and the table of a key that has
		// sealed twice. What ReadFrom has read into is given back before the transport waits.
		held := float64(liveHeap()-before) / conns / 1024
		if held > tt.most+8 {
			t.Errorf("%s: %.1f KiB for each connection, more than %v", tt.name, held, tt.most)
		}
		close(over)
		senders.Wait()
	}
}

var stalledContent = make([]byte, 1<<20)
