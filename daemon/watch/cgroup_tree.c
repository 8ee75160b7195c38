/* daemon/watch/cgroup_tree.c - see cgroup.h: one tree's folders, limits, counters and end. */
#include "daemon/watch/cgroup.h"
#include "daemon/watch/small_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_PATH (CGROUP_PATH + 64)

static const char *file_of(const struct cgroup *cg, int kind, const char *name, char path[static FILE_PATH])
{
	(void)snprintf(path, FILE_PATH, "%s/%s", cg->dir[kind], name);
	return path;
}

/* Each folder once: a v2 controller's is the tree's own. */
static bool is_own_folder(const struct cgroup *cg, int kind)
{
	return cg->dir[kind][0] && (kind == CGROUP_TREE || !cg->v2[kind]);
}

void cgroup_name(const struct cgroups *all, uint64_t session, struct cgroup *ret)
{
	struct cgroup cg = { .id = 0 };
	struct stat st;

	for (int k = 0; k < CGROUP_KINDS; k++) {
		if (!all->dir[k][0])
			continue;
		cg.v2[k] = all->v2[k];
		if (snprintf(cg.dir[k], CGROUP_PATH, "%s/s_%llu", all->dir[k], (unsigned long long)session) >= CGROUP_PATH)
			cg.dir[k][0] = '\0';
	}
	if (cg.dir[CGROUP_TREE][0] && stat(cg.dir[CGROUP_TREE], &st) == 0)
		cg.id = st.st_ino;
	*ret = cg;
}

static int make_one(const struct cgroup *cg, int kind, struct pawl_error *err)
{
	if (mkdir(cg->dir[kind], 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return pawl_fail_errno(err, "cannot make %.100s", cg->dir[kind]);
	/* left by a watcher that died between two steps; one with somebody in it cannot be removed, and is not ours to take */
	if (rmdir(cg->dir[kind]) < 0 || mkdir(cg->dir[kind], 0755) < 0)
		return pawl_fail(err, PAWL_E_BUSY, "%.100s is there already and in use", cg->dir[kind]);
	return 0;
}

int cgroup_make(const struct cgroups *all, uint64_t session, struct cgroup *ret, struct pawl_error *err)
{
	struct cgroup cg;
	struct stat st;
	int r = 0, k;

	cgroup_name(all, session, &cg);
	for (k = 0; k < CGROUP_KINDS && r == 0; k++)
		if (is_own_folder(&cg, k))
			r = make_one(&cg, k, err);
	if (r == 0 && cg.dir[CGROUP_TREE][0]) {
		if (stat(cg.dir[CGROUP_TREE], &st) < 0)
			r = pawl_fail_errno(err, "%.100s", cg.dir[CGROUP_TREE]);
		else
			cg.id = st.st_ino;
	}
	if (r == 0) {
		*ret = cg;
		return 0;
	}
	while (k-- > 0)
		if (is_own_folder(&cg, k))
			(void)rmdir(cg.dir[k]);
	return r;
}

static int put(const struct cgroup *cg, int kind, const char *name, const char *text, struct pawl_error *err)
{
	char path[FILE_PATH];

	if (small_write(file_of(cg, kind, name, path), text) < 0)
		return pawl_fail_errno(err, "cannot write %.20s to %.140s", text, path);
	return 0;
}

static int limit_memory_v2(const struct cgroup *cg, const char *bytes, struct pawl_error *err)
{
	char path[FILE_PATH];
	int r = put(cg, CGROUP_MEMORY, "memory.max", bytes, err);

	if (r == 0 && access(file_of(cg, CGROUP_MEMORY, "memory.swap.max", path), F_OK) == 0) /* a kernel without swap has no such file */
		r = put(cg, CGROUP_MEMORY, "memory.swap.max", strcmp(bytes, "max") == 0 ? "max" : "0", err);
	if (r == 0 && access(file_of(cg, CGROUP_MEMORY, "memory.oom.group", path), F_OK) == 0) /* 4.19 */
		r = put(cg, CGROUP_MEMORY, "memory.oom.group", strcmp(bytes, "max") == 0 ? "0" : "1", err);
	return r;
}

/* memsw, memory and swap together, must never be below memory alone: the order depends on which way the limit goes. */
static int limit_memory_v1(const struct cgroup *cg, const char *bytes, struct pawl_error *err)
{
	char path[FILE_PATH];
	bool memsw = access(file_of(cg, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", path), F_OK) == 0;
	int r;

	if (memsw)
		(void)put(cg, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", bytes, NULL); /* upwards it has to be first, downwards it fails here */
	r = put(cg, CGROUP_MEMORY, "memory.limit_in_bytes", bytes, err);
	if (r == 0 && memsw)
		r = put(cg, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", bytes, err);
	else if (r == 0)
		r = put(cg, CGROUP_MEMORY, "memory.swappiness", "0", err);
	return r;
}

int cgroup_limit(const struct cgroup *cg, uint64_t memory, uint64_t tasks, struct pawl_error *err)
{
	char text[32];
	int r = 0;

	if (cg->dir[CGROUP_MEMORY][0]) {
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)memory);
		if (cg->v2[CGROUP_MEMORY])
			r = limit_memory_v2(cg, memory ? text : "max", err);
		else
			r = limit_memory_v1(cg, memory ? text : "-1", err);
	}
	if (cg->dir[CGROUP_PIDS][0]) { /* whatever became of the first */
		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)tasks);
		if (put(cg, CGROUP_PIDS, "pids.max", tasks ? text : "max", r < 0 ? NULL : err) < 0 && r == 0)
			r = PAWL_E_SYS;
	}
	return r;
}

int cgroup_enter(const struct cgroup *cg, uint32_t pid, struct pawl_error *err)
{
	char text[16];
	int r = 0;

	(void)snprintf(text, sizeof(text), "%u", pid);
	for (int k = CGROUP_KINDS - 1; k >= 0 && r == 0; k--) /* the limits first, membership last */
		if (is_own_folder(cg, k))
			r = put(cg, k, "cgroup.procs", text, err);
	return r;
}

bool cgroup_has(const struct cgroup *cg, uint32_t pid)
{
	char path[64], text[4096], *at = NULL, *tail;
	size_t n;

	if (!cg->dir[CGROUP_TREE][0])
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	if (small_read(path, text, sizeof(text)) < 0)
		return false;
	tail = strstr(cg->dir[CGROUP_TREE], "/pawl."); /* what the kernel's path and ours have in common, whatever is mounted where */
	if (!tail)
		return false;
	n = strlen(tail);
	for (char *line = strtok_r(text, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		char *found = strncmp(line, "0::", 3) == 0 ? strstr(line + 3, tail) : NULL;

		if (found && (found[n] == '\0' || found[n] == '/'))
			return true;
	}
	return false;
}

void cgroup_read_cpu(const struct cgroup *cg, struct cgroup_use *use)
{
	char path[FILE_PATH], text[2048];
	uint64_t usec = 0;

	use->cpu_known = cg->dir[CGROUP_TREE][0] && small_read(file_of(cg, CGROUP_TREE, "cpu.stat", path), text, sizeof(text)) > 0 &&
			 small_field(text, "usage_usec", &usec);
	use->cpu_ns = usec * 1000;
}

void cgroup_read_memory(const struct cgroup *cg, struct cgroup_use *use)
{
	bool v2 = cg->v2[CGROUP_MEMORY];
	char path[FILE_PATH], text[1024];

	use->memory = use->memory_peak = use->oom_kills = 0;
	if (!cg->dir[CGROUP_MEMORY][0])
		return;
	(void)small_read_number(file_of(cg, CGROUP_MEMORY, v2 ? "memory.current" : "memory.usage_in_bytes", path), &use->memory);
	if (!small_read_number(file_of(cg, CGROUP_MEMORY, v2 ? "memory.peak" : "memory.max_usage_in_bytes", path), &use->memory_peak))
		use->memory_peak = use->memory; /* memory.peak: 5.19 */
	if (small_read(file_of(cg, CGROUP_MEMORY, v2 ? "memory.events" : "memory.oom_control", path), text, sizeof(text)) > 0)
		(void)small_field(text, "oom_kill", &use->oom_kills);
}

uint64_t cgroup_anon(const struct cgroup *cg)
{
	char path[FILE_PATH], text[8192];
	uint64_t v = 0;

	if (cg->dir[CGROUP_MEMORY][0] && small_read(file_of(cg, CGROUP_MEMORY, "memory.stat", path), text, sizeof(text)) > 0)
		(void)small_field(text, cg->v2[CGROUP_MEMORY] ? "anon" : "total_rss", &v);
	return v;
}

void cgroup_read_populated(const struct cgroup *cg, struct cgroup_use *use)
{
	char path[FILE_PATH], text[512];
	uint64_t v = 0;

	use->populated_known = cg->dir[CGROUP_TREE][0] && small_read(file_of(cg, CGROUP_TREE, "cgroup.events", path), text, sizeof(text)) > 0 &&
			       small_field(text, "populated", &v);
	use->populated = v != 0;
	if (!cg->dir[CGROUP_PIDS][0] || !small_read_number(file_of(cg, CGROUP_PIDS, "pids.current", path), &use->tasks))
		use->tasks = 0;
}

size_t cgroup_procs(const struct cgroup *cg, uint32_t *ret, size_t n)
{
	size_t size = CGROUP_PROCS * 12, got = 0;
	char path[FILE_PATH], *text, *at = NULL;
	uint64_t pid;
	ssize_t len = -1;
	int fd;

	if (!cg->dir[CGROUP_TREE][0] || !(text = malloc(size)))
		return 0;
	fd = open(file_of(cg, CGROUP_TREE, "cgroup.procs", path), O_RDONLY | O_CLOEXEC);
	if (fd >= 0) { /* what does not fit is there in the next round */
		size_t have = 0;

		while (have < size - 1 && (len = read(fd, text + have, size - 1 - have)) > 0)
			have += (size_t)len;
		(void)close(fd);
		while (have > 0 && text[have - 1] != '\n') /* a number that was cut is another number */
			have--;
		text[have] = '\0';
		for (char *line = strtok_r(text, "\n", &at); line && got < n; line = strtok_r(NULL, "\n", &at))
			if (small_number(line, &pid) && pid > 0 && pid <= INT32_MAX)
				ret[got++] = (uint32_t)pid;
	}
	free(text);
	return got;
}

int cgroup_kill(const struct cgroup *cg, struct pawl_error *err)
{
	if (!cg->dir[CGROUP_TREE][0])
		return pawl_fail(err, PAWL_E_SYS, "no cgroup");
	return put(cg, CGROUP_TREE, "cgroup.kill", "1", err);
}

/* Folders that the tree made below its own, innermost first. A root in it may have; depth and number are bounded by rounds. */
static void remove_below(const char *dir, int depth)
{
	char path[FILE_PATH + 256];
	DIR *d = depth > 0 ? opendir(dir) : NULL;
	const struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path) && rmdir(path) < 0) {
			remove_below(path, depth - 1);
			(void)rmdir(path);
		}
	}
	(void)closedir(d);
}

bool cgroup_remove(const struct cgroup *cg)
{
	bool gone = true;

	for (int k = 0; k < CGROUP_KINDS; k++) {
		if (!is_own_folder(cg, k) || rmdir(cg->dir[k]) == 0 || errno == ENOENT)
			continue;
		remove_below(cg->dir[k], 16);
		if (rmdir(cg->dir[k]) < 0)
			gone = false;
	}
	return gone;
}

bool cgroups_clear(struct cgroups *all)
{
	char dir[CGROUP_KINDS][CGROUP_PATH];
	bool gone = true;

	memcpy(dir, all->dir, sizeof(dir));
	for (int k = 0; k < CGROUP_KINDS; k++)
		if (dir[k][0])
			remove_below(dir[k], 16);
	cgroups_remove(all);
	for (int k = 0; k < CGROUP_KINDS; k++)
		gone = gone && (!dir[k][0] || access(dir[k], F_OK) < 0);
	return gone;
}
