/* policy/arena.h - memory that is given back all at once: a policy's own, and what only its loading needs.
 * Owns its blocks. A failed allocation sets .failed and stays failed: the loader looks once, at the end. */
#ifndef PAWL_ARENA_H
#define PAWL_ARENA_H
#include "pawl/types.h"

struct arena_block; /* opaque */
struct arena {
	struct arena_block *head;
	bool failed;
};

void arena_done(struct arena *a); /* accepts a zeroed arena */
/* Zeroed, aligned for any type; NULL when memory is short or n * size overflows. n * size 0 gives a valid pointer. */
void *arena_array(struct arena *a, size_t n, size_t size);
/* A NUL-terminated copy; STR_NONE when memory is short. */
struct str arena_text(struct arena *a, struct str s);

#endif
