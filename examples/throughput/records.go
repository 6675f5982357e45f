package main

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/asm"
	"example.com/splitseal/record"
)

// A recordFixture is what all implementations of a record op share.
type recordFixture struct {
	spec
	secret  []byte
	content []byte // size bytes
	dst     []byte // size bytes
	out     []byte // for a record
	ring    []byte // for a batch of records
	in      []byte
	batch   int // records

	// keyUpdateAt is how many records are sealed under one key before it is
	// replaced, between two batches.
	keyUpdateAt uint64
}

func newRecordFixture(m *memory, s spec) *recordFixture {
	f := &recordFixture{
		spec:    s,
		secret:  make([]byte, s.suite.suite.Hash().Size()),
		content: m.content[:s.size], dst: m.dst[:s.size:s.size],
		out: m.out, ring: m.ring, in: m.in,
		batch:       ringCount(s.size + record.HeaderSize + 1 + tagSize),
		keyUpdateAt: 1 << 23, // less than every suite's limit
	}
	rand.Read(f.secret)
	return f
}

// tasks returns all tasks, in the order of implementations.
func (f *recordFixture) tasks(backends []asm.Backend) ([]*task, error) {
	var tasks []*task
	for _, b := range backends {
		if f.suite.isChaCha() && b != asm.Portable {
			continue
		}
		t, err := f.ours(b)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	theirs, err := f.copying()
	if err != nil {
		return nil, err
	}
	tls, err := f.cryptoTLS()
	if err != nil {
		return nil, err
	}
	return append(tasks, theirs, tls), nil
}

// newPair returns both ends of one direction.
func (f *recordFixture) newPair(b asm.Backend) (*record.Sealer, *record.Opener, error) {
	defer asm.Force(b)()
	sealer, opener := record.NewSealer(record.SealerConfig{}), record.NewOpener(record.OpenerConfig{})
	err := errors.Join(
		sealer.SetTrafficSecret(record.EpochApplication, f.suite.suite, f.secret),
		opener.SetTrafficSecret(record.EpochApplication, f.suite.suite, f.secret))
	return sealer, opener, err
}

// ours returns the task of backend b: a Sealer, or an Opener that opens out of
// a buffer that is filled from the transport.
func (f *recordFixture) ours(b asm.Backend) (*task, error) {
	sealer, opener, err := f.newPair(b)
	if err != nil {
		return nil, err
	}
	w := &wire{}
	t := &task{impl: ourPrefix + b.String()}
	if f.op == "record-seal" {
		t.call = func(calls int) {
			for range calls {
				rec, err := sealer.Seal(f.out[:0], record.ContentTypeApplicationData, f.content)
				must(err)
				w.Write(rec)
			}
		}
		t.refill = func() {
			if sealer.Seq() > f.keyUpdateAt {
				_, err := sealer.SealKeyUpdate(nil, false)
				must(err)
			}
		}
		t.check = func() error {
			// crypto/cipher seals the same content at the same number.
			c, err := f.newCopying(w)
			if err != nil {
				return err
			}
			want := bytes.Clone(c.seal(f.out[:0], f.content))
			return f.checkSealed(t, w, func(rec []byte) error {
				if !bytes.Equal(rec, want) {
					return errors.New("sealed to something else than crypto/cipher")
				}
				return nil
			})
		}
		return t, nil
	}

	in := inbox{transport: w, buf: f.in}
	t.call = func(calls int) {
		for range calls {
			for {
				rec, need, err := opener.OpenTo(f.dst, in.filled())
				must(err)
				if need == 0 {
					in.skip(rec.Size)
					break
				}
				in.fill(need)
			}
		}
	}
	t.batch = f.batch
	t.refill = func() {
		if sealer.Seq() > f.keyUpdateAt {
			sealer, opener, err = f.newPair(b)
			must(err)
		}
		w.in = f.seal(sealer)
	}
	t.check = f.checkOpened(t)
	return t, nil
}

// seal returns a batch of records.
func (f *recordFixture) seal(s *record.Sealer) []byte {
	batch := f.ring[:0]
	for range f.batch {
		var err error
		batch, err = s.Seal(batch, record.ContentTypeApplicationData, f.content)
		must(err)
	}
	return batch
}

// copying returns the task of crypto/cipher.
func (f *recordFixture) copying() (*task, error) {
	w := &wire{}
	c, err := f.newCopying(w)
	if err != nil {
		return nil, err
	}
	t := &task{impl: cryptoCipher}
	if f.op == "record-seal" {
		t.call = func(calls int) {
			for range calls {
				w.Write(c.seal(f.out[:0], f.content))
			}
		}
		t.check = func() error { return f.checkSealed(t, w, f.opens) }
		return t, nil
	}
	t.call = func(calls int) {
		for range calls {
			c.open(f.dst)
		}
	}
	t.batch = f.batch
	t.refill = func() {
		batch := f.ring[:0]
		for range f.batch {
			batch = c.seal(batch, f.content)
		}
		w.in = batch
	}
	t.check = f.checkOpened(t)
	return t, nil
}

// cryptoTLS returns the task of a tls.Conn.
func (f *recordFixture) cryptoTLS() (*task, error) {
	p, err := newPeer(f.suite.suite)
	if err != nil {
		return nil, err
	}
	t := &task{impl: cryptoTLS}
	if f.op == "record-seal" {
		t.call = func(calls int) {
			for range calls {
				_, err := p.conn.Write(f.content)
				must(err)
			}
		}
		t.check = func() error {
			return f.checkSealed(t, p.wire, func(rec []byte) error { return f.checkRecord(p.opener, rec) })
		}
		return t, nil
	}
	t.call = func(calls int) {
		for range calls {
			n, err := p.conn.Read(f.dst)
			must(err)
			if n != len(f.dst) {
				panic("throughput: crypto/tls read part of a record")
			}
		}
	}
	t.batch = f.batch
	t.refill = func() {
		var update []byte
		if p.sealer.Seq() > f.keyUpdateAt {
			update, err = p.sealer.SealKeyUpdate(nil, false)
			must(err)
		}
		p.wire.in = update
		if len(update) > 0 {
			// Otherwise it would be read with the next record; this way it is not
			// timed.
			p.wire.in = append(update, f.sealOne(p.sealer)...)
			t.call(1)
		}
		p.wire.in = f.seal(p.sealer)
	}
	t.check = f.checkOpened(t)
	return t, nil
}

func (f *recordFixture) sealOne(s *record.Sealer) []byte {
	rec, err := s.Seal(nil, record.ContentTypeApplicationData, f.content)
	must(err)
	return rec
}

// checkSealed has t seal one record and passes it to check.
func (f *recordFixture) checkSealed(t *task, w *wire, check func(rec []byte) error) error {
	w.keep, w.out = true, nil
	t.call(1)
	rec := w.out
	w.keep, w.out = false, nil
	return check(rec)
}

// opens checks that rec, the first under the secret, opens.
func (f *recordFixture) opens(rec []byte) error {
	opener := record.NewOpener(record.OpenerConfig{})
	if err := opener.SetTrafficSecret(record.EpochApplication, f.suite.suite, f.secret); err != nil {
		return err
	}
	return f.checkRecord(opener, rec)
}

// checkRecord checks that rec is one record of the content.
func (f *recordFixture) checkRecord(opener *record.Opener, rec []byte) error {
	got, need, err := opener.Open(rec)
	switch {
	case err != nil:
		return err
	case need > 0 || got.Size != len(rec):
		return fmt.Errorf("%d bytes are not one record", len(rec))
	case got.Type != record.ContentTypeApplicationData || !bytes.Equal(got.Content, f.content):
		return errors.New("sealed to a record of something else")
	}
	return nil
}

// checkOpened returns a check that t opens a whole batch to the content.
func (f *recordFixture) checkOpened(t *task) func() error {
	return func() error {
		t.refill()
		for range t.batch {
			clear(f.dst)
			t.call(1)
			if !bytes.Equal(f.dst, f.content) {
				return errors.New("opened to something else than was sealed")
			}
		}
		return nil
	}
}

// An inbox holds what was read from a transport and not used yet.
type inbox struct {
	transport io.Reader
	buf       []byte
	r, w      int
}

func (b *inbox) filled() []byte { return b.buf[b.r:b.w] }

func (b *inbox) skip(n int) { b.r += n }

// fill reads once, as much as there is room for, which is n bytes at least.
func (b *inbox) fill(n int) {
	if b.r == b.w {
		b.r, b.w = 0, 0
	} else if n > len(b.buf)-b.w {
		b.w = copy(b.buf, b.filled())
		b.r = 0
	}
	n, err := b.transport.Read(b.buf[b.w:])
	must(err)
	b.w += n
}

// copying is a record layer on crypto/cipher as in crypto/tls: content is copied next
// to its content type and sealed there; a record is opened in place and its content
// copied to the reader.
type copying struct {
	aead              cipher.AEAD
	iv, nonce         [aead.IVSize]byte
	writeSeq, readSeq uint64
	in                inbox
}

func (f *recordFixture) newCopying(transport io.Reader) (*copying, error) {
	keys, err := aead.DeriveTrafficKeys(f.suite.suite, f.secret)
	if err != nil {
		return nil, err
	}
	a, err := newCryptoCipher(f.suite, keys.Key)
	if err != nil {
		return nil, err
	}
	return &copying{aead: a, iv: [aead.IVSize]byte(keys.IV), in: inbox{transport: transport, buf: f.in}}, nil
}

func (c *copying) seal(dst, content []byte) []byte {
	n := len(content) + 1 + c.aead.Overhead()
	header := len(dst)
	dst = append(dst, contentType, 3, 3, byte(n>>8), byte(n))
	start := len(dst)
	dst = append(dst, content...)
	dst = append(dst, contentType)
	dst = c.aead.Seal(dst[:start], c.nonceFor(c.writeSeq), dst[start:], dst[header:start])
	c.writeSeq++
	return dst
}

// open opens the next record of the transport into dst.
func (c *copying) open(dst []byte) {
	for len(c.in.filled()) < record.HeaderSize {
		c.in.fill(record.HeaderSize)
	}
	header := c.in.filled()[:record.HeaderSize]
	size := record.HeaderSize + int(binary.BigEndian.Uint16(header[3:]))
	for len(c.in.filled()) < size {
		c.in.fill(size - len(c.in.filled()))
	}
	rec := c.in.filled()[:size]
	header, body := rec[:record.HeaderSize], rec[record.HeaderSize:]
	text, err := c.aead.Open(body[:0], c.nonceFor(c.readSeq), body, header)
	must(err)
	c.readSeq++
	n := len(text)
	for n > 0 && text[n-1] == 0 {
		n--
	}
	if n == 0 || text[n-1] != contentType {
		panic("throughput: a record without application data")
	}
	copy(dst, text[:n-1])
	c.in.skip(size)
}

func (c *copying) nonceFor(seq uint64) []byte {
	c.nonce = c.iv
	tail := c.nonce[aead.IVSize-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^seq)
	return c.nonce[:]
}
