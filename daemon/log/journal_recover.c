/* daemon/log/journal_recover.c - opening a journal: the lock, the list of segments, the walk over all of them, the cut
 * of a torn tail. What was read is made durable before it is reported: after a kill the newest batch may live in the
 * page cache alone. */
#include "daemon/log/journal_impl.h"

#include <sodium.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LIVE_TRIES 100 /* of 2 ms: a batch that another process is writing gets whole in far less */

struct recover {
	struct journal *j;
	struct scan scan;
	journal_visit *visit;
	void *arg;
	uint64_t *first; /* the segments' names, in order */
	size_t n;
	bool live;
};

/* ---- the folder ---- */

static int take_lock(struct journal *j, struct pawl_error *err)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	j->lockfd = openat(j->dirfd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->lockfd < 0)
		return pawl_fail_errno(err, "journal: %s", LOCK_NAME);
	if (fcntl(j->lockfd, F_OFD_SETLK, &l) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return pawl_fail(err, PAWL_E_BUSY, "another process writes this log");
	return pawl_fail_errno(err, "journal: lock");
}

/* Asks without taking: a reader that took the lock for a moment could keep a daemon from starting. */
static bool writer_lives(const struct journal *j)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(j->dirfd, LOCK_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	bool held;

	if (fd < 0)
		return false;
	held = fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
	(void)close(fd);
	return held;
}

static bool name_seq(const char *name, uint64_t *ret)
{
	uint64_t v = 0;

	if (strlen(name) != 28 || memcmp(name, "journal-", 8) != 0)
		return false;
	for (const char *p = name + 8; *p; p++) {
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	}
	*ret = v;
	return true;
}

static int by_seq(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int list_add(struct recover *rc, uint64_t seq, struct pawl_error *err)
{
	uint64_t *more;

	if ((rc->n & (rc->n - 1)) == 0) { /* full at 0, 1, 2, 4, … */
		more = reallocarray(rc->first, rc->n ? rc->n * 2 : 1, sizeof(*more));
		if (!more)
			return pawl_fail(err, PAWL_E_NOMEM, "no memory for the list of segments");
		rc->first = more;
	}
	rc->first[rc->n++] = seq;
	return 0;
}

static int list_segments(struct recover *rc, struct pawl_error *err)
{
	int fd = openat(rc->j->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint64_t seq;

	if (!d) {
		r = pawl_fail_errno(err, "journal: list of the folder");
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	errno = 0;
	while (r == 0 && (e = readdir(d))) {
		if (name_seq(e->d_name, &seq))
			r = list_add(rc, seq, err);
		errno = 0;
	}
	if (r == 0 && errno)
		r = pawl_fail_errno(err, "journal: list of the folder");
	(void)closedir(d);
	if (rc->n)
		qsort(rc->first, rc->n, sizeof(*rc->first), by_seq);
	return r;
}

int journal_segment_load(int fd, uint8_t **ret, size_t *ret_n, struct pawl_error *err)
{
	struct stat st;
	uint8_t *p;
	size_t n = 0, size;

	if (fstat(fd, &st) != 0)
		return pawl_fail_errno(err, "journal: stat");
	if (!S_ISREG(st.st_mode) || st.st_size > JOURNAL_MAX_SEGMENT)
		return pawl_fail(err, PAWL_E_TAMPERED, "a segment is not a regular file of at most %u bytes",
				 JOURNAL_MAX_SEGMENT);
	size = (size_t)st.st_size;
	p = malloc(size ? size : 1);
	if (!p)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for a segment of %zu bytes", size);
	while (n < size) {
		ssize_t got = pread(fd, p + n, size - n, (off_t)n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			free(p);
			return pawl_fail_errno(err, "journal: read");
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*ret = p;
	*ret_n = n;
	return 0;
}

/* ---- the walk ---- */

static int on_record(void *arg, const struct record *r, size_t at, struct pawl_error *err)
{
	struct journal *j = arg;
	int got = journal_index_reserve(j, 1, err);

	if (got == 0)
		journal_index_note(j, r->first, j->segment, at);
	return got;
}

static int scan_once(struct recover *rc, int fd, struct pawl_error *err)
{
	uint8_t *p;
	size_t n;
	int r = journal_segment_load(fd, &p, &n, err);

	if (r < 0)
		return r;
	if (rc->scan.at > n) {
		r = pawl_fail(err, PAWL_E_TAMPERED, "a segment has become shorter");
	} else {
		r = journal_scan(p, n, &rc->scan, rc->visit, rc->arg, err);
	}
	free(p);
	return r;
}

/* A reader beside a live writer may catch a batch half copied into the page cache: it looks again until that batch is
 * whole. */
static int scan_segment(struct recover *rc, int fd, struct pawl_error *err)
{
	const struct timespec nap = { .tv_nsec = 2000000 };
	int r;

	rc->scan.at = 0;
	r = scan_once(rc, fd, err);
	for (int i = 0; r == 0 && i < LIVE_TRIES && rc->live && rc->scan.tail != TAIL_CLEAN; i++) {
		(void)nanosleep(&nap, NULL);
		r = scan_once(rc, fd, err);
	}
	return r;
}

/* Says which file, in a message that the scanner or the visitor made. */
static int in_file(const char *name, int r, struct pawl_error *err)
{
	struct pawl_error inner;

	if (r == PAWL_E_TAMPERED && err) {
		inner = *err;
		pawl_fail(err, PAWL_E_TAMPERED, "%s: %s", name, inner.msg);
	}
	return r;
}

static int walk_segment(struct recover *rc, size_t i, struct pawl_error *err)
{
	bool last = i + 1 == rc->n;
	char name[32];
	int fd, r;

	journal_segment_name(rc->first[i], name);
	if (rc->first[i] != rc->scan.next_seq)
		return pawl_fail(err, PAWL_E_TAMPERED, "%s: expected a segment that starts with entry %llu", name,
				 (unsigned long long)rc->scan.next_seq);
	fd = openat(rc->j->dirfd, name, (rc->j->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return pawl_fail_errno(err, "journal: %s", name);
	rc->j->segment = rc->first[i];
	r = in_file(name, scan_segment(rc, fd, err), err);
	if (r == 0 && (rc->scan.tail == TAIL_CORRUPT || (rc->scan.tail == TAIL_TORN && !last)))
		r = pawl_fail(err, PAWL_E_TAMPERED,
			      "%s: the batch at byte %zu (entry %llu) is damaged and others follow it", name,
			      rc->scan.at, (unsigned long long)rc->scan.next_seq);
	if (r < 0 || !last) {
		(void)close(fd);
		return r;
	}
	rc->j->fd = fd;
	rc->j->end = rc->scan.at;
	rc->j->dirty = rc->scan.at + rc->scan.torn;
	return 0;
}

/* ---- opening ---- */

static bool spare_clean(const struct journal *j)
{
	int fd = openat(j->dirfd, SPARE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	uint8_t *p = NULL;
	bool ok = false;
	size_t n;

	if (fd < 0)
		return false;
	if (journal_segment_load(fd, &p, &n, NULL) == 0 && n == j->segment_bytes) {
		ok = true;
		for (size_t i = 0; ok && i < n; i++)
			ok = p[i] == 0;
	}
	free(p);
	(void)close(fd);
	return ok;
}

/* Cut, sync, room: after this the journal stands as if it had been written just now. */
static int settle(struct journal *j, struct pawl_error *err)
{
	struct stat st;
	int r = 0;

	j->spare = spare_clean(j);
	if (j->fd < 0)
		r = journal_roll(j, err);
	if (r < 0)
		return r;
	if (j->dirty > j->end) {
		j->state = JOURNAL_CUT;
		r = journal_repair(j, err);
	}
	if (r == 0 && fstat(j->fd, &st) == 0 && (size_t)st.st_size < j->segment_bytes)
		(void)j->io.fallocate(j->io.arg, j->fd, 0,
				      (int64_t)j->segment_bytes); /* without it each write asks for room */
	if (r == 0 && j->io.fdatasync(j->io.arg, j->fd) != 0)
		r = pawl_fail_errno(err, "journal: sync");
	if (r == 0 && j->io.fsync(j->io.arg, j->dirfd) != 0)
		r = pawl_fail_errno(err, "journal: sync of the folder");
	return r;
}

/* The older segments are known by their names alone. */
static int skip_to_last(struct recover *rc, size_t *ret, struct pawl_error *err)
{
	int r = journal_index_reserve(rc->j, rc->n, err);

	for (size_t i = 0; r == 0 && i + 1 < rc->n; i++)
		journal_index_note(rc->j, rc->first[i], rc->first[i], 0);
	*ret = rc->n - 1;
	return r;
}

static int recover_run(struct recover *rc, const char *dir, bool tail_only, struct pawl_error *err)
{
	struct journal *j = rc->j;
	size_t from = 0;
	int r = 0;

	j->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->dirfd < 0)
		return pawl_fail_errno(err, "log folder %s", dir);
	if (!j->read_only)
		r = take_lock(j, err);
	else
		rc->live = writer_lives(j);
	if (r == 0)
		r = list_segments(rc, err);
	if (r == 0 && tail_only && rc->n)
		r = skip_to_last(rc, &from, err);
	if (r == 0 && rc->n)
		rc->scan.next_seq = rc->first[from];
	for (size_t i = from; r == 0 && i < rc->n; i++)
		r = walk_segment(rc, i, err);
	if (r == 0) {
		j->next_seq = rc->scan.next_seq;
		memcpy(j->origin, rc->scan.origin, 32);
		if (!j->read_only)
			r = settle(j, err);
	}
	return r;
}

int journal_open(const struct journal_config *cfg, journal_visit *visit, void *arg, struct journal **ret,
		 struct journal_recovery *rec, struct pawl_error *err)
{
	struct recover rc = { .visit = visit, .arg = arg };
	struct journal *j;
	int r;

	if (!cfg->read_only && cfg->origin.n == 0)
		return pawl_fail(err, PAWL_E_USAGE, "a journal needs an origin");
	if (cfg->segment_bytes > JOURNAL_MAX_SEGMENT - JOURNAL_MAX_PAYLOAD)
		return pawl_fail(err, PAWL_E_USAGE, "segments of at most %u bytes",
				 JOURNAL_MAX_SEGMENT - JOURNAL_MAX_PAYLOAD);
	j = calloc(1, sizeof(*j));
	if (!j)
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the journal");
	j->io = cfg->io ? *cfg->io : journal_io_real;
	j->dirfd = j->lockfd = j->fd = -1;
	j->read_only = cfg->read_only;
	j->segment_bytes = cfg->segment_bytes ? cfg->segment_bytes : JOURNAL_SEGMENT_BYTES;
	j->rec = BUF_MAX(JOURNAL_MAX_PAYLOAD + RECORD_HEAD + RECORD_TAIL);
	(void)pthread_mutex_init(&j->lock, NULL);
	rc.j = j;
	rc.scan.on_record = on_record;
	rc.scan.record_arg = j;
	rc.scan.any_origin = cfg->origin.n == 0;
	if (cfg->origin.n)
		crypto_hash_sha256(rc.scan.origin, (const uint8_t *)cfg->origin.p, cfg->origin.n);
	r = recover_run(&rc, cfg->dir, cfg->tail_only, err);
	if (r == 0) {
		*rec = (struct journal_recovery){ .next_seq = rc.scan.next_seq,
						  .first_seq = rc.n ? rc.first[0] : 0,
						  .live = rc.live,
						  .torn_bytes = (int64_t)rc.scan.torn };
		memcpy(rec->origin, rc.scan.origin, 32);
		*ret = j;
	} else {
		journal_close(j);
	}
	free(rc.first);
	return r;
}

void journal_close(struct journal *j)
{
	if (!j)
		return;
	if (j->fd >= 0)
		(void)close(j->fd);
	if (j->lockfd >= 0)
		(void)close(j->lockfd); /* the lock goes with it */
	if (j->dirfd >= 0)
		(void)close(j->dirfd);
	(void)pthread_mutex_destroy(&j->lock);
	buf_done(&j->rec);
	free(j->rows);
	free(j);
}
