/* daemon/cli/card.h - a review card, a list of cards, an answer, as lines for people. Pure: a reply of pawld in, text
 * out. What others chose stands right of a bar, wrapped by us, so that no text of an agent can begin a line. */
#ifndef PAWL_CARD_H
#define PAWL_CARD_H
#include "daemon/base/json.h"
#include "daemon/cli/escape.h"
#include "policy/money.h"

struct card_view {
	enum escape_mode mode;
	size_t width;     /* columns of the terminal; below 40 counts as 40 */
	size_t max_text;  /* bytes of one text that are shown */
	size_t max_lines; /* lines of arguments that are shown */
	int64_t now_s;    /* pawld's own time, seconds since 1970; 0 = not known */
};
#define CARD_VIEW_SHORT ((struct card_view){ .width = 80, .max_text = 480, .max_lines = 40 })
#define CARD_VIEW_WHOLE ((struct card_view){ .width = 80, .max_text = 1u << 20, .max_lines = 100000 })

/* "r_56" → 56; 0: not an id with that letter. A person may leave the letter out. */
uint64_t card_id_parse(struct str s, char letter, bool by_hand);
uint64_t card_id(const struct json *card); /* of its "review" */
struct card_amounts { /* what the person who answers has seen of it */
	bool known;
	char money[MONEY_TEXT];
	int64_t tokens;
};
struct card_amounts card_amounts(const struct json *card);
/* "2026-11-29T18:41:10.123456789Z" → seconds, rounded down; 0: not a time. */
int64_t card_time(struct str s);

/* The whole card. Nothing is left out without a word about it. */
void card_show(const struct card_view *view, const struct json *card, struct buf *out);
/* One line: id, state, tool, agent, session, time left, first reason. */
void card_row(const struct card_view *view, const struct json *card, struct buf *out);
/* "r_56 was resumed by anna: looks right"; for a card that is no longer pending. */
void card_outcome(const struct card_view *view, const struct json *card, struct buf *out);

/* One wrapped paragraph: "label    | text…", then "         | …". text is escaped already. */
void card_line(const struct card_view *view, const char *label, struct str text, struct buf *out);
#endif
