/* daemon/base/buf.h - a bounded, growing byte buffer, and JSON text written into it.
 * Owns its bytes. A failed append sets .failed and writes nothing more: check once at the end with buf_ok(). */
#ifndef PAWL_BUF_H
#define PAWL_BUF_H
#include "pawl/error.h"

struct buf {
	char *p;
	size_t n, cap, max; /* max: appends beyond it fail */
	bool failed;
};

#define BUF_MAX(limit) ((struct buf){ .max = (limit) })

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b); /* accepts NULL and a zeroed buf */
void buf_reset(struct buf *b); /* empty, not failed, keeps the memory */
bool buf_ok(const struct buf *b);
struct str buf_str(const struct buf *b); /* borrowed until the next append */
/* The caller owns the returned bytes (NUL-terminated, free()); b is empty after. NULL when failed. */
char *buf_take(struct buf *b, size_t *ret_n);
bool buf_grow(struct buf *b, size_t n); /* buf_room() when the memory at hand does not do */
/* Room for n more bytes, or NULL and .failed; advance with b->n += … One byte more is kept, so that buf_take() can always end the text
 * with NUL. */
static inline char *buf_room(struct buf *b, size_t n)
{
	if (b->failed || n >= b->cap - b->n || b->n + n > b->max) {
		if (!buf_grow(b, n))
			return NULL;
	}
	return b->p + b->n;
}

static inline void buf_add(struct buf *b, const void *p, size_t n)
{
	char *out = n ? buf_room(b, n) : NULL;

	if (!out)
		return;
	memcpy(out, p, n);
	b->n += n;
}

static inline void buf_putc(struct buf *b, char c)
{
	char *out = buf_room(b, 1);

	if (!out)
		return;
	*out = c;
	b->n++;
}

void buf_str_add(struct buf *b, struct str s);
void buf_puts(struct buf *b, const char *z);
PAWL_PRINTF(2, 3) void buf_printf(struct buf *b, const char *fmt, ...);
void buf_i64(struct buf *b, int64_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_hex(struct buf *b, const uint8_t *p, size_t n); /* lower case */
/* A JSON string with its quotes, RFC 8785 escapes: \b \t \n \f \r \" \\, other bytes below 0x20 as \u00xx, the rest as is.
 * s must be valid UTF-8. */
void buf_json(struct buf *b, struct str s);
/* The same with a colon behind it and one byte before it: '{' or ','. */
void buf_member(struct buf *b, char before, struct str key);
/* `"key":` preceded by a comma when the buffer's last byte is not '{' or '['. key needs no escapes. */
void buf_key(struct buf *b, const char *key);
void buf_time(struct buf *b, int64_t ns);     /* "2026-11-29T18:41:10.123456789Z" with quotes */

/* True for well-formed UTF-8 without NUL (surrogates, overlong forms and > U+10FFFF are not). */
bool utf8_valid(struct str s);

#endif
