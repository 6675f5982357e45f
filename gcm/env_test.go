package gcm_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/splitseal/gcm"
	"example.com/splitseal/internal/asm"
)

// TestUnknownWord runs this test again as another process, in whose
// environment SPLITSEAL_CPU holds a word without a meaning: every constructor
// returns an error, on every backend and platform, and nothing panics.
func TestUnknownWord(t *testing.T) {
	const child = "SPLITSEAL_TEST_CONSTRUCTORS"
	if os.Getenv(child) != "" {
		key := make([]byte, 16)
		_, err1 := gcm.New(key)
		_, err2 := gcm.NewWithNonceSize(key, 16)
		_, err3 := gcm.NewWithTagSize(key, 12)
		_, err4 := gcm.NewRecordKey(key, make([]byte, gcm.NonceSize))
		fmt.Println(err1 != nil, err2 != nil, err3 != nil, err4 != nil, gcm.Backend() == "none")
		os.Exit(0)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{
		"-vaes,fast": "true true true true true\n",
		"aesni":      "true true true true true\n",
		"-vaes":      "false false false false false\n",
	} {
		command := exec.Command(executable, "-test.run=^TestUnknownWord$")
		command.Env = append(os.Environ(), child+"=1", asm.EnvCPU+"="+word)
		out, err := command.CombinedOutput()
		if err != nil && strings.Contains(err.Error(), "exec format error") {
			t.Skip("no other process can be started here, as in an emulator: ", err)
		}
		if err != nil || string(out) != want {
			t.Errorf("%s=%s: errors %q (%v), want %q", asm.EnvCPU, word, out, err, want)
		}
	}
}
