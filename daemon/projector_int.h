/* daemon/projector_int.h - the inside of struct projector, for daemon/projector*.c alone: projector.c has the thread, the state and the loop's side,
 * projector_rows.c SQLite's rows and the snapshots. */
#ifndef PAWL_PROJECTOR_INT_H
#define PAWL_PROJECTOR_INT_H
#include "daemon/projector.h"

#include "daemon/log/chain.h"
#include "daemon/log/entry.h"
#include "daemon/store/projection.h"

#include <pthread.h>

#define SLICE 1000u /* entries read from the journal before the queue is looked at again */

struct projector {
	struct journal *journal;
	char *path; /* NULL: none */
	char origin[PAWL_MAX_ORIGIN + 1];
	uint64_t every;
	size_t max_queue;
	int event;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	/* under lock: */
	struct pending_queue in;
	uint64_t durable; /* one past the newest entry pushed */
	bool stop, finish, has_stored;
	struct entry_snapshot stored;
	struct pawl_error damage;
	struct projector_status said;
	pthread_mutex_t state_lock;
	struct state *st; /* written by the thread alone, under state_lock */
	/* the thread's: */
	uint64_t next; /* state_next_seq(st) */
	struct projection *db;
	bool in_tx, retry, remake;
	bool pressed;	       /* so many entries come that their rows wait: judge and committer need the processors */
	int64_t calm_at_ms;    /* when that is over, if no more of it comes */
	int64_t slice_ms;      /* when some of what waits was done last */
	int64_t tx_since_ms, retry_at_ms; /* CLOCK_MONOTONIC */
	uint32_t tx_n;	       /* rows of entries in the transaction */
	uint64_t rows;	       /* as far as SQLite's rows go, with those of the transaction */
	uint64_t last_at;      /* of the newest snapshot stored or given up */
	uint64_t last_bytes;
	uint64_t read, unread; /* the old part: entries below `read` are checked */
	struct chain old;
	uint8_t chain[32];
};

/* ---- projector.c ---- */
void projector_ring(const struct projector *pj);
int projector_parse(uint64_t seq, struct str note, struct entry_parsed *ret, struct pawl_error *err);

/* ---- projector_rows.c: the thread alone; a failure is told, and tried again later ---- */
void rows_open(struct projector *pj);
void rows_put(struct projector *pj, const struct entry *e); /* the entry that was applied just now; rows that have fallen behind leave it */
void rows_commit(struct projector *pj);
bool rows_due(const struct projector *pj); /* the transaction is large or old enough */
#define COMMIT_MS 100
#define RETRY_MS  5000 /* a file that cannot be written is tried again */
int64_t projector_ms(void);
void rows_catch_up(struct projector *pj); /* a slice of those that were missed */
static inline bool rows_behind(const struct projector *pj)
{
	return pj->db && pj->rows < pj->next;
}
bool snapshot_due(const struct projector *pj);
void snapshot_store(struct projector *pj);
void snapshot_logged(struct projector *pj, const struct entry *e);
void snapshots_forget(struct projector *pj); /* the next start is to read it all, and to see for itself */
#endif
