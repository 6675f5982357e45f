//go:build go1.27

package cryptotls

// netHTTPKnowsConn: see the file for older versions.
const netHTTPKnowsConn = true
