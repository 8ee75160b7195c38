/* hooks/run/launch.c - see launch.h. The order of the child's steps, and the little that the parent does about it. */
#include "hooks/run/launch.h"

#include "hooks/run/steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANNEL 3 /* in the child: all other descriptors above the standard ones are closed */
#define VARIABLE "PAWL_SESSION_FD"

extern char **environ;

struct told { /* the message, taken apart; texts lie in it */
	struct launch_head head;
	const char *session, *agent_socket;
	const char *hide[LAUNCH_MAX_PATHS], *writes[LAUNCH_MAX_PATHS];
};
struct message {
	struct launch_head head;
	char text[LAUNCH_MAX_TEXT];
};

/* ---- the child ---- */

/* The next n texts of a message; first: what each of them begins with, '\0' where that does not matter. */
static int take(const char **at, const char *end, const char **ret, uint32_t n, char first, struct pawl_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *nul = memchr(*at, '\0', (size_t)(end - *at));

		if (!nul)
			return pawl_fail(err, PAWL_E_MALFORMED, "the rules are cut short");
		if (first && **at != first)
			return pawl_fail(err, PAWL_E_MALFORMED, "not an absolute path: %.160s", *at);
		ret[i] = *at;
		*at = nul + 1;
	}
	return 0;
}

static int listen_for(struct message *m, struct told *ret, struct pawl_error *err)
{
	const char *at, *end;
	ssize_t n;
	int r;

	do
		n = recv(CHANNEL, m, sizeof(*m), MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		_exit(LAUNCH_FAILED); /* the parent is gone: nobody to tell */
	if (n < (ssize_t)sizeof(m->head) || n > (ssize_t)sizeof(*m) || m->head.n_hide > LAUNCH_MAX_PATHS || m->head.n_writes > LAUNCH_MAX_PATHS ||
	    m->head.n_groups > LAUNCH_MAX_GROUPS)
		return pawl_fail(err, PAWL_E_MALFORMED, "the rules cannot be read");
	end = m->text + ((size_t)n - sizeof(m->head));
	at = m->text;
	ret->head = m->head;
	r = take(&at, end, &ret->session, 1, '\0', err);
	if (r == 0)
		r = take(&at, end, &ret->agent_socket, 1, '\0', err);
	if (r == 0)
		r = take(&at, end, ret->hide, ret->head.n_hide, '/', err);
	if (r == 0)
		r = take(&at, end, ret->writes, ret->head.n_writes, '/', err);
	return r;
}

/* While we are still root: it takes CAP_SETPCAP. Where that is missing, nothing in the set can be used, with no_new_privs. */
static void empty_bounding_set(void)
{
	for (int cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno == EPERM)
			break;
}

static int become(const struct launch_head *h, struct pawl_error *err)
{
	if (!(h->flags & LAUNCH_USER))
		return 0;
	if (setgroups(h->n_groups, h->groups) < 0 || setresgid(h->gid, h->gid, h->gid) < 0 || setresuid(h->uid, h->uid, h->uid) < 0)
		return pawl_fail_errno(err, "cannot become uid %u", h->uid);
	if (h->uid != 0 && setuid(0) == 0)
		return pawl_fail(err, PAWL_E_UNSAFE, "still able to become root again");
	return 0;
}

static int drop_capabilities(struct pawl_error *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0)
		return pawl_fail_errno(err, "cannot drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return pawl_fail_errno(err, "no_new_privs");
	return 0;
}

/* Tasks that our uid has now, which RLIMIT_NPROC counts too. */
static uint64_t tasks_of_uid(void)
{
	DIR *dir = opendir("/proc");
	const struct dirent *de;
	uint64_t n = 0;

	while (dir && (de = readdir(dir))) {
		char path[300];
		struct stat st;

		if (de->d_name[0] < '0' || de->d_name[0] > '9')
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%s/task", de->d_name);
		if (stat(path, &st) == 0 && st.st_uid == geteuid() && st.st_nlink > 2)
			n += st.st_nlink - 2;
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

static int limit(int resource, rlim_t soft, rlim_t hard, struct pawl_error *err)
{
	struct rlimit now, lim = { soft, hard };

	if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max < lim.rlim_max)
		lim.rlim_max = now.rlim_max;
	if (lim.rlim_cur > lim.rlim_max)
		lim.rlim_cur = lim.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &lim) < 0 ? pawl_fail_errno(err, "cannot set a resource limit") : 0;
}

static int limits(const struct launch_head *h, bool userns, struct pawl_error *err)
{
	uint64_t others = userns ? 0 : tasks_of_uid(); /* a user namespace counts its own only */
	int r = 0;

	if (h->cpu_s)
		r = limit(RLIMIT_CPU, h->cpu_s, h->cpu_s + 1, err);
	if (h->memory && r == 0)
		r = limit(RLIMIT_AS, h->memory, h->memory, err);
	if (h->processes && r == 0)
		r = limit(RLIMIT_NPROC, h->processes + others, h->processes + others, err);
	return r;
}

/* A descriptor, not the environment, which others of this uid can read in /proc. Sealed: nobody below can put another session in. */
static int session_fd(const char *json, struct pawl_error *err)
{
	size_t n = strlen(json);
	int to, fd = memfd_create("pawl-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char number[16];

	if (fd < 0 || write(fd, json, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return pawl_fail_errno(err, "cannot hand over the session");
	to = fcntl(fd, F_DUPFD, LAUNCH_SESSION_FD);
	if (to < 0)
		to = fcntl(fd, F_DUPFD, CHANNEL + 1); /* a low limit of descriptors */
	if (to < 0)
		return pawl_fail_errno(err, "cannot hand over the session");
	(void)snprintf(number, sizeof(number), "%d", to);
	return setenv(VARIABLE, number, 1) < 0 ? pawl_fail(err, PAWL_E_NOMEM, "out of memory") : 0;
}

/* Keys, doors and folders are named by these; the session's descriptor is all that the command needs. */
static void clean_environment(void)
{
	char **keep = environ;

	for (char **e = environ; *e; e++)
		if (strncmp(*e, "PAWL_", 5) != 0)
			*keep++ = *e;
	*keep = NULL;
}

static int shut_in(const struct told *t, uint32_t *partial, bool *userns, struct pawl_error *err)
{
	struct launch_paths hide = { t->hide, t->head.n_hide };
	bool root = (t->head.flags & LAUNCH_USER ? t->head.uid : geteuid()) == 0, limited = t->head.flags & LAUNCH_WRITES;
	struct landlock_plan plan = { .hide = hide, .writes = { t->writes, t->head.n_writes }, .limited = limited, .root = root };
	int ruleset = -1, r = 0;

	for (size_t i = 0; i < hide.n; i++)
		if (t->agent_socket[0] && path_is_below(t->agent_socket, hide.path[i]))
			return pawl_fail(err, PAWL_E_UNSAFE, "the agents' socket lies in %s, which is hidden from the command", hide.path[i]);
	r = hide_paths(&hide, userns, partial, err);
	plan.shut = *partial & LAUNCH_NO_HIDE;
	if (r == 0)
		r = landlock_make(&plan, &ruleset, partial, err);
	if (r == 0 && ruleset < 0 && root)
		r = pawl_fail(err, PAWL_E_UNSAFE, "this kernel has no Landlock, and without it uid 0 cannot be held: give --user NAME");
	if (r == 0 && ruleset < 0 && limited && !(t->head.flags & LAUNCH_DEGRADED))
		r = pawl_fail(err, PAWL_E_UNSAFE, "this kernel has no Landlock, and the policy limits what can be written (writes_under); "
			      "--allow-degraded runs without that");
	empty_bounding_set();
	if (r == 0)
		r = become(&t->head, err);
	if (r == 0)
		r = drop_capabilities(err);
	if (r == 0 && ruleset >= 0)
		r = landlock_enter(ruleset, err);
	if (ruleset >= 0)
		(void)close(ruleset);
	return r;
}

static void tell(uint32_t status, uint32_t partial, const char *text)
{
	struct launch_said said = { .status = status, .partial = partial };

	(void)snprintf(said.text, sizeof(said.text), "%s", text);
	(void)send(CHANNEL, &said, sizeof(said), MSG_NOSIGNAL);
}

static void give_back_signals(const sigset_t *mask, const sigset_t *ignored)
{
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, sigismember(ignored, s) == 1 ? SIG_IGN : SIG_DFL); /* of those two that cannot be set: an error, and nothing to do */
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
}

static _Noreturn void child(char *const argv[], const sigset_t *mask, const sigset_t *ignored)
{
	struct pawl_error err = { .code = PAWL_OK };
	struct told told = { .session = "" };
	struct message m;
	uint32_t partial = 0;
	bool userns = false;
	int r = listen_for(&m, &told, &err);

	if (r == 0)
		r = shut_in(&told, &partial, &userns, &err);
	if (r == 0)
		r = limits(&told.head, userns, &err);
	if (r == 0 && told.agent_socket[0] && faccessat(AT_FDCWD, told.agent_socket, W_OK, AT_EACCESS) < 0)
		partial |= LAUNCH_NO_DOOR;
	clean_environment();
	if (r == 0)
		r = session_fd(told.session, &err);
	if (r == 0 && filter_enter(&err) < 0) {
		if (told.head.flags & LAUNCH_DEGRADED && (told.head.flags & LAUNCH_USER ? told.head.uid : geteuid()) != 0)
			partial |= LAUNCH_NO_FILTER;
		else
			r = -1;
	}
	tell(r < 0 ? LAUNCH_FAILED : 0, partial, err.msg);
	if (r < 0)
		_exit(LAUNCH_FAILED);
	give_back_signals(mask, ignored);
	(void)execvp(argv[0], argv);
	r = errno == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT_EXEC;
	tell((uint32_t)r, partial, strerror(errno));
	_exit(r);
}

/* ---- the parent ---- */

int launch_fork(char *const argv[], const sigset_t *mask, const sigset_t *ignored, struct launch_child *ret, struct pawl_error *err)
{
	struct launch_child c = { .pidfd = -1 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return pawl_fail_errno(err, "socketpair");
	c.channel = pair[0];
	c.pid = fork();
	if (c.pid == 0) {
		if ((pair[1] != CHANNEL && dup3(pair[1], CHANNEL, O_CLOEXEC) < 0) || syscall(SYS_close_range, CHANNEL + 1, ~0u, 0) < 0)
			_exit(LAUNCH_FAILED); /* the parent sees the end of the socket */
		child(argv, mask, ignored);
	}
	(void)close(pair[1]);
	if (c.pid > 0)
		c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	if (c.pidfd < 0) {
		int r = pawl_fail_errno(err, c.pid < 0 ? "fork" : "pidfd_open");

		launch_drop(&c);
		return r;
	}
	*ret = c;
	return 0;
}

static bool put(struct message *m, size_t *at, const char *text)
{
	size_t n = strlen(text) + 1;

	if (n > sizeof(m->text) - *at)
		return false;
	memcpy(m->text + *at, text, n);
	*at += n;
	return true;
}

static int hear(int channel, struct launch_said *ret)
{
	struct launch_said said;
	ssize_t n;

	do
		n = recv(channel, &said, sizeof(said), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(said))
		return 0;
	said.text[sizeof(said.text) - 1] = '\0';
	*ret = said;
	return 1;
}

int launch_go(struct launch_child *c, const struct launch_rules *rules, struct launch_said *ret, struct pawl_error *err)
{
	struct message m = { .head = rules->head };
	size_t n = 0;
	bool ok = put(&m, &n, rules->session) && put(&m, &n, rules->agent_socket ? rules->agent_socket : "");

	for (uint32_t i = 0; i < m.head.n_hide && ok; i++)
		ok = put(&m, &n, rules->hide[i]);
	for (uint32_t i = 0; i < m.head.n_writes && ok; i++)
		ok = put(&m, &n, rules->writes[i]);
	if (!ok)
		return pawl_fail(err, PAWL_E_LIMIT, "the rules have more than %u bytes of text", LAUNCH_MAX_TEXT);
	if (send(c->channel, &m, offsetof(struct message, text) + n, MSG_NOSIGNAL) < 0)
		return pawl_fail_errno(err, "the waiting child is gone");
	if (!hear(c->channel, ret))
		return pawl_fail(err, PAWL_E_SYS, "the waiting child was ended before it could start the command");
	if (ret->status == 0) { /* and then nothing, or why it could not be started */
		struct launch_said last;

		if (hear(c->channel, &last))
			*ret = last;
	}
	(void)close(c->channel);
	c->channel = -1;
	return 0;
}

void launch_drop(struct launch_child *c)
{
	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL); /* not waited for yet, so the number is its own */
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (c->pidfd >= 0)
		(void)close(c->pidfd);
	if (c->channel >= 0)
		(void)close(c->channel);
	*c = (struct launch_child){ .pidfd = -1, .channel = -1 };
}
