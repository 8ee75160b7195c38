/* tests/fuzz/fuzz_journal.c - any bytes as a segment. Odd first byte: every record's CRC is mended first, so that what
 * lies behind it is reached. Whatever the bytes: bounded time, notes in order, and what was read as good reads the same
 * again when the rest is cut off. */
#include "daemon/log/crc32c.h"
#include "daemon/log/journal_impl.h"

#include <sodium.h>

#include <stdlib.h>

#define MUST(x) ((x) ? (void)0 : abort())

struct seen {
	uint64_t next;
	crypto_hash_sha256_state h;
};

static int see(void *arg, uint64_t seq, struct str note, struct pawl_error *err)
{
	struct seen *s = arg;

	(void)err;
	MUST(seq == s->next && note.n > 0 && note.n <= PAWL_MAX_NOTE);
	s->next++;
	crypto_hash_sha256_update(&s->h, (const uint8_t *)note.p, note.n);
	return 0;
}

static void mend(uint8_t *p, size_t n)
{
	struct record r;

	for (size_t at = 0; n - at >= RECORD_HEAD + RECORD_TAIL && record_head(p + at, &r) && r.bytes <= n - at;
	     at += r.bytes) {
		uint32_t crc = crc32c(p + at, r.bytes - RECORD_TAIL);

		for (size_t k = 0; k < RECORD_TAIL; k++)
			p[at + r.bytes - RECORD_TAIL + k] = (uint8_t)(crc >> (24 - 8 * k));
	}
}

static int scan(const uint8_t *p, size_t n, struct scan *s, uint8_t hash[static 32])
{
	struct seen seen = { .next = 0 };
	struct pawl_error err;
	int r;

	*s = (struct scan){ .any_origin = true };
	crypto_hash_sha256_init(&seen.h);
	r = journal_scan(p, n, s, see, &seen, &err);
	crypto_hash_sha256_final(&seen.h, hash);
	MUST(r == 0 || r == PAWL_E_TAMPERED);
	if (r == 0)
		MUST(s->at <= n && s->torn <= n - s->at && seen.next == s->next_seq &&
		     (s->tail == TAIL_CLEAN) == (s->torn == 0));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scan whole, prefix;
	uint8_t hash[32], again[32];
	uint8_t *p;

	if (size == 0)
		return 0;
	p = malloc(size); /* of the exact length, for the sanitizer's sake */
	MUST(p);
	memcpy(p, data + 1, size - 1);
	if (data[0] & 1)
		mend(p, size - 1);
	if (scan(p, size - 1, &whole, hash) == 0) {
		MUST(scan(p, whole.at, &prefix, again) == 0);
		MUST(prefix.at == whole.at && prefix.next_seq == whole.next_seq && prefix.tail == TAIL_CLEAN);
		MUST(memcmp(hash, again, 32) == 0);
	}
	free(p);
	return 0;
}
