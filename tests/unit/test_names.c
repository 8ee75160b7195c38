/* tests/unit/test_names.c - names of tools are an agent's choice: how many of them it can have remembered beyond its sessions,
 * and what becomes of the call of one more. */
#include "tests/support/judge_script.h"

#define HEAD "pawl: 1\nname: t\ntools: {listed: {cost: 0.01 USD}}\nrules:\n  - {id: any, allow: ['*']}\n  - {id: some, allow: [spelled, spelled2]}\n"

static const struct full {
	const char *name, *policy;
	const char *fill, *free; /* arguments of the calls that fill the table, and of one that is no reason to remember */
	const char *elsewhere;	 /* a name that keeps no row here, or NULL */
	enum verdict filled, spelled;
} tables[] = {
	{ "ledgers of an agent", HEAD "budgets: {each: {per: [agent, tool], limit: 5 calls}}\n...\n", "{}", "{}", NULL, VERDICT_ALLOW,
	  VERDICT_ALLOW },
	{ "ledgers of all, of some names", HEAD "budgets: {each: {per: [global, tool], match: 'n*', limit: 5 calls}}\n...\n", "{}", "{}", "other", VERDICT_ALLOW,
	  VERDICT_ALLOW },
	{ "breakers' rows of refused calls",
	  HEAD "  - {id: no, deny: ['*'], when: {args.n: {over: 5}}}\nbreakers: {each: {per: tool, open: {denials: 20, within: 1h}, cool_down: 1s}}\n...\n",
	  "{\"n\":6}", "{\"n\":4}", NULL, VERDICT_DENY, VERDICT_DENY },
	{ "an agent's denials", HEAD "  - {id: no, deny: ['n*', spelled, listed], when: {args.n: {over: 5}}, sticky: agent}\n...\n", "{\"n\":6}", "{\"n\":4}",
	  "other", VERDICT_DENY, VERDICT_DENY },
};

static enum verdict say(struct world *w, const char *tool, const char *args, struct judgement *j)
{
	struct step s = { .tool = tool, .args = args };
	struct request_call rq = { .client = { 0 } };
	struct facts f;
	struct entry e;
	char call[32];

	(void)snprintf(call, sizeof(call), "c-%d", w->calls++);
	rq.call = str_of(call);
	facts_for(w, &s, &rq, &f);
	judge(w->pol, w->a, &f, w->now, j);
	entry_from_judgement(w->pol, &rq, &f, j, w->now, 0, state_next_seq(w->a), &e);
	put(w, &e);
	return j->answer;
}

static void expect(struct world *w, const struct full *t, const char *tool, const char *args, enum verdict want, bool full)
{
	static struct judgement j;

	if (say(w, tool, args, &j) != want || (j.why.code == REASON_SESSION_LIMIT) != full || str_is(j.why.rule, "names") != full)
		fail_msg("%s: %s %s is %d by %s: %s", t->name, tool, args, j.answer, reason_name(j.why.code), j.why.message);
	if (full)
		assert_true(j.n_sticks == 0 && j.n_breakers == 0 && j.why.limit == PAWL_MAX_NAMES);
}

static void fill(struct world *w, const struct full *t)
{
	char name[32];

	for (int i = 0; i < PAWL_MAX_NAMES; i++) {
		(void)snprintf(name, sizeof(name), "n.%d", i);
		expect(w, t, name, t->fill, t->filled, false);
	}
}

static size_t rows_of(const struct world *w)
{
	const struct session_state *who = here(w);
	struct stick_fact k;
	uint32_t at = 0;
	size_t n = 0;

	while (state_breaker_next(w->a, &at))
		n++;
	for (at = 0; state_denial_next(w->a, who, &at, &k);)
		n++;
	return n;
}

static void test_one_name_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(tables); i++) {
		const struct full *t = &tables[i];
		struct script script = { t->name, t->policy, { { .op = END } } };
		struct world w = world_new(&script);
		size_t rows;

		fill(&w, t);
		rows = rows_of(&w);
		expect(&w, t, "n.x", t->free, VERDICT_DENY, true); /* whatever it says: nothing of this name would be remembered */
		expect(&w, t, "n.x", t->fill, VERDICT_DENY, true);
		open_session(&w, NULL);
		expect(&w, t, "n.y", t->fill, VERDICT_DENY, true);
		assert_int_equal(rows_of(&w), rows);
		expect(&w, t, "n.7", t->fill, t->filled, false); /* what is known goes on */
		expect(&w, t, "spelled", t->free, VERDICT_ALLOW, false);
		expect(&w, t, "spelled2", t->fill, strcmp(t->name, "an agent's denials") == 0 ? VERDICT_ALLOW : t->spelled, false);
		expect(&w, t, "listed", t->free, VERDICT_ALLOW, false);
		if (t->elsewhere)
			expect(&w, t, t->elsewhere, t->fill, VERDICT_ALLOW, false);
		world_done(&w);
	}
}

/* What was denied before the table was full, and what the policy spells out, stays denied. */
static void test_nothing_is_forgotten(void **state)
{
	const struct full *t = &tables[3];
	struct script script = { t->name, t->policy, { { .op = END } } };
	struct world w = world_new(&script);

	(void)state;
	fill(&w, t);
	expect(&w, t, "n.7", t->free, VERDICT_DENY, false);
	expect(&w, t, "spelled", t->fill, VERDICT_DENY, false);
	open_session(&w, NULL);
	expect(&w, t, "n.1023", t->free, VERDICT_DENY, false);
	expect(&w, t, "spelled", t->free, VERDICT_DENY, false);
	world_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_name_more),
		cmocka_unit_test(test_nothing_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
