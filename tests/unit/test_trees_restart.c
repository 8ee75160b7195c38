/* tests/unit/test_trees_restart.c - what a watcher finds that comes after another: trees, saved files that are not to be believed, and programs on the
 * list that have become other files. */
#include "tests/support/trees_bodies.h"

/* ---- a watcher after this one ---- */

static void find_again(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL), gone = child_new(w, leave_a_child, NULL), timed = child_new(w, sleep_on, NULL);
	struct watch_attach a = attach_of(22);
	struct watch_ended e;
	size_t found = 0;

	attach_ok(w, attach_of(20), &c);
	attach_ok(w, attach_of(21), &gone);
	a.limits.wall_ns = UINT64_C(3) * NS_PER_SEC;
	attach_ok(w, a, &timed);
	(void)kill(w->watcher, SIGSTOP);
	let_go(&gone); /* its first process ends while nobody looks */
	assert_int_equal(waitpid(gone.pid, NULL, 0), gone.pid);
	replace_watcher(w);
	say_ready(w);
	for (size_t i = 0; i < w->n_now; i++)
		found += w->now[i].session >= 20 && w->now[i].session <= 22;
	assert_true(found >= 2); /* 21 may be over by now */
	e = wait_for_end(w, 21);
	assert_int_equal(e.last.killed, WHY_ENDED);
	assert_int_equal(e.n_killed, 1);
	expect_all_dead(&gone);
	replace_watcher(w); /* before it was noted: told again, by the next one too */
	say_ready(w);
	say_ready(w);
	forget(w, 21);
	e = wait_for_end(w, 22);
	assert_int_equal(e.last.killed, WHY_WALL); /* its clock went on */
	expect_all_dead(&timed);
	forget(w, 22);
	order_kill(w, 20, WHY_ABORT);
	e = wait_for_end(w, 20);
	assert_int_equal(e.n_killed, 1);
	expect_all_dead(&c);
	forget(w, 20);
	say_ready(w);
	child_done(&c);
	child_done(&gone);
	child_done(&timed);
}

/* Without anything in the kernel a file is all that says who they are: pid and start time, looked at again. */
static void find_by_descent(struct world *w)
{
	struct child c = child_new(w, wrapper, NULL);

	attach_ok(w, attach_of(23), &c);
	let_go(&c);
	wait_for_processes(w, 2);
	replace_watcher(w);
	say_ready(w);
	assert_int_equal(w->n_now, 1);
	order_kill(w, 23, WHY_LAUNCHER);
	assert_int_equal(wait_for_end(w, 23).n_killed, 2);
	expect_all_dead(&c);
	forget(w, 23);
	say_ready(w);
	child_done(&c);
}

static void test_restart(void **state)
{
	(void)state;
	each_way(BY_CGROUP, find_again);
}

static void test_restart_plain(void **state)
{
	(void)state;
	each_way(BY_DESCENT, find_by_descent);
}

/* A saved tree that somebody else wrote is not believed; what the kernel holds is found all the same. */
static void distrust_saved(struct world *w, off_t at, const void *bytes, size_t n)
{
	struct child c = child_new(w, sleep_on, NULL);
	char path[160], unfinished[160];
	int fd;

	attach_ok(w, attach_of(30), &c);
	(void)snprintf(path, sizeof(path), "%s/s_30", w->saved);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at >= 0 ? at : lseek(fd, 0, SEEK_END) + at), n);
	(void)close(fd);
	(void)snprintf(unfinished, sizeof(unfinished), "%s/s_33.new", w->saved); /* as of one that was killed while it wrote */
	fd = open(unfinished, O_WRONLY | O_CREAT, 0600);
	(void)close(fd);
	(void)snprintf(path, sizeof(path), "%s/s_31", w->saved);
	fd = open(path, O_WRONLY | O_CREAT, 0600); /* of nothing */
	assert_int_equal(write(fd, "nonsense", 8), 8);
	(void)close(fd);
	replace_watcher(w);
	say_ready(w);
	assert_int_equal(w->n_now, w->way == BY_DESCENT ? 0 : 1); /* there the file was all there is */
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_not_equal(access(unfinished, F_OK), 0);
	if (w->way != BY_DESCENT) {
		struct watch_ended e;

		order_kill(w, 30, WHY_ABORT);
		e = wait_for_end(w, 30);
		assert_int_equal(e.n_killed, 1);
		assert_true(e.last.wall_ns < UINT64_C(60000000000)); /* since it was found: when it began, nobody knows */
		forget(w, 30);
	} else {
		(void)kill(c.pid, SIGKILL);
	}
	expect_all_dead(&c);
	say_ready(w);
	child_done(&c);
}

static void distrust_its_kind(struct world *w)
{
	distrust_saved(w, 3, "x", 1);
}

/* More dead by name than in all: the rest would drop its end, for ever. */
static void distrust_its_dead(struct world *w)
{
	const uint32_t n_dead = 3;

	distrust_saved(w, (off_t)offsetof(struct watch_ended, n_dead) - (off_t)sizeof(struct watch_ended), &n_dead, sizeof(n_dead));
}

static void test_distrust(void **state)
{
	(void)state;
	each_way(BY_DESCENT, distrust_its_kind);
	each_way(BY_DESCENT, distrust_its_dead);
}

/* ---- the list of programs ---- */

struct programs {
	char denied[96];
	int told;
};

/* Says what became of each start, until it is killed. */
static void start_again_and_again(void *arg)
{
	const struct programs *p = arg;

	for (;;) {
		int status = run_program(p->denied);

		if (write(p->told, &status, sizeof(status)) != sizeof(status))
			_exit(0);
	}
}

static void copy_program(const char *to)
{
	char cmd[256], *const argv[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", cmd, NULL };
	pid_t pid;

	(void)snprintf(cmd, sizeof(cmd), "cp /bin/true %s.new && mv %s.new %s", to, to, to);
	pid = fork();
	if (pid == 0) {
		(void)execv("/bin/sh", argv);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A program that was replaced, as an upgrade does, is denied again. */
static void deny_upgraded(struct world *w)
{
	struct watch_attach a = attach_of(40);
	struct programs p;
	struct child c;
	char paths[256];
	int told[2], status, after = 0;
	size_t n;

	assert_int_equal(pipe(told), 0);
	p.told = told[1];
	(void)snprintf(p.denied, sizeof(p.denied), "/tmp/pawl-denied-%d", (int)getpid());
	copy_program(p.denied);
	n = (size_t)snprintf(paths, sizeof(paths), "%s", p.denied) + 1;
	a.n_deny = 1;
	a.deny_bytes = (uint32_t)n;
	c = child_new(w, start_again_and_again, &p);
	assert_int_equal(ask_parts(w, &a, sizeof(a), paths, n, c.pidfd).result, 0);
	let_go(&c);
	assert_int_equal(read(told[0], &status, sizeof(status)), sizeof(status));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	copy_program(p.denied);
	do
		assert_int_equal(read(told[0], &status, sizeof(status)), sizeof(status));
	while (!(WIFEXITED(status) && WEXITSTATUS(status) == 0)); /* the new file, not known yet */
	do { /* and known: the loop ends by that alone */
		assert_int_equal(read(told[0], &status, sizeof(status)), sizeof(status));
		if (after++ > 200000)
			fail_msg("an upgraded program runs on");
	} while (!WIFSIGNALED(status));
	wait_for_event(w, WATCH_KILL, WHY_DENY_EXEC);
	order_kill(w, 40, WHY_ABORT);
	(void)wait_for_end(w, 40);
	expect_all_dead(&c);
	forget(w, 40);
	(void)unlink(p.denied);
	(void)close(told[0]);
	(void)close(told[1]);
	child_done(&c);
	print_message("an upgraded program ran %d times before it was denied again\n", after);
}

static void test_upgraded(void **state)
{
	(void)state;
	each_way(BY_TAG, deny_upgraded);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_restart_plain),
		cmocka_unit_test(test_distrust),
		cmocka_unit_test(test_upgraded),
	};

	if (argc > 1) /* one of them, by hand */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
