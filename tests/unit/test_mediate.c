/* tests/unit/test_mediate.c - the order of steps: what is answered, when, and what a failing disk, a kill or a second question changes. */
#include "tests/support/spine_world.h"

static void test_allow_and_settle(void **state)
{
	struct world *w = *state;
	struct got g = ask(w, (struct asked){ .tool = "fetch", .call = "c1" }), s;

	assert_int_equal(g.times, 1);
	assert_int_equal(g.verdict, VERDICT_ALLOW);
	assert_int_equal(run_used(w), CENT(30));
	s = settle(w, g.seq, OUTCOME_OK, -1);
	assert_int_equal(s.charged, CENT(30));
	assert_int_equal(settle(w, g.seq, OUTCOME_OK, -1).seq, s.seq); /* the same report, the same entry */
	assert_int_equal(settle(w, g.seq, OUTCOME_ERROR, -1).no, REASON_REPLAY_CONFLICT);
	assert_int_equal(settle(w, g.seq, OUTCOME_OK, 0).no, REASON_REPLAY_CONFLICT);
	assert_int_equal(run_used(w), CENT(30));
	g = ask(w, (struct asked){ .tool = "fetch", .call = "c1" });
	assert_int_equal(g.code, REASON_ALREADY_SETTLED);
	assert_states_equal(w);
}

/* S9, and who is believed: docs/policy.md, "Settling". */
static void test_settle_rules(void **state)
{
	static const struct {
		const char *tool;
		enum outcome outcome;
		int64_t money; /* -1: not reported */
		int64_t want;
	} cases[] = {
		{ "fetch", OUTCOME_OK, 0, CENT(30) },	     /* a fixed price is charged whatever is said */
		{ "fetch", OUTCOME_OK, CENT(35), CENT(35) }, /* unless more was spent */
		{ "fetch", OUTCOME_CANCELLED, 0, CENT(30) },
		{ "fetch", OUTCOME_NOT_RUN, -1, CENT(30) },
		{ "back", OUTCOME_OK, -1, CENT(20) },
		{ "back", OUTCOME_OK, CENT(5), CENT(5) }, /* no price: as reported */
		{ "back", OUTCOME_ERROR, CENT(5), CENT(5) },
		{ "back", OUTCOME_CANCELLED, -1, 0 }, /* refund: true */
		{ "back", OUTCOME_CANCELLED, CENT(1), CENT(1) },
		{ "free", OUTCOME_OK, 0, 0 },
	};
	struct world *w = *state;

	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		char call[16];
		int64_t before;
		struct got g, s;

		if (i == 3 || i == 6) /* the session's budget is one dollar */
			assert_false(open_session(w).refused);
		before = run_used(w);
		(void)snprintf(call, sizeof(call), "s%zu", i);
		g = ask(w, (struct asked){ .tool = cases[i].tool, .call = call });
		if (g.verdict != VERDICT_ALLOW)
			fail_msg("case %zu: %s", i, reason_name(g.code));
		s = settle(w, g.seq, cases[i].outcome, cases[i].money);
		if (s.refused || run_used(w) - before != cases[i].want)
			fail_msg("case %zu: charged %lld", i, (long long)(run_used(w) - before));
	}
	assert_int_equal(settle(w, 1, OUTCOME_OK, -1).no, REASON_MALFORMED);	  /* not a decision */
	assert_int_equal(settle(w, 99999, OUTCOME_OK, -1).no, REASON_MALFORMED); /* not there */
	assert_states_equal(w);
}

static void test_denied_cannot_settle(void **state)
{
	struct world *w = *state;
	struct got g = ask(w, (struct asked){ .tool = "nothing", .call = "d" });

	assert_int_equal(g.verdict, VERDICT_DENY);
	assert_int_equal(settle(w, g.seq, OUTCOME_OK, -1).no, REASON_MALFORMED);
}

static void test_same_call_same_answer(void **state)
{
	struct world *w = *state;
	struct asked a = { .tool = "fetch", .call = "r" };
	struct got first, second, both[2];

	first = ask(w, a);
	second = ask(w, a);
	assert_int_equal(first.seq, second.seq);
	assert_int_equal(first.note_n, second.note_n);
	assert_memory_equal(first.note, second.note, first.note_n);
	assert_int_equal(run_used(w), CENT(30)); /* reserved once */
	/* the retry arrives before the first answer is on disk */
	a.call = "r2";
	assert_int_equal(ask_start(w, &a, &both[0]), 0);
	assert_int_equal(ask_start(w, &a, &both[1]), 0);
	assert_int_equal(both[0].times + both[1].times, 0); /* nothing is answered from inside the call */
	run_until_owed_nothing(w);
	assert_int_equal(both[0].seq, both[1].seq);
	assert_memory_equal(both[0].note, both[1].note, both[0].note_n);
	/* another client with the same key: nobody knows whether it ran */
	a.client = 9;
	second = ask(w, a);
	assert_int_equal(second.code, REASON_IN_DOUBT);
	assert_int_equal(second.verdict, VERDICT_REVIEW);
	assert_states_equal(w);
}

static void test_lease_over(void **state)
{
	struct world *w = *state;
	struct got g = ask(w, (struct asked){ .tool = "fetch", .call = "l" }), late;

	w->now += 30 * NS_PER_SEC - 1;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_int_equal(state_decision(w->m.state, g.seq)->outcome, OUTCOME_NONE);
	w->now += 1;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_int_equal(state_decision(w->m.state, g.seq)->outcome, OUTCOME_EXPIRED);
	assert_int_equal(run_used(w), CENT(30)); /* B03: charged at what was reserved, not at nothing */
	assert_int_equal(ask(w, (struct asked){ .tool = "fetch", .call = "l" }).code, REASON_ALREADY_SETTLED);
	late = settle(w, g.seq, OUTCOME_OK, CENT(45)); /* may only add */
	assert_int_equal(late.kind, ENTRY_LOSS);
	assert_int_equal(run_used(w), CENT(45));
	assert_int_equal(settle(w, g.seq, OUTCOME_OK, CENT(45)).seq, late.seq);
	assert_int_equal(settle(w, g.seq, OUTCOME_OK, CENT(50)).no, REASON_REPLAY_CONFLICT);
	assert_states_equal(w);
}

static void test_stale_session(void **state)
{
	struct world *w = *state;

	w->now += 60 * NS_PER_SEC;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_int_equal(state_session(w->m.state, w->session)->end, SESSION_ENDED_STALE);
	assert_int_equal(ask(w, (struct asked){ .tool = "free" }).code, REASON_STALE_SESSION);
	assert_states_equal(w);
}

static void test_open_caps(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++)
		assert_false(open_session(w).refused);
	assert_int_equal(open_session(w).no, REASON_SESSION_LIMIT); /* sessions.open: 4 */
	{
		struct got g = { 0 };
		struct refusal no;

		assert_int_equal(mediate_close(&w->m, w->session, w->token, &g, &no), 0);
		run_until_owed_nothing(w);
		assert_int_equal(g.times, 1);
		assert_true(mediate_close(&w->m, w->session, w->token, &g, &no) < 0);
		assert_int_equal(no.code, REASON_SESSION_CLOSED);
	}
	assert_false(open_session(w).refused);
}

static void test_strangers(void **state)
{
	struct world *w = *state;
	uint64_t before = state_next_seq(w->m.state);
	struct got g;

	w->token[0] ^= 1;
	g = ask(w, (struct asked){ .tool = "free" });
	assert_true(g.refused);
	assert_int_equal(g.no, REASON_UNAUTHENTICATED);
	assert_int_equal(settle(w, before - 1, OUTCOME_OK, -1).no, REASON_UNAUTHENTICATED);
	assert_int_equal(state_next_seq(w->m.state), before); /* counted, never an entry */
	assert_int_equal(w->m.count.unauthenticated, 2);
}

/* S2, semantics 1: whatever disk call fails, nothing is answered that is not on disk, nothing half-applied stays, and it heals. */
static void test_disk_fails(void **state)
{
	struct world *w = *state;

	for (int sync = 0; sync <= 1; sync++)
		for (int nth = 0; nth < 4; nth++) {
			struct got g[3], after;
			uint8_t before[32], now[32];
			char call[16];
			int64_t used;

			assert_false(open_session(w).refused);
			used = run_used(w);
			second_digest(w, before);
			*(sync ? &w->disk.syncs_left : &w->disk.writes_left) = 0;
			for (int i = 0; i < 3; i++) {
				(void)snprintf(call, sizeof(call), "f%d-%d-%d", sync, nth, i);
				(void)ask_start(w, &(struct asked){ .tool = "fetch", .call = call }, &g[i]);
				if (nth & 1)
					run_until_owed_nothing(w);
			}
			run_until_owed_nothing(w);
			for (int i = 0; i < 3; i++) {
				assert_true(g[i].refused);
				assert_int_equal(g[i].no, REASON_LOG_UNAVAILABLE);
			}
			assert_false(w->m.open);
			second_digest(w, now);
			assert_memory_equal(before, now, 32);
			assert_int_equal(ask(w, (struct asked){ .tool = "free" }).no, REASON_LOG_UNAVAILABLE);
			/* still broken at the next try, then it can write again */
			w->now += NS_PER_SEC;
			(void)mediate_tick(&w->m, clock_now(&w->clock));
			run_until_owed_nothing(w);
			w->disk = (struct disk){ -1, -1, false };
			w->now += NS_PER_SEC;
			(void)mediate_tick(&w->m, clock_now(&w->clock));
			run_until_owed_nothing(w);
			if (!w->m.open) {
				w->now += NS_PER_SEC;
				(void)mediate_tick(&w->m, clock_now(&w->clock));
				run_until_owed_nothing(w);
			}
			assert_true(w->m.open);
			assert_int_equal(run_used(w), used);
			(void)snprintf(call, sizeof(call), "f%d-%d-0", sync, nth);
			after = ask(w, (struct asked){ .tool = "fetch", .call = call });
			assert_int_equal(after.verdict, VERDICT_ALLOW); /* the first try left nothing: not even its key */
			assert_states_equal(w);
			{
				struct got closed = { 0 };
				struct refusal no;

				assert_int_equal(mediate_close(&w->m, w->session, w->token, &closed, &no), 0);
				run_until_owed_nothing(w);
			}
		}
}

/* The room that is kept for a full disk is for endings: an orderly stop is in the log, and what ran before it is all there. */
static void test_a_full_disk_takes_a_stop(void **state)
{
	struct world *w = *state;
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	struct pawl_error err;
	struct refusal no;
	char call[16], args[32];
	struct got g;
	uint64_t seq;
	int n = 0;

	w->disk.full = true;
	do {
		(void)snprintf(call, sizeof(call), "c%d", n);
		(void)snprintf(args, sizeof(args), "{\"n\":%d}", n);
		assert_true(++n < 2000);
		g = ask(w, (struct asked){ .tool = "free", .call = call, .args = args });
	} while (!g.refused);
	assert_int_equal(g.no, REASON_LOG_UNAVAILABLE);
	assert_false(w->m.open);
	assert_true(n > 20); /* what was allocated was used */
	w->now += NS_PER_SEC;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_false(w->m.open); /* nobody made room */
	seq = w->m.durable;
	mediate_last_resort(&w->m);
	assert_true(w->m.open);
	assert_int_equal(mediate_stop(&w->m, STR("told to stop"), &no), 0);
	run_until_owed_nothing(w);
	assert_int_equal(w->m.durable, seq + 1);
	assert_int_equal(journal_read(w->journal, seq, &note, &err), 0);
	assert_non_null(memmem(note.p, note.n, "\"kind\":\"stop\"", 13));
	buf_done(&note);
	assert_states_equal(w);
}

static void put_state_back(struct world *w)
{
	for (int i = 0; w->m.ahead && i < 500; i++) {
		(void)mediate_tick(&w->m, clock_now(&w->clock));
		(void)poll(NULL, 0, 5);
	}
	assert_false(w->m.ahead);
}

/* An answer that shows the state leaves when what it shows is on disk, and never when that did not get there. */
static void test_shown_when_durable(void **state)
{
	struct world *w = *state;
	struct got asked, shown = { 0 };

	assert_false(mediate_shown(&w->m, &shown, true)); /* all of it is */
	assert_int_equal(ask_start(w, &(struct asked){ .tool = "fetch", .call = "s1" }, &asked), 0);
	assert_true(mediate_shown(&w->m, &shown, true));
	assert_int_equal(shown.times, 0);
	run_until_owed_nothing(w);
	assert_int_equal(shown.times, 1);
	assert_int_equal(shown.no, REASON_OK);

	shown = (struct got){ 0 };
	w->disk.syncs_left = 0;
	assert_int_equal(ask_start(w, &(struct asked){ .tool = "fetch", .call = "s2" }, &asked), 0);
	assert_true(mediate_shown(&w->m, &shown, true));
	run_until_owed_nothing(w);
	assert_int_equal(shown.times, 1);
	assert_int_equal(shown.no, REASON_LOG_UNAVAILABLE);
	shown = (struct got){ 0 };
	assert_true(w->m.ahead);
	assert_true(mediate_shown(&w->m, &shown, true)); /* the state is not to be looked at now */
	assert_int_equal(shown.no, REASON_LOG_UNAVAILABLE);
	put_state_back(w); /* though there is still no disk */
	assert_false(w->m.open);
	assert_false(mediate_shown(&w->m, &shown, true));
	assert_int_equal(run_used(w), CENT(30));
	assert_states_equal(w);
}

/* While the disk takes its time only so many answers are held; a person is never among those that are too many. */
static void test_so_many_are_held(void **state)
{
	struct world *w = *state;
	struct got first = ask(w, (struct asked){ .tool = "fetch", .call = "h0" }), asked, again, over = { 0 }, person = { 0 };
	struct got *shown = calloc(PAWL_MAX_HELD, sizeof(*shown));

	assert_non_null(shown);
	assert_int_equal(ask_start(w, &(struct asked){ .tool = "fetch", .call = "h1" }, &asked), 0);
	for (size_t i = 0; i < PAWL_MAX_HELD; i++)
		assert_true(mediate_shown(&w->m, &shown[i], true));
	assert_true(mediate_shown(&w->m, &over, true));
	assert_int_equal(over.no, REASON_UNAVAILABLE);
	assert_true(ask_start(w, &(struct asked){ .tool = "fetch", .call = "h0" }, &again) < 0); /* an old answer again */
	assert_true(mediate_shown(&w->m, &person, false));
	assert_int_equal(person.times, 0);
	run_until_owed_nothing(w);
	for (size_t i = 0; i < PAWL_MAX_HELD; i++)
		assert_true(shown[i].times == 1 && shown[i].no == REASON_OK);
	assert_int_equal(person.times, 1);
	assert_int_equal(person.no, REASON_OK);
	again = ask(w, (struct asked){ .tool = "fetch", .call = "h0" });
	assert_int_equal(again.seq, first.seq);
	free(shown);
}

static void test_review_card(void **state)
{
	struct world *w = *state;
	struct got a = ask(w, (struct asked){ .tool = "pay", .call = "p1", .args = "{\"n\":1}" });
	struct got b = ask(w, (struct asked){ .tool = "pay", .call = "p2", .args = "{\"n\":1}" });
	struct got c = ask(w, (struct asked){ .tool = "pay", .call = "p3", .args = "{\"n\":2}" });

	assert_int_equal(a.verdict, VERDICT_REVIEW);
	assert_int_equal(a.card, a.seq);
	assert_int_equal(b.card, a.card); /* an equal call joins */
	assert_true(c.card != a.card);
	w->now += 3600 * NS_PER_SEC;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_null(state_card_after(w->m.state, 0, 0)); /* timed out */
	assert_states_equal(w);
}

/* ---- people ---- */

static const struct signed_by anna = { .operator = { "anna", 4 }, .key = { "anna+00000000+AA==", 18 } };

static struct got resolve(struct world *w, uint64_t card, enum resolve_action action)
{
	struct resolve_args a = { .card = card, .action = action, .reason = STR("because"), .by = &anna };
	struct got g = { 0 };
	struct refusal no;

	if (mediate_resolve(&w->m, &a, &g, &no) < 0) {
		g.refused = true;
		g.no = no.code;
	} else {
		run_until_owed_nothing(w);
	}
	return g;
}

static struct got claim(struct world *w, uint64_t card, const char *tool, const char *args, const char *call)
{
	struct pawl_error err;
	struct json *parsed = NULL;
	struct request_call rq = { .kind = CALL_TOOL, .tool = str_of(tool), .call = str_of(call) };
	struct claim_args a = { w->session, card, w->token, &rq };
	struct got g = { 0 };
	struct refusal no;

	assert_int_equal(json_parse(str_of(args), 32, &parsed, &err), 0);
	rq.args = parsed;
	memset(rq.client, 1, sizeof(rq.client));
	if (mediate_claim(&w->m, &a, &g, &no) < 0) {
		g.refused = true;
		g.no = no.code;
	} else {
		run_until_owed_nothing(w);
	}
	json_free(parsed);
	return g;
}

/* A04, A05, A10: an approval is for this call, once, and the first answer stands. */
static void test_resume_once(void **state)
{
	struct world *w = *state;
	struct got card = ask(w, (struct asked){ .tool = "pay", .call = "p1", .args = "{\"n\":5}" }), g;

	assert_string_equal("{\"n\":5}", reviews_args(w->reviews, card.card).p ? "{\"n\":5}" : "");
	assert_false(resolve(w, card.card, RESOLVE_RESUME).refused);
	assert_int_equal(resolve(w, card.card, RESOLVE_SKIP).no, REASON_REPLAY_CONFLICT);
	assert_int_equal(claim(w, card.card, "pay", "{\"n\":6}", "k0").no, REASON_MALFORMED);
	assert_int_equal(claim(w, card.card, "fetch", "{\"n\":5}", "k0").no, REASON_MALFORMED);
	g = claim(w, card.card, "pay", "{\"n\":5}", "k1");
	assert_int_equal(g.kind, ENTRY_CLAIM);
	assert_int_equal(state_card_by_id(w->m.state, card.card)->mode, CARD_SPENT);
	assert_int_equal(state_card_by_id(w->m.state, card.card)->spent_by, g.seq);
	g = ask(w, (struct asked){ .tool = "pay", .call = "p2", .args = "{\"n\":5}" });
	assert_int_equal(g.verdict, VERDICT_REVIEW); /* spent: a new question */
	assert_true(g.card != card.card);
	assert_states_equal(w);
}

static int note_value(void *arg, const struct private_row *row, struct pawl_error *err)
{
	uint64_t *seen = arg;

	(void)err;
	for (size_t i = 0; i < 8; i++)
		if (!seen[i]) {
			seen[i] = row->seq;
			break;
		}
	return 0;
}

/* The store's values by card, once no more than `want` are left. */
static void wait_for_values(struct world *w, uint64_t seen[static 8], size_t want)
{
	struct pawl_error err;

	for (int i = 0; i < 10000; i++) {
		memset(seen, 0, 8 * sizeof(seen[0]));
		assert_int_equal(private_values(w->priv, note_value, seen, &err), 0);
		if (!seen[want])
			return;
		(void)usleep(1000);
	}
	fail_msg("r_%llu's arguments stay", (unsigned long long)seen[want]);
}

/* Arguments are private: they are stored for as long as a card may show them, or an approval be judged again, and no longer. */
static void test_arguments_go(void **state)
{
	struct world *w = *state;
	uint64_t seen[8], spent, waits, yes;

	spent = ask(w, (struct asked){ .tool = "pay", .call = "p1", .args = "{\"n\":1}" }).card;
	waits = ask(w, (struct asked){ .tool = "pay", .call = "p2", .args = "{\"n\":2}" }).card;
	yes = ask(w, (struct asked){ .tool = "pay", .call = "p3", .args = "{\"n\":3}" }).card;
	assert_false(resolve(w, spent, RESOLVE_RESUME).refused);
	assert_false(resolve(w, yes, RESOLVE_RESUME).refused);
	assert_int_equal(claim(w, spent, "pay", "{\"n\":1}", "p1").kind, ENTRY_CLAIM);
	w->now += 11 * NS_PER_SEC;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	wait_for_values(w, seen, 2);
	assert_true(seen[0] == waits && seen[1] == yes);
	assert_true(reviews_args(w->reviews, waits).n && reviews_args(w->reviews, yes).n && !reviews_args(w->reviews, spent).n);
	assert_false(resolve(w, waits, RESOLVE_ABORT).refused); /* the session is over: so is all that it asked */
	w->now += 11 * NS_PER_SEC;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	wait_for_values(w, seen, 0);
	assert_states_equal(w);
}

static void test_resume_spent_by_decide(void **state)
{
	struct world *w = *state;
	struct got card = ask(w, (struct asked){ .tool = "pay", .call = "p1" }), g;

	assert_false(resolve(w, card.card, RESOLVE_RESUME).refused);
	g = ask(w, (struct asked){ .tool = "pay", .call = "another" });
	assert_int_equal(g.verdict, VERDICT_ALLOW);
	assert_int_equal(state_card_by_id(w->m.state, card.card)->spent_by, g.seq);
	assert_states_equal(w);
}

static void test_skip_and_abort(void **state)
{
	struct world *w = *state;
	struct got card = ask(w, (struct asked){ .tool = "pay", .call = "p1" }), held;

	assert_false(resolve(w, card.card, RESOLVE_SKIP).refused);
	assert_int_equal(ask(w, (struct asked){ .tool = "pay", .call = "p2" }).code, REASON_REVIEW_SKIPPED);
	held = ask(w, (struct asked){ .tool = "fetch", .call = "f" });
	card = ask(w, (struct asked){ .tool = "pay", .call = "p3", .args = "{\"n\":1}" });
	assert_false(resolve(w, card.card, RESOLVE_ABORT).refused);
	assert_int_equal(state_session(w->m.state, w->session)->end, SESSION_ENDED_ABORT);
	assert_int_equal(ask(w, (struct asked){ .tool = "free", .call = "x" }).code, REASON_SESSION_ABORTED);
	assert_int_equal(run_used(w), CENT(30)); /* what was open is charged as it was held */
	assert_int_equal(settle(w, held.seq, OUTCOME_OK, CENT(31)).kind, ENTRY_LOSS); /* a late report may add */
	assert_int_equal(open_session(w).no, REASON_SESSION_ABORTED);		      /* abort_hold */
	w->now += 61 * NS_PER_SEC;
	assert_false(open_session(w).refused);
	assert_states_equal(w);
}

/* A person who saw 0.2 has not said yes to 0.9: the card grew between the look and the answer. */
static void test_a_yes_to_what_was_shown(void **state)
{
	static const struct {
		int64_t money, tokens;
		bool refused;
	} rows[] = { { CENT(89), 100, true }, { CENT(90), 99, true }, { 0, 0, true }, { CENT(90), 100, false } };
	struct world *w = *state;
	struct got card = ask(w, (struct asked){ .tool = "pay", .call = "p1" });
	struct refusal no;

	{
		struct request_call rq = { .kind = CALL_TOOL, .tool = STR("pay"), .call = STR("p2"), .has_money = true, .money = CENT(90), .has_tokens = true, .tokens = 100 };
		struct decide_args d = { w->session, w->token, &rq };
		struct json *args = NULL;
		struct got g = { 0 };

		assert_int_equal(json_parse(STR("{}"), 32, &args, NULL), 0);
		rq.args = args;
		memset(rq.client, 1, sizeof(rq.client));
		assert_int_equal(mediate_decide(&w->m, &d, &g, &no), 0);
		run_until_owed_nothing(w);
		assert_int_equal(g.card, card.card);
		json_free(args);
	}
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct resolve_args a = { .card = card.card, .action = RESOLVE_RESUME, .has_shown = true, .shown_money = rows[i].money, .shown_tokens = rows[i].tokens, .by = &anna };
		struct got g = { 0 };

		assert_int_equal(mediate_resolve(&w->m, &a, &g, &no) < 0, rows[i].refused);
		if (rows[i].refused)
			assert_int_equal(no.code, REASON_REVIEW_REQUIRED);
		run_until_owed_nothing(w);
		assert_int_equal(state_card_by_id(w->m.state, card.card)->mode, rows[i].refused ? CARD_PENDING : CARD_RESUMED);
	}
	assert_states_equal(w);
}

/* A later no to the same call stops an older yes that nobody has used. */
static void test_no_after_yes(void **state)
{
	struct world *w = *state;
	struct got first = ask(w, (struct asked){ .tool = "pay", .call = "p1" }), second;

	assert_true(mediate_gave_up(&w->m, first.card, NULL)); /* its waiter left: an equal decide will not spend the yes */
	run_until_owed_nothing(w);
	assert_false(mediate_gave_up(&w->m, first.card, NULL));
	assert_false(resolve(w, first.card, RESOLVE_RESUME).refused);
	second = ask(w, (struct asked){ .tool = "pay", .call = "p2" });
	assert_int_equal(second.verdict, VERDICT_REVIEW);
	assert_true(second.card != first.card);
	assert_false(resolve(w, second.card, RESOLVE_SKIP).refused);
	assert_int_equal(claim(w, first.card, "pay", "{}", "k").code, REASON_REVIEW_SKIPPED);
	assert_states_equal(w);
}

/* Everybody waits for a probe: its caller's own long lease does not count. */
static void test_probe_is_no_hostage(void **state)
{
	struct world *w = *state;
	struct got g;
	char call[16];

	for (int i = 0; i < 2; i++) {
		(void)snprintf(call, sizeof(call), "w%d", i);
		g = ask(w, (struct asked){ .tool = "flaky", .call = call });
		(void)settle(w, g.seq, OUTCOME_ERROR, -1);
	}
	w->now += 30 * NS_PER_SEC;
	g = ask(w, (struct asked){ .tool = "flaky", .call = "probe", .lease_ns = 3600 * NS_PER_SEC });
	assert_int_equal(g.verdict, VERDICT_ALLOW);
	assert_int_equal(state_decision(w->m.state, g.seq)->lease_until, clock_now(&w->clock) + 10 * NS_PER_SEC);
}

/* C03: a probe that never reports is a failure when its lease is over. */
static void test_probe_expires(void **state)
{
	struct world *w = *state;
	struct breaker_row key = { .id = STR("f"), .scope = SCOPE_COUNT };
	struct got g;
	char call[16];

	for (int i = 0; i < 2; i++) {
		(void)snprintf(call, sizeof(call), "w%d", i);
		g = ask(w, (struct asked){ .tool = "flaky", .call = call });
		assert_int_equal(g.verdict, VERDICT_ALLOW);
		(void)settle(w, g.seq, OUTCOME_ERROR, -1);
	}
	assert_int_equal(state_breaker(w->m.state, &key)->mode, BREAKER_OPEN);
	assert_int_equal(ask(w, (struct asked){ .tool = "flaky", .call = "w2" }).code, REASON_BREAKER_OPEN);
	w->now += 30 * NS_PER_SEC;
	assert_int_equal(ask(w, (struct asked){ .tool = "flaky", .call = "probe" }).verdict, VERDICT_ALLOW);
	assert_int_equal(ask(w, (struct asked){ .tool = "flaky", .call = "w3" }).code, REASON_BREAKER_OPEN); /* one at a time */
	w->now += 10 * NS_PER_SEC;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_int_equal(state_breaker(w->m.state, &key)->mode, BREAKER_OPEN);
	assert_int_equal(ask(w, (struct asked){ .tool = "flaky", .call = "w4" }).code, REASON_BREAKER_OPEN);
	{
		struct got reset = { 0 };
		struct refusal no;

		assert_int_equal(mediate_breaker_reset(&w->m, &key, STR("mended"), &anna, &reset, &no), 0);
		run_until_owed_nothing(w);
	}
	assert_int_equal(ask(w, (struct asked){ .tool = "flaky", .call = "w5" }).verdict, VERDICT_ALLOW);
	assert_states_equal(w);
}

/* B12: a child draws from its parent's ledger at once; a share is fixed at the opening. */
static void test_child(void **state)
{
	struct world *w = *state;
	uint64_t parent = w->session;
	uint8_t parent_token[32];
	struct open_args a = { .agent = STR("local"), .parent = parent, .share_percent = 50 };
	struct got g = { 0 };
	struct refusal no;

	memcpy(parent_token, w->token, 32);
	a.parent_token = parent_token;
	memset(a.token, 0x77, sizeof(a.token));
	assert_int_equal(ask(w, (struct asked){ .tool = "fetch", .call = "f1" }).verdict, VERDICT_ALLOW); /* 0.30 of 1 */
	assert_int_equal(mediate_open(&w->m, &a, &g, &no), 0);
	run_until_owed_nothing(w);
	w->session = g.seq;
	memcpy(w->token, a.token, 32);
	assert_int_equal(state_session(w->m.state, g.seq)->root, parent);
	assert_int_equal(state_session(w->m.state, g.seq)->limit[UNIT_MONEY], CENT(35));
	assert_int_equal(ask(w, (struct asked){ .tool = "fetch", .call = "f1" }).verdict, VERDICT_ALLOW);
	assert_int_equal(ask(w, (struct asked){ .tool = "fetch", .call = "f2" }).code, REASON_BUDGET); /* its own 0.35 */
	w->session = parent;
	assert_int_equal(run_used(w), CENT(60));
	memcpy(w->token, parent_token, 32);
	assert_int_equal(ask(w, (struct asked){ .tool = "fetch", .call = "f3" }).verdict, VERDICT_ALLOW);
	assert_int_equal(ask(w, (struct asked){ .tool = "fetch", .call = "f4" }).code, REASON_BUDGET);
	parent_token[0] ^= 1;
	assert_true(mediate_open(&w->m, &a, &g, &no) < 0);
	assert_int_equal(no.code, REASON_UNAUTHENTICATED);
	assert_states_equal(w);
}

/* B21, B22: one batch of calls is judged in order, each gets an answer, and what is denied costs nothing. */
static void test_batch(void **state)
{
	struct world *w = *state;
	struct got g[8];
	int allowed = 0;
	char call[8];

	for (int i = 0; i < 8; i++) {
		(void)snprintf(call, sizeof(call), "b%d", i);
		assert_int_equal(ask_start(w, &(struct asked){ .tool = "fetch", .call = call }, &g[i]), 0);
	}
	run_until_owed_nothing(w);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(g[i].times, 1);
		assert_int_equal(g[i].verdict, i < 3 ? VERDICT_ALLOW : VERDICT_DENY);
		allowed += g[i].verdict == VERDICT_ALLOW;
	}
	assert_int_equal(allowed, 3);
	assert_int_equal(run_used(w), CENT(90));
}

static struct policy *in_shadow_mode(void)
{
	struct policy_report rep = { 0 };
	struct policy *pol = NULL;
	struct pawl_error err;
	char text[2048];

	(void)snprintf(text, sizeof(text), "pawl: 1\nmode: shadow\n%s", strchr(policy_text, '\n') + 1);
	assert_int_equal(policy_load(str_of(text), "shadow.yaml", &pol, &rep, &err), 0);
	policy_report_done(&rep);
	return pol;
}

/* The entry of a switch is lost with its batch: before the first answer afterwards the log says the mode again. */
static void test_a_switch_that_is_lost(void **state)
{
	struct world *w = *state;
	struct got g = { 0 };
	struct refusal no;

	w->disk.syncs_left = 0;
	assert_int_equal(mediate_policy(&w->m, in_shadow_mode(), STR_NONE, NULL, &g, &no), 0);
	run_until_owed_nothing(w);
	assert_true(g.refused && !w->m.open);
	put_state_back(w);
	assert_int_equal(state_mode(w->m.state), MODE_ENFORCE);
	w->disk = (struct disk){ -1, -1, false };
	for (int i = 0; i < 2 && !w->m.open; i++) {
		w->now += NS_PER_SEC;
		(void)mediate_tick(&w->m, clock_now(&w->clock));
		run_until_owed_nothing(w);
	}
	assert_true(w->m.open);
	g = ask(w, (struct asked){ .tool = "pay", .call = "s1" });
	assert_int_equal(g.verdict, VERDICT_ALLOW);
	assert_int_equal(state_mode(w->m.state), MODE_SHADOW);
	assert_int_equal(w->m.count.would[VERDICT_REVIEW], 1);
	/* and where even that could not be written at once */
	w->m.policy->mode = MODE_ENFORCE;
	g = ask(w, (struct asked){ .tool = "pay", .call = "s2" });
	assert_int_equal(g.verdict, VERDICT_REVIEW);
	assert_int_equal(state_mode(w->m.state), MODE_ENFORCE);
	w->m.policy->mode = MODE_SHADOW;
	(void)mediate_tick(&w->m, clock_now(&w->clock));
	run_until_owed_nothing(w);
	assert_int_equal(state_mode(w->m.state), MODE_SHADOW);
	assert_states_equal(w);
}

/* A card that the laws would still ask for waits on when nothing is asked any more, and one that they would not is closed. */
static void test_cards_at_the_switch(void **state)
{
	struct world *w = *state;
	uint64_t card = ask(w, (struct asked){ .tool = "pay", .call = "p" }).card;
	struct got g = { 0 };
	struct policy *pol;
	struct refusal no;

	assert_int_equal(mediate_policy(&w->m, in_shadow_mode(), STR_NONE, NULL, &g, &no), 0);
	run_until_owed_nothing(w);
	assert_int_equal(state_card_by_id(w->m.state, card)->mode, CARD_PENDING);
	assert_int_equal(ask(w, (struct asked){ .tool = "pay", .call = "p" }).verdict, VERDICT_ALLOW);
	assert_int_equal(state_card_by_id(w->m.state, card)->mode, CARD_PENDING);
	pol = in_shadow_mode();
	pol->attended = false; /* the laws would deny it now */
	assert_int_equal(mediate_policy(&w->m, pol, STR_NONE, NULL, &g, &no), 0);
	run_until_owed_nothing(w);
	assert_int_equal(state_card_by_id(w->m.state, card)->mode, CARD_CLOSED);
	assert_states_equal(w);
}

int main(void)
{
#define ROW(t) cmocka_unit_test_setup_teardown(t, make_world, end_world)
	const struct CMUnitTest tests[] = {
		ROW(test_allow_and_settle), ROW(test_settle_rules),  ROW(test_denied_cannot_settle), ROW(test_same_call_same_answer),
		ROW(test_lease_over),	    ROW(test_stale_session), ROW(test_open_caps),	     ROW(test_strangers),
		ROW(test_disk_fails),	    ROW(test_shown_when_durable), ROW(test_so_many_are_held), ROW(test_review_card),   ROW(test_batch),
		ROW(test_resume_once),	    ROW(test_resume_spent_by_decide), ROW(test_skip_and_abort), ROW(test_probe_expires),
		ROW(test_a_switch_that_is_lost), ROW(test_cards_at_the_switch),
		ROW(test_child),	    ROW(test_no_after_yes),  ROW(test_probe_is_no_hostage),
		ROW(test_arguments_go),  ROW(test_a_full_disk_takes_a_stop), ROW(test_a_yes_to_what_was_shown),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests_name("mediate", tests, NULL, NULL);
}
