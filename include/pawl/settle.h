/* include/pawl/settle.h - what a report costs, and whether a session may open. Pure, like the judge. */
#ifndef PAWL_SETTLE_H
#define PAWL_SETTLE_H
#include "pawl/state.h"

struct report { /* of a settle: amounts are >= 0, checked by wire.c */
	enum outcome outcome;
	bool has_money, has_tokens;
	int64_t money, tokens;
};

/* Fills charges (room for PAWL_MAX_LEDGERS rows), n_charges, charged_* and returned of *ret; text is borrowed from state and policy.
 * A call whose reservation already ended (lease over, session closed) can only add: reserved is 0 and charged is the excess.
 * PAWL_E_MALFORMED with field "cost.money": zero cost with tokens where money was reserved; nothing is to change then. */
PAWL_MUST_USE int settle_charges(const struct policy *pol, const struct state *st, const struct call_state *call, const struct report *rep,
				 struct charge *charges, struct entry_settle *ret, struct pawl_error *err);

/* sessions.open and sessions.new for an agent. false: *why is filled (code session_limit). *ret_fresh_end: 0 or the window's end. */
bool session_may_open(const struct policy *pol, const struct state *st, struct str agent, int64_t now, int64_t *ret_fresh_end, struct reason *why);

/* The ledger of a session's own limit in a unit: "@session", "@session.calls"… */
struct str own_ledger_name(enum unit unit);
/* The limit that the policy (or the session, or the client) sets for a ledger now; INT64_MAX when nothing does any more. */
int64_t ledger_limit(const struct policy *pol, const struct state *st, const struct ledger_key *key, enum unit unit);
#endif
