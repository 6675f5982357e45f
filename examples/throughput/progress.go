package main

import (
	"fmt"
	"io"
	"time"
)

// progress is one line on a terminal that is written again and again.
type progress struct {
	w       io.Writer
	enabled bool
	start   time.Time
	shown   time.Time
	samples int
}

// show says what is being measured, unless it said something a moment ago.
func (p *progress) show(s spec, deadline time.Time, budget time.Duration) {
	now := time.Now()
	if !p.enabled || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	left := max(0, deadline.Sub(now))
	done := 100 * (1 - float64(left)/float64(budget))
	rate := float64(p.samples) / max(0.001, now.Sub(p.start).Seconds())
	// "\x1b[K" clears what a longer line before left behind.
	fmt.Fprintf(p.w, "\r%3.0f %%  %v left  %.0f samples/s  %s %s %d\x1b[K",
		done, left.Round(time.Second), rate, s.suite.name, s.op, s.size)
}

// clear removes the line.
func (p *progress) clear() {
	if p.enabled {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
