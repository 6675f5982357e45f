package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// describe returns the text of docs/bogo.md.
func describe(results []result, configs []config) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# BoGo

This file is written by the tests in `+"`interop/bogo`"+`, which fail if it says
anything other than what they see. BoGo is BoringSSL's test runner: in each
connection it plays a peer that has one fault or one peculiarity, and judges what
the other side sends and reports. That side is our shim. Its handshake is either
crypto/tls's, with every record after it package record's, or that of
examples/tlsstack, with every record from the first one on package record's.

`+"```"+`
git clone https://boringssl.googlesource.com/boringssl ../boringssl
git -C ../boringssl checkout %s
SPLITSEAL_BOGO=$PWD/../boringssl go test -v ./interop/bogo
`+"```"+`

The runner needs modules, which the go command fetches. With `+"`-update`"+` appended, the
last line writes this file. A newer runner works too; then failures are reported, but
the numbers are not compared.

All TLS tests run; those of DTLS and QUIC do not. A test passes if the runner accepts
the alert and our error, which must be the one that corresponds to BoringSSL's. "Left
out" tests have a name that is listed below, with the reason; they run, and it is a
failure if no test of a listed name fails any more. "Not played" tests are those that
the shim cannot play: of TLS 1.2 and older versions, and of what neither handshake has.

| handshake | options | passed | left out | not played |
|---|---|---|---|---|
`, boringSSL[:12])
	for _, r := range results {
		options := "none"
		if r.flags != "" {
			options = strings.ReplaceAll(r.flags, ";", " ")
			options = "`" + options + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", r.handshake, options, r.passed, r.leftOut, r.unplayed)
	}
	b.WriteString(`
The options are the shim's: it reads with WriteTo instead of Read, pads its records,
keeps its buffers, and sizes its records dynamically.
`)
	for i, c := range configs {
		fmt.Fprintf(&b, "\n## Left out: %s\n\n", handshakes[i].name)
		names := map[string][]string{} // by reason
		for name, why := range c.DisabledTests {
			names[why] = append(names[why], "`"+name+"`")
		}
		for _, why := range slices.Sorted(maps.Keys(names)) {
			slices.Sort(names[why])
			fmt.Fprintf(&b, "- %s: %s\n", why, strings.Join(names[why], ", "))
		}
	}
	return b.String()
}
