/* A policy is replaced: which ledgers move, which start at a scope's life, what is told. P2: nothing spent comes back. */
#include "tests/support/fail_malloc.h"
#include "tests/support/state_feed.h"

#include "pawl/reload.h"
#include "policy/report.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD "pawl: 1\nname: t\ndefault: deny\nrules:\n  - {id: all, allow: [\"*\"]}\n"

static struct policy *load_yaml(const char *body)
{
	struct policy_report rep;
	struct policy *pol = NULL;
	struct pawl_error err;
	char text[2048];

	(void)snprintf(text, sizeof(text), "%s%s...\n", body[0] == 'p' ? "" : HEAD, body);
	if (policy_load(str_of(text), "t.yaml", &pol, &rep, &err) != 0)
		fail_msg("%s:%u: %s", body, err.line, err.msg);
	policy_report_done(&rep);
	return pol;
}

/* As the spine does it; *ret_diff may be NULL. */
static void reload(struct feed *f, const struct policy *old, const struct policy *pol, struct reload *diff)
{
	struct entry e = at(f, ENTRY_POLICY);

	policy_diff(old, f->st, pol, diff);
	e.policy = (struct entry_policy){ .loaded = true, .budgets = diff->budgets };
	put(f, &e);
}

static void restart(struct feed *f, const struct policy *pol, struct reload *diff)
{
	struct entry e = at(f, ENTRY_START);

	policy_diff(NULL, f->st, pol, diff);
	e.start.budgets = diff->budgets;
	put(f, &e);
}

static bool told(const struct reload *r, const char *text)
{
	for (size_t i = 0; i < r->budgets.n_changes; i++)
		if (str_is(r->changes[i], text))
			return true;
	return false;
}

/* One call of tool t with an estimate, as the judge would have it drawn from `budget` of this session. NULL: no budget. */
static uint64_t spend(struct feed *f, uint64_t session, const char *budget, uint64_t n, int64_t money, int64_t window_end)
{
	struct draw d = draw_of(session, budget ? budget : "x", UNIT_MONEY, money);
	struct entry e = decision(f, session, n, n, VERDICT_ALLOW, &d, budget != NULL);

	d.window_end = window_end;
	e.decision.cost_known = true;
	e.decision.money = money;
	put(f, &e);
	return e.seq;
}

static void report(struct feed *f, uint64_t session, uint64_t dec, int64_t money)
{
	struct draw held;
	struct charge c;
	struct entry e = at(f, ENTRY_SETTLE);
	size_t n = state_holds(f->st, dec, &held, 1);

	if (n) {
		held.window_end = state_ledger(f->st, &held.key, f->now).window_end; /* the one open now, as settle_charges() says it */
		c = (struct charge){ .draw = held, .reserved = held.amount, .charged = money };
	}
	e.settle = (struct entry_settle){ .session = session, .decision = dec, .outcome = OUTCOME_OK, .charges = &c, .n_charges = n, .duration_ns = -1,
					  .has_money = true, .money = money, .charged_money = money };
	id16(e.settle.same, dec);
	put(f, &e);
}

static struct ledger_state ledger(const struct feed *f, uint64_t session, const char *budget)
{
	struct ledger_key key = { .budget = str_of(budget), .scope = session ? SCOPE_SESSION : SCOPE_GLOBAL, .session = session };

	return state_ledger(f->st, &key, f->now);
}

/* ---- what becomes of 3 spent and 1 reserved ---- */

#define A "budgets:\n  a: {per: session, limit: 5 USD}\n"
static const struct {
	const char *name, *before, *after;
	bool restart;
	int64_t spent, reserved; /* of `b`, or of the budget named */
	const char *of, *says;
} moves[] = {
	{ "rename", A, "budgets:\n  b: {per: session, limit: 5 USD}\n", false, 3, 1, "b", "changed: budget a is now b; its spend moves" },
	{ "rename while pawld was down", A, "budgets:\n  b: {per: session, limit: 5 USD}\n", true, 3, 1, "b",
	  "changed: budget a is now b; its spend moves" },
	{ "renamed and raised", A, "budgets:\n  b: {per: session, limit: 6 USD}\n", false, 3, 1, "b", "loosened: budget b limit 5 -> 6" },
	{ "renamed and raised while down", A, "budgets:\n  b: {per: session, limit: 6 USD}\n", true, 3, 1, "b", "loosened: budget b limit 5 -> 6" },
	{ "match in another order and twice is the same match", "budgets:\n  a: {per: session, limit: 5 USD, match: [t, \"u*\"]}\n",
	  "budgets:\n  b: {per: session, limit: 5 USD, match: [\"u*\", t, t]}\n", false, 3, 1, "b", "changed: budget a is now b; its spend moves" },
	{ "another match is no rename, but starts at life", A, "budgets:\n  b: {per: session, limit: 5 USD, match: t}\n", false, 4, 0, "b",
	  "tightened: budget b is new, starts at what was spent" },
	{ "another unit is no rename", A, "budgets:\n  b: {per: session, limit: 5 calls}\n", false, 0, 0, "b", "loosened: budget a is gone" },
	{ "another scope is no rename", A, "budgets:\n  b: {per: agent, limit: 5 USD}\n", false, 0, 0, "b", "loosened: budget a is gone" },
	{ "a second budget starts at life", A, A "  b: {per: session, limit: 9 USD}\n", false, 4, 0, "b",
	  "tightened: budget b is new, starts at what was spent" },
	{ "and the first goes on", A, A "  b: {per: session, limit: 9 USD}\n", false, 3, 1, "a",
	  "tightened: budget b is new, starts at what was spent" },
	{ "with a window it starts at 0", A, A "  b: {per: session, limit: 9 USD, every: day}\n", false, 0, 0, "b", "tightened: budget b is new" },
	{ "the window goes: life counts", "budgets:\n  a: {per: session, limit: 5 USD, every: day}\n", A, false, 3, 1, "a",
	  "tightened: budget a has no window any more" },
	{ "raised", A, "budgets:\n  a: {per: session, limit: 50 USD}\n", false, 3, 1, "a", "loosened: budget a limit 5 -> 50" },
	{ "lowered", A, "budgets:\n  a: {per: session, limit: 1 USD}\n", false, 3, 1, "a", "tightened: budget a limit 5 -> 1" },
	{ "where there was none", "", "budgets:\n  b: {per: session, limit: 5 USD}\n", false, 4, 0, "b",
	  "tightened: budget b is new, starts at what was spent" },
};

static void test_moves(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(moves); i++) {
		struct feed f = feed_new();
		struct policy *old = load_yaml(moves[i].before), *pol = load_yaml(moves[i].after);
		struct state *copy = NULL;
		struct reload diff;
		uint64_t s, open;
		const char *budget = old->n_budgets ? "a" : NULL;
		int64_t end = old->n_budgets && old->budgets[0].every.kind ? window_end(&old->budgets[0].every, f.now) : 0;

		restart(&f, old, &diff);
		s = open_session(&f);
		report(&f, s, spend(&f, s, budget, 1, 2 * USD, end), 3 * USD);
		open = spend(&f, s, budget, 2, USD, end);
		if (moves[i].restart)
			restart(&f, pol, &diff);
		else
			reload(&f, old, pol, &diff);
		if (state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_MONEY) != 4 * USD)
			fail_msg("%s: life", moves[i].name);
		if (ledger(&f, s, moves[i].of).spent != moves[i].spent * USD || ledger(&f, s, moves[i].of).reserved != moves[i].reserved * USD)
			fail_msg("%s: %lld + %lld", moves[i].name, (long long)ledger(&f, s, moves[i].of).spent, (long long)ledger(&f, s, moves[i].of).reserved);
		if (!told(&diff, moves[i].says))
			fail_msg("%s: \"%s\" is not told, but \"%.*s\"", moves[i].name, moves[i].says, STR_ARG(diff.changes[0]));
		/* the open call's hold has moved with its ledger, and settles there */
		assert_int_equal(state_clone(f.st, &copy, NULL), 0);
		assert_same_state(f.st, copy);
		report(&f, s, open, USD / 2);
		assert_int_equal(ledger(&f, s, moves[i].of).reserved, 0);
		assert_int_equal(ledger(&f, s, moves[i].of).spent, moves[i].spent * USD + (moves[i].reserved ? USD / 2 : 0));
		assert_int_equal(state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_MONEY), 3 * USD + USD / 2);
		state_free(copy);
		state_free(f.st);
		policy_free(old);
		policy_free(pol);
	}
}

/* Names that came and went leave ledgers behind; a rename back meets one of them. */
static void test_rename_over_a_ledger_left_behind(void **state)
{
	static const char *const files[] = { A, "budgets:\n  a: {per: session, limit: 7 USD, match: t}\n  z: {per: session, limit: 5 USD}\n",
					     "budgets:\n  z: {per: session, limit: 5 USD}\n", A };
	struct feed f = feed_new();
	struct policy *pol[PAWL_LEN(files)];
	struct reload diff;
	uint64_t s;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(files); i++)
		pol[i] = load_yaml(files[i]);
	restart(&f, pol[0], &diff);
	s = open_session(&f);
	report(&f, s, spend(&f, s, "a", 1, USD, 0), USD);
	reload(&f, pol[0], pol[1], &diff); /* a is another one now; z is new */
	assert_int_equal(ledger(&f, s, "z").spent, USD);
	report(&f, s, spend(&f, s, "z", 2, USD, 0), USD);
	reload(&f, pol[1], pol[2], &diff);
	assert_true(told(&diff, "loosened: budget a is gone"));
	reload(&f, pol[2], pol[3], &diff); /* z is called a, and takes its own 2 along */
	assert_true(told(&diff, "changed: budget z is now a; its spend moves"));
	assert_int_equal(ledger(&f, s, "a").spent, 2 * USD);
	assert_int_equal(ledger(&f, s, "z").spent, USD);
	spend(&f, s, "a", 3, USD, 0);
	assert_int_equal(ledger(&f, s, "a").reserved, USD);
	state_free(f.st);
	for (size_t i = 0; i < PAWL_LEN(files); i++)
		policy_free(pol[i]);
}

/* Earlier windows are part of the life; what is open now stays reserved and is not counted twice. */
static void test_window_goes(void **state)
{
	struct policy *old = load_yaml("budgets:\n  a: {per: session, limit: 5 USD, every: day}\n"), *pol = load_yaml(A);
	struct feed f = feed_new();
	struct reload diff;
	uint64_t s, open;

	(void)state;
	restart(&f, old, &diff);
	s = open_session(&f);
	report(&f, s, spend(&f, s, "a", 1, 2 * USD, window_end(&old->budgets[0].every, f.now)), 2 * USD);
	f.now += 86400 * SEC;
	open = spend(&f, s, "a", 2, USD, window_end(&old->budgets[0].every, f.now));
	reload(&f, old, pol, &diff);
	assert_int_equal(ledger(&f, s, "a").spent, 2 * USD);
	assert_int_equal(ledger(&f, s, "a").reserved, USD);
	assert_int_equal(ledger(&f, s, "a").window_end, 0);
	report(&f, s, open, USD / 2);
	assert_int_equal(ledger(&f, s, "a").spent, 2 * USD + USD / 2);
	state_free(f.st);
	policy_free(old);
	policy_free(pol);
}

/* Two equal budgets renamed at once go in the order of the files; rows per tool, left behind under the same id, stay where they are. */
static void test_two_renames(void **state)
{
	struct policy *zero = load_yaml("budgets:\n  a: {per: [session, tool], limit: 5 USD}\n"),
		      *old = load_yaml(A "  c: {per: session, limit: 5 USD}\n"),
		      *pol = load_yaml("budgets:\n  x: {per: session, limit: 5 USD}\n  y: {per: session, limit: 5 USD}\n");
	struct feed f = feed_new();
	struct draw d;
	struct reload diff;
	struct entry e;
	uint64_t s;

	(void)state;
	restart(&f, zero, &diff);
	s = open_session(&f);
	d = draw_of(s, "a", UNIT_MONEY, USD);
	d.key.tool = STR("t");
	e = decision(&f, s, 1, 1, VERDICT_ALLOW, &d, 1);
	put(&f, &e);
	reload(&f, zero, old, &diff);
	spend(&f, s, "a", 2, USD, 0);
	spend(&f, s, "c", 3, 2 * USD, 0);
	reload(&f, old, pol, &diff);
	assert_int_equal(ledger(&f, s, "x").reserved, USD);
	assert_int_equal(ledger(&f, s, "y").reserved, 2 * USD);
	assert_int_equal(state_ledger(f.st, &d.key, f.now).reserved, USD);
	state_free(f.st);
	policy_free(zero);
	policy_free(old);
	policy_free(pol);
}

/* ---- the life total of a call that draws from no budget: its estimate, until a report says less ---- */

static void test_life(void **state)
{
	static const struct {
		bool late, reported;
		int64_t charged, want;
	} rows[] = {
		{ false, true, USD, USD },	   { false, true, 3 * USD, 3 * USD }, { false, false, 0, 2 * USD },
		{ true, true, USD, 2 * USD }, { true, true, 3 * USD, 3 * USD },	      { true, false, 0, 2 * USD },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct feed f = feed_new();
		uint64_t s = open_session(&f), dec = spend(&f, s, NULL, 1, 2 * USD, 0);
		struct entry_settle r = { .session = s, .decision = dec, .outcome = OUTCOME_OK, .duration_ns = -1, .has_money = rows[i].reported,
					  .money = rows[i].charged, .charged_money = rows[i].charged };
		struct entry e;

		assert_int_equal(state_life(f.st, SCOPE_AGENT, 0, STR("local"), UNIT_MONEY), 2 * USD);
		if (rows[i].late) {
			f.now += 901 * SEC;
			e = expiry(&f, s, dec);
			put(&f, &e);
		}
		e = at(&f, rows[i].late ? ENTRY_LOSS : ENTRY_SETTLE);
		if (rows[i].late)
			e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = s, .decision = dec, .late = r };
		else
			e.settle = r;
		put(&f, &e);
		assert_int_equal(state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_MONEY), rows[i].want);
		assert_int_equal(state_life(f.st, SCOPE_AGENT, 0, STR("local"), UNIT_MONEY), rows[i].want);
		assert_int_equal(state_life(f.st, SCOPE_GLOBAL, 0, STR_NONE, UNIT_MONEY), rows[i].want);
		assert_int_equal(state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_CALLS), 1);
		assert_int_equal(state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_TIME), 0);
		state_free(f.st);
	}
}

/* Estimates beyond all money, as shadow mode lets through: reported as nothing, they leave what was there. */
static void test_life_does_not_wrap(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), huge[3];

	(void)state;
	report(&f, s, spend(&f, s, NULL, 1, 5 * USD, 0), 5 * USD);
	for (size_t i = 0; i < 3; i++)
		huge[i] = spend(&f, s, NULL, 2 + i, INT64_MAX - 1, 0);
	assert_int_equal(state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_MONEY), INT64_MAX);
	for (size_t i = 0; i < 3; i++)
		report(&f, s, huge[i], 0);
	assert_int_equal(state_life(f.st, SCOPE_SESSION, s, STR_NONE, UNIT_MONEY), 5 * USD);
	assert_int_equal(state_life(f.st, SCOPE_GLOBAL, 0, STR_NONE, UNIT_MONEY), 5 * USD);
	state_free(f.st);
}

/* ---- mode ---- */

static void test_mode(void **state)
{
	static const char *const shadow = "loosened: mode enforce -> shadow: nothing is refused any more",
				*const enforce = "tightened: mode shadow -> enforce: what shadow mode remembered is cleared";
	struct policy *e = load_yaml(A), *s = load_yaml("mode: shadow\n" A);
	struct reload diff;

	(void)state;
	for (int how = 0; how < 2; how++) {
		struct feed f = feed_new();
		struct entry first = at(&f, ENTRY_START);

		policy_diff(NULL, f.st, e, &diff);
		first.start.budgets = diff.budgets;
		first.start.mode = policy_mode_word(e->mode);
		put(&f, &first);
		policy_diff(how ? NULL : e, f.st, s, &diff); /* NULL: pawld was down */
		assert_int_equal(diff.loosened, 1);
		assert_int_equal(diff.budgets.n_changes, 1);
		assert_true(told(&diff, shadow) && change_loosens(diff.changes[0]));
		first = at(&f, ENTRY_POLICY);
		first.policy = (struct entry_policy){ .loaded = true, .mode = policy_mode_word(s->mode), .budgets = diff.budgets };
		put(&f, &first);
		policy_diff(how ? NULL : s, f.st, s, &diff);
		assert_int_equal(diff.budgets.n_changes, 0);
		policy_diff(how ? NULL : s, f.st, e, &diff);
		assert_int_equal(diff.tightened, 1);
		assert_true(told(&diff, enforce));
		state_free(f.st);
	}
	policy_free(e);
	policy_free(s);
}

/* Every scope instance moves or starts, children count above them, and a session that never spent has no ledger. */
static void test_all_scopes(void **state)
{
	struct policy *none = load_yaml(""), *all = load_yaml("budgets:\n  s: {per: session, limit: 9 USD}\n  g: {per: agent, limit: 9 USD}\n"
							       "  t: {per: tenant, limit: 9 USD}\n  w: {per: global, limit: 9 USD}\n"
							       "  c: {per: agent, limit: 9 calls}\n  y: {per: [session, tool], limit: 9 USD}\n");
	struct feed f = feed_new();
	struct draw guard = { .key = { .budget = STR("@guard"), .scope = SCOPE_SESSION, .unit = UNIT_MONEY, .tool = STR("t") }, .amount = USD };
	struct reload diff;
	uint64_t root, child, other;
	struct entry e;

	(void)state;
	restart(&f, none, &diff);
	root = open_session(&f);
	child = open_child(&f, root);
	other = open_session(&f);
	report(&f, child, spend(&f, child, NULL, 1, 2 * USD, 0), USD);
	guard.key.session = root;
	e = decision(&f, root, 2, 2, VERDICT_ALLOW, &guard, 1);
	e.decision.cost_known = true;
	e.decision.money = USD;
	put(&f, &e);
	reload(&f, none, all, &diff);
	assert_int_equal(ledger(&f, child, "s").spent, USD);
	assert_int_equal(ledger(&f, root, "s").spent, 2 * USD);
	assert_int_equal(find_ledger(f.st, &(struct ledger_key){ .budget = STR("s"), .scope = SCOPE_SESSION, .session = other }), 0);
	assert_int_equal(ledger(&f, 0, "w").spent, 2 * USD);
	assert_int_equal(state_ledger(f.st, &(struct ledger_key){ .budget = STR("g"), .scope = SCOPE_AGENT, .owner = STR("local") }, f.now).spent, 2 * USD);
	assert_int_equal(state_ledger(f.st, &(struct ledger_key){ .budget = STR("t"), .scope = SCOPE_TENANT, .owner = STR("local") }, f.now).spent,
			 2 * USD);
	assert_int_equal(state_ledger(f.st, &(struct ledger_key){ .budget = STR("c"), .scope = SCOPE_AGENT, .unit = UNIT_CALLS, .owner = STR("local") },
				      f.now).spent, 2);
	assert_int_equal(state_ledger(f.st, &(struct ledger_key){ .budget = STR("y"), .scope = SCOPE_SESSION, .session = root, .tool = STR("t") },
				      f.now).spent, USD);
	state_free(f.st);
	policy_free(none);
	policy_free(all);
}

/* ---- what is told of the rest ---- */

#define PLAIN "pawl: 1\nname: t\ndefault: deny\n"
static const struct {
	const char *before, *after, *says;
} texts[] = {
	{ PLAIN, "pawl: 1\nname: t\ndefault: allow\n", "loosened: default deny -> allow" },
	{ "pawl: 1\nname: t\ndefault: review\n", PLAIN, "tightened: default review -> deny" },
	{ PLAIN "rules:\n  - {id: r, deny: [t]}\n", PLAIN, "loosened: rule r (deny) is gone" },
	{ PLAIN "rules:\n  - {id: r, allow: [t]}\n", PLAIN, "tightened: rule r (allow) is gone" },
	{ PLAIN "rules:\n  - {id: r, deny: [t]}\n", PLAIN "rules:\n  - {id: r, review: [t]}\n", "loosened: rule r deny -> review" },
	{ PLAIN "rules:\n  - {id: r, deny: [t]}\n", PLAIN "rules:\n  - {id: r, deny: [u]}\n", "changed: rule r (deny)" },
	{ PLAIN, PLAIN "rules:\n  - {id: r, allow: [t]}\n", "loosened: rule r (allow) is new" },
	{ PLAIN "budgets:\n  a: {per: session, limit: 5 USD, floor: 2 USD}\n", PLAIN "budgets:\n  a: {per: session, limit: 5 USD, floor: 1 USD}\n",
	  "loosened: budget a floor 2 -> 1" },
	{ PLAIN "budgets:\n  a: {per: session, limit: 5 USD}\n", PLAIN "budgets:\n  a: {per: session, limit: 5 USD, then: review}\n",
	  "loosened: budget a deny -> review" },
	{ PLAIN "budgets:\n  a: {per: session, limit: 5 USD, zero_cost: deny}\n", PLAIN "budgets:\n  b: {per: session, limit: 5 USD}\n",
	  "loosened: budget b zero_cost: allow" },
	{ PLAIN "loops:\n  repeat: {limit: 3}\n", PLAIN "loops:\n  repeat: {limit: 4}\n", "loosened: loops.repeat limit 3 -> 4" },
	{ PLAIN "loops:\n  cycle: {limit: 3}\n", PLAIN, "loosened: loops.cycle is off" },
	{ PLAIN "breakers:\n  w: {match: t, open: {failures: 3, within: 1m}}\n", PLAIN "breakers:\n  w: {match: t, open: {failures: 5, within: 1m}}\n",
	  "loosened: breaker w failures 3 -> 5" },
	{ PLAIN "breakers:\n  w: {match: t, open: {failures: 3, within: 1m}}\n", PLAIN "breakers:\n  w: {match: u, open: {failures: 3, within: 1m}}\n",
	  "changed: breaker w: other per or match" },
	{ PLAIN "breakers:\n  w: {match: t, open: {failures: 3, within: 1m}}\n", PLAIN, "loosened: breaker w is gone" },
	{ PLAIN "sessions: {calls: 10}\n", PLAIN "sessions: {calls: 20}\n", "loosened: sessions.calls  10 -> 20" },
	{ PLAIN "sessions: {new: 5 per day}\n", PLAIN, "loosened: sessions.new 5 -> 0" },
	{ PLAIN "tools:\n  t: {cost: 2 USD}\n", PLAIN "tools:\n  t: {cost: 1 USD}\n", "changed: tool t" },
	{ PLAIN, PLAIN "log: {record_args: redacted}\n", "loosened: log.record_args digest -> redacted" },
	{ PLAIN "log: {record_args: full}\n", PLAIN "log: {record_args: redacted}\n", "tightened: log.record_args full -> redacted" },
	{ PLAIN "log: {redact: [args.a, \"*.b\"]}\n", PLAIN "log: {redact: [\"*.b\"]}\n", "loosened: log.redact has no more args \"a\"" },
	{ PLAIN "log: {redact: [args.b]}\n", PLAIN "log: {redact: [args.b, \"*.b\"]}\n", "tightened: log.redact has anywhere \"b\"" },
	{ PLAIN "watch: {processes: 5}\n", PLAIN, "loosened: watch is off" },
	{ PLAIN, PLAIN "watch: {processes: 5}\n", "tightened: watch is on" },
	{ PLAIN "watch: {exec: required}\n", PLAIN "watch: {exec: log}\n", "loosened: watch.exec required -> log" },
	{ PLAIN "watch: {processes: 5}\n", PLAIN "watch: {processes: 6}\n", "loosened: watch.processes 5 -> 6" },
	{ PLAIN "watch: {exec: log}\n", PLAIN "watch: {processes: 6}\n", "tightened: watch.processes no limit -> 6" },
	{ PLAIN "watch: {fork_rate: 5/s}\n", PLAIN "watch: {exec_rate: 5/s}\n", "loosened: watch.fork_rate 5/s -> no limit" },
	{ PLAIN "watch: {cpu: 5s}\n", PLAIN "watch: {cpu: 4s}\n", "tightened: watch.cpu 5s -> 4s" },
	{ PLAIN "watch: {memory: 2GiB, wall: 1m}\n", PLAIN "watch: {memory: 2000MiB, wall: 1m}\n", "tightened: watch.memory 2GiB -> 2000MiB" },
	{ PLAIN "watch: {wall: 1m}\n", PLAIN "watch: {wall: 2m}\n", "loosened: watch.wall 1m -> 2m" },
	{ PLAIN "watch: {deny_exec: [/a, /b]}\n", PLAIN "watch: {deny_exec: [/b]}\n", "loosened: watch.deny_exec has no more \"/a\"" },
	{ PLAIN "watch: {deny_exec: [/b]}\n", PLAIN "watch: {deny_exec: [/b, /a]}\n", "tightened: watch.deny_exec has \"/a\"" },
	{ PLAIN "watch: {writes_under: []}\n", PLAIN "watch: {exec: log}\n", "loosened: watch.writes_under is gone" },
	{ PLAIN "watch: {writes_under: [a]}\n", PLAIN "watch: {writes_under: [a, b]}\n", "loosened: watch.writes_under has \"b\"" },
	{ PLAIN "watch: {writes_under: [a, b]}\n", PLAIN "watch: {writes_under: [b]}\n", "tightened: watch.writes_under has no more \"a\"" },
};

static void test_texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(texts); i++) {
		struct policy *old = load_yaml(texts[i].before), *pol = load_yaml(texts[i].after);
		struct feed f = feed_new();
		struct reload diff;

		restart(&f, old, &diff);
		assert_int_equal(diff.budgets.n_changes, 0); /* nothing was there to compare with */
		reload(&f, old, pol, &diff);
		if (!told(&diff, texts[i].says))
			fail_msg("\"%s\" is not told, but %zu others: %.*s", texts[i].says, diff.budgets.n_changes, STR_ARG(diff.changes[0]));
		assert_int_equal(change_loosens(diff.changes[0]), strncmp(texts[i].says, "loosened", 8) == 0);
		reload(&f, pol, pol, &diff);
		assert_int_equal(diff.budgets.n_changes, 0);
		state_free(f.st);
		policy_free(old);
		policy_free(pol);
	}
}

/* A long list ends with how many are left out, and no loosening hides behind tightening. */
static void test_more_than_fits(void **state)
{
	char before[2048] = PLAIN "budgets:\n  a: {per: session, limit: 1 USD}\nrules:\n", after[2048] = PLAIN "budgets:\n  a: {per: session, limit: 2 USD}\nrules:\n";
	struct feed f = feed_new();
	struct policy *old, *pol;
	struct reload diff;

	(void)state;
	for (int i = 0; i < 40; i++) {
		(void)snprintf(before + strlen(before), sizeof(before) - strlen(before), "  - {id: r%d, allow: [t]}\n", i);
		(void)snprintf(after + strlen(after), sizeof(after) - strlen(after), "  - {id: r%d, deny: [t]}\n", i);
	}
	old = load_yaml(before);
	pol = load_yaml(after);
	restart(&f, old, &diff);
	reload(&f, old, pol, &diff);
	assert_int_equal(diff.budgets.n_changes, PAWL_MAX_CHANGES);
	assert_true(str_is(diff.changes[0], "loosened: budget a limit 1 -> 2"));
	assert_true(str_is(diff.changes[PAWL_MAX_CHANGES - 1], "changed: and 10 more"));
	state_free(f.st);
	policy_free(old);
	policy_free(pol);
}

/* ---- a log from outside ---- */

static void test_refused(void **state)
{
	static const struct budget_row a = { .id = { "a", 1 }, .limit = 1 }, b = { .id = { "b", 1 }, .limit = 1 };
	struct budget_row rows[2];
	struct feed f = feed_new();
	struct entry e = at(&f, ENTRY_POLICY);
	struct pawl_error err;

	(void)state;
	rows[0] = a;
	e.policy = (struct entry_policy){ .loaded = true, .budgets = { .rows = rows, .n = 1 } };
	put(&f, &e);
	for (int i = 0; i < 11; i++) {
		uint8_t was[32], is[32];

		rows[0] = i == 4 ? a : b;
		rows[1] = b;
		rows[1].id = STR("c");
		e = at(&f, ENTRY_POLICY);
		e.policy = (struct entry_policy){ .loaded = true, .budgets = { .rows = rows, .n = 1 } };
		switch (i) {
		case 0: rows[0].from = STR("z"); break;			     /* never there */
		case 1: rows[0].from = a.id; rows[0].unit = UNIT_CALLS; break; /* another unit */
		case 2: rows[0].from = a.id; rows[0].per_tool = true; break;
		case 3: rows[0].from = a.id; rows[1].from = a.id; e.policy.budgets.n = 2; break; /* taken twice */
		case 4: rows[1] = b; rows[1].from = a.id; e.policy.budgets.n = 2; break;       /* not gone */
		case 5: rows[0].life = rows[0].windowed = true; break;
		case 6: rows[0].life = true; rows[0].unit = UNIT_TIME; break;
		case 7: rows[0].id = STR("@session"); break;
		case 8: rows[1] = rows[0]; e.policy.budgets.n = 2; break;
		case 9: e.policy.budgets.none = true; break;
		default: rows[0].limit = 0; break;
		}
		state_digest(f.st, was);
		if (state_room(f.st, &e, &err) != PAWL_E_TAMPERED)
			fail_msg("case %d is taken", i);
		state_digest(f.st, is);
		assert_memory_equal(was, is, sizeof(was));
	}
	state_free(f.st);
}

static void test_refused_file_changes_nothing(void **state)
{
	struct policy *old = load_yaml(A), *pol = load_yaml("budgets:\n  b: {per: session, limit: 5 USD}\n");
	struct feed f = feed_new();
	struct budget_row rows[PAWL_MAX_BUDGETS];
	struct reload diff;
	struct entry e;
	bool known;

	(void)state;
	restart(&f, old, &diff);
	e = at(&f, ENTRY_POLICY);
	policy_diff(old, f.st, pol, &diff);
	e.policy = (struct entry_policy){ .loaded = false, .budgets = diff.budgets };
	put(&f, &e);
	assert_int_equal(state_budgets(f.st, rows, &known), 1);
	assert_true(known && str_is(rows[0].id, "a"));
	state_free(f.st);
	policy_free(old);
	policy_free(pol);
}

static void test_no_memory(void **state)
{
	struct policy *old = load_yaml(""), *pol = load_yaml(A "  b: {per: agent, limit: 5 USD}\n  c: {per: tenant, limit: 5 USD}\n");
	struct feed f = feed_new();
	struct pawl_error err;
	struct reload diff;
	struct entry e;
	uint64_t s;
	int r = PAWL_E_NOMEM, n;

	(void)state;
	restart(&f, old, &diff);
	for (int i = 0; i < 50; i++) {
		s = open_session(&f);
		spend(&f, s, NULL, (uint64_t)i, USD, 0);
	}
	e = at(&f, ENTRY_POLICY);
	policy_diff(old, f.st, pol, &diff);
	e.policy = (struct entry_policy){ .loaded = true, .budgets = diff.budgets };
	for (n = 1; r == PAWL_E_NOMEM && n < 100; n++) {
		fail_malloc_after(n);
		r = state_room(f.st, &e, &err);
		assert_int_equal(fail_malloc_stop(), r == PAWL_E_NOMEM);
	}
	assert_int_equal(r, 0);
	assert_true(n > 3);
	fail_malloc_after(1); /* and apply takes none */
	state_apply(f.st, &e);
	assert_false(fail_malloc_stop());
	assert_int_equal(ledger(&f, s, "a").spent, USD);
	state_free(f.st);
	policy_free(old);
	policy_free(pol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moves),	      cmocka_unit_test(test_rename_over_a_ledger_left_behind),
		cmocka_unit_test(test_window_goes),   cmocka_unit_test(test_two_renames),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_life_does_not_wrap),
		cmocka_unit_test(test_mode),	      cmocka_unit_test(test_all_scopes),    cmocka_unit_test(test_texts),
		cmocka_unit_test(test_more_than_fits), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_file_changes_nothing), cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
