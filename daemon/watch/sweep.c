/* daemon/watch/sweep.c - who of a tree lives, and how it is ended. Where the kernel's programs hold the tree, who belongs to it is told by the
 * tag; else by the cgroup; else by descent in /proc, remembered by pid and start time. No process gets a signal but through a pidfd, after
 * the tag, the cgroup or the start time of what that pidfd holds was looked at: a number alone may be somebody else's by now. */
#include "daemon/base/oplog.h"
#include "daemon/watch/trees_int.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 64	  /* in one go; a bomb that outruns them meets the next tick */
#define NAP_NS 500000	  /* for the kernel to bury them */
#define TRY_NS UINT64_C(1000000000) /* from then on the other trees' looks come first */
#define START_SLACK_NS 20000000 /* a start time is older than the process: it is taken before it can be seen, and /proc cuts it to 10 ms */

/* ---- by descent ---- */

static const struct proc_id *known_as(const struct tree *tr, uint32_t pid)
{
	for (size_t i = 0; i < tr->n_known; i++)
		if (tr->known[i].pid == pid)
			return &tr->known[i];
	return NULL;
}

bool tree_knows(const struct tree *tr, const struct proc_id *id)
{
	const struct proc_id *known = known_as(tr, id->pid);

	return known && known->start == id->start;
}

/* The dead leave, so that the table holds the living only. A zombie is dead: its parent may never wait for it. */
static void forget_dead(struct tree *tr)
{
	size_t kept = 0;

	for (size_t i = 0; i < tr->n_known; i++) {
		struct proc_stat s;

		if (proc_stat(tr->known[i].pid, &s) && s.id.start == tr->known[i].start && !s.dead)
			tr->known[kept++] = tr->known[i];
	}
	tr->n_known = kept;
}

static bool is_there(const struct proc_id *id)
{
	struct proc_stat s;

	return id->pid && proc_stat(id->pid, &s) && s.id.start == id->start;
}

/* What was seen once stays a member when its parent dies; what `pawl run` adopted as a subreaper is one too: it starts
 * nothing else that we would meet. */
static void look_around(struct trees *t, struct tree *tr)
{
	size_t n = 0;
	bool whole; /* what was not told this time may be the next */

	forget_dead(tr);
	if (is_there(&tr->first))
		t->pid[n++] = tr->first.pid;
	if (is_there(&tr->peer))
		t->pid[n++] = tr->peer.pid;
	for (size_t i = 0; i < tr->n_known; i++)
		t->pid[n++] = tr->known[i].pid;
	n = proc_tree(t->pid, n, MAX_MEMBERS, (uint32_t)getpid(), &whole); /* a private pawld is a child of `pawl run` too */
	for (size_t i = 0; i < n && tr->n_known < MAX_PLAIN; i++) {
		struct proc_stat s;

		if (t->pid[i] == tr->peer.pid || known_as(tr, t->pid[i]) || !proc_stat(t->pid[i], &s))
			continue;
		if (!s.dead && s.id.start >= tr->first.start)
			tr->known[tr->n_known++] = s.id;
	}
}

/* ---- lists ---- */

static struct guard_member member_of(const struct proc_stat *s)
{
	struct guard_member m = { .pid = s->id.pid, .start_boot_ns = proc_ticks_ns(s->id.start) };

	memcpy(m.comm, s->comm, sizeof(m.comm) - 1);
	return m;
}

static size_t list_pids(struct trees *t, const uint32_t *pids, size_t n)
{
	size_t have = 0;

	for (size_t i = 0; i < n; i++) {
		struct proc_stat s;

		if (proc_stat(pids[i], &s) && !s.dead)
			t->member[have++] = member_of(&s);
	}
	return have;
}

static size_t list_known(struct trees *t, struct tree *tr)
{
	size_t have = 0;

	look_around(t, tr);
	for (size_t i = 0; i < tr->n_known; i++) {
		struct proc_stat s;

		if (proc_stat(tr->known[i].pid, &s) && s.id.start == tr->known[i].start)
			t->member[have++] = member_of(&s);
	}
	return have;
}

size_t sweep_list(struct trees *t, struct tree *tr)
{
	struct pawl_error err = { .code = PAWL_OK };
	size_t n = 0;

	if (tr->guarded) {
		if (guard_members(t->guard, tr->session, t->member, MAX_MEMBERS, &n, &err) == 0)
			return n;
		oplog_error("cannot list a tree by its tag", &err); /* its cgroup is what is left */
	}
	if (tr->cg.id)
		return list_pids(t, t->pid, cgroup_procs(&tr->cg, t->pid, MAX_MEMBERS));
	return tr->known ? list_known(t, tr) : 0;
}

bool sweep_lives(struct trees *t, struct tree *tr)
{
	struct cgroup_use use = { .populated = false };

	if (tr->cg.id) {
		cgroup_read_populated(&tr->cg, &use);
		if (use.populated)
			return true;
	}
	return sweep_list(t, tr) > 0; /* one that left the cgroup has its tag still */
}

/* ---- the end ---- */

static bool belongs(struct trees *t, const struct tree *tr, const struct guard_member *m, int pidfd)
{
	struct proc_stat s;

	if (tr->guarded)
		return guard_tag_of(t->guard, pidfd) == tr->session;
	if (tr->cg.id)
		return cgroup_has(&tr->cg, m->pid);
	return proc_stat(m->pid, &s) && proc_ticks_ns(s.id.start) == m->start_boot_ns;
}

bool sweep_kill(struct trees *t, const struct tree *tr, const struct guard_member *m)
{
	int fd = proc_open(m->pid);
	bool done;

	if (fd < 0)
		return false;
	/* looked at while the descriptor holds the number: from here on nobody else can have it */
	done = belongs(t, tr, m, fd) && proc_signal(fd, SIGKILL) == 0;
	(void)close(fd);
	return done;
}

static bool was_counted(const struct tree *tr, const struct guard_member *m)
{
	if (m->start_boot_ns + START_SLACK_NS < tr->counted_ns)
		return true;
	for (size_t i = 0; i < tr->n_young; i++)
		if (tr->young[i].pid == m->pid && tr->young[i].start == m->start_boot_ns)
			return true;
	return false;
}

/* Those whom the next round cannot tell by their start alone: they are in this list, and may have started after `now`. */
static void keep_young(struct trees *t, struct tree *tr, size_t n, uint64_t now)
{
	size_t young = 0;

	free(tr->young);
	tr->young = NULL;
	tr->n_young = 0;
	for (size_t i = 0; i < n; i++)
		young += t->member[i].start_boot_ns + START_SLACK_NS >= now;
	if (young)
		tr->young = calloc(young, sizeof(*tr->young)); /* NULL: counted twice */
	for (size_t i = 0; tr->young && i < n; i++)
		if (t->member[i].start_boot_ns + START_SLACK_NS >= now)
			tr->young[tr->n_young++] = (struct proc_id){ .pid = t->member[i].pid, .start = t->member[i].start_boot_ns };
}

size_t sweep_count(struct trees *t, struct tree *tr, size_t n, uint64_t now)
{
	struct watch_ended *e = &tr->ended;
	size_t fresh = 0;

	for (size_t i = 0; i < n; i++) {
		if (was_counted(tr, &t->member[i]))
			continue;
		fresh++;
		if (e->n_dead < PAWL_MAX_ENDED) {
			e->dead[e->n_dead].pid = t->member[i].pid;
			memcpy(e->dead[e->n_dead++].comm, t->member[i].comm, sizeof(e->dead[0].comm));
		}
	}
	e->n_killed += (uint32_t)fresh;
	keep_young(t, tr, n, now);
	tr->counted_ns = now;
	return fresh;
}

/* How many were there, and how many of them for the first time. */
static size_t round_of(struct trees *t, struct tree *tr, size_t *ret_fresh)
{
	struct pawl_error err = { .code = PAWL_OK };
	uint64_t now = trees_boot_ns();
	size_t n = sweep_list(t, tr);

	*ret_fresh = sweep_count(t, tr, n, now);
	if (tr->cg.id && t->can_cgroup_kill && cgroup_kill(&tr->cg, &err) < 0 && tr->kill_failed++ == 0)
		oplog_error("one by one instead", &err);
	for (size_t i = 0; i < n; i++)
		(void)sweep_kill(t, tr, &t->member[i]);
	return n;
}

struct rank {
	int policy, nice;
	struct sched_param param;
};

/* Ahead of what it hunts: at nice 0 a bomb gets most of the processor. */
static void raise_rank(struct rank *old)
{
	struct sched_param fifo = { .sched_priority = 1 };

	old->policy = sched_getscheduler(0);
	old->nice = getpriority(PRIO_PROCESS, 0);
	if (sched_getparam(0, &old->param) < 0)
		old->policy = -1;
	if (old->policy >= 0 && sched_setscheduler(0, SCHED_FIFO, &fifo) < 0)
		(void)setpriority(PRIO_PROCESS, 0, -20);
}

static void restore_rank(const struct rank *old)
{
	if (old->policy >= 0)
		(void)sched_setscheduler(0, old->policy, &old->param);
	(void)setpriority(PRIO_PROCESS, 0, old->nice);
}

void sweep_on(struct trees *t, struct tree *tr)
{
	const struct timespec nap = { 0, NAP_NS };
	const bool late = trees_boot_ns() > tr->ending_ns + TRY_NS;
	struct rank old;

	raise_rank(&old);
	for (int i = 0; i < ROUNDS; i++) {
		size_t fresh;

		if (round_of(t, tr, &fresh) == 0 && !sweep_lives(t, tr))
			break;
		if (late && fresh == 0) /* it waits for the kernel, not for us; what still starts others is hunted on */
			break;
		(void)nanosleep(&nap, NULL);
	}
	restore_rank(&old);
}

bool sweep_end(struct trees *t, struct tree *tr, enum watch_why why, uint64_t measured, uint64_t limit)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct guard_tree g = { .killed = why, .measured = measured, .limit = limit };
	bool ours = true;
	int marked = 0;

	if (tr->ending || tr->over)
		return false;
	/* first, so that nothing is born between two rounds */
	if (tr->guarded)
		marked = guard_mark(t->guard, tr->session, why, measured, limit, &err);
	if (marked < 0)
		oplog_error("cannot mark a tree", &err);
	else if (tr->guarded && guard_tree_get(t->guard, tr->session, &g, NULL) == 0) {
		uint64_t lived = g.killed == WHY_NONE ? g.live : g.lived; /* of those that the kernel ends as soon as the mark is there, none is in a list */

		ours = marked == 0 || g.killed == WHY_NONE; /* the kernel was first; none: it is about to say why */
		tr->lived = lived < MAX_MEMBERS ? (uint32_t)lived : MAX_MEMBERS;
	}
	tr->ending = true;
	tr->unled_ns = tr->ending_ns = trees_boot_ns();
	tr->ended.last.killed = ours ? (uint32_t)why : g.killed;
	tr->ended.measured = ours ? measured : g.measured;
	tr->ended.limit = ours ? limit : g.limit;
	sweep_on(t, tr);
	return marked <= 0;
}
