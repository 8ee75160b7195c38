/* daemon/store/projection_int.h - the connection, its statements, and how rows are put; for daemon/store/projection*.c alone. */
#ifndef PAWL_PROJECTION_INT_H
#define PAWL_PROJECTION_INT_H
#include "daemon/base/buf.h"
#include "daemon/store/projection.h"

struct sqlite3;
struct sqlite3_stmt;

#define PROJECTION_ID	  0x7061776a /* "pawj", the header's application_id */
#define PROJECTION_SCHEMA 3	     /* its user_version */

#define PROJECTION_STATEMENTS(X)                                                                                                       \
	X(APPLIED) X(RUN) X(RUN_STOP) X(POLICY) X(BUDGETS_CLEAR) X(BUDGET) X(SESSION) X(END_CALLS) X(END_REVIEWS) X(END_BREAKERS)      \
	X(END_LEDGERS) X(END_SESSIONS) X(DECISION) X(DENIAL) X(REVIEW) X(REVIEW_JOIN) X(REVIEW_SPEND) X(REVIEW_END) X(REVIEW_ANSWER) X(REVIEW_TIMEOUT) \
	X(REVIEW_WAITER) X(SETTLEMENT) X(CALL_SETTLE) X(CALL_LATE) X(CALL_EXPIRE) X(ANSWER) X(GRANT) X(BREAKER) X(BREAKER_DROP)        \
	X(END_WOULD_DENIALS) X(END_WOULD_BREAKERS)                                                                                     \
	X(THROTTLE) X(LOSS) X(WATCH) X(LEDGER) X(LEDGERS_CLEAR) X(SNAPSHOT_TRIM) X(SNAPSHOT_TRIM_PARTS) X(SNAPSHOT) X(SNAPSHOT_PART) \
	X(SNAPSHOT_LOGGED)
enum projection_sql {
#define X(name) SQL_##name,
	PROJECTION_STATEMENTS(X)
#undef X
	SQL_COUNT
};
extern const char *const projection_sql[SQL_COUNT];
extern const char projection_schema[];
extern const char *const projection_units[UNIT_COUNT];

#define PROJECTION_PATH 4096
#define PROJECTION_NEW "-new" /* behind the path: one that is being built */

/* Ledgers whose numbers must be read from the state at the next commit. */
#define MARK_TEXT (2 * PAWL_MAX_ID + PAWL_MAX_TOOL)
#define MAX_MARKS 1024u
struct mark {
	struct ledger_key key; /* its texts are in text */
	char text[MARK_TEXT];
};
struct marks {
	bool all; /* more than fit, or nobody knows which */
	uint32_t n, n_expired;
	uint32_t slot[2 * MAX_MARKS]; /* 1 + its place in rows */
	struct mark rows[MAX_MARKS];
	uint64_t expired[MAX_MARKS]; /* calls that nobody reported: what they held was charged */
};

struct snapshot_in { /* one that is being written */
	bool open;
	uint64_t at, bytes;
	uint32_t parts;
	size_t n;	/* in part */
	uint8_t *part; /* PROJECTION_PART bytes */
};

struct projection {
	struct sqlite3 *db;
	struct sqlite3_stmt *st[SQL_COUNT];
	int lock; /* descriptor of PATH-lock, -1 = none */
	bool begun, build; /* build: what is open is PATH-new */
	uint64_t applied, next; /* next: with what the open transaction has taken */
	uint64_t wal_pages;
	struct marks *marks;
	struct snapshot_in in;
	struct buf text; /* JSON of the row that is being put */
	char file[128];	 /* for messages; may be cut */
	char path[PROJECTION_PATH];
};

/* ---- projection.c ---- */
int projection_fail(const struct projection *p, int rc, const char *what, struct pawl_error *err);
int projection_connect(struct projection *p, const char *path, int flags, struct pawl_error *err);
int projection_run(struct projection *p, const char *sql, const char *what, struct pawl_error *err);
int projection_fill(struct projection *p, struct pawl_error *err);    /* the schema, into an empty file */
int projection_statements(struct projection *p, struct pawl_error *err);
void projection_disconnect(struct projection *p);
int projection_open_with(int (*how)(struct projection *, const char *, struct pawl_error *), const char *path, struct projection **ret,
			 struct pawl_error *err);
int projection_ask(struct projection *p, const char *sql, int64_t *ret, struct pawl_error *err); /* the one number that sql asks for */
int projection_begun(const struct projection *p, struct pawl_error *err); /* 0: a transaction is open, and SQLite thinks so too */

/* ---- projection_file.c ---- */
int projection_path(const char *path, const char *suffix, char out[static PROJECTION_PATH], struct pawl_error *err);
int projection_unlink(const char *path, struct pawl_error *err); /* with what SQLite keeps beside it; the lock is held */
int projection_lock(const char *path, int *ret, struct pawl_error *err);
int projection_prepare(const char *path, struct pawl_error *err); /* the file is there, and ours */
int projection_is_ours(struct projection *p, bool *ret_fresh, struct pawl_error *err); /* fresh: an empty file, to be filled */

/* ---- a row: begin, its values in order, end. The first failure is what end() reports. ---- */
struct put {
	struct projection *p;
	struct sqlite3_stmt *st;
	int at, rc;
};
struct put put_begin(struct projection *p, enum projection_sql what);
void put_int(struct put *u, int64_t v);
void put_null(struct put *u);
void put_opt(struct put *u, bool has, int64_t v); /* NULL without */
void put_u64(struct put *u, uint64_t v);
void put_id(struct put *u, uint64_t id);	  /* 0: NULL */
void put_text(struct put *u, struct str s);	  /* absent: '' */
void put_str(struct put *u, struct str s);	  /* absent or empty: NULL */
void put_word(struct put *u, const char *z);	  /* NULL: NULL; borrowed until end */
void put_blob(struct put *u, const void *bytes, size_t n);
void put_json(struct put *u, const struct buf *b);
int put_end(struct put *u, struct pawl_error *err);
/* The same for a statement that returns rows of one number each. */
int put_each(struct put *u, void (*each)(struct projection *p, uint64_t v), struct pawl_error *err);

/* ---- projection_call.c ---- */
int rows_of_decision(struct projection *p, const struct entry *e, struct pawl_error *err);
int rows_of_settle(struct projection *p, const struct entry *e, const struct entry_settle *s, bool late, struct pawl_error *err);
int rows_of_timeout(struct projection *p, const struct entry *e, struct pawl_error *err);

/* ---- projection_ledger.c ---- */
void mark_ledger(struct projection *p, const struct ledger_key *key);
void mark_expired(struct projection *p, uint64_t decision);
int ledgers_write(struct projection *p, const struct state *st, struct pawl_error *err);
void marks_clear(struct marks *m, bool all);
#endif
