/* tests/unit/test_journal_walk.c - a journal of which only the newest segment was read at opening: ranges of entries, single ones, and
 * that whatever is wrong with an older segment shows when somebody comes by, not before and not never. */
#include "daemon/log/journal_impl.h"
#include "tests/support/journal_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 400u

static struct journal *open_tail(struct journal_recovery *rec, bool read_only)
{
	struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .segment_bytes = 4096, .tail_only = true, .read_only = read_only };
	struct pawl_error err;
	struct journal *j = NULL;

	if (journal_open(&cfg, NULL, NULL, &j, rec, &err) < 0)
		fail_msg("open: %s", err.msg);
	return j;
}

static void fill(void)
{
	struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .segment_bytes = 4096 };
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j = NULL;

	wipe();
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), 0);
	for (uint64_t s = 0; s < N; s += 4) {
		char text[4][128];
		struct str notes[4];

		for (uint64_t i = 0; i < 4; i++)
			notes[i] = note_of(s + i, text[i]);
		assert_int_equal(journal_append(j, s, notes, 4, false, &err), 0);
	}
	journal_close(j);
}

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

static void test_every_range(void **state)
{
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;
	struct seen s;

	(void)state;
	fill();
	j = open_tail(&rec, false);
	assert_int_equal(rec.first_seq, 0);
	assert_int_equal(rec.next_seq, N);
	for (uint64_t from = 0; from <= N; from += 3)
		for (uint64_t to = from; to <= N; to += 37) {
			s.next = from;
			if (journal_walk(j, from, to, see, &s, &err) < 0)
				fail_msg("%u to %u: %s", (unsigned)from, (unsigned)to, err.msg);
			assert_int_equal(s.next, to);
		}
	s.next = N - 1;
	assert_int_equal(journal_walk(j, N - 1, N + 1, see, &s, &err), PAWL_E_LIMIT);
	assert_int_equal(journal_walk(j, N, N + 1, see, &s, &err), PAWL_E_LIMIT);
	journal_close(j);
}

/* Twice: what the first look learnt about the way must lead to the same place. */
static void test_every_entry(void **state)
{
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;

	(void)state;
	fill();
	j = open_tail(&rec, true);
	for (int round = 0; round < 2; round++)
		for (uint64_t k = 0; k < N; k++) {
			uint64_t seq = round ? N - 1 - k : k * 7 % N;
			struct buf out = BUF_MAX(1024);
			char want[128];

			if (journal_read(j, seq, &out, &err) < 0)
				fail_msg("%u: %s", (unsigned)seq, err.msg);
			assert_true(str_eq(buf_str(&out), note_of(seq, want)));
			buf_done(&out);
		}
	journal_close(j);
}

static int stop_at_7(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	(void)arg, (void)note;
	return seq == 7 ? pawl_fail(err, PAWL_E_CONFLICT, "seven") : 0;
}

/* The way to old entries is learnt where it was gone: far more rows than room was left for, and no long way twice. */
static void test_the_way_is_kept(void **state)
{
	static const size_t step = INDEX_STEP, n = 300, big = 40000;
	struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .segment_bytes = n / 2 * big };
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j = NULL;
	struct buf out = BUF_MAX(PAWL_MAX_NOTE);
	char *text = malloc(big);
	size_t far = 0;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', big);
	wipe();
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), 0);
	for (uint64_t s = 0; s < n; s++)
		assert_int_equal(journal_append(j, s, &(struct str){ text, big }, 1, false, &err), 0);
	journal_close(j);
	cfg.tail_only = true;
	assert_int_equal(journal_open(&cfg, NULL, NULL, &j, &rec, &err), 0);
	assert_true(j->segment > 0);
	assert_int_equal(journal_read(j, n / 2 - 2, &out, &err), 0);
	for (size_t i = 1; i < j->n_rows && j->rows[i].segment == 0; i++)
		far = j->rows[i].off - j->rows[i - 1].off > far ? j->rows[i].off - j->rows[i - 1].off : far;
	assert_true(far > 0 && far < step + 2 * big);
	assert_true(j->n_rows > 70); /* room was left for fewer than 64 */
	journal_close(j);
	buf_done(&out);
	free(text);
}

static void test_visitor_stops(void **state)
{
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;

	(void)state;
	fill();
	j = open_tail(&rec, true);
	assert_int_equal(journal_walk(j, 3, N, stop_at_7, NULL, &err), PAWL_E_CONFLICT);
	assert_string_equal(err.msg, "seven");
	journal_close(j);
}

/* A writer goes on behind the readers, over the end of a segment. */
static void test_beside_a_writer(void **state)
{
	struct journal_recovery rec;
	struct pawl_error err;
	struct journal *j;
	struct seen s = { 0 };

	(void)state;
	fill();
	j = open_tail(&rec, false);
	for (uint64_t seq = N; seq < N + 200; seq++) {
		char text[128];
		struct str note = note_of(seq, text);

		assert_int_equal(journal_append(j, seq, &note, 1, false, &err), 0);
		s.next = seq - 5;
		if (journal_walk(j, seq - 5, seq + 1, see, &s, &err) < 0)
			fail_msg("%u: %s", (unsigned)seq, err.msg);
		assert_int_equal(s.next, seq + 1);
	}
	s.next = 0;
	assert_int_equal(journal_walk(j, 0, N + 200, see, &s, &err), 0);
	journal_close(j);
}

struct beside {
	struct journal *j;
	pthread_mutex_t lock;
	uint64_t durable; /* under lock, as stop */
	bool stop;
	unsigned walked, wrong;
};

static int look(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct beside *b = arg;
	char head[64];
	size_t n = (size_t)snprintf(head, sizeof(head), "note %llu ", (unsigned long long)seq);

	(void)err;
	b->wrong += note.n < n || memcmp(note.p, head, n) != 0;
	return 0;
}

static void *reader(void *arg)
{
	struct beside *b = arg;
	struct buf out = BUF_MAX(PAWL_MAX_NOTE);
	struct pawl_error err;
	uint64_t to = 0, from = 0;

	for (bool stop = false; !stop;) {
		(void)pthread_mutex_lock(&b->lock);
		to = b->durable;
		stop = b->stop;
		(void)pthread_mutex_unlock(&b->lock);
		if (to == 0)
			continue;
		from = (from * 31 + 7) % to;
		b->wrong += journal_walk(b->j, from, to - from > 100 ? from + 100 : to, look, b, &err) < 0;
		buf_reset(&out);
		b->wrong += journal_read(b->j, from, &out, &err) < 0 || look(b, from, buf_str(&out), &err) < 0;
		b->walked++;
	}
	buf_done(&out);
	return NULL;
}

/* Readers go on while batches fail, are cut off or copied to another file, and segments end. */
static void test_readers_beside_repairs(void **state)
{
	struct faults f = { .error = EIO };
	const struct journal_io io = IO(&f);
	struct journal_config cfg = { .dir = dir, .origin = ORIGIN, .segment_bytes = 400000, .io = &io, .tail_only = true };
	struct beside b = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct journal_recovery rec;
	struct pawl_error err;
	char *text = malloc(30000);
	unsigned failed = 0;
	pthread_t thread;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', 30000);
	wipe();
	assert_int_equal(journal_open(&cfg, NULL, NULL, &b.j, &rec, &err), 0);
	assert_int_equal(pthread_create(&thread, NULL, reader, &b), 0);
	for (uint64_t seq = 0; seq < 400;) {
		struct str note = { text, 30000 };
		int r;

		(void)snprintf(text, 64, "note %llu ", (unsigned long long)seq);
		if (seq % 7 == 0 || seq % 11 == 0) {
			enum op op = seq % 7 == 0 ? OP_FDATASYNC : OP_PWRITE;

			f.at[op] = f.calls[op] + 1;
			f.partial = op == OP_PWRITE;
			r = journal_append(b.j, seq, &note, 1, false, &err);
			failed += r < 0;
			memset(f.at, 0, sizeof(f.at));
			f.partial = false;
			assert_int_equal(journal_repair(b.j, &err), 0);
			if (r < 0)
				assert_int_equal(journal_append(b.j, seq, &note, 1, false, &err), 0);
		} else {
			assert_int_equal(journal_append(b.j, seq, &note, 1, false, &err), 0);
		}
		(void)pthread_mutex_lock(&b.lock);
		b.durable = ++seq;
		(void)pthread_mutex_unlock(&b.lock);
	}
	(void)pthread_mutex_lock(&b.lock);
	b.stop = true;
	(void)pthread_mutex_unlock(&b.lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(b.wrong, 0);
	assert_true(b.walked > 0 && failed > 50);
	journal_close(b.j);
	free(text);
}

enum harm { HARM_GONE, HARM_TORN, HARM_BYTE, HARM_TWICE, HARM_RENAMED, HARM_EMPTY, HARM_BEHIND, HARM_PIPE, HARM_FOLDER, HARM_LINK, HARM_COUNT };

/* What the opening did not look at: found when walked over, at the entry where it lies, and never read as something else. */
static void test_harm_is_found(void **state)
{
	char names[64][64], path[512], to[512];
	struct journal_recovery rec;
	struct pawl_error err;

	(void)state;
	for (int harm = 0; harm < HARM_COUNT; harm++) {
		struct journal *j;
		struct seen s = { 0 };
		uint8_t *p, *q;
		size_t k, n, m;

		fill();
		k = segments(names);
		assert_true(k >= 4);
		p = fx_read(dir, names[1], &n);
		q = fx_read(dir, names[2], &m);
		fx_path(dir, names[1], path);
		switch ((enum harm)harm) {
		case HARM_GONE:
			(void)unlink(path);
			break;
		case HARM_TORN:
			fx_write(dir, names[1], p, 1000, 0600);
			break;
		case HARM_BYTE:
			p[1500] ^= 1;
			fx_write(dir, names[1], p, n, 0600);
			break;
		case HARM_TWICE:
			fx_write(dir, names[1], q, m, 0600);
			break;
		case HARM_RENAMED:
			(void)snprintf(to, sizeof(to), "%s/journal-%020u", dir, 3u);
			assert_int_equal(rename(path, to), 0);
			break;
		case HARM_EMPTY:
			memset(p, 0, n);
			fx_write(dir, names[1], p, n, 0600);
			break;
		case HARM_BEHIND:
			p[n - 1] = 'x';
			fx_write(dir, names[1], p, n, 0600);
			break;
		case HARM_PIPE:
			assert_true(unlink(path) == 0 && mkfifo(path, 0600) == 0);
			break;
		case HARM_FOLDER:
			assert_true(unlink(path) == 0 && mkdir(path, 0700) == 0);
			break;
		case HARM_LINK:
			(void)snprintf(to, sizeof(to), "%s/elsewhere", dir);
			assert_true(rename(path, to) == 0 && symlink("elsewhere", path) == 0);
			break;
		case HARM_COUNT:
			break;
		}
		free(p);
		free(q);
		j = open_tail(&rec, false);
		if (journal_walk(j, 0, N, see, &s, &err) == 0)
			fail_msg("harm %d was not found", harm);
		if (err.code != PAWL_E_TAMPERED)
			fail_msg("harm %d: %s", harm, err.msg);
		if (harm != HARM_RENAMED) /* there the third entry is looked for in that file */
			assert_true(s.next > 0);
		assert_true(s.next < N);
		s.next = N - 4; /* the newest are as they were */
		assert_int_equal(journal_walk(j, N - 4, N, see, &s, &err), 0);
		journal_close(j);
		(void)rmdir(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_range), cmocka_unit_test(test_every_entry),	    cmocka_unit_test(test_visitor_stops),
		cmocka_unit_test(test_beside_a_writer), cmocka_unit_test(test_harm_is_found),  cmocka_unit_test(test_the_way_is_kept),
		cmocka_unit_test(test_readers_beside_repairs),
	};

	return cmocka_run_group_tests_name("journal_walk", tests, setup, teardown);
}
