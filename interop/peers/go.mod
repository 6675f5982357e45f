module example.com/splitseal/interop/peers

go 1.26.0

require (
	example.com/splitseal v0.0.0
	example.com/splitseal/aead/ccm v0.0.0-00010101000000-000000000000
	golang.org/x/net v0.62.0
)

require (
	github.com/pion/dtls/v3 v3.1.15 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace example.com/splitseal => ../..

replace example.com/splitseal/aead/ccm => ../../aead/ccm
