/* daemon/review.h - questions waiting for people, as far as they are not state: who waits for an answer, and the arguments that a card shows.
 * Both can be lost: waiters ask again, arguments come back from the private store. Must not touch sockets, SQL or policy. */
#ifndef PAWL_REVIEW_H
#define PAWL_REVIEW_H
#include "daemon/pending.h"
#include "pawl/state.h"

struct waiter { /* an answer that is held back */
	struct waiter *next;
	uint64_t card;
	int64_t until; /* answered as it is then */
	void *cookie;
	struct pending *held; /* decide: a copy of the review's own entry, owned; NULL: review.wait */
	char *note;	      /* decide: its signed note, owned */
	size_t note_n;
};

#define REVIEWS_MAX_BYTES ((size_t)64 << 20) /* arguments that are held for people, all cards together */

struct reviews; /* opaque */
PAWL_MUST_USE int reviews_new(struct reviews **ret, struct pawl_error *err);
void reviews_free(struct reviews *rv);

bool reviews_needs(const struct state *st, uint64_t card); /* its arguments may still be shown, or judged again */
/* Arguments of a card, cut to PAWL_MAX_VALUE; a second call for the same card replaces. */
PAWL_MUST_USE int reviews_args_put(struct reviews *rv, uint64_t card, struct str args, struct pawl_error *err);
struct str reviews_args(const struct reviews *rv, uint64_t card); /* STR_NONE: not known (any more); borrowed until the next put or sweep */
/* Drops the arguments of up to max cards that can be neither shown nor claimed any more, and says which: as many as it returns. */
size_t reviews_sweep(struct reviews *rv, const struct state *st, uint64_t *ret_gone, size_t max);

/* Owns w from here on. */
void reviews_wait(struct reviews *rv, struct waiter *w);
/* Takes out, oldest first, one waiter of this card (0: of any) that is due: its card is no longer pending, or its time is over. NULL: none. */
struct waiter *reviews_due(struct reviews *rv, const struct state *st, int64_t now);
int64_t reviews_next(const struct reviews *rv); /* earliest `until`; INT64_MAX */
size_t reviews_waiting(const struct reviews *rv);
struct waiter *reviews_pop(struct reviews *rv); /* any: at the end */
void waiter_free(struct waiter *w);
#endif
