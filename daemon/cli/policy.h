/* daemon/cli/policy.h - `pawl policy …`: what a policy file says, without a daemon. Reads files, changes nothing. */
#ifndef PAWL_CLI_POLICY_H
#define PAWL_CLI_POLICY_H

/* argv[0] is "policy". Exit status: 0 every file is good, 1 at least one is not, 2 usage. */
int cli_policy(int argc, char **argv);

#endif
