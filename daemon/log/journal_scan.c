/* daemon/log/journal_scan.c - the batch record's format, and the walk over a segment's bytes. Pure: no file, no clock;
 * fuzzed.
 *
 * What lies behind the last good record is zeroes (never written), or the remains of one batch whose pages did not all
 * reach the disk: short, holed or garbled. It cannot hold the start of a second batch, since that is written only after
 * the first is durable. So a magic further on means that a durable batch was damaged. One search, linear in the bytes:
 * no CRC is computed over what a liar says is there. */
#include "daemon/log/crc32c.h"
#include "daemon/log/journal_impl.h"

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

bool record_head(const uint8_t *p, struct record *ret)
{
	if (memcmp(p, RECORD_MAGIC, 8) != 0)
		return false;
	*ret = (struct record){
		.origin = p + 8, .first = get64(p + 40), .count = get32(p + 48), .payload_n = get32(p + 52)
	};
	ret->bytes = RECORD_HEAD + (size_t)ret->payload_n + RECORD_TAIL;
	return ret->count > 0 && ret->count <= JOURNAL_MAX_BATCH && ret->payload_n <= JOURNAL_MAX_PAYLOAD &&
	       ret->first <= (uint64_t)INT64_MAX - ret->count && ret->payload_n >= ret->count * 5u;
}

bool record_parse(const uint8_t *p, size_t n, struct record *ret)
{
	struct record r;

	if (n < RECORD_HEAD + RECORD_TAIL || !record_head(p, &r) || r.bytes > n)
		return false;
	r.payload = p + RECORD_HEAD;
	if (get32(p + r.bytes - RECORD_TAIL) != crc32c(p, r.bytes - RECORD_TAIL))
		return false;
	*ret = r;
	return true;
}

bool record_note(struct record *r, struct str *ret)
{
	uint32_t len;

	if (r->payload_n < 4)
		return false;
	len = get32(r->payload);
	if (len == 0 || len > PAWL_MAX_NOTE || len > r->payload_n - 4)
		return false;
	*ret = (struct str){ (const char *)r->payload + 4, len };
	r->payload += 4 + len;
	r->payload_n -= 4 + len;
	return true;
}

void record_build(const uint8_t origin[static 32], uint64_t first, const struct str *notes, size_t n, struct buf *out)
{
	uint8_t head[RECORD_HEAD] = RECORD_MAGIC, word[4];
	size_t payload = 0;

	for (size_t i = 0; i < n; i++)
		payload += 4 + notes[i].n;
	memcpy(head + 8, origin, 32);
	put32(head + 40, (uint32_t)(first >> 32));
	put32(head + 44, (uint32_t)first);
	put32(head + 48, (uint32_t)n);
	put32(head + 52, (uint32_t)payload);
	buf_add(out, head, sizeof(head));
	for (size_t i = 0; i < n; i++) {
		put32(word, (uint32_t)notes[i].n);
		buf_add(out, word, sizeof(word));
		buf_str_add(out, notes[i]);
	}
	if (buf_ok(out)) {
		put32(word, crc32c(out->p, out->n));
		buf_add(out, word, sizeof(word));
	}
}

static void tail_look(const uint8_t *p, size_t n, struct scan *s)
{
	size_t last = n;

	while (last > s->at && p[last - 1] == 0)
		last--;
	s->torn = last - s->at;
	s->tail = s->torn ? TAIL_TORN : TAIL_CLEAN;
	if (s->torn > 1 && memmem(p + s->at + 1, n - s->at - 1, RECORD_MAGIC, 8))
		s->tail = TAIL_CORRUPT;
}

static int visit_notes(struct record r, uint64_t first, journal_visit *visit, void *arg, struct pawl_error *err)
{
	struct str note;

	for (uint32_t i = 0; i < r.count; i++) {
		int got;

		if (!record_note(&r, &note))
			return pawl_fail(err, PAWL_E_TAMPERED, "entry %llu: its length in the batch cannot be",
					 (unsigned long long)(first + i));
		got = visit ? visit(arg, first + i, note, err) : 0;
		if (got < 0)
			return got;
	}
	return r.payload_n == 0 ? 0
				: pawl_fail(err, PAWL_E_TAMPERED, "batch at entry %llu holds more than it counts",
					    (unsigned long long)first);
}

int journal_scan(const uint8_t *p, size_t n, struct scan *s, journal_visit *visit, void *arg, struct pawl_error *err)
{
	struct record r;
	int got;

	while (record_parse(p + s->at, n - s->at, &r)) {
		if (s->any_origin) {
			memcpy(s->origin, r.origin, 32);
			s->any_origin = false;
		}
		if (memcmp(r.origin, s->origin, 32) != 0)
			return pawl_fail(err, PAWL_E_TAMPERED, "a batch of another log lies at byte %zu", s->at);
		if (r.first != s->next_seq)
			return pawl_fail(err, PAWL_E_TAMPERED,
					 "the batch at byte %zu starts with entry %llu, expected %llu", s->at,
					 (unsigned long long)r.first, (unsigned long long)s->next_seq);
		got = s->on_record ? s->on_record(s->record_arg, &r, s->at, err) : 0;
		if (got == 0)
			got = visit_notes(r, r.first, visit, arg, err);
		if (got < 0)
			return got;
		s->next_seq += r.count;
		s->at += r.bytes;
	}
	tail_look(p, n, s);
	return 0;
}
