/* daemon/watch/link.h - the rest's end of the channel to the watcher: the hall's calls as messages, the watcher's messages as the hall's calls. */
#ifndef PAWL_LINK_H
#define PAWL_LINK_H
#include "daemon/daemon.h"

/* Once, before the loop: from here on the channel never blocks. Without a watcher it says so to the hall. */
PAWL_MUST_USE int link_ready(struct daemon *d, struct pawl_error *err);
struct watch_channel link_channel(struct daemon *d);
bool link_hear(struct daemon *d); /* d->peer is readable; true: the watcher is gone */
#endif
