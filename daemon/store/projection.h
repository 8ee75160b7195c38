/* daemon/store/projection.h - the SQLite projection (projection.sqlite in the state folder): what the log says as tables for people's
 * queries, and the bytes of signed snapshots. Never believed: deleting it loses nothing, editing it changes nothing. All that comes back out
 * of it is input: lengths, types, order and gaps are checked here, whether it is genuine is checked by who holds the signed entry.
 *
 * WAL with synchronous=NORMAL: a power cut may take the newest transactions, `applied` with them, and the log gives them again; it leaves no
 * file that contradicts itself. Readers (the sqlite3 shell, beside a running pawld) stop nobody and are stopped by nobody. A reader that stays
 * in one transaction keeps the WAL from starting over: above PROJECTION_WAL_MAX projection_begin() is PAWL_E_BUSY until it has gone, and the
 * rows fall behind the log meanwhile. So the WAL is never longer than that and one transaction.
 *
 * One connection, one thread at a time. One writing process, by a lock on PATH-lock. docs/store.md lists the tables. */
#ifndef PAWL_PROJECTION_H
#define PAWL_PROJECTION_H
#include "pawl/state.h"

#define PROJECTION_PART (1u << 20)	     /* a snapshot is kept in rows of so many bytes; the last may be shorter */
#define PROJECTION_MAX_PARTS 8192u	     /* 8 GiB */
#define PROJECTION_WAL_MAX (64u << 20)

struct projection;

/* Makes the file (0600) or takes one that is ours. PAWL_E_MALFORMED: damaged, another application's, or of another schema; then
 * projection_remove() and open again. PAWL_E_BUSY: another process has it open for writing. PAWL_E_UNSAFE: owner, mode or kind of file. */
PAWL_MUST_USE int projection_open(const char *path, struct projection **ret, struct pawl_error *err);
/* To look at, beside a writer: never makes the file (PAWL_E_INCOMPLETE: there is none) and takes no lock. */
PAWL_MUST_USE int projection_open_readonly(const char *path, struct projection **ret, struct pawl_error *err);
void projection_close(struct projection *p); /* accepts NULL; rolls back what was not committed */
/* The file and what SQLite keeps beside it; 0 when there is none. PAWL_E_BUSY: another process has it open for writing. */
PAWL_MUST_USE int projection_remove(const char *path, struct pawl_error *err);

/* The rows cover the entries below this. Unverified, as everything here: a number beyond the log's end means that the log was rolled back or
 * that somebody edited this. */
uint64_t projection_applied(const struct projection *p);

/* ---- rows: begin, each entry in order from projection_applied() on, commit ---- */

/* PAWL_E_MALFORMED, among others: the name leads to another file by now, or to none. */
PAWL_MUST_USE int projection_begin(struct projection *p, struct pawl_error *err);
/* PAWL_E_CONFLICT when e is not the next one. After any failure nothing but projection_rollback() helps. */
PAWL_MUST_USE int projection_entry(struct projection *p, const struct entry *e, struct pawl_error *err);
/* st: the state right after the newest entry that was given, or NULL when the caller has none yet (it is catching up with its state). With
 * it, the rows of the ledgers that the entries touched are set to its numbers; after an open, a rollback or a commit without it, those of
 * all. The table holds the ledgers of live sessions and those of no session. */
PAWL_MUST_USE int projection_commit(struct projection *p, const struct state *st, struct pawl_error *err);
void projection_rollback(struct projection *p); /* also when nothing was begun */

/* ---- snapshots, inside a transaction ---- */

/* Drops all but the newest one that has its entry, and an older one of the same `at`: so two are kept, and one of them is vouched for
 * whatever becomes of this one. Bytes come in any pieces. sha256 is kept as it is given. */
PAWL_MUST_USE int projection_snapshot_begin(struct projection *p, uint64_t at, struct pawl_error *err);
PAWL_MUST_USE int projection_snapshot_add(struct projection *p, const void *bytes, size_t n, struct pawl_error *err);
PAWL_MUST_USE int projection_snapshot_end(struct projection *p, const uint8_t sha256[static 32], struct pawl_error *err);
/* The log entry that vouches for it. PAWL_E_LIMIT: there is no snapshot of that number. */
PAWL_MUST_USE int projection_snapshot_logged(struct projection *p, uint64_t at, uint64_t entry, struct pawl_error *err);

struct projection_snapshot { /* unverified */
	uint64_t at;	/* the state before this entry: it covers those below */
	uint64_t entry; /* the log entry that states its hash; 0: none was noted */
	uint64_t bytes;
	uint8_t sha256[32];
};
/* Newest first, up to max. A row that is none, or more rows than are ever kept: PAWL_E_MALFORMED. */
PAWL_MUST_USE int projection_snapshots(struct projection *p, struct projection_snapshot *out, size_t max, size_t *ret_n, struct pawl_error *err);
/* The bytes in order, in pieces of at most PROJECTION_PART; exactly s->bytes of them, or PAWL_E_MALFORMED. A negative return of the visitor
 * stops and is handed back. */
typedef int projection_visit(void *arg, const void *bytes, size_t n, struct pawl_error *err);
PAWL_MUST_USE int projection_snapshot_read(struct projection *p, const struct projection_snapshot *s, projection_visit *visit, void *arg,
					   struct pawl_error *err);

/* The same, pulled; *ret_n 0 is the end. A reader is closed before the projection is. */
struct projection_reader;
PAWL_MUST_USE int projection_reader_open(struct projection *p, const struct projection_snapshot *s, struct projection_reader **ret,
					 struct pawl_error *err);
PAWL_MUST_USE int projection_reader_read(struct projection_reader *r, void *out, size_t max, size_t *ret_n, struct pawl_error *err);
void projection_reader_close(struct projection_reader *r); /* accepts NULL */

/* ---- all of it anew, offline ---- */

/* A new one under another name beside path (PATH-new), while path's lock is held: rows are put as above. Nothing is synced before the end.
 * projection_close() without projection_install() drops it, and path is as it was; so does a crash. */
PAWL_MUST_USE int projection_build(const char *path, struct projection **ret, struct pawl_error *err);
/* Takes its place in one step, durable on 0. p is gone in any case. PAWL_E_BUSY: somebody has the old file open, such as a sqlite3 shell. */
PAWL_MUST_USE int projection_install(struct projection *p, struct pawl_error *err);

/* ---- for tests, and for people ---- */

/* The i-th table of rows, NULL at the end; and how many it has. */
const char *projection_table(size_t i);
PAWL_MUST_USE int projection_rows(struct projection *p, size_t table, uint64_t *ret, struct pawl_error *err);

/* At most so many pages (of 4 KiB) in the file; beyond it a write is PAWL_E_FULL. Tests see a full disk by it. */
PAWL_MUST_USE int projection_limit(struct projection *p, int64_t pages, struct pawl_error *err);
uint64_t projection_wal_bytes(const struct projection *p); /* as of the newest commit */
#endif
