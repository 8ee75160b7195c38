/* daemon/watched.h - the trees of watched processes as the rest knows them: which are asked for, run, or are over; starts of programs on their way
 * into entries; whom to tell. The deed is the watcher's, the entry the spine's, the launchers' connections the door's: this is what leads from
 * one to the other. Owns its rows and the descriptors that wait to be handed on. Borrows the spine. Must not touch sockets, files or SQL; never waits. */
#ifndef PAWL_WATCHED_H
#define PAWL_WATCHED_H
#include "daemon/mediate.h"

/* How it speaks to the watcher (daemon/watch/link.c). Never blocks: PAWL_E_FULL, and it is tried again; any other error: the watcher is gone. */
struct watch_channel {
	int (*attach)(void *arg, const struct watch_attach *a, struct str paths, const int fds[static 2], struct pawl_error *err);
	int (*renew)(void *arg, const struct watch_renew *r, struct str paths, struct pawl_error *err);
	int (*kill)(void *arg, const struct watch_kill *k, struct pawl_error *err);
	int (*forget)(void *arg, uint64_t session, struct pawl_error *err);
	void *arg;
};

struct watched_view { /* a tree as it is */
	uint64_t session;
	bool live, run;
	uint32_t held;
	uint32_t first, launcher; /* pids; 0: not known, after a start of this process */
	struct watch_now now; /* as the watcher told it last */
};
/* What owners (connections of the watch door, by number; 0 is nobody) are told. */
struct watched_news {
	/* Its entry is durable: now the child may go on. no != REASON_OK: it is not watched, its session is over, and why. */
	void (*attached)(void *arg, uint64_t owner, const struct watched_view *tree, enum reason_code no, const char *message);
	/* Nobody of it lives, and the log says so. */
	void (*ended)(void *arg, uint64_t owner, const struct watch_ended *end);
	void *arg;
};

struct watched; /* opaque */
struct watched_config {
	struct mediator *m;
	struct watch_channel channel;
	struct watched_news news;
	const struct watch_probes *probes; /* NULL: there is no watcher */
};
PAWL_MUST_USE int watched_new(const struct watched_config *cfg, struct watched **ret, struct pawl_error *err);
void watched_free(struct watched *w); /* accepts NULL */

struct watched_ask {
	uint64_t session, owner;
	int pidfd; /* of the first process; taken in any case */
	int asker; /* the connection of who asks, for the watcher to ask the kernel about; taken in any case */
	uint32_t flags, need; /* ATTACH_RUN or 0; HOLD_ bits that must be held */
	uint32_t launcher; /* its pid: whoever descends from it is inside, where nothing better tells */
};
/* The session is in the log. news.attached() follows, unless this is negative: then *no says why, and nothing has changed. */
PAWL_MUST_USE int watched_attach(struct watched *w, const struct watched_ask *ask, struct refusal *no);

/* From the watcher, one message each. What cannot be is dropped and counted: the rest does not end for it. */
void watched_attached(struct watched *w, const struct watch_attached *a);
void watched_events(struct watched *w, const struct watch_event *ev, size_t n);
void watched_now(struct watched *w, const struct watch_now *rows, size_t n);
void watched_ended(struct watched *w, const struct watch_ended *end);
void watched_all(struct watched *w); /* it has named every tree there is */
void watched_lost(struct watched *w); /* there is no watcher (any more) */

/* mediator.over: the processes of sessions that have ended are ended too, if `pawl run` started them or a person said so. */
void watched_over(void *w, uint64_t session);
void watched_renew(struct watched *w); /* another policy is in force */

/* A launcher's first process has ended; false: no such tree of this session. */
bool watched_exited(struct watched *w, uint64_t session);
/* The connection is gone: after 5 s without a rejoin its trees are ended. */
void watched_owner_gone(struct watched *w, uint64_t owner);
/* REASON_SESSION_CLOSED: the session has no tree (any more). REASON_UNAVAILABLE: the watcher has not named its trees yet, ask again. */
enum reason_code watched_rejoin(struct watched *w, uint64_t session, uint64_t owner, uint32_t launcher);

/* Entries and messages that are due; returns when to be called again (INT64_MAX: nothing waits). */
int64_t watched_tick(struct watched *w, int64_t now);

bool watched_owned(const struct watched *w, uint64_t owner); /* a tree hangs on this connection */
bool watched_next(const struct watched *w, size_t *at, struct watched_view *ret); /* from *at 0 on; false: no more */
bool watched_look(const struct watched *w, uint64_t session, struct watched_view *ret);
struct watched_totals {
	uint64_t live, asked, over; /* trees */
	uint64_t refused;	    /* could not be watched */
	uint64_t lost;		    /* events of trees that live */
	uint64_t nonsense;	    /* messages of the watcher that could not be */
	bool unnamed;		    /* there may be trees that the watcher has not named yet */
};
void watched_count(const struct watched *w, struct watched_totals *ret);
#endif
