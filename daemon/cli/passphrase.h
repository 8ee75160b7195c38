/* daemon/cli/passphrase.h - a passphrase from a person at /dev/tty, without echo, or from the descriptor
 * $PAWL_PASSPHRASE_FD (for scripts: one line). Owns the terminal's settings while it asks, and gives them back whatever
 * happens. */
#ifndef PAWL_PASSPHRASE_H
#define PAWL_PASSPHRASE_H
#include "daemon/cli/opkey.h"

/* twice: a person types it again, and it may not be empty. The caller wipes out. PAWL_E_KEY: none, too long, not the
 * same twice. */
PAWL_MUST_USE int passphrase_read(const char *prompt, bool twice, char out[static OPKEY_MAX_PASS], size_t *ret_n,
				  struct pawl_error *err);
#endif
