/* tests/unit/test_denials.c - denials that stay, how far they reach, and which do not stay. */
#include "tests/support/judge_script.h"

#define TOOLS(t, r) "pawl: 1\nname: t\ntools: {" t "}\nrules:\n  - {id: rest, allow: ['*']}\n" r "...\n"
#define NONE        RULES("")
#define NO_X        TOOLS("x: {}", "  - {id: no-x, deny: [x]}\n")
#define USES        "x: {}, y: {uses: [x]}, z: {uses: [y]}"
#define TRANS(r)    .want = D, .code = REASON_TRANSITIVE, .rule = r

static const struct script sticky_scripts[] = {
	{ "a rule without a condition stays for the session, whatever the policy says later",
	  NO_X,
	  { { ASK, .tool = "x", .times = 2, .want = D, .code = REASON_RULE, .rule = "no-x" },
	    { RELOAD, .policy = NONE },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .want = D, .code = REASON_STICKY_DENIAL, .rule = "no-x",
	      .says = "rule no-x denied x before, and that stays" },
	    { ASK, .tool = "y", .want = A },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = A } } },
	{ "D09 D12 and for the sessions below it, not for those above",
	  NO_X,
	  { { OPEN, .child = true },
	    { ASK, .tool = "x", .want = D, .code = REASON_RULE },
	    { OPEN, .child = true },
	    { RELOAD, .policy = NONE },
	    { ASK, .tool = "x", .want = D, .code = REASON_STICKY_DENIAL },
	    { USE, .at = 2 },
	    { ASK, .tool = "x", .want = D, .code = REASON_STICKY_DENIAL },
	    { USE, .at = 1 },
	    { ASK, .tool = "x", .want = A },
	    { OPEN, .child = true }, /* two children of one parent are not each other's */
	    { ASK, .tool = "x", .want = A } } },
	{ "sticky: tree",
	  TOOLS("x: {}", "  - {id: no-x, deny: [x], sticky: tree}\n"),
	  { { OPEN, .child = true },
	    { ASK, .tool = "x", .want = D, .code = REASON_RULE },
	    { RELOAD, .policy = NONE },
	    { USE, .at = 1 },
	    { ASK, .tool = "x", .want = D, .code = REASON_STICKY_DENIAL },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = A } } },
	{ "sticky: agent",
	  TOOLS("x: {}", "  - {id: no-x, deny: [x], sticky: agent}\n"),
	  { { ASK, .tool = "x", .want = D, .code = REASON_RULE },
	    { .op = CLOSE },
	    { RELOAD, .policy = NONE },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = D, .code = REASON_STICKY_DENIAL } } },
	{ "sticky: never",
	  TOOLS("x: {}", "  - {id: no-x, deny: [x], sticky: never}\n"),
	  { { ASK, .tool = "x", .want = D, .code = REASON_RULE },
	    { RELOAD, .policy = NONE },
	    { ASK, .tool = "x", .want = A } } },
	{ "a condition does not stick unless said, a failed one never",
	  TOOLS("x: {}", "  - {id: big, deny: [x], when: {args.n: {over: 5}}}\n"),
	  { { ASK, .tool = "x", .args = "{\"n\":9}", .want = D, .code = REASON_RULE },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .want = A },
	    { RELOAD,
	      .policy = TOOLS("x: {}", "  - {id: big, deny: [x], when: {args.n: {over: 5}}, sticky: session}\n") },
	    { ASK, .tool = "x", .want = D, .code = REASON_RULE },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .want = A },
	    { ASK, .tool = "x", .args = "{\"n\":9}", .want = D, .code = REASON_RULE },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .want = D, .code = REASON_STICKY_DENIAL } } },
	{ "every deny rule that matched sticks, not only the one that is named",
	  TOOLS("x: {}", "  - {id: a, deny: [x], sticky: never}\n  - {id: b, deny: ['*']}\n"),
	  { { ASK, .tool = "x", .want = D, .code = REASON_RULE, .rule = "a" },
	    { RELOAD, .policy = NONE },
	    { ASK, .tool = "x", .want = D, .code = REASON_STICKY_DENIAL, .rule = "b" } } },
	{ "defaults, budgets and loops are judged afresh",
	  "pawl: 1\nname: t\nrules: [{id: a, allow: [y]}]\nbudgets: {run: {per: session, limit: 1 calls}}\n"
	  "loops: {repeat: {limit: 1}}\n...\n",
	  { { ASK, .tool = "x", .want = D, .code = REASON_DEFAULT },
	    { ASK, .tool = "y", .want = A },
	    { ASK, .tool = "y", .want = D, .code = REASON_LOOP_REPEAT },
	    { ASK, .tool = "y", .args = "{\"n\":1}", .want = D, .code = REASON_BUDGET },
	    { RELOAD, .policy = NONE },
	    { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "y", .want = A } } },
};

static const struct script uses_scripts[] = {
	{ "an unconditional rule on a used name denies at once, one way only",
	  TOOLS(USES, "  - {id: no-y, deny: [y], sticky: never}\n"),
	  { { ASK, .tool = "z", .times = 2, TRANS("no-y"), .says = "z needs y, which rule no-y denies" },
	    { ASK, .tool = "x", .want = A },
	    { RELOAD, .policy = TOOLS(USES, "") },
	    { ASK, .tool = "z", .want = A } } }, /* the transitive one did not stick */
	{ "a capability that nobody calls",
	  TOOLS("fetch: {uses: [net]}", "  - {id: offline, deny: [net]}\n"),
	  { { ASK, .tool = "fetch", TRANS("offline") }, { ASK, .tool = "read", .want = A } } },
	{ "a used name that was denied before, through two steps",
	  TOOLS(USES, "  - {id: no-x, deny: [x], when: {args.n: {is: 1}}, sticky: session}\n"),
	  { { ASK, .tool = "z", .want = A },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .want = D, .code = REASON_RULE },
	    { ASK, .tool = "z", TRANS("no-x"), .says = "z needs x, which rule no-x denied before; that stays" },
	    { ASK, .tool = "y", TRANS("no-x") } } },
	{ "a condition on a used name is that call's business",
	  TOOLS(USES, "  - {id: no-x, deny: [x], when: {args.n: {is: 1}}}\n"),
	  { { ASK, .tool = "x", .args = "{\"n\":1}", .want = D, .code = REASON_RULE },
	    { ASK, .tool = "z", .want = A } } },
	{ "D10 the parent's denials and the child's own add up",
	  TOOLS(USES, "  - {id: no-x, deny: [x]}\n"),
	  { { ASK, .tool = "x", .want = D, .code = REASON_RULE },
	    { OPEN, .child = true },
	    { RELOAD, .policy = TOOLS(USES ", v: {}", "  - {id: no-v, deny: [v]}\n") },
	    { ASK, .tool = "z", TRANS("no-x") },
	    { ASK, .tool = "v", .want = D, .code = REASON_RULE },
	    { USE, .at = 1 },
	    { RELOAD, .policy = TOOLS(USES, "") },
	    { ASK, .tool = "v", .want = A },
	    { ASK, .tool = "z", TRANS("no-x") } } },
	{ "the rank: rule, sticky_denial, transitive, then loops",
	  TOOLS(USES, "  - {id: no-y, deny: [y]}\n"),
	  { { ASK, .tool = "y", .want = D, .code = REASON_RULE },
	    { RELOAD, .policy = TOOLS(USES, "  - {id: no-x, deny: [x]}\n") },
	    { ASK, .tool = "y", .want = D, .code = REASON_STICKY_DENIAL, .rule = "no-y" },
	    { ASK, .tool = "z", TRANS("no-x") } } },
};

static void test_sticky(void **state)
{
	(void)state;
	run(sticky_scripts, PAWL_LEN(sticky_scripts));
}

static void test_uses(void **state)
{
	(void)state;
	run(uses_scripts, PAWL_LEN(uses_scripts));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sticky), cmocka_unit_test(test_uses) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
