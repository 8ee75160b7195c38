/* daemon/cli/run.h - `pawl run`: a command as a watched tree. The parts share struct run; the launcher itself is hooks/run's. */
#ifndef PAWL_CLI_RUN_H
#define PAWL_CLI_RUN_H
#include "daemon/base/buf.h"
#include "daemon/base/json.h"
#include "hooks/run/launch.h"

#include <limits.h>

#define RUN_MAX_PACKET (64u << 10)
#define RUN_PATH 108 /* of a socket, with its NUL */

int cli_run(int argc, char **argv); /* argv[0] is "run"; the command's exit status, 128+n, or 125 to 127 */

struct run_options {
	const char *policy, *agent, *user, *dir, *socket;
	char root[PATH_MAX];
	const char *labels[PAWL_MAX_LABELS]; /* "K=V" */
	size_t n_labels;
	const char *limits[4]; /* money, tokens, calls, time: the values, NULL where not said */
	bool degraded, quiet;
	char **argv;
};

struct private_pawld { /* --policy: one for this run alone */
	char dir[PATH_MAX];
	pid_t keeper; /* 0: none. It is the parent of that pawld, outlives us and ends it */
	int line;     /* its pipe from us */
};

struct run {
	struct run_options opt;
	struct private_pawld own;
	char door_path[RUN_PATH];
	int door;      /* -1 while there is none */
	int signals;   /* signalfd */
	sigset_t mask, ignored; /* what we were started with, for the command */
	struct launch_child child;
	char session[32], token[72], agent_socket[RUN_PATH];
	bool launched, over; /* over: the first process has ended, with status */
	int status;
	int interrupted; /* a signal that ended us before there was a command */
	bool watched;	 /* a watcher has it, and will tell when all of it has ended */
	bool said_ended; /* pawld told that the tree has ended */
	bool said_exited; /* pawld knows that the command has */
	bool lost;	 /* pawld does not know the session any more: not asked again */
	int64_t retry_ms, pause_ms; /* when to connect again, and how long after that */
};

/* Says "pawl run: …" with control bytes escaped. */
PAWL_PRINTF(1, 2) void run_say(const char *fmt, ...);
int64_t run_now_ms(void);

/* ---- run_door.c: the watch door, docs/watch.md ---- */
/* Connects; while it is not there (a private pawld is starting) again until until_ms. */
PAWL_MUST_USE int run_door_open(struct run *r, int64_t until_ms, struct pawl_error *err);
PAWL_MUST_USE int run_door_ask(struct run *r, struct pawl_error *err); /* op run, with the child's pidfd */
/* op exited or rejoin. */
PAWL_MUST_USE int run_door_tell(struct run *r, const char *op, struct pawl_error *err);
/* One packet. 0: *ret is the caller's; PAWL_E_INCOMPLETE: the other end has closed. */
PAWL_MUST_USE int run_door_hear(struct run *r, struct json **ret, struct pawl_error *err);
void run_door_close(struct run *r);
/* The answer to op run. rules borrows from reply. */
PAWL_MUST_USE int run_door_rules(struct run *r, const struct json *reply, struct launch_rules *rules, struct pawl_error *err);
/* A packet that nobody asked for, or an answer to tell. */
void run_door_news(struct run *r, const struct json *packet);
void run_door_lost(struct run *r); /* closes it; wait_a_little() opens it again */

/* ---- run_wait.c ---- */
PAWL_MUST_USE int run_signals_open(struct run *r, struct pawl_error *err);
/* Waits until something came, at most ms (-1: for ever), and sees to signals and children. True: the door has something. */
bool run_poll(struct run *r, int ms);
void run_wait(struct run *r);  /* until the command has ended, and what it left behind */

/* ---- run_private.c ---- */
PAWL_MUST_USE int run_private_start(struct run *r, const struct launch_head *who, struct pawl_error *err);
PAWL_MUST_USE int run_private_ready(struct run *r, struct pawl_error *err); /* connected */
void run_private_stop(struct run *r);
#endif
