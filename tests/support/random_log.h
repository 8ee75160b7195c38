/* tests/support/random_log.h - a long log of everything that may happen to a state, always the same for one seed, fed to two states at once.
 * All in a header, like state_feed.h. */
#ifndef PAWL_TESTS_RANDOM_LOG_H
#define PAWL_TESTS_RANDOM_LOG_H
#include "tests/support/fail_malloc.h"
#include "tests/support/state_feed.h"
#include "tests/support/state_reread.h"

#include <stdio.h>

struct log {
	struct feed a, b;
	uint64_t x;
	uint64_t open[256][2];
	size_t n_open;
	bool fail;   /* each entry first meets every allocation that fails */
	bool reread; /* after each entry b is written as bytes and read again */
};

static inline uint64_t roll(struct log *l, uint64_t n)
{
	l->x ^= l->x << 13;
	l->x ^= l->x >> 7;
	l->x ^= l->x << 17;
	return l->x % n;
}

static inline void put_both(struct log *l, const struct entry *e)
{
	uint8_t before[32], after[32];

	if (l->fail)
		state_digest(l->a.st, before);
	for (long n = 1; l->fail; n++) {
		int r;

		fail_malloc_after(n);
		r = state_room(l->a.st, e, NULL);
		if (!fail_malloc_stop())
			break;
		assert_int_equal(r, PAWL_E_NOMEM);
		state_digest(l->a.st, after);
		assert_memory_equal(before, after, sizeof(before));
	}
	put(&l->a, e);
	put(&l->b, e);
	l->b.now = l->a.now;
	if (l->reread)
		reread(&l->b.st);
}

static inline uint64_t some_session(struct log *l)
{
	const struct session_state *s = state_session_after(l->a.st, roll(l, state_next_seq(l->a.st)));

	return s && s->end == SESSION_LIVE ? s->id : 0;
}

static inline void due_first(struct log *l)
{
	struct deadline due;

	while (state_next_deadline(l->a.st, &due) && due.at <= l->a.now) {
		struct entry e = due.kind == DEADLINE_CARD ? timing_out(&l->a, due.session, due.id)
							   : expiry(&l->a, due.session, due.id);

		put_both(l, &e);
	}
}

static inline void random_breaker(struct log *l, struct breaker_row *row, uint64_t session, bool probe)
{
	enum scope scope = roll(l, 2) ? SCOPE_AGENT : SCOPE_SESSION;

	*row = breaker_of(roll(l, 2) ? "api" : "db", scope, scope == SCOPE_SESSION ? state_session(l->a.st, session)->root : 0,
			  (enum breaker_mode)roll(l, probe ? 3 : 2));
	row->tool = roll(l, 2) ? STR("t") : STR_NONE;
	row->sticky = roll(l, 2);
	row->until = roll(l, 2) ? l->a.now + 30 * SEC : 0;
	row->n_fails = (uint32_t)roll(l, 3);
	row->fails[0] = row->fails[1] = l->a.now;
	row->n_denies = (uint32_t)roll(l, 2);
	row->denies[0] = l->a.now;
	row->n_breaches = (uint32_t)roll(l, 2);
	row->breaches[0] = l->a.now;
	row->would = state_mode(l->a.st) == MODE_SHADOW && roll(l, 4);
}

static inline void random_memory(struct log *l, struct entry_decision *d)
{
	static const enum stick how[] = { STICK_SESSION, STICK_TREE, STICK_AGENT };

	d->polling = roll(l, 2);
	d->n_trips = roll(l, 20) == 0;
	id16(d->trips[0], roll(l, 4));
	d->n_sticks = (d->answer == VERDICT_DENY || d->would == VERDICT_DENY) && roll(l, 4) == 0 ? 1 + roll(l, 2) : 0;
	for (size_t i = 0; i < d->n_sticks; i++)
		d->sticks[i] = (struct stick_fact){ .how = how[roll(l, 3)], .tool = roll(l, 2) ? STR("t") : STR("another.tool"),
						    .rule = roll(l, 2) ? STR("no-way") : STR("no-exec") };
	d->n_asks = d->answer == VERDICT_REVIEW ? 1 + roll(l, 2) : 0;
	d->asks[0] = (struct ask){ .code = REASON_RULE, .rule = STR("ask-first") };
	d->asks[1] = (struct ask){ .code = REASON_BUDGET, .rule = STR("run") };
	d->money = (int64_t)roll(l, 100);
}

static inline void random_card(struct log *l, struct entry_decision *d)
{
	const struct card_state *card = state_card(l->a.st, d->session, d->card_token);

	if (d->answer == VERDICT_REVIEW && card && card->mode == CARD_PENDING) {
		d->card = card->id;
		d->card_until = card->until;
	}
	if (d->answer == VERDICT_ALLOW && card && card->mode == CARD_RESUMED && roll(l, 4))
		d->spends = card->id;
}

static inline void random_decision(struct log *l, uint64_t s)
{
	static const char *const budgets[] = { "run", "tokens", "calls" };
	struct breaker_row row;
	struct draw d[3];
	size_t n = roll(l, 4);
	enum verdict answer = (enum verdict)(1 + roll(l, 3)), would = VERDICT_UNSET;
	bool shadow = state_mode(l->a.st) == MODE_SHADOW;
	struct entry e;

	if (shadow && answer != VERDICT_ALLOW && (answer == VERDICT_REVIEW || roll(l, 4))) {
		would = answer;
		answer = VERDICT_ALLOW;
	}
	for (size_t i = 0; i < n; i++) {
		d[i] = draw_of(roll(l, 2) ? s : 0, budgets[i],
			       i == 0   ? UNIT_MONEY
			       : i == 1 ? UNIT_TOKENS
					: UNIT_CALLS,
			       (int64_t)roll(l, 1000));
		if (roll(l, 4) == 0) {
			d[i].key.scope = SCOPE_AGENT;
			d[i].key.session = 0;
			d[i].key.owner = state_session(l->a.st, s)->agent;
		}
		if (roll(l, 4) == 0)
			d[i].key.tool = STR("t");
		if (i == 1)
			d[i].window_end = (l->a.now / (600 * SEC) + 1) * 600 * SEC;
	}
	e = decision(&l->a, s, roll(l, 40), roll(l, 3), answer, d, n);
	e.decision.shadow = shadow;
	e.decision.would = would;
	e.decision.has_repeat = roll(l, 2);
	e.decision.kind = (enum call_kind)roll(l, CALL_KIND_COUNT);
	e.decision.client[1] = (uint8_t)roll(l, 30);
	e.decision.cost_known = e.decision.tokens_known = roll(l, 2);
	e.decision.tokens = (int64_t)roll(l, 50);
	if (roll(l, 8) == 0)
		e.decision.tool = roll(l, 2) ? STR("another.tool") : STR("third.tool");
	random_memory(l, &e.decision);
	random_card(l, &e.decision);
	e.kind = roll(l, 5) ? ENTRY_DECISION : ENTRY_CLAIM;
	if (roll(l, 6) == 0) {
		random_breaker(l, &row, s, e.decision.answer == VERDICT_ALLOW);
		e.decision.breakers = &row;
		e.decision.n_breakers = 1;
	}
	e.decision.guard_repeat = state_guard(l->a.st, s, e.decision.tool).repeat;
	if (roll(l, 10) == 0 && !e.decision.guard_repeat)
		e.decision.guard_repeat = 5;
	e.decision.has_guard_money = state_guard(l->a.st, s, e.decision.tool).has_money || roll(l, 30) == 0;
	e.decision.guard_money = e.decision.has_guard_money ? 50 : 0;
	put_both(l, &e);
	if (e.decision.answer == VERDICT_ALLOW && l->n_open < PAWL_LEN(l->open)) {
		l->open[l->n_open][0] = s;
		l->open[l->n_open++][1] = e.seq;
	}
}

static inline void random_settle(struct log *l)
{
	size_t i = roll(l, l->n_open);
	uint64_t s = l->open[i][0], dec = l->open[i][1];
	const struct call_state *call = state_decision(l->a.st, dec);
	struct charge c[3];
	struct draw held[3];
	struct entry e = at(&l->a, ENTRY_SETTLE);
	struct entry_settle body = { .session = s, .decision = dec, .outcome = roll(l, 2) ? OUTCOME_ERROR : OUTCOME_OK, .charges = c };

	l->open[i][0] = l->open[l->n_open - 1][0];
	l->open[i][1] = l->open[--l->n_open][1];
	if (!call)
		return;
	body.n_charges = state_holds(l->a.st, dec, held, 3);
	for (size_t k = 0; k < body.n_charges; k++) {
		c[k] = (struct charge){ .draw = held[k],
					.reserved = call->settled ? 0 : held[k].amount,
					.charged = (int64_t)roll(l, 1500) };
		if (c[k].draw.window_end)
			c[k].draw.window_end = (l->a.now / (600 * SEC) + 1) * 600 * SEC;
	}
	id16(body.same, l->x);
	body.has_result_token = roll(l, 2);
	id16(body.result_token, roll(l, 3));
	body.has_error_token = body.outcome == OUTCOME_ERROR;
	id16(body.error_token, roll(l, 3));
	if (call->settled) {
		e.kind = ENTRY_LOSS;
		e.loss = (struct entry_loss){ .what = LOSS_LATE_SETTLE, .session = s, .decision = dec, .late = body };
	} else {
		e.settle = body;
	}
	put_both(l, &e);
}

static inline void random_answer(struct log *l)
{
	const struct card_state *card = state_card_after(l->a.st, 0, roll(l, state_next_seq(l->a.st)));
	struct breaker_row row;
	struct entry e;

	if (!card)
		return;
	if (roll(l, 5) == 0) { /* whoever waited for the answer does not any more */
		e = timing_out(&l->a, card->session, card->id);
		e.timeout.waiter = true;
		put_both(l, &e);
		return;
	}
	e = resolving(&l->a, card->id, roll(l, 12) == 0 ? RESOLVE_ABORT : (enum resolve_action)(roll(l, 3) ? RESOLVE_RESUME : RESOLVE_SKIP));
	if (roll(l, 6) == 0)
		e.resolve.action = RESOLVE_CLOSE;
	if (e.resolve.action != RESOLVE_ABORT) {
		e.resolve.ends = 0;
		e.resolve.hold_until = 0;
	} else {
		random_breaker(l, &row, card->session, false);
		e.resolve.breakers = &row;
		e.resolve.n_breakers = 1;
	}
	if (e.resolve.action == RESOLVE_RESUME && roll(l, 2)) {
		e.resolve.grants[0] = (struct grant){ draw_of(roll(l, 2) ? card->session : 0, "tokens", UNIT_TOKENS, 0).key, 7 };
		e.resolve.n_grants = 1;
	}
	put_both(l, &e);
}

static inline void random_open(struct log *l, uint64_t s)
{
	struct entry e = s && roll(l, 2) ? opening_child(&l->a, s) : opening(&l->a, roll(l, 3) ? "local" : "other");

	if (e.session.parent && state_room(l->a.st, &e, NULL) != 0)
		return; /* too deep */
	e.session.labels_text = roll(l, 2) ? STR("{\"run\":\"1\"}") : STR("{\"run\":\"2\"}");
	e.session.root_dir = roll(l, 2) ? STR("/srv") : STR_NONE;
	e.session.fresh_end = roll(l, 2) ? (l->a.now / (600 * SEC) + 1) * 600 * SEC : 0;
	e.session.has_limit[roll(l, UNIT_COUNT)] = roll(l, 2);
	for (int u = 0; u < UNIT_COUNT; u++)
		e.session.limit[u] = (int64_t)roll(l, 100000);
	id16(e.session.token_hash, roll(l, 1000));
	put_both(l, &e);
}

static inline void random_mode(struct log *l)
{
	struct entry e = at(&l->a, roll(l, 2) ? ENTRY_POLICY : ENTRY_START);

	if (e.kind == ENTRY_POLICY)
		e.policy = (struct entry_policy){ .loaded = true, .mode = policy_mode_word(roll(l, 2) ? MODE_SHADOW : MODE_ENFORCE) };
	else
		e.start.mode = policy_mode_word(roll(l, 2) ? MODE_SHADOW : MODE_ENFORCE);
	put_both(l, &e);
}

static inline void random_end(struct log *l, uint64_t s)
{
	struct entry e = ending(&l->a, s, (enum session_action)(SESSION_CLOSE + roll(l, 3)));

	if (e.session.action == SESSION_ABORT)
		e.session.hold_until = l->a.now + 60 * SEC;
	put_both(l, &e);
}

/* A budget is renamed back and forth, and one is new each time: it starts at the life of its scope. */
static inline void random_policy(struct log *l)
{
	struct budget_row old[PAWL_MAX_BUDGETS], rows[2];
	struct entry e = at(&l->a, ENTRY_POLICY);
	char id[32];
	bool known;
	size_t n = state_budgets(l->a.st, old, &known);
	bool kalls = n && str_is(old[0].id, "kalls");

	(void)snprintf(id, sizeof(id), "new-%llu", (unsigned long long)e.seq);
	rows[0] = (struct budget_row){ .id = n && !kalls ? STR("kalls") : STR("calls"),
				       .from = kalls ? STR("kalls") : n ? STR("calls") : STR_NONE, .unit = UNIT_CALLS,
				       .scope = SCOPE_GLOBAL, .limit = 100 };
	rows[1] = (struct budget_row){ .id = str_of(id), .unit = (enum unit)roll(l, UNIT_TIME), .scope = (enum scope)roll(l, SCOPE_COUNT),
				       .per_tool = roll(l, 2), .windowed = roll(l, 3) == 0, .limit = 1000 };
	rows[1].life = !rows[1].windowed;
	rows[1].like[3] = (uint8_t)roll(l, 256);
	e.policy = (struct entry_policy){ .loaded = true, .budgets = { .rows = rows, .n = 1 + roll(l, 2) } };
	put_both(l, &e);
}

static inline void random_watch(struct log *l, uint64_t s)
{
	static const struct watched_program one = { .path = { "/bin/sh", 7 }, .pid = 7, .count = 2 };
	struct entry e = at(&l->a, ENTRY_WATCH);
	struct entry_watch *w = &e.watch;
	struct breaker_row row;

	w->session = s;
	w->why = WHY_CPU;
	if (state_tree(l->a.st, s).mode == TREE_ENDED)
		return;
	if (state_tree(l->a.st, s).mode == TREE_NONE) {
		w->pid = 7;
		w->run = roll(l, 2);
		w->held[0] = WATCHED_CPU;
		w->n_held = roll(l, 2);
		put_both(l, &e);
		return;
	}
	w->action = (enum watched_action)(1 + roll(l, WATCHED_ACTION_COUNT - 1));
	w->programs = &one;
	w->n_programs = w->action == WATCHED_EXECS || w->action == WATCHED_KILL;
	w->total = w->events = w->pid = 2;
	w->measured = (int64_t)roll(l, 9);
	if (w->action == WATCHED_KILL || w->action == WATCHED_BREACH || w->action == WATCHED_LOST) {
		random_breaker(l, &row, s, false);
		w->breakers = &row;
		w->n_breakers = 1;
	}
	put_both(l, &e);
}

static inline void random_step(struct log *l)
{
	uint64_t s = some_session(l), what = roll(l, 100);
	struct entry e;

	l->a.now += (int64_t)roll(l, 60) * SEC;
	due_first(l);
	if (s && state_session(l->a.st, s)->end != SESSION_LIVE)
		s = 0;
	if (what < 6 || !s) {
		random_open(l, s);
	} else if (what < 9) {
		random_end(l, s);
	} else if (what < 15) {
		random_answer(l);
	} else if (what < 40 && l->n_open) {
		random_settle(l);
	} else if (what < 96) {
		random_decision(l, s);
	} else if (what < 97) {
		if (roll(l, 2))
			random_policy(l);
		else
			random_mode(l);
	} else if (what < 98) {
		e = at(&l->a, ENTRY_BREAKER);
		random_breaker(l, &e.breaker.row, s, false);
		put_both(l, &e);
	} else if (what < 99 && roll(l, 3)) {
		random_watch(l, s);
	} else {
		e = at(&l->a, what == 98 ? ENTRY_THROTTLE : ENTRY_KEY);
		put_both(l, &e);
	}
}

#endif
