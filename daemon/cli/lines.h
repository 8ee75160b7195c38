/* daemon/cli/lines.h - lines for people from a JSON object that we made ourselves: every text in it is escaped on its way out. Pure. */
#ifndef PAWL_LINES_H
#define PAWL_LINES_H
#include "daemon/base/json.h"
#include "daemon/cli/escape.h"

struct lines {
	struct buf *out;
	enum escape_mode mode;
};
/* "label     " for the first line of a group; "" continues it. */
void line_label(struct lines *l, const char *label);
/* The text (number, boolean) of doc's member, escaped; nothing when it is absent or null. Returns whether it was there. before and after
 * surround it then. */
bool line_value(struct lines *l, const char *before, const struct json *doc, const char *key, const char *after);
void line_end(struct lines *l);

/* What the verbs that read files share. One line on stderr, escaped; the exit status: 2 for usage, else 1. */
int lines_fail(const char *verb, const struct pawl_error *err);
/* doc_text as escaped JSON, or as lines made by show(). The exit status: 0, or 1 when it could not be written. */
int lines_answer(const char *verb, const struct buf *doc_text, bool as_json, void (*show)(struct lines *l, const struct json *doc));
#endif
