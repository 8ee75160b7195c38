/* daemon/resolve.c - see resolve.h. Paths come from agents: every length is checked, and the number of tries is
 * bounded. O_PATH opens nothing that acts (no FIFO blocks, no device starts). An answer is about the moment it is
 * given; what binds later is the kernel's own filter, not this. */
#include "daemon/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_MISSING 32 /* parts that do not exist: each costs a walk */

static int open_at(int base, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_PATH | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
}

static void fd_done(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

static bool copy(struct str s, char out[static PATH_MAX])
{
	if (s.n == 0 || s.n >= PATH_MAX || memchr(s.p, '\0', s.n))
		return false;
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

/* The part of path behind root, "." for root itself; NULL when it does not begin with root. Byte for byte, so that
 * walking it from root is what the kernel would have done with the whole. */
static const char *behind_root(struct str root, const char *path)
{
	while (root.n > 1 && root.p[root.n - 1] == '/')
		root.n--;
	if (root.n == 0 || strncmp(path, root.p, root.n) != 0)
		return NULL;
	path += root.n;
	if (*path != '\0' && *path != '/' && root.p[root.n - 1] != '/')
		return NULL;
	while (*path == '/')
		path++;
	return *path ? path : ".";
}

/* Where the walk starts, opened into *base, and the path from there. Only root_dir itself may lie behind a mount: it is
 * what the session stated as its ground. */
static const char *starting_point(struct str root, const char *path, int *base)
{
	char text[PATH_MAX];
	const char *rest = path[0] == '/' ? behind_root(root, path) : path;

	if (path[0] == '/' && !rest)
		return path;
	if (!copy(root, text) || text[0] != '/')
		return NULL;
	*base = open_at(AT_FDCWD, text, O_DIRECTORY, 0);
	return *base < 0 ? NULL : rest;
}

/* Where the last part of path[0 .. n) begins; 0 with nothing before it. False: there is none, or it is `..` and what
 * lies above something that does not exist is not known. */
static bool last_part(const char *path, size_t n, size_t *ret_from)
{
	size_t from;

	while (n > 0 && path[n - 1] == '/')
		n--;
	for (from = n; from > 0 && path[from - 1] != '/'; from--)
		;
	*ret_from = from;
	return from < n && !(n - from == 2 && path[from] == '.' && path[from + 1] == '.');
}

/* Opens the deepest part of path that exists; *ret_n: how many bytes of path that is. */
static int open_deepest(int base, const char *path, size_t *ret_n)
{
	char head[PATH_MAX];
	size_t n = strlen(path);

	for (int tries = 0; tries <= MAX_MISSING; tries++) {
		int fd;

		memcpy(head, path, n);
		memcpy(head + n, n ? "" : ".", n ? 1 : 2);
		fd = open_at(base, head, 0, RESOLVE_NO_XDEV);
		if (fd >= 0) {
			*ret_n = n;
			return fd;
		}
		if (errno != ENOENT || !last_part(path, n, &n))
			return -1;
	}
	return -1;
}

/* The name that the kernel has for an open descriptor. */
static bool real_name(int fd, char *out, size_t size, size_t *ret_n)
{
	char link[32];
	struct stat st;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, size - 1);
	if (n <= 0 || (size_t)n >= size - 1 || out[0] != '/')
		return false;
	if (fstat(fd, &st) < 0 || st.st_nlink == 0) /* removed meanwhile: the name ends in " (deleted)" */
		return false;
	*ret_n = (size_t)n;
	return true;
}

/* What is missing is missing, not a link whose target is. */
static bool truly_missing(int fd, struct str part)
{
	char name[NAME_MAX + 1];
	struct stat st;

	if (part.n >= sizeof(name))
		return false;
	memcpy(name, part.p, part.n);
	name[part.n] = '\0';
	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static bool append_missing(int fd, const char *rest, char *out, size_t size, size_t n)
{
	bool first = true;

	while (*rest) {
		struct str part = { rest, strcspn(rest, "/") };

		rest += part.n + strspn(rest + part.n, "/");
		if (part.n == 0 || (part.n == 1 && part.p[0] == '.'))
			continue;
		if (first && !truly_missing(fd, part))
			return false;
		first = false;
		if (part.n > NAME_MAX || part.n + 1 >= size - n)
			return false;
		if (out[n - 1] != '/')
			out[n++] = '/';
		memcpy(out + n, part.p, part.n);
		n += part.n;
	}
	out[n] = '\0';
	return true;
}

int resolve_path(void *arg, struct str root_dir, struct str path, char *out, size_t out_size)
{
	PAWL_CLEANUP(fd_done) int base = -1;
	PAWL_CLEANUP(fd_done) int fd = -1;
	char text[PATH_MAX], real[PATH_MAX];
	const char *from;
	size_t known, n;

	(void)arg;
	if (!copy(path, text))
		return PAWL_E_MALFORMED;
	from = starting_point(root_dir, text, &base);
	if (!from)
		return PAWL_E_SYS;
	fd = open_deepest(base >= 0 ? base : AT_FDCWD, from, &known);
	if (fd < 0 || !real_name(fd, real, sizeof(real), &n) ||
	    !append_missing(fd, from + known, real, sizeof(real), n))
		return PAWL_E_SYS;
	n = strlen(real);
	if (n >= out_size)
		return PAWL_E_LIMIT;
	memcpy(out, real, n + 1);
	return 0;
}

struct resolver resolve_kernel(void)
{
	return (struct resolver){ .resolve = resolve_path };
}
