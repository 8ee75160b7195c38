/* daemon/base/owner.h - who can write to a file. Where every user has a group of its own (useradd makes it, and umask 002 comes with it),
 * what that group may write nobody else may: a checkout of theirs is as safe as it would be under umask 022. */
#ifndef PAWL_OWNER_H
#define PAWL_OWNER_H
#include "pawl/error.h"

#include <sys/stat.h>

#define OWNER_NO_GROUP ((gid_t)-1)
/* The first group of uid, when nobody else is in it by this machine's lists of users and groups. OWNER_NO_GROUP: somebody is, uid is 0, or
 * it cannot be told. Goes through all users, and opens files: for the start, before anything is given up. */
gid_t owner_group(uid_t uid);
#define OWNER_WRITES 022
/* None of the mode bits refuse is open to anybody but the owner and root; of OWNER_WRITES the group's is not where the group is own_group and
 * there is no access list. For the list it is looked at again: by path, or by fd where path is NULL. */
bool owner_closed(const struct stat *st, mode_t refuse, gid_t own_group, const char *path, int fd);
bool owner_only(const struct stat *st, gid_t own_group, const char *path, int fd); /* the same, of OWNER_WRITES */
#endif
