package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/splitseal/aead"
	"example.com/splitseal/internal/asm"
)

// opNames are the ops in the order of the report.
var opNames = []string{
	"seal", "split-seal", "copy-seal", "open", "split-open",
	"gather-halves", "gather-16", "newkey-seal", "record-seal", "record-open",
}

// backendNames are the words that -backend knows, best first.
var backendNames = []string{"avx512", "vaes", "aesni", "portable"}

const (
	ourPrefix    = "splitseal/"
	cryptoCipher = "crypto/cipher"
	cryptoTLS    = "crypto/tls"
)

// A cipherSuite is a suite and its short name.
type cipherSuite struct {
	name  string
	suite *aead.Suite
}

var cipherSuites = []cipherSuite{
	{"AES-128-GCM", aead.AES128GCM()},
	{"AES-256-GCM", aead.AES256GCM()},
	{"ChaCha20-Poly1305", aead.ChaCha20Poly1305()},
}

// isChaCha reports whether no backend but portable has the suite.
func (s cipherSuite) isChaCha() bool { return s.suite == aead.ChaCha20Poly1305() }

var (
	// Powers of two, and between them an edge of 128-byte and of 512-byte
	// strides, a header-sized write and a packet's content.
	defaultSizes = []int{16, 32, 64, 128, 192, 256, 512, 600, 1024, 1350, 2048, 4096, 8192, 16384}
	quickSizes   = []int{64, 192, 1350, 4096, 16384}
)

const (
	maxSize = 16384 // the most content of a record

	// denseSizes is how many sizes of an op make a curve. Each is measured for
	// less time: its neighbours show what is noise.
	denseSizes = 40
)

// A spec names what one table row measures.
type spec struct {
	op    string
	suite cipherSuite
	size  int
}

// A plan is what to measure.
type plan struct {
	specs    []spec
	backends []asm.Backend
	budget   time.Duration // for everything
	passes   int           // over all specs
	sample   time.Duration // length of one sample
}

type options struct {
	plan plan
	json bool
	svg  string
}

// errFlagsPrinted says that package flag has explained the fault already.
var errFlagsPrinted = errors.New("bad flags")

// Tuned numbers. Fewer passes and longer samples were tried beside a load of
// nine on two processors: with 4 passes and 150 µs, three times as many ratios
// of two -quick runs differed by more than 5 %.
const (
	// quickBudget leaves time under 40 seconds for go run to build the program.
	quickBudget = 30 * time.Second
	// quickCellTime is enough for one implementation of one spec, so that a -quick
	// run of few specs ends sooner.
	quickCellTime   = 400 * time.Millisecond
	defaultCellTime = 120 * time.Millisecond
	// denseCellTime has sizes 1 to 2048 of one op done in 80 to 130 seconds.
	denseCellTime = 10 * time.Millisecond
	// sampleTime is short compared with a scheduler's time slice, so that most
	// samples are not interrupted, and long compared with reading the clock.
	sampleTime = 60 * time.Microsecond
	// passCount is how often all specs are gone through, each time with new keys at
	// new addresses, while the machine is in another mood. It also means that Ctrl-C
	// finds a little of everything.
	passCount = 20
	// minTurn is the least time that a spec gets in one pass: making keys and,
	// for crypto/tls, a handshake takes a millisecond of it. Little time for many
	// specs means fewer passes. Curves have as many as there is time for: each is
	// one more chance that nothing else runs just then.
	minTurn = 3 * time.Millisecond
)

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("throughput", flag.ContinueOnError)
	fs.SetOutput(stderr)
	quick := fs.Bool("quick", false, "fewer sizes, done within 40 seconds")
	budget := fs.Duration("time", 0, "measure for about `duration` (default: 120ms for each number in the table, 10ms from 40 sizes on)")
	ops := fs.String("op", "", "measure only these `ops`, separated by commas: "+strings.Join(opNames, ", "))
	suites := fs.String("suite", "", "measure only these `suites`: "+strings.Join(suiteNames(), ", "))
	sizes := fs.String("size", "", "measure these `sizes` in bytes, 1 to 16384, instead of the usual ones: numbers, and ranges such as 1-2048 or, in steps of 16, 16-2048/16; from 40 sizes on the chart has curves")
	backendList := fs.String("backend", "", "of splitseal, measure only these `backends`: "+strings.Join(backendNames, ", "))
	fs.BoolVar(&o.json, "json", false, "print one JSON object per line instead of the table")
	fs.StringVar(&o.svg, "svg", "", "also draw a chart to `file`")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errFlagsPrinted
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	given := make(map[string]bool)
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, name := range []string{"op", "suite", "size", "backend", "svg"} {
		if given[name] && strings.TrimSpace(fs.Lookup(name).Value.String()) == "" {
			return o, fmt.Errorf("-%s is empty", name)
		}
	}
	if given["time"] && *budget <= 0 {
		return o, errors.New("-time must be positive")
	}
	if given["time"] && *quick {
		return o, errors.New("-time and -quick exclude each other")
	}

	if err := asm.Err(); err != nil {
		return o, err
	}
	backends, err := selectBackends(*backendList, asm.Backends())
	if err != nil {
		return o, err
	}
	specs, err := selectSpecs(*ops, *suites, *sizes, *quick, backends)
	if err != nil {
		return o, err
	}
	o.plan = plan{specs: specs, backends: backends, sample: sampleTime}
	var cells time.Duration
	sizeCount := 0
	for _, s := range specs {
		cells += time.Duration(len(implementations(s, backends)))
		if s.op == specs[0].op && s.suite == specs[0].suite {
			sizeCount++
		}
	}
	cellTime := defaultCellTime
	if sizeCount >= denseSizes {
		cellTime = denseCellTime
	}
	switch {
	case given["time"]:
		o.plan.budget = *budget
	case *quick:
		o.plan.budget = min(quickBudget, cells*quickCellTime)
	default:
		o.plan.budget = cells * cellTime
	}
	o.plan.passes = int(max(1, o.plan.budget/time.Duration(len(specs))/minTurn))
	if sizeCount < denseSizes {
		o.plan.passes = min(o.plan.passes, passCount)
	}
	return o, nil
}

// selectBackends returns those of runnable that list names, or all if list is
// empty.
func selectBackends(list string, runnable []asm.Backend) ([]asm.Backend, error) {
	if list == "" {
		return runnable, nil
	}
	var known []string
	for _, b := range runnable {
		known = append(known, b.String())
	}
	names, err := selectWords("backend", list, backendNames, func(w string) string { return strings.TrimPrefix(w, ourPrefix) })
	if err != nil {
		return nil, err
	}
	var selected []asm.Backend
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("backend %s cannot run here: this build on this machine has %s", name, strings.Join(known, ", "))
		}
		selected = append(selected, runnable[i])
	}
	return selected, nil
}

func selectSpecs(ops, suites, sizes string, quick bool, backends []asm.Backend) ([]spec, error) {
	opList, err := selectWords("op", ops, opNames, strings.ToLower)
	if err != nil {
		return nil, err
	}
	suiteList, err := selectWords("suite", suites, suiteNames(), shortSuiteName)
	if err != nil {
		return nil, err
	}
	sizeList := defaultSizes
	switch {
	case sizes != "":
		if sizeList, err = parseSizes(sizes); err != nil {
			return nil, err
		}
	case quick:
		sizeList = quickSizes
	}
	var specs []spec
	for _, s := range cipherSuites {
		if !slices.Contains(suiteList, s.name) {
			continue
		}
		if s.isChaCha() && !slices.Contains(backends, asm.Portable) {
			continue
		}
		for _, op := range opList {
			for _, n := range sizeList {
				specs = append(specs, spec{op, s, n})
			}
		}
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("nothing to measure: %s has no backend but portable", suites)
	}
	return specs, nil
}

// selectWords returns those of known, in their order, that list names, or all
// if list is empty. short maps what may be written to what is known.
func selectWords(what, list string, known []string, short func(string) string) ([]string, error) {
	if list == "" {
		return known, nil
	}
	var named []string
	for w := range strings.SplitSeq(list, ",") {
		w = strings.TrimSpace(w)
		s := short(w)
		if !slices.Contains(known, s) {
			return nil, fmt.Errorf("unknown %s %q: there are %s", what, w, strings.Join(known, ", "))
		}
		named = append(named, s)
	}
	return slices.DeleteFunc(slices.Clone(known), func(w string) bool { return !slices.Contains(named, w) }), nil
}

// parseSizes returns the sizes that list has, in ascending order and each once. The
// list has numbers and ranges, FIRST-LAST or FIRST-LAST/STEP, separated by commas.
func parseSizes(list string) ([]int, error) {
	var sizes []int
	for w := range strings.SplitSeq(list, ",") {
		first, rest, isRange := strings.Cut(w, "-")
		if !isRange {
			n, err := parseSize("size", w)
			if err != nil {
				return nil, err
			}
			sizes = append(sizes, n)
			continue
		}
		last, step, hasStep := strings.Cut(rest, "/")
		if !hasStep {
			step = "1"
		}
		from, errFrom := parseSize("size", first)
		to, errTo := parseSize("size", last)
		by, errBy := parseSize("step", step)
		err := cmp.Or(errFrom, errTo, errBy)
		if err == nil && from > to {
			err = errors.New("the last size is less than the first")
		}
		if err != nil {
			return nil, fmt.Errorf("range %q: %w", w, err)
		}
		for n := from; n <= to; n += by {
			sizes = append(sizes, n)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

func parseSize(what, w string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(w))
	if err != nil || n < 1 || n > maxSize {
		return 0, fmt.Errorf("%s %q is not a number from 1 to %d", what, w, maxSize)
	}
	return n, nil
}

func suiteNames() []string {
	var names []string
	for _, s := range cipherSuites {
		names = append(names, s.name)
	}
	return names
}

// shortSuiteName accepts IANA names too, and any case.
func shortSuiteName(name string) string {
	for _, s := range cipherSuites {
		if strings.EqualFold(name, s.name) || strings.EqualFold(name, s.suite.Name()) {
			return s.name
		}
	}
	return name
}

// implementations returns those that take part in s, in the order of the report.
func implementations(s spec, backends []asm.Backend) []string {
	var names []string
	for _, b := range backends {
		if !s.suite.isChaCha() || b == asm.Portable {
			names = append(names, ourPrefix+b.String())
		}
	}
	names = append(names, cryptoCipher)
	if isRecordOp(s.op) {
		names = append(names, cryptoTLS)
	}
	return names
}

func isRecordOp(op string) bool { return strings.HasPrefix(op, "record-") }

// round returns x with the given number of decimals.
func round(x float64, decimals int) float64 {
	p := math.Pow10(decimals)
	return math.Round(x*p) / p
}
