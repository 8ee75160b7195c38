/* tests/support/state_reread.h - a state as bytes in memory and back. All in a header, like state_feed.h. */
#ifndef PAWL_TESTS_STATE_REREAD_H
#define PAWL_TESTS_STATE_REREAD_H
#include "daemon/base/buf.h"
#include "pawl/state.h"

#include <sodium.h>

static inline int to_buf(void *arg, const void *p, size_t n, struct pawl_error *err)
{
	struct buf *to = arg;

	assert_true(n > 0 && n <= 65536);
	buf_add(to, p, n);
	return buf_ok(to) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "the test's buffer is full");
}

struct bytes_left { /* to be read: at most `piece` at a time, 0 = no bound */
	const char *p;
	size_t n, piece;
};

static inline int from_left(void *arg, void *p, size_t max, size_t *ret_n, struct pawl_error *err)
{
	struct bytes_left *left = arg;
	size_t n = left->n < max ? left->n : max;

	(void)err;
	if (left->piece && n > left->piece)
		n = left->piece;
	if (n)
		memcpy(p, left->p, n);
	left->p += n;
	left->n -= n;
	*ret_n = n;
	return 0;
}

static inline void write_state(const struct state *st, struct buf *to)
{
	*to = BUF_MAX((size_t)1 << 31);
	assert_int_equal(state_write(st, to_buf, to, NULL), 0);
}

static inline int read_state(const char *p, size_t n, size_t piece, struct state **ret, struct pawl_error *err)
{
	struct bytes_left left = { p, n, piece };

	return state_read(from_left, &left, ret, err);
}

/* The state that was written and read takes the place of the one that was there; the digest is that of the bytes. */
static inline void reread(struct state **st)
{
	struct pawl_error err = { .code = PAWL_OK };
	uint8_t was[32], is[32], of[32];
	struct state *copy = NULL;
	struct buf a, b;

	write_state(*st, &a);
	if (read_state(a.p, a.n, 0, &copy, &err) != 0)
		fail_msg("a state that was written is not read: %s", err.msg);
	write_state(copy, &b);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.p, b.p, a.n);
	state_digest(*st, was);
	state_digest(copy, is);
	(void)crypto_hash_sha256(of, (const uint8_t *)a.p, a.n);
	assert_memory_equal(was, is, sizeof(was));
	assert_memory_equal(was, of, sizeof(was));
	buf_done(&a);
	buf_done(&b);
	state_free(*st);
	*st = copy;
}

#endif
