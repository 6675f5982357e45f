// picotls fusion, through its functions for one AEAD block. They take the nonce
// as a vector, which here never goes through memory.
//
//	cc -O2 -shared -fPIC -mavx2 -maes -mpclmul -mvaes -mvpclmulqdq -I picotls/include -o fusion.so fusion.c picotls/lib/fusion.c picotls/lib/picotls.c picotls/lib/hpke.c

#include <picotls.h>
#include <picotls/fusion.h>

#include "peer.h"

// What powers of H are made for.
#define CAPACITY (16384 + sizeof header)

static void *new_key(const uint8_t *key, size_t size)
{
	return ptls_fusion_is_supported_by_cpu() ? ptls_fusion_aesgcm_new(key, size, CAPACITY) : NULL;
}

static void seal(void *key, uint8_t *buf, size_t n, uint64_t number, uint64_t count)
{
	while (count--)
		ptls_fusion_aesgcm_encrypt(key, buf, buf, n, _mm_slli_si128(_mm_cvtsi64_si128(number++), 4), header, 5,
					   NULL);
}

static uint64_t open(void *key, uint8_t *dst, const uint8_t *src, size_t n, uint64_t number, uint64_t count)
{
	uint64_t right = 0;
	while (count--)
		right += ptls_fusion_aesgcm_decrypt(key, dst, src, n, _mm_slli_si128(_mm_cvtsi64_si128(number), 4),
						    header, 5, src + n);
	return right;
}

const struct peer peers[] = {{"picotls fusion", new_key, seal, open}, {NULL}};
