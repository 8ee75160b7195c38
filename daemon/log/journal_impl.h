/* daemon/log/journal_impl.h - what the journal's own files share: the record format, the scanner and the inside of
 * struct journal. Included by journal*.c, their tests and their fuzzer only. */
#ifndef PAWL_JOURNAL_IMPL_H
#define PAWL_JOURNAL_IMPL_H
#include "daemon/log/journal.h"

#include <pthread.h>

/* ---- journal_scan.c: pure ---- */

/* magic[8] origin[32] first u64 count u32 payload length u32, payload: (length u32, note) * count, crc32c u32;
 * big-endian. */
#define RECORD_MAGIC "PAWL\0B1\n" /* holds a 0x00, which no note may: it cannot occur inside a payload */
#define RECORD_HEAD  56u
#define RECORD_TAIL  4u

struct record { /* borrowed from the scanned bytes */
	const uint8_t *origin, *payload;
	uint64_t first;
	uint32_t count, payload_n;
	size_t bytes; /* whole record */
};
/* True when the fixed part is ours and its numbers are possible; says nothing of what follows. p has RECORD_HEAD bytes.
 */
bool record_head(const uint8_t *p, struct record *ret);
/* A whole record with a good CRC at p. */
bool record_parse(const uint8_t *p, size_t n, struct record *ret);
/* Cuts the next note off the payload. False at its end, or when a length cannot be. */
bool record_note(struct record *r, struct str *ret);
/* Appends a record. out must be empty; .failed when over its bound. */
void record_build(const uint8_t origin[static 32], uint64_t first, const struct str *notes, size_t n, struct buf *out);

enum tail {
	TAIL_CLEAN,   /* nothing but zeroes */
	TAIL_TORN,    /* one batch that did not get whole */
	TAIL_CORRUPT, /* the start of another batch lies behind it, so it was whole once */
};
struct scan {
	uint8_t origin[32];
	bool any_origin; /* take the first record's */
	uint64_t next_seq;
	size_t at; /* in: where to start; out: end of the last good record */
	enum tail tail;
	size_t torn; /* bytes from `at` to the last that is not zero */
	/* Called for each good record, before its notes are visited. */
	int (*on_record)(void *arg, const struct record *r, size_t at, struct pawl_error *err);
	void *record_arg;
};
/* Walks the records of one segment. A good record that does not belong where it lies is PAWL_E_TAMPERED. */
PAWL_MUST_USE int journal_scan(const uint8_t *p, size_t n, struct scan *s, journal_visit *visit, void *arg,
			       struct pawl_error *err);

/* ---- struct journal ---- */

#define SPARE_NAME "journal-spare"
#define LOCK_NAME  "journal.lock"
#define INDEX_STEP (64u << 10)

struct index_row { /* a batch that starts at off of the segment that starts with `segment` */
	uint64_t seq, segment;
	size_t off;
};
enum journal_state {
	JOURNAL_WHOLE,
	JOURNAL_CUT,  /* bytes of a failed write may lie behind `end` */
	JOURNAL_COPY, /* the file may no longer be trusted to keep what it is given */
};
struct journal {
	struct journal_io io;
	int dirfd, lockfd, fd;
	bool read_only, spare;
	size_t segment_bytes;
	uint8_t origin[32];
	uint64_t segment; /* first sequence of the current segment: its name */
	size_t end;       /* of the last durable batch in it */
	size_t dirty;     /* > end: a failed write may have reached up to here */
	enum journal_state state;
	struct buf rec;
	pthread_mutex_t lock;   /* guards what journal_read() looks at: */
	uint64_t next_seq;      /* only durable entries lie below */
	struct index_row *rows; /* at least one a segment; one every INDEX_STEP where it was written or read */
	size_t n_rows, cap_rows;
};

void journal_segment_name(uint64_t first, char out[static 32]);
int journal_index_reserve(struct journal *j, size_t more, struct pawl_error *err);
void journal_index_note(struct journal *j, uint64_t seq, uint64_t segment,
			size_t off); /* room was reserved; keeps what is far enough */
int journal_pwrite_all(struct journal *j, int fd, const void *p, size_t n, size_t off, struct pawl_error *err);
int journal_spare_make(struct journal *j, struct pawl_error *err);
int journal_roll(struct journal *j,
		 struct pawl_error *err); /* the spare becomes the segment that starts with next_seq */
int journal_segment_load(int fd, uint8_t **ret, size_t *ret_n,
			 struct pawl_error *err); /* whole file; the caller frees */
extern const struct journal_io journal_io_real;
#endif
