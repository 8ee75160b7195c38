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

static void random_breaker(struct log *l, struct breaker_row *row, uint64_t session, bool probe)
{
	enum scope scope = roll(l, 2) ? SCOPE_AGENT : SCOPE_SESSION;

	*row = breaker_of(roll(l, 2) ? "api" : "db", scope, scope == SCOPE_SESSION ? state_session(l->a.st, session)->root : 0,
			  (enum breaker_mode)roll(l, probe ? 3 : 2));
	row->tool = roll(l, 2) ? STR("t") : STR_NONE;
	row->n_fails = (uint32_t)roll(l, 3);
	row->fails[0] = row->fails[1] = l->a.now;
	row->n_denies = (uint32_t)roll(l, 2);
	row->denies[0] = l->a.now;
}

static void random_memory(struct log *l, struct entry_decision *d)
{
	static const enum stick how[] = { STICK_SESSION, STICK_TREE, STICK_AGENT };

	d->polling = roll(l, 2);
	d->n_trips = roll(l, 20) == 0;
	id16(d->trips[0], roll(l, 4));
	d->n_sticks = d->answer == VERDICT_DENY && roll(l, 4) == 0 ? 1 + roll(l, 2) : 0;
	for (size_t i = 0; i < d->n_sticks; i++)
		d->sticks[i] = (struct stick_fact){ how[roll(l, 3)], roll(l, 2) ? STR("t") : STR("another.tool"),
						    roll(l, 2) ? STR("no-way") : STR("no-exec") };
	d->n_asks = d->answer == VERDICT_REVIEW ? 1 + roll(l, 2) : 0;
	d->asks[0] = (struct ask){ REASON_RULE, STR("ask-first") };
	d->asks[1] = (struct ask){ REASON_BUDGET, STR("run") };
	d->money = (int64_t)roll(l, 100);
}

static void random_card(struct log *l, struct entry_decision *d)
{
	const struct card_state *card = state_card(l->a.st, d->session, d->card_token);

	if (d->answer == VERDICT_REVIEW && card && card->mode == CARD_PENDING) {
		d->card = card->id;
		d->card_until = card->until;
	}
	if (d->answer == VERDICT_ALLOW && card && card->mode == CARD_RESUMED && roll(l, 4))
		d->spends = card->id;
}

static void random_decision(struct log *l, uint64_t s)
{
	static const char *const budgets[] = { "run", "tokens", "calls" };
	struct breaker_row row;
	struct draw d[3];
	size_t n = roll(l, 4);
	struct entry e;

	for (size_t i = 0; i < n; i++) {
		d[i] = draw_of(roll(l, 2) ? s : 0, budgets[i],
			       i == 0   ? UNIT_MONEY
			       : i == 1 ? UNIT_TOKENS
					: UNIT_CALLS,
			       (int64_t)roll(l, 1000));
		if (i == 1)
			d[i].window_end = (l->a.now / (600 * SEC) + 1) * 600 * SEC;
	}
	e = decision(&l->a, s, roll(l, 40), roll(l, 3), (enum verdict)(1 + roll(l, 3)), d, n);
	e.decision.has_repeat = roll(l, 2);
	if (roll(l, 8) == 0)
		e.decision.tool = roll(l, 2) ? STR("another.tool") : STR("third.tool");
	random_memory(l, &e.decision);
	random_card(l, &e.decision);
	e.kind = roll(l, 5) ? ENTRY_DECISION : ENTRY_CLAIM;
	if (roll(l, 6) == 0) {
		random_breaker(l, &row, s, e.decision.answer == VERDICT_ALLOW);
		e.decision.breakers = &row;
		e.decision.n_breakers = 1;
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
	struct entry_settle body = { .session = s, .decision = dec, .outcome = roll(l, 2) ? OUTCOME_ERROR : OUTCOME_OK, .charges = c };

	l->open[i][0] = l->open[l->n_open - 1][0];
	l->open[i][1] = l->open[--l->n_open][1];
	if (!call)
		return;
	body.n_charges = state_holds(l->a.st, dec, held, 3);
	for (size_t k = 0; k < body.n_charges; k++) {
		c[k] = (struct charge){ .draw = held[k],
					.reserved = call->settled ? 0 : held[k].amount,
					.charged = (int64_t)roll(l, 1500) };
		if (c[k].draw.window_end)
			c[k].draw.window_end = (l->a.now / (600 * SEC) + 1) * 600 * SEC;
	}
	id16(body.same, l->x);
	body.has_result_token = roll(l, 2);
	id16(body.result_token, roll(l, 3));
	body.has_error_token = body.outcome == OUTCOME_ERROR;
	id16(body.error_token, roll(l, 3));
	if (call->settled) {
		e.kind = ENTRY_LOSS;
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = s, .decision = dec, .late = body };
	} else {
		e.settle = body;
	}
	put_both(l, &e);
}

static void random_answer(struct log *l)
{
	const struct card_state *card = state_card_after(l->a.st, 0, roll(l, state_next_seq(l->a.st)));
	struct breaker_row row;
	struct entry e;

	if (!card)
		return;
	e = resolving(&l->a, card->id, roll(l, 12) == 0 ? RESOLVE_ABORT : (enum resolve_action)(roll(l, 3) ? RESOLVE_RESUME : RESOLVE_SKIP));
	if (roll(l, 6) == 0)
		e.resolve.action = RESOLVE_CLOSE;
	if (e.resolve.action != RESOLVE_ABORT) {
		e.resolve.ends = 0;
		e.resolve.hold_until = 0;
	} else {
		random_breaker(l, &row, card->session, false);
		e.resolve.breakers = &row;
		e.resolve.n_breakers = 1;
	}
	if (e.resolve.action == RESOLVE_RESUME && roll(l, 2)) {
		e.resolve.grants[0] = (struct grant){ draw_of(roll(l, 2) ? card->session : 0, "tokens", UNIT_TOKENS, 0).key, 7 };
		e.resolve.n_grants = 1;
	}
	put_both(l, &e);
}

static void random_open(struct log *l, uint64_t s)
{
	struct entry e = s && roll(l, 2) ? opening_child(&l->a, s) : opening(&l->a, roll(l, 3) ? "local" : "other");

	if (e.session.parent && state_room(l->a.st, &e, NULL) != 0)
		return; /* too deep */
	e.session.labels_text = roll(l, 2) ? STR("{\"run\":\"1\"}") : STR("{\"run\":\"2\"}");
	e.session.root_dir = roll(l, 2) ? STR("/srv") : STR_NONE;
	put_both(l, &e);
}

static void random_end(struct log *l, uint64_t s)
{
	struct entry e = ending(&l->a, s, (enum session_action)(SESSION_CLOSE + roll(l, 3)));

	if (e.session.action == SESSION_ABORT)
		e.session.hold_until = l->a.now + 60 * SEC;
	put_both(l, &e);
}

static void random_step(struct log *l)
{
	uint64_t s = some_session(l), what = roll(l, 100);
	struct entry e;

	l->a.now += (int64_t)roll(l, 60) * SEC;
	due_first(l);
	if (s && state_session(l->a.st, s)->end != SESSION_LIVE)
		s = 0;
	if (what < 6 || !s) {
		random_open(l, s);
	} else if (what < 9) {
		random_end(l, s);
	} else if (what < 15) {
		random_answer(l);
	} else if (what < 40 && l->n_open) {
		random_settle(l);
	} else if (what < 97) {
		random_decision(l, s);
	} else if (what < 98) {
		e = at(&l->a, ENTRY_BREAKER);
		random_breaker(l, &e.breaker.row, s, false);
		put_both(l, &e);
	} else {
		e = at(&l->a, what == 98 ? ENTRY_THROTTLE : ENTRY_KEY);
		put_both(l, &e);
	}
}

/* What is reserved is exactly what the open calls hold of windows that have not rolled. */
static void check_sums(const struct state *st)
{
	int64_t held = 0, reserved = 0;

	for (const struct session_state *s = state_session_after(st, 0); s; s = state_session_after(st, s->id)) {
		int64_t open = 0;

		for (const struct call_state *c = state_open_after(st, s->id, 0); c;
		     c = state_open_after(st, s->id, c->seq), open++) {
			for (uint32_t h = call_at(st, find_seq(st, c->seq))->live.holds; h; h = hold_at(st, h)->next)
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
		n += session_at(st, h)->ring_cap * (sizeof(uint64_t) + sizeof(uint32_t));
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
	if (each > 1664)
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
