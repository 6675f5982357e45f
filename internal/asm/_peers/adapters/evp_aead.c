// BoringSSL and AWS-LC, through EVP_AEAD_CTX_seal and EVP_AEAD_CTX_open.
//
//	cmake -S boringssl -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON
//	cmake --build build --target crypto
//	cc -O2 -shared -fPIC -DNAME='"BoringSSL"' -I boringssl/include -o boringssl.so evp_aead.c build/libcrypto.a -lstdc++ -Wl,--exclude-libs,ALL
//
// AWS-LC is built in the same way, with -DDISABLE_GO=ON and -DDISABLE_PERL=ON;
// its library is build/crypto/libcrypto.a.

#include <openssl/aead.h>

#include "peer.h"

static void *new_key(const uint8_t *key, size_t size)
{
	return EVP_AEAD_CTX_new(size == 16 ? EVP_aead_aes_128_gcm() : EVP_aead_aes_256_gcm(), key, size, 16);
}

static void seal(void *key, uint8_t *buf, size_t n, uint64_t number, uint64_t count)
{
	size_t len;
	while (count--)
		EVP_AEAD_CTX_seal(key, buf, &len, n + 16, nonce_of(number++), 12, buf, n, header, 5);
}

static uint64_t open(void *key, uint8_t *dst, const uint8_t *src, size_t n, uint64_t number, uint64_t count)
{
	uint64_t right = 0;
	size_t len;
	while (count--)
		right += EVP_AEAD_CTX_open(key, dst, &len, n, nonce_of(number), 12, src, n + 16, header, 5);
	return right;
}

const struct peer peers[] = {{NAME, new_key, seal, open}, {NULL}};
