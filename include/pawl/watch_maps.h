/* include/pawl/watch_maps.h - the values of the kernel's maps: written by hooks/bpf and by daemon/watch/guard*.c, read by both. As in
 * watch_event.h: no pointer, no long, no hidden padding, and WATCH_LAYOUT changes with it. */
#ifndef PAWL_WATCH_MAPS_H
#define PAWL_WATCH_MAPS_H
#include "pawl/watch_event.h"

/* On every task of a tree, its threads too: an exec by a thread makes that thread the process. */
enum watch_tag_state {
	TAG_NEW,     /* by the watcher; not counted yet */
	TAG_COUNTED, /* its process is one of `live` */
	TAG_GONE     /* its process has been taken off `live` */
};
struct watch_tag {
	__u64 tree;	/* must be the slot's: a slot is used again */
	__u32 slot;
	__u32 doomed;	/* enum watch_why: this process alone is to die, wherever it is seen next */
	__u64 state;	/* enum watch_tag_state; of a group's leader alone. 64 bits: exchanged in place */
};

/* A tree: an element of an array that the watcher has mapped, so that both sides change single words in place and none overwrites the
 * other's. A slot whose tree is 0 is free; the watcher writes tree last when it makes one and first when it drops it. */
struct watch_slot {
	__u64 tree;
	/* the watcher's */
	__u64 cgroup;		/* id in the v2 hierarchy, 0: none */
	__u64 start_boot_ns;
	struct watch_limits limits;
	__u64 flags;		/* ATTACH_ of watch.h */
	/* whoever comes first: claim by compare-exchange, then measured, limit and how many lived, then killed */
	__u64 claim, killed, measured, limit, lived;
	/* the kernel's */
	__u64 said;		/* a bit each enum watch_why: told once under ATTACH_LOG_ONLY */
	__u64 live, peak, forks, execs, sampled_ns, lost;
	__u64 fork_window, exec_window; /* second << 32 | how many in it */
};

#define WATCH_APPLET 32
struct watch_deny_key {
	__u64 tree, dev, ino;
	char applet[WATCH_APPLET]; /* NUL-filled; "": the program itself */
};
struct watch_deny {
	__u32 always;	/* under the name "": whatever its arguments */
	__u32 applets;	/* under the name "": there are rows with a name */
};

struct watch_counts { /* a CPU each */
	__u64 attempted, lost, kills, no_tag;
	__u64 forks_seen; /* bits: 1 nothing else could run in the middle of a program, 2 something could; 0 nobody could tell */
};

struct watch_about { /* one element: what made these maps and programs */
	__u32 layout, max_trees, ring_bytes, zero;
	__u64 sample_ns;
	__u64 build; /* digest of the object with the programs */
};

struct watch_listed { /* what the iterator writes, a process each */
	__u64 tree, start_boot_ns;
	__u32 pid, zero;
	char comm[16];
};
_Static_assert(sizeof(struct watch_tag) == 24 && sizeof(struct watch_slot) == 192 && sizeof(struct watch_deny_key) == 56 &&
		       sizeof(struct watch_about) == 32 && sizeof(struct watch_listed) == 40,
	       "kernel and daemon disagree on the layout");
#endif
