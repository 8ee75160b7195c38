/* tests/unit/test_guard_pins.c - what the kernel holds when nobody has it open: limits, the sampler, pins that are not whole; and where it cannot
 * be had at all. Needs root and a kernel that takes the programs; says so where it has not. */
#include "tests/support/guard_world.h"

#include "tests/support/fail_malloc.h"

#include <grp.h>

#include <cmocka.h>

/* ---- pins ---- */

static int forks_once(int sock, void *arg)
{
	(void)arg;
	if (fork() == 0)
		_exit(member(sock));
	return wait_for_all(0);
}

static int forks_on_demand(int sock, void *arg)
{
	(void)arg;
	(void)member(sock); /* until it is let go on: the guard is closed then */
	for (int i = 0; i < 8; i++)
		if (fork() == 0)
			for (;;)
				(void)pause();
	return 0;
}

/* The watcher's part: those that sleep are not noticed by any program. The job's own status. */
static int sweep(struct guard_world *w, struct job *j)
{
	struct guard_member left[8];
	size_t n = 0;
	int status;

	if (j->sock >= 0)
		(void)close(j->sock);
	j->sock = -1;
	assert_int_equal(waitpid(j->pid, &status, 0), j->pid);
	assert_int_equal(guard_members(w->g, SESSION, left, 8, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kill((pid_t)left[i].pid, SIGKILL), 0);
	(void)job_end(j);
	(void)job_victims(j);
	return status;
}

static void reopen(struct guard_world *w)
{
	guard_close(w->g);
	w->g = NULL;
	world_open(w);
}

static void test_limits_hold_while_closed(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits limits = { .processes = 4 };
	struct guard_tree now;
	struct job j;

	world_open(w);
	assert_int_equal(w->probes.row[WP_PINS].state, WATCH_ON);
	world_tree(w, &limits, 0, 0);
	job_run(w, &j, forks_on_demand, NULL);
	assert_int_equal(job_hear(&j), j.pid);
	guard_close(w->g);
	w->g = NULL;
	(void)close(j.sock);
	j.sock = -1;
	assert_int_equal(waitid(P_PID, (id_t)j.pid, NULL, WEXITED | WNOWAIT), 0); /* it has met its limit */
	world_open(w);
	assert_true(was_killed(sweep(w, &j)));
	now = world_now(w);
	assert_int_equal(now.killed, WHY_PROCESSES);
	assert_int_equal(now.measured, 5);
	assert_int_equal(now.limit, 4);
	assert_int_equal(now.limits.processes, 4);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_BREACH], 1);
	assert_int_equal(world_now(w).live, 0);
}

static int spins(int sock, void *arg)
{
	volatile bool on = true;

	(void)arg;
	(void)member(sock);
	while (on)
		;
	return 0;
}

static void test_the_sampler_outlives_its_maker(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits limits = { .wall_ns = 50 * 1000 * 1000 };
	struct job j;
	int status;

	world_open(w);
	if (w->probes.row[WP_SAMPLER].state != WATCH_ON)
		skip_aloud("perf events");
	world_tree(w, &limits, 0, 0);
	job_run(w, &j, spins, NULL);
	assert_int_equal(job_hear(&j), j.pid);
	guard_close(w->g);
	w->g = NULL;
	status = job_end(&j); /* nobody but the kernel ends it */
	assert_true(was_killed(status));
	(void)job_victims(&j);
	world_open(w);
	assert_int_equal(world_now(w).killed, WHY_WALL);
}

static void unpin_one(const struct guard_world *w, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/v%d/%s", w->pins, WATCH_LAYOUT, name);
	assert_int_equal(unlink(path), 0);
}

static void test_pins_that_are_not_whole(void **state)
{
	struct guard_world *w = world_here(state);
	struct pawl_error err = { .code = PAWL_OK };
	struct watch_limits limits = { .processes = 4 };
	struct guard *none = NULL;
	struct guard_tree now;
	struct job j;

	world_open(w);
	world_tree(w, &limits, ATTACH_EVENTS, 0);
	job_run(w, &j, forks_on_demand, NULL);
	assert_int_equal(job_hear(&j), j.pid);
	/* a link is gone: made again, around the trees that are there */
	guard_close(w->g);
	unpin_one(w, "on_fork");
	unpin_one(w, "on_sample-0");
	world_open(w);
	assert_non_null(strstr(w->probes.row[WP_PINS].why, "made again"));
	assert_int_equal(w->probes.row[WP_SAMPLER].state, WATCH_ON);
	assert_int_equal(guard_tag_of(w->g, j.pidfd), SESSION);
	/* other sizes are asked for: not while there are trees */
	w->opt.max_trees = 5;
	reopen(w);
	assert_non_null(strstr(w->probes.row[WP_PINS].why, "another build"));
	assert_int_equal(world_now(w).live, 1);
	assert_true(was_killed(sweep(w, &j)));
	now = world_now(w);
	assert_int_equal(now.killed, WHY_PROCESSES);
	/* without trees they are made anew, with the sizes asked for */
	guard_tree_drop(w->g, SESSION);
	reopen(w);
	assert_null(strstr(w->probes.row[WP_PINS].why, "another build"));
	for (uint64_t i = 1; i <= 5; i++)
		assert_int_equal(guard_tree_add(w->g, &(struct guard_tree){ .session = i }, NULL), 0);
	assert_int_equal(guard_tree_add(w->g, &(struct guard_tree){ .session = 6 }, NULL), PAWL_E_FULL);
	/* a map is gone and its programs are not: refused, and nothing is touched */
	guard_close(w->g);
	w->g = NULL;
	unpin_one(w, "tags");
	assert_int_equal(guard_open(&w->opt, &w->probes, &none, &err), PAWL_E_INCOMPLETE);
	assert_null(none);
	assert_int_equal(w->probes.row[WP_TRACING].state, WATCH_OFF);
	for (size_t i = 0; i < 5; i++)
		unpin_one(w, (const char *const[]){ "on_fork", "on_exec", "on_exit", "on_move", "list_tasks" }[i]);
	unpin_one(w, "on_sample-0");
	for (long i = 1; i < sysconf(_SC_NPROCESSORS_ONLN); i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "on_sample-%ld", i);
		unpin_one(w, name);
	}
	world_open(w); /* no program is left that could hold anything */
	assert_int_equal(guard_trees(w->g, &(uint64_t){ 0 }, 1), 0);
}

static void test_unpin_leaves_nothing(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits limits = { .processes = 1 };
	struct job j;

	world_open(w);
	world_tree(w, &limits, 0, 0);
	job_run(w, &j, forks_once, NULL); /* is killed; the child too from 6.13 on, before that it only waits */
	assert_true(was_killed(job_end(&j)));
	(void)job_victims(&j);
	guard_tree_drop(w->g, SESSION);
	world_tree(w, &limits, 0, 0);
	job_start(&j, forks_once, NULL);
	job_tag(w, &j);
	guard_unpin(w->g);
	guard_close(w->g);
	w->g = NULL;
	assert_int_equal(access(w->pins, F_OK), -1);
	job_go(&j);
	assert_true(job_hear(&j) > 0);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
}

static void test_not_pinned(void **state)
{
	struct guard_world *w = world_here(state);
	struct watch_limits limits = { .processes = 1 };
	struct pawl_error err = { .code = PAWL_OK };
	struct guard *none = NULL;
	struct job j;

	assert_int_equal(mkdir(w->pins, 0755), 0);
	assert_int_equal(guard_open(&w->opt, &w->probes, &none, &err), PAWL_E_UNSAFE); /* others could enter */
	assert_int_equal(rmdir(w->pins), 0);
	w->opt.pins = "/tmp/pawl-no-bpffs";
	w->opt.no_sampler = true;
	world_open(w);
	assert_int_equal(w->probes.row[WP_PINS].state, WATCH_OFF);
	assert_int_equal(w->probes.row[WP_TRACING].state, WATCH_ON);
	assert_int_equal(w->probes.row[WP_SAMPLER].state, WATCH_OFF);
	assert_int_equal(w->probes.row[WP_ITERATOR].state, WATCH_ON);
	assert_int_equal(access("/tmp/pawl-no-bpffs", F_OK), -1);
	world_tree(w, &limits, 0, 0);
	job_run(w, &j, forks_once, NULL);
	assert_true(was_killed(job_end(&j)));
	(void)job_victims(&j);
}

/* ---- where it cannot be ---- */

static int opens_as_nobody(int sock, void *arg)
{
	struct guard_options opt = { .pins = NULL };
	struct pawl_error err = { .code = PAWL_OK };
	struct watch_probes probes;
	struct guard *g = NULL;

	(void)sock, (void)arg;
	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 50;
	if (guard_open(&opt, &probes, &g, &err) != PAWL_E_SYS || g || err.os_errno != EPERM)
		return 51;
	if (probes.row[WP_TRACING].state != WATCH_OFF || probes.row[WP_TRACING].os_errno != EPERM || !probes.row[WP_TRACING].get[0])
		return 52;
	if (strstr(err.msg, "ulimit") || strstr(probes.row[WP_TRACING].why, "ulimit") || strcmp(probes.row[WP_PINS].name, "pins") != 0)
		return 53;
	return 0;
}

static void test_a_plain_user_is_told(void **state)
{
	struct job j;

	(void)world_here(state);
	job_start(&j, opens_as_nobody, NULL);
	job_go(&j);
	assert_int_equal(job_end(&j), 0);
	assert_int_equal(job_victims(&j), 0);
}

static void test_no_memory(void **state)
{
	struct guard_world *w = world_here(state);
	struct pawl_error err = { .code = PAWL_OK };
	struct guard *g = NULL;

	for (long n = 1; n <= 12; n++) { /* later ones are libbpf's own business */
		int r;

		fail_malloc_after(n);
		r = guard_open(&w->opt, &w->probes, &g, &err);
		assert_true(fail_malloc_stop());
		assert_true(n > 2 || r == PAWL_E_NOMEM); /* it may do without some: the look for other versions' pins */
		if (r == 0) {
			guard_unpin(g);
			guard_close(g);
		}
		g = NULL;
	}
	world_open(w); /* nothing half-made lies in the way */
	assert_int_equal(w->probes.row[WP_PINS].state, WATCH_ON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_limits_hold_while_closed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_the_sampler_outlives_its_maker, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_pins_that_are_not_whole, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_unpin_leaves_nothing, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_not_pinned, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_a_plain_user_is_told, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, world_setup, world_teardown),
	};
	const char *as_one = getenv("MEMBER");

	if (as_one) /* what a job started: it says that it is there */
		_exit(member((int)strtol(as_one, NULL, 10)));
	(void)world_begin();
	return cmocka_run_group_tests_name("guard_pins", tests, NULL, NULL);
}
