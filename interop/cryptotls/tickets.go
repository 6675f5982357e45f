package cryptotls

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"

	"example.com/splitseal/internal/standin"
	"example.com/splitseal/record"
	"golang.org/x/crypto/cryptobyte"
)

// ticketHandler handles the handshake messages that a client receives.
type ticketHandler struct {
	cache    *ticketCache // or nil
	callback func([]byte) // or nil
}

func (h *ticketHandler) handle(_ *record.Conn, msg []byte) error {
	if msg[0] != typeNewSessionTicket {
		return record.ErrUnexpectedMessage
	}
	if err := checkTicket(msg); err != nil {
		return err
	}
	if h.cache != nil && h.cache.store(msg) {
		return nil
	}
	if h.callback != nil {
		h.callback(msg)
	}
	return nil
}

// checkTicket says what is wrong with the form of a NewSessionTicket message.
//
// "Peers which receive a message which cannot be parsed according to the syntax
// (e.g., have a length extending beyond the message boundary or contain an
// out-of-range length) MUST terminate the connection with a "decode_error"
// alert. Peers which receive a message which is syntactically correct but
// semantically invalid (e.g., a DHE share of p - 1, or an invalid enum) MUST
// terminate the connection with an "illegal_parameter" alert." (RFC 9846, Section 6)
func checkTicket(msg []byte) error {
	//	struct {
	//	    uint32 ticket_lifetime;
	//	    uint32 ticket_age_add;
	//	    opaque ticket_nonce<0..255>;
	//	    opaque ticket<1..2^16-1>;
	//	    Extension extensions<0..2^16-1>;
	//	} NewSessionTicket;
	s := cryptobyte.String(msg)
	var body, nonce, ticket, extensions, data cryptobyte.String
	var extension uint16
	if !s.Skip(1) || !s.ReadUint24LengthPrefixed(&body) || !s.Empty() ||
		!body.Skip(4+4) ||
		!body.ReadUint8LengthPrefixed(&nonce) ||
		!body.ReadUint16LengthPrefixed(&ticket) || ticket.Empty() ||
		!body.ReadUint16LengthPrefixed(&extensions) || !body.Empty() {
		return record.ErrMalformedMessage
	}
	seen := make(map[uint16]bool)
	repeated := false
	for !extensions.Empty() {
		if !extensions.ReadUint16(&extension) || !extensions.ReadUint16LengthPrefixed(&data) {
			return record.ErrMalformedMessage
		}
		// "uint32 max_early_data_size;" (Section 4.3.10)
		if extension == extEarlyData && len(data) != 4 {
			return record.ErrMalformedMessage
		}
		repeated = repeated || seen[extension]
		seen[extension] = true
	}
	// "There MUST NOT be more than one extension of the same type in a given extension
	// block." (Section 4.3)
	if repeated {
		return record.ErrIllegalMessage
	}
	return nil
}

// ticketCache lets crypto/tls read the server's first session tickets, which is
// the only way for it to store them in the config's ClientSessionCache.
//
// It stands in for the transport that the connection reads from. As long as only
// tickets have come, it keeps a copy of the records; when package record has opened one
// that ends a ticket, the copy is fed to the [tls.Conn] that did the handshake, which
// opens it with its own keys, at its own sequence number. The [tls.Conn] cannot see,
// send or close anything else. With the first record that brings something else this is
// over: the [tls.Conn] is dropped, and package record reads from the transport itself.
//
// All of it happens inside the connection's Read.
type ticketCache struct {
	net.Conn
	t      *transport
	tls    *tls.Conn // nil when it is over
	opener *record.Opener
	raw    []byte // received and not fed
	fed    uint64 // records fed
}

func newTicketCache(t *transport, tc *tls.Conn, opener *record.Opener, unread []byte) *ticketCache {
	return &ticketCache{
		Conn:   t.conn,
		t:      t,
		tls:    tc,
		opener: opener,
		raw:    append([]byte(nil), unread...),
	}
}

// Original implements standin.Transport.
func (c *ticketCache) Original(standin.Private) net.Conn {
	// Everything that has been opened and fed was a ticket.
	if c.tls != nil && (c.opener.Generation() > 0 || c.opener.Seq() != c.fed && !c.opener.HandshakePartial()) {
		c.stop()
	}
	if c.tls == nil {
		return c.Conn
	}
	return nil
}

// Read implements net.Conn, until Original has returned the transport.
func (c *ticketCache) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case n < 0 || n > len(p):
		// package record makes an error of it
	case len(c.raw)+n > maxTicketsSize:
		c.stop()
	default:
		c.raw = append(c.raw, p[:n]...)
	}
	return n, err
}

// store feeds crypto/tls the records up to the one that was opened last, which ends
// msg. It reports whether crypto/tls took msg. Whatever else is in that record is fed
// too, and crypto/tls may take part of it.
func (c *ticketCache) store(msg []byte) bool {
	c.feed()
	if binary.BigEndian.Uint32(msg[messageHeaderSize:]) == 0 {
		// "The value of zero indicates that the ticket should be discarded
		// immediately." (RFC 9846, Section 4.7.1). crypto/tls does that.
		return c.tls != nil
	}
	if c.t.stored == 0 {
		return false
	}
	c.t.stored--
	return true
}

// feed feeds crypto/tls the records that have been opened.
func (c *ticketCache) feed() {
	if c.tls == nil {
		return
	}
	if c.opener.Generation() > 0 {
		c.stop()
		return
	}
	size := 0
	for n := c.opener.Seq() - c.fed; n > 0; n-- {
		size += recordSize(c.raw[size:])
	}
	c.fed = c.opener.Seq()
	c.t.feed = c.raw[:size]
	c.raw = c.raw[size:]
	var data [512]byte
	for {
		// Application data may have come before this ticket in one read of the
		// transport. crypto/tls is given that too, and what it returns is dropped
		// here.
		_, err := c.tls.Read(data[:])
		clear(data[:])
		if errors.Is(err, drained{}) && len(c.t.feed) == 0 {
			return
		}
		if err != nil {
			c.stop()
			return
		}
	}
}

// countingCache counts the sessions that are stored.
type countingCache struct {
	tls.ClientSessionCache
	stored *int
}

func (c countingCache) Put(key string, session *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, session)
	if session != nil {
		*c.stored++
	}
}

// recordSize returns the size of the record that p begins with.
func recordSize(p []byte) int {
	return record.HeaderSize + int(p[3])<<8 + int(p[4])
}

func (c *ticketCache) stop() {
	c.t.end(phaseOver)
	c.t.feed = nil
	c.tls, c.raw = nil, nil
}

// extEarlyData is from RFC 9846, Section 4.3.
const extEarlyData = 42

// maxTicketsSize bounds the copy: a peer that has sent more than four large records
// at once has sent something other than tickets.
const maxTicketsSize = 4 * record.MaxRecordSize
