/* tests/unit/test_peer_tree.c - which tree of this pawld the cgroups of a process name: not those of another pawld, nor what is only called alike. */
#include "daemon/door/peer_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void test_named(void **state)
{
	static const struct {
		const char *text;
		uint64_t session;
	} cases[] = {
		{ "0::/pawl.abc/s_7\n", 7 },
		{ "0::/pawl.abc/s_7", 7 },
		{ "0::/pawl.abc/s_7/below\n", 7 },
		{ "5:memory:/x\n4:pids:/pawl.abc/s_12\n0::/\n", 12 },
		{ "0::/../pawl.abc/s_7\n", 7 },
		{ "0::/t.slice/pawl.service/pawl.abc/s_1\n", 1 },
		{ "0::/pawl.service/sh\n4:pids:/pawl.abc/s_3\n", 3 },
		{ "0::/pawl.other/s_7\n", 0 },
		{ "0::/pawl.other/s_7/pawl.abc/s_8\n", 8 },
		{ "0::/pawl.abcd/s_7\n", 0 },
		{ "0::/xpawl.abc/s_7\n", 0 },
		{ "0::/pawl.abc/s_0\n", 0 },
		{ "0::/pawl.abc/s_7x\n", 0 },
		{ "0::/pawl.abc/\n", 0 },
		{ "0::/pawl.abc\n/s_7\n", 0 },
		{ "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++)
		if (peer_tree_named(str_of(cases[i].text), "abc") != cases[i].session)
			fail_msg("%s", cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_named) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
