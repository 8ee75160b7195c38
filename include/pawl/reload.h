/* include/pawl/reload.h - what changes when another policy comes into force: for the ledgers, as the entry states it, and for
 * people. Pure; the old budgets come from the state, which knows them across a restart too. */
#ifndef PAWL_RELOAD_H
#define PAWL_RELOAD_H
#include "pawl/state.h"

struct reload {
	struct entry_budgets budgets; /* points into the arrays below: not to be copied */
	struct budget_row rows[PAWL_MAX_BUDGETS];
	struct str changes[PAWL_MAX_CHANGES];
	char text[PAWL_MAX_CHANGES][PAWL_CHANGE_TEXT];
	size_t loosened, tightened, changed, left_out; /* what was found; left_out: had no room in changes[] */
};

/* old: the policy in force until now; NULL: not known (a start), and then only budgets can be compared. Text of *ret is borrowed from st
 * and pol. Renames: a budget that is gone and a new one of equal unit, scope, match and window, in the order of the two files. */
void policy_diff(const struct policy *old, const struct state *st, const struct policy *pol, struct reload *ret);
/* "loosened: …" */
bool change_loosens(struct str change);

#endif
