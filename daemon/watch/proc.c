/* daemon/watch/proc.c - see proc.h. */
#include "daemon/watch/proc.h"

#include "daemon/watch/small_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_ANCESTORS 4096 /* a chain longer than this is not looked along */
#define CHILDREN_TEXT (64u << 10)

uint64_t proc_ticks_ns(uint64_t ticks)
{
	long hz = sysconf(_SC_CLK_TCK);

	return ticks * ((uint64_t)NS_PER_SEC / (uint64_t)(hz > 0 ? hz : 100));
}

/* pid (comm) state ppid … : comm may hold spaces and brackets, so the last bracket counts. Fields by their numbers in proc(5). */
bool proc_stat_parse(const char *text, struct proc_stat *ret)
{
	const char *open = strchr(text, '('), *p = strrchr(text, ')');
	uint64_t field[23] = { 0 };
	struct proc_stat s = { .ppid = 0 };
	size_t n;
	char state;

	if (!open || !p || p < open || p[1] != ' ' || !p[2])
		return false;
	n = (size_t)(p - open - 1);
	memcpy(s.comm, open + 1, n < sizeof(s.comm) - 1 ? n : sizeof(s.comm) - 1);
	state = p[2];
	p += 3;
	for (int i = 4; i <= 22; i++) {
		if (*p++ != ' ')
			return false;
		if (*p == '-') /* some may be negative; none of those is asked for */
			p++;
		if (*p < '0' || *p > '9')
			return false;
		for (; *p >= '0' && *p <= '9'; p++)
			field[i] = field[i] * 10 + (uint64_t)(*p - '0');
	}
	field[1] = strtoull(text, NULL, 10);
	if (field[1] == 0 || field[1] > INT32_MAX || field[4] > INT32_MAX)
		return false;
	s.id.pid = (uint32_t)field[1];
	s.ppid = (uint32_t)field[4];
	s.dead = state == 'X' || (state == 'Z' && field[20] <= 1);
	s.cpu_ns = proc_ticks_ns(field[14] + field[15]);
	s.dead_ns = proc_ticks_ns(field[16] + field[17]);
	s.id.start = field[22];
	*ret = s;
	return true;
}

bool proc_stat(uint32_t pid, struct proc_stat *ret)
{
	char path[48], text[1024];

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	return small_read(path, text, sizeof(text)) > 0 && proc_stat_parse(text, ret) && ret->id.pid == pid;
}

bool proc_real_uid(uint32_t pid, uint32_t *ret)
{
	char path[48], text[8192], *uid, *end;
	unsigned long v;

	(void)snprintf(path, sizeof(path), "/proc/%u/status", pid);
	if (small_read(path, text, sizeof(text)) < 0 || !(uid = strstr(text, "\nUid:\t"))) /* Name: comes first and cannot hold a newline */
		return false;
	v = strtoul(uid + 6, &end, 10);
	if (end == uid + 6 || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

bool proc_of_pidfd(int fd, uint32_t *ret)
{
	char path[48], text[1024], *pid, *end;
	long v;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (small_read(path, text, sizeof(text)) < 0 || !(pid = strstr(text, "\nPid:\t")))
		return false;
	v = strtol(pid + 6, &end, 10); /* -1: has ended; 0: not of this namespace */
	if (end == pid + 6 || v <= 0 || v > INT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

bool proc_is_below(uint32_t pid, uint32_t ancestor)
{
	struct proc_stat s;

	for (int i = 0; i < MAX_ANCESTORS && pid; i++) {
		if (pid == ancestor)
			return true;
		if (!proc_stat(pid, &s))
			return false;
		pid = s.ppid;
	}
	return false;
}

static bool is_gone(int os_errno)
{
	return os_errno == ENOENT || os_errno == ESRCH;
}

/* Adds the children that a thread of pid has. */
static size_t add_children(const char *path, uint32_t without, uint32_t *list, size_t have, size_t max, char *text, bool *whole)
{
	char *at = NULL;
	uint64_t pid;

	if (small_read(path, text, CHILDREN_TEXT) < 0) {
		*whole &= is_gone(errno);
		return have;
	}
	for (char *w = strtok_r(text, " ", &at); w; w = strtok_r(NULL, " ", &at)) {
		size_t i = 0;

		if (!small_number(w, &pid) || pid == 0 || pid > INT32_MAX || pid == without)
			continue;
		while (i < have && list[i] != pid)
			i++;
		if (i < have)
			continue;
		if (have >= max) {
			*whole = false;
			break;
		}
		list[have++] = (uint32_t)pid;
	}
	return have;
}

/* And those of all its threads. */
static size_t add_children_of(uint32_t parent, uint32_t without, uint32_t *list, size_t have, size_t max, char *text, bool *whole)
{
	char path[64 + 256];
	const struct dirent *e;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%u/task", parent);
	d = opendir(path);
	if (!d) {
		*whole &= is_gone(errno);
		return have;
	}
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%u/task/%s/children", parent, e->d_name);
		have = add_children(path, without, list, have, max, text, whole);
	}
	(void)closedir(d);
	return have;
}

size_t proc_tree(uint32_t *list, size_t have, size_t max, uint32_t without, bool *ret_whole)
{
	char *text = malloc(CHILDREN_TEXT);

	*ret_whole = text != NULL;
	for (size_t i = 0; text && i < have; i++)
		have = add_children_of(list[i], without, list, have, max, text, ret_whole);
	free(text);
	return have;
}

int proc_open(uint32_t pid)
{
	return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

int proc_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}
