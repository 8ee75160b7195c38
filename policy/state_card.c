/* policy/state_card.c - questions to people: one card for all equal calls, what became of it, and the approval that it may
 * hold. A card stays as long as its session is kept; by_card leads to the newest of each (session, tool, arguments). */
#include "policy/state_int.h"

uint64_t card_row_hash(const struct state *st, uint32_t h)
{
	return mix64(first8(card_at(st, h)->pub.token));
}

uint32_t find_card(const struct state *st, uint64_t session, const uint8_t token[static 16])
{
	uint32_t h;

	if (!st->by_card.n)
		return 0;
	for (uint32_t at = index_start(&st->by_card, mix64(first8(token))); (h = index_next(&st->by_card, &at)) != 0;)
		if (card_at(st, h)->pub.session == session && memcmp(card_at(st, h)->pub.token, token, 16) == 0)
			return h;
	return 0;
}

/* Named after the decision that opened it. */
uint32_t find_card_id(const struct state *st, uint64_t id)
{
	uint32_t c = find_seq(st, id), h = 0;

	if (c && call_at(st, c)->answer == VERDICT_REVIEW)
		h = call_live(st, call_at(st, c))->card;
	return h && card_at(st, h)->pub.id == id ? h : 0;
}

/* ---- questions ---- */

const struct card_state *state_card(const struct state *st, uint64_t session, const uint8_t card_token[static 16])
{
	uint32_t h = find_card(st, session, card_token);

	return h ? &card_at(st, h)->pub : NULL;
}

const struct card_state *state_card_by_id(const struct state *st, uint64_t id)
{
	uint32_t h = find_card_id(st, id);

	return h ? &card_at(st, h)->pub : NULL;
}

/* Few cards wait at a time, of however many a session has had. */
const struct card_state *state_card_after(const struct state *st, uint64_t session, uint64_t after)
{
	uint32_t h = after ? find_card_id(st, after) : 0;

	if (!h || !card_waits(card_at(st, h))) /* answered since: its place is gone */
		h = st->list.due_first;
	for (; h; h = card_at(st, h)->next_due) {
		const struct card_state *c = &card_at(st, h)->pub;

		if (c->mode == CARD_PENDING && c->id > after && (!session || c->session == session))
			return c;
	}
	return NULL;
}

/* The oldest of a session's cards above after, or best if that is older; a session has its newest first. */
static uint32_t older_of(const struct state *st, uint32_t session, uint64_t after, uint32_t best)
{
	for (uint32_t h = session_at(st, session)->cards; h && card_at(st, h)->pub.id > after; h = card_at(st, h)->next)
		if (!best || card_at(st, h)->pub.id < card_at(st, best)->pub.id)
			best = h;
	return best;
}

const struct card_state *state_card_any_after(const struct state *st, uint64_t session, uint64_t after)
{
	uint32_t s = session ? find_session(st, session) : st->list.sessions_first, best = 0;

	for (; s; s = session ? 0 : session_at(st, s)->next)
		best = older_of(st, s, after, best);
	return best ? &card_at(st, best)->pub : NULL;
}

/* ---- changes ---- */

bool card_reserve(struct state *st, const struct entry_decision *d)
{
	for (size_t i = 0; i < d->n_asks; i++)
		if (!text_reserve(st, d->asks[i].rule))
			return false;
	return text_reserve(st, d->tool) && pool_reserve(&st->cards, 1) && index_reserve(st, &st->by_card, 1, card_row_hash) &&
	       heap_reserve(st, 1);
}

uint32_t card_open(struct state *st, uint32_t session, const struct entry *e)
{
	const struct entry_decision *d = &e->decision;
	struct session_row *s = session_at(st, session);
	uint32_t older = find_card(st, s->pub.id, d->card_token), h = pool_take(&st->cards);
	struct card_row *c = card_at(st, h);

	c->pub = (struct card_state){ .id = e->seq, .session = s->pub.id, .opened_ns = e->now, .until = d->card_until };
	c->pub.tool = text_ref(st, d->tool);
	memcpy(c->pub.token, d->card_token, sizeof(c->pub.token));
	for (size_t i = 0; i < d->n_asks; i++)
		c->pub.asks[i] = (struct ask){ d->asks[i].code, text_ref(st, d->asks[i].rule), d->asks[i].refers };
	c->pub.n_asks = d->n_asks;
	c->session_row = session;
	c->next = s->cards;
	s->cards = h;
	c->prev_due = st->list.due_last;
	APPEND(st, card, st->list.due_first, st->list.due_last, next_due, h);
	if (older)
		index_swap(&st->by_card, card_row_hash(st, h), older, h);
	else
		index_put(&st->by_card, card_row_hash(st, h), h);
	heap_add(st, (struct heap_node){ c->pub.until, c->pub.id, h, DEADLINE_CARD });
	s->pub.pending_cards++;
	return h;
}

/* A claim takes the largest amounts of all that wait for the same answer. */
void card_join(struct state *st, uint32_t h, const struct entry_decision *d)
{
	struct card_state *c = &card_at(st, h)->pub;

	if (d->money > c->money)
		c->money = d->money;
	if (d->tokens > c->tokens)
		c->tokens = d->tokens;
}

void card_mode(struct state *st, uint32_t h, enum card_mode mode)
{
	struct card_row *c = card_at(st, h);
	struct session_row *s = session_at(st, c->session_row);
	bool waited = card_waits(c);

	s->pub.pending_cards -= c->pub.mode == CARD_PENDING;
	c->pub.mode = mode;
	if (!waited || card_waits(c))
		return;
	UNLINK(st, card, st->list.due_first, st->list.due_last, prev_due, next_due, c);
	heap_remove(st, c->heap_at);
	c->heap_at = 0;
}

/* What was asked about a call before it ran is answered by its running: two approvals of one call are not two executions. */
void cards_end(struct state *st, uint32_t spent, uint64_t by)
{
	const struct card_row *one = card_at(st, spent);

	for (uint32_t h = session_at(st, one->session_row)->cards; h; h = card_at(st, h)->next) {
		struct card_row *c = card_at(st, h);

		if (!card_waits(c) || memcmp(c->pub.token, one->pub.token, sizeof(c->pub.token)) != 0)
			continue;
		c->pub.spent_by = by;
		card_mode(st, h, CARD_CLOSED);
	}
}

void card_answered(struct state *st, uint32_t h, const struct entry_resolve *r)
{
	static const enum card_mode mode[RESOLVE_ACTION_COUNT] = { [RESOLVE_RESUME] = CARD_RESUMED,
								   [RESOLVE_SKIP] = CARD_SKIPPED,
								   [RESOLVE_ABORT] = CARD_ABORTED,
								   [RESOLVE_CLOSE] = CARD_CLOSED };
	struct card_state *c = &card_at(st, h)->pub;

	c->operator = text_ref(st, r->operator);
	c->reason = text_ref(st, r->reason);
	card_mode(st, h, mode[r->action]);
}

void card_free(struct state *st, uint32_t h)
{
	struct card_row *c = card_at(st, h);

	(void)index_remove(st, &st->by_card, card_row_hash, h); /* only the newest of its kind is in there */
	text_drop(st, c->pub.tool);
	text_drop(st, c->pub.operator);
	text_drop(st, c->pub.reason);
	for (size_t i = 0; i < c->pub.n_asks; i++)
		text_drop(st, c->pub.asks[i].rule);
	pool_give(&st->cards, h);
}
