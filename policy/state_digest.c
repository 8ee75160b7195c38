/* policy/state_digest.c - a digest of what the whole state says, in an order that the log fixed (ids, and the order in which
 * things were first named), never that of handles or tables. Each number goes in as 8 bytes, least significant first; each
 * text behind its length. */
#include "policy/state_int.h"

#include <sodium.h>

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

static void put_life(crypto_hash_sha256_state *h, const int64_t life[static LIFE_UNITS])
{
	for (int u = 0; u < LIFE_UNITS; u++)
		put_i(h, life[u]);
}

static void put_budgets(crypto_hash_sha256_state *h, const struct state *st)
{
	struct budget_row rows[PAWL_MAX_BUDGETS];
	bool known;
	size_t n = state_budgets(st, rows, &known);

	put_n(h, known);
	put_n(h, n);
	for (size_t i = 0; i < n; i++) {
		put_str(h, rows[i].id);
		put_n(h, (uint64_t)rows[i].unit << 16 | (uint64_t)rows[i].scope << 8 | (uint64_t)rows[i].per_tool << 1 | rows[i].windowed);
		put_bytes(h, rows[i].like, sizeof(rows[i].like));
		put_i(h, rows[i].limit);
	}
}

static void put_ledgers(crypto_hash_sha256_state *h, const struct state *st, uint32_t first)
{
	for (uint32_t i = first; i; i = ledger_at(st, i)->next) {
		const struct ledger_row *l = ledger_at(st, i);
		struct ledger_key key = ledger_key_of(st, l);

		put_n(h, 'l');
		put_key(h, &key);
		put_i(h, l->sum.spent);
		put_i(h, l->sum.reserved);
		put_i(h, l->sum.granted);
		put_i(h, l->sum.window_end);
	}
}

static void put_live(crypto_hash_sha256_state *h, const struct state *st, const struct call_row *c)
{
	put_i(h, c->live.decided_ns);
	put_str(h, text_str(st, c->live.client));
	put_n(h, c->live.card ? card_at(st, c->live.card)->pub.id : 0);
	if (c->live.holds && !hold_at(st, c->live.holds)->ledger) {
		put_n(h, 'L');
		put_i(h, hold_at(st, c->live.holds)->amount);
		put_i(h, hold_at(st, c->live.holds)->window_end);
	}
	for (uint32_t i = ledger_holds(st, c); i; i = hold_at(st, i)->next) {
		const struct hold_row *o = hold_at(st, i);
		const struct ledger_row *l = ledger_at(st, o->ledger);
		struct ledger_key key = ledger_key_of(st, l);

		put_n(h, 'h');
		put_key(h, &key);
		put_i(h, o->amount);
		put_i(h, o->window_end);
		put_n(h, o->epoch == l->epoch);
	}
}

static void put_call(crypto_hash_sha256_state *h, const struct state *st, const struct call_row *c)
{
	put_n(h, 'c');
	put_n(h, c->seq);
	put_n(h, c->settled);
	put_str(h, text_str(st, c->tool));
	put_n(h, (uint64_t)c->kind << 16 | (uint64_t)c->answer << 8 | (uint64_t)c->outcome);
	put_n(h, (uint64_t)c->keyed << 4 | (uint64_t)c->reported << 3 | (uint64_t)c->polling << 2 | (uint64_t)c->claim << 1 | c->spent);
	put_n(h, c->call_hash);
	put_n(h, c->key);
	put_n(h, c->same);
	put_n(h, c->count);
	put_i(h, c->lease_until);
	if (!c->reported) {
		put_live(h, st, c);
		return;
	}
	put_n(h, c->told.result);
	put_n(h, c->told.error);
	put_bytes(h, c->told.same, sizeof(c->told.same));
}

static void put_sticks(crypto_hash_sha256_state *h, const struct state *st, uint32_t first)
{
	for (uint32_t i = first; i; i = stick_at(st, i)->next) {
		const struct stick_row *k = stick_at(st, i);

		put_n(h, 'd');
		put_n(h, k->seq);
		put_n(h, (uint64_t)k->how << 8 | k->at);
		put_str(h, text_str(st, k->tool));
		put_str(h, text_str(st, k->rule));
	}
}

static void put_tree(crypto_hash_sha256_state *h, const struct state *st, const struct session_row *s)
{
	struct exec_state e;

	for (uint32_t i = s->trips; i; i = trip_at(st, i)->next) {
		put_n(h, 't');
		put_n(h, trip_at(st, i)->token);
	}
	put_n(h, s->ring_n);
	for (uint32_t i = 0; state_exec(st, s->pub.id, i, &e); i++) {
		put_n(h, e.seq);
		put_n(h, e.repeat);
	}
}

static void put_card(crypto_hash_sha256_state *h, const struct card_state *c)
{
	put_n(h, 'r');
	put_n(h, c->id);
	put_i(h, c->opened_ns);
	put_i(h, c->until);
	put_n(h, (uint64_t)c->mode);
	put_str(h, c->tool);
	put_bytes(h, c->token, sizeof(c->token));
	put_n(h, c->n_asks);
	for (size_t i = 0; i < c->n_asks; i++) {
		put_n(h, (uint64_t)c->asks[i].code);
		put_str(h, c->asks[i].rule);
	}
	put_i(h, c->money);
	put_i(h, c->tokens);
	put_n(h, c->claim_only);
	put_n(h, c->spent_by);
	put_str(h, c->operator);
	put_str(h, c->reason);
}

static void put_fields(crypto_hash_sha256_state *h, const struct session_state *p)
{
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
}

static void put_session(crypto_hash_sha256_state *h, const struct state *st, const struct session_row *s)
{
	put_fields(h, &s->pub);
	put_life(h, s->life);
	put_tree(h, st, s);
	put_ledgers(h, st, s->ledgers);
	for (uint32_t i = s->calls; i; i = call_at(st, i)->next)
		put_call(h, st, call_at(st, i));
	for (uint32_t i = s->cards; i; i = card_at(st, i)->next)
		put_card(h, &card_at(st, i)->pub);
	for (uint32_t i = s->guards; i; i = guard_at(st, i)->next) {
		put_n(h, 'g');
		put_str(h, guard_at(st, i)->tool);
		put_n(h, guard_at(st, i)->pub.has_money);
		put_i(h, guard_at(st, i)->pub.money);
		put_i(h, guard_at(st, i)->pub.repeat);
	}
	put_sticks(h, st, s->sticks);
}

static void put_breaker(crypto_hash_sha256_state *h, const struct breaker_row *b)
{
	put_n(h, 'b');
	put_str(h, b->id);
	put_str(h, b->owner);
	put_str(h, b->tool);
	put_n(h, (uint64_t)b->scope << 16 | (uint64_t)b->mode << 8 | b->sticky);
	put_n(h, b->session);
	put_i(h, b->generation);
	put_i(h, b->until);
	put_n(h, b->probe);
	put_n(h, b->n_fails);
	for (uint32_t i = 0; i < b->n_fails; i++)
		put_i(h, b->fails[i]);
	put_n(h, b->n_denies);
	for (uint32_t i = 0; i < b->n_denies; i++)
		put_i(h, b->denies[i]);
}

void state_digest(const struct state *st, uint8_t out[static 32])
{
	static const char domain[] = "pawl/state/v3";
	crypto_hash_sha256_state h;

	(void)crypto_hash_sha256_init(&h);
	put_bytes(&h, domain, sizeof(domain));
	put_n(&h, st->next_seq);
	put_i(&h, st->now);
	for (uint32_t i = st->list.sessions_first; i; i = session_at(st, i)->next)
		put_session(&h, st, session_at(st, i));
	put_life(&h, st->money.life);
	put_budgets(&h, st);
	put_ledgers(&h, st, st->list.shared);
	for (uint32_t i = st->list.breaks_first; i; i = break_at(st, i)->next)
		put_breaker(&h, &break_at(st, i)->pub);
	for (uint32_t i = st->list.agents_first; i; i = agent_at(st, i)->next) {
		put_n(&h, 'a');
		put_str(&h, agent_at(st, i)->name);
		put_i(&h, agent_at(st, i)->pub.open);
		put_i(&h, agent_at(st, i)->pub.fresh);
		put_i(&h, agent_at(st, i)->pub.fresh_end);
		put_i(&h, agent_at(st, i)->pub.hold_until);
		put_life(&h, agent_at(st, i)->life);
		put_sticks(&h, st, agent_at(st, i)->sticks);
	}
	(void)crypto_hash_sha256_final(&h, out);
}
