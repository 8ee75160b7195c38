/* tests/kernel/escape.c - `escape CASE MARK [SECONDS]`: tries to leave a watched tree by the trick CASE, leaves a sleeper behind and ends with 0
 * once that sleeper lives; 3 when it never came to life. Every process of it has MARK among its arguments, so that a test can count who is
 * left, and says "ready" on standard output, which it keeps open: the end of that file is the end of all of them. Nobody sleeps longer than
 * SECONDS (60). `escape list` names the cases. */
#include "common.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct trick {
	const char *mark, *seconds;
	char fd[12]; /* of ready[1], for those that exec */
	int ready[2];
	double life;
};
extern char **environ;

/* What is left behind. Ends by itself after its time. */
static _Noreturn void sleeper(const struct trick *t)
{
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6 || write(t->ready[1], "r", 1) != 1)
		_exit(4);
	for (double end = now_s() + t->life; now_s() < end;)
		nap(end - now_s());
	_exit(0);
}

static void be_sleeper(const struct trick *t) /* by exec of this program */
{
	execl("/proc/self/exe", "escape", "sleeper", t->mark, t->seconds, t->fd, (char *)NULL);
	_exit(5);
}

static void plain(struct trick *t)
{
	if (fork() == 0)
		sleeper(t);
}

static void two_and_session(struct trick *t)
{
	if (fork() == 0) {
		setsid();
		if (fork() == 0)
			sleeper(t);
		_exit(0);
	}
}

static void closes_all(struct trick *t) /* E10: nothing that would tell of it stays open; ready is said before */
{
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			if (write(STDOUT_FILENO, "ready\n", 6) != 6 || write(t->ready[1], "r", 1) != 1)
				_exit(4);
			syscall(SYS_close_range, 0u, ~0u, 0u);
			if (chdir("/") == 0)
				nap(t->life);
		}
		_exit(0);
	}
}

static void by_vfork(struct trick *t)
{
	if (vfork() == 0)
		be_sleeper(t);
}

static void vfork_no_exec(struct trick *t) /* the parent waits in the kernel, where only a kill reaches it */
{
	if (fork() == 0) {
		if (vfork() == 0)
			sleeper(t);
		_exit(0);
	}
}

static void by_spawn(struct trick *t)
{
	char *argv[] = { (char[]){ "escape" }, (char[]){ "sleeper" }, strdup(t->mark), strdup(t->seconds), t->fd, NULL };
	pid_t pid;

	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0)
		_exit(5);
}

static long raw_clone(unsigned long flags)
{
	return syscall(SYS_clone, flags, NULL, NULL, NULL, 0);
}

static void same_parent(struct trick *t) /* a brother, not a child */
{
	if (raw_clone(CLONE_PARENT | SIGCHLD) == 0)
		sleeper(t);
}

static int sleeper_main(void *arg)
{
	sleeper(arg);
}

static void same_memory(struct trick *t)
{
	enum { STACK = 64 << 10 };
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || clone(sleeper_main, stack + STACK, CLONE_VM | SIGCHLD, t) < 0)
		die("clone");
}

static void *forks(void *arg)
{
	plain(arg);
	return NULL;
}

static void *execs(void *arg)
{
	be_sleeper(arg);
	return NULL;
}

static void *sleeps(void *arg)
{
	sleeper(arg);
}

static void in_thread(void *(*start)(void *), struct trick *t, pthread_t *th)
{
	if (pthread_create(th, NULL, start, t) != 0)
		die("pthread_create");
}

static void thread_forks(struct trick *t)
{
	pthread_t th;

	in_thread(forks, t, &th);
	pthread_join(th, NULL);
}

static void thread_execs(struct trick *t)
{
	pthread_t th;

	if (fork() == 0) {
		in_thread(execs, t, &th);
		for (;;)
			pause();
	}
}

static void leader_ends(struct trick *t) /* the process's first thread is a zombie, another sleeps on */
{
	pthread_t th;

	if (fork() == 0) {
		in_thread(sleeps, t, &th);
		syscall(SYS_exit, 0);
	}
}

static void memory_file(struct trick *t)
{
	char *argv[] = { (char[]){ "escape" }, (char[]){ "sleeper" }, strdup(t->mark), strdup(t->seconds), t->fd, NULL };
	char block[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = memfd_create("m", MFD_CLOEXEC);
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, (size_t)n) != n)
			die("memfd");
	if (fork() == 0) {
		fexecve(to, argv, environ);
		_exit(5);
	}
}

static void as_daemon(struct trick *t)
{
	if (fork() == 0) {
		if (daemon(1, 1) == 0)
			sleeper(t);
		_exit(5);
	}
}

static void chain_of(struct trick *t, int deep)
{
	if (fork() == 0) {
		if (deep > 1)
			chain_of(t, deep - 1);
		else
			sleeper(t);
		_exit(0);
	}
}

static void chain(struct trick *t)
{
	chain_of(t, 20);
}

static void other_user(struct trick *t)
{
	if (fork() == 0) {
		if (setgid(65534) == 0 && setuid(65534) == 0)
			sleeper(t);
		_exit(5);
	}
}

static void namespaces(struct trick *t, int flags)
{
	if (fork() == 0) {
		if (unshare(flags) != 0 && unshare(CLONE_NEWUSER | flags) != 0)
			_exit(5);
		if (fork() == 0) /* pid namespaces begin with the next child */
			sleeper(t);
		_exit(0);
	}
}

static void user_namespace(struct trick *t)
{
	namespaces(t, CLONE_NEWUSER);
}

static void pid_namespace(struct trick *t)
{
	namespaces(t, CLONE_NEWPID);
}

static void cgroup_namespace(struct trick *t)
{
	namespaces(t, CLONE_NEWCGROUP);
}

/* The next cgroup mount of the machine's, of kind "cgroup" or "cgroup2"; false: no more. */
static int next_mount(FILE *f, const char *kind, char path[static 256])
{
	char line[1024], want[32];

	snprintf(want, sizeof(want), " - %s ", kind);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, want) && sscanf(line, "%*s %*s %*s %*s %255s", path) == 1)
			return 1;
	return 0;
}

static void into_cgroup(struct trick *t)
{
	struct {
		unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
	} a = { .flags = 0x200000000ull, .exit_signal = SIGCHLD };
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char path[256];
	int fd;

	if (!f || !next_mount(f, "cgroup2", path))
		die("no cgroup2 here");
	fclose(f);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		_exit(5);
	a.cgroup = (unsigned long long)fd;
	if (syscall(SYS_clone3, &a, sizeof(a)) == 0)
		sleeper(t);
}

static void write_procs(struct trick *t, const char *kind, int all) /* into the root of the hierarchy, the weakest there is */
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char path[256], procs[280];
	int moved = 0, fd;

	if (!f)
		die("mountinfo");
	while (next_mount(f, kind, path)) {
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
		fd = open(procs, O_WRONLY | O_CLOEXEC);
		if (fd >= 0 && write(fd, "0\n", 2) == 2)
			moved++;
		if (fd >= 0)
			close(fd);
		if (!all)
			break;
	}
	fclose(f);
	if (!moved)
		_exit(5);
	sleeper(t);
}

static void procs_v2(struct trick *t)
{
	if (fork() == 0)
		write_procs(t, "cgroup2", 0);
}

static void procs_v1(struct trick *t)
{
	if (fork() == 0)
		write_procs(t, "cgroup", 1);
}

static void stopped(struct trick *t) /* does not run, so that nobody who waits for it to run will reach it */
{
	if (fork() == 0) {
		if (write(STDOUT_FILENO, "ready\n", 6) != 6 || write(t->ready[1], "r", 1) != 1)
			_exit(4);
		alarm((unsigned)t->life); /* of no use to a stopped process: the test's own cgroup is its end */
		raise(SIGSTOP);
		nap(t->life);
		_exit(0);
	}
}

static void runs_on(struct trick *t) /* has a new number before anybody has read the old one */
{
	double end = now_s() + t->life;

	if (fork() == 0) {
		if (write(STDOUT_FILENO, "ready\n", 6) != 6 || write(t->ready[1], "r", 1) != 1)
			_exit(4);
		while (now_s() < end)
			if (fork() != 0)
				_exit(0);
		_exit(0);
	}
}

static void renamed(struct trick *t)
{
	if (fork() == 0) {
		prctl(PR_SET_NAME, "kworker/u4:1", 0, 0, 0);
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		sleeper(t);
	}
}

static const struct {
	const char *name;
	void (*go)(struct trick *t);
} tricks[] = {
	{ "fork", plain }, { "double-fork", two_and_session }, { "close-all", closes_all }, { "vfork", by_vfork }, { "vfork-no-exec", vfork_no_exec },
	{ "spawn", by_spawn }, { "clone-parent", same_parent }, { "clone-vm", same_memory }, { "thread-fork", thread_forks },
	{ "thread-exec", thread_execs }, { "leader-ends", leader_ends }, { "memfd", memory_file }, { "daemon", as_daemon }, { "chain", chain },
	{ "setuid", other_user }, { "user-namespace", user_namespace }, { "pid-namespace", pid_namespace }, { "cgroup-namespace", cgroup_namespace },
	{ "into-cgroup", into_cgroup }, { "cgroup-procs", procs_v2 }, { "cgroup-procs-v1", procs_v1 }, { "stopped", stopped },
	{ "runs-on", runs_on }, { "renamed", renamed },
};

static int came_to_life(const struct trick *t)
{
	struct pollfd p = { .fd = t->ready[0], .events = POLLIN };
	char c;

	close(t->ready[1]); /* a trick that was refused leaves nobody with the other end */
	return poll(&p, 1, 20000) == 1 && read(t->ready[0], &c, 1) == 1;
}

int main(int argc, char **argv)
{
	static struct trick t; /* not on the stack, which a child in the same memory would lose with the first process */

	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (size_t i = 0; i < LEN(tricks); i++)
			puts(tricks[i].name);
		return 0;
	}
	if (argc < 3 || argc > 5)
		return 2;
	t.mark = argv[2];
	t.seconds = argc > 3 ? argv[3] : "60";
	t.life = (double)number(t.seconds, 600);
	if (argc == 5 && strcmp(argv[1], "sleeper") == 0) {
		t.ready[1] = (int)number(argv[4], 1 << 20);
		sleeper(&t);
	}
	if (pipe(t.ready) != 0)
		die("pipe");
	snprintf(t.fd, sizeof(t.fd), "%d", t.ready[1]);
	for (size_t i = 0; i < LEN(tricks); i++)
		if (strcmp(tricks[i].name, argv[1]) == 0) {
			tricks[i].go(&t);
			return came_to_life(&t) ? 0 : 3;
		}
	fprintf(stderr, "escape: no such case: %s\n", argv[1]);
	return 2;
}
