/* hooks/run/steps.h - the child's steps, for launch.c and tests. Each takes something away from the calling process for good. */
#ifndef PAWL_LAUNCH_STEPS_H
#define PAWL_LAUNCH_STEPS_H
#include "hooks/run/launch.h"

struct launch_paths { /* borrowed; absolute */
	const char *const *path;
	size_t n;
};

/* hide.c. Mounts something empty over each path, in a mount namespace of our own. *ret_userns: it took a user namespace. *ret_partial gets
 * LAUNCH_NO_HIDE where no namespace can be had and the paths are within reach of us. */
PAWL_MUST_USE int hide_paths(const struct launch_paths *hide, bool *ret_userns, uint32_t *ret_partial, struct pawl_error *err);

/* landlock.c. The rules are made while the paths can still be opened, and put in force later. */
struct landlock_plan {
	struct launch_paths hide, writes;
	bool limited; /* only below writes can be written */
	bool root;    /* the command is uid 0: the kernel's files and raw devices are no business of it */
	bool shut;    /* the hidden paths could not be hidden: then at least not opened */
};
/* *ret -1 where there is no Landlock; *ret_partial gets LAUNCH_NO_ bits. */
PAWL_MUST_USE int landlock_make(const struct landlock_plan *plan, int *ret, uint32_t *ret_partial, struct pawl_error *err);
PAWL_MUST_USE int landlock_enter(int ruleset, struct pawl_error *err); /* wants no_new_privs */

/* filter.c. The last step: some of what the others call is refused after it. */
PAWL_MUST_USE int filter_enter(struct pawl_error *err);

/* The path itself or something below it. */
static inline bool path_is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	while (n > 1 && top[n - 1] == '/')
		n--;
	return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/' || (n == 1 && *top == '/'));
}
#endif
