/* daemon/confine.h - how the unprivileged rest gives up what it does not need, before its first thread and socket: groups, uid,
 * capabilities, no_new_privs, Landlock, seccomp, umask. Each step says what it reached; nothing is guessed from a version. */
#ifndef PAWL_CONFINE_H
#define PAWL_CONFINE_H
#include "daemon/options.h"

enum probe_state { PROBE_OFF, PROBE_PARTIAL, PROBE_ON };
struct probe {
	const char *name;
	enum probe_state state;
	char why[340]; /* the watcher's say how to get what is off */
};
enum { CONFINE_USER, CONFINE_CAPABILITIES, CONFINE_NO_NEW_PRIVS, CONFINE_LANDLOCK, CONFINE_SECCOMP, CONFINE_PROBES };
/* Fails when --user cannot be done or privileges that should be gone are still there. A kernel without Landlock or seccomp is a probe
 * that says off, not a failure. */
PAWL_MUST_USE int confine(const struct options *opt, struct probe ret[static CONFINE_PROBES], struct pawl_error *err);
/* Later, when all sockets are there: no thread may connect to anything any more, so that every connection that this process can show the
 * watcher is one that somebody made to it. false with errno: it still can. */
bool confine_connect(void);
const char *probe_state_name(enum probe_state s);
#endif
