/* policy/state.c - see state.h: birth and end of a state, and what may be asked of sessions, agents and deadlines.
 * Changes nothing. state_room*.c check and reserve, state_apply.c changes with the help of one file for each kind of row
 * (state_call.c, state_exec.c, state_ledger.c, state_card.c, state_denial.c, state_breaker.c, state_watch.c: each with its questions),
 * state_forget.c drops, state_copy.c clones, state_write.c and state_read*.c turn all of it into bytes and back with the help of
 * state_bytes.c and state_row.c, state_digest.c digests those bytes. */
#include "policy/state_int.h"

#include <sodium.h>
#include <stdlib.h>

int state_new(struct state **ret, struct pawl_error *err)
{
	struct state *st = calloc(1, sizeof(*st));
	struct view *view = calloc(1, sizeof(*view));

	if (!st || !view) {
		free(st);
		free(view);
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory for the state");
	}
	st->view = view;
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
	for (uint32_t h = st->list.sessions_first; h; h = session_at(st, h)->next)
		free(session_at(st, h)->ring);
#define DONE(kind, plural) pool_done(&st->plural);
	STATE_POOLS(DONE)
#undef DONE
#define DONE(table) free(st->table.slot);
	STATE_TABLES(DONE)
#undef DONE
	free(st->heap);
	free(st->view);
	free(st);
}

/* ---- keys of the tables ---- */

uint64_t session_row_hash(const struct state *st, uint32_t h)
{
	return mix64(session_at(st, h)->pub.id);
}

uint64_t short_hash(struct str s)
{
	uint64_t v = 0;

	memcpy(&v, s.p ? s.p : "", s.n < sizeof(v) ? s.n : sizeof(v));
	return mix64(v + s.n);
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

uint64_t agent_row_hash(const struct state *st, uint32_t h)
{
	return text_hash(st, agent_at(st, h)->name);
}

/* ---- look-ups by key ---- */

uint32_t find_session(const struct state *st, uint64_t id)
{
	uint32_t h;

	for (uint32_t at = index_start(&st->by_session, mix64(id)); (h = index_next(&st->by_session, &at)) != 0;)
		if (session_at(st, h)->pub.id == id)
			return h;
	return 0;
}

/* A loop law asks for one execution after the other of the same tree. */
uint32_t find_root(const struct state *st, uint64_t root)
{
	uint32_t h = st->view->root_row;

	if (!h || session_at(st, h)->pub.id != root)
		h = st->view->root_row = find_session(st, root);
	return h;
}

uint32_t find_guard(const struct state *st, uint64_t session, struct str tool)
{
	uint32_t h;

	if (!st->by_guard.n)
		return 0;
	for (uint32_t at = index_start(&st->by_guard, guard_hash(st, session, tool)); (h = index_next(&st->by_guard, &at)) != 0;)
		if (session_at(st, guard_at(st, h)->session_row)->pub.id == session &&
		    str_eq(guard_at(st, h)->tool, tool))
			return h;
	return 0;
}

uint32_t find_agent(const struct state *st, struct str name)
{
	uint32_t h;

	for (uint32_t at = index_start(&st->by_agent, text_hash(st, name)); (h = index_next(&st->by_agent, &at)) != 0;)
		if (str_eq(agent_at(st, h)->name, name))
			return h;
	return 0;
}

bool descends(const struct state *st, uint32_t session_row, uint32_t from)
{
	while (session_row && session_row != from)
		session_row = session_at(st, session_row)->parent_row;
	return session_row != 0;
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
		for (h = st->list.sessions_first; h && session_at(st, h)->pub.id <= after;)
			h = session_at(st, h)->next;
	return h ? &session_at(st, h)->pub : NULL;
}

struct guard_state state_guard(const struct state *st, uint64_t session, struct str tool)
{
	uint32_t h = find_guard(st, session, tool);

	return h ? guard_at(st, h)->pub : (struct guard_state){ 0 };
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
	ret->session = top->kind == DEADLINE_CARD ? card_at(st, top->handle)->pub.session
						  : session_at(st, call_at(st, live_at(st, top->handle)->call)->session_row)->pub.id;
	return true;
}
