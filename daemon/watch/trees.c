/* daemon/watch/trees.c - see trees.h: opening and closing, the look at every tree, and its end. */
#include "daemon/watch/trees.h"

#include "daemon/base/oplog.h"
#include "daemon/watch/probe.h"
#include "daemon/watch/trees_int.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_EACH_TICK 65536u
#define SECOND UINT64_C(1000000000)

uint64_t trees_boot_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

struct tree *trees_find(const struct trees *t, uint64_t session)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->tree[i]->session == session)
			return t->tree[i];
	return NULL;
}

size_t trees_live(const struct trees *t)
{
	return t->n_live;
}

void tree_free(struct tree *tr)
{
	if (tr->pidfd >= 0)
		(void)close(tr->pidfd); /* leaves the epoll with its last descriptor */
	deny_done(&tr->deny);
	free(tr->known);
	free(tr);
}

void trees_remove(struct trees *t, struct tree *tr)
{
	size_t i = 0;

	while (t->tree[i] != tr)
		i++;
	memmove(&t->tree[i], &t->tree[i + 1], (t->n - i - 1) * sizeof(t->tree[0]));
	t->n--;
	t->now_next = t->now_next > i ? t->now_next - 1 : t->now_next;
	tree_free(tr);
}

/* ---- open, close ---- */

static void open_guard(struct trees *t, const struct trees_options *opt, const char *instance)
{
	struct guard_options g = { .ring_bytes = opt->ring_bytes, .sampler_hz = opt->sampler_hz };
	struct pawl_error err = { .code = PAWL_OK };
	struct epoll_event urgent = { .events = EPOLLIN };

	if (opt->no_guard) {
		for (int i = WP_TRACING; i <= WP_ITERATOR; i++)
			probe_say(t->probes, i, WATCH_OFF, 0, "switched off");
		return;
	}
	pins_open(instance, &t->pins);
	g.pins = t->pins.dir[0] ? t->pins.dir : NULL;
	if (guard_open(&g, t->probes, &t->guard, &err) < 0)
		t->guard = NULL; /* the rows say why */
	if (!t->pins.dir[0])
		probe_say(t->probes, WP_PINS, WATCH_OFF, t->probes->row[WP_PINS].os_errno, "%s", t->pins.says);
	if (!t->guard) {
		pins_remove(&t->pins);
		return;
	}
	urgent.data.fd = guard_fd(t->guard);
	if (urgent.data.fd >= 0 && epoll_ctl(t->epoll, EPOLL_CTL_ADD, urgent.data.fd, &urgent) < 0)
		oplog(OPLOG_WARN, "kills are told at the next look: epoll: %s", strerror(errno));
}

static void open_cgroups(struct trees *t, const struct trees_options *opt, const char *instance)
{
	struct cgroup_mounts mounts = { .v2 = { false } };
	struct pawl_error err = { .code = PAWL_OK };

	if (!opt->no_cgroup && cgroup_mounts_read(&mounts, &err) < 0)
		oplog_error("cgroups", &err);
	cgroups_open(&mounts, instance, &t->cgroups);
	t->can_cgroup_kill = cgroup_can_kill(&t->cgroups);
	probe_cgroups(t->probes, &t->cgroups, t->can_cgroup_kill);
}

static int name_saved(struct trees *t, const struct trees_options *opt, const char *instance, struct pawl_error *err)
{
	int n = 0;

	if (opt->saved)
		n = snprintf(t->saved, sizeof(t->saved), "%s", opt->saved);
	else if (opt->state && geteuid() == 0 && pins_run_folder(err) == 0)
		n = snprintf(t->saved, sizeof(t->saved), PINS_RUN "/trees-%s", instance);
	else if (opt->state)
		n = snprintf(t->saved, sizeof(t->saved), "%s/trees", opt->state);
	if (n >= 0 && (size_t)n < sizeof(t->saved))
		return 0;
	oplog(OPLOG_WARN, "the state folder's path is too long: trees are not found again after a restart");
	t->saved[0] = '\0';
	return 0;
}

int trees_open(const struct trees_options *opt, struct watch_probes *probes, struct trees **ret, struct pawl_error *err)
{
	char instance[CGROUP_INSTANCE];
	struct trees *t = calloc(1, sizeof(*t));
	int r = t ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");

	if (r == 0) {
		t->peer = -1;
		t->probes = probes;
		t->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (t->epoll < 0)
			r = pawl_fail_errno(err, "epoll");
	}
	if (r == 0)
		r = probe_instance(opt->state, instance, err);
	if (r == 0)
		r = name_saved(t, opt, instance, err);
	if (r < 0) {
		free(t);
		return r;
	}
	probe_machine(probes);
	open_cgroups(t, opt, instance);
	open_guard(t, opt, instance);
	probe_tier(probes);
	restore_all(t);
	*ret = t;
	return 0;
}

void trees_close(struct trees *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		tree_free(t->tree[i]);
	guard_close(t->guard);
	(void)close(t->epoll);
	free(t->event);
	free(t);
}

void trees_unpin(struct trees *t)
{
	if (t->n_live > 0)
		return; /* its limits go on without us */
	if (t->guard)
		guard_unpin(t->guard);
	guard_close(t->guard);
	t->guard = NULL;
	pins_remove(&t->pins);
	cgroups_remove(&t->cgroups);
	if (t->saved[0] && rmdir(t->saved) == 0) /* an end that nobody has noted stays for the next pawld */
		(void)rmdir(PINS_RUN);
}

void trees_peer(struct trees *t, int peer)
{
	int room = SEND_BUFFER;

	t->peer = peer;
	t->ready = t->answer_due = false; /* who asked is gone, and a new one has not */
	if (peer < 0)
		return;
	if (setsockopt(peer, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
		(void)setsockopt(peer, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

/* ---- one look at one tree ---- */

/* A limit that the watcher noticed: told as the kernel tells its own, then the end, or in shadow mode nothing. */
static void breach(struct trees *t, struct tree *tr, enum watch_why why, uint64_t measured, uint64_t limit, uint64_t now)
{
	struct watch_event ev = { .boot_ns = now, .tree = tr->session, .measured = measured, .limit = limit, .kind = WATCH_BREACH, .why = why,
				  .pid = tr->first.pid, .uid = tr->uid };

	if (tr->flags & ATTACH_LOG_ONLY) {
		if (tr->reported & 1u << why)
			return;
		tr->reported |= 1u << why;
		ev.flags = WATCH_F_LOG_ONLY;
		tell_event(t, &ev);
		return;
	}
	tell_event(t, &ev);
	sweep_end(t, tr, why, measured, limit);
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

static void check_limits(struct trees *t, struct tree *tr, const struct guard_tree *g, const struct cgroup_use *use, uint64_t now)
{
	const struct watch_now *last = &tr->ended.last;
	const struct watch_limits *lim = &tr->limits;

	if (g->killed) /* in the kernel already, which has told of it */
		sweep_end(t, tr, (enum watch_why)g->killed, g->measured, g->limit);
	else if (lim->wall_ns && last->wall_ns >= lim->wall_ns)
		breach(t, tr, WHY_WALL, last->wall_ns, lim->wall_ns, now);
	else if (lim->cpu_ns && last->cpu_ns >= lim->cpu_ns)
		breach(t, tr, WHY_CPU, last->cpu_ns, lim->cpu_ns, now);
	else if (lim->memory && (use->oom_kills > tr->oom_kills || last->memory > lim->memory)) /* the second in shadow mode, which has no cap */
		breach(t, tr, WHY_MEMORY, last->memory_peak, lim->memory, now);
	else if (lim->processes && !tr->guarded && last->processes > lim->processes)
		breach(t, tr, WHY_PROCESSES, last->processes, lim->processes, now);
}

/* Nobody lives: what was counted is kept until the rest has it in its log. */
static void finish(struct trees *t, struct tree *tr)
{
	struct pawl_error err = { .code = PAWL_OK };

	tr->over = true;
	tr->told = false;
	tr->told_after = t->events_in;
	tr->ended.last.processes = tr->ended.last.memory = 0;
	t->n_live--;
	if (tr->pidfd >= 0)
		(void)close(tr->pidfd);
	tr->pidfd = -1;
	if (saved_write(t, tr, &err) < 0)
		oplog_error("the end of a tree is not saved", &err);
	if (tr->guarded)
		guard_tree_drop(t->guard, tr->session);
	tr->guarded = false;
	if (!cgroup_remove(&tr->cg))
		oplog(OPLOG_WARN, "the cgroup of session %llu cannot be removed", (unsigned long long)tr->session);
	tr->cg.id = 0;
	free(tr->known);
	tr->known = NULL;
}

static bool first_ended(struct trees *t, struct tree *tr)
{
	struct pollfd p = { .fd = tr->pidfd, .events = POLLIN };

	if (tr->pidfd >= 0 && poll(&p, 1, 0) > 0) {
		(void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, tr->pidfd, NULL);
		(void)close(tr->pidfd);
		tr->pidfd = -1;
	}
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

static void look(struct trees *t, struct tree *tr, bool second, uint64_t now)
{
	struct cgroup_use use = { .oom_kills = tr->oom_kills };
	struct guard_tree g = { .killed = 0, .live = 1 }; /* unless the kernel says otherwise */
	bool gone = first_ended(t, tr);

	measure(t, tr, second, &g, &use, now);
	if (tr->ending) {
		sweep_on(t, tr);
	} else {
		check_limits(t, tr, &g, &use, now);
		if (second && !tr->ending)
			look_again_at_programs(t, tr);
	}
	if (!may_be_over(tr, &g, gone, second))
		return;
	if (!tr->ending && gone && (tr->flags & ATTACH_RUN) && tr->first.pid && !(tr->flags & ATTACH_LOG_ONLY) && sweep_lives(t, tr))
		sweep_end(t, tr, WHY_ENDED, 0, 0);
	if (!sweep_lives(t, tr)) {
		finish(t, tr);
	} else if (tr->ending && now > tr->unled_ns + 10 * SECOND) {
		oplog(OPLOG_ERROR, "session %llu is not dead after 10 s; it is tried on", (unsigned long long)tr->session);
		tr->unled_ns = now;
	}
}

/* ---- the loop's ---- */

static void take_event(void *arg, const struct watch_event *ev)
{
	tell_event(arg, ev);
}

void trees_tick(struct trees *t, uint64_t now)
{
	bool second = now >= t->second_ns;

	if (t->guard)
		(void)guard_consume(t->guard, EVENTS_EACH_TICK, take_event, t);
	for (size_t i = 0; i < t->n; i++)
		if (!t->tree[i]->over)
			look(t, t->tree[i], second, now);
	if (t->guard) /* what the end of a tree has put there */
		(void)guard_consume(t->guard, EVENTS_EACH_TICK, take_event, t);
	if (second) {
		t->second_ns = now + SECOND;
		if (t->n_live > 0) {
			t->now_next = 0;
			t->now_due = true;
		}
	}
	tell_all(t);
}

int trees_wait_ms(const struct trees *t)
{
	bool due = t->peer >= 0 && t->ready && (t->event_n > 0 || t->now_due || t->all_due || t->answer_due);

	for (size_t i = 0; i < t->n && !due; i++)
		due = !t->tree[i]->over || (t->peer >= 0 && t->ready && !t->tree[i]->told);
	return due ? TREES_TICK_MS : -1;
}

int trees_fd(const struct trees *t)
{
	return t->epoll;
}

bool trees_can_take(const struct trees *t)
{
	return !t->answer_due;
}

static void take_kill(struct trees *t, const void *payload, size_t n)
{
	struct watch_kill k;
	struct tree *tr;

	if (n == sizeof(k))
		memcpy(&k, payload, sizeof(k));
	if (n != sizeof(k) || k.zero || k.why == WHY_NONE || k.why >= WHY_COUNT) {
		t->malformed++;
		oplog(OPLOG_ERROR, "the rest of pawld sent an order to kill that is malformed (%zu bytes)", n);
		return;
	}
	tr = trees_find(t, k.session);
	if (tr)
		sweep_end(t, tr, (enum watch_why)k.why, 0, 0);
}

static void take_forget(struct trees *t, const void *payload, size_t n)
{
	uint64_t session = 0;
	struct tree *tr;

	if (n == sizeof(session))
		memcpy(&session, payload, sizeof(session));
	tr = session ? trees_find(t, session) : NULL;
	if (n != sizeof(session) || (tr && !tr->over)) { /* one that lives is not forgotten */
		t->malformed++;
		oplog(OPLOG_ERROR, "the rest of pawld wants a tree forgotten that lives, or none (%zu bytes)", n);
	} else if (tr) {
		saved_remove(t, session);
		trees_remove(t, tr);
	}
}

static void take_ready(struct trees *t)
{
	for (size_t i = 0; i < t->n; i++)
		t->tree[i]->told = false;
	t->ready = t->now_due = t->all_due = true;
	t->now_next = 0;
}

void trees_take(struct trees *t, enum peer_kind kind, const void *payload, size_t n, int fd, uint64_t now)
{
	if (kind == PEER_ATTACH) {
		trees_attach(t, payload, n, fd, now);
		fd = -1;
	} else if (kind == PEER_RENEW) {
		trees_renew(t, payload, n);
	} else if (kind == PEER_KILL) {
		take_kill(t, payload, n);
	} else if (kind == PEER_FORGET) {
		take_forget(t, payload, n);
	} else if (kind == PEER_READY && n == 0) {
		take_ready(t);
	} else { /* what only the watcher says */
		t->malformed++;
		oplog(OPLOG_ERROR, "the rest of pawld sent message %d of %zu bytes, which is not its to send", (int)kind, n);
	}
	if (fd >= 0)
		(void)close(fd);
	tell_all(t);
}
