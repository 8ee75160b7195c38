/* tests/unit/test_projection_build.c - a projection built beside the old one: it takes its place whole, or the old one stays. */
#include "tests/support/fail_malloc.h"
#include "tests/support/projection_world.h"

#include <signal.h>
#include <sys/wait.h>

static char path[512], fresh_path[512];

static int setup(void **state)
{
	(void)projection_setup(state);
	fx_path(dir, "projection.sqlite", path);
	fx_path(dir, "projection.sqlite-new", fresh_path);
	return 0;
}

static int add(struct projection *p, uint64_t n, struct pawl_error *err)
{
	int r = projection_begin(p, err);

	for (uint64_t i = 0; r == 0 && i < n; i++) {
		struct entry e = { .kind = ENTRY_THROTTLE, .seq = projection_applied(p) + i, .now = 1, .throttle = { .agent = STR("a"), .count = 1 } };

		r = projection_entry(p, &e, err);
	}
	return r < 0 ? r : projection_commit(p, NULL, err);
}

/* An old one with n rows; what SQLite keeps beside it may be there or not. */
static void old_one(uint64_t n)
{
	struct pawl_error err;
	struct projection *p;

	(void)unlink(fresh_path);
	assert_int_equal(projection_remove(path, &err), 0);
	p = open_good(path);
	assert_int_equal(add(p, n, &err), 0);
	projection_close(p);
}

static uint64_t rows(void)
{
	char *n = answer(path, "SELECT count(*)FROM throttle");
	uint64_t v = strtoull(n, NULL, 10);

	free(n);
	return v;
}

static struct projection *build(uint64_t n)
{
	struct projection *p = NULL;
	struct pawl_error err;

	if (projection_build(path, &p, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(projection_applied(p), 0);
	assert_int_equal(add(p, n, &err), 0);
	return p;
}

static bool is_there(const char *name)
{
	return access(name, F_OK) == 0;
}

static void test_takes_its_place(void **state)
{
	struct pawl_error err;
	struct projection *p;
	char wal[512];
	struct stat st;

	(void)state;
	fx_path(dir, "projection.sqlite-wal", wal);
	old_one(3);
	p = build(5);
	assert_int_equal(rows(), 3); /* until the end */
	if (projection_install(p, &err) < 0)
		fail_msg("%s", err.msg);
	assert_false(is_there(fresh_path) || is_there(wal));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(rows(), 5);
	p = open_good(path);
	assert_int_equal(projection_applied(p), 5);
	assert_int_equal(add(p, 2, &err), 0); /* and is used as any other */
	projection_close(p);
	assert_int_equal(rows(), 7);
	assert_int_equal(projection_remove(path, &err), 0);
	assert_int_equal(projection_install(build(2), &err), 0); /* where there was none */
	assert_int_equal(rows(), 2);
}

static void test_dropped(void **state)
{
	(void)state;
	old_one(3);
	projection_close(build(5));
	assert_false(is_there(fresh_path));
	assert_int_equal(rows(), 3);
}

static void test_busy(void **state)
{
	struct projection *p, *other = NULL;
	struct pawl_error err;
	sqlite3 *db = NULL;

	(void)state;
	old_one(3);
	p = open_good(path);
	assert_int_equal(projection_build(path, &other, &err), PAWL_E_BUSY);
	assert_false(is_there(fresh_path));
	projection_close(p);
	p = build(5);
	assert_int_equal(projection_open(path, &other, &err), PAWL_E_BUSY);
	assert_int_equal(projection_build(path, &other, &err), PAWL_E_BUSY);
	assert_int_equal(projection_remove(path, &err), PAWL_E_BUSY);
	assert_true(is_there(fresh_path)); /* the one that is being built is not taken for a leftover */
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM throttle", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(projection_install(p, &err), PAWL_E_BUSY);
	assert_non_null(strstr(err.msg, "somebody has it open"));
	sqlite3_close(db);
	assert_false(is_there(fresh_path));
	assert_int_equal(rows(), 3);
	assert_int_equal(projection_install(build(5), &err), 0);
	assert_null(other);
}

/* Killed with a transaction in its WAL: those rows are the old file's too, and the new one does not inherit them. */
static void test_old_with_a_wal(void **state)
{
	struct pawl_error err;
	int status;
	pid_t pid;

	(void)state;
	for (int installs = 0; installs < 2; installs++) {
		old_one(3);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct projection *p = NULL;

			if (projection_open(path, &p, &err) < 0 || add(p, 4, &err) < 0)
				_exit(1);
			(void)raise(SIGKILL);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		if (installs)
			assert_int_equal(projection_install(build(5), &err), 0);
		else
			projection_close(build(5));
		assert_int_equal(rows(), installs ? 5 : 7);
	}
}

static void test_old_is_damaged(void **state)
{
	struct pawl_error err;

	(void)state;
	old_one(3);
	fx_write(dir, "projection.sqlite", "this is no database at all, and it is long enough to be taken for one ........................", 95, 0600);
	fx_write(dir, "projection.sqlite-wal", "whatever", 8, 0600);
	assert_int_equal(projection_install(build(5), &err), 0);
	assert_int_equal(rows(), 5);
}

/* What a killed build left is nobody's; a folder of that name is somebody's. */
static void test_leftovers(void **state)
{
	struct projection *p = NULL;
	struct pawl_error err;

	(void)state;
	old_one(3);
	fx_write(dir, "projection.sqlite-new", "half", 4, 0600);
	fx_write(dir, "projection.sqlite-new-journal", "half", 4, 0600);
	assert_int_equal(projection_install(build(5), &err), 0);
	assert_int_equal(rows(), 5);
	assert_int_equal(mkdir(fresh_path, 0700), 0);
	assert_true(projection_build(path, &p, &err) < 0);
	assert_null(p);
	assert_int_equal(rmdir(fresh_path), 0);
	assert_int_equal(rows(), 5);
}

static void test_every_malloc(void **state)
{
	struct pawl_error err;

	(void)state;
	for (long n = 1, failed = 1; failed; n += 1 + n / 5) {
		struct projection *p = NULL;
		int r;

		old_one(3);
		err = (struct pawl_error){ .code = PAWL_OK };
		fail_malloc_after(n);
		r = projection_build(path, &p, &err);
		if (r == 0)
			r = add(p, 5, &err);
		if (r == 0)
			r = projection_install(p, &err);
		else
			projection_close(p);
		failed = fail_malloc_stop();
		if (r < 0 && err.code != PAWL_E_NOMEM)
			fail_msg("allocation %ld: %s", n, err.msg);
		assert_int_equal(rows(), r == 0 ? 5 : 3);
		assert_false(is_there(fresh_path));
	}
	for (long n = 1, failed = 1; failed; n += 1 + n / 10) { /* the last steps */
		struct projection *p;
		int r;

		old_one(3);
		p = build(5);
		fail_malloc_after(n);
		r = projection_install(p, &err);
		failed = fail_malloc_stop();
		assert_int_equal(rows(), r == 0 ? 5 : 3);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takes_its_place), cmocka_unit_test(test_dropped),	  cmocka_unit_test(test_busy),
		cmocka_unit_test(test_old_with_a_wal),	cmocka_unit_test(test_old_is_damaged), cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_every_malloc),
	};

	return cmocka_run_group_tests(tests, setup, projection_teardown);
}
