/* tests/unit/test_journal_faults.c - full and bad disks, missing memory, and a reader beside the writer: what was
 * answered stays. */
#include "tests/support/fail_malloc.h"
#include "tests/support/journal_fixture.h"

#include <pthread.h>

/* ---- faults ---- */

/* Appends `batches` batches of 3; on a failure repairs as the daemon does (again and again) or, with `crash`, drops
 * everything and opens anew. Whatever was answered stays; what failed may reappear only after a crash, and then whole.
 */
static uint64_t run_with_fault(struct faults *f, unsigned batches, bool crash)
{
	const struct journal_io io = IO(f);
	struct journal_recovery rec;
	struct journal *j = NULL;
	struct pawl_error err;
	uint64_t seq = 0;
	unsigned tries = 0;

	while (open_with(&io, false, &j, &rec, NULL, &err) < 0)
		assert_true(++tries < 5);
	for (unsigned i = 0; i < batches;) {
		if (append(j, seq, 3, false, &err) == 0) {
			seq += 3;
			i++;
			continue;
		}
		assert_true(++tries < 20);
		if (crash) {
			journal_close(j);
			while (open_with(&io, false, &j, &rec, NULL, &err) < 0)
				assert_true(++tries < 20);
			assert_true(rec.next_seq == seq || rec.next_seq == seq + 3);
			i += (unsigned)(rec.next_seq - seq) / 3;
			seq = rec.next_seq;
			continue;
		}
		if (journal_repair(j, &err) < 0)
			assert_true(journal_broken(j));
	}
	read_all(j, seq);
	journal_close(j);
	return seq;
}

static void test_faults(void **state)
{
	static const struct {
		enum op op;
		int error;
		bool partial;
	} rows[] = {
		{ OP_PWRITE, ENOSPC, false },        { OP_PWRITE, EDQUOT, true }, { OP_PWRITE, EIO, true },
		{ OP_FDATASYNC, EIO, false },        { OP_FSYNC, EIO, false },    { OP_FALLOCATE, ENOSPC, false },
		{ OP_FALLOCATE, EOPNOTSUPP, false },
	};

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		for (int crash = 0; crash < 2; crash++) {
			unsigned nth = 0, calls;

			do { /* the 1st, the 2nd, … until the n-th call never comes */
				struct faults f = { .error = rows[i].error, .partial = rows[i].partial };
				struct journal_recovery rec;
				struct journal *j;
				uint64_t seq;

				f.at[rows[i].op] = ++nth;
				wipe();
				seq = run_with_fault(&f, 40, crash);
				calls = f.calls[rows[i].op];
				j = open_good(&rec);
				assert_int_equal(rec.next_seq, seq);
				assert_int_equal(rec.torn_bytes, 0);
				journal_close(j);
			} while (nth <= calls);
			assert_true(nth > 2);
		}
	}
}

/* Two faults in a row: the repair itself fails, and the repair of the repair. */
static void test_faults_in_repair(void **state)
{
	(void)state;
	for (unsigned first = 1; first < 30; first++) {
		for (unsigned then = 1; then < 8; then++) {
			struct faults f = { .error = EIO };
			const struct journal_io io = IO(&f);
			struct journal_recovery rec;
			struct pawl_error err;
			struct journal *j = NULL;
			uint64_t seq = 0;
			unsigned failed = 0;

			wipe();
			assert_int_equal(open_with(&io, false, &j, &rec, NULL, &err), 0);
			f.at[OP_FDATASYNC] = f.calls[OP_FDATASYNC] + first;
			while (seq < 90) {
				if (append(j, seq, 3, false, &err) == 0) {
					seq += 3;
					continue;
				}
				assert_true(++failed < 20);
				if (failed == 1) {
					f.at[then % 2 ? OP_FSYNC : OP_PWRITE] =
					    f.calls[then % 2 ? OP_FSYNC : OP_PWRITE] + 1 + then / 4;
					f.at[OP_FDATASYNC] = f.calls[OP_FDATASYNC] + 1 + then / 2;
				}
				if (journal_repair(j, &err) < 0)
					assert_true(journal_broken(j));
			}
			read_all(j, seq);
			journal_close(j);
			j = open_good(&rec);
			assert_int_equal(rec.next_seq, 90);
			journal_close(j);
		}
	}
}

/* After a failed fdatasync the file is another one; after a failed write it is the same one, cut. */
static void test_repair_kind(void **state)
{
	static const struct {
		enum op op;
		bool same_file;
	} rows[] = { { OP_PWRITE, true }, { OP_FDATASYNC, false } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++) {
		struct faults f = { .error = EIO, .partial = true };
		const struct journal_io io = IO(&f);
		struct journal_recovery rec;
		struct stat before, after;
		struct pawl_error err;
		struct journal *j;
		size_t n, end;
		uint8_t *p, *q;

		wipe();
		assert_int_equal(open_with(&io, false, &j, &rec, NULL, &err), 0);
		append_good(j, 0, 5);
		end = j->end;
		p = fx_read(dir, FIRST, &n);
		assert_int_equal(fstat(j->fd, &before), 0);
		f.at[rows[i].op] = f.calls[rows[i].op] + 1;
		assert_int_equal(append(j, 5, 5, false, &err), PAWL_E_SYS);
		assert_int_equal(err.os_errno, EIO);
		assert_true(journal_broken(j));
		assert_int_equal(append(j, 5, 5, false, &err), PAWL_E_FULL);
		read_all(j, 5);
		assert_int_equal(journal_repair(j, &err), 0);
		assert_int_equal(fstat(j->fd, &after), 0);
		assert_int_equal(before.st_ino == after.st_ino, rows[i].same_file);
		q = fx_read(dir, FIRST, &n);
		assert_int_equal(n, 4096); /* room kept */
		assert_memory_equal(p, q, end);
		for (size_t k = end; k < n; k++)
			assert_int_equal(q[k], 0);
		append_good(j, 5, 5);
		read_all(j, 10);
		journal_close(j);
		free(p);
		free(q);
	}
}

/* The disk is full: ordinary entries are refused while there is still room for the ones that end things. */
static void test_full_disk(void **state)
{
	struct faults f = { .error = ENOSPC };
	const struct journal_io io = IO(&f);
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;
	uint64_t seq = 0;
	int r;

	(void)state;
	wipe();
	assert_int_equal(open_with(&io, false, &j, &rec, NULL, &err), 0);
	append_good(j, 0, 1); /* makes the spare */
	seq = 1;
	f.at[OP_FALLOCATE] = f.calls[OP_FALLOCATE] + 1;
	f.forever[OP_FALLOCATE] = true;
	while ((r = append(j, seq, 10, false, &err)) == 0) {
		seq += 10;
		assert_true(seq < 1000);
	}
	assert_int_equal(r, PAWL_E_SYS);
	assert_int_equal(err.os_errno, ENOSPC);
	assert_false(journal_broken(j));
	assert_int_equal(journal_repair(j, &err), 0);
	assert_true(append(j, seq, 1, false, &err) < 0); /* still full */
	for (int i = 0; i < 20; i++)
		assert_int_equal(append(j, seq++, 1, true, &err), 0);
	read_all(j, seq);
	f.at[OP_FALLOCATE] = 0; /* somebody made room */
	append_good(j, seq, 10);
	journal_close(j);
	j = open_good(&rec);
	assert_int_equal(rec.next_seq, seq + 10);
	journal_close(j);
}

/* What was durable before an append is the same after it, byte for byte, whatever fails. */
static void test_durable_never_changes(void **state)
{
	struct faults f = { .error = EIO };
	const struct journal_io io = IO(&f);
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;
	uint64_t seq = 0, seg;
	unsigned failed = 0;

	(void)state;
	wipe();
	assert_int_equal(open_with(&io, false, &j, &rec, NULL, &err), 0);
	while (seq < 150) {
		size_t end = j->end, n;
		uint8_t *p, *q;
		char name[32];

		seg = j->segment;
		journal_segment_name(seg, name);
		p = fx_read(dir, name, &n);
		if (seq % 7 == 0 && failed < seq / 7 + 1)
			f.at[seq % 2 ? OP_PWRITE : OP_FDATASYNC] = f.calls[seq % 2 ? OP_PWRITE : OP_FDATASYNC] + 1;
		if (append(j, seq, 3, false, &err) == 0) {
			seq += 3;
		} else {
			failed++;
			assert_int_equal(journal_repair(j, &err), 0);
		}
		q = fx_read(dir, name, &n);
		assert_memory_equal(p, q, end);
		free(p);
		free(q);
	}
	assert_true(failed > 5);
	journal_close(j);
}

/* ---- two threads ---- */

static void *reader(void *arg)
{
	struct journal *j = arg;
	struct buf b = BUF_MAX(65535);
	char want[128];
	uint64_t hits = 0;

	for (uint64_t i = 0; i < 4000; i++) {
		uint64_t seq = i * 7919 % 1500;
		struct pawl_error err;
		int r;

		buf_reset(&b);
		r = journal_read(j, seq, &b, &err);
		if (r == 0 && !str_eq(buf_str(&b), note_of(seq, want)))
			r = 1;
		if (r != 0 && r != PAWL_E_LIMIT)
			fail_msg("entry %llu: %d %s", (unsigned long long)seq, r, err.msg);
		hits += r == 0;
	}
	buf_done(&b);
	return hits ? arg : NULL;
}

static void test_read_beside_append(void **state)
{
	struct journal *j;
	pthread_t t;
	void *ret;

	(void)state;
	wipe();
	j = open_good(NULL);
	append_good(j, 0, 5);
	assert_int_equal(pthread_create(&t, NULL, reader, j), 0);
	for (uint64_t s = 5; s < 1500; s += 5)
		append_good(j, s, 5);
	assert_int_equal(pthread_join(t, &ret), 0);
	assert_non_null(ret);
	journal_close(j);
}

static void *writer(void *arg)
{
	for (uint64_t s = 1; s < 2001; s += 8)
		append_good(arg, s, 8);
	return NULL;
}

/* A reader of a log that is being written sees a prefix of it; never tampering, never a torn tail. */
static void test_open_beside_append(void **state)
{
	struct journal *j, *ro;
	uint64_t seen_n = 0;
	pthread_t t;

	(void)state;
	wipe();
	j = open_good(NULL);
	append_good(j, 0, 1);
	assert_int_equal(pthread_create(&t, NULL, writer, j), 0);
	while (seen_n < 2001) {
		struct journal_recovery rec;
		struct pawl_error err;

		if (open_with(NULL, true, &ro, &rec, NULL, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(rec.torn_bytes, 0);
		assert_true(rec.next_seq >= seen_n);
		seen_n = rec.next_seq;
		journal_close(ro);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	journal_close(j);
}

/* The 1st, the 2nd, … allocation fails: an error, nothing half done, and the next try works. */
static void test_every_malloc(void **state)
{
	(void)state;
	for (long n = 1;; n++) {
		struct journal_recovery rec;
		struct pawl_error err;
		struct journal *j = NULL;
		struct buf b = BUF_MAX(65535);
		uint64_t seq = 0;
		bool failed;
		int r;

		wipe();
		j = open_good(NULL);
		for (uint64_t s = 0; s < 160; s += 16)
			append_good(j, s, 16);
		journal_close(j);
		j = NULL;
		fail_malloc_after(n);
		r = open_with(NULL, false, &j, &rec, NULL, &err);
		for (int i = 0; r == 0 && i < 30; i++) {
			r = append(j, rec.next_seq + seq, 8, false, &err);
			seq += r == 0 ? 8 : 0;
		}
		if (r == 0)
			r = journal_read(j, 7, &b, &err);
		failed = fail_malloc_stop();
		if (failed)
			/* 0: the spare could not be looked at, so it was made anew; ENOMEM: opendir(3) has its own */
			assert_true(r == 0 || r == PAWL_E_NOMEM || (r == PAWL_E_SYS && err.os_errno == ENOMEM));
		else
			assert_int_equal(r, 0);
		if (j) {
			assert_false(journal_broken(j));
			append_good(j, rec.next_seq + seq, 1);
		}
		journal_close(j);
		buf_done(&b);
		if (!failed) {
			assert_true(n > 5);
			break;
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_faults_in_repair),
		cmocka_unit_test(test_repair_kind),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_durable_never_changes),
		cmocka_unit_test(test_read_beside_append),
		cmocka_unit_test(test_open_beside_append),
		cmocka_unit_test(test_every_malloc),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
