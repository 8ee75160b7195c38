/* tests/unit/test_state_log.c - whole logs: nothing but the entries matters. Not memory that runs out, not the order
 * of tables, not whether the state was copied on the way. */
#include "tests/support/random_log.h"

#include <stdlib.h>

/* What is reserved is exactly what the open calls hold of windows that have not rolled. */
static void check_sums(const struct state *st)
{
	int64_t held = 0, reserved = 0;

	for (const struct session_state *s = state_session_after(st, 0); s; s = state_session_after(st, s->id)) {
		int64_t open = 0;

		for (const struct call_state *c = state_open_after(st, s->id, 0); c;
		     c = state_open_after(st, s->id, c->seq), open++) {
			for (uint32_t h = ledger_holds(st, call_at(st, find_seq(st, c->seq))); h; h = hold_at(st, h)->next)
				held += hold_at(st, h)->epoch == ledger_at(st, hold_at(st, h)->ledger)->epoch ? hold_at(st, h)->amount : 0;
		}
		assert_int_equal(open, s->open_reservations);
		for (uint32_t l = session_at(st, find_session(st, s->id))->ledgers; l; l = ledger_at(st, l)->next)
			reserved += ledger_at(st, l)->sum.reserved;
	}
	for (uint32_t l = st->list.shared; l; l = ledger_at(st, l)->next)
		reserved += ledger_at(st, l)->sum.reserved;
	assert_int_equal(held, reserved);
}

/* One state is fed the log; the other one too, but is replaced by its own copy again and again. */
static void test_long_log(void **state)
{
	struct log l = { .a = feed_new(), .b = feed_new(), .x = 88172645463325252u };
	struct state *copy;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		random_step(&l);
		if (i % 97 == 0) {
			assert_int_equal(state_clone(l.b.st, &copy, NULL), 0);
			assert_same_state(l.b.st, copy);
			state_free(l.b.st);
			l.b.st = copy;
			assert_same_state(l.a.st, l.b.st);
			check_sums(l.a.st);
		}
	}
	assert_same_state(l.a.st, l.b.st);
	state_free(l.a.st);
	state_free(l.b.st);
}

/* Every allocation of every entry fails once: nothing has changed, and the next try succeeds. */
static void walk_no_memory(void)
{
	struct log l = { .a = feed_new(), .b = feed_new(), .x = 362436069u, .fail = true };
	struct state *copy = NULL;
	long n = 1;

	for (int i = 0; i < 600; i++)
		random_step(&l);
	assert_same_state(l.a.st, l.b.st);
	for (;; n++) {
		struct pawl_error err = { .code = PAWL_OK };
		int r;

		fail_malloc_after(n);
		r = state_clone(l.a.st, &copy, &err);
		if (!fail_malloc_stop()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, PAWL_E_NOMEM);
		assert_int_equal(err.code, PAWL_E_NOMEM);
		assert_null(copy);
	}
	assert_true(n > 40);
	assert_same_state(l.a.st, copy);
	state_free(copy);
	state_free(l.a.st);
	state_free(l.b.st);
	fail_malloc_after(1);
	assert_int_equal(state_new(&copy, NULL), PAWL_E_NOMEM);
	(void)fail_malloc_stop();
	state_free(NULL);
}

/* Text that a refused entry brought is not kept. */
static void test_unused_text(void **state)
{
	struct feed f = feed_new();
	struct entry e = opening(&f, "once"), stop = at(&f, ENTRY_STOP);
	struct state *copy;

	(void)state;
	assert_int_equal(state_room(f.st, &e, NULL), 0);
	assert_int_equal(f.st->by_text.n, 2);
	assert_int_equal(state_clone(f.st, &copy, NULL), 0);
	put(&f, &stop);
	assert_int_equal(f.st->by_text.n, 0);
	assert_int_equal(state_room(copy, &stop, NULL), 0);
	assert_int_equal(copy->by_text.n, 0);
	state_free(copy);
	state_free(f.st);
}

static void test_no_memory(void **state)
{
	(void)state;
	walk_no_memory();
}

static size_t bytes_of(const struct state *st)
{
	size_t n = 0;

#define ADD(kind, plural) n += (size_t)(st->plural.used - st->plural.n_free) * st->plural.size;
	STATE_POOLS(ADD)
#undef ADD
#define ADD(table) n += st->table.cap * sizeof(uint32_t);
	STATE_TABLES(ADD)
#undef ADD
	for (uint32_t h = st->list.sessions_first; h; h = session_at(st, h)->next)
		n += session_at(st, h)->ring_cap * 2 * sizeof(*session_at(st, h)->ring);
	return n;
}

/* A session with ten settled calls and one budget of its own: two states hold it, and there may be 100,000 of them. */
static void test_small(void **state)
{
	enum { SESSIONS = 2000 };
	struct feed f = feed_new();
	size_t each;

	(void)state;
	for (uint64_t i = 0; i < SESSIONS; i++) {
		uint64_t s = open_session(&f);

		for (uint64_t k = 0; k < 10; k++)
			settle(&f, s, allow(&f, s, k, 100 * i + k, 1), 1, false);
	}
	each = bytes_of(f.st) / SESSIONS;
	if (each > 1312)
		fail_msg("%zu bytes a session", each);
	state_free(f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_long_log),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_unused_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
