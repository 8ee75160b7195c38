/* tests/unit/test_state_log.c - whole logs: nothing but the entries matters. Not memory that runs out, not the order
 * of tables, not whether the state was copied on the way. */
#include "tests/support/fail_malloc.h"
#include "tests/support/state_feed.h"

#include <stdlib.h>

struct log {
	struct feed a, b;
	uint64_t x;
	uint64_t open[256][2];
	size_t n_open;
	bool fail; /* each entry first meets every allocation that fails */
};

static uint64_t roll(struct log *l, uint64_t n)
{
	l->x ^= l->x << 13;
	l->x ^= l->x >> 7;
	l->x ^= l->x << 17;
	return l->x % n;
}

static void put_both(struct log *l, const struct entry *e)
{
	uint8_t before[32], after[32];

	if (l->fail)
		state_digest(l->a.st, before);
	for (long n = 1; l->fail; n++) {
		int r;

		fail_malloc_after(n);
		r = state_room(l->a.st, e, NULL);
		if (!fail_malloc_stop())
			break;
		assert_int_equal(r, PAWL_E_NOMEM);
		state_digest(l->a.st, after);
		assert_memory_equal(before, after, sizeof(before));
	}
	put(&l->a, e);
	put(&l->b, e);
	l->b.now = l->a.now;
}

static uint64_t some_session(struct log *l)
{
	const struct session_state *s = state_session_after(l->a.st, roll(l, state_next_seq(l->a.st)));

	return s && s->end == SESSION_LIVE ? s->id : 0;
}

static void due_first(struct log *l)
{
	struct deadline due;

	while (state_next_deadline(l->a.st, &due) && due.at <= l->a.now) {
		struct entry e = due.kind == DEADLINE_CARD ? timing_out(&l->a, due.session, due.id)
							   : expiry(&l->a, due.session, due.id);

		put_both(l, &e);
	}
}

static void random_decision(struct log *l, uint64_t s)
{
	static const char *const budgets[] = { "run", "tokens", "calls" };
	struct draw d[3];
	size_t n = roll(l, 4);
	struct entry e;
	const struct card_state *card;

	for (size_t i = 0; i < n; i++)
		d[i] = draw_of(roll(l, 2) ? s : 0, budgets[i],
			       i == 0   ? UNIT_MONEY
			       : i == 1 ? UNIT_TOKENS
					: UNIT_CALLS,
			       (int64_t)roll(l, 1000));
	e = decision(&l->a, s, roll(l, 40), roll(l, 3), (enum verdict)(1 + roll(l, 3)), d, n);
	e.decision.has_repeat = roll(l, 2);
	if (roll(l, 8) == 0)
		e.decision.tool = roll(l, 2) ? STR("another.tool") : STR("third.tool");
	card = state_card(l->a.st, s, e.decision.card_token);
	if (e.decision.answer == VERDICT_REVIEW && card) {
		e.decision.card = card->id;
		e.decision.card_until = card->until;
	}
	e.decision.guard_repeat = state_guard(l->a.st, s, e.decision.tool).repeat;
	if (roll(l, 10) == 0 && !e.decision.guard_repeat)
		e.decision.guard_repeat = 5;
	put_both(l, &e);
	if (e.decision.answer == VERDICT_ALLOW && l->n_open < PAWL_LEN(l->open)) {
		l->open[l->n_open][0] = s;
		l->open[l->n_open++][1] = e.seq;
	}
}

static void random_settle(struct log *l)
{
	size_t i = roll(l, l->n_open);
	uint64_t s = l->open[i][0], dec = l->open[i][1];
	const struct call_state *call = state_decision(l->a.st, dec);
	struct charge c[3];
	struct draw held[3];
	struct entry e = at(&l->a, ENTRY_SETTLE);
	struct entry_settle body = { .session = s, .decision = dec, .outcome = OUTCOME_ERROR, .charges = c };

	l->open[i][0] = l->open[l->n_open - 1][0];
	l->open[i][1] = l->open[--l->n_open][1];
	if (!call)
		return;
	body.n_charges = state_holds(l->a.st, dec, held, 3);
	for (size_t k = 0; k < body.n_charges; k++)
		c[k] = (struct charge){ .draw = held[k],
					.reserved = call->settled ? 0 : held[k].amount,
					.charged = (int64_t)roll(l, 1500) };
	id16(body.same, l->x);
	if (call->settled) {
		e.kind = ENTRY_LOSS;
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = s, .decision = dec, .late = body };
	} else {
		e.settle = body;
	}
	put_both(l, &e);
}

static void random_step(struct log *l)
{
	uint64_t s = some_session(l), what = roll(l, 100);
	struct entry e;

	l->a.now += (int64_t)roll(l, 60) * SEC;
	due_first(l);
	if (what < 6 || !s) {
		e = opening(&l->a, roll(l, 3) ? "local" : "other");
		e.session.labels_text = roll(l, 2) ? STR("{\"run\":\"1\"}") : STR("{\"run\":\"2\"}");
		e.session.root_dir = roll(l, 2) ? STR("/srv") : STR_NONE;
		put_both(l, &e);
	} else if (what < 10) {
		e = ending(&l->a, s, roll(l, 2) ? SESSION_CLOSE : SESSION_STALE);
		put_both(l, &e);
	} else if (what < 40 && l->n_open) {
		random_settle(l);
	} else if (what < 98) {
		random_decision(l, s);
	} else {
		e = at(&l->a, ENTRY_THROTTLE);
		put_both(l, &e);
	}
}

/* What is reserved is exactly what the open calls hold. */
static void check_sums(const struct state *st)
{
	int64_t held = 0, reserved = 0;

	for (const struct session_state *s = state_session_after(st, 0); s; s = state_session_after(st, s->id)) {
		int64_t open = 0;

		for (const struct call_state *c = state_open_after(st, s->id, 0); c;
		     c = state_open_after(st, s->id, c->seq), open++) {
			struct draw d[3];
			size_t n = state_holds(st, c->seq, d, 3);

			for (size_t i = 0; i < n; i++)
				held += d[i].amount;
		}
		assert_int_equal(open, s->open_reservations);
		for (uint32_t l = session_at(st, find_session(st, s->id))->ledgers_first; l; l = ledger_at(st, l)->next)
			reserved += ledger_at(st, l)->sum.reserved;
	}
	for (uint32_t l = st->shared_first; l; l = ledger_at(st, l)->next)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_log),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_unused_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
