/* hooks/run/hide.c - see steps.h. What the command must not see gets something empty mounted over it, in a mount namespace that only the
 * tree has. Landlock alone would not do: connect(2) to a socket by its path is not seen by it. Undoing a mount takes capabilities, which the
 * later steps take away, and a process outside is not looked through (/proc/PID/root) by one in a Landlock domain. */
#include "hooks/run/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
/* <sys/mount.h> and <linux/mount.h> cannot both be included */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
#ifndef MS_SLAVE
#define MS_SLAVE (1 << 19)
#define MS_REC 16384
#define MS_BIND 4096
#define MS_REMOUNT 32
#define MS_RDONLY 1
#define MS_NOSUID 2
#define MS_NODEV 4
#define MS_NOEXEC 8
#endif
#define SHUT (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* An owner can give himself the right that is missing, and so can the owner of a folder above. */
static bool within_reach(const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return true;
	for (size_t i = 1; i <= n; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (stat(part, &st) == 0 && st.st_uid == geteuid())
			return true;
	}
	return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ||
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

static bool any_within_reach(const struct launch_paths *hide)
{
	for (size_t i = 0; i < hide->n; i++)
		if (within_reach(hide->path[i]))
			return true;
	return false;
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		(void)close(fd);
	return n == (ssize_t)strlen(text);
}

/* A user namespace in which we are who we are, and everybody else looks like nobody: all that a plain user needs to mount. Once it is made
 * there is no way back, so a map that cannot be written is an error. */
static int own_userns(uid_t uid, gid_t gid, struct pawl_error *err)
{
	char map[64];

	if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT)
		return pawl_fail_errno(err, "setgroups of the user namespace");
	(void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	if (!write_file("/proc/self/uid_map", map))
		return pawl_fail_errno(err, "uid_map of the user namespace");
	(void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	if (!write_file("/proc/self/gid_map", map))
		return pawl_fail_errno(err, "gid_map of the user namespace");
	return 0;
}

static int cover(const char *path, struct pawl_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
			return 0; /* nothing is there, or not for us */
		return pawl_fail_errno(err, "cannot look at %s", path);
	}
	if (S_ISDIR(st.st_mode)) {
		if (mount("pawl", path, "tmpfs", SHUT, "size=4k,mode=0555") < 0)
			return pawl_fail_errno(err, "cannot hide %s", path);
		return 0;
	}
	/* a device where devices do not work: opening it is EACCES, connecting ECONNREFUSED */
	if (mount("/dev/null", path, NULL, MS_BIND, NULL) < 0 || mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | SHUT, NULL) < 0)
		return pawl_fail_errno(err, "cannot hide %s", path);
	return 0;
}

/* ---- the same files under another name: a file system that is mounted, whole or in part, in a second place ---- */

struct mounted {
	char dev[24]; /* major:minor */
	char root[PATH_MAX], point[PATH_MAX];
};

static void plain(char *text) /* undoes the octal escapes of mountinfo */
{
	char *out = text;

	for (const char *at = text; *at; at++) {
		if (at[0] == '\\' && at[1] && at[2] && at[3]) {
			*out++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
			at += 3;
		} else {
			*out++ = *at;
		}
	}
	*out = '\0';
}

static bool take_word(char **save, char *ret, size_t room)
{
	const char *word = strtok_r(NULL, " ", save);
	size_t n = word ? strlen(word) : 0;

	if (!word || n >= room)
		return false;
	memcpy(ret, word, n + 1);
	return true;
}

/* A line is "id parent dev root point ..."; one that does not fit is none of ours. */
static bool take_line(char *line, struct mounted *ret)
{
	char *save = NULL;

	if (!strtok_r(line, " ", &save) || !strtok_r(NULL, " ", &save) || !take_word(&save, ret->dev, sizeof(ret->dev)) ||
	    !take_word(&save, ret->root, sizeof(ret->root)) || !take_word(&save, ret->point, sizeof(ret->point)))
		return false;
	plain(ret->root);
	plain(ret->point);
	return true;
}

static bool next_mount(FILE *f, struct mounted *ret)
{
	char *line = NULL;
	size_t size = 0;
	bool got = false;

	while (!got && getline(&line, &size, f) > 0)
		got = take_line(line, ret);
	free(line);
	return got;
}

/* What of path lies below top, which it is below. */
static const char *rest_of(const char *path, const char *top)
{
	return strcmp(top, "/") == 0 ? path : path + strlen(top);
}

/* path's file system, and its name in there. */
static bool find_mount(FILE *f, const char *path, struct mounted *ret, char inside[static PATH_MAX])
{
	struct mounted m;
	bool found = false;

	rewind(f);
	while (next_mount(f, &m)) {
		if (!path_is_below(path, m.point) || (found && strlen(m.point) < strlen(ret->point)))
			continue;
		*ret = m;
		found = true;
	}
	return found && snprintf(inside, PATH_MAX, "%s%s", strcmp(ret->root, "/") == 0 ? "" : ret->root, rest_of(path, ret->point)) < PATH_MAX;
}

static int cover_elsewhere(FILE *f, const char *path, struct pawl_error *err)
{
	char inside[PATH_MAX], other[2 * PATH_MAX];
	struct mounted at, m;
	struct stat st, same;
	int r = 0;

	if (stat(path, &st) < 0 || !find_mount(f, path, &at, inside))
		return 0;
	rewind(f);
	while (r == 0 && next_mount(f, &m)) {
		if (strcmp(m.dev, at.dev) != 0)
			continue;
		if (path_is_below(inside, m.root)) /* all of it is there */
			(void)snprintf(other, sizeof(other), "%s%s", strcmp(m.point, "/") == 0 ? "" : m.point, rest_of(inside, m.root));
		else if (path_is_below(m.root, inside)) /* something in it is */
			(void)snprintf(other, sizeof(other), "%s", m.point);
		else
			continue;
		if (!path_is_below(other, path) && stat(other, &same) == 0 && same.st_dev == st.st_dev)
			r = cover(other, err);
	}
	return r;
}

static int cover_others(const struct launch_paths *hide, struct pawl_error *err)
{
	FILE *f = fopen("/proc/self/mountinfo", "re"); /* read anew from its start for each */
	int r = 0;

	if (!f)
		return errno == ENOENT ? 0 : pawl_fail_errno(err, "/proc/self/mountinfo");
	for (size_t i = 0; i < hide->n && r == 0; i++)
		r = cover_elsewhere(f, hide->path[i], err);
	(void)fclose(f);
	return r;
}

/* The folder we stand in is the one from before the mounts: what lies below it would stay open to us. */
static int enter_again(const char *cwd, struct pawl_error *err)
{
	if (chdir(cwd[0] == '/' ? cwd : "/") == 0)
		return 0;
	if (errno == EACCES)
		return pawl_fail_errno(err, "start it elsewhere: this user cannot enter again the folder that this was started in, %.160s", cwd);
	return pawl_fail_errno(err, "the folder that this was started in, %.160s, is one of those hidden from the command", cwd);
}

/* In a chroot "/" need not be a mount, and only a mount can be taken out. The one that it lies in is below the top of the namespace: a process
 * whose root is beside where it stands gets there by "..". Then back into the chroot. */
static int slave_all(void)
{
	struct stat here = { 0 }, above = { 0 };
	int root, r;

	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = root < 0 || fchdir(root) < 0 || chroot("/proc") < 0 || stat(".", &here) < 0 ? -1 : 0;
	while (r == 0 && (r = chdir("..") < 0 || stat(".", &above) < 0 ? -1 : 0) == 0 &&
	       (above.st_dev != here.st_dev || above.st_ino != here.st_ino))
		here = above;
	if (r == 0)
		r = mount(NULL, ".", NULL, MS_REC | MS_SLAVE, NULL) < 0 || fchdir(root) < 0 || chroot(".") < 0 ? -1 : 0;
	if (root >= 0)
		(void)close(root);
	return r;
}

static int cover_all(const struct launch_paths *hide, bool root, struct pawl_error *err)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	char cwd[PATH_MAX] = "";
	int r = 0;

	if (!getcwd(cwd, sizeof(cwd)))
		cwd[0] = '\0';
	if (slave_all() < 0)
		return pawl_fail_errno(err, "cannot take the mounts out of those of the system");
	if (root) /* cgroups, and bpffs where it is below; an old kernel has Landlock alone for that */
		(void)syscall(SYS_mount_setattr, AT_FDCWD, "/sys", AT_RECURSIVE, &ro, sizeof(ro));
	r = cover_others(hide, err);
	for (size_t i = 0; i < hide->n && r == 0; i++)
		r = cover(hide->path[i], err);
	return r < 0 ? r : enter_again(cwd, err);
}

/* A user namespace can often be made in which nothing may be done (AppArmor on Ubuntu: not even the map written), and there is no way back out
 * of it: a process that is thrown away finds out. */
static bool userns_works(uid_t uid, gid_t gid)
{
	struct pawl_error err;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || own_userns(uid, gid, &err) < 0 || slave_all() < 0);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && status == 0;
}

int hide_paths(const struct launch_paths *hide, bool *ret_userns, uint32_t *ret_partial, struct pawl_error *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	bool userns = false;
	int r = 0;

	if (uid != 0 && !any_within_reach(hide))
		return 0;
	if (uid != 0 || unshare(CLONE_NEWNS) < 0) {
		if (!userns_works(uid, gid) || unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
			*ret_partial |= any_within_reach(hide) ? LAUNCH_NO_HIDE : 0;
			return 0;
		}
		userns = true;
		r = own_userns(uid, gid, err);
	}
	if (r == 0)
		r = cover_all(hide, uid == 0 && !userns, err);
	if (r == 0)
		*ret_userns = userns;
	return r;
}
