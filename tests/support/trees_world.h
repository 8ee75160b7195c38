/* trees_world.h - a watcher's trees in a process of their own, driven over the socket as the rest drives them; this process is the rest and
 * the launcher. Three ways of knowing who belongs to a tree: the kernel's programs, cgroups alone, /proc alone. */
#ifndef TESTS_SUPPORT_TREES_WORLD_H
#define TESTS_SUPPORT_TREES_WORLD_H
#include "daemon/watch/trees.h"
#include "tests/support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000 /* before a test says that nothing came; never what is measured */
enum way { BY_TAG, BY_CGROUP, BY_DESCENT, WAYS };
static const char *const way_names[WAYS] = { "tag", "cgroup", "descent" };

struct world {
	char dir[64], saved[96];
	enum way way;
	uid_t uid;
	pid_t watcher;
	int sock;
	int asker; /* the connection that comes with what asks for a tree */
	struct watch_probes *probes; /* shared with the watcher */
	struct watch_event event[4096];
	size_t n_events;
	struct watch_now now[64];
	size_t n_now;
	unsigned char buf[PEER_MAX_PAYLOAD];
};

static void watcher_main(const struct world *w, int sock)
{
	const struct trees_options opt = { .state = w->dir, .saved = w->saved, .no_guard = w->way != BY_TAG, .no_cgroup = w->way == BY_DESCENT };
	static unsigned char in[PEER_MAX_PAYLOAD];
	struct pawl_error err;
	struct trees *t;
	int spins = 0;

	if (w->uid && (setgid(w->uid) < 0 || setuid(w->uid) < 0))
		_exit(90);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (trees_open(&opt, w->probes, &t, &err) < 0)
		_exit(91);
	trees_peer(t, sock);
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &(int){ 256 << 10 }, sizeof(int)); /* so that little makes it full */
	for (bool open = true; open;) {
		struct pollfd fds[2] = { { trees_can_take(t) ? sock : -1, POLLIN, 0 }, { trees_fd(t), POLLIN, 0 } };
		enum peer_kind kind;
		size_t n;
		int r = 1, fd[PEER_FDS];

		if (poll(fds, 2, trees_wait_ms(t)) < 0)
			_exit(92);
		spins = fds[1].revents ? spins + 1 : 0;
		if (spins > 20000) /* something urgent that never goes away would take a processor for ever */
			_exit(95);
		while (trees_can_take(t) && (r = peer_recv_fds(sock, &kind, in, sizeof(in), &n, fd, &err)) > 0)
			trees_take(t, kind, in, n, fd, trees_boot_ns());
		open = r > 0 || (r < 0 && err.code == PAWL_E_FULL);
		trees_tick(t, trees_boot_ns());
	}
	trees_unpin(t); /* as at an orderly end: what lives stays pinned */
	trees_close(t);
	_exit(0);
}

static void start_watcher(struct world *w)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	w->watcher = fork();
	assert_true(w->watcher >= 0);
	if (w->watcher == 0) {
		(void)close(pair[1]);
		watcher_main(w, pair[0]);
	}
	(void)close(pair[0]);
	w->sock = pair[1];
	w->n_events = w->n_now = 0;
}

static void tell(struct world *w, enum peer_kind kind, const void *p, size_t n)
{
	struct pawl_error err;

	if (peer_send(w->sock, kind, p, n, &err) < 0)
		fail_msg("cannot tell the watcher: %s", err.msg);
}

/* One message; events and states are kept on the way. */
static enum peer_kind hear(struct world *w, size_t *ret_n)
{
	struct pollfd p = { .fd = w->sock, .events = POLLIN };
	struct pawl_error err;
	enum peer_kind kind;
	int r;

	if (poll(&p, 1, PATIENCE_MS) <= 0)
		fail_msg("the watcher says nothing");
	r = peer_recv(w->sock, &kind, w->buf, sizeof(w->buf), ret_n, &err);
	if (r <= 0) {
		int status = 0;

		(void)waitpid(w->watcher, &status, 0);
		fail_msg("the watcher is gone: status %x", (unsigned)status);
	}
	if (kind == PEER_EVENTS) {
		assert_int_equal(*ret_n % sizeof(struct watch_event), 0);
		for (size_t i = 0; i < *ret_n / sizeof(struct watch_event) && w->n_events < PAWL_LEN(w->event); i++)
			memcpy(&w->event[w->n_events++], w->buf + i * sizeof(struct watch_event), sizeof(struct watch_event));
	} else if (kind == PEER_NOW) {
		assert_int_equal(*ret_n % sizeof(struct watch_now), 0);
		w->n_now = *ret_n / sizeof(struct watch_now);
		assert_true(w->n_now <= PAWL_LEN(w->now));
		memcpy(w->now, w->buf, *ret_n);
	}
	return kind;
}

static size_t wait_for(struct world *w, enum peer_kind want)
{
	size_t n;

	while (hear(w, &n) != want)
		;
	return n;
}

/* The only tree has so many; told once a second. */
static inline void wait_for_processes(struct world *w, uint64_t n)
{
	for (int i = 0; i < PATIENCE_MS / 1000; i++) {
		(void)wait_for(w, PEER_NOW);
		if (w->n_now == 1 && w->now[0].processes >= n)
			return;
	}
	fail_msg("by %s: %llu processes are known, not %llu", way_names[w->way], (unsigned long long)(w->n_now ? w->now[0].processes : 0),
		 (unsigned long long)n);
}

static bool has_event(const struct world *w, uint32_t kind, uint32_t why)
{
	for (size_t i = 0; i < w->n_events; i++)
		if (w->event[i].kind == kind && w->event[i].why == why)
			return true;
	return false;
}

static inline void wait_for_event(struct world *w, uint32_t kind, uint32_t why)
{
	size_t n;

	while (!has_event(w, kind, why))
		(void)hear(w, &n);
}

static struct watch_ended wait_for_end(struct world *w, uint64_t session)
{
	struct watch_ended e;

	do {
		assert_int_equal(wait_for(w, PEER_ENDED), sizeof(e));
		memcpy(&e, w->buf, sizeof(e));
	} while (e.last.session != session);
	return e;
}

static void forget(struct world *w, uint64_t session)
{
	tell(w, PEER_FORGET, &session, sizeof(session));
}

static void say_ready(struct world *w)
{
	tell(w, PEER_READY, NULL, 0);
	(void)wait_for(w, PEER_ALL);
}

/* A connection whose other end the kernel says is this process, as who it is now. */
static int asker_here(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	(void)close(pair[1]);
	return pair[0];
}

/* false: this machine has not what this way needs. */
static bool open_world(struct world *w, enum way way, uid_t uid)
{
	*w = (struct world){ .way = way, .uid = uid };
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/pawl-trees-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	if (uid)
		assert_int_equal(chown(w->dir, uid, uid), 0);
	(void)snprintf(w->saved, sizeof(w->saved), "%s/trees", w->dir);
	w->probes = mmap(NULL, sizeof(*w->probes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(w->probes != MAP_FAILED);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	w->asker = asker_here();
	start_watcher(w);
	say_ready(w);
	if ((way == BY_TAG && w->probes->row[WP_TRACING].state == WATCH_OFF) || (way != BY_DESCENT && w->probes->row[WP_CGROUP].state == WATCH_OFF))
		return false;
	return true;
}

static void close_world(struct world *w)
{
	char cmd[128];
	int status;

	(void)close(w->asker);
	(void)close(w->sock);
	assert_int_equal(waitpid(w->watcher, &status, 0), w->watcher);
	assert_int_equal(status, 0);
	(void)rmdir(w->saved);
	if (rmdir(w->dir) < 0) {
		(void)snprintf(cmd, sizeof(cmd), "%s is not empty: something was left behind", w->dir);
		fail_msg("%s", cmd);
	}
	(void)munmap(w->probes, sizeof(*w->probes));
}

/* The watcher dies as by kill -9, and another one comes. */
static inline void replace_watcher(struct world *w)
{
	int status;

	(void)kill(w->watcher, SIGKILL);
	assert_int_equal(waitpid(w->watcher, &status, 0), w->watcher);
	(void)close(w->sock);
	start_watcher(w);
}

/* ---- children: they wait until they are told to go on ---- */

struct child {
	pid_t pid;
	int pidfd, go;
	int life; /* all that descends from it holds the other end: end of file when the last one is dead */
};
typedef void body(void *arg);

static struct child child_new(const struct world *w, body *run, void *arg)
{
	struct child c;
	int go[2], life[2];

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(life), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		char byte;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody */
		(void)close(go[1]);
		(void)close(life[0]);
		(void)close(w->sock);
		if (w->uid && (setgid(w->uid) < 0 || setuid(w->uid) < 0))
			_exit(93);
		if (write(life[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(94);
		(void)close(go[0]);
		run(arg);
		_exit(0);
	}
	(void)close(go[0]);
	(void)close(life[1]);
	{
		char ready; /* it is who it will be */

		assert_int_equal(read(life[0], &ready, 1), 1);
	}
	c.go = go[1];
	c.life = life[0];
	(void)fcntl(c.go, F_SETFD, FD_CLOEXEC);
	(void)fcntl(c.life, F_SETFD, FD_CLOEXEC);
	c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	assert_true(c.pidfd >= 0);
	return c;
}

static void let_go(const struct child *c)
{
	assert_int_equal(write(c->go, "g", 1), 1);
}

/* Everybody that inherited the pipe has ended. */
static void expect_all_dead(const struct child *c)
{
	struct pollfd p = { .fd = c->life, .events = POLLIN };
	char byte[64];

	while (poll(&p, 1, PATIENCE_MS) > 0)
		if (read(c->life, byte, sizeof(byte)) <= 0)
			return;
	fail_msg("somebody of the tree of %d lives", (int)c->pid);
}

static void child_done(struct child *c)
{
	(void)close(c->go);
	(void)close(c->life);
	(void)close(c->pidfd);
	while (waitpid(-1, NULL, WNOHANG) > 0) /* orphans too: this process is their subreaper */
		;
}

/* ---- requests ---- */

static struct watch_attach attach_of(uint64_t session)
{
	return (struct watch_attach){ .request = session * 10, .session = session, .flags = ATTACH_RUN | ATTACH_EVENTS };
}

static struct watch_attached ask_parts(struct world *w, const struct watch_attach *a, size_t head, const char *paths, size_t bytes, int fd)
{
	const struct peer_part part[2] = { { a, head }, { paths, bytes } };
	struct watch_attached got;
	struct pawl_error err;

	if (peer_send_parts(w->sock, PEER_ATTACH, part, (const int[]){ fd, w->asker }, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(wait_for(w, PEER_ATTACHED), sizeof(got));
	memcpy(&got, w->buf, sizeof(got));
	assert_int_equal(got.request, a->request);
	return got;
}

static struct watch_attached ask(struct world *w, struct watch_attach a, int fd)
{
	return ask_parts(w, &a, sizeof(a), NULL, 0, fd);
}

static void attach_ok(struct world *w, struct watch_attach a, const struct child *c)
{
	struct watch_attached got = ask(w, a, c->pidfd);

	if (got.result != 0)
		fail_msg("by %s: not attached: %s", way_names[w->way], got.message);
	assert_int_equal(got.pid, c->pid);
}

static void order_kill(struct world *w, uint64_t session, enum watch_why why)
{
	const struct watch_kill k = { .session = session, .why = why };

	tell(w, PEER_KILL, &k, sizeof(k));
}

#endif
