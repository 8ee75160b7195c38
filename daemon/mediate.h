/* daemon/mediate.h - the spine, for all doors: due deadlines, who is asking, facts, judge, entry, committer, answer. It owns the order of
 * these steps and nothing else. One thread; an answer leaves only after its entry is durable; every failure is a no. */
#ifndef PAWL_MEDIATE_H
#define PAWL_MEDIATE_H
#include "daemon/base/clock.h"
#include "daemon/log/committer.h"
#include "daemon/pending.h"
#include "daemon/projector.h"
#include "daemon/review.h"
#include "daemon/session.h"
#include "daemon/store/private.h"
#include "pawl/settle.h"

/* What a caller gets in the end. */
struct answer {
	const struct entry *e; /* NULL: refused, see no; with no == REASON_OK: see mediate_shown() */
	struct str note;       /* the signed entry */
	enum reason_code no;   /* log_unavailable and friends */
	const char *message;
};
typedef void mediate_done(void *cookie, const struct answer *ans);

/* A refusal without an entry: nothing has changed. */
struct refusal {
	enum reason_code code;
	int64_t retry_after_ns;
	struct pawl_error err; /* msg and field */
};

struct mediate_counters {
	uint64_t answers[4]; /* by verdict */
	uint64_t would[4];   /* the same, of what shadow mode allowed */
	uint64_t settles, malformed, unauthenticated, throttled, oversized, unavailable;
};

struct mediator {
	/* borrowed, for as long as the mediator lives */
	const struct clock *clock;
	struct journal *journal;
	struct committer *committer;
	struct sessions *sessions;
	struct reviews *reviews;
	struct projector *projector; /* follows what is durable, in a state of its own */
	struct resolver resolver;
	mediate_done *done;
	/* Sessions from `session` down have ended, and the entry that says so is durable. NULL: nobody wants to know. */
	void (*over)(void *arg, uint64_t session);
	void *over_arg;
	/* owned */
	struct policy *policy;
	struct state *state; /* what has been judged: ahead of the disk by what is pending */
	struct pending_queue pending;
	struct buf body, args, record;
	uint64_t durable;    /* one past the newest entry on disk */
	bool open;	     /* false: the log cannot be written; everything is denied */
	bool ahead;	     /* the state holds entries that never got to the disk: to be put back before anybody looks at it */
	int64_t retry_at;
	char closed_why[256];
	struct bucket agent_bucket; /* of agent `local`, the only one until agents are enrolled */
	int64_t throttled;	    /* since the last summary */
	int64_t throttle_at;	    /* when the next one is due; 0 = none */
	int64_t sweep_at;
	struct mediate_counters count;
};

/* The caller fills what is borrowed, and policy and state, which m owns from here on; the state is what the log says, and the projector's
 * equals it. Everything else is set here. */
void mediate_init(struct mediator *m);
void mediate_end(struct mediator *m); /* frees what it owns; pending answers are refused as unavailable first */

/* 0: queued, done(cookie) is called once, later (never from inside the call). Negative: *no says why, done is not called. */
struct decide_args {
	uint64_t session;
	const uint8_t *token;
	const struct request_call *call;
};
PAWL_MUST_USE int mediate_decide(struct mediator *m, const struct decide_args *a, void *cookie, struct refusal *no);

struct settle_args {
	uint64_t session, decision;
	const uint8_t *token;
	struct report report;
	bool has_result, has_error, has_error_sha256;
	uint8_t result_sha256[32], error_sha256[32];
	int64_t result_bytes, duration_ns;
	struct str error_kind;
};
PAWL_MUST_USE int mediate_settle(struct mediator *m, const struct settle_args *a, void *cookie, struct refusal *no);

struct open_args {
	struct str agent, root_dir;
	uint64_t parent; /* 0: a root */
	const uint8_t *parent_token;
	int64_t share_percent; /* limits.money as a share of what the parent has left; 0: none */
	const struct json *labels;
	bool has_limit[UNIT_COUNT];
	int64_t limit[UNIT_COUNT];
	uint8_t token[32]; /* fresh random bytes */
};
PAWL_MUST_USE int mediate_open(struct mediator *m, const struct open_args *a, void *cookie, struct refusal *no);
PAWL_MUST_USE int mediate_close(struct mediator *m, uint64_t session, const uint8_t *token, void *cookie, struct refusal *no);
/* Renews the lease; the session as it is. NULL: unauthenticated. No entry. */
const struct session_state *mediate_session(struct mediator *m, uint64_t session, const uint8_t *token, struct live **ret_live);

/* What the kernel saw of a session's processes (docs/watch.md), from the hall. Texts and arguments are what a program chose, any bytes; arguments
 * never get into an entry but as a keyed digest. */
struct watch_started {
	struct str path, argv, comm; /* argv: NUL after each; STR_NONE: not known */
	bool path_cut;
	uint64_t dev, ino;
	int64_t pid, count;
};
struct watch_args {
	struct entry_watch told; /* all but programs and breakers */
	const struct watch_started *started; /* execs and kill: at most PAWL_MAX_PROGRAMS */
	size_t n_started;
};
PAWL_MUST_USE int mediate_watch(struct mediator *m, const struct watch_args *a, void *cookie, struct refusal *no);
/* The watch ends a session whose processes are gone, or could not be watched. 0 with *ret_over: it has ended before, done is not called. */
PAWL_MUST_USE int mediate_watch_over(struct mediator *m, uint64_t session, bool *ret_over, void *cookie, struct refusal *no);
/* Its processes live and somebody waits for them: so does the session. */
void mediate_watch_renew(struct mediator *m, uint64_t session);

struct claim_args {
	uint64_t session, card;
	const uint8_t *token;
	const struct request_call *call;
};
PAWL_MUST_USE int mediate_claim(struct mediator *m, const struct claim_args *a, void *cookie, struct refusal *no);

/* What an operator's signature was checked over, for the entry. */
struct signed_by {
	struct str operator, key; /* name; vkey */
	uint8_t text_hash[32], signature[64];
};
struct resolve_args {
	uint64_t card;
	enum resolve_action action;
	struct str reason;
	bool tree; /* abort: from the root */
	bool has_shown; /* the amounts that the person saw: a card that has grown since is not resumed by it */
	int64_t shown_money, shown_tokens;
	const struct signed_by *by;
};
PAWL_MUST_USE int mediate_resolve(struct mediator *m, const struct resolve_args *a, void *cookie, struct refusal *no);
PAWL_MUST_USE int mediate_abort(struct mediator *m, uint64_t session, bool tree, struct str reason, const struct signed_by *by, void *cookie,
				struct refusal *no);
/* row: its key fields. */
PAWL_MUST_USE int mediate_breaker_reset(struct mediator *m, const struct breaker_row *row, struct str reason, const struct signed_by *by,
					void *cookie, struct refusal *no);
/* A caller's wait for a pending card is over. true: the entry is on its way and done(cookie) will be called; false: nothing is to be
 * written (answered meanwhile, somebody gave up before), or nothing can be. */
bool mediate_gave_up(struct mediator *m, uint64_t card, void *cookie);
PAWL_MUST_USE int mediate_key(struct mediator *m, bool enrolled, struct str operator, struct str key, struct refusal *no);

PAWL_MUST_USE int mediate_start(struct mediator *m, const struct entry_start *start, struct refusal *no);
PAWL_MUST_USE int mediate_stop(struct mediator *m, struct str why, struct refusal *no);
PAWL_MUST_USE int mediate_torn(struct mediator *m, int64_t bytes, struct refusal *no);
struct reload_order {
	const struct signed_by *by;
	struct str reason;
};
/* pol: a new policy, owned from here on 0. pol NULL and refused not empty: the news that a file was refused, and why.
 * pol NULL and nothing refused: an entry that says which policy is in force. order NULL: nobody signed for it. */
PAWL_MUST_USE int mediate_policy(struct mediator *m, struct policy *pol, struct str refused, const struct reload_order *order, void *cookie,
				 struct refusal *no);

/* For answers that show the state: what they show may not be on disk yet, and must not be taken back once it was seen. false: all of it is, the
 * answer may leave. true: done(cookie) will be called when it is, with REASON_OK and no entry, or with a refusal. agent:
 * one of those that are refused where PAWL_MAX_HELD wait already, so that a slow disk does not cost memory without end. */
bool mediate_shown(struct mediator *m, void *cookie, bool agent);

/* Results of the committer: call when committer_fd() is readable. */
void mediate_reap(struct mediator *m);
/* News of the projector: call when projector_fd() is readable. Negative: the log is damaged; pawld must not go on. */
PAWL_MUST_USE int mediate_follow(struct mediator *m, struct pawl_error *err);
/* Before the stop entry: a last snapshot, when it can be had. */
void mediate_snapshot(struct mediator *m, int wait_ms);
/* Writes what is due at now and tries a closed log again; returns the next moment to be called (log time), INT64_MAX for never. */
int64_t mediate_tick(struct mediator *m, int64_t now);
/* Before the stop entry: opens a log that is closed for a full disk, for endings alone. */
void mediate_last_resort(struct mediator *m);
/* How many answers are still owed. */
size_t mediate_owed(const struct mediator *m);
#endif
