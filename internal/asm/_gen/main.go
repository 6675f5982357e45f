// Command _gen writes the AES-GCM kernels of package internal/asm.
//
//	go run -tags purego . -backend aesni -out ../aesni_amd64.s
//
// One run writes one backend. The files are, in reading order:
//
//	doc.go        the mathematics: GHASH, counters, slots, groups
//	layout.go     the key's layout, shared with package asm
//	vectors.go    16- or 32-byte vectors behind one set of names
//	constants.go  tables in memory and what they mean
//	ghash.go      products, sums, reduction, groups of powers
//	ctr.go        counter blocks
//	aes.go        rounds, and how hashing is woven into them
//	tails.go      last blocks that are not whole
//	plan.go       which register holds what, and the parameters
//	pieces.go     texts in pieces
//	seal.go       the seal kernel
//	open.go       the open kernel
//	setup.go      key expansion and powers of H
//	hash.go       GHASH of additional data that is longer than one block
//	cpu.go        CPUID and XGETBV
//
//	zmm_plan.go   the kernels for 64-byte vectors: registers, parameters, tables
//	zmm_ghash.go  their products, which differ, sums and reduction; the hash kernel
//	zmm_crypt.go  their counter blocks, rounds and tails
//	zmm_seal.go   their seal kernel
//	zmm_open.go   their open kernel
//	zmm_setup.go  their powers of H
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	backend := flag.String("backend", "", "backend to generate: aesni, vaes or avx512, or cpu for what detects them")
	layout := flag.String("layout", "", "write the Go constants of the key's layout to this file, and nothing else")
	flag.Parse()
	if *layout != "" {
		if err := writeLayout(*layout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}

	ConstraintExpr("amd64,!purego")
	switch *backend {
	case "cpu":
		cpuFunctions()
	case "aesni":
		aesni.kernels()
	case "vaes":
		vaes.kernels()
	case "avx512":
		zmmPlan().kernels()
	default:
		fmt.Fprintf(os.Stderr, "unknown backend %q\n", *backend)
		os.Exit(2)
	}
	Generate()
}

func (d design) kernels() {
	d.constants()
	d.initKernel()
	d.powersKernel()
	d.hashKernel()
	d.sealKernel()
	d.openKernel()
}
