/* hooks/run/filter.c - see steps.h. A static seccomp filter: calls that undo the watch, look into or change other processes, or reach the
 * kernel by a side door. A list of refusals, since nobody knows what a command needs; docs/watch.md has it as a table.
 * Every nested program has it too, and no new privileges, so it cannot be taken off. */
#include "hooks/run/steps.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define SYS_OPEN_TREE_ATTR 467 /* newer than our headers */
#define TIOCLINUX_ 0x541C

static const unsigned short refused[] = {
	/* a ring makes calls that no filter sees */
	SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
	/* other processes: their memory, registers, descriptors */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd,
	/* the kernel itself */
	SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
	SYS_add_key, SYS_request_key, SYS_keyctl,
	/* around the mount namespace */
	SYS_open_by_handle_at, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
	SYS_open_tree, SYS_mount_setattr, SYS_OPEN_TREE_ATTR, SYS_setns,
};
#define MAX_FILTER 112
_Static_assert(PAWL_LEN(refused) + 56 <= MAX_FILTER, "room, and jumps of at most 255");

#ifdef OUR_ARCH
struct prog {
	struct sock_filter f[MAX_FILTER];
	unsigned short n;
};

#define ADD(p, ...) ((p)->f[(p)->n++] = (struct sock_filter)__VA_ARGS__)
#define LOAD(p, what) ADD(p, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(what)))
/* The low half of an argument: what the kernel takes of an int, and all of the flags looked at here. */
#define ARG(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define SAY(p, e) ADD(p, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e)))
#define ALLOW(p) ADD(p, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW))

/* nr: refused with EPERM where one of the bits is set in an argument. The accumulator is the number again after it. */
static void refuse_flag(struct prog *p, unsigned nr, unsigned arg, unsigned bits)
{
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4));
	LOAD(p, ARG(arg));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
	SAY(p, EPERM);
	ALLOW(p);
}

/* Limits of another process of this uid: one on its processor time or its files is a kill, and no signal. Looking is free. */
static void only_own_limits(struct prog *p)
{
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 8));
	LOAD(p, ARG(0)); /* whose: 0 is the caller */
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, 0));
	LOAD(p, ARG(2)); /* the new ones, a pointer */
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2));
	LOAD(p, ARG(2) + 4); /* the upper half; each OUR_ARCH is little-endian */
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
	SAY(p, EPERM);
	ALLOW(p);
}

static void only_sockets(struct prog *p, unsigned nr)
{
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 7));
	LOAD(p, ARG(0));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 4, 0));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 3, 0));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 2, 0));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 1, 0));
	SAY(p, EAFNOSUPPORT);
	ALLOW(p);
}

static void build(struct prog *p)
{
	LOAD(p, offsetof(struct seccomp_data, arch));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0));
	ADD(p, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)); /* the other numbers mean other calls */
	LOAD(p, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	SAY(p, EPERM);
#endif
	for (size_t i = 0; i < PAWL_LEN(refused); i++) /* equal: to the instruction behind the list */
		ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], (unsigned char)(PAWL_LEN(refused) - i), 0));
	ADD(p, BPF_STMT(BPF_JMP | BPF_JA, 1));
	SAY(p, EPERM);
	/* its flags lie in memory, where a filter cannot look; every libc falls back to clone(2) */
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
	SAY(p, ENOSYS);
	refuse_flag(p, SYS_clone, 0, CLONE_NEWUSER);
	refuse_flag(p, SYS_unshare, 0, CLONE_NEWUSER);
	only_own_limits(p);
	only_sockets(p, SYS_socket);
	only_sockets(p, SYS_socketpair);
	/* typing into the terminal that a shell outside will read */
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4));
	LOAD(p, ARG(1));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 1, 0));
	ADD(p, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX_, 0, 1));
	SAY(p, EPERM);
	ALLOW(p);
}

int filter_enter(struct pawl_error *err)
{
	struct prog p = { .n = 0 };
	struct sock_fprog prog;

	build(&p);
	prog = (struct sock_fprog){ .len = p.n, .filter = p.f };
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
		return pawl_fail_errno(err, "no seccomp filter");
	return 0;
}
#else
int filter_enter(struct pawl_error *err)
{
	(void)refused;
	return pawl_fail(err, PAWL_E_SYS, "no seccomp filter for this architecture");
}
#endif
