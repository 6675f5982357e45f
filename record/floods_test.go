package record

import (
	"runtime"
	"testing"

	"example.com/splitseal/aead"
)

// TestConnLongFloods reads a million empty records, and other floods, from a peer that
// sends a byte of data as often as it must for the connection to go on. A record takes
// no longer than a few data records do, the last ones no longer than the first, and
// none leaves anything behind. TestConnFloods has the floods without data, which end.
func TestConnLongFloods(t *testing.T) {
	rounds := 50
	if testing.Short() || raceEnabled {
		rounds = 5
	}
	runtime.LockOSThread() // for cpuTime
	defer runtime.UnlockOSThread()
	padding := 0
	empty := func(s *Sealer, dst []byte, _ int) ([]byte, error) {
		return s.Seal(dst, ContentTypeApplicationData, nil)
	}
	keyUpdate := func(s *Sealer, dst []byte, _ int) ([]byte, error) {
		s.PeerKeyUpdate(false) // as if the answer had come
		return s.SealKeyUpdate(dst, true)
	}
	ticket := message(typeNewSessionTicket, 200)
	for _, flood := range []struct {
		name    string
		records int // in a round
		group   int // as many come without data
		padding int
		seal    func(s *Sealer, dst []byte, i int) ([]byte, error)
		data    int     // the content of the data records with which they take turns
		most    float64 // time of a record, in those of a data record
		allocs  float64 // of a record
	}{
		{"empty records", 20_000, maxIdleRecords, 0, empty, 1, 5, 0},
		{"padding", 400, maxIdleRecords, MaxContentSize, empty, MaxContentSize, 4, 0},
		{"KeyUpdates", 1000, maxIdleRecords, 0, keyUpdate, MaxContentSize, 10, 100},
		{"KeyUpdates with data", 1000, 1, 0, keyUpdate, MaxContentSize, 10, 100},
		{"tickets", 2000, maxIdleRecords, 0, func(s *Sealer, dst []byte, _ int) ([]byte, error) {
			return s.Seal(dst, ContentTypeHandshake, ticket)
		}, len(ticket), 10, 1},
		{"tickets in single bytes", 20_000, maxIdleRecords * len(ticket), 0, func(s *Sealer, dst []byte, i int) ([]byte, error) {
			return s.Seal(dst, ContentTypeHandshake, ticket[i%len(ticket):][:1])
		}, 1, 10, 0.1},
		{"user_canceled", 2000, maxUserCanceled, 0, func(s *Sealer, dst []byte, _ int) ([]byte, error) {
			return s.SealAlert(dst, AlertUserCanceled)
		}, 1, 5, 0},
	} {
		peer := appSealer(t, aead.AES128GCM(), "server", SealerConfig{Padding: func(int) int { return padding }})
		transport := new(stub)
		c := newConn(t, transport, ConnConfig{HandleMessage: func(*Conn, []byte) error { return nil }})
		var wire []byte
		var before, after runtime.MemStats
		p := make([]byte, MaxContentSize)
		add := func(rec []byte, err error) { wire = mustSeal(t)(rec, err) }
		// read reads what has been added, and returns the nanoseconds that each of so many
		// records takes.
		read := func(data, records int) float64 {
			transport.in.Write(wire)
			wire = wire[:0]
			runtime.ReadMemStats(&before)
			start := cpuTime()
			for data > 0 {
				n, err := c.Read(p)
				if err != nil {
					t.Fatalf("%s: %v with %d bytes to come", flood.name, err, data)
				}
				data -= n
			}
			took := cpuTime() - start
			runtime.ReadMemStats(&after)
			return float64(took.Nanoseconds()) / float64(records)
		}
		const never = 1e9
		best, bestOfData := []float64{never, never}, never // in each half
		records, allocs, heap := 0, uint64(0), int64(0)
		for round := range rounds {
			groups := flood.records / flood.group
			for range groups {
				padding = flood.padding
				for i := range flood.group {
					add(flood.seal(peer, wire, i))
				}
				padding = 0
				add(peer.Seal(wire, ContentTypeApplicationData, p[:1]))
			}
			half := round * 2 / rounds
			best[half] = min(best[half], read(groups, groups*flood.group))
			records += groups * flood.group
			allocs += after.Mallocs - before.Mallocs
			compared := min(500, 300_000/flood.data)
			for range compared {
				add(peer.Seal(wire, ContentTypeApplicationData, p[:flood.data]))
			}
			bestOfData = min(bestOfData, read(compared*flood.data, compared))
			if round == 0 {
				heap, records, allocs = liveHeap(), 0, 0 // buffers are as large as they get
			}
		}
		if grown := liveHeap() - heap; grown > 128<<10 {
			t.Errorf("%s: %d bytes more after %d records", flood.name, grown, records)
		}
		if n := float64(allocs) / float64(records); n > flood.allocs+0.01 && !raceEnabled {
			t.Errorf("%s: %.3f allocations for each", flood.name, n)
		}
		if r := min(best[0], best[1]) / bestOfData; r > flood.most {
			t.Errorf("%s: %.1f times the time of %d bytes of data", flood.name, r, flood.data)
		}
		if best[1] > 3*best[0] {
			t.Errorf("%s: at first %.0f ns, in the end %.0f ns", flood.name, best[0], best[1])
		}
		if _, err := c.Write(p[:1]); err != nil {
			t.Errorf("%s: %v", flood.name, err)
		}
		want := "data:1"
		if c.in.opener.Generation() > 0 {
			want = "KeyUpdate:0 data:1"
		}
		if got := describe(newFollower(t).take(t, transport.out.Bytes())); got != want {
			t.Errorf("%s: sent %q, want %q", flood.name, got, want)
		}
		t.Logf("%s: %d records of %.0f and %.0f ns, %d bytes of data of %.0f ns, %.3f allocations", flood.name, records, best[0], best[1], flood.data, bestOfData, float64(allocs)/float64(records))
	}
}
