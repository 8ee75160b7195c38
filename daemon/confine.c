/* daemon/confine.c - see confine.h. */
#include "daemon/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

PAWL_PRINTF(4, 5) static void say(struct probe *p, const char *name, enum probe_state state, const char *fmt, ...)
{
	va_list ap;

	p->name = name;
	p->state = state;
	va_start(ap, fmt);
	(void)vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

const char *probe_state_name(enum probe_state s)
{
	return s == PROBE_ON ? "on" : s == PROBE_PARTIAL ? "partial" : "off";
}

static int drop_user(const char *name, struct probe *p, struct pawl_error *err)
{
	const struct passwd *pw;

	if (!name[0]) {
		if (geteuid() == 0)
			say(p, "user", PROBE_PARTIAL, "runs as uid 0 without capabilities; --user NAME gives it a uid of its own");
		else
			say(p, "user", PROBE_ON, "uid %u", (unsigned)geteuid());
		return 0;
	}
	errno = 0;
	pw = getpwnam(name);
	if (!pw)
		return pawl_fail(err, PAWL_E_USAGE, "--user %s: no such user", name);
	if (geteuid() != 0 && geteuid() != pw->pw_uid)
		return pawl_fail(err, PAWL_E_USAGE, "--user %s: only root can become another user", name);
	if (geteuid() == 0) {
		if (setgroups(0, NULL) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 || setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
			return pawl_fail_errno(err, "cannot become user %s", name);
		if (pw->pw_uid != 0 && setuid(0) == 0) /* it must not be possible to come back */
			return pawl_fail(err, PAWL_E_UNSAFE, "still able to become root after becoming %s", name);
	}
	say(p, "user", pw->pw_uid ? PROBE_ON : PROBE_PARTIAL, "uid %u", (unsigned)pw->pw_uid);
	return 0;
}

/* Before the uid changes: it takes CAP_SETPCAP with it. */
static void drop_bounding_set(void)
{
	for (int cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EPERM)
			break; /* not root: nothing in it could be used */
}

static int drop_capabilities(struct probe *p, struct pawl_error *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } }, now[2];

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0)
		return pawl_fail_errno(err, "cannot drop capabilities");
	if (syscall(SYS_capget, &head, now) < 0 || now[0].effective || now[1].effective || now[0].permitted || now[1].permitted)
		return pawl_fail(err, PAWL_E_UNSAFE, "capabilities are still there after dropping them");
	say(p, "capabilities", PROBE_ON, "none held");
	return 0;
}

/* ---- Landlock: the folders it works in, and reading what it was told to read ---- */

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK)
#define FS_ALL_ABI1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)	/* ABI 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14) /* ABI 3 */

static int allow_path(int ruleset, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access };
	struct stat st;
	int r;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return -1;
	if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE;
	r = (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	(void)close(rule.parent_fd);
	return r;
}

/* The folder of a file: a reload opens the file that was renamed over the old one. */
static int allow_folder_of(int ruleset, const char *path, uint64_t access)
{
	char folder[PAWL_MAX_PATH];
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (!slash)
		return allow_path(ruleset, ".", access);
	memcpy(folder, path, n);
	folder[n] = '\0';
	return allow_path(ruleset, n ? folder : "/", access);
}

static void landlock(const struct options *opt, struct probe *p)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	uint64_t handled = FS_ALL_ABI1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
	uint64_t write = FS_WRITE | (abi >= 3 ? FS_TRUNCATE : 0);
	struct landlock_ruleset_attr attr = { .handled_access_fs = handled };
	int fd;

	if (abi < 1) {
		say(p, "landlock", PROBE_OFF, "%s", errno == ENOSYS ? "this kernel has none" : "switched off at boot");
		return;
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0) {
		say(p, "landlock", PROBE_OFF, "%s", strerror(errno));
		return;
	}
	(void)allow_path(fd, opt->operators, FS_READ); /* may not be there: nobody is enrolled then */
	(void)allow_path(fd, "/usr/share/zoneinfo", FS_READ);
	if (!opt->no_watch) /* which tree a peer runs in: /proc/PID/cgroup (door/peer_tree.c) */
		(void)allow_path(fd, "/proc", LANDLOCK_ACCESS_FS_READ_FILE);
	if (allow_path(fd, opt->state, write) < 0 || allow_path(fd, opt->log, write) < 0 || allow_folder_of(fd, opt->socket, write) < 0 ||
	    allow_folder_of(fd, opt->operator_socket, write) < 0 || allow_folder_of(fd, opt->watch_socket, write) < 0 ||
	    allow_folder_of(fd, opt->policy, FS_READ) < 0 ||
	    allow_path(fd, opt->key, FS_READ) < 0)
		say(p, "landlock", PROBE_OFF, "a folder could not be named: %s", strerror(errno));
	else if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		say(p, "landlock", PROBE_OFF, "%s", strerror(errno));
	else
		say(p, "landlock", PROBE_ON, "ABI %ld: only its own folders and the policy's", abi);
	(void)close(fd);
}

/* ---- seccomp: calls that a judge has no use for. A list of refusals, because libc and SQLite choose their own calls. ---- */

static const unsigned short refused[] = {
	SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot,
	SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_keyctl, SYS_add_key,
	SYS_request_key, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_unshare, SYS_setns, SYS_open_by_handle_at,
	SYS_name_to_handle_at, SYS_personality, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_settimeofday, SYS_clock_settime,
	SYS_sethostname, SYS_setdomainname, SYS_kcmp, SYS_pidfd_getfd, SYS_move_mount, SYS_fsopen, SYS_open_tree,
	SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_kexec_file_load, SYS_adjtimex, SYS_clock_adjtime, SYS_pidfd_open,
#ifdef SYS_mount_setattr
	SYS_mount_setattr,
#endif
#if defined(__x86_64__)
	SYS_iopl, SYS_ioperm,
#endif
};
_Static_assert(PAWL_LEN(refused) + 3 <= 255, "a jump of the filter reaches 255 instructions");
#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

static void seccomp(struct probe *p)
{
#ifdef OUR_ARCH
	enum { REFUSED = PAWL_LEN(refused) };
	struct sock_filter f[REFUSED + 16];
	unsigned short n = 0;
	struct sock_fprog prog = { .filter = f };
	const uint32_t no = SECCOMP_RET_ERRNO | EPERM;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, no);
#endif
	for (size_t i = 0; i < REFUSED; i++) {
		/* equal: to the last instruction, which refuses */
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], (unsigned char)(REFUSED - i + 3), 0);
	}
	/* socket(2): AF_UNIX alone */
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1 /* AF_UNIX */, 0, 1);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, no);
	prog.len = n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
		say(p, "seccomp", PROBE_OFF, "%s", strerror(errno));
	else
		say(p, "seccomp", PROBE_ON, "%d calls refused, sockets AF_UNIX only", REFUSED);
#else
	say(p, "seccomp", PROBE_OFF, "no filter for this architecture");
#endif
}

bool confine_connect(void)
{
#ifdef OUR_ARCH
	struct sock_filter f[] = { /* after the first filter, which ends what comes by another architecture */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = PAWL_LEN(f), .filter = f };
	long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);

	if (r > 0) /* the thread that could not be taken along; errno says nothing of it */
		errno = EBUSY;
	return r == 0;
#else
	errno = ENOSYS;
	return false;
#endif
}

int confine(const struct options *opt, struct probe ret[static CONFINE_PROBES], struct pawl_error *err)
{
	struct rlimit no_core = { 0, 0 };
	int r;

	drop_bounding_set();
	r = drop_user(opt->user, &ret[CONFINE_USER], err);
	if (r == 0)
		r = drop_capabilities(&ret[CONFINE_CAPABILITIES], err);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return pawl_fail_errno(err, "no_new_privs");
	say(&ret[CONFINE_NO_NEW_PRIVS], "no_new_privs", PROBE_ON, "set");
	(void)setrlimit(RLIMIT_CORE, &no_core); /* keys and tree secrets are in memory */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	landlock(opt, &ret[CONFINE_LANDLOCK]);
	seccomp(&ret[CONFINE_SECCOMP]);
	(void)umask(0177);
	return 0;
}
