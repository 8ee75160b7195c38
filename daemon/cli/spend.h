/* daemon/cli/spend.h - `pawl spend`: charges of a log, added up. Reads files; a daemon may be running. */
#ifndef PAWL_CLI_SPEND_H
#define PAWL_CLI_SPEND_H

/* argv[0] is "spend". Exit status: 0 shown, 1 the log could not be read, 2 usage. */
int cli_spend(int argc, char **argv);

#endif
