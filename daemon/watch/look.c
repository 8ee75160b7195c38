/* daemon/watch/look.c - one look at one tree: what it uses, whether that is too much, whether anybody lives. What was noticed is ended here;
 * the kernel's programs notice most of it earlier. */
#include "daemon/base/oplog.h"
#include "daemon/watch/trees_int.h"

#include <poll.h>
#include <stdlib.h>

#define SECOND UINT64_C(1000000000)

/* A limit that the watcher noticed: told as the kernel tells its own, then the end, or in shadow mode nothing. */
static void breach(struct trees *t, struct tree *tr, enum watch_why why, uint64_t measured, uint64_t limit, uint64_t now)
{
	struct watch_event ev = { .boot_ns = now, .tree = tr->session, .measured = measured, .limit = limit, .kind = WATCH_BREACH, .why = why,
				  .pid = tr->first.pid, .uid = tr->uid };

	if (tr->flags & ATTACH_LOG_ONLY)
		ev.flags = WATCH_F_LOG_ONLY;
	else if (!sweep_end(t, tr, why, measured, limit))
		return;
	tell_event(t, &ev);
}

/* What is left by sum where nothing counts for us; the dead that nobody waited for are missing. */
static uint64_t cpu_by_descent(struct trees *t, struct tree *tr)
{
	size_t n = sweep_list(t, tr);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		struct proc_stat s;

		if (proc_stat(t->member[i].pid, &s))
			sum += s.cpu_ns + s.dead_ns;
	}
	if (n > tr->ended.last.peak)
		tr->ended.last.peak = n;
	tr->ended.last.processes = n;
	return sum > tr->ended.last.cpu_ns ? sum : tr->ended.last.cpu_ns; /* who ended takes its share along; what was used stays used */
}

static void measure(struct trees *t, struct tree *tr, bool second, struct guard_tree *g, struct cgroup_use *use, uint64_t now)
{
	struct watch_now *last = &tr->ended.last;

	if (tr->guarded && guard_tree_get(t->guard, tr->session, g, NULL) == 0) {
		last->processes = g->live;
		last->peak = g->peak;
		last->forks = g->forks;
		last->execs = g->execs;
		last->lost = g->lost + tr->lost;
	}
	if (tr->cg.id && (tr->limits.cpu_ns || second)) {
		cgroup_read_cpu(&tr->cg, use);
		last->cpu_ns = use->cpu_known ? use->cpu_ns : last->cpu_ns;
	}
	if (tr->cg.dir[CGROUP_MEMORY][0] && (tr->limits.memory || second)) {
		cgroup_read_memory(&tr->cg, use);
		last->memory = use->memory;
		last->memory_peak = use->memory_peak > last->memory_peak ? use->memory_peak : last->memory_peak;
	}
	if (!tr->guarded && tr->cg.id && second) {
		last->processes = cgroup_procs(&tr->cg, t->pid, MAX_MEMBERS);
		last->peak = last->processes > last->peak ? last->processes : last->peak;
	}
	if (tr->known)
		last->cpu_ns = cpu_by_descent(t, tr);
	last->wall_ns = now > tr->start_boot_ns ? now - tr->start_boot_ns : 0;
}

/* The kernel's cap is what ends it. Shadow mode has none: there what could not be taken back is compared, since a file's pages would be. */
static bool over_memory(const struct tree *tr, const struct cgroup_use *use)
{
	if (tr->flags & ATTACH_LOG_ONLY)
		return cgroup_anon(&tr->cg) > tr->limits.memory;
	return use->oom_kills > tr->oom_kills;
}

/* The kernel compares at a fork alone, so a limit below what lives already is for us to find. In shadow mode it tells at the next one. */
static bool told_by_kernel(const struct tree *tr)
{
	return tr->guarded && (tr->flags & ATTACH_LOG_ONLY);
}

static void check_limits(struct trees *t, struct tree *tr, const struct guard_tree *g, const struct cgroup_use *use, uint64_t now)
{
	const struct watch_now *last = &tr->ended.last;
	const struct watch_limits *lim = &tr->limits;

	if (g->killed) /* in the kernel already, which has told of it */
		(void)sweep_end(t, tr, (enum watch_why)g->killed, g->measured, g->limit);
	else if (lim->wall_ns && last->wall_ns >= lim->wall_ns)
		breach(t, tr, WHY_WALL, last->wall_ns, lim->wall_ns, now);
	else if (lim->cpu_ns && last->cpu_ns >= lim->cpu_ns)
		breach(t, tr, WHY_CPU, last->cpu_ns, lim->cpu_ns, now);
	else if (lim->memory && over_memory(tr, use))
		breach(t, tr, WHY_MEMORY, last->memory_peak, lim->memory, now);
	else if (lim->processes && last->processes > lim->processes && !told_by_kernel(tr))
		breach(t, tr, WHY_PROCESSES, last->processes, lim->processes, now);
}

/* A cgroup of v1 takes no limit below what is used, when that cannot be taken back: then the watcher is what ends it. */
static void look_again_at_limits(struct trees *t, struct tree *tr, bool second, uint64_t now)
{
	struct cgroup_use use = { .memory = 0 };
	uint64_t limit = tr->limits.memory;

	if (!tr->limits_due || (!second && (limit == 0 || tr->ended.last.memory <= limit)))
		return;
	tr->limits_due = tree_write_limits(t, tr, NULL) < 0;
	if (!tr->limits_due || limit == 0 || (tr->flags & ATTACH_LOG_ONLY))
		return;
	cgroup_read_memory(&tr->cg, &use);
	if (use.memory > limit)
		breach(t, tr, WHY_MEMORY, use.memory, limit, now);
}

/* Nobody lives: what was counted is kept until the rest has it in its log. */
static void finish(struct trees *t, struct tree *tr)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct watch_now *last = &tr->ended.last;
	struct cgroup_use use = { .cpu_ns = 0 };

	cgroup_read_cpu(&tr->cg, &use); /* the last word, before the folders go */
	cgroup_read_memory(&tr->cg, &use);
	last->cpu_ns = use.cpu_ns > last->cpu_ns ? use.cpu_ns : last->cpu_ns;
	last->memory_peak = use.memory_peak > last->memory_peak ? use.memory_peak : last->memory_peak;
	if (last->killed == WHY_NONE) /* nobody had to end it, and that is no matter of who looked first */
		last->killed = WHY_ENDED;
	if (tr->ended.n_killed < tr->lived)
		tr->ended.n_killed = tr->lived;
	tr->over = true;
	tr->told = false;
	tr->told_after = t->events_in;
	last->processes = last->memory = 0;
	t->n_live--;
	tree_let_go(t, tr);
	if (saved_write(t, tr, &err) < 0)
		oplog_error("the end of a tree is not saved", &err);
	if (tr->guarded)
		guard_tree_drop(t->guard, tr->session);
	tr->guarded = false;
	if (!cgroup_remove(&tr->cg))
		oplog(OPLOG_WARN, "the cgroup of session %llu cannot be removed", (unsigned long long)tr->session);
	tr->cg.id = 0;
	free(tr->known);
	free(tr->young);
	tr->known = tr->young = NULL;
	tr->n_young = 0;
}

static bool first_ended(struct trees *t, struct tree *tr)
{
	struct pollfd p = { .fd = tr->pidfd, .events = POLLIN };

	if (tr->pidfd >= 0 && poll(&p, 1, 0) > 0)
		tree_let_go(t, tr);
	return tr->pidfd < 0;
}

static void look_again_at_programs(struct trees *t, struct tree *tr)
{
	struct guard_file files[DENY_MAX];
	struct pawl_error err = { .code = PAWL_OK };
	size_t n = tr->guarded ? deny_look(&tr->deny, files) : 0;

	if (n && guard_deny(t->guard, tr->session, files, n, &err) < 0) {
		tr->deny.n_last = 0; /* and once more in a second */
		oplog_error("a program that changed is not denied yet", &err);
	}
}

/* A list of the living costs more than the rest of a look, so it is made when there is a reason to. Once a second without one: a count that
 * is wrong must not keep a tree for ever. */
static bool may_be_over(const struct tree *tr, const struct guard_tree *g, bool gone, bool second)
{
	if (tr->ending || (gone && (second || (tr->flags & ATTACH_RUN))))
		return true;
	return tr->guarded ? g->live == 0 : tr->cg.id ? gone : tr->ended.last.processes == 0;
}

void tree_look(struct trees *t, struct tree *tr, bool second, uint64_t now)
{
	struct cgroup_use use = { .oom_kills = tr->oom_kills };
	struct guard_tree g = { .killed = 0, .live = 1 }; /* unless the kernel says otherwise */
	bool gone = first_ended(t, tr);

	measure(t, tr, second, &g, &use, now);
	if (tr->ending) {
		sweep_on(t, tr);
	} else {
		check_limits(t, tr, &g, &use, now);
		if (!tr->ending)
			look_again_at_limits(t, tr, second, now);
		if (second && !tr->ending)
			look_again_at_programs(t, tr);
	}
	if (!may_be_over(tr, &g, gone, second))
		return;
	if (!tr->ending && gone && (tr->flags & ATTACH_RUN) && tr->first.pid && !(tr->flags & ATTACH_LOG_ONLY) && sweep_lives(t, tr))
		(void)sweep_end(t, tr, WHY_ENDED, 0, 0);
	if (!sweep_lives(t, tr)) {
		finish(t, tr);
	} else if (tr->ending && now > tr->unled_ns + 10 * SECOND) {
		oplog(OPLOG_ERROR, "session %llu is not dead after 10 s; it is tried on", (unsigned long long)tr->session);
		tr->unled_ns = now;
	}
}
