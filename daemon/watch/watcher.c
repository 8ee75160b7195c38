/* daemon/watch/watcher.c - see watcher.h. */
#include "daemon/watch/watcher.h"

#include "daemon/base/oplog.h"
#include "daemon/watch/peer.h"
#include "daemon/watch/trees.h"
#include "pawl/exit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS 5000
#define DRAIN_MS 10000	/* after TERM; then the rest is killed: what it answered is on disk already */

#define HEAR_MOST 64	/* messages in one turn */

struct watcher {
	watcher_rest *rest;
	void *arg;
	struct trees *trees;
	int signals;	/* signalfd */
	pid_t pid;	/* of the rest; 0: there is none */
	int peer;
	bool stopping, was_ready, ever_ready, killed;
	int backoff_ms;
	uint64_t start_at; /* when the rest is started again; trees are looked after meanwhile */
	uint64_t drain_until;
	unsigned char in[PEER_MAX_PAYLOAD];
};

static uint64_t after_ms(int ms)
{
	return trees_boot_ns() + (uint64_t)ms * 1000000;
}

static int run_rest(struct watcher *w, pid_t watcher, const int pair[static 2])
{
	(void)close(pair[0]);
	(void)close(w->signals);
	trees_close(w->trees); /* the one that meets strangers holds no map, no cgroup and nobody's pidfd */
	/* without its watcher the rest drains and ends, so that a new pawld can take the log */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != watcher)
		return 1;
	return w->rest(w->arg, pair[1]);
}

static int start_rest(struct watcher *w, struct pawl_error *err)
{
	pid_t self = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return pawl_fail_errno(err, "socketpair");
	w->pid = fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ? -1 : fork(); /* our end alone: the rest waits on its own */
	if (w->pid < 0) {
		w->pid = 0;
		(void)close(pair[0]);
		(void)close(pair[1]);
		return pawl_fail_errno(err, "fork");
	}
	if (w->pid == 0)
		_exit(run_rest(w, self, pair));
	(void)close(pair[1]);
	w->peer = pair[0];
	w->was_ready = false;
	trees_peer(w->trees, w->peer);
	return 0;
}

static void lose_peer(struct watcher *w)
{
	trees_peer(w->trees, -1);
	if (w->peer >= 0)
		(void)close(w->peer);
	w->peer = -1;
}

static void hear_rest(struct watcher *w)
{
	struct pawl_error err = { .code = PAWL_OK };
	enum peer_kind kind;
	int r = 1;

	for (int i = 0; i < HEAR_MOST && r > 0 && trees_can_take(w->trees); i++) {
		int fd[PEER_FDS];
		size_t n;

		r = peer_recv_fds(w->peer, &kind, w->in, sizeof(w->in), &n, fd, &err);
		if (r <= 0)
			break;
		if (kind == PEER_READY) {
			w->was_ready = w->ever_ready = true;
			w->backoff_ms = BACKOFF_FIRST_MS;
		}
		trees_take(w->trees, kind, w->in, n, fd, trees_boot_ns());
	}
	if (r < 0 && err.code == PAWL_E_FULL)
		return;
	if (r < 0)
		oplog_error("the rest of pawld", &err);
	if (r <= 0) /* gone, or not speaking our language: SIGCHLD tells the rest of the story */
		lose_peer(w);
}

/* true: pawld ends with *ret. */
static bool rest_ended(struct watcher *w, int status, int *ret)
{
	w->pid = 0; /* reaped: its number may be anybody's by now */
	if (w->peer >= 0)
		hear_rest(w); /* its last words */
	lose_peer(w);
	if (WIFEXITED(status) && (w->stopping || !w->ever_ready)) {
		*ret = WEXITSTATUS(status);
		return true;
	}
	if (w->stopping) {
		*ret = 128 + WTERMSIG(status);
		return true;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LOG) { /* no restart mends a log */
		*ret = EXIT_LOG;
		return true;
	}
	if (WIFEXITED(status))
		oplog(OPLOG_ERROR, "the judging process ended with status %d; starting it again in %d ms", WEXITSTATUS(status), w->backoff_ms);
	else
		oplog(OPLOG_ERROR, "the judging process was ended by signal %d; starting it again in %d ms", WTERMSIG(status), w->backoff_ms);
	w->start_at = after_ms(w->backoff_ms);
	w->backoff_ms = w->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : w->backoff_ms * 2;
	return false;
}

static void take_signals(struct watcher *w)
{
	struct signalfd_siginfo si;

	while (read(w->signals, &si, sizeof(si)) == sizeof(si)) {
		int sig = (int)si.ssi_signo;

		if (sig == SIGTERM || sig == SIGINT) {
			if (!w->stopping)
				w->drain_until = after_ms(DRAIN_MS);
			w->stopping = true;
			if (w->pid > 0)
				(void)kill(w->pid, SIGTERM);
		} else if (sig == SIGHUP && w->pid > 0) {
			(void)kill(w->pid, SIGHUP);
		}
	}
}

static int earlier(int ms, uint64_t when, uint64_t now)
{
	int left = when > now ? (int)((when - now) / 1000000 + 1) : 0;

	return ms < 0 || left < ms ? left : ms;
}

static void wait_for_something(struct watcher *w)
{
	/* what cannot be taken now is not waited for: the socket would be readable all the time */
	int peer = trees_can_take(w->trees) ? w->peer : -1;
	struct pollfd fds[3] = { { w->signals, POLLIN, 0 }, { peer, POLLIN, 0 }, { trees_fd(w->trees), POLLIN, 0 } };
	uint64_t now = trees_boot_ns();
	int ms = trees_wait_ms(w->trees);

	if (w->stopping && !w->killed)
		ms = earlier(ms, w->drain_until, now);
	if (w->pid == 0)
		ms = earlier(ms, w->start_at, now);
	if (poll(fds, 3, ms) > 0 && fds[1].revents)
		hear_rest(w);
	trees_tick(w->trees, trees_boot_ns());
}

/* true: pawld ends with *ret. */
static bool turn(struct watcher *w, int *ret)
{
	struct pawl_error err = { .code = PAWL_OK };
	int status;

	wait_for_something(w);
	take_signals(w);
	if (w->pid > 0 && w->stopping && !w->killed && trees_boot_ns() >= w->drain_until) {
		oplog(OPLOG_WARN, "the judging process did not drain in %d s; killing it", DRAIN_MS / 1000);
		(void)kill(w->pid, SIGKILL);
		w->killed = true;
	}
	if (w->pid > 0 && waitpid(w->pid, &status, WNOHANG) == w->pid && rest_ended(w, status, ret))
		return true;
	if (w->pid > 0)
		return false;
	if (w->stopping) { /* told to stop while there was none */
		*ret = 0;
		return true;
	}
	if (trees_boot_ns() >= w->start_at && start_rest(w, &err) < 0) { /* no process to be had: it may pass */
		oplog_error("cannot start the judging process again", &err);
		w->start_at = after_ms(BACKOFF_LAST_MS);
	}
	return false;
}

/* It holds the privileges: nobody looks into its memory, and it leaves none on the disk. It starts no program, so it can gain none either. */
static void harden(void)
{
	struct rlimit no_core = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &no_core);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int watcher_run(watcher_rest *rest, void *arg, struct trees *trees)
{
	struct watcher w = { .rest = rest, .arg = arg, .trees = trees, .peer = -1, .backoff_ms = BACKOFF_FIRST_MS };
	struct pawl_error err = { .code = PAWL_OK };
	int ret = EXIT_SOFTWARE;
	sigset_t set;

	harden();
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
	while (!turn(&w, &ret))
		;
	lose_peer(&w);
	(void)close(w.signals);
	return ret;
}
