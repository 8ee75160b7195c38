/* daemon/cli/log.h - `pawl log …`: reads a log folder without a daemon. Changes no file. */
#ifndef PAWL_CLI_LOG_H
#define PAWL_CLI_LOG_H
#include "pawl/error.h"

/* argv[0] is "log". Exit status: of verify see daemon/log/verify.h; 1 failed, 2 usage. */
int cli_log(int argc, char **argv);

/* daemon/cli/log_show.c; argv[0] is "show" */
int log_show(int argc, char **argv);

/* The log folder that the user means: of --dir or the word, else of the home that `pawl init` makes. A home is taken
 * for its log/. */
PAWL_MUST_USE int log_folder(const char *given, char out[static 4096], struct pawl_error *err);
int log_complain(const char *verb,
		 const struct pawl_error *err); /* one line on stderr; the exit status: 2 for usage, else 1 */

#endif
