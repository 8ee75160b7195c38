/* policy/arena.c - see arena.h. Blocks in a list; the newest one is filled, a large request gets a block of its own. */
#include "policy/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define ARENA_BLOCK 8192u

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	alignas(max_align_t) unsigned char bytes[];
};

void arena_done(struct arena *a)
{
	struct arena_block *next;

	for (struct arena_block *b = a->head; b; b = next) {
		next = b->next;
		free(b);
	}
	*a = (struct arena){ 0 };
}

static struct arena_block *block_for(struct arena *a, size_t n)
{
	size_t size = n > ARENA_BLOCK ? n : ARENA_BLOCK;
	struct arena_block *b = a->head;

	if (b && n <= b->size - b->used)
		return b;
	if (size > SIZE_MAX - sizeof(*b) || a->failed)
		return NULL;
	b = calloc(1, sizeof(*b) + size);
	if (!b)
		return NULL;
	b->size = size;
	b->next = a->head;
	a->head = b;
	return b;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	const size_t unit = alignof(max_align_t);
	struct arena_block *b = NULL;
	size_t want;
	void *p;

	if (!__builtin_mul_overflow(n, size, &want) && want <= SIZE_MAX - unit) {
		want = want ? (want + unit - 1) / unit * unit : unit;
		b = block_for(a, want);
	}
	if (!b) {
		a->failed = true;
		return NULL;
	}
	p = b->bytes + b->used;
	b->used += want;
	return p;
}

struct str arena_text(struct arena *a, struct str s)
{
	char *p = s.n < SIZE_MAX ? arena_array(a, s.n + 1, 1) : NULL;

	if (!p)
		return STR_NONE;
	if (s.n)
		memcpy(p, s.p, s.n);
	return (struct str){ p, s.n };
}
