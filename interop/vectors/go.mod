module example.com/splitseal/interop/vectors

go 1.26.4

require (
	example.com/splitseal v0.0.0
	example.com/splitseal/aead/ccm v0.0.0
	github.com/c2sp/wycheproof v0.0.0-20260902155932-3fa63dd0344a
)

require (
	github.com/pion/dtls/v3 v3.1.15 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace example.com/splitseal => ../..

replace example.com/splitseal/aead/ccm => ../../aead/ccm
