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
/* Room for n more bytes, or NULL and .failed; advance with b->n += … */
char *buf_room(struct buf *b, size_t n);

void buf_add(struct buf *b, const void *p, size_t n);
void buf_str_add(struct buf *b, struct str s);
void buf_puts(struct buf *b, const char *z);
void buf_putc(struct buf *b, char c);
PAWL_PRINTF(2, 3) void buf_printf(struct buf *b, const char *fmt, ...);
void buf_i64(struct buf *b, int64_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_hex(struct buf *b, const uint8_t *p, size_t n); /* lower case */
/* A JSON string with its quotes, RFC 8785 escapes: \b \t \n \f \r \" \\, other bytes below 0x20 as \u00xx, the rest as is.
 * s must be valid UTF-8. */
void buf_json(struct buf *b, struct str s);
/* `"key":` preceded by a comma when the buffer's last byte is not '{' or '['. key needs no escapes. */
void buf_key(struct buf *b, const char *key);
void buf_time(struct buf *b, int64_t ns);     /* "2026-11-29T18:41:10.123456789Z" with quotes */

/* True for well-formed UTF-8 without NUL (surrogates, overlong forms and > U+10FFFF are not). */
bool utf8_valid(struct str s);

#endif
