package cryptotls

import (
	"context"
	"crypto/tls"
	"net"
)

// Dialer connects to a server and does the handshake as [Client] does. It is
// what [tls.Dialer] is for crypto/tls. The zero value is ready for use.
//
// Its methods may be called concurrently; its fields must not be changed then.
type Dialer struct {
	// NetDialer makes the connection. Its Timeout and Deadline hold for the
	// connection and the handshake together. Nil is a zero [net.Dialer].
	NetDialer *net.Dialer

	// Config is what [Client] takes. If it names no server, the host of the
	// address is its ServerName. Nil is a zero [tls.Config].
	//
	// It may only offer application protocols that the caller speaks: over the
	// result net/http's Transport speaks HTTP/1.1, whatever was negotiated, and
	// leaves Response.TLS nil.
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
// It fits the DialTLSContext of net/http's Transport.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
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
	return Client(ctx, conn, config, d.Options)
}
