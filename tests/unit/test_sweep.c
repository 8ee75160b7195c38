/* tests/unit/test_sweep.c - a process that was listed and is another one by the time it is to be killed: nobody is killed, whichever way tells
 * who belongs to a tree. And what /proc says, taken apart. */
#include "daemon/watch/trees_int.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/skip.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody */
		for (;;)
			(void)pause();
	}
	assert_true(pid > 0);
	return pid;
}

static bool lives(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static struct guard_member member_of(pid_t pid)
{
	struct proc_stat s;

	assert_true(proc_stat((uint32_t)pid, &s));
	return (struct guard_member){ .pid = s.id.pid, .start_boot_ns = proc_ticks_ns(s.id.start) };
}

static void test_by_start_time(void **state)
{
	struct trees *t = calloc(1, sizeof(*t));
	struct tree tr = { .session = 5, .pidfd = -1 };
	pid_t pid = sleeper();
	struct guard_member m = member_of(pid), older = m;

	(void)state;
	older.start_boot_ns -= proc_ticks_ns(1); /* who had the number before */
	assert_false(sweep_kill(t, &tr, &older));
	assert_true(lives(pid));
	assert_true(sweep_kill(t, &tr, &m));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(sweep_kill(t, &tr, &m));
	free(t);
}

static void test_by_cgroup(void **state)
{
	struct trees *t = calloc(1, sizeof(*t));
	struct tree tr = { .session = 5, .pidfd = -1 };
	struct cgroup_mounts mounts;
	pid_t in = sleeper(), out = sleeper();
	struct guard_member a = member_of(in), b = member_of(out);
	struct cgroups all;

	(void)state;
	assert_int_equal(cgroup_mounts_read(&mounts, NULL), 0);
	cgroups_open(&mounts, "sweep-test", &all);
	if (!all.dir[CGROUP_TREE][0]) {
		end(in);
		end(out);
		free(t);
		skip_aloud("root and cgroup v2");
		return;
	}
	assert_int_equal(cgroup_make(&all, 5, &tr.cg, NULL), 0);
	assert_int_equal(cgroup_enter(&tr.cg, (uint32_t)in, NULL), 0);
	assert_false(sweep_kill(t, &tr, &b));
	assert_true(lives(out));
	assert_true(sweep_kill(t, &tr, &a));
	assert_int_equal(waitpid(in, NULL, 0), in);
	while (!cgroup_remove(&tr.cg))
		(void)usleep(1000);
	cgroups_remove(&all);
	end(out);
	free(t);
}

static void test_by_tag(void **state)
{
	struct trees *t = calloc(1, sizeof(*t));
	struct tree tr = { .session = 5, .pidfd = -1, .guarded = true };
	struct guard_options opt = { .pins = NULL };
	struct watch_probes rows = { .tier = 'D' };
	struct guard_tree five = { .session = 5 }, six = { .session = 6 };
	pid_t ours = sleeper(), others = sleeper(), nobodys = sleeper();
	const pid_t pids[] = { ours, others, nobodys };
	struct guard_member m[3];
	int fd[3];

	(void)state;
	if (guard_open(&opt, &rows, &t->guard, NULL) < 0) {
		for (size_t i = 0; i < 3; i++)
			end(pids[i]);
		free(t);
		skip_aloud("root and a kernel that loads the programs");
		return;
	}
	for (size_t i = 0; i < 3; i++) {
		m[i] = member_of(pids[i]);
		fd[i] = proc_open((uint32_t)pids[i]);
	}
	assert_int_equal(guard_tree_add(t->guard, &five, NULL), 0);
	assert_int_equal(guard_tree_add(t->guard, &six, NULL), 0);
	assert_int_equal(guard_tag(t->guard, fd[0], 5, NULL), 0);
	assert_int_equal(guard_tag(t->guard, fd[1], 6, NULL), 0);
	assert_false(sweep_kill(t, &tr, &m[1]));
	assert_false(sweep_kill(t, &tr, &m[2]));
	assert_true(lives(others) && lives(nobodys));
	assert_true(sweep_kill(t, &tr, &m[0]));
	assert_int_equal(waitpid(ours, NULL, 0), ours);
	end(others);
	end(nobodys);
	for (size_t i = 0; i < 3; i++)
		(void)close(fd[i]);
	guard_close(t->guard);
	free(t);
}

/* Each member once, in whichever round it is listed and wherever in it it started. */
static void test_count(void **state)
{
	const uint64_t ms = 1000000;
	static const struct {
		const char *what;
		uint32_t pid; /* 0: nobody is listed in that round */
		uint64_t start_ms, now_ms;
		uint32_t killed;
	} rounds[] = {
		{ "long there", 7, 1000, 5000, 1 },
		{ "still there", 7, 1000, 5001, 1 },
		{ "born between time and list", 8, 5003, 5002, 2 },
		{ "listed again", 8, 5003, 5004, 2 },
		{ "and again", 8, 5003, 5006, 2 },
		{ "its number, another process", 8, 5005, 5008, 3 },
		{ "its start taken before the last round, and not seen then", 9, 5007, 5009, 4 },
		{ "nobody", 0, 0, 5010, 4 },
		{ "long after", 10, 5500, 6000, 5 },
		{ "who was counted long ago", 7, 1000, 6001, 5 },
	};
	struct trees *t = calloc(1, sizeof(*t));
	struct tree tr = { .session = 5, .pidfd = -1 };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rounds); i++) {
		t->member[0] = (struct guard_member){ .pid = rounds[i].pid, .start_boot_ns = rounds[i].start_ms * ms };
		(void)sweep_count(t, &tr, rounds[i].pid != 0, rounds[i].now_ms * ms);
		if (tr.ended.n_killed != rounds[i].killed)
			fail_msg("%s: %u", rounds[i].what, tr.ended.n_killed);
	}
	assert_int_equal(tr.ended.n_dead, 5);
	free(tr.young);
	free(t);
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Those that the kernel ended between the mark and the first list are in no round. */
static void test_ended_by_the_kernel(void **state)
{
	static const struct {
		uint32_t lived, listed, told;
	} cases[] = { { 0, 0, 0 }, { 3, 0, 3 }, { 3, 2, 3 }, { 3, 5, 5 } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct trees *t = calloc(1, sizeof(*t));
		struct tree tr = { .session = 5, .pidfd = -1, .ending = true, .lived = cases[i].lived, .ended = { .n_killed = cases[i].listed } };

		t->peer = t->epoll = -1;
		t->n_live = 1;
		tree_look(t, &tr, false, trees_boot_ns());
		assert_true(tr.over && t->n_live == 0);
		assert_int_equal(tr.ended.n_killed, cases[i].told);
		free(t);
	}
}

/* What does not die keeps the others waiting for a second, not for ever. kill_failed counts the rounds: no file here is a cgroup's. */
static void test_undying(void **state)
{
	struct trees *t = calloc(1, sizeof(*t));
	struct tree tr = { .session = 5, .pidfd = -1, .cg = { .id = 1, .v2 = { true } } };
	char folder[] = "/tmp/pawl-undying-XXXXXX", text[32], cmd[64];
	pid_t pid = sleeper();
	uint32_t rounds;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(tr.cg.dir[CGROUP_TREE], CGROUP_PATH, "%s", folder);
	(void)snprintf(text, sizeof(text), "%d\n", (int)pid);
	write_file(folder, "cgroup.procs", text);
	write_file(folder, "cgroup.events", "populated 1\n");
	t->can_cgroup_kill = true;
	tr.ending_ns = trees_boot_ns();
	sweep_on(t, &tr);
	rounds = tr.kill_failed;
	assert_true(rounds > 1);
	tr.ending_ns = 0;
	sweep_on(t, &tr);
	assert_int_equal(tr.kill_failed - rounds, 1);
	assert_true(lives(pid));
	assert_int_equal(tr.ended.n_killed, 1);
	(void)snprintf(cmd, sizeof(cmd), "rm -r %s", folder);
	assert_int_equal(system(cmd), 0);
	end(pid);
	free(tr.young);
	free(t);
}

/* What did not fit is told, and the same process twice is no more than one. */
static void test_tree(void **state)
{
	static const struct {
		size_t max, n;
		bool whole;
	} cases[] = { { 16, 4, true }, { 4, 4, true }, { 3, 3, false }, { 1, 1, false } };
	const pid_t pid[3] = { sleeper(), sleeper(), sleeper() };
	uint32_t list[16];
	bool whole;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		list[0] = (uint32_t)getpid();
		assert_int_equal(proc_tree(list, 1, cases[i].max, 0, &whole), cases[i].n);
		assert_int_equal(whole, cases[i].whole);
	}
	for (size_t i = 0; i < 3; i++)
		end(pid[i]);
	list[0] = (uint32_t)pid[0]; /* one that is gone hides nobody */
	assert_int_equal(proc_tree(list, 1, 16, 0, &whole), 1);
	assert_true(whole);
	list[0] = (uint32_t)getpid();
	fail_malloc_after(1);
	assert_int_equal(proc_tree(list, 1, 16, 0, &whole), 1);
	assert_true(fail_malloc_stop());
	assert_false(whole);
}

static void test_stat(void **state)
{
	static const struct {
		const char *what, *text;
		bool good;
		uint32_t pid, ppid;
		uint64_t start;
		bool dead;
	} cases[] = {
		{ "plain", "7 (sh) S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9", true, 7, 3, 4242, false },
		{ "a name that looks like the rest", "7 (a) S 1 1) R 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242 9", true, 7, 3, 4242, false },
		{ "an empty name", "7 () S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 -5 1 0 4242 9", true, 7, 3, 4242, false },
		{ "a zombie", "7 (sh) Z 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242 9", true, 7, 3, 4242, true },
		{ "its first thread alone", "7 (sh) Z 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 2 0 4242 9", true, 7, 3, 4242, false },
		{ "cut before the start time", "7 (sh) S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0", false, 0, 0, 0, false },
		{ "no name", "7 S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242", false, 0, 0, 0, false },
		{ "a number that is none", "7 (sh) S x 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242", false, 0, 0, 0, false },
		{ "pid 0", "0 (sh) S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4242", false, 0, 0, 0, false },
		{ "nothing", "", false, 0, 0, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct proc_stat s = { .ppid = 0 };

		if (proc_stat_parse(cases[i].text, &s) != cases[i].good)
			fail_msg("%s", cases[i].what);
		if (s.dead != cases[i].dead || s.id.pid != cases[i].pid || s.ppid != cases[i].ppid || s.id.start != cases[i].start)
			fail_msg("%s: %u %u %llu", cases[i].what, s.id.pid, s.ppid, (unsigned long long)s.id.start);
		if (cases[i].good)
			assert_int_equal(s.cpu_ns, proc_ticks_ns(5 + 6)); /* fields 14 and 15 */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_start_time),
		cmocka_unit_test(test_by_cgroup),
		cmocka_unit_test(test_by_tag),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_ended_by_the_kernel),
		cmocka_unit_test(test_undying),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_stat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
