/* daemon/pending.h - entries on their way to the disk: copies that borrow nothing, so that neither a request, a policy nor the judge's state
 * has to live as long as the sync takes. */
#ifndef PAWL_PENDING_H
#define PAWL_PENDING_H
#include "pawl/entry.h"

struct pending {
	struct pending *next;
	void *cookie;	/* whose answer it is; NULL = nobody waits */
	bool waits;	/* no entry of its own: answered again with entry `seq` once that is durable */
	bool shows;	/* no entry at all: an answer that shows the state, ready to leave when what it shows is durable */
	uint64_t seq;
	struct entry e; /* all text lies behind the struct */
};
/* NULL when there is no memory. free() ends it. */
struct pending *pending_entry(const struct entry *e, void *cookie);
struct pending *pending_wait(uint64_t seq, void *cookie);
struct pending *pending_shown(void *cookie);

struct pending_queue {
	struct pending *head, **tail;
	size_t n, waits; /* how many, and how many of them have no entry of their own */
};
void pending_queue_init(struct pending_queue *q);
void pending_queue_push(struct pending_queue *q, struct pending *p);
struct pending *pending_queue_pop(struct pending_queue *q); /* NULL when empty */
#endif
