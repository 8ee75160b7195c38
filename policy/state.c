/* policy/state.c - see state.h: birth and end of a state, and every question that may be asked of it. Changes nothing.
 * state_room.c checks and reserves, state_apply.c changes, state_copy.c clones and digests. */
#include "policy/state_int.h"

#include <sodium.h>
#include <stdlib.h>

int state_new(struct state **ret, struct pawl_error *err)
{
	struct state *st = calloc(1, sizeof(*st));

	if (!st)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory for the state");
	randombytes_buf(st->hash_key, sizeof(st->hash_key));
#define INIT(kind, plural) pool_init(&st->plural, sizeof(struct kind##_row));
	STATE_POOLS(INIT)
#undef INIT
	*ret = st;
	return 0;
}

void state_free(struct state *st)
{
	if (!st)
		return;
	for (uint32_t h = 1; h <= st->texts.used; h++)
		free(text_at(st, h)->t);
	for (uint32_t h = st->sessions_first; h; h = session_at(st, h)->next)
		free(session_at(st, h)->ring);
#define DONE(kind, plural) pool_done(&st->plural);
	STATE_POOLS(DONE)
#undef DONE
#define DONE(table) free(st->table.slot);
	STATE_TABLES(DONE)
#undef DONE
	free(st->heap);
	free(st);
}

/* ---- keys of the tables ---- */

uint64_t session_row_hash(const struct state *st, uint32_t h)
{
	return mix64(session_at(st, h)->pub.id);
}

uint64_t seq_row_hash(const struct state *st, uint32_t h)
{
	return mix64(call_at(st, h)->pub.seq);
}

uint64_t call_row_hash(const struct state *st, uint32_t h)
{
	const struct call_row *c = call_at(st, h);

	return mix64(c->pub.session ^ c->call_hash);
}

/* Names that the operator chose, budgets and agents, need no keyed hash; tools are the asker's. */
static uint64_t short_hash(struct str s)
{
	uint64_t v = 0;

	memcpy(&v, s.p ? s.p : "", s.n < sizeof(v) ? s.n : sizeof(v));
	return mix64(v + s.n);
}

uint64_t ledger_hash(const struct state *st, const struct ledger_key *key)
{
	uint64_t h =
	    short_hash(key->budget) + 3 * short_hash(key->owner) + 5 * mix64(key->session * 16 + (uint64_t)key->scope * 4 + (uint64_t)key->unit);

	return mix64(key->tool.n ? h + text_hash(st, key->tool) : h);
}

uint64_t ledger_row_hash(const struct state *st, uint32_t h)
{
	return ledger_hash(st, &ledger_at(st, h)->key);
}

uint64_t card_row_hash(const struct state *st, uint32_t h)
{
	return first8(card_at(st, h)->token);
}

static uint64_t guard_hash(const struct state *st, uint64_t session, struct str tool)
{
	return mix64(text_hash(st, tool) + session);
}

uint64_t guard_row_hash(const struct state *st, uint32_t h)
{
	const struct guard_row *g = guard_at(st, h);

	return guard_hash(st, session_at(st, g->session_row)->pub.id, g->tool);
}

uint64_t same_row_hash(const struct state *st, uint32_t h)
{
	const struct same_row *s = same_at(st, h);

	return mix64(s->token + s->root_row);
}

uint64_t agent_row_hash(const struct state *st, uint32_t h)
{
	return text_hash(st, agent_at(st, h)->name);
}

bool ledger_key_eq(const struct ledger_key *a, const struct ledger_key *b)
{
	return a->scope == b->scope && a->unit == b->unit && a->session == b->session && str_eq(a->budget, b->budget) &&
	       str_eq(a->owner, b->owner) && str_eq(a->tool, b->tool);
}

/* ---- look-ups by key ---- */

uint32_t find_session(const struct state *st, uint64_t id)
{
	uint32_t h;

	for (uint64_t at = mix64(id); (h = index_next(&st->by_session, &at)) != 0;)
		if (session_at(st, h)->pub.id == id)
			return h;
	return 0;
}

uint32_t find_seq(const struct state *st, uint64_t seq)
{
	uint32_t h;

	for (uint64_t at = mix64(seq); (h = index_next(&st->by_seq, &at)) != 0;)
		if (call_at(st, h)->pub.seq == seq)
			return h;
	return 0;
}

uint32_t find_call_chain(const struct state *st, uint64_t session, uint64_t call_hash)
{
	uint32_t h;

	for (uint64_t at = mix64(session ^ call_hash); (h = index_next(&st->by_call, &at)) != 0;)
		if (call_at(st, h)->call_hash == call_hash && call_at(st, h)->pub.session == session)
			return h;
	return 0;
}

uint32_t find_keyed(const struct state *st, uint64_t session, uint64_t call_hash, const uint8_t key[static 16])
{
	uint32_t h = find_call_chain(st, session, call_hash);

	while (h && !(call_at(st, h)->keyed && memcmp(call_at(st, h)->pub.key, key, 16) == 0))
		h = call_at(st, h)->chain;
	return h;
}

uint32_t find_ledger(const struct state *st, const struct ledger_key *key)
{
	uint32_t h;

	if (!st->by_ledger.n)
		return 0;
	for (uint64_t at = ledger_hash(st, key); (h = index_next(&st->by_ledger, &at)) != 0;)
		if (ledger_key_eq(&ledger_at(st, h)->key, key))
			return h;
	return 0;
}

uint32_t find_card(const struct state *st, uint64_t session, const uint8_t token[static 16])
{
	uint32_t h;

	for (uint64_t at = first8(token); (h = index_next(&st->by_card, &at)) != 0;)
		if (card_at(st, h)->pub.session == session && memcmp(card_at(st, h)->token, token, 16) == 0)
			return h;
	return 0;
}

uint32_t find_card_id(const struct state *st, uint64_t session, uint64_t id)
{
	uint32_t s = find_session(st, session), h;

	for (h = s ? session_at(st, s)->cards_first : 0; h && card_at(st, h)->pub.id != id;)
		h = card_at(st, h)->next;
	return h;
}

uint32_t find_guard(const struct state *st, uint64_t session, struct str tool)
{
	uint32_t h;

	if (!st->by_guard.n)
		return 0;
	for (uint64_t at = guard_hash(st, session, tool); (h = index_next(&st->by_guard, &at)) != 0;)
		if (session_at(st, guard_at(st, h)->session_row)->pub.id == session &&
		    str_eq(guard_at(st, h)->tool, tool))
			return h;
	return 0;
}

uint32_t find_same(const struct state *st, uint32_t root_row, uint64_t token)
{
	uint32_t h;

	for (uint64_t at = mix64(token + root_row); (h = index_next(&st->by_same, &at)) != 0;)
		if (same_at(st, h)->root_row == root_row && same_at(st, h)->token == token)
			return h;
	return 0;
}

uint32_t find_agent(const struct state *st, struct str name)
{
	uint32_t h;

	for (uint64_t at = text_hash(st, name); (h = index_next(&st->by_agent, &at)) != 0;)
		if (str_eq(agent_at(st, h)->name, name))
			return h;
	return 0;
}

bool decision_is_kept(const struct session_row *s, const struct entry_decision *d)
{
	return s->pub.end == SESSION_LIVE && d->why.code != REASON_SESSION_LIMIT;
}

/* ---- what others may ask ---- */

uint64_t state_next_seq(const struct state *st)
{
	return st->next_seq;
}

int64_t state_now(const struct state *st)
{
	return st->now;
}

const struct session_state *state_session(const struct state *st, uint64_t id)
{
	uint32_t h = find_session(st, id);

	return h ? &session_at(st, h)->pub : NULL;
}

const struct session_state *state_session_after(const struct state *st, uint64_t after)
{
	uint32_t h = after ? find_session(st, after) : 0;

	if (h)
		h = session_at(st, h)->next;
	else
		for (h = st->sessions_first; h && session_at(st, h)->pub.id <= after;)
			h = session_at(st, h)->next;
	return h ? &session_at(st, h)->pub : NULL;
}

struct ledger_state state_ledger(const struct state *st, const struct ledger_key *key)
{
	uint32_t h = find_ledger(st, key);

	return h ? ledger_at(st, h)->sum : (struct ledger_state){ 0 };
}

const struct call_state *state_call(const struct state *st, uint64_t session, uint64_t call_hash,
				    const uint8_t key[static 16], bool *ret_reused)
{
	const struct call_state *found = NULL;

	*ret_reused = false;
	for (uint32_t h = find_call_chain(st, session, call_hash); h; h = call_at(st, h)->chain) {
		const struct call_row *c = call_at(st, h);

		if (memcmp(c->pub.key, key, 16) != 0)
			*ret_reused = true;
		else if (c->keyed)
			found = &c->pub;
	}
	return found;
}

const struct call_state *state_decision(const struct state *st, uint64_t seq)
{
	uint32_t h = find_seq(st, seq);

	return h ? &call_at(st, h)->pub : NULL;
}

const struct call_state *state_open_after(const struct state *st, uint64_t session, uint64_t after)
{
	uint32_t s = find_session(st, session), h = after ? find_seq(st, after) : 0;

	if (!s)
		return NULL;
	if (h && call_at(st, h)->session_row == s && call_at(st, h)->pub.settled == 0 &&
	    call_at(st, h)->pub.answer == VERDICT_ALLOW)
		h = call_at(st, h)->open_next;
	else
		for (h = session_at(st, s)->open_first; h && call_at(st, h)->pub.seq <= after;)
			h = call_at(st, h)->open_next;
	return h ? &call_at(st, h)->pub : NULL;
}

size_t state_holds(const struct state *st, uint64_t seq, struct draw *out, size_t max)
{
	uint32_t c = find_seq(st, seq);
	size_t n = 0;

	for (uint32_t h = c ? call_at(st, c)->holds : 0; h; h = hold_at(st, h)->next, n++) {
		const struct ledger_row *l = ledger_at(st, hold_at(st, h)->ledger);

		if (n < max)
			out[n] = (struct draw){ .key = l->key,
						.unit = l->unit,
						.amount = hold_at(st, h)->amount,
						.used = add_sat(l->sum.spent, l->sum.reserved) };
	}
	return n;
}

int64_t state_count_same(const struct state *st, uint64_t root, const uint8_t same[static 16])
{
	uint32_t r = find_session(st, root), h = r ? find_same(st, r, first8(same)) : 0;

	return h ? same_at(st, h)->count : 0;
}

static int64_t count_token(const uint64_t *p, size_t n, uint64_t token)
{
	int64_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += p[i] == token;
	return count;
}

int64_t state_count_repeat(const struct state *st, uint64_t root, const uint8_t repeat[static 16], int64_t window)
{
	uint32_t h = find_session(st, root);
	const struct session_row *s = h ? session_at(st, h) : NULL;
	uint64_t token = first8(repeat);
	size_t n, newest;

	if (!s || !s->ring_n || window <= 0)
		return 0;
	n = window < (int64_t)s->ring_n ? (size_t)window : s->ring_n;
	newest = s->ring_at ? s->ring_at : s->ring_n; /* one past it; before it lie ring_at of the newest, or all */
	if (n <= newest)
		return count_token(s->ring + newest - n, n, token);
	return count_token(s->ring, newest, token) + count_token(s->ring + s->ring_n - (n - newest), n - newest, token);
}

struct guard_state state_guard(const struct state *st, uint64_t session, struct str tool)
{
	uint32_t h = find_guard(st, session, tool);

	return h ? guard_at(st, h)->pub : (struct guard_state){ 0 };
}

const struct card_state *state_card(const struct state *st, uint64_t session, const uint8_t card_token[static 16])
{
	uint32_t h = find_card(st, session, card_token);

	return h ? &card_at(st, h)->pub : NULL;
}

static uint32_t card_after(const struct state *st, uint32_t s, uint64_t after)
{
	uint32_t h = session_at(st, s)->cards_first;

	while (h && card_at(st, h)->pub.id <= after)
		h = card_at(st, h)->next;
	return h;
}

const struct card_state *state_card_after(const struct state *st, uint64_t session, uint64_t after)
{
	uint32_t best = 0, s;

	if (session) {
		s = find_session(st, session);
		best = s ? card_after(st, s, after) : 0;
		return best ? &card_at(st, best)->pub : NULL;
	}
	for (s = st->sessions_first; s; s = session_at(st, s)->next) {
		uint32_t h = card_after(st, s, after);

		if (h && (!best || card_at(st, h)->pub.id < card_at(st, best)->pub.id))
			best = h;
	}
	return best ? &card_at(st, best)->pub : NULL;
}

struct agent_state state_agent(const struct state *st, struct str name)
{
	uint32_t h = find_agent(st, name);

	return h ? agent_at(st, h)->pub : (struct agent_state){ 0 };
}

bool state_next_deadline(const struct state *st, struct deadline *ret)
{
	const struct heap_node *top = st->heap;

	if (!st->heap_n)
		return false;
	*ret = (struct deadline){ .at = top->at, .kind = top->kind, .id = top->id };
	ret->session =
	    top->kind == DEADLINE_CARD ? card_at(st, top->handle)->pub.session : call_at(st, top->handle)->pub.session;
	return true;
}
