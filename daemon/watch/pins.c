/* daemon/watch/pins.c - see pins.h. */
#include "daemon/watch/pins.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool is_bpffs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == (unsigned long)BPF_FS_MAGIC;
}

int pins_run_folder(struct pawl_error *err)
{
	struct stat st;

	if (mkdir(WATCH_RUN, 0700) < 0 && errno != EEXIST)
		return pawl_fail_errno(err, "cannot make " WATCH_RUN);
	if (lstat(WATCH_RUN, &st) < 0)
		return pawl_fail_errno(err, WATCH_RUN);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return pawl_fail(err, PAWL_E_UNSAFE, WATCH_RUN " is not a folder that only root can change");
	return 0;
}

void pins_open(const char *instance, struct pins *ret)
{
	struct pins p = { .dir = "" };
	struct pawl_error err = { .code = PAWL_OK };

	if (is_bpffs("/sys/fs/bpf") && access("/sys/fs/bpf", W_OK) == 0) {
		(void)snprintf(p.dir, sizeof(p.dir), "/sys/fs/bpf/pawl-%s", instance);
		(void)snprintf(p.says, sizeof(p.says), "in /sys/fs/bpf");
	} else if (geteuid() != 0) {
		(void)snprintf(p.says, sizeof(p.says), "only root can mount a bpffs");
	} else if (pins_run_folder(&err) < 0) {
		(void)snprintf(p.says, sizeof(p.says), "%.90s", err.msg);
	} else {
		(void)snprintf(p.mount, sizeof(p.mount), WATCH_RUN "/bpf-%s", instance);
		if (mkdir(p.mount, 0700) < 0 && errno != EEXIST) {
			(void)snprintf(p.says, sizeof(p.says), "cannot make %.40s: %.30s", p.mount, strerror(errno));
			p.mount[0] = '\0';
		} else if (!is_bpffs(p.mount) && mount("bpf", p.mount, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0) {
			(void)snprintf(p.says, sizeof(p.says), "cannot mount a bpffs: %s", strerror(errno));
			(void)rmdir(p.mount);
			p.mount[0] = '\0';
		} else {
			(void)snprintf(p.dir, sizeof(p.dir), "%.100s/pawl", p.mount);
			(void)snprintf(p.says, sizeof(p.says), "in a bpffs of its own, %.60s", p.mount);
		}
	}
	*ret = p;
}

bool pins_remove(struct pins *p)
{
	char layout[sizeof(p->dir) + 16];
	bool gone;

	(void)snprintf(layout, sizeof(layout), "%s/v%d", p->dir, WATCH_LAYOUT);
	if (p->dir[0])
		(void)rmdir(layout); /* a guard that could not load leaves it empty */
	gone = !p->dir[0] || rmdir(p->dir) == 0 || errno == ENOENT;
	if (gone && p->mount[0]) /* what is still pinned, by another version too, goes on holding */
		gone = umount2(p->mount, 0) == 0 && rmdir(p->mount) == 0;
	*p = (struct pins){ .dir = "" };
	return gone;
}
