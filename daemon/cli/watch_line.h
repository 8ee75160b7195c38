/* daemon/cli/watch_line.h - an entry of the watch (docs/audit-format.md, "watch") as a sentence. Pure. Names of programs and processes are what
 * a program chose: they come out escaped. */
#ifndef PAWL_WATCH_LINE_H
#define PAWL_WATCH_LINE_H
#include "daemon/base/json.h"
#include "daemon/cli/escape.h"

/* "s_5 stopped: processes 51, limit 50; 3 processes ended (sh 4711, …)"; no \n at its end. An action that is not known is told by its name. */
void watch_line(struct buf *out, const struct json *body, enum escape_mode mode);
/* What was measured, or the limit, in its own unit: processes, bytes, nanoseconds. */
void watch_measure(struct buf *out, struct str why, int64_t n);
#endif
