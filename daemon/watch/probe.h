/* daemon/watch/probe.h - what this machine has for watching, found out by doing it. Leaves nothing behind but what it was told to open. */
#ifndef PAWL_PROBE_H
#define PAWL_PROBE_H
#include "daemon/watch/cgroup.h"

/* The daemon's name in cgroups and pins: a hash of its state folder, so that two pawlds never meet and the next one of this folder finds what
 * is there. state NULL: of this process. */
PAWL_MUST_USE int probe_instance(const char *state, char ret[static CGROUP_INSTANCE], struct pawl_error *err);
PAWL_PRINTF(5, 6) void probe_say(struct watch_probes *probes, int row, enum watch_state state, int os_errno, const char *fmt, ...);
/* Every name, and the rows that are neither the guard's nor the cgroups'. */
void probe_machine(struct watch_probes *probes);
void probe_cgroups(struct watch_probes *probes, const struct cgroups *cg, bool can_kill);
/* After all rows: the tier, and how to get what is off. */
void probe_tier(struct watch_probes *probes);
/* pawld --probe: opens everything, prints the table as JSON, takes everything away again. */
PAWL_MUST_USE int probe_print(struct pawl_error *err);
#endif
