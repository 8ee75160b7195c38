/* daemon/watch/cgroup.c - see cgroup.h: where the hierarchies are, and this daemon's folders in them. */
#include "daemon/watch/cgroup.h"

#include "daemon/watch/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOUNTINFO_MAX (1u << 20)

static const char *const controller[CGROUP_KINDS] = { "", "memory", "pids" };

/* ---- /proc/self/mountinfo: id parent dev root mountpoint options… - type source superoptions ---- */

struct mount_line {
	char *root, *point, *type, *options;
};

/* \040 and the like, in place. */
static void unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*out++ = *s;
		}
	}
	*out = '\0';
}

/* Cuts a line up; false when it is not one. */
static bool cut(char *line, struct mount_line *ret)
{
	char *word[64], *at = NULL;
	size_t n = 0, dash;

	for (char *w = strtok_r(line, " ", &at); w && n < PAWL_LEN(word); w = strtok_r(NULL, " ", &at))
		word[n++] = w;
	for (dash = 6; dash < n && strcmp(word[dash], "-") != 0;)
		dash++;
	if (dash + 3 >= n)
		return false;
	*ret = (struct mount_line){ word[3], word[4], word[dash + 1], word[dash + 3] };
	unescape(ret->root);
	unescape(ret->point);
	return true;
}

static bool lists(const char *list, char between, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p; p = strchr(p, between)) {
		if (*p == between)
			p++;
		if (strncmp(p, word, n) == 0 && (p[n] == '\0' || p[n] == between || p[n] == '\n'))
			return true;
	}
	return false;
}

/* This process's path in a hierarchy: v2 is the line "0::PATH", v1 "N:controllers:PATH". */
static bool own_path(const char *self_cgroup, const char *want, char *ret, size_t size)
{
	for (const char *line = self_cgroup; line && *line;) {
		const char *end = strchr(line, '\n'), *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		size_t n = end ? (size_t)(end - line) : strlen(line);
		char list[128];

		if (path && path < line + n && (size_t)(path - names - 1) < sizeof(list)) {
			memcpy(list, names + 1, (size_t)(path - names - 1));
			list[path - names - 1] = '\0';
			if (want[0] ? lists(list, ',', want) : list[0] == '\0') {
				size_t m = (size_t)(line + n - path - 1);

				if (m >= size)
					return false;
				memcpy(ret, path + 1, m);
				ret[m] = '\0';
				return true;
			}
		}
		line = end ? end + 1 : NULL;
	}
	return false;
}

/* point + (path without the part that the mount does not show). */
static bool join(const struct mount_line *m, const char *path, char ret[static CGROUP_PATH])
{
	size_t skip = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
	int n;

	if (skip && (strncmp(path, m->root, skip) != 0 || (path[skip] && path[skip] != '/')))
		path = "", skip = 0; /* not below what is mounted: the mount's own root is the nearest that can be had */
	if (strstr(path, "/../") || strcmp(path, "/..") == 0)
		path = "", skip = 0;
	n = snprintf(ret, CGROUP_PATH, "%s%s", m->point, strcmp(path + skip, "/") == 0 ? "" : path + skip);
	if (n < 0 || n >= CGROUP_PATH)
		ret[0] = '\0';
	return ret[0] != '\0';
}

static void take_mount(const struct mount_line *m, const char *self_cgroup, struct cgroup_mounts *found)
{
	char path[CGROUP_PATH];

	if (strcmp(m->type, "cgroup2") == 0 && !found->parent[CGROUP_TREE][0]) {
		const char *top = strcmp(m->root, "/") == 0 ? "/" : m->root;

		/* at the top and not below ourselves: a cgroup with processes in it gives its children no controllers, and what is watched
		 * must not end with a supervisor's cgroup of pawld */
		if (join(m, top, found->parent[CGROUP_TREE]))
			found->v2[CGROUP_TREE] = true;
		if (own_path(self_cgroup, "", path, sizeof(path)))
			(void)join(m, path, found->own);
	} else if (strcmp(m->type, "cgroup") == 0) {
		/* below ourselves: a limit that somebody set on us goes on for what we start */
		for (int k = CGROUP_MEMORY; k < CGROUP_KINDS; k++)
			if (!found->parent[k][0] && lists(m->options, ',', controller[k]) &&
			    own_path(self_cgroup, controller[k], path, sizeof(path)))
				(void)join(m, path, found->parent[k]);
	}
}

int cgroup_mounts_parse(const char *mountinfo, const char *self_cgroup, struct cgroup_mounts *ret, struct pawl_error *err)
{
	struct cgroup_mounts found = { .v2 = { false } };
	char *text = strdup(mountinfo), *at = NULL;

	if (!text)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		struct mount_line m;

		if (cut(line, &m))
			take_mount(&m, self_cgroup, &found);
	}
	free(text);
	*ret = found;
	return 0;
}

int cgroup_mounts_read(struct cgroup_mounts *ret, struct pawl_error *err)
{
	char *mounts = malloc(MOUNTINFO_MAX), *self = malloc(MOUNTINFO_MAX);
	int r = mounts && self ? 0 : pawl_fail(err, PAWL_E_NOMEM, "out of memory");

	if (r == 0 && (small_read("/proc/self/mountinfo", mounts, MOUNTINFO_MAX) < 0 || small_read("/proc/self/cgroup", self, MOUNTINFO_MAX) < 0))
		r = pawl_fail_errno(err, "cannot read /proc/self/mountinfo and cgroup");
	if (r == 0)
		r = cgroup_mounts_parse(mounts, self, ret, err);
	free(mounts);
	free(self);
	return r;
}

/* ---- this daemon's folders ---- */

PAWL_PRINTF(3, 4) static void say(struct cgroups *all, int kind, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(all->why[kind], sizeof(all->why[kind]), fmt, ap);
	va_end(ap);
}

static bool make_folder(struct cgroups *all, int kind, const char *parent, const char *instance)
{
	char path[CGROUP_PATH];
	int n = snprintf(path, sizeof(path), "%s/pawl.%s", parent, instance);

	if (n < 0 || (size_t)n + 48 >= sizeof(path)) { /* a tree's folder and a file's name have to follow */
		say(all, kind, "the path is too long: %.60s…", parent);
		all->os_errno[kind] = ENAMETOOLONG;
		return false;
	}
	if (mkdir(path, 0755) < 0 && errno != EEXIST) {
		all->os_errno[kind] = errno;
		say(all, kind, "cannot make %.70s: %s", path, strerror(errno));
		return false;
	}
	memcpy(all->dir[kind], path, (size_t)n + 1);
	all->os_errno[kind] = 0;
	return true;
}

/* v2: a controller has to be switched on in the top's subtree_control and then in ours. */
static bool v2_controller(struct cgroups *all, const char *parent, int kind)
{
	char have[256], path[CGROUP_PATH + 32], plus[16];
	bool was_on;

	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", parent);
	if (small_read(path, have, sizeof(have)) < 0 || !lists(have, ' ', controller[kind])) {
		say(all, kind, "cgroup v2 has no controller %s here", controller[kind]);
		all->os_errno[kind] = ENOENT;
		return false;
	}
	(void)snprintf(plus, sizeof(plus), "+%s", controller[kind]);
	(void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", parent);
	was_on = small_read(path, have, sizeof(have)) >= 0 && lists(have, ' ', controller[kind]);
	if (was_on || small_write(path, plus) == 0) {
		if (!was_on)
			memcpy(all->switched[kind], path, sizeof(path));
		(void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", all->dir[CGROUP_TREE]);
		if (small_write(path, plus) == 0)
			return true;
	}
	all->os_errno[kind] = errno;
	say(all, kind, "cannot switch %s on in %.60s: %s", controller[kind], path, strerror(errno));
	return false;
}

static void open_tree(const struct cgroup_mounts *from, const char *instance, struct cgroups *all, const char **ret_parent)
{
	*ret_parent = from->parent[CGROUP_TREE];
	if (!from->parent[CGROUP_TREE][0]) {
		say(all, CGROUP_TREE, "cgroup v2 is not mounted, as far as /proc says");
		all->os_errno[CGROUP_TREE] = ENOENT;
		return;
	}
	if (!make_folder(all, CGROUP_TREE, from->parent[CGROUP_TREE], instance)) {
		if (!from->own[0] || strcmp(from->own, from->parent[CGROUP_TREE]) == 0 || !make_folder(all, CGROUP_TREE, from->own, instance))
			return;
		*ret_parent = from->own;
	}
	all->v2[CGROUP_TREE] = true;
	say(all, CGROUP_TREE, "%.110s", all->dir[CGROUP_TREE]);
}

static void open_controller(const struct cgroup_mounts *from, const char *v2_parent, const char *instance, int kind, struct cgroups *all)
{
	if (all->v2[CGROUP_TREE] && v2_controller(all, v2_parent, kind)) {
		memcpy(all->dir[kind], all->dir[CGROUP_TREE], CGROUP_PATH);
		all->v2[kind] = true;
		all->os_errno[kind] = 0;
		say(all, kind, "cgroup v2");
	} else if (from->parent[kind][0]) { /* v1's, where v2's is not to be had */
		if (make_folder(all, kind, from->parent[kind], instance))
			say(all, kind, "cgroup v1, %.100s", all->dir[kind]);
	} else if (!all->why[kind][0]) {
		say(all, kind, "no %s controller: cgroup v2 cannot be used and v1 is not mounted", controller[kind]);
		all->os_errno[kind] = ENOENT;
	}
}

void cgroups_open(const struct cgroup_mounts *from, const char *instance, struct cgroups *ret)
{
	struct cgroups all = { .v2 = { false } };
	const char *parent;

	open_tree(from, instance, &all, &parent);
	for (int k = CGROUP_MEMORY; k < CGROUP_KINDS; k++)
		open_controller(from, parent, instance, k, &all);
	*ret = all;
}

void cgroups_remove(struct cgroups *all)
{
	for (int k = 0; k < CGROUP_KINDS; k++)
		if (all->dir[k][0] && (k == CGROUP_TREE || !all->v2[k]))
			(void)rmdir(all->dir[k]); /* one with a tree in it stays */
	for (int k = CGROUP_MEMORY; k < CGROUP_KINDS; k++) {
		char minus[16];

		(void)snprintf(minus, sizeof(minus), "-%s", controller[k]);
		if (all->switched[k][0])
			(void)small_write(all->switched[k], minus); /* refused while somebody else has a use for it */
	}
	memset(all->dir, 0, sizeof(all->dir));
}

bool cgroup_can_kill(const struct cgroups *all)
{
	char path[CGROUP_PATH + 32];

	(void)snprintf(path, sizeof(path), "%s/cgroup.kill", all->dir[CGROUP_TREE]);
	return all->dir[CGROUP_TREE][0] && access(path, W_OK) == 0;
}
