/* policy/state_copy.c - a copy of the whole state: chunks and tables as they are, since rows name each other by handle. Only
 * text and rings, which rows point at, get places of their own. */
#include "policy/state_int.h"

#include <stdlib.h>

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

static size_t ring_bytes(const struct session_row *s)
{
	return (size_t)s->ring_cap * 2 * sizeof(*s->ring);
}

static void copy_ring(const struct session_row *from, struct session_row *to)
{
	memcpy(to->ring, from->ring, from->ring_n * sizeof(uint32_t));
	memcpy(to->ring + to->ring_cap, from->ring + from->ring_cap, from->ring_n * sizeof(uint32_t));
}

static bool copy_sessions(const struct state *from, struct state *to)
{
	bool fits = true;

	if (!pool_copy(&from->sessions, &to->sessions))
		return false;
	to->list = from->list; /* from here on state_free() finds the rings */
	for (uint32_t h = to->list.sessions_first; h; h = session_at(to, h)->next)
		session_at(to, h)->ring = NULL;
	for (uint32_t h = to->list.sessions_first; h && fits; h = session_at(to, h)->next) {
		struct session_row *s = session_at(to, h);

		if (!s->ring_cap)
			continue;
		s->ring = calloc(1, ring_bytes(s));
		fits = s->ring != NULL;
		if (fits)
			copy_ring(session_at(from, h), s);
	}
	return fits;
}

static void move_text(const struct state *to, struct str *s)
{
	if (s->p)
		s->p = text_at(to, text_of(*s)->handle)->t->p;
}

static void move_card(const struct state *to, struct card_state *c)
{
	move_text(to, &c->tool);
	move_text(to, &c->operator);
	move_text(to, &c->reason);
	for (size_t i = 0; i < c->n_asks; i++)
		move_text(to, &c->asks[i].rule);
}

static void move_texts(const struct state *to)
{
	for (uint32_t h = to->list.sessions_first; h; h = session_at(to, h)->next) {
		struct session_row *s = session_at(to, h);

		move_text(to, &s->pub.agent);
		move_text(to, &s->pub.root_dir);
		move_text(to, &s->pub.labels_text);
		for (uint32_t g = s->guards; g; g = guard_at(to, g)->next)
			move_text(to, &guard_at(to, g)->tool);
		for (uint32_t c = s->cards; c; c = card_at(to, c)->next)
			move_card(to, &card_at(to, c)->pub);
	}
	for (uint32_t a = to->list.agents_first; a; a = agent_at(to, a)->next)
		move_text(to, &agent_at(to, a)->name);
	for (uint32_t b = to->list.breaks_first; b; b = break_at(to, b)->next) {
		move_text(to, &break_at(to, b)->pub.id);
		move_text(to, &break_at(to, b)->pub.owner);
		move_text(to, &break_at(to, b)->pub.tool);
	}
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

/* Texts and sessions go first: the rest needs nothing of its own. */
static bool copy_pools(const struct state *from, struct state *to)
{
	bool fits = copy_texts(from, to) && copy_sessions(from, to) && copy_heap(from, to);

#define COPY(kind, plural)                                                 \
	if (&from->plural != &from->texts && &from->plural != &from->sessions) \
		fits = fits && pool_copy(&from->plural, &to->plural);
	STATE_POOLS(COPY)
#undef COPY
#define COPY(table) fits = fits && index_copy(&from->table, &to->table);
	STATE_TABLES(COPY)
#undef COPY
	return fits;
}

int state_clone(const struct state *st, struct state **ret, struct pawl_error *err)
{
	struct state *to;
	int r;

	r = state_new(&to, err);
	if (r < 0)
		return r;
	if (!copy_pools(st, to)) {
		state_free(to);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory for a copy of the state");
	}
	memcpy(to->hash_key, st->hash_key, sizeof(to->hash_key));
	to->next_seq = st->next_seq;
	to->now = st->now;
	to->shadow = st->shadow;
	to->money = st->money;
	move_texts(to);
	*ret = to;
	return 0;
}

