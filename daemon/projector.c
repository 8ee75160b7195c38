/* daemon/projector.c - see projector.h. One thread; what passes between it and the loop is under `lock`, the state it owns under `state_lock`, which
 * the loop takes only to copy it. Rows are written in transactions of what was there to be followed; where they fall behind, or the file was
 * lost, they are filled up from the journal in slices. */
#include "daemon/projector.h"

#include "daemon/base/oplog.h"
#include "daemon/log/entry.h"
#include "daemon/log/note.h"
#include "daemon/store/projection.h"

#include <sodium.h>

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_QUEUE  16384u
#define SLICE	   1000u  /* entries read from the journal before the queue is looked at again */
#define RETRY_MS   5000	  /* a file that cannot be written is tried again */
#define MEMORY_MS  100	  /* and memory that is not to be had */
#define IDLE_MS	   15	  /* between slices of the old log, so that the judge keeps its share of the processor */

struct projector {
	struct journal *journal;
	char *path; /* NULL: none */
	char origin[PAWL_MAX_ORIGIN + 1];
	uint64_t every;
	size_t max_queue;
	int event;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	/* under lock: */
	struct pending_queue in;
	uint64_t durable; /* one past the newest entry pushed */
	bool stop, finish, has_stored;
	struct entry_snapshot stored;
	struct pawl_error damage;
	struct projector_status said;
	pthread_mutex_t state_lock;
	struct state *st; /* written by the thread alone, under state_lock */
	/* the thread's: */
	uint64_t next; /* state_next_seq(st) */
	struct projection *db;
	bool in_tx, retry, remake;
	uint64_t rows;	       /* as far as SQLite's rows go */
	uint64_t last_at;      /* of the newest snapshot stored or given up */
	uint64_t last_bytes;
	uint64_t read, unread; /* the old part: entries below `read` are checked */
	uint8_t prev[32], chain[32];
};

static void ring(const struct projector *pj)
{
	uint64_t one = 1;
	ssize_t n = write(pj->event, &one, sizeof(one));

	(void)n;
}

static void nap(int ms)
{
	const struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&ts, NULL);
}

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

static void open_rows(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };

	pj->retry = false;
	if (open_or_remake(pj, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	pj->rows = projection_applied(pj->db);
	say_problem(pj, "");
}

static bool rows_begin(struct projector *pj, struct pawl_error *err)
{
	if (!pj->in_tx && projection_begin(pj->db, err) < 0)
		return false;
	pj->in_tx = true;
	return true;
}

/* Rows that have fallen behind leave it to catch_up_rows(). */
static void put_row(struct projector *pj, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (!pj->db || pj->rows != e->seq)
		return;
	if (rows_begin(pj, &err) && projection_entry(pj->db, e, &err) == 0)
		pj->rows = e->seq + 1;
	else
		rows_failed(pj, &err);
}

/* The ledgers' rows are taken from the state, when that stands where the rows do. */
static void commit_rows(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (!pj->in_tx)
		return;
	if (projection_commit(pj->db, pj->rows == pj->next ? pj->st : NULL, &err) < 0)
		rows_failed(pj, &err);
	pj->in_tx = false;
}

/* ---- following ---- */

/* What is on disk must be in the state. */
static void apply(struct projector *pj, const struct entry *e)
{
	struct pawl_error err = { .code = PAWL_OK };
	int r;

	for (bool told = false;; nap(MEMORY_MS)) {
		(void)pthread_mutex_lock(&pj->state_lock);
		r = state_room(pj->st, e, &err);
		if (r == 0)
			state_apply(pj->st, e);
		(void)pthread_mutex_unlock(&pj->state_lock);
		if (r == 0)
			break;
		if (r != PAWL_E_NOMEM) { /* what the judge's state took a moment ago: our bug, and no safe way on */
			oplog_error("the second state", &err);
			abort();
		}
		if (!told)
			oplog(OPLOG_WARN, "the second state waits for memory");
		told = true;
	}
	pj->next = e->seq + 1;
	if (e->kind == ENTRY_SNAPSHOT) {
		(void)pthread_mutex_lock(&pj->lock);
		pj->said.snapshot_at = (uint64_t)e->snapshot.at;
		(void)pthread_mutex_unlock(&pj->lock);
	}
}

static int parse(uint64_t seq, struct str note, struct entry_parsed *ret, struct pawl_error *err)
{
	struct entry_view v;
	int r = entry_view_parse(note, &v, err);

	return r < 0 ? r : entry_parse(v.body, seq, ret, err);
}

static int follow_note(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct projector *pj = arg;
	struct entry_parsed p;
	int r = parse(seq, note, &p, err);

	if (r < 0)
		return r;
	apply(pj, &p.e);
	put_row(pj, &p.e);
	entry_parsed_done(&p);
	return 0;
}

/* false: the journal could not be read; later, then. */
static bool follow_journal(struct projector *pj, uint64_t to)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (pj->next >= to || journal_walk(pj->journal, pj->next, to, follow_note, pj, &err) == 0)
		return true;
	oplog_error("following the log", &err);
	nap(MEMORY_MS);
	return false;
}

static void follow(struct projector *pj, struct pending_queue *list)
{
	struct pending *p;
	bool whole = true;

	while ((p = pending_queue_pop(list))) {
		whole = whole && follow_journal(pj, p->seq); /* what did not fit the queue */
		if (whole) {
			apply(pj, &p->e);
			put_row(pj, &p->e);
		}
		free(p);
	}
}

static int fill_note(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct projector *pj = arg;
	struct entry_parsed p;
	int r = parse(seq, note, &p, err);

	if (r < 0)
		return r;
	r = projection_entry(pj->db, &p.e, err);
	entry_parsed_done(&p);
	return r;
}

/* A slice of rows that were missed. */
static void catch_up_rows(struct projector *pj)
{
	uint64_t to = pj->next - pj->rows > SLICE ? pj->rows + SLICE : pj->next;
	struct pawl_error err = { .code = PAWL_OK };

	if (!rows_begin(pj, &err) || journal_walk(pj->journal, pj->rows, to, fill_note, pj, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	pj->rows = to;
	commit_rows(pj);
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

static int store_snapshot(struct projector *pj, struct entry_snapshot *ret, struct pawl_error *err)
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

static void snapshot(struct projector *pj)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct entry_snapshot s;

	commit_rows(pj);
	if (!pj->db)
		return;
	pj->last_at = pj->next;
	if (!rows_begin(pj, &err) || store_snapshot(pj, &s, &err) < 0) {
		rows_failed(pj, &err);
		return;
	}
	commit_rows(pj);
	if (!pj->db)
		return;
	pj->last_bytes = (uint64_t)s.bytes;
	(void)pthread_mutex_lock(&pj->lock);
	pj->stored = s;
	pj->has_stored = true;
	(void)pthread_mutex_unlock(&pj->lock);
	ring(pj);
}

/* Every so many entries, and never more bytes of snapshots than of log: an entry has a kilobyte or so. */
static bool snapshot_due(const struct projector *pj)
{
	uint64_t new = pj->next - pj->last_at;

	return pj->db && new >= pj->every && new >= pj->last_bytes >> 10;
}

/* ---- the old part of the log ---- */

static int read_old(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct projector *pj = arg;
	struct entry_view v;

	if (entry_view_parse(note, &v, err) < 0 || v.seq != seq || !str_eq(v.origin, str_of(pj->origin)) || memcmp(v.prev, pj->prev, 32) != 0)
		return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu is not the one that belongs there", (unsigned long long)seq);
	entry_hash(v.text, pj->prev);
	return 0;
}

/* The next start is to read it all, and to see for itself. */
static void forget_snapshots(struct projector *pj)
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

static void check_old(struct projector *pj)
{
	uint64_t to = pj->unread - pj->read > SLICE ? pj->read + SLICE : pj->unread;
	struct pawl_error err = { .code = PAWL_OK };
	int r = journal_walk(pj->journal, pj->read, to, read_old, pj, &err);

	if (r == 0 && to == pj->unread && memcmp(pj->prev, pj->chain, 32) != 0)
		r = pawl_fail(&err, PAWL_E_TAMPERED, "entry %llu is not the one that the next one names", (unsigned long long)to - 1);
	pj->read = r == 0 ? to : pj->unread; /* nothing more is to be learnt */
	if (r == 0)
		return;
	forget_snapshots(pj);
	(void)pthread_mutex_lock(&pj->lock);
	pj->damage = err;
	(void)pthread_mutex_unlock(&pj->lock);
	ring(pj);
}

/* ---- the thread ---- */

static bool rows_behind(const struct projector *pj)
{
	return pj->db && pj->rows < pj->next;
}

/* Under lock. */
static void wait_for_work(struct projector *pj)
{
	struct timespec until;

	while (!pj->in.head && pj->durable <= pj->next && !pj->stop && !pj->finish && !rows_behind(pj) && pj->read == pj->unread) {
		if (!pj->retry) {
			(void)pthread_cond_wait(&pj->wake, &pj->lock);
			continue;
		}
		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += RETRY_MS / 1000;
		if (pthread_cond_timedwait(&pj->wake, &pj->lock, &until) != 0)
			return; /* tried again: see work() */
	}
}

/* Under lock. false: all is done, and the thread is to end. */
static bool take_work(struct projector *pj, struct pending_queue *list, uint64_t *ret_durable, bool *ret_finish)
{
	pj->said.rows = pj->rows;
	pj->said.unread = pj->unread - pj->read;
	wait_for_work(pj);
	if (pj->stop && !pj->in.head)
		return false;
	pending_queue_init(list);
	for (struct pending *p; list->n < SLICE && (p = pending_queue_pop(&pj->in));)
		pending_queue_push(list, p);
	*ret_durable = pj->in.head ? 0 : pj->durable;
	*ret_finish = pj->finish;
	return true;
}

static void work(struct projector *pj, struct pending_queue *list, uint64_t durable, bool finish)
{
	bool busy = list->n > 0;

	if (pj->retry && (!busy || finish))
		open_rows(pj);
	follow(pj, list);
	(void)follow_journal(pj, durable);
	commit_rows(pj);
	if (rows_behind(pj))
		catch_up_rows(pj);
	else if (pj->read < pj->unread && !finish)
		check_old(pj);
	if (snapshot_due(pj) || (finish && pj->next >= durable && durable && pj->db && pj->last_at + 1 < pj->next))
		snapshot(pj);
	if (!busy && !finish && (rows_behind(pj) || pj->read < pj->unread))
		nap(IDLE_MS);
}

static void *projector_main(void *arg)
{
	struct projector *pj = arg;
	struct pending_queue list;
	uint64_t durable;
	bool finish;

	if (pj->path)
		open_rows(pj);
	(void)pthread_mutex_lock(&pj->lock);
	while (take_work(pj, &list, &durable, &finish)) {
		(void)pthread_mutex_unlock(&pj->lock);
		work(pj, &list, durable, finish);
		(void)pthread_mutex_lock(&pj->lock);
		if (finish && !pj->in.head && pj->durable <= pj->next) {
			pj->finish = false;
			(void)pthread_cond_signal(&pj->idle);
		}
	}
	(void)pthread_mutex_unlock(&pj->lock);
	return NULL;
}

/* ---- the loop's side ---- */

static int thread_start(struct projector *pj, struct pawl_error *err)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to the loop */
	r = pthread_create(&pj->thread, NULL, projector_main, pj);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r == 0 ? 0 : pawl_fail(err, PAWL_E_SYS, "projector thread: %s", strerror(r));
}

static void release(struct projector *pj)
{
	if (pj->event >= 0)
		(void)close(pj->event);
	(void)pthread_cond_destroy(&pj->wake);
	(void)pthread_cond_destroy(&pj->idle);
	(void)pthread_mutex_destroy(&pj->lock);
	(void)pthread_mutex_destroy(&pj->state_lock);
	free(pj->path);
	free(pj);
}

static void init_locks(struct projector *pj)
{
	pthread_condattr_t attr;

	(void)pthread_mutex_init(&pj->lock, NULL);
	(void)pthread_mutex_init(&pj->state_lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&pj->wake, &attr);
	(void)pthread_cond_init(&pj->idle, &attr);
	(void)pthread_condattr_destroy(&attr);
}

int projector_new(const struct projector_config *cfg, struct projector **ret, struct pawl_error *err)
{
	struct projector *pj = calloc(1, sizeof(*pj));
	char *path = cfg->path ? strdup(cfg->path) : NULL;
	int r = 0;

	if (!pj || (cfg->path && !path)) {
		free(pj);
		free(path);
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the projector");
	}
	*pj = (struct projector){ .journal = cfg->journal, .path = path, .every = cfg->snapshot_every ? cfg->snapshot_every : SNAPSHOT_EVERY,
				  .max_queue = cfg->max_queue ? cfg->max_queue : MAX_QUEUE, .st = cfg->state, .next = state_next_seq(cfg->state), .last_at = cfg->snapshot_at, .unread = cfg->unread };
	pj->durable = pj->next;
	pj->said.snapshot_at = cfg->snapshot_at;
	(void)snprintf(pj->origin, sizeof(pj->origin), "%.*s", STR_ARG(cfg->origin));
	memcpy(pj->chain, cfg->chain, sizeof(pj->chain));
	pending_queue_init(&pj->in);
	init_locks(pj);
	pj->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = pj->event < 0 ? pawl_fail_errno(err, "eventfd") : thread_start(pj, err);
	if (r < 0)
		release(pj);
	else
		*ret = pj;
	return r;
}

void projector_free(struct projector *pj)
{
	if (!pj)
		return;
	(void)pthread_mutex_lock(&pj->lock);
	pj->stop = true;
	(void)pthread_cond_signal(&pj->wake);
	(void)pthread_mutex_unlock(&pj->lock);
	(void)pthread_join(pj->thread, NULL);
	projection_close(pj->db);
	state_free(pj->st);
	release(pj);
}

void projector_push(struct projector *pj, struct pending *p)
{
	(void)pthread_mutex_lock(&pj->lock);
	pj->durable = p->seq + 1;
	if (pj->in.n < pj->max_queue) {
		pending_queue_push(&pj->in, p);
		p = NULL;
	}
	(void)pthread_cond_signal(&pj->wake);
	(void)pthread_mutex_unlock(&pj->lock);
	free(p);
}

int projector_copy(struct projector *pj, uint64_t next, struct state **ret, struct pawl_error *err)
{
	int r = PAWL_E_BUSY;

	(void)pthread_mutex_lock(&pj->state_lock);
	if (state_next_seq(pj->st) == next)
		r = state_clone(pj->st, ret, err);
	else if (state_next_seq(pj->st) > next)
		r = pawl_fail(err, PAWL_E_TAMPERED, "the second state is ahead of the log");
	else
		(void)pawl_fail(err, PAWL_E_BUSY, "the second state has not followed yet");
	(void)pthread_mutex_unlock(&pj->state_lock);
	return r;
}

int projector_fd(const struct projector *pj)
{
	return pj->event;
}

bool projector_stored(struct projector *pj, struct entry_snapshot *ret)
{
	uint64_t rings;
	bool has;
	ssize_t got;

	(void)pthread_mutex_lock(&pj->lock);
	got = read(pj->event, &rings, sizeof(rings)); /* under lock: a ring that comes later is not lost */
	(void)got;
	has = pj->has_stored;
	if (has)
		*ret = pj->stored;
	pj->has_stored = false;
	(void)pthread_mutex_unlock(&pj->lock);
	return has;
}

bool projector_damage(struct projector *pj, struct pawl_error *ret)
{
	bool has;

	(void)pthread_mutex_lock(&pj->lock);
	has = pj->damage.code != PAWL_OK;
	if (has)
		*ret = pj->damage;
	(void)pthread_mutex_unlock(&pj->lock);
	return has;
}

void projector_finish(struct projector *pj, int wait_ms)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_ms / 1000;
	(void)pthread_mutex_lock(&pj->lock);
	pj->finish = true;
	(void)pthread_cond_signal(&pj->wake);
	while (pj->finish && pthread_cond_timedwait(&pj->idle, &pj->lock, &until) == 0)
		;
	(void)pthread_mutex_unlock(&pj->lock);
}

void projector_status(struct projector *pj, struct projector_status *ret)
{
	(void)pthread_mutex_lock(&pj->lock);
	*ret = pj->said;
	(void)pthread_mutex_unlock(&pj->lock);
}
