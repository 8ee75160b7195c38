/* policy/state_apply.c - the only way state changes: state_apply(state, entry). Knows no policy and no clock; whatever
 * it does is stated by the entry or follows from the entries before it. Takes no memory that state_room() has not
 * reserved, so it cannot fail. */
#include "policy/state_int.h"

#include <assert.h>

/* ---- sessions ---- */

static struct agent_state *agent_get(struct state *st, struct str name)
{
	uint32_t h = find_agent(st, name);

	if (!h) {
		h = pool_take(&st->agents);
		agent_at(st, h)->name = text_ref(st, name);
		APPEND(st, agent, st->list.agents_first, st->list.agents_last, next, h);
		index_put(&st->by_agent, agent_row_hash(st, h), h);
	}
	return &agent_at(st, h)->pub;
}

void tree_link(struct state *st, uint32_t h, uint64_t parent)
{
	struct session_row *s = session_at(st, h), *up;

	s->root_row = h;
	s->parent_row = parent ? find_session(st, parent) : 0;
	if (!s->parent_row)
		return;
	up = session_at(st, s->parent_row);
	s->root_row = up->root_row;
	s->sibling_next = up->child_first;
	up->child_first = h;
}

static void session_open(struct state *st, const struct entry *e)
{
	const struct entry_session *o = &e->session;
	uint32_t h = pool_take(&st->sessions);
	struct session_row *s = session_at(st, h);
	struct agent_state *a = agent_get(st, o->agent);

	s->pub = (struct session_state){
		.id = o->session, .parent = o->parent, .root = o->root, .opened_ns = e->now, .lease_ns = o->lease_ns
	};
	s->pub.agent = text_ref(st, o->agent);
	s->pub.root_dir = text_ref(st, o->root_dir);
	s->pub.labels_text = text_ref(st, o->labels_text);
	memcpy(s->pub.token_hash, o->token_hash, sizeof(s->pub.token_hash));
	memcpy(s->pub.has_limit, o->has_limit, sizeof(s->pub.has_limit));
	for (int u = 0; u < UNIT_COUNT; u++)
		s->pub.limit[u] = o->has_limit[u] ? o->limit[u] : 0;
	s->prev = st->list.sessions_last;
	APPEND(st, session, st->list.sessions_first, st->list.sessions_last, next, h);
	index_put(&st->by_session, session_row_hash(st, h), h);
	tree_link(st, h, o->parent);
	a->open++;
	if (o->fresh_end) {
		a->fresh = a->fresh_end == o->fresh_end ? a->fresh + 1 : 1;
		a->fresh_end = o->fresh_end;
	}
}

/* Nobody reported: what was held is charged. */
static void expire(struct state *st, uint32_t call, uint64_t seq)
{
	holds_charge(st, call);
	call_close(st, call, seq);
}

static void session_end(struct state *st, uint32_t h, const struct entry *e, enum session_end how)
{
	struct session_row *s = session_at(st, h);

	while (s->open_first)
		expire(st, live_at(st, s->open_first)->call, e->seq);
	for (uint32_t c = s->cards; c; c = card_at(st, c)->next)
		if (card_waits(card_at(st, c)))
			card_mode(st, c, CARD_CLOSED);
	breaks_free(st, s);
	s->pub.end = how;
	s->pub.ended_ns = e->now;
	APPEND(st, session, st->list.ended_first, st->list.ended_last, ended_next, h);
	agent_get(st, s->pub.agent)->open--;
}

/* With all that it opened. Below a session that is over nothing lives. */
static void tree_end(struct state *st, uint32_t top, const struct entry *e, enum session_end how)
{
	uint32_t h = top;

	for (;;) {
		bool live = session_at(st, h)->pub.end == SESSION_LIVE;

		if (live)
			session_end(st, h, e, how);
		if (live && session_at(st, h)->child_first) {
			h = session_at(st, h)->child_first;
			continue;
		}
		while (h != top && !session_at(st, h)->sibling_next)
			h = session_at(st, h)->parent_row;
		if (h == top)
			return;
		h = session_at(st, h)->sibling_next;
	}
}

static void hold_agent(struct state *st, uint32_t session, int64_t until)
{
	struct agent_state *a = agent_get(st, session_at(st, session)->pub.agent);

	if (until > a->hold_until)
		a->hold_until = until;
}

static void apply_session(struct state *st, const struct entry *e)
{
	static const enum session_end how[SESSION_ACTION_COUNT] = { [SESSION_CLOSE] = SESSION_ENDED_CLOSE,
								    [SESSION_STALE] = SESSION_ENDED_STALE,
								    [SESSION_ABORT] = SESSION_ENDED_ABORT };
	uint32_t h;

	if (e->session.action == SESSION_OPEN) {
		session_open(st, e);
		return;
	}
	h = find_session(st, e->session.session);
	if (e->session.action == SESSION_ABORT)
		hold_agent(st, h, e->session.hold_until);
	tree_end(st, h, e, how[e->session.action]);
}

/* ---- decisions and claims ---- */

static void fix_guard(struct state *st, uint32_t session, const struct entry_decision *d)
{
	struct session_row *s = session_at(st, session);
	uint32_t h = find_guard(st, d->session, d->tool);

	if (!d->has_guard_money && !d->guard_repeat)
		return;
	if (!h) {
		h = pool_take(&st->guards);
		guard_at(st, h)->tool = text_ref(st, d->tool);
		guard_at(st, h)->session_row = session;
		guard_at(st, h)->next = s->guards;
		s->guards = h;
		index_put(&st->by_guard, guard_row_hash(st, h), h);
	}
	guard_at(st, h)->pub = (struct guard_state){ .has_money = d->has_guard_money,
						     .money = d->has_guard_money ? d->guard_money : 0,
						     .repeat = d->guard_repeat };
}

static void apply_review(struct state *st, uint32_t session, uint32_t call, const struct entry *e)
{
	uint32_t h = find_card_id(st, e->decision.card);

	if (!h)
		h = card_open(st, session, e);
	card_join(st, h, &e->decision);
	call_live(st, call_at(st, call))->card = h;
}

static void spend_card(struct state *st, uint32_t call, const struct entry_decision *d)
{
	uint32_t h = find_card_id(st, d->spends);

	card_at(st, h)->pub.spent_by = call_at(st, call)->seq;
	card_mode(st, h, CARD_SPENT);
	if (d->ends_cards)
		cards_end(st, h, call_at(st, call)->seq);
	call_live(st, call_at(st, call))->card = h;
	call_at(st, call)->spent = true;
}

static void apply_decision(struct state *st, const struct entry *e)
{
	const struct entry_decision *d = &e->decision;
	uint32_t session = find_session(st, d->session), h;
	struct session_row *s = session_at(st, session);

	if (!decision_is_kept(s, d))
		return;
	s->pub.decisions++;
	h = call_add(st, session, e);
	fix_guard(st, session, d);
	denial_add(st, session, e);
	if (d->answer == VERDICT_ALLOW) {
		holds_take(st, h, d, e->now);
		call_open(st, h);
		exec_add(st, h, d);
		if (d->spends)
			spend_card(st, h, d);
	} else if (d->answer == VERDICT_REVIEW) {
		apply_review(st, session, h, e);
	}
}

/* ---- reports, answers, losses ---- */

static void apply_settle(struct state *st, const struct entry *e, const struct entry_settle *s)
{
	uint32_t h = find_seq(st, s->decision);
	bool late = call_at(st, h)->settled != 0;

	holds_settle(st, h, s, late, e->now);
	holds_free(st, h); /* nothing more can be said about this call */
	if (late)
		call_at(st, h)->settled = e->seq & SEQ_MAX; /* the entry that the same report is answered from */
	else
		call_close(st, h, e->seq);
	call_told(st, h, s, late);
}

static void apply_resolve(struct state *st, const struct entry *e)
{
	const struct entry_resolve *r = &e->resolve;
	uint32_t ends = r->ends ? find_session(st, r->ends) : 0;

	card_answered(st, find_card_id(st, r->card), r);
	for (size_t i = 0; i < r->n_grants; i++)
		ledger_grant(st, &r->grants[i], e->now);
	if (!ends)
		return;
	hold_agent(st, ends, r->hold_until);
	tree_end(st, ends, e, SESSION_ENDED_ABORT);
}

static void apply_loss(struct state *st, const struct entry *e)
{
	if (e->loss.what == LOSS_RESERVATION_EXPIRED)
		expire(st, find_seq(st, e->loss.decision), e->seq);
	else if (e->loss.what == LOSS_LATE_SETTLE)
		apply_settle(st, e, &e->loss.late);
}

static void apply_kind(struct state *st, const struct entry *e)
{
	switch (e->kind) {
	case ENTRY_SESSION:
		apply_session(st, e);
		return;
	case ENTRY_DECISION:
	case ENTRY_CLAIM:
		apply_decision(st, e);
		return;
	case ENTRY_SETTLE:
		apply_settle(st, e, &e->settle);
		return;
	case ENTRY_RESOLVE:
		apply_resolve(st, e);
		return;
	case ENTRY_TIMEOUT:
		if (e->timeout.waiter)
			card_at(st, find_card_id(st, e->timeout.card))->pub.claim_only = true;
		else
			card_mode(st, find_card_id(st, e->timeout.card), CARD_TIMED_OUT);
		return;
	case ENTRY_LOSS:
		apply_loss(st, e);
		return;
	case ENTRY_START:
	case ENTRY_POLICY:
		mode_apply(st, e);
		budgets_apply(st, entry_budgets(e), e->now);
		return;
	case ENTRY_WATCH:
		watch_apply(st, e);
		return;
	case ENTRY_BREAKER:
	case ENTRY_KEY:
	case ENTRY_STOP:
	case ENTRY_THROTTLE:
	case ENTRY_SNAPSHOT:
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		return;
	}
}

void state_apply(struct state *st, const struct entry *e)
{
	const struct breaker_row *rows;
	size_t n;

	assert(e->seq == st->next_seq && e->now >= st->now);
	st->next_seq = e->seq + 1;
	st->now = e->now;
	rows = entry_breakers(e, &n);
	for (size_t i = 0; i < n; i++)
		break_put(st, &rows[i], e->seq);
	apply_kind(st, e); /* after the rows: those of a session that ends here are to die with it */
	text_sweep(st);
	forget_ended(st);
}
