/* tests/unit/test_guard.c - who belongs to a tree: tags, counters, lists, moves between cgroups, pins. Needs root and a kernel that takes
 * the programs; says so where it has not. What is denied and limited is in test_guard_exec.c and test_guard_limits.c. */
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

static int wait_for_all(int ret)
{
	int status;

	while (waitpid(-1, &status, __WALL) > 0)
		;
	return ret;
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

static int only_member(int sock, void *arg)
{
	(void)arg;
	return member(sock);
}

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
	assert_int_equal(guard_mark(w->g, SESSION, WHY_STALE, 1, 1, NULL), 0); /* the first reason stays */
	got = world_now(w);
	assert_int_equal(got.killed, WHY_ABORT);
	assert_int_equal(got.measured, 7);
	assert_int_equal(got.limit, 6);
	job_go(&j);
	(void)job_end(&j);
	(void)job_victims(&j);
}

/* ---- cgroups ---- */

static bool unified(char ret[static 64]) /* where the v2 hierarchy is mounted */
{
	static const char *const at[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };
	char path[96];

	for (size_t i = 0; i < PAWL_LEN(at); i++) {
		(void)snprintf(path, sizeof(path), "%s/cgroup.procs", at[i]);
		if (access(path, W_OK) == 0) {
			(void)snprintf(ret, 64, "%s", at[i]);
			return true;
		}
	}
	return false;
}

static int write_pid(const char *folder, pid_t pid)
{
	char path[160], text[16];
	int fd, n = snprintf(text, sizeof(text), "%d", (int)pid), r;

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = write(fd, text, (size_t)n) == n ? 0 : -1;
	(void)close(fd);
	return r;
}

struct places {
	char in[128], below[140], out[128];
	const char *to;
};

static int moves_itself(int sock, void *arg)
{
	const struct places *p = arg;

	return write_pid(p->to, getpid()) < 0 ? 86 : member(sock);
}

static int clones_into(int sock, void *arg)
{
	const struct places *p = arg;
	struct clone_args args = { .exit_signal = SIGCHLD, .flags = CLONE_INTO_CGROUP };
	int fd = open(p->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	args.cgroup = (__u64)(long long)fd;
	pid = fd < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		(void)!write(VICTIM_FD, "x", 1);
		_exit(member(sock));
	}
	return wait_for_all(pid < 0 ? 87 : 0);
}

static void try_leaving(struct guard_world *w, const char *name, job_fn *fn, struct places *p, const char *to, uint32_t flags, bool dies)
{
	struct stat st;
	struct job j;
	int status;

	assert_int_equal(stat(p->in, &st), 0);
	p->to = to;
	world_tree(w, NULL, flags, st.st_ino);
	job_start(&j, fn, p);
	assert_int_equal(write_pid(p->in, j.pid), 0); /* before the tag: that is no leaving */
	job_tag(w, &j);
	job_go(&j);
	if (!dies && job_hear(&j) == 0)
		fail_msg("%s: killed", name);
	status = job_end(&j);
	if (was_killed(status) != dies)
		fail_msg("%s: status %x", name, (unsigned)status);
	(void)job_victims(&j);
	assert_int_equal(world_now(w).live, 0);
	guard_tree_drop(w->g, SESSION);
	world_consume(w);
}

static void test_leaving_the_cgroup(void **state)
{
	struct guard_world *w = world_here(state);
	struct places p;
	struct stat st;
	char root[64];
	struct job j;

	if (!unified(root))
		skip_aloud("a cgroup v2 hierarchy that may be written");
	(void)snprintf(p.in, sizeof(p.in), "%s/pawl-guard-%d", root, (int)getpid());
	(void)snprintf(p.below, sizeof(p.below), "%s/below", p.in);
	(void)snprintf(p.out, sizeof(p.out), "%s/pawl-guard-out-%d", root, (int)getpid());
	assert_int_equal(mkdir(p.in, 0700) | mkdir(p.below, 0700) | mkdir(p.out, 0700), 0);
	world_open(w);
	try_leaving(w, "into one below", moves_itself, &p, p.below, 0, false);
	try_leaving(w, "a child below", clones_into, &p, p.below, 0, false);
	assert_int_equal(w->seen[WATCH_LEFT] + w->seen[WATCH_KILL], 0);
	try_leaving(w, "moves itself", moves_itself, &p, p.out, 0, true);
	assert_int_equal(w->seen[WATCH_KILL], 1);
	assert_int_equal(w->last[WATCH_KILL].why, WHY_LEFT);
	try_leaving(w, "to the root", moves_itself, &p, root, 0, true);
	try_leaving(w, "a child elsewhere", clones_into, &p, p.out, 0, true);
	assert_int_equal(w->seen[WATCH_KILL], 3);
	try_leaving(w, "log only", moves_itself, &p, p.out, ATTACH_LOG_ONLY, false);
	assert_int_equal(w->seen[WATCH_KILL], 4);
	assert_int_equal(w->last[WATCH_KILL].flags, WATCH_F_LOG_ONLY);
	/* from outside: told, and the tag holds */
	assert_int_equal(stat(p.in, &st), 0);
	world_tree(w, NULL, 0, st.st_ino);
	job_start(&j, only_member, NULL);
	assert_int_equal(write_pid(p.in, j.pid), 0);
	job_tag(w, &j);
	assert_int_equal(write_pid(p.out, j.pid), 0);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_LEFT], 1);
	assert_int_equal(w->last[WATCH_LEFT].pid, j.pid);
	assert_int_equal(guard_tag_of(w->g, j.pidfd), SESSION);
	job_go(&j);
	assert_int_equal(job_hear(&j), j.pid);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(rmdir(p.below) | rmdir(p.in) | rmdir(p.out), 0);
}

/* ---- pins ---- */

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
	job_run(w, &j, by_clone, &plain); /* is killed; the child too from 6.13 on, before that it only waits */
	assert_true(was_killed(job_end(&j)));
	(void)job_victims(&j);
	guard_tree_drop(w->g, SESSION);
	world_tree(w, &limits, 0, 0);
	job_start(&j, by_clone, &plain);
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
	job_run(w, &j, by_clone, &plain);
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
		cmocka_unit_test_setup_teardown(test_tag_is_inherited, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_threads_are_not_counted, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_counts_come_back, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_a_running_process_is_tagged_whole, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_members, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_a_pid_used_again_is_somebody_else, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_trees, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_leaving_the_cgroup, world_setup, world_teardown),
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
	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
