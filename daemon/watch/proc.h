/* daemon/watch/proc.h - what /proc says of processes. A pid names a process only together with its start time, or while a pidfd of it is
 * held and found alive after the look. */
#ifndef PAWL_PROC_H
#define PAWL_PROC_H
#include "pawl/error.h"

struct proc_id {
	uint32_t pid, zero;
	uint64_t start; /* clock ticks since boot, as /proc has it */
};
struct proc_stat {
	struct proc_id id;
	uint32_t ppid;
	char comm[17];
	bool dead; /* a zombie, or less. A first thread that has ended is told as a zombie while others of the process live: that is not dead */
	uint64_t cpu_ns;  /* its own */
	uint64_t dead_ns; /* of children that it has waited for */
};
/* false: no such process. */
bool proc_stat(uint32_t pid, struct proc_stat *ret);
/* The text of /proc/PID/stat; pure. */
bool proc_stat_parse(const char *text, struct proc_stat *ret);
bool proc_real_uid(uint32_t pid, uint32_t *ret);
/* false: not a pidfd, or its process has ended and was waited for, or it is of another pid namespace. */
bool proc_of_pidfd(int fd, uint32_t *ret);
/* pid is ancestor, or descends from it. */
bool proc_is_below(uint32_t pid, uint32_t ancestor);
/* list begins with `have` roots; all that descends from them is added, at most max in all, but not `without` and what descends from that.
 * *ret_whole false: there was no room for all, or /proc did not tell of somebody who lives. */
size_t proc_tree(uint32_t *list, size_t have, size_t max, uint32_t without, bool *ret_whole);
uint64_t proc_ticks_ns(uint64_t ticks);
/* Opens a pidfd (close on exec). -1 with errno. */
int proc_open(uint32_t pid);
int proc_signal(int pidfd, int sig);
#endif
