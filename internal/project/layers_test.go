package project

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

var _ = cpu.X86 // so that the test notices when the module no longer needs it

const module = "example.com/splitseal"

// layers says, for every package that others may import, which packages of
// this module it may import itself. Tests may import anything below, and each
// other's helpers.
var layers = map[string][]string{
	"internal/mem":      {},
	"internal/standin":  {},
	"internal/asm":      {"internal/mem"},
	"gcm":               {"internal/asm", "internal/mem"},
	"aead":              {"gcm", "internal/mem"},
	"record":            {"aead", "internal/mem", "internal/standin"},
	"interop/cryptotls": {"aead", "internal/standin", "record"},
	"internal/aeadtest": {},
	"internal/memcheck": {},
	"internal/require":  {},
	"internal/project":  {},
	"internal/trace":    {},
	"fuzz":              {},
}

// TestImportsPointOneWay holds the layers apart: "Imports go one way: record →
// aead → gcm → internal/asm."
func TestImportsPointOneWay(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		name, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			t.Errorf("package %s outside of the module's folders", p.ImportPath)
			continue
		}
		seen[name] = true
		allowed, known := layers[name]
		if !known && !strings.HasPrefix(name, "examples/") {
			t.Errorf("package %s has no row in the table of layers", name)
			continue
		}
		for _, imp := range p.Imports {
			if dep, ok := strings.CutPrefix(imp, module+"/"); ok && known && !slices.Contains(allowed, dep) {
				t.Errorf("%s imports %s, which is not below it", name, dep)
			}
			// "No package above gcm names a CPU feature."
			if imp == "golang.org/x/sys/cpu" && name != "internal/asm" {
				t.Errorf("%s asks about the processor", name)
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("the table of layers has a row for %s, which is not there", name)
		}
	}
}

// TestPublicPackagesImportNoExample would fail if the library came to depend
// on what only shows it.
func TestPublicPackagesImportNoExample(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, module+"/examples/") {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}

// TestRootRequiresTwoModules keeps a dependency from slipping in.
func TestRootRequiresTwoModules(t *testing.T) {
	out := run(t, "go", "mod", "edit", "-json")
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range mod.Require {
		got = append(got, r.Path)
	}
	if want := []string{"golang.org/x/crypto", "golang.org/x/sys"}; !slices.Equal(got, want) {
		t.Errorf("go.mod requires %q, want %q", got, want)
	}
}

// TestPackagesAreDocumented wants each package of each module to say what it is.
func TestPackagesAreDocumented(t *testing.T) {
	names, docs := map[string]string{}, map[string]string{} // by folder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".git")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if name := f.Name.Name; !strings.HasSuffix(path, "_test.go") {
			names[dir] = name
			docs[dir] += f.Doc.Text()
		} else if names[dir] == "" {
			names[dir] = strings.TrimSuffix(name, "_test")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, name := range names {
		want := []string{"Package " + name + " "}
		if name == "main" {
			name = filepath.Base(dir)
			want = []string{"Command " + name + " ", strings.ToUpper(name[:1]) + name[1:] + " "}
		}
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(docs[dir], w) }) {
			t.Errorf("%s: documentation begins with %.40q, want %q", dir, docs[dir], want)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d packages found", len(names))
	}
}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(run(t, "go", "list", "-json=ImportPath,Imports", "./..."))))
	var list []listedPackage
	for {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 8 {
		t.Fatalf("go list found only %d packages", len(list))
	}
	return list
}

// root is the module's folder.
var root = filepath.Join("..", "..")

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, exit.Stderr)
		}
		t.Fatalf("%s: %v", name, err)
	}
	return out
}
