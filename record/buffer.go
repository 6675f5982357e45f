package record

import "sync"

// inBuffer holds bytes of the transport: records, and content that was opened
// in place and has not been read.
type inBuffer struct {
	b    []byte
	pool *sync.Pool
}

// outBuffer holds sealed records that wait to be handed to the transport.
type outBuffer struct {
	records []byte
	marks   []mark   // one for each record
	pieces  [][]byte // scratch of gathered writes
	pool    *sync.Pool
}

// mark says where a record of an outBuffer ends and how much content of the
// caller's it carries.
type mark struct {
	end     int
	content int
}

// The buffers that are not in use. Whoever gives a buffer back has overwritten the
// content that it held: in an inBuffer that is content opened in place, or all of it
// if ReadFrom has read into it. An outBuffer never holds content outside a call of
// the Sealer, which leaves only records.
var (
	inLarge  = sync.Pool{New: func() any { return &inBuffer{b: make([]byte, largeSize)} }}
	inSmall  = sync.Pool{New: func() any { return &inBuffer{b: make([]byte, smallSize)} }}
	outLarge = sync.Pool{New: func() any { return newOutBuffer(largeSize, largeMarks) }}
	outSmall = sync.Pool{New: func() any { return newOutBuffer(smallSize, smallMarks) }}
)

func newOutBuffer(size, marks int) *outBuffer {
	return &outBuffer{records: make([]byte, 0, size), marks: make([]mark, 0, marks)}
}

func takeInBuffer(large bool) *inBuffer {
	pool := &inSmall
	if large {
		pool = &inLarge
	}
	b := pool.Get().(*inBuffer)
	b.pool = pool
	return b
}

// put gives b back. It holds no content.
func (b *inBuffer) put() { b.pool.Put(b) }

func takeOutBuffer(large bool) *outBuffer {
	pool := &outSmall
	if large {
		pool = &outLarge
	}
	b := pool.Get().(*outBuffer)
	b.pool = pool
	return b
}

func (b *outBuffer) reset() {
	b.records = b.records[:0]
	b.marks = b.marks[:0]
}

// put gives b back, to its pool or to the Writer that keeps it. It is not called after a
// panic, when b may hold content.
func (b *outBuffer) put() {
	b.reset()
	if b.pool != nil {
		b.pool.Put(b)
	}
}

// Tuned here.
const (
	// largeSize has room for four records of the largest size that is in use,
	// 16406 bytes, and for KeyUpdates between them. It is nine pages of the
	// runtime's allocator.
	largeSize = 72 << 10

	// smallSize has room for the largest record that there can be and a
	// KeyUpdate. It is a size class of the runtime's allocator.
	smallSize = 18 << 10

	// largeMarks and smallMarks bound the records in one write to the
	// transport: more of them are so short that another write costs little.
	largeMarks = 128
	smallMarks = 16
)
