/* daemon/log/journal.h - the append-only journal: batch records in preallocated segments, one fdatasync a batch,
 * recovery. Bytes in, bytes out: it knows notes' lengths and sequence numbers, nothing of their meaning. One thread at
 * a time. */
#ifndef PAWL_JOURNAL_H
#define PAWL_JOURNAL_H
#include "daemon/base/buf.h"

#define JOURNAL_SEGMENT_BYTES (16u << 20)
#define JOURNAL_MAX_SEGMENT   (64u << 20) /* a larger file is none of ours */
#define JOURNAL_MAX_PAYLOAD   (32u << 20) /* a batch */
#define JOURNAL_MAX_BATCH     4096u       /* entries a batch */

struct journal;
struct journal_io {
	int64_t (*pwrite)(void *arg, int fd, const void *p, size_t n, int64_t off); /* like pwrite(2) */
	int (*fdatasync)(void *arg, int fd);
	int (*fsync)(void *arg, int fd); /* of the folder */
	int (*fallocate)(void *arg, int fd, int64_t off, int64_t len);
	void *arg;
};
struct journal_config {
	const char *dir;      /* log folder, must exist; segments are dir/journal-<first sequence, 20 digits> */
	struct str origin;    /* read_only may leave it out (STR_NONE): any one origin is taken */
	size_t segment_bytes; /* 0 = JOURNAL_SEGMENT_BYTES; tests use less */
	bool read_only;       /* pawl log verify: no lock, no cut, no preallocation */
	bool tail_only;       /* reads the newest segment alone, where a torn batch can be; journal_walk() checks the others when it comes by */
	/* Fault injection for tests: NULL = the real calls. */
	const struct journal_io *io;
};
struct journal_recovery {
	uint64_t next_seq;  /* one past the last good entry */
	uint64_t first_seq; /* of the oldest segment present */
	int64_t torn_bytes; /* > 0: a torn last batch was cut (or, read-only, seen) */
	bool live;          /* read-only: another process has the journal open for writing */
	uint8_t origin[32]; /* SHA-256 of the origin that the batches name; zeroes when there is none */
};
/* Called for each good entry in order while opening; a negative return stops and is handed back. note is borrowed. */
typedef int journal_visit(void *arg, uint64_t seq, struct str note, struct pawl_error *err);
/* Opens or makes the journal. Writers exclude one another (dir/journal.lock, PAWL_E_BUSY). A bad batch with another one
 * after it, a gap, an overlap or another origin is PAWL_E_TAMPERED. On 0 everything that was visited is durable. visit
 * may be NULL. */
PAWL_MUST_USE int journal_open(const struct journal_config *cfg, journal_visit *visit, void *arg, struct journal **ret,
			       struct journal_recovery *rec, struct pawl_error *err);
void journal_close(struct journal *j); /* accepts NULL */

/* One batch: n notes, first has sequence `first`. Durable on 0. On failure nothing of the batch is in the journal, or
 * the journal is broken until journal_repair() succeeds; either way the batch was not answered and never will be.
 * last_resort: may go into the spare segment though no new spare can be made (a full disk): stop and loss entries. */
PAWL_MUST_USE int journal_append(struct journal *j, uint64_t first, const struct str *notes, size_t n, bool last_resort,
				 struct pawl_error *err);
bool journal_broken(const struct journal *j);
/* Semantics 1: cut to the last durable byte, or, after a failed sync, copy the durable prefix to a new file. 0 at once
 * when not broken. */
PAWL_MUST_USE int journal_repair(struct journal *j, struct pawl_error *err);
/* journal_repair(), and there is room for more than endings: the spare segment exists. A full disk fails here, not at the next entry. */
PAWL_MUST_USE int journal_ready(struct journal *j, struct pawl_error *err);
/* The note with this sequence, appended to out. Safe from any thread while another appends later entries.
 * PAWL_E_LIMIT: not there. */
PAWL_MUST_USE int journal_read(struct journal *j, uint64_t seq, struct buf *out, struct pawl_error *err);
/* Visits the durable entries from `from` on and below `to`, in order; whole batches are read and checked as at opening. Safe from any thread
 * while another appends. PAWL_E_LIMIT: they are not all there. */
PAWL_MUST_USE int journal_walk(struct journal *j, uint64_t from, uint64_t to, journal_visit *visit, void *arg, struct pawl_error *err);
#endif
