package record_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// A traffic secret comes from the handshake's key schedule. This one is made up.
var exampleSecret = sha256.Sum256([]byte("client_application_traffic_secret_0"))

func newPair() (*record.Sealer, *record.Opener) {
	s := record.NewSealer(record.SealerConfig{})
	o := record.NewOpener(record.OpenerConfig{})
	if err := errors.Join(
		s.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), exampleSecret[:]),
		o.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), exampleSecret[:]),
	); err != nil {
		panic(err)
	}
	return s, o
}

func ExampleSealer_Seal() {
	sealer := record.NewSealer(record.SealerConfig{})
	err := sealer.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), exampleSecret[:])
	if err != nil {
		panic(err)
	}
	wire, err := sealer.Seal(nil, record.ContentTypeApplicationData, []byte("hello"))
	if err != nil {
		panic(err)
	}
	fmt.Printf("header %x, %d bytes in all, next sequence number %d\n", wire[:record.HeaderSize], len(wire), sealer.Seq())
	// Output: header 1703030016, 27 bytes in all, next sequence number 1
}

// Content that is already where the record will hold it is sealed in place.
func ExampleSealer_Seal_inPlace() {
	sealer, _ := newPair()
	buf := make([]byte, sealer.MaxSealedSize())
	content := buf[record.HeaderSize:]
	n := copy(content, "written by a producer")
	wire, err := sealer.Seal(buf[:0], record.ContentTypeApplicationData, content[:n])
	if err != nil {
		panic(err)
	}
	fmt.Println(len(wire), &wire[0] == &buf[0])
	// Output: 43 true
}

// The pieces of a message are sealed from where they are.
func ExampleSealer_SealGather() {
	sealer, opener := newPair()
	header, payload := []byte("length=7;"), []byte("payload")
	wire, err := sealer.SealGather(nil, record.ContentTypeApplicationData, [][]byte{header, payload})
	if err != nil {
		panic(err)
	}
	rec, _, err := opener.Open(wire)
	fmt.Printf("%s %q %v\n", rec.Type, rec.Content, err)
	// Output: application_data "length=7;payload" <nil>
}

// A padding policy hides the size of content.
func ExampleSealerConfig_padding() {
	sealer := record.NewSealer(record.SealerConfig{Padding: record.PadToMultiple(256)})
	if err := sealer.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), exampleSecret[:]); err != nil {
		panic(err)
	}
	for _, content := range []string{"", "yes", "a longer answer"} {
		wire, err := sealer.Seal(nil, record.ContentTypeApplicationData, []byte(content))
		if err != nil {
			panic(err)
		}
		fmt.Println(len(wire))
	}
	// Output:
	// 277
	// 277
	// 277
}

// Bytes come from a transport in chunks that do not match records.
func ExampleOpener_Open() {
	sealer, opener := newPair()
	var wire []byte
	for _, s := range []string{"one", "two"} {
		var err error
		if wire, err = sealer.Seal(wire, record.ContentTypeApplicationData, []byte(s)); err != nil {
			panic(err)
		}
	}
	transport := bytes.NewReader(wire)
	var in []byte
	for transport.Len()+len(in) > 0 {
		rec, need, err := opener.Open(in)
		if err != nil {
			alert, ok := record.AlertOf(err) // what to tell the peer
			fmt.Println(err, alert, ok)
			return
		}
		if need > 0 {
			chunk := make([]byte, need) // or more
			n, _ := transport.Read(chunk)
			in = append(in, chunk[:n]...)
			fmt.Println("needed", need)
			continue
		}
		in = in[rec.Size:]
		fmt.Printf("%s: %s\n", rec.Type, rec.Content)
	}
	// Output:
	// needed 5
	// needed 20
	// application_data: one
	// needed 5
	// needed 20
	// application_data: two
}

// Application data goes straight into the reader's buffer; what does not fit stays
// where it was received.
func ExampleOpener_OpenTo() {
	sealer, opener := newPair()
	wire, err := sealer.Seal(nil, record.ContentTypeApplicationData, []byte("more than fits"))
	if err != nil {
		panic(err)
	}
	dst := make([]byte, 9)
	rec, _, err := opener.OpenTo(dst, wire)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%q %q\n", dst[:len(rec.Content)], rec.Rest)
	// Output: "more than" " fits"
}

// What a stack does with the records that it receives after its handshake. Wherever
// it uses the Sealer of the other direction, it holds the lock that guards writes.
func ExampleOpener() {
	peer, opener := newPair()
	writeSecret := sha256.Sum256([]byte("server_application_traffic_secret_0"))
	sealer := record.NewSealer(record.SealerConfig{})
	if err := sealer.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), writeSecret[:]); err != nil {
		panic(err)
	}
	messages := record.NewHandshakeReader(1 << 16)

	message := func(msg []byte) error {
		const newSessionTicket, keyUpdate = 4, 24
		switch msg[0] {
		case newSessionTicket:
			fmt.Println("a ticket")
			return nil
		case keyUpdate:
			request, err := record.ParseKeyUpdate(msg)
			if err == nil {
				err = opener.KeyUpdate()
			}
			if err == nil {
				sealer.PeerKeyUpdate(request)
				fmt.Println("new keys, and the peer wants some:", request)
			}
			return err
		}
		return record.ErrUnexpectedMessage
	}
	take := func(rec record.Record) (end bool, err error) {
		switch {
		case rec.Dropped:
		case rec.Type == record.ContentTypeApplicationData:
			fmt.Printf("data: %s\n", rec.Content) // and rec.Rest, which is empty here
		case rec.Type == record.ContentTypeAlert:
			alert, err := record.ParseAlert(rec.Content)
			fmt.Println("alert:", alert)
			if alert.IsError() {
				sealer.Wipe() // both directions are over
			}
			return alert != record.AlertUserCanceled, err
		case rec.Type == record.ContentTypeHandshake:
			if err := messages.Append(rec.Content); err != nil {
				return true, err
			}
			for {
				if msg, err := messages.Next(); msg == nil || err != nil {
					return false, err
				} else if err := message(msg); err != nil {
					return true, err
				}
			}
		}
		return false, nil
	}

	var in []byte // what the transport brought
	in, _ = peer.Seal(in, record.ContentTypeHandshake, []byte{4, 0, 0, 1, 'x'})
	in, _ = peer.SealKeyUpdate(in, true)
	in, _ = peer.Seal(in, record.ContentTypeApplicationData, []byte("hello"))
	in, _ = peer.SealAlert(in, record.AlertCloseNotify)

	buf := make([]byte, record.MaxContentSize)
	for end := false; !end; {
		rec, need, err := opener.OpenTo(buf, in)
		if need > 0 {
			panic("all of it is here")
		}
		if err == nil {
			in = in[rec.Size:]
			end, err = take(rec)
		}
		if err != nil { // tell the peer, which may be past hearing it
			alert, ok := record.AlertOf(err)
			if !ok {
				alert = record.AlertInternalError
			}
			wire, _ := sealer.SealAlert(nil, alert)
			fmt.Printf("%v: %d bytes to send\n", err, len(wire))
			return
		}
	}

	// Writing goes on after the peer's close_notify.
	var wire []byte
	var err error
	if sealer.NeedsKeyUpdate() {
		if wire, err = sealer.SealKeyUpdate(wire, false); err != nil {
			panic(err)
		}
	}
	if wire, err = sealer.Seal(wire, record.ContentTypeApplicationData, []byte("bye")); err != nil {
		panic(err)
	}
	fmt.Println(len(wire), "bytes to send, generation", sealer.Generation())
	// Output:
	// a ticket
	// new keys, and the peer wants some: true
	// data: hello
	// alert: close_notify
	// 52 bytes to send, generation 1
}

// Both sides update the keys of one direction.
func ExampleSealer_SealKeyUpdate() {
	sealer, opener := newPair()
	wire, err := sealer.SealKeyUpdate(nil, true)
	if err != nil {
		panic(err)
	}
	rec, _, err := opener.Open(wire)
	if err != nil {
		panic(err)
	}
	messages := record.NewHandshakeReader(1 << 16)
	if err := messages.Append(rec.Content); err != nil {
		panic(err)
	}
	msg, err := messages.Next()
	if err != nil || !messages.Empty() {
		panic(err)
	}
	request, err := record.ParseKeyUpdate(msg)
	if err != nil {
		panic(err)
	}
	if err := opener.KeyUpdate(); err != nil {
		panic(err)
	}
	fmt.Println("requested:", request, "generations:", sealer.Generation(), opener.Generation())
	// Output: requested: true generations: 1 1
}

// The peer's request is answered before the next application data.
func ExampleSealer_PeerKeyUpdate() {
	sealer, _ := newPair()
	sealer.PeerKeyUpdate(true)
	_, err := sealer.Seal(nil, record.ContentTypeApplicationData, []byte("data"))
	fmt.Println(err)

	var wire []byte
	if sealer.NeedsKeyUpdate() {
		if wire, err = sealer.SealKeyUpdate(wire, false); err != nil {
			panic(err)
		}
	}
	_, err = sealer.Seal(wire, record.ContentTypeApplicationData, []byte("data"))
	fmt.Println(err)
	// Output:
	// record: key update required first
	// <nil>
}

func ExampleSealer_SealAlert() {
	sealer, opener := newPair()
	wire, err := sealer.SealAlert(nil, record.AlertCloseNotify)
	if err != nil {
		panic(err)
	}
	rec, _, err := opener.Open(wire)
	if err != nil {
		panic(err)
	}
	alert, err := record.ParseAlert(rec.Content)
	fmt.Println(alert, alert.IsError(), err)
	_, err = sealer.Seal(nil, record.ContentTypeApplicationData, []byte("more"))
	fmt.Println(errors.Is(err, record.ErrClosed))
	// Output:
	// close_notify false <nil>
	// true
}

// Each error that the peer causes has its alert.
func ExampleAlertOf() {
	_, opener := newPair()
	_, _, err := opener.Open([]byte{23, 3, 3, 0xff, 0xff})
	alert, ok := record.AlertOf(fmt.Errorf("reading: %w", err))
	fmt.Println(err, alert, ok)
	// Output: record: record above the size limit record_overflow true
}

// A connection moves to another owner: the old Sealer is dead, and the state can
// be taken once.
func ExampleImportSealer() {
	sealer, opener := newPair()
	state, err := sealer.Export()
	if err != nil {
		panic(err)
	}
	fmt.Println(state)
	_, err = sealer.Seal(nil, record.ContentTypeApplicationData, nil)
	fmt.Println(err)

	moved, err := record.ImportSealer(state, record.SealerConfig{})
	if err != nil {
		panic(err)
	}
	_, err = record.ImportSealer(state, record.SealerConfig{})
	fmt.Println(err)

	wire, err := moved.Seal(nil, record.ContentTypeApplicationData, []byte("goes on"))
	if err != nil {
		panic(err)
	}
	rec, _, err := opener.Open(wire)
	fmt.Printf("%s %v\n", rec.Content, err)
	// Output:
	// record.State(sealer, TLS_AES_128_GCM_SHA256, redacted)
	// record: state exported
	// record: state used before
	// goes on <nil>
}

// The bytes that were received and not yet opened travel with the read keys, here
// to another process.
func ExampleImportOpener() {
	sealer, opener := newPair()
	unread, err := sealer.Seal(nil, record.ContentTypeApplicationData, []byte("unread"))
	if err != nil {
		panic(err)
	}
	state, err := opener.Export(unread)
	if err != nil {
		panic(err)
	}
	data, err := state.Encode()
	if err != nil {
		panic(err)
	}

	state, err = record.DecodeState(data, nil)
	clear(data)
	if err != nil {
		panic(err)
	}
	opener, unread, err = record.ImportOpener(state, record.OpenerConfig{})
	if err != nil {
		panic(err)
	}
	rec, _, err := opener.Open(unread)
	fmt.Printf("%s %v\n", rec.Content, err)
	// Output: unread <nil>
}

// Keys for a kernel's TLS, or for any other implementation.
func ExampleState_Reveal() {
	sealer, _ := newPair()
	state, err := sealer.Export()
	if err != nil {
		panic(err)
	}
	secrets, err := state.Reveal()
	if err != nil {
		panic(err)
	}
	fmt.Println(secrets.Suite, len(secrets.Keys.Key), len(secrets.Keys.IV), secrets.Seq)
	fmt.Println(secrets)
	// Output:
	// TLS_AES_128_GCM_SHA256 16 12 0
	// record.Secrets(TLS_AES_128_GCM_SHA256, redacted)
}

// A server that has rejected early data drops it without knowing its keys.
func ExampleOpener_SkipEarlyData() {
	early, handshake := sha256.Sum256([]byte("early")), sha256.Sum256([]byte("handshake"))
	client := record.NewSealer(record.SealerConfig{})
	server := record.NewOpener(record.OpenerConfig{})

	clientHello := []byte{1, 0, 0, 0}
	wire, err := client.Seal(nil, record.ContentTypeHandshake, clientHello)
	if err != nil {
		panic(err)
	}
	if err := client.SetTrafficSecret(record.EpochEarly, aead.AES128GCM(), early[:]); err != nil {
		panic(err)
	}
	if wire, err = client.Seal(wire, record.ContentTypeApplicationData, []byte("early data")); err != nil {
		panic(err)
	}
	if err := client.SetTrafficSecret(record.EpochHandshake, aead.AES128GCM(), handshake[:]); err != nil {
		panic(err)
	}
	if wire, err = client.Seal(wire, record.ContentTypeHandshake, []byte{20, 0, 0, 0}); err != nil {
		panic(err)
	}

	for len(wire) > 0 {
		rec, _, err := server.Open(wire)
		if err != nil {
			panic(err)
		}
		wire = wire[rec.Size:]
		fmt.Println(rec.Type, rec.Dropped)
		if server.Epoch() == record.EpochPlaintext {
			server.SkipEarlyData(1 << 14)
			if err := server.SetTrafficSecret(record.EpochHandshake, aead.AES128GCM(), handshake[:]); err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// handshake false
	// application_data true
	// handshake false
}

// A client whose server answered early data with a HelloRetryRequest goes back to
// unprotected records.
func ExampleSealer_AbandonEarlyData() {
	early := sha256.Sum256([]byte("early"))
	client := record.NewSealer(record.SealerConfig{})
	clientHello := []byte{1, 0, 0, 0}
	first, err := client.Seal(nil, record.ContentTypeHandshake, clientHello)
	if err != nil {
		panic(err)
	}
	if err := client.SetTrafficSecret(record.EpochEarly, aead.AES128GCM(), early[:]); err != nil {
		panic(err)
	}
	if err := client.AbandonEarlyData(); err != nil {
		panic(err)
	}
	second, err := client.Seal(nil, record.ContentTypeHandshake, clientHello)
	fmt.Printf("%x %x %v\n", first, second, err)
	// Output: 160301000401000000 160303000401000000 <nil>
}

// The record that keeps old middleboxes content, on both sides.
func ExampleSealer_SealChangeCipherSpec() {
	client := record.NewSealer(record.SealerConfig{})
	if _, err := client.Seal(nil, record.ContentTypeHandshake, []byte{1, 0, 0, 0}); err != nil {
		panic(err)
	}
	wire, err := client.SealChangeCipherSpec(nil)
	if err != nil {
		panic(err)
	}
	server := record.NewOpener(record.OpenerConfig{})
	server.AllowChangeCipherSpec(true) // from the ClientHello to the client's Finished
	rec, _, err := server.Open(wire)
	fmt.Printf("%x %v %v %v\n", wire, rec.Type, rec.Dropped, err)
	// Output: 140303000101 change_cipher_spec true <nil>
}

// The peer's record_size_limit extension limits what is sealed.
func ExampleSealer_SetRecordSizeLimit() {
	sealer, _ := newPair()
	fmt.Println(sealer.MaxContentSize(), sealer.MaxSealedSize())
	if err := sealer.SetRecordSizeLimit(1024); err != nil {
		panic(err)
	}
	fmt.Println(sealer.MaxContentSize(), sealer.MaxSealedSize())
	err := sealer.SetRecordSizeLimit(63)
	alert, _ := record.AlertOf(err)
	fmt.Println(err, alert)
	// Output:
	// 16384 16406
	// 1023 1045
	// record: record size limit below 64 illegal_parameter
}

func ExampleHandshakeReader() {
	messages := record.NewHandshakeReader(1 << 16)
	// One message over two records, the second of which holds another.
	for _, content := range [][]byte{{8, 0, 0}, {2, 'e', 'e', 20, 0, 0, 1, 'f'}} {
		if err := messages.Append(content); err != nil {
			panic(err)
		}
		for {
			msg, err := messages.Next()
			if err != nil {
				panic(err)
			}
			if msg == nil {
				break
			}
			fmt.Printf("type %d: %s\n", msg[0], msg[4:])
		}
	}
	fmt.Println("at a boundary:", messages.Empty())
	// Output:
	// type 8: ee
	// type 20: f
	// at a boundary: true
}
