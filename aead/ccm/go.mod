module example.com/splitseal/aead/ccm

go 1.26.0

require (
	example.com/splitseal v0.0.0
	github.com/pion/dtls/v3 v3.1.15
)

require (
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace example.com/splitseal => ../..
