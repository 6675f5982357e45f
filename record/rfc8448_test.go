package record

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// rfc8448Vectors says in its comments where it comes from, and under which licence.
//
//go:embed testdata/rfc8448.vec
var rfc8448Vectors []byte

const rfc8448VectorsSHA256 = "102ea7750c63922b94d15ac95e0a4c52cce00d48c9223c21a46d51b17e1b866f"

type trace struct {
	name   string
	fields map[string][]byte
}

func rfc8448Traces(t testing.TB) []trace {
	t.Helper()
	if sum := fmt.Sprintf("%x", sha256.Sum256(rfc8448Vectors)); sum != rfc8448VectorsSHA256 {
		t.Fatalf("testdata/rfc8448.vec has SHA-256 %s, want %s", sum, rfc8448VectorsSHA256)
	}
	var traces []trace
	for line := range strings.Lines(string(rfc8448Vectors)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			traces = append(traces, trace{strings.Trim(line, "[]"), make(map[string][]byte)})
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		if !ok {
			t.Fatalf("bad line %q", line)
		}
		b, err := hex.DecodeString(value)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		traces[len(traces)-1].fields[key] = b
	}
	if len(traces) != 7 {
		t.Fatalf("%d traces, want 7", len(traces))
	}
	return traces
}

// sharedSecret finds the (EC)DHE secret: the key pools hold the private keys of
// both sides among other randomness, and the hellos hold the public keys.
func (tr trace) sharedSecret(t testing.TB) []byte {
	t.Helper()
	clientHello := tr.fields["Record_ClientHello_2"]
	if clientHello == nil {
		clientHello = tr.fields["Record_ClientHello_1"]
	}
	for _, curve := range []ecdh.Curve{ecdh.X25519(), ecdh.P256()} {
		find := func(pool, hello []byte) *ecdh.PrivateKey {
			for i := 0; i+32 <= len(pool); i++ {
				if k, err := curve.NewPrivateKey(pool[i : i+32]); err == nil && bytes.Contains(hello, k.PublicKey().Bytes()) {
					return k
				}
			}
			return nil
		}
		client := find(tr.fields["Client_RNG_Pool"], clientHello)
		server := find(tr.fields["Server_RNG_Pool"], tr.fields["Record_ServerHello"])
		if client != nil && server != nil {
			secret, err := client.ECDH(server.PublicKey())
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
	}
	t.Fatal("no key pair found")
	return nil
}

// schedule is the key schedule of RFC 9846, Section 7.1, for SHA-256.
type schedule struct {
	t          testing.TB
	secret     []byte
	transcript []byte
}

func (s *schedule) extract(ikm []byte) {
	if s.secret != nil {
		s.secret = s.derive("derived", nil)
	}
	var err error
	if s.secret, err = hkdf.Extract(sha256.New, ikm, s.secret); err != nil {
		s.t.Fatal(err)
	}
}

func (s *schedule) derive(label string, transcript []byte) []byte {
	h := sha256.Sum256(transcript)
	return expand(s.t, s.secret, label, h[:])
}

// verifyFinished checks a Finished message against the transcript before it,
// which shows that the transcript is right (RFC 9846, Section 4.5.3).
func (s *schedule) verifyFinished(secret, msg []byte) {
	s.t.Helper()
	h := sha256.Sum256(s.transcript)
	mac := hmac.New(sha256.New, expand(s.t, secret, "finished", nil))
	mac.Write(h[:])
	if got := mac.Sum([]byte{20, 0, 0, sha256.Size}); !bytes.Equal(got, msg) {
		s.t.Errorf("Finished is %x, want %x", got, msg)
	}
}

func expand(t testing.TB, secret []byte, label string, context []byte) []byte {
	out, err := aead.ExpandLabel(crypto.SHA256, secret, label, context, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// replay opens the records of one direction and seals what they held again.
type replay struct {
	t        *testing.T
	name     string
	opener   *Opener
	sealer   *Sealer
	messages *HandshakeReader
}

func newReplay(t *testing.T, name string) *replay {
	return &replay{t, name, NewOpener(OpenerConfig{}), NewSealer(SealerConfig{}), NewHandshakeReader(1 << 16)}
}

func (r *replay) setSecret(epoch Epoch, secret []byte) {
	r.t.Helper()
	if !r.messages.Empty() {
		r.t.Fatalf("%s: handshake message spans a key change", r.name)
	}
	if err := r.opener.SetTrafficSecret(epoch, aead.AES128GCM(), secret); err != nil {
		r.t.Fatalf("%s: opener: %v", r.name, err)
	}
	if err := r.sealer.SetTrafficSecret(epoch, aead.AES128GCM(), secret); err != nil {
		r.t.Fatalf("%s: sealer: %v", r.name, err)
	}
}

// records returns the handshake messages and the application data in wire, and
// fails if sealing them again does not give wire.
func (r *replay) records(field string, wire []byte) (messages, data []byte) {
	r.t.Helper()
	if len(wire) == 0 {
		r.t.Fatalf("%s: no records", field)
	}
	var again []byte
	in := bytes.Clone(wire)
	for len(in) > 0 {
		rec, need, err := r.opener.OpenTo(make([]byte, MaxContentSize), in)
		if err != nil || need > 0 {
			r.t.Fatalf("%s: %v, %d bytes needed", field, err, need)
		}
		in = in[rec.Size:]
		var sealErr error
		switch {
		case rec.Dropped:
			again, sealErr = r.sealer.SealChangeCipherSpec(again)
		case rec.Type == ContentTypeAlert:
			a, err := ParseAlert(rec.Content)
			if err != nil || a != AlertCloseNotify {
				r.t.Fatalf("%s: alert %v, %v", field, a, err)
			}
			again, sealErr = r.sealer.SealAlert(again, a)
		case rec.Type == ContentTypeHandshake:
			messages = append(messages, rec.Content...)
			if err := r.messages.Append(rec.Content); err != nil {
				r.t.Fatal(err)
			}
			for {
				if m, err := r.messages.Next(); err != nil {
					r.t.Fatal(err)
				} else if m == nil {
					break
				}
			}
			again, sealErr = r.sealer.Seal(again, rec.Type, rec.Content)
		default:
			data = append(data, rec.Content...)
			// In two pieces, as the module is meant to be used.
			half := len(rec.Content) / 2
			again, sealErr = r.sealer.SealGather(again, rec.Type, [][]byte{rec.Content[:half], rec.Content[half:]})
		}
		if sealErr != nil {
			r.t.Fatalf("%s: sealing: %v", field, sealErr)
		}
	}
	if !bytes.Equal(again, wire) {
		r.t.Errorf("%s: sealed %x, want %x", field, again, wire)
	}
	return messages, data
}

func (r *replay) wantData(field string, wire, want []byte) {
	r.t.Helper()
	if wire == nil {
		return
	}
	if _, data := r.records(field, wire); !bytes.Equal(data, want) {
		r.t.Errorf("%s: opened %x, want %x", field, data, want)
	}
}

// TestRFC8448 opens every record of every trace, in both directions, and seals
// its content to the same bytes again, each side under the secrets that the key
// schedule derives from the private keys in the traces.
func TestRFC8448(t *testing.T) {
	var resumption []byte // the PSK of the ticket in the first trace
	for _, tr := range rfc8448Traces(t) {
		f := tr.fields
		t.Run(tr.name, func(t *testing.T) {
			client, server := newReplay(t, "client"), newReplay(t, "server")
			client.opener.AllowChangeCipherSpec(false)
			s := &schedule{t: t}
			psk := f["PskSecret"]
			if tr.name == "Resumed_0RTT_Handshake" {
				psk = resumption
			}
			if psk == nil {
				psk = make([]byte, sha256.Size)
			}
			s.extract(psk)

			hello, _ := client.records("Record_ClientHello_1", f["Record_ClientHello_1"])
			s.transcript = append(s.transcript, hello...)
			client.opener.AllowChangeCipherSpec(true)
			server.opener.AllowChangeCipherSpec(true)
			if early := f["Record_Client_EarlyAppData"]; early != nil {
				client.setSecret(EpochEarly, s.derive("c e traffic", s.transcript))
				client.wantData("Record_Client_EarlyAppData", early, f["Client_EarlyAppData"])
			}
			if retry := f["Record_HelloRetryRequest"]; retry != nil {
				// "the value of ClientHello1 is replaced with a special synthetic
				// handshake message" (RFC 9846, Section 4.1)
				h := sha256.Sum256(s.transcript)
				s.transcript = append([]byte{254, 0, 0, sha256.Size}, h[:]...)
				m, _ := server.records("Record_HelloRetryRequest", retry)
				s.transcript = append(s.transcript, m...)
				m, _ = client.records("Record_ClientHello_2", f["Record_ClientHello_2"])
				s.transcript = append(s.transcript, m...)
			}
			serverHello, _ := server.records("Record_ServerHello", f["Record_ServerHello"])
			if !bytes.Equal(serverHello, f["Message_ServerHello"]) {
				t.Errorf("ServerHello is %x", serverHello)
			}
			s.transcript = append(s.transcript, serverHello...)
			s.extract(tr.sharedSecret(t))
			clientHandshake := s.derive("c hs traffic", s.transcript)
			serverHandshake := s.derive("s hs traffic", s.transcript)
			server.setSecret(EpochHandshake, serverHandshake)

			m, _ := server.records("Record_ServerHandshakeMessages", f["Record_ServerHandshakeMessages"])
			var want []byte
			for _, name := range []string{"EncryptedExtensions", "CertificateRequest", "Server_Certificate",
				"Server_CertificateVerify", "Server_Finished"} {
				if name == "Server_Finished" {
					s.verifyFinished(serverHandshake, f["Message_"+name])
				}
				s.transcript = append(s.transcript, f["Message_"+name]...)
				want = append(want, f["Message_"+name]...)
			}
			if !bytes.Equal(m, want) {
				t.Errorf("the server's flight is %x, want %x", m, want)
			}
			s.extract(make([]byte, sha256.Size))
			clientSecret := s.derive("c ap traffic", s.transcript)
			serverSecret := s.derive("s ap traffic", s.transcript)
			server.setSecret(EpochApplication, serverSecret)
			if tr.name == "Simple_1RTT_Handshake" {
				// As printed in RFC 8448, Section 3.
				if got := hex.EncodeToString(clientSecret); got != "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5" {
					t.Errorf("client_application_traffic_secret_0 = %s", got)
				}
				if got := hex.EncodeToString(serverSecret); got != "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643" {
					t.Errorf("server_application_traffic_secret_0 = %s", got)
				}
			}

			finished := f["Record_ClientFinished"]
			if client.opener.Epoch() == EpochEarly {
				end := HeaderSize + int(finished[3])<<8 + int(finished[4])
				m, _ := client.records("EndOfEarlyData", finished[:end])
				s.transcript = append(s.transcript, m...)
				finished = finished[end:]
			}
			client.setSecret(EpochHandshake, clientHandshake)
			m, _ = client.records("Record_ClientFinished", finished)
			s.transcript = append(s.transcript, m...)
			client.setSecret(EpochApplication, clientSecret)

			if ticket := f["Record_NewSessionTicket"]; ticket != nil {
				m, _ := server.records("Record_NewSessionTicket", ticket)
				nonce := m[12:][1 : 1+m[12]]
				resumption = expand(t, s.derive("res master", s.transcript), "resumption", nonce)
			}
			client.wantData("Record_Client_AppData", f["Record_Client_AppData"], f["Client_AppData"])
			server.wantData("Record_Server_AppData", f["Record_Server_AppData"], f["Server_AppData"])
			client.records("Record_Client_CloseNotify", f["Record_Client_CloseNotify"])
			server.records("Record_Server_CloseNotify", f["Record_Server_CloseNotify"])
			for _, r := range []*replay{client, server} {
				if _, _, err := r.opener.Open(nil); err != ErrClosed {
					t.Errorf("%s: after close_notify Open returns %v", r.name, err)
				}
				if _, err := r.sealer.Seal(nil, ContentTypeApplicationData, nil); err != ErrClosed {
					t.Errorf("%s: after close_notify Seal returns %v", r.name, err)
				}
			}
		})
	}
}
