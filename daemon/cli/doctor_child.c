/* daemon/cli/doctor_child.c - one program, asked: started, read, and ended when it takes too long. Owns nothing between calls. */
#include "daemon/cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 1000 /* then people are told what is waited for */
#define MAX_COMPLAINT 4096

int64_t doctor_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct child {
	pid_t pid;
	int fd[2]; /* what it prints, what it complains; -1: ended */
};

static int start(char *const argv[], const char *cwd, const int out[2], const int errs[2], pid_t *ret, struct pawl_error *err)
{
	posix_spawn_file_actions_t acts;
	posix_spawnattr_t attr;
	sigset_t fresh;
	int e = posix_spawn_file_actions_init(&acts);

	if (e == 0 && (e = posix_spawnattr_init(&attr)) != 0)
		(void)posix_spawn_file_actions_destroy(&acts);
	if (e != 0)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	(void)sigemptyset(&fresh);
	(void)sigaddset(&fresh, SIGPIPE); /* pawl itself ignores it */
	if ((e = posix_spawnattr_setsigdefault(&attr, &fresh)) == 0)
		e = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	if (e == 0)
		e = posix_spawn_file_actions_addopen(&acts, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (e == 0)
		e = posix_spawn_file_actions_adddup2(&acts, out[1], STDOUT_FILENO);
	if (e == 0)
		e = posix_spawn_file_actions_adddup2(&acts, errs[1], STDERR_FILENO);
	if (e == 0)
		e = posix_spawn_file_actions_addchdir_np(&acts, cwd);
	if (e == 0)
		e = posix_spawnp(ret, argv[0], &acts, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&acts);
	errno = e;
	return e ? pawl_fail_errno(err, "cannot start %s", argv[0]) : 0;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* What does not fit is read and dropped: a child that is not read from would never end. */
static void take(int *fd, struct buf *into)
{
	char block[4096];
	ssize_t got = read(*fd, block, sizeof(block));

	if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
		close_one(fd);
		return;
	}
	if (got > 0 && into->n < into->max)
		buf_add(into, block, (size_t)got < into->max - into->n ? (size_t)got : into->max - into->n);
}

/* Until both ends are closed. false: time is over. */
static bool read_all(struct doctor *d, struct child *c, const char *name, int64_t until, struct buf *out, struct buf *errs)
{
	while (c->fd[0] >= 0 || c->fd[1] >= 0) {
		struct pollfd p[2] = { { c->fd[0], POLLIN, 0 }, { c->fd[1], POLLIN, 0 } };
		int64_t now = doctor_now_ms(), wait = until - now;

		if (wait <= 0)
			return false;
		if (!d->said && now - d->began_ms >= PATIENCE_MS) {
			d->said = true;
			(void)fprintf(stderr, "pawl doctor: waiting for %s, at most %lld s …\n", name, (long long)(wait / 1000 + 1));
		}
		if (!d->said && wait > PATIENCE_MS - (now - d->began_ms))
			wait = PATIENCE_MS - (now - d->began_ms);
		if (poll(p, 2, (int)wait) < 0 && errno != EINTR)
			return false;
		if (p[0].revents)
			take(&c->fd[0], out);
		if (p[1].revents)
			take(&c->fd[1], errs);
	}
	return true;
}

/* It has closed its ends; it may take its time to exit. */
static int end(pid_t pid, bool in_time, int64_t until)
{
	const struct timespec pause = { 0, 5000000 };
	int how = 0;
	pid_t got = 0;

	while (in_time && (got = waitpid(pid, &how, WNOHANG)) == 0 && doctor_now_ms() < until)
		(void)nanosleep(&pause, NULL);
	if (got == pid)
		return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
		;
	return -1;
}

static void first_line(const struct buf *errs, char out[static 160])
{
	size_t n = 0;

	while (n < errs->n && n < 159 && errs->p[n] != '\n' && errs->p[n] != '\0') {
		out[n] = errs->p[n];
		n++;
	}
	out[n] = '\0';
}

int doctor_child(struct doctor *d, char *const argv[], const char *cwd, int timeout_ms, struct buf *out, char complaint[static 160], int *ret_status,
		 struct pawl_error *err)
{
	struct buf errs = BUF_MAX(MAX_COMPLAINT);
	int64_t until = doctor_now_ms() + timeout_ms;
	int o[2] = { -1, -1 }, e[2] = { -1, -1 }, r = 0, status;
	struct child c = { .pid = 0, .fd = { -1, -1 } };
	bool in_time;

	if (pipe2(o, O_CLOEXEC) < 0 || pipe2(e, O_CLOEXEC) < 0)
		r = pawl_fail_errno(err, "pipe");
	if (r == 0)
		r = start(argv, cwd, o, e, &c.pid, err);
	close_one(&o[1]);
	close_one(&e[1]);
	if (r < 0) {
		close_one(&o[0]);
		close_one(&e[0]);
		return r;
	}
	c.fd[0] = o[0];
	c.fd[1] = e[0];
	in_time = read_all(d, &c, argv[0], until, out, &errs);
	close_one(&c.fd[0]);
	close_one(&c.fd[1]);
	status = end(c.pid, in_time, until);
	first_line(&errs, complaint);
	buf_done(&errs);
	if (status < 0)
		return pawl_fail(err, PAWL_E_SYS, "%s did not end within %d s; it was killed", argv[0], timeout_ms / 1000);
	if (!buf_ok(out))
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	*ret_status = status;
	return 0;
}
