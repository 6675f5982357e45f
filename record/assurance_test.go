package record

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAssurance holds docs/assurance.md to tests that exist.
func TestAssurance(t *testing.T) {
	declared := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile("../" + path)
		for _, m := range function.FindAllSubmatch(source, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/assurance.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`Test") {
			continue
		}
		rows++
		for name := range strings.SplitSeq(cells[2], ",") {
			name = strings.Trim(strings.TrimSpace(name), "`")
			if !declared[name] {
				t.Errorf("%q: there is no test %s", strings.TrimSpace(cells[1]), name)
			}
		}
	}
	if rows < 50 {
		t.Errorf("only %d faults", rows)
	}
}
