/* policy/state_exec.c - executions of a session tree: a ring of the newest at its root, and for each token how many there
 * were. A call is its own row in both; a tree's calls live as long as the tree. Tokens are compared by their first 64 bits:
 * they are keyed digests, and two that meet in one tree can only trip its own loop law. */
#include "policy/state_int.h"

#include <stdlib.h>

static uint64_t same_hash(uint32_t root_row, uint64_t token)
{
	return mix64(token + root_row);
}

uint64_t same_row_hash(const struct state *st, uint32_t h)
{
	const struct call_row *c = call_at(st, h);

	return same_hash(session_at(st, c->session_row)->root_row, c->same);
}

uint32_t find_same(const struct state *st, uint32_t root_row, uint64_t token)
{
	uint32_t h;

	for (uint32_t at = index_start(&st->by_same, same_hash(root_row, token)); (h = index_next(&st->by_same, &at)) != 0;)
		if (call_at(st, h)->same == token && session_at(st, call_at(st, h)->session_row)->root_row == root_row)
			return h;
	return 0;
}

/* ---- questions ---- */

/* Exact also where the rows have stopped counting. */
static int64_t count_all(const struct state *st, uint32_t root_row, uint64_t token)
{
	int64_t n = 0;

	for (uint32_t s = st->list.sessions_first; s; s = session_at(st, s)->next)
		for (uint32_t h = session_at(st, s)->root_row == root_row ? session_at(st, s)->calls : 0; h; h = call_at(st, h)->next)
			n += call_at(st, h)->answer == VERDICT_ALLOW && call_at(st, h)->same == token;
	return n;
}

int64_t state_count_same(const struct state *st, uint64_t root, const uint8_t same[static 16])
{
	uint32_t r = find_root(st, root), h = r ? find_same(st, r, first8(same)) : 0;

	if (!h)
		return 0;
	return call_at(st, h)->count < COUNT_MAX ? call_at(st, h)->count : count_all(st, r, first8(same));
}

static int64_t count_token(const uint32_t *p, size_t n, uint32_t token)
{
	int64_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += p[i] == token;
	return count;
}

int64_t state_count_repeat(const struct state *st, uint64_t root, const uint8_t repeat[static 16], int64_t window)
{
	uint32_t h = find_root(st, root);
	const struct session_row *s = h ? session_at(st, h) : NULL;
	uint32_t token = exec_repeat(repeat);
	size_t n, newest;

	if (!s || !s->ring_n || window <= 0)
		return 0;
	n = window < (int64_t)s->ring_n ? (size_t)window : s->ring_n;
	newest = s->ring_at ? s->ring_at : s->ring_n; /* one past it; before it lie ring_at of the newest, or all */
	if (n <= newest)
		return count_token(s->ring + newest - n, n, token);
	return count_token(s->ring, newest, token) + count_token(s->ring + s->ring_n - (n - newest), n - newest, token);
}

bool state_exec(const struct state *st, uint64_t root, uint32_t back, struct exec_state *ret)
{
	uint32_t h = find_root(st, root), at;
	const struct session_row *s = h ? session_at(st, h) : NULL;
	const struct call_row *c;
	bool both;

	if (!s || back >= s->ring_n)
		return false;
	at = ring_place(s, back);
	c = call_at(st, ring_calls(s)[at]);
	both = c->reported && !c->told_error && c->live;
	*ret = (struct exec_state){ .seq = c->seq,
				    .same = c->same,
				    .repeat = s->ring[at],
				    .tool = text_str(st, c->tool),
				    .settled = c->reported,
				    .failed = c->reported && c->outcome == OUTCOME_ERROR,
				    .polling = c->polling,
				    .result = c->told_error ? 0 : c->told,
				    .error = c->told_error ? c->told : both ? call_live(st, c)->error : 0 };
	return true;
}

/* ---- changes ---- */

/* Grown while it has not wrapped: it wraps at its full size only. */
bool exec_reserve(struct state *st, struct session_row *root)
{
	uint32_t cap = root->ring_cap ? root->ring_cap + root->ring_cap / 4u : 8;
	uint32_t *ring;

	if (!pool_reserve(&st->calls, 1) || !index_reserve(st, &st->by_same, 1, same_row_hash))
		return false;
	if (root->ring_n < root->ring_cap || root->ring_cap == PAWL_MAX_WINDOW)
		return true;
	cap = cap < PAWL_MAX_WINDOW ? cap : PAWL_MAX_WINDOW;
	ring = malloc(cap * 2 * sizeof(*ring));
	if (!ring)
		return false;
	if (root->ring_n) {
		memcpy(ring, root->ring, root->ring_n * sizeof(*ring));
		memcpy(ring + cap, ring_calls(root), root->ring_n * sizeof(*ring));
	}
	free(root->ring);
	root->ring = ring;
	root->ring_cap = (uint16_t)cap;
	return true;
}

void exec_add(struct state *st, uint32_t call, const struct entry_decision *d)
{
	struct call_row *c = call_at(st, call);
	struct session_row *s = session_at(st, c->session_row), *root = session_at(st, s->root_row);
	uint32_t older = find_same(st, s->root_row, first8(d->same)), at = root->ring_n;

	s->pub.executions++;
	c->same = first8(d->same);
	c->count = 1;
	if (older) {
		c->count = (call_at(st, older)->count < COUNT_MAX ? call_at(st, older)->count + 1u : COUNT_MAX) & COUNT_MAX;
		index_swap(&st->by_same, same_row_hash(st, call), older, call);
	} else {
		index_put(&st->by_same, same_row_hash(st, call), call);
	}
	if (root->ring_n < root->ring_cap) {
		root->ring_n++;
	} else { /* full size: the oldest makes room */
		at = root->ring_at;
		root->ring_at = (uint16_t)((at + 1) % root->ring_cap);
	}
	root->ring[at] = d->has_repeat ? exec_repeat(d->repeat) : 0;
	ring_calls(root)[at] = call;
}
