/* policy/state_copy.c - the whole state at once: a copy of it, and a digest of what it says.
 * The digest reads content in an order that the log fixed (ids, and the order in which things were first named), never
 * handles or tables. */
#include "policy/state_int.h"

#include <sodium.h>
#include <stdlib.h>

/* ---- copy ---- */

/* Rows first lose what they may not share with the original, so that a copy given up half-way can be freed. */
static bool copy_texts(const struct state *from, struct state *to)
{
	if (!pool_copy(&from->texts, &to->texts))
		return false;
	for (uint32_t h = 1; h <= to->texts.used; h++)
		text_at(to, h)->t = NULL;
	for (uint32_t h = 1; h <= to->texts.used; h++) {
		const struct text *old = text_at(from, h)->t;
		struct text *t;

		if (!old)
			continue;
		t = malloc(sizeof(*t) + old->n);
		if (!t)
			return false;
		memcpy(t, old, sizeof(*t) + old->n);
		t->loose = old->refs == 0;
		t->next_loose = t->loose ? to->loose : NULL;
		to->loose = t->loose ? t : to->loose;
		text_at(to, h)->t = t;
	}
	return true;
}

static bool copy_sessions(const struct state *from, struct state *to)
{
	bool fits = true;

	if (!pool_copy(&from->sessions, &to->sessions))
		return false;
	to->sessions_first = from->sessions_first; /* from here on state_free() finds the rings */
	for (uint32_t h = to->sessions_first; h; h = session_at(to, h)->next)
		session_at(to, h)->ring = NULL;
	for (uint32_t h = to->sessions_first; h && fits; h = session_at(to, h)->next) {
		struct session_row *s = session_at(to, h);

		if (!s->ring_cap)
			continue;
		s->ring = malloc(s->ring_cap * sizeof(*s->ring));
		fits = s->ring != NULL;
		if (fits)
			memcpy(s->ring, session_at(from, h)->ring, s->ring_n * sizeof(*s->ring));
	}
	return fits;
}

static void move_text(const struct state *to, struct str *s)
{
	if (s->p)
		s->p = text_at(to, text_of(*s)->handle)->t->p;
}

static void move_key(const struct state *to, uint32_t h)
{
	move_text(to, &ledger_at(to, h)->key.budget);
	move_text(to, &ledger_at(to, h)->key.owner);
	move_text(to, &ledger_at(to, h)->key.tool);
}

static void move_texts(const struct state *to)
{
	for (uint32_t h = to->sessions_first; h; h = session_at(to, h)->next) {
		struct session_row *s = session_at(to, h);

		move_text(to, &s->pub.agent);
		move_text(to, &s->pub.root_dir);
		move_text(to, &s->pub.labels_text);
		for (uint32_t c = s->calls_first; c; c = call_at(to, c)->next)
			move_text(to, &call_at(to, c)->pub.tool);
		for (uint32_t g = s->guards_first; g; g = guard_at(to, g)->next)
			move_text(to, &guard_at(to, g)->tool);
		for (uint32_t l = s->ledgers_first; l; l = ledger_at(to, l)->next)
			move_key(to, l);
	}
	for (uint32_t l = to->shared_first; l; l = ledger_at(to, l)->next)
		move_key(to, l);
	for (uint32_t a = to->agents_first; a; a = agent_at(to, a)->next)
		move_text(to, &agent_at(to, a)->name);
}

static bool copy_heap(const struct state *from, struct state *to)
{
	if (!heap_reserve(to, from->heap_n))
		return false;
	if (from->heap_n)
		memcpy(to->heap, from->heap, from->heap_n * sizeof(*to->heap));
	to->heap_n = from->heap_n;
	return true;
}

static bool copy_all(const struct state *from, struct state *to)
{
	bool fits = copy_texts(from, to) && copy_sessions(from, to) && copy_heap(from, to) &&
		    pool_copy(&from->calls, &to->calls) && pool_copy(&from->holds, &to->holds) &&
		    pool_copy(&from->ledgers, &to->ledgers) && pool_copy(&from->cards, &to->cards) &&
		    pool_copy(&from->guards, &to->guards) && pool_copy(&from->sames, &to->sames) &&
		    pool_copy(&from->agents, &to->agents);

#define COPY(table) fits = fits && index_copy(&from->table, &to->table);
	STATE_TABLES(COPY)
#undef COPY
	if (!fits)
		return false;
	memcpy(to->hash_key, from->hash_key, sizeof(to->hash_key));
	to->next_seq = from->next_seq;
	to->now = from->now;
	to->sessions_last = from->sessions_last;
	to->ended_first = from->ended_first;
	to->ended_last = from->ended_last;
	to->shared_first = from->shared_first;
	to->shared_last = from->shared_last;
	to->agents_first = from->agents_first;
	to->agents_last = from->agents_last;
	move_texts(to);
	return true;
}

int state_clone(const struct state *st, struct state **ret, struct pawl_error *err)
{
	struct state *to;
	int r;

	r = state_new(&to, err);
	if (r < 0)
		return r;
	if (!copy_all(st, to)) {
		state_free(to);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory for a copy of the state");
	}
	*ret = to;
	return 0;
}

/* ---- digest: each number as 8 bytes, least significant first; each text behind its length ---- */

static void put_n(crypto_hash_sha256_state *h, uint64_t v)
{
	uint8_t b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	(void)crypto_hash_sha256_update(h, b, sizeof(b));
}

static void put_i(crypto_hash_sha256_state *h, int64_t v)
{
	put_n(h, (uint64_t)v);
}

static void put_bytes(crypto_hash_sha256_state *h, const void *p, size_t n)
{
	put_n(h, n);
	if (n)
		(void)crypto_hash_sha256_update(h, p, n);
}

static void put_str(crypto_hash_sha256_state *h, struct str s)
{
	put_bytes(h, s.p, s.n);
}

static void put_key(crypto_hash_sha256_state *h, const struct ledger_key *k)
{
	put_str(h, k->budget);
	put_n(h, (uint64_t)k->scope);
	put_n(h, (uint64_t)k->unit);
	put_n(h, k->session);
	put_str(h, k->owner);
	put_str(h, k->tool);
}

static void put_ledgers(crypto_hash_sha256_state *h, const struct state *st, uint32_t first)
{
	for (uint32_t i = first; i; i = ledger_at(st, i)->next) {
		const struct ledger_row *l = ledger_at(st, i);

		put_n(h, 'l');
		put_key(h, &l->key);
		put_n(h, (uint64_t)l->unit);
		put_i(h, l->sum.spent);
		put_i(h, l->sum.reserved);
		put_i(h, l->sum.granted);
	}
}

static void put_call(crypto_hash_sha256_state *h, const struct state *st, const struct call_row *c)
{
	put_n(h, 'c');
	put_n(h, c->pub.seq);
	put_n(h, c->pub.settled);
	put_str(h, c->pub.tool);
	put_n(h, (uint64_t)c->pub.kind << 16 | (uint64_t)c->pub.answer << 8 | (uint64_t)c->pub.outcome);
	put_n(h, (uint64_t)c->keyed << 1 | c->reported);
	put_n(h, c->call_hash);
	put_bytes(h, c->pub.client, sizeof(c->pub.client));
	put_bytes(h, c->pub.key, sizeof(c->pub.key));
	put_bytes(h, c->pub.settle_same, sizeof(c->pub.settle_same));
	put_i(h, c->pub.lease_until);
	put_i(h, c->pub.decided_ns);
	for (uint32_t o = c->holds; o; o = hold_at(st, o)->next) {
		put_n(h, 'h');
		put_key(h, &ledger_at(st, hold_at(st, o)->ledger)->key);
		put_i(h, hold_at(st, o)->amount);
	}
}

static void put_tree(crypto_hash_sha256_state *h, const struct state *st, const struct session_row *s)
{
	for (uint32_t i = s->same_first; i; i = same_at(st, i)->next) {
		put_n(h, 't');
		put_n(h, same_at(st, i)->token);
		put_i(h, same_at(st, i)->count);
	}
	put_n(h, s->ring_n);
	for (uint32_t i = 0; i < s->ring_n; i++)
		put_n(h, s->ring[(s->ring_at + i) % s->ring_n]);
}

static void put_session(crypto_hash_sha256_state *h, const struct state *st, const struct session_row *s)
{
	const struct session_state *p = &s->pub;

	put_n(h, 's');
	put_n(h, p->id);
	put_n(h, p->parent);
	put_n(h, p->root);
	put_str(h, p->agent);
	put_str(h, p->root_dir);
	put_str(h, p->labels_text);
	put_bytes(h, p->token_hash, sizeof(p->token_hash));
	put_i(h, p->opened_ns);
	put_i(h, p->ended_ns);
	put_i(h, p->lease_ns);
	put_n(h, (uint64_t)p->end);
	put_i(h, p->decisions);
	put_i(h, p->executions);
	put_i(h, p->pending_cards);
	put_i(h, p->open_reservations);
	put_i(h, p->latest_reservation);
	for (int u = 0; u < UNIT_COUNT; u++) {
		put_n(h, p->has_limit[u]);
		put_i(h, p->limit[u]);
	}
	put_tree(h, st, s);
	put_ledgers(h, st, s->ledgers_first);
	for (uint32_t i = s->calls_first; i; i = call_at(st, i)->next)
		put_call(h, st, call_at(st, i));
	for (uint32_t i = s->cards_first; i; i = card_at(st, i)->next) {
		put_n(h, 'r');
		put_n(h, card_at(st, i)->pub.id);
		put_i(h, card_at(st, i)->pub.until);
		put_bytes(h, card_at(st, i)->token, sizeof(card_at(st, i)->token));
	}
	for (uint32_t i = s->guards_first; i; i = guard_at(st, i)->next) {
		put_n(h, 'g');
		put_str(h, guard_at(st, i)->tool);
		put_n(h, guard_at(st, i)->pub.has_money);
		put_i(h, guard_at(st, i)->pub.money);
		put_i(h, guard_at(st, i)->pub.repeat);
	}
}

void state_digest(const struct state *st, uint8_t out[static 32])
{
	static const char domain[] = "pawl/state/v1";
	crypto_hash_sha256_state h;

	(void)crypto_hash_sha256_init(&h);
	put_bytes(&h, domain, sizeof(domain));
	put_n(&h, st->next_seq);
	put_i(&h, st->now);
	for (uint32_t i = st->sessions_first; i; i = session_at(st, i)->next)
		put_session(&h, st, session_at(st, i));
	put_ledgers(&h, st, st->shared_first);
	for (uint32_t i = st->agents_first; i; i = agent_at(st, i)->next) {
		put_n(&h, 'a');
		put_str(&h, agent_at(st, i)->name);
		put_i(&h, agent_at(st, i)->pub.open);
		put_i(&h, agent_at(st, i)->pub.fresh);
		put_i(&h, agent_at(st, i)->pub.fresh_end);
	}
	(void)crypto_hash_sha256_final(&h, out);
}
