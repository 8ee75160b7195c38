/* daemon/cli/operator.h - verbs that ask a running pawld at the operator door: status, sessions. */
#ifndef PAWL_CLI_OPERATOR_H
#define PAWL_CLI_OPERATOR_H
/* argv[0] is the verb. Exit status: 0, 1 pawld could not be asked or refused, 2 usage. */
int cli_operator(int argc, char **argv);
#endif
