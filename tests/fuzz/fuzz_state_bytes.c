/* tests/fuzz/fuzz_state_bytes.c - any bytes as a state: refused, or a state whose one form they are, and which stands whatever comes after. */
#include "tests/support/state_wear.h"

#include <stdlib.h>

#define MUST(x) ((x) ? (void)0 : abort())

struct bytes {
	const uint8_t *p;
	size_t n;
};

static int next_of(void *arg, void *p, size_t max, size_t *ret_n, struct pawl_error *err)
{
	struct bytes *in = arg;
	size_t n = in->n < max ? in->n : max;

	(void)err;
	if (n > 1)
		n = n / 2 + 1; /* in pieces */
	if (n)
		memcpy(p, in->p, n);
	in->p += n;
	in->n -= n;
	*ret_n = n;
	return 0;
}

static int same_as(void *arg, const void *p, size_t n, struct pawl_error *err)
{
	struct bytes *in = arg;

	(void)err;
	MUST(n <= in->n && memcmp(in->p, p, n) == 0);
	in->p += n;
	in->n -= n;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size }, out = { data, size };
	struct pawl_error err = { .code = PAWL_OK };
	struct state *st = NULL;

	if (state_read(next_of, &in, &st, &err) < 0) {
		MUST(!st && err.code == PAWL_E_TAMPERED && err.msg[0]);
		return 0;
	}
	MUST(state_write(st, same_as, &out, &err) == 0 && out.n == 0);
	MUST(wear_out(st));
	state_free(st);
	return 0;
}
