/* daemon/door/peer_tree.h - does a peer run in one of our watched trees? Inside one only child sessions may be opened: a session of its own would have
 * budgets, denials and a watch of its own; and the life line of a tree is not its own to hold. */
#ifndef PAWL_PEER_TREE_H
#define PAWL_PEER_TREE_H
#include "daemon/daemon.h"

struct peer {
	int64_t pid;   /* by SO_PEERCRED */
	uint64_t born; /* peer_born() when it connected: a number alone may be another's by the time it is looked at */
};
uint64_t peer_born(int64_t pid); /* in ticks since boot; 0: it is gone, or cannot be looked at */
#define PEER_UNKNOWN UINT64_MAX
/* The session of the tree that it runs in; 0: of none; PEER_UNKNOWN: it cannot be looked at while trees live. */
uint64_t peer_tree(const struct daemon *d, const struct peer *who);
/* NULL: it may have a root session. Else why not: it runs in a tree, or it cannot be looked at while trees live. */
const char *peer_tree_refuses(const struct daemon *d, const struct peer *who);
/* The session of the tree that the lines of a /proc/PID/cgroup name (".../pawl.<instance>/s_N"), 0: none of this instance's. For tests. */
uint64_t peer_tree_named(struct str text, const char *instance);
#endif
