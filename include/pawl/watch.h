/* include/pawl/watch.h - what the watcher and the rest tell each other about trees of watched processes. The hall and the watch room both
 * include it; daemon/watch/peer.h moves it. All of it is plain bytes in one message of at most PEER_MAX_PAYLOAD. The rest meets strangers,
 * so the watcher checks every length, count and text of what it gets, and the other way round. */
#ifndef PAWL_WATCH_H
#define PAWL_WATCH_H
#include "pawl/error.h"
#include "pawl/watch_event.h"

#include <stdbool.h>
#include <stdint.h>

/* root's, of all pawlds; not /run/pawl, which a supervisor makes for the doors and empties at every stop */
#define WATCH_RUN "/run/pawl-watch"

#define PAWL_MAX_TREES 1024	/* watched at the same time */
#define PAWL_MAX_DENY_EXEC 256	/* programs of one policy */
#define PAWL_MAX_WRITES_UNDER 64
#define PAWL_MAX_ENDED 16	/* processes named in one report of what was killed; the rest are counted */

/* Found out by doing, before the rest is forked: it inherits the table. */
enum { WP_TRACING, WP_PINS, WP_SAMPLER, WP_ITERATOR, WP_CGROUP, WP_MEMORY, WP_PIDS, WP_PIDNS, WP_LANDLOCK, WP_SECCOMP, WP_LSM, WP_MOUNT_NS, WP_COUNT };
enum watch_state { WATCH_OFF, WATCH_PARTIAL, WATCH_ON };
struct watch_probe {
	char name[24];
	uint32_t state;	/* enum watch_state */
	int32_t os_errno;
	char why[160];	/* for people: what was tried and what came of it */
	char get[160];	/* how to get it; "" when on */
};
struct watch_probes {
	struct watch_probe row[WP_COUNT];
	char tier;	/* 'A'..'D', docs/watch.md */
	char says[128];	/* the tier in words */
};

/* What a policy may ask of the kernel; a bit each. What the machine cannot hold is told before anything runs. */
enum {
	HOLD_EXEC = 1u << 0, HOLD_PROCESSES = 1u << 1, HOLD_FORK_RATE = 1u << 2, HOLD_EXEC_RATE = 1u << 3, HOLD_CPU = 1u << 4, HOLD_MEMORY = 1u << 5,
	HOLD_WALL = 1u << 6, HOLD_WRITES = 1u << 7, HOLD_EVENTS = 1u << 8
};
const char *watch_why_name(enum watch_why why);	 /* daemon/base/watch_names.c */
const char *watch_hold_name(uint32_t one_bit);	 /* the policy's key: "deny_exec", "processes", … */

/* ---- rest -> watcher ---- */
#define ATTACH_RUN 1u	   /* by `pawl run`: the tree ends with its first process, and may be killed when its session ends */
#define ATTACH_LOG_ONLY 2u /* shadow mode */
#define ATTACH_EVENTS 4u   /* exec: log or required */
struct watch_attach { /* with the pidfd of the tree's first process, and the connection of who asks: whom the kernel names there must be the process,
		       * its parent or an ancestor, and of the same uid, or uid 0; then n_deny paths, each with its NUL */
	uint64_t request;  /* comes back in the answer */
	uint64_t session;
	struct watch_limits limits;
	uint32_t flags;
	uint32_t need;	   /* HOLD_ bits: where one cannot be held the watcher refuses, attaches nothing and says which */
	uint32_t n_deny, deny_bytes;
};
struct watch_renew { /* after a reload: new limits and list for a tree that lives; then the paths as above. Counters go on. */
	uint64_t session;
	struct watch_limits limits;
	uint32_t flags, n_deny, deny_bytes, zero;
};
struct watch_kill {
	uint64_t session;
	uint32_t why, zero;
};

/* ---- watcher -> rest ---- */
struct watch_attached {
	uint64_t request, session;
	int32_t result;	   /* 0, or an errno */
	uint32_t held;	   /* HOLD_ bits that the kernel holds for this tree */
	uint32_t pid, uid; /* of the tree's first process */
	uint64_t start_boot_ns;
	char message[160]; /* why not, or what holds only in part */
};
struct watch_now { /* one tree as it is; a message holds as many as fit. Once a second, and all of them when the rest is new */
	uint64_t session;
	uint64_t processes, peak, forks, execs, cpu_ns, memory, memory_peak, wall_ns, lost; /* lost: events of the ring, since it was attached */
	struct watch_limits limits;
	uint32_t killed;   /* enum watch_why, 0: not */
	uint32_t flags;	   /* ATTACH_ */
	uint32_t first, launcher; /* pids; 0: not known, or there is none */
};
struct watch_dead {
	uint32_t pid, zero;
	char comm[16];
};
struct watch_ended { /* nobody of it lives any more; sent again to a new rest until it is told to forget (PEER_FORGET) */
	struct watch_now last;
	uint64_t measured, limit;
	uint32_t n_killed;  /* by us, when the tree was ended */
	uint32_t n_dead;    /* of them named here */
	struct watch_dead dead[PAWL_MAX_ENDED];
};
#endif
