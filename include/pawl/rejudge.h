/* include/pawl/rejudge.h - an entry of a log, made once more: from what it says was asked, the state before it and the policy then in force.
 * Pure, like the judge. Whoever asks compares the two renderings; what is an input of pawld (a token's hash, a signature, a digest of
 * arguments, the wall clock) is taken over. */
#ifndef PAWL_REJUDGE_H
#define PAWL_REJUDGE_H
#include "pawl/reload.h"

enum rejudged_as {
	REJUDGED_MADE,	/* *e is what this judge writes */
	REJUDGED_GIVEN, /* nothing in it is computed: it happened, and the entry says so */
	REJUDGED_LACKS, /* it does not hold all that it was made of; why[] says what is missing */
	REJUDGED_NEVER, /* no pawld writes it here; why[] says why not */
	REJUDGED_COUNT
};
struct rejudged {
	struct entry e; /* borrows from the entry it was made of, from policy and state, and from the arrays below */
	char why[256];
	struct judgement judgement;
	struct charge charges[PAWL_MAX_LEDGERS];
	struct breaker_row rows[PAWL_MAX_BREAKERS];
	struct reload diff;
};
/* st: before the entry. pol: in force when it was made; of a start or policy entry the one it names. before: the one in force until a policy
 * entry, NULL when that is not known. *ret is large: not for the stack. */
enum rejudged_as rejudge(const struct policy *pol, const struct policy *before, const struct state *st, const struct entry *logged,
			 struct rejudged *ret);
/* A policy entry tells of a reload, or, after the log could not be written, which policy is in force. rejudge() makes the first. This makes
 * the second: of another policy than the one before it lists what becomes of budgets and no change of rules, because a reload was lost with
 * the entries that could not be written. Such an entry cannot be told from a reload that hides what it loosened. */
void rejudge_policy_told(const struct policy *pol, const struct state *st, const struct entry *logged, struct rejudged *ret);
#endif
