/* daemon/watch/trees.c - see trees.h: opening and closing, the tick, and orders that are short. */
#include "daemon/watch/trees.h"

#include "daemon/base/oplog.h"
#include "daemon/watch/leftovers.h"
#include "daemon/watch/probe.h"
#include "daemon/watch/trees_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_EACH_TICK 65536u
#define SAY_MALFORMED 16
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

void tree_free(struct tree *tr)
{
	if (tr->pidfd >= 0)
		(void)close(tr->pidfd);
	deny_done(&tr->deny);
	free(tr->known);
	free(tr->young);
	free(tr);
}

/* Out of the epoll by hand: the launcher holds the same pidfd, and while anybody does it would be told as readable. */
void tree_let_go(const struct trees *t, struct tree *tr)
{
	if (tr->pidfd < 0)
		return;
	(void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, tr->pidfd, NULL);
	(void)close(tr->pidfd);
	tr->pidfd = -1;
}

static void remove_tree(struct trees *t, struct tree *tr)
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
	struct guard_options g = { .ring_bytes = opt->ring_bytes, .max_trees = opt->max_trees, .sampler_hz = opt->sampler_hz };
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
		(void)pins_remove(&t->pins);
		return;
	}
	urgent.data.fd = guard_fd(t->guard);
	if (urgent.data.fd >= 0 && epoll_ctl(t->epoll, EPOLL_CTL_ADD, urgent.data.fd, &urgent) < 0)
		oplog(OPLOG_WARN, "kills are told at the next look: epoll: %s", strerror(errno));
}

static void open_cgroups(struct trees *t, const struct cgroup_mounts *mounts, const char *instance)
{
	cgroups_open(mounts, instance, &t->cgroups);
	t->can_cgroup_kill = cgroup_can_kill(&t->cgroups);
	probe_cgroups(t->probes, &t->cgroups, t->can_cgroup_kill);
}

static void name_saved(struct trees *t, const struct trees_options *opt)
{
	int n = 0;

	if (opt->saved)
		n = snprintf(t->saved, sizeof(t->saved), "%s", opt->saved);
	else if (opt->state && geteuid() == 0 && pins_run_folder(NULL) == 0)
		n = snprintf(t->saved, sizeof(t->saved), WATCH_RUN "/trees-%s", t->instance);
	else if (opt->state)
		n = snprintf(t->saved, sizeof(t->saved), "%s/trees", opt->state);
	if (n >= 0 && (size_t)n < sizeof(t->saved))
		return;
	oplog(OPLOG_WARN, "the state folder's path is too long: trees are not found again after a restart");
	t->saved[0] = '\0';
}

/* What is in the kernel already is found before anything is made. */
static void open_kernel(struct trees *t, const struct trees_options *opt)
{
	struct cgroup_mounts mounts = { .v2 = { false } };
	struct pawl_error err = { .code = PAWL_OK };
	int alone = opt->no_guard ? -1 : leftovers_begin();

	if (!opt->no_cgroup && cgroup_mounts_read(&mounts, &err) < 0)
		oplog_error("cgroups", &err);
	if (alone >= 0) {
		t->live = leftovers_live(t->instance);
		leftovers_clear(t->instance, &mounts);
	}
	open_cgroups(t, &mounts, t->instance);
	open_guard(t, opt, t->instance);
	probe_tier(t->probes);
	restore_all(t);
	leftovers_end(alone);
}

int trees_open(const struct trees_options *opt, struct watch_probes *probes, struct trees **ret, struct pawl_error *err)
{
	struct trees *t = calloc(1, sizeof(*t));
	int r = t ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");

	if (r == 0) {
		t->peer = t->live = -1;
		t->probes = probes;
		t->epoll = epoll_create1(EPOLL_CLOEXEC);
		if (t->epoll < 0)
			r = pawl_fail_errno(err, "epoll");
	}
	if (r == 0)
		r = probe_instance(opt->state, t->instance, err);
	if (r < 0) {
		if (t && t->epoll >= 0)
			(void)close(t->epoll);
		free(t);
		return r;
	}
	name_saved(t, opt);
	probe_machine(probes);
	open_kernel(t, opt);
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
	if (t->live >= 0)
		(void)close(t->live); /* a lock of the file that was opened: the watcher's own copy goes on holding it */
	(void)close(t->epoll);
	free(t->event);
	free(t);
}

void trees_unpin(struct trees *t)
{
	int alone;

	if (t->n_live > 0)
		return; /* its limits go on without us */
	alone = t->guard ? leftovers_begin() : -1;
	if (t->guard)
		guard_unpin(t->guard);
	guard_close(t->guard);
	t->guard = NULL;
	(void)pins_remove(&t->pins);
	cgroups_remove(&t->cgroups);
	if (t->saved[0])
		(void)rmdir(t->saved); /* an end that nobody has noted stays for the next pawld */
	if (t->live >= 0)
		leftovers_dead(t->instance);
	leftovers_end(alone);
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
			tree_look(t, t->tree[i], second, now);
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

void trees_malformed(struct trees *t, const char *what, size_t n)
{
	if (t->malformed++ < SAY_MALFORMED) /* one that was taken over must not fill the log of those who look for it */
		oplog(OPLOG_ERROR, "the rest of pawld sent %s that is not as it should be (%zu bytes)", what, n);
}

static void take_kill(struct trees *t, const void *payload, size_t n)
{
	struct watch_kill k = { .session = 0 };
	struct tree *tr;

	if (n == sizeof(k))
		memcpy(&k, payload, sizeof(k));
	if (n != sizeof(k) || k.zero || k.why == WHY_NONE || k.why >= WHY_COUNT) {
		trees_malformed(t, "an order to kill", n);
		return;
	}
	tr = trees_find(t, k.session);
	if (tr)
		(void)sweep_end(t, tr, (enum watch_why)k.why, 0, 0);
}

static void take_forget(struct trees *t, const void *payload, size_t n)
{
	uint64_t session = 0;
	struct tree *tr;

	if (n == sizeof(session))
		memcpy(&session, payload, sizeof(session));
	tr = session ? trees_find(t, session) : NULL;
	if (n != sizeof(session) || (tr && !tr->over)) { /* one that lives is not forgotten */
		trees_malformed(t, "an order to forget, of a tree that lives or of none,", n);
	} else if (tr) {
		saved_remove(t, session);
		remove_tree(t, tr);
	}
}

static void take_ready(struct trees *t)
{
	for (size_t i = 0; i < t->n; i++)
		t->tree[i]->told = false;
	t->ready = t->now_due = t->all_due = true;
	t->now_next = 0;
}

void trees_take(struct trees *t, enum peer_kind kind, const void *payload, size_t n, const int fd[static PEER_FDS], uint64_t now)
{
	int pidfd = fd[0];

	if (kind == PEER_ATTACH) {
		trees_attach(t, payload, n, fd, now);
		pidfd = -1;
	} else if (kind == PEER_RENEW) {
		trees_renew(t, payload, n);
	} else if (kind == PEER_KILL) {
		take_kill(t, payload, n);
	} else if (kind == PEER_FORGET) {
		take_forget(t, payload, n);
	} else if (kind == PEER_READY && n == 0) {
		take_ready(t);
	} else { /* what only the watcher says */
		trees_malformed(t, "what is not its to send", n);
	}
	if (pidfd >= 0)
		(void)close(pidfd);
	if (fd[1] >= 0)
		(void)close(fd[1]);
	tell_all(t);
}
