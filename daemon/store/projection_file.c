/* daemon/store/projection_file.c - the projection's files and lock, and whether a file is ours at all: our number in its header and exactly our
 * schema. That is asked before anything is written to it: no trigger, view or table of somebody else's runs in pawld, and another
 * application's file stays as it is. */
#include "daemon/store/projection_int.h"

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the files ---- */

int projection_path(const char *path, const char *suffix, char out[static PROJECTION_PATH], struct pawl_error *err)
{
	if ((size_t)snprintf(out, PROJECTION_PATH, "%s%s", path, suffix) >= PROJECTION_PATH)
		return pawl_fail(err, PAWL_E_LIMIT, "projection: the path is too long");
	return 0;
}

/* The lock has a file of its own: closing any descriptor of the database would drop the locks that SQLite holds on it. */
int projection_lock(const char *path, int *ret, struct pawl_error *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char name[PROJECTION_PATH];
	int fd, r = projection_path(path, "-lock", name, err);

	if (r < 0)
		return r;
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return pawl_fail_errno(err, "projection: %s", name);
	if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
		r = errno == EAGAIN || errno == EACCES ? pawl_fail(err, PAWL_E_BUSY, "projection %s: another process has it open for writing", path)
						       : pawl_fail_errno(err, "projection: lock of %s", name);
		(void)close(fd);
		return r;
	}
	*ret = fd;
	return 0;
}

static int file_is_ours(const char *path, const struct stat *st, struct pawl_error *err)
{
	if (!S_ISREG(st->st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "projection %s: not a regular file", path);
	if ((st->st_mode & 077) || st->st_uid != geteuid())
		return pawl_fail(err, PAWL_E_UNSAFE, "projection %s: must be ours and mode 0600 or less, is uid %u, mode %04o", path,
				 (unsigned)st->st_uid, (unsigned)(st->st_mode & 07777));
	return 0;
}

/* Made with its mode before SQLite sees it: what SQLite keeps beside it copies the mode. */
int projection_prepare(const char *path, struct pawl_error *err)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) == 0)
		return file_is_ours(path, &st, err);
	if (errno != ENOENT)
		return pawl_fail_errno(err, "projection %s", path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return pawl_fail_errno(err, "projection %s", path);
	(void)close(fd);
	return 0;
}

int projection_unlink(const char *path, struct pawl_error *err)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };
	char name[PROJECTION_PATH];
	int r = 0;

	for (size_t i = 0; r == 0 && i < PAWL_LEN(suffixes); i++) {
		r = projection_path(path, suffixes[i], name, err);
		if (r == 0 && unlink(name) != 0 && errno != ENOENT)
			r = pawl_fail_errno(err, "projection %s", name);
	}
	return r;
}

int projection_remove(const char *path, struct pawl_error *err)
{
	int lock = -1, r = projection_lock(path, &lock, err);

	if (r == 0)
		r = projection_unlink(path, err);
	if (lock >= 0)
		(void)close(lock);
	return r;
}

/* ---- is it ours, and is it what this version makes ---- */

#define SCHEMA_ROWS "SELECT type,name,tbl_name,sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type,name"

static bool column_eq(sqlite3_stmt *a, sqlite3_stmt *b, int column)
{
	int n = sqlite3_column_bytes(a, column);
	const void *x = sqlite3_column_text(a, column), *y = sqlite3_column_text(b, column);

	return sqlite3_column_type(a, column) == sqlite3_column_type(b, column) && sqlite3_column_bytes(b, column) == n && (!n || memcmp(x, y, (size_t)n) == 0);
}

static bool row_eq(sqlite3_stmt *a, sqlite3_stmt *b)
{
	for (int i = 0; i < 4; i++)
		if (!column_eq(a, b, i))
			return false;
	return true;
}

static int compare_rows(struct projection *p, sqlite3_stmt *is, sqlite3_stmt *due, struct pawl_error *err)
{
	int a, b;

	do {
		a = sqlite3_step(is);
		b = sqlite3_step(due);
	} while (a == SQLITE_ROW && b == SQLITE_ROW && row_eq(is, due));
	if (a != SQLITE_ROW && a != SQLITE_DONE)
		return projection_fail(p, a, "schema", err);
	if (b == SQLITE_NOMEM || sqlite3_errcode(p->db) == SQLITE_NOMEM)
		return pawl_fail(err, PAWL_E_NOMEM, "projection %s: out of memory", p->file);
	if (a != SQLITE_DONE || b != SQLITE_DONE)
		return pawl_fail(err, PAWL_E_MALFORMED, "projection %s: its tables are not those of this version", p->file);
	return 0;
}

/* Against one made now, in memory: the text in the file may be anybody's. */
static int schema_check(struct projection *p, struct pawl_error *err)
{
	sqlite3_stmt *is = NULL, *due = NULL;
	sqlite3 *fresh = NULL;
	int rc = sqlite3_open_v2(":memory:", &fresh, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL), r;

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(fresh, projection_schema, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(fresh, SCHEMA_ROWS, -1, &due, NULL);
	if (rc != SQLITE_OK) {
		r = pawl_fail(err, rc == SQLITE_NOMEM ? PAWL_E_NOMEM : PAWL_E_SYS, "projection %s: %s", p->file, sqlite3_errstr(rc));
	} else {
		rc = sqlite3_prepare_v2(p->db, SCHEMA_ROWS, -1, &is, NULL);
		r = rc == SQLITE_OK ? compare_rows(p, is, due, err) : projection_fail(p, rc, "schema", err);
	}
	(void)sqlite3_finalize(is);
	(void)sqlite3_finalize(due);
	(void)sqlite3_close(fresh);
	return r;
}

/* *ret_fresh: an empty file, to be filled. */
int projection_is_ours(struct projection *p, bool *ret_fresh, struct pawl_error *err)
{
	int64_t id = 0, version = 0, tables = 0;
	int r = projection_ask(p, "PRAGMA application_id", &id, err);

	if (r == 0)
		r = projection_ask(p, "PRAGMA user_version", &version, err);
	if (r == 0)
		r = projection_ask(p, "SELECT count(*)FROM sqlite_schema", &tables, err);
	if (r < 0)
		return r;
	*ret_fresh = id == 0 && version == 0 && tables == 0;
	if (!*ret_fresh && (id != PROJECTION_ID || version != PROJECTION_SCHEMA))
		return pawl_fail(err, PAWL_E_MALFORMED, "projection %s: not a projection of this version (id %lld, version %lld)", p->file,
				 (long long)id, (long long)version);
	return *ret_fresh ? 0 : schema_check(p, err);
}
