/* policy/state_bytes.c - see state_bytes.h: bytes in and out, numbers, times, texts. Owns nothing; the buffer is the walk's. */
#include "policy/state_bytes.h"

#include <assert.h>

void bytes_fault(struct bytes *b, const char *what)
{
	if (b->r == 0 && b->to) /* who writes has nothing to judge */
		b->r = pawl_fail(b->err, PAWL_E_TAMPERED, "the bytes of a state are wrong at byte %llu, %s %llu: %s",
				 (unsigned long long)(b->gone + b->at), b->row, (unsigned long long)b->nth, what);
}

void bytes_no_memory(struct bytes *b)
{
	if (b->r == 0)
		b->r = no_memory(b->err);
}

/* ---- the two ends ---- */

void bytes_flush(struct bytes *b)
{
	if (b->r == 0 && b->at)
		b->r = b->sink(b->arg, b->buf, b->at, b->err);
	b->gone += b->at;
	b->at = 0;
}

static bool more(struct bytes *b)
{
	size_t n = 0;

	if (b->r == 0)
		b->r = b->source(b->arg, b->buf + b->end, b->size - b->end, &n, b->err);
	if (b->r < 0 || n == 0)
		return false;
	assert(n <= b->size - b->end);
	b->end += n;
	return true;
}

bool bytes_fill(struct bytes *b, size_t n)
{
	if (b->r == 0 && b->end - b->at >= n)
		return true;
	if (b->at + n > b->size) {
		memmove(b->buf, b->buf + b->at, b->end - b->at);
		b->gone += b->at;
		b->end -= b->at;
		b->at = 0;
	}
	while (b->end - b->at < n)
		if (!more(b)) {
			bytes_fault(b, "they end here");
			return false;
		}
	return b->r == 0;
}

bool bytes_are_over(struct bytes *b)
{
	if (b->at == b->end) {
		b->gone += b->at;
		b->at = b->end = 0;
		return !more(b);
	}
	return false;
}

void bytes_raw(struct bytes *b, void *p, size_t n)
{
	if (b->to) {
		if (bytes_fill(b, n)) {
			memcpy(p, b->buf + b->at, n);
			b->at += n;
		} else {
			memset(p, 0, n);
		}
		return;
	}
	for (size_t part; n; n -= part, p = (char *)p + part) {
		if (b->at == b->size)
			bytes_flush(b);
		part = n < b->size - b->at ? n : b->size - b->at;
		memcpy(b->buf + b->at, p, part);
		b->at += part;
	}
}

/* ---- numbers: each has one form, so that what is read is written back byte for byte ---- */

uint64_t bytes_get(struct bytes *b, uint64_t max)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t c;

		if (b->at == b->end && !bytes_fill(b, 1))
			return 0;
		c = b->buf[b->at];
		if ((c == 0 && shift) || (shift == 63 && c > 1)) {
			bytes_fault(b, "a number that is longer than it must be");
			return 0;
		}
		v |= (uint64_t)(c & 0x7f) << shift;
		b->at++;
		if (c < 0x80)
			break;
	}
	if (b->r < 0)
		return 0;
	if (v <= max)
		return v;
	bytes_fault(b, "a number above its bound");
	return 0;
}

static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t z)
{
	return (int64_t)(z >> 1 ^ (z & 1 ? UINT64_MAX : 0));
}

/* As its distance from now, which is short; 0 = none. */
int64_t bytes_time(struct bytes *b, int64_t t)
{
	uint64_t z = bytes_n(b, t && !b->to ? zigzag(t - b->st->now) + 1 : 0, UINT64_MAX);

	if (!b->to || !z)
		return b->to ? 0 : t;
	if (add_over(b->st->now, unzigzag(z - 1), &t) || t <= 0) {
		bytes_fault(b, "a time that no log can have");
		return 0;
	}
	return t;
}

uint64_t bytes_below(struct bytes *b, uint64_t id, uint64_t *last)
{
	uint64_t down = bytes_n(b, *last - id, *last);

	if (down == 0)
		bytes_fault(b, "it is not older than the one before it");
	*last -= down;
	return *last;
}

/* ---- texts: one of the last few by its place, any other as it is ---- */

/* Its place, or n_fresh; it is the first from here on. */
static uint32_t freshen(struct bytes *b, uint32_t h)
{
	uint32_t at = 0, last;

	while (at < b->n_fresh && b->fresh[at] != h)
		at++;
	if (at == b->n_fresh && b->n_fresh < BYTES_FRESH)
		b->n_fresh++;
	last = at < b->n_fresh ? at : b->n_fresh - 1;
	memmove(b->fresh + 1, b->fresh, last * sizeof(b->fresh[0]));
	b->fresh[0] = h;
	return at;
}

static void write_text(struct bytes *b, uint32_t h)
{
	struct str s = text_str(b->st, h);
	uint32_t had = b->n_fresh, at = h ? freshen(b, h) : 0;

	if (!h) {
		(void)bytes_n(b, 0, 0);
	} else if (at < had) {
		(void)bytes_n(b, at + 1, BYTES_FRESH);
	} else {
		(void)bytes_n(b, BYTES_FRESH + s.n, UINT64_MAX);
		bytes_raw(b, text_at(b->st, h)->t->p, s.n);
	}
}

static uint32_t read_whole(struct bytes *b, size_t n)
{
	struct str s = { NULL, n };
	uint32_t h, had = b->n_fresh;

	if (!bytes_fill(b, n))
		return 0;
	s.p = (const char *)b->buf + b->at;
	if (!text_reserve(b->to, s)) {
		bytes_no_memory(b);
		return 0;
	}
	h = text_hold(b->to, s);
	if (freshen(b, h) < had) {
		bytes_fault(b, "a text that was there a moment ago is there again");
		return 0;
	}
	b->at += n;
	return h;
}

static uint32_t read_text(struct bytes *b, bool must)
{
	uint64_t n = bytes_get(b, BYTES_FRESH + PAWL_MAX_BODY);
	uint32_t h;

	if (n > BYTES_FRESH)
		return read_whole(b, n - BYTES_FRESH);
	if (n == 0 && !must)
		return 0;
	if (n == 0 || n > b->n_fresh) {
		bytes_fault(b, "a text that is not there");
		return 0;
	}
	h = b->fresh[n - 1];
	(void)freshen(b, h);
	text_at(b->st, h)->t->refs++;
	return h;
}

uint32_t bytes_text(struct bytes *b, uint32_t h, bool must)
{
	if (b->to)
		return read_text(b, must);
	write_text(b, h);
	return h;
}

struct str bytes_str(struct bytes *b, struct str s, bool must)
{
	uint32_t h = bytes_text(b, s.p ? text_of(s)->handle : 0, must);

	return b->to ? text_str(b->st, h) : s;
}
