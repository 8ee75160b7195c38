/* tests/unit/test_probe.c - what the probes come to: the tier, its words, and how to get what is missing. */
#include "daemon/watch/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_tier(void **state)
{
	static const struct {
		enum watch_state tracing, cgroup, landlock, seccomp, lsm;
		char tier;
		const char *says, *get; /* in the words; of tracing */
	} rows[] = {
		{ WATCH_ON, WATCH_ON, WATCH_ON, WATCH_ON, WATCH_ON, 'A', "before they take effect", "" },
		{ WATCH_ON, WATCH_ON, WATCH_ON, WATCH_ON, WATCH_OFF, 'B', "denied programs are stopped", "" },
		{ WATCH_ON, WATCH_PARTIAL, WATCH_ON, WATCH_ON, WATCH_OFF, 'B', "denied programs are stopped", "" },
		{ WATCH_PARTIAL, WATCH_ON, WATCH_ON, WATCH_ON, WATCH_OFF, 'B', "most denied programs", "another kernel" },
		{ WATCH_OFF, WATCH_ON, WATCH_ON, WATCH_ON, WATCH_OFF, 'C', "no in-kernel kill", "CAP_BPF" },
		{ WATCH_ON, WATCH_OFF, WATCH_ON, WATCH_ON, WATCH_OFF, 'C', "no in-kernel kill", "" },
		{ WATCH_ON, WATCH_ON, WATCH_PARTIAL, WATCH_ON, WATCH_OFF, 'D', "no Landlock or no seccomp", "" },
		{ WATCH_ON, WATCH_ON, WATCH_ON, WATCH_OFF, WATCH_ON, 'D', "no Landlock or no seccomp", "" },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct watch_probes p = { .tier = '?' };
		const char *get = p.row[WP_TRACING].get;

		for (int k = 0; k < WP_COUNT; k++)
			p.row[k].state = WATCH_ON;
		p.row[WP_TRACING].state = rows[i].tracing;
		if (rows[i].tracing != WATCH_OFF) /* said by who looked: kept, or forgotten when it is on */
			(void)snprintf(p.row[WP_TRACING].get, sizeof(p.row[0].get), "another kernel");
		p.row[WP_CGROUP].state = rows[i].cgroup;
		p.row[WP_LANDLOCK].state = rows[i].landlock;
		p.row[WP_SECCOMP].state = rows[i].seccomp;
		p.row[WP_LSM].state = rows[i].lsm;
		probe_tier(&p);
		if (p.tier != rows[i].tier || !strstr(p.says, rows[i].says) || (rows[i].get[0] ? !strstr(get, rows[i].get) : get[0] != '\0'))
			fail_msg("row %zu: %c, %s, %s", i, p.tier, p.says, get);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_tier) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
