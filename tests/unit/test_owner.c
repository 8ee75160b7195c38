/* tests/unit/test_owner.c - whose right to write a group's is: by mode, by access list, by the machine's lists of users and groups. */
#include "daemon/base/owner.h"

#include "tests/support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

static void test_modes(void **state)
{
	static const struct {
		mode_t mode;
		bool none, own, other; /* with no group of our own; with the file's; with another */
	} rows[] = {
		{ 0600, true, true, true },	 { 0644, true, true, true },	{ 0755, true, true, true },   { 0664, false, true, false },
		{ 02775, false, true, false }, { 0622, false, false, false }, { 0602, false, false, false }, { 0666, false, false, false },
	};
	char path[] = "/tmp/pawl-owner-XXXXXX";
	int fd = mkstemp(path);
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		assert_int_equal(fchmod(fd, rows[i].mode), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(owner_only(&st, OWNER_NO_GROUP, path, -1), rows[i].none);
		assert_int_equal(owner_only(&st, st.st_gid, path, -1), rows[i].own);
		assert_int_equal(owner_only(&st, st.st_gid, NULL, fd), rows[i].own);
		assert_int_equal(owner_only(&st, st.st_gid + 1, path, -1), rows[i].other);
	}
	assert_int_equal(unlink(path), 0);
	(void)close(fd);
	assert_int_equal(st.st_mode & 020, 020); /* the last row; it cannot be asked for its list any more */
	st.st_mode &= ~(mode_t)02;
	assert_false(owner_only(&st, st.st_gid, path, -1));
}

/* user 4242 may write, and the mode says no more than "the group": the list's mask. */
static void test_access_list(void **state)
{
	static const unsigned char list[] = { 2, 0, 0, 0, /* version */
					      1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* owner rw */
					      2, 0, 6, 0, 0x92, 0x10, 0, 0, /* uid 4242 rw */
					      4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, /* group r */
					      16, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, /* mask rw */
					      32, 0, 4, 0, 0xff, 0xff, 0xff, 0xff }; /* others r */
	char path[] = "/tmp/pawl-owner-XXXXXX";
	int fd = mkstemp(path), r;
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	r = fsetxattr(fd, "system.posix_acl_access", list, sizeof(list), 0);
	if (r < 0 && errno == ENOTSUP) {
		(void)unlink(path);
		(void)close(fd);
		skip_aloud("a /tmp with access lists");
	}
	assert_int_equal(r, 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0664);
	assert_false(owner_only(&st, st.st_gid, path, -1));
	assert_false(owner_only(&st, st.st_gid, NULL, fd));
	assert_int_equal(unlink(path), 0);
	(void)close(fd);
}

/* ---- the machine's lists, with others in their place ---- */

static const char users[] = "root:x:0:0::/:/bin/sh\n"
			    "alone:x:1001:1001::/:/bin/sh\n"
			    "lists:x:1002:1002::/:/bin/sh\n"
			    "hosts:x:1003:1003::/:/bin/sh\n"
			    "guest:x:1004:1003::/:/bin/sh\n"
			    "twice:x:1005:1005::/:/bin/sh\n"
			    "alias:x:1005:1005::/:/bin/sh\n"
			    "named:x:1006:1006::/:/bin/sh\n"
			    "lost:x:1007:1007::/:/bin/sh\n";
static const char groups[] = "root:x:0:\n"
			     "alone:x:1001:\n"
			     "lists:x:1002:alone\n"
			     "hosts:x:1003:\n"
			     "twice:x:1005:\n"
			     "named:x:1006:named\n";
static const struct {
	uid_t uid;
	gid_t group;
} want[] = {
	{ 0, OWNER_NO_GROUP },	  { 1001, 1001 }, { 1002, OWNER_NO_GROUP }, /* its list has another */
	{ 1003, OWNER_NO_GROUP }, /* it is another's first group too */
	{ 1004, OWNER_NO_GROUP }, { 1005, 1005 }, /* two names, one user */
	{ 1006, 1006 },		  { 1007, OWNER_NO_GROUP }, /* a group without a row */
	{ 1008, OWNER_NO_GROUP },
};

static bool put_over(const char *path, const char *text, size_t n)
{
	char mine[] = "/tmp/pawl-owner-XXXXXX";
	int fd = mkstemp(mine);
	bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n && fchmod(fd, 0644) == 0 && mount(mine, path, NULL, MS_BIND, NULL) == 0;

	(void)close(fd);
	return unlink(mine) == 0 && ok; /* what is mounted stays */
}

static int look(void)
{
	if (!makes_private_mounts())
		return 100;
	if (!put_over("/etc/passwd", users, sizeof(users) - 1) || !put_over("/etc/group", groups, sizeof(groups) - 1))
		return 101;
	for (size_t i = 0; i < PAWL_LEN(want); i++)
		if (owner_group(want[i].uid) != want[i].group)
			return 1 + (int)i;
	return 0;
}

static void test_lists(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (!a_child_may(makes_private_mounts))
		skip_aloud(PRIVATE_MOUNTS);
	pid = fork();
	if (pid == 0)
		_exit(look());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_modes), cmocka_unit_test(test_access_list), cmocka_unit_test(test_lists) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
