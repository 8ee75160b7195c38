/* daemon/cli/console_loop.c - `pawl console`: asks pawld once a second, reads lines, prints. Owns the input's buffer
 * and the unlocked key. No terminal settings are touched: it works on a dumb terminal, over ssh and from a pipe, where
 * the end of input ends it. */
#include "daemon/cli/console.h"
#include "daemon/cli/review.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define EVERY_MS 1000
#define MAX_TEXT (64u << 20)

struct session {
	struct asking ask;
	struct console *c;
	bool
	    tty; /* a person types: prompts, and typed-ahead lines are dropped when a card takes the place of another */
	bool down; /* pawld did not answer last time, and that was said */
	int64_t next_ms;
	int64_t ahead_s; /* pawld's time less our steady clock's; INT64_MIN: not known */
	char line[CONSOLE_MAX_LINE];
	size_t n;
	bool long_line; /* the rest of it is thrown away */
};

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int say(struct buf *out)
{
	bool ok = buf_ok(out) && fwrite(out->p, 1, out->n, stdout) == out->n && fflush(stdout) == 0;

	buf_reset(out);
	return ok ? 0 : -1;
}

/* What waits, all pages. */
static int list(struct session *s, struct buf *out, struct pawl_error *err)
{
	uint64_t after = 0, last = 0;
	bool more = true;
	size_t pages = 0;
	int r = 0;

	console_list_begin(s->c);
	while (r == 0 && more && pages++ < CONSOLE_MAX_CARDS) {
		struct json *page = NULL;
		const struct json *rows;

		r = review_page(s->ask.socket, false, after, &page, err);
		rows = json_get(page, "reviews");
		if (r == 0 && pages == 1)
			console_mode(s->c, json_string(json_get(page, "mode")), out);
		if (r == 0)
			console_list_page(s->c, rows);
		for (size_t i = 0; i < json_size(rows); i++)
			last = card_id(json_at(rows, i));
		more = r == 0 && json_true(json_get(page, "more")) && last > after;
		after = last;
		json_free(page);
	}
	if (r == 0)
		console_list_end(s->c, more, out);
	return r;
}

static int fetch(struct session *s, uint64_t id, struct buf *out, struct pawl_error *err)
{
	struct json *card = NULL;
	int r = review_fetch(s->ask.socket, id, NULL, &card, err);

	if (r == 0 || r == PAWL_E_MALFORMED) /* it may have ended in between */
		console_card(s->c, id, card, out);
	json_free(card);
	return r == PAWL_E_MALFORMED ? 0 : r;
}

/* New cards, lost cards. */
static int look(struct session *s, struct buf *out, struct pawl_error *err)
{
	uint64_t id;
	int r;

	console_clock(s->c, s->ahead_s == INT64_MIN ? 0 : now_ms() / 1000 + s->ahead_s);
	r = list(s, out, err);
	while (r == 0 && (id = console_wants(s->c)))
		r = fetch(s, id, out, err);
	s->next_ms = now_ms() + EVERY_MS;
	return r;
}

/* An unreachable pawld is said once. */
static void refresh(struct session *s, struct buf *out)
{
	struct pawl_error err = { .code = PAWL_OK };
	int r = look(s, out, &err);

	if (r < 0 && !s->down) {
		buf_puts(out, "pawld does not answer: ");
		escape_text(out, str_of(err.msg), escape_mode_here(), 0, NULL);
		buf_puts(out, "\n");
	} else if (r == 0 && s->down) {
		buf_puts(out, "pawld answers again\n");
	}
	s->down = r < 0;
}

static void answer(struct session *s, const struct console_order *o, struct buf *out)
{
	struct buf outcome = BUF_MAX(8192);
	struct pawl_error err = { .code = PAWL_OK };
	struct json *reply = NULL;
	int r = review_resolve(s->ask.socket, &s->ask.who, o->id, o->action, o->reason, o->tree, &o->shown, &reply, &err);

	if (r == 0) {
		buf_printf(&outcome, "%s",
			   strcmp(o->action, "abort") == 0  ? "aborted"
			   : strcmp(o->action, "skip") == 0 ? "skipped"
							    : "resumed");
		if (json_int(json_get(json_get(reply, "log"), "seq")) > 0)
			buf_printf(&outcome, "; log entry %lld",
				   (long long)json_int(json_get(json_get(reply, "log"), "seq")));
	} else {
		buf_puts(&outcome, "NOT answered: ");
		escape_text(&outcome, str_of(err.msg), escape_mode_here(), 0, NULL);
	}
	console_answered(s->c, o->id, r == 0 || r == PAWL_E_CONFLICT, buf_str(&outcome), out);
	buf_done(&outcome);
	json_free(reply);
	refresh(s, out);
	if (s->tty)
		(void)tcflush(STDIN_FILENO, TCIFLUSH); /* typed for the card that was just answered */
}

/* 1: quit. */
static int take_line(struct session *s, struct buf *out)
{
	struct console_order order = { .what = CONSOLE_NOTHING };

	if (s->long_line)
		buf_puts(out, "that line was too long: nothing was done\n");
	else
		console_line(s->c, (struct str){ s->line, s->n }, &order, out);
	if (order.what == CONSOLE_ANSWER)
		answer(s, &order, out);
	else if (console_wants(s->c))
		refresh(s, out);
	s->n = 0;
	s->long_line = false;
	return order.what == CONSOLE_QUIT;
}

/* Bytes one at a time out of a block: lines behind an answer meet the list as it is after it. 1: end of input or quit.
 */
static int take_input(struct session *s, struct buf *out)
{
	char block[1024];
	ssize_t got = read(STDIN_FILENO, block, sizeof(block));

	if (got < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : 1;
	if (got == 0)
		return 1;
	for (ssize_t i = 0; i < got; i++) {
		if (block[i] == '\n') {
			if (take_line(s, out))
				return 1;
			if (s->tty)
				break; /* canonical input: one line a read */
		} else if (s->n < sizeof(s->line)) {
			s->line[s->n++] = block[i];
		} else {
			s->long_line = true;
		}
	}
	return 0;
}

static void prompt(struct session *s, struct buf *out)
{
	if (s->tty)
		console_prompt(s->c, out);
}

static int first_look(struct session *s, struct buf *out, struct pawl_error *err)
{
	struct card_view view = CARD_VIEW_SHORT;
	int r;

	ask_view(&s->ask, &view);
	s->ahead_s = view.now_s ? view.now_s - now_ms() / 1000 : INT64_MIN;
	r = console_new(&view, s->ask.key != NULL, &s->c, err);
	if (r < 0)
		return r;
	if (s->ask.key)
		buf_printf(out, "answering as %.*s; ", STR_ARG(s->ask.who.name));
	buf_puts(out, "? explains the keys\n");
	return look(s, out, err);
}

static int run(struct session *s)
{
	struct pollfd p = { STDIN_FILENO, POLLIN, 0 };
	struct buf out = BUF_MAX(MAX_TEXT);
	struct pawl_error err = { .code = PAWL_OK };
	int ended = 0, r = first_look(s, &out, &err);

	if (r < 0) {
		buf_done(&out);
		return ask_fail(s->ask.verb, &err);
	}
	prompt(s, &out);
	while (!ended && say(&out) == 0) {
		int64_t wait = console_asking(s->c) ? EVERY_MS : s->next_ms - now_ms();

		if (poll(&p, 1, wait < 0 ? 0 : (int)wait) < 0 && errno != EINTR)
			break;
		if (p.revents) {
			ended = take_input(s, &out);
			if (!ended)
				prompt(s, &out);
		} else if (!console_asking(s->c) && now_ms() >= s->next_ms) {
			refresh(s, &out);
			if (out.n && s->tty) { /* the line that is being typed stands before it */
				buf_puts(&out, "\n");
				prompt(s, &out);
			}
		}
	}
	if (ended && console_asking(s->c))
		buf_puts(&out, "end of input before the reason: nothing was sent\n");
	r = say(&out);
	buf_done(&out);
	return ended && r == 0 ? 0 : 1;
}

/* No key where none was named is no failure: one may watch without. */
static int unlock(struct session *s, struct pawl_error *err)
{
	int r = ask_unlock(&s->ask, err);

	if (r == PAWL_E_SYS && err->os_errno == ENOENT && !s->ask.key_file) {
		(void)fprintf(stderr, "pawl console: no key: this console only watches (`pawl key new`, --key FILE)\n");
		return 0;
	}
	return r;
}

int cli_console(int argc, char **argv)
{
	static const char usage[] =
	    "usage: pawl console [--key FILE] [--as NAME]\n"
	    "Shows each card that waits for a person as it comes, and takes answers: r resume, s skip, a abort, then a "
	    "reason.\n"
	    "Plain lines, for any terminal, ssh or a pipe; ? explains, q or the end of input ends it.\n\n"
	    "  --key FILE    the operator's key (default: $PAWL_KEY, else operator.key in $XDG_CONFIG_HOME/pawl or\n"
	    "                ~/.config/pawl); without one it only watches\n"
	    "  --as NAME     the name that the key is enrolled under (default: the key's own name)\n"
	    "Exit status: 0 ended, 1 failed, 2 usage.\n";
	struct session *s = calloc(1, sizeof(*s));
	struct pawl_error err = { .code = PAWL_OK };
	int status = 1;

	if (!s)
		return 1;
	s->ask.verb = argv[0];
	s->tty = isatty(STDIN_FILENO) != 0;
	if (ask_options(&s->ask, argc, argv, ASK_KEY, usage, &status)) {
		if (s->ask.n_words)
			status = ask_usage(stderr, usage, 2);
		else if (unlock(s, &err) < 0)
			status = ask_fail(s->ask.verb, &err);
		else
			status = run(s);
	}
	ask_done(&s->ask);
	console_free(s->c);
	free(s);
	return status;
}
