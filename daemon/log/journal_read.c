/* daemon/log/journal_read.c - entries back from the journal, one or a range, beside a thread that appends. Touches only what struct
 * journal's lock guards; opens the segment by name for itself, so that a repair which puts another file there disturbs
 * nobody. */
#include "daemon/log/journal_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS_FOR_WRITER 8 /* more than journal_append() reserves */

static int pread_all(int fd, void *out, size_t n, size_t off, struct pawl_error *err)
{
	uint8_t *b = out;

	while (n) {
		ssize_t got = pread(fd, b, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return pawl_fail_errno(err, "journal: read");
		if (got == 0)
			return pawl_fail(err, PAWL_E_TAMPERED, "journal: a segment has become shorter");
		b += got;
		n -= (size_t)got;
		off += (size_t)got;
	}
	return 0;
}

/* The last row at or before seq. False when seq is not durable. */
static bool row_find(struct journal *j, uint64_t seq, struct index_row *ret)
{
	size_t lo = 0, hi;
	bool found;

	(void)pthread_mutex_lock(&j->lock);
	hi = j->n_rows;
	while (lo < hi) { /* the first row beyond seq */
		size_t mid = lo + (hi - lo) / 2;

		if (j->rows[mid].seq <= seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	found = lo > 0 && seq < j->next_seq;
	if (found)
		*ret = j->rows[lo - 1];
	(void)pthread_mutex_unlock(&j->lock);
	return found;
}

/* Under lock. What appends has reserved ROWS_FOR_WRITER at most, and keeps them. */
static bool room_for_row(struct journal *j)
{
	size_t cap = j->cap_rows * 2 + 64;
	struct index_row *rows;

	if (j->n_rows + ROWS_FOR_WRITER < j->cap_rows)
		return true;
	rows = reallocarray(j->rows, cap, sizeof(*rows));
	if (!rows)
		return false; /* it is looked for again, then */
	j->rows = rows;
	j->cap_rows = cap;
	return true;
}

/* Keeps the way to a batch that was come by: what is asked for near it need not be looked for from the segment's start. */
static void row_keep(struct journal *j, const struct index_row *row)
{
	size_t lo = 0, hi;

	(void)pthread_mutex_lock(&j->lock);
	hi = j->n_rows;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (j->rows[mid].seq <= row->seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo > 0 && row->off >= j->rows[lo - 1].off + INDEX_STEP && j->rows[lo - 1].segment == row->segment && room_for_row(j)) {
		memmove(&j->rows[lo + 1], &j->rows[lo], (j->n_rows - lo) * sizeof(*j->rows));
		j->rows[lo] = *row;
		j->n_rows++;
	}
	(void)pthread_mutex_unlock(&j->lock);
}

/* Only what is wrong with this machine, and not with the log, is told by its errno. */
static int segment_open(const struct journal *j, uint64_t segment, struct pawl_error *err)
{
	struct stat st;
	char name[32];
	int fd;

	journal_segment_name(segment, name);
	fd = openat(j->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && (errno == ENOENT || errno == ELOOP))
		return pawl_fail(err, PAWL_E_TAMPERED, "journal: %s is %s", name, errno == ENOENT ? "gone" : "a link");
	if (fd < 0)
		return pawl_fail_errno(err, "journal: %s", name);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= JOURNAL_MAX_SEGMENT)
		return fd;
	(void)close(fd);
	return pawl_fail(err, PAWL_E_TAMPERED, "journal: %s is not a regular file of at most %u bytes", name, JOURNAL_MAX_SEGMENT);
}

/* The head of the record that must start there with entry row->seq. */
static int head_at(int fd, const struct index_row *row, struct record *ret, struct pawl_error *err)
{
	uint8_t head[RECORD_HEAD];
	int r = pread_all(fd, head, sizeof(head), row->off, err);

	if (r == 0 && (!record_head(head, ret) || ret->first != row->seq))
		r = pawl_fail(err, PAWL_E_TAMPERED, "journal: entry %llu is not at byte %zu of the segment that starts with %llu",
			      (unsigned long long)row->seq, row->off, (unsigned long long)row->segment);
	return r;
}

/* The whole record there, checked: a bad disk must not put words into an old answer. The caller frees *ret. */
static int record_load(const struct journal *j, int fd, const struct index_row *row, uint8_t **ret, struct record *rec, struct pawl_error *err)
{
	uint8_t *p = NULL;
	size_t n;
	int r = head_at(fd, row, rec, err);

	if (r != 0)
		return r;
	n = rec->bytes;
	p = malloc(n);
	if (!p)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a batch of %zu bytes", n);
	r = pread_all(fd, p, n, row->off, err);
	if (r == 0 && (!record_parse(p, n, rec) || memcmp(rec->origin, j->origin, 32) != 0))
		r = pawl_fail(err, PAWL_E_TAMPERED, "journal: the batch at entry %llu has changed", (unsigned long long)row->seq);
	if (r < 0)
		free(p);
	else
		*ret = p;
	return r;
}

static int note_out(const struct journal *j, int fd, const struct index_row *row, uint64_t seq, struct buf *out, struct pawl_error *err)
{
	struct str note = STR_NONE;
	struct record rec;
	uint8_t *p = NULL;
	int r = record_load(j, fd, row, &p, &rec, err);

	for (uint64_t at = row->seq; r == 0 && at <= seq; at++)
		if (!record_note(&rec, &note))
			r = pawl_fail(err, PAWL_E_TAMPERED, "journal: entry %llu is not in its batch", (unsigned long long)seq);
	if (r == 0) {
		buf_str_add(out, note);
		r = buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for an entry");
	}
	free(p);
	return r;
}

/* From the batch at *row to the one that holds seq. */
static int row_seek(struct journal *j, int fd, uint64_t seq, struct index_row *row, struct pawl_error *err)
{
	struct record r = { .count = 0 };
	size_t kept = row->off;
	int got;

	for (;;) {
		got = head_at(fd, row, &r, err);
		if (got < 0)
			return got;
		if (seq < r.first + r.count)
			break;
		row->seq += r.count;
		row->off += r.bytes;
		if (row->off - kept >= INDEX_STEP) {
			row_keep(j, row);
			kept = row->off;
		}
	}
	return 0;
}

int journal_read(struct journal *j, uint64_t seq, struct buf *out, struct pawl_error *err)
{
	struct index_row row;
	int fd, r;

	if (!row_find(j, seq, &row))
		return pawl_fail(err, PAWL_E_LIMIT, "the journal holds no entry %llu", (unsigned long long)seq);
	fd = segment_open(j, row.segment, err);
	if (fd < 0)
		return fd;
	r = row_seek(j, fd, seq, &row, err);
	if (r == 0)
		r = note_out(j, fd, &row, seq, out, err);
	(void)close(fd);
	return r;
}

/* ---- many entries ---- */

static int visit_record(struct record rec, uint64_t from, uint64_t to, journal_visit *visit, void *arg, struct pawl_error *err)
{
	struct str note;
	int r = 0;

	for (uint64_t seq = rec.first; r == 0 && seq < rec.first + rec.count && seq < to; seq++) {
		if (!record_note(&rec, &note))
			return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu: its length in the batch cannot be", (unsigned long long)seq);
		r = seq < from ? 0 : visit(arg, seq, note, err);
	}
	return r;
}

static int zeroes_from(int fd, size_t off, bool *ret, struct pawl_error *err)
{
	uint8_t part[16384];
	ssize_t n;

	*ret = true;
	while (*ret && (n = pread(fd, part, sizeof(part), (off_t)off)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pawl_fail_errno(err, "journal: read");
		for (ssize_t i = 0; i < n; i++)
			*ret = *ret && part[i] == 0;
		off += (size_t)n;
	}
	return 0;
}

/* Behind the last batch of a segment that another follows there are zeroes alone. Opened anew: only now it is known that no repair puts another
 * file there any more. */
static int rest_is_empty(const struct journal *j, const struct index_row *end, struct pawl_error *err)
{
	bool empty = false;
	int fd = segment_open(j, end->segment, err), r;

	if (fd < 0)
		return fd;
	r = zeroes_from(fd, end->off, &empty, err);
	(void)close(fd);
	return r == 0 && !empty ? pawl_fail(err, PAWL_E_TAMPERED, "journal: there are bytes behind entry %llu, the last of its segment",
					    (unsigned long long)end->seq - 1)
				: r;
}

/* The batches of one segment, from the one at *row on. Ends behind the last that starts below to, or where the next segment starts. */
static int walk_segment(struct journal *j, int fd, struct index_row *row, uint64_t from, uint64_t to, journal_visit *visit, void *arg,
			struct pawl_error *err)
{
	struct index_row next;
	struct record rec;
	size_t kept = row->off;
	int r = 0;

	while (r == 0) {
		uint8_t *p = NULL;

		if (row_find(j, row->seq, &next) && next.segment != row->segment)
			return rest_is_empty(j, row, err);
		if (row->seq >= to)
			break;
		if (row->off - kept >= INDEX_STEP) {
			row_keep(j, row);
			kept = row->off;
		}
		r = record_load(j, fd, row, &p, &rec, err);
		if (r == 0) {
			row->seq += rec.count;
			row->off += rec.bytes;
			r = visit_record(rec, from, to, visit, arg, err);
		}
		free(p);
	}
	return r;
}

int journal_walk(struct journal *j, uint64_t from, uint64_t to, journal_visit *visit, void *arg, struct pawl_error *err)
{
	uint64_t at = from;
	int r = 0;

	while (r == 0 && at < to) {
		struct index_row row;
		int fd;

		if (!row_find(j, at, &row) || !row_find(j, to - 1, &(struct index_row){ 0 }))
			return pawl_fail(err, PAWL_E_LIMIT, "the journal holds no entry %llu", (unsigned long long)at);
		fd = segment_open(j, row.segment, err);
		if (fd < 0)
			return fd;
		r = row_seek(j, fd, at, &row, err);
		if (r == 0)
			r = walk_segment(j, fd, &row, from, to, visit, arg, err);
		at = row.seq;
		(void)close(fd);
	}
	return r;
}
