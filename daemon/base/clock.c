/* daemon/base/clock.c - see clock.h. */
#include "daemon/base/clock.h"

#include "pawl/types.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) != 0)
		return 0;
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static int64_t boot_ns(const struct clock *c)
{
	return c->read_boot ? c->read_boot(c->arg) : read_clock(CLOCK_BOOTTIME);
}

int64_t clock_wall(const struct clock *c)
{
	return c->read_wall ? c->read_wall(c->arg) : read_clock(CLOCK_REALTIME);
}

void clock_init(struct clock *c, int64_t floor_ns)
{
	int64_t wall = clock_wall(c);

	c->boot0_ns = boot_ns(c);
	c->base_ns = wall > floor_ns ? wall : floor_ns;
}

int64_t clock_now(const struct clock *c)
{
	int64_t passed = boot_ns(c) - c->boot0_ns;

	return add_sat(c->base_ns, passed > 0 ? passed : 0);
}
