package require

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEveryWordIsAskedFor holds the table to the tests of all modules: a word
// that none asks for could be declared and never fail.
func TestEveryWordIsAskedFor(t *testing.T) {
	words, err := askedFor(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range slices.Concat(backends, tools, peers) {
		if !words[word] {
			t.Errorf("no test asks for %s", word)
		}
	}
}

// askedFor returns the words whose lack ends or fails a test in the tree. Those
// are the words that stand as literals in calls of [Missing] and [Tool], or of
// functions of the same package that hand a parameter on to them; a call of
// [Backends] asks for every backend. [Declared] alone does not count, as it
// fails nothing, nor do this package's own tests.
func askedFor(tree fs.FS) (map[string]bool, error) {
	packages := make(map[string][]*ast.File)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "internal/require" || d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		key := path.Dir(name) + " " + f.Name.Name
		packages[key] = append(packages[key], f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	words := make(map[string]bool)
	for _, files := range packages {
		addAskedFor(words, files)
	}
	return words, nil
}

// addAskedFor adds what the files of one package ask for.
func addAskedFor(words map[string]bool, files []*ast.File) {
	// asks maps functions to the position of the argument that is a word.
	asks := map[string]int{"require.Missing": 1, "require.Tool": 1}
	for grown := true; grown; {
		grown = false
		for _, f := range files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					ast.Inspect(d, func(n ast.Node) bool { addWord(words, asks, n); return true })
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					handed, ok := addWord(words, asks, n).(*ast.Ident)
					if !ok || fn.Recv != nil {
						return true
					}
					if _, known := asks[fn.Name.Name]; known {
						return true
					}
					if i := slices.Index(parameters(fn), handed.Name); i >= 0 {
						asks[fn.Name.Name], grown = i, true
					}
					return true
				})
			}
		}
	}
}

// addWord returns the argument of n that is a word, nil if n does not ask for
// one, and adds the word if it is a literal.
func addWord(words map[string]bool, asks map[string]int, n ast.Node) ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	name := calledName(call)
	if name == "require.Backends" {
		for _, b := range backends {
			words[b] = true
		}
	}
	i, ok := asks[name]
	if !ok || i >= len(call.Args) {
		return nil
	}
	if lit, ok := call.Args[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if word, err := strconv.Unquote(lit.Value); err == nil {
			words[word] = true
		}
	}
	return call.Args[i]
}

// calledName returns f or require.F for a call of such a function.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if p, ok := fun.X.(*ast.Ident); ok && p.Name == "require" {
			return "require." + fun.Sel.Name
		}
	}
	return ""
}

func parameters(fn *ast.FuncDecl) (names []string) {
	for _, field := range fn.Type.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

func TestAskedFor(t *testing.T) {
	const helpers = "package p\nfunc look(t testing.TB, name, word string) { lacks(word, t) }\n" +
		"func lacks(word string, t testing.TB) { require.Missing(t, word, \"\") }\n"
	for _, test := range []struct {
		name string
		tree map[string]string
		want []string
	}{
		{"direct", map[string]string{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { require.Tool(t, \"gcc\"); require.Missing(t, \"curl\", \"nss\") }"}, []string{"curl", "gcc"}},
		{"through helpers", map[string]string{"p/p_test.go": helpers, "p/q_test.go": "package p\nfunc TestA(t *testing.T) { t.Run(\"java\", func(t *testing.T) { look(t, \"node\", \"nss\") }) }"}, []string{"nss"}},
		{"another package's helpers", map[string]string{"p/p_test.go": helpers, "q/q_test.go": "package p\nfunc TestA(t *testing.T) { look(t, \"node\", \"nss\") }"}, nil},
		{"in a variable", map[string]string{"p/p_test.go": helpers + "var f = func(t *testing.T) { lacks(\"nss\", t) }"}, []string{"nss"}},
		{"backends", map[string]string{"a_test.go": "package a\nfunc TestA(t *testing.T) { require.Backends(t, nil) }"}, backends},
		{"declared only", map[string]string{"a_test.go": "package a\nfunc TestA(t *testing.T) { if require.Declared(t, \"gcc\") { f(\"curl\") } }"}, nil},
		{"comments and strings", map[string]string{"a_test.go": "package a\n// require.Tool(t, \"gcc\")\nvar s = `require.Tool(t, \"gcc\")`"}, nil},
		{"what is no test of the tree", map[string]string{
			"internal/require/require_test.go": "package require\nfunc TestA(t *testing.T) { require.Tool(t, \"gcc\") }",
			"a/testdata/a_test.go":             "package a\nfunc TestA(t *testing.T) { require.Tool(t, \"gcc\") }",
			"a/a.go":                           "package a\nfunc f(t testing.TB) { require.Tool(t, \"gcc\") }",
		}, nil},
	} {
		tree := fstest.MapFS{}
		for name, source := range test.tree {
			tree[name] = &fstest.MapFile{Data: []byte(source)}
		}
		words, err := askedFor(tree)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want := make(map[string]bool)
		for _, word := range test.want {
			want[word] = true
		}
		for word := range words {
			if !want[word] {
				t.Errorf("%s: %s is not asked for", test.name, word)
			}
		}
		for word := range want {
			if !words[word] {
				t.Errorf("%s: %s is asked for", test.name, word)
			}
		}
	}
}
