/* daemon/watch/probe.c - see probe.h. Each row is tried: what a version or a list of names promises is not what works. */
#include "daemon/watch/probe.h"

#include "daemon/base/buf.h"
#include "daemon/watch/trees.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INITIAL_PID_NS 4026531836u /* PROC_PID_INIT_INO */

int probe_instance(const char *state, char ret[static CGROUP_INSTANCE], struct pawl_error *err)
{
	unsigned char hash[crypto_generichash_BYTES_MIN];
	crypto_generichash_state h;
	char *real;
	struct stat st;

	if (!state) {
		(void)snprintf(ret, CGROUP_INSTANCE, "probe%d", (int)getpid());
		return 0;
	}
	real = realpath(state, NULL);
	if (!real || stat(real, &st) < 0) {
		free(real);
		return pawl_fail_errno(err, "%.100s", state);
	}
	(void)crypto_generichash_init(&h, NULL, 0, sizeof(hash));
	(void)crypto_generichash_update(&h, (const unsigned char *)real, strlen(real) + 1);
	/* the same path in another container is another folder */
	(void)crypto_generichash_update(&h, (const unsigned char *)&st.st_dev, sizeof(st.st_dev));
	(void)crypto_generichash_update(&h, (const unsigned char *)&st.st_ino, sizeof(st.st_ino));
	(void)crypto_generichash_final(&h, hash, sizeof(hash));
	(void)sodium_bin2hex(ret, CGROUP_INSTANCE, hash, 6);
	free(real);
	return 0;
}

static void name_rows(struct watch_probes *p)
{
	static const char *const names[WP_COUNT] = {
		[WP_TRACING] = "tracing", [WP_PINS] = "pins", [WP_SAMPLER] = "sampler", [WP_ITERATOR] = "iterator", [WP_CGROUP] = "cgroup",
		[WP_MEMORY] = "memory", [WP_PIDS] = "pids", [WP_PIDNS] = "pid_namespace", [WP_LANDLOCK] = "landlock", [WP_SECCOMP] = "seccomp",
		[WP_LSM] = "lsm", [WP_MOUNT_NS] = "mount_namespace",
	};

	for (int i = 0; i < WP_COUNT; i++)
		(void)snprintf(p->row[i].name, sizeof(p->row[i].name), "%s", names[i]);
}

void probe_say(struct watch_probes *probes, int row, enum watch_state state, int os_errno, const char *fmt, ...)
{
	struct watch_probe *p = &probes->row[row];
	va_list ap;

	p->state = state;
	p->os_errno = os_errno;
	va_start(ap, fmt);
	(void)vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
}

/* ---- one by one ---- */

/* Runs a trial in a child, which is where it may change what cannot be changed back. 0, or the errno that it ended with. */
static int in_child(int (*trial)(void))
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(trial() & 0xff);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static int try_filter(void)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { .len = 1, .filter = allow };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return errno ? errno : EIO;
	return 0;
}

static int try_mount_ns(void)
{
	return unshare(CLONE_NEWNS) < 0 ? errno : 0;
}

static int try_user_ns(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return errno;
	/* it may be had and nothing be allowed in it: AppArmor on Ubuntu. EINVAL: allowed, and "/" is no mount (a chroot) */
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 && errno != EINVAL ? errno : 0;
}

static int try_landlock(void)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return errno ? errno : EIO;
	return 0;
}

static void probe_pid_ns(struct watch_probes *p)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0)
		probe_say(p, WP_PIDNS, WATCH_OFF, errno, "cannot tell the pid namespace: %s", strerror(errno));
	else if (st.st_ino != INITIAL_PID_NS)
		probe_say(p, WP_PIDNS, WATCH_PARTIAL, 0, "not the initial pid namespace: process numbers in events are the host's, and what left its "
			  "cgroup is not killed by number");
	else
		probe_say(p, WP_PIDNS, WATCH_ON, 0, "the initial one");
}

static void probe_landlock(struct watch_probes *p)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	int no = abi < 0 ? errno : in_child(try_landlock);

	if (no)
		probe_say(p, WP_LANDLOCK, WATCH_OFF, no, "%s", no == ENOSYS ? "this kernel has none" : no == EOPNOTSUPP ? "switched off at boot" : strerror(no));
	else
		probe_say(p, WP_LANDLOCK, WATCH_ON, 0, "ABI %ld", abi);
}

void probe_machine(struct watch_probes *p)
{
	bool root = geteuid() == 0;
	int no = in_child(try_filter);

	*p = (struct watch_probes){ .tier = 'D' };
	name_rows(p);
	probe_pid_ns(p);
	probe_landlock(p);
	probe_say(p, WP_SECCOMP, no ? WATCH_OFF : WATCH_ON, no, "%s", no ? strerror(no) : "a filter was installed");
	/* where an LSM program attaches, the exec could be refused and not only stopped; these programs are not written yet */
	probe_say(p, WP_LSM, WATCH_OFF, 0, "not used yet: a denied program is stopped after its exec, before its first instruction");
	no = in_child(root ? try_mount_ns : try_user_ns);
	probe_say(p, WP_MOUNT_NS, no ? WATCH_OFF : WATCH_ON, no, "%s%s%s", root ? "a mount namespace" : "a user and a mount namespace",
		  no ? ": " : " was made", no ? strerror(no) : "");
}

void probe_cgroups(struct watch_probes *p, const struct cgroups *cg, bool can_kill)
{
	static const int row[CGROUP_KINDS] = { WP_CGROUP, WP_MEMORY, WP_PIDS };

	for (int k = 0; k < CGROUP_KINDS; k++)
		probe_say(p, row[k], cg->dir[k][0] ? WATCH_ON : WATCH_OFF, cg->os_errno[k], "%s", cg->why[k]);
	if (cg->dir[CGROUP_TREE][0] && !can_kill && access(cg->dir[CGROUP_TREE], F_OK) == 0)
		probe_say(p, WP_CGROUP, WATCH_PARTIAL, ENOENT, "no cgroup.kill: a tree is killed one by one");
}

/* ---- the tier, and what would help ---- */

static void say_how(struct watch_probe *p, int row)
{
	static const char *const get[WP_COUNT] = {
		[WP_TRACING] = "run pawld as root (CAP_BPF and CAP_PERFMON) on a kernel with BTF, outside of a container",
		[WP_PINS] = "mount a bpffs: mount -t bpf bpf /sys/fs/bpf",
		[WP_SAMPLER] = "run pawld with CAP_PERFMON on a kernel with perf events",
		[WP_ITERATOR] = "run pawld as root (CAP_BPF and CAP_PERFMON) on a kernel with BTF",
		[WP_CGROUP] = "mount cgroup v2 (kernel 5.14 or newer) and run pawld as root",
		[WP_MEMORY] = "boot with the memory controller in cgroup v2, or mount v1's, and run pawld as root",
		[WP_PIDS] = "boot with the pids controller in cgroup v2, or mount v1's, and run pawld as root",
		[WP_PIDNS] = "run pawld on the host, or the container with the host's pid namespace",
		[WP_LANDLOCK] = "a kernel with Landlock (5.13), and landlock in the boot option lsm=",
		[WP_SECCOMP] = "a kernel with seccomp filters",
		[WP_LSM] = "",
		[WP_MOUNT_NS] = "run pawl as root, or allow user namespaces (user.max_user_namespaces; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)",
	};

	if (p->state == WATCH_ON)
		p->get[0] = '\0';
	else if (!p->get[0]) /* who looked knows better */
		(void)snprintf(p->get, sizeof(p->get), "%s", get[row]);
}

void probe_tier(struct watch_probes *p)
{
	bool walls = p->row[WP_LANDLOCK].state == WATCH_ON && p->row[WP_SECCOMP].state == WATCH_ON;
	bool kernel = p->row[WP_TRACING].state != WATCH_OFF && p->row[WP_CGROUP].state != WATCH_OFF;
	const char *says;

	for (int i = 0; i < WP_COUNT; i++)
		say_how(&p->row[i], i);
	p->tier = !walls ? 'D' : !kernel ? 'C' : p->row[WP_LSM].state == WATCH_ON ? 'A' : 'B';
	if (p->tier == 'A')
		says = "exec and file rules are enforced before they take effect";
	else if (p->tier == 'B' && p->row[WP_TRACING].state == WATCH_PARTIAL)
		says = "most denied programs are stopped before their first instruction; this kernel does not show every fork and start";
	else if (p->tier == 'B')
		says = "denied programs are stopped before their first instruction; limits are counted in the kernel";
	else if (p->tier == 'C')
		says = "no in-kernel kill: programs are not denied, limits are looked at from outside";
	else
		says = "no Landlock or no seccomp: what a tree may write to is not limited";
	(void)snprintf(p->says, sizeof(p->says), "%s", says);
}

/* ---- pawld --probe ---- */

static void add_row(struct buf *b, const struct watch_probe *p)
{
	static const char *const states[] = { "off", "partial", "on" };

	buf_puts(b, b->p[b->n - 1] == '[' ? "{\"name\":" : ",{\"name\":");
	buf_json(b, (struct str){ p->name, strlen(p->name) });
	buf_printf(b, ",\"state\":\"%s\",\"errno\":%d,\"why\":", p->state <= WATCH_ON ? states[p->state] : states[0], p->os_errno);
	buf_json(b, (struct str){ p->why, strlen(p->why) });
	buf_puts(b, ",\"get\":");
	buf_json(b, (struct str){ p->get, strlen(p->get) });
	buf_puts(b, "}");
}

int probe_print(struct pawl_error *err)
{
	const struct trees_options opt = { .state = NULL };
	struct buf b = BUF_MAX(64u << 10);
	struct watch_probes p;
	struct trees *t;
	int r = trees_open(&opt, &p, &t, err);

	if (r < 0)
		return r;
	trees_unpin(t);
	trees_close(t);
	buf_printf(&b, "{\"tier\":\"%c\",\"says\":", p.tier);
	buf_json(&b, (struct str){ p.says, strlen(p.says) });
	buf_puts(&b, ",\"probes\":[");
	for (int i = 0; i < WP_COUNT && buf_ok(&b); i++)
		add_row(&b, &p.row[i]);
	buf_puts(&b, "]}\n");
	if (!buf_ok(&b))
		r = pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	else if (fwrite(b.p, 1, b.n, stdout) != b.n || fflush(stdout) != 0)
		r = pawl_fail_errno(err, "standard output");
	buf_done(&b);
	return r;
}
