/* tests/unit/test_state_tree.c - sessions that opened others: what is linked, what ends with what, and what is forgotten. */
#include "tests/support/state_feed.h"

static struct entry denial(const struct feed *f, uint64_t session, enum stick how, const char *tool, const char *rule)
{
	struct entry e = decision(f, session, 900 + state_next_seq(f->st), 1, VERDICT_DENY, NULL, 0);

	e.decision.sticks[0] = (struct stick_fact){ .how = how, .tool = str_of(tool), .rule = str_of(rule) };
	e.decision.n_sticks = 1;
	return e;
}

/* D12: two children of one agent under two parents: each is bound by the chain above it, as it is now. */
static void test_d12_the_chain_decides(void **state)
{
	struct feed f = feed_new();
	uint64_t p = open_session(&f), q = open_session(&f), under_p = open_child(&f, p), under_q = open_child(&f, q);
	struct entry e = denial(&f, q, STICK_SESSION, "bash", "no-bash");

	(void)state;
	put(&f, &e);
	assert_true(str_is(state_denied(f.st, state_session(f.st, under_q), STR("bash")), "no-bash"));
	assert_null(state_denied(f.st, state_session(f.st, under_p), STR("bash")).p);
	assert_int_equal(state_session(f.st, under_q)->root, q);
	assert_int_equal(state_session(f.st, under_q)->parent, q);
	e = denial(&f, p, STICK_SESSION, "bash", "not-here"); /* later than the child: binds it all the same */
	put(&f, &e);
	assert_true(str_is(state_denied(f.st, state_session(f.st, under_p), STR("bash")), "not-here"));
	assert_true(str_is(state_denied(f.st, state_session(f.st, under_q), STR("bash")), "no-bash"));
	state_free(f.st);
}

/* Whatever ends a session ends all that it opened and nothing else. */
static void test_descendants_end(void **state)
{
	static const struct {
		enum session_action action;
		enum session_end end;
	} kinds[] = { { SESSION_CLOSE, SESSION_ENDED_CLOSE }, { SESSION_STALE, SESSION_ENDED_STALE }, { SESSION_ABORT, SESSION_ENDED_ABORT } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(kinds); i++) {
		struct feed f = feed_new();
		uint64_t root = open_session(&f), left = open_child(&f, root), mid = open_child(&f, root), right = open_child(&f, root),
			 low[3] = { open_child(&f, mid), open_child(&f, mid), 0 }, card, held, kept;
		struct draw d[2] = { draw_of(low[0], "run", UNIT_MONEY, USD), draw_of(root, "run", UNIT_MONEY, USD) };
		struct entry e = decision(&f, low[0], 1, 1, VERDICT_ALLOW, d, 2);

		low[2] = open_child(&f, low[1]);
		e.seq = state_next_seq(f.st);
		put(&f, &e);
		held = e.seq;
		kept = allow(&f, left, 1, 1, USD);
		card = plain(&f, low[2], 2, 2, VERDICT_REVIEW);
		assert_int_equal(state_agent(f.st, STR("local")).open, 7);
		check_run(&f, root, 0, USD);
		e = ending(&f, mid, kinds[i].action);
		e.session.hold_until = kinds[i].action == SESSION_ABORT ? f.now + 60 * SEC : 0;
		put(&f, &e);
		for (size_t k = 0; k < PAWL_LEN(low); k++)
			assert_int_equal(state_session(f.st, low[k])->end, kinds[i].end);
		assert_int_equal(state_session(f.st, mid)->end, kinds[i].end);
		assert_int_equal(state_session(f.st, root)->end, SESSION_LIVE);
		assert_int_equal(state_session(f.st, left)->end, SESSION_LIVE);
		assert_int_equal(state_session(f.st, right)->end, SESSION_LIVE);
		assert_int_equal(state_agent(f.st, STR("local")).open, 3);
		assert_int_equal(state_agent(f.st, STR("local")).hold_until, kinds[i].action == SESSION_ABORT ? f.now + 60 * SEC : 0);
		check_run(&f, root, USD, 0); /* at what was held, in every ledger above */
		check_run(&f, low[0], USD, 0);
		assert_int_equal(state_decision(f.st, held)->outcome, OUTCOME_EXPIRED);
		assert_int_equal(state_decision(f.st, kept)->settled, 0);
		assert_int_equal(state_card_by_id(f.st, card)->mode, CARD_CLOSED);
		assert_int_equal(state_session(f.st, low[2])->pending_cards, 0);
		e = ending(&f, root, SESSION_CLOSE); /* what has ended before does not end twice */
		put(&f, &e);
		assert_int_equal(state_session(f.st, low[2])->end, kinds[i].end);
		assert_int_equal(state_session(f.st, right)->end, SESSION_ENDED_CLOSE);
		assert_int_equal(state_agent(f.st, STR("local")).open, 0);
		state_free(f.st);
	}
}

static void test_hold_is_never_shortened(void **state)
{
	struct feed f = feed_new();
	uint64_t a = open_session(&f), b = open_session(&f);
	struct entry e = ending(&f, a, SESSION_ABORT);

	(void)state;
	e.session.hold_until = f.now + 600 * SEC;
	put(&f, &e);
	e = ending(&f, b, SESSION_ABORT);
	e.session.hold_until = f.now + 60 * SEC;
	put(&f, &e);
	assert_int_equal(state_agent(f.st, STR("local")).hold_until, f.now + 600 * SEC);
	state_free(f.st);
}

/* A bound for every log, whatever its policy said. */
static void test_depth(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct entry e;

	(void)state;
	for (int depth = 2; depth <= PAWL_MAX_DEPTH_TREE; depth++)
		s = open_child(&f, s);
	e = opening_child(&f, s);
	assert_int_equal(state_room(f.st, &e, NULL), PAWL_E_TAMPERED);
	state_free(f.st);
}

static uint64_t random_tree(struct feed *f, uint64_t x)
{
	uint64_t id[24] = { open_session(f) };

	for (size_t i = 1; i < PAWL_LEN(id); i++) {
		struct entry e;

		x = x * 6364136223846793005u + 1442695040888963407u;
		e = opening_child(f, id[(x >> 33) % i]);
		if (state_room(f->st, &e, NULL) != 0)
			e = opening_child(f, id[0]);
		put(f, &e);
		id[i] = e.seq;
		settle(f, id[i], allow(f, id[i], i, i % 5, 1), 1, false);
		(void)allow(f, id[i], 100 + i, i % 5, 1);
		(void)plain(f, id[i], 200 + i, i, VERDICT_REVIEW);
		e = denial(f, id[i], i % 2 ? STICK_SESSION : STICK_TREE, "x", "r");
		id16(e.decision.trips[0], i);
		e.decision.n_trips = 1;
		put(f, &e);
	}
	return id[0];
}

static void no_rows_left(const struct pool *p)
{
	assert_int_equal(p->used, p->n_free);
}

/* Every shape of tree is forgotten whole, and leaves no row behind. */
static void test_trees_are_forgotten(void **state)
{
	(void)state;
	for (uint64_t x = 1; x <= 40; x++) {
		struct feed f = feed_new();
		uint64_t root = random_tree(&f, x);
		struct entry e = ending(&f, root, SESSION_CLOSE);

		put(&f, &e);
		f.now += PAWL_SESSION_LINGER_NS + 1;
		e = at(&f, ENTRY_STOP);
		put(&f, &e);
		assert_null(state_session_after(f.st, 0));
		no_rows_left(&f.st->sessions);
		no_rows_left(&f.st->calls);
		no_rows_left(&f.st->holds);
		no_rows_left(&f.st->cards);
		no_rows_left(&f.st->sticks);
		no_rows_left(&f.st->trips);
		assert_int_equal(f.st->by_session.n + f.st->by_seq.n + f.st->by_call.n + f.st->by_same.n + f.st->by_card.n + f.st->by_stick.n +
				     f.st->by_trip.n, 0);
		assert_int_equal(f.st->by_ledger.n, 1); /* "all" is nobody's */
		assert_int_equal(f.st->heap_n, 0);
		state_free(f.st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_d12_the_chain_decides),
		cmocka_unit_test(test_descendants_end),
		cmocka_unit_test(test_hold_is_never_shortened),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_trees_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
