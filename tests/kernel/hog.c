/* tests/kernel/hog.c - uses up what a policy limits, for at most SECONDS:
 *   hog cpu N SECONDS            N threads that compute
 *   hog cpu-children N SECONDS   N children at a time that compute for 50 ms each: most of what was used belongs to the dead
 *   hog memory MIB SECONDS       touches so many MiB, page by page, and holds them
 *   hog memory-children N SECONDS MIB   N children that hold MIB each
 *   hog sleep SECONDS            nothing: for the wall clock */
#include "common.h"

#include <pthread.h>
#include <sys/wait.h>

static void compute(double end)
{
	while (now_s() < end)
		for (volatile int i = 0; i < 100000; i++) {
		}
}

static void *compute_thread(void *arg)
{
	compute(*(double *)arg);
	return NULL;
}

static int cpu(unsigned long n, double end)
{
	pthread_t th;

	for (unsigned long i = 1; i < n; i++)
		if (pthread_create(&th, NULL, compute_thread, &end) != 0)
			die("pthread_create");
	compute(end);
	return 0;
}

static int cpu_children(unsigned long n, double end)
{
	unsigned long live = 0;

	while (now_s() < end) {
		pid_t pid = live < n ? fork() : -1;

		if (pid == 0) {
			compute(now_s() + 0.05);
			_exit(0);
		}
		if (pid > 0)
			live++;
		else if (wait(NULL) > 0)
			live--;
		else
			nap(0.01);
	}
	return 0;
}

static int memory(unsigned long mib, double end)
{
	size_t step = 1 << 20;

	for (unsigned long i = 0; i < mib && now_s() < end; i++) {
		char *p = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return 9; /* refused is a way to hold a limit too */
		for (size_t at = 0; at < step; at += 4096)
			p[at] = 1;
	}
	while (now_s() < end)
		nap(0.05);
	return 0;
}

int main(int argc, char **argv)
{
	double end;

	if (argc == 3 && strcmp(argv[1], "sleep") == 0) {
		for (end = now_s() + (double)number(argv[2], 600); now_s() < end;)
			nap(end - now_s());
		return 0;
	}
	if (argc < 4)
		return 2;
	end = now_s() + (double)number(argv[3], 120);
	if (strcmp(argv[1], "cpu") == 0)
		return cpu(number(argv[2], 64), end);
	if (strcmp(argv[1], "cpu-children") == 0)
		return cpu_children(number(argv[2], 64), end);
	if (strcmp(argv[1], "memory") == 0)
		return memory(number(argv[2], 4096), end);
	if (strcmp(argv[1], "memory-children") == 0 && argc == 5) {
		for (unsigned long i = 0; i < number(argv[2], 64); i++)
			if (fork() == 0)
				_exit(memory(number(argv[4], 4096), end));
		while (wait(NULL) > 0) {
		}
		return 0;
	}
	return 2;
}
