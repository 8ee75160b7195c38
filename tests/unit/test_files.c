/* tests/unit/test_files.c - what the loader of a policy may be given from this machine's files, and what not. */
#include "daemon/base/files.h"
#include "daemon/base/owner.h"

#include "tests/support/fail_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct folder {
	char path[64];
};

static const char *in(const struct folder *f, const char *name, char out[static 128])
{
	(void)snprintf(out, 128, "%s/%s", f->path, name);
	return out;
}

static void put(const struct folder *f, const char *name, size_t n, mode_t mode)
{
	char path[128];
	FILE *file = fopen(in(f, name, path), "wb");

	assert_non_null(file);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(fputc('x', file), 'x');
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static int fill(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));
	char path[128];

	assert_non_null(f);
	(void)snprintf(f->path, sizeof(f->path), "/tmp/pawl-files-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	put(f, "good", 5000, 0644);
	put(f, "empty", 0, 0600);
	put(f, "full", 64 << 10, 0644);
	put(f, "large", (64 << 10) + 1, 0644);
	put(f, "group", 5, 0664);
	put(f, "world", 5, 0646);
	assert_int_equal(symlink("good", in(f, "link", path)), 0);
	assert_int_equal(symlink("world", in(f, "bad-link", path)), 0);
	assert_int_equal(mkfifo(in(f, "fifo", path), 0600), 0);
	assert_int_equal(mkdir(in(f, "folder", path), 0700), 0);
	*state = f;
	return 0;
}

static int clear(void **state)
{
	static const char *const names[] = { "good",  "empty", "full",     "large", "group",
					     "world", "link",  "bad-link", "fifo" };
	struct folder *f = *state;
	char path[128];

	for (size_t i = 0; i < PAWL_LEN(names); i++)
		(void)unlink(in(f, names[i], path));
	(void)rmdir(in(f, "folder", path));
	(void)rmdir(f->path);
	free(f);
	return 0;
}

static void test_reads(void **state)
{
	static const struct {
		const char *name;
		int code;
		size_t n;
	} rows[] = {
		{ "good", 0, 5000 },
		{ "empty", 0, 0 },
		{ "full", 0, 64 << 10 },
		{ "link", 0, 5000 }, /* time zones are links */
		{ "large", PAWL_E_LIMIT, 0 },
		{ "group", PAWL_E_UNSAFE, 0 },
		{ "world", PAWL_E_UNSAFE, 0 },
		{ "bad-link", PAWL_E_UNSAFE, 0 },
		{ "fifo", PAWL_E_UNSAFE, 0 }, /* and it does not wait for a writer */
		{ "folder", PAWL_E_UNSAFE, 0 },
		{ "nothing", PAWL_E_SYS, 0 },
	};
	struct policy_files files = policy_files_system(OWNER_NO_GROUP);

	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		char path[128], *bytes = NULL;
		struct pawl_error err;
		size_t n = 77;
		int r = files.read(files.arg, in(*state, rows[i].name, path), &bytes, &n, &err);

		if (r != rows[i].code || (r == 0) != (bytes != NULL) || n != (r ? 77 : rows[i].n))
			fail_msg("%s: %d, %zu bytes", rows[i].name, r, n);
		free(bytes);
	}
}

/* By what the folder is, not by its name; both the way as written and the one behind a link. */
static void test_holds(void **state)
{
	static const struct {
		const char *folder, *file;
		int want;
	} rows[] = {
		{ "", "good", 1 },	 { "folder", "good", 0 },	    { "folder", "folder/in", 1 },   { "folder", "out", 1 },
		{ "", "folder/in", 1 },	 { "alias", "folder/in", 1 },	    { "folder", "alias/in", 1 },    { "nothing", "good", 0 },
		{ "good", "good", 1 },	 { "good/x", "good", 0 },	    { "folder", "nothing", PAWL_E_SYS }, { "folder/up", "good", 1 },
		{ "folder", "folder/away", 1 }, /* who can write there turns the link */
	};
	struct policy_files files = policy_files_system(OWNER_NO_GROUP);
	char a[128], b[128];

	put(*state, "folder/in", 5, 0644);
	assert_int_equal(symlink("folder/in", in(*state, "out", a)), 0);
	assert_int_equal(symlink("folder", in(*state, "alias", a)), 0);
	assert_int_equal(symlink("..", in(*state, "folder/up", a)), 0);
	assert_int_equal(symlink("../good", in(*state, "folder/away", a)), 0);
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct pawl_error err;
		int r = files.holds(files.arg, in(*state, rows[i].folder, a), in(*state, rows[i].file, b), &err);

		if (r != rows[i].want)
			fail_msg("%s in %s: %d", rows[i].file, rows[i].folder, r);
	}
	assert_int_equal(files.holds(files.arg, "/", in(*state, "good", a), NULL), 1);
	for (const char *name = "folder/in\0out\0alias\0folder/up\0folder/away\0"; *name; name += strlen(name) + 1)
		(void)unlink(in(*state, name, a));
}

static void test_no_memory(void **state)
{
	struct policy_files files = policy_files_system(OWNER_NO_GROUP);
	char path[128];
	bool failed = true;
	long refused = 0;

	(void)in(*state, "good", path);
	for (long n = 1; failed; n++) {
		char *bytes = NULL;
		size_t size = 0;
		int r;

		fail_malloc_after(n);
		r = files.read(files.arg, path, &bytes, &size, NULL);
		failed = fail_malloc_stop();
		refused += r == PAWL_E_NOMEM;
		assert_true(r == (failed ? PAWL_E_NOMEM : 0) && (r == 0) == (bytes != NULL));
		free(bytes);
	}
	assert_true(refused > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, fill, clear);
}
