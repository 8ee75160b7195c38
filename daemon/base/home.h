/* daemon/base/home.h - the one default folder: where `pawl init` puts it, pawld serves it and every verb looks for it.
 * hooks/python/pawl/_door.py follows the same rule. */
#ifndef PAWL_HOME_H
#define PAWL_HOME_H
#include "pawl/error.h"

/* $PAWL_DIR, else /var/lib/pawl for root, else $XDG_STATE_HOME/pawl, else ~/.local/state/pawl. PAWL_E_USAGE when none of them
 * is there or it does not fit into size; out is then untouched or "". */
PAWL_MUST_USE int home_dir(char *out, size_t size, struct pawl_error *err);
#endif
