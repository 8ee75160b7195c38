/* daemon/base/home.c - see home.h. Reads the environment, touches no file. */
#include "daemon/base/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int home_dir(char *out, size_t size, struct pawl_error *err)
{
	const char *dir = getenv("PAWL_DIR"), *home = getenv("HOME"), *xdg = getenv("XDG_STATE_HOME"), *below = "";
	int n;

	if (!dir || !*dir) {
		dir = "/var/lib/pawl";
		if (geteuid() != 0) {
			dir = xdg && *xdg == '/' ? xdg : home && *home == '/' ? home : NULL;
			below = dir == xdg ? "/pawl" : "/.local/state/pawl";
		}
	}
	if (!dir)
		return pawl_fail(err, PAWL_E_USAGE, "no folder: give --dir DIR");
	n = snprintf(out, size, "%s%s", dir, below);
	if (n >= 0 && (size_t)n < size)
		return 0;
	if (size)
		out[0] = '\0';
	return pawl_fail(err, PAWL_E_USAGE, "the folder's name is longer than %zu bytes: %.60s…", size ? size - 1 : 0, dir);
}
