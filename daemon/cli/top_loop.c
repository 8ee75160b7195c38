/* daemon/cli/top_loop.c - `pawl top`: asks pawld, draws, waits. Owns the terminal's settings while it draws: they and the screen are as they
 * were when it ends, is stopped or is told to end. Without a terminal it prints one frame below the other. */
#include "daemon/cli/ask.h"
#include "daemon/cli/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MAX_TEXT (64u << 20)
#define WIDE 160 /* where no terminal says */
#define LIST "{\"v\":1,\"op\":\"session.list\",\"limit\":1000}"

struct top {
	struct asking ask;
	bool once, all, screen, raw; /* screen: cursor movement; raw: the terminal's settings are changed */
	int64_t every_ms;
	int signals; /* descriptor */
	struct termios was;
	struct buf out;
};

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int flush(struct top *t)
{
	bool ok = buf_ok(&t->out) && fwrite(t->out.p ? t->out.p : "", 1, t->out.n, stdout) == t->out.n && fflush(stdout) == 0;

	buf_reset(&t->out);
	return ok ? 0 : -1;
}

/* ---- the terminal ---- */

static void enter(struct top *t)
{
	struct termios raw;

	if (!t->screen)
		return;
	if (isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &t->was) == 0) {
		raw = t->was;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* keys come as they are typed; ^C and ^Z stay signals */
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		t->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	}
	buf_puts(&t->out, "\x1b[?1049h\x1b[?25l"); /* a screen of its own, no cursor */
	(void)flush(t);
}

static void leave(struct top *t)
{
	if (!t->screen)
		return;
	buf_puts(&t->out, "\x1b[?25h\x1b[?1049l");
	(void)flush(t);
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &t->was);
	t->raw = false;
}

static struct top_view view_of(const struct top *t)
{
	struct top_view v = { .mode = escape_mode_here(), .width = WIDE, .all = t->all };
	struct winsize ws = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		v.width = ws.ws_col < 20 ? 20 : ws.ws_col;
	if (t->screen && ws.ws_row > 1)
		v.height = ws.ws_row - 1u; /* a \n in the last line would scroll */
	return v;
}

/* ---- one look ---- */

static void draw(struct top *t, const struct json *status, const struct json *list)
{
	struct top_view v = view_of(t);
	struct buf frame = BUF_MAX(MAX_TEXT);

	top_frame(&v, status, list, &frame);
	if (!t->screen) {
		buf_str_add(&t->out, buf_str(&frame));
		buf_puts(&t->out, t->once ? "" : "\n");
	} else {
		buf_puts(&t->out, "\x1b[H");
		for (size_t i = 0; i < frame.n; i++) {
			if (frame.p[i] == '\n')
				buf_puts(&t->out, "\x1b[K"); /* what the last frame had behind it */
			buf_putc(&t->out, frame.p[i]);
		}
		buf_puts(&t->out, "\x1b[J");
	}
	t->out.failed |= frame.failed;
	buf_done(&frame);
}

static void draw_json(struct top *t, struct str status, struct str list)
{
	buf_puts(&t->out, "{\"status\":");
	escape_json(&t->out, status);
	buf_puts(&t->out, ",\"list\":");
	escape_json(&t->out, list);
	buf_puts(&t->out, "}\n");
}

static void trouble(struct top *t, const struct pawl_error *err)
{
	if (t->ask.json) {
		struct buf plain = BUF_MAX(8192);

		escape_text(&plain, str_of(err->msg), ESCAPE_ASCII, 0, NULL);
		buf_puts(&t->out, "{\"error\":");
		buf_json(&t->out, buf_str(&plain));
		buf_puts(&t->out, "}\n");
		buf_done(&plain);
		return;
	}
	if (t->screen)
		buf_puts(&t->out, "\x1b[H");
	buf_puts(&t->out, "pawld does not answer: ");
	escape_text(&t->out, str_of(err->msg), escape_mode_here(), 0, NULL);
	buf_puts(&t->out, t->screen ? "\x1b[K\n\x1b[J" : "\n");
}

static int look(struct top *t, struct pawl_error *err)
{
	struct buf status_text = BUF_MAX(SIGN_MAX_REPLY), list_text = BUF_MAX(SIGN_MAX_REPLY);
	struct json *status = NULL, *list = NULL;
	int r = door_ask(t->ask.socket, STR("{\"v\":1,\"op\":\"status\"}"), &status_text, &status, err);

	if (r == 0)
		r = door_ask(t->ask.socket, STR(LIST), &list_text, &list, err);
	if (r == 0 && t->ask.json)
		draw_json(t, buf_str(&status_text), buf_str(&list_text));
	else if (r == 0)
		draw(t, status, list);
	else if (!t->once)
		trouble(t, err);
	json_free(list);
	json_free(status);
	buf_done(&list_text);
	buf_done(&status_text);
	return r;
}

/* ---- the loop ---- */

/* true: to the end. */
static bool signalled(struct top *t)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return false;
	if (info.ssi_signo == SIGWINCH)
		return false;
	if (info.ssi_signo != SIGTSTP)
		return true;
	leave(t);
	(void)raise(SIGSTOP);
	enter(t);
	return false;
}

static bool typed(void)
{
	char key[64];
	ssize_t n = read(STDIN_FILENO, key, sizeof(key));

	if (n < 0)
		return errno != EINTR && errno != EAGAIN;
	for (ssize_t i = 0; i < n; i++)
		if (key[i] == 'q' || key[i] == 'Q' || key[i] == 4 /* ^D */)
			return true;
	return n == 0;
}

/* true: to the end. */
static bool rest(struct top *t, int64_t until)
{
	int64_t left;

	while ((left = until - now_ms()) > 0) {
		struct pollfd p[2] = { { t->signals, POLLIN, 0 }, { t->raw ? STDIN_FILENO : -1, POLLIN, 0 } };
		int n = poll(p, 2, (int)left);

		if (n < 0 && errno != EINTR)
			return true;
		if (n <= 0)
			continue;
		if (p[0].revents && signalled(t))
			return true;
		if (p[1].revents && typed())
			return true;
		if (p[0].revents)
			return false; /* another size, or on again: drawn at once */
	}
	return false;
}

static int signals(struct top *t, struct pawl_error *err)
{
	static const int which[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < PAWL_LEN(which); i++)
		(void)sigaddset(&set, which[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return pawl_fail_errno(err, "signals");
	return 0;
}

static int run(struct top *t)
{
	struct pawl_error err = { .code = PAWL_OK };
	int r, written;

	if (!t->once) {
		if (signals(t, &err) < 0)
			return ask_fail(t->ask.verb, &err);
		enter(t);
	}
	do {
		int64_t next = now_ms() + t->every_ms;

		r = look(t, &err);
		written = flush(t);
		if (t->once || written < 0 || rest(t, next))
			break;
	} while (true);
	leave(t);
	return t->once && r < 0 ? ask_fail(t->ask.verb, &err) : ask_end(t->ask.verb, written < 0 ? 1 : 0);
}

/* --once, --all and --interval N are taken out of argv; the rest is what all the verbs of this door share. false: not a number. */
static bool own_options(struct top *t, int *argc, char **argv)
{
	int n = 1;

	for (int i = 1; i < *argc; i++) {
		if (str_is(str_of(argv[i]), "--once")) {
			t->once = true;
		} else if (str_is(str_of(argv[i]), "--interval")) {
			char *end = NULL;
			long seconds = i + 1 < *argc && argv[i + 1][0] >= '0' && argv[i + 1][0] <= '9' ? strtol(argv[++i], &end, 10) : 0;

			if (!end || *end || seconds < 1 || seconds > 3600)
				return false;
			t->every_ms = seconds * 1000;
		} else {
			argv[n++] = argv[i];
		}
	}
	argv[n] = NULL;
	*argc = n;
	return true;
}

int cli_top(int argc, char **argv)
{
	static const char usage[] = "usage: pawl top [--interval SECONDS] [--once] [--all] [--json]\n"
				    "Shows the sessions of a running pawld again and again: what each has spent and has left, its processes, what they\n"
				    "use of what they may, how many were stopped, how many reviews wait. q or ^C ends it.\n\n"
				    "  --interval N  seconds between two looks, 1 to 3600; 1 unless said\n"
				    "  --once        one look, then the end\n"
				    "  --all         also sessions that have ended\n"
				    "  --json        what pawld replied, one line a look\n"
				    "Exit status: 0 ended, 1 pawld could not be asked (--once) or nothing could be written, 2 usage.\n";
	const char *term = getenv("TERM");
	struct top t = { .ask.verb = "top", .every_ms = 1000, .signals = -1, .out = BUF_MAX(MAX_TEXT) };
	int status = 2;

	if (!own_options(&t, &argc, argv)) {
		(void)fputs("pawl top: --interval takes whole seconds from 1 to 3600\n", stderr);
	} else if (ask_options(&t.ask, argc, argv, ASK_JSON | ASK_ALL, usage, &status)) {
		t.all = t.ask.all;
		t.screen = !t.once && !t.ask.json && isatty(STDOUT_FILENO) && term && *term && !str_is(str_of(term), "dumb");
		status = t.ask.n_words ? ask_usage(stderr, usage, 2) : run(&t);
	}
	ask_done(&t.ask);
	if (t.signals >= 0)
		(void)close(t.signals);
	buf_done(&t.out);
	return status;
}
