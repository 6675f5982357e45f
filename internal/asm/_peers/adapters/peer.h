// What the adapter of a library exports: how to seal and open with it. Adapters
// have the loops, so that no time has a call from Go in it.
//
// Additional data are 5 bytes, a record's header. A nonce is 4 zero bytes and
// a number, which goes up by one from call to call of a seal, and stays the
// same while one text is opened again and again.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct peer {
	const char *name;

	// new_key returns what the others take, or NULL if it cannot.
	void *(*new_key)(const uint8_t *key, size_t size);

	// seal seals n bytes at buf in place, and the tag behind them, count times.
	void (*seal)(void *key, uint8_t *buf, size_t n, uint64_t number, uint64_t count);

	// open opens n bytes of ciphertext, and the tag behind them, count times,
	// and returns how often the tag was right.
	uint64_t (*open)(void *key, uint8_t *dst, const uint8_t *src, size_t n, uint64_t number, uint64_t count);
};

// peers ends with one that has no name.
extern const struct peer peers[];

static const uint8_t header[5] = {23, 3, 3, 0, 0};

// nonce_of returns the nonce of a number. It was just written, as by a protocol
// whose nonce is a number, so that a library that loads it as one vector has to
// wait for two stores. With -DNONCES_READY, 64 of them were written long ago.
static inline const uint8_t *nonce_of(uint64_t number)
{
#ifdef NONCES_READY
	static uint8_t nonces[64][16];
	uint8_t *nonce = nonces[number % 64];
	if (nonce[11] == number % 64)
		return nonce;
	number %= 64;
#else
	static uint8_t nonce[16];
#endif
	number = __builtin_bswap64(number);
	memcpy(nonce + 4, &number, sizeof number);
	return nonce;
}
