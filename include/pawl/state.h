/* include/pawl/state.h - all that pawld remembers between calls, advanced by state_apply(state, entry) and by nothing else.
 * No policy, no clock, no I/O inside: two states fed the same entries are equal, and one fed an old log is what it was.
 * Borrowed pointers live until the next state_apply() or state_free(), those to a call_state also no longer than the next
 * question of the same function. A state belongs to one thread at a time, questions included. */
#ifndef PAWL_STATE_H
#define PAWL_STATE_H
#include "pawl/entry.h"

struct state; /* opaque */

PAWL_MUST_USE int state_new(struct state **ret, struct pawl_error *err);
void state_free(struct state *st);
PAWL_MUST_USE int state_clone(const struct state *st, struct state **ret, struct pawl_error *err);

/* Memory for all that e will add; may fail, and then nothing has changed. After 0, state_apply() of the same entry cannot fail.
 * An entry that contradicts the state (unknown session, a sequence that is not the next, a hold that is not there) is
 * PAWL_E_TAMPERED here: a log from outside is input. */
PAWL_MUST_USE int state_room(struct state *st, const struct entry *e, struct pawl_error *err);
void state_apply(struct state *st, const struct entry *e);

uint64_t state_next_seq(const struct state *st); /* 0 for an empty log */
int64_t state_now(const struct state *st);	 /* log time of the newest entry, 0 when none */
/* Of the policy in force, as the newest entry that told it had it. */
enum policy_mode state_mode(const struct state *st);
/* SHA-256 over the bytes that state_write() gives: equal for equal entries, on any machine. */
void state_digest(const struct state *st, uint8_t out[static 32]);
/* As the pawld before the watch took it; false: this state holds what that one could not say. */
bool state_digest_v5(const struct state *st, uint8_t out[static 32]);

/* All of it as bytes, and back (policy/state_write.c has the format). The sink gets at most 64 KiB at a time; what it or the source fails
 * with, a negative error, is handed on. The source gives at most max bytes, and none at the end. Bytes from outside are input: whatever
 * state_write() would not have written, or state_apply() could stumble over, is PAWL_E_TAMPERED with its place. A state that was read has
 * the digest of its bytes, and goes on as the one that was written. */
typedef int state_sink(void *arg, const void *p, size_t n, struct pawl_error *err);
typedef int state_source(void *arg, void *p, size_t max, size_t *ret_n, struct pawl_error *err);
PAWL_MUST_USE int state_write(const struct state *st, state_sink *sink, void *arg, struct pawl_error *err);
PAWL_MUST_USE int state_read(state_source *source, void *arg, struct state **ret, struct pawl_error *err);

/* What the log says of the processes that a session runs under watch; docs/watch.md. */
enum tree_mode { TREE_NONE, TREE_LIVE, TREE_ENDED, TREE_MODE_COUNT };
struct tree_state {
	enum tree_mode mode;
	bool run;	     /* by `pawl run`: its processes may be ended when the session ends */
	uint32_t held;	     /* HOLD_ bits */
	int64_t execs, kills, lost; /* programs started and processes killed, as entries have told them; events lost */
	enum watch_why why;  /* of the last limit that was broken, else why it ended */
	int64_t measured, limit;
};
enum session_end { SESSION_LIVE, SESSION_ENDED_CLOSE, SESSION_ENDED_STALE, SESSION_ENDED_ABORT };
struct session_state {
	uint64_t id, parent, root;
	struct str agent, root_dir, labels_text;
	uint8_t token_hash[32];
	int64_t opened_ns, ended_ns, lease_ns;
	enum session_end end;
	bool has_limit[UNIT_COUNT];
	uint32_t decisions, executions; /* in this session alone; memory ends long before these do */
	uint32_t pending_cards, open_reservations;
	int64_t latest_reservation; /* greatest deadline of an open reservation, 0 = none */
	int64_t limit[UNIT_COUNT];
};
/* Ended sessions stay for PAWL_SESSION_LINGER_NS of log time, so that a late settle finds them; then any entry drops them. */
#define PAWL_SESSION_LINGER_NS (3600 * NS_PER_SEC)
const struct session_state *state_session(const struct state *st, uint64_t id);
/* TREE_NONE: no session of this id, or it was never watched. */
struct tree_state state_tree(const struct state *st, uint64_t session);
/* It runs in a tree that is watched: its own, or that of a session above it. */
bool state_watched(const struct state *st, const struct session_state *who);
/* In order of id; start with after = 0. NULL at the end. */
const struct session_state *state_session_after(const struct state *st, uint64_t after);

struct ledger_state {
	int64_t spent, reserved, granted;
	int64_t window_end; /* 0: the ledger has no window, or only grants since its last one ended */
};
/* Zeroes for a ledger nothing has touched, and for one whose window is over at now. A draw that names an earlier end than that of the window
 * that is open, or none, falls into the open one; a later end starts the next. A grant where no window is open counts in the next one. */
struct ledger_state state_ledger(const struct state *st, const struct ledger_key *key, int64_t now);
/* Every ledger there is, in no order; *at = 0 first, false at the end. As it is kept: one whose window is over still shows what it had. */
bool state_ledger_next(const struct state *st, uint32_t *at, struct ledger_key *ret_key, struct ledger_state *ret_sum);

/* The budgets of the policy in force, as the newest entry that told them had them; `from` and `life` are empty. Returns how many; room for
 * PAWL_MAX_BUDGETS. *ret_known: an entry has told. */
size_t state_budgets(const struct state *st, struct budget_row *out, bool *ret_known);
/* What a scope has taken in its life in money, calls or tokens: charges of its allowed calls, and of open ones their reservations. session: with
 * all below it; owner: an agent's name; neither: everything. Of sessions and agents that are kept. */
int64_t state_life(const struct state *st, enum scope scope, uint64_t session, struct str owner, enum unit unit);

struct call_state {
	uint64_t seq;	    /* the decision */
	uint64_t card;	    /* review: the card it opened or joined; allow: the card it spent; 0 = none */
	bool claim;	    /* its entry was a claim */
	uint64_t settled;   /* the entry that ended it (settle, expiry, the session's end) or, since, its late report; 0 = open */
	uint64_t session;
	struct str tool;    /* canonical name as decided */
	enum call_kind kind;
	uint8_t client[16];	 /* zero once it is settled */
	bool reported;		 /* by the caller, in time or late */
	uint32_t settle_same;	 /* once it is reported: the first bits of the report's `same` */
	enum verdict answer;
	enum outcome outcome; /* NONE while open; EXPIRED when nobody reported: the lease ran out, or the session ended first */
	bool priced, refund; /* the tool's fixed cost and `refund` when the call was allowed: a reload changes neither */
	int64_t price;	     /* zero once it is reported */
	int64_t lease_until; /* of an allowed call; zero once it is reported in time, unless a breaker waits for it */
	int64_t decided_ns;  /* zero once it is reported */
};
/* By idempotency key: the decision that holds it, or NULL. An allowed call keeps its key for the session's life, whatever is answered to
 * those who ask again, unless it is allowed once more (an approved doubt); else the newest answer holds it. *ret_reused: the call id is
 * known with other arguments. */
const struct call_state *state_call(const struct state *st, uint64_t session, uint64_t call_hash, const uint8_t key[static 16], bool *ret_reused);
/* By decision id: every decision of a session that is kept, but for those answered after it was over or used up (session_limit). */
const struct call_state *state_decision(const struct state *st, uint64_t seq);
/* Open allowed decisions of a session in order of id; after = 0 first. */
const struct call_state *state_open_after(const struct state *st, uint64_t session, uint64_t after);
/* What a decision holds or, when it ended without a report, was charged: up to max rows; returns how many there are; none once it is
 * reported. key text is borrowed. window_end: of the window that the hold was made in. limit and granted are 0: the policy knows the limit. */
size_t state_holds(const struct state *st, uint64_t seq, struct draw *out, size_t max);

/* Executions of the tree: all with this `same` token; and among the last `window` those with this loop token. */
int64_t state_count_same(const struct state *st, uint64_t root, const uint8_t same[static 16]);
int64_t state_count_repeat(const struct state *st, uint64_t root, const uint8_t repeat[static 16], int64_t window);

/* The tree's executions, newest first: back = 0 is the last one. false: there are not so many (at most PAWL_MAX_WINDOW are kept). */
struct exec_state {
	uint64_t seq;
	uint64_t same;		/* the first 64 bits of the token */
	uint32_t repeat;	/* and 32 of this one */
	struct str tool;
	bool settled, failed, polling; /* failed: the outcome was error */
	uint32_t result, error; /* first 32 bits of the settled tokens; 0 = absent or not settled */
};
bool state_exec(const struct state *st, uint64_t root, uint32_t back, struct exec_state *ret);
static inline uint32_t exec_repeat(const uint8_t token[static 16]) /* what .repeat is of an execution with this token; 0: it had none */
{
	uint32_t v;

	memcpy(&v, token, sizeof(v));
	return v ? v : 1;
}
/* A member of a cycle that tripped in this tree. */
bool state_tripped(const struct state *st, uint64_t root, const uint8_t same[static 16]);
/* The rule by which `name` is denied to this session: by its own memory, an ancestor's, the tree's or the agent's. STR_NONE: it is not.
 * This and state_tripped() count what shadow mode remembers, which is there in shadow mode alone. */
struct str state_denied(const struct state *st, const struct session_state *who, struct str name);
/* Every denial that binds the session; after = 0 first, *at moves on. false at the end. */
bool state_denial_next(const struct state *st, const struct session_state *who, uint32_t *at, struct stick_fact *ret);

/* Rows that outlive their session, one for each tool: is there this one, or room for it? Of those that differ from it by the tool alone
 * PAWL_MAX_NAMES are kept. Of a stick: any denial of this tool to the agent. */
bool state_ledger_fits(const struct state *st, const struct ledger_key *key);
bool state_breaker_fits(const struct state *st, const struct breaker_row *key);
bool state_stick_fits(const struct state *st, struct str agent, struct str tool);

struct guard_state { /* a client's own limits for (session, tool), as the first call fixed and later ones tightened them */
	bool has_money;
	int64_t money, repeat;
};
struct guard_state state_guard(const struct state *st, uint64_t session, struct str tool);

enum card_mode { CARD_PENDING, CARD_RESUMED, CARD_SPENT, CARD_SKIPPED, CARD_ABORTED, CARD_TIMED_OUT, CARD_CLOSED, CARD_MODE_COUNT };
struct card_state {
	uint64_t id, session;
	int64_t opened_ns, until; /* until: pending or resumed ones */
	enum card_mode mode;
	struct str tool;
	uint8_t token[16];
	struct ask asks[PAWL_MAX_ASKS];
	size_t n_asks;
	int64_t money, tokens;	 /* the largest amounts of the calls that joined */
	bool claim_only;	 /* a caller stopped waiting for it: an equal decide does not spend the approval */
	uint64_t spent_by;	 /* the decision that used the approval; closed: that used the approval of another card of this call */
	struct str operator, reason; /* who answered, and why */
};
/* The newest card of (session, tool, canonical args), in any mode; cards live as long as their session is kept. */
const struct card_state *state_card(const struct state *st, uint64_t session, const uint8_t card_token[static 16]);
const struct card_state *state_card_by_id(const struct state *st, uint64_t id);
/* Pending ones in order of id, of one session (0: of all). */
const struct card_state *state_card_after(const struct state *st, uint64_t session, uint64_t after);
/* In any mode, in order of id, of one session (0: of all that are kept). For people's lists: it looks at every card. */
const struct card_state *state_card_any_after(const struct state *st, uint64_t session, uint64_t after);

/* The rows that an entry brings, whatever its kind. */
const struct breaker_row *entry_breakers(const struct entry *e, size_t *ret_n);
/* NULL: closed, and never counted anything. The key fields of *key are compared. */
const struct breaker_row *state_breaker(const struct state *st, const struct breaker_row *key);
const struct breaker_row *state_breaker_next(const struct state *st, uint32_t *at); /* all; *at = 0 first */

struct agent_state {
	int64_t open;	   /* live sessions */
	int64_t fresh;	   /* opened in the window that ends at fresh_end */
	int64_t fresh_end;
	int64_t hold_until; /* no new sessions before: one of its sessions was aborted */
};
struct agent_state state_agent(const struct state *st, struct str name);

/* The earliest deadline of an open reservation or a pending card; ties by id. false: none. */
enum deadline_kind { DEADLINE_RESERVATION, DEADLINE_CARD };
struct deadline {
	int64_t at;
	enum deadline_kind kind;
	uint64_t id, session; /* decision or card */
};
bool state_next_deadline(const struct state *st, struct deadline *ret);

#endif
