/* tests/unit/test_deny.c - the list of denied programs: what it looks at, and what it leaves alone. */
#include "daemon/watch/deny.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* To open a device or a pipe does something to it: a name on the list that is no file is not opened. */
static void test_only_files_are_opened(void **state)
{
	char dir[] = "/tmp/pawl-deny-XXXXXX", pipe[64], script[64], paths[128], event[512];
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), fd;
	struct pawl_error err;
	struct deny d;
	size_t n;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(pipe, sizeof(pipe), "%s/pipe", dir);
	(void)snprintf(script, sizeof(script), "%s/script", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	(void)close(fd);
	n = (size_t)snprintf(paths, sizeof(paths), "%s%c%s", pipe, '\0', script) + 1;
	assert_int_equal(deny_check(paths, n, 2, &err), 0);
	assert_int_equal(deny_init(&d, paths, n, 2, &err), 0);
	assert_true(inotify_add_watch(watch, pipe, IN_OPEN) >= 0);
	assert_string_equal(deny_script(&d), script);
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	deny_done(&d);
	(void)close(watch);
	(void)unlink(pipe);
	(void)unlink(script);
	(void)rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_files_are_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
