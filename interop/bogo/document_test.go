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

This file is written by the tests in `+"`interop/bogo`"+`, and they fail if it says
anything other than what they see. BoGo is the test runner of BoringSSL: it plays a
peer that makes one fault, or has one peculiarity, in each connection, and judges
what the other side sends and says. That side is our shim. Its handshake is either
crypto/tls's, and every record after it package record's, or that of
examples/tlsstack, and then every record from the first one on is package record's.

`+"```"+`
git clone https://boringssl.googlesource.com/boringssl ../boringssl
git -C ../boringssl checkout %s
SPLITSEAL_BOGO=$PWD/../boringssl go test -v ./interop/bogo
`+"```"+`

The runner needs modules that the go command fetches. With `+"`-update`"+` behind it the
last line writes this file. A newer runner does as well: then only failures are
reported, not the numbers compared.

All tests of TLS run, those of DTLS and QUIC do not. A test passes if the runner is
content with the alert and with our error, which must be the one that belongs to
BoringSSL's. "Left out" are tests of names that are listed below, with the reason;
they run, and if no test of a listed name fails any more, that is a failure. "Not
played" are those that the shim cannot play: of TLS 1.2 and older versions, and of
what neither handshake has.

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
The options are the shim's: it reads by WriteTo and not by Read, pads its records,
keeps its buffers, sizes its records dynamically.
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
