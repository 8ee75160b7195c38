/* daemon/safe.h - files and folders that another user must not be able to change, checked before they are used. */
#ifndef PAWL_SAFE_H
#define PAWL_SAFE_H
#include "pawl/error.h"

#include <sys/types.h>

/* own_group: whose right to write is ours (daemon/base/owner.h). */
/* A regular file of root's or ours, writable by nobody else, and so each folder above it (a sticky one such as /tmp may be open).
 * PAWL_E_UNSAFE says which and why. */
PAWL_MUST_USE int safe_file(const char *path, gid_t own_group, struct pawl_error *err);
/* A folder of ours (or root's), mode & 077 == 0. */
PAWL_MUST_USE int safe_private_dir(const char *path, gid_t own_group, struct pawl_error *err);
/* A folder of ours or root's that nobody else can write to; others may look and enter. */
PAWL_MUST_USE int safe_dir(const char *path, gid_t own_group, struct pawl_error *err);
/* Whole file, at most max bytes; the caller frees *ret. Opens first and checks the open file: no race with a rename. */
PAWL_MUST_USE int safe_read(const char *path, size_t max, gid_t own_group, char **ret, size_t *ret_n, struct pawl_error *err);
/* Holds an exclusive lock on dir/lock for as long as the descriptor (and copies of it) live. PAWL_E_BUSY. */
PAWL_MUST_USE int safe_lock(const char *dir, int *ret_fd, struct pawl_error *err);
PAWL_MUST_USE int safe_pid_file(const char *path, long pid, struct pawl_error *err);
void safe_pid_remove(const char *path, long pid); /* when it still says pid */
#endif
