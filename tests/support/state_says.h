/* tests/support/state_says.h - a digest of what a state says, by another walk than that of policy/state_write.c: over its rows as they lie and by
 * its getters. A field that the bytes forget shows here. All in a header, like state_feed.h. */
#ifndef PAWL_TESTS_STATE_SAYS_H
#define PAWL_TESTS_STATE_SAYS_H
#include "policy/state_int.h"

#include <sodium.h>

static inline void say_n(crypto_hash_sha256_state *h, uint64_t v)
{
	uint8_t b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	(void)crypto_hash_sha256_update(h, b, sizeof(b));
}

static inline void say_i(crypto_hash_sha256_state *h, int64_t v)
{
	say_n(h, (uint64_t)v);
}

static inline void say_bytes(crypto_hash_sha256_state *h, const void *p, size_t n)
{
	say_n(h, n);
	if (n)
		(void)crypto_hash_sha256_update(h, p, n);
}

static inline void say_str(crypto_hash_sha256_state *h, struct str s)
{
	say_bytes(h, s.p, s.n);
}

static inline void say_key(crypto_hash_sha256_state *h, const struct ledger_key *k)
{
	say_str(h, k->budget);
	say_n(h, (uint64_t)k->scope);
	say_n(h, (uint64_t)k->unit);
	say_n(h, k->session);
	say_str(h, k->owner);
	say_str(h, k->tool);
}

static inline void say_life(crypto_hash_sha256_state *h, const int64_t life[static LIFE_UNITS])
{
	for (int u = 0; u < LIFE_UNITS; u++)
		say_i(h, life[u]);
}

static inline void say_budgets(crypto_hash_sha256_state *h, const struct state *st)
{
	struct budget_row rows[PAWL_MAX_BUDGETS];
	bool known;
	size_t n = state_budgets(st, rows, &known);

	say_n(h, known);
	say_n(h, n);
	for (size_t i = 0; i < n; i++) {
		say_str(h, rows[i].id);
		say_n(h, (uint64_t)rows[i].unit << 16 | (uint64_t)rows[i].scope << 8 | (uint64_t)rows[i].per_tool << 1 | rows[i].windowed);
		say_bytes(h, rows[i].like, sizeof(rows[i].like));
		say_i(h, rows[i].limit);
	}
}

static inline void say_ledgers(crypto_hash_sha256_state *h, const struct state *st, uint32_t first)
{
	for (uint32_t i = first; i; i = ledger_at(st, i)->next) {
		const struct ledger_row *l = ledger_at(st, i);
		struct ledger_key key = ledger_key_of(st, l);

		say_n(h, 'l');
		say_key(h, &key);
		say_i(h, l->sum.spent);
		say_i(h, l->sum.reserved);
		say_i(h, l->sum.granted);
		say_i(h, l->sum.window_end);
	}
}

static inline void say_live(crypto_hash_sha256_state *h, const struct state *st, const struct call_row *c)
{
	const struct live_row *v = call_live(st, c);

	say_i(h, c->reported ? 0 : v->decided_ns); /* nobody is told any more */
	say_i(h, v->lease_until);
	say_n(h, call_at(st, v->call) == c);
	say_str(h, text_str(st, v->client));
	say_n(h, v->card ? card_at(st, v->card)->pub.id : 0);
	say_n(h, v->error);
	say_n(h, !c->reported && v->probe);
	if (v->holds && !hold_at(st, v->holds)->ledger) {
		say_n(h, 'L');
		say_i(h, hold_at(st, v->holds)->amount);
		say_i(h, hold_at(st, v->holds)->window_end);
		say_i(h, hold_at(st, v->holds)->price);
	}
	for (uint32_t i = ledger_holds(st, c); i; i = hold_at(st, i)->next) {
		const struct hold_row *o = hold_at(st, i);
		const struct ledger_row *l = ledger_at(st, o->ledger);
		struct ledger_key key = ledger_key_of(st, l);

		say_n(h, 'h');
		say_key(h, &key);
		say_i(h, o->amount);
		say_i(h, o->window_end);
		say_n(h, (uint16_t)(l->epoch - o->epoch));
	}
}

static inline void say_call(crypto_hash_sha256_state *h, const struct state *st, const struct call_row *c)
{
	say_n(h, 'c');
	say_n(h, c->seq);
	say_n(h, c->settled);
	say_str(h, text_str(st, c->tool));
	say_n(h, (uint64_t)c->kind << 16 | (uint64_t)c->answer << 8 | (uint64_t)c->outcome);
	say_n(h, (uint64_t)c->priced << 6 | (uint64_t)c->refund << 5 | (uint64_t)c->keyed << 4 | (uint64_t)c->reported << 3 | (uint64_t)c->polling << 2 | (uint64_t)c->claim << 1 | c->spent);
	say_n(h, c->told_error);
	say_n(h, c->call_hash);
	say_n(h, c->key);
	say_n(h, c->same);
	say_n(h, c->count);
	say_n(h, c->told);
	say_n(h, c->told_same);
	say_n(h, c->live != 0);
	if (c->live)
		say_live(h, st, c);
}

static inline void say_sticks(crypto_hash_sha256_state *h, const struct state *st, uint32_t first)
{
	for (uint32_t i = first; i; i = stick_at(st, i)->next) {
		const struct stick_row *k = stick_at(st, i);

		say_n(h, 'd');
		say_n(h, k->seq);
		say_n(h, (uint64_t)k->shadow << 16 | (uint64_t)k->how << 8 | k->at);
		say_str(h, text_str(st, k->tool));
		say_str(h, text_str(st, k->rule));
	}
}

static inline void say_tree(crypto_hash_sha256_state *h, const struct state *st, const struct session_row *s)
{
	struct exec_state e;

	for (uint32_t i = s->trips; i; i = trip_at(st, i)->next) {
		say_n(h, 't');
		say_n(h, trip_at(st, i)->token);
		say_n(h, trip_at(st, i)->shadow);
	}
	say_n(h, s->ring_n);
	for (uint32_t i = 0; state_exec(st, s->pub.id, i, &e); i++) {
		say_n(h, e.seq);
		say_n(h, e.repeat);
	}
}

static inline void say_card(crypto_hash_sha256_state *h, const struct card_state *c)
{
	say_n(h, 'r');
	say_n(h, c->id);
	say_i(h, c->opened_ns);
	say_i(h, c->until);
	say_n(h, (uint64_t)c->mode);
	say_str(h, c->tool);
	say_bytes(h, c->token, sizeof(c->token));
	say_n(h, c->n_asks);
	for (size_t i = 0; i < c->n_asks; i++) {
		say_n(h, (uint64_t)c->asks[i].code);
		say_str(h, c->asks[i].rule);
		say_n(h, c->asks[i].refers);
	}
	say_i(h, c->money);
	say_i(h, c->tokens);
	say_n(h, c->claim_only);
	say_n(h, c->spent_by);
	say_str(h, c->operator);
	say_str(h, c->reason);
}

static inline void say_fields(crypto_hash_sha256_state *h, const struct session_state *p)
{
	say_n(h, 's');
	say_n(h, p->id);
	say_n(h, p->parent);
	say_n(h, p->root);
	say_str(h, p->agent);
	say_str(h, p->root_dir);
	say_str(h, p->labels_text);
	say_bytes(h, p->token_hash, sizeof(p->token_hash));
	say_i(h, p->opened_ns);
	say_i(h, p->ended_ns);
	say_i(h, p->lease_ns);
	say_n(h, (uint64_t)p->end);
	say_i(h, p->decisions);
	say_i(h, p->executions);
	say_i(h, p->pending_cards);
	say_i(h, p->open_reservations);
	say_i(h, p->latest_reservation);
	for (int u = 0; u < UNIT_COUNT; u++) {
		say_n(h, p->has_limit[u]);
		say_i(h, p->limit[u]);
	}
}

static inline void say_processes(crypto_hash_sha256_state *h, const struct tree_state *t)
{
	say_n(h, (uint64_t)t->mode << 8 | t->run);
	say_n(h, t->held);
	say_i(h, t->execs);
	say_i(h, t->kills);
	say_i(h, t->lost);
	say_n(h, (uint64_t)t->why);
	say_i(h, t->measured);
	say_i(h, t->limit);
}

static inline void say_session(crypto_hash_sha256_state *h, const struct state *st, const struct session_row *s)
{
	say_fields(h, &s->pub);
	say_processes(h, s->tree ? &tree_at(st, s->tree)->pub : &(struct tree_state){ .mode = TREE_NONE });
	say_life(h, s->life);
	say_tree(h, st, s);
	say_ledgers(h, st, s->ledgers);
	for (uint32_t i = s->calls; i; i = call_at(st, i)->next)
		say_call(h, st, call_at(st, i));
	for (uint32_t i = s->cards; i; i = card_at(st, i)->next)
		say_card(h, &card_at(st, i)->pub);
	for (uint32_t i = s->guards; i; i = guard_at(st, i)->next) {
		say_n(h, 'g');
		say_str(h, guard_at(st, i)->tool);
		say_n(h, guard_at(st, i)->pub.has_money);
		say_i(h, guard_at(st, i)->pub.money);
		say_i(h, guard_at(st, i)->pub.repeat);
	}
	say_sticks(h, st, s->sticks);
}

static inline void say_breaker(crypto_hash_sha256_state *h, const struct breaker_row *b)
{
	say_n(h, 'b');
	say_str(h, b->id);
	say_str(h, b->owner);
	say_str(h, b->tool);
	say_n(h, (uint64_t)b->would << 24 | (uint64_t)b->scope << 16 | (uint64_t)b->mode << 8 | b->sticky);
	say_n(h, b->session);
	say_i(h, b->generation);
	say_i(h, b->until);
	say_n(h, b->probe);
	say_n(h, b->n_fails);
	for (uint32_t i = 0; i < b->n_fails; i++)
		say_i(h, b->fails[i]);
	say_n(h, b->n_denies);
	for (uint32_t i = 0; i < b->n_denies; i++)
		say_i(h, b->denies[i]);
	say_n(h, b->n_breaches);
	for (uint32_t i = 0; i < b->n_breaches; i++)
		say_i(h, b->breaches[i]);
}

/* What leads across sessions, as getters show it. */
static inline void say_queues(crypto_hash_sha256_state *h, const struct state *st)
{
	const struct session_state *s;
	const struct card_state *c;
	const struct call_state *o;
	struct deadline due;

	if (state_next_deadline(st, &due)) {
		say_i(h, due.at);
		say_n(h, due.kind);
		say_n(h, due.id);
		say_n(h, due.session);
	}
	for (uint64_t after = 0; (c = state_card_after(st, 0, after)); after = c->id)
		say_n(h, c->id);
	for (uint64_t id = 0; (s = state_session_after(st, id)); id = s->id)
		for (uint64_t after = 0; (o = state_open_after(st, s->id, after)); after = o->seq)
			say_n(h, o->seq);
	say_n(h, st->heap_n);
#define USED(kind, plural) say_n(h, st->plural.used - st->plural.n_free);
	STATE_POOLS(USED)
#undef USED
}

/* How often each text is held, in any order: one that is held too often stays for ever, one that is not often enough goes too early. */
static inline void say_texts(crypto_hash_sha256_state *h, const struct state *st)
{
	uint64_t held = 0, bytes = 0;

	for (uint32_t i = 1; i <= st->texts.used; i++) {
		const struct text *t = text_at(st, i)->t;

		held += t ? t->refs : 0;
		bytes += t ? t->refs * (uint64_t)t->n : 0;
	}
	say_n(h, held);
	say_n(h, bytes);
}

static inline void state_says(const struct state *st, uint8_t out[static 32])
{
	crypto_hash_sha256_state h;

	(void)crypto_hash_sha256_init(&h);
	say_n(&h, st->next_seq);
	say_i(&h, st->now);
	say_n(&h, st->shadow);
	for (uint32_t i = st->list.sessions_first; i; i = session_at(st, i)->next)
		say_session(&h, st, session_at(st, i));
	say_life(&h, st->money.life);
	say_budgets(&h, st);
	say_ledgers(&h, st, st->list.shared);
	for (uint32_t i = st->list.breaks_first; i; i = break_at(st, i)->next)
		say_breaker(&h, &break_at(st, i)->pub);
	for (uint32_t i = st->list.agents_first; i; i = agent_at(st, i)->next) {
		say_n(&h, 'a');
		say_str(&h, agent_at(st, i)->name);
		say_i(&h, agent_at(st, i)->pub.open);
		say_i(&h, agent_at(st, i)->pub.fresh);
		say_i(&h, agent_at(st, i)->pub.fresh_end);
		say_i(&h, agent_at(st, i)->pub.hold_until);
		say_life(&h, agent_at(st, i)->life);
		say_sticks(&h, st, agent_at(st, i)->sticks);
	}
	say_queues(&h, st);
	say_texts(&h, st);
	(void)crypto_hash_sha256_final(&h, out);
}

#endif
