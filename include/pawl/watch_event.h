/* include/pawl/watch_event.h - what crosses from the kernel to the watcher, and the limits that the kernel counts against. Included by
 * hooks/bpf (which has types of its own) and by daemon/watch. No pointer, no long, no enum, no hidden padding: both compilers must see
 * the same bytes, and a map that was pinned by one build is read by the next (WATCH_LAYOUT). */
#ifndef PAWL_WATCH_EVENT_H
#define PAWL_WATCH_EVENT_H
#ifndef PAWL_BPF
#include <linux/types.h>
#endif

#define WATCH_LAYOUT 2 /* of everything below; part of the pins' path */

enum watch_kind {
	WATCH_NONE,
	WATCH_EXEC,   /* a program was started */
	WATCH_KILL,   /* one process was killed before its first instruction, or before it left */
	WATCH_BREACH, /* a limit of the tree: all of it is being killed */
	WATCH_LEFT,   /* was moved out of its tree's cgroup from outside; its tag holds */
	WATCH_EMPTY,  /* the tree's last process ended */
	WATCH_KIND_COUNT
};

/* Why something was killed. Also in entries, by the names of watch_why_name(). */
enum watch_why {
	WHY_NONE,
	WHY_DENY_EXEC,	/* the program is on the list */
	WHY_FILELESS,	/* the program has no name in any folder (memfd, deleted) */
	WHY_LEFT,	/* tried to leave its cgroup */
	WHY_NO_TAG,	/* the kernel had no memory for the child's tag */
	WHY_NO_TREE,	/* a tagged process whose tree the map does not hold: absent means no */
	WHY_PROCESSES, WHY_FORK_RATE, WHY_EXEC_RATE, WHY_CPU, WHY_MEMORY, WHY_WALL, /* limits: measured, limit */
	WHY_ABORT,	/* an operator ended the session */
	WHY_ENDED,	/* by itself: its first process ended, and what it left behind was ended with it; or its session was closed */
	WHY_LAUNCHER,	/* `pawl run` is gone */
	WHY_STALE,	/* the session's lease ran out and the policy aborts */
	WHY_COUNT
};

/* 0: none. What is at its limit still runs; what would go over it is the first to be killed. */
struct watch_limits {
	__u64 processes;	 /* live at the same time, threads not counted */
	__u64 fork_rate, exec_rate; /* in any one second, as told by windows of one second */
	__u64 cpu_ns;		 /* of all its processes, the dead too */
	__u64 memory;		 /* bytes */
	__u64 wall_ns;		 /* since it was attached */
};

#define WATCH_PATH 128
#define WATCH_ARGV 256
#define WATCH_F_PATH_CUT 1u /* the program's name is longer than path */
#define WATCH_F_ARGV_CUT 2u
#define WATCH_F_LOG_ONLY 4u /* shadow mode: would have been killed */
#define WATCH_F_APPLET 8u   /* matched by the name of a multi-call binary's applet */
struct watch_event {
	__u64 boot_ns;	      /* CLOCK_BOOTTIME */
	__u64 start_boot_ns;  /* of the process: names it together with pid */
	__u64 tree;	      /* the session's id */
	__u64 dev, ino;	      /* of the program; dev as the kernel has it: major << 20 | minor */
	__u64 measured, limit;
	__u32 kind, why;
	__u32 pid, ppid, uid; /* of the initial namespaces */
	__u32 flags;
	__u32 argv_len;	      /* bytes in argv, arguments separated by NUL */
	__u32 path_len;
	char comm[16];
	char path[WATCH_PATH]; /* as the caller typed it: for people, never compared */
	char argv[WATCH_ARGV];
};
_Static_assert(sizeof(struct watch_event) == 56 + 32 + 16 + WATCH_PATH + WATCH_ARGV, "kernel and daemon disagree on the layout");
#endif
