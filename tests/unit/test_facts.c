/* tests/unit/test_facts.c - a request seen through a policy: which rules matched, and what it costs. */
#include "tests/support/ask_facts.h"
#include "tests/support/fail_malloc.h"

/* ---- rules ---- */

enum { NONE = -1 };
static const struct {
	const char *id, *tool, *args;
	int allow, review, deny;
	bool review_failed, deny_failed;
} hits[] = {
	{ "nothing names it", "who", "{}", NONE, NONE, NONE, false, false },
	{ "allow", "page.fetch", "{}", 0, NONE, NONE, false, false },
	{ "D02 case", "Page.FETCH", "{}", 0, NONE, NONE, false, false },
	{ "D01 alias of an allowed tool", "fetch", "{}", 0, NONE, NONE, false, false },
	{ "when holds", "pay", "{\"amount\":5}", 1, NONE, NONE, false, false },
	{ "when does not hold, unless does not save", "pay", "{\"amount\":50}", NONE, 2, NONE, false, false },
	{ "missing attribute: no allow, and review", "pay", "{}", NONE, 2, NONE, true, false },
	{ "D18 text where a number is due", "pay", "{\"amount\":\"5\"}", NONE, 2, NONE, true, false },
	{ "deny by when", "shell", "{\"command\":\"rm -rf\"}", 3, NONE, 4, false, false },
	{ "D01 deny through an alias", "bash", "{\"command\":\"rm\"}", 3, NONE, 4, false, false },
	{ "deny by failure", "shell", "{\"command\":7}", 3, NONE, 4, false, true },
	{ "deny by a missing attribute", "shell", "{}", 3, NONE, 4, false, true },
	{ "not denied", "shell", "{\"command\":\"ls\"}", 3, NONE, NONE, false, false },
	{ "a later true match beats an earlier failure", "db", "{\"b\":1}", NONE, NONE, 6, false, false },
	{ "the earlier of two true ones", "db", "{\"a\":1,\"b\":1}", NONE, NONE, 5, false, false },
	{ "the earlier of two failures", "db", "{}", NONE, NONE, 5, false, true },
	{ "a definite no beside a failure", "db", "{\"a\":2,\"b\":2}", NONE, NONE, NONE, false, false },
	{ "when fails, unless saves: no match", "mix", "{\"u\":1}", NONE, NONE, NONE, false, false },
	{ "when fails, unless does not save", "mix", "{\"u\":2}", NONE, 7, NONE, true, false },
	{ "when holds, unless fails", "mix", "{\"w\":1}", NONE, 7, NONE, true, false },
	{ "when holds, unless saves", "mix", "{\"w\":1,\"u\":1}", NONE, NONE, NONE, false, false },
	{ "when does not hold, unless fails", "mix", "{\"w\":2}", NONE, NONE, NONE, false, false },
	{ "allow, unless fails", "amix", "{}", NONE, NONE, NONE, false, false },
	{ "allow, unless does not hold", "amix", "{\"u\":2}", 8, NONE, NONE, false, false },
};

static struct pb *rules_policy(void)
{
	struct pb *b = pb_new();

	(void)pb_tool(b, "page.fetch", "fetch");
	(void)pb_tool(b, "shell", "bash|execute_command");
	(void)pb_rule(b, VERDICT_ALLOW, "page.fetch", NULL, NULL);                                           /* 0 */
	(void)pb_rule(b, VERDICT_ALLOW, "pay", pb_when(b, NULL, "args.amount", COND_BELOW, "20"), NULL);     /* 1 */
	(void)pb_rule(b, VERDICT_REVIEW, "pay", NULL, pb_when(b, NULL, "args.amount", COND_BELOW, "20"));    /* 2 */
	(void)pb_rule(b, VERDICT_ALLOW, "shell", NULL, NULL);                                                /* 3 */
	(void)pb_rule(b, VERDICT_DENY, "ba*", pb_when(b, NULL, "args.command", COND_REGEX, "^rm\\b"), NULL); /* 4 */
	(void)pb_rule(b, VERDICT_DENY, "db", pb_when(b, NULL, "args.a", COND_IS, "#1"), NULL);               /* 5 */
	(void)pb_rule(b, VERDICT_DENY, "d*", pb_when(b, NULL, "args.b", COND_IS, "#1"), NULL);               /* 6 */
	(void)pb_rule(b, VERDICT_REVIEW, "mix", pb_when(b, NULL, "args.w", COND_IS, "#1"),
		      pb_when(b, NULL, "args.u", COND_IS, "#1"));                                 /* 7 */
	(void)pb_rule(b, VERDICT_ALLOW, "amix", NULL, pb_when(b, NULL, "args.u", COND_IS, "#1")); /* 8 */
	return b;
}

static void test_hits(void **state)
{
	struct pb *b = rules_policy();
	const struct policy *pol = pb_done(b);

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(hits); i++) {
		struct facts f = facts(pol, (struct asked){ .tool = hits[i].tool, .args = hits[i].args });
		const struct rule_hit *h = f.hit;

		if (h[VERDICT_ALLOW].rule != hits[i].allow || h[VERDICT_REVIEW].rule != hits[i].review ||
		    h[VERDICT_DENY].rule != hits[i].deny || h[VERDICT_ALLOW].by_failure ||
		    h[VERDICT_REVIEW].by_failure != hits[i].review_failed ||
		    h[VERDICT_DENY].by_failure != hits[i].deny_failed || h[VERDICT_UNSET].rule != NONE)
			fail_msg("%s: allow %d, review %d%s, deny %d%s", hits[i].id, h[VERDICT_ALLOW].rule,
				 h[VERDICT_REVIEW].rule, h[VERDICT_REVIEW].by_failure ? " failed" : "",
				 h[VERDICT_DENY].rule, h[VERDICT_DENY].by_failure ? " failed" : "");
	}
	pb_free(b);
}

/* ---- what is remembered: every deny rule that truly matched and sticks ---- */

static const struct {
	const char *id, *tool, *args, *sticks;
	int deny;
} sticks[] = {
	{ "one rule", "x", "{}", "0", 0 },
	{ "a pattern beside a name; a rule that never sticks is named and not remembered", "y", "{}", "2", 1 },
	{ "through an alias", "why", "{}", "2", 1 },
	{ "all that match, not only the one that is named", "z", "{\"a\":1,\"b\":1}", "2,3,4", 2 },
	{ "a condition that does not hold", "z", "{\"a\":1,\"b\":2}", "2,3", 2 },
	{ "D12 a match by failure never sticks", "z", "{\"a\":1}", "2,3", 2 },
	{ "only failures", "w", "{}", "", 5 },
	{ "a failure is named until a true match comes", "w", "{\"c\":1}", "6", 6 },
	{ "no deny rule", "v", "{}", "", NONE },
	{ "nine of them: those that reach furthest stay", "many", "{}", "9,10,11,12,13,14,15,16", 8 },
};

static void sticky_rule(struct pb *b, const char *globs, struct condition *when, enum stick how)
{
	pb_rule(b, VERDICT_DENY, globs, when, NULL)->sticky = how;
}

static void test_sticks(void **state)
{
	struct pb *b = pb_new();
	const struct policy *pol;

	(void)state;
	(void)pb_tool(b, "y", "why");
	sticky_rule(b, "x", NULL, STICK_SESSION);                                    /* 0 */
	sticky_rule(b, "y", NULL, STICK_NEVER);                                      /* 1 */
	sticky_rule(b, "why|z*", NULL, STICK_SESSION);                               /* 2 */
	sticky_rule(b, "z", pb_when(b, NULL, "args.a", COND_IS, "#1"), STICK_TREE);  /* 3 */
	sticky_rule(b, "z", pb_when(b, NULL, "args.b", COND_IS, "#1"), STICK_AGENT); /* 4 */
	sticky_rule(b, "w", pb_when(b, NULL, "args.d", COND_IS, "#1"), STICK_AGENT); /* 5 */
	sticky_rule(b, "w", pb_when(b, NULL, "args.c", COND_IS, "#1"), STICK_AGENT); /* 6 */
	(void)pb_rule(b, VERDICT_REVIEW, "v|x", NULL, NULL);                         /* 7 */
	for (int i = 8; i < 17; i++)
		sticky_rule(b, "many", NULL, i == 8 ? STICK_SESSION : i == 16 ? STICK_AGENT : STICK_TREE);
	pol = pb_done(b);
	for (size_t i = 0; i < PAWL_LEN(sticks); i++) {
		struct facts f = facts(pol, (struct asked){ .tool = sticks[i].tool, .args = sticks[i].args });
		char is[64] = "";

		for (size_t k = 0; k < f.n_sticks; k++)
			(void)snprintf(is + strlen(is), sizeof(is) - strlen(is), "%s%d", k ? "," : "", f.sticks[k]);
		if (strcmp(is, sticks[i].sticks) != 0 || f.hit[VERDICT_DENY].rule != sticks[i].deny)
			fail_msg("%s: sticks %s, rule %d", sticks[i].id, is, f.hit[VERDICT_DENY].rule);
	}
	pb_free(b);
}

/* ---- amounts ---- */

static const struct {
	const char *id, *tool;
	enum call_kind kind;
	const char *money, *tokens;
	bool cost_known;
	const char *want;
	bool tokens_known;
	int64_t tok;
} costs[] = {
	{ "fixed, no estimate", "fixed", CALL_TOOL, NULL, NULL, true, "0.5", true, 0 },
	{ "fixed, lower estimate", "fixed", CALL_TOOL, "0.1", NULL, true, "0.5", true, 0 },
	{ "fixed, estimate 0", "fixed", CALL_TOOL, "0", NULL, true, "0.5", true, 0 },
	{ "fixed, higher estimate", "fixed", CALL_TOOL, "0.7", NULL, true, "0.7", true, 0 },
	{ "default, no estimate", "def", CALL_TOOL, NULL, NULL, true, "0.01", true, 0 },
	{ "default, estimate", "def", CALL_TOOL, "0.001", NULL, true, "0.001", true, 0 },
	{ "default, estimate 0", "def", CALL_TOOL, "0", NULL, true, "0", true, 0 },
	{ "free tool with a price of 0", "free", CALL_TOOL, NULL, NULL, true, "0", true, 0 },
	{ "B24 unlisted, no estimate: unknown, not free", "who", CALL_TOOL, NULL, NULL, false, "0", true, 0 },
	{ "unlisted, estimate", "who", CALL_TOOL, "3", NULL, true, "3", true, 0 },
	{ "llm without tokens", "who", CALL_LLM, "3", NULL, true, "3", false, 0 },
	{ "llm with tokens", "who", CALL_LLM, "3", "1200", true, "3", true, 1200 },
	{ "tool with tokens", "who", CALL_TOOL, "3", "1200", true, "3", true, 1200 },
};

static void test_costs(void **state)
{
	struct pb *b = pb_new();
	struct tool *t = pb_tool(b, "fixed", "alias-of-fixed");
	const struct policy *pol;

	(void)state;
	t->has_cost = true;
	t->cost = 500000000;
	t = pb_tool(b, "def", "");
	t->has_default_cost = true;
	t->default_cost = 10000000;
	t = pb_tool(b, "free", "");
	t->has_cost = true;
	pol = pb_done(b);
	for (size_t i = 0; i < PAWL_LEN(costs); i++) {
		struct facts f = facts(pol, (struct asked){ .tool = costs[i].tool,
							    .kind = costs[i].kind,
							    .money = costs[i].money,
							    .tokens = costs[i].tokens });

		if (f.cost_known != costs[i].cost_known || f.money != (int64_t)pb_number(costs[i].want) ||
		    f.tokens_known != costs[i].tokens_known || f.tokens != costs[i].tok)
			fail_msg("%s: %d %lld, %d %lld", costs[i].id, f.cost_known, (long long)f.money, f.tokens_known,
				 (long long)f.tokens);
	}
	/* B24: whichever name it is called by, the same price */
	assert_int_equal(facts(pol, (struct asked){ .tool = "ALIAS-of-fixed" }).money, 500000000);
	pb_free(b);
}

static void test_lease(void **state)
{
	static const struct {
		const char *tool;
		int64_t asked_s, want_s;
	} rows[] = {
		{ "who", 0, 900 },          { "who", 30, 900 },    { "who", 1000, 1000 },
		{ "short", 0, 60 },         { "short", 30, 60 },   { "short", 61, 61 },
		{ "short", 100000, 86400 }, { "long", 0, 200000 }, { "long", 300000, 200000 },
	};
	struct pb *b = pb_new();
	const struct policy *pol;

	(void)state;
	pb_tool(b, "short", "")->lease_ns = 60 * NS_PER_SEC;
	pb_tool(b, "long", "")->lease_ns = 200000 * NS_PER_SEC; /* the operator may; a caller may not */
	pol = pb_done(b);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct facts f = facts(pol, (struct asked){ .tool = rows[i].tool,
							    .limits = { .lease_ns = rows[i].asked_s * NS_PER_SEC } });

		if (f.lease_ns != rows[i].want_s * NS_PER_SEC)
			fail_msg("%s asked %lld: %lld", rows[i].tool, (long long)rows[i].asked_s,
				 (long long)(f.lease_ns / NS_PER_SEC));
	}
	pb_free(b);
}

/* ---- what is refused, and what failure leaves alone ---- */

#define L128                                                                                                           \
	"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc" \
	"cccccccccccccccccccc"

static void test_refused(void **state)
{
	static const struct {
		const char *tool, *args, *call, *field;
	} rows[] = {
		{ "web_s\xd0\xb5"
		  "arch",
		  "{}", "c", "tool" },
		{ "", "{}", "c", "tool" },
		{ "a", "[]", "c", "args" },
		{ "a", "7", "c", "args" },
		{ "a", "null", "c", "args" },
		{ "a", "{}", "", "call" },
		{ "a", "{}", L128 "c", "call" },
	};
	struct pb *b = pb_new();
	const struct policy *pol = pb_done(b);
	struct facts f, before;
	struct pawl_error err;

	(void)state;
	memset(&f, 0x5a, sizeof(f));
	before = f;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		int r = try_facts(
		    pol, &(struct asked){ .tool = rows[i].tool, .args = rows[i].args, .call = rows[i].call }, &f, &err);

		if (r != PAWL_E_MALFORMED || strcmp(err.field, rows[i].field) != 0)
			fail_msg("%s %s: %d %s", rows[i].tool, rows[i].args, r, err.field);
		assert_memory_equal(&f, &before, sizeof(f));
	}
	assert_int_equal(try_facts(pol, &(struct asked){ .tool = "a", .call = L128 }, &f, &err), 0);
	pb_free(b);
}

/* A scratch buffer that is too small: no facts when the arguments do not fit, a failed condition when only the
 * condition does not. */
static void test_small_scratch(void **state)
{
	static const char text[] = "{\"t\":[1,2,3,4,5,6,7,8]}";
	struct pb *b = pb_new();
	struct buf small = BUF_MAX(sizeof(text) - 1);
	struct request_call rq = { .call = STR("c"), .tool = STR("a") };
	struct caller who = { .session = 1, .root = 1, .agent = STR("local"), .secret = secret_a };
	struct json *args;
	struct pawl_error err;
	struct facts f;
	const struct policy *pol;

	(void)state;
	(void)pb_rule(b, VERDICT_DENY, "a", pb_when(b, NULL, "args.t", COND_BYTES_OVER, "100"), NULL);
	pol = pb_done(b);
	assert_int_equal(json_parse(str_of(text), 8, &args, &err), 0);
	rq.args = args;
	assert_int_equal(facts_of(pol, &rq, &who, NULL, &small, &f, &err), 0);
	assert_true(f.hit[VERDICT_DENY].rule == 0 && f.hit[VERDICT_DENY].by_failure);
	assert_true(str_is(f.canon_args, text));
	buf_done(&small);
	small = BUF_MAX(sizeof(text) - 2);
	assert_int_equal(facts_of(pol, &rq, &who, NULL, &small, &f, &err), PAWL_E_MALFORMED);
	assert_string_equal(err.field, "args");
	json_free(args);
	buf_done(&small);
	pb_free(b);
}

static int fixed_resolve(void *arg, struct str root, struct str path, char *out, size_t size)
{
	(void)arg;
	(void)root;
	(void)snprintf(out, size, "%s", str_is(path, "/srv") ? "/srv" : str_is(path, "w/") ? "/srv/w" : "/srv/w/a.txt");
	return str_is(path, "gone") ? PAWL_E_SYS : 0;
}

static void test_paths(void **state)
{
	struct resolver res = { fixed_resolve, NULL };
	struct pb *b = pb_new();
	struct condition *c = pb_when(b, NULL, "args.path", COND_UNDER, "w/");
	const struct policy *pol;
	struct facts f;

	(void)state;
	(void)pb_rule(b, VERDICT_ALLOW, "fs.write", c, NULL);
	(void)pb_rule(b, VERDICT_REVIEW, "fs.write", NULL, c);
	pol = pb_done(b);
	f = facts(pol, (struct asked){
			   .tool = "fs.write", .args = "{\"path\":\"w/a.txt\"}", .res = &res, .root_dir = "/srv" });
	assert_true(f.n_paths == 1 && f.paths[0].resolved && str_is(f.paths[0].subject, "args.path"));
	assert_true(f.hit[VERDICT_ALLOW].rule == 0 && f.hit[VERDICT_REVIEW].rule == -1);
	assert_true(str_is(f.canon_args, "{\"path\":\"w/a.txt\"}")); /* not the real paths behind it */
	f = facts(pol,
		  (struct asked){ .tool = "fs.write", .args = "{\"path\":\"gone\"}", .res = &res, .root_dir = "/srv" });
	assert_true(f.n_paths == 1 && !f.paths[0].resolved);
	assert_true(f.hit[VERDICT_ALLOW].rule == -1 && f.hit[VERDICT_REVIEW].rule == 1 &&
		    f.hit[VERDICT_REVIEW].by_failure);
	pb_free(b);
}

/* Rule 1,000 of 1,000, found by name; and budgets by bit. */
static void test_many_rules(void **state)
{
	struct pb *b = pb_new();
	const struct policy *pol;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		char glob[32];

		(void)snprintf(glob, sizeof(glob), i % 2 ? "tool%d.run" : "tool%d.*", i);
		(void)pb_rule(b, i % 3 ? VERDICT_ALLOW : VERDICT_DENY, glob, NULL, NULL);
	}
	pb_entry(b, "*", 0, INDEX_BUDGET, false);
	pb_entry(b, "tool998.*", 31, INDEX_BUDGET, false);
	pb_entry(b, "tool99*", 15, INDEX_BREAKER, false);
	pb_entry(b, "tool999.run", 2, INDEX_BREAKER, false);
	pol = pb_done(b);
	assert_int_equal(facts(pol, (struct asked){ .tool = "tool998.x" }).hit[VERDICT_ALLOW].rule, 998);
	assert_int_equal(facts(pol, (struct asked){ .tool = "tool999.run" }).hit[VERDICT_DENY].rule, 999);
	assert_int_equal(facts(pol, (struct asked){ .tool = "tool999.ru" }).hit[VERDICT_DENY].rule, -1);
	assert_true(facts(pol, (struct asked){ .tool = "tool998.x" }).budgets == (UINT32_C(1) << 31 | 1));
	assert_true(facts(pol, (struct asked){ .tool = "tool998.x" }).breakers == UINT32_C(1) << 15);
	assert_true(facts(pol, (struct asked){ .tool = "tool999.run" }).breakers == (UINT32_C(1) << 15 | 4));
	assert_true(facts(pol, (struct asked){ .tool = "tool999.run" }).budgets == 1);
	assert_true(facts(pol, (struct asked){ .tool = "other" }).breakers == 0);
	pb_free(b);
}

/* Each allocation fails once: no facts, or the facts there would have been, or a rule on its stricter side; never a
 * lost deny. */
static void test_no_memory(void **state)
{
	struct pb *b = rules_policy();
	const struct policy *pol = pb_done(b);
	struct request_call rq = { .call = STR("c"), .tool = STR("bash") };
	struct caller who = { .session = 1, .root = 1, .agent = STR("local"), .secret = secret_a };
	struct json *args;
	struct pawl_error err;
	bool failed = true;

	(void)state;
	assert_int_equal(json_parse(STR("{\"command\":\"rm x\"}"), 8, &args, &err), 0);
	rq.args = args;
	for (long n = 1; failed; n++) {
		struct buf own = BUF_MAX(1 << 20);
		struct facts f;
		int r;

		assert_true(n < 1000);
		fail_malloc_after(n);
		r = facts_of(pol, &rq, &who, NULL, &own, &f, &err);
		failed = fail_malloc_stop();
		assert_true(r < 0 || f.hit[VERDICT_DENY].rule == 4);
		assert_true(failed || r == 0);
		buf_done(&own);
	}
	json_free(args);
	pb_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hits),       cmocka_unit_test(test_costs),         cmocka_unit_test(test_lease),
		cmocka_unit_test(test_refused),    cmocka_unit_test(test_small_scratch), cmocka_unit_test(test_paths),
		cmocka_unit_test(test_many_rules), cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_sticks),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
