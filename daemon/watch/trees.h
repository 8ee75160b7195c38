/* daemon/watch/trees.h - the trees of watched processes that this watcher holds: who is in them, their limits, their end, and what the rest
 * is told. Owns guard, cgroups, pidfds and the folder of saved trees. Single-threaded; never judges; asks the kernel before it believes a peer. */
#ifndef PAWL_TREES_H
#define PAWL_TREES_H
#include "daemon/watch/peer.h"

#define TREES_TICK_MS 15 /* between two looks at what is watched */

struct trees;
struct trees_options {
	const char *state;    /* pawld's state folder: names this daemon. NULL: a look that leaves nothing */
	const char *saved;    /* folder of saved trees; NULL: /run/pawl-watch/trees-INSTANCE for root, else STATE/trees; tests have their own */
	uint32_t ring_bytes, max_trees, sampler_hz; /* 0: the guard's own */
	bool no_guard, no_cgroup; /* as if this machine had none */
};
/* Opens what the machine has, fills probes (kept by pointer: they must live as long), takes up trees that the last watcher left. A machine
 * without BPF and cgroups is not a failure. The caller owns *ret. */
PAWL_MUST_USE int trees_open(const struct trees_options *opt, struct watch_probes *probes, struct trees **ret, struct pawl_error *err);
/* Lets go; trees and what is pinned live on. Accepts NULL. Also for a forked child: only descriptors and memory of this process are freed. */
void trees_close(struct trees *t);
/* For an orderly end: when no tree lives, nothing stays in the kernel, in cgroups or in /run. Then trees_close(). */
void trees_unpin(struct trees *t);

/* The rest's end of the socket, or -1; borrowed. What was told to the last one is told again. */
void trees_peer(struct trees *t, int peer);
/* false: what the last message asked for is not answered yet, so do not read the next. */
bool trees_can_take(const struct trees *t);
/* One message; takes the descriptors (-1: there is none). A message that is not what its kind says is counted, logged and dropped. */
void trees_take(struct trees *t, enum peer_kind kind, const void *payload, size_t n, const int fd[static PEER_FDS], uint64_t now_boot_ns);
/* Readable when something urgent is to be looked at: a breach, a first process that ended. */
int trees_fd(const struct trees *t);
/* Milliseconds until trees_tick() should be called, -1: not before something happens. */
int trees_wait_ms(const struct trees *t);
/* Looks at everything: events, limits, ends; tells the rest. */
void trees_tick(struct trees *t, uint64_t now_boot_ns);
uint64_t trees_boot_ns(void); /* CLOCK_BOOTTIME */
#endif
