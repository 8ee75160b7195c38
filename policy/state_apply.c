/* policy/state_apply.c - the only way state changes: state_apply(state, entry). Knows no policy and no clock; whatever
 * it does is stated by the entry or follows from the entries before it. Takes no memory that state_room() has not
 * reserved, so it cannot fail.
 *
 * Who owns an idempotency key: a call that was allowed keeps its key for as long as its session lives, whatever is
 * answered to those who ask again (already_settled, in_doubt, or a denial by another law); else the newest answer takes
 * it. Were it otherwise, a retry that some law refused would hide that the call has run, and the retry after that would
 * let it run twice. */
#include "policy/state_int.h"

#include <assert.h>
#include <stdlib.h>

/* ---- lists: appended at the end, so that they stay in the order of ids ---- */

#define APPEND(st, kind, first, last, link, h)           \
	do {                                             \
		if (last)                                \
			kind##_at(st, last)->link = (h); \
		else                                     \
			first = (h);                     \
		last = (h);                              \
	} while (0)

/* ---- reservations ---- */

static void open_add(struct state *st, uint32_t h)
{
	struct call_row *c = call_at(st, h);
	struct session_row *s = session_at(st, c->session_row);

	c->open_prev = s->open_last;
	APPEND(st, call, s->open_first, s->open_last, open_next, h);
	s->pub.open_reservations++;
	if (c->pub.lease_until > s->pub.latest_reservation)
		s->pub.latest_reservation = c->pub.lease_until;
	heap_add(st, (struct heap_node){ c->pub.lease_until, c->pub.seq, h, DEADLINE_RESERVATION });
}

static void open_remove(struct state *st, uint32_t h)
{
	struct call_row *c = call_at(st, h);
	struct session_row *s = session_at(st, c->session_row);

	*(c->open_prev ? &call_at(st, c->open_prev)->open_next : &s->open_first) = c->open_next;
	*(c->open_next ? &call_at(st, c->open_next)->open_prev : &s->open_last) = c->open_prev;
	c->open_prev = c->open_next = 0;
	heap_remove(st, c->heap_at);
	s->pub.open_reservations--;
	if (c->pub.lease_until < s->pub.latest_reservation)
		return;
	s->pub.latest_reservation = 0;
	for (uint32_t o = s->open_first; o; o = call_at(st, o)->open_next)
		if (call_at(st, o)->pub.lease_until > s->pub.latest_reservation)
			s->pub.latest_reservation = call_at(st, o)->pub.lease_until;
}

/* Never below 0: sums of absurd amounts have saturated, and what saturated must not come back as credit. */
static void release(struct ledger_state *l, int64_t amount)
{
	l->reserved = amount < l->reserved ? l->reserved - amount : 0;
}

/* Nobody reported: what was held is charged. */
static void charge_held(struct state *st, uint32_t h, uint64_t seq)
{
	struct call_row *c = call_at(st, h);

	for (uint32_t o = c->holds; o; o = hold_at(st, o)->next) {
		struct ledger_state *l = &ledger_at(st, hold_at(st, o)->ledger)->sum;

		release(l, hold_at(st, o)->amount);
		l->spent = add_sat(l->spent, hold_at(st, o)->amount);
	}
	open_remove(st, h);
	c->pub.settled = seq;
	c->pub.outcome = OUTCOME_EXPIRED;
}

static void apply_settle(struct state *st, uint64_t seq, uint64_t decision, const struct entry_settle *s)
{
	uint32_t h = find_seq(st, decision);
	struct call_row *c = call_at(st, h);
	bool late = c->pub.settled != 0;
	size_t i = 0;

	for (uint32_t o = c->holds; o; o = hold_at(st, o)->next, i++) {
		struct ledger_state *l = &ledger_at(st, hold_at(st, o)->ledger)->sum;

		release(l, s->charges[i].reserved);
		l->spent = add_sat(l->spent, s->charges[i].charged);
		hold_at(st, o)->amount =
		    late ? add_sat(hold_at(st, o)->amount, s->charges[i].charged) : s->charges[i].charged;
	}
	if (!late)
		open_remove(st, h);
	c->pub.settled = seq; /* also when late: this is the entry that the same report is answered from */
	c->pub.outcome = s->outcome;
	c->reported = true;
	memcpy(c->pub.settle_same, s->same, sizeof(c->pub.settle_same));
}

/* ---- review cards ---- */

static void card_open(struct state *st, uint32_t session, const struct entry *e)
{
	struct session_row *s = session_at(st, session);
	uint32_t h = pool_take(&st->cards);
	struct card_row *c = card_at(st, h);

	c->pub = (struct card_state){ .id = e->seq, .session = s->pub.id, .until = e->decision.card_until };
	memcpy(c->token, e->decision.card_token, sizeof(c->token));
	c->session_row = session;
	c->prev = s->cards_last;
	APPEND(st, card, s->cards_first, s->cards_last, next, h);
	index_put(&st->by_card, card_row_hash(st, h), h);
	heap_add(st, (struct heap_node){ c->pub.until, c->pub.id, h, DEADLINE_CARD });
	s->pub.pending_cards++;
}

static void card_close(struct state *st, uint32_t h)
{
	struct card_row *c = card_at(st, h);
	struct session_row *s = session_at(st, c->session_row);

	*(c->prev ? &card_at(st, c->prev)->next : &s->cards_first) = c->next;
	*(c->next ? &card_at(st, c->next)->prev : &s->cards_last) = c->prev;
	heap_remove(st, c->heap_at);
	(void)index_remove(st, &st->by_card, card_row_hash, h);
	pool_give(&st->cards, h);
	s->pub.pending_cards--;
}

/* ---- sessions ---- */

static struct agent_state *agent_get(struct state *st, struct str name)
{
	uint32_t h = find_agent(st, name);

	if (!h) {
		h = pool_take(&st->agents);
		agent_at(st, h)->name = text_ref(st, name);
		APPEND(st, agent, st->agents_first, st->agents_last, next, h);
		index_put(&st->by_agent, agent_row_hash(st, h), h);
	}
	return &agent_at(st, h)->pub;
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
	s->prev = st->sessions_last;
	APPEND(st, session, st->sessions_first, st->sessions_last, next, h);
	index_put(&st->by_session, session_row_hash(st, h), h);
	s->root_row = find_session(st, o->root);
	if (s->root_row != h) {
		struct session_row *up = session_at(st, s->root_row);

		s->tree_next = up->tree_next;
		up->tree_next = h;
	}
	a->open++;
	if (o->fresh_end) {
		a->fresh = a->fresh_end == o->fresh_end ? a->fresh + 1 : 1;
		a->fresh_end = o->fresh_end;
	}
}

static bool descends(const struct state *st, uint32_t h, uint64_t from)
{
	while (h && session_at(st, h)->pub.id != from)
		h = find_session(st, session_at(st, h)->pub.parent);
	return h != 0;
}

static void session_end(struct state *st, uint32_t h, const struct entry *e)
{
	struct session_row *s = session_at(st, h);

	while (s->open_first)
		charge_held(st, s->open_first, e->seq);
	while (s->cards_first)
		card_close(st, s->cards_first);
	s->pub.end = e->session.action == SESSION_STALE ? SESSION_ENDED_STALE : SESSION_ENDED_CLOSE;
	s->pub.ended_ns = e->now;
	APPEND(st, session, st->ended_first, st->ended_last, ended_next, h);
	agent_get(st, s->pub.agent)->open--;
}

static void apply_session(struct state *st, const struct entry *e)
{
	uint32_t h;

	if (e->session.action == SESSION_OPEN) {
		session_open(st, e);
		return;
	}
	h = session_at(st, find_session(st, e->session.session))->root_row;
	for (; h; h = session_at(st, h)->tree_next)
		if (session_at(st, h)->pub.end == SESSION_LIVE && descends(st, h, e->session.session))
			session_end(st, h, e);
}

/* ---- decisions ---- */

static uint32_t ledger_get(struct state *st, const struct draw *w)
{
	uint32_t h = find_ledger(st, &w->key);
	struct ledger_row *l;

	if (h)
		return h;
	h = pool_take(&st->ledgers);
	l = ledger_at(st, h);
	l->key = w->key;
	l->key.budget = text_ref(st, w->key.budget);
	l->key.owner = text_ref(st, w->key.owner);
	l->key.tool = text_ref(st, w->key.tool);
	l->unit = w->unit;
	if (w->key.session) {
		struct session_row *s = session_at(st, find_session(st, w->key.session));

		APPEND(st, ledger, s->ledgers_first, s->ledgers_last, next, h);
	} else {
		APPEND(st, ledger, st->shared_first, st->shared_last, next, h);
	}
	index_put(&st->by_ledger, ledger_row_hash(st, h), h);
	return h;
}

static void reserve(struct state *st, struct call_row *c, const struct entry_decision *d)
{
	uint32_t last = 0, h, l;
	struct hold_row *o;

	for (size_t i = 0; i < d->n_draws; i++) {
		if (d->draws[i].unit == UNIT_TIME) /* passes by itself: nothing is held */
			continue;
		h = pool_take(&st->holds);
		l = ledger_get(st, &d->draws[i]);
		o = hold_at(st, h);
		*o = (struct hold_row){ .amount = d->draws[i].amount, .ledger = l };
		ledger_at(st, l)->sum.reserved = add_sat(ledger_at(st, l)->sum.reserved, o->amount);
		APPEND(st, hold, c->holds, last, next, h);
	}
}

static void count_execution(struct state *st, struct session_row *s, const struct entry_decision *d)
{
	struct session_row *root = session_at(st, s->root_row);
	uint64_t token = first8(d->same);
	uint32_t h = find_same(st, s->root_row, token);

	s->pub.executions++;
	if (!h) {
		h = pool_take(&st->sames);
		*same_at(st, h) = (struct same_row){ .token = token, .root_row = s->root_row };
		APPEND(st, same, root->same_first, root->same_last, next, h);
		index_put(&st->by_same, same_row_hash(st, h), h);
	}
	same_at(st, h)->count++;
	if (!d->has_repeat)
		return;
	if (root->ring_n < root->ring_cap) {
		root->ring[root->ring_n++] = first8(d->repeat);
	} else { /* full size: the oldest makes room */
		root->ring[root->ring_at] = first8(d->repeat);
		root->ring_at = (root->ring_at + 1) % root->ring_cap;
	}
}

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
		APPEND(st, guard, s->guards_first, s->guards_last, next, h);
		index_put(&st->by_guard, guard_row_hash(st, h), h);
	}
	guard_at(st, h)->pub = (struct guard_state){ .has_money = d->has_guard_money,
						     .money = d->has_guard_money ? d->guard_money : 0,
						     .repeat = d->guard_repeat };
}

static uint32_t call_add(struct state *st, uint32_t session, const struct entry *e)
{
	const struct entry_decision *d = &e->decision;
	struct session_row *s = session_at(st, session);
	uint32_t older = find_call_chain(st, d->session, d->call_hash),
		 had_key = find_keyed(st, d->session, d->call_hash, d->key);
	uint32_t h = pool_take(&st->calls);
	struct call_row *c = call_at(st, h);

	c->pub = (struct call_state){ .seq = e->seq,
				      .session = d->session,
				      .kind = d->kind,
				      .answer = d->answer,
				      .lease_until = d->answer == VERDICT_ALLOW ? d->lease_until : 0,
				      .decided_ns = e->now };
	c->pub.tool = text_ref(st, d->tool);
	memcpy(c->pub.client, d->client, sizeof(c->pub.client));
	memcpy(c->pub.key, d->key, sizeof(c->pub.key));
	c->call_hash = d->call_hash;
	c->session_row = session;
	c->keyed = !had_key || call_at(st, had_key)->pub.answer != VERDICT_ALLOW;
	if (had_key && c->keyed)
		call_at(st, had_key)->keyed = false;
	c->chain = older;
	APPEND(st, call, s->calls_first, s->calls_last, next, h);
	index_put(&st->by_seq, seq_row_hash(st, h), h);
	if (older)
		index_swap(&st->by_call, call_row_hash(st, h), older, h);
	else
		index_put(&st->by_call, call_row_hash(st, h), h);
	return h;
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
	if (d->answer == VERDICT_ALLOW) {
		reserve(st, call_at(st, h), d);
		open_add(st, h);
		count_execution(st, s, d);
	} else if (d->answer == VERDICT_REVIEW && d->card == e->seq) {
		card_open(st, session, e);
	}
}

/* ---- forgetting ---- */

static void ledger_free(struct state *st, uint32_t h)
{
	struct ledger_row *l = ledger_at(st, h);

	(void)index_remove(st, &st->by_ledger, ledger_row_hash, h);
	text_drop(st, l->key.budget);
	text_drop(st, l->key.owner);
	text_drop(st, l->key.tool);
	pool_give(&st->ledgers, h);
}

static void calls_free(struct state *st, struct session_row *s)
{
	for (uint32_t h = s->calls_first; h; h = call_at(st, h)->next) {
		(void)index_remove(st, &st->by_seq, seq_row_hash, h);
		(void)index_remove(st, &st->by_call, call_row_hash, h); /* only the newest of a chain is in there */
	}
	for (uint32_t h = s->calls_first, next; h; h = next) {
		next = call_at(st, h)->next;
		for (uint32_t o = call_at(st, h)->holds, after; o; o = after) {
			after = hold_at(st, o)->next;
			pool_give(&st->holds, o);
		}
		text_drop(st, call_at(st, h)->pub.tool);
		pool_give(&st->calls, h);
	}
}

static void session_free(struct state *st, uint32_t h)
{
	struct session_row *s = session_at(st, h);

	calls_free(st, s);
	for (uint32_t l = s->ledgers_first, next; l; l = next) {
		next = ledger_at(st, l)->next;
		ledger_free(st, l);
	}
	for (uint32_t g = s->guards_first, next; g; g = next) {
		next = guard_at(st, g)->next;
		(void)index_remove(st, &st->by_guard, guard_row_hash, g);
		text_drop(st, guard_at(st, g)->tool);
		pool_give(&st->guards, g);
	}
	for (uint32_t t = s->same_first, next; t; t = next) {
		next = same_at(st, t)->next;
		(void)index_remove(st, &st->by_same, same_row_hash, t);
		pool_give(&st->sames, t);
	}
	free(s->ring);
	text_drop(st, s->pub.agent);
	text_drop(st, s->pub.root_dir);
	text_drop(st, s->pub.labels_text);
	*(s->prev ? &session_at(st, s->prev)->next : &st->sessions_first) = s->next;
	*(s->next ? &session_at(st, s->next)->prev : &st->sessions_last) = s->prev;
	(void)index_remove(st, &st->by_session, session_row_hash, h);
	pool_give(&st->sessions, h);
}

/* A tree goes as one, when its root has lingered: its sessions draw from each other's ledgers. The root ends last or
 * with the others. */
static void forget_ended(struct state *st)
{
	uint32_t h, last_root = 0;

	while ((h = st->ended_first) != 0 && st->now - session_at(st, h)->pub.ended_ns > PAWL_SESSION_LINGER_NS) {
		st->ended_first = session_at(st, h)->ended_next;
		if (!st->ended_first)
			st->ended_last = 0;
		if (session_at(st, h)->root_row != h)
			continue;
		session_at(st, h)->ended_next =
		    last_root; /* put aside: a child that ended with it may still be in the queue */
		last_root = h;
	}
	while ((h = last_root) != 0) {
		last_root = session_at(st, h)->ended_next;
		for (uint32_t next; h; h = next) {
			next = session_at(st, h)->tree_next;
			session_free(st, h);
		}
	}
}

void state_apply(struct state *st, const struct entry *e)
{
	assert(e->seq == st->next_seq && e->now >= st->now);
	st->next_seq = e->seq + 1;
	st->now = e->now;
	switch (e->kind) {
	case ENTRY_SESSION:
		apply_session(st, e);
		break;
	case ENTRY_DECISION:
		apply_decision(st, e);
		break;
	case ENTRY_SETTLE:
		apply_settle(st, e->seq, e->settle.decision, &e->settle);
		break;
	case ENTRY_TIMEOUT:
		card_close(st, find_card_id(st, e->timeout.session, e->timeout.card));
		break;
	case ENTRY_LOSS:
		if (e->loss.what == LOSS_RESERVATION_EXPIRED)
			charge_held(st, find_seq(st, e->loss.decision), e->seq);
		else if (e->loss.what == LOSS_LATE_SETTLE)
			apply_settle(st, e->seq, e->loss.decision, &e->loss.late);
		break;
	case ENTRY_START:
	case ENTRY_STOP:
	case ENTRY_POLICY:
	case ENTRY_THROTTLE:
	case ENTRY_NONE:
	case ENTRY_KIND_COUNT:
		break;
	}
	text_sweep(st);
	forget_ended(st);
}
