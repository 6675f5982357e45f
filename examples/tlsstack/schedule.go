package main

import (
	"crypto"
	"crypto/hkdf"
	"crypto/hmac"

	"example.com/splitseal/aead"
)

// schedule is the key schedule of RFC 9846, Section 7.1, without a pre-shared
// key. The record layer goes on from the traffic secrets: it derives write keys
// and write IVs from them, and the secrets of later generations.
//
//	            0
//	            |
//	  0 --> Extract = Early Secret
//	            |
//	     Derive-Secret(., "derived", "")
//	            |
//	ECDHE --> Extract = Handshake Secret
//	            +--> [sender]_handshake_traffic_secret
//	     Derive-Secret(., "derived", "")
//	            |
//	  0 --> Extract = Main Secret
//	            +--> [sender]_application_traffic_secret_0
type schedule struct {
	hash   crypto.Hash // of the suite
	secret []byte      // the Early Secret, then the Handshake Secret
}

// secrets are the traffic secrets of one epoch.
type secrets struct {
	client, server []byte
}

// newSchedule returns a schedule that holds the Early Secret.
func newSchedule(suite *aead.Suite) (*schedule, error) {
	s := &schedule{hash: suite.Hash()}
	zeros := make([]byte, s.hash.Size())
	var err error
	s.secret, err = hkdf.Extract(s.hash.New, zeros, nil)
	return s, err
}

// handshakeSecrets mixes the ECDHE shared secret in and returns the handshake
// traffic secrets. The transcript is ClientHello...ServerHello.
func (s *schedule) handshakeSecrets(shared, transcript []byte) (secrets, error) {
	return s.next(shared, "hs traffic", transcript)
}

// applicationSecrets returns the first application traffic secrets. The
// transcript is ClientHello...server Finished.
func (s *schedule) applicationSecrets(transcript []byte) (secrets, error) {
	return s.next(make([]byte, s.hash.Size()), "ap traffic", transcript)
}

// next moves one row down the schedule. The secret that it leaves and ikm are
// overwritten: "Once all the values which are to be derived from a given secret
// have been computed, that secret SHOULD be erased."
func (s *schedule) next(ikm []byte, label string, transcript []byte) (t secrets, err error) {
	salt, err := deriveSecret(s.hash, s.secret, "derived", nil)
	if err != nil {
		return t, err
	}
	secret, err := hkdf.Extract(s.hash.New, ikm, salt)
	if err != nil {
		return t, err
	}
	clear(s.secret)
	clear(ikm)
	s.secret = secret
	if t.client, err = deriveSecret(s.hash, secret, "c "+label, transcript); err == nil {
		t.server, err = deriveSecret(s.hash, secret, "s "+label, transcript)
	}
	return t, err
}

// wipe overwrites the last secret.
func (s *schedule) wipe() { clear(s.secret) }

// deriveSecret is Derive-Secret of RFC 9846, Section 7.1. The messages are given
// one after the other.
func deriveSecret(h crypto.Hash, secret []byte, label string, messages []byte) ([]byte, error) {
	return aead.ExpandLabel(h, secret, label, transcriptHash(h, messages), h.Size())
}

// verifyData returns what a Finished message holds after the messages of the
// transcript, if its sender has the given handshake traffic secret.
//
// See RFC 9846, Section 4.5.3.
func verifyData(h crypto.Hash, trafficSecret, transcript []byte) ([]byte, error) {
	key, err := aead.ExpandLabel(h, trafficSecret, "finished", nil, h.Size())
	if err != nil {
		return nil, err
	}
	mac := hmac.New(h.New, key)
	mac.Write(transcriptHash(h, transcript))
	return mac.Sum(nil), nil
}

// transcriptHash is Transcript-Hash of RFC 9846, Section 4.1.
func transcriptHash(h crypto.Hash, messages []byte) []byte {
	d := h.New()
	d.Write(messages)
	return d.Sum(nil)
}

// messageHash returns the message that stands for the first ClientHello in the
// transcript once a HelloRetryRequest has answered it:
//
// "the value of ClientHello1 is replaced with a special synthetic handshake
// message of handshake type "message_hash" (254) containing Hash(ClientHello1)."
// (RFC 9846, Section 4.1)
func messageHash(h crypto.Hash, clientHello []byte) []byte {
	return append([]byte{typeMessageHash, 0, 0, byte(h.Size())}, transcriptHash(h, clientHello)...)
}
