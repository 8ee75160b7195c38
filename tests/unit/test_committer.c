/* tests/unit/test_committer.c - the thread that signs and syncs: order, batches, secrets first, failures that reach
 * everyone behind (S11). */
#include "tests/support/log_fixture.h"

#include "daemon/log/committer.h"
#include "daemon/log/verify.h"
#include "tests/support/fail_malloc.h"

#include <poll.h>
#include <signal.h>

static char dir[64];
static struct sign_key *key;

/* What the thread does and when, with the n-th sync failing on request. */
struct world {
	struct journal *journal;
	struct committer *c;
	pthread_mutex_t lock;
	unsigned syncs, fail_sync, puts, fail_put;
	size_t secrets;
	int slow_us; /* a sync takes so long */

	unsigned syncs_at_put;
	unsigned drops;
	uint64_t dropped[8];
	size_t n_dropped;
};

static int w_drop(void *arg, const uint64_t *seqs, size_t n, struct pawl_error *err)
{
	struct world *w = arg;

	(void)err;
	(void)pthread_mutex_lock(&w->lock);
	w->drops++;
	for (size_t i = 0; i < n && w->n_dropped < PAWL_LEN(w->dropped); i++)
		w->dropped[w->n_dropped++] = seqs[i];
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}

static size_t dropped(struct world *w)
{
	size_t n;

	(void)pthread_mutex_lock(&w->lock);
	n = w->n_dropped;
	(void)pthread_mutex_unlock(&w->lock);
	return n;
}

static int w_fdatasync(void *arg, int fd)
{
	struct world *w = arg;
	unsigned n, bad;

	(void)pthread_mutex_lock(&w->lock);
	n = ++w->syncs;
	bad = w->fail_sync;
	(void)pthread_mutex_unlock(&w->lock);
	if (w->slow_us)
		(void)usleep((useconds_t)w->slow_us);
	if (bad && n >= bad) {
		errno = EIO;
		return -1;
	}
	return fdatasync(fd);
}

static int w_put(void *arg, const struct private_row *rows, size_t n, struct pawl_error *err)
{
	struct world *w = arg;
	int r = 0;

	(void)pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(rows[i].secret[0], (uint8_t)rows[i].tree);
	w->puts++;
	w->secrets += n;
	w->syncs_at_put = w->syncs;
	if (w->fail_put && w->puts >= w->fail_put)
		r = pawl_fail(err, PAWL_E_FULL, "private store is full");
	(void)pthread_mutex_unlock(&w->lock);
	return r;
}

static void start(struct world *w, size_t max_queue)
{
	const struct journal_io io = { journal_io_real.pwrite, w_fdatasync, journal_io_real.fsync,
				       journal_io_real.fallocate, w };
	const struct journal_config jc = { .dir = dir, .origin = STR(FX_ORIGIN), .segment_bytes = 1u << 20, .io = &io };
	struct committer_config cc = {
		.key = key, .origin = STR(FX_ORIGIN), .put_secrets = w_put, .drop_values = w_drop, .put_arg = w, .max_queue = max_queue
	};
	struct journal_recovery rec;
	struct pawl_error err;

	fx_remove(dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	*w = (struct world){ .syncs = 0 };
	(void)pthread_mutex_init(&w->lock, NULL);
	/* pwrite of journal_io_real ignores its argument, so w may be the argument of all four */
	if (journal_open(&jc, NULL, NULL, &w->journal, &rec, &err) < 0)
		fail_msg("%s", err.msg);
	cc.journal = w->journal;
	if (committer_new(&cc, &w->c, &err) < 0)
		fail_msg("%s", err.msg);
}

static void stop(struct world *w)
{
	committer_free(w->c);
	journal_close(w->journal);
	(void)pthread_mutex_destroy(&w->lock);
}

static int push(struct world *w, uint64_t seq, bool secret, bool last_resort, struct pawl_error *err)
{
	struct commit_slot slot;
	uint8_t s[32];
	char body[64];
	int n = snprintf(body, sizeof(body), "{\"kind\":\"stop\",\"why\":\"%llu\"}", (unsigned long long)seq);
	int r = committer_reserve(w->c, (size_t)n, &slot, err);

	if (r < 0)
		return r;
	memset(s, (uint8_t)seq, sizeof(s));
	slot.last_resort = last_resort;
	committer_push(w->c, &slot, seq, (struct str){ body, (size_t)n }, seq, secret ? s : NULL,
		       (void *)(uintptr_t)(seq + 1));
	return 0;
}

/* Waits for n results. good of them must be durable, the rest not; in order from `first`. */
static void reap(struct world *w, uint64_t first, size_t n, size_t good)
{
	struct commit_result got[7];
	size_t seen = 0;

	while (seen < n) {
		struct pollfd p = { committer_fd(w->c), POLLIN, 0 };
		size_t k;

		assert_int_equal(poll(&p, 1, 10000), 1);
		k = committer_reap(w->c, got, PAWL_LEN(got));
		for (size_t i = 0; i < k; i++, seen++) {
			struct entry_view v;
			struct pawl_error err;

			assert_int_equal(got[i].seq, first + seen);
			assert_int_equal((uintptr_t)got[i].cookie, first + seen + 1);
			assert_int_equal(got[i].durable, seen < good);
			if (!got[i].durable) {
				assert_null(got[i].note);
				assert_true(got[i].err.code < 0 && got[i].err.msg[0]);
				continue;
			}
			assert_int_equal(entry_view_parse((struct str){ got[i].note, got[i].note_n }, &v, &err), 0);
			assert_int_equal(entry_view_verify(&v, sign_key_vkey(key), &err), 0);
			assert_int_equal(v.seq, got[i].seq);
			free(got[i].note);
		}
	}
	assert_int_equal(seen, n);
}

static void expect_log(uint64_t entries)
{
	struct verify_report rep;
	struct pawl_error err;

	assert_int_equal(log_verify(dir, sign_key_vkey(key), NULL, NULL, NULL, &rep, &err), 0);
	if (rep.status != (entries ? VERIFY_NO_ANCHOR : VERIFY_NOTHING) || rep.entries != entries)
		fail_msg("%s: %s, %llu entries", verify_word(rep.status), rep.message, (unsigned long long)rep.entries);
}

static void test_order_and_batches(void **state)
{
	struct pawl_error err;
	struct world w;

	(void)state;
	start(&w, 0);
	w.slow_us = 2000;
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(push(&w, i, false, false, &err), 0);
	reap(&w, 0, 1000, 1000);
	assert_true(w.syncs < 40); /* group commit: 1,000 entries, at most 256 a sync */
	assert_true(w.syncs >= 4);
	assert_int_equal(w.puts, 0);
	stop(&w);
	expect_log(1000);
}

/* A stop right after the pushes: all of it is still committed. */
static void test_free_commits(void **state)
{
	struct pawl_error err;
	struct world w;

	(void)state;
	start(&w, 0);
	for (uint64_t i = 0; i < 300; i++)
		assert_int_equal(push(&w, i, false, false, &err), 0);
	stop(&w);
	expect_log(300);
	committer_free(NULL);
}

static void wait_for_drops(struct world *w, size_t n)
{
	for (int i = 0; i < 10000 && dropped(w) < n; i++)
		(void)usleep(1000);
	assert_int_equal(dropped(w), n);
}

/* Values go when what ended their cards is durable, and not before; what failed ends nothing. */
static void test_drops(void **state)
{
	struct pawl_error err;
	struct world w;

	(void)state;
	start(&w, 0);
	committer_drop(w.c, (const uint64_t[]){ 70, 71 }, 2, 2);
	assert_int_equal(push(&w, 0, false, false, &err), 0);
	reap(&w, 0, 1, 1);
	(void)usleep(20000);
	assert_int_equal(dropped(&w), 0); /* entry 1 is not there yet */
	assert_int_equal(push(&w, 1, false, false, &err), 0);
	reap(&w, 1, 1, 1);
	wait_for_drops(&w, 2);
	assert_int_equal(w.drops, 1); /* both at once */
	assert_true(w.dropped[0] == 70 && w.dropped[1] == 71);
	committer_drop(w.c, (const uint64_t[]){ 72 }, 1, 2); /* nobody has to push for it */
	wait_for_drops(&w, 3);
	committer_drop(w.c, (const uint64_t[]){ 73 }, 1, 3);
	w.fail_sync = w.syncs + 1;
	assert_int_equal(push(&w, 2, false, false, &err), 0);
	reap(&w, 2, 1, 0);
	(void)usleep(20000);
	assert_int_equal(dropped(&w), 3);
	committer_drop(w.c, (const uint64_t[]){ 74 }, 1, 2); /* while it is closed */
	stop(&w);
	assert_int_equal(w.n_dropped, 3);
}

/* A stop does what is due; a great many do not grow without end. */
static void test_drops_at_the_end(void **state)
{
	static const uint64_t many[COMMIT_MAX_DROPS + 1];
	struct world w;

	(void)state;
	start(&w, 0);
	committer_drop(w.c, many, PAWL_LEN(many), 1); /* never due */
	stop(&w);
	assert_int_equal(w.drops, 0);
	start(&w, 0);
	committer_drop(w.c, (const uint64_t[]){ 5 }, 1, 0);
	stop(&w);
	assert_int_equal(w.n_dropped, 1);
}

static void test_secrets_first(void **state)
{
	struct pawl_error err;
	struct world w;

	(void)state;
	start(&w, 0);
	assert_int_equal(push(&w, 0, false, false, &err), 0);
	reap(&w, 0, 1, 1);
	assert_int_equal(w.puts, 0); /* no second sync for a batch without secrets */
	unsigned before = w.syncs;
	assert_int_equal(push(&w, 1, true, false, &err), 0);
	reap(&w, 1, 1, 1);
	assert_int_equal(w.puts, 1);
	assert_int_equal(w.syncs_at_put, before); /* the store was synced before the journal */
	w.fail_put = 2;
	assert_int_equal(push(&w, 2, true, false, &err), 0);
	reap(&w, 2, 1, 0);
	assert_true(committer_failed(w.c));
	assert_false(journal_broken(w.journal)); /* the journal never saw it */
	stop(&w);
	expect_log(2);
}

/* A failed sync: that batch and all behind it fail, in order; nothing is taken until the owner recovered; then it goes
 * on. */
static void test_failure_and_recovery(void **state)
{
	struct pawl_error err;
	struct world w;
	uint64_t next = 99;
	size_t pushed = 0;

	(void)state;
	start(&w, 0);
	assert_int_equal(push(&w, 0, false, false, &err), 0);
	reap(&w, 0, 1, 1);
	(void)pthread_mutex_lock(&w.lock);
	w.fail_sync = w.syncs + 1;
	(void)pthread_mutex_unlock(&w.lock);
	while (pushed < 500 && push(&w, 1 + pushed, false, false, &err) == 0)
		pushed++;
	assert_true(pushed > 0);
	while (!committer_failed(w.c))
		(void)usleep(100);
	assert_int_equal(push(&w, 1 + pushed, false, false, &err), PAWL_E_FULL); /* refused before anything changed */
	assert_int_equal(committer_recover(w.c, false, &next, &err), PAWL_E_BUSY);      /* not while results wait */
	assert_int_equal(next, 99);
	reap(&w, 1, pushed, 0);
	assert_true(committer_recover(w.c, false, &next, &err) < 0); /* the disk is still bad */
	assert_true(committer_failed(w.c));
	(void)pthread_mutex_lock(&w.lock);
	w.fail_sync = 0;
	(void)pthread_mutex_unlock(&w.lock);
	assert_int_equal(committer_recover(w.c, false, &next, &err), 0);
	assert_int_equal(next, 1);
	assert_false(committer_failed(w.c));
	for (uint64_t i = 1; i < 50; i++)
		assert_int_equal(push(&w, i, i % 5 == 0, false, &err), 0);
	reap(&w, 1, 49, 49);
	stop(&w);
	expect_log(50);
}

/* A slot from before the failure, pushed after it: it fails too, since what it was to follow is not there. */
static void test_push_after_failure(void **state)
{
	struct commit_slot old;
	struct pawl_error err;
	struct world w;
	uint64_t next;

	(void)state;
	start(&w, 0);
	assert_int_equal(committer_reserve(w.c, 2, &old, &err), 0);
	w.fail_sync = w.syncs + 1;
	assert_int_equal(push(&w, 0, false, false, &err), 0);
	reap(&w, 0, 1, 0);
	committer_push(w.c, &old, 1, STR("{}"), 0, NULL, (void *)2);
	reap(&w, 1, 1, 0);
	w.fail_sync = 0;
	assert_int_equal(committer_recover(w.c, false, &next, &err), 0);
	assert_int_equal(next, 0);
	assert_int_equal(push(&w, 7, false, false, &err), 0); /* a wrong sequence is refused, not written */
	reap(&w, 7, 1, 0);
	assert_int_equal(committer_recover(w.c, false, &next, &err), 0);
	assert_int_equal(push(&w, 0, false, false, &err), 0);
	reap(&w, 0, 1, 1);
	stop(&w);
	expect_log(1);
}

static void test_bounds(void **state)
{
	struct commit_slot slot, slots[3];
	struct pawl_error err;
	struct world w;

	(void)state;
	start(&w, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(committer_reserve(w.c, 10, &slots[i], &err), 0);
	assert_int_equal(committer_reserve(w.c, 10, &slot, &err), PAWL_E_FULL);
	for (int i = 0; i < 3; i++)
		committer_cancel(w.c, &slots[i]);
	committer_cancel(w.c, &slots[0]); /* again: nothing */
	assert_int_equal(committer_reserve(w.c, PAWL_MAX_BODY + 1, &slot, &err), PAWL_E_LIMIT);
	assert_int_equal(committer_reserve(w.c, PAWL_MAX_BODY, &slot, &err), 0);
	char *big = malloc(PAWL_MAX_BODY);
	assert_non_null(big);
	memset(big, ' ', PAWL_MAX_BODY);
	big[0] = '{';
	big[PAWL_MAX_BODY - 1] = '}';
	committer_push(w.c, &slot, 0, (struct str){ big, PAWL_MAX_BODY }, 0, NULL, (void *)1);
	reap(&w, 0, 1, 1);
	assert_int_equal(committer_reserve(w.c, 4, &slot, &err),
			 0); /* more than was reserved: fails, writes nothing beyond */
	committer_push(w.c, &slot, 1, (struct str){ big, PAWL_MAX_BODY }, 0, NULL, (void *)2);
	reap(&w, 1, 1, 0);
	free(big);
	stop(&w);
	expect_log(1);
}

/* committer_reserve() is the last place where memory can be missing: what got a slot gets an answer. */
static void test_every_malloc(void **state)
{
	struct commit_slot slot;
	struct pawl_error err;
	struct world w;
	long n;

	(void)state;
	start(&w, 1);
	for (n = 1;; n++) {
		int r;

		fail_malloc_after(n);
		r = committer_reserve(w.c, 100, &slot, &err);
		if (!fail_malloc_stop()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, PAWL_E_NOMEM); /* and the one place in the queue is free again */
	}
	assert_true(n > 2);
	fail_malloc_after(1); /* in this thread: a push that allocated would fail */
	committer_push(w.c, &slot, 0, STR("{}"), 0, NULL, (void *)1);
	assert_false(fail_malloc_stop());
	reap(&w, 0, 1, 1);
	stop(&w);
	for (n = 1;; n++) {
		struct committer_config cc = { .key = key, .origin = STR(FX_ORIGIN) };
		struct committer *c = NULL;
		int r;

		fail_malloc_after(n);
		r = committer_new(&cc, &c, &err);
		if (!fail_malloc_stop()) {
			assert_int_equal(r, 0);
			committer_free(c);
			break;
		}
		if (r == 0) /* glibc's own, for the thread */
			committer_free(c);
		assert_true(n < 50);
	}
}

/* Restart: the chain goes on over the old entries. */
static void test_restart(void **state)
{
	struct pawl_error err;
	struct world w;

	(void)state;
	start(&w, 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(push(&w, i, false, false, &err), 0);
	reap(&w, 0, 3, 3);
	stop(&w);
	struct verify_report rep;
	assert_int_equal(log_verify(dir, sign_key_vkey(key), NULL, NULL, NULL, &rep, &err), 0);
	const struct journal_config jc = { .dir = dir, .origin = STR(FX_ORIGIN), .segment_bytes = 1u << 20 };
	struct committer_config cc = { .key = key, .origin = STR(FX_ORIGIN), .next_seq = 3 };
	struct journal_recovery rec;
	assert_int_equal(journal_open(&jc, NULL, NULL, &w.journal, &rec, &err), 0);
	memcpy(cc.prev, rep.last_hash, 32);
	cc.journal = w.journal;
	assert_int_equal(committer_new(&cc, &w.c, &err), 0);
	assert_int_equal(push(&w, 3, false, false, &err), 0);
	reap(&w, 3, 1, 1);
	assert_int_equal(push(&w, 4, true, false, &err), 0); /* a secret and no store */
	reap(&w, 4, 1, 0);
	committer_free(w.c);
	journal_close(w.journal);
	expect_log(4);
}

/* TERM and HUP belong to the loop: the thread must not be the one that gets them. */
static void test_signals_blocked(void **state)
{
	unsigned long long blocked = 0;
	char task[64], line[128];
	unsigned threads = 0;
	struct dirent *e;
	struct world w;
	sigset_t mine;
	DIR *d;

	(void)state;
	start(&w, 0);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
	assert_false(sigismember(&mine, SIGTERM)); /* and ours is as it was */
	d = opendir("/proc/self/task");
	assert_non_null(d);
	while ((e = readdir(d))) {
		FILE *f;

		if (e->d_name[0] == '.' || atol(e->d_name) == gettid())
			continue;
		(void)snprintf(task, sizeof(task), "/proc/self/task/%.20s/status", e->d_name);
		f = fopen(task, "r");
		assert_non_null(f);
		while (fgets(line, sizeof(line), f))
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1 && (blocked >> (SIGTERM - 1) & 1) &&
			    (blocked >> (SIGHUP - 1) & 1))
				threads++;
		(void)fclose(f);
	}
	(void)closedir(d);
	assert_true(threads >= 1);
	stop(&w);
}

static int setup(void **state)
{
	(void)state;
	fx_dir(dir);
	key = fx_key();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fx_remove(dir);
	sign_key_free(key);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_batches),  cmocka_unit_test(test_free_commits),
		cmocka_unit_test(test_drops),
		cmocka_unit_test(test_drops_at_the_end),
		cmocka_unit_test(test_secrets_first),      cmocka_unit_test(test_failure_and_recovery),
		cmocka_unit_test(test_push_after_failure), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_every_malloc),       cmocka_unit_test(test_restart),
		cmocka_unit_test(test_signals_blocked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
