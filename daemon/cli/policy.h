/* daemon/cli/policy.h - `pawl policy …`: what a policy file says, without a daemon. Reads files, changes nothing. */
#ifndef PAWL_CLI_POLICY_H
#define PAWL_CLI_POLICY_H
#include "pawl/policy.h"

/* argv[0] is "policy". res answers `explain`'s questions about paths (NULL: each is unresolved). Exit status: 0 every file is good, or the
 * request would be allowed; 1 at least one is not, or the question could not be answered; 2 usage; 3 explain: review; 4 explain: deny. */
int cli_policy(int argc, char **argv, const struct resolver *res);
/* Problems, if any, into *rep. A negative return: refused, or unreadable (then with err alone). The caller owns both. */
PAWL_MUST_USE int policy_read(const char *path, struct policy **ret, struct policy_report *rep, struct pawl_error *err);

#endif
