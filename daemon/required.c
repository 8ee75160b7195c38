/* daemon/required.c - see required.h. Each missing probe has a line of its own in the operational log, with how to get it; the error names them. */
#include "daemon/required.h"

#include "daemon/base/oplog.h"

#include <stdio.h>

int required_check(const struct policy *pol, const struct watch_probes *probes, struct pawl_error *err)
{
	static const int must[] = { WP_TRACING, WP_CGROUP };
	char names[160] = "";

	if (pol->watch.exec != WATCH_EXEC_REQUIRED)
		return 0;
	if (!probes)
		return pawl_fail(err, PAWL_E_UNSAFE, "watch.exec is required, and there is no watcher: run pawld without --no-watch");
	for (size_t i = 0; i < PAWL_LEN(must); i++) {
		const struct watch_probe *p = &probes->row[must[i]];
		size_t n = strlen(names);

		if (p->state == WATCH_ON)
			continue;
		oplog(OPLOG_ERROR, "watch.exec is required, and watch.%s is %s: %s; %s", p->name, p->state == WATCH_OFF ? "off" : "partial", p->why, p->get);
		(void)snprintf(names + n, sizeof(names) - n, "%s%s (%.48s)", n ? ", " : "", p->name, p->get[0] ? p->get : p->why);
	}
	return names[0] ? pawl_fail(err, PAWL_E_UNSAFE, "watch.exec is required, and this machine lacks %s", names) : 0;
}
