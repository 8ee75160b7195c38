/* hooks/bpf/guard.bpf.c - the programs that count, limit and kill inside the kernel. A process is in a tree when its task storage holds a
 * tag; children and threads get theirs in fork, before they can run. What is noticed here is also ended here: no decision waits for the
 * watcher, and nothing depends on an event that arrives. Absent means no: a tag without a tree, or a child without a tag, is a kill.
 *
 * The rules of this file: a task without a tag leaves after one look-up; no lock, only atomic words (the watcher has the trees mapped and
 * changes its own words at the same time); what goes to user space is bounded, zeroed and counted when it is lost.
 * One object of three files: guard_common.h (maps, events, limits), guard_exec.h (exec), and here fork, exit, moves, the sampler and the list. */
#include "hooks/bpf/guard_common.h"
#include "hooks/bpf/guard_exec.h"

/* ---- fork ---- */

/* CLONE_INTO_CGROUP put the child elsewhere. */
static __always_inline bool left_at_fork(struct watch_slot *tree, struct task_struct *parent, struct task_struct *child)
{
	struct cgroup *of_child, *of_parent;

	if (!tree->cgroup)
		return false;
	of_child = child->cgroups->dfl_cgrp;
	of_parent = parent->cgroups->dfl_cgrp;
	if (of_child->kn->id == of_parent->kn->id)
		return false;
	return !inside(of_child, tree->cgroup);
}

/* true: parent and child die. */
static __always_inline bool count_fork(struct watch_slot *tree, struct task_struct *parent)
{
	__u64 live = __sync_fetch_and_add(&tree->live, 1) + 1;
	__u64 rate, limit;
	bool dies = false;

	__sync_fetch_and_add(&tree->forks, 1);
	if (live > tree->peak)
		tree->peak = live; /* a number for people: a race loses one */
	limit = tree->limits.processes;
	if (limit && live > limit)
		dies = breach(tree, parent, WHY_PROCESSES, live, limit);
	limit = tree->limits.fork_rate;
	if (limit) {
		rate = count_rate(&tree->fork_window);
		if (rate > limit && !dies)
			dies = breach(tree, parent, WHY_FORK_RATE, rate, limit);
	}
	return dies;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct watch_tag *tag = tag_of(parent), *made;
	struct watch_slot *tree;
	struct note n = {};
	bool dies = false;

	if (!tag)
		return 0;
	tree = tree_of(tag);
	n.tree = tag->tree;
	made = bpf_task_storage_get(&tags, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!made) { /* no memory for it: what cannot be followed does not run */
		struct watch_counts *c = counts();

		if (c)
			__sync_fetch_and_add(&c->no_tag, 1);
		n.why = WHY_NO_TAG;
		if (kill_one(tree, &n, parent)) {
			kill_child(child);
			if (!bpf_send_signal_task && tree) /* the child cannot be reached from here: all of the tree's cgroup ends */
				breach(tree, parent, WHY_NO_TAG, 0, 0);
		}
		return 0;
	}
	made->tree = tag->tree;
	made->slot = tag->slot;
	made->doomed = tag->doomed;
	made->state = TAG_COUNTED;
	if (!tree) {
		n.why = made->doomed = WHY_NO_TREE;
		kill_one(NULL, &n, parent);
		kill_child(child);
		return 0;
	}
	if (child->pid == child->tgid)
		dies = count_fork(tree, parent);
	if (left_at_fork(tree, parent, child)) {
		n.why = WHY_LEFT;
		if (kill_one(tree, &n, parent)) {
			made->doomed = WHY_LEFT;
			kill_child(child);
		}
		return 0;
	}
	if (dies || tree->killed || made->doomed) {
		kill_current();
		kill_child(child);
	}
	return 0;
}

/* Up to Linux 6.18 nothing else runs on a CPU while a tracepoint's programs do. On 7.0 something may, and what it then forks, executes or ends is
 * not seen, since no program runs twice at the same time on one CPU. Attached for one fork of the watcher's, so that it can say so. x86 alone
 * has a word that tells, from 6.15 on; where it is not found this program does not load. */
extern const int __preempt_count __ksym __weak;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_open, struct task_struct *parent, struct task_struct *child)
{
	struct watch_counts *c = counts();
	const int *forbidden;

	(void)parent, (void)child;
	if (!c || !&__preempt_count)
		return 0;
	forbidden = bpf_this_cpu_ptr(&__preempt_count);
	__sync_fetch_and_or(&c->forks_seen, *forbidden & 0xff ? 1 : 2); /* how often */
	return 0;
}

/* ---- exit ---- */

static __always_inline void take_off(struct watch_slot *tree, struct task_struct *task)
{
	struct note n = { .tree = tree->tree, .kind = WATCH_EMPTY };

	if (__sync_fetch_and_add(&tree->live, -1) == 1)
		event_send(tree, &n, task);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct watch_tag *tag;
	struct watch_slot *tree;
	struct task_struct *leader;

	if (task->signal->live.counter != 0 || !tag_of(task))
		return 0;
	leader = task->group_leader;
	if (!leader)
		return 0;
	tag = bpf_task_storage_get(&tags, leader, 0, 0);
	/* two threads that end together both see no live one: only one of them takes the process off */
	if (!tag || __sync_lock_test_and_set(&tag->state, (__u64)TAG_GONE) != TAG_COUNTED)
		return 0;
	tree = tree_of(tag);
	if (tree)
		take_off(tree, task);
	return 0;
}

/* ---- moved to another cgroup ---- */

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(on_move, struct cgroup *to, const char *path, struct task_struct *task)
{
	struct watch_tag *tag = tag_of(task);
	struct task_struct *mover;
	struct watch_slot *tree;
	struct note n = { .kind = WATCH_LEFT, .why = WHY_LEFT };

	if (!tag)
		return 0;
	(void)path;
	tree = tree_of(tag);
	if (!tree || !tree->cgroup || to->root->hierarchy_id != 0 || inside(to, tree->cgroup))
		return 0;
	n.tree = tree->tree;
	mover = bpf_get_current_task_btf();
	if (tag_of(mover))
		kill_one(tree, &n, mover);
	else
		event_send(tree, &n, task);
	return 0;
}

/* ---- the sampler: what is over a limit without ever calling fork or exec ---- */

static __always_inline __u64 rss_of(struct mm_struct *mm)
{
	__s64 pages = 0, one;

	if (bpf_core_field_exists(struct mm_struct___before_6_2, rss_stat.count)) {
		struct mm_struct___before_6_2 *old = (void *)mm;

		pages += BPF_CORE_READ(old, rss_stat.count[MM_FILEPAGES].counter);
		pages += BPF_CORE_READ(old, rss_stat.count[MM_ANONPAGES].counter);
		pages += BPF_CORE_READ(old, rss_stat.count[MM_SHMEMPAGES].counter);
	} else {
		one = BPF_CORE_READ(mm, rss_stat[MM_FILEPAGES].count);
		pages += one;
		one = BPF_CORE_READ(mm, rss_stat[MM_ANONPAGES].count);
		pages += one;
		one = BPF_CORE_READ(mm, rss_stat[MM_SHMEMPAGES].count);
		pages += one;
	}
	return pages > 0 ? (__u64)pages << PAGE_BYTES_SHIFT : 0;
}

/* Sampled time is true in the mean: a tree dies by it only when it is clearly over, the watcher's cpu.stat is exact. */
static __always_inline __u64 with_slack(__u64 cpu_ns)
{
	return cpu_ns + cpu_ns / 32 + NS_PER_SEC / 10;
}

static __always_inline bool over_limit(struct watch_slot *tree, struct task_struct *task, __u64 ran)
{
	__u64 wall = bpf_ktime_get_boot_ns() - tree->start_boot_ns, bytes;

	if (tree->limits.wall_ns && wall > tree->limits.wall_ns && breach(tree, task, WHY_WALL, wall, tree->limits.wall_ns))
		return true;
	if (tree->limits.cpu_ns && ran > with_slack(tree->limits.cpu_ns) && breach(tree, task, WHY_CPU, ran, tree->limits.cpu_ns))
		return true;
	if (!tree->limits.memory || !task->mm)
		return false;
	bytes = rss_of(task->mm);
	return bytes > tree->limits.memory && breach(tree, task, WHY_MEMORY, bytes, tree->limits.memory);
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct watch_tag *tag;
	struct watch_slot *tree;
	struct watch_about *a;
	__u32 zero = 0;
	__u64 ran;

	(void)ctx;
	tag = bpf_task_storage_get(&tags, task, 0, 0);
	if (!tag || task->flags & PF_EXITING) /* it may have been reaped already, and its tree be gone */
		return 0;
	tree = tree_of(tag);
	a = bpf_map_lookup_elem(&about, &zero);
	if (!tree) {
		struct note n = { .tree = tag->tree, .why = WHY_NO_TREE };

		kill_one(NULL, &n, task);
		return 0;
	}
	if (!a || tree->killed || tag->doomed) {
		kill_current();
		return 0;
	}
	ran = __sync_fetch_and_add(&tree->sampled_ns, a->sample_ns) + a->sample_ns;
	if (over_limit(tree, task, ran))
		kill_current();
	return 0;
}

/* ---- the list of processes; it also finishes what the watcher began with one tag: threads get theirs, the process is counted ---- */

static __always_inline void settle(struct watch_tag *tag, struct task_struct *task)
{
	struct watch_slot *tree = tree_of(tag);
	__u64 live;

	if (!tree || tag->state != TAG_NEW)
		return;
	/* counted before it is said, and taken back when it ended meanwhile: `live` is never below the truth */
	live = __sync_fetch_and_add(&tree->live, 1) + 1;
	if (task->signal->live.counter == 0 || __sync_val_compare_and_swap(&tag->state, (__u64)TAG_NEW, (__u64)TAG_COUNTED) != TAG_NEW) {
		tag->state = TAG_GONE;
		take_off(tree, task);
		return;
	}
	if (live > tree->peak)
		tree->peak = live;
}

SEC("iter/task")
int list_tasks(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task, *leader;
	struct watch_listed row = {};
	struct watch_tag *tag, *own;

	if (!task)
		return 0;
	if (task->pid != task->tgid) {
		leader = task->group_leader;
		if (!leader)
			return 0;
		tag = bpf_task_storage_get(&tags, leader, 0, 0);
		if (!tag || bpf_task_storage_get(&tags, task, 0, 0))
			return 0;
		own = bpf_task_storage_get(&tags, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (own) {
			own->slot = tag->slot;
			own->state = tag->state;
			own->tree = tag->tree;
		}
		return 0;
	}
	tag = bpf_task_storage_get(&tags, task, 0, 0);
	if (!tag)
		return 0;
	settle(tag, task);
	if (task->signal->live.counter == 0)
		return 0;
	row.tree = tag->tree;
	row.start_boot_ns = task->start_boottime;
	row.pid = (__u32)task->tgid;
	bpf_probe_read_kernel(row.comm, sizeof(row.comm), task->comm);
	bpf_seq_write(seq, &row, sizeof(row));
	return 0;
}
