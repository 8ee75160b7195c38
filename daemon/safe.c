/* daemon/safe.c - see safe.h. */
#include "daemon/safe.h"

#include "daemon/base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int check_owner_mode(const char *path, const struct stat *st, gid_t own_group, bool parent, struct pawl_error *err)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return pawl_fail(err, PAWL_E_UNSAFE, "%s belongs to uid %u, which could change it (want root or uid %u)", path, (unsigned)st->st_uid,
				 (unsigned)geteuid());
	if (!owner_only(st, own_group, path, -1) && !(parent && (st->st_mode & S_ISVTX)))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s can be written by others (mode %04o); chmod go-w %s", path, (unsigned)(st->st_mode & 07777),
				 path);
	return 0;
}

/* The folders that lead to full, the file itself left out. */
static int check_chain(char *full, gid_t own_group, struct pawl_error *err)
{
	struct stat st;
	char *slash;
	int r = 0;

	while (r == 0 && (slash = strrchr(full, '/'))) {
		slash[slash == full ? 1 : 0] = '\0';
		if (stat(full, &st) < 0)
			r = pawl_fail_errno(err, "%s", full);
		else
			r = check_owner_mode(full, &st, own_group, true, err);
		if (full[1] == '\0')
			break;
	}
	return r;
}

/* As written and as resolved: a link in a folder that others can write to could be turned elsewhere. */
static int check_parents(const char *path, gid_t own_group, struct pawl_error *err)
{
	char *full = realpath(path, NULL), *cwd = NULL, *written = NULL;
	int r = full ? 0 : pawl_fail_errno(err, "%s", path);

	if (r == 0 && path[0] != '/') {
		cwd = getcwd(NULL, 0);
		r = cwd ? 0 : pawl_fail_errno(err, "%s", path);
	}
	if (r == 0 && asprintf(&written, "%s%s%s", cwd ? cwd : "", cwd ? "/" : "", path) < 0) {
		written = NULL;
		r = pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	}
	if (r == 0)
		r = check_chain(written, own_group, err);
	if (r == 0)
		r = check_chain(full, own_group, err);
	free(full);
	free(cwd);
	free(written);
	return r;
}

/* What is there, a link not followed: the last part of a path must be the thing itself, since the confinement names it. */
static int look(const char *path, mode_t kind, const char *what, struct stat *st, struct pawl_error *err)
{
	if (lstat(path, st) < 0 && errno == ENOENT)
		return pawl_fail(err, PAWL_E_UNSAFE, "%s does not exist; `pawl init` makes it", path);
	if (lstat(path, st) < 0)
		return pawl_fail_errno(err, "%s", path);
	if (S_ISLNK(st->st_mode))
		return pawl_fail(err, PAWL_E_UNSAFE, "%s is a symbolic link; name what it leads to", path);
	return (st->st_mode & S_IFMT) == kind ? 0 : pawl_fail(err, PAWL_E_UNSAFE, "%s is not %s", path, what);
}

int safe_file(const char *path, gid_t own_group, struct pawl_error *err)
{
	struct stat st;
	int r = look(path, S_IFREG, "a regular file", &st, err);

	if (r == 0)
		r = check_owner_mode(path, &st, own_group, false, err);
	return r < 0 ? r : check_parents(path, own_group, err);
}

int safe_dir(const char *path, gid_t own_group, struct pawl_error *err)
{
	struct stat st;
	int r = look(path, S_IFDIR, "a folder", &st, err);

	if (r == 0)
		r = check_owner_mode(path, &st, own_group, false, err);
	return r < 0 ? r : check_parents(path, own_group, err);
}

int safe_private_dir(const char *path, gid_t own_group, struct pawl_error *err)
{
	struct stat st;
	int r = look(path, S_IFDIR, "a folder", &st, err);

	if (r < 0)
		return r;
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return pawl_fail(err, PAWL_E_UNSAFE, "%s belongs to uid %u; pawld runs as uid %u", path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & 077)
		return pawl_fail(err, PAWL_E_UNSAFE, "%s is open to others (mode %04o); chmod 700 %s", path, (unsigned)(st.st_mode & 07777), path);
	return check_parents(path, own_group, err);
}

int safe_read(const char *path, size_t max, gid_t own_group, char **ret, size_t *ret_n, struct pawl_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char *text = NULL;
	struct stat st;
	size_t n = 0;
	ssize_t got = 1;
	int r = 0;

	if (fd < 0)
		return pawl_fail_errno(err, "%s", path);
	if (fstat(fd, &st) < 0)
		r = pawl_fail_errno(err, "%s", path);
	else if (!S_ISREG(st.st_mode))
		r = pawl_fail(err, PAWL_E_UNSAFE, "%s is not a regular file", path);
	else
		r = check_owner_mode(path, &st, own_group, false, err);
	if (r == 0 && (st.st_size < 0 || (uint64_t)st.st_size > max))
		r = pawl_fail(err, PAWL_E_POLICY, "%s is larger than %zu bytes", path, max);
	if (r == 0 && !(text = malloc(max + 2)))
		r = pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	while (r == 0 && got > 0 && n <= max) {
		got = read(fd, text + n, max + 1 - n);
		if (got < 0 && errno == EINTR)
			got = 1; /* not the end of the file */
		else if (got < 0)
			r = pawl_fail_errno(err, "%s", path);
		else
			n += (size_t)got;
	}
	(void)close(fd);
	if (r == 0 && n > max)
		r = pawl_fail(err, PAWL_E_POLICY, "%s is larger than %zu bytes", path, max);
	if (r < 0) {
		free(text);
		return r;
	}
	text[n] = '\0';
	*ret = text;
	*ret_n = n;
	return 0;
}

int safe_lock(const char *dir, int *ret_fd, struct pawl_error *err)
{
	char path[1100];
	struct stat st;
	int fd, r;

	(void)snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == ENOENT)
		return pawl_fail(err, PAWL_E_UNSAFE, "%s does not exist; `pawl init` makes it", dir);
	if (fd < 0)
		return pawl_fail_errno(err, "%s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1) { /* not somebody's link to a file of root's */
		(void)close(fd);
		return pawl_fail(err, PAWL_E_UNSAFE, "%s is not a file of its own", path);
	}
	if (geteuid() == 0 && stat(dir, &st) == 0 && fchown(fd, st.st_uid, st.st_gid) < 0) { /* --user: theirs, as the folder is */
		r = pawl_fail_errno(err, "%s", path);
		(void)close(fd);
		return r;
	}
	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
		const struct timespec tenth = { 0, 100000000 };

		if (errno == EWOULDBLOCK && tries < 20) { /* the last pawld may be draining */
			(void)nanosleep(&tenth, NULL);
			continue;
		}
		r = errno == EWOULDBLOCK ? pawl_fail(err, PAWL_E_BUSY, "another pawld uses %s", dir) : pawl_fail_errno(err, "%s", path);
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int safe_pid_file(const char *path, long pid, struct pawl_error *err)
{
	char tmp[1100], text[32];
	int fd, n = snprintf(tmp, sizeof(tmp), "%s.new", path), len = snprintf(text, sizeof(text), "%ld\n", pid);
	bool ok;

	if (n < 0 || (size_t)n >= sizeof(tmp))
		return pawl_fail(err, PAWL_E_USAGE, "%s: path is too long", path);
	(void)unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return pawl_fail_errno(err, "%s", tmp);
	ok = write(fd, text, (size_t)len) == len;
	if (close(fd) < 0 || !ok || rename(tmp, path) < 0)
		return pawl_fail_errno(err, "%s", path);
	return 0;
}

void safe_pid_remove(const char *path, long pid)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0 && strtol(text, NULL, 10) == pid)
		(void)unlink(path);
	(void)close(fd);
}
