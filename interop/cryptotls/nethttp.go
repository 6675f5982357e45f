//go:build !go1.27

package cryptotls

// netHTTPKnowsConn is whether net/http's Server and Transport ask a [*Conn], as they ask a
// [*tls.Conn], which protocol was negotiated, and speak HTTP/2 over it.
const netHTTPKnowsConn = false
