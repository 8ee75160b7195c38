/* tests/bench/starts.c - `starts ROUNDS COUNT PROGRAM`: what the kernel's programs cost a process that starts another: vfork, exec of PROGRAM, exit, wait.
 * Bare (nothing loaded), beside a watched tree, and in one, in turn within each round and forwards and backwards in every other one. Each start is
 * timed by itself and a turn's number is its median, so that an interrupt or a neighbour is not the watch's. JSON, nanoseconds. Needs root. */
#include "daemon/watch/guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 20000
#define SESSION 7
enum what { BARE, BESIDE, TREE, WHATS };

static int64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

_Noreturn static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	int64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static int64_t median(int64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_size);
	return v[n / 2];
}

/* In the child: told to go, it starts them and says its median. */
_Noreturn static void work(int go, int told, size_t count, const char *program)
{
	static int64_t each[MOST];
	int64_t got;
	char c;

	if (read(go, &c, 1) != 1)
		_exit(1);
	for (size_t i = 0; i < count; i++) {
		int64_t began = now_ns();
		pid_t pid = vfork();
		int status;

		if (pid == 0) {
			(void)execl(program, program, (char *)NULL);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			_exit(1);
		each[i] = now_ns() - began;
	}
	got = median(each, count);
	_exit(write(told, &got, sizeof(got)) == sizeof(got) ? 0 : 1);
}

static void take(void *arg, const struct watch_event *ev)
{
	(void)ev;
	++*(uint64_t *)arg;
}

static struct guard *watching(void)
{
	struct watch_probes probes = { .tier = 'D' };
	struct guard_options opt = { .pins = NULL };
	struct guard_tree tree = { .session = SESSION, .limits = { .processes = 1000, .fork_rate = 1000000, .exec_rate = 1000000, .wall_ns = UINT64_C(600000000000) },
				   .start_boot_ns = (uint64_t)now_ns(), .flags = ATTACH_EVENTS };
	const struct guard_file nobody = { .dev = 1, .ino = 1 };
	struct pawl_error err = { .code = PAWL_OK };
	struct guard *g = NULL;

	if (guard_open(&opt, &probes, &g, &err) < 0 || guard_tree_add(g, &tree, &err) < 0 || guard_deny(g, SESSION, &nobody, 1, &err) < 0) {
		(void)fprintf(stderr, "starts: %s\n", err.msg);
		exit(1);
	}
	return g;
}

static int64_t turn(enum what what, size_t count, const char *program)
{
	struct guard *g = what == BARE ? NULL : watching();
	int go[2], told[2], status, pidfd;
	uint64_t events = 0;
	int64_t got = 0;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(told, O_CLOEXEC | O_NONBLOCK) < 0)
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		guard_close(g); /* what it holds open would go on */
		work(go[0], told[1], count, program);
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0 || (what == TREE && guard_tag(g, pidfd, SESSION, NULL) < 0))
		die("tag");
	if (write(go[1], "x", 1) != 1)
		die("pipe");
	while (waitpid(pid, &status, WNOHANG) == 0) { /* as the watcher does */
		if (g)
			(void)guard_consume(g, 100000, take, &events);
		(void)usleep(10000);
	}
	if (g)
		(void)guard_consume(g, 100000, take, &events);
	if (status != 0 || read(told[0], &got, sizeof(got)) != sizeof(got) || (what == TREE && events < count)) {
		(void)fprintf(stderr, "starts: turn %d: status %d, %llu events\n", (int)what, status, (unsigned long long)events);
		exit(1);
	}
	(void)close(pidfd);
	for (int i = 0; i < 2; i++) {
		(void)close(go[i]);
		(void)close(told[i]);
	}
	guard_close(g);
	return got;
}

int main(int argc, char **argv)
{
	static int64_t beside[MOST], tree[MOST], bare[MOST];
	size_t rounds = argc == 4 ? (size_t)strtoul(argv[1], NULL, 10) : 0, count = argc == 4 ? (size_t)strtoul(argv[2], NULL, 10) : 0;

	if (rounds < 1 || rounds > 1000 || count < 1 || count > MOST)
		return 2;
	for (size_t r = 0; r < rounds; r++) {
		int64_t got[WHATS];

		for (int i = 0; i < WHATS; i++) {
			int what = r % 2 ? WHATS - 1 - i : i;

			got[what] = turn((enum what)what, count, argv[3]);
		}
		bare[r] = got[BARE];
		beside[r] = got[BESIDE] - got[BARE];
		tree[r] = got[TREE] - got[BARE];
	}
	(void)printf("{\"rounds\":%zu,\"count\":%zu,\"bare_ns\":%lld,\"beside_more_ns\":%lld,\"tree_more_ns\":%lld}\n", rounds, count,
		     (long long)median(bare, rounds), (long long)median(beside, rounds), (long long)median(tree, rounds));
	return 0;
}
