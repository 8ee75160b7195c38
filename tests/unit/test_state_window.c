/* tests/unit/test_state_window.c - ledgers with windows: what rolls, what an older hold may still do, and where a grant
 * counts. One ledger, a table of steps; times and ends are in seconds. */
#include "tests/support/state_feed.h"

enum op { END, DRAW, SETTLE, EXCESS /* a settle that states the excess alone */, LATE, EXPIRE, GRANT, LOOK };

struct step {
	enum op op;
	int call;		       /* which draw is meant */
	int64_t at, end;	       /* now, and the window that is open then */
	int64_t amount;		       /* drawn, reported or granted */
	int64_t spent, reserved, granted; /* as they are afterwards */
	int64_t open;		       /* end of the window that is shown */
};

static const struct {
	const char *name;
	struct step steps[10];
} cases[] = {
	{ "B04: without a window nothing ever comes back",
	  { { DRAW, 0, 10, 0, 5, 0, 5, 0, 0 },
	    { SETTLE, 0, 20, 0, 5, 5, 0, 0, 0 },
	    { LOOK, 0, 90000, 0, 0, 5, 0, 0, 0 },
	    { DRAW, 1, 9000000, 0, 1, 5, 1, 0, 0 } } },
	{ "its last moment and its end",
	  { { DRAW, 0, 10, 100, 5, 0, 5, 0, 100 },
	    { SETTLE, 0, 20, 100, 3, 3, 0, 0, 100 },
	    { LOOK, 0, 99, 0, 0, 3, 0, 0, 100 },
	    { LOOK, 0, 100, 0, 0, 0, 0, 0, 0 },
	    { DRAW, 1, 100, 200, 2, 0, 2, 0, 200 } } },
	{ "a roll with an open hold: the rest returns to the window that is gone",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 },
	    { DRAW, 1, 150, 200, 7, 0, 7, 0, 200 },
	    { SETTLE, 0, 160, 200, 30, 0, 7, 0, 200 },
	    { SETTLE, 1, 170, 200, 6, 6, 0, 0, 200 } } },
	{ "what it cost beyond its hold is added to the window open now",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 },
	    { DRAW, 1, 150, 200, 7, 0, 7, 0, 200 },
	    { SETTLE, 0, 160, 200, 80, 30, 7, 0, 200 } } },
	{ "the same, stated as nothing released and the excess",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 },
	    { DRAW, 1, 150, 200, 7, 0, 7, 0, 200 },
	    { EXCESS, 0, 160, 200, 30, 30, 7, 0, 200 } } },
	{ "the settle itself finds the window over",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 },
	    { DRAW, 1, 20, 100, 9, 0, 59, 0, 100 },
	    { SETTLE, 0, 150, 200, 60, 10, 0, 0, 200 },
	    { SETTLE, 1, 160, 200, 9, 10, 0, 0, 200 } } },
	{ "two windows later",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 },
	    { DRAW, 1, 110, 200, 1, 0, 1, 0, 200 },
	    { DRAW, 2, 210, 300, 2, 0, 2, 0, 300 },
	    { SETTLE, 0, 220, 300, 50, 0, 2, 0, 300 },
	    { SETTLE, 1, 230, 300, 3, 2, 2, 0, 300 } } },
	{ "nobody reports: the old window pays, the new one is not touched",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 }, { DRAW, 1, 1000, 1100, 7, 0, 7, 0, 1100 }, { EXPIRE, 0, 1001, 0, 0, 0, 7, 0, 1100 } } },
	{ "nobody reports, in the same window",
	  { { DRAW, 0, 10, 2000, 50, 0, 50, 0, 2000 }, { EXPIRE, 0, 1001, 0, 0, 50, 0, 0, 2000 }, { LATE, 0, 1002, 2000, 4, 54, 0, 0, 2000 } } },
	{ "a late report adds to the window open now",
	  { { DRAW, 0, 10, 100, 50, 0, 50, 0, 100 }, { EXPIRE, 0, 1001, 0, 0, 0, 0, 0, 0 }, { LATE, 0, 1002, 1100, 4, 4, 0, 0, 1100 } } },
	{ "a grant lasts as long as its window",
	  { { DRAW, 0, 10, 100, 5, 0, 5, 0, 100 },
	    { GRANT, 0, 20, 0, 3, 0, 5, 3, 100 },
	    { DRAW, 1, 30, 100, 3, 0, 8, 3, 100 },
	    { LOOK, 0, 100, 0, 0, 0, 0, 0, 0 },
	    { DRAW, 2, 100, 200, 1, 0, 1, 0, 200 } } },
	{ "a grant before the first draw counts in its window",
	  { { GRANT, 0, 20, 0, 3, 0, 0, 3, 0 }, { DRAW, 0, 30, 100, 4, 0, 4, 3, 100 }, { DRAW, 1, 130, 200, 4, 0, 4, 0, 200 } } },
	{ "a grant after a window's end counts in the next",
	  { { DRAW, 0, 10, 100, 5, 0, 5, 0, 100 },
	    { SETTLE, 0, 20, 100, 5, 5, 0, 0, 100 },
	    { GRANT, 0, 120, 0, 3, 0, 0, 3, 0 },
	    { DRAW, 1, 130, 200, 4, 0, 4, 3, 200 } } },
	{ "without a window grants add up and stay",
	  { { DRAW, 0, 10, 0, 5, 0, 5, 0, 0 }, { GRANT, 0, 20, 0, 3, 0, 5, 3, 0 }, { GRANT, 0, 30, 0, 4, 0, 5, 7, 0 } } },
	{ "a reload makes the window shorter: the open one ends when it said it would",
	  { { DRAW, 0, 10, 1000, 5, 0, 5, 0, 1000 }, { DRAW, 1, 20, 100, 1, 0, 6, 0, 1000 }, { SETTLE, 1, 30, 100, 1, 1, 5, 0, 1000 } } },
	{ "a reload takes the window away: the open one ends, then there is none",
	  { { DRAW, 0, 10, 100, 5, 0, 5, 0, 100 },
	    { DRAW, 1, 20, 0, 1, 0, 6, 0, 100 },
	    { SETTLE, 0, 30, 0, 5, 5, 1, 0, 100 },
	    { DRAW, 2, 130, 0, 2, 0, 2, 0, 0 },
	    { SETTLE, 1, 140, 0, 1, 0, 2, 0, 0 },
	    { LOOK, 0, 9000, 0, 0, 0, 2, 0, 0 } } },
	{ "a reload gives a ledger its first window: it starts at 0",
	  { { DRAW, 0, 10, 0, 5, 0, 5, 0, 0 }, { DRAW, 1, 20, 100, 1, 0, 1, 0, 100 }, { SETTLE, 0, 30, 100, 6, 1, 1, 0, 100 } } },
	{ "none, one, none: what was held before is not taken from what is held now",
	  { { DRAW, 0, 10, 0, 5, 0, 5, 0, 0 },
	    { DRAW, 1, 20, 100, 1, 0, 1, 0, 100 },
	    { DRAW, 2, 120, 0, 4, 0, 4, 0, 0 },
	    { SETTLE, 0, 130, 0, 5, 0, 4, 0, 0 } } },
};

struct one {
	struct feed f;
	uint64_t session, call[4];
};

static struct charge charge_for(const struct one *o, const struct step *s)
{
	struct draw held[1] = { 0 };
	struct charge c;

	assert_int_equal(state_holds(o->f.st, o->call[s->call], held, 1), 1);
	c = (struct charge){ .draw = held[0], .reserved = s->op == SETTLE ? held[0].amount : 0, .charged = s->amount };
	c.draw.window_end = s->end * SEC;
	return c;
}

static struct entry entry_for(struct one *o, const struct step *s, struct draw *d, struct charge *c)
{
	struct entry e = at(&o->f, ENTRY_STOP);
	uint64_t call = o->call[s->call];

	switch (s->op) {
	case DRAW:
		*d = draw_of(o->session, "run", UNIT_MONEY, s->amount);
		d->window_end = s->end * SEC;
		o->call[s->call] = e.seq;
		return decision(&o->f, o->session, e.seq, e.seq, VERDICT_ALLOW, d, 1);
	case SETTLE:
	case EXCESS:
	case LATE:
		*c = charge_for(o, s);
		e.kind = s->op == LATE ? ENTRY_LOSS : ENTRY_SETTLE;
		struct entry_settle body = { .session = o->session, .decision = call, .outcome = OUTCOME_OK, .charges = c, .n_charges = 1 };
		if (s->op == LATE)
			e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = o->session, .decision = call, .late = body };
		else
			e.settle = body;
		return e;
	case EXPIRE:
		return expiry(&o->f, o->session, call);
	case GRANT:
		call = plain(&o->f, o->session, e.seq + 5000, e.seq, VERDICT_REVIEW);
		e = resolving(&o->f, call, RESOLVE_RESUME);
		e.resolve.grants[0] = (struct grant){ draw_of(o->session, "run", UNIT_MONEY, 0).key, s->amount };
		e.resolve.n_grants = 1;
		return e;
	case LOOK:
	case END:
		break;
	}
	return e;
}

static void test_windows(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct one o = { .f = feed_new() };

		o.f.now = 1000 * SEC;
		o.session = open_session(&o.f);
		for (size_t k = 0; k < PAWL_LEN(cases[i].steps) && cases[i].steps[k].op != END; k++) {
			struct step s = cases[i].steps[k];
			struct ledger_state l;
			struct charge c;
			struct draw d;
			struct entry e;

			s.at += 1000;
			s.end += s.end ? 1000 : 0;
			s.open += s.open ? 1000 : 0;
			o.f.now = s.at * SEC;
			e = entry_for(&o, &s, &d, &c);
			put(&o.f, &e);
			l = run_ledger(&o.f, o.session);
			if (l.spent != s.spent || l.reserved != s.reserved || l.granted != s.granted || l.window_end != s.open * SEC)
				fail_msg("%s, step %zu: spent %lld reserved %lld granted %lld window %lld", cases[i].name, k, (long long)l.spent,
					 (long long)l.reserved, (long long)l.granted, (long long)(l.window_end / SEC));
		}
		state_free(o.f.st);
	}
}

/* What a call holds says which window it was made in. */
static void test_hold_names_its_window(void **state)
{
	struct feed f = feed_new();
	uint64_t s = open_session(&f);
	struct draw d = draw_of(s, "run", UNIT_MONEY, 5), held[1] = { 0 };
	struct entry e;

	(void)state;
	d.window_end = f.now + 100 * SEC;
	e = decision(&f, s, 1, 1, VERDICT_ALLOW, &d, 1);
	put(&f, &e);
	f.now += 150 * SEC;
	assert_int_equal(state_holds(f.st, e.seq, held, 1), 1);
	assert_int_equal(held[0].window_end, d.window_end);
	state_free(f.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_hold_names_its_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
