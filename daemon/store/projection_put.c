/* daemon/store/projection_put.c - values into a prepared statement, one after the other; what failed first is told at the end.
 * Texts and bytes are borrowed until then. */
#include "daemon/store/projection_int.h"

#include <sqlite3.h>

struct put put_begin(struct projection *p, enum projection_sql what)
{
	return (struct put){ .p = p, .st = p->st[what] };
}

void put_int(struct put *u, int64_t v)
{
	u->at++;
	if (u->rc == SQLITE_OK)
		u->rc = sqlite3_bind_int64(u->st, u->at, v);
}

void put_null(struct put *u)
{
	u->at++;
	if (u->rc == SQLITE_OK)
		u->rc = sqlite3_bind_null(u->st, u->at);
}

void put_opt(struct put *u, bool has, int64_t v)
{
	if (has)
		put_int(u, v);
	else
		put_null(u);
}

void put_u64(struct put *u, uint64_t v)
{
	if (v > INT64_MAX && u->rc == SQLITE_OK)
		u->rc = SQLITE_RANGE;
	put_int(u, (int64_t)v);
}

void put_id(struct put *u, uint64_t id)
{
	if (id)
		put_u64(u, id);
	else
		put_null(u);
}

void put_text(struct put *u, struct str s)
{
	u->at++;
	if (u->rc == SQLITE_OK)
		u->rc = sqlite3_bind_text64(u->st, u->at, s.p ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
}

void put_str(struct put *u, struct str s)
{
	if (s.n)
		put_text(u, s);
	else
		put_null(u);
}

void put_word(struct put *u, const char *z)
{
	if (z)
		put_text(u, str_of(z));
	else
		put_null(u);
}

void put_blob(struct put *u, const void *bytes, size_t n)
{
	u->at++;
	if (u->rc == SQLITE_OK)
		u->rc = sqlite3_bind_blob64(u->st, u->at, n ? bytes : "", n, SQLITE_STATIC);
}

void put_json(struct put *u, const struct buf *b)
{
	if (!buf_ok(b) && u->rc == SQLITE_OK)
		u->rc = SQLITE_NOMEM;
	put_text(u, buf_str(b));
}

int put_each(struct put *u, void (*each)(struct projection *p, uint64_t v), struct pawl_error *err)
{
	int rc = u->rc, reset;

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(u->st);
		if (rc == SQLITE_ROW && each)
			each(u->p, (uint64_t)sqlite3_column_int64(u->st, 0));
	}
	reset = sqlite3_reset(u->st);
	(void)sqlite3_clear_bindings(u->st);
	if (rc == SQLITE_DONE)
		rc = reset;
	return rc == SQLITE_OK ? 0 : projection_fail(u->p, rc, "write", err);
}

int put_end(struct put *u, struct pawl_error *err)
{
	return put_each(u, NULL, err);
}
