package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/splitseal/internal/asm"
	"example.com/splitseal/internal/require"
)

func mustParse(t *testing.T, args ...string) options {
	t.Helper()
	o, err := parse(args, io.Discard)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return o
}

func TestFilters(t *testing.T) {
	o := mustParse(t, "-op", "record-open, seal", "-size", "1350,64,64", "-suite", "aes-256-gcm,TLS_CHACHA20_POLY1305_SHA256", "-backend", "splitseal/portable")
	var got []string
	for _, s := range o.plan.specs {
		got = append(got, fmt.Sprint(s.suite.name, " ", s.op, " ", s.size))
	}
	want := []string{
		"AES-256-GCM seal 64", "AES-256-GCM seal 1350", "AES-256-GCM record-open 64", "AES-256-GCM record-open 1350",
		"ChaCha20-Poly1305 seal 64", "ChaCha20-Poly1305 seal 1350", "ChaCha20-Poly1305 record-open 64", "ChaCha20-Poly1305 record-open 1350",
	}
	if !slices.Equal(got, want) {
		t.Errorf("specs %q, want %q", got, want)
	}
	if b := o.plan.backends; len(b) != 1 || b[0] != asm.Portable {
		t.Errorf("backends %v, want portable", b)
	}

	all := mustParse(t)
	if n := len(all.plan.specs); n != len(opNames)*len(cipherSuites)*len(defaultSizes) {
		t.Errorf("%d specs without filters", n)
	}
	quick := mustParse(t, "-quick")
	if n := len(quick.plan.specs); n != len(opNames)*len(cipherSuites)*len(quickSizes) {
		t.Errorf("%d specs with -quick", n)
	}
	if quick.plan.budget > quickBudget {
		t.Errorf("-quick takes %v", quick.plan.budget)
	}
	if b := mustParse(t, "-quick", "-op", "seal", "-size", "64").plan.budget; b >= 10*time.Second {
		t.Errorf("-quick for one op at one size takes %v", b)
	}
	if b := mustParse(t, "-time", "3s").plan.budget; b != 3*time.Second {
		t.Errorf("-time 3s takes %v", b)
	}
}

func TestSizes(t *testing.T) {
	for list, want := range map[string][]int{
		"64":                {64},
		"1350, 64,64":       {64, 1350},
		"1-4":               {1, 2, 3, 4},
		"7-7":               {7},
		"16-64/16":          {16, 32, 48, 64},
		"16-63/16":          {16, 32, 48},
		"3-5/16384":         {3},
		"16383-16384":       {16383, 16384},
		"5, 1 - 9 / 4,8-10": {1, 5, 8, 9, 10},
	} {
		if got, err := parseSizes(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: sizes %v, error %v; want %v", list, got, err, want)
		}
	}
	all, err := parseSizes("1-16384")
	if err != nil || len(all) != 16384 || all[0] != 1 || all[16383] != 16384 {
		t.Errorf("%d sizes, error %v", len(all), err)
	}
}

// TestBudget: more sizes get less time each, and fewer passes if it is short.
func TestBudget(t *testing.T) {
	cells := time.Duration(len(implementations(spec{"seal", cipherSuites[0], 1}, mustParse(t).plan.backends)))
	for _, tt := range []struct {
		args   string
		budget time.Duration
		passes int
	}{
		{"-size 1-39", 39 * cells * defaultCellTime, passCount},
		{"-size 1-40", 40 * cells * denseCellTime, int(cells * denseCellTime / minTurn)},
		{"-size 1-2048", 2048 * cells * denseCellTime, int(cells * denseCellTime / minTurn)},
		{"-size 1-2048 -quick", min(quickBudget, 2048*cells*quickCellTime), 4},
		{"-size 1-2048 -time 5m", 5 * time.Minute, 48},
		{"-size 64 -time 1s", time.Second, passCount},
		{"-size 1-2048 -time 1s", time.Second, 1},
		{"-quick", 5 * cells * quickCellTime, passCount},
	} {
		p := mustParse(t, append(strings.Fields(tt.args), "-op", "seal", "-suite", "AES-128-GCM")...).plan
		if p.budget != tt.budget || p.passes != tt.passes {
			t.Errorf("%s: %d passes in %v, want %d in %v", tt.args, p.passes, p.budget, tt.passes, tt.budget)
		}
	}
	// Ten ops have as many specs as one op of ten times the sizes.
	if p := mustParse(t, "-size", "1-39").plan; p.budget < time.Duration(len(p.specs))*2*defaultCellTime {
		t.Errorf("39 sizes of all ops take %v", p.budget)
	}
}

// TestChaChaNeedsPortable: kernels are for AES-GCM only.
func TestChaChaNeedsPortable(t *testing.T) {
	specs, err := selectSpecs("", "", "64", false, []asm.Backend{asm.VAES, asm.AESNI})
	if err != nil || slices.ContainsFunc(specs, func(s spec) bool { return s.suite.isChaCha() }) {
		t.Errorf("specs %v, error %v", specs, err)
	}
	if _, err := selectSpecs("", "ChaCha20-Poly1305", "64", false, []asm.Backend{asm.VAES, asm.AESNI}); err == nil {
		t.Error("no error although there is nothing to measure")
	}
}

func TestImplementations(t *testing.T) {
	backends := []asm.Backend{asm.AVX512, asm.VAES, asm.AESNI, asm.Portable}
	for _, tt := range []struct {
		op    string
		suite int
		want  string
	}{
		{"split-seal", 0, "splitseal/avx512 splitseal/vaes splitseal/aesni splitseal/portable crypto/cipher"},
		{"record-open", 1, "splitseal/avx512 splitseal/vaes splitseal/aesni splitseal/portable crypto/cipher crypto/tls"},
		{"seal", 2, "splitseal/portable crypto/cipher"},
		{"record-seal", 2, "splitseal/portable crypto/cipher crypto/tls"},
	} {
		got := strings.Join(implementations(spec{tt.op, cipherSuites[tt.suite], 64}, backends), " ")
		if got != tt.want {
			t.Errorf("%s %s: %s, want %s", cipherSuites[tt.suite].name, tt.op, got, tt.want)
		}
	}
}

func TestBadFlags(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "chart.svg")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-op", "sael"}, `unknown op "sael": there are seal, split-seal,`},
		{[]string{"-op", "seal,"}, `unknown op ""`},
		{[]string{"-op", ""}, "-op is empty"},
		{[]string{"-suite", "AES-192-GCM"}, `unknown suite "AES-192-GCM": there are AES-128-GCM,`},
		{[]string{"-backend", "neon"}, `unknown backend "neon": there are avx512,`},
		{[]string{"-size", "0"}, `size "0" is not a number from 1 to 16384`},
		{[]string{"-size", "16385"}, "16385"},
		{[]string{"-size", "1k"}, `"1k"`},
		{[]string{"-size", "-5"}, `range "-5": size "" is not a number from 1 to 16384`},
		{[]string{"-size", "64,5-"}, `range "5-": size "" is not a number from 1 to 16384`},
		{[]string{"-size", "0-5"}, `range "0-5": size "0" is not a number from 1 to 16384`},
		{[]string{"-size", "1-16385"}, `range "1-16385": size "16385" is not a number from 1 to 16384`},
		{[]string{"-size", "1-2-3"}, `range "1-2-3": size "2-3" is not a number from 1 to 16384`},
		{[]string{"-size", "2048-1"}, `range "2048-1": the last size is less than the first`},
		{[]string{"-size", "1-9/0"}, `range "1-9/0": step "0" is not a number from 1 to 16384`},
		{[]string{"-size", "1-9/"}, `range "1-9/": step "" is not a number from 1 to 16384`},
		{[]string{"-size", "1-9/2/2"}, `range "1-9/2/2": step "2/2" is not a number from 1 to 16384`},
		{[]string{"-size", "64/16"}, `size "64/16" is not a number from 1 to 16384`},
		{[]string{"-time", "-1s"}, "-time must be positive"},
		{[]string{"-time", "1s", "-quick"}, "exclude each other"},
		{[]string{"-time", "soon"}, "invalid value"},
		{[]string{"-fast"}, "flag provided but not defined: -fast"},
		{[]string{"seal"}, `unexpected argument "seal"`},
		{[]string{"-svg", missing}, missing},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), tt.args, &stdout, &stderr, false)
		if code != exitUsage || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q; want code 2 and %q", tt.args, code, stdout.String(), stderr.String(), tt.want)
		}
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, io.Discard, &stderr, false); code != 0 || !strings.Contains(stderr.String(), "-quick") {
		t.Errorf("-h: exit code %d, stderr %q", code, stderr.String())
	}
}

// TestBackendNotHere asks for a backend that is known and missing.
func TestBackendNotHere(t *testing.T) {
	here := []asm.Backend{asm.AESNI, asm.Portable}
	if _, err := selectBackends("avx512", here); err == nil || !strings.Contains(err.Error(), "backend avx512 cannot run here: this build on this machine has aesni, portable") {
		t.Errorf("error %v", err)
	}
	got, err := selectBackends("portable,splitseal/aesni", here)
	if err != nil || len(got) != 2 || got[0] != asm.AESNI || got[1] != asm.Portable {
		t.Errorf("backends %v, error %v", got, err)
	}
}

// TestRunnableBackends fails where the test run declares a backend that this
// program would not measure.
func TestRunnableBackends(t *testing.T) {
	backends := asm.Backends()
	var names []string
	for _, b := range backends {
		names = append(names, b.String())
		if !slices.Contains(backendNames, b.String()) {
			t.Errorf("-backend does not know %q", b.String())
		}
		if _, ok := looks[ourPrefix+b.String()]; !ok {
			t.Errorf("the chart has no line for %q", b.String())
		}
	}
	require.Backends(t, names)
	if len(names) == 0 || names[len(names)-1] != "portable" {
		t.Errorf("backends %v, want portable last", names)
	}
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		samples []float64
		q, want float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{3, 1}, 0.5, 2},
		{[]float64{5, 1, 3}, 0.5, 3},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{1, 2, 3, 4, 5}, 0.25, 2},
		{[]float64{1, 2, 3, 4, 5}, 0.75, 4},
		{[]float64{1, 2, 3, 4, 5}, 1, 5},
		{[]float64{1, 2, 3, 4, 5}, 0, 1},
	} {
		before := slices.Clone(tt.samples)
		if got := quantile(tt.samples, tt.q); got != tt.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", tt.samples, tt.q, got, tt.want)
		}
		if !slices.Equal(before, tt.samples) {
			t.Errorf("quantile changed its samples %v", before)
		}
	}
}

// newResult returns a result with the given samples, crypto/cipher's last.
func newResult(op string, size int, impls string, samples ...[]float64) *result {
	r := &result{spec: spec{op, cipherSuites[0], size}}
	for i, impl := range strings.Fields(impls) {
		r.cells = append(r.cells, &cell{impl, samples[i]})
	}
	return r
}

// TestRatio slows single rounds down for both sides. The ratio of the medians
// would be 250/50.
func TestRatio(t *testing.T) {
	r := newResult("seal", 100, "splitseal/vaes crypto/cipher",
		[]float64{50, 125, 50, 50, 130},
		[]float64{100, 250, 100, 250, 260})
	ours, theirs := r.cells[0], r.cells[1]
	if got := r.ratio(ours); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if got := r.ratio(theirs); got != 1 {
		t.Errorf("crypto/cipher's ratio to itself is %v", got)
	}
	if ns, base := r.ns(ours), r.ns(theirs); base != 250 || ns != 125 {
		t.Errorf("times %v and %v, want 125 and 250", ns, base)
	}
	if got := r.gbps(ours); got != 0.8 {
		t.Errorf("%v GB/s, want 0.8", got)
	}
	if got := r.spread(ours); got != 0 {
		t.Errorf("spread %v, want 0: the ratio was 2 in three of five rounds", got)
	}
	if got := r.spread(theirs); got != 75.0/250 {
		t.Errorf("crypto/cipher's spread %v, want %v", got, 75.0/250)
	}
}

// TestQuietRounds has another program take half of the machine most of the
// time, and hit one side harder.
func TestQuietRounds(t *testing.T) {
	var ours, theirs []float64
	for i := range 800 {
		if i%5 == 0 {
			ours, theirs = append(ours, 50+float64(i%3)), append(theirs, 150+float64(i%3))
		} else {
			ours, theirs = append(ours, 100+float64(i%7)), append(theirs, 200+float64(i%7))
		}
	}
	r := newResult("seal", 100, "splitseal/vaes crypto/cipher", ours, theirs)
	if n := len(r.quiet()); n != 100 {
		t.Errorf("%d quiet rounds of 800, want 100", n)
	}
	if got := r.ratio(r.cells[0]); got < 2.9 || got > 3 {
		t.Errorf("ratio %v, want 3", got)
	}
	if got := r.ns(r.cells[0]); got < 49 || got > 52 {
		t.Errorf("time %v, want 50", got)
	}
}

func TestJSON(t *testing.T) {
	r := newResult("split-seal", 16384, "splitseal/avx512 crypto/cipher", []float64{995.12, 990, 995.12}, []float64{2990.04, 2985, 2990.04})
	var b bytes.Buffer
	if err := writeJSON(&b, []*result{r}); err != nil {
		t.Fatal(err)
	}
	want := `{"op":"split-seal","suite":"TLS_AES_128_GCM_SHA256","impl":"splitseal/avx512","size":16384,"ns":995.1,"gbps":16.5,"least":990}
{"op":"split-seal","suite":"TLS_AES_128_GCM_SHA256","impl":"crypto/cipher","size":16384,"ns":2990,"gbps":5.48,"least":2985}
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestSignificant(t *testing.T) {
	for x, want := range map[float64]float64{16.4645: 16.5, 0.060444: 0.0604, 123.4: 123, 1: 1, 0: 0} {
		if got := significant(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("significant(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	err := writeTable(&b, []*result{
		newResult("seal", 64, "splitseal/vaes crypto/cipher", []float64{25}, []float64{100}),
		newResult("seal", 16384, "splitseal/vaes crypto/cipher", []float64{1000, 1000, 1000}, []float64{2000, 2500, 3000}),
		newResult("open", 64, "splitseal/vaes crypto/cipher", []float64{30}, []float64{100}),
	}, "about this run")
	if err != nil {
		t.Fatal(err)
	}
	want := `about this run
ns for one call, and how many times as fast as crypto/cipher. spread: half the
distance between the quartiles of that ratio, or of crypto/cipher's times; the
largest of the column.

AES-128-GCM  seal
   size            vaes   crypto/cipher
     64     25.0  4.00x      100
  16384     1000  2.50x     2500
   GB/s    16.38            6.55
 spread   ±10.0%          ±10.0%

AES-128-GCM  open
   size            vaes   crypto/cipher
     64     30.0  3.33x      100
   GB/s     2.13            0.64
 spread    ±0.0%           ±0.0%
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestSVG parses a chart and looks at where its lines are.
func TestSVG(t *testing.T) {
	sizes := []int{16, 1350, 16384}
	for _, tt := range []struct {
		name    string
		results []*result
		panels  int
		lines   int // beside those of the legend
	}{
		{"nothing", nil, 0, 0},
		{"one size", []*result{newResult("seal", 64, "splitseal/vaes crypto/cipher", []float64{25}, []float64{100})}, 2, 4},
		{"two ops", func() (rs []*result) {
			for _, op := range []string{"record-seal", "record-open"} {
				for _, n := range sizes {
					ns := float64(n)
					rs = append(rs, newResult(op, n, "splitseal/avx512 splitseal/vaes splitseal/aesni splitseal/portable crypto/cipher crypto/tls",
						[]float64{20 + ns/16}, []float64{30 + ns/10}, []float64{40 + ns/6}, []float64{100 + ns/5}, []float64{90 + ns/5}, []float64{300 + ns/5}))
				}
			}
			return rs
		}(), 4, 24},
	} {
		svg := string(drawSVG(tt.results, `about <this> & "that"`))
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(svg, bad) {
				t.Errorf("%s: the chart has %s in it", tt.name, bad)
			}
		}
		if !strings.Contains(svg, "@media (prefers-color-scheme:dark)") {
			t.Errorf("%s: no colours for dark", tt.name)
		}
		if n := strings.Count(svg, `class="axis"`); n != tt.panels {
			t.Errorf("%s: %d panels, want %d", tt.name, n, tt.panels)
		}
		legend := len(implementationsIn(tt.results))
		if n := strings.Count(svg, `class="line `); n != tt.lines+legend {
			t.Errorf("%s: %d lines, want %d and %d in the legend", tt.name, n, tt.lines, legend)
		}
		height := headSize + len(tables(tt.results))*rowHeight
		for _, m := range regexp.MustCompile(`translate\(([-0-9.]+),([-0-9.]+)\)`).FindAllStringSubmatch(svg, -1) {
			x, errX := strconv.ParseFloat(m[1], 64)
			y, errY := strconv.ParseFloat(m[2], 64)
			if errX != nil || errY != nil || x < marginLeft || x > chartWidth || y < 0 || y > float64(height) {
				t.Errorf("%s: a mark at %s, %s", tt.name, m[1], m[2])
			}
		}
	}
}

// TestFasterIsHigher compares two lines of one panel.
func TestFasterIsHigher(t *testing.T) {
	svg := string(drawSVG([]*result{newResult("seal", 64, "splitseal/vaes crypto/cipher", []float64{25}, []float64{100})}, ""))
	y := func(impl string, panel int) float64 {
		re := regexp.MustCompile(fmt.Sprintf(`<path class="line s%d"[^>]* d="M[0-9.]+,([0-9.]+)"`, lookIndex(impl)))
		m := re.FindAllStringSubmatch(svg, -1)
		if len(m) != 2 {
			t.Fatalf("%d lines of %s", len(m), impl)
		}
		v, err := strconv.ParseFloat(m[panel][1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// y grows downwards.
	if y("splitseal/vaes", 0) >= y(cryptoCipher, 0) {
		t.Error("the faster one has less throughput")
	}
	if y("splitseal/vaes", 1) <= y(cryptoCipher, 1) {
		t.Error("the faster one takes more time")
	}
}

// someSizes are edges of blocks, strides and records.
var someSizes = []int{1, 15, 16, 17, 64, 1350, 16383, 16384}

// TestOps compares every op of everybody with crypto/cipher, makes some
// batches, and looks for allocations.
func TestOps(t *testing.T) {
	backends := asm.Backends()
	m := newMemory()
	for _, suite := range cipherSuites {
		for _, op := range opNames {
			for _, size := range someSizes {
				t.Run(fmt.Sprintf("%s/%s/%d", suite.name, op, size), func(t *testing.T) {
					testOp(t, m, spec{op, suite, size}, backends)
				})
			}
		}
	}
}

func testOp(t *testing.T, m *memory, s spec, backends []asm.Backend) {
	tasks, err := newTasks(m, s, backends)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	allocs := make(map[string]float64) // in a refill and a batch
	for _, task := range tasks {
		names = append(names, task.impl)
		if err := task.check(); err != nil {
			t.Fatalf("%s: %v", task.impl, err)
		}
		allocs[task.impl] = testing.AllocsPerRun(5, func() {
			if task.refill != nil {
				task.refill()
			}
			task.call(max(task.batch, 2))
		})
	}
	if want := implementations(s, backends); !slices.Equal(names, want) {
		t.Errorf("tasks of %v, want %v", names, want)
	}
	for impl, n := range allocs {
		switch {
		case s.op == "newkey-seal", impl == cryptoTLS:
			// A key needs memory, and a tls.Conn takes some for each read.
		case s.suite.isChaCha() && n <= allocs[cryptoCipher]:
			// Without assembly ChaCha20-Poly1305 allocates, here and there.
		case n > 0:
			t.Errorf("%s: %v allocations", impl, n)
		}
	}
}

// TestChecksFind breaks what a task works with and expects its check to say so.
func TestChecksFind(t *testing.T) {
	backends := asm.Backends()
	for _, op := range opNames {
		tasks, err := newTasks(newMemory(), spec{op, cipherSuites[0], 100}, backends)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			call := task.call
			task.call = func(n int) {} // does nothing
			if err := task.check(); err == nil {
				t.Errorf("%s %s: the check passes without a call", op, task.impl)
			}
			task.call = call
		}
	}
}

// TestKeyUpdate makes everybody go past the number of records at which keys
// are replaced.
func TestKeyUpdate(t *testing.T) {
	backends := asm.Backends()
	m := newMemory()
	for _, op := range []string{"record-seal", "record-open"} {
		f := newRecordFixture(m, spec{op, cipherSuites[1], 1350})
		f.keyUpdateAt = 100
		tasks, err := f.tasks(backends)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if err := task.check(); err != nil {
				t.Fatalf("%s %s: %v", op, task.impl, err)
			}
			for range 300 / max(task.batch, 30) {
				if task.refill != nil {
					task.refill()
				}
				task.call(max(task.batch, 30))
			}
			if op == "record-open" {
				if err := task.check(); err != nil {
					t.Errorf("%s %s: after a key update: %v", op, task.impl, err)
				}
			}
		}
	}
}

// decodeLines returns the lines of -json output.
func decodeLines(t *testing.T, output []byte) []line {
	t.Helper()
	var lines []line
	for l := range bytes.Lines(output) {
		d := json.NewDecoder(bytes.NewReader(l))
		d.DisallowUnknownFields()
		var v line
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		lines = append(lines, v)
	}
	return lines
}

// TestCalibrateCoarseClock has a task that a clock shows nothing of, as one that moves
// once in a millisecond shows nothing of a batch: it has to end all the same.
func TestCalibrateCoarseClock(t *testing.T) {
	for _, batch := range []int{0, 1, 7, 256} {
		m := meter{clock: time.Second, target: 60 * time.Microsecond}
		calls := m.calibrate(&task{call: func(int) {}, batch: batch})
		if calls < 1<<15 || calls > 1<<16 || batch > 0 && calls%batch != 0 {
			t.Errorf("in batches of %d: %d calls", batch, calls)
		}
	}
}

// TestRun runs the program with little time.
func TestRun(t *testing.T) {
	chart := filepath.Join(t.TempDir(), "chart.svg")
	args := []string{"-time", "100ms", "-size", "64,1350", "-json", "-svg", chart}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, &stdout, &stderr, false); code != 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("progress without a terminal: %q", stderr.String())
	}
	lines := decodeLines(t, stdout.Bytes())
	o := mustParse(t, args[:4]...)
	i := 0
	for _, s := range o.plan.specs {
		for _, impl := range implementations(s, o.plan.backends) {
			if i >= len(lines) {
				t.Fatalf("%d lines, and more are missing", len(lines))
			}
			l := lines[i]
			i++
			if l.Op != s.op || l.Suite != s.suite.suite.Name() || l.Impl != impl || l.Size != s.size {
				t.Fatalf("line %d is of %+v, want %s %s %s %d", i, l, s.op, s.suite.name, impl, s.size)
			}
			// From ten times the speed of any processor to a millisecond.
			if gbps := float64(l.Size) / l.NS; l.NS < 2 || l.NS > 1e6 || math.Abs(gbps-l.GBps) > 0.05*gbps {
				t.Errorf("%+v is no measurement", l)
			}
		}
	}
	if i != len(lines) {
		t.Errorf("%d lines, want %d", len(lines), i)
	}
	svg, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(svg), `class="axis"`); n != 2*len(opNames)*len(cipherSuites) {
		t.Errorf("the chart has %d panels", n)
	}
}

// TestProgress runs the program on a terminal.
func TestProgress(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-time", "300ms", "-size", "64", "-op", "seal", "-suite", "AES-128-GCM"}, &stdout, &stderr, true); code != 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr.String())
	}
	if !regexp.MustCompile(`\r *\d+ %  \d+s left  \d+ samples/s  AES-128-GCM seal 64\x1b\[K`).MatchString(stderr.String()) {
		t.Errorf("no progress in %q", stderr.String())
	}
	if !strings.HasSuffix(stderr.String(), "\r\x1b[K") {
		t.Errorf("the last line stays: %q", stderr.String())
	}
	if strings.ContainsAny(stdout.String(), "\r\x1b") {
		t.Errorf("progress in the output: %q", stdout.String())
	}
}

// TestInterrupt ends runs of an hour.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var stdout, stderr bytes.Buffer
	start := time.Now()
	code := run(ctx, []string{"-time", "1h", "-size", "64", "-op", "seal", "-suite", "AES-128-GCM", "-json"}, &stdout, &stderr, false)
	if code != exitInterrupted || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("ended after %v", took)
	}
	if lines := decodeLines(t, stdout.Bytes()); len(lines) < 2 {
		t.Errorf("an interrupted run has printed %d lines", len(lines))
	}

	stdout.Reset()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(cancelled, []string{"-time", "1h", "-json"}, &stdout, &stderr, false); code != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q", code, stdout.String())
	}
}

// TestSuiteOfPeer checks that the handshake ends with the suite that was asked
// for.
func TestSuiteOfPeer(t *testing.T) {
	for _, s := range cipherSuites {
		p, err := newPeer(s.suite)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.conn.ConnectionState().CipherSuite; got != s.suite.ID() {
			t.Errorf("handshake for %s ended with %#x", s.name, got)
		}
	}
}
