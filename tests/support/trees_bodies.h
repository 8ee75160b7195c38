/* tests/support/trees_bodies.h - what a tree's first process does, for the tests of trees.h, and each way of knowing who belongs to a tree. */
#ifndef TEST_TREES_BODIES_H
#define TEST_TREES_BODIES_H
#include "tests/support/trees_world.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)
#define NOBODY 65534

static inline void sleep_on(void *arg)
{
	(void)arg;
	for (;;)
		(void)pause();
}

static inline void leave_at_once(void *arg)
{
	(void)arg;
}

static inline void burn(void *arg)
{
	(void)arg;
	for (;;)
		__asm__ volatile("");
}

/* A shell that does not replace itself: what it started is the agent. */
static inline void wrapper(void *arg)
{
	(void)arg;
	(void)execl("/bin/sh", "sh", "-c", "sleep 100000; :", (char *)NULL);
}

static inline void daemonize(void *arg)
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

static inline void *thread_sleeps(void *arg)
{
	sleep_on(arg);
	return NULL;
}

/* /proc tells it as a zombie, and it lives. */
static inline void first_thread_ends(void *arg)
{
	pthread_t th;

	if (pthread_create(&th, NULL, thread_sleeps, arg) == 0)
		(void)syscall(SYS_exit, 0);
}

static inline void leave_a_child(void *arg)
{
	(void)arg;
	if (fork() == 0)
		sleep_on(NULL);
}

static inline void eat(void *arg)
{
	size_t n = *(size_t *)arg;
	unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
	sleep_on(NULL);
}

/* Lives too short for any look. */
static inline void eat_and_leave(void *arg)
{
	const size_t n = 8 * MIB;
	unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
		p[i] = 1;
}

static inline int run_program(const char *path)
{
	pid_t pid = vfork(); /* many are started: a sanitizer's memory is not copied for each */
	int status = 0;

	if (pid == 0) {
		(void)execl(path, path, (char *)NULL);
		_exit(99);
	}
	(void)waitpid(pid, &status, 0);
	return status;
}

/* Each way, or a skip when none of the wanted can be had. */
static inline void each_way(enum way last, void (*run)(struct world *w))
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
#endif
