/* daemon/base/oplog.h - the operational log: one line a happening on stderr, for people and journald. Not the audit log.
 * Control bytes are escaped, so a peer cannot forge a line. */
#ifndef PAWL_OPLOG_H
#define PAWL_OPLOG_H
#include "pawl/error.h"

enum oplog_level { OPLOG_ERROR, OPLOG_WARN, OPLOG_INFO };
PAWL_PRINTF(2, 3) void oplog(enum oplog_level level, const char *fmt, ...);
/* One failure, one line: "what: file:line:column: message". */
void oplog_error(const char *what, const struct pawl_error *err);

#endif
