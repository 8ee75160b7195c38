/* policy/state_forget.c - drops session trees whose hour is over. What is nobody's alone stays: shared ledgers, agents and
 * their denials, breakers of agents, tenants and all. */
#include "policy/state_int.h"

#include <stdlib.h>

static void guards_free(struct state *st, struct session_row *s)
{
	for (uint32_t g = s->guards, next; g; g = next) {
		next = guard_at(st, g)->next;
		(void)index_remove(st, &st->by_guard, guard_row_hash, g);
		text_drop(st, guard_at(st, g)->tool);
		pool_give(&st->guards, g);
	}
}

static void session_free(struct state *st, uint32_t h)
{
	struct session_row *s = session_at(st, h);

	calls_free(st, s);
	for (uint32_t l = s->ledgers, next; l; l = next) {
		next = ledger_at(st, l)->next;
		ledger_free(st, l);
	}
	for (uint32_t c = s->cards, next; c; c = next) {
		next = card_at(st, c)->next;
		card_free(st, c);
	}
	guards_free(st, s);
	if (s->tree)
		pool_give(&st->trees, s->tree);
	denials_free(st, s);
	breaks_free(st, s);
	free(s->ring);
	text_drop(st, s->pub.agent);
	text_drop(st, s->pub.root_dir);
	text_drop(st, s->pub.labels_text);
	UNLINK(st, session, st->list.sessions_first, st->list.sessions_last, prev, next, s);
	(void)index_remove(st, &st->by_session, session_row_hash, h);
	pool_give(&st->sessions, h);
}

/* Children before parents: what a row is named by must still be there when it leaves its table. */
static void tree_free(struct state *st, uint32_t root)
{
	uint32_t h = root, next;

	for (;;) {
		while (session_at(st, h)->child_first)
			h = session_at(st, h)->child_first;
		next = session_at(st, h)->sibling_next;
		if (h == root) {
			session_free(st, h);
			return;
		}
		session_at(st, session_at(st, h)->parent_row)->child_first = next;
		next = next ? next : session_at(st, h)->parent_row;
		session_free(st, h);
		h = next;
	}
}

/* A tree goes as one, when its root has lingered: its sessions draw from each other's ledgers. The root ends last or
 * with the others. */
void forget_ended(struct state *st)
{
	uint32_t h, last_root = 0;

	while ((h = st->list.ended_first) != 0 && st->now - session_at(st, h)->pub.ended_ns > PAWL_SESSION_LINGER_NS) {
		st->list.ended_first = session_at(st, h)->ended_next;
		if (!st->list.ended_first)
			st->list.ended_last = 0;
		if (session_at(st, h)->root_row != h)
			continue;
		session_at(st, h)->ended_next =
		    last_root; /* put aside: a child that ended with it may still be in the queue */
		last_root = h;
	}
	while ((h = last_root) != 0) {
		last_root = session_at(st, h)->ended_next;
		tree_free(st, h);
	}
}
