/* tests/unit/test_state.c - what entries do to a state: money, sessions, call ids, executions, cards and deadlines.
 * What a log may not say: test_state_refuse.c. Long logs, copies and memory that runs out: test_state_log.c. */
#include "tests/support/state_feed.h"

/* ---- money ---- */

static void test_reserve_and_settle(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), a = allow(&f, s, 1, 1, 3 * USD), b = allow(&f, s, 2, 2, USD);
	const struct session_state *who = state_session(f.st, s);
	struct draw held[4];

	(void)state;
	check_run(&f, s, 0, 4 * USD);
	assert_int_equal(who->open_reservations, 2);
	assert_int_equal(who->executions, 2);
	settle(&f, s, a, USD / 2, false); /* less than reserved: the rest is back */
	check_run(&f, s, USD / 2, USD);
	settle(&f, s, b, 2 * USD, false); /* more: charged in full */
	check_run(&f, s, USD / 2 + 2 * USD, 0);
	assert_int_equal(state_ledger(f.st, &(struct ledger_key){ .budget = STR("all"), .scope = SCOPE_GLOBAL, .unit = UNIT_CALLS }, f.now).spent,
			 2);
	assert_int_equal(who->open_reservations, 0);
	assert_int_equal(who->latest_reservation, 0);
	assert_int_equal(state_holds(f.st, b, held, 4), 0);
	assert_int_equal(f.st->holds.used, f.st->holds.n_free);
	assert_int_equal(state_decision(f.st, b)->outcome, OUTCOME_OK);
	state_free(f.st);
}

/* A call that nobody reported costs what it had reserved; a late report can only add, once. */
static void test_expired_and_late(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), a = allow(&f, s, 1, 1, USD);
	struct deadline due;
	struct charge c[2];
	struct draw held[2] = { 0 };
	struct entry e;

	(void)state;
	assert_true(state_next_deadline(f.st, &due));
	assert_int_equal(due.at, f.now + 900 * SEC);
	assert_int_equal(due.id, a);
	e = expiry(&f, s, a);
	assert_int_equal(state_room(f.st, &e, NULL), PAWL_E_TAMPERED); /* not over yet */
	f.now = due.at;
	e = expiry(&f, s, a);
	put(&f, &e);
	check_run(&f, s, USD, 0);
	assert_int_equal(state_decision(f.st, a)->outcome, OUTCOME_EXPIRED);
	assert_int_equal(state_decision(f.st, a)->settled, e.seq);
	assert_false(state_next_deadline(f.st, &due));
	e = settling(&f, s, a, c, -1, true); /* S9 */
	assert_int_equal(state_room(f.st, &e, NULL), PAWL_E_TAMPERED);
	assert_int_equal(state_holds(f.st, a, held, 2), 2); /* what it was charged, for the late report */
	assert_int_equal(held[0].amount, USD);
	e = settling(&f, s, a, c, USD / 4, true);
	put(&f, &e);
	check_run(&f, s, USD + USD / 4, 0);
	assert_int_equal(state_decision(f.st, a)->settled, state_next_seq(f.st) - 1);
	assert_int_equal(state_holds(f.st, a, held, 2), 0);
	assert_int_equal(state_decision(f.st, a)->outcome, OUTCOME_OK);
	e.seq = state_next_seq(f.st); /* a second one */
	assert_int_equal(state_room(f.st, &e, NULL), PAWL_E_TAMPERED);
	state_free(f.st);
}

/* B04 S8: nothing comes back by itself, however long it takes. */
static void test_b04_time_gives_nothing_back(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct entry e;

	(void)state;
	settle(&f, s, allow(&f, s, 1, 1, USD / 2), USD / 2, false);
	for (int day = 0; day < 3; day++) {
		f.now += 86400 * SEC;
		e = at(&f, ENTRY_STOP);
		put(&f, &e);
		check_run(&f, s, USD / 2, 0);
	}
	state_free(f.st);
}

static void test_close_charges_what_is_held(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), other = open_session(&f), a = allow(&f, s, 1, 1, USD),
		 b = allow(&f, other, 1, 1, USD);
	struct draw none[1];
	struct deadline due;
	struct entry e;

	(void)state;
	(void)plain(&f, s, 2, 2, VERDICT_REVIEW);
	assert_int_equal(state_session(f.st, s)->pending_cards, 1);
	e = ending(&f, s, SESSION_CLOSE);
	put(&f, &e);
	check_run(&f, s, USD, 0);
	check_run(&f, other, 0, USD);
	assert_int_equal(state_session(f.st, s)->end, SESSION_ENDED_CLOSE);
	assert_int_equal(state_session(f.st, s)->pending_cards, 0);
	assert_int_equal(state_agent(f.st, STR("local")).open, 1);
	assert_true(state_next_deadline(f.st, &due));
	assert_int_equal(due.id, b); /* neither the closed card nor a */
	settle(&f, s, a, USD / 2, true);
	check_run(&f, s, USD + USD / 2, 0);
	assert_int_equal(state_holds(f.st, 999, none, 1), 0);
	state_free(f.st);
}

static void test_saturated_amounts_give_no_credit(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), a[3];

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		a[i] = allow(&f, s, i, i, INT64_MAX);
	for (int i = 0; i < 3; i++)
		settle(&f, s, a[i], INT64_MAX, false);
	check_run(&f, s, INT64_MAX, 0);
	state_free(f.st);
}

/* ---- sessions ---- */

static void test_linger(void **state)
{
	struct feed f = feed_new(), g = feed_new();
	uint64_t s = open_session(&f), live;
	struct entry e;

	(void)state;
	assert_int_equal(open_session(&g), s);
	for (uint64_t i = 0; i < 70; i++)
		settle(&f, s, allow(&f, s, i, i, USD), USD, false);
	(void)plain(&f, s, 900, 900, VERDICT_DENY);
	live = open_session(&f);
	e = ending(&f, s, SESSION_STALE);
	put(&f, &e);
	f.now += PAWL_SESSION_LINGER_NS;
	e = at(&f, ENTRY_STOP);
	put(&f, &e);
	assert_non_null(state_session(f.st, s));
	assert_int_equal(state_session_after(f.st, 0)->id, s);
	f.now++;
	e = at(&f, ENTRY_STOP);
	put(&f, &e);
	assert_null(state_session(f.st, s));
	assert_int_equal(state_session_after(f.st, 0)->id, live);
	assert_null(state_session_after(f.st, live));
	check_run(&f, s, 0, 0);
	assert_int_equal(f.st->calls.used, f.st->calls.n_free); /* every row is back */
	assert_int_equal(f.st->holds.used, f.st->holds.n_free);
	assert_int_equal(f.st->by_seq.n + f.st->by_call.n + f.st->by_same.n, 0);
	assert_int_equal(f.st->by_ledger.n, 1); /* "all" is nobody's: what was spent stays spent */
	assert_int_equal(state_ledger(f.st, &(struct ledger_key){ .budget = STR("all"), .scope = SCOPE_GLOBAL, .unit = UNIT_CALLS }, f.now).spent,
			 70);
	state_free(f.st);
	state_free(g.st);
}

/* A tree is forgotten as one: ends together, goes together, and a child that ended before its root waits for it. */
static void test_tree(void **state)
{
	struct feed f = feed_new();
	uint64_t root = open_session(&f), kid, late_kid;
	struct draw d = draw_of(root, "run", UNIT_MONEY, USD);
	struct entry e = opening(&f, "local");

	(void)state;
	e.session.parent = e.session.root = root;
	put(&f, &e);
	kid = e.seq;
	e = decision(&f, kid, 1, 1, VERDICT_ALLOW, &d, 1);
	e.decision.root = root;
	put(&f, &e);
	check_run(&f, root, 0, USD);
	assert_int_equal(state_count_same(f.st, root, e.decision.same), 1);
	e = ending(&f, kid, SESSION_CLOSE);
	put(&f, &e);
	check_run(&f, root, USD, 0);
	assert_int_equal(state_session(f.st, root)->end, SESSION_LIVE);
	e = opening(&f, "local");
	e.session.parent = e.session.root = root;
	put(&f, &e);
	late_kid = e.seq;
	f.now += PAWL_SESSION_LINGER_NS + 1;
	e = ending(&f, root, SESSION_CLOSE);
	put(&f, &e);
	assert_int_equal(state_session(f.st, late_kid)->end, SESSION_ENDED_CLOSE);
	assert_non_null(state_session(f.st, kid)); /* its hour is over, its tree's is not */
	e = opening(&f, "local");
	e.session.parent = e.session.root = root;
	assert_int_equal(state_room(f.st, &e, NULL), PAWL_E_TAMPERED); /* the parent is over */
	f.now += PAWL_SESSION_LINGER_NS + 1;
	e = at(&f, ENTRY_STOP);
	put(&f, &e);
	assert_null(state_session_after(f.st, 0));
	assert_int_equal(state_agent(f.st, STR("local")).open, 0);
	state_free(f.st);
}

static void test_fresh_window(void **state)
{
	struct feed f = feed_new();
	struct entry e;

	(void)state;
	for (int i = 0; i < 3; i++) {
		e = opening(&f, "local");
		e.session.fresh_end = 2000 * SEC;
		put(&f, &e);
	}
	assert_int_equal(state_agent(f.st, STR("local")).fresh, 3);
	f.now = 2500 * SEC;
	e = opening(&f, "local");
	e.session.fresh_end = 3000 * SEC;
	put(&f, &e);
	assert_int_equal(state_agent(f.st, STR("local")).fresh, 1);
	assert_int_equal(state_agent(f.st, STR("local")).fresh_end, 3000 * SEC);
	assert_int_equal(state_agent(f.st, STR("local")).open, 4);
	assert_int_equal(state_agent(f.st, STR("nobody")).open, 0);
	state_free(f.st);
}

/* ---- call ids ---- */

static const struct call_state *look(const struct feed *f, uint64_t session, uint64_t call, uint64_t args, bool *reused)
{
	uint8_t key[16];

	id16(key, call * 1000 + args);
	return state_call(f->st, session, call, key, reused);
}

static void test_keys(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), first, deny;
	bool reused;

	(void)state;
	assert_null(look(&f, s, 1, 1, &reused));
	assert_false(reused);
	first = plain(&f, s, 1, 1, VERDICT_REVIEW);
	assert_int_equal(look(&f, s, 1, 1, &reused)->seq, first);
	assert_null(look(&f, s, 1, 2, &reused));
	assert_true(reused);
	deny = plain(&f, s, 1, 1, VERDICT_DENY);
	assert_int_equal(look(&f, s, 1, 1, &reused)->seq, deny); /* nothing ran: the newest answer holds the key */
	first = allow(&f, s, 1, 1, USD);
	assert_int_equal(look(&f, s, 1, 1, &reused)->seq, first);
	deny = plain(&f, s, 1, 1, VERDICT_DENY);
	assert_int_equal(look(&f, s, 1, 1, &reused)->seq, first); /* it ran: nothing takes its key */
	settle(&f, s, first, 0, false);
	(void)plain(&f, s, 1, 1, VERDICT_REVIEW);
	assert_int_equal(look(&f, s, 1, 1, &reused)->seq, first);
	assert_int_equal(look(&f, s, 1, 1, &reused)->settled != 0, 1);
	assert_int_equal(state_decision(f.st, deny)->answer, VERDICT_DENY); /* still found by its id */
	assert_null(look(&f, s + 1, 1, 1, &reused));
	for (uint64_t i = 10; i < 40; i++)
		(void)plain(&f, s, 1, i, VERDICT_DENY); /* one id, many calls */
	assert_int_equal(look(&f, s, 1, 1, &reused)->seq, first);
	assert_true(reused);
	assert_int_equal(look(&f, s, 1, 25, &reused)->answer, VERDICT_DENY);
	state_free(f.st);
}

/* An answer in a session that is over or used up leaves no trace but its place in the log. */
static void test_nothing_grows_after_the_end(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct entry e;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		e = decision(&f, s, i, i, VERDICT_DENY, NULL, 0);
		e.decision.why.code = REASON_SESSION_LIMIT;
		put(&f, &e);
		assert_null(state_decision(f.st, e.seq));
	}
	e = ending(&f, s, SESSION_CLOSE);
	put(&f, &e);
	(void)plain(&f, s, 5, 5, VERDICT_DENY);
	assert_int_equal(f.st->calls.used, 0);
	assert_int_equal(state_session(f.st, s)->decisions, 0);
	state_free(f.st);
}

/* ---- executions ---- */

static void test_window(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	uint8_t same[16], token[16];

	(void)state;
	id16(same, 1);
	id16(token, 501);
	assert_int_equal(state_count_repeat(f.st, s, token, 50), 0);
	for (uint64_t i = 0; i < 2 * PAWL_MAX_WINDOW + 77; i++)
		settle(&f, s, allow(&f, s, i, i % 3, 0), 0, false);
	assert_int_equal(state_count_same(f.st, s, same), (2 * PAWL_MAX_WINDOW + 77 + 1) / 3);
	assert_int_equal(state_count_repeat(f.st, s, token, PAWL_MAX_WINDOW), 333 + (2 * PAWL_MAX_WINDOW + 77) % 3 / 2);
	assert_int_equal(state_count_repeat(f.st, s, token, 6), 2);
	assert_int_equal(state_count_repeat(f.st, s, token, 0), 0);
	for (uint64_t i = 0; i < 4; i++)
		(void)plain(&f, s, 9000 + i, 1, VERDICT_DENY); /* refused calls neither count nor push others out */
	assert_int_equal(state_count_repeat(f.st, s, token, 6), 2);
	for (uint64_t i = 0; i < 6; i++)
		settle(&f, s, allow(&f, s, 9100 + i, 1, 0), 0, false);
	assert_int_equal(state_count_repeat(f.st, s, token, 6), 6);
	assert_int_equal(state_count_repeat(f.st, s + 1, token, 6), 0);
	state_free(f.st);
}

static void test_guard(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct entry e = decision(&f, s, 1, 1, VERDICT_DENY, NULL, 0);
	struct guard_state g;

	(void)state;
	e.decision.has_guard_money = true;
	e.decision.guard_money = 0;
	e.decision.guard_repeat = 3;
	put(&f, &e);
	g = state_guard(f.st, s, STR("t"));
	assert_true(g.has_money && g.money == 0 && g.repeat == 3);
	assert_false(state_guard(f.st, s, STR("u")).has_money);
	e = decision(&f, s, 2, 2, VERDICT_DENY, NULL, 0);
	assert_int_equal(state_room(f.st, &e, NULL), PAWL_E_TAMPERED); /* looser */
	state_free(f.st);
}

/* ---- deadlines ---- */

static void test_deadlines_in_order(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), x = 12345, last_id = 0;
	int64_t last = 0;
	struct deadline due;
	struct entry e;
	int n = 0;

	(void)state;
	for (uint64_t i = 0; i < 200; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		e = decision(&f, s, i, i, i % 3 ? VERDICT_ALLOW : VERDICT_REVIEW, NULL, 0);
		*(i % 3 ? &e.decision.lease_until : &e.decision.card_until) = f.now + (int64_t)(x >> 60) * SEC;
		put(&f, &e);
	}
	for (uint64_t dec = 2; dec < 200; dec += 7) /* from the middle of the heap */
		if (state_decision(f.st, dec)->answer == VERDICT_ALLOW) {
			e = at(&f, ENTRY_SETTLE);
			e.settle = (struct entry_settle){ .session = s, .decision = dec, .outcome = OUTCOME_OK };
			put(&f, &e);
		}
	for (; state_next_deadline(f.st, &due); n++) {
		assert_true(due.at > last || (due.at == last && due.id > last_id));
		assert_int_equal(due.session, s);
		last = f.now = due.at;
		last_id = due.id;
		e = due.kind == DEADLINE_CARD ? timing_out(&f, s, due.id) : expiry(&f, s, due.id);
		put(&f, &e);
	}
	assert_true(n > 150);
	assert_int_equal(state_session(f.st, s)->pending_cards, 0);
	assert_int_equal(state_session(f.st, s)->open_reservations, 0);
	state_free(f.st);
}

/* What takes the place of a removed deadline may be due before that place's parent: it has to move up. */
static void test_deadline_from_another_branch(void **state)
{
	static const int64_t due_in[] = { 1, 10, 2, 11, 12, 20, 4 };
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct deadline due;
	int64_t last = 0;
	struct entry e;

	(void)state;
	for (uint64_t i = 0; i < PAWL_LEN(due_in); i++) {
		e = decision(&f, s, i, i, VERDICT_ALLOW, NULL, 0);
		e.decision.lease_until = f.now + due_in[i] * SEC;
		put(&f, &e);
	}
	e = at(&f, ENTRY_SETTLE);
	e.settle =
	    (struct entry_settle){ .session = s, .decision = s + 4, .outcome = OUTCOME_OK }; /* the one due in 11 */
	put(&f, &e);
	for (; state_next_deadline(f.st, &due); last = due.at) {
		assert_true(due.at > last);
		f.now = due.at;
		e = expiry(&f, s, due.id);
		put(&f, &e);
	}
	state_free(f.st);
}

static void test_cards(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), other = open_session(&f), a = plain(&f, s, 1, 1, VERDICT_REVIEW), b, c;
	uint8_t token[16];
	struct entry e;

	(void)state;
	assert_int_equal(plain(&f, s, 2, 1, VERDICT_REVIEW), a + 1); /* another call id: the same card */
	assert_int_equal(state_session(f.st, s)->pending_cards, 1);
	b = plain(&f, other, 1, 1, VERDICT_REVIEW);
	c = plain(&f, s, 3, 3, VERDICT_REVIEW);
	id16(token, 1 + 7000 + s * 100000);
	assert_int_equal(state_card(f.st, s, token)->id, a);
	assert_null(state_card(f.st, other, token));
	assert_int_equal(state_card_after(f.st, 0, 0)->id, a);
	assert_int_equal(state_card_after(f.st, 0, a)->id, b);
	assert_int_equal(state_card_after(f.st, 0, b)->id, c);
	assert_int_equal(state_card_after(f.st, s, a)->id, c);
	assert_null(state_card_after(f.st, other, b));
	f.now += 600 * SEC;
	e = timing_out(&f, s, a);
	put(&f, &e);
	assert_int_equal(state_card(f.st, s, token)->mode, CARD_TIMED_OUT);
	a = plain(&f, s, 1, 1, VERDICT_REVIEW); /* may ask again: a new card */
	assert_int_equal(state_card(f.st, s, token)->id, a);
	state_free(f.st);
}

static void test_open_list(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f), id[6];
	const struct call_state *c;

	(void)state;
	for (uint64_t i = 0; i < 6; i++)
		id[i] = allow(&f, s, i, i, 0);
	settle(&f, s, id[0], 0, false);
	settle(&f, s, id[3], 0, false);
	settle(&f, s, id[5], 0, false);
	c = state_open_after(f.st, s, 0);
	assert_int_equal(c->seq, id[1]);
	c = state_open_after(f.st, s, c->seq);
	assert_int_equal(c->seq, id[2]);
	assert_int_equal(state_open_after(f.st, s, id[3])->seq, id[4]); /* from one that has ended since */
	assert_null(state_open_after(f.st, s, id[4]));
	assert_null(state_open_after(f.st, 999, 0));
	state_free(f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reserve_and_settle),
		cmocka_unit_test(test_expired_and_late),
		cmocka_unit_test(test_b04_time_gives_nothing_back),
		cmocka_unit_test(test_close_charges_what_is_held),
		cmocka_unit_test(test_saturated_amounts_give_no_credit),
		cmocka_unit_test(test_linger),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_fresh_window),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_nothing_grows_after_the_end),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_deadlines_in_order),
		cmocka_unit_test(test_deadline_from_another_branch),
		cmocka_unit_test(test_cards),
		cmocka_unit_test(test_open_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
