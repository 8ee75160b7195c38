/* include/pawl/state.h - all that pawld remembers between calls, advanced by state_apply(state, entry) and by nothing else.
 * No policy, no clock, no I/O inside: two states fed the same entries are equal, and one fed an old log is what it was.
 * Borrowed pointers live until the next state_apply() or state_free(). */
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
/* SHA-256-sized digest over the canonical content: for tests (crash, clone, replay) and, later, snapshots. */
void state_digest(const struct state *st, uint8_t out[static 32]);

enum session_end { SESSION_LIVE, SESSION_ENDED_CLOSE, SESSION_ENDED_STALE };
struct session_state {
	uint64_t id, parent, root;
	struct str agent, root_dir, labels_text;
	uint8_t token_hash[32];
	int64_t opened_ns, ended_ns, lease_ns;
	enum session_end end;
	int64_t decisions, executions; /* in this session alone */
	int64_t pending_cards, open_reservations;
	int64_t latest_reservation; /* greatest deadline of an open reservation, 0 = none */
	bool has_limit[UNIT_COUNT];
	int64_t limit[UNIT_COUNT];
};
/* Ended sessions stay for PAWL_SESSION_LINGER_NS of log time, so that a late settle finds them; then any entry drops them. */
#define PAWL_SESSION_LINGER_NS (3600 * NS_PER_SEC)
const struct session_state *state_session(const struct state *st, uint64_t id);
/* In order of id; start with after = 0. NULL at the end. */
const struct session_state *state_session_after(const struct state *st, uint64_t after);

struct ledger_state {
	int64_t spent, reserved, granted;
};
/* Zeroes for a ledger nothing has touched. */
struct ledger_state state_ledger(const struct state *st, const struct ledger_key *key);

struct call_state {
	uint64_t seq;	    /* the decision */
	uint64_t settled;   /* the entry that ended it (settle, expiry, the session's end) or, since, its late report; 0 = open */
	uint64_t session;
	struct str tool;    /* canonical name as decided */
	enum call_kind kind;
	uint8_t client[16], key[16], settle_same[16]; /* settle_same: zero until the caller has reported, in time or late */
	enum verdict answer;
	enum outcome outcome; /* NONE while open; EXPIRED when nobody reported: the lease ran out, or the session ended first */
	int64_t lease_until, decided_ns;
};
/* By idempotency key: the decision that holds it, or NULL. An allowed call keeps its key for the session's life, whatever is answered to
 * those who ask again; else the newest answer holds it. *ret_reused: the call id is known with other arguments. */
const struct call_state *state_call(const struct state *st, uint64_t session, uint64_t call_hash, const uint8_t key[static 16], bool *ret_reused);
/* By decision id: every decision of a session that is kept, but for those answered after it was over or used up (session_limit). */
const struct call_state *state_decision(const struct state *st, uint64_t seq);
/* Open allowed decisions of a session in order of id; after = 0 first. */
const struct call_state *state_open_after(const struct state *st, uint64_t session, uint64_t after);
/* What a decision holds (amount = reserved) or, once settled, what was charged: up to max rows; returns how many there are.
 * key text is borrowed. limit and granted are 0: the policy knows the limit. */
size_t state_holds(const struct state *st, uint64_t seq, struct draw *out, size_t max);

/* Executions of the tree: all with this `same` token; and among the last `window` those with this loop token. */
int64_t state_count_same(const struct state *st, uint64_t root, const uint8_t same[static 16]);
int64_t state_count_repeat(const struct state *st, uint64_t root, const uint8_t repeat[static 16], int64_t window);

struct guard_state { /* a client's own limits for (session, tool), as the first call fixed and later ones tightened them */
	bool has_money;
	int64_t money, repeat;
};
struct guard_state state_guard(const struct state *st, uint64_t session, struct str tool);

struct card_state {
	uint64_t id, session;
	int64_t until;
};
const struct card_state *state_card(const struct state *st, uint64_t session, const uint8_t card_token[static 16]); /* pending ones */
const struct card_state *state_card_after(const struct state *st, uint64_t session, uint64_t after); /* of one session (0: of all) */

struct agent_state {
	int64_t open;	   /* live sessions */
	int64_t fresh;	   /* opened in the window that ends at fresh_end */
	int64_t fresh_end;
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
