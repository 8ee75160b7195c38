/* tests/unit/test_journal.c - what a crash and an attacker with a hex editor may do to the journal (U09). */
#include "tests/support/journal_fixture.h"

#include "daemon/log/crc32c.h"

/* ---- the plain way ---- */

static void test_crc(void **state)
{
	uint8_t p[300];

	(void)state;
	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(crc32c("", 0), 0);
	for (size_t i = 0; i < sizeof(p); i++)
		p[i] = (uint8_t)(i * 31 + 7);
	for (size_t n = 0; n < 200; n++)
		assert_int_equal(crc32c(p + n % 9, n), crc32c_soft(p + n % 9, n));
}

/* docs/audit-format.md, written out by a program that is not this one */
static void test_vector(void **state)
{
	struct buf rec = BUF_MAX(4096);
	struct str notes[2];
	uint8_t *want, *e0, *e1, origin[32];
	size_t n, n0, n1;

	(void)state;
	want = fx_read("tests/vectors/log", FIRST, &n);
	e0 = fx_read("tests/vectors/log", "entry-0.note", &n0);
	e1 = fx_read("tests/vectors/log", "entry-1.note", &n1);
	notes[0] = (struct str){ (char *)e0, n0 };
	notes[1] = (struct str){ (char *)e1, n1 };
	crypto_hash_sha256(origin, (const uint8_t *)FX_ORIGIN, strlen(FX_ORIGIN));
	record_build(origin, 0, notes, 2, &rec);
	assert_int_equal(rec.n, n);
	assert_memory_equal(rec.p, want, n);
	buf_done(&rec);
	free(want);
	free(e0);
	free(e1);
}

static void test_round_trip(void **state)
{
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;
	uint64_t seq = 0;

	(void)state;
	wipe();
	j = open_good(&rec);
	assert_true(rec.next_seq == 0 && rec.first_seq == 0 && rec.torn_bytes == 0);
	for (size_t i = 0; i < 120; i++) {
		size_t n = i % 16 + 1;

		append_good(j, seq, n);
		seq += n;
	}
	read_all(j, seq);
	assert_int_equal(append(j, seq + 1, 1, false, &err), PAWL_E_CONFLICT); /* a gap is not written */
	assert_int_equal(append(j, seq - 1, 1, false, &err), PAWL_E_CONFLICT);
	assert_false(journal_broken(j));
	journal_close(j);
	j = open_good(&rec);
	assert_int_equal(rec.next_seq, seq);
	assert_int_equal(rec.torn_bytes, 0);
	read_all(j, seq);
	append_good(j, seq, 1);
	read_all(j, seq + 1);
	journal_close(j);
	journal_close(NULL);
}

/* A batch larger than a segment still goes in, alone in its own. */
static void test_large_batch(void **state)
{
	struct journal_recovery rec;
	char *big = malloc(60000);
	struct buf b = BUF_MAX(65535);
	struct pawl_error err;
	struct journal *j;
	struct str note = { big, 60000 };

	(void)state;
	wipe();
	assert_non_null(big);
	memset(big, 'x', 60000);
	j = open_good(NULL);
	append_good(j, 0, 3);
	assert_int_equal(journal_append(j, 3, &note, 1, false, &err), 0);
	append_good(j, 4, 1);
	assert_int_equal(journal_read(j, 3, &b, &err), 0);
	assert_true(str_eq(buf_str(&b), note));
	journal_close(j);
	const struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .segment_bytes = 4096 };
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), 0);
	assert_int_equal(rec.next_seq, 5);
	journal_close(j);
	note.n = 0;
	j = NULL;
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), 0);
	assert_int_equal(journal_append(j, 5, &note, 1, false, &err), PAWL_E_LIMIT);
	note.n = 65536;
	assert_int_equal(journal_append(j, 5, &note, 1, false, &err), PAWL_E_LIMIT);
	assert_int_equal(journal_append(j, 5, &note, 0, false, &err), PAWL_E_CONFLICT);
	journal_close(j);
	buf_done(&b);
	free(big);
}

/* U06 below the daemon: the second writer is told, a reader is not in the way. */
static void test_U06_lock(void **state)
{
	struct journal *a, *b = NULL;
	struct journal_recovery rec;
	struct pawl_error err;

	(void)state;
	wipe();
	a = open_good(NULL);
	append_good(a, 0, 2);
	assert_int_equal(open_with(NULL, false, &b, &rec, NULL, &err), PAWL_E_BUSY);
	assert_int_equal(open_with(NULL, true, &b, &rec, NULL, &err), 0);
	assert_true(rec.live && rec.next_seq == 2);
	assert_int_equal(append(b, 2, 1, false, &err), PAWL_E_FULL); /* opened for reading */
	append_good(a, 2, 1);
	journal_close(b);
	journal_close(a);
	assert_int_equal(open_with(NULL, true, &b, &rec, NULL, &err), 0);
	assert_false(rec.live);
	journal_close(b);
}

/* ---- torn and damaged ---- */

/* Three batches (2, 3, 4 entries) in a file of their own length; ends[i] is where batch i ends. */
static uint8_t *three(size_t ends[static 3], size_t *ret_n)
{
	static const size_t each[] = { 2, 3, 4 };
	struct journal *j;
	uint64_t seq = 0;
	uint8_t *p;

	wipe();
	j = open_good(NULL);
	for (size_t i = 0; i < 3; i++) {
		append_good(j, seq, each[i]);
		seq += each[i];
		ends[i] = j->end;
	}
	journal_close(j);
	p = fx_read(dir, FIRST, ret_n);
	assert_int_equal(*ret_n, 4096);
	return p;
}

/* U09: the file ends after every possible byte; whole batches stay, the torn one is cut, reported, and the log goes on.
 */
static void test_U09_every_length(void **state)
{
	static const uint64_t upto[] = { 0, 2, 5, 9 };
	size_t ends[3], n;
	uint8_t *p = three(ends, &n);

	(void)state;
	for (size_t len = 0; len <= ends[2] + 8; len++) {
		size_t whole = len >= ends[2] ? 3 : len >= ends[1] ? 2 : len >= ends[0];
		size_t start = whole ? ends[whole - 1] : 0, last = len;
		struct journal_recovery rec;
		struct pawl_error err;
		struct journal *j;

		while (last > start && p[last - 1] == 0)
			last--; /* zeroes are what was never written */
		fx_write(dir, FIRST, p, len, 0600);
		assert_int_equal(open_with(NULL, true, &j, &rec, NULL, &err), 0);
		journal_close(j);
		assert_int_equal(rec.torn_bytes, last - start);
		j = open_good(&rec);
		assert_int_equal(rec.next_seq, upto[whole]);
		assert_int_equal(rec.torn_bytes, last - start);
		append_good(j, rec.next_seq, 2);
		journal_close(j);
		j = open_good(&rec);
		assert_int_equal(rec.next_seq, upto[whole] + 2);
		assert_int_equal(rec.torn_bytes, 0);
		journal_close(j);
	}
	free(p);
}

/* Each byte changed: in a batch with one behind it, corruption; in the last, a torn tail; never read as good. */
static void test_every_byte(void **state)
{
	size_t ends[3], n;
	uint8_t *p = three(ends, &n);

	(void)state;
	for (size_t i = 0; i < ends[2] + 20; i++) {
		struct journal_recovery rec;
		struct pawl_error err;
		struct journal *j;
		int r;

		p[i] ^= (uint8_t)(1u << i % 8);
		fx_write(dir, FIRST, p, n, 0600);
		r = open_with(NULL, true, &j, &rec, NULL, &err);
		if (i < ends[1]) {
			if (r != PAWL_E_TAMPERED)
				fail_msg("byte %zu: %d", i, r);
		} else {
			if (r != 0 || rec.next_seq != (i < ends[2] ? 5 : 9) || rec.torn_bytes == 0)
				fail_msg("byte %zu: %d", i, r);
			journal_close(j);
		}
		p[i] ^= (uint8_t)(1u << i % 8);
	}
	free(p);
}

/* Pages of the last batch reach the disk in any order: any run of it may be missing. */
static void test_holes(void **state)
{
	size_t ends[3], n;
	uint8_t *p = three(ends, &n), *q = malloc(n);

	(void)state;
	assert_non_null(q);
	for (size_t from = ends[1]; from < ends[2]; from += 7)
		for (size_t to = from + 1; to <= ends[2]; to += 13) {
			struct journal_recovery rec;
			struct journal *j;

			memcpy(q, p, n);
			memset(q + from, 0, to - from);
			fx_write(dir, FIRST, q, n, 0600);
			j = open_good(&rec);
			if (memcmp(p, q, n) != 0)
				assert_int_equal(rec.next_seq, 5);
			assert_int_equal(rec.torn_bytes > 0, memcmp(p, q, n) != 0 && rec.next_seq == 5 &&
								 !(from == ends[1] && to >= ends[2]));
			append_good(j, rec.next_seq, 1);
			journal_close(j);
		}
	free(p);
	free(q);
}

static int try_bytes(const char *name, const void *p, size_t n, struct journal_recovery *rec)
{
	struct pawl_error err;
	struct journal *j = NULL;
	int r;

	fx_write(dir, name, p, n, 0600);
	r = open_with(NULL, true, &j, rec, NULL, &err);
	journal_close(j);
	return r;
}

/* Batches moved about: each of these has good CRCs. */
static void test_rearranged(void **state)
{
	struct journal_recovery rec;
	size_t ends[3], n;
	uint8_t *p = three(ends, &n), q[8192];
	size_t a = ends[0], b = ends[1] - ends[0], c = ends[2] - ends[1];
	struct str none = STR("note 9 abcdefghi\n");
	struct buf other = BUF_MAX(4096);

	(void)state;
	memcpy(q, p + a, b + c); /* cut head */
	assert_int_equal(try_bytes(FIRST, q, b + c, &rec), PAWL_E_TAMPERED);
	memcpy(q, p, a); /* the middle dropped */
	memcpy(q + a, p + ends[1], c);
	assert_int_equal(try_bytes(FIRST, q, a + c, &rec), PAWL_E_TAMPERED);
	memcpy(q, p, a); /* swapped */
	memcpy(q + a, p + ends[1], c);
	memcpy(q + a + c, p + a, b);
	assert_int_equal(try_bytes(FIRST, q, ends[2], &rec), PAWL_E_TAMPERED);
	memcpy(q, p, ends[2]); /* the last one twice */
	memcpy(q + ends[2], p + ends[1], c);
	assert_int_equal(try_bytes(FIRST, q, ends[2] + c, &rec), PAWL_E_TAMPERED);
	memcpy(q, p, ends[2]); /* a gap of one zero byte, then a good batch */
	q[ends[2]] = 0;
	memcpy(q + ends[2] + 1, p + ends[1], c);
	assert_int_equal(try_bytes(FIRST, q, ends[2] + 1 + c, &rec), PAWL_E_TAMPERED);
	record_build((const uint8_t *)"another origin, thirty-two bytes", 9, &none, 1, &other); /* second origin */
	memcpy(q, p, ends[2]);
	memcpy(q + ends[2], other.p, other.n);
	assert_int_equal(try_bytes(FIRST, q, ends[2] + other.n, &rec), PAWL_E_TAMPERED);
	memcpy(q, p, ends[2]); /* garbage without a batch's magic is a torn tail */
	memset(q + ends[2], 0xa5, 777);
	assert_int_equal(try_bytes(FIRST, q, ends[2] + 777, &rec), 0);
	assert_int_equal(rec.torn_bytes, 777);
	assert_int_equal(try_bytes(FIRST, q, 0, &rec), 0);
	assert_int_equal(rec.next_seq, 0);
	buf_done(&other);
	free(p);
}

/* A record that lies about its inside, CRC right: we never wrote it. */
static void test_lying_records(void **state)
{
	static const uint8_t lens[][4] = { { 0, 0, 0, 0 },  { 0, 0, 0, 200 },
					   { 0, 1, 0, 0 },  { 0xff, 0xff, 0xff, 0xff },
					   { 0, 0, 0, 17 }, { 0, 0, 0, 19 } };
	struct str note = STR("note 0 abcdefghij\n");
	struct journal_recovery rec;
	struct buf b = BUF_MAX(4096);
	uint8_t origin[32];

	(void)state;
	wipe();
	crypto_hash_sha256(origin, (const uint8_t *)FX_ORIGIN, strlen(FX_ORIGIN));
	for (size_t i = 0; i < PAWL_LEN(lens); i++) {
		uint32_t crc;

		buf_reset(&b);
		record_build(origin, 0, &note, 1, &b);
		memcpy(b.p + RECORD_HEAD, lens[i], 4);
		crc = crc32c(b.p, b.n - 4);
		for (int k = 0; k < 4; k++)
			b.p[b.n - 4 + (size_t)k] = (char)(crc >> (24 - 8 * k));
		const struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .read_only = true };
		struct pawl_error err;
		struct journal *j = NULL;
		int r;

		fx_write(dir, FIRST, b.p, b.n, 0600);
		r = journal_open(&cfg, NULL, NULL, &j, &rec, &err);
		journal_close(j);
		if (r != PAWL_E_TAMPERED)
			fail_msg("row %zu: %d", i, r);
	}
	buf_done(&b);
}

/* ---- segments ---- */

static size_t segments(char names[static 64][64])
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, alphasort);
	size_t k = 0;

	for (int i = 0; i < n; i++) {
		if (strncmp(list[i]->d_name, "journal-0", 9) == 0 && k < 64)
			(void)snprintf(names[k++], 64, "%.63s", list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return k;
}

static void test_segments(void **state)
{
	char names[64][64], from[512], to[512];
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;
	size_t n, k;
	uint8_t *p;
	int r;

	(void)state;
	wipe();
	j = open_good(NULL);
	for (uint64_t s = 0; s < 400; s += 4)
		append_good(j, s, 4);
	journal_close(j);
	k = segments(names);
	assert_true(k >= 4);

	p = fx_read(dir, names[1], &n);
	fx_path(dir, names[1], from);
	(void)unlink(from); /* a segment gone */
	assert_int_equal(open_with(NULL, true, &j, &rec, NULL, &err), PAWL_E_TAMPERED);
	fx_write(dir, names[1], p, n - 500, 0600); /* torn, but not the last */
	memset(p + 500, 0x5a, 3);
	fx_write(dir, names[1], p, n, 0600);
	assert_int_equal(open_with(NULL, true, &j, &rec, NULL, &err), PAWL_E_TAMPERED);
	free(p);
	p = fx_read(dir, names[2], &n);
	fx_write(dir, names[1], p, n, 0600); /* the next one twice */
	assert_int_equal(open_with(NULL, true, &j, &rec, NULL, &err), PAWL_E_TAMPERED);
	free(p);

	fx_path(dir, names[0], from); /* head cut: told by first_seq, not an error here */
	(void)unlink(from);
	fx_path(dir, names[1], from);
	(void)unlink(from);
	const struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .read_only = true };
	r = journal_open(&cfg, NULL, NULL, &j, &rec, &err);
	assert_int_equal(r, 0);
	assert_true(rec.first_seq > 0 && rec.next_seq == 400);
	journal_close(j);
	fx_path(dir, names[2], from); /* and renamed to look whole */
	fx_path(dir, FIRST, to);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), PAWL_E_TAMPERED);
}

/* Room for many rows at once: a long log has more segments than the index grows by. */
static void test_index_room(void **state)
{
	static const size_t more[] = { 1, 64, 65, 84, 1000, 100000 };
	struct pawl_error err;

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(more); i++) {
		struct journal j = { .lock = PTHREAD_MUTEX_INITIALIZER };

		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(journal_index_reserve(&j, more[i], &err), 0);
			assert_true(j.cap_rows - j.n_rows >= more[i]);
			for (size_t n = 0; n < more[i]; n++)
				journal_index_note(&j, j.n_rows, j.n_rows, 0);
		}
		assert_int_equal(j.n_rows, 3 * more[i]);
		free(j.rows);
	}
}

static void test_bad_folder(void **state)
{
	struct journal_config cfg = { .dir = "/nonexistent/pawl", .origin = ORIGIN };
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j = NULL;

	(void)state;
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), PAWL_E_SYS);
	cfg.dir = dir;
	cfg.origin = STR_NONE;
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), PAWL_E_USAGE);
	assert_null(j);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc),        cmocka_unit_test(test_vector),
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_large_batch),
		cmocka_unit_test(test_U06_lock),   cmocka_unit_test(test_U09_every_length),
		cmocka_unit_test(test_every_byte), cmocka_unit_test(test_holes),
		cmocka_unit_test(test_rearranged), cmocka_unit_test(test_lying_records),
		cmocka_unit_test(test_segments),   cmocka_unit_test(test_index_room),
		cmocka_unit_test(test_bad_folder),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
