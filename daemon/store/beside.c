/* daemon/store/beside.c - see beside.h. SQLite opens the journals beside a database as they are: a named pipe in their place would hold up the
 * start for ever, and no signal would end it. Owns nothing. */
#include "daemon/store/beside.h"

#include "pawl/types.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

int beside_check(const char *path, struct pawl_error *err)
{
	static const char *const suffixes[] = { "-journal", "-wal", "-shm" };
	char name[4096];
	struct stat st;

	for (size_t i = 0; i < PAWL_LEN(suffixes); i++) {
		if ((size_t)snprintf(name, sizeof(name), "%s%s", path, suffixes[i]) >= sizeof(name))
			return pawl_fail(err, PAWL_E_LIMIT, "%s: the path is too long", path);
		if (lstat(name, &st) == 0) {
			if (!S_ISREG(st.st_mode))
				return pawl_fail(err, PAWL_E_UNSAFE, "%s: not a regular file", name);
		} else if (errno != ENOENT) {
			return pawl_fail_errno(err, "%s", name);
		}
	}
	return 0;
}
