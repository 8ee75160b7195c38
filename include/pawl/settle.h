/* include/pawl/settle.h - what a report costs, and whether a session may open. Pure, like the judge. */
#ifndef PAWL_SETTLE_H
#define PAWL_SETTLE_H
#include "pawl/state.h"

struct report { /* of a settle: amounts are >= 0, checked by wire.c */
	enum outcome outcome;
	bool has_money, has_tokens;
	int64_t money, tokens;
};

/* Fills charges (room for PAWL_MAX_LEDGERS rows), rows (breakers, room for PAWL_MAX_BREAKERS), both with their counts, charged_* and
 * returned of *ret; text is borrowed from state and policy. draw.window_end is the window open now: what is charged above the reservation
 * goes there, the rest returns to the window it came from.
 * A call whose reservation already ended (lease over, session closed) can only add: reserved is 0, charged is the excess, no breaker moves.
 * PAWL_E_MALFORMED with field "cost.money": zero cost with tokens where money was reserved; nothing is to change then. */
PAWL_MUST_USE int settle_charges(const struct policy *pol, const struct state *st, const struct call_state *call, const struct report *rep,
				 int64_t now, struct charge *charges, struct breaker_row *rows, struct entry_settle *ret,
				 struct pawl_error *err);

/* sessions.open, new and depth for an agent, and the hold after an abort; parent NULL: a root. false: *why is filled (code session_limit,
 * session_aborted, or how the parent ended). *ret_fresh_end: 0 or the window's end. */
bool session_may_open(const struct policy *pol, const struct state *st, const struct session_state *parent, struct str agent, int64_t now,
		      int64_t *ret_fresh_end, struct reason *why);
/* percent (0 to 100) of the money left to a child of this session now, rounded down: of the tightest ledger that every call would draw from. -1:
 * there is none (or no parent), so that a share means nothing. */
int64_t share_of_rest(const struct policy *pol, const struct state *st, const struct session_state *parent, int64_t now, int percent);

/* The ledger of a session's own limit in a unit: "@session", "@session.calls"… */
struct str own_ledger_name(enum unit unit);
/* The limit that the policy (or the session, or the client) sets for a ledger now; INT64_MAX when nothing does any more. */
int64_t ledger_limit(const struct policy *pol, const struct state *st, const struct ledger_key *key, enum unit unit);
#endif
