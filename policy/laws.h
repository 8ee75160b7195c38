/* policy/laws.h - one check per law, asked by judge.c's table; state_apply() does what the entry says they found. Pure.
 */
#ifndef PAWL_LAWS_H
#define PAWL_LAWS_H
#include "pawl/state.h"

#define LAW_PENDING_CARDS   20                          /* reviews a session may have waiting */
#define LAW_CARD_TIMEOUT_NS (INT64_C(600) * NS_PER_SEC) /* until `reviews:` can say otherwise */

struct question { /* what every law is asked */
	const struct policy *pol;
	const struct state *st;
	const struct facts *f;
	const struct session_state *who; /* NULL: no such session */
	const struct call_state *call;   /* the decision that holds this idempotency key, or NULL */
	struct guard_state guard;        /* the caller's own limits, those of this call included */
	int64_t now;
	struct judgement *j;                 /* laws read the draws; only judge.c writes the answer */
	bool draws_cut;                      /* more ledgers match than a call can draw from */
	int16_t budget_of[PAWL_MAX_LEDGERS]; /* of each draw: row in pol->budgets, or -1 for the caller's own limit */
};
/* Returns the strictest answer of the law and, unless that is allow, why. A law that has nothing to say answers allow.
 */
typedef enum verdict law_check(const struct question *q, struct reason *why);
law_check rule_law, default_law, loop_law, budget_law;
/* Every ledger the call matches, into q->j->draws; once, before the laws. */
void budget_draws(struct question *q);

/* The whole entry of a decision: what the judge found, as state_apply() and a reply need it. Text is borrowed from all
 * arguments. args_mac and settled_result are left zero for the spine, which knows the secret and the log. */
void entry_from_judgement(const struct policy *pol, const struct request_call *rq, const struct facts *f,
			  const struct judgement *j, int64_t now, int64_t wall, uint64_t seq, struct entry *ret);
#endif
