package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A line is one object of the -json output.
type line struct {
	Op    string  `json:"op"`
	Suite string  `json:"suite"`
	Impl  string  `json:"impl"`
	Size  int     `json:"size"`
	NS    float64 `json:"ns"`
	GBps  float64 `json:"gbps"`
	Least float64 `json:"least"` // ns, of all rounds
}

// writeJSON prints one object for each cell.
func writeJSON(w io.Writer, results []*result) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range results {
		for _, c := range r.cells {
			err := e.Encode(line{
				Op: r.op, Suite: r.suite.suite.Name(), Impl: c.impl, Size: r.size,
				NS: round(r.ns(c), 1), GBps: significant(r.gbps(c)), Least: round(slices.Min(c.samples), 2),
			})
			if err != nil {
				return err
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// significant returns x with three significant digits.
func significant(x float64) float64 {
	if x == 0 {
		return 0
	}
	return round(x, 2-int(math.Floor(math.Log10(x))))
}

// writeTable prints one table for each suite and op: for each size the time of
// a call and how many times faster than crypto/cipher that is, below them the
// throughput at the largest size and the spread.
func writeTable(w io.Writer, results []*result, about string) error {
	var b bytes.Buffer
	b.WriteString(about + "\n")
	b.WriteString("ns for one call, and how many times as fast as crypto/cipher. spread: half the\n" +
		"distance between the quartiles of that ratio, or of crypto/cipher's times; the\n" +
		"largest of the column.\n")
	for _, t := range tables(results) {
		writeOneTable(&b, t)
		if len(t) >= denseSizes {
			writeCurves(&b, t)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// tables splits results where suite or op changes.
func tables(results []*result) [][]*result {
	var tables [][]*result
	for i, r := range results {
		if i == 0 || r.suite != results[i-1].suite || r.op != results[i-1].op {
			tables = append(tables, nil)
		}
		tables[len(tables)-1] = append(tables[len(tables)-1], r)
	}
	return tables
}

func writeOneTable(b *bytes.Buffer, rows []*result) {
	fmt.Fprintf(b, "\n%s  %s\n", rows[0].suite.name, rows[0].op)
	heading := "   size"
	for _, c := range rows[0].cells {
		heading += fmt.Sprintf("%16s", strings.TrimPrefix(c.impl, ourPrefix))
	}
	b.WriteString(heading + "\n")
	spread := make([]float64, len(rows[0].cells))
	for _, r := range rows {
		row := fmt.Sprintf("%7d", r.size)
		for i, c := range r.cells {
			if c.impl == cryptoCipher {
				row += fmt.Sprintf("%9s       ", formatNS(r.ns(c)))
			} else {
				row += fmt.Sprintf("%9s%6.2fx", formatNS(r.ns(c)), r.ratio(c))
			}
			spread[i] = max(spread[i], r.spread(c))
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	last := rows[len(rows)-1]
	footer := "   GB/s"
	for _, c := range last.cells {
		footer += fmt.Sprintf("%9.2f       ", last.gbps(c))
	}
	b.WriteString(strings.TrimRight(footer, " ") + "\n")
	footer = " spread"
	for _, s := range spread {
		footer += fmt.Sprintf("%9s       ", fmt.Sprintf("±%.1f%%", 100*s))
	}
	b.WriteString(strings.TrimRight(footer, " ") + "\n")
}

func formatNS(ns float64) string {
	if ns < 100 {
		return strconv.FormatFloat(ns, 'f', 1, 64)
	}
	return strconv.FormatFloat(ns, 'f', 0, 64)
}

// describe returns one line: Go, processor, date and command.
func describe(args []string) string {
	return fmt.Sprintf("%s %s/%s, %s, %s: %s", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		processor(), time.Now().Format(time.DateOnly), strings.Join(append([]string{"go run ./examples/throughput"}, args...), " "))
}

// processor returns the processor's name where the system tells it.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}
