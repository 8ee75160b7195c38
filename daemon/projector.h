/* daemon/projector.h - the thread that follows the log. It owns the second state, which durable entries alone advance through the same
 * state_apply(), and with it SQLite's rows for people and the snapshots that a start may go on from. Nothing it writes is ever believed: a
 * snapshot counts by its signed entry. Whatever fails here costs a later start some time, never an answer. */
#ifndef PAWL_PROJECTOR_H
#define PAWL_PROJECTOR_H
#include "daemon/log/journal.h"
#include "daemon/pending.h"
#include "pawl/state.h"

#define SNAPSHOT_EVERY 50000u /* entries */

struct projector; /* opaque */
struct projector_config {
	struct journal *journal; /* borrowed, for reading */
	struct state *state;	 /* what the entries below state_next_seq() make; the projector's once projector_new() returned 0 */
	const char *path;	 /* of projection.sqlite; NULL: neither rows nor snapshots */
	uint64_t snapshot_every; /* 0 = SNAPSHOT_EVERY */
	size_t max_queue;	 /* entries that wait, beyond which the journal is read again; 0 = 4,096 */
	uint64_t snapshot_at;	 /* where the newest one stands that the log vouches for; 0 = none */
	/* A start from a snapshot has not read the entries below it. They are read behind: their chain must end in this hash. 0: all were read. */
	uint64_t unread;
	uint8_t chain[32]; /* entry_hash() of entry unread - 1, as the next one names it */
	struct str origin; /* borrowed */
};
PAWL_MUST_USE int projector_new(const struct projector_config *cfg, struct projector **ret, struct pawl_error *err);
void projector_free(struct projector *pj); /* joins the thread, which follows what is queued first; accepts NULL */

/* ---- the loop's side ---- */

/* A durable entry, in order of sequence; owned from here on. Cannot fail: what there is no room for is read from the journal later. */
void projector_push(struct projector *pj, struct pending *p);
/* A copy of the second state, which must have followed to `next`. PAWL_E_BUSY: it has not yet. */
PAWL_MUST_USE int projector_copy(struct projector *pj, uint64_t next, struct state **ret, struct pawl_error *err);
int projector_fd(const struct projector *pj); /* readable: look at the next two */
bool projector_stored(struct projector *pj, struct entry_snapshot *ret); /* a snapshot that the log is to vouch for; once each */
bool projector_damage(struct projector *pj, struct pawl_error *ret);	 /* the old part of the log is not what it was */
/* Before the stop entry: follows to the end and stores a snapshot, unless nothing has changed since the last. Waits, at most so long. */
void projector_finish(struct projector *pj, int wait_ms);

struct projector_status {
	uint64_t rows;	      /* SQLite's rows cover the entries below */
	uint64_t snapshot_at; /* of the newest snapshot in the log; 0 = none */
	uint64_t unread;      /* entries that are still to be read behind a start from a snapshot */
	char problem[256];    /* why there are no rows; "" = all is well */
};
void projector_status(struct projector *pj, struct projector_status *ret);
#endif
