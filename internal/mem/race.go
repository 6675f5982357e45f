package mem

// Race says whether the race detector is in this program. Calls of Reads and Writes are
// in blocks that depend on it, so that other programs have no instruction of them: an
// empty function that was inlined would leave some.
const Race = race

// Reads tells the race detector what is about to be read: it sees nothing of assembly.
func Reads(list ...[]byte) {
	for _, b := range list {
		if len(b) > 0 {
			raceRead(b)
		}
	}
}

// Writes tells the race detector what is about to be written.
func Writes(list ...[]byte) {
	for _, b := range list {
		if len(b) > 0 {
			raceWrite(b)
		}
	}
}
