/* daemon/watch/cgroup.h - the cgroups that hold trees: where the hierarchies are mounted, one folder of ours in each, one below it a tree.
 * Owns the folders it makes. Must not touch BPF, messages or policy. Paths are ours alone to write: an agent that is not root has no way in. */
#ifndef PAWL_CGROUP_H
#define PAWL_CGROUP_H
#include "pawl/watch.h"

#define CGROUP_PATH 320
#define CGROUP_INSTANCE 32
#define CGROUP_PROCS 4096 /* of a tree, looked at in one go */

/* The tree's own cgroup (v2: cpu.stat, cgroup.kill, membership), and the two controllers, which may be v2's or lie in v1 hierarchies. */
enum cgroup_kind { CGROUP_TREE, CGROUP_MEMORY, CGROUP_PIDS, CGROUP_KINDS };
struct cgroups {
	char dir[CGROUP_KINDS][CGROUP_PATH]; /* this daemon's folder; "": none. A controller of v2 has the folder of CGROUP_TREE */
	bool v2[CGROUP_KINDS];
	char switched[CGROUP_KINDS][CGROUP_PATH + 32]; /* the subtree_control above us that we switched the controller on in; "": it was on */
	int os_errno[CGROUP_KINDS];
	char why[CGROUP_KINDS][128];	     /* for people: what was tried and what came of it */
};
/* What the two files of /proc say; pure. In `from` the parents of our folders, by kind; "": no such hierarchy. A v2 root that has no
 * such controller is not one for it. `own`: the second choice for CGROUP_TREE, this process's own cgroup (delegated to a plain user). */
struct cgroup_mounts {
	char parent[CGROUP_KINDS][CGROUP_PATH];
	char own[CGROUP_PATH];
	bool v2[CGROUP_KINDS];
};
PAWL_MUST_USE int cgroup_mounts_parse(const char *mountinfo, const char *self_cgroup, struct cgroup_mounts *ret, struct pawl_error *err);
/* Reads the machine's. */
PAWL_MUST_USE int cgroup_mounts_read(struct cgroup_mounts *ret, struct pawl_error *err);
/* Makes pawl.<instance> where it can; never fails: what is not there is told in the rows. Folders that are there are taken over. */
void cgroups_open(const struct cgroup_mounts *from, const char *instance, struct cgroups *ret);
/* Removes the daemon's folders that have no tree in them. */
void cgroups_remove(struct cgroups *all);
/* With those of trees that nobody is in any more. true: nothing is left. */
bool cgroups_clear(struct cgroups *all);

struct cgroup { /* a tree's */
	char dir[CGROUP_KINDS][CGROUP_PATH];
	bool v2[CGROUP_KINDS];
	uint64_t id; /* the kernel's, of CGROUP_TREE; 0: none */
};
/* Where the folders of a tree are, whether or not they are there. */
void cgroup_name(const struct cgroups *all, uint64_t session, struct cgroup *ret);
/* Makes the folders and writes the limits; on failure nothing is left. A cgroup of that name with somebody in it: PAWL_E_BUSY. */
PAWL_MUST_USE int cgroup_make(const struct cgroups *all, uint64_t session, struct cgroup *ret, struct pawl_error *err);
/* memory: bytes, processes: tasks; 0 takes the limit off. */
PAWL_MUST_USE int cgroup_limit(const struct cgroup *cg, uint64_t memory, uint64_t tasks, struct pawl_error *err);
PAWL_MUST_USE int cgroup_enter(const struct cgroup *cg, uint32_t pid, struct pawl_error *err);
/* True while pid is in the tree's cgroup, or below. */
bool cgroup_has(const struct cgroup *cg, uint32_t pid);
struct cgroup_use {
	uint64_t cpu_ns, memory, memory_peak, oom_kills, tasks;
	bool populated, cpu_known, populated_known;
};
/* Each value that cannot be read is 0. */
void cgroup_read_cpu(const struct cgroup *cg, struct cgroup_use *use);
void cgroup_read_memory(const struct cgroup *cg, struct cgroup_use *use);
uint64_t cgroup_anon(const struct cgroup *cg); /* memory that cannot be taken back: no file's */
void cgroup_read_populated(const struct cgroup *cg, struct cgroup_use *use);
/* The processes in it, at most n. */
size_t cgroup_procs(const struct cgroup *cg, uint32_t *ret, size_t n);
/* Everybody in it and below, in one step of the kernel (5.14). Negative: not there, or nobody was killed. */
PAWL_MUST_USE int cgroup_kill(const struct cgroup *cg, struct pawl_error *err);
/* true: nothing of it is left. */
bool cgroup_remove(const struct cgroup *cg);
/* cgroup.kill is there. */
bool cgroup_can_kill(const struct cgroups *all);
#endif
