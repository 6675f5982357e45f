package require

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorder is a testing.TB that notes how a test would have ended.
type recorder struct {
	testing.TB
	failed, skipped bool
	message         string
}

// ended is what recorder panics with where testing.T would leave the goroutine.
type ended struct{}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed, r.message = true, fmt.Sprintf(format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(ended{})
}

func (r *recorder) Fatal(args ...any) {
	r.failed, r.message = true, fmt.Sprint(args...)
	panic(ended{})
}

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped, r.message = true, fmt.Sprintf(format, args...)
	panic(ended{})
}

// record runs f under the given declaration and returns how it ended.
func record(t *testing.T, declaration string, f func(testing.TB)) *recorder {
	t.Helper()
	t.Setenv(Env, declaration)
	r := &recorder{}
	func() {
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(ended); !ok {
					panic(p)
				}
			}
		}()
		f(r)
	}()
	return r
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		declaration string
		want        []string
	}{
		{"", nil},
		{"aesni", []string{"aesni"}},
		{"aesni,avx512", []string{"avx512", "aesni"}},
		{" vaes , vaes,openssl ", []string{"vaes", "openssl"}},
		{"peers", peers},
		{"tools,curl,aesni", slices.Concat([]string{"aesni"}, tools, []string{"curl"})},
	} {
		got, err := Parse(test.declaration)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("Parse(%q) = %v, %v; want %v", test.declaration, got, err, test.want)
		}
	}
}

func TestParseRefusesUnknownWords(t *testing.T) {
	for _, declaration := range []string{",", "aesni,", "aesni,,vaes", "AESNI", "avx-512", "all", "vaes aesni", "-vaes", "backends"} {
		if got, err := Parse(declaration); err == nil {
			t.Errorf("Parse(%q) = %v; want an error", declaration, got)
		}
	}
}

func TestMissing(t *testing.T) {
	missing := func(tb testing.TB) { Missing(tb, "vaes", "for the test") }
	for _, test := range []struct {
		declaration     string
		failed, skipped bool
		says            string
	}{
		{"", false, true, "for the test"},
		{"aesni,peers", false, true, "for the test"},
		{"aesni,vaes", true, false, "for the test"},
		{"aesni,veas", true, false, `"veas"`},
	} {
		r := record(t, test.declaration, missing)
		if r.failed != test.failed || r.skipped != test.skipped || !strings.Contains(r.message, test.says) {
			t.Errorf("%q: failed %v, skipped %v, %q; want %v, %v, a message with %q", test.declaration,
				r.failed, r.skipped, r.message, test.failed, test.skipped, test.says)
		}
	}
}

func TestMissingPanicsOnWordOutsideTheTable(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Missing with a word that cannot be declared did not panic")
		}
	}()
	Missing(&recorder{}, "nonsense", "")
}

func TestDeclared(t *testing.T) {
	for declaration, want := range map[string]bool{"": false, "gcc": true, "tools": true, "peers": false} {
		t.Setenv(Env, declaration)
		if got := Declared(t, "gcc"); got != want {
			t.Errorf("%q: gcc declared %v, want %v", declaration, got, want)
		}
	}
	if r := record(t, "gc", func(tb testing.TB) { Declared(tb, "gcc") }); !r.failed {
		t.Error("Declared accepts an unknown word")
	}
}

func TestTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	look := func(tb testing.TB) { Tool(tb, "openssl") }
	if r := record(t, "", look); !r.skipped || r.failed {
		t.Errorf("an undeclared tool that is missing: skipped %v, failed %v", r.skipped, r.failed)
	}
	if r := record(t, "peers", look); r.skipped || !r.failed {
		t.Errorf("a declared tool that is missing: skipped %v, failed %v", r.skipped, r.failed)
	}
}

func TestBackends(t *testing.T) {
	for _, test := range []struct {
		declaration string
		have        []string
		failed      bool
	}{
		{"", nil, false},
		{"openssl", nil, false},
		{"aesni", []string{"vaes", "aesni", "portable"}, false},
		{"aesni,avx512", []string{"vaes", "aesni", "portable"}, true},
		{"portable", []string{"portable"}, false},
		{"nonsense", []string{"portable"}, true},
	} {
		r := record(t, test.declaration, func(tb testing.TB) { Backends(tb, test.have) })
		if r.failed != test.failed {
			t.Errorf("%q with %v: failed %v (%s); want %v", test.declaration, test.have, r.failed, r.message, test.failed)
		}
	}
}
