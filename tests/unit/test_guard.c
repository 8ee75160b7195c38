/* tests/unit/test_guard.c - who belongs to a tree: tags, counters, lists. Needs root and a kernel that takes the programs; says so where it
 * has not. What is denied, limited, moved and pinned is in test_guard_exec.c, _limits.c, _cgroup.c and _pins.c. */
#include "tests/support/guard_world.h"

#include "tests/support/fail_malloc.h"

#include <grp.h>
#include <linux/sched.h>
#include <pthread.h>

#include <cmocka.h>

/* ---- the tag is inherited ---- */

static int as_member(void *sock)
{
	return member(*(int *)sock);
}

static int by_clone(int sock, void *arg)
{
	static _Alignas(16) char stack[1 << 16];
	const int *flags = arg;
	int pid = clone(as_member, stack + sizeof(stack), *flags, &sock);

	return wait_for_all(pid < 0 ? 90 : 0);
}

static int by_double_fork(int sock, void *arg)
{
	(void)arg;
	if (fork() == 0) {
		if (fork() == 0) {
			(void)setsid();
			_exit(member(sock));
		}
		_exit(0);
	}
	return wait_for_all(0);
}

static int by_chain(int sock, void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++)
		if (fork() != 0)
			_exit(0);
	return member(sock);
}

static int by_setuid(int sock, void *arg)
{
	(void)arg;
	if (fork() == 0)
		_exit(setgroups(0, NULL) || setgid(65534) || setuid(65534) || fork() < 0 ? 91 : member(sock));
	return wait_for_all(0);
}

static void *fork_in_thread(void *sock)
{
	if (fork() == 0)
		_exit(member(*(int *)sock));
	return NULL;
}

static int by_thread(int sock, void *arg)
{
	pthread_t t;

	(void)arg;
	if (pthread_create(&t, NULL, fork_in_thread, &sock) || pthread_join(t, NULL))
		return 92;
	return wait_for_all(0);
}

static void *exec_member(void *sock)
{
	char name[] = "test_guard", number[16], *args[] = { name, NULL }, *env[] = { number, NULL };

	(void)snprintf(number, sizeof(number), "MEMBER=%d", *(int *)sock);
	(void)fcntl(*(int *)sock, F_SETFD, 0);
	(void)execve("/proc/self/exe", args, env);
	_exit(93);
}

static int by_exec_in_thread(int sock, void *arg)
{
	pthread_t t;

	(void)arg;
	if (pthread_create(&t, NULL, exec_member, &sock))
		return 94;
	(void)pthread_join(t, NULL);
	return 95;
}

static int by_fork_and_exec(int sock, void *arg)
{
	(void)arg;
	if (fork() == 0)
		(void)exec_member(&sock);
	return wait_for_all(0);
}

static int plain = SIGCHLD, as_vfork = CLONE_VM | CLONE_VFORK | SIGCHLD, same_memory = CLONE_VM | SIGCHLD, same_parent = CLONE_PARENT | SIGCHLD,
	   silent = 0, new_user = CLONE_NEWUSER | SIGCHLD, new_pid = CLONE_NEWPID | SIGCHLD, new_cgroup = CLONE_NEWCGROUP | SIGCHLD;
static const struct {
	const char *name;
	job_fn *fn;
	int *arg;
	unsigned members;
} ways[] = {
	{ "fork", by_clone, &plain, 1 }, { "vfork", by_clone, &as_vfork, 1 }, { "clone: same memory", by_clone, &same_memory, 1 },
	{ "clone: the same parent", by_clone, &same_parent, 1 }, { "clone: no signal", by_clone, &silent, 1 },
	{ "a user namespace", by_clone, &new_user, 1 }, { "a pid namespace", by_clone, &new_pid, 1 },
	{ "a cgroup namespace", by_clone, &new_cgroup, 1 }, { "double fork and setsid", by_double_fork, NULL, 1 },
	{ "20 deep, each parent gone", by_chain, NULL, 1 }, { "setuid", by_setuid, NULL, 2 }, { "fork in a thread", by_thread, NULL, 1 },
	{ "exec in a thread", by_exec_in_thread, NULL, 1 }, { "fork and exec", by_fork_and_exec, NULL, 1 },
};

static void test_tag_is_inherited(void **state)
{
	struct guard_world *w = world_here(state);

	world_open(w);
	for (size_t i = 0; i < PAWL_LEN(ways); i++) {
		struct job j;
		int status;

		if (strstr(ways[i].name, "user namespace") && !a_child_may(makes_user_namespace)) {
			leave_out(USER_NAMESPACE);
			continue;
		}
		world_tree(w, NULL, 0, 0);
		job_run(w, &j, ways[i].fn, ways[i].arg);
		for (unsigned m = 0; m < ways[i].members; m++) {
			pid_t pid = job_hear(&j);

			if (pid == 0 || tag_of_pid(w, pid) != SESSION)
				fail_msg("%s: process %d is not in the tree", ways[i].name, (int)pid);
		}
		status = job_end(&j);
		(void)job_victims(&j);
		if (status != 0 || world_now(w).live != 0)
			fail_msg("%s: status %x, live %lld", ways[i].name, (unsigned)status, (long long)world_now(w).live);
		guard_tree_drop(w->g, SESSION);
	}
}

/* ---- counters: processes, not threads; back to 0 ---- */

struct gate {
	pthread_barrier_t at;
};

static void *through_gate(void *arg)
{
	struct gate *gate = arg;

	(void)pthread_barrier_wait(&gate->at);
	return NULL;
}

static int crowd(void) /* ten threads and the first one leave at the same moment */
{
	static struct gate gate;
	pthread_t t;

	(void)pthread_barrier_init(&gate.at, NULL, 11);
	for (int i = 0; i < 10; i++)
		if (pthread_create(&t, NULL, through_gate, &gate))
			return 80;
	(void)pthread_barrier_wait(&gate.at);
	(void)syscall(SYS_exit, 0); /* this thread alone */
	return 81;
}

#define CROWDS 60
static int crowds(int sock, void *arg)
{
	(void)sock, (void)arg;
	for (int i = 0; i < CROWDS; i++)
		if (fork() == 0)
			_exit(crowd());
	return wait_for_all(0);
}

static void test_threads_are_not_counted(void **state)
{
	struct guard_world *w = world_here(state);
	struct guard_tree now;
	struct job j;

	world_open(w);
	world_tree(w, NULL, ATTACH_EVENTS, 0);
	job_run(w, &j, crowds, NULL);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	now = world_now(w);
	assert_int_equal(now.forks, CROWDS);
	assert_int_equal(now.live, 0);
	assert_in_range(now.peak, 2, CROWDS + 1);
	assert_int_equal(now.execs, 0);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_EMPTY], 1);
	assert_int_equal(w->last[WATCH_EMPTY].tree, SESSION);
}

static void *rest(void *arg)
{
	for (;;)
		(void)pause();
	return arg;
}

static int mixed(int sock, void *arg) /* E05: threads, forks without exec, exec from a thread */
{
	pthread_t t;

	(void)arg;
	for (int i = 0; i < 10; i++)
		if (pthread_create(&t, NULL, rest, NULL))
			return 82;
	for (int i = 0; i < 5; i++)
		if (fork() == 0)
			_exit(0);
	for (int i = 0; i < 5; i++)
		(void)wait(NULL);
	return by_exec_in_thread(sock, NULL);
}

static void test_counts_come_back(void **state)
{
	struct guard_world *w = world_here(state);
	struct guard_tree now;
	struct job j;

	world_open(w);
	world_tree(w, NULL, ATTACH_EVENTS, 0);
	job_run(w, &j, mixed, NULL);
	assert_int_equal(job_hear(&j), j.pid); /* the thread is the process now */
	now = world_now(w);
	assert_int_equal(now.live, 1);
	assert_int_equal(now.forks, 5);
	assert_int_equal(now.execs, 1);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(world_now(w).live, 0);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_EXEC], 1);
	assert_int_equal(w->first_exec.pid, j.pid);
	assert_int_equal(w->first_exec.ppid, getpid());
	assert_string_equal(w->first_exec.path, "/proc/self/exe");
	assert_int_equal(w->first_exec.path_len, strlen("/proc/self/exe"));
	assert_int_equal(w->first_exec.argv_len, sizeof("test_guard"));
	assert_string_equal(w->first_exec.argv, "test_guard");
	assert_int_equal(w->first_exec.flags, 0);
	assert_int_equal(w->seen[WATCH_EMPTY], 1);
}

/* ---- a process that runs already, with threads ---- */

static void *say_and_exec(void *arg)
{
	int sock = *(int *)arg;
	char c;

	if (recv(sock, &c, 1, 0) == 1)
		(void)exec_member(&sock);
	return NULL;
}

static int busy(int sock, void *exec)
{
	static int shared;
	pthread_t t;

	shared = sock;
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t, NULL, rest, NULL))
			return 83;
	if (pthread_create(&t, NULL, exec ? say_and_exec : fork_in_thread, &shared) || send(sock, "r", 1, 0) != 1)
		return 84;
	for (;;)
		(void)pause();
}

static void test_a_running_process_is_tagged_whole(void **state)
{
	struct guard_world *w = world_here(state);
	struct guard_member one[4];
	struct job j;
	size_t n;
	int yes = 1;

	world_open(w);
	world_tree(w, NULL, 0, 0);
	job_start(&j, busy, &yes);
	job_go(&j);
	assert_int_equal(job_hear(&j), j.pid); /* its threads are there, and none is tagged */
	job_tag(w, &j);
	job_tag(w, &j); /* again: nothing changes */
	assert_int_equal(world_now(w).live, 1);
	assert_int_equal(guard_members(w->g, SESSION, one, 4, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(one[0].pid, j.pid);
	assert_string_equal(one[0].comm, "test_guard");
	job_go(&j); /* a thread that was there before starts a program */
	assert_int_equal(job_hear(&j), j.pid);
	assert_int_equal(guard_tag_of(w->g, j.pidfd), SESSION);
	assert_int_equal(world_now(w).execs, 1);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(world_now(w).live, 0);
}

/* ---- who is there ---- */

static int three(int sock, void *arg)
{
	pthread_t t;

	(void)arg;
	for (int i = 0; i < 2; i++)
		if (fork() == 0)
			_exit(pthread_create(&t, NULL, rest, NULL) ? 85 : member(sock));
	(void)member(sock);
	return wait_for_all(0);
}

static void test_members(void **state)
{
	struct guard_world *w = world_here(state);
	struct guard_member all[8], two[2];
	struct job j;
	size_t n = 9;

	world_open(w);
	world_tree(w, NULL, 0, 0);
	job_run(w, &j, three, NULL);
	for (int i = 0; i < 3; i++)
		assert_true(job_hear(&j) > 0);
	assert_int_equal(guard_members(w->g, SESSION, all, 8, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_int_equal(world_now(w).live, 3);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(tag_of_pid(w, (pid_t)all[i].pid), SESSION);
	assert_true(all[0].start_boot_ns <= boot_ns() && all[0].start_boot_ns >= world_now(w).start_boot_ns);
	assert_int_equal(guard_members(w->g, SESSION, two, 2, &n, NULL), 0); /* no more than there is room for */
	assert_int_equal(n, 2);
	assert_int_equal(guard_members(w->g, SESSION + 1, all, 8, &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(tag_of_pid(w, getpid()), 0);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(guard_members(w->g, SESSION, all, 8, &n, NULL), 0);
	assert_int_equal(n, 0);
}

static int nothing(int sock, void *arg)
{
	(void)sock, (void)arg;
	return 0;
}

static void test_a_pid_used_again_is_somebody_else(void **state) /* E13 */
{
	struct guard_world *w = world_here(state);
	struct pawl_error err = { .code = PAWL_OK };
	struct clone_args args = { .exit_signal = SIGCHLD };
	struct job j;
	pid_t old, again;
	int stale;

	world_open(w);
	world_tree(w, NULL, 0, 0);
	job_run(w, &j, nothing, NULL);
	old = j.pid;
	stale = dup(j.pidfd);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	args.set_tid = (uint64_t)(uintptr_t)&old;
	args.set_tid_size = 1;
	again = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	assert_true(again >= 0);
	if (again == 0)
		for (;;)
			(void)pause();
	assert_int_equal(again, old);
	assert_int_equal(tag_of_pid(w, again), 0);
	assert_int_equal(guard_tag_of(w->g, stale), 0);
	assert_true(guard_tag(w->g, stale, SESSION, &err) < 0); /* gone: nobody is tagged in its place */
	assert_int_equal(tag_of_pid(w, again), 0);
	assert_int_equal(world_now(w).live, 0);
	assert_int_equal(kill(again, SIGKILL), 0);
	assert_int_equal(waitpid(again, NULL, 0), again);
	(void)close(stale);
}

/* ---- trees ---- */

static void test_trees(void **state)
{
	struct guard_world *w = world_here(state);
	struct guard_tree tree = { .session = 1, .limits = { .processes = 9, .wall_ns = UINT64_MAX / 2 }, .start_boot_ns = boot_ns() }, got;
	struct watch_limits limits = { .fork_rate = 3, .cpu_ns = 5 };
	uint64_t ids[4];
	struct job j;

	w->opt.max_trees = 2;
	world_open(w);
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), 0);
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), PAWL_E_CONFLICT);
	tree.session = 2;
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), 0);
	tree.session = 3;
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), PAWL_E_FULL);
	tree.session = 0;
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), PAWL_E_CONFLICT);
	assert_int_equal(guard_trees(w->g, ids, 4), 2);
	assert_int_equal(ids[0] + ids[1], 3);
	assert_int_equal(guard_trees(w->g, ids, 1), 1);
	assert_int_equal(guard_tree_set(w->g, 2, &limits, ATTACH_EVENTS, NULL), 0);
	assert_int_equal(guard_tree_get(w->g, 2, &got, NULL), 0);
	assert_memory_equal(&got.limits, &limits, sizeof(limits));
	assert_int_equal(got.flags, ATTACH_EVENTS);
	assert_int_equal(got.start_boot_ns, tree.start_boot_ns);
	guard_tree_drop(w->g, 1);
	guard_tree_drop(w->g, 1);
	assert_true(guard_tree_get(w->g, 1, &got, NULL) < 0);
	assert_true(guard_tree_set(w->g, 1, &limits, 0, NULL) < 0);
	assert_true(guard_mark(w->g, 1, WHY_ABORT, 0, 0, NULL) < 0);
	assert_true(guard_deny(w->g, 1, &(struct guard_file){ .ino = 1 }, 1, NULL) < 0);
	tree.session = SESSION;
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), 0);
	job_start(&j, only_member, NULL);
	assert_true(guard_tag(w->g, j.pidfd, 1, NULL) < 0);
	assert_int_equal(guard_tag_of(w->g, j.pidfd), 0);
	job_tag(w, &j);
	assert_int_equal(guard_tag(w->g, j.pidfd, 2, NULL), PAWL_E_CONFLICT); /* of one tree, for good */
	assert_int_equal(guard_mark(w->g, SESSION, WHY_ABORT, 7, 6, NULL), 0);
	assert_int_equal(guard_mark(w->g, SESSION, WHY_STALE, 1, 1, NULL), 1); /* the first reason stays */
	got = world_now(w);
	assert_int_equal(got.killed, WHY_ABORT);
	assert_int_equal(got.measured, 7);
	assert_int_equal(got.limit, 6);
	job_go(&j);
	(void)job_end(&j);
	(void)job_victims(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tag_is_inherited, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_threads_are_not_counted, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_counts_come_back, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_a_running_process_is_tagged_whole, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_members, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_a_pid_used_again_is_somebody_else, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_trees, world_setup, world_teardown),
	};
	const char *as_one = getenv("MEMBER");

	if (as_one) /* what a job started: it says that it is there */
		_exit(member((int)strtol(as_one, NULL, 10)));
	(void)world_begin();
	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
