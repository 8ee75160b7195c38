/* daemon/projector.c - see projector.h. One thread; what passes between it and the loop is under `lock`, the state it owns under `state_lock`, which
 * the loop takes only to copy it. */
#include "daemon/projector_int.h"

#include "daemon/base/oplog.h"
#include "daemon/log/note.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_QUEUE  4096u  /* of some 3 KiB each */
#define MEMORY_MS  100	  /* memory that is not to be had is asked for again */
#define NICE	   10
#define GATHER_MS  5	  /* entries come in crowds: one waking for many */
#define PRESSED	   64	  /* of them at once: their rows wait, but for a slice now and then */
#define PRESSED_MS 250
#define CALM_MS	   1000

int64_t projector_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct timespec at_ms(int64_t ms)
{
	return (struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
}

void projector_ring(const struct projector *pj)
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

/* ---- following ---- */

/* A start may use it from here on, and that is told only when it is so. */
static void vouch(struct projector *pj, const struct entry *e)
{
	snapshot_logged(pj, e);
	rows_commit(pj);
	(void)pthread_mutex_lock(&pj->lock);
	pj->said.snapshot_at = (uint64_t)e->snapshot.at;
	(void)pthread_mutex_unlock(&pj->lock);
}

/* What is on disk must be in the state; then its rows follow. */
static void follow_entry(struct projector *pj, const struct entry *e)
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
	rows_put(pj, e);
	if (e->kind == ENTRY_SNAPSHOT)
		vouch(pj, e);
}

int projector_parse(uint64_t seq, struct str note, struct entry_parsed *ret, struct pawl_error *err)
{
	struct entry_view v;
	int r = entry_view_parse(note, &v, err);

	return r < 0 ? r : entry_parse(v.body, seq, ret, err);
}

static int follow_note(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct projector *pj = arg;
	struct entry_parsed p;
	int r = projector_parse(seq, note, &p, err);

	if (r < 0)
		return r;
	follow_entry(pj, &p.e);
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
		if (whole)
			follow_entry(pj, &p->e);
		free(p);
	}
}

/* ---- the old part of the log ---- */

/* Says nothing about the log: asked again, it may be read. */
static bool is_for_now(const struct pawl_error *err)
{
	return err->code == PAWL_E_NOMEM || (err->code == PAWL_E_SYS && (err->os_errno == ENOMEM || err->os_errno == EMFILE || err->os_errno == ENFILE));
}

static void check_old(struct projector *pj)
{
	uint64_t to = pj->unread - pj->read > SLICE ? pj->read + SLICE : pj->unread;
	struct pawl_error err = { .code = PAWL_OK };
	struct chain old = pj->old;
	int r = chain_walk(&old, pj->journal, pj->read, to, &err);

	if (r == 0 && to == pj->unread)
		r = chain_ends_in(&old, pj->chain, to, &err);
	if (r < 0 && is_for_now(&err)) {
		nap(MEMORY_MS);
		return;
	}
	pj->old = old;
	pj->read = r == 0 ? to : pj->unread; /* nothing more is to be learnt */
	if (r == 0)
		return;
	snapshots_forget(pj);
	(void)pthread_mutex_lock(&pj->lock);
	pj->damage = err;
	(void)pthread_mutex_unlock(&pj->lock);
	projector_ring(pj);
}

/* ---- the thread ---- */

/* Under lock. */
static void wait_for_work(struct projector *pj)
{
	struct timespec until;
	int64_t ms;

	while (!pj->in.head && pj->durable <= pj->next && !pj->stop && !pj->finish && !rows_behind(pj) && pj->read == pj->unread) {
		if (!pj->retry && !pj->in_tx) {
			(void)pthread_cond_wait(&pj->wake, &pj->lock);
			continue;
		}
		ms = pj->in_tx ? projector_ms() + COMMIT_MS : pj->retry_at_ms;
		until = at_ms(ms);
		if (pthread_cond_timedwait(&pj->wake, &pj->lock, &until) != 0)
			return; /* committed, or tried again: see work() */
	}
}

/* Under lock. false: all is done, and the thread is to end. */
static bool take_work(struct projector *pj, struct pending_queue *list, uint64_t *ret_durable, bool *ret_finish)
{
	pj->said.rows = pj->db ? projection_applied(pj->db) : pj->rows;
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

/* Of what waits for a calm moment. */
static void do_slice(struct projector *pj, bool finish)
{
	pj->slice_ms = projector_ms();
	if (rows_behind(pj))
		rows_catch_up(pj);
	else if (!finish)
		check_old(pj);
}

static void work(struct projector *pj, struct pending_queue *list, uint64_t durable, bool finish)
{
	int64_t now = projector_ms();
	bool busy = list->n > 0, calm;

	if (list->n >= PRESSED)
		pj->calm_at_ms = now + CALM_MS;
	pj->pressed = now < pj->calm_at_ms && !finish;
	calm = !pj->pressed || now - pj->slice_ms >= PRESSED_MS;
	if (pj->retry && (finish || now >= pj->retry_at_ms)) /* however much there is to do: it may never be quiet */
		rows_open(pj);
	follow(pj, list);
	(void)follow_journal(pj, durable);
	if (finish || rows_due(pj) || rows_behind(pj))
		rows_commit(pj);
	if (calm && (rows_behind(pj) || pj->read < pj->unread))
		do_slice(pj, finish);
	if (snapshot_due(pj) || (finish && pj->next >= durable && durable && pj->db && pj->last_at + 1 < pj->next))
		snapshot_store(pj);
	if (busy && !finish)
		nap(GATHER_MS);
}

static void *projector_main(void *arg)
{
	struct projector *pj = arg;
	struct pending_queue list;
	uint64_t durable;
	bool finish;

	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); /* on a busy machine judge and committer go first */
	if (pj->path)
		rows_open(pj);
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
	rows_commit(pj);
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
	*pj = (struct projector){ .journal = cfg->journal, .path = path, .st = cfg->state, .next = state_next_seq(cfg->state),
				  .every = cfg->snapshot_every ? cfg->snapshot_every : SNAPSHOT_EVERY,
				  .max_queue = cfg->max_queue ? cfg->max_queue : MAX_QUEUE, .last_at = cfg->snapshot_at, .unread = cfg->unread };
	pj->durable = pj->next;
	pj->said.snapshot_at = cfg->snapshot_at;
	(void)snprintf(pj->origin, sizeof(pj->origin), "%.*s", STR_ARG(cfg->origin));
	pj->old = (struct chain){ .origin = str_of(pj->origin) };
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
	const struct timespec until = at_ms(projector_ms() + wait_ms);

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
