/* hooks/run/landlock.c - see steps.h. Landlock knows only what is allowed, so "everything but" is said by naming what lies beside the
 * exceptions, folder by folder. Even a domain that forbids next to nothing keeps the command from tracing, signalling and looking through
 * (/proc/PID/root) processes outside of it, which is why there is always one. */
#include "hooks/run/steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FS(n) (UINT64_C(1) << (n))
#define FS_WRITE_FILE FS(1)
#define FS_READ_FILE FS(2)
#define FS_REMOVE_DIR FS(4) /* renaming one takes it too */
#define FS_MAKE_BLOCK FS(11)
#define FS_REFER FS(13)	   /* ABI 2 */
#define FS_TRUNCATE FS(14) /* ABI 3 */
/* everything from removing a folder to making a link, and writing */
#define FS_WRITES (FS_WRITE_FILE | FS_REMOVE_DIR | FS(5) | FS(6) | FS(7) | FS(8) | FS(9) | FS(10) | FS_MAKE_BLOCK | FS(12) | FS_REFER | FS_TRUNCATE)
#define FS_OF_FILES (FS(0) | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE)
#define SCOPES UINT64_C(3) /* ABI 6: abstract sockets and signals end at the domain */

struct ruleset_attr { /* newer than our headers */
	uint64_t fs, net, scoped;
};

#define MAX_EXCEPT 256
struct except {
	char *path; /* canonical */
	uint64_t access;
};
struct making {
	int fd;
	uint64_t handled;
	struct except except[MAX_EXCEPT];
	size_t n;
	char path[PATH_MAX]; /* where allow_beside() is */
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static int allow(const struct making *m, const char *path, uint64_t access, struct pawl_error *err)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access & m->handled };
	struct stat st;
	int r = 0;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0 || fstat(rule.parent_fd, &st) < 0)
		r = pawl_fail_errno(err, "%s", path);
	else if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_OF_FILES;
	if (r == 0 && rule.allowed_access && syscall(SYS_landlock_add_rule, m->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		r = pawl_fail_errno(err, "Landlock rule for %s", path);
	if (rule.parent_fd >= 0)
		(void)close(rule.parent_fd);
	return r;
}

/* ---- everything but ---- */

static int add_except(struct making *m, const char *path, uint64_t access, struct pawl_error *err)
{
	char *real = realpath(path, NULL);

	if (!real)
		return errno == ENOMEM ? pawl_fail(err, PAWL_E_NOMEM, "out of memory") : 0; /* not there: nothing to keep from anybody */
	if (m->n == MAX_EXCEPT) {
		free(real);
		return pawl_fail(err, PAWL_E_LIMIT, "more than %d mounts and hidden paths", MAX_EXCEPT);
	}
	m->except[m->n++] = (struct except){ real, access };
	return 0;
}

/* How path lies to the exceptions for any of access: 0 beside all, 1 above one, 2 at or below one. */
static int beside(const struct making *m, const char *path, uint64_t access)
{
	int found = 0;

	for (size_t i = 0; i < m->n; i++) {
		if (!(m->except[i].access & access))
			continue;
		if (path_is_below(path, m->except[i].path))
			return 2;
		if (path_is_below(m->except[i].path, path))
			found = 1;
	}
	return found;
}

/* Allows access to m->path and all below it but the exceptions. A folder above one gets no rule itself, since that would reach down: in it
 * directly there is no such access. As deep as the exceptions lie. */
static int allow_beside(struct making *m, uint64_t access, struct pawl_error *err)
{
	int where = beside(m, m->path, access), r = 0;
	size_t n = strlen(m->path);
	const struct dirent *de;
	struct pawl_error gone;
	DIR *dir;

	if (where == 2)
		return 0;
	if (where == 0) /* what went away meanwhile, or cannot be reached, needs no permission */
		return allow(m, m->path, access, &gone) < 0 && gone.os_errno != ENOENT && gone.os_errno != EACCES ?
			       pawl_fail(err, gone.code, "%s", gone.msg) : 0;
	dir = opendir(m->path);
	if (!dir)
		return errno == ENOENT || errno == EACCES ? 0 : pawl_fail_errno(err, "%s", m->path);
	while (r == 0 && (de = readdir(dir))) {
		size_t add = strlen(de->d_name), at = n == 1 ? 0 : n;

		if (de->d_type == DT_LNK || str_is(str_of(de->d_name), ".") || str_is(str_of(de->d_name), ".."))
			continue; /* where a link leads has a place of its own */
		if (at + 1 + add >= sizeof(m->path)) {
			r = pawl_fail(err, PAWL_E_LIMIT, "a path below %.100s is too long", m->path);
			break;
		}
		m->path[at] = '/';
		memcpy(m->path + at + 1, de->d_name, add + 1);
		r = allow_beside(m, access, err);
		m->path[n] = '\0';
		if (n == 1)
			m->path[0] = '/';
	}
	(void)closedir(dir);
	return r;
}

static int allow_all_beside(struct making *m, uint64_t access, struct pawl_error *err)
{
	(void)snprintf(m->path, sizeof(m->path), "/");
	return allow_beside(m, access, err);
}

/* Below m->path. Taking folders away has exceptions of its own. */
static int allow_writes_beside(struct making *m, struct pawl_error *err)
{
	int r = allow_beside(m, FS_WRITES & ~FS_REMOVE_DIR, err);

	return r < 0 ? r : allow_beside(m, FS_REMOVE_DIR, err);
}

/* ---- what uid 0 is kept from ---- */

static bool of_the_kernel(struct str type)
{
	static const char *const types[] = { "proc", "sysfs", "cgroup", "cgroup2", "bpf", "debugfs", "tracefs", "securityfs", "configfs", "efivarfs",
					     "pstore", "binfmt_misc", "devtmpfs", "selinuxfs", "smackfs", "resctrl", "fusectl" };

	for (size_t i = 0; i < PAWL_LEN(types); i++)
		if (str_is(type, types[i]))
			return true;
	return false;
}

/* Of a line of mountinfo the mount point (its octal escapes undone in place) and the type; false: not such a line. */
static bool mount_line(char *line, char **ret_point, struct str *ret_type)
{
	char *at = line, *out, *point, *dash = strstr(line, " - ");

	for (int field = 0; field < 4 && at; field++)
		at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL;
	if (!at || !dash || dash < at)
		return false;
	point = out = at;
	for (; *at && *at != ' '; at++) {
		if (at[0] == '\\' && at[1] && at[2] && at[3]) {
			*out++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
			at += 3;
		} else {
			*out++ = *at;
		}
	}
	*out = '\0';
	dash += 3;
	*ret_point = point;
	*ret_type = (struct str){ dash, strcspn(dash, " \n") };
	return true;
}

/* Files through which the kernel is told things, wherever they are mounted. /proc is read by everybody, raw devices by nobody. */
static int except_kernel(struct making *m, struct pawl_error *err)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, *point;
	size_t size = 0;
	struct str type;
	int r = f ? 0 : pawl_fail_errno(err, "/proc/self/mountinfo");

	if (r == 0)
		r = add_except(m, "/dev", FS_WRITES | FS_READ_FILE, err);
	while (r == 0 && getline(&line, &size, f) > 0)
		if (mount_line(line, &point, &type) && of_the_kernel(type) && beside(m, point, FS_WRITE_FILE) != 2)
			r = add_except(m, point, FS_WRITES | (str_is(type, "devtmpfs") ? FS_READ_FILE : 0), err);
	free(line);
	if (f)
		(void)fclose(f);
	return r;
}

static int allow_devices(const struct making *m, bool shm, struct pawl_error *err)
{
	static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/urandom", "/dev/random" };
	struct pawl_error gone;

	for (size_t i = 0; i < PAWL_LEN(devices); i++)
		(void)allow(m, devices[i], FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE, &gone); /* one that is not here is not needed */
	return shm && access("/dev/shm", F_OK) == 0 ? allow(m, "/dev/shm", FS_WRITES | FS_READ_FILE, err) : 0;
}

/* ---- the ruleset ---- */

static int allow_writes(struct making *m, const char *path, bool beside_too, struct pawl_error *err)
{
	struct pawl_error why = { .code = PAWL_OK };
	char *real = realpath(path, NULL);
	int r = real ? 0 : pawl_fail_errno(&why, "%s", path);

	if (r == 0 && beside_too) { /* a hidden path, or the kernel's, may lie below */
		(void)snprintf(m->path, sizeof(m->path), "%s", real);
		r = allow_writes_beside(m, &why);
	} else if (r == 0) {
		r = allow(m, real, FS_WRITES | FS_READ_FILE, &why);
	}
	free(real);
	return r < 0 ? pawl_fail(err, why.code, "writes_under: %.200s", why.msg) : 0;
}

static int fill(struct making *m, const struct landlock_plan *plan, struct pawl_error *err)
{
	bool writes_beside = !plan->limited && (plan->root || plan->shut);
	int r = 0;

	/* what mounts hide cannot be reached, but a folder above could be moved away and another put in its place for the next pawld */
	for (size_t i = 0; (plan->root || plan->shut) && i < plan->hide.n && r == 0; i++)
		r = add_except(m, plan->hide.path[i], plan->shut ? FS_WRITES | FS_READ_FILE : FS_REMOVE_DIR, err);
	if (plan->root && r == 0)
		r = except_kernel(m, err);
	for (size_t i = 0; plan->limited && i < plan->writes.n && r == 0; i++)
		r = allow_writes(m, plan->writes.path[i], plan->root || plan->shut, err);
	if (r == 0 && m->handled & FS_READ_FILE)
		r = allow_all_beside(m, FS_READ_FILE, err);
	if (r == 0 && writes_beside) {
		(void)snprintf(m->path, sizeof(m->path), "/");
		r = allow_writes_beside(m, err);
	}
	if (r == 0 && (plan->limited || plan->root))
		r = allow_devices(m, plan->root && !plan->limited, err);
	if (r == 0 && !(m->handled & FS_WRITE_FILE)) /* unsaid, it would be forbidden */
		r = allow(m, "/", FS_REFER, err);
	return r;
}

int landlock_make(const struct landlock_plan *plan, int *ret, uint32_t *ret_partial, struct pawl_error *err)
{
	struct ruleset_attr attr = { .fs = FS_MAKE_BLOCK };
	struct making *m;
	int abi = landlock_abi(), r;

	/* ABI 1 forbids every rename between folders, so it is for those who are limited anyway */
	if (abi < 1 || (abi < 2 && !plan->limited && !plan->root)) {
		*ret_partial |= LAUNCH_NO_LANDLOCK | LAUNCH_NO_SCOPE;
		*ret = -1;
		return 0;
	}
	attr.fs |= FS_REFER | (plan->limited || plan->root || plan->shut ? FS_WRITES : 0) | (plan->root || plan->shut ? FS_READ_FILE : 0);
	attr.fs &= ~((abi < 2 ? FS_REFER : 0) | (abi < 3 ? FS_TRUNCATE : 0));
	attr.scoped = abi >= 6 ? SCOPES : 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	m->handled = attr.fs;
	m->fd = (int)syscall(SYS_landlock_create_ruleset, &attr, abi >= 6 ? sizeof(attr) : abi >= 4 ? 16 : 8, 0);
	r = m->fd < 0 ? pawl_fail_errno(err, "no Landlock ruleset") : fill(m, plan, err);
	if (r == 0) {
		*ret = m->fd;
		*ret_partial |= abi < 6 ? LAUNCH_NO_SCOPE : 0;
	} else if (m->fd >= 0) {
		(void)close(m->fd);
	}
	for (size_t i = 0; i < m->n; i++)
		free(m->except[i].path);
	free(m);
	return r;
}

int landlock_enter(int ruleset, struct pawl_error *err)
{
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return pawl_fail_errno(err, "Landlock");
	return 0;
}
