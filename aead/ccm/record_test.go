package ccm_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"example.com/splitseal/aead"
	"example.com/splitseal/aead/ccm"
	"example.com/splitseal/record"
)

// newPair returns the two ends of a direction under application keys.
func newPair(t *testing.T, suite *aead.Suite, id byte, cfg record.SealerConfig) (*record.Sealer, *record.Opener) {
	t.Helper()
	secret := bytes.Repeat([]byte{id}, suite.Hash().Size())
	s, o := record.NewSealer(cfg), record.NewOpener(record.OpenerConfig{})
	if err := s.SetTrafficSecret(record.EpochApplication, suite, secret); err != nil {
		t.Fatal(err)
	}
	if err := o.SetTrafficSecret(record.EpochApplication, suite, secret); err != nil {
		t.Fatal(err)
	}
	return s, o
}

// TestRecords seals and opens records of all sizes up to 100 bytes and of the largest,
// contiguous, gathered and padded, to buffers that are too short and too long.
func TestRecords(t *testing.T) {
	sizes := []int{record.MaxContentSize}
	for n := range 100 {
		sizes = append(sizes, n)
	}
	for _, suite := range ccm.Suites() {
		padding := 0
		s, o := newPair(t, suite, 1, record.SealerConfig{Padding: func(int) int { return padding }})
		for i, n := range sizes {
			padding = i % 3 * 7
			content := bytes.Repeat([]byte{byte(n), 1, 2}, n)[:n]
			var rec []byte
			var err error
			if i%2 == 0 {
				rec, err = s.Seal(nil, record.ContentTypeApplicationData, content)
			} else {
				rec, err = s.SealGather(nil, record.ContentTypeApplicationData, [][]byte{content[:n/3], nil, content[n/3:]})
			}
			if want := s.SealedSize(n) + min(padding, record.MaxContentSize-n); err != nil || len(rec) != want {
				t.Fatalf("%v, %d bytes: record of %d, want %d, %v", suite, n, len(rec), want, err)
			}
			got, need, err := o.OpenTo(make([]byte, i%2*2*n+1), rec)
			if all := append(bytes.Clone(got.Content), got.Rest...); err != nil || need > 0 || !bytes.Equal(all, content) {
				t.Fatalf("%v, %d bytes: %d, need %d, %v", suite, n, len(all), need, err)
			}
		}
	}
}

// TestRecordsTampered flips each bit of a record, and cuts records shorter than the
// tag, of which one suite has one of 8 bytes.
func TestRecordsTampered(t *testing.T) {
	content := []byte("cccccccccc")
	for _, suite := range ccm.Suites() {
		s, _ := newPair(t, suite, 1, record.SealerConfig{})
		rec, err := s.Seal(nil, record.ContentTypeApplicationData, content)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(rec) {
			bad := bytes.Clone(rec)
			bad[bit/8] ^= 1 << (bit % 8)
			_, o := newPair(t, suite, 1, record.SealerConfig{})
			dst := make([]byte, 4)
			_, need, err := o.OpenTo(dst, bad)
			if err == nil && need == 0 {
				t.Errorf("%v: bit %d changed, and the record opens", suite, bit)
			}
			if bytes.Contains(bad, content[:3]) || bytes.Contains(dst, content[:3]) {
				t.Errorf("%v: bit %d changed: content is left", suite, bit)
			}
		}
		for n := range suite.TagSize() + 2 {
			_, o := newPair(t, suite, 1, record.SealerConfig{})
			_, need, err := o.Open([]byte{23, 3, 3, 0, byte(n)})
			if n < suite.TagSize() && err != record.ErrBadRecordMAC || n >= suite.TagSize() && (err != nil || need != n) {
				t.Errorf("%v: body of %d bytes: need %d, %v", suite, n, need, err)
			}
		}
	}
}

// TestRecordState moves a Sealer, encoded.
func TestRecordState(t *testing.T) {
	byID := func(id uint16) *aead.Suite {
		for _, s := range ccm.Suites() {
			if s.ID() == id {
				return s
			}
		}
		return nil
	}
	for _, suite := range ccm.Suites() {
		s, o := newPair(t, suite, 1, record.SealerConfig{})
		st, err := s.Export()
		if err != nil {
			t.Fatal(err)
		}
		data, err := st.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if st, err = record.DecodeState(data, byID); err != nil {
			t.Fatal(err)
		}
		if s, err = record.ImportSealer(st, record.SealerConfig{}); err != nil {
			t.Fatal(err)
		}
		rec, err := s.Seal(nil, record.ContentTypeApplicationData, []byte("moved"))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := o.Open(rec); err != nil || string(got.Content) != "moved" {
			t.Errorf("%v: %q, %v", suite, got.Content, err)
		}
	}
}

// TestConn echoes through two Conns, with padding, and KeyUpdates of both kinds.
func TestConn(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 30_000)
	for _, suite := range ccm.Suites() {
		clientSealer, serverOpener := newPair(t, suite, 1, record.SealerConfig{SoftLimit: 5, Padding: record.PadToMultiple(64)})
		serverSealer, clientOpener := newPair(t, suite, 2, record.SealerConfig{})
		a, b := net.Pipe()
		client, err := record.NewConn(a, record.ConnConfig{Role: record.RoleClient, Sealer: clientSealer, Opener: clientOpener})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := record.NewConn(b, record.ConnConfig{Role: record.RoleServer, Sealer: serverSealer, Opener: serverOpener})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		go func() {
			io.Copy(server, server)
			server.CloseWrite()
		}()
		go func() {
			client.Write(want[:1000])
			client.KeyUpdate(true)
			client.WriteBuffers([][]byte{want[1000:1001], want[1001:]})
			client.CloseWrite()
		}()
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes, %v", suite, len(got), err)
		}
	}
}
