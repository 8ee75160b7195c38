/* daemon/cli/store.h - `pawl store …`: the SQLite projection of a log, made anew or looked at, without a daemon. */
#ifndef PAWL_CLI_STORE_H
#define PAWL_CLI_STORE_H

/* argv[0] is "store". Exit status: of rebuild as of `pawl log verify`, and 75 when a pawld is running; 1 failed, 2 usage. */
int cli_store(int argc, char **argv);
#endif
