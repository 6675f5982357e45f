// Package cryptotls runs the TLS handshake with crypto/tls and then takes the
// connection over with package record.
//
// crypto/tls keeps what it is good at: certificates, key exchange, resumption,
// everything that a [tls.Config] says. From the first byte of application data
// on the records are sealed and opened by package record, and crypto/tls can
// put no byte on the wire any more. A server changes one line,
//
//	ln = tls.NewListener(ln, config)
//	ln = cryptotls.NewListener(ln, config, nil)
//
// and a client uses a [Dialer], or [Client] on a connection of its own. What else
// a server of net/http must know of that line stands at [NewListener].
//
// Such a server takes 0.64 to 0.77 times the processor time of one on crypto/tls for
// responses of 100 KiB and of 10 MiB over connections that are kept, as much, within
// 4 %, for those of up to 10 KiB, and 1.08 to 1.20 times as much for a connection that
// asks once, because every handshake is followed and taken over (AMD EPYC, Zen 3, Go
// 1.26.8; six runs of go test -run '^$' -bench HTTP -benchtime 40x in this package).
//
// # How the connection is taken over
//
// The traffic secrets come through the documented key log hook
// ([tls.Config].KeyLogWriter), which the package sets in a clone of the config;
// the user's own KeyLogWriter still gets its lines. crypto/tls is given the
// records of the handshake one at a time and nothing behind them, and each record
// of both directions is opened as it passes, at the sequence number that its place
// gives it, up to the Finished message and beyond: that is how many records
// crypto/tls has sealed under the application keys, which a server does for its
// session tickets, and that it has opened none. If anything about it is
// unexpected, there is no connection but [ErrHandover]. The copies of secrets are
// then erased; crypto/tls's own are out of reach and left to the garbage
// collector.
//
// Every connection has its own clone of the config. Session ticket keys survive
// that, those that crypto/tls makes by itself and those that are set while the
// server runs, because they live in the config that the user passed. The clone
// for a server's connection comes out of GetConfigForClient if there is one, so
// that whatever that returns carries the hook too. A clone that connections
// share would leave the key log lines to be sorted by client random, which the
// wire does not show under Encrypted Client Hello, and would not see later calls
// of SetSessionTicketKeys.
//
// # What crypto/tls does not do
//
// It negotiates TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and
// TLS_CHACHA20_POLY1305_SHA256, no early data, no record_size_limit and no
// authentication after the handshake. TLS 1.2 has other records and stays with
// crypto/tls, if [Options] allow it at all.
package cryptotls
