/* daemon/cli/replay.h - a log read from entry 0, with the state as pawld has it after each entry. Signatures are not checked (that is
 * `pawl log verify`); an entry that contradicts those before it is. */
#ifndef PAWL_REPLAY_H
#define PAWL_REPLAY_H
#include "daemon/base/buf.h"
#include "pawl/state.h"

/* e and what it borrows live until the return. A negative return ends the walk and is handed back. */
typedef int replay_each(void *arg, const struct entry *e, const struct state *st, struct pawl_error *err);
/* dir as a user gives it (NULL: the home). At the end *ret_state (may be NULL) is the caller's; then a torn end is told on stderr. */
PAWL_MUST_USE int replay_log(const char *verb, const char *dir, replay_each *each, void *arg, struct state **ret_state, struct pawl_error *err);
#endif
