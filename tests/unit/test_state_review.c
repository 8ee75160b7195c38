/* tests/unit/test_state_review.c - cards: who joins, who answers, what an approval is spent by, and what an abort ends. */
#include "tests/support/state_feed.h"

static struct entry ask(const struct feed *f, uint64_t session, uint64_t call, uint64_t args)
{
	struct entry e = decision(f, session, call, args, VERDICT_REVIEW, NULL, 0);
	const struct card_state *card = state_card(f->st, session, e.decision.card_token);

	e.decision.asks[0] = (struct ask){ .code = REASON_RULE, .rule = STR("ask-first") };
	e.decision.asks[1] = (struct ask){ .code = REASON_BUDGET, .rule = STR("run") };
	e.decision.n_asks = 2;
	if (card && card->mode == CARD_PENDING) {
		e.decision.card = card->id;
		e.decision.card_until = card->until;
	}
	return e;
}

enum act { STAY, RESUME, SKIP, ABORT, CLOSE, TIME_OUT, SPEND, CLAIM, CLOSE_SESSION };

static void act(struct feed *f, enum act what, uint64_t card)
{
	static const enum resolve_action answer[] = { [RESUME] = RESOLVE_RESUME, [SKIP] = RESOLVE_SKIP, [ABORT] = RESOLVE_ABORT,
						      [CLOSE] = RESOLVE_CLOSE };
	uint64_t session = state_card_by_id(f->st, card)->session;
	struct entry e;

	switch (what) {
	case STAY:
		return;
	case RESUME:
	case SKIP:
	case ABORT:
	case CLOSE:
		e = resolving(f, card, answer[what]);
		break;
	case TIME_OUT:
		f->now = state_card_by_id(f->st, card)->until;
		e = timing_out(f, session, card);
		break;
	case SPEND:
	case CLAIM:
		e = spending(f, session, 77, 1, card, what == CLAIM);
		break;
	case CLOSE_SESSION:
		e = ending(f, session, SESSION_CLOSE);
		break;
	}
	put(f, &e);
}

/* The whole life of a card: what becomes of it, whether it is still due, and what else may happen to it then. */
static void test_lives(void **state)
{
	static const struct {
		const char *name;
		enum act acts[3];
		enum card_mode mode;
		bool pending, due;
	} lives[] = {
		{ "asked", { STAY }, CARD_PENDING, true, true },
		{ "resumed", { RESUME }, CARD_RESUMED, false, true },
		{ "skipped", { SKIP }, CARD_SKIPPED, false, false },
		{ "aborted", { ABORT }, CARD_ABORTED, false, false },
		{ "closed by a reload", { CLOSE }, CARD_CLOSED, false, false },
		{ "timed out", { TIME_OUT }, CARD_TIMED_OUT, false, false },
		{ "its session ended", { CLOSE_SESSION }, CARD_CLOSED, false, false },
		{ "resumed and spent by an equal call", { RESUME, SPEND }, CARD_SPENT, false, false },
		{ "resumed and claimed", { RESUME, CLAIM }, CARD_SPENT, false, false },
		{ "resumed and forgotten", { RESUME, TIME_OUT }, CARD_TIMED_OUT, false, false },
		{ "resumed, then its session ended", { RESUME, CLOSE_SESSION }, CARD_CLOSED, false, false },
		{ "spent, then its session ended", { RESUME, SPEND, CLOSE_SESSION }, CARD_SPENT, false, false },
		{ "skipped, then its session ended", { SKIP, CLOSE_SESSION }, CARD_SKIPPED, false, false },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(lives); i++) {
		struct feed f = feed_new();
		uint64_t s = open_session(&f);
		struct entry e = ask(&f, s, 1, 1), again;
		struct deadline due;
		bool is_due = false;

		put(&f, &e);
		for (size_t k = 0; k < PAWL_LEN(lives[i].acts); k++)
			act(&f, lives[i].acts[k], e.seq);
		while (state_next_deadline(f.st, &due) && !is_due) {
			is_due = due.kind == DEADLINE_CARD && due.id == e.seq && due.session == s;
			if (is_due || due.kind == DEADLINE_CARD)
				break;
			f.now = due.at > f.now ? due.at : f.now;
			again = expiry(&f, s, due.id);
			put(&f, &again);
		}
		if (state_card_by_id(f.st, e.seq)->mode != lives[i].mode || is_due != lives[i].due ||
		    state_session(f.st, s)->pending_cards != lives[i].pending ||
		    (state_card_after(f.st, 0, 0) != NULL) != lives[i].pending || (state_card_after(f.st, s, 0) != NULL) != lives[i].pending)
			fail_msg("%s: mode %d, due %d", lives[i].name, state_card_by_id(f.st, e.seq)->mode, is_due);
		for (enum resolve_action a = RESOLVE_RESUME; a < RESOLVE_ACTION_COUNT; a++) { /* the first answer stands */
			again = resolving(&f, e.seq, a);
			assert_int_equal(state_room(f.st, &again, NULL), lives[i].mode == CARD_PENDING ? 0 : PAWL_E_TAMPERED);
		}
		if (state_session(f.st, s)->end == SESSION_LIVE) { /* spent once, and only when it was approved */
			again = spending(&f, s, 99, 1, e.seq, true);
			assert_int_equal(state_room(f.st, &again, NULL), lives[i].mode == CARD_RESUMED ? 0 : PAWL_E_TAMPERED);
		}
		state_free(f.st);
	}
}

static void test_what_a_card_says(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), first, spent;
	const struct card_state *card;
	struct entry e = ask(&f, s, 1, 1);

	(void)state;
	e.decision.money = 5;
	e.decision.tokens = 90;
	put(&f, &e);
	first = e.seq;
	e = ask(&f, s, 2, 1); /* joins; asks what it likes */
	e.decision.money = 8;
	e.decision.tokens = 10;
	e.decision.n_asks = 1;
	put(&f, &e);
	e.seq = state_next_seq(f.st);
	e.decision.money = 2;
	put(&f, &e);
	card = state_card_by_id(f.st, first);
	assert_ptr_equal(card, state_card(f.st, s, e.decision.card_token));
	assert_null(state_card_by_id(f.st, e.seq)); /* a decision, but not one that opened a card */
	assert_null(state_card_by_id(f.st, s));
	assert_int_equal(card->session, s);
	assert_int_equal(card->opened_ns, f.now);
	assert_int_equal(card->until, f.now + 600 * SEC);
	assert_true(str_is(card->tool, "t"));
	assert_memory_equal(card->token, e.decision.card_token, 16);
	assert_int_equal(card->money, 8);
	assert_int_equal(card->tokens, 90);
	assert_int_equal(card->n_asks, 2);
	assert_true(card->asks[0].code == REASON_RULE && str_is(card->asks[0].rule, "ask-first"));
	assert_true(card->asks[1].code == REASON_BUDGET && str_is(card->asks[1].rule, "run"));
	assert_int_equal(state_decision(f.st, first)->card, first);
	assert_int_equal(state_decision(f.st, e.seq)->card, first);
	act(&f, RESUME, first);
	assert_true(str_is(card->operator, "ann") && str_is(card->reason, "looks fine"));
	assert_int_equal(card->spent_by, 0);
	e = spending(&f, s, 2, 1, first, true);
	put(&f, &e);
	spent = e.seq;
	assert_int_equal(card->spent_by, spent);
	assert_true(state_decision(f.st, spent)->claim);
	assert_int_equal(state_decision(f.st, spent)->card, first);
	e = at(&f, ENTRY_SETTLE);
	e.settle = (struct entry_settle){ .session = s, .decision = spent, .outcome = OUTCOME_OK };
	put(&f, &e);
	assert_int_equal(state_decision(f.st, spent)->card, first); /* and afterwards */
	assert_true(state_decision(f.st, spent)->claim);
	state_free(f.st);
}

/* After an answer the next equal call may open a new card; the newest is what is found by the call, all by their ids. */
static void test_the_newest_card(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), old, newest;
	struct entry e = ask(&f, s, 1, 1);

	(void)state;
	put(&f, &e);
	old = e.seq;
	act(&f, RESUME, old);
	e = ask(&f, s, 1, 1);
	assert_int_equal(e.decision.card, e.seq); /* a resumed card is not joined */
	put(&f, &e);
	newest = e.seq;
	assert_int_equal(state_card(f.st, s, e.decision.card_token)->id, newest);
	assert_int_equal(state_card_by_id(f.st, old)->mode, CARD_RESUMED);
	act(&f, CLAIM, old); /* its approval can still be spent by its id */
	assert_int_equal(state_card_by_id(f.st, old)->mode, CARD_SPENT);
	assert_int_equal(state_card(f.st, s, e.decision.card_token)->id, newest);
	state_free(f.st);
}

/* The approval that is used ends the other cards of the same call, waiting or approved, and no others. Entries of older logs do not say so. */
static void test_one_call_one_execution(void **state)
{
	(void)state;
	for (int says = 0; says < 2; says++) {
		struct feed f = feed_new();
		uint64_t s = open_session(&f), t = open_session(&f), card[3], skipped = plain(&f, s, 1, 1, VERDICT_REVIEW), other, elsewhere;
		struct entry e;

		act(&f, SKIP, skipped);
		for (size_t i = 0; i < 3; i++) {
			card[i] = plain(&f, s, 1, 1, VERDICT_REVIEW);
			if (i < 2)
				act(&f, RESUME, card[i]);
		}
		other = plain(&f, s, 2, 2, VERDICT_REVIEW);
		elsewhere = plain(&f, t, 1, 3, VERDICT_REVIEW);
		act(&f, RESUME, other);
		e = spending(&f, s, 7, 1, card[0], true);
		e.decision.ends_cards = says;
		put(&f, &e);
		assert_int_equal(state_card_by_id(f.st, skipped)->mode, CARD_SKIPPED);
		assert_int_equal(state_card_by_id(f.st, card[0])->mode, CARD_SPENT);
		assert_int_equal(state_card_by_id(f.st, card[1])->mode, says ? CARD_CLOSED : CARD_RESUMED);
		assert_int_equal(state_card_by_id(f.st, card[1])->spent_by, says ? e.seq : 0);
		assert_int_equal(state_card_by_id(f.st, card[2])->mode, says ? CARD_CLOSED : CARD_PENDING);
		assert_int_equal(state_card_by_id(f.st, other)->mode, CARD_RESUMED);
		assert_int_equal(state_card_by_id(f.st, elsewhere)->mode, CARD_PENDING);
		assert_int_equal(state_session(f.st, s)->pending_cards, !says);
		e = spending(&f, s, 8, 1, card[1], true);
		assert_int_equal(state_room(f.st, &e, NULL), says ? PAWL_E_TAMPERED : 0);
		e = at(&f, ENTRY_SETTLE);
		e.settle = (struct entry_settle){ .session = s, .decision = e.seq - 1, .outcome = OUTCOME_OK };
		put(&f, &e);
		assert_int_equal(state_decision(f.st, e.seq - 1)->card, card[0]); /* not one that only ended with it */
		state_free(f.st);
	}
}

static void test_pending_ones_in_order(void **state)
{
	struct feed f = feed_new();
	uint64_t a = open_session(&f), b = open_session(&f), id[6];

	(void)state;
	for (uint64_t i = 0; i < 6; i++)
		id[i] = plain(&f, i % 2 ? b : a, i, i, VERDICT_REVIEW);
	act(&f, RESUME, id[0]);
	act(&f, SKIP, id[2]);
	act(&f, RESUME, id[3]);
	assert_int_equal(state_card_after(f.st, 0, 0)->id, id[1]);
	assert_int_equal(state_card_after(f.st, 0, id[0])->id, id[1]); /* from a resumed one, */
	assert_int_equal(state_card_after(f.st, 0, id[2])->id, id[4]); /* from one that has been answered */
	assert_int_equal(state_card_after(f.st, 0, id[1])->id, id[4]);
	assert_int_equal(state_card_after(f.st, 0, id[4])->id, id[5]);
	assert_null(state_card_after(f.st, 0, id[5]));
	assert_int_equal(state_card_after(f.st, a, 0)->id, id[4]);
	assert_int_equal(state_card_after(f.st, a, id[1])->id, id[4]); /* one of another session */
	assert_int_equal(state_card_after(f.st, b, id[1])->id, id[5]);
	assert_null(state_card_after(f.st, a, id[4]));
	assert_null(state_card_after(f.st, 999, 0));
	for (size_t i = 0; i < 6; i++) { /* and all of them, whatever became of them */
		assert_int_equal(state_card_any_after(f.st, 0, i ? id[i - 1] : 0)->id, id[i]);
		assert_int_equal(state_card_any_after(f.st, i % 2 ? b : a, i > 1 ? id[i - 2] : 0)->id, id[i]);
	}
	assert_null(state_card_any_after(f.st, 0, id[5]));
	assert_null(state_card_any_after(f.st, a, id[4]));
	assert_null(state_card_any_after(f.st, 999, 0));
	assert_int_equal(state_session(f.st, a)->pending_cards, 1);
	assert_int_equal(state_session(f.st, b)->pending_cards, 2);
	state_free(f.st);
}

/* An abort ends the session that it names, with all below, and holds the agent off. Breakers of what ends die with it. */
static void test_abort(void **state)
{
	(void)state;
	for (int tree = 0; tree < 2; tree++) {
		struct feed f = feed_new();
		uint64_t root = open_session(&f), kid = open_child(&f, root), low = open_child(&f, kid), card, other, held;
		struct breaker_row rows[2] = { breaker_of("api", SCOPE_AGENT, 0, BREAKER_OPEN), breaker_of("own", SCOPE_SESSION, root, BREAKER_OPEN) };
		struct entry e;

		card = plain(&f, kid, 1, 1, VERDICT_REVIEW);
		other = plain(&f, low, 1, 2, VERDICT_REVIEW);
		held = allow(&f, kid, 3, 3, USD);
		e = resolving(&f, card, RESOLVE_ABORT);
		e.resolve.ends = tree ? root : kid;
		e.resolve.breakers = rows;
		e.resolve.n_breakers = 2;
		put(&f, &e);
		assert_int_equal(state_card_by_id(f.st, card)->mode, CARD_ABORTED);
		assert_int_equal(state_card_by_id(f.st, other)->mode, CARD_CLOSED);
		assert_int_equal(state_session(f.st, kid)->end, SESSION_ENDED_ABORT);
		assert_int_equal(state_session(f.st, low)->end, SESSION_ENDED_ABORT);
		assert_int_equal(state_session(f.st, root)->end, tree ? SESSION_ENDED_ABORT : SESSION_LIVE);
		assert_int_equal(state_agent(f.st, STR("local")).open, !tree);
		assert_int_equal(state_agent(f.st, STR("local")).hold_until, f.now + 60 * SEC);
		assert_int_equal(state_breaker(f.st, &rows[0])->mode, BREAKER_OPEN);
		assert_true((state_breaker(f.st, &rows[1]) == NULL) == tree);
		check_run(&f, kid, USD, 0);
		assert_int_equal(state_decision(f.st, held)->outcome, OUTCOME_EXPIRED);
		settle(&f, kid, held, USD / 2, true); /* may still add */
		check_run(&f, kid, USD + USD / 2, 0);
		state_free(f.st);
	}
}

/* In doubt, a person says yes: the key moves to the call that is allowed now, and the first one stays open. */
static void test_an_approved_doubt_moves_the_key(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), first = allow(&f, s, 1, 1, 0), card;
	uint8_t key[16];
	struct entry e;
	bool reused;

	(void)state;
	id16(key, 1001);
	card = plain(&f, s, 1, 1, VERDICT_REVIEW);
	assert_int_equal(state_call(f.st, s, 1, key, &reused)->seq, first);
	act(&f, RESUME, card);
	e = spending(&f, s, 1, 1, card, false);
	e.decision.client[0] = 2;
	put(&f, &e);
	assert_int_equal(state_call(f.st, s, 1, key, &reused)->seq, e.seq);
	assert_int_equal(state_call(f.st, s, 1, key, &reused)->client[0], 2);
	assert_false(reused);
	assert_int_equal(state_session(f.st, s)->open_reservations, 2);
	settle(&f, s, first, 0, false);
	assert_int_equal(state_call(f.st, s, 1, key, &reused)->seq, e.seq);
	state_free(f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lives),
		cmocka_unit_test(test_what_a_card_says),
		cmocka_unit_test(test_the_newest_card),
		cmocka_unit_test(test_one_call_one_execution),
		cmocka_unit_test(test_pending_ones_in_order),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_an_approved_doubt_moves_the_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
