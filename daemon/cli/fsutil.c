/* daemon/cli/fsutil.c - see fsutil.h. Every name is looked up below an open folder and never through a symbolic link, so that
 * renaming a parent in the middle does not send a key elsewhere. */
#include "daemon/cli/fsutil.h"

#include "daemon/base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY ".%s.new"

static bool refused(const struct fs_io *io)
{
	int e = io && io->before ? io->before(io->arg) : 0;

	if (e)
		errno = e;
	return e != 0;
}

int fs_sync(const struct fs_io *io, int fd, const char *name, struct pawl_error *err)
{
	if (refused(io) || fsync(fd) < 0)
		return pawl_fail_errno(err, "cannot sync %s", name);
	return 0;
}

/* A new name lies in the parent. Also synced when the folder was there: a run that was killed may have made it. */
static int sync_parent(const struct fs_io *io, int fd, const char *name, struct pawl_error *err)
{
	int r, parent = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (parent < 0)
		return pawl_fail_errno(err, "cannot open the folder above %s", name);
	r = fs_sync(io, parent, name, err);
	(void)close(parent);
	return r;
}

int fs_dir(const struct fs_io *io, int at_fd, const char *name, mode_t refuse, int *ret_fd, bool *ret_made, struct pawl_error *err)
{
	bool made = false;
	struct stat st;
	int fd, r = 0;

	if (!refused(io) && mkdirat(at_fd, name, 0700) == 0)
		made = true;
	else if (errno != EEXIST)
		return pawl_fail_errno(err, "cannot make the folder %s", name);
	fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s is there and is not a folder", name);
	if (fd < 0)
		return pawl_fail_errno(err, "cannot open the folder %s", name);
	if (fstat(fd, &st) < 0)
		r = pawl_fail_errno(err, "cannot look at the folder %s", name);
	else if (st.st_uid != geteuid())
		r = pawl_fail(err, PAWL_E_UNSAFE, "the folder %s belongs to uid %u, not to us (uid %u)", name, st.st_uid, geteuid());
	else if (!owner_closed(&st, refuse, st.st_mode & S_IWGRP ? owner_group(geteuid()) : OWNER_NO_GROUP, NULL, fd))
		r = pawl_fail(err, PAWL_E_UNSAFE, "the folder %s has mode %04o: other users get in; chmod %04o %s", name, st.st_mode & 07777u,
			      st.st_mode & 07777u & ~refuse, name);
	else
		r = sync_parent(io, fd, name, err);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	*ret_made = made;
	return 0;
}

int fs_parents(const char *path, struct pawl_error *err)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + (*path == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t n = (size_t)(slash - path);

		if (n >= sizeof(part))
			return pawl_fail(err, PAWL_E_USAGE, "the folder's name is too long");
		memcpy(part, path, n);
		part[n] = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST)
			return pawl_fail_errno(err, "cannot make the folder %s", part);
	}
	return 0;
}

int fs_exists(int dir_fd, const char *name, bool *ret, struct pawl_error *err)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return pawl_fail_errno(err, "cannot look at %s", name);
		*ret = false;
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s is there and is not a regular file", name);
	*ret = true;
	return 0;
}

static int write_all(const struct fs_io *io, int fd, struct str data)
{
	while (data.n > 0) {
		size_t part = io && io->max_write && io->max_write < data.n ? io->max_write : data.n;
		ssize_t n = refused(io) ? -1 : write(fd, data.p, part);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data = (struct str){ data.p + n, data.n - (size_t)n };
	}
	return 0;
}

/* rename(2) that never replaces; link(2) does the same where the file system has no such flag. */
static int rename_new(const struct fs_io *io, int dir_fd, const char *from, const char *to)
{
	if (refused(io))
		return -1;
	if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	return linkat(dir_fd, from, dir_fd, to, 0) == 0 ? unlinkat(dir_fd, from, 0) : -1;
}

int fs_write_new(const struct fs_io *io, int dir_fd, const char *name, struct str data, mode_t mode, bool *ret_made, struct pawl_error *err)
{
	char tmp[128];
	bool there = false;
	int fd, r, n = snprintf(tmp, sizeof(tmp), TEMPORARY, name);

	if (n < 0 || (size_t)n >= sizeof(tmp))
		return pawl_fail(err, PAWL_E_USAGE, "the name %s is too long", name);
	if (refused(io) || (unlinkat(dir_fd, tmp, 0) < 0 && errno != ENOENT))
		return pawl_fail_errno(err, "cannot remove the left-over %s", tmp);
	r = fs_exists(dir_fd, name, &there, err);
	if (r < 0)
		return r;
	if (there) {
		*ret_made = false;
		return fs_sync(io, dir_fd, name, err);
	}
	fd = refused(io) ? -1 : openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return pawl_fail_errno(err, "cannot make %s", tmp);
	if (write_all(io, fd, data) < 0)
		r = pawl_fail_errno(err, "cannot write %s", tmp);
	else if (refused(io) || fchmod(fd, mode) < 0)
		r = pawl_fail_errno(err, "cannot set the mode of %s", tmp);
	else if (refused(io) || fsync(fd) < 0)
		r = pawl_fail_errno(err, "cannot sync %s", tmp);
	if (close(fd) < 0 && r == 0)
		r = pawl_fail_errno(err, "cannot close %s", tmp);
	if (r == 0 && rename_new(io, dir_fd, tmp, name) < 0)
		r = pawl_fail_errno(err, "cannot rename %s to %s", tmp, name);
	if (r < 0) {
		(void)unlinkat(dir_fd, tmp, 0);
		return r;
	}
	r = fs_sync(io, dir_fd, name, err);
	if (r == 0)
		*ret_made = true;
	return r;
}

int fs_read(int at_fd, const char *name, struct buf *out, struct pawl_error *err)
{
	int fd = openat(at_fd, name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r = 0;

	if (fd < 0)
		return pawl_fail_errno(err, "cannot open %s", name);
	if (fstat(fd, &st) < 0)
		r = pawl_fail_errno(err, "cannot look at %s", name);
	else if (!S_ISREG(st.st_mode))
		r = pawl_fail(err, PAWL_E_UNSAFE, "%s is not a regular file", name);
	while (r == 0) {
		char chunk[4096];
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			r = pawl_fail_errno(err, "cannot read %s", name);
		if (n <= 0)
			continue;
		if ((size_t)n > out->max - out->n)
			r = pawl_fail(err, PAWL_E_LIMIT, "%s is larger than %zu bytes", name, out->max);
		else
			buf_add(out, chunk, (size_t)n);
		if (r == 0 && !buf_ok(out))
			r = pawl_fail(err, PAWL_E_NOMEM, "no memory for %s", name);
		explicit_bzero(chunk, sizeof(chunk));
	}
	(void)close(fd);
	return r;
}

int fs_lock(int dir_fd, struct pawl_error *err)
{
	if (flock(dir_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return pawl_fail(err, PAWL_E_BUSY, "another process is at work in this folder");
	return pawl_fail_errno(err, "cannot lock the folder");
}
