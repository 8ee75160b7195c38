/* tests/support/state_wear.h - what may still happen to a state that came from somewhere: its calls are reported, deadlines pass, new calls are
 * made, all ends and is forgotten. For states read from bytes that nobody vouches for: nothing may stumble. Needs no test library. */
#ifndef PAWL_TESTS_STATE_WEAR_H
#define PAWL_TESTS_STATE_WEAR_H
#include "pawl/state.h"

static inline bool wear_one(struct state *st, struct entry *e, int64_t now)
{
	e->seq = state_next_seq(st);
	e->now = now > state_now(st) ? now : state_now(st);
	if (state_room(st, e, NULL) != 0)
		return false;
	state_apply(st, e);
	return true;
}

/* One open call of the session is reported, and another is made that draws from the same. */
static inline void wear_calls(struct state *st, const struct session_state *s)
{
	struct draw held[PAWL_MAX_LEDGERS];
	struct charge charges[PAWL_MAX_LEDGERS];
	const struct call_state *c = state_open_after(st, s->id, 0);
	struct entry e = { .kind = ENTRY_SETTLE }, next = { .kind = ENTRY_DECISION };
	size_t n = c ? state_holds(st, c->seq, held, PAWL_MAX_LEDGERS) : 0;
	int64_t now = state_now(st);

	n = n < PAWL_MAX_LEDGERS ? n : PAWL_MAX_LEDGERS;
	for (size_t i = 0; i < n; i++) {
		held[i].window_end = held[i].window_end > now ? held[i].window_end : 0;
		charges[i] = (struct charge){ .draw = held[i], .reserved = held[i].amount, .charged = held[i].amount };
	}
	next.decision = (struct entry_decision){ .session = s->id, .root = s->root, .tool = STR("worn"), .answer = VERDICT_ALLOW, .lease_until = INT64_MAX,
						 .has_repeat = true, .cost_known = true, .money = INT64_MAX / 2, .draws = held, .n_draws = n };
	e.settle = (struct entry_settle){ .session = s->id, .decision = c ? c->seq : 0, .outcome = OUTCOME_OK, .charges = charges, .n_charges = n };
	(void)wear_one(st, &next, now);
	if (c)
		(void)wear_one(st, &e, now);
}

static inline bool wear_deadline(struct state *st)
{
	struct entry e = { .kind = ENTRY_TIMEOUT };
	struct deadline due;

	if (!state_next_deadline(st, &due))
		return false;
	if (due.kind == DEADLINE_CARD) {
		e.timeout = (struct entry_timeout){ .session = due.session, .card = due.id };
	} else {
		e.kind = ENTRY_LOSS;
		e.loss = (struct entry_loss){ .what = LOSS_RESERVATION_EXPIRED, .session = due.session, .decision = due.id };
	}
	return wear_one(st, &e, due.at);
}

/* false: a deadline could not be met, or something is left of a session at the end of its time. */
static inline bool wear_out(struct state *st)
{
	struct entry e = { .kind = ENTRY_STOP };
	const struct session_state *s;
	struct deadline due;
	bool met = true;

	for (uint64_t id = 0; (s = state_session_after(st, id));) {
		id = s->id;
		wear_calls(st, s);
	}
	while (state_next_deadline(st, &due) && due.at < INT64_MAX && met)
		met = wear_deadline(st);
	for (uint64_t id = 0; (s = state_session_after(st, id));) {
		id = s->id;
		e = (struct entry){ .kind = ENTRY_SESSION, .session = { .action = SESSION_STALE, .session = id } };
		(void)wear_one(st, &e, 0);
	}
	e = (struct entry){ .kind = ENTRY_STOP };
	if (state_now(st) > INT64_MAX - PAWL_SESSION_LINGER_NS - 1 || !wear_one(st, &e, state_now(st) + PAWL_SESSION_LINGER_NS + 1))
		return met; /* the log's time, or its numbers, are at their end */
	return met && !state_session_after(st, 0);
}

#endif
