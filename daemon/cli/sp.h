/* daemon/cli/sp.h - one request over the wire of docs/wire.md, from plain sockets: the command links no nanomsg. Owns nothing between calls. */
#ifndef PAWL_SP_H
#define PAWL_SP_H
#include "daemon/base/buf.h"

/* Connects to path, sends body, appends the reply to *out (its .max bounds it). timeout_ms covers the whole exchange. */
PAWL_MUST_USE int sp_request(const char *path, struct str body, int timeout_ms, struct buf *out, struct pawl_error *err);
#endif
