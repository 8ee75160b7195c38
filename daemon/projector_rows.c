/* daemon/projector_rows.c - what the projector keeps in SQLite: rows for people, in transactions of COMMIT_MS or SLICE entries, and snapshots of
 * its state. Rows that fall behind, or whose file was lost, are filled up from the journal in slices. The thread alone comes here. */
#include "daemon/projector_int.h"

#include "daemon/base/oplog.h"

#include <sodium.h>

#include <stdio.h>

/* ---- rows ---- */

static void say_problem(struct projector *pj, const char *what)
{
	(void)pthread_mutex_lock(&pj->lock);
	(void)snprintf(pj->said.problem, sizeof(pj->said.problem), "%s", what);
	(void)pthread_mutex_unlock(&pj->lock);
}

static void rows_failed(struct projector *pj, const struct pawl_error *err)
{
	oplog(OPLOG_WARN, "the rows for people wait: %s", err->msg);
	say_problem(pj, err->msg);
	if (pj->in_tx)
		projection_rollback(pj->db);
	projection_close(pj->db);
	pj->db = NULL;
	pj->in_tx = false;
	pj->retry = true;
	pj->retry_at_ms = projector_ms() + RETRY_MS;
	pj->remake = err->code == PAWL_E_MALFORMED;
}

/* What is damaged, of another version or from another log is made anew: it holds nothing that the log does not. */
static int open_or_remake(struct projector *pj, struct pawl_error *err)
{
	int r = pj->remake ? PAWL_E_MALFORMED : projection_open(pj->path, &pj->db, err);

	if (r == 0 && projection_applied(pj->db) > pj->next) {
		projection_close(pj->db);
		pj->db = NULL;
		r = pawl_fail(err, PAWL_E_MALFORMED, "rows of entries that the log does not have");
	}
	if (r != PAWL_E_MALFORMED)
		return r;
	oplog(OPLOG_WARN, "%s is made anew: %s", pj->path, pj->remake ? "see above" : err->msg);
	pj->remake = false;
	r = projection_remove(pj->path, err);
	return r < 0 ? r : projection_open(pj->path, &pj->db, err);
}

void rows_open(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct projection_snapshot kept[4];
	size_t n = 0;

	pj->retry = false;
	if (open_or_remake(pj, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	if (projection_snapshots(pj->db, kept, PAWL_LEN(kept), &n, &err) < 0 || n == 0)
		pj->last_at = pj->last_bytes = 0; /* what there was is gone: the next one is due at once */
	pj->rows = projection_applied(pj->db);
	say_problem(pj, "");
}

static bool rows_begin(struct projector *pj, struct pawl_error *err)
{
	if (pj->in_tx)
		return true;
	pj->in_tx = projection_begin(pj->db, err) == 0;
	pj->tx_since_ms = projector_ms();
	pj->tx_n = 0;
	return pj->in_tx;
}

/* Rows that have fallen behind leave it to rows_catch_up(). */
void rows_put(struct projector *pj, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (!pj->db || pj->rows != e->seq || pj->pressed)
		return;
	if (!rows_begin(pj, &err) || projection_entry(pj->db, e, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	pj->rows = e->seq + 1;
	pj->tx_n++;
}

bool rows_due(const struct projector *pj)
{
	return pj->in_tx && (pj->tx_n >= SLICE || projector_ms() - pj->tx_since_ms >= COMMIT_MS);
}

/* The ledgers' rows are taken from the state, when that stands where the rows do. */
void rows_commit(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (!pj->in_tx)
		return;
	if (projection_commit(pj->db, pj->rows == pj->next ? pj->st : NULL, &err) < 0)
		rows_failed(pj, &err);
	pj->in_tx = false;
}

static int fill_note(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct projector *pj = arg;
	struct entry_parsed p;
	int r = projector_parse(seq, note, &p, err);

	if (r < 0)
		return r;
	r = projection_entry(pj->db, &p.e, err);
	entry_parsed_done(&p);
	return r;
}

/* A slice of rows that were missed. */
void rows_catch_up(struct projector *pj)
{
	uint64_t to = pj->next - pj->rows > SLICE ? pj->rows + SLICE : pj->next;
	struct pawl_error err = { .code = PAWL_OK };

	if (!rows_begin(pj, &err) || journal_walk(pj->journal, pj->rows, to, fill_note, pj, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	pj->rows = to;
	rows_commit(pj);
}

/* ---- snapshots ---- */

struct writing {
	struct projector *pj;
	crypto_hash_sha256_state hash;
	uint64_t bytes;
};

static int write_bytes(void *arg, const void *p, size_t n, struct pawl_error *err)
{
	struct writing *w = arg;

	(void)crypto_hash_sha256_update(&w->hash, p, n);
	w->bytes += n;
	return projection_snapshot_add(w->pj->db, p, n, err);
}

static int write_snapshot(struct projector *pj, struct entry_snapshot *ret, struct pawl_error *err)
{
	struct writing w = { .pj = pj };
	int r = projection_snapshot_begin(pj->db, pj->next, err);

	(void)crypto_hash_sha256_init(&w.hash);
	if (r == 0)
		r = state_write(pj->st, write_bytes, &w, err);
	(void)crypto_hash_sha256_final(&w.hash, ret->sha256);
	ret->at = (int64_t)pj->next;
	ret->bytes = (int64_t)w.bytes;
	return r < 0 ? r : projection_snapshot_end(pj->db, ret->sha256, err);
}

void snapshot_store(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct entry_snapshot s;

	rows_commit(pj);
	if (!pj->db)
		return;
	pj->last_at = pj->next;
	if (!rows_begin(pj, &err) || write_snapshot(pj, &s, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	rows_commit(pj);
	if (!pj->db)
		return;
	pj->last_bytes = (uint64_t)s.bytes;
	(void)pthread_mutex_lock(&pj->lock);
	pj->stored = s;
	pj->has_stored = true;
	(void)pthread_mutex_unlock(&pj->lock);
	projector_ring(pj);
}

/* Rows that are behind come to this entry much later, and a start must not have to wait for them. */
void snapshot_logged(struct projector *pj, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };
	int r;

	if (!pj->db || pj->rows > e->seq) /* its own row has said so */
		return;
	r = rows_begin(pj, &err) ? projection_snapshot_logged(pj->db, (uint64_t)e->snapshot.at, e->seq, &err) : (int)err.code;
	if (r < 0 && r != PAWL_E_LIMIT)
		rows_failed(pj, &err);
	else
		rows_commit(pj);
}

/* Every so many entries, and never more bytes of snapshots than of log: an entry has a kilobyte or so. */
bool snapshot_due(const struct projector *pj)
{
	uint64_t new = pj->next - pj->last_at;

	return pj->db && new >= pj->every && new >= pj->last_bytes >> 10;
}

/* The next start is to read it all, and to see for itself. */
void snapshots_forget(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (pj->in_tx)
		projection_rollback(pj->db);
	projection_close(pj->db);
	pj->db = NULL;
	pj->in_tx = pj->retry = false;
	if (projection_remove(pj->path, &err) < 0)
		oplog_error("the snapshots of a damaged log", &err);
}

