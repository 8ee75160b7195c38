/* policy/state_room.c - is this entry what a pawld may have written in this state, and is there memory for all it adds?
 * A log from outside is input: whatever state_apply() would stumble over is refused here. Adds capacity, changes
 * nothing that can be read. */
#include "policy/state_int.h"

#include <stdlib.h>

static int contradiction(const struct entry *e, struct pawl_error *err, const char *what)
{
	return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu contradicts the entries before it: %s",
			 (unsigned long long)e->seq, what);
}

static int no_memory(struct pawl_error *err)
{
	return pawl_fail(err, PAWL_E_NOMEM, "out of memory for the state");
}

/* ---- sessions ---- */

static int check_open(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_session *s = &e->session;
	uint32_t parent = s->parent ? find_session(st, s->parent) : 0;

	if (s->session != e->seq || s->session == 0)
		return contradiction(e, err, "a session is named after the entry that opens it, and 0 names none");
	if (s->parent ? !parent || session_at(st, parent)->pub.end != SESSION_LIVE ||
			    session_at(st, parent)->pub.root != s->root
		      : s->root != s->session)
		return contradiction(e, err, "the parent of the new session is not a live session of that tree");
	if (s->agent.n == 0 || s->lease_ns < 0 || s->fresh_end < 0 || (s->fresh_end != 0 && s->fresh_end <= e->now))
		return contradiction(e, err, "a session without agent, or with a lease or window that is over");
	for (int u = 0; u < UNIT_COUNT; u++)
		if (s->has_limit[u] && s->limit[u] < 0)
			return contradiction(e, err, "a negative limit");
	return 0;
}

static int room_session(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_session *s = &e->session;
	uint32_t h;
	int r;

	if (s->action != SESSION_OPEN) {
		h = find_session(st, s->session);
		if (!h || session_at(st, h)->pub.end != SESSION_LIVE || s->action >= SESSION_ACTION_COUNT)
			return contradiction(e, err, "it ends a session that is not live");
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

/* ---- decisions ---- */

static bool draw_is_sane(const struct entry_decision *d, const struct draw *w)
{
	return (unsigned)w->unit < UNIT_COUNT && w->key.unit == w->unit && (unsigned)w->key.scope < SCOPE_COUNT && w->amount >= 0 &&
	       w->key.budget.n > 0 && (w->key.scope == SCOPE_SESSION) == (w->key.session != 0) &&
	       (w->key.scope != SCOPE_SESSION || w->key.session <= d->session);
}

/* Only ancestors and the session itself can be drawn from: a ledger must not outlive, or die before, what draws from
 * it. */
static bool draw_in_reach(const struct state *st, const struct session_row *who, const struct draw *w)
{
	uint64_t id = who->pub.id;

	while (w->key.session && id && id != w->key.session) {
		uint32_t h = find_session(st, id);

		id = h ? session_at(st, h)->pub.parent : 0;
	}
	return id != 0;
}

static int check_allow(const struct state *st, const struct entry *e, const struct session_row *who,
		       struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;

	if (d->lease_until < e->now || d->card)
		return contradiction(e, err, "an allowed call with a card, or with a lease that is over");
	if (d->n_draws > PAWL_MAX_LEDGERS)
		return contradiction(e, err, "more ledgers than a call can draw from");
	for (size_t i = 0; i < d->n_draws; i++) {
		if (!draw_is_sane(d, &d->draws[i]) || !draw_in_reach(st, who, &d->draws[i]))
			return contradiction(e, err, "it draws from a ledger that is not in reach");
		for (size_t k = 0; k < i; k++)
			if (ledger_key_eq(&d->draws[i].key, &d->draws[k].key))
				return contradiction(e, err, "it draws twice from one ledger");
	}
	return 0;
}

static int check_card(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	uint32_t h = find_card(st, d->session, d->card_token);

	if (d->card_until < e->now)
		return contradiction(e, err, "a card whose deadline is over");
	if (h ? card_at(st, h)->pub.id != d->card || card_at(st, h)->pub.until != d->card_until : d->card != e->seq)
		return contradiction(e, err, "the review card is not the one that this call belongs to");
	return 0;
}

static bool guard_is_tighter(const struct state *st, const struct entry_decision *d)
{
	struct guard_state g = state_guard(st, d->session, d->tool);

	if (d->guard_repeat < 0 || d->guard_money < 0)
		return false;
	return (!g.has_money || (d->has_guard_money && d->guard_money <= g.money)) &&
	       (!g.repeat || (d->guard_repeat && d->guard_repeat <= g.repeat));
}

static int check_decision(const struct state *st, const struct entry *e, const struct session_row *who,
			  struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;

	if (d->root != who->pub.root || d->tool.n == 0 || (unsigned)d->kind >= CALL_KIND_COUNT)
		return contradiction(e, err, "a decision in another tree, or about no tool");
	if (!guard_is_tighter(st, d))
		return contradiction(e, err, "the caller's own limits for this tool became looser");
	switch (d->answer) {
	case VERDICT_ALLOW:
		if (who->pub.end != SESSION_LIVE || d->why.code == REASON_SESSION_LIMIT)
			return contradiction(e, err, "an allowed call in a session that is over or used up");
		return check_allow(st, e, who, err);
	case VERDICT_REVIEW:
		if (who->pub.end != SESSION_LIVE || d->why.code == REASON_SESSION_LIMIT)
			return contradiction(e, err, "a review in a session that is over or used up");
		return check_card(st, e, err);
	case VERDICT_DENY:
		return d->card ? contradiction(e, err, "a denial with a review card") : 0;
	case VERDICT_UNSET:
		break;
	}
	return contradiction(e, err, "a decision without a verdict");
}

static bool ring_reserve(struct session_row *root)
{
	uint32_t cap = root->ring_cap ? root->ring_cap * 2 : 8;
	uint64_t *ring;

	if (root->ring_n < root->ring_cap || root->ring_cap == PAWL_MAX_WINDOW)
		return true;
	cap = cap < PAWL_MAX_WINDOW ? cap : PAWL_MAX_WINDOW;
	ring = realloc(root->ring, cap * sizeof(*ring)); /* not wrapped yet: it wraps at full size only */
	if (!ring)
		return false;
	root->ring = ring;
	root->ring_cap = cap;
	return true;
}

static bool reserve_draws(struct state *st, const struct entry_decision *d)
{
	for (size_t i = 0; i < d->n_draws; i++)
		if (!text_reserve(st, d->draws[i].key.budget) || !text_reserve(st, d->draws[i].key.owner) ||
		    !text_reserve(st, d->draws[i].key.tool))
			return false;
	return pool_reserve(&st->holds, d->n_draws) && pool_reserve(&st->ledgers, d->n_draws) &&
	       index_reserve(st, &st->by_ledger, d->n_draws, ledger_row_hash);
}

static int room_decision(struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_decision *d = &e->decision;
	uint32_t h = find_session(st, d->session);
	bool fits;
	int r;

	if (!h)
		return contradiction(e, err, "a decision in a session that is not known");
	r = check_decision(st, e, session_at(st, h), err);
	if (r < 0 || !decision_is_kept(session_at(st, h), d))
		return r;
	fits = text_reserve(st, d->tool) && pool_reserve(&st->calls, 1) &&
	       index_reserve(st, &st->by_seq, 1, seq_row_hash) && index_reserve(st, &st->by_call, 1, call_row_hash);
	if (d->has_guard_money || d->guard_repeat)
		fits = fits && pool_reserve(&st->guards, 1) && index_reserve(st, &st->by_guard, 1, guard_row_hash);
	if (d->answer == VERDICT_REVIEW && d->card == e->seq)
		fits = fits && pool_reserve(&st->cards, 1) && index_reserve(st, &st->by_card, 1, card_row_hash) &&
		       heap_reserve(st, 1);
	if (d->answer == VERDICT_ALLOW)
		fits = fits && reserve_draws(st, d) && heap_reserve(st, 1) && pool_reserve(&st->sames, 1) &&
		       index_reserve(st, &st->by_same, 1, same_row_hash) &&
		       (!d->has_repeat || ring_reserve(session_at(st, session_at(st, h)->root_row)));
	return fits ? 0 : no_memory(err);
}

/* ---- endings: no memory needed ---- */

static int room_settle(const struct state *st, const struct entry *e, const struct entry_settle *s, bool late,
		       struct pawl_error *err)
{
	uint32_t h = find_seq(st, s->decision), hold;
	const struct call_row *c = h ? call_at(st, h) : NULL;
	size_t i = 0;

	if (!c || c->pub.answer != VERDICT_ALLOW || c->pub.session != s->session)
		return contradiction(e, err, "it settles a decision that did not allow a call of this session");
	if (c->reported || late != (c->pub.settled != 0))
		return contradiction(e, err,
				     late ? "a late report of a call that was reported, or still may be"
					  : "it settles a call twice");
	if (s->outcome == OUTCOME_NONE || s->outcome >= OUTCOME_EXPIRED)
		return contradiction(e, err, "an outcome that no report can have");
	for (hold = c->holds; hold; hold = hold_at(st, hold)->next, i++) {
		const struct charge *g = i < s->n_charges ? &s->charges[i] : NULL;

		if (!g || !ledger_key_eq(&g->draw.key, &ledger_at(st, hold_at(st, hold)->ledger)->key) ||
		    g->charged < 0 || g->reserved != (late ? 0 : hold_at(st, hold)->amount))
			return contradiction(e, err, "it releases something else than what the call holds");
	}
	return i == s->n_charges ? 0 : contradiction(e, err, "it charges a ledger that the call does not draw from");
}

static int room_loss(const struct state *st, const struct entry *e, struct pawl_error *err)
{
	const struct entry_loss *l = &e->loss;
	uint32_t h;

	switch (l->what) {
	case LOSS_RESERVATION_EXPIRED:
		h = find_seq(st, l->decision);
		if (!h || call_at(st, h)->pub.answer != VERDICT_ALLOW || call_at(st, h)->pub.settled ||
		    call_at(st, h)->pub.session != l->session || call_at(st, h)->pub.lease_until > e->now)
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
	uint32_t h = find_card_id(st, e->timeout.session, e->timeout.card);

	if (!h || card_at(st, h)->pub.until > e->now)
		return contradiction(e, err, "it closes a card that is not pending, or not over yet");
	return 0;
}

int state_room(struct state *st, const struct entry *e, struct pawl_error *err)
{
	text_sweep(st); /* of a room that was never used */
	if (e->seq != st->next_seq)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu where %llu is due", (unsigned long long)e->seq,
				 (unsigned long long)st->next_seq);
	if (e->now < st->now)
		return contradiction(e, err, "its log time lies before the last one");
	switch (e->kind) {
	case ENTRY_SESSION:
		return room_session(st, e, err);
	case ENTRY_DECISION:
		return room_decision(st, e, err);
	case ENTRY_SETTLE:
		return room_settle(st, e, &e->settle, false, err);
	case ENTRY_TIMEOUT:
		return room_timeout(st, e, err);
	case ENTRY_LOSS:
		return room_loss(st, e, err);
	case ENTRY_START:
	case ENTRY_STOP:
	case ENTRY_POLICY:
	case ENTRY_THROTTLE:
		return 0;
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	return contradiction(e, err, "an unknown kind");
}
