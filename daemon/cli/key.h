/* daemon/cli/key.h - `pawl key new | show`: an operator's own key. */
#ifndef PAWL_CLI_KEY_H
#define PAWL_CLI_KEY_H
/* argv[0] is "key". Exit status: 0 done, 1 failed, 2 usage. */
int cli_key(int argc, char **argv);
#endif
