package cryptotls_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"example.com/splitseal/interop/cryptotls"
)

// A server may send tickets at any time. crypto/tls takes only those that come before
// the first application data; the others can be counted, or kept by a client that
// also has a handshake of its own.
func ExampleOptions_newSessionTicket() {
	cert, pool := certificate()
	clientSide, serverSide := net.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	go func() {
		c, err := cryptotls.Server(ctx, serverSide, &tls.Config{Certificates: []tls.Certificate{cert}}, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		conn := c.(*cryptotls.Conn)
		fmt.Fprint(conn, "hello, ")
		// A lifetime of an hour, age_add, a nonce of one byte, a ticket of three, no
		// extensions.
		conn.WriteHandshake([]byte{4, 0, 0, 17, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 3, 't', 'k', 't', 0, 0})
		fmt.Fprint(conn, "world")
	}()

	o := &cryptotls.Options{NewSessionTicket: func(message []byte) {
		fmt.Printf("a ticket: %q\n", message[len(message)-5:len(message)-2])
	}}
	conn, err := cryptotls.Client(ctx, clientSide, &tls.Config{RootCAs: pool, ServerName: "localhost"}, o)
	if err != nil {
		log.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	fmt.Printf("%s %v\n", data, err)
	conn.Close()
	// Output:
	// a ticket: "tkt"
	// hello, world <nil>
}
