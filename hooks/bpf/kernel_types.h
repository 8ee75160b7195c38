/* hooks/bpf/kernel_types.h - the few fields of the kernel's types that guard.bpf.c reads, by name: libbpf finds where they really are
 * when it loads the object (CO-RE), so no header of a kernel is needed to build, and one object runs on 6.1 to 6.18. Constants are the
 * kernel's interface to programs and do not change. Nothing here is a layout. */
#ifndef PAWL_KERNEL_TYPES_H
#define PAWL_KERNEL_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
#define bool _Bool
#define true 1
#define false 0
#define NULL ((void *)0)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_ANY = 0,
};
enum { SIGKILL = 9, PF_EXITING = 4, MM_FILEPAGES = 0, MM_ANONPAGES = 1, MM_SHMEMPAGES = 3, PAGE_BYTES_SHIFT = 12 };
enum pid_type { PIDTYPE_PID, PIDTYPE_TGID };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	int counter;
} atomic_t;
struct kernfs_node {
	__u64 id;
};
struct cgroup_root {
	int hierarchy_id; /* 0: the v2 hierarchy */
};
struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	struct cgroup *ancestors[]; /* of itself too, at its level */
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct percpu_counter {
	__s64 count;
};
struct mm_struct {
	unsigned long arg_start, arg_end;
	struct percpu_counter rss_stat[4]; /* since 6.2 */
};
typedef struct {
	__s64 counter;
} atomic_long_t;
struct mm_rss_stat {
	atomic_long_t count[4];
};
struct mm_struct___before_6_2 {
	struct mm_rss_stat rss_stat;
};
struct signal_struct {
	atomic_t live;
};
struct task_struct {
	int pid, tgid;
	unsigned int flags;
	__u64 start_boottime;
	struct task_struct *group_leader, *real_parent;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct css_set *cgroups;
	char comm[16];
};
struct super_block {
	__u32 s_dev;
};
struct inode {
	unsigned long i_ino;
	unsigned int i_nlink;
	struct super_block *i_sb;
};
struct file {
	struct inode *f_inode;
};
struct linux_binprm {
	struct file *file;
	const char *filename;
};
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop
struct bpf_perf_event_data;
#endif
