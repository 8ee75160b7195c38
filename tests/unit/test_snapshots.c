/* tests/unit/test_snapshots.c - snapshots' bytes in the projection: out as they came in, two are kept and one of them vouched for, and
 * what somebody edits is found out before it is believed. */
#include "tests/support/fail_malloc.h"
#include "tests/support/projection_world.h"

#define PART PROJECTION_PART

static char path[512];
static struct projection *p;

static int setup(void **state)
{
	(void)projection_setup(state);
	fx_path(dir, "projection.sqlite", path);
	return 0;
}

static int fresh(void **state)
{
	struct pawl_error err;

	(void)state;
	if (projection_remove(path, &err) < 0)
		fail_msg("%s", err.msg);
	p = open_good(path);
	return 0;
}

static int end(void **state)
{
	(void)state;
	projection_close(p);
	p = NULL;
	return 0;
}

static uint8_t byte_at(uint64_t salt, uint64_t i)
{
	return (uint8_t)((i + salt) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

static void sha_of(uint64_t at, uint8_t out[static 32])
{
	for (unsigned i = 0; i < 32; i++)
		out[i] = byte_at(at + 7, i);
}

/* In pieces of `piece` bytes. */
static int store(uint64_t at, size_t n, size_t piece, struct pawl_error *err)
{
	uint8_t *bytes = malloc(n + 1), sha[32];
	int r = projection_begin(p, err);

	assert_non_null(bytes);
	for (size_t i = 0; i < n; i++)
		bytes[i] = byte_at(at, i);
	sha_of(at, sha);
	if (r == 0)
		r = projection_snapshot_begin(p, at, err);
	for (size_t i = 0; r == 0 && i < n; i += piece)
		r = projection_snapshot_add(p, bytes + i, n - i < piece ? n - i : piece, err);
	if (r == 0)
		r = projection_snapshot_end(p, sha, err);
	r = r < 0 ? r : projection_commit(p, NULL, err);
	if (r < 0)
		projection_rollback(p);
	free(bytes);
	return r;
}

static void vouch(uint64_t at, uint64_t entry)
{
	struct pawl_error err;

	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(projection_snapshot_logged(p, at, entry, &err), 0);
	assert_int_equal(projection_commit(p, NULL, &err), 0);
}

static size_t list(struct projection_snapshot out[static 4])
{
	struct pawl_error err;
	size_t n = 99;

	if (projection_snapshots(p, out, 4, &n, &err) < 0)
		fail_msg("%s", err.msg);
	return n;
}

struct seen {
	uint64_t at, n;
	size_t stop_after;
};

static int look(void *arg, const void *bytes, size_t n, struct pawl_error *err)
{
	struct seen *s = arg;

	assert_true(n > 0 && n <= PART);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(((const uint8_t *)bytes)[i], byte_at(s->at, s->n + i));
	s->n += n;
	return s->stop_after && --s->stop_after == 0 ? pawl_fail(err, PAWL_E_CONFLICT, "enough") : 0;
}

static void test_round_trip(void **state)
{
	static const struct {
		size_t n, piece;
	} rows[] = { { 0, 1 },	       { 1, 1 },	 { PART - 1, 4096 },	{ PART, PART },	    { PART, 1000 },
		     { PART + 1, 77777 }, { 2 * PART, 2 * PART }, { 3 * PART + 5, 65536 }, { 5 * PART + 1, 5 * PART + 1 } };
	struct projection_snapshot s[4];
	struct pawl_error err;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct seen seen = { .at = 100 + i };
		uint8_t sha[32];

		if (store(100 + i, rows[i].n, rows[i].piece, &err) < 0)
			fail_msg("%s", err.msg);
		vouch(100 + i, 200 + i);
		projection_close(p);
		p = open_good(path);
		assert_int_equal(list(s), i ? 2 : 1);
		assert_int_equal(s[0].at, 100 + i);
		assert_int_equal(s[0].entry, 200 + i);
		assert_int_equal(s[0].bytes, rows[i].n);
		sha_of(100 + i, sha);
		assert_memory_equal(s[0].sha256, sha, 32);
		assert_int_equal(projection_snapshot_read(p, &s[0], look, &seen, &err), 0);
		assert_int_equal(seen.n, rows[i].n);
	}
}

static void test_visitor_stops(void **state)
{
	struct projection_snapshot s[4];
	struct seen seen = { .at = 5, .stop_after = 2 };
	struct pawl_error err;

	(void)state;
	assert_int_equal(store(5, 3 * PART, PART, &err), 0);
	assert_int_equal(list(s), 1);
	assert_int_equal(projection_snapshot_read(p, &s[0], look, &seen, &err), PAWL_E_CONFLICT);
	assert_int_equal(seen.n, 2 * PART);
}

/* The newest that an entry vouches for stays until the next one is vouched for too. */
static void test_two_are_kept(void **state)
{
	struct projection_snapshot s[4];
	struct pawl_error err;
	char *parts;

	(void)state;
	assert_int_equal(store(10, 100, 100, &err), 0);
	assert_int_equal(list(s), 1);
	assert_int_equal(s[0].entry, 0);
	assert_int_equal(store(20, 2 * PART, PART, &err), 0); /* 10 was never vouched for */
	assert_int_equal(list(s), 1);
	vouch(20, 21);
	assert_int_equal(store(30, 100, 100, &err), 0);
	assert_int_equal(store(40, 100, 100, &err), 0);
	assert_int_equal(list(s), 2);
	assert_int_equal(s[0].at, 40);
	assert_int_equal(s[1].at, 20);
	vouch(40, 41);
	assert_int_equal(store(50, PART + 1, PART, &err), 0);
	assert_int_equal(list(s), 2);
	assert_int_equal(s[0].at, 50);
	assert_int_equal(s[1].at, 40);
	assert_int_equal(store(50, 7, 7, &err), 0); /* once more, shorter: nothing of the first one is left */
	parts = answer(path, "SELECT at,part,length(bytes)FROM snapshot_part ORDER BY 1,2");
	assert_string_equal(parts, "40|0|100\n50|0|7\n");
	free(parts);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(projection_snapshot_logged(p, 20, 21, &err), PAWL_E_LIMIT);
	projection_rollback(p);
}

static void test_order_of_calls(void **state)
{
	uint8_t sha[32] = { 0 };
	struct projection_snapshot s[4];
	struct pawl_error err;

	(void)state;
	assert_int_equal(projection_snapshot_begin(p, 1, &err), PAWL_E_USAGE);
	assert_int_equal(projection_snapshot_add(p, "x", 1, &err), PAWL_E_USAGE);
	assert_int_equal(projection_snapshot_end(p, sha, &err), PAWL_E_USAGE);
	assert_int_equal(projection_snapshot_logged(p, 1, 1, &err), PAWL_E_USAGE);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(projection_snapshot_add(p, "x", 1, &err), PAWL_E_USAGE);
	assert_int_equal(projection_snapshot_begin(p, 1, &err), 0);
	assert_int_equal(projection_snapshot_begin(p, 2, &err), PAWL_E_USAGE);
	assert_int_equal(projection_snapshot_add(p, "x", 1, &err), 0);
	assert_int_equal(projection_commit(p, NULL, &err), PAWL_E_USAGE); /* half a snapshot is none */
	projection_rollback(p);
	assert_int_equal(list(s), 0);
	assert_int_equal(store(3, 10, 3, &err), 0); /* nothing of it sticks to the next */
	assert_int_equal(list(s), 1);
	assert_int_equal(s[0].bytes, 10);
	assert_int_equal(projection_begin(p, &err), 0);
	assert_int_equal(projection_snapshot_begin(p, UINT64_MAX, &err), PAWL_E_LIMIT);
	projection_rollback(p);
}

/* ---- edited ---- */

static int read_newest(struct pawl_error *err)
{
	struct projection_snapshot s[4];
	struct seen seen = { .at = 5 };
	size_t n = 0;
	int r = projection_snapshots(p, s, 4, &n, err);

	if (r < 0)
		return r;
	assert_true(n > 0);
	return projection_snapshot_read(p, &s[0], look, &seen, err);
}

static void test_edited(void **state)
{
	static const char *const edits[] = {
		"DELETE FROM snapshot_part WHERE part=0",
		"DELETE FROM snapshot_part WHERE part=1",
		"DELETE FROM snapshot_part WHERE part=3",
		"DELETE FROM snapshot_part",
		"INSERT INTO snapshot_part SELECT at,4,bytes FROM snapshot_part WHERE part=3",
		"UPDATE snapshot_part SET part=-1 WHERE part=0",
		"UPDATE snapshot_part SET part=7 WHERE part=3",
		"UPDATE snapshot_part SET bytes=x'' WHERE part=3",
		"UPDATE snapshot_part SET bytes=CAST(bytes||x'00' AS BLOB) WHERE part=3",
		"UPDATE snapshot_part SET bytes=substr(bytes,2) WHERE part=1",
		"UPDATE snapshot_part SET bytes=zeroblob(5000000) WHERE part=1",
		"UPDATE snapshot SET bytes=bytes-1",
		"UPDATE snapshot SET bytes=bytes+1",
		"UPDATE snapshot SET bytes=-1",
		"UPDATE snapshot SET bytes=9223372036854775807",
		"UPDATE snapshot SET sha256=x'00'",
		"UPDATE snapshot SET sha256=zeroblob(33)",
		"UPDATE snapshot SET entry=4",
		"UPDATE snapshot SET entry=-1",
		"UPDATE snapshot SET at=-5",
		"UPDATE snapshot SET at=6",
		"WITH RECURSIVE n(i)AS(SELECT 6 UNION ALL SELECT i+1 FROM n WHERE i<1000)INSERT INTO snapshot SELECT i,NULL,0,zeroblob(32)FROM n",
	};
	struct pawl_error err;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(edits); i++) {
		(void)end(state);
		(void)fresh(state);
		assert_int_equal(store(5, 3 * PART + 9, PART, &err), 0);
		vouch(5, 6);
		assert_int_equal(read_newest(&err), 0);
		edit(path, edits[i]);
		if (read_newest(&err) != PAWL_E_MALFORMED)
			fail_msg("%s: %s", edits[i], err.msg);
		(void)end(state); /* and a new one can be stored over it */
		p = open_good(path);
		assert_int_equal(store(5000, 4, 4, &err), 0);
	}
}

/* A page of it is overwritten: told, or other bytes, which the hash is there for. Never a crash, never more bytes than were said. */
static int count_bytes(void *arg, const void *bytes, size_t n, struct pawl_error *err)
{
	(void)bytes;
	(void)err;
	*(uint64_t *)arg += n;
	return 0;
}

static void test_damaged(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	unsigned told = 0, other = 0;
	uint8_t *good, *bad;
	size_t n;

	(void)state;
	assert_int_equal(store(5, PART + 9, PART, &err), 0);
	(void)end(state);
	good = fx_read(dir, "projection.sqlite", &n);
	bad = malloc(n);
	assert_non_null(bad);
	for (size_t page = 0; page < n; page += 4096) {
		struct projection_snapshot s[4];
		uint64_t bytes = 0;
		size_t k = 0;
		int r;

		memcpy(bad, good, n);
		memset(bad + page, 0xa5, 4096);
		fx_write(dir, "projection.sqlite", bad, n, 0600);
		r = projection_open(path, &p, &err);
		if (r == 0)
			r = projection_snapshots(p, s, 4, &k, &err);
		if (r == 0 && k)
			r = projection_snapshot_read(p, &s[0], count_bytes, &bytes, &err);
		assert_true(bytes <= PART + 9);
		if (r < 0)
			assert_int_equal(r, PAWL_E_MALFORMED);
		*(r < 0 ? &told : &other) += 1;
		(void)end(state);
		assert_int_equal(projection_remove(path, &err), 0);
	}
	assert_true(told > 20 && other > 0);
	free(good);
	free(bad);
}

/* ---- what cannot be had ---- */

static void test_full(void **state)
{
	struct projection_snapshot s[4];
	struct pawl_error err;
	char *pages;

	(void)state;
	assert_int_equal(store(1, 1000, 1000, &err), 0);
	vouch(1, 2);
	pages = answer(path, "PRAGMA page_count");
	for (int64_t more = 0; more < 3 * 256; more += 37) {
		assert_int_equal(projection_limit(p, strtoll(pages, NULL, 10) + more, &err), 0);
		assert_int_equal(store(9, 3 * PART, 100000, &err), PAWL_E_FULL);
		assert_int_equal(list(s), 1);
		assert_int_equal(s[0].at, 1);
	}
	free(pages);
	assert_int_equal(projection_limit(p, 1 << 20, &err), 0);
	assert_int_equal(store(9, 3 * PART, 100000, &err), 0);
	assert_int_equal(list(s), 2);
}

static void test_every_malloc(void **state)
{
	struct projection_snapshot s[4];
	struct pawl_error err;
	long n = 1, no_list = 0, no_read = 0;

	(void)state;
	for (bool failed = true; failed; n++) {
		struct seen seen = { .at = 5 };
		size_t k = 0;
		int r;

		assert_int_equal(store(5, PART + 3, PART, &err), 0);
		(void)end(state);
		p = open_good(path);
		err = (struct pawl_error){ .code = PAWL_OK };
		fail_malloc_after(n);
		r = projection_snapshots(p, s, 4, &k, &err);
		no_list += r < 0;
		if (r == 0)
			no_read += (r = projection_snapshot_read(p, &s[0], look, &seen, &err)) < 0;
		failed = fail_malloc_stop();
		if (r < 0 && r != PAWL_E_NOMEM) /* never "damaged": that would cost the file */
			fail_msg("allocation %ld: %s", n, err.msg);
		if (r == 0)
			assert_int_equal(seen.n, PART + 3);
	}
	assert_true(no_list > 0 && no_read > 0); /* how many of each depends on SQLite's version */
}

static void test_no_memory_for_a_part(void **state)
{
	struct projection_snapshot s[4];
	struct pawl_error err;

	(void)state;
	assert_int_equal(projection_begin(p, &err), 0);
	fail_malloc_after(1);
	assert_int_equal(projection_snapshot_begin(p, 1, &err), PAWL_E_NOMEM);
	assert_true(fail_malloc_stop());
	assert_int_equal(projection_snapshot_add(p, "x", 1, &err), PAWL_E_USAGE);
	projection_rollback(p);
	assert_int_equal(store(1, 10, 10, &err), 0);
	assert_int_equal(list(s), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fresh, end)
	static const struct CMUnitTest tests[] = {
		T(test_round_trip), T(test_visitor_stops), T(test_two_are_kept), T(test_order_of_calls), T(test_edited),
		T(test_damaged),    T(test_full),	   T(test_every_malloc), T(test_no_memory_for_a_part),
	};

	return cmocka_run_group_tests(tests, setup, projection_teardown);
}
