/* guard_world.h - a guard with pins in a bpffs of its own (in a mount namespace of its own, so that nothing stays behind), and jobs:
 * children that wait until they are tagged, then do what a test says. The test is the reaper of all that they leave. */
#ifndef TESTS_SUPPORT_GUARD_WORLD_H
#define TESTS_SUPPORT_GUARD_WORLD_H
#include "daemon/watch/guard.h"

#include "tests/support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SESSION 77u
#define VICTIM_FD 9

struct guard_world {
	char dir[64], pins[80];
	struct guard *g;
	struct watch_probes probes;
	struct guard_options opt;
	uint64_t seen[WATCH_KIND_COUNT];
	struct watch_event last[WATCH_KIND_COUNT], first_exec;
};

struct job {
	pid_t pid;
	int pidfd;
	int sock;  /* the job sends a byte for each process that is to be looked at, and reads until this end is closed */
	int ran;   /* the read end of what the job has as VICTIM_FD */
};
typedef int job_fn(int sock, void *arg);

/* Called first in main(): true when a file system for pins could be mounted. */
static inline bool world_begin(void)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static inline void world_note(void *arg, const struct watch_event *ev)
{
	struct guard_world *w = arg;

	assert_in_range(ev->kind, WATCH_EXEC, WATCH_KIND_COUNT - 1);
	if (ev->kind == WATCH_EXEC && !w->seen[WATCH_EXEC])
		w->first_exec = *ev;
	w->seen[ev->kind]++;
	w->last[ev->kind] = *ev;
}

static inline void world_consume(struct guard_world *w)
{
	while (guard_consume(w->g, 64, world_note, w) > 0)
		;
}

static inline void world_open(struct guard_world *w)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (guard_open(&w->opt, &w->probes, &w->g, &err) < 0)
		fail_msg("guard_open: %s", err.msg);
	if (w->probes.row[WP_TRACING].state != WATCH_ON) /* Linux 7.0 */
		skip_aloud("a kernel whose tracepoints see every fork");
}

static inline int world_setup(void **state)
{
	struct guard_world *w = calloc(1, sizeof(*w));

	if (!w)
		return -1;
	*state = w;
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/pawl-guard-XXXXXX");
	if (!mkdtemp(w->dir))
		return -1;
	(void)snprintf(w->pins, sizeof(w->pins), "%s/pins", w->dir);
	w->opt.pins = w->pins;
	if (geteuid() != 0 || mount("none", w->dir, "bpf", 0, "mode=0700") < 0)
		w->opt.pins = NULL;
	return 0;
}

/* A test that failed half-way leaves its job: the next one would wait for it for ever. Orphans come to us (world_begin). */
static inline void world_end_jobs(void)
{
	char path[64], line[4096], *at;
	ssize_t n = 1;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	while (n > 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
		(void)close(fd);
		line[n > 0 ? n : 0] = '\0';
		for (at = line; *at; at += strspn(at, " \n")) {
			pid_t pid = (pid_t)strtol(at, &at, 10);

			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, __WALL);
		}
	}
}

static inline int world_teardown(void **state)
{
	struct guard_world *w = *state;

	world_end_jobs();

	if (w->g) {
		guard_unpin(w->g);
		guard_close(w->g);
	}
	(void)umount2(w->dir, MNT_DETACH);
	(void)rmdir(w->dir);
	free(w);
	return 0;
}

/* The world of a test, or the test is skipped. */
static inline struct guard_world *world_here(void **state)
{
	struct guard_world *w = *state;

	if (!w->opt.pins)
		skip_aloud("root, and a bpffs that may be mounted");
	return w;
}

static inline uint64_t boot_ns(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void world_tree(struct guard_world *w, const struct watch_limits *limits, uint32_t flags, uint64_t cgroup)
{
	struct guard_tree tree = { .session = SESSION, .cgroup = cgroup, .flags = flags, .start_boot_ns = boot_ns() };

	if (limits)
		tree.limits = *limits;
	assert_int_equal(guard_tree_add(w->g, &tree, NULL), 0);
}

static inline struct guard_tree world_now(struct guard_world *w)
{
	struct guard_tree now;

	assert_int_equal(guard_tree_get(w->g, SESSION, &now, NULL), 0);
	return now;
}

/* Until it sleeps: one that runs is seen by the sampler. */
static inline void job_wait_asleep(pid_t pid)
{
	const struct timespec nap = { 0, 200000 };
	char path[32], text[256] = "";

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 100000 && !strstr(text, ") S "); i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		assert_true(n > 0);
		text[n] = '\0';
		(void)close(fd);
		(void)nanosleep(&nap, NULL);
	}
	assert_non_null(strstr(text, ") S "));
}

/* The child closes what is the test's and waits; it runs fn when job_go() lets it. */
static inline void job_start(struct job *j, job_fn *fn, void *arg)
{
	int pair[2], ran[2], one = 1;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)), 0);
	assert_int_equal(pipe2(ran, O_CLOEXEC), 0);
	j->pid = fork();
	assert_true(j->pid >= 0);
	if (j->pid == 0) {
		/* the guard's descriptors go: a copy of them would keep programs in the kernel that were unpinned */
		int sock = fcntl(pair[1], F_DUPFD_CLOEXEC, VICTIM_FD + 1), victim = fcntl(ran[1], F_DUPFD_CLOEXEC, VICTIM_FD + 1);

		if (sock < 0 || victim < 0 || dup2(victim, VICTIM_FD) < 0 || dup2(sock, VICTIM_FD + 1) < 0 ||
		    close_range(3, VICTIM_FD - 1, 0) < 0 || close_range(VICTIM_FD + 2, ~0u, 0) < 0 ||
		    fcntl(VICTIM_FD + 1, F_SETFD, FD_CLOEXEC) < 0)
			_exit(99);
		if (recv(VICTIM_FD + 1, &c, 1, 0) != 1)
			_exit(98);
		_exit(fn(VICTIM_FD + 1, arg));
	}
	(void)close(pair[1]);
	(void)close(ran[1]);
	j->sock = pair[0];
	j->ran = ran[0];
	j->pidfd = (int)syscall(SYS_pidfd_open, j->pid, 0);
	assert_true(j->pidfd >= 0);
	job_wait_asleep(j->pid);
}

static inline void job_go(const struct job *j)
{
	assert_int_equal(send(j->sock, "g", 1, MSG_NOSIGNAL), 1);
}

static inline void job_tag(struct guard_world *w, const struct job *j)
{
	struct pawl_error err = { .code = PAWL_OK };

	if (guard_tag(w->g, j->pidfd, SESSION, &err) < 0)
		fail_msg("guard_tag: %s", err.msg);
}

static inline void job_run(struct guard_world *w, struct job *j, job_fn *fn, void *arg)
{
	job_start(j, fn, arg);
	job_tag(w, j);
	job_go(j);
}

/* In a job: here I am; goes on when the test has closed its end. */
static inline int member(int sock)
{
	char c;

	if (send(sock, "m", 1, MSG_NOSIGNAL) != 1)
		return 97;
	return recv(sock, &c, 1, 0) < 0;
}

static inline int only_member(int sock, void *arg)
{
	(void)arg;
	return member(sock);
}

/* In a job: until its children have ended. */
static inline int wait_for_all(int ret)
{
	int status;

	while (waitpid(-1, &status, __WALL) > 0)
		;
	return ret;
}

/* The pid, as this process sees it, of the next process that says it is here; 0: there will be none. */
static inline pid_t job_hear(const struct job *j)
{
	char c, room[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec io = { &c, 1 };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	struct ucred who;
	ssize_t n = recvmsg(j->sock, &m, 0);

	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	assert_int_equal(n, 1);
	assert_non_null(CMSG_FIRSTHDR(&m));
	memcpy(&who, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(who));
	return who.pid;
}

static inline uint64_t tag_of_pid(struct guard_world *w, pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	uint64_t tree;

	assert_true(fd >= 0);
	tree = guard_tag_of(w->g, fd);
	(void)close(fd);
	return tree;
}

/* Reaps everything that is left; the job's own wait status. */
static inline int job_end(struct job *j)
{
	int status = -1, one;
	pid_t pid;

	if (j->sock >= 0)
		(void)close(j->sock);
	j->sock = -1;
	while ((pid = waitpid(-1, &one, __WALL)) > 0 || errno == EINTR)
		if (pid == j->pid)
			status = one;
	(void)close(j->pidfd);
	return status;
}

/* How often the victim ran; call it after job_end(). */
static inline size_t job_victims(const struct job *j)
{
	char c[64];
	ssize_t n;
	size_t sum = 0;

	while ((n = read(j->ran, c, sizeof(c))) > 0)
		sum += (size_t)n;
	(void)close(j->ran);
	return sum;
}

static inline bool was_killed(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

#endif
