/* policy/state_pool.c - the memory of struct state: pools of rows, tables over them, interned text, the heap of
 * deadlines. All that can fail is called *_reserve or *_copy; the rest works in what was reserved. */
#include "policy/state_int.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

/* ---- pools ---- */

void pool_init(struct pool *p, size_t size)
{
	*p = (struct pool){ .size = (uint32_t)size };
}

void pool_done(struct pool *p)
{
	for (uint32_t i = 0; i < p->n_chunks; i++)
		free(p->chunk[i]);
	free(p->chunk);
	pool_init(p, p->size);
}

static bool pool_grow(struct pool *p)
{
	char *chunk;

	if (p->n_chunks == p->cap_chunks) {
		uint32_t cap = p->cap_chunks ? p->cap_chunks * 2 : 8;
		char **list = cap <= UINT32_MAX / POOL_CHUNK ? realloc(p->chunk, cap * sizeof(*list)) : NULL;

		if (!list)
			return false;
		p->chunk = list;
		p->cap_chunks = cap;
	}
	chunk = malloc((size_t)p->size * POOL_CHUNK);
	if (!chunk)
		return false;
	p->chunk[p->n_chunks++] = chunk;
	return true;
}

bool pool_reserve(struct pool *p, size_t n)
{
	while ((size_t)p->n_chunks * POOL_CHUNK - p->used + p->n_free < n)
		if (!pool_grow(p))
			return false;
	return true;
}

uint32_t pool_take(struct pool *p)
{
	uint32_t h = p->free;

	if (h) {
		memcpy(&p->free, pool_at(p, h), sizeof(p->free));
		p->n_free--;
	} else {
		assert(p->used < p->n_chunks * POOL_CHUNK);
		h = ++p->used;
	}
	memset(pool_at(p, h), 0, p->size);
	return h;
}

void pool_give(struct pool *p, uint32_t h)
{
	memset(pool_at(p, h), 0, p->size);
	memcpy(pool_at(p, h), &p->free, sizeof(p->free));
	p->free = h;
	p->n_free++;
}

bool pool_copy(const struct pool *from, struct pool *to)
{
	pool_init(to, from->size);
	while (to->n_chunks * POOL_CHUNK < from->used)
		if (!pool_grow(to))
			return false;
	for (uint32_t i = 0; i < to->n_chunks; i++) {
		uint32_t rows = from->used - i * POOL_CHUNK;

		memcpy(to->chunk[i], from->chunk[i], (size_t)from->size * (rows < POOL_CHUNK ? rows : POOL_CHUNK));
	}
	to->used = from->used;
	to->free = from->free;
	to->n_free = from->n_free;
	return true;
}

/* ---- tables ---- */

bool index_reserve(const struct state *st, struct index *ix, size_t extra, row_hash *hash)
{
	uint32_t cap = ix->cap ? ix->cap : 16, *old = ix->slot, old_cap = ix->cap;
	uint32_t *slot;

	while (cap - cap / 4 < ix->n + extra) {
		if (cap > UINT32_MAX / 4)
			return false;
		cap += cap / 2;
	}
	if (cap == ix->cap)
		return true;
	slot = calloc(cap, sizeof(*slot));
	if (!slot)
		return false;
	ix->slot = slot;
	ix->cap = cap;
	ix->n = 0;
	for (uint32_t i = 0; i < old_cap; i++)
		if (old[i])
			index_put(ix, hash(st, old[i]), old[i]);
	free(old);
	return true;
}

void index_put(struct index *ix, uint64_t hash, uint32_t h)
{
	uint32_t i = index_start(ix, hash);

	assert(ix->n < ix->cap);
	while (ix->slot[i])
		i = i + 1 < ix->cap ? i + 1 : 0;
	ix->slot[i] = h;
	ix->n++;
}

void index_swap(struct index *ix, uint64_t hash, uint32_t from, uint32_t to)
{
	uint32_t i = index_start(ix, hash);

	while (ix->slot[i] != from)
		i = i + 1 < ix->cap ? i + 1 : 0;
	ix->slot[i] = to;
}

/* How far i lies behind from, once round. */
static uint32_t distance(const struct index *ix, uint32_t from, uint32_t i)
{
	return i >= from ? i - from : i + (ix->cap - from);
}

/* Closes the gap by moving back whatever may lie nearer to its own place, so that no tombstones are needed. */
bool index_remove(const struct state *st, struct index *ix, row_hash *hash, uint32_t h)
{
	uint32_t gap, i;

	if (!ix->cap)
		return false;
	for (gap = index_start(ix, hash(st, h)); ix->slot[gap] != h; gap = gap + 1 < ix->cap ? gap + 1 : 0)
		if (!ix->slot[gap])
			return false;
	for (i = gap + 1 < ix->cap ? gap + 1 : 0; ix->slot[i]; i = i + 1 < ix->cap ? i + 1 : 0) {
		uint32_t home = index_start(ix, hash(st, ix->slot[i]));

		if (distance(ix, home, i) >= distance(ix, gap, i)) {
			ix->slot[gap] = ix->slot[i];
			gap = i;
		}
	}
	ix->slot[gap] = 0;
	ix->n--;
	return true;
}

bool index_copy(const struct index *from, struct index *to)
{
	*to = (struct index){ 0 };
	if (!from->cap)
		return true;
	to->slot = malloc(from->cap * sizeof(*to->slot));
	if (!to->slot)
		return false;
	memcpy(to->slot, from->slot, from->cap * sizeof(*to->slot));
	to->cap = from->cap;
	to->n = from->n;
	return true;
}

/* ---- text ---- */

uint64_t text_hash(const struct state *st, struct str s)
{
	uint64_t h;

	_Static_assert(crypto_shorthash_BYTES == sizeof(h) && crypto_shorthash_KEYBYTES == sizeof(st->hash_key),
		       "SipHash");
	crypto_shorthash((uint8_t *)&h, (const uint8_t *)(s.p ? s.p : ""), s.n, st->hash_key);
	return h;
}

uint64_t text_row_hash(const struct state *st, uint32_t h)
{
	return text_at(st, h)->t->hash;
}

static struct text *text_find(const struct state *st, struct str s, uint64_t hash)
{
	uint32_t h;

	for (uint32_t at = index_start(&st->by_text, hash); (h = index_next(&st->by_text, &at)) != 0;) {
		struct text *t = text_at(st, h)->t;

		if (t->hash == hash && str_eq((struct str){ t->p, t->n }, s))
			return t;
	}
	return NULL;
}

/* Until the entry is applied, which may well give up the last row that has it before it makes the next. */
static bool keep_loose(struct state *st, struct text *t)
{
	if (!t->loose) {
		t->loose = true;
		t->next_loose = st->loose;
		st->loose = t;
	}
	return true;
}

bool text_reserve(struct state *st, struct str s)
{
	uint64_t hash = text_hash(st, s);
	struct text *t = s.n ? text_find(st, s, hash) : NULL;

	if (!s.n || t)
		return !t || keep_loose(st, t);
	if (s.n > UINT32_MAX || !pool_reserve(&st->texts, 1) || !index_reserve(st, &st->by_text, 1, text_row_hash))
		return false;
	t = malloc(sizeof(*t) + s.n);
	if (!t)
		return false;
	*t = (struct text){ .hash = hash,
			    .n = (uint32_t)s.n,
			    .handle = pool_take(&st->texts) };
	memcpy(t->p, s.p, s.n);
	text_at(st, t->handle)->t = t;
	index_put(&st->by_text, hash, t->handle);
	return keep_loose(st, t);
}

struct str text_ref(struct state *st, struct str s)
{
	struct text *t;

	if (!s.n)
		return STR_NONE;
	t = text_find(st, s, text_hash(st, s));
	assert(t);
	t->refs++;
	return (struct str){ t->p, t->n };
}

static void text_free(struct state *st, struct text *t)
{
	(void)index_remove(st, &st->by_text, text_row_hash, t->handle);
	pool_give(&st->texts, t->handle);
	free(t);
}

void text_drop(struct state *st, struct str s)
{
	struct text *t;

	if (!s.p)
		return;
	t = text_of(s);
	assert(t->refs > 0);
	if (--t->refs == 0 && !t->loose)
		text_free(st, t);
}

uint32_t text_hold(struct state *st, struct str s)
{
	struct str held = text_ref(st, s);

	return held.p ? text_of(held)->handle : 0;
}

void text_let(struct state *st, uint32_t h)
{
	if (h)
		text_drop(st, text_str(st, h));
}

struct str text_str(const struct state *st, uint32_t h)
{
	const struct text *t = h ? text_at(st, h)->t : NULL;

	return t ? (struct str){ t->p, t->n } : STR_NONE;
}

void text_sweep(struct state *st)
{
	struct text *t = st->loose;

	st->loose = NULL;
	while (t) {
		struct text *next = t->next_loose;

		t->loose = false;
		if (t->refs == 0)
			text_free(st, t);
		t = next;
	}
}

/* ---- deadlines: a binary heap whose rows know their place, so that the top is always one that still stands ---- */

bool heap_reserve(struct state *st, size_t extra)
{
	uint32_t cap = st->heap_cap ? st->heap_cap : 16;
	struct heap_node *heap;

	while (cap < st->heap_n + extra)
		cap *= 2;
	if (cap == st->heap_cap)
		return true;
	heap = realloc(st->heap, cap * sizeof(*heap));
	if (!heap)
		return false;
	st->heap = heap;
	st->heap_cap = cap;
	return true;
}

static void heap_set(struct state *st, uint32_t at, struct heap_node node)
{
	st->heap[at] = node;
	if (node.kind == DEADLINE_CARD)
		card_at(st, node.handle)->heap_at = at;
	else
		live_at(st, node.handle)->heap_at = at;
}

static bool heap_before(const struct heap_node *a, const struct heap_node *b)
{
	return a->at != b->at ? a->at < b->at : a->id < b->id;
}

static void heap_up(struct state *st, uint32_t at, struct heap_node node)
{
	while (at > 0 && heap_before(&node, &st->heap[(at - 1) / 2])) {
		heap_set(st, at, st->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_set(st, at, node);
}

void heap_add(struct state *st, struct heap_node node)
{
	assert(st->heap_n < st->heap_cap);
	heap_up(st, st->heap_n++, node);
}

void heap_remove(struct state *st, uint32_t at)
{
	struct heap_node last = st->heap[--st->heap_n];

	if (at == st->heap_n)
		return;
	for (uint32_t child; (child = 2 * at + 1) < st->heap_n; at = child) {
		if (child + 1 < st->heap_n && heap_before(&st->heap[child + 1], &st->heap[child]))
			child++;
		if (!heap_before(&st->heap[child], &last))
			break;
		heap_set(st, at, st->heap[child]);
	}
	heap_up(st, at, last);
}
