//go:build !amd64 || purego

package gcm

type (
	key       = genericKey
	recordKey = genericRecordKey
)
