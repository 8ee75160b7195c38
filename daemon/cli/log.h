/* daemon/cli/log.h - `pawl log …`: reads a log folder without a daemon. Changes no file. */
#ifndef PAWL_CLI_LOG_H
#define PAWL_CLI_LOG_H
#include "daemon/base/json.h"
#include "daemon/log/note.h"

/* argv[0] is "log". Exit status: of verify see daemon/log/verify.h, of replay log_replay.c; 1 failed, 2 usage. */
int cli_log(int argc, char **argv);

/* daemon/cli/log_show.c; argv[0] is "show" */
int log_show(int argc, char **argv);
void log_show_line(struct buf *out, uint64_t seq, const struct json *body); /* one entry for people, with its \n; escaped */

/* daemon/cli/log_replay.c; argv[0] is "replay" */
int log_replay(int argc, char **argv);

/* The log folder that the user means: of --dir or the word, else of the home that `pawl init` makes. A home is taken
 * for its log/. */
PAWL_MUST_USE int log_folder(const char *given, char out[static 4096], struct pawl_error *err);
int log_complain(const char *verb,
		 const struct pawl_error *err); /* one line on stderr; the exit status: 2 for usage, else 1 */
/* The key to check with, and in `from` where it came from: --key (a file or a vkey), else entry.vkey beside or inside the folder. */
PAWL_MUST_USE int log_key(const char *given, const char *dir, struct vkey *ret, char from[static 4128], struct pawl_error *err);
void log_progress(bool *shown, uint64_t n); /* "N entries checked" on stderr */

#endif
