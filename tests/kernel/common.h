/* tests/kernel/common.h - what the programs under watch share. Each of them has an end of its own in time and number, so that a watch that
 * fails leaves nothing running; none of them prints through stdio after a fork. */
#ifndef TESTS_KERNEL_COMMON_H
#define TESTS_KERNEL_COMMON_H
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

/* A whole number of at most `most`; anything else is a mistake in the test. */
static inline unsigned long number(const char *text, unsigned long most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || n > most) {
		fprintf(stderr, "not a number up to %lu: %s\n", most, text);
		exit(2);
	}
	return n;
}

static inline double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void nap(double s)
{
	struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };

	nanosleep(&t, NULL);
}

/* Memory that a forked child still shares; of a file when path is given, for a test that reads it after everybody is dead. */
static inline void *shared(size_t size, const char *path)
{
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
	void *p;

	if (path && (fd < 0 || ftruncate(fd, (off_t)size) != 0))
		die(path);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	if (fd >= 0)
		close(fd);
	return p;
}
#endif
