// OpenSSL, through EVP with a context that keeps the key and takes a new nonce.
//
//	cc -O2 -shared -fPIC -o openssl.so openssl.c -lcrypto

#include <openssl/evp.h>
#include <stdlib.h>

#include "peer.h"

// A key needs two contexts: what a context does is decided when it is set up.
struct contexts {
	EVP_CIPHER_CTX *seal, *open;
};

static void *new_key(const uint8_t *key, size_t size)
{
	const EVP_CIPHER *cipher = size == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm();
	struct contexts *c = malloc(sizeof *c);
	c->seal = EVP_CIPHER_CTX_new();
	c->open = EVP_CIPHER_CTX_new();
	EVP_EncryptInit_ex(c->seal, cipher, NULL, key, NULL);
	EVP_DecryptInit_ex(c->open, cipher, NULL, key, NULL);
	return c;
}

static void seal(void *key, uint8_t *buf, size_t n, uint64_t number, uint64_t count)
{
	EVP_CIPHER_CTX *ctx = ((struct contexts *)key)->seal;
	int len;
	while (count--) {
		EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, nonce_of(number++));
		EVP_EncryptUpdate(ctx, NULL, &len, header, 5);
		EVP_EncryptUpdate(ctx, buf, &len, buf, n);
		EVP_EncryptFinal_ex(ctx, buf + n, &len);
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, buf + n);
	}
}

static uint64_t open(void *key, uint8_t *dst, const uint8_t *src, size_t n, uint64_t number, uint64_t count)
{
	EVP_CIPHER_CTX *ctx = ((struct contexts *)key)->open;
	uint64_t right = 0;
	int len;
	while (count--) {
		EVP_DecryptInit_ex(ctx, NULL, NULL, NULL, nonce_of(number));
		EVP_DecryptUpdate(ctx, NULL, &len, header, 5);
		EVP_DecryptUpdate(ctx, dst, &len, src, n);
		EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 16, (void *)(src + n));
		right += EVP_DecryptFinal_ex(ctx, dst + n, &len) > 0;
	}
	return right;
}

const struct peer peers[] = {{"OpenSSL", new_key, seal, open}, {NULL}};
