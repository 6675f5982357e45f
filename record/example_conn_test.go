package record_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/record"
)

// connect returns the two ends of a connection over a pipe. A real program gets the
// secrets from a handshake.
func connect(client, server record.ConnConfig) (*record.Conn, *record.Conn) {
	up := sha256.Sum256([]byte("client_application_traffic_secret_0"))
	down := sha256.Sum256([]byte("server_application_traffic_secret_0"))
	a, b := net.Pipe()
	end := func(transport net.Conn, role record.Role, write, read []byte, cfg record.ConnConfig) *record.Conn {
		cfg.Role = role
		cfg.Sealer, cfg.Opener = record.NewSealer(record.SealerConfig{}), record.NewOpener(record.OpenerConfig{})
		if err := errors.Join(
			cfg.Sealer.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), write),
			cfg.Opener.SetTrafficSecret(record.EpochApplication, aead.AES128GCM(), read),
		); err != nil {
			panic(err)
		}
		c, err := record.NewConn(transport, cfg)
		if err != nil {
			panic(err)
		}
		return c
	}
	return end(a, record.RoleClient, up[:], down[:], client), end(b, record.RoleServer, down[:], up[:], server)
}

func ExampleNewConn() {
	transport, peer := net.Pipe()
	defer peer.Close()

	// The handshake has agreed on these.
	suite := aead.AES128GCM()
	write := sha256.Sum256([]byte("client_application_traffic_secret_0"))
	read := sha256.Sum256([]byte("server_application_traffic_secret_0"))

	sealer := record.NewSealer(record.SealerConfig{})
	opener := record.NewOpener(record.OpenerConfig{})
	if err := errors.Join(
		sealer.SetTrafficSecret(record.EpochApplication, suite, write[:]),
		opener.SetTrafficSecret(record.EpochApplication, suite, read[:]),
	); err != nil {
		panic(err)
	}
	conn, err := record.NewConn(transport, record.ConnConfig{
		Role:   record.RoleClient,
		Sealer: sealer,
		Opener: opener,
	})
	if err != nil {
		panic(err)
	}
	go io.Copy(io.Discard, peer)
	n, err := conn.Write([]byte("hello"))
	fmt.Println(n, err)
	fmt.Println(conn.Close())
	// Output:
	// 5 <nil>
	// <nil>
}

// Each side closes its own direction, and reads until the other one has.
func ExampleConn_CloseWrite() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	go func() {
		request, _ := io.ReadAll(server) // until the client's close_notify
		fmt.Fprintf(server, "you said %q", request)
		server.Close()
	}()
	fmt.Fprint(client, "hello")
	client.CloseWrite()
	answer, err := io.ReadAll(client)
	fmt.Println(string(answer), err)
	client.Close()
	// Output: you said "hello" <nil>
}

// The end of the transport is not the end of the data.
func ExampleConn_Read_truncated() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	go func() {
		server.Write([]byte("all of it?"))
		server.NetConn().Close() // no close_notify
	}()
	data, err := io.ReadAll(client)
	fmt.Printf("%q, %v\n", data, err)
	// Output: "all of it?", unexpected EOF
}

// A read that a deadline ends can be repeated.
func ExampleConn_SetReadDeadline() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	p := make([]byte, 100)
	client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := client.Read(p)
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))

	client.SetReadDeadline(time.Time{})
	go server.Write([]byte("late"))
	n, err := client.Read(p)
	fmt.Println(string(p[:n]), err)
	// Output:
	// true
	// late <nil>
}

// Pieces share a record, so that a message's header needs no record of its own.
func ExampleConn_WriteBuffers() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	response := net.Buffers{[]byte("Content-Length: 5\r\n"), []byte("\r\n"), []byte("hello")}
	go client.WriteBuffers(response)
	p := make([]byte, 100)
	n, err := server.Read(p) // one record
	fmt.Printf("%q %v\n", p[:n], err)
	// Output: "Content-Length: 5\r\n\r\nhello" <nil>
}

// Files and other readers are sent with io.Copy, which calls ReadFrom.
func ExampleConn_ReadFrom() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	go func() {
		io.Copy(client, io.LimitReader(strings.NewReader(strings.Repeat("x", 1_000_000)), 100_000))
		client.CloseWrite()
	}()
	n, err := io.Copy(io.Discard, server) // calls WriteTo
	fmt.Println(n, err)
	// Output: 100000 <nil>
}

// Content goes to the destination from where it was opened.
func ExampleConn_WriteTo() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	go func() {
		fmt.Fprint(server, "hello, ")
		fmt.Fprintln(server, "world")
		server.CloseWrite()
	}()
	n, err := client.WriteTo(os.Stdout)
	fmt.Println(n, err)
	// Output:
	// hello, world
	// 13 <nil>
}

// Keys are updated automatically; this does it earlier.
func ExampleConn_KeyUpdate() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	go func() {
		client.KeyUpdate(true)
		fmt.Fprint(client, "under new keys")
	}()
	p := make([]byte, 100)
	n, _ := server.Read(p)
	fmt.Println(string(p[:n]))

	go fmt.Fprint(server, "under new keys too")
	n, _ = client.Read(p)
	fmt.Println(string(p[:n]))
	// Output:
	// under new keys
	// under new keys too
}

// A client keeps the tickets that it gets.
func ExampleConn_WriteHandshake() {
	client, server := connect(record.ConnConfig{
		HandleMessage: func(c *record.Conn, message []byte) error {
			const newSessionTicket = 4
			if message[0] != newSessionTicket {
				return record.ErrUnexpectedMessage
			}
			fmt.Println("a ticket of", len(message)-4, "bytes")
			return nil
		},
	}, record.ConnConfig{})
	go func() {
		server.WriteHandshake(append([]byte{4, 0, 0, 100}, make([]byte, 100)...))
		server.Close()
	}()
	_, err := client.Read(make([]byte, 1))
	fmt.Println(err)
	// Output:
	// a ticket of 100 bytes
	// EOF
}

// Alerts can be logged. What a peer does wrong is an error that has its alert.
func ExampleConnConfig_alerts() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{
		OnAlert: func(a record.Alert, sent bool) { fmt.Println("sent:", sent, a) },
	})
	go io.Copy(io.Discard, client.NetConn())
	go client.NetConn().Write([]byte{20, 3, 3, 0, 1, 1}) // change_cipher_spec after the handshake
	_, err := server.Read(make([]byte, 100))
	fmt.Println(err)
	alert, ok := record.AlertOf(err)
	fmt.Println(alert, ok)
	// Output:
	// sent: true unexpected_message
	// record: invalid or untimely change_cipher_spec
	// unexpected_message true
}

// A connection moves to another Conn, or to another process, with what it has
// received and not read.
func ExampleConn_Export() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	go fmt.Fprint(client, "before")
	p := make([]byte, 100)
	n, _ := server.Read(p)
	fmt.Println(string(p[:n]))

	sealerState, openerState, err := server.Export()
	if err != nil {
		panic(err)
	}
	sealer, err := record.ImportSealer(sealerState, record.SealerConfig{})
	if err != nil {
		panic(err)
	}
	opener, unread, err := record.ImportOpener(openerState, record.OpenerConfig{})
	if err != nil {
		panic(err)
	}
	moved, err := record.NewConn(server.NetConn(), record.ConnConfig{
		Role: record.RoleServer, Sealer: sealer, Opener: opener, Unread: unread,
	})
	if err != nil {
		panic(err)
	}
	go fmt.Fprint(client, "after")
	n, _ = moved.Read(p)
	fmt.Println(string(p[:n]))
	fmt.Println(server.Close())
	// Output:
	// before
	// after
	// record: state exported
}

// A Writer and a Reader are the two directions alone, for transports that are no
// net.Conn.
func ExampleNewWriter() {
	sealer, opener := newPair()
	var transport bytes.Buffer
	w := record.NewWriter(&transport, sealer, record.WriterConfig{})
	fmt.Fprint(w, "hello")
	w.KeyUpdate(false)
	fmt.Fprint(w, ", world")
	w.Close() // sends close_notify

	r := record.NewReader(&transport, opener, record.ReaderConfig{})
	data, err := io.ReadAll(r)
	fmt.Printf("%s %v\n", data, err)
	// Output: hello, world <nil>
}

// A transport that takes only part of a record ends the Writer: nothing is ever sent
// twice.
func ExampleTransportError() {
	sealer, _ := newPair()
	w := record.NewWriter(shortWriter{}, sealer, record.WriterConfig{})
	n, err := w.Write([]byte("hello"))
	fmt.Println(n, err)
	_, again := w.Write([]byte("hello"))
	fmt.Println(again == err)
	// Output:
	// 0 record: transport write: short write
	// true
}

type shortWriter struct{}

func (shortWriter) Write(p []byte) (int, error) { return len(p) / 2, nil }

// A server with long responses makes the first records short, so that the client can
// begin before it has received 16 KiB.
func ExampleWriterConfig_dynamicRecordSizing() {
	sealer, opener := newPair()
	var transport bytes.Buffer
	w := record.NewWriter(&transport, sealer, record.WriterConfig{DynamicRecordSizing: true})
	w.Write(make([]byte, 3000))
	for transport.Len() > 0 {
		rec, _, err := opener.Open(transport.Bytes())
		if err != nil {
			panic(err)
		}
		fmt.Println(len(rec.Content))
		transport.Next(rec.Size)
	}
	// Output:
	// 1306
	// 1306
	// 388
}

// A Reader of early data goes on under the keys that follow it.
func ExampleReaderConfig_handleMessage() {
	suite := aead.AES128GCM()
	early, handshake := sha256.Sum256([]byte("early")), sha256.Sum256([]byte("handshake"))

	// What a client sends.
	sealer := record.NewSealer(record.SealerConfig{})
	var transport bytes.Buffer
	w := record.NewWriter(&transport, sealer, record.WriterConfig{})
	sealer.SetTrafficSecret(record.EpochEarly, suite, early[:])
	fmt.Fprint(w, "early data")
	w.WriteHandshake([]byte{5, 0, 0, 0}) // EndOfEarlyData
	sealer.SetTrafficSecret(record.EpochHandshake, suite, handshake[:])
	w.WriteHandshake([]byte{20, 0, 0, 1, 0}) // a Finished, made up
	w.Close()

	opener := record.NewOpener(record.OpenerConfig{})
	opener.SetTrafficSecret(record.EpochEarly, suite, early[:])
	r := record.NewReader(&transport, opener, record.ReaderConfig{
		HandleMessage: func(message []byte) error {
			fmt.Println("message", message[0])
			if message[0] == 5 {
				return opener.SetTrafficSecret(record.EpochHandshake, suite, handshake[:])
			}
			return nil
		},
	})
	data, err := io.ReadAll(r)
	fmt.Println(string(data), err)
	// Output:
	// message 5
	// message 20
	// early data <nil>
}
