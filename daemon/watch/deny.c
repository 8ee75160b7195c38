/* daemon/watch/deny.c - see deny.h. */
#include "daemon/watch/deny.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

int deny_check(const char *paths, size_t bytes, size_t n, struct pawl_error *err)
{
	size_t found = 0;

	if (n > PAWL_MAX_DENY_EXEC)
		return pawl_fail(err, PAWL_E_MALFORMED, "%zu programs are more than %d", n, PAWL_MAX_DENY_EXEC);
	if (bytes > 0 && paths[bytes - 1] != '\0')
		return pawl_fail(err, PAWL_E_MALFORMED, "the last path has no end");
	for (size_t at = 0; at < bytes; found++) {
		size_t len = strlen(paths + at);

		if (paths[at] != '/' || len >= PATH_MAX)
			return pawl_fail(err, PAWL_E_MALFORMED, "path %zu is not absolute, or too long", found);
		at += len + 1;
	}
	if (found != n)
		return pawl_fail(err, PAWL_E_MALFORMED, "%zu paths were promised, %zu came", n, found);
	return 0;
}

int deny_init(struct deny *d, const char *paths, size_t bytes, size_t n, struct pawl_error *err)
{
	*d = (struct deny){ .n = n, .bytes = bytes };
	if (bytes == 0)
		return 0;
	d->paths = malloc(bytes);
	if (!d->paths)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	memcpy(d->paths, paths, bytes);
	return 0;
}

void deny_done(struct deny *d)
{
	free(d->paths);
	*d = (struct deny){ .paths = NULL };
}

static bool deny_has(const struct deny *d, const char *path)
{
	for (size_t at = 0; at < d->bytes; at += strlen(d->paths + at) + 1)
		if (strcmp(d->paths + at, path) == 0)
			return true;
	return false;
}

bool deny_lacks(const struct deny *d, const struct deny *was)
{
	for (size_t at = 0; at < was->bytes; at += strlen(was->paths + at) + 1)
		if (!deny_has(d, was->paths + at))
			return true;
	return false;
}

static uint64_t kernel_dev(unsigned major, unsigned minor)
{
	return (uint64_t)major << 20 | minor;
}

bool deny_mount_dev(const char *line, uint64_t mount, uint64_t *ret)
{
	static const char after[4] = { ' ', ' ', ':', ' ' }; /* id, parent, major, minor */
	unsigned long long n[4];
	char *end;

	for (size_t i = 0; i < PAWL_LEN(n); i++) {
		if (*line < '0' || *line > '9')
			return false;
		n[i] = strtoull(line, &end, 10);
		if (*end != after[i])
			return false;
		line = end + 1;
	}
	if (n[0] != mount || n[2] > UINT32_MAX || n[3] > UINT32_MAX)
		return false;
	*ret = kernel_dev((unsigned)n[2], (unsigned)n[3]);
	return true;
}

/* btrfs tells a device of its own for each subvolume; what the kernel's programs compare is that of the whole, which mountinfo has. */
static bool whole_dev(const char *path, uint64_t *ret)
{
	struct statfs fs;
	struct statx sx;
	char *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f;

	if (statfs(path, &fs) < 0 || fs.f_type != BTRFS_SUPER_MAGIC || statx(AT_FDCWD, path, 0, STATX_MNT_ID, &sx) < 0 || !(sx.stx_mask & STATX_MNT_ID))
		return false;
	f = fopen("/proc/self/mountinfo", "re");
	while (f && !found && getline(&line, &room, f) > 0)
		found = deny_mount_dev(line, sx.stx_mnt_id, ret);
	free(line);
	if (f)
		(void)fclose(f);
	return found;
}

static struct guard_file file_of(const char *path, const struct stat *st)
{
	struct guard_file f = { .dev = kernel_dev(major(st->st_dev), minor(st->st_dev)), .ino = st->st_ino };

	(void)whole_dev(path, &f.dev);
	return f;
}

static const char *base_of(const char *path)
{
	return strrchr(path, '/') + 1; /* absolute: there is one */
}

/* One binary that is many programs, told apart by argv[0] (or [1], as in `busybox nc`). */
static bool is_multi_name(const char *base)
{
	static const char *const names[] = { "busybox", "busybox.static", "toybox", "coreutils", "uutils", "sbase-box", "ubase-box", "box" };

	for (size_t i = 0; i < PAWL_LEN(names); i++)
		if (strcmp(base, names[i]) == 0)
			return true;
	return false;
}

/* A hard link has no other name to ask for: compare with where such binaries are. */
static bool is_multi_link(const struct stat *st)
{
	static const char *const places[] = { "/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static", "/bin/toybox", "/usr/bin/toybox",
					      "/usr/bin/coreutils", "/bin/coreutils" };
	struct stat other;

	if (st->st_nlink < 2)
		return false;
	for (size_t i = 0; i < PAWL_LEN(places); i++)
		if (stat(places[i], &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino)
			return true;
	return false;
}

static struct guard_file look_at(const char *path)
{
	const char *base = base_of(path);
	struct guard_file f = { .ino = 0 };
	char *real;
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return f;
	f = file_of(path, &st);
	real = realpath(path, NULL);
	if (!is_multi_name(base) && strlen(base) < sizeof(f.applet) && ((real && is_multi_name(base_of(real))) || is_multi_link(&st)))
		memcpy(f.applet, base, strlen(base) + 1);
	free(real);
	return f;
}

static size_t look_at_loaders(struct guard_file *ret, size_t max)
{
	static const char *const patterns[] = { "/lib*/ld-linux*.so*", "/lib*/ld-musl-*.so*", "/lib/*/ld-linux*.so*", "/lib/*/ld-*.so", "/usr/lib*/ld-linux*.so*",
						"/usr/lib/*/ld-linux*.so*" };
	size_t n = 0;

	for (size_t i = 0; i < PAWL_LEN(patterns); i++) {
		glob_t g;

		if (glob(patterns[i], GLOB_NOSORT, NULL, &g) != 0)
			continue;
		for (size_t k = 0; k < g.gl_pathc && n < max; k++) {
			struct stat st;
			size_t m = 0;

			if (stat(g.gl_pathv[k], &st) < 0 || !S_ISREG(st.st_mode))
				continue;
			ret[n] = file_of(g.gl_pathv[k], &st);
			while (ret[m].dev != ret[n].dev || ret[m].ino != ret[n].ino)
				m++;
			if (m == n)
				n++;
		}
		globfree(&g);
	}
	return n;
}

static bool same(const struct guard_file *a, const struct guard_file *b)
{
	return a->dev == b->dev && a->ino == b->ino && strcmp(a->applet, b->applet) == 0;
}

static bool is_known(const struct deny *d, const struct guard_file *f)
{
	for (size_t i = 0; i < d->n_last; i++)
		if (same(&d->last[i], f))
			return true;
	return false;
}

size_t deny_look(struct deny *d, struct guard_file ret[static DENY_MAX])
{
	struct guard_file now[DENY_MAX];
	size_t n = 0, fresh = 0;

	if (d->n == 0)
		return 0;
	for (size_t at = 0; at < d->bytes; at += strlen(d->paths + at) + 1)
		now[n++] = look_at(d->paths + at);
	n += look_at_loaders(now + n, DENY_LOADERS);
	for (size_t i = 0; i < n; i++)
		if (now[i].ino && !is_known(d, &now[i]))
			ret[fresh++] = now[i];
	memcpy(d->last, now, n * sizeof(now[0]));
	d->n_last = n;
	return fresh;
}

/* The first bytes of a file. What a name leads to is looked at before it is opened: some devices act when they are, and the tree may own the name. */
static ssize_t peek(const char *path, char two[static 2])
{
	int at = open(path, O_PATH | O_CLOEXEC), fd = -1;
	char again[32];
	struct stat st;
	ssize_t n = -1;

	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", at);
	if (at >= 0 && fstat(at, &st) == 0 && S_ISREG(st.st_mode))
		fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		n = read(fd, two, 2);
		(void)close(fd);
	}
	if (at >= 0)
		(void)close(at);
	return n;
}

const char *deny_script(const struct deny *d)
{
	for (size_t at = 0; at < d->bytes; at += strlen(d->paths + at) + 1) {
		char two[2] = { 0 };
		ssize_t n = peek(d->paths + at, two);

		if (n == 2 && two[0] == '#' && two[1] == '!')
			return d->paths + at;
	}
	return NULL;
}
