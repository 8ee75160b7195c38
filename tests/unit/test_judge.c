/* tests/unit/test_judge.c - rules, the default, loops, call ids, reviews, and which reason is named. Budgets:
 * test_judge_budget.c. */
#include "tests/support/judge_script.h"

/* ---- rules and the default ---- */

static const struct script rule_scripts[] = {
	{ "D20 no rules, no default",
	  "pawl: 1\nname: t\n...\n",
	  { { ASK, .tool = "web.search", .want = D, .code = REASON_DEFAULT, .rule = "",
	      .says = "no rule fits this call of web.search; the policy's default is deny" } } },
	{ "D20 allow needs the word",
	  "pawl: 1\nname: t\ndefault: allow\n...\n",
	  { { ASK, .tool = "x", .want = A, .code = REASON_DEFAULT } } },
	{ "default: review",
	  "pawl: 1\nname: t\ndefault: review\n...\n",
	  { { ASK, .tool = "x", .want = R, .code = REASON_DEFAULT } } },
	{ "a rule beats the default",
	  "pawl: 1\nname: t\ndefault: deny\nrules: [{id: a, allow: [x]}]\n...\n",
	  { { ASK, .tool = "x", .want = A, .code = REASON_OK, .rule = "a" },
	    { ASK, .tool = "y", .want = D, .code = REASON_DEFAULT } } },
	{ "deny beats review beats allow, in any order",
	  "pawl: 1\nname: t\nrules:\n  - {id: a, allow: ['*']}\n  - {id: r, review: ['m.*']}\n  - {id: d, deny: "
	  "[m.x]}\n...\n",
	  { { ASK, .tool = "m.x", .want = D, .code = REASON_RULE, .rule = "d", .says = "rule d denies m.x" },
	    { ASK, .tool = "m.y", .want = R, .code = REASON_RULE, .rule = "r",
	      .says = "rule r asks a person about m.y" },
	    { ASK, .tool = "n", .want = A, .code = REASON_OK, .rule = "a" } } },
	{ "D01 D02 aliases and case",
	  "pawl: 1\nname: t\ntools: {web_search: {aliases: [bing_search, search_web]}}\nrules:\n  - {id: no-web, deny: "
	  "[web_search]}\n"
	  "  - {id: rest, allow: [read]}\n...\n",
	  { { ASK, .tool = "bing_search", .want = D, .code = REASON_RULE, .rule = "no-web" },
	    { ASK, .tool = "search_web", .want = D, .code = REASON_RULE, .rule = "no-web" },
	    { ASK, .tool = "Web_Search", .want = D, .code = REASON_RULE, .rule = "no-web" },
	    { ASK, .tool = "WEB_SEARCH", .want = D, .code = REASON_RULE, .rule = "no-web" },
	    { ASK, .tool = "websearch", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "READ", .want = A, .code = REASON_OK } } },
	{ "D18 a condition that fails counts as a match of a deny rule",
	  "pawl: 1\nname: t\nrules:\n  - {id: all, allow: ['*']}\n  - {id: big, deny: [pay], when: {args.amount: "
	  "{over: 20}}}\n...\n",
	  { { ASK, .tool = "pay", .args = "{\"amount\":5}", .want = A, .code = REASON_OK },
	    { ASK, .tool = "pay", .args = "{\"amount\":50}", .want = D, .code = REASON_RULE,
	      .says = "rule big denies pay" },
	    { ASK, .tool = "pay", .args = "{\"amount\":\"5\"}", .want = D, .code = REASON_RULE, .rule = "big",
	      .says = "rule big denies pay: one of its conditions could not be decided, which counts as a match" },
	    { ASK, .tool = "pay", .want = D, .code = REASON_RULE, .rule = "big" } } },
	{ "an equal call joins the card while it is pending, whenever it comes",
	  "pawl: 1\nname: t\nrules: [{id: r, review: [x]}]\n...\n",
	  { { ASK, .tool = "x", .want = R, .code = REASON_RULE },
	    { PASS, .seconds = 599 },
	    { ASK, .tool = "x", .client = 4, .want = R, .code = REASON_RULE },
	    { PASS, .seconds = 1 },
	    { ASK, .tool = "x", .want = R, .code = REASON_RULE } } },
	{ "headless: a review is a denial, by the law's own code",
	  "pawl: 1\nname: t\nattended: false\nrules: [{id: r, review: [x]}]\n...\n",
	  { { ASK, .tool = "x", .times = 2, .want = D, .code = REASON_RULE, .rule = "r",
	      .says = "rule r asks a person about x; nobody attends, so a review is a denial" } } },
};

static void test_rules(void **state)
{
	(void)state;
	run(rule_scripts, PAWL_LEN(rule_scripts));
}

/* ---- loops ---- */

#define REPEAT(n, w, then) \
	RULES("loops: {repeat: {same: [tool, args], limit: " n ", window: " w " calls, then: " then "}}\n")
static const struct script loop_scripts[] = {
	{ "L01 a limit of 3: three run, the fourth is the first refused, and so is the tenth",
	  REPEAT("3", "50", "deny"),
	  { { ASK, .tool = "read", .args = "{\"p\":\"a.txt\"}", .times = 3, .want = A },
	    { SETTLE, .settle_all = true },
	    { ASK, .tool = "read", .args = "{\"p\":\"a.txt\"}", .times = 7, .want = D, .code = REASON_LOOP_REPEAT,
	      .rule = "repeat",
	      .says = "this exact call ran 3 times in the last 50; the limit is 3 (loop rule repeat)" } } },
	{ "L06 a batch of five, none settled",
	  REPEAT("3", "50", "deny"),
	  { { ASK, .tool = "x", .args = "{\"a\":[1,2]}", .times = 3, .want = A },
	    { ASK, .tool = "x", .args = "{\"a\":[1.0,2]}", .times = 2, .want = D, .code = REASON_LOOP_REPEAT } } },
	{ "L17 other arguments are other calls",
	  REPEAT("1", "50", "deny"),
	  { { ASK, .tool = "search", .args = "{\"level\":\"B2\"}", .want = A },
	    { ASK, .tool = "search", .args = "{\"level\":\"E2\"}", .want = A },
	    { ASK, .tool = "search", .args = "{\"level\":\"E4\"}", .want = A },
	    { ASK, .tool = "search", .args = "{\"level\":\"E2\"}", .want = D, .code = REASON_LOOP_REPEAT } } },
	{ "the window is of executions, and refused calls are none",
	  REPEAT("2", "3", "review"),
	  { { ASK, .tool = "a", .times = 2, .want = A },
	    { ASK, .tool = "a", .times = 4, .want = R, .code = REASON_LOOP_REPEAT },
	    { ASK, .tool = "b", .want = A },
	    { ASK, .tool = "a", .want = R, .code = REASON_LOOP_REPEAT },
	    { ASK, .tool = "c", .want = A },
	    { ASK, .tool = "a", .want = A } } },
	{ "by tool alone",
	  RULES("loops: {repeat: {same: [tool], limit: 2, window: 50 calls, then: deny}}\n"),
	  { { ASK, .tool = "a", .args = "{\"n\":1}", .want = A },
	    { ASK, .tool = "a", .args = "{\"n\":2}", .want = A },
	    { ASK, .tool = "a", .args = "{\"n\":3}", .want = D, .code = REASON_LOOP_REPEAT,
	      .says = "this tool ran 2 times in the last 50; the limit is 2 (loop rule repeat)" } } },
	{ "another session counts for itself",
	  REPEAT("1", "50", "deny"),
	  { { ASK, .tool = "a", .want = A },
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_REPEAT },
	    { .op = OPEN },
	    { ASK, .tool = "a", .want = A } } },
	{ "the caller's own limit, fixed by the first call, tighter later",
	  RULES(""),
	  { { ASK, .tool = "a", .limit_repeat = 3, .want = A },
	    { ASK, .tool = "a", .limit_repeat = 5, .want = A, .ignored = true },
	    { ASK, .tool = "a", .limit_repeat = 2, .want = D, .code = REASON_LOOP_REPEAT, .rule = "@guard",
	      .says = "this exact call ran 2 times; the caller's own limit for a is 2" },
	    { ASK, .tool = "a", .limit_repeat = 3, .want = D, .code = REASON_LOOP_REPEAT, .ignored = true },
	    { ASK, .tool = "a", .args = "{\"n\":1}", .want = A },
	    { ASK, .tool = "b", .times = 3, .want = A } } },
	{ "the policy's rule is named before the caller's",
	  REPEAT("1", "50", "deny"),
	  { { ASK, .tool = "a", .limit_repeat = 1, .want = A },
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_REPEAT, .rule = "repeat" } } },
	{ "a caller's denial is stricter than the policy's review",
	  REPEAT("1", "50", "review"),
	  { { ASK, .tool = "a", .limit_repeat = 1, .want = A },
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_REPEAT, .rule = "@guard" } } },
};

static void test_loops(void **state)
{
	(void)state;
	run(loop_scripts, PAWL_LEN(loop_scripts));
}

/* ---- call ids ---- */

static const struct script replay_scripts[] = {
	{ "the same question, the same answer",
	  RULES("budgets: {run: {per: session, limit: 1 calls}}\n"),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "k", .times = 3, .want = A, .replay = true },
	    { ASK, .tool = "x", .call = "m", .want = D, .code = REASON_BUDGET },
	    { RELOAD, .policy = RULES("") },
	    { ASK, .tool = "x", .call = "m", .want = D, .replay = true }, /* also a denial that would not be one now */
	    { ASK, .tool = "x", .call = "m", .client = 2,
	      .want = A } } }, /* another process: nothing ran, judged afresh */
	{ "settled: never again, whoever asks",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { .op = SETTLE },
	    { ASK, .tool = "x", .call = "k", .times = 2, .want = D, .code = REASON_ALREADY_SETTLED },
	    { ASK, .tool = "x", .call = "k", .client = 2, .times = 2, .want = D, .code = REASON_ALREADY_SETTLED },
	    { ASK, .tool = "x", .call = "k", .args = "{\"n\":1}", .want = A, .reused = true } } },
	{ "the lease ran out",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { PASS, .seconds = 3600 },
	    { ASK, .tool = "x", .call = "k", .want = D, .code = REASON_ALREADY_SETTLED,
	      .says = "this call was allowed before (d_2) and was never reported: a new call needs a new id" } } },
	{ "another process, not settled: in doubt",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "k", .client = 2, .times = 2, .want = R, .code = REASON_IN_DOUBT,
	      .says = "another process was allowed this call (d_2) and has not reported: it may have run" },
	    { ASK, .tool = "x", .call = "k", .want = A, .replay = true }, /* the first one still gets its answer */
	    { .op = SETTLE },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = D, .code = REASON_ALREADY_SETTLED } } },
	{ "a refusal for other reasons does not hide that the call ran",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { .op = SETTLE },
	    { RELOAD, .policy = "pawl: 1\nname: t\nrules: [{id: no, deny: [x]}]\n...\n" },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = D, .code = REASON_ALREADY_SETTLED },
	    { RELOAD, .policy = RULES("") },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = D, .code = REASON_ALREADY_SETTLED } } },
	{ "in doubt and denied by a rule: the next retry is in doubt again",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { RELOAD, .policy = "pawl: 1\nname: t\nrules: [{id: no, deny: [x], sticky: never}]\n...\n" },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = D, .code = REASON_RULE },
	    { RELOAD, .policy = RULES("") },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = R, .code = REASON_IN_DOUBT } } },
	{ "headless in doubt",
	  "pawl: 1\nname: t\nattended: false\nrules: [{id: any, allow: ['*']}]\n...\n",
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "k", .client = 2, .times = 2, .want = D, .code = REASON_IN_DOUBT } } },
	{ "a review is judged again",
	  "pawl: 1\nname: t\nrules: [{id: r, review: [x]}]\n...\n",
	  { { ASK, .tool = "x", .call = "k", .times = 2, .want = R, .code = REASON_RULE },
	    { RELOAD, .policy = RULES("") },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = A },
	    { ASK, .tool = "x", .call = "k", .want = R, .code = REASON_IN_DOUBT } } },
	{ "after the session's end",
	  RULES(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { .op = CLOSE },
	    { ASK, .tool = "x", .call = "k", .want = D, .code = REASON_SESSION_CLOSED },
	    { ASK, .tool = "x", .want = D, .code = REASON_SESSION_CLOSED },
	    { .op = OPEN },
	    { ASK, .tool = "x", .call = "k", .want = A },
	    { .op = STALE },
	    { ASK, .tool = "x", .call = "k", .times = 2, .want = D, .code = REASON_STALE_SESSION } } },
	{ "used up",
	  RULES("sessions: {calls: 2}\n"),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "x", .times = 3, .want = D, .code = REASON_SESSION_LIMIT, .rule = "calls",
	      .says = "session s_1 has had 2 decisions; sessions.calls is 2" },
	    { ASK, .tool = "x", .call = "k", .want = A, .replay = true } } },
};

static void test_replays(void **state)
{
	(void)state;
	run(replay_scripts, PAWL_LEN(replay_scripts));
}

/* ---- which reason is named, and where reviews go ---- */

static const struct script rank_scripts[] = {
	{ "rule, then loop, then budget",
	  RULES("loops: {repeat: {same: [tool, args], limit: 1, window: 9 calls, then: deny}}\nbudgets: {run: {per: "
		"session, limit: 1 calls}}\n"),
	  { { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "x", .want = D, .code = REASON_LOOP_REPEAT },
	    { ASK, .tool = "y", .want = D, .code = REASON_BUDGET },
	    { RELOAD, .policy = "pawl: 1\nname: t\nrules: [{id: no, deny: ['*']}]\n"
				"loops: {repeat: {same: [tool, args], limit: 1, window: 9 calls, then: deny}}\n"
				"budgets: {run: {per: session, limit: 1 calls}}\n...\n" },
	    { ASK, .tool = "x", .want = D, .code = REASON_RULE } } },
	{ "a stricter law wins over a better rank",
	  RULES("  - {id: r, review: [x]}\nbudgets: {run: {per: session, limit: 1 calls}}\n"),
	  { { ASK, .tool = "y", .want = A }, { ASK, .tool = "x", .want = D, .code = REASON_BUDGET } } },
	{ "loop before in doubt, default last",
	  "pawl: 1\nname: t\ndefault: review\nrules: [{id: one, allow: [x]}]\n"
	  "loops: {repeat: {same: [tool, args], limit: 1, window: 9 calls, then: review}}\n...\n",
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = R, .code = REASON_LOOP_REPEAT },
	    { ASK, .tool = "y", .want = R, .code = REASON_DEFAULT } } },
	{ "at most 20 reviews wait; joining one is free",
	  "pawl: 1\nname: t\nrules: [{id: r, review: ['*']}]\n...\n",
	  { { ASK, .tool = "a", .args = "{\"n\":1}", .times = 5, .want = R, .code = REASON_RULE },
#define FOUR(t)                                                     \
	{ ASK, .tool = t "1", .want = R, .code = REASON_RULE },     \
	    { ASK, .tool = t "2", .want = R, .code = REASON_RULE }, \
	    { ASK, .tool = t "3", .want = R, .code = REASON_RULE }, \
	{                                                           \
		ASK, .tool = t "4", .want = R, .code = REASON_RULE  \
	}
	    FOUR("b"),
	    FOUR("c"),
	    FOUR("d"),
	    FOUR("e"),
	    { ASK, .tool = "f", .want = R, .code = REASON_RULE },
	    { ASK, .tool = "g", .want = R, .code = REASON_RULE },
	    { ASK, .tool = "h", .want = R, .code = REASON_RULE },
	    { ASK, .tool = "i", .times = 2, .want = D, .code = REASON_REVIEW_REQUIRED,
	      .says = "this call needs a review, and 20 of the session's calls wait for one already; the limit is 20" },
	    { ASK, .tool = "a", .args = "{\"n\":1.0}", .want = R, .code = REASON_RULE },
	    { PASS, .seconds = 600 },
	    { ASK, .tool = "i", .want = R, .code = REASON_RULE } } },
};

static void test_rank(void **state)
{
	(void)state;
	run(rank_scripts, PAWL_LEN(rank_scripts));
}

/* A call that matches more ledgers than it can draw from, or a session nobody knows: no. */
static void test_fail_closed(void **state)
{
	static struct judgement j;
	static const struct script s = { "fail closed", RULES(""), { { .op = END } } };
	static const struct step any = { ASK, .tool = "x" };
	struct world w = world_new(&s);
	struct request_call rq = { .call = STR("k") };
	struct facts f;

	(void)state;
	facts_for(&w, &any, &rq, &f);
	f.session = 999;
	judge(w.pol, w.a, &f, w.now, &j);
	assert_int_equal(j.answer, VERDICT_DENY);
	assert_int_equal(j.why.code, REASON_SESSION_CLOSED);
	f.session = w.session;
	w.pol->fallback = VERDICT_UNSET;
	f.hit[VERDICT_ALLOW].rule = -1;
	judge(w.pol, w.a, &f, w.now, &j);
	assert_int_equal(j.answer, VERDICT_DENY);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules), cmocka_unit_test(test_loops),       cmocka_unit_test(test_replays),
		cmocka_unit_test(test_rank),  cmocka_unit_test(test_fail_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
