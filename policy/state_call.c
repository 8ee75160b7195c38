/* policy/state_call.c - decisions as the state remembers them: by id, by idempotency key, and those that are open.
 *
 * Who owns an idempotency key: a call that was allowed keeps its key for as long as its session lives, whatever is
 * answered to those who ask again (already_settled, in_doubt, or a denial by another law), unless it is allowed once more:
 * an approved doubt moves the key to the new call. Of answers that let nothing run the newest holds it. Were it otherwise,
 * a retry that some law refused would hide that the call has run, and the retry after that would let it run twice. */
#include "policy/state_int.h"

uint64_t seq_row_hash(const struct state *st, uint32_t h)
{
	return mix64(call_at(st, h)->seq);
}

static uint64_t call_id_hash(uint64_t session, uint32_t call_hash)
{
	return mix64(session << 32 ^ session >> 32 ^ call_hash);
}

uint64_t call_row_hash(const struct state *st, uint32_t h)
{
	const struct call_row *c = call_at(st, h);

	return call_id_hash(session_at(st, c->session_row)->pub.id, c->call_hash);
}

uint32_t find_seq(const struct state *st, uint64_t seq)
{
	uint32_t h;

	for (uint32_t at = index_start(&st->by_seq, mix64(seq)); (h = index_next(&st->by_seq, &at)) != 0;)
		if (call_at(st, h)->seq == seq)
			return h;
	return 0;
}

uint32_t find_call_chain(const struct state *st, uint64_t session, uint64_t call_hash)
{
	uint32_t id = (uint32_t)call_hash, h;

	for (uint32_t at = index_start(&st->by_call, call_id_hash(session, id)); (h = index_next(&st->by_call, &at)) != 0;)
		if (call_at(st, h)->call_hash == id && session_at(st, call_at(st, h)->session_row)->pub.id == session)
			return h;
	return 0;
}

uint32_t find_keyed(const struct state *st, uint64_t session, uint64_t call_hash, const uint8_t key[static 16])
{
	uint32_t h = find_call_chain(st, session, call_hash);

	while (h && !(call_at(st, h)->keyed && call_at(st, h)->key == first8(key)))
		h = call_at(st, h)->chain;
	return h;
}

bool decision_is_kept(const struct session_row *s, const struct entry_decision *d)
{
	return s->pub.end == SESSION_LIVE && d->why.code != REASON_SESSION_LIMIT;
}

/* ---- questions ---- */

static uint64_t card_of(const struct state *st, const struct call_row *c)
{
	uint32_t card = c->live ? call_live(st, c)->card : 0;

	if (card || !c->reported)
		return card ? card_at(st, card)->pub.id : 0;
	for (uint32_t h = c->spent ? session_at(st, c->session_row)->cards : 0; h; h = card_at(st, h)->next)
		if (card_at(st, h)->pub.mode == CARD_SPENT && card_at(st, h)->pub.spent_by == c->seq)
			return card_at(st, h)->pub.id;
	return 0;
}

/* A fixed cost of 0 may have left no hold. */
static int64_t price_of(const struct state *st, const struct call_row *c)
{
	uint32_t h = c->reported ? 0 : call_live(st, c)->holds;

	return c->priced && h && !hold_at(st, h)->ledger ? hold_at(st, h)->price : 0;
}

static const struct call_state *show(const struct state *st, uint32_t h, struct call_state *v)
{
	const struct call_row *c = h ? call_at(st, h) : NULL;
	const struct live_row *l;
	struct str client;

	if (!c)
		return NULL;
	l = c->live ? call_live(st, c) : NULL;
	*v = (struct call_state){ .seq = c->seq,
				  .card = card_of(st, c),
				  .claim = c->claim,
				  .settled = c->settled,
				  .session = session_at(st, c->session_row)->pub.id,
				  .tool = text_str(st, c->tool),
				  .kind = (enum call_kind)c->kind,
				  .answer = (enum verdict)c->answer,
				  .outcome = (enum outcome)c->outcome,
				  .reported = c->reported,
				  .settle_same = c->told_same,
				  .priced = c->priced,
				  .refund = c->refund,
				  .price = price_of(st, c),
				  .lease_until = l ? l->lease_until : 0,
				  .decided_ns = c->reported || !l ? 0 : l->decided_ns };
	if (c->reported || !l) /* one that is not reported has it */
		return v;
	client = text_str(st, l->client);
	if (client.n == sizeof(v->client))
		memcpy(v->client, client.p, sizeof(v->client));
	return v;
}

const struct call_state *state_call(const struct state *st, uint64_t session, uint64_t call_hash,
				    const uint8_t key[static 16], bool *ret_reused)
{
	uint32_t found = 0;

	*ret_reused = false;
	for (uint32_t h = find_call_chain(st, session, call_hash); h; h = call_at(st, h)->chain) {
		const struct call_row *c = call_at(st, h);

		if (c->key != first8(key))
			*ret_reused = true;
		else if (c->keyed)
			found = h;
	}
	return show(st, found, &st->view->by_key);
}

const struct call_state *state_decision(const struct state *st, uint64_t seq)
{
	return show(st, find_seq(st, seq), &st->view->by_seq);
}

const struct call_state *state_open_after(const struct state *st, uint64_t session, uint64_t after)
{
	uint32_t s = find_session(st, session), h = after ? find_seq(st, after) : 0;

	if (!s)
		return NULL;
	if (h && call_at(st, h)->session_row == s && call_at(st, h)->settled == 0 && call_at(st, h)->answer == VERDICT_ALLOW)
		h = call_live(st, call_at(st, h))->open_next;
	else
		for (h = session_at(st, s)->open_first; h && call_at(st, live_at(st, h)->call)->seq <= after;)
			h = live_at(st, h)->open_next;
	return show(st, h ? live_at(st, h)->call : 0, &st->view->open);
}

/* ---- changes ---- */

static bool is_probe(const struct entry *e)
{
	const struct entry_decision *d = &e->decision;

	for (size_t i = 0; i < d->n_breakers; i++)
		if (d->breakers[i].probe == UINT64_MAX || d->breakers[i].probe == e->seq)
			return true;
	return false;
}

uint32_t call_add(struct state *st, uint32_t session, const struct entry *e)
{
	const struct entry_decision *d = &e->decision;
	struct session_row *s = session_at(st, session);
	uint32_t older = find_call_chain(st, d->session, d->call_hash),
		 had_key = find_keyed(st, d->session, d->call_hash, d->key);
	uint32_t h = pool_take(&st->calls);
	struct call_row *c = call_at(st, h);
	struct live_row *l;

	c->seq = e->seq & SEQ_MAX;
	c->answer = (unsigned)d->answer & 3;
	c->kind = (unsigned)d->kind & 7;
	c->polling = d->polling;
	c->priced = d->has_price;
	c->refund = d->refund;
	c->claim = e->kind == ENTRY_CLAIM;
	c->call_hash = (uint32_t)d->call_hash;
	c->key = first8(d->key);
	c->live = pool_take(&st->lives);
	l = call_live(st, c);
	l->call = h;
	l->probe = is_probe(e);
	l->lease_until = d->answer == VERDICT_ALLOW ? d->lease_until : 0;
	l->decided_ns = e->now;
	l->client = text_hold(st, (struct str){ (const char *)d->client, sizeof(d->client) });
	c->session_row = session;
	c->tool = text_hold(st, d->tool);
	c->keyed = !had_key || d->answer == VERDICT_ALLOW || call_at(st, had_key)->answer != VERDICT_ALLOW;
	if (had_key && c->keyed)
		call_at(st, had_key)->keyed = false;
	c->chain = older;
	c->next = s->calls;
	s->calls = h;
	index_put(&st->by_seq, seq_row_hash(st, h), h);
	if (older)
		index_swap(&st->by_call, call_row_hash(st, h), older, h);
	else
		index_put(&st->by_call, call_row_hash(st, h), h);
	return h;
}

void call_open(struct state *st, uint32_t h)
{
	const struct call_row *c = call_at(st, h);
	struct session_row *s = session_at(st, c->session_row);
	struct live_row *l = call_live(st, c);

	l->open_prev = s->open_last;
	APPEND(st, live, s->open_first, s->open_last, open_next, c->live);
	s->pub.open_reservations++;
	if (l->lease_until > s->pub.latest_reservation)
		s->pub.latest_reservation = l->lease_until;
	heap_add(st, (struct heap_node){ l->lease_until, c->seq, c->live, DEADLINE_RESERVATION });
}

void call_close(struct state *st, uint32_t h, uint64_t seq)
{
	struct call_row *c = call_at(st, h);
	struct session_row *s = session_at(st, c->session_row);
	struct live_row *l = call_live(st, c);

	UNLINK(st, live, s->open_first, s->open_last, open_prev, open_next, l);
	heap_remove(st, l->heap_at);
	text_let(st, l->client); /* whoever asks for this call again is told how it ended */
	l->heap_at = l->client = 0;
	c->settled = seq & SEQ_MAX;
	c->outcome = OUTCOME_EXPIRED;
	s->pub.open_reservations--;
	if (l->lease_until < s->pub.latest_reservation)
		return;
	s->pub.latest_reservation = 0;
	for (uint32_t o = s->open_first; o; o = live_at(st, o)->open_next)
		if (live_at(st, o)->lease_until > s->pub.latest_reservation)
			s->pub.latest_reservation = live_at(st, o)->lease_until;
}

/* Its holds are free, and it is closed. */
static void live_free(struct state *st, struct call_row *c)
{
	text_let(st, call_live(st, c)->client);
	pool_give(&st->lives, c->live);
	c->live = 0;
}

void call_told(struct state *st, uint32_t h, const struct entry_settle *s, bool late)
{
	struct call_row *c = call_at(st, h);
	bool two = s->has_result_token && s->has_error_token;

	c->outcome = (unsigned)s->outcome & 7;
	c->reported = true;
	c->told_error = s->has_error_token && !two;
	c->told = c->told_error ? present4(s->error_token) : s->has_result_token ? present4(s->result_token) : 0;
	c->told_same = first4(s->same);
	if (two)
		call_live(st, c)->error = present4(s->error_token);
	if (!two && !late && !call_live(st, c)->probe)
		live_free(st, c);
}

void calls_free(struct state *st, struct session_row *s)
{
	for (uint32_t h = s->calls; h; h = call_at(st, h)->next) {
		(void)index_remove(st, &st->by_seq, seq_row_hash, h);
		(void)index_remove(st, &st->by_call, call_row_hash, h); /* only the newest of a chain is in there, */
		(void)index_remove(st, &st->by_same, same_row_hash, h); /* and only the newest execution of a token */
	}
	for (uint32_t h = s->calls, next; h; h = next) {
		next = call_at(st, h)->next;
		if (call_at(st, h)->live) {
			holds_free(st, h);
			live_free(st, call_at(st, h));
		}
		text_let(st, call_at(st, h)->tool);
		pool_give(&st->calls, h);
	}
	s->calls = 0;
}
