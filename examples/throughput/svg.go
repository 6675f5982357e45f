package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// drawSVG draws one row for each suite and op: throughput on the left, time on the
// right, against the size; for many sizes, the curves of time. Each implementation
// has one line. Colours follow the reader's choice of light or dark; marks and dashes
// tell the lines apart without them.
func drawSVG(results []*result, about string) []byte {
	rows := tables(results)
	impls := implementationsIn(results)
	height := headSize + 16
	for _, rows := range rows {
		height += heightOf(rows)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<title>Throughput and time against size</title>\n<desc>%s</desc>\n", html.EscapeString(about))
	b.WriteString(style())
	fmt.Fprintf(&b, `<rect class="paper" width="%d" height="%d"/>`+"\n", chartWidth, height)
	text(&b, marginLeft, 24, "about", shorten(about, 140))
	drawLegend(&b, impls)
	top := headSize
	for _, rows := range rows {
		text(&b, marginLeft, top+20, "title", rows[0].suite.name+", "+rows[0].op)
		if len(rows) >= denseSizes {
			drawCurves(&b, rows, impls, top)
		} else {
			drawRow(&b, rows, impls, top)
		}
		top += heightOf(rows)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// heightOf returns the height of a row of the chart.
func heightOf(rows []*result) int {
	if len(rows) >= denseSizes {
		return curvesHeight
	}
	return rowHeight
}

// Sizes in pixels.
const (
	chartWidth  = 920
	headSize    = 72
	rowHeight   = 300
	marginLeft  = 56 // of a panel, for the numbers
	panelWidth  = 380
	panelHeight = 210
	panelTop    = 44 // from the top of the row
)

// A look tells one line from the others.
type look struct {
	light, dark string // colours, from the Okabe-Ito palette, lightened for dark
	dash        string
	mark        string // a path around 0,0
}

var (
	looks = map[string]look{
		"splitseal/avx512":   {"#0072b2", "#56b4e9", "", "M-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z"},
		"splitseal/vaes":     {"#009e73", "#2fd0a5", "", "M-3.5,-3.5h7v7h-7z"},
		"splitseal/aesni":    {"#b8860b", "#f0c94c", "", "M0,-4.5L4.5,3.5H-4.5z"},
		"splitseal/portable": {"#a0408a", "#dd90c4", "", "M0,-5L5,0L0,5L-5,0z"},
		cryptoCipher:         {"#555555", "#b8b8b8", "6 3", "M-4,-4L4,4M-4,4L4,-4"},
		cryptoTLS:            {"#d55e00", "#ff9350", "2 3", "M-4.5,0H4.5M0,-4.5V4.5"},
	}
	lookOrder = []string{"splitseal/avx512", "splitseal/vaes", "splitseal/aesni", "splitseal/portable", cryptoCipher, cryptoTLS}
)

func style() string {
	var light, dark strings.Builder
	for i, impl := range lookOrder {
		l := looks[impl]
		fmt.Fprintf(&light, ".s%d{stroke:%s}.s%d .mark,.m%d{fill:%s;stroke:%s}", i, l.light, i, i, l.light, l.light)
		fmt.Fprintf(&dark, ".s%d{stroke:%s}.s%d .mark,.m%d{fill:%s;stroke:%s}", i, l.dark, i, i, l.dark, l.dark)
	}
	return `<style>
text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:14px}.about{fill:#57606a}
.paper{fill:#ffffff}.grid{stroke:#d8dee4}.axis{stroke:#57606a}.line{fill:none;stroke-width:2}
` + light.String() + `
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.about{fill:#9da7b3}
.paper{fill:#0d1117}.grid{stroke:#30363d}.axis{stroke:#9da7b3}
` + dark.String() + `}
</style>
`
}

// shorten returns at most n characters of s.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// implementationsIn returns those that have a line, in the order of the legend.
func implementationsIn(results []*result) []string {
	return slices.DeleteFunc(slices.Clone(lookOrder), func(impl string) bool {
		return !slices.ContainsFunc(results, func(r *result) bool {
			return slices.ContainsFunc(r.cells, func(c *cell) bool { return c.impl == impl })
		})
	})
}

func drawLegend(b *bytes.Buffer, impls []string) {
	x := marginLeft
	for _, impl := range impls {
		fmt.Fprintf(b, `<path class="line s%d" stroke-dasharray="%s" d="M%d,46h28"/>`, lookIndex(impl), looks[impl].dash, x)
		mark(b, impl, float64(x+14), 46)
		text(b, x+34, 50, "", impl)
		x += 50 + 7*len(impl)
	}
	b.WriteString("\n")
}

func lookIndex(impl string) int { return slices.Index(lookOrder, impl) }

func mark(b *bytes.Buffer, impl string, x, y float64) {
	fmt.Fprintf(b, `<path class="m%d" transform="translate(%.1f,%.1f)" d="%s"/>`, lookIndex(impl), x, y, looks[impl].mark)
}

func text(b *bytes.Buffer, x, y int, class, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, html.EscapeString(s))
}

// drawRow draws one suite and op at the given height.
func drawRow(b *bytes.Buffer, rows []*result, impls []string, top int) {
	text(b, marginLeft, top+38, "", "throughput, GB/s")
	text(b, chartWidth/2+marginLeft, top+38, "", "time of a call")
	left := panel{marginLeft, top + panelTop, panelWidth, panelHeight}
	right := left
	right.left += chartWidth / 2
	drawMarked(b, rows, impls, left, linearAxis, func(r *result, c *cell) float64 { return r.gbps(c) })
	drawMarked(b, rows, impls, right, timeAxis, func(r *result, c *cell) float64 { return r.ns(c) })
}

// An axis maps values to 0..1, from the bottom up, and says where its ticks are.
type axis struct {
	at    func(v float64) float64
	ticks []float64
	label func(v float64) string
}

// A panel is where axes are, in pixels.
type panel struct{ left, top, width, height int }

// draw draws axes and a grid. It returns where a value is.
func (p panel) draw(b *bytes.Buffer, xAxis, yAxis axis) (px, py func(v float64) float64) {
	px = func(v float64) float64 { return float64(p.left) + float64(p.width)*xAxis.at(v) }
	py = func(v float64) float64 { return float64(p.top) + float64(p.height)*(1-yAxis.at(v)) }
	for _, v := range yAxis.ticks {
		fmt.Fprintf(b, `<path class="grid" d="M%d,%.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			p.left, py(v), p.width, p.left-8, py(v)+4, yAxis.label(v))
	}
	for _, v := range xAxis.ticks {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f,%dv%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			px(v), p.top, p.height, px(v), p.top+p.height+18, xAxis.label(v))
	}
	fmt.Fprintf(b, `<path class="axis" fill="none" d="M%d,%dv%dh%d"/>`+"\n", p.left, p.top, p.height, p.width)
	return px, py
}

// drawMarked draws lines with a mark at each size.
func drawMarked(b *bytes.Buffer, rows []*result, impls []string, p panel, newAxis func(least, most float64) axis, value func(*result, *cell) float64) {
	least, most := math.Inf(1), 0.0
	for _, r := range rows {
		for _, c := range r.cells {
			least, most = min(least, value(r, c)), max(most, value(r, c))
		}
	}
	px, py := p.draw(b, sizeAxis(rows), newAxis(least, most))

	// The last one drawn lies on top, and the first of the list is the best.
	for _, impl := range slices.Backward(impls) {
		var d strings.Builder
		var marks bytes.Buffer
		for _, r := range rows {
			i := slices.IndexFunc(r.cells, func(c *cell) bool { return c.impl == impl })
			if i < 0 {
				continue
			}
			x, y := px(float64(r.size)), py(value(r, r.cells[i]))
			fmt.Fprintf(&d, "%c%.1f,%.1f", "ML"[min(d.Len(), 1)], x, y)
			mark(&marks, impl, x, y)
		}
		if d.Len() > 0 {
			fmt.Fprintf(b, `<path class="line s%d" stroke-dasharray="%s" d="%s"/>%s`+"\n", lookIndex(impl), looks[impl].dash, d.String(), marks.String())
		}
	}
}

// sizeAxis is logarithmic, with a tick for every second power of two.
func sizeAxis(rows []*result) axis {
	least, most := math.Log2(float64(rows[0].size)), math.Log2(float64(rows[len(rows)-1].size))
	if most-least < 1 {
		least, most = least-0.5, most+0.5
	}
	a := axis{
		at: func(v float64) float64 { return (math.Log2(v) - least) / (most - least) },
		label: func(v float64) string {
			if v >= 1024 {
				return strconv.Itoa(int(v)/1024) + " KiB"
			}
			return strconv.Itoa(int(v))
		},
	}
	for e := 0; e <= 14; e += 2 {
		if v := float64(int(1) << e); a.at(v) >= 0 && a.at(v) <= 1 {
			a.ticks = append(a.ticks, v)
		}
	}
	return a
}

// linearAxis starts at zero.
func linearAxis(_, most float64) axis {
	// The least step of 1, 2 or 5 times a power of ten that needs at most five.
	step := math.Pow(10, math.Floor(math.Log10(most/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step*m*5 >= most {
			step *= m
			break
		}
	}
	top := math.Ceil(most/step) * step
	a := axis{
		at:    func(v float64) float64 { return v / top },
		label: func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
	}
	for i := 0; float64(i)*step <= top+step/2; i++ {
		a.ticks = append(a.ticks, float64(i)*step)
	}
	return a
}

// timeAxis is logarithmic, with ticks at 1, 2 and 5 times the powers of ten.
func timeAxis(least, most float64) axis {
	low, high := math.Log10(least)-0.05, math.Log10(most)+0.05
	a := axis{
		at: func(v float64) float64 { return (math.Log10(v) - low) / (high - low) },
		label: func(v float64) string {
			if v >= 1000 {
				return strconv.FormatFloat(v/1000, 'g', 4, 64) + " µs"
			}
			return strconv.FormatFloat(v, 'g', 4, 64) + " ns"
		},
	}
	for e := math.Floor(low); e <= high; e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); a.at(v) >= 0 && a.at(v) <= 1 {
				a.ticks = append(a.ticks, v)
			}
		}
	}
	return a
}
