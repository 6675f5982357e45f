package project

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documents returns the Markdown files of the repository, by path from its
// root, and their text.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".git")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			docs[filepath.ToSlash(rel)] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, must := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/design.md"} {
		if docs[must] == "" {
			t.Errorf("%s is missing", must)
		}
	}
	return docs
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fence   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
)

// TestLinksResolve follows every link between files, and to headings in them.
func TestLinksResolve(t *testing.T) {
	docs := documents(t)
	links := 0
	for name, text := range docs {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			u, err := url.Parse(m[1] + m[2])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" {
				continue // not a file of ours
			}
			links++
			target := name
			if u.Path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), u.Path))
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s links to %s: %v", name, u.Path, err)
					continue
				}
			}
			if u.Fragment != "" && !slices.Contains(anchors(docs[target]), u.Fragment) {
				t.Errorf("%s links to %s, which has no heading #%s", name, target, u.Fragment)
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links found: is the expression for them still right?", links)
	}
}

// anchors are the fragments that a Markdown renderer makes of headings.
func anchors(text string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ', r == '-':
				b.WriteByte('-')
			case r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r > 0x7f:
				b.WriteRune(r)
			}
		}
		list = append(list, b.String())
	}
	return list
}

// notRun are commands of the documents that this test does not run, and why. A
// command is as commands returns it, without its assignments of environment
// variables.
var notRun = map[string]string{
	"go test work":                          "would run this test again; continuous integration runs it",
	"go build ./...":                        "the packages were built to get here",
	"git clone <this repository> splitseal": "needs the address of a copy; TestEmbed does the rest",
	"cd yourmodule":                         "TestEmbed does the same in a module of its own",
}

// TestCommandsRun checks every command that the documents quote: the short ones
// run, and of the long ones, what can be checked without running the tests and
// benchmarks that they start: that packages exist and names match.
func TestCommandsRun(t *testing.T) {
	count := 0
	for name, text := range documents(t) {
		for _, line := range commands(text) {
			count++
			t.Run(name+": "+line, func(t *testing.T) { checkCommand(t, line) })
		}
	}
	if count < 5 {
		t.Errorf("only %d commands found: is the expression for them still right?", count)
	}
}

// commands returns the commands that a document quotes. In a fenced block without
// a language those are the lines that look like one; there are drawings in such
// blocks too. In an indented block every line is one.
func commands(text string) []string {
	var list []string
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		if block[1] != "" {
			continue
		}
		for line := range strings.SplitSeq(block[2], "\n") {
			if line = strings.TrimSpace(line); isCommand.MatchString(line) {
				list = append(list, line)
			}
		}
	}
	for _, m := range indented.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		list = append(list, m[1])
	}
	return list
}

var (
	isCommand = regexp.MustCompile(`^([A-Z_]+=\S+ )*(go|git|cd|env|taskset|nice|\./\S+|\.ci/run|bash|valgrind)( |$)`)
	indented  = regexp.MustCompile(`(?m)^(?: {4}|\t)\s*(\S.*)$`)
)

// TestCommandsFound holds commands to what is one and what is not.
func TestCommandsFound(t *testing.T) {
	text := strings.Join([]string{
		"Text, go test text.", "",
		"    go test indented", "", "\tgotest unknown", "",
		"- an item", "  go test item", "",
		"```", "go test fenced", "    A=b ./fenced.test indented", "a drawing", "```",
		"```go", "    go test language", "```", "",
		"    env A=b go vet indented",
	}, "\n")
	want := []string{"go test fenced", "A=b ./fenced.test indented", "go test indented", "gotest unknown", "env A=b go vet indented"}
	if got := commands(text); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// assignment is an environment variable in front of a command.
var assignment = regexp.MustCompile(`^[A-Z_]+=\S+$`)

func checkCommand(t *testing.T, line string) {
	words := split(t, line)
	if words[0] == "env" {
		words = words[1:]
	}
	var env []string
	for len(words) > 0 && assignment.MatchString(words[0]) {
		env = append(env, words[0])
		words = words[1:]
	}
	bare := strings.Join(words, " ")
	if _, ok := notRun[bare]; ok {
		return
	}
	if words[0] == "taskset" {
		words = words[3:] // taskset -c N
	}
	goRun := func(args ...string) {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	switch {
	case words[0] == "go" && words[1] == "test":
		// Compiled and asked for the tests and benchmarks of that name. -fuzz,
		// -bench and -run name what must exist.
		args, names := []string{"test"}, []string{}
		for i := 2; i < len(words); i++ {
			flag, value, joined := strings.Cut(words[i], "=")
			switch flag {
			case "-run", "-bench", "-fuzz", "-fuzztime", "-benchtime", "-count", "-cpu", "-timeout", "-o", "-C", "-list", "-cpuprofile":
				if !joined {
					i++
					value = words[i]
				}
				switch flag {
				case "-C":
					return // of another checkout
				case "-run", "-bench", "-fuzz", "-list":
					if value != "^$" && value != "." {
						names = append(names, value)
					}
				}
			case "-v", "-short", "-c", "-benchmem":
			default:
				args = append(args, words[i])
			}
		}
		if len(names) == 0 {
			// Whole packages: those that it names must be there.
			args[0] = "list"
			goRun(slices.DeleteFunc(args, func(a string) bool { return a == "-race" })...)
			return
		}
		for _, n := range names {
			n, _, _ = strings.Cut(n, "/")
			cmd := exec.Command("go", slices.Insert(slices.Clone(args), 1, "-list="+n)...)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			} else if !regexp.MustCompile(`(?m)^(Test|Fuzz|Benchmark|Example)`).Match(out) {
				t.Errorf("no test, benchmark or fuzz target is called %s:\n%s", n, out)
			}
		}
	case words[0] == "go" && words[1] == "run" && strings.HasPrefix(words[2], "./examples/quickstart"):
		goRun(words[1:]...)
	case words[0] == "go" && words[1] == "run" && strings.HasPrefix(words[2], "./"):
		goRun("vet", words[2])
		for _, w := range words[3:] {
			if flag, ok := strings.CutPrefix(w, "-"); ok && !regexp.MustCompile(`(?m)^  -`+flag+`\b`).MatchString(usage(t, words[2])) {
				t.Errorf("%s has no flag -%s", words[2], flag)
			}
		}
	case words[0] == "go" && words[1] == "-C" && words[3] == "run":
		goRun("-C", words[2], "vet", words[4])
	case words[0] == "go" && words[1] == "generate":
		goRun(append([]string{"generate", "-n"}, words[2:]...)...)
	case words[0] == "go" && (words[1] == "vet" || words[1] == "list" || words[1] == "doc"):
		goRun(words[1:]...)
	case words[0] == "go" && words[1] == "mod":
		// TestEmbed runs those that embed the module.
	case strings.HasSuffix(words[0], ".test"):
		// What an earlier line of the block built.
	case words[0] == "go" && words[1] == "run" && strings.Contains(words[2], "@"):
		// A released tool; continuous integration fetches it.
	case words[0] == ".ci/run" || words[0] == "bash":
		if _, err := os.Stat(filepath.Join(root, words[len(words)-1])); err != nil {
			t.Error(err)
		}
	case words[0] == "git" || words[0] == "nice" || words[0] == "cd":
	default:
		t.Errorf("no rule for checking this command")
	}
}

// usage returns what a program says of its flags.
func usage(t *testing.T, pkg string) string {
	cmd := exec.Command("go", "run", pkg, "-h")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go run %s -h: %v\n%s", pkg, err, out)
	}
	return string(out)
}

// split splits a command into words at spaces outside single quotes.
func split(t *testing.T, line string) []string {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if rest, ok := strings.CutPrefix(line, "'"); ok {
			word, after, ok := strings.Cut(rest, "'")
			if !ok {
				t.Fatalf("open quote in %q", line)
			}
			words, line = append(words, word), after
			continue
		}
		word, after, _ := strings.Cut(line, " ")
		words, line = append(words, word), after
	}
	return words
}

// TestEmbed follows the README's steps for using this module from another one,
// and builds and runs the snippet that is there.
func TestEmbed(t *testing.T) {
	readme := documents(t)["README.md"]
	var snippet string
	for _, block := range fence.FindAllStringSubmatch(readme, -1) {
		if block[1] == "go" && strings.HasPrefix(block[2], "package main") {
			snippet = block[2]
		}
	}
	if snippet == "" {
		t.Fatal("README.md has no complete Go program")
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(snippet), 0o666); err != nil {
		t.Fatal(err)
	}
	step := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	step("mod", "init", "example.org/yourmodule")
	for line := range strings.SplitSeq(readme, "\n") {
		if args, ok := strings.CutPrefix(line, "go mod edit "); ok {
			step(append([]string{"mod", "edit"}, split(t, strings.ReplaceAll(args, "../splitseal", here))...)...)
		}
	}
	step("mod", "tidy")
	if out := step("run", "."); !strings.Contains(out, "hello") {
		t.Errorf("the README's program printed %q", out)
	}
}
