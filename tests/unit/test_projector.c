/* tests/unit/test_projector.c - the thread that follows the log: its state is the judge's, its snapshots are what the log says of them, and neither
 * a lost file nor a queue that is full nor a damaged old log goes by quietly. */
#include "daemon/store/projection.h"
#include "tests/support/spine_world.h"

#include <sys/resource.h>
#include <sys/stat.h>

static int make_small(void **state)
{
	return make_world_with(state, (struct world){ .rows = true, .every = 10 });
}

static int make_narrow(void **state)
{
	return make_world_with(state, (struct world){ .rows = true, .every = 10, .queue = 1 });
}

static int make_late(void **state) /* snapshots at the end alone */
{
	return make_world_with(state, (struct world){ .rows = true });
}

/* Lets everything come to rest: answers, the projector, and the entries it asks for. */
static void settle_down(struct world *w)
{
	struct projector_status s;
	struct pawl_error err = { .code = PAWL_OK };

	for (int i = 0;; i++) {
		assert_true(i < 2000);
		run_until_owed_nothing(w);
		if (mediate_follow(&w->m, &err) < 0)
			fail_msg("%s", err.msg);
		(void)mediate_tick(&w->m, clock_now(&w->clock));
		projector_status(w->projector, &s);
		if (mediate_owed(&w->m) == 0 && (s.rows == w->m.durable || s.problem[0]))
			return;
		(void)poll(NULL, 0, 2);
	}
}

static void traffic(struct world *w, const char *name, int n)
{
	for (int i = 0; i < n; i++) {
		char call[32];
		struct got g;

		(void)snprintf(call, sizeof(call), "%s%d", name, i);
		g = ask(w, (struct asked){ .tool = "free", .call = call, .args = "{\"x\":1}" });
		assert_int_equal(g.verdict, VERDICT_ALLOW);
		(void)settle(w, g.seq, OUTCOME_OK, -1);
	}
}

/* No two alike, so that no loop is found. */
static void various(struct world *w, const char *name, int n)
{
	for (int i = 0; i < n; i++) {
		char call[64], args[96];
		struct got g;

		(void)snprintf(call, sizeof(call), "%s%d", name, i);
		(void)snprintf(args, sizeof(args), "{\"call\":\"%s\"}", call);
		g = ask(w, (struct asked){ .tool = "free", .call = call, .args = args });
		assert_int_equal(g.verdict, VERDICT_ALLOW);
		(void)settle(w, g.seq, OUTCOME_OK, -1);
	}
}

static int no_news(void *arg, const void *p, size_t n, struct pawl_error *err)
{
	(void)err;
	(void)crypto_hash_sha256_update(arg, p, n);
	return 0;
}

struct pull {
	struct projection_reader *r;
};

static int pull(void *arg, void *p, size_t max, size_t *ret_n, struct pawl_error *err)
{
	return projection_reader_read(((struct pull *)arg)->r, p, max, ret_n, err);
}

/* The newest one whose entry is noted: its bytes have the hash in the log, and are the state that the log makes up to there. */
static void check_snapshot(struct world *w, uint64_t *ret_at)
{
	struct projection_snapshot rows[4];
	struct entry_parsed p;
	struct entry_view v;
	struct pawl_error err;
	struct projection *db = NULL;
	struct state *st = NULL;
	struct pull from;
	crypto_hash_sha256_state h;
	struct buf note = BUF_MAX(PAWL_MAX_NOTE);
	uint8_t hash[32], digest[32];
	size_t n = 0, i = 0;

	if (projection_open_readonly(w->file, &db, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(projection_snapshots(db, rows, PAWL_LEN(rows), &n, &err), 0);
	while (i < n && rows[i].entry == 0)
		i++;
	assert_true(i < n);
	assert_int_equal(journal_read(w->journal, rows[i].entry, &note, &err), 0);
	assert_int_equal(entry_view_parse(buf_str(&note), &v, &err), 0);
	assert_int_equal(entry_parse(v.body, rows[i].entry, &p, &err), 0);
	assert_int_equal(p.e.kind, ENTRY_SNAPSHOT);
	assert_int_equal(p.e.snapshot.at, rows[i].at);
	assert_int_equal(p.e.snapshot.bytes, rows[i].bytes);
	(void)crypto_hash_sha256_init(&h);
	assert_int_equal(projection_snapshot_read(db, &rows[i], no_news, &h, &err), 0);
	(void)crypto_hash_sha256_final(&h, hash);
	assert_memory_equal(hash, p.e.snapshot.sha256, 32);
	entry_parsed_done(&p);
	assert_int_equal(projection_reader_open(db, &rows[i], &from.r, &err), 0);
	if (state_read(pull, &from, &st, &err) < 0)
		fail_msg("%s", err.msg);
	projection_reader_close(from.r);
	assert_int_equal(state_next_seq(st), rows[i].at);
	state_digest(st, digest);
	assert_memory_equal(digest, hash, 32);
	*ret_at = rows[i].at;
	state_free(st);
	projection_close(db);
	buf_done(&note);
}

static void test_every_so_many(void **state)
{
	struct world *w = *state;
	struct projector_status s;
	uint64_t at;

	traffic(w, "a", 20);
	settle_down(w);
	check_snapshot(w, &at);
	projector_status(w->projector, &s);
	assert_int_equal(s.snapshot_at, at);
	assert_true(at > 0 && at <= w->m.durable);
	traffic(w, "b", 20);
	settle_down(w);
	projector_status(w->projector, &s);
	assert_true(s.snapshot_at > at);
	assert_states_equal(w);
	assert_int_equal(s.rows, w->m.durable);
}

/* What does not fit the queue is read back from the journal. */
static void test_queue_of_one(void **state)
{
	struct world *w = *state;
	struct got g[40];
	uint64_t at;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 40; i++) {
			char call[32];

			(void)snprintf(call, sizeof(call), "q%d-%d", round, i);
			assert_int_equal(ask_start(w, &(struct asked){ .tool = "free", .call = call, .args = call[1] & 1 ? "{\"y\":2}" : NULL }, &g[i]), 0);
		}
		run_until_owed_nothing(w);
		for (int i = 0; i < 40; i++)
			(void)settle(w, g[i].seq, OUTCOME_OK, -1);
	}
	settle_down(w);
	assert_states_equal(w);
	check_snapshot(w, &at);
}

/* So many at once that their rows wait: nothing is lost, and all of it is there when it is calm. */
static void test_pressed(void **state)
{
	struct world *w = *state;
	struct projector_status s;
	struct got g[300];
	uint64_t at;

	for (int i = 0; i < 300; i++) {
		char call[32], args[32];

		(void)snprintf(call, sizeof(call), "p%d", i);
		(void)snprintf(args, sizeof(args), "{\"n\":%d}", i);
		assert_int_equal(ask_start(w, &(struct asked){ .tool = "free", .call = call, .args = args }, &g[i]), 0);
	}
	run_until_owed_nothing(w);
	for (int i = 0; i < 300; i++)
		(void)settle(w, g[i].seq, OUTCOME_OK, -1);
	settle_down(w);
	projector_status(w->projector, &s);
	assert_int_equal(s.rows, w->m.durable);
	assert_states_equal(w);
	check_snapshot(w, &at);
}

static void test_at_the_end(void **state)
{
	struct world *w = *state;
	struct projector_status s;
	uint64_t at, next;

	traffic(w, "e", 3);
	next = w->m.durable;
	mediate_snapshot(&w->m, 5000);
	run_until_owed_nothing(w);
	assert_int_equal(w->m.durable, next + 1);
	settle_down(w);
	check_snapshot(w, &at);
	assert_int_equal(at, next);
	mediate_snapshot(&w->m, 5000); /* nothing has changed since */
	run_until_owed_nothing(w);
	assert_int_equal(w->m.durable, next + 1);
	projector_status(w->projector, &s);
	assert_int_equal(s.snapshot_at, at);
}

/* A snapshot that was stored while the log was closed is vouched for by nobody, and the next one is. */
static void test_no_log_for_it(void **state)
{
	struct world *w = *state;
	uint64_t at;

	traffic(w, "n", 3);
	w->disk.syncs_left = 0;
	assert_true(ask(w, (struct asked){ .tool = "free", .call = "lost" }).refused);
	assert_false(w->m.open);
	mediate_snapshot(&w->m, 5000);
	run_until_owed_nothing(w);
	w->disk.syncs_left = -1;
	for (int i = 0; !w->m.open && i < 5000; i++) { /* in small steps: on a slow machine the session's lease would be over */
		w->now += NS_PER_SEC / 100;
		(void)mediate_tick(&w->m, clock_now(&w->clock));
		(void)poll(NULL, 0, 2);
	}
	assert_true(w->m.open);
	traffic(w, "m", 3);
	mediate_snapshot(&w->m, 5000);
	run_until_owed_nothing(w);
	settle_down(w);
	check_snapshot(w, &at);
	assert_states_equal(w);
}

static void wait_for_rows(struct world *w)
{
	struct projector_status s;

	for (int i = 0;; i++) {
		assert_true(i < 4000);
		run_until_owed_nothing(w);
		projector_status(w->projector, &s);
		if (!s.problem[0] && s.rows == w->m.durable)
			return;
		(void)poll(NULL, 0, 5);
	}
}

/* The file is not to be had: answers go on, status says why, and the rows are filled up when it can be had again. */
static void test_no_file(void **state)
{
	struct world *w = *state;
	struct projector_status s = { .rows = 0 };
	uint64_t at;

	traffic(w, "x", 2);
	settle_down(w);
	assert_int_equal(projector_restart(w, "/nonexistent/projection.sqlite"), 0);
	traffic(w, "y", 2);
	for (int i = 0; !s.problem[0]; i++) {
		assert_true(i < 2000);
		projector_status(w->projector, &s);
		(void)poll(NULL, 0, 2);
	}
	mediate_snapshot(&w->m, 5000); /* comes back, with nothing */
	assert_states_equal(w);
	assert_int_equal(projector_restart(w, w->file), 0);
	traffic(w, "z", 2);
	wait_for_rows(w);
	mediate_snapshot(&w->m, 5000);
	run_until_owed_nothing(w);
	settle_down(w);
	check_snapshot(w, &at);
}

/* The file can be had again while calls go on and on: the rows do not wait for a pause. */
static void test_file_back_under_load(void **state)
{
	struct world *w = *state;
	struct projector_status s = { .rows = 0 };
	char folder[128], path[192];
	struct pawl_error err;

	(void)snprintf(folder, sizeof(folder), "%s.d", w->file);
	(void)snprintf(path, sizeof(path), "%s/projection.sqlite", folder);
	assert_int_equal(projector_restart(w, path), 0);
	for (int i = 0; !s.problem[0]; i++) {
		assert_true(i < 2000);
		projector_status(w->projector, &s);
		(void)poll(NULL, 0, 2);
	}
	assert_int_equal(mkdir(folder, 0700), 0);
	for (int i = 0; s.problem[0]; i++) {
		char name[32];

		assert_true(i < 400); /* 5 s, and what a slow machine takes */
		(void)snprintf(name, sizeof(name), "load%d-", i);
		various(w, name, 1);
		projector_status(w->projector, &s);
		(void)poll(NULL, 0, 25);
	}
	assert_int_equal(projector_restart(w, NULL), 0);
	assert_int_equal(projection_remove(path, &err), 0);
	(void)snprintf(path, sizeof(path), "%s/projection.sqlite-lock", folder);
	(void)unlink(path);
	(void)rmdir(folder);
}

/* Damaged, or of a log that was longer: made anew, and filled from entry 0. */
static void test_made_anew(void **state)
{
	struct world *w = *state;
	struct pawl_error err;
	struct projection *db = NULL;
	int fd;

	traffic(w, "x", 4);
	settle_down(w);
	assert_int_equal(projector_restart(w, NULL), 0);
	fd = open(w->file, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0 && pwrite(fd, "garbage garbage garbage", 23, 0) == 23);
	(void)close(fd);
	assert_int_equal(projector_restart(w, w->file), 0);
	traffic(w, "y", 1);
	wait_for_rows(w);
	assert_int_equal(projector_restart(w, NULL), 0);
	assert_int_equal(projection_open_readonly(w->file, &db, &err), 0);
	assert_int_equal(projection_applied(db), w->m.durable);
	projection_close(db);
}

/* An orderly end while the rows are still being filled up: the snapshot is good for a start all the same. */
static void test_end_with_rows_behind(void **state)
{
	struct world *w = *state;
	struct projection_snapshot rows[4];
	struct pawl_error err;
	struct projection *db = NULL;
	uint64_t at;
	size_t n = 0;

	various(w, "b", 3000);
	assert_int_equal(projector_restart(w, NULL), 0);
	assert_int_equal(projection_remove(w->file, &err), 0);
	assert_int_equal(projector_restart(w, w->file), 0);
	at = w->m.durable;
	mediate_snapshot(&w->m, 5000);
	run_until_owed_nothing(w);
	assert_int_equal(projector_restart(w, NULL), 0);
	assert_int_equal(projection_open_readonly(w->file, &db, &err), 0);
	assert_true(projection_applied(db) < at);
	assert_int_equal(projection_snapshots(db, rows, PAWL_LEN(rows), &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0].at, at);
	assert_int_equal(rows[0].entry, at);
	projection_close(db);
}

/* Behind a start from a snapshot the entries before it are read. */
static void test_old_part(void **state)
{
	struct world *w = *state;
	struct projector_status s = { .unread = 1 };
	struct pawl_error err = { .code = PAWL_OK };
	struct stat sb;

	traffic(w, "o", 30);
	settle_down(w);
	w->unread = w->m.durable;
	chain_at(w, w->unread, w->chain);
	assert_int_equal(projector_restart(w, w->file), 0);
	for (int i = 0; s.unread; i++) {
		assert_true(i < 2000);
		projector_status(w->projector, &s);
		(void)poll(NULL, 0, 2);
	}
	assert_int_equal(mediate_follow(&w->m, &err), 0);

	w->chain[3] ^= 1; /* the next entry names another one */
	assert_int_equal(projector_restart(w, w->file), 0);
	for (int i = 0; mediate_follow(&w->m, &err) == 0; i++) {
		assert_true(i < 2000);
		(void)poll(NULL, 0, 2);
	}
	assert_int_equal(err.code, PAWL_E_TAMPERED);
	assert_int_equal(stat(w->file, &sb), -1); /* the next start has no snapshot to begin with */
}

/* That no descriptor is to be had while the old part is read says nothing about the log. */
static void test_old_part_without_descriptors(void **state)
{
	struct world *w = *state;
	struct projector_status s = { .unread = 1 };
	struct pawl_error err = { .code = PAWL_OK };
	struct rlimit was, none;
	int fd;

	traffic(w, "d", 30);
	settle_down(w);
	w->unread = w->m.durable;
	chain_at(w, w->unread, w->chain);
	assert_int_equal(projector_restart(w, NULL), 0);
	fd = dup(0); /* the lowest that is free; the projector's own is to be the last */
	assert_true(fd >= 0 && close(fd) == 0 && getrlimit(RLIMIT_NOFILE, &was) == 0);
	none = (struct rlimit){ (rlim_t)projector_fd(w->projector) + 1, was.rlim_max };
	assert_true(fd > projector_fd(w->projector));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(projector_restart(w, w->file), 0);
	for (int i = 0; i < 30 && mediate_follow(&w->m, &err) == 0; i++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(err.code, PAWL_OK);
	projector_status(w->projector, &s);
	assert_int_equal(s.unread, w->unread);
	for (int i = 0; s.unread; i++) {
		assert_true(i < 2000);
		projector_status(w->projector, &s);
		(void)poll(NULL, 0, 2);
	}
	assert_int_equal(mediate_follow(&w->m, &err), 0);
}

int main(void)
{
#define ROW(t, make) cmocka_unit_test_setup_teardown(t, make, end_world)
	const struct CMUnitTest tests[] = {
		ROW(test_every_so_many, make_small), ROW(test_queue_of_one, make_narrow), ROW(test_pressed, make_small), ROW(test_at_the_end, make_late), ROW(test_no_log_for_it, make_late),
		ROW(test_no_file, make_small),	     ROW(test_made_anew, make_small),	  ROW(test_old_part, make_small),
		ROW(test_file_back_under_load, make_late), ROW(test_end_with_rows_behind, make_late), ROW(test_old_part_without_descriptors, make_small),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests_name("projector", tests, NULL, NULL);
}
