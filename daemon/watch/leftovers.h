/* daemon/watch/leftovers.h - what a watcher that was killed left in the kernel, when its pawld never came back: pins that hold no living tree
 * are taken away by whichever pawld starts next. Who lives holds a lock, so nobody's pins are taken from under it. Root only. */
#ifndef PAWL_LEFTOVERS_H
#define PAWL_LEFTOVERS_H
#include "pawl/error.h"

struct cgroup_mounts;
/* Between begin and end no other watcher of this machine starts or ends. -1: there is nothing to hold (then end does nothing). */
int leftovers_begin(void);
void leftovers_end(int fd);
/* This watcher's own lock, held until its descriptor is closed; -1 when it cannot be had. Call between begin and end. */
int leftovers_live(const char *instance);
void leftovers_dead(const char *instance); /* an orderly end */
/* Takes away what the dead left. Call between begin and end. */
void leftovers_clear(const char *instance, const struct cgroup_mounts *mounts);
#endif
