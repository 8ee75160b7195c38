/* tests/unit/test_projection_mode.c - what shadow mode leaves in the tables, and takes out again: would-be answers, denials and breakers that
 * bind nothing, and the switch; reloads that somebody ordered; cards that another card's approval has ended. */
#include "tests/support/projection_world.h"

static void assert_answer(const struct world *w, const char *sql, const char *due)
{
	char *is = answer(w->path, sql);

	if (strcmp(is, due) != 0)
		fail_msg("%s\nis\n%s\nnot\n%s", sql, is, due);
	free(is);
}

/* Rows of breakers are those of the state, whatever entries made of them. */
static void assert_breakers(const struct world *w)
{
	const struct breaker_row *b;
	char sql[512], due[32];
	size_t n = 0;

	for (uint32_t at = 0; (b = state_breaker_next(w->f.st, &at)) != NULL; n++) {
		(void)snprintf(sql, sizeof(sql), "SELECT count(*)FROM breaker WHERE breaker='%.*s' AND session=%llu AND owner='%.*s' AND would=%d AND state='%s'",
			       STR_ARG(b->id), (unsigned long long)b->session, STR_ARG(b->owner), b->would,
			       b->mode == BREAKER_OPEN ? "open" : b->mode == BREAKER_CLOSED ? "closed" : "half_open");
		assert_answer(w, sql, "1\n");
	}
	(void)snprintf(due, sizeof(due), "%zu\n", n);
	assert_answer(w, "SELECT count(*)FROM breaker", due);
}

static void start(struct world *w, const char *mode)
{
	struct entry e = at(&w->f, ENTRY_START);

	e.start = (struct entry_start){ .version = STR("0.9"), .policy_name = STR("p"), .policy_hash = STR("aa"), .mode = str_of(mode), .judge = 1,
					.probes_text = STR("{}") };
	give(w, &e);
}

static void reload(struct world *w, const char *hash, const char *mode, bool ordered)
{
	struct entry e = at(&w->f, ENTRY_POLICY);

	e.policy = (struct entry_policy){ .loaded = mode[0] != '\0', .name = STR("p"), .hash = str_of(hash), .mode = str_of(mode), .ordered = ordered };
	if (!e.policy.loaded)
		e.policy.message = STR("line 3");
	if (ordered) {
		e.policy.operator = STR("ann");
		e.policy.key = STR("k");
		e.policy.reason = STR("try it");
	}
	give(w, &e);
}

/* A call that r would have refused, and that denial's memory. */
static void would_deny(struct world *w, uint64_t session, uint64_t call, const char *rule, const struct breaker_row *b, size_t n)
{
	struct draw draw = draw_of(session, "run", UNIT_MONEY, 7);
	struct entry e = decision(&w->f, session, call, call, VERDICT_ALLOW, &draw, 1);
	struct entry_decision *d = &e.decision;

	d->shadow = true;
	d->would = VERDICT_DENY;
	d->would_why = (struct reason){ .code = REASON_RULE, .rule = str_of(rule) };
	(void)snprintf(d->would_why.message, sizeof(d->would_why.message), "rule %s", rule);
	d->sticks[0] = (struct stick_fact){ .how = STICK_SESSION, .tool = STR("t"), .rule = str_of(rule) };
	d->n_sticks = 1;
	d->breakers = b;
	d->n_breakers = n;
	give(w, &e);
}

static void deny(struct world *w, uint64_t session, const struct breaker_row *b)
{
	struct entry e = decision(&w->f, session, 1, 1, VERDICT_DENY, NULL, 0);

	e.decision.why.rule = STR("r1");
	e.decision.sticks[0] = (struct stick_fact){ .how = STICK_SESSION, .tool = STR("t"), .rule = STR("r1") };
	e.decision.n_sticks = 1;
	e.decision.breakers = b;
	e.decision.n_breakers = 1;
	give(w, &e);
}

static void reset(struct world *w, const char *breaker)
{
	struct entry e = at(&w->f, ENTRY_BREAKER);

	e.breaker = (struct entry_breaker){ .operator = STR("ann"), .key = STR("k"), .row = breaker_of(breaker, SCOPE_AGENT, 0, BREAKER_CLOSED) };
	give(w, &e);
}

#define BREAKERS "SELECT breaker,state,would FROM breaker ORDER BY 1,3"
#define DENIALS	 "SELECT tool,rule,would,decision FROM denial ORDER BY 2"

static void check(struct world *w, const char *breakers, const char *denials)
{
	world_commit(w);
	assert_answer(w, BREAKERS, breakers);
	assert_answer(w, DENIALS, denials);
	assert_breakers(w);
}

static void test_shadow(void **state)
{
	struct breaker_row web = breaker_of("web", SCOPE_AGENT, 0, BREAKER_OPEN), shadow[2];
	struct world w;
	struct entry e;

	(void)state;
	world_open(&w, "shadow.sqlite");
	start(&w, "enforce");
	e = opening(&w.f, "local");
	give(&w, &e);
	deny(&w, 1, &web); /* 2 */
	reload(&w, "bb", "shadow", true);
	check(&w, "web|open|0\n", "t|r1|0|2\n");
	shadow[0] = breaker_of("web", SCOPE_AGENT, 0, BREAKER_CLOSED); /* beside one that binds it is kept, and hides it from the trial */
	shadow[1] = breaker_of("net", SCOPE_SESSION, 1, BREAKER_OPEN);
	shadow[0].would = shadow[1].would = true;
	would_deny(&w, 1, 10, "r1", shadow, 2); /* 4: r1 is remembered already, and binds */
	would_deny(&w, 1, 11, "r2", NULL, 0);
	check(&w, "net|open|1\nweb|open|0\nweb|closed|1\n", "t|r1|0|2\nt|r2|1|5\n");
	reset(&w, "web"); /* a person's word: both are gone */
	check(&w, "net|open|1\n", "t|r1|0|2\nt|r2|1|5\n");
	would_deny(&w, 1, 12, "r2", shadow, 1); /* 7: with none that binds it says nothing */
	check(&w, "net|open|1\n", "t|r1|0|2\nt|r2|1|5\n");
	reload(&w, "cc", "", true); /* refused: nothing changes */
	reload(&w, "dd", "shadow", false);
	shadow[0] = breaker_of("web", SCOPE_AGENT, 0, BREAKER_OPEN);
	shadow[0].would = true;
	would_deny(&w, 1, 14, "r2", shadow, 1);
	check(&w, "net|open|1\nweb|open|1\n", "t|r1|0|2\nt|r2|1|5\n");
	would_deny(&w, 1, 13, "r2", NULL, 0);
	world_commit(&w);
	assert_answer(&w, "SELECT decision,would_verdict,would_code,would_rule,would_message FROM decision WHERE would_verdict IS NOT NULL",
		      "4|deny|rule|r1|rule r1\n5|deny|rule|r2|rule r2\n7|deny|rule|r2|rule r2\n10|deny|rule|r2|rule r2\n11|deny|rule|r2|rule r2\n");
	assert_answer(&w, "SELECT policy,verdict,code,rule,calls,sessions,agents FROM would_by_rule ORDER BY 1,4",
		      "bb|deny|rule|r1|1|1|1\nbb|deny|rule|r2|2|1|1\ndd|deny|rule|r2|2|1|1\n");
	assert_answer(&w, "SELECT calls,refused,would,would_settled FROM spend_by_tool", "5|1|5|0\n");
	reload(&w, "aa", "enforce", false);
	check(&w, "", "t|r1|0|2\n");
	assert_answer(&w, "SELECT entry,how,mode,hash,operator,reason FROM policy_change",
		      "0|start|enforce|aa||\n3|loaded|shadow|bb|ann|try it\n8|refused||cc|ann|try it\n9|loaded|shadow|dd||\n12|loaded|enforce|aa||\n");
	assert_answer(&w, "SELECT entry,action,operator,key,reason FROM answer",
		      "3|reload|ann|k|try it\n6|reset|ann|k|\n8|reload|ann|k|try it\n");
	world_done(&w);
}

/* A start with another file is a switch too. */
static void test_start_ends_it(void **state)
{
	struct world w;
	struct entry e;

	(void)state;
	world_open(&w, "start.sqlite");
	start(&w, "shadow");
	e = opening(&w.f, "local");
	give(&w, &e);
	would_deny(&w, 1, 10, "r1", NULL, 0);
	start(&w, "shadow");
	check(&w, "", "t|r1|1|2\n");
	start(&w, "enforce");
	check(&w, "", "");
	world_done(&w);
}

/* Two cards of one call: the one that was answered runs it, and nothing is left to be asked. Another call's card, and another session's, stay. */
static void test_ends_cards(void **state)
{
	struct world w;
	struct entry e;

	(void)state;
	world_open(&w, "cards.sqlite");
	start(&w, "enforce");
	for (int i = 0; i < 2; i++) {
		e = opening(&w.f, "local");
		give(&w, &e);
	}
	give_review(&w, 1, 1, 4, 0); /* 3 */
	e = resolving(&w.f, 3, RESOLVE_RESUME);
	give(&w, &e);
	give_review(&w, 1, 2, 4, 0); /* 5: the same call, asked about again */
	give_review(&w, 1, 3, 9, 0); /* 6 */
	give_review(&w, 2, 4, 4, 0); /* 7 */
	e = spending(&w.f, 1, 5, 4, 3, true);
	e.decision.claims = 3;
	e.decision.ends_cards = true;
	give(&w, &e);
	world_commit(&w);
	assert_answer(&w, "SELECT review,state,ended_by,spent_by FROM review", "3|spent|4|8\n5|closed|8|8\n6|pending||\n7|pending||\n");
	assert_answer(&w, "SELECT review FROM open_reviews", "r_6\nr_7\n");
	assert_answer(&w, "SELECT decision,claim,claims FROM decision WHERE claims IS NOT NULL", "8|1|3\n");
	assert_int_equal(state_card_by_id(w.f.st, 5)->mode, CARD_CLOSED);
	world_done(&w);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shadow),
		cmocka_unit_test(test_start_ends_it),
		cmocka_unit_test(test_ends_cards),
	};

	return cmocka_run_group_tests(tests, projection_setup, projection_teardown);
}
