// Package require decides whether a test whose subject is missing may skip.
//
// A backend, a tool or a peer program that is not there usually means a skip,
// and a skip that nobody notices means a test that never runs. The environment
// variable SPLITSEAL_REQUIRE declares what a test run must have: a list of the
// words below, separated by commas. What is listed and missing fails.
//
//	backends  avx512, vaes, aesni, portable
//	tools     gcc, go, ptrace, valgrind
//	peers     bogo, chromium, curl, gnutls, java, nginx, node, nss, openssl,
//	          python, qtls, tshark
//	groups    tools, peers: every word of that row
//
// ptrace is no program but the system call, without which no test can follow a
// process. bogo is BoringSSL's source, whose directory SPLITSEAL_BOGO names.
//
// A word that is not in the table fails every test that asks, so that a
// misspelt declaration cannot pass for a kept one. For the same reason, every
// word in the table is one that some test asks for.
//
// Only tests import this package.
package require

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Env is the name of the environment variable that holds the declaration.
const Env = "SPLITSEAL_REQUIRE"

var (
	backends = []string{"avx512", "vaes", "aesni", "portable"}
	tools    = []string{"gcc", "go", "ptrace", "valgrind"}
	peers    = []string{"bogo", "chromium", "curl", "gnutls", "java", "nginx", "node", "nss", "openssl", "python", "qtls", "tshark"}
)

// Parse returns the words that the declaration names, groups replaced by what
// they hold, without repetition and in the order of the table.
//
// It returns an error that names the first word that is empty or unknown. The
// empty declaration is valid and names nothing.
func Parse(declaration string) ([]string, error) {
	if declaration == "" {
		return nil, nil
	}
	known := slices.Concat(backends, tools, peers)
	named := make(map[string]bool)
	for word := range strings.SplitSeq(declaration, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "tools":
			for _, w := range tools {
				named[w] = true
			}
		case word == "peers":
			for _, w := range peers {
				named[w] = true
			}
		case slices.Contains(known, word):
			named[word] = true
		default:
			return nil, fmt.Errorf("%s: unknown word %q", Env, word)
		}
	}
	return slices.DeleteFunc(known, func(w string) bool { return !named[w] }), nil
}

// declared returns what the environment declares. It ends the test when the
// declaration is malformed.
func declared(t testing.TB) []string {
	t.Helper()
	words, err := Parse(os.Getenv(Env))
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// Missing ends the test because word, a word of the table, is not there: as a
// failure if the declaration names it, else as a skip. The reason is part of
// either message.
//
// It panics if word is not in the table, since such a word could never be
// declared.
func Missing(t testing.TB, word, reason string) {
	t.Helper()
	if !slices.Contains(slices.Concat(backends, tools, peers), word) {
		panic("require: " + word + " is not in the table")
	}
	if slices.Contains(declared(t), word) {
		t.Fatalf("%s declares %s, which is missing: %s", Env, word, reason)
	}
	t.Skipf("no %s: %s (%s=%s makes this a failure)", word, reason, Env, word)
}

// Declared reports whether the declaration names word. A test that costs much
// can ask, and run only where its subject is declared.
func Declared(t testing.TB, word string) bool {
	t.Helper()
	return slices.Contains(declared(t), word)
}

// Tool returns the path of the program called word, a word of the table, or
// ends the test as [Missing] does.
func Tool(t testing.TB, word string) string {
	t.Helper()
	path, err := exec.LookPath(word)
	if err != nil {
		Missing(t, word, err.Error())
	}
	return path
}

// Backends fails the test for each backend that the declaration names and have
// lacks. It does not end the test.
func Backends(t testing.TB, have []string) {
	t.Helper()
	for _, word := range declared(t) {
		if slices.Contains(backends, word) && !slices.Contains(have, word) {
			t.Errorf("%s declares the backend %s; this build on this machine has %v", Env, word, have)
		}
	}
}
