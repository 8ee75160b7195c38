/* daemon/cli/why.h - `pawl why d_N`: one decision of a log, and what became of it. Reads files; a daemon may be running. */
#ifndef PAWL_CLI_WHY_H
#define PAWL_CLI_WHY_H

/* argv[0] is "why". Exit status: 0 shown, 1 not there or not readable, 2 usage. */
int cli_why(int argc, char **argv);

#endif
