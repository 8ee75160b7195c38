/* include/pawl/exit.h - exit statuses of pawld, also in its man page: sysexits where they fit. Its watcher and `pawl` read them too. */
#ifndef PAWL_EXIT_H
#define PAWL_EXIT_H

enum exit_status {
	EXIT_DONE = 0,
	EXIT_USAGE = 64,
	EXIT_LOG = 65,	   /* the log cannot be continued: tampered, cut, rolled back. No restart mends that */
	EXIT_SOFTWARE = 70,
	EXIT_BUSY = 75,	   /* another pawld holds it; may pass */
	EXIT_CONFIG = 78,  /* policy, key, ownership or modes */
};
#endif
