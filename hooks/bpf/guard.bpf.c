/* hooks/bpf/guard.bpf.c - the programs that count, limit and kill inside the kernel. A process is in a tree when its task storage holds a
 * tag; children and threads get theirs in fork, before they can run. What is noticed here is also ended here: no decision waits for the
 * watcher, and nothing depends on an event that arrives. Absent means no: a tag without a tree, or a child without a tag, is a kill.
 *
 * The rules of this file: a task without a tag leaves after one look-up; no lock, only atomic words (the watcher has the trees mapped and
 * changes its own words at the same time); what goes to user space is bounded, zeroed and counted when it is lost. */
#define PAWL_BPF
#include "hooks/bpf/kernel_types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "pawl/watch_maps.h"

#define ATTACH_LOG_ONLY 2 /* as in pawl/watch.h */
#define ATTACH_EVENTS 4
#define NS_PER_SEC 1000000000ull
#define MAX_LEVELS 32	 /* of cgroups that are looked at; deeper is outside */
#define MAX_ARGS 6	 /* of a multi-call binary that starts itself again */
#define MAX_ARG_BYTES 4096

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

/* ---- fork ---- */

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

/* ---- exec ---- */

struct arg_walk {
	struct watch_deny_key key;
	unsigned long at, end;
	__u32 pos;     /* in key.applet; WATCH_APPLET: longer than any name on the list */
	__u32 nth;     /* argument */
	__u32 found, zero;
};

static __always_inline bool starts_itself(const struct watch_deny_key *key)
{
	const char *a = key->applet;

	return a[0] == 'b' && a[1] == 'u' && a[2] == 's' && a[3] == 'y' && a[4] == 'b' && a[5] == 'o' && a[6] == 'x';
}

/* One byte of the arguments. Their first page was built by the kernel a moment ago, so it is there; when it is not, the answer is no. */
static long walk_arg(__u32 i, void *ctx)
{
	struct arg_walk *w = ctx;
	__u32 pos = w->pos;
	char c = 0;

	(void)i;
	if (w->at >= w->end)
		return 1;
	if (bpf_probe_read_user(&c, 1, (void *)w->at)) {
		w->found = 1;
		return 1;
	}
	w->at++;
	if (c == '/') {
		__builtin_memset(w->key.applet, 0, WATCH_APPLET);
		w->pos = 0;
		return 0;
	}
	if (c) {
		if (c == '-' && pos == 0 && w->nth == 0) /* a login shell's */
			return 0;
		if (pos < WATCH_APPLET - 1)
			w->key.applet[pos & (WATCH_APPLET - 1)] = c;
		w->pos = pos < WATCH_APPLET ? pos + 1 : pos;
		return 0;
	}
	if (pos > 0 && pos < WATCH_APPLET && bpf_map_lookup_elem(&denied, &w->key)) {
		w->found = 1;
		return 1;
	}
	if (w->nth >= 1 && !starts_itself(&w->key)) /* `busybox busybox nc` goes on */
		return 1;
	if (++w->nth >= MAX_ARGS) {
		w->found = 1;
		return 1;
	}
	__builtin_memset(w->key.applet, 0, WATCH_APPLET);
	w->pos = 0;
	return 0;
}

/* The program is there under the name of an applet: is it that one? What is too long to look through is. */
static __noinline int applet_denied(struct watch_deny_key *key, unsigned long from, unsigned long to)
{
	struct arg_walk w;
	long steps;

	/* Zeroes that the verifier does not know to be zeroes: kernels before 6.7 look at the callback as if it ran once, and would take
	 * out every branch that only a later byte can reach. A read that fails fills with zeroes. */
	(void)bpf_probe_read_kernel(&w, sizeof(w), NULL);
	w.key.tree = key->tree;
	w.key.dev = key->dev;
	w.key.ino = key->ino;
	w.at = from;
	w.end = to;
	steps = bpf_loop(MAX_ARG_BYTES, walk_arg, &w, 0);
	return w.found || steps >= MAX_ARG_BYTES;
}

static __always_inline bool is_denied(struct note *n, struct task_struct *task)
{
	struct watch_deny_key key = { .tree = n->tree, .dev = n->dev, .ino = n->ino };
	struct watch_deny *row = bpf_map_lookup_elem(&denied, &key);
	__u32 always, applets;

	if (!row)
		return false;
	always = row->always;
	applets = row->applets;
	if (always)
		return true;
	if (!applets || !applet_denied(&key, task->mm->arg_start, task->mm->arg_end))
		return false;
	n->flags |= WATCH_F_APPLET;
	return true;
}

static __always_inline void fill_exec(struct watch_event *ev, struct task_struct *task, struct linux_binprm *bprm)
{
	unsigned long from = task->mm->arg_start, n = task->mm->arg_end - from;
	const char *name = bprm->filename;
	long got = bpf_probe_read_kernel_str(ev->path, sizeof(ev->path), name);
	char more = 0;

	if (got > 0)
		ev->path_len = (__u32)(got - 1);
	if (got == WATCH_PATH && bpf_probe_read_kernel(&more, 1, name + WATCH_PATH - 1) == 0 && more)
		ev->flags |= WATCH_F_PATH_CUT;
	if (n > WATCH_ARGV) {
		n = WATCH_ARGV;
		ev->flags |= WATCH_F_ARGV_CUT;
	}
	asm volatile("" : "+r"(n));
	if (n > 0 && n <= WATCH_ARGV && bpf_probe_read_user(ev->argv, (__u32)n, (void *)from) == 0)
		ev->argv_len = (__u32)n;
}

static __always_inline void event_exec(struct watch_slot *tree, const struct note *n, struct task_struct *task, struct linux_binprm *bprm)
{
	struct watch_event *ev = event_new(tree, n, task);

	if (!ev)
		return;
	fill_exec(ev, task, bprm);
	bpf_ringbuf_submit(ev, n->kind == WATCH_EXEC ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

/* Why this program must not run, by itself; 0: it may. */
static __always_inline __u32 exec_why(struct note *n, struct task_struct *task, struct inode *inode)
{
	if (inode->i_nlink == 0)
		return WHY_FILELESS;
	return is_denied(n, task) ? WHY_DENY_EXEC : 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct watch_tag *tag = bpf_task_storage_get(&tags, task, 0, 0);
	struct note n = { .kind = WATCH_EXEC };
	struct watch_slot *tree;
	struct inode *inode;
	__u64 rate, limit;
	bool dies = false;

	if (!tag)
		return 0;
	(void)old_pid;
	tree = tree_of(tag);
	n.tree = tag->tree;
	inode = bprm->file->f_inode;
	n.dev = inode->i_sb->s_dev;
	n.ino = inode->i_ino;
	if (!tree) {
		n.why = WHY_NO_TREE;
		n.kind = WATCH_KILL;
		kill_current();
		event_exec(NULL, &n, task, bprm);
		return 0;
	}
	__sync_fetch_and_add(&tree->execs, 1);
	if (tree->killed || tag->doomed) {
		kill_current();
		return 0;
	}
	limit = tree->limits.exec_rate;
	if (limit) {
		rate = count_rate(&tree->exec_window);
		if (rate > limit)
			dies = breach(tree, task, WHY_EXEC_RATE, rate, limit);
	}
	n.why = exec_why(&n, task, inode);
	if (n.why) {
		n.kind = WATCH_KILL;
		if (tree->flags & ATTACH_LOG_ONLY)
			n.flags |= WATCH_F_LOG_ONLY;
		else
			dies = true;
	}
	if (dies)
		kill_current();
	if (n.why || tree->flags & ATTACH_EVENTS)
		event_exec(tree, &n, task, bprm);
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
