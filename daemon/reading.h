/* daemon/reading.h - the log read into a state, at start: from the newest snapshot that a signed entry vouches for, else from entry 0. Opens the
 * journal; while it reads, both doors answer `unavailable`. */
#ifndef PAWL_READING_H
#define PAWL_READING_H
#include "daemon/daemon.h"

struct reading {
	struct daemon *d;
	const struct door_calls *doors; /* NULL: --check, nobody is served */
	struct state *st;		/* what the log makes; whoever takes it sets NULL */
	uint64_t from;			/* the first entry that was applied: all below it are in the snapshot */
	uint64_t unread;		/* those below it that were not even looked at: the chain before is for the projector */
	uint8_t chain[32];		/* entry_hash() of entry from - 1, as the next one names it */
	uint8_t prev[32];		/* and of the newest entry */
	struct buf last;		/* the newest note */
	int64_t shown_ns, served_ns;
};

/* Opens d->journal, and with doors != NULL both doors behind its lock. rd needs reading_done() whatever comes of it. */
PAWL_MUST_USE int reading_open(struct reading *rd, struct daemon *d, const struct door_calls *doors, struct pawl_error *err);
/* path: of projection.sqlite; NULL: from entry 0. The chain is checked entry by entry from where it starts, and the newest signature, which covers
 * with the chain every text before it. */
PAWL_MUST_USE int reading_run(struct reading *rd, const char *path, struct pawl_error *err);
void reading_done(struct reading *rd);
#endif
