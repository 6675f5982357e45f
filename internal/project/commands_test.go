package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/splitseal/internal/require"
)

// unchecked are the quoted commands, and lines of quoted shell, that nothing here
// checks, and why. Each expression must fit one of them at least.
var unchecked = []struct{ line, reason string }{
	{`^go test work$`, "would run this test again; continuous integration runs it"},
	{`^git clone <this repository> splitseal$`, "needs the address of a copy; TestEmbed does the rest"},
	{`^cd yourmodule$`, "TestEmbed works in a module of its own"},
	{`^go doc$`, "names the command, with no subject"},
	{`^go (mod tidy|run \.)$`, "in the reader's module; TestEmbed does both"},
	{`^git clone https://\S+ \.\./[a-z-]+$`, "somebody else's repository; what later lines want of the copy is checked"},
	{`^go run golang\.org/x/perf/cmd/benchstat@latest \S+ \S+$`, "somebody else's program"},
	{`^for round in \$\(seq 10\); do$|^done$`, "shell around commands that are checked"},
	{`──`, "a drawing"},
}

// TestCommands checks every command that the documents quote, as far as that
// takes no test, benchmark or server to run: what it names must be there. And it
// holds the rules for that to commands with a fault in them.
func TestCommands(t *testing.T) {
	tree := newTree(t)
	t.Run("documents", func(t *testing.T) { checkDocuments(t, tree) })
	t.Run("faults", func(t *testing.T) { checkFaults(t, tree) })
}

func checkDocuments(t *testing.T, tree *tree) {
	used := make([]bool, len(unchecked))
	count := 0
	for name, text := range documents(t) {
		doc := &document{tree: tree, text: text, dirs: map[string]string{}, binaries: map[string][]*pkg{}}
		for _, line := range commands(text) {
			count++
			if i := slices.IndexFunc(unchecked, func(u struct{ line, reason string }) bool {
				return regexp.MustCompile(u.line).MatchString(line)
			}); i >= 0 {
				used[i] = true
				doc.note(line)
				continue
			}
			if err := doc.check(line); err != nil {
				t.Errorf("%s: %s\n%v", name, line, err)
			}
		}
	}
	for i, u := range unchecked {
		if !used[i] {
			t.Errorf("no command fits %s (%s)", u.line, u.reason)
		}
	}
	if count < 50 {
		t.Errorf("only %d commands found: are the expressions for them still right?", count)
	}
}

// checkFaults checks commands without a fault, each beside one with.
func checkFaults(t *testing.T, tree *tree) {
	for _, tt := range []struct{ good, bad string }{
		{"go test -run TestEmbed ./gcm", "go test -run TestNoSuchTest ./gcm"},
		{"go test -run TestEmbed ./gcm", "go test -run TestEmbed ./aead"},
		{"go test -run 'TestEmbed|TestBackend' ./gcm", "go test -run 'TestEmbed|TestNone' ./gcm"},
		{"go test -run '^TestEmbed' ./gcm", "go test -run '^Embed' ./gcm"},
		{"go test ./gcm -run '^$' -bench Ratio", "go test ./gcm -run '^$'"},
		{"go test ./gcm -bench Ratio/vaes", "go test ./gcm -bench Ratio/nonesuch"},
		{"go test ./gcm -bench 'Ratio/(vaes|aesni)/'", "go test ./gcm -bench 'Ratio/(vaes|nonesuch)/'"},
		{"go test ./gcm -bench Ratio", "go test ./gcm -bench TestEmbed"},
		{"go test ./gcm -bench Ratio -benchtime 10x", "go test ./gcm -bench Ratio -benchtime 10y"},
		{"go test ./fuzz -fuzz '^FuzzOpener$'", "go test ./fuzz -fuzz '^FuzzNone$'"},
		{"go test ./fuzz -fuzz '^FuzzOpener$'", "go test ./fuzz -fuzz Fuzz"},
		{"go test ./fuzz -list Fuzz", "go test ./gcm -list Fuzz"},
		{"go test ./gcm", "go test ./nothing"},
		{"go test ./gcm", "go test"},
		{"go test ./interop/peers -update", "go test ./gcm -update"},
		{"go test -tags purego ./gcm", "go test -tagz purego ./gcm"},
		{"go test -v ./gcm", "go test -vv ./gcm"},
		{"GOARCH=s390x go test ./gcm", "GOARCH=s390y go test ./gcm"},
		{"SPLITSEAL_BULK_MIB=1 go test ./gcm", "SPLITSEAL_BULK_GIB=1 go test ./gcm"},
		{"SPLITSEAL_CPU=-vaes go test ./gcm", "SPLITSEAL_CPU=-sse go test ./gcm"},
		{"SPLITSEAL_REQUIRE=go go test ./gcm", "SPLITSEAL_REQUIRE=rust go test ./gcm"},
		{"SPLITSEAL_CPU=-vaes go test ./gcm", "SPLITSEAL_CPU=-vaes"},
		{"go run ./examples/tlsstack -h", "go run ./examples/nothing"},
		{"go run ./examples/tlsstack -h", "go run ./gcm"},
		{"go run ./examples/tlsstack -h", "go run ./examples/tlsstack -nonesuch"},
		{"go run ./examples/tlsstack serve -cert a -key b c:1", "go run ./examples/tlsstack serve -cert a -kex b c:1"},
		{"go run ./examples/tlsstack serve c:1", "go run ./examples/tlsstack swerve c:1"},
		{"go run ./examples/throughput -quick -op seal", "go run ./examples/throughput -quick -ops seal"},
		{"go run ./examples/throughput -quick -op seal", "go run ./examples/throughput -quick -op steal"},
		{"go run ./examples/throughput -size 16-64/16", "go run ./examples/throughput -size 16-64/0"},
		{"env GOWORK=off go -C internal/asm/_peers run . a.so", "env GOWORK=off go -C internal/asm/_pears run . a.so"},
		{"go doc ./record Sealer", "go doc ./record Nonesuch"},
		{"go doc ./record Sealer.Seal", "go doc ./nothing"},
		{"go vet ./gcm", "go vet ./nothing"},
		{"go generate ./internal/asm", "go generate ./gcm"},
		{"go build ./...", "go built ./..."},
		{"go mod edit -require=example.com/splitseal/aead/ccm@v0.0.0 -replace=example.com/splitseal/aead/ccm=../splitseal/aead/ccm",
			"go mod edit -require=example.com/splitseal/aead/ccm@v0.0.0 -replace=example.com/splitseal/aead/ccm=../splitseal/ccm"},
		{"go mod edit -require=example.com/splitseal@v0.0.0 -replace=example.com/splitseal=../splitseal",
			"go mod edit -require=example.com/splitseal/aead/ccm@v0.0.0 -replace=example.com/splitseal=../splitseal"},
		{"git -C ../copy checkout 0123abcd", "git -C ../other checkout 0123abcd"},
		{"git -C ../copy checkout 0123abcd", "git -C ../copy checkout main"},
		{"git worktree add ../before HEAD~1", "git worktree add"},
		{"git worktree add ../before HEAD~1", "git push"},
		{"python3 ../copy/scripts/test-tls13-known.py -n 0", "python3 ../copy/scripts/test-tls13-nonesuch.py -n 0"},
		{"python3 ../copy/scripts/test-tls13-known.py -n 0", "python3 ../other/scripts/test-tls13-known.py -n 0"},
		{"export PYTHONPATH=../copy:../copy/src", "export PYTHONPATH=../copy:../other"},
		{"./gcm.test -test.v -test.run TestEmbed", "./gcm.test -test.v -test.run TestNone"},
		{"./gcm.test -test.v", "./aead.test -test.v"},
		{"./gcm.test -test.v", "./gcm.test -test.vv"},
		{"taskset -c 1 ./gcm.test -test.bench Ratio >> a.out", "taskset -c 1 ./gcm.test -test.bench None >> a.out"},
		{"go test ./gcm", "got test ./gcm"},
	} {
		fresh := func() *document {
			d := &document{tree: tree, text: "| `known` | 1 |", dirs: map[string]string{}, binaries: map[string][]*pkg{}}
			d.note("git clone https://example.org/copy ../copy")
			if err := d.check("go test -c -o gcm.test ./gcm"); err != nil {
				t.Fatal(err)
			}
			return d
		}
		if err := fresh().check(tt.good); err != nil {
			t.Errorf("%s: %v", tt.good, err)
		}
		if fresh().check(tt.bad) == nil {
			t.Errorf("%s passes", tt.bad)
		}
	}
}

// commands returns the commands that a document quotes: every line of a fenced
// block without a language and of an indented block, and every span of code that
// begins with a program. In a line, what a reader's shell cuts away, is left away.
func commands(text string) []string {
	var list []string
	add := func(line string) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		if block[1] == "" {
			for line := range strings.SplitSeq(block[2], "\n") {
				add(line)
			}
		}
	}
	text = fence.ReplaceAllString(text, "")
	for _, m := range indented.FindAllStringSubmatch(text, -1) {
		add(m[1])
	}
	for _, m := range span.FindAllStringSubmatch(indented.ReplaceAllString(text, ""), -1) {
		if code := strings.Join(strings.Fields(m[1]), " "); isCommand.MatchString(code) {
			add(code)
		}
	}
	return list
}

var (
	isCommand = regexp.MustCompile(`^(\w+=\S+ +)*(bash|cd|curl|env|export|for|git|go|nice|openssl|python3?|taskset|valgrind|\.ci/\w+|(\./|\.\./)\S+\.test)( |$)`)
	indented  = regexp.MustCompile(`(?m)^(?: {4}|\t)[ \t]*(\S.*)$`)
	span      = regexp.MustCompile("`([^`]+)`")
)

// TestCommandsFound holds commands to what is one and what is not.
func TestCommandsFound(t *testing.T) {
	text := strings.Join([]string{
		"Text, go test text, `go.mod`, `goes`, `-flag`.", "",
		"    go test indented", "", "\tgotest unknown", "",
		"- an item", "  go test item, `go test", "span`, `A=b go test assigned` and `./x.test -test.v`", "",
		"```", "go test fenced", "    A=b ./fenced.test indented", "a drawing", "```",
		"```go", "    go test language", "```", "",
		"    env A=b go vet indented",
	}, "\n")
	want := []string{"go test fenced", "A=b ./fenced.test indented", "a drawing", "go test indented", "gotest unknown", "env A=b go vet indented",
		"go test span", "A=b go test assigned", "./x.test -test.v"}
	if got := commands(text); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// document is one file, and what its commands so far have made.
type document struct {
	tree     *tree
	text     string
	dirs     map[string]string // outside of this tree: where they are in it, "" for copies of others
	binaries map[string][]*pkg // test programs, by path
}

// note takes up what an unchecked command makes.
func (d *document) note(line string) {
	if words := strings.Fields(line); len(words) == 4 && words[0] == "git" && words[1] == "clone" {
		d.dirs[words[3]] = ""
	}
}

// dir returns where a folder that a command names is in the tree.
func (d *document) dir(name string) (string, error) {
	if at, ok := d.dirs[name]; ok && at != "" {
		return at, nil
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%s is neither in the tree nor made by a command before", name)
	}
	_, err := os.Stat(filepath.Join(root, name))
	return name, err
}

// copied says whether a path is in a copy that an earlier command makes.
func (d *document) copied(name string) error {
	for dir, at := range d.dirs {
		if at == "" && (name == dir || strings.HasPrefix(name, dir+"/")) {
			return nil
		}
	}
	return fmt.Errorf("%s is in no repository that a command before has cloned", name)
}

// check returns what is wrong with a command.
func (d *document) check(line string) error {
	words, err := split(line)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(words, func(w string) bool { return w == ">" || w == ">>" }); i >= 0 {
		words = words[:i]
	}
	if len(words) > 0 && words[0] == "env" {
		words = words[1:]
	}
	var env []string
	for len(words) > 0 && assignment.MatchString(words[0]) {
		if err := d.assigned(words[0]); err != nil {
			return err
		}
		env = append(env, words[0])
		words = words[1:]
	}
	if len(words) > 3 && words[0] == "taskset" && words[1] == "-c" {
		words = words[3:]
	}
	if len(words) == 0 {
		return errors.New("no command")
	}
	switch program := words[0]; {
	case program == "go":
		return d.checkGo(env, words[1:])
	case program == "git":
		return d.checkGit(words[1:])
	case program == "python3" && len(words) > 1:
		if err := d.copied(words[1]); err != nil {
			return err
		}
		// The document says of each script what came of it.
		name := strings.TrimSuffix(strings.TrimPrefix(path.Base(words[1]), "test-tls13-"), ".py")
		if !regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(name) + "[ `]").MatchString(d.text) {
			return fmt.Errorf("the document has no row for %s", name)
		}
		return nil
	case program == "export" && len(words) == 2 && assignment.MatchString(words[1]):
		name, value, _ := strings.Cut(words[1], "=")
		if name != "PYTHONPATH" {
			return d.assigned(words[1])
		}
		for p := range strings.SplitSeq(value, ":") {
			if err := d.copied(p); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(program, ".ci/"):
		if len(words) > 1 {
			return fmt.Errorf("%s takes no arguments", program)
		}
		_, err := os.Stat(filepath.Join(root, program))
		return err
	case strings.HasSuffix(program, ".test"):
		packages := d.binaries[path.Clean(program)]
		if packages == nil {
			return fmt.Errorf("no command before builds %s", program)
		}
		args := words[1:]
		for i, a := range args {
			if strings.HasPrefix(a, "-") {
				if !strings.HasPrefix(a, "-test.") {
					return fmt.Errorf("%s is no flag of a test program", a)
				}
				args[i] = "-" + strings.TrimPrefix(a, "-test.")
			}
		}
		test, err := parseTest(args)
		if err != nil {
			return err
		}
		return test.check(packages)
	}
	return errors.New("no rule for checking this command")
}

// assignment is an environment variable in front of a command.
var assignment = regexp.MustCompile(`^\w+=\S*$`)

// assigned checks an environment variable.
func (d *document) assigned(word string) error {
	name, value, _ := strings.Cut(word, "=")
	switch {
	case name == "SPLITSEAL_REQUIRE":
		_, err := require.Parse(value)
		return err
	case name == "SPLITSEAL_CPU":
		for w := range strings.SplitSeq(value, ",") {
			if _, err := require.Parse(strings.TrimPrefix(w, "-")); err != nil || !strings.HasPrefix(w, "-") {
				return fmt.Errorf("%q is no backend with a minus before it", w)
			}
		}
		return nil
	case strings.HasPrefix(name, "SPLITSEAL_"):
		if !d.tree.strings[name] {
			return fmt.Errorf("nothing reads %s", name)
		}
		return nil
	case name == "GOARCH":
		out, err := d.tree.run(nil, ".", "go", "tool", "dist", "list")
		if err == nil && !strings.Contains(string(out), "/"+value+"\n") {
			err = fmt.Errorf("Go has no processor %s", value)
		}
		return err
	case word == "CGO_ENABLED=0" || word == "GOWORK=off":
		return nil
	}
	return fmt.Errorf("%s is not known", name)
}

func (d *document) checkGit(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "-C" && args[2] == "checkout":
		if err := d.copied(args[1]); err != nil {
			return err
		}
		if !regexp.MustCompile(`^[0-9a-f]{8,40}$`).MatchString(args[3]) {
			return fmt.Errorf("%s is no commit", args[3])
		}
		return nil
	case len(args) == 4 && args[0] == "worktree" && args[1] == "add":
		d.dirs[args[2]] = "."
		return nil
	}
	return errors.New("no rule for checking this command of git")
}

func (d *document) checkGo(env, args []string) error {
	// What runs programs for another processor runs those of Linux, and no other
	// system has all these processors.
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "GOARCH=") }) {
		env = append(slices.Clip(env), "GOOS=linux")
	}
	dir, at := "", "."
	if len(args) > 2 && args[0] == "-C" {
		dir, args = args[1], args[2:]
	} else if len(args) > 2 && args[1] == "-C" {
		dir, args = args[2], slices.Delete(slices.Clone(args), 1, 3)
	}
	if dir != "" {
		var err error
		if at, err = d.dir(dir); err != nil {
			return err
		}
	}
	if len(args) == 0 {
		return errors.New("no command of go")
	}
	verb, args := args[0], args[1:]
	switch verb {
	case "test":
		test, err := parseTest(args)
		if err != nil {
			return err
		}
		packages, err := d.tree.packages(env, test.tags, at, test.rest)
		if err != nil {
			return err
		}
		if test.output != "" {
			d.binaries[path.Join(dir, test.output)] = packages
		}
		return test.check(packages)
	case "build", "vet":
		_, err := d.tree.packages(env, "", at, args)
		return err
	case "generate":
		if _, err := d.tree.packages(env, "", at, args); err != nil {
			return err
		}
		cmd := exec.Command("go", slices.Concat([]string{"generate", "-n"}, args)...)
		cmd.Dir = filepath.Join(root, at)
		out, err := cmd.CombinedOutput()
		if err == nil && len(out) == 0 {
			err = errors.New("there is nothing to generate")
		}
		return err
	case "doc":
		_, err := d.tree.run(env, at, "go", slices.Concat([]string{"doc"}, args)...)
		return err
	case "run":
		if len(args) == 0 {
			return errors.New("run what?")
		}
		packages, err := d.tree.packages(env, "", at, args[:1])
		if err != nil {
			return err
		}
		if len(packages) != 1 || packages[0].Name != "main" {
			return fmt.Errorf("%s is no program", args[0])
		}
		if at != "." {
			return nil // its arguments are libraries of others
		}
		return d.tree.runProgram(packages[0], args[1:])
	case "mod":
		return d.checkModEdit(args)
	}
	return fmt.Errorf("no rule for checking go %s", verb)
}

// checkModEdit wants each module that is replaced to be there, and those that are
// required to be those that are replaced. TestEmbed makes the edit.
func (d *document) checkModEdit(args []string) error {
	if len(args) == 0 || args[0] != "edit" {
		return errors.New("no rule for checking this command of go mod")
	}
	required, replaced := map[string]bool{}, map[string]bool{}
	for _, a := range args[1:] {
		flag, value, _ := strings.Cut(a, "=")
		switch flag {
		case "-require":
			name, version, _ := strings.Cut(value, "@")
			if version != "v0.0.0" {
				return fmt.Errorf("%s has no version but v0.0.0", name)
			}
			required[name] = true
		case "-replace":
			name, dir, _ := strings.Cut(value, "=")
			rel, ok := strings.CutPrefix(dir+"/", "../splitseal/")
			mod, err := os.ReadFile(filepath.Join(root, rel, "go.mod"))
			if err != nil || !ok {
				return fmt.Errorf("%s: not in the tree, %v", dir, err)
			}
			if !strings.HasPrefix(string(mod), "module "+name+"\n") {
				return fmt.Errorf("%s is not %s", dir, name)
			}
			replaced[name] = true
		default:
			return fmt.Errorf("no rule for checking %s", a)
		}
	}
	if len(required) == 0 || !maps.Equal(required, replaced) {
		return errors.New("what is required is not what is replaced")
	}
	return nil
}

// tests is what a go test command says.
type tests struct {
	names        map[string]string // -run and its like
	tags, output string
	rest         []string // packages
	flags        []string // of the packages' own
}

// parseTest parses the arguments of go test.
func parseTest(args []string) (*tests, error) {
	p := &tests{names: map[string]string{}}
	for i := 0; i < len(args); i++ {
		flag, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			p.rest = append(p.rest, args[i])
			continue
		}
		flag, value, joined := strings.Cut(flag, "=")
		form, takes := testFlags[flag]
		switch {
		case !takes:
			p.flags = append(p.flags, flag)
			continue
		case form == "":
			continue
		case !joined:
			if i++; i == len(args) {
				return nil, fmt.Errorf("-%s has no value", flag)
			}
			value = args[i]
		}
		if !regexp.MustCompile("^(?:" + form + ")$").MatchString(value) {
			return nil, fmt.Errorf("-%s %s: want %s", flag, value, form)
		}
		switch flag {
		case "run", "skip", "bench", "fuzz", "list":
			p.names[flag] = value
		case "tags":
			p.tags = value
		case "o":
			p.output = value
		}
	}
	if p.names["run"] == "^$" && p.names["bench"] == "" && p.names["fuzz"] == "" {
		return nil, errors.New("runs nothing")
	}
	return p, nil
}

// testFlags are the flags of go test that may be quoted, and the form of their
// values, "" for those that have none.
var testFlags = map[string]string{
	"v": "", "short": "", "race": "", "c": "", "benchmem": "",
	"run": ".+", "skip": ".+", "bench": ".+", "fuzz": ".+", "list": ".+",
	"benchtime": `\d+(x|ms|s|m)`, "fuzztime": `\d+(x|s|m|h)`, "timeout": `\d+(s|m|h)`,
	"count": `\d+`, "cpu": `[\d,]+`, "tags": "purego", "o": `\S+\.test`, "exec": `qemu-\S+`,
}

// named are the functions that a flag is about.
var named = map[string]*regexp.Regexp{
	"run":   regexp.MustCompile(`^(Test|Example|Fuzz)`),
	"skip":  regexp.MustCompile(`^(Test|Example|Fuzz)`),
	"bench": regexp.MustCompile(`^Benchmark`),
	"fuzz":  regexp.MustCompile(`^Fuzz`),
	"list":  regexp.MustCompile(`^(Test|Example|Fuzz|Benchmark)`),
}

// check holds names and flags to what the packages have.
func (p *tests) check(packages []*pkg) error {
	if len(packages) == 0 {
		return errors.New("no packages")
	}
	for flag, pattern := range p.names {
		if pattern == "^$" || pattern == "." {
			continue
		}
		top, sub, _ := strings.Cut(pattern, "/")
		for _, alternative := range alternatives(top) {
			re, err := regexp.Compile(alternative)
			if err != nil {
				return err
			}
			var found []string
			for _, pk := range packages {
				for _, f := range pk.functions {
					// As the testing package does it, but for Benchmark, which -bench
					// takes away and quoted commands leave out.
					if named[flag].MatchString(f) && re.MatchString(f) {
						found = append(found, f)
					}
				}
			}
			if len(found) == 0 {
				return fmt.Errorf("-%s: nothing is called %s", flag, alternative)
			}
			if flag == "fuzz" && len(found) > 1 {
				return fmt.Errorf("-fuzz %s fits several: %q", pattern, found)
			}
		}
		// The names of parts are made while a test runs, of what its package, or
		// that of the backends, spells.
		for part := range strings.SplitSeq(sub, "/") {
			for _, word := range alternatives(part) {
				if word != "" && !slices.ContainsFunc(packages, func(pk *pkg) bool { return pk.spells(word) }) {
					return fmt.Errorf("-%s: no part is called %s", flag, word)
				}
			}
		}
	}
	for _, f := range p.flags {
		if !slices.ContainsFunc(packages, func(pk *pkg) bool { return slices.Contains(pk.flags, f) }) {
			return fmt.Errorf("-%s is neither a flag of go test nor of the packages", f)
		}
	}
	return nil
}

// alternatives splits an expression of the forms a|b and (a|b).
func alternatives(expression string) []string {
	if inner, ok := strings.CutPrefix(expression, "("); ok && strings.HasSuffix(inner, ")") {
		expression = strings.TrimSuffix(inner, ")")
	}
	return strings.Split(expression, "|")
}

// pkg is a package, and what its tests hold.
type pkg struct {
	ImportPath, Dir, Name     string
	Module                    struct{ Dir string }
	TestGoFiles, XTestGoFiles []string

	functions []string // tests, benchmarks, examples, fuzz targets
	flags     []string
	words     map[string]bool // strings in test files
	tree      *tree
}

// spells says whether a word stands in a string of the package's tests, or of
// package asm.
func (p *pkg) spells(word string) bool { return p.words[word] || p.tree.backends[word] }

// tree is the repository.
type tree struct {
	strings  map[string]bool // in Go files, those that could be names of environment variables
	backends map[string]bool
	lists    map[string][]*pkg // by what go list was asked
	programs func() (string, error)
}

func newTree(t *testing.T) *tree {
	t.Helper()
	tr := &tree{strings: map[string]bool{}, backends: map[string]bool{}, lists: map[string][]*pkg{}}
	for _, word := range []string{"vaes", "aesni", "avx512", "portable"} {
		tr.backends[word] = true
	}
	variable := regexp.MustCompile(`"(SPLITSEAL_[A-Z_]+)"`)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range variable.FindAllSubmatch(text, -1) {
			tr.strings[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tr.programs = sync.OnceValues(func() (string, error) {
		_, err := tr.run(nil, ".", "go", "build", "-o", dir+string(filepath.Separator), "./examples/...")
		return dir, err
	})
	return tr
}

func (tr *tree) run(env []string, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join(root, dir)
	cmd.Env = append(append(os.Environ(), "GOWORK="), env...) // with the workspace, if not told otherwise
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, err
}

// packages returns those that patterns name, in the folder dir of the tree.
func (tr *tree) packages(env []string, tags, dir string, patterns []string) ([]*pkg, error) {
	var goEnv []string // of what the go command looks at
	for _, e := range env {
		if !strings.HasPrefix(e, "SPLITSEAL_") {
			goEnv = append(goEnv, e)
		}
	}
	if len(patterns) == 0 {
		return nil, errors.New("no packages")
	}
	key := fmt.Sprintln(goEnv, tags, dir)
	if tr.lists[key] == nil {
		all := "./..."
		if dir == "." {
			all = "work"
		}
		list, err := tr.list(goEnv, tags, dir, all)
		if err != nil {
			return nil, err
		}
		tr.lists[key] = list
	}
	base, err := filepath.Abs(filepath.Join(root, dir))
	if err != nil {
		return nil, err
	}
	var found []*pkg
	for _, pattern := range patterns {
		before := len(found)
		prefix, all := strings.CutSuffix(pattern, "/...")
		if pattern != "." && !strings.HasPrefix(pattern, "./") {
			return nil, fmt.Errorf("%s is no path", pattern)
		}
		want := filepath.Join(base, filepath.FromSlash(prefix))
		for _, p := range tr.lists[key] {
			if p.Dir == want || all && p.Module.Dir == base && strings.HasPrefix(p.Dir, want) {
				found = append(found, p)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("there is no package %s", pattern)
		}
	}
	return found, nil
}

func (tr *tree) list(env []string, tags, dir, pattern string) ([]*pkg, error) {
	out, err := tr.run(env, dir, "go", "list", "-tags="+tags, "-json=ImportPath,Dir,Name,Module,TestGoFiles,XTestGoFiles", pattern)
	if err != nil {
		return nil, err
	}
	var list []*pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{words: map[string]bool{}, tree: tr}
		if err := dec.Decode(p); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			p.add(f)
		}
		list = append(list, p)
	}
}

// add takes up what a test file holds.
func (p *pkg) add(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && named["list"].MatchString(n.Name.Name) {
				p.functions = append(p.functions, n.Name.Name)
			}
		case *ast.CallExpr:
			// flag.Bool("update", …) and its like.
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) < 3 {
				break
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "flag" {
				break
			}
			for _, a := range n.Args[:2] { // flag.BoolVar has it second
				if lit, ok := a.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					name, _ := strconv.Unquote(lit.Value)
					p.flags = append(p.flags, name)
					break
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if s, err := strconv.Unquote(n.Value); err == nil {
					for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '/' }) {
						p.words[word] = true
					}
				}
			}
		}
		return true
	})
}

// runProgram runs an example if that ends soon, and else holds its arguments to
// what it says of them.
func (tr *tree) runProgram(p *pkg, args []string) error {
	dir, err := tr.programs()
	if err != nil {
		return err
	}
	name := path.Base(p.ImportPath)
	program := filepath.Join(dir, name)
	switch name {
	case "quickstart":
		_, err := tr.run(nil, ".", program, args...)
		return err
	case "throughput":
		// It opens the chart when it has understood everything else, and ends if it
		// cannot. Of several flags it takes the last.
		chart := filepath.Join(dir, "missing", "chart.svg")
		_, err := tr.run(nil, ".", program, slices.Concat(args, []string{"-svg", chart})...)
		if err == nil || !strings.Contains(err.Error(), "throughput: open "+chart) {
			return fmt.Errorf("it did not come to its chart: %w", err)
		}
		return nil
	}
	out, err := exec.Command(program, "-h").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s -h: %w", name, err)
	}
	usage := string(out)
	for i, a := range args {
		if flag, ok := strings.CutPrefix(a, "-"); ok {
			if flag != "h" && !regexp.MustCompile(`(?m)^  -`+regexp.QuoteMeta(flag)+`\b`).MatchString(usage) {
				return fmt.Errorf("%s has no flag %s", name, a)
			}
		} else if i == 0 && !regexp.MustCompile(`(?m)^  `+name+` `+regexp.QuoteMeta(a)+`\b`).MatchString(usage) {
			return fmt.Errorf("%s has no command %s", name, a)
		}
	}
	return nil
}

// split splits a command into words at spaces outside single quotes, which may
// stand anywhere in a word.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	open, some := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			open, some = !open, true
		case r == ' ' && !open:
			if some {
				words = append(words, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if open {
		return nil, fmt.Errorf("open quote in %q", line)
	}
	if some {
		words = append(words, word.String())
	}
	return words, nil
}
