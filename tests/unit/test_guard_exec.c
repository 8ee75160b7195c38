/* tests/unit/test_guard_exec.c - programs that are stopped before their first instruction, and what is told of program starts. The victim
 * writes a byte when it runs: each way is shown to run it when nothing is denied. Needs root and a kernel that takes the programs. */
#include "tests/support/guard_world.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#define ROUNDS 5 /* of each way; tests/kernel has the thousands */

/* write(VICTIM_FD, "x", 1); exit(0): 157 bytes that depend on nothing */
static const unsigned char tiny[] = {
#ifdef __x86_64__
	0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0, 0x78, 0, 0x40, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0,
	0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xb8, 1, 0, 0, 0,
	0xbf, VICTIM_FD, 0, 0, 0, 0x48, 0x8d, 0x35, 0x10, 0, 0, 0, 0xba, 1, 0, 0, 0, 0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 'x',
	0, 0, 0, 0
#else
	0
#endif
};

struct files {
	char dir[64], stat[96], dyn[96], hard[96], sym[96], script[96], other[96];
};

static void put_file(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), n);
	assert_int_equal(close(fd), 0);
}

static void copy_self(const char *path)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	struct stat st;
	off_t at = 0;

	assert_true(from >= 0 && to >= 0);
	assert_int_equal(fstat(from, &st), 0);
	while (at < st.st_size) {
		char page[4096];
		ssize_t n = pread(from, page, sizeof(page), at);

		assert_true(n > 0);
		assert_int_equal(write(to, page, (size_t)n), n);
		at += n;
	}
	(void)close(from);
	(void)close(to);
}

static void files_make(struct files *f)
{
	char text[128];
	int n;

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/pawl-victim-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->stat, sizeof(f->stat), "%s/static", f->dir);
	(void)snprintf(f->dyn, sizeof(f->dyn), "%s/dynamic", f->dir);
	(void)snprintf(f->hard, sizeof(f->hard), "%s/hard", f->dir);
	(void)snprintf(f->sym, sizeof(f->sym), "%s/sym", f->dir);
	(void)snprintf(f->script, sizeof(f->script), "%s/script", f->dir);
	(void)snprintf(f->other, sizeof(f->other), "%s/other", f->dir);
	put_file(f->stat, tiny, sizeof(tiny));
	copy_self(f->dyn);
	copy_self(f->other);
	assert_int_equal(link(f->dyn, f->hard) | symlink(f->dyn, f->sym), 0);
	n = snprintf(text, sizeof(text), "#!%s\n", f->dyn);
	put_file(f->script, text, (size_t)n);
}

static void files_drop(const struct files *f)
{
	const char *const all[] = { f->stat, f->dyn, f->hard, f->sym, f->script, f->other };

	for (size_t i = 0; i < PAWL_LEN(all); i++)
		(void)unlink(all[i]);
	assert_int_equal(rmdir(f->dir), 0);
}

/* ---- ways to start a program; in a job ---- */

static char victim_name[] = "dynamic", victim_env[] = "VICTIM=1";
static char *const victim_argv[] = { victim_name, NULL }, *const victim_envp[] = { victim_env, NULL };

static int by_execve(int sock, void *path)
{
	(void)sock;
	(void)execve(path, victim_argv, victim_envp);
	return 60;
}

static int by_execveat(int sock, void *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	(void)sock;
	(void)syscall(SYS_execveat, fd, "", victim_argv, victim_envp, AT_EMPTY_PATH);
	return 61;
}

static void *exec_it(void *path)
{
	(void)execve(path, victim_argv, victim_envp);
	return NULL;
}

static int by_thread(int sock, void *path)
{
	pthread_t t;

	(void)sock;
	(void)(pthread_create(&t, NULL, exec_it, path) || pthread_join(t, NULL));
	return 62;
}

static int by_child(int sock, void *path) /* the parent is not touched: it hands on how the child ended */
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(by_execve(sock, path));
	(void)waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		(void)raise(WTERMSIG(status));
	return WEXITSTATUS(status);
}

static int by_memfd(int sock, void *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), fd = (int)syscall(SYS_memfd_create, "harmless", MFD_CLOEXEC);
	char page[4096];
	ssize_t n;

	(void)sock;
	while ((n = read(from, page, sizeof(page))) > 0)
		if (write(fd, page, (size_t)n) != n)
			return 63;
	(void)syscall(SYS_execveat, fd, "", victim_argv, victim_envp, AT_EMPTY_PATH);
	return 64;
}

static int by_deleted(int sock, void *path) /* a copy, whose name goes before it is started */
{
	char copy[128];
	int fd;

	(void)sock;
	(void)snprintf(copy, sizeof(copy), "%s-copy", (const char *)path);
	copy_self(copy);
	fd = open(copy, O_PATH | O_CLOEXEC);
	if (unlink(copy) < 0)
		return 65;
	(void)syscall(SYS_execveat, fd, "", victim_argv, victim_envp, AT_EMPTY_PATH);
	return 66;
}

static struct guard_file file_of(const char *path)
{
	struct guard_file file = { .dev = 0 };
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	file.dev = (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev);
	file.ino = st.st_ino;
	return file;
}

/* One start of the victim in a new tree: true when it ran, false when it was killed first. Anything else fails. */
static bool runs(struct guard_world *w, const char *name, job_fn *fn, const char *path, const struct guard_file *deny, uint32_t flags)
{
	char where[96];
	struct job j;
	int status;
	size_t ran;

	(void)snprintf(where, sizeof(where), "%s", path);
	world_tree(w, NULL, flags, 0);
	if (deny)
		assert_int_equal(guard_deny(w->g, SESSION, deny, 1, NULL), 0);
	job_run(w, &j, fn, where);
	status = job_end(&j);
	ran = job_victims(&j);
	if (!(status == 0 && ran == 1) && !(was_killed(status) && ran == 0))
		fail_msg("%s: status %x, ran %zu times", name, (unsigned)status, ran);
	assert_int_equal(world_now(w).live, 0);
	guard_tree_drop(w->g, SESSION);
	world_consume(w);
	return ran == 1;
}

static void test_denied_programs(void **state)
{
	struct guard_world *w = world_here(state);
	struct guard_file dyn;
	struct files f;
	const struct {
		const char *name;
		job_fn *fn;
		const char *path, *denied;
	} ways[] = {
		{ "static", by_execve, f.stat, f.stat }, { "dynamic", by_execve, f.dyn, f.dyn }, { "execveat", by_execveat, f.dyn, f.dyn },
		{ "hard link", by_execve, f.hard, f.dyn }, { "symlink", by_execve, f.sym, f.dyn },
		{ "interpreter of a script", by_execve, f.script, f.dyn }, { "thread", by_thread, f.dyn, f.dyn },
		{ "child", by_child, f.dyn, f.dyn }, { "static by execveat", by_execveat, f.stat, f.stat },
	};

	files_make(&f);
	world_open(w);
	for (size_t i = 0; i < PAWL_LEN(ways); i++) {
		struct guard_file deny = file_of(ways[i].denied), other = file_of("/bin/sh");

		if (sizeof(tiny) == 1 && strstr(ways[i].name, "static"))
			continue; /* written for another processor */
		if (!runs(w, ways[i].name, ways[i].fn, ways[i].path, NULL, 0) || !runs(w, ways[i].name, ways[i].fn, ways[i].path, &other, 0))
			fail_msg("%s: killed, and it was not denied", ways[i].name);
		for (int n = 0; n < ROUNDS; n++) {
			uint64_t before = w->seen[WATCH_KILL];

			if (runs(w, ways[i].name, ways[i].fn, ways[i].path, &deny, 0))
				fail_msg("%s: ran, and it was denied", ways[i].name);
			assert_int_equal(w->seen[WATCH_KILL], before + 1);
			assert_int_equal(w->last[WATCH_KILL].why, WHY_DENY_EXEC);
			assert_int_equal(w->last[WATCH_KILL].dev, deny.dev);
			assert_int_equal(w->last[WATCH_KILL].ino, deny.ino);
			assert_int_equal(w->last[WATCH_KILL].tree, SESSION);
		}
	}
	dyn = file_of(f.dyn);
	assert_true(runs(w, "log only", by_execve, f.dyn, &dyn, ATTACH_LOG_ONLY));
	assert_int_equal(w->last[WATCH_KILL].flags, WATCH_F_LOG_ONLY);
	assert_int_equal(w->last[WATCH_KILL].why, WHY_DENY_EXEC);
	assert_string_equal(w->last[WATCH_KILL].path, f.dyn);
	files_drop(&f);
}

static void test_programs_without_a_name(void **state) /* E07 */
{
	struct guard_world *w = world_here(state);
	struct files f;

	files_make(&f);
	world_open(w);
	for (int n = 0; n < ROUNDS; n++) {
		assert_false(runs(w, "memfd", by_memfd, f.dyn, NULL, 0));
		assert_int_equal(w->last[WATCH_KILL].why, WHY_FILELESS);
		assert_false(runs(w, "deleted", by_deleted, f.dyn, NULL, 0));
		assert_int_equal(w->last[WATCH_KILL].why, WHY_FILELESS);
	}
	assert_int_equal(w->seen[WATCH_KILL], 2 * ROUNDS);
	assert_true(runs(w, "memfd, log only", by_memfd, f.dyn, NULL, ATTACH_LOG_ONLY));
	assert_int_equal(w->last[WATCH_KILL].flags, WATCH_F_LOG_ONLY);
	files_drop(&f);
}

/* ---- applets ---- */

struct call {
	const char *path;
	char *const *argv;
};

static int by_call(int sock, void *arg)
{
	const struct call *c = arg;

	(void)sock;
	(void)execve(c->path, c->argv, victim_envp);
	return 67;
}

static void test_applets(void **state)
{
	struct guard_world *w = world_here(state);
	char slashes[400], nc_far[400], huge[6000];
	const struct {
		const char *argv[8];
		bool runs;
	} calls[] = {
		{ { "nc" }, false }, { { "/usr/bin/nc", "-l" }, false }, { { "-nc" }, false }, { { "busybox", "nc", "-l" }, false },
		{ { "busybox", "/x/nc" }, false }, { { "x/busybox", "busybox", "busybox", "nc" }, false }, { { nc_far }, false },
		{ { "busybox", nc_far }, false }, { { "busybox", "busybox", "busybox", "busybox", "busybox", "busybox", "busybox" }, false },
		{ { "busybox", huge }, false }, { { "coreutils", "--coreutils-prog=nc" }, false }, { { "toybox", "toybox", "nc" }, false },
		{ { "toybox", "ls", "nc" }, true }, { { "wget" }, false }, { { "ls" }, true }, { { "ncx" }, true }, { { "xnc" }, true },
		{ { "nc/" }, true }, { { "" }, true }, { { "busybox" }, true }, { { "busybox", "sh", "nc" }, true }, { { "ls", "--", "nc" }, true },
		{ { slashes }, true }, { { "a-name-that-is-longer-than-any-applet-has-a-right-to-be" }, true },
	};
	struct files f;
	struct guard_file deny[2];

	memset(slashes, '/', sizeof(slashes) - 1);
	slashes[sizeof(slashes) - 1] = '\0';
	memcpy(nc_far, slashes, sizeof(nc_far));
	memcpy(nc_far + sizeof(nc_far) - 3, "nc", 3);
	memset(huge, 'x', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	files_make(&f);
	world_open(w);
	deny[0] = deny[1] = file_of(f.dyn);
	memcpy(deny[0].applet, "nc", 3);
	memcpy(deny[1].applet, "wget", 5);
	for (size_t i = 0; i < PAWL_LEN(calls); i++) {
		char *argv[8];
		struct call c = { f.dyn, argv };
		struct job j;
		int status;
		size_t ran;

		memcpy(argv, calls[i].argv, sizeof(argv));
		world_tree(w, NULL, 0, 0);
		assert_int_equal(guard_deny(w->g, SESSION, deny, 2, NULL), 0);
		job_run(w, &j, by_call, &c);
		status = job_end(&j);
		ran = job_victims(&j);
		if (ran != calls[i].runs || was_killed(status) == calls[i].runs)
			fail_msg("%zu, %s %s: status %x, ran %zu times", i, argv[0], argv[1] ? argv[1] : "", (unsigned)status, ran);
		world_consume(w);
		if (!calls[i].runs)
			assert_int_equal(w->last[WATCH_KILL].flags & WATCH_F_APPLET, WATCH_F_APPLET);
		guard_tree_drop(w->g, SESSION);
	}
	deny[0].applet[0] = '\0'; /* both by name and whole: whole */
	world_tree(w, NULL, 0, 0);
	assert_int_equal(guard_deny(w->g, SESSION, deny, 2, NULL), 0);
	guard_tree_drop(w->g, SESSION);
	assert_true(runs(w, "after the drop", by_execve, f.dyn, NULL, 0));
	memset(deny[0].applet, 'a', sizeof(deny[0].applet));
	world_tree(w, NULL, 0, 0);
	assert_true(guard_deny(w->g, SESSION, deny, 1, NULL) < 0);
	files_drop(&f);
}

/* ---- a tree that is not there ---- */

static int forks_once(int sock, void *arg)
{
	pid_t pid;

	(void)sock, (void)arg;
	pid = fork();
	if (pid == 0)
		_exit(write(VICTIM_FD, "x", 1) != 1);
	(void)waitpid(pid, NULL, 0);
	return 0;
}

static void test_no_tree_means_no(void **state)
{
	struct guard_world *w = world_here(state);
	struct files f;
	const struct {
		const char *name;
		job_fn *fn;
	} rows[] = { { "exec", by_execve }, { "fork", forks_once } };

	files_make(&f);
	world_open(w);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct guard_tree next = { .session = SESSION + 1 };
		struct job j;

		world_tree(w, NULL, 0, 0);
		job_start(&j, rows[i].fn, f.dyn);
		job_tag(w, &j);
		guard_tree_drop(w->g, SESSION);
		for (uint64_t n = 0; n < PAWL_MAX_TREES; n++, next.session++) /* its slot is somebody else's now: that helps nobody */
			assert_int_equal(guard_tree_add(w->g, &next, NULL), 0);
		job_go(&j);
		if (!was_killed(job_end(&j)))
			fail_msg("%s: lives without a tree", rows[i].name);
		(void)job_victims(&j);
		world_consume(w);
		assert_true(w->seen[WATCH_KILL] > 0);
		w->seen[WATCH_KILL] = 0;
		assert_int_equal(w->last[WATCH_KILL].why, WHY_NO_TREE);
		assert_int_equal(w->last[WATCH_KILL].tree, SESSION);
		for (next.session = SESSION + 1; next.session <= SESSION + PAWL_MAX_TREES; next.session++)
			guard_tree_drop(w->g, next.session);
	}
	files_drop(&f);
}

/* ---- events ---- */

#define STARTS 120
static int starts_many(int sock, void *path)
{
	(void)sock;
	for (int i = 0; i < STARTS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(by_execve(sock, path));
		(void)waitpid(pid, NULL, 0);
	}
	return 0;
}

static int starts_both(int sock, void *arg)
{
	const struct files *f = arg;
	int r = starts_many(sock, (void *)(uintptr_t)f->other);

	return r ? r : by_child(sock, (void *)(uintptr_t)f->dyn);
}

static void test_a_full_ring_loses_events_and_no_kill(void **state) /* E02 */
{
	struct guard_world *w = world_here(state);
	struct guard_totals totals;
	struct guard_file deny;
	struct files f;
	struct job j;
	uint64_t got = 0;

	files_make(&f);
	w->opt.ring_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
	world_open(w);
	world_tree(w, NULL, ATTACH_EVENTS, 0);
	deny = file_of(f.dyn);
	assert_int_equal(guard_deny(w->g, SESSION, &deny, 1, NULL), 0);
	job_run(w, &j, starts_both, &f);
	assert_true(was_killed(job_end(&j))); /* handed on from the child that was denied */
	assert_int_equal(job_victims(&j), STARTS);
	guard_totals(w->g, &totals);
	world_consume(w);
	for (size_t i = 0; i < WATCH_KIND_COUNT; i++)
		got += w->seen[i];
	assert_true(totals.lost > 0);
	assert_int_equal(totals.attempted, got + totals.lost);
	assert_int_equal(totals.kills, 1);
	assert_int_equal(totals.no_tag, 0);
	assert_int_equal(world_now(w).lost, totals.lost);
	files_drop(&f);
}

static int starts_and_stays(int sock, void *arg)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(by_call(sock, arg));
		(void)waitpid(pid, NULL, 0);
	}
	return member(sock);
}

static void test_events_wait_and_urgent_ones_wake(void **state)
{
	struct guard_world *w = world_here(state);
	char name[WATCH_ARGV], path[WATCH_PATH + 1] = "";
	char *const argv[] = { name, name, NULL };
	struct call c = { path, argv };
	struct pollfd p = { .events = POLLIN };
	struct files f;
	struct job j;
	size_t n;

	files_make(&f);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (n = 0; n + strlen(f.dyn) < WATCH_PATH; n++) /* the same file by a name of 128 bytes */
		path[n] = '/';
	memcpy(path + n, f.dyn, strlen(f.dyn));
	world_open(w);
	p.fd = guard_fd(w->g);
	assert_int_equal(poll(&p, 1, 0), 0);
	world_tree(w, NULL, ATTACH_EVENTS, 0);
	job_run(w, &j, starts_and_stays, &c);
	assert_int_equal(job_hear(&j), j.pid);
	assert_int_equal(poll(&p, 1, 0), 0); /* starts of programs wake nobody */
	assert_int_equal(guard_consume(w->g, 1, world_note, w), 1);
	assert_int_equal(guard_consume(w->g, 0, world_note, w), 0);
	world_consume(w);
	assert_int_equal(w->seen[WATCH_EXEC], 3);
	assert_int_equal(w->first_exec.flags, WATCH_F_PATH_CUT | WATCH_F_ARGV_CUT);
	assert_int_equal(w->first_exec.path_len, WATCH_PATH - 1);
	assert_memory_equal(w->first_exec.path, path, WATCH_PATH - 1);
	assert_int_equal(w->first_exec.path[WATCH_PATH - 1], 0);
	assert_int_equal(w->first_exec.argv_len, WATCH_ARGV);
	assert_memory_equal(w->first_exec.argv, name, sizeof(name));
	assert_int_equal(w->first_exec.ino, file_of(f.dyn).ino);
	assert_int_equal(w->first_exec.uid, 0);
	assert_int_equal(w->first_exec.ppid, j.pid);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(job_end(&j), 0);
	(void)job_victims(&j);
	assert_int_equal(poll(&p, 1, 0), 1); /* the end of a tree does */
	world_consume(w);
	assert_int_equal(w->seen[WATCH_EMPTY], 1);
	assert_int_equal(poll(&p, 1, 0), 0);
	files_drop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_denied_programs, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_programs_without_a_name, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_applets, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_no_tree_means_no, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_a_full_ring_loses_events_and_no_kill, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_events_wait_and_urgent_ones_wake, world_setup, world_teardown),
	};

	if (getenv("VICTIM")) /* a copy of this program, started by a job */
		_exit(write(VICTIM_FD, "x", 1) != 1);
	(void)world_begin();
	return cmocka_run_group_tests_name("guard: programs", tests, NULL, NULL);
}
