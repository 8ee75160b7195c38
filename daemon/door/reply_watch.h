/* daemon/door/reply_watch.h - answers of the watch door, and what session.state and session.list say of a tree. Pure. */
#ifndef PAWL_REPLY_WATCH_H
#define PAWL_REPLY_WATCH_H
#include "daemon/door/reply.h"

struct reply_rlimits { /* 0: none */
	int64_t cpu_ns, memory, processes;
};
struct reply_run {
	enum wire_op op; /* OP_RUN; OP_ATTACH has neither token nor launch rules */
	uint64_t session;
	uint8_t token[32];
	uint32_t held, need; /* HOLD_ bits; what the policy asks for */
	char tier;
	bool unwatched; /* there is no watcher: nobody will tell when the tree has ended */
	struct str message;
	const struct str *hide;
	size_t n_hide;
	bool has_writes;
	const struct str *writes;
	size_t n_writes;
	struct str agent_socket;
	struct reply_rlimits rlimits;
};
void reply_run(const struct reply_run *r, struct buf *out);
void reply_watch_done(enum wire_op op, uint64_t session, struct buf *out); /* exited, rejoin */
void reply_ended(const struct watch_ended *end, struct buf *out);
/* `,"watch":{…}`, null without a tree that was ever watched. */
void reply_tree(const struct reply_watch *w, struct buf *out);
#endif
