package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// A cell is what was measured for one implementation of one spec.
type cell struct {
	impl    string
	samples []float64 // ns for one call, one for each round
}

// A result is one row of the table. Its cells have equally many samples: in
// each round all implementations took their turn.
type result struct {
	spec
	cells []*cell
}

// base returns crypto/cipher's cell.
func (r *result) base() *cell {
	i := slices.IndexFunc(r.cells, func(c *cell) bool { return c.impl == cryptoCipher })
	return r.cells[i]
}

// quiet returns the numbers of the rounds that count: the quietest eighth, those in
// which all implementations together took least time. Logarithms are added, so that
// the slowest one has no more weight than the fastest.
//
// What disturbs the other rounds is not only noise. A program on the second
// thread of a core slows crypto/cipher down less than a kernel that needs the
// whole core, and so changes ratios. Beside a load of 15 on two processors,
// half of the ratios of two runs differed by less than 0.7 % this way, and by
// less than 2.5 % when all rounds counted.
func (r *result) quiet() []int {
	const atLeast = 9
	rounds := len(r.cells[0].samples)
	took := make([]float64, rounds)
	order := make([]int, rounds)
	for i := range rounds {
		order[i] = i
		for _, c := range r.cells {
			took[i] += math.Log(c.samples[i])
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(took[a], took[b]) })
	return order[:min(rounds, max(rounds/8, atLeast))]
}

// times returns c's times in the quiet rounds.
func (r *result) times(c *cell) []float64 {
	var times []float64
	for _, i := range r.quiet() {
		times = append(times, c.samples[i])
	}
	return times
}

// ratios returns how many times as fast as crypto/cipher c was in each of the
// quiet rounds.
func (r *result) ratios(c *cell) []float64 {
	ours, theirs := r.times(c), r.times(r.base())
	for i := range ours {
		ours[i] = theirs[i] / ours[i]
	}
	return ours
}

// ratio returns the median of the ratios. It varies less than the ratio of the
// medians: what slows a round down slows both sides down.
func (r *result) ratio(c *cell) float64 { return quantile(r.ratios(c), 0.5) }

// ns returns the time of one call: crypto/cipher's median over c's ratio, so
// that times and ratios agree.
func (r *result) ns(c *cell) float64 {
	return quantile(r.times(r.base()), 0.5) / r.ratio(c)
}

// gbps returns the content's size over the time, in GB/s.
func (r *result) gbps(c *cell) float64 { return float64(r.size) / r.ns(c) }

// spread returns half the distance between the quartiles over the median: of
// the ratios, or of crypto/cipher's times.
func (r *result) spread(c *cell) float64 {
	values := r.ratios(c)
	if c.impl == cryptoCipher {
		values = r.times(c)
	}
	return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / quantile(values, 0.5)
}

// quantile returns the value below which the fraction q of the samples lies,
// interpolated between the two nearest. There must be a sample.
func quantile(samples []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	at := q * float64(len(s)-1)
	i := int(at)
	if i == len(s)-1 {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// measure goes over the specs of p several times and returns those that have
// samples. When ctx is done it returns what there is.
func measure(ctx context.Context, p plan, progress *progress) ([]*result, error) {
	unpin := pin()
	defer unpin()
	m := newMemory()
	meter := meter{clock: clockCost(), target: p.sample}

	results := make([]*result, len(p.specs))
	var weight float64
	for i, s := range p.specs {
		results[i] = &result{spec: s}
		weight += specWeight(s, p)
	}
	weight *= float64(p.passes)

	deadline := time.Now().Add(p.budget)
	for pass := range p.passes {
		for _, r := range results {
			w := specWeight(r.spec, p)
			// The time that earlier specs overran is taken from all that follow.
			start := time.Now()
			until := start.Add(time.Duration(float64(deadline.Sub(start)) * w / weight))
			weight -= w
			progress.show(r.spec, deadline, p.budget)
			if err := meter.visit(ctx, m, r, p, pass == 0, until, progress); err != nil {
				return nil, fmt.Errorf("%s %s, %d bytes: %w", r.suite.name, r.op, r.size, err)
			}
			if ctx.Err() != nil {
				return slices.DeleteFunc(results, func(r *result) bool { return len(r.cells) == 0 }), nil
			}
		}
	}
	return results, nil
}

// specWeight returns the share of the time that s gets.
func specWeight(s spec, p plan) float64 {
	w := float64(len(implementations(s, p.backends)))
	switch s.op {
	case "split-open", "record-open":
		w *= 1.5 // much of it goes into what is opened
	}
	return w
}

type meter struct {
	clock  time.Duration // what reading the clock twice costs
	target time.Duration
}

// visit adds samples to r, all implementations in turn, until the given time.
func (m *meter) visit(ctx context.Context, mem *memory, r *result, p plan, first bool, until time.Time, progress *progress) error {
	tasks, err := newTasks(mem, r.spec, p.backends)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		// "open" needs the check in later passes too: it puts the ciphertext
		// where the calls read it.
		if err := t.check(); err != nil {
			return fmt.Errorf("%s: %w", t.impl, err)
		}
	}
	calls := make([]int, len(tasks))
	for i, t := range tasks {
		calls[i] = m.calibrate(t)
	}
	for rounds := 0; rounds < minRounds || time.Now().Before(until); rounds++ {
		round := make([]float64, len(tasks))
		for i, t := range tasks {
			round[i] = m.sample(t, calls[i])
		}
		if ctx.Err() != nil {
			// The rounds before this one count.
			return nil
		}
		if r.cells == nil {
			for _, t := range tasks {
				r.cells = append(r.cells, &cell{impl: t.impl})
			}
		}
		for i, c := range r.cells {
			c.samples = append(c.samples, round[i])
		}
		progress.samples += len(tasks)
	}
	return nil
}

// minRounds is how often a spec is measured in each pass, however late it is.
const minRounds = 3

// calibrate returns how many calls of t take about as long as a sample should, in
// whole batches.
func (m *meter) calibrate(t *task) int {
	const maxCalls = 1 << 16 // far below every limit of a key
	unit := max(1, t.batch)
	for n := unit; ; n *= 2 {
		// The lesser of two: after an interruption a sample would otherwise have few
		// calls, and be as coarse as the clock.
		took := min(m.calls(t, n), m.calls(t, n))
		// A clock that moves once in a millisecond may show nothing for some time.
		if took > m.target/8 || n >= maxCalls {
			calls := min(maxCalls, float64(n)*float64(m.target)/float64(max(1, took)))
			return max(1, int(calls)/unit) * unit
		}
	}
}

// sample returns how many nanoseconds each of the given number of calls took.
func (m *meter) sample(t *task, calls int) float64 {
	return float64(max(1, m.calls(t, calls))) / float64(calls)
}

// calls returns how long n calls took, one batch after the other.
func (m *meter) calls(t *task, n int) (took time.Duration) {
	if t.batch == 0 {
		return m.time(t, n)
	}
	for range n / t.batch {
		took += m.time(t, t.batch)
	}
	return took
}

// time refills t and returns how long n calls took.
func (m *meter) time(t *task, n int) time.Duration {
	if t.refill != nil {
		t.refill()
	}
	start := now()
	t.call(n)
	return now() - start - m.clock
}

// clockCost returns the median time between two readings of the clock.
func clockCost() time.Duration {
	costs := make([]time.Duration, 1001)
	for i := range costs {
		start := now()
		costs[i] = now() - start
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// pin keeps the caller on one thread, and where that is possible this thread
// on one processor, until unpin is called.
func pin() (unpin func()) {
	runtime.LockOSThread()
	restore := pinThread()
	return func() {
		restore()
		runtime.UnlockOSThread()
	}
}
