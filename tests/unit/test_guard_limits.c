/* tests/unit/test_guard_limits.c - limits of a tree: what goes over one is the first to be killed, all of it dies, one event says by how
 * much. Bombs run as nobody below an rlimit of their own, so that a broken guard does not take the machine. Needs root. */
#include "tests/support/guard_world.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#define BOUND 400 /* processes of nobody */
#define MIB (1024u * 1024u)

static bool bounded(void)
{
	struct rlimit n = { BOUND, BOUND };

	return setrlimit(RLIMIT_NPROC, &n) == 0 && setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
}

/* ---- in jobs ---- */

static int bomb(int sock, void *arg)
{
	(void)sock, (void)arg;
	if (!bounded())
		return 70;
	for (;;)
		if (fork() < 0)
			(void)sched_yield();
}

static int chain(int sock, void *arg) /* fork, the parent leaves: never more than a few live */
{
	(void)sock, (void)arg;
	if (!bounded())
		return 71;
	for (int i = 0; i < 100000; i++)
		if (fork() > 0)
			_exit(0);
	return 72;
}

static int starts(int sock, void *arg) /* program after program in one process: no fork */
{
	char name[] = "again", again[] = "AGAIN=1", *argv[] = { name, NULL }, *envp[] = { again, NULL };

	(void)sock, (void)arg;
	(void)execve("/proc/self/exe", argv, envp);
	return 73;
}

static int spins(int sock, void *arg)
{
	volatile bool on = true;

	(void)sock, (void)arg;
	while (on)
		;
	return 0;
}

static int takes_memory(int sock, void *arg)
{
	size_t n = 192 * MIB;
	volatile char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 74;
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	return spins(sock, arg);
}

static int sleepers(int sock, void *arg) /* within its limits all the time */
{
	(void)arg;
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			_exit(member(sock));
	(void)member(sock);
	for (int i = 0; i < 3; i++)
		(void)wait(NULL);
	return 0;
}

/* ---- one limit each ---- */

/* the rates are low: a guest without a CPU of its own forks no faster than that */
static const struct {
	const char *name;
	job_fn *fn;
	struct watch_limits limits;
	enum watch_why why;
	uint64_t least;	   /* measured is at least this */
	bool sampled;
} rows[] = {
	{ "processes", bomb, { .processes = 50 }, WHY_PROCESSES, 51, false },
	{ "fork_rate", chain, { .fork_rate = 5 }, WHY_FORK_RATE, 6, false },
	{ "exec_rate", starts, { .exec_rate = 3 }, WHY_EXEC_RATE, 4, false },
	{ "wall", spins, { .wall_ns = 60 * 1000 * 1000 }, WHY_WALL, 60 * 1000 * 1000, true },
	{ "cpu", spins, { .cpu_ns = 60 * 1000 * 1000 }, WHY_CPU, 60 * 1000 * 1000, true },
	{ "memory", takes_memory, { .memory = 96 * MIB }, WHY_MEMORY, 96 * MIB, true },
};

static uint64_t limit_of(const struct watch_limits *l)
{
	return l->processes + l->fork_rate + l->exec_rate + l->wall_ns + l->cpu_ns + l->memory;
}

/* What the watcher does for those that no program sees: they sleep, or the kernel cannot kill a child at its fork (before 6.13). */
static void sweep(struct guard_world *w)
{
	struct guard_member left[128];
	size_t n = 1;

	for (int round = 0; n > 0 && round < 1000; round++) {
		assert_int_equal(guard_members(w->g, SESSION, left, PAWL_LEN(left), &n, NULL), 0);
		for (size_t i = 0; i < n; i++)
			(void)kill((pid_t)left[i].pid, SIGKILL);
	}
}

static void test_each_limit(void **state)
{
	struct guard_world *w = world_here(state);
	uint64_t told = 0;

	world_open(w);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct guard_tree now;
		struct job j;
		int status;

		if (rows[i].sampled && w->probes.row[WP_SAMPLER].state != WATCH_ON)
			continue;
		world_tree(w, &rows[i].limits, 0, 0);
		job_run(w, &j, rows[i].fn, NULL);
		while (world_now(w).killed == 0 && world_now(w).live > 0)
			(void)poll(NULL, 0, 1);
		sweep(w);
		status = job_end(&j);
		(void)job_victims(&j);
		now = world_now(w);
		if (now.killed != rows[i].why || now.limit != limit_of(&rows[i].limits) || now.measured < rows[i].least || now.live != 0)
			fail_msg("%s: killed by %s, %llu of %llu, live %lld, forks %llu, status %x", rows[i].name,
				 watch_why_name((enum watch_why)now.killed), (unsigned long long)now.measured, (unsigned long long)now.limit,
				 (long long)now.live, (unsigned long long)now.forks, (unsigned)status);
		if (rows[i].why == WHY_PROCESSES)
			print_message("processes: limit 50, peak %llu\n", (unsigned long long)now.peak);
		assert_true(rows[i].why != WHY_PROCESSES || now.peak <= 2 * 50 + 8); /* each that lived then may fork once more, in vain */
		assert_true(rows[i].why != WHY_FORK_RATE || now.forks < BOUND);
		assert_true(rows[i].why != WHY_EXEC_RATE || now.execs < BOUND);
		guard_tree_drop(w->g, SESSION);
		world_consume(w);
		if (w->seen[WATCH_BREACH] != ++told)
			fail_msg("%s: told %llu times", rows[i].name, (unsigned long long)(w->seen[WATCH_BREACH] - told + 1));
		assert_int_equal(w->last[WATCH_BREACH].why, rows[i].why);
		assert_int_equal(w->last[WATCH_BREACH].measured, now.measured);
		assert_int_equal(w->last[WATCH_BREACH].limit, now.limit);
		assert_int_equal(w->last[WATCH_BREACH].flags, 0);
	}
	assert_int_equal(w->seen[WATCH_KILL], 0);
}

static void test_at_the_limit_it_still_runs(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits exact = { .processes = 4, .fork_rate = 3, .exec_rate = 1, .cpu_ns = 3600u * UINT64_C(1000000000), .memory = UINT64_C(1) << 40,
		.wall_ns = 3600u * UINT64_C(1000000000) };
	struct job j;

	world_open(w);
	world_tree(w, &exact, 0, 0);
	job_run(w, &j, sleepers, NULL);
	for (int i = 0; i < 4; i++)
		assert_true(job_hear(&j) > 0);
	assert_int_equal(world_now(w).live, 4);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(world_now(w).killed, 0);
	assert_int_equal(world_now(w).peak, 4);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_BREACH], 0);
}

/* ---- shadow mode ---- */

static int over_all(int sock, void *arg)
{
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(member(sock));
	}
	for (int i = 0; i < 8; i++)
		if (fork() == 0) {
			char name[] = "true", none[] = "NOTHING=1", *argv[] = { name, NULL }, *envp[] = { none, NULL };

			(void)execve("/proc/self/exe", argv, envp);
			_exit(75);
		}
	(void)member(sock);
	while (wait(NULL) > 0)
		;
	(void)arg;
	return 0;
}

static void test_log_only_kills_nothing(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits limits = { .processes = 2, .fork_rate = 2, .exec_rate = 1, .memory = 4096, .wall_ns = 1, .cpu_ns = 1 };
	struct job j;

	world_open(w);
	world_tree(w, &limits, ATTACH_LOG_ONLY, 0);
	job_run(w, &j, over_all, NULL);
	for (int i = 0; i < 9; i++)
		assert_true(job_hear(&j) > 0);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(world_now(w).killed, 0);
	assert_int_equal(world_now(w).live, 0);
	assert_int_equal(world_now(w).forks, 16);
	world_consume(w);
	assert_in_range(w->seen[WATCH_BREACH], 2, 6); /* once a limit; the sampler may not have looked */
	assert_int_equal(w->last[WATCH_BREACH].flags, WATCH_F_LOG_ONLY);
	assert_int_equal(w->seen[WATCH_KILL], 0);
}

/* ---- marked by the watcher; limits changed under way ---- */

static int waits_then_forks(int sock, void *arg)
{
	(void)arg;
	(void)member(sock);
	(void)fork();
	return 0;
}

static void test_marked_trees_die_by_themselves(void **state)
{
	struct guard_world *w = world_here(state);
	struct job j;

	world_open(w);
	world_tree(w, NULL, 0, 0);
	job_run(w, &j, waits_then_forks, NULL);
	assert_int_equal(job_hear(&j), j.pid);
	assert_int_equal(guard_mark(w->g, SESSION, WHY_ABORT, 0, 0, NULL), 0);
	assert_true(was_killed(job_end(&j)));
	(void)job_victims(&j);
	assert_int_equal(world_now(w).killed, WHY_ABORT);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_BREACH], 0); /* who marked it knows */
	guard_tree_drop(w->g, SESSION);
	if (w->probes.row[WP_SAMPLER].state != WATCH_ON)
		return;
	world_tree(w, NULL, 0, 0); /* no fork, no exec: the sampler */
	job_run(w, &j, spins, NULL);
	assert_int_equal(guard_mark(w->g, SESSION, WHY_ENDED, 0, 0, NULL), 0);
	assert_true(was_killed(job_end(&j)));
	(void)job_victims(&j);
}

static void test_new_limits_for_a_tree_that_lives(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits limits = { .processes = 1 };
	struct job j;

	world_open(w);
	world_tree(w, NULL, 0, 0);
	job_run(w, &j, waits_then_forks, NULL);
	assert_int_equal(job_hear(&j), j.pid);
	assert_int_equal(guard_tree_set(w->g, SESSION, &limits, 0, NULL), 0);
	assert_int_equal(world_now(w).live, 1); /* counters go on */
	assert_true(was_killed(job_end(&j)));
	(void)job_victims(&j);
	assert_int_equal(world_now(w).killed, WHY_PROCESSES);
	assert_int_equal(world_now(w).measured, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_limit, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_at_the_limit_it_still_runs, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_log_only_kills_nothing, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_marked_trees_die_by_themselves, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_new_limits_for_a_tree_that_lives, world_setup, world_teardown),
	};
	const char *again = getenv("AGAIN");

	if (again) /* started by a job: and once more, for as long as it may */
		_exit(starts(0, NULL));
	if (getenv("NOTHING"))
		_exit(0);
	(void)world_begin();
	return cmocka_run_group_tests_name("guard: limits", tests, NULL, NULL);
}
