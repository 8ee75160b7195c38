/* daemon/cli/top.h - `pawl top`: the sessions of a running pawld, again each second. The frame is pure (replies in, lines out) and knows no
 * terminal; cli_top() is the loop around it, in top_loop.c. What replies quote was chosen by agents: every text is escaped and cut. */
#ifndef PAWL_TOP_H
#define PAWL_TOP_H
#include "daemon/base/json.h"
#include "daemon/cli/escape.h"

struct top_view {
	enum escape_mode mode;
	size_t width, height; /* of the terminal; height 0: as many lines as there are */
	bool all;	      /* sessions that have ended, too */
};
/* Lines with \n at their ends, none wider than the view and no more than its height. status and list: replies of pawld's, either may be NULL. */
void top_frame(const struct top_view *v, const struct json *status, const struct json *list, struct buf *out);

/* Parts that other verbs show too. "processes 51, limit 50": why a tree was stopped; nothing when it was not. killed: {why, measured, limit} */
void top_killed(const struct json *killed, enum escape_mode mode, struct buf *out);
bool top_stopped(const struct json *watch); /* by somebody, or a limit; not because its first process ended */
/* A number of a watch object as people read it: bytes with their unit, seconds; an object as used/limit; "-" for none. */
enum top_kind { TOP_COUNT, TOP_BYTES, TOP_SECONDS };
void top_number(const struct json *v, enum top_kind kind, enum escape_mode mode, struct buf *out);

/* argv[0] is "top". Exit status: 0, 1 pawld could not be asked (--once), or nothing could be written, 2 usage. */
int cli_top(int argc, char **argv);
#endif
