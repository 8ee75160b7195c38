/* daemon/watch/guard.h - the programs in the kernel, their maps and their pins; guard*.c are the only files with libbpf in them. Watcher only.
 * Pins outlive the process: a new guard opens what the last one left, and its trees, counters and limits are as they were. */
#ifndef PAWL_GUARD_H
#define PAWL_GUARD_H
#include "pawl/watch.h"

struct guard;
struct guard_options {
	const char *pins;     /* a folder for this daemon alone, inside a bpffs; made when it is not there. NULL: nothing is pinned */
	uint32_t ring_bytes;  /* a power of two; 0: 8 MiB */
	uint32_t max_trees;   /* 0: PAWL_MAX_TREES */
	uint32_t sampler_hz;  /* 0: 100 */
	bool no_sampler;
};
/* Loads (or opens the pinned) programs and fills the rows WP_TRACING, WP_PINS, WP_SAMPLER, WP_ITERATOR of probes by what came of it.
 * Negative, with the rows filled, where the tracing programs do not load: there is no guard then. The caller owns *ret. */
PAWL_MUST_USE int guard_open(const struct guard_options *opt, struct watch_probes *probes, struct guard **ret, struct pawl_error *err);
void guard_close(struct guard *g); /* accepts NULL; what is pinned goes on holding */
void guard_unpin(struct guard *g); /* for an orderly end with no tree left: nothing stays in the kernel after guard_close() */

struct guard_tree { /* as the kernel has it */
	uint64_t session, cgroup;
	struct watch_limits limits;
	uint32_t flags;	 /* ATTACH_ */
	uint32_t killed; /* enum watch_why */
	uint64_t measured, limit, lived; /* lived: how many did when it was marked: none of them is spared */
	uint64_t start_boot_ns; /* when it was attached: wall_ns counts from here */
	uint64_t live, peak, forks, execs, sampled_ns, lost;
};
/* PAWL_E_FULL: no room for another tree. The counters of a new one are 0. */
PAWL_MUST_USE int guard_tree_add(struct guard *g, const struct guard_tree *tree, struct pawl_error *err);
PAWL_MUST_USE int guard_tree_set(struct guard *g, uint64_t session, const struct watch_limits *limits, uint32_t flags, struct pawl_error *err);
PAWL_MUST_USE int guard_tree_get(struct guard *g, uint64_t session, struct guard_tree *ret, struct pawl_error *err);
void guard_tree_drop(struct guard *g, uint64_t session); /* and its denied programs */
/* The ids of all trees there are, at most n; returns how many. */
size_t guard_trees(struct guard *g, uint64_t *ret, size_t n);

struct guard_file {
	uint64_t dev, ino;
	char applet[32]; /* of a multi-call binary: only when argv[0] or argv[1] ends in this name; "": always */
};
/* Adds to what is denied to the tree; rows that are there stay. */
PAWL_MUST_USE int guard_deny(struct guard *g, uint64_t session, const struct guard_file *files, size_t n, struct pawl_error *err);
/* Whatever is denied to it and is none of these is so no more. */
PAWL_MUST_USE int guard_deny_only(struct guard *g, uint64_t session, const struct guard_file *files, size_t n, struct pawl_error *err);

/* Everything that process starts from here on is the tree's. */
PAWL_MUST_USE int guard_tag(struct guard *g, int pidfd, uint64_t session, struct pawl_error *err);
/* The tree that a process belongs to, 0: none (or it is gone). */
uint64_t guard_tag_of(struct guard *g, int pidfd);
/* From now on every fork and exec in the tree, and every process of it that runs when the sampler looks, dies by itself.
 * 1: it was marked already, and the first reason stays. */
PAWL_MUST_USE int guard_mark(struct guard *g, uint64_t session, enum watch_why why, uint64_t measured, uint64_t limit, struct pawl_error *err);
/* Live processes of the tree wherever they are, by the tag (iter/task); at most n; returns how many. A pid may be reused before it is
 * looked at: open a pidfd, then guard_tag_of(). */
struct guard_member {
	uint32_t pid, zero;
	uint64_t start_boot_ns;
	char comm[16];
};
PAWL_MUST_USE int guard_members(struct guard *g, uint64_t session, struct guard_member *ret, size_t n, size_t *ret_n, struct pawl_error *err);

typedef void guard_event(void *arg, const struct watch_event *ev);
/* Takes what is in the ring, at most `most` events; returns how many. */
size_t guard_consume(struct guard *g, size_t most, guard_event *take, void *arg);
int guard_fd(const struct guard *g); /* readable when something urgent (a kill, a breach, an empty tree) is in the ring */
struct guard_totals {
	uint64_t attempted, lost; /* events for the ring; of them those it had no room for */
	uint64_t kills, no_tag;	  /* processes killed in the kernel; tags that could not be made */
	uint64_t forks_seen;	  /* as in watch_maps.h, of all CPUs */
};
void guard_totals(struct guard *g, struct guard_totals *ret);
#endif
