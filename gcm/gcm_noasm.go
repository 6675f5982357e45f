package gcm

type (
	key       = genericKey
	recordKey = genericRecordKey
)
