/* daemon/resolve.h - real paths for `under`: the I/O that the judge must not do. Owns no descriptor between calls. */
#ifndef PAWL_RESOLVE_H
#define PAWL_RESOLVE_H
#include "pawl/policy.h"

/* Ask the kernel (openat2, Linux 5.6; needs /proc). A relative path lies below root_dir; an absolute one that begins
 * with root_dir is walked from there, any other from "/". Links are followed; what does not exist yet is appended to
 * the real path of the deepest folder that does. Negative = unresolved: a mount or a magic link on the way from there,
 * a dangling link, `..` or a file behind what does not exist, no permission, too long, or gone while we looked. The
 * answer may lie outside root_dir: the caller compares. */
int resolve_path(void *arg, struct str root_dir, struct str path, char *out, size_t out_size);

/* The above as facts_of() takes it. */
struct resolver resolve_kernel(void);

#endif
