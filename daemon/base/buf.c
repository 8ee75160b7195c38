/* daemon/base/buf.c - see buf.h. One growth rule (double, capped), one failure flag. */
#include "daemon/base/buf.h"

#include "daemon/base/swar.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void buf_init(struct buf *b, size_t max)
{
	*b = BUF_MAX(max);
}

void buf_done(struct buf *b)
{
	if (!b)
		return;
	free(b->p);
	*b = BUF_MAX(b->max);
}

void buf_reset(struct buf *b)
{
	b->n = 0;
	b->failed = false;
}

bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

struct str buf_str(const struct buf *b)
{
	return (struct str){ b->p ? b->p : "", b->n };
}

bool buf_grow(struct buf *b, size_t n)
{
	size_t need, cap;
	char *p;

	if (b->failed || n > b->max || b->n > b->max - n) {
		b->failed = true;
		return false;
	}
	need = b->n + n + 1;
	if (need <= b->cap)
		return true;
	cap = b->cap ? b->cap : 256;
	while (cap < need)
		cap *= 2;
	p = realloc(b->p, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

char *buf_take(struct buf *b, size_t *ret_n)
{
	char *p;

	if (!buf_grow(b, 0))
		return NULL;
	p = b->p;
	p[b->n] = '\0';
	if (ret_n)
		*ret_n = b->n;
	*b = BUF_MAX(b->max);
	return p;
}

void buf_str_add(struct buf *b, struct str s)
{
	buf_add(b, s.p, s.n);
}

void buf_puts(struct buf *b, const char *z)
{
	buf_add(b, z, strlen(z));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !buf_room(b, (size_t)n)) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->n += (size_t)n;
}

/* Counted first, so that they can be written where they belong: numbers are most of some texts. */
static size_t digits_of(uint64_t v)
{
	uint64_t power = 10;
	size_t n = 1;

	for (; n < 20 && v >= power; n++)
		power *= 10; /* past 10^19 it wraps, and n is 20 */
	return n;
}

void buf_u64(struct buf *b, uint64_t v)
{
	size_t n = digits_of(v);
	char *out = buf_room(b, n);

	if (!out)
		return;
	b->n += n;
	for (; n; v /= 10)
		out[--n] = (char)('0' + v % 10);
}

void buf_i64(struct buf *b, int64_t v)
{
	if (v < 0)
		buf_putc(b, '-');
	buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void buf_hex(struct buf *b, const uint8_t *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	char *out = buf_room(b, n * 2);

	if (!out)
		return;
	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digit[p[i] >> 4];
		out[2 * i + 1] = digit[p[i] & 15];
	}
	b->n += n * 2;
}

/* One byte that a JSON string cannot hold as it is; its length. */
static size_t json_escape(unsigned char c, char out[static 6])
{
	static const char short_form[] = "btn\vfr"; /* 0x08 .. 0x0d; 0x0b has none */

	out[0] = '\\';
	if (c == '"' || c == '\\') {
		out[1] = (char)c;
		return 2;
	}
	if (c >= 0x08 && c <= 0x0d && c != 0x0b) {
		out[1] = short_form[c - 0x08];
		return 2;
	}
	memcpy(out + 1, "u00", 3);
	out[4] = (char)('0' + (c >> 4));
	out[5] = "0123456789abcdef"[c & 15];
	return 6;
}

/* Copies n bytes and tells whether all of them may stand in a JSON string as they are; if not, what was copied is worth nothing. */
static inline bool copy_plain(char *out, const char *p, size_t n)
{
	uint64_t special = 0, w;

	if (n < 8) {
		w = n ? swar_load_short(p, n) : 0;
		if (n)
			swar_store_short(out, w, n);
		return !(swar_json_special(w) & ((UINT64_C(1) << 8 * n) - 1)); /* what lies behind is zero */
	}
	for (size_t i = 0; i + 8 <= n; i += 8) {
		special |= swar_json_special(swar_load(p + i));
		memcpy(out + i, p + i, 8);
	}
	special |= swar_json_special(swar_load(p + n - 8)); /* the rest, and some of it again */
	memcpy(out + n - 8, p + n - 8, 8);
	return !special;
}

/* A text with bytes that need an escape, behind its quote at out; after: one byte behind it, NUL for none. Room for what is left and what
 * ends it is always there. */
static __attribute__((noinline)) void json_escaped(struct buf *b, char *out, struct str s, char after)
{
	const char *p = s.p, *end = p + s.n;
	char t[6];

	while (p < end) {
		unsigned char c = (unsigned char)*p;
		size_t n;

		if (end - p >= 8) { /* a whole word can be stored though only its first bytes may count: what follows overwrites the rest */
			uint64_t special = swar_json_special(swar_load(p));

			n = special ? swar_before(special) : 8;
			memcpy(out, p, 8);
			out += n;
			p += n;
			if (!special)
				continue;
			c = (unsigned char)*p;
		} else if (c >= 0x20 && c != '"' && c != '\\') {
			*out++ = *p++;
			continue;
		}
		n = json_escape(c, t);
		b->n = (size_t)(out - b->p);
		out = buf_room(b, (size_t)(end - p) + n + (after != '\0'));
		if (!out)
			return;
		memcpy(out, t, n);
		out += n;
		p++;
	}
	*out++ = '"';
	if (after)
		*out++ = after;
	b->n = (size_t)(out - b->p);
}

/* before, after: one byte around it, NUL for none. */
static inline void json_text(struct buf *b, char before, struct str s, char after)
{
	char *out = s.n < SIZE_MAX - 4 ? buf_room(b, s.n + 2u + (before != '\0') + (after != '\0')) : NULL;

	if (!out) {
		b->failed = true;
		return;
	}
	if (before)
		*out++ = before;
	*out++ = '"';
	if (!copy_plain(out, s.p, s.n)) {
		json_escaped(b, out, s, after);
		return;
	}
	out += s.n;
	*out++ = '"';
	if (after)
		*out++ = after;
	b->n = (size_t)(out - b->p);
}

void buf_json(struct buf *b, struct str s)
{
	json_text(b, '\0', s, '\0');
}

void buf_member(struct buf *b, char before, struct str key)
{
	json_text(b, before, key, ':');
}

void buf_key(struct buf *b, const char *key)
{
	size_t n = strlen(key);
	char *out = buf_room(b, n + 4);

	if (!out)
		return;
	if (b->n && out[-1] != '{' && out[-1] != '[')
		*out++ = ',';
	*out++ = '"';
	memcpy(out, key, n);
	memcpy(out + n, "\":", 2);
	b->n = (size_t)(out + n + 2 - b->p);
}

static void two_digits(char *out, int v)
{
	out[0] = (char)('0' + v / 10 % 10);
	out[1] = (char)('0' + v % 10);
}

void buf_time(struct buf *b, int64_t ns)
{
	int64_t sec = ns / NS_PER_SEC, frac = ns % NS_PER_SEC;
	char t[33] = "\"0000-00-00T00:00:00.000000000Z\"";
	struct tm tm;
	time_t when;

	if (frac < 0) {
		frac += NS_PER_SEC;
		sec--;
	}
	when = (time_t)sec;
	if (!gmtime_r(&when, &tm)) { /* int64 ns ends in 2262: cannot happen */
		b->failed = true;
		return;
	}
	two_digits(t + 1, (tm.tm_year + 1900) / 100);
	two_digits(t + 3, tm.tm_year + 1900);
	two_digits(t + 6, tm.tm_mon + 1);
	two_digits(t + 9, tm.tm_mday);
	two_digits(t + 12, tm.tm_hour);
	two_digits(t + 15, tm.tm_min);
	two_digits(t + 18, tm.tm_sec);
	for (int i = 29; i >= 21; i--, frac /= 10)
		t[i] = (char)('0' + frac % 10);
	buf_add(b, t, 32);
}

/* Length of the well-formed sequence at p (RFC 3629), 0 when there is none. */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		lo = 0xa0; /* overlong */
	if (p[0] == 0xed)
		hi = 0x9f; /* surrogates */
	if (p[0] == 0xf0)
		lo = 0x90; /* overlong */
	if (p[0] == 0xf4)
		hi = 0x8f; /* above U+10FFFF */
	if (n < len || p[1] < lo || p[1] > hi)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

bool utf8_valid(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;

	for (size_t i = 0; i < s.n;) {
		uint64_t w = s.n - i >= 8 ? swar_load(p + i) : SWAR_TOPS;
		size_t len;

		if (!swar_not_ascii(w) && !swar_zero(w)) {
			i += 8;
			continue;
		}
		len = utf8_len(p + i, s.n - i);
		if (len == 0 || p[i] == 0)
			return false;
		i += len;
	}
	return true;
}
