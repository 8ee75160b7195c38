/* daemon/cli/init.h - `pawl init`: a folder with everything that pawld needs to start: policy, key, state, log, sockets.
 * Never overwrites; run again, it makes what is missing (a run that was killed leaves whole files only). */
#ifndef PAWL_CLI_INIT_H
#define PAWL_CLI_INIT_H
#include "daemon/cli/fsutil.h"

#include <stdio.h>

struct init_options {
	const char *dir;
	const char *name; /* the log's origin; NULL: <host>/pawl/<8 random hex> */
};
/* Says on out, one line each, what it made and what was there already. */
PAWL_MUST_USE int init_run(const struct init_options *opt, const struct fs_io *io, FILE *out, struct pawl_error *err);

int cli_init(int argc, char **argv); /* argv[0] is "init"; an exit status */

#endif
