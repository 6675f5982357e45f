package main

import (
	"fmt"
	"io"
	"slices"
)

// A table has a row a contender and a column a size, as Markdown.
type table struct {
	head                  []string
	least, median, faster [][]string
}

func newTable(list []contender) *table {
	t := &table{head: []string{""}}
	for _, c := range list {
		t.least = append(t.least, []string{c.name})
		t.median = append(t.median, []string{c.name})
		t.faster = append(t.faster, []string{c.name})
	}
	return t
}

// add adds a column, of times as measure returns them. The first contender is
// what the others are compared with.
func (t *table) add(n int, times [][]float64) {
	t.head = append(t.head, fmt.Sprint(n))
	for i, all := range times {
		t.least[i] = append(t.least[i], threeDigits(all[0]))
		t.median[i] = append(t.median[i], threeDigits(all[len(all)/2]))
		t.faster[i] = append(t.faster[i], fmt.Sprintf("%.2f", times[0][0]/all[0]))
	}
}

func threeDigits(v float64) string {
	if v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func (t *table) print(w io.Writer) {
	for _, part := range []struct {
		title string
		rows  [][]string
	}{
		{"least, ns", t.least},
		{"median, ns", t.median},
		{"how many times as fast as the first, by the least times", t.faster},
	} {
		fmt.Fprintf(w, "%s\n\n", part.title)
		line(w, t.head)
		line(w, slices.Repeat([]string{"---"}, len(t.head)))
		for _, row := range part.rows {
			line(w, row)
		}
		fmt.Fprintln(w)
	}
}

func line(w io.Writer, cells []string) {
	for _, c := range cells {
		fmt.Fprintf(w, "| %s ", c)
	}
	fmt.Fprintln(w, "|")
}
