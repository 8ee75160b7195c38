/* daemon/cli/console.c - see console.h. Owns the list of cards that wait, and which of them is being answered. */
#include "daemon/cli/console.h"

#include "daemon/cli/ask.h"

#include <stdlib.h>

struct seat {
	uint64_t id;
	bool tried, seen; /* its card was fetched; it was laid before the person */
	bool listed;
	struct card_amounts shown;
	char tool[PAWL_MAX_TOOL + 1]; /* as the list names it, for prompts; a tool's name is plain or it is not shown */
};

struct console {
	struct card_view view;
	bool can_answer, full, shadow;
	struct seat seat[CONSOLE_MAX_CARDS];
	size_t n;
	uint64_t current, lost, again; /* again: to be shown once more; lost: was current and went away by itself */
	const char *asking;            /* NULL, or the action whose reason is asked for */
	uint64_t asking_id;
	bool asking_tree;
	struct card_amounts asking_shown; /* the card may have grown, or be gone, while the reason is typed */
};

int console_new(const struct card_view *view, bool can_answer, struct console **ret, struct pawl_error *err)
{
	struct console *c = calloc(1, sizeof(*c));

	if (!c)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	c->view = *view;
	c->can_answer = can_answer;
	*ret = c;
	return 0;
}

void console_free(struct console *c)
{
	free(c);
}

void console_clock(struct console *c, int64_t now_s)
{
	c->view.now_s = now_s;
}

void console_mode(struct console *c, struct str mode, struct buf *out)
{
	bool shadow = str_is(mode, "shadow");

	if (mode.n == 0 || shadow == c->shadow)
		return;
	c->shadow = shadow;
	buf_puts(out, shadow ? "MODE SHADOW: pawld refuses nothing and asks nobody anew; what it would have answered is in the log\n"
			     : "mode enforce: pawld refuses and asks again\n");
}

static struct seat *find(struct console *c, uint64_t id)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->seat[i].id == id)
			return &c->seat[i];
	return NULL;
}

static void take_out(struct console *c, size_t i)
{
	memmove(&c->seat[i], &c->seat[i + 1], (c->n - i - 1) * sizeof(c->seat[0]));
	c->n--;
}

/* ---- what waits ---- */

void console_list_begin(struct console *c)
{
	c->full = false;
	for (size_t i = 0; i < c->n; i++)
		c->seat[i].listed = false;
}

static void name_seat(struct seat *s, struct str tool)
{
	bool plain = tool.n > 0 && tool.n < sizeof(s->tool);

	for (size_t i = 0; plain && i < tool.n; i++)
		plain = tool.p[i] > 0x20 && tool.p[i] < 0x7f && tool.p[i] != '\\';
	if (!plain)
		tool = STR("?");
	memcpy(s->tool, tool.p, tool.n);
	s->tool[tool.n] = '\0';
}

void console_list_page(struct console *c, const struct json *cards)
{
	for (size_t i = 0; i < json_size(cards); i++) {
		const struct json *card = json_at(cards, i);
		struct str state = json_string(json_get(card, "state"));
		uint64_t id = card_id(card);
		struct seat *s = find(c, id);

		if (!id || (state.p && !str_is(state, "pending")))
			continue;
		if (s) {
			s->listed = true;
		} else if (c->n < CONSOLE_MAX_CARDS) {
			c->seat[c->n] = (struct seat){ .id = id, .listed = true };
			name_seat(&c->seat[c->n++], json_string(json_get(card, "tool")));
		} else {
			c->full = true;
		}
	}
}

void console_list_end(struct console *c, bool more, struct buf *out)
{
	if (more && c->n < CONSOLE_MAX_CARDS)
		return; /* pages are missing: a card that was not listed may still wait */
	for (size_t i = 0; i < c->n;) {
		uint64_t id = c->seat[i].id;

		if (c->seat[i].listed) {
			i++;
			continue;
		}
		if (c->seat[i].seen)
			buf_printf(out, "r_%llu waits no more: answered elsewhere, closed or out of time\n",
				   (unsigned long long)id);
		if (c->current == id) {
			c->current = 0;
			c->lost = id;
		}
		take_out(c, i);
	}
}

uint64_t console_wants(const struct console *c)
{
	if (c->again)
		return c->again;
	for (size_t i = 0; i < c->n; i++)
		if (!c->seat[i].tried)
			return c->seat[i].id;
	return 0;
}

void console_card(struct console *c, uint64_t id, const struct json *card, struct buf *out)
{
	struct seat *s = find(c, id);

	c->again = 0;
	if (!s)
		return;
	s->tried = true; /* also when it could not be had: asked once, not every second */
	if (!card || card_id(card) != id) {
		buf_printf(
		    out,
		    "\n== r_%llu ==\nits card could not be had; it cannot be answered unseen (v r_%llu tries again)\n",
		    (unsigned long long)id, (unsigned long long)id);
		return;
	}
	card_show(&c->view, card, out);
	s->seen = true;
	s->shown = card_amounts(card);
	if (!c->current && !c->lost)
		c->current = id;
	if (c->current != id)
		buf_printf(out, "(to answer it: r, s or a with r_%llu)\n", (unsigned long long)id);
}

/* ---- lines ---- */

static void help(const struct console *c, struct buf *out)
{
	buf_puts(
	    out,
	    "  r [ID]       resume: the call may run, once, these arguments only, if nothing else refuses it by then\n"
	    "  s [ID]       skip: the call is not run and not asked again in its session, which goes on\n"
	    "  a [ID]       abort: its session ends with all below it, and its agent may open no new one for a while\n"
	    "  a [ID] tree  abort from the root of the tree\n"
	    "               each asks for a reason: a line, Enter alone for none, a single . to think again\n"
	    "  v [ID]       show a card again\n"
	    "  l            list what waits\n"
	    "  q            quit; what waits goes on waiting, and is denied when its time is over\n"
	    "Without ID the card named in the prompt is meant. Right of the bar stands what others chose; \\u{...} is "
	    "a\n"
	    "character that hides, turns or imitates text.\n");
	if (!c->can_answer)
		buf_puts(out, "No key is in use: this console only watches.\n");
}

static void list(const struct console *c, struct buf *out)
{
	for (size_t i = 0; i < c->n; i++)
		buf_printf(out, "%c r_%llu  %s\n", c->seat[i].id == c->current ? '*' : ' ',
			   (unsigned long long)c->seat[i].id, c->seat[i].tool);
	if (c->n == 0)
		buf_puts(out, "nothing waits\n");
	if (c->full)
		buf_printf(out, "more than %d wait: `pawl reviews` lists them\n", CONSOLE_MAX_CARDS);
}

/* Takes a word off the front; words are parted by blanks. */
static struct str word(struct str *line)
{
	struct str w;
	size_t n = 0;

	while (line->n && (line->p[0] == ' ' || line->p[0] == '\t' || line->p[0] == '\r'))
		*line = (struct str){ line->p + 1, line->n - 1 };
	while (n < line->n && line->p[n] != ' ' && line->p[n] != '\t' && line->p[n] != '\r')
		n++;
	w = (struct str){ line->p, n };
	*line = (struct str){ line->p + n, line->n - n };
	return w;
}

static const struct {
	const char *key, *name, *action;
} answers[] = { { "r", "resume", "resume" }, { "s", "skip", "skip" }, { "a", "abort", "abort" } };

/* The card a line means; 0 with a word about it. */
static uint64_t meant(struct console *c, struct str id_word, struct buf *out)
{
	uint64_t id = id_word.n ? card_id_parse(id_word, 'r', true) : c->current;
	const struct seat *s;

	if (!id_word.n && c->lost) {
		buf_printf(
		    out, "r_%llu waits no more and nothing was sent. Name the card that you mean, such as: r r_%llu\n",
		    (unsigned long long)c->lost, (unsigned long long)(c->n ? c->seat[0].id : c->lost));
		return 0;
	}
	if (!id_word.n && !id) {
		buf_puts(out, c->n ? "no card is chosen: name one (l lists them)\n" : "nothing waits\n");
		return 0;
	}
	s = id ? find(c, id) : NULL;
	if (!s)
		buf_puts(out, "no such card waits (l lists them)\n");
	return s ? id : 0;
}

static void begin(struct console *c, const char *action, struct str rest, struct buf *out)
{
	struct str id = word(&rest), tree = word(&rest);
	bool abort_it = strcmp(action, "abort") == 0;
	uint64_t card;

	if (str_is(id, "tree") && !tree.n) {
		tree = id;
		id = STR_NONE;
	}
	if (word(&rest).n || (tree.n && !(abort_it && str_is(tree, "tree")))) {
		buf_puts(out,
			 "not understood, nothing was sent: a key, perhaps an ID; the reason is asked for after it\n");
		return;
	}
	if (!c->can_answer) {
		buf_puts(out, "no key is in use: this console only watches (--key FILE)\n");
		return;
	}
	card = meant(c, id, out);
	if (!card)
		return;
	if (!find(c, card)->seen) {
		buf_printf(out, "r_%llu was not shown and cannot be answered unseen: v r_%llu\n",
			   (unsigned long long)card, (unsigned long long)card);
		return;
	}
	c->asking = action;
	c->asking_id = card;
	c->asking_tree = tree.n != 0;
	c->asking_shown = find(c, card)->shown;
}

static void reason(struct console *c, struct str line, struct console_order *ret, struct buf *out)
{
	if (str_is(line, ".")) {
		c->asking = NULL;
		buf_printf(out, "nothing was sent for r_%llu\n", (unsigned long long)c->asking_id);
		return;
	}
	if (!ask_reason_ok(line)) {
		buf_printf(
		    out,
		    "a reason has at most %d bytes of text without control characters: again, or . to think again\n",
		    PAWL_MAX_TEXT);
		return;
	}
	*ret = (struct console_order){ .what = CONSOLE_ANSWER, .id = c->asking_id, .action = c->asking, .tree = c->asking_tree, .reason = line };
	if (strcmp(c->asking, "resume") == 0)
		ret->shown = c->asking_shown;
	c->asking = NULL;
}

void console_line(struct console *c, struct str line, struct console_order *ret, struct buf *out)
{
	struct str rest = line, first;

	*ret = (struct console_order){ .what = CONSOLE_NOTHING };
	while (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	if (c->asking) {
		reason(c, line, ret, out);
		return;
	}
	first = word(&rest);
	for (size_t i = 0; i < PAWL_LEN(answers); i++)
		if (str_is(first, answers[i].key) || str_is(first, answers[i].name)) {
			begin(c, answers[i].action, rest, out);
			c->lost = 0;
			return;
		}
	c->lost = 0;
	if (str_is(first, "q") || str_is(first, "quit")) {
		ret->what = CONSOLE_QUIT;
	} else if (str_is(first, "v") || str_is(first, "view")) {
		uint64_t id = meant(c, word(&rest), out);

		c->again = id;
		if (id)
			c->current = id;
	} else if (str_is(first, "l") || str_is(first, "list")) {
		list(c, out);
	} else if (str_is(first, "?") || str_is(first, "help")) {
		help(c, out);
	} else if (first.n) {
		buf_puts(out, "not understood, nothing was sent: ? lists the keys\n");
	}
}

void console_answered(struct console *c, uint64_t id, bool gone, struct str outcome, struct buf *out)
{
	const struct seat *s = find(c, id);

	buf_printf(out, "r_%llu ", (unsigned long long)id);
	buf_str_add(out, outcome);
	buf_putc(out, '\n');
	if (!gone || !s)
		return;
	take_out(c, (size_t)(s - c->seat));
	if (c->current != id)
		return;
	/* the person has just spoken, so the next may be laid before them, whole */
	c->current = 0;
	if (c->n && c->seat[0].seen)
		c->current = c->again = c->seat[0].id;
}

bool console_asking(const struct console *c)
{
	return c->asking != NULL;
}

static const char *tool_of(const struct console *c, uint64_t id)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->seat[i].id == id)
			return c->seat[i].tool;
	return "?";
}

void console_prompt(const struct console *c, struct buf *out)
{
	if (c->asking)
		buf_printf(out, "%s%s r_%llu %s: reason (Enter sends, . does not): ", c->asking,
			   c->asking_tree ? " the whole tree of" : "", (unsigned long long)c->asking_id,
			   tool_of(c, c->asking_id));
	else if (c->current)
		buf_printf(out, "r_%llu %s, %zu waiting [r s a v l ? q]: ", (unsigned long long)c->current,
			   tool_of(c, c->current), c->n);
	else
		buf_printf(out, "%zu waiting [l ? q]: ", c->n);
}
