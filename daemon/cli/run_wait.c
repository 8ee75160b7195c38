/* daemon/cli/run_wait.c - `pawl run` while its command runs: signals, stops, orphans, and pawld coming and going. Everything is looked at in
 * one place, run_poll(); a signal is never handled where it falls.
 * The command shares our process group and terminal, so what the terminal sends has reached it already: only what was sent to us alone is
 * passed on, and never what the tree itself sent. */
#include "daemon/cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define END_MS 15000	 /* for pawld to end what the command left behind, and to write it down */
#define KILL_MS 3000	 /* from "ended" to the end of our own child */
#define FIRST_PAUSE_MS 50
#define LAST_PAUSE_MS 2000
#define SWEEPS 200	 /* rounds over what was left behind when pawld is not there to do it */

static const int taken[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD };

int64_t run_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int run_signals_open(struct run *r, struct pawl_error *err)
{
	struct sigaction now;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigemptyset(&r->ignored);
	for (int s = 1; s < NSIG; s++)
		if (s != SIGPIPE && sigaction(s, NULL, &now) == 0 && now.sa_handler == SIG_IGN) /* of PIPE only main() knows */
			(void)sigaddset(&r->ignored, s);
	for (size_t i = 0; i < PAWL_LEN(taken); i++)
		(void)sigaddset(&set, taken[i]);
	if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || sigprocmask(SIG_BLOCK, &set, &r->mask) < 0)
		return pawl_fail_errno(err, "signals");
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signals < 0)
		return pawl_fail_errno(err, "signalfd");
	/* orphans of the tree come to us: findable without help of the kernel's programs */
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? pawl_fail_errno(err, "PR_SET_CHILD_SUBREAPER") : 0;
}

static pid_t parent_of(pid_t pid)
{
	char path[40], line[512];
	int fd;
	const char *p;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		(void)close(fd);
	if (n <= 0)
		return 0;
	line[n] = '\0';
	p = strrchr(line, ')'); /* the name before it is anybody's choice */
	return p && strlen(p) > 4 ? (pid_t)strtol(p + 4, NULL, 10) : 0;
}

/* Orphans are our children, so whatever leads up to us is of the tree. */
static bool from_tree(pid_t pid)
{
	for (int i = 0; i < 64 && pid > 1; i++) {
		pid = parent_of(pid);
		if (pid == getpid())
			return true;
	}
	return false;
}

/* Whether somebody above us does job control for our process group: the kernel's "not orphaned", looked at along our own line. */
static bool in_a_job(void)
{
	pid_t pid = getppid();

	for (int i = 0; i < 64 && pid > 0 && getpgid(pid) == getpgrp(); i++)
		pid = parent_of(pid);
	return pid > 0 && getpgid(pid) != getpgrp() && getsid(pid) == getsid(0);
}

/* Without a shell above us nobody would continue us: the command stays as it is, and its limits, the door and SIGCONT are heard. */
static void stopped(struct run *r)
{
	if (!in_a_job())
		return;
	(void)raise(SIGSTOP); /* so that the shell that started us has its terminal back */
	(void)kill(r->child.pid, SIGCONT);
}

static void reap(struct run *r)
{
	int st;
	pid_t pid;

	while ((pid = waitpid(-1, &st, WNOHANG | WUNTRACED)) > 0) {
		if (pid == r->child.pid && WIFSTOPPED(st) && r->launched) {
			stopped(r);
		} else if (pid == r->child.pid && !WIFSTOPPED(st)) {
			r->over = true;
			r->status = WIFSIGNALED(st) ? 128 + WTERMSIG(st) : WEXITSTATUS(st);
			r->child.pid = 0; /* the number is free for others from here on */
		} else if (pid == r->own.keeper && !WIFSTOPPED(st)) {
			r->own.keeper = 0;
		}
	}
}

static void take_signal(struct run *r, const struct signalfd_siginfo *si)
{
	int s = (int)si->ssi_signo;

	if (s == SIGCHLD)
		return; /* reap() looks for itself */
	if (!r->launched) {
		if (s == SIGINT || s == SIGQUIT || s == SIGTERM || s == SIGHUP)
			r->interrupted = s;
		return;
	}
	/* by the kernel, for the terminal: to all of the group; but a hang-up goes to the session's leader alone */
	if (s == SIGTTIN || s == SIGTTOU || (si->ssi_code > 0 && (s != SIGHUP || getsid(0) != getpid())))
		return;
	if (r->child.pid > 0 && !from_tree((pid_t)si->ssi_pid))
		(void)kill(r->child.pid, s);
}

bool run_poll(struct run *r, int ms)
{
	struct pollfd p[2] = { { r->signals, POLLIN, 0 }, { r->door, POLLIN, 0 } };
	struct signalfd_siginfo si;

	if (poll(p, 2, ms) < 0 && errno != EINTR)
		return false;
	while (read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
		take_signal(r, &si);
	reap(r);
	return r->door >= 0 && p[1].revents;
}

/* ---- the door while the command runs ---- */

void run_door_lost(struct run *r)
{
	run_door_close(r);
	r->pause_ms = FIRST_PAUSE_MS;
	r->retry_ms = run_now_ms() + r->pause_ms;
}

static void hear(struct run *r)
{
	struct pawl_error err;
	struct json *packet = NULL;

	if (run_door_hear(r, &packet, &err) < 0) {
		run_door_lost(r);
		return;
	}
	run_door_news(r, packet);
	json_free(packet);
}

/* pawld may be started again: the tree is ended where its launcher does not say that it still lives. */
static void rejoin(struct run *r)
{
	struct pawl_error err;

	if (run_now_ms() < r->retry_ms)
		return;
	if (run_door_open(r, 0, &err) == 0 && run_door_tell(r, "rejoin", &err) == 0) {
		if (r->over && run_door_tell(r, "exited", &err) < 0)
			run_door_lost(r);
		return;
	}
	run_door_close(r);
	r->pause_ms = r->pause_ms * 2 < LAST_PAUSE_MS ? r->pause_ms * 2 : LAST_PAUSE_MS;
	r->retry_ms = run_now_ms() + r->pause_ms;
}

static void wait_a_little(struct run *r, int64_t until_ms)
{
	bool away = r->door < 0 && !r->lost && !r->said_ended;
	int64_t now = run_now_ms(), until = away && r->retry_ms < until_ms ? r->retry_ms : until_ms;
	int ms = until == INT64_MAX ? -1 : until <= now ? 0 : (int)(until - now);

	if (run_poll(r, ms))
		hear(r);
	else if (away)
		rejoin(r);
}

/* ---- what is left behind ---- */

/* Our children other than the private pawld's keeper: orphans of the tree. Ends them; true while there are any. */
static bool sweep(struct run *r)
{
	char path[64], line[4096], *at = line;
	bool any = false;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		(void)close(fd);
	line[n > 0 ? n : 0] = '\0';
	while (*at) {
		pid_t pid = (pid_t)strtol(at, &at, 10);

		at += strspn(at, " \n");
		if (pid <= 0)
			break;
		if (pid == r->own.keeper)
			continue;
		any = true;
		(void)kill(pid, SIGKILL); /* a child of ours that nobody has waited for: the number is its own */
	}
	return any;
}

/* Nothing more is to come from pawld. */
static bool done(const struct run *r)
{
	return r->said_ended || r->lost || (r->said_exited && !r->watched);
}

/* Nobody is there, and nobody starts another one: the keeper of a run's own pawld has given up. */
static bool forsaken(const struct run *r)
{
	return r->opt.policy && !r->own.keeper && r->door < 0;
}

void run_wait(struct run *r)
{
	struct pawl_error err;
	int64_t until, kill_ms = INT64_MAX;

	while (!r->over) {
		bool told = r->said_ended;

		wait_a_little(r, told ? run_now_ms() + KILL_MS : INT64_MAX);
		if (told && !r->over && r->child.pid > 0 && run_now_ms() >= kill_ms)
			(void)kill(r->child.pid, SIGKILL); /* pawld has ended all of it; this one must not be left */
		if (!told)
			kill_ms = run_now_ms() + KILL_MS;
	}
	if (r->door >= 0 && run_door_tell(r, "exited", &err) < 0)
		run_door_lost(r);
	until = run_now_ms() + END_MS;
	while (!done(r) && !forsaken(r) && run_now_ms() < until)
		wait_a_little(r, until);
	if (!done(r) && !r->opt.quiet)
		run_say("pawld did not say that %s has ended; `pawl log show` tells what it knows", r->session);
	for (int i = 0; i < SWEEPS && sweep(r); i++)
		(void)run_poll(r, 10);
	run_door_close(r);
}
