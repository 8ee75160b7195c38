/* tests/unit/test_state_refuse_review.c - what a log may not say about children, windows, cards, approvals, denials and
 * breakers: each entry is refused by state_room() and changes nothing. As they stand, the entries that are bent here are
 * accepted. The rest of what is refused: test_state_refuse.c. */
#include "tests/support/state_feed.h"

struct scene {
	struct feed f;
	uint64_t root, live, other, ended; /* live is a child of root */
	uint64_t pending, resumed, skipped, spent; /* cards of live, for args 1 to 4 */
	uint64_t open, rolled;		   /* allowed; the second one's window is over */
	struct draw d[2];
	struct charge c[1];
	struct breaker_row row[PAWL_MAX_BREAKERS + 1];
};

static struct scene scene_new(void)
{
	struct scene s = { .f = feed_new() };
	struct entry e;

	s.root = open_session(&s.f);
	s.live = open_child(&s.f, s.root);
	s.other = open_session(&s.f);
	s.ended = open_child(&s.f, s.root);
	e = ending(&s.f, s.ended, SESSION_CLOSE);
	put(&s.f, &e);
	s.d[0] = draw_of(s.live, "day", UNIT_MONEY, 5);
	s.d[0].window_end = s.f.now + 10 * SEC;
	e = decision(&s.f, s.live, 50, 50, VERDICT_ALLOW, s.d, 1);
	put(&s.f, &e);
	s.rolled = e.seq;
	s.f.now += 20 * SEC;
	s.d[0] = draw_of(s.live, "run", UNIT_MONEY, 5);
	e = decision(&s.f, s.live, 51, 51, VERDICT_ALLOW, s.d, 1);
	put(&s.f, &e);
	s.open = e.seq;
	s.pending = plain(&s.f, s.live, 1, 1, VERDICT_REVIEW);
	s.resumed = plain(&s.f, s.live, 2, 2, VERDICT_REVIEW);
	s.skipped = plain(&s.f, s.live, 3, 3, VERDICT_REVIEW);
	s.spent = plain(&s.f, s.live, 4, 4, VERDICT_REVIEW);
	e = resolving(&s.f, s.resumed, RESOLVE_RESUME);
	put(&s.f, &e);
	e = resolving(&s.f, s.skipped, RESOLVE_SKIP);
	put(&s.f, &e);
	e = resolving(&s.f, s.spent, RESOLVE_RESUME);
	put(&s.f, &e);
	e = spending(&s.f, s.live, 4, 4, s.spent, true);
	put(&s.f, &e);
	return s;
}

/* ---- entries that are accepted as they stand ---- */

static struct entry child(struct scene *s)
{
	return opening_child(&s->f, s->live);
}

static struct entry abort_session(struct scene *s)
{
	struct entry e = ending(&s->f, s->live, SESSION_ABORT);

	s->row[0] = breaker_of("api", SCOPE_COUNT, 0, BREAKER_OPEN);
	e.session.hold_until = s->f.now + SEC;
	e.session.breakers = s->row;
	e.session.n_breakers = 1;
	return e;
}

static struct entry close_session(struct scene *s)
{
	return ending(&s->f, s->live, SESSION_CLOSE);
}

static struct entry draws(struct scene *s)
{
	s->d[0] = draw_of(s->live, "day", UNIT_MONEY, 5);
	s->d[0].window_end = s->f.now + SEC;
	s->d[1] = draw_of(s->root, "day", UNIT_MONEY, 5);
	s->d[1].window_end = s->f.now + SEC;
	return decision(&s->f, s->live, 60, 60, VERDICT_ALLOW, s->d, 2);
}

static struct entry claims(struct scene *s)
{
	return spending(&s->f, s->live, 2, 2, s->resumed, true);
}

static struct entry asks(struct scene *s)
{
	struct entry e = decision(&s->f, s->live, 61, 61, VERDICT_REVIEW, NULL, 0);

	e.decision.asks[0] = (struct ask){ .code = REASON_RULE, .rule = STR("ask-first") };
	e.decision.n_asks = 1;
	return e;
}

static struct entry denies(struct scene *s)
{
	struct entry e = decision(&s->f, s->live, 62, 62, VERDICT_DENY, NULL, 0);

	e.decision.sticks[0] = (struct stick_fact){ .how = STICK_TREE, .tool = STR("x"), .rule = STR("no-x") };
	e.decision.n_sticks = 1;
	e.decision.n_trips = 1;
	return e;
}

static struct entry resumes(struct scene *s)
{
	struct entry e = resolving(&s->f, s->pending, RESOLVE_RESUME);

	e.resolve.grants[0] = (struct grant){ draw_of(s->live, "run", UNIT_MONEY, 0).key, 5 };
	e.resolve.grants[1] = (struct grant){ draw_of(s->root, "run", UNIT_MONEY, 0).key, 5 };
	e.resolve.n_grants = 2;
	return e;
}

static struct entry aborts(struct scene *s)
{
	struct entry e = resolving(&s->f, s->pending, RESOLVE_ABORT);

	s->row[0] = breaker_of("api", SCOPE_COUNT, 0, BREAKER_OPEN);
	e.resolve.breakers = s->row;
	e.resolve.n_breakers = 1;
	return e;
}

static struct entry times_out(struct scene *s)
{
	s->f.now += 600 * SEC;
	return timing_out(&s->f, s->live, s->pending);
}

static struct entry settles_rolled(struct scene *s)
{
	struct entry e = at(&s->f, ENTRY_SETTLE);
	struct draw held[1] = { 0 };

	assert_int_equal(state_holds(s->f.st, s->rolled, held, 1), 1);
	s->c[0] = (struct charge){ .draw = held[0], .reserved = 5, .charged = 9 };
	s->c[0].draw.window_end = s->f.now + SEC;
	e.settle = (struct entry_settle){ .session = s->live, .decision = s->rolled, .outcome = OUTCOME_OK, .charges = s->c, .n_charges = 1 };
	return e;
}

static struct entry settles(struct scene *s)
{
	struct entry e = settles_rolled(s);
	struct draw held[1] = { 0 };

	assert_int_equal(state_holds(s->f.st, s->open, held, 1), 1);
	s->c[0].draw = held[0];
	e.settle.decision = s->open;
	return e;
}

static struct entry probes(struct scene *s)
{
	struct entry e = decision(&s->f, s->live, 63, 63, VERDICT_ALLOW, NULL, 0);

	for (size_t i = 0; i < PAWL_LEN(s->row); i++) {
		static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q" };

		s->row[i] = breaker_of(names[i], SCOPE_SESSION, s->root, BREAKER_HALF_OPEN);
	}
	e.decision.breakers = s->row;
	e.decision.n_breakers = PAWL_MAX_BREAKERS;
	return e;
}

static struct entry resets(struct scene *s)
{
	struct entry e = at(&s->f, ENTRY_BREAKER);

	e.breaker.row = breaker_of("api", SCOPE_AGENT, 0, BREAKER_CLOSED);
	return e;
}

/* ---- each bent by one field ---- */

#define BEND(from, what) { #from ": " #what, from, bend_##from##_##what }
#define BENT(from, what, code)                                                  \
	static void bend_##from##_##what(struct scene *s, struct entry *e)      \
	{                                                                       \
		(void)s, (void)e;                                               \
		code;                                                           \
	}

BENT(child, of_ended, e->session.parent = s->ended)
BENT(child, of_unknown, e->session.parent = 999)
BENT(child, in_other_tree, e->session.root = s->other)
BENT(child, with_hold, e->session.hold_until = 1)
BENT(abort_session, too_many_breakers, e->session.n_breakers = PAWL_MAX_BREAKERS + 1)
BENT(abort_session, of_ended, e->session.session = s->ended)
BENT(abort_session, unknown_action, e->session.action = SESSION_ACTION_COUNT)
BENT(close_session, with_hold, e->session.hold_until = 1)
BENT(draws, window_over, s->d[0].window_end = e->now)
BENT(draws, window_negative, s->d[0].window_end = -1)
BENT(draws, unit_of_another, s->d[0].unit = UNIT_CALLS)
BENT(draws, from_sibling, s->d[1].key.session = s->ended)
BENT(draws, from_other_tree, s->d[1].key.session = s->other)
BENT(claims, unknown_card, e->decision.spends = 999)
BENT(claims, pending_card, e->decision.spends = s->pending; id16(e->decision.card_token, 1 + 7000 + s->live * 100000))
BENT(claims, skipped_card, e->decision.spends = s->skipped; id16(e->decision.card_token, 3 + 7000 + s->live * 100000))
BENT(claims, spent_card, e->decision.spends = s->spent; id16(e->decision.card_token, 4 + 7000 + s->live * 100000)) /* spent twice */
BENT(claims, other_arguments, e->decision.card_token[3] ^= 1)
BENT(claims, other_session, e->decision.session = s->other; e->decision.root = s->other)
BENT(claims, after_its_deadline, e->now += 601 * SEC; e->decision.lease_until = e->now)
BENT(claims, another_card, e->decision.card = s->pending)
BENT(claims, denied, e->decision.answer = VERDICT_DENY)
BENT(claims, reviewed, e->decision.answer = VERDICT_REVIEW; e->decision.card = e->seq; e->decision.card_until = e->now)
BENT(asks, too_much, e->decision.n_asks = PAWL_MAX_ASKS + 1)
BENT(asks, for_no_reason, e->decision.asks[0].code = REASON_COUNT)
BENT(asks, joins_resumed, e->decision.card = s->resumed; id16(e->decision.card_token, 2 + 7000 + s->live * 100000))
BENT(denies, too_many_sticks, e->decision.n_sticks = PAWL_MAX_STICKS + 1)
BENT(denies, too_many_trips, e->decision.n_trips = PAWL_MAX_PERIOD + 1)
BENT(denies, never_sticks, e->decision.sticks[0].how = STICK_NEVER)
BENT(denies, unknown_scope, e->decision.sticks[0].how = STICK_COUNT)
BENT(denies, no_tool, e->decision.sticks[0].tool = STR_NONE)
BENT(denies, no_rule, e->decision.sticks[0].rule = STR_NONE)
BENT(denies, but_allows, e->decision.answer = VERDICT_ALLOW; e->decision.lease_until = e->now)
BENT(resumes, unknown_card, e->resolve.card = 999)
BENT(resumes, not_a_card, e->resolve.card = s->open)
BENT(resumes, other_session, e->resolve.session = s->root)
BENT(resumes, resumed_card, e->resolve.card = s->resumed) /* A second answer: the first one stands. */
BENT(resumes, skipped_card, e->resolve.card = s->skipped)
BENT(resumes, spent_card, e->resolve.card = s->spent)
BENT(resumes, unknown_action, e->resolve.action = RESOLVE_ACTION_COUNT)
BENT(resumes, negative_grant, e->resolve.grants[0].amount = -1)
BENT(resumes, grant_out_of_reach, e->resolve.grants[0].key.session = s->other)
BENT(resumes, grant_twice, e->resolve.grants[1] = e->resolve.grants[0])
BENT(resumes, grant_to_nothing, e->resolve.grants[0].key.budget = STR_NONE)
BENT(resumes, too_many_grants, e->resolve.n_grants = PAWL_MAX_ASKS + 1)
BENT(resumes, but_skips, e->resolve.action = RESOLVE_SKIP)
BENT(resumes, and_ends, e->resolve.ends = s->live)
BENT(resumes, and_holds, e->resolve.hold_until = e->now)
BENT(resumes, and_opens_breakers, e->resolve.breakers = s->row; e->resolve.n_breakers = 1; s->row[0] = breaker_of("a", SCOPE_COUNT, 0, BREAKER_OPEN))
BENT(aborts, ends_nothing, e->resolve.ends = 0)
BENT(aborts, ends_unknown, e->resolve.ends = 999)
BENT(aborts, ends_other_tree, e->resolve.ends = s->other)
BENT(aborts, ends_ended, e->resolve.ends = s->ended)
BENT(times_out, too_early, e->now -= SEC)
BENT(times_out, skipped_card, e->timeout.card = s->skipped)
BENT(times_out, spent_card, e->timeout.card = s->spent)
BENT(times_out, other_session, e->timeout.session = s->root)
BENT(settles_rolled, releases_more, s->c[0].reserved = 6)
BENT(settles_rolled, window_over, s->c[0].draw.window_end = e->now)
BENT(settles, releases_nothing, s->c[0].reserved = 0) /* its window is still the ledger's */
BENT(probes, too_many, e->decision.n_breakers = PAWL_MAX_BREAKERS + 1)
BENT(probes, but_denied, e->decision.answer = VERDICT_DENY; e->decision.lease_until = 0)
BENT(probes, one_twice, s->row[1] = s->row[0])
BENT(probes, without_id, s->row[0].id = STR_NONE)
BENT(probes, without_session, s->row[0].session = 0)
BENT(probes, of_the_future, s->row[0].session = e->seq)
BENT(probes, unknown_scope, s->row[0].scope = SCOPE_COUNT + 1)
BENT(probes, unknown_mode, s->row[0].mode = BREAKER_MODE_COUNT)
BENT(probes, without_probe, s->row[0].probe = 0)
BENT(probes, probe_of_the_future, s->row[0].probe = e->seq + 1)
BENT(probes, open_with_probe, s->row[0].mode = BREAKER_OPEN)
BENT(probes, negative_generation, s->row[0].generation = -1)
BENT(probes, too_many_failures, s->row[0].n_fails = PAWL_MAX_STREAK + 1)
BENT(probes, too_many_denials, s->row[0].n_denies = PAWL_MAX_STREAK + 1)
BENT(probes, until_below_zero, s->row[0].until = -1)
BENT(probes, failed_below_zero, s->row[0].n_fails = 2; s->row[0].fails[1] = -1)
BENT(probes, denied_below_zero, s->row[0].n_denies = 1; s->row[0].denies[0] = INT64_MIN)
BENT(probes, costs_below_zero, e->decision.money = -1)
BENT(probes, tokens_below_zero, e->decision.tokens = -1)
BENT(resets, with_a_session, e->breaker.row.session = s->live)
BENT(resets, probes, e->breaker.row.mode = BREAKER_HALF_OPEN; e->breaker.row.probe = UINT64_MAX)

static void test_refused(void **state)
{
	static const struct {
		const char *name;
		struct entry (*make)(struct scene *s);
		void (*bend)(struct scene *s, struct entry *e);
	} rows[] = {
		BEND(child, of_ended), BEND(child, of_unknown), BEND(child, in_other_tree), BEND(child, with_hold),
		BEND(abort_session, too_many_breakers), BEND(abort_session, of_ended), BEND(abort_session, unknown_action),
		BEND(close_session, with_hold),
		BEND(draws, window_over), BEND(draws, window_negative), BEND(draws, unit_of_another), BEND(draws, from_sibling),
		BEND(draws, from_other_tree),
		BEND(claims, unknown_card), BEND(claims, pending_card), BEND(claims, skipped_card), BEND(claims, spent_card),
		BEND(claims, other_arguments), BEND(claims, other_session), BEND(claims, after_its_deadline), BEND(claims, another_card),
		BEND(claims, denied), BEND(claims, reviewed),
		BEND(asks, too_much), BEND(asks, for_no_reason), BEND(asks, joins_resumed),
		BEND(denies, too_many_sticks), BEND(denies, too_many_trips), BEND(denies, never_sticks), BEND(denies, unknown_scope),
		BEND(denies, no_tool), BEND(denies, no_rule), BEND(denies, but_allows),
		BEND(resumes, unknown_card), BEND(resumes, not_a_card), BEND(resumes, other_session), BEND(resumes, resumed_card),
		BEND(resumes, skipped_card), BEND(resumes, spent_card), BEND(resumes, unknown_action), BEND(resumes, negative_grant),
		BEND(resumes, grant_out_of_reach), BEND(resumes, grant_twice), BEND(resumes, grant_to_nothing), BEND(resumes, too_many_grants),
		BEND(resumes, but_skips), BEND(resumes, and_ends), BEND(resumes, and_holds), BEND(resumes, and_opens_breakers),
		BEND(aborts, ends_nothing), BEND(aborts, ends_unknown), BEND(aborts, ends_other_tree), BEND(aborts, ends_ended),
		BEND(times_out, too_early), BEND(times_out, skipped_card), BEND(times_out, spent_card), BEND(times_out, other_session),
		BEND(settles_rolled, releases_more), BEND(settles_rolled, window_over), BEND(settles, releases_nothing),
		BEND(probes, too_many), BEND(probes, but_denied), BEND(probes, one_twice), BEND(probes, without_id), BEND(probes, without_session),
		BEND(probes, of_the_future), BEND(probes, unknown_scope), BEND(probes, unknown_mode), BEND(probes, without_probe),
		BEND(probes, probe_of_the_future), BEND(probes, open_with_probe), BEND(probes, negative_generation),
		BEND(probes, too_many_failures), BEND(probes, too_many_denials), BEND(probes, until_below_zero), BEND(probes, failed_below_zero),
		BEND(probes, denied_below_zero), BEND(probes, costs_below_zero), BEND(probes, tokens_below_zero), BEND(resets, with_a_session), BEND(resets, probes),
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct scene s = scene_new();
		struct pawl_error err = { .code = PAWL_OK };
		struct entry e = rows[i].make(&s);
		uint8_t before[32], after[32];

		state_digest(s.f.st, before);
		if (state_room(s.f.st, &e, &err) != 0)
			fail_msg("%s: refused before it was bent: %s", rows[i].name, err.msg);
		rows[i].bend(&s, &e);
		if (state_room(s.f.st, &e, &err) != PAWL_E_TAMPERED || err.code != PAWL_E_TAMPERED || !err.msg[0])
			fail_msg("%s: accepted", rows[i].name);
		state_digest(s.f.st, after);
		assert_memory_equal(before, after, sizeof(before));
		state_free(s.f.st);
	}
}

/* Every entry that is accepted here leaves a state that its digest tells from the one before, and that a copy keeps. */
static void test_digests_see_it(void **state)
{
	static struct entry (*const makes[])(struct scene *s) = { child,  abort_session, close_session, draws,   claims,  asks,   denies,
								  resumes, aborts,	  times_out,	 settles, settles_rolled, probes };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(makes); i++) {
		struct scene s = scene_new(), idle = scene_new();
		struct state *copy;
		uint8_t a[32], b[32];
		struct entry e = makes[i](&s), stop;

		idle.f.now = s.f.now;
		stop = at(&idle.f, ENTRY_STOP);
		put(&idle.f, &stop);
		put(&s.f, &e);
		state_digest(s.f.st, a);
		state_digest(idle.f.st, b);
		assert_true(memcmp(a, b, sizeof(a)) != 0);
		assert_int_equal(state_clone(s.f.st, &copy, NULL), 0);
		assert_same_state(s.f.st, copy);
		state_free(s.f.st); /* the copy stands alone */
		state_digest(copy, b);
		assert_memory_equal(a, b, sizeof(a));
		state_free(copy);
		state_free(idle.f.st);
	}
}

BENT(child, lease, e->session.lease_ns++)
BENT(abort_session, hold, e->session.hold_until++)
BENT(draws, window, s->d[1].window_end++)
BENT(draws, polling, e->decision.polling = true)
BENT(draws, client, e->decision.client[9] = 1)
BENT(draws, as_claim, e->kind = ENTRY_CLAIM)
BENT(draws, same, e->decision.same[2] = 9)
BENT(draws, repeat, e->decision.repeat[2] = 9)
BENT(claims, as_decision, e->kind = ENTRY_DECISION)
BENT(claims, without, e->decision.spends = 0)
BENT(asks, rule, e->decision.asks[0].rule = STR("another"))
BENT(asks, code, e->decision.asks[0].code = REASON_BUDGET)
BENT(asks, money, e->decision.money = 1)
BENT(asks, tokens, e->decision.tokens = 1)
BENT(asks, until, e->decision.card_until++)
BENT(asks, of_tool, e->decision.tool = STR("u"))
BENT(denies, how, e->decision.sticks[0].how = STICK_AGENT)
BENT(denies, tool, e->decision.sticks[0].tool = STR("y"))
BENT(denies, rule, e->decision.sticks[0].rule = STR("no-y"))
BENT(denies, trip, e->decision.trips[0][3] = 7)
BENT(resumes, reason, e->resolve.reason = STR("?"))
BENT(resumes, operator, e->resolve.operator = STR("bob"))
BENT(resumes, grant, e->resolve.grants[1].amount++)
BENT(resumes, closes, e->resolve.action = RESOLVE_CLOSE; e->resolve.n_grants = 0)
BENT(aborts, hold, e->resolve.hold_until++)
BENT(aborts, tree, e->resolve.ends = s->root)
BENT(settles, result, e->settle.has_result_token = true)
BENT(settles, error, e->settle.has_error_token = true)
BENT(settles, same, e->settle.same[3] = 1)
BENT(settles, window, s->c[0].draw.window_end = e->now + 5)
BENT(probes, generation, s->row[3].generation++)
BENT(probes, until, s->row[3].until++)
BENT(probes, sticky, s->row[3].sticky = true)
BENT(probes, fails, s->row[3].n_fails = 1)
BENT(probes, denies, s->row[3].n_denies = 1)
BENT(probes, mode, s->row[3].mode = BREAKER_OPEN; s->row[3].probe = 0)
BENT(probes, older_probe, s->row[3].probe = s->open)
BENT(probes, tool, s->row[3].tool = STR("t"))

/* Two logs that differ in one thing that is remembered do not lead to the same digest. */
static void test_digests_tell(void **state)
{
	static const struct {
		const char *name;
		struct entry (*make)(struct scene *s);
		void (*bend)(struct scene *s, struct entry *e);
	} rows[] = {
		BEND(child, lease), BEND(abort_session, hold), BEND(draws, window), BEND(draws, polling), BEND(draws, client),
		BEND(draws, as_claim), BEND(draws, same), BEND(draws, repeat), BEND(claims, as_decision), BEND(claims, without),
		BEND(asks, rule), BEND(asks, code), BEND(asks, money), BEND(asks, tokens), BEND(asks, until), BEND(asks, of_tool),
		BEND(denies, how), BEND(denies, tool), BEND(denies, rule), BEND(denies, trip), BEND(resumes, reason), BEND(resumes, operator),
		BEND(resumes, grant), BEND(resumes, closes), BEND(aborts, hold), BEND(aborts, tree), BEND(settles, result), BEND(settles, error),
		BEND(settles, same), BEND(settles, window), BEND(probes, generation), BEND(probes, until), BEND(probes, sticky),
		BEND(probes, fails), BEND(probes, denies), BEND(probes, mode), BEND(probes, older_probe), BEND(probes, tool),
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct scene a = scene_new(), b = scene_new();
		struct entry x = rows[i].make(&a), y = rows[i].make(&b);
		uint8_t one[32], two[32];

		rows[i].bend(&b, &y);
		put(&a.f, &x);
		put(&b.f, &y);
		state_digest(a.f.st, one);
		state_digest(b.f.st, two);
		if (memcmp(one, two, sizeof(one)) == 0)
			fail_msg("%s: not in the digest", rows[i].name);
		state_free(a.f.st);
		state_free(b.f.st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_digests_see_it),
		cmocka_unit_test(test_digests_tell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
