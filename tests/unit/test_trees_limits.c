/* tests/unit/test_trees_limits.c - limits of a tree, by each way that can hold them: what is over one ends, with what was measured; in shadow mode it is told;
 * new ones hold for a tree that lives. */
#include "tests/support/trees_bodies.h"

#include <sys/resource.h>

/* ---- limits ---- */

static struct watch_ended run_into(struct world *w, struct watch_limits limits, body *run, void *arg)
{
	struct child c = child_new(w, run, arg);
	struct watch_attach a = attach_of(6);
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
	struct watch_attach a = attach_of(9);
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
	struct watch_attach a = attach_of(16);

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

	attach_ok(w, attach_of(14), &c);
	let_go(&c);
	tell(w, PEER_RENEW, &r, sizeof(r));
	e = wait_for_end(w, 14);
	assert_int_equal(e.last.killed, WHY_WALL);
	assert_int_equal(e.limit, 1);
	expect_all_dead(&c);
	forget(w, 14);
	child_done(&c);
}

/* Fewer than there are: nobody has to start another one for that to be seen. */
static void renew_processes(struct world *w)
{
	struct child c = child_new(w, wrapper, NULL);
	struct watch_renew r = { .session = 17, .limits = { .processes = 1 }, .flags = ATTACH_EVENTS };
	struct watch_ended e;
	size_t breaches = 0;

	attach_ok(w, attach_of(17), &c);
	let_go(&c);
	wait_for_processes(w, 2);
	tell(w, PEER_RENEW, &r, sizeof(r));
	e = wait_for_end(w, 17);
	assert_int_equal(e.last.killed, WHY_PROCESSES);
	assert_int_equal(e.measured, 2);
	assert_int_equal(e.limit, 1);
	for (size_t i = 0; i < w->n_events; i++)
		breaches += w->event[i].kind == WATCH_BREACH && w->event[i].why == WHY_PROCESSES;
	assert_int_equal(breaches, 1);
	expect_all_dead(&c);
	forget(w, 17);
	child_done(&c);
}

/* Less memory than is used, which a cgroup of v1 does not take: ended all the same. In shadow mode it is let be. */
static void renew_memory(struct world *w)
{
	size_t n = 96 * MIB;
	struct child c = child_new(w, eat, &n);
	struct watch_renew r = { .session = 18, .limits = { .memory = 32 * MIB }, .flags = ATTACH_EVENTS | ATTACH_LOG_ONLY };
	struct watch_ended e;

	if (w->probes->row[WP_MEMORY].state == WATCH_OFF) {
		(void)kill(c.pid, SIGKILL);
		child_done(&c);
		skip_aloud("a memory controller");
		return;
	}
	attach_ok(w, attach_of(18), &c);
	let_go(&c);
	do
		(void)wait_for(w, PEER_NOW);
	while (w->n_now != 1 || w->now[0].memory < n);
	tell(w, PEER_RENEW, &r, sizeof(r));
	wait_for_event(w, WATCH_BREACH, WHY_MEMORY);
	(void)wait_for(w, PEER_NOW);
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
	r.flags = ATTACH_EVENTS;
	tell(w, PEER_RENEW, &r, sizeof(r));
	e = wait_for_end(w, 18);
	assert_int_equal(e.last.killed, WHY_MEMORY);
	assert_true(e.measured > e.limit);
	assert_int_equal(e.limit, 32 * MIB);
	expect_all_dead(&c);
	forget(w, 18);
	child_done(&c);
	print_message("memory by %s: lowered to 32 MiB, ended at %llu KiB\n", way_names[w->way], (unsigned long long)(e.measured >> 10));
}

static void test_renew_memory(void **state)
{
	(void)state;
	each_way(BY_CGROUP, renew_memory);
}

static void test_renew_processes(void **state)
{
	(void)state;
	each_way(BY_DESCENT, renew_processes);
}

static void test_renew(void **state)
{
	(void)state;
	each_way(BY_DESCENT, renew_limits);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wall),
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_shadow),
		cmocka_unit_test(test_shadow_memory),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_renew_processes),
		cmocka_unit_test(test_renew_memory),
	};

	if (argc > 1) /* one of them, by hand */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
