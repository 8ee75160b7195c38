/* daemon/loop.c - epoll over the doors, the committer, the watcher and deadlines; signals come in only while it sleeps. No policy knowledge. */
#include "daemon/daemon.h"

#include "daemon/base/oplog.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* The one exception to "no globals": set by the handler, read by the loop. Signals are let in only inside epoll_pwait(). */
static volatile sig_atomic_t asked;
enum { ASKED_RELOAD = 1, ASKED_STOP = 2, ASKED_ALONE = 3 }; /* alone: by the end of the watcher */

static void on_signal(int sig)
{
	if (sig != SIGHUP)
		asked = ASKED_STOP;
	else if (asked == 0)
		asked = ASKED_RELOAD;
}

#define DOORS 3
enum { WHAT_AGENT, WHAT_OPERATOR, WHAT_WATCH, WHAT_COMMITTER, WHAT_PROJECTOR, WHAT_PEER };

static int watch_fd(int ep, int fd, uint32_t what, struct pawl_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = what };

	if (fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
		return pawl_fail_errno(err, "epoll_ctl");
	return 0;
}

static int watch_all(struct daemon *d, const struct door_calls *doors, int ep, struct pawl_error *err)
{
	int r = watch_fd(ep, doors->fd(d, 0), WHAT_AGENT, err);

	if (r == 0)
		r = watch_fd(ep, doors->fd(d, 1), WHAT_OPERATOR, err);
	if (r == 0)
		r = watch_fd(ep, doors->fd(d, 2), WHAT_WATCH, err);
	if (r == 0)
		r = watch_fd(ep, committer_fd(d->committer), WHAT_COMMITTER, err);
	if (r == 0)
		r = watch_fd(ep, projector_fd(d->projector), WHAT_PROJECTOR, err);
	if (r == 0)
		r = watch_fd(ep, d->peer, WHAT_PEER, err);
	return r;
}

static int64_t monotonic_ns(void) /* what a supervisor compares a reload with */
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static int64_t earliest(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int sleep_ms(int64_t now, int64_t next)
{
	int64_t ms;

	if (next <= now)
		return 0;
	ms = (next - now) / 1000000 + 1;
	return ms > 60000 ? 60000 : (int)ms;
}

/* A log that is not what it was must not be gone on with, whoever asks. */
static int follow(struct daemon *d, struct pawl_error *err)
{
	int r = mediate_follow(&d->m, err);

	if (r < 0)
		oplog_error("the log is damaged; pawld stops", err);
	return r;
}

/* more: of the three doors, which has requests left that no descriptor will tell of again. */
static int handle(struct daemon *d, const struct door_calls *doors, uint32_t what, bool more[static DOORS], struct pawl_error *err)
{
	switch (what) {
	case WHAT_AGENT:
	case WHAT_OPERATOR:
	case WHAT_WATCH:
		more[what] = true; /* served below, the rest of the events first */
		break;
	case WHAT_COMMITTER:
		mediate_reap(&d->m);
		break;
	case WHAT_PROJECTOR:
		return follow(d, err);
	default:
		if (doors->watcher_gone(d)) {
			oplog(OPLOG_WARN, "the watcher is gone; draining");
			asked = ASKED_ALONE;
		}
	}
	return 0;
}

#define SNAPSHOT_MS 5000 /* the watcher waits longer than that, and a start without it only takes longer */

static void pay_owed(struct daemon *d)
{
	while (mediate_owed(&d->m)) {
		struct pollfd p = { committer_fd(d->committer), POLLIN, 0 };

		if (poll(&p, 1, 1000) > 0)
			mediate_reap(&d->m);
		else
			(void)mediate_tick(&d->m, clock_now(&d->clock));
	}
}

/* Answers what was taken, then says in the log that this was an orderly end. */
static void drain(struct daemon *d, const struct door_calls *doors)
{
	/* its end is a signal too, and its socket may close before it is no parent any more: whichever came first */
	bool alone = asked == ASKED_ALONE || (d->watcher && getppid() != d->watcher);
	struct str why = alone ? STR("the watcher is gone") : STR("told to stop");
	struct refusal no;

	sdnotify_stopping(d->notify);
	(void)watched_tick(d->watched, clock_now(&d->clock)); /* what the kernel told and no entry says yet */
	(void)doors->wake(d, INT64_MAX); /* whoever waits for a person is told how it stands, and asks again elsewhere */
	pay_owed(d);
	mediate_snapshot(&d->m, SNAPSHOT_MS);
	pay_owed(d); /* before the stop entry, which has room on a full disk where the snapshot's has none */
	mediate_last_resort(&d->m);
	if (d->m.open && mediate_stop(&d->m, why, &no) < 0)
		oplog(OPLOG_ERROR, "no stop entry: %s", no.err.msg);
	pay_owed(d);
}

static void catch_signals(sigset_t *ret_sleeping)
{
	struct sigaction sa = { .sa_handler = on_signal };

	(void)sigemptyset(&sa.sa_mask);
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGHUP, &sa, NULL);
	sa.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &sa, NULL);
	(void)sigprocmask(SIG_SETMASK, NULL, ret_sleeping);
	(void)sigdelset(ret_sleeping, SIGTERM);
	(void)sigdelset(ret_sleeping, SIGINT);
	(void)sigdelset(ret_sleeping, SIGHUP);
}

static void reload(struct daemon *d)
{
	struct policy_report rep = { .rows = NULL };
	struct refusal no;

	asked = 0;
	sdnotify_reloading(d->notify, monotonic_ns());
	if (daemon_reload(d, &rep, NULL, NULL, &no) < 0)
		oplog(OPLOG_ERROR, "the reload is not in the log: %s", no.err.msg);
	sdnotify_ready(d->notify);
	policy_report_done(&rep);
}

int loop_run(struct daemon *d, const struct door_calls *doors, struct pawl_error *err)
{
	struct epoll_event ev[8];
	bool more[DOORS] = { false };
	sigset_t sleeping;
	int ep = epoll_create1(EPOLL_CLOEXEC), r = ep < 0 ? pawl_fail_errno(err, "epoll_create1") : watch_all(d, doors, ep, err);

	catch_signals(&sleeping);
	while (r == 0 && asked < ASKED_STOP) {
		int64_t now = clock_now(&d->clock), next = mediate_tick(&d->m, now), due = doors->wake(d, now);
		int64_t beat = sdnotify_tick(d->notify, now), trees = watched_tick(d->watched, now);
		int n = epoll_pwait(ep, ev, (int)PAWL_LEN(ev), more[0] || more[1] || more[2] ? 0 : sleep_ms(now, earliest(earliest(next, due), earliest(beat, trees))), &sleeping);

		if (n < 0 && errno != EINTR) {
			r = pawl_fail_errno(err, "epoll_pwait");
			break;
		}
		for (int i = 0; i < n && r == 0; i++)
			r = handle(d, doors, ev[i].data.u32, more, err);
		for (int which = 0; which < DOORS; which++)
			if (r == 0 && more[which])
				more[which] = doors->serve(d, which);
		if (r == 0 && asked == ASKED_RELOAD)
			reload(d);
	}
	if (r == 0)
		drain(d, doors);
	if (ep >= 0)
		(void)close(ep);
	return r;
}
