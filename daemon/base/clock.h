/* daemon/base/clock.h - log time: wall at start (never below the log's last entry) + elapsed CLOCK_BOOTTIME.
 * Steps of the wall clock while running change nothing. All values int64 ns since 1970 UTC. */
#ifndef PAWL_CLOCK_H
#define PAWL_CLOCK_H
#include <stdint.h>

struct clock {
	int64_t base_ns;  /* log time when it was set */
	int64_t boot0_ns; /* CLOCK_BOOTTIME then */
	int64_t (*read_boot)(void *); /* NULL = the kernel's; tests set their own */
	int64_t (*read_wall)(void *);
	void *arg;
};

/* floor_ns: the newest entry's time, 0 when the log is empty. */
void clock_init(struct clock *c, int64_t floor_ns);
int64_t clock_now(const struct clock *c);
int64_t clock_wall(const struct clock *c);

#endif
