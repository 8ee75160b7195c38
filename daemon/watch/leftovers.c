/* daemon/watch/leftovers.c - see leftovers.h. */
#include "daemon/watch/leftovers.h"

#include "daemon/base/oplog.h"
#include "daemon/watch/cgroup.h"
#include "daemon/watch/guard.h"
#include "daemon/watch/pins.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_PREFIX "lock-"
#define TRIES 16
#define CLEAR_MOST 64 /* in one start */

int leftovers_begin(void)
{
	for (int i = 0; i < TRIES && geteuid() == 0; i++) {
		struct stat held, named;
		int fd;

		if (pins_run_folder(NULL) < 0)
			return -1;
		fd = open(WATCH_RUN, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue; /* the last one's end took it away meanwhile */
		if (flock(fd, LOCK_EX) == 0 && fstat(fd, &held) == 0 && stat(WATCH_RUN, &named) == 0 && held.st_ino == named.st_ino)
			return fd;
		(void)close(fd);
	}
	return -1;
}

void leftovers_end(int fd)
{
	(void)rmdir(WATCH_RUN); /* when this was the last */
	if (fd >= 0)
		(void)close(fd);
}

static void lock_path(const char *instance, char ret[static 128])
{
	(void)snprintf(ret, 128, WATCH_RUN "/" LOCK_PREFIX "%.64s", instance);
}

/* The lock, when nobody has it. */
static int try_lock(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		(void)close(fd);
		fd = -1;
	}
	return fd;
}

int leftovers_live(const char *instance)
{
	char path[128];

	lock_path(instance, path);
	return try_lock(path);
}

void leftovers_dead(const char *instance)
{
	char path[128];

	lock_path(instance, path);
	(void)unlink(path);
}

static bool anybody_lives(struct guard *g)
{
	uint64_t *ids = calloc(PAWL_MAX_TREES, sizeof(*ids));
	struct guard_member one;
	size_t n = ids ? guard_trees(g, ids, PAWL_MAX_TREES) : 1, members;
	bool lives = !ids;

	for (size_t i = 0; ids && i < n && !lives; i++)
		lives = guard_members(g, ids[i], &one, 1, &members, NULL) < 0 || members > 0;
	free(ids);
	return lives;
}

/* true: nothing of it is left. */
static bool clear_one(const char *instance, const struct cgroup_mounts *mounts)
{
	struct watch_probes rows = { .tier = 'D' };
	struct guard_options opt = { .pins = NULL };
	struct guard *g = NULL;
	struct cgroups all;
	struct pins pins;
	char path[128];
	bool lives, gone;

	pins_open(instance, &pins);
	if (!pins.dir[0])
		return false;
	opt.pins = pins.dir;
	if (guard_open(&opt, &rows, &g, NULL) < 0)
		return false;
	lives = anybody_lives(g);
	if (!lives)
		guard_unpin(g);
	guard_close(g);
	if (lives)
		return false;
	gone = pins_remove(&pins);
	cgroups_open(mounts, instance, &all);
	gone = cgroups_clear(&all) && gone; /* one with somebody in it stays, and is looked at again by the next start */
	(void)snprintf(path, sizeof(path), WATCH_RUN "/trees-%.64s", instance);
	(void)rmdir(path); /* an end that was never noted stays for its pawld */
	return gone;
}

void leftovers_clear(const char *instance, const struct cgroup_mounts *mounts)
{
	DIR *d = opendir(WATCH_RUN);
	const struct dirent *e;
	int cleared = 0;

	while (d && cleared < CLEAR_MOST && (e = readdir(d))) {
		const char *name = e->d_name + sizeof(LOCK_PREFIX) - 1;
		char path[128];
		int fd;

		if (strncmp(e->d_name, LOCK_PREFIX, sizeof(LOCK_PREFIX) - 1) != 0 || strlen(name) >= CGROUP_INSTANCE || strcmp(name, instance) == 0)
			continue;
		lock_path(name, path);
		fd = try_lock(path);
		if (fd < 0)
			continue; /* it lives */
		if (clear_one(name, mounts)) {
			(void)unlink(path);
			cleared++;
		}
		(void)close(fd);
	}
	if (d)
		(void)closedir(d);
	if (cleared > 0)
		oplog(OPLOG_INFO, "took away what %d killed watchers had left, which held nobody", cleared);
}
