package main

import (
	"crypto/rand"

	"example.com/splitseal/record"
)

// memory is what all ops of all implementations work in, so that none has better
// addresses than another, and everything is in the caches.
type memory struct {
	content []byte // maxSize random bytes
	dst     []byte // for content that was opened
	out     []byte // for one record or text and tag
	ring    []byte // for several of these, see ringSlots
	in      []byte // what a reader took from its transport
}

const (
	contentType = byte(record.ContentTypeApplicationData)
	tagSize     = 16

	// ringSize bounds what a batch of opens goes through, well inside the
	// second-level caches of today.
	ringSize  = 64 << 10
	ringSlots = 256 // and its calls

	// inSize lets a reader take many records at once.
	inSize = 2 * record.MaxRecordSize
)

func newMemory() *memory {
	// Addresses that a call reads and writes at the same time differ by half
	// a page in their low bits. Processors compare no more than those when
	// they decide whether a load depends on an earlier store.
	const page, skew = 4096, 2048
	arena := make([]byte, 1<<20)
	take := func(n, offset int) []byte {
		n += offset
		b := arena[offset:n:n]
		arena = arena[(n+page-1)/page*page:]
		return b
	}
	m := &memory{
		content: take(maxSize, 0),
		out:     take(record.MaxRecordSize, skew),
		ring:    take(ringSize+record.MaxRecordSize*4, 0),
		dst:     take(maxSize, skew),
		in:      take(inSize, 0),
	}
	rand.Read(m.content)
	return m
}

// ringCount returns how many texts of the given stride make up a batch.
func ringCount(stride int) int {
	return min(max(ringSize/stride, 4), ringSlots)
}
