/* tests/unit/test_breakers.c - what opens a breaker, who may try, and what closes it again. */
#include "tests/support/judge_script.h"

#define BREAKER(text) RULES("breakers: {api: {" text "}}\n")
#define FIVE          BREAKER("match: [s], open: {failures: 5, within: 1m}, cool_down: 10s")
#define GO                                  \
	{                                   \
		ASK, .tool = "s", .want = A \
	}
#define SHUT .want = D, .code = REASON_BREAKER_OPEN, .rule = "api"
#define BAD                                      \
	{ ASK, .tool = "s", .want = A },         \
	{                                        \
		SETTLE, .outcome = OUTCOME_ERROR \
	}
#define BAD5 BAD, BAD, BAD, BAD, BAD

static const struct script failure_scripts[] = {
	{ "C04 five in a row open it, a success after the wait closes it",
	  FIVE,
	  { BAD5,
	    { ASK, .tool = "s", SHUT, .says = "breaker api is open: too many calls went wrong; wait for retry_after" },
	    { ASK, .tool = "other", .want = A },
	    { PASS, .seconds = 9 },
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 1 },
	    GO,
	    { .op = SETTLE },
	    { ASK, .tool = "s", .times = 3, .want = A } } },
	{ "C04 sticky stays until an operator resets it",
	  BREAKER("match: [s], open: {failures: 1, within: 1m}, cool_down: 10s, sticky: true"),
	  { BAD,
	    { PASS, .seconds = 1000 },
	    { ASK, .tool = "s", SHUT, .says = "breaker api is open until an operator resets it" },
	    { RESET, .rule = "api", .tool = "s" },
	    GO } },
	{ "a success ends the row", FIVE, { BAD, BAD, BAD, BAD, GO, { .op = SETTLE }, BAD, BAD, BAD, BAD, GO } },
	{ "cancelled and not run are neither",
	  FIVE,
	  { BAD,
	    BAD,
	    BAD,
	    BAD,
	    GO,
	    { SETTLE, .outcome = OUTCOME_CANCELLED },
	    GO,
	    { SETTLE, .outcome = OUTCOME_NOT_RUN },
	    BAD,
	    { ASK, .tool = "s", SHUT } } },
	{ "only those within the time",
	  BREAKER("match: [s], open: {failures: 3, within: 1m}, cool_down: 10s"),
	  { BAD, { PASS, .seconds = 50 }, BAD, { PASS, .seconds = 11 }, BAD, BAD, { ASK, .tool = "s", SHUT } } },
	{ "C01 after the wait exactly one goes",
	  FIVE,
	  { BAD5,
	    { PASS, .seconds = 10 },
	    GO,
	    { ASK, .tool = "s", .times = 99, SHUT,
	      .says = "breaker api is open: one call tries whether it works again, the others wait" },
	    { .op = OPEN },
	    { ASK, .tool = "s", SHUT } } },
	{ "a failed probe opens it anew",
	  FIVE,
	  { BAD5,
	    { PASS, .seconds = 10 },
	    BAD,
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 9 },
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 1 },
	    GO,
	    { ASK, .tool = "s", SHUT } } },
	{ "C03 a probe that never reports failed when its lease was over; the wait starts there",
	  "pawl: 1\nname: t\ntools: {s: {lease: 30s}}\nrules:\n  - {id: any, allow: ['*']}\n"
	  "breakers: {api: {match: [s], open: {failures: 1, within: 1m}, cool_down: 10s}}\n...\n",
	  { BAD,
	    { PASS, .seconds = 10 },
	    GO,
	    { PASS, .seconds = 29 },
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 10 }, /* noticed 9 s late */
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 1 },
	    GO,
	    { .op = SETTLE },
	    { ASK, .tool = "s", .times = 2, .want = A } } },
	{ "C03 a report from before the opening is not heard, for better or worse",
	  BREAKER("match: [s], open: {failures: 1, within: 1m}, cool_down: 10s"),
	  { GO,
	    GO,
	    GO,
	    BAD,
	    { SETTLE, .back = 1 },
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 10 },
	    GO,
	    { SETTLE, .back = 3 }, /* while the probe is out */
	    { ASK, .tool = "s", SHUT },
	    { .op = SETTLE },
	    { SETTLE, .back = 4, .outcome = OUTCOME_ERROR }, /* after it has closed */
	    { ASK, .tool = "s", .want = A } } },
	{ "an ordinary lease that runs out is no failure, and a late report is not heard",
	  BREAKER("match: [s], open: {failures: 1, within: 1d}, cool_down: 10s"),
	  { GO, { .op = EXPIRE }, GO, { SETTLE, .back = 1, .outcome = OUTCOME_ERROR }, GO } },
	{ "a probe that was cancelled frees the slot",
	  BREAKER("match: [s], open: {failures: 1, within: 1m}, cool_down: 10s"),
	  { BAD,
	    { PASS, .seconds = 10 },
	    GO,
	    { ASK, .tool = "s", SHUT },
	    { SETTLE, .outcome = OUTCOME_CANCELLED },
	    GO,
	    { ASK, .tool = "s", SHUT },
	    { .op = SETTLE },
	    GO,
	    GO } },
	{ "closing the probe's session buys no other probe",
	  "pawl: 1\nname: t\ntools: {s: {lease: 30s}}\nrules:\n  - {id: any, allow: ['*']}\n"
	  "breakers: {api: {match: [s], open: {failures: 1, within: 1m}, cool_down: 10s}}\n...\n",
	  { BAD,
	    { PASS, .seconds = 10 },
	    GO,
	    { .op = CLOSE },
	    { .op = OPEN },
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 39 },
	    { ASK, .tool = "s", SHUT },
	    { PASS, .seconds = 1 },
	    GO } },
	{ "who is refused for another reason is no probe",
	  "pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\n  - {id: no, deny: [s], when: {args.n: {is: 1}}}\n"
	  "  - {id: ask, review: [s], when: {args.n: {is: 2}}}\n"
	  "breakers: {api: {match: [s], open: {failures: 1, within: 1m}, cool_down: 10s}}\n...\n",
	  { { ASK, .tool = "s", .args = "{\"n\":0}", .want = A },
	    { SETTLE, .outcome = OUTCOME_ERROR },
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "s", .args = "{\"n\":1}", .want = D, .code = REASON_RULE },
	    { ASK, .tool = "s", .args = "{\"n\":2}", .want = R, .code = REASON_RULE },
	    { ASK, .tool = "s", .args = "{\"n\":0}", .want = A },
	    { ASK, .tool = "s", .args = "{\"n\":0}", SHUT },
	    { ANSWER, .action = RESOLVE_RESUME },
	    { ASK, .tool = "s", .args = "{\"n\":2}", SHUT, .spends = -1 },
	    { SETTLE, .outcome = OUTCOME_CANCELLED },
	    { ASK, .tool = "s", .args = "{\"n\":2}", .want = A, .spends = 1 }, /* a claimed approval can be the probe */
	    { ASK, .tool = "s", .args = "{\"n\":0}", SHUT } } },
};

#define DENIALS                                                                                                   \
	"pawl: 1\nname: t\nrules:\n  - {id: any, allow: [ok]}\nbreakers: {api: {open: {denials: 3, within: 1m}, " \
	"cool_down: 10s}}\n...\n"
static const struct script denial_scripts[] = {
	{ "L20 a tool that does not exist, again and again",
	  DENIALS,
	  { { ASK, .tool = "websearchx", .times = 3, .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "ok", SHUT },
	    { ASK, .tool = "websearchx", .times = 6, SHUT },
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "ok", .want = A },
	    { ASK, .tool = "ok", SHUT },
	    { .op = SETTLE },
	    { ASK, .tool = "ok", .times = 2, .want = A } } },
	{ "an allow ends the row; a replay and a settled key are not in it",
	  DENIALS,
	  { { ASK, .tool = "x", .times = 2, .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "ok", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "x", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "x", .call = "x", .times = 4, .want = D, .replay = true },
	    { .op = SETTLE },
	    { ASK, .tool = "ok", .call = "k", .times = 4, .want = D, .code = REASON_ALREADY_SETTLED },
	    { ASK, .tool = "x", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "ok", .want = A } } },
	{ "a review leaves the row as it is",
	  "pawl: 1\nname: t\nrules:\n  - {id: any, allow: [ok]}\n  - {id: r, review: [m]}\n"
	  "breakers: {api: {open: {denials: 3, within: 1m}, cool_down: 10s}}\n...\n",
	  { { ASK, .tool = "x", .times = 2, .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "m", .times = 5, .want = R, .code = REASON_RULE },
	    { ASK, .tool = "x", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "ok", SHUT } } },
	{ "by session: the tree's; by agent and tool: each tool's",
	  "pawl: 1\nname: t\nbreakers:\n  mine: {per: session, open: {denials: 2, within: 1m}, cool_down: 10s}\n"
	  "  each: {per: [agent, tool], open: {denials: 3, within: 1m}, cool_down: 10s}\n...\n",
	  { { ASK, .tool = "x", .want = D, .code = REASON_DEFAULT },
	    { OPEN, .child = true },
	    { ASK, .tool = "x", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "x", .want = D, .code = REASON_BREAKER_OPEN, .rule = "mine" },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "y", .want = D, .code = REASON_DEFAULT },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = D, .code = REASON_BREAKER_OPEN, .rule = "each" },
	    { ASK, .tool = "y", .want = D, .code = REASON_DEFAULT } } },
	{ "an abort opens those that the call would ask",
	  "pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\n  - {id: r, review: [s]}\n"
	  "breakers:\n  api: {match: [s, t], open: {failures: 5, within: 1m}, cool_down: 10s}\n"
	  "  db: {match: [q], open: {failures: 5, within: 1m}, cool_down: 10s}\n...\n",
	  { { ASK, .tool = "s", .want = R, .code = REASON_RULE },
	    { ANSWER, .action = RESOLVE_ABORT },
	    { .op = OPEN },
	    { ASK, .tool = "t", SHUT },
	    { ASK, .tool = "q", .want = A },
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "t", .want = A } } },
	{ "headless: the circuit breaks and recovers with nobody there",
	  "pawl: 1\nname: t\nattended: false\nrules:\n  - {id: any, allow: [ok]}\n  - {id: r, review: [m]}\n"
	  "breakers: {api: {open: {denials: 2, within: 1m}, cool_down: 10s}}\n...\n",
	  { { ASK, .tool = "m", .times = 2, .want = D, .code = REASON_RULE },
	    { ASK, .tool = "ok", SHUT },
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "ok", .want = A },
	    { .op = SETTLE },
	    { ASK, .tool = "ok", .want = A } } },
};

static void test_failures(void **state)
{
	(void)state;
	run(failure_scripts, PAWL_LEN(failure_scripts));
}

static void test_denials(void **state)
{
	(void)state;
	run(denial_scripts, PAWL_LEN(denial_scripts));
}

/* When to come back is said to the nanosecond. */
static void test_retry_after(void **state)
{
	static const struct script s = { "retry", FIVE, { { .op = END } } };
	static const struct step bad[] = { BAD };
	static struct judgement j;
	struct world w = world_new(&s);
	struct request_call rq = { .call = STR("k") };
	struct facts f;

	(void)state;
	for (int i = 0; i < 5; i++) {
		ask(&w, &bad[0], i);
		settle_one(&w, &bad[1], allowed_back(&w, 0));
	}
	w.now += 3 * SEC;
	facts_for(&w, &bad[0], &rq, &f);
	judge(w.pol, w.a, &f, w.now, &j);
	assert_int_equal(j.why.code, REASON_BREAKER_OPEN);
	assert_int_equal(j.why.retry_after_ns, 7 * SEC);
	assert_int_equal(j.n_breakers, 0);
	w.now += 7 * SEC;
	judge(w.pol, w.a, &f, w.now, &j);
	assert_int_equal(j.answer, VERDICT_ALLOW);
	assert_int_equal(j.n_breakers, 1);
	assert_int_equal(j.breakers[0].mode, BREAKER_HALF_OPEN);
	assert_true(j.breakers[0].probe == UINT64_MAX);
	assert_int_equal(j.breakers[0].generation, 1);
	world_done(&w);
}

/* ---- what the watch tells ---- */

#define SEEN(what)                                \
	{                                         \
		WATCHED, .watched = WATCHED_##what \
	}
#define THREE BREAKER("match: [s], open: {breaches: 3, within: 1m}, cool_down: 10s")
#define NEEDS "watch: {exec: required}\n"
#define UNSEEN .want = D, .code = REASON_WATCH_REQUIRED, .rule = "watch"
static const struct script watch_scripts[] = {
	{ "kills, limits and lost events count, whatever the tool; starts and ends do not",
	  THREE,
	  { SEEN(ATTACH), SEEN(EXECS), SEEN(KILL), SEEN(LEFT), SEEN(LOST), GO, SEEN(EXECS), GO, SEEN(BREACH), { ASK, .tool = "s", SHUT },
	    { ASK, .tool = "other", .want = A }, { PASS, .seconds = 10 }, GO, { .op = SETTLE }, GO } },
	{ "E02 lost events alone open it", THREE, { SEEN(ATTACH), SEEN(LOST), SEEN(LOST), SEEN(LOST), { ASK, .tool = "s", SHUT } } },
	{ "only those within the time, and a call that runs forgives none",
	  THREE,
	  { SEEN(ATTACH), SEEN(KILL), { PASS, .seconds = 50 }, SEEN(KILL), GO, { .op = SETTLE }, { PASS, .seconds = 11 }, SEEN(KILL), GO, SEEN(KILL),
	    { ASK, .tool = "s", SHUT } } },
	{ "while it is open nothing counts",
	  THREE,
	  { SEEN(ATTACH), SEEN(KILL), SEEN(KILL), SEEN(KILL), SEEN(KILL), SEEN(KILL), { PASS, .seconds = 10 }, GO, { .op = SETTLE }, SEEN(KILL), SEEN(KILL), GO } },
	{ "without `breaches` it counts none", FIVE, { SEEN(ATTACH), SEEN(KILL), SEEN(KILL), SEEN(KILL), SEEN(KILL), SEEN(KILL), SEEN(KILL), GO } },
	{ "of its own scope: a session's row is its tree's",
	  BREAKER("match: [s], per: session, open: {breaches: 1, within: 1m}, cool_down: 10s"),
	  { SEEN(ATTACH), SEEN(KILL), { OPEN, .child = true }, { ASK, .tool = "s", SHUT }, { .op = OPEN }, GO } },
	{ "shadow mode counts beside, and stops nothing",
	  "pawl: 1\nname: t\nmode: shadow\nrules:\n  - {id: any, allow: ['*']}\n"
	  "breakers: {api: {match: [s], open: {breaches: 1, within: 1m}, cool_down: 10s}}\n...\n",
	  { SEEN(ATTACH), SEEN(KILL), { ASK, .tool = "s", .want = A, .would = D, .code = REASON_BREAKER_OPEN, .rule = "api" },
	    { RELOAD, .policy = BREAKER("match: [s], open: {breaches: 1, within: 1m}, cool_down: 10s") }, GO } },
	{ "required: a session that nobody watches is denied, one that is is not, nor any below it",
	  RULES(NEEDS),
	  { { ASK, .tool = "s", UNSEEN }, SEEN(ATTACH), GO, { OPEN, .child = true }, GO, { OPEN, .child = true }, GO, { .op = OPEN }, { ASK, .tool = "s", UNSEEN } } },
	{ "required: a parent is not watched by its child's tree",
	  RULES(NEEDS), { { OPEN, .child = true }, SEEN(ATTACH), GO, { USE, .at = 1 }, { ASK, .tool = "s", UNSEEN } } },
	{ "required: a tree that has ended watches nobody",
	  RULES(NEEDS), { SEEN(ATTACH), GO, SEEN(END), { ASK, .tool = "s", UNSEEN } } },
	{ "required is named before all else that denies",
	  "pawl: 1\nname: t\nrules:\n  - {id: no, deny: [s]}\n" NEEDS "...\n", { { ASK, .tool = "s", UNSEEN }, { ASK, .tool = "other", UNSEEN } } },
	{ "log asks for nothing", RULES("watch: {exec: log}\n"), { GO } },
	{ "required, in shadow mode, is told",
	  "pawl: 1\nname: t\nmode: shadow\nrules:\n  - {id: any, allow: ['*']}\n" NEEDS "...\n",
	  { { ASK, .tool = "s", .want = A, .would = D, .code = REASON_WATCH_REQUIRED, .rule = "watch" } } },
};

static void test_watch(void **state)
{
	(void)state;
	run(watch_scripts, PAWL_LEN(watch_scripts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_denials),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_watch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
