/* tests/unit/test_trees.c - trees of processes as the rest asks for them: who may be watched, ends, a rest that does not listen; limits and restarts
 * are in test_trees_limits.c and test_trees_restart.c. Each by the kernel's tags, by cgroups alone and by descent alone, where the way can hold it. */
#include "tests/support/trees_bodies.h"

#include <sched.h>
#include <sys/resource.h>

/* ---- who may be watched ---- */

static void attach_and_end(struct world *w)
{
	struct child c = child_new(w, eat_and_leave, NULL);
	struct watch_attached got = ask(w, attach_of(5), c.pidfd);
	struct watch_ended e;

	if (got.result)
		fail_msg("by %s: %s", way_names[w->way], got.message);
	assert_int_equal(got.session, 5);
	assert_int_equal(got.pid, c.pid);
	assert_int_equal(got.uid, 0);
	assert_true(got.start_boot_ns > 0 && got.start_boot_ns <= trees_boot_ns());
	assert_int_equal((got.held & HOLD_FORK_RATE) != 0, w->way == BY_TAG);
	assert_int_equal((got.held & HOLD_EXEC) != 0, w->way == BY_TAG);
	assert_int_equal((got.held & HOLD_CPU) != 0, w->way != BY_DESCENT);
	assert_int_equal((got.held & HOLD_WRITES) != 0, w->probes->row[WP_LANDLOCK].state == WATCH_ON);
	assert_true(got.held & HOLD_WALL);
	(void)wait_for(w, PEER_NOW);
	assert_int_equal(w->n_now, 1);
	assert_int_equal(w->now[0].session, 5);
	say_ready(w); /* a new rest hears of it at once */
	assert_int_equal(w->n_now, 1);
	let_go(&c);
	e = wait_for_end(w, 5);
	assert_int_equal(e.last.killed, WHY_ENDED);
	assert_int_equal(e.n_killed, 0);
	if (w->probes->row[WP_MEMORY].state == WATCH_ON) /* however short it lived */
		assert_true(e.last.memory_peak >= 8 * MIB);
	(void)usleep(300000); /* the launcher holds the pidfd still: does the watcher spin? */
	tell(w, PEER_READY, NULL, 0);
	assert_int_equal(wait_for_end(w, 5).last.session, 5); /* and of its end again, until it is noted */
	(void)wait_for(w, PEER_ALL);
	forget(w, 5);
	w->n_now = 0;
	tell(w, PEER_READY, NULL, 0);
	for (size_t n;;) {
		enum peer_kind kind = hear(w, &n);

		if (kind == PEER_ALL)
			break;
		assert_int_not_equal(kind, PEER_ENDED);
	}
	assert_int_equal(w->n_now, 0);
	child_done(&c);
}

static void test_attach(void **state)
{
	(void)state;
	each_way(BY_DESCENT, attach_and_end);
}

/* A connection whose other end is somebody else. */
static int asker_there(pid_t *ret)
{
	int pair[2], fd, one = 1;
	struct iovec iov = { &one, 1 };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} c = { .bytes = { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.bytes, .msg_controllen = sizeof(c.bytes) };

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	*ret = fork();
	assert_true(*ret >= 0);
	if (*ret == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = asker_here();
		c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&c.head), &fd, sizeof(fd));
		(void)sendmsg(pair[1], &msg, 0);
		pause();
		_exit(0);
	}
	assert_int_equal(recvmsg(pair[0], &msg, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(&c.head), sizeof(fd));
	(void)close(pair[0]);
	(void)close(pair[1]);
	return fd;
}

static struct watch_attached ask_as(struct world *w, struct watch_attach a, const struct child *c, int asker)
{
	int own = w->asker;
	struct watch_attached got;

	w->asker = asker;
	got = ask(w, a, c->pidfd);
	w->asker = own;
	return got;
}

/* Who asks is asked of the kernel: no word in a message says it. */
static void refuse_askers(struct world *w, const struct child *c)
{
	struct watch_attach a = attach_of(7);
	int stream[2], null = open("/dev/null", O_RDONLY), nobody, other;
	struct watch_attached got;
	pid_t pid;

	a.flags = 0;
	assert_int_equal(seteuid(NOBODY), 0);
	nobody = asker_here();
	assert_int_equal(seteuid(0), 0);
	got = ask_as(w, a, c, nobody);
	assert_int_equal(got.result, EPERM); /* root's process, and nobody asks for it */
	assert_non_null(strstr(got.message, "is of uid 0, and uid 65534 asked"));
	other = asker_there(&pid);
	got = ask_as(w, a, c, other);
	assert_int_equal(got.result, EPERM);
	assert_non_null(strstr(got.message, "does not descend from")); /* a sibling */
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	got = ask_as(w, a, c, other); /* its number may be anybody's now */
	assert_true(got.result == EINVAL || got.result == ESRCH);
	assert_int_equal(ask_as(w, a, c, null).result, EINVAL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
	assert_int_equal(ask_as(w, a, c, stream[0]).result, EINVAL); /* no connection of the watch door is one */
	assert_int_equal(ask_as(w, a, c, -1).result, EINVAL);
	(void)close(stream[0]);
	(void)close(stream[1]);
	(void)close(null);
	(void)close(nobody);
	(void)close(other);
}

static void refuse_strangers(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL), other = child_new(w, sleep_on, NULL), dead = child_new(w, leave_at_once, NULL);
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), watcher = (int)syscall(SYS_pidfd_open, w->watcher, 0), no_pidfd = open("/dev/null", O_RDONLY);
	struct watch_attach a = attach_of(7), b;
	struct watch_attached got;

	refuse_askers(w, &c);
	a.flags = 0; /* this process is not a launcher: it has other children */
	got = ask(w, a, c.pidfd);
	assert_int_equal(got.result, 0);
	assert_false(got.held & HOLD_WRITES); /* nobody confined it */
	let_go(&c);
	order_kill(w, 7, WHY_ABORT);
	(void)wait_for_end(w, 7);
	forget(w, 7);
	assert_int_equal(ask(w, a, self).result, EPERM);    /* above the watcher */
	assert_int_equal(ask(w, a, watcher).result, EPERM);
	assert_int_equal(ask(w, a, -1).result, EINVAL);
	assert_int_equal(ask(w, a, no_pidfd).result, EINVAL);
	let_go(&dead);
	assert_int_equal(waitpid(dead.pid, NULL, 0), dead.pid);
	assert_int_equal(ask(w, a, dead.pidfd).result, EINVAL);
	attach_ok(w, a, &other);
	assert_int_equal(ask(w, a, other.pidfd).result, EEXIST); /* the session has one */
	b = a, b.session = 8;
	assert_int_equal(ask(w, b, other.pidfd).result, EBUSY); /* the process has one */
	order_kill(w, 7, WHY_ABORT);
	(void)wait_for_end(w, 7);
	forget(w, 7);
	(void)close(self);
	(void)close(watcher);
	(void)close(no_pidfd);
	child_done(&c);
	child_done(&other);
	child_done(&dead);
}

/* What a user may not kill he has not killed by asking for what it descends from: as su does it, a child of root's. */
static void keep_roots_child(void *arg)
{
	char byte = 'r';

	if (fork() == 0)
		sleep_on(NULL);
	if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0 || write(*(int *)arg, &byte, 1) != 1)
		_exit(97);
	sleep_on(NULL);
}

static void refuse_others_child(struct world *w)
{
	struct watch_attach a = attach_of(18);
	struct watch_attached got;
	int told[2], nobody;
	struct child c;
	char byte;

	assert_int_equal(pipe(told), 0);
	c = child_new(w, keep_roots_child, &told[1]);
	let_go(&c);
	assert_int_equal(read(told[0], &byte, 1), 1);
	assert_int_equal(seteuid(NOBODY), 0);
	nobody = asker_here();
	assert_int_equal(seteuid(0), 0);
	a.flags = 0;
	got = ask_as(w, a, &c, nobody);
	assert_int_equal(got.result, EPERM);
	assert_non_null(strstr(got.message, "which descends from it, is of uid 0"));
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0); /* and nothing was done to it */
	attach_ok(w, a, &c);				     /* root may */
	wait_for_processes(w, 2);
	order_kill(w, 18, WHY_ABORT);
	assert_int_equal(wait_for_end(w, 18).n_killed, 2);
	expect_all_dead(&c);
	forget(w, 18);
	(void)close(nobody);
	(void)close(told[0]);
	(void)close(told[1]);
	child_done(&c);
}

static void test_others_child(void **state)
{
	(void)state;
	each_way(BY_DESCENT, refuse_others_child);
}

static void test_strangers(void **state)
{
	(void)state;
	each_way(BY_DESCENT, refuse_strangers);
}

/* What is not held is named, and nothing is attached. */
static void refuse_needs(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL);
	struct watch_attach a = attach_of(3);
	struct watch_attached got;

	a.need = HOLD_WALL | HOLD_FORK_RATE | HOLD_EXEC;
	got = ask(w, a, c.pidfd);
	if (w->way == BY_TAG) {
		assert_int_equal(got.result, 0);
		order_kill(w, 3, WHY_ABORT);
		(void)wait_for_end(w, 3);
		forget(w, 3);
	} else {
		assert_int_equal(got.result, EOPNOTSUPP);
		assert_string_equal(got.message, "cannot hold deny_exec, fork_rate");
		say_ready(w);
		assert_int_equal(w->n_now, 0);
		(void)kill(c.pid, SIGKILL);
	}
	expect_all_dead(&c);
	child_done(&c);
}

static void test_needs(void **state)
{
	(void)state;
	each_way(BY_DESCENT, refuse_needs);
}

/* ---- messages that are not what they say ---- */

static void malformed_attach(struct world *w, struct child *c)
{
	static const struct {
		const char *what, *paths;
		size_t bytes;
		uint32_t n_deny, deny_bytes, flags, need;
		uint64_t session;
	} cases[] = {
		{ "session 0", "", 0, 0, 0, 0, 0, 0 },
		{ "unknown flag", "", 0, 0, 0, 1u << 9, 0, 3 },
		{ "unknown need", "", 0, 0, 0, 0, 1u << 20, 3 },
		{ "bytes that are not told", "/a", 3, 1, 0, 0, 0, 3 },
		{ "bytes that do not come", "/a", 3, 1, 4, 0, 0, 3 },
		{ "no NUL at the end", "/ab", 3, 1, 3, 0, 0, 3 },
		{ "one path more than told", "/a\0/b", 6, 1, 6, 0, 0, 3 },
		{ "one path less than told", "/a\0/b", 6, 3, 6, 0, 0, 3 },
		{ "not absolute", "a", 2, 1, 2, 0, 0, 3 },
		{ "an empty path", "/a\0\0", 4, 2, 4, 0, 0, 3 },
		{ "more paths than a policy has", "/a", 3, PAWL_MAX_DENY_EXEC + 1, 3, 0, 0, 3 },
		{ "a count that wraps", "/a", 3, UINT32_MAX, 3, 0, 0, 3 },
	};

	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct watch_attach a = attach_of(cases[i].session);
		struct watch_attached got;

		a.n_deny = cases[i].n_deny;
		a.deny_bytes = cases[i].deny_bytes;
		a.flags = cases[i].flags;
		a.need = cases[i].need;
		got = ask_parts(w, &a, sizeof(a), cases[i].paths, cases[i].bytes, c->pidfd);
		if (got.result != EINVAL)
			fail_msg("%s: %d %s", cases[i].what, got.result, got.message);
	}
}

static void survive_nonsense(struct world *w)
{
	static const enum peer_kind kinds[] = { PEER_READY, PEER_ATTACH, PEER_RENEW, PEER_KILL, PEER_FORGET, PEER_ATTACHED, PEER_EVENTS, PEER_NOW, PEER_ENDED, PEER_ALL };
	struct child c = child_new(w, sleep_on, NULL);
	const struct watch_kill kills[] = { { 4, WHY_NONE, 0 }, { 4, WHY_COUNT, 0 }, { 4, WHY_ABORT, 1 }, { 99, WHY_ABORT, 0 } };
	struct watch_renew renew = { .session = 4, .flags = 1u << 8 };
	unsigned char bytes[600];
	uint64_t lives = 4;

	malformed_attach(w, &c);
	attach_ok(w, attach_of(4), &c);
	memset(bytes, 0xa5, sizeof(bytes));
	for (size_t i = 0; i < PAWL_LEN(kinds); i++) {
		static const size_t sizes[] = { 1, 7, 9, 23, 31, 87, 600 };

		for (size_t k = 0; k < PAWL_LEN(sizes); k++)
			if (kinds[i] != PEER_ATTACH || sizes[k] < sizeof(struct watch_attach)) /* those with a number are answered */
				tell(w, kinds[i], bytes, sizes[k]);
	}
	for (size_t i = 0; i < PAWL_LEN(kills); i++)
		tell(w, PEER_KILL, &kills[i], sizeof(kills[i]));
	tell(w, PEER_RENEW, &renew, sizeof(renew));
	tell(w, PEER_FORGET, &lives, sizeof(lives)); /* what lives is not forgotten */
	say_ready(w);
	assert_int_equal(w->n_now, 1);
	assert_int_equal(w->now[0].session, 4);
	assert_int_equal(w->now[0].killed, WHY_NONE);
	order_kill(w, 4, WHY_ABORT);
	(void)wait_for_end(w, 4);
	forget(w, 4);
	child_done(&c);
}

static void test_nonsense(void **state)
{
	(void)state;
	each_way(BY_DESCENT, survive_nonsense);
}

/* ---- ends ---- */

/* E12: the wrapper and what it wrapped, each by name. */
static void kill_wrapper(struct world *w)
{
	struct child c = child_new(w, wrapper, NULL);
	bool sh = false, sleeper = false;
	struct watch_ended e;

	attach_ok(w, attach_of(12), &c);
	let_go(&c);
	wait_for_processes(w, 2);
	order_kill(w, 12, WHY_ABORT);
	e = wait_for_end(w, 12);
	expect_all_dead(&c);
	assert_int_equal(e.last.killed, WHY_ABORT);
	assert_int_equal(e.n_killed, 2);
	assert_int_equal(e.n_dead, 2);
	for (uint32_t i = 0; i < e.n_dead; i++) {
		sh |= strcmp(e.dead[i].comm, "sh") == 0 && e.dead[i].pid == (uint32_t)c.pid;
		sleeper |= strcmp(e.dead[i].comm, "sleep") == 0;
	}
	assert_true(sh && sleeper);
	forget(w, 12);
	child_done(&c);
}

static void test_wrapper(void **state)
{
	(void)state;
	each_way(BY_DESCENT, kill_wrapper);
}

static void kill_the_leaderless(struct world *w)
{
	struct child c = child_new(w, first_thread_ends, NULL);
	struct watch_ended e;

	attach_ok(w, attach_of(13), &c);
	let_go(&c);
	(void)usleep(100000);
	wait_for_processes(w, 1); /* not over */
	order_kill(w, 13, WHY_ABORT);
	e = wait_for_end(w, 13);
	expect_all_dead(&c);
	assert_int_equal(e.last.killed, WHY_ABORT);
	assert_int_equal(e.n_killed, 1);
	forget(w, 13);
	child_done(&c);
}

static void test_leaderless(void **state)
{
	(void)state;
	each_way(BY_DESCENT, kill_the_leaderless);
}

/* E10: its own session, no parent, no descriptor: still ended with the tree. */
static void kill_daemonized(struct world *w)
{
	int told[2];
	struct child c;
	struct pollfd p = { .events = POLLIN };
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	c = child_new(w, daemonize, &told[1]);
	attach_ok(w, attach_of(10), &c);
	let_go(&c);
	assert_int_equal(read(told[0], &pid, sizeof(pid)), sizeof(pid));
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	assert_true(p.fd >= 0);
	order_kill(w, 10, WHY_ABORT);
	assert_true(wait_for_end(w, 10).n_killed >= 2);
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	expect_all_dead(&c);
	forget(w, 10);
	(void)close(p.fd);
	(void)close(told[0]);
	(void)close(told[1]);
	child_done(&c);
}

static void test_daemonized(void **state)
{
	(void)state;
	each_way(BY_DESCENT, kill_daemonized);
}

/* What the first process leaves behind is ended with it. */
static void end_leftovers(struct world *w)
{
	struct child c = child_new(w, leave_a_child, NULL);
	struct watch_ended e;

	attach_ok(w, attach_of(2), &c);
	let_go(&c);
	e = wait_for_end(w, 2);
	expect_all_dead(&c);
	assert_int_equal(e.last.killed, WHY_ENDED);
	assert_int_equal(e.n_killed, 1);
	forget(w, 2);
	child_done(&c);
}

static void test_leftovers(void **state)
{
	(void)state;
	each_way(BY_DESCENT, end_leftovers);
}

/* ---- E13: a number that is somebody else's by now ---- */

struct clone3_args { /* as the kernel has it */
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static pid_t fork_as(pid_t wanted)
{
	pid_t tid = wanted;
	struct clone3_args a = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&tid, .set_tid_size = 1 };

	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

static void fork_and_tell(void *arg)
{
	int told = *(int *)arg;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	(void)usleep(200000); /* seen by the watcher, as far as it looks at all */
	(void)waitpid(pid, NULL, 0);
	if (write(told, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	sleep_on(NULL);
}

static void spare_innocent(struct world *w)
{
	int told[2], status;
	struct child c;
	pid_t pid, innocent;

	assert_int_equal(pipe(told), 0);
	c = child_new(w, fork_and_tell, &told[1]);
	attach_ok(w, attach_of(13), &c);
	let_go(&c);
	assert_int_equal(read(told[0], &pid, sizeof(pid)), sizeof(pid));
	innocent = fork_as(pid);
	if (innocent == 0) {
		sleep_on(NULL);
		_exit(0);
	}
	assert_int_equal(innocent, pid); /* the same number, another process */
	order_kill(w, 13, WHY_ABORT);
	(void)wait_for_end(w, 13);
	expect_all_dead(&c);
	assert_int_equal(waitpid(innocent, &status, WNOHANG), 0);
	(void)kill(innocent, SIGKILL);
	assert_int_equal(waitpid(innocent, &status, 0), innocent);
	forget(w, 13);
	(void)close(told[0]);
	(void)close(told[1]);
	child_done(&c);
}

/* The number of a first process that ended, while its tree lives on: who has it now is nobody's yet. */
static void attach_its_number(struct world *w)
{
	struct child c = child_new(w, leave_a_child, NULL), other = c;
	struct watch_attach a = attach_of(19);

	a.flags = 0; /* it does not end with its first process */
	attach_ok(w, a, &c);
	let_go(&c);
	assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
	(void)usleep(50000); /* /proc tells a start time in steps of 10 ms */
	other.pid = fork_as(c.pid);
	if (other.pid == 0) {
		sleep_on(NULL);
		_exit(0);
	}
	assert_int_equal(other.pid, c.pid);
	other.pidfd = (int)syscall(SYS_pidfd_open, other.pid, 0);
	a.session = 20;
	attach_ok(w, a, &other);
	order_kill(w, 19, WHY_ABORT);
	assert_int_equal(wait_for_end(w, 19).n_killed, 1);
	order_kill(w, 20, WHY_ABORT);
	assert_int_equal(wait_for_end(w, 20).n_killed, 1);
	forget(w, 19);
	forget(w, 20);
	(void)close(other.pidfd);
	child_done(&c);
}

static void test_its_number(void **state)
{
	(void)state;
	each_way(BY_CGROUP, attach_its_number);
}

static void test_innocent(void **state)
{
	(void)state;
	/* by descent this process is the launcher, and all that it starts would be the tree's */
	each_way(BY_CGROUP, spare_innocent);
}

/* ---- E04: it starts others while it is attached ---- */

static void spawn_on(void *arg)
{
	(void)arg;
	for (int i = 0; i < 400; i++) {
		if (fork() == 0)
			sleep_on(NULL);
		(void)usleep(500);
	}
	sleep_on(NULL);
}

static void attach_while_it_forks(struct world *w)
{
	struct child c = child_new(w, spawn_on, NULL);
	struct watch_attach a = attach_of(15);

	a.flags = ATTACH_EVENTS; /* one that runs already */
	let_go(&c);
	(void)usleep(50000); /* some are there before, others come meanwhile: how many does not matter */
	attach_ok(w, a, &c);
	wait_for_processes(w, 401); /* all of them are known */
	order_kill(w, 15, WHY_ABORT);
	assert_int_equal(wait_for_end(w, 15).n_killed, 401);
	expect_all_dead(&c);
	forget(w, 15);
	child_done(&c);
}

static void test_start_race(void **state)
{
	(void)state;
	each_way(BY_DESCENT, attach_while_it_forks);
}

/* ---- a rest that does not listen ---- */

#define STARTS 12000 /* more than socket and queue hold together */

static void start_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < STARTS; i++)
		(void)run_program("/bin/true");
}

/* Events wait, bounded; what found no room is counted, and nothing else is lost: received + lost = started. */
static void lag(struct world *w)
{
	struct child c = child_new(w, start_many, NULL);
	struct watch_ended e;
	size_t got = 0, n;
	enum peer_kind kind;

	attach_ok(w, attach_of(60), &c);
	let_go(&c);
	assert_int_equal(waitpid(c.pid, NULL, 0), c.pid); /* not a word is read meanwhile */
	do {
		kind = hear(w, &n);
		for (size_t i = 0; kind == PEER_EVENTS && i < n / sizeof(struct watch_event); i++) {
			struct watch_event ev;

			memcpy(&ev, w->buf + i * sizeof(ev), sizeof(ev));
			got += ev.kind == WATCH_EXEC;
		}
	} while (kind != PEER_ENDED);
	memcpy(&e, w->buf, sizeof(e));
	assert_int_equal(e.last.execs, STARTS);
	assert_true(e.last.lost > 0);
	assert_int_equal(got + e.last.lost, STARTS);
	expect_all_dead(&c);
	forget(w, 60);
	child_done(&c);
	print_message("%d programs started, %zu told of, %llu counted as lost\n", STARTS, got, (unsigned long long)e.last.lost);
}

static void test_lag(void **state)
{
	(void)state;
	each_way(BY_TAG, lag);
}

/* ---- a plain user, without a capability ---- */

static void test_plain_user(void **state)
{
	static struct world w;
	struct watch_attach a;
	struct watch_ended e;
	struct child c, orphan;
	int told[2];
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip_aloud("root, to become somebody else");
	assert_true(open_world(&w, BY_DESCENT, NOBODY));
	c = child_new(&w, sleep_on, NULL);
	a = attach_of(50);
	a.need = HOLD_PROCESSES | HOLD_MEMORY;
	assert_int_equal(ask(&w, a, c.pidfd).result, EOPNOTSUPP);
	a.need = HOLD_WALL;
	a.limits.wall_ns = 200000000;
	attach_ok(&w, a, &c);
	let_go(&c);
	e = wait_for_end(&w, 50);
	assert_int_equal(e.last.killed, WHY_WALL);
	assert_int_equal(e.n_killed, 1);
	expect_all_dead(&c);
	forget(&w, 50);
	assert_int_equal(pipe(told), 0);
	orphan = child_new(&w, daemonize, &told[1]);
	attach_ok(&w, attach_of(51), &orphan);
	let_go(&orphan);
	assert_int_equal(read(told[0], &pid, sizeof(pid)), sizeof(pid));
	order_kill(&w, 51, WHY_ABORT);
	assert_true(wait_for_end(&w, 51).n_killed >= 2);
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* ours to wait for: this process is its subreaper */
	forget(&w, 51);
	say_ready(&w);
	(void)close(told[0]);
	(void)close(told[1]);
	child_done(&c);
	child_done(&orphan);
	close_world(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_others_child),
		cmocka_unit_test(test_needs),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_wrapper),
		cmocka_unit_test(test_leaderless),
		cmocka_unit_test(test_daemonized),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_innocent),
		cmocka_unit_test(test_its_number),
		cmocka_unit_test(test_start_race),
		cmocka_unit_test(test_lag),
		cmocka_unit_test(test_plain_user),
	};

	if (argc > 1) /* one of them, by hand */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
