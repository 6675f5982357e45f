// intel-ipsec-mb, through the functions behind IMB_AES128_GCM_ENC and the like.
//
//	cmake -S intel-ipsec-mb -B build -DBUILD_LIBRARY_ONLY=ON -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
//	cmake --build build
//	cc -O2 -shared -fPIC -I intel-ipsec-mb/lib -o ipsec_mb.so ipsec_mb.c build/lib/libIPSec_MB.a -Wl,--exclude-libs,ALL,-z,noexecstack
//
// With -DSAFE_DATA=OFF -DSAFE_PARAM=OFF -DSAFE_LOOKUP=OFF it is fastest: it
// erases no registers and checks no arguments. peer.h has -DNONCES_READY.
//
// Functions are called by name, because the manager that has those with VAES
// also wants GFNI, which they do not use.

#include <intel-ipsec-mb.h>
#include <stdlib.h>

#include "peer.h"

typedef void crypt(const struct gcm_key_data *, struct gcm_context_data *, uint8_t *out, const uint8_t *in, uint64_t n,
		   const uint8_t *iv, const uint8_t *aad, uint64_t aad_len, uint8_t *tag, uint64_t tag_len);
typedef void pre(const void *key, struct gcm_key_data *);

struct key {
	struct gcm_key_data data;
	crypt *enc, *dec;
};

static void *make(const uint8_t *key, pre *pre, crypt *enc, crypt *dec)
{
	struct key *k = aligned_alloc(64, (sizeof *k + 63) & ~63ul);
	pre(key, &k->data);
	k->enc = enc;
	k->dec = dec;
	return k;
}

static void seal(void *key, uint8_t *buf, size_t n, uint64_t number, uint64_t count)
{
	const struct key *k = key;
	struct gcm_context_data context;
	while (count--)
		k->enc(&k->data, &context, buf, buf, n, nonce_of(number++), header, 5, buf + n, 16);
}

static uint64_t open(void *key, uint8_t *dst, const uint8_t *src, size_t n, uint64_t number, uint64_t count)
{
	const struct key *k = key;
	struct gcm_context_data context;
	uint64_t right = 0, tag[2], sent[2];
	while (count--) {
		k->dec(&k->data, &context, dst, src, n, nonce_of(number), header, 5, (uint8_t *)tag, 16);
		memcpy(sent, src + n, 16); // comparing tags is left to the caller
		right += ((tag[0] ^ sent[0]) | (tag[1] ^ sent[1])) == 0;
	}
	return right;
}

#define FUNCTIONS(variant)                                                                                             \
	extern pre aes_gcm_pre_128_##variant, aes_gcm_pre_256_##variant;                                               \
	extern crypt aes_gcm_enc_128_##variant, aes_gcm_dec_128_##variant;                                             \
	extern crypt aes_gcm_enc_256_##variant, aes_gcm_dec_256_##variant;                                             \
	static void *new_##variant(const uint8_t *key, size_t size)                                                    \
	{                                                                                                              \
		return size == 16                                                                                      \
			? make(key, aes_gcm_pre_128_##variant, aes_gcm_enc_128_##variant, aes_gcm_dec_128_##variant)   \
			: make(key, aes_gcm_pre_256_##variant, aes_gcm_enc_256_##variant, aes_gcm_dec_256_##variant);  \
	}

FUNCTIONS(vaes_avx2)
FUNCTIONS(avx_gen4)
FUNCTIONS(sse)

const struct peer peers[] = {
	{"ipsec-mb, VAES", new_vaes_avx2, seal, open},
	{"ipsec-mb, AVX", new_avx_gen4, seal, open},
	{"ipsec-mb, SSE", new_sse, seal, open},
	{NULL},
};
