/* daemon/main.c - start order: options, lock, fork, confinement, log, doors, pid file, loop. May use any room. */
#include "daemon/base/oplog.h"
#include "daemon/base/owner.h"
#include "daemon/daemon.h"
#include "daemon/door/attach.h"
#include "daemon/door/dispatch.h"
#include "daemon/resolve.h"
#include "daemon/safe.h"
#include "daemon/watch/link.h"
#include "daemon/watch/probe.h"
#include "daemon/watch/trees.h"
#include "daemon/watch/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int serve(struct daemon *d, struct pawl_error *err)
{
	static const struct door_calls doors = { dispatch_open, dispatch_close, dispatch_fd, dispatch_serve, dispatch_wake, link_hear, link_channel, attach_news };
	struct resolver resolver = resolve_kernel();
	int r = confine(d->opt, d->probes, err);

	d->n_probes = CONFINE_PROBES;
	if (r == 0)
		r = daemon_open(d, &doors, dispatch_done, resolver, err);
	if (r < 0) {
		doors.close(d);
		return r;
	}
	/* only who holds the log and both sockets may say so: a second pawld that is refused leaves the first one's file alone */
	r = safe_pid_file(d->opt->pid_file, d->watcher ? d->watcher : getpid(), err);
	if (r == 0 && !confine_connect())
		oplog(OPLOG_WARN, "the judging process can still connect to sockets: %s", strerror(errno));
	if (r == 0)
		r = link_ready(d, err);
	if (r < 0) {
		doors.close(d);
		return r;
	}
	sdnotify_ready(d->notify);
	oplog(OPLOG_INFO, "ready: agent %s", d->opt->socket);
	r = loop_run(d, &doors, err);
	doors.close(d);
	return r;
}

struct launch { /* what both processes are started with */
	struct options *opt;
	struct sdnotify notify;
	struct watch_probes probes;
};

/* The rest: everything but the watcher. Returns an exit status. */
static int rest(void *arg, int peer)
{
	struct launch *l = arg;
	struct daemon d = { .opt = l->opt, .notify = &l->notify, .peer = peer, .watcher = peer >= 0 ? getppid() : 0,
			    .watch_probes = peer >= 0 ? &l->probes : NULL };
	struct pawl_error err = { .code = PAWL_OK };
	int r;

	_Static_assert(sizeof(d.instance) == CGROUP_INSTANCE, "one name for both");
	r = probe_instance(l->opt->state, d.instance, &err);
	if (r == 0)
		r = serve(&d, &err);

	if (d.stopped)
		oplog(OPLOG_INFO, "%s", err.msg);
	else if (r < 0)
		oplog_error("cannot go on", &err);
	daemon_close(&d);
	return r < 0 && !d.stopped ? exit_status_of(&err) : EXIT_DONE;
}

static int check(struct options *opt)
{
	struct sdnotify nobody = { .fd = -1 };
	struct daemon d = { .opt = opt, .notify = &nobody, .peer = -1 };
	struct pawl_error err = { .code = PAWL_OK };
	int r = daemon_check(&d, &err);

	if (r < 0)
		oplog_error("check", &err);
	else
		(void)puts("all is well");
	daemon_close(&d);
	return r < 0 ? exit_status_of(&err) : EXIT_DONE;
}

static void block_signals(void)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGSEGV); /* a crash is a crash */
	(void)sigdelset(&all, SIGBUS);
	(void)sigdelset(&all, SIGFPE);
	(void)sigdelset(&all, SIGILL);
	(void)sigdelset(&all, SIGABRT);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
}

/* A lower hard limit is told by the probe `descriptors`. */
static void set_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	lim.rlim_cur = lim.rlim_max < MAX_DESCRIPTORS ? lim.rlim_max : MAX_DESCRIPTORS;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
}

/* Descriptors 0, 1 and 2 exist, so that none of ours can be taken for them. */
static int hold_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	return fd < 0 ? -1 : close(fd);
}

/* What the kernel can do is found out before the first fork, so that both processes know it. */
static int watch(struct launch *l, struct pawl_error *err)
{
	const struct trees_options opt = { .state = l->opt->state, .ring_bytes = (uint32_t)l->opt->watch_ring,
					   .max_trees = (uint32_t)l->opt->watch_trees };
	struct trees *trees;
	int status;

	if (trees_open(&opt, &l->probes, &trees, err) < 0) {
		oplog_error("cannot start the watcher", err);
		return exit_status_of(err);
	}
	status = watcher_run(rest, l, trees);
	trees_unpin(trees);
	trees_close(trees);
	return status;
}

static int probe(struct pawl_error *err)
{
	if (probe_print(err) == 0)
		return EXIT_DONE;
	oplog_error("probe", err);
	return exit_status_of(err);
}

static int run(struct options *opt, struct pawl_error *err)
{
	struct launch l = { .opt = opt };
	int lock, status;

	if (safe_lock(opt->state, &lock, err) < 0) { /* the log has its own: daemon/log/journal.h */
		oplog_error("cannot start", err);
		return exit_status_of(err);
	}
	block_signals();
	set_descriptors();
	sdnotify_open(&l.notify);
	status = opt->no_watch ? rest(&l, -1) : watch(&l, err);
	safe_pid_remove(opt->pid_file, getpid());
	sdnotify_close(&l.notify);
	return status; /* the lock goes with the process */
}

/* Of the user that will judge. */
static gid_t own_group(const struct options *opt)
{
	const struct passwd *pw = opt->user[0] ? getpwnam(opt->user) : NULL;

	return owner_group(pw ? pw->pw_uid : geteuid());
}

int main(int argc, char **argv)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct options opt;

	if (hold_standard_fds() < 0 || sodium_init() < 0)
		return EXIT_SOFTWARE;
	if (options_parse(argc, argv, &opt, &err) < 0) {
		oplog_error("options", &err);
		return exit_status_of(&err);
	}
	(void)umask(077);
	if (opt.help) {
		options_help();
		return EXIT_DONE;
	}
	if (opt.version) {
		(void)puts("pawld " PAWL_VERSION);
		return EXIT_DONE;
	}
	if (opt.probe)
		return probe(&err);
	opt.own_group = own_group(&opt);
	return opt.check ? check(&opt) : run(&opt, &err);
}
