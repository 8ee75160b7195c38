/* daemon/cli/why.h - `pawl why d_N | s_N`: one decision of a log, and what became of it; or how a session went and why it ended. Reads files; a daemon may be running. */
#ifndef PAWL_CLI_WHY_H
#define PAWL_CLI_WHY_H
#include "pawl/types.h"

/* argv[0] is "why". Exit status: 0 shown, 1 not there or not readable, 2 usage. */
int cli_why(int argc, char **argv);
int why_session(const char *dir, uint64_t id, bool json); /* why_session.c; the same statuses */

#endif
