/* tests/unit/test_loops.c - cycles, errors, results that never change, polling; over a tree of sessions. `repeat`
 * alone: test_judge.c. */
#include "tests/support/judge_script.h"

#define CYCLE3 RULES("loops: {cycle: {period: 2..8, limit: 3, then: deny}}\n")
#define DO(t, a)                                     \
	{                                            \
		ASK, .tool = t, .args = a, .want = A \
	}
#define ROUND DO("a", "{}"), DO("b", "{}")
#define CIRCLE(t, a)                                                                             \
	{                                                                                        \
		ASK, .tool = t, .args = a, .want = D, .code = REASON_LOOP_CYCLE, .rule = "cycle" \
	}

static const struct script cycle_scripts[] = {
	{ "L04 S13 A B A B A B: the 7th call is refused, and every member stays so",
	  CYCLE3,
	  { ROUND,
	    ROUND,
	    ROUND,
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_CYCLE, .rule = "cycle", .trips = 2,
	      .says = "this call is one of a cycle of period 2 that ran 3 times; the limit is 3 (loop rule cycle)" },
	    CIRCLE("b", "{}"),
	    { ASK, .tool = "c", .want = A },
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_CYCLE, .trips = -1,
	      .says =
		  "this call was one of a cycle that ran 3 times, and stays refused in this tree (loop rule cycle)" },
	    { ASK, .tool = "a", .args = "{\"n\":1}", .want = A } } },
	{ "two rounds are no cycle of three", CYCLE3, { ROUND, ROUND, DO("a", "{}"), DO("c", "{}"), DO("a", "{}") } },
	{ "found before any decide, also of a call that is no member",
	  CYCLE3,
	  { ROUND,
	    ROUND,
	    ROUND,
	    { ASK, .tool = "c", .want = A, .trips = 2 },
	    CIRCLE("a", "{}"),
	    CIRCLE("b", "{}"),
	    { ASK, .tool = "c", .want = A, .trips = -1 } } },
	{ "A x 6 is no cycle", CYCLE3, { { ASK, .tool = "a", .times = 9, .want = A, .trips = -1 } } },
	{ "period 3, and a member that comes twice in a round",
	  CYCLE3,
	  { DO("a", "{}"),
	    DO("a", "{}"),
	    DO("b", "{}"),
	    DO("a", "{}"),
	    DO("a", "{}"),
	    DO("b", "{}"),
	    DO("a", "{}"),
	    DO("a", "{}"),
	    DO("b", "{}"),
	    { ASK, .tool = "b", .want = D, .code = REASON_LOOP_CYCLE, .trips = 2 } } },
	{ "no shorter and no longer than said",
	  RULES("loops: {cycle: {period: 3..3, limit: 2, then: deny}}\n"),
	  { ROUND, ROUND, ROUND, DO("c", "{}"), DO("a", "{}"), DO("b", "{}"), DO("c", "{}"), CIRCLE("a", "{}") } },
	{ "arguments are part of a member",
	  CYCLE3,
	  { DO("a", "{\"n\":1}"), DO("a", "{\"n\":2}"), DO("a", "{\"n\":1}"), DO("a", "{\"n\":2}"),
	    DO("a", "{\"n\":1}"), DO("a", "{\"n\":2}"), CIRCLE("a", "{\"n\":1}"), DO("a", "{\"n\":3}") } },
	{ "L15 empty and absent results are values, and never asked for",
	  CYCLE3,
	  { DO("a", "{}"),
	    { SETTLE, .result = "0" },
	    DO("b", "{}"),
	    { .op = SETTLE },
	    DO("a", "{}"),
	    { SETTLE, .result = "0" },
	    DO("b", "{}"),
	    { .op = SETTLE },
	    DO("a", "{}"),
	    { SETTLE, .result = "0" },
	    DO("b", "{}"),
	    { .op = SETTLE },
	    CIRCLE("a", "{}") } },
	{ "news do not excuse members that do not poll",
	  CYCLE3,
	  { DO("a", "{}"),
	    { SETTLE, .result = "1" },
	    DO("b", "{}"),
	    DO("a", "{}"),
	    { SETTLE, .result = "2" },
	    DO("b", "{}"),
	    DO("a", "{}"),
	    { SETTLE, .result = "3" },
	    DO("b", "{}"),
	    CIRCLE("a", "{}") } },
	{ "L14 over the tree: a child goes round with its parent",
	  CYCLE3,
	  { DO("a", "{}"),
	    { OPEN, .child = true },
	    DO("b", "{}"),
	    { USE, .at = 1 },
	    DO("a", "{}"),
	    { USE, .at = 2 },
	    DO("b", "{}"),
	    { USE, .at = 1 },
	    DO("a", "{}"),
	    { USE, .at = 2 },
	    DO("b", "{}"),
	    CIRCLE("a", "{}"),
	    { USE, .at = 1 },
	    CIRCLE("b", "{}"),
	    { .op = OPEN },
	    DO("a", "{}") } },
	{ "a person lets one go; the trip stays",
	  RULES("loops: {cycle: {period: 2..8, limit: 2, then: review}}\n"),
	  { ROUND,
	    ROUND,
	    { ASK, .tool = "a", .want = R, .code = REASON_LOOP_CYCLE, .asks = 1 },
	    { ANSWER, .action = RESOLVE_RESUME },
	    { ASK, .tool = "a", .want = A, .spends = 1 },
	    { ASK, .tool = "a", .want = R, .code = REASON_LOOP_CYCLE },
	    { ASK, .tool = "b", .want = R, .code = REASON_LOOP_CYCLE } } },
};

#define POLL(rule)                                                                                               \
	"pawl: 1\nname: t\ntools: {status: {polling: true}}\nrules:\n  - {id: any, allow: ['*']}\nloops: {" rule \
	"}\n...\n"
#define SEES(r)                                                      \
	{ ASK, .tool = "status", .args = "{\"job\":7}", .want = A }, \
	{                                                            \
		SETTLE, .result = r                                  \
	}
static const struct script polling_scripts[] = {
	{ "L10 polling with news is no loop",
	  POLL("repeat: {limit: 3, then: deny}, stuck: {limit: 3, then: deny}"),
	  { SEES("10%"), SEES("20%"), SEES("30%"), SEES("40%"), SEES("50%"), SEES("60%"), SEES("70%"), SEES("80%"),
	    SEES("90%"), SEES("100%") } },
	{ "L10 polling without is one",
	  POLL("repeat: {limit: 3, then: deny}"),
	  { SEES("10%"),
	    SEES("20%"),
	    SEES("20%"),
	    SEES("20%"),
	    { ASK, .tool = "status", .args = "{\"job\":7}", .want = D, .code = REASON_LOOP_REPEAT,
	      .says = "this exact call ran 3 times in the last 50 with nothing new; the limit is 3 (loop rule "
		      "repeat)" } } },
	{ "unsettled polls compare as the same",
	  POLL("repeat: {limit: 3, then: deny}"),
	  { SEES("10%"),
	    { ASK, .tool = "status", .args = "{\"job\":7}", .want = A },
	    SEES("10%"),
	    { ASK, .tool = "status", .args = "{\"job\":7}", .want = D, .code = REASON_LOOP_REPEAT } } },
	{ "an unsettled poll between two results hides nothing",
	  POLL("repeat: {limit: 3, then: deny}"),
	  { SEES("10%"),
	    { ASK, .tool = "status", .args = "{\"job\":7}", .want = A },
	    SEES("20%"),
	    { ASK, .tool = "status", .args = "{\"job\":7}", .want = A } } },
	{ "news do not excuse a tool that does not poll",
	  RULES("loops: {repeat: {limit: 3, then: deny}}\n"),
	  { SEES("10%"),
	    SEES("20%"),
	    SEES("30%"),
	    { ASK, .tool = "status", .args = "{\"job\":7}", .want = D, .code = REASON_LOOP_REPEAT } } },
	{ "a polling member with news keeps a cycle open",
	  POLL("cycle: {period: 2..4, limit: 3, then: deny}"),
	  { SEES("1"), DO("wait", "{}"), SEES("2"), DO("wait", "{}"), SEES("3"), DO("wait", "{}"), SEES("4"),
	    DO("wait", "{}"), SEES("4"), DO("wait", "{}"), SEES("4"), CIRCLE("status", "{\"job\":7}"),
	    CIRCLE("wait", "{}") } },
};

#define ERRORS(n) RULES("loops: {errors: {same: [tool, error], limit: " n ", then: deny}}\n")
#define FAILS(t, a, e)                                       \
	{ ASK, .tool = t, .args = a, .want = A },            \
	{                                                    \
		SETTLE, .outcome = OUTCOME_ERROR, .error = e \
	}
static const struct script error_scripts[] = {
	{ "L02 the same error three times: the fourth is refused",
	  RULES("loops: {repeat: {limit: 3, then: deny}, errors: {limit: 3, then: deny}}\n"),
	  { FAILS("edit", "{\"f\":\"a\"}", "E1"),
	    FAILS("edit", "{\"f\":\"a\"}", "E1"),
	    FAILS("edit", "{\"f\":\"a\"}", "E1"),
	    { ASK, .tool = "edit", .args = "{\"f\":\"a\"}", .times = 3, .want = D, .code = REASON_LOOP_ERROR,
	      .rule = "errors",
	      .says = "one error came back 3 times from this tool in the last 50 calls; the limit is 3 (loop rule "
		      "errors)" } } },
	{ "L02 a lower limit for failing repeats wins",
	  RULES("loops: {repeat: {limit: 3, then: deny}, errors: {limit: 2, then: deny}}\n"),
	  { FAILS("edit", "{}", "E1"),
	    FAILS("edit", "{}", "E1"),
	    { ASK, .tool = "edit", .want = D, .code = REASON_LOOP_ERROR } } },
	{ "L13 whatever the arguments",
	  ERRORS("3"),
	  { FAILS("sql", "{\"q\":\"a\"}", "E1"),
	    FAILS("sql", "{\"q\":\"a \"}", "E1"),
	    FAILS("sql", "{\"q\":\" a\"}", "E1"),
	    { ASK, .tool = "sql", .args = "{\"q\":\"  a\"}", .want = D, .code = REASON_LOOP_ERROR },
	    { ASK, .tool = "read", .want = A } } },
	{ "other errors, other tools and successes between count for themselves",
	  ERRORS("2"),
	  { FAILS("a", "{}", "E1"),
	    FAILS("a", "{}", "E2"),
	    FAILS("b", "{}", "E1"),
	    { ASK, .tool = "a", .want = A },
	    { SETTLE, .result = "E1" },
	    FAILS("a", "{}", "E1"),
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_ERROR },
	    FAILS("b", "{}", "E1"),
	    { ASK, .tool = "b", .want = D, .code = REASON_LOOP_ERROR } } },
	{ "an error that says nothing is one too; what is not settled is none",
	  ERRORS("2"),
	  { FAILS("a", "{}", NULL),
	    DO("a", "{}"),
	    DO("a", "{}"),
	    FAILS("a", "{}", NULL),
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_ERROR } } },
	{ "S14 words in arguments and results count for nothing",
	  ERRORS("1"),
	  { { ASK, .tool = "a", .args = "{\"q\":\"error 500 failed\"}", .want = A },
	    { SETTLE, .result = "error failed" },
	    { ASK, .tool = "a", .args = "{\"q\":\"error 500 failed\"}", .want = A } } },
	{ "the window",
	  RULES("loops: {errors: {limit: 2, window: 3 calls, then: review}}\n"),
	  { FAILS("a", "{}", "E"),
	    FAILS("a", "{}", "E"),
	    { ASK, .tool = "a", .want = R, .code = REASON_LOOP_ERROR },
	    DO("b", "{}"),
	    { ASK, .tool = "a", .want = R, .code = REASON_LOOP_ERROR },
	    DO("c", "{}"),
	    DO("a", "{}") } },
	{ "each rule has a window of its own",
	  RULES("loops: {errors: {limit: 2, window: 2 calls}, stuck: {limit: 9, window: 50 calls}}\n"),
	  { FAILS("a", "{}", "E"), DO("b", "{}"), FAILS("a", "{}", "E"), DO("a", "{}") } },
};

#define STUCK(n) RULES("loops: {stuck: {same: [tool, result], limit: " n ", then: deny}}\n")
static const struct script stuck_scripts[] = {
	{ "L09 other arguments, one failing result: the 6th is refused",
	  STUCK("5"),
	  { FAILS("ssh", "{\"f\":1}", "Permission denied"),
	    FAILS("ssh", "{\"f\":2}", "Permission denied"),
	    FAILS("ssh", "{\"f\":3}", "Permission denied"),
	    FAILS("ssh", "{\"f\":4}", "Permission denied"),
	    FAILS("ssh", "{\"f\":5}", "Permission denied"),
	    { ASK, .tool = "ssh", .args = "{\"f\":6}", .times = 2, .want = D, .code = REASON_LOOP_RESULT,
	      .rule = "stuck",
	      .says = "the last 5 calls of this tool had one and the same result; the limit is 5 (loop rule stuck)" },
	    { ASK, .tool = "ls", .want = A } } },
	{ "another result ends the streak, an error is not a result with its text",
	  STUCK("2"),
	  { DO("a", "{}"),
	    { SETTLE, .result = "x" },
	    FAILS("a", "{}", "x"),
	    DO("a", "{}"),
	    { SETTLE, .result = "x" },
	    DO("a", "{}"),
	    { SETTLE, .result = "x" },
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_RESULT } } },
	{ "L15 empty and absent are values, and differ",
	  STUCK("2"),
	  { DO("a", "{}"),
	    { SETTLE, .result = "" },
	    DO("a", "{}"),
	    { .op = SETTLE },
	    DO("a", "{}"),
	    { SETTLE, .result = "" },
	    DO("a", "{}"),
	    { SETTLE, .result = "" },
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_RESULT },
	    DO("b", "{}"),
	    { .op = SETTLE },
	    DO("b", "{}"),
	    { .op = SETTLE },
	    { ASK, .tool = "b", .want = D, .code = REASON_LOOP_RESULT } } },
	{ "a success that says nothing is no error that says nothing",
	  STUCK("2"),
	  { DO("a", "{}"),
	    { .op = SETTLE },
	    FAILS("a", "{}", NULL),
	    DO("a", "{}"),
	    { .op = SETTLE },
	    FAILS("a", "{}", NULL),
	    FAILS("a", "{}", NULL),
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_RESULT } } },
	{ "unsettled ones compare as the same",
	  STUCK("3"),
	  { DO("a", "{\"n\":1}"),
	    DO("a", "{\"n\":2}"),
	    DO("a", "{\"n\":3}"),
	    { ASK, .tool = "a", .args = "{\"n\":4}", .want = D, .code = REASON_LOOP_RESULT },
	    { SETTLE, .result = "x" },
	    { SETTLE, .back = 1, .result = "y" },
	    { ASK, .tool = "a", .args = "{\"n\":4}", .want = A } } },
	{ "L17 real work goes on",
	  RULES("loops: {repeat: {limit: 3}, cycle: {limit: 3}, errors: {limit: 3}, stuck: {limit: 3}}\n"),
	  { DO("search", "{\"level\":\"B2\"}"),
	    { SETTLE, .result = "r1" },
	    DO("search", "{\"level\":\"E2\"}"),
	    { SETTLE, .result = "r2" },
	    DO("search", "{\"level\":\"E4\"}"),
	    { SETTLE, .result = "r3" },
	    DO("search", "{\"level\":\"E5\"}") } },
};

/* L08: what differs in equal calls, and is listed, makes no other call. */
#define Q(n, t) "{\"n\":" n ",\"since\":" t "}"
static const struct script key_scripts[] = {
	{ "L08 volatile arguments, 1 and 1.0, key order, another client",
	  "pawl: 1\nname: t\ntools: {q: {volatile: [args.since]}}\nrules:\n  - {id: any, allow: ['*']}\n"
	  "loops: {repeat: {limit: 3, then: deny}}\n...\n",
	  { { ASK, .tool = "q", .args = Q("1", "10"), .client = 1, .want = A },
	    { ASK, .tool = "q", .args = Q("1.0", "11"), .client = 2, .want = A },
	    { ASK, .tool = "q", .args = "{\"since\":12,\"n\":1}", .client = 3, .want = A },
	    { ASK, .tool = "q", .args = Q("1", "13"), .client = 4, .want = D, .code = REASON_LOOP_REPEAT } } },
	{ "L13 white space where the tool says so",
	  "pawl: 1\nname: t\ntools: {sql: {fold_space: [args.q]}}\nrules:\n  - {id: any, allow: ['*']}\n"
	  "loops: {repeat: {limit: 3, then: deny}}\n...\n",
	  { DO("sql", "{\"q\":\"select 1\"}"),
	    DO("sql", "{\"q\":\"select  1\"}"),
	    DO("sql", "{\"q\":\"select\\n1\"}"),
	    { ASK, .tool = "sql", .args = "{\"q\":\"select \\t 1\"}", .want = D, .code = REASON_LOOP_REPEAT } } },
	{ "the strictest of several wins; among equals cycle, errors, stuck, repeat",
	  RULES("loops: {repeat: {limit: 2, then: deny}, errors: {limit: 2, then: review}, stuck: {limit: 2, then: "
		"deny}}\n"),
	  { FAILS("a", "{}", "E"),
	    FAILS("a", "{}", "E"),
	    { ASK, .tool = "a", .want = D, .code = REASON_LOOP_RESULT },
	    { ASK, .tool = "a", .args = "{\"n\":1}", .want = D, .code = REASON_LOOP_RESULT },
	    { RELOAD, .policy = RULES("loops: {repeat: {limit: 2, then: review}, errors: {limit: 2, then: review}, "
				      "stuck: {limit: 2, then: review}}\n") },
	    { ASK, .tool = "a", .want = R, .code = REASON_LOOP_ERROR, .asks = 3 } } },
	{ "L12 a child is no way round",
	  "pawl: 1\nname: t\nattended: false\nrules:\n  - {id: any, allow: ['*']}\nloops: {repeat: {limit: 3, then: "
	  "review}}\n...\n",
	  { { OPEN, .child = true },
	    { ASK, .tool = "read", .times = 3, .want = A },
	    { ASK, .tool = "read", .times = 17, .want = D, .code = REASON_LOOP_REPEAT },
	    { USE, .at = 1 },
	    { ASK, .tool = "read", .want = D, .code = REASON_LOOP_REPEAT } } },
};

#define TEST(name)                                             \
	static void test_##name(void **state)                  \
	{                                                      \
		(void)state;                                   \
		run(name##_scripts, PAWL_LEN(name##_scripts)); \
	}
TEST(cycle)
TEST(polling)
TEST(error)
TEST(stuck)
TEST(key)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cycle), cmocka_unit_test(test_polling), cmocka_unit_test(test_error),
		cmocka_unit_test(test_stuck), cmocka_unit_test(test_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
