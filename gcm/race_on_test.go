//go:build race

package gcm_test

const raceEnabled = true
