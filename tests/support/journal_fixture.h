/* tests/support/journal_fixture.h - a journal to break: entries whose text tells their number, and calls that fail on
 * order. */
#ifndef TEST_JOURNAL_FIXTURE_H
#define TEST_JOURNAL_FIXTURE_H
#include "tests/support/log_fixture.h"

#define ORIGIN STR(FX_ORIGIN)
#define FIRST  "journal-00000000000000000000"

static char dir[64];

static inline int setup(void **state)
{
	(void)state;
	fx_dir(dir);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	fx_remove(dir);
	return 0;
}

static inline void wipe(void)
{
	fx_remove(dir);
	assert_int_equal(mkdir(dir, 0700), 0);
}

/* Entry seq is text of a length that depends on seq, so that a shifted or repeated one cannot look right. */
static inline struct str note_of(uint64_t seq, char out[static 128])
{
	int n = snprintf(out, 128, "note %llu %.*s\n", (unsigned long long)seq, (int)(seq % 23),
			 "abcdefghijklmnopqrstuvwxyz");

	return (struct str){ out, (size_t)n };
}

struct seen {
	uint64_t next;
};

static inline int see(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct seen *s = arg;
	char want[128];

	(void)err;
	assert_int_equal(seq, s->next);
	assert_true(str_eq(note, note_of(seq, want)));
	s->next++;
	return 0;
}

/* ---- faults to order ---- */

enum op { OP_PWRITE, OP_FDATASYNC, OP_FSYNC, OP_FALLOCATE, OP_COUNT };
struct faults {
	unsigned calls[OP_COUNT], at[OP_COUNT]; /* the at-th call fails; 0 = none */
	bool forever[OP_COUNT];
	int error;
	bool partial; /* a failing pwrite writes half before */
};

static inline bool due(struct faults *f, enum op op)
{
	unsigned n = ++f->calls[op];

	errno = f->error;
	return f->at[op] && (n == f->at[op] || (f->forever[op] && n > f->at[op]));
}

static inline int64_t f_pwrite(void *arg, int fd, const void *p, size_t n, int64_t off)
{
	struct faults *f = arg;

	if (due(f, OP_PWRITE)) {
		if (f->partial && n > 1) {
			f->at[OP_PWRITE]++; /* half is taken, the next call fails */
			f->partial = false;
			return pwrite(fd, p, n / 2, off);
		}
		errno = f->error;
		return -1;
	}
	return pwrite(fd, p, n, off);
}

static inline int f_fdatasync(void *arg, int fd)
{
	return due(arg, OP_FDATASYNC) ? -1 : fdatasync(fd);
}

static inline int f_fsync(void *arg, int fd)
{
	return due(arg, OP_FSYNC) ? -1 : fsync(fd);
}

static inline int f_fallocate(void *arg, int fd, int64_t off, int64_t len)
{
	return due(arg, OP_FALLOCATE) ? -1 : fallocate(fd, 0, off, len);
}

#define IO(f)                                                    \
	{                                                        \
		f_pwrite, f_fdatasync, f_fsync, f_fallocate, (f) \
	}

static inline int open_with(const struct journal_io *io, bool read_only, struct journal **ret,
			    struct journal_recovery *rec, uint64_t *ret_n, struct pawl_error *err)
{
	const struct journal_config cfg = {
		.dir = dir, .origin = ORIGIN, .segment_bytes = 4096, .read_only = read_only, .io = io
	};
	struct seen s = { 0 };
	int r = journal_open(&cfg, see, &s, ret, rec, err);

	if (ret_n)
		*ret_n = s.next;
	return r;
}

static inline struct journal *open_good(struct journal_recovery *rec)
{
	struct journal_recovery own;
	struct pawl_error err;
	struct journal *j;
	uint64_t n;

	if (open_with(NULL, false, &j, rec ? rec : &own, &n, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(n, rec ? rec->next_seq : own.next_seq);
	return j;
}

static inline int append(struct journal *j, uint64_t first, size_t n, bool last_resort, struct pawl_error *err)
{
	char text[16][128];
	struct str notes[16];

	for (size_t i = 0; i < n; i++)
		notes[i] = note_of(first + i, text[i]);
	return journal_append(j, first, notes, n, last_resort, err);
}

static inline void append_good(struct journal *j, uint64_t first, size_t n)
{
	struct pawl_error err;

	if (append(j, first, n, false, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void read_all(struct journal *j, uint64_t n)
{
	struct buf b = BUF_MAX(65535);
	struct pawl_error err;
	char want[128];

	for (uint64_t i = 0; i < n; i++) {
		buf_reset(&b);
		if (journal_read(j, i, &b, &err) < 0)
			fail_msg("entry %llu: %s", (unsigned long long)i, err.msg);
		assert_true(str_eq(buf_str(&b), note_of(i, want)));
	}
	assert_int_equal(journal_read(j, n, &b, &err), PAWL_E_LIMIT);
	assert_int_equal(journal_read(j, UINT64_MAX, &b, &err), PAWL_E_LIMIT);
	buf_done(&b);
}
#endif
