/* tests/unit/test_state_memory.c - what is remembered of calls that ran or were refused: executions and their results,
 * denials that stay, tripped cycles, breakers. */
#include "tests/support/state_feed.h"

/* ---- executions ---- */

struct told {
	enum outcome outcome;
	bool has_result, has_error;
	uint64_t result, error; /* first 64 bits of the token */
};

static void report(struct feed *f, uint64_t session, uint64_t dec, struct told t)
{
	struct entry e = at(f, state_decision(f->st, dec)->settled ? ENTRY_LOSS : ENTRY_SETTLE);
	struct entry_settle s = { .session = session, .decision = dec, .outcome = t.outcome, .has_result_token = t.has_result,
				  .has_error_token = t.has_error };

	memcpy(s.result_token, &t.result, sizeof(t.result));
	memcpy(s.error_token, &t.error, sizeof(t.error));
	if (e.kind == ENTRY_LOSS)
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = session, .decision = dec, .late = s };
	else
		e.settle = s;
	put(f, &e);
}

static uint64_t run(struct feed *f, uint64_t session, uint64_t args)
{
	struct entry e = decision(f, session, 10000 + state_next_seq(f->st), args, VERDICT_ALLOW, NULL, 0);

	put(f, &e);
	return e.seq;
}

static void test_what_an_execution_came_to(void **state)
{
	static const struct {
		struct told told;
		bool settled, failed;
		uint64_t result, error;
	} rows[] = {
		{ { OUTCOME_OK, true, false, 5, 6 }, true, false, 5, 0 },
		{ { OUTCOME_OK, false, false, 5, 6 }, true, false, 0, 0 },
		{ { OUTCOME_ERROR, false, true, 5, 6 }, true, true, 0, 6 },
		{ { OUTCOME_ERROR, true, true, 5, 6 }, true, true, 5, 6 },
		{ { OUTCOME_ERROR, true, true, 0, 0 }, true, true, 1, 1 }, /* a token that is there is never 0 */
		{ { OUTCOME_CANCELLED, true, false, 7, 0 }, true, false, 7, 0 },
	};
	struct exec_state x;

	(void)state;
	for (int late = 0; late < 2; late++)
		for (size_t i = 0; i < PAWL_LEN(rows); i++) {
			struct feed f = feed_new();
			uint64_t s = open_session(&f), dec = run(&f, s, 3);
			struct entry e;

			assert_true(state_exec(f.st, s, 0, &x));
			assert_true(x.seq == dec && !x.settled && !x.failed && x.result == 0 && x.error == 0);
			assert_true(x.same == 3 && x.repeat == 503 && str_is(x.tool, "t") && !x.polling);
			if (late) { /* a call that nobody reported is not settled, until somebody does */
				f.now += 900 * SEC;
				e = expiry(&f, s, dec);
				put(&f, &e);
				assert_true(state_exec(f.st, s, 0, &x) && !x.settled && x.result == 0);
			}
			report(&f, s, dec, rows[i].told);
			assert_true(state_exec(f.st, s, 0, &x));
			if (x.settled != rows[i].settled || x.failed != rows[i].failed || x.result != rows[i].result || x.error != rows[i].error)
				fail_msg("row %zu: settled %d failed %d result %llu error %llu", i, x.settled, x.failed,
					 (unsigned long long)x.result, (unsigned long long)x.error);
			assert_false(state_exec(f.st, s, 1, &x));
			state_free(f.st);
		}
}

/* The newest first, over the whole tree, through every size of the ring and around its end. */
static void test_the_ring(void **state)
{
	struct feed f = feed_new();
	uint64_t root = open_session(&f), kid = open_child(&f, root), seq[2 * PAWL_MAX_WINDOW + 60];
	struct exec_state x;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(seq); i++) {
		struct entry e = decision(&f, i % 3 ? kid : root, i, i % 7, VERDICT_ALLOW, NULL, 0);

		e.decision.polling = i % 2;
		e.decision.has_repeat = i % 5;
		put(&f, &e);
		seq[i] = e.seq;
		report(&f, e.decision.session, e.seq, (struct told){ OUTCOME_OK, true, false, i + 1, 0 });
		if (i > 40 && i % 97 && i < PAWL_LEN(seq) - 1)
			continue;
		for (uint32_t back = 0; back <= i && back < PAWL_MAX_WINDOW; back++) {
			size_t k = i - back;

			assert_true(state_exec(f.st, root, back, &x));
			assert_true(x.seq == seq[k] && x.same == k % 7 && x.repeat == (k % 5 ? k % 7 + 500 : 0));
			assert_true(x.polling == k % 2 && x.settled && x.result == k + 1);
		}
		assert_false(state_exec(f.st, root, i < PAWL_MAX_WINDOW ? (uint32_t)i + 1 : PAWL_MAX_WINDOW, &x));
	}
	assert_false(state_exec(f.st, kid, 0, &x)); /* a tree is named by its root */
	state_free(f.st);
}

/* The rows stop counting at some point; the answer does not. */
static void test_many_equal_ones(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), kid = open_child(&f, s), last = 0;
	uint8_t same[16];

	(void)state;
	id16(same, 3);
	for (int i = 0; i < 5; i++)
		last = run(&f, i % 2 ? s : kid, 3);
	(void)run(&f, s, 4);
	assert_int_equal(state_count_same(f.st, s, same), 5);
	call_at(f.st, find_seq(f.st, last))->count = COUNT_MAX;
	assert_int_equal(state_count_same(f.st, s, same), 5);
	(void)run(&f, s, 3);
	assert_int_equal(state_count_same(f.st, s, same), 6);
	state_free(f.st);
}

/* ---- denials ---- */

static void deny(struct feed *f, uint64_t session, enum stick how, const char *tool, const char *rule)
{
	struct entry e = decision(f, session, 20000 + state_next_seq(f->st), 1, VERDICT_DENY, NULL, 0);

	e.decision.sticks[0] = (struct stick_fact){ .how = how, .tool = str_of(tool), .rule = str_of(rule) };
	e.decision.n_sticks = 1;
	put(f, &e);
}

static size_t count_denials(const struct feed *f, uint64_t session)
{
	struct stick_fact k;
	uint32_t at = 0;
	size_t n = 0;

	while (state_denial_next(f->st, state_session(f->st, session), &at, &k))
		n++;
	return n;
}

/* A family: root -> kid -> low, root -> side; another tree of the same agent; a tree of another agent. */
static void test_sticky_by_scope(void **state)
{
	enum { ROOT, KID, LOW, SIDE, TREE2, STRANGER, WHO };
	static const struct {
		enum stick how;
		int by;
		bool binds[WHO];
	} rows[] = {
		{ STICK_SESSION, ROOT, { 1, 1, 1, 1, 0, 0 } }, { STICK_SESSION, KID, { 0, 1, 1, 0, 0, 0 } },
		{ STICK_SESSION, LOW, { 0, 0, 1, 0, 0, 0 } },  { STICK_TREE, LOW, { 1, 1, 1, 1, 0, 0 } },
		{ STICK_TREE, ROOT, { 1, 1, 1, 1, 0, 0 } },    { STICK_AGENT, LOW, { 1, 1, 1, 1, 1, 0 } },
		{ STICK_AGENT, STRANGER, { 0, 0, 0, 0, 0, 1 } },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct feed f = feed_new();
		uint64_t id[WHO];
		struct entry e;

		id[ROOT] = open_session(&f);
		id[KID] = open_child(&f, id[ROOT]);
		id[LOW] = open_child(&f, id[KID]);
		id[SIDE] = open_child(&f, id[ROOT]);
		id[TREE2] = open_session(&f);
		e = opening(&f, "other");
		put(&f, &e);
		id[STRANGER] = e.seq;
		for (int who = 0; who < WHO; who++)
			assert_null(state_denied(f.st, state_session(f.st, id[who]), STR("x")).p);
		deny(&f, id[rows[i].by], rows[i].how, "x", "no-x");
		deny(&f, id[rows[i].by], rows[i].how, "x", "no-x"); /* once more: the same */
		for (int who = 0; who < WHO; who++) {
			struct str rule = state_denied(f.st, state_session(f.st, id[who]), STR("x"));

			if (rows[i].binds[who] ? !str_is(rule, "no-x") : rule.p != NULL)
				fail_msg("row %zu, session %d", i, who);
			assert_null(state_denied(f.st, state_session(f.st, id[who]), STR("y")).p);
			assert_int_equal(count_denials(&f, id[who]), rows[i].binds[who]);
		}
		state_free(f.st);
	}
}

static void test_which_rule_is_named(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), kid = open_child(&f, s);
	struct stick_fact k;
	uint32_t at = 0;

	(void)state;
	deny(&f, s, STICK_AGENT, "x", "agent-1");
	assert_true(str_is(state_denied(f.st, state_session(f.st, kid), STR("x")), "agent-1"));
	deny(&f, s, STICK_TREE, "x", "tree-1");
	deny(&f, s, STICK_TREE, "x", "tree-2");
	deny(&f, s, STICK_SESSION, "x", "root-3");
	assert_true(str_is(state_denied(f.st, state_session(f.st, kid), STR("x")), "tree-1")); /* the first of the nearest */
	deny(&f, kid, STICK_SESSION, "x", "own-1");
	assert_true(str_is(state_denied(f.st, state_session(f.st, kid), STR("x")), "own-1"));
	assert_int_equal(count_denials(&f, kid), 5);
	assert_int_equal(count_denials(&f, s), 4);
	assert_true(state_denial_next(f.st, state_session(f.st, kid), &at, &k));
	assert_true(k.how == STICK_SESSION && str_is(k.tool, "x") && str_is(k.rule, "own-1"));
	state_free(f.st);
}

/* Those of a session and of a tree go with it; an agent's stay. */
static void test_who_forgets(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), next;
	struct entry e;

	(void)state;
	deny(&f, s, STICK_SESSION, "x", "r");
	deny(&f, s, STICK_TREE, "y", "r");
	deny(&f, s, STICK_AGENT, "z", "r");
	e = ending(&f, s, SESSION_CLOSE);
	put(&f, &e);
	f.now += PAWL_SESSION_LINGER_NS + 1;
	next = open_session(&f);
	assert_int_equal(f.st->sticks.used - f.st->sticks.n_free, 1);
	assert_null(state_denied(f.st, state_session(f.st, next), STR("x")).p);
	assert_null(state_denied(f.st, state_session(f.st, next), STR("y")).p);
	assert_true(str_is(state_denied(f.st, state_session(f.st, next), STR("z")), "r"));
	state_free(f.st);
}

/* A denial in a session that is over is not remembered: nothing may grow there. */
static void test_nothing_sticks_after_the_end(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct entry e = ending(&f, s, SESSION_CLOSE);

	(void)state;
	put(&f, &e);
	deny(&f, s, STICK_AGENT, "x", "r");
	assert_int_equal(f.st->sticks.used, 0);
	state_free(f.st);
}

static void test_trips(void **state)
{
	struct feed f = feed_new();
	uint64_t root = open_session(&f), kid = open_child(&f, root), other = open_session(&f);
	struct entry e = decision(&f, kid, 1, 1, VERDICT_DENY, NULL, 0);
	uint8_t a[16], b[16], c[16];

	(void)state;
	id16(a, 1);
	id16(b, 2);
	id16(c, 3);
	assert_false(state_tripped(f.st, root, a));
	memcpy(e.decision.trips[0], a, 16);
	memcpy(e.decision.trips[1], b, 16);
	e.decision.n_trips = 2;
	put(&f, &e);
	e.seq = state_next_seq(f.st); /* again: the same */
	put(&f, &e);
	assert_true(state_tripped(f.st, root, a) && state_tripped(f.st, root, b));
	assert_false(state_tripped(f.st, root, c));
	assert_false(state_tripped(f.st, other, a));
	assert_int_equal(f.st->trips.used, 2);
	state_free(f.st);
}

/* ---- breakers ---- */

static void set(struct feed *f, struct breaker_row row)
{
	struct entry e = at(f, ENTRY_BREAKER);

	e.breaker = (struct entry_breaker){ .operator = STR("ann"), .row = row };
	put(f, &e);
}

static size_t count_breakers(const struct feed *f)
{
	uint32_t at = 0;
	size_t n = 0;

	while (state_breaker_next(f->st, &at))
		n++;
	return n;
}

static void test_breaker_keys(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), t = open_session(&f);
	struct breaker_row rows[] = {
		breaker_of("api", SCOPE_COUNT, 0, BREAKER_OPEN),	 breaker_of("db", SCOPE_COUNT, 0, BREAKER_OPEN),
		breaker_of("api", SCOPE_AGENT, 0, BREAKER_OPEN), breaker_of("api", SCOPE_SESSION, s, BREAKER_OPEN),
		breaker_of("api", SCOPE_SESSION, t, BREAKER_OPEN),	 breaker_of("api", SCOPE_COUNT, 0, BREAKER_OPEN),
		breaker_of("api", SCOPE_GLOBAL, 0, BREAKER_OPEN),
	};
	struct entry e;

	(void)state;
	rows[5].tool = STR("t");
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		assert_null(state_breaker(f.st, &rows[i]));
		rows[i].generation = (int64_t)i + 1;
		set(&f, rows[i]);
	}
	assert_int_equal(count_breakers(&f), PAWL_LEN(rows));
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		assert_int_equal(state_breaker(f.st, &rows[i])->generation, i + 1);
	rows[0].generation = 40;
	set(&f, rows[0]); /* replaces */
	assert_int_equal(count_breakers(&f), PAWL_LEN(rows));
	assert_int_equal(state_breaker(f.st, &rows[0])->generation, 40);
	e = ending(&f, s, SESSION_CLOSE);
	put(&f, &e); /* its own die with it */
	assert_null(state_breaker(f.st, &rows[3]));
	assert_non_null(state_breaker(f.st, &rows[4]));
	assert_int_equal(count_breakers(&f), PAWL_LEN(rows) - 1);
	set(&f, rows[3]); /* too late */
	assert_null(state_breaker(f.st, &rows[3]));
	rows[1].mode = BREAKER_CLOSED; /* what says nothing is not kept */
	rows[1].generation = 0;
	set(&f, rows[1]);
	assert_null(state_breaker(f.st, &rows[1]));
	rows[4].mode = BREAKER_CLOSED; /* but a generation does */
	set(&f, rows[4]);
	assert_non_null(state_breaker(f.st, &rows[4]));
	state_free(f.st);
}

/* Every kind of entry may bring a row; a probe is the entry's own decision. */
static void test_who_brings_rows(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), dec, late;
	struct breaker_row row = breaker_of("api", SCOPE_COUNT, 0, BREAKER_CLOSED);
	struct entry e = decision(&f, s, 1, 1, VERDICT_DENY, NULL, 0);

	(void)state;
	row.n_denies = 2;
	row.denies[0] = row.denies[1] = f.now;
	row.fails[0] = 99; /* beyond its count: nobody's business */
	e.decision.breakers = &row;
	e.decision.n_breakers = 1;
	put(&f, &e);
	assert_int_equal(state_breaker(f.st, &row)->n_denies, 2);
	assert_int_equal(state_breaker(f.st, &row)->denies[1], f.now);
	assert_int_equal(state_breaker(f.st, &row)->fails[0], 0);
	row = breaker_of("api", SCOPE_COUNT, 0, BREAKER_HALF_OPEN);
	e = decision(&f, s, 2, 2, VERDICT_ALLOW, NULL, 0);
	e.decision.breakers = &row;
	e.decision.n_breakers = 1;
	put(&f, &e);
	dec = e.seq;
	assert_int_equal(state_breaker(f.st, &row)->probe, dec);
	assert_int_equal(state_breaker(f.st, &row)->n_denies, 0);
	row = *state_breaker(f.st, &row); /* an old probe may be named again */
	row.generation = 3;
	e = at(&f, ENTRY_SETTLE);
	e.settle = (struct entry_settle){ .session = s, .decision = dec, .outcome = OUTCOME_OK, .breakers = &row, .n_breakers = 1 };
	put(&f, &e);
	assert_int_equal(state_breaker(f.st, &row)->generation, 3);
	assert_int_equal(state_breaker(f.st, &row)->probe, dec);
	late = run(&f, s, 5);
	f.now += 900 * SEC;
	row = breaker_of("api", SCOPE_COUNT, 0, BREAKER_OPEN);
	row.generation = 4;
	e = expiry(&f, s, late);
	e.loss.breakers = &row;
	e.loss.n_breakers = 1;
	put(&f, &e);
	assert_int_equal(state_breaker(f.st, &row)->generation, 4);
	row.generation = 5;
	e = ending(&f, s, SESSION_ABORT);
	e.session.breakers = &row;
	e.session.n_breakers = 1;
	put(&f, &e);
	assert_int_equal(state_breaker(f.st, &row)->generation, 5);
	state_free(f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_an_execution_came_to),
		cmocka_unit_test(test_the_ring),
		cmocka_unit_test(test_many_equal_ones),
		cmocka_unit_test(test_sticky_by_scope),
		cmocka_unit_test(test_which_rule_is_named),
		cmocka_unit_test(test_who_forgets),
		cmocka_unit_test(test_nothing_sticks_after_the_end),
		cmocka_unit_test(test_trips),
		cmocka_unit_test(test_breaker_keys),
		cmocka_unit_test(test_who_brings_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
