//go:build !amd64 || purego

package asm

// There is no backend with kernels, so there is no usable Key.

func (k *Key) init(key *byte, size uint64) { panic(noKernel) }

func (k *Key) fillPowers(t *longTable, n int) { panic(noKernel) }

func (k *Key) hash(hash, data *byte, blocks uint64) { panic(noKernel) }

func (k *Key) sealText(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) { panic(noKernel) }

func (k *Key) openText(dst, src *byte, size int, trailer uint64, n Nonce, ad AD) (ok bool, last byte) {
	panic(noKernel)
}

func (k *Key) sealStream(long *longTable, dst, src *byte, size, trailer uint64, n Nonce, ad AD, bits uint64, s *stream) {
	panic(noKernel)
}

func (k *Key) openStream(long *longTable, dst, src *byte, size, trailer uint64, n Nonce, ad AD, bits uint64, s *stream) (ok bool, last byte) {
	panic(noKernel)
}
