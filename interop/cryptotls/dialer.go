package cryptotls

import (
	"context"
	"crypto/tls"
	"net"
)

// Dialer connects to a server and does the handshake as [Client] does. It is the
// counterpart of [tls.Dialer]. The zero value is ready for use.
//
// Its methods may be called concurrently; its fields must not be changed meanwhile.
type Dialer struct {
	// NetDialer makes the connection. Its Timeout and Deadline hold for the
	// connection and the handshake together. Nil means a zero [net.Dialer].
	NetDialer *net.Dialer

	// Config is what [Client] takes. If it names no server, the host of the address
	// is its ServerName. Nil means a zero [tls.Config].
	//
	// Its NextProtos are offered as they are, so they may only name protocols that
	// are spoken over the result. Before Go 1.27, net/http's Transport speaks HTTP/1.1
	// over it, whatever was negotiated, and leaves Response.TLS nil: do not offer "h2"
	// for it, or requests fail, for instance with "malformed HTTP response". Dial does
	// not refuse "h2", because others can speak it: golang.org/x/net/http2, and the
	// Transport itself if its Protocols have UnencryptedHTTP2 only.
	Config *tls.Config

	// Options are what [Client] takes.
	Options *Options
}

// Dial is [Dialer.DialContext] with the background context.
func (d *Dialer) Dial(network, addr string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, addr)
}

// DialContext connects to addr and does the handshake. The result is a [*Conn],
// or a [*tls.Conn] as [Options] say. Once it has returned, ctx has no influence.
// It panics as [Client] does, before it connects.
//
// It fits the DialTLSContext of net/http's Transport, which then ignores its
// TLSHandshakeTimeout: set NetDialer's Timeout. A response that ends with its
// connection, without close_notify, ends with [io.ErrUnexpectedEOF], unless
// [Options.Record] sets AcceptTruncation; crypto/tls takes the end of the transport
// for the end of the response.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	o := d.Options.checked()
	netDialer := d.NetDialer
	if netDialer == nil {
		netDialer = new(net.Dialer)
	}
	if netDialer.Timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, netDialer.Timeout)
		defer cancel()
	}
	if !netDialer.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, netDialer.Deadline)
		defer cancel()
	}
	conn, err := netDialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	config := d.Config
	if config == nil {
		config = new(tls.Config)
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	return Client(ctx, conn, config, o)
}
