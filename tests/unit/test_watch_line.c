/* tests/unit/test_watch_line.c - entries of the watch as sentences; what a program chose to be called moves no cursor. */
#include "daemon/cli/watch_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define W(action, rest) "{\"kind\":\"watch\",\"session\":\"s_5\",\"action\":\"" action "\"" rest "}"
#define END ",\"cpu\":\"1.2s\",\"execs\":3,\"forks\":51,\"lost\":0,\"memory_peak\":3145728,\"peak\":51,\"time\":\"2s\""
#define ENDED(why, more) W("end", END ",\"why\":\"" why "\"" more)
#define TAIL "; peak 51 processes, 3 starts, cpu 1.2s, memory 3 MiB, time 2s"
#define PROGRAM(path, count) "{\"comm\":\"c\",\"count\":" count ",\"path\":\"" path "\",\"pid\":7}"

static const struct {
	const char *body, *want;
} cases[] = {
	{ W("attach", ",\"held\":[\"deny_exec\",\"processes\"],\"limits\":{\"cpu\":\"1m\",\"fork_rate\":200,\"memory\":2147483648,\"processes\":50},\"pid\":4711,"
		      "\"run\":true,\"tier\":\"B\",\"uid\":1000"),
	  "s_5 runs under watch: pid 4711, started by uid 1000, tier B, held deny_exec processes; cpu 1m, fork_rate 200/s, memory 2 GiB, processes 50" },
	{ W("attach", ",\"log_only\":true,\"message\":\"no \\u001bcgroup\",\"pid\":1,\"tier\":\"C\",\"uid\":0"),
	  "s_5 put itself under watch: pid 1, uid 0, tier C, nothing is held; shadow mode: nothing is stopped; no \\u{1b}cgroup" },
	{ W("execs", ",\"programs\":[" PROGRAM("/bin/ls", "10") "," PROGRAM("/usr/bin/git", "1") "],\"total\":14,\"unlisted\":3"),
	  "s_5 started 14 programs: /bin/ls 10 times, /usr/bin/git, and 3 more" },
	{ W("execs", ",\"programs\":[" PROGRAM("a", "1") "," PROGRAM("b", "1") "," PROGRAM("c", "1") "," PROGRAM("d", "1") "," PROGRAM("e", "1") ","
		     PROGRAM("f", "2") "],\"total\":7"),
	  "s_5 started 7 programs: a, b, c, d, e, and 2 more" },
	{ W("execs", ",\"programs\":[" PROGRAM("a", "1") "," PROGRAM("b", "2") "," PROGRAM("a", "4") "],\"total\":7"), "s_5 started 7 programs: a 5 times, b 2 times" },
	{ W("end", ",\"cpu\":\"0.011379123s\",\"execs\":1,\"killed\":0,\"memory_peak\":0,\"peak\":1,\"time\":\"0.05s\",\"why\":\"ended\""),
	  "s_5 has ended; peak 1 process, 1 start, cpu 0.011s, memory 0 B, time 0.05s" },
	{ W("execs", ",\"total\":1,\"unlisted\":1"), "s_5 started 1 program: 1 more" },
	{ W("kill", ",\"programs\":[" PROGRAM("/usr/bin/nc", "1") "],\"total\":1,\"why\":\"deny_exec\""),
	  "s_5: 1 program stopped before the first instruction, deny_exec: /usr/bin/nc" },
	{ W("kill", ",\"log_only\":true,\"programs\":[{\"comm\":\"x\",\"count\":2,\"path\":\"/proc/self/fd/3\\n\",\"path_cut\":true}],\"total\":2,\"why\":\"fileless\""),
	  "s_5: 2 programs would have been stopped before the first instruction, fileless: /proc/self/fd/3\\u{a}... 2 times" },
	{ W("kill", ",\"programs\":[{\"comm\":\"sh\",\"count\":1,\"path\":\"\"}],\"total\":1,\"why\":\"left\""), "s_5: 1 process killed, left: sh" },
	{ W("breach", ",\"comm\":\"sh\",\"limit\":50,\"measured\":51,\"pid\":4711,\"why\":\"processes\""),
	  "s_5 went over its limit: processes 51, limit 50 (sh 4711); all of it is ended" },
	{ W("breach", ",\"limit\":200,\"log_only\":true,\"measured\":201,\"pid\":9,\"why\":\"fork_rate\""),
	  "s_5 went over its limit: fork_rate 201/s, limit 200/s (pid 9); it would have been ended" },
	{ W("breach", ",\"limit\":2097152,\"measured\":20971520,\"why\":\"memory\""), "s_5 went over its limit: memory 20 MiB, limit 2 MiB; all of it is ended" },
	{ W("breach", ",\"limit\":60000000000,\"measured\":60012345678,\"why\":\"cpu\""), "s_5 went over its limit: cpu 60.012s, limit 1m; all of it is ended" },
	{ W("lost", ",\"events\":1"), "s_5: 1 event is lost; kills and limits do not depend on them" },
	{ W("left", ",\"comm\":\"\\u202ebash\",\"pid\":12,\"total\":2"), "s_5: 2 processes moved out of the tree's cgroup from outside (\\u{202e}bash 12); still the tree's" },
	{ ENDED("ended", ",\"killed\":0"), "s_5 has ended" TAIL },
	{ ENDED("processes", ",\"killed\":3,\"limit\":50,\"measured\":51"), "s_5 stopped: processes 51, limit 50; 3 processes ended" TAIL },
	{ ENDED("wall", ",\"ended\":[{\"comm\":\"sh\",\"pid\":1},{\"comm\":\"\\t\",\"pid\":2}],\"killed\":2,\"limit\":500000000,\"measured\":511000000"),
	  "s_5 stopped: wall 511ms, limit 500ms; 2 processes ended (sh 1, \\u{9} 2)" TAIL },
	{ ENDED("abort", ",\"ended\":[{\"comm\":\"a\",\"pid\":1}],\"killed\":16"), "s_5 was stopped: a person aborted it; 16 processes ended (a 1, ...)" TAIL },
	{ ENDED("launcher", ""), "s_5 was stopped: its `pawl run` is gone" TAIL },
	{ ENDED("stale", ""), "s_5 was stopped: nobody renewed its session" TAIL },
	{ ENDED("none", ""), "s_5 is over, and nobody knows how it ended" TAIL },
	{ W("later\\u0007", ""), "s_5 later\\u{7}" },
	{ "{}", " " },
	{ "{\"action\":\"attach\",\"held\":7,\"limits\":[1]}", " put itself under watch: pid 0, uid 0, tier , nothing is held; " },
};

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		struct buf out = BUF_MAX(8192);
		struct pawl_error err;
		struct json *doc = NULL;

		assert_int_equal(json_parse(str_of(cases[i].body), PAWL_MAX_DEPTH, &doc, &err), 0);
		watch_line(&out, doc, ESCAPE_UTF8);
		if (!str_is(buf_str(&out), cases[i].want))
			fail_msg("%zu:\n%.*s\n%s", i, STR_ARG(buf_str(&out)), cases[i].want);
		json_free(doc);
		buf_done(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
