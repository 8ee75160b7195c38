/* daemon/store/projection_snapshot.c - the bytes of snapshots, in rows of at most PROJECTION_PART, so that nobody has to hold a state of
 * hundreds of MB as one value. What comes back is counted and looked at; whether it is genuine only the signed entry tells. */
#include "daemon/store/projection_int.h"

#include <sqlite3.h>

#include <stdlib.h>

#define KEPT_MAX 8 /* two are; more rows than this are none of ours */

static uint64_t parts_of(uint64_t bytes)
{
	return bytes / PROJECTION_PART + (bytes % PROJECTION_PART != 0);
}

/* ---- in ---- */

int projection_snapshot_begin(struct projection *p, uint64_t at, struct pawl_error *err)
{
	static const enum projection_sql trims[] = { SQL_SNAPSHOT_TRIM_PARTS, SQL_SNAPSHOT_TRIM };
	int r = projection_begun(p, err);

	if (r == 0 && p->in.open)
		r = pawl_fail(err, PAWL_E_USAGE, "%s: a snapshot is being written already", p->file);
	if (r == 0 && !p->in.part && !(p->in.part = malloc(PROJECTION_PART)))
		r = pawl_fail(err, PAWL_E_NOMEM, "no memory for a part of a snapshot");
	for (size_t i = 0; r == 0 && i < PAWL_LEN(trims); i++) {
		struct put u = put_begin(p, trims[i]);

		put_u64(&u, at);
		r = put_end(&u, err);
	}
	if (r < 0)
		return r;
	p->in = (struct snapshot_in){ .open = true, .at = at, .part = p->in.part };
	return 0;
}

static int put_part(struct projection *p, struct pawl_error *err)
{
	struct snapshot_in *in = &p->in;
	struct put u = put_begin(p, SQL_SNAPSHOT_PART);

	if (in->parts == PROJECTION_MAX_PARTS)
		return pawl_fail(err, PAWL_E_LIMIT, "%s: a snapshot of more than %u MiB", p->file, PROJECTION_MAX_PARTS);
	put_u64(&u, in->at);
	put_int(&u, in->parts);
	put_blob(&u, in->part, in->n);
	in->parts++;
	in->bytes += in->n;
	in->n = 0;
	return put_end(&u, err);
}

static int is_open(const struct projection *p, struct pawl_error *err)
{
	int r = projection_begun(p, err);

	return r == 0 && !p->in.open ? pawl_fail(err, PAWL_E_USAGE, "%s: no snapshot is being written", p->file) : r;
}

int projection_snapshot_add(struct projection *p, const void *bytes, size_t n, struct pawl_error *err)
{
	const uint8_t *from = bytes;
	int r = is_open(p, err);

	while (r == 0 && n) {
		size_t room = PROJECTION_PART - p->in.n, take = n < room ? n : room;

		memcpy(p->in.part + p->in.n, from, take);
		p->in.n += take;
		from += take;
		n -= take;
		if (p->in.n == PROJECTION_PART)
			r = put_part(p, err);
	}
	return r;
}

int projection_snapshot_end(struct projection *p, const uint8_t sha256[static 32], struct pawl_error *err)
{
	int r = is_open(p, err);
	struct put u;

	if (r == 0 && p->in.n)
		r = put_part(p, err);
	if (r < 0)
		return r;
	p->in.open = false;
	u = put_begin(p, SQL_SNAPSHOT);
	put_u64(&u, p->in.at);
	put_u64(&u, p->in.bytes);
	put_blob(&u, sha256, 32);
	return put_end(&u, err);
}

int projection_snapshot_logged(struct projection *p, uint64_t at, uint64_t entry, struct pawl_error *err)
{
	struct put u = put_begin(p, SQL_SNAPSHOT_LOGGED);
	int r = projection_begun(p, err);

	if (r < 0)
		return r;
	put_u64(&u, at);
	put_u64(&u, entry);
	r = put_end(&u, err);
	if (r == 0 && sqlite3_changes(p->db) != 1)
		r = pawl_fail(err, PAWL_E_LIMIT, "%s: there is no snapshot of entry %llu", p->file, (unsigned long long)at);
	return r;
}

/* ---- out ---- */

static bool take_u64(sqlite3_stmt *st, int column, uint64_t *ret)
{
	if (sqlite3_column_type(st, column) != SQLITE_INTEGER || sqlite3_column_int64(st, column) < 0)
		return false;
	*ret = (uint64_t)sqlite3_column_int64(st, column);
	return true;
}

static bool take_row(sqlite3_stmt *st, struct projection_snapshot *s)
{
	bool logged = sqlite3_column_type(st, 1) != SQLITE_NULL;

	if (!take_u64(st, 0, &s->at) || (logged && !take_u64(st, 1, &s->entry)) || !take_u64(st, 2, &s->bytes) ||
	    (logged && s->entry < s->at) || parts_of(s->bytes) > PROJECTION_MAX_PARTS || sqlite3_column_type(st, 3) != SQLITE_BLOB ||
	    sqlite3_column_bytes(st, 3) != (int)sizeof(s->sha256))
		return false;
	memcpy(s->sha256, sqlite3_column_blob(st, 3), sizeof(s->sha256));
	return true;
}

static int no_snapshot(const struct projection *p, struct pawl_error *err)
{
	return pawl_fail(err, PAWL_E_MALFORMED, "projection %s: a row is not a snapshot", p->file);
}

int projection_snapshots(struct projection *p, struct projection_snapshot *out, size_t max, size_t *ret_n, struct pawl_error *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(p->db, "SELECT at,entry,bytes,sha256 FROM snapshot ORDER BY at DESC", -1, &st, NULL), r = 0;
	size_t n = 0, seen = 0;

	while (r == 0 && (rc == SQLITE_OK || rc == SQLITE_ROW)) {
		struct projection_snapshot s = { .entry = 0 };

		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		if (++seen > KEPT_MAX || !take_row(st, &s))
			r = no_snapshot(p, err);
		else if (n < max)
			out[n++] = s;
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = projection_fail(p, rc, "read", err);
	(void)sqlite3_finalize(st);
	if (r == 0)
		*ret_n = n;
	return r;
}

/* The next part is the one that is due, and as long as it has to be. */
static bool part_is_due(sqlite3_stmt *st, uint64_t part, uint64_t left)
{
	uint64_t size = left < PROJECTION_PART ? left : PROJECTION_PART, number;

	return left && take_u64(st, 0, &number) && number == part && sqlite3_column_type(st, 1) == SQLITE_BLOB &&
	       (uint64_t)sqlite3_column_bytes(st, 1) == size && sqlite3_column_blob(st, 1);
}

struct projection_reader {
	struct projection *p;
	sqlite3_stmt *st;
	const uint8_t *at; /* SQLite's, until the next part */
	size_t here;	   /* bytes of it that are left */
	uint64_t left;	   /* bytes of the snapshot that no part has brought yet */
	uint64_t part;
};

int projection_reader_open(struct projection *p, const struct projection_snapshot *s, struct projection_reader **ret, struct pawl_error *err)
{
	struct projection_reader *r = calloc(1, sizeof(*r));
	int rc, got;

	if (!r)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a snapshot's reader");
	*r = (struct projection_reader){ .p = p, .left = s->bytes };
	rc = sqlite3_prepare_v2(p->db, "SELECT part,bytes FROM snapshot_part WHERE at=?1 ORDER BY part", -1, &r->st, NULL);
	if (rc == SQLITE_OK)
		rc = s->at > INT64_MAX ? SQLITE_RANGE : sqlite3_bind_int64(r->st, 1, (sqlite3_int64)s->at);
	if (rc != SQLITE_OK) {
		got = projection_fail(p, rc, "read", err);
		projection_reader_close(r);
		return got;
	}
	*ret = r;
	return 0;
}

/* r->here 0 after it: that was the last. */
static int next_part(struct projection_reader *r, struct pawl_error *err)
{
	int rc = sqlite3_step(r->st);

	r->here = 0;
	if (rc == SQLITE_DONE)
		return r->left ? no_snapshot(r->p, err) : 0;
	if (rc != SQLITE_ROW)
		return projection_fail(r->p, rc, "read", err);
	if (!part_is_due(r->st, r->part, r->left))
		return sqlite3_errcode(r->p->db) == SQLITE_NOMEM ? projection_fail(r->p, SQLITE_NOMEM, "read", err) : no_snapshot(r->p, err);
	r->at = sqlite3_column_blob(r->st, 1);
	r->here = (size_t)sqlite3_column_bytes(r->st, 1);
	r->left -= r->here;
	r->part++;
	return 0;
}

int projection_reader_read(struct projection_reader *r, void *out, size_t max, size_t *ret_n, struct pawl_error *err)
{
	int got = r->here == 0 ? next_part(r, err) : 0;
	size_t n = max < r->here ? max : r->here;

	if (got < 0)
		return got;
	if (n) {
		memcpy(out, r->at, n);
		r->at += n;
		r->here -= n;
	}
	*ret_n = n;
	return 0;
}

void projection_reader_close(struct projection_reader *r)
{
	if (!r)
		return;
	(void)sqlite3_finalize(r->st);
	free(r);
}

int projection_snapshot_read(struct projection *p, const struct projection_snapshot *s, projection_visit *visit, void *arg, struct pawl_error *err)
{
	struct projection_reader *r = NULL;
	int got = projection_reader_open(p, s, &r, err);

	while (got == 0 && r && (got = next_part(r, err)) == 0 && r->here)
		got = visit(arg, r->at, r->here, err);
	projection_reader_close(r);
	return got;
}
