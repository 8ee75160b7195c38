/* daemon/watch/watcher.c - see watcher.h. */
#include "daemon/watch/watcher.h"

#include "daemon/base/oplog.h"
#include "daemon/watch/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS 5000
#define EXIT_FAILURE_INTERNAL 70 /* as options.h has it; this room includes nothing of the hall */
#define EXIT_LOG_DAMAGED 65
#define DRAIN_MS 10000	/* after TERM; then the rest is killed: what it answered is on disk already */

struct watcher {
	watcher_rest *rest;
	void *arg;
	int signals;	/* signalfd */
	pid_t pid;	/* of the rest */
	int peer;
	bool stopping, was_ready, ever_ready;
	int backoff_ms;
};

static int start_rest(struct watcher *w, struct pawl_error *err)
{
	pid_t self = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return pawl_fail_errno(err, "socketpair");
	w->pid = fork();
	if (w->pid < 0) {
		(void)close(pair[0]);
		(void)close(pair[1]);
		return pawl_fail_errno(err, "fork");
	}
	if (w->pid == 0) {
		(void)close(pair[0]);
		(void)close(w->signals);
		/* without its watcher the rest drains and ends, so that a new pawld can take the log */
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != self)
			_exit(1);
		_exit(w->rest(w->arg, pair[1]));
	}
	(void)close(pair[1]);
	w->peer = pair[0];
	w->was_ready = false;
	return 0;
}

static void hear_rest(struct watcher *w)
{
	struct pawl_error err = { .code = PAWL_OK };
	enum peer_kind kind;
	char payload[64];
	size_t n;
	int r = peer_recv(w->peer, &kind, payload, sizeof(payload), &n, &err);

	if (r > 0 && kind == PEER_READY) {
		w->was_ready = w->ever_ready = true;
		w->backoff_ms = BACKOFF_FIRST_MS;
	} else if (r < 0) {
		oplog_error("the rest of pawld", &err);
	}
	if (r <= 0) { /* gone, or not speaking our language: SIGCHLD tells the rest of the story */
		(void)close(w->peer);
		w->peer = -1;
	}
}

static void nap(int ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&ts, NULL);
}

/* true: pawld ends with *ret. */
static bool rest_ended(struct watcher *w, int status, int *ret)
{
	w->pid = 0; /* reaped: its number may be anybody's by now */
	if (w->peer >= 0)
		(void)close(w->peer);
	w->peer = -1;
	if (WIFEXITED(status) && (w->stopping || !w->ever_ready)) {
		*ret = WEXITSTATUS(status);
		return true;
	}
	if (w->stopping) {
		*ret = 128 + WTERMSIG(status);
		return true;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LOG_DAMAGED) { /* no restart mends a log */
		*ret = EXIT_LOG_DAMAGED;
		return true;
	}
	if (WIFEXITED(status))
		oplog(OPLOG_ERROR, "the judging process ended with status %d; starting it again in %d ms", WEXITSTATUS(status), w->backoff_ms);
	else
		oplog(OPLOG_ERROR, "the judging process was ended by signal %d; starting it again in %d ms", WTERMSIG(status), w->backoff_ms);
	nap(w->backoff_ms);
	w->backoff_ms = w->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : w->backoff_ms * 2;
	return false;
}

static void take_signals(struct watcher *w)
{
	struct signalfd_siginfo si;

	while (read(w->signals, &si, sizeof(si)) == sizeof(si)) {
		int sig = (int)si.ssi_signo;

		if (sig == SIGTERM || sig == SIGINT) {
			w->stopping = true;
			if (w->pid > 0)
				(void)kill(w->pid, SIGTERM);
		} else if (sig == SIGHUP && w->pid > 0) {
			(void)kill(w->pid, SIGHUP);
		}
	}
}

int watcher_run(watcher_rest *rest, void *arg)
{
	struct watcher w = { .rest = rest, .arg = arg, .peer = -1, .backoff_ms = BACKOFF_FIRST_MS };
	struct pawl_error err = { .code = PAWL_OK };
	int status, ret = EXIT_FAILURE_INTERNAL;
	bool killed = false;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGCHLD);
	w.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (w.signals < 0 || start_rest(&w, &err) < 0) {
		oplog(OPLOG_ERROR, "cannot start: %s", err.code ? err.msg : "signalfd");
		return ret;
	}
	for (;;) {
		struct pollfd fds[2] = { { w.signals, POLLIN, 0 }, { w.peer, POLLIN, 0 } };
		int n = poll(fds, 2, w.stopping ? DRAIN_MS : -1);

		if (n == 0 && w.stopping && !killed) {
			oplog(OPLOG_WARN, "the judging process did not drain in %d s; killing it", DRAIN_MS / 1000);
			(void)kill(w.pid, SIGKILL);
			killed = true;
		}
		if (n > 0 && fds[1].revents)
			hear_rest(&w);
		take_signals(&w);
		if (waitpid(w.pid, &status, WNOHANG) != w.pid)
			continue;
		if (rest_ended(&w, status, &ret))
			break;
		take_signals(&w); /* told to stop while it slept */
		if (w.stopping) {
			ret = 0;
			break;
		}
		while (start_rest(&w, &err) < 0) { /* no process to be had: it may pass */
			oplog_error("cannot start the judging process again", &err);
			nap(BACKOFF_LAST_MS);
		}
	}
	(void)close(w.signals);
	return ret;
}
