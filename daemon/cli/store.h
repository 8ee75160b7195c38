/* daemon/cli/store.h - `pawl store …`: the SQLite projection of a log, made anew or looked at, without a daemon. */
#ifndef PAWL_CLI_STORE_H
#define PAWL_CLI_STORE_H
#include "pawl/types.h"

/* argv[0] is "store". Exit status: of rebuild as of `pawl log verify`, and EXIT_BUSY when a pawld is running; 1 failed, 2 usage. */
int cli_store(int argc, char **argv);

/* daemon/cli/store_forget.c; the exit status */
int store_forget(const char *private_path, uint64_t session, bool json);
#endif
