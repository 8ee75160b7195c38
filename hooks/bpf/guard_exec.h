/* hooks/bpf/guard_exec.h - a part of guard.bpf.c: a program was started. It is looked at as the file that the kernel has loaded, never by a name
 * that somebody can change meanwhile; only which applet of a multi-call binary it is can be told from nothing but its arguments. */
#ifndef PAWL_GUARD_EXEC_H
#define PAWL_GUARD_EXEC_H
#include "hooks/bpf/guard_common.h"

#define MAX_ARGS 6 /* of a multi-call binary that starts itself again */
#define MAX_ARG_BYTES 4096

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

	return (a[0] == 'b' && a[1] == 'u' && a[2] == 's' && a[3] == 'y' && a[4] == 'b' && a[5] == 'o' && a[6] == 'x') ||
	       (a[0] == 't' && a[1] == 'o' && a[2] == 'y' && a[3] == 'b' && a[4] == 'o' && a[5] == 'x');
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
	if (c == '/' || c == '=') { /* of a path, or of --coreutils-prog=nc */
		__builtin_memset(w->key.applet, 0, WATCH_APPLET);
		w->pos = 0;
		return 0;
	}
	if (c) {
		if (c == '-' && pos == 0 && w->nth == 0) /* a login shell's */
			return 0;
		/* not a store: the verifier of 6.8.0 keeps the byte that it saw in a register, forgets it, and then refuses to have it read */
		if (pos < WATCH_APPLET - 1)
			(void)bpf_probe_read_kernel(&w->key.applet[pos & (WATCH_APPLET - 1)], 1, &c);
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
#endif
