/* daemon/store/private_read.c - what was recorded of arguments, read by the command line beside a pawld that writes. Owns its connection,
 * which is read-only: a file that a killed pawld left in the middle of a commit is not mended here, and then nothing is shown. What it
 * reads is input, as every file is. */
#include "daemon/store/private.h"

#include "daemon/store/beside.h"

#include <sqlite3.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 2000

struct private_reader {
	sqlite3 *db;
	sqlite3_stmt *get;
};

static int fail(const struct private_reader *pr, int rc, struct pawl_error *err)
{
	return pawl_fail(err, (rc & 0xff) == SQLITE_NOMEM ? PAWL_E_NOMEM : PAWL_E_SYS, "what was recorded cannot be read: %s",
			 pr->db ? sqlite3_errmsg(pr->db) : sqlite3_errstr(rc));
}

/* A store that is older than records has no such table. */
static int prepare(struct private_reader *pr, bool *ret_none, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(pr->db, "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='record'", -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	*ret_none = rc == SQLITE_ROW && sqlite3_column_int(st, 0) == 0;
	(void)sqlite3_finalize(st);
	if (rc != SQLITE_ROW)
		return fail(pr, rc, err);
	if (*ret_none)
		return 0;
	rc = sqlite3_prepare_v2(pr->db, "SELECT bytes FROM record WHERE seq = ?1", -1, &pr->get, NULL);
	return rc == SQLITE_OK ? 0 : fail(pr, rc, err);
}

int private_reader_open(const char *path, struct private_reader **ret, struct pawl_error *err)
{
	struct private_reader *pr;
	bool none = true;
	struct stat st;
	int rc, r;

	if (lstat(path, &st) < 0 || st.st_size == 0) {
		*ret = NULL;
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s: not a regular file", path);
	r = beside_check(path, err);
	if (r < 0)
		return r;
	pr = calloc(1, sizeof(*pr));
	if (!pr)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	rc = sqlite3_open_v2(path, &pr->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(pr->db, PATIENCE_MS);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(pr->db, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON", NULL, NULL, NULL);
	r = rc == SQLITE_OK ? prepare(pr, &none, err) : fail(pr, rc, err);
	if (r < 0 || none) {
		private_reader_close(pr);
		pr = NULL;
	}
	if (r == 0)
		*ret = pr;
	return r;
}

void private_reader_close(struct private_reader *pr)
{
	if (!pr)
		return;
	(void)sqlite3_finalize(pr->get);
	(void)sqlite3_close(pr->db);
	free(pr);
}

int private_record(struct private_reader *pr, uint64_t seq, struct buf *out, struct pawl_error *err)
{
	int rc, r = 0;

	if (!pr || seq > INT64_MAX)
		return 0;
	rc = sqlite3_bind_int64(pr->get, 1, (sqlite3_int64)seq);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(pr->get);
	if (rc == SQLITE_ROW) {
		const void *bytes = sqlite3_column_blob(pr->get, 0);
		struct str s = { bytes, bytes ? (size_t)sqlite3_column_bytes(pr->get, 0) : 0 };

		if (s.n > PAWL_MAX_VALUE || !utf8_valid(s))
			r = pawl_fail(err, PAWL_E_MALFORMED, "what was recorded of entry %llu is no text", (unsigned long long)seq);
		else
			buf_str_add(out, s);
	} else if (rc != SQLITE_DONE) {
		r = fail(pr, rc, err);
	}
	(void)sqlite3_reset(pr->get);
	return r < 0 ? r : rc == SQLITE_ROW;
}
