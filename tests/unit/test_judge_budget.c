/* tests/unit/test_judge_budget.c - what fits into a budget and what does not, as time, reports and reloads go by. */
#include "tests/support/judge_script.h"

#define RUN(limit) RULES("budgets: {run: {per: session, " limit "}}\n")
static const struct script budget_scripts[] = {
	{ "B01 S1 ten at once, none settled: exactly three fit",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "0.3", .times = 3, .want = A },
	    { ASK, .tool = "x", .money = "0.3", .times = 7, .want = D, .code = REASON_BUDGET, .rule = "run",
	      .says = "run has 0.1 USD left of 1 USD; this call needs 0.3" } } },
	{ "B04 S8 a day gives nothing back",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "0.5", .want = A },
	    { SETTLE, .money = "0.5" },
	    { PASS, .seconds = 86400 },
	    { ASK, .tool = "x", .money = "0.6", .want = D, .code = REASON_BUDGET } } },
	{ "B03 what nobody reports costs its estimate",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "0.7", .want = A },
	    { PASS, .seconds = 3600 },
	    { ASK, .tool = "x", .money = "0.4", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0.3 USD left of 1 USD; this call needs 0.4" },
	    { SETTLE, .money = "0.1" }, /* late: can only add */
	    { ASK, .tool = "x", .money = "0.4", .want = D, .code = REASON_BUDGET } } },
	{ "B06 zero cost, allowed unless said",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "1", .want = A },
	    { SETTLE, .money = "1" },
	    { ASK, .tool = "local", .money = "0", .want = A } } },
	{ "B06 zero_cost: deny",
	  RUN("limit: 1 USD, zero_cost: deny"),
	  { { ASK, .tool = "local", .money = "0", .want = A },
	    { ASK, .tool = "x", .money = "1", .want = A },
	    { ASK, .tool = "local", .money = "0", .want = D, .code = REASON_BUDGET } } },
	{ "B09 ten tenths are one",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "0.1", .times = 10, .want = A },
	    { SETTLE, .settle_all = true, .money = "0.1" },
	    { ASK, .tool = "x", .money = "0.000001", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0 USD left of 1 USD; this call needs 0.000001" } } },
	{ "B21 six calls, a batch of eight",
	  RUN("limit: 6 calls"),
	  { { ASK, .tool = "x", .times = 6, .want = A },
	    { ASK, .tool = "x", .times = 2, .want = D, .code = REASON_BUDGET,
	      .says = "run has 0 calls left of 6 calls; this call needs 1" } } },
	{ "B22 refused calls use nothing up",
	  RUN("limit: 2 calls"),
	  { { ASK, .tool = "x", .times = 2, .want = A },
	    { ASK, .tool = "x", .times = 2, .want = D, .code = REASON_BUDGET },
	    { RELOAD, .policy = RUN("limit: 3 calls") },
	    { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "x", .want = D, .code = REASON_BUDGET } } },
	{ "B24 no kind of call goes around the ledger",
	  RUN("limit: 1 calls"),
	  { { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "x", .kind = CALL_TOOL, .want = D, .code = REASON_BUDGET },
	    { ASK, .tool = "x", .kind = CALL_LLM, .want = D, .code = REASON_BUDGET },
	    { ASK, .tool = "x", .kind = CALL_DELEGATE, .want = D, .code = REASON_BUDGET },
	    { ASK, .tool = "x", .kind = CALL_HTTP, .want = D, .code = REASON_BUDGET },
	    { ASK, .tool = "x", .kind = CALL_CODE, .want = D, .code = REASON_BUDGET },
	    { ASK, .tool = "X", .client = 9, .want = D, .code = REASON_BUDGET } } },
	{ "B20 a fresh session buys nothing",
	  RULES("budgets: {mine: {per: agent, limit: 1 USD}, all: {per: global, limit: 5 USD}}\n"),
	  { { ASK, .tool = "x", .money = "1", .want = A },
	    { .op = OPEN },
	    { ASK, .tool = "x", .money = "0.01", .want = D, .code = REASON_BUDGET, .rule = "mine" } } },
	{ "a reload keeps what was spent, and tightens at once",
	  RUN("limit: 5 USD"),
	  { { ASK, .tool = "x", .money = "1", .want = A },
	    { RELOAD, .policy = RUN("limit: 1 USD") },
	    { ASK, .tool = "x", .money = "0.1", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0 USD left of 1 USD; this call needs 0.1" },
	    { RELOAD, .policy = RUN("limit: 2 USD") },
	    { ASK, .tool = "x", .money = "1", .want = A } } },
	{ "more charged than reserved: the rest of the budget is gone",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "0.1", .want = A },
	    { SETTLE, .money = "7" },
	    { ASK, .tool = "x", .money = "0.1", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0 USD left of 1 USD; this call needs 0.1" },
	    { ASK, .tool = "x", .money = "0", .want = A } } },
	{ "cost unknown",
	  "pawl: 1\nname: t\ntools: {priced: {default_cost: 0.5 USD}}\nrules: [{id: any, allow: ['*']}]\n"
	  "budgets: {run: {per: session, limit: 1 USD, then: review}}\n...\n",
	  { { ASK, .tool = "x", .want = D, .code = REASON_BUDGET, .rule = "run",
	      .says = "cost unknown: x draws from run; give the tool cost or default_cost in the policy, or let the "
		      "caller estimate it" },
	    { ASK, .tool = "priced", .times = 2, .want = A },
	    { ASK, .tool = "priced", .want = R, .code = REASON_BUDGET } } },
	{ "an estimate only raises a fixed cost",
	  "pawl: 1\nname: t\ntools: {fixed: {cost: 0.5 USD}}\nrules: [{id: any, allow: ['*']}]\n"
	  "budgets: {run: {per: session, limit: 1 USD}}\n...\n",
	  { { ASK, .tool = "fixed", .money = "0", .times = 2, .want = A },
	    { ASK, .tool = "fixed", .money = "0", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0 USD left of 1 USD; this call needs 0.5" },
	    { .op = OPEN },
	    { ASK, .tool = "fixed", .money = "1.1", .want = D, .code = REASON_BUDGET } } },
	{ "tokens",
	  RUN("limit: 1000 tokens"),
	  { { ASK, .tool = "x", .kind = CALL_LLM, .want = D, .code = REASON_BUDGET,
	      .says = "tokens unknown: x draws from run; let the caller estimate them" },
	    { ASK, .tool = "x", .want = A },
	    { ASK, .tool = "x", .kind = CALL_LLM, .tokens = 900, .want = A },
	    { ASK, .tool = "x", .kind = CALL_LLM, .tokens = 200, .want = D, .code = REASON_BUDGET,
	      .says = "run has 100 tokens left of 1000 tokens; this call needs 200" },
	    { ASK, .tool = "x", .kind = CALL_LLM, .tokens = INT64_C(9007199254740991), .want = D,
	      .code = REASON_BUDGET } } },
	{ "an amount that saturates does not fit",
	  RUN("limit: 9223372036 USD"),
	  { { ASK, .tool = "x", .money = "9223372036", .want = A },
	    { ASK, .tool = "x", .money = "9223372036.854775807", .want = D, .code = REASON_BUDGET } } },
	{ "floor",
	  RUN("limit: 1 USD, floor: 0.2 USD"),
	  { { ASK, .tool = "x", .money = "0.8", .want = A },
	    { ASK, .tool = "x", .money = "0.05", .want = R, .code = REASON_FLOOR, .rule = "run",
	      .says = "run would have 0.15 USD left after this call; below its floor of 0.2 USD a person is asked" },
	    { ASK, .tool = "x", .money = "0", .want = A },
	    { ASK, .tool = "x", .money = "0.3", .want = D, .code = REASON_BUDGET } } },
	{ "then: review; used up is named before a floor",
	  RULES("budgets:\n  low: {per: session, limit: 1 USD, floor: 0.9 USD}\n"
		"  few: {per: session, limit: 1 calls, then: review}\n"),
	  { { ASK, .tool = "x", .money = "0.1", .want = A },
	    { ASK, .tool = "x", .money = "0.1", .want = R, .code = REASON_BUDGET, .rule = "few" } } },
	{ "time is the session's age",
	  RUN("limit: 15m"),
	  { { ASK, .tool = "x", .want = A },
	    { PASS, .seconds = 899 },
	    { ASK, .tool = "x", .want = A },
	    { PASS, .seconds = 1 },
	    { ASK, .tool = "x", .want = D, .code = REASON_BUDGET, .rule = "run",
	      .says = "run: the session is 15m old; it may ask for 15m. Open a new session" },
	    { .op = OPEN },
	    { ASK, .tool = "x", .want = A } } },
	{ "per tool",
	  RULES("budgets: {each: {per: [session, tool], match: 'web.*', limit: 1 calls}}\n"),
	  { { ASK, .tool = "web.a", .want = A },
	    { ASK, .tool = "web.b", .want = A },
	    { ASK, .tool = "web.a", .want = D, .code = REASON_BUDGET, .rule = "each" },
	    { ASK, .tool = "other", .times = 2, .want = A } } },
	{ "the session's own limits",
	  RULES(""),
	  { { OPEN,
	      .own = { [UNIT_MONEY] = MONEY_PER_UNIT, [UNIT_CALLS] = 2, [UNIT_TOKENS] = 100, [UNIT_TIME] = 60 * SEC } },
	    { ASK, .tool = "x", .money = "2", .want = D, .code = REASON_BUDGET, .rule = "@session" },
	    { ASK, .tool = "x", .money = "0", .tokens = 101, .want = D, .code = REASON_BUDGET,
	      .rule = "@session.tokens" },
	    { ASK, .tool = "x", .money = "0", .times = 2, .want = A },
	    { ASK, .tool = "x", .money = "0", .want = D, .code = REASON_BUDGET, .rule = "@session.calls" },
	    { PASS, .seconds = 60 },
	    { ASK, .tool = "x", .money = "1.5", .want = D, .code = REASON_BUDGET, .rule = "@session" } } },
	{ "the caller's own money for a tool",
	  RUN("limit: 5 USD"),
	  { { ASK, .tool = "x", .money = "0.3", .limit_money = "0.5", .want = A },
	    { ASK, .tool = "x", .money = "0.3", .limit_money = "9", .want = D, .code = REASON_BUDGET, .rule = "@guard",
	      .ignored = true, .says = "@guard has 0.2 USD left of 0.5 USD; this call needs 0.3" },
	    { ASK, .tool = "x", .money = "0.1", .limit_money = "0.3", .want = D, .code = REASON_BUDGET,
	      .rule = "@guard" },
	    { ASK, .tool = "y", .money = "1", .want = A },
	    { ASK, .tool = "x", .money = "0", .want = A } } },
	{ "a limit of nothing",
	  RULES(""),
	  { { ASK, .tool = "x", .money = "0.000000001", .limit_money = "0", .want = D, .code = REASON_BUDGET,
	      .rule = "@guard" },
	    { ASK, .tool = "x", .money = "0", .want = A } } },
	{ "refund",
	  "pawl: 1\nname: t\ntools: {back: {refund: true}}\nrules: [{id: any, allow: ['*']}]\n"
	  "budgets: {run: {per: session, limit: 1 USD}}\n...\n",
	  { { ASK, .tool = "back", .money = "1", .want = A },
	    { SETTLE, .outcome = OUTCOME_CANCELLED },
	    { ASK, .tool = "kept", .money = "1", .want = A },
	    { SETTLE, .outcome = OUTCOME_CANCELLED },
	    { ASK, .tool = "kept", .money = "1", .want = D, .code = REASON_BUDGET } } },
};

#define DAILY       RUN("limit: 1 USD, every: day")
#define TO_MIDNIGHT 36800 /* scripts begin on 12 January 1970, 13:46:40 UTC */
static const struct script window_scripts[] = {
	{ "a window that ends gives the whole limit back, and not a second before",
	  DAILY,
	  { { ASK, .tool = "x", .money = "1", .want = A },
	    { SETTLE, .money = "1" },
	    { PASS, .seconds = TO_MIDNIGHT - 1 },
	    { ASK, .tool = "x", .money = "0.1", .want = D, .code = REASON_BUDGET },
	    { PASS, .seconds = 1 },
	    { ASK, .tool = "x", .money = "1", .want = A },
	    { ASK, .tool = "x", .money = "0.1", .want = D, .code = REASON_BUDGET } } },
	{ "what is left of a reservation returns to the window it came from",
	  "pawl: 1\nname: t\ntools: {x: {lease: 2d}}\nrules: [{id: any, allow: ['*']}]\n"
	  "budgets: {run: {per: session, limit: 1 USD, every: day}}\n...\n",
	  { { ASK, .tool = "x", .money = "0.9", .want = A },
	    { PASS, .seconds = TO_MIDNIGHT },
	    { ASK, .tool = "x", .money = "0.7", .want = A },
	    { SETTLE, .back = 1, .money = "0.1" },
	    { ASK, .tool = "x", .money = "0.4", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0.3 USD left of 1 USD; this call needs 0.4" } } },
	{ "what it cost beyond goes to the window that is open",
	  "pawl: 1\nname: t\ntools: {x: {lease: 2d}}\nrules: [{id: any, allow: ['*']}]\n"
	  "budgets: {run: {per: session, limit: 1 USD, every: day}}\n...\n",
	  { { ASK, .tool = "x", .money = "0.5", .want = A },
	    { PASS, .seconds = TO_MIDNIGHT },
	    { SETTLE, .money = "0.7" },
	    { ASK, .tool = "x", .money = "0.9", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0.8 USD left of 1 USD; this call needs 0.9" } } },
	{ "a window that is open ends when it said, whatever a reload says",
	  DAILY,
	  { { ASK, .tool = "x", .money = "1", .want = A },
	    { SETTLE, .money = "1" },
	    { RELOAD, .policy = RUN("limit: 1 USD, every: hour") },
	    { PASS, .seconds = 3600 },
	    { ASK, .tool = "x", .money = "0.1", .want = D, .code = REASON_BUDGET },
	    { PASS, .seconds = TO_MIDNIGHT - 3600 },
	    { ASK, .tool = "x", .money = "1", .want = A },
	    { PASS, .seconds = 3600 },
	    { ASK, .tool = "x", .money = "1", .want = A } } },
	{ "a longer window takes over what is spent in the open one",
	  RUN("limit: 1 USD, every: hour"),
	  { { ASK, .tool = "x", .money = "0.5", .want = A },
	    { RELOAD, .policy = DAILY },
	    { ASK, .tool = "x", .money = "0.4", .want = A },
	    { ASK, .tool = "x", .money = "0.2", .want = D, .code = REASON_BUDGET } } },
	{ "a grant is for the window that it was given in",
	  "pawl: 1\nname: t\nrules: [{id: any, allow: ['*']}]\n"
	  "budgets: {run: {per: session, limit: 1 USD, every: day, then: review, grant_max: 1 USD}}\n...\n",
	  { { ASK, .tool = "x", .money = "1", .want = A },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .money = "0.5", .want = R, .code = REASON_BUDGET },
	    { ANSWER, .action = RESOLVE_RESUME },
	    { ASK, .tool = "x", .args = "{\"n\":1}", .money = "0.5", .want = A, .spends = 1 },
	    { PASS, .seconds = TO_MIDNIGHT },
	    { ASK, .tool = "x", .money = "1.1", .want = R, .code = REASON_BUDGET,
	      .says = "run has 1 USD left of 1 USD; this call needs 1.1" } } },
};

/* What a reload says of a tool is for the calls that are allowed after it. */
#define TOOLS(tools) "pawl: 1\nname: t\n" tools "rules: [{id: any, allow: ['*']}]\nbudgets: {run: {per: session, limit: 9 USD}}\n...\n"
#define LEFT(left) { ASK, .tool = "y", .money = "9.5", .want = D, .code = REASON_BUDGET, .says = "run has " left " USD left of 9 USD; this call needs 9.5" }
static const struct script price_scripts[] = {
	{ "a fixed cost that a reload lowered",
	  TOOLS("tools: {x: {cost: 2 USD}}\n"),
	  { { ASK, .tool = "x", .want = A }, { RELOAD, .policy = TOOLS("tools: {x: {cost: 1 USD}}\n") }, { SETTLE, .money = "0.5" }, LEFT("7") } },
	{ "that it took away",
	  TOOLS("tools: {x: {cost: 2 USD}}\n"),
	  { { ASK, .tool = "x", .want = A }, { RELOAD, .policy = TOOLS("") }, { SETTLE, .money = "0.5" }, LEFT("7") } },
	{ "that it raised",
	  TOOLS("tools: {x: {cost: 2 USD}}\n"),
	  { { ASK, .tool = "x", .want = A }, { RELOAD, .policy = TOOLS("tools: {x: {cost: 3 USD}}\n") }, { SETTLE, .money = "0" }, LEFT("7") } },
	{ "that it set",
	  TOOLS(""),
	  { { ASK, .tool = "x", .money = "2", .want = A }, { RELOAD, .policy = TOOLS("tools: {x: {cost: 3 USD}}\n") }, { SETTLE, .money = "1" }, LEFT("8") } },
	{ "that was nothing",
	  TOOLS("tools: {x: {cost: 0 USD}}\n"),
	  { { ASK, .tool = "x", .want = A }, { RELOAD, .policy = TOOLS("tools: {x: {cost: 3 USD}}\n") }, { SETTLE, .money = "0.5" }, LEFT("8.5") } },
	{ "below the estimate: the cost, not the estimate",
	  TOOLS("tools: {x: {cost: 2 USD}}\n"),
	  { { ASK, .tool = "x", .money = "4", .want = A }, { RELOAD, .policy = TOOLS("") }, { SETTLE, .money = "0.5" }, LEFT("7") } },
	{ "reported when its lease was over: charged in full already",
	  TOOLS("tools: {x: {cost: 2 USD}}\n"),
	  { { ASK, .tool = "x", .want = A }, { RELOAD, .policy = TOOLS("") }, { .op = EXPIRE }, { SETTLE, .money = "0.5" }, LEFT("7") } },
	{ "what a reload refunds it did not refund then",
	  TOOLS(""),
	  { { ASK, .tool = "x", .money = "2", .want = A },
	    { RELOAD, .policy = TOOLS("tools: {x: {refund: true}}\n") },
	    { SETTLE, .outcome = OUTCOME_CANCELLED },
	    LEFT("7") } },
	{ "and the other way round",
	  TOOLS("tools: {x: {refund: true}}\n"),
	  { { ASK, .tool = "x", .money = "2", .want = A }, { RELOAD, .policy = TOOLS("") }, { SETTLE, .outcome = OUTCOME_CANCELLED }, LEFT("9") } },
};

static const struct script tree_scripts[] = {
	{ "B20 a child draws from every ledger above it",
	  RUN("limit: 1 USD"),
	  { { ASK, .tool = "x", .money = "0.4", .want = A },
	    { OPEN, .child = true },
	    { ASK, .tool = "x", .money = "0.4", .want = A },
	    { OPEN, .child = true },
	    { ASK, .tool = "x", .money = "0.3", .want = D, .code = REASON_BUDGET },
	    { USE, .at = 1 },
	    { ASK, .tool = "x", .money = "0.3", .want = D, .code = REASON_BUDGET,
	      .says = "run has 0.2 USD left of 1 USD; this call needs 0.3" } } },
	{ "the child's own limit is the tightest",
	  RUN("limit: 1 USD"),
	  { { OPEN, .child = true, .own = { [UNIT_MONEY] = MONEY_PER_UNIT / 4 } },
	    { ASK, .tool = "x", .money = "0.3", .want = D, .code = REASON_BUDGET, .rule = "@session" },
	    { ASK, .tool = "x", .money = "0.25", .want = A },
	    { .op = CLOSE }, /* gives nothing back but what was not spent */
	    { USE, .at = 1 },
	    { ASK, .tool = "x", .money = "0.8", .want = D, .code = REASON_BUDGET },
	    { ASK, .tool = "x", .money = "0.75", .want = A } } },
};

static void test_budgets(void **state)
{
	(void)state;
	run(budget_scripts, PAWL_LEN(budget_scripts));
}

static void test_windows(void **state)
{
	(void)state;
	run(window_scripts, PAWL_LEN(window_scripts));
}

static void test_prices(void **state)
{
	(void)state;
	run(price_scripts, PAWL_LEN(price_scripts));
}

static void test_trees(void **state)
{
	(void)state;
	run(tree_scripts, PAWL_LEN(tree_scripts));
}

/* "25%" of what the tightest ledger has left for any call; budgets of some tools only are none of them. */
static void test_share(void **state)
{
	static const struct {
		const char *name, *policy;
		int percent;
		int64_t own, want; /* nano-units */
	} rows[] = {
		{ "of the session budget, less what is reserved", RUN("limit: 1 USD"), 25, 0, 175000000 },
		{ "of the agent's",
		  RULES("budgets: {a: {per: agent, limit: 0.5 USD}, b: {per: session, limit: 9 USD}}\n"), 50, 0,
		  100000000 },
		{ "of its own limit", RUN("limit: 9 USD"), 100, 400000000, 100000000 },
		{ "rounded down", RULES("budgets: {a: {per: global, limit: 0.300000003 USD}}\n"), 50, 0, 1 },
		{ "nothing is left", RULES("budgets: {a: {per: tenant, limit: 0.3 USD}}\n"), 99, 0, 0 },
		{ "some tools only", RULES("budgets: {a: {per: session, match: [x], limit: 1 USD}}\n"), 25, 0, -1 },
		{ "each tool's", RULES("budgets: {a: {per: [session, tool], limit: 1 USD}}\n"), 25, 0, -1 },
		{ "no money at all", RULES("budgets: {a: {per: session, limit: 9 calls}}\n"), 25, 0, -1 },
		{ "no share", RUN("limit: 1 USD"), 101, 0, -1 },
	};
	static const struct step spend = { ASK, .tool = "x", .money = "0.3", .want = A };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct script s = { rows[i].name, rows[i].policy, { { OPEN, .own = { [UNIT_MONEY] = rows[i].own } } } };
		struct world w = world_new(&s);
		int64_t got;

		do_step(&w, &s.steps[0]);
		ask(&w, &spend, 0);
		open_session(&w, &(struct step){ .child = true });
		got = share_of_rest(w.pol, w.a, here(&w), w.now, rows[i].percent);
		if (got != rows[i].want)
			fail_msg("%s: %lld", rows[i].name, (long long)got);
		assert_int_equal(share_of_rest(w.pol, w.a, NULL, w.now, 25), -1);
		world_done(&w);
	}
}

/* B09: what a refusal is decided on is exactly the limit. */
static void test_b09_numbers(void **state)
{
	static const struct script s = { "B09", RUN("limit: 1 USD"), { { .op = END } } };
	static const struct step tenth = { ASK, .tool = "x", .money = "0.1", .want = A };
	struct world w = world_new(&s);
	struct ledger_state l;
	char t[MONEY_TEXT];

	(void)state;
	for (int i = 0; i < 10; i++) {
		ask(&w, &tenth, i);
		settle_one(&w, &tenth, allowed_back(&w, 0));
	}
	l = state_ledger(
	    w.a, &(struct ledger_key){ .budget = STR("run"), .scope = SCOPE_SESSION, .session = w.session }, w.now);
	(void)money_text(l.spent, t);
	assert_string_equal(t, "1");
	assert_int_equal(l.reserved, 0);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budgets), cmocka_unit_test(test_windows),     cmocka_unit_test(test_trees),
		cmocka_unit_test(test_share),   cmocka_unit_test(test_b09_numbers), cmocka_unit_test(test_prices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
