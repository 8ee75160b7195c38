/* daemon/cli/console.h - `pawl console`: cards as they come, answered by a line. The core is pure (replies and lines
 * in, text and orders out) and knows no terminal; cli_console() is the loop around it, in console_loop.c. One card at a
 * time is the one that a bare key answers. When it goes away by itself, no other takes its place unasked: a line that
 * was typed for one card must not answer the next. */
#ifndef PAWL_CONSOLE_H
#define PAWL_CONSOLE_H
#include "daemon/cli/card.h"

#define CONSOLE_MAX_CARDS 1000 /* more wait: it says so, and they come as others go */
#define CONSOLE_MAX_LINE  4096

struct console; /* opaque */
/* can_answer: an unlocked key is there. */
PAWL_MUST_USE int console_new(const struct card_view *view, bool can_answer, struct console **ret,
			      struct pawl_error *err);
void console_free(struct console *c); /* accepts NULL */
void console_clock(struct console *c, int64_t now_s);

/* What waits, page after page: begin, one call a page, end. Cards that are gone are said, in end. */
void console_list_begin(struct console *c);
void console_list_page(struct console *c, const struct json *cards);
void console_list_end(struct console *c, bool more, struct buf *out);
/* The mode that pawld judges in, as it tells it: shadow is said, and its end. STR_NONE: it does not tell. */
void console_mode(struct console *c, struct str mode, struct buf *out);
/* A card that has to be fetched (review.show) and handed to console_card(); 0: none. */
uint64_t console_wants(const struct console *c);
/* card NULL: it could not be had. */
void console_card(struct console *c, uint64_t id, const struct json *card, struct buf *out);

enum console_what { CONSOLE_NOTHING, CONSOLE_ANSWER, CONSOLE_QUIT };
struct console_order {
	enum console_what what;
	uint64_t id;
	const char *action; /* resume, skip, abort */
	bool tree;
	struct str reason; /* borrowed from the line */
	struct card_amounts shown; /* resume */
};
/* One line without its \n. */
void console_line(struct console *c, struct str line, struct console_order *ret, struct buf *out);
/* What became of an order. outcome (escaped already): "resumed; log entry 7", or why not. gone: the card waits no more.
 */
void console_answered(struct console *c, uint64_t id, bool gone, struct str outcome, struct buf *out);

bool console_asking(const struct console *c); /* for a reason: nothing may be printed in between */
void console_prompt(const struct console *c, struct buf *out);

/* argv[0] is "console". Exit status: 0 ended by q or the end of input, 1 failed, 2 usage. */
int cli_console(int argc, char **argv);
#endif
