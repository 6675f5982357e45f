package mem

import "encoding/binary"

// Gather copies pieces to text, one after the other, until it is full, and
// returns how many bytes that was. A piece may be in place: where the compiler
// calls memmove for copy, it compares the addresses first.
//
// For short pieces a function call takes most of the time, so they are copied
// here, from both ends.
func Gather(text []byte, pieces [][]byte) int {
	size := 0
	for _, p := range pieces {
		to := text[size:]
		n := min(len(p), len(to))
		size += n
		p, to = p[:n], to[:n]
		switch {
		case n > 16:
			copy(to, p)
		case n >= 8:
			a, b := load64(p), load64(p[n-8:])
			store64(to, a)
			store64(to[n-8:], b)
		case n >= 4:
			a, b := load32(p), load32(p[n-4:])
			store32(to, a)
			store32(to[n-4:], b)
		case n > 0:
			a, b, c := p[0], p[n/2], p[n-1]
			to[0], to[n/2], to[n-1] = a, b, c
		}
	}
	return size
}

// Scatter moves plaintext from text to pieces, one after the other. Where it was not
// already in place, text holds zeros afterwards.
func Scatter(pieces [][]byte, text []byte) {
	begin, end := 0, 0 // of what was moved and is not erased yet
	for _, p := range pieces {
		from := text[end:]
		n := min(len(p), len(from))
		p, from = p[:n], from[:n]
		if n > 0 && &p[0] == &from[0] {
			clear(text[begin:end])
			end += n
			begin = end
			continue
		}
		end += n
		switch {
		case n > 16:
			copy(p, from)
		case n >= 8:
			a, b := load64(from), load64(from[n-8:])
			store64(p, a)
			store64(p[n-8:], b)
		case n >= 4:
			a, b := load32(from), load32(from[n-4:])
			store32(p, a)
			store32(p[n-4:], b)
		case n > 0:
			a, b, c := from[0], from[n/2], from[n-1]
			p[0], p[n/2], p[n-1] = a, b, c
		}
	}
	clear(text[begin:end])
}

// MoveOut moves plaintext from place to p, which is as long, and leaves zeros in
// place, unless both are the same memory.
func MoveOut(p, place []byte) {
	if len(p) == 0 || &p[0] == &place[0] {
		return
	}
	copy(p, place)
	clear(place)
}

func load64(p []byte) uint64     { return binary.LittleEndian.Uint64(p) }
func load32(p []byte) uint32     { return binary.LittleEndian.Uint32(p) }
func store64(p []byte, x uint64) { binary.LittleEndian.PutUint64(p, x) }
func store32(p []byte, x uint32) { binary.LittleEndian.PutUint32(p, x) }
