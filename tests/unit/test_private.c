/* tests/unit/test_private.c - the private store: rows survive a restart, the file is ours alone, damage and a full disk
 * have names. */
#include "tests/support/log_fixture.h"

#include "daemon/store/private.h"
#include "tests/support/fail_malloc.h"

#include <sqlite3.h>

static char dir[64], path[512];

static int setup(void **state)
{
	(void)state;
	fx_dir(dir);
	fx_path(dir, "private.db", path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fx_remove(dir);
	return 0;
}

static struct private_store *open_good(void)
{
	struct private_store *ps;
	struct pawl_error err;

	if (private_open(path, &ps, &err) < 0)
		fail_msg("%s", err.msg);
	return ps;
}

static void fill(struct private_row *rows, uint64_t first, size_t n, uint8_t salt)
{
	for (size_t i = 0; i < n; i++) {
		rows[i] = (struct private_row){ .tree = first + i };
		memset(rows[i].secret, (int)(first + i + salt), 32);
	}
}

struct expect {
	uint64_t next;
	size_t n;
	uint8_t salt;
};

static int check(void *arg, const struct private_row *row, struct pawl_error *err)
{
	struct expect *e = arg;

	(void)err;
	assert_int_equal(row->tree, e->next);
	for (int i = 0; i < 32; i++)
		assert_int_equal(row->secret[i], (uint8_t)(row->tree + e->salt));
	e->next++;
	e->n++;
	return 0;
}

static size_t count(struct private_store *ps, uint64_t first, uint8_t salt)
{
	struct expect e = { .next = first, .salt = salt };
	struct pawl_error err;

	if (private_each(ps, check, &e, &err) < 0)
		fail_msg("%s", err.msg);
	return e.n;
}

static void test_rows(void **state)
{
	struct private_row rows[50];
	struct private_store *ps = open_good();
	struct pawl_error err;
	struct stat st;

	(void)state;
	fill(rows, 1, 50, 0);
	assert_int_equal(private_put(ps, rows, 50, &err), 0);
	assert_int_equal(count(ps, 1, 0), 50);
	assert_int_equal(private_put(ps, rows, 0, &err), 0);
	fill(rows, 1, 50, 3); /* the same trees again: replaced */
	assert_int_equal(private_put(ps, rows, 50, &err), 0);
	private_close(ps);
	ps = open_good();
	assert_int_equal(count(ps, 1, 3), 50);
	assert_int_equal(private_trim(ps, 41, &err), 0);
	assert_int_equal(count(ps, 1, 3), 40);
	assert_int_equal(private_trim(ps, UINT64_MAX, &err), 0);
	assert_int_equal(count(ps, 1, 3), 40);
	rows[0].tree = UINT64_MAX; /* does not fit; and then nothing of the batch is there */
	fill(rows + 1, 90, 1, 3);
	assert_true(private_put(ps, rows, 2, &err) < 0);
	assert_int_equal(count(ps, 1, 3), 40);
	private_close(ps);
	private_close(NULL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

struct values {
	size_t n;
	uint64_t seq;
	char last[64];
};

static int note_value(void *arg, const struct private_row *row, struct pawl_error *err)
{
	struct values *v = arg;

	(void)err;
	assert_true(row->seq > v->seq);
	v->seq = row->seq;
	v->n++;
	(void)snprintf(v->last, sizeof(v->last), "%llu:%.*s", (unsigned long long)row->tree, STR_ARG(row->value));
	return 0;
}

/* A card's arguments: kept beside the secrets, replaced under the same number, and trimmed with what was never answered. */
static void test_values(void **state)
{
	struct private_row rows[] = { { .tree = 1, .secret = { 1 } },
				      { .tree = 1, .seq = 5, .value = STR("{\"a\":1}") },
				      { .tree = 1, .seq = 9, .value = STR("old") } };
	struct private_row again = { .tree = 1, .seq = 9, .value = STR("new") };
	struct private_store *ps = open_good();
	struct values v = { 0 };
	struct pawl_error err;

	(void)state;
	assert_int_equal(private_put(ps, rows, 3, &err), 0);
	assert_int_equal(private_put(ps, &again, 1, &err), 0);
	assert_int_equal(private_values(ps, note_value, &v, &err), 0);
	assert_int_equal(v.n, 2);
	assert_string_equal(v.last, "1:new");
	assert_int_equal(private_trim(ps, 9, &err), 0);
	v = (struct values){ 0 };
	assert_int_equal(private_values(ps, note_value, &v, &err), 0);
	assert_string_equal(v.last, "1:{\"a\":1}");
	assert_int_equal(private_trim(ps, 0, &err), 0); /* the other tests share the file */
	private_close(ps);
}

static bool file_has(const char *what)
{
	static char bytes[1 << 20];
	FILE *f = fopen(path, "rb");
	size_t n, len = strlen(what);

	assert_non_null(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	assert_int_equal(fclose(f), 0);
	for (size_t i = 0; i + len <= n; i++)
		if (memcmp(bytes + i, what, len) == 0)
			return true;
	return false;
}

/* What is dropped is overwritten, not only unlinked; the rest stays. */
static void test_drop(void **state)
{
	struct private_row rows[] = { { .tree = 1, .seq = 5, .value = STR("{\"amount\":1111}") },
				      { .tree = 1, .seq = 6, .value = STR("{\"amount\":2222}") },
				      { .tree = 2, .seq = 9, .value = STR("{\"amount\":3333}") } };
	const uint64_t gone[] = { 9, 5, 7, UINT64_MAX };
	struct private_store *ps = open_good();
	struct values v = { 0 };
	struct pawl_error err;

	(void)state;
	assert_int_equal(private_put(ps, rows, 3, &err), 0);
	assert_true(file_has("1111") && file_has("2222") && file_has("3333"));
	assert_int_equal(private_drop(ps, gone, 0, &err), 0);
	assert_int_equal(private_drop(ps, gone, 4, &err), 0);
	assert_false(file_has("1111") || file_has("3333"));
	assert_int_equal(private_values(ps, note_value, &v, &err), 0);
	assert_int_equal(v.n, 1);
	assert_string_equal(v.last, "1:{\"amount\":2222}");
	assert_int_equal(private_trim(ps, 0, &err), 0);
	private_close(ps);
}

/* Start and stop write down how long the log is. */
static void test_mark(void **state)
{
	struct private_store *ps = open_good();
	struct pawl_error err;
	uint64_t n = 7;

	(void)state;
	assert_int_equal(private_marked(ps, &n, &err), 0);
	assert_int_equal(n, 0);
	assert_int_equal(private_mark(ps, 41, &err), 0);
	assert_int_equal(private_mark(ps, 42, &err), 0);
	assert_int_equal(private_mark(ps, UINT64_MAX, &err), PAWL_E_LIMIT);
	private_close(ps);
	ps = open_good();
	assert_int_equal(private_marked(ps, &n, &err), 0);
	assert_int_equal(n, 42);
	private_close(ps);
}

static int stop_at_two(void *arg, const struct private_row *row, struct pawl_error *err)
{
	(void)row;
	return ++*(int *)arg == 2 ? pawl_fail(err, PAWL_E_LIMIT, "two") : 0;
}

static void test_visit_stops(void **state)
{
	struct private_store *ps = open_good();
	struct pawl_error err;
	int n = 0;

	(void)state;
	assert_int_equal(private_each(ps, stop_at_two, &n, &err), PAWL_E_LIMIT);
	assert_int_equal(n, 2);
	private_close(ps);
}

/* A redacted secret is gone from the file, not only from the table. */
static void test_secure_delete(void **state)
{
	struct private_row row = { .tree = 1000 };
	struct private_store *ps = open_good();
	struct pawl_error err;
	uint8_t *p;
	size_t n;

	(void)state;
	memcpy(row.secret, "a secret that must leave no trac", 32);
	assert_int_equal(private_put(ps, &row, 1, &err), 0);
	p = fx_read(dir, "private.db", &n);
	assert_non_null(memmem(p, n, row.secret, 32));
	free(p);
	assert_int_equal(private_trim(ps, 1000, &err), 0);
	private_close(ps);
	p = fx_read(dir, "private.db", &n);
	assert_null(memmem(p, n, row.secret, 32));
	free(p);
}

static void test_full(void **state)
{
	struct private_row *rows = calloc(3000, sizeof(*rows));
	struct private_store *ps = open_good();
	struct pawl_error err;
	size_t before = count(ps, 1, 3);

	(void)state;
	assert_non_null(rows);
	fill(rows, 5000, 3000, 0);
	assert_int_equal(private_limit(ps, 8, &err), 0);
	assert_int_equal(private_put(ps, rows, 3000, &err), PAWL_E_FULL);
	assert_non_null(strstr(err.msg, "private.db"));
	assert_int_equal(count(ps, 1, 3), before); /* all or nothing, and it lives on */
	assert_int_equal(private_limit(ps, 1 << 20, &err), 0);
	assert_int_equal(private_put(ps, rows, 3000, &err), 0);
	assert_int_equal(private_trim(ps, 5000, &err), 0);
	assert_int_equal(count(ps, 1, 3), before);
	private_close(ps);
	free(rows);
}

/* What is recorded: read while the writer has the file, kept where cards' values are dropped, gone with its tree alone. */
static void test_records(void **state)
{
	struct private_row rows[] = { { .tree = 7, .secret = { 7 } },
				      { .tree = 7, .seq = 9, .value = STR("card 9") },
				      { .tree = 7, .seq = 9, .value = STR("record 9"), .record = true },
				      { .tree = 8, .seq = 10, .value = STR("record 10"), .record = true },
				      { .tree = 8, .seq = 11, .value = STR("bad \xff"), .record = true } };
	struct private_store *ps = open_good();
	struct private_reader *pr = NULL;
	struct buf out = BUF_MAX(100);
	struct values v = { 0 };
	struct pawl_error err;
	size_t n = 7;

	(void)state;
	assert_int_equal(private_put(ps, rows, 5, &err), 0);
	assert_int_equal(private_values(ps, note_value, &v, &err), 0);
	assert_true(v.n == 1 && strcmp(v.last, "7:card 9") == 0); /* a start asks for these, and drops those that no card needs */
	assert_int_equal(private_drop(ps, (uint64_t[]){ 9, 10 }, 2, &err), 0);
	assert_int_equal(private_reader_open(path, &pr, &err), 0);
	assert_int_equal(private_record(pr, 9, &out, &err), 1);
	assert_true(str_is(buf_str(&out), "record 9") && !file_has("card 9"));
	assert_int_equal(private_record(pr, 12, &out, &err), 0);
	assert_int_equal(private_record(pr, UINT64_MAX, &out, &err), 0);
	assert_int_equal(private_record(pr, 11, &out, &err), PAWL_E_MALFORMED);
	assert_int_equal(private_forget(ps, 7, &n, &err), 0); /* and the reader is no hindrance */
	assert_int_equal(private_record(pr, 9, &out, &err), 0);
	assert_int_equal(private_record(pr, 10, &out, &err), 1);
	assert_int_equal(n, 2); /* its secret and its record: the card's value was dropped before */
	assert_false(file_has("record 9"));
	assert_int_equal(private_forget(ps, 99, &n, &err), 0);
	assert_int_equal(n, 0);
	assert_int_equal(private_forget(ps, UINT64_MAX, &n, &err), PAWL_E_LIMIT);
	assert_int_equal(private_trim(ps, 10, &err), 0);
	assert_int_equal(private_record(pr, 10, &out, &err), 0);
	assert_int_equal(private_trim(ps, 0, &err), 0);
	private_reader_close(pr);
	private_reader_close(NULL);
	private_close(ps);
	assert_int_equal(private_record(NULL, 9, &out, &err), 0);
	pr = (struct private_reader *)&err;
	assert_int_equal(private_reader_open("/nowhere/private.sqlite", &pr, &err), 0);
	assert_null(pr);
	assert_int_equal(private_reader_open(dir, &pr, &err), PAWL_E_UNSAFE);
	buf_done(&out);
}

/* A store of before there were records gets their table, and keeps what it has; a reader finds nothing in it before that. */
static void test_older(void **state)
{
	struct private_row row = { .tree = 3, .secret = { 3 } };
	struct private_store *ps = open_good();
	struct private_reader *pr = NULL;
	struct values v = { 0 };
	struct pawl_error err;
	sqlite3 *db;

	(void)state;
	assert_int_equal(private_put(ps, &row, 1, &err), 0);
	private_close(ps);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "INSERT INTO value VALUES(5, 3, x'61'); DROP TABLE record; PRAGMA user_version=2", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	assert_int_equal(private_reader_open(path, &pr, &err), 0);
	assert_null(pr);
	ps = open_good();
	assert_int_equal(private_values(ps, note_value, &v, &err), 0);
	assert_int_equal(v.n, 1);
	row = (struct private_row){ .tree = 3, .seq = 5, .value = STR("x"), .record = true };
	assert_int_equal(private_put(ps, &row, 1, &err), 0);
	assert_int_equal(private_trim(ps, 0, &err), 0);
	private_close(ps);
}

static void test_second_opener(void **state)
{
	struct private_store *ps = open_good(), *other = NULL;
	struct pawl_error err;

	(void)state;
	assert_int_equal(private_open(path, &other, &err), PAWL_E_BUSY);
	assert_null(other);
	private_close(ps);
}

static void test_unsafe(void **state)
{
	static const mode_t bad[] = { 0640, 0644, 0604, 0660 };
	struct private_store *ps = NULL;
	struct pawl_error err;
	char other[512];

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(bad); i++) {
		assert_int_equal(chmod(path, bad[i]), 0);
		assert_int_equal(private_open(path, &ps, &err), PAWL_E_UNSAFE);
	}
	assert_int_equal(chmod(path, 0600), 0);
	fx_path(dir, "link", other);
	assert_int_equal(symlink(path, other), 0);
	assert_true(private_open(other, &ps, &err) < 0); /* another name for it is not it */
	fx_path(dir, "absent/private.db", other);
	assert_int_equal(private_open(other, &ps, &err), PAWL_E_SYS);
	assert_non_null(strstr(err.msg, "private.db"));
	assert_null(ps);
}

/* The 1st, the 2nd, … allocation fails, SQLite's among them. */
static void test_every_malloc(void **state)
{
	struct private_row row;

	(void)state;
	fill(&row, 60, 1, 3);
	for (long n = 1;; n++) {
		struct private_store *ps = NULL;
		struct pawl_error err;
		int r;

		fail_malloc_after(n);
		r = private_open(path, &ps, &err);
		if (r == 0)
			r = private_put(ps, &row, 1, &err);
		if (r == 0)
			r = private_trim(ps, 60, &err);
		private_close(ps);
		if (!fail_malloc_stop()) {
			assert_int_equal(r, 0);
			assert_true(n > 5);
			break;
		}
		/* SQLite lives without some of its memory: then it must have worked */
		if (r < 0)
			assert_true(err.code == PAWL_E_NOMEM || strstr(err.msg, "private.db"));
		ps = open_good();
		assert_int_equal(private_trim(ps, 41, &err), 0);
		assert_int_equal(count(ps, 1, 3), 40);
		private_close(ps);
	}
}

/* Damage is told with the file's name, or does no harm; it is never a crash. */
static void test_damaged(void **state)
{
	struct private_store *ps = open_good();
	struct pawl_error err;
	unsigned refused = 0;
	uint8_t *p;
	size_t n;

	(void)state;
	private_close(ps);
	p = fx_read(dir, "private.db", &n);
	for (size_t i = 0; i < n; i += 41) {
		uint8_t old = p[i];

		p[i] ^= 0xff;
		fx_write(dir, "private.db", p, n, 0600);
		ps = NULL;
		if (private_open(path, &ps, &err) < 0) {
			refused++;
			assert_non_null(strstr(err.msg, "private.db"));
			assert_null(ps);
		}
		private_close(ps);
		p[i] = old;
	}
	assert_true(refused > 3);
	fx_write(dir, "private.db",
		 "this is no database at all, and it is long enough to be taken for one ........................", 95,
		 0600);
	assert_int_equal(private_open(path, &ps, &err), PAWL_E_MALFORMED);
	fx_write(dir, "private.db", p, n / 2, 0600);
	assert_true(private_open(path, &ps, &err) < 0);
	memcpy(p + 68, "\0\0\0\x07", 4); /* another program's database */
	fx_write(dir, "private.db", p, n, 0600);
	assert_int_equal(private_open(path, &ps, &err), PAWL_E_MALFORMED);
	free(p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	     cmocka_unit_test(test_drop),	  cmocka_unit_test(test_mark),
		cmocka_unit_test(test_records),	     cmocka_unit_test(test_older),	  cmocka_unit_test(test_rows),
		cmocka_unit_test(test_visit_stops),  cmocka_unit_test(test_secure_delete), cmocka_unit_test(test_full),
		cmocka_unit_test(test_second_opener), cmocka_unit_test(test_unsafe),	  cmocka_unit_test(test_every_malloc),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
