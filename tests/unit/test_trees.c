/* tests/unit/test_trees.c - trees of processes as the rest asks for them: who may be watched, limits, ends, restarts. Each by the kernel's tags,
 * by cgroups alone and by descent alone, where the way can hold what is asked. */
#include "tests/support/trees_world.h"

#include <sched.h>
#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)
#define NOBODY 65534

static void sleep_on(void *arg)
{
	(void)arg;
	for (;;)
		(void)pause();
}

static void leave_at_once(void *arg)
{
	(void)arg;
}

static void burn(void *arg)
{
	(void)arg;
	for (;;)
		__asm__ volatile("");
}

/* A shell that does not replace itself: what it started is the agent. */
static void wrapper(void *arg)
{
	(void)arg;
	(void)execl("/bin/sh", "sh", "-c", "sleep 100000; :", (char *)NULL);
}

static void daemonize(void *arg)
{
	int told = *(int *)arg;
	pid_t pid = fork();

	if (pid == 0) {
		(void)setsid();
		pid = fork();
		if (pid != 0)
			_exit(0);
		pid = getpid();
		if (write(told, &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		for (int fd = 0; fd < 256; fd++)
			(void)close(fd);
		sleep_on(NULL);
	}
	(void)waitpid(pid, NULL, 0);
	sleep_on(NULL);
}

static void leave_a_child(void *arg)
{
	(void)arg;
	if (fork() == 0)
		sleep_on(NULL);
}

static void eat(void *arg)
{
	size_t n = *(size_t *)arg;
	unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
	sleep_on(NULL);
}

/* Lives too short for any look. */
static void eat_and_leave(void *arg)
{
	const size_t n = 8 * MIB;
	unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
}

/* Each way, or a skip when none of the wanted can be had. */
static void each_way(enum way last, void (*run)(struct world *w))
{
	static struct world w;
	int ran = 0;

	for (enum way way = BY_TAG; way <= last; way++) {
		if (!open_world(&w, way, 0)) {
			print_message("not here: by %s\n", way_names[way]);
			close_world(&w);
			skip_aloud("root, BPF and cgroups");
			continue;
		}
		run(&w);
		close_world(&w);
		ran++;
	}
	if (ran == 0)
		skip_aloud("root, BPF and cgroups");
}

/* ---- who may be watched ---- */

static void attach_and_end(struct world *w)
{
	struct child c = child_new(w, eat_and_leave, NULL);
	struct watch_attached got = ask(w, attach_of(w, 5), c.pidfd);
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

static void refuse_strangers(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL), other = child_new(w, sleep_on, NULL), dead = child_new(w, leave_at_once, NULL);
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), watcher = (int)syscall(SYS_pidfd_open, w->watcher, 0), no_pidfd = open("/dev/null", O_RDONLY);
	struct watch_attach a = attach_of(w, 7), b;

	a.flags = 0; /* this process is not a launcher: it has other children */
	b = a, b.peer_uid = NOBODY;
	assert_int_equal(ask(w, b, c.pidfd).result, EPERM); /* root's process, and nobody asks for it */
	b = a, b.peer_pid = (uint32_t)other.pid;
	assert_int_equal(ask(w, b, c.pidfd).result, EPERM); /* not its ancestor */
	b = a, b.peer_pid = 1;
	assert_int_equal(ask(w, b, c.pidfd).result, 0 /* the ancestor of all, uid 0 */);
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
	if (w->way == BY_TAG) {
		b = a, b.session = 8;
		assert_int_equal(ask(w, b, other.pidfd).result, EBUSY); /* the process has one */
	}
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

static void test_strangers(void **state)
{
	(void)state;
	each_way(BY_DESCENT, refuse_strangers);
}

/* What is not held is named, and nothing is attached. */
static void refuse_needs(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL);
	struct watch_attach a = attach_of(w, 3);
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
		struct watch_attach a = attach_of(w, cases[i].session);
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
	attach_ok(w, attach_of(w, 4), &c);
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

	attach_ok(w, attach_of(w, 12), &c);
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

/* E10: its own session, no parent, no descriptor: still ended with the tree. */
static void kill_daemonized(struct world *w)
{
	int told[2];
	struct child c;
	struct pollfd p = { .events = POLLIN };
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	c = child_new(w, daemonize, &told[1]);
	attach_ok(w, attach_of(w, 10), &c);
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

	attach_ok(w, attach_of(w, 2), &c);
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
	attach_ok(w, attach_of(w, 13), &c);
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

static void test_innocent(void **state)
{
	(void)state;
	/* by descent this process is the launcher, and all that it starts would be the tree's */
	each_way(BY_CGROUP, spare_innocent);
}

/* ---- limits ---- */

static struct watch_ended run_into(struct world *w, struct watch_limits limits, body *run, void *arg)
{
	struct child c = child_new(w, run, arg);
	struct watch_attach a = attach_of(w, 6);
	struct watch_ended e;

	a.limits = limits;
	attach_ok(w, a, &c);
	let_go(&c);
	e = wait_for_end(w, 6);
	expect_all_dead(&c);
	forget(w, 6);
	child_done(&c);
	return e;
}

static void limit_wall(struct world *w)
{
	struct watch_ended e = run_into(w, (struct watch_limits){ .wall_ns = 300000000 }, sleep_on, NULL);

	assert_int_equal(e.last.killed, WHY_WALL);
	assert_int_equal(e.limit, 300000000);
	assert_true(e.measured >= e.limit);
	assert_true(has_event(w, WATCH_BREACH, WHY_WALL));
	print_message("wall by %s: limit 300 ms, ended at %llu ms\n", way_names[w->way], (unsigned long long)(e.measured / 1000000));
}

static void limit_cpu(struct world *w)
{
	struct watch_ended e = run_into(w, (struct watch_limits){ .cpu_ns = 300000000 }, burn, NULL);

	assert_int_equal(e.last.killed, WHY_CPU);
	assert_true(e.measured >= e.limit);
	assert_true(has_event(w, WATCH_BREACH, WHY_CPU));
	print_message("cpu by %s: limit 300 ms, ended at %llu ms\n", way_names[w->way], (unsigned long long)(e.measured / 1000000));
}

static void limit_memory(struct world *w)
{
	size_t n = 512 * MIB;
	struct watch_ended e;

	if (w->probes->row[WP_MEMORY].state == WATCH_OFF) {
		skip_aloud("a memory controller");
		return;
	}
	e = run_into(w, (struct watch_limits){ .memory = 64 * MIB }, eat, &n);
	assert_int_equal(e.last.killed, WHY_MEMORY);
	assert_int_equal(e.limit, 64 * MIB);
	assert_true(e.last.memory_peak <= 64 * MIB); /* the kernel's cap, not ours to overrun */
	assert_true(has_event(w, WATCH_BREACH, WHY_MEMORY));
	print_message("memory by %s: limit 64 MiB, peak %llu KiB\n", way_names[w->way], (unsigned long long)(e.last.memory_peak >> 10));
}

static void test_wall(void **state)
{
	(void)state;
	each_way(BY_DESCENT, limit_wall);
}

static void test_cpu(void **state)
{
	(void)state;
	each_way(BY_DESCENT, limit_cpu);
}

static void test_memory(void **state)
{
	(void)state;
	each_way(BY_CGROUP, limit_memory);
}

/* A bomb dies in the kernel, at its limit; what the watcher adds is that nobody of it stays. */
static void explode(void *arg)
{
	(void)arg;
	for (;;)
		if (fork() < 0)
			_exit(0);
}

static void limit_processes(struct world *w)
{
	struct watch_ended e = run_into(w, (struct watch_limits){ .processes = 50 }, explode, NULL);

	assert_int_equal(e.last.killed, WHY_PROCESSES);
	assert_int_equal(e.limit, 50);
	assert_int_equal(e.measured, 51);
	assert_true(e.last.peak >= 51 && e.last.peak <= 50 + 64); /* each of them may be in its last fork, and no round more */
	assert_true(has_event(w, WATCH_BREACH, WHY_PROCESSES));
	print_message("processes by %s: limit 50, peak %llu, from attach to the last one's end %llu ms\n", way_names[w->way],
		      (unsigned long long)e.last.peak, (unsigned long long)(e.last.wall_ns / 1000000));
}

static void test_bomb(void **state)
{
	(void)state;
	each_way(BY_TAG, limit_processes);
}

/* Shadow mode: told once, and nobody is killed for it. */
static void only_tell(struct world *w)
{
	struct child c = child_new(w, burn, NULL);
	struct watch_attach a = attach_of(w, 9);
	size_t breaches = 0;

	a.flags |= ATTACH_LOG_ONLY;
	a.limits = (struct watch_limits){ .cpu_ns = 100000000, .wall_ns = 100000000 };
	attach_ok(w, a, &c);
	let_go(&c);
	wait_for_event(w, WATCH_BREACH, WHY_WALL);
	(void)wait_for(w, PEER_NOW);
	(void)wait_for(w, PEER_NOW);
	for (size_t i = 0; i < w->n_events; i++)
		if (w->event[i].kind == WATCH_BREACH && w->event[i].why == WHY_WALL) {
			assert_true(w->event[i].flags & WATCH_F_LOG_ONLY);
			breaches++;
		}
	assert_int_equal(breaches, 1);
	assert_int_equal(w->now[0].killed, WHY_NONE);
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
	order_kill(w, 9, WHY_ABORT); /* a person may end it still */
	assert_int_equal(wait_for_end(w, 9).last.killed, WHY_ABORT);
	expect_all_dead(&c);
	forget(w, 9);
	child_done(&c);
}

/* A file that is read fills the cache, which would be taken back; memory of its own would not. */
static void read_and_eat(void *arg)
{
	static char block[1 << 16];
	char name[] = "/tmp/pawl-cache-XXXXXX";
	int fd = mkstemp(name);

	(void)unlink(name);
	for (int i = 0; fd >= 0 && i < 1024; i++) /* 64 MiB */
		if (write(fd, block, sizeof(block)) != sizeof(block))
			_exit(1);
	(void)sleep(1); /* seen so by the watcher */
	eat(arg);
}

static void only_tell_of_memory(struct world *w)
{
	size_t n = 96 * MIB;
	struct child c = child_new(w, read_and_eat, &n);
	struct watch_attach a = attach_of(w, 16);

	if (w->probes->row[WP_MEMORY].state == WATCH_OFF) {
		skip_aloud("a memory controller");
		return;
	}
	a.flags |= ATTACH_LOG_ONLY;
	a.limits.memory = 32 * MIB;
	attach_ok(w, a, &c);
	let_go(&c);
	wait_for_event(w, WATCH_BREACH, WHY_MEMORY);
	for (size_t i = 0; i < w->n_events; i++)
		if (w->event[i].kind == WATCH_BREACH && w->way == BY_CGROUP) /* the sampler tells of one process alone, by what it has mapped */
			assert_true(w->event[i].measured > 80 * MIB); /* not before it was its own memory that was too much */
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
	(void)kill(c.pid, SIGKILL);
	assert_int_equal(wait_for_end(w, 16).last.killed, WHY_ENDED);
	forget(w, 16);
	child_done(&c);
}

static void test_shadow_memory(void **state)
{
	(void)state;
	each_way(BY_CGROUP, only_tell_of_memory);
}

static void test_shadow(void **state)
{
	(void)state;
	each_way(BY_DESCENT, only_tell);
}

/* New limits reach a tree that lives, and its counters go on. */
static void renew_limits(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL);
	struct watch_renew r = { .session = 14, .limits = { .wall_ns = 1 }, .flags = ATTACH_EVENTS };
	struct watch_ended e;

	attach_ok(w, attach_of(w, 14), &c);
	let_go(&c);
	tell(w, PEER_RENEW, &r, sizeof(r));
	e = wait_for_end(w, 14);
	assert_int_equal(e.last.killed, WHY_WALL);
	assert_int_equal(e.limit, 1);
	expect_all_dead(&c);
	forget(w, 14);
	child_done(&c);
}

static void test_renew(void **state)
{
	(void)state;
	each_way(BY_DESCENT, renew_limits);
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
	struct watch_attach a = attach_of(w, 15);

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

/* ---- a watcher after this one ---- */

static void find_again(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL), gone = child_new(w, leave_a_child, NULL), timed = child_new(w, sleep_on, NULL);
	struct watch_attach a = attach_of(w, 22);
	struct watch_ended e;
	size_t found = 0;

	attach_ok(w, attach_of(w, 20), &c);
	attach_ok(w, attach_of(w, 21), &gone);
	a.limits.wall_ns = UINT64_C(3) * NS_PER_SEC;
	attach_ok(w, a, &timed);
	(void)kill(w->watcher, SIGSTOP);
	let_go(&gone); /* its first process ends while nobody looks */
	assert_int_equal(waitpid(gone.pid, NULL, 0), gone.pid);
	replace_watcher(w);
	say_ready(w);
	for (size_t i = 0; i < w->n_now; i++)
		found += w->now[i].session >= 20 && w->now[i].session <= 22;
	assert_true(found >= 2); /* 21 may be over by now */
	e = wait_for_end(w, 21);
	assert_int_equal(e.last.killed, WHY_ENDED);
	assert_int_equal(e.n_killed, 1);
	expect_all_dead(&gone);
	replace_watcher(w); /* before it was noted: told again, by the next one too */
	say_ready(w);
	say_ready(w);
	forget(w, 21);
	e = wait_for_end(w, 22);
	assert_int_equal(e.last.killed, WHY_WALL); /* its clock went on */
	expect_all_dead(&timed);
	forget(w, 22);
	order_kill(w, 20, WHY_ABORT);
	e = wait_for_end(w, 20);
	assert_int_equal(e.n_killed, 1);
	expect_all_dead(&c);
	forget(w, 20);
	say_ready(w);
	child_done(&c);
	child_done(&gone);
	child_done(&timed);
}

/* Without anything in the kernel a file is all that says who they are: pid and start time, looked at again. */
static void find_by_descent(struct world *w)
{
	struct child c = child_new(w, wrapper, NULL);

	attach_ok(w, attach_of(w, 23), &c);
	let_go(&c);
	wait_for_processes(w, 2);
	replace_watcher(w);
	say_ready(w);
	assert_int_equal(w->n_now, 1);
	order_kill(w, 23, WHY_LAUNCHER);
	assert_int_equal(wait_for_end(w, 23).n_killed, 2);
	expect_all_dead(&c);
	forget(w, 23);
	say_ready(w);
	child_done(&c);
}

static void test_restart(void **state)
{
	(void)state;
	each_way(BY_CGROUP, find_again);
}

static void test_restart_plain(void **state)
{
	(void)state;
	each_way(BY_DESCENT, find_by_descent);
}

/* A saved tree that somebody else wrote is not believed; what the kernel holds is found all the same. */
static void distrust_saved(struct world *w)
{
	struct child c = child_new(w, sleep_on, NULL);
	char path[160];
	int fd;

	attach_ok(w, attach_of(w, 30), &c);
	(void)snprintf(path, sizeof(path), "%s/s_30", w->saved);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 3), 1);
	(void)close(fd);
	(void)snprintf(path, sizeof(path), "%s/s_31", w->saved);
	fd = open(path, O_WRONLY | O_CREAT, 0600); /* of nothing */
	assert_int_equal(write(fd, "nonsense", 8), 8);
	(void)close(fd);
	replace_watcher(w);
	say_ready(w);
	assert_int_equal(w->n_now, w->way == BY_DESCENT ? 0 : 1); /* there the file was all there is */
	assert_int_not_equal(access(path, F_OK), 0);
	if (w->way != BY_DESCENT) {
		order_kill(w, 30, WHY_ABORT);
		assert_int_equal(wait_for_end(w, 30).n_killed, 1);
		forget(w, 30);
	} else {
		(void)kill(c.pid, SIGKILL);
	}
	expect_all_dead(&c);
	say_ready(w);
	child_done(&c);
}

static void test_distrust(void **state)
{
	(void)state;
	each_way(BY_DESCENT, distrust_saved);
}

/* ---- the list of programs ---- */

struct programs {
	char denied[96];
	int told;
};

static int run_program(const char *path)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		(void)execl(path, path, (char *)NULL);
		_exit(99);
	}
	(void)waitpid(pid, &status, 0);
	return status;
}

/* Says what became of each start, until it is killed. */
static void start_again_and_again(void *arg)
{
	const struct programs *p = arg;

	for (;;) {
		int status = run_program(p->denied);

		if (write(p->told, &status, sizeof(status)) != sizeof(status))
			_exit(0);
	}
}

static void copy_program(const char *to)
{
	char cmd[256], *const argv[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", cmd, NULL };
	pid_t pid;

	(void)snprintf(cmd, sizeof(cmd), "cp /bin/true %s.new && mv %s.new %s", to, to, to);
	pid = fork();
	if (pid == 0) {
		(void)execv("/bin/sh", argv);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A program that was replaced, as an upgrade does, is denied again. */
static void deny_upgraded(struct world *w)
{
	struct watch_attach a = attach_of(w, 40);
	struct programs p;
	struct child c;
	char paths[256];
	int told[2], status, after = 0;
	size_t n;

	assert_int_equal(pipe(told), 0);
	p.told = told[1];
	(void)snprintf(p.denied, sizeof(p.denied), "/tmp/pawl-denied-%d", (int)getpid());
	copy_program(p.denied);
	n = (size_t)snprintf(paths, sizeof(paths), "%s", p.denied) + 1;
	a.n_deny = 1;
	a.deny_bytes = (uint32_t)n;
	c = child_new(w, start_again_and_again, &p);
	assert_int_equal(ask_parts(w, &a, sizeof(a), paths, n, c.pidfd).result, 0);
	let_go(&c);
	assert_int_equal(read(told[0], &status, sizeof(status)), sizeof(status));
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	copy_program(p.denied);
	do
		assert_int_equal(read(told[0], &status, sizeof(status)), sizeof(status));
	while (!(WIFEXITED(status) && WEXITSTATUS(status) == 0)); /* the new file, not known yet */
	do { /* and known: the loop ends by that alone */
		assert_int_equal(read(told[0], &status, sizeof(status)), sizeof(status));
		if (after++ > 200000)
			fail_msg("an upgraded program runs on");
	} while (!WIFSIGNALED(status));
	wait_for_event(w, WATCH_KILL, WHY_DENY_EXEC);
	order_kill(w, 40, WHY_ABORT);
	(void)wait_for_end(w, 40);
	expect_all_dead(&c);
	forget(w, 40);
	(void)unlink(p.denied);
	(void)close(told[0]);
	(void)close(told[1]);
	child_done(&c);
	print_message("an upgraded program ran %d times before it was denied again\n", after);
}

static void test_upgraded(void **state)
{
	(void)state;
	each_way(BY_TAG, deny_upgraded);
}

/* ---- a rest that does not listen ---- */

#define STARTS 16000 /* more than socket and queue hold together */

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

	attach_ok(w, attach_of(w, 60), &c);
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
	a = attach_of(&w, 50);
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
	attach_ok(&w, attach_of(&w, 51), &orphan);
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
		cmocka_unit_test(test_needs),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_wrapper),
		cmocka_unit_test(test_daemonized),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_innocent),
		cmocka_unit_test(test_wall),
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_shadow),
		cmocka_unit_test(test_shadow_memory),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_start_race),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_restart_plain),
		cmocka_unit_test(test_distrust),
		cmocka_unit_test(test_upgraded),
		cmocka_unit_test(test_lag),
		cmocka_unit_test(test_plain_user),
	};

	if (argc > 1) /* one of them, by hand */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
