/* daemon/watch/deny.h - a policy's list of programs, as the files that the kernel knows them by. Owns its paths. Reads file systems only. */
#ifndef PAWL_DENY_H
#define PAWL_DENY_H
#include "daemon/watch/guard.h"

#define DENY_LOADERS 16
#define DENY_MAX (PAWL_MAX_DENY_EXEC + DENY_LOADERS)

struct deny {
	char *paths; /* n of them, each with its NUL */
	size_t n, bytes;
	struct guard_file last[DENY_MAX]; /* what each was when it was looked at; ino 0: not there */
	size_t n_last;
};
/* Checks what came from the other process: n absolute paths, each with its NUL, and nothing else. PAWL_E_MALFORMED. */
PAWL_MUST_USE int deny_check(const char *paths, size_t bytes, size_t n, struct pawl_error *err);
/* Takes a copy of checked paths. */
PAWL_MUST_USE int deny_init(struct deny *d, const char *paths, size_t bytes, size_t n, struct pawl_error *err);
void deny_done(struct deny *d); /* accepts a zeroed one */
bool deny_lacks(const struct deny *d, const struct deny *was); /* a path of was */
/* Looks at every path, and at the dynamic loaders when there is any. In ret those that are new since the last look, at most DENY_MAX. */
size_t deny_look(struct deny *d, struct guard_file ret[static DENY_MAX]);
/* A line of mountinfo; true: it is of this mount, and *ret its device as the kernel numbers it. Pure. */
bool deny_mount_dev(const char *line, uint64_t mount, uint64_t *ret);
/* A program on the list that is a script: the kernel runs its interpreter, and cannot be told this one apart. NULL: none. */
const char *deny_script(const struct deny *d);
#endif
