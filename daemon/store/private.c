/* daemon/store/private.c - see private.h. Owns the connection, its statements and the lock. Must not know what a secret is used
 * for.
 *
 * Rollback journal in TRUNCATE mode with synchronous=FULL: SQLite then syncs the truncation too, so that a commit that
 * was reported cannot be rolled back by a journal that a power cut brought back. secure_delete overwrites what a
 * redaction removes. One writer only: it holds flock() on the file, a second one gets PAWL_E_BUSY. Readers (private_reader) may come
 * in between its transactions, each for one row; they wait for it and it, briefly, for them. */
#include "daemon/store/private.h"

#include "daemon/store/beside.h"

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x7061776c /* "pawl" */
#define SCHEMA_VERSION 3
#define PATIENCE_MS    2000 /* a reader that is stopped in the middle of a row holds up a commit, not for ever */

#define SQL_VALUES                                                                                               \
	"CREATE TABLE value(seq INTEGER PRIMARY KEY, tree INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;"       \
	"CREATE INDEX value_tree ON value(tree);"
#define SQL_RECORDS                                                                                              \
	"CREATE TABLE record(seq INTEGER PRIMARY KEY, tree INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;"      \
	"CREATE INDEX record_tree ON record(tree);"

struct private_store {
	sqlite3 *db;
	sqlite3_stmt *put, *put_value, *put_record, *drop;
	int lock; /* the flock; -1: none. Closed last: closing any descriptor of the file ends SQLite's own locks */
	char file[128]; /* for messages; may be cut */
};

static int db_fail(const struct private_store *ps, int rc, const char *what, struct pawl_error *err)
{
	const char *text = ps->db ? sqlite3_errmsg(ps->db) : sqlite3_errstr(rc);
	enum pawl_err code = PAWL_E_SYS;

	switch (rc & 0xff) {
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
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		code = PAWL_E_MALFORMED;
		break;
	default:
		break;
	}
	return pawl_fail(err, code, "private store %s: %s: %s", ps->file, what, text);
}

static int run(struct private_store *ps, const char *sql, struct pawl_error *err)
{
	int rc = sqlite3_exec(ps->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(ps, rc, "set-up", err);
}

/* First column of the first row, as text into out. */
static int ask(struct private_store *ps, const char *sql, char out[static 64], struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(ps->db, sql, -1, &st, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		(void)snprintf(out, 64, "%s", (const char *)sqlite3_column_text(st, 0));
	else
		r = db_fail(ps, rc, "read", err);
	(void)sqlite3_finalize(st);
	return r;
}

/* Makes the file with its mode before SQLite sees it (its journals copy the mode), or refuses one that others can read.
 */
static int file_prepare(const char *path, int *ret_fd, struct pawl_error *err)
{
	struct stat st;
	int fd, r = 0;

	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return pawl_fail_errno(err, "private store %s", path);
	if (fstat(fd, &st) != 0)
		r = pawl_fail_errno(err, "private store %s", path);
	else if (!S_ISREG(st.st_mode))
		r = pawl_fail(err, PAWL_E_UNSAFE, "private store %s: not a regular file", path);
	else if ((st.st_mode & 077) || st.st_uid != geteuid())
		r = pawl_fail(err, PAWL_E_UNSAFE,
			      "private store %s: must be ours and mode 0600 or less, is uid %u, mode %04o", path,
			      (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
	else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		r = errno == EWOULDBLOCK ? pawl_fail(err, PAWL_E_BUSY, "private store %s: another pawld uses it", path)
					 : pawl_fail_errno(err, "private store %s", path);
	if (r < 0)
		(void)close(fd);
	else
		*ret_fd = fd;
	return r;
}

static int folder_sync(const char *path, struct pawl_error *err)
{
	char dir[4096];
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	int fd, r = 0;

	if (n >= sizeof(dir))
		return pawl_fail(err, PAWL_E_LIMIT, "private store: the path is too long");
	memcpy(dir, path, n);
	dir[n] = '\0';
	fd = open(n ? dir : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) != 0)
		r = pawl_fail_errno(err, "folder of the private store %s", path);
	if (fd >= 0)
		(void)close(fd);
	return r;
}

static int schema(struct private_store *ps, struct pawl_error *err)
{
	char id[64], version[64], check[64];
	int r = ask(ps, "PRAGMA application_id", id, err);

	if (r == 0)
		r = ask(ps, "PRAGMA user_version", version, err);
	if (r == 0)
		r = ask(ps, "PRAGMA quick_check(1)", check, err);
	if (r < 0)
		return r;
	if (strcmp(check, "ok") != 0)
		return pawl_fail(err, PAWL_E_MALFORMED, "private store %s is damaged: %s", ps->file, check);
	if (strcmp(id, "0") == 0 && strcmp(version, "0") == 0)
		return run(
		    ps,
		    "BEGIN IMMEDIATE;"
		    "CREATE TABLE tree(id INTEGER PRIMARY KEY, secret BLOB NOT NULL CHECK(length(secret)=32)) STRICT;" SQL_VALUES SQL_RECORDS
		    "PRAGMA application_id=0x7061776c; PRAGMA user_version=3; COMMIT",
		    err);
	if (strtol(id, NULL, 10) == APPLICATION_ID && strtol(version, NULL, 10) == 1) /* secrets alone */
		return run(ps, "BEGIN IMMEDIATE;" SQL_VALUES SQL_RECORDS "PRAGMA user_version=3; COMMIT", err);
	if (strtol(id, NULL, 10) == APPLICATION_ID && strtol(version, NULL, 10) == 2) /* secrets and cards */
		return run(ps, "BEGIN IMMEDIATE;" SQL_RECORDS "PRAGMA user_version=3; COMMIT", err);
	if (strtol(id, NULL, 10) != APPLICATION_ID || strtol(version, NULL, 10) != SCHEMA_VERSION)
		return pawl_fail(err, PAWL_E_MALFORMED,
				 "private store %s: not a store of this version (id %s, version %s)", ps->file, id,
				 version);
	return 0;
}

static int db_open(struct private_store *ps, const char *path, struct pawl_error *err)
{
	int rc, r = beside_check(path, err);

	if (r < 0)
		return r;
	rc = sqlite3_open_v2(path, &ps->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
	if (rc != SQLITE_OK)
		return db_fail(ps, rc, "open", err);
	(void)sqlite3_extended_result_codes(ps->db, 1);
	(void)sqlite3_busy_timeout(ps->db, PATIENCE_MS);
	r = run(
	    ps,
	    "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL; PRAGMA "
	    "secure_delete=ON;"
	    "PRAGMA trusted_schema=OFF; PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON; BEGIN EXCLUSIVE; COMMIT",
	    err);
	if (r == 0)
		r = schema(ps, err);
	if (r == 0)
		r = run(ps, "CREATE TABLE IF NOT EXISTS mark(id INTEGER PRIMARY KEY CHECK(id=1), entries INTEGER NOT NULL) STRICT", err);
	if (r < 0)
		return r;
	rc = sqlite3_prepare_v3(ps->db, "INSERT OR REPLACE INTO tree(id, secret) VALUES(?1, ?2)", -1,
				SQLITE_PREPARE_PERSISTENT, &ps->put, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v3(ps->db, "INSERT OR REPLACE INTO value(seq, tree, bytes) VALUES(?1, ?2, ?3)", -1,
					SQLITE_PREPARE_PERSISTENT, &ps->put_value, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v3(ps->db, "INSERT OR REPLACE INTO record(seq, tree, bytes) VALUES(?1, ?2, ?3)", -1,
					SQLITE_PREPARE_PERSISTENT, &ps->put_record, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v3(ps->db, "DELETE FROM value WHERE seq = ?1", -1, SQLITE_PREPARE_PERSISTENT, &ps->drop, NULL);
	return rc == SQLITE_OK ? 0 : db_fail(ps, rc, "set-up", err);
}

int private_open(const char *path, struct private_store **ret, struct pawl_error *err)
{
	struct private_store *ps;
	int fd = -1, r = file_prepare(path, &fd, err);

	if (r < 0)
		return r;
	ps = calloc(1, sizeof(*ps));
	if (!ps) {
		(void)close(fd);
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the private store");
	}
	ps->lock = fd;
	(void)snprintf(ps->file, sizeof(ps->file), "%s", path);
	r = db_open(ps, path, err);
	if (r == 0)
		r = folder_sync(path, err);
	if (r < 0) {
		private_close(ps);
		return r;
	}
	*ret = ps;
	return 0;
}

void private_close(struct private_store *ps)
{
	if (!ps)
		return;
	(void)sqlite3_finalize(ps->put);
	(void)sqlite3_finalize(ps->put_value);
	(void)sqlite3_finalize(ps->put_record);
	(void)sqlite3_finalize(ps->drop);
	(void)sqlite3_close(ps->db);
	(void)close(ps->lock);
	free(ps);
}

static int put_one(struct private_store *ps, const struct private_row *row)
{
	sqlite3_stmt *put = !row->seq ? ps->put : row->record ? ps->put_record : ps->put_value;
	int rc, reset;

	if (row->tree > INT64_MAX || row->seq > INT64_MAX || row->value.n > PAWL_MAX_VALUE)
		return SQLITE_RANGE;
	rc = sqlite3_bind_int64(put, 1, (sqlite3_int64)(row->seq ? row->seq : row->tree));
	if (rc == SQLITE_OK && row->seq)
		rc = sqlite3_bind_int64(put, 2, (sqlite3_int64)row->tree);
	if (rc == SQLITE_OK && row->seq)
		rc = sqlite3_bind_blob(put, 3, row->value.p ? row->value.p : "", (int)row->value.n, SQLITE_STATIC);
	if (rc == SQLITE_OK && !row->seq)
		rc = sqlite3_bind_blob(put, 2, row->secret, (int)sizeof(row->secret), SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(put);
	reset = sqlite3_reset(put);
	(void)sqlite3_clear_bindings(put);
	return rc == SQLITE_DONE ? reset : rc;
}

/* Ends what was begun; the error that counts was filled in before. */
static void roll_back(struct private_store *ps)
{
	if (!sqlite3_get_autocommit(ps->db))
		(void)sqlite3_exec(ps->db, "ROLLBACK", NULL, NULL, NULL);
}

int private_put(void *store, const struct private_row *rows, size_t n, struct pawl_error *err)
{
	struct private_store *ps = store;
	int rc = sqlite3_exec(ps->db, "BEGIN IMMEDIATE", NULL, NULL, NULL), r = 0;

	for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
		rc = put_one(ps, &rows[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(ps->db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK) {
		r = db_fail(ps, rc, "write", err);
		roll_back(ps);
	}
	return r;
}

static int drop_one(struct private_store *ps, uint64_t seq)
{
	int rc, reset;

	if (seq > INT64_MAX)
		return SQLITE_OK; /* no row lies there */
	rc = sqlite3_bind_int64(ps->drop, 1, (sqlite3_int64)seq);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(ps->drop);
	reset = sqlite3_reset(ps->drop);
	return rc == SQLITE_DONE ? reset : rc;
}

int private_drop(void *store, const uint64_t *seqs, size_t n, struct pawl_error *err)
{
	struct private_store *ps = store;
	int rc = sqlite3_exec(ps->db, "BEGIN IMMEDIATE", NULL, NULL, NULL), r = 0;

	for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
		rc = drop_one(ps, seqs[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(ps->db, "COMMIT", NULL, NULL, NULL);
	if (rc != SQLITE_OK) {
		r = db_fail(ps, rc, "delete", err);
		roll_back(ps);
	}
	return r;
}

int private_each(struct private_store *ps, private_visit *visit, void *arg, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	struct private_row row = { .tree = 0 };
	int rc = sqlite3_prepare_v2(ps->db, "SELECT id, secret FROM tree ORDER BY id", -1, &st, NULL), r = 0;

	while (r == 0 && rc == SQLITE_OK) {
		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		if (sqlite3_column_int64(st, 0) < 0 || sqlite3_column_bytes(st, 1) != (int)sizeof(row.secret)) {
			r = pawl_fail(err, PAWL_E_MALFORMED, "private store %s: a row is not a tree's secret",
				      ps->file);
			break;
		}
		row.tree = (uint64_t)sqlite3_column_int64(st, 0);
		memcpy(row.secret, sqlite3_column_blob(st, 1), sizeof(row.secret));
		r = visit(arg, &row, err);
		explicit_bzero(&row, sizeof(row));
		rc = SQLITE_OK;
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(ps, rc, "read", err);
	(void)sqlite3_finalize(st);
	return r;
}

int private_values(struct private_store *ps, private_visit *visit, void *arg, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(ps->db, "SELECT seq, tree, bytes FROM value ORDER BY seq", -1, &st, NULL), r = 0;

	while (r == 0 && rc == SQLITE_OK) {
		struct private_row row = { .tree = 0 };

		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		if (sqlite3_column_int64(st, 0) <= 0 || sqlite3_column_int64(st, 1) <= 0 || sqlite3_column_bytes(st, 2) > (int)PAWL_MAX_VALUE) {
			r = pawl_fail(err, PAWL_E_MALFORMED, "private store %s: a row is not a value", ps->file);
			break;
		}
		row.seq = (uint64_t)sqlite3_column_int64(st, 0);
		row.tree = (uint64_t)sqlite3_column_int64(st, 1);
		row.value = (struct str){ sqlite3_column_blob(st, 2), (size_t)sqlite3_column_bytes(st, 2) };
		r = visit(arg, &row, err);
		rc = SQLITE_OK;
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = db_fail(ps, rc, "read", err);
	(void)sqlite3_finalize(st);
	return r;
}

static int trim(struct private_store *ps, const char *sql, uint64_t next_seq, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(ps->db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(st, 1, (sqlite3_int64)next_seq);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	(void)sqlite3_finalize(st);
	return rc == SQLITE_DONE ? 0 : db_fail(ps, rc, "trim", err);
}

int private_trim(struct private_store *ps, uint64_t next_seq, struct pawl_error *err)
{
	int r;

	if (next_seq > INT64_MAX)
		return 0; /* no row lies there */
	r = trim(ps, "DELETE FROM tree WHERE id >= ?1", next_seq, err);
	if (r == 0)
		r = trim(ps, "DELETE FROM value WHERE seq >= ?1", next_seq, err);
	return r < 0 ? r : trim(ps, "DELETE FROM record WHERE seq >= ?1", next_seq, err);
}

int private_forget(struct private_store *ps, uint64_t tree, size_t *ret_rows, struct pawl_error *err)
{
	static const char *const sql[] = { "DELETE FROM record WHERE tree = ?1", "DELETE FROM value WHERE tree = ?1", "DELETE FROM tree WHERE id = ?1" };
	sqlite3_int64 before = sqlite3_total_changes(ps->db);
	int r = tree <= INT64_MAX ? run(ps, "BEGIN IMMEDIATE", err) : pawl_fail(err, PAWL_E_LIMIT, "there is no such tree");

	for (size_t i = 0; r == 0 && i < PAWL_LEN(sql); i++)
		r = trim(ps, sql[i], tree, err);
	if (r == 0)
		r = run(ps, "COMMIT", err);
	if (r < 0)
		roll_back(ps);
	else
		*ret_rows = (size_t)(sqlite3_total_changes(ps->db) - before);
	return r;
}

int private_mark(struct private_store *ps, uint64_t entries, struct pawl_error *err)
{
	char sql[96];

	if (entries > INT64_MAX)
		return pawl_fail(err, PAWL_E_LIMIT, "private store %s: no such number of entries", ps->file);
	(void)snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO mark(id, entries) VALUES(1, %lld)", (long long)entries);
	return run(ps, sql, err);
}

int private_marked(struct private_store *ps, uint64_t *ret, struct pawl_error *err)
{
	char text[64];
	int r = ask(ps, "SELECT COALESCE(MAX(entries), 0) FROM mark", text, err);

	if (r == 0)
		*ret = strtoull(text, NULL, 10);
	return r;
}

int private_limit(struct private_store *ps, int64_t pages, struct pawl_error *err)
{
	char sql[64], now[64];

	(void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld", (long long)pages);
	return ask(ps, sql, now, err);
}
