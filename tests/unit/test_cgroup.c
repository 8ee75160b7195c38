/* tests/unit/test_cgroup.c - where the hierarchies are, as mountinfo says it; folders that refuse; a real tree's cgroups where this is root. */
#include "daemon/watch/cgroup.h"
#include "daemon/watch/small_file.h"
#include "tests/support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

/* ---- mountinfo ---- */

#define V2_TOP "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MEMORY "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define V1_PIDS "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:1 master:2 - cgroup cgroup rw,pids\n"
#define OTHERS "23 1 254:0 / / rw - ext4 /dev/vda rw\n24 23 0:22 / /proc rw - proc proc rw\n31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"

static void test_mounts(void **state)
{
	static const struct {
		const char *what, *mounts, *self, *tree, *own, *memory, *pids;
	} cases[] = {
		{ "v2 alone", OTHERS V2_TOP, "0::/system.slice/pawld.service\n", "/sys/fs/cgroup", "/sys/fs/cgroup/system.slice/pawld.service", "", "" },
		{ "hybrid", OTHERS V1_MEMORY V1_PIDS "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "8:pids:/\n4:memory:/a/b\n0::/\n",
		  "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/pids" },
		{ "v1 alone, in one hierarchy", "35 31 0:32 / /cg rw - cgroup cgroup rw,cpu,memory,pids\n", "4:cpu,memory,pids:/x\n", "", "", "/cg/x", "/cg/x" },
		{ "none", OTHERS, "", "", "", "", "" },
		{ "a name with a space", "30 23 0:26 / /a\\040b\\134c rw - cgroup2 none rw\n", "0::/\n", "/a b\\c", "/a b\\c", "", "" },
		{ "a mount of a part", "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 none rw\n35 31 0:32 /docker/1 /m rw - cgroup none rw,memory\n",
		  "4:memory:/docker/1/x\n0::/docker/1\n", "/sys/fs/cgroup", "/sys/fs/cgroup", "/m/x", "" },
		{ "a path that only begins alike", "35 31 0:32 /docker/1 /m rw - cgroup none rw,memory\n", "4:memory:/docker/12/x\n", "", "", "/m", "" },
		{ "above what is shown", "35 31 0:32 / /m rw - cgroup none rw,memory\n", "4:memory:/../../x\n", "", "", "/m", "" },
		{ "a controller that only begins alike", "35 31 0:32 / /m rw - cgroup none rw,memoryx\n", "4:memoryx:/\n", "", "", "", "" },
		{ "no line for ourselves", V1_MEMORY, "5:pids:/\n", "", "", "", "" },
		{ "the first mount counts", V2_TOP "31 23 0:26 / /elsewhere rw - cgroup2 cgroup2 rw\n", "0::/\n", "/sys/fs/cgroup", "/sys/fs/cgroup", "", "" },
		{ "lines that are none", "30\n30 23 0:26 / /x\n - cgroup2\n30 23 0:26 / /x rw - cgroup2 x\n\n" V2_TOP, "nonsense\n0:\n0::/\n", "/sys/fs/cgroup",
		  "/sys/fs/cgroup", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		const char *want[] = { cases[i].tree, cases[i].memory, cases[i].pids };
		struct cgroup_mounts m;

		assert_int_equal(cgroup_mounts_parse(cases[i].mounts, cases[i].self, &m, NULL), 0);
		for (int k = 0; k < CGROUP_KINDS; k++)
			if (strcmp(m.parent[k], want[k]) != 0)
				fail_msg("%s: %d: \"%s\" instead of \"%s\"", cases[i].what, k, m.parent[k], want[k]);
		if (strcmp(m.own, cases[i].own) != 0)
			fail_msg("%s: own \"%s\" instead of \"%s\"", cases[i].what, m.own, cases[i].own);
	}
}

/* Longer than there is room for: no hierarchy, and never a cut path. */
static void test_long_mounts(void **state)
{
	char line[2 * CGROUP_PATH + 128], path[CGROUP_PATH * 2];
	struct cgroup_mounts m;

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	(void)snprintf(line, sizeof(line), "30 23 0:26 / /%s rw - cgroup2 none rw\n", path);
	assert_int_equal(cgroup_mounts_parse(line, "0::/\n", &m, NULL), 0);
	assert_string_equal(m.parent[CGROUP_TREE], "");
	(void)snprintf(line, sizeof(line), "4:memory:/%s\n", path);
	assert_int_equal(cgroup_mounts_parse(V1_MEMORY, line, &m, NULL), 0);
	assert_string_equal(m.parent[CGROUP_MEMORY], "");
}

/* ---- folders that look like cgroups ---- */

struct place {
	char dir[64], v2[96], pids[96];
};

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
}

static int make_place(void **state)
{
	static struct place p;

	(void)snprintf(p.dir, sizeof(p.dir), "/tmp/pawl-cgroup-XXXXXX");
	assert_non_null(mkdtemp(p.dir));
	(void)snprintf(p.v2, sizeof(p.v2), "%s/v2", p.dir);
	(void)snprintf(p.pids, sizeof(p.pids), "%s/pids", p.dir);
	assert_int_equal(mkdir(p.v2, 0700) | mkdir(p.pids, 0700), 0);
	*state = &p;
	return 0;
}

static int end_place(void **state)
{
	const struct place *p = *state;
	char cmd[96], *const argv[] = { (char *)(uintptr_t)"rm", (char *)(uintptr_t)"-r", cmd, NULL };
	pid_t pid;

	(void)snprintf(cmd, sizeof(cmd), "%s", p->dir);
	pid = fork();
	if (pid == 0) {
		(void)execv("/bin/rm", argv);
		_exit(99);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static struct cgroup_mounts mounts_of(const struct place *p, bool v1_pids)
{
	struct cgroup_mounts m = { .v2 = { true, false, false } };

	memcpy(m.parent[CGROUP_TREE], p->v2, strlen(p->v2) + 1);
	if (v1_pids)
		memcpy(m.parent[CGROUP_PIDS], p->pids, strlen(p->pids) + 1);
	return m;
}

/* v2 without controllers: pids from v1, memory from nowhere, and each row says so. */
static void test_hybrid(void **state)
{
	const struct place *p = *state;
	struct cgroup_mounts m = mounts_of(p, true);
	struct cgroups all;
	char gone[CGROUP_PATH];

	put_file(p->v2, "cgroup.controllers", "hugetlb\n");
	cgroups_open(&m, "abc", &all);
	assert_non_null(strstr(all.dir[CGROUP_TREE], "/v2/pawl.abc"));
	assert_string_equal(all.dir[CGROUP_MEMORY], "");
	assert_int_equal(all.os_errno[CGROUP_MEMORY], ENOENT);
	assert_string_equal(all.why[CGROUP_MEMORY], "cgroup v2 has no controller memory here");
	assert_non_null(strstr(all.dir[CGROUP_PIDS], "/pids/pawl.abc"));
	assert_false(all.v2[CGROUP_PIDS]);
	assert_false(cgroup_can_kill(&all));
	assert_int_equal(access(all.dir[CGROUP_PIDS], F_OK), 0);
	(void)snprintf(gone, sizeof(gone), "%s", all.dir[CGROUP_PIDS]);
	cgroups_remove(&all);
	assert_int_not_equal(access(gone, F_OK), 0);
}

/* A controller that is promised and cannot be switched on is off: the file that would do it is missing below ours. */
static void test_unwilling(void **state)
{
	const struct place *p = *state;
	struct cgroup_mounts m = mounts_of(p, false);
	struct cgroups all;
	char text[64];

	put_file(p->v2, "cgroup.controllers", "cpu memory pids\n");
	put_file(p->v2, "cgroup.subtree_control", "");
	cgroups_open(&m, "abc", &all);
	assert_int_equal(all.os_errno[CGROUP_MEMORY], ENOENT);
	assert_string_equal(all.dir[CGROUP_MEMORY], "");
	assert_string_equal(all.dir[CGROUP_PIDS], "");
	cgroups_remove(&all);
	assert_true(small_read(all.switched[CGROUP_PIDS], text, sizeof(text)) > 0);
	assert_string_equal(text, "-pidsry"); /* a plain file keeps what "-memory" left behind "-pids": both were taken back */
}

/* Limits are files: one that is not there, or does not take its number, is a failure and nothing is left. */
static void test_every_write(void **state)
{
	const struct place *p = *state;
	struct cgroup_mounts m = mounts_of(p, true);
	struct pawl_error err = { .code = PAWL_OK };
	struct cgroups all;
	struct cgroup cg;

	put_file(p->v2, "cgroup.controllers", "");
	cgroups_open(&m, "abc", &all);
	assert_int_equal(cgroup_make(&all, 5, &cg, &err), 0);
	assert_true(cg.id != 0);
	assert_int_equal(cgroup_limit(&cg, 0, 50, &err), PAWL_E_SYS);
	assert_int_equal(err.os_errno, ENOENT);
	put_file(cg.dir[CGROUP_PIDS], "pids.max", "");
	assert_int_equal(cgroup_limit(&cg, 0, 50, &err), 0);
	assert_int_equal(cgroup_enter(&cg, 1, &err), PAWL_E_SYS);
	put_file(cg.dir[CGROUP_PIDS], "cgroup.procs", "");
	assert_int_equal(cgroup_enter(&cg, 1, &err), PAWL_E_SYS); /* and the tree's own */
	put_file(cg.dir[CGROUP_TREE], "cgroup.procs", "");
	assert_int_equal(cgroup_enter(&cg, 1, &err), 0);
	assert_int_equal(cgroup_kill(&cg, &err), PAWL_E_SYS);
	assert_int_equal(cgroup_make(&all, 5, &cg, &err), PAWL_E_BUSY); /* it holds something */
}

static void test_nothing_left(void **state)
{
	const struct place *p = *state;
	struct cgroup_mounts m = mounts_of(p, true);
	struct cgroups all;
	struct cgroup cg;
	char path[CGROUP_PATH];

	put_file(p->v2, "cgroup.controllers", "");
	cgroups_open(&m, "abc", &all);
	put_file(all.dir[CGROUP_PIDS], "s_6", "in the way");
	assert_true(cgroup_make(&all, 6, &cg, NULL) < 0);
	(void)snprintf(path, sizeof(path), "%.300s/s_6", all.dir[CGROUP_TREE]);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- the machine's own ---- */

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody */
		for (;;)
			(void)pause();
	}
	return pid;
}

static void test_real(void **state)
{
	struct cgroup_mounts m;
	struct cgroups all, again;
	struct cgroup_use use = { .cpu_ns = 0 };
	struct cgroup cg, same;
	struct pawl_error err = { .code = PAWL_OK };
	uint32_t pids[8];
	struct stat st;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(cgroup_mounts_read(&m, &err), 0);
	cgroups_open(&m, "unit-test", &all);
	if (!all.dir[CGROUP_TREE][0] || !cgroup_can_kill(&all)) {
		cgroups_remove(&all);
		skip_aloud("root and cgroup v2");
		return;
	}
	if (cgroup_make(&all, 1, &cg, &err) < 0 || cgroup_limit(&cg, 64 * MIB, 20, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(stat(cg.dir[CGROUP_TREE], &st), 0);
	assert_int_equal(cg.id, st.st_ino);
	assert_int_equal(cgroup_limit(&cg, 32 * MIB, 10, &err), 0); /* down, up and off: the order of v1's two files changes with it */
	assert_int_equal(cgroup_limit(&cg, 128 * MIB, 10, &err), 0);
	assert_int_equal(cgroup_limit(&cg, 0, 0, &err), 0);
	assert_int_equal(cgroup_limit(&cg, 64 * MIB, 20, &err), 0);
	pid = sleeper();
	assert_false(cgroup_has(&cg, (uint32_t)pid));
	if (cgroup_enter(&cg, (uint32_t)pid, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(cgroup_has(&cg, (uint32_t)pid));
	assert_false(cgroup_has(&cg, (uint32_t)getpid()));
	assert_int_equal(cgroup_procs(&cg, pids, 8), 1);
	assert_int_equal(pids[0], pid);
	cgroup_read_populated(&cg, &use);
	assert_true(use.populated && use.populated_known);
	cgroup_read_cpu(&cg, &use);
	assert_true(use.cpu_known);
	assert_false(cgroup_remove(&cg)); /* somebody is in it */
	cgroups_open(&m, "unit-test", &again); /* another watcher takes it over */
	cgroup_name(&again, 1, &same);
	assert_int_equal(same.id, cg.id);
	assert_int_equal(cgroup_make(&again, 1, &same, &err), PAWL_E_BUSY);
	assert_int_equal(cgroup_kill(&cg, &err), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	cgroup_read_populated(&cg, &use);
	assert_false(use.populated);
	while (!cgroup_remove(&cg)) /* v1 folders let go a moment after the last process is waited for */
		(void)usleep(1000);
	cgroups_remove(&all);
	assert_int_not_equal(access(again.dir[CGROUP_TREE], F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_long_mounts),
		cmocka_unit_test_setup_teardown(test_hybrid, make_place, end_place),
		cmocka_unit_test_setup_teardown(test_unwilling, make_place, end_place),
		cmocka_unit_test_setup_teardown(test_every_write, make_place, end_place),
		cmocka_unit_test_setup_teardown(test_nothing_left, make_place, end_place),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
