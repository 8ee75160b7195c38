/* hooks/bpf/guard_common.h - a part of guard.bpf.c, which says what holds for all of it: the maps, who is in which tree, what is told, how a
 * limit is broken, and where a cgroup lies. */
#ifndef PAWL_GUARD_COMMON_H
#define PAWL_GUARD_COMMON_H
#define PAWL_BPF
#include "hooks/bpf/kernel_types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "pawl/watch_maps.h"

#define ATTACH_LOG_ONLY 2 /* as in pawl/watch.h */
#define ATTACH_EVENTS 4
#define NS_PER_SEC 1000000000ull
#define MAX_LEVELS 32 /* of cgroups that are looked at; deeper is outside */

char LICENSE[] SEC("license") = "GPL"; /* what the helpers ask for */

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct watch_tag);
} tags SEC(".maps");

/* sizes of the next ones are set by the watcher before it loads */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct watch_slot);
} trees SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct watch_deny_key);
	__type(value, struct watch_deny);
} denied SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_counts);
} totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watch_about);
} about SEC(".maps");

/* Since 6.13. Before it a child that must not run dies when it is next seen: by its tag, or in the sampler. */
extern int bpf_send_signal_task(struct task_struct *task, int sig, enum pid_type type, __u64 value) __ksym __weak;

static __always_inline struct watch_counts *counts(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

static __always_inline void kill_current(void)
{
	struct watch_counts *c = counts();

	if (c)
		__sync_fetch_and_add(&c->kills, 1);
	bpf_send_signal(SIGKILL);
}

static __always_inline void kill_child(struct task_struct *child)
{
	if (bpf_send_signal_task)
		bpf_send_signal_task(child, SIGKILL, PIDTYPE_TGID, 0);
}

/* A thread that was there before the watcher tagged its process has no tag of its own yet. */
static __always_inline struct watch_tag *tag_of(struct task_struct *task)
{
	struct watch_tag *tag = bpf_task_storage_get(&tags, task, 0, 0);
	struct task_struct *leader;

	if (tag)
		return tag;
	leader = task->group_leader;
	if (!leader || task->pid == task->tgid)
		return NULL;
	return bpf_task_storage_get(&tags, leader, 0, 0);
}

static __always_inline struct watch_slot *tree_of(const struct watch_tag *tag)
{
	__u32 at = tag->slot;
	struct watch_slot *tree = bpf_map_lookup_elem(&trees, &at);

	return tree && tree->tree == tag->tree ? tree : NULL;
}

/* ---- events ---- */

struct note { /* what an event says; the rest is the current task */
	__u64 tree;
	__u32 kind, why, flags;
	__u64 measured, limit, dev, ino;
};

static __always_inline void fill_task(struct watch_event *ev, struct task_struct *task)
{
	ev->boot_ns = bpf_ktime_get_boot_ns();
	ev->start_boot_ns = task->group_leader->start_boottime;
	ev->pid = (__u32)task->tgid;
	ev->ppid = (__u32)task->real_parent->tgid;
	ev->uid = (__u32)bpf_get_current_uid_gid();
	bpf_probe_read_kernel(ev->comm, sizeof(ev->comm), task->comm);
}

static __always_inline struct watch_event *event_new(struct watch_slot *tree, const struct note *n, struct task_struct *task)
{
	struct watch_counts *c = counts();
	struct watch_event *ev = bpf_ringbuf_reserve(&ring, sizeof(*ev), 0);

	if (c)
		__sync_fetch_and_add(&c->attempted, 1);
	if (!ev) {
		if (c)
			__sync_fetch_and_add(&c->lost, 1);
		if (tree)
			__sync_fetch_and_add(&tree->lost, 1);
		return NULL;
	}
	__builtin_memset(ev, 0, sizeof(*ev)); /* the ring's memory holds older events */
	ev->tree = n->tree;
	ev->kind = n->kind;
	ev->why = n->why;
	ev->flags = n->flags;
	ev->measured = n->measured;
	ev->limit = n->limit;
	ev->dev = n->dev;
	ev->ino = n->ino;
	fill_task(ev, task);
	return ev;
}

static __always_inline void event_send(struct watch_slot *tree, const struct note *n, struct task_struct *task)
{
	struct watch_event *ev = event_new(tree, n, task);

	if (ev)
		bpf_ringbuf_submit(ev, BPF_RB_FORCE_WAKEUP);
}

/* ---- limits ---- */

/* The tree is over a limit. true: it dies. Only the first to notice tells it, and says by how much. */
static __always_inline bool breach(struct watch_slot *tree, struct task_struct *task, __u32 why, __u64 measured, __u64 limit)
{
	struct note n = { .tree = tree->tree, .kind = WATCH_BREACH, .why = why, .measured = measured, .limit = limit };

	if (tree->flags & ATTACH_LOG_ONLY) {
		if (!(tree->said & 1ull << why) && !(__sync_fetch_and_or(&tree->said, 1ull << why) & 1ull << why)) {
			n.flags = WATCH_F_LOG_ONLY;
			event_send(tree, &n, task);
		}
		return false;
	}
	if (__sync_val_compare_and_swap(&tree->claim, 0, (__u64)why) == 0) {
		tree->measured = measured;
		tree->limit = limit;
		tree->lived = tree->live;
		__sync_lock_test_and_set(&tree->killed, (__u64)why);
		event_send(tree, &n, task);
	}
	return true;
}

/* One process is killed on its own, unless the tree is only looked at. */
static __always_inline bool kill_one(struct watch_slot *tree, struct note *n, struct task_struct *task)
{
	bool spare = tree && tree->flags & ATTACH_LOG_ONLY;

	n->kind = WATCH_KILL;
	if (spare)
		n->flags |= WATCH_F_LOG_ONLY;
	else
		kill_current();
	event_send(tree, n, task);
	return !spare;
}

/* Counts one in this second; how many it makes. Second and count are one word, so that two CPUs that enter a second together count both. */
static __always_inline __u64 count_rate(__u64 *window)
{
	__u64 second = bpf_ktime_get_boot_ns() / NS_PER_SEC & 0xffffffff;
	__u64 now = __sync_fetch_and_add(window, 1) + 1;

	if (now >> 32 == second)
		return now & 0xffffffff;
	if (__sync_val_compare_and_swap(window, now, second << 32 | 1) == now)
		return 1;
	now = __sync_fetch_and_add(window, 1) + 1; /* another CPU began the second, or counted in the old one */
	return now >> 32 == second ? now & 0xffffffff : 1;
}

/* ---- cgroups ---- */

static __always_inline bool inside(struct cgroup *cg, __u64 id)
{
	int level = cg->level;

	if (cg->kn->id == id)
		return true;
	for (int i = 0; i < MAX_LEVELS; i++) { /* not in the tree's own: in one below it? */
		struct cgroup *up = NULL;
		__u64 got;

		if (i >= level)
			break;
		bpf_probe_read_kernel(&up, sizeof(up), (char *)cg + bpf_core_field_offset(struct cgroup, ancestors) + (unsigned)i * sizeof(up));
		got = BPF_CORE_READ(up, kn, id);
		if (got == id)
			return true;
	}
	return false;
}
#endif
