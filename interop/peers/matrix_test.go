package peers

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write docs/interop.md")

// matrixFile is where the matrix stands.
const matrixFile = "../../docs/interop.md"

// tlsfuzzer is the section below the matrix, which no test here stands behind: it was
// written by hand when tlsfuzzer was run, as it says.
//
//go:embed testdata/tlsfuzzer.md
var tlsfuzzer string

// feature is a column of the matrix.
type feature int

const (
	exchange     feature = iota // messages of 1 B to 1 MiB each way, in random writes
	ourPadding                  // records padded by us
	theirPadding                // records padded by the peer
	ourUpdate                   // KeyUpdate from us, answered
	theirUpdate                 // KeyUpdate from the peer, answered if it asks
	fragments                   // a small fragment limit at the peer
	closeNotify                 // close_notify each way
	truncation                  // end without close_notify noticed
	resumption                  // a resumed connection
	featureCount
)

var featureNames = [featureCount]string{
	exchange:     "messages",
	ourPadding:   "our padding",
	theirPadding: "its padding",
	ourUpdate:    "our KeyUpdate",
	theirUpdate:  "its KeyUpdate",
	fragments:    "small fragments",
	closeNotify:  "close_notify",
	truncation:   "truncation",
	resumption:   "resumption",
}

// row is one line of the matrix. Features are noted as they pass, and count only
// if the test that owns the row does not fail.
type row struct {
	peer, version, role, suite string
	passed                     [featureCount]string
}

func (r *row) did(features ...feature) {
	for _, f := range features {
		r.passed[f] = "passed"
	}
}

// partly is did for a feature that the peer's program has in part.
func (r *row) partly(f feature, what string) { r.passed[f] = "passed: " + what }

func (r *row) key() string { return r.peer + " | " + r.role + " | " + r.suite }

func (r *row) cells() string {
	var b strings.Builder
	for _, p := range r.passed {
		if p != "" {
			b.WriteString(" " + p)
		}
		b.WriteString(" |")
	}
	return b.String()
}

func (r *row) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s |%s", r.peer, r.version, r.role, r.suite, r.cells())
}

// parseRow is the inverse of String.
func parseRow(line string) (*row, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 4+int(featureCount) {
		return nil, fmt.Errorf("%q has %d cells", line, len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return &row{cells[0], cells[1], cells[2], cells[3], [featureCount]string(cells[4:])}, nil
}

type results struct {
	mu      sync.Mutex
	rows    map[string]*row
	missing map[string]bool // words of package require
}

var matrix = results{rows: make(map[string]*row), missing: make(map[string]bool)}

// The roles, seen from us.
const (
	asClient = "client"
	asServer = "server"
	asRelay  = "relay"
)

// newRow returns a row that goes into the matrix if t passes. Several tests may
// share a row.
func newRow(t *testing.T, peer, version, role, suite string) *row {
	r := &row{peer: peer, version: version, role: role, suite: suite}
	t.Cleanup(func() {
		if !t.Failed() && !t.Skipped() {
			matrix.add(r)
		}
	})
	return r
}

func (m *results) add(r *row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.rows[r.key()]; old != nil {
		for f, p := range old.passed {
			if r.passed[f] == "" {
				r.passed[f] = p
			}
		}
	}
	m.rows[r.key()] = r
}

func (m *results) lacks(word string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing[word] = true
}

// text returns the file.
func (m *results) text() string {
	var b strings.Builder
	b.WriteString(`# Interoperability

This file is written by the tests in ` + "`interop/peers`" + `, which fail if its first
table says anything other than what they see; ` + "`go test ./interop/peers -update`" + `
writes it.
The role is ours. Where we are client or server, crypto/tls makes the handshake, and
package cryptotls then takes the connection over, so every later record is package
record's. Where we are a relay, package record opens and seals again what two other
programs send each other, and the records must come out identical. Versions are those
of the last update.
[bogo.md](bogo.md) has what BoringSSL's test runner says.

What the columns say:

- **messages**: 1 B to 1 MiB each way, in writes of random sizes; HTTP bodies may also be empty;
- **our padding**, **its padding**: each side pads its records;
- **our KeyUpdate**, **its KeyUpdate**: each side updates its keys, and the other follows if asked;
- **small fragments**: the peer keeps its records small;
- **close_notify**: either side closes first; the other notices and closes too;
- **truncation**: a connection that ends without close_notify is an error;
- **resumption**: the connection resumes an earlier one.

An empty cell was not tried, in most cases because the peer's program has no option
for it, or its library no function. Words after *passed* mean that only part of it was
tried: *obeyed*, the peer reads on under our new keys and has no occasion to answer with
its own; *ours first* and *its own first*, the only order of closing that can be
observed; sizes, the most that the peer takes or sends.

`)
	b.WriteString("| peer | version | our role | suite |")
	for _, n := range featureNames {
		b.WriteString(" " + n + " |")
	}
	b.WriteString("\n|---|---|---|---|" + strings.Repeat("---|", int(featureCount)) + "\n")
	for _, r := range m.sorted() {
		b.WriteString(r.String() + "\n")
	}
	b.WriteString("\n" + tlsfuzzer)
	return b.String()
}

func (m *results) sorted() []*row {
	var rows []*row
	for _, r := range m.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *row) int { return strings.Compare(a.key(), b.key()) })
	return rows
}

// peerWords says which words of package require a peer's rows need, and whose
// processor has to look like one without AES.
var peerWords = map[string][]string{
	"crypto/tls":  {hiddenAES},
	"curl":        {"curl"},
	"GnuTLS":      {"gnutls"},
	"libgnutls":   {"gnutls", "python"},
	"Java JSSE":   {"java", "openssl"},
	"nginx":       {"nginx"},
	"Node.js":     {"node"},
	"NSS":         {"nss", "openssl", "python"},
	"OpenSSL":     {"openssl"},
	"Python ssl":  {"python"},
	"qtls-go1-20": {"qtls", hiddenAES},
	"tshark":      {"openssl", "tshark"},
}

// check compares the file with what was seen, and its last section with the text
// here. Rows are compared without versions, which differ between systems. If all
// tests ran, the file must not have rows that nothing stands behind, but for peers
// that are missing.
func (m *results) check(data string, all bool) error {
	var problems []string
	data, ok := strings.CutSuffix(data, "\n"+tlsfuzzer)
	if !ok {
		problems = append(problems, "the section about tlsfuzzer differs, or is not the last one")
	}
	file := make(map[string]string)
	for line := range strings.SplitSeq(data, "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) < 4 || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| peer |") {
			continue
		}
		suite, passed, _ := strings.Cut(strings.Join(cells[3:], " | "), " |")
		file[strings.TrimPrefix(cells[0], "| ")+" | "+cells[2]+" | "+suite] = passed
	}
	for _, r := range m.sorted() {
		got, ok := file[r.key()]
		switch {
		case !ok:
			problems = append(problems, "no row for "+r.key())
		case all && got != r.cells():
			problems = append(problems, fmt.Sprintf("row %s says\n%s, seen was\n%s", r.key(), got, r.cells()))
		}
		delete(file, r.key())
	}
	if all {
		for key := range file {
			peer, _, _ := strings.Cut(key, " | ")
			if !slices.ContainsFunc(peerWords[peer], func(word string) bool { return m.missing[word] }) {
				problems = append(problems, "nothing stands behind the row "+key)
			}
		}
		if len(m.missing) == 0 {
			head, _, _ := strings.Cut(m.text(), "| peer |")
			if !strings.HasPrefix(data, head) {
				problems = append(problems, "the text above the table differs")
			}
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return fmt.Errorf("docs/interop.md is stale (go test ./interop/peers -update writes it):\n%s", strings.Join(problems, "\n"))
	}
	return nil
}

// TestMatrix checks the check.
func TestMatrix(t *testing.T) {
	seen := func(rows ...*row) *results {
		m := &results{rows: make(map[string]*row), missing: make(map[string]bool)}
		for _, r := range rows {
			m.add(r)
		}
		return m
	}
	full := func() *row {
		r := &row{peer: "GnuTLS", version: "1", role: asClient, suite: "A"}
		r.did(exchange, ourUpdate)
		r.partly(closeNotify, "in part")
		return r
	}
	other := func() *row { return &row{peer: "curl", version: "1", role: asServer, suite: "B"} }
	file := seen(full(), other()).text()
	for _, tt := range []struct {
		name    string
		rows    []*row
		missing string
		file    string
		all     bool
		stale   bool
	}{
		{name: "same", rows: []*row{full(), other()}, file: file, all: true},
		{name: "other version", rows: []*row{full(), other()}, file: strings.Replace(file, "| 1 |", "| 2 |", 2), all: true},
		{name: "part of the tests", rows: []*row{other()}, file: file},
		{name: "missing peer", rows: []*row{full()}, missing: "curl", file: file, all: true},
		{name: "part of a row", rows: []*row{{peer: "GnuTLS", version: "1", role: asClient, suite: "A"}}, file: file},
		{name: "row without a test", rows: []*row{full()}, file: file, all: true, stale: true},
		{name: "another peer is missing", rows: []*row{full()}, missing: "openssl", file: file, all: true, stale: true},
		{name: "row not in the file", rows: []*row{full(), other()}, file: seen(full()).text(), stale: true},
		{name: "feature lost", rows: []*row{{peer: "GnuTLS", version: "1", role: asClient, suite: "A"}, other()}, file: file, all: true, stale: true},
		{name: "feature gained", rows: []*row{full(), other()}, file: strings.Replace(file, " passed |", " |", 1), all: true, stale: true},
		{name: "no section", rows: []*row{full(), other()}, file: strings.TrimSuffix(file, tlsfuzzer), stale: true},
		{name: "other section", rows: []*row{full(), other()}, file: file + "x", stale: true},
		{name: "other text", rows: []*row{full(), other()}, file: "x" + file, all: true, stale: true},
	} {
		m := seen(tt.rows...)
		if tt.missing != "" {
			m.lacks(tt.missing)
		}
		if err := m.check(tt.file, tt.all); (err != nil) != tt.stale {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// rowsEnv names a file into which rows go for the process that started this one,
// instead of being compared with the matrix.
const rowsEnv = "SPLITSEAL_TEST_ROWS"

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if f, err := credentials(); err == nil {
		os.RemoveAll(f.dir)
	}
	all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == "" && !testing.Short()
	if code == 0 {
		var err error
		rows := os.Getenv(rowsEnv)
		switch {
		case rows != "":
			var b strings.Builder
			for _, r := range matrix.sorted() {
				b.WriteString(r.String() + "\n")
			}
			err = os.WriteFile(rows, []byte(b.String()), 0o666)
		case *update && (!all || len(matrix.missing) > 0):
			err = errors.New("-update needs all tests and all peers")
		case *update:
			err = os.WriteFile(matrixFile, []byte(matrix.text()), 0o666)
		default:
			var data []byte
			if data, err = os.ReadFile(matrixFile); err == nil {
				err = matrix.check(string(data), all)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
