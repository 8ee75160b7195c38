/* policy/state_digest.c - SHA-256 over the bytes of a state (state_write.c), which are the same wherever it was made. */
#include "policy/state_bytes.h"

#include <assert.h>
#include <sodium.h>

static int hash(void *arg, const void *p, size_t n, struct pawl_error *err)
{
	(void)err;
	(void)crypto_hash_sha256_update(arg, p, n);
	return 0;
}

static void digest(const struct state *st, bool v5, uint8_t out[static 32])
{
	crypto_hash_sha256_state h;
	int r;

	(void)crypto_hash_sha256_init(&h);
	r = state_write_form(st, v5, hash, &h, NULL);
	assert(r == 0); /* it takes no memory, and this sink takes everything */
	(void)r;
	(void)crypto_hash_sha256_final(&h, out);
}

void state_digest(const struct state *st, uint8_t out[static 32])
{
	digest(st, false, out);
}

bool state_digest_v5(const struct state *st, uint8_t out[static 32])
{
	if (st->trees.used != st->trees.n_free)
		return false;
	digest(st, true, out);
	return true;
}
