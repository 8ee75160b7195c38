/* daemon/reading.c - see reading.h. Owns the state until it is taken; the journal is the daemon's. What comes out of SQLite is input: a snapshot
 * counts only when its bytes have the hash that an entry of this log, signed with this key, says. */
#include "daemon/reading.h"

#include "daemon/base/oplog.h"
#include "daemon/log/chain.h"
#include "daemon/log/entry.h"
#include "daemon/log/note.h"
#include "daemon/store/projection.h"

#include <sodium.h>

#include <signal.h>
#include <stdio.h>

#define SERVE_NS  (50 * 1000000)
#define EXTEND_NS (30 * NS_PER_SEC) /* a supervisor waits so long for the next sign of life */
#define LOOK_AT	  256		    /* entries between two looks at the clock */

/* ---- while it takes its time ---- */

static bool told_to_stop(void)
{
	sigset_t waiting;

	return sigpending(&waiting) == 0 && (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

static int show_progress(struct reading *rd, uint64_t seq, struct pawl_error *err)
{
	struct daemon *d = rd->d;
	int64_t now = clock_wall(&d->clock);

	if (rd->shown_ns == 0)
		rd->shown_ns = rd->served_ns = now;
	d->stopped = told_to_stop();
	if (d->stopped)
		return pawl_fail(err, PAWL_E_BUSY, "told to stop while reading the log");
	if (now - rd->served_ns < SERVE_NS)
		return 0;
	rd->served_ns = now;
	(void)snprintf(d->reading, sizeof(d->reading), "reading the log: entry %llu of %llu", (unsigned long long)seq,
		       (unsigned long long)d->recovery.next_seq);
	for (int which = 0; rd->doors && which < 2; which++)
		(void)rd->doors->serve(d, which);
	if (now - rd->shown_ns >= NS_PER_SEC) {
		rd->shown_ns = now;
		oplog(OPLOG_INFO, "%s", d->reading);
		sdnotify_starting(d->notify, d->reading, EXTEND_NS);
	}
	return 0;
}

/* ---- entries ---- */

static int read_entry(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct reading *rd = arg;
	struct entry_parsed p;
	struct entry_view v;
	int r;

	if (entry_view_parse(note, &v, err) < 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not a signed entry", (unsigned long long)seq);
	if (seq == rd->from && seq > 0) {
		memcpy(rd->chain, v.prev, sizeof(rd->chain));
		memcpy(rd->prev, v.prev, sizeof(rd->prev));
	}
	r = chain_check(&v, seq, str_of(rd->d->origin), rd->prev, err);
	if (r == 0)
		r = entry_parse(v.body, seq, &p, err);
	if (r != 0)
		return r;
	r = state_room(rd->st, &p.e, err);
	if (r == 0)
		state_apply(rd->st, &p.e);
	entry_parsed_done(&p);
	entry_hash(v.text, rd->prev);
	if (r == 0 && seq + 1 == rd->d->recovery.next_seq) {
		buf_reset(&rd->last);
		buf_str_add(&rd->last, note);
		r = buf_ok(&rd->last) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	if (r == 0 && seq % LOOK_AT == 0)
		r = show_progress(rd, seq, err);
	return r;
}

static int check_newest(const struct reading *rd, struct pawl_error *err)
{
	struct entry_view v;
	int r;

	if (rd->last.n == 0)
		return 0;
	r = entry_view_parse(buf_str(&rd->last), &v, err);
	return r < 0 ? r : entry_view_verify(&v, sign_key_vkey(rd->d->key), err);
}

/* On the state at hand, from the first entry that is not in it. */
static int read_on(struct reading *rd, struct pawl_error *err)
{
	int r;

	rd->from = state_next_seq(rd->st);
	sodium_memzero(rd->prev, sizeof(rd->prev));
	r = journal_walk(rd->d->journal, rd->from, rd->d->recovery.next_seq, read_entry, rd, err);
	return r < 0 ? r : check_newest(rd, err);
}

/* What lies before a snapshot: at once when it is little, so that an edit anywhere in a small log is found before the first answer. */
static int look_back(struct reading *rd, struct pawl_error *err)
{
	const uint64_t little = rd->d->opt->snapshot_every ? rd->d->opt->snapshot_every : SNAPSHOT_EVERY;
	struct chain old = { .origin = str_of(rd->d->origin) };
	int r = 0;

	if (rd->from > little) {
		rd->unread = rd->from;
		return 0;
	}
	for (uint64_t at = 0, to; r == 0 && at < rd->from; at = to) {
		to = rd->from - at > LOOK_AT ? at + LOOK_AT : rd->from;
		r = chain_walk(&old, rd->d->journal, at, to, err);
		if (r == 0)
			r = show_progress(rd, to, err);
	}
	return r < 0 ? r : chain_ends_in(&old, rd->chain, rd->from, err);
}

/* ---- snapshots ---- */

/* The entry that is said to vouch for it, by its own signature. */
static int voucher(const struct reading *rd, const struct projection_snapshot *s, struct entry_snapshot *ret, struct pawl_error *err)
{
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	struct entry_parsed p;
	struct entry_view v;
	int r = journal_read(rd->d->journal, s->entry, &note, err);

	if (r == 0)
		r = entry_view_parse(buf_str(&note), &v, err);
	if (r == 0 && (v.seq != s->entry || !str_eq(v.origin, str_of(rd->d->origin))))
		r = pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is another one", (unsigned long long)s->entry);
	if (r == 0)
		r = entry_view_verify(&v, sign_key_vkey(rd->d->key), err);
	if (r == 0)
		r = entry_parse(v.body, s->entry, &p, err);
	if (r == 0) {
		if (p.e.kind == ENTRY_SNAPSHOT && (uint64_t)p.e.snapshot.at == s->at && s->at <= s->entry)
			*ret = p.e.snapshot;
		else
			r = pawl_fail(err, PAWL_E_TAMPERED, "entry %llu speaks of no such snapshot", (unsigned long long)s->entry);
		entry_parsed_done(&p);
	}
	buf_done(&note);
	return r;
}

struct source {
	struct reading *rd;
	struct projection_reader *from;
	crypto_hash_sha256_state hash;
	int64_t bytes;
};

static int source_read(void *arg, void *p, size_t max, size_t *ret_n, struct pawl_error *err)
{
	struct source *s = arg;
	int r = projection_reader_read(s->from, p, max, ret_n, err);

	if (r == 0) {
		(void)crypto_hash_sha256_update(&s->hash, p, *ret_n);
		s->bytes += (int64_t)*ret_n;
		r = show_progress(s->rd, state_next_seq(s->rd->st), err);
	}
	return r;
}

/* rd->st becomes the state in those bytes, when they are the ones that were signed. */
static int take_snapshot(struct reading *rd, struct projection *db, const struct projection_snapshot *s, struct pawl_error *err)
{
	struct source src = { .rd = rd };
	struct entry_snapshot vouched = { .at = 0 };
	struct state *st = NULL;
	uint8_t sha256[32];
	int r = voucher(rd, s, &vouched, err);

	if (r == 0)
		r = projection_reader_open(db, s, &src.from, err);
	if (r < 0)
		return r;
	(void)crypto_hash_sha256_init(&src.hash);
	r = state_read(source_read, &src, &st, err);
	(void)crypto_hash_sha256_final(&src.hash, sha256);
	projection_reader_close(src.from);
	if (r == 0 && (src.bytes != vouched.bytes || memcmp(sha256, vouched.sha256, 32) != 0 || state_next_seq(st) != s->at))
		r = pawl_fail(err, PAWL_E_TAMPERED, "its bytes are not those that entry %llu was signed for", (unsigned long long)s->entry);
	if (r < 0) {
		state_free(st);
		return r;
	}
	state_free(rd->st);
	rd->st = st;
	return 0;
}

/* What came of looking for one. */
enum { NONE = 0, STARTED = 1, NONE_AND_NEVER = 2 /* the file is not as we write it, and would be in the way of the next one */ };

static int from_snapshot(struct reading *rd, struct projection *db, struct pawl_error *err)
{
	struct projection_snapshot rows[4];
	struct pawl_error unread = { .code = PAWL_OK };
	size_t n = 0;

	if (projection_snapshots(db, rows, PAWL_LEN(rows), &n, &unread) < 0) {
		oplog(OPLOG_WARN, "no snapshot to start from: %s", unread.msg);
		return unread.code == PAWL_E_MALFORMED ? NONE_AND_NEVER : NONE;
	}
	for (size_t i = 0; i < n; i++) {
		struct pawl_error why = { .code = PAWL_OK };
		int r = rows[i].entry ? take_snapshot(rd, db, &rows[i], &why) : PAWL_E_INCOMPLETE; /* stored, and then no time to sign it */

		if (r == 0)
			r = read_on(rd, &why);
		if (r == 0) {
			r = look_back(rd, &why);
			if (r == PAWL_E_TAMPERED) { /* reading it all would say the same */
				*err = why;
				return r;
			}
		}
		if (r == 0) {
			oplog(OPLOG_INFO, "started from the snapshot at entry %llu", (unsigned long long)rows[i].at);
			return STARTED;
		}
		if (rd->d->stopped || r == PAWL_E_NOMEM) {
			*err = why;
			return r;
		}
		if (rows[i].entry)
			oplog(OPLOG_WARN, "the snapshot at entry %llu is not used: %s", (unsigned long long)rows[i].at, why.msg);
	}
	return NONE;
}

static int try_snapshots(struct reading *rd, const char *path, struct pawl_error *err)
{
	struct pawl_error why = { .code = PAWL_OK };
	struct projection *db;
	int r;

	if (rd->d->recovery.next_seq == 0 || projection_open(path, &db, &why) < 0) {
		if (why.code)
			oplog(OPLOG_WARN, "no snapshot to start from: %s", why.msg);
		return 0;
	}
	if (projection_applied(db) > rd->d->recovery.next_seq)
		r = pawl_fail(err, PAWL_E_TAMPERED, "the log has %llu entries and %s has seen %llu: log rolled back (docs/operations.md)",
			      (unsigned long long)rd->d->recovery.next_seq, path, (unsigned long long)projection_applied(db));
	else
		r = from_snapshot(rd, db, err);
	projection_close(db);
	if (r == NONE_AND_NEVER)
		r = projection_remove(path, err);
	return r;
}

/* ---- all of it ---- */

int reading_open(struct reading *rd, struct daemon *d, const struct door_calls *doors, struct pawl_error *err)
{
	struct journal_config cfg = { .dir = d->opt->log, .origin = str_of(d->origin), .read_only = !doors, .tail_only = true };
	int r;

	*rd = (struct reading){ .d = d, .doors = doors, .last = BUF_MAX(PAWL_MAX_NOTE) };
	r = journal_open(&cfg, NULL, NULL, &d->journal, &d->recovery, err);
	if (r == 0 && d->recovery.next_seq > 0 && d->recovery.first_seq != 0)
		r = pawl_fail(err, PAWL_E_INCOMPLETE, "%s starts at entry %llu: its head is missing", d->opt->log,
			      (unsigned long long)d->recovery.first_seq);
	if (r == 0 && doors) /* only who holds the log's lock may take the sockets */
		r = doors->open(d, err);
	return r;
}

int reading_run(struct reading *rd, const char *path, struct pawl_error *err)
{
	int r = state_new(&rd->st, err);

	if (r == 0 && path)
		r = try_snapshots(rd, path, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (path && rd->d->recovery.next_seq > 0)
		oplog(OPLOG_INFO, "reading the log from entry 0");
	state_free(rd->st);
	rd->st = NULL;
	r = state_new(&rd->st, err);
	return r < 0 ? r : read_on(rd, err);
}

void reading_done(struct reading *rd)
{
	state_free(rd->st);
	buf_done(&rd->last);
}
