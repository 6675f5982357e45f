package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClauses checks that docs/rfc9846.md is true. Each MUST, MUST NOT and SHALL that
// binds a record layer, which testdata/rfc9846-musts.txt lists, has one row there, and
// nothing else has. Each row names the code that enforces the sentence and its tests,
// and a comment of each quotes the sentence, but for what the list says may be left out.
func TestClauses(t *testing.T) {
	sentences := readClauses(t)
	comments, inTests := make(map[string]string), make(map[string]bool)
	for _, dir := range []string{".", "../aead"} {
		collectComments(t, dir, comments, inTests)
	}
	rows := make(map[string]bool)
	doc, err := os.ReadFile("../docs/rfc9846.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !sectionNumber.MatchString(strings.TrimSpace(cells[0])) {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		section, clause, code, tests := cells[0], cells[1], cells[2], cells[3]
		key := section + " " + normalize(clause)
		parts, ok := sentences[key]
		if rows[key] || !ok {
			t.Errorf("two rows for a sentence, or none of the list: %s", key)
		}
		rows[key] = true
		if code == "—" {
			// Whom else the sentence binds is said instead of tests.
			if len(tests) < 20 {
				t.Errorf("%s: neither code nor a reason", key)
			}
			continue
		}
		for _, column := range []string{code, tests} {
			names := strings.Split(column, ", ")
			for _, name := range names {
				name = strings.Trim(name, "`")
				comment, ok := comments[name]
				if !ok {
					t.Errorf("%s: there is no %s", key, name)
					continue
				}
				if inTests[name] != (column == tests) {
					t.Errorf("%s: %s is in the wrong column", key, name)
				}
				if !quotes(comment, parts) {
					t.Errorf("%s: no comment of %s says %q", key, name, parts)
				}
			}
		}
	}
	for key := range sentences {
		if !rows[key] {
			t.Errorf("docs/rfc9846.md has no row for %s", key)
		}
	}
}

// readClauses returns the sentences of testdata/rfc9846-musts.txt, each with the parts
// that must be quoted.
func readClauses(t *testing.T) map[string][]string {
	list, err := os.ReadFile("testdata/rfc9846-musts.txt")
	if err != nil {
		t.Fatal(err)
	}
	sentences := make(map[string][]string)
	for line := range strings.Lines(string(list)) {
		section, sentence, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(section, "#") {
			continue
		}
		var parts []string
		for _, part := range optional.Split(sentence, -1) {
			if part = normalize(part); part != "" {
				parts = append(parts, part)
			}
		}
		if required := strings.Join(parts, " "); !strings.Contains(required, "MUST") && !strings.Contains(required, "SHALL") {
			t.Errorf("all may be left out of %s", sentence)
		}
		sentences[section+" "+normalize(strings.NewReplacer("{", "", "}", "").Replace(sentence))] = parts
	}
	if len(sentences) < 60 {
		t.Errorf("only %d sentences", len(sentences))
	}
	return sentences
}

// quotes reports whether comment has all parts, in order.
func quotes(comment string, parts []string) bool {
	for _, part := range parts {
		_, after, ok := strings.Cut(comment, part)
		if !ok {
			return false
		}
		comment = after
	}
	return true
}

var (
	sectionNumber = regexp.MustCompile(`^([0-9]+|[A-Z])(\.[0-9]+)*$`)
	optional      = regexp.MustCompile(`\{[^}]*\}`)
	references    = regexp.MustCompile(`\(?\[(\.\.\.|Section [^\]]*|RFC [^\]]*)\]\)?`)
	spaces        = regexp.MustCompile(`\s+`)
)

// normalize drops what differs between quotations of one sentence: line breaks,
// references and elisions.
func normalize(s string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(references.ReplaceAllString(s, " "), " "))
}

// collectComments maps each declaration of the package in dir to the text of all
// comments before and inside it, and says whether it is in a test file. Methods are
// named package.Type.Method.
func collectComments(t *testing.T, dir string, comments map[string]string, inTests map[string]bool) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		add := func(name string, doc *ast.CommentGroup, node ast.Node) {
			begin := node.Pos()
			if doc != nil {
				begin = doc.Pos()
			}
			var text []string
			for _, group := range file.Comments {
				if begin <= group.Pos() && group.End() <= node.End() {
					text = append(text, group.Text())
				}
			}
			inTests[pkg+"."+name] = strings.HasSuffix(path, "_test.go")
			comments[pkg+"."+name] = normalize(strings.Join(text, " "))
		}
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					typ := d.Recv.List[0].Type
					if star, ok := typ.(*ast.StarExpr); ok {
						typ = star.X
					}
					name = typ.(*ast.Ident).Name + "." + name
				}
				add(name, d.Doc, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					doc, node := d.Doc, ast.Node(d)
					if len(d.Specs) > 1 {
						doc, node = nil, spec
					}
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(s.Name.Name, doc, node)
					case *ast.ValueSpec:
						if len(d.Specs) > 1 {
							doc = s.Doc
						}
						add(s.Names[0].Name, doc, node)
					}
				}
			}
		}
	}
}
