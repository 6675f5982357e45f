package main

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"example.com/splitseal/aead"
)

// rfc8448 returns the messages and records of one trace of RFC 8448. The file
// belongs to package record, whose tests check its sum.
func rfc8448(t testing.TB, name string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../../record/testdata/rfc8448.vec")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "["+name+"]\n")
	if !ok {
		t.Fatalf("no trace %s", name)
	}
	section, _, _ = strings.Cut(section, "\n[")
	fields := make(map[string][]byte)
	for line := range strings.Lines(section) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			fields[key] = unhex(t, value)
		}
	}
	return fields
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRFC8448 compares the key schedule with the secrets in two traces of RFC
// 8448, those of Section 3 and, with a HelloRetryRequest, of Section 5, and checks
// the server's signature and Finished in them.
func TestRFC8448(t *testing.T) {
	for _, test := range []struct {
		trace  string
		shared string
		early  string
		want   map[string]string
	}{
		{
			trace:  "Simple_1RTT_Handshake",
			shared: "8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d",
			early:  "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a",
			want: map[string]string{
				"c hs": "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
				"s hs": "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
				"c ap": "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
				"s ap": "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
			},
		},
		{
			trace:  "HelloRetryRequest_Handshake",
			shared: "c142ce13ca11b5c2233652e63ad3d97844f1621fbfb9de69d547dc8fedeabeb4",
			early:  "33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a",
		},
	} {
		t.Run(test.trace, func(t *testing.T) {
			f := rfc8448(t, test.trace)
			transcript := bytes.Clone(f["Record_ClientHello_1"][5:])
			if retry := f["Record_HelloRetryRequest"]; retry != nil {
				transcript = messageHash(crypto.SHA256, transcript)
				transcript = append(transcript, retry[5:]...)
				transcript = append(transcript, f["Record_ClientHello_2"][5:]...)
			}
			transcript = append(transcript, f["Message_ServerHello"]...)

			s, err := newSchedule(aead.AES128GCM())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(s.secret, unhex(t, test.early)) {
				t.Errorf("Early Secret %x", s.secret)
			}
			early, shared := s.secret, unhex(t, test.shared)
			handshake, err := s.handshakeSecrets(shared, transcript)
			if err != nil {
				t.Fatal(err)
			}
			// "Once all the values which are to be derived from a given secret have been
			// computed, that secret SHOULD be erased." (RFC 9846, Section 7.1)
			if zeros := make([]byte, 32); !bytes.Equal(early, zeros) || !bytes.Equal(shared, zeros) {
				t.Error("secrets are not overwritten")
			}
			transcript = append(transcript, f["Message_EncryptedExtensions"]...)
			transcript = append(transcript, f["Message_Server_Certificate"]...)
			chain, err := parseCertificate(message(f["Message_Server_Certificate"]).body(), nil)
			if err != nil {
				t.Fatal(err)
			}
			cert, err := x509.ParseCertificate(chain[0])
			if err != nil {
				t.Fatal(err)
			}
			verify := f["Message_Server_CertificateVerify"]
			id, signature, err := parseCertificateVerify(message(verify).body())
			if err != nil || id != rsaPSS.id || !rsaPSS.fits(cert.PublicKey) {
				t.Fatal(id, err)
			}
			if !rsaPSS.verify(cert.PublicKey, signedContent(crypto.SHA256, transcript), signature) {
				t.Error("the signature does not verify")
			}
			transcript = append(transcript, verify...)

			finished := f["Message_Server_Finished"]
			data, err := verifyData(crypto.SHA256, handshake.server, transcript)
			if err != nil || !bytes.Equal(data, message(finished).body()) {
				t.Errorf("verify_data %x, %v", data, err)
			}
			transcript = append(transcript, finished...)
			application, err := s.applicationSecrets(transcript)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]byte{"c hs": handshake.client, "s hs": handshake.server, "c ap": application.client, "s ap": application.server}
			for name, want := range test.want {
				if !bytes.Equal(got[name], unhex(t, want)) {
					t.Errorf("%s traffic secret %x", name, got[name])
				}
			}
		})
	}
}
