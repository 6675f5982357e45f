module example.com/splitseal/interop/qtlspeer

go 1.20

require github.com/quic-go/qtls-go1-20 v0.4.1

require (
	golang.org/x/crypto v0.4.0 // indirect
	golang.org/x/sys v0.3.0 // indirect
)
