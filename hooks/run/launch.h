/* hooks/run/launch.h - the launcher: what stands between fork and exec of a watched command. The child is held at a socket until its rules
 * come; then it takes away from itself what the tree must not have, in an order in which nothing can be taken back, and execs.
 * Owns the child's side whole. Knows no policy, no door and no log; must not be linked against anything but daemon/base. */
#ifndef PAWL_LAUNCH_H
#define PAWL_LAUNCH_H
#include "pawl/error.h"

#include <signal.h>
#include <sys/types.h>

#define LAUNCH_MAX_PATHS 64	   /* hidden, and writable, each; count */
#define LAUNCH_MAX_GROUPS 64
#define LAUNCH_MAX_TEXT (60u << 10) /* the session and all paths */
#define LAUNCH_SESSION_FD 120	   /* out of the way of shells, which take low numbers and 255 */

enum { LAUNCH_FAILED = 125, LAUNCH_CANNOT_EXEC = 126, LAUNCH_NOT_FOUND = 127 };

/* One message on the socket: this head, then texts that each end with NUL: the session, n_hide paths, n_writes paths. */
struct launch_head {
	uint32_t n_hide, n_writes, n_groups;
	uint32_t flags;
	uint32_t uid, gid, groups[LAUNCH_MAX_GROUPS];
	uint64_t cpu_s, memory, processes; /* RLIMIT_CPU, _AS, _NPROC; 0: as it is */
};
#define LAUNCH_WRITES 1u   /* only below the n_writes paths (and a few devices) can be written */
#define LAUNCH_USER 2u	   /* become uid, gid, groups */
#define LAUNCH_DEGRADED 4u /* a missing Landlock or seccomp is told, not refused; never for uid 0 */

struct launch_rules { /* what the parent says; all borrowed */
	struct launch_head head;
	const char *session; /* JSON for the descriptor that PAWL_SESSION_FD names */
	const char *hide[LAUNCH_MAX_PATHS], *writes[LAUNCH_MAX_PATHS];
	const char *agent_socket; /* NULL, or where the command will ask: must not be hidden */
};

/* What does not hold although nothing was refused. A bit each. */
enum { LAUNCH_NO_HIDE = 1u << 0, LAUNCH_NO_LANDLOCK = 1u << 1, LAUNCH_NO_SCOPE = 1u << 2, LAUNCH_NO_FILTER = 1u << 3, LAUNCH_NO_DOOR = 1u << 4 };

struct launch_said { /* what the child says, once; the socket's end after it means that the exec was made */
	uint32_t status;  /* 0: about to exec; else the exit status, with the reason in text */
	uint32_t partial; /* LAUNCH_NO_ bits */
	char text[256];
};

struct launch_child {
	pid_t pid;
	int pidfd, channel;
};
/* Forks; the child waits. For the command it puts back mask, and ignores what is in ignored; every other signal gets its default.
 * The caller owns *ret: launch_drop() kills a child that still waits. */
PAWL_MUST_USE int launch_fork(char *const argv[], const sigset_t *mask, const sigset_t *ignored, struct launch_child *ret, struct pawl_error *err);
/* Lets it go. 0: it has become the command; else it ends (or has ended) with ret->status, 125 to 127, and ret->text says why. */
PAWL_MUST_USE int launch_go(struct launch_child *c, const struct launch_rules *rules, struct launch_said *ret, struct pawl_error *err);
void launch_drop(struct launch_child *c); /* accepts a zeroed one with descriptors -1 */
int landlock_abi(void);			  /* 0: none here */
#endif
