package record

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"example.com/splitseal/aead"
	"golang.org/x/crypto/chacha20poly1305"
)

func testRand(t testing.TB) *rand.Rand {
	var seed [32]byte
	copy(seed[:], t.Name())
	return rand.New(rand.NewChaCha8(seed))
}

func randBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// testSecret returns a traffic secret for s that depends on id.
func testSecret(s *aead.Suite, id byte) []byte {
	return bytes.Repeat([]byte{id}, s.Hash().Size())
}

func newTestSealer(t testing.TB, s *aead.Suite, epoch Epoch, cfg SealerConfig) *Sealer {
	t.Helper()
	sealer := NewSealer(cfg)
	if err := sealer.SetTrafficSecret(epoch, s, testSecret(s, 1)); err != nil {
		t.Fatal(err)
	}
	return sealer
}

func newTestOpener(t testing.TB, s *aead.Suite, epoch Epoch, cfg OpenerConfig) *Opener {
	t.Helper()
	opener := NewOpener(cfg)
	if err := opener.SetTrafficSecret(epoch, s, testSecret(s, 1)); err != nil {
		t.Fatal(err)
	}
	return opener
}

// forger seals any inner plaintext under any header, with crypto/cipher and
// x/crypto and nothing of this package: the oracle, and the peer that breaks
// the rules.
type forger struct {
	t      testing.TB
	suite  *aead.Suite
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func newForger(t testing.TB, s *aead.Suite) *forger {
	f := &forger{t: t, suite: s}
	f.setSecret(testSecret(s, 1))
	return f
}

func (f *forger) setSecret(secret []byte) {
	f.t.Helper()
	keys, err := aead.DeriveTrafficKeys(f.suite, secret)
	if err != nil {
		f.t.Fatal(err)
	}
	f.secret, f.iv, f.seq = secret, keys.IV, 0
	if f.suite == aead.ChaCha20Poly1305() {
		f.aead, err = chacha20poly1305.New(keys.Key)
	} else {
		var block cipher.Block
		if block, err = aes.NewCipher(keys.Key); err == nil {
			f.aead, err = cipher.NewGCM(block)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *forger) keyUpdate() {
	f.t.Helper()
	next, err := aead.NextTrafficSecret(f.suite, f.secret)
	if err != nil {
		f.t.Fatal(err)
	}
	f.setSecret(next)
}

// header seals inner under a header with this version.
func (f *forger) sealVersion(inner []byte, version uint16) []byte {
	nonce := bytes.Clone(f.iv)
	tail := nonce[len(nonce)-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^f.seq)
	f.seq++
	h := []byte{23, byte(version >> 8), byte(version)}
	h = binary.BigEndian.AppendUint16(h, uint16(len(inner)+f.aead.Overhead()))
	return append(bytes.Clone(h), f.aead.Seal(nil, nonce, inner, h)...)
}

func (f *forger) inner(inner []byte) []byte { return f.sealVersion(inner, 0x0303) }

func (f *forger) record(typ ContentType, content []byte, padding int) []byte {
	inner := append(bytes.Clone(content), byte(typ))
	return f.inner(append(inner, make([]byte, padding)...))
}

// plain returns a record without protection.
func plain(typ byte, content []byte) []byte {
	h := []byte{typ, 3, 3}
	h = binary.BigEndian.AppendUint16(h, uint16(len(content)))
	return append(h, content...)
}

// message returns a handshake message with size bytes of body.
func message(typ byte, size int) []byte {
	m := []byte{typ, byte(size >> 16), byte(size >> 8), byte(size)}
	return append(m, bytes.Repeat([]byte{typ}, size)...)
}

// opened is the outcome of opening all of a stream.
type opened struct {
	typ     ContentType
	content []byte
	dropped bool
}

// openAll opens records from wire, which it copies, until it is used up or an
// error comes.
func openAll(o *Opener, wire []byte) (out []opened, err error) {
	in := bytes.Clone(wire)
	for len(in) > 0 {
		rec, need, err := o.Open(in)
		if err != nil {
			return out, err
		}
		if need > 0 {
			return out, errNeedMore
		}
		out = append(out, opened{rec.Type, bytes.Clone(rec.Content), rec.Dropped})
		in = in[rec.Size:]
	}
	return out, nil
}

var errNeedMore = errors.New("need more")

func wantErr(t testing.TB, what string, err, want error, alert Alert) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: error %v, want %v", what, err, want)
		return
	}
	if want == nil {
		return
	}
	if a, ok := AlertOf(err); ok != (alert != noAlert) || ok && a != alert {
		t.Errorf("%s: alert %v, %v, want %v", what, a, ok, alert)
	}
}

// noAlert stands for an error without an alert; no alert has this number.
const noAlert = Alert(255)

func mustSeal(t testing.TB) func(rec []byte, err error) []byte {
	return func(rec []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
}
