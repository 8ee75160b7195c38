/* daemon/log/entry_reader.h - the values of an entry's line, each in the one spelling that entry_render.c gives it.
 * Borrows the line, which it may write to (texts are unescaped in place). Private to entry*.c. */
#ifndef PAWL_ENTRY_READER_H
#define PAWL_ENTRY_READER_H
#include "daemon/log/entry.h"

struct reader {
	char *from, *at, *end;
	const char *where; /* the field being read, for messages */
	struct str currency;
	struct entry_parsed *ret;
	uint64_t seq;
	struct pawl_error *err;
};
struct amount { /* a decimal number whose unit comes later in the line */
	const void *field;
	int64_t whole, nano;
	bool decimals;
};

/* Each returns 0 and the value, with the reader behind it, or PAWL_E_TAMPERED (PAWL_E_NOMEM) and a message that names
 * the place. */
int reader_bad(struct reader *r, const char *what);
bool reader_take(struct reader *r, char c); /* false: something else is there, and nothing was taken */
bool reader_take_str(struct reader *r, const char *p, size_t n);
int reader_text(struct reader *r, struct str *ret);
int reader_word(struct reader *r, struct str *ret); /* a text that cannot need escapes */
int reader_message(struct reader *r, char *out, size_t size);
int reader_hex(struct reader *r, uint8_t *out, size_t n);
int reader_json(struct reader *r, struct str *ret); /* an object, kept as it is; the parsed one goes to ret->doc */
int reader_int(struct reader *r, int64_t *ret);
int reader_decimal(struct reader *r, struct amount *a);
int reader_amount_value(struct reader *r, const struct amount *a, enum unit unit, int64_t *ret);
int reader_amount(struct reader *r, enum unit unit, int64_t *ret);
int reader_span(struct reader *r, int64_t *ret);
int reader_id(struct reader *r, char letter, uint64_t *ret);
int reader_time(struct reader *r, int64_t *ret);
#endif
