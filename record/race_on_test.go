//go:build race

package record

// raceEnabled says that pools drop what they are given at times, so that their
// users allocate.
const raceEnabled = true
