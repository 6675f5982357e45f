package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// newCurves returns results of sizes 1 to last, of which each implementation
// takes ns(size) in its best round, and more in others.
func newCurves(op string, last int, impls string, ns ...func(size float64) float64) []*result {
	var rows []*result
	for size := 1; size <= last; size++ {
		var samples [][]float64
		for _, f := range ns {
			v := f(float64(size))
			samples = append(samples, []float64{v + 3, v, v + 1})
		}
		rows = append(rows, newResult(op, size, impls, samples...))
	}
	return rows
}

// linear takes b for each byte, and a.
func linear(a, b float64) func(size float64) float64 {
	return func(size float64) float64 { return a + b*size }
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestFit(t *testing.T) {
	rows := newCurves("seal", 100, "splitseal/vaes crypto/cipher", linear(20, 0.125), linear(90, 0.25))
	points := curve(rows, "splitseal/vaes")
	if len(points) != 100 || points[9] != (point{10, 21.25}) {
		t.Fatalf("%d points, the tenth %v: want the least of the rounds", len(points), points[9])
	}
	if a, b := fit(points); !near(a, 20) || !near(b, 0.125) {
		t.Errorf("fit %v + %v a byte", a, b)
	}
	if p := farthest(points, 20, 0.125); p.ns != 0 {
		t.Errorf("a point of the line is %v off", p)
	}
	if p := fall(points); p != (point{}) {
		t.Errorf("a rising line falls by %v", p)
	}

	points[29].ns -= 3 // size 30
	points[39].ns += 2
	if p := farthest(points, 20, 0.125); p.size != 30 || !near(p.ns, -3) {
		t.Errorf("farthest %v, want 30 by -3", p)
	}
	if p := fall(points); p.size != 29 || !near(p.ns, 3-0.125) {
		t.Errorf("falls by %v, want 2.875 from 29 to 30", p)
	}
	points[39].ns += 2
	if p := fall(points); p.size != 40 || !near(p.ns, 4-0.125) {
		t.Errorf("falls by %v, want 3.875 from 40 to 41", p)
	}
	if points := curve(rows, cryptoTLS); points != nil {
		t.Errorf("points %v of nobody", points)
	}
}

// TestFitIsLeast compares the fit of a bent curve with lines beside it.
func TestFitIsLeast(t *testing.T) {
	points := curve(newCurves("seal", 50, cryptoCipher, func(size float64) float64 { return size * size }), cryptoCipher)
	squares := func(a, b float64) float64 {
		var sum float64
		for _, p := range points {
			sum += (p.ns - a - b*p.size) * (p.ns - a - b*p.size)
		}
		return sum
	}
	a, b := fit(points)
	for _, d := range [][2]float64{{0.1, 0}, {-0.1, 0}, {0, 0.01}, {0, -0.01}} {
		if squares(a+d[0], b+d[1]) <= squares(a, b) {
			t.Errorf("%v + %v a byte is nearer than %v + %v", a+d[0], b+d[1], a, b)
		}
	}
}

func TestCurvesTable(t *testing.T) {
	rows := newCurves("seal", denseSizes, "splitseal/vaes crypto/cipher", linear(20, 0.125), linear(80, 0.25))
	rows[9].cells[1].samples[1] += 4 // size 10: 83.5 in the best round, not 82.5
	for i := range 3 {
		rows[19].cells[0].samples[i] -= 2 // size 20: 20.5, not 22.5
	}
	var b bytes.Buffer
	if err := writeTable(&b, rows, "about this run"); err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(b.String(), "\n spread")
	_, below, _ = strings.Cut(below, "\n")
	want := `    fit    19.9+0.1252n    80.1+0.2480n
    off      -1.9 at 20      +1.0 at 10
  falls       1.9 at 19       0.8 at 10
`
	if !strings.HasPrefix(below, want) {
		t.Errorf("got\n%s\nwant\n%s", below, want)
	}
	if !strings.Contains(below, fmt.Sprintf("the least of 3 to 3 rounds at each of %d\nsizes", denseSizes)) {
		t.Errorf("nothing about rounds and sizes: %s", below)
	}

	b.Reset()
	if err := writeTable(&b, rows[:denseSizes-1], "about this run"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "fit") {
		t.Errorf("a curve of %d sizes", denseSizes-1)
	}
}

// TestCurves draws the largest curves that the documentation has, and looks at
// where their lines begin and end.
func TestCurves(t *testing.T) {
	rows := newCurves("seal", 2048, "splitseal/vaes crypto/cipher", linear(20, 0.125), linear(100, 0.25))
	rows[1023].cells[0].samples = []float64{512, 500, 612} // size 1024: 500 in the best round
	svg := string(drawSVG(rows, "about"))
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if len(svg) > 40<<10 {
		t.Errorf("a chart of %d bytes", len(svg))
	}
	if n := strings.Count(svg, `class="axis"`); n != 2 {
		t.Errorf("%d panels, want 2", n)
	}
	// One mark for each line, and one in the legend.
	if n := strings.Count(svg, "translate("); n != 2*2+2 {
		t.Errorf("%d marks", n)
	}
	// The slowest takes 612 ns of an axis of 800 on the left, 164 of 200 on the
	// right; the sizes are from 0 to 2048 and to 256.
	bottom := float64(headSize + panelTop + curvesPanel)
	at := func(left, width, size, mostSize, ns, mostNS float64) [2]float64 {
		return [2]float64{left + width*size/mostSize, bottom - curvesPanel*ns/mostNS}
	}
	whole := func(size, ns float64) [2]float64 { return at(marginLeft, wholeWidth, size, 2048, ns, 800) }
	start := func(size, ns float64) [2]float64 {
		return at(marginLeft+wholeWidth+curvesBetween, startWidth, size, 256, ns, 200)
	}
	for impl, want := range map[string][2][][2]float64{
		"splitseal/vaes": {{whole(1, 20.125), whole(1024, 500), whole(2048, 276)}, {start(1, 20.125), start(256, 52)}},
		cryptoCipher:     {{whole(1, 100.25), whole(2048, 612)}, {start(1, 100.25), start(256, 164)}},
	} {
		lines := regexp.MustCompile(fmt.Sprintf(`<path class="line s%d" style="[^"]*" stroke-dasharray="[^"]*" d="([^"]*)"`, lookIndex(impl))).FindAllStringSubmatch(svg, -1)
		if len(lines) != 2 {
			t.Fatalf("%d lines of %s, want 2", len(lines), impl)
		}
		for i, points := range want {
			got := trace(t, lines[i][1])
			for _, p := range points {
				if !slices.ContainsFunc(got, func(q [2]float64) bool { return math.Hypot(p[0]-q[0], p[1]-q[1]) < 0.11 }) {
					t.Errorf("%s, panel %d: no point at %.1f", impl, i, p)
				}
			}
			if first, last := got[0], got[len(got)-1]; math.Hypot(first[0]-points[0][0], first[1]-points[0][1]) > 0.11 ||
				math.Hypot(last[0]-points[len(points)-1][0], last[1]-points[len(points)-1][1]) > 0.11 {
				t.Errorf("%s, panel %d: from %.1f to %.1f", impl, i, first, last)
			}
		}
	}
}

func TestPolyline(t *testing.T) {
	for _, tt := range []struct {
		points []point
		want   string
	}{
		{[]point{{56.04, 0.3}}, "M56,.3"},
		{[]point{{10, 20}, {10.26, 19.9}, {10.5, 120.5}}, "M10,20l.3-.1l.2,100.6"},
		// Errors do not add up.
		{[]point{{0, 9}, {0.14, 8}, {0.28, 9}, {0.42, 8}}, "M0,9l.1-1l.2,1l.1-1"},
		// A level stretch has two ends, wherever it is.
		{[]point{{0, 5}, {1, 5}, {2, 5.02}, {3, 5}, {4, 6}}, "M0,5l3,0l1,1"},
		{[]point{{0, 4}, {1, 5}, {2, 5}, {3, 5}}, "M0,4l1,1l2,0"},
	} {
		if got := polyline(tt.points); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.points, got, tt.want)
		}
	}
}

// trace returns the points of a polyline.
func trace(t *testing.T, d string) [][2]float64 {
	t.Helper()
	var at [2]float64
	var points [][2]float64
	for _, m := range regexp.MustCompile(`[Ml](-?[0-9.]+),?(-?[0-9.]+)`).FindAllStringSubmatch(d, -1) {
		x, errX := strconv.ParseFloat(m[1], 64)
		y, errY := strconv.ParseFloat(m[2], 64)
		if err := errors.Join(errX, errY); err != nil {
			t.Fatalf("%q in a path: %v", m[0], err)
		}
		at[0] += x
		at[1] += y
		points = append(points, at)
	}
	return points
}
