/* tests/unit/test_deny.c - the list of denied programs: which of them is a script, and what is never opened to find that out. */
#include "daemon/watch/deny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *script_of(const char *path, struct deny *d)
{
	struct pawl_error err = { .code = PAWL_OK };

	assert_int_equal(deny_init(d, path, strlen(path) + 1, 1, &err), 0);
	return deny_script(d);
}

static void test_script(void **state)
{
	char path[] = "/tmp/pawl-deny-XXXXXX";
	int fd = mkstemp(path);
	struct deny d;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	assert_string_equal(script_of(path, &d), path);
	deny_done(&d);
	assert_null(script_of("/bin/sh", &d));
	deny_done(&d);
	assert_null(script_of("/not/there", &d));
	deny_done(&d);
	(void)close(fd);
	(void)unlink(path);
}

/* The tree may own the name, and some devices act when they are opened: here a pipe stands for one. */
static void test_no_file_is_not_opened(void **state)
{
	char folder[] = "/tmp/pawl-deny-XXXXXX", path[64], event[512];
	int told = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct deny d;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/pipe", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(inotify_add_watch(told, path, IN_OPEN) >= 0);
	assert_null(script_of(path, &d));
	deny_done(&d);
	assert_int_equal(read(told, event, sizeof(event)), -1);
	(void)close(told);
	(void)unlink(path);
	(void)rmdir(folder);
}

static void test_mount_line(void **state)
{
	static const struct {
		const char *line;
		uint64_t mount, dev;
		bool good;
	} cases[] = {
		{ "29 1 0:39 /@root / rw,relatime - btrfs /dev/vda rw,subvol=/@root", 29, 39, true },
		{ "29 1 259:3 / / rw - ext4 /dev/x rw", 29, 259u << 20 | 3, true },
		{ "129 1 0:39 / / rw - btrfs /dev/vda rw", 29, 0, false },
		{ "29 1", 29, 0, false },
		{ "x", 29, 0, false },
		{ "", 29, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		uint64_t dev = 0;

		if (deny_mount_dev(cases[i].line, cases[i].mount, &dev) != cases[i].good || dev != cases[i].dev)
			fail_msg("%s: %llu", cases[i].line, (unsigned long long)dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_script), cmocka_unit_test(test_no_file_is_not_opened), cmocka_unit_test(test_mount_line) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
