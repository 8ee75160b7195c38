/* tests/unit/test_state_refuse.c - what a log may not say: each entry contradicts the ones before it, is refused by
 * state_room(), and changes nothing. */
#include "tests/support/state_feed.h"

enum {
	BAD_SEQ,
	BAD_PAST,
	BAD_KIND,
	BAD_SESSION_ID,
	BAD_AGENT,
	BAD_LIMIT,
	BAD_ROOT,
	BAD_PARENT,
	BAD_FRESH,
	BAD_CLOSE_UNKNOWN,
	BAD_CLOSE_TWICE,
	BAD_DECIDE_UNKNOWN,
	BAD_ALLOW_ENDED,
	BAD_ALLOW_LEASE,
	BAD_ALLOW_CARD,
	BAD_PRICE,
	BAD_PRICE_UNKNOWN,
	BAD_PRICE_SIGN,
	BAD_UNSET,
	BAD_TREE,
	BAD_DRAW_NEGATIVE,
	BAD_DRAW_TWICE,
	BAD_DRAW_FAR,
	BAD_DRAW_SCOPE,
	BAD_CARD,
	BAD_CARD_JOIN,
	BAD_CARD_OVER,
	BAD_DENY_CARD,
	BAD_SETTLE_UNKNOWN,
	BAD_SETTLE_DENIED,
	BAD_SETTLE_TWICE,
	BAD_SETTLE_SESSION,
	BAD_SETTLE_OUTCOME,
	BAD_SETTLE_LEDGER,
	BAD_SETTLE_RELEASE,
	BAD_SETTLE_CHARGE,
	BAD_SETTLE_FEWER,
	BAD_SETTLE_MORE,
	BAD_LATE_EARLY,
	BAD_EXPIRE_EARLY,
	BAD_EXPIRE_SETTLED,
	BAD_TIMEOUT_UNKNOWN,
	BAD_TIMEOUT_EARLY,
	BAD_LOSS,
	BAD_COUNT
};

struct scene {
	struct feed f;
	uint64_t live, ended, open, done, denied, card;
	struct charge c[3];
	struct draw d[2];
};

static struct scene scene_new(void)
{
	struct scene s = { .f = feed_new() };
	struct entry e;

	s.live = open_session(&s.f);
	s.ended = open_session(&s.f);
	e = ending(&s.f, s.ended, SESSION_CLOSE);
	put(&s.f, &e);
	s.open = allow(&s.f, s.live, 1, 1, USD);
	s.done = allow(&s.f, s.live, 2, 2, USD);
	settle(&s.f, s.live, s.done, USD, false);
	s.denied = plain(&s.f, s.live, 3, 3, VERDICT_DENY);
	s.card = plain(&s.f, s.live, 4, 4, VERDICT_REVIEW);
	return s;
}

static struct entry bad_session(struct scene *s, int what)
{
	struct entry e = opening(&s->f, "local");

	switch (what) {
	case BAD_SESSION_ID:
		e.session.session = e.session.root = 3;
		break;
	case BAD_AGENT:
		e.session.agent = STR("");
		break;
	case BAD_LIMIT:
		e.session.has_limit[0] = true;
		e.session.limit[0] = -1;
		break;
	case BAD_ROOT:
		e.session.root = s->live;
		break;
	case BAD_PARENT:
		e.session.parent = s->ended;
		e.session.root = s->ended;
		break;
	case BAD_FRESH:
		e.session.fresh_end = s->f.now;
		break;
	case BAD_CLOSE_UNKNOWN:
		e = ending(&s->f, 999, SESSION_CLOSE);
		break;
	default:
		e = ending(&s->f, s->ended, SESSION_STALE);
		break;
	}
	return e;
}

static struct entry bad_decision(struct scene *s, int what)
{
	struct entry e;

	s->d[0] = draw_of(s->live, "run", UNIT_MONEY, 1);
	s->d[1] = draw_of(0, "all", UNIT_CALLS, 1);
	e = decision(&s->f, s->live, 9, 9, what >= BAD_CARD ? VERDICT_REVIEW : VERDICT_ALLOW, s->d, 2);
	switch (what) {
	case BAD_DECIDE_UNKNOWN:
		e.decision.session = e.decision.root = 999;
		break;
	case BAD_ALLOW_ENDED:
		e.decision.session = e.decision.root = s->ended;
		e.decision.n_draws = 0;
		break;
	case BAD_ALLOW_LEASE:
		e.decision.lease_until = s->f.now - 1;
		break;
	case BAD_ALLOW_CARD:
		e.decision.card = s->card;
		break;
	case BAD_PRICE:
		e.decision.has_price = e.decision.cost_known = true;
		e.decision.money = 4;
		e.decision.price = 5;
		break;
	case BAD_PRICE_UNKNOWN:
		e.decision.has_price = true;
		e.decision.cost_known = false;
		e.decision.money = e.decision.price = 5;
		break;
	case BAD_PRICE_SIGN:
		e.decision.has_price = true;
		e.decision.price = -1;
		break;
	case BAD_UNSET:
		e.decision.answer = VERDICT_UNSET;
		break;
	case BAD_TREE:
		e.decision.root = s->ended;
		break;
	case BAD_DRAW_NEGATIVE:
		s->d[0].amount = -1;
		break; /* S9 */
	case BAD_DRAW_TWICE:
		s->d[1] = s->d[0];
		break;
	case BAD_DRAW_FAR:
		s->d[0].key.session = s->ended;
		break;
	case BAD_DRAW_SCOPE:
		s->d[0].key.scope = SCOPE_GLOBAL;
		break;
	case BAD_CARD:
		e.decision.card = 0;
		break;
	case BAD_CARD_JOIN:
		id16(e.decision.card_token, 4 + 7000 + s->live * 100000);
		break; /* one is pending for that call */
	case BAD_CARD_OVER:
		e.decision.card_until = s->f.now - 1;
		break;
	default:
		e.decision.answer = VERDICT_DENY;
		break; /* with a card */
	}
	return e;
}

static struct entry bad_settle(struct scene *s, int what)
{
	struct entry e = settling(&s->f, s->live, s->open, s->c, USD, what == BAD_LATE_EARLY);

	switch (what) {
	case BAD_SETTLE_UNKNOWN:
		e.settle.decision = 999;
		break;
	case BAD_SETTLE_DENIED:
		e.settle.decision = s->denied;
		break;
	case BAD_SETTLE_TWICE:
		e.settle.decision = s->done;
		break; /* S9: a second settle */
	case BAD_SETTLE_SESSION:
		e.settle.session = s->ended;
		break;
	case BAD_SETTLE_OUTCOME:
		e.settle.outcome = OUTCOME_EXPIRED;
		break;
	case BAD_SETTLE_LEDGER:
		s->c[0].draw.key.budget = STR("other");
		break;
	case BAD_SETTLE_RELEASE:
		s->c[0].reserved++;
		break;
	case BAD_SETTLE_CHARGE:
		s->c[0].charged = -1;
		break; /* S9 */
	case BAD_SETTLE_FEWER:
		e.settle.n_charges = 1;
		break;
	case BAD_SETTLE_MORE:
		s->c[2] = s->c[1];
		e.settle.n_charges = 3;
		break;
	default:
		break; /* late, while the lease runs */
	}
	return e;
}

static struct entry bad_entry(struct scene *s, int what)
{
	struct entry e = at(&s->f, ENTRY_STOP);

	switch (what) {
	case BAD_SEQ:
		e.seq++;
		return e;
	case BAD_PAST:
		e.now--;
		return e;
	case BAD_KIND:
		e.kind = ENTRY_NONE;
		return e;
	case BAD_EXPIRE_EARLY:
		return expiry(&s->f, s->live, s->open);
	case BAD_EXPIRE_SETTLED:
		s->f.now += 10000 * SEC;
		return expiry(&s->f, s->live, s->done);
	case BAD_TIMEOUT_UNKNOWN:
		s->f.now += 10000 * SEC;
		return timing_out(&s->f, s->live, s->card + 1);
	case BAD_TIMEOUT_EARLY:
		return timing_out(&s->f, s->live, s->card);
	case BAD_LOSS:
		e = expiry(&s->f, s->live, s->open);
		e.loss.what = LOSS_WHAT_COUNT;
		return e;
	default:
		break;
	}
	return what < BAD_DECIDE_UNKNOWN   ? bad_session(s, what)
	       : what < BAD_SETTLE_UNKNOWN ? bad_decision(s, what)
					   : bad_settle(s, what);
}

static void test_contradictions(void **state)
{
	(void)state;
	for (int what = 0; what < BAD_COUNT; what++) {
		struct scene s = scene_new();
		struct pawl_error err = { .code = PAWL_OK };
		uint8_t before[32], after[32];
		struct entry e;

		state_digest(s.f.st, before);
		e = bad_entry(&s, what);
		if (state_room(s.f.st, &e, &err) != PAWL_E_TAMPERED || err.code != PAWL_E_TAMPERED || !err.msg[0])
			fail_msg("bad entry %d was accepted", what);
		state_digest(s.f.st, after);
		assert_memory_equal(before, after, sizeof(before));
		state_free(s.f.st);
	}
}

static void test_digest_sees(void **state)
{
	struct scene a = scene_new(), b = scene_new();
	uint8_t x[32], y[32];
	struct entry e;

	(void)state;
	assert_same_state(a.f.st, b.f.st);
	e = at(&a.f, ENTRY_STOP);
	put(&a.f, &e);
	state_digest(a.f.st, x);
	settle(&b.f, b.live, b.open, USD, false);
	state_digest(b.f.st, y);
	assert_true(memcmp(x, y, sizeof(x)) != 0);
	state_free(a.f.st);
	state_free(b.f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_digest_sees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
