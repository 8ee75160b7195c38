/* test_launch.c - the launcher's steps in children that take them, as root and as nobody: what a command under `pawl run` can not do, and the
 * everyday things that it still can. A child's exit status is its answer: 0, or the errno of the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hooks/run/launch.h"
#include "hooks/run/steps.h"
#include "tests/support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define SAID_NOTHING 200 /* a step failed in the child */
#define SKIPPED 201

static char folder[64]; /* 0755, with secret/key and door.sock in it */

static int wait_for(pid_t pid)
{
	int st;

	assert_int_equal(waitpid(pid, &st, 0), pid);
	return WIFSIGNALED(st) ? 256 + WTERMSIG(st) : WEXITSTATUS(st);
}

static void as(uid_t uid)
{
	/* dumpable, as after an exec: else /proc/self is root's */
	if (uid != 0 && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
		_exit(SAID_NOTHING);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip_aloud("root");
}

/* ---- the filter ---- */

enum how { CALL, CLONE_NS, SOCKET, PAIR, IOCTL, LIMIT };
enum { OWN_NEW, OTHER_OLD, OTHER_NEW };
static const struct {
	const char *name;
	enum how how;
	long nr; /* or the family, or the request */
	int want;
} calls[] = {
	{ "io_uring_setup", CALL, SYS_io_uring_setup, EPERM },
	{ "io_uring_enter", CALL, SYS_io_uring_enter, EPERM },
	{ "io_uring_register", CALL, SYS_io_uring_register, EPERM },
	{ "ptrace", CALL, SYS_ptrace, EPERM },
	{ "process_vm_readv", CALL, SYS_process_vm_readv, EPERM },
	{ "process_vm_writev", CALL, SYS_process_vm_writev, EPERM },
	{ "pidfd_getfd", CALL, SYS_pidfd_getfd, EPERM },
	{ "bpf", CALL, SYS_bpf, EPERM },
	{ "perf_event_open", CALL, SYS_perf_event_open, EPERM },
	{ "userfaultfd", CALL, SYS_userfaultfd, EPERM },
	{ "kexec_load", CALL, SYS_kexec_load, EPERM },
	{ "kexec_file_load", CALL, SYS_kexec_file_load, EPERM },
	{ "init_module", CALL, SYS_init_module, EPERM },
	{ "finit_module", CALL, SYS_finit_module, EPERM },
	{ "delete_module", CALL, SYS_delete_module, EPERM },
	{ "add_key", CALL, SYS_add_key, EPERM },
	{ "request_key", CALL, SYS_request_key, EPERM },
	{ "keyctl", CALL, SYS_keyctl, EPERM },
	{ "open_by_handle_at", CALL, SYS_open_by_handle_at, EPERM },
	{ "mount", CALL, SYS_mount, EPERM },
	{ "umount2", CALL, SYS_umount2, EPERM },
	{ "pivot_root", CALL, SYS_pivot_root, EPERM },
	{ "move_mount", CALL, SYS_move_mount, EPERM },
	{ "fsopen", CALL, SYS_fsopen, EPERM },
	{ "fsconfig", CALL, SYS_fsconfig, EPERM },
	{ "fsmount", CALL, SYS_fsmount, EPERM },
	{ "fspick", CALL, SYS_fspick, EPERM },
	{ "open_tree", CALL, SYS_open_tree, EPERM },
	{ "mount_setattr", CALL, 442, EPERM },
	{ "open_tree_attr", CALL, 467, EPERM },
	{ "setns", CALL, SYS_setns, EPERM },
	{ "clone3", CALL, SYS_clone3, ENOSYS },
#if defined(__x86_64__)
	{ "x32 getpid", CALL, 0x40000000 + SYS_getpid, EPERM },
	{ "x32 io_uring_setup", CALL, 0x40000000 + SYS_io_uring_setup, EPERM },
#endif
	{ "unshare of a user namespace", CLONE_NS, SYS_unshare, EPERM },
	{ "clone with a user namespace", CLONE_NS, SYS_clone, EPERM },
	{ "AF_UNIX", SOCKET, AF_UNIX, 0 },
	{ "AF_INET", SOCKET, AF_INET, 0 },
	{ "AF_INET6", SOCKET, AF_INET6, 0 },
	{ "AF_NETLINK", SOCKET, AF_NETLINK, 0 },
	{ "AF_PACKET", SOCKET, AF_PACKET, EAFNOSUPPORT },
	{ "AF_VSOCK", SOCKET, AF_VSOCK, EAFNOSUPPORT },
	{ "AF_ALG", SOCKET, AF_ALG, EAFNOSUPPORT },
	{ "AF_UNSPEC", SOCKET, AF_UNSPEC, EAFNOSUPPORT },
	{ "a pair of AF_UNIX", PAIR, AF_UNIX, 0 },
	{ "a pair of AF_PACKET", PAIR, AF_PACKET, EAFNOSUPPORT },
	{ "TIOCSTI", IOCTL, TIOCSTI, EPERM },
	{ "TIOCLINUX", IOCTL, 0x541C, EPERM },
	{ "another ioctl", IOCTL, FIONREAD, ENOTTY },
	{ "own new limits", LIMIT, OWN_NEW, 0 },
	{ "another's limits", LIMIT, OTHER_OLD, 0 },
	{ "another's new limits", LIMIT, OTHER_NEW, EPERM },
	{ "getpid", CALL, SYS_getpid, 0 },
};

static int call(size_t i)
{
	const struct rlimit lim = { 0, 0 };
	int pair[2], fd;
	long r = -1;

	errno = 0;
	switch (calls[i].how) {
	case CALL: /* arguments that the kernel would refuse in another way */
		r = syscall(calls[i].nr, -1L, -1L, -1L, -1L, -1L, -1L);
		break;
	case CLONE_NS:
		r = calls[i].nr == SYS_clone ? syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) : syscall(SYS_unshare, CLONE_NEWUSER);
		if (r == 0 && calls[i].nr == SYS_clone)
			_exit(0);
		break;
	case SOCKET:
		r = socket((int)calls[i].nr, calls[i].nr == AF_ALG ? SOCK_SEQPACKET : calls[i].nr == AF_NETLINK ? SOCK_RAW : SOCK_STREAM, 0);
		break;
	case PAIR:
		r = socketpair((int)calls[i].nr, SOCK_STREAM, 0, pair);
		break;
	case IOCTL:
		fd = open("/dev/null", O_RDWR);
		r = ioctl(fd, (unsigned long)calls[i].nr, "");
		break;
	case LIMIT: /* of ourselves, by number: for the filter that is another */
		r = prlimit(calls[i].nr == OWN_NEW ? 0 : getpid(), RLIMIT_CORE, calls[i].nr == OTHER_OLD ? NULL : &lim, NULL);
		break;
	}
	return r < 0 ? errno : 0;
}

/* In a child with the filter or without; 0: the call worked. */
static int tried(size_t i, uid_t uid, bool filter)
{
	struct pawl_error err = { .code = PAWL_OK };
	pid_t pid = fork();

	if (pid == 0) {
		as(uid);
		if (filter && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_enter(&err) < 0))
			_exit(SAID_NOTHING);
		_exit(call(i));
	}
	return wait_for(pid);
}

static void test_filter(void **state)
{
	uid_t uids[] = { geteuid(), NOBODY };

	(void)state;
	for (size_t u = 0; u < (geteuid() == 0 ? 2 : 1); u++)
		for (size_t i = 0; i < PAWL_LEN(calls); i++) {
			int got = tried(i, uids[u], true);

			if (got != calls[i].want)
				fail_msg("%s as %u: %d (%s), not %d", calls[i].name, uids[u], got, strerror(got), calls[i].want);
		}
}

/* Rows where the kernel would say something else without the filter, so that a filter that does nothing is seen: those of nobody and root
 * are enough to see that the table is not about the kernel's own refusals. */
static void test_filter_is_what_refuses(void **state)
{
	static const char *const names[] = { "io_uring_setup", "pidfd_getfd", "ptrace", "mount_setattr", "AF_PACKET", "a pair of AF_PACKET", "unshare of a user namespace",
					     "TIOCSTI", "clone with a user namespace", "x32 getpid", "another's new limits" };

	(void)state;
	need_root();
	for (size_t n = 0; n < PAWL_LEN(names); n++) {
		if (strstr(names[n], "user namespace") && !a_child_may(makes_user_namespace)) {
			leave_out(USER_NAMESPACE);
			continue;
		}
		for (size_t i = 0; i < PAWL_LEN(calls); i++)
			if (strcmp(calls[i].name, names[n]) == 0 && tried(i, 0, false) == calls[i].want)
				fail_msg("%s gives %d without a filter too", names[n], calls[i].want);
	}
}

#if defined(__x86_64__)
/* The numbers of the 32-bit table mean other calls: nothing is looked up in ours. */
static void test_another_architecture(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	pid_t pid;

	(void)state;
	for (int filter = 0; filter < 2; filter++) {
		int got;

		pid = fork();
		if (pid == 0) {
			long r = 20; /* getpid */

			if (filter && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_enter(&err) < 0))
				_exit(SAID_NOTHING);
			__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
			_exit(r == getpid() ? 0 : 1);
		}
		got = wait_for(pid);
		if (!filter && got != 0)
			skip_aloud("a kernel that runs 32-bit programs");
		assert_int_equal(got, filter ? 256 + SIGSYS : 0);
	}
}
#endif

static void *thread(void *arg)
{
	*(int *)arg = 7;
	return NULL;
}

extern char **environ;

/* clone3 is refused: what libc does in its place works. */
static void test_filter_lets_programs_start(void **state)
{
	struct pawl_error err = { .code = PAWL_OK };
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		char *argv[] = { (char[]){ "true" }, NULL };
		pthread_t t;
		pid_t other;
		int got = 0, st = 1;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_enter(&err) < 0 || pthread_create(&t, NULL, thread, &got) != 0 ||
		    pthread_join(t, NULL) != 0 || got != 7)
			_exit(1);
		if (posix_spawn(&other, "/bin/true", NULL, NULL, argv, environ) != 0 || waitpid(other, &st, 0) != other || st != 0)
			_exit(2);
		other = vfork();
		if (other == 0)
			_exit(0);
		_exit(waitpid(other, &st, 0) == other && st == 0 ? 0 : 3);
	}
	assert_int_equal(wait_for(pid), 0);
}

/* ---- hidden paths and Landlock, through the whole launcher: what a shell under it can do ---- */

struct door {
	int fd;
	char path[128];
};

static void listen_at(struct door *d, const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(d->path, sizeof(d->path), "%s/%s", folder, name);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", d->path);
	d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(d->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(d->fd, 4), 0);
	assert_int_equal(chmod(d->path, 0666), 0);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static int setup(void **state)
{
	char path[128];

	(void)state;
	assert_int_equal(chdir("/"), 0); /* the checkout may be closed to nobody */
	(void)snprintf(folder, sizeof(folder), "/tmp/pawl-launch-XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/secret", folder);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(chmod(path, 0777), 0);
	(void)snprintf(path, sizeof(path), "%s/work", folder);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chmod(path, 0777), 0);
	write_file("secret/key", "KEY", 0644);
	write_file("policy", "POLICY", 0666);
	write_file("open", "OPEN", 0666);
	return 0;
}

static int teardown(void **state)
{
	char command[160];
	char *argv[] = { (char[]){ "rm" }, (char[]){ "-rf" }, command, NULL };
	pid_t pid;

	(void)state;
	(void)snprintf(command, sizeof(command), "%s", folder);
	if (posix_spawn(&pid, "/bin/rm", NULL, NULL, argv, environ) == 0)
		(void)wait_for(pid);
	return 0;
}

/* Runs a Python expression under the launcher as uid; its exit status. Status 125: ret_said has why. */
static int launched_after(void (*before)(void), const char *script, const struct launch_rules *rules, uid_t uid, struct launch_said *ret_said)
{
	char text[2048];
	char *argv[] = { (char[]){ "/usr/bin/python3" }, (char[]){ "-c" }, text, folder, NULL };
	struct pawl_error err = { .code = PAWL_OK };
	struct launch_child c = { .pidfd = -1, .channel = -1 };
	sigset_t none;
	pid_t pid;

	(void)sigemptyset(&none);
	(void)snprintf(text, sizeof(text), "%s", script);
	pid = fork(); /* so that uid is that of `pawl run` too */
	if (pid == 0) {
		struct launch_rules mine = *rules;
		int st;

		as(uid);
		if (before)
			before();
		mine.session = "{\"session\":\"s_1\"}";
		if (launch_fork(argv, &none, &none, &c, &err) < 0 || launch_go(&c, &mine, ret_said, &err) < 0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			_exit(SAID_NOTHING);
		}
		if (ret_said->status)
			(void)fprintf(stderr, "not launched: %s\n", ret_said->text);
		if (waitpid(c.pid, &st, 0) != c.pid)
			_exit(SAID_NOTHING);
		_exit(WIFEXITED(st) ? WEXITSTATUS(st) : SAID_NOTHING);
	}
	return wait_for(pid);
}

static int launched(const char *script, const struct launch_rules *rules, uid_t uid, struct launch_said *ret_said)
{
	return launched_after(NULL, script, rules, uid, ret_said);
}

#define PY "import os,sys,socket,errno\nd=sys.argv[1]\n"          \
	   "def no(f,*a):\n"                                            \
	   "    try: f(*a)\n"                                           \
	   "    except OSError as e: return e.errno\n"                  \
	   "    return 0\n"                                             \
	   "def connect(p): socket.socket(socket.AF_UNIX).connect(p)\n" \
	   "def want(got,*ok):\n"                                       \
	   "    if got not in ok: print(got,ok,file=sys.stderr); sys.exit(1)\n"

/* Hidden: folder/secret, folder/policy, folder/door.sock */
static const char hidden_script[] = PY
	"want(os.listdir(d+'/secret'),[])\n"
	"want(no(open,d+'/secret/key'),errno.ENOENT)\n"
	"want(no(open,d+'/secret/new','w'),errno.EROFS,errno.EACCES)\n"
	"want(no(open,d+'/policy'),errno.EACCES)\n"
	"want(no(open,d+'/policy','w'),errno.EACCES,errno.EROFS)\n"
	"want(no(connect,d+'/door.sock'),errno.ECONNREFUSED,errno.EACCES)\n"
	"want(no(os.rename,d+'/secret',d+'/s2'),errno.EBUSY,errno.EACCES)\n"
	"want(no(os.unlink,d+'/door.sock'),errno.EBUSY,errno.EACCES)\n"
	"want(no(os.listdir,'/proc/%d/root'%os.getppid()),errno.EACCES)\n"
	"want(no(os.kill,os.getppid(),0),errno.EPERM)\n"
	"want(no(connect,d+'/agent.sock'),0)\n"
	"want(open(d+'/open').read(),'OPEN')\n"
	"open(d+'/work/new','w').write('x'); os.unlink(d+'/work/new')\n";

static const struct {
	const char *name;
	uid_t uid, to; /* who launches; who the command is */
} whos[] = { { "root as nobody", 0, NOBODY }, { "uid 0 under Landlock", 0, 0 }, { "a plain user", NOBODY, NOBODY } };

static void test_hidden(void **state)
{
	struct launch_rules rules = { .head = { .n_hide = 3 } };
	struct door door, agent;
	char secret[128], policy[128];

	(void)state;
	need_root();
	if (landlock_abi() < 6)
		skip_aloud("Landlock ABI 6");
	listen_at(&door, "door.sock");
	listen_at(&agent, "agent.sock");
	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	(void)snprintf(policy, sizeof(policy), "%s/policy", folder);
	rules.hide[0] = secret;
	rules.hide[1] = policy;
	rules.hide[2] = door.path;
	rules.agent_socket = agent.path;
	for (size_t i = 0; i < PAWL_LEN(whos); i++) {
		struct launch_said said = { .status = 0 };
		int got;

		if (whos[i].uid && !a_child_may(makes_user_namespace)) {
			leave_out(USER_NAMESPACE);
			continue;
		}
		rules.head.flags = whos[i].uid != whos[i].to ? LAUNCH_USER : 0;
		rules.head.uid = rules.head.gid = whos[i].to;
		got = launched(hidden_script, &rules, whos[i].uid, &said);
		if (got != 0)
			fail_msg("%s: %d", whos[i].name, got);
	}
	(void)close(door.fd);
	(void)close(agent.fd);
	(void)unlink(door.path);
	(void)unlink(agent.path);
}

/* As AppArmor has it on Ubuntu: a user namespace may be made, and nothing be done in it. */
static void no_mounts(void)
{
	struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 0, 1),
				   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog p = { .len = PAWL_LEN(f), .filter = f };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0)
		_exit(SAID_NOTHING);
}

static void test_hidden_without_mounts(void **state)
{
	static const char script[] = PY "want(no(open,d+'/secret/key'),errno.EACCES)\n"
					"want(os.listdir(d+'/secret'),['key'])\n" /* nothing is mounted over it */
					"want(open(d+'/open').read(),'OPEN')\n";
	struct launch_rules rules = { .head = { .n_hide = 1, .uid = NOBODY, .gid = NOBODY } };
	struct launch_said said = { .status = 0 };
	char secret[128];

	(void)state;
	need_root();
	if (landlock_abi() < 1)
		skip_aloud("Landlock");
	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	rules.hide[0] = secret;
	assert_int_equal(launched_after(no_mounts, script, &rules, NOBODY, &said), 0);
}

/* The folder it was started in is hidden: an open folder is no way in. */
static void test_hidden_from_inside(void **state)
{
	static const char script[] = PY "want(os.listdir('.'),[])\nwant(no(open,'key'),errno.ENOENT)\n";
	struct launch_rules rules = { .head = { .n_hide = 1, .flags = LAUNCH_USER, .uid = NOBODY, .gid = NOBODY } };
	struct launch_said said = { .status = 0 };
	char secret[128];

	(void)state;
	need_root();
	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	rules.hide[0] = secret;
	assert_int_equal(chdir(secret), 0);
	assert_int_equal(launched(script, &rules, 0, &said), 0);
	assert_int_equal(chdir("/"), 0);
}

/* The same file system is mounted elsewhere, and so is a folder of what is hidden: other names are no way in. In a child with mounts of its own. */
static int in_other_places(void)
{
	static const char script[] = PY "want(os.listdir(d+'/whole/secret'),[])\nwant(no(open,d+'/whole/policy','r+'),errno.EACCES)\n"
				       "want(os.listdir(d+'/part \\\\ of'),[])\nwant(sorted(os.listdir(d+'/whole'))==sorted(os.listdir(d)),True)\n";
	char secret[128], policy[128], below[128], file[160], whole[128], part[128];
	struct launch_rules rules = { .head = { .n_hide = 2 }, .hide = { secret, policy } };
	struct launch_said said = { .status = 0 };

	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	(void)snprintf(policy, sizeof(policy), "%s/policy", folder);
	(void)snprintf(below, sizeof(below), "%s/secret/below", folder);
	(void)snprintf(whole, sizeof(whole), "%s/whole", folder);
	(void)snprintf(part, sizeof(part), "%s/part \\ of", folder);
	if (mkdir(below, 0755) < 0 || mkdir(whole, 0755) < 0 || mkdir(part, 0755) < 0)
		return 10;
	(void)snprintf(file, sizeof(file), "%s/file", below);
	if (close(open(file, O_WRONLY | O_CREAT, 0644)) < 0)
		return 11;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount(folder, whole, NULL, MS_BIND, NULL) < 0 ||
	    mount(below, part, NULL, MS_BIND, NULL) < 0)
		return 12;
	return launched(script, &rules, 0, &said);
}

static void test_hidden_in_other_places(void **state)
{
	pid_t pid;

	(void)state;
	need_root();
	if (landlock_abi() < 1)
		skip_aloud("Landlock");
	if (!a_child_may(makes_private_mounts))
		skip_aloud(PRIVATE_MOUNTS);
	pid = fork();
	if (pid == 0)
		_exit(in_other_places());
	assert_int_equal(wait_for(pid), 0);
}

static const char root_script[] = PY
	"want(no(open,'/proc/sys/kernel/core_pattern','w'),errno.EACCES)\n"
	"want(no(open,'/sys/kernel/mm/ksm/run','w'),errno.EROFS,errno.EACCES)\n"
	"for r,ds,fs in os.walk('/sys/fs/cgroup'):\n"
	"    if 'cgroup.procs' in fs: want(no(open,r+'/cgroup.procs','w'),errno.EROFS,errno.EACCES); break\n"
	"for p in ('/dev/vda','/dev/sda','/dev/kmsg','/dev/mem'):\n"
	"    if os.path.exists(p): want(no(open,p,'rb'),errno.EACCES,errno.EPERM); want(no(open,p,'wb'),errno.EACCES,errno.EPERM)\n"
	"open('/dev/null','w').write('x'); open('/dev/urandom','rb').read(1)\n"
	"open(d+'/new','w').write('x'); os.mkdir(d+'/folder'); os.unlink(d+'/new')\n" /* beside what is hidden */
	"want(no(os.rename,d+'/secret',d+'/elsewhere'),errno.EBUSY,errno.EACCES)\n"
	"want(no(os.rename,d,d+'-elsewhere'),errno.EACCES); want(no(os.rmdir,d+'/folder'),errno.EACCES)\n"
	"open(d+'/work/a','w').write('x'); os.mkdir(d+'/work/b'); os.rename(d+'/work/a',d+'/work/b/a')\n"
	"os.unlink(d+'/work/b/a'); os.rmdir(d+'/work/b')\n"
	"want('CapEff:\\t0000000000000000' in open('/proc/self/status').read(),True)\n"
	"want('CapBnd:\\t0000000000000000' in open('/proc/self/status').read(),True)\n"
	"want('NoNewPrivs:\\t1' in open('/proc/self/status').read(),True)\n";

static void test_root(void **state)
{
	struct launch_rules rules = { .head = { .n_hide = 1 } };
	struct launch_said said = { .status = 0 };
	char secret[128];

	(void)state;
	need_root();
	if (landlock_abi() < 1)
		skip_aloud("Landlock");
	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	rules.hide[0] = secret;
	assert_int_equal(launched(root_script, &rules, 0, &said), 0);
}

static const char writes_script[] = PY
	"open(d+'/work/a','w').write('x'); os.rename(d+'/work/a',d+'/work/b'); os.mkdir(d+'/work/c'); os.rename(d+'/work/b',d+'/work/c/b')\n"
	"os.unlink(d+'/work/c/b'); os.rmdir(d+'/work/c')\n"
	"want(no(open,d+'/open','r+'),errno.EACCES)\n"
	"want(no(open,'/tmp/pawl-launch-x','w'),errno.EACCES)\n"
	"want(no(open,'/dev/shm/pawl-launch-x','w'),errno.EACCES)\n"
	"want(no(os.truncate,d+'/open',0),errno.EACCES)\n"
	"want(open(d+'/open').read(),'OPEN')\n"
	"open('/dev/null','w').write('x')\n";

static void test_writes_under(void **state)
{
	struct launch_rules rules = { .head = { .n_writes = 1, .flags = LAUNCH_WRITES } };
	char work[128];

	(void)state;
	need_root();
	if (landlock_abi() < 3)
		skip_aloud("Landlock ABI 3");
	(void)snprintf(work, sizeof(work), "%s/work", folder);
	rules.writes[0] = work;
	for (size_t i = 0; i < PAWL_LEN(whos); i++) {
		struct launch_said said = { .status = 0 };
		int got;

		rules.head.flags = LAUNCH_WRITES | (whos[i].uid != whos[i].to ? LAUNCH_USER : 0);
		rules.head.uid = rules.head.gid = whos[i].to;
		got = launched(writes_script, &rules, whos[i].uid, &said);
		if (got != 0)
			fail_msg("%s: %d", whos[i].name, got);
	}
	rules.writes[0] = "/nowhere/at/all";
	rules.head.flags = LAUNCH_WRITES;
	assert_int_equal(launched("", &rules, 0, &(struct launch_said){ 0 }), LAUNCH_FAILED);
}

/* No namespace to be had: Landlock keeps the files shut, and it is said that this is part of it only. */
static void test_hidden_without_namespaces(void **state)
{
	char secret[128], key[128], open_path[128];
	const char *hide[1] = { secret };
	struct landlock_plan plan = { .hide = { hide, 1 }, .shut = true };
	struct pawl_error err = { .code = PAWL_OK };
	uint32_t partial = 0;
	pid_t pid;

	(void)state;
	need_root();
	if (landlock_abi() < 3)
		skip_aloud("Landlock ABI 3");
	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	(void)snprintf(key, sizeof(key), "%s/secret/key", folder);
	(void)snprintf(open_path, sizeof(open_path), "%s/open", folder);
	pid = fork();
	if (pid == 0) {
		int fd = -1;

		as(NOBODY);
		if (landlock_make(&plan, &fd, &partial, &err) < 0 || fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_enter(fd, &err) < 0)
			_exit(SAID_NOTHING);
		if (open(key, O_RDONLY) >= 0 || errno != EACCES || open(key, O_WRONLY) >= 0 || errno != EACCES)
			_exit(1);
		if (unlink(key) == 0 || errno != EACCES)
			_exit(2);
		_exit(open(open_path, O_RDWR) >= 0 ? 0 : 3);
	}
	assert_int_equal(wait_for(pid), 0);
}

/* Started in a folder that the user is not let into again: that is said, and not that it is hidden. */
static void test_not_let_in_again(void **state)
{
	char secret[128], closed[128];
	const char *hide[1] = { secret };
	struct launch_paths paths = { hide, 1 };
	struct pawl_error err = { .code = PAWL_OK };
	uint32_t partial = 0;
	bool userns = false;
	pid_t pid;

	(void)state;
	need_root();
	(void)snprintf(secret, sizeof(secret), "%s/secret", folder);
	(void)snprintf(closed, sizeof(closed), "%s/closed", folder);
	assert_int_equal(mkdir(closed, 0700), 0);
	pid = fork();
	if (pid == 0) {
		if (chdir(closed) < 0)
			_exit(SAID_NOTHING);
		as(NOBODY);
		if (hide_paths(&paths, &userns, &partial, &err) == 0)
			_exit(partial & LAUNCH_NO_HIDE ? 0 : 1); /* no namespace, and nothing to enter again */
		_exit(strstr(err.msg, "start it elsewhere") && strstr(err.msg, closed) ? 0 : 2);
	}
	assert_int_equal(wait_for(pid), 0);
}

/* In a chroot that is no mount of its own, as build tools make them: hidden there, still in the chroot, and nothing of it outside. The outside
 * is a namespace whose mounts are shared, as systemd has them. */
static void test_hidden_in_a_chroot(void **state)
{
	static const char *const hide[] = { "/secret" };
	struct launch_paths paths = { hide, 1 };
	struct pawl_error err = { .code = PAWL_OK };
	uint32_t partial = 0;
	bool userns = true;
	char key[128], proc[128];
	int st = 0;
	pid_t pid;

	(void)state;
	need_root();
	(void)snprintf(key, sizeof(key), "%s/secret/key", folder);
	(void)snprintf(proc, sizeof(proc), "%s/proc", folder);
	assert_int_equal(mkdir(proc, 0755), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0)
			_exit(SAID_NOTHING);
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0 : errno != EINVAL)
			_exit(SAID_NOTHING); /* EINVAL: a chroot already */
		pid = fork();
		if (pid == 0) {
			if (chroot(folder) < 0 || chdir("/secret/..") < 0 || hide_paths(&paths, &userns, &partial, &err) < 0)
				_exit(1);
			if (access("/secret", F_OK) < 0 || access("secret", F_OK) < 0 || access("/../work", F_OK) < 0)
				_exit(2);
			_exit(access("/secret/key", F_OK) == 0 || userns || partial != 0 ? 3 : 0);
		}
		_exit(waitpid(pid, &st, 0) != pid || !WIFEXITED(st) ? SAID_NOTHING : WEXITSTATUS(st) != 0 ? WEXITSTATUS(st) : access(key, F_OK) < 0 ? 4 : 0);
	}
	assert_int_equal(wait_for(pid), 0);
	assert_int_equal(rmdir(proc), 0);
}

static void test_rlimits(void **state)
{
	static const char script[] = PY "import resource as r\nwant(r.getrlimit(r.RLIMIT_CPU),(60,61))\nwant(r.getrlimit(r.RLIMIT_AS),(1<<46,1<<46))\n"
					"want(r.getrlimit(r.RLIMIT_NPROC)[0] >= 32,True)\n";
	struct launch_rules rules = { .head = { .cpu_s = 60, .memory = UINT64_C(1) << 46, .processes = 32 } };

	(void)state;
	assert_int_equal(launched(script, &rules, geteuid(), &(struct launch_said){ 0 }), 0);
}

static void test_path_is_below(void **state)
{
	static const struct {
		const char *path, *top;
		bool want;
	} rows[] = { { "/a/b", "/a", true }, { "/a", "/a", true }, { "/a", "/a/", true }, { "/ab", "/a", false }, { "/a", "/a/b", false }, { "/a", "/", true } };

	(void)state;
	for (size_t i = 0; i < PAWL_LEN(rows); i++)
		if (path_is_below(rows[i].path, rows[i].top) != rows[i].want)
			fail_msg("%s below %s", rows[i].path, rows[i].top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path_is_below),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_filter_is_what_refuses),
		cmocka_unit_test(test_filter_lets_programs_start),
#if defined(__x86_64__)
		cmocka_unit_test(test_another_architecture),
#endif
		cmocka_unit_test_setup_teardown(test_hidden, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hidden_without_mounts, setup, teardown), cmocka_unit_test_setup_teardown(test_hidden_from_inside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hidden_in_other_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_writes_under, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hidden_without_namespaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_let_in_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hidden_in_a_chroot, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rlimits, setup, teardown),
	};

	return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
