/* policy/state_room.c - is this entry what a pawld may have written in this state, and is there memory for all it adds?
 * A log from outside is input: whatever state_apply() would stumble over is refused here. Adds capacity, changes
 * nothing that can be read. Decisions are looked at in state_room_decision.c, a person's answers and breakers in
 * state_room_review.c. */
#include "policy/state_int.h"

int contradiction(const struct entry *e, struct pawl_error *err, const char *what)
{
	return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu contradicts the entries before it: %s",
			 (unsigned long long)e->seq, what);
}

int no_memory(struct pawl_error *err)
{
	return pawl_fail(err, PAWL_E_NOMEM, "out of memory for the state");
}

/* ---- sessions ---- */

static bool parent_is_sane(const struct state *st, const struct entry_session *s)
{
	uint32_t h = find_session(st, s->parent);
	int depth = 1;

	if (!h || session_at(st, h)->pub.end != SESSION_LIVE || session_at(st, h)->pub.root != s->root)
		return false;
	for (; h; h = session_at(st, h)->parent_row)
		depth++;
	return depth <= PAWL_MAX_DEPTH_TREE;
}

static int check_open(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_session *s = &e->session;

	if (s->session != e->seq || s->session == 0)
		return contradiction(e, err, "a session is named after the entry that opens it, and 0 names none");
	if (s->parent ? !parent_is_sane(st, s) : s->root != s->session)
		return contradiction(e, err, "the parent of the new session is not a live session of that tree, or too deep in it");
	if (s->agent.n == 0 || s->lease_ns < 0 || s->fresh_end < 0 || (s->fresh_end != 0 && s->fresh_end <= e->now))
		return contradiction(e, err, "a session without agent, or with a lease or window that is over");
	for (int u = 0; u < UNIT_COUNT; u++)
		if (s->has_limit[u] && s->limit[u] < 0)
			return contradiction(e, err, "a negative limit");
	if (s->n_breakers || s->hold_until)
		return contradiction(e, err, "a session that opens with what only an abort does");
	return 0;
}

static int room_session(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_session *s = &e->session;
	uint32_t h;
	int r;

	if (s->action != SESSION_OPEN) {
		h = find_session(st, s->session);
		if (!h || session_at(st, h)->pub.end != SESSION_LIVE || (unsigned)s->action >= SESSION_ACTION_COUNT)
			return contradiction(e, err, "it ends a session that is not live");
		if (s->action != SESSION_ABORT && (s->n_breakers || s->hold_until))
			return contradiction(e, err, "a session that closes with what only an abort does");
		return 0;
	}
	r = check_open(st, e, err);
	if (r < 0)
		return r;
	if (!pool_reserve(&st->sessions, 1) || !index_reserve(st, &st->by_session, 1, session_row_hash) ||
	    !pool_reserve(&st->agents, 1) || !index_reserve(st, &st->by_agent, 1, agent_row_hash) ||
	    !text_reserve(st, s->agent) || !text_reserve(st, s->root_dir) || !text_reserve(st, s->labels_text))
		return no_memory(err);
	return 0;
}

/* ---- endings: no memory needed ---- */

/* Of a hold whose window has rolled nothing can be released: a charge says so with 0, or names what was held and leaves it
 * to the state to add the excess alone. */
static bool charge_is_sane(const struct state *st, const struct entry *e, const struct hold_row *o, const struct charge *g, bool late)
{
	const struct ledger_row *l = ledger_at(st, o->ledger);

	if (!ledger_is(st, o->ledger, &g->draw.key) || g->charged < 0 || !window_is_sane(e, g->draw.window_end))
		return false;
	if (late)
		return g->reserved == 0;
	return g->reserved == o->amount || (g->reserved == 0 && !hold_is_current(l, o, g->draw.window_end, e->now));
}

static int room_settle(const struct state *st, const struct entry *e, const struct entry_settle *s, bool late,
		       struct pawl_error *err)
{
	uint32_t h = find_seq(st, s->decision), hold;
	const struct call_row *c = h ? call_at(st, h) : NULL;
	size_t i = 0;

	if (!c || c->answer != VERDICT_ALLOW || session_at(st, c->session_row)->pub.id != s->session)
		return contradiction(e, err, "it settles a decision that did not allow a call of this session");
	if (c->reported || late != (c->settled != 0))
		return contradiction(e, err,
				     late ? "a late report of a call that was reported, or still may be"
					  : "it settles a call twice");
	if (s->outcome <= OUTCOME_NONE || s->outcome >= OUTCOME_EXPIRED)
		return contradiction(e, err, "an outcome that no report can have");
	for (hold = ledger_holds(st, c); hold; hold = hold_at(st, hold)->next, i++)
		if (i >= s->n_charges || !charge_is_sane(st, e, hold_at(st, hold), &s->charges[i], late))
			return contradiction(e, err, "it releases something else than what the call holds");
	return i == s->n_charges ? 0 : contradiction(e, err, "it charges a ledger that the call does not draw from");
}

static int room_loss(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_loss *l = &e->loss;
	uint32_t h;

	switch (l->what) {
	case LOSS_RESERVATION_EXPIRED:
		h = find_seq(st, l->decision);
		if (!h || call_at(st, h)->answer != VERDICT_ALLOW || call_at(st, h)->settled ||
		    session_at(st, call_at(st, h)->session_row)->pub.id != l->session || call_live(st, call_at(st, h))->lease_until > e->now)
			return contradiction(e, err, "it ends a reservation that is not open, or not over yet");
		return 0;
	case LOSS_LATE_SETTLE:
		if (l->late.decision != l->decision || l->late.session != l->session)
			return contradiction(e, err, "a late report of another call");
		return room_settle(st, e, &l->late, true, err);
	case LOSS_TORN_TAIL:
		return 0;
	case LOSS_WHAT_COUNT:
		break;
	}
	return contradiction(e, err, "an unknown loss");
}

static int room_timeout(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	uint32_t h = find_card_id(st, e->timeout.card);
	const struct card_row *c = h ? card_at(st, h) : NULL;

	if (c && e->timeout.waiter && c->pub.session == e->timeout.session && c->pub.mode == CARD_PENDING)
		return 0;
	if (!c || e->timeout.waiter || c->pub.session != e->timeout.session || !card_waits(c) || c->pub.until > e->now)
		return contradiction(e, err, "it closes a card that waits for nothing, or whose time is not over yet");
	return 0;
}

static int room_kind(struct state *st, const struct entry *e, struct pawl_error *err)
{
	int r;

	switch (e->kind) {
	case ENTRY_SESSION:
		return room_session(st, e, err);
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		return room_decision(st, e, err);
	case ENTRY_SETTLE:
		return room_settle(st, e, &e->settle, false, err);
	case ENTRY_RESOLVE:
		return room_resolve(st, e, err);
	case ENTRY_TIMEOUT:
		return room_timeout(st, e, err);
	case ENTRY_LOSS:
		return room_loss(st, e, err);
	case ENTRY_START:
	case ENTRY_POLICY:
		r = room_mode(e, err);
		return r < 0 ? r : room_budgets(st, e, err);
	case ENTRY_WATCH:
		return room_watch(st, e, err);
	case ENTRY_STOP:
	case ENTRY_BREAKER:
	case ENTRY_KEY:
	case ENTRY_THROTTLE:
		return 0;
	case ENTRY_SNAPSHOT:
		return e->snapshot.at >= 0 && (uint64_t)e->snapshot.at <= e->seq ? 0 : contradiction(e, err, "a snapshot of what is still to come");
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	return contradiction(e, err, "an unknown kind");
}

int state_room(struct state *st, const struct entry *e, struct pawl_error *err)
{
	int r;

	text_sweep(st); /* of a room that was never used */
	if (e->seq != st->next_seq || e->seq > SEQ_MAX)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu where %llu is due", (unsigned long long)e->seq,
				 (unsigned long long)st->next_seq);
	if (e->now < st->now)
		return contradiction(e, err, "its log time lies before the last one");
	r = room_kind(st, e, err);
	return r < 0 ? r : room_breakers(st, e, err);
}
