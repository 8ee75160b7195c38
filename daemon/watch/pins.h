/* daemon/watch/pins.h - a folder in a bpffs for this daemon alone: below /sys/fs/bpf where that is one, else in a mount of our own below
 * /run/pawl-watch, made in the mount namespace that pawld was started in, so that it is still there for the next pawld. */
#ifndef PAWL_PINS_H
#define PAWL_PINS_H
#include "pawl/watch.h"

struct pins {
	char dir[128];	 /* for the guard; "": there is no bpffs to be had */
	char mount[128]; /* what was mounted for it; "": nothing */
	char says[96];
};
/* Never fails: says tells. */
void pins_open(const char *instance, struct pins *ret);
/* Takes the mount away, when there is nothing in it; for an end that leaves nothing. */
bool pins_remove(struct pins *p);
/* WATCH_RUN, root's and nobody else's. */
PAWL_MUST_USE int pins_run_folder(struct pawl_error *err);
#endif
