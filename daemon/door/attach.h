/* daemon/door/attach.h - the watch door: `pawl run` and agents that put themselves under watch, over AF_UNIX SOCK_SEQPACKET, one JSON object a
 * packet and at most one descriptor with it (docs/watch.md). The launcher's connection is its tree's life line. */
#ifndef PAWL_ATTACH_H
#define PAWL_ATTACH_H
#include "daemon/daemon.h"

PAWL_MUST_USE int attach_open(struct daemon *d, struct pawl_error *err);
void attach_close(struct daemon *d); /* after the last answer of the spine */
int attach_fd(const struct daemon *d);
bool attach_serve(struct daemon *d); /* false: its descriptor tells when there is more */
struct watched_news attach_news(struct daemon *d);
#endif
