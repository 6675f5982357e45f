// Throughput measures how fast every backend that this machine can run seals and
// opens, compared with crypto/cipher and crypto/tls doing the same job:
//
//	go run ./examples/throughput -quick
//	go run ./examples/throughput -op record-seal,record-open -svg chart.svg
//	go run ./examples/throughput -op seal -suite AES-128-GCM -size 1-2048 -svg curves.svg
//
// It prints a table, or with -json one object per line, and draws a chart with
// -svg. Ctrl-C ends it early and prints what it has.
//
// All implementations of one op take turns in one thread and work in the same memory,
// so that noise hits them alike: absolute times belong to one machine at one moment;
// the ratios are what counts. A ratio is the median of the ratios of single rounds;
// the times of crypto/cipher are medians, and those of the others follow from them
// and the ratios. Only the quietest eighth of the rounds counts: those in which all
// together took least time. Before anything is timed, every op is compared with
// crypto/cipher's result at every size.
//
// # Curves
//
// With 40 sizes or more, as with -size 1-2048 or -size 16-2048/16, each gets a
// twelfth of the time. The chart then shows only the time of a call, on linear axes
// and without marks, and a line below each table says how linear it is. Both take the
// least of all rounds for each size: whatever else runs only adds to it, and a size
// that was never alone stands out from its neighbours. The rows of the table are made
// as always, but from fewer rounds, which shows in spread.
//
// # Ops
//
// The size is that of the content. Additional data is the five bytes of a
// record header, nonces have 12 bytes and tags 16. Everything is in the
// processor's caches.
//
//	seal           in place
//	split-seal     content from the caller's memory, content type in the output
//	copy-seal      the same text, copied to the output first and sealed in place
//	open           to other memory
//	split-open     content to the caller's memory, content type in place
//	gather-halves  two pieces to one output
//	gather-16      sixteen pieces to one output
//	newkey-seal    a new key and one seal in place
//	record-seal    a whole TLS 1.3 record, handed to a transport that drops it
//	record-open    a whole TLS 1.3 record, taken from a transport, content to the
//	               caller's memory
//
// Split-seal, copy-seal and split-open have a text of size + 1 bytes, the
// content type being the last. To compare a split seal with an in-place seal
// of the same text, measure seal at size + 1.
//
// crypto/cipher has no split seal and no gather, so there it copies to the output and
// seals in place, and it opens in place and copies the content out. Its records are
// made as in crypto/tls, without locks, alerts and limits. crypto/tls is a real
// tls.Conn after a real handshake.
//
// ChaCha20-Poly1305 has no kernels here: splitseal/portable is golang.org/x/crypto's
// behind package aead's adapter, and what is called crypto/cipher is the same AEAD
// used directly.
//
// The keys of newkey-seal are garbage at once; what the collector does about that
// counts if it falls into a sample. Ops below records use one nonce for all calls,
// which is safe only because the results are thrown away.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	terminal := false
	if info, err := os.Stderr.Stat(); err == nil {
		terminal = info.Mode()&os.ModeCharDevice != 0
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, terminal))
}

// Exit codes. Bad flags are 2, as in package flag.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// run is the program. terminal says that stderr is a terminal, and may show progress.
// It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, terminal bool) int {
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "throughput: %v\n", err)
		return code
	}
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errFlagsPrinted):
		return exitUsage
	case err != nil:
		return fail(exitUsage, err)
	}

	// Opened now, so that a path that cannot be written fails before minutes
	// of measuring.
	var chart *os.File
	if o.svg != "" {
		if chart, err = os.Create(o.svg); err != nil {
			return fail(exitUsage, err)
		}
		defer chart.Close()
	}

	p := &progress{w: stderr, enabled: terminal, start: time.Now()}
	r, err := measure(ctx, o.plan, p)
	p.clear()
	if err != nil {
		return fail(exitFailed, err)
	}

	about := describe(args)
	if ctx.Err() != nil {
		// Fewer rounds than asked for, perhaps none for some: nothing to keep.
		about += " (interrupted)"
	}
	if o.json {
		err = writeJSON(stdout, r)
	} else {
		err = writeTable(stdout, r, about)
	}
	if err == nil && chart != nil {
		_, err = chart.Write(drawSVG(r, about))
		err = errors.Join(err, chart.Close())
	}
	if err != nil {
		return fail(exitFailed, err)
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return 0
}
