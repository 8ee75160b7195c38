/* daemon/watch/watcher.h - the first process: small, keeps its privileges, never judges. Forks the rest before any thread or socket exists,
 * starts it again when it dies, passes signals on, and holds the trees (trees.h): BPF, cgroups and kills live here and nowhere else. */
#ifndef PAWL_WATCHER_H
#define PAWL_WATCHER_H
#include "pawl/error.h"

/* The rest: runs in the child with its end of the socket pair and returns an exit status. */
typedef int watcher_rest(void *arg, int peer_fd);
struct trees;
/* trees: borrowed; the child lets go of its copy. Returns pawld's exit status once the rest has ended for good: told to, or at its very first start. Signals must be blocked. */
int watcher_run(watcher_rest *rest, void *arg, struct trees *trees);
#endif
