//go:build !amd64 || purego

package gcm

import "example.com/splitseal/internal/asm"

type (
	key       = genericKey
	recordKey = genericRecordKey
)

func (k *genericKey) kernel() *asm.Key { return nil }

func (k *genericRecordKey) kernel() *asm.Key { return nil }
