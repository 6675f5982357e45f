// Package record implements the TLS 1.3 record protocol of RFC 9846, which replaces
// RFC 8446, Section 5: it seals content into records and opens records into content.
//
// The lowest layer does no I/O. A [Sealer] is one direction's write state and appends
// one record at a time to a buffer; an [Opener] is one direction's read state and
// takes bytes as they come. Neither knows the handshake: the caller installs each
// traffic secret with its [Epoch] as the handshake produces it, and tells them what
// the record layer cannot know, such as whether a change_cipher_spec record may still
// arrive.
//
// A [Sealer] gathers: where package gcm has kernels, content is encrypted straight
// from the caller's memory into the record. Some gathered or padded content is first
// moved there, where that is faster. With other AEADs, and AES-GCM without kernels,
// all content is moved there and sealed in place. An [Opener] scatters: content lands
// in the caller's buffer, and only the content type and the padding land elsewhere.
//
// Everything with I/O is a thin layer above them. A [Writer] and a [Reader] are the
// two directions over a transport: several records in one write, many in one read,
// nothing sealed twice and nothing lost at a deadline. A [Conn] joins them over a
// [net.Conn] after the handshake, and acts on KeyUpdate messages and alerts.
//
// Every error variable works with [errors.Is] and has one row in the table that
// [AlertOf] reads, which names its alert or says that there is none. An [AlertError]
// comes from the peer, a [TransportError] from the transport, and a [HookError] from
// the caller's own code. None of them is temporary: no error says that the same call
// may succeed later by itself.
package record

import "strconv"

// Sizes of RFC 9846, Section 5, in bytes.
const (
	// HeaderSize is the size of a record header.
	HeaderSize = 5

	// MaxContentSize is the most content one record carries:
	// "The length MUST NOT exceed 2^14 bytes."
	MaxContentSize = 1 << 14

	// MaxInnerSize is the most inner plaintext one protected record carries,
	// content, content type and padding together: "the full encoded
	// TLSInnerPlaintext MUST NOT exceed 2^14 + 1 octets."
	MaxInnerSize = MaxContentSize + 1

	// MaxBodySize is the most that may follow the header of a protected
	// record: "The length MUST NOT exceed 2^14 + 256 bytes."
	MaxBodySize = MaxContentSize + 256

	// MaxRecordSize is the size of the largest record that an Opener accepts.
	MaxRecordSize = HeaderSize + MaxBodySize

	// MinRecordSizeLimit is the least record size limit that an endpoint may
	// ask for (RFC 8449, Section 4).
	MinRecordSizeLimit = 64
)

// ContentType is the type of a record's content (RFC 9846, Section 5.1).
type ContentType uint8

// The four content types. No others are ever sealed or delivered.
const (
	ContentTypeChangeCipherSpec ContentType = 20
	ContentTypeAlert            ContentType = 21
	ContentTypeHandshake        ContentType = 22
	ContentTypeApplicationData  ContentType = 23
)

// String returns the specification's name for t.
func (t ContentType) String() string {
	switch t {
	case ContentTypeChangeCipherSpec:
		return "change_cipher_spec"
	case ContentTypeAlert:
		return "alert"
	case ContentTypeHandshake:
		return "handshake"
	case ContentTypeApplicationData:
		return "application_data"
	}
	return "content type " + strconv.Itoa(int(t))
}

// Epoch says which keys protect records. A direction moves through the epochs in this
// order and may skip some.
type Epoch uint8

// The epochs of a connection, numbered as in RFC 9147, Section 6.1.
const (
	EpochPlaintext   Epoch = iota // no keys yet
	EpochEarly                    // client_early_traffic_secret
	EpochHandshake                // [sender]_handshake_traffic_secret
	EpochApplication              // [sender]_application_traffic_secret_N
)

// String returns a short name for e.
func (e Epoch) String() string {
	switch e {
	case EpochPlaintext:
		return "plaintext"
	case EpochEarly:
		return "early"
	case EpochHandshake:
		return "handshake"
	case EpochApplication:
		return "application"
	}
	return "epoch " + strconv.Itoa(int(e))
}

// PadToMultiple returns a padding policy that makes the inner plaintext (content,
// content type and padding together) a multiple of size bytes, as far as the record's
// limit allows. It panics if size is less than one.
func PadToMultiple(size int) func(contentSize int) int {
	if size < 1 {
		panic("record: padding multiple less than one")
	}
	return func(contentSize int) int {
		return (size - (contentSize+1)%size) % size
	}
}
