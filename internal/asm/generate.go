package asm

// The generator is a module of its own, so that nobody who uses this one needs
// its dependencies. GOWORK=off keeps it out of the workspace.

//go:generate env GOWORK=off go -C _gen run -tags purego . -layout ../layout.go
//go:generate env GOWORK=off go -C _gen run -tags purego . -backend cpu -out ../cpu_amd64.s
//go:generate env GOWORK=off go -C _gen run -tags purego . -backend aesni -out ../aesni_amd64.s
//go:generate env GOWORK=off go -C _gen run -tags purego . -backend vaes -out ../vaes_amd64.s
//go:generate env GOWORK=off go -C _gen run -tags purego . -backend avx512 -out ../avx512_amd64.s
