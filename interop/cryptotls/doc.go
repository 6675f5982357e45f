// Package cryptotls runs the TLS handshake with crypto/tls and then takes the
// connection over with package record.
//
// crypto/tls keeps what it is good at: certificates, key exchange, resumption,
// everything that a [tls.Config] says. From the first byte of application data on,
// package record seals and opens the records, and crypto/tls can no longer put a byte
// on the wire. A server changes one line,
//
//	ln = tls.NewListener(ln, config)
//	ln = cryptotls.NewListener(ln, config, nil)
//
// and a client uses a [Dialer], or [Client] on a connection of its own. What else
// changes for a net/http server with that line is listed at [NewListener].
//
// Compared with one on crypto/tls, such a server takes 0.64 to 0.77 times the
// processor time for responses of 100 KiB and of 10 MiB over connections that are
// kept, as much, within 4 %, for those of up to 10 KiB, and 1.08 to 1.20 times as
// much for a connection with a single request, because every handshake is followed
// and taken over (AMD EPYC, Zen 3, Go 1.26.8; six runs of go test -run '^$' -bench
// HTTP -benchtime 40x in this package).
//
// # How the connection is taken over
//
// The traffic secrets come through the documented key log hook
// ([tls.Config].KeyLogWriter), which the package sets in a clone of the config; the
// user's own KeyLogWriter still gets its lines. crypto/tls is given the records of
// the handshake one at a time and nothing after them, and each record of both
// directions is opened as it passes, at the sequence number that its place gives it,
// up to the Finished message and beyond. That shows how many records crypto/tls has
// sealed under the application keys, as a server does for its session tickets, and
// that it has opened none. If anything about this is unexpected, the result is
// [ErrHandover] and no connection. The copies of secrets are then erased;
// crypto/tls's own are out of reach and left to the garbage collector.
//
// Every connection has its own clone of the config. Session ticket keys survive that,
// both those that crypto/tls makes by itself and those that are set while the server
// runs, because they live in the config that the user passed. If there is a
// GetConfigForClient, the clone for a server's connection is made of what that
// returns, so that it carries the hook too. A clone shared by connections would leave
// the key log lines to be sorted by client random, which the wire does not show under
// Encrypted Client Hello, and would not see later calls of SetSessionTicketKeys.
//
// # What crypto/tls does not do
//
// It negotiates TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and
// TLS_CHACHA20_POLY1305_SHA256, no early data, no record_size_limit and no
// authentication after the handshake. TLS 1.2 has other records and stays with
// crypto/tls, if [Options] allow it at all.
package cryptotls
