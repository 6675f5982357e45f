package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A point of a curve is the time of one call at one size: the least of all
// rounds, because whatever else a machine does only adds to it.
type point struct{ size, ns float64 }

// curve returns the points of one implementation, in the order of the sizes.
func curve(rows []*result, impl string) []point {
	var points []point
	for _, r := range rows {
		for _, c := range r.cells {
			if c.impl == impl {
				points = append(points, point{float64(r.size), slices.Min(c.samples)})
			}
		}
	}
	return points
}

// fit returns the line a + b·size for which the sum of the squares of the points'
// distances is least.
func fit(points []point) (a, b float64) {
	n := float64(len(points))
	var size, ns, above, below float64
	for _, p := range points {
		size += p.size / n
		ns += p.ns / n
	}
	for _, p := range points {
		above += (p.size - size) * (p.ns - ns)
		below += (p.size - size) * (p.size - size)
	}
	b = above / below
	return ns - b*size, b
}

// farthest returns the point that is farthest from the line a + b·size, with
// its distance in place of its time.
func farthest(points []point, a, b float64) point {
	var off []point
	for _, p := range points {
		off = append(off, point{p.size, p.ns - (a + b*p.size)})
	}
	return slices.MaxFunc(off, func(p, q point) int { return cmp.Compare(math.Abs(p.ns), math.Abs(q.ns)) })
}

// fall returns the most that time falls by from a size to any longer one, with
// the size it falls from. It is 0 where time never falls.
func fall(points []point) point {
	var worst point
	least := math.Inf(1) // of all that are longer
	for _, p := range slices.Backward(points) {
		if p.ns-least > worst.ns {
			worst = point{p.size, p.ns - least}
		}
		least = min(least, p.ns)
	}
	return worst
}

// writeCurves prints what describes the curves, below their table.
func writeCurves(b *bytes.Buffer, rows []*result) {
	lines := [3]string{"    fit", "    off", "  falls"}
	fewest, most := math.MaxInt, 0
	for _, r := range rows {
		rounds := len(r.cells[0].samples)
		fewest, most = min(fewest, rounds), max(most, rounds)
	}
	for _, impl := range implementationsIn(rows) {
		points := curve(rows, impl)
		a, slope := fit(points)
		off, falls := farthest(points, a, slope), fall(points)
		lines[0] += fmt.Sprintf("%16s", fmt.Sprintf("%.1f+%.4fn", a, slope))
		lines[1] += fmt.Sprintf("%16s", fmt.Sprintf("%+.1f at %.0f", off.ns, off.size))
		lines[2] += fmt.Sprintf("%16s", fmt.Sprintf("%.1f at %.0f", falls.ns, falls.size))
	}
	fmt.Fprintf(b, "%s\n", strings.Join(lines[:], "\n"))
	fmt.Fprintf(b, "fit: ns as a line of the size n, of the least of %d to %d rounds at each of %d\n"+
		"sizes. off: how far from it the farthest is. falls: how much more a size takes\n"+
		"than a longer one, at most.\n", fewest, most, len(rows))
}

// Sizes in pixels.
const (
	curvesHeight  = 384 // of a row
	wholeWidth    = 500 // of the panel with all sizes
	startWidth    = 284 // of the panel with the first eighth of them
	curvesPanel   = 300 // the height of both
	curvesBetween = 64
)

// drawCurves draws time against size, both linear: all sizes, and the first eighth of
// them enlarged. A line has a mark only at its end.
func drawCurves(b *bytes.Buffer, rows []*result, impls []string, top int) {
	whole := panel{marginLeft, top + panelTop, wholeWidth, curvesPanel}
	start := panel{whole.left + wholeWidth + curvesBetween, whole.top, startWidth, curvesPanel}
	first, last := float64(rows[0].size), float64(rows[len(rows)-1].size)
	eighth := first + math.Floor((last-first)/8)
	text(b, whole.left, top+38, "", "time of a call in ns, the least of all rounds, against bytes")
	text(b, start.left, top+38, "", fmt.Sprintf("the same up to %.0f bytes", eighth))
	drawCurvesTo(b, rows, impls, whole, last)
	drawCurvesTo(b, rows, impls, start, eighth)
}

// drawCurvesTo draws the sizes up to last in p.
func drawCurvesTo(b *bytes.Buffer, rows []*result, impls []string, p panel, last float64) {
	curves := make(map[string][]point)
	slowest := 0.0
	for _, impl := range impls {
		curves[impl] = slices.DeleteFunc(curve(rows, impl), func(p point) bool { return p.size > last })
		for _, p := range curves[impl] {
			slowest = max(slowest, p.ns)
		}
	}
	px, py := p.draw(b, lengthAxis(float64(rows[0].size), last), linearAxis(0, slowest))
	for _, impl := range slices.Backward(impls) {
		points := curves[impl]
		if len(points) == 0 {
			continue
		}
		for i, p := range points {
			points[i] = point{px(p.size), py(p.ns)}
		}
		fmt.Fprintf(b, `<path class="line s%d" style="stroke-width:1.3" stroke-dasharray="%s" d="%s"/>`, lookIndex(impl), looks[impl].dash, polyline(points))
		mark(b, impl, points[len(points)-1].size, points[len(points)-1].ns)
		b.WriteString("\n")
	}
}

// polyline returns the data of a path through points in pixels, to a tenth of
// one. Points within a level stretch are left out, and whatever else a path can
// do without, so that a file has room for thousands of sizes.
func polyline(points []point) string {
	type tenths struct{ x, y int }
	at := func(i int) tenths {
		return tenths{int(math.Round(10 * points[i].size)), int(math.Round(10 * points[i].ns))}
	}
	before := at(0)
	d := fmt.Appendf(nil, "M%g,%g", float64(before.x)/10, float64(before.y)/10)
	for i := 1; i < len(points); i++ {
		p := at(i)
		if i+1 < len(points) && p.y == before.y && at(i+1).y == p.y {
			continue
		}
		d = fmt.Appendf(d, "l%g,%g", float64(p.x-before.x)/10, float64(p.y-before.y)/10)
		before = p
	}
	return shorter.Replace(string(d))
}

// shorter leaves out zeros before a decimal point, and commas before a sign.
var shorter = strings.NewReplacer("l0.", "l.", "l-0.", "l-.", ",0.", ",.", ",-0.", "-.", ",-", "-")

// lengthAxis is linear, with at most eight steps of a power of two. It starts
// at zero if the least size is within its first step.
func lengthAxis(least, most float64) axis {
	step := 1.0
	for step*8 < most-least {
		step *= 2
	}
	low := least
	if low < step {
		low = 0
	}
	a := axis{
		at:    func(v float64) float64 { return (v - low) / (most - low) },
		label: func(v float64) string { return strconv.Itoa(int(v)) },
	}
	for v := math.Ceil(low/step) * step; v <= most; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}
