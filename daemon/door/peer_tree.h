/* daemon/door/peer_tree.h - does a peer run in one of our watched trees? Inside one only child sessions may be opened: a session of its own would have
 * budgets, denials and a watch of its own. */
#ifndef PAWL_PEER_TREE_H
#define PAWL_PEER_TREE_H
#include "daemon/daemon.h"

/* pid: by SO_PEERCRED. NULL: it may have a root session. Else why not: it runs in a tree, or it cannot be looked at while trees live. */
const char *peer_tree_refuses(const struct daemon *d, int64_t pid);
/* The session of the tree that the lines of a /proc/PID/cgroup name (".../pawl.<instance>/s_N"), 0: none. For tests. */
uint64_t peer_tree_named(struct str text);
#endif
