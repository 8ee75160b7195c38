/* daemon/sdnotify.h - tells a supervisor such as systemd how pawld is, over the datagram socket that $NOTIFY_SOCKET names.
 * Owns one descriptor. Never fails aloud: without a supervisor every call does nothing, and a message that is lost costs at
 * most a restart. No libsystemd. */
#ifndef PAWL_SDNOTIFY_H
#define PAWL_SDNOTIFY_H
#include "pawl/types.h"

struct sdnotify {
	int fd;		  /* -1: nobody asked */
	int64_t every_ns; /* how often WATCHDOG=1 is due: half of $WATCHDOG_USEC; 0 = never */
	int64_t due_ns;
};

/* In the first process, before it forks: the supervisor's variables speak of that one ($WATCHDOG_PID), and what is forked
 * inherits the answer and the descriptor. Both variables are taken out of the environment. */
void sdnotify_open(struct sdnotify *n);
void sdnotify_close(struct sdnotify *n);

/* The doors answer. Also said again by a process that was started anew. */
void sdnotify_ready(const struct sdnotify *n);
/* Before a reload (now: CLOCK_MONOTONIC in ns); sdnotify_ready() ends it. */
void sdnotify_reloading(const struct sdnotify *n, int64_t monotonic_ns);
void sdnotify_stopping(const struct sdnotify *n);
/* The start takes its time: how far it is, and how long to wait for the next sign of life. */
void sdnotify_starting(const struct sdnotify *n, const char *text, int64_t wait_ns);
/* One line for `systemctl status`; control bytes become '?', longer text is cut. */
void sdnotify_status(const struct sdnotify *n, const char *text);
/* Sends WATCHDOG=1 when that is due. Returns when the next one is, in the clock of `now`; INT64_MAX: never. Called by the
 * loop that answers, so that a loop that hangs falls silent. */
int64_t sdnotify_tick(struct sdnotify *n, int64_t now);
#endif
