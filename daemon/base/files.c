/* daemon/base/files.c - see files.h. Owns each descriptor for one read. Which path may be asked for is the loader's
 * business; what is taken from it is decided here: links are followed (time zones are links), and what they lead to is
 * looked at. */
#include "daemon/base/files.h"

#include "daemon/base/buf.h"
#include "daemon/base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES (64u << 10)

static int check(int fd, gid_t own_group, struct pawl_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return pawl_fail_errno(err, "fstat");
	if (!S_ISREG(st.st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "not a regular file");
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || !owner_only(&st, own_group, NULL, fd))
		return pawl_fail(err, PAWL_E_UNSAFE, "another user owns it or can write it");
	return 0;
}

static int read_all(int fd, char **ret, size_t *ret_n, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(MAX_BYTES + 1);
	ssize_t got = 1;

	while (got > 0) {
		char piece[4096];

		got = read(fd, piece, sizeof(piece));
		if (got < 0 && errno == EINTR) {
			got = 1;
			continue;
		}
		if (got < 0)
			return pawl_fail_errno(err, "read");
		if (b.n + (size_t)got > MAX_BYTES)
			return pawl_fail(err, PAWL_E_LIMIT, "more than %u bytes", MAX_BYTES);
		buf_add(&b, piece, (size_t)got);
	}
	if (!buf_ok(&b))
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	*ret = buf_take(&b, ret_n);
	return *ret ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");
}

static int read_file(void *arg, const char *path, char **ret, size_t *ret_n, struct pawl_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r;

	if (fd < 0)
		return errno == ENOENT ? pawl_fail(err, PAWL_E_SYS, "no such file: %s", path)
				       : pawl_fail_errno(err, "%s", path);
	r = check(fd, (gid_t)(uintptr_t)arg, err);
	if (r == 0)
		r = read_all(fd, ret, ret_n, err);
	(void)close(fd);
	return r;
}

/* ---- is a file below a folder? By what the folders are, not by their names: links and bind mounts have several. ---- */

static int chain_holds(const struct stat *folder, char *path, struct pawl_error *err)
{
	struct stat st;
	char *slash;

	for (;;) {
		if (stat(path, &st) < 0)
			return pawl_fail_errno(err, "%s", path);
		if (st.st_dev == folder->st_dev && st.st_ino == folder->st_ino)
			return 1;
		slash = strrchr(path, '/');
		if (!slash || path[1] == '\0')
			return 0;
		slash[slash == path ? 1 : 0] = '\0';
	}
}

/* The way as written counts too: whoever can write where a link lies can turn it elsewhere. */
static int file_holds(void *arg, const char *folder, const char *file, struct pawl_error *err)
{
	char *real, *cwd = NULL, *written = NULL;
	struct stat st;
	int r;

	(void)arg;
	if (stat(folder, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : pawl_fail_errno(err, "%s", folder);
	real = realpath(file, NULL);
	r = real ? chain_holds(&st, real, err) : pawl_fail_errno(err, "%s", file);
	if (r == 0 && file[0] != '/' && !(cwd = getcwd(NULL, 0)))
		r = pawl_fail_errno(err, "the working folder");
	if (r == 0 && asprintf(&written, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", file) < 0) {
		written = NULL;
		r = pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	if (r == 0)
		r = chain_holds(&st, written, err);
	free(real);
	free(cwd);
	free(written);
	return r;
}

struct policy_files policy_files_system(gid_t own_group)
{
	return (struct policy_files){ .read = read_file, .arg = (void *)(uintptr_t)own_group, .holds = file_holds };
}
