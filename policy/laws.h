/* policy/laws.h - one check per law, asked by judge.c's table; state_apply() does what the entry says they found. Pure.
 */
#ifndef PAWL_LAWS_H
#define PAWL_LAWS_H
#include "pawl/state.h"

struct question { /* what every law is asked */
	const struct policy *pol;
	const struct state *st;
	const struct facts *f;
	const struct session_state *who; /* NULL: no such session */
	const struct call_state *call;   /* the decision that holds this idempotency key, or NULL */
	const struct card_state *newest; /* of the cards of this exact call, or NULL */
	const struct card_state *card; /* the card that this answer goes by: the newest; of a claim the one it names */
	const struct card_state *approved; /* card, when its approval can be used now: its asks are answered */
	bool larger; /* the card was approved for smaller amounts than this call's */
	struct guard_state guard;          /* the caller's own limits, those of this call included */
	int64_t now;
	struct judgement *j;                 /* laws read the draws and hand what they find to law_found() */
	bool in_doubt;                       /* another process may have run this very call, and no approval says so what */
	bool asks_cut;                       /* more reasons to ask a person than a card holds */
	bool draws_cut;                      /* more ledgers match than a call can draw from */
	int16_t budget_of[PAWL_MAX_LEDGERS]; /* of each draw: row in pol->budgets, or -1 for the caller's own limit */
};
/* A law calls law_found() for each thing it finds and not at all when it has nothing to say. */
typedef void law_check(struct question *q);
law_check rule_law, default_law, watch_law, denial_law, breaker_law, loop_law, budget_law, doubt_law, review_law;

/* The strictest finding becomes the answer; among equals the rank of their codes decides which is named, then who came
 * first. A review is an ask for the card, unless the approved card has answered it. */
void law_found(struct question *q, enum verdict v, const struct reason *why);
/* A review that no approval answers: only a grant does, which the ledgers show. */
void law_found_firm(struct question *q, enum verdict v, const struct reason *why);

/* One name of a tool more than is kept for good: refused, and nothing about it is remembered. policy/names.c */
bool names_full(const struct question *q, struct reason *why);
/* Whose ledger or row, in a scope that is no session's. */
struct str scope_owner(enum scope scope, struct str agent);

/* Every ledger the call matches, into q->j->draws; once, before the laws. */
void budget_draws(struct question *q);
/* The window that a draw from this ledger falls into now: one that is open ends when it said it would, also after a
 * reload. */
int64_t budget_window(const struct budget *b, const struct ledger_state *led, int64_t now);
/* After the laws: who looks at a review (review.c), what the final verdict does to breakers (breaker.c). */
void review_settle(struct question *q);
void breaker_effects(struct question *q);
/* The last word, in shadow mode alone (shadow.c). */
void shadow_answer(struct question *q);
void doubt_reason(const struct question *q, struct reason *why);

/* ---- for the spine ---- */

/* The whole entry of a decision: what the judge found, as state_apply() and a reply need it. Text is borrowed from all
 * arguments. args_mac and settled_result are left zero for the spine, which knows the secret and the log. */
void entry_from_judgement(const struct policy *pol, const struct request_call *rq, const struct facts *f,
			  const struct judgement *j, int64_t now, int64_t wall, uint64_t seq, struct entry *ret);

/* The facts of a decision that was judged before, and the request as far as it is known, from its entry alone: no arguments, no
 * secret. What the policy alone can say (rules without conditions, fixed costs, names) is taken from it, so an entry that hides it
 * does not come out as it was. Text is borrowed from all arguments; `agent` is the session's. */
void facts_again(const struct policy *pol, const struct entry_decision *d, struct str agent, struct request_call *rq,
		 struct facts *ret);

/* Before judge_claim(): the card must be of this session, tool and arguments (PAWL_E_MALFORMED, field "review"). Raises
 * the amounts of *f to the largest that joined the card. */
PAWL_MUST_USE int claim_prepare(const struct state *st, uint64_t card, struct facts *f, struct pawl_error *err);

/* What a resume of this card adds to ledgers: the shortfall of each budget it asks about, as of now. PAWL_E_LIMIT: more
 * than a budget's grant_max; the card stays pending then. Rows: PAWL_MAX_ASKS; their text is borrowed from policy and
 * state. */
PAWL_MUST_USE int review_grants(const struct policy *pol, const struct state *st, const struct card_state *card,
				int64_t now, struct grant *rows, size_t *ret_n, struct pawl_error *err);

/* Rows of breakers as they are after a report (OUTCOME_EXPIRED: the lease ran out); room for PAWL_MAX_BREAKERS. Only
 * the first report of a call counts. Returns how many change. */
size_t breaker_report(const struct policy *pol, const struct state *st, const struct call_state *call,
		      enum outcome outcome, int64_t now, struct breaker_row *rows);
/* The same after a kill, a broken limit or lost events of this session's tree. */
size_t breaker_breach(const struct policy *pol, const struct state *st, const struct session_state *who, int64_t now, struct breaker_row *rows);
/* An abort opens every breaker that a call of `tool` in this session would ask. */
size_t breaker_force(const struct policy *pol, const struct state *st, const struct session_state *who, struct str tool,
		     int64_t now, struct breaker_row *rows);
/* The operator's reset of the row with this key: closed, and what began before is not counted. false: there is no such
 * row. */
bool breaker_reset(const struct state *st, const struct breaker_row *key, int64_t now, struct breaker_row *ret);
/* The key fields of the row that breaker b uses for a tool in the tree `root` of an agent. */
struct breaker_row breaker_key(const struct breaker *b, uint64_t root, struct str agent, struct str tool);
#endif
