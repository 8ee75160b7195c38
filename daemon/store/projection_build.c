/* daemon/store/projection_build.c - all rows anew, under another name, which then takes the old file's place: whole, or not at all.
 * While it is built nothing of it is worth a sync; at the end it is synced once. */
#include "daemon/store/projection_int.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_new(struct projection *p, const char *path, struct pawl_error *err)
{
	char name[PROJECTION_PATH];
	int r = projection_lock(path, &p->lock, err);

	if (r == 0)
		r = projection_path(path, PROJECTION_NEW, name, err);
	if (r < 0)
		return r;
	p->build = true;
	r = projection_unlink(name, err); /* what one that was killed left */
	if (r == 0)
		r = projection_prepare(name, err);
	if (r == 0)
		r = projection_connect(p, name, SQLITE_OPEN_READWRITE, err);
	if (r == 0)
		r = projection_run(p, "PRAGMA locking_mode=EXCLUSIVE;PRAGMA journal_mode=MEMORY;PRAGMA synchronous=OFF;PRAGMA cache_size=-65536", "set-up",
				   err);
	if (r == 0)
		r = projection_fill(p, err);
	return r < 0 ? r : projection_statements(p, err);
}

int projection_build(const char *path, struct projection **ret, struct pawl_error *err)
{
	return projection_open_with(open_new, path, ret, err);
}

static int sync_path(const char *path, int flags, struct pawl_error *err)
{
	int fd = open(path, flags | O_CLOEXEC), r = 0;

	if (fd < 0 || fsync(fd) != 0)
		r = pawl_fail_errno(err, "projection: sync of %s", path);
	if (fd >= 0)
		(void)close(fd);
	return r;
}

static int sync_folder(const char *path, struct pawl_error *err)
{
	char dir[PROJECTION_PATH];
	char *slash;

	(void)snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash)
		return sync_path(".", O_RDONLY | O_DIRECTORY, err);
	slash[slash == dir] = '\0';
	return sync_path(dir, O_RDONLY | O_DIRECTORY, err);
}

/* The old file becomes one file again, without WAL: a WAL that stayed behind would be taken for the new file's. That needs everybody else
 * gone, and it leaves the old file whole. */
static int fold(struct projection *p, struct pawl_error *err)
{
	struct stat st;
	int r;

	if (lstat(p->path, &st) != 0)
		return projection_unlink(p->path, err); /* what lay beside one that is gone */
	r = projection_connect(p, p->path, SQLITE_OPEN_READWRITE, err);
	if (r == 0)
		r = projection_run(p, "PRAGMA journal_mode=DELETE", "open for its last time", err);
	projection_disconnect(p);
	if (r == PAWL_E_BUSY)
		return pawl_fail(err, PAWL_E_BUSY, "projection %s: somebody has it open (a sqlite3 shell?)", p->file);
	return r == PAWL_E_MALFORMED ? projection_unlink(p->path, err) : r; /* there is nothing to keep */
}

int projection_install(struct projection *p, struct pawl_error *err)
{
	char name[PROJECTION_PATH];
	int r = projection_path(p->path, PROJECTION_NEW, name, err);

	projection_disconnect(p);
	if (r == 0)
		r = sync_path(name, O_RDWR, err);
	if (r == 0)
		r = fold(p, err);
	if (r == 0 && rename(name, p->path) != 0)
		r = pawl_fail_errno(err, "projection %s", p->path);
	if (r == 0) {
		p->build = false;
		r = sync_folder(p->path, err);
	}
	projection_close(p);
	return r;
}
