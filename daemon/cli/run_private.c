/* daemon/cli/run_private.c - the pawld of one run (--policy): its folder, its start, its end. Between us and it stands a keeper, which holds
 * the other end of a pipe: were that pawld killed, the keeper starts another; were `pawl run` killed, it gives that pawld the time to end the
 * tree, and then ends it. */
#include "daemon/cli/run.h"

#include "daemon/cli/init.h"
#include "daemon/cli/policy.h"
#include "daemon/base/home.h"
#include "pawl/exit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS 30000
#define ORPHAN_MS 10000 /* pawld gives a launcher that is gone 5 s to come back (docs/watch.md) */
#define STOP_MS 30000
#define POLICY_MAX (1u << 20)
#define KEEP_FIRST_MS 100
#define KEEP_LAST_MS 2000
#define KEEP_TRIES 20
#define KEEP_DEATHS 5	    /* in a row, each at its start: the next one would die as well */
#define KEEP_LIVED_MS 5000  /* then it was no death at the start */
#define OUTPUT "pawld.out"

/* ---- the folder ---- */

static int name_folder(struct run *r, char base[static PATH_MAX], struct pawl_error *err)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[32];
	int n = 0;

	if (r->opt.dir) {
		if (!realpath(r->opt.dir, base))
			return pawl_fail_errno(err, "--dir %s", r->opt.dir);
	} else if (home_dir(base, PATH_MAX, err) < 0) {
		return err->code;
	}
	if (!gmtime_r(&now, &tm) || strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &tm) == 0)
		return pawl_fail(err, PAWL_E_SYS, "no date");
	n = snprintf(r->own.dir, sizeof(r->own.dir), "%s/runs/%s-%d", base, date, (int)getpid());
	if (n < 0 || (size_t)n >= sizeof(r->own.dir))
		return pawl_fail(err, PAWL_E_USAGE, "the folder's name is too long");
	n = snprintf(r->door_path, sizeof(r->door_path), "%s/run/watch.sock", r->own.dir);
	if (n < 0 || (size_t)n >= sizeof(r->door_path))
		return pawl_fail(err, PAWL_E_USAGE, "a socket's path would be longer than %d bytes: give a shorter --dir", RUN_PATH - 1);
	return 0;
}

/* As pawld will load it, but with the name and the lines that the user knows. */
static int check_policy(const char *path, struct buf *text, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf lines = BUF_MAX(1u << 20);
	PAWL_CLEANUP(policy_report_done) struct policy_report rep = { 0 };
	struct policy *pol = NULL;
	int got = policy_read(path, &pol, &rep, err);

	policy_free(pol);
	if (rep.n && got < 0) {
		policy_report_text(&rep, &lines);
		(void)fwrite(lines.p ? lines.p : "", 1, lines.n, stderr);
	}
	return got < 0 ? got : fs_read(AT_FDCWD, path, text, err);
}

static int make_folder(struct run *r, struct str policy, struct pawl_error *err)
{
	const struct init_options opt = { .dir = r->own.dir };
	FILE *nobody;
	bool made = false;
	int fd = -1, got = fs_parents(r->own.dir, err);

	if (got == 0)
		got = fs_dir(NULL, AT_FDCWD, r->own.dir, 022, &fd, &made, err);
	if (got == 0 && !made)
		got = pawl_fail(err, PAWL_E_BUSY, "%s is there already", r->own.dir);
	if (got == 0)
		got = fs_write_new(NULL, fd, "policy.yaml", policy, 0600, &made, err);
	if (fd >= 0)
		(void)close(fd);
	if (got < 0)
		return got;
	nobody = fopen("/dev/null", "we");
	if (!nobody)
		return pawl_fail_errno(err, "/dev/null");
	got = init_run(&opt, NULL, nobody, err); /* leaves our policy as it is */
	(void)fclose(nobody);
	return got;
}

/* Others pass through to the agents' socket, and see nothing else: keys, state, log and the operator's door are 0700. */
static int pass(const char *dir, const char *below, struct pawl_error *err)
{
	char path[PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s%s", dir, below);
	return chmod(path, 0711) < 0 ? pawl_fail_errno(err, "cannot let the command's user pass to %s", path) : 0;
}

/* ---- the keeper ---- */

static void exec_pawld(const char *dir)
{
	static const char *const beside[] = { "pawld", "../sbin/pawld" };
	char self[PATH_MAX], path[PATH_MAX + 16], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *argv[] = { (char[]){ "pawld" }, (char[]){ "--dir" }, NULL, NULL };
	char copy[PATH_MAX];

	(void)snprintf(copy, sizeof(copy), "%s", dir);
	argv[2] = copy;
	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < PAWL_LEN(beside); i++) {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - self), self, beside[i]);
		(void)execv(path, argv);
		if (errno != ENOENT)
			break;
	}
	(void)execvp("pawld", argv);
	(void)fprintf(stderr, "cannot start pawld: %s\n", strerror(errno));
	_exit(127);
}

/* true: our side wants it to end, by a word, or by the end of a `pawl run` that was killed and whose tree has had its time. */
static bool keep_one(const char *dir, int line, int *ret)
{
	pid_t pid = fork();
	struct pollfd p[2] = { { -1, POLLIN, 0 }, { line, POLLIN, 0 } };
	bool asked;
	char word = 0;

	if (pid == 0)
		exec_pawld(dir);
	if (pid < 0)
		_exit(LAUNCH_FAILED);
	p[0].fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p[0].fd < 0) { /* it could not be waited for, and nobody else would end it */
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		_exit(LAUNCH_FAILED);
	}
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	asked = !p[0].revents && (read(line, &word, 1) == 1 || poll(p, 1, ORPHAN_MS) <= 0);
	if (asked) {
		(void)kill(pid, SIGTERM);
		if (poll(p, 1, STOP_MS) <= 0)
			(void)kill(pid, SIGKILL);
	}
	while (waitpid(pid, ret, 0) < 0 && errno == EINTR)
		;
	(void)close(p[0].fd);
	return asked;
}

struct keeping {
	int tries;  /* how often one that fails is started again */
	int deaths; /* in a row */
	int pause;  /* before the next start */
};

/* Whether another pawld is started. One that was killed is, and again while what it left is still about: its judging process may hold the lock
 * for a moment. One that was told to end, or says that its log is damaged, is not. */
static bool goes_on(struct keeping *k, int st, bool lived)
{
	if (WIFEXITED(st) && (WEXITSTATUS(st) == EXIT_DONE || WEXITSTATUS(st) == EXIT_LOG))
		return false;
	if (lived)
		*k = (struct keeping){ KEEP_TRIES, 0, KEEP_FIRST_MS };
	if (!WIFSIGNALED(st))
		return k->tries-- > 0;
	k->tries = KEEP_TRIES;
	return ++k->deaths < KEEP_DEATHS;
}

/* In the keeper's place: until pawld is to end, or cannot go on. */
static _Noreturn void keep(const char *dir, int line)
{
	struct keeping k = { 0, 0, KEEP_FIRST_MS };
	struct pollfd p = { line, POLLIN, 0 };
	bool left = false; /* `pawl run` has hung up without a word: a tree, perhaps, which somebody has to end; but not for ever */
	int64_t since = run_now_ms();
	int st = 0;
	char word;

	while (!keep_one(dir, line, &st) && goes_on(&k, st, !left && run_now_ms() - since >= KEEP_LIVED_MS)) {
		if (!left && poll(&p, 1, k.pause) > 0) {
			if (read(line, &word, 1) == 1)
				break;
			left = true;
		}
		if (left)
			(void)poll(NULL, 0, k.pause); /* a line that has hung up ends no waiting */
		k.pause = k.pause * 2 < KEEP_LAST_MS ? k.pause * 2 : KEEP_LAST_MS;
		since = run_now_ms();
	}
	_exit(WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st));
}

static _Noreturn void become_keeper(const struct run *r, int line, int out)
{
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)setsid(); /* the terminal's signals are not for it */
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || (line != 3 && dup2(line, 3) < 0) || fcntl(3, F_SETFD, FD_CLOEXEC) < 0)
		_exit(LAUNCH_FAILED);
	(void)syscall(SYS_close_range, 4, ~0u, 0);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	keep(r->own.dir, 3);
}

static int start_keeper(struct run *r, struct pawl_error *err)
{
	char path[PATH_MAX + 16];
	int pair[2], out;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/" OUTPUT, r->own.dir);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600);
	if (out < 0)
		return pawl_fail_errno(err, "cannot make %s", path);
	if (pipe2(pair, O_CLOEXEC) < 0) {
		(void)close(out);
		return pawl_fail_errno(err, "pipe");
	}
	pid = fork();
	if (pid == 0)
		become_keeper(r, pair[0], out);
	(void)close(out);
	(void)close(pair[0]);
	if (pid < 0) {
		(void)close(pair[1]);
		return pawl_fail_errno(err, "fork");
	}
	r->own.keeper = pid;
	r->own.line = pair[1];
	return 0;
}

int run_private_start(struct run *r, const struct launch_head *who, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(POLICY_MAX);
	char base[PATH_MAX] = "";
	bool made_base = false;
	int got = check_policy(r->opt.policy, &text, err);

	if (got == 0)
		got = name_folder(r, base, err);
	made_base = got == 0 && access(base, F_OK) < 0;
	if (got == 0)
		got = make_folder(r, buf_str(&text), err);
	if (got == 0 && made_base && geteuid() == 0) /* made 0700 it would keep the users of later runs out as well */
		got = pass(base, "", err);
	if (got == 0 && geteuid() == 0)
		got = pass(base, "/runs", err);
	if (got == 0 && who->flags & LAUNCH_USER && who->uid != 0)
		got = pass(r->own.dir, "", err);
	if (got == 0 && who->flags & LAUNCH_USER && who->uid != 0)
		got = pass(r->own.dir, "/run", err);
	return got < 0 ? got : start_keeper(r, err);
}

static void show_output(const struct run *r)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(1u << 20);
	char path[PATH_MAX + 16];
	struct pawl_error err;

	(void)snprintf(path, sizeof(path), "%s/" OUTPUT, r->own.dir);
	if (fs_read(AT_FDCWD, path, &text, &err) < 0)
		return;
	for (char *at = text.p, *end = text.p + text.n, *nl; at < end; at = nl + 1) {
		nl = memchr(at, '\n', (size_t)(end - at));
		if (!nl)
			nl = end;
		run_say("%.*s", (int)(nl - at), at);
	}
}

int run_private_ready(struct run *r, struct pawl_error *err)
{
	int got = run_door_open(r, run_now_ms() + START_MS, err);

	if (got < 0 && !r->interrupted) {
		show_output(r);
		return pawl_fail(err, PAWL_E_SYS, "the pawld of this run did not get ready; its folder is %.180s", r->own.dir);
	}
	return got;
}

void run_private_stop(struct run *r)
{
	int64_t until = run_now_ms() + 2 * STOP_MS;

	if (!r->own.dir[0] || !r->own.line)
		return;
	if (write(r->own.line, "q", 1) != 1) /* it has ended already, and is waited for below */
		until = run_now_ms() + 1000;
	(void)close(r->own.line);
	while (r->own.keeper && run_now_ms() < until)
		(void)run_poll(r, 100);
	if (r->own.keeper)
		run_say("the pawld of this run has not ended; its folder is %s", r->own.dir);
	if (!r->opt.quiet)
		(void)fprintf(stderr, "pawl: log in %s; pawl log verify --dir %s\n", r->own.dir, r->own.dir);
}
