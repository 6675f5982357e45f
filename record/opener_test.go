package record

import (
	"bytes"
	"crypto/cipher"
	"fmt"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// corner is one record, what opening it gives, and why.
type corner struct {
	name  string
	epoch Epoch
	wire  func(f *forger) []byte
	want  error
	alert Alert
	typ   ContentType // if want is nil
	size  int         // of the content
}

func inner(content int, rest ...byte) []byte {
	return append(bytes.Repeat([]byte{'c'}, content), rest...)
}

func zeros(n int) []byte { return make([]byte, n) }

// headerOnly is a record header with nothing behind it.
func headerOnly(typ byte, size int) func(*forger) []byte {
	return func(*forger) []byte { return []byte{typ, 3, 3, byte(size >> 8), byte(size)} }
}

func sealed(inner []byte) func(*forger) []byte {
	return func(f *forger) []byte { return f.inner(inner) }
}

func raw(b []byte) func(*forger) []byte { return func(*forger) []byte { return b } }

// corners are the records where well-known stacks disagree. Each group quotes
// the sentence that decides it (RFC 9846).
func corners() []corner {
	app := EpochApplication
	list := []corner{
		// Section 5.2: "The length MUST NOT exceed 2^14 + 256 bytes. An endpoint
		// that receives a record that exceeds this length MUST terminate the
		// connection with a "record_overflow" alert." "An endpoint that receives a
		// record from its peer with TLSCiphertext.length larger than 2^14 + 256
		// octets MUST terminate the connection with a "record_overflow" alert."
		{name: "length 2^14+257, no body", wire: headerOnly(23, 16641), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "length 0x4200, no body", wire: headerOnly(23, 0x4200), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "length 0xffff, no body", wire: headerOnly(23, 0xffff), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "length 2^14+256 of noise", wire: raw(plain(23, zeros(16640))), want: ErrBadRecordMAC, alert: AlertBadRecordMAC},

		// Section 5.4: "the full encoded TLSInnerPlaintext MUST NOT exceed 2^14 + 1
		// octets."
		{name: "length 2^14+256, 239 zeros of padding too many", wire: sealed(append(inner(MaxContentSize, 23), zeros(239)...)), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "inner plaintext 2^14+2, short content", wire: sealed(append(inner(16376, 23), zeros(9)...)), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "inner plaintext 2^14+2, all zero", wire: sealed(zeros(16386)), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "content 2^14+1", wire: sealed(inner(16385, 23)), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "content 2^14", wire: sealed(inner(16384, 23)), typ: 23, size: 16384},
		{name: "content 0, padding 2^14", wire: sealed(append([]byte{23}, zeros(16384)...)), typ: 23},
		{name: "content 1, padding 2^14-1", wire: sealed(append([]byte{'c', 23}, zeros(16383)...)), typ: 23, size: 1},

		// Section 5.4: "Implementations MUST limit their scanning to the cleartext
		// returned from the AEAD decryption. If a receiving implementation does not
		// find a non-zero octet in the cleartext, it MUST terminate the connection with an
		// "unexpected_message" alert."
		{name: "no inner plaintext", wire: sealed(nil), want: ErrNoContentType, alert: AlertUnexpectedMessage},
		{name: "one zero", wire: sealed(zeros(1)), want: ErrNoContentType, alert: AlertUnexpectedMessage},
		{name: "four zeros", wire: sealed(zeros(4)), want: ErrNoContentType, alert: AlertUnexpectedMessage},
		{name: "2^14+1 zeros", wire: sealed(zeros(16385)), want: ErrNoContentType, alert: AlertUnexpectedMessage},

		// Section 5.2: "If the decryption fails, the receiver MUST terminate the
		// connection with a "bad_record_mac" alert."
		{name: "length 0", wire: headerOnly(23, 0), want: ErrBadRecordMAC, alert: AlertBadRecordMAC},
		{name: "length 1, no body", wire: headerOnly(23, 1), want: ErrBadRecordMAC, alert: AlertBadRecordMAC},
		{name: "length 15, no body", wire: headerOnly(23, 15), want: ErrBadRecordMAC, alert: AlertBadRecordMAC},
		{name: "length 16 of noise", wire: raw(plain(23, zeros(16))), want: ErrBadRecordMAC, alert: AlertBadRecordMAC},

		// Section 5.2: "The outer opaque_type field of a TLSCiphertext record is
		// always set to the value 23"; Section 5: "If a TLS implementation receives
		// an unexpected record type, it MUST terminate the connection with an
		// "unexpected_message" alert."
		{name: "outer type 22", wire: raw(plain(22, message(20, 32))), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		{name: "outer type 22, first byte", wire: raw([]byte{22}), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		{name: "outer type 21", wire: raw(plain(21, []byte{2, 40})), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		{name: "outer type 20", wire: raw(plain(20, []byte{1})), want: ErrChangeCipherSpec, alert: AlertUnexpectedMessage},
		{name: "outer type 0", wire: raw([]byte{0}), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		{name: "outer type 24", wire: raw([]byte{24}), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		{name: "outer type 255", wire: raw([]byte{255}), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},

		// Section 5: "An implementation which receives any other change_cipher_spec
		// value or which receives a protected change_cipher_spec record MUST abort the
		// handshake with an "unexpected_message" alert."
		{name: "protected change_cipher_spec", wire: sealed([]byte{1, 20}), want: ErrUnexpectedContentType, alert: AlertUnexpectedMessage},
		{name: "content type 1", wire: sealed([]byte{1}), want: ErrUnexpectedContentType, alert: AlertUnexpectedMessage},
		{name: "content type 24", wire: sealed(inner(9, 24)), want: ErrUnexpectedContentType, alert: AlertUnexpectedMessage},
		{name: "content type 255", wire: sealed(inner(9, 255, 0, 0)), want: ErrUnexpectedContentType, alert: AlertUnexpectedMessage},

		// Section 5.1: "a record with an Alert type MUST contain exactly one message."
		{name: "two alerts", wire: sealed([]byte{1, 90, 1, 0, 21}), want: ErrAlertSize, alert: AlertUnexpectedMessage},
		{name: "half an alert", wire: sealed([]byte{2, 21}), want: ErrAlertSize, alert: AlertUnexpectedMessage},
		{name: "three bytes of alert", wire: sealed([]byte{2, 10, 0, 21}), want: ErrAlertSize, typ: 21, alert: AlertUnexpectedMessage},
		{name: "alert", wire: sealed([]byte{2, 10, 21}), typ: 21, size: 2},
		{name: "padded alert", wire: sealed(append([]byte{1, 0, 21}, zeros(1000)...)), typ: 21, size: 2},

		// Section 5.4, about padding.
		{name: "handshake", wire: sealed(append(message(4, 50), 22)), typ: 22, size: 54},
		{name: "padded handshake", wire: sealed(append(append(message(4, 50), 22), zeros(77)...)), typ: 22, size: 54},
		{name: "empty data", wire: sealed([]byte{23}), typ: 23},
		{name: "data of zeros", wire: sealed(append(zeros(100), 23)), typ: 23, size: 100},
	}
	for i := range list {
		list[i].epoch = app
	}
	for _, n := range []int{1, 15, 16, 31, 63, 64, 65, 255, 4096} {
		list = append(list, corner{name: fmt.Sprintf("%d bytes of padding", n), epoch: app,
			wire: sealed(append(inner(2, 23), zeros(n)...)), typ: 23, size: 2})
	}
	// Section 5.4: "Implementations MUST NOT send Handshake and Alert records that
	// have a zero-length TLSInnerPlaintext.content; if such a message is received,
	// the receiving implementation MUST terminate the connection with an
	// "unexpected_message" alert."
	for _, n := range []int{0, 2, 30, 16384} {
		for _, typ := range []byte{21, 22} {
			list = append(list, corner{name: fmt.Sprintf("no content of type %d, %d bytes of padding", typ, n), epoch: app,
				wire: sealed(append([]byte{typ}, zeros(n)...)), want: ErrEmptyFragment, alert: AlertUnexpectedMessage})
		}
	}
	plaintext := []corner{
		// Section 5.1: "The length MUST NOT exceed 2^14 bytes. An endpoint that
		// receives a record that exceeds this length MUST terminate the connection
		// with a "record_overflow" alert."
		{name: "length 2^14+1, no body", wire: headerOnly(22, 16385), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "length 0x4100, no body", wire: headerOnly(22, 0x4100), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "alert, length 2^14+1, no body", wire: headerOnly(21, 16385), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		{name: "length 2^14", wire: raw(plain(22, message(11, 16380))), typ: 22, size: 16384},
		// Section 5.1: "Implementations MUST NOT send zero-length fragments of
		// Handshake types, even if those fragments contain padding."
		{name: "empty handshake", wire: headerOnly(22, 0), want: ErrEmptyFragment, alert: AlertUnexpectedMessage},
		{name: "empty alert", wire: headerOnly(21, 0), want: ErrEmptyFragment, alert: AlertUnexpectedMessage},
		{name: "two alerts, no body", wire: headerOnly(21, 4), want: ErrAlertSize, alert: AlertUnexpectedMessage},
		{name: "half an alert, no body", wire: headerOnly(21, 1), want: ErrAlertSize, alert: AlertUnexpectedMessage},
		{name: "alert", wire: raw(plain(21, []byte{2, 40})), typ: 21, size: 2},
		// Section 5.1: "Application Data messages are always protected."
		{name: "data without keys", wire: headerOnly(23, 100), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		{name: "not TLS", wire: raw([]byte("GET / HTTP/1.1\r\n\r\n")), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
		// Section 5.1: "This field is deprecated and MUST be ignored for all purposes."
		// Appendix E: "The value of TLSPlaintext.legacy_record_version MUST be ignored
		// by all implementations."
		{name: "any version", wire: raw([]byte{22, 0xab, 0xcd, 0, 4, 11, 0, 0, 0}), typ: 22, size: 4},
		// Section 4.7.3: "Implementations that receive a KeyUpdate message prior to
		// receiving a Finished message MUST terminate the connection with an
		// "unexpected_message" alert."
		{name: "KeyUpdate without keys", wire: raw(plain(22, message(24, 1))), want: ErrUnexpectedKeyUpdate, alert: AlertUnexpectedMessage},
	}
	for i := range plaintext {
		plaintext[i].name += " (plaintext)"
	}
	list = append(list, plaintext...)
	handshake := []corner{
		{name: "KeyUpdate", wire: sealed([]byte{24, 0, 0, 1, 0, 22}), want: ErrUnexpectedKeyUpdate, alert: AlertUnexpectedMessage},
		{name: "first byte of KeyUpdate", wire: sealed([]byte{24, 22}), want: ErrUnexpectedKeyUpdate, alert: AlertUnexpectedMessage},
		{name: "handshake", wire: sealed([]byte{8, 0, 0, 0, 22}), typ: 22, size: 4},
	}
	for _, epoch := range []Epoch{EpochEarly, EpochHandshake} {
		for _, c := range handshake {
			c.epoch, c.name = epoch, c.name+" ("+epoch.String()+")"
			list = append(list, c)
		}
	}
	return append(list,
		// Section 6.2: "unexpected_message: An inappropriate message (e.g., the wrong
		// handshake message, premature Application Data, etc.) was received."
		corner{name: "data under handshake keys", epoch: EpochHandshake, wire: sealed(inner(4, 23)), want: ErrUnexpectedContentType, alert: AlertUnexpectedMessage},
		corner{name: "no data under handshake keys", epoch: EpochHandshake, wire: sealed(inner(0, 23)), want: ErrUnexpectedContentType, alert: AlertUnexpectedMessage},
		corner{name: "early data", epoch: EpochEarly, wire: sealed(inner(4, 23)), typ: 23, size: 4},
		// Section 4.3.10: "If the server chooses to accept the "early_data" extension,
		// then it MUST comply with the same error-handling requirements specified for all
		// records when processing early data records. Specifically, if the server fails
		// to decrypt a 0-RTT record following an accepted "early_data" extension, it MUST
		// terminate the connection with a "bad_record_mac" alert"
		corner{name: "early data of noise", epoch: EpochEarly, wire: raw(plain(23, zeros(16))), want: ErrBadRecordMAC, alert: AlertBadRecordMAC},
		corner{name: "early data, one zero", epoch: EpochEarly, wire: sealed(zeros(1)), want: ErrNoContentType, alert: AlertUnexpectedMessage},
		corner{name: "early data, content 2^14+1", epoch: EpochEarly, wire: sealed(inner(16385, 23)), want: ErrRecordOverflow, alert: AlertRecordOverflow},
		corner{name: "early data, outer type 22", epoch: EpochEarly, wire: raw(plain(22, message(5, 0))), want: ErrUnexpectedRecordType, alert: AlertUnexpectedMessage},
	)
}

func (c corner) opener(t testing.TB, suite *aead.Suite) *Opener {
	if c.epoch == EpochPlaintext {
		return NewOpener(OpenerConfig{})
	}
	return newTestOpener(t, suite, c.epoch, OpenerConfig{})
}

// TestCorners opens each corner with every suite, in place and into buffers of
// many sizes, whole and byte by byte, and always gets the same outcome.
func TestCorners(t *testing.T) {
	for _, suite := range aead.Suites() {
		for _, c := range corners() {
			wire := c.wire(newForger(t, suite))
			what := suite.Name() + ": " + c.name
			for _, dstSize := range []int{-1, 0, 1, c.size - 1, c.size, c.size + 1, MaxContentSize, MaxRecordSize} {
				if dstSize < -1 || testing.Short() && dstSize > 1 {
					continue
				}
				checkCorner(t, fmt.Sprintf("%s, dst %d", what, dstSize), c, c.opener(t, suite), wire, dstSize)
			}
			if len(wire) > 3000 && suite != aead.AES128GCM() {
				continue
			}
			// Byte by byte: the first prefix that decides gives the same outcome.
			o := c.opener(t, suite)
			for n := 0; ; n++ {
				if n > len(wire) {
					t.Fatalf("%s: no outcome", what)
				}
				in := bytes.Clone(wire[:n])
				rec, need, err := o.Open(in)
				if need > 0 {
					if !bytes.Equal(in, wire[:n]) || rec.Size != 0 || err != nil {
						t.Fatalf("%s: %d bytes: changed, or consumed something", what, n)
					}
					want := HeaderSize - n
					if n >= HeaderSize {
						want = HeaderSize + int(wire[3])<<8 + int(wire[4]) - n
					}
					if need != want {
						t.Fatalf("%s: %d bytes: %d needed, want %d", what, n, need, want)
					}
					continue
				}
				wantErr(t, what+", byte by byte", err, c.want, c.alert)
				if err == nil && (n != len(wire) || rec.Type != c.typ || len(rec.Content) != c.size) {
					t.Fatalf("%s: %d bytes: %+v", what, n, rec)
				}
				break
			}
		}
	}
}

func checkCorner(t *testing.T, what string, c corner, o *Opener, wire []byte, dstSize int) {
	t.Helper()
	const canary = 0xa5
	in := append(bytes.Clone(wire), canary, canary)[:len(wire)]
	buf := bytes.Repeat([]byte{canary}, max(dstSize, 0)+8)
	dst := buf[:max(dstSize, 0)]
	seq := o.Seq()
	rec, need, err := o.OpenTo(dst, in)
	if need != 0 {
		t.Fatalf("%s: %d bytes needed", what, need)
	}
	wantErr(t, what, err, c.want, c.alert)
	innerSize := max(0, len(wire)-HeaderSize-16)
	written := 0 // what may have been written of dst
	if c.epoch != EpochPlaintext {
		written = min(len(dst), max(0, innerSize-1))
	}
	if !bytes.Equal(buf[written:], bytes.Repeat([]byte{canary}, len(buf)-written)) {
		t.Errorf("%s: dst was written beyond the inner plaintext", what)
	}
	if in[:len(wire)+2][len(wire)] != canary || in[:len(wire)+2][len(wire)+1] != canary {
		t.Errorf("%s: bytes behind the record were written", what)
	}
	if err != nil {
		if rec.Type != 0 || rec.Content != nil || rec.Rest != nil || rec.Size != 0 || rec.Dropped {
			t.Errorf("%s: a record beside the error: %+v", what, rec)
		}
		// Nothing is released: what was opened is gone.
		for _, b := range [][]byte{dst[:written], in} {
			if bytes.Contains(b, []byte("ccc")) {
				t.Errorf("%s: content left behind", what)
			}
		}
		if !bytes.Equal(dst[:written], make([]byte, written)) && !bytes.Equal(dst[:written], bytes.Repeat([]byte{canary}, written)) {
			t.Errorf("%s: dst holds something", what)
		}
		// Sticky, and the keys are gone.
		if _, _, again := o.Open(bytes.Clone(wire)); again != err || o.Err() != err || o.keys != nil {
			t.Errorf("%s: then %v", what, again)
		}
		if err := o.KeyUpdate(); err != o.Err() {
			t.Errorf("%s: KeyUpdate: %v", what, err)
		}
		suite := aead.AES128GCM()
		if err := o.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 2)); err != o.Err() || o.keys != nil {
			t.Errorf("%s: SetTrafficSecret: %v", what, err)
		}
		return
	}
	if rec.Type != c.typ || rec.Size != len(wire) || len(rec.Content)+len(rec.Rest) != c.size || rec.Dropped {
		t.Fatalf("%s: %v, %d and %d bytes, %d consumed", what, rec.Type, len(rec.Content), len(rec.Rest), rec.Size)
	}
	if c.epoch != EpochPlaintext && o.Seq() != seq+1 {
		t.Errorf("%s: sequence number %d", what, o.Seq())
	}
	used := 0
	if c.typ == ContentTypeApplicationData {
		used = min(len(dst), c.size)
		if used > 0 && (&rec.Content[0] != &dst[0] || len(rec.Content) != used) {
			t.Errorf("%s: content of %d bytes not straight in dst", what, len(rec.Content))
		}
	} else if len(rec.Rest) != 0 {
		t.Errorf("%s: the content is in two parts", what)
	}
	if !bytes.Equal(dst[used:written], make([]byte, written-used)) {
		t.Errorf("%s: dst holds more than the content", what)
	}
	if cap(rec.Content) != len(rec.Content) || cap(rec.Rest) != len(rec.Rest) {
		t.Errorf("%s: content can be appended to", what)
	}
}

// TestOpenTo opens contents and paddings of many sizes into buffers of every
// size around them, all suites, and compares content and record boundaries.
func TestOpenTo(t *testing.T) {
	r := testRand(t)
	for _, suite := range aead.Suites() {
		f := newForger(t, suite)
		o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		for _, size := range []int{1, 2, 15, 16, 17, 31, 33, 100, 1350, 16384} {
			for _, padding := range []int{0, 1, 16, 100, 5000} {
				if size+padding > MaxContentSize {
					continue
				}
				for _, dstSize := range []int{0, 1, size - 1, size, size + 1, size + padding - 1, size + padding, size + padding + 1, 20000} {
					content := randBytes(r, size)
					content[size-1] = 0 // zeros at the end of content are content
					wire := f.record(ContentTypeApplicationData, content, padding)
					next := []byte{23, 3, 3}
					dst := bytes.Repeat([]byte{0xa5}, max(dstSize, 0))
					rec, need, err := o.OpenTo(dst, append(wire, next...))
					if err != nil || need != 0 || rec.Size != len(wire) || rec.Type != ContentTypeApplicationData {
						t.Fatalf("%v %d+%d in %d: %+v, %d, %v", suite, size, padding, dstSize, rec, need, err)
					}
					if got := append(bytes.Clone(rec.Content), rec.Rest...); !bytes.Equal(got, content) {
						t.Fatalf("%v %d+%d in %d: wrong content", suite, size, padding, dstSize)
					}
					inDst := min(len(dst), size)
					if inDst == 0 {
						inDst = size // all of it in place
					}
					if len(rec.Content) != inDst {
						t.Fatalf("%v %d+%d in %d: %d bytes in Content", suite, size, padding, dstSize, len(rec.Content))
					}
				}
			}
		}
		if o.Seq() != f.seq {
			t.Errorf("sequence number %d, want %d", o.Seq(), f.seq)
		}
	}
	// dst inside the record.
	suite := aead.AES128GCM()
	wire := newForger(t, suite).record(ContentTypeApplicationData, []byte("content"), 0)
	for _, at := range []int{HeaderSize, HeaderSize + 3} {
		o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		in := bytes.Clone(wire)
		if p := recovered(func() { o.OpenTo(in[at:], in) }); p == nil || !strings.HasPrefix(fmt.Sprint(p), "record: ") {
			t.Errorf("dst in the record: panic %v", p)
		}
		if !bytes.Equal(in, wire) {
			t.Error("written before the panic")
		}
		if rec, _, err := o.Open(in); err != nil || string(rec.Content) != "content" {
			t.Errorf("after the panic: %v", err)
		}
	}
}

// "If the decryption fails, the receiver MUST terminate the connection with a
// "bad_record_mac" alert." "additional_data = TLSCiphertext.opaque_type ||
// TLSCiphertext.legacy_record_version || TLSCiphertext.length" (RFC 9846, Section
// 5.2)
func TestTampering(t *testing.T) {
	for _, suite := range aead.Suites() {
		f := newForger(t, suite)
		content := []byte("cccccccccccccccccccccccccccc")
		wire := f.record(ContentTypeApplicationData, content, 3)
		second := f.record(ContentTypeApplicationData, content, 3)
		try := func(what string, tampered []byte, want error, alert Alert) {
			t.Helper()
			for _, dst := range [][]byte{nil, bytes.Repeat([]byte{0xa5}, 10), bytes.Repeat([]byte{0xa5}, 100)} {
				o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
				in := bytes.Clone(tampered)
				rec, need, err := o.OpenTo(dst, in)
				if need > 0 {
					t.Errorf("%s: %d bytes needed", what, need)
				}
				wantErr(t, suite.Name()+": "+what, err, want, alert)
				if rec.Content != nil || bytes.Contains(in, []byte("cc")) || bytes.Contains(dst, []byte("cc")) || o.Seq() != 0 {
					t.Errorf("%s: something was released", what)
				}
				if _, _, err := o.Open(bytes.Clone(wire)); err != want {
					t.Errorf("%s: then the right record: %v", what, err)
				}
			}
		}
		for i := range wire {
			for bit := range 8 {
				tampered := bytes.Clone(wire)
				tampered[i] ^= 1 << bit
				what := fmt.Sprintf("byte %d, bit %d", i, bit)
				switch {
				case i == 0 && tampered[0] == byte(ContentTypeChangeCipherSpec):
					try(what, tampered, ErrChangeCipherSpec, AlertUnexpectedMessage)
				case i == 0:
					try(what, tampered, ErrUnexpectedRecordType, AlertUnexpectedMessage)
				case i == 3 || i == 4:
					// Another length: too long, or more bytes wanted, or fewer.
					n := int(tampered[3])<<8 | int(tampered[4])
					switch {
					case n > MaxBodySize:
						try(what, tampered, ErrRecordOverflow, AlertRecordOverflow)
					case HeaderSize+n > len(tampered):
						o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
						if _, need, err := o.Open(tampered); err != nil || need != HeaderSize+n-len(tampered) {
							t.Errorf("%s: %d bytes needed, %v", what, need, err)
						}
						try(what+", filled up", append(tampered, make([]byte, HeaderSize+n-len(tampered))...), ErrBadRecordMAC, AlertBadRecordMAC)
					default:
						try(what, tampered, ErrBadRecordMAC, AlertBadRecordMAC)
					}
				default: // legacy_record_version too: it is authenticated
					try(what, tampered, ErrBadRecordMAC, AlertBadRecordMAC)
				}
			}
		}
		// Each truncation, the header saying so.
		for n := range len(wire) - HeaderSize {
			tampered := bytes.Clone(wire[:HeaderSize+n])
			tampered[3], tampered[4] = byte(n>>8), byte(n)
			try(fmt.Sprintf("%d bytes of body", n), tampered, ErrBadRecordMAC, AlertBadRecordMAC)
		}
		// Each truncation of the stream: more bytes wanted, nothing released.
		for n := range len(wire) {
			o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
			in := bytes.Clone(wire[:n])
			if rec, need, err := o.Open(in); err != nil || need == 0 || rec.Content != nil || !bytes.Equal(in, wire[:n]) {
				t.Errorf("%d bytes of the stream: %v, %d needed", n, err, need)
			}
		}
		try("reordered", second, ErrBadRecordMAC, AlertBadRecordMAC)
		o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		if _, err := openAll(o, append(bytes.Clone(wire), wire...)); err != ErrBadRecordMAC || o.Seq() != 1 {
			t.Errorf("replayed: %v", err)
		}
		// Keys of the other direction, of the next generation, of another suite.
		f.setSecret(testSecret(suite, 2))
		try("other secret", f.record(ContentTypeApplicationData, content, 3), ErrBadRecordMAC, AlertBadRecordMAC)
		f.setSecret(testSecret(suite, 1))
		f.keyUpdate()
		try("next generation", f.record(ContentTypeApplicationData, content, 3), ErrBadRecordMAC, AlertBadRecordMAC)
		for _, other := range aead.Suites() {
			if other != suite {
				try("other suite", newForger(t, other).record(ContentTypeApplicationData, content, 3), ErrBadRecordMAC, AlertBadRecordMAC)
			}
		}
		// Another version in the header is opened as it is: authenticated, and
		// "MUST be ignored for all purposes" (RFC 9846, Section 5.1).
		o = newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		if out, err := openAll(o, newForger(t, suite).sealVersion(append(content, 23), 0x0304)); err != nil || !bytes.Equal(out[0].content, content) {
			t.Errorf("version 0x0304: %v", err)
		}
	}
}

// "Handshake messages MUST NOT be interleaved with other record types. That is, if
// a handshake message is split over two or more records, there MUST NOT be any
// other records between them." (RFC 9846, Section 5.1)
func TestInterleaving(t *testing.T) {
	suite := aead.AES128GCM()
	m := message(4, 6)
	for cut := 1; cut < len(m); cut++ {
		for _, test := range []struct {
			name    string
			typ     ContentType
			content []byte
			want    error
		}{
			{"data", ContentTypeApplicationData, []byte("x"), ErrInterleaved},
			{"no data", ContentTypeApplicationData, nil, ErrInterleaved},
			{"user_canceled", ContentTypeAlert, []byte{1, 90}, ErrInterleaved},
			{"close_notify", ContentTypeAlert, []byte{1, 0}, nil}, // nothing follows it
			{"error alert", ContentTypeAlert, []byte{2, 80}, nil},
			{"the rest", ContentTypeHandshake, m[cut:], nil},
		} {
			f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
			if _, err := openAll(o, f.record(ContentTypeHandshake, m[:cut], 0)); err != nil || !o.HandshakePartial() {
				t.Fatal(err)
			}
			_, err := openAll(o, f.record(test.typ, test.content, 0))
			wantErr(t, fmt.Sprintf("cut %d: %s", cut, test.name), err, test.want, AlertUnexpectedMessage)
		}
		// change_cipher_spec: dropped by Section 5, refused by Section 5.1.
		o := NewOpener(OpenerConfig{})
		o.AllowChangeCipherSpec(true)
		if _, err := openAll(o, plain(22, message(2, 6)[:cut])); err != nil {
			t.Fatal(err)
		}
		_, _, err := o.Open([]byte{20})
		wantErr(t, "change_cipher_spec between fragments", err, ErrInterleaved, AlertUnexpectedMessage)
	}
	// A message over two records, the next one in the second: allowed.
	f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	wire := f.record(ContentTypeHandshake, m[:3], 0)
	wire = append(wire, f.record(ContentTypeHandshake, append(m[3:], message(4, 20)...), 0)...)
	wire = append(wire, f.record(ContentTypeApplicationData, []byte("x"), 0)...)
	if out, err := openAll(o, wire); err != nil || len(out) != 3 {
		t.Errorf("%v, %v", out, err)
	}
}

// "Handshake messages MUST NOT span key changes. Implementations MUST verify that
// all messages immediately preceding a key change align with a record boundary; if
// not, then they MUST terminate the connection with an "unexpected_message" alert."
// (RFC 9846, Section 5.1) "Any records following a Finished message MUST be encrypted
// under the appropriate application traffic key" (Section 4.5.3)
func TestKeyChangeBoundary(t *testing.T) {
	suite := aead.AES128GCM()
	update := []byte{24, 0, 0, 1, 0}
	for name, trailing := range map[string][]byte{
		"KeyUpdate": update, "a byte": {4}, "a message": message(4, 9), "a byte of KeyUpdate": {24},
	} {
		for cut := 0; cut <= len(update)-1; cut++ { // the KeyUpdate in one record or in two
			f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
			var wire []byte
			if cut > 0 {
				wire = f.record(ContentTypeHandshake, update[:cut], 0)
			}
			wire = append(wire, f.record(ContentTypeHandshake, append(bytes.Clone(update[cut:]), trailing...), 0)...)
			_, err := openAll(o, wire)
			wantErr(t, "KeyUpdate and "+name, err, ErrKeyChangeBoundary, AlertUnexpectedMessage)
		}
	}
	// In front of it there may be another message.
	f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	if _, err := openAll(o, f.record(ContentTypeHandshake, append(message(4, 9), update...), 0)); err != nil || o.KeyUpdate() != nil {
		t.Errorf("message and KeyUpdate: %v", err)
	}
	// A fragment where the keys change.
	for _, first := range []byte{24, 4} {
		o = newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		if _, err := openAll(o, newForger(t, suite).record(ContentTypeHandshake, []byte{first, 0}, 0)); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "fragment at KeyUpdate", o.KeyUpdate(), ErrKeyChangeBoundary, AlertUnexpectedMessage)
		wantErr(t, "then", o.KeyUpdate(), ErrKeyChangeBoundary, AlertUnexpectedMessage)
	}
	for _, test := range []struct {
		name     string
		from, to Epoch
		content  []byte
		want     error
	}{
		{"ClientHello", EpochPlaintext, EpochEarly, message(1, 50), nil},
		{"ClientHello", EpochPlaintext, EpochHandshake, message(1, 50), nil},
		{"ServerHello", EpochPlaintext, EpochHandshake, message(2, 50), nil},
		{"EndOfEarlyData", EpochEarly, EpochHandshake, message(5, 0), nil},
		{"Finished", EpochHandshake, EpochApplication, message(20, 32), nil},
		{"flight", EpochHandshake, EpochApplication, append(message(8, 2), message(20, 32)...), nil},
		{"ServerHello and another", EpochPlaintext, EpochHandshake, append(message(2, 50), message(8, 2)...), ErrKeyChangeBoundary},
		{"ServerHello and a byte", EpochPlaintext, EpochHandshake, append(message(2, 50), 8), ErrKeyChangeBoundary},
		{"part of ServerHello", EpochPlaintext, EpochHandshake, message(2, 50)[:53], ErrKeyChangeBoundary},
		{"Finished and a ticket", EpochHandshake, EpochApplication, append(message(20, 32), message(4, 9)...), ErrKeyChangeBoundary},
		{"Finished and a byte", EpochHandshake, EpochApplication, append(message(20, 32), 4), ErrKeyChangeBoundary},
		{"EndOfEarlyData and a byte", EpochEarly, EpochHandshake, append(message(5, 0), 20), ErrKeyChangeBoundary},
		{"no Finished", EpochHandshake, EpochApplication, message(8, 2), ErrKeyChangeBoundary},
		{"no ClientHello", EpochPlaintext, EpochEarly, message(2, 2), ErrKeyChangeBoundary},
	} {
		o, wire := NewOpener(OpenerConfig{}), plain(22, test.content)
		if test.from != EpochPlaintext {
			o = newTestOpener(t, suite, test.from, OpenerConfig{})
			wire = newForger(t, suite).record(ContentTypeHandshake, test.content, 0)
		}
		if _, err := openAll(o, wire); err != nil {
			t.Fatal(err)
		}
		for range 2 { // sticky
			err := o.SetTrafficSecret(test.to, suite, testSecret(suite, 2))
			wantErr(t, fmt.Sprintf("%s, to %v keys", test.name, test.to), err, test.want, AlertUnexpectedMessage)
			if err == nil {
				break
			}
		}
	}
}

// "Upon receiving a KeyUpdate, the receiver MUST update its receiving keys." "both
// sides MUST enforce that a KeyUpdate with the old key is received before accepting
// any messages encrypted with the new key." (RFC 9846, Section 4.7.3)
func TestOpenerKeyUpdate(t *testing.T) {
	suite := aead.AES256GCM()
	f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	wantErr(t, "KeyUpdate without a message", o.KeyUpdate(), ErrNoKeyUpdate, noAlert)
	if _, err := openAll(o, f.record(ContentTypeHandshake, message(4, 9), 0)); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "KeyUpdate behind another message", o.KeyUpdate(), ErrNoKeyUpdate, noAlert)
	for i := range 100 {
		cut := i % 5 // in one record or in two
		update := []byte{24, 0, 0, 1, 0}
		if cut > 0 {
			if _, err := openAll(o, f.record(ContentTypeHandshake, update[:cut], 0)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := openAll(o, f.record(ContentTypeHandshake, update[cut:], 0)); err != nil {
			t.Fatal(err)
		}
		// Until the keys are updated nothing is opened, and nothing is lost.
		old := f.record(ContentTypeApplicationData, []byte("old key"), 0)
		for range 2 {
			in := bytes.Clone(old)
			if _, need, err := o.Open(in); err != ErrKeyUpdatePending || need != 0 || !bytes.Equal(in, old) {
				t.Fatalf("before KeyUpdate: %v", err)
			}
			if _, err := o.Export(nil); err != ErrKeyUpdatePending {
				t.Fatalf("Export before KeyUpdate: %v", err)
			}
		}
		if err := o.KeyUpdate(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "KeyUpdate twice", o.KeyUpdate(), ErrNoKeyUpdate, noAlert)
		f.keyUpdate()
		if o.Seq() != 0 || o.Generation() != uint64(i+1) {
			t.Fatalf("seq %d, generation %d", o.Seq(), o.Generation())
		}
		if out, err := openAll(o, f.record(ContentTypeApplicationData, []byte("new key"), 0)); err != nil || string(out[0].content) != "new key" {
			t.Fatalf("after KeyUpdate: %v", err)
		}
	}
	for _, epoch := range []Epoch{EpochPlaintext, EpochHandshake} {
		o := NewOpener(OpenerConfig{})
		if epoch != EpochPlaintext {
			o = newTestOpener(t, suite, epoch, OpenerConfig{})
		}
		wantErr(t, "KeyUpdate", o.KeyUpdate(), ErrNoKeyUpdate, noAlert)
	}
	// "receiving implementations MUST NOT enforce this rule." (Section 4.7.3, about
	// 2^48-1) "Receiving implementations SHOULD NOT enforce these limits" (Section 5.5)
	suite = aead.AES128GCM()
	o, _, err := ImportOpener(&State{fields: &stateFields{
		opener: true, suite: suite, hidden: hide(testSecret(suite, 1)),
		seq: suite.RecordLimit() + 5, generation: 1<<48 - 1, recordSizeLimit: MaxInnerSize,
	}}, OpenerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f = newForger(t, suite)
	f.seq = suite.RecordLimit() + 5
	if _, err := openAll(o, f.record(ContentTypeHandshake, []byte{24, 0, 0, 1, 0}, 0)); err != nil {
		t.Errorf("above the usage limit: %v", err)
	}
	if err := o.KeyUpdate(); err != nil || o.Generation() != 1<<48 {
		t.Errorf("above the key update cap: %v", err)
	}
}

// TestIdleRecords checks the bounds on records that bring no application data.
// RFC 9846 sets none; peers have settled on these.
func TestIdleRecords(t *testing.T) {
	suite := aead.AES128GCM()
	f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	open := func(typ ContentType, content []byte, padding int) error {
		_, err := openAll(o, f.record(typ, content, padding))
		return err
	}
	kinds := []struct {
		name  string
		bound int
		open  func() error
	}{
		{"empty data", 32, func() error { return open(ContentTypeApplicationData, nil, 0) }},
		{"padding of full size", 32, func() error { return open(ContentTypeApplicationData, nil, MaxContentSize) }},
		{"tickets", 32, func() error { return open(ContentTypeHandshake, message(4, 30), 0) }},
		{"KeyUpdate", 32, func() error {
			if err := open(ContentTypeHandshake, []byte{24, 0, 0, 1, 0}, 0); err != nil {
				return err
			}
			f.keyUpdate()
			return o.KeyUpdate()
		}},
		{"user_canceled", 4, func() error { return open(ContentTypeAlert, []byte{1, 90}, 0) }},
	}
	reset := func() {
		f, o = newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	}
	for _, kind := range kinds {
		reset()
		for round := range 3 { // data in between starts the count again
			for i := range kind.bound {
				if err := kind.open(); err != nil {
					t.Fatalf("%s, record %d of round %d: %v", kind.name, i, round, err)
				}
			}
			if round < 2 {
				if err := open(ContentTypeApplicationData, []byte{0}, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantErr(t, kind.name+": one more", kind.open(), ErrTooManyIdleRecords, AlertUnexpectedMessage)
	}
	// All kinds count together.
	reset()
	var err error
	n := 0
	for ; err == nil; n++ {
		err = kinds[n%4].open()
	}
	if n != 33 || err != ErrTooManyIdleRecords {
		t.Errorf("mixed: record %d: %v", n, err)
	}
	reset()
	for n, err = 0, nil; err == nil; n++ {
		kind := n % 4
		if n%8 == 7 { // four times
			kind = 4
		}
		err = kinds[kind].open()
	}
	if n != 33 || err != ErrTooManyIdleRecords {
		t.Errorf("mixed with user_canceled: record %d: %v", n, err)
	}
	// A long handshake is not idle: fragments of 64 bytes.
	o = newTestOpener(t, suite, EpochHandshake, OpenerConfig{})
	f = newForger(t, suite)
	certificate := message(11, 16000)
	for len(certificate) > 0 {
		k := min(len(certificate), 63)
		if err := open(ContentTypeHandshake, certificate[:k], 0); err != nil {
			t.Fatal(err)
		}
		certificate = certificate[k:]
	}
	for range 2 * maxIdleRecords { // nor are whole messages
		if err := open(ContentTypeHandshake, message(11, 10), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// "Handshake messages MAY be coalesced into a single TLSPlaintext record or
// fragmented across several records" (RFC 9846, Section 5.1), into single bytes if
// the sender likes.
//
// TestFragmentsAreNotIdle counts a message once, however its sender fragments it, and
// every fragment that is mostly padding.
func TestFragmentsAreNotIdle(t *testing.T) {
	suite := aead.AES128GCM()
	for _, test := range []struct {
		name          string
		message       int
		size, padding int
		counted       bool // each fragment, and not each message
	}{
		{"single bytes", 1000, 1, 0, false},
		{"limit 64", defaultMaxMessageSize, MinRecordSizeLimit - 1, 0, false},
		{"limit 512", defaultMaxMessageSize, 511, 0, false},
		{"no limit", defaultMaxMessageSize, MaxContentSize, 0, false},
		{"as much padding as content", defaultMaxMessageSize, 512, 512, false},
		{"a byte and a byte of padding", 1000, 1, 1, false},
		{"more padding than content", defaultMaxMessageSize, 512, 513, true},
		{"a byte and two of padding", 1000, 1, 2, true},
	} {
		ticket := message(typeNewSessionTicket, test.message)
		f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		messages, fragments := 0, 0
		var err error
		for ; err == nil && messages < 100; messages++ {
			for rest := ticket; len(rest) > 0 && err == nil; fragments++ {
				n := min(test.size, len(rest))
				_, err = openAll(o, f.record(ContentTypeHandshake, rest[:n], test.padding))
				rest = rest[n:]
			}
		}
		wantErr(t, test.name, err, ErrTooManyIdleRecords, AlertUnexpectedMessage)
		if n := map[bool]int{false: messages, true: fragments}[test.counted]; n != 33 {
			t.Errorf("%s: %d messages, %d fragments", test.name, messages, fragments)
		}
	}
	// Where one message ends, that another begins is no excuse.
	f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	rest := bytes.Repeat(message(typeNewSessionTicket, 96), 50)
	n := 0
	var err error
	for size := 70; err == nil && len(rest) > size; n++ { // message 1 ends in record 2
		_, err = openAll(o, f.record(ContentTypeHandshake, rest[:size], 0))
		rest, size = rest[size:], 100
	}
	if n != 34 || err != ErrTooManyIdleRecords {
		t.Errorf("record %d: %v", n, err)
	}
}

// "An implementation may receive an unencrypted record of type change_cipher_spec
// consisting of the single byte value 0x01 at any time after the first ClientHello
// message has been sent or received and before the peer's Finished message has been
// received and MUST simply drop it without further processing. [...] An
// implementation which receives any other change_cipher_spec value or which receives
// a protected change_cipher_spec record MUST abort the handshake with an
// "unexpected_message" alert. If an implementation detects a change_cipher_spec
// record received before the first ClientHello message or after the peer's Finished
// message, it MUST be treated as an unexpected record type" (RFC 9846, Section 5)
func TestChangeCipherSpec(t *testing.T) {
	suite := aead.AES128GCM()
	openers := map[Epoch]func() *Opener{
		EpochPlaintext: func() *Opener { return NewOpener(OpenerConfig{}) },
		EpochEarly:     func() *Opener { return newTestOpener(t, suite, EpochEarly, OpenerConfig{}) },
		EpochHandshake: func() *Opener { return newTestOpener(t, suite, EpochHandshake, OpenerConfig{}) },
	}
	for epoch, newOpener := range openers {
		o := newOpener()
		_, _, err := o.Open([]byte{20})
		wantErr(t, epoch.String()+": not allowed yet", err, ErrChangeCipherSpec, AlertUnexpectedMessage)

		for _, wire := range [][]byte{
			plain(20, []byte{0}), plain(20, []byte{2}), plain(20, []byte{255}),
			plain(20, []byte{1, 1}), plain(20, nil), plain(20, []byte{1, 1})[:5], plain(20, nil)[:5],
		} {
			o := newOpener()
			o.AllowChangeCipherSpec(true)
			_, need, err := o.Open(bytes.Clone(wire))
			wantErr(t, fmt.Sprintf("%v: %x", epoch, wire), err, ErrChangeCipherSpec, AlertUnexpectedMessage)
			if need != 0 {
				t.Errorf("%v: %x: %d needed", epoch, wire, need)
			}
		}
		o = newOpener()
		o.AllowChangeCipherSpec(true)
		_, _, err = o.Open([]byte{20, 3, 3, 0xff, 0xff})
		wantErr(t, epoch.String()+": too long", err, ErrRecordOverflow, AlertRecordOverflow)

		// Dropped, the sequence number and the next record as they were; a flood of
		// them is bounded.
		o = newOpener()
		o.AllowChangeCipherSpec(true)
		for i := range 33 {
			rec, need, err := o.Open([]byte{20, 3, 3, 0, 1, 1, 22})
			if i == 32 {
				wantErr(t, epoch.String()+": flood", err, ErrTooManyIdleRecords, AlertUnexpectedMessage)
				break
			}
			if err != nil || need != 0 || !rec.Dropped || rec.Size != 6 || rec.Type != ContentTypeChangeCipherSpec || len(rec.Content) != 0 || o.Seq() != 0 {
				t.Fatalf("%v: %+v, %d, %v", epoch, rec, need, err)
			}
		}
		o = newOpener()
		o.AllowChangeCipherSpec(true)
		o.AllowChangeCipherSpec(false)
		_, _, err = o.Open([]byte{20, 3, 3, 0, 1, 1})
		wantErr(t, epoch.String()+": not allowed any more", err, ErrChangeCipherSpec, AlertUnexpectedMessage)
	}
	// Under application keys it is refused, whatever the caller says and said.
	for _, again := range []bool{false, true} {
		o := newTestOpener(t, suite, EpochHandshake, OpenerConfig{})
		o.AllowChangeCipherSpec(true)
		if err := o.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 2)); err != nil {
			t.Fatal(err)
		}
		if again {
			o.AllowChangeCipherSpec(true)
		}
		_, _, err := o.Open([]byte{20})
		wantErr(t, "under application keys", err, ErrChangeCipherSpec, AlertUnexpectedMessage)
	}
}

// "The server then skips past early data by attempting to deprotect received records
// using the handshake traffic key, discarding records which fail deprotection (up to
// the configured max_early_data_size). Once a record is deprotected successfully, it
// is treated as the start of the client's second flight" (RFC 9846, Section 4.3.10)
func TestSkipEarlyData(t *testing.T) {
	suite := aead.AES128GCM()
	early := newForger(t, suite)
	early.setSecret(testSecret(suite, 9))
	finished := message(20, 32)
	newOpener := func(max int) *Opener {
		o := NewOpener(OpenerConfig{RecordSizeLimit: 64})
		o.AllowChangeCipherSpec(true)
		if _, err := openAll(o, plain(22, message(1, 100))); err != nil {
			t.Fatal(err)
		}
		o.SkipEarlyData(max) // before or after the handshake keys
		if err := o.SetTrafficSecret(EpochHandshake, suite, testSecret(suite, 1)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	var skipped []byte
	sizes := []int{5, 0, 1000, 16384}
	sum := 0
	for _, n := range sizes {
		skipped = append(skipped, early.record(ContentTypeApplicationData, bytes.Repeat([]byte{'c'}, n), 0)...)
		sum += max(1, n)
	}
	skipped = append(skipped, plain(23, nil)...) // shorter than a tag
	skipped = append(skipped, plain(23, zeros(16640))...)
	sum += 1 + 16640 - 17
	flight := func() []byte { return newForger(t, suite).record(ContentTypeHandshake, finished, 0) }
	for _, withCCS := range []bool{false, true} {
		o := newOpener(sum)
		wire := bytes.Clone(skipped)
		if withCCS {
			wire = append([]byte{20, 3, 3, 0, 1, 1}, wire...)
		}
		wire = append(wire, flight()...)
		out, err := openAll(o, wire)
		if err != nil || o.Seq() != 1 {
			t.Fatalf("%v, seq %d", err, o.Seq())
		}
		for i, rec := range out {
			if last := i == len(out)-1; rec.dropped == last || last && !bytes.Equal(rec.content, finished) {
				t.Errorf("record %d: %+v", i, rec)
			}
		}
		// The first record that opens ends it.
		_, err = openAll(o, early.record(ContentTypeApplicationData, nil, 0))
		wantErr(t, "early data behind the second flight", err, ErrBadRecordMAC, AlertBadRecordMAC)
	}
	_, err := openAll(newOpener(sum-1), append(bytes.Clone(skipped), flight()...))
	wantErr(t, "one byte too many", err, ErrTooMuchEarlyData, AlertUnexpectedMessage)
	_, err = openAll(newOpener(0), skipped)
	wantErr(t, "nothing to skip", err, ErrTooMuchEarlyData, AlertUnexpectedMessage)
	// Errors of the header stay errors.
	_, _, err = newOpener(sum).Open([]byte{22})
	wantErr(t, "plaintext record", err, ErrUnexpectedRecordType, AlertUnexpectedMessage)
	_, _, err = newOpener(sum).Open([]byte{23, 3, 3, 0xff, 0xff})
	wantErr(t, "too long", err, ErrRecordOverflow, AlertRecordOverflow)
	// What opens is bound by the record size limit; what is skipped cannot be.
	_, err = openAll(newOpener(sum), newForger(t, suite).record(ContentTypeHandshake, message(11, 100), 0))
	wantErr(t, "record size limit", err, ErrRecordOverflow, AlertRecordOverflow)
	// Nothing of a skipped record reaches dst.
	o := newOpener(sum)
	dst := bytes.Repeat([]byte{0xa5}, 50)
	wire := early.record(ContentTypeApplicationData, []byte("ccccccccc"), 0)
	if rec, _, err := o.OpenTo(dst, wire); err != nil || !rec.Dropped || rec.Content != nil || rec.Size != len(wire) ||
		!bytes.Equal(dst, append(zeros(9), bytes.Repeat([]byte{0xa5}, 41)...)) {
		t.Errorf("%+v, %v, dst %x", rec, err, dst)
	}

	// "The server then ignores early data by skipping all records with an external
	// content type of "application_data" (indicating that they are encrypted), up to
	// the configured max_early_data_size."
	o = NewOpener(OpenerConfig{})
	if _, err := openAll(o, plain(22, message(1, 100))); err != nil {
		t.Fatal(err)
	}
	o.SkipEarlyData(sum)
	out, err := openAll(o, append(bytes.Clone(skipped), plain(22, message(1, 120))...))
	if err != nil || len(out) != len(sizes)+3 || len(out[len(out)-1].content) != 124 {
		t.Errorf("after a HelloRetryRequest: %d records, %v", len(out), err)
	}
	for i, rec := range out {
		if last := i == len(out)-1; rec.dropped == last {
			t.Errorf("after a HelloRetryRequest: record %d: %+v", i, rec)
		}
	}
	_, _, err = o.Open([]byte{23})
	wantErr(t, "early data behind the second ClientHello", err, ErrUnexpectedRecordType, AlertUnexpectedMessage)
	o = NewOpener(OpenerConfig{})
	o.SkipEarlyData(sum - (16640 - 17) + 1) // all but the last one, and one byte
	out, err = openAll(o, skipped[:len(skipped)-HeaderSize-16640])
	if err != nil || o.skip != 1 {
		t.Errorf("before the last one: %d records, %v, %d may follow", len(out), err, o.skip)
	}
	rec, _, err := o.Open(plain(23, zeros(18)))
	if err != nil || !rec.Dropped {
		t.Errorf("one byte: %+v, %v", rec, err)
	}
	rec, _, err = o.Open(plain(23, nil))
	wantErr(t, "one byte too many without keys", err, ErrTooMuchEarlyData, AlertUnexpectedMessage)
	if rec.Type != 0 || rec.Size != 0 || rec.Dropped {
		t.Errorf("a record beside the error: %+v", rec)
	}
	// Under other keys there is nothing to skip.
	for _, epoch := range []Epoch{EpochEarly, EpochApplication} {
		o := newTestOpener(t, suite, epoch, OpenerConfig{})
		o.SkipEarlyData(1000)
		_, err := openAll(o, early.record(ContentTypeApplicationData, nil, 0))
		wantErr(t, epoch.String(), err, ErrBadRecordMAC, AlertBadRecordMAC)
	}
	o = newOpener(1000)
	if err := o.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 3)); err != nil {
		t.Fatal(err)
	}
	_, err = openAll(o, early.record(ContentTypeApplicationData, nil, 0))
	wantErr(t, "application keys afterwards", err, ErrBadRecordMAC, AlertBadRecordMAC)
	if recovered(func() { o.SkipEarlyData(-1) }) == nil {
		t.Error("negative bound: no panic")
	}
}

// "If the maximum fragment length is reduced -- as for example by the
// record_size_limit extension from [RFC 8449] -- then the reduced limit applies to
// the full plaintext, including the content type and padding." (RFC 9846, Section
// 5.4) RFC 8449, Section 4: "Unprotected messages are not subject to this limit."
func TestOpenerRecordSizeLimit(t *testing.T) {
	suite := aead.AES128GCM()
	for _, limit := range []int{64, 65, 1000, 16384, 16385, 20000} {
		most := min(limit, MaxInnerSize)
		for _, padding := range []int{0, 1, 50} {
			o := NewOpener(OpenerConfig{})
			if err := o.SetTrafficSecret(EpochApplication, suite, testSecret(suite, 1)); err != nil {
				t.Fatal(err)
			}
			if err := o.SetRecordSizeLimit(limit); err != nil {
				t.Fatal(err)
			}
			f := newForger(t, suite)
			content := bytes.Repeat([]byte{'c'}, most-1-padding)
			if _, err := openAll(o, f.record(ContentTypeApplicationData, content, padding)); err != nil {
				t.Errorf("limit %d, padding %d: %v", limit, padding, err)
			}
			_, err := openAll(o, f.record(ContentTypeApplicationData, content, padding+1))
			wantErr(t, fmt.Sprintf("limit %d, padding %d", limit, padding+1), err, ErrRecordOverflow, AlertRecordOverflow)
		}
	}
	wantErr(t, "63", NewOpener(OpenerConfig{}).SetRecordSizeLimit(63), ErrRecordSizeLimit, AlertIllegalParameter)
	// Not without keys, and not for early data.
	if _, err := openAll(NewOpener(OpenerConfig{RecordSizeLimit: 64}), plain(22, message(1, 1000))); err != nil {
		t.Errorf("without keys: %v", err)
	}
	o := newTestOpener(t, suite, EpochEarly, OpenerConfig{RecordSizeLimit: 64})
	if _, err := openAll(o, newForger(t, suite).record(ContentTypeApplicationData, zeros(1000), 0)); err != nil {
		t.Errorf("early data: %v", err)
	}
}

// "Any data received after a closure alert has been received MUST be ignored." (RFC
// 9846, Section 6.1) "Upon receiving an error alert, the TLS implementation [...]
// MUST NOT allow any further data to be sent or received on the connection." (Section
// 6) "All the alerts listed in [Section 6.2] MUST be [...] treated as error alerts
// when received regardless of the AlertLevel in the message. Unknown Alert types MUST
// be treated as error alerts." (Section 6)
func TestReceivedAlerts(t *testing.T) {
	suite := aead.AES128GCM()
	for a := range 256 {
		for _, level := range []byte{1, 2, 0, 255} {
			f, o := newForger(t, suite), newTestOpener(t, suite, EpochApplication, OpenerConfig{})
			out, err := openAll(o, f.record(ContentTypeAlert, []byte{level, byte(a)}, a))
			if err != nil || len(out) != 1 || out[0].typ != ContentTypeAlert {
				t.Fatalf("alert %d: %v, %v", a, out, err)
			}
			alert, err := ParseAlert(out[0].content)
			if err != nil || alert != Alert(a) {
				t.Fatalf("alert %d: parsed %v, %v", a, alert, err)
			}
			_, err = openAll(o, f.record(ContentTypeApplicationData, []byte("x"), 0))
			want := ErrClosed
			if alert == AlertUserCanceled {
				want = nil
			}
			if err != want || (o.keys == nil) != (want != nil) {
				t.Errorf("%v with level %d: then %v", alert, level, err)
			}
		}
	}
}

// panicGatherer opens and then panics, with all of the plaintext written.
type panicGatherer struct {
	aead.Gatherer
	panicNow *bool
}

func (g panicGatherer) OpenSplit(prefix, nonce, buf, ad []byte) error {
	err := g.Gatherer.OpenSplit(prefix, nonce, buf, ad)
	if *g.panicNow {
		panic("AEAD")
	}
	return err
}

// TestOpenPanics injects panics into the AEAD: nothing unverified stays behind,
// neither in dst nor in the record.
func TestOpenPanics(t *testing.T) {
	var panicNow bool
	suite := aead.NewSuite(aead.SuiteParams{
		ID: 0xfe03, Name: "TEST", KeySize: 16, TagSize: 16, Hash: aead.AES128GCM().Hash(), RecordLimit: 1 << 20,
		New: func(key []byte) (cipher.AEAD, error) {
			g, err := aead.AES128GCM().New(key)
			return panicGatherer{g, &panicNow}, err
		},
	})
	s := newTestSealer(t, suite, EpochApplication, SealerConfig{})
	content := []byte("cccccccccccccc")
	wire := mustSeal(t)(s.Seal(nil, ContentTypeApplicationData, content))
	for _, dstSize := range []int{0, 5, 14, 100} {
		o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
		in, dst := bytes.Clone(wire), bytes.Repeat([]byte{0xa5}, dstSize)
		panicNow = true
		if p := recovered(func() { o.OpenTo(dst, in) }); p != "AEAD" {
			t.Fatalf("panic %v", p)
		}
		panicNow = false
		want := append(zeros(min(dstSize, len(content))), bytes.Repeat([]byte{0xa5}, max(0, dstSize-len(content)))...)
		if !bytes.Equal(dst, want) || !bytes.Equal(in, append(bytes.Clone(wire[:HeaderSize]), zeros(len(wire)-HeaderSize)...)) {
			t.Errorf("dst of %d bytes: left behind %x and %x", dstSize, dst, in)
		}
		for range 2 {
			if _, _, err := o.Open(bytes.Clone(wire)); err != ErrInterrupted {
				t.Errorf("after the panic: %v", err)
			}
		}
	}
}

// TestEarliestErrors gives the Opener the fewest bytes that prove an error, and one
// byte less.
func TestEarliestErrors(t *testing.T) {
	suite := aead.AES128GCM()
	for _, test := range []struct {
		epoch Epoch
		in    []byte
		want  error
		alert Alert
	}{
		{EpochPlaintext, []byte{23}, ErrUnexpectedRecordType, AlertUnexpectedMessage},
		{EpochPlaintext, []byte{22, 3, 3, 0x41}, ErrRecordOverflow, AlertRecordOverflow},
		{EpochPlaintext, []byte{22, 3, 3, 0x40, 1}, ErrRecordOverflow, AlertRecordOverflow},
		{EpochPlaintext, []byte{22, 3, 3, 0, 0}, ErrEmptyFragment, AlertUnexpectedMessage},
		{EpochPlaintext, []byte{21, 3, 3, 0, 3}, ErrAlertSize, AlertUnexpectedMessage},
		{EpochApplication, []byte{20}, ErrChangeCipherSpec, AlertUnexpectedMessage},
		{EpochApplication, []byte{21}, ErrUnexpectedRecordType, AlertUnexpectedMessage},
		{EpochApplication, []byte{23, 3, 3, 0x42}, ErrRecordOverflow, AlertRecordOverflow},
		{EpochApplication, []byte{23, 3, 3, 0x41, 1}, ErrRecordOverflow, AlertRecordOverflow},
		{EpochApplication, []byte{23, 3, 3, 0, 15}, ErrBadRecordMAC, AlertBadRecordMAC},
	} {
		o := NewOpener(OpenerConfig{})
		if test.epoch != EpochPlaintext {
			o = newTestOpener(t, suite, test.epoch, OpenerConfig{})
		}
		n := len(test.in)
		if _, need, err := o.Open(test.in[:n-1]); err != nil || need != HeaderSize-(n-1) {
			t.Errorf("%x: %d needed, %v", test.in[:n-1], need, err)
		}
		_, need, err := o.Open(test.in)
		wantErr(t, fmt.Sprintf("%v: %x", test.epoch, test.in), err, test.want, test.alert)
		if need != 0 {
			t.Errorf("%x: %d needed", test.in, need)
		}
	}
	// One byte more would not be an error.
	for _, in := range [][]byte{{22, 3, 3, 0x40, 0}, {22, 3, 3, 0, 1}, {21, 3, 3, 0, 2}} {
		if _, need, err := NewOpener(OpenerConfig{}).Open(in); err != nil || need != int(in[3])<<8+int(in[4]) {
			t.Errorf("%x: %d needed, %v", in, need, err)
		}
	}
}

func TestOpenerWipe(t *testing.T) {
	suite := aead.AES128GCM()
	o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	secret, protector := o.keys.secret(), o.keys.protector
	for range 2 {
		o.Wipe()
		if _, _, err := o.Open([]byte{23}); err != ErrClosed {
			t.Errorf("after Wipe: %v", err)
		}
	}
	if recovered(func() { protector.OpenSplit(nil, make([]byte, 17), header(23, versionTLS12, 17)) }) == nil {
		t.Error("Wipe left the keys")
	}
	if !bytes.Equal(secret, zeros(len(secret))) || o.keys != nil || o.Suite() != nil {
		t.Error("Wipe left something")
	}
	// So does an error, and a key update wipes what it replaces.
	f := newForger(t, suite)
	o = newTestOpener(t, suite, EpochApplication, OpenerConfig{})
	secret = o.keys.secret()
	if _, err := openAll(o, f.record(ContentTypeHandshake, []byte{24, 0, 0, 1, 0}, 0)); err != nil || o.KeyUpdate() != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(secret, zeros(len(secret))) {
		t.Error("the old traffic secret is still there")
	}
	secret = o.keys.secret()
	if _, err := openAll(o, plain(23, zeros(30))); err != ErrBadRecordMAC {
		t.Fatal(err)
	}
	if !bytes.Equal(secret, zeros(len(secret))) || o.Generation() != 1 || o.Seq() != 0 {
		t.Error("the traffic secret is still there after an error")
	}
}

// TestOpenToOverlap lets dst begin at every place around a record, in memory that
// both share: a panic before anything is written if content would land in the
// record, its header included, and the content otherwise.
func TestOpenToOverlap(t *testing.T) {
	suite := aead.AES128GCM()
	content := []byte("some content")
	f := newForger(t, suite)
	record := f.record(ContentTypeApplicationData, content, 3)
	inner := len(content) + 1 + 3
	const at = 100
	for size := range 2 * inner {
		for from := range 2 * at {
			memory := make([]byte, 3*at)
			copy(memory[at:], record)
			before := bytes.Clone(memory)
			in, dst := memory[at:at+len(record)], memory[from:from+size]
			o := newTestOpener(t, suite, EpochApplication, OpenerConfig{})
			written := min(size, inner-1)
			overlap := written > 0 && from < at+len(record) && at < from+written
			var rec Record
			var err error
			p := recovered(func() { rec, _, err = o.OpenTo(dst, in) })
			switch {
			case (p == overlapText) != overlap || !overlap && p != nil:
				t.Fatalf("%d bytes from %d: panic %v", size, from-at, p)
			case overlap && !bytes.Equal(memory, before):
				t.Fatalf("%d bytes from %d: written before the panic", size, from-at)
			case !overlap && (err != nil || string(rec.Content)+string(rec.Rest) != string(content)):
				t.Fatalf("%d bytes from %d: %q, %q, %v", size, from-at, rec.Content, rec.Rest, err)
			}
		}
	}
}
