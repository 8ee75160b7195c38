/* daemon/cli/fsutil.h - files that are there whole or not at all, and folders that nobody else can write.
 * Owns nothing that outlives a call. Must not know what the files mean. Never overwrites: who wants a new file removes the old one. */
#ifndef PAWL_FSUTIL_H
#define PAWL_FSUTIL_H
#include "daemon/base/buf.h"

#include <sys/types.h>

/* For tests: asked before each system call that changes something; an errno makes that call fail, 0 lets it through.
 * max_write: at most that many bytes a write(2), so that a kill can fall inside a file; 0 = no bound. NULL = the real thing. */
struct fs_io {
	int (*before)(void *arg);
	void *arg;
	size_t max_write;
};

/* Opens the folder `name` below at_fd (AT_FDCWD too), made with mode 0700 where it is missing; the parent is synced either way.
 * PAWL_E_UNSAFE: not a folder of ours, or one of the mode bits `refuse` (022, 077) is set; 022: but for a group of our own (daemon/base/owner.h). The caller closes *ret_fd. */
PAWL_MUST_USE int fs_dir(const struct fs_io *io, int at_fd, const char *name, mode_t refuse, int *ret_fd, bool *ret_made, struct pawl_error *err);

/* Writes name below dir_fd: a temporary file, fsync, rename, fsync of the folder; mode as given, whatever the umask. The caller holds the
 * folder's lock, since the temporary name is the same each time (what a killed run left is removed). A regular file that is there already
 * is left alone: *ret_made = false. */
PAWL_MUST_USE int fs_write_new(const struct fs_io *io, int dir_fd, const char *name, struct str data, mode_t mode, bool *ret_made,
			       struct pawl_error *err);

/* Makes what is missing of the folders above path, mode 0700. Not synced: nothing of ours lies in them. */
PAWL_MUST_USE int fs_parents(const char *path, struct pawl_error *err);

PAWL_MUST_USE int fs_sync(const struct fs_io *io, int fd, const char *name, struct pawl_error *err);

/* Regular file there / not there (*ret). PAWL_E_UNSAFE: something else has that name. */
PAWL_MUST_USE int fs_exists(int dir_fd, const char *name, bool *ret, struct pawl_error *err);

/* The whole file into out (its max is the bound: PAWL_E_LIMIT above it). */
PAWL_MUST_USE int fs_read(int at_fd, const char *name, struct buf *out, struct pawl_error *err);

/* Advisory, held until the descriptor closes. PAWL_E_BUSY: another process has it. */
PAWL_MUST_USE int fs_lock(int dir_fd, struct pawl_error *err);

#endif
