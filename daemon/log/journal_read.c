/* daemon/log/journal_read.c - one entry back from the journal, beside a thread that appends. Touches only what struct
 * journal's lock guards; opens the segment by name for itself, so that a repair which puts another file there disturbs
 * nobody. */
#include "daemon/log/journal_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Reads the whole record at off again and hands out the note: a bad disk must not put words into an old answer. */
static int note_out(const struct journal *j, int fd, size_t off, const struct record *head, uint64_t seq,
		    struct buf *out, struct pawl_error *err)
{
	uint8_t *p = malloc(head->bytes);
	struct record r;
	struct str note = STR_NONE;
	int got;

	if (!p)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a batch of %zu bytes", head->bytes);
	got = pread_all(fd, p, head->bytes, off, err);
	if (got == 0 && (!record_parse(p, head->bytes, &r) || memcmp(r.origin, j->origin, 32) != 0))
		got = pawl_fail(err, PAWL_E_TAMPERED, "journal: the batch at entry %llu has changed",
				(unsigned long long)head->first);
	for (uint64_t at = head->first; got == 0 && at <= seq; at++)
		if (!record_note(&r, &note))
			got = pawl_fail(err, PAWL_E_TAMPERED, "journal: entry %llu is not in its batch",
					(unsigned long long)seq);
	if (got == 0) {
		buf_str_add(out, note);
		got = buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for an entry");
	}
	free(p);
	return got;
}

int journal_read(struct journal *j, uint64_t seq, struct buf *out, struct pawl_error *err)
{
	uint8_t head[RECORD_HEAD];
	struct index_row row;
	struct record r = { .count = 0 };
	char name[32];
	int fd, got = 0;

	if (!row_find(j, seq, &row))
		return pawl_fail(err, PAWL_E_LIMIT, "the journal holds no entry %llu", (unsigned long long)seq);
	journal_segment_name(row.segment, name);
	fd = openat(j->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return pawl_fail_errno(err, "journal: %s", name);
	while (got == 0) {
		got = pread_all(fd, head, sizeof(head), row.off, err);
		if (got == 0 && (!record_head(head, &r) || r.first != row.seq))
			got = pawl_fail(err, PAWL_E_TAMPERED, "journal: %s has changed at byte %zu", name, row.off);
		if (got < 0 || seq < r.first + r.count)
			break;
		row.seq += r.count;
		row.off += r.bytes;
	}
	if (got == 0)
		got = note_out(j, fd, row.off, &r, seq, out, err);
	(void)close(fd);
	return got;
}
