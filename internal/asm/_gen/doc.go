package main

// This file has no code. It says what a reader needs to know to check the rest,
// beyond what GCM is (NIST SP 800-38D) and how AES rounds work.
//
// # Elements of the field and their bits
//
// GHASH works in the field of polynomials over GF(2) modulo
//
//	p = x¹²⁸ + x⁷ + x² + x + 1
//
// GCM writes a polynomial with the coefficient of x⁰ in the highest bit of the
// first byte, so a block's 128 bits, read in order, are x⁰ … x¹²⁷. Reversing
// the order of a block's bytes (the table reversal), but not of the bits within
// them, makes it a number of 128 bits whose highest bit is the coefficient of
// x⁰ and whose lowest is that of x¹²⁷: bits are reflected.
//
// So element f is the number F whose bit 127-i is the coefficient of xⁱ, and a
// polynomial of up to 256 terms is a number of 256 bits, with bit 255-i for xⁱ.
// Low bits are high powers of x. Shifting F to the right multiplies f by x.
//
// # Where x⁻¹ comes from
//
// The processor multiplies numbers as polynomials, lowest bit first. In F·G
// the coefficient of xⁱ⁺ʲ in f·g, which comes from bits 127-i and 127-j, is at
// bit 254-(i+j). In a number of 256 bits it should be at bit 255-(i+j). So F·G
// stands for f·g·x: reflected products have one factor of x too many.
//
// One factor of every product is a power of H, so this is paid for once: the
// tables hold Hⁱ·x⁻¹ in place of Hⁱ. Then a block times an entry is the block
// times Hⁱ, and an entry times an entry is (Hⁱ·x⁻¹)·(Hʲ·x⁻¹)·x = Hⁱ⁺ʲ·x⁻¹,
// which is the entry for i+j.
//
// H·x⁻¹ is H shifted to the left by one bit. The bit that leaves at the top,
// the coefficient of x⁰, has become that of x⁻¹, and because p = 0,
//
//	x⁻¹ = 1 + x + x⁶ + x¹²⁷, the number 0xc2000000 00000000 00000000 00000001
//
// which is added if that bit was set (hashKey). It is in the table polynomial.
//
// # Reduction
//
// The sum of products is hi·2¹²⁸ + mid·2⁶⁴ + lo, 256 bits. Its upper 128 bits
// are x⁰ … x¹²⁷ and its lower 128 bits are x¹²⁸ and above, which have to go.
// Because p = 0,
//
//	x¹²⁸⁺ᵏ = xᵏ + xᵏ⁺¹ + xᵏ⁺² + xᵏ⁺⁷
//
// or, in terms of bits, bit b of the number can be replaced by bits b+128,
// b+127, b+126 and b+121. For the 64 lowest bits at once, as a number l, that
// is
//
//	l·2¹²⁸ + (l · 0xc200000000000000)·2⁶⁴
//
// because bits 63, 62 and 57 of that constant, the upper half of polynomial,
// times 2⁶⁴ are 127, 126 and 121. With lo = u·2⁶⁴ + l, replacing l leaves,
// besides the product, u·2⁶⁴ + l·2¹²⁸, which is lo with its halves swapped, in
// the place of mid. So
//
//	mid = mid + (lo with its halves swapped) + l·0xc200000000000000
//	hi = hi + (mid with its halves swapped) + (low half of mid)·0xc200000000000000
//
// leave the reduced element in hi: two multiplications (reduce). The second
// line does to mid, in its place, what the first did to lo.
//
// The method is from Gueron and Kounavis, "Intel Carry-Less Multiplication
// Instruction and its Usage for Computing the GCM Mode" (2010), in the form
// that crypto/cipher uses too.
//
// # Many blocks, one reduction
//
// GHASH of blocks X₁ … Xₙ is ((X₁·H + X₂)·H + …)·H = X₁·Hⁿ + X₂·Hⁿ⁻¹ + … +
// Xₙ·H. Products are added up unreduced, and the sum is reduced once per group
// of slots. A hash Y that continues in the next group is added to that group's
// first block or, because multiplication is distributive, starts the next sum
// as Y times that block's power (startSum). That needs no register to carry Y
// to where the block is loaded.
//
// # Slots
//
// One call handles J₀, additional data, text, lengths and tag. It numbers
// blocks by slots so that slot i uses counter i:
//
//	slot            0        1                2 …                  last
//	counter block   unused   J₀               text                 none
//	hashed block    none     additional data  ciphertext           lengths
//
// With n blocks of text there are T = n + 3 slots, and slot i is multiplied by
// H to the power T-i. Additional data of more than a block is hashed
// beforehand, up to its last block (the Hash kernel). Empty additional data is
// a block of zeros, which adds nothing to the sum and is not counted by GCM
// either. One batch of AES gives E(J₀), the mask of the tag, and keystream.
//
// A batch is eight vectors, in avx512 four. Batch 0 has slots 0 and 1, then text; every
// later one is all text. So batches begin at a counter that is a multiple of their
// number of slots, a power of two, which is what makes counters simple (ctr.go). In a
// call that continues a text, the first slot is text, with the hash so far in place of
// the additional data.
//
// # Powers
//
// The table has the powers in the order in which slots need them: highest power
// first. A batch begins at the address of its first slot's power, whichever
// that is, and vectors of any width load consecutive powers, so there are no
// masks for partial batches, and no blocks of padding are hashed. For slots
// that do not exist, the last vector loads the zeros after H¹.
//
// A group begins at the power whose exponent is the number of slots it covers: all that
// are left, if those are no more than a group, a batch and the block of lengths, and a
// whole group otherwise. So the group's last slot takes the table's last power, H¹, and
// the table's end is where the end of a group is noticed (nextBatch). The table says
// how many slots a group has, so that one for a single text can do with few powers.
//
// # Seal: hashing one batch behind
//
//	batch 0        encrypt
//	batch 1        encrypt    hash batch 0
//	batch 2        encrypt    hash batch 1
//	…
//	rest           encrypt    hash the last whole batch, then the rest
//
// Ciphertext is read back from the output for hashing: there are no eight registers to
// keep it in, except in avx512. An open hashes the batch that it decrypts, and for the
// same reason loads it twice: what changes in between is decrypted without having been
// verified. avx512 loads it once.
//
// Short texts, those that fit in batch 0, have code of their own for each
// number of vectors; so does the rest of a long text.
//
// # What a compiler would need
//
// Go 1.26 has the instructions, in simd/archsimd, an experiment (GOEXPERIMENT=simd)
// that Go's promise of compatibility does not cover. For these kernels to be
// unnecessary, its compiler would also have to
//
//   - keep a batch in registers: in aesni and vaes eight vectors of keystream, a
//     round key, three sums of products and four for what is being multiplied take all
//     16 (plan), and each spill costs a store and a load;
//   - leave AES rounds and multiplications woven as they are written, or find
//     an order as good: the times they take one after the other, and together,
//     are in docs/kernels.md, Multiplication;
//   - use powers and round keys as operands in memory, from tables whose bounds
//     were checked once, at an offset that the number of slots decides;
//   - compile each function for one set of features, chosen outside, with all steps
//     inlined and VZEROUPPER at its end;
//   - promise that no branch and no address depends on a secret, even after
//     optimization, and say where in a frame secrets stay behind.
//
// What needs none of this, the checks and the choice of a backend, is in Go.
