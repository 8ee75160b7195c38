/* daemon/log/journal.c - see journal.h: append, the spare segment, repair, reading back.
 * Owns the folder's descriptor, the lock, the current segment and the index. Never writes below `end`: what is durable
 * stays as it is. */
#include "daemon/log/journal_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t real_pwrite(void *arg, int fd, const void *p, size_t n, int64_t off)
{
	(void)arg;
	return pwrite(fd, p, n, off);
}

static int real_fdatasync(void *arg, int fd)
{
	(void)arg;
	return fdatasync(fd);
}

static int real_fsync(void *arg, int fd)
{
	(void)arg;
	return fsync(fd);
}

static int real_fallocate(void *arg, int fd, int64_t off, int64_t len)
{
	(void)arg;
	return fallocate(fd, 0, off, len);
}

const struct journal_io journal_io_real = { real_pwrite, real_fdatasync, real_fsync, real_fallocate, NULL };

void journal_segment_name(uint64_t first, char out[static 32])
{
	(void)snprintf(out, 32, "journal-%020llu", (unsigned long long)first);
}

/* ---- the index ---- */

int journal_index_reserve(struct journal *j, size_t more, struct pawl_error *err)
{
	struct index_row *rows;
	bool room;

	(void)pthread_mutex_lock(&j->lock); /* who reads keeps rows too */
	room = j->n_rows + more <= j->cap_rows;
	if (!room) {
		size_t cap = j->cap_rows * 2 + 64;

		if (cap < j->n_rows + more)
			cap = j->n_rows + more;
		rows = reallocarray(j->rows, cap, sizeof(*rows));
		if (rows) {
			j->rows = rows;
			j->cap_rows = cap;
			room = true;
		}
	}
	(void)pthread_mutex_unlock(&j->lock);
	return room ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for the journal's index");
}

void journal_index_note(struct journal *j, uint64_t seq, uint64_t segment, size_t off)
{
	const struct index_row *last;

	(void)pthread_mutex_lock(&j->lock);
	last = j->n_rows ? &j->rows[j->n_rows - 1] : NULL;
	if (j->rows && (!last || last->segment != segment || off >= last->off + INDEX_STEP)) /* there are: room was reserved */
		j->rows[j->n_rows++] = (struct index_row){ seq, segment, off };
	(void)pthread_mutex_unlock(&j->lock);
}

/* ---- writing ---- */

int journal_pwrite_all(struct journal *j, int fd, const void *p, size_t n, size_t off, struct pawl_error *err)
{
	const uint8_t *b = p;

	while (n) {
		int64_t got = j->io.pwrite(j->io.arg, fd, b, n, (int64_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EIO; /* a write that takes nothing would go on for ever */
		if (got <= 0)
			return pawl_fail_errno(err, "journal: write");
		b += got;
		n -= (size_t)got;
		off += (size_t)got;
	}
	return 0;
}

static int write_zeroes(struct journal *j, int fd, size_t from, size_t to, struct pawl_error *err)
{
	static const uint8_t zero[16384];
	int r = 0;

	while (r == 0 && from < to) {
		size_t n = to - from < sizeof(zero) ? to - from : sizeof(zero);

		r = journal_pwrite_all(j, fd, zero, n, from, err);
		from += n;
	}
	return r;
}

/* Makes the blocks ours now, so that a full disk shows before an answer depends on it. */
static int preallocate(struct journal *j, int fd, struct pawl_error *err)
{
	if (j->io.fallocate(j->io.arg, fd, 0, (int64_t)j->segment_bytes) == 0)
		return 0;
	if (errno == EOPNOTSUPP)
		return write_zeroes(j, fd, 0, j->segment_bytes, err);
	return pawl_fail_errno(err, "journal: room for a segment of %zu bytes", j->segment_bytes);
}

int journal_spare_make(struct journal *j, struct pawl_error *err)
{
	int fd, r;

	if (j->spare)
		return 0;
	(void)unlinkat(j->dirfd, SPARE_NAME, 0); /* what lies there is of unknown content */
	fd = openat(j->dirfd, SPARE_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return pawl_fail_errno(err, "journal: %s", SPARE_NAME);
	r = preallocate(j, fd, err);
	if (r == 0 && j->io.fdatasync(j->io.arg, fd) != 0)
		r = pawl_fail_errno(err, "journal: sync of %s", SPARE_NAME);
	if (r < 0)
		(void)unlinkat(j->dirfd, SPARE_NAME, 0);
	(void)close(fd);
	j->spare = r == 0;
	return r;
}

/* The spare takes the segment's name, over an older file if there is one. From the rename on it is the segment; the
 * folder's sync decides whether it may be relied on. */
static int spare_becomes(struct journal *j, int fd, uint64_t first, size_t end, struct pawl_error *err)
{
	char name[32];

	journal_segment_name(first, name);
	if (renameat(j->dirfd, SPARE_NAME, j->dirfd, name) != 0)
		return pawl_fail_errno(err, "journal: rename to %s", name);
	j->spare = false;
	if (j->fd >= 0)
		(void)close(j->fd);
	j->fd = fd;
	j->segment = first;
	j->end = j->dirty = end;
	j->state = JOURNAL_WHOLE;
	if (j->io.fsync(j->io.arg, j->dirfd) != 0) {
		j->state = JOURNAL_COPY; /* the next repair renames anew and so has something to sync again */
		return pawl_fail_errno(err, "journal: sync of the folder");
	}
	return 0;
}

int journal_roll(struct journal *j, struct pawl_error *err)
{
	int fd, r = journal_spare_make(j, err);

	if (r == 0)
		r = journal_index_reserve(j, 1, err);
	if (r < 0)
		return r;
	fd = openat(j->dirfd, SPARE_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return pawl_fail_errno(err, "journal: %s", SPARE_NAME);
	r = spare_becomes(j, fd, j->next_seq, 0, err);
	if (j->fd == fd)
		journal_index_note(j, j->next_seq, j->segment, 0);
	else
		(void)close(fd);
	return r;
}

static int record_make(struct journal *j, uint64_t first, const struct str *notes, size_t n, struct pawl_error *err)
{
	size_t payload = 0;

	if (first != j->next_seq || n == 0 || n > JOURNAL_MAX_BATCH)
		return pawl_fail(err, PAWL_E_CONFLICT, "journal: batch of %zu at entry %llu, expected at %llu", n,
				 (unsigned long long)first, (unsigned long long)j->next_seq);
	for (size_t i = 0; i < n; i++) {
		if (notes[i].n == 0 || notes[i].n > PAWL_MAX_NOTE)
			return pawl_fail(err, PAWL_E_LIMIT, "journal: an entry of %zu bytes", notes[i].n);
		payload += 4 + notes[i].n;
	}
	if (payload > JOURNAL_MAX_PAYLOAD)
		return pawl_fail(err, PAWL_E_LIMIT, "journal: a batch of %zu bytes", payload);
	buf_reset(&j->rec);
	record_build(j->origin, first, notes, n, &j->rec);
	return buf_ok(&j->rec) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for a batch of %zu bytes", payload);
}

int journal_append(struct journal *j, uint64_t first, const struct str *notes, size_t n, bool last_resort,
		   struct pawl_error *err)
{
	int r;

	if (j->read_only || j->state != JOURNAL_WHOLE)
		return pawl_fail(err, PAWL_E_FULL, "journal: %s",
				 j->read_only ? "opened for reading" : "waits for its repair");
	r = record_make(j, first, notes, n, err);
	if (r == 0)
		r = journal_index_reserve(j, 2, err);
	if (r == 0 && j->end > 0 && j->end + j->rec.n > j->segment_bytes)
		r = journal_roll(j, err);
	if (r == 0 && !last_resort)
		r = journal_spare_make(j, err); /* the last segment's room is for entries that end things */
	if (r < 0)
		return r;
	r = journal_pwrite_all(j, j->fd, j->rec.p, j->rec.n, j->end, err);
	if (r < 0) {
		j->state = JOURNAL_CUT;
		j->dirty = j->end + j->rec.n;
		return r;
	}
	if (j->io.fdatasync(j->io.arg, j->fd) != 0) {
		j->state = JOURNAL_COPY;
		j->dirty = j->end + j->rec.n;
		return pawl_fail_errno(err, "journal: sync");
	}
	journal_index_note(j, first, j->segment, j->end);
	j->end = j->dirty = j->end + j->rec.n;
	(void)pthread_mutex_lock(&j->lock);
	j->next_seq += n;
	(void)pthread_mutex_unlock(&j->lock);
	return 0;
}

bool journal_broken(const struct journal *j)
{
	return j->state != JOURNAL_WHOLE;
}

/* ---- repair ---- */

/* Zeroes, not a shorter file: the blocks stay ours while others fill the disk. */
static int cut(struct journal *j, struct pawl_error *err)
{
	size_t keep = j->end > j->segment_bytes ? j->end : j->segment_bytes;
	struct stat st;
	int r;

	if (fstat(j->fd, &st) != 0)
		return pawl_fail_errno(err, "journal: stat");
	if ((size_t)st.st_size > keep && ftruncate(j->fd, (off_t)keep) != 0)
		return pawl_fail_errno(err, "journal: cut");
	keep = (size_t)st.st_size < keep ? (size_t)st.st_size : keep;
	r = write_zeroes(j, j->fd, j->end, j->dirty < keep ? j->dirty : keep, err);
	if (r == 0 && j->io.fdatasync(j->io.arg, j->fd) != 0)
		r = pawl_fail_errno(err, "journal: sync of the cut");
	return r;
}

/* The durable prefix, read back and checked: a copy of what has gone bad would be believed. */
static int prefix_load(struct journal *j, uint8_t **ret, struct pawl_error *err)
{
	struct scan s = { .next_seq = j->segment };
	uint8_t *p;
	size_t n;
	int r = journal_segment_load(j->fd, &p, &n, err);

	if (r < 0)
		return r;
	memcpy(s.origin, j->origin, 32);
	if (n < j->end)
		r = pawl_fail(err, PAWL_E_TAMPERED, "journal: the segment is shorter than what was synced");
	else
		r = journal_scan(p, j->end, &s, NULL, NULL, err);
	if (r == 0 && (s.at != j->end || s.next_seq != j->next_seq))
		r = pawl_fail(err, PAWL_E_TAMPERED, "journal: what was synced does not read back");
	if (r < 0) {
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

static int copy_prefix(struct journal *j, struct pawl_error *err)
{
	uint8_t *p = NULL;
	int fd = -1, r = journal_spare_make(j, err);

	if (r == 0)
		r = prefix_load(j, &p, err);
	if (r < 0)
		return r;
	fd = openat(j->dirfd, SPARE_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		r = pawl_fail_errno(err, "journal: %s", SPARE_NAME);
	j->spare = false; /* from here on its content is unknown until the rename */
	if (r == 0)
		r = journal_pwrite_all(j, fd, p, j->end, 0, err);
	if (r == 0 && j->io.fdatasync(j->io.arg, fd) != 0)
		r = pawl_fail_errno(err, "journal: sync of the copy");
	if (r == 0)
		r = spare_becomes(j, fd, j->segment, j->end, err);
	if (r < 0 && j->fd != fd && fd >= 0)
		(void)close(fd);
	free(p);
	return r;
}

int journal_repair(struct journal *j, struct pawl_error *err)
{
	int r = 0;

	if (j->state == JOURNAL_CUT) {
		r = cut(j, err);
		j->state = r == 0 ? JOURNAL_WHOLE : JOURNAL_COPY;
		j->dirty = r == 0 ? j->end : j->dirty;
	}
	if (j->state == JOURNAL_COPY)
		r = copy_prefix(j, err);
	return r;
}

int journal_ready(struct journal *j, struct pawl_error *err)
{
	int r = journal_repair(j, err);

	return r < 0 ? r : journal_spare_make(j, err);
}
