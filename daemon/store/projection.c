/* daemon/store/projection.c - see projection.h: the connection and its transactions. Owns all of struct projection; rows are
 * put by projection_entry.c, projection_call.c and projection_ledger.c, snapshots by projection_snapshot.c.
 * projection_file.c says whether a file is ours before anything is written to it. */
#include "daemon/store/projection_int.h"

#include "daemon/store/beside.h"

#include <sqlite3.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS		 100
#define PAGE		 4096u
#define CHECKPOINT_PAGES 1024u
#define MAX_VALUE	 (2 * (int)PROJECTION_PART) /* a longer one in the file is none of ours */
#define STR_(x)		 #x
#define STR_OF(x)	 STR_(x)

int projection_fail(const struct projection *p, int rc, const char *what, struct pawl_error *err)
{
	const char *text = p->db && sqlite3_errcode(p->db) != SQLITE_OK ? sqlite3_errmsg(p->db) : sqlite3_errstr(rc);
	enum pawl_err code = PAWL_E_SYS;

	switch (rc == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : rc & 0xff) {
	case SQLITE_NOMEM:
		code = PAWL_E_NOMEM;
		break;
	case SQLITE_FULL:
		code = PAWL_E_FULL;
		break;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		code = PAWL_E_BUSY;
		break;
	case SQLITE_RANGE:
		code = PAWL_E_LIMIT;
		break;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT: /* rows that we never put: edited */
	case SQLITE_TOOBIG:
	case SQLITE_MISMATCH:
	case SQLITE_ERROR: /* a table is gone */
	case SQLITE_SCHEMA:
		code = PAWL_E_MALFORMED;
		break;
	default:
		break;
	}
	return pawl_fail(err, code, "projection %s: %s: %s", p->file, what, text);
}

int projection_run(struct projection *p, const char *sql, const char *what, struct pawl_error *err)
{
	int rc = sqlite3_exec(p->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : projection_fail(p, rc, what, err);
}

/* The one number that sql asks for. */
int projection_ask(struct projection *p, const char *sql, int64_t *ret, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(p->db, sql, -1, &st, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		r = projection_fail(p, rc, "read", err);
	else if (rc == SQLITE_DONE || sqlite3_column_type(st, 0) != SQLITE_INTEGER)
		r = pawl_fail(err, PAWL_E_MALFORMED, "projection %s: no number where one is due", p->file);
	else
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return r;
}

/* ---- opening ---- */

int projection_connect(struct projection *p, const char *path, int flags, struct pawl_error *err)
{
	int rc, r = beside_check(path, err);

	if (r < 0)
		return r;
	rc = sqlite3_open_v2(path, &p->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
	if (rc != SQLITE_OK)
		return projection_fail(p, rc, "open", err);
	(void)sqlite3_extended_result_codes(p->db, 1);
	(void)sqlite3_busy_timeout(p->db, BUSY_MS);
	(void)sqlite3_limit(p->db, SQLITE_LIMIT_LENGTH, MAX_VALUE);
	(void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(p->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	return projection_run(p, "PRAGMA trusted_schema=OFF;PRAGMA cell_size_check=ON;PRAGMA temp_store=MEMORY", "set-up", err);
}

static int wal_grew(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct projection *p = arg;

	(void)db;
	(void)name;
	p->wal_pages = pages > 0 ? (uint64_t)pages : 0;
	return SQLITE_OK;
}

/* journal_mode answers with the mode that is in force, whatever was asked for. */
static int use_wal(struct projection *p, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(p->db, "PRAGMA journal_mode=WAL", -1, &st, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc != SQLITE_ROW)
		r = projection_fail(p, rc, "WAL", err);
	else if (!str_is(str_of((const char *)sqlite3_column_text(st, 0)), "wal"))
		r = pawl_fail(err, PAWL_E_SYS, "projection %s: there can be no WAL here", p->file);
	(void)sqlite3_finalize(st);
	if (r == 0)
		r = projection_run(p, "PRAGMA synchronous=NORMAL;PRAGMA wal_autocheckpoint=0;PRAGMA journal_size_limit=16777216;PRAGMA cache_size=-8192", "set-up",
			err);
	(void)sqlite3_wal_hook(p->db, wal_grew, p);
	return r;
}

int projection_fill(struct projection *p, struct pawl_error *err)
{
	int r = projection_run(p, "BEGIN IMMEDIATE", "set-up", err);

	if (r == 0)
		r = projection_run(p, projection_schema, "set-up", err);
	if (r == 0)
		r = projection_run(p, "PRAGMA application_id=" STR_OF(PROJECTION_ID) ";PRAGMA user_version=" STR_OF(PROJECTION_SCHEMA) ";COMMIT", "set-up", err);
	return r;
}

static int read_applied(struct projection *p, struct pawl_error *err)
{
	int64_t applied = 0;
	int r = projection_ask(p, "SELECT applied FROM projection WHERE id=1", &applied, err);

	if (r == 0 && applied < 0)
		r = pawl_fail(err, PAWL_E_MALFORMED, "projection %s: no number of entries can be below 0", p->file);
	if (r == 0)
		p->applied = p->next = (uint64_t)applied;
	return r;
}

int projection_statements(struct projection *p, struct pawl_error *err)
{
	for (size_t i = 0; i < SQL_COUNT; i++) {
		int rc = sqlite3_prepare_v3(p->db, projection_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &p->st[i], NULL);

		if (rc != SQLITE_OK)
			return projection_fail(p, rc, "set-up", err);
	}
	return 0;
}

static int object_new(const char *path, struct projection **ret, struct pawl_error *err)
{
	struct projection *p = calloc(1, sizeof(*p));
	struct marks *marks = calloc(1, sizeof(*marks));

	if (!p || !marks) {
		free(p);
		free(marks);
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the projection");
	}
	p->marks = marks;
	p->lock = -1;
	buf_init(&p->text, 1u << 20);
	(void)snprintf(p->file, sizeof(p->file), "%s", path);
	(void)snprintf(p->path, sizeof(p->path), "%s", path); /* one that is cut is refused by the lock */
	marks->all = true;
	*ret = p;
	return 0;
}

static int open_writer(struct projection *p, const char *path, struct pawl_error *err)
{
	bool fresh = false;
	int r = projection_lock(path, &p->lock, err);

	if (r == 0)
		r = projection_prepare(path, err);
	if (r == 0)
		r = projection_connect(p, path, SQLITE_OPEN_READWRITE, err);
	if (r == 0)
		r = projection_is_ours(p, &fresh, err);
	if (r == 0)
		r = use_wal(p, err);
	if (r == 0 && fresh)
		r = projection_fill(p, err);
	if (r == 0)
		r = read_applied(p, err);
	return r < 0 ? r : projection_statements(p, err);
}

static int open_reader(struct projection *p, const char *path, struct pawl_error *err)
{
	bool fresh = false;
	struct stat st;
	int r;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? pawl_fail(err, PAWL_E_INCOMPLETE, "there is no projection %s", path) : pawl_fail_errno(err, "projection %s", path);
	if (!S_ISREG(st.st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "projection %s: not a regular file", path);
	r = projection_connect(p, path, SQLITE_OPEN_READONLY, err);
	if (r == 0)
		r = projection_is_ours(p, &fresh, err);
	if (r == 0 && fresh)
		r = pawl_fail(err, PAWL_E_MALFORMED, "projection %s is empty", p->file);
	return r < 0 ? r : read_applied(p, err);
}

int projection_open_with(int (*how)(struct projection *, const char *, struct pawl_error *), const char *path, struct projection **ret,
		     struct pawl_error *err)
{
	struct projection *p = NULL;
	int r = object_new(path, &p, err);

	if (r == 0)
		r = how(p, path, err);
	if (r < 0) {
		projection_close(p);
		return r;
	}
	*ret = p;
	return 0;
}

int projection_open(const char *path, struct projection **ret, struct pawl_error *err)
{
	return projection_open_with(open_writer, path, ret, err);
}

int projection_open_readonly(const char *path, struct projection **ret, struct pawl_error *err)
{
	return projection_open_with(open_reader, path, ret, err);
}

void projection_disconnect(struct projection *p)
{
	projection_rollback(p);
	for (size_t i = 0; i < SQL_COUNT; i++) {
		(void)sqlite3_finalize(p->st[i]);
		p->st[i] = NULL;
	}
	(void)sqlite3_close(p->db);
	p->db = NULL;
}

void projection_close(struct projection *p)
{
	char name[PROJECTION_PATH];

	if (!p)
		return;
	projection_disconnect(p);
	if (p->build && projection_path(p->path, PROJECTION_NEW, name, NULL) == 0)
		(void)projection_unlink(name, NULL);
	if (p->lock >= 0)
		(void)close(p->lock);
	buf_done(&p->text);
	free(p->in.part);
	free(p->marks);
	free(p);
}

uint64_t projection_applied(const struct projection *p)
{
	return p->applied;
}

/* ---- transactions ---- */

uint64_t projection_wal_bytes(const struct projection *p)
{
	return p->wal_pages * PAGE;
}

/* Only a reader that does not end keeps the WAL this long, or a disk that takes no more. */
static int wal_shorten(struct projection *p, struct pawl_error *err)
{
	int rc = sqlite3_wal_checkpoint_v2(p->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

	if (rc == SQLITE_BUSY)
		return pawl_fail(err, PAWL_E_BUSY, "projection %s: its WAL has %llu MiB, and somebody who reads keeps it from starting over", p->file,
				 (unsigned long long)(projection_wal_bytes(p) >> 20));
	if (rc != SQLITE_OK)
		return projection_fail(p, rc, "checkpoint", err);
	p->wal_pages = 0;
	return 0;
}

/* Rows for a file that has no name are rows for nobody. */
static bool has_moved(const struct projection *p)
{
	int moved = 0;

	return sqlite3_file_control(p->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

int projection_begin(struct projection *p, struct pawl_error *err)
{
	int r = 0;

	if (p->begun)
		return pawl_fail(err, PAWL_E_USAGE, "projection %s: a transaction is open already", p->file);
	if (has_moved(p))
		return pawl_fail(err, PAWL_E_MALFORMED, "projection %s: somebody deleted or replaced it while it was open", p->file);
	if (projection_wal_bytes(p) > PROJECTION_WAL_MAX)
		r = wal_shorten(p, err);
	if (r == 0)
		r = projection_run(p, "BEGIN IMMEDIATE", "begin", err);
	p->begun = r == 0;
	return r;
}

/* SQLite rolls back by itself after some failures: what came then would be written piece by piece. */
int projection_begun(const struct projection *p, struct pawl_error *err)
{
	if (!p->begun || sqlite3_get_autocommit(p->db))
		return pawl_fail(err, PAWL_E_USAGE, "projection %s: no transaction is open", p->file);
	return 0;
}

static int finish(struct projection *p, const struct state *st, struct pawl_error *err)
{
	struct put u;
	int r = projection_begun(p, err);

	if (r == 0 && p->in.open)
		r = pawl_fail(err, PAWL_E_USAGE, "projection %s: a snapshot is half written", p->file);
	if (r == 0 && st)
		r = ledgers_write(p, st, err);
	if (r < 0)
		return r;
	if (p->next != p->applied) {
		u = put_begin(p, SQL_APPLIED);
		put_u64(&u, p->next);
		r = put_end(&u, err);
	}
	return r < 0 ? r : projection_run(p, "COMMIT", "commit", err);
}

int projection_commit(struct projection *p, const struct state *st, struct pawl_error *err)
{
	struct marks *m = p->marks;
	int r = finish(p, st, err);

	if (r < 0)
		return r;
	p->begun = false;
	p->applied = p->next;
	marks_clear(m, !st && (m->all || m->n || m->n_expired));
	/* a failure here is the next begin's business: the WAL is still there, and what was committed is in it */
	if (p->wal_pages >= CHECKPOINT_PAGES)
		(void)sqlite3_wal_checkpoint_v2(p->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return 0;
}

void projection_rollback(struct projection *p)
{
	if (!p->begun)
		return;
	if (!sqlite3_get_autocommit(p->db))
		(void)sqlite3_exec(p->db, "ROLLBACK", NULL, NULL, NULL);
	p->begun = false;
	p->in.open = false;
	p->next = p->applied;
	marks_clear(p->marks, true);
}

int projection_limit(struct projection *p, int64_t pages, struct pawl_error *err)
{
	char sql[64];
	int64_t now;

	(void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld", (long long)pages);
	return projection_ask(p, sql, &now, err);
}

/* ---- for people ---- */

static const char *const tables[] = { "answer", "breaker", "budget", "budget_grant", "decision", "denial", "ledger", "loss", "policy_change",
				      "review", "run", "session", "settlement", "throttle" };

const char *projection_table(size_t i)
{
	return i < PAWL_LEN(tables) ? tables[i] : NULL;
}

int projection_rows(struct projection *p, size_t table, uint64_t *ret, struct pawl_error *err)
{
	char sql[64];
	int64_t n = 0;
	int r;

	(void)snprintf(sql, sizeof(sql), "SELECT count(*)FROM %s", tables[table]);
	r = projection_ask(p, sql, &n, err);
	if (r == 0)
		*ret = (uint64_t)n;
	return r;
}
