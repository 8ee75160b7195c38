/* tests/unit/test_session.c - token buckets, the table of live sessions, leases that any message renews. */
#include "daemon/session.h"
#include "daemon/log/entry.h"
#include "daemon/pending.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/random_entry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sodium.h>

static const struct rate_limit slow = { .per_second = 2, .burst = 3 };

static void test_bucket(void **unused)
{
	static const struct {
		int64_t at_ms;
		bool want;
		int64_t wait_ms;
	} steps[] = {
		{ 0, true, 0 },	     { 0, true, 0 },	{ 0, true, 0 },	     { 0, false, 500 }, /* the burst, then nothing */
		{ 400, false, 100 }, { 500, true, 0 },	{ 500, false, 500 }, { 10000, true, 0 },
		{ 10000, true, 0 },  { 10000, true, 0 }, { 10000, false, 500 }, /* never more than the burst */
		{ 9000, false, 500 },						/* a clock that went back gives nothing */
	};
	struct bucket b = { 0, 0 };

	(void)unused;
	for (size_t i = 0; i < PAWL_LEN(steps); i++) {
		int64_t wait = 0;
		bool got = bucket_take(&b, &slow, NS_PER_SEC + steps[i].at_ms * 1000000, &wait);

		if (got != steps[i].want || (!got && wait != steps[i].wait_ms * 1000000))
			fail_msg("step %zu: got %d, wait %lld ns", i, got, (long long)wait);
	}
}

static void test_bucket_extremes(void **unused)
{
	static const struct rate_limit fast = { .per_second = 1000000, .burst = 1000000 };
	struct bucket b = { 0, 0 };
	int64_t wait;

	(void)unused;
	assert_true(bucket_take(&b, &fast, 1, &wait));
	assert_true(bucket_take(&b, &fast, INT64_MAX, &wait)); /* a multiplication that would overflow fills it, no more */
	assert_true(b.level <= fast.burst * NS_PER_SEC);
}

static struct state *state_with(uint64_t n)
{
	struct state *st = NULL;
	struct entry e = { .kind = ENTRY_START, .now = NS_PER_SEC };
	struct pawl_error err;

	assert_int_equal(state_new(&st, &err), 0);
	e.start = (struct entry_start){ .version = STR("t"), .policy_name = STR("t"), .policy_hash = STR("00"), .mode = STR("enforce"),
					.fallback = STR("deny"), .judge = 1, .probes_text = STR("{}") };
	assert_int_equal(state_room(st, &e, &err), 0);
	state_apply(st, &e);
	for (uint64_t id = 1; id <= n; id++) {
		uint8_t token[32] = { (uint8_t)id, (uint8_t)(id >> 8) };

		e = (struct entry){ .kind = ENTRY_SESSION, .seq = id, .now = NS_PER_SEC };
		e.session = (struct entry_session){ .action = SESSION_OPEN, .session = id, .root = id, .agent = STR("local"), .root_dir = STR_NONE,
						    .labels_text = STR("{}"), .lease_ns = 60 * NS_PER_SEC };
		session_token_hash(token, e.session.token_hash);
		assert_int_equal(state_room(st, &e, &err), 0);
		state_apply(st, &e);
	}
	return st;
}

static void test_auth(void **unused)
{
	struct state *st = state_with(3);
	struct sessions *ss = NULL;
	struct live *lv;
	struct pawl_error err;
	uint8_t secret[32] = { 7 }, token[32] = { 2 }, wrong[32] = { 3 };

	(void)unused;
	assert_int_equal(sessions_new(&ss, &err), 0);
	for (uint64_t id = 1; id <= 2; id++)
		assert_int_equal(sessions_add(ss, id, secret, 100, &err), 0);
	assert_non_null(sessions_auth(ss, st, 2, token, &lv));
	assert_int_equal(lv->id, 2);
	assert_null(sessions_auth(ss, st, 2, wrong, &lv));
	assert_null(sessions_auth(ss, st, 1, token, &lv));  /* another session's token */
	assert_null(sessions_auth(ss, st, 3, wrong, &lv));  /* right token, but no secret: cannot be judged */
	assert_null(sessions_auth(ss, st, 99, token, &lv)); /* nobody */
	assert_null(sessions_auth(ss, st, 0, token, &lv));
	sessions_free(ss);
	state_free(st);
}

/* Adds and drops thousands of rows in an order that makes probing wrap and gaps close. */
static void test_table(void **unused)
{
	struct sessions *ss = NULL;
	struct pawl_error err;
	uint8_t secret[32] = { 0 };

	(void)unused;
	assert_int_equal(sessions_new(&ss, &err), 0);
	for (uint64_t id = 1; id <= 5000; id++)
		assert_int_equal(sessions_add(ss, id * 7, secret, 100, &err), 0);
	for (uint64_t id = 1; id <= 5000; id += 3)
		sessions_drop(ss, id * 7);
	for (uint64_t id = 1; id <= 5000; id++) {
		struct live *lv = sessions_get(ss, id * 7);

		assert_true((lv == NULL) == (id % 3 == 1));
		assert_true(!lv || lv->id == id * 7);
	}
	sessions_drop(ss, 4); /* was never there */
	sessions_free(ss);
	sessions_free(NULL);
}

static void test_sweep_and_lease(void **unused)
{
	struct state *st = state_with(3);
	struct sessions *ss = NULL;
	struct pawl_error err;
	uint8_t secret[32] = { 0 };
	uint64_t id = 0;

	(void)unused;
	assert_int_equal(sessions_new(&ss, &err), 0);
	assert_int_equal(sessions_next_lease(ss), INT64_MAX);
	for (uint64_t i = 1; i <= 4; i++)
		assert_int_equal(sessions_add(ss, i, secret, (int64_t)(10 * i) * NS_PER_SEC, &err), 0);
	sessions_sweep(ss, st);
	assert_null(sessions_get(ss, 4)); /* the state knows three */
	assert_int_equal(sessions_next_lease(ss), 10 * NS_PER_SEC);
	assert_false(sessions_next_stale(ss, st, 10 * NS_PER_SEC - 1, &id));
	sessions_renew(sessions_get(ss, 1), 60 * NS_PER_SEC, 5 * NS_PER_SEC);
	assert_false(sessions_next_stale(ss, st, 10 * NS_PER_SEC, &id)); /* renewed: not yet */
	assert_true(sessions_next_stale(ss, st, 20 * NS_PER_SEC, &id));
	assert_int_equal(id, 2);
	assert_true(sessions_next_stale(ss, st, 65 * NS_PER_SEC, &id)); /* 2 again: nobody wrote its end */
	assert_true(id == 2 || id == 3);
	sessions_free(ss);
	state_free(st);
}

static const struct json *labels_of(struct sessions *ss, uint64_t id, const char *text)
{
	struct session_state who = { .id = id, .labels_text = str_of(text) };
	const struct json *got = NULL;
	struct pawl_error err;

	assert_int_equal(sessions_labels(ss, &who, &got, &err), 0);
	return got;
}

/* Far more sessions than labels are kept of, each with its own, none or none worth keeping, in an order that lets them push each other out. */
static void test_labels(void **unused)
{
	struct sessions *ss = NULL;
	struct session_state bad = { .id = 99999, .labels_text = STR("{\"a\":") };
	const struct json *got = NULL;
	struct pawl_error err;
	uint8_t secret[32] = { 0 };
	char text[40], run[16];

	(void)unused;
	assert_int_equal(sessions_new(&ss, &err), 0);
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t id = 1 + i * i % 3001;

		(void)snprintf(run, sizeof(run), "%llu", (unsigned long long)id);
		(void)snprintf(text, sizeof(text), "{\"run\":\"%s\"}", run);
		if (id % 3 == 0)
			assert_null(labels_of(ss, id, id % 2 ? "{}" : NULL));
		else
			assert_string_equal(run, json_string(json_get(labels_of(ss, id, text), "run")).p);
	}
	/* an id that was never answered comes again, with other labels */
	assert_int_equal(sessions_add(ss, 5, secret, 1, &err), 0);
	assert_string_equal("a", json_string(json_get(labels_of(ss, 5, "{\"run\":\"a\"}"), "run")).p);
	sessions_drop(ss, 5);
	assert_null(labels_of(ss, 5, "{}"));
	assert_int_equal(sessions_add(ss, 5, secret, 1, &err), 0);
	assert_string_equal("b", json_string(json_get(labels_of(ss, 5, "{\"run\":\"b\"}"), "run")).p);
	assert_int_equal(sessions_add(ss, 5, secret, 1, &err), 0);
	assert_string_equal("c", json_string(json_get(labels_of(ss, 5, "{\"run\":\"c\"}"), "run")).p);
	assert_true(sessions_labels(ss, &bad, &got, &err) < 0 && !got); /* never taken for none */
	sessions_free(ss);
}

/* A copy must not point into what it was copied from. */
static void test_pending_copies(void **unused)
{
	char text[64] = "budget-owner-tool-call-model-rule-subject-USD";
	struct draw draws[2] = { { .key = { .budget = { text, 6 }, .owner = { text + 7, 5 }, .tool = { text + 13, 4 } }, .amount = 5 },
				 { .key = { .budget = { text, 6 } }, .amount = 7 } };
	struct entry e = { .kind = ENTRY_DECISION, .seq = 9 };
	struct pending *p, *w;
	struct pending_queue q;

	(void)unused;
	e.decision.call = (struct str){ text + 18, 4 };
	e.decision.why.rule = (struct str){ text + 29, 4 };
	e.decision.draws = draws;
	e.decision.n_draws = 2;
	e.decision.paths[0].subject = (struct str){ text + 34, 7 };
	e.decision.n_paths = 1;
	p = pending_entry(&e, &q);
	assert_non_null(p);
	memset(text, 'x', sizeof(text));
	memset(draws, 0xee, sizeof(draws));
	assert_true(str_is(p->e.decision.call, "call"));
	assert_true(str_is(p->e.decision.why.rule, "rule"));
	assert_true(str_is(p->e.decision.draws[0].key.budget, "budget"));
	assert_true(str_is(p->e.decision.draws[0].key.owner, "owner"));
	assert_true(str_is(p->e.decision.draws[0].key.tool, "tool"));
	assert_int_equal(p->e.decision.draws[1].amount, 7);
	assert_true(str_is(p->e.decision.paths[0].subject, "subject"));
	assert_null(p->e.decision.model.p);
	pending_queue_init(&q);
	pending_queue_push(&q, p);
	w = pending_wait(3, NULL);
	pending_queue_push(&q, w);
	assert_int_equal(q.n, 2);
	assert_ptr_equal(pending_queue_pop(&q), p);
	assert_ptr_equal(pending_queue_pop(&q), w);
	assert_null(pending_queue_pop(&q));
	free(p);
	free(w);
}

/* Every kind, all of its texts and rows: what they were copied from is wiped, and the copy still renders to the same line. */
static void test_pending_copies_every_kind(void **unused)
{
	struct dice *d = calloc(1, sizeof(*d));
	struct buf before = BUF_MAX(1 << 20), after = BUF_MAX(1 << 20);
	int checked = 0;

	(void)unused;
	assert_non_null(d);
	d->s = 123456789;
	for (int i = 0; i < 2000; i++) {
		struct pending *p;
		struct entry e;

		random_entry(d, 1 + (unsigned)i % (ENTRY_KIND_COUNT - 1), &e);
		buf_reset(&before);
		buf_reset(&after);
		entry_render(&e, &before);
		p = pending_entry(&e, d);
		assert_non_null(p);
		memset(d->text, '!', sizeof(d->text));
		memset(d->draws, 0xee, sizeof(d->draws));
		memset(d->charges, 0xee, sizeof(d->charges));
		memset(d->breakers, 0xee, sizeof(d->breakers));
		memset(&e, 0xee, sizeof(e));
		entry_render(&p->e, &after);
		if (buf_ok(&before) != buf_ok(&after) || !str_eq(buf_str(&before), buf_str(&after)))
			fail_msg("\n%.*s\n%.*s", STR_ARG(buf_str(&before)), STR_ARG(buf_str(&after)));
		assert_true(p->seq == p->e.seq && p->cookie == d);
		checked += buf_ok(&before);
		free(p);
	}
	assert_true(checked > 1900);
	buf_done(&before);
	buf_done(&after);
	free(d);
}

static void test_pending_no_memory(void **unused)
{
	struct entry e = { .kind = ENTRY_KEY, .key = { true, STR("ann"), STR("k") } };

	(void)unused;
	fail_malloc_after(1);
	assert_null(pending_entry(&e, NULL));
	assert_true(fail_malloc_stop());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bucket),	       cmocka_unit_test(test_bucket_extremes),	cmocka_unit_test(test_auth),
		cmocka_unit_test(test_table),	       cmocka_unit_test(test_sweep_and_lease),	cmocka_unit_test(test_labels),
		cmocka_unit_test(test_pending_copies), cmocka_unit_test(test_pending_copies_every_kind), cmocka_unit_test(test_pending_no_memory),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
