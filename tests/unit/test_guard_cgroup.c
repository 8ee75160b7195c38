/* tests/unit/test_guard_cgroup.c - a tree's processes that try to leave its cgroup, and those that somebody outside moves. Needs root, cgroup v2 and a
 * kernel that takes the programs; says so where it has not. */
#include "tests/support/guard_world.h"

#include <linux/sched.h>

#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_leaving_the_cgroup, world_setup, world_teardown),
	};
	const char *as_one = getenv("MEMBER");

	if (as_one) /* what a job started: it says that it is there */
		_exit(member((int)strtol(as_one, NULL, 10)));
	(void)world_begin();
	return cmocka_run_group_tests_name("guard_cgroup", tests, NULL, NULL);
}
