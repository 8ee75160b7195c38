/* daemon/watch/attach.c - what the rest asks for: a tree. The rest meets strangers, so nothing in a message is believed
 * that the kernel can be asked about: the pidfd says who, /proc says whose, and limits that cannot be held are refused by name. */
#include "daemon/watch/trees_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCAN_ROUNDS 64
#define HOLD_ALL ((uint32_t)(HOLD_EVENTS << 1) - 1)
/* Threads are tasks for the pids controller and not for the policy; the kernel's programs count exactly, this is what stands behind them. */
#define TASKS_EACH 64u
#define TASKS_MORE 256u

static int bad(struct pawl_error *err, int os_errno, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int bad(struct pawl_error *err, int os_errno, const char *fmt, ...)
{
	va_list ap;

	*err = (struct pawl_error){ .code = PAWL_E_SYS, .os_errno = os_errno };
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return PAWL_E_SYS;
}

/* ---- what this machine can hold ---- */

/* What the pids controller is to allow. */
static uint64_t tasks(const struct trees *t, const struct tree *tr)
{
	if (tr->limits.processes == 0 || tr->limits.processes > UINT32_MAX)
		return 0;
	/* without the programs the controller is all there is: exact, but it counts threads too */
	return t->guard ? tr->limits.processes * TASKS_EACH + TASKS_MORE : tr->limits.processes;
}

static uint32_t holds(const struct trees *t, uint32_t flags)
{
	uint32_t held = 0;

	if (t->guard)
		held |= HOLD_EXEC | HOLD_PROCESSES | HOLD_FORK_RATE | HOLD_EXEC_RATE | HOLD_EVENTS;
	if (t->cgroups.dir[CGROUP_PIDS][0])
		held |= HOLD_PROCESSES;
	if (t->cgroups.dir[CGROUP_MEMORY][0])
		held |= HOLD_MEMORY;
	if (t->cgroups.dir[CGROUP_TREE][0])
		held |= HOLD_CPU | HOLD_WALL; /* cpu.stat counts the dead too */
	if (t->guard || (flags & ATTACH_RUN))
		held |= HOLD_WALL; /* by descent only where a subreaper keeps orphans in reach */
	if (t->probes->row[WP_LANDLOCK].state == WATCH_ON && (flags & ATTACH_RUN))
		held |= HOLD_WRITES; /* the launcher does it, in the child; what runs already is confined by nobody */
	return held;
}

static int refuse_missing(uint32_t missing, struct pawl_error *err)
{
	char names[160] = "";
	size_t at = 0;

	for (uint32_t bit = 1; bit && bit <= missing; bit <<= 1)
		if ((missing & bit) && at < sizeof(names))
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", at ? ", " : "", watch_hold_name(bit));
	return bad(err, EOPNOTSUPP, "cannot hold %s", names);
}

static void say_what_is_partial(const struct trees *t, const struct tree *tr, uint32_t held, char msg[static 160])
{
	const char *script = tr->deny.n && (held & HOLD_EXEC) ? deny_script(&tr->deny) : NULL;

	msg[0] = '\0';
	if (script)
		(void)snprintf(msg, 160, "%.60s is a script: its interpreter is what runs, so it cannot be stopped by name", script);
	else if (!t->guard && (held & HOLD_PROCESSES) && tr->limits.processes)
		(void)snprintf(msg, 160, "processes: held by the pids controller, which counts threads too");
	else if (!tr->cg.id && !t->guard)
		(void)snprintf(msg, 160, "members are found by descent, and cpu is a sum that misses some; looked at every %d ms", TREES_TICK_MS);
}

int tree_write_limits(const struct trees *t, const struct tree *tr, struct pawl_error *err)
{
	if (tr->flags & ATTACH_LOG_ONLY) /* shadow mode changes nothing for what runs */
		return cgroup_limit(&tr->cg, 0, 0, err);
	return cgroup_limit(&tr->cg, tr->limits.memory, tasks(t, tr), err);
}

/* ---- whose process ---- */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since 6.5 */
#endif

/* Whom the kernel names as the other end of a connection. One that has ended is nobody: its number may be somebody else's by now. */
static bool who_asks(int asker, struct ucred *ret)
{
	int type = 0, pidfd = -1;
	socklen_t n_type = sizeof(type), n_ret = sizeof(*ret), n_pidfd = sizeof(pidfd);
	uint32_t pid;
	bool there;

	if (asker < 0 || getsockopt(asker, SOL_SOCKET, SO_TYPE, &type, &n_type) < 0 || type != SOCK_SEQPACKET ||
	    getsockopt(asker, SOL_SOCKET, SO_PEERCRED, ret, &n_ret) < 0 || ret->pid <= 0)
		return false;
	if (getsockopt(asker, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n_pidfd) < 0)
		return errno == ENOPROTOOPT; /* an older kernel: the number is all it tells. Else it has ended */
	there = proc_of_pidfd(pidfd, &pid) && pid == (uint32_t)ret->pid;
	(void)close(pidfd);
	return there;
}

/* In a tree already? The tag says so; without it the cgroup, or what was seen. */
static bool is_watched(const struct trees *t, const struct proc_id *id, int pidfd)
{
	if (t->guard)
		return guard_tag_of(t->guard, pidfd) != 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct tree *o = t->tree[i];

		if (o->over)
			continue;
		if ((o->first.pid == id->pid && o->first.start == id->start) || (o->cg.id ? cgroup_has(&o->cg, id->pid) : tree_knows(o, id)))
			return true;
	}
	return false;
}

static int check_process(struct trees *t, const struct watch_attach *a, const int fd[static PEER_FDS], struct tree *tr, struct pawl_error *err)
{
	struct ucred who = { .pid = 0 };
	int pidfd = fd[0];
	struct proc_stat first, peer;
	uint32_t pid, uid, again, asker;

	if (pidfd < 0 || !proc_of_pidfd(pidfd, &pid))
		return bad(err, EINVAL, "no pidfd of a living process came along");
	if (!who_asks(fd[1], &who))
		return bad(err, EINVAL, "no connection of somebody that lives came along");
	asker = (uint32_t)who.pid;
	if (!proc_stat(pid, &first) || !proc_real_uid(pid, &uid) || !proc_stat(asker, &peer))
		return bad(err, ESRCH, "process %u, or %u that asked, is gone", pid, asker);
	if (first.dead)
		return bad(err, ESRCH, "process %u has ended", pid);
	if (pid == 1 || proc_is_below((uint32_t)getpid(), pid) || proc_is_below(pid, (uint32_t)getpid()))
		return bad(err, EPERM, "process %u is pawld's own, or above it", pid);
	if (!proc_is_below(pid, asker))
		return bad(err, EPERM, "process %u does not descend from %u that asked", pid, asker);
	if (who.uid != 0 && uid != who.uid)
		return bad(err, EPERM, "process %u is of uid %u, and uid %u asked", pid, uid, who.uid);
	if (is_watched(t, &first.id, pidfd))
		return bad(err, EBUSY, "process %u is watched already", pid);
	if (!proc_of_pidfd(pidfd, &again) || again != pid) /* it lived while all this was read, so it was about this process */
		return bad(err, ESRCH, "process %u has ended", pid);
	tr->first = first.id;
	tr->uid = uid;
	tr->one_uid = who.uid != 0;
	if ((a->flags & ATTACH_RUN) && first.ppid == peer.id.pid && peer.id.pid != 1)
		tr->peer = peer.id; /* its launcher; from anybody further up it would inherit strangers */
	return 0;
}

/* ---- its descendants ---- */

/* Whom a plain user may not kill is not killed for one either. false: pid is there, and of another uid. */
static bool may_be_taken(const struct tree *tr, uint32_t pid, struct pawl_error *err)
{
	struct proc_stat s;
	uint32_t uid;
	bool told;

	if (!tr->one_uid)
		return true;
	told = proc_real_uid(pid, &uid);
	if ((told && uid == tr->uid) || !proc_stat(pid, &s) || s.dead)
		return true;
	if (told)
		(void)bad(err, EPERM, "process %u, which descends from it, is of uid %u", pid, uid);
	else
		(void)bad(err, EPERM, "process %u descends from it, and /proc does not tell its uid", pid);
	return false;
}

/* All that descends from the first process, itself first, in t->pid. */
static int list_descendants(struct trees *t, const struct tree *tr, size_t *ret_n, struct pawl_error *err)
{
	bool whole;

	t->pid[0] = tr->first.pid;
	*ret_n = proc_tree(t->pid, 1, MAX_MEMBERS, (uint32_t)getpid(), &whole);
	if (whole)
		return 0;
	return *ret_n >= MAX_MEMBERS ? bad(err, E2BIG, "more than %d processes are too many to be attached", MAX_MEMBERS)
				     : bad(err, EAGAIN, "/proc did not tell all that descends from process %u", tr->first.pid);
}

/* Before anything is tagged: what fails later ends the tree. */
static int check_descendants(struct trees *t, const struct tree *tr, struct pawl_error *err)
{
	size_t n;
	int r = list_descendants(t, tr, &n, err);

	for (size_t i = 1; r == 0 && i < n; i++)
		if (!may_be_taken(tr, t->pid[i], err))
			r = err->code;
	return r;
}

/* A child of a member. Parents stand before their children in the list, so a member's place is known by one look: a walk up from each of
 * them would be n*n looks at a chain of n, which anybody can make who has a session. */
static bool child_of_ours(const struct trees *t, const struct tree *tr, uint32_t pid)
{
	struct proc_stat s;
	bool ours;
	int fd;

	if (!proc_stat(pid, &s) || s.ppid == 0)
		return false;
	if (s.ppid == tr->first.pid || !tr->guarded)
		return s.ppid == tr->first.pid || cgroup_has(&tr->cg, s.ppid);
	fd = proc_open(s.ppid);
	ours = fd >= 0 && guard_tag_of(t->guard, fd) == tr->session;
	if (fd >= 0)
		(void)close(fd);
	return ours;
}

/* true: it was not ours and is now. */
static bool take_one(struct trees *t, struct tree *tr, uint32_t pid, bool *ret_failed, struct pawl_error *err)
{
	int fd = proc_open(pid);
	uint64_t tag = 0;
	bool in, fresh = false;

	if (fd < 0)
		return false;
	in = !tr->cg.id || cgroup_has(&tr->cg, pid);
	if (tr->guarded)
		tag = guard_tag_of(t->guard, fd);
	/* looked at while the descriptor holds the number */
	if ((in && (!tr->guarded || tag == tr->session)) || (tag && tag != tr->session) || !child_of_ours(t, tr, pid)) {
		(void)close(fd);
		return false;
	}
	if (!may_be_taken(tr, pid, err)) /* became another's since the first look */
		*ret_failed = true;
	else if (!in && cgroup_enter(&tr->cg, pid, err) < 0)
		*ret_failed = err->os_errno != ESRCH;
	else
		fresh = !in;
	if (!*ret_failed && tr->guarded && tag == 0) {
		if (guard_tag(t->guard, fd, tr->session, err) == 0)
			fresh = true;
		else if (proc_of_pidfd(fd, &pid)) /* it lives, and has no tag: it cannot be watched */
			*ret_failed = true;
	}
	(void)close(fd);
	return fresh;
}

/* Tags and moves what descends from the tree's first process, until no new one is found. */
static int scan(struct trees *t, struct tree *tr, struct pawl_error *err)
{
	if (!tr->guarded && !tr->cg.id)
		return 0; /* every look is a scan */
	for (int i = 0; i < SCAN_ROUNDS; i++) {
		bool fresh = false, failed = false;
		size_t n;

		if (list_descendants(t, tr, &n, err) < 0)
			return err->code;
		for (size_t k = 1; k < n && !failed; k++)
			fresh |= take_one(t, tr, t->pid[k], &failed, err);
		if (failed)
			return err->code;
		if (!fresh)
			return 0;
	}
	return bad(err, EAGAIN, "its processes start others faster than they can be found");
}

/* ---- PEER_ATTACH ---- */

static int check_attach(const struct trees *t, const struct watch_attach *a, const char *paths, size_t bytes, struct pawl_error *err)
{
	uint32_t missing = a->need & ~holds(t, a->flags);

	if (a->session == 0 || (a->flags & ~ATTACH_FLAGS_ALL) || (a->need & ~HOLD_ALL) || a->deny_bytes != bytes)
		return bad(err, EINVAL, "the request to attach is malformed");
	if (deny_check(paths, bytes, a->n_deny, err) < 0) {
		err->os_errno = EINVAL;
		return err->code;
	}
	if (trees_find(t, a->session))
		return bad(err, EEXIST, "session %llu has a tree", (unsigned long long)a->session);
	if (t->n >= PAWL_MAX_TREES)
		return bad(err, ENOSPC, "%d trees are watched, which is all there is room for", PAWL_MAX_TREES);
	return missing ? refuse_missing(missing, err) : 0;
}

static int tell_guard(struct trees *t, struct tree *tr, struct pawl_error *err)
{
	struct guard_tree g = { .session = tr->session, .cgroup = tr->cg.id, .limits = tr->limits, .flags = tr->flags, .start_boot_ns = tr->start_boot_ns };
	struct guard_file files[DENY_MAX];
	size_t n;
	int r;

	if (!t->guard)
		return 0;
	r = guard_tree_add(t->guard, &g, err);
	if (r < 0)
		return r;
	tr->guarded = true;
	n = deny_look(&tr->deny, files);
	return n ? guard_deny(t->guard, tr->session, files, n, err) : 0;
}

/* Limits first, then the process, then its tag, then those it has started meanwhile. */
static int build(struct trees *t, struct tree *tr, struct pawl_error *err)
{
	struct cgroup_use use = { .oom_kills = 0 };
	int r = cgroup_make(&t->cgroups, tr->session, &tr->cg, err);

	if (r == 0)
		r = tree_write_limits(t, tr, err);
	if (r == 0)
		r = tell_guard(t, tr, err);
	if (r == 0 && !tr->guarded && !tr->cg.id) {
		tr->known = calloc(MAX_PLAIN, sizeof(*tr->known));
		if (!tr->known)
			r = pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	cgroup_read_memory(&tr->cg, &use);
	tr->oom_kills = use.oom_kills;
	if (r == 0)
		r = saved_write(t, tr, err); /* before anybody is in it: a watcher that dies now leaves no tree without a name */
	if (r == 0)
		r = cgroup_enter(&tr->cg, tr->first.pid, err);
	if (r == 0 && tr->guarded)
		r = guard_tag(t->guard, tr->pidfd, tr->session, err);
	if (r == 0)
		r = scan(t, tr, err);
	return r;
}

/* What was moved cannot be moved back to where it was; what is tagged keeps its tag. So a half-made tree is ended: the child waits still. */
static void unbuild(struct trees *t, struct tree *tr)
{
	if (tr->guarded || tr->cg.id)
		(void)sweep_end(t, tr, WHY_ABORT, 0, 0);
	if (tr->guarded)
		guard_tree_drop(t->guard, tr->session);
	tree_let_go(t, tr);
	(void)cgroup_remove(&tr->cg);
	saved_remove(t, tr->session);
}

static struct tree *new_tree(const struct watch_attach *a, int pidfd, uint64_t now)
{
	struct tree *tr = calloc(1, sizeof(*tr));

	if (!tr)
		return NULL;
	tr->session = tr->ended.last.session = a->session;
	tr->limits = tr->ended.last.limits = a->limits;
	tr->flags = tr->ended.last.flags = a->flags;
	tr->start_boot_ns = now;
	tr->pidfd = pidfd;
	return tr;
}

static int attach(struct trees *t, const struct watch_attach *a, const char *paths, size_t bytes, const int fd[static PEER_FDS], uint64_t now, struct pawl_error *err)
{
	int pidfd = fd[0];
	struct epoll_event first = { .events = EPOLLIN, .data.fd = pidfd };
	struct tree *tr = new_tree(a, pidfd, now);
	int r = tr ? check_attach(t, a, paths, bytes, err) : bad(err, ENOMEM, "out of memory");

	if (r == 0)
		r = check_process(t, a, fd, tr, err);
	if (r == 0)
		r = check_descendants(t, tr, err);
	if (r == 0)
		r = deny_init(&tr->deny, paths, bytes, a->n_deny, err);
	if (r == 0 && epoll_ctl(t->epoll, EPOLL_CTL_ADD, pidfd, &first) < 0)
		r = bad(err, errno, "epoll: %s", strerror(errno));
	if (r == 0) {
		r = build(t, tr, err);
		if (r < 0)
			unbuild(t, tr);
	}
	if (r < 0) {
		if (tr)
			tree_free(tr);
		else if (pidfd >= 0)
			(void)close(pidfd);
		return r;
	}
	t->tree[t->n++] = tr;
	t->n_live++;
	t->answer.held = holds(t, tr->flags);
	t->answer.pid = tr->first.pid;
	t->answer.uid = tr->uid;
	t->answer.start_boot_ns = now;
	say_what_is_partial(t, tr, t->answer.held, t->answer.message);
	return 0;
}

void trees_attach(struct trees *t, const void *payload, size_t n, const int fd[static PEER_FDS], uint64_t now)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct watch_attach a;
	int r;

	if (n < sizeof(a)) { /* without a number there is nobody to answer */
		trees_malformed(t, "a request to attach", n);
		if (fd[0] >= 0)
			(void)close(fd[0]);
		return;
	}
	memcpy(&a, payload, sizeof(a));
	t->answer = (struct watch_attached){ .request = a.request, .session = a.session };
	r = attach(t, &a, (const char *)payload + sizeof(a), n - sizeof(a), fd, now, &err);
	if (r < 0) {
		t->answer.result = err.os_errno > 0 ? err.os_errno : r == PAWL_E_NOMEM ? ENOMEM : r == PAWL_E_FULL ? ENOSPC : r == PAWL_E_BUSY ? EBUSY : EINVAL;
		(void)snprintf(t->answer.message, sizeof(t->answer.message), "%.150s", err.msg);
	}
	t->answer_due = true;
}
