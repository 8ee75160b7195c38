/* daemon/cli/operator_admin.h - `pawl operator add | list | remove`: who may answer. Writes and reads
 * DIR/operators/NAME.vkey; pawld reads them at its start and at HUP. */
#ifndef PAWL_CLI_OPERATOR_ADMIN_H
#define PAWL_CLI_OPERATOR_ADMIN_H
/* argv[0] is "operator". Exit status: 0 done, 1 failed, 2 usage. */
int cli_operator_admin(int argc, char **argv);
#endif
