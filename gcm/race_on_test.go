//go:build race

package gcm_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/asm"
)

const raceEnabled = true

// TestRaceDetector uses a buffer beside a call that uses it too: the race detector
// reports what no other use may stand beside, though assembly is what uses it, and
// nothing else. So do calls of one RecordKey. Another process does that, because a
// report fails a test.
func TestRaceDetector(t *testing.T) {
	const child = "SPLITSEAL_TEST_RACE"
	if os.Getenv(child) == "" {
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// Reports whose stacks are alike are reports, too.
		const options = "GORACE=exitcode=0 suppress_equal_stacks=0 suppress_equal_addresses=0"
		for _, removed := range []string{"", "-avx512,-vaes,-aesni"} {
			command := exec.Command(executable, "-test.run=^TestRaceDetector$")
			command.Env = append(os.Environ(), child+"=1", asm.EnvCPU+"="+removed, options)
			if out, err := command.Output(); err != nil || string(out) != "done\n" {
				t.Errorf("%s=%s: %v\n%s", asm.EnvCPU, removed, err, out)
			}
		}
		return
	}
	aead, err := gcm.New(make([]byte, 16))
	if err != nil {
		panic(err)
	}
	record, err := gcm.NewRecordKey(make([]byte, 16), make([]byte, 12))
	if err != nil {
		panic(err)
	}
	const size = 8000 // so pieces are long enough that no Go code copies them
	nonce := make([]byte, gcm.NonceSize)
	// One of two pieces, additional data, text, text with its tag, and the tag.
	var piece, ad, text, sealed, tag []byte
	read := func(b []byte) { sink = b[len(b)/2] }
	write := func(b []byte) { b[len(b)/2]++ }
	for _, c := range []struct {
		name string
		call func()
		in   []*[]byte // may be read beside the call, but not written
		out  []*[]byte // neither
	}{
		{"AEAD.Seal", func() { aead.Seal(sealed[:0], nonce, text, ad) }, []*[]byte{&text, &ad}, []*[]byte{&sealed}},
		{"AEAD.SealGather", func() { aead.SealGather(sealed[:0], nonce, [][]byte{text[:size*3/4], piece}, ad) },
			[]*[]byte{&piece, &ad}, []*[]byte{&sealed}},
		{"AEAD.SealSplit", func() { aead.SealSplit(sealed, nonce, piece, ad) }, []*[]byte{&piece, &ad}, []*[]byte{&sealed}},
		{"AEAD.Open", func() { _, err = aead.Open(text[:0], nonce, sealed, ad) }, []*[]byte{&sealed, &ad}, []*[]byte{&text}},
		{"AEAD.OpenSplit", func() { err = aead.OpenSplit(piece, nonce, sealed, ad) }, []*[]byte{&tag, &ad}, []*[]byte{&piece, &sealed}},
		{"AEAD.OpenScatter", func() { err = aead.OpenScatter([][]byte{text[:size*3/4], piece}, nonce, sealed, ad) },
			[]*[]byte{&tag, &ad}, []*[]byte{&piece, &sealed}},
		{"RecordKey.Seal", func() { record.Seal(sealed, 1, text[1:], 23, gcm.AD{}) }, []*[]byte{&text}, []*[]byte{&sealed}},
		{"RecordKey.SealSplit", func() { record.SealSplit(sealed, 1, piece, gcm.AD{}) }, []*[]byte{&piece}, []*[]byte{&sealed}},
		{"RecordKey.SealGather", func() { record.SealGather(sealed, 1, [][]byte{text[:size*3/4], piece}, gcm.AD{}) },
			[]*[]byte{&piece}, []*[]byte{&sealed}},
		{"RecordKey.OpenSplit", func() { err = record.OpenSplit(piece, 1, sealed, gcm.AD{}) }, []*[]byte{&tag}, []*[]byte{&piece, &sealed}},
	} {
		beside := func(use func(b []byte), b *[]byte) bool {
			piece, ad = make([]byte, size/4), make([]byte, 100)
			text, sealed = make([]byte, size), make([]byte, size+gcm.TagSize)
			tag = sealed[size:]
			// What opens open: a failed one erases its outputs, which is Go code.
			switch {
			case strings.HasPrefix(c.name, "AEAD.Open"):
				aead.Seal(sealed[:0], nonce, text, ad)
			case strings.HasPrefix(c.name, "RecordKey.Open"):
				record.SealSplit(sealed, 1, nil, gcm.AD{})
			}
			err = nil
			before := runtime.RaceErrors()
			var other sync.WaitGroup
			other.Go(func() { use(*b) })
			c.call()
			other.Wait()
			return runtime.RaceErrors() > before
		}
		if beside(func([]byte) {}, &text) || err != nil {
			fmt.Printf("%s alone: a race, or %v\n", c.name, err)
		}
		for i, b := range c.in {
			if beside(read, b) {
				fmt.Printf("%s: reading input %d is reported\n", c.name, i)
			}
			if !beside(write, b) {
				fmt.Printf("%s: changing input %d is not reported\n", c.name, i)
			}
		}
		for i, b := range c.out {
			if !beside(read, b) {
				fmt.Printf("%s: reading output %d is not reported\n", c.name, i)
			}
			if !beside(write, b) {
				fmt.Printf("%s: changing output %d is not reported\n", c.name, i)
			}
		}
	}
	// Two calls of one key at once, each with buffers of its own.
	for name, call := range map[string]func(out []byte){
		"AEAD":      func(out []byte) { aead.Seal(out[:0], nonce, out[:size], nil) },
		"RecordKey": func(out []byte) { record.SealSplit(out, 1, nil, gcm.AD{}) },
	} {
		before := runtime.RaceErrors()
		var other sync.WaitGroup
		other.Go(func() { call(make([]byte, size+gcm.TagSize)) })
		call(make([]byte, size+gcm.TagSize))
		other.Wait()
		if reported := runtime.RaceErrors() > before; reported != (name == "RecordKey") {
			fmt.Printf("%s: two calls at once are reported: %v\n", name, reported)
		}
	}
	fmt.Println("done")
	os.Exit(0)
}

var sink byte
