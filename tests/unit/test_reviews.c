/* tests/unit/test_reviews.c - cards: who joins, what an approval answers, who spends it, claims, grants; and what an
 * abort does. */
#include "tests/support/judge_script.h"

#define ASKS(text) \
	"pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\n  - {id: r, review: [pay, refund]}\n" text "...\n"
#define PAY5 .tool = "pay", .args = "{\"amt\":5}"
#define YES                                      \
	{                                        \
		ANSWER, .action = RESOLVE_RESUME \
	}
#define BY_RULE .want = R, .code = REASON_RULE

static const struct script card_scripts[] = {
	{ "A05 an approval is for one call, once, whatever its id",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE, .asks = 1 },
	    YES,
	    { ASK, .tool = "pay", .args = "{\"amt\":6}", BY_RULE },
	    { ASK, .tool = "refund", .args = "{\"amt\":5}", BY_RULE },
	    { ASK, PAY5, .want = A, .code = REASON_OK, .spends = 1, .says = "review r_2 was resumed by ann" },
	    { ASK, PAY5, BY_RULE } } }, /* a new card */
	{ "a retry by the same id spends it, and is then a replay",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    YES,
	    { ASK, PAY5, .call = "k", .want = A, .spends = 1 },
	    { ASK, PAY5, .call = "k", .want = A, .replay = true },
	    { ASK, PAY5, .call = "k", .client = 2, BY_RULE, .asks = 2 } } }, /* and in doubt */
	{ "A12 one id, other arguments: two cards",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    { ASK, .tool = "pay", .args = "{\"amt\":6}", .call = "k", BY_RULE, .reused = true },
	    { ANSWER, .card = 2, .action = RESOLVE_RESUME },
	    { ASK, PAY5, .call = "k", BY_RULE, .reused = true },
	    { ASK, .tool = "pay", .args = "{\"amt\":6}", .call = "m", .want = A, .spends = 2 } } },
	{ "A15 another session's approval is not mine",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    YES,
	    { .op = OPEN },
	    { ASK, PAY5, .times = 3, BY_RULE },
	    { USE, .at = 1 },
	    { OPEN, .child = true },
	    { ASK, PAY5, BY_RULE },
	    { USE, .at = 1 },
	    { ASK, PAY5, .want = A, .spends = 1 } } },
	{ "S5 A13 past its deadline an approval is worth nothing",
	  ASKS("reviews: {timeout: 10s}\n"),
	  { { ASK, PAY5, BY_RULE }, YES, { PASS, .seconds = 9 }, { PASS, .seconds = 1 }, { ASK, PAY5, BY_RULE } } },
	{ "unanswered until its deadline: it may ask again",
	  ASKS("reviews: {timeout: 10s}\n"),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    { PASS, .seconds = 10 },
	    { ASK, PAY5, .call = "k", BY_RULE },
	    { CLAIM, .card = 1, PAY5, .want = D, .code = REASON_REVIEW_TIMEOUT } } },
	{ "skipped: no, without a new card, by any id",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    { ANSWER, .action = RESOLVE_SKIP },
	    { ASK, PAY5, .times = 2, .want = D, .code = REASON_REVIEW_SKIPPED,
	      .says = "review r_2 of this exact call was skipped by a person" },
	    { ASK, .tool = "pay", .args = "{\"amt\":6}", BY_RULE },
	    { RELOAD, .policy = "pawl: 1\nname: t\nrules: [{id: no, deny: [pay]}]\n...\n" },
	    { ASK, PAY5, .want = D, .code = REASON_RULE } } },
	{ "closed by a reload: an ordinary question again",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    { ANSWER, .action = RESOLVE_CLOSE },
	    { CLAIM, .card = 1, PAY5, .want = D, .code = REASON_POLICY_CHANGED },
	    { ASK, PAY5, BY_RULE } } },
	{ "a law denies: refused, and the approval is kept",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    YES,
	    { RELOAD, .policy = "pawl: 1\nname: t\nrules: [{id: no, deny: [pay], sticky: never}]\n...\n" },
	    { ASK, PAY5, .want = D, .code = REASON_RULE, .spends = -1 },
	    { RELOAD, .policy = ASKS("") },
	    { ASK, PAY5, .want = A, .spends = 1 } } },
	{ "a new reason is a new card, which asks for the whole",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    YES,
	    { RELOAD, .policy = ASKS("budgets: {run: {per: session, limit: 1 USD, floor: 0.9 USD}}\n") },
	    { ASK, PAY5, .money = "0.5", .want = R, .code = REASON_FLOOR, .asks = 2, .spends = -1 },
	    { ANSWER, .card = 2, .action = RESOLVE_RESUME },
	    { ASK, PAY5, .money = "0.5", .want = A, .spends = 2 } } },
	{ "every reason is asked at once",
	  ASKS("budgets: {a: {per: session, limit: 1 USD, floor: 0.9 USD}, b: {per: session, limit: 1 USD, floor: 0.8 "
	       "USD}}\n"
	       "loops: {repeat: {limit: 1, then: review}}\n"),
	  { { ASK, PAY5, .money = "0", BY_RULE, .asks = 1 },
	    YES,
	    { ASK, PAY5, .money = "0", .want = A, .spends = 1 },
	    { ASK, PAY5, .money = "0.5", BY_RULE, .rule = "r", .asks = 4 },
	    { ANSWER, .card = 2, .action = RESOLVE_RESUME },
	    { ASK, PAY5, .money = "0.5", .want = A, .spends = 2 } } },
	{ "a resumed loop review runs once and counts",
	  "pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\nloops: {repeat: {limit: 1, then: review}}\n...\n",
	  { { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "x", .want = R, .code = REASON_LOOP_REPEAT },
	    YES,
	    { ASK, .tool = "x", .want = A, .spends = 1 },
	    { ASK, .tool = "x", .want = R, .code = REASON_LOOP_REPEAT } } },
	{ "the session's cap of waiting cards; joining one is free",
	  ASKS("reviews: {pending: 1}\n"),
	  { { ASK, PAY5, BY_RULE },
	    { ASK, .tool = "refund", .want = D, .code = REASON_REVIEW_REQUIRED, .rule = "pending", .asks = -1,
	      .says = "this call needs a review, and 1 of the session's calls wait for one already; the limit is 1" },
	    { ASK, PAY5, BY_RULE },
	    YES,
	    { ASK, .tool = "refund", BY_RULE } } },
	{ "in doubt: resuming it moves the key to the new process",
	  ASKS(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = R, .code = REASON_IN_DOUBT, .asks = 1 },
	    YES,
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = A, .spends = 1 },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = A, .replay = true },
	    { ASK, .tool = "x", .call = "k", .want = R, .code = REASON_IN_DOUBT } } },
	{ "more reasons than a card holds: no",
	  ASKS("budgets:\n  a: {per: session, limit: 9 USD, floor: 8 USD}\n  b: {per: session, limit: 9 USD, floor: 8 "
	       "USD}\n"
	       "  c: {per: session, limit: 9 USD, floor: 8 USD}\n  d: {per: session, limit: 9 USD, floor: 8 USD}\n"
	       "  e: {per: session, limit: 9 USD, floor: 8 USD}\n  f: {per: session, limit: 9 USD, floor: 8 USD}\n"
	       "  g: {per: session, limit: 9 USD, floor: 8 USD}\n  h: {per: session, limit: 9 USD, floor: 8 USD}\n"),
	  { { ASK, .tool = "x", .money = "2", .want = R, .code = REASON_FLOOR, .asks = 8 },
	    { ASK, PAY5, .money = "2", .want = D, .code = REASON_REVIEW_REQUIRED, .rule = "asks", .asks = -1,
	      .says = "this call needs a review, and 9 reasons to ask a person were found; the limit is 8" } } },
	{ "headless: nobody could answer",
	  ASKS("attended: false\n"),
	  { { ASK, PAY5, .want = D, .code = REASON_RULE, .asks = -1 } } },
};

static const struct script claim_scripts[] = {
	{ "a claim hands the permit out once",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    { ASK, PAY5, .call = "m", BY_RULE },
	    { CLAIM, PAY5, .call = "k", BY_RULE },
	    YES,
	    { CLAIM, PAY5, .call = "k", .want = A, .spends = 1 },
	    { CLAIM, PAY5, .call = "k", .want = A, .replay = true },
	    { ASK, PAY5, .call = "k", .want = D, .code = REASON_ALREADY_CLAIMED,
	      .says = "the permit for this call was handed out already (d_6): a new call needs a new id" },
	    { ASK, PAY5, .call = "m", .want = D, .code = REASON_ALREADY_CLAIMED },
	    { CLAIM, PAY5, .call = "n", .want = D, .code = REASON_ALREADY_CLAIMED },
	    { CLAIM, PAY5, .call = "k", .client = 2, .want = D, .code = REASON_ALREADY_CLAIMED },
	    { .op = SETTLE },
	    { CLAIM, PAY5, .call = "k", .want = D, .code = REASON_ALREADY_SETTLED },
	    { ASK, PAY5, .call = "o", BY_RULE } } },
	{ "spent by another id's decide: judged afresh, and nothing is left to claim",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    YES,
	    { ASK, PAY5, .call = "m", .want = A, .spends = 1 },
	    { ASK, PAY5, .call = "k", BY_RULE },
	    { CLAIM, .card = 1, PAY5, .call = "k", .want = D, .code = REASON_ALREADY_CLAIMED } } },
	{ "A04 for other arguments, another tool, another session: malformed",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    YES,
	    { CLAIM, .tool = "pay", .args = "{\"amt\":50}", .says = "a review of another tool or of other arguments" },
	    { CLAIM, .tool = "refund", .args = "{\"amt\":5}",
	      .says = "a review of another tool or of other arguments" },
	    { .op = OPEN },
	    { CLAIM, PAY5, .says = "not a review of this session" },
	    { USE, .at = 1 },
	    { CLAIM, PAY5, .want = A, .spends = 1 } } },
	{ "the largest amounts that joined",
	  ASKS("budgets: {run: {per: session, limit: 1 USD}}\n"),
	  { { ASK, PAY5, .money = "0.2", BY_RULE },
	    { ASK, PAY5, .money = "0.9", BY_RULE },
	    { ASK, PAY5, .money = "0.1", BY_RULE },
	    YES,
	    { CLAIM, PAY5, .money = "0.1", .want = A, .spends = 1 },
	    { ASK, .tool = "x", .money = "0.2", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0.1 USD left of 1 USD; this call needs 0.2" } } },
	{ "a denied claim may come again by the same id",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    YES,
	    { RELOAD, .policy = "pawl: 1\nname: t\nrules: [{id: no, deny: [pay], sticky: never}]\n...\n" },
	    { CLAIM, PAY5, .call = "k", .want = D, .code = REASON_RULE, .spends = -1 },
	    { RELOAD, .policy = ASKS("") },
	    { CLAIM, PAY5, .call = "k", .want = A, .spends = 1 } } },
	{ "a new reason while it is claimed: a new card",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    YES,
	    { RELOAD, .policy = ASKS("budgets: {run: {per: session, limit: 1 USD, floor: 0.9 USD}}\n") },
	    { CLAIM, PAY5, .call = "k", .money = "0.5", .want = R, .code = REASON_FLOOR, .spends = -1, .asks = 2 },
	    { ANSWER, .card = 2, .action = RESOLVE_RESUME },
	    { CLAIM, .card = 2, PAY5, .call = "k", .money = "0.5", .want = A, .spends = 2 } } },
	{ "skipped",
	  ASKS(""),
	  { { ASK, PAY5, BY_RULE },
	    { ANSWER, .action = RESOLVE_SKIP },
	    { CLAIM, PAY5, .want = D, .code = REASON_REVIEW_SKIPPED } } },
	{ "an id that was allowed already is not run twice by a claim",
	  ASKS(""),
	  { { ASK, PAY5, .call = "k", BY_RULE },
	    YES,
	    { ASK, PAY5, .call = "k", .want = A, .spends = 1 },
	    { ASK, PAY5, BY_RULE },
	    { ANSWER, .card = 2, .action = RESOLVE_RESUME },
	    { CLAIM, .card = 2, PAY5, .call = "k", .want = D, .code = REASON_ALREADY_CLAIMED },
	    { CLAIM, .card = 2, PAY5, .want = A, .spends = 2 } } },
	{ "in doubt, claimed",
	  ASKS(""),
	  { { ASK, .tool = "x", .call = "k", .want = A },
	    { ASK, .tool = "x", .call = "k", .client = 2, .want = R, .code = REASON_IN_DOUBT },
	    YES,
	    { CLAIM, .tool = "x", .call = "k", .client = 2, .want = A, .spends = 1 } } },
};

#define RUN(text)                                                                                                  \
	"pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\nbudgets: {run: {per: session, then: review, " text \
	"}}\n...\n"
static const struct script grant_scripts[] = {
	{ "exactly the shortfall",
	  RUN("limit: 1 USD, grant_max: 2 USD"),
	  { { ASK, .tool = "x", .money = "0.8", .want = A },
	    { ASK, .tool = "x", .money = "0.5", .want = R, .code = REASON_BUDGET, .asks = 1 },
	    YES,
	    { ASK, .tool = "x", .money = "0.5", .want = A, .spends = 1 },
	    { ASK, .tool = "x", .money = "0.1", .want = R, .code = REASON_BUDGET,
	      .says = "run has 0 USD left of 1.3 USD; this call needs 0.1" } } },
	{ "never above grant_max",
	  RUN("limit: 1 USD, grant_max: 0.2 USD"),
	  { { ASK, .tool = "x", .money = "0.8", .want = A },
	    { ASK, .tool = "x", .money = "0.5", .want = R, .code = REASON_BUDGET },
	    { ANSWER, .action = RESOLVE_RESUME, .refused = true,
	      .says = "run lacks 0.3 USD for this call; its grant_max is 0.2" },
	    { ASK, .tool = "x", .money = "0.5", .want = R, .code = REASON_BUDGET, .spends = -1 } } },
	{ "what another call took of it is asked for again",
	  RUN("limit: 1 USD, grant_max: 2 USD"),
	  { { ASK, .tool = "x", .money = "0.8", .want = A },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .money = "0.5", .want = R, .code = REASON_BUDGET },
	    YES,
	    { ASK, .tool = "x", .money = "0.4", .want = A, .spends = -1 },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .money = "0.5", .want = R, .code = REASON_BUDGET, .spends = -1 },
	    { ANSWER, .card = 2, .action = RESOLVE_RESUME },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .money = "0.5", .want = A, .spends = 2 } } },
	{ "calls; a clock takes no grant",
	  "pawl: 1\nname: t\nrules:\n  - {id: any, allow: ['*']}\nbudgets: {n: {per: session, limit: 1 calls, then: "
	  "review, grant_max: 1 calls},"
	  " age: {per: session, limit: 10s, then: review}}\n...\n",
	  { { ASK, .tool = "x", .want = A },
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "x", .want = R, .code = REASON_BUDGET, .rule = "n", .asks = 2 },
	    YES,
	    { PASS, .seconds = 10 },
	    { ASK, .tool = "x", .want = A, .spends = 1 },
	    { ASK, .tool = "x", .want = R, .code = REASON_BUDGET, .asks = 2 } } },
	{ "a child's call: each session above it that lacks something",
	  RUN("limit: 2 calls, grant_max: 5 calls"),
	  { { ASK, .tool = "x", .times = 2, .want = A },
	    { OPEN, .child = true },
	    { ASK, .tool = "x", .want = R, .code = REASON_BUDGET, .asks = 1 },
	    YES,
	    { ASK, .tool = "x", .want = A, .spends = 1 } } },
};

static const struct script abort_scripts[] = {
	{ "the call's session and those below it end; nobody opens one for a while",
	  ASKS("sessions: {abort_hold: 30s}\n"),
	  { { OPEN, .child = true },
	    { OPEN, .child = true },
	    { USE, .at = 2 },
	    { ASK, PAY5, BY_RULE },
	    { ANSWER, .action = RESOLVE_ABORT },
	    { ASK, .tool = "x", .want = D, .code = REASON_SESSION_ABORTED,
	      .says = "session s_2 was aborted by a person" },
	    { USE, .at = 3 },
	    { ASK, .tool = "x", .want = D, .code = REASON_SESSION_ABORTED },
	    { USE, .at = 1 },
	    { ASK, .tool = "x", .want = A },
	    { MAY_OPEN, .want = D, .code = REASON_SESSION_ABORTED, .rule = "abort_hold" },
	    { MAY_OPEN, .child = true, .want = D, .code = REASON_SESSION_ABORTED },
	    { PASS, .seconds = 30 },
	    { MAY_OPEN, .want = A } } },
	{ "--tree",
	  ASKS(""),
	  { { OPEN, .child = true },
	    { ASK, PAY5, BY_RULE },
	    { ANSWER, .action = RESOLVE_ABORT, .tree = true },
	    { ASK, .tool = "x", .want = D, .code = REASON_SESSION_ABORTED },
	    { USE, .at = 1 },
	    { ASK, .tool = "x", .want = D, .code = REASON_SESSION_ABORTED } } },
	{ "a session by itself; its parent's state is what a child is told",
	  ASKS("sessions: {abort_hold: 1s}\n"),
	  { { OPEN, .child = true },
	    { .op = KILL },
	    { PASS, .seconds = 1 },
	    { MAY_OPEN, .child = true, .want = D, .code = REASON_SESSION_ABORTED, .says = "the parent s_2 is over" },
	    { USE, .at = 1 },
	    { MAY_OPEN, .child = true, .want = A } } },
	{ "depth: the root is 1",
	  ASKS("sessions: {depth: 2}\n"),
	  { { MAY_OPEN, .child = true, .want = A },
	    { OPEN, .child = true },
	    { MAY_OPEN, .child = true, .want = D, .code = REASON_SESSION_LIMIT, .rule = "depth" },
	    { MAY_OPEN, .want = A } } },
};

#define TEST(name)                                             \
	static void test_##name(void **state)                  \
	{                                                      \
		(void)state;                                   \
		run(name##_scripts, PAWL_LEN(name##_scripts)); \
	}
TEST(card)
TEST(claim)
TEST(grant)
TEST(abort)

/* The spine writes what is due before it asks; were it not so, an approval would still end at its deadline. */
static void test_deadline(void **state)
{
	static const struct script s = { "deadline", ASKS("reviews: {timeout: 10s}\n"), { { .op = END } } };
	static const struct step pay = { ASK, PAY5, BY_RULE }, yes = YES;
	static struct judgement j;
	struct world w = world_new(&s);
	struct request_call rq = { .call = STR("k") };
	struct facts f;

	(void)state;
	ask(&w, &pay, 0);
	answer(&w, &yes);
	facts_for(&w, &pay, &rq, &f);
	w.now += 10 * SEC - 1;
	judge(w.pol, w.a, &f, w.now, &j);
	assert_int_equal(j.answer, VERDICT_ALLOW);
	w.now++;
	judge(w.pol, w.a, &f, w.now, &j);
	assert_int_equal(j.answer, VERDICT_REVIEW);
	assert_int_equal(claim_prepare(w.a, card_of(&w, 1), &f, NULL), 0);
	judge_claim(w.pol, w.a, &f, card_of(&w, 1), w.now, &j);
	assert_int_equal(j.why.code, REASON_REVIEW_TIMEOUT);
	judge_claim(w.pol, w.a, &f, 999, w.now, &j); /* a spine that forgot claim_prepare() */
	assert_int_equal(j.answer, VERDICT_DENY);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_card),  cmocka_unit_test(test_claim),    cmocka_unit_test(test_grant),
		cmocka_unit_test(test_abort), cmocka_unit_test(test_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
