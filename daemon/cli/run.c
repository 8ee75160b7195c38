/* daemon/cli/run.c - `pawl run`: options, and the order of the whole: door, held child, session, rules, command, end. Our own failures are
 * 125, so that they are not taken for the command's. Speaks only the watch door; judges nothing. */
#include "daemon/cli/run.h"

#include "daemon/base/home.h"
#include "daemon/cli/escape.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int usage(FILE *out, int status)
{
	(void)fputs("usage: pawl run [OPTION...] [--] CMD [ARG...]\n"
		    "Runs CMD as a watched tree: every process of it is counted, held to the policy's limits and in the signed log.\n"
		    "  --policy FILE    with a pawld of its own, in a folder of its own below DIR/runs, which is kept\n"
		    "  --dir DIR        pawld's folder (default: $PAWL_DIR, /var/lib/pawl for root,\n"
		    "                   else $XDG_STATE_HOME/pawl or ~/.local/state/pawl)\n"
		    "  --watch-socket PATH\n"
		    "                   pawld's watch door, when it is not DIR/run/watch.sock\n"
		    "  --agent NAME     whose session it is (default: local)\n"
		    "  --user NAME      run CMD as this user; only root can\n"
		    "  --root DIR       the folder that paths are looked at below (default: this one)\n"
		    "  --label K=V      written into the log; may be repeated\n"
		    "  --limit K=V      of this session: money, tokens, calls or time, such as money=2 or time=10m; tighter than the policy only\n"
		    "  --allow-degraded run even where this machine cannot hold all that the policy limits\n"
		    "  --quiet          say nothing about what holds in part, or where the log is\n"
		    "Exit status: CMD's; 128+N when signal N ended it; 125 pawl failed, 126 CMD cannot be run, 127 not found.\n"
		    "What CMD can not see or do is in docs/watch.md.\n",
		    out);
	return status;
}

void run_say(const char *fmt, ...)
{
	struct buf safe = BUF_MAX(16384);
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	escape_text(&safe, str_of(line), escape_mode_here(), 0, NULL);
	(void)fprintf(stderr, "pawl run: %.*s\n", (int)safe.n, safe.p ? safe.p : "");
	buf_done(&safe);
}

/* ---- options ---- */

enum { OPT_DEGRADED = 256 };
static const struct option longs[] = {
	{ "policy", required_argument, NULL, 'p' },
	{ "dir", required_argument, NULL, 'd' },
	{ "watch-socket", required_argument, NULL, 's' },
	{ "agent", required_argument, NULL, 'a' },
	{ "user", required_argument, NULL, 'u' },
	{ "root", required_argument, NULL, 'r' },
	{ "label", required_argument, NULL, 'l' },
	{ "limit", required_argument, NULL, 'L' },
	{ "allow-degraded", no_argument, NULL, OPT_DEGRADED },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_limit(struct run_options *o, const char *text, struct pawl_error *err)
{
	static const char *const names[] = { "money", "tokens", "calls", "time" };
	const char *eq = strchr(text, '=');

	for (size_t i = 0; eq && eq[1] && i < PAWL_LEN(names); i++) {
		if (!str_is((struct str){ text, (size_t)(eq - text) }, names[i]))
			continue;
		if (o->limits[i])
			return pawl_fail(err, PAWL_E_USAGE, "--limit %s is there twice", names[i]);
		o->limits[i] = eq + 1;
		return 0;
	}
	return pawl_fail(err, PAWL_E_USAGE, "--limit takes money=, tokens=, calls= or time= and a value, not \"%.60s\"", text);
}

static int take_label(struct run_options *o, const char *text, struct pawl_error *err)
{
	const char *eq = strchr(text, '=');

	if (!eq || eq == text || !utf8_valid(str_of(text)))
		return pawl_fail(err, PAWL_E_USAGE, "--label takes NAME=VALUE, not \"%.60s\"", text);
	if (o->n_labels == PAWL_MAX_LABELS)
		return pawl_fail(err, PAWL_E_USAGE, "more than %d labels", PAWL_MAX_LABELS);
	for (size_t i = 0; i < o->n_labels; i++)
		if (strncmp(o->labels[i], text, (size_t)(eq - text) + 1) == 0)
			return pawl_fail(err, PAWL_E_USAGE, "--label %.*s is there twice", (int)(eq - text), text);
	o->labels[o->n_labels++] = text;
	return 0;
}

static int take_option(struct run_options *o, int c, struct pawl_error *err)
{
	const struct {
		int c;
		const char **to;
	} texts[] = { { 'p', &o->policy }, { 'd', &o->dir }, { 's', &o->socket }, { 'a', &o->agent }, { 'u', &o->user } };

	if (c == OPT_DEGRADED)
		o->degraded = true;
	if (c == 'q')
		o->quiet = true;
	if (c == '?')
		return pawl_fail(err, PAWL_E_USAGE, "unknown or incomplete option; see pawl run --help");
	if (c == OPT_DEGRADED || c == 'q')
		return 0;
	if (!*optarg) /* --user "$UNSET" must not mean root */
		return pawl_fail(err, PAWL_E_USAGE, "an option has an empty value; see pawl run --help");
	if (c == 'l')
		return take_label(o, optarg, err);
	if (c == 'L')
		return take_limit(o, optarg, err);
	if (c == 'r')
		return realpath(optarg, o->root) ? 0 : pawl_fail_errno(err, "--root %s", optarg);
	for (size_t i = 0; i < PAWL_LEN(texts); i++)
		if (texts[i].c == c)
			*texts[i].to = optarg;
	return utf8_valid(str_of(optarg)) ? 0 : pawl_fail(err, PAWL_E_USAGE, "an option's value is no UTF-8");
}

/* 1: help was asked for. */
static int parse(struct run_options *o, int argc, char **argv, struct pawl_error *err)
{
	int c, r = 0;

	o->agent = "local";
	optind = 1;
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+d:qh", longs, NULL)) != -1) {
		if (c == 'h')
			return 1;
		r = take_option(o, c, err);
	}
	if (r < 0)
		return r;
	o->argv = argv + optind;
	if (optind == argc)
		return pawl_fail(err, PAWL_E_USAGE, "no command; see pawl run --help");
	if (o->policy && o->socket)
		return pawl_fail(err, PAWL_E_USAGE, "--policy starts a pawld of its own, --watch-socket names one that runs: not both");
	if (!o->root[0] && !getcwd(o->root, sizeof(o->root)))
		return pawl_fail_errno(err, "this folder");
	return 0;
}

/* ---- who the command is ---- */

static int find_user(const struct run_options *o, struct launch_head *who, struct pawl_error *err)
{
	gid_t groups[LAUNCH_MAX_GROUPS];
	int n = LAUNCH_MAX_GROUPS;
	const struct passwd *pw;

	who->flags |= o->degraded ? LAUNCH_DEGRADED : 0;
	who->uid = geteuid();
	if (!o->user)
		return 0;
	errno = 0;
	pw = getpwnam(o->user);
	if (!pw)
		return pawl_fail(err, PAWL_E_USAGE, "--user %s: no such user", o->user);
	if (geteuid() != 0)
		return pw->pw_uid == geteuid() ? 0 : pawl_fail(err, PAWL_E_USAGE, "--user %s: only root can become another user", o->user);
	if (getgrouplist(o->user, pw->pw_gid, groups, &n) < 0)
		return pawl_fail(err, PAWL_E_LIMIT, "--user %s is in more than %d groups", o->user, LAUNCH_MAX_GROUPS);
	who->flags |= LAUNCH_USER;
	who->uid = pw->pw_uid;
	who->gid = pw->pw_gid;
	who->n_groups = (uint32_t)n;
	for (int i = 0; i < n; i++)
		who->groups[i] = groups[i];
	return 0;
}

/* As login does: what is in another's home is no use to the command. */
static int user_environment(const struct run_options *o, struct pawl_error *err)
{
	const struct passwd *pw = o->user && geteuid() == 0 ? getpwnam(o->user) : NULL;

	if (pw && (setenv("HOME", pw->pw_dir, 1) < 0 || setenv("USER", pw->pw_name, 1) < 0 || setenv("LOGNAME", pw->pw_name, 1) < 0))
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	return 0;
}

/* ---- the steps ---- */

static int find_door(struct run *r, struct pawl_error *err)
{
	char home[PATH_MAX];
	const char *dir = r->opt.dir;
	int n;

	if (r->opt.socket) {
		n = snprintf(r->door_path, sizeof(r->door_path), "%s", r->opt.socket);
	} else {
		if (!dir && home_dir(home, sizeof(home), err) < 0)
			return err->code;
		n = snprintf(r->door_path, sizeof(r->door_path), "%s/run/watch.sock", dir ? dir : home);
	}
	if (n < 0 || (size_t)n >= sizeof(r->door_path))
		return pawl_fail(err, PAWL_E_USAGE, "the socket's path is longer than %d bytes", RUN_PATH - 1);
	return run_door_open(r, 0, err);
}

static int open_door(struct run *r, const struct launch_head *who, struct pawl_error *err)
{
	int got;

	if (!r->opt.policy)
		return find_door(r, err);
	got = run_private_start(r, who, err);
	return got < 0 ? got : run_private_ready(r, err);
}

/* The answer, which may take as long as pawld needs; a signal ends the waiting. */
static int wait_answer(struct run *r, struct json **ret, struct pawl_error *err)
{
	while (!run_poll(r, -1)) {
		if (r->interrupted)
			return pawl_fail(err, PAWL_E_SYS, "interrupted");
		if (r->over)
			return pawl_fail(err, PAWL_E_SYS, "the waiting child was ended");
	}
	return run_door_hear(r, ret, err);
}

static void say_partial(const struct run *r, uint32_t partial, uint32_t uid)
{
	if (r->opt.quiet)
		return;
	if (partial & LAUNCH_NO_HIDE)
		run_say("hidden: partial: no mount namespace can be had here; the files cannot be opened, but a socket can be connected to by its path");
	if (partial & LAUNCH_NO_LANDLOCK)
		run_say("landlock: off: the command is not kept from files, nor from looking into other processes of uid %u", uid);
	else if (partial & LAUNCH_NO_SCOPE)
		run_say("signals: partial: this kernel's Landlock (ABI %d, 6 is wanted) lets the command signal processes outside of its tree", landlock_abi());
	if (partial & LAUNCH_NO_FILTER)
		run_say("seccomp: off: no system call is refused");
	if (partial & LAUNCH_NO_DOOR)
		run_say("uid %u cannot reach %s, so what the command asks will fail: its folders need search permission (chmod 0711)", uid, r->agent_socket);
}

/* From here on there is a session, and whatever happens it is told how the command ended. */
static void go(struct run *r, struct launch_rules *rules)
{
	PAWL_CLEANUP(buf_done) struct buf session = BUF_MAX(1024);
	struct pawl_error err = { .code = PAWL_OK };
	struct launch_said said = { .status = 0 };
	int got;

	buf_printf(&session, "{\"session\":\"%s\",\"token\":\"%s\",\"socket\":", r->session, r->token);
	buf_json(&session, str_of(r->agent_socket));
	buf_puts(&session, ",\"agent\":");
	buf_json(&session, str_of(r->opt.agent));
	buf_putc(&session, '}');
	buf_putc(&session, '\0');
	rules->session = session.p;
	got = buf_ok(&session) ? launch_go(&r->child, rules, &said, &err) : pawl_fail(&err, PAWL_E_NOMEM, "out of memory");
	if (got < 0) {
		run_say("%s", err.msg);
		launch_drop(&r->child);
		r->over = true;
		r->status = LAUNCH_FAILED;
	} else if (said.status == LAUNCH_FAILED) {
		run_say("%s", said.text);
	} else if (said.status) {
		run_say("cannot start %s: %s", r->opt.argv[0], said.text);
	}
	if (got == 0 && said.status == 0)
		say_partial(r, said.partial, rules->head.uid);
	r->launched = true;
	run_wait(r);
}

static int run(struct run *r, struct launch_rules *rules, struct pawl_error *err)
{
	struct json *reply = NULL;
	int got = open_door(r, &rules->head, err);

	if (got == 0)
		got = user_environment(&r->opt, err);
	if (got == 0)
		got = launch_fork(r->opt.argv, &r->mask, &r->ignored, &r->child, err);
	if (got == 0)
		got = run_door_ask(r, err);
	if (got == 0)
		got = wait_answer(r, &reply, err);
	if (got == 0)
		got = run_door_rules(r, reply, rules, err);
	if (got == 0)
		go(r, rules);
	json_free(reply);
	launch_drop(&r->child);
	run_door_close(r);
	return got;
}

/* Descriptors 0, 1 and 2 exist, so that none of ours can be taken for them. */
static int hold_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	return fd < 0 ? -1 : close(fd);
}

int cli_run(int argc, char **argv)
{
	struct run r = { .door = -1, .signals = -1, .child = { .pidfd = -1, .channel = -1 } };
	struct launch_rules rules = { .session = NULL };
	struct pawl_error err = { .code = PAWL_OK };
	int got;

	if (hold_standard_fds() < 0)
		return LAUNCH_FAILED;
	got = parse(&r.opt, argc, argv, &err);
	if (got == 1)
		return usage(stdout, 0);
	if (got == 0)
		got = find_user(&r.opt, &rules.head, &err);
	if (got == 0 && rules.head.uid == 0 && landlock_abi() < 1) /* before anything is asked; the child looks again */
		got = pawl_fail(&err, PAWL_E_UNSAFE, "this kernel has no Landlock, and without it uid 0 cannot be held: give --user NAME");
	if (got == 0)
		got = run_signals_open(&r, &err);
	if (got == 0)
		got = run(&r, &rules, &err);
	if (got < 0 && !r.interrupted)
		run_say("%s", err.msg);
	run_private_stop(&r);
	return r.interrupted ? 128 + r.interrupted : got < 0 ? LAUNCH_FAILED : r.status;
}
