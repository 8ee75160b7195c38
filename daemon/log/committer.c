/* daemon/log/committer.c - see committer.h. Group commit: whatever waits while one batch is signed and synced is the
 * next batch, so no timer is needed. Owns its thread, the chain and the items; borrows journal and key.
 *
 * Everything between threads passes under one mutex: `waiting` in, `done` out, `failed`. An item has all its memory
 * from committer_reserve(), so nothing after it can fail but the disk. Once failed, the thread touches neither journal
 * nor chain until committer_recover() clears the flag. */
#include "daemon/log/committer_item.h"

#include <sodium.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct committer {
	struct journal *journal;
	const struct sign_key *key;
	commit_put_secrets *put_secrets;
	commit_drop_values *drop_values;
	void *put_arg;
	size_t max_queue;
	char origin[PAWL_MAX_ORIGIN];
	size_t origin_n;
	int event;
	pthread_t thread;

	pthread_mutex_t *lock; /* in memory of its own: committer_failed() takes it on a const committer */
	pthread_cond_t wake;
	/* under lock: */
	struct list waiting, done;
	size_t held, held_bytes; /* reserved and not yet reaped */
	size_t undone;           /* pushed and not yet in `done` */
	bool failed, stop;
	struct pawl_error why;
	uint64_t *drops, drop_after; /* committer_drop() */
	size_t n_drops;
	/* the thread's, or the owner's while failed: */
	uint64_t next_seq;
	uint8_t prev[32];
};

static void lock(const struct committer *c)
{
	(void)pthread_mutex_lock(c->lock);
}

static void unlock(const struct committer *c)
{
	(void)pthread_mutex_unlock(c->lock);
}

static void ring(const struct committer *c)
{
	uint64_t one = 1;
	ssize_t n = write(c->event, &one, sizeof(one)); /* fails only when 2^64 - 2 rings wait: it is readable then */

	(void)n;
}

/* ---- the thread ---- */

static int secrets_put(struct committer *c, const struct list *batch, struct pawl_error *err)
{
	struct private_row rows[3 * COMMIT_MAX_ENTRIES];
	size_t n = 0;
	int r;

	for (struct item *it = batch->head; it; it = it->next) {
		if (it->has_secret) {
			rows[n] = (struct private_row){ .tree = it->tree };
			memcpy(rows[n++].secret, it->secret, 32);
			sodium_memzero(it->secret, sizeof(it->secret));
		}
		for (int i = 0; i < 2; i++)
			if (it->value[i].p)
				rows[n++] = (struct private_row){
					.tree = it->tree, .seq = it->seq, .value = { it->value[i].p, it->value[i].n }, .record = i == 1
				};
	}
	if (n == 0)
		return 0;
	r = c->put_secrets ? c->put_secrets(c->put_arg, rows, n, err)
			   : pawl_fail(err, PAWL_E_FULL, "no private store for a secret");
	sodium_memzero(rows, n * sizeof(rows[0]));
	return r;
}

/* Fills in the chain, hashes and signs. prev goes from the entry before to this one. */
static int item_sign(const struct committer *c, struct item *it, uint64_t seq, uint8_t prev[static 32],
		     struct pawl_error *err)
{
	struct str text = buf_str(&it->note);
	const struct vkey *pub = sign_key_vkey(c->key);
	uint8_t sig[64];

	if (it->seq != seq)
		return pawl_fail(err, PAWL_E_CONFLICT, "entry %llu was pushed as %llu", (unsigned long long)seq,
				 (unsigned long long)it->seq);
	entry_prev_text(prev, it->note.p + it->prev_at);
	entry_hash(text, prev);
	sign_key_sign(c->key, text, sig);
	note_sig_line(pub->name, pub->id, sig, &it->note);
	return buf_ok(&it->note)
		   ? 0
		   : pawl_fail(err, PAWL_E_LIMIT, "entry %llu is over its reserved size", (unsigned long long)seq);
}

static int batch_commit(struct committer *c, const struct list *batch, struct pawl_error *err)
{
	struct str notes[COMMIT_MAX_ENTRIES];
	bool last_resort = false;
	uint8_t prev[32];
	size_t n = 0;
	int r = secrets_put(c, batch, err);

	memcpy(prev, c->prev, sizeof(prev));
	for (struct item *it = batch->head; r == 0 && it; it = it->next) {
		r = item_sign(c, it, c->next_seq + n, prev, err);
		notes[n++] = buf_str(&it->note);
		last_resort |= it->last_resort;
	}
	if (r == 0)
		r = journal_append(c->journal, c->next_seq, notes, n, last_resort, err);
	if (r == 0) {
		c->next_seq += n;
		memcpy(c->prev, prev, sizeof(prev));
	}
	return r;
}

/* Under lock. Takes what waits, up to one batch. */
static void batch_take(struct committer *c, struct list *batch)
{
	size_t n = 0, bytes = 0;

	list_init(batch);
	while (c->waiting.head && n < COMMIT_MAX_ENTRIES &&
	       (n == 0 || bytes + c->waiting.head->cost <= COMMIT_MAX_BYTES)) {
		struct item *it = list_pop(&c->waiting);

		bytes += it->cost;
		n++;
		list_add(batch, it);
	}
}

/* Under lock. */
static void finish(struct committer *c, struct list *from, bool durable)
{
	struct item *it;

	while ((it = list_pop(from))) {
		it->durable = durable;
		c->undone--;
		list_add(&c->done, it);
	}
}

/* Under lock. While entries wait only a great many are worth a sync that nobody has asked for. */
static bool drops_due(const struct committer *c)
{
	return c->n_drops && !c->failed && c->next_seq >= c->drop_after && (!c->waiting.head || c->n_drops == COMMIT_MAX_DROPS);
}

/* Under lock, which it lets go in between. */
static void drops_run(struct committer *c)
{
	uint64_t *seqs = c->drops;
	size_t n = c->n_drops;

	c->drops = NULL;
	c->n_drops = 0;
	unlock(c);
	(void)c->drop_values(c->put_arg, seqs, n, NULL); /* the next start looks again */
	free(seqs);
	lock(c);
}

static void *committer_main(void *arg)
{
	struct committer *c = arg;
	struct list batch;

	lock(c);
	for (;;) {
		struct pawl_error err = { .code = PAWL_OK };
		int r;

		while (!c->waiting.head && !c->stop && !drops_due(c))
			(void)pthread_cond_wait(&c->wake, c->lock);
		if (drops_due(c)) {
			drops_run(c);
			continue;
		}
		if (!c->waiting.head)
			break;
		if (c->failed) {
			finish(c, &c->waiting, false);
			ring(c);
			continue;
		}
		batch_take(c, &batch);
		unlock(c);
		r = batch_commit(c, &batch, &err);
		lock(c);
		if (r < 0) {
			c->failed = true;
			c->why = err;
			c->n_drops = 0; /* what ended these cards may be among the entries that failed */
		}
		finish(c, &batch, r == 0);
		if (r < 0)
			finish(c, &c->waiting, false); /* they were chained behind what is not there */
		ring(c);
	}
	unlock(c);
	return NULL;
}

/* ---- the owner's side ---- */

static int thread_start(struct committer *c, struct pawl_error *err)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old); /* the thread inherits it: signals belong to the loop */
	r = pthread_create(&c->thread, NULL, committer_main, c);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r == 0 ? 0 : pawl_fail(err, PAWL_E_SYS, "committer thread: %s", strerror(r));
}

int committer_new(const struct committer_config *cfg, struct committer **ret, struct pawl_error *err)
{
	struct committer *c;
	int r = 0;

	if (cfg->origin.n == 0 || cfg->origin.n > PAWL_MAX_ORIGIN || !note_name_ok(cfg->origin))
		return pawl_fail(err, PAWL_E_USAGE, "origin: not a name of at most %d bytes", PAWL_MAX_ORIGIN);
	c = calloc(1, sizeof(*c));
	if (c)
		c->lock = calloc(1, sizeof(*c->lock));
	if (!c || !c->lock) {
		free(c);
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the committer");
	}
	c->journal = cfg->journal;
	c->key = cfg->key;
	c->put_secrets = cfg->put_secrets;
	c->drop_values = cfg->drop_values;
	c->put_arg = cfg->put_arg;
	c->max_queue = cfg->max_queue ? cfg->max_queue : 4096;
	memcpy(c->origin, cfg->origin.p, cfg->origin.n);
	c->origin_n = cfg->origin.n;
	c->next_seq = cfg->next_seq;
	memcpy(c->prev, cfg->prev, sizeof(c->prev));
	(void)pthread_mutex_init(c->lock, NULL);
	(void)pthread_cond_init(&c->wake, NULL);
	c->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->event < 0 ? pawl_fail_errno(err, "eventfd") : thread_start(c, err);
	if (r < 0) {
		if (c->event >= 0)
			(void)close(c->event);
		(void)pthread_cond_destroy(&c->wake);
		(void)pthread_mutex_destroy(c->lock);
		free(c->lock);
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void committer_free(struct committer *c)
{
	struct item *it;

	if (!c)
		return;
	lock(c);
	c->stop = true;
	(void)pthread_cond_signal(&c->wake);
	unlock(c);
	(void)pthread_join(c->thread, NULL);
	while ((it = list_pop(&c->done)))
		item_free(it);
	(void)close(c->event);
	(void)pthread_cond_destroy(&c->wake);
	(void)pthread_mutex_destroy(c->lock);
	free(c->lock);
	free(c->drops);
	sodium_memzero(c, sizeof(*c));
	free(c);
}

/* Under lock. */
static int room_take(struct committer *c, size_t cost, struct pawl_error *err)
{
	if (c->failed)
		return pawl_fail(err, PAWL_E_FULL, "the log cannot be written: %s", c->why.msg);
	if (c->held >= c->max_queue || cost > COMMIT_MAX_WAITING - c->held_bytes)
		return pawl_fail(err, PAWL_E_FULL, "%zu entries (%zu bytes) wait for the log", c->held, c->held_bytes);
	c->held++;
	c->held_bytes += cost;
	return 0;
}

/* Under lock. */
static void room_give(struct committer *c, size_t cost)
{
	c->held--;
	c->held_bytes -= cost;
}

int committer_reserve(struct committer *c, size_t body_bytes, struct commit_slot *ret, struct pawl_error *err)
{
	struct str origin = { c->origin, c->origin_n };
	struct item *it;
	size_t cost;
	int r;

	if (body_bytes > PAWL_MAX_BODY)
		return pawl_fail(err, PAWL_E_LIMIT, "an entry's body of %zu bytes, at most %u", body_bytes,
				 PAWL_MAX_BODY);
	cost = entry_note_bytes(origin, sign_key_vkey(c->key)->name, body_bytes);
	lock(c);
	r = room_take(c, cost, err);
	unlock(c);
	if (r < 0)
		return r;
	it = calloc(1, sizeof(*it));
	if (it) {
		it->note = BUF_MAX(cost);
		it->cost = cost;
	}
	if (!it || !buf_room(&it->note, cost)) {
		item_free(it);
		lock(c);
		room_give(c, cost);
		unlock(c);
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for an entry of %zu bytes", cost);
	}
	*ret = (struct commit_slot){ .item = it };
	return 0;
}

void committer_cancel(struct committer *c, struct commit_slot *slot)
{
	struct item *it = slot->item;

	if (!it)
		return;
	lock(c);
	room_give(c, it->cost);
	unlock(c);
	item_free(it);
	slot->item = NULL;
}

int committer_attach(struct committer *c, struct commit_slot *slot, uint64_t tree, struct str value, bool record, struct pawl_error *err)
{
	struct item *it = slot->item;
	char *copy;
	bool room;

	if (it->value[record].p || value.n > PAWL_MAX_VALUE)
		return pawl_fail(err, PAWL_E_LIMIT, "a private value of %zu bytes, at most %u", value.n, PAWL_MAX_VALUE);
	copy = malloc(value.n + 1);
	if (!copy)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a private value of %zu bytes", value.n);
	lock(c);
	room = value.n <= COMMIT_MAX_WAITING - c->held_bytes;
	if (room) {
		c->held_bytes += value.n;
		it->cost += value.n;
	}
	unlock(c);
	if (!room) {
		free(copy);
		return pawl_fail(err, PAWL_E_FULL, "too many bytes wait for the log");
	}
	if (value.n)
		memcpy(copy, value.p, value.n);
	it->value[record].p = copy;
	it->value[record].n = value.n;
	it->tree = tree;
	return 0;
}

void committer_push(struct committer *c, struct commit_slot *slot, uint64_t seq, struct str body, uint64_t tree,
		    const uint8_t *secret, void *cookie)
{
	static const uint8_t unknown[32];
	struct item *it = slot->item;

	slot->item = NULL;
	it->seq = seq;
	it->cookie = cookie;
	it->last_resort = slot->last_resort;
	if (secret) {
		it->has_secret = true;
		it->tree = tree;
		memcpy(it->secret, secret, 32);
	}
	entry_text((struct str){ c->origin, c->origin_n }, seq, unknown, body, &it->note, &it->prev_at);
	lock(c);
	c->undone++;
	list_add(&c->waiting, it);
	(void)pthread_cond_signal(&c->wake);
	unlock(c);
}

void committer_drop(struct committer *c, const uint64_t *seqs, size_t n, uint64_t after)
{
	lock(c);
	if (c->drop_values && !c->drops)
		c->drops = malloc(COMMIT_MAX_DROPS * sizeof(*c->drops));
	for (size_t i = 0; c->drops && i < n && c->n_drops < COMMIT_MAX_DROPS; i++)
		c->drops[c->n_drops++] = seqs[i];
	if (after > c->drop_after)
		c->drop_after = after;
	(void)pthread_cond_signal(&c->wake);
	unlock(c);
}

int committer_fd(const struct committer *c)
{
	return c->event;
}

/* Field by field: an error is mostly room for a message, and every result would have it cleared. */
static void result_take(const struct committer *c, struct item *it, struct commit_result *out)
{
	out->seq = it->seq;
	out->cookie = it->cookie;
	out->durable = it->durable;
	out->note = NULL;
	out->note_n = 0;
	out->err.code = PAWL_OK;
	if (it->durable)
		out->note = buf_take(&it->note, &out->note_n); /* room for its NUL was reserved */
	else
		out->err = c->why;
}

size_t committer_reap(struct committer *c, struct commit_result *out, size_t max)
{
	struct item *it;
	uint64_t rings;
	ssize_t got;
	size_t n = 0;

	lock(c);
	while (n < max && (it = list_pop(&c->done))) {
		room_give(c, it->cost);
		result_take(c, it, &out[n++]);
		item_free(it);
	}
	if (!c->done.head) {
		got = read(c->event, &rings, sizeof(rings)); /* under lock: a ring that comes later is not lost */
		(void)got;
	}
	unlock(c);
	return n;
}

bool committer_failed(const struct committer *c)
{
	bool failed;

	lock(c);
	failed = c->failed;
	unlock(c);
	return failed;
}

int committer_recover(struct committer *c, bool last_resort, uint64_t *ret_next_seq, struct pawl_error *err)
{
	bool busy, failed;
	int r = 0;

	lock(c);
	busy = c->done.head || c->undone;
	failed = c->failed;
	unlock(c);
	if (busy)
		return pawl_fail(err, PAWL_E_BUSY, "results still wait to be reaped");
	if (failed)
		r = last_resort ? journal_repair(c->journal, err) : journal_ready(c->journal, err); /* the thread keeps away while failed is set */
	if (r < 0)
		return r;
	lock(c);
	c->failed = false;
	*ret_next_seq = c->next_seq;
	unlock(c);
	return 0;
}
