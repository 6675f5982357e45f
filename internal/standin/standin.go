// Package standin is for a transport that stands in for a connection only for a while.
package standin

import "net"

// A Transport stands in for a connection. A Reader of package record asks it before each
// read whether it still must.
type Transport interface {
	net.Conn

	// Original returns the connection to read from from now on, or nil as long as the
	// Transport must be read instead. It is called between two reads, by whoever
	// makes them. Its argument means nothing: it keeps types of other modules from
	// having this method.
	Original(Private) net.Conn
}

// Private is known to this module only.
type Private struct{}
