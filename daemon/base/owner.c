/* daemon/base/owner.c - see owner.h. Owns nothing. */
#include "daemon/base/owner.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/xattr.h>

gid_t owner_group(uid_t uid)
{
	const struct passwd *pw = uid ? getpwuid(uid) : NULL;
	const struct group *gr = pw ? getgrgid(pw->pw_gid) : NULL;
	gid_t gid = gr ? gr->gr_gid : OWNER_NO_GROUP;
	bool only = gr != NULL;

	for (char *const *who = gr ? gr->gr_mem : NULL; who && *who; who++)
		only = only && strcmp(*who, pw->pw_name) == 0;
	if (!only)
		return OWNER_NO_GROUP;
	setpwent();
	while (only && (pw = getpwent())) /* whose first group it is, no group's list says */
		only = pw->pw_gid != gid || pw->pw_uid == uid;
	endpwent();
	return only ? gid : OWNER_NO_GROUP;
}

/* In a mode, an access list shows as the right of the group. */
static bool has_list(const char *path, int fd)
{
	static const char name[] = "system.posix_acl_access";
	ssize_t n = path ? getxattr(path, name, NULL, 0) : fgetxattr(fd, name, NULL, 0);

	return n >= 0 || (errno != ENODATA && errno != ENOTSUP);
}

bool owner_closed(const struct stat *st, mode_t refuse, gid_t own_group, const char *path, int fd)
{
	mode_t open = st->st_mode & refuse;

	if (open != S_IWGRP || refuse != OWNER_WRITES)
		return open == 0;
	return own_group != OWNER_NO_GROUP && st->st_gid == own_group && !has_list(path, fd);
}

bool owner_only(const struct stat *st, gid_t own_group, const char *path, int fd)
{
	return owner_closed(st, OWNER_WRITES, own_group, path, fd);
}
