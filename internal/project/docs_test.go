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

// TestEmbed follows the README's steps for using this module, and the one of the
// CCM suites, from another one, and builds and runs the snippet that is there.
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
	edits := 0
	for _, line := range commands(readme) {
		if strings.HasPrefix(line, "go mod edit ") {
			edits++
			args := strings.Fields(line)[1:]
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "../splitseal", here)
			}
			step(args...)
		}
	}
	if edits != 2 {
		t.Errorf("README.md edits go.mod %d times", edits)
	}
	const second = `package main

import "example.com/splitseal/aead/ccm"

var _ = ccm.AES128CCM()
`
	if err := os.WriteFile(filepath.Join(dir, "ccm.go"), []byte(second), 0o666); err != nil {
		t.Fatal(err)
	}
	step("mod", "tidy")
	if out := step("run", "."); !strings.Contains(out, "hello") {
		t.Errorf("the README's program printed %q", out)
	}
}
