package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"example.com/splitseal/record"
)

// A server whose own code refuses what the client asks for says so by an alert. That
// ends the connection on both sides.
func ExampleConn_SendAlert() {
	client, server := connect(record.ConnConfig{}, record.ConnConfig{})
	served := make(chan error, 1)
	go func() {
		p := make([]byte, 100)
		n, _ := server.Read(p)
		fmt.Printf("refused: %s\n", p[:n])
		err := server.SendAlert(record.AlertAccessDenied)
		_, write := server.Write([]byte("too late"))
		fmt.Println(err, errors.Is(write, record.ErrClosed))
		served <- server.Close()
	}()
	fmt.Fprint(client, "the payroll")
	_, err := client.Read(make([]byte, 100))
	<-served
	var alert *record.AlertError
	fmt.Println(errors.As(err, &alert), err)
	// Output:
	// refused: the payroll
	// <nil> true
	// true record: peer sent alert access_denied
}

// Some servers end without close_notify. That can be accepted if the content itself
// says how long it is.
func ExampleReaderConfig_acceptTruncation() {
	for _, accept := range []bool{false, true} {
		sealer, opener := newPair()
		var transport bytes.Buffer
		w := record.NewWriter(&transport, sealer, record.WriterConfig{})
		fmt.Fprint(w, "Content-Length: 5\r\n\r\nhello") // and no Close

		r := record.NewReader(&transport, opener, record.ReaderConfig{AcceptTruncation: accept})
		data, err := io.ReadAll(r)
		fmt.Printf("%q %v\n", data, err)
	}
	// Output:
	// "Content-Length: 5\r\n\r\nhello" unexpected EOF
	// "Content-Length: 5\r\n\r\nhello" <nil>
}
