/* daemon/door/reply_part.h - the pieces that several replies are made of: each writes `,"key":value`. Private to
 * reply*.c. null stands for what is absent: a text without bytes, a time of 0, a span of 0 or less, an id of 0. */
#ifndef PAWL_REPLY_PART_H
#define PAWL_REPLY_PART_H
#include "daemon/door/reply.h"

void reply_key_text(struct buf *out, const char *key, struct str s);
void reply_key_amount(struct buf *out, const char *key, enum unit unit, int64_t v);
void reply_key_time(struct buf *out, const char *key, int64_t ns);
void reply_key_span(struct buf *out, const char *key, int64_t ns);
void reply_key_id(struct buf *out, const char *key, char letter, uint64_t id);
void reply_key_int(struct buf *out, const char *key, int64_t v);
void reply_key_hex(struct buf *out, const char *key, const uint8_t *p, size_t n);
void reply_key_seq(struct buf *out, uint64_t seq); /* "log":{"seq":…} */
/* What a card says to those who asked. An approval that is used up was a yes: what is left of it, `claim` tells. */
struct str reply_card_state(enum card_mode mode);
void reply_asks(const struct ask *asks, size_t n, struct buf *out);
#endif
